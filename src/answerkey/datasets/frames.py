"""Rows as columns of a table, where one is written: Parquet, CSV, a frame in Python.

A column gets a type only if every value that is not null has exactly that type and shape; any other
column is JSON text, so that `1` never turns into `1.0`, and no mapping gains a key.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import polars as pl

from answerkey.datasets.rows import Rows, iterate_samples

#: The types of columns by those of their values; where all are null, text.
LEAVES: dict[type | None, pl.DataType] = {
    str: pl.String(),
    bool: pl.Boolean(),
    float: pl.Float64(),
    int: pl.Int64(),
    None: pl.String(),
}
INT64 = range(-(2**63), 2**63)
#: Deeper nesting is kept as JSON text: nested column types cost more than they give.
TYPED_DEPTH = 6


class MixedTypesError(Exception):
    """Values that have no type in common."""


def infer_types(rows: Rows) -> dict[str, pl.DataType | None]:
    """Return the type of each column, judged on all rows; None for one that is JSON text."""
    shapes: dict[str, Any] = dict.fromkeys(rows.columns)
    types: dict[str, pl.DataType | None] = dict.fromkeys(rows.columns)
    for sample in iterate_samples(rows):
        for name in list(shapes):
            try:
                shapes[name] = _widen(shapes[name], sample.fields[name])
            except MixedTypesError:
                del shapes[name]
    for name, shape in shapes.items():
        types[name] = _choose_type(shape)
    return types


def build_column(
    name: str,
    values: Sequence[object],
    dtype: pl.DataType | None,
) -> pl.Series:
    """Return values that have this type as a column, as JSON text when it is None."""
    if dtype is not None:
        return pl.Series(name, values, dtype=dtype, strict=True)
    texts: list[str | None] = []
    for value in values:
        texts.append(None if value is None else json.dumps(value, ensure_ascii=False))
    return pl.Series(name, texts, dtype=pl.String)


def _widen(shape: Any, value: object, depth: int = 0) -> Any:  # noqa: ANN401 - nested at will
    """Return the shape of a value and of those before it, or raise MixedTypesError.

    A shape is a type, a list with the shape of the elements, or a mapping of shapes; None where
    there were only nulls.
    """
    if value is None:
        return shape
    is_nested = isinstance(shape, list | dict)
    expected = type(shape) if is_nested else shape
    if type(value) is not (expected or type(value)) or depth > TYPED_DEPTH:
        raise MixedTypesError
    if isinstance(value, list):
        inner = shape[0] if shape else None
        for element in value:
            inner = _widen(inner, element, depth + 1)
        return [inner]
    if isinstance(value, dict):
        fields = shape or dict.fromkeys(value)
        if not value or list(fields) != list(value):
            raise MixedTypesError
        widened = {}
        for name, inner in fields.items():
            widened[name] = _widen(inner, value[name], depth + 1)
        return widened
    if isinstance(value, int) and value not in INT64:
        raise MixedTypesError
    return type(value)


def _choose_type(shape: Any) -> pl.DataType:  # noqa: ANN401 - nested at will
    if isinstance(shape, list):
        return pl.List(_choose_type(shape[0]))
    if isinstance(shape, dict):
        return pl.Struct({name: _choose_type(inner) for name, inner in shape.items()})
    return LEAVES[shape]
