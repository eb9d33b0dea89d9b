"""Shares: `precision`, `recall`, `f1_score`, `frequency`, the classifications, `calibration`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from answerkey.errors import SpecError
from answerkey.metrics.base import (
    NEITHER_ANSWER,
    NOT_FINITE,
    NOTHING_COUNTED,
    NULL,
    Addition,
    Cells,
    CountingMetric,
    RatioMetric,
    Sums,
    ValueCounts,
    ValueNames,
    is_finite,
    sort_keys,
    write_label,
)
from answerkey.metrics.intervals import (
    RATIO_STUDENT,
    RATIO_WILSON,
    Exact,
    Margin,
    Ratio,
    average_shares,
    bound_value,
)
from answerkey.types import MetricValue

RATES = ("precision", "recall", "f1_score")
BIASED = "it is biased upwards in small samples"

_OUTSIDE = "outside_0_to_1"

# Metrics of counts that a scorer gives for each sample


class _CountMetric(RatioMetric):
    """A ratio of summed counts: hits / (hits + all misses)."""

    reads_numbers: ClassVar[bool] = True
    needs: ClassVar[str] = "counts, which are 0 or more"
    #: The weight of a hit relative to a miss: two in F1.
    hit_factor: ClassVar[int] = 1
    method: ClassVar[str] = RATIO_STUDENT
    score_method: ClassVar[str | None] = RATIO_WILSON

    @property
    def value_name(self) -> str:
        """What the value is called."""
        return self.name or self.type

    def value_names(self) -> ValueNames:
        """Return the name of the value."""
        return ValueNames((self.value_name,), is_share=True)

    def weigh(
        self,
        counts: ValueCounts,
        values: Cells,
        rows: int,
    ) -> Addition | None:
        """Return the hits, and the hits plus all misses."""
        numbers = counts.take_numbers(
            self.fields(),
            values,
            rows,
            is_count=True,
        )
        if numbers is None:
            return None
        first, *misses = numbers
        hits = self.hit_factor * first
        return hits, hits + sum(misses)


@dataclass(frozen=True)
class Precision(_CountMetric):
    """TP / (TP + FP) of the summed counts."""

    num_true_positives_field: str
    num_false_positives_field: str
    name: str | None = None

    type: ClassVar[str] = "precision"
    empty: ClassVar[str] = "0/0: there are no positives among the predictions"


@dataclass(frozen=True)
class Recall(_CountMetric):
    """TP / (TP + FN) of the summed counts."""

    num_true_positives_field: str
    num_false_negatives_field: str
    name: str | None = None

    type: ClassVar[str] = "recall"
    empty: ClassVar[str] = "0/0: there are no positives among the truths"


@dataclass(frozen=True)
class F1Score(_CountMetric):
    """2 TP / (2 TP + FP + FN) of the summed counts."""

    num_true_positives_field: str
    num_false_positives_field: str
    num_false_negatives_field: str
    name: str | None = None

    type: ClassVar[str] = "f1_score"
    hit_factor: ClassVar[int] = 2
    outcomes: ClassVar[tuple[Addition, ...]] = (
        (0, 0),
        (0, 1),
        (2, 2),
    )
    empty: ClassVar[str] = "0/0: there are no positives among predictions or truths"

    def make_ratio_value(self, counts: ValueCounts, ratio: Ratio) -> MetricValue:
        """Return F1, with the interval for single hits and misses if every sample is one."""
        if ratio.several:
            return super().make_ratio_value(counts, ratio)
        return self.make_f1(
            self.value_name,
            ratio.share,
            counts,
            empty=self.empty,
        )


# How often each value occurs


@dataclass(frozen=True)
class Frequency(CountingMetric):
    """The share of each distinct value of a field, sorted as text; null is left out."""

    field: str

    type: ClassVar[str] = "frequency"

    def collect(self, counts: ValueCounts) -> Sums:
        """Return the share of each value; it is 0 for a value that does not occur."""
        sums = Sums()
        for (value,), rows in counts.counts:
            if value is None:
                counts.left_out[NULL] += rows
            elif isinstance(value, float) and not is_finite(value):
                counts.left_out[NOT_FINITE] += rows
            else:
                counts.n += rows
                label = write_label(value)
                sums.add(f"{self.field}_{label}", 1, 0, rows)
        sums.absent.bottom = counts.n
        for ratio in sums.values():
            ratio.bottom = counts.n
        return sums

    def make_values(self, counts: ValueCounts, sums: Sums) -> list[MetricValue]:
        """Return one share per value; a single null if no sample counts."""
        if not sums:
            return [self.make_value(f"{self.field}_frequency", None, counts, note=NOTHING_COUNTED)]
        values = []
        for name, ratio in sorted(sums.items()):
            values.append(self.make_share(name, ratio.share, counts))
        return values

    def value_names(self) -> ValueNames:
        """Return the prefix of the names of the shares; the labels are not known yet."""
        return ValueNames(patterns=((f"{self.field}_", ""),), is_share=True)


# Truths against predictions, compared as text


#: The notes on rates of a class that are 0/0.
_EMPTY = {
    "accuracy": NOTHING_COUNTED,
    "precision": "0/0: it is never predicted",
    "recall": "0/0: it is never the truth",
    "f1_score": "0/0: it is neither predicted nor the truth",
}


def _list_classes(sums: Sums) -> list[str]:
    """Return every class that is ever true or predicted, sorted as text."""
    classes: set[str] = set()
    for truth, prediction in sums.cells:
        classes.add(truth)
        if prediction is not None:
            classes.add(prediction)
    return sorted(classes)


class _Classification(CountingMetric, ABC):
    """A metric of a field with the truth and a field with the prediction."""

    #: The truths that count; all if empty.
    truths: tuple[str, ...] = ()

    @abstractmethod
    def name_rate(self, label: str, rate: str) -> str:
        """Return the name of a class's rate."""

    def collect(self, counts: ValueCounts) -> Sums:
        """Return accuracy, and precision, recall and F1 = 2 TP / (2 TP + FP + FN) of each class."""
        confusion = Sums()
        for (truth, predicted), rows in counts.counts:
            label = write_label(truth)
            if truth is None:
                counts.left_out[NULL] += rows
            elif self.truths and label not in self.truths:
                counts.left_out[NEITHER_ANSWER] += rows
            else:
                prediction = None
                if predicted is not None:
                    prediction = write_label(predicted)
                counts.n += rows
                confusion.cells[label, prediction] += rows
        for (truth, prediction), rows in confusion.cells.items():
            names = ["accuracy"]
            names.append(self.name_rate(truth, "recall"))
            names.append(self.name_rate(truth, "f1_score"))
            if prediction is not None:
                names.append(self.name_rate(prediction, "precision"))
                names.append(self.name_rate(prediction, "f1_score"))
            for name in names:
                confusion.add(name, int(truth == prediction), 1, rows)
        return confusion

    def make_rates(
        self,
        names: Iterable[str],
        counts: ValueCounts,
        sums: Sums,
        details: dict[str, object],
    ) -> list[MetricValue]:
        """Return accuracy, which carries the details, and the rates by their names."""
        accuracy = sums["accuracy"].share
        values = [self.make_share("accuracy", accuracy, counts, details=details)]
        for name in names:
            rate = next(rate for rate in RATES if name.endswith(rate))
            empty = _EMPTY[rate] if counts.n else NOTHING_COUNTED
            make_rate = self.make_f1 if rate == "f1_score" else self.make_share
            value = make_rate(
                name,
                sums[name].share,
                counts,
                empty=empty,
            )
            values.append(value)
        return values


