"""`frequency`: how often each value of a field occurs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from answerkey.metrics.concluding import NOTHING_COUNTED, Share, check_part, state_share, state_value
from answerkey.metrics.observed import (
    NOT_FINITE,
    NULL,
    Ledger,
    Observed,
    Part,
    is_finite,
    merge_parts,
    observe,
    write_label,
)
from answerkey.metrics.ratios import Ratio
from answerkey.metrics.value_names import ValueNames
from answerkey.types import MetricValue, Scores


@dataclass(frozen=True)
class Frequency:
    """The share of each distinct value of a field, null left out; in the order of the values' text."""

    field: str

    type: ClassVar[str] = "frequency"
    sums: ClassVar[tuple[str, ...]] = ("n", "kinds")

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""
        return (self.field,)

    def measure(self, scores: Scores) -> Part:
        """Return how often each value occurs in this shard; whole numbers, floats and the rest apart."""
        return self.collect(observe(scores, [self.field]))

    def collect(self, observed: Observed) -> Part:
        """Return the part of what was observed."""
        ledger = Ledger.open(observed)
        kinds: dict[str, Counter[str]] = {"int": Counter(), "float": Counter(), "other": Counter()}
        for (value,), count in observed.counts:
            kind = type(value).__name__
            if value is None:
                ledger.leave_out(NULL, count)
            elif isinstance(value, float) and not is_finite(value):
                ledger.leave_out(NOT_FINITE, count)
            else:
                ledger.n += count
                kinds[kind if kind in kinds else "other"][write_label(value)] += count
        return ledger.close(kinds={kind: dict(counts) for kind, counts in kinds.items()})

    def merge(self, parts: Sequence[Part]) -> Part:
        """Return several parts as one, in any order."""
        return merge_parts(parts)

    def finish(self, part: Part) -> list[MetricValue]:
        """Return one share per value; a single one without value when nothing counts."""
        check_part(part, self.type, self.fields())
        if not part.get("n"):
            name = f"{self.field}_frequency"
            return [state_value(name, None, part, kind=self.type, note=NOTHING_COUNTED)]
        counts = unite_numbers(part["kinds"], as_floats=bool(part["kinds"]["float"]))
        return [
            state_share(f"{self.field}_{label}", Share(counts[label], part["n"]), part, kind=self.type)
            for label in sorted(counts)
        ]

    def value_names(self) -> ValueNames:
        """Return how the names of the shares begin; the labels are not known yet."""
        return ValueNames(patterns=((f"{self.field}_", ""),), is_share=True)

    def ratios(self, part: Part, whole: Part) -> dict[str, Ratio]:
        """Return the sums of some samples whose ratio is the value, for each label of the whole."""
        as_floats = bool(whole["kinds"]["float"])
        counts = unite_numbers(part["kinds"], as_floats=as_floats)
        labels = unite_numbers(whole["kinds"], as_floats=as_floats)
        return {f"{self.field}_{label}": Ratio(counts[label], part["n"], part["n"]) for label in labels}


def unite_numbers(kinds: Mapping[str, Mapping[str, int]], *, as_floats: bool) -> Counter[str]:
    """Return the counts by label; `as_floats`, as where the field holds any, writes whole numbers so."""
    counts = Counter({**kinds["other"]})
    counts.update(kinds["float"])
    for label, count in kinds["int"].items():
        is_alike = as_floats and float(label) == int(label)
        counts[str(float(label)) if is_alike else label] += count
    return counts
