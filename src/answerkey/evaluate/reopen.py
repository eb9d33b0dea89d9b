"""Reopen a finished run, to read its rows or to compute its metrics by other groups."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import polars as pl

from answerkey.datasets.dataset import Dataset, Recorded, Selection, open_dataset
from answerkey.datasets.formats import ParsedRow
from answerkey.datasets.questions import QuestionColumns
from answerkey.datasets.recorded import RecordedCompletions, find_completion_column
from answerkey.datasets.rows import ID_COLUMN, Positions, Rows, iterate_blocks, repeat_positions
from answerkey.datasets.sources import LocalSource, MemorySource, Source
from answerkey.datasets.storage import digest_file, is_stored
from answerkey.datasets.tables import (
    SAMPLE_COLUMN,
    DataTable,
    collect_rows,
    digest_files,
    load_rows,
    load_table,
)
from answerkey.errors import DataError, Place, RunError, listing, refuse_column, suggest
from answerkey.evaluate.choice_order import order_dataset
from answerkey.evaluate.evaluate import load_scores, measure_task
from answerkey.evaluate.job import find_completions, find_traced
from answerkey.metrics import describe_samples
from answerkey.runs import KeptCompletions, Run, StoredTable, TaskRun
from answerkey.spec import Task, source_from, task_from_source
from answerkey.spec.job import fit_rows
from answerkey.types import Completions, MetricValue, Samples

#: The most rows that are read together.
READ_ROWS = 65_536
CONTENT_CHANGED = "its content has changed since the run"


@dataclass(frozen=True)
class RunExcerpt:
    """Some rows of a run, one per sample and trial: samples, completions and scores."""

    samples: Samples
    completions: Completions
    scores: pl.DataFrame


class RunPart(NamedTuple):
    """Some samples of a task of a run, without the others, as a worker process gets them."""

    task: Task
    task_run: TaskRun
    positions: Positions
    rows: Rows
    recorded: Recorded

    def load(self) -> RunExcerpt:
        """Return their rows, with all their trials."""
        size = self.task.num_trials
        samples = self.rows.load()
        completions = self.recorded.read(samples)
        scores = self.task_run.stored_scores.take(repeat_positions(self.positions, size))
        return RunExcerpt(samples.repeat(size), completions, scores)


@dataclass(frozen=True)
class Reopened:
    """One task of a run with its dataset and its completions; nothing of them is loaded yet."""

    task: Task
    task_run: TaskRun
    dataset: Dataset
    recorded: Recorded

    def __len__(self) -> int:
        return len(self.dataset) * self.task.num_trials

    def read(self, samples: Positions) -> RunExcerpt:
        """Return the rows of the samples at these positions, with all their trials."""
        return self.take(samples).load()

    def take(self, samples: Positions) -> RunPart:
        """Return the samples at these positions; nothing is loaded."""
        first = samples[0]
        end = samples[-1] + 1
        rows = self.dataset.rows.slice(first, end - first)
        recorded = self.recorded.take(range(first, end))
        if not isinstance(samples, range):
            rows = rows.take(samples - first)
            recorded = recorded.take(samples - first)
        return RunPart(
            self.task,
            self.task_run,
            samples,
            rows,
            recorded,
        )

    def iterate(self) -> Iterator[RunExcerpt]:
        """Yield all rows, some samples at a time."""
        rows = min(READ_ROWS, fit_rows(self.dataset.rows, self.recorded))
        step = max(1, rows // self.task.num_trials)
        for samples in self.dataset.cut(step):
            yield self.read(samples)


def reopen(run: Run, task_key: str | None = None) -> Reopened:
    """Return a task of a run with its samples and completions.

    E505 when files are gone or have changed.
    """
    task_run = find_task(run, task_key)
    task = task_from_source(task_run.source["task"])
    dataset = reopen_rows(task_run, task)
    recorded: Recorded | None = find_stored_completions(task_run, dataset)
    if recorded is None:
        recorded = _reopen_completions(task, task_run.manifest["completions"], dataset)
    return Reopened(
        task,
        task_run,
        dataset,
        recorded,
    )


def _reopen_completions(
    task: Task,
    entry: Mapping[str, Any],
    dataset: Dataset,
) -> RecordedCompletions:
    """Return the completions that a run refers to, as its entry says."""
    recorded: RecordedCompletions | None = None
    if entry["source"] == "recorded":
        table = _reload_completions(entry)
        recorded = find_completions(
            task,
            dataset,
            table,
            entry["column"],
            calls_model=False,
        )
    elif entry["source"] == "trace":
        recorded = find_traced(task)
    if recorded is None:
        recorded = find_completion_column(dataset.rows, entry["column"])
    if entry.get("split_thinking"):
        return replace(recorded, splits_thoughts=True)
    return recorded


def find_task(run: Run, key: str | None) -> TaskRun:
    """Return the task with this key, or the only one."""
    if key is None and len(run.tasks) == 1:
        return next(iter(run.tasks.values()))
    if key is not None and key in run.tasks:
        return run.tasks[key]
    message = f"the run has no task `{key}`"
    if key is None:
        message = f"the run has {len(run.tasks)} tasks"
    hint = suggest(key or "", run.tasks) or f"name one with `--task`: {listing(run.tasks)}"
    raise RunError("E504", message, hint=hint)


def reopen_rows(task_run: TaskRun, task: Task | None = None) -> Dataset:
    """Return the dataset of a task with a row for each row of its scores, trials aside."""
    task = task or task_from_source(task_run.source["task"])
    dataset = reopen_dataset(task_run)
    entry = task_run.manifest["completions"]
    if entry["source"] != "recorded" or task.choice_order is None:
        return order_dataset(task, dataset)
    if entry["file"]:
        return order_dataset(task, dataset, _reload_completions(entry))
    return order_dataset(task, dataset, _restore_orders(task, task_run))


def _restore_orders(task: Task, task_run: TaskRun) -> Rows:
    """Return the orders in which samples were shown, from completions that were in memory."""
    scores = task_run.scores.gather_every(task.num_trials)
    metadata = pl.col(task.main_step.key).struct.field("metadata").struct
    try:
        orders = scores.select(
            metadata.field("base_sample_id").alias("sample_id"),
            metadata.field("option_order"),
        )
    except pl.exceptions.PolarsError as error:
        raise gone_error("completions", None, str(error)) from error
    if any(orders.null_count().row(0)):
        reason = "in which order a sample was shown that failed is not known"
        raise gone_error("completions", None, reason)
    return load_rows(orders, name="completions", by_trial=True).rows


def reopen_dataset(task_run: TaskRun) -> Dataset:
    """Return the dataset of a task with the rows that were used.

    E505 when it is gone or has changed.
    """
    entry: Mapping[str, Any] = task_run.manifest["dataset"]
    selection = Selection(**task_run.manifest["selection"])
    try:
        source = find_source(task_run.source["dataset"], task_run.stored_samples, entry["key"])
        if source.type == LocalSource.type:
            source = CheckedFile(**vars(source))
        dataset = open_dataset(source, selection=selection, name=entry["key"])
    except DataError as error:
        raise gone_error("dataset", entry["file"], error.message) from error
    if dataset.fingerprint != entry["fingerprint"]:
        raise gone_error("dataset", entry["file"], CONTENT_CHANGED)
    return dataset


@dataclass(frozen=True)
class DerivedRows:
    """Rows of a file with the columns that `questions` makes of them, when they are loaded."""

    rows: Rows
    questions: QuestionColumns
    columns: Sequence[str]
    text_columns: ClassVar[frozenset[str]] = frozenset()

    @property
    def file(self) -> str | None:
        """The name of the file in errors."""
        return self.rows.file

    @property
    def ids(self) -> pl.Series:
        """The ids of all rows."""
        if "id" not in self.questions.columns:
            return self.rows.ids
        return pl.concat([block.ids for _, block in iterate_blocks(self)])

    def __len__(self) -> int:
        return len(self.rows)

    def slice(self, offset: int, length: int) -> Rows:
        """Return the rows from `offset` on, at most `length` of them."""
        return replace(self, rows=self.rows.slice(offset, length))

    def take(self, positions: Positions, /) -> Rows:
        """Return the rows at these positions."""
        return replace(self, rows=self.rows.take(positions))

    def load(self) -> Samples:
        """Return the rows."""
        samples = self.questions.derive(self.rows.load())
        if "id" not in self.questions.columns:
            return samples
        items = []
        for sample in samples:
            items.append(replace(sample, id=str(sample.fields[ID_COLUMN])))
        return replace(samples, items=items)


class CheckedFile(LocalSource):
    """A file whose rows a run has checked: most commands look at a few of them again."""

    def read(self, *, name: str) -> DataTable:
        """Return the rows of the file, with columns that are derived when rows are loaded."""
        if not self.questions or self.derive or self.file_column:
            return super().read(name=name)
        table = load_table(self.file_path, replace(self, questions={}))
        questions = QuestionColumns.of(self.questions, table.rows)
        if questions.unfolded:
            return super().read(name=name)
        first = questions.derive(table.rows.slice(0, 1).load())
        rows = DerivedRows(table.rows, questions, first.columns)
        return DataTable(rows, digest_files(self, [[table.digest, None]]))


def find_source(
    stored: Mapping[str, Any],
    samples: StoredTable,
    name: str,
) -> Source:
    """Return the source of the rows of a run; rows from memory are in its own files."""
    if stored["type"] != MemorySource.type:
        return source_from(stored)
    frame = samples.read_all()
    try:
        records = []
        for number, text in enumerate(frame[SAMPLE_COLUMN], 1):
            records.append(ParsedRow(number, json.loads(text), 0))
        rows = collect_rows(records, [name], is_limited=False)
        return MemorySource(DataTable(rows, str(stored["digest"])))
    except (pl.exceptions.PolarsError, AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"cannot read `{samples.store.show(samples.base)}`: {error}"
        raise RunError("E503", message, hint="the run folder is damaged") from error


def find_stored_completions(task_run: TaskRun, dataset: Dataset) -> KeptCompletions | None:
    """Return the completions stored in the run; None where it only refers to them."""
    kept = task_run.stored_completions
    if not len(kept):
        return None
    return KeptCompletions(kept, len(kept) // max(len(dataset), 1))


def _reload_completions(entry: Mapping[str, Any]) -> Rows:
    file = str(entry["file"])
    try:
        if not is_stored(file) and not Path(file).is_file():
            raise gone_error("completions", file, "the file is not there any more")
        if digest_file(file) != entry["sha256"]:
            raise gone_error("completions", file, CONTENT_CHANGED)
    except DataError as error:
        raise gone_error("completions", file, error.message) from error
    return load_table(file, by_trial=True).rows


def gone_error(part: str, file: str | None, reason: str) -> RunError:
    """Return E505 for a part of a run that cannot be opened again."""
    message = f"the run's {part} cannot be opened again: {reason}"
    hint = (
        "put the file back as it was, or run again with `--copy` so that the run keeps the "
        "completions"
    )
    return RunError("E505", message, where=Place(file=file), hint=hint)


# The metrics of a finished run by other groups or clusters; nothing is scored or written.


def regroup(
    run: Run,
    *,
    group_by: Sequence[str] = (),
    cluster_by: str | None = None,
) -> Run:
    """Return the run with its metrics by these groups and clusters, in place of its own.

    The dataset must still be there (E505). Metrics of the user's functions stay as they are:
    measuring them would run code.
    """
    changes: dict[str, Any] = {}
    if group_by:
        changes["group_by"] = tuple(dict.fromkeys(group_by))
    if cluster_by:
        changes["cluster_by"] = cluster_by
    tasks = {}
    for key, task_run in run.tasks.items():
        task = task_from_source(task_run.source["task"])
        steps = []
        for step in task.scoring:
            metrics = []
            for metric in step.metrics:
                if metric.metric.type != "python":
                    design = metric.design._replace(**changes)
                    metrics.append(metric._replace(design=design))
            steps.append(replace(step, metrics=tuple(metrics)))
        values = dict(task_run.metrics)
        for value in _remeasure(task_run, replace(task, scoring=tuple(steps))):
            values[value.name] = value
        tasks[key] = replace(task_run, metrics=values)
    return replace(run, tasks=tasks)


def _remeasure(task_run: TaskRun, task: Task) -> list[MetricValue]:
    """Return the metrics of a task from the stored scores of its run."""
    dataset = reopen_rows(task_run, task)
    columns = task.design_columns
    for name in columns:
        require_column(name, dataset.columns, task_run)
    samples = dataset.samples().repeat(task.num_trials)
    facts = describe_samples(samples, columns)
    encoded = task_run.manifest.get("encoded") or {}
    scores = load_scores(task, task_run.stored_scores, encoded)
    return measure_task(task, scores, facts)


def require_column(
    name: str,
    columns: Sequence[str],
    task_run: TaskRun,
) -> None:
    """Raise E206 when the dataset of a task has no such column."""
    if name not in columns:
        entry = task_run.manifest["dataset"]
        message = f"dataset `{entry['key']}` has no column `{name}`"
        raise refuse_column(
            message,
            name,
            columns,
            Place(file=entry.get("file")),
        )