@dataclass(frozen=True)
class BinaryClassification(_Classification):
    """Accuracy, precision, recall and F1 of a yes/no question.

    A prediction that is neither of the two answers, or null, is a miss of its true class: a false
    negative for a positive, but not a false positive for a negative. Only a sample whose truth is
    neither of them, or null, is left out and counted.
    """

    field_gt: str
    field_pred: str
    positive_answer: str | bool | float
    negative_answer: str | bool | float

    type: ClassVar[str] = "binary-classification"

    def __post_init__(self) -> None:
        positive, negative = self.truths
        if positive == negative:
            message = f"`positive_answer` and `negative_answer` are both {self.positive_answer!r}"
            hint = "give the two answers to distinguish"
            raise SpecError("E108", message, hint=hint)

    @property
    def truths(self) -> tuple[str, ...]:  # type: ignore[override]  # it is made of two fields
        """The two answers, the positive one first."""
        return write_label(self.positive_answer), write_label(self.negative_answer)

    def name_rate(self, label: str, rate: str) -> str:
        """Return the bare name for the positive answer, whose rates are the metric's values."""
        if label == self.truths[0]:
            return rate
        return f"{label}_{rate}"

    def make_values(self, counts: ValueCounts, sums: Sums) -> list[MetricValue]:
        """Return accuracy, precision, recall and F1."""
        positive, negative = self.truths
        hits = sums.cells[positive, positive]
        false_alarms = sums.cells[negative, positive]
        rejections = sums.cells[negative, negative]
        positives = int(sums["recall"].bottom)
        details: dict[str, object] = {
            "true_positives": hits,
            "false_positives": false_alarms,
            "false_negatives": positives - hits,
            "true_negatives": rejections,
            "missed_negatives": counts.n - positives - rejections - false_alarms,
        }
        return self.make_rates(RATES, counts, sums, details)

    def value_names(self) -> ValueNames:
        """Return the names of the values."""
        return ValueNames(("accuracy", *RATES), is_share=True)


