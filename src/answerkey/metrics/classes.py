"""Precision, recall and F1 of classes, and their averages over the classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from answerkey.metrics.averages import average_shares
from answerkey.metrics.concluding import (
    NOTHING_COUNTED,
    Margin,
    Share,
    measure_f1,
    state_share,
    state_value,
)
from answerkey.metrics.exact import divide
from answerkey.metrics.intervals import BCA
from answerkey.metrics.observed import Part
from answerkey.metrics.ratios import Ratio
from answerkey.metrics.resampling import MOST_CELLS, Statistic, resample
from answerkey.types import MetricValue

AVERAGED = ("precision", "recall", "f1_score")


@dataclass(frozen=True)
class ClassCounts:
    """How often a class was found, wrongly claimed and missed."""

    hits: int
    false_alarms: int
    misses: int

    @property
    def precision(self) -> Share:
        """The share of hits among all claims."""
        return Share(self.hits, self.hits + self.false_alarms)

    @property
    def recall(self) -> Share:
        """The share of hits among all samples of the class."""
        return Share(self.hits, self.hits + self.misses)

    @property
    def f1_score(self) -> Share:
        """2 TP of 2 TP + FP + FN."""
        return Share(2 * self.hits, 2 * self.hits + self.false_alarms + self.misses)


def count_classes(
    confusion: Mapping[str, Mapping[str, int]], unanswered: Mapping[str, int]
) -> dict[str, ClassCounts]:
    """Return the counts of every class that is ever true or predicted, in the order of their text."""
    hits: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    true = Counter(dict(unanswered))
    for truth, row in confusion.items():
        hits[truth] += row.get(truth, 0)
        true[truth] += sum(row.values())
        predicted.update(row)
    names = sorted(true.keys() | predicted.keys())
    return {
        name: ClassCounts(hits[name], predicted[name] - hits[name], true[name] - hits[name]) for name in names
    }


def list_ratios(prefix: str, counts: ClassCounts, n: int) -> dict[str, Ratio]:
    """Return precision, recall and F1 of a class as ratios."""
    shares: dict[str, Share] = {kind: getattr(counts, kind) for kind in AVERAGED}
    return {f"{prefix}{kind}": Ratio(share.count, share.of, n) for kind, share in shares.items()}


def state_rates(prefix: str, name: str, counts: ClassCounts, part: Part, *, kind: str) -> list[MetricValue]:
    """Return precision, recall and F1 of a class with their intervals."""
    nothing = None if part.get("n") else NOTHING_COUNTED
    return [
        state_share(
            f"{prefix}precision",
            counts.precision,
            part,
            kind=kind,
            empty=nothing or f"0/0: {name!r} is never predicted",
        ),
        state_share(
            f"{prefix}recall",
            counts.recall,
            part,
            kind=kind,
            empty=nothing or f"0/0: {name!r} is never the truth",
        ),
        _state_f1(f"{prefix}f1_score", name, counts, part, kind=kind),
    ]


def _state_f1(label: str, name: str, counts: ClassCounts, part: Part, *, kind: str) -> MetricValue:
    f1 = counts.f1_score
    if not f1.of:
        empty = f"0/0: {name!r} is neither predicted nor the truth" if part.get("n") else NOTHING_COUNTED
        return state_value(label, None, part, kind=kind, note=empty)
    margin = measure_f1(counts.hits, counts.false_alarms + counts.misses)
    return state_value(label, divide(f1.count, f1.of), part, kind=kind, margin=margin)


def state_averages(classes: Mapping[str, ClassCounts], part: Part, *, kind: str) -> list[MetricValue]:
    """Return the unweighted means over the classes.

    Given how often each class is true, the recalls of the classes are independent, and so are the precisions
    given how often each is predicted. The F1 scores are not: one class's miss is another's false alarm.
    """
    shares: dict[str, list[Share]] = {
        name: [getattr(one, name) for one in classes.values()] for name in AVERAGED
    }
    margins = {name: average_shares([one for one in shares[name] if one.of]) for name in AVERAGED[:2]}
    margins["f1_score"] = _resample_f1(part) if part.get("n") else Margin()
    return [_state_average(name, shares[name], margins[name], part, kind=kind) for name in AVERAGED]


def _state_average(
    name: str, shares: Sequence[Share], margin: Margin, part: Part, *, kind: str
) -> MetricValue:
    label = f"macro_{name}"
    defined = [share for share in shares if share.of]
    if not defined:
        return state_value(label, None, part, kind=kind, note=NOTHING_COUNTED)
    # Equal denominators first: fractions over thousands of different ones grow large.
    tops: Counter[int] = Counter()
    for share in defined:
        tops[share.of] += share.count
    mean = sum((Fraction(top, of) for of, top in tops.items()), Fraction(0)) / len(defined)
    note = f"mean over {len(defined)} of {len(shares)} classes, the others are 0/0"
    return state_value(
        label,
        divide(mean.numerator, mean.denominator),
        part,
        kind=kind,
        note=note if len(defined) < len(shares) else None,
        margin=margin,
    )


def _resample_f1(part: Part) -> Margin:
    """Return how sure the mean of the classes' F1 scores is, by resampling the cells of the confusion."""
    cells = sorted(_list_cells(part))
    if len(cells) > MOST_CELLS:
        note = f"{len(cells)} pairs of truth and prediction are too many to resample"
        return Margin(note=note, is_share=True)
    statistic = _average_f1([truth for truth, _, _ in cells], [said for _, said, _ in cells])
    found = resample([count for _, _, count in cells], statistic, part.get("seed", 0))
    method = BCA if found.interval else None
    return Margin(found.std_error, found.interval, method, found.note, is_share=True)


def _list_cells(part: Part) -> Iterator[tuple[str, str, int]]:
    """Yield truth, prediction and count; both are marked so that no class is taken for a missing one."""
    for truth, row in part["confusion"].items():
        yield from ((f"={truth}", f"={said}", count) for said, count in row.items())
    yield from ((f"={truth}", "", count) for truth, count in part["no_prediction"].items())


def _average_f1(truths: Sequence[str], said: Sequence[str]) -> Statistic:
    """Return the mean F1 over the classes that occur, as a function of the counts of the cells."""
    names = sorted({*truths, *said} - {""})
    places = {name: place for place, name in enumerate([*names, ""])}
    pairs = [(places[truth], places[one]) for truth, one in zip(truths, said, strict=True)]

    def measure(counts: Sequence[int]) -> float | None:
        hits, uses = [0] * len(places), [0] * len(places)
        for count, (truth, predicted) in zip(counts, pairs, strict=True):
            uses[truth] += count
            uses[predicted] += count
            if truth == predicted:
                hits[truth] += count
        scores = [2 * hit / use for hit, use in zip(hits[:-1], uses[:-1], strict=True) if use]
        return sum(scores) / len(scores) if scores else None

    return measure
