"""Files become one table: several of them one after the other, with columns that no file has by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import accumulate
from pathlib import Path

import polars as pl

from answerkey.datasets.cells import ColumnKind
from answerkey.datasets.content import COMPRESSIONS, HELD_BYTES, Content, read_content
from answerkey.datasets.derived import Deriving
from answerkey.datasets.gathering import (
    CHUNK_ROWS,
    Chunk,
    Drafts,
    Gathered,
    Gatherer,
    gather_held,
    without_collecting,
)
from answerkey.datasets.ids import check_ids, name_samples
from answerkey.datasets.names import check_names
from answerkey.datasets.rows import HeldRows, PickedRows, Positions, Rows, RowsOver, iterate_blocks
from answerkey.datasets.table_cache import name_entry, open_cache
from answerkey.datasets.tables import FormatName, Layout, Table, load_table
from answerkey.datasets.text_rows import Heading
from answerkey.errors import DataError, Place, SpecError
from answerkey.templates import RowFilter
from answerkey.types import Notice, Samples

#: Files with these endings hold several times their size.
_PACKED = frozenset({*COMPRESSIONS, ".parquet", ".pq", ".arrow", ".feather", ".ipc"})
_EXPANSION = 8


@dataclass(frozen=True, kw_only=True)
class FileFields:
    """How the files of a source are read; the fields that all sources with files have in YAML.

    `format` says what a name does not. `header` names the columns of CSV and TSV without a header line, and
    `skip_rows` are passed over at the top. `columns` types text cells. `file_column` is a column to hold the
    name of each row's file. `derive` has templates for new columns.
    """

    format: FormatName | None = None
    header: tuple[str, ...] | None = None
    skip_rows: int = 0
    columns: dict[str, ColumnKind] = field(default_factory=dict)
    file_column: str | None = None
    derive: dict[str, str] = field(default_factory=dict)
    filters: tuple[RowFilter, ...] = ()

    def __post_init__(self) -> None:
        if self.skip_rows < 0:
            raise SpecError("E108", f"`skip_rows` is {self.skip_rows}, it must not be negative")

    @property
    def layout(self) -> Layout:
        """What is said about the files beyond their names."""
        return Layout(self.format, Heading(self.header, self.skip_rows))


@dataclass(frozen=True)
class DataFile:
    """A file to be read: its name in errors, and what `file_column` says of it.

    A single one that is read as it stands may be an address on shared storage.
    """

    path: Path | str
    shown: str
    label: str


def read_files(files: Sequence[DataFile], how: FileFields, *, shown: str) -> Table:
    """Return the rows of all files, in their order; `shown` is the name of them all in errors."""
    if len(files) == 1 and reads_alone(how):
        return _read_alone(files[0], how)
    shown = files[0].shown if len(files) == 1 else shown
    if how.file_column is not None:
        check_names([how.file_column], Place(file=shown))
    check_names(list(how.derive), Place(file=shown))
    digest = _digest(files, how)
    deriving = Deriving(how.derive)
    gather = partial(_gather, files, how, deriving, shown)
    rows, notices, spans = _hold(gather, shown) if _is_small(files) else _store(gather, shown, digest)
    if len(files) > 1:
        starts = tuple(accumulate(spans, initial=0))[:-1]
        rows = FiledRows(rows, tuple(one.shown for one in files), starts)
    check_ids(rows)
    return Table(rows, digest, notices)


def reads_alone(how: FileFields) -> bool:
    """Return whether a single file is read as it stands, with no column made."""
    return not how.derive and how.file_column is None


def _read_alone(file: DataFile, how: FileFields) -> Table:
    """Return the rows of a file that is read as it stands; its digest is that of its content."""
    table = load_table(file.path, columns=how.columns, layout=how.layout, shown=file.shown)
    extra = how.layout.describe()
    return replace(table, digest=_hash([table.digest, *extra])) if extra else table


def _digest(files: Sequence[DataFile], how: FileFields) -> str:
    """Return what stands for the rows: the contents, and all that is said about how they are read."""
    contents = [
        [read_content(one.path, shown=one.shown).digest, one.label if how.file_column else None]
        for one in files
    ]
    return _hash([contents, how.layout.describe(), how.file_column, list(how.derive.items())])


def _hash(parts: object) -> str:
    return sha256(json.dumps(parts).encode()).hexdigest()


def _is_small(files: Sequence[DataFile]) -> bool:
    paths = [Path(one.path) for one in files]
    sizes = (path.stat().st_size * (_EXPANSION if _is_packed(path) else 1) for path in paths)
    return sum(sizes) <= HELD_BYTES


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() in _PACKED


Opened = tuple[Rows, tuple[Notice, ...], tuple[int, ...]]
Gather = Callable[[Drafts], Gathered]


def _hold(gather: Gather, shown: str) -> Opened:
    drafts: dict[int, pl.DataFrame] = {}
    gathered = gather(drafts)
    held = gather_held(drafts, gathered)
    return HeldRows(name_samples(held, shown)), gathered.notices, gathered.spans


def _store(gather: Gather, shown: str, digest: str) -> Opened:
    """Return rows that are kept in the table cache; they are read only if they have not been before."""
    cache = open_cache()
    key = name_entry(digest, "joined", {})
    found = cache.find(key, shown)
    if found is None:
        try:
            with cache.open_drafts() as drafts:
                found = cache.keep(key, drafts, gather(drafts), shown)
        except (OSError, pl.exceptions.PolarsError) as error:
            rows, notices, spans = _hold(gather, shown)
            notice = Notice(f"`{shown}` is held in memory: it cannot be kept as a table: {error}")
            return rows, (*notices, notice), spans
    return found.rows, (*found.notices, *cache.notices), found.spans


def _gather(
    files: Sequence[DataFile], how: FileFields, deriving: Deriving, shown: str, drafts: Drafts
) -> Gathered:
    """Read one file after the other; only what is read of the one at hand is in memory."""
    gatherer = Gatherer(Content(shown, Path(shown), raw=b""), {}, drafts)
    notices: dict[Notice, None] = {}
    spans: list[int] = []
    with without_collecting():
        for file in files:
            table = load_table(file.path, columns=how.columns, layout=how.layout, shown=file.shown)
            notices.update(dict.fromkeys(table.notices))
            spans.append(len(table.rows))
            for chunk in _cut_chunks(table.rows, file, how, deriving):
                gatherer.add(chunk)
        deriving.raise_any()
        return replace(gatherer.finish(tuple(notices)), spans=tuple(spans))


def _cut_chunks(rows: Rows, file: DataFile, how: FileFields, deriving: Deriving) -> Iterator[Chunk]:
    if how.file_column in rows.columns:
        message = f"`file_column` is `{how.file_column}`, which is a column of the file"
        hint = "choose another name there, or rename the column in the file"
        raise DataError("E212", message, where=Place(file=file.shown), hint=hint)
    deriving.refuse_lost(rows.columns, file.shown)
    for _, block in iterate_blocks(rows, size=CHUNK_ROWS):
        samples = block
        if how.file_column is not None:
            label = pl.lit(file.label, pl.String).alias(how.file_column)
            samples = replace(block, frame=block.frame.with_columns(label))
        columns: dict[str, Sequence[object] | pl.Series] = {
            name: samples.values(name) if name in samples.encoded else samples.frame[name]
            for name in samples.columns
        }
        yield Chunk({**columns, **deriving.derive(samples)}, _list_lines(samples))


def _list_lines(samples: Samples) -> list[int]:
    return list(range(1, len(samples) + 1)) if samples.lines is None else samples.lines.to_list()


@dataclass(frozen=True)
class FiledRows(RowsOver):
    """Rows out of several files, one after the other, of which each knows its file.

    `starts` are the positions of the first rows of the files; `offset` is that of the first row here.
    """

    names: tuple[str, ...]
    starts: tuple[int, ...]
    offset: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def slice(self, offset: int, length: int) -> Rows:
        """Return the rows from `offset` on, at most `length` of them."""
        return replace(self, rows=self.rows.slice(offset, length), offset=self.offset + offset)

    def take(self, positions: Positions) -> Rows:
        """Return the rows at these positions."""
        if isinstance(positions, range):
            return self.slice(positions.start, len(positions))
        return PickedRows(self, positions)

    def load(self, columns: Collection[str] | None = None) -> Samples:
        """Return the rows, with all columns or with those named that there are, each with its file."""
        samples = self.rows.load(columns)
        places = pl.int_range(self.offset, self.offset + len(samples), eager=True, dtype=pl.Int64)
        numbers = pl.Series(self.starts, dtype=pl.Int64).search_sorted(places, side="right") - 1
        return replace(samples, files=pl.Series("file", self.names, dtype=pl.String).gather(numbers))

    def ids(self) -> pl.Series:
        """Return the ids of all rows."""
        return self.rows.ids()
