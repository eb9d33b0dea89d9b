"""A log while it is read: what the caller wants of it, what it says of itself, and what is broken in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from answerkey.datasets.content import RowErrors
from answerkey.errors import AnswerkeyError, Place
from answerkey.exchange.archives import DamagedError
from answerkey.exchange.json_streams import JsonStream, parse_json
from answerkey.exchange.lines import Line
from answerkey.exchange.pieces import MOST_BYTES, Piece, decode_text, describe_failure, iterate_pieces
from answerkey.types import Notice

T = TypeVar("T")
Row = dict[str, object]
#: How much of a log is looked at to tell its kind.
_HEAD_CHARACTERS = 2**18
_LISTED = 5_000


@dataclass(frozen=True)
class Wishes:
    """What the caller says beside the path.

    `score` is one of several scores of the log. `dataset` is a file with what was asked, where the log has
    not got it. `columns` says which column of a plain file is what (`completion` → `my_output`).
    """

    score: str | None = None
    dataset: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Told:
    """What a log says of itself as a whole.

    `score` is the name of the verdict in `Theirs`. `reported` are numbers that the tool itself gives for all
    samples, `expected` how many samples it was to have. With `last_wins` a sample that is there twice was
    written anew.
    """

    task: str | None = None
    model: str | None = None
    score: str | None = None
    reported: dict[str, float] = field(default_factory=dict)
    expected: int | None = None
    last_wins: bool = False


@dataclass
class Log:
    """A log that is being read. Readers report here what they meet beside the lines they yield."""

    path: Path
    wishes: Wishes = field(default_factory=Wishes)
    told: Told = field(default_factory=Told)
    notices: list[Notice] = field(default_factory=list)
    seen: int = 0
    spoiled: int = 0
    troubles: RowErrors = field(init=False)

    def __post_init__(self) -> None:
        self.troubles = RowErrors(str(self.path))

    def pieces(self) -> Iterator[Piece]:
        """Yield the files of the log."""
        return iterate_pieces(self.path)

    def notice(self, message: str, hint: str | None = None) -> None:
        """Remember what the user should hear once."""
        self.notices.append(Notice(message, where=Place(file=str(self.path)), hint=hint))

    def spoil(self, message: str, where: Place) -> None:
        """Remember a line or a member that cannot be used."""
        self.spoiled += 1
        hint = None if self.troubles.errors else "`--allow-failed N` leaves up to N broken ones out"
        self.troubles.add("E202", message, where=where, hint=hint)

    @contextmanager
    def guard(self, piece: Piece) -> Iterator[None]:
        """Remember a file, or the rest of one, that cannot be read, and go on behind it."""
        try:
            yield
        except (DamagedError, UnicodeDecodeError, OSError, AnswerkeyError) as error:
            self.spoil(describe_failure(error) or str(error), piece.place())

    def take(self, convert: Callable[[Row], T], row: Row, piece: Piece, line: int | None = None) -> T | None:
        """Return what a row becomes; None, and it is remembered, for one that lacks what it must have."""
        try:
            return convert(row)
        except DamagedError as error:
            self.spoil(str(error), piece.place(line))
            return None

    def read_lines(self, piece: Piece) -> Iterator[tuple[int, Row]]:
        """Yield the objects of a file with one on each line, with their line numbers."""
        with self.guard(piece), piece.open() as stream:
            number = 0
            while raw := stream.readline(MOST_BYTES + 1):
                number += 1
                if len(raw) > MOST_BYTES:
                    raise DamagedError(f"line {number} has more than {MOST_BYTES} bytes")
                if raw.isspace():
                    continue
                self.seen += 1
                row = self._parse_line(raw, piece, number)
                if row is not None:
                    yield number, row

    def _parse_line(self, raw: bytes, piece: Piece, number: int) -> Row | None:
        try:
            return require_object(parse_json(decode_text(raw)))
        except DamagedError as error:
            self.spoil(str(error), piece.place(number))
            return None

    def read_elements(self, piece: Piece, *path: str) -> Iterator[tuple[int, Row]]:
        """Yield the objects of the list to which a path of keys leads, each with the line it ends on."""
        with self.guard(piece), piece.open_text() as text:
            stream = JsonStream(text)
            for _, value in stream.elements(*path):
                self.seen += 1
                if isinstance(value, dict):
                    yield stream.line, value
                else:
                    self.spoil("the element is no object", piece.place(stream.line))


def require_object(value: object) -> Row:
    """Return a JSON object; DamagedError for anything else."""
    if not isinstance(value, dict):
        raise DamagedError(f"an object is expected here, not {type(value).__name__}")
    return value


@dataclass(frozen=True)
class Glimpse:
    """A quick look at a path, by which readers recognise their logs."""

    path: Path

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the log's files: of one file its own, of a folder or an archive those in it."""
        return frozenset(piece.name for piece in islice(iterate_pieces(self.path), _LISTED))

    @cached_property
    def head(self) -> str:
        """The beginning of the log's first file that holds JSON or text; "" when it has none."""
        first = self._find_text()
        if first is None:
            return ""
        try:
            with first.open() as stream:
                return stream.read(_HEAD_CHARACTERS).decode("utf-8-sig", "replace").lstrip()
        except (DamagedError, OSError, AnswerkeyError):
            return ""

    def _find_text(self) -> Piece | None:
        endings = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".gz", ".zst")
        pieces = islice(iterate_pieces(self.path), _LISTED)
        return next((piece for piece in pieces if piece.name.lower().endswith(endings)), None)

    @cached_property
    def first(self) -> Row:
        """The first object of lines, or of a list, of JSON; empty when there is none, or it is too long."""
        try:
            if self.head.startswith("["):
                found = next((one for _, one in JsonStream(StringIO(self.head)).elements()), None)
            else:
                found = parse_json(self.head.partition("\n")[0])
        except DamagedError:
            return {}
        return found if isinstance(found, dict) else {}

    def mentions(self, *keys: str) -> bool:
        """Return whether all of some keys of JSON stand in the beginning of the log."""
        return all(f'"{key}"' in self.head for key in keys)


class LogReader(Protocol):
    """Reads the logs of one tool."""

    kind: ClassVar[str]
    title: ClassVar[str]

    @classmethod
    def recognises(cls, glimpse: Glimpse) -> bool:
        """Return whether a path looks like one of this reader's logs."""

    def read(self, log: Log) -> Iterator[Line]:
        """Yield the lines of a log in its order; memory must not grow with it."""
