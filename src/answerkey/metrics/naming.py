"""What the values of a task are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from answerkey.types import MetricValue, Purpose

#: Scorer key, metric key, purpose, metric type, values.
Group = tuple[str, str, Purpose, str, Sequence[MetricValue]]


def name_values(groups: Sequence[Group]) -> list[MetricValue]:
    """Return all values of a task with their final names, in the order given.

    A name that is unique in the task stays; else it gets the metric's key in front; else also the scorer's.
    Should even that be taken, it is numbered, so that no value ever hides another.
    """
    values = [_place_value(value, group) for group in groups for value in group[4]]
    names = _settle_names(values)
    return [replace(value, name=name) for value, name in zip(values, names, strict=True)]


def _place_value(value: MetricValue, group: Group) -> MetricValue:
    scorer, metric, purpose, kind, _ = group
    return replace(value, scorer=scorer, metric=metric, purpose=purpose, type=kind)


def _settle_names(values: Sequence[MetricValue]) -> list[str]:
    short = [value.name for value in values]
    middle = [f"{value.metric}_{value.name}" for value in values]
    long = [f"{value.scorer}_{value.metric}_{value.name}" for value in values]
    settled: dict[int, str] = {}
    for names in (short, middle, long):
        waiting = [index for index in range(len(values)) if index not in settled]
        _settle_unique(names, waiting, settled)
    for index in range(len(values)):
        if index not in settled:
            settled[index] = _number_name(long[index], set(settled.values()))
    return [settled[index] for index in range(len(values))]


def _settle_unique(names: Sequence[str], waiting: Sequence[int], settled: dict[int, str]) -> None:
    uses = Counter(names[index] for index in waiting)
    taken = set(settled.values())
    settled.update({i: names[i] for i in waiting if uses[names[i]] == 1 and names[i] not in taken})


def _number_name(name: str, taken: set[str]) -> str:
    numbered = (f"{name}-{number}" for number in count(2))
    return name if name not in taken else next(one for one in numbered if one not in taken)
