"""SQLite files for calls, and completions as JSON text; shared by the call cache and the journals of runs."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import fields
from itertools import islice
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import TypeVar

from answerkey.models.encoding import make_encoder
from answerkey.types import Completion, CompletionStatus

#: Seconds to wait for another process that is writing.
PATIENCE = 30.0
#: How many keys one query asks for; every build of SQLite takes as many.
KEYS_AT_ONCE = 500
#: Numbers that JSON does not know; texts are matched so as to be passed over.
_NOT_FINITE = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN')
#: How many rows one statement writes; as many forms of it are kept ready.
ROWS_AT_ONCE = 64
_MARKS = re.compile(r"(\(\?(?:, \?)*\))")
_FIELDS = tuple(one.name for one in fields(Completion))

T = TypeVar("T")


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
    for batch in cut_batches(dict.fromkeys(keys), KEYS_AT_ONCE):
        marks = ", ".join("?" * len(batch))
        with closing(connection.execute(f"{statement} ({marks})", batch)) as cursor:
            found += cursor.fetchall()
    return found


def cut_batches(values: Mapping[T, object], size: int) -> Iterator[list[T]]:
    """Yield the keys of a mapping in lists of at most `size`."""
    rest = iter(values)
    while batch := list(islice(rest, size)):
        yield batch


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
            parts.append(f'"{name}":{_encode_value(value)}')
    return f"{{{','.join(parts)}}}"


def _encode_value(value: object) -> str:
    text = _COMPACT(value)
    return _NOT_FINITE.sub(_spell_number, text) if "NaN" in text or "Infinity" in text else text


def _spell_number(found: re.Match[str]) -> str:
    """Return what Python writes for a number that is not finite as JSON that SQLite reads, too."""
    if found[0].startswith('"'):
        return found[0]
    return "null" if found[0] == "NaN" else found[0].replace("Infinity", "1e999")


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
