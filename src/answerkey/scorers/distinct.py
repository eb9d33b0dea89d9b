"""The distinct values of a template over a dataset: each is parsed once, however many rows there are."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from answerkey.templates import Template
from answerkey.types import Samples

#: Column types whose distinct values Polars finds itself.
_PLAIN = (pl.String, pl.Int64, pl.Float64, pl.Boolean, pl.List(pl.String), pl.List(pl.Int64))


@dataclass(frozen=True)
class Distinct:
    """Distinct values in order of appearance, and for each row the position of its value among them."""

    values: list[object]
    codes: pl.Series


def find_distinct(template: Template, samples: Samples) -> Distinct:
    """Return the distinct values that the template yields; a failing row yields its `RowTrouble`."""
    if template.kind == "constant":
        return Distinct([template.evaluate()], pl.zeros(len(samples), pl.UInt32, eager=True))
    column = _find_column(template, samples)
    return _number_values(template.values(samples)) if column is None else _number_cells(column)


def _find_column(template: Template, samples: Samples) -> pl.Series | None:
    """Return the column that the template reads, if it is one of plain values."""
    if template.kind != "column" or not template.path or not isinstance(template.path[0], str):
        return None
    first, *fields = template.path
    if first not in samples.frame.columns or first in samples.encoded:
        return None
    series = samples.frame[first]
    for name in fields:
        names = [one.name for one in series.dtype.fields] if isinstance(series.dtype, pl.Struct) else []
        if name not in names or series.null_count():
            return None
        series = series.struct.field(str(name))
    return series if series.dtype in _PLAIN else None


def _number_cells(column: pl.Series) -> Distinct:
    frame = pl.DataFrame({"value": column})
    distinct = frame.unique(maintain_order=True).with_row_index("code")
    codes = frame.join(distinct, on="value", how="left", nulls_equal=True, maintain_order="left")["code"]
    return Distinct(distinct["value"].to_list(), codes)


def _number_values(values: list[object]) -> Distinct:
    known: dict[object, int] = {}
    distinct: list[object] = []
    codes: list[int] = []
    for value in values:
        # repr keeps 1, True, 1.0 and "1" apart, which are different truths.
        code = known.setdefault(
            value if isinstance(value, str) else (type(value), repr(value)), len(distinct)
        )
        if code == len(distinct):
            distinct.append(value)
        codes.append(code)
    return Distinct(distinct, pl.Series("code", codes, dtype=pl.UInt32))
