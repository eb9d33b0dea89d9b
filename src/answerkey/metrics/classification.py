"""Shares: `precision`, `recall`, `f1_score`, `frequency`, the classifications, `calibration`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from answerkey.errors import ScoringError, SpecError
from answerkey.metrics.base import (
    NEITHER_ANSWER,
    NOT_FINITE,
    NOTHING_COUNTED,
    NULL,
    SHOWN_EXAMPLES,
    CountingMetric,
    Coverage,
    Sums,
    ValueCounts,
    ValueNames,
    is_finite,
    sort_keys,
    write_label,
)
from answerkey.metrics.exact import divide
from answerkey.metrics.intervals import (
    RATIO_STUDENT,
    RATIO_WILSON,
    Counts,
    Margin,
    Ratio,
    average_shares,
    measure_error,
    measure_f1,
    measure_mean,
)
from answerkey.reader.explain import shorten
from answerkey.text import format_count
from answerkey.types import MetricValue

RATES = ("precision", "recall", "f1_score")
BIASED = "chance alone makes it larger than it is, which no interval around it allows for"

_OUTSIDE = "outside_0_to_1"

# Counts that a scorer gives per sample


@dataclass
class HitSums:
    """Hits and misses, summed up, with their squares and products.

    `clustered` counts the samples that contribute more than one 0/1 outcome.
    """

    n: int = 0
    hits: Fraction = Fraction()
    misses: Fraction = Fraction()
    hit_squares: Fraction = Fraction()
    products: Fraction = Fraction()
    miss_squares: Fraction = Fraction()
    negative: int = 0
    clustered: int = 0


class _CountMetric(CountingMetric[HitSums]):
    """A ratio of summed counts: hits / (hits + all misses)."""

    reads_numbers: ClassVar[bool] = True
    #: How often a hit weighs against a miss: twice in F1.
    hit_factor: ClassVar[int] = 1
    empty: ClassVar[str]
    name: str | None

    @property
    def value_name(self) -> str:
        """What the value is called."""
        return self.name or self.type

    def collect(self, counts: ValueCounts) -> HitSums:
        """Return the exact sums."""
        sums = HitSums()
        for values, rows in counts.counts:
            numbers = counts.take_numbers(
                self.fields(),
                values,
                rows,
            )
            if numbers is None:
                continue
            hits = Fraction(numbers[0])
            misses = sum(map(Fraction, numbers[1:]), Fraction())
            sums.hits += rows * hits
            sums.misses += rows * misses
            sums.hit_squares += rows * hits**2
            sums.products += rows * hits * misses
            sums.miss_squares += rows * misses**2
            if min(numbers) < 0:
                sums.negative += rows
            if hits + misses > 1 or not {0, 1}.issuperset(numbers):
                sums.clustered += rows
        sums.n = counts.n
        return sums

    def state_values(self, counts: ValueCounts, sums: HitSums) -> list[MetricValue]:
        """Return the one value; none for 0/0."""
        if sums.negative:
            negative = format_count(sums.negative, "sample")
            message = f"`{self.type}` needs counts, but there are negative ones in {negative}"
            raise ScoringError(
                "E402",
                message,
                hint="a count is 0 or more",
            )
        if not sums.n:
            return [
                self.state(
                    self.value_name,
                    None,
                    counts,
                    note=NOTHING_COUNTED,
                )
            ]
        hits = self.hit_factor * sums.hits
        total = hits + sums.misses
        if not total:
            return [
                self.state(
                    self.value_name,
                    None,
                    counts,
                    note=self.empty,
                )
            ]
        if sums.clustered:
            return [self._state_ratio(counts, sums)]
        if self.hit_factor == 1:
            return [
                self.state_share(
                    self.value_name,
                    (int(hits), int(total)),
                    counts,
                )
            ]
        margin = measure_f1(int(sums.hits), int(sums.misses))
        return [
            self.state(
                self.value_name,
                divide(hits, total),
                counts,
                margin=margin,
            )
        ]

    def _state_ratio(self, counts: ValueCounts, sums: HitSums) -> MetricValue:
        """Return the value where samples have several outcomes, which are not independent."""
        ratio = self.ratios(sums, sums)[self.value_name]
        value = divide(ratio.top, ratio.bottom)
        # Squares of hits (as they weigh) over hits and misses.
        tops = self.hit_factor**2 * sums.hit_squares
        products = self.hit_factor * sums.products
        error = measure_error(
            ratio,
            tops=tops,
            products=tops + products,
            bottoms=tops + 2 * products + sums.miss_squares,
        )
        margin = measure_mean(
            value,
            error,
            sums.n,
            RATIO_STUDENT,
            score_method=RATIO_WILSON,
            is_share=True,
        )
        return self.state(
            self.value_name,
            value,
            counts,
            margin=margin,
        )

    def value_names(self) -> ValueNames:
        """Return what the value will be called."""
        return ValueNames((self.value_name,), is_share=True)

    def ratios(self, sums: HitSums, whole: HitSums) -> dict[str, Ratio]:  # noqa: ARG002 - the names need no whole
        """Return the hits of some samples over all their outcomes."""
        hits = self.hit_factor * sums.hits
        return {self.value_name: Ratio(hits, hits + sums.misses, sums.n)}


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
    empty: ClassVar[str] = "0/0: there are no positives among predictions or truths"


# How often each value occurs


@dataclass
class LabelSums:
    """How often each label occurs; whole numbers, which may have to be written as floats, apart."""

    n: int = 0
    integers: Counter[int] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    has_floats: bool = False

    def unite(self, *, has_floats: bool) -> Counter[str]:
        """Return the counts by label; with floats, whole numbers are written as floats."""
        counts = Counter(self.labels)
        for number, rows in self.integers.items():
            label = str(number)
            if has_floats and float(number) == number:
                label = str(float(number))
            counts[label] += rows
        return counts


@dataclass(frozen=True)
class Frequency(CountingMetric[LabelSums]):
    """The share of each distinct value of a field, null left out.

    In the order of the values' text.
    """

    field: str

    type: ClassVar[str] = "frequency"

    def collect(self, counts: ValueCounts) -> LabelSums:
        """Return how often each value occurs."""
        sums = LabelSums()
        for (value,), rows in counts.counts:
            if value is None:
                counts.leave_out(NULL, rows)
                continue
            if isinstance(value, float) and not is_finite(value):
                counts.leave_out(NOT_FINITE, rows)
                continue
            counts.n += rows
            if type(value) is int:
                sums.integers[value] += rows
                continue
            sums.labels[write_label(value)] += rows
            if isinstance(value, float):
                sums.has_floats = True
        sums.n = counts.n
        return sums

    def state_values(self, counts: ValueCounts, sums: LabelSums) -> list[MetricValue]:
        """Return one share per value; a single one without value when nothing counts."""
        if not sums.n:
            return [
                self.state(
                    f"{self.field}_frequency",
                    None,
                    counts,
                    note=NOTHING_COUNTED,
                )
            ]
        values = []
        for label, rows in sorted(sums.unite(has_floats=sums.has_floats).items()):
            values.append(
                self.state_share(
                    f"{self.field}_{label}",
                    (rows, sums.n),
                    counts,
                )
            )
        return values

    def value_names(self) -> ValueNames:
        """Return how the names of the shares begin; the labels are not known yet."""
        return ValueNames(patterns=((f"{self.field}_", ""),), is_share=True)

    def ratios(self, sums: LabelSums, whole: LabelSums) -> dict[str, Ratio]:
        """Return the share of each label of the whole among some samples."""
        counts = sums.unite(has_floats=whole.has_floats)
        ratios = {}
        for label in whole.unite(has_floats=whole.has_floats):
            ratios[f"{self.field}_{label}"] = Ratio(counts[label], sums.n, sums.n)
        return ratios


# Truths against predictions, compared as text


#: Precision, recall and F1 = 2 TP of 2 TP + FP + FN of a class, by the name of the rate.
Rates = dict[str, Counts]


def list_rates(hits: int, false_alarms: int, misses: int) -> Rates:
    """Return the rates of a class that was found, wrongly claimed and missed so often."""
    return {
        "precision": (hits, hits + false_alarms),
        "recall": (hits, hits + misses),
        "f1_score": (2 * hits, 2 * hits + false_alarms + misses),
    }


#: Why a rate of a class is 0/0.
_EMPTY = {
    "precision": "never predicted",
    "recall": "never the truth",
    "f1_score": "neither predicted nor the truth",
}


class _Classification(CountingMetric[Sums]):
    """A metric of a field that holds the truth and one that holds the prediction."""

    def state_rates(
        self, prefix: str, label: str, rates: Rates, coverage: Coverage
    ) -> list[MetricValue]:
        """Return precision, recall and F1 of a class with their intervals."""
        values = []
        for rate, (count, of) in rates.items():
            name = f"{prefix}{rate}"
            empty = NOTHING_COUNTED
            if coverage.n:
                empty = f"0/0: {label!r} is {_EMPTY[rate]}"
            if rate != "f1_score":
                value = self.state_share(
                    name,
                    (count, of),
                    coverage,
                    empty=empty,
                )
            elif not of:
                value = self.state(
                    name,
                    None,
                    coverage,
                    note=empty,
                )
            else:
                margin = measure_f1(count // 2, of - count)
                value = self.state(
                    name,
                    divide(count, of),
                    coverage,
                    margin=margin,
                )
            values.append(value)
        return values


@dataclass
class Outcomes:
    """How often a yes/no question had each outcome.

    A positive that is read as neither answer is a false negative; a negative that is read as
    neither is a miss too, but no false positive. `unknown` are examples of truths that are neither.
    """

    n: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    unknown: set[str] = field(default_factory=set)

    @property
    def accuracy(self) -> Counts:
        """How many of all are right."""
        return self.counts["true_positives"] + self.counts["true_negatives"], self.n

    @property
    def rates(self) -> Rates:
        """The rates of the positive answer."""
        return list_rates(
            self.counts["true_positives"],
            self.counts["false_positives"],
            self.counts["false_negatives"],
        )


@dataclass(frozen=True)
class BinaryClassification(_Classification[Outcomes]):
    """Accuracy, precision, recall and F1 of a yes/no question.

    A prediction that is neither of the two answers, or null, is a miss of its true class. Only a
    sample whose truth is neither of them, or null, is left out and counted.
    """

    field_gt: str
    field_pred: str
    positive_answer: str | bool | float
    negative_answer: str | bool | float

    type: ClassVar[str] = "binary-classification"

    def __post_init__(self) -> None:
        if write_label(self.positive_answer) == write_label(self.negative_answer):
            message = f"`positive_answer` and `negative_answer` are both {self.positive_answer!r}"
            raise SpecError(
                "E108",
                message,
                hint="give the two answers that are to be told apart",
            )

    def collect(self, counts: ValueCounts) -> Outcomes:
        """Return how often each outcome occurs, and examples of truths that are neither answer."""
        positive = write_label(self.positive_answer)
        negative = write_label(self.negative_answer)
        outcomes = Outcomes()
        for (truth, predicted), rows in counts.counts:
            label = write_label(truth)
            prediction = None if predicted is None else write_label(predicted)
            if truth is None:
                counts.leave_out(NULL, rows)
            elif label == positive:
                counts.n += rows
                outcome = "true_positives" if prediction == positive else "false_negatives"
                outcomes.counts[outcome] += rows
            elif label == negative:
                counts.n += rows
                outcomes.counts[
                    _name_negative(
                        prediction,
                        positive,
                        negative,
                    )
                ] += rows
            else:
                counts.leave_out(NEITHER_ANSWER, rows)
                outcomes.unknown.add(label)
        outcomes.n = counts.n
        return outcomes

    def state_values(self, counts: ValueCounts, sums: Outcomes) -> list[MetricValue]:
        """Return accuracy, precision, recall and F1."""
        empty = NOTHING_COUNTED
        if sums.unknown:
            examples = ", ".join(map(shorten, sorted(sums.unknown)[:SHOWN_EXAMPLES]))
            answers = f"{self.positive_answer!r} or {self.negative_answer!r}"
            empty = f"{NOTHING_COUNTED}: instead of {answers} there is {examples}"
        details = {outcome: sums.counts[outcome] for outcome in OUTCOMES}
        label = write_label(self.positive_answer)
        return [
            self.state_share(
                "accuracy",
                sums.accuracy,
                counts,
                empty=empty,
                details=details,
            ),
            *self.state_rates(
                "",
                label,
                sums.rates,
                counts,
            ),
        ]

    def ratios(self, sums: Outcomes, whole: Outcomes) -> dict[str, Ratio]:  # noqa: ARG002 - the names need no whole
        """Return the ratio of some samples for each value."""
        ratios = {}
        for name, (count, of) in {"accuracy": sums.accuracy, **sums.rates}.items():
            ratios[name] = Ratio(count, of, sums.n)
        return ratios

    def value_names(self) -> ValueNames:
        """Return what the values will be called."""
        return ValueNames(("accuracy", *RATES), is_share=True)


OUTCOMES = (
    "true_positives",
    "false_positives",
    "false_negatives",
    "true_negatives",
    "missed_negatives",
)


def _name_negative(prediction: str | None, positive: str, negative: str) -> str:
    """Return the outcome of a sample whose truth is the negative answer."""
    if prediction == positive:
        return "false_positives"
    if prediction == negative:
        return "true_negatives"
    return "missed_negatives"


@dataclass
class Confusion:
    """How often each truth is predicted as what; a missing prediction is None."""

    n: int = 0
    cells: Counter[tuple[str, str | None]] = field(default_factory=Counter)

    def rate_classes(self) -> dict[str, Rates]:
        """Return the rates of every class that is ever true or predicted, in the order of their
        text.
        """
        true: Counter[str] = Counter()
        predicted: Counter[str] = Counter()
        hits: Counter[str] = Counter()
        for (truth, prediction), rows in self.cells.items():
            true[truth] += rows
            if prediction is not None:
                predicted[prediction] += rows
            if prediction == truth:
                hits[truth] += rows
        classes = {}
        for label in sorted(true.keys() | predicted.keys()):
            count = hits[label]
            classes[label] = list_rates(
                count,
                predicted[label] - count,
                true[label] - count,
            )
        return classes

    def describe(self) -> dict[str, object]:
        """Return the counts as nested mappings, in the order of their text."""
        confusion: dict[str, dict[str, int]] = {}
        unanswered: dict[str, int] = {}
        for (truth, prediction), rows in self.cells.items():
            if prediction is None:
                unanswered[truth] = rows
            else:
                confusion.setdefault(truth, {})[prediction] = rows
        return {"confusion": sort_keys(confusion), "no_prediction": sort_keys(unanswered)}


@dataclass(frozen=True)
class MulticlassClassification(_Classification[Confusion]):
    """Accuracy, and precision, recall and F1 of each class and on average over the classes.

    A null prediction is a miss of its true class; only a null truth is left out.
    """

    field_gt: str
    field_pred: str

    type: ClassVar[str] = "multiclass-classification"

    def collect(self, counts: ValueCounts) -> Confusion:
        """Return the confusion counts."""
        confusion = Confusion()
        for (truth, predicted), rows in counts.counts:
            if truth is None:
                counts.leave_out(NULL, rows)
                continue
            counts.n += rows
            prediction = None if predicted is None else write_label(predicted)
            confusion.cells[write_label(truth), prediction] += rows
        confusion.n = counts.n
        return confusion

    def state_values(self, counts: ValueCounts, sums: Confusion) -> list[MetricValue]:
        """Return accuracy, the values of each class in the order of their text, and the
        averages.
        """
        classes = sums.rate_classes()
        accuracy = (_count_hits(classes), sums.n)
        values = [
            self.state_share(
                "accuracy",
                accuracy,
                counts,
                details=sums.describe(),
            )
        ]
        for label, rates in classes.items():
            values += self.state_rates(
                f"{label}_",
                label,
                rates,
                counts,
            )
        for rate in RATES:
            values.append(
                self._state_average(
                    rate,
                    list(classes.values()),
                    counts,
                    sums,
                )
            )
        return values

    def _state_average(
        self, rate: str, classes: Sequence[Rates], counts: ValueCounts, sums: Confusion
    ) -> MetricValue:
        """Return the unweighted mean of a rate over the classes.

        Given how often each class is true, the recalls of the classes are independent, and so are
        the precisions given how often each is predicted. The F1 scores are not: one class's miss is
        another's false alarm.
        """
        name = f"macro_{rate}"
        defined = [rates[rate] for rates in classes if rates[rate][1]]
        if not defined:
            return self.state(
                name,
                None,
                counts,
                note=NOTHING_COUNTED,
            )
        # Equal denominators first: fractions over thousands of different ones grow large.
        tops: Counter[int] = Counter()
        for count, of in defined:
            tops[of] += count
        total = sum((Fraction(top, of) for of, top in tops.items()), Fraction())
        note = None
        if len(defined) < len(classes):
            note = f"mean over {len(defined)} of {len(classes)} classes, the others are 0/0"
        value = divide(total, len(defined))
        margin = average_shares(defined)
        if rate == "f1_score":
            margin = _measure_macro_f1(value, sums)
        return self.state(
            name,
            value,
            counts,
            note=note,
            margin=margin,
        )

    def ratios(self, sums: Confusion, whole: Confusion) -> dict[str, Ratio]:
        """Return the ratio of some samples for each value, for the classes of the whole."""
        classes = sums.rate_classes()
        ratios = {"accuracy": Ratio(_count_hits(classes), sums.n, sums.n)}
        for label in whole.rate_classes():
            rates = classes.get(label, list_rates(0, 0, 0))
            for rate, (count, of) in rates.items():
                ratios[f"{label}_{rate}"] = Ratio(count, of, sums.n)
        return ratios

    def value_names(self) -> ValueNames:
        """Return what the values will be called; the classes are not known yet."""
        names = ["accuracy"]
        patterns = []
        for rate in RATES:
            names.append(f"macro_{rate}")
            patterns.append(("", f"_{rate}"))
        return ValueNames(
            tuple(names),
            tuple(patterns),
            is_share=True,
        )

    def averages(self, whole: Confusion) -> dict[str, list[str]]:
        """Return for each average the values whose mean it is, without those that are 0/0."""
        averages: dict[str, list[str]] = {f"macro_{rate}": [] for rate in RATES}
        for label, rates in whole.rate_classes().items():
            for rate, (_, of) in rates.items():
                if of:
                    averages[f"macro_{rate}"].append(f"{label}_{rate}")
        return averages


def _count_hits(classes: Mapping[str, Rates]) -> int:
    return sum(rates["recall"][0] for rates in classes.values())


def _measure_macro_f1(value: float | None, confusion: Confusion) -> Margin:
    """Return how sure the mean of the classes' F1 scores is.

    What a sample adds to the error is by how much it moves the F1 of its true class and of the one
    predicted (the delta method).
    """
    n = confusion.n
    classes = confusion.rate_classes()
    squares = []
    for (truth, prediction), rows in confusion.cells.items():
        residual = 0.0
        for label in (truth, prediction):
            if label is not None:
                count, of = classes[label]["f1_score"]
                # Half of a hit, less the share of hits that there are anyway.
                residual += (int(truth == prediction) - count / of) / of
        squares.append(rows * residual**2)
    error = None
    if n > 1:
        error = math.sqrt(n / (n - 1) * math.fsum(squares)) / len(classes)
    return measure_mean(value, error, n, RATIO_STUDENT, score_method=RATIO_WILSON, is_share=True)


# Whether a model is right as often as it is sure


@dataclass
class Bin:
    """The samples of one bin: their number, and the sums of confidence and of right answers."""

    n: int = 0
    confidence: Fraction = Fraction()
    right: Fraction = Fraction()


#: The bins by their number.
Bins = dict[int, list[Bin]]


@dataclass(frozen=True)
class Calibration(CountingMetric[Bins]):
    """The expected calibration error, for each number of bins.

    Bins have equal width and include their upper end; the error is the mean distance between
    confidence and share of right answers in a bin, each bin weighed by its samples.
    """

    field_confidence: str = "confidence"
    field_correct: str = "is_correct"
    bins: tuple[int, ...] = (10, 15)

    type: ClassVar[str] = "calibration"
    reads_numbers: ClassVar[bool] = True
    reads_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.bins or min(self.bins) < 1 or len(set(self.bins)) < len(self.bins):
            message = f"`bins` is {list(self.bins)!r}"
            raise SpecError(
                "E108",
                message,
                hint="write numbers from 1 on, each once",
            )

    def value_names(self) -> ValueNames:
        """Return what the values will be called."""
        return ValueNames(tuple(f"ece_{size}" for size in self.bins), is_share=True)

    def collect(self, counts: ValueCounts) -> Bins:
        """Return the bins for each number of bins."""
        bins = {size: [Bin() for _ in range(size)] for size in self.bins}
        for values, rows in counts.counts:
            numbers = counts.take_numbers(
                self.fields(),
                values,
                rows,
            )
            if numbers is None:
                continue
            if min(numbers) < 0 or max(numbers) > 1:
                counts.n -= rows
                counts.leave_out(_OUTSIDE, rows)
                continue
            confidence = Fraction(numbers[0])
            right = Fraction(numbers[1])
            for size in self.bins:
                cell = bins[size][find_bin(confidence, size)]
                cell.n += rows
                cell.confidence += rows * confidence
                cell.right += rows * right
        return bins

    def state_values(self, counts: ValueCounts, sums: Bins) -> list[MetricValue]:
        """Return the error for each number of bins, with the curve of confidence and right
        answers.
        """
        return [self._state_error(bins, counts) for bins in sums.values()]

    def _state_error(self, bins: Sequence[Bin], counts: ValueCounts) -> MetricValue:
        size = len(bins)
        name = f"ece_{size}"
        if not counts.n:
            return self.state(
                name,
                None,
                counts,
                note=NOTHING_COUNTED,
            )
        error = Fraction()
        curve = []
        for place, cell in enumerate(bins):
            error += abs(cell.confidence - cell.right)
            point: dict[str, object] = {
                "from": place / size,
                "to": (place + 1) / size,
                "n": cell.n,
                "confidence": None,
                "accuracy": None,
            }
            if cell.n:
                point["confidence"] = float(cell.confidence / cell.n)
                point["accuracy"] = float(cell.right / cell.n)
            curve.append(point)
        margin = Margin(interval_note=BIASED, is_share=True)
        value = divide(error, counts.n)
        return self.state(
            name,
            value,
            counts,
            details={"bins": curve},
            margin=margin,
        )


def find_bin(confidence: float | Fraction, size: int) -> int:
    """Return the bin of a confidence: the first holds 0 to 1/size, both included, the next up to
    2/size.
    """
    top, bottom = confidence.as_integer_ratio()
    return max(0, -(-top * size // bottom) - 1)
