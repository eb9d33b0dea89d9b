"""Which rows are alike in all that a template reads: the columns that tell them apart, and the groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, cast

import polars as pl

from answerkey.templates.analysis import Path, Step
from answerkey.types import Samples

#: Types of which Polars finds equal values just as Python does, beside whole numbers and floats.
_EXACT: Final = (pl.String, pl.Boolean, pl.Null)


@dataclass(frozen=True)
class Unkeyed:
    """No columns tell the rows apart, for the reason given: each row is rendered on its own."""

    why: str


@dataclass(frozen=True)
class Groups:
    """Rows that are alike: the first row of each group, and for each row the number of its group."""

    leaders: pl.Series
    codes: pl.Series


def find_keys(path: Path, table: Samples, *, is_lone: bool) -> list[pl.Series] | Unkeyed:
    """Return columns that are alike in two rows only if all that a path can lead to is alike in them.

    A template that is nothing but the path (`is_lone`) calls no method on the way.
    """
    if not path:
        return Unkeyed("it uses the row as a whole")
    first = path[0]
    if may_read_row(path, table) and not is_lone:
        return Unkeyed(f"there is no column `{first.key}`, which leaves the method of the row")
    if first.key not in table.columns:
        return []
    series = table.frame[str(first.key)]
    if first.key in table.encoded:
        return [series]
    keys, last = _follow(series, path[1:], is_lone=is_lone)
    value = [] if last is None else find_value_keys(last)
    if value is None:
        return Unkeyed(f"the values of column `{first.key}` cannot be told apart by the column library")
    return [*keys, *value]


def may_read_row(path: Path, table: Samples) -> bool:
    """Say whether a path can lead to any column: to the row, or to a method of it for want of a column."""
    return not path or (_is_method(path[0]) and path[0].key not in table.columns)


def _follow(
    series: pl.Series, steps: Sequence[Step], *, is_lone: bool
) -> tuple[list[pl.Series], pl.Series | None]:
    """Return what tells apart the ways to the end of a path, and the values there; None where there are none.

    Where a step leaves the shape of the column (a method, a character of a text) the whole value counts.
    """
    keys: list[pl.Series] = []
    for step in steps:
        if isinstance(series.dtype, pl.Struct):
            keys.append(series.is_null())
            if step.key not in [one.name for one in series.dtype.fields]:
                return keys, series if _is_method(step) and not is_lone else None
            series = series.struct.field(str(step.key))
        elif isinstance(series.dtype, pl.List) and isinstance(step.key, int) and fits_index(step.key):
            keys.append(series.list.len())
            series = series.list.get(step.key, null_on_oob=True)
        else:
            break
    return keys, series


def fits_index(index: int) -> bool:
    """Say whether the column library can take an index."""
    return abs(index) < 2**31


def _is_method(step: Step) -> bool:
    return step.kind == "attribute" and hasattr(dict, str(step.key))


def find_value_keys(series: pl.Series) -> list[pl.Series] | None:
    """Return columns that are alike in two rows only if the values are the same; None if none are."""
    if not _is_exact(series.dtype):
        return None
    negative = [is_negative_zero(leaf) for leaf in _find_floats(series)]
    if not any(one.any() for one in negative):
        return [series]
    return [series, negative[0]] if series.dtype.is_float() else None


def _is_exact(dtype: pl.DataType) -> bool:
    if isinstance(dtype, pl.List):
        return _is_exact(cast("pl.DataType", dtype.inner))
    if isinstance(dtype, pl.Struct):
        return all(_is_exact(cast("pl.DataType", one.dtype)) for one in dtype.fields)
    return dtype.is_integer() or dtype.is_float() or isinstance(dtype, _EXACT)


def _find_floats(series: pl.Series) -> Iterator[pl.Series]:
    """Yield the floats of a column, at any depth."""
    if series.dtype.is_float():
        yield series
    elif isinstance(series.dtype, pl.List) and "Float" in str(series.dtype):
        yield from _find_floats(series.explode())
    elif isinstance(series.dtype, pl.Struct):
        for one in series.dtype.fields:
            yield from _find_floats(series.struct.field(one.name))


def is_negative_zero(series: pl.Series) -> pl.Series:
    """Return where a float is -0.0, which prints otherwise than 0.0 and equals it."""
    return ((series == 0) & (1 / series < 0)).fill_null(value=False)


#: Columns of texts with no more distinct ones than this are grouped by a quicker way.
FEW_TEXTS = 1_000


def group_rows(keys: Sequence[pl.Series], height: int) -> Groups:
    """Return the groups of rows that are alike in all keys, in the order of their first rows."""
    if all(map(_are_alike, keys)):
        first = pl.zeros(height, pl.UInt32, eager=True)
        return Groups(first.head(1), first)
    if len(keys) == 1 and keys[0].dtype == pl.String and not keys[0].null_count():
        leaders = keys[0].arg_unique()
        if len(leaders) <= FEW_TEXTS:  # a third of the time of what is done for any keys
            texts = pl.Enum(keys[0].gather(leaders))
            return Groups(leaders, keys[0].cast(texts).to_physical().cast(pl.UInt32))
    frame = pl.DataFrame([key.alias(str(number)) for number, key in enumerate(keys)])
    first = frame.with_row_index("row").select(pl.col("row").min().over(frame.columns)).to_series()
    is_leader = first == pl.int_range(height, dtype=pl.UInt32, eager=True)
    numbers = is_leader.cum_sum() - 1
    return Groups(is_leader.arg_true(), numbers.gather(first).cast(pl.UInt32))


def _are_alike(series: pl.Series) -> bool:
    """Say whether all rows of a column of texts, or of lists of texts, are the same; False if unsure.

    Choices mostly are, and this is found out in a third of the time that grouping takes.
    """
    if series.null_count() or not len(series):
        return False
    if series.dtype == pl.String:
        return bool((series == series[0]).all())
    if series.dtype != pl.List(pl.String):
        return False
    sizes = series.list.len()
    size, cells = int(sizes[0]), series.explode()
    if not size or cells.null_count() or not (sizes == size).all():
        return False
    return all(bool((cells.gather_every(size, place) == cells[place]).all()) for place in range(size))
