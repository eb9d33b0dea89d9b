"""Shares: `precision`, `recall`, `f1_score`, `frequency`, the classifications, `calibration`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    Part,
    ValueCounts,
    ValueNames,
    is_finite,
    write_label,
)
from answerkey.metrics.exact import UNIT_BITS, divide, to_units
from answerkey.metrics.intervals import (
    MOST_CELLS,
    RATIO_STUDENT,
    RATIO_WILSON,
    Counts,
    Margin,
    Ratio,
    average_shares,
    measure_error,
    measure_f1,
    measure_mean,
    resample,
)
from answerkey.reader.explain import shorten
from answerkey.text import format_count
from answerkey.types import MetricValue

RATES = ("precision", "recall", "f1_score")
BIASED = "chance alone makes it larger than it is, which no interval around it allows for"

_OUTSIDE = "outside_0_to_1"

# Counts that a scorer gives per sample ---------------------------------------------------------------------


class _CountMetric(CountingMetric):
    """A ratio of summed counts: hits / (hits + all misses)."""

    reads_numbers: ClassVar[bool] = True
    sums: ClassVar[tuple[str, ...]] = ("n", "hits", "misses")
    #: How often a hit weighs against a miss: twice in F1.
    hit_factor: ClassVar[int] = 1
    empty: ClassVar[str]
    name: str | None

    def collect(self, counts: ValueCounts) -> Part:
        """Return the exact sums, and how many samples contribute more than one 0/1 outcome."""
        sums: Counter[str] = Counter()
        for values, rows in counts.counts:
            numbers = counts.take_numbers(self.fields(), values, rows)
            if numbers is not None:
                hits, misses = to_units(numbers[0]), sum(to_units(number) for number in numbers[1:])
                sums["hits"] += rows * hits
                sums["misses"] += rows * misses
                sums["hit_squares"] += rows * hits**2
                sums["products"] += rows * hits * misses
                sums["miss_squares"] += rows * misses**2
                sums["negative"] += rows * (min(numbers) < 0)
                sums["clustered"] += rows * (set(numbers) - {0, 1} != set() or sum(numbers) > 1)
        names = ("hits", "misses", "negative", "clustered", "hit_squares", "products", "miss_squares")
        return counts.build(**{name: sums[name] for name in names})

    def finish(self, part: Part) -> list[MetricValue]:
        """Return the one value; none for 0/0."""
        self.check(part)
        if part.get("negative"):
            negative = format_count(part["negative"], "sample")
            message = f"`{self.type}` needs counts, but there are negative ones in {negative}"
            raise ScoringError("E402", message, hint="a count is 0 or more")
        name = self.name or self.type
        if not part.get("n"):
            return [self.state(name, None, part, note=NOTHING_COUNTED)]
        factor, misses = self.hit_factor, part["misses"]
        hits = factor * part["hits"]
        if hits + misses == 0:
            return [self.state(name, None, part, note=self.empty)]
        if factor == 1 and not part["clustered"]:
            return [self.state_share(name, (hits >> UNIT_BITS, (hits + misses) >> UNIT_BITS), part)]
        value = divide(hits, hits + misses)
        if not part["clustered"]:
            margin = measure_f1(part["hits"] >> UNIT_BITS, misses >> UNIT_BITS)
        else:
            # Squares of hits (as they weigh) over hits and misses.
            tops, products = factor**2 * part["hit_squares"], factor * part["products"]
            error = measure_error(
                self.ratios(part, part)[name],
                tops=tops,
                products=tops + products,
                bottoms=tops + 2 * products + part["miss_squares"],
            )
            methods = {"method": RATIO_STUDENT, "score_method": RATIO_WILSON}
            margin = measure_mean(value, error, part["n"], **methods, is_share=True)
        return [self.state(name, value, part, margin=margin)]

    def value_names(self) -> ValueNames:
        """Return what the value will be called."""
        return ValueNames((self.name or self.type,), is_share=True)

    def ratios(self, part: Part, whole: Part) -> dict[str, Ratio]:  # noqa: ARG002 - the names need no whole
        """Return the sums of some samples whose ratio is the value."""
        hits = self.hit_factor * part["hits"]
        return {self.name or self.type: Ratio(hits, hits + part["misses"], part["n"])}


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


# How often each value occurs -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frequency(CountingMetric):
    """The share of each distinct value of a field, null left out; in the order of the values' text."""

    field: str

    type: ClassVar[str] = "frequency"
    sums: ClassVar[tuple[str, ...]] = ("n", "kinds")

    def collect(self, counts: ValueCounts) -> Part:
        """Return how often each value occurs; whole numbers, floats and the rest apart."""
        kinds: dict[str, Counter[str]] = {"int": Counter(), "float": Counter(), "other": Counter()}
        for (value,), rows in counts.counts:
            kind = type(value).__name__
            if value is None:
                counts.leave_out(NULL, rows)
            elif isinstance(value, float) and not is_finite(value):
                counts.leave_out(NOT_FINITE, rows)
            else:
                counts.n += rows
                kinds[kind if kind in kinds else "other"][write_label(value)] += rows
        return counts.build(kinds={kind: dict(found) for kind, found in kinds.items()})

    def finish(self, part: Part) -> list[MetricValue]:
        """Return one share per value; a single one without value when nothing counts."""
        self.check(part)
        if not part.get("n"):
            return [self.state(f"{self.field}_frequency", None, part, note=NOTHING_COUNTED)]
        counts = _unite_numbers(part, part)
        return [
            self.state_share(f"{self.field}_{label}", (counts[label], part["n"]), part)
            for label in sorted(counts)
        ]

    def value_names(self) -> ValueNames:
        """Return how the names of the shares begin; the labels are not known yet."""
        return ValueNames(patterns=((f"{self.field}_", ""),), is_share=True)

    def ratios(self, part: Part, whole: Part) -> dict[str, Ratio]:
        """Return the sums of some samples whose ratio is the value, for each label of the whole."""
        counts = _unite_numbers(part, whole)
        return {
            f"{self.field}_{label}": Ratio(counts[label], part["n"], part["n"])
            for label in _unite_numbers(whole, whole)
        }


