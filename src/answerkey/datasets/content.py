"""What a data file holds: bytes, decompressed; their text, read as a stream; the values of JSON."""

from __future__ import annotations

import io
import json
import math
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import file_digest
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import polars as pl

from answerkey.errors import DataError, Place, SpecError, listing, raise_all, suggest

#: How many gigabytes a line, a row or an element of JSON may have; a cell may have half of that.
LINE_VARIABLE = "ANSWERKEY_MAX_LINE"
DEFAULT_LINE_BYTES = 32 * 10**6
GIGABYTE = 10**9
#: How many bad rows of one file are shown; the rest is counted.
SHOWN = 20
#: What Polars raises about a file that is not what it should be.
FOREIGN = (
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    OSError,
    ValueError,
)
BLOCK = 2**20
#: Few bytes of compressed data may expand many thousand times.
PACKED_BLOCK = 2**8
HEAD_BYTES = 64
#: Tells zlib that the data has the header of gzip.
GZIP_BITS = 31
ENCODING_HINT = "save the file as UTF-8; `iconv -f LATIN1 -t UTF-8 FILE` prints it so"
#: Nesting that templates and readers of the run folder can still walk.
MAX_DEPTH = 100
SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
OBJECT_HINT = 'write `{"column": value, ...}` on each line, or name a JSON list `.json`'
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
#: First bytes of files that are often given the wrong name, and what they are.
SIGNATURES = {
    b"PAR1": "Parquet: name it `.parquet`",
    b"ARROW1": "Arrow: name it `.arrow`",
    b"\x1f\x8b": "compressed with gzip: add `.gz` to its name",
    b"\x28\xb5\x2f\xfd": "compressed with zstd: add `.zst` to its name",
    b"PK\x03\x04": "a zip archive or a workbook: unpack it, or save it as CSV",
    b"\xd0\xcf\x11\xe0": "a workbook: save it as CSV",
    b"version https://git-lfs": "a pointer of Git LFS: fetch the file with `git lfs pull`",
    b"<!DOCTYPE": "a web page: download the file itself",
    b"<html": "a web page: download the file itself",
    b"SQLite format 3": "an SQLite database: export the table as CSV",
}


def find_line_limit() -> int:
    """Return the most bytes, or characters, of a line, of a row of CSV, or of an element of JSON.

    The environment says it in gigabytes, or `off`; SpecError E119 when it says something else.
    """
    setting = os.environ.get(LINE_VARIABLE, "").strip().lower()
    if not setting:
        return DEFAULT_LINE_BYTES
    if setting == "off":
        return sys.maxsize
    try:
        limit = int(float(setting) * GIGABYTE)
    except (ValueError, OverflowError):
        limit = -1
    if limit < 0:
        hint = f"write `{LINE_VARIABLE}=off`, or a number of gigabytes"
        raise SpecError("E119", f"`{LINE_VARIABLE}` is {setting!r}", hint=hint)
    return limit or sys.maxsize


def find_cell_limit() -> int:
    """Return the most bytes of a cell; longer ones are nearly always an unclosed quote."""
    return find_line_limit() // 2


def describe_long(part: str, limit: int) -> str:
    """Return the message about a part of a file that is longer than a limit, and how to raise
    it.
    """
    more = f"`{LINE_VARIABLE}={find_line_limit() * 4 / 10**9:g}`"
    return f"{part} has more than {limit / 10**6:g} MB; if that is meant, set {more}"


def iterate_lines(stream: TextIO, file: str) -> Iterator[str]:
    """Yield the lines of a file; E202 for one that is too long."""
    limit = find_line_limit()
    number = 0
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
    where = Place(file, field=field)
    return DataError(
        code,
        message,
        where=where,
        hint=hint,
    )


@dataclass
class RowErrors:
    """The bad rows of one file: the first errors that differ, and how often each error came."""

    file: str | None
    errors: list[DataError] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, error: DataError) -> None:
        """Remember the error of one row."""
        kind = (error.code, error.message)
        self.counts[kind] += 1
        if self.counts[kind] == 1 and len(self.errors) < SHOWN:
            self.errors.append(error)

    def raise_any(self) -> None:
        """Raise the errors together, equal ones once; do nothing if there are none."""
        hidden = self.counts.total()
        for error in self.errors:
            count = self.counts[error.code, error.message]
            hidden -= count
            if count > 1:
                error.message += f" (and in {count - 1:,} more rows)"
        if hidden:
            message = f"{hidden:,} more bad rows in this file are not shown"
            hint = "correct the rows above first"
            self.errors.append(refuse_file(error.code, message, self.file, hint))
        if self.errors:
            raise_all(self.errors)


