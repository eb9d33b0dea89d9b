"""The journal of a run: every finished call is in it before it counts as finished.

A call is looked for in the journal, then in the call cache, and only then is the model asked. What the cache
knows is written to the journal as well, so that a resumed run sees what the interrupted one saw.

Each record has a checksum, and places are numbered without gaps, so that a journal that is opened again tells
how many of its records are damaged or missing.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from answerkey.errors import Place, RunError
from answerkey.models.batch import Submitted
from answerkey.models.cache import (
    CallCache,
    connect_file,
    decode_completion,
    encode_completion,
    prepare_tables,
    write_rows,
)
from answerkey.models.calls import Call
from answerkey.runs.records import CREATE_CALLS, mend_records, sum_record
from answerkey.types import Completion, CompletionStatus

JOURNAL_NAME = "journal.sqlite"
VERSION = 2
#: Batches that are under way; a file has a row from its upload until its calls are in the table above.
_CREATE_BATCHES = """
CREATE TABLE IF NOT EXISTS batches (
    file TEXT PRIMARY KEY,
    batch TEXT,
    identity TEXT NOT NULL,
    keys TEXT NOT NULL
)
"""
_KEEP_BATCH = """
INSERT INTO batches VALUES (?, ?, ?, ?) ON CONFLICT (file) DO UPDATE SET batch = excluded.batch
"""
_LIST_BATCHES = "SELECT file, batch, keys FROM batches WHERE identity = ? ORDER BY rowid"
#: Where the call with a key is, by a hash of the key: a table of one connection, made anew by the next.
_CREATE_PLACES = """
CREATE TEMP TABLE places (hash INTEGER, place INTEGER, PRIMARY KEY (hash, place)) WITHOUT ROWID
"""
_FILL_PLACES = "INSERT OR IGNORE INTO places SELECT hash_key(key), place FROM calls WHERE place >= ?"
#: Pages are moved from the log to the file when there are so many; asking waits as long as that takes.
PAGES_IN_LOG = 4_000
#: Not every system has the call that leaves out the times of the file.
_sync_file = getattr(os, "fdatasync", os.fsync)
#: So many keys that were looked for in vain are remembered; the others are looked for when they are written.
MOST_MISSING = 100_000
_ADD = """
INSERT OR REPLACE INTO calls
    (place, key, specification, sample_id, trial, purpose, status, source, completion, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_PLACED = """
FROM places JOIN calls ON calls.place = places.place WHERE hash IN (SELECT value FROM json_each(?))
"""
_LOCATE = f"SELECT key, status, calls.place {_PLACED}"
_FIND = f"SELECT key, status, calls.place, completion {_PLACED}"
_SUM = """
SELECT specification, purpose, COUNT(*), SUM(json_extract(completion, '$.prompt_tokens')),
    SUM(json_extract(completion, '$.completion_tokens'))
FROM calls WHERE source = 'live' GROUP BY specification, purpose ORDER BY specification, purpose
"""
_LIST = """
SELECT purpose, sample_id, status, source, json_extract(completion, '$.attempts'),
    json_extract(completion, '$.latency'), json_extract(completion, '$.prompt_tokens'),
    json_extract(completion, '$.completion_tokens'), json_extract(completion, '$.error')
FROM calls WHERE specification = ?
"""
LIVE = "live"
_ERROR = CompletionStatus.ERROR.value
#: SQLite's codes for a file that is no longer one of its own; everything else is about writing.
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


@dataclass(frozen=True)
class Usage:
    """What was asked so far, cache aside, for one task and one purpose (`solve`, `judge:<scorer>`)."""

    specification: str
    purpose: str
    calls: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class JournalCall:
    """One call of a task, as far as what it took is concerned; `latency` is in seconds."""

    purpose: str
    sample_id: str
    status: str
    source: str
    attempts: int | None
    latency: float | None
    prompt_tokens: int | None
    completion_tokens: int | None
    error: str | None


class Journal:
    """The journal of one run, with the cache behind it; safe for threads.

    Failed calls are stored, but not found: they are asked again. `lost` says how many records were damaged
    or missing when the journal was opened: these calls are not found either.
    """

    def __init__(self, folder: Path | None, cache: CallCache | None = None) -> None:
        """Open or make the journal in a run folder; None keeps it in memory."""
        self.file = None if folder is None else folder / JOURNAL_NAME
        self.cache = cache
        self._lock = threading.Lock()
        #: Where the next call is put, and from where on the places are not known; 0 before the first look.
        self._next_place = self._unplaced = 0
        #: Keys that were looked for in vain, with the place of a failed call, or 0; see `_take_places`.
        self._missing: dict[str, int] = {}
        #: The file that SQLite appends to.
        self._log: int | None = None
        self.lost = 0
        with self._translated():
            self._connection = self._open()

    def task(self, specification: str) -> TaskLedger:
        """Return the ledger of one task of the run."""
        return TaskLedger(self, specification)

    def find(self, calls: Sequence[Call], specification: str = "") -> dict[str, Completion]:
        """Return the completions that are known, by the key of the call."""
        asked = {call.key: call for call in calls}
        with self._lock, self._translated():
            located = self._select(_FIND, asked)
            said = {str(key): str(text) for key, status, _, text in located if status != _ERROR}
            found = {key: decode_completion(text, asked[key].messages) for key, text in said.items()}
            if len(self._missing) > MOST_MISSING:
                self._missing.clear()
            self._missing |= _leave_missing(asked, located)
        missing = {key: call for key, call in asked.items() if key not in found}
        if self.cache is None or not missing:
            return found
        cached = self.cache.find({key: call.messages for key, call in missing.items()})
        self._write([(missing[key], one) for key, one in cached.items()], specification)
        return found | cached

    def add(self, finished: Sequence[tuple[Call, Completion]], specification: str = "") -> None:
        """Store finished calls; they are on disk when this returns, and then in the cache.

        A journal that cannot be written keeps nothing from the cache, which may be on another disk.
        """
        try:
            self._write(finished, specification)
            self._sync()
        finally:
            if self.cache is not None:
                self.cache.add([(call.key, one) for call, one in finished])

    def write(self, finished: Sequence[tuple[Call, Completion]], specification: str = "") -> None:
        """Store finished calls; they are in the hands of the system when this returns."""
        self._write(finished, specification)

    def settle(self, finished: Sequence[tuple[Call, Completion]]) -> None:
        """Wait until what was written is on disk, and hand it to the cache."""
        self._sync()
        if self.cache is not None:
            self.cache.add([(call.key, one) for call, one in finished])

    def count(self) -> Mapping[str, int]:
        """Return how many calls there are by status."""
        with self._lock, self._translated():
            rows = self._connection.execute("SELECT status, COUNT(*) FROM calls GROUP BY status").fetchall()
        return {CompletionStatus(status).value: count for status, count in rows}

    def sum_usage(self) -> list[Usage]:
        """Return what was asked so far, failed calls included; tokens that were not told count as none."""
        with self._lock, self._translated():
            rows = self._connection.execute(_SUM).fetchall()
        return [
            Usage(task, purpose, calls, asked or 0, said or 0) for task, purpose, calls, asked, said in rows
        ]

    def list_calls(self, specification: str) -> Iterator[JournalCall]:
        """Yield the calls of a task, in no particular order; one that two tasks share is the first one's."""
        with self._lock, self._translated(), closing(self._connection.cursor()) as cursor:
            for row in cursor.execute(_LIST, (specification,)):
                yield JournalCall(*row)

    def list_batches(self, identity: str) -> list[Submitted]:
        """Return the batches of a connection that are not collected yet, the oldest first."""
        with self._lock, self._translated():
            rows = self._connection.execute(_LIST_BATCHES, (identity,)).fetchall()
        return [Submitted(file, identity, keys.split(), batch) for file, batch, keys in rows]

    def keep_batch(self, batch: Submitted) -> None:
        """Write a batch down, or its name; it is on disk when this returns."""
        row = (batch.file, batch.batch, batch.identity, " ".join(batch.keys))
        with self._lock, self._translated():
            write_rows(self._connection, _KEEP_BATCH, [row])

    def end_batch(self, batch: Submitted) -> None:
        """Forget a batch: its calls are in the journal, or there was nothing to collect."""
        with self._lock, self._translated():
            self._connection.execute("DELETE FROM batches WHERE file = ?", (batch.file,)).close()

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        with self._lock:
            self._connection.close()
            if self._log is not None:
                os.close(self._log)
                self._log = None

    def remove(self) -> None:
        """Close the journal and delete its files: the run is complete, and its tables say the same."""
        self.close()
        if self.file is not None:
            remove_journal(self.file.parent)

    def _write(self, finished: Sequence[tuple[Call, Completion]], specification: str) -> None:
        """Keep calls; what a model has said stays said, only a failed call is overwritten."""
        if not finished:
            return
        with self._lock, self._translated():
            places = self._take_places(finished)
            rows: dict[int, Sequence[object]] = {}
            for call, one in finished:
                if call.key not in places:
                    continue
                place = places.pop(call.key) or self._next_place
                if one.status is CompletionStatus.ERROR:
                    places[call.key] = place
                self._next_place = max(self._next_place, place + 1)
                rows[place] = (place, *_lay_out(call, one, specification))
            if rows:
                write_rows(self._connection, _ADD, list(rows.values()))

    def _sync(self) -> None:
        """Wait for the disk; SQLite itself would do so inside the lock."""
        if self.file is None:
            return
        try:
            with self._lock:
                if self._log is None:
                    self._log = os.open(self.file.with_name(f"{JOURNAL_NAME}-wal"), os.O_RDWR)
                log = os.dup(self._log)
            try:
                _sync_file(log)
            finally:
                os.close(log)
        except OSError as error:
            raise self._refused(error.strerror or str(error)) from error

    def _take_places(self, finished: Sequence[tuple[Call, Completion]]) -> dict[str, int]:
        """Return the keys of which nothing is said yet, with the place of a failed call, or 0 without one."""
        missing = self._missing
        places = {call.key: missing.pop(call.key) for call, _ in finished if call.key in missing}
        unknown = {call.key for call, _ in finished} - places.keys() if len(places) < len(finished) else ()
        return places | _leave_missing(unknown, self._select(_LOCATE, unknown)) if unknown else places

    def _select(self, statement: str, keys: Collection[str]) -> list[tuple[object, ...]]:
        """Return what a statement finds for these keys; another key may have the same hash."""
        self._place_calls()
        if self._next_place == 1:  # there is nothing yet
            return []
        wanted = set(keys)
        with closing(self._connection.execute(statement, (json.dumps([*map(hash, wanted)]),))) as cursor:
            return [row for row in cursor if row[0] in wanted]

    def _place_calls(self) -> None:
        """Learn where the calls are that came since the last look, those of an earlier process included."""
        if self._next_place == 0:
            self._connection.create_function("hash_key", 1, hash, deterministic=True)
            for statement in ("PRAGMA temp.journal_mode = OFF", _CREATE_PLACES):
                self._connection.execute(statement).close()
            with closing(self._connection.execute("SELECT MAX(place) FROM calls")) as cursor:
                self._next_place = (cursor.fetchone()[0] or 0) + 1
        elif self._unplaced == self._next_place:
            return
        self._connection.execute(_FILL_PLACES, (self._unplaced,)).close()
        self._unplaced = self._next_place

    def _open(self) -> sqlite3.Connection:
        connection = connect_file(self.file or ":memory:")
        try:
            # `_sync` waits for the disk; SQLite itself does so before it moves pages to their file.
            connection.execute("PRAGMA synchronous = NORMAL").close()
            connection.execute(f"PRAGMA wal_autocheckpoint = {PAGES_IN_LOG}").close()
            prepare_tables(connection, VERSION, [CREATE_CALLS])
            self.lost = mend_records(connection)
            connection.execute(_CREATE_BATCHES).close()  # a journal from before there were batches has none
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn what SQLite, or a stored text, gets wrong into an error of ours."""
        try:
            yield
        except sqlite3.ProgrammingError:
            raise  # a bug of ours, such as the use of a closed journal
        except sqlite3.Error as error:
            raise self._translate(error) from error
        except (ValueError, TypeError, KeyError) as error:
            raise self._damaged(f"an entry cannot be read ({error})") from error

    def _translate(self, error: sqlite3.Error) -> RunError:
        code = getattr(error, "sqlite_errorcode", None)
        # The low byte is the kind of error, the rest its variety; our own errors have no code.
        if code is None or code & 0xFF in _DAMAGE:
            return self._damaged(str(error))
        return self._refused(str(error))

    def _refused(self, why: str) -> RunError:
        return RunError(
            "E502",
            f"cannot write the journal of the run: {why}",
            where=self._place(),
            hint="make room or correct the rights of the folder, then `answerkey resume` goes on",
        )

    def _damaged(self, why: str) -> RunError:
        return RunError(
            "E503",
            f"the journal of the run is damaged: {why}",
            where=self._place(),
            hint="delete it and resume: what the call cache knows is not asked again",
        )

    def _place(self) -> Place | None:
        return None if self.file is None else Place(file=str(self.file))


@dataclass(frozen=True)
class TaskLedger:
    """The journal as one task of the run uses it."""

    journal: Journal
    specification: str

    def find(self, calls: Sequence[Call]) -> dict[str, Completion]:
        """Return the completions that are known, by the key of the call."""
        return self.journal.find(calls, self.specification)

    def add(self, finished: Sequence[tuple[Call, Completion]]) -> None:
        """Store finished calls; they are on disk when this returns."""
        self.journal.add(finished, self.specification)

    def write(self, finished: Sequence[tuple[Call, Completion]]) -> None:
        """Store finished calls; they are in the hands of the system when this returns."""
        self.journal.write(finished, self.specification)

    def settle(self, finished: Sequence[tuple[Call, Completion]]) -> None:
        """Wait until what was written is on disk, and hand it to the cache."""
        self.journal.settle(finished)


def _leave_missing(keys: Collection[str], located: Sequence[tuple[object, ...]]) -> dict[str, int]:
    """Return those keys of which no call is located, or only one that failed, with its place; 0 without."""
    missing = dict.fromkeys(keys, 0)
    for key, status, place, *_ in located:
        if status == _ERROR:
            missing[str(key)] = cast("int", place)
        else:
            missing.pop(str(key), None)
    return missing


def _lay_out(call: Call, one: Completion, specification: str) -> tuple[object, ...]:
    """Return the columns of a call, from its key on."""
    task = (call.key, specification, call.sample_id, call.trial, call.purpose)
    record = (*task, one.status.value, one.source or LIVE, encode_completion(one))
    return (*record, sum_record(record))


def remove_journal(folder: Path) -> None:
    """Delete the files of a run's journal, if they are there."""
    for suffix in ("-wal", "-shm", ""):
        (folder / f"{JOURNAL_NAME}{suffix}").unlink(missing_ok=True)
