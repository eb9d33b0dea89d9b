"""Rows that lie somewhere, in memory or in a Parquet file, and are loaded part by part; their ids.

A part of them is itself such rows, small enough to be sent to where the work is done: it says where to read.
The id of a row is its cell in the column `sample_id` if there is one, else its number.

Of a Parquet file only what is asked for is read; of one on shared storage only that is fetched.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from io import SEEK_END
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import polars as pl

from answerkey.datasets.columns import LINE, check_sizes, find_cast
from answerkey.datasets.content import FOREIGN, Content, RowErrors, find_cell_limit
from answerkey.datasets.storage import StoredObject, fetch_object, open_store
from answerkey.errors import DataError, Place
from answerkey.types import Samples, choose_names

ID_COLUMN = "sample_id"
TRIAL_COLUMN = "trial"
#: In which order the options stood when a sample was asked.
ORDER_COLUMN = "option_order"
_ID_WIDTH = 6
#: Positions in ascending order; a range where they follow each other.
Positions = range | pl.Series
#: How many rows are looked at together where all of them are looked at.
BLOCK_ROWS = 131_072


class Rows(Protocol):
    """Rows in their order, with ids and lines; `Samples` are such rows in memory, and say what they have."""

    @property
    def columns(self) -> list[str]:
        """The column names."""

    @property
    def encoded(self) -> frozenset[str]:
        """The columns whose cells hold JSON text."""

    @property
    def file(self) -> str | None:
        """The name that errors give."""

    @property
    def ids(self) -> pl.Series:
        """The ids of all rows, read anew each time unless the rows are in memory."""

    def __len__(self) -> int:
        """Return how many rows there are."""

    def slice(self, offset: int, length: int) -> Rows:
        """Return the rows from `offset` on, at most `length` of them; nothing is loaded."""

    def take(self, positions: Positions, /) -> Rows:
        """Return the rows at these positions, which ascend; nothing is loaded."""

    def load(self, columns: Collection[str] | None = None) -> Samples:
        """Return all rows, with all columns or with those named that there are."""


class SlicedRows:
    """Rows that are picked one by one where they do not follow each other."""

    def take(self: Rows, positions: Positions, /) -> Rows:
        """Return the rows at these positions."""
        if isinstance(positions, range):
            return self.slice(positions.start, len(positions))
        return PickedRows(self, positions)


@dataclass(frozen=True)
class RowsOver(SlicedRows):
    """Rows made of other rows, with their columns and their name."""

    rows: Rows

    @property
    def columns(self) -> list[str]:
        """The column names."""
        return self.rows.columns

    @property
    def encoded(self) -> frozenset[str]:
        """The columns whose cells hold JSON text."""
        return self.rows.encoded

    @property
    def file(self) -> str | None:
        """The name that errors give."""
        return self.rows.file


@dataclass(frozen=True)
class PickedRows(RowsOver):
    """Rows that do not follow each other, out of rows that are not in memory."""

    positions: pl.Series

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def ids(self) -> pl.Series:
        """The ids of all rows."""
        parts = [near.ids.gather(places) for near, places in self._stretches()]
        return pl.concat(parts) if parts else self.rows.slice(0, 0).ids

    def slice(self, offset: int, length: int) -> Rows:
        """Return the rows from `offset` on, at most `length` of them."""
        return PickedRows(self.rows, self.positions.slice(offset, length))

    def take(self, positions: Positions, /) -> Rows:
        """Return the rows at these positions among the picked ones."""
        return self.rows.take(join_positions(self.positions, positions))

    def load(self, columns: Collection[str] | None = None) -> Samples:
        """Return the rows; of those between them, no more than a block is in memory at a time."""
        parts = [near.load(columns).take(places) for near, places in self._stretches()]
        if len(parts) < 2:  # noqa: PLR2004 - nothing to join
            return parts[0] if parts else self.rows.slice(0, 0).load(columns)
        lines = [one.lines for one in parts if one.lines is not None]
        files = [one.files for one in parts if one.files is not None]
        return Samples(
            pl.concat([one.frame for one in parts]),
            pl.concat([one.ids for one in parts]),
            parts[0].file,
            pl.concat(lines) if lines else None,
            parts[0].encoded,
            files=pl.concat(files) if files else None,
        )

    def _stretches(self) -> Iterator[tuple[Rows, pl.Series]]:
        """Yield stretches of at most a block, each with the places of the picked rows in it."""
        left = self.positions
        while len(left):
            start = int(left[0])
            count = left.search_sorted(start + BLOCK_ROWS)
            near, left = left.head(count), left.slice(count)
            yield self.rows.slice(start, int(near[-1]) + 1 - start), near - start


@dataclass(frozen=True)
class StoredRows(SlicedRows):
    """Some consecutive rows of a Parquet file.

    `schema` holds the types as samples have them, `casts` those that the file has otherwise. Each row is on
    the line after the one before it, the first row of the file on `first_line`; without that the lines are a
    column. A file that has not the `stamp` any more has changed while it was in use. Of an object on shared
    storage, which is at no `path` of this machine, what is read is fetched.
    """

    path: Path
    schema: Mapping[str, pl.DataType]
    offset: int
    length: int
    file: str | None
    encoded: frozenset[str] = frozenset()
    casts: frozenset[str] = frozenset()
    first_line: int | None = 1
    stamp: tuple[int, int] | None = None
    stored: StoredObject | None = None

    @property
    def columns(self) -> list[str]:
        """The column names."""
        return list(self.schema)

    def __len__(self) -> int:
        return self.length

    @property
    def ids(self) -> pl.Series:
        """The ids of all rows; generated ones are not read from anywhere."""
        generated = ID_COLUMN not in self.schema
        return number_rows(self.offset + 1, self.length) if generated else self.load([ID_COLUMN]).ids

    def slice(self, offset: int, length: int) -> Rows:
        """Return the rows from `offset` on, at most `length` of them."""
        length = max(0, min(length, self.length - offset))
        return replace(self, offset=self.offset + offset, length=length)

    def load(self, columns: Collection[str] | None = None) -> Samples:
        """Return the rows, with all columns or with those named that there are."""
        names = choose_names(self.columns, columns)
        with_id = [*names, ID_COLUMN] if ID_COLUMN in self.schema and ID_COLUMN not in names else names
        frame = self._read(with_id if self.first_line is not None else [*with_id, LINE])
        if self.first_line is None:
            lines = frame[LINE].alias("line")
        else:
            first = self.first_line + self.offset
            lines = pl.int_range(first, first + self.length, eager=True, dtype=pl.Int64).alias("line")
        errors, most = RowErrors(self.file), find_cell_limit()
        for series in frame.iter_columns():
            check_sizes(series, lines, errors, most)
        errors.raise_any()
        found = name_samples(frame, lines, self.encoded, self.file, first=self.offset + 1)
        chosen = frame.select(pl.selectors.by_name(*names))
        return replace(found, frame=chosen, encoded=self.encoded.intersection(names))

    def _read(self, names: list[str]) -> pl.DataFrame:
        if not self.length:
            return pl.DataFrame(schema={name: self.schema.get(name, pl.Int64()) for name in names})
        stamp = None if self.stored else _read_stamp(self.path)
        if self.stamp is not None and stamp != self.stamp:
            raise self._refuse_change()
        groups, large = ((), frozenset[str]()) if self.stored else _find_groups(self.path, stamp)
        rows = range(self.offset, self.offset + self.length)
        found, others = [], [name for name in names if name not in large]
        try:
            if len(others) < len(names):
                wide = [name for name in names if name in large]
                found.append(_read_large(self.path, stamp, wide, rows, groups))
            if others:
                with scan_stored(self.stored) if self.stored else nullcontext(_scan(self.path)) as scan:
                    found.append(_collect(scan, others, rows))
        except FOREIGN as error:
            raise Content(str(self.file), self.path).refuse_damage("Parquet", error) from None
        if any(frame.height != self.length for frame in found):
            raise self._refuse_change()
        columns = {series.name: series for frame in found for series in frame.iter_columns()}
        frame = pl.DataFrame([columns[name] for name in names])
        changed = [frame[name].cast(self.schema[name]) for name in names if name in self.casts]
        return frame.with_columns(changed) if changed else frame

    def _refuse_change(self) -> DataError:
        message = "the file has changed while it was being read"
        return DataError("E201", message, where=Place(file=self.file), hint="start again when it is complete")


def _read_stamp(path: Path) -> tuple[int, int] | None:
    """Return what changes when a file does; None when it is not there."""
    with suppress(OSError):
        found = path.stat()
        return found.st_size, found.st_mtime_ns
    return None


def _scan(path: Path | str, **options: Any) -> pl.LazyFrame:  # noqa: ANN401 - those of Polars
    return pl.scan_parquet(path, glob=False, use_statistics=False, cache=False, **options)


def _collect(scan: pl.LazyFrame, names: Collection[str], rows: range) -> pl.DataFrame:
    return scan.slice(rows.start, len(rows)).select(pl.selectors.by_name(*names)).collect()


#: All of a dictionary is decoded to read any of the rows; most writers end it at 1 MiB, Polars does not.
LARGE_DICTIONARY = 16 * 2**20
#: Where the footer is longer, the row groups are many, and small.
_LONGEST_FOOTER = 2**20
_FOOTER_END, _PAGE_HEADER = 8, 64
_DICTIONARY = 11
#: The row group that was decoded last, by its file, columns and rows, until its last part is read.
_decoded: dict[object, pl.DataFrame] = {}
_decoding = Lock()


def _read_large(
    path: Path, stamp: object, names: Sequence[str], rows: range, groups: Sequence[range]
) -> pl.DataFrame:
    """Return rows of columns with large dictionaries; a row group is decoded once for all parts of it.

    The parts are mostly asked for one after the other.
    """
    parts = []
    for group in groups:
        wanted = range(max(group.start, rows.start), min(group.stop, rows.stop))
        if wanted == group:
            parts.append(_collect(_scan(path), names, group))
        elif wanted:
            key = path, stamp, *names, group
            with _decoding:
                if key not in _decoded:
                    _decoded.clear()  # before there is another one in memory
                    _decoded[key] = _collect(_scan(path), names, group)
                whole = _decoded[key]
                if wanted.stop == group.stop:  # the last part: nothing stays in a program that goes on
                    _decoded.clear()
            parts.append(whole.slice(wanted.start - group.start, len(wanted)))
    return pl.concat(parts)


@lru_cache(maxsize=64)
def _find_groups(path: Path, stamp: object) -> tuple[Sequence[range], frozenset[str]]:  # noqa: ARG001 - a part of the key
    """Return the rows of each row group, and the columns with large dictionaries; none where that is unclear.

    What is wrong with a file, Polars says. The numbers are those of the fields in `parquet.thrift`.
    """
    groups, large = list[range](), set[str]()
    try:
        with path.open("rb") as stream:
            end = stream.seek(-_FOOTER_END, SEEK_END)
            size = int.from_bytes(stream.read(4), "little")
            stream.seek(max(0, end - size))
            for group in read_thrift(stream.read(size))[4] if size <= _LONGEST_FOOTER else ():
                start = groups[-1].stop if groups else 0
                groups.append(range(start, start + group[3]))
                for about in (column[3] for column in group[1]):
                    if _DICTIONARY in about:
                        stream.seek(about[_DICTIONARY])
                        if read_thrift(stream.read(_PAGE_HEADER))[2] > LARGE_DICTIONARY:
                            large.add(str(about[3][0], "utf-8"))
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, StopIteration, RecursionError):
        return (), frozenset()
    return groups, frozenset(large)


def read_thrift(data: bytes) -> dict[int, Any]:
    """Return a struct of Thrift's compact protocol, its fields by number.

    StopIteration when it is cut off, ValueError when it is none.
    """
    left = iter(data)

    def read_number() -> int:
        number, shift, byte = 0, 0, 0x80
        while byte & 0x80 and shift < 64:  # noqa: PLR2004 - bits
            byte = next(left)
            number |= (byte & 0x7F) << shift
            shift += 7
        return number

    def read(kind: int) -> Any:  # noqa: ANN401 - whatever the kind is
        match kind:
            case 1 | 2:
                return kind == 1
            case 3:
                return next(left)
            case 4 | 5 | 6:
                number = read_number()
                return number >> 1 ^ -(number & 1)
            case 8:
                return bytes(islice(left, read_number()))
            case 9 if (head := next(left)) & 15 not in {1, 2}:  # which take no room, however many there are
                return [read(head & 15) for _ in range(head >> 4 if head < 0xF0 else read_number())]  # noqa: PLR2004 - in a byte
            case 12:
                fields, field = dict[int, Any](), 0
                while head := next(left):
                    field = field + (head >> 4) if head >> 4 else read(4)
                    fields[field] = read(head & 15)
                return fields
        raise ValueError(f"type {kind} is not in a footer")

    found: dict[int, Any] = read(12)
    return found


@contextmanager
def scan_stored(stored: StoredObject) -> Iterator[pl.LazyFrame]:
    """Yield the rows of a Parquet object; what is collected of them is fetched.

    DataError E214 when the object cannot be had, or is another one before or after that. Where Polars cannot
    be told how to reach the store, the object is fetched whole.
    """
    store, path = open_store(stored.url)
    options = store.find_scan_options(path)
    stored.require_unchanged()
    try:
        if options is None:
            yield _scan(_fetch_whole(stored))
        else:
            yield _scan(stored.url, storage_options=options, credential_provider=None)
    except (OSError, pl.exceptions.PolarsError) as error:
        stored.require_unchanged()
        if isinstance(error, OSError):
            raise store.refuse(path, error) from None
        raise
    stored.require_unchanged()


@lru_cache(maxsize=64)
def _fetch_whole(stored: StoredObject) -> Path:
    """Return the file that an object was fetched into; looked for once, since its hash is compared."""
    return fetch_object(stored, ".parquet").path


def open_parquet(content: Content, stored: StoredObject | None = None) -> StoredRows | None:
    """Return the rows of a Parquet file, or object; None when some columns need a look at every value.

    Only its end is read.
    """
    stamp = None if stored else _read_stamp(content.path)
    if not (stored.size if stored else content.head):
        raise content.error("E210", "the file is empty")
    opened: AbstractContextManager[pl.LazyFrame] = nullcontext(_scan(content.path))
    try:
        with scan_stored(stored) if stored else opened as scan:
            schema = scan.collect_schema()
            length = int(scan.select(pl.len()).collect().item())
    except FOREIGN as error:
        raise content.refuse_damage("Parquet", error) from None
    found = {name: find_cast(dtype) for name, dtype in schema.items()}
    types = {name: dtype for name, dtype in found.items() if dtype is not None}
    if len(types) < len(found):
        return None
    casts = frozenset(name for name, dtype in types.items() if dtype != schema[name])
    # A file is read by whoever works on it, wherever that is.
    path = content.path if stored else content.path.absolute()
    return StoredRows(path, types, 0, length, content.file, casts=casts, stamp=stamp, stored=stored)


def join_positions(outer: Positions, inner: Positions) -> Positions:
    """Return where rows stand that are chosen out of chosen ones."""
    if isinstance(outer, range):
        if isinstance(inner, range):
            return outer[inner.start : inner.stop]
        return inner + outer.start if outer.start else inner
    return outer.slice(inner.start, len(inner)) if isinstance(inner, range) else outer.gather(inner)


def locate_positions(outer: Positions, inner: Positions) -> Positions:
    """Return where rows stand among chosen ones, of which they are a part; the reverse of joining."""
    if isinstance(outer, range):
        if isinstance(inner, range):
            return range(inner.start - outer.start, inner.stop - outer.start)
        return inner - outer.start if outer.start else inner
    wanted = pl.Series(inner, dtype=outer.dtype)
    return outer.search_sorted(wanted)


def split_name(name: str, known: Iterable[str]) -> list[tuple[str, str]]:
    """Return the known names that begin the dotted name, longest first, each with what is left."""
    prefixes = [prefix for prefix in known if name.startswith(f"{prefix}.")]
    return [(prefix, name[len(prefix) + 1 :]) for prefix in sorted(prefixes, key=len, reverse=True)]


def find_inside(series: pl.Series, name: str) -> pl.Series | None:
    """Return what a dotted name reaches inside structs; None where there is no such field."""
    if not isinstance(series.dtype, pl.Struct):
        return None
    names = [one.name for one in series.dtype.fields]
    if name in names:
        return series.struct.field(name)
    inner = (find_inside(series.struct.field(prefix), rest) for prefix, rest in split_name(name, names))
    return next((one for one in inner if one is not None), None)


def get_inside(value: object, name: str, otherwise: object = None) -> object:
    """Return what a dotted name reaches inside a value, by the longest names first."""
    if not isinstance(value, Mapping):
        return otherwise
    if name in value:
        return value[name]
    inner = (get_inside(value[prefix], rest, otherwise) for prefix, rest in split_name(name, value))
    return next((one for one in inner if one is not otherwise), otherwise)


def read_cells(samples: Samples, column: str, inside: str = "") -> pl.Series | list[object]:
    """Return the cells of a column, or what a dotted name reaches in them; null where there is nothing."""
    if column in samples.encoded:
        values = samples.values(column)
        return [get_inside(value, inside) for value in values] if inside else values
    found = samples.frame[column]
    if inside:
        reached = find_inside(found, inside)
        return [None] * len(samples) if reached is None else reached
    return found


def iterate_blocks(
    rows: Rows, columns: Collection[str] | None = None, *, size: int | None = None
) -> Iterator[tuple[int, Samples]]:
    """Yield the rows block by block, each with the position of its first row."""
    step = size or BLOCK_ROWS
    for offset in range(0, len(rows), step):
        yield offset, rows.slice(offset, step).load(columns)


def name_samples(
    frame: pl.DataFrame, lines: pl.Series, encoded: frozenset[str], file: str | None, *, first: int = 1
) -> Samples:
    """Return rows with their sample ids: text, or whole numbers as text; null where a cell is neither.

    Without such a column they are numbered from `first` on.
    """
    if ID_COLUMN not in frame.columns:
        return Samples(frame, number_rows(first, len(lines)), file, lines, encoded)
    column = frame[ID_COLUMN]
    if ID_COLUMN not in encoded and column.dtype in {pl.String, pl.Int64}:
        return Samples(frame, column.cast(pl.String), file, lines, encoded)
    values = [json.loads(text) if ID_COLUMN in encoded and text else None for text in column.to_list()]
    texts = [str(value) if type(value) in {str, int} else None for value in values]
    return Samples(frame, pl.Series(ID_COLUMN, texts, dtype=pl.String), file, lines, encoded)


def number_rows(first: int, count: int) -> pl.Series:
    """Return row numbers from `first` on, zero-padded."""
    whole = 10**_ID_WIDTH
    if first < whole < first + count:  # some need zeros, some do not
        return pl.concat([number_rows(first, whole - first), number_rows(whole, first + count - whole)])
    start = first + whole if first < whole else first
    texts = pl.int_range(start, start + count, eager=True, dtype=pl.Int64).cast(pl.String)
    return (texts.str.slice(1) if first < whole else texts).alias(ID_COLUMN)


def check_ids(rows: Rows, *, by_trial: bool = False) -> None:
    """Raise E208 for ids that are empty, unsuitable or used twice.

    With `by_trial`, rows of one sample may differ in the columns `trial` and `option_order` instead. Of each
    row only a hash of its id is kept; where two are the same the ids themselves are compared.
    """
    if ID_COLUMN not in rows.columns:
        return
    marks = [name for name in (TRIAL_COLUMN, ORDER_COLUMN) if by_trial and name in rows.columns]
    bad, hashes = RowErrors(rows.file), list[pl.Series]()
    for _, block in iterate_blocks(rows, [ID_COLUMN, *marks]):
        ids = block.ids
        for position in (ids.is_null() | (ids == "")).arg_true():
            value, place = block.frame[ID_COLUMN][position], block.place(position)
            is_empty = value is None or ids[position] is not None
            message = f"sample id {value} is not text or a whole number"
            _add_id(bad, "the sample id is empty" if is_empty else message, place.file, place.line)
        hashes.append(_hash_ids(block, marks)["hash"].drop_nulls())
    ordered = pl.concat(hashes).sort()
    again = ordered.filter(ordered == ordered.shift()).unique()
    if not again.is_empty():
        bad.extend(_find_duplicates(rows, marks, again))
    bad.raise_any()


def _hash_ids(block: Samples, marks: Sequence[str]) -> pl.DataFrame:
    """Return ids, trials, lines, files, and a hash of each id with its trial; null for one that is empty."""
    told = zip(*(map(str, block.values(name)) for name in marks), strict=True)
    trials = pl.Series([" ".join(one) for one in told], dtype=pl.String)
    table = pl.select(
        block.ids.alias("id"),
        trials.alias("trial") if marks else pl.lit("").alias("trial"),
        pl.lit(None, pl.Int64).alias("line") if block.lines is None else block.lines.alias("line"),
        pl.lit(block.file, pl.String).alias("file") if block.files is None else block.files.alias("file"),
    )
    hashes = table.select("id", "trial").hash_rows() if marks else table["id"].hash()
    return table.with_columns(pl.when(pl.col("id") != "").then(hashes).alias("hash"))


def _find_duplicates(rows: Rows, marks: Sequence[str], hashes: pl.Series) -> RowErrors:
    """Return what is said of the ids with these hashes that are the same, each at its second use and on."""
    blocks = (_hash_ids(block, marks) for _, block in iterate_blocks(rows, [ID_COLUMN, *marks]))
    found = [block.filter(pl.col("hash").is_in(hashes.implode()).fill_null(value=False)) for block in blocks]
    both = ["id", "trial"]
    table = pl.concat(found).select(
        *("id", "trial", "line", "file"),
        pl.col("line").first().over(both).alias("first"),
        pl.col("file").first().over(both).alias("first file"),
        pl.int_range(pl.len()).over(both).alias("number"),
    )
    errors = RowErrors(rows.file)
    again = table.filter(pl.col("number") > 0).drop("number")
    for name, trial, line, file, first, first_file in again.iter_rows():
        what = f"trial {trial} of sample id `{name}`" if marks else f"sample id `{name}`"
        there = f"on line {first}" if first_file == file else f"in `{first_file}` on line {first}"
        _add_id(errors, f"{what} is used twice, first {there}", file, line)
    return errors


def _add_id(errors: RowErrors, message: str, file: str | None, line: int | None) -> None:
    hint = f"give every row its own id, or remove the column `{ID_COLUMN}` to number the rows"
    errors.add("E208", message, where=Place(file=file, line=line, field=ID_COLUMN), hint=hint)
