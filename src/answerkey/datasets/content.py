"""The bytes of a data file, decompressed, and their text, read as a stream."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Literal, TextIO

import polars as pl

from answerkey.errors import DataError, Place, listing, raise_all, suggest
from answerkey.types import Notice, read_limit

#: How many gigabytes a line, a row or an element of JSON may have; a cell may have half of that.
LINE_VARIABLE = "ANSWERKEY_MAX_LINE"
DEFAULT_LINE_BYTES = 32 * 10**6
#: How many bad rows of one file are shown, and how many with the same mistake; the rest is counted.
SHOWN, SAME_SHOWN = 20, 3
#: What Polars raises about a file that is not what it should be.
FOREIGN = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)
BLOCK = 2**20
#: Few bytes of Zstandard data may expand many thousand times.
PACKED_BLOCK = 2**8
HEAD_BYTES = 64
ENCODING_HINT = "save the file as UTF-8; `iconv -f LATIN1 -t UTF-8 FILE` prints it so"
UTF8_MARK = b"\xef\xbb\xbf"
WIDE_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
#: First bytes of files that are often given the wrong name, what they are, and endings that fit.
SIGNATURES: dict[bytes, tuple[str, tuple[str, ...]]] = {
    b"PAR1": ("Parquet: name it `.parquet`", (".parquet", ".pq", ".gz", ".zst")),
    b"ARROW1": ("Arrow: name it `.arrow`", (".arrow", ".feather", ".ipc", ".gz", ".zst")),
    b"\x1f\x8b": ("compressed with gzip: add `.gz` to its name", ()),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd: add `.zst` to its name", ()),
    b"PK\x03\x04": ("a zip archive or a workbook: unpack it, or save it as CSV", ()),
    b"\xd0\xcf\x11\xe0": ("a workbook: save it as CSV", ()),
    b"version https://git-lfs": ("a pointer of Git LFS: fetch the file with `git lfs pull`", ()),
    b"<!DOCTYPE": ("a web page: download the file itself", ()),
    b"<html": ("a web page: download the file itself", ()),
    b"SQLite format 3": ("an SQLite database: export the table as CSV", ()),
}


def find_line_limit() -> int:
    """Return the most bytes, or characters, of a line, of a row of CSV, or of an element of
    JSON.
    """
    return read_limit(LINE_VARIABLE, DEFAULT_LINE_BYTES) or sys.maxsize


def find_cell_limit() -> int:
    """Return the most bytes of a cell; longer ones are nearly always an unclosed quote."""
    return find_line_limit() // 2


def describe_long(part: str, limit: int) -> str:
    """Return the message about a part of a file that is longer than a limit, and how to raise
    it.
    """
    more = f"`{LINE_VARIABLE}={find_line_limit() * 4 / 10**9:g}`"
    return f"{part} has more than {limit / 10**6:g} MB; if that is meant, set {more}"


def iterate_lines(
    stream: TextIO,
    file: str,
    before: int = 0,
) -> Iterator[str]:
    """Yield the lines of a file, which follow after so many others.

    E202 for one that is too long.
    """
    limit = find_line_limit()
    number = before
    while line := stream.readline(limit + 1):
        number += 1
        if len(line) > limit:
            where = Place(file, number)
            raise DataError("E202", describe_long("the line", limit), where=where)
        yield line


def refuse_file(
    code: str,
    message: str,
    file: str | None,
    hint: str | None = None,
    *,
    field: str | None = None,
) -> DataError:
    """Return the error about a file, or about one of its columns."""
    return DataError(code, message, where=Place(file=file, field=field), hint=hint)


@dataclass
class RowErrors:
    """The bad rows of one file so far: the first `SHOWN` as errors, the rest as a count."""

    file: str | None
    errors: list[DataError] = field(default_factory=list)
    unshown: int = 0

    def add(
        self,
        code: str,
        message: str,
        *,
        where: Place,
        hint: str | None = None,
    ) -> None:
        """Remember one bad row."""
        if len(self.errors) < SHOWN:
            self.errors.append(DataError(code, message, where=where, hint=hint))
        else:
            self.unshown += 1

    def raise_any(self) -> None:
        """Raise the errors together; do nothing if there are none."""
        errors = list(self.errors)
        kinds = {(error.code, error.message, error.hint) for error in errors}
        if len(kinds) == 1:
            errors = errors[:SAME_SHOWN]
        unshown = self.unshown + len(self.errors) - len(errors)
        if unshown:
            message = f"{unshown} more bad rows in this file are not shown"
            hint = "correct the others first"
            errors.append(refuse_file(errors[-1].code, message, self.file, hint))
        raise_all(errors)


@dataclass(frozen=True)
class Content:
    """What a data file holds after decompression; `file` is its name in errors.

    Its readers add to `notices` what is odd about the file.
    """

    file: str
    path: Path
    notices: list[Notice] = field(default_factory=list, compare=False)

    @property
    def is_packed(self) -> bool:
        """Whether the file is compressed."""
        return self.path.suffix.lower() in COMPRESSIONS

    def open(self) -> BinaryIO:
        """Return a stream of the decompressed bytes; damage is found when it is read."""
        try:
            require_plain(self.path)
            stream = self.path.open("rb")
        except FileNotFoundError:
            message = f"there is no data file `{self.file}`"
            raise self.error("E201", message, hint=self._suggest_file()) from None
        except (OSError, ValueError) as error:
            raise describe_unreadable(self.path, error, self.file) from None
        expand = COMPRESSIONS.get(self.path.suffix.lower())
        if expand is None:
            return stream
        return open_blocks(stream, expand(stream, self.file), BLOCK)

    def _suggest_file(self) -> str:
        folder = self.path.parent
        if not folder.is_dir():
            return f"there is no folder `{folder}`"
        names = sorted(path.name for path in folder.iterdir() if path.is_file())
        return suggest(self.path.name, names) or f"files there: {listing(names, limit=5)}"

    def open_text(self, newline: Literal["", "\n"] = "") -> TextIO:
        """Return a stream of the text, without its byte order mark, its line ends as they are.

        A line ends as anywhere, or only at `newline`. UTF-16 and UTF-32 are told by their byte
        order mark.
        """
        return io.TextIOWrapper(
            self.open(),
            encoding=self.wide or "utf-8-sig",
            newline=newline,
        )

    @property
    def wide(self) -> str | None:
        """The encoding that a byte order mark names, unless it is UTF-8."""
        for mark, encoding in WIDE_MARKS.items():
            if self.head.startswith(mark):
                return encoding
        return None

    @cached_property
    def digest(self) -> str:
        """The sha256 of the decompressed bytes."""
        digest = sha256()
        with self.open() as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
        return digest.hexdigest()

    @cached_property
    def head(self) -> bytes:
        """The first bytes."""
        with self.open() as stream:
            return stream.read(HEAD_BYTES)

    def place(self, line: int | None = None, column: int | None = None) -> Place:
        """Return a place in this file."""
        return Place(
            file=self.file,
            line=line,
            column=column,
        )

    def error(
        self,
        code: str,
        message: str,
        line: int | None = None,
        *,
        hint: str | None = None,
    ) -> DataError:
        """Return an error in this file."""
        return DataError(
            code,
            message,
            where=self.place(line),
            hint=hint,
        )

    def guess(self) -> str | None:
        """Return the hint what this file is by its first bytes, if its name says otherwise."""
        if not self.path.exists():  # an object on shared storage
            return None
        for mark, (kind, endings) in SIGNATURES.items():
            if self.head.startswith(mark) and not self.file.lower().endswith(endings):
                return f"by its first bytes this file is {kind}"
        return None

    def refuse_damage(self, kind: str, error: BaseException) -> DataError:
        """Return E202 for a file that is not what its name says."""
        lines = str(error).splitlines() or ["damaged"]
        reason = lines[0].replace(str(self.path), self.file)
        message = f"not a valid {kind} file: {reason}"
        return self.error("E202", message, hint=self.guess() or "copy or download it again")

    def check_text(self) -> None:
        """Raise E203 with all lines that are not UTF-8, or that hold a NUL."""
        if self.wide is not None:
            self._check_wide_text()
            return
        errors = RowErrors(self.file)
        limit = find_line_limit()
        with self.open() as stream:
            number = 0
            while (raw := stream.readline(limit + 1)) and len(raw) <= limit:
                number += 1
                if number == 1:
                    raw = raw.removeprefix(UTF8_MARK)
                self._check_line(raw.removesuffix(b"\n"), number, errors)
        errors.raise_any()

    def _check_wide_text(self) -> None:
        try:
            with self.open_text() as text:
                while text.read(BLOCK):
                    pass
        except UnicodeDecodeError as error:
            message = f"not valid {self.wide}, as its byte order mark calls it: {error.reason}"
            raise self.error("E203", message, hint="save the file as UTF-8") from None

    def _check_line(self, line: bytes, number: int, errors: RowErrors) -> None:
        try:
            nul_position = line.decode().find("\0")
        except UnicodeDecodeError as error:
            before = line[: error.start].decode()
            where = self.place(number, len(before) + 1)
            message = f"byte 0x{line[error.start]:02x} is not valid UTF-8"
            hint = self.guess() or ENCODING_HINT
            errors.add("E203", message, where=where, hint=hint)
            return
        if nul_position >= 0:
            where = self.place(number, nul_position + 1)
            hint = self.guess() or "the file is damaged, or is UTF-16: save it as UTF-8"
            errors.add("E203", "NUL byte in the text", where=where, hint=hint)


def describe_unreadable(
    path: Path,
    error: OSError | ValueError,
    file: str | None = None,
) -> DataError:
    """Return E201 for a file that cannot be read; `file` is its name in errors."""
    reason = getattr(error, "strerror", None) or str(error)
    if path.is_dir():
        reason = "it is a folder"
    shown = file or str(path)
    message = f"cannot read data file `{shown}`: {reason.lower()}"
    return refuse_file("E201", message, shown)


def require_plain(path: Path) -> None:
    """Raise E201 for a pipe, a socket or a device: it may never end, and cannot be read twice."""
    if path.exists() and not path.is_file() and not path.is_dir():
        hint = "write what it gives to a file, and name that"
        raise refuse_file("E201", f"`{path}` is not a plain file", str(path), hint)


def open_blocks(
    packed: BinaryIO | TextIO,
    blocks: Iterator[bytes],
    size: int,
) -> BinaryIO:
    """Return blocks, which are made of a packed stream, as a stream.

    What they raise, its reader gets.
    """
    return io.BufferedReader(_Blocks(packed, blocks), size)  # type: ignore[type-var]  # a raw stream


class _Blocks(io.RawIOBase):
    def __init__(self, packed: BinaryIO | TextIO, blocks: Iterator[bytes]) -> None:
        super().__init__()
        self._packed = packed
        self._blocks = blocks
        self._remaining = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]  # what BufferedReader hands in
        while not self._remaining:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._remaining = memoryview(block)
        count = min(len(buffer), len(self._remaining))
        buffer[:count] = self._remaining[:count]
        self._remaining = self._remaining[count:]
        return count

    def close(self) -> None:
        self._packed.close()
        super().close()


class ZstdFrames:
    """The frames of Zstandard data, one after the other.

    `is_open` while one of them has not ended.
    """

    def __init__(self) -> None:
        import zstandard

        self.error = zstandard.ZstdError
        self.is_open = False
        self._start = zstandard.ZstdDecompressor().decompressobj
        self._frame = self._start()

    def decompress(self, data: bytes) -> bytes:
        """Return what some more data expands to; raises `error`."""
        parts = []
        while data:
            parts.append(self._frame.decompress(data))
            self.is_open = not self._frame.eof
            data = self._frame.unused_data
            if self._frame.eof:
                self._frame = self._start()
        return b"".join(parts)


def _expand_gzip(packed: BinaryIO, file: str) -> Iterator[bytes]:
    stream = gzip.GzipFile(fileobj=packed)
    try:
        while block := stream.read(BLOCK):
            yield block
    except EOFError:
        raise _refuse_packed("gzip", file) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise _refuse_packed("gzip", file, error) from None


def _expand_zstd(packed: BinaryIO, file: str) -> Iterator[bytes]:
    frames = ZstdFrames()
    try:
        while block := packed.read(PACKED_BLOCK):
            yield frames.decompress(block)
    except frames.error as error:
        raise _refuse_packed("zstd", file, error) from None
    if frames.is_open:
        raise _refuse_packed("zstd", file)


def _refuse_packed(
    kind: str,
    file: str,
    error: Exception | None = None,
) -> DataError:
    """Return the error about a file that was cut off, or that is not compressed as its name
    says.
    """
    message = f"the {kind} file ends in the middle"
    hint = "copy or download it again"
    if error is not None:
        message = f"not a valid {kind} file: {error}"
        hint += f"; a file that is not compressed must not be named as {kind}"
    return refuse_file("E202", message, file, hint)


#: Ending of a compressed file to what expands its bytes.
COMPRESSIONS: dict[str, Callable[[BinaryIO, str], Iterator[bytes]]] = {
    ".gz": _expand_gzip,
    ".zst": _expand_zstd,
}
