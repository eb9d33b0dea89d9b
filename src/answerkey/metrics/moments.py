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
NO_END_INTERVAL = Margin(interval_note="the end of a sample says nothing about values not seen")


@dataclass(frozen=True)
class _FieldMetric(RatioMetric):
    """A statistic of the numbers in one field; booleans count as 1 and 0."""

    field: str
    name: str | None = None

    reads_numbers: ClassVar[bool] = True

    @property
    def value_name(self) -> str:
        """What the value is called."""
        return self.name or f"{self.field}_{self.type}"

    def value_names(self) -> ValueNames:
        """Return the name of the value; in every scorer, right is 1 and wrong is 0."""
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
    """The mean of a field; a share if the values are 0 or 1."""

    type: ClassVar[str] = "mean"

    def find_scale(self, scales: Mapping[str, Scale]) -> Scale | None:
        """Return the scale of the field, which is also that of means and of aggregates of
        trials.
        """
        score_name = self.field.partition(".")[0]
        return scales.get(score_name)


class _SpreadMetric(_FieldMetric):
    """A statistic that is not a ratio of sums and has no interval."""

    has_ratios: ClassVar[bool] = False


class _ExtremeMetric(_SpreadMetric):
    """The smallest or the largest value of a field."""

    #: Its position among the sorted values.
    place: ClassVar[int]

    def make_ratio_value(self, counts: ValueCounts, ratio: Ratio) -> MetricValue:  # noqa: ARG002 - needs the single values
        """Return the smallest or the largest number."""
        numbers = []
        for (value,), _ in counts.counts:
            number = read_number(value)
            if number is not None:
                numbers.append(float(number))
        end = sorted(numbers)[self.place]
        return self.make_value(self.value_name, end, counts, margin=NO_END_INTERVAL)


@dataclass(frozen=True)
class Max(_ExtremeMetric):
    """The largest value of a field."""

    type: ClassVar[str] = "max"
    place: ClassVar[int] = -1


@dataclass(frozen=True)
class Min(_ExtremeMetric):
    """The smallest value of a field."""

    type: ClassVar[str] = "min"
    place: ClassVar[int] = 0


@dataclass(frozen=True)
class StdDev(_SpreadMetric):
    """The sample standard deviation (n - 1) of a field; null for fewer than two values."""

    type: ClassVar[str] = "std_dev"

    def make_ratio_value(self, counts: ValueCounts, ratio: Ratio) -> MetricValue:
        """Return the standard deviation."""
        value = ratio.std_dev
        note = None
        if ratio.n == 1:
            note = "it needs at least two values, there is one"
        elif value is None:
            note = "the value is too large for a float"
        return self.make_value(
            self.value_name,
            value,
            counts,
            note=note,
            margin=Margin(interval_note=NO_INTERVAL),
        )


@dataclass(frozen=True)
class WeightedAverage(RatioMetric):
    """The mean of the weights of a field's values.

    A value is matched to its weight as text, or, if both are numbers, as a number (`1.0` matches
    `1`). A value without a weight is left out and counted.
    """

    field: str
    weights: Mapping[str | bool | float, float]
    name: str | None = None

    type: ClassVar[str] = "weighted_average"
    #: Weights are not outcomes, even if they are 0 or 1.
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
        """Return the smallest and the largest weight."""
        weights = self.weights.values()
        return float(min(weights)), float(max(weights))


def find_weight(
    weights: Mapping[str | bool | float, float],
    value: object,
) -> float | None:
    """Return the weight whose key is the value's text, or else the same number, or else None."""
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
