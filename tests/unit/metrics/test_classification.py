"""Laws of `precision`, `recall`, `f1_score`, `frequency`, the classifications and `calibration`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest

from answerkey.errors import ScoringError, SpecError
from answerkey.metrics import Mean, Metric, wilson
from answerkey.metrics.classification import (
    BinaryClassification,
    Calibration,
    F1Score,
    Frequency,
    MulticlassClassification,
    Precision,
    Recall,
    find_bin,
)
from answerkey.metrics.intervals import Ratio, measure_clustered_error
from answerkey.metrics.task_counts import (
    correct_for_chance,
    measure_chance,
    measure_kappa,
    measure_recalls,
    measure_rstd,
)
from answerkey.types import MetricValue, Scores

from .conftest import compute, make_scores

BINARY = BinaryClassification("truth", "said", "yes", "no")
LETTERS = MulticlassClassification("truth", "said")
PRECISION, RECALL = Precision("tp", "fp"), Recall("tp", "fn")
F1 = F1Score("tp", "fp", "fn")


def measure(metric: Metric, **columns: Sequence[object]) -> dict[str, MetricValue]:
    """Return the values over these columns, by name."""
    return compute(metric, make_scores(columns))


def list_values(values: Mapping[str, MetricValue]) -> dict[str, float | None]:
    """Return the bare numbers by name."""
    return {name: value.value for name, value in values.items()}


def test_binary_counts_the_four_cells() -> None:
    """2 TP, 1 FP, 1 FN, 1 TN: accuracy 3/5, precision 2/3, recall 2/3, F1 4/6."""
    truth, read = ["yes", "yes", "yes", "no", "no"], ["yes", "yes", "no", "yes", "no"]
    values = measure(BINARY, truth=truth, said=read)
    rates = {"precision": 2 / 3, "recall": 2 / 3, "f1_score": 4 / 6}
    assert list_values(values) == {"accuracy": 0.6, **rates}
    cells = {"true_positives": 2, "false_positives": 1, "false_negatives": 1, "true_negatives": 1}
    assert values["accuracy"].details == {"count": 3, "of": 5, **cells, "missed_negatives": 0}
    assert values["precision"].interval == wilson(2, 3)
    assert values["f1_score"].interval == pytest.approx((0.260929, 0.918896), abs=1e-6)


def test_binary_leaves_out_other_truths() -> None:
    """A sample whose truth is neither answer, or null, is left out and counted."""
    accuracy = measure(BINARY, truth=["yes", "maybe", None], said=["yes", "yes", "no"])["accuracy"]
    assert (accuracy.value, accuracy.n) == (1.0, 1)
    assert accuracy.n_excluded == {"neither_answer": 1, "null": 1}
    values = measure(BINARY, truth=[1.0, 0.0], said=[1.0, 1.0])
    assert values["accuracy"].n_excluded == {"neither_answer": 2}
    note = "no sample counts towards it"
    assert (values["accuracy"].note, set(list_values(values).values())) == (note, {None})


def test_binary_counts_other_predictions_as_misses() -> None:
    """A prediction that is neither answer, or null, is a miss of its true class and no claim of the
    other.
    """
    truth, read = ["yes"] * 3 + ["no"] * 3, ["yes", "Yes", None, "no", "maybe", None]
    values = measure(BINARY, truth=truth, said=read)
    expected = {"accuracy": 2 / 6, "precision": 1.0, "recall": 1 / 3, "f1_score": 0.5}
    assert list_values(values) == expected
    assert (values["accuracy"].n, values["accuracy"].n_excluded) == (6, {})
    cells = {"true_positives": 1, "false_positives": 0, "false_negatives": 2, "true_negatives": 1}
    assert values["accuracy"].details == {"count": 2, "of": 6, **cells, "missed_negatives": 2}


@pytest.mark.parametrize(("positive", "negative"), [(True, False), ("True", "False")])
def test_binary_compares_as_text(positive: str, negative: str) -> None:
    """A boolean matches the text that Python prints for it."""
    metric = BinaryClassification("truth", "said", positive, negative)
    assert measure(metric, truth=[True], said=["True"])["accuracy"].value == 1.0


def test_rates_without_samples_are_null() -> None:
    """0/0 has no value, and a note says so."""
    values = measure(BINARY, truth=["no"], said=["no"])
    notes = {"precision": "never predicted", "recall": "never the truth"}
    for name, note in (notes | {"f1_score": "neither predicted nor the truth"}).items():
        assert (values[name].value, values[name].note) == (None, f"0/0: it is {note}")
    for metric in (PRECISION, RECALL, F1):
        value = measure(metric, tp=[0, 0], fp=[0, 0], fn=[0, 0])[metric.type]
        assert (value.value, value.n, str(value.note)[:5]) == (None, 2, "0/0: ")


def test_binary_answers_must_differ() -> None:
    """Two equal answers cannot be distinguished."""
    with pytest.raises(SpecError, match=r"^error\[E108\]"):
        BinaryClassification("truth", "said", 1, "1")


def test_multiclass_counts_silence_as_a_miss() -> None:
    """A null prediction lowers the recall of its true class and no precision.

    Five samples: A found, A missed by silence, B taken for A, B found, and a failed one. Accuracy
    is the mean of `is_correct`, and carries the confusion.
    """
    letters = {"truth": ["A", "A", "B", "B", None], "said": ["A", None, "A", "B", None]}
    right, status = [1.0, 0.0, 0.0, 1.0, None], ["SCORED"] * 4 + ["FAILED"]
    scores = make_scores({"is_correct": right}, letters, status=status)
    values = compute(LETTERS, scores)
    numbers = list_values(values)
    assert numbers.pop("accuracy") == 0.5
    for label, rates in {
        "A": (0.5, 0.5, 0.5), "B": (1.0, 0.5, 2 / 3), "macro": (0.75, 0.5, 7 / 12)
    }.items():  # fmt: skip
        names = (f"{label}_precision", f"{label}_recall", f"{label}_f1_score")
        assert [numbers.pop(name) for name in names] == pytest.approx(rates)
    assert numbers == {}
    accuracy, mean = values["accuracy"], compute(Mean("is_correct"), scores)["is_correct_mean"]
    assert (accuracy.value, accuracy.n, accuracy.interval) == (mean.value, mean.n, mean.interval)
    assert accuracy.n_excluded == {"failed": 1}
    assert accuracy.details["confusion"] == {"A": {"A": 1}, "B": {"A": 1, "B": 1}}
    assert accuracy.details["no_prediction"] == {"A": 1}


def test_class_that_is_never_predicted_has_no_precision() -> None:
    """0/0 stays out of the average, which says so."""
    values = measure(LETTERS, truth=["A", "B"], said=["A", "C"])
    assert values["B_precision"].value is None
    assert values["B_precision"].note == "0/0: it is never predicted"
    assert values["C_recall"].value is None
    assert values["C_recall"].note == "0/0: it is never the truth"
    assert values["macro_recall"].value == 0.5
    assert values["macro_recall"].note == "mean over 2 of 3 classes, the others are 0/0"
    assert values["macro_f1_score"].value == 1 / 3


def test_multiclass_without_samples_is_null() -> None:
    """Null truths are left out.

    Without any truth there is no value. A misspelt field is an error.
    """
    values = measure(LETTERS, truth=[None], said=["A"])
    names = ["accuracy", "macro_precision", "macro_recall", "macro_f1_score"]
    assert list_values(values) == dict.fromkeys(names)
    assert values["accuracy"].n_excluded == {"null": 1}
    with pytest.raises(ScoringError, match="no score has the field `said`"):
        measure(LETTERS, truth=["A"])


def test_the_mean_f1_has_the_error_of_its_samples() -> None:
    """It is that of a mean of ratios over clusters of one sample each."""
    truths = ["A"] * 8 + ["B"] * 6 + ["C"] * 6
    read = ["A"] * 6 + ["B", None] + ["B"] * 4 + ["A", "C"] + ["C"] * 3 + ["A", "B", None]
    value = measure(LETTERS, truth=truths, said=read)["macro_f1_score"]
    assert value.value == pytest.approx((2 * 6 / 16 + 2 * 4 / 12 + 2 * 3 / 10) / 3)
    samples = []
    for pair in zip(truths, read, strict=True):
        counts = [pair.count(letter) for letter in "ABC"]
        samples.append([Ratio(2 * (count == 2), count, 1) for count in counts])
    error, _ = measure_clustered_error(samples)
    assert value.std_error == pytest.approx(error, rel=1e-12)
    assert value.interval_method == "ratio_wilson"
    classes = [f"class {number}" for number in range(501)]
    value = measure(LETTERS, truth=classes, said=classes)["macro_f1_score"]
    assert (value.value, value.interval) == (1.0, None)
    assert value.interval_note == "all samples are alike, which says nothing about the spread"
    value = measure(LETTERS, truth=["A"], said=["B"])["macro_f1_score"]
    assert (value.value, value.std_error) == (0.0, None)


def test_counts_are_summed_before_they_are_divided() -> None:
    """Two samples with 3 TP, 1 FP, 2 FN in all: 3/4, 3/5, 6/9; half a sample does not count."""
    for metric, share in ((PRECISION, 0.75), (RECALL, 0.6), (F1, 6 / 9)):
        assert measure(metric, tp=[2, 1], fp=[1, 0], fn=[0, 2])[metric.type].value == share
    value = measure(Recall("tp", "fn", name="Found"), tp=[1, 5], fn=[1, None])["Found"]
    assert (value.value, value.n, value.n_excluded) == (0.5, 1, {"null": 1})


def test_counts_of_one_outcome_per_sample_have_an_interval() -> None:
    """Only where every sample adds at most one outcome the ratio is a share of independent
    samples.
    """
    single = measure(PRECISION, tp=[1, 0, 0], fp=[0, 1, 0])["precision"]
    assert (single.value, single.n, single.interval_method) == (0.5, 3, "wilson")
    assert single.details == {"count": 1, "of": 2}
    assert measure(PRECISION, tp=[1, 1], fp=[1, 0])["precision"].interval_method == "ratio_wilson"
    # Of hits, false alarms and misses, hits are a share J with a Wilson interval, and F1 is
    # 2J/(1+J).
    value = measure(F1, tp=[1, 1, 0, 0], fp=[0, 0, 1, 0], fn=[0, 0, 0, 1])["f1_score"]
    low, high = wilson(2, 4)
    assert (value.value, value.interval_method) == (2 / 3, "wilson")
    assert value.interval == (2 * low / (1 + low), 2 * high / (1 + high))


def test_counts_within_a_sample_belong_together() -> None:
    """The standard error is that of a ratio of sums over samples: √(n/(n-1) · Σ(TP - R(TP + FP))²)
    / Σ.
    """
    value = measure(PRECISION, tp=[3, 1, 0, 2], fp=[1, 0, 2, 1])["precision"]
    residuals = [3 - 0.6 * 4, 1 - 0.6, 0 - 0.6 * 2, 2 - 0.6 * 3]
    expected = math.sqrt(4 / 3 * sum(residual**2 for residual in residuals)) / 10
    assert value.value == 0.6
    assert value.std_error == pytest.approx(expected, rel=1e-15)
    assert value.interval is not None
    assert 0 < value.interval[0] < 0.6 < value.interval[1] < 1
    alike = measure(PRECISION, tp=[2, 2], fp=[0, 0])["precision"]
    assert (alike.value, alike.interval) == (1.0, None)
    assert "all samples are alike" in str(alike.interval_note)


def test_counts_that_are_none_give_no_value() -> None:
    """If every count is missing, the share is null, not 0; a count below 0 is an error."""
    scores = make_scores({"tp": [None, 1], "fp": [1, None]}, status=["SCORED", "FAILED"])
    value = compute(PRECISION, scores)["precision"]
    assert (value.value, value.n, value.note) == (None, 0, "no sample counts towards it")
    assert dict(value.n_excluded) == {"failed": 1, "null": 1}
    with pytest.raises(ScoringError, match=r"needs counts.* in 1 sample, such as -1\n"):
        measure(PRECISION, tp=[1], fp=[-1])


@pytest.mark.parametrize(
    ("values", "shares"),
    [
        (["VALID", "INVALID", "VALID", "VALID"], {"INVALID": 0.25, "VALID": 0.75}),
        ([1.0, 0.0], {"0.0": 0.5, "1.0": 0.5}),
        ([True, False], {"False": 0.5, "True": 0.5}),
        ([2, 10], {"10": 0.5, "2": 0.5}),
        ([1, 1.0, 2, 0.5], {"0.5": 0.25, "1.0": 0.5, "2.0": 0.25}),
        ([["A", "B"], ["A", "B"]], {'["A", "B"]': 1.0}),
        (["A", None, "A"], {"A": 1.0}),
        (list("abccddd"), {"a": 1 / 7, "b": 1 / 7, "c": 2 / 7, "d": 3 / 7}),
    ],
)
def test_each_value_has_its_share(values: list[object], shares: dict[str, float]) -> None:
    """Named as Python prints it, nested ones as JSON, in the order of the text; null is no value.

    Where a field holds any float, whole numbers are written as floats. The counts add up to the
    whole.
    """
    is_mixed = len({type(cell) for cell in values}) > 1 and None not in values
    result = compute(Frequency("x"), make_scores({"x": values}, encoded=["x"] * is_mixed))
    assert list_values(result) == {f"x_{label}": share for label, share in shares.items()}
    assert list(result) == sorted(result)
    assert {value.interval_method for value in result.values()} == {"wilson"}
    n, nulls = len(values) - values.count(None), values.count(None)
    assert sum(int(str(value.details["count"])) for value in result.values()) == n
    left_out = {"null": nulls} if nulls else {}
    assert all((v.n, v.n_excluded) == (n, left_out) for v in result.values())


def test_nothing_to_count_is_one_value_without_number() -> None:
    """A field without values still says that it was looked at."""
    values = measure(Frequency("x"), x=[None, math.nan])
    assert list_values(values) == {"x_frequency": None}
    assert values["x_frequency"].n_excluded == {"not_finite": 1, "null": 1}


Pairs = Sequence[tuple[float | None, float | None]]


def make_pairs(pairs: Pairs) -> Scores:
    """Return scores with these confidences and right answers."""
    confidences, rights = zip(*pairs, strict=True)
    return make_scores({"confidence": confidences, "is_correct": rights})


def finish(pairs: Pairs, *bins: int) -> list[MetricValue]:
    """Return the values over all pairs."""
    return Calibration(bins=bins or (10,)).compute(make_pairs(pairs))


def test_the_error_is_the_weighted_distance_in_each_bin() -> None:
    """Two bins: 0.9 sure and right in half, 0.5 sure and always right.

    Three of four at 0.75 have none.
    """
    (value,) = finish([(0.9, 1.0), (0.9, 0.0), (0.5, 1.0), (0.5, 1.0)])
    assert value.name == "ece_10"
    assert value.value == pytest.approx(0.5 * 0.4 + 0.5 * 0.5)
    assert finish([(0.75, 1.0), (0.75, 1.0), (0.75, 1.0), (0.75, 0.0)])[0].value == 0.0


@pytest.mark.parametrize(
    ("confidence", "size", "place"),
    [
        (0.0, 10, 0), (0.1, 10, 1), (0.05, 10, 0), (0.5, 10, 4), (0.5, 2, 0), (0.51, 2, 1),
        (1.0, 15, 14),
    ],
)  # fmt: skip
def test_bins_include_their_upper_end(confidence: float, size: int, place: int) -> None:
    """The float 0.1 is a little more than a tenth, and is in the second of ten bins."""
    assert find_bin(confidence, size) == place


def test_rows_without_a_confidence_are_left_out_and_counted() -> None:
    """Null, and values that are not probabilities."""
    value = finish([(None, 1.0), (1.5, 1.0), (0.5, 1.5), (0.5, 1.0)])[0]
    assert (value.n, value.n_excluded) == (1, {"null": 1, "outside_0_to_1": 2})
    assert finish([(None, 1.0)])[0].value is None


@pytest.mark.parametrize("bins", [(), (0,), (10, 10)])
def test_unsuitable_bins_are_refused(bins: tuple[int, ...]) -> None:
    """There is at least one number of bins, from 1 on, each once."""
    with pytest.raises(SpecError, match=r"error\[E108\]: `bins` is "):
        Calibration(bins=bins)


CONFUSION = {"A": {"A": 40, "B": 10}, "B": {"A": 20, "B": 20, "INVALID": 10}}


def test_chance_is_the_mean_of_one_over_the_number_of_choices() -> None:
    """Rows with few choices are easier to guess, and count as often as others."""
    assert measure_chance({4: 10}) == 0.25
    assert measure_chance({1: 1, 2: 1}) == 0.75
    assert measure_chance({3: 3, 10: 1}) == pytest.approx((3 / 3 + 1 / 10) / 4, rel=1e-15)
    assert measure_chance({}) is None


def test_correction_for_chance() -> None:
    """Guessing is 0, everything right is 1, below chance is negative."""
    assert correct_for_chance(0.25, 0.25) == 0
    assert correct_for_chance(1.0, 0.25) == 1
    assert correct_for_chance(0.0, 0.5) == -1
    assert correct_for_chance(1.0, 1.0) is None


def test_kappa_counts_a_missing_prediction_as_disagreement() -> None:
    """Observed agreement is 0.6, that by accident (50·60 + 50·30) / 100² = 0.45."""
    assert measure_kappa(CONFUSION) == pytest.approx((0.6 - 0.45) / (1 - 0.45), rel=1e-15)
    assert measure_kappa({"A": {"A": 3}, "B": {"B": 2}}) == 1
    assert measure_kappa({"A": {"INVALID": 3}}) == 0


def test_kappa_is_none_where_accident_would_explain_all() -> None:
    """With a single letter there is no meaningful agreement."""
    assert measure_kappa({"A": {"A": 3}}) is None
    assert measure_kappa({}) is None


def test_recalls_and_their_spread() -> None:
    """RStd is the population standard deviation of the recalls, in points."""
    recalls = measure_recalls(CONFUSION)
    assert recalls == {"A": 0.8, "B": 0.4}
    assert measure_rstd(list(recalls.values())) == pytest.approx(20.0, rel=1e-12)
    assert measure_rstd([0.5]) is None
    assert measure_rstd([]) is None