def _unite_numbers(part: Part, whole: Part) -> Counter[str]:
    """Return the counts by label; where the field holds any floats, whole numbers are written as floats."""
    kinds, has_floats = part["kinds"], bool(whole["kinds"]["float"])
    counts = Counter({**kinds["other"]})
    counts.update(kinds["float"])
    for label, rows in kinds["int"].items():
        is_alike = has_floats and float(label) == int(label)
        counts[str(float(label)) if is_alike else label] += rows
    return counts


# Truths against predictions, compared as text --------------------------------------------------------------


#: Precision, recall and F1 = 2 TP of 2 TP + FP + FN of a class, by the name of the rate.
Rates = dict[str, Counts]


def list_rates(hits: int, false_alarms: int, misses: int) -> Rates:
    """Return the rates of a class that was found, wrongly claimed and missed so often."""
    shares = (hits, hits + false_alarms), (hits, hits + misses), (2 * hits, 2 * hits + false_alarms + misses)
    return dict(zip(RATES, shares, strict=True))


class _Classification(CountingMetric):
    """A metric of a field that holds the truth and one that holds the prediction."""

    def state_rates(self, prefix: str, name: str, rates: Rates, part: Part) -> list[MetricValue]:
        """Return precision, recall and F1 of a class with their intervals."""
        reasons = ("never predicted", "never the truth", "neither predicted nor the truth")
        values = []
        for (rate, share), reason in zip(rates.items(), reasons, strict=True):
            empty = f"0/0: {name!r} is {reason}" if part.get("n") else NOTHING_COUNTED
            if rate != "f1_score":
                values.append(self.state_share(f"{prefix}{rate}", share, part, empty=empty))
            elif not share[1]:
                values.append(self.state(f"{prefix}{rate}", None, part, note=empty))
            else:
                margin = measure_f1(share[0] // 2, share[1] - share[0])
                values.append(self.state(f"{prefix}{rate}", divide(*share), part, margin=margin))
        return values


@dataclass(frozen=True)
class BinaryClassification(_Classification):
    """Accuracy, precision, recall and F1 of a yes/no question.

    A prediction that is neither of the two answers, or null, is a miss of its true class. Only a sample whose
    truth is neither of them, or null, is left out and counted.
    """

    field_gt: str
    field_pred: str
    positive_answer: str | bool | float
    negative_answer: str | bool | float

    type: ClassVar[str] = "binary-classification"
    sums: ClassVar[tuple[str, ...]] = ("n", "counts")

    def __post_init__(self) -> None:
        if write_label(self.positive_answer) == write_label(self.negative_answer):
            message = f"`positive_answer` and `negative_answer` are both {self.positive_answer!r}"
            raise SpecError("E108", message, hint="give the two answers that are to be told apart")

    def collect(self, counts: ValueCounts) -> Part:
        """Return how often each answer is predicted as what, and examples of truths that are neither."""
        answers = {
            write_label(self.positive_answer): "positive",
            write_label(self.negative_answer): "negative",
        }
        pairs: Counter[str] = Counter()
        others: set[str] = set()
        for (truth, predicted), rows in counts.counts:
            label = write_label(truth)
            if truth is None:
                counts.leave_out(NULL, rows)
            elif label not in answers:
                counts.leave_out(NEITHER_ANSWER, rows)
                others = set(sorted({*others, label})[:SHOWN_EXAMPLES])
            else:
                counts.n += rows
                prediction = None if predicted is None else answers.get(write_label(predicted))
                pairs[f"{answers[label]} as {prediction or 'neither'}"] += rows
        return counts.build(counts=dict(pairs), others=sorted(others))

    def finish(self, part: Part) -> list[MetricValue]:
        """Return accuracy, precision, recall and F1."""
        self.check(part)
        outcomes = _count_outcomes(part.get("counts", {}))
        accuracy = (outcomes["true_positives"] + outcomes["true_negatives"], part.get("n", 0))
        others = ", ".join(shorten(label) for label in part.get("others", [])[:SHOWN_EXAMPLES])
        answers = f"{self.positive_answer!r} or {self.negative_answer!r}"
        empty = f"{NOTHING_COUNTED}: instead of {answers} there is {others}" if others else NOTHING_COUNTED
        return [
            self.state_share("accuracy", accuracy, part, empty=empty, details=outcomes),
            *self.state_rates("", write_label(self.positive_answer), _rate_answers(outcomes), part),
        ]

    def ratios(self, part: Part, whole: Part) -> dict[str, Ratio]:  # noqa: ARG002 - the names need no whole
        """Return the sums of some samples whose ratio is the value, for each value."""
        outcomes, n = _count_outcomes(part["counts"]), part["n"]
        shares = {"accuracy": (outcomes["true_positives"] + outcomes["true_negatives"], n)}
        return {name: Ratio(*share, n) for name, share in (shares | _rate_answers(outcomes)).items()}

    def value_names(self) -> ValueNames:
        """Return what the values will be called."""
        return ValueNames(("accuracy", *RATES), is_share=True)


#: What a sample with such a truth and such a prediction is called. One that is positive and read as neither
#: answer is a false negative; one that is negative is a miss too, but no false positive.
_OUTCOMES = {
    "positive as positive": "true_positives",
    "negative as positive": "false_positives",
    "positive as negative": "false_negatives",
    "positive as neither": "false_negatives",
    "negative as negative": "true_negatives",
    "negative as neither": "missed_negatives",
}


def _count_outcomes(pairs: Mapping[str, int]) -> dict[str, int]:
    outcomes = dict.fromkeys(_OUTCOMES.values(), 0)
    for pair, rows in pairs.items():
        outcomes[_OUTCOMES[pair]] += rows
    return outcomes


def _rate_answers(outcomes: Mapping[str, int]) -> Rates:
    return list_rates(outcomes["true_positives"], outcomes["false_positives"], outcomes["false_negatives"])


@dataclass(frozen=True)
class MulticlassClassification(_Classification):
    """Accuracy, and precision, recall and F1 of each class and on average over the classes.

    A null prediction is a miss of its true class; only a null truth is left out.
    """

    field_gt: str
    field_pred: str

    type: ClassVar[str] = "multiclass-classification"
    sums: ClassVar[tuple[str, ...]] = ("n", "confusion", "no_prediction")

    def collect(self, counts: ValueCounts) -> Part:
        """Return the confusion counts: truth, then prediction; null predictions apart."""
        confusion: dict[str, Counter[str]] = {}
        unanswered: Counter[str] = Counter()
        for (truth, predicted), rows in counts.counts:
            if truth is None:
                counts.leave_out(NULL, rows)
                continue
            counts.n += rows
            if predicted is None:
                unanswered[write_label(truth)] += rows
            else:
                confusion.setdefault(write_label(truth), Counter())[write_label(predicted)] += rows
        found = {truth: dict(row) for truth, row in confusion.items()}
        return counts.build(confusion=found, no_prediction=dict(unanswered))

    def finish(self, part: Part) -> list[MetricValue]:
        """Return accuracy, the values of each class in the order of their text, and the averages."""
        self.check(part)
        rows = sorted(part.get("confusion", {}).items())
        confusion = {truth: dict(sorted(row.items())) for truth, row in rows}
        unanswered = dict(sorted(part.get("no_prediction", {}).items()))
        classes = rate_classes({"confusion": confusion, "no_prediction": unanswered})
        accuracy = (sum(one["recall"][0] for one in classes.values()), part.get("n", 0))
        details = {"confusion": confusion, "no_prediction": unanswered}
        values = [self.state_share("accuracy", accuracy, part, details=details)]
        for name, rates in classes.items():
            values += self.state_rates(f"{name}_", name, rates, part)
        return values + [self._state_average(rate, list(classes.values()), part) for rate in RATES]

    def _state_average(self, rate: str, classes: Sequence[Rates], part: Part) -> MetricValue:
        """Return the unweighted mean of a rate over the classes.

        Given how often each class is true, the recalls of the classes are independent, and so are the
        precisions given how often each is predicted. The F1 scores are not: one class's miss is another's
        false alarm.
        """
        defined = [one[rate] for one in classes if one[rate][1]]
        if not defined:
            return self.state(f"macro_{rate}", None, part, note=NOTHING_COUNTED)
        # Equal denominators first: fractions over thousands of different ones grow large.
        tops: Counter[int] = Counter()
        for count, of in defined:
            tops[of] += count
        mean = sum((Fraction(top, of) for of, top in tops.items()), Fraction(0)) / len(defined)
        note = f"mean over {len(defined)} of {len(classes)} classes, the others are 0/0"
        return self.state(
            f"macro_{rate}",
            divide(mean.numerator, mean.denominator),
            part,
            note=note if len(defined) < len(classes) else None,
            margin=_resample_f1(part) if rate == "f1_score" else average_shares(defined),
        )

    def ratios(self, part: Part, whole: Part) -> dict[str, Ratio]:
        """Return the sums of some samples whose ratio is the value, for the classes of the whole."""
        classes, n = rate_classes(part), part["n"]
        found = {"accuracy": Ratio(sum(one["recall"][0] for one in classes.values()), n, n)}
        for name in rate_classes(whole):
            rates = classes.get(name, list_rates(0, 0, 0))
            found |= {f"{name}_{rate}": Ratio(*share, n) for rate, share in rates.items()}
        return found

    def value_names(self) -> ValueNames:
        """Return what the values will be called; the classes are not known yet."""
        names = ("accuracy", *(f"macro_{rate}" for rate in RATES))
        return ValueNames(names, tuple(("", f"_{rate}") for rate in RATES), is_share=True)

    def averages(self, whole: Part) -> dict[str, list[str]]:
        """Return for each average the values whose mean it is; those that are 0/0 are not among them."""
        classes = rate_classes(whole).items()
        return {
            f"macro_{rate}": [f"{name}_{rate}" for name, one in classes if one[rate][1]] for rate in RATES
        }


def rate_classes(part: Part) -> dict[str, Rates]:
    """Return the rates of every class that is ever true or predicted, in the order of their text."""
    hits: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    true: Counter[str] = Counter(part["no_prediction"])
    for truth, row in part["confusion"].items():
        hits[truth] += row.get(truth, 0)
        true[truth] += sum(row.values())
        predicted.update(row)
    return {
        name: list_rates(hits[name], predicted[name] - hits[name], true[name] - hits[name])
        for name in sorted(true.keys() | predicted.keys())
    }


def _resample_f1(part: Part) -> Margin:
    """Return how sure the mean of the classes' F1 scores is, by resampling the cells of the confusion."""
    # Classes are marked so that none is taken for a missing prediction.
    confusion, unanswered = part["confusion"].items(), part["no_prediction"].items()
    cells = sorted(
        [(f"={truth}", f"={said}", rows) for truth, row in confusion for said, rows in row.items()]
        + [(f"={truth}", "", rows) for truth, rows in unanswered]
    )
    if len(cells) > MOST_CELLS:
        note = f"{len(cells)} pairs of truth and prediction are too many to resample"
        return Margin(interval_note=note, is_share=True)
    names = sorted({name for truth, said, _ in cells for name in (truth, said)} - {""})
    places = {name: place for place, name in enumerate([*names, ""])}
    pairs = [(places[truth], places[said]) for truth, said, _ in cells]

    def average_f1(counts: Sequence[int]) -> float | None:
        """Return the mean F1 over the classes that occur."""
        hits, uses = [0] * len(places), [0] * len(places)
        for count, (truth, predicted) in zip(counts, pairs, strict=True):
            uses[truth] += count
            uses[predicted] += count
            if truth == predicted:
                hits[truth] += count
        scores = [2 * hit / use for hit, use in zip(hits[:-1], uses[:-1], strict=True) if use]
        return sum(scores) / len(scores) if scores else None

    return resample([rows for _, _, rows in cells], average_f1, part.get("seed", 0))


# Whether a model is right as often as it is sure -----------------------------------------------------------


@dataclass(frozen=True)
class Calibration(CountingMetric):
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
            message, hint = f"`bins` is {list(self.bins)!r}", "write numbers from 1 on, each once"
            raise SpecError("E108", message, hint=hint)

    def value_names(self) -> ValueNames:
        """Return what the values will be called."""
        return ValueNames(tuple(f"ece_{size}" for size in self.bins), is_share=True)

    def collect(self, counts: ValueCounts) -> Part:
        """Return for each number of bins the samples of a bin that are right alike: count, confidence."""
        cells: dict[str, Counter[str]] = {str(size): Counter() for size in self.bins}
        sums: dict[str, Counter[str]] = {str(size): Counter() for size in self.bins}
        fields, texts = self.fields(), dict[float, str]()
        for values, rows in counts.counts:
            taken = counts.take_numbers(fields, values, rows)
            if taken is None:
                continue
            confidence, right = taken
            if not 0 <= confidence <= 1 or not 0 <= right <= 1:
                counts.n -= rows
                counts.leave_out(_OUTSIDE, rows)
                continue
            if (text := texts.get(right)) is None:
                text = texts[right] = str(Fraction(right))
            units = rows * to_units(float(confidence))
            for size in self.bins:
                key = f"{find_bin(confidence, size)} {text}"
                cells[str(size)][key] += rows
                sums[str(size)][key] += units
        return counts.build(
            cells={size: dict(one) for size, one in cells.items()},
            sums={size: dict(one) for size, one in sums.items()},
        )

    def finish(self, part: Part) -> list[MetricValue]:
        """Return the error for each number of bins, with the curve of confidence and right answers."""
        self.check(part)
        return [self._state_error(size, part) for size in self.bins]

    def _state_error(self, size: int, part: Part) -> MetricValue:
        if not part.get("n"):
            return self.state(f"ece_{size}", None, part, note=NOTHING_COUNTED)
        counts, confidences = [0] * size, [Fraction()] * size
        rights = [Fraction()] * size
        for key, rows in part["cells"][str(size)].items():
            place, right = int(key.split()[0]), Fraction(key.split()[1])
            counts[place] += rows
            confidences[place] += Fraction(part["sums"][str(size)][key], 1 << UNIT_BITS)
            rights[place] += right * rows
        gaps = [abs(sure - right) for sure, right in zip(confidences, rights, strict=True)]
        bins = [
            {
                "from": place / size,
                "to": (place + 1) / size,
                "n": n,
                "confidence": float(confidences[place] / n) if n else None,
                "accuracy": float(rights[place] / n) if n else None,
            }
            for place, n in enumerate(counts)
        ]
        value, margin = float(sum(gaps, Fraction()) / part["n"]), Margin(interval_note=BIASED, is_share=True)
        return self.state(f"ece_{size}", value, part, details={"bins": bins}, margin=margin)


def find_bin(confidence: float, size: int) -> int:
    """Return the bin of a confidence: the first holds 0 to 1/size, both included, the next up to 2/size."""
    top, bottom = float(confidence).as_integer_ratio()
    return max(0, -(-top * size // bottom) - 1)
