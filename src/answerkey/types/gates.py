"""What a run's rules came to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class GateStatus(StrEnum):
    """How a gate stands; one that is not decided does not let a run through, one that is skipped is none."""

    PASS = "PASS"  # noqa: S105 - a word, not a password
    FAIL = "FAIL"
    NOT_DECIDED = "NOT_DECIDED"
    SKIPPED = "SKIPPED"


@dataclass(frozen=True)
class GateCheck:
    """One number held against what a rule needs.

    `number` is what counts: the value, an end of its interval, a share or a difference; None when there is
    none, and `note` then says why. `repetition` counts from 1 where a task was run several times; `group` is
    that of a value by group. `details` are the counts or the comparison behind the number.
    """

    task: str
    name: str
    status: GateStatus
    number: float | None = None
    value: float | None = None
    interval: tuple[float, float] | None = None
    n: int = 0
    is_share: bool = False
    note: str | None = None
    repetition: int | None = None
    group: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Gate:
    """A rule and how it stands; `definition` is what it needs, as the files state it.

    `note` says why it is not decided or skipped.
    """

    policy: str
    rule: str
    status: GateStatus
    definition: Mapping[str, object]
    display_name: str = ""
    description: str | None = None
    checks: tuple[GateCheck, ...] = ()
    note: str | None = None


#: Which status stands for several: the first of these that occurs.
_WORST = (GateStatus.FAIL, GateStatus.NOT_DECIDED, GateStatus.PASS, GateStatus.SKIPPED)


def find_worst_status(statuses: Iterable[GateStatus]) -> GateStatus | None:
    """Return what several gates or checks come to together; None for none."""
    found = set(statuses)
    return next((status for status in _WORST if status in found), None)
