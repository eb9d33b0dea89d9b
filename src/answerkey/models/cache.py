"""The call cache: what models said before, in the user's cache folder; and how calls are stored in SQLite.

A key stands for the model (without secrets), its parameters, the messages and the trial. Nothing depends on
the cache: one that cannot be read or written is a notice, and every call is asked. Each record has a
checksum; the call of a damaged record is asked again.

Entries are numbered as they come, and one of the older half that is used gets a new number. So those with the
lowest numbers were not used for longest; they lie together, and are deleted when the cache is too large.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sqlite3
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, fields
from functools import partial
from json.encoder import encode_basestring_ascii
from operator import methodcaller
from pathlib import Path
from typing import get_args
from zlib import crc32

from answerkey.errors import RunError, SpecError, listing, suggest
from answerkey.models.config import CachePolicy
from answerkey.text import format_count
from answerkey.types import Completion, CompletionStatus, Notice, make_encoder, read_limit

#: Seconds to wait for another process that is writing.
PATIENCE = 30.0
#: Numbers that JSON does not know; texts are matched so as to be passed over.
_NOT_FINITE = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN')
#: What Python writes for them, as JSON that SQLite reads, too.
_FINITE = {"NaN": "null", "Infinity": "1e999", "-Infinity": "-1e999"}
#: How many rows one statement writes; as many forms of it are kept ready.
ROWS_AT_ONCE = 64
_MARKS = re.compile(r"(\(\?(?:, \?)*\))")
_FIELDS = frozenset(one.name for one in fields(Completion))
_STATUSES = {one.value: one for one in CompletionStatus}
_NOTHING_SAID = Completion(None)


def connect_file(file: Path | str) -> sqlite3.Connection:
    """Return a connection in write-ahead mode that any thread may use, one at a time."""
    connection = sqlite3.connect(
        file,
        timeout=PATIENCE,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=2 * ROWS_AT_ONCE,
    )
    # Half of a surrogate pair is no text for SQLite's reader, but models say it.
    connection.text_factory = methodcaller("decode", "utf-8", "surrogatepass")
    try:
        connection.execute("PRAGMA journal_mode = WAL").close()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def prepare_tables(connection: sqlite3.Connection, version: int, statements: Sequence[str]) -> None:
    """Make the tables of a new file; raise sqlite3.DatabaseError for a file of another version."""
    found = _ask(connection, "PRAGMA user_version")
    if found not in {0, version}:
        raise sqlite3.DatabaseError(f"it has version {found}, this release reads {version}")
    if found == 0:
        for statement in statements:
            connection.execute(statement).close()
        connection.execute(f"PRAGMA user_version = {version}").close()


def write_rows(connection: sqlite3.Connection, statement: str, rows: Sequence[Sequence[object]]) -> None:
    """Write rows in one transaction: all of them, or none. `statement` ends its VALUES with one `(?, …)`.

    Few rows are one statement: it is a transaction of its own, and waits for the interpreter once, while
    `executemany` waits after each row.
    """
    if len(rows) <= ROWS_AT_ONCE:
        _insert_rows(connection, statement, rows)
        return
    with _transact(connection):
        for start in range(0, len(rows), ROWS_AT_ONCE):
            _insert_rows(connection, statement, rows[start : start + ROWS_AT_ONCE])


@contextmanager
def _transact(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE").close()
    try:
        yield
        connection.execute("COMMIT").close()
    except BaseException:
        with suppress(sqlite3.Error):  # after some errors SQLite has rolled back on its own
            connection.execute("ROLLBACK").close()
        raise


def _insert_rows(connection: sqlite3.Connection, statement: str, rows: Sequence[Sequence[object]]) -> None:
    head, group, tail = _MARKS.split(statement)
    marks = ", ".join([group] * len(rows))
    connection.execute(f"{head}{marks}{tail}", [value for row in rows for value in row]).close()


def encode_completion(completion: Completion) -> str:
    """Return a completion as JSON text, without the fields that are None; ASCII, so that any text is safe.

    The prompt is not in it: who asks for the completion of a call has its messages.
    """
    parts = []
    for name, value in vars(completion).items():
        if isinstance(value, str):
            parts.append(f'"{name}":{encode_basestring_ascii(value)}')
        elif type(value) is int:
            parts.append(f'"{name}":{value}')
        elif value is not None and name != "prompt":
            text = _COMPACT(value)
            if "NaN" in text or "Infinity" in text:
                text = _NOT_FINITE.sub(lambda found: _FINITE.get(found[0], found[0]), text)
            parts.append(f'"{name}":{text}')
    return f"{{{','.join(parts)}}}"


def decode_completion(
    text: str, prompt: Sequence[Mapping[str, object]] | None = None, *, source: str | None = None
) -> Completion:
    """Return the completion of a JSON text to a prompt; `source` overrules its own.

    Raises ValueError, TypeError or KeyError when the text is none.
    """
    known = json.loads(text)
    if not _FIELDS.issuperset(known):
        known = {name: known[name] for name in _FIELDS if name in known}
    known["status"] = _STATUSES[known["status"]]
    known["prompt"] = prompt
    if source is not None:
        known["source"] = source
    return _NOTHING_SAID.with_fields(**known)


def _make_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) else str(value)


_COMPACT = make_encoder(_make_plain)


def sum_record(record: Sequence[object]) -> int:
    """Return the checksum of a record."""
    return crc32("\0".join(map(str, record)).encode("utf-8", "surrogatepass"))


VERSION = 3
#: The environment may say how large the cache may be, in gigabytes, or `off`.
VARIABLE, DEFAULT_BYTES = "ANSWERKEY_CALL_CACHE", 10 * 10**9
#: A cache that is too large is left with this share of its limit. Below half of it, no order is kept.
_LEFT, _HALF = 0.9, 0.5
#: So many entries are deleted in one transaction: another process waits no longer than that takes.
_DELETED_AT_ONCE = 5_000
#: Of the files that SQLite makes, the database last.
_SUFFIXES = ("-wal", "-shm", "")
#: What reading a damaged file raises; SQLite's own message may quote bytes that are no text.
_FAULTS = (sqlite3.Error, UnicodeDecodeError)
#: SQLite's codes for a file that another process uses.
_TAKEN = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_CLEAR_HINT = "`answerkey cache clear calls` deletes a damaged cache"
_CREATE = """
CREATE TABLE IF NOT EXISTS replies (
    place INTEGER PRIMARY KEY, key TEXT UNIQUE, completion TEXT, checksum INTEGER
)
"""
#: Deleted pages can be given back to the disk only if that is said before the first table is made.
_SETUP = ("PRAGMA auto_vacuum = INCREMENTAL", "VACUUM", _CREATE)
_ADD = "INSERT OR REPLACE INTO replies (key, completion, checksum) VALUES (?, ?, ?)"
_FIND = """
SELECT place, key, completion, checksum FROM replies WHERE key IN (SELECT value FROM json_each(?))
"""


def default_cache_file() -> Path:
    """Return where the cache lies: below `$XDG_CACHE_HOME`, or `~/.cache` when that is not set."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "answerkey" / "calls.sqlite"


