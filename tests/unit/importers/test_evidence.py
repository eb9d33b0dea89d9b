from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import answerkey as ak
from answerkey.errors import Problems
from answerkey.importers.project_files import write_yaml

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

#: Logs that answerkey wrote while it had `export --to evidence`.
LOGS = Path(__file__).parent / "logs"
PLAIN = """\
key: quiz
display_name: "Quiz \U0001f600"
description: Questions.
definition:
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice: "{{ sample['right answer'] }}"
      choices: "{{ sample.letters }}"
      metrics:
        - {type: mean, field: is_correct, name: Share right, group_by: [topic]}
        - {type: frequency, field: validity_reason}
    - type: string_equals
      key: exact
      purpose: qa
      ground_truth: "{{ sample['right answer'] }}"
  actions:
    - key: drop
      action: exclude_from_metrics
      filter: {op: equals, expression: "{{ sample.weight }}", value: 0}
"""
AB, ABC = ["A", "B"], ["A", "B", "C"]
COLUMNS = (
    "q",
    "letters",
    "right answer",
    "topic",
    "weight",
    "completion",
    "completion_status",
    "finish_reason",
)
CELLS: list[tuple[object, ...]] = [
    ("é", AB, "A", "x", 1.5, "A"),
    ("two", AB, "B", "y", 2.0, "b) yes"),
    ("three", AB, "B", "x", 0.0, "B"),
    (None, AB, "B", "x", 3.0, None),
    ("five", ABC, "C", "y", 1.0, None, "REFUSED"),
    ("six", ABC, "C", "y", 1.0, "The answer is C", "OK", "length"),
]
ROWS = [dict(zip(COLUMNS, cells, strict=False)) for cells in CELLS]
SCORER = {
    "type": "string_equals_mcqa",
    "ground_truth_choice": "{{ sample.answer }}",
    "choices": ["A", "B"],
}
TRIALS = """\
key: tried
display_name: Tried
description: Questions asked twice.
definition:
  trials:
    num_trials: 2
    score_aggregators:
      - {score_name: is_correct, aggregator: {function: "pass@k", k: 2}}
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice: "{{ sample.answer }}"
      choices: ["A", "B"]
"""


@pytest.fixture
def run(tmp_path: Path) -> ak.Run:
    """Return a run with groups, two scorers, an action, and replies of every kind."""
    (tmp_path / "task.yaml").write_text(PLAIN, encoding="utf-8")
    rows = "".join(f"{json.dumps(one)}\n" for one in ROWS)
    (tmp_path / "rows.jsonl").write_text(rows, encoding="utf-8")
    return ak.run(
        tmp_path / "task.yaml", dataset=str(tmp_path / "rows.jsonl"), out=tmp_path / "run"
    )


def test_a_log_with_its_task_imports_to_the_same_numbers(run: ak.Run, desk: Desk) -> None:
    """Every metric, interval, group and count is what it was, bit for bit."""
    found = desk.bring(LOGS / "evidence-quiz.json")
    assert (found.kind, found.samples) == ("evidence", 6)
    assert found.tasks[0].description.score == "string_equals_mcqa.is_correct"
    again = ak.run(desk.out, out=desk.folder / "again")
    assert list(again.tasks) == ["quiz"]
    assert again.metrics == run.metrics
    assert again.tasks["quiz"].counts == run.tasks["quiz"].counts
    assert again.tasks["quiz"].scores.equals(run.tasks["quiz"].scores)
    theirs = again.tasks["quiz"].totals["theirs"]
    assert (theirs["compared"], theirs["both_right"] + theirs["both_wrong"]) == (6, 6)
    assert found.tasks[0].description.reported["Share right"] == run.metrics["Share right"].value


def test_trials_come_back_with_their_aggregates(tmp_path: Path, desk: Desk) -> None:
    """A sample has its trials, and the task what they come to."""
    (tmp_path / "task.yaml").write_text(TRIALS, encoding="utf-8")
    rows = {"sample_id": ["p", "q"], "answer": ["A", "B"]}
    replies = {
        "sample_id": ["p", "p", "q", "q"],
        "trial": [0, 1, 0, 1],
        "completion": ["A", "B", "A", "A"],
    }
    pl.DataFrame(rows).write_parquet(tmp_path / "rows.parquet")
    pl.DataFrame(replies).write_parquet(tmp_path / "said.parquet")
    rows_file, said_file = (str(tmp_path / name) for name in ("rows.parquet", "said.parquet"))
    run = ak.run(
        tmp_path / "task.yaml", dataset=rows_file, completions=said_file, out=tmp_path / "run"
    )
    assert desk.bring(LOGS / "evidence-trials.json").tasks[0].num_trials == 2
    assert ak.run(desk.out, out=tmp_path / "again").metrics == run.metrics


def test_failed_calls_stay_failed(desk: Desk) -> None:
    """An error of the solver in the log is an ERROR."""
    assert desk.bring(LOGS / "evidence-failed.json").tasks[0].statuses == {"ERROR": 1, "OK": 1}


