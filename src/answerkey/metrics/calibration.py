"""`calibration`: whether a model is right as often as it is sure, in bins of confidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from answerkey.errors import SpecError
from answerkey.metrics.concluding import NOTHING_COUNTED, Margin, check_part, state_value
from answerkey.metrics.exact import UNIT_BITS, to_units
from answerkey.metrics.observed import Ledger, Observed, Part, merge_parts, observe
from answerkey.metrics.value_names import ValueNames
from answerkey.types import MetricValue, Scores

_OUTSIDE = "outside_0_to_1"
BIASED = "chance alone makes it larger than it is, which no interval around it allows for"


@dataclass(frozen=True)
class _Cell:
    """The samples of one bin that are right alike: how many, and their summed confidence in units."""

    place: int
    right: Fraction
    count: int
    confidence: int


@dataclass(frozen=True)
class Calibration:
    """The expected calibration error, for each number of bins.

    Bins have equal width and include their upper end; the error is the mean distance between confidence and
    share of right answers in a bin, each bin weighed by its samples.
    """

    field_confidence: str = "confidence"
    field_correct: str = "is_correct"
    bins: tuple[int, ...] = (10, 15)

    type: ClassVar[str] = "calibration"
    reads_numbers: ClassVar[bool] = True
    reads_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.bins or any(one < 1 for one in self.bins) or len(set(self.bins)) < len(self.bins):
            raise SpecError(
                "E108", f"`bins` is {list(self.bins)!r}", hint="write numbers from 1 on, each once"
            )

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""
        return (self.field_confidence, self.field_correct)

    def value_names(self) -> ValueNames:
        """Return what the values will be called."""
        return ValueNames(tuple(f"ece_{size}" for size in self.bins), is_share=True)

    def measure(self, scores: Scores) -> Part:
        """Return counts and exact sums of each bin of this shard."""
        return self.collect(observe(scores, self.fields()))

    def collect(self, observed: Observed) -> Part:
        """Return the part of what was observed."""
        ledger = Ledger.open(observed)
        cells: dict[str, Counter[str]] = {str(size): Counter() for size in self.bins}
        sums: dict[str, Counter[str]] = {str(size): Counter() for size in self.bins}
        for values, count in observed.counts:
            taken = ledger.take_numbers(self.fields(), values, count)
            if taken is None:
                continue
            confidence, right = taken
            if not 0 <= confidence <= 1 or not 0 <= right <= 1:
                ledger.n -= count
                ledger.leave_out(_OUTSIDE, count)
                continue
            for size in self.bins:
                key = f"{find_bin(confidence, size)} {Fraction(right)}"
                cells[str(size)][key] += count
                sums[str(size)][key] += count * to_units(float(confidence))
        return ledger.close(
            cells={size: dict(one) for size, one in cells.items()},
            sums={size: dict(one) for size, one in sums.items()},
        )

    def merge(self, parts: Sequence[Part]) -> Part:
        """Return several parts as one, in any order."""
        return merge_parts(parts)

    def finish(self, part: Part) -> list[MetricValue]:
        """Return the error for each number of bins, with the curve of confidence and right answers."""
        check_part(part, self.type, self.fields())
        return [self._state(size, part) for size in self.bins]

    def _state(self, size: int, part: Part) -> MetricValue:
        name = f"ece_{size}"
        if not part.get("n"):
            return state_value(name, None, part, kind=self.type, note=NOTHING_COUNTED)
        cells = list(_read_cells(part, size))
        value = float(_measure_error(cells, part["n"]))
        details = {"bins": [_describe_bin(place, size, cells) for place in range(size)]}
        margin = Margin(note=BIASED, is_share=True)
        return state_value(name, value, part, kind=self.type, details=details, margin=margin)


def find_bin(confidence: float, size: int) -> int:
    """Return the bin of a confidence: the first holds 0 to 1/size, both included, the next up to 2/size."""
    top, bottom = float(confidence).as_integer_ratio()
    return max(0, -(-top * size // bottom) - 1)


def _read_cells(part: Part, size: int) -> Iterator[_Cell]:
    counts, sums = part["cells"][str(size)], part["sums"][str(size)]
    for key in sorted(counts, key=lambda text: (int(text.split()[0]), Fraction(text.split()[1]))):
        place, right = key.split()
        yield _Cell(int(place), Fraction(right), counts[key], sums[key])


def _measure_error(cells: Sequence[_Cell], n: int) -> Fraction:
    gaps: dict[int, Fraction] = {}
    for one in cells:
        gap = Fraction(one.confidence, 1 << UNIT_BITS) - one.right * one.count
        gaps[one.place] = gaps.get(one.place, Fraction()) + gap
    return sum((abs(gap) for gap in gaps.values()), Fraction()) / n


def _describe_bin(place: int, size: int, cells: Sequence[_Cell]) -> dict[str, object]:
    """Return one point of the reliability curve."""
    own = [one for one in cells if one.place == place]
    n = sum(one.count for one in own)
    confidence = Fraction(sum(one.confidence for one in own), 1 << UNIT_BITS)
    right = sum((one.right * one.count for one in own), Fraction())
    return {
        "from": place / size,
        "to": (place + 1) / size,
        "n": n,
        "confidence": float(confidence / n) if n else None,
        "accuracy": float(right / n) if n else None,
    }
