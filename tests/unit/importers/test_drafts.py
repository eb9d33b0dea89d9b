from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from answerkey.importers.logs import Question, Record, Verdict
from answerkey.importers.project import RecordSpill
from answerkey.types import Completion, CompletionStatus


def test_what_all_records_have_in_common_is_known_at_the_end(tmp_path: Path) -> None:
    """Counts, statuses, truths, verdicts, and which columns hold anything."""
    spill = RecordSpill(tmp_path)
    asked = Question("q", ("A", "B"), ("x", "y"), "A", None, {"n": 1})
    spill.add(Record("1", asked, Completion("A"), Verdict(1.0, "A")))
    spill.add(Record("2", Question("q", truth="B"), Completion(None, CompletionStatus.ERROR, error="e")))
    spill.flush()
    counts = spill.counts
    assert (counts.questions, counts.completions, counts.with_choices, counts.with_options) == (2, 2, 1, 1)
    assert (counts.truths, dict(counts.statuses)) == ({"A", "B"}, {"OK": 1, "ERROR": 1})
    assert (counts.judged, counts.right) == (1, 1.0)
    assert "category" not in counts.present
    assert {"question", "options", "original", "error", "their_score"} <= counts.present
    assert pl.read_parquet(spill.paths[0])["original"].to_list() == ['{"n": 1}', None]


def test_half_a_surrogate_pair_becomes_a_replacement_character(tmp_path: Path) -> None:
    """No file can hold it, and no line is lost for it."""
    spill = RecordSpill(tmp_path)
    spill.add(Record("1", Question("a \ud800 b", options=("\udfff", "y")), Completion("ok")))
    spill.flush()
    frame = pl.read_parquet(spill.paths[0])
    assert frame["question"].to_list() == ["a \ufffd b"]
    assert frame["options"].to_list() == [["\ufffd", "y"]]


def test_a_text_that_no_table_would_take_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller says so by the line's place; other records are taken."""
    monkeypatch.setattr("answerkey.importers.project._MOST_CHARACTERS", 10)
    spill = RecordSpill(tmp_path)
    assert not spill.add(Record("1", Question("q"), Completion("x" * 11)))
    assert spill.add(Record("2", Question("q" * 8), Completion("x" * 8)))
    assert spill.counts.completions == 1


def test_files_are_written_by_records_and_by_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in memory does not grow with the log."""
    monkeypatch.setattr("answerkey.importers.project.SPILL_RECORDS", 4)
    monkeypatch.setattr("answerkey.importers.project.SPILL_CHARACTERS", 100)
    spill = RecordSpill(tmp_path)
    for number in range(5):
        spill.add(Record(str(number), None, Completion("x")))
    for number in range(2):
        spill.add(Record(f"long {number}", None, Completion("x" * 60)))
    spill.flush()
    assert [pl.read_parquet(path).height for path in spill.paths] == [4, 3]