@dataclass(frozen=True)
class Content:
    """What a data file holds after decompression; `file` is its name in errors."""

    file: str
    path: Path

    def open(self) -> io.BufferedReader:
        """Return a stream of the decompressed bytes; damage is found when it is read."""
        try:
            require_plain(self.path)
            stream = self.path.open("rb")
        except FileNotFoundError:
            message = f"there is no data file `{self.file}`"
            files = filter(Path.is_file, self.path.parent.glob("*"))
            names = sorted(path.name for path in files)
            hint = suggest(self.path.name, names) or f"files there: {listing(names, limit=5)}"
            raise self.error("E201", message, hint=hint) from None
        except (OSError, ValueError) as error:
            raise self.refuse_unreadable(error) from None
        ending = self.path.suffix.lower()
        if ending not in COMPRESSIONS:
            return stream
        blocks = _expand(stream, self.file, ending)
        return open_blocks(stream, blocks, BLOCK)

    def open_text(self) -> TextIO:
        """Return a stream of the text, without its byte order mark, its line ends as they are."""
        encoding = "utf-16" if self.is_utf16 else "utf-8-sig"
        return io.TextIOWrapper(self.open(), encoding=encoding, newline="")

    @property
    def is_utf16(self) -> bool:
        """Whether the byte order mark is that of UTF-16, as spreadsheets write it."""
        return self.head.startswith(UTF16_MARKS)

    @cached_property
    def digest(self) -> str:
        """The sha256 of the decompressed bytes."""
        with self.open() as stream:
            return file_digest(stream, "sha256").hexdigest()

    @cached_property
    def head(self) -> bytes:
        """The first bytes."""
        with self.open() as stream:
            return stream.read(HEAD_BYTES)

    def error(
        self,
        code: str,
        message: str,
        line: int | None = None,
        *,
        column: int | None = None,
        hint: str | None = None,
    ) -> DataError:
        """Return an error in this file."""
        where = Place(self.file, line, column)
        return DataError(
            code,
            message,
            where=where,
            hint=hint,
        )

    def guess(self) -> str | None:
        """Return a hint about the kind of file, if its first bytes do not fit its name."""
        for mark, kind in SIGNATURES.items():
            if self.head.startswith(mark) and f"`{self.path.suffix.lower()}`" not in kind:
                return f"by its first bytes this file is {kind}"
        return None

    def refuse_unreadable(self, error: OSError | ValueError) -> DataError:
        """Return E201 for a file that cannot be read."""
        reason = getattr(error, "strerror", None) or str(error)
        if self.path.is_dir():
            reason = "it is a folder"
        return self.error("E201", f"cannot read data file `{self.file}`: {reason.lower()}")

    def check_text(self) -> None:
        """Raise E203 for the first line that is not UTF-8, or that holds a NUL."""
        if self.is_utf16:
            return
        limit = find_line_limit()
        number = 0
        with self.open() as stream:
            while (raw := stream.readline(limit + 1)) and len(raw) <= limit:
                number += 1
                fault = "NUL byte in the text"
                try:
                    position = raw.decode().find("\0")
                except UnicodeDecodeError as error:
                    fault = f"byte 0x{raw[error.start]:02x} is not valid UTF-8"
                    position = len(raw[: error.start].decode())
                if position >= 0:
                    hint = self.guess() or ENCODING_HINT
                    raise self.error(
                        "E203",
                        fault,
                        number,
                        column=position + 1,
                        hint=hint,
                    )


def require_plain(path: Path) -> None:
    """Raise E201 for a pipe, a socket or a device: it may never end, and cannot be read twice."""
    if path.exists() and not path.is_file() and not path.is_dir():
        hint = "write what it gives to a file, and name that"
        raise refuse_file("E201", f"`{path}` is not a plain file", str(path), hint)


def open_blocks(
    packed: BinaryIO | TextIO,
    blocks: Iterator[bytes],
    size: int,
) -> io.BufferedReader:
    """Return the blocks of a packed stream as a stream; their errors reach its reader."""
    return io.BufferedReader(_Blocks(packed, blocks), size)


class _Blocks(io.RawIOBase):
    def __init__(
        self,
        packed: BinaryIO | TextIO,
        blocks: Iterator[bytes],
    ) -> None:
        super().__init__()
        self._packed = packed
        self._blocks = blocks
        self._remaining = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader hands in
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


@dataclass
class Frames:
    """The frames of compressed data, one after the other.

    `start` begins a frame; `error` is what its library raises. `is_open` while a frame has not
    ended.
    """

    start: Callable[[], Any]
    error: type[Exception]
    is_open: bool = False

    def __post_init__(self) -> None:
        self._frame = self.start()

    def decompress(self, data: bytes) -> bytes:
        """Return what some more data expands to; raises `error`."""
        parts = []
        while data:
            parts.append(self._frame.decompress(data))
            self.is_open = not self._frame.eof
            data = self._frame.unused_data
            if self._frame.eof:
                self._frame = self.start()
        return b"".join(parts)