def platform_log(**fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a log as the platform writes it, without a task that could be used."""
    noted = {"predicted_choice": "B", "ground_truth_choice": "B", "choices": ["A", "B"]}
    named = {"scorer_key": "mcqa", "scorer_purpose": "score"}
    scores = [{**named, "values": {"is_correct": 1.0}, "metadata": noted}]
    message = {"role": "assistant", "content": "B", "refusal": None}
    trial = {
        "index": 0,
        "sample_id": "1",
        "sample": {"data": {"question": "Which?", "answer": "B"}},
        "solver": {"output": {"choices": [{"message": message}]}},
        "scores": scores,
        "errors": [],
    }
    sample = {
        "sample_id": "1",
        "trials": [trial],
        "scores": scores,
        "action_records": [],
        "errors": [],
    }
    return {
        "format_version": "v1",
        "status": "success",
        "evidence": {"metrics": [], "samples": [sample]},
        "specification": {},
        **fields,
    }


def test_a_log_without_a_task_gets_one_that_fits(desk: Desk) -> None:
    """Choices and truths are those that the scorer noted.

    `NaN`, which the platform writes, is null.
    """
    text = json.dumps(platform_log()).replace(
        '"metrics": []', '"metrics": [{"values": {"x": NaN}}]'
    )
    found = desk.bring(desk.write("log.json", text))
    assert (found.kind, found.tasks[0].their_mean) == ("evidence", 1.0)
    assert desk.asked("choices")[0] == ["A", "B"]
    assert ak.run(desk.out, out=desk.folder / "run").tasks


@pytest.mark.parametrize("value", ["$HOME", "<< config.x >>", {"$ref": "other.yaml"}])
def test_a_stated_task_is_never_a_way_to_look_elsewhere(desk: Desk, value: object) -> None:
    """References and values of the environment are not taken over from a log."""
    definition = {
        "scorers": [{"type": "string_equals", "ground_truth": "{{ sample.answer }}", "key": value}]
    }
    log = platform_log(specification={"task": {"key": "t", "definition": definition}})
    found = desk.bring(desk.json("log.json", log))
    assert any("cannot be used" in one.message for one in found.notices)
    assert (desk.out / "dataset.parquet").is_file()
    assert "HOME" not in desk.text("task.yaml")


def test_samples_that_are_broken_are_named_and_a_cut_log_too(desk: Desk) -> None:
    """With the reason that the log gives."""
    log = platform_log()
    errors = [{"error_type": "X", "message": "gone", "stage": "dataset"}]
    log["evidence"]["samples"] += [{"sample_id": "2", "trials": [], "errors": errors}, 3]
    error = desk.refuse("the sample has no trials: gone", desk.json("log.json", log))
    assert isinstance(error, Problems)
    assert error.errors[1].message == "the sample has no trials: no reason is given"
    text = json.dumps(platform_log())
    cut = desk.write("cut.json", text[: text.index('"action_records"')])
    desk.refuse("not valid JSON", cut, "evidence")


def test_half_a_surrogate_pair_anywhere_is_no_obstacle(desk: Desk) -> None:
    """Names, descriptions and rows with one are written with U+FFFD in its place, and run."""
    words = {"display_name": "\ud800", "description": "\ud800"}
    task = {"key": "t", **words, "definition": {"scorers": [SCORER]}}
    log = platform_log(specification={"task": task, "model": {"name": "m\ud800"}})
    log["evidence"]["samples"][0]["trials"][0]["sample"]["data"]["question"] = "\ud800"
    desk.bring(desk.json("log.json", log))
    assert json.loads(desk.text("import.json"))["model"] == "m\ud800"
    assert ak.run(desk.out, out=desk.folder / "run").metrics["Accuracy"].value == 1.0


def test_any_text_stays_what_it_is_in_yaml() -> None:
    """Words that YAML reads as something else, and odd characters, are quoted."""
    content = {"key": "no", "list": ["yes", 1.5, None, True, []], "odd": "a\u2028\U0001f600: b"}
    text = 'key: "no"|list:|  - "yes"|  - 1.5|  - null|  - true|  - []|odd: "a\\u2028\U0001f600: b"'
    assert list(write_yaml(content)) == text.split("|")


def test_orders_of_options_become_samples_with_the_truths_that_were_noted(desk: Desk) -> None:
    """The row's own truth is written for another order."""
    definition = {
        "scorers": [SCORER],
        "choice_order": {"options": "{{ sample.options }}", "orders": "all"},
    }
    log = platform_log(specification={"task": {"key": "t", "definition": definition}})
    log["evidence"]["samples"][0]["trials"][0]["sample"]["data"]["answer"] = "A"
    found = desk.bring(desk.json("log.json", log))
    assert desk.asked("answer")[0] == "B"
    assert any("several orders" in one.message for one in found.notices)


def test_code_that_shifts_bits_is_no_reference(desk: Desk) -> None:
    """`1 << 2` in a snippet is not looked up anywhere."""
    snippet = "def compute_scores(sample):\n    return {'is_correct': float(1 << 0)}\n"
    metrics = [{"type": "mean", "field": "is_correct"}]
    scorer = {"type": "python", "compute_scores_snippet": snippet, "metrics": metrics}
    log = platform_log(specification={"task": {"key": "t", "definition": {"scorers": [scorer]}}})
    found = desk.bring(desk.json("log.json", log))
    assert not any("cannot be used" in one.message for one in found.notices)
    assert "float(1 << 0)" in desk.text("task.yaml")
