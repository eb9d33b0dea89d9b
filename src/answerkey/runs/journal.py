"""The journal of a run: every finished call is in it before it counts as finished.

A call is looked for in the journal, then in the call cache, and only then is the model asked. What the cache
knows is written to the journal as well, so that a resumed run sees what the interrupted one saw.

Each record has a checksum, and places are numbered without gaps, so that a journal that is opened again tells
how many of its records are damaged or missing.

SQLite needs a file system, and a call counts as finished when it is on disk. So the journal of a run on
object storage lies in the user's cache folder; a copy is published now and then, and when the run stops.
Where it is resumed, the copy and what this machine has of it become one.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import threading
import time
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from zlib import crc32

from answerkey.datasets.storage import find_object, put_object
from answerkey.errors import Place, RunError
from answerkey.models.cache import (
    CallCache,
    connect_file,
    decode_completion,
    encode_completion,
    prepare_tables,
    sum_record,
    write_rows,
)
from answerkey.models.calls import Call, Submitted
from answerkey.runs.store import JOURNAL_NAME, ObjectStore, RunStore, reaching_storage
from answerkey.types import USAGE_NAMES, Completion, CompletionStatus

VERSION = 2
COLUMNS = "key, specification, sample_id, trial, purpose, status, source, completion, checksum"
#: No index on the key: keys are random, and each would dirty a page of its own that is written twice.
_CREATE_CALLS = """
CREATE TABLE IF NOT EXISTS calls (
    place INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, specification TEXT NOT NULL,
    sample_id TEXT NOT NULL, trial INTEGER NOT NULL, purpose TEXT NOT NULL, status TEXT NOT NULL,
    source TEXT NOT NULL, completion TEXT NOT NULL, checksum INTEGER NOT NULL
)
"""
#: Batches that are under way; a file has a row from its upload until its calls are in the table above.
_CREATE_BATCHES = """
CREATE TABLE IF NOT EXISTS batches (
    file TEXT PRIMARY KEY, batch TEXT, identity TEXT NOT NULL, keys TEXT NOT NULL
)
"""
#: Parts of the tables of completions, with the SHA-256 of each; all of their calls are in the table above.
_CREATE_PARTS = "CREATE TABLE IF NOT EXISTS parts (name TEXT PRIMARY KEY, digest TEXT NOT NULL)"
_KEEP_BATCH = """
INSERT INTO batches VALUES (?, ?, ?, ?) ON CONFLICT (file) DO UPDATE SET batch = excluded.batch
"""
_LIST_BATCHES = "SELECT file, batch, keys FROM batches WHERE identity = ? ORDER BY rowid"
#: Where the call with a key is, by a hash of the key: a table of one connection, made anew by the next.
_CREATE_PLACES = """
CREATE TEMP TABLE places (hash INTEGER, place INTEGER, PRIMARY KEY (hash, place)) WITHOUT ROWID
"""
_FILL_PLACES = (
    "INSERT OR IGNORE INTO places SELECT hash_key(key), place FROM calls WHERE place >= ? ORDER BY 1"
)
#: Pages are moved from the log to the file when there are so many; asking waits as long as that takes.
PAGES_IN_LOG = 4_000
#: Not every system has the call that leaves out the times of the file.
_sync_file = getattr(os, "fdatasync", os.fsync)
#: So many keys that were looked for in vain are remembered; the others are looked for when they are written.
MOST_MISSING = 100_000
_ADD = f"INSERT OR REPLACE INTO calls (place, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - constants
#: In the order in which they were made, which is nearly that in which they are asked for again.
_FIND = """
SELECT key, status, place, completion FROM calls
WHERE place IN (SELECT place FROM places WHERE hash IN (SELECT value FROM json_each(?)))
"""
_GROUPS = """
SELECT DISTINCT specification, purpose, source FROM calls
WHERE place >= ? AND place < ? AND COALESCE(? = specification, 1)
"""
#: Of one group: to sort the records by groups takes as long as to read them. One number alone would be
#: rounded where it becomes text; of two, SQLite gives the JSON as it is written.
_SUM = f"""
SELECT COUNT(*), SUM(status = 'ERROR'),
    SUM(MAX(0, COALESCE(json_extract(completion, '$.attempts'), 1) - 1)),
    {", ".join(f"SUM(json_extract(completion, '$.{name}'))" for name in USAGE_NAMES)},
    MIN(json_extract(completion, '$.asked_at')),
    COALESCE(group_concat(json_extract(completion, '$.latency', '$.none'), ''), '[null]')
