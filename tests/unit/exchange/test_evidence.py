from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import answerkey as ak
from answerkey.errors import Problems
from answerkey.exchange.evidence_task import write_yaml
from answerkey.reports.export import export_rows
from answerkey.runs import load_run

if TYPE_CHECKING:
    from tests.unit.exchange.conftest import Desk

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
ROWS = [
    {"q": "é", "letters": ["A", "B"], "right answer": "A", "topic": "x", "weight": 1.5, "completion": "A"},
    {
        "q": "two",
        "letters": ["A", "B"],
        "right answer": "B",
        "topic": "y",
        "weight": 2.0,
        "completion": "b) yes",
    },
    {
        "q": "three",
        "letters": ["A", "B"],
        "right answer": "B",
        "topic": "x",
        "weight": 0.0,
        "completion": "B",
    },
    {"q": None, "letters": ["A", "B"], "right answer": "B", "topic": "x", "weight": 3.0, "completion": None},
    {
        "q": "five",
        "letters": ["A", "B", "C"],
        "right answer": "C",
        "topic": "y",
        "weight": 1.0,
        "completion": None,
        "completion_status": "REFUSED",
    },
    {
        "q": "six",
        "letters": ["A", "B", "C"],
        "right answer": "C",
        "topic": "y",
        "weight": 1.0,
        "completion": "The answer is C",
        "completion_status": "OK",
        "finish_reason": "length",
    },
]
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


def export(run: ak.Run, file: Path) -> dict[str, Any]:
    """Write the evidence log of a run and return it."""
    export_rows(run, "evidence", task_key=None, file=str(file), stream=io.StringIO())

    def refuse(name: str) -> None:
        raise AssertionError(name)

    log: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"), parse_constant=refuse)
    return log


@pytest.fixture
def run(tmp_path: Path) -> ak.Run:
    """Return a run with groups, two scorers, an action, and replies of every kind."""
    (tmp_path / "task.yaml").write_text(PLAIN, encoding="utf-8")
    rows = "".join(f"{json.dumps(one)}\n" for one in ROWS)
    (tmp_path / "rows.jsonl").write_text(rows, encoding="utf-8")
    return ak.run(tmp_path / "task.yaml", dataset=str(tmp_path / "rows.jsonl"), out=tmp_path / "run")


def test_an_export_imports_to_the_same_numbers(run: ak.Run, desk: Desk) -> None:
    """Every metric, interval, group and count is what it was, bit for bit."""
    export(run, desk.folder / "evidence.json")
    found = desk.bring(desk.folder / "evidence.json")
    assert (found.kind, found.samples, found.told.score) == ("evidence", 6, "string_equals_mcqa.is_correct")
    again = ak.run(desk.folder / "out", out=desk.folder / "again")
    assert list(again.tasks) == ["quiz"]
    assert again.metrics == run.metrics
    assert again.tasks["quiz"].counts == run.tasks["quiz"].counts
    assert again.tasks["quiz"].scores.equals(run.tasks["quiz"].scores)
    theirs = again.tasks["quiz"].tally["theirs"]
    assert (theirs["compared"], theirs["both_right"] + theirs["both_wrong"]) == (6, 6)
    assert found.told.reported["Share right"] == run.metrics["Share right"].value


def test_an_import_exports_to_the_same_log(run: ak.Run, desk: Desk) -> None:
    """Samples, replies, scores and metrics of the log are what they were."""
    first = export(run, desk.folder / "evidence.json")
    desk.bring(desk.folder / "evidence.json")
    second = export(ak.run(desk.folder / "out", out=desk.folder / "again"), desk.folder / "second.json")
    for sample in second["evidence"]["samples"]:
        for trial in sample["trials"]:
            del trial["sample"]["data"]["sample_id"]
    # Where the replies came from is another file by now.
    for log in (first, second):
        for sample in log["evidence"]["samples"]:
            for name in ("completion", "completion_status", "finish_reason"):
                sample["trials"][0]["sample"]["data"].pop(name, None)
    assert second["evidence"] == first["evidence"]


def test_the_log_has_the_form_of_the_platform(run: ak.Run, tmp_path: Path) -> None:
    """Its keys are those that are documented."""
    log = export(run, tmp_path / "evidence.json")
    assert sorted(log) == [
        "app_version",
        "errors",
        "evidence",
        "execution",
        "format_version",
        "specification",
        "status",
    ]
    assert (log["format_version"], log["status"]) == ("v1", "success")
    evidence = log["evidence"]
    assert sorted(evidence) == ["errors", "failures", "metrics", "model_token_usages", "samples"]
    assert evidence["failures"] == {"num_errors": 0, "num_total": 6}
    assert evidence["metrics"][0] == {
        "values": {"Share right": run.metrics["Share right"].value},
        "metric_key": "mean",
        "metric_type": "mean",
        "scorer_key": "string_equals_mcqa",
        "scorer_purpose": "score",
        "scorer_name": "String Equality (Multiple Choice)",
        "reason": None,
    }
    third = evidence["samples"][2]
    assert third["action_records"] == [{"action": "exclude_from_metrics", "rule_key": "drop"}]
    (trial,) = third["trials"]
    assert sorted(trial) == ["errors", "index", "sample", "sample_id", "scores", "solver"]
    assert trial["solver"]["output"]["output"]["choices"][0]["message"] == {
        "role": "assistant",
        "content": "B",
    }
    assert (trial["sample"]["data"]["q"], third["scores"]) == ("three", trial["scores"])


