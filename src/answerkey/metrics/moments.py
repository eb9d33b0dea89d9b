"""`mean`, `max`, `min` and `std_dev` of one field, and `weighted_average`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from answerkey.errors import ScoringError, SpecError
from answerkey.metrics.base import (
    NO_WEIGHT,
    NOTHING_COUNTED,
    NULL,
    TOO_LARGE,
    CountingMetric,
    ValueCounts,
    ValueNames,
    is_finite,
    read_number,
    write_label,
)
from answerkey.metrics.exact import divide, divide_and_root, sum_exactly, to_integers
from answerkey.metrics.intervals import (
    RATIO_STUDENT,
    STUDENT,
    Margin,
    Ratio,
    Scale,
    measure_error,
    measure_mean,
)
from answerkey.text import format_count
from answerkey.types import MetricValue

NO_INTERVAL = "answerkey computes none for a standard deviation"
AN_END = Margin(interval_note="the end of a sample says nothing about values not seen")


@dataclass(frozen=True)
class Moments:
    """What is summed up of the numbers of one field; `binary` counts the zeros and ones."""

    n: int
    binary: int
    ones: int
    total: Fraction
    squares: Fraction
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True)
class _FieldMetric(CountingMetric[Moments]):
    """A number from the numbers of one field; booleans count as 1 and 0."""

    field: str
    name: str | None = None

    reads_numbers: ClassVar[bool] = True

    def collect(self, counts: ValueCounts) -> Moments:
        """Return counts, exact sums and both ends of the numbers."""
        numbers: list[tuple[float, int]] = []
        zeros = 0
        ones = 0
        for values, rows in counts.counts:
            taken = counts.take_numbers(
                [self.field],
                values,
                rows,
            )
            if taken is None:
                continue
            number = taken[0]
            numbers.append((number, rows))
            if number == 0:
                zeros += rows
            elif number == 1:
                ones += rows
        total, squares = sum_exactly(numbers)
        if not numbers:
            return Moments(
                0,
                0,
                0,
                total,
                squares,
            )
        low, _ = min(numbers)
        high, _ = max(numbers)
        return Moments(
            counts.n,
            zeros + ones,
            ones,
            total,
            squares,
            low,
            high,
        )

    def state_values(self, counts: ValueCounts, sums: Moments) -> list[MetricValue]:
        """Return the one value; none when nothing counts."""
        if not sums.n:
            return [
                self.state(
                    self.value_name,
                    None,
                    counts,
                    note=NOTHING_COUNTED,
                )
            ]
        return [self._state_number(counts, sums)]

    @property
    def value_name(self) -> str:
        """What the value is called."""
        return self.name or f"{self.field}_{self.type}"

    def value_names(self) -> ValueNames:
        """Return what the value will be called; right or wrong is 1 or 0 in every scorer."""
        return ValueNames((self.value_name,), is_share=_base_name(self.field) == "is_correct")

    @abstractmethod
    def _state_number(self, counts: ValueCounts, sums: Moments) -> MetricValue:
        """Return the value of at least one number."""


def _base_name(field: str) -> str:
    """Return the name of a value without the aggregate of its trials."""
    return field.partition(".")[0]


@dataclass(frozen=True)
class Mean(_FieldMetric):
    """The mean of a field; of 0/1 values a share."""

    type: ClassVar[str] = "mean"

    def _state_number(self, counts: ValueCounts, sums: Moments) -> MetricValue:
        n = sums.n
        if sums.binary == n:
            return self.state_share(
                self.value_name,
                (sums.ones, n),
                counts,
            )
        value = divide(sums.total, n)
        ratio = Ratio(sums.total, n, n)
        error = measure_error(
            ratio,
            tops=sums.squares,
            products=sums.total,
            bottoms=n,
        )
        margin = measure_mean(
            value,
            error,
            n,
            is_share=counts.is_share,
        )
        return self.state(
            self.value_name,
            value,
            counts,
            margin=margin,
        )

    def find_scale(self, scales: Mapping[str, Scale]) -> Scale | None:
        """Return the scale of the field, which no aggregate of trials and no mean leaves."""
        return scales.get(_base_name(self.field))

    def ratios(self, sums: Moments, whole: Moments) -> dict[str, Ratio]:  # noqa: ARG002 - the names need no whole
        """Return the sum of some samples over their number."""
        return {self.value_name: Ratio(sums.total, sums.n, sums.n)}


@dataclass(frozen=True)
class Max(_FieldMetric):
    """The largest value of a field."""

    type: ClassVar[str] = "max"

    def _state_number(self, counts: ValueCounts, sums: Moments) -> MetricValue:
        return self.state(
            self.value_name,
            float(sums.high),
            counts,
            margin=AN_END,
        )


@dataclass(frozen=True)
class Min(_FieldMetric):
    """The smallest value of a field."""

    type: ClassVar[str] = "min"

    def _state_number(self, counts: ValueCounts, sums: Moments) -> MetricValue:
        return self.state(
            self.value_name,
            float(sums.low),
            counts,
            margin=AN_END,
        )


@dataclass(frozen=True)
class StdDev(_FieldMetric):
    """The sample standard deviation (n - 1) of a field; none for fewer than two values."""

    type: ClassVar[str] = "std_dev"

    def _state_number(self, counts: ValueCounts, sums: Moments) -> MetricValue:
        n = sums.n
        if n == 1:
            note = "it needs at least two values, there is one"
            return self.state(
                self.value_name,
                None,
                counts,
                note=note,
            )
        value = divide_and_root(n * sums.squares - sums.total**2, n * (n - 1))
        if value is None:
            return self.state(
                self.value_name,
                None,
                counts,
                note=TOO_LARGE,
            )
        margin = Margin(interval_note=NO_INTERVAL)
        return self.state(
            self.value_name,
            value,
            counts,
            margin=margin,
        )


@dataclass(frozen=True)
class WeightedSums:
    """What is summed up of values and their weights: Σwx, Σw, and the squares and products."""

    n: int
    top: Fraction
    bottom: Fraction
    tops: Fraction
    products: Fraction
    bottoms: Fraction
    negative: int


@dataclass(frozen=True)
class WeightedAverage(CountingMetric[WeightedSums]):
    """The mean of the weights of a field's values, or Σwx/Σw with the weights in another field.

    A value finds its weight by its text, or, if both are numbers, as a number (`1.0` finds `1`). A
    value without a weight is left out and counted.
    """

    field: str
    weights: Mapping[str | bool | float, float] | str
    name: str | None = None

    type: ClassVar[str] = "weighted_average"

    def __post_init__(self) -> None:
        if not self.weights:
            hint = "give each value of the field a weight, or name the field that holds the weights"
            raise SpecError(
                "E108",
                "`weights` is empty",
                hint=hint,
            )
        if isinstance(self.weights, str):
            return
        for value, weight in self.weights.items():
            if not _is_weight(weight):
                raise SpecError("E108", f"the weight of {value!r} is {weight!r}, not a number")

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""
        if isinstance(self.weights, str):
            return (self.field, self.weights)
        return (self.field,)

    @property
    def value_name(self) -> str:
        """What the value is called."""
        return self.name or f"{self.field}_{self.type}"

    def value_names(self) -> ValueNames:
        """Return what the value will be called."""
        return ValueNames((self.value_name,))

    def collect(self, counts: ValueCounts) -> WeightedSums:
        """Return the exact sums of weights and of products."""
        numbers: list[float] = []
        weights: list[float] = []
        repeats: list[int] = []
        negative = 0
        for values, rows in counts.counts:
            pair = self._weigh(counts, values, rows)
            if pair is None:
                continue
            number, weight = pair
            numbers.append(number)
            weights.append(weight)
            repeats.append(rows)
            if weight < 0:
                negative += rows
        whole_numbers, number_scale = to_integers(numbers)
        whole_weights, weight_scale = to_integers(weights)
        top = bottom = tops = products = bottoms = 0
        for number, weight, rows in zip(
            whole_numbers,
            whole_weights,
            repeats,
            strict=True,
        ):
            product = number * weight
            top += rows * product
            bottom += rows * weight
            tops += rows * product**2
            products += rows * product * weight
            bottoms += rows * weight**2
        product_scale = number_scale * weight_scale
        return WeightedSums(
            n=counts.n,
            top=Fraction(top, product_scale),
            bottom=Fraction(bottom, weight_scale),
            tops=Fraction(tops, product_scale**2),
            products=Fraction(products, product_scale * weight_scale),
            bottoms=Fraction(bottoms, weight_scale**2),
            negative=negative,
        )

    def _weigh(
        self, counts: ValueCounts, values: tuple[object, ...], rows: int
    ) -> tuple[float, float] | None:
        """Return value and weight; a weight out of the table is a value of weight 1."""
        if values[0] is None:
            counts.leave_out(NULL, rows)
            return None
        if isinstance(self.weights, str):
            if values[1] is None:
                counts.leave_out(NO_WEIGHT, rows)
                return None
            numbers = counts.take_numbers(
                self.fields(),
                values,
                rows,
            )
            if numbers is None:
                return None
            return numbers[0], numbers[1]
        weight = find_weight(self.weights, values[0])
        if weight is None:
            counts.leave_out(NO_WEIGHT, rows)
            return None
        counts.n += rows
        return weight, 1

    def state_values(self, counts: ValueCounts, sums: WeightedSums) -> list[MetricValue]:
        """Return the one value; none when nothing counts or all weights are 0."""
        if sums.negative:
            samples = format_count(sums.negative, "sample")
            message = f"`{self.type}`: `{self.weights}` holds negative weights in {samples}"
            raise ScoringError(
                "E402",
                message,
                hint="a weight is 0 or more",
            )
        if not sums.n:
            return [
                self.state(
                    self.value_name,
                    None,
                    counts,
                    note=NOTHING_COUNTED,
                )
            ]
        if not sums.bottom:
            return [
                self.state(
                    self.value_name,
                    None,
                    counts,
                    note="all weights are 0",
                )
            ]
        value = divide(sums.top, sums.bottom)
        if value is None:
            return [
                self.state(
                    self.value_name,
                    None,
                    counts,
                    note=TOO_LARGE,
                )
            ]
        error = measure_error(
            Ratio(sums.top, sums.bottom, sums.n),
            tops=sums.tops,
            products=sums.products,
            bottoms=sums.bottoms,
        )
        method = RATIO_STUDENT if isinstance(self.weights, str) else STUDENT
        margin = measure_mean(
            value,
            error,
            sums.n,
            method,
        )
        return [
            self.state(
                self.value_name,
                value,
                counts,
                margin=margin,
            )
        ]

    def find_scale(self, scales: Mapping[str, Scale]) -> Scale | None:
        """Return the ends of the table of weights, or the scale of the field itself."""
        if isinstance(self.weights, str):
            return scales.get(_base_name(self.field))
        return float(min(self.weights.values())), float(max(self.weights.values()))

    def ratios(self, sums: WeightedSums, whole: WeightedSums) -> dict[str, Ratio]:  # noqa: ARG002 - the names need no whole
        """Return the sum of products of some samples over the sum of their weights."""
        return {self.value_name: Ratio(sums.top, sums.bottom, sums.n)}


def _is_weight(weight: object) -> bool:
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        return False
    return is_finite(weight)


def find_weight(weights: Mapping[str | bool | float, float], value: object) -> float | None:
    """Return the weight whose key is the value's text, else the same number, else None."""
    label = write_label(value)
    for key, weight in weights.items():
        if write_label(key) == label:
            return weight
    number = read_number(value)
    if number is None:
        return None
    for key, weight in weights.items():
        if _reads_as(write_label(key), number):
            return weight
    return None


def _reads_as(text: str, number: float) -> bool:
    try:
        return float(text) == number
    except ValueError:
        return False
