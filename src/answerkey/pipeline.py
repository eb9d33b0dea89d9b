"""The one way of a task, top to bottom. Read this first.

    task file ──► Task ──► Samples ──► Completions ──► Scores ──► MetricValues ──► Run
                  spec     datasets    solvers         scorers    metrics          runs

`run_task` takes a prepared task through it: shard by shard on an engine, each shard written as a part, only
plain numbers kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from answerkey.datasets import Dataset
from answerkey.engines import Engine
from answerkey.errors import InternalError
from answerkey.metrics import find_category_column, finish_metric, measure_tally, merge_tallies, name_values
from answerkey.models import Model
from answerkey.runs import TaskWriter
from answerkey.scorers import apply_actions
from answerkey.spec import Task
from answerkey.types import Completions, Known, MetricValue, Samples

Progress = Callable[[str, int, int], None]
SHARD_ROWS = 65_536


@dataclass(frozen=True)
class Prepared:
    """A task with everything opened: nothing is left but the work.

    Either `recorded` has the completions, or the task's solver gets them, with `model` if it needs one.
    `failed` holds the positions of rows that the dataset got wrong: not asked, FAILED for every scorer.
    """

    key: str
    task: Task
    dataset: Dataset
    model: Model | None = None
    recorded: Completions | None = None
    examples: Samples | None = None
    failed: frozenset[int] = frozenset()
    keep_completions: bool = True


@dataclass(frozen=True)
class Shard:
    """Some consecutive samples: the how manieth shard, and where it starts in the dataset."""

    index: int
    offset: int
    samples: Samples


@dataclass(frozen=True)
class Measured:
    """What is kept of a shard: the parts of each metric, and the tally; plain numbers only."""

    rows: int
    parts: Sequence[Sequence[Any]]
    tally: Mapping[str, Any]
    encoded: Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Outcome:
    """A task's metric values, the tally of its counts, and which score fields are stored as JSON text."""

    values: Sequence[MetricValue]
    tally: Mapping[str, Any]
    encoded: Mapping[str, Sequence[str]]


def run_task(prepared: Prepared, writer: TaskWriter, engine: Engine, progress: Progress) -> Outcome:
    """Take a task from its samples to its metric values."""
    measured: list[Measured] = []
    for one in engine.map(partial(run_shard, prepared, writer), cut_shards(prepared.dataset)):
        measured.append(one)
        progress("score", sum(part.rows for part in measured), len(prepared.dataset))
    tally = merge_tallies([one.tally for one in measured])
    values = merge_metrics(prepared.task, measured)
    writer.write_metrics(values, tally)
    encoded = {
        step.key: sorted(set().union(*(one.encoded[step.key] for one in measured)))
        for step in prepared.task.scoring
    }
    return Outcome(values, tally, encoded)


def run_shard(prepared: Prepared, writer: TaskWriter, shard: Shard) -> Measured:
    """Take one shard from its samples to the parts of its metrics, and write its tables."""
    task, samples = prepared.task, shard.samples
    completions = complete(prepared, shard)
    failed = [row for row in range(len(samples)) if shard.offset + row in prepared.failed]
    scores = {
        step.key: step.scorer.score(samples, completions).fail(failed, "BAD_ROW") for step in task.scoring
    }
    scores = apply_actions(task.actions, samples, completions, scores)
    if prepared.keep_completions:
        writer.write_completions(shard.index, completions.frame)
    tables = [completions.frame.select("sample_id", "trial")]
    tables += [pl.DataFrame([one.frame.to_struct(key)]) for key, one in scores.items()]
    writer.write_scores(shard.index, pl.concat(tables, how="horizontal"))
    parts = [[one.metric.measure(scores[step.key]) for one in step.metrics] for step in task.scoring]
    category = find_category_column(samples.columns)
    tally = measure_tally(samples, completions, scores[task.main_step.key], category)
    return Measured(len(samples), parts, tally, {key: one.encoded for key, one in scores.items()})


def cut_shards(dataset: Dataset) -> Iterator[Shard]:
    """Yield the dataset in shards, in order."""
    offset = 0
    for index, samples in enumerate(dataset.shards(SHARD_ROWS)):
        yield Shard(index, offset, samples)
        offset += len(samples)


def complete(prepared: Prepared, shard: Shard) -> Completions:
    """Return a shard's completions: those there are, or what the solver gets."""
    samples, solver = shard.samples, prepared.task.solver
    if prepared.recorded is not None:
        return prepared.recorded.slice(shard.offset, len(samples))
    if solver is None:
        raise InternalError("E901", f"task `{prepared.task.key}` has neither completions nor a solver")
    positions = [row for row in range(len(samples)) if shard.offset + row not in prepared.failed]
    asked = samples if len(positions) == len(samples) else samples.take(positions)
    known = know(prepared.task, asked)
    answers = solver.solve(asked, model=prepared.model, known=known, examples=prepared.examples)
    return answers if asked is samples else answers.spread(positions, samples.ids)


def know(task: Task, samples: Samples) -> Known | None:
    """Return what the first scorer that knows anything knows: choices, truths, option texts."""
    return next((known for step in task.scoring if (known := step.scorer.know(samples))), None)


def merge_metrics(task: Task, measured: Sequence[Measured]) -> list[MetricValue]:
    """Merge the parts of all shards and return every metric value under its final name."""
    groups = []
    for i, step in enumerate(task.scoring):
        for j, one in enumerate(step.metrics):
            part = one.metric.merge([shard.parts[i][j] for shard in measured])
            values = finish_metric(one.metric, part)
            groups.append((step.key, one.key, step.purpose, one.metric.type, values))
    return name_values(groups)
