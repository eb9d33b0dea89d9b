"""`resume` with a journal that was damaged: how much of it is lost is told, and no other answer is
taken.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.projects import write_rows

from answerkey.testing import TestServer

from .conftest import Call

if TYPE_CHECKING:
    from tests.unit.conftest import Bucket

JOURNAL = Path("half/calls.sqlite")
Stop = Callable[..., None]


@pytest.fixture
def stop(tmp_path: Path, server: TestServer, quiz: list[str], call: Call) -> Stop:
    """Return a function that leaves a run of 60 questions after 25 of them.

    It has no call cache.
    """
    rows = [{"question": f"question {number}?", "answer": "A"} for number in range(60)]
    write_rows(tmp_path / "rows.jsonl", rows)

    def run(out: object = "half") -> None:
        limit = ("--cache-policy", "no-cache", "--max-calls", 25)
        assert call("run", *quiz, *limit, "--out", out).code == 3
        assert server.asked.total == 25
        server.forget()

    return run


def change(statement: str) -> None:
    """Change a journal behind the back of the library."""
    with closing(sqlite3.connect(JOURNAL, isolation_level=None)) as journal:
        assert journal.execute(statement).rowcount > 0


def spoil(letter: bytes) -> None:
    """Turn one answer `A` into something else in the bytes of the file."""
    raw = JOURNAL.read_bytes()
    assert raw.count(b'"text":"A"') >= 1
    JOURNAL.write_bytes(raw.replace(b'"text":"A"', b'"text":"' + letter + b'"', 1))


def resume(call: Call, lost: int, answered: int) -> None:
    """Resume the run, and require that it says what is lost and known, and ends with the right
    number.
    """
    done = call("resume", "half", "--json")
    warning = f"warning: damaged or missing records of the journal: {lost}\n"
    assert (done.code, warning in done.err) == (0, lost > 0)
    assert f"calls: {answered} known, {60 - answered} left\n" in done.err
    assert done.json["tasks"][0]["metrics"][0]["value"] == 1.0
    notices = json.loads(Path("half/run.json").read_text())["notices"]
    assert any(f"records of the journal: {lost}" in notice for notice in notices) == (lost > 0)


DAMAGES: dict[str, tuple[Callable[[], object], int]] = {
    "none": (lambda: None, 0),
    "letter": (lambda: spoil(b"B"), 1),
    "status": (lambda: change("UPDATE calls SET status = 'ERROR' WHERE place = 5"), 1),
    "key": (
        lambda: change(
            "UPDATE calls SET key = (SELECT key FROM calls WHERE place = 8) WHERE place = 9"
        ),
        1,
    ),
    "deleted": (lambda: change("DELETE FROM calls WHERE place IN (7, 8)"), 2),
    "last": (lambda: change("DELETE FROM calls WHERE place = 25"), 1),
    "all": (lambda: change("DELETE FROM calls"), 25),
    "emptied": (lambda: JOURNAL.write_bytes(b""), 25),
    "removed": (JOURNAL.unlink, 25),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_lost_calls_are_asked_again(call: Call, stop: Stop, server: TestServer, kind: str) -> None:
    """No changed letter is taken for an answer.

    Exactly what is lost is asked again; nothing, no warning.
    """
    damage, lost = DAMAGES[kind]
    stop()
    damage()
    resume(call, lost=lost, answered=25 - lost)
    assert server.asked.total == 35 + lost


def test_what_is_lost_is_told_once(call: Call, stop: Stop, server: TestServer) -> None:
    """A run that stops again and goes on has a journal without gaps."""
    stop()
    change("DELETE FROM calls WHERE place IN (7, 25)")
    spoil(b"B")
    first = call("resume", "half", "--max-calls", 30)
    assert (first.code, "records of the journal: 3" in first.err) == (3, True)
    second = call("resume", "half")
    assert (second.code, "records of the journal" in second.err) == (0, False)
    assert "calls: 30 known, 30 left\n" in second.err
    assert server.asked.total == 38


@pytest.mark.parametrize(
    "ruin",
    [
        lambda raw: raw[: len(raw) // 2],
        lambda raw: raw[:4096] + b"\xa5" * 4096 + raw[8192:],
        lambda raw: b"no journal" * 500 + raw[5000:],
    ],
    ids=["cut", "page", "head"],
)
def test_a_file_that_sqlite_cannot_read_is_refused(
    call: Call, stop: Stop, server: TestServer, ruin: Callable[[bytes], bytes]
) -> None:
    """Nothing is asked until somebody has decided what to do; then the loss is told."""
    stop()
    JOURNAL.write_bytes(ruin(JOURNAL.read_bytes()))
    refused = call("resume", "half")
    assert (refused.code, server.asked.total) == (2, 0)
    assert refused.err.startswith("error[E503]: the journal of the run is damaged: ")
    assert json.loads(Path("half/run.json").read_text())["status"] == "incomplete"
    JOURNAL.unlink()
    resume(call, lost=25, answered=0)


def test_a_journal_that_lacks_its_end_is_told(call: Call, stop: Stop, server: TestServer) -> None:
    """Where SQLite still reads the file, what was in the part that is cut off is counted.

    Else it is E503.
    """
    stop()
    JOURNAL.write_bytes(JOURNAL.read_bytes()[:-1000])
    done = call("resume", "half")
    if done.code == 2:  # which pages are at the end depends on the lengths of the records
        assert "error[E503]: the journal of the run is damaged" in done.err
        assert server.asked.total == 0
        return
    match = re.search(
        r"records of the journal: (\d+)\n(?:.*\n)*calls: (\d+) known, (\d+) left\n", done.err
    )
    assert done.code == 0
    assert match is not None
    lost, answered, left = map(int, match.groups())
    assert lost > 0
    assert (answered, left) == (25 - lost, 35 + lost)
    assert server.asked.total == left


def test_a_damaged_copy_on_shared_storage_is_told(
    call: Call, stop: Stop, server: TestServer, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here, where the other one has the record, nothing is asked again.

    Elsewhere the lost record is.
    """
    url = f"{bucket.url}/half"
    stop(url)
    raw = bucket.get("half/calls.sqlite")
    bucket.put("half/calls.sqlite", raw.replace(b'"text":"A"', b'"text":"B"', 1))
    first = call("resume", url, "--max-calls", 30)
    assert "records of the journal: 1\n" in first.err
    assert "calls: 25 known, 35 left\n" in first.err
    assert server.asked.total == 5
    raw = bucket.get("half/calls.sqlite")
    bucket.put("half/calls.sqlite", raw.replace(b'"text":"A"', b'"text":"B"', 2))
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("elsewhere").absolute()))
    second = call("resume", url, "--json")
    assert second.code == 0
    assert "records of the journal: 2\n" in second.err
    assert "calls: 28 known, 32 left\n" in second.err
    assert second.json["tasks"][0]["metrics"][0]["value"] == 1.0
    assert server.asked.total == 37
