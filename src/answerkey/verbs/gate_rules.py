"""What each kind of rule finds in a finished run: the numbers it is about, each held against its need."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch

from answerkey.metrics import Frequency, wilson
from answerkey.metrics.intervals import WILSON
from answerkey.runs import Run, TaskRun
from answerkey.spec import task_from_source
from answerkey.spec.policies import (
    Bound,
    Definition,
    Exists,
    ShareLimit,
    ShareName,
    Threshold,
    foresee_metrics,
)
from answerkey.types import GateCheck, GateStatus, GroupValue, MetricValue

COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
}
#: Which counts a share is made of.
COUNTED: Mapping[ShareName, tuple[str, str]] = {
    "invalid": ("invalid", "scored"),
    "refused": ("refused", "scored"),
    "failed": ("failed", "samples"),
    "error": ("errors", "samples"),
}
#: The counts behind a value that are worth keeping beside a gate.
_KEPT = ("count", "of", "cluster_by")


@singledispatch
def check_rule(definition: Definition, run: Run, keys: Sequence[str]) -> list[GateCheck]:  # noqa: ARG001 - the form of all
    """Return every number of the tasks with these keys that a definition is about, held against its need."""
    raise TypeError(f"no rule: {definition!r}")


@dataclass(frozen=True)
class Spot:
    """Where a number was found: a task, and which of its repetitions, from 1, where it has several."""

    task_run: TaskRun
    repetition: int | None = None

    @property
    def blank(self) -> GateCheck:
        """What is known of every number found here."""
        return GateCheck(self.task_run.key, "", GateStatus.FAIL, repetition=self.repetition)


def list_spots(run: Run, keys: Sequence[str]) -> Iterator[Spot]:
    """Yield the tasks with these keys, each repetition of one that was run several times."""
    for key in keys:
        first = run.tasks[key]
        if not first.repetitions:
            yield Spot(first)
        else:
            yield from (Spot(one, number) for number, one in enumerate((first, *first.repetitions), 1))


@check_rule.register
def check_threshold(definition: Threshold, run: Run, keys: Sequence[str]) -> list[GateCheck]:
    """Return the values of a name, or those of their groups."""
    return [
        _hold(definition, spot, value, entry)
        for spot in list_spots(run, keys)
        for value in find_values(spot.task_run, definition.metric)
        for entry in _list_entries(definition, value)
    ]


def _list_entries(definition: Threshold, value: MetricValue) -> Sequence[MetricValue | GroupValue]:
    """Return what must stand: the value, its value in every group, or the average over the groups."""
    if definition.group_by is None:
        return [value]
    groups = next((one for one in value.groups if one.column == definition.group_by), None)
    if groups is None:
        return []
    return [groups.macro] if definition.average or not groups.values else groups.values


def _hold(
    definition: Threshold, spot: Spot, value: MetricValue, entry: MetricValue | GroupValue
) -> GateCheck:
    number, note = _read_number(entry, definition.bound)
    is_met = number is not None and COMPARE[definition.operator](number, definition.threshold)
    return replace(
        spot.blank,
        name=value.name,
        status=GateStatus.PASS if is_met else GateStatus.FAIL,
        number=number,
        value=entry.value,
        interval=entry.interval,
        n=entry.n,
        is_share=value.is_share,
        note=note,
        group=entry.group if isinstance(entry, GroupValue) else None,
        details={name: value.details[name] for name in _KEPT if entry is value and name in value.details},
    )


def _read_number(entry: MetricValue | GroupValue, bound: Bound) -> tuple[float | None, str | None]:
    """Return the value, or an end of its interval; None and the reason where there is none."""
    if entry.value is None:
        return None, entry.note or "there is no value"
    if bound == "value":
        return entry.value, None
    if entry.interval is None:
        return None, f"there is no interval: {entry.interval_note or 'its conditions do not hold'}"
    return entry.interval[0 if bound == "lower" else 1], None


def find_values(task_run: TaskRun, name: str) -> list[MetricValue]:
    """Return the values of a name; without any, those that only their keys keep apart from a namesake.

    A label that a `frequency` never saw is none of its samples: the share 0.
    """
    if name in task_run.metrics:
        return [task_run.metrics[name]]
    values = list(task_run.metrics.values())
    return [one for one in values if name in _strip_keys(one)] or _find_unseen(task_run, name)


def _strip_keys(value: MetricValue) -> list[str]:
    openings = (f"{value.metric}_", f"{value.scorer}_{value.metric}_")
    return [value.name.removeprefix(one) for one in openings if value.name.startswith(one)]


def _find_unseen(task_run: TaskRun, name: str) -> list[MetricValue]:
    task = task_from_source(task_run.source["task"])
    found = [one for one in foresee_metrics(task, name) if isinstance(one.metric.metric, Frequency)]
    keys = [(one.step.key, one.metric.key) for one in found]
    siblings = {(one.scorer, one.metric): one for one in task_run.metrics.values() if one.value is not None}
    return [_state_nothing(siblings[key], name) for key in keys if key in siblings]


def _state_nothing(sibling: MetricValue, name: str) -> MetricValue:
    """Return the share 0 of as many samples as a sibling's share is of."""
    is_plain = sibling.interval_method == WILSON
    return replace(
        sibling,
        name=name,
        value=0.0,
        interval=wilson(0, sibling.n) if is_plain else None,
        interval_note=None if is_plain else "none of the samples has this label",
        details={"count": 0, "of": sibling.n},
        std_error=None,
        groups=(),
    )


@check_rule.register
def check_existence(definition: Exists, run: Run, keys: Sequence[str]) -> list[GateCheck]:
    """Return the values of a name."""
    return [
        replace(
            spot.blank,
            name=value.name,
            status=GateStatus.FAIL if value.value is None else GateStatus.PASS,
            number=value.value,
            value=value.value,
            interval=value.interval,
            n=value.n,
            is_share=value.is_share,
            note=None if value.value is not None else value.note or "there is no value",
        )
        for spot in list_spots(run, keys)
        for value in find_values(spot.task_run, definition.metric)
    ]


@check_rule.register
def check_share(definition: ShareLimit, run: Run, keys: Sequence[str]) -> list[GateCheck]:
    """Return the share of samples that came to nothing, of each task."""
    checks = []
    part, whole = COUNTED[definition.of]
    for spot in list_spots(run, keys):
        count, of = spot.task_run.counts[part], spot.task_run.counts[whole]
        share = count / of if of else None
        is_met = share is not None and COMPARE[definition.operator](share, definition.threshold)
        checks.append(
            replace(
                spot.blank,
                name=f"{definition.of.upper()} share",
                status=GateStatus.PASS if is_met else GateStatus.FAIL,
                number=share,
                value=share,
                n=of,
                is_share=True,
                note=None if of else f"no sample is {whole}",
                details={"count": count, "of": of},
            )
        )
    return checks
