"""The bytes of a data file, decompressed, and their text; read as a stream, held only when they are few."""

from __future__ import annotations

import gzip
import io
import zlib
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Literal, TextIO

from answerkey.datasets.troubles import Troubles
from answerkey.errors import DataError, Place, listing, suggest

#: The longest cell, in bytes; longer ones are nearly always an unclosed quote.
MAX_CELL = 16 * 2**20
#: A content of at most so many bytes is held in memory; a larger one is read as a stream.
HELD_BYTES = 32 * 2**20
_BLOCK = 2**20
#: One block of Zstandard data may expand many thousand times.
_PACKED_BLOCK = 2**13
_HEAD = 64
_UTF8_MARK = b"\xef\xbb\xbf"
_WIDE_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
#: First bytes of files that are often given the wrong name, what they are, and endings that fit.
_SIGNATURES: dict[bytes, tuple[str, tuple[str, ...]]] = {
    b"PAR1": ("Parquet: name it `.parquet`", (".parquet", ".pq", ".gz", ".zst")),
    b"ARROW1": ("Arrow: name it `.arrow`", (".arrow", ".feather", ".ipc", ".gz", ".zst")),
    b"\x1f\x8b": ("compressed with gzip: add `.gz` to its name", ()),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd: add `.zst` to its name", ()),
    b"PK\x03\x04": ("a zip archive or a workbook: unpack it, or save it as CSV", ()),
    b"\xd0\xcf\x11\xe0": ("a workbook: save it as CSV", ()),
    b"SQLite format 3": ("an SQLite database: export the table as CSV", ()),
}


@dataclass(frozen=True)
class Content:
    """What a data file holds after decompression; `file` is its name in errors.

    `raw` are all bytes, None when there are more than `HELD_BYTES` of them.
    """

    file: str
    path: Path
    raw: bytes | None = field(default=None, repr=False)

    @property
    def is_packed(self) -> bool:
        """Whether the file is compressed."""
        return self.path.suffix.lower() in COMPRESSIONS

    def open(self) -> BinaryIO:
        """Return a stream of the decompressed bytes; damage is found when it is read."""
        if self.raw is not None:
            return io.BytesIO(self.raw)
        expand = COMPRESSIONS.get(self.path.suffix.lower())
        try:
            require_plain(self.path)
            stream = self.path.open("rb")
        except FileNotFoundError:
            raise _missing(self.path) from None
        except (OSError, ValueError) as error:
            raise describe_unreadable(self.path, error) from None
        return io.BufferedReader(expand(stream, self.file), _BLOCK) if expand else stream  # type: ignore[type-var]  # a raw stream

    def open_text(self, newline: Literal["", "\n"] = "") -> TextIO:
        """Return a stream of the text, without its byte order mark and with its line ends as they are.

        A line ends as anywhere, or only at `newline`.
        """
        self.refuse_wide()
        return io.TextIOWrapper(self.open(), encoding="utf-8-sig", newline=newline)

    @cached_property
    def digest(self) -> str:
        """The sha256 of the decompressed bytes."""
        digest = sha256()
        with self.open() as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
        return digest.hexdigest()

    @cached_property
    def head(self) -> bytes:
        """The first bytes."""
        with self.open() as stream:
            return stream.read(_HEAD)

    def place(self, line: int | None = None, column: int | None = None) -> Place:
        """Return a place in this file."""
        return Place(file=self.file, line=line, column=column)

    def guess(self) -> str | None:
        """Return the hint what this file is by its first bytes, if its name says otherwise."""
        for mark, (kind, endings) in _SIGNATURES.items():
            if self.head.startswith(mark) and not self.file.lower().endswith(endings):
                return f"by its first bytes this file is {kind}"
        return None

    def refuse_wide(self) -> None:
        """Raise E203 for UTF-16 and UTF-32."""
        for mark, encoding in _WIDE_MARKS.items():
            if self.head.startswith(mark):
                message = f"the file is {encoding}, not UTF-8"
                raise DataError("E203", message, where=self.place(1), hint="save it as UTF-8")

    def check_text(self) -> None:
        """Raise E203 with all lines that are not UTF-8, or that hold a NUL; nothing if there are none."""
        self.refuse_wide()
        broken, nul = Troubles(self.file), Troubles(self.file)
        with self.open() as stream:
            for number, raw in enumerate(stream, 1):
                line = raw.removeprefix(_UTF8_MARK) if number == 1 else raw
                self._check_line(line.removesuffix(b"\n"), number, broken, nul)
        broken.raise_any()
        nul.raise_any()

    def _check_line(self, line: bytes, number: int, broken: Troubles, nul: Troubles) -> None:
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            column = len(line[: error.start].decode()) + 1
            message = f"byte 0x{line[error.start]:02x} is not valid UTF-8"
            hint = self.guess() or "save the file as UTF-8"
            broken.add("E203", message, where=self.place(number, column), hint=hint)
            return
        if (at := text.find("\0")) >= 0:
            hint = self.guess() or "the file is damaged, or is UTF-16: save it as UTF-8"
            nul.add("E203", "NUL byte in the text", where=self.place(number, at + 1), hint=hint)


