"""A run seen from outside while another process works on it: nothing is locked, made or changed."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from urllib.parse import quote

from answerkey.errors import RunError
from answerkey.runs.lock import LOCK_NAME, is_alive
from answerkey.runs.store import JOURNAL_NAME, PART, FolderStore

_SOLVE = "solve"
#: Seconds in which a journal that was written to counts as being worked on, wherever that is done.
_FRESH = 60.0
_PATIENCE = 2.0
_COLUMNS = """
SELECT rowid, purpose, status, source, json_extract(completion, '$.prompt_tokens'),
    json_extract(completion, '$.completion_tokens') FROM calls
"""
_NEWER = f"{_COLUMNS} WHERE rowid > ?"
_AGAIN = f"{_COLUMNS} WHERE rowid IN (SELECT value FROM json_each(?))"  # noqa: S608 - constants


@dataclass(frozen=True)
class Progress:
    """How far a run is: questions answered (failed ones too), calls of every purpose, tokens of live ones."""

    done: int
    calls: int
    failed: int
    prompt_tokens: int
    completion_tokens: int


@dataclass
class RunWatch:
    """Looks at one run folder again and again; what was counted once is not read twice.

    Calls are appended to the journal and stay as they are, but for failed ones, which a resumed run asks
    again: these alone are looked up anew.
    """

    folder: Path
    _last: int = 0
    _failed: dict[int, str] = field(default_factory=dict)
    _finished: Counter[str] = field(default_factory=Counter)
    _tokens: tuple[int, int] = (0, 0)
    _rows: dict[str, int] = field(default_factory=dict)

    def look(self) -> Progress:
        """Return how far the run is now; what cannot be read at this moment is left for the next look."""
        with suppress(sqlite3.Error, OSError):  # it may be in the making, or being removed
            self._read_journal()
        failed = Counter(self._failed.values())
        solved = self._finished[_SOLVE] + failed[_SOLVE]
        return Progress(
            done=max(solved, self._count_rows()),
            calls=self._finished.total() + failed.total(),
            failed=failed.total(),
            prompt_tokens=self._tokens[0],
            completion_tokens=self._tokens[1],
        )

    def _read_journal(self) -> None:
        file = self.folder / JOURNAL_NAME
        if not file.is_file():
            return
        with closing(_connect(file)) as connection:
            again = list(connection.execute(_AGAIN, (json.dumps([*self._failed]),)))
            newer = connection.execute(_NEWER, (self._last,))
            self._failed.clear()
            for place, purpose, status, source, asked, said in chain(again, newer):
                self._last = max(self._last, place)
                if status == "ERROR":
                    self._failed[place] = purpose
                    continue
                self._finished[purpose] += 1
                if source != "cache":
                    self._tokens = self._tokens[0] + (asked or 0), self._tokens[1] + (said or 0)

    def _count_rows(self) -> int:
        """Return how many rows of completions or scores are written, whichever are more."""
        written = Counter({"completions": 0, "scores": 0})
        store = FolderStore(self.folder)
        files = {}
        with suppress(OSError, RunError):  # it may be in the making, or none of ours
            files = store.list_files("tasks")
        for name, file in files.items():
            if PART.fullmatch(name):
                if name not in self._rows:
                    with suppress(RunError):
                        self._rows[name] = store.count_rows(file)
                written[name.split("/")[-2]] += self._rows.get(name, 0)
        return max(written.values())


def _connect(file: Path) -> sqlite3.Connection:
    """Return a connection that only reads, and leaves no file behind.

    A journal that is being written has its `-wal` and `-shm` beside it. One without them is whole in itself;
    SQLite would make them anew just to read it, unless told that nobody writes.
    """
    is_written = all(file.with_name(f"{file.name}{suffix}").exists() for suffix in ("-wal", "-shm"))
    address = f"file:{quote(str(file.absolute()))}?mode=ro{'' if is_written else '&immutable=1'}"
    return sqlite3.connect(address, uri=True, timeout=_PATIENCE)


def is_under_way(folder: Path) -> bool:
    """Return whether a process works on the run in a folder, as far as can be told without its lock.

    Taking the lock to find out could turn away a process that starts at this moment.
    """
    try:
        holder = (folder / LOCK_NAME).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return False
    if holder.isdecimal() and is_alive(int(holder)):
        return True
    # The journal was written to a moment ago, perhaps by another machine.
    times = [path.stat().st_mtime for path in folder.glob(f"{JOURNAL_NAME}*") if path.exists()]
    return bool(times) and time.time() - max(times) < _FRESH
