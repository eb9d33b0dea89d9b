"""The bytes of a data file, decompressed, and their text."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from answerkey.datasets.troubles import Troubles
from answerkey.errors import DataError, Place, listing, suggest

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
    """What a data file holds after decompression; `file` is its name in errors."""

    file: str
    raw: bytes

    @cached_property
    def digest(self) -> str:
        """The sha256 of the decompressed bytes."""
        return sha256(self.raw).hexdigest()

    def text(self) -> str:
        """Return the text, without its byte order mark; all undecodable lines are reported together."""
        for mark, encoding in _WIDE_MARKS.items():
            if self.raw.startswith(mark):
                message = f"the file is {encoding}, not UTF-8"
                raise DataError("E203", message, where=self.place(1), hint="save it as UTF-8")
        raw = self.raw.removeprefix(_UTF8_MARK)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            self._refuse_bytes(raw)
            raise
        if "\0" in text:
            self._refuse_nul(text)
        return text

    def place(self, line: int | None = None, column: int | None = None) -> Place:
        """Return a place in this file."""
        return Place(file=self.file, line=line, column=column)

    def guess(self) -> str | None:
        """Return the hint what this file is by its first bytes, if its name says otherwise."""
        for mark, (kind, endings) in _SIGNATURES.items():
            if self.raw.startswith(mark) and not self.file.lower().endswith(endings):
                return f"by its first bytes this file is {kind}"
        return None

    def _refuse_bytes(self, raw: bytes) -> None:
        troubles = Troubles(self.file)
        for number, line in enumerate(raw.split(b"\n"), 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                column = len(line[: error.start].decode()) + 1
                message = f"byte 0x{line[error.start]:02x} is not valid UTF-8"
                hint = self.guess() or "save the file as UTF-8"
                troubles.add("E203", message, where=self.place(number, column), hint=hint)
        troubles.raise_any()

    def _refuse_nul(self, text: str) -> None:
        troubles = Troubles(self.file)
        for number, line in enumerate(text.split("\n"), 1):
            if (at := line.find("\0")) >= 0:
                hint = self.guess() or "the file is damaged, or is UTF-16: save it as UTF-8"
                troubles.add("E203", "NUL byte in the text", where=self.place(number, at + 1), hint=hint)
        troubles.raise_any()


def read_content(path: str | Path) -> Content:
    """Return the decompressed bytes of a file."""
    path = Path(path)
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise _missing(path) from None
    except (OSError, ValueError) as error:
        reason = "it is a folder" if path.is_dir() else getattr(error, "strerror", None) or str(error)
        message = f"cannot read data file `{path}`: {reason.lower()}"
        raise DataError("E201", message, where=Place(file=str(path))) from None
    expand = COMPRESSIONS.get(path.suffix.lower())
    return Content(str(path), expand(raw, str(path)) if expand else raw)


def _missing(path: Path) -> DataError:
    folder = path.parent
    if not folder.is_dir():
        hint = f"there is no folder `{folder}`"
    else:
        names = sorted(one.name for one in folder.iterdir() if one.is_file())
        hint = suggest(path.name, names) or f"files there: {listing(names, limit=5)}"
    return DataError("E201", f"there is no data file `{path}`", where=Place(file=str(path)), hint=hint)


def _expand_gzip(raw: bytes, file: str) -> bytes:
    try:
        return gzip.decompress(raw)
    except EOFError:
        raise _truncated(file, "gzip") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise _damaged(file, "gzip", str(error)) from None


def _expand_zstd(raw: bytes, file: str) -> bytes:
    import zstandard

    parts: list[bytes] = []
    rest = raw
    while rest:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            parts.append(frame.decompress(rest))
        except zstandard.ZstdError as error:
            raise _damaged(file, "zstd", str(error)) from None
        if not frame.eof:
            raise _truncated(file, "zstd")
        rest = frame.unused_data
    return b"".join(parts)


def _truncated(file: str, kind: str) -> DataError:
    message = f"the {kind} file ends in the middle"
    return DataError("E202", message, where=Place(file=file), hint="copy or download it again")


def _damaged(file: str, kind: str, reason: str) -> DataError:
    hint = f"copy or download it again; a file that is not compressed must not be named as {kind}"
    return DataError("E202", f"not a valid {kind} file: {reason}", where=Place(file=file), hint=hint)


#: Ending of a compressed file to the function that expands its bytes.
COMPRESSIONS: dict[str, Callable[[bytes, str], bytes]] = {
    ".gz": _expand_gzip,
    ".zst": _expand_zstd,
}
