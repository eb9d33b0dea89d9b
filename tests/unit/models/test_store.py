"""Laws of the store of calls as the journal of a run; `test_cache` has those of the cache."""

from __future__ import annotations

import errno
import json
import sqlite3
from array import array
from collections import UserList
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType

import pytest
from tests.processes import run_python

from answerkey.errors import RunError
from answerkey.models import store as stores
from answerkey.models.cache import CallCache, RunLedger
from answerkey.models.calls import Call, SubmittedBatch, save_calls
from answerkey.models.store import CallStore, Usage, decode_completion
from answerkey.runs import forget_journal
from answerkey.types import USAGE_NAMES, Completion, CompletionStatus

ERROR = Completion(None, CompletionStatus.ERROR, error="HTTP 500", raw="<html>", attempts=5)
ASKED = [{"role": "user", "content": "?"}]
SAID = Completion("B", prompt=ASKED, prompt_tokens=10, completion_tokens=1, latency=0.5, attempts=1)
BATCH = SubmittedBatch("file-1", "model", ["a", "b"])


def make_call(key: str, sample_id: str = "000001", purpose: str = "solve") -> Call:
    """Return a call."""
    return Call(key=key, sample_id=sample_id, trial=0, messages=ASKED, purpose=purpose)


def open_store(folder: Path) -> CallStore:
    """Open the journal in a folder, without its damaged records."""
    store = CallStore(folder / "calls.sqlite")
    store.mend()
    return store


def test_what_was_added_is_found_after_a_restart(tmp_path: Path) -> None:
    """A finished call comes back whole from a journal that is opened again.

    Other programs can read it.
    """
    with closing(open_store(tmp_path)) as journal:
        second = (make_call("b", "000002"), replace(SAID, text="C"))
        journal.write([(make_call("a"), SAID), second], "mcqa")
    with closing(open_store(tmp_path)) as journal:
        replies = journal.find([make_call("a"), make_call("b"), make_call("c")])
    assert replies == {"a": SAID, "b": replace(SAID, text="C")}
    with closing(sqlite3.connect(tmp_path / "calls.sqlite")) as file:
        columns = "key, task, sample_id, trial, purpose, status"
        assert file.execute(f"SELECT {columns} FROM calls ORDER BY key").fetchall() == [  # noqa: S608
            ("a", "mcqa", "000001", 0, "solve", "OK"),
            ("b", "mcqa", "000002", 0, "solve", "OK"),
        ]


def test_a_killed_process_loses_nothing_that_was_added(tmp_path: Path) -> None:
    """What `add` or `keep_batch` returned for is on disk, however the process ends."""
    script = (
        "import os, sys; from pathlib import Path; from answerkey.models.store import CallStore;"
        "from answerkey.models.batch import SubmittedBatch;"
        "from answerkey.models.calls import Call; from answerkey.types import Completion;"
        "journal = CallStore(Path(sys.argv[1]) / 'calls.sqlite');"
        "[journal.write([(Call(key=str(n), sample_id='1', trial=0, messages=[], purpose='solve'),"
        " Completion('A'))]) for n in range(50)];"
        "journal.keep_batch(SubmittedBatch('file-1', 'model', ['a', 'b']));"
        "os.kill(os.getpid(), 9)"
    )
    assert run_python("-c", script, tmp_path).returncode == -9
    with closing(open_store(tmp_path)) as journal:
        assert len(journal.find([make_call(str(n)) for n in range(60)])) == 50
        assert journal.list_batches("model") == [BATCH]


def test_what_was_said_stays_said_and_failed_calls_are_asked_again() -> None:
    """An error is kept but not found.

    Neither an error nor another answer replaces the first answer.
    """
    journal = CallStore(None)
    journal.write([(make_call("a"), ERROR)])
    assert (journal.find([make_call("a")]), journal.count()) == ({}, (1, 1))
    journal.write([(make_call("a"), SAID)])
    journal.write([(make_call("a"), ERROR), (make_call("a"), replace(SAID, text="D"))])
    assert (journal.find([make_call("a")]), journal.count()) == ({"a": SAID}, (1, 0))
    journal.write([(make_call("b"), ERROR), (make_call("b"), SAID), (make_call("b"), ERROR)])
    assert (journal.find([make_call("b")]), journal.count()) == ({"b": SAID}, (2, 0))


