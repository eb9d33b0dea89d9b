"""Choosing how a column of Python values is stored: natively typed, or as JSON text.

A column is native only if every value that is not null has exactly the same type and shape, so that what a
template sees is exactly what the file holds: `1` never turns into `1.0`, and no dict gains a key.

A shape is the type of some values, Null where only nulls are known so far, and None where they have no common
type. The shapes of two halves of a column, merged, are the shape of the column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import cast

import polars as pl

from answerkey.types import Notice

Shape = pl.DataType | None

_LEAVES: dict[type, pl.DataType] = {
    str: pl.String(),
    bool: pl.Boolean(),
    float: pl.Float64(),
    int: pl.Int64(),
}
_INT64 = (-(2**63), 2**63 - 1)
#: Deeper nesting is kept as JSON text: nested column types cost more than they give.
_NATIVE_DEPTH = 6


@dataclass(frozen=True)
class Columns:
    """The columns of a file as read: `encoded` and `lines` as in `Samples`."""

    frame: pl.DataFrame
    lines: pl.Series
    encoded: frozenset[str] = frozenset()
    notices: tuple[Notice, ...] = ()


def build_frame(columns: Mapping[str, Sequence[object]]) -> tuple[pl.DataFrame, frozenset[str]]:
    """Return a frame of these columns and the names of those stored as JSON text."""
    built = {name: build_column(name, values) for name, values in columns.items()}
    encoded = frozenset(name for name, (_, is_encoded) in built.items() if is_encoded)
    return pl.DataFrame([series for series, _ in built.values()]), encoded


def build_column(name: str, values: Sequence[object]) -> tuple[pl.Series, bool]:
    """Return the column and whether its cells are JSON text; values are what `json.loads` can return."""
    dtype = settle(find_shape(values))
    return fill_column(name, values, dtype), dtype is None


def fill_column(name: str, values: Sequence[object], dtype: pl.DataType | None) -> pl.Series:
    """Return values that have this type as a column; as JSON text when it is None."""
    if dtype is not None:
        return _fill(values, dtype).alias(name)
    cells = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
    return pl.Series(name, cells, dtype=pl.String)


def find_dtype(values: Sequence[object]) -> pl.DataType | None:
    """Return the one type that all values share, or None if there is none; only nulls count as text."""
    return settle(find_shape(values))


def find_shape(values: Sequence[object], depth: int = 0) -> Shape:
    """Return the shape of some values."""
    kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return pl.Null()
    kind = kinds.pop()
    if kinds or depth > _NATIVE_DEPTH:
        return None
    if kind is list:
        return _find_list(values, depth)
    if kind is dict:
        return _find_struct(values, depth)
    if kind is int and not _fits_int64(values):
        return None
    return _LEAVES[kind]


def _find_list(values: Sequence[object], depth: int) -> Shape:
    lists = (value for value in values if isinstance(value, list))
    inner = find_shape(list(chain.from_iterable(lists)), depth + 1)
    return None if inner is None else pl.List(inner)


def _find_struct(values: Sequence[object], depth: int) -> Shape:
    dicts = [value for value in values if isinstance(value, dict)]
    shapes = set(map(tuple, dicts))
    names = shapes.pop()
    if shapes or not names:
        return None
    fields: dict[str, pl.DataType] = {}
    for name in names:
        shape = find_shape([one[name] for one in dicts], depth + 1)
        if shape is None:
            return None
        fields[name] = shape
    return pl.Struct(fields)


def _fits_int64(values: Sequence[object]) -> bool:
    low, high = _INT64
    return all(low <= value <= high for value in values if isinstance(value, int))


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
        return _merge_structs(one, other)
    return None


def _merge_structs(one: pl.Struct, other: pl.Struct) -> Shape:
    if [each.name for each in one.fields] != [each.name for each in other.fields]:
        return None
    fields: dict[str, pl.DataType] = {}
    for ours, theirs in zip(one.fields, other.fields, strict=True):
        shape = merge_shapes(cast("pl.DataType", ours.dtype), cast("pl.DataType", theirs.dtype))
        if shape is None:
            return None
        fields[ours.name] = shape
    return pl.Struct(fields)


def settle(shape: Shape) -> pl.DataType | None:
    """Return the type that a column of this shape is stored with: where there are only nulls, text."""
    if isinstance(shape, pl.List):
        return pl.List(cast("pl.DataType", settle(cast("pl.DataType", shape.inner))))
    if isinstance(shape, pl.Struct):
        fields = {one.name: settle(cast("pl.DataType", one.dtype)) for one in shape.fields}
        return pl.Struct(cast("dict[str, pl.DataType]", fields))
    return pl.String() if shape == pl.Null else shape


def _fill(values: Sequence[object], dtype: pl.DataType) -> pl.Series:
    """Return the values as a series; lists and dicts are taken apart, which is ten times faster."""
    if isinstance(dtype, pl.List):
        return _fill_lists(values, cast("pl.DataType", dtype.inner))
    if isinstance(dtype, pl.Struct):
        return _fill_structs(values, dtype)
    return pl.Series(values, dtype=dtype, strict=True)


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


def _fill_structs(values: Sequence[object], dtype: pl.Struct) -> pl.Series:
    """Return dicts by filling each of their fields as one series."""
    dicts = [value if isinstance(value, dict) else None for value in values]
    fields: dict[str, pl.Series] = {}
    for each in dtype.fields:
        cells = [None if one is None else one[each.name] for one in dicts]
        fields[each.name] = _fill(cells, cast("pl.DataType", each.dtype))
    whole = pl.DataFrame(fields).to_struct("struct")
    is_there = pl.Series([one is not None for one in dicts], dtype=pl.Boolean)
    return whole.to_frame().select(pl.when(is_there).then(pl.col("struct")).alias("struct"))["struct"]
