"""Each distinct value once, and which row has which: what is costly is then done once per value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from answerkey.templates.trouble import RowTrouble

_TEXTS: Final = frozenset([str])


@dataclass(frozen=True)
class Distinct:
    """Distinct values, and for each row the position of its value among them.

    1, 1.0, true and "1" are different values. A row on which a template fails has its `RowTrouble` as value.
    """

    values: list[object]
    codes: pl.Series

    def __len__(self) -> int:
        return len(self.codes)

    def spread(self) -> list[object]:
        """Return one value per row."""
        if len(self.values) == 1:
            return self.values * len(self.codes)
        values = self.values
        return [values[code] for code in self.codes.to_list()]


def make_constant(value: object, height: int) -> Distinct:
    """Return the same value for every row."""
    return Distinct([value], pl.zeros(height, pl.UInt32, eager=True))


def number_values(values: Sequence[object]) -> Distinct:
    """Return values that stand in Python, one per row, numbered."""
    known: dict[object, int] = {}
    distinct: list[object] = []
    codes: list[int] = []
    for value in values:
        code = known.setdefault(value if type(value) is str else _make_key(value), len(distinct))
        if code == len(distinct):
            distinct.append(value)
        codes.append(code)
    return Distinct(distinct, pl.Series("code", codes, dtype=pl.UInt32))


def _make_key(value: object) -> tuple[object, ...]:
    """Return what is the same only for the same value of the same type."""
    if type(value) is list and _TEXTS.issuperset(map(type, value)):
        return ("texts", *value)
    if isinstance(value, RowTrouble):
        return (RowTrouble, value.message, value.hint, value.column, value.is_undefined)
    return (type(value), repr(value))


def merge_distinct(mask: pl.Series, where_true: Distinct, where_false: Distinct) -> Distinct:
    """Return one numbering for rows of which `mask` says in which of two numberings they are, in order."""
    both = number_values([*where_true.values, *where_false.values])
    codes = pl.zeros(len(mask), pl.UInt32, eager=True)
    codes.scatter(mask.arg_true(), where_true.codes)
    codes.scatter((~mask).arg_true(), where_false.codes + len(where_true.values))
    return Distinct(both.values, both.codes.gather(codes))
