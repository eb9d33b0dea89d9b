"""Columns of Python values as typed columns, and chunks of rows as one table.

A column is native only if every value that is not null has exactly the same type and shape, so that what a
template sees is exactly what the file holds: `1` never turns into `1.0`, and no dict gains a key. Any other
column is stored as JSON text.

A shape is the type of some values, Null where only nulls are known so far, and None where they have no common
type. The shapes of two halves of a column, merged, are the shape of the column: a file is read in chunks,
each stored with the types it has by itself, and chunks that differ from what all have in common are stored
anew.
"""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Generic, TypeVar, cast

import polars as pl

from answerkey.datasets.content import MAX_CELL, Content, RowErrors
from answerkey.datasets.values import ColumnKind, type_cells
from answerkey.errors import DataError, Place, listing, raise_all, suggest
from answerkey.types import Notice

Shape = pl.DataType | None
Kinds = Mapping[str, ColumnKind]
Row = TypeVar("Row")

#: A chunk ends after so many rows, or so many characters.
CHUNK_ROWS = 32_768
CHUNK_CHARACTERS = 16 * 2**20
#: The lines of rows, beside their cells; no column of a file can have a name without a character.
LINE = " "
_LEAVES: dict[type, pl.DataType] = {
    str: pl.String(),
    bool: pl.Boolean(),
    float: pl.Float64(),
    int: pl.Int64(),
}
_INT64 = range(-(2**63), 2**63)
#: Deeper nesting is kept as JSON text: nested column types cost more than they give.
_NATIVE_DEPTH = 6


@dataclass(frozen=True)
class Columns:
    """The columns of a file as read: `encoded` and `lines` as in `Samples`."""

    frame: pl.DataFrame
    lines: pl.Series
    encoded: frozenset[str] = frozenset()
    notices: tuple[Notice, ...] = ()


def check_names(names: Sequence[str], where: Place) -> tuple[Notice, ...]:
    """Refuse duplicate and empty column names; notice those with white space around them."""
    first: dict[str, int] = {}
    errors: list[DataError] = []
    for number, name in enumerate(names, 1):
        if not name.strip():
            hint = "give the column a name; a table written by pandas needs `index=False`"
            errors.append(DataError("E202", f"column {number} has no name", where=where, hint=hint))
        elif name in first:
            message = f"column `{name}` appears twice, as column {first[name]} and column {number}"
            errors.append(DataError("E212", message, where=where, hint="rename or remove one of them"))
        first.setdefault(name, number)
    raise_all(errors)
    spaced = [name for name in names if name != name.strip()]
    if not spaced:
        return ()
    message = f"white space around column names is part of the name: {listing(map(repr, spaced))}"
    return (Notice(message, where=where, hint="remove it, or write `sample[' name']` in templates"),)


def build_frame(columns: Mapping[str, Sequence[object]]) -> tuple[pl.DataFrame, frozenset[str]]:
    """Return a frame of these columns and the names of those stored as JSON text."""
    built = {name: build_column(name, values) for name, values in columns.items()}
    encoded = frozenset(name for name, (_, is_encoded) in built.items() if is_encoded)
    return pl.DataFrame([series for series, _ in built.values()]), encoded


def build_column(name: str, values: Sequence[object]) -> tuple[pl.Series, bool]:
    """Return the column and whether its cells are JSON text; values are what `json.loads` can return."""
    dtype = choose_type(find_shape(values))
    return fill_column(name, values, dtype), dtype is None


def fill_column(name: str, values: Sequence[object], dtype: pl.DataType | None) -> pl.Series:
    """Return values that have this type as a column; as JSON text when it is None."""
    if dtype is not None:
        return _fill(values, dtype).alias(name)
    cells = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
    return pl.Series(name, cells, dtype=pl.String)


def find_shape(values: Sequence[object], depth: int = 0) -> Shape:
    """Return the shape of some values."""
    kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return pl.Null()
    kind = kinds.pop()
    if kinds or depth > _NATIVE_DEPTH:
        return None
    if kind is list:
        lists = (value for value in values if isinstance(value, list))
        inner = find_shape(list(chain.from_iterable(lists)), depth + 1)
        return None if inner is None else pl.List(inner)
    if kind is dict:
        dicts = [value for value in values if isinstance(value, dict)]
        names = set(map(tuple, dicts))
        if len(names) > 1 or () in names:
            return None
        return _join_fields({key: find_shape([one[key] for one in dicts], depth + 1) for key in names.pop()})
    if kind is int and not all(value in _INT64 for value in values if value is not None):
        return None
    return _LEAVES[kind]


