"""What a scorer is called where people read: its display name in place of its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from answerkey.runs import TaskRun
from answerkey.types import MetricValue


def find_display_names(task: TaskRun) -> dict[str, str]:
    """Return scorer key → display name, of the scorers that have one."""
    scorers: Sequence[Mapping[str, Any]] = task.manifest.get("scorers") or []
    return {one["key"]: str(one["display_name"]) for one in scorers if one.get("display_name")}


def name_scorer(task: TaskRun, key: str) -> str:
    """Return a scorer's display name, or its key when it has none."""
    return find_display_names(task).get(key, key)


def label_metric(task: TaskRun, value: MetricValue) -> str:
    """Return a metric's name; one that begins with the scorer's key shows the display name instead."""
    name = find_display_names(task).get(value.scorer)
    prefix = f"{value.scorer}_{value.metric}_"
    if name is None or not value.name.startswith(prefix):
        return value.name
    return f"{name}: {value.name.removeprefix(f'{value.scorer}_')}"
