"""Rows as columns of a table, where one is written: Parquet, CSV, a frame in Python.

A column gets a type only if every value that is not null, or every element of its lists, has
exactly that type; any other column is JSON text, so that `1` never turns into `1.0`, and no mapping
gains a key.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from answerkey.datasets.rows import Rows, iterate_samples

#: The types of columns by those of their values; where all are null, text.
LEAVES: dict[type, pl.DataType] = {
    str: pl.String(),
    bool: pl.Boolean(),
    float: pl.Float64(),
    int: pl.Int64(),
}
INT64 = range(-(2**63), 2**63)


@dataclass
class _ColumnTypes:
    """The types of the values of a column: of those that are no lists, and inside lists."""

    values: set[type] = field(default_factory=set)
    elements: set[type] = field(default_factory=set)
    has_lists: bool = False

    def add(self, value: object) -> None:
        if isinstance(value, list):
            self.has_lists = True
            self.elements.update(map(_find_type, value))
        else:
            self.values.add(_find_type(value))

    def choose(self) -> pl.DataType | None:
        """Return the type of the column; None for one whose values differ."""
        kinds = (self.values | self.elements) - {type(None)}
        is_mixed = self.has_lists and bool(self.values - {type(None)})
        if is_mixed or len(kinds) > 1:
            return None
        leaf = LEAVES.get(kinds.pop() if kinds else str)
        if leaf is None or not self.has_lists:
            return leaf
        return pl.List(leaf)


def infer_types(rows: Rows) -> dict[str, pl.DataType | None]:
    """Return the type of each column, judged on all rows; None for one that is JSON text."""
    columns = {name: _ColumnTypes() for name in rows.columns}
    for sample in iterate_samples(rows):
        for name, value in sample.fields.items():
            columns[name].add(value)
    return {name: column.choose() for name, column in columns.items()}


def _find_type(value: object) -> type:
    is_large = isinstance(value, int) and value not in INT64
    return object if is_large else type(value)


def build_column(
    name: str,
    values: Sequence[object],
    dtype: pl.DataType | None,
) -> pl.Series:
    """Return values that have this type as a column, as JSON text when it is None."""
    if dtype is not None:
        return pl.Series(name, values, dtype=dtype, strict=True)
    texts = []
    for value in values:
        text = None
        if value is not None:
            text = json.dumps(value, ensure_ascii=False)
        texts.append(text)
    return pl.Series(name, texts, dtype=pl.String)