def merge_shapes(one: Shape, other: Shape) -> Shape:
    """Return the shape of the values of both."""
    if one is None or other is None:
        return None
    if other in (one, pl.Null):
        return one
    if one == pl.Null:
        return other
    if isinstance(one, pl.List) and isinstance(other, pl.List):
        inner = merge_shapes(cast("pl.DataType", one.inner), cast("pl.DataType", other.inner))
        return None if inner is None else pl.List(inner)
    if isinstance(one, pl.Struct) and isinstance(other, pl.Struct):
        ours, theirs = _list_fields(one), _list_fields(other)
        if list(ours) == list(theirs):
            return _join_fields({name: merge_shapes(ours[name], theirs[name]) for name in ours})
    return None


def choose_type(shape: Shape) -> pl.DataType | None:
    """Return the type that a column of this shape is stored with: where there are only nulls, text."""
    if isinstance(shape, pl.List):
        return pl.List(cast("pl.DataType", choose_type(cast("pl.DataType", shape.inner))))
    if isinstance(shape, pl.Struct):
        return _join_fields({name: choose_type(one) for name, one in _list_fields(shape).items()})
    return pl.String() if shape == pl.Null else shape


def _list_fields(struct: pl.Struct) -> dict[str, pl.DataType]:
    return {one.name: cast("pl.DataType", one.dtype) for one in struct.fields}


def _join_fields(fields: Mapping[str, Shape]) -> Shape:
    known = {name: one for name, one in fields.items() if one is not None}
    return pl.Struct(known) if len(known) == len(fields) else None


def _fill(values: Sequence[object], dtype: pl.DataType) -> pl.Series:
    """Return the values as a series; lists and dicts are taken apart, which is ten times faster."""
    if isinstance(dtype, pl.List):
        return _fill_lists(values, cast("pl.DataType", dtype.inner))
    if not isinstance(dtype, pl.Struct):
        return pl.Series(values, dtype=dtype, strict=True)
    dicts = [value if isinstance(value, dict) else None for value in values]
    fields = {
        name: _fill([None if one is None else one[name] for one in dicts], inner)
        for name, inner in _list_fields(dtype).items()
    }
    whole = pl.DataFrame(fields).to_struct("struct")
    is_there = pl.Series([one is not None for one in dicts], dtype=pl.Boolean)
    return whole.to_frame().select(pl.when(is_there).then(pl.col("struct")).alias("struct"))["struct"]


def _fill_lists(values: Sequence[object], inner: pl.DataType) -> pl.Series:
    """Return lists by filling their elements as one series and cutting it up again."""
    lists = [value if isinstance(value, list) else None for value in values]
    sizes = pl.Series("size", [None if one is None else len(one) for one in lists], dtype=pl.UInt32)
    elements = _fill(list(chain.from_iterable(one for one in lists if one)), inner)
    if not sizes.null_count() and sizes.n_unique() == 1 and sizes[0] and not inner.is_nested():
        return elements.reshape((len(sizes), int(sizes[0]))).cast(pl.List(inner)).alias("list")
    filled = sizes.filter(sizes > 0).to_frame().with_row_index("row")
    rows = filled.select(pl.col("row").repeat_by("size").explode()).to_series()
    cut = pl.DataFrame({"row": rows, "element": elements}).group_by("row", maintain_order=True).agg("element")
    is_filled = (pl.col("size") > 0).fill_null(value=False)
    empty = pl.lit(pl.Series([[]], dtype=pl.List(inner)))
    place = pl.when(is_filled).then(is_filled.cum_sum() - 1)
    return sizes.to_frame().select(
        pl.when(pl.col("size") == 0).then(empty).otherwise(pl.lit(cut["element"]).gather(place)).alias("list")
    )["list"]


