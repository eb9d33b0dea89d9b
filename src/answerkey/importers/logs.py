"""What a log reader gets and yields: files, also in zip archives, JSON streams, and records.

A log is one file, a folder or a zip archive. A reader (`LogReader`) turns its files into `Record`s; `Log`
gives it the rows of a file and collects what is broken. The standard library holds the list of an archive's
members in memory and, before Python 3.14, knows no Zstandard; so archives are read here, as streams. No size
that an archive states is trusted: what a member expands to is counted and cut off beyond `MOST_RATIO`.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Protocol, Self, TextIO

from answerkey.datasets.content import Content, RowErrors
from answerkey.errors import AnswerkeyError, DataError, Place, RunError
from answerkey.types import Completion, Notice

Row = dict[str, object]


class DamagedError(Exception):
    """A row, a file or a whole archive that cannot be read; the message says why."""


# ── what readers yield ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Verdict:
    """The other tool's verdict: 1 for right, 0 for wrong, None where it gave none; and what it extracted."""

    value: float | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked. `choices` are labels of one character, `options` their texts in the same order.

    `truth` is a label where one can be told, else what the log says. `original` is the row as the tool had
    it, for whoever wants more of it.
    """

    question: str | None = None
    choices: tuple[str, ...] | None = None
    options: tuple[str, ...] | None = None
    truth: str | None = None
    category: str | None = None
    original: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """What was asked, what the model said to it, and how that was judged.

    A log in two files yields records that only ask and records that only answer; they belong together by
    `sample_id`. Trials are told apart by any numbers that ascend. `logprobs` of a completion are of the
    forms that the scorer `choice_probabilities` reads.
    """

    sample_id: str
    question: Question | None = None
    completion: Completion | None = None
    verdict: Verdict = Verdict()
    trial: int = 0


@dataclass(frozen=True)
class ImportOptions:
    """What the caller says beside the path.

    `score` is one of several scores of the log. `dataset` is a file with what was asked, where the log has
    not got it. `columns` says which column of a plain file is what (`completion` → `my_output`).
    """

    score: str | None = None
    dataset: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass
class LogDescription:
    """What a log says of itself as a whole.

    `score` is the name of the imported verdict. `reported` are numbers that the tool itself gives for all
    samples, `expected` how many samples it was to have. With `last_wins` a sample that is there twice was
    written anew.
    """

    task: str | None = None
    model: str | None = None
    score: str | None = None
    reported: dict[str, float] = field(default_factory=dict)
    expected: int | None = None
    last_wins: bool = False


# ── zip archives ────────────────────────────────────────────────────────────────────────────────────────────

STORED, DEFLATED, ZSTANDARD = 0, 8, 93
#: A member may expand to so many times its size, and always to as much as `SMALL`.
MOST_RATIO = 400
SMALL = 64 * 2**20
MARK = b"PK\x03\x04"
_BUFFER = 2**16
#: Few bytes of Zstandard data may expand many thousand times.
_PACKED_BLOCK = 2**10
_ENTRY, _LOCAL = struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s5H3L2H")
_END, _END_64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_LONGEST_COMMENT = 2**16
_FULL = 0xFFFFFFFF
_ENCRYPTED = 1


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive, as the list of members describes it."""

    name: str
    method: int
    checksum: int
    packed: int
    offset: int
    is_encrypted: bool


