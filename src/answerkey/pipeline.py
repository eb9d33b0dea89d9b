"""The one way of a task, top to bottom. Read this first.

    task file ──► Task ──► Samples ──► Completions ──► Scores ──► MetricValues ──► Run
                  spec     datasets    solvers         scorers    metrics          runs

`run_task` takes a prepared task through it: shard by shard on an engine, each shard loaded where the work is
done and written as a part, only plain numbers kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from answerkey.datasets import Shard
from answerkey.engines import Engine
from answerkey.errors import EngineError
from answerkey.metrics import (
    STOPPED_EARLY,
    count_shard,
    find_same_failure,
    finish_metric,
    measure_metrics,
    merge_counts,
    name_values,
)
from answerkey.runs import TaskWriter
from answerkey.scorers import count_readings, find_audited_rows, join_scores
from answerkey.spec import Task
from answerkey.types import MetricValue, Samples, ScoreStatus
from answerkey.working import SHARD_ROWS, Prepared, work_around, work_on

__all__ = [
    "SHARD_ROWS",
    "Measured",
    "Outcome",
    "Prepared",
    "Progress",
    "merge_metrics",
    "merge_shards",
    "require_rows",
    "run_shard",
    "run_task",
]

Progress = Callable[[str, int, int], None]
#: So many samples are worked on before the others, where that costs calls or time.
FIRST = 50


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

    @property
    def is_stopped(self) -> bool:
        """Whether rows were left out because the first ones all failed in the same way."""
        return any(STOPPED_EARLY in reasons for reasons in self.tally["failures"].values())


def run_task(
    prepared: Prepared,
    writer: TaskWriter,
    engine: Engine,
    progress: Progress,
    *,
    first: int = 0,
    is_stopped: bool = False,
) -> Outcome:
    """Take a task from its samples to its metric values.

    When the `first` samples all fail in the same way, the others are left out; all are when the run
    `is_stopped` already.
    """
    measured: list[Measured] = []
    function = partial(run_shard, prepared.without_rows(), writer)
    for shards in prepared.stages(first):
        is_over = is_stopped or (bool(measured) and find_same_failure(measured[0].tally) is not None)
        worked = (one.leave_out(STOPPED_EARLY) for one in shards) if is_over else shards
        for one in engine.map(function, worked, spread=prepared.spread):
            measured.append(one)
            progress("score", sum(part.rows for part in measured), len(prepared.dataset))
    require_rows(prepared, writer, measured)
    outcome = merge_shards(prepared.task, measured)
    writer.write_metrics(outcome.values, outcome.tally)
    return outcome


def run_shard(prepared: Prepared, writer: TaskWriter, shard: Shard, rows: Samples | None = None) -> Measured:
    """Take one shard from its samples to the parts of its metrics, and write its tables."""
    task, size = prepared.task, prepared.task.num_trials
    asked = shard.samples.load(prepared.columns) if rows is None else rows
    samples = asked.repeat(size)
    completions, scores = (work_around if shard.withheld else work_on)(prepared, shard, asked)
    if prepared.keep_completions and not shard.is_trial:
        writer.write_completions(shard.index, completions.frame)
    if not shard.is_trial:
        writer.write_scores(shard.index, join_scores(completions, scores))
    parts = [measure_metrics(one.metrics, scores[one.key], samples, task.trials) for one in task.scoring]
    tally = count_shard(samples, completions, scores, main=task.main_step.key, num_trials=size)
    main, spots = task.main_step, find_audited_rows(prepared.spots, shard.places, size)
    tally["readings"] = count_readings(main.scorer, samples, completions, scores[main.key], spots)
    errors = sum(one.count(ScoreStatus.ERROR) for one in scores.values())
    return Measured(len(asked), errors, parts, tally, {key: one.encoded for key, one in scores.items()})


def require_rows(prepared: Prepared, writer: TaskWriter, measured: Sequence[Measured]) -> None:
    """Raise EngineError E603 unless every row was worked on once, and is in the tables once."""
    wanted, found = len(prepared.dataset), sum(one.rows for one in measured)
    stored = writer.count_scores()
    if found != wanted or stored != wanted * prepared.task.num_trials:
        message = f"of {wanted} rows, {found} were worked on, and the tables have {stored} verdicts"
        hint = "is the run folder on storage that every node shares?"
        raise EngineError("E603", message, hint=hint)


def merge_shards(task: Task, measured: Sequence[Measured]) -> Outcome:
    """Put the parts of all shards together."""
    tally = merge_counts([one.tally for one in measured])
    keys = [step.key for step in task.scoring]
    encoded = {key: sorted(frozenset().union(*(one.encoded[key] for one in measured))) for key in keys}
    return Outcome(merge_metrics(task, measured), tally, encoded, sum(one.errors for one in measured))


def merge_metrics(task: Task, measured: Sequence[Measured]) -> list[MetricValue]:
    """Merge the parts of all shards and return every metric value under its final name."""
    groups = []
    for i, step in enumerate(task.scoring):
        for j, one in enumerate(step.metrics):
            values = finish_metric(one, [shard.parts[i][j] for shard in measured], task.trials)
            groups.append((step.key, one.key, step.purpose, one.metric.type, values))
    return name_values(groups)
