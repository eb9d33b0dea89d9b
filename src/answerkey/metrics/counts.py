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
    say_samples,
    state_share,
    state_value,
)
from answerkey.metrics.exact import UNIT_BITS, divide, to_units
from answerkey.metrics.observed import Ledger, Part, merge_parts, observe
from answerkey.types import MetricValue, Scores


class _CountMetric(ABC):
    """A ratio of summed counts: hits / (hits + all misses)."""

    type: ClassVar[str]
    reads_numbers: ClassVar[bool] = True
    #: How often a hit weighs against a miss: twice in F1.
    hit_factor: ClassVar[int] = 1
    empty: ClassVar[str]
    name: str | None

    @abstractmethod
    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads, true positives first."""

    def measure(self, scores: Scores) -> Part:
        """Return the exact sums of this shard, and how many samples contribute more than one 0/1 outcome."""
        observed = observe(scores, self.fields())
        ledger = Ledger.open(observed)
        sums = {"hits": 0, "misses": 0, "negative": 0, "clustered": 0}
        for values, count in observed.counts:
            numbers = ledger.take_numbers(self.fields(), values, count)
            if numbers is not None:
                sums["hits"] += count * to_units(numbers[0])
                sums["misses"] += count * sum(to_units(number) for number in numbers[1:])
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

    def _state(self, name: str, part: Part) -> MetricValue:
        hits, misses = self.hit_factor * part["hits"], part["misses"]
        if hits + misses == 0:
            return state_value(name, None, part, kind=self.type, note=self.empty)
        if self.hit_factor == 1 and not part["clustered"]:
            share = Share(hits >> UNIT_BITS, (hits + misses) >> UNIT_BITS)
            return state_share(name, share, part, kind=self.type)
        return state_value(name, divide(hits, hits + misses), part, kind=self.type)


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
