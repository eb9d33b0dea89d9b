"""Completions that are there already, in the order of the samples; they are read shard by shard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

import polars as pl

from answerkey.datasets.completion_cells import CompletionColumn, find_completion_column, refuse_column
from answerkey.datasets.rows import Rows
from answerkey.types import Completions, Samples


class Recorded(Protocol):
    """Completions that somebody once gave; a slice of them says where to read, and is small."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the dataset that are read."""

    @property
    def num_trials(self) -> int:
        """How many there are for each sample."""

    def slice(self, offset: int, length: int) -> Self:
        """Return those of `length` samples from `offset` on."""

    def read(self, samples: Samples) -> Completions:
        """Return the completions of the samples, which are all that these are for."""


@dataclass(frozen=True)
class OwnCompletions:
    """Completions that stand beside the questions."""

    column: CompletionColumn
    num_trials: int = 1

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the dataset that are read."""
        return self.column.columns

    def slice(self, offset: int, length: int) -> Self:  # noqa: ARG002 - the samples bring their own
        """Return the same."""
        return self

    def read(self, samples: Samples) -> Completions:
        """Return what the column says."""
        return self.column.read(samples, samples.ids)


@dataclass(frozen=True)
class BlankCompletions:
    """Completions without text, for samples that are evaluated without any."""

    columns: frozenset[str] = frozenset()
    num_trials: int = 1

    def slice(self, offset: int, length: int) -> Self:  # noqa: ARG002 - there is nothing to cut
        """Return the same."""
        return self

    def read(self, samples: Samples) -> Completions:
        """Return a completion without text for each sample."""
        return Completions.build_blank(samples.ids)


@dataclass(frozen=True)
class FileCompletions:
    """Completions of another table, whose rows are in the order of the samples and of their trials."""

    rows: Rows
    column: CompletionColumn
    num_trials: int = 1
    columns: frozenset[str] = frozenset()

    def slice(self, offset: int, length: int) -> Self:
        """Return those of `length` samples from `offset` on."""
        size = self.num_trials
        return replace(self, rows=self.rows.slice(offset * size, length * size))

    def read(self, samples: Samples) -> Completions:
        """Return what the column says, under the ids of the samples."""
        ids = repeat_ids(samples.ids, self.num_trials)
        found = self.column.read(self.rows.load(self.column.columns), ids)
        return found if self.num_trials == 1 else found.number(range(self.num_trials))


def find_own_completions(rows: Rows, *, column: str | None = None) -> OwnCompletions | None:
    """Return the completions that stand beside the questions, or None if no column holds any.

    A column that is named but not there is an error, and so are cells that are no completions.
    """
    found = find_completion_column(rows, column)
    if found is None:
        if column is not None:
            raise refuse_column(rows, column)
        return None
    found.check(rows)
    return OwnCompletions(found)


def repeat_ids(ids: pl.Series, times: int) -> pl.Series:
    """Return each id `times` times, one after the other."""
    if times == 1:
        return ids
    return ids.gather(pl.int_range(len(ids) * times, dtype=pl.UInt32, eager=True) // times)
