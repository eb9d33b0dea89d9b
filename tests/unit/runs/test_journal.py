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
from answerkey.models.batch import Submitted
from answerkey.models.cache import ROWS_AT_ONCE, CallCache
from answerkey.models.calls import Call
from answerkey.runs import journal as journals
from answerkey.runs.journal import Journal, Usage
from answerkey.types import Completion, CompletionStatus

ERROR = Completion(None, CompletionStatus.ERROR, error="HTTP 500", raw="<html>", attempts=5)
ASKED = [{"role": "user", "content": "?"}]
SAID = Completion("B", prompt=ASKED, prompt_tokens=10, completion_tokens=1, latency=0.5, attempts=1)


def make_call(key: str, sample_id: str = "000001") -> Call:
    """Return a call."""
    return Call(key=key, sample_id=sample_id, trial=0, messages=ASKED, purpose="solve")


def read_rows(folder: Path) -> list[tuple[object, ...]]:
    """Return what the file holds, as another program sees it."""
    connection = sqlite3.connect(folder / "journal.sqlite")
    rows = connection.execute(
        "SELECT key, specification, sample_id, trial, purpose, status FROM calls ORDER BY key"
    ).fetchall()
    connection.close()
    return rows


def test_what_was_added_is_found_after_a_restart(tmp_path: Path) -> None:
    """A finished call comes back whole from a journal that is opened again."""
    journal = Journal(tmp_path)
    journal.task("mcqa").add([(make_call("a"), SAID), (make_call("b", "000002"), replace(SAID, text="C"))])
    journal.close()
    found = Journal(tmp_path).find([make_call("a"), make_call("b"), make_call("c")])
    assert found == {"a": SAID, "b": replace(SAID, text="C")}
    assert read_rows(tmp_path) == [
        ("a", "mcqa", "000001", 0, "solve", "OK"),
        ("b", "mcqa", "000002", 0, "solve", "OK"),
    ]


