"""The metrics of a finished run measured again, by other groups or clusters; nothing is scored or written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from answerkey.errors import DataError, Place, listing, suggest
from answerkey.metrics import Design, KeyedMetric, PythonMetric, measure_metrics
from answerkey.pipeline import Measured, merge_metrics
from answerkey.runs import Run, TaskRun
from answerkey.spec import ScoringStep, Task, task_from_source
from answerkey.types import Samples, Scores
from answerkey.verbs.reopening import reopen_rows


def regroup(
    run: Run,
    *,
    group_by: Sequence[str] = (),
    cluster_by: str | None = None,
    is_corrected: bool | None = None,
) -> Run:
    """Return the run with its metrics by these groups and clusters, in place of those of its tasks.

    The dataset must still be there (E505). Metrics of your own functions stay as they are.
    """
    changes: dict[str, object] = {}
    changes |= {"group_by": tuple(dict.fromkeys(group_by))} if group_by else {}
    changes |= {"cluster_by": cluster_by} if cluster_by else {}
    changes |= {} if is_corrected is None else {"is_corrected": is_corrected}
    return replace(run, tasks={key: _regroup_task(one, changes) for key, one in run.tasks.items()})


def _regroup_task(task_run: TaskRun, changes: dict[str, object]) -> TaskRun:
    task = _change_designs(task_from_source(task_run.source["task"]), changes)
    samples = _read_labels(task_run, task)
    measured = [_measure(task, one) for one in _pair(task_run, samples, task.num_trials)]
    values = {value.name: value for value in merge_metrics(task, measured)}
    own = {name: value for name, value in task_run.metrics.items() if value.type == PythonMetric.type}
    order = {name: place for place, name in enumerate(task_run.metrics)}
    found = sorted((values | own).items(), key=lambda pair: order.get(pair[0], len(order)))
    return replace(task_run, metrics=dict(found))


def _change_designs(task: Task, changes: dict[str, object]) -> Task:
    """Return the task with other designs, and without metrics that run code."""

    def change(step: ScoringStep) -> ScoringStep:
        kept = [one for one in step.metrics if one.metric.type != PythonMetric.type]
        return replace(step, metrics=tuple(_change(one, changes) for one in kept))

    return replace(task, scoring=tuple(change(step) for step in task.scoring))


def _change(one: KeyedMetric, changes: dict[str, object]) -> KeyedMetric:
    design: Design = replace(one.design, **changes)  # type: ignore[arg-type]  # the fields of Design
    return replace(one, design=design)


def _read_labels(task_run: TaskRun, task: Task) -> Samples:
    """Return the samples of the run with the columns that group and cluster them."""
    dataset = reopen_rows(task_run)
    for name in task.design_columns:
        require_column(name, dataset.columns, task_run)
    return dataset.samples(task.design_columns)


def require_column(name: str, columns: Sequence[str], task_run: TaskRun) -> None:
    """Raise E206 when the dataset of a task has no such column."""
    if name not in columns:
        entry = task_run.manifest["dataset"]
        hint = suggest(name, columns) or f"columns: {listing(columns)}"
        message = f"dataset `{entry['key']}` has no column `{name}`"
        raise DataError("E206", message, where=Place(file=entry.get("file")), hint=hint)


Pair = tuple[dict[str, Scores], Samples]


def _pair(task_run: TaskRun, samples: Samples, num_trials: int) -> Iterator[Pair]:
    """Yield the scores of each part by scorer, with the samples of their rows."""
    offset = 0
    encoded = task_run.manifest.get("encoded") or {}
    for part in task_run.score_parts():
        size = part.height // num_trials
        rows = samples.slice(offset, size).repeat(num_trials)
        offset += size
        keys = [name for name in part.columns if name not in {"sample_id", "trial"}]
        yield {key: _read_scores(part[key], encoded.get(key, ())) for key in keys}, rows


def _read_scores(column: pl.Series, encoded: Sequence[str]) -> Scores:
    return Scores(column.struct.unnest(), frozenset(encoded))


def _measure(task: Task, pair: Pair) -> Measured:
    scores, samples = pair
    parts = [measure_metrics(one.metrics, scores[one.key], samples, task.trials) for one in task.scoring]
    return Measured(len(samples), 0, parts, {}, {})
