"""Rows that lie somewhere, in memory or in a Parquet file, and are loaded part by part; their ids.

A part of them is itself such rows, small enough to be sent to where the work is done: it says where to read.
The id of a row is its cell in the column `sample_id` if there is one, else its number.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from answerkey.datasets.content import RowErrors
from answerkey.errors import Place
from answerkey.types import Samples

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
    """Rows in their order, with ids and lines; see `Samples` for `encoded` and `file`."""

    @property
    def columns(self) -> list[str]:
        """The column names."""

    @property
    def encoded(self) -> frozenset[str]:
        """The columns whose cells hold JSON text."""

    @property
    def file(self) -> str | None:
        """The name that errors give."""

    def __len__(self) -> int:
        """Return how many rows there are."""

    def slice(self, offset: int, length: int) -> Rows:
        """Return the rows from `offset` on, at most `length` of them; nothing is loaded."""

    def take(self, positions: Positions) -> Rows:
        """Return the rows at these positions, which ascend; nothing is loaded."""

    def load(self, columns: Collection[str] | None = None) -> Samples:
        """Return all rows, with all columns or with those named that there are."""

    def ids(self) -> pl.Series:
        """Return the ids of all rows."""


class SlicedRows:
    """Rows that are picked one by one where they do not follow each other."""

    def take(self: Rows, positions: Positions) -> Rows:
        """Return the rows at these positions."""
        if isinstance(positions, range):
            return self.slice(positions.start, len(positions))
        return PickedRows(self, positions)


@dataclass(frozen=True)
class HeldRows:
    """Rows in memory."""

    samples: Samples

    @property
    def columns(self) -> list[str]:
        """The column names."""
        return self.samples.columns

    @property
    def encoded(self) -> frozenset[str]:
        """The columns whose cells hold JSON text."""
        return self.samples.encoded

    @property
    def file(self) -> str | None:
        """The name that errors give."""
        return self.samples.file

    def __len__(self) -> int:
        return len(self.samples)

    def slice(self, offset: int, length: int) -> Rows:
        """Return the rows from `offset` on, at most `length` of them."""
        whole = offset == 0 and length >= len(self)
        return self if whole else HeldRows(self.samples.slice(offset, length))

    def take(self, positions: Positions) -> Rows:
        """Return the rows at these positions."""
        if isinstance(positions, range):
            return self.slice(positions.start, len(positions))
        return HeldRows(self.samples.take(positions))

    def load(self, columns: Collection[str] | None = None) -> Samples:
        """Return the rows, with all columns or with those named that there are."""
        names = choose_names(self.columns, columns)
        return self.samples if len(names) == len(self.columns) else self.samples.select(names)

    def ids(self) -> pl.Series:
        """Return the ids of all rows."""
        return self.samples.ids


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

    def slice(self, offset: int, length: int) -> Rows:
        """Return the rows from `offset` on, at most `length` of them."""
        return PickedRows(self.rows, self.positions.slice(offset, length))

    def take(self, positions: Positions) -> Rows:
        """Return the rows at these positions among the picked ones."""
        chosen = join_positions(self.positions, positions)
        return self.rows.take(chosen)

    def load(self, columns: Collection[str] | None = None) -> Samples:
        """Return the rows; of those between them, no more than a block is in memory at a time."""
        parts = [near.load(columns).take(places) for near, places in self._stretches()]
        return concat_samples(parts) if parts else self.rows.slice(0, 0).load(columns)

    def ids(self) -> pl.Series:
        """Return the ids of all rows."""
        parts = [near.ids().gather(places) for near, places in self._stretches()]
        return pl.concat(parts) if parts else self.rows.slice(0, 0).ids()

    def _stretches(self) -> Iterator[tuple[Rows, pl.Series]]:
        """Yield stretches of at most a block, each with the places of the picked rows in it."""
        left = self.positions
        while len(left):
            start = int(left[0])
            count = left.search_sorted(start + BLOCK_ROWS)
            near, left = left.head(count), left.slice(count)
            yield self.rows.slice(start, int(near[-1]) + 1 - start), near - start


def choose_names(known: Sequence[str], wanted: Collection[str] | None) -> list[str]:
    """Return the known columns that are wanted, in their order; the first where none is.

    A table without any column would not know how many rows it has.
    """
    if wanted is None:
        return list(known)
    return [name for name in known if name in wanted] or list(known[:1])


def concat_samples(parts: Sequence[Samples]) -> Samples:
    """Return parts of the same rows as one."""
    if len(parts) == 1:
        return parts[0]
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


def iterate_blocks(
    rows: Rows, columns: Collection[str] | None = None, *, size: int | None = None
) -> Iterator[tuple[int, Samples]]:
    """Yield the rows block by block, each with the position of its first row."""
    step = size or BLOCK_ROWS
    for offset in range(0, len(rows), step):
        yield offset, rows.slice(offset, step).load(columns)


def name_samples(frame: pl.DataFrame, lines: pl.Series, encoded: frozenset[str], file: str | None) -> Samples:
    """Return rows with their sample ids; null where the column has no suitable one."""
    if ID_COLUMN in frame.columns:
        ids = read_ids(frame[ID_COLUMN], is_encoded=ID_COLUMN in encoded)
    else:
        ids = number_rows(1, frame.height)
    return Samples(frame, ids, file, lines, encoded)


def number_rows(first: int, count: int) -> pl.Series:
    """Return row numbers from `first` on, zero-padded."""
    whole = 10**_ID_WIDTH
    if first < whole < first + count:  # some need zeros, some do not
        return pl.concat([number_rows(first, whole - first), number_rows(whole, first + count - whole)])
    start = first + whole if first < whole else first
    texts = pl.int_range(start, start + count, eager=True, dtype=pl.Int64).cast(pl.String)
    return (texts.str.slice(1) if first < whole else texts).alias(ID_COLUMN)


def read_ids(column: pl.Series, *, is_encoded: bool) -> pl.Series:
    """Return the ids of a column: text, or whole numbers as text; null for anything else."""
    if is_encoded:
        values = [None if text is None else json.loads(text) for text in column.to_list()]
        texts = [str(value) if type(value) in {str, int} else None for value in values]
        return pl.Series(ID_COLUMN, texts, dtype=pl.String)
    if column.dtype in {pl.String, pl.Int64}:
        return column.cast(pl.String).alias(ID_COLUMN)
    return pl.Series(ID_COLUMN, [None] * len(column), dtype=pl.String)


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
        "id",
        "trial",
        "line",
        "file",
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