def test_the_cache_is_asked_second_and_copied(tmp_path: Path) -> None:
    """What only the cache knows is found with source `cache`, and from then on in the journal."""
    cache = CallCache("reuse", file=tmp_path / "cache" / "calls.sqlite")
    cache.add([(make_call("a"), SAID), (make_call("b"), replace(SAID, text="D"))])
    calls = [make_call("a"), make_call("b")]
    asked_at = cache.find(calls)["a"].asked_at
    assert asked_at is not None
    expected = {"a": replace(SAID, source="cache", asked_at=asked_at), "b": SAID}
    with closing(open_store(tmp_path)) as journal:
        ledger = RunLedger(journal, cache, "mcqa")
        journal.write([(make_call("b"), SAID), (make_call("c"), ERROR)])
        assert ledger.find([*calls, make_call("z")]) == expected
    with closing(open_store(tmp_path)) as journal:
        assert journal.find(calls) == expected
        assert [(usage.source, usage.oldest) for usage in journal.sum_usage("mcqa")] == [
            ("cache", asked_at)
        ]
    assert cache.list_known(["a", "b", "c"]) == {"a", "b"}


def test_a_call_that_concerns_one_run_alone_is_not_cached(tmp_path: Path) -> None:
    """Neither is it stored in the cache, nor looked for there."""
    cache = CallCache("reuse", file=tmp_path / "cache.sqlite")
    call = make_call("a")
    with closing(cache), closing(CallStore(None)) as journal:
        save_calls(RunLedger(journal, cache, ""), [(call._replace(is_cached=False), SAID)])
        assert cache.find([call]) == {}
        cache.add([(call, SAID)])
    with closing(cache), closing(CallStore(None)) as journal:
        assert RunLedger(journal, cache, "").find([call._replace(is_cached=False)]) == {}


def name_tokens(*counts: int) -> dict[str, int]:
    """Return counts of tokens by name."""
    return dict(zip(USAGE_NAMES, counts, strict=True))


def test_usage_is_summed_by_task_purpose_and_source() -> None:
    """Calls, failed ones and retries are counted, tokens are summed.

    In the order of the first calls.
    """
    journal = CallStore(None)
    judged = make_call("c", purpose="judge:j")
    journal.write([(make_call("a"), SAID), (make_call("b"), ERROR), (judged, SAID)], "mcqa")
    journal.write([(make_call("d"), replace(SAID, source="cache", asked_at=7))], "mcqa")
    journal.write([(make_call("f"), replace(SAID, source="cache", asked_at=5))], "mcqa")
    journal.write([(make_call("e"), SAID)], "other")
    batch = replace(SAID, source="batch", cached_tokens=4, cache_write_tokens=3, attempts=3)
    journal.write([(make_call("g"), replace(batch, latency=None))], "other")
    half, two = array("d", [0.5]), array("d", [0.5, 0.5])
    tokens, failures = name_tokens(10, 1, 0, 0, 0), [("000001", "HTTP 500")]
    assert journal.sum_usage() == [
        Usage("mcqa", "solve", "live", 2, 4, tokens, None, failures, half),
        Usage("mcqa", "judge:j", "live", 1, 0, tokens, None, [], half),
        Usage("mcqa", "solve", "cache", 2, 0, name_tokens(20, 2, 0, 0, 0), 5, [], two),
        Usage("other", "solve", "live", 1, 0, tokens, None, [], half),
        Usage("other", "solve", "batch", 1, 2, name_tokens(10, 1, 0, 4, 3)),
    ]
    assert journal.sum_usage("other") == journal.sum_usage()[3:]


def test_what_json_does_not_know_is_kept_all_the_same() -> None:
    """Halves of surrogate pairs are found again; foreign values become plain ones."""
    odd = replace(SAID, text='say "NaN" or -Infinity \\" \ud800', error="\udfff")
    reply = {"a": MappingProxyType({"b": ("c",)}), "d": UserList([1]), "e": Decimal("1.5")}
    journal = CallStore(None)
    journal.write([(make_call("a"), odd), (make_call("b"), replace(SAID, reply=reply))])
    replies = journal.find([make_call("a"), make_call("b")])
    assert (replies["a"], replies["b"].reply) == (odd, {"a": {"b": ["c"]}, "d": [1], "e": "1.5"})
    journal.write([(make_call("c"), replace(odd, status=CompletionStatus.ERROR))])
    (usage,) = journal.sum_usage()
    assert (usage.calls, usage.failures) == (3, [("000001", "\udfff")])


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_have_is_stored_as_null(number: float) -> None:
    """No record holds NaN or an infinite number, wherever a model puts it."""
    logprobs = [MappingProxyType({"token": "NaN", "logprob": number})]
    odd = replace(SAID, latency=number, logprobs=logprobs, reply={"a": (number, 1.5)})
    journal = CallStore(None)
    journal.write([(make_call("a"), odd)])
    stored = journal.find_answers([make_call("a").key])[make_call("a").key]
    assert "nfinity" not in stored
    assert json.loads(stored, parse_constant=pytest.fail)["logprobs"] == [
        {"token": "NaN", "logprob": None}
    ]
    reply = journal.find([make_call("a")])[make_call("a").key]
    assert (reply.latency, reply.reply) == (None, {"a": [None, 1.5]})
    (usage,) = journal.sum_usage()
    assert list(usage.seconds) == []


