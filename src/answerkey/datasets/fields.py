"""A column, or a field inside one, by a dotted name whose parts may hold dots themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl

from answerkey.types import Samples

#: Stands for a field that a value does not have; null is a value.
_ABSENT = object()


def find_field(samples: Samples, name: str) -> pl.Series | list[object] | None:
    """Return the cells that a name reaches, or None if there is no such column or field.

    The exact column first, then the field with the longest matching column name, and so on inwards:
    `completions.org/model-1.5` reaches the field `org/model-1.5` of the column `completions`. A row without
    the field has a null cell.
    """
    if name in samples.columns:
        return samples.values(name) if name in samples.encoded else samples.frame[name]
    for column, rest in _split(name, samples.columns):
        find = _find_encoded if column in samples.encoded else _find_struct
        if (found := find(samples, column, rest)) is not None:
            return found
    return None


def _split(name: str, known: Iterable[str]) -> list[tuple[str, str]]:
    """Return the known names that begin the dotted name, longest first, each with what is left."""
    heads = [head for head in known if name.startswith(f"{head}.")]
    return [(head, name[len(head) + 1 :]) for head in sorted(heads, key=len, reverse=True)]


def _find_struct(samples: Samples, column: str, name: str) -> pl.Series | list[object] | None:
    return _find_inside(samples.frame[column], name)


def _find_inside(series: pl.Series, name: str) -> pl.Series | None:
    if not isinstance(series.dtype, pl.Struct):
        return None
    names = [one.name for one in series.dtype.fields]
    if name in names:
        return series.struct.field(name)
    inner = (_find_inside(series.struct.field(head), rest) for head, rest in _split(name, names))
    return next((one for one in inner if one is not None), None)


def _find_encoded(samples: Samples, column: str, name: str) -> pl.Series | list[object] | None:
    values = [_get(value, name) for value in samples.values(column)]
    if all(value is _ABSENT for value in values):
        return None
    return [None if value is _ABSENT else value for value in values]


def _get(value: object, name: str) -> object:
    if not isinstance(value, Mapping):
        return _ABSENT
    if name in value:
        return value[name]
    inner = (_get(value[head], rest) for head, rest in _split(name, value))
    return next((one for one in inner if one is not _ABSENT), _ABSENT)