FROM calls WHERE place >= ? AND place < ? AND specification = ? AND purpose = ? AND source = ?
"""  # noqa: S608 - constants
#: So many records are summed together; the text of their seconds is in memory.
SUMMED_AT_ONCE = 65_536
_LIST_FAILED = """
SELECT purpose, sample_id, COALESCE(json_extract(completion, '$.error'), '') FROM calls
WHERE specification = ? AND status = 'ERROR' AND source <> 'cache'
"""
#: SQLite keeps the last place that was ever used: how many calls were finished.
_COUNT_MISSING = """
SELECT MAX(COALESCE((SELECT seq FROM {schema}.sqlite_sequence WHERE name = 'calls'), 0),
    COALESCE(MAX(place), 0)) - COUNT(*) FROM {schema}.calls
"""
#: What `sum_record` sums, put together by SQLite: damaged text need not be text, nor damaged fields be there.
_LIST_DAMAGED = f"""
SELECT place FROM {{schema}}.calls WHERE checksum IS NOT sum_bytes(
    CAST(COALESCE({COLUMNS.removesuffix(", checksum").replace(", ", " || char(0) || ")}, '') AS BLOB))
"""  # noqa: S608 - constants
#: Intact records are numbered anew, so that what is lost is told once.
_MEND = (
    f"""
    CREATE TEMP TABLE intact AS SELECT {COLUMNS} FROM {{schema}}.calls
    WHERE place NOT IN (SELECT value FROM json_each(?)) ORDER BY place
    """,  # noqa: S608 - constants
    "DELETE FROM {schema}.calls",
    "DELETE FROM {schema}.sqlite_sequence WHERE name = 'calls'",
    f"INSERT INTO {{schema}}.calls ({COLUMNS}) SELECT {COLUMNS} FROM intact ORDER BY rowid",  # noqa: S608 - constants
    "DROP TABLE intact",
)
#: What another copy of the journal has more. A call that failed on one side was answered on the other; what
#: was answered stays as it is.
_MERGE = (
    f"""
    INSERT OR REPLACE INTO calls (place, {COLUMNS})
    SELECT failed.place, {", ".join(f"other.{name}" for name in COLUMNS.split(", "))}
    FROM calls AS failed JOIN other.calls AS other ON failed.key = other.key WHERE failed.status = 'ERROR'
    """,  # noqa: S608 - constants
    f"""
    INSERT INTO calls ({COLUMNS})
    SELECT {COLUMNS} FROM other.calls WHERE key NOT IN (SELECT key FROM calls)
    """,  # noqa: S608 - constants
    "INSERT OR IGNORE INTO batches SELECT * FROM other.batches",
)
#: A number that differs when calls or batches do: calls are added, failed ones are answered.
_SUM_UP = """
SELECT COUNT(*) + 3 * TOTAL(status <> 'ERROR')
    + 7 * (SELECT TOTAL(2 * rowid + (batch IS NOT NULL)) FROM batches) FROM calls
