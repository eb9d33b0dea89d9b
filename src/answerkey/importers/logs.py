"""Logs as readers see them: files, rows, and a place to report what is damaged.

A log is one file, a folder or a zip archive. A reader (`LogReader`) turns its files into `Record`s;
`Log` provides the rows of the files and collects what is damaged.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO, ClassVar, NamedTuple, TypeVar

from answerkey.datasets.content import Content, RowErrors, describe_long, find_line_limit
from answerkey.errors import AnswerkeyError, DataError, Place, listing
from answerkey.importers.archives import is_archive, list_members, open_member
from answerkey.importers.json_values import (
    DamagedError,
    Json,
    Row,
    parse_bytes,
    parse_first,
)
from answerkey.importers.questions import Question
from answerkey.types import Completion, Notice

T = TypeVar("T")


class Record(NamedTuple):
    """A question, a completion, or both.

    A log in two files yields records with a question and records with a completion, which belong
    together by `sample_id`. In a completion, `trial` is any ascending number, `imported_score` is
    the tool's verdict (1 for right, 0 for wrong), and `imported_answer` is the answer that it
    extracted. `logprobs` have a form that the scorer `choice_probabilities` reads.
    """

    sample_id: str
    question: Question | None = None
    completion: Completion | None = None


Records = Iterator[Record]


@dataclass(frozen=True)
class ImportOptions:
    """The caller's options of an import.

    `score` chooses among the scores of the log, `task` among its tasks. `dataset` is a file with
    the questions, for logs without them. `columns` assigns columns of plain files to roles
    (`completion` → `my_output`). Questions with several right letters are an error, unless
    `single_answers` leaves them out. More damaged lines than `allow_failed`, a number or a share
    such as `"2%"`, are an error.
    """

    score: str | None = None
    dataset: Path | None = None
    task: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    single_answers: bool = False
    allow_failed: int | str | None = None


@dataclass
class LogDescription:
    """What a log says about one task as a whole.

    `score` is the name of the imported verdict, `expected` the number of samples that the log
    should have. With `last_wins`, the last record of a sample counts.
    """

    task: str | None = None
    model: str | None = None
    score: str | None = None
    expected: int | None = None
    last_wins: bool = False


# ── the files of a log

#: A JSON file is read as a whole; its size limit is this multiple of a line's.
MAX_JSON_LINES = 8
#: How many bytes of a log's first file, and how many file names, are used to recognise its kind.
_HEAD_BYTES = 2**18
_LISTED = 5_000
_TEXT_ENDINGS = (
    ".json",
    ".jsonl",
    ".ndjson",
    ".csv",
    ".tsv",
    ".yaml",
    ".yml",
    ".gz",
    ".zst",
)


@dataclass(frozen=True)
class LogFile:
    """A file of a log: its name in the log, its name in errors, and its decompressed bytes."""

    name: str
    file: str
    open: Callable[[], BinaryIO]

    @property
    def stem(self) -> str:
        """The name without folders and endings."""
        return PurePosixPath(self.name).name.partition(".")[0]

    def place(self, line: int | None = None) -> Place:
        """Return a place in this file."""
        return Place(file=self.file, line=line)

    def read_head(self) -> str:
        """Return the beginning of the file; "" if it cannot be read."""
        with suppress(DamagedError, OSError, AnswerkeyError), self.open() as stream:
            raw = stream.read(_HEAD_BYTES)
            return raw.decode("utf-8-sig", "replace").lstrip()
        return ""

    def read_whole(self, most_lines: int = MAX_JSON_LINES) -> bytes:
        """Return all bytes; raise DamagedError if there are too many."""
        most_bytes = min(find_line_limit() * most_lines, 2**40)
        with self.open() as stream:
            raw = stream.read(most_bytes + 1)
        if len(raw) > most_bytes:
            raise DamagedError(describe_long("the file", most_bytes))
        return raw

    def iterate_lines(self) -> Iterator[bytes]:
        """Yield the lines; raise DamagedError at a line that is too long."""
        longest = find_line_limit()
        number = 0
        with self.open() as stream:
            while raw := stream.readline(longest + 1):
                number += 1
                if len(raw) > longest:
                    raise DamagedError(describe_long(f"line {number}", longest))
                yield raw


def iterate_files(path: Path) -> Iterator[LogFile]:
    """Yield the files of a log: the members of an archive in its order, or those of a folder by
    name.

    Hidden files and folders are skipped.
    """
    if path.is_dir():
        yield from _iterate_folder(path)
    elif is_archive(path):
        for member in list_members(path):
            name = member.filename
            yield LogFile(name, f"{path}/{name}", partial(open_member, path, member))
    else:
        content = Content(str(path), path)
        yield LogFile(path.name, str(path), content.open)


def _iterate_folder(folder: Path) -> Iterator[LogFile]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(place, name)
            if file.is_file() and not name.startswith("."):
                inner = file.relative_to(folder).as_posix()
                content = Content(str(file), file)
                yield LogFile(inner, str(file), content.open)


#: Files by the part of the log that they contain.
Parts = dict[str, LogFile]
#: Such files by their common name.
FileGroups = dict[str, Parts]


@dataclass(frozen=True)
class LogPreview:
    """A quick look at a path, from which readers recognise their logs."""

    path: Path

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the log's files: its own, or those in the folder or archive."""
        files = islice(iterate_files(self.path), _LISTED)
        return frozenset(file.name for file in files)

    @cached_property
    def head(self) -> str:
        """The beginning of the log's first JSON or text file; "" if there is none."""
        for file in islice(iterate_files(self.path), _LISTED):
            if file.name.lower().endswith(_TEXT_ENDINGS):
                return file.read_head()
        return ""

    @cached_property
    def first(self) -> Row:
        """The first JSON object of the lines or the list; empty if there is none."""
        return parse_first(self.head).object()

    def mentions(self, *keys: str) -> bool:
        """Return whether the beginning of the log contains all of these JSON keys."""
        return all(f'"{key}"' in self.head for key in keys)


