"""Rows in memory, or in a file of JSON Lines that is read part by part.

A part of them is itself such rows: it says where to read. The id of a row is its cell in the column
`sample_id` if there is one, else its number.
"""

from __future__ import annotations

import io
import json
import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Protocol

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
ID_WIDTH = 6
#: Positions of rows; a range where they follow each other.
Positions = range | pl.Series
#: A `dict` is known at once, any other `Mapping` after a search.
_OBJECTS = (dict, Mapping)
#: Size and time of a file, which change when the file does.
Stamp = tuple[int, int]

_decode_json = json.JSONDecoder().raw_decode


class Rows(Protocol):
    """Rows in their order, with ids and places. `Samples` are such rows in memory."""

    @property
    def columns(self) -> Sequence[str]:
        """The column names."""

    @property
    def file(self) -> str | None:
        """The name that errors give."""

    @property
    def text_columns(self) -> frozenset[str]:
        """Columns of which it is known that every cell is text or null."""

    @property
    def ids(self) -> pl.Series:
        """The ids of all rows, read anew each time unless the rows are in memory."""

    def __len__(self) -> int:
        """Return how many rows there are."""

    def slice(
        self,
        offset: int,
        length: int,
    ) -> Rows:
        """Return the rows from `offset` on, at most `length` of them; nothing is loaded."""

    def take(self, positions: Positions, /) -> Rows:
        """Return the rows at these positions; nothing is loaded."""

    def load(self) -> Samples:
        """Return all rows."""


@dataclass(frozen=True)
class RowsOver:
    """Rows made of other rows, with their columns and their name."""

    rows: Rows
    text_columns: ClassVar[frozenset[str]] = frozenset()

    @property
    def columns(self) -> Sequence[str]:
        """The column names."""
        return self.rows.columns

    @property
    def file(self) -> str | None:
        """The name that errors give."""
        return self.rows.file


@dataclass(frozen=True)
class LineRows:
    """Rows of a file of JSON Lines: the user's own, or a temporary copy of ours.

    `positions` says which rows of the table these are. `marks` says of each at which byte it
    begins, and on which line of which of the user's `files`, by their names in errors.
    """

    path: Path
    stamp: Stamp | None
    columns: Sequence[str]
    files: Sequence[str]
    marks: pl.DataFrame
    positions: Positions
    text_columns: frozenset[str] = frozenset()

    @property
    def file(self) -> str | None:
        """The name that errors give."""
        return self.files[0]

    @property
    def ids(self) -> pl.Series:
        """The ids of all rows; generated ones are not read from anywhere."""
        if ID_COLUMN not in self.columns:
            numbers = pl.Series(ID_COLUMN, self.positions, dtype=pl.Int64) + 1
            return numbers.cast(pl.String).str.zfill(ID_WIDTH)
        parts = [pl.Series(ID_COLUMN, [], dtype=pl.String)]
        for _, block in iterate_blocks(self):
            parts.append(block.ids)
        return pl.concat(parts)

    def __len__(self) -> int:
        return len(self.positions)

    def slice(self, offset: int, length: int) -> Rows:
        """Return the rows from `offset` on, at most `length` of them."""
        return self.take(range(offset, offset + length))

    def take(self, positions: Positions, /) -> Rows:
        """Return the rows at these positions."""
        return replace(
            self,
            marks=self.marks[positions],
            positions=join_positions(self.positions, positions),
        )

    def load(self) -> Samples:
        """Return the rows."""
        if read_stamp(self.path) != self.stamp:
            raise refuse_change(self.file)
        items = []
        marks = zip(self.positions, self.marks.rows(), strict=True)
        try:
            with self.path.open("rb") as stream:
                for position, (offset, line, file_index) in marks:
                    stream.seek(offset)
                    text = stream.readline().decode()
                    fields, _ = _decode_json(text.lstrip())
                    sample = build_sample(
                        fields,
                        self.columns,
                        number=position + 1,
                        file=self.files[file_index],
                        line=line,
                    )
                    items.append(sample)
        except (OSError, ValueError):
            raise refuse_change(self.file) from None
        return Samples(items, self.columns, self.file)