def test_trials_come_back_with_their_aggregates(tmp_path: Path, desk: Desk) -> None:
    """A sample has its trials, and the scores that they come to."""
    (tmp_path / "task.yaml").write_text(TRIALS, encoding="utf-8")
    pl.DataFrame({"sample_id": ["p", "q"], "answer": ["A", "B"]}).write_parquet(tmp_path / "rows.parquet")
    pl.DataFrame(
        {
            "sample_id": ["p", "p", "q", "q"],
            "trial": [0, 1, 0, 1],
            "completion": ["A", "B", "A", "A"],
        }
    ).write_parquet(tmp_path / "said.parquet")
    run = ak.run(
        tmp_path / "task.yaml",
        dataset=str(tmp_path / "rows.parquet"),
        completions=str(tmp_path / "said.parquet"),
        out=tmp_path / "run",
    )
    log = export(load_run(tmp_path / "run"), tmp_path / "evidence.json")
    first = log["evidence"]["samples"][0]
    assert [one["index"] for one in first["trials"]] == [0, 1]
    assert first["scores"][0]["values"]["is_correct.pass@2"] == 1.0
    desk.bring(tmp_path / "evidence.json")
    assert ak.run(tmp_path / "out", out=tmp_path / "again").metrics == run.metrics


def test_failed_calls_stay_failed(tmp_path: Path, desk: Desk) -> None:
    """An ERROR is an error of the solver in the log, and an ERROR again."""
    once = TRIALS.partition("  trials:")[0] + TRIALS[TRIALS.index("  scorers") :]
    (tmp_path / "task.yaml").write_text(once, encoding="utf-8")
    rows = [
        {"answer": "A", "completion": "A"},
        {"answer": "B", "completion": None, "completion_status": "ERROR"},
    ]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in rows))
    run = ak.run(tmp_path / "task.yaml", dataset=str(tmp_path / "rows.jsonl"), out=tmp_path / "run")
    log = export(run, tmp_path / "evidence.json")
    assert log["evidence"]["failures"] == {"num_errors": 1, "num_total": 2}
    failed = log["evidence"]["samples"][1]["trials"][0]
    assert (failed["errors"][0]["stage"], failed["solver"]["output"], failed["scores"]) == (
        "solver",
        None,
        [],
    )
    assert desk.bring(tmp_path / "evidence.json").statuses == {"ERROR": 1, "OK": 1}


