"""Rows as columns of a table, where one is written: Parquet, CSV, a frame in Python.

A column gets a type only if every value that is not null, or every element of its lists, has
exactly that type; any other column is JSON text, so that `1` never turns into `1.0`, and no mapping
gains a key.
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


def infer_types(rows: Rows) -> dict[str, pl.DataType | None]:
    """Return the type of each column, judged on all rows; None for one that is JSON text."""
    kinds: dict[str, set[Any]] = {name: set() for name in rows.columns}
    for sample in iterate_samples(rows):
        for name, value in sample.fields.items():
            kinds[name] |= _list_kinds(value)
    types: dict[str, pl.DataType | None] = {}
    for name in rows.columns:
        types[name] = _choose_type(kinds[name])
    return types


def _list_kinds(value: object) -> set[Any]:
    """Return the types in a cell; those of the elements of a list are in tuples."""
    if value is None:
        return set()
    if isinstance(value, list):
        return {(None,), *((_find_kind(element),) for element in value if element is not None)}
    return {_find_kind(value)}


def _find_kind(value: object) -> type:
    is_large = isinstance(value, int) and value not in INT64
    return object if is_large else type(value)


def _choose_type(kinds: set[Any]) -> pl.DataType | None:
    """Return the type of a column with values of these types; None where they differ."""
    is_list = (None,) in kinds
    leaves = [kind[0] if isinstance(kind, tuple) else kind for kind in kinds - {(None,)}]
    if len(leaves) > 1 or (is_list and not all(isinstance(kind, tuple) for kind in kinds)):
        return None
    leaf = LEAVES.get(leaves[0] if leaves else None)
    if leaf is None or not is_list:
        return leaf
    return pl.List(leaf)


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
