from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from answerkey.errors import DataError, Problems

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk


def row(number: int = 70, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a row as MMLU-Pro's evaluation writes it."""
    return {
        "question_id": number,
        "question": "Which?",
        "options": ["one", "two", "three"],
        "answer": "C",
        "answer_index": 2,
        "cot_content": "",
        "category": "maps",
        "src": "made",
        "pred": "C",
        "model_outputs": "The answer is (C).",
        **fields,
    }


def test_a_row_is_a_question_a_reply_and_a_reading(desk: Desk) -> None:
    """Whether they were right follows from what they read."""
    log = desk.json("model_outputs_some-model_5shots.json", [row(), row(71, pred="A")])
    found = desk.bring(log)
    assert (found.kind, found.samples, found.their_mean) == ("mmlu-pro", 2, 0.5)
    assert found.description.model == "some-model"
    assert desk.dataset()[0] == {
        "sample_id": "70",
        "question": "Which?",
        "options": ["one", "two", "three"],
        "choices": ["A", "B", "C"],
        "answer": "C",
        "category": "maps",
        "original": '{"question_id": 70, "answer": "C", "answer_index": 2, "cot_content": "", '
        '"category": "maps", "src": "made"}',
    }
    assert desk.completions()[1] == {
        "sample_id": "71",
        "completion": "The answer is (C).",
        "completion_status": "OK",
        "their_score": 0.0,
        "their_answer": "A",
    }


def test_the_text_may_stand_under_other_names(desk: Desk) -> None:
    """In some files it is `generated_text`, or a list."""
    one = row(generated_text="B")
    del one["model_outputs"]
    desk.bring(desk.json("x.json", [one, row(71, model_outputs=["A"])]), "mmlu-pro")
    assert [line["completion"] for line in desk.completions()] == ["B", "A"]


def test_what_they_guess_is_no_verdict(desk: Desk) -> None:
    """Where their pattern read nothing, a letter is drawn at random there, and not here."""
    found = desk.bring(desk.json("x.json", [row(pred=None), row(71)]))
    assert (found.judged, desk.completions()[0]["their_score"]) == (1, None)
    assert found.notices[0].message == "in 1 replies their pattern read nothing"


def test_an_archive_and_a_folder_of_subjects_are_read_whole(desk: Desk, tmp_path: Path) -> None:
    """Summaries beside the lists are passed over."""
    files = {"a_result.json": [row(1)], "a_summary.json": {"total": {}}, "b_result.json": [row(2)]}
    assert desk.bring(desk.archive("out.zip", files, method=8)).samples == 2
    (tmp_path / "folder").mkdir()
    for name, content in files.items():
        desk.json(f"folder/{name}", content)
    assert desk.bring(tmp_path / "folder", out="other").samples == 2
    packed = tmp_path / "rows.json.gz"
    packed.write_bytes(gzip.compress(json.dumps([row()]).encode()))
    assert desk.bring(packed, out="third").samples == 1


def test_rows_that_lack_what_they_need_are_named(desk: Desk) -> None:
    """By the line they end on."""
    with pytest.raises(Problems) as caught:
        desk.bring(desk.json("x.json", [row(), {"question_id": 2}, 3]), "mmlu-pro")
    lacks = "the row has no `question_id`, or no `options`"
    assert [one.message for one in caught.value.errors] == [lacks, lacks]


def test_an_archive_without_a_list_is_refused(desk: Desk) -> None:
    """There is nothing to import."""
    with pytest.raises(DataError, match="holds no list of rows"):
        desk.bring(desk.archive("out.zip", {"a_summary.json": {}}), "mmlu-pro")