# ── a log that is being read


class Log:
    """A log that is being read; readers report problems to it.

    `description` is that of the task whose records are being read, `tasks` are the names of all
    tasks so far. `seen` counts rows, `records` what they became.
    """

    def __init__(self, path: Path, options: ImportOptions | None = None) -> None:
        self.path = path
        self.options = options or ImportOptions()
        #: The place of errors of the log as a whole.
        self.where = Place(file=str(path))
        self.description = LogDescription()
        self.tasks: list[str] = []
        self.notices: list[Notice] = []
        self.errors = RowErrors(str(path))
        self.seen = 0
        self.records = 0
        self.damaged = 0
        self._seen_before = 0

    @property
    def stem(self) -> str:
        """The name of the log without endings."""
        return self.path.name.partition(".")[0]

    @property
    def present(self) -> int:
        """The number of rows of the current task so far."""
        return self.seen - self._seen_before

    def files(self, *endings: str) -> Iterator[LogFile]:
        """Yield the files of the log; those of a folder only if they have one of the endings."""
        takes_all = not endings or not self.path.is_dir()
        for file in iterate_files(self.path):
            if takes_all or file.name.endswith(endings):
                yield file

    def group_files(
        self,
        pattern: re.Pattern[str],
        alone: str | None = None,
    ) -> FileGroups:
        """Return files by the groups `name` and `part` of a pattern of paths; its group `model` is
        the model.

        A log that is a single file with another name is the part `alone`.
        """
        groups: FileGroups = {}
        models: set[str] = set()
        for file in self.files():
            match = pattern.fullmatch(file.name)
            if match is None:
                whole_path = Path(file.file).resolve().as_posix()
                match = pattern.fullmatch(whole_path)
            if match is not None:
                parts = groups.setdefault(match["name"] or "", {})
                parts.setdefault(match["part"], file)
                models.add(match.groupdict().get("model", ""))
        self.name_model(filter(None, models))
        if not groups and alone is not None and self.path.is_file():
            file = next(self.files())
            groups[file.stem] = {alone: file}
        return groups

    def notice(
        self,
        message: str,
        hint: str | None = None,
    ) -> None:
        """Add a notice for the user."""
        notice = Notice(
            message,
            where=self.where,
            hint=hint,
        )
        self.notices.append(notice)

    def make_error(
        self,
        code: str,
        message: str,
        hint: str | None = None,
    ) -> DataError:
        """Return an error of the log as a whole."""
        return DataError(
            code,
            message,
            where=self.where,
            hint=hint,
        )

    def begin_task(self, name: str) -> bool:
        """Begin a task; return whether the caller wants its records, which then follow.

        The ids of samples are unique within a task. A folder of logs is one task per file.
        """
        self.tasks.append(name)
        self._seen_before = self.seen
        if self.options.task not in {None, name}:
            return False
        self.description = replace(
            self.description,
            task=name,
            score=None,
            expected=None,
        )
        return True

    def name_model(self, names: Iterable[str]) -> None:
        """Set the model of the log, if these names contain one; raise E201 for several."""
        models = sorted(names)
        if len(models) > 1:
            message = f"`{self.path}` holds the output of several models: {listing(models)}"
            raise self.make_error("E201", message, "name the folder, or a file, of one of them")
        self.description.model = next(iter(models), None)

    def add_damage(
        self,
        message: str,
        where: Place,
        count: int = 1,
    ) -> None:
        """Count lines or members that are damaged or missing, with one error."""
        self.damaged += count
        self.errors.add(DataError("E202", message, where=where))

    def compare_count(
        self,
        present: int,
        expected: int | None,
        source: str,
        what: str = "samples",
    ) -> None:
        """Compare the number of rows in a task with the number that `source` states.

        A difference is an error, like damaged rows. A task without rows gets a notice.
        """
        name = self.description.task
        task = f"task `{name}`: " if name else ""
        if expected is not None and expected != present:
            message = f"{task}{source} states {expected} {what}, but the log holds {present}"
            missing = abs(expected - present)
            self.add_damage(message, self.where, missing)
        elif not present:
            self.notice(f"{task}the log holds no {what} of it, so it is left out")

    @contextmanager
    def guard(self, file: LogFile) -> Iterator[None]:
        """Record an error that makes a file, or the rest of it, unreadable, and continue."""
        try:
            yield
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            self.add_damage(f"byte 0x{byte:02x} is not valid UTF-8", file.place())
        except (AnswerkeyError, OSError, DamagedError) as error:
            reason = getattr(error, "message", None)
            reason = reason or getattr(error, "strerror", None)
            message = str(reason or error)
            self.add_damage(message, file.place())

    def convert_lines(
        self,
        file: LogFile,
        convert: Callable[[Json], Iterable[T]],
    ) -> Iterator[T]:
        """Yield the records of a file's lines."""
        return self.convert(file, self.rows(file), convert)

    def convert(
        self,
        file: LogFile,
        rows: Iterable[Json],
        convert: Callable[[Json], Iterable[T]],
    ) -> Iterator[T]:
        """Yield the records of rows; a row without something essential is recorded as damaged."""
        for row in rows:
            try:
                records = list(convert(row))
            except DamagedError as error:
                message = f"element {row.key}: {error}" if row.key else str(error)
                self.add_damage(message, file.place(row.line))
            else:
                yield from records

    def rows(self, file: LogFile) -> Iterator[Json]:
        """Yield the objects of a JSON Lines file; record damaged lines."""
        with self.guard(file):
            for number, raw in enumerate(file.iterate_lines(), 1):
                if raw.isspace():
                    continue
                self.seen += 1
                try:
                    row = parse_bytes(raw)
                except DamagedError as error:
                    self.add_damage(str(error), file.place(number))
                    continue
                if isinstance(row, dict):
                    yield Json(row, number)
                else:
                    message = f"an object is expected here, not {type(row).__name__}"
                    self.add_damage(message, file.place(number))

    def read_whole(
        self,
        file: LogFile,
        parse: Callable[[bytes], object] = parse_bytes,
    ) -> Json:
        """Return the value in a file; null, after recording the error, if it is damaged."""
        document = Json(None)
        with self.guard(file):
            document = Json(parse(file.read_whole()))
        return document  # noqa: RET504 - null after an error in the guard

    def elements(self, values: object) -> Iterator[Json]:
        """Yield the rows in a list or an object of objects; other values are empty objects."""
        for entry in iterate_entries(values):
            self.seen += 1
            yield Json(entry.object(), key=entry.key)


