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
    Part,
    is_finite,
    merge_parts,
    observe,
    write_label,
)
from answerkey.types import MetricValue, Scores


@dataclass(frozen=True)
class Frequency:
    """The share of each distinct value of a field, null left out; in the order of the values' text."""

    field: str

    type: ClassVar[str] = "frequency"

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""
        return (self.field,)

    def measure(self, scores: Scores) -> Part:
        """Return how often each value occurs in this shard; whole numbers, floats and the rest apart."""
        observed = observe(scores, [self.field])
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
        counts = unite_numbers(part["kinds"])
        return [
            state_share(f"{self.field}_{label}", Share(counts[label], part["n"]), part, kind=self.type)
            for label in sorted(counts)
        ]


def unite_numbers(kinds: Mapping[str, Mapping[str, int]]) -> Counter[str]:
    """Return the counts by label; whole numbers are written as floats where the field holds any."""
    counts = Counter({**kinds["other"]})
    counts.update(kinds["float"])
    for label, count in kinds["int"].items():
        is_alike = bool(kinds["float"]) and float(label) == int(label)
        counts[str(float(label)) if is_alike else label] += count
    return counts