def is_archive(path: Path) -> bool:
    """Return whether a file is a zip archive, by its first bytes."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as stream:
            return stream.read(len(MARK)) == MARK
    except OSError:
        return False


def iterate_members(path: Path) -> Iterator[Member]:
    """Yield the files of an archive in the order of its list; DataError E202 when there is no such list."""
    try:
        with path.open("rb") as stream:
            start, left, shift = _find_member_list(stream)
            stream.seek(start)
            while left > 0:
                head = _ENTRY.unpack(_read_exactly(stream, _ENTRY.size))
                if head[0] != b"PK\x01\x02":
                    raise DamagedError("the list of members is damaged")  # noqa: TRY301 - told below as E202
                name, extra, _ = (_read_exactly(stream, length) for length in head[10:13])
                left -= _ENTRY.size + sum(head[10:13])
                packed, offset = _widen(extra, size=head[9], packed=head[8], offset=head[16])
                text = name.decode("utf-8", "replace")
                if not text.endswith("/"):
                    yield Member(text, head[4], head[7], packed, offset + shift, bool(head[3] & _ENCRYPTED))
    except (DamagedError, struct.error, ValueError) as error:
        message = f"not a valid zip archive: {error}"
        hint = "copy or download it again; a log is complete once its tool has ended"
        raise DataError("E202", message, where=Place(file=str(path)), hint=hint) from None


def _find_member_list(stream: BinaryIO) -> tuple[int, int, int]:
    """Return where the list of members starts, its length, and how much stands before the archive."""
    begin = max(0, stream.seek(0, io.SEEK_END) - _LONGEST_COMMENT - _END.size)
    stream.seek(begin)
    tail = stream.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) < at + _END.size:
        raise DamagedError("it ends in the middle")
    end = _END.unpack_from(tail, at)
    position, length, offset = begin + at, end[5], end[6]
    if position >= _LOCATOR.size:
        stream.seek(position - _LOCATOR.size)
        found = _LOCATOR.unpack(_read_exactly(stream, _LOCATOR.size))
        if found[0] == b"PK\x06\x07":
            _seek_inside(stream, found[2])
            wide = _END_64.unpack(_read_exactly(stream, _END_64.size))
            position, length, offset = found[2], wide[8], wide[9]
    start = position - length
    if start < 0:
        raise DamagedError("the list of members is damaged")
    return start, length, start - offset


def _widen(extra: bytes, *, size: int, packed: int, offset: int) -> tuple[int, int]:
    """Return the packed size and the offset, which large archives keep apart, and only if they are large."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            wide = iter(struct.unpack_from(f"<{length // 8}Q", extra, at + 4))
            size, packed, offset = (
                next(wide, one) if one == _FULL else one for one in (size, packed, offset)
            )
        at += 4 + length
    return packed, offset


def _seek_inside(stream: BinaryIO, position: int) -> None:
    """Go to a place that the archive names itself, which may lie outside of it."""
    if not 0 <= position < stream.seek(0, io.SEEK_END):
        raise DamagedError("the list of members is damaged")
    stream.seek(position)


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    found = stream.read(count)
    if len(found) != count:
        raise DamagedError("it ends in the middle")
    return found


def open_member(path: Path, member: Member) -> BinaryIO:
    """Return a stream of a member's bytes; DamagedError now, or when it is read."""
    if member.is_encrypted:
        raise DamagedError("it is encrypted")
    stream = path.open("rb")
    try:
        _seek_inside(stream, member.offset)
        head = _LOCAL.unpack(_read_exactly(stream, _LOCAL.size))
        if head[0] != MARK:
            raise DamagedError("it is not where the list of members says")  # noqa: TRY301 - closes the stream
        stream.seek(head[9] + head[10], io.SEEK_CUR)
        return io.BufferedReader(_MemberStream(stream, member), _BUFFER)  # type: ignore[type-var]  # a raw stream
    except BaseException:
        stream.close()
        raise


class _ZstandardFrames:
    """All frames of Zstandard data, one after the other."""

    def __init__(self) -> None:
        import zstandard

        self._start = zstandard.ZstdDecompressor().decompressobj
        self._errors = zstandard.ZstdError
        self._frame = self._start()

    def decompress(self, data: bytes, /) -> bytes:
        parts = []
        while data:
            try:
                parts.append(self._frame.decompress(data))
            except self._errors as error:
                raise DamagedError(str(error)) from None
            data = self._frame.unused_data
            if self._frame.eof:
                self._frame = self._start()
        return b"".join(parts)


class _MemberStream(io.RawIOBase):
    """The bytes of a member, expanded; its checksum is compared at the end."""

    def __init__(self, packed: BinaryIO, member: Member) -> None:
        super().__init__()
        self._packed = packed
        self._member = member
        self._left = member.packed
        self._limit = max(SMALL, member.packed * MOST_RATIO)
        self._rest = memoryview(b"")
        self._size, self._checksum = 0, 0
        self._expand: Callable[[bytes], bytes]
        if member.method == STORED:
            self._expand = bytes
        elif member.method == DEFLATED:
            self._expand = zlib.decompressobj(-zlib.MAX_WBITS).decompress
        elif member.method == ZSTANDARD:
            self._expand = _ZstandardFrames().decompress
        else:
            raise DamagedError(f"it is compressed by method {member.method}, which is not read")

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._packed.close()
        super().close()

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]  # what BufferedReader hands in
        while not self._rest:
            if self._left == 0:
                if self._checksum != self._member.checksum:
                    raise DamagedError("its checksum is wrong")
                return 0
            block = self._packed.read(min(self._left, _PACKED_BLOCK))
            if not block:
                raise DamagedError("it ends in the middle")
            self._left -= len(block)
            try:
                part = self._expand(block)
            except zlib.error as error:
                raise DamagedError(str(error)) from None
            self._size += len(part)
            self._checksum = zlib.crc32(part, self._checksum)
            if self._size > self._limit:
                raise DamagedError(f"it expands to more than {MOST_RATIO} times its size")
            self._rest = memoryview(part)
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


