"""The call cache: what models said before, in the user's cache folder, by the key of the call.

A key stands for the model (without secrets), its parameters, the messages and the trial. Nothing depends on
the cache: one that cannot be read or written is a notice, and every call is asked.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from answerkey.errors import SpecError, listing, suggest
from answerkey.models.storing import (
    connect_file,
    decode_completion,
    encode_completion,
    prepare_tables,
    select_rows,
    write_rows,
)
from answerkey.types import Completion, CompletionStatus, Notice

CachePolicy = Literal["reuse", "update", "no-cache"]
CACHE_POLICIES: tuple[CachePolicy, ...] = get_args(CachePolicy)
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
        if self.policy not in CACHE_POLICIES:
            hint = suggest(self.policy, CACHE_POLICIES) or f"policies: {listing(CACHE_POLICIES)}"
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
        message = f"the call cache `{self.file}` cannot be used: {error}; every call is asked"
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
