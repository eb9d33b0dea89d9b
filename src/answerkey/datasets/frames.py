"""Rows as columns of a table, where one is written: Parquet, CSV, a frame in Python.

A column gets a type only if every value that is not null, or every element of its lists, has
exactly that type; any other column is JSON text, so that `1` never turns into `1.0`, and no mapping
gains a key.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from types import NoneType

import polars as pl

from answerkey.datasets.rows import Rows, iterate_blocks

#: The types of columns by those of their values; where all are null, text.
LEAVES: dict[type, pl.DataType] = {
    str: pl.String(),
    bool: pl.Boolean(),
    float: pl.Float64(),
    int: pl.Int64(),
}
INT64 = range(-(2**63), 2**63)
#: Whether a value is inside a list, and its type.
Shape = tuple[bool, type]


def infer_types(rows: Rows) -> dict[str, pl.DataType | None]:
    """Return the type of each column, judged on all rows; None for one that is JSON text."""
    shapes: dict[str, set[Shape]] = {name: set() for name in rows.columns}
    for _, block in iterate_blocks(rows):
        for name in rows.columns:
            shapes[name] |= _find_shapes(block.values(name))
    return {name: _choose_type(column) for name, column in shapes.items()}


def _find_shapes(values: Sequence[object]) -> set[Shape]:
    shapes = {(False, kind) for kind in _find_types(values)}
    if (False, list) in shapes:
        lists = [value for value in values if isinstance(value, list)]
        elements = list(chain.from_iterable(lists))
        shapes.remove((False, list))
        shapes |= {(True, kind) for kind in (NoneType, *_find_types(elements))}
    return shapes


def _find_types(values: Sequence[object]) -> set[type]:
    """Return the types of values; `object` stands for a number that is too large for a column."""
    types = set(map(type, values))
    if int in types and any(type(value) is int and value not in INT64 for value in values):
        types.add(object)
    return types


def _choose_type(shapes: set[Shape]) -> pl.DataType | None:
    """Return the type of a column; None for one whose values differ."""
    shapes.discard((False, NoneType))
    are_lists = {is_list for is_list, _ in shapes}
    types = {kind for _, kind in shapes} - {NoneType}
    if len(are_lists) > 1 or len(types) > 1:
        return None
    leaf = LEAVES.get(types.pop() if types else str)
    if leaf is None or True not in are_lists:
        return leaf
    return pl.List(leaf)


def build_column(
    name: str,
    values: Sequence[object],
    dtype: pl.DataType | None,
) -> pl.Series:
    """Return values that have this type as a column, as JSON text when it is None."""
    if isinstance(dtype, pl.List):
        # Polars builds lists much faster when it may find their type itself.
        return pl.Series(name, values).cast(dtype)
    if dtype is not None:
        return pl.Series(
            name,
            values,
            dtype=dtype,
            strict=True,
        )
    texts = []
    for value in values:
        texts.append(None if value is None else json.dumps(value, ensure_ascii=False))
    return pl.Series(name, texts, dtype=pl.String)
