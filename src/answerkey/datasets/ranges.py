"""Parquet on shared storage, of which only what is asked for is fetched.

What is fetched is laid out in a local file with holes, at the very places where the object has it, so that
the column library reads it as it reads any file. A few hundred megabytes are kept for the next shard of the
same rows; then a new file is begun.
"""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from answerkey.datasets.parquet_footer import MARK, TAIL, Footer, merge_spans, read_footer, read_length
from answerkey.datasets.storage import BLOCK, StoredObject
from answerkey.errors import DataError, Place

#: Where a piece of a column starts, and where it stops.
Span = tuple[int, int]
#: A file with holes is left for a new one when it holds so many bytes.
MOST_BYTES = 256 * 2**20
#: Of so many objects, those read last, what was fetched is kept.
KEPT = 4
#: How many ranges of one shard are on the way together.
TOGETHER = 4
#: The end of an object is fetched by a guess at its length first.
_GUESS = 2**16
_LARGEST_FOOTER = 2**30
#: Where a file without a name can be opened, nothing is left of a process that was killed.
_IS_NAMELESS = sys.platform == "linux"


@lru_cache(maxsize=64)
def load_footer(stored: StoredObject) -> Footer:
    """Return the footer of a Parquet object; DataError E202 when it is none."""
    try:
        return _load_footer(stored)
    except ValueError as error:
        raise _refuse(stored, str(error)) from None


def _load_footer(stored: StoredObject) -> Footer:
    start = max(0, stored.size - _GUESS)
    raw = stored.read(start, stored.size) if stored.size else b""
    length = read_length(raw[-TAIL:]) + TAIL
    if length > min(stored.size - len(MARK), _LARGEST_FOOTER):
        raise ValueError("its footer is longer than the file")
    if length > len(raw):
        raw = stored.read(stored.size - length, stored.size)
    return read_footer(raw[-length:], stored.size - length)


@contextmanager
def lay_out(stored: StoredObject, rows: range, names: Collection[str]) -> Iterator[Path]:
    """Yield a file in which these columns of these rows, and the footer, are where the object has them."""
    footer = load_footer(stored)
    spans = footer.list_spans(rows, frozenset(names))
    sheet = _take_sheet(stored, footer, spans)
    try:
        sheet.fill(spans)
        yield sheet.path
    finally:
        _leave(sheet)


@dataclass
class _Sheet:
    """A file with holes, and which spans of the object it has; `users` are at work on it."""

    stored: StoredObject
    file: BinaryIO
    path: Path
    users: int = 0
    held: set[Span] = field(default_factory=set)
    size: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def fill(self, spans: Collection[Span]) -> None:
        """Fetch what is missing; two shards of the same rows fetch it once."""
        with self.lock:
            missing = [span for span in spans if span not in self.held]
            blocks = [
                (start, min(start + BLOCK, last))
                for first, last in merge_spans(missing)
                for start in range(first, last, BLOCK)
            ]
            if blocks:
                with ThreadPoolExecutor(TOGETHER) as pool:
                    list(pool.map(lambda block: self._fetch(*block), blocks))
            self.held.update(missing)
            self.size += sum(last - first for first, last in missing)

    def _fetch(self, start: int, stop: int) -> None:
        raw = self.stored.read(start, stop)
        with self.turn, _writing(self.stored):
            self.file.seek(start)
            self.file.write(raw)
            self.file.flush()

    def close(self) -> None:
        """Give the room back."""
        self.file.close()
        if not _IS_NAMELESS:
            self.path.unlink(missing_ok=True)


_sheets: dict[StoredObject, _Sheet] = {}
_guard = threading.Lock()


def _take_sheet(stored: StoredObject, footer: Footer, spans: Collection[Span]) -> _Sheet:
    with _guard:
        sheet = _sheets.pop(stored, None)
        # One that has all that is wanted is used on: a single group of rows may be larger than is kept.
        if sheet is not None and sheet.size > MOST_BYTES and not sheet.held.issuperset(spans):
            _remove_unused(sheet)
            sheet = None
        sheet = _sheets[stored] = sheet or _begin(stored, footer)  # the last one is that used last
        sheet.users += 1
        return sheet


def _leave(sheet: _Sheet) -> None:
    """Let a file go; one that was left for a new one, or was not used for long, is removed."""
    with _guard:
        sheet.users -= 1
        if _sheets.get(sheet.stored) is not sheet:
            _remove_unused(sheet)
        unused = [one for one in _sheets.values() if not one.users]
        for other in unused[: max(0, len(_sheets) - KEPT)]:
            _remove_unused(_sheets.pop(other.stored))


def _remove_unused(sheet: _Sheet) -> None:
    if not sheet.users:
        sheet.close()


@atexit.register
def _close_all() -> None:
    for sheet in _sheets.values():
        sheet.close()


def _begin(stored: StoredObject, footer: Footer) -> _Sheet:
    """Make a file of the object's size that holds nothing but its marks and its footer."""
    with _writing(stored):
        return _make_sheet(stored, footer)


@contextmanager
def _writing(stored: StoredObject) -> Iterator[None]:
    """Tell a disk that takes no more from an object that is damaged."""
    try:
        yield
    except OSError as error:
        folder = tempfile.gettempdir()
        message = f"`{stored.url}` cannot be read: what is fetched of it has no room in `{folder}`: {error}"
        hint = "make room there, or name another folder in `TMPDIR`"
        raise DataError("E214", message, where=Place(file=stored.url), hint=hint) from None


def _make_sheet(stored: StoredObject, footer: Footer) -> _Sheet:
    if _IS_NAMELESS:
        file: BinaryIO = tempfile.TemporaryFile(prefix="answerkey-")  # noqa: SIM115 - closed with the sheet
        path = Path(f"/proc/self/fd/{file.fileno()}")
    else:
        handle, name = tempfile.mkstemp(dir=_open_folder(), prefix="sheet-", suffix=".parquet")
        file, path = os.fdopen(handle, "r+b"), Path(name)
    file.truncate(stored.size)
    file.write(MARK)
    file.seek(footer.start)
    file.write(footer.raw)
    file.flush()
    return _Sheet(stored, file, path)


@lru_cache(maxsize=1)
def _open_folder() -> str:
    """Return a folder that goes with this process."""
    made = tempfile.TemporaryDirectory(prefix="answerkey-ranges-", ignore_cleanup_errors=True)
    _folders.append(made)
    return made.name


_folders: list[tempfile.TemporaryDirectory[str]] = []


def _refuse(stored: StoredObject, why: str) -> DataError:
    message = f"not a valid Parquet file: {why}"
    return DataError("E202", message, where=Place(file=stored.url), hint="write or upload it again")
