"""An index of a task's rows: what filters and sorting look at, as small whole numbers, made in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from answerkey.metrics.measure import label_rows
from answerkey.metrics.task_counts import NO_CATEGORY
from answerkey.reports.pages.coding import Coded, Coder
from answerkey.reports.pages.excerpts import Excerpt, Wanted
from answerkey.reports.pages.sample_source import SampleSource
from answerkey.types import ScoreStatus, Validity

CODED = ("status", "validity", "reason", "category", "truth", "predicted")


@dataclass(frozen=True)
class RowIndex:
    """The rows of a task by number: one coded column for each of `CODED`, and the value of each row.

    A column is None where it has too many different texts to be coded.
    """

    columns: dict[str, Coded | None]
    values: pl.Series

    def __len__(self) -> int:
        return len(self.values)

    def match(self, name: str, text: str) -> pl.Series | None:
        """Return which rows have this text in a column; None where that is not coded."""
        found = self.columns[name]
        return None if found is None else found.matches(text)

    def list_names(self, name: str) -> list[str]:
        """Return the texts of a column in their order; empty where it is not coded."""
        found = self.columns[name]
        return [] if found is None else sorted(found.names)

    @property
    def is_scored(self) -> pl.Series:
        """Which rows have a score."""
        return self._require("status", ScoreStatus.SCORED.value)

    @property
    def is_invalid(self) -> pl.Series:
        """Which completions are INVALID."""
        return self._require("validity", Validity.INVALID.value)

    @property
    def is_right(self) -> pl.Series:
        """Which rows have the full value."""
        return (self.values == 1).fill_null(value=False)

    def _require(self, name: str, text: str) -> pl.Series:
        found = self.match(name, text)
        if found is None:
            raise KeyError(name)
        return found


def build_index(source: SampleSource) -> RowIndex:
    """Return the index of all rows; some of them are in memory at a time."""
    coders = {name: Coder() for name in CODED}
    values: list[pl.Series] = []
    for table in iterate_columns(source):
        for name, coder in coders.items():
            coder.add(table[name])
        values.append(table["value"])
    length = len(source.rows)
    joined = pl.concat(values) if values else pl.Series([], dtype=pl.Float64)
    return RowIndex({name: coder.finish(length) for name, coder in coders.items()}, joined)


def iterate_columns(source: SampleSource) -> Iterator[pl.DataFrame]:
    """Yield the columns that are coded, and `value`, for all rows in order."""
    category = source.category
    wanted = Wanted(
        columns=frozenset() if category is None else frozenset({category}),
        scorers=(source.main.key,),
        completions=not source.says_validity,
    )
    for part in source.rows.iterate(wanted):
        verdicts = source.tabulate(part)
        yield verdicts.with_columns(label_categories(source, part).alias("category"))


def label_categories(source: SampleSource, part: Excerpt) -> pl.Series:
    """Return the category of each row as text; null where there is no column of categories."""
    if part.samples is None or source.category is None:
        return pl.repeat(None, len(part), dtype=pl.String, eager=True)
    return label_rows(part.samples, source.category).fill_null(NO_CATEGORY)