def _open_gzip() -> Frames:
    return Frames(partial(zlib.decompressobj, GZIP_BITS), zlib.error)


def open_zstd() -> Frames:
    """Return the frames of Zstandard data."""
    import zstandard

    return Frames(zstandard.ZstdDecompressor().decompressobj, zstandard.ZstdError)


#: Ending of a compressed file to the name of the compression, and what expands it.
COMPRESSIONS: dict[str, tuple[str, Callable[[], Frames]]] = {
    ".gz": ("gzip", _open_gzip),
    ".zst": ("zstd", open_zstd),
}


def _expand(
    packed: BinaryIO,
    file: str,
    ending: str,
) -> Iterator[bytes]:
    """Yield the bytes of a compressed file; E202 where it is cut off or damaged."""
    kind, open_frames = COMPRESSIONS[ending]
    frames = open_frames()
    message = f"the {kind} file ends in the middle"
    try:
        while block := packed.read(PACKED_BLOCK):
            yield frames.decompress(block)
        if not frames.is_open:
            return
    except frames.error as error:
        message = f"not a valid {kind} file: {error}"
    hint = f"copy or download it again; only a compressed file may end with `{ending}`"
    raise refuse_file("E202", message, file, hint)


# ── JSON


def refuse_duplicates(pairs: list[tuple[Any, object]]) -> dict[str, object]:
    """Return the fields of an object; DataError E212 for a key that appears twice."""
    fields = dict(pairs)
    if len(fields) == len(pairs):
        return fields
    names = [name for name, _ in pairs]
    repeated = next(name for name in names if names.count(name) > 1)
    message = f"key `{repeated}` appears twice in one object"
    raise DataError("E212", message, hint="remove one of them")


def _refuse_constant(name: str) -> object:
    hint = "write null for a missing number"
    raise DataError("E202", f"`{name}` is not a JSON value", hint=hint)


def parse_float(text: str) -> float:
    """Return a number; DataError for one that is too large."""
    number = float(text)
    if math.isinf(number):
        raise DataError("E202", f"the number {text[:40]} is too large")
    return number


#: Refuses a key that appears twice, and numbers that JSON does not have.
DECODER = json.JSONDecoder(
    object_pairs_hook=refuse_duplicates,
    parse_constant=_refuse_constant,
    parse_float=parse_float,
)


def parse_json(text: str) -> object:
    """Return the value of a JSON text; DataError for one that is not valid."""
    try:
        return DECODER.decode(text)
    except (RecursionError, ValueError) as error:
        raise refuse_json(error) from None


def refuse_json(error: RecursionError | ValueError) -> DataError:
    """Return E202 for an error of the parser; a mistake of syntax has its line and column."""
    if isinstance(error, json.JSONDecodeError):
        message = f"not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        where = Place(line=error.lineno, column=error.colno)
        return DataError("E202", message, where=where)
    if isinstance(error, RecursionError):
        return DataError("E202", f"the row is nested more than {MAX_DEPTH} levels deep")
    return DataError("E202", "a number has too many digits", hint="write it as text")


def check_row(value: object, source: str) -> dict[str, object]:
    """Return the row that a JSON value is, or raise DataError; `source` is its JSON text."""
    if not isinstance(value, dict):
        message = f"the row is {source.strip()[:40]}, not an object"
        raise DataError("E202", message, hint=OBJECT_HINT)
    openings = source.count("[") + source.count("{")
    if openings > MAX_DEPTH and _is_deeper(value, MAX_DEPTH):
        raise refuse_json(RecursionError())
    if SURROGATE_ESCAPE.search(source):
        try:
            check_text(value)
        except ValueError as error:
            hint = "write both halves, or the character itself"
            raise DataError("E203", str(error), hint=hint) from None
    return value


def _is_deeper(value: object, levels: int) -> bool:
    """Return whether lists and objects are nested more than so many levels deep."""
    if isinstance(value, dict):
        value = list(value.values())
    if levels < 0 or not isinstance(value, list):
        return levels < 0
    return any(_is_deeper(element, levels - 1) for element in value)


def check_text(value: object) -> None:
    """Raise ValueError for half of a surrogate pair in a value, or a number that JSON lacks."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair is not a character") from None


def check_names(names: Sequence[str], where: Place) -> None:
    """Refuse duplicate and empty column names."""
    numbers: dict[str, int] = {}
    errors = RowErrors(where.file)
    for number, name in enumerate(names, 1):
        first = numbers.setdefault(name, number)
        if not name.strip():
            message = f"column {number} has no name"
            hint = "give the column a name; a table written by pandas needs `index=False`"
            errors.add(DataError("E202", message, where=where, hint=hint))
        elif first != number:
            message = f"column `{name}` appears twice, as column {first} and column {number}"
            hint = "rename or remove one of them"
            errors.add(DataError("E212", message, where=where, hint=hint))
    errors.raise_any()