# ── the files of a log ──────────────────────────────────────────────────────────────────────────────────────

#: The longest line, in bytes.
MOST_BYTES = 256 * 2**20
#: How much of a log is looked at to tell its kind, and how many of its files.
_HEAD_BYTES = 2**18
_LISTED = 5_000
_TEXT_ENDINGS = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".gz", ".zst")


@dataclass(frozen=True)
class LogFile:
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

    def read_json(self, limit: int = MOST_BYTES) -> object:
        """Return the file as one JSON value; DamagedError when it is none or too long."""
        with self.open() as stream:
            raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise DamagedError(f"it has more than {limit} bytes")
        return parse_json(_decode(raw))


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DamagedError(f"byte 0x{raw[error.start]:02x} is not valid UTF-8") from None


def iterate_files(path: Path) -> Iterator[LogFile]:
    """Yield the files of a log: members of an archive as it lists them, those of a folder by name.

    Hidden files and folders are left aside.
    """
    if not path.exists():
        raise DataError("E201", f"there is no log `{path}`", where=Place(file=str(path)))
    if path.is_dir():
        for place, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                file = Path(place, name)
                if not name.startswith(".") and file.is_file():
                    yield LogFile(file.relative_to(path).as_posix(), str(file), Content(str(file), file).open)
    elif is_archive(path):
        for member in iterate_members(path):
            yield LogFile(member.name, f"{path}/{member.name}", partial(open_member, path, member))
    else:
        yield LogFile(path.name, str(path), Content(str(path), path).open)


@dataclass(frozen=True)
class LogPreview:
    """A quick look at a path, by which readers recognise their logs."""

    path: Path

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the log's files: of one file its own, of a folder or an archive those in it."""
        return frozenset(file.name for file in islice(iterate_files(self.path), _LISTED))

    @cached_property
    def head(self) -> str:
        """The beginning of the log's first file that holds JSON or text; "" when it has none."""
        files = islice(iterate_files(self.path), _LISTED)
        first = next((file for file in files if file.name.lower().endswith(_TEXT_ENDINGS)), None)
        if first is None:
            return ""
        try:
            with first.open() as stream:
                return stream.read(_HEAD_BYTES).decode("utf-8-sig", "replace").lstrip()
        except (DamagedError, OSError, AnswerkeyError):
            return ""

    @cached_property
    def first(self) -> Row:
        """The first object of lines, or of a list, of JSON; empty when there is none, or it is too long."""
        try:
            if self.head.startswith("["):
                found = next((one for _, one in JsonStream(io.StringIO(self.head)).elements()), None)
            else:
                found = parse_json(self.head.partition("\n")[0])
        except DamagedError:
            return {}
        return found if isinstance(found, dict) else {}

    def mentions(self, *keys: str) -> bool:
        """Return whether all of some keys of JSON stand in the beginning of the log."""
        return all(f'"{key}"' in self.head for key in keys)


