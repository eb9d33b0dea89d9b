"""What a log reader gets: files, also in zip archives, and JSON streams.

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
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, ClassVar, Protocol, TextIO

import polars as pl

from answerkey.datasets.content import (
    PACKED_BLOCK,
    Content,
    RowErrors,
    ZstdFrames,
    describe_long,
    find_line_limit,
    open_blocks,
)
from answerkey.datasets.formats import JsonWindow
from answerkey.datasets.questions import Question, write_cell
from answerkey.errors import AnswerkeyError, DataError, Place, RunError, listing
from answerkey.types import Completion, Notice


@dataclass(frozen=True, slots=True)
class Verdict:
    """The other tool's verdict: 1 for right, 0 for wrong, None where it gave none; and what it extracted."""

    value: float | None = None
    answer: str | None = None


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
class RecordBlock:
    """Records that ask and say, as a table: the columns of the dataset and of the completions by their names.

    None has a text that is too long, or several right letters.
    """

    frame: pl.DataFrame


@dataclass(frozen=True)
class ImportOptions:
    """What the caller says beside the path.

    `score` is one of several scores of the log. `dataset` is a file with what was asked, where the log has
    not got it. `columns` says which column of a plain file is what (`completion` → `my_output`). `task` is
    one of several tasks of the log. Questions with several right letters are an error, or left out with
    `single_answers`; so are more broken lines than `allow_failed`, a number or a share such as `"2%"`.
    """

    score: str | None = None
    dataset: Path | None = None
    task: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    single_answers: bool = False
    allow_failed: int | str | None = None


