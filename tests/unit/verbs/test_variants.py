"""Laws of variants of a prompt, from the file to the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import answerkey as ak
from answerkey.comparison.variants import compare_variants
from answerkey.testing import TestServer

ROWS = [{"question": f"q{number}", "answer": "AB"[number % 2]} for number in range(20)]
SCORER = {
    "type": "string_equals_mcqa",
    "ground_truth_choice": "{{ sample.answer }}",
    "choices": ["A", "B"],
}
Called = Callable[..., Any]


def build(content: str) -> dict[str, Any]:
    """Return an input builder with one message."""
    return {"type": "chat_completion", "input_messages": [{"role": "user", "content": content}]}


def write_project(folder: Path, *variants: object, **changes: object) -> Path:
    """Write a task file and its rows; return the task file."""
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    solver = {"type": "single_turn_solver", "input_builder": build("{{ sample.question }}")}
    definition = {"solver": solver, "scorers": [SCORER], "variants": list(variants), **changes}
    task = {"key": "quiz", "display_name": "Quiz", "description": "", "definition": definition}
    (folder / "task.yaml").write_text(json.dumps(task))
    return folder / "task.yaml"


POLITE = {"key": "polite", "input_builder": build("please {{ sample.question }}")}
SHOUTED = {"key": "shouted", "input_builder": build("{{ sample.question }}!")}


def answer(messages: Sequence[Mapping[str, Any]]) -> str:
    """Know the answer to every question that is asked politely, and always say A otherwise."""
    prompt = str(messages[-1]["content"])
    return "AB"[int(prompt.removeprefix("please q")) % 2] if prompt.startswith("please") else "A"


def run_variants(folder: Path, *variants: object, **options: Any) -> ak.Run:  # noqa: ANN401 - as `run` takes them
    """Run the task with some variants against a server that answers as above."""
    task = write_project(folder, *variants)
    with TestServer(answer) as server:
        return ak.run(
            task, dataset=folder / "rows.jsonl", model=f"{server.url}#m", out=folder / "out", **options
        )


def test_every_variant_is_a_task_on_the_same_samples(tmp_path: Path) -> None:
    """Each has its own key, numbers and prompts."""
    run = run_variants(tmp_path, POLITE, SHOUTED)
    assert {key: task.metrics["Accuracy"].value for key, task in run.tasks.items()} == {
        "quiz": 0.5,
        "quiz-polite": 1.0,
        "quiz-shouted": 0.5,
    }
    assert "q3!" in str(run.tasks["quiz-shouted"].completions["prompt"][3])


def test_numbers_over_variants_are_min_median_max_and_spread(tmp_path: Path) -> None:
    """Every pair is compared sample by sample."""
    varied = compare_variants(run_variants(tmp_path, POLITE, SHOUTED))[0]
    metric = varied.metrics[0]
    assert metric["values"] == {"base": 0.5, "polite": 1.0, "shouted": 0.5}
    assert [metric[name] for name in ("min", "median", "max", "spread")] == [0.5, 0.5, 1.0, 0.5]
    assert varied.comparison is not None
    pairs = {(one.first, one.second): one for one in varied.comparison.pairs}
    assert len(pairs) == 3
    difference = pairs["base", "polite"].difference
    assert (difference.n, difference.value) == (20, -0.5)
    assert pairs["base", "polite"].p_adjusted == pytest.approx(3 * 2 / 2**10)
    assert pairs["base", "shouted"].difference.value == 0.0


def test_variants_are_in_the_summary_and_in_json(tmp_path: Path, call: Called) -> None:
    """Beside the numbers of each."""
    run = run_variants(tmp_path, POLITE)
    said = call("show", run.path).out
    assert "2 variants of the prompt" in said
    assert "Accuracy  50.00 %  75.00 %  100.00 %  50.00 %  50.00 %  100.00 %" in said
    found = call("show", run.path, "--json").json["variants"][0]
    assert found["metrics"][0]["spread"] == 0.5
    assert found["comparison"]["pairs"][0]["difference"] == -0.5


def test_a_run_that_is_not_complete_says_nothing_about_variants(tmp_path: Path) -> None:
    """It goes on where it stopped, and says it then."""
    task = write_project(tmp_path, POLITE)
    with TestServer(answer) as server:
        with pytest.raises(ak.AnswerkeyError):
            ak.run(
                task,
                dataset=tmp_path / "rows.jsonl",
                model=f"{server.url}#m",
                out=tmp_path / "out",
                max_calls=25,
                cache_policy="no-cache",
            )
        assert compare_variants(ak.load_run(tmp_path / "out")) == ()
        run = ak.resume(tmp_path / "out")
        assert server.asked.total == 40
    assert compare_variants(run)[0].metrics[0]["spread"] == 0.5


def test_recorded_completions_are_those_of_the_task_itself(tmp_path: Path, call: Called) -> None:
    """Variants are left out, and the user hears of it."""
    task = write_project(tmp_path, POLITE)
    said = tmp_path / "said.jsonl"
    said.write_text("".join(json.dumps({"completion": "A"}) + "\n" for _ in ROWS))
    words = ("--dataset", tmp_path / "rows.jsonl", "--completions", said, "--out", tmp_path / "out", "--json")
    found = call("score", task, *words).json
    assert [one["key"] for one in found["tasks"]] == ["quiz"]
    assert any("`variants` are left out" in one for one in found["notices"])


@pytest.mark.parametrize(
    ("variant", "code", "said"),
    [
        ({"key": "x"}, "E108", "`input_builder` is missing"),
        ({"input_builder": build("q")}, "E108", "`key` is missing"),
        ({"key": "base", "input_builder": build("q")}, "E114", "`base` is used twice"),
        ({"key": "x", "input_builder": build("q"), "y": 1}, "E107", "unknown key `y`"),
        ({"key": "x", "input_builder": build("{{ sample.question")}, "E112", ""),
        ({"key": "x", "input_builder": build("{{ sample.nothing }}")}, "E206", "nothing"),
    ],
)
def test_mistakes_in_a_variant_are_told_where_they_are(
    tmp_path: Path, variant: dict[str, Any], code: str, said: str, call: Called
) -> None:
    """With code, message and line."""
    task = write_project(tmp_path, variant)
    found = call("check", task, "--dataset", tmp_path / "rows.jsonl", "--json").json["errors"]
    assert any(one["code"] == code and said in one["message"] for one in found), found


def test_variants_need_a_solver_with_a_prompt(tmp_path: Path, call: Called) -> None:
    """A task that asks nothing has no prompt to vary."""
    task = write_project(tmp_path, POLITE, solver={"type": "pass_through_solver", "trace_column": "question"})
    found = call("check", task, "--dataset", tmp_path / "rows.jsonl", "--json").json["errors"]
    assert any("the task's solver has none" in one["message"] for one in found)
