"""Laws of variants of a prompt, from the file to the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.projects import SCORER, describe_solver, describe_task, write_rows

import answerkey as ak
from answerkey.comparison.compare import describe_variants
from answerkey.testing import TestServer

ROWS = [{"question": f"q{number}", "answer": "AB"[number % 2]} for number in range(20)]
Called = Callable[..., Any]


def build(content: str) -> dict[str, Any]:
    """Return an input builder with one message."""
    return {"type": "chat_completion", "input_messages": [{"role": "user", "content": content}]}


POLITE = {"key": "polite", "input_builder": build("please {{ sample.question }}")}
SHOUTED = {"key": "shouted", "input_builder": build("{{ sample.question }}!")}


def write(folder: Path, *variants: object, **changes: object) -> Path:
    """Write a task file and its rows; return the task file."""
    write_rows(folder / "rows.jsonl", ROWS)
    definition = {"solver": describe_solver(), "scorers": [SCORER], "variants": variants, **changes}
    (folder / "task.yaml").write_text(json.dumps(describe_task(**definition)))
    return folder / "task.yaml"


def answer(messages: Sequence[Mapping[str, Any]]) -> str:
    """Know the answer to every question that is asked politely, and always say A otherwise."""
    prompt = str(messages[-1]["content"])
    return "AB"[int(prompt.removeprefix("please q")) % 2] if prompt.startswith("please") else "A"


def test_every_variant_is_a_task_on_the_same_samples(tmp_path: Path, call: Called) -> None:
    """Each has its own key, numbers and prompts; every pair is compared sample by sample."""
    task = write(tmp_path, POLITE, SHOUTED)
    files: dict[str, Any] = {"dataset": tmp_path / "rows.jsonl", "out": tmp_path / "out"}
    with TestServer(answer) as server:
        run = ak.run(task, model=f"{server.url}#m", **files)
    values = {key: done.metrics["Accuracy"].value for key, done in run.tasks.items()}
    assert values == {"quiz": 0.5, "quiz-polite": 1.0, "quiz-shouted": 0.5}
    assert "q3!" in str(run.tasks["quiz-shouted"].completions["prompt"][3])
    (varied,) = describe_variants(run)
    (metric,) = varied["metrics"]
    assert metric["values"] == {"base": 0.5, "polite": 1.0, "shouted": 0.5}
    assert [metric[name] for name in ("min", "max", "spread")] == [0.5, 1.0, 0.5]
    pairs = varied["comparison"]["pairs"]
    assert [pair["difference"] for pair in pairs] == [-0.5, 0.0, 0.5]
    assert (pairs[0]["first"], pairs[0]["second"]) == ("base", "polite")
    assert pairs[0]["p_adjusted"] == pytest.approx(3 * 2 / 2**10)
    printed = call("show", run.path).out
    assert "3 variants of the prompt" in printed
    assert "Accuracy  50.00 %  100.00 %  50.00 %  50.00 %  100.00 %  50.00 %" in printed
    variant = call("show", run.path, "--json").json["variants"][0]
    assert variant["metrics"][0]["spread"] == 0.5
    assert variant["comparison"]["pairs"][0]["difference"] == -0.5


def test_an_incomplete_run_has_no_variants_summary(tmp_path: Path) -> None:
    """It goes on where it stopped, and says it then."""
    task = write(tmp_path, POLITE)
    files: dict[str, Any] = {"dataset": tmp_path / "rows.jsonl", "out": tmp_path / "out"}
    with TestServer(answer) as server:
        with pytest.raises(ak.AnswerkeyError):
            ak.run(task, model=f"{server.url}#m", max_calls=25, cache_policy="no-cache", **files)
        assert describe_variants(ak.load_run(tmp_path / "out")) == []
        run = ak.resume(tmp_path / "out")
        assert server.asked.total == 40
    assert describe_variants(run)[0]["metrics"][0]["spread"] == 0.5


def test_recorded_completions_are_those_of_the_task_itself(tmp_path: Path, call: Called) -> None:
    """Variants are left out, and a notice says so."""
    replies = tmp_path / "said.jsonl"
    replies.write_text("".join(json.dumps({"completion": "A"}) + "\n" for _ in ROWS))
    data, out = ("--dataset", tmp_path / "rows.jsonl"), ("--out", tmp_path / "out")
    words = (*data, "--completions", replies, *out, "--json")
    scored = call("score", write(tmp_path, POLITE), *words).json
    assert [entry["key"] for entry in scored["tasks"]] == ["quiz"]
    assert any("`variants` are left out" in entry for entry in scored["notices"])


@pytest.mark.parametrize(
    ("variant", "code", "words"),
    [
        ({"key": "x"}, "E108", "`input_builder` is missing"),
        ({"input_builder": build("q")}, "E108", "`key` is missing"),
        ({"key": "base", "input_builder": build("q")}, "E114", "`base` is used twice"),
        ({"key": "x", "input_builder": build("q"), "y": 1}, "E107", "unknown key `y`"),
        ({"key": "x", "input_builder": build("{{ sample.question")}, "E112", ""),
        ({"key": "x", "input_builder": build("{{ sample.nothing }}")}, "E206", "nothing"),
        (None, "", "the task's solver has none"),
    ],
)
def test_mistakes_in_a_variant_are_reported(
    tmp_path: Path, variant: dict[str, Any] | None, code: str, words: str, call: Called
) -> None:
    """With code and message; a task that asks nothing has no prompt to vary."""
    solver = {"solver": {"type": "pass_through_solver", "trace_column": "question"}}
    task = write(tmp_path, variant) if variant else write(tmp_path, POLITE, **solver)
    errors = call("check", task, "--dataset", tmp_path / "rows.jsonl", "--json").json["errors"]
    assert any(error["code"].startswith(code) and words in error["message"] for error in errors), (
        errors
    )
