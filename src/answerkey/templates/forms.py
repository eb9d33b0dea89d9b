"""The expressions that whole columns can compute: a column, its parts, its letters changed, text around it.

Each form says for which rows its outcome is exactly what Jinja gives; the other rows are rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol, cast

import polars as pl

from answerkey.templates.keys import find_value_keys, fits_index, group_rows
from answerkey.templates.limits import FREE_OUTPUT, MOST_ELEMENTS, MOST_GROWTH, measure
from answerkey.templates.plain import make_printable
from answerkey.templates.sizes import find_small
from answerkey.types import Samples

#: The tables behind the names of a template: `sample`, and others that some templates see.
Tables = Mapping[str, Samples]
Change = Literal["upper", "lower", "trim"]

#: Longer texts are rendered, so that the limits on one row are applied to them.
_LONG_TEXT: Final = 500_000
#: What texts out of proportion to their columns may take together, before they are rendered one by one.
_MOST_BYTES: Final = 64 * 2**20
#: The white space of ASCII, as Python strips it; the column library knows others.
_BLANKS: Final = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f "


@dataclass(frozen=True)
class Computed:
    """A column, and the rows on which it is exact; None: all of them."""

    series: pl.Series
    good: pl.Series | None = None

    def require(self, good: pl.Series | None) -> Computed:
        """Return the same column, exact on these rows at most."""
        if good is None or self.good is None:
            return Computed(self.series, self.good if good is None else good)
        return Computed(self.series, self.good & good)


class Form(Protocol):
    """An expression that can be computed for whole columns."""

    def compute(self, tables: Tables) -> Computed | None:
        """Return the values; None if the types of these columns do not allow it."""
        ...


@dataclass(frozen=True)
class Column:
    """`sample.name`, or a column of another table."""

    table: str
    name: str

    def compute(self, tables: Tables) -> Computed | None:
        """Return the column, if it is there and holds values rather than their JSON text."""
        table = tables.get(self.table)
        if table is None or self.name not in table.columns or self.name in table.encoded:
            return None
        series = table.frame[self.name]
        return Computed(series) if _is_native(series.dtype) else None


@dataclass(frozen=True)
class Field:
    """`owner.key` of a struct."""

    owner: Form
    key: str

    def compute(self, tables: Tables) -> Computed | None:
        """Return the field; not exact where the struct is null, which is that row's trouble."""
        owner = self.owner.compute(tables)
        if owner is None or not isinstance(owner.series.dtype, pl.Struct):
            return None
        if self.key not in [one.name for one in owner.series.dtype.fields]:
            return None
        is_there = owner.series.is_not_null() if owner.series.null_count() else None
        return Computed(owner.series.struct.field(self.key), owner.good).require(is_there)


@dataclass(frozen=True)
class Element:
    """`owner[index]` of a list or a text; the index is a whole number or a column of them."""

    owner: Form
    index: int | Form

    def compute(self, tables: Tables) -> Computed | None:
        """Return the elements; not exact where the index is null or outside the list."""
        owner = self.owner.compute(tables)
        parts = None if owner is None else _ELEMENTS.get(type(owner.series.dtype))
        if owner is None or parts is None:
            return None
        index = self._compute_index(tables, len(owner.series))
        if index is None:
            return None
        size, take = parts
        frame = pl.DataFrame([owner.series.alias("owner"), index.series.alias("index")])
        is_inside = pl.col("index").is_between(-size, size - 1).fill_null(value=False)
        # An index far outside its list is more than the column library takes.
        element = take(pl.when("inside").then("index"))
        found = frame.with_columns(is_inside.alias("inside")).select("inside", element.alias("element"))
        return Computed(found["element"], owner.good).require(index.good).require(found["inside"])

    def _compute_index(self, tables: Tables, height: int) -> Computed | None:
        if isinstance(self.index, int):
            is_known = fits_index(self.index)
            return Computed(pl.repeat(self.index, height, dtype=pl.Int64, eager=True)) if is_known else None
        index = self.index.compute(tables)
        return index if index is not None and index.series.dtype in _WHOLE else None


#: How long an `owner` is, and how one of its elements is taken.
_ELEMENTS: Final[dict[type[pl.DataType], tuple[pl.Expr, Callable[[pl.Expr], pl.Expr]]]] = {
    pl.List: (
        pl.col("owner").list.len().cast(pl.Int64),
        lambda index: pl.col("owner").list.get(index, null_on_oob=True),
    ),
    pl.String: (
        pl.col("owner").str.len_chars().cast(pl.Int64),
        lambda index: pl.col("owner").str.slice(index, 1),
    ),
}
_WHOLE: Final = (pl.Int64, pl.Int32, pl.Int16, pl.Int8, pl.UInt32, pl.UInt16, pl.UInt8)