@dataclass
class LogDescription:
    """What a log says of one task as a whole.

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


Row = dict[str, object]


class DamagedError(Exception):
    """A row, a file or a whole archive that cannot be read; the message says why."""


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────

_BLOCK = 2**20
#: What is deeper than this inside something that is skipped is read as one value.
_SKIPPED_DEPTH = 4
#: Numbers that JSON does not have (`NaN`, `Infinity`) are null.
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)


#: Made once: `str | int | float` makes a type for every value that is looked at.
_NUMBERS = (str, int, float)


class Json:
    """A value of a log; paths of keys lead to what is inside, and to None or nothing where it is not there.

    A row of a file knows its `line` and, inside an object, its `key`.
    """

    __slots__ = ("key", "line", "value")

    def __init__(self, value: object, line: int | None = None, key: str = "") -> None:
        self.value, self.line, self.key = value, line, key

    def get(self, *path: str) -> object:
        """Return what a path leads to."""
        value = self.value
        for key in path:
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        return value

    def at(self, *path: str) -> Json:
        """Return what a path leads to, for further paths."""
        return Json(self.get(*path))

    def list(self, *path: str) -> list[Json]:
        """Return the elements of the list that a path leads to."""
        found = self.get(*path)
        return [Json(one) for one in found] if isinstance(found, list) else []

    def object(self, *path: str) -> Row:
        """Return the object that a path leads to."""
        found = self.get(*path)
        return found if isinstance(found, dict) else {}

    def text(self, *path: str) -> str | None:
        """Return the text that a path leads to, a number as text."""
        return write_cell(self.get(*path))

    def require(self, owner: str, *path: str) -> str:
        """Return the text that a path leads to; DamagedError, which names the `owner`, where it has none."""
        text = self.text(*path)
        if text is None:
            raise DamagedError(f"the {owner} has no `{'.'.join(path)}`")
        return text

    def any_text(self, *names: str) -> str | None:
        """Return the first text under one of some names that is not empty."""
        return next((text for name in names if (text := self.text(name))), None)

    def number(self, *path: str) -> float | None:
        """Return the finite number that a path leads to, also written as text; true and false are 1 and 0."""
        found = self.get(*path)
        try:
            number = float(found) if isinstance(found, _NUMBERS) else math.nan
        except (ValueError, OverflowError):
            return None
        return number if math.isfinite(number) else None

    def count(self, *path: str) -> int | None:
        """Return the whole number from 0 on that a path leads to."""
        found = self.get(*path)
        if isinstance(found, bool) or not isinstance(found, int):
            return None
        return found if 0 <= found < 1 << 63 else None


def parse_json(text: str) -> object:
    """Return the value of a JSON text; DamagedError when it is none."""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise DamagedError(f"not valid JSON: {_lower(error.msg)} (character {error.pos + 1})") from None
    except (RecursionError, ValueError) as error:
        raise _refuse_size(error) from None


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def _refuse_size(error: RecursionError | ValueError) -> DamagedError:
    is_deep = isinstance(error, RecursionError)
    return DamagedError("it is nested too deeply" if is_deep else "a number has too many digits")


class JsonStream(JsonWindow):
    """One JSON text, read element by element.

    `rest` holds what was met on the way to the elements, by its path (`eval`, `a/b`); `line` is that on which
    the last element ends.
    """

    def __init__(self, stream: TextIO, rest: Row | None = None) -> None:
        super().__init__(stream, _DECODER, _BLOCK)
        self.rest: Row = {} if rest is None else rest

    def elements(self, *path: str, kept: Collection[str] = ()) -> Iterator[tuple[str, object]]:
        """Yield the elements of the list, or the values of the object, to which a path of keys leads.

        Each comes with its place in the list, or its key. Of what stands beside the path, that of the names
        in `kept` is in `rest` once it was met. DamagedError when the text ends or breaks off.
        """
        yield from self._descend(path, "", kept)
        if self.peek():
            raise self.fail("extra text after the end")

    def _descend(
        self, path: Sequence[str], before: str, kept: Collection[str]
    ) -> Iterator[tuple[str, object]]:
        mark = self.peek()
        if not path and mark in {"{", "["}:
            for key in self._entries():
                yield key, self._read()
        elif not path or mark != "{":
            self._skip()
        else:
            for key in self._entries():
                way = f"{before}{key}"
                if key == path[0]:
                    yield from self._descend(path[1:], f"{way}/", kept)
                elif way in kept:
                    self.rest[way] = self._read()
                else:
                    self._skip()

    def _entries(self) -> Iterator[str]:
        """Yield the keys of the object, or the places of the list, that starts here; its value is next."""
        is_object = self.take("{")
        if not is_object:
            self._require("[")
        place = 0
        while not self.take("}" if is_object else "]"):
            if place:
                self._require(",")
            key: object = str(place)
            if is_object:
                key = self._read()
                if not isinstance(key, str):
                    raise self.fail("expecting a key")
                self._require(":")
            yield str(key)
            place += 1

    def _skip(self, depth: int = _SKIPPED_DEPTH) -> None:
        """Read a value without keeping it, nor holding a large one as a whole."""
        if depth and self.peek() in {"{", "["}:
            for _ in self._entries():
                self._skip(depth - 1)
        else:
            self._read()

    def _require(self, mark: str) -> None:
        if not self.take(mark):
            raise self.fail(f"expecting `{mark}`")

    def _read(self) -> object:
        """Return the value that starts here, and go on behind it."""
        self.peek()
        try:
            value, end = self.decode()
        except (RecursionError, ValueError) as error:
            raise _refuse_size(error) from None
        self.line += self.text.count("\n", self.at, end)
        self.at = end
        return value

    def fail(self, message: str, position: int = 0) -> DamagedError:  # noqa: ARG002 - the line will do
        """Return the error, with the line."""
        where = "at the end" if not self.text[self.at :] else f"on line {self.line}"
        return DamagedError(f"not valid JSON {where}: {_lower(message)}")


# ── zip archives ────────────────────────────────────────────────────────────────────────────────────────────

STORED, DEFLATED, ZSTANDARD = 0, 8, 93
#: A member may expand to so many times its size, and always to as much as `SMALL`.
MOST_RATIO = 400
SMALL = 64 * 2**20
MARK = b"PK\x03\x04"
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
    with suppress(OSError):
        if path.is_file():
            with path.open("rb") as stream:
                return stream.read(len(MARK)) == MARK
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
    if member.method not in {STORED, DEFLATED, ZSTANDARD}:
        raise DamagedError(f"it is compressed by method {member.method}, which is not read")
    stream = path.open("rb")
    try:
        _seek_inside(stream, member.offset)
        head = _LOCAL.unpack(_read_exactly(stream, _LOCAL.size))
        if head[0] != MARK:
            raise DamagedError("it is not where the list of members says")  # noqa: TRY301 - closes the stream
        stream.seek(head[9] + head[10], io.SEEK_CUR)
        return open_blocks(stream, _expand_member(stream, member), 2**16)
    except BaseException:
        stream.close()
        raise


def _expand_member(packed: BinaryIO, member: Member) -> Iterator[bytes]:
    """Yield the bytes of a member; its checksum is compared at the end."""
    expand: Callable[[bytes], bytes] = bytes
    errors: tuple[type[Exception], ...] = (zlib.error,)
    if member.method == DEFLATED:
        expand = zlib.decompressobj(-zlib.MAX_WBITS).decompress
    elif member.method == ZSTANDARD:
        frames = ZstdFrames()
        expand, errors = frames.decompress, (frames.error,)
    left, size, checksum = member.packed, 0, 0
    while left:
        block = packed.read(min(left, PACKED_BLOCK))
        if not block:
            raise DamagedError("it ends in the middle")
        left -= len(block)
        try:
            part = expand(block)
        except errors as error:
            raise DamagedError(str(error)) from None
        size += len(part)
        checksum = zlib.crc32(part, checksum)
        if size > max(SMALL, member.packed * MOST_RATIO):
            raise DamagedError(f"it expands to more than {MOST_RATIO} times its size")
        yield part
    if checksum != member.checksum:
        raise DamagedError("its checksum is wrong")


# ── the files of a log ──────────────────────────────────────────────────────────────────────────────────────

#: How many bytes of lines are read at once.
BLOCK_BYTES = 8 * 2**20
#: How much of a log is looked at to tell its kind, and how many of its files.
_HEAD_BYTES = 2**18
_LISTED = 5_000
_TEXT_ENDINGS = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".yaml", ".yml", ".gz", ".zst")


@dataclass(frozen=True)
class LogFile:
    """One file of a log: its name within the log, how errors call it, and its bytes, decompressed."""

    name: str
    file: str
    open: Callable[[], BinaryIO]

    @property
    def stem(self) -> str:
        """The name without its folders and its endings."""
        return PurePosixPath(self.name).name.partition(".")[0]

    def place(self, line: int | None = None) -> Place:
        """Return a place in this file."""
        return Place(file=self.file, line=line)

    def read_first(self, most: int) -> Json:
        """Return the first line, at most so many bytes of it; null where that is no JSON."""
        with suppress(DamagedError, OSError, AnswerkeyError), self.open() as stream:
            return Json(parse_json(stream.readline(most).decode("utf-8-sig", "replace")))
        return Json(None)

    def read_whole(self) -> bytes:
        """Return all bytes; DamagedError when they are more than a line may have."""
        longest = find_line_limit()
        with self.open() as stream:
            raw = stream.read(longest + 1)
        if len(raw) > longest:
            raise DamagedError(describe_long("the file", longest))
        return raw

    def read_json(self) -> Json:
        """Return the file as one JSON object; DamagedError when it is none or too long."""
        return Json(_parse_object(self.read_whole()))


def _parse_object(raw: bytes) -> Row:
    try:
        found = parse_json(raw.decode("utf-8-sig" if raw.startswith(BOM_UTF8) else "utf-8"))
    except UnicodeDecodeError as error:
        raise DamagedError(f"byte 0x{raw[error.start]:02x} is not valid UTF-8") from None
    if not isinstance(found, dict):
        raise DamagedError(f"an object is expected here, not {type(found).__name__}")
    return found


def iterate_files(path: Path, *, packed: bool = False) -> Iterator[LogFile]:
    """Yield the files of a log: members of an archive as it lists them, those of a folder by name.

    Hidden files and folders are left aside. An archive that stays `packed` is one file.
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
    elif not packed and is_archive(path):
        for member in iterate_members(path):
            yield LogFile(member.name, f"{path}/{member.name}", partial(open_member, path, member))
    else:
        yield LogFile(path.name, str(path), Content(str(path), path).open)