@dataclass
class CallCache:
    """The cache under a policy: `reuse` looks before asking, `update` only stores, `no-cache` does neither.

    Safe for threads, and for several processes at once. A cache that cannot be used is as if it were empty.
    It has at most `limit` bytes, and with a limit of 0 it is not used.
    """

    policy: CachePolicy
    file: Path = field(default_factory=default_cache_file)
    limit: int = field(default_factory=partial(read_limit, VARIABLE, DEFAULT_BYTES))
    _connection: sqlite3.Connection | None = field(default=None, init=False, repr=False)
    _failure: Notice | None = field(default=None, init=False, repr=False)
    _damaged: set[str] = field(default_factory=set, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        policies = get_args(CachePolicy)
        if self.policy not in policies:
            hint = suggest(self.policy, policies) or f"policies: {listing(policies)}"
            raise SpecError("E119", f"unknown cache policy {self.policy!r}", hint=hint)
        if not self.limit:
            self.policy = "no-cache"

    @property
    def notices(self) -> list[Notice]:
        """What went wrong: why the cache cannot be used, and how many of its records are damaged."""
        notices = [] if self._failure is None else [self._failure]
        if self._damaged:
            records = format_count(len(self._damaged), "record")
            message = f"{records} of the call cache `{self.file}` changed on disk and are asked again"
            notices.append(Notice(message, hint=_CLEAR_HINT))
        return notices

    def find(self, messages: Mapping[str, Sequence[Mapping[str, object]]]) -> dict[str, Completion]:
        """Return what is stored, with source `cache`; nothing unless the policy is `reuse`.

        `messages` are what is asked, by the keys of the calls.
        """
        records = self._select(list(messages))
        return {key: decode_completion(text, messages[key], source="cache") for key, text in records.items()}

    def list_known(self, keys: Sequence[str]) -> set[str]:
        """Return which of these keys `find` would find; for saying how many calls a run would make."""
        return set(self._select(keys, is_use=False))

    def add(self, finished: Sequence[tuple[str, Completion]]) -> None:
        """Store completions by key, those of failed calls aside; nothing under `no-cache`."""
        kept = [(key, one) for key, one in finished if one.status is not CompletionStatus.ERROR]
        if self.policy == "no-cache" or not kept:
            return
        now = round(time.time())
        records = [(key, encode_completion(one.with_fields(asked_at=now))) for key, one in kept]
        with self._lock:
            if (connection := self._open()) is None:
                return
            try:
                _write_records(connection, records)
                self._make_room(connection)
            except _FAULTS as error:
                self._give_up(error)

    def measure(self) -> tuple[int, int]:
        """Return how many bytes the cache takes on disk, and how many entries it has; without any, none."""
        parts = (self.file.with_name(f"{self.file.name}{suffix}") for suffix in _SUFFIXES)
        size = sum(one.lstat().st_size for one in parts if one.is_file())
        with self._lock:
            if not size or (connection := self._open()) is None:
                return size, 0
            try:
                entries = _ask(connection, "SELECT COUNT(*) FROM replies")
            except _FAULTS as error:
                self._give_up(error)
                return size, 0
            return (size if entries else 0), entries

    def clear(self) -> None:
        """Delete all entries; other processes may go on using the cache. A damaged file is deleted itself."""
        with self._lock:
            if (connection := self._open() if self.file.is_file() else None) is not None:
                try:
                    with _transact(connection):
                        connection.execute("DROP TABLE replies").close()
                        connection.execute(_CREATE).close()
                    for statement in ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                        connection.execute(statement).close()
                except _FAULTS as error:
                    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _TAKEN:
                        raise
                    self._give_up(error)
                else:
                    return
        for suffix in _SUFFIXES:
            self.file.with_name(f"{self.file.name}{suffix}").unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _select(self, keys: Sequence[str], *, is_use: bool = True) -> dict[str, str]:
        """Return the stored completions by their keys; `is_use` keeps them from being deleted soon."""
        if self.policy != "reuse" or not keys:
            return {}
        with self._lock:
            if (connection := self._open()) is None:
                return {}
            try:
                intact: dict[str, str] = {}
                old: list[tuple[str, str]] = []
                is_crowded = is_use and _measure_used(connection) > _HALF * self.limit
                middle = sum(_find_ends(connection)) // 2 if is_crowded else 0
                for place, key, text, checksum in connection.execute(_FIND, (json.dumps(keys),)).fetchall():
                    if checksum != sum_record((key, text)):
                        self._damaged.add(str(key))
                        continue
                    intact[key] = text
                    if place <= middle:
                        old.append((key, text))
                if old:
                    _write_records(connection, old)
            except _FAULTS as error:
                self._give_up(error)
                return {}
            return intact

    def _make_room(self, connection: sqlite3.Connection) -> None:
        """Delete what was not used for longest when the cache is too large."""
        if _measure_used(connection) > self.limit:
            wanted = _LEFT * self.limit
            while (used := _measure_used(connection)) > wanted:
                low, high = _find_ends(connection)
                if not high:
                    break
                share = math.ceil((high - low + 1) * (1 - wanted / used))
                last = low + min(share, _DELETED_AT_ONCE) - 1
                connection.execute("DELETE FROM replies WHERE place <= ?", (last,)).close()
        pages = _ask(connection, "PRAGMA page_count") - self.limit // _ask(connection, "PRAGMA page_size")
        if pages > 0:  # as after a larger limit
            connection.executescript(f"PRAGMA incremental_vacuum({pages})").close()  # `execute` does one page

    def _open(self) -> sqlite3.Connection | None:
        if self._connection is None and self._failure is None:
            try:
                self._connection = _open_file(self.file)
            except (OSError, *_FAULTS) as error:
                self._give_up(error)
        return self._connection

    def _give_up(self, error: Exception) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        message = f"the call cache `{self.file}` cannot be used: {error}; every call is sent"
        self._failure = Notice(message, hint=f"make room or correct its rights; {_CLEAR_HINT}")


def _write_records(connection: sqlite3.Connection, records: Sequence[tuple[str, str]]) -> None:
    write_rows(connection, _ADD, [(*record, sum_record(record)) for record in records])


def _ask(connection: sqlite3.Connection, statement: str) -> int:
    """Return the one number that a statement finds; 0 for none."""
    with closing(connection.execute(statement)) as cursor:
        return int(cursor.fetchone()[0] or 0)


def _find_ends(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return the place of the entry that was not used for longest, and the last place; 0 for none."""
    return _ask(connection, "SELECT MIN(place) FROM replies"), _ask(
        connection, "SELECT MAX(place) FROM replies"
    )


def _measure_used(connection: sqlite3.Connection) -> int:
    """Return how many bytes of the file are in use."""
    pages = _ask(connection, "PRAGMA page_count") - _ask(connection, "PRAGMA freelist_count")
    return pages * _ask(connection, "PRAGMA page_size")


def _open_file(file: Path) -> sqlite3.Connection:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Made before SQLite makes it, so that what models said is the user's alone to read.
    os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    connection = connect_file(file)
    try:
        # A cache that loses its last entries in a power failure has lost nothing that counts.
        connection.execute("PRAGMA synchronous = NORMAL")
        # Damaged text need not be text; its checksum tells.
        connection.text_factory = methodcaller("decode", "ascii", "replace")
        prepare_tables(connection, VERSION, _SETUP)
    except BaseException:
        connection.close()
        raise
    return connection


# ── all caches of the user ──────────────────────────────────────────────────────────────────────────────────

#: What the folders beside the call cache hold.
_FOLDERS = {
    "tables": "datasets as Parquet",
    "downloads": "fetched files",
    "hub": "files of dataset hubs",
    "logs": "imported logs and their runs",
}
#: The journals of unfinished runs on object storage: calls that were paid for, no cache.
_KEPT_FOLDERS = {"runs": "journals of unfinished runs; never cleared"}


@dataclass(frozen=True)
class CacheUse:
    """What a cache takes: bytes on disk, entries, and how many bytes it may have, if that is limited."""

    name: str
    holds: str
    path: Path
    size: int
    entries: int
    limit: int | None = None
    is_clearable: bool = True


def list_caches(names: Collection[str] = (), *, table_limit: int | None = None) -> list[CacheUse]:
    """Return the caches of the user, or those of some names; E119 for a name that there is not.

    Links are not followed.
    """
    home = default_cache_file().parent
    with closing(CallCache("no-cache")) as calls:
        is_link = calls.file.is_symlink()
        uses = [
            CacheUse("calls", "replies of models", calls.file, *calls.measure(), calls.limit, not is_link)
        ]
    for name, holds in (_FOLDERS | _KEPT_FOLDERS).items():
        size = entries = 0
        is_link = (home / name).is_symlink()
        for place, folders, files in () if is_link else os.walk(home / name):
            entries += len(folders) + len(files) if place == str(home / name) else 0
            for file in files:
                with suppress(OSError):  # another process may have deleted it
                    size += os.lstat(os.path.join(place, file)).st_size  # noqa: PTH118 - there may be many
        limit = table_limit if name == "tables" else None
        uses.append(
            CacheUse(name, holds, home / name, size, entries, limit, name in _FOLDERS and not is_link)
        )
    if unknown := set(names) - {one.name for one in uses}:
        hint = f"caches: {listing(one.name for one in uses)}"
        hint = suggest(min(unknown), ["clear", *(one.name for one in uses)]) or hint
        raise SpecError("E119", f"there is no cache `{min(unknown)}`", hint=hint)
    return [one for one in uses if not names or one.name in names]


def clear_cache(use: CacheUse) -> None:
    """Delete what a cache holds that may be cleared; RunError E502 when that is not possible.

    A link in place of a cache stays, and so does what it leads to.
    """
    try:
        if use.path.is_symlink() or not use.is_clearable:
            return
        if use.name == "calls":
            with closing(CallCache("no-cache", use.path)) as calls:
                calls.clear()
        elif use.path.is_dir():
            shutil.rmtree(use.path)
    except (OSError, sqlite3.Error) as error:
        hint = "correct its rights, or wait until no other process uses it"
        raise RunError("E502", f"cannot clear the cache `{use.path}`: {error}", hint=hint) from error
