"""What one file of a log says about lines of another, kept on disk until those come by."""

from __future__ import annotations

import json
import sqlite3
from types import TracebackType
from typing import Self

from answerkey.errors import RunError

_FORM = "CREATE TABLE notes (name TEXT PRIMARY KEY, content TEXT NOT NULL) WITHOUT ROWID"


class Shelf:
    """Values by name in a file that is gone afterwards; of values of one name the last counts."""

    def __init__(self) -> None:
        self.count = 0
        self._base = sqlite3.connect("", isolation_level=None)
        for command in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", _FORM, "BEGIN"):
            self._base.execute(command)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._base.close()

    def put(self, name: str, content: object) -> None:
        """Keep a value that JSON can hold."""
        row = (_store(name), json.dumps(content))
        try:
            self._base.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", row)
        except sqlite3.Error as error:
            hint = "free some space, or set `TMPDIR` to another folder"
            raise RunError("E502", f"cannot keep a part of the log on disk: {error}", hint=hint) from error
        self.count += 1

    def get(self, name: str) -> object:
        """Return the value of a name; None when there is none."""
        found = self._base.execute("SELECT content FROM notes WHERE name = ?", (_store(name),)).fetchone()
        return None if found is None else json.loads(found[0])


def _store(name: str) -> str:
    """Return a name that can be stored; half surrogate pairs cannot."""
    return name.encode("utf-8", "backslashreplace").decode()