def test_a_stored_completion_may_have_more_fields_and_must_be_one() -> None:
    """Fields of a later release are passed over.

    A text that is no completion is told by an error.
    """
    assert decode_completion('{"text": "B", "status": "OK", "later": 1}') == Completion("B")
    listed = '["text", "status"]'
    for text in ("[1]", "7", '"text"', "null", "{}", listed, '{"status": "LATER"}', "{"):
        with pytest.raises((ValueError, TypeError, KeyError)):
            decode_completion(text)


def test_an_intact_record_is_none_that_is_damaged(tmp_path: Path) -> None:
    """Zero bytes, other texts and numbers have their checksum; changed fields do not."""
    odd = [make_call(f"k{n}", reply) for n, reply in enumerate(["a\0b", "", "\n", "é", "12"])]
    with closing(open_store(tmp_path)) as journal:
        journal.write([(call, SAID) for call in odd], "t\0")
    with closing(open_store(tmp_path)) as journal:
        assert (journal.lost, len(journal.find(odd))) == (0, 5)
    with closing(sqlite3.connect(tmp_path / "calls.sqlite")) as file:
        for place, change in enumerate(
            ("trial = 1", "sample_id = x'ff'", "checksum = 'none'"), start=1
        ):
            file.execute(f"UPDATE calls SET {change} WHERE place = {place}")  # noqa: S608 - constants
        file.commit()
    with closing(open_store(tmp_path)) as journal:
        assert (journal.lost, len(journal.find(odd))) == (3, 2)


@pytest.mark.parametrize(
    "content", [b"no database, and not a short file" * 40, b"SQLite format 3\0 cut"]
)
def test_a_damaged_journal_is_e503(tmp_path: Path, content: bytes) -> None:
    """It says that it may be deleted."""
    (tmp_path / "calls.sqlite").write_bytes(content)
    with pytest.raises(RunError, match=r"E503.*the journal of the run is damaged"):
        open_store(tmp_path)


def test_a_record_that_changes_during_a_run_is_asked_again(tmp_path: Path) -> None:
    """It is counted, not found, and overwritten by the next answer."""
    with closing(open_store(tmp_path)) as journal:
        journal.write([(make_call("a"), SAID), (make_call("b"), SAID)])
        journal._connection.execute("UPDATE calls SET completion = '{}' WHERE key = 'a'")
        assert journal.find([make_call("a"), make_call("b")]) == {"b": SAID}
        assert (journal.damaged, journal.lost) == ({"a"}, 0)
        journal.write([(make_call("a"), SAID)])
        assert journal.find([make_call("a")]) == {"a": SAID}
    with closing(open_store(tmp_path)) as journal:
        assert (journal.lost, journal.count()) == (0, (2, 0))


def test_a_damaged_index_is_e503(tmp_path: Path) -> None:
    """Calls that cannot be found are not asked again behind the user's back."""
    calls = [make_call(f"k{number}") for number in range(300)]
    with closing(open_store(tmp_path)) as journal:
        journal.write([(call, SAID) for call in calls])
        (root,) = journal._connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'calls_by_key'"
        ).fetchone()
    raw = (tmp_path / "calls.sqlite").read_bytes()
    end = 4096 * root
    emptied = raw[: end - 4096] + bytes(4096) + raw[end:]
    for damaged in (emptied, raw[: end - 10] + b"k" + raw[end - 9 :]):
        (tmp_path / "calls.sqlite").write_bytes(damaged)
        with pytest.raises(RunError, match="E503"):
            open_store(tmp_path)


