"""Rows in memory, or in a file of JSON Lines that is read part by part.

A part of them is itself such rows: it says where to read. The id of a row is its cell in the column
`sample_id` if there is one, else its number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from answerkey.datasets.content import RowErrors, refuse_file
from answerkey.errors import DataError, Place
from answerkey.types import Row, Sample, Samples

ID_COLUMN = "sample_id"
TRIAL_COLUMN = "trial"
#: In which order the options stood when a sample was asked.
ORDER_COLUMN = "option_order"
#: How many rows are in memory together where all of them are looked at.
BLOCK_ROWS = 32_768
#: Where every so many rows begin in a file of JSON Lines is kept, so that reading can start there.
MARK_ROWS = 4_096
#: The key under which a temporary file keeps line and file of a row; no column has an empty name.
PLACE_KEY = ""
ID_WIDTH = 6
#: Positions in ascending order; a range where they follow each other.
Positions = range | pl.Series
#: Size and time of a file, which change when the file does.
Stamp = tuple[int, int]

_decode_line = json.JSONDecoder().decode


class Rows(Protocol):
    """Rows in their order, with ids and places. `Samples` are such rows in memory."""

    @property
    def columns(self) -> Sequence[str]:
        """The column names."""

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
        """Return all rows, with all columns or at least with these."""


class StoredRows:
    """Rows that are not in memory: their ids, how parts of them are taken, and how they travel."""

    @property
    def ids(self: Rows) -> pl.Series:
        """The ids of all rows."""
        parts = [pl.Series(ID_COLUMN, [], dtype=pl.String)]
        for _, block in iterate_blocks(self):
            parts.append(block.ids)
        return pl.concat(parts)

    def reduce_by_value(self: Rows) -> tuple[Callable[..., Samples], tuple[object, ...]]:
        """Return a pickle of the rows themselves, for a machine that may not have the file."""
        return self.load().__reduce__()

    def take(self: Rows, positions: Positions, /) -> Rows:
        """Return the rows at these positions."""
        if isinstance(positions, range):
            return self.slice(positions.start, len(positions))
        return PickedRows(self, positions)


@dataclass(frozen=True)
class RowsOver(StoredRows):
    """Rows made of other rows, with their columns and their name."""

    rows: Rows

    @property
    def columns(self) -> Sequence[str]:
        """The column names."""
        return self.rows.columns

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

    def take(self, positions: Positions, /) -> Rows:
        """Return the rows at these positions among the picked ones."""
        return self.rows.take(join_positions(self.positions, positions))

    def load(self, columns: Collection[str] | None = None) -> Samples:
        """Return the rows; of those between them, no more than a block is in memory at a time."""
        loaded = self.rows.slice(0, 0).load(columns)
        items: list[Sample] = []
        for stretch, places in self._stretches():
            loaded = stretch.load(columns).take(places)
            items += loaded.items
        return replace(loaded, items=items)

    def _stretches(self) -> Iterator[tuple[Rows, pl.Series]]:
        """Yield stretches of at most a block, each with the places of the picked rows in it."""
        remaining = self.positions
        while len(remaining):
            start = int(remaining[0])
            count = remaining.search_sorted(start + BLOCK_ROWS)
            near = remaining.head(count)
            remaining = remaining.slice(count)
            length = int(near[-1]) + 1 - start
            yield self.rows.slice(start, length), near - start


@dataclass(frozen=True)
class LineRows(StoredRows):
    """Some consecutive rows of a file of JSON Lines: the user's own, or a temporary one of ours.

    Every `MARK_ROWS`-th row of the file begins at the byte and on the line that `marks` and
    `mark_lines` hold. A temporary file keeps the place of each row under `PLACE_KEY`.
    """

    path: Path
    columns: Sequence[str]
    marks: Sequence[int]
    mark_lines: Sequence[int]
    offset: int
    length: int
    files: Sequence[str]
    stamp: Stamp | None

    @property
    def file(self) -> str | None:
        """The name that errors give."""
        return self.files[0]

    def __len__(self) -> int:
        return self.length

    @property
    def ids(self) -> pl.Series:
        """The ids of all rows; generated ones are not read from anywhere."""
        if ID_COLUMN not in self.columns:
            return number_rows(self.offset + 1, self.length)
        return super().ids

    def slice(self, offset: int, length: int) -> Rows:
        """Return the rows from `offset` on, at most `length` of them."""
        length = max(0, min(length, self.length - offset))
        return replace(self, offset=self.offset + offset, length=length)

    def load(self, columns: Collection[str] | None = None) -> Samples:  # noqa: ARG002 - a line is read whole
        """Return the rows, with all columns."""
        if read_stamp(self.path) != self.stamp:
            raise refuse_change(self.file)
        try:
            items = self._read_items()
        except (OSError, ValueError, IndexError):
            raise refuse_change(self.file) from None
        if len(items) != self.length:
            raise refuse_change(self.file)
        return Samples(items, self.columns, self.file)

    def _read_items(self) -> list[Sample]:
        items: list[Sample] = []
        if not self.length:
            return items
        mark = self.offset // MARK_ROWS
        number = mark * MARK_ROWS
        line = self.mark_lines[mark] - 1
        with self.path.open("rb") as stream:
            stream.seek(self.marks[mark])
            for raw in stream:
                line += 1
                if raw.isspace():
                    continue
                number += 1
                if number <= self.offset:
                    continue
                items.append(self._build_sample(_decode_line(raw.decode()), number, line))
                if len(items) == self.length:
                    break
        return items

    def _build_sample(self, fields: dict[str, object], number: int, line: int) -> Sample:
        file = self.file
        place: Any = fields.pop(PLACE_KEY, None)
        if place is not None:
            line, file_index = place
            file = self.files[file_index]
        row = complete_fields(fields, self.columns)
        return Sample(name_row(row, number), row, file, line)


def complete_fields(fields: Mapping[str, object], columns: Sequence[str]) -> Row:
    """Return a row that has every column; a key that the row lacks is null."""
    if len(fields) == len(columns):
        return Row(fields)
    return Row((name, fields.get(name)) for name in columns)


def name_row(fields: Mapping[str, object], number: int) -> str:
    """Return the id of a row: its cell, or its number; "" for a cell that cannot be an id."""
    if ID_COLUMN not in fields:
        return f"{number:0{ID_WIDTH}d}"
    cell = fields[ID_COLUMN]
    return str(cell) if type(cell) in {str, int} else ""


def read_stamp(path: Path) -> Stamp | None:
    """Return what changes when a file does; None when it is not there."""
    with suppress(OSError):
        status = path.stat()
        return status.st_size, status.st_mtime_ns
    return None


def refuse_change(file: str | None) -> DataError:
    """Return the error about a file that is not any more what it was when it was opened."""
    message = "the file has changed while it was being read"
    hint = "start again when it is complete"
    return refuse_file("E201", message, file, hint)


def join_positions(outer: Positions, inner: Positions) -> Positions:
    """Return where rows stand that are chosen out of chosen ones."""
    if isinstance(outer, range):
        if isinstance(inner, range):
            return outer[inner.start : inner.stop]
        return inner + outer.start
    if isinstance(inner, range):
        return outer.slice(inner.start, len(inner))
    return outer.gather(inner)


def locate_positions(outer: Positions, inner: Positions) -> Positions:
    """Return where rows stand among chosen ones, of which they are a part."""
    if isinstance(outer, range):
        if isinstance(inner, range):
            return range(inner.start - outer.start, inner.stop - outer.start)
        return inner - outer.start
    return outer.search_sorted(pl.Series(inner, dtype=outer.dtype))


def split_name(name: str, prefixes: Iterable[str]) -> list[tuple[str, str]]:
    """Return the prefixes that begin a dotted name, longest first, each with what follows it."""
    matching = [prefix for prefix in prefixes if name.startswith(f"{prefix}.")]
    matching.sort(key=len, reverse=True)
    return [(prefix, name[len(prefix) + 1 :]) for prefix in matching]


def get_inside(value: object, name: str, default: object = None) -> object:
    """Return what a dotted name reaches inside a value, by the longest names first."""
    if not isinstance(value, Mapping):
        return default
    if name in value:
        return value[name]
    for prefix, inner_name in split_name(name, value):
        inner = get_inside(value[prefix], inner_name, default)
        if inner is not default:
            return inner
    return default


def iterate_blocks(
    rows: Rows,
    columns: Collection[str] | None = None,
    *,
    size: int | None = None,
) -> Iterator[tuple[int, Samples]]:
    """Yield the rows block by block, each with the position of its first row."""
    step = size or BLOCK_ROWS
    for offset in range(0, len(rows), step):
        yield offset, rows.slice(offset, step).load(columns)


def iterate_samples(rows: Rows) -> Iterator[Sample]:
    """Yield the rows one by one; a block of them is in memory."""
    for _, block in iterate_blocks(rows):
        yield from block


def number_rows(first: int, count: int) -> pl.Series:
    """Return row numbers from `first` on, zero-padded."""
    numbers = pl.int_range(first, first + count, eager=True, dtype=pl.Int64)
    return numbers.cast(pl.String).str.zfill(ID_WIDTH).alias(ID_COLUMN)


def check_ids(rows: Rows, *, by_trial: bool = False) -> None:
    """Raise E208 for ids that are empty, unsuitable or used twice.

    With `by_trial`, rows of one sample may differ in the columns `trial` and `option_order`. Only a
    hash of each id is kept in memory; rows with equal hashes are read again and compared.
    """
    if ID_COLUMN not in rows.columns:
        return
    marks: list[str] = []
    if by_trial:
        marks = [name for name in (TRIAL_COLUMN, ORDER_COLUMN) if name in rows.columns]
    errors = RowErrors(rows.file)
    hashes: list[pl.Series] = []
    for _, block in iterate_blocks(rows):
        for sample in block:
            if not sample.id:
                _add_id_error(errors, sample, _describe_bad_id(sample))
        keys = [_write_key(sample, marks) for sample in block]
        hashes.append(pl.Series(keys, dtype=pl.String).hash())
    repeated = pl.concat(hashes).is_duplicated().arg_true()
    first_uses: dict[str, Sample] = {}
    for _, block in iterate_blocks(rows.take(repeated)):
        for sample in block:
            first = first_uses.setdefault(_write_key(sample, marks), sample)
            if sample.id and first is not sample:
                _add_id_error(errors, sample, _describe_duplicate(sample, first, marks))
    errors.raise_any()


def _write_key(sample: Sample, marks: Sequence[str]) -> str:
    """Return what tells a row from all others: its id, and its trial and order if it has any."""
    parts = [str(sample.fields[name]) for name in marks]
    return "\0".join([sample.id, *parts])


def _describe_bad_id(sample: Sample) -> str:
    cell = sample.fields[ID_COLUMN]
    if cell in (None, ""):
        return "the sample id is empty"
    return f"sample id {json.dumps(cell, ensure_ascii=False)} is not text or a whole number"


def _describe_duplicate(sample: Sample, first: Sample, marks: Sequence[str]) -> str:
    subject = f"sample id `{sample.id}`"
    if marks:
        trial = " ".join(str(sample.fields[name]) for name in marks)
        subject = f"trial {trial} of {subject}"
    place = f"on line {first.line}"
    if first.file != sample.file:
        place = f"in `{first.file}` {place}"
    return f"{subject} is used twice, first {place}"


def _add_id_error(errors: RowErrors, sample: Sample, message: str) -> None:
    where = Place(file=sample.file, line=sample.line, field=ID_COLUMN)
    hint = f"give every row its own id, or remove the column `{ID_COLUMN}` to number the rows"
    errors.add("E208", message, where=where, hint=hint)
