"""`mean`, `max`, `min` and `std_dev` of one field, and `weighted_average`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from answerkey.errors import SpecError
from answerkey.metrics.base import (
    NO_WEIGHT,
    NULL,
    Addition,
    Cells,
    RatioMetric,
    ValueCounts,
    ValueNames,
    read_number,
    write_label,
)
from answerkey.metrics.intervals import Margin, Ratio, Scale
from answerkey.types import MetricValue

NO_INTERVAL = "answerkey computes none for a standard deviation"
AN_END = Margin(interval_note="the end of a sample says nothing about values not seen")


@dataclass(frozen=True)
class _FieldMetric(RatioMetric):
    """A number from the numbers of one field; booleans count as 1 and 0."""

    field: str
    name: str | None = None

    reads_numbers: ClassVar[bool] = True

    @property
    def value_name(self) -> str:
        """What the value is called."""
        return self.name or f"{self.field}_{self.type}"

    def value_names(self) -> ValueNames:
        """Return what the value will be called; right or wrong is 1 or 0 in every scorer."""
        score_name = self.field.partition(".")[0]
        return ValueNames((self.value_name,), is_share=score_name == "is_correct")

    def weigh(
        self,
        counts: ValueCounts,
        values: Cells,
        rows: int,
    ) -> Addition | None:
        """Return the number, and 1."""
        numbers = counts.take_numbers([self.field], values, rows)
        if numbers is None:
            return None
        return numbers[0], 1


@dataclass(frozen=True)
class Mean(_FieldMetric):
    """The mean of a field; of 0/1 values a share."""

    type: ClassVar[str] = "mean"

    def find_scale(self, scales: Mapping[str, Scale]) -> Scale | None:
        """Return the scale of the field, which no aggregate of trials and no mean leaves."""
        score_name = self.field.partition(".")[0]
        return scales.get(score_name)


class _SpreadMetric(_FieldMetric):
    """A number that is no ratio of sums, and has no interval."""

    has_ratios: ClassVar[bool] = False


class _EndMetric(_SpreadMetric):
    """The value at one end of those of a field."""

    #: Where it stands among the sorted values.
    place: ClassVar[int]

    def state_ratio(self, counts: ValueCounts, ratio: Ratio) -> MetricValue:  # noqa: ARG002 - sums have no ends
        """Return the number at the end."""
        numbers = []
        for (value,), _ in counts.counts:
            number = read_number(value)
            if number is not None:
                numbers.append(float(number))
        end = sorted(numbers)[self.place]
        return self.state(self.value_name, end, counts, margin=AN_END)


@dataclass(frozen=True)
class Max(_EndMetric):
    """The largest value of a field."""

    type: ClassVar[str] = "max"
    place: ClassVar[int] = -1


@dataclass(frozen=True)
class Min(_EndMetric):
    """The smallest value of a field."""

    type: ClassVar[str] = "min"
    place: ClassVar[int] = 0


@dataclass(frozen=True)
class StdDev(_SpreadMetric):
    """The sample standard deviation (n - 1) of a field; none for fewer than two values."""

    type: ClassVar[str] = "std_dev"

    def state_ratio(self, counts: ValueCounts, ratio: Ratio) -> MetricValue:
        """Return the standard deviation."""
        value = ratio.std_dev
        note = None
        if ratio.n == 1:
            note = "it needs at least two values, there is one"
        elif value is None:
            note = "the value is too large for a float"
        return self.state(
            self.value_name,
            value,
            counts,
            note=note,
            margin=Margin(interval_note=NO_INTERVAL),
        )


@dataclass(frozen=True)
class WeightedAverage(RatioMetric):
    """The mean of the weights of a field's values.

    A value finds its weight by its text, or, if both are numbers, as a number (`1.0` finds `1`). A
    value without a weight is left out and counted.
    """

    field: str
    weights: Mapping[str | bool | float, float]
    name: str | None = None

    type: ClassVar[str] = "weighted_average"
    #: Weights are no outcomes, even those that are 0 or 1.
    outcomes: ClassVar[tuple[Addition, ...]] = ()

    def __post_init__(self) -> None:
        if not self.weights:
            hint = "give each value of the field a weight"
            raise SpecError("E108", "`weights` is empty", hint=hint)
        for value, weight in self.weights.items():
            if isinstance(weight, bool) or read_number(weight) is None:
                raise SpecError("E108", f"the weight of {value!r} is {weight!r}, not a number")

    @property
    def value_name(self) -> str:
        """What the value is called."""
        return self.name or f"{self.field}_{self.type}"

    def value_names(self) -> ValueNames:
        """Return what the value will be called."""
        return ValueNames((self.value_name,))

    def weigh(
        self,
        counts: ValueCounts,
        values: Cells,
        rows: int,
    ) -> Addition | None:
        """Return the weight of the value, and 1."""
        [value] = values
        if value is None:
            counts.left_out[NULL] += rows
            return None
        weight = find_weight(self.weights, value)
        if weight is None:
            counts.left_out[NO_WEIGHT] += rows
            return None
        counts.n += rows
        return Fraction(weight), 1

    def find_scale(self, scales: Mapping[str, Scale]) -> Scale | None:  # noqa: ARG002 - the protocol's signature
        """Return the ends of the weights."""
        weights = self.weights.values()
        return float(min(weights)), float(max(weights))


def find_weight(
    weights: Mapping[str | bool | float, float],
    value: object,
) -> float | None:
    """Return the weight whose key is the value's text, else the same number, else None."""
    label = write_label(value)
    number = read_number(value)
    same_number = None
    for key, weight in weights.items():
        name = write_label(key)
        if name == label:
            return weight
        with suppress(ValueError):
            if same_number is None and float(name) == number:
                same_number = weight
    return same_number
