"""Laws of the journal of a run."""

from __future__ import annotations

import errno
import sqlite3
import subprocess
import sys
from collections import UserList
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType

import pytest

from answerkey.errors import RunError
from answerkey.models.cache import ROWS_AT_ONCE, CallCache
from answerkey.models.calls import Call, Submitted
from answerkey.runs import journal as journals
from answerkey.runs.journal import Journal, Usage, remove_journal
from answerkey.runs.store import FolderStore
from answerkey.types import USAGE_NAMES, Completion, CompletionStatus

ERROR = Completion(None, CompletionStatus.ERROR, error="HTTP 500", raw="<html>", attempts=5)
ASKED = [{"role": "user", "content": "?"}]
SAID = Completion("B", prompt=ASKED, prompt_tokens=10, completion_tokens=1, latency=0.5, attempts=1)
BATCH = Submitted("file-1", "model", ["a", "b"])


def make_call(key: str, sample_id: str = "000001", purpose: str = "solve") -> Call:
    """Return a call."""
    return Call(key=key, sample_id=sample_id, trial=0, messages=ASKED, purpose=purpose)


def test_what_was_added_is_found_after_a_restart(tmp_path: Path) -> None:
    """A finished call comes back whole from a journal that is opened again; other programs can read it."""
    with closing(Journal(tmp_path)) as journal:
        other = (make_call("b", "000002"), replace(SAID, text="C"))
        journal.task("mcqa").add([(make_call("a"), SAID), other])
    with closing(Journal(tmp_path)) as journal:
        found = journal.find([make_call("a"), make_call("b"), make_call("c")])
    assert found == {"a": SAID, "b": replace(SAID, text="C")}
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as file:
        columns = "key, specification, sample_id, trial, purpose, status"
        assert file.execute(f"SELECT {columns} FROM calls ORDER BY key").fetchall() == [  # noqa: S608
            ("a", "mcqa", "000001", 0, "solve", "OK"),
            ("b", "mcqa", "000002", 0, "solve", "OK"),
        ]


