"""Variants of a task's prompt: how far its numbers depend on the wording, and which differences stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from answerkey.errors import RunError
from answerkey.metrics import compare_repetitions
from answerkey.runs import Run, TaskRun
from answerkey.types import MetricValue
from answerkey.verbs.comparing import compare_task_runs
from answerkey.verbs.comparisons import TaskComparison

#: Metrics are compared by name; those of a quality check are not the task's numbers.
SCORE = "score"


@dataclass(frozen=True)
class VariedMetric:
    """One metric over all variants; `values` are by the variant's key, and `spread` is max minus min."""

    name: str
    values: Mapping[str, float | None]
    minimum: float | None
    median: float | None
    maximum: float | None
    spread: float | None
    std_dev: float | None
    is_share: bool = False


@dataclass(frozen=True)
class VariedTask:
    """The variants of one task: their numbers, and every pair of them compared on the same samples.

    `tasks` are the specifications by the variant's key. `note` says why pairs could not be compared.
    """

    key: str
    tasks: Mapping[str, str]
    metrics: tuple[VariedMetric, ...]
    comparison: TaskComparison | None = None
    note: str | None = None


def compare_variants(run: Run) -> tuple[VariedTask, ...]:
    """Return what the variants of each task of a run say together; only complete runs have such numbers."""
    groups: dict[str, dict[str, TaskRun]] = {}
    for task in run.tasks.values():
        variant = task.manifest.get("variant")
        if variant is not None:
            groups.setdefault(str(variant["of"]), {})[str(variant["key"])] = task
    if run.status != "complete":
        return ()
    return tuple(_compare(run, key, found) for key, found in groups.items() if len(found) > 1)


def _compare(run: Run, key: str, variants: Mapping[str, TaskRun]) -> VariedTask:
    tasks = {name: task.key for name, task in variants.items()}
    numbers = _measure(variants)
    try:
        compared = compare_task_runs(key, {name: (run, task) for name, task in variants.items()})
    except RunError as error:
        return VariedTask(key, tasks, numbers, note=error.message)
    return VariedTask(key, tasks, numbers, compared.tasks[0])


def _measure(variants: Mapping[str, TaskRun]) -> tuple[VariedMetric, ...]:
    values = [_list_scores(task) for task in variants.values()]
    is_share = {value.name: value.is_share for one in values for value in one}
    found = compare_repetitions(values)
    return tuple(_state(one, list(variants), is_share=is_share.get(one["name"], False)) for one in found)


def _list_scores(task: TaskRun) -> Sequence[MetricValue]:
    return [value for value in task.metrics.values() if value.purpose == SCORE]


def _state(one: Mapping[str, Any], names: Sequence[str], *, is_share: bool) -> VariedMetric:
    values = dict(zip(names, one["values"], strict=True))
    known = [value for value in values.values() if value is not None]
    low, high = one["min"], one["max"]
    return VariedMetric(
        name=one["name"],
        values=values,
        minimum=low,
        median=median(known) if known else None,
        maximum=high,
        spread=None if low is None or high is None else high - low,
        std_dev=one["std_dev"],
        is_share=is_share,
    )