@dataclass(frozen=True)
class Letters:
    """`owner | upper`, `| lower` or `| trim`; or a method of a text, which nothing else has."""

    owner: Form
    change: Change
    is_method: bool = False

    def compute(self, tables: Tables) -> Computed | None:
        """Return the changed texts; exact for ASCII, where Rust and Python agree."""
        owner = self.owner.compute(tables)
        if owner is None or (self.is_method and owner.series.dtype != pl.String):
            return None
        texts = owner if self.is_method else print_cells(owner)
        if texts is None:
            return None
        is_ascii = (texts.series.str.len_bytes() == texts.series.str.len_chars()).fill_null(value=False)
        changed = Computed(_CHANGES[self.change](texts.series), texts.good)
        return changed if is_ascii.all() else changed.require(is_ascii)


_CHANGES: Final[dict[Change, Callable[[pl.Series], pl.Series]]] = {
    "upper": lambda series: series.str.to_uppercase(),
    "lower": lambda series: series.str.to_lowercase(),
    "trim": lambda series: series.str.strip_chars(_BLANKS),
}


@dataclass(frozen=True)
class Text:
    """Text of the template and what is printed between it; what `~` joins."""

    pieces: tuple[str | Form, ...]

    def compute(self, tables: Tables) -> Computed | None:
        """Return the texts; long ones are not exact, since limits may apply to them."""
        whole = Computed(pl.Series([], dtype=pl.String))
        columns: list[pl.Series] = []
        parts: list[pl.Expr] = []
        for piece in self.pieces:
            if isinstance(piece, str):
                parts.append(pl.lit(piece))
                continue
            found = piece.compute(tables)
            printed = None if found is None else print_cells(found)
            if found is None or printed is None:
                return None
            name = f"{'text' if found.series.dtype == pl.String else 'other'} {len(columns)}"
            parts.append(pl.col(name))
            columns.append(printed.series.alias(name))
            whole = whole.require(printed.good)
        frame = pl.DataFrame(columns)
        if self._is_absurd(frame):
            return None
        texts = frame.select(pl.concat_str(parts).alias("text")).to_series()
        return Computed(texts, whole.good).require(_find_proportionate(texts, frame))

    def _is_absurd(self, printed: pl.DataFrame) -> bool:
        """Say whether the texts would take much memory, and far more than what they are made of."""
        literal = sum(len(piece.encode()) for piece in self.pieces if isinstance(piece, str))
        sizes = [int(one.estimated_size()) for one in printed.iter_columns()]
        total = literal * printed.height + sum(sizes)
        return total > _MOST_BYTES and total > MOST_GROWTH * max(sizes, default=0)


def _find_proportionate(texts: pl.Series, printed: pl.DataFrame) -> pl.Series | None:
    """Return which texts are certainly not out of proportion to what they are made of; None: all of them."""
    size = texts.str.len_bytes().cast(pl.Int64)
    longest = cast("int | None", size.max())
    if (longest or 0) <= FREE_OUTPUT:
        return None
    given = [one.str.len_chars() for one in printed.iter_columns() if one.name.startswith("text")]
    most = pl.DataFrame(given).max_horizontal().cast(pl.Int64) if given else size * 0
    return (size <= FREE_OUTPUT + MOST_GROWTH * most) & (size <= _LONG_TEXT)


def print_cells(cells: Computed) -> Computed | None:
    """Return what Jinja prints for the values: `None` for null, `True` for true, floats as Python does."""
    series, dtype = cells.series, cells.series.dtype
    if dtype == pl.String:
        texts = series
    elif dtype == pl.Boolean:
        texts = series.replace_strict({True: "True", False: "False"}, return_dtype=pl.String)
    elif dtype.is_integer():
        texts = series.cast(pl.String)
    else:
        return _print_distinct(cells)
    return Computed(texts.fill_null("None") if texts.null_count() else texts, cells.good)


def _print_distinct(cells: Computed) -> Computed | None:
    """Return the texts of floats, lists and structs, each distinct value printed once by Python."""
    keys = find_value_keys(cells.series)
    if keys is None:
        return None
    groups = group_rows(keys, len(cells.series))
    printed = [_print_cell(value) for value in cells.series.gather(groups.leaders).to_list()]
    texts = pl.Series(printed, dtype=pl.String).gather(groups.codes)
    is_short = texts.is_not_null() if texts.null_count() else None
    return Computed(texts.fill_null(""), cells.good).require(is_short)


def _print_cell(value: object) -> str | None:
    """Return a value as Jinja prints it; None for one that is so large that limits may apply."""
    try:
        return str(make_printable(value)) if measure(value) <= _LONG_TEXT else None
    except OverflowError:
        return None


def limit_size(cells: Computed) -> Computed:
    """Return values that a template hands on as they are; not exact where one is larger than it may be."""
    if isinstance(cells.series.dtype, (pl.List, pl.Struct)):
        return cells.require(find_small(cells.series, MOST_ELEMENTS))
    return cells


def _is_native(dtype: pl.DataType) -> bool:
    """Say whether a column of this type holds just what a template sees."""
    if isinstance(dtype, pl.List):
        return _is_native(cast("pl.DataType", dtype.inner))
    if isinstance(dtype, pl.Struct):
        return all(_is_native(cast("pl.DataType", one.dtype)) for one in dtype.fields)
    return dtype.is_integer() or dtype in (pl.String, pl.Boolean, pl.Float64)
