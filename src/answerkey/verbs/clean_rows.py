"""The metrics of a finished run on the samples whose labels can be relied on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from answerkey.evaluate import reopen_rows
from answerkey.evaluate.pipeline import Measured, merge_metrics
from answerkey.metrics import PythonMetric, measure_metrics
from answerkey.runs import TaskRun
from answerkey.spec import ScoringStep, Task, task_from_source
from answerkey.types import MetricValue, Samples, Scores
from answerkey.verbs.audit_parts import write_quality

#: What annotators call a label that is in order; compared in lower case.
CLEAN_VALUES = frozenset(
    {"ok", "okay", "clean", "good", "correct", "valid", "verified", "no_error", "true", "yes", "1"}
)


def measure_clean(task_run: TaskRun, column: str, values: frozenset[str]) -> dict[str, MetricValue]:
    """Return every metric of a task on the samples whose `column` has one of these values.

    Metrics of the user's own functions are left out: measuring them would run code.
    """
    task = _drop_own_code(task_from_source(task_run.source["task"]))
    parts = list(_measure_parts(task_run, task, column, values))
    return {value.name: value for value in merge_metrics(task, parts)} if parts else {}


def _drop_own_code(task: Task) -> Task:
    def change(step: ScoringStep) -> ScoringStep:
        kept = [one for one in step.metrics if one.metric.type != PythonMetric.type]
        return replace(step, metrics=tuple(kept))

    return replace(task, scoring=tuple(change(step) for step in task.scoring))


def _measure_parts(task_run: TaskRun, task: Task, column: str, values: frozenset[str]) -> Iterator[Measured]:
    rows, offset = reopen_rows(task_run).rows, 0
    encoded = task_run.manifest.get("encoded") or {}
    columns = frozenset({column, *task.design_columns})
    for part in task_run.score_parts():
        size = part.height // task.num_trials
        samples = rows.slice(offset, size).load(columns)
        offset += size
        places = _find_clean(samples, column, values)
        kept = samples.take(places).repeat(task.num_trials)
        trials = (places * task.num_trials).to_list()
        chosen = [row + trial for row in trials for trial in range(task.num_trials)]
        scores = {
            step.key: Scores(part[step.key].struct.unnest()[chosen], frozenset(encoded.get(step.key, ())))
            for step in task.scoring
        }
        measured = [measure_metrics(one.metrics, scores[one.key], kept, task.trials) for one in task.scoring]
        yield Measured(len(kept), measured)


def _find_clean(samples: Samples, column: str, values: frozenset[str]) -> pl.Series:
    labels = pl.Series([write_quality(one) for one in samples.values(column)], dtype=pl.String)
    return labels.is_in(sorted(values)).arg_true()
