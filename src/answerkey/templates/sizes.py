"""How large the values of a column are, told without looking at them one by one."""

from __future__ import annotations

from typing import Final, cast

import polars as pl

#: A value counts for itself and as an element of what it stands in, beside its characters.
_EACH: Final = 2


def find_small(series: pl.Series, most: int) -> pl.Series | None:
    """Return which values certainly have no more than `most` characters and elements; None: all of them."""
    if _bound_total(series) <= most:
        return None
    weights = weigh_cells(series)
    heaviest = cast("int | None", weights.max())
    return None if (heaviest or 0) <= most else weights <= most


def weigh_cells(series: pl.Series) -> pl.Series:
    """Return at least as much as each value has characters and elements."""
    return series.to_frame("value").select(_weigh(pl.col("value"), series.dtype)).to_series()


def _bound_total(series: pl.Series) -> int:
    """Return at least as much as all values of a column count together."""
    own = _EACH * len(series)
    if isinstance(series.dtype, pl.List):
        return own + _bound_total(series.explode())
    if isinstance(series.dtype, pl.Struct):
        return own + sum(_bound_total(series.struct.field(one.name)) for one in series.dtype.fields)
    return own + (int(series.estimated_size()) if series.dtype == pl.String else 0)


def _weigh(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return at least what each value counts."""
    if isinstance(dtype, pl.List):
        elements = value.list.eval(_weigh(pl.element(), cast("pl.DataType", dtype.inner)))
        return elements.list.sum().fill_null(0) + _EACH
    if isinstance(dtype, pl.Struct):
        fields = [
            _weigh(value.struct.field(one.name), cast("pl.DataType", one.dtype)) for one in dtype.fields
        ]
        return pl.sum_horizontal(fields) + _EACH
    size = value.str.len_bytes() if dtype == pl.String else value.is_null()
    return size.cast(pl.Int64).fill_null(0) + _EACH
