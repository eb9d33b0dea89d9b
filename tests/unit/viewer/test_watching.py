"""Laws of watching a run from outside."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from answerkey.models.calls import Call
from answerkey.models.store import CallStore
from answerkey.runs import forget_journal
from answerkey.types import Completion, CompletionStatus
from answerkey.viewer.catalog import RunFolder, is_under_way

SAID = Completion("B", prompt_tokens=10, completion_tokens=2, attempts=1)
ERROR = Completion(None, CompletionStatus.ERROR, error="HTTP 500", attempts=5)


def make_call(key: str) -> Call:
    """Return a call; one with the key `judged` is that of a judge."""
    purpose = "judge:x" if key == "judged" else "solve"
    messages = [{"role": "user", "content": "?"}]
    return Call(key=key, sample_id=key, trial=0, messages=messages, purpose=purpose)


def state(done: int, calls: int, failed: int) -> dict[str, int]:
    """Return what is done."""
    return {"done": done, "calls": calls, "failed": failed}


def test_calls_are_counted_while_they_are_written(tmp_path: Path) -> None:
    """Each look sees what was added since; what failed counts as done."""
    watch = RunFolder(tmp_path)
    assert watch.count_done() == state(0, 0, 0)
    known = replace(SAID, source="cache")
    with closing(CallStore(tmp_path / "calls.sqlite")) as journal:
        for calls, done in [
            ([("a", SAID), ("b", ERROR)], state(2, 2, 1)),
            ([("c", SAID), ("judged", SAID)], state(3, 4, 1)),
            ([], state(3, 4, 1)),
            ([("b", SAID)], state(3, 4, 0)),  # asked again: overwritten in its place
            ([("d", known)], state(4, 5, 0)),
        ]:
            journal.write([(make_call(key), one) for key, one in calls])
            assert watch.count_done() == done


def test_watching_leaves_no_trace(tmp_path: Path) -> None:
    """No file is made and none is changed, whether the journal is being written, closed or gone."""
    watch = RunFolder(tmp_path)
    watch.count_done()
    assert list(tmp_path.iterdir()) == []
    with closing(CallStore(tmp_path / "calls.sqlite")) as journal:
        journal.write([(make_call("a"), SAID)])
        before = set(tmp_path.iterdir())
        assert watch.count_done()["done"] == 1
        assert set(tmp_path.iterdir()) == before
    closed = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert RunFolder(tmp_path).count_done()["done"] == 1
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == closed


@pytest.mark.parametrize(
    "content", [b"", b"no database at all", b"SQLite format 3\x00" + bytes(100)]
)
def test_a_journal_that_cannot_be_read_is_left_for_later(tmp_path: Path, content: bytes) -> None:
    """It may be in the making."""
    (tmp_path / "calls.sqlite").write_bytes(content)
    assert RunFolder(tmp_path).count_done() == state(0, 0, 0)
    assert (tmp_path / "calls.sqlite").read_bytes() == content


def test_the_writer_is_never_held_up(tmp_path: Path) -> None:
    """While a watcher reads, calls are written and the journal is removed."""
    journal, watch = CallStore(tmp_path / "calls.sqlite"), RunFolder(tmp_path)
    journal.write([(make_call(str(number)), SAID) for number in range(100)])
    reader = sqlite3.connect(f"file:{tmp_path / 'calls.sqlite'}?mode=ro", uri=True)
    rows = reader.execute("SELECT key FROM calls")
    rows.fetchone()
    journal.write([(make_call("more"), SAID)])
    assert watch.count_done()["done"] == 101
    journal.close()
    forget_journal(tmp_path)
    reader.close()
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_grows_is_worked_on_wherever_that_is(tmp_path: Path) -> None:
    """The process may be one of another machine; an old journal says nothing."""
    (tmp_path / "lock").write_text("4194305\n", encoding="ascii")
    (tmp_path / "calls.sqlite").write_bytes(b"")
    assert is_under_way(tmp_path)
    os.utime(tmp_path / "calls.sqlite", (0, 0))
    assert not is_under_way(tmp_path)
