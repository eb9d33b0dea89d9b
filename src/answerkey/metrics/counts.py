"""`precision`, `recall` and `f1_score` from counts that a scorer gives per sample; the counts are summed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from answerkey.errors import ScoringError
from answerkey.metrics.concluding import (
    NOTHING_COUNTED,
    Share,
    check_part,
    measure_f1,
    measure_ratio,
    say_samples,
    state_share,
    state_value,
)
from answerkey.metrics.exact import UNIT_BITS, divide, to_units
from answerkey.metrics.observed import Ledger, Observed, Part, merge_parts, observe
from answerkey.metrics.ratios import Ratio, Squares, measure_error
from answerkey.metrics.value_names import ValueNames
from answerkey.types import MetricValue, Scores


class _CountMetric(ABC):
    """A ratio of summed counts: hits / (hits + all misses)."""

    type: ClassVar[str]
    reads_numbers: ClassVar[bool] = True
    sums: ClassVar[tuple[str, ...]] = ("n", "hits", "misses")
    #: How often a hit weighs against a miss: twice in F1.
    hit_factor: ClassVar[int] = 1
    empty: ClassVar[str]
    name: str | None

    @abstractmethod
    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads, true positives first."""

    def measure(self, scores: Scores) -> Part:
        """Return the exact sums of this shard, and how many samples contribute more than one 0/1 outcome."""
        return self.collect(observe(scores, self.fields()))

    def collect(self, observed: Observed) -> Part:
        """Return the part of what was observed."""
        ledger = Ledger.open(observed)
        sums = {"hits": 0, "misses": 0, "negative": 0, "clustered": 0}
        sums |= {"hit_squares": 0, "products": 0, "miss_squares": 0}
        for values, count in observed.counts:
            numbers = ledger.take_numbers(self.fields(), values, count)
            if numbers is not None:
                hits, misses = to_units(numbers[0]), sum(to_units(number) for number in numbers[1:])
                sums["hits"] += count * hits
                sums["misses"] += count * misses
                sums["hit_squares"] += count * hits**2
                sums["products"] += count * hits * misses
                sums["miss_squares"] += count * misses**2
                sums["negative"] += count * (min(numbers) < 0)
                sums["clustered"] += count * (set(numbers) - {0, 1} != set() or sum(numbers) > 1)
        return ledger.close(**sums)

    def merge(self, parts: Sequence[Part]) -> Part:
        """Return several parts as one, in any order."""
        return merge_parts(parts)

    def finish(self, part: Part) -> list[MetricValue]:
        """Return the one value; none for 0/0."""
        check_part(part, self.type, self.fields())
        if part.get("negative"):
            message = (
                f"`{self.type}` needs counts, but there are negative ones in {say_samples(part['negative'])}"
            )
            raise ScoringError("E402", message, hint="a count is 0 or more")
        name = self.name or self.type
        if not part.get("n"):
            return [state_value(name, None, part, kind=self.type, note=NOTHING_COUNTED)]
        return [self._state(name, part)]

    def value_names(self) -> ValueNames:
        """Return what the value will be called."""
        return ValueNames((self.name or self.type,), is_share=True)

    def _state(self, name: str, part: Part) -> MetricValue:
        hits, misses = self.hit_factor * part["hits"], part["misses"]
        if hits + misses == 0:
            return state_value(name, None, part, kind=self.type, note=self.empty)
        is_single = not part["clustered"]
        if self.hit_factor == 1 and is_single:
            share = Share(hits >> UNIT_BITS, (hits + misses) >> UNIT_BITS)
            return state_share(name, share, part, kind=self.type)
        value = divide(hits, hits + misses)
        if is_single:
            margin = measure_f1(part["hits"] >> UNIT_BITS, misses >> UNIT_BITS)
        else:
            error = measure_error(self.ratios(part, part)[name], self._square(part))
            margin = measure_ratio(value, error, part["n"], is_share=True)
        return state_value(name, value, part, kind=self.type, margin=margin)

    def ratios(self, part: Part, whole: Part) -> dict[str, Ratio]:  # noqa: ARG002 - the names need no whole
        """Return the sums of some samples whose ratio is the value."""
        hits = self.hit_factor * part["hits"]
        return {self.name or self.type: Ratio(hits, hits + part["misses"], part["n"])}

    def _square(self, part: Part) -> Squares:
        """Return the squares of hits (as they weigh) over hits and misses."""
        factor = self.hit_factor
        tops, products = factor**2 * part["hit_squares"], factor * part["products"]
        return Squares(tops, tops + products, tops + 2 * products + part["miss_squares"])


@dataclass(frozen=True)
class Precision(_CountMetric):
    """TP / (TP + FP) of the summed counts."""

    num_true_positives_field: str
    num_false_positives_field: str
    name: str | None = None

    type: ClassVar[str] = "precision"
    empty: ClassVar[str] = "0/0: there are no positives among the predictions"

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads, true positives first."""
        return (self.num_true_positives_field, self.num_false_positives_field)


@dataclass(frozen=True)
class Recall(_CountMetric):
    """TP / (TP + FN) of the summed counts."""

    num_true_positives_field: str
    num_false_negatives_field: str
    name: str | None = None

    type: ClassVar[str] = "recall"
    empty: ClassVar[str] = "0/0: there are no positives among the truths"

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads, true positives first."""
        return (self.num_true_positives_field, self.num_false_negatives_field)


@dataclass(frozen=True)
class F1Score(_CountMetric):
    """2 TP / (2 TP + FP + FN) of the summed counts."""

    num_true_positives_field: str
    num_false_positives_field: str
    num_false_negatives_field: str
    name: str | None = None

    type: ClassVar[str] = "f1_score"
    hit_factor: ClassVar[int] = 2
    empty: ClassVar[str] = "0/0: there are no positives among predictions or truths"

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads, true positives first."""
        return (self.num_true_positives_field, self.num_false_positives_field, self.num_false_negatives_field)