def test_unreadable_entries_are_e503(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no completion is not taken for one, and not asked behind the user's back."""
    with closing(open_store(tmp_path)) as journal, monkeypatch.context() as patch:
        patch.setattr(stores, "encode_completion", lambda _: "{}")
        for store in (journal, CallStore(None)):
            store.write([(make_call("a"), SAID)])
            with pytest.raises(RunError, match=r"E503.*an entry cannot be read"):
                store.find([make_call("a")])
        journal._connection.execute("PRAGMA user_version = 9")
    with pytest.raises(RunError, match="it has version 9, this release reads 4"):
        open_store(tmp_path)


@pytest.mark.parametrize("many", [20, 64 + 1])
def test_a_full_disk_is_e502_and_loses_nothing(tmp_path: Path, many: int) -> None:
    """Calls are written all or none, more than fit into one statement, too.

    There may be room later.
    """
    journal = open_store(tmp_path)
    journal.write([(make_call("a"), SAID)])
    pages = journal._connection.execute("PRAGMA page_count").fetchone()[0]
    journal._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    big = [(make_call(f"b{n}"), replace(SAID, text="x" * 5000)) for n in range(many)]
    with pytest.raises(RunError, match="database or disk is full") as caught:
        journal.write(big)
    assert (caught.value.code, journal.count()) == ("E502", (1, 0))
    assert "`answerkey resume` continues" in str(caught.value.hint)
    journal._connection.execute("PRAGMA max_page_count = 100000")
    journal.write(big)
    assert journal.count() == (many + 1, 0)
    journal.close()


def test_a_disk_that_fails_is_e502(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that cannot be written is told at once; what the system says is in the message."""
    with pytest.raises(RunError, match=r"E502.*unable to open"):
        open_store(tmp_path / "nowhere")

    def fail(_file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    journal = open_store(tmp_path)
    monkeypatch.setattr(stores, "_sync_file", fail)
    with pytest.raises(
        RunError, match=r"E502.*cannot write the journal of the run: Input/output error"
    ):
        save_calls(RunLedger(journal, CallCache("no-cache"), ""), [(make_call("a"), SAID)])
    journal.close()


def test_a_journal_that_cannot_be_written_keeps_nothing_from_the_cache(tmp_path: Path) -> None:
    """What was paid for is in the cache, which may be on another disk."""
    with (
        closing(CallCache("reuse", file=tmp_path / "cache.sqlite")) as cache,
        closing(open_store(tmp_path)) as journal,
    ):
        journal._connection.execute("PRAGMA query_only = ON")
        with pytest.raises(RunError) as caught:
            save_calls(RunLedger(journal, cache, ""), [(make_call("k"), Completion("A"))])
        assert (caught.value.code, cache.find([make_call("k")])["k"].text) == ("E502", "A")


def test_a_batch_is_found_after_a_restart(tmp_path: Path) -> None:
    """First without its name, then with it; until it is ended, and only for its own model."""
    for batch in (BATCH, replace(BATCH, batch="batch_1")):
        with closing(open_store(tmp_path)) as journal:
            journal.keep_batch(batch)
        with closing(open_store(tmp_path)) as journal:
            assert journal.list_batches("model") == [batch]
            assert journal.list_batches("another") == []
    with closing(open_store(tmp_path)) as journal:
        journal.keep_batch(replace(BATCH, file="file-0"))
        assert [kept.file for kept in journal.list_batches("model")] == ["file-1", "file-0"]
        journal.end_batch(BATCH)
        assert [kept.file for kept in journal.list_batches("model")] == ["file-0"]


def test_two_copies_become_one(tmp_path: Path) -> None:
    """What was answered in one of them is answered; batches keep their names."""
    with closing(open_store(tmp_path)) as journal:
        journal.write(
            [(make_call("a"), SAID), (make_call("b"), ERROR), (make_call("c"), SAID)], "t"
        )
        journal.keep_batch(replace(BATCH, batch="batch_1"))
        journal.copy_to(tmp_path / "copy.sqlite")
        before = journal.changes
    filled, unnamed = replace(BATCH, batch="batch_1"), replace(BATCH, file="file-2")
    with closing(CallStore(tmp_path / "copy.sqlite")) as copy:
        copy.write([(make_call("b"), SAID), (make_call("d"), SAID), (make_call("e"), ERROR)], "t")
        copy.keep_batch(unnamed)
        with closing(open_store(tmp_path)) as journal:
            journal.write([(make_call("a"), replace(SAID, text="D"))])
            journal.merge(copy)
            assert journal.count() == (5, 1)
            assert {usage.task for usage in journal.sum_usage()} == {"t"}
            assert list(journal.find([make_call(key) for key in "abcde"])) == ["a", "b", "c", "d"]
            assert journal.list_batches() == [filled, unnamed]
            copy.merge(journal)
        assert (copy.count(), copy.changes > before) == ((5, 1), True)


def test_threads_share_one_journal(tmp_path: Path) -> None:
    """Adding from several threads loses nothing; a removed journal leaves no file.

    The use of a closed one is a bug.
    """
    journal = open_store(tmp_path)

    def work(number: int) -> None:
        for place in range(20):
            journal.write([(make_call(f"{number}-{place}"), SAID)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert journal.count() == (160, 0)
    journal.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):  # a bug, and no damage
        journal.count()
    forget_journal(tmp_path)
    assert list(tmp_path.iterdir()) == []
