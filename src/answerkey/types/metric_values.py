"""The numbers of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Purpose = Literal["score", "qa"]


@dataclass(frozen=True)
class GroupValue:
    """A metric's number for one group of samples, or its average over the groups.

    `group` is None for the average; its `n` counts groups. The other fields are those of `MetricValue`.
    """

    group: str | None
    value: float | None
    n: int
    n_excluded: Mapping[str, int] = field(default_factory=dict)
    interval: tuple[float, float] | None = None
    interval_method: str | None = None
    interval_note: str | None = None
    std_error: float | None = None
    note: str | None = None


@dataclass(frozen=True)
class Groups:
    """A metric's numbers by the values of one dataset column, and their unweighted average."""

    column: str
    values: tuple[GroupValue, ...]
    macro: GroupValue


@dataclass(frozen=True)
class MetricValue:
    """One number of a task: its value, how many samples stand behind it, what was left out, how sure it is.

    `value` is None when there is nothing to compute; `note` then says why. `interval_note` says why a value
    has no interval. `details` holds what belongs to the value but is no number (a confusion matrix).
    `is_share` says that it lies within [0, 1] by its nature.
    """

    name: str
    value: float | None
    n: int
    n_excluded: Mapping[str, int] = field(default_factory=dict)
    interval: tuple[float, float] | None = None
    interval_method: str | None = None
    note: str | None = None
    type: str = ""
    metric: str = ""
    scorer: str = ""
    purpose: Purpose = "score"
    details: Mapping[str, object] = field(default_factory=dict)
    interval_note: str | None = None
    std_error: float | None = None
    is_share: bool = False
    groups: tuple[Groups, ...] = ()