def test_a_killed_process_loses_nothing_that_was_added(tmp_path: Path) -> None:
    """What `add` returned for is on disk, however the process ends."""
    script = (
        "import os, sys; from pathlib import Path; from answerkey.runs.journal import Journal;"
        "from answerkey.models.calls import Call; from answerkey.types import Completion;"
        "journal = Journal(Path(sys.argv[1]));"
        "[journal.add([(Call(key=str(n), sample_id='1', trial=0, messages=[], purpose='solve'),"
        " Completion('A'))]) for n in range(50)];"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == -9
    assert len(Journal(tmp_path).find([make_call(str(n)) for n in range(60)])) == 50


def test_failed_calls_are_kept_but_asked_again(tmp_path: Path) -> None:
    """An error is in the journal, is not found, and gives way to what the model says later."""
    journal = Journal(tmp_path)
    journal.add([(make_call("a"), ERROR)])
    assert journal.find([make_call("a")]) == {}
    assert journal.count() == {"ERROR": 1}
    journal.add([(make_call("a"), SAID)])
    assert journal.find([make_call("a")]) == {"a": SAID}
    assert journal.count() == {"OK": 1}


def test_what_was_said_stays_said(tmp_path: Path) -> None:
    """Neither an error nor another answer to the same call replaces the first answer."""
    journal = Journal(tmp_path)
    journal.add([(make_call("a"), SAID)])
    journal.add([(make_call("a"), ERROR), (make_call("a"), replace(SAID, text="D"))])
    assert journal.find([make_call("a")]) == {"a": SAID}


def test_the_cache_is_asked_second_and_copied(tmp_path: Path) -> None:
    """What only the cache knows is found with source `cache`, and from then on in the journal."""
    cache = CallCache(file=tmp_path / "cache" / "calls.sqlite")
    cache.add([("a", SAID), ("b", replace(SAID, text="D"))])
    journal = Journal(tmp_path, cache)
    journal.add([(make_call("b"), SAID)])
    calls = [make_call("a"), make_call("b")]
    expected = {"a": replace(SAID, source="cache"), "b": SAID}
    assert journal.task("mcqa").find(calls) == expected
    journal.close()
    assert Journal(tmp_path).find(calls) == expected


def test_finished_calls_reach_the_cache(tmp_path: Path) -> None:
    """The next run finds them there; errors it does not."""
    cache = CallCache(file=tmp_path / "cache" / "calls.sqlite")
    Journal(tmp_path, cache).add([(make_call("a"), SAID), (make_call("b"), ERROR)])
    assert cache.list_known(["a", "b"]) == {"a"}


def test_usage_is_summed_by_task_and_purpose(tmp_path: Path) -> None:
    """Calls and tokens of all asked calls are summed, failed ones too; what the cache gave is left out."""
    journal = Journal(tmp_path)
    judged = replace(make_call("c"), purpose="judge:j")
    journal.task("mcqa").add([(make_call("a"), SAID), (make_call("b"), ERROR), (judged, SAID)])
    journal.task("mcqa").add([(make_call("d"), replace(SAID, source="cache"))])
    journal.task("other").add([(make_call("e"), SAID)])
    assert journal.sum_usage() == [
        Usage("mcqa", "judge:j", 1, 10, 1),
        Usage("mcqa", "solve", 2, 10, 1),
        Usage("other", "solve", 1, 10, 1),
    ]


def test_what_json_does_not_know_is_kept_all_the_same(tmp_path: Path) -> None:
    """Infinite log probabilities and halves of surrogate pairs are found again, and sums go on working."""
    odd = replace(
        SAID,
        text='say "NaN" or -Infinity \\" \ud800',
        logprobs=[{"token": "Infinity", "logprob": float("-inf")}, {"top": float("inf")}],
        error="\udfff",
    )
    journal = Journal(tmp_path)
    journal.task("mcqa").add([(make_call("a"), odd)])
    assert journal.find([make_call("a")]) == {"a": odd}
    assert journal.sum_usage() == [Usage("mcqa", "solve", 1, 10, 1)]
    assert [call.error for call in journal.list_calls("mcqa")] == ["\udfff"]


def test_a_journal_may_be_kept_in_memory() -> None:
    """A run without a folder has a journal without a file."""
    journal = Journal(None)
    journal.add([(make_call("a"), SAID)])
    assert journal.find([make_call("a")]) == {"a": SAID}
    journal.remove()


def test_threads_share_one_journal(tmp_path: Path) -> None:
    """Adding from several threads loses nothing."""
    journal = Journal(tmp_path)

    def work(number: int) -> None:
        for one in range(20):
            journal.add([(make_call(f"{number}-{one}"), SAID)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert journal.count() == {"OK": 160}


def test_a_removed_journal_leaves_no_file(tmp_path: Path) -> None:
    """A complete run needs none."""
    journal = Journal(tmp_path)
    journal.add([(make_call("a"), SAID)])
    journal.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"no database, and not a short file" * 40, b"SQLite format 3\0 cut"])
def test_a_damaged_journal_is_e503(tmp_path: Path, content: bytes) -> None:
    """It says that it may be deleted."""
    (tmp_path / "journal.sqlite").write_bytes(content)
    with pytest.raises(RunError, match="the journal of the run is damaged") as caught:
        Journal(tmp_path)
    assert caught.value.code == "E503"


def test_a_damaged_entry_is_e503(tmp_path: Path) -> None:
    """An entry that is no completion is not taken for one, and not asked behind the user's back."""
    journal = Journal(tmp_path)
    journal.add([(make_call("a"), SAID)])
    journal._connection.execute("UPDATE calls SET completion = '{}'")
    with pytest.raises(RunError, match="an entry cannot be read") as caught:
        journal.find([make_call("a")])
    assert caught.value.code == "E503"


def test_a_journal_of_another_version_is_e503(tmp_path: Path) -> None:
    """It is not guessed at."""
    journal = Journal(tmp_path)
    journal._connection.execute("PRAGMA user_version = 9")
    journal.close()
    with pytest.raises(RunError, match="it has version 9, this release reads 2"):
        Journal(tmp_path)


def test_a_full_disk_is_e502_and_loses_nothing(tmp_path: Path) -> None:
    """The calls of the failed write are not stored, those before it are, and there may be room later."""
    journal = Journal(tmp_path)
    journal.add([(make_call("a"), SAID)])
    pages = journal._connection.execute("PRAGMA page_count").fetchone()[0]
    journal._connection.execute(f"PRAGMA max_page_count = {pages}")
    big = [(make_call(f"b{n}"), replace(SAID, text="x" * 5000)) for n in range(20)]
    with pytest.raises(RunError, match="database or disk is full") as caught:
        journal.add(big)
    assert caught.value.code == "E502"
    assert "`answerkey resume` goes on" in str(caught.value.hint)
    assert journal.count() == {"OK": 1}
    journal._connection.execute("PRAGMA max_page_count = 100000")
    journal.add(big)
    assert journal.count() == {"OK": 21}


def test_a_journal_that_cannot_be_written_keeps_nothing_from_the_cache(tmp_path: Path) -> None:
    """What was paid for is in the cache, which may be on another disk."""
    cache = CallCache(file=tmp_path / "calls.sqlite")
    journal = Journal(tmp_path, cache)
    journal._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(RunError) as caught:
        journal.add([(make_call("k"), Completion("A"))])
    assert caught.value.code == "E502"
    assert cache.find({"k": []})["k"].text == "A"
    journal.close()
    cache.close()


def test_a_folder_that_cannot_be_written_is_e502(tmp_path: Path) -> None:
    """It is said at once, not at the first call."""
    with pytest.raises(RunError, match="unable to open") as caught:
        Journal(tmp_path / "nowhere")
    assert caught.value.code == "E502"


BATCH = Submitted("file-1", "model", ["a", "b"])


def test_a_batch_is_found_after_a_restart(tmp_path: Path) -> None:
    """First without its name, then with it; until it is ended, and only for its own model."""
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


def test_a_killed_process_leaves_its_batch(tmp_path: Path) -> None:
    """What `keep_batch` returned for is on disk, however the process ends."""
    script = (
        "import os, sys; from pathlib import Path; from answerkey.runs.journal import Journal;"
        "from answerkey.models.batch import Submitted;"
        "Journal(Path(sys.argv[1])).keep_batch(Submitted('file-1', 'model', ['a', 'b']));"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == -9
    assert Journal(tmp_path).list_batches("model") == [BATCH]


def test_a_journal_from_before_there_were_batches_has_none(tmp_path: Path) -> None:
    """It is opened as it is, and can hold them from then on."""
    with closing(Journal(tmp_path)) as journal:
        journal._connection.execute("DROP TABLE batches")
    with closing(Journal(tmp_path)) as journal:
        assert journal.list_batches("model") == []
        journal.keep_batch(BATCH)


def test_calls_may_be_written_first_and_made_safe_later(tmp_path: Path) -> None:
    """They are found at once; they reach the cache when they are on disk."""
    cache = CallCache(file=tmp_path / "calls.sqlite")
    journal = Journal(tmp_path, cache)
    ledger, finished = journal.task("mcqa"), [(make_call("a"), SAID)]
    ledger.write(finished)
    ledger.write([])
    assert (ledger.find([make_call("a")]), cache.find({"a": ASKED})) == ({"a": SAID}, {})
    ledger.settle(finished)
    assert cache.find({"a": ASKED})["a"].text == "B"
    journal.close()
    cache.close()
    bare = Journal(None)
    bare.task("mcqa").write(finished)
    bare.task("mcqa").settle(finished)
    assert bare.count() == {"OK": 1}


def test_many_calls_are_written_all_or_none(tmp_path: Path) -> None:
    """More than fit into one statement are one transaction; a full disk takes all of it back."""
    journal = Journal(tmp_path)
    many = [(make_call(f"k{n}"), replace(SAID, text="x" * 200)) for n in range(ROWS_AT_ONCE + 1)]
    pages = journal._connection.execute("PRAGMA page_count").fetchone()[0]
    journal._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(RunError, match="database or disk is full"):
        journal.add(many)
    assert journal.count() == {}
    journal._connection.execute("PRAGMA max_page_count = 100000")
    journal.add(many)
    assert journal.count() == {"OK": ROWS_AT_ONCE + 1}
    journal.close()


def test_keys_that_were_looked_for_in_vain_are_forgotten_when_they_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory does not grow with a run; what is written then is looked for once more."""
    monkeypatch.setattr(journals, "MOST_MISSING", 3)
    journal = Journal(tmp_path)
    for number in range(10):
        assert journal.find([make_call(f"k{number}")]) == {}
        assert len(journal._missing) <= 5
    journal.add([(make_call("k0"), SAID), (make_call("k9"), SAID)])
    assert sorted(journal.find([make_call(f"k{n}") for n in range(10)])) == ["k0", "k9"]
    journal.close()


def test_a_disk_that_fails_is_e502(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system says is in the message."""

    def fail(_file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    journal = Journal(tmp_path)
    monkeypatch.setattr(journals, "_sync_file", fail)
    with pytest.raises(RunError, match="cannot write the journal of the run: Input/output error") as caught:
        journal.add([(make_call("a"), SAID)])
    assert caught.value.code == "E502"
    journal.close()


def test_a_closed_journal_is_a_bug_and_no_damage(tmp_path: Path) -> None:
    """Who uses one hears of it in Python's own words."""
    journal = Journal(tmp_path)
    journal.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        journal.count()


def test_what_a_reply_holds_is_stored_as_plain_values(tmp_path: Path) -> None:
    """Mappings and lists of any kind, and what JSON has no form for as its text."""
    odd = {"a": MappingProxyType({"b": ("c",)}), "d": UserList([1]), "e": Decimal("1.5")}
    with closing(Journal(tmp_path)) as journal:
        journal.add([(make_call("a"), replace(SAID, reply=odd))])
        found = journal.find([make_call("a")])["a"]
    assert found.reply == {"a": {"b": ["c"]}, "d": [1], "e": "1.5"}
