"""What is known of each row of scores besides the score: its sample, its order, and its labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from answerkey.metrics.base import write_label
from answerkey.types import Samples

#: How samples without a group are called.
NO_GROUP = "(none)"

_ORDER_COLUMNS = ("base_sample_id", "left_in_place", "is_extra")

#: A row that shows what a reason means: by the kind of reason and the reason.
Examples = Mapping[tuple[str, str], Mapping[str, str | None]]


@dataclass(frozen=True)
class RowFacts:
    """What the metrics and counts need to know of rows besides their scores.

    `table` has a row for each sample and trial, in the order of the scores. Where options are shown
    in several orders it has `base_sample_id`, `left_in_place` and `is_extra`; a column of the
    dataset `x` is there as text in `label:x`; then come the columns of `describe_rows`.
    """

    table: pl.DataFrame
    examples: Examples = field(default_factory=dict)

    @classmethod
    def join(cls, chunks: Sequence[RowFacts]) -> RowFacts:
        """Return the facts of all chunks; of several examples the first one stays."""
        examples: dict[tuple[str, str], Mapping[str, str | None]] = {}
        for chunk in reversed(chunks):
            examples |= chunk.examples
        table = pl.concat([chunk.table for chunk in chunks], how="diagonal_relaxed")
        return cls(table, examples)


def describe_samples(samples: Samples, columns: Iterable[str]) -> pl.DataFrame:
    """Return what is known of these rows, with the labels in these columns of the dataset."""
    series = []
    if samples.orders is not None:
        for name in _ORDER_COLUMNS:
            if name in samples.orders.columns:
                series.append(samples.orders[name])
    for column in dict.fromkeys(columns):
        labels = label_rows(samples, column).cast(pl.Categorical)
        series.append(labels.alias(f"label:{column}"))
    return pl.DataFrame(series)


def label_rows(samples: Samples, column: str) -> pl.Series:
    """Return a column of the dataset as text, as metrics write values; null stays null."""
    labels: list[str | None] = []
    for value in samples.values(column):
        labels.append(None if value is None else write_label(value))
    return pl.Series(column, labels, dtype=pl.String)


def name_groups(labels: pl.Series) -> pl.Series:
    """Return labels with the samples that have none in a group of their own."""
    return labels.cast(pl.String).fill_null(NO_GROUP)


def name_clusters(labels: pl.Series, owners: pl.Series) -> pl.Series:
    """Return labels with each sample that has none in a cluster of its own.

    `owners` are the ids or numbers of the samples. No label begins like the names of such clusters.
    """
    single = pl.lit("\0") + owners.cast(pl.String)
    text = labels.cast(pl.String)
    clusters = pl.select(pl.when(text.is_null()).then(single).otherwise(text)).to_series()
    return clusters.rename(labels.name)


def find_owners(samples: Samples) -> pl.Series:
    """Return the id of the sample that each row is of, in whatever order its options stand."""
    return samples.ids if samples.orders is None else samples.orders["base_sample_id"]


def is_ordered(rows: pl.DataFrame) -> bool:
    """Whether options are shown in other orders than in the file."""
    return "base_sample_id" in rows.columns


def number_samples(rows: pl.DataFrame, size: int, num_trials: int) -> pl.Series:
    """Return a number for each of `size` rows, the same for all rows of a sample."""
    if is_ordered(rows):
        return rows["base_sample_id"].rle_id()
    return pl.int_range(size, eager=True) // num_trials


def find_extra_rows(rows: pl.DataFrame) -> pl.Series | None:
    """Return which rows are there only to estimate a prior; None if there are no such rows."""
    if "is_extra" not in rows.columns or not rows["is_extra"].any():
        return None
    return rows["is_extra"]