"""
#: Seconds between two published copies at least; a copy that takes long is made more seldom.
EVERY = 60.0
SHARE = 20.0
#: The file that says which run a folder of this machine belongs to.
OWNER_NAME = "run"
_ERROR = CompletionStatus.ERROR.value
#: SQLite's codes for a file that is no longer one of its own; everything else is about writing.
_DAMAGE = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


@dataclass(frozen=True)
class Usage:
    """What was asked so far for one task, purpose (`solve`, `judge:<scorer>`) and source.

    `tokens` are by their `USAGE_NAMES`; `oldest` is when the oldest reply of the call cache was asked for, in
    seconds since 1970; `seconds` is how long calls took, in no order.
    """

    specification: str
    purpose: str
    source: str
    calls: int
    failed: int
    retries: int
    tokens: Mapping[str, int]
    oldest: int | None = None
    seconds: Sequence[float] = field(default=(), compare=False, repr=False)


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
        #: Keys that were looked for in vain, with the place of a failed call, or 0; see `write`.
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
            located = self._find_records(asked)
            said = {str(key): str(text) for key, status, _, text in located if status != _ERROR}
            found = {key: decode_completion(text, asked[key].messages) for key, text in said.items()}
            if len(self._missing) > MOST_MISSING:
                self._missing.clear()
            self._missing |= _leave_missing(asked, located)
        missing = {key: call for key, call in asked.items() if key not in found and call.is_cached}
        if self.cache is None or not missing:
            return found
        cached = self.cache.find({key: call.messages for key, call in missing.items()})
        self.write([(missing[key], one) for key, one in cached.items()], specification)
        return found | cached

    def add(self, finished: Sequence[tuple[Call, Completion]], specification: str = "") -> None:
        """Store finished calls; they are on disk when this returns, and then in the cache.

        A journal that cannot be written keeps nothing from the cache, which may be on another disk.
        """
        try:
            self.write(finished, specification)
            self._sync()
        finally:
            if self.cache is not None:
                self.cache.add([(call.key, one) for call, one in finished if call.is_cached])

    def settle(self, finished: Sequence[tuple[Call, Completion]]) -> None:
        """Wait until what was written is on disk, and hand it to the cache."""
        self._sync()
        if self.cache is not None:
            self.cache.add([(call.key, one) for call, one in finished if call.is_cached])

    def write(self, finished: Sequence[tuple[Call, Completion]], specification: str = "") -> None:
        """Store finished calls; they are in the hands of the system when this returns.

        What a model has said stays said, only a failed call is overwritten.
        """
        if not finished:
            return
        with self._lock, self._translated():
            missing = self._missing
            places = {call.key: missing.pop(call.key) for call, _ in finished if call.key in missing}
            if unknown := {call.key for call, _ in finished} - places.keys():
                places |= _leave_missing(unknown, self._find_records(unknown))
            rows: dict[int, Sequence[object]] = {}
            for call, one in finished:
                if call.key not in places:
                    continue
                place = places.pop(call.key) or self._next_place
                if one.status is CompletionStatus.ERROR:
                    places[call.key] = place
                self._next_place = max(self._next_place, place + 1)
                task = (call.key, specification, call.sample_id, call.trial, call.purpose)
                record = (*task, one.status.value, one.source or "live", encode_completion(one))
                rows[place] = (place, *record, sum_record(record))
            if rows:
                write_rows(self._connection, _ADD, list(rows.values()))

    def count(self) -> tuple[int, int]:
        """Return how many calls there are, and how many of them failed."""
        with self._lock, self._translated():
            (row,) = self._connection.execute("SELECT COUNT(*), TOTAL(status = 'ERROR') FROM calls")
        return row[0], int(row[1])

    def sum_usage(self, specification: str | None = None) -> list[Usage]:
        """Return what was asked so far, by one task or by all; tokens that were not told count as none."""
        found: dict[tuple[str, str, str], tuple[list[int], list[int], array[float]]] = {}
        with self._lock, self._translated():
            ((last,),) = self._connection.execute("SELECT COALESCE(MAX(place), 0) FROM calls")
            for first in range(0, last + 1, SUMMED_AT_ONCE):
                block = first, first + SUMMED_AT_ONCE
                for group in self._connection.execute(_GROUPS, (*block, specification)).fetchall():
                    *some, oldest, text = self._connection.execute(_SUM, (*block, *group)).fetchone()
                    sums, dates, seconds = found.setdefault(group, ([0] * len(some), [], array("d")))
                    dates += [] if oldest is None else [oldest]
                    sums[:] = (one + (more or 0) for one, more in zip(sums, some, strict=True))
                    seconds.extend(one for one in json.loads(text.replace(",null][", ",")) if one is not None)
        usages = []
        for group, ((calls, failed, retries, *counts), dates, seconds) in found.items():
            tokens = dict(zip(USAGE_NAMES, counts, strict=True))
            usages.append(Usage(*group, calls, failed, retries, tokens, min(dates, default=None), seconds))
        return usages

    def list_failed(self, specification: str) -> list[tuple[str, str, str]]:
        """Return purpose, sample id and error of a task's calls that failed, but those of the cache."""
        with self._lock, self._translated():
            return self._connection.execute(_LIST_FAILED, (specification,)).fetchall()

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

    def keep_part(self, name: str, digest: str) -> None:
        """Write down that all calls of a part of the completions are in the journal."""
        with self._lock, self._translated():
            write_rows(self._connection, "INSERT OR REPLACE INTO parts VALUES (?, ?)", [(name, digest)])

    def list_parts(self) -> dict[str, str]:
        """Return the SHA-256 of each part of the completions whose calls are all in the journal, by name."""
        with self._lock, self._translated():
            return dict(self._connection.execute("SELECT name, digest FROM parts").fetchall())

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        with self._lock:
            self._connection.close()
            if self._log is not None:
                os.close(self._log)
                self._log = None

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

    def _find_records(self, keys: Collection[str]) -> list[tuple[object, ...]]:
        """Return the records of these keys; another key may have the same hash."""
        # Where the calls are that came since the last look, those of an earlier process included.
        if self._next_place == 0:
            self._connection.create_function("hash_key", 1, hash, deterministic=True)
            for setup in ("PRAGMA temp.journal_mode = OFF", _CREATE_PLACES):
                self._connection.execute(setup).close()
            with closing(self._connection.execute("SELECT MAX(place) FROM calls")) as cursor:
                self._next_place = (cursor.fetchone()[0] or 0) + 1
        if self._unplaced != self._next_place:
            self._connection.execute(_FILL_PLACES, (self._unplaced,)).close()
            self._unplaced = self._next_place
        if self._next_place == 1:  # there is nothing yet
            return []
        wanted = set(keys)
        with closing(self._connection.execute(_FIND, (json.dumps([*map(hash, wanted)]),))) as cursor:
            return [row for row in cursor if row[0] in wanted]

    def _open(self) -> sqlite3.Connection:
        connection = connect_file(self.file or ":memory:")
        try:
            # `_sync` waits for the disk; SQLite itself does so before it moves pages to their file.
            connection.execute("PRAGMA synchronous = NORMAL").close()
            connection.execute(f"PRAGMA wal_autocheckpoint = {PAGES_IN_LOG}").close()
            prepare_tables(connection, VERSION, [_CREATE_CALLS])
            self.lost = mend_records(connection)
            for table in (_CREATE_BATCHES, _CREATE_PARTS):  # a journal of an earlier release has none
                connection.execute(table).close()
            if self.lost:  # perhaps calls of any part
                connection.execute("DELETE FROM parts").close()
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
            code = getattr(error, "sqlite_errorcode", None)
            # The low byte is the kind of error, the rest its variety; our own errors have no code.
            if code is None or code & 0xFF in _DAMAGE:
                raise self._damaged(str(error)) from error
            raise self._refused(str(error)) from error
        except (ValueError, TypeError, KeyError) as error:
            raise self._damaged(f"an entry cannot be read ({error})") from error

    def _refused(self, why: str) -> RunError:
        hint = "make room or correct the rights of the folder, then `answerkey resume` goes on"
        where = None if self.file is None else Place(file=str(self.file))
        return RunError("E502", f"cannot write the journal of the run: {why}", where=where, hint=hint)

    def _damaged(self, why: str) -> RunError:
        hint = "delete it and resume: its calls are made again"
        where = None if self.file is None else Place(file=str(self.file))
        return RunError("E503", f"the journal of the run is damaged: {why}", where=where, hint=hint)


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


