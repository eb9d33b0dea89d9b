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
from typing import Any

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


def infer_types(rows: Rows) -> dict[str, pl.DataType | None]:
    """Return the type of each column, judged on all rows; None for one that is JSON text."""
    types: dict[str, set[type]] = {name: set() for name in rows.columns}
    element_types: dict[str, set[type]] = {name: set() for name in rows.columns}
    for _, block in iterate_blocks(rows):
        for name in rows.columns:
            values = block.values(name)
            types[name] |= _find_types(values)
            lists = [value for value in values if isinstance(value, list)]
            element_types[name] |= _find_types(list(chain.from_iterable(lists)))
    return {name: _choose_type(types[name], element_types[name]) for name in rows.columns}


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
            texts.append(None if value is None else json.dumps(value, ensure_ascii=False))
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