def read_content(path: str | Path, *, shown: str | None = None) -> Content:
    """Return the content of a file; a small one is read now. `shown` is its name in errors."""
    content = Content(shown or str(path), Path(path))
    with content.open() as stream:
        if not content.is_packed and content.path.stat().st_size > HELD_BYTES:
            return content
        try:
            raw = stream.read(HELD_BYTES + 1)
        except OSError as error:
            raise describe_unreadable(content.path, error) from None
    return content if len(raw) > HELD_BYTES else replace(content, raw=raw)


def describe_unreadable(path: Path, error: OSError | ValueError) -> DataError:
    """Return E201 for a file that cannot be read."""
    reason = "it is a folder" if path.is_dir() else getattr(error, "strerror", None) or str(error)
    message = f"cannot read data file `{path}`: {reason.lower()}"
    return DataError("E201", message, where=Place(file=str(path)))


def require_plain(path: Path) -> None:
    """Raise E201 for a pipe, a socket or a device: it may never end, and cannot be read twice."""
    if path.exists() and not path.is_file() and not path.is_dir():
        hint = "write what it gives to a file, and name that"
        raise DataError("E201", f"`{path}` is not a plain file", where=Place(file=str(path)), hint=hint)


def _missing(path: Path) -> DataError:
    folder = path.parent
    if not folder.is_dir():
        hint = f"there is no folder `{folder}`"
    else:
        names = sorted(one.name for one in folder.iterdir() if one.is_file())
        hint = suggest(path.name, names) or f"files there: {listing(names, limit=5)}"
    return DataError("E201", f"there is no data file `{path}`", where=Place(file=str(path)), hint=hint)


class _Expanding(io.RawIOBase):
    """Decompressed bytes; damage is raised as E202 by whoever reads."""

    kind = ""

    def __init__(self, packed: BinaryIO, file: str) -> None:
        super().__init__()
        self._packed = packed
        self._file = file
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]  # what BufferedReader hands in
        while not self._rest:
            part = self.expand()
            if part is None:
                return 0
            self._rest = part
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    @abstractmethod
    def expand(self) -> bytes | None:
        """Return some more bytes, None at the end."""

    def close(self) -> None:
        self._packed.close()
        super().close()

    def truncated(self) -> DataError:
        """Return the error about a file that was cut off."""
        message = f"the {self.kind} file ends in the middle"
        return DataError("E202", message, where=Place(file=self._file), hint="copy or download it again")

    def damaged(self, reason: str) -> DataError:
        """Return the error about a file that is not compressed as its name says."""
        hint = f"copy or download it again; a file that is not compressed must not be named as {self.kind}"
        message = f"not a valid {self.kind} file: {reason}"
        return DataError("E202", message, where=Place(file=self._file), hint=hint)


class _Gzip(_Expanding):
    kind = "gzip"

    def __init__(self, packed: BinaryIO, file: str) -> None:
        super().__init__(packed, file)
        self._stream = gzip.GzipFile(fileobj=packed)

    def expand(self) -> bytes | None:
        """Return some more bytes, None at the end."""
        try:
            return self._stream.read(_BLOCK) or None
        except EOFError:
            raise self.truncated() from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise self.damaged(str(error)) from None


class _Zstd(_Expanding):
    """All frames of a Zstandard file, one after the other."""

    kind = "zstd"

    def __init__(self, packed: BinaryIO, file: str) -> None:
        import zstandard

        super().__init__(packed, file)
        self._start = zstandard.ZstdDecompressor().decompressobj
        self._errors = zstandard.ZstdError
        self._frame = self._start()
        self._is_open = False
        self._left = b""

    def expand(self) -> bytes | None:
        """Return some more bytes, None at the end."""
        block = self._left or self._packed.read(_PACKED_BLOCK)
        if not block:
            if self._is_open:
                raise self.truncated()
            return None
        try:
            part = self._frame.decompress(block)
        except self._errors as error:
            raise self.damaged(str(error)) from None
        self._is_open, self._left = not self._frame.eof, self._frame.unused_data
        if self._frame.eof:
            self._frame = self._start()
        return part


#: Ending of a compressed file to what expands its bytes.
COMPRESSIONS: dict[str, Callable[[BinaryIO, str], _Expanding]] = {".gz": _Gzip, ".zst": _Zstd}