def mend_records(connection: sqlite3.Connection, schema: str = "main") -> int:
    """Return how many records of a journal are damaged or missing; remove the damaged ones."""
    connection.create_function("sum_bytes", 1, crc32, deterministic=True)
    damaged = [place for (place,) in connection.execute(_LIST_DAMAGED.format(schema=schema))]
    with closing(connection.execute(_COUNT_MISSING.format(schema=schema))) as cursor:
        lost = int(cursor.fetchone()[0]) + len(damaged)
    if lost:
        connection.execute("BEGIN IMMEDIATE").close()
        for number, statement in enumerate(_MEND):
            given = () if number else (json.dumps(damaged),)
            connection.execute(statement.format(schema=schema), given).close()
        connection.execute("COMMIT").close()
    return lost


class JournalCopies:
    """Publishes copies of the journal of a run on object storage, on a thread of its own."""

    def __init__(self, store: ObjectStore) -> None:
        self._file = store.home / JOURNAL_NAME
        self._url = store.show(JOURNAL_NAME)
        self._end = threading.Event()
        self._turn = threading.Lock()
        self._published: int | None = None
        self._thread = threading.Thread(target=self._go_on, name="answerkey-journal", daemon=True)
        self._thread.start()

    def publish(self) -> None:
        """Publish a copy of the journal as it is now, unless that was done; E509 when it cannot be."""
        with self._turn, tempfile.TemporaryDirectory(prefix="answerkey-journal-") as folder:
            copy = Path(folder) / JOURNAL_NAME
            own, to = sqlite3.connect(self._file, timeout=30), sqlite3.connect(copy)
            with closing(own), closing(to):
                own.backup(to)
                to.execute("PRAGMA journal_mode = DELETE").close()
                state = int(to.execute(_SUM_UP).fetchone()[0])
            if state != self._published:
                with reaching_storage():
                    put_object(self._url, copy)
                self._published = state

    def end(self) -> None:
        """Publish no more; a second call does nothing."""
        self._end.set()
        self._thread.join()

    def _go_on(self) -> None:
        pause = EVERY
        while not self._end.wait(pause):
            begun = time.monotonic()
            with suppress(RunError, OSError, sqlite3.Error):  # the next copy, or the run's end, will tell
                self.publish()
            pause = max(EVERY, SHARE * (time.monotonic() - begun))