@dataclass(frozen=True)
class MulticlassClassification(_Classification):
    """Accuracy, and precision, recall and F1 of each class and their averages over the classes.

    A null prediction is a miss of its true class; only a null truth is left out.
    """

    field_gt: str
    field_pred: str

    type: ClassVar[str] = "multiclass-classification"

    def name_rate(self, label: str, rate: str) -> str:
        """Return the name of a class's rate."""
        return f"{label}_{rate}"

    def make_values(self, counts: ValueCounts, sums: Sums) -> list[MetricValue]:
        """Return accuracy, the values of each class, sorted as text, and the averages."""
        names = []
        for label in _list_classes(sums):
            for rate in RATES:
                names.append(self.name_rate(label, rate))
        confusion: dict[str, dict[str, int]] = {}
        unanswered: dict[str, int] = {}
        for (truth, prediction), rows in sums.cells.items():
            if prediction is None:
                unanswered[truth] = rows
            else:
                predictions = confusion.setdefault(truth, {})
                predictions[prediction] = rows
        details: dict[str, object] = {
            "confusion": sort_keys(confusion),
            "no_prediction": sort_keys(unanswered),
        }
        values = self.make_rates(names, counts, sums, details)
        for rate in RATES:
            values.append(self._make_average(rate, counts, sums))
        return values

    def _make_average(
        self,
        rate: str,
        counts: ValueCounts,
        sums: Sums,
    ) -> MetricValue:
        """Return the unweighted mean of a rate over the classes.

        The recalls of the classes are independent given how often each class is true, and so are
        the precisions given how often each class is predicted. The F1 scores are not: one class's
        miss is another's false alarm.
        """
        name = f"macro_{rate}"
        shares = []
        for member in self.averages(sums)[name]:
            shares.append(sums[member].share)
        if not shares:
            return self.make_value(name, None, counts, note=NOTHING_COUNTED)
        note = None
        size = len(_list_classes(sums))
        if len(shares) < size:
            note = f"mean over {len(shares)} of {size} classes, the others are 0/0"
        total = sum((Fraction(*share) for share in shares), Fraction())
        value = float(total / len(shares))
        if rate == "f1_score":
            margin = self._measure_macro_f1(value, sums)
        else:
            margin = average_shares(shares)
        return self.make_value(
            name,
            value,
            counts,
            note=note,
            margin=margin,
        )

    def _measure_macro_f1(self, value: float, sums: Sums) -> Margin:
        """Return the margin of the mean of the classes' F1 scores.

        The contribution of a sample to the error is how far it moves the F1 of its true class and
        of its predicted class (the delta method).
        """
        n = sums.cells.total()
        squares = []
        for (truth, prediction), rows in sums.cells.items():
            residual = 0.0
            for label in (truth, prediction):
                if label is not None:
                    count, of = sums[self.name_rate(label, "f1_score")].share
                    # Half of a hit, minus the expected share of hits.
                    residual += (int(truth == prediction) - count / of) / of
            squares.append(rows * residual**2)
        error = None
        if n > 1:
            variance = n / (n - 1) * math.fsum(squares)
            error = math.sqrt(variance) / len(_list_classes(sums))
        return bound_value(
            value,
            error,
            n - 1,
            RATIO_STUDENT,
            score_method=RATIO_WILSON,
            is_share=True,
        )

    def value_names(self) -> ValueNames:
        """Return the names of the values; the classes are not known yet."""
        names = ["accuracy"]
        patterns = []
        for rate in RATES:
            names.append(f"macro_{rate}")
            patterns.append(("", f"_{rate}"))
        return ValueNames(tuple(names), tuple(patterns), is_share=True)

    def averages(self, sums: Sums) -> dict[str, list[str]]:
        """Return for each average the values it averages, without those that are 0/0."""
        averages: dict[str, list[str]] = {}
        for rate in RATES:
            names = []
            for label in _list_classes(sums):
                name = self.name_rate(label, rate)
                if sums[name].bottom:
                    names.append(name)
            averages[f"macro_{rate}"] = names
        return averages


