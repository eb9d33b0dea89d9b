"""A column, or a field inside one, by a dotted name whose parts may hold dots themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from answerkey.datasets.rows import Rows, iterate_blocks
from answerkey.types import Samples

#: Stands for a field that a value does not have; null is a value.
_ABSENT = object()


@dataclass(frozen=True)
class Field:
    """A column, and the dotted name of a field inside its values; empty for the column itself."""

    column: str
    inside: str = ""

    def read(self, samples: Samples) -> pl.Series | list[object]:
        """Return the cells; a row without the field has a null cell."""
        if not self.inside:
            return (
                samples.values(self.column) if self.column in samples.encoded else samples.frame[self.column]
            )
        if self.column not in samples.encoded:
            found = _find_inside(samples.frame[self.column], self.inside)
            return [None] * len(samples) if found is None else found
        values = [_get(value, self.inside) for value in samples.values(self.column)]
        return [None if value is _ABSENT else value for value in values]


def find_field(rows: Rows, name: str) -> Field | None:
    """Return what a name reaches, or None if there is no such column or field.

    The exact column first, then the field with the longest matching column name, and so on inwards:
    `completions.org/model-1.5` reaches the field `org/model-1.5` of the column `completions`.
    """
    if name in rows.columns:
        return Field(name)
    known = (Field(column, rest) for column, rest in _split(name, rows.columns))
    return next((one for one in known if _is_there(rows, one)), None)


def _is_there(rows: Rows, one: Field) -> bool:
    if one.column not in rows.encoded:
        return _find_inside(rows.slice(0, 0).load([one.column]).frame[one.column], one.inside) is not None
    return any(
        _get(value, one.inside) is not _ABSENT
        for _, block in iterate_blocks(rows, [one.column])
        for value in block.values(one.column)
    )


def _split(name: str, known: Iterable[str]) -> list[tuple[str, str]]:
    """Return the known names that begin the dotted name, longest first, each with what is left."""
    heads = [head for head in known if name.startswith(f"{head}.")]
    return [(head, name[len(head) + 1 :]) for head in sorted(heads, key=len, reverse=True)]


def _find_inside(series: pl.Series, name: str) -> pl.Series | None:
    if not isinstance(series.dtype, pl.Struct):
        return None
    names = [one.name for one in series.dtype.fields]
    if name in names:
        return series.struct.field(name)
    inner = (_find_inside(series.struct.field(head), rest) for head, rest in _split(name, names))
    return next((one for one in inner if one is not None), None)


def _get(value: object, name: str) -> object:
    if not isinstance(value, Mapping):
        return _ABSENT
    if name in value:
        return value[name]
    inner = (_get(value[head], rest) for head, rest in _split(name, value))
    return next((one for one in inner if one is not _ABSENT), _ABSENT)
