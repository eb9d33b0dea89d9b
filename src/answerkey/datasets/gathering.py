"""Chunks of a text file become one table whose columns have one type each.

Each chunk is stored with the types it has by itself. What the chunks have in common is only known in the end;
chunks that differ from it are then stored anew.
"""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import polars as pl

from answerkey.datasets.cells import ColumnKind, require_columns, type_cells
from answerkey.datasets.content import MAX_CELL, Content
from answerkey.datasets.shapes import Columns, Shape, fill_column, find_shape, merge_shapes, settle
from answerkey.datasets.troubles import Troubles
from answerkey.errors import DataError, Place
from answerkey.types import Notice

#: A chunk ends after so many rows, or so many characters.
CHUNK_ROWS = 32_768
CHUNK_CHARACTERS = 16 * 2**20
#: The lines of rows, beside their cells; no column of a file can have a name without a character.
LINE = " "


@contextmanager
def without_collecting() -> Iterator[None]:
    """Let Python's search for cycles rest: rows have none, and it would look through them again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file: cells by column, all equally many, and the line on which each row starts.

    A column that is a series has its type already.
    """

    columns: Mapping[str, Sequence[object] | pl.Series]
    lines: Sequence[int]


class Drafts(Protocol):
    """Where chunks are kept by their numbers until all have been read: a dict, or files."""

    def __setitem__(self, number: int, frame: pl.DataFrame) -> None:
        """Keep a chunk under its number, also in place of what was there."""

    def __getitem__(self, number: int) -> pl.DataFrame:
        """Return the chunk with this number."""


@dataclass(frozen=True)
class FileDrafts:
    """Chunks kept as files in a folder of their own."""

    folder: Path

    def __setitem__(self, number: int, frame: pl.DataFrame) -> None:
        frame.write_parquet(self.folder / f"{number:06d}.parquet", compression="lz4", statistics=False)

    def __getitem__(self, number: int) -> pl.DataFrame:
        return pl.read_parquet(self.folder / f"{number:06d}.parquet", glob=False)

    def paths(self) -> list[Path]:
        """Return the files in their order."""
        return sorted(self.folder.glob("*.parquet"))

    def unpack(self, content: Content) -> Content:
        """Return a content that lies decompressed in a file; a compressed one is expanded into the folder."""
        if not content.is_packed:
            return content
        path = self.folder / "expanded"
        with content.open() as stream, path.open("wb") as out:
            shutil.copyfileobj(stream, out, 2**20)
        return replace(content, path=path)


@dataclass(frozen=True)
class Gathered:
    """What is known of a table when all of its chunks have been read; `size` is in bytes."""

    rows: int
    size: int
    schema: Mapping[str, pl.DataType]
    encoded: frozenset[str]
    #: The line of the first row, when each row is on the line after the one before it.
    first_line: int | None
    notices: tuple[Notice, ...]
    #: How many rows each of several files has.
    spans: tuple[int, ...] = ()


