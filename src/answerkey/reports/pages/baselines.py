"""A run held against another on the same samples, task by task, for the top of its page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from answerkey.comparison.compare import TaskComparison, compare
from answerkey.errors import AnswerkeyError
from answerkey.runs import Run


@dataclass(frozen=True)
class Baselines:
    """By task key how a run differs from its baseline; `notices` say what could not be compared."""

    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def compare_with(run: Run, baseline: Run) -> Baselines:
    """Return how each task differs from the same task of the baseline."""
    label = baseline.path.name if baseline.path else baseline.key
    try:
        found = compare(run, baseline=baseline)
    except AnswerkeyError as error:
        return Baselines(notices=(f"not compared with `{label}`: {error.message}",))
    notices = tuple(notice.message for notice in found.notices)
    return Baselines({task.key: _describe(task, label) for task in found.tasks}, notices)


def _describe(task: TaskComparison, label: str) -> dict[str, Any]:
    pair = task.pairs[0]
    interval = pair.difference.evidence.interval
    return {
        "label": label,
        "value": pair.difference.second,
        "difference": pair.difference.value,
        "interval": None if interval is None else list(interval),
        "p": pair.p_adjusted,
    }
