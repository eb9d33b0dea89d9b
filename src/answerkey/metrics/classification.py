"""`binary-classification` and `multiclass-classification`: truths against predictions, compared as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from answerkey.errors import SpecError
from answerkey.metrics.concluding import NOTHING_COUNTED, Share, check_part, state_share, state_value
from answerkey.metrics.exact import divide
from answerkey.metrics.observed import (
    NEITHER_ANSWER,
    NULL,
    SHOWN_EXAMPLES,
    Ledger,
    Part,
    merge_parts,
    observe,
    show_value,
    write_label,
)
from answerkey.types import MetricValue, Scores


@dataclass(frozen=True)
class BinaryClassification:
    """Accuracy, precision, recall and F1 of a yes/no question.

    A sample whose truth or prediction is neither of the two answers is left out and counted.
    """

    field_gt: str
    field_pred: str
    positive_answer: str | bool | float
    negative_answer: str | bool | float

    type: ClassVar[str] = "binary-classification"

    def __post_init__(self) -> None:
        if write_label(self.positive_answer) == write_label(self.negative_answer):
            message = f"`positive_answer` and `negative_answer` are both {self.positive_answer!r}"
            raise SpecError("E108", message, hint="give the two answers that are to be told apart")

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""
        return (self.field_gt, self.field_pred)

    def measure(self, scores: Scores) -> Part:
        """Return the four counts of this shard, and examples of labels that are neither answer."""
        observed = observe(scores, self.fields())
        ledger = Ledger.open(observed)
        answers = {
            write_label(self.positive_answer): "positive",
            write_label(self.negative_answer): "negative",
        }
        counts: Counter[str] = Counter()
        others: set[str] = set()
        for values, count in observed.counts:
            labels = [write_label(value) for value in values]
            if None in values:
                ledger.leave_out(NULL, count)
            elif not answers.keys() >= set(labels):
                ledger.leave_out(NEITHER_ANSWER, count)
                others = set(sorted(others | (set(labels) - answers.keys()))[:SHOWN_EXAMPLES])
            else:
                ledger.n += count
                counts[" as ".join(answers[label] for label in labels)] += count
        return ledger.close(counts=dict(counts), others=sorted(others))

    def merge(self, parts: Sequence[Part]) -> Part:
        """Return several parts as one, in any order."""
        return merge_parts(parts)

    def finish(self, part: Part) -> list[MetricValue]:
        """Return accuracy, precision, recall and F1."""
        check_part(part, self.type, self.fields())
        counts: Counter[str] = Counter(part.get("counts", {}))
        positive = ClassCounts(
            hits=counts["positive as positive"],
            false_alarms=counts["negative as positive"],
            misses=counts["positive as negative"],
        )
        details = {
            "true_positives": positive.hits,
            "false_positives": positive.false_alarms,
            "false_negatives": positive.misses,
            "true_negatives": counts["negative as negative"],
        }
        accuracy = Share(positive.hits + counts["negative as negative"], part.get("n", 0))
        return [
            state_share(
                "accuracy", accuracy, part, kind=self.type, empty=self._explain(part), details=details
            ),
            *state_rates("", write_label(self.positive_answer), positive, part, kind=self.type),
        ]

    def _explain(self, part: Part) -> str:
        """Return why no sample counts, with what the fields hold instead of the two answers."""
        others = ", ".join(show_value(label) for label in part.get("others", [])[:SHOWN_EXAMPLES])
        answers = f"{self.positive_answer!r} or {self.negative_answer!r}"
        return f"{NOTHING_COUNTED}: instead of {answers} there is {others}" if others else NOTHING_COUNTED


@dataclass(frozen=True)
class MulticlassClassification:
    """Accuracy, and precision, recall and F1 of each class and on average over the classes.

    A null prediction is a miss of its true class; only a null truth is left out.
    """

    field_gt: str
    field_pred: str

    type: ClassVar[str] = "multiclass-classification"

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""
        return (self.field_gt, self.field_pred)

    def measure(self, scores: Scores) -> Part:
        """Return the confusion counts of this shard: truth, then prediction; null predictions apart."""
        observed = observe(scores, self.fields())
        ledger = Ledger.open(observed)
        confusion: dict[str, Counter[str]] = {}
        unanswered: Counter[str] = Counter()
        for (truth, predicted), count in observed.counts:
            if truth is None:
                ledger.leave_out(NULL, count)
                continue
            ledger.n += count
            if predicted is None:
                unanswered[write_label(truth)] += count
            else:
                confusion.setdefault(write_label(truth), Counter())[write_label(predicted)] += count
        rows = {truth: dict(row) for truth, row in confusion.items()}
        return ledger.close(confusion=rows, no_prediction=dict(unanswered))

    def merge(self, parts: Sequence[Part]) -> Part:
        """Return several parts as one, in any order."""
        return merge_parts(parts)

    def finish(self, part: Part) -> list[MetricValue]:
        """Return accuracy, the values of each class in the order of their text, and the averages."""
        check_part(part, self.type, self.fields())
        confusion = {
            truth: dict(sorted(row.items())) for truth, row in sorted(part.get("confusion", {}).items())
        }
        unanswered = dict(sorted(part.get("no_prediction", {}).items()))
        counts = count_classes(confusion, unanswered)
        accuracy = Share(sum(one.hits for one in counts.values()), part.get("n", 0))
        details = {"confusion": confusion, "no_prediction": unanswered}
        values = [state_share("accuracy", accuracy, part, kind=self.type, details=details)]
        for name in sorted(counts):
            values += state_rates(f"{name}_", name, counts[name], part, kind=self.type)
        return values + state_averages(list(counts.values()), part, kind=self.type)


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
    """Return the counts of every class that is ever true or predicted."""
    hits: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    true = Counter(dict(unanswered))
    for truth, row in confusion.items():
        hits[truth] += row.get(truth, 0)
        true[truth] += sum(row.values())
        predicted.update(row)
    names = true.keys() | predicted.keys()
    return {
        name: ClassCounts(hits[name], predicted[name] - hits[name], true[name] - hits[name]) for name in names
    }


def state_rates(prefix: str, name: str, counts: ClassCounts, part: Part, *, kind: str) -> list[MetricValue]:
    """Return precision and recall with intervals, and F1, which is no share of samples and has none."""
    nothing = None if part.get("n") else NOTHING_COUNTED
    f1 = counts.f1_score
    f1_note = None if f1.of else nothing or f"0/0: {name!r} is neither predicted nor the truth"
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
        state_value(f"{prefix}f1_score", _divide_share(f1), part, kind=kind, note=f1_note),
    ]


def _divide_share(share: Share) -> float | None:
    return divide(share.count, share.of) if share.of else None


def state_averages(classes: Sequence[ClassCounts], part: Part, *, kind: str) -> list[MetricValue]:
    """Return the unweighted means over the classes."""
    return [
        _state_average("macro_precision", [one.precision for one in classes], part, kind=kind),
        _state_average("macro_recall", [one.recall for one in classes], part, kind=kind),
        _state_average("macro_f1_score", [one.f1_score for one in classes], part, kind=kind),
    ]


def _state_average(name: str, shares: Sequence[Share], part: Part, *, kind: str) -> MetricValue:
    defined = [share for share in shares if share.of]
    if not defined:
        return state_value(name, None, part, kind=kind, note=NOTHING_COUNTED)
    # Equal denominators first: fractions over thousands of different ones grow large.
    tops: Counter[int] = Counter()
    for share in defined:
        tops[share.of] += share.count
    mean = sum((Fraction(top, of) for of, top in tops.items()), Fraction(0)) / len(defined)
    note = f"mean over {len(defined)} of {len(shares)} classes, the others are 0/0"
    value = divide(mean.numerator, mean.denominator)
    return state_value(name, value, part, kind=kind, note=note if len(defined) < len(shares) else None)