class Gatherer:
    """Takes the chunks of one file in their order; `kinds` says how text cells are typed."""

    def __init__(self, content: Content, kinds: Mapping[str, ColumnKind], drafts: Drafts) -> None:
        self.content = content
        self._kinds = kinds
        self._drafts = drafts
        self._shapes: dict[str, Shape] = {}
        self._own: list[Mapping[str, Shape]] = []
        self._rows = 0
        self._bytes = 0
        self._first: int | None = None
        self._is_regular = True
        self._huge = Troubles(content.file)
        self._unfit = {name: Troubles(content.file) for name in kinds}

    def add(self, chunk: Chunk) -> None:
        """Take a chunk."""
        if not chunk.lines:
            return
        self._note_lines(chunk.lines)
        columns = [pl.Series(LINE, chunk.lines, dtype=pl.Int64)]
        own: dict[str, Shape] = {}
        for name, cells in chunk.columns.items():
            series, own[name] = self._build(name, cells, chunk.lines)
            columns.append(series)
            self._shapes[name] = merge_shapes(self._shapes.get(name, pl.Null()), own[name])
        frame = pl.DataFrame(columns)
        self._bytes += int(frame.estimated_size())
        self._drafts[len(self._own)] = frame
        self._own.append(own)

    def _build(
        self, name: str, cells: Sequence[object] | pl.Series, lines: Sequence[int]
    ) -> tuple[pl.Series, Shape]:
        """Return a column of a chunk, and its shape."""
        if name in self._kinds:
            cells = list(cells)
            texts = [one if isinstance(one, str) else None for one in cells]
            refuse_huge(pl.Series(name, texts, dtype=pl.String), lines, self._huge)
            where = Place(file=self.content.file, field=name)
            cells = type_cells(cells, self._kinds[name], where, lines, self._unfit[name])
        shape = cells.dtype if isinstance(cells, pl.Series) else find_shape(cells)
        series = cells if isinstance(cells, pl.Series) else fill_column(name, cells, settle(shape))
        if name not in self._kinds:
            refuse_huge(series, lines, self._huge)
        return series, shape

    def _note_lines(self, lines: Sequence[int]) -> None:
        if self._first is None:
            self._first = lines[0]
        start = self._first + self._rows
        self._rows += len(lines)
        self._is_regular = self._is_regular and list(lines) == list(range(start, start + len(lines)))

    def finish(self, notices: tuple[Notice, ...]) -> Gathered:
        """Return what all chunks have in common, having stored anew those that differ."""
        if not self._rows:
            raise DataError("E210", "the file has no rows", where=self.content.place())
        self._huge.raise_any()
        require_columns(self._kinds, list(self._shapes), self.content.file)
        unfit = Troubles(self.content.file)
        for one in self._unfit.values():
            unfit.extend(one)
        unfit.raise_any()
        types = {name: settle(shape) for name, shape in self._shapes.items()}
        for number, own in enumerate(self._own):
            if [(name, settle(shape)) for name, shape in own.items()] != list(types.items()):
                self._drafts[number] = _align(self._drafts[number], own, types)
        encoded = frozenset(name for name, dtype in types.items() if dtype is None)
        schema = {name: dtype or pl.String() for name, dtype in types.items()}
        first = self._first if self._is_regular else None
        return Gathered(self._rows, self._bytes, schema, encoded, first, notices)


def _align(
    frame: pl.DataFrame, own: Mapping[str, Shape], types: Mapping[str, pl.DataType | None]
) -> pl.DataFrame:
    """Return a chunk with the columns and types that all chunks have in common."""
    return pl.DataFrame([frame[LINE], *_align_columns(frame, own, types)])


def _align_columns(
    frame: pl.DataFrame, own: Mapping[str, Shape], types: Mapping[str, pl.DataType | None]
) -> Iterator[pl.Series]:
    for name, dtype in types.items():
        if name not in own:
            yield pl.Series(name, [None] * frame.height, dtype=dtype or pl.String())
        elif settle(own[name]) == dtype:
            yield frame[name]
        else:  # values of one type, or nulls: a chunk that has none in common is JSON text, and so are all
            yield fill_column(name, frame[name].to_list(), dtype)


def refuse_huge(column: pl.Series, lines: Sequence[int] | pl.Series, troubles: Troubles) -> None:
    """Remember the cells of a text column that are too long."""
    if column.dtype != pl.String:
        return
    sizes = column.alias("cell").str.len_bytes()  # Polars would take a name such as `*` for a pattern
    if sizes.max() is None or int(sizes.max()) <= MAX_CELL:  # type: ignore[arg-type]  # a number
        return
    for position in (sizes > MAX_CELL).arg_true():
        where = Place(file=troubles.file, line=int(lines[position]), field=column.name)
        troubles.add("E202", f"the cell has more than {MAX_CELL} bytes", where=where)


def gather_held(frames: Mapping[int, pl.DataFrame], gathered: Gathered) -> Columns:
    """Return the chunks that were kept in memory as one table."""
    whole = pl.concat([frames[number] for number in sorted(frames)], rechunk=True)
    lines = whole[LINE].alias("line")
    return Columns(whole.drop(LINE), lines, gathered.encoded, gathered.notices)