def group_files(
    files: Iterable[LogFile], pattern: re.Pattern[str]
) -> tuple[dict[str, dict[str, LogFile]], set[str]]:
    """Return files by the groups `name` and `part` of a pattern of paths, and the models that it finds."""
    found: dict[str, dict[str, LogFile]] = {}
    models: set[str] = set()
    for file in files:
        match = pattern.fullmatch(file.name) or pattern.fullmatch(Path(file.file).resolve().as_posix())
        if match is not None:
            found.setdefault(match["name"] or "", {}).setdefault(match["part"], file)
            models.update({match["model"]} if "model" in match.groupdict() else ())
    return found, models


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
        with suppress(DamagedError, OSError, AnswerkeyError), first.open() as stream:
            return stream.read(_HEAD_BYTES).decode("utf-8-sig", "replace").lstrip()
        return ""

    @cached_property
    def first(self) -> Row:
        """The first object of lines, or of a list, of JSON; empty when there is none, or it is too long."""
        with suppress(DamagedError):
            if self.head.startswith("["):
                found = next((one for _, one in JsonStream(io.StringIO(self.head)).elements()), None)
            else:
                found = parse_json(self.head.partition("\n")[0])
            return found if isinstance(found, dict) else {}
        return {}

    def mentions(self, *keys: str) -> bool:
        """Return whether all of some keys of JSON stand in the beginning of the log."""
        return all(f'"{key}"' in self.head for key in keys)