def type_columns(columns: Columns, kinds: Kinds, file: str | None) -> Columns:
    """Return the columns with those in `kinds` typed; all unfit cells are reported together."""
    _require_columns(kinds, columns.frame.columns, file)
    errors = RowErrors(file)
    frame, encoded = columns.frame, set(columns.encoded)
    for name, kind in kinds.items():
        cells: list[object] = frame[name].to_list()
        if name in encoded:
            cells = [None if cell is None else json.loads(str(cell)) for cell in cells]
        values = type_cells(cells, kind, Place(file=file, field=name), columns.lines, errors)
        series, is_encoded = build_column(name, values)
        frame = frame.with_columns(series)
        encoded = encoded | {name} if is_encoded else encoded - {name}
    errors.raise_any()
    return replace(columns, frame=frame, encoded=frozenset(encoded))


def _require_columns(kinds: Kinds, names: list[str], file: str | None) -> None:
    """Raise E206 for the first column that is to be typed and is not there."""
    for name in kinds:
        if name not in names:
            message = f"`columns` types `{name}`, which is not a column"
            hint = suggest(name, names) or f"columns: {listing(names)}"
            raise DataError("E206", message, where=Place(file=file, field=name), hint=hint)


def check_sizes(column: pl.Series, lines: Sequence[int] | pl.Series, errors: RowErrors) -> None:
    """Remember the cells of a text column that are too long."""
    if column.dtype != pl.String:
        return
    sizes = column.alias("cell").str.len_bytes()  # Polars would take a name such as `*` for a pattern
    if sizes.max() is None or int(sizes.max()) <= MAX_CELL:  # type: ignore[arg-type]  # a number
        return
    for position in (sizes > MAX_CELL).arg_true():
        where = Place(file=errors.file, line=int(lines[position]), field=column.name)
        errors.add("E202", f"the cell has more than {MAX_CELL} bytes", where=where)


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
class SpillFolder:
    """Chunks kept as files in a folder of their own until all have been read."""

    folder: Path

    def __setitem__(self, number: int, frame: pl.DataFrame) -> None:
        frame.write_parquet(self.folder / f"{number:06d}.parquet", compression="lz4", statistics=False)

    def __getitem__(self, number: int) -> pl.DataFrame:
        return pl.read_parquet(self.folder / f"{number:06d}.parquet", glob=False)

    def unpack(self, content: Content) -> Content:
        """Return a content that lies decompressed in a file; a compressed one is expanded into the folder."""
        if not content.is_packed:
            return content
        path = self.folder / "expanded"
        with content.open() as stream, path.open("wb") as out:
            shutil.copyfileobj(stream, out, 2**20)
        return replace(content, path=path)


@dataclass(frozen=True)
class BuiltTable:
    """What is known of a table when all of its chunks have been read; `size` is in bytes."""

    rows: int
    size: int
    encoded: frozenset[str]
    #: The line of the first row, when each row is on the line after the one before it.
    first_line: int | None
    notices: tuple[Notice, ...]
    #: How many rows each of several files has.
    spans: tuple[int, ...] = ()