def iterate_entries(values: object) -> Iterator[Json]:
    """Yield the values in a list or an object, with their positions or keys."""
    entries: Iterable[tuple[object, object]] = ()
    if isinstance(values, list):
        entries = enumerate(values)
    elif isinstance(values, dict):
        entries = values.items()
    for key, value in entries:
        yield Json(value, key=str(key))


# ── readers

#: Sets of JSON keys by which a log is recognised.
KeySets = tuple[set[str], ...]


class LogReader(ABC):
    """Reads the logs of one tool.

    It recognises them by the names of their files, the keys of their rows, or their beginning.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    #: A pattern that one of the file names matches.
    file_name: ClassVar[re.Pattern[str]] = re.compile(r"(?!)")
    #: Sets of keys; the first row of the lines, or of the list, has all keys of one set.
    row_keys: ClassVar[KeySets] = ()
    #: Sets of keys; an object contains all keys of one set at its beginning.
    head_keys: ClassVar[KeySets] = ()

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether a path looks like a log for this reader."""
        if any(map(cls.file_name.fullmatch, preview.names)):
            return True
        names = set(preview.first)
        if any(map(names.issuperset, cls.row_keys)):
            return True
        if not preview.head.startswith("{"):
            return False
        return any(preview.mentions(*keys) for keys in cls.head_keys)

    @abstractmethod
    def read(self, log: Log) -> Records:
        """Yield the records of a log in order; memory must not grow with the log."""