@dataclass
class Log:
    """A log that is being read. Readers report here what they meet beside the records they yield.

    `description` is that of the task whose records are read now, `tasks` the names of all that were met.
    """

    path: Path
    options: ImportOptions = field(default_factory=ImportOptions)
    description: LogDescription = field(default_factory=LogDescription)
    tasks: list[str] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    seen: int = 0
    broken: int = 0
    errors: RowErrors = field(init=False)

    def __post_init__(self) -> None:
        self.errors = RowErrors(str(self.path))

    def files(self, *endings: str) -> Iterator[LogFile]:
        """Yield the files of the log; of a folder only those with one of the endings, if any are named."""
        for file in iterate_files(self.path):
            if not endings or file.name.endswith(endings) or not self.path.is_dir():
                yield file

    def notice(self, message: str, hint: str | None = None) -> None:
        """Remember what the user should hear once."""
        self.notices.append(Notice(message, where=Place(file=str(self.path)), hint=hint))

    def make_error(self, code: str, message: str, hint: str | None = None) -> DataError:
        """Return an error of the log as a whole."""
        return DataError(code, message, where=Place(file=str(self.path)), hint=hint)

    def begin_task(self, name: str) -> bool:
        """Go over to a task of the log, whose records come next; return whether it is wanted."""
        self.tasks.append(name)
        if self.options.task not in {None, name}:
            return False
        model, last_wins = self.description.model, self.description.last_wins
        self.description = LogDescription(name, model, last_wins=last_wins)
        return True

    def name_model(self, models: Collection[str], holds: str, hint: str) -> None:
        """Take the only model of a log, if it names one; E201 for several."""
        if len(models) > 1:
            several = f"`{self.path}` holds {holds} of several models: {listing(sorted(models))}"
            raise self.make_error("E201", several, hint)
        self.description.model = next(iter(models), None)

    def compare_version(self, stated: str | None, tested: str) -> None:
        """Tell once when a log is of a newer version than the one that was tested."""

        def split(text: str) -> list[int]:
            return [int(one) for one in re.findall(r"\d+", text)[:3]]

        message = f"the log is of version {stated}; {tested} is the newest that was tested"
        if stated and split(stated) > split(tested) and all(message != one.message for one in self.notices):
            self.notice(message, "compare its numbers with those that the tool reports")

    def mark_broken(self, message: str, where: Place, count: int = 1) -> None:
        """Remember a line or a member that cannot be used, or how many the log lacks."""
        self.broken += count
        self.errors.add("E202", message, where=where)

    def compare_count(self, present: int, stated: int | None, source: str, what: str = "samples") -> None:
        """Compare how many rows of a task were met with what the log states elsewhere, in `source`.

        Another number is an error, as broken rows are. A task without any rows gets a notice.
        """
        name = self.description.task
        task = f"task `{name}`: " if name else ""
        if stated is not None and stated != present:
            message = f"{task}{source} states {stated} {what}, but the log holds {present}"
            self.mark_broken(message, Place(file=str(self.path)), abs(stated - present))
        elif not present:
            self.notice(f"{task}the log holds no {what} of it: it is left out")

    def read_beside(self, file: LogFile) -> Json | None:
        """Return a file that describes the log as a whole; a notice and None when it cannot be read."""
        try:
            return file.read_json()
        except (AnswerkeyError, OSError, DamagedError) as error:
            reason = getattr(error, "message", None) or error
            message = f"`{file.name}` cannot be read ({reason}): the log's own counts are not compared"
            self.notices.append(Notice(message, where=file.place()))
            return None

    @contextmanager
    def guard(self, file: LogFile) -> Iterator[None]:
        """Remember a file, or the rest of one, that cannot be read, and go on behind it."""
        try:
            yield
        except UnicodeDecodeError as error:
            self.mark_broken(f"byte 0x{error.object[error.start]:02x} is not valid UTF-8", file.place())
        except (AnswerkeyError, OSError, DamagedError) as error:
            told = getattr(error, "message", None) or getattr(error, "strerror", None) or error
            self.mark_broken(str(told), file.place())

    def convert(
        self, file: LogFile, rows: Iterable[Json], convert: Callable[[Json], Record | Iterable[Record]]
    ) -> Iterator[Record]:
        """Yield what rows become; one that lacks what it must have (DamagedError) is remembered."""
        for row in rows:
            try:
                found = convert(row)
                records = [found] if isinstance(found, Record) else list(found)
            except DamagedError as error:
                self.mark_broken(str(error), file.place(row.line))
            else:
                yield from records

    def rows(self, file: LogFile) -> Iterator[Json]:
        """Yield the objects of a file with one on each line."""
        for number, lines in self.blocks(file):
            yield from self.parse(file, number, lines)

    def blocks(self, file: LogFile) -> Iterator[tuple[int, list[bytes]]]:
        """Yield the lines of a file, some at a time, with the number of the first."""
        with self.guard(file), file.open() as stream:
            number, failure, longest = 1, None, find_line_limit()
            while failure is None:
                lines: list[bytes] = []
                size = 0
                try:
                    while size < BLOCK_BYTES and (raw := stream.readline(longest + 1)):
                        if len(raw) > longest:
                            message = describe_long(f"line {number + len(lines)}", longest)
                            raise DamagedError(message)  # noqa: TRY301 - told behind the lines before it
                        lines.append(raw)
                        size += len(raw)
                except (AnswerkeyError, OSError, DamagedError) as error:
                    failure = error
                if not lines and failure is None:
                    return
                yield number, lines
                number += len(lines)
            raise failure

    def parse(self, file: LogFile, number: int, lines: Iterable[bytes]) -> Iterator[Json]:
        """Yield the objects of lines, the first of which has this number; a broken one is remembered."""
        for at, raw in enumerate(lines, number):
            if raw.isspace():
                continue
            self.seen += 1
            try:
                row = _parse_object(raw)
            except DamagedError as error:
                self.mark_broken(str(error), file.place(at))
            else:
                yield Json(row, at)

    def values(
        self, file: LogFile, *path: str, head: Row | None = None, kept: Collection[str] = ()
    ) -> Iterator[Json]:
        """Yield the elements of the list, or the values of the object, to which a path leads.

        What stands beside the path under a name in `kept` is put into `head`.
        """
        with self.guard(file), file.open() as raw:
            stream = JsonStream(io.TextIOWrapper(raw, encoding="utf-8-sig", newline=""), head)
            for key, value in stream.elements(*path, kept=kept):
                yield Json(value, stream.line, key)

    def elements(
        self, file: LogFile, *path: str, head: Row | None = None, kept: Collection[str] = ()
    ) -> Iterator[Json]:
        """Yield the rows of the log, which are objects; of another value its reader says what it lacks."""
        for row in self.values(file, *path, head=head, kept=kept):
            self.seen += 1
            yield row if isinstance(row.value, dict) else Json({}, row.line, row.key)