@dataclass
class Log:
    """A log that is being read. Readers report here what they meet beside the records they yield."""

    path: Path
    options: ImportOptions = field(default_factory=ImportOptions)
    description: LogDescription = field(default_factory=LogDescription)
    notices: list[Notice] = field(default_factory=list)
    seen: int = 0
    broken: int = 0
    errors: RowErrors = field(init=False)

    def __post_init__(self) -> None:
        self.errors = RowErrors(str(self.path))

    def files(self) -> Iterator[LogFile]:
        """Yield the files of the log."""
        return iterate_files(self.path)

    def notice(self, message: str, hint: str | None = None) -> None:
        """Remember what the user should hear once."""
        self.notices.append(Notice(message, where=Place(file=str(self.path)), hint=hint))

    def make_error(self, code: str, message: str, hint: str | None = None) -> DataError:
        """Return an error of the log as a whole."""
        return DataError(code, message, where=Place(file=str(self.path)), hint=hint)

    def mark_broken(self, message: str, where: Place) -> None:
        """Remember a line or a member that cannot be used."""
        self.broken += 1
        hint = None if self.errors.errors else "`--allow-failed N` leaves up to N broken ones out"
        self.errors.add("E202", message, where=where, hint=hint)

    @contextmanager
    def guard(self, file: LogFile) -> Iterator[None]:
        """Remember a file, or the rest of one, that cannot be read, and go on behind it."""
        try:
            yield
        except UnicodeDecodeError as error:
            self.mark_broken(f"byte 0x{error.object[error.start]:02x} is not valid UTF-8", file.place())
        except AnswerkeyError as error:
            self.mark_broken(error.message, file.place())
        except OSError as error:
            self.mark_broken(str(error.strerror or error), file.place())
        except DamagedError as error:
            self.mark_broken(str(error), file.place())

    def convert(
        self,
        rows: Iterable[tuple[int | None, Row]],
        convert: Callable[[Row], Iterable[Record]],
        file: LogFile,
    ) -> Iterator[Record]:
        """Yield what rows become; one that lacks what it must have (DamagedError) is remembered."""
        for line, row in rows:
            try:
                found = convert(row)
            except DamagedError as error:
                self.mark_broken(str(error), file.place(line))
            else:
                yield from found

    def read_lines(self, file: LogFile) -> Iterator[tuple[int, Row]]:
        """Yield the objects of a file with one on each line, with their line numbers."""
        with self.guard(file), file.open() as stream:
            number = 0
            while raw := stream.readline(MOST_BYTES + 1):
                number += 1
                if len(raw) > MOST_BYTES:
                    raise DamagedError(f"line {number} has more than {MOST_BYTES} bytes")
                if raw.isspace():
                    continue
                self.seen += 1
                try:
                    row = require_object(parse_json(_decode(raw)))
                except DamagedError as error:
                    self.mark_broken(str(error), file.place(number))
                else:
                    yield number, row

    def read_elements(self, file: LogFile, *path: str) -> Iterator[tuple[int, Row]]:
        """Yield the objects of the list to which a path of keys leads, each with the line it ends on."""
        with self.guard(file), file.open_text() as text:
            stream = JsonStream(text)
            for _, value in stream.elements(*path):
                self.seen += 1
                if isinstance(value, dict):
                    yield stream.line, value
                else:
                    self.mark_broken("the element is no object", file.place(stream.line))

    def read_sections(
        self, file: LogFile, head: Row, *path: str, kept: Sequence[str]
    ) -> Iterator[tuple[int, Row]]:
        """Like `read_elements`; what stands beside the path under a name in `kept` is put into `head`.

        An element that is no object is an empty one: its reader says what it lacks.
        """
        with self.guard(file), file.open_text() as text:
            stream = JsonStream(text, head)
            for _, value in stream.elements(*path, kept=kept):
                self.seen += 1
                yield stream.line, value if isinstance(value, dict) else {}


