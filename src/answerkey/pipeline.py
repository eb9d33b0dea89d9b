"""The one way of a task, top to bottom. Read this first.

    task file ──► Task ──► Samples ──► Completions ──► Scores ──► MetricValues ──► Run
                  spec     datasets    solvers         scorers    metrics          runs

`run_task` takes a prepared task through it: shard by shard on an engine, each shard loaded where the work is
done and written as a part, only plain numbers kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from answerkey.datasets import Dataset, Recorded, Shard, cut_shards
from answerkey.engines import Engine, Spread
from answerkey.errors import InternalError
from answerkey.metrics import conclude_metric, measure_metrics, merge_tallies, name_values, tally_shard
from answerkey.models import Model
from answerkey.runs import TaskWriter
from answerkey.scorers import apply_actions, choose_spots, count_readings, join_scores, pick_spots, score_rows
from answerkey.spec import Task
from answerkey.types import Completions, MetricValue, Samples, ScoreStatus

Progress = Callable[[str, int, int], None]
SHARD_ROWS = 131_072


@dataclass(frozen=True)
class Prepared:
    """A task with everything opened: nothing is left but the work.

    Either `recorded` has the completions, or the task's solver gets them, with `model` if it needs one.
    `judges` are the models of scorers that ask one, by the scorer's key; a run puts them into `task`.
    `failed` holds, in order, the positions of rows that the dataset got wrong: not asked, FAILED for every
    scorer. Each repetition of a task has trials of its own. Only `columns` are read (None: all). The rows at
    `spots` are read by other rules as well.
    """

    key: str
    task: Task
    dataset: Dataset
    model: Model | None = None
    recorded: Recorded | None = None
    examples: Samples | None = None
    failed: Sequence[int] = ()
    keep_completions: bool = True
    repetition: int = 0
    judges: Mapping[str, Model] = field(default_factory=dict)
    columns: frozenset[str] | None = None
    spread: Spread = "alone"
    shard_rows: int = SHARD_ROWS
    spots: Sequence[int] = ()

    def shards(self) -> Iterator[Shard]:
        """Yield the shards of the dataset; nothing is loaded yet."""
        size = max(1, min(self.shard_rows, SHARD_ROWS) // self.task.num_trials)
        return cut_shards(self.dataset, size, self.recorded, self.failed)

    def without_rows(self) -> Prepared:
        """Return what the work on a shard needs beside it, small enough to be sent to where that is done."""
        spots = choose_spots(len(self.dataset))
        return replace(self, dataset=self.dataset.without_rows(), recorded=None, failed=(), spots=spots)


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
    function = partial(run_shard, prepared.without_rows(), writer)
    for one in engine.map(function, prepared.shards(), spread=prepared.spread):
        measured.append(one)
        progress("score", sum(part.rows for part in measured), len(prepared.dataset))
    outcome = merge_shards(prepared.task, measured)
    writer.write_metrics(outcome.values, outcome.tally)
    return outcome


def run_shard(prepared: Prepared, writer: TaskWriter, shard: Shard, rows: Samples | None = None) -> Measured:
    """Take one shard from its samples to the parts of its metrics, and write its tables."""
    task, size = prepared.task, prepared.task.num_trials
    asked = shard.samples.load(prepared.columns) if rows is None else rows
    samples, completions = asked.repeat(size), complete(prepared, shard, asked)
    failed = [row * size + trial for row in shard.failed for trial in range(size)]
    scores = {step.key: score_rows(step.scorer, samples, completions, failed) for step in task.scoring}
    scores = apply_actions(task.actions, samples, completions, scores, num_trials=size)
    if prepared.keep_completions:
        writer.write_completions(shard.index, completions.frame)
    writer.write_scores(shard.index, join_scores(completions, scores))
    parts = [measure_metrics(one.metrics, scores[one.key], samples, task.trials) for one in task.scoring]
    tally = tally_shard(samples, completions, scores, main=task.main_step.key, num_trials=size)
    main, spots = task.main_step, pick_spots(prepared.spots, shard.places, size)
    tally["readings"] = count_readings(main.scorer, samples, completions, scores[main.key], spots)
    errors = sum(one.count(ScoreStatus.ERROR) for one in scores.values())
    return Measured(len(asked), errors, parts, tally, {key: one.encoded for key, one in scores.items()})


def complete(prepared: Prepared, shard: Shard, samples: Samples) -> Completions:
    """Return a shard's completions, one per sample and trial: those there are, or what the solver gets."""
    solver, size = prepared.task.solver, prepared.task.num_trials
    trials = range(prepared.repetition * size, (prepared.repetition + 1) * size)
    if shard.recorded is not None:
        return shard.recorded.read(samples).number(trials)
    if solver is None:
        raise InternalError("E901", f"task `{prepared.task.key}` has neither completions nor a solver")
    positions = sorted(set(range(len(samples))).difference(shard.failed)) if shard.failed else None
    asked = samples if positions is None else samples.take(positions)
    known, examples = prepared.task.know(asked), prepared.examples
    answers = solver.solve(asked, model=prepared.model, known=known, examples=examples, trials=trials)
    return (answers if positions is None else answers.spread(positions, samples.ids, size)).number(trials)


def merge_shards(task: Task, measured: Sequence[Measured]) -> Outcome:
    """Put the parts of all shards together."""
    tally = merge_tallies([one.tally for one in measured])
    keys = [step.key for step in task.scoring]
    encoded = {key: sorted(frozenset().union(*(one.encoded[key] for one in measured))) for key in keys}
    return Outcome(merge_metrics(task, measured), tally, encoded, sum(one.errors for one in measured))


def merge_metrics(task: Task, measured: Sequence[Measured]) -> list[MetricValue]:
    """Merge the parts of all shards and return every metric value under its final name."""
    groups = []
    for i, step in enumerate(task.scoring):
        for j, one in enumerate(step.metrics):
            values = conclude_metric(one, [shard.parts[i][j] for shard in measured], task.trials)
            groups.append((step.key, one.key, step.purpose, one.metric.type, values))
    return name_values(groups)
