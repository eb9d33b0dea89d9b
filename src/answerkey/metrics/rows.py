"""What is known of each row of scores besides the score: its sample, its order, and its labels.

A table has a row for each sample and trial, in the order of the scores: `sample_id`; where options
are shown in several orders `base_sample_id`, `left_in_place` and `is_extra`; and a column of the
dataset `x` as text in `label:x`.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from answerkey.metrics.base import write_label
from answerkey.types import Samples

#: How samples without a group are called.
NO_GROUP = "(none)"

_ORDER_COLUMNS = ("base_sample_id", "left_in_place", "is_extra")


def describe_samples(samples: Samples, columns: Iterable[str]) -> pl.DataFrame:
    """Return what is known of these rows, with the labels in these columns of the dataset."""
    series = [samples.ids]
    if samples.orders is not None:
        for name in _ORDER_COLUMNS:
            if name in samples.orders.columns:
                series.append(samples.orders[name])
    for column in dict.fromkeys(columns):
        series.append(label_rows(samples, column).alias(f"label:{column}"))
    return pl.DataFrame(series)


def label_rows(samples: Samples, column: str) -> pl.Series:
    """Return a column of the dataset as text, as metrics write values; null stays null."""
    labels: list[str | None] = []
    for value in samples.values(column):
        labels.append(None if value is None else write_label(value))
    return pl.Series(column, labels, dtype=pl.String)


def name_groups(labels: pl.Series) -> pl.Series:
    """Return labels with the samples that have none in a group of their own."""
    return labels.fill_null(NO_GROUP)


def name_clusters(labels: pl.Series, ids: pl.Series) -> pl.Series:
    """Return labels with each sample that has none in a cluster of its own.

    No label begins like those.
    """
    single = pl.lit("\0") + ids.cast(pl.String)
    clusters = pl.select(pl.when(labels.is_null()).then(single).otherwise(labels)).to_series()
    return clusters.rename(labels.name)


def find_owners(samples: Samples) -> pl.Series:
    """Return the id of the sample that each row is of, in whatever order its options stand."""
    return samples.ids if samples.orders is None else samples.orders["base_sample_id"]


def is_ordered(rows: pl.DataFrame) -> bool:
    """Whether options are shown in other orders than in the file."""
    return "base_sample_id" in rows.columns


def read_owners(rows: pl.DataFrame) -> pl.Series:
    """Return the id of the sample that each row is of, in whatever order its options stand."""
    return rows["base_sample_id"] if is_ordered(rows) else rows["sample_id"]


def number_samples(rows: pl.DataFrame, num_trials: int) -> pl.Series:
    """Return a number for each row, the same for all rows of a sample."""
    if is_ordered(rows):
        return rows["base_sample_id"].rle_id()
    return pl.int_range(rows.height, eager=True) // num_trials


def find_own_rows(rows: pl.DataFrame) -> pl.Series:
    """Return which rows count: all but those that are there to estimate a prior."""
    if "is_extra" in rows.columns:
        return ~rows["is_extra"]
    return pl.repeat(
        value=True,
        n=rows.height,
        dtype=pl.Boolean,
        eager=True,
    )