def test_a_killed_process_loses_nothing_that_was_added(tmp_path: Path) -> None:
    """What `add` or `keep_batch` returned for is on disk, however the process ends."""
    script = (
        "import os, sys; from pathlib import Path; from answerkey.runs.journal import Journal;"
        "from answerkey.models.batch import Submitted;"
        "from answerkey.models.calls import Call; from answerkey.types import Completion;"
        "journal = Journal(Path(sys.argv[1]));"
        "[journal.add([(Call(key=str(n), sample_id='1', trial=0, messages=[], purpose='solve'),"
        " Completion('A'))]) for n in range(50)];"
        "journal.keep_batch(Submitted('file-1', 'model', ['a', 'b']));"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == -9
    with closing(Journal(tmp_path)) as journal:
        assert len(journal.find([make_call(str(n)) for n in range(60)])) == 50
        assert journal.list_batches("model") == [BATCH]


def test_what_was_said_stays_said_and_failed_calls_are_asked_again() -> None:
    """An error is kept but not found; neither an error nor another answer replaces the first answer."""
    journal = Journal(None)
    journal.add([(make_call("a"), ERROR)])
    assert (journal.find([make_call("a")]), journal.count()) == ({}, (1, 1))
    journal.add([(make_call("a"), SAID)])
    journal.add([(make_call("a"), ERROR), (make_call("a"), replace(SAID, text="D"))])
    assert (journal.find([make_call("a")]), journal.count()) == ({"a": SAID}, (1, 0))


def test_the_cache_is_asked_second_and_copied(tmp_path: Path) -> None:
    """What only the cache knows is found with source `cache`, and from then on in the journal."""
    cache = CallCache("reuse", file=tmp_path / "cache" / "calls.sqlite")
    cache.add([("a", SAID), ("b", replace(SAID, text="D"))])
    calls, key = [make_call("a"), make_call("b")], {"a": make_call("a").messages}
    asked_at = cache.find(key)["a"].asked_at
    assert asked_at is not None
    expected = {"a": replace(SAID, source="cache", asked_at=asked_at), "b": SAID}
    with closing(Journal(tmp_path, cache)) as journal:
        journal.add([(make_call("b"), SAID), (make_call("c"), ERROR)])
        assert journal.task("mcqa").find(calls) == expected
    with closing(Journal(tmp_path)) as journal:
        assert journal.find(calls) == expected
        assert [(one.source, one.oldest) for one in journal.sum_usage("mcqa")] == [("cache", asked_at)]
    assert cache.list_known(["a", "b", "c"]) == {"a", "b"}


def name_tokens(*counts: int) -> dict[str, int]:
    """Return counts of tokens by name."""
    return dict(zip(USAGE_NAMES, counts, strict=True))


def test_usage_is_summed_by_task_purpose_and_source() -> None:
    """Calls, failed ones and retries are counted, tokens are summed; in the order of the first calls."""
    journal = Journal(None)
    judged = make_call("c", purpose="judge:j")
    journal.task("mcqa").add([(make_call("a"), SAID), (make_call("b"), ERROR), (judged, SAID)])
    journal.task("mcqa").add([(make_call("d"), replace(SAID, source="cache"))])
    journal.task("other").add([(make_call("e"), SAID)])
    batch = replace(SAID, source="batch", cached_tokens=4, cache_write_tokens=3, attempts=3)
    journal.task("other").add([(make_call("f"), batch)])
    assert journal.sum_usage() == [
        Usage("mcqa", "solve", "live", 2, 1, 4, name_tokens(10, 1, 0, 0, 0)),
        Usage("mcqa", "judge:j", "live", 1, 0, 0, name_tokens(10, 1, 0, 0, 0)),
        Usage("mcqa", "solve", "cache", 1, 0, 0, name_tokens(10, 1, 0, 0, 0)),
        Usage("other", "solve", "live", 1, 0, 0, name_tokens(10, 1, 0, 0, 0)),
        Usage("other", "solve", "batch", 1, 0, 2, name_tokens(10, 1, 0, 4, 3)),
    ]
    assert journal.sum_usage("other") == journal.sum_usage()[3:]


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_seconds_are_told_as_they_are_kept(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """To the last digit, by task, purpose and source, however many are read together; without any, none."""
    monkeypatch.setattr("answerkey.runs.journal.SUMMED_AT_ONCE", at_once)
    journal, exact = Journal(None), 0.09850300000000001
    spans = [
        (exact, "live"),
        (1.5, "batch"),
        (9.0, "cache"),
        (None, "live"),
        (float("inf"), "live"),
        (2, "live"),
    ]
    said = [replace(SAID, latency=seconds, source=source) for seconds, source in spans]
    journal.task("mcqa").add([(make_call(f"k{n}"), one) for n, one in enumerate(said)])
    journal.task("other").add([(make_call("x"), replace(SAID, latency=float("nan")))])
    found = {(one.specification, one.source): list(one.seconds) for one in journal.sum_usage()}
    assert found == {
        ("mcqa", "live"): [exact, float("inf"), 2.0],
        ("mcqa", "batch"): [1.5],
        ("mcqa", "cache"): [9.0],
        ("other", "live"): [],
    }
    assert [one.calls for one in journal.sum_usage("mcqa")] == [4, 1, 1]


def test_what_json_does_not_know_is_kept_all_the_same() -> None:
    """Infinite numbers and halves of surrogate pairs are found again; foreign values become plain ones."""
    odd = replace(
        SAID,
        text='say "NaN" or -Infinity \\" \ud800',
        logprobs=[{"token": "Infinity", "logprob": float("-inf")}, {"top": float("inf")}],
        error="\udfff",
    )
    reply = {"a": MappingProxyType({"b": ("c",)}), "d": UserList([1]), "e": Decimal("1.5")}
    journal = Journal(None)
    journal.task("mcqa").add([(make_call("a"), odd), (make_call("b"), replace(SAID, reply=reply))])
    found = journal.find([make_call("a"), make_call("b")])
    assert found["a"] == odd
    assert found["b"].reply == {"a": {"b": ["c"]}, "d": [1], "e": "1.5"}
    assert journal.sum_usage() == [Usage("mcqa", "solve", "live", 2, 0, 0, name_tokens(20, 2, 0, 0, 0))]
    journal.task("mcqa").add([(make_call("c"), replace(odd, status=CompletionStatus.ERROR))])
    assert [error for *_, error in journal.list_failed("mcqa")] == ["\udfff"]


def test_an_intact_record_is_none_that_is_damaged(tmp_path: Path) -> None:
    """Zero bytes, other texts and numbers have their checksum; changed fields do not."""
    odd = [make_call(f"k{n}", one) for n, one in enumerate(["a\0b", "", "\n", "é", "12"])]
    with closing(Journal(tmp_path)) as journal:
        journal.task("t\0").add([(call, SAID) for call in odd])
    with closing(Journal(tmp_path)) as journal:
        assert (journal.lost, len(journal.find(odd))) == (0, 5)
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as file:
        for place, change in enumerate(("trial = 1", "sample_id = x'ff'", "checksum = 'none'"), start=1):
            file.execute(f"UPDATE calls SET {change} WHERE place = {place}")  # noqa: S608 - constants
        file.commit()
    with closing(Journal(tmp_path)) as journal:
        assert (journal.lost, len(journal.find(odd))) == (3, 2)


def test_threads_share_one_journal(tmp_path: Path) -> None:
    """Adding from several threads loses nothing; a removed journal leaves no file."""
    journal = Journal(tmp_path)

    def work(number: int) -> None:
        for one in range(20):
            journal.add([(make_call(f"{number}-{one}"), SAID)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert journal.count() == (160, 0)
    journal.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):  # a bug, and no damage
        journal.count()
    remove_journal(FolderStore(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"no database, and not a short file" * 40, b"SQLite format 3\0 cut"])
def test_a_damaged_journal_is_e503(tmp_path: Path, content: bytes) -> None:
    """It says that it may be deleted."""
    (tmp_path / "journal.sqlite").write_bytes(content)
    with pytest.raises(RunError, match=r"E503.*the journal of the run is damaged"):
        Journal(tmp_path)


def test_an_entry_or_a_version_that_cannot_be_read_is_e503(tmp_path: Path) -> None:
    """What is no completion is not taken for one, and not asked behind the user's back."""
    with closing(Journal(tmp_path)) as journal:
        journal.add([(make_call("a"), SAID)])
        journal._connection.execute("UPDATE calls SET completion = '{}'")
        with pytest.raises(RunError, match=r"E503.*an entry cannot be read"):
            journal.find([make_call("a")])
        journal._connection.execute("PRAGMA user_version = 9")
    with pytest.raises(RunError, match="it has version 9, this release reads 2"):
        Journal(tmp_path)


@pytest.mark.parametrize("many", [20, ROWS_AT_ONCE + 1])
def test_a_full_disk_is_e502_and_loses_nothing(tmp_path: Path, many: int) -> None:
    """Calls are written all or none, more than fit into one statement, too; there may be room later."""
    journal = Journal(tmp_path)
    journal.add([(make_call("a"), SAID)])
    pages = journal._connection.execute("PRAGMA page_count").fetchone()[0]
    journal._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    big = [(make_call(f"b{n}"), replace(SAID, text="x" * 5000)) for n in range(many)]
    with pytest.raises(RunError, match="database or disk is full") as caught:
        journal.add(big)
    assert (caught.value.code, journal.count()) == ("E502", (1, 0))
    assert "`answerkey resume` goes on" in str(caught.value.hint)
    journal._connection.execute("PRAGMA max_page_count = 100000")
    journal.add(big)
    assert journal.count() == (many + 1, 0)
    journal.close()


def test_a_disk_that_fails_is_e502(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that cannot be written is told at once; what the system says is in the message."""
    with pytest.raises(RunError, match=r"E502.*unable to open"):
        Journal(tmp_path / "nowhere")

    def fail(_file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    journal = Journal(tmp_path)
    monkeypatch.setattr(journals, "_sync_file", fail)
    with pytest.raises(RunError, match=r"E502.*cannot write the journal of the run: Input/output error"):
        journal.add([(make_call("a"), SAID)])
    journal.close()


def test_a_journal_that_cannot_be_written_keeps_nothing_from_the_cache(tmp_path: Path) -> None:
    """What was paid for is in the cache, which may be on another disk."""
    with (
        closing(CallCache("reuse", file=tmp_path / "calls.sqlite")) as cache,
        closing(Journal(tmp_path)) as journal,
    ):
        journal.cache = cache
        journal._connection.execute("PRAGMA query_only = ON")
        with pytest.raises(RunError) as caught:
            journal.add([(make_call("k"), Completion("A"))])
        assert (caught.value.code, cache.find({"k": []})["k"].text) == ("E502", "A")


def test_a_batch_is_found_after_a_restart(tmp_path: Path) -> None:
    """First without its name, then with it; until it is ended, and only for its own model."""
    with closing(Journal(tmp_path)) as journal:
        journal._connection.execute("DROP TABLE batches")  # a journal from before there were any
    for batch in (BATCH, replace(BATCH, batch="batch_1")):
        with closing(Journal(tmp_path)) as journal:
            journal.keep_batch(batch)
        with closing(Journal(tmp_path)) as journal:
            assert journal.list_batches("model") == [batch]
            assert journal.list_batches("another") == []
    with closing(Journal(tmp_path)) as journal:
        journal.keep_batch(replace(BATCH, file="file-0"))
        assert [one.file for one in journal.list_batches("model")] == ["file-1", "file-0"]
        journal.end_batch(BATCH)
        assert [one.file for one in journal.list_batches("model")] == ["file-0"]


@pytest.mark.parametrize("is_in_memory", [True, False])
def test_calls_may_be_written_first_and_made_safe_later(tmp_path: Path, *, is_in_memory: bool) -> None:
    """They are found at once; they reach the cache when they are on disk."""
    cache, finished = CallCache("reuse", file=tmp_path / "calls.sqlite"), [(make_call("a"), SAID)]
    for journal in (Journal(None if is_in_memory else tmp_path, cache), Journal(None)):
        ledger = journal.task("mcqa")
        ledger.write(finished)
        ledger.write([])
        assert ledger.find([make_call("a")]) == {"a": SAID}
        assert (cache.find({"a": ASKED}) == {}) == (journal.cache is cache)
        ledger.settle(finished)
        assert cache.find({"a": ASKED})["a"].text == "B"
        journal.close()
    cache.close()


def test_keys_that_were_looked_for_in_vain_are_forgotten_when_they_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Memory does not grow with a run; what is written then is looked for once more."""
    monkeypatch.setattr(journals, "MOST_MISSING", 3)
    journal = Journal(None)
    for number in range(10):
        assert journal.find([make_call(f"k{number}")]) == {}
        assert len(journal._missing) <= 5
    journal.add([(make_call("k0"), SAID), (make_call("k9"), SAID)])
    assert sorted(journal.find([make_call(f"k{n}") for n in range(10)])) == ["k0", "k9"]