def platform_log(**fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a log as the platform writes it, without a task that could be used."""
    scores = [
        {
            "scorer_key": "mcqa",
            "scorer_purpose": "score",
            "values": {"is_correct": 1.0},
            "metadata": {"predicted_choice": "B", "ground_truth_choice": "B", "choices": ["A", "B"]},
        }
    ]
    message = {"role": "assistant", "content": "B", "refusal": None}
    trial = {
        "index": 0,
        "sample_id": "1",
        "sample": {"data": {"question": "Which?", "answer": "B"}},
        "solver": {"output": {"choices": [{"message": message}]}},
        "scores": scores,
        "errors": [],
    }
    sample = {"sample_id": "1", "trials": [trial], "scores": scores, "action_records": [], "errors": []}
    return {
        "format_version": "v1",
        "status": "success",
        "evidence": {"metrics": [], "samples": [sample]},
        "specification": {},
        **fields,
    }


def test_a_log_without_a_task_gets_one_that_fits(desk: Desk) -> None:
    """Choices and truths are those that the scorer noted; `NaN`, which the platform writes, is null."""
    text = json.dumps(platform_log()).replace('"metrics": []', '"metrics": [{"values": {"x": NaN}}]')
    (desk.folder / "log.json").write_text(text)
    found = desk.bring(desk.folder / "log.json")
    assert (found.kind, found.their_mean) == ("evidence", 1.0)
    assert desk.dataset()[0]["choices"] == ["A", "B"]
    assert ak.run(desk.folder / "out", out=desk.folder / "run").tasks


@pytest.mark.parametrize("value", ["$HOME", "<< config.x >>", {"$ref": "other.yaml"}])
def test_a_stated_task_is_never_a_way_to_look_elsewhere(desk: Desk, value: object) -> None:
    """References and values of the environment are not taken over from a log."""
    definition = {"scorers": [{"type": "string_equals", "ground_truth": "{{ sample.answer }}", "key": value}]}
    log = platform_log(specification={"task": {"key": "t", "definition": definition}})
    found = desk.bring(desk.json("log.json", log))
    assert any("cannot be used" in one.message for one in found.notices)
    assert (desk.folder / "out" / "dataset.parquet").is_file()
    assert "HOME" not in desk.text("task.yaml")


def test_words_about_a_task_are_taken_over_only_as_text(desk: Desk) -> None:
    """A description that names a value of the environment is left out."""
    scorer = {
        "type": "string_equals_mcqa",
        "ground_truth_choice": "{{ sample.answer }}",
        "choices": ["A", "B"],
    }
    task = {"key": "t", "description": "$HOME", "tags": ["x"], "definition": {"scorers": [scorer]}}
    desk.bring(desk.json("log.json", platform_log(specification={"task": task})))
    text = desk.text("task.yaml")
    assert ("HOME" in text, 'tags:\n  - "x"\n' in text) == (False, True)
    assert text.startswith("# yaml-language-server: $schema=.schemas/task.json\n")
    assert ak.run(desk.folder / "out", out=desk.folder / "run").metrics["Accuracy"].value == 1.0


def test_samples_that_are_broken_are_named_and_a_cut_log_too(desk: Desk) -> None:
    """With the reason that the log gives."""
    log = platform_log()
    lost = {
        "sample_id": "2",
        "trials": [],
        "errors": [{"error_type": "X", "message": "gone", "stage": "dataset"}],
    }
    log["evidence"]["samples"] += [lost, 3]
    with pytest.raises(Problems) as caught:
        desk.bring(desk.json("log.json", log))
    assert [one.message for one in caught.value.errors] == [
        "the sample has no trials: gone",
        "the sample has no trials: no reason is given",
    ]
    text = json.dumps(platform_log())
    (desk.folder / "cut.json").write_text(text[: text.index('"action_records"')])
    with pytest.raises(ak.DataError, match="not valid JSON"):
        desk.bring(desk.folder / "cut.json", "evidence")


def test_half_a_surrogate_pair_anywhere_is_no_obstacle(desk: Desk) -> None:
    """Names, descriptions and rows with one are written with U+FFFD in its place, and run."""
    scorer = {
        "type": "string_equals_mcqa",
        "ground_truth_choice": "{{ sample.answer }}",
        "choices": ["A", "B"],
    }
    task = {
        "key": "t",
        "display_name": "\ud800",
        "description": "\ud800",
        "definition": {"scorers": [scorer]},
    }
    log = platform_log(specification={"task": task, "model": {"name": "m\ud800"}})
    log["evidence"]["samples"][0]["trials"][0]["sample"]["data"]["question"] = "\ud800"
    desk.bring(desk.json("log.json", log))
    assert json.loads(desk.text("import.json"))["model"] == "m\ud800"
    assert ak.run(desk.folder / "out", out=desk.folder / "run").metrics["Accuracy"].value == 1.0


def test_any_text_stays_what_it_is_in_yaml() -> None:
    """Words that YAML reads as something else, and odd characters, are quoted."""
    lines = list(
        write_yaml({"key": "no", "list": ["yes", 1.5, None, True, []], "odd": "a\u2028\U0001f600: b"})
    )
    assert lines == [
        'key: "no"',
        "list:",
        '  - "yes"',
        "  - 1.5",
        "  - null",
        "  - true",
        "  - []",
        'odd: "a\\u2028\U0001f600: b"',
    ]


def test_orders_of_options_become_samples_with_the_truths_that_were_noted(desk: Desk) -> None:
    """The row's own truth is written for another order."""
    scorer = {
        "type": "string_equals_mcqa",
        "ground_truth_choice": "{{ sample.answer }}",
        "choices": ["A", "B"],
    }
    definition = {"scorers": [scorer], "choice_order": {"options": "{{ sample.options }}", "orders": "all"}}
    log = platform_log(specification={"task": {"key": "t", "definition": definition}})
    log["evidence"]["samples"][0]["trials"][0]["sample"]["data"]["answer"] = "A"
    found = desk.bring(desk.json("log.json", log))
    assert desk.dataset()[0]["answer"] == "B"
    assert any("several orders" in one.message for one in found.notices)


def test_code_that_shifts_bits_is_no_reference(desk: Desk) -> None:
    """`1 << 2` in a snippet is not looked up anywhere."""
    snippet = "def compute_scores(sample):\n    return {'is_correct': float(1 << 0)}\n"
    scorer = {
        "type": "python",
        "compute_scores_snippet": snippet,
        "metrics": [{"type": "mean", "field": "is_correct"}],
    }
    log = platform_log(specification={"task": {"key": "t", "definition": {"scorers": [scorer]}}})
    found = desk.bring(desk.json("log.json", log))
    assert not any("cannot be used" in one.message for one in found.notices)
    assert "float(1 << 0)" in desk.text("task.yaml")
