"""A finished run opened again: its samples and completions, as they were, read part by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import polars as pl

from answerkey.datasets import (
    BlankCompletions,
    Dataset,
    Recorded,
    Rows,
    Selection,
    digest_file,
    find_own_completions,
    is_stored,
    load_table,
    match_completions,
    open_dataset,
)
from answerkey.errors import DataError, Place, RunError, listing
from answerkey.runs import KeptCompletions, Run, TaskRun
from answerkey.solvers import Solver
from answerkey.spec import Task, source_from, task_from_source
from answerkey.types import Completions, Samples
from answerkey.verbs.columns import list_solver_columns
from answerkey.verbs.ordering import name_completions, order_dataset
from answerkey.verbs.spreading import fit_rows

#: Rows that become Python values take more memory than those that stay columns.
READ_TOGETHER = 32_768


@dataclass(frozen=True)
class Excerpt:
    """Some rows of a run, one per sample and trial: samples, completions and scores, row for row."""

    samples: Samples
    completions: Completions
    scores: pl.DataFrame


@dataclass(frozen=True)
class Reopened:
    """One task of a run with its dataset and its completions; nothing of them is loaded yet."""

    task: Task
    task_run: TaskRun
    dataset: Dataset
    recorded: Recorded

    def __len__(self) -> int:
        return len(self.dataset) * self.task.num_trials

    def read(self, offset: int, length: int) -> Excerpt:
        """Return the rows of `length` samples from the one at `offset` on, with all their trials."""
        size = self.task.num_trials
        samples = self.dataset.rows.slice(offset, length).load()
        completions = self.recorded.slice(offset, len(samples)).read(samples)
        scores = self.task_run.stored_scores.read(offset * size, len(samples) * size)
        return Excerpt(samples.repeat(size), completions, scores)

    def iterate(self) -> Iterator[Excerpt]:
        """Yield all rows, some samples at a time."""
        most = min(READ_TOGETHER, fit_rows(self.dataset.rows, None, self.recorded))
        step = max(1, most // self.task.num_trials)
        for offset in range(0, len(self.dataset), step):
            yield self.read(offset, step)


@dataclass(frozen=True)
class TracedCompletions:
    """Completions that a solver finds in the dataset, without asking a model."""

    solver: Solver
    columns: frozenset[str]
    num_trials: int = 1

    def slice(self, offset: int, length: int) -> Self:  # noqa: ARG002 - the samples bring their own
        """Return the same."""
        return self

    def read(self, samples: Samples) -> Completions:
        """Return what the solver finds."""
        return self.solver.solve(samples, model=None, known=None, examples=None)


def reopen(run: Run, task_key: str | None = None) -> Reopened:
    """Return a task of a run with its samples and completions; E505 when files are gone or have changed."""
    task_run = find_task(run, task_key)
    task = task_from_source(task_run.source["task"])
    dataset = reopen_rows(task_run, task)
    return Reopened(task, task_run, dataset, _reopen_completions(task, task_run, dataset))


def find_task(run: Run, key: str | None) -> TaskRun:
    """Return the task with this key, or the only one."""
    if key is None and len(run.tasks) == 1:
        return next(iter(run.tasks.values()))
    if key is None or key not in run.tasks:
        problem = "the run has several tasks" if key is None else f"the run has no task `{key}`"
        raise RunError("E504", problem, hint=f"name one with `--task`: {listing(run.tasks)}")
    return run.tasks[key]


def reopen_rows(task_run: TaskRun, task: Task | None = None) -> Dataset:
    """Return the dataset of a task with a row for each row of its scores, trials aside."""
    task = task or task_from_source(task_run.source["task"])
    dataset, entry = reopen_dataset(task_run), task_run.manifest["completions"]
    if task.choice_order is None or entry["source"] != "recorded" or not entry["file"]:
        return order_dataset(task, dataset)
    return order_dataset(task, dataset, _reload_completions(entry))


def reopen_dataset(task_run: TaskRun) -> Dataset:
    """Return the dataset of a task with the rows that were used; E505 when it is gone or has changed."""
    entry: Mapping[str, Any] = task_run.manifest["dataset"]
    selection = Selection(**task_run.manifest["selection"])
    try:
        dataset = open_dataset(
            source_from(task_run.source["dataset"]), selection=selection, name=entry["key"]
        )
    except DataError as error:
        raise gone("dataset", entry["file"], error.message) from error
    if dataset.fingerprint != entry["fingerprint"]:
        raise gone("dataset", entry["file"], "its content has changed since the run")
    return dataset


def _reopen_completions(task: Task, task_run: TaskRun, dataset: Dataset) -> Recorded:
    entry: Mapping[str, Any] = task_run.manifest["completions"]
    if (kept := find_kept(task_run, dataset)) is not None:
        return kept
    if entry["source"] == "recorded":
        table = name_completions(task, _reload_completions(entry), dataset)
        return match_completions(table, dataset, column=entry["column"], num_trials=task.num_trials)
    if entry["source"] == "trace" and task.solver is not None:
        columns = list_solver_columns(task.solver, dataset)
        return TracedCompletions(task.solver, frozenset(dataset.columns) if columns is None else columns)
    return find_own_completions(dataset.rows, column=entry["column"]) or BlankCompletions()


def find_kept(task_run: TaskRun, dataset: Dataset) -> KeptCompletions | None:
    """Return the completions that the run keeps, if it does."""
    kept = task_run.stored_completions
    return KeptCompletions(kept, len(kept) // max(len(dataset), 1)) if len(kept) else None


def _reload_completions(entry: Mapping[str, Any]) -> Rows:
    file = str(entry["file"])
    try:
        if not is_stored(file) and not Path(file).is_file():
            raise gone("completions", file, "the file is not there any more")
        if digest_file(file) != entry["sha256"]:
            raise gone("completions", file, "its content has changed since the run")
    except DataError as error:
        raise gone("completions", file, error.message) from error
    return load_table(file, by_trial=True).rows


def gone(what: str, file: str | None, why: str) -> RunError:
    """Return E505 for something that a run refers to."""
    return RunError(
        "E505",
        f"the run's {what} cannot be opened again: {why}",
        where=Place(file=file),
        hint="put the file back as it was, or run again with `--copy` so that the run keeps the completions",
    )
