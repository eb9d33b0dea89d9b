"""Repeatability: a task run several times, and how far its numbers stay the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from answerkey.metrics import aggregate_scores, compare_repetitions, measure_agreement
from answerkey.pipeline import Outcome
from answerkey.runs import TaskWriter
from answerkey.spec import ScoringStep, Task
from answerkey.types import Scores, ScoreStatus
from answerkey.verbs.opening import Opened


def run_repetitions(
    opened: Opened, writer: TaskWriter, run: Callable[..., Outcome], *, is_stopped: bool = False
) -> list[Outcome]:
    """Run a task as often as its specification says and return every outcome; most are run once.

    Nothing more is done once `run`, of a prepared task and a writer, has stopped early.
    """
    outcomes: list[Outcome] = []
    for number in range(opened.specification.num_runs):
        is_over = is_stopped or any(one.is_stopped for one in outcomes)
        prepared, to = opened.prepare_repetition(number), writer.repetition(number)
        outcomes.append(run(prepared, to, is_stopped=is_over))
    if len(outcomes) > 1:
        _conclude(opened.prepared.task, writer, outcomes)
    return outcomes


def _conclude(task: Task, writer: TaskWriter, outcomes: Sequence[Outcome]) -> None:
    """Write what the repetitions say together: each metric's spread, and each sample's modal score."""
    tables = [writer.repetition(number).read_scores() for number in range(len(outcomes))]
    ids = tables[0]["sample_id"].gather_every(task.num_trials)
    agreement = {
        step.key: measure_agreement(runs)
        for step in task.scoring
        if (runs := _read_runs(task, step, tables, outcomes))
    }
    summary = {
        "num_runs": len(outcomes),
        "metrics": compare_repetitions([outcome.values for outcome in outcomes]),
        "agreement": {key: _sum_up(frame) for key, frame in agreement.items()},
    }
    columns = [frame.to_struct(key) for key, frame in agreement.items()]
    writer.write_repeatability(summary, pl.DataFrame([ids, *columns]))


def _read_runs(
    task: Task, step: ScoringStep, tables: Sequence[pl.DataFrame], outcomes: Sequence[Outcome]
) -> list[pl.Series]:
    """Return the main score of each sample in each repetition; nothing for a scorer without any value."""
    runs = []
    for table, outcome in zip(tables, outcomes, strict=True):
        scores = Scores(table[step.key].struct.unnest(), frozenset(outcome.encoded[step.key]))
        scores = scores if task.trials is None else aggregate_scores(scores, task.trials)
        name = step.scorer.main_value or next(iter(scores.value_names), None)
        found = None if name is None else scores.column(name)
        if found is None:
            return []
        is_scored = scores.frame["status"] == ScoreStatus.SCORED.value
        runs.append(pl.select(pl.when(is_scored).then(found).alias("score")).to_series())
    return _make_alike(runs)


def _make_alike(runs: Sequence[pl.Series]) -> list[pl.Series]:
    """Return the runs with one type of score; numbers stay numbers, anything else becomes text."""
    if all(run.dtype.is_numeric() or run.dtype == pl.Boolean for run in runs):
        return [run.cast(pl.Float64) for run in runs]
    return [run.cast(pl.String) for run in runs]


def _sum_up(agreement: pl.DataFrame) -> dict[str, Any]:
    """Return how many samples have a modal score, its mean share, and in how many all runs agree."""
    shares = agreement["share"].drop_nulls()
    return {
        "samples": len(shares),
        "mean_share": None if shares.is_empty() else shares.mean(),
        "unanimous": int((shares == 1).sum()),
    }