def claim_folder(store: ObjectStore, started_at: str, *, is_new: bool) -> None:
    """Make the folder of this machine that of a run; what another run left there is removed."""
    owner = store.home / OWNER_NAME
    with suppress(OSError):
        if not is_new and owner.read_text(encoding="utf-8") == started_at:
            return
    _remove_files(store.home)
    owner.write_text(started_at, encoding="utf-8")


def bring_journal(store: ObjectStore) -> int:
    """Bring the published copy of a journal here; what this machine has of the run stays.

    Return how many records were lost where the two became one; what is lost of a copy that is the only one is
    told when it is opened. E503 when it is damaged, E509 when it cannot be had.
    """
    own = store.home / JOURNAL_NAME
    with reaching_storage():
        found = find_object(store.show(JOURNAL_NAME))
        if found is None:
            return 0
        with tempfile.NamedTemporaryFile(dir=store.home, prefix=".journal-", delete=False) as file:
            copy = Path(file.name)
            for block in found.iterate():
                file.write(block)
    try:
        if own.is_file():
            return _merge(own, copy)
        copy.replace(own)
    except sqlite3.Error as error:
        message = f"the journal `{found.url}`, or the one of this machine, `{own}`, is damaged: {error}"
        hint = "delete the damaged one and resume: calls in the other are not repeated"
        raise RunError("E503", message, hint=hint) from error
    else:
        return 0
    finally:
        copy.unlink(missing_ok=True)


def _merge(own: Path, other: Path) -> int:
    """Add to a journal what another one of the same run has more; return how many records both had lost."""
    with closing(sqlite3.connect(own, timeout=30, isolation_level=None)) as journal:
        journal.execute("PRAGMA trusted_schema = OFF").close()  # the copy may come from a stranger
        journal.execute("ATTACH ? AS other", (str(other),)).close()
        version = journal.execute("PRAGMA other.user_version").fetchone()[0]
        if version != VERSION:
            raise sqlite3.DatabaseError(f"it has the version {version}")
        lost = mend_records(journal) + mend_records(journal, "other")
        for statement in ("BEGIN IMMEDIATE", *_MERGE, "COMMIT"):
            journal.execute(statement).close()
    return lost


def remove_journal(store: RunStore) -> None:
    """Delete the journal of a complete run, and its published copy: the tables say the same."""
    if isinstance(store, ObjectStore):
        store.remove([JOURNAL_NAME])
        (store.home / OWNER_NAME).unlink(missing_ok=True)
    if store.home is not None:
        _remove_files(store.home)


def _remove_files(folder: Path) -> None:
    for suffix in ("-wal", "-shm", ""):
        (folder / f"{JOURNAL_NAME}{suffix}").unlink(missing_ok=True)