class TableBuilder:
    """Takes the chunks of one file in their order; `kinds` says how text cells are typed.

    Chunks are kept in `chunks` by their numbers: in memory, or as files.
    """

    def __init__(self, content: Content, kinds: Kinds, chunks: dict[int, pl.DataFrame] | SpillFolder) -> None:
        self.content = content
        self._kinds = kinds
        self._chunks = chunks
        self._shapes: dict[str, Shape] = {}
        self._own: list[Mapping[str, Shape]] = []
        self._rows = 0
        self._bytes = 0
        self._first: int | None = None
        self._is_regular = True
        self._huge = RowErrors(content.file)
        self._unfit = {name: RowErrors(content.file) for name in kinds}

    def add(self, columns: Mapping[str, Sequence[object] | pl.Series], lines: Sequence[int]) -> None:
        """Take some rows: cells by column, and the line on which each row starts.

        A column that is a series has its type already.
        """
        if not lines:
            return
        self._first = lines[0] if self._first is None else self._first
        start = self._first + self._rows
        self._rows += len(lines)
        self._is_regular = self._is_regular and list(lines) == list(range(start, start + len(lines)))
        built = [pl.Series(LINE, lines, dtype=pl.Int64)]
        own: dict[str, Shape] = {}
        for name, cells in columns.items():
            series, own[name] = self._build(name, cells, lines)
            built.append(series)
            self._shapes[name] = merge_shapes(self._shapes.get(name, pl.Null()), own[name])
        frame = pl.DataFrame(built)
        self._bytes += int(frame.estimated_size())
        self._chunks[len(self._own)] = frame
        self._own.append(own)

    def _build(
        self, name: str, cells: Sequence[object] | pl.Series, lines: Sequence[int]
    ) -> tuple[pl.Series, Shape]:
        """Return a column of a chunk, and its shape."""
        if name in self._kinds:
            cells = list(cells)
            texts = [one if isinstance(one, str) else None for one in cells]
            check_sizes(pl.Series(name, texts, dtype=pl.String), lines, self._huge)
            where = Place(file=self.content.file, field=name)
            cells = type_cells(cells, self._kinds[name], where, lines, self._unfit[name])
        shape = cells.dtype if isinstance(cells, pl.Series) else find_shape(cells)
        series = cells if isinstance(cells, pl.Series) else fill_column(name, cells, choose_type(shape))
        if name not in self._kinds:
            check_sizes(series, lines, self._huge)
        return series, shape

    def finish(self, notices: tuple[Notice, ...]) -> BuiltTable:
        """Return what all chunks have in common, having stored anew those that differ."""
        if not self._rows:
            raise DataError("E210", "the file has no rows", where=self.content.place())
        self._huge.raise_any()
        _require_columns(self._kinds, list(self._shapes), self.content.file)
        unfit = RowErrors(self.content.file)
        for one in self._unfit.values():
            unfit.extend(one)
        unfit.raise_any()
        types = {name: choose_type(shape) for name, shape in self._shapes.items()}
        for number, own in enumerate(self._own):
            own_types = {name: choose_type(shape) for name, shape in own.items()}
            if list(own_types.items()) != list(types.items()):
                self._chunks[number] = _align(self._chunks[number], own_types, types)
        encoded = frozenset(name for name, dtype in types.items() if dtype is None)
        first = self._first if self._is_regular else None
        return BuiltTable(self._rows, self._bytes, encoded, first, notices)


def _align(
    frame: pl.DataFrame, own: Mapping[str, pl.DataType | None], types: Mapping[str, pl.DataType | None]
) -> pl.DataFrame:
    """Return a chunk with the columns and types that all chunks have in common."""
    columns = [frame[LINE]]
    for name, dtype in types.items():
        if name not in own:
            columns.append(pl.Series(name, [None] * frame.height, dtype=dtype or pl.String()))
        elif own[name] == dtype:
            columns.append(frame[name])
        else:  # values of one type, or nulls: a chunk that has none in common is JSON text, and so are all
            columns.append(fill_column(name, frame[name].to_list(), dtype))
    return pl.DataFrame(columns)


def join_chunks(chunks: Mapping[int, pl.DataFrame], built: BuiltTable) -> Columns:
    """Return the chunks that were kept in memory as one table."""
    whole = pl.concat([chunks[number] for number in sorted(chunks)], rechunk=True)
    return Columns(whole.drop(LINE), whole[LINE].alias("line"), built.encoded, built.notices)


@dataclass
class RowWriter(Generic[Row]):
    """Hands rows to a table in chunks, so that no file is held as Python objects as a whole.

    `arrange` makes columns of rows.
    """

    table: TableBuilder
    arrange: Callable[[list[Row]], Mapping[str, Sequence[object]]]
    rows: list[Row] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    characters: int = 0

    def add(self, row: Row, line: int, characters: int) -> None:
        """Take one row, the line it starts on, and how long it is."""
        self.rows.append(row)
        self.lines.append(line)
        self.characters += characters
        if len(self.rows) >= CHUNK_ROWS or self.characters >= CHUNK_CHARACTERS:
            self.flush()

    def flush(self) -> None:
        """Hand over the rows that are left."""
        self.table.add(self.arrange(self.rows) if self.rows else {}, self.lines)
        self.rows, self.lines, self.characters = [], [], 0
