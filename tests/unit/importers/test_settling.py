from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from answerkey.errors import DataError
from answerkey.importers.logs import Question, Record, Verdict
from answerkey.importers.project import NOT_IN_LOG, Joined, RecordSpill, join_records
from answerkey.types import Completion


@pytest.fixture(autouse=True, params=[3, 1_000])
def small_files(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a file after a few records, and order a few rows at a time; or all at once."""
    monkeypatch.setattr("answerkey.importers.project.SPILL_RECORDS", request.param)
    monkeypatch.setattr("answerkey.importers.project.CHUNK_ROWS", request.param)


def record(name: str, trial: int = 0, text: str | None = None, *, asks: bool = True) -> Record:
    """Return a record; its question and its text say whose it is."""
    asked = Question(question=f"ask {name}", choices=("A", "B"), truth="A") if asks else None
    said = Completion(text or f"{name} {trial}") if text != "" else None
    return Record(name, asked, said, Verdict(1.0, "A"), trial)


def join(folder: Path, records: list[Record], *, last_wins: bool = False) -> Joined:
    """Write the tables of some records."""
    stage = folder / "stage"
    stage.mkdir()
    spill = RecordSpill(stage)
    for one in records:
        assert spill.add(one)
    spill.flush()
    return join_records(spill, folder, file="log", last_wins=last_wins)


def read(folder: Path, name: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return some columns of a table that was written."""
    return pl.read_parquet(folder / name).select(columns).rows()


def test_records_of_different_samples_keep_their_order(tmp_path: Path) -> None:
    """There is no column for trials where there is one of each."""
    found = join(tmp_path, [record(name) for name in "cabdegf"])
    assert found == Joined(7)
    assert read(tmp_path, "dataset.parquet", "sample_id", "question")[:2] == [("c", "ask c"), ("a", "ask a")]
    assert [row[0] for row in read(tmp_path, "completions.parquet", "completion")] == [
        f"{name} 0" for name in "cabdegf"
    ]
    assert pl.read_parquet(tmp_path / "completions.parquet").columns == [
        "sample_id",
        "completion",
        "completion_status",
        "their_score",
        "their_answer",
    ]


def test_samples_that_come_again_are_trials_in_any_order(tmp_path: Path) -> None:
    """Questions stand once; completions follow the order of samples, then of trials from 0 on."""
    order = [("b", 2), ("a", 1), ("c", 1), ("a", 3), ("b", 1), ("c", 3), ("c", 2), ("a", 2), ("b", 3)]
    found = join(tmp_path, [record(*one) for one in order])
    assert found == Joined(3, 3)
    assert read(tmp_path, "dataset.parquet", "sample_id") == [("b",), ("a",), ("c",)]
    assert read(tmp_path, "completions.parquet", "sample_id", "trial", "completion") == [
        ("b", 0, "b 1"),
        ("b", 1, "b 2"),
        ("b", 2, "b 3"),
        ("a", 0, "a 1"),
        ("a", 1, "a 2"),
        ("a", 2, "a 3"),
        ("c", 0, "c 1"),
        ("c", 1, "c 2"),
        ("c", 2, "c 3"),
    ]


def test_a_trial_that_is_missing_is_an_error(tmp_path: Path) -> None:
    """Never a wrong answer, and never left out."""
    found = join(tmp_path, [record("a", 1), record("a", 2), record("b", 2), record("c", 1)])
    assert found == Joined(3, 2, missing=2)
    columns = ("sample_id", "trial", "completion", "completion_status", "error")
    assert read(tmp_path, "completions.parquet", *columns) == [
        ("a", 0, "a 1", "OK", None),
        ("a", 1, "a 2", "OK", None),
        ("b", 0, None, "ERROR", NOT_IN_LOG),
        ("b", 1, "b 2", "OK", None),
        ("c", 0, "c 1", "OK", None),
        ("c", 1, None, "ERROR", NOT_IN_LOG),
    ]


def test_questions_and_answers_apart_belong_together_by_their_ids(tmp_path: Path) -> None:
    """The order is that of the questions; a question without an answer is an ERROR."""
    questions = [record(name, text="") for name in "abcdefg"]
    answers = [record(name, asks=False) for name in "gfdcba"]
    assert join(tmp_path, [*questions, *answers]) == Joined(7, missing=1)
    assert read(tmp_path, "dataset.parquet", "sample_id") == [(name,) for name in "abcdefg"]
    assert read(tmp_path, "completions.parquet", "sample_id", "completion") == [
        (name, None if name == "e" else f"{name} 0") for name in "abcdefg"
    ]


def test_answers_alone_become_completions_without_a_dataset(tmp_path: Path) -> None:
    """In their own order."""
    assert join(tmp_path, [record(name, asks=False) for name in "cab"]) == Joined(3)
    assert not (tmp_path / "dataset.parquet").exists()
    assert read(tmp_path, "completions.parquet", "sample_id") == [("c",), ("a",), ("b",)]


def test_an_answer_without_a_question_is_refused(tmp_path: Path) -> None:
    """With its id."""
    with pytest.raises(DataError, match=r"completions without a question: 1 \(`z`\)") as caught:
        join(tmp_path, [record("a", text=""), record("a", asks=False), record("z", asks=False)])
    assert caught.value.code == "E209"


def test_the_same_trial_twice_is_refused(tmp_path: Path) -> None:
    """Nobody can tell which of them counts."""
    with pytest.raises(DataError, match="samples are there twice: `b`") as caught:
        join(tmp_path, [record("a"), record("b"), record("b", text="other")])
    assert caught.value.code == "E208"


def test_the_last_of_the_same_trial_counts_where_a_tool_writes_anew(tmp_path: Path) -> None:
    """As its own readers do."""
    records = [record("a"), record("b"), record("a", text="new"), record("c")]
    assert join(tmp_path, records, last_wins=True) == Joined(3)
    assert read(tmp_path, "completions.parquet", "sample_id", "completion") == [
        ("a", "new"),
        ("b", "b 0"),
        ("c", "c 0"),
    ]
