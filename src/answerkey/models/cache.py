"""The call cache: what models said before, in the user's cache folder; and how calls are stored in SQLite.

A key stands for the model (without secrets), its parameters, the messages and the trial. Nothing depends on
the cache: one that cannot be read or written is a notice, and every call is asked.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, fields
from itertools import islice
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import get_args

from answerkey.errors import SpecError, listing, suggest
from answerkey.models.calls import make_encoder
from answerkey.models.config import CachePolicy
from answerkey.types import Completion, CompletionStatus, Notice

#: Seconds to wait for another process that is writing.
PATIENCE = 30.0
#: How many keys one query asks for; every build of SQLite takes as many.
KEYS_AT_ONCE = 500
#: Numbers that JSON does not know; texts are matched so as to be passed over.
_NOT_FINITE = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN')
#: What Python writes for them, as JSON that SQLite reads, too.
_FINITE = {"NaN": "null", "Infinity": "1e999", "-Infinity": "-1e999"}
#: How many rows one statement writes; as many forms of it are kept ready.
ROWS_AT_ONCE = 64
_MARKS = re.compile(r"(\(\?(?:, \?)*\))")
_FIELDS = tuple(one.name for one in fields(Completion))


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
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogatepass")
    try:
        connection.execute("PRAGMA journal_mode = WAL").close()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def prepare_tables(connection: sqlite3.Connection, version: int, statements: Sequence[str]) -> None:
    """Make the tables of a new file; raise sqlite3.DatabaseError for a file of another version."""
    with closing(connection.execute("PRAGMA user_version")) as cursor:
        found = cursor.fetchone()[0]
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
    connection.execute("BEGIN IMMEDIATE").close()
    try:
        for start in range(0, len(rows), ROWS_AT_ONCE):
            _insert_rows(connection, statement, rows[start : start + ROWS_AT_ONCE])
        connection.execute("COMMIT").close()
    except BaseException:
        with suppress(sqlite3.Error):  # after some errors SQLite has rolled back on its own
            connection.execute("ROLLBACK").close()
        raise


def _insert_rows(connection: sqlite3.Connection, statement: str, rows: Sequence[Sequence[object]]) -> None:
    head, group, tail = _MARKS.split(statement)
    marks = ", ".join([group] * len(rows))
    connection.execute(f"{head}{marks}{tail}", [value for row in rows for value in row]).close()


def select_rows(connection: sqlite3.Connection, statement: str, keys: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the rows of `statement … IN` for these keys, asked for in batches."""
    found: list[tuple[str, ...]] = []
    rest = iter(dict.fromkeys(keys))
    while batch := list(islice(rest, KEYS_AT_ONCE)):
        marks = ", ".join("?" * len(batch))
        with closing(connection.execute(f"{statement} ({marks})", batch)) as cursor:
            found += cursor.fetchall()
    return found


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
    found = json.loads(text)
    known = {name: found[name] for name in _FIELDS if name in found}
    known["status"] = CompletionStatus(known["status"])
    known.setdefault("text", None)
    known["prompt"] = prompt
    if source is not None:
        known["source"] = source
    return Completion(**known)


def _make_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) else str(value)


_COMPACT = make_encoder(_make_plain)


VERSION = 1
_CREATE = "CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, completion TEXT NOT NULL) WITHOUT ROWID"
_ADD = "INSERT INTO calls VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET completion = excluded.completion"


def default_cache_file() -> Path:
    """Return where the cache lies: below `$XDG_CACHE_HOME`, or `~/.cache` when that is not set."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "answerkey" / "calls.sqlite"


@dataclass
class CallCache:
    """The cache under a policy: `reuse` looks before asking, `update` only stores, `no-cache` does neither.

    Safe for threads, and for several processes at once. `notices` says what went wrong, once; from then on
    the cache is as if it were empty.
    """

    policy: CachePolicy = "reuse"
    file: Path = field(default_factory=default_cache_file)
    notices: list[Notice] = field(default_factory=list)
    _connection: sqlite3.Connection | None = field(default=None, init=False, repr=False)
    _is_given_up: bool = field(default=False, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        policies = get_args(CachePolicy)
        if self.policy not in policies:
            hint = suggest(self.policy, policies) or f"policies: {listing(policies)}"
            raise SpecError("E119", f"unknown cache policy {self.policy!r}", hint=hint)

    def find(self, messages: Mapping[str, Sequence[Mapping[str, object]]]) -> dict[str, Completion]:
        """Return what is stored, with source `cache`; nothing unless the policy is `reuse`.

        `messages` are what is asked, by the keys of the calls.
        """
        found: dict[str, Completion] = {}
        for key, text in self._select("key, completion", list(messages)):
            with suppress(ValueError, TypeError, KeyError):  # an entry that cannot be read is asked anew
                found[key] = decode_completion(text, messages[key], source="cache")
        return found

    def list_known(self, keys: Sequence[str]) -> set[str]:
        """Return which of these keys `find` would find; for saying how many calls a run would make."""
        return {row[0] for row in self._select("key", keys)}

    def add(self, finished: Sequence[tuple[str, Completion]]) -> None:
        """Store completions by key, those of failed calls aside; nothing under `no-cache`."""
        kept = [(key, one) for key, one in finished if one.status is not CompletionStatus.ERROR]
        if self.policy == "no-cache" or not kept:
            return
        rows = [(key, encode_completion(one)) for key, one in kept]
        with self._lock:
            if (connection := self._open()) is None:
                return
            try:
                write_rows(connection, _ADD, rows)
            except sqlite3.Error as error:
                self._give_up(error)

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _select(self, columns: str, keys: Sequence[str]) -> list[tuple[str, ...]]:
        if self.policy != "reuse" or not keys:
            return []
        with self._lock:
            if (connection := self._open()) is None:
                return []
            try:
                return select_rows(connection, f"SELECT {columns} FROM calls WHERE key IN", keys)  # noqa: S608  # our own column names
            except sqlite3.Error as error:
                self._give_up(error)
                return []

    def _open(self) -> sqlite3.Connection | None:
        if self._connection is None and not self._is_given_up:
            try:
                self._connection = _open_file(self.file)
            except (OSError, sqlite3.Error) as error:
                self._give_up(error)
        return self._connection

    def _give_up(self, error: Exception) -> None:
        self._is_given_up = True
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        message = f"the call cache `{self.file}` cannot be used: {error}; every call is sent"
        hint = "make room or correct its rights; a damaged cache may be deleted"
        self.notices.append(Notice(message, hint=hint))


def _open_file(file: Path) -> sqlite3.Connection:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Made before SQLite makes it, so that what models said is the user's alone to read.
    os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    connection = connect_file(file)
    try:
        # A cache that loses its last entries in a power failure has lost nothing that counts.
        connection.execute("PRAGMA synchronous = NORMAL")
        prepare_tables(connection, VERSION, [_CREATE])
    except BaseException:
        connection.close()
        raise
    return connection