class LogReader(Protocol):
    """Reads the logs of one tool."""

    kind: ClassVar[str]
    title: ClassVar[str]

    @classmethod
    def recognises(cls, preview: LogPreview, /) -> bool:
        """Return whether a path looks like one of this reader's logs."""

    def read(self, log: Log, /) -> Iterator[Record]:
        """Yield the records of a log in its order; memory must not grow with it."""


class LookupTable:
    """What one file of a log says about rows of another: values by name on disk, gone afterwards.

    Of values of one name the last counts.
    """

    def __init__(self) -> None:
        self.count = 0
        self._base = sqlite3.connect("", isolation_level=None)
        table = "CREATE TABLE lookup (name TEXT PRIMARY KEY, content TEXT NOT NULL) WITHOUT ROWID"
        for command in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", table, "BEGIN"):
            self._base.execute(command)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def put(self, name: str, content: object) -> None:
        """Keep a value that JSON can hold."""
        try:
            row = (_escape(name), json.dumps(content))
            self._base.execute("INSERT OR REPLACE INTO lookup VALUES (?, ?)", row)
        except sqlite3.Error as error:
            hint = "free some space, or set `TMPDIR` to another folder"
            raise RunError("E502", f"cannot keep a part of the log on disk: {error}", hint=hint) from error
        self.count += 1

    def get(self, name: str) -> Any:  # noqa: ANN401 - what JSON can hold
        """Return the value of a name; None when there is none."""
        found = self._base.execute("SELECT content FROM lookup WHERE name = ?", (_escape(name),)).fetchone()
        return None if found is None else json.loads(found[0])


def _escape(name: str) -> str:
    """Return a name that can be stored; half surrogate pairs cannot."""
    return name.encode("utf-8", "backslashreplace").decode()


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────

#: The longest element, in characters.
MOST_CHARACTERS = 256 * 2**20
_BLOCK = 2**20
_SPACE = re.compile(r"[ \t\r\n]*")
#: How far from the end of the window a value that goes on can be mistaken for a broken one.
_EDGE = 16
#: What is deeper than this inside something that is skipped is read as one value.
_SKIPPED_DEPTH = 4
#: Numbers that JSON does not have (`NaN`, `Infinity`) are null.
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)


def parse_json(text: str) -> object:
    """Return the value of a JSON text; DamagedError when it is none."""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise DamagedError(f"not valid JSON: {_lower(error.msg)} (character {error.pos + 1})") from None
    except (RecursionError, ValueError) as error:
        raise _refuse_size(error) from None


def require_object(value: object) -> Row:
    """Return a JSON object; DamagedError for anything else."""
    if not isinstance(value, dict):
        raise DamagedError(f"an object is expected here, not {type(value).__name__}")
    return value


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def _refuse_size(error: RecursionError | ValueError) -> DamagedError:
    is_deep = isinstance(error, RecursionError)
    return DamagedError("it is nested too deeply" if is_deep else "a number has too many digits")


