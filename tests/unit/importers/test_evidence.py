"""Laws of evidence logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import answerkey as ak
from answerkey.errors import Problems

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

#: Logs that answerkey wrote while it had `export --to evidence`.
LOGS = Path(__file__).parent / "logs"


def test_verdicts_trials_and_failed_calls_come_back(desk: Desk) -> None:
    """An error of the solver in the log is an ERROR; the scorer's verdicts are compared."""
    imported = desk.bring(LOGS / "evidence-quiz.json")
    assert (imported.kind, imported.samples) == ("evidence", 6)
    assert imported.tasks[0].description.score == "string_equals_mcqa.is_correct"
    tasks = ak.run(desk.out, out=desk.folder / "run").tasks
    assert [task.totals["theirs"]["compared"] for task in tasks.values()] == [6]
    assert desk.bring(LOGS / "evidence-trials.json").tasks[0].num_trials == 2
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
    result = desk.bring(desk.write("log.json", text))
    assert (result.kind, result.tasks[0].their_mean) == ("evidence", 1.0)
    assert desk.asked("choices")[0] == ["A", "B"]
    assert ak.run(desk.out, out=desk.folder / "run").tasks


def test_samples_that_are_broken_are_named_and_a_cut_log_too(desk: Desk) -> None:
    """With the reason that the log gives."""
    log = platform_log()
    errors = [{"error_type": "X", "message": "gone", "stage": "dataset"}]
    log["evidence"]["samples"] += [{"sample_id": "2", "trials": [], "errors": errors}, 3]
    error = desk.refuse("the sample has no trials: gone", desk.json("log.json", log))
    assert isinstance(error, Problems)
    assert error.errors[1].message.endswith("the sample has no trials: no reason is given")
    text = json.dumps(platform_log())
    cut = desk.write("cut.json", text[: text.index('"action_records"')])
    desk.refuse("not valid JSON", cut, "evidence")


def test_half_a_surrogate_pair_anywhere_is_no_obstacle(desk: Desk) -> None:
    """Names, descriptions and rows with one are written with U+FFFD in its place, and run."""
    task = {"key": "t", "display_name": "\ud800"}
    log = platform_log(specification={"task": task, "model": {"name": "m\ud800"}})
    log["evidence"]["samples"][0]["trials"][0]["sample"]["data"]["question"] = "\ud800"
    desk.bring(desk.json("log.json", log))
    assert json.loads(desk.text("import.json"))["tasks"][0]["model"] == "m\ud800"
    assert ak.run(desk.out, out=desk.folder / "run").metrics["Accuracy"].value == 1.0
