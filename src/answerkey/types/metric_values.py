"""The numbers of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Purpose = Literal["score", "qa"]


@dataclass(frozen=True)
class MetricValue:
    """One number of a task: its value, how many samples stand behind it, what was left out, how sure it is.

    `value` is None when there is nothing to compute; `note` then says why. `details` holds what belongs to
    the value but is no number (a confusion matrix).
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
