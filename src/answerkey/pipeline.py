"""The one way of a task, top to bottom. Read this first.

    task file ──► Task ──► Samples ──► Completions ──► Scores ──► MetricValues ──► Run
                  spec     datasets    solvers         scorers    metrics          runs

`run_task` takes a prepared task through it: shard by shard on an engine, each shard written as a part, only
plain numbers kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from answerkey.datasets import Dataset
from answerkey.engines import Engine
from answerkey.errors import InternalError
from answerkey.metrics import conclude_metric, measure_metrics, merge_tallies, name_values, tally_shard
from answerkey.models import Model
from answerkey.runs import TaskWriter
from answerkey.scorers import apply_actions, join_scores, score_rows
from answerkey.spec import Task
from answerkey.types import Completions, MetricValue, Samples, ScoreStatus

Progress = Callable[[str, int, int], None]
SHARD_ROWS = 65_536


@dataclass(frozen=True)
class Prepared:
    """A task with everything opened: nothing is left but the work.

    Either `recorded` has the completions, or the task's solver gets them, with `model` if it needs one.
    `judges` are the models of scorers that ask one, by the scorer's key; a run puts them into `task`.
    `failed` holds the positions of rows that the dataset got wrong: not asked, FAILED for every scorer.
    Each repetition of a task has trials of its own.
    """

    key: str
    task: Task
    dataset: Dataset
    model: Model | None = None
    recorded: Completions | None = None
    examples: Samples | None = None
    failed: frozenset[int] = frozenset()
    keep_completions: bool = True
    repetition: int = 0
    judges: Mapping[str, Model] = field(default_factory=dict)


@dataclass(frozen=True)
class Shard:
    """Some consecutive samples: the how manieth shard, and where it starts in the dataset."""

    index: int
    offset: int
    samples: Samples


@dataclass(frozen=True)
class Measured:
    """What is kept of a shard, plain numbers only; `errors` counts verdicts missing because a call failed."""

    rows: int
    errors: int
    parts: Sequence[Sequence[Any]]
    tally: Mapping[str, Any]
    encoded: Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Outcome:
    """A task's metric values, the main scorer's counts, and which score fields are stored as JSON text."""

    values: Sequence[MetricValue]
    tally: Mapping[str, Any]
    encoded: Mapping[str, Sequence[str]]
    errors: int = 0


def run_task(prepared: Prepared, writer: TaskWriter, engine: Engine, progress: Progress) -> Outcome:
    """Take a task from its samples to its metric values."""
    measured: list[Measured] = []
    shards = cut_shards(prepared.dataset, prepared.task.num_trials)
    for one in engine.map(partial(run_shard, prepared, writer), shards):
        measured.append(one)
        progress("score", sum(part.rows for part in measured), len(prepared.dataset))
    tally = merge_tallies([one.tally for one in measured])
    values = merge_metrics(prepared.task, measured)
    writer.write_metrics(values, tally)
    encoded = {
        step.key: sorted(set().union(*(one.encoded[step.key] for one in measured)))
        for step in prepared.task.scoring
    }
    return Outcome(values, tally, encoded, sum(one.errors for one in measured))


def run_shard(prepared: Prepared, writer: TaskWriter, shard: Shard) -> Measured:
    """Take one shard from its samples to the parts of its metrics, and write its tables."""
    task, size = prepared.task, prepared.task.num_trials
    samples, completions = shard.samples.repeat(size), complete(prepared, shard)
    failed = [row for row in range(len(samples)) if shard.offset + row // size in prepared.failed]
    scores = {step.key: score_rows(step.scorer, samples, completions, failed) for step in task.scoring}
    scores = apply_actions(task.actions, samples, completions, scores, num_trials=size)
    if prepared.keep_completions:
        writer.write_completions(shard.index, completions.frame)
    writer.write_scores(shard.index, join_scores(completions, scores))
    steps = [(scores[step.key], [one.metric for one in step.metrics]) for step in task.scoring]
    parts = [measure_metrics(metrics, found, task.trials) for found, metrics in steps]
    tally = tally_shard(samples, completions, scores, main=task.main_step.key, num_trials=size)
    errors = sum(one.count(ScoreStatus.ERROR) for one in scores.values())
    encoded = {key: one.encoded for key, one in scores.items()}
    return Measured(len(shard.samples), errors, parts, tally, encoded)


def cut_shards(dataset: Dataset, num_trials: int = 1) -> Iterator[Shard]:
    """Yield the dataset in shards, in order."""
    offset = 0
    for index, samples in enumerate(dataset.shards(max(1, SHARD_ROWS // num_trials))):
        yield Shard(index, offset, samples)
        offset += len(samples)


def complete(prepared: Prepared, shard: Shard) -> Completions:
    """Return a shard's completions, one per sample and trial: those there are, or what the solver gets."""
    samples, solver, size = shard.samples, prepared.task.solver, prepared.task.num_trials
    trials = range(prepared.repetition * size, (prepared.repetition + 1) * size)
    if prepared.recorded is not None:
        return prepared.recorded.slice(shard.offset * size, len(samples) * size).number(trials)
    if solver is None:
        raise InternalError("E901", f"task `{prepared.task.key}` has neither completions nor a solver")
    positions = [row for row in range(len(samples)) if shard.offset + row not in prepared.failed]
    asked = samples if len(positions) == len(samples) else samples.take(positions)
    known, examples = prepared.task.know(asked), prepared.examples
    answers = solver.solve(asked, model=prepared.model, known=known, examples=examples, trials=trials)
    answers = answers if asked is samples else answers.spread(positions, samples.ids, size)
    return answers.number(trials)


def merge_metrics(task: Task, measured: Sequence[Measured]) -> list[MetricValue]:
    """Merge the parts of all shards and return every metric value under its final name."""
    groups = []
    for i, step in enumerate(task.scoring):
        for j, one in enumerate(step.metrics):
            values = conclude_metric(one.metric, [shard.parts[i][j] for shard in measured], task.trials)
            groups.append((step.key, one.key, step.purpose, one.metric.type, values))
    return name_values(groups)
