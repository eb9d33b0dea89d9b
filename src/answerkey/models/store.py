"""The store of calls: every finished call is written to it before it counts as finished.

The same form of SQLite file is the journal in a run folder, from which a run is resumed, and the
user's call cache. Each record has a checksum, and a damaged record counts as missing. The places in
a journal have no gaps, so they reveal how many records are lost.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, fields
from operator import methodcaller
from pathlib import Path
from typing import Any
from zlib import crc32

from answerkey.errors import Place, RunError
from answerkey.models.calls import Answers, Calls, FinishedCalls, SubmittedBatch
from answerkey.models.responses import Messages
from answerkey.types import USAGE_NAMES, Completion, CompletionStatus

VERSION = 4
#: The suffixes of SQLite's files, the database itself last.
SUFFIXES = ("-wal", "-shm", "")
#: How many seconds to wait for another process that is writing.
PATIENCE = 30.0
#: How many rows are read before other threads get a turn.
BLOCK_ROWS = 5_000
#: The number of pages in the log at which they are moved to the file, while calls wait.
PAGES_IN_LOG = 4_000
#: SQLite's codes for a file that it cannot read; its other errors are about writing.
_DAMAGE = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
#: Not every system can sync a file without its times.
_sync_file = getattr(os, "fdatasync", os.fsync)

_COLUMNS = "key, task, sample_id, trial, purpose, status, source, completion"
#: Keys are random, so each changes a page of the index; shorter keys need fewer pages. `batches`
#: holds open batches, from the upload of a file until its calls are stored.
_SCHEMA = (
    """
    CREATE TABLE IF NOT EXISTS calls (
        place INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, task TEXT NOT NULL,
        sample_id TEXT NOT NULL, trial INTEGER NOT NULL, purpose TEXT NOT NULL,
        status TEXT NOT NULL, source TEXT NOT NULL, completion TEXT NOT NULL,
        checksum INTEGER NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS calls_by_key ON calls (substr(key, 1, 8))",
    """
    CREATE TABLE IF NOT EXISTS batches (
        file TEXT PRIMARY KEY, batch TEXT, identity TEXT NOT NULL, keys TEXT NOT NULL
    )
    """,
    f"PRAGMA user_version = {VERSION}",
)
#: SQLite concatenates what `sum_record` sums, because damaged text may not be text for Python.
_TEXT = "calls." + _COLUMNS.replace(", ", " || char(0) || calls.")
_IS_INTACT = f"checksum IS sum_bytes(CAST(COALESCE({_TEXT}, '') AS BLOB))"
_FIND = f"""
SELECT calls.key, place, status <> 'ERROR', CASE WHEN {_IS_INTACT} THEN completion END
FROM json_each(?) AS wanted CROSS JOIN calls
ON substr(calls.key, 1, 8) = substr(wanted.value, 1, 8) AND calls.key = wanted.value
"""  # noqa: S608 - constants
_ADD = f"""
INSERT OR REPLACE INTO calls (place, {_COLUMNS}, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""  # noqa: S608 - constants
#: SQLite remembers the last place that was ever used: the number of finished calls.
_COUNT_LOST = f"""
SELECT MAX(
    COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'calls'), 0), COALESCE(MAX(place), 0)
) - TOTAL({_IS_INTACT}) FROM calls
"""  # noqa: S608 - constants
#: Intact records are renumbered, so that a loss is reported once.
_MEND = (
    f"""
    CREATE TEMP TABLE intact AS
    SELECT {_COLUMNS}, checksum FROM calls WHERE {_IS_INTACT} ORDER BY place
    """,  # noqa: S608 - constants
    "DELETE FROM calls",
    "DELETE FROM sqlite_sequence WHERE name = 'calls'",
    f"INSERT INTO calls ({_COLUMNS}, checksum) SELECT * FROM intact ORDER BY rowid",  # noqa: S608 - constants
    "DROP TABLE intact",
)
_LIST_USAGE = """
SELECT task, purpose, source, sample_id, completion FROM calls WHERE COALESCE(task = ?, 1)
"""
_KEEP_BATCH = """
INSERT INTO batches VALUES (?, ?, ?, ?) ON CONFLICT (file)
DO UPDATE SET batch = COALESCE(excluded.batch, batch)
"""

Rows = list[tuple[Any, ...]]
#: The values of `_COLUMNS`.
Record = tuple[str, str, str, int, str, str, str, str]

_FIELD_NAMES = frozenset(each.name for each in fields(Completion))
_NOTHING_SAID = Completion(None)


def _make_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    return str(value)


def encode_completion(completion: Completion) -> str:
    """Return a completion as JSON in ASCII, without its prompt, which the call has.

    NaN and infinite numbers, which JSON does not have, become null.
    """
    values = _drop_nulls(vars(completion))
    values.pop("prompt", None)
    try:
        return _STRICT.encode(values)
    except ValueError:
        text = json.dumps(values, default=_make_plain)
        plain = json.loads(text, parse_constant=lambda _: None)
        return _STRICT.encode(_drop_nulls(plain))


def _drop_nulls(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


_STRICT = json.JSONEncoder(
    separators=(",", ":"),
    default=_make_plain,
    allow_nan=False,
)


def decode_completion(
    text: str,
    prompt: Messages | None = None,
) -> Completion:
    """Return the completion in a JSON text.

    Raises ValueError, TypeError or KeyError for any other text.
    """
    values = dict(json.loads(text))
    for name in values.keys() - _FIELD_NAMES:  # fields of a later release
        del values[name]
    values["status"] = CompletionStatus(values["status"])
    values["prompt"] = prompt
    return _NOTHING_SAID.with_fields(**values)


def sum_record(record: Record) -> int:
    """Return the checksum of a record."""
    text = "\0".join(map(str, record))
    return crc32(text.encode("utf-8", "surrogatepass"))


@dataclass
class Usage:
    """The calls so far for one task, purpose (`solve`, `judge:<scorer>`) and source.

    `tokens` are by `USAGE_NAMES`; `oldest` is the time of the oldest reply from the call cache, in
    seconds since 1970; `failures` are the sample ids and errors of failed calls; `seconds` are the
    latencies.
    """

    task: str
    purpose: str
    source: str
    calls: int = 0
    retries: int = 0
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(USAGE_NAMES, 0))
    oldest: int | None = None
    failures: list[tuple[str, str]] = field(default_factory=list)
    seconds: array[float] = field(default_factory=lambda: array("d"), repr=False)

    def count(self, sample_id: str, completion: Mapping[str, Any]) -> None:
        """Add a call, with its completion as stored: without the fields that are None."""
        self.calls += 1
        attempts = completion.get("attempts", 1)
        self.retries += max(0, attempts - 1)
        for name in USAGE_NAMES:
            if name in completion:
                self.tokens[name] += completion[name]
        if "asked_at" in completion:
            asked_at = completion["asked_at"]
            self.oldest = min(self.oldest or asked_at, asked_at)
        if "latency" in completion:
            self.seconds.append(completion["latency"])
        if completion["status"] == CompletionStatus.ERROR:
            error = completion.get("error", "")
            self.failures.append((sample_id, error))


class CallStore:
    """Finished calls in a file or in memory; safe for threads.

    Failed calls are stored but not found, so that they are made again. So are damaged ones, whose
    keys are in `damaged`. `lost` is the number of records that `mend` missed. An error of SQLite is
    RunError E502 if it is about writing, otherwise E503.
    """

    def __init__(self, file: Path | None) -> None:
        """Open or create a file; None keeps the calls in memory."""
        self.file = file
        self.lost = 0
        self.damaged: set[str] = set()
        self._lock = threading.Lock()
        with self._translated():
            self._connection = _connect(file or ":memory:")
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    @property
    def changes(self) -> int:
        """A number that grows with every change."""
        return self._connection.total_changes

    def find(self, calls: Calls) -> Answers:
        """Return the completions of answered calls, by key."""
        answers = self.find_answers([call.key for call in calls])
        completions = {}
        with self._translated():
            for call in calls:
                if call.key in answers:
                    text = answers[call.key]
                    completions[call.key] = decode_completion(text, call.messages)
        return completions

    def find_answers(self, keys: Collection[str]) -> dict[str, str]:
        """Return the completions of answered calls as JSON texts, by key."""
        answers = {}
        with self._using():
            for key, _, is_answered, text in self._select(keys):
                if text is None:
                    self.damaged.add(key)
                elif is_answered:
                    answers[key] = text
        return answers

    def write(
        self,
        finished: FinishedCalls,
        task: str = "",
        *,
        replaces: bool = False,
    ) -> None:
        """Store finished calls; they outlive this process when this returns.

        An answer is never overwritten, unless `replaces`; a failed call always is.
        """
        records = []
        for call, completion in finished:
            record = (
                call.key,
                task,
                call.sample_id,
                call.trial,
                call.purpose,
                completion.status.value,
                completion.source or "live",
                encode_completion(completion),
            )
            records.append(record)
        self._put(records, replaces=replaces)

    def sync(self) -> None:
        """Wait until the calls are on disk; SQLite itself would hold the lock while it waits."""
        if self.file is None:
            return
        try:
            log = os.open(f"{self.file}-wal", os.O_RDWR)
            try:
                _sync_file(log)
            finally:
                os.close(log)
        except OSError as error:
            raise self._report_refusal(error.strerror or str(error)) from error

    def count(self) -> tuple[int, int]:
        """Return how many calls there are, and how many of them failed."""
        with self._using():
            calls = self._ask("SELECT COUNT(*) FROM calls")
            failed = self._ask("SELECT TOTAL(status = 'ERROR') FROM calls")
        return calls, failed

    def sum_usage(self, task: str | None = None) -> list[Usage]:
        """Return the calls so far, of one task or of all, in the order of the first calls."""
        usages: dict[tuple[str, ...], Usage] = {}
        with self._using():
            rows = self._connection.execute(_LIST_USAGE, (task,))
            for *group, sample_id, text in rows:
                usage = usages.setdefault(tuple(group), Usage(*group))
                usage.count(sample_id, json.loads(text))
        return list(usages.values())

    def mend(self) -> None:
        """Remove damaged records; count them and the missing ones in `lost`."""
        with self._using():
            # This checks pages and the index, but not the texts.
            (answer,) = self._connection.execute("PRAGMA integrity_check(1)").fetchone()
            if answer != "ok":
                raise sqlite3.DatabaseError(answer)
            self.lost = self._ask(_COUNT_LOST)
            if self.lost:
                with self._transaction():
                    for statement in _MEND:
                        self._connection.execute(statement)

    def merge(self, store: CallStore) -> None:
        """Add the calls and batches that another store has in addition."""
        for records in store.list_records():
            self._put(records)
        for batch in store.list_batches():
            self.keep_batch(batch)

    def list_records(self) -> Iterator[list[Record]]:
        """Yield all records, in blocks."""
        with self._using():
            cursor = self._connection.execute(f"SELECT {_COLUMNS} FROM calls")  # noqa: S608 - constants
            while records := cursor.fetchmany(BLOCK_ROWS):
                yield records

    def copy_to(self, file: Path) -> None:
        """Write a copy of the whole store; calls may be written meanwhile."""
        with (
            self._translated(),
            closing(sqlite3.connect(str(self.file), timeout=PATIENCE)) as source,
            closing(sqlite3.connect(file)) as target,
        ):
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")

    def clear(self) -> None:
        """Delete all calls; other processes may continue to use the file."""
        for statement in ("DELETE FROM calls", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
            self._run(statement)

    def list_batches(self, identity: str | None = None) -> list[SubmittedBatch]:
        """Return the uncollected batches of a connection, or all, the oldest first."""
        rows = self._run(
            "SELECT * FROM batches WHERE COALESCE(identity = ?, 1) ORDER BY rowid", identity
        )
        return [
            SubmittedBatch(file, model, keys.split(), batch) for file, batch, model, keys in rows
        ]

    def keep_batch(self, batch: SubmittedBatch) -> None:
        """Record a batch, or its name; it is on disk when this returns."""
        keys = " ".join(batch.keys)
        self._run(_KEEP_BATCH, batch.file, batch.batch, batch.identity, keys)
        self.sync()

    def end_batch(self, batch: SubmittedBatch) -> None:
        """Forget a batch whose calls are stored, or that has nothing to collect."""
        self._run("DELETE FROM batches WHERE file = ?", batch.file)

    def close(self) -> None:
        """Close the file; calling it twice is harmless."""
        with self._lock:
            self._connection.close()

    def _prepare(self) -> None:
        self._connection.create_function("sum_bytes", 1, crc32, deterministic=True)
        version = self._ask("PRAGMA user_version")
        if version not in {0, VERSION}:
            raise sqlite3.DatabaseError(f"it has version {version}, this release reads {VERSION}")
        if version == 0:
            with self._transaction():
                for statement in _SCHEMA:
                    self._connection.execute(statement)

    def _put(self, records: Sequence[Record], *, replaces: bool = False) -> None:
        """Store records in one transaction: all of them, or none."""
        if not records:
            return
        with self._using(), self._transaction():
            places = {}
            answered = set()
            keys = [record[0] for record in records]
            for key, place, is_answered, text in self._select(keys):
                places[key] = place
                if is_answered and text is not None and not replaces:
                    answered.add(key)
            rows = {}
            for record in records:
                key = record[0]
                status = record[5]
                if key in answered:
                    continue
                if status != CompletionStatus.ERROR:
                    answered.add(key)
                checksum = sum_record(record)
                rows[key] = (places.get(key), *record, checksum)
            self._connection.executemany(_ADD, rows.values())

    def _select(self, keys: Collection[str]) -> Rows:
        """Return key, place, whether it is answered, and text of each call; no text if damaged."""
        listed = json.dumps(list(keys))
        return self._connection.execute(_FIND, (listed,)).fetchall()

    def _run(self, statement: str, *values: object) -> Rows:
        with self._using():
            return self._connection.execute(statement, values).fetchall()

    def _ask(self, statement: str) -> int:
        """Return the single number that a statement selects."""
        (number,) = self._connection.execute(statement).fetchone()
        return int(number)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # after some errors SQLite has already rolled back
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _using(self) -> Iterator[None]:
        with self._lock, self._translated():
            yield

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn errors of SQLite, and unreadable texts, into errors of ours."""
        try:
            yield
        except sqlite3.ProgrammingError:
            raise  # a bug of ours, such as the use of a closed store
        except sqlite3.Error as error:
            # The low byte is the kind of error; our own errors have no code.
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
            is_damaged = code & 0xFF in _DAMAGE
            report = self._report_damage if is_damaged else self._report_refusal
            raise report(str(error)) from error
        except (ValueError, TypeError, KeyError) as error:
            raise self._report_damage(f"an entry cannot be read ({error})") from error

    def _report_refusal(self, why: str) -> RunError:
        return RunError(
            "E502",
            f"cannot write the journal of the run: {why}",
            where=self._locate(),
            hint="free some space or correct the permissions; then `answerkey resume` continues",
        )

    def _report_damage(self, why: str) -> RunError:
        return RunError(
            "E503",
            f"the journal of the run is damaged: {why}",
            where=self._locate(),
            hint="delete it and resume: its calls are made again",
        )

    def _locate(self) -> Place | None:
        if self.file:
            return Place(file=str(self.file))
        return None


def _connect(file: Path | str) -> sqlite3.Connection:
    """Return a connection in write-ahead mode that any thread may use, one at a time."""
    connection = sqlite3.connect(
        file,
        timeout=PATIENCE,
        isolation_level=None,
        check_same_thread=False,
    )
    # SQLite's reader rejects lone surrogates, but models produce them.
    connection.text_factory = methodcaller("decode", "utf-8", "surrogatepass")
    try:
        for setup in (
            # A journal may come from someone else.
            "PRAGMA trusted_schema = OFF",
            "PRAGMA journal_mode = WAL",
            # `sync` waits for the disk; SQLite itself does so before it moves pages to the file.
            "PRAGMA synchronous = NORMAL",
            f"PRAGMA wal_autocheckpoint = {PAGES_IN_LOG}",
        ):
            connection.execute(setup)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def remove_store(file: Path) -> None:
    """Delete the file of a store, and SQLite's files beside it."""
    for suffix in SUFFIXES:
        file.with_name(f"{file.name}{suffix}").unlink(missing_ok=True)
