"""`mean`, `max`, `min` and `std_dev` of one field, and `weighted_average`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from answerkey.errors import ScoringError, SpecError
from answerkey.metrics.base import (
    NO_WEIGHT,
    NOTHING_COUNTED,
    NULL,
    TOO_LARGE,
    CountingMetric,
    Part,
    ValueCounts,
    ValueNames,
    count_left_out,
    is_finite,
    read_number,
    write_label,
)
from answerkey.metrics.exact import (
    UNIT_BITS,
    divide,
    divide_and_root,
    find_ends,
    sum_column,
    sum_exactly,
    to_units,
)
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
from answerkey.types import MetricValue, Scores

#: So many different numbers among the first rows are more than are worth counting.
MANY = 1000
NO_INTERVAL = "answerkey computes none for a standard deviation"
AN_END = Margin(interval_note="the end of a sample says nothing about values not seen")


@dataclass(frozen=True)
class _FieldMetric(CountingMetric):
    """A number from the numbers of one field; booleans count as 1 and 0."""

    field: str
    name: str | None = None

    reads_numbers: ClassVar[bool] = True

    def measure(self, scores: Scores) -> Part:
        """Return counts, exact sums and both ends of the field in this shard.

        Of a column of many different floats the same part as `collect` makes, faster. A glance at the first
        rows decides: whether a field is counted or summed changes no number.
        """
        numbers = scores.column(self.field)
        if numbers is None or self.field in scores.encoded or numbers.dtype != pl.Float64:
            return super().measure(scores)
        numbers = numbers if scores.are_all_counted else numbers.filter(scores.counted())
        if numbers.head(2 * MANY).n_unique() <= MANY:
            return super().measure(scores)
        counts = ValueCounts([], count_left_out(scores), scores.names)
        finite = counts.take_column(numbers)
        total, squares = sum_column(finite)
        zeros, ones = int((finite == 0).sum()), int((finite == 1).sum())
        return counts.build(zeros=zeros, ones=ones, sum=total, squares=squares, ends=find_ends(finite))

    def collect(self, counts: ValueCounts) -> Part:
        """Return counts, exact sums and both ends of the numbers."""
        taken = [(counts.take_numbers([self.field], values, rows), rows) for values, rows in counts.counts]
        numbers = [(found[0], rows) for found, rows in taken if found is not None]
        total, squares = sum_exactly(numbers)
        return counts.build(
            zeros=sum(rows for number, rows in numbers if number == 0),
            ones=sum(rows for number, rows in numbers if number == 1),
            sum=total,
            squares=squares,
            ends=sorted({pick(numbers)[0] for pick in (min, max)}) if numbers else [],
        )

    def finish(self, part: Part) -> list[MetricValue]:
        """Return the one value; none when nothing counts."""
        self.check(part)
        if not part.get("n"):
            return [self.state(self.value_name, None, part, note=NOTHING_COUNTED)]
        return [self._state_number(part)]

    @property
    def value_name(self) -> str:
        """What the value is called."""
        return self.name or f"{self.field}_{self.type}"

    def value_names(self) -> ValueNames:
        """Return what the value will be called; right or wrong is 1 or 0 in every scorer."""
        return ValueNames((self.value_name,), is_share=self.field.partition(".")[0] == "is_correct")

    @abstractmethod
    def _state_number(self, part: Part) -> MetricValue:
        """Return the value of a part that has numbers."""


@dataclass(frozen=True)
class Mean(_FieldMetric):
    """The mean of a field; of 0/1 values a share."""

    type: ClassVar[str] = "mean"
    sums: ClassVar[tuple[str, ...]] = ("n", "sum")

    def _state_number(self, part: Part) -> MetricValue:
        n = part["n"]
        if part["zeros"] + part["ones"] == n:
            return self.state_share(self.value_name, (part["ones"], n), part)
        value = divide(part["sum"], n << UNIT_BITS)
        error = measure_error(
            self.ratios(part, part)[self.value_name],
            tops=part["squares"],
            products=part["sum"] << UNIT_BITS,
            bottoms=n << 2 * UNIT_BITS,
        )
        margin = measure_mean(value, error, n, is_share=part.get("is_share", False))
        return self.state(self.value_name, value, part, margin=margin)

    def find_scale(self, scales: Mapping[str, Scale]) -> Scale | None:
        """Return the scale of the field, whichever aggregate of trials it is: a mean does not leave it."""
        return scales.get(self.field.partition(".")[0])

    def ratios(self, part: Part, whole: Part) -> dict[str, Ratio]:  # noqa: ARG002 - the names need no whole
        """Return the sums of some samples whose ratio is the value."""
        return {self.value_name: Ratio(part["sum"], part["n"] << UNIT_BITS, part["n"])}


@dataclass(frozen=True)
class Max(_FieldMetric):
    """The largest value of a field."""

    type: ClassVar[str] = "max"

    def _state_number(self, part: Part) -> MetricValue:
        return self.state(self.value_name, float(max(part["ends"])), part, margin=AN_END)


@dataclass(frozen=True)
class Min(_FieldMetric):
    """The smallest value of a field."""

    type: ClassVar[str] = "min"

    def _state_number(self, part: Part) -> MetricValue:
        return self.state(self.value_name, float(min(part["ends"])), part, margin=AN_END)


@dataclass(frozen=True)
class StdDev(_FieldMetric):
    """The sample standard deviation (n - 1) of a field; none for fewer than two values."""

    type: ClassVar[str] = "std_dev"

    def _state_number(self, part: Part) -> MetricValue:
        n = part["n"]
        if n == 1:
            return self.state(self.value_name, None, part, note="it needs at least two values, there is one")
        spread = n * part["squares"] - part["sum"] ** 2
        value = divide_and_root(spread, n * (n - 1) << 2 * UNIT_BITS)
        note = TOO_LARGE if value is None else None
        return self.state(self.value_name, value, part, note=note, margin=Margin(interval_note=NO_INTERVAL))


@dataclass(frozen=True)
class WeightedAverage(CountingMetric):
    """The mean of the weights of a field's values, or Σwx/Σw with the weights in another field.

    A value finds its weight by its text, or, if both are numbers, as a number (`1.0` finds `1`). A value
    without a weight is left out and counted.
    """

    field: str
    weights: Mapping[str | bool | float, float] | str
    name: str | None = None

    type: ClassVar[str] = "weighted_average"
    sums: ClassVar[tuple[str, ...]] = ("n", "top", "bottom")

    def __post_init__(self) -> None:
        if not self.weights:
            hint = "give each value of the field a weight, or name the field that holds the weights"
            raise SpecError("E108", "`weights` is empty", hint=hint)
        table: Mapping[str | bool | float, object] = {} if isinstance(self.weights, str) else self.weights
        for value, weight in table.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not is_finite(weight):
                raise SpecError("E108", f"the weight of {value!r} is {weight!r}, not a number")

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""
        return (self.field, self.weights) if isinstance(self.weights, str) else (self.field,)

    @property
    def value_name(self) -> str:
        """What the value is called."""
        return self.name or f"{self.field}_{self.type}"

    def value_names(self) -> ValueNames:
        """Return what the value will be called."""
        return ValueNames((self.value_name,))

    def collect(self, counts: ValueCounts) -> Part:
        """Return the exact sums of weights and of products."""
        weighed = [(self._weigh(counts, values, rows), rows) for values, rows in counts.counts]
        pairs = [(*pair, rows) for pair, rows in weighed if pair is not None]
        # In units no smaller than the numbers need, for the sake of speed; the sums are then shifted.
        bottoms_of = (number.as_integer_ratio()[1] for pair in pairs for number in pair[:2])
        bits = max((bottom.bit_length() - 1 for bottom in bottoms_of), default=0)
        top = bottom = tops = products = bottoms = 0
        for one, other, rows in pairs:
            value, weight = to_units(one, bits), to_units(other, bits)
            top += rows * value * weight
            bottom += rows * weight
            tops += rows * (value * weight) ** 2
            products += rows * value * weight**2
            bottoms += rows * weight**2
        shift = UNIT_BITS - bits
        return counts.build(
            top=top << 2 * shift,
            bottom=bottom << shift,
            tops=tops << 4 * shift,
            products=products << 3 * shift,
            bottoms=bottoms << 2 * shift,
            negative=sum(rows for _, weight, rows in pairs if weight < 0),
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
            numbers = counts.take_numbers(self.fields(), values, rows)
            return None if numbers is None else (numbers[0], numbers[1])
        weight = find_weight(self.weights, values[0])
        if weight is None:
            counts.leave_out(NO_WEIGHT, rows)
            return None
        counts.n += rows
        return weight, 1

    def finish(self, part: Part) -> list[MetricValue]:
        """Return the one value; none when nothing counts or all weights are 0."""
        self.check(part)
        if part.get("negative"):
            samples = format_count(part["negative"], "sample")
            message = f"`{self.type}`: `{self.weights}` holds negative weights in {samples}"
            raise ScoringError("E402", message, hint="a weight is 0 or more")
        if not part.get("n") or not part["bottom"]:
            note = "all weights are 0" if part.get("n") else NOTHING_COUNTED
            return [self.state(self.value_name, None, part, note=note)]
        value = divide(part["top"], part["bottom"] << UNIT_BITS)
        if value is None:
            return [self.state(self.value_name, None, part, note=TOO_LARGE)]
        error = measure_error(
            self.ratios(part, part)[self.value_name],
            tops=part["tops"],
            products=part["products"] << UNIT_BITS,
            bottoms=part["bottoms"] << 2 * UNIT_BITS,
        )
        method = RATIO_STUDENT if isinstance(self.weights, str) else STUDENT
        margin = measure_mean(value, error, part["n"], method)
        return [self.state(self.value_name, value, part, margin=margin)]

    def find_scale(self, scales: Mapping[str, Scale]) -> Scale | None:
        """Return the least and the greatest weight of the table, or the scale of the field itself."""
        if isinstance(self.weights, str):
            return scales.get(self.field.partition(".")[0])
        return float(min(self.weights.values())), float(max(self.weights.values()))

    def ratios(self, part: Part, whole: Part) -> dict[str, Ratio]:  # noqa: ARG002 - the names need no whole
        """Return the sums of some samples whose ratio is the value."""
        return {self.value_name: Ratio(part["top"], part["bottom"] << UNIT_BITS, part["n"])}


def find_weight(weights: Mapping[str | bool | float, float], value: object) -> float | None:
    """Return the weight whose key is the value's text, else the same number, else None."""
    label, number = write_label(value), read_number(value)
    found = [weight for key, weight in weights.items() if write_label(key) == label]
    if not found and number is not None:
        found = [weight for key, weight in weights.items() if _reads_as(write_label(key), number)]
    return found[0] if found else None


def _reads_as(text: str, number: float) -> bool:
    try:
        return float(text) == number
    except ValueError:
        return False