# Calibration: whether a model's confidence matches its accuracy


@dataclass(frozen=True)
class Calibration(CountingMetric):
    """The expected calibration error, for each number of bins.

    Bins have equal width and include their upper end; the error is the mean distance between
    confidence and share of right answers in a bin, weighted by the bin's samples.
    """

    field_confidence: str = "confidence"
    field_correct: str = "is_correct"
    bins: tuple[int, ...] = (10, 15)

    type: ClassVar[str] = "calibration"
    reads_numbers: ClassVar[bool] = True
    reads_rows: ClassVar[bool] = True
    has_ratios: ClassVar[bool] = False

    def __post_init__(self) -> None:
        is_repeated = len(set(self.bins)) < len(self.bins)
        if not self.bins or min(self.bins) < 1 or is_repeated:
            message = f"`bins` is {list(self.bins)!r}"
            raise SpecError("E108", message, hint="write numbers from 1 on, each once")

    def value_names(self) -> ValueNames:
        """Return the names of the values."""
        names = [f"ece_{size}" for size in self.bins]
        return ValueNames(tuple(names), is_share=True)

    def collect(self, counts: ValueCounts) -> Sums:
        """Return the bins: the ratio of right answers to the sum of confidence in each."""
        sums = Sums()
        for values, rows in counts.counts:
            numbers = counts.take_numbers(self.fields(), values, rows)
            if numbers is None:
                continue
            if min(numbers) < 0 or max(numbers) > 1:
                counts.n -= rows
                counts.left_out[_OUTSIDE] += rows
                continue
            confidence, right = numbers
            for size in self.bins:
                place = find_bin(confidence, size)
                sums.add(f"{place} of {size}", right, confidence, rows)
        return sums

    def make_values(self, counts: ValueCounts, sums: Sums) -> list[MetricValue]:
        """Return the error for each number of bins, with the curve of confidence and right
        answers.
        """
        return [self._make_error(size, counts, sums) for size in self.bins]

    def _make_error(
        self,
        size: int,
        counts: ValueCounts,
        sums: Sums,
    ) -> MetricValue:
        name = f"ece_{size}"
        if not counts.n:
            return self.make_value(name, None, counts, note=NOTHING_COUNTED)
        error = Fraction()
        curve = []
        for place in range(size):
            cell = sums[f"{place} of {size}"]
            error += abs(Fraction(cell.bottom) - cell.top)
            point: dict[str, object] = {
                "from": place / size,
                "to": (place + 1) / size,
                "n": cell.n,
                "confidence": None,
                "accuracy": None,
            }
            if cell.n:
                confidence = Fraction(cell.bottom) / cell.n
                accuracy = Fraction(cell.top) / cell.n
                point["confidence"] = float(confidence)
                point["accuracy"] = float(accuracy)
            curve.append(point)
        return self.make_value(
            name,
            float(error / counts.n),
            counts,
            details={"bins": curve},
            margin=Margin(interval_note=BIASED, is_share=True),
        )


def find_bin(confidence: float | Exact, size: int) -> int:
    """Return the bin of a confidence: the first holds 0 to 1/size, both included, the next up to
    2/size.
    """
    top, bottom = confidence.as_integer_ratio()
    return max(0, -(-top * size // bottom) - 1)
