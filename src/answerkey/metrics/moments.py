"""`mean`, `max`, `min` and `std_dev` of one field."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from answerkey.metrics.concluding import (
    NOTHING_COUNTED,
    TOO_LARGE,
    Share,
    check_part,
    state_share,
    state_value,
)
from answerkey.metrics.exact import UNIT_BITS, divide, divide_and_root, sum_exactly
from answerkey.metrics.observed import Ledger, Part, merge_parts, observe
from answerkey.types import MetricValue, Scores


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
        observed = observe(scores, [self.field])
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
        name = self.name or f"{self.field}_{self.type}"
        if not part.get("n"):
            return [state_value(name, None, part, kind=self.type, note=NOTHING_COUNTED)]
        return [self._state(name, part)]

    @abstractmethod
    def _state(self, name: str, part: Part) -> MetricValue:
        """Return the value of a part that has numbers."""


@dataclass(frozen=True)
class Mean(_FieldMetric):
    """The mean of a field; of 0/1 values a share with an interval."""

    type: ClassVar[str] = "mean"

    def _state(self, name: str, part: Part) -> MetricValue:
        if part["zeros"] + part["ones"] == part["n"]:
            return state_share(name, Share(part["ones"], part["n"]), part, kind=self.type)
        return state_value(name, divide(part["sum"], part["n"] << UNIT_BITS), part, kind=self.type)


@dataclass(frozen=True)
class Max(_FieldMetric):
    """The largest value of a field."""

    type: ClassVar[str] = "max"

    def _state(self, name: str, part: Part) -> MetricValue:
        return state_value(name, float(max(part["ends"])), part, kind=self.type)


@dataclass(frozen=True)
class Min(_FieldMetric):
    """The smallest value of a field."""

    type: ClassVar[str] = "min"

    def _state(self, name: str, part: Part) -> MetricValue:
        return state_value(name, float(min(part["ends"])), part, kind=self.type)


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
        return state_value(name, value, part, kind=self.type, note=TOO_LARGE if value is None else None)
