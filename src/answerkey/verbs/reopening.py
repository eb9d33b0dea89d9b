"""A finished run opened again: its samples and completions, as they were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answerkey.datasets import Dataset, Selection, completions_within, open_dataset, read_table
from answerkey.errors import DataError, Place, RunError, listing
from answerkey.runs import Run, TaskRun
from answerkey.spec import Task, source_from, task_from_source
from answerkey.types import Completions, Samples
from answerkey.verbs.opening import hash_file, match_completions


@dataclass(frozen=True)
class Reopened:
    """One task of a run with its samples and completions; completions are row for row as the scores.

    Under trials there are several of both for each sample, one after the other.
    """

    task: Task
    task_run: TaskRun
    samples: Samples
    completions: Completions


def reopen(run: Run, task_key: str | None = None) -> Reopened:
    """Return a task of a run with its samples and completions; E505 when files are gone or have changed."""
    task_run = find_task(run, task_key)
    task = task_from_source(task_run.source["task"])
    dataset = _reopen_samples(task_run)
    return Reopened(task, task_run, dataset.samples(), _reopen_completions(task, task_run, dataset))


def find_task(run: Run, key: str | None) -> TaskRun:
    """Return the task with this key, or the only one."""
    if key is None and len(run.tasks) == 1:
        return next(iter(run.tasks.values()))
    if key is None or key not in run.tasks:
        problem = "the run has several tasks" if key is None else f"the run has no task `{key}`"
        raise RunError("E504", problem, hint=f"name one with `--task`: {listing(run.tasks)}")
    return run.tasks[key]


def _reopen_samples(task_run: TaskRun) -> Dataset:
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


def _reopen_completions(task: Task, task_run: TaskRun, dataset: Dataset) -> Completions:
    entry: Mapping[str, Any] = task_run.manifest["completions"]
    kept = task_run.completions
    if not kept.is_empty():
        return Completions(kept)
    if entry["source"] == "recorded":
        return _reread_completions(entry, dataset, task.num_trials)
    if entry["source"] == "trace" and task.solver is not None:
        return task.solver.solve(dataset.samples(), model=None, known=None, examples=None)
    own = completions_within(dataset.samples(), column=entry["column"])
    return own if own is not None else Completions.build_blank(dataset.samples().ids)


def _reread_completions(entry: Mapping[str, Any], dataset: Dataset, num_trials: int) -> Completions:
    path = Path(entry["file"])
    if not path.is_file():
        raise gone("completions", str(path), "the file is not there any more")
    if hash_file(path) != entry["sha256"]:
        raise gone("completions", str(path), "its content has changed since the run")
    return match_completions(read_table(path, by_trial=True), dataset, entry["column"], num_trials)


def gone(what: str, file: str | None, why: str) -> RunError:
    """Return E505 for something that a run refers to."""
    return RunError(
        "E505",
        f"the run's {what} cannot be opened again: {why}",
        where=Place(file=file),
        hint="put the file back as it was, or run again with `--copy` so that the run keeps the completions",
    )
