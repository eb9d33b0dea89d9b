"""Rows of a task at any positions: samples, completions and scores, read where they lie."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from answerkey.datasets import Recorded, Rows
from answerkey.errors import RunError
from answerkey.evaluate import fit_rows, reopen
from answerkey.runs import Run, Table, TaskRun
from answerkey.types import Completions, Samples

#: Rows between which lie no more samples than this part of those that are read together are read together,
#: too: to find one row in a file takes as long as to read the thousands around it.
NEAR_PART = 4
#: So many samples are read together, or fewer where they are long.
MOST_TOGETHER = 65_536


@dataclass(frozen=True)
class Excerpt:
    """Some rows of a task; all tables have the same.

    `scores` has `sample_id`, `trial` and a struct per scorer. `samples` is None where the dataset is gone,
    `completions` where they are not there or were not asked for.
    """

    positions: pl.Series
    scores: pl.DataFrame
    samples: Samples | None
    completions: Completions | None

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True)
class Wanted:
    """What to read of a row: columns of the dataset (None for all), scorers (None for all), completions."""

    columns: frozenset[str] | None = None
    scorers: tuple[str, ...] | None = None
    completions: bool = True


@dataclass(frozen=True)
class RowSource:
    """Where the rows of a task lie; small enough to be sent around.

    `rows` is None when the dataset is gone; `missing` then says so. `kept` are the completions that a run
    has by itself.
    """

    scores: Table
    num_trials: int
    rows: Rows | None = None
    recorded: Recorded | None = None
    kept: Table | None = None
    missing: str | None = None
    most: int = MOST_TOGETHER

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def columns(self) -> list[str]:
        """The columns of the dataset."""
        return [] if self.rows is None else self.rows.columns

    @property
    def has_completions(self) -> bool:
        """Whether the completions can be read."""
        return self.recorded is not None or self.kept is not None

    def read(self, positions: pl.Series, wanted: Wanted) -> Iterator[Excerpt]:
        """Yield the rows at these positions, which ascend, some at a time."""
        for first, last, places in cut_stretches(positions, self.num_trials, self.most):
            yield self._read_stretch(first, last, places, wanted)

    def iterate(self, wanted: Wanted) -> Iterator[Excerpt]:
        """Yield all rows in order, some at a time."""
        return self.read(pl.int_range(len(self), dtype=pl.UInt32, eager=True), wanted)

    def _read_stretch(self, first: int, last: int, places: pl.Series, wanted: Wanted) -> Excerpt:
        """Return rows of the samples from `first` to before `last`; `places` are counted from the first."""
        size, is_whole = self.num_trials, len(places) == (last - first) * self.num_trials
        names = None if wanted.scorers is None else ["sample_id", "trial", *wanted.scorers]
        scores = self.scores.read(first * size, (last - first) * size, names)
        samples, completions = self._read_texts(first, last, wanted)
        if not is_whole:
            scores = scores[places]
            samples = None if samples is None else samples.take(places)
            completions = None if completions is None else completions.take(places)
        return Excerpt(places + first * size, scores, samples, completions)

    def _read_texts(self, first: int, last: int, wanted: Wanted) -> tuple[Samples | None, Completions | None]:
        size = self.num_trials
        if self.rows is None or self.recorded is None:
            if self.kept is None or not wanted.completions:
                return None, None
            return None, Completions(self.kept.read(first * size, (last - first) * size))
        columns = wanted.columns
        if columns is not None and wanted.completions:
            columns |= self.recorded.columns
        samples = self.rows.slice(first, last - first).load(columns)
        said = self.recorded.slice(first, last - first).read(samples) if wanted.completions else None
        return samples.repeat(size), said


def cut_stretches(positions: pl.Series, size: int, most: int) -> Iterator[tuple[int, int, pl.Series]]:
    """Yield stretches of samples to be read together, and which of their rows are meant.

    A stretch is its first sample and the one after its last; `size` rows belong to each sample.
    """
    left = positions.cast(pl.UInt32)
    while len(left):
        first = int(left[0]) // size
        near = left.head(left.search_sorted((first + most) * size))
        samples = near // size
        gaps = (samples.diff() > max(1, most // NEAR_PART)).arg_true()
        near = near.head(int(gaps[0])) if len(gaps) else near
        left = left.slice(len(near))
        yield first, int(near[-1]) // size + 1, near - first * size


def open_source(run: Run, task_run: TaskRun) -> RowSource:
    """Return where the rows of a task lie; without its dataset when that is gone or has changed."""
    size = count_trials(task_run)
    try:
        opened = reopen(run, task_run.key)
    except RunError as error:
        if error.code != "E505":
            raise
        kept = task_run.stored_completions
        said = kept if len(kept) else None
        return RowSource(task_run.stored_scores, size, kept=said, missing=_say_missing(said))
    rows, recorded = opened.dataset.rows, opened.recorded
    most = min(MOST_TOGETHER, fit_rows(rows, None, recorded))
    return RowSource(task_run.stored_scores, size, rows, recorded, most=max(1, most // size))


def _say_missing(kept: Table | None) -> str:
    """Return what is not there; no path, for the sentence may travel further than the files."""
    what = "its texts" if kept is not None else "its texts and completions"
    return f"The dataset of this run is gone or has changed since, so that {what} are not shown."


def count_trials(task_run: TaskRun) -> int:
    """Return how often each sample was asked."""
    return int((task_run.manifest.get("trials") or {}).get("num_trials", 1))


def order_positions(positions: Sequence[int] | pl.Series) -> tuple[pl.Series, list[int]]:
    """Return positions ascending, each once, and for each of the given ones its place among them."""
    given = pl.Series(positions, dtype=pl.UInt32)
    distinct = given.unique().sort()
    return distinct, distinct.search_sorted(given).to_list() if len(given) else []


def join_columns(*groups: Collection[str] | None) -> frozenset[str] | None:
    """Return the columns of all groups; None, which means all, where one of them is None."""
    found: frozenset[str] = frozenset()
    for group in groups:
        if group is None:
            return None
        found |= frozenset(group)
    return found