class LogReader(Protocol):
    """Reads the logs of one tool."""

    kind: ClassVar[str]
    title: ClassVar[str]

    @classmethod
    def recognises(cls, preview: LogPreview, /) -> bool:
        """Return whether a path looks like one of this reader's logs."""

    def read(self, log: Log, /) -> Iterator[Record | RecordBlock]:
        """Yield the records of a log in its order; memory must not grow with it."""


class KnownReader:
    """A reader that tells its logs by the names of their files, the keys of their rows, or how they begin."""

    kind: ClassVar[str]
    title: ClassVar[str]
    #: What the name of one of the files is like.
    file_name: ClassVar[re.Pattern[str]] = re.compile(r"(?!)")
    #: Sets of keys, one of which the first row of lines, or of a list, has.
    row_keys: ClassVar[tuple[set[str], ...]] = ()
    #: Sets of keys, one of which stands at the beginning of an object.
    head_keys: ClassVar[tuple[set[str], ...]] = ()

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether a path looks like one of this reader's logs."""
        if any(cls.file_name.fullmatch(name) for name in preview.names):
            return True
        if any(keys <= set(preview.first) for keys in cls.row_keys):
            return True
        return preview.head.startswith("{") and any(preview.mentions(*keys) for keys in cls.head_keys)


class LookupTable(AbstractContextManager["LookupTable"]):
    """What one file of a log says about rows of another: values by name on disk, gone afterwards.

    Of values of one name the last counts.
    """

    def __init__(self) -> None:
        self.count = 0
        self._base = sqlite3.connect("", isolation_level=None)
        table = "CREATE TABLE lookup (name TEXT PRIMARY KEY, content TEXT NOT NULL) WITHOUT ROWID"
        for command in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", table, "BEGIN"):
            self._base.execute(command)

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

    def values(self) -> Iterator[Any]:
        """Yield all values."""
        for (content,) in self._base.execute("SELECT content FROM lookup"):
            yield json.loads(content)


def _escape(name: str) -> str:
    """Return a name that can be stored; half surrogate pairs cannot."""
    return name.encode("utf-8", "backslashreplace").decode()
