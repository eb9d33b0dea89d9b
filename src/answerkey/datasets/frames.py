"""Rows as columns of a table, where one is written: Parquet, CSV, a frame in Python.

A column gets a type only if every value that is not null has exactly that type and shape; any other
column is JSON text, so that `1` never turns into `1.0`, and no mapping gains a key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import cast

import polars as pl

from answerkey.datasets.rows import Rows, iterate_blocks

#: The type of some values: Null where only nulls are known, None where they have no common type.
Shape = pl.DataType | None
LEAVES = {str: pl.String(), bool: pl.Boolean(), float: pl.Float64(), int: pl.Int64()}
INT64 = range(-(2**63), 2**63)
#: Deeper nesting is kept as JSON text: nested column types cost more than they give.
TYPED_DEPTH = 6


def infer_types(rows: Rows) -> dict[str, pl.DataType | None]:
    """Return the type of each column, judged on all rows; None for one that is JSON text."""
    shapes: dict[str, Shape] = dict.fromkeys(rows.columns, pl.Null())
    for _, block in iterate_blocks(rows):
        for name in rows.columns:
            shapes[name] = merge_shapes(shapes[name], find_shape(block.values(name)))
    return {name: choose_type(shape) for name, shape in shapes.items()}


def build_column(
    name: str,
    values: Sequence[object],
    dtype: pl.DataType | None,
) -> pl.Series:
    """Return values that have this type as a column, as JSON text when it is None."""
    if dtype is not None:
        return pl.Series(
            name,
            values,
            dtype=dtype,
            strict=True,
        )
    texts: list[str | None] = []
    for value in values:
        texts.append(None if value is None else json.dumps(value, ensure_ascii=False))
    return pl.Series(name, texts, dtype=pl.String)


def find_shape(values: Sequence[object], depth: int = 0) -> Shape:
    """Return the type that all values have."""
    kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return pl.Null()
    kind = kinds.pop()
    if kinds or depth > TYPED_DEPTH:
        return None
    if kind is list:
        lists = [value for value in values if isinstance(value, list)]
        inner = find_shape(list(chain.from_iterable(lists)), depth + 1)
        return None if inner is None else pl.List(inner)
    if kind is dict:
        return _find_struct([value for value in values if isinstance(value, dict)], depth)
    if kind is int and not all(value in INT64 for value in values if value is not None):
        return None
    return LEAVES[kind]


def _find_struct(mappings: Sequence[Mapping[str, object]], depth: int) -> Shape:
    keys = set(map(tuple, mappings))
    if len(keys) > 1 or () in keys:
        return None
    fields: dict[str, Shape] = {}
    for key in keys.pop():
        fields[key] = find_shape([mapping[key] for mapping in mappings], depth + 1)
    return _build_struct(fields)


def merge_shapes(first: Shape, second: Shape) -> Shape:
    """Return the type that the values of both have."""
    if first is None or second is None:
        return None
    if second in (first, pl.Null):
        return first
    if first == pl.Null:
        return second
    if isinstance(first, pl.List) and isinstance(second, pl.List):
        inner = merge_shapes(_inner_type(first), _inner_type(second))
        return None if inner is None else pl.List(inner)
    if isinstance(first, pl.Struct) and isinstance(second, pl.Struct):
        first_fields = _list_fields(first)
        second_fields = _list_fields(second)
        if list(first_fields) == list(second_fields):
            merged = {
                name: merge_shapes(shape, second_fields[name])
                for name, shape in first_fields.items()
            }
            return _build_struct(merged)
    return None


def choose_type(shape: Shape) -> pl.DataType | None:
    """Return the type that a column is written with: where there are only nulls, text."""
    if isinstance(shape, pl.List):
        return pl.List(cast("pl.DataType", choose_type(_inner_type(shape))))
    if isinstance(shape, pl.Struct):
        return _build_struct(
            {name: choose_type(inner) for name, inner in _list_fields(shape).items()}
        )
    return pl.String() if shape == pl.Null else shape


def _inner_type(dtype: pl.List) -> pl.DataType:
    return cast("pl.DataType", dtype.inner)


def _list_fields(struct: pl.Struct) -> dict[str, pl.DataType]:
    return {field.name: cast("pl.DataType", field.dtype) for field in struct.fields}


def _build_struct(fields: Mapping[str, Shape]) -> Shape:
    if None in fields.values():
        return None
    return pl.Struct(cast("dict[str, pl.DataType]", dict(fields)))