class JsonStream:
    """One JSON text, read element by element: only a window of it is in memory.

    `rest` holds what was met on the way to the elements, by its path (`eval`, `a/b`).
    """

    def __init__(self, stream: TextIO, rest: Row | None = None) -> None:
        self.rest: Row = {} if rest is None else rest
        self.line = 1
        self._stream = stream
        self._text = ""
        self._at = 0

    def elements(self, *path: str, kept: Sequence[str] = ()) -> Iterator[tuple[str, object]]:
        """Yield the elements of the list, or the values of the object, to which a path of keys leads.

        Each comes with its place in the list, or its key. Of what stands beside the path, that of the names
        in `kept` is in `rest` once it was met. DamagedError when the text ends or breaks off.
        """
        yield from self._descend(path, "", frozenset(kept))
        if self.peek():
            raise self._fail("extra text after the end")

    def _descend(
        self, path: Sequence[str], before: str, kept: frozenset[str]
    ) -> Iterator[tuple[str, object]]:
        mark = self.peek()
        if not path and mark in {"{", "["}:
            for key in self._entries():
                yield key, self._decode()
        elif not path or mark != "{":
            self._skip()
        else:
            for key in self._entries():
                way = f"{before}{key}"
                if key == path[0]:
                    yield from self._descend(path[1:], f"{way}/", kept)
                elif way in kept:
                    self.rest[way] = self._decode()
                else:
                    self._skip()

    def _entries(self) -> Iterator[str]:
        """Yield the keys of the object, or the places of the list, that starts here.

        Who takes one reads its value.
        """
        is_object = self._take("{")
        if not is_object:
            self._require("[")
        place = 0
        while not self._take("}" if is_object else "]"):
            if place:
                self._require(",")
            key: object = str(place)
            if is_object:
                key = self._decode()
                if not isinstance(key, str):
                    raise self._fail("expecting a key")
                self._require(":")
            yield str(key)
            place += 1

    def _skip(self, depth: int = _SKIPPED_DEPTH) -> None:
        """Read a value without keeping it, nor holding a large one as a whole."""
        if depth and self.peek() in {"{", "["}:
            for _ in self._entries():
                self._skip(depth - 1)
        else:
            self._decode()

    def peek(self) -> str:
        """Return the next character that is no white space; "" at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            end = found.end() if found else self._at
            self.line += self._text.count("\n", self._at, end)
            self._at = end
            if end < len(self._text):
                return self._text[end]
            if not self._read_on():
                return ""

    def _take(self, mark: str) -> bool:
        is_there = self.peek() == mark
        self._at += is_there
        return is_there

    def _require(self, mark: str) -> None:
        if not self._take(mark):
            raise self._fail(f"expecting `{mark}`")

    def _decode(self) -> object:
        """Return the value that starts here, and go on behind it."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or error.pos > len(self._text) - _EDGE
                if not is_cut or not self._read_on():
                    raise self._fail(_lower(error.msg)) from None
            except (RecursionError, ValueError) as error:
                raise _refuse_size(error) from None
            else:
                # A number goes on in the next block, maybe: `1` and `.5`, or `1e-` and `5`.
                is_whole = self._text[end - 1] in '}]"' or end <= len(self._text) - _EDGE
                if is_whole or not self._read_on():
                    self.line += self._text.count("\n", self._at, end)
                    self._at = end
                    return value

    def _read_on(self) -> bool:
        """Let go of what has been read and add to the window; return whether there was more."""
        held = len(self._text) - self._at
        if held > MOST_CHARACTERS:
            raise self._fail(f"an element has more than {MOST_CHARACTERS} characters")
        more = self._stream.read(max(_BLOCK, held))
        if more:
            self._text, self._at = self._text[self._at :] + more, 0
        return bool(more)

    def _fail(self, message: str) -> DamagedError:
        where = "at the end" if not self._text[self._at :] else f"on line {self.line}"
        return DamagedError(f"not valid JSON {where}: {message}")


def get(value: object, *path: str) -> object:
    """Return what a path of keys leads to inside a JSON value; None where it leads nowhere."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def get_list(value: object, *path: str) -> list[Any]:
    """Return the list that a path leads to; an empty one for anything else."""
    found = get(value, *path)
    return found if isinstance(found, list) else []


def get_object(value: object, *path: str) -> Row:
    """Return the object that a path leads to; an empty one for anything else."""
    found = get(value, *path)
    return found if isinstance(found, dict) else {}


def get_text(value: object, *path: str) -> str | None:
    """Return the text that a path leads to, a number as text; None for anything else."""
    found = get(value, *path)
    if isinstance(found, str):
        return found
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return str(found) if is_number else None


def get_number(value: object, *path: str) -> float | None:
    """Return the finite number that a path leads to, also one written as text; true and false are 1 and 0."""
    found = get(value, *path)
    if not isinstance(found, str | int | float):
        return None
    try:
        number = float(found)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def get_count(value: object, *path: str) -> int | None:
    """Return the whole number from 0 on that a path leads to."""
    found = get(value, *path)
    is_count = isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 1 << 63
    return found if is_count and isinstance(found, int) else None
