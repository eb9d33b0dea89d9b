"""The files that a log consists of: one file, those of a folder, or the members of an archive."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, TextIO

from answerkey.datasets.content import Content
from answerkey.errors import AnswerkeyError, DataError, Place
from answerkey.exchange.archives import DamagedError, is_archive, iterate_members, open_member

#: The longest line, in bytes.
MOST_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Piece:
    """One file of a log: its name within the log, how errors call it, and its bytes, decompressed."""

    name: str
    file: str
    open: Callable[[], BinaryIO]

    def place(self, line: int | None = None) -> Place:
        """Return a place in this file."""
        return Place(file=self.file, line=line)

    def open_text(self) -> TextIO:
        """Return a stream of the text, without its byte order mark."""
        return io.TextIOWrapper(self.open(), encoding="utf-8-sig", errors="strict", newline="")

    def read_text(self, limit: int = MOST_BYTES) -> str:
        """Return the whole text; DamagedError for one that is too long, or no text."""
        with self.open() as stream:
            raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise DamagedError(f"it has more than {limit} bytes")
        return decode_text(raw)


def decode_text(raw: bytes) -> str:
    """Return bytes as text; DamagedError when they are none."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DamagedError(f"byte 0x{raw[error.start]:02x} is not valid UTF-8") from None


def iterate_pieces(path: Path) -> Iterator[Piece]:
    """Yield the files of a log: members of an archive as it lists them, those of a folder by name."""
    if not path.exists():
        raise DataError("E201", f"there is no log `{path}`", where=Place(file=str(path)))
    if path.is_dir():
        yield from _walk(path)
    elif is_archive(path):
        for member in iterate_members(path):
            yield Piece(member.name, f"{path}/{member.name}", partial(open_member, path, member))
    else:
        yield _take_file(path, path.name)


def _walk(folder: Path) -> Iterator[Piece]:
    """Yield the files of a folder and of those in it, hidden ones left aside, as they are found."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if not name.startswith(".") and path.is_file():
                yield _take_file(path, path.relative_to(folder).as_posix())


def _take_file(path: Path, name: str) -> Piece:
    return Piece(name, str(path), partial(_open_file, path))


def _open_file(path: Path) -> BinaryIO:
    return Content(str(path), path).open()


def describe_failure(error: Exception) -> str | None:
    """Return why a file could not be read; None for what is no fault of the file."""
    if isinstance(error, DamagedError):
        return str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"byte 0x{error.object[error.start]:02x} is not valid UTF-8"
    if isinstance(error, AnswerkeyError):
        return error.message
    return str(error.strerror or error) if isinstance(error, OSError) else None
