from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from answerkey.exchange.drafts import LineDrafts
from answerkey.exchange.lines import Asked, Line, Theirs
from answerkey.types import Completion, CompletionStatus


def test_what_all_lines_have_in_common_is_known_at_the_end(tmp_path: Path) -> None:
    """Counts, statuses, truths, verdicts, and which columns hold anything."""
    drafts = LineDrafts(tmp_path)
    asked = Asked("q", ("A", "B"), ("x", "y"), "A", None, {"n": 1})
    drafts.add(Line("1", asked, Completion("A"), Theirs(1.0, "A")))
    drafts.add(Line("2", Asked("q", truth="B"), Completion(None, CompletionStatus.ERROR, error="e")))
    drafts.flush()
    seen = drafts.seen
    assert (seen.asked, seen.said, seen.with_choices, seen.with_options) == (2, 2, 1, 1)
    assert (seen.truths, dict(seen.statuses)) == ({"A", "B"}, {"OK": 1, "ERROR": 1})
    assert (seen.judged, seen.right) == (1, 1.0)
    assert "category" not in seen.present
    assert {"question", "options", "original", "error", "their_score"} <= seen.present
    assert pl.read_parquet(drafts.paths[0])["original"].to_list() == ['{"n": 1}', None]


def test_half_a_surrogate_pair_becomes_a_replacement_character(tmp_path: Path) -> None:
    """No file can hold it, and no line is lost for it."""
    drafts = LineDrafts(tmp_path)
    drafts.add(Line("1", Asked("a \ud800 b", options=("\udfff", "y")), Completion("ok")))
    drafts.flush()
    frame = pl.read_parquet(drafts.paths[0])
    assert frame["question"].to_list() == ["a \ufffd b"]
    assert frame["options"].to_list() == [["\ufffd", "y"]]


def test_a_text_that_no_table_would_take_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller says so by the line's place; other lines are taken."""
    monkeypatch.setattr("answerkey.exchange.drafts._MOST_CHARACTERS", 10)
    drafts = LineDrafts(tmp_path)
    assert not drafts.add(Line("1", Asked("q"), Completion("x" * 11)))
    assert drafts.add(Line("2", Asked("q" * 8), Completion("x" * 8)))
    assert drafts.seen.said == 1


def test_files_are_written_by_lines_and_by_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in memory does not grow with the log."""
    monkeypatch.setattr("answerkey.exchange.drafts.DRAFT_LINES", 4)
    monkeypatch.setattr("answerkey.exchange.drafts.DRAFT_CHARACTERS", 100)
    drafts = LineDrafts(tmp_path)
    for number in range(5):
        drafts.add(Line(str(number), None, Completion("x")))
    for number in range(2):
        drafts.add(Line(f"long {number}", None, Completion("x" * 60)))
    drafts.flush()
    assert [pl.read_parquet(path).height for path in drafts.paths] == [4, 3]