class _RowPickler(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:  # noqa: ANN401 - as the library has it
        if isinstance(value, LineRows):
            return value.load().__reduce__()
        return NotImplemented


def dump_with_rows(value: object) -> bytes:
    """Pickle a value with the rows themselves: another machine may not have their file."""
    buffer = io.BytesIO()
    _RowPickler(buffer).dump(value)
    return buffer.getvalue()


def build_sample(
    fields: Mapping[str, object],
    columns: Sequence[str],
    *,
    number: int,
    file: str,
    line: int,
) -> Sample:
    """Return a row with every column, where a key that it lacks is null, and its id.

    The id is its cell or its number, and "" for a cell that cannot be an id.
    """
    if len(fields) == len(columns):
        row = Row(fields)
    else:
        row = Row((name, fields.get(name)) for name in columns)
    if ID_COLUMN not in row:
        sample_id = str(number).zfill(ID_WIDTH)
    elif type(row[ID_COLUMN]) in {str, int}:
        sample_id = str(row[ID_COLUMN])
    else:
        sample_id = ""
    return Sample(sample_id, row, file, line)


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
    if isinstance(inner, range):
        return outer[inner.start : inner.stop]
    if isinstance(outer, range):
        return inner + outer.start
    return outer.gather(inner)


def repeat_positions(positions: Positions, times: int) -> Positions:
    """Return where the rows of samples stand of which each has `times` rows."""
    if isinstance(positions, range):
        return range(positions.start * times, positions.stop * times)
    rows = pl.int_range(len(positions) * times, eager=True)
    return positions.gather(rows // times) * times + rows % times


def list_rows(positions: Iterable[int], times: int) -> list[int]:
    """Return the rows of samples of which each has `times` rows."""
    rows: list[int] = []
    for position in positions:
        first = position * times
        rows.extend(range(first, first + times))
    return rows


def split_name(name: str, prefixes: Iterable[str]) -> list[tuple[str, str]]:
    """Return the prefixes that begin a dotted name, longest first, each with what follows it."""
    matching = [prefix for prefix in prefixes if name.startswith(f"{prefix}.")]
    matching.sort(key=len, reverse=True)
    return [(prefix, name.removeprefix(f"{prefix}.")) for prefix in matching]


def get_inside(
    value: object,
    name: str,
    default: object = None,
) -> object:
    """Return what a dotted name reaches inside a value, by the longest names first."""
    if not isinstance(value, _OBJECTS):
        return default
    if name in value:
        return value[name]
    for prefix, inner_name in split_name(name, value):
        inner = get_inside(value[prefix], inner_name, default)
        if inner is not default:
            return inner
    return default


def iterate_blocks(rows: Rows, *, size: int | None = None) -> Iterator[tuple[int, Samples]]:
    """Yield the rows block by block, each with the position of its first row."""
    step = size or BLOCK_ROWS
    for offset in range(0, len(rows), step):
        yield offset, rows.slice(offset, step).load()


def iterate_samples(rows: Rows) -> Iterator[Sample]:
    """Yield the rows one by one; a block of them is in memory."""
    for _, block in iterate_blocks(rows):
        yield from block


def check_ids(rows: Rows, *, by_trial: bool = False) -> None:
    """Raise E208 for ids that are empty, unsuitable or used twice.

    With `by_trial`, rows of one sample may differ in the columns `trial` and `option_order`. Only a
    hash of each id is kept in memory; rows with equal hashes are read again and compared.
    """
    if ID_COLUMN not in rows.columns:
        return
    marks = []
    if by_trial:
        marks = [name for name in (TRIAL_COLUMN, ORDER_COLUMN) if name in rows.columns]
    errors = RowErrors(rows.file)
    hashes = []
    for _, block in iterate_blocks(rows):
        keys = []
        for sample in block:
            keys.append(_write_key(sample, marks))
            if not sample.id:
                cell = json.dumps(sample.fields[ID_COLUMN], ensure_ascii=False)
                message = f"sample id {cell} is not text or a whole number"
                errors.add(_refuse_id(sample, message))
        column = pl.Series(keys, dtype=pl.String)
        hashes.append(column.hash())
    every_hash = pl.concat(hashes)
    in_order = every_hash.sort()  # takes a tenth of the memory of `is_duplicated`
    twice = in_order.filter(in_order == in_order.shift())
    repeated = every_hash.is_in(twice.implode()).arg_true()
    first_uses: dict[str, Sample] = {}
    for sample in iterate_samples(rows.take(repeated)):
        key = _write_key(sample, marks)
        first = first_uses.setdefault(key, sample)
        if sample.id and first is not sample:
            name = key.replace("\0", "` trial `")
            message = f"sample id `{name}` is used twice, first on line {first.line}"
            if first.file != sample.file:
                message += f" of `{first.file}`"
            errors.add(_refuse_id(sample, message))
    errors.raise_any()


def _write_key(sample: Sample, marks: Sequence[str]) -> str:
    """Return what tells a row from all others: its id, and its trial and order if it has any."""
    parts = [str(sample.fields[name]) for name in marks]
    return "\0".join([sample.id, *parts])


def _refuse_id(sample: Sample, message: str) -> DataError:
    where = Place(
        file=sample.file,
        line=sample.line,
        field=ID_COLUMN,
    )
    hint = f"give every row its own id, or remove the column `{ID_COLUMN}` to number the rows"
    return DataError(
        "E208",
        message,
        where=where,
        hint=hint,
    )


# Rows as columns of a table, where one is written: Parquet, CSV, a frame in Python, scores. A
# column gets a type only if every value that is not null, or every element of its lists, has
# exactly that type; any other column is JSON text, so that `1` never turns into `1.0`, and no
# mapping gains a key.

#: The types of columns by those of their values; where all are null, text.
LEAVES: dict[type, pl.DataType] = {
    str: pl.String(),
    bool: pl.Boolean(),
    float: pl.Float64(),
    int: pl.Int64(),
}
INT64 = range(-(2**63), 2**63)


def infer_types(rows: Rows) -> dict[str, pl.DataType | None]:
    """Return the type of each column, judged on all rows; None for one that is JSON text."""
    types: defaultdict[str, set[type]] = defaultdict(set)
    element_types: defaultdict[str, set[type]] = defaultdict(set)
    for _, block in iterate_blocks(rows):
        for name in rows.columns:
            values = block.values(name)
            types[name] |= _find_types(values)
            lists = [value for value in values if isinstance(value, list)]
            elements = list(chain.from_iterable(lists))
            element_types[name] |= _find_types(elements)
    chosen = {}
    for name in rows.columns:
        chosen[name] = _choose_type(types[name], element_types[name])
    return chosen


def _find_types(values: Sequence[object]) -> set[type]:
    """Return the types of values but null; `object` stands for a number that is too large."""
    types = set(map(type, values))
    types.discard(NoneType)
    if int in types and any(type(value) is int and value not in INT64 for value in values):
        types.add(object)
    return types


def _choose_type(types: set[type], element_types: set[type]) -> pl.DataType | None:
    """Return the type of a column; None for one whose values differ."""
    are_lists = types == {list}
    if are_lists:
        types = element_types
    if len(types) > 1:
        return None
    leaf = LEAVES.get(next(iter(types), str))
    if leaf is None or not are_lists:
        return leaf
    return pl.List(leaf)


def build_column(
    name: str,
    values: Sequence[Any],
    dtype: pl.DataType | None,
) -> pl.Series:
    """Return values that have this type as a column, as JSON text when it is None."""
    if dtype is None:
        texts = []
        for value in values:
            text = None
            if value is not None:
                text = json.dumps(value, ensure_ascii=False)
            texts.append(text)
        return pl.Series(name, texts, dtype=pl.String)
    if dtype != pl.List(pl.String):
        return pl.Series(name, values, dtype=dtype)
    # Polars takes long for each list, and the same few labels come again and again.
    numbers: dict[tuple[str, ...] | None, int] = {}
    places = []
    for value in values:
        key = None if value is None else tuple(value)
        places.append(numbers.setdefault(key, len(numbers)))
    return pl.Series(name, list(numbers), dtype=dtype).gather(places)


def build_frame(
    rows: Sequence[Mapping[str, Any]],
    types: Mapping[str, pl.DataType | None],
) -> pl.DataFrame:
    """Return the fields of rows that have these types as a table; what a row lacks is null."""
    columns = []
    for name, dtype in types.items():
        cells = [row.get(name) for row in rows]
        if dtype == pl.Float64:
            cells = [None if cell is None else float(cell) for cell in cells]
        columns.append(build_column(name, cells, dtype))
    return pl.DataFrame(columns)
