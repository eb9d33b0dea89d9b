from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import answerkey as ak
from answerkey.errors import DataError
from answerkey.exporters import export_rows

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

TASK = """\
key: small
display_name: Small
description: Four questions.
definition:
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice: "{{ sample.answer }}"
      choices: "{{ sample.choices }}"
      options: "{{ sample.options }}"
"""


def row(**fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a row as the shared schema has it."""
    return {
        "schema_version": "0.3.0",
        "evaluation_id": "arc/model/1",
        "model_id": "org/model",
        "evaluation_name": "arc",
        "sample_id": "7",
        "interaction_type": "single_turn",
        "input": {"raw": "Which?", "reference": ["two"], "choices": ["one", "two"]},
        "output": {"raw": ["It is B."], "reasoning_trace": ["hm"]},
        "answer_attribution": [{"turn_idx": 0, "source": "output.raw", "extracted_value": "B"}],
        "evaluation": {"score": 1.0, "is_correct": True},
        "token_usage": {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12},
        "metadata": {"subject": "maps"},
        **fields,
    }


def test_a_row_is_a_question_a_reply_and_a_verdict(desk: Desk) -> None:
    """Choices are options; the reference is one of them."""
    found = desk.bring(desk.lines("rows.jsonl", [row()]))
    told = found.description
    assert (found.kind, told.task, told.model) == ("every_eval_ever", "arc", "org/model")
    assert desk.dataset() == [
        {
            "sample_id": "7",
            "question": "Which?",
            "options": ["one", "two"],
            "choices": ["A", "B"],
            "answer": "B",
            "category": "maps",
            "original": '{"subject": "maps"}',
        }
    ]
    said = desk.completions()[0]
    names = ("completion", "reasoning", "their_score", "their_answer")
    assert [said[name] for name in names] == ["It is B.", "hm", 1.0, "B"]
    assert (said["prompt_tokens"], said["completion_tokens"]) == (9, 3)


def test_several_replies_are_trials_and_exchanges_end_with_theirs(desk: Desk) -> None:
    """What was said in several turns is what was said last."""
    desk.bring(desk.lines("rows.jsonl", [row(output={"raw": ["A", "B"]})]))
    assert [line["completion"] for line in desk.completions()] == ["A", "B"]
    turns = [
        {"turn_idx": 0, "role": "user", "content": "Q"},
        {"turn_idx": 1, "role": "assistant", "content": "C"},
    ]
    desk.bring(desk.lines("turns.jsonl", [row(output=None, messages=turns)]), out="turns")
    assert [line["completion"] for line in desk.completions("turns")] == ["C"]


def test_errors_and_silence_are_told_apart(desk: Desk) -> None:
    """An error without a reply is an ERROR."""
    rows = [row(output={"raw": []}, error="timeout"), row(sample_id="8", output={"raw": []})]
    desk.bring(desk.lines("rows.jsonl", rows))
    assert [line["completion_status"] for line in desk.completions()] == ["ERROR", "NO_TEXT"]


def test_a_row_without_an_id_is_named(desk: Desk) -> None:
    """With its line."""
    broken = row()
    del broken["sample_id"]
    with pytest.raises(DataError, match="the row has no `sample_id`"):
        desk.bring(desk.lines("rows.jsonl", [row(), broken]), "every_eval_ever")


@pytest.fixture
def run(tmp_path: Path) -> ak.Run:
    """Return a run in which one call failed and one reply was a refusal."""
    names = ("question", "choices", "answer", "completion", "completion_status")
    cells: list[tuple[object, ...]] = [
        ("one", ["A", "B"], "A", "A"),
        ("two", ["P", "Q"], "Q", "P."),
        ("three", ["A", "B"], "B", None, "REFUSED"),
        ("four", ["A", "B"], "B", None, "ERROR"),
    ]
    rows = [{**dict(zip(names, one, strict=False)), "options": ["x", "y"]} for one in cells]
    (tmp_path / "task.yaml").write_text(TASK, encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in rows), encoding="utf-8")
    return ak.run(
        tmp_path / "task.yaml", dataset=str(tmp_path / "rows.jsonl"), out=tmp_path / "run", allow_failed=1
    )


def test_an_export_has_a_row_for_each_verdict(run: ak.Run) -> None:
    """What was not scored has none, is left out, and is counted."""
    out = io.StringIO()
    found = export_rows(run, "every_eval_ever", task_key=None, file=None, stream=out)
    assert (found.rows, found.left_out) == (3, 1)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    assert rows[0]["input"] == {"raw": "one", "formatted": None, "reference": ["A"], "choices": ["x", "y"]}
    assert rows[0]["answer_attribution"][0]["extracted_value"] == "A"
    assert [one["evaluation"] for one in rows] == [
        {"score": 1.0, "is_correct": True},
        {"score": 0.0, "is_correct": False},
        {"score": 0.0, "is_correct": False},
    ]
    assert rows[2]["output"]["raw"] == []
    assert all(isinstance(value, str) for one in rows for value in one["metadata"].values())


def test_an_export_imports_again(run: ak.Run, desk: Desk) -> None:
    """Labels, options, truths, texts, statuses and verdicts are the same."""
    out = desk.folder / "rows-out.jsonl"
    export_rows(run, "every_eval_ever", task_key=None, file=str(out), stream=io.StringIO())
    assert desk.bring(out).kind == "every_eval_ever"
    assert [(one["choices"], one["options"], one["answer"]) for one in desk.dataset()] == [
        (["A", "B"], ["x", "y"], "A"),
        (["P", "Q"], ["x", "y"], "Q"),
        (["A", "B"], ["x", "y"], "B"),
    ]
    assert [
        (one["completion"], one["completion_status"], one["their_score"]) for one in desk.completions()
    ] == [("A", "OK", 1.0), ("P.", "OK", 0.0), (None, "REFUSED", 0.0)]


def test_a_folder_with_numbers_and_rows_is_recognised(desk: Desk) -> None:
    """The file of numbers is passed over."""
    (desk.folder / "model").mkdir()
    desk.json("model/x.json", {"schema_version": "0.3.0", "evaluation_id": "arc/model/1"})
    desk.lines("model/x_samples.jsonl", [row()])
    assert desk.bring(desk.folder / "model").kind == "every_eval_ever"
