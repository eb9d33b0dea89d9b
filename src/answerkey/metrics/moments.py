"""`mean`, `max`, `min` and `std_dev` of one field."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from answerkey.metrics.columns import find_ends, sum_column
from answerkey.metrics.concluding import (
    NOTHING_COUNTED,
    TOO_LARGE,
    Margin,
    Share,
    check_part,
    measure_mean,
    state_share,
    state_value,
)
from answerkey.metrics.exact import UNIT_BITS, divide, divide_and_root, sum_exactly
from answerkey.metrics.intervals import Scale
from answerkey.metrics.observed import (
    Ledger,
    Observed,
    Part,
    count_left_out,
    find_many,
    merge_parts,
    observe,
)
from answerkey.metrics.ratios import Ratio, Squares, measure_error
from answerkey.metrics.value_names import ValueNames
from answerkey.types import MetricValue, Scores

NO_INTERVAL = "answerkey computes none for a standard deviation"
AN_END = "the end of a sample says nothing about values not seen"


@dataclass(frozen=True)
class _FieldMetric(ABC):
    """A number from the numbers of one field; booleans count as 1 and 0."""

    field: str
    name: str | None = None

    type: ClassVar[str]
    reads_numbers: ClassVar[bool] = True

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""
        return (self.field,)

    def measure(self, scores: Scores) -> Part:
        """Return counts, exact sums and both ends of the field in this shard."""
        numbers = find_many(scores, self.field)
        if numbers is None:
            return self.collect(observe(scores, [self.field]))
        return self.collect_column(numbers, Observed([], count_left_out(scores), scores.names))

    def collect_column(self, numbers: pl.Series, observed: Observed) -> Part:
        """Return the same part from a column of many different numbers."""
        ledger = Ledger.open(observed)
        finite = ledger.take_column(numbers)
        total, squares = sum_column(finite)
        return ledger.close(
            zeros=int((finite == 0).sum()),
            ones=int((finite == 1).sum()),
            sum=total,
            squares=squares,
            ends=find_ends(finite),
        )

    def collect(self, observed: Observed) -> Part:
        """Return the part of what was observed."""
        ledger = Ledger.open(observed)
        numbers: list[tuple[float, int]] = []
        for values, count in observed.counts:
            taken = ledger.take_numbers([self.field], values, count)
            if taken is not None:
                numbers.append((taken[0], count))
        total, squares = sum_exactly(numbers)
        return ledger.close(
            zeros=sum(count for number, count in numbers if number == 0),
            ones=sum(count for number, count in numbers if number == 1),
            sum=total,
            squares=squares,
            ends=sorted({pick(numbers)[0] for pick in (min, max)}) if numbers else [],
        )

    def merge(self, parts: Sequence[Part]) -> Part:
        """Return several parts as one, in any order."""
        return merge_parts(parts)

    def finish(self, part: Part) -> list[MetricValue]:
        """Return the one value; none when nothing counts."""
        check_part(part, self.type, self.fields())
        name = self._name_value()
        if not part.get("n"):
            return [state_value(name, None, part, kind=self.type, note=NOTHING_COUNTED)]
        return [self._state(name, part)]

    def value_names(self) -> ValueNames:
        """Return what the value will be called; right or wrong is 1 or 0 in every scorer."""
        return ValueNames((self._name_value(),), is_share=self.field.partition(".")[0] == "is_correct")

    def _name_value(self) -> str:
        return self.name or f"{self.field}_{self.type}"

    @abstractmethod
    def _state(self, name: str, part: Part) -> MetricValue:
        """Return the value of a part that has numbers."""


@dataclass(frozen=True)
class Mean(_FieldMetric):
    """The mean of a field; of 0/1 values a share."""

    type: ClassVar[str] = "mean"
    sums: ClassVar[tuple[str, ...]] = ("n", "sum")

    def _state(self, name: str, part: Part) -> MetricValue:
        n = part["n"]
        if part["zeros"] + part["ones"] == n:
            return state_share(name, Share(part["ones"], n), part, kind=self.type)
        value = divide(part["sum"], n << UNIT_BITS)
        squares = Squares(part["squares"], part["sum"] << UNIT_BITS, n << 2 * UNIT_BITS)
        error = measure_error(self.ratios(part, part)[name], squares)
        margin = measure_mean(value, error, n, is_share=part.get("is_share", False))
        return state_value(name, value, part, kind=self.type, margin=margin)

    def find_scale(self, scales: Mapping[str, Scale]) -> Scale | None:
        """Return the scale of the field, whichever aggregate of trials it is: a mean does not leave it."""
        return scales.get(self.field.partition(".")[0])

    def ratios(self, part: Part, whole: Part) -> dict[str, Ratio]:  # noqa: ARG002 - the names need no whole
        """Return the sums of some samples whose ratio is the value."""
        return {self._name_value(): Ratio(part["sum"], part["n"] << UNIT_BITS, part["n"])}


@dataclass(frozen=True)
class Max(_FieldMetric):
    """The largest value of a field."""

    type: ClassVar[str] = "max"

    def _state(self, name: str, part: Part) -> MetricValue:
        value = float(max(part["ends"]))
        return state_value(name, value, part, kind=self.type, margin=Margin(note=AN_END))


@dataclass(frozen=True)
class Min(_FieldMetric):
    """The smallest value of a field."""

    type: ClassVar[str] = "min"

    def _state(self, name: str, part: Part) -> MetricValue:
        value = float(min(part["ends"]))
        return state_value(name, value, part, kind=self.type, margin=Margin(note=AN_END))


@dataclass(frozen=True)
class StdDev(_FieldMetric):
    """The sample standard deviation (n - 1) of a field; none for fewer than two values."""

    type: ClassVar[str] = "std_dev"

    def _state(self, name: str, part: Part) -> MetricValue:
        n = part["n"]
        if n == 1:
            return state_value(
                name, None, part, kind=self.type, note="it needs at least two values, there is one"
            )
        spread = n * part["squares"] - part["sum"] ** 2
        value = divide_and_root(spread, n * (n - 1) << 2 * UNIT_BITS)
        note = TOO_LARGE if value is None else None
        return state_value(name, value, part, kind=self.type, note=note, margin=Margin(note=NO_INTERVAL))
