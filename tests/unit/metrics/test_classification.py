"""Laws of the metric `calibration`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import polars as pl
import pytest

from answerkey.errors import ScoringError, SpecError
from answerkey.metrics import Mean, Metric, wilson
from answerkey.metrics.base import ValueCounts
from answerkey.metrics.classification import (
    BinaryClassification,
    Calibration,
    F1Score,
    Frequency,
    MulticlassClassification,
    Precision,
    Recall,
    correct_for_chance,
    find_bin,
    measure_chance,
    measure_kappa,
    measure_recalls,
    measure_rstd,
)
from answerkey.types import MetricValue, Scores

from .conftest import compute, make_scores

BINARY = BinaryClassification("truth", "said", "yes", "no")


LETTERS = MulticlassClassification("ground_truth_choice", "predicted_choice")


def test_binary_counts_the_four_cells() -> None:
    """2 TP, 1 FP, 1 FN, 1 TN: accuracy 3/5, precision 2/3, recall 2/3, F1 4/6."""
    scores = make_scores(
        {"truth": ["yes", "yes", "yes", "no", "no"], "said": ["yes", "yes", "no", "yes", "no"]}
    )
    values = compute(BINARY, scores)
    assert {name: value.value for name, value in values.items()} == {
        "accuracy": 0.6,
        "precision": 2 / 3,
        "recall": 2 / 3,
        "f1_score": 4 / 6,
    }
    assert values["accuracy"].details == {
        "count": 3,
        "of": 5,
        "true_positives": 2,
        "false_positives": 1,
        "false_negatives": 1,
        "true_negatives": 1,
    }
    assert values["precision"].interval is not None
    assert values["f1_score"].interval == pytest.approx((0.260929, 0.918896), abs=1e-6)


def test_binary_leaves_out_other_answers() -> None:
    """A sample that holds neither answer, or null, is left out and counted."""
    scores = make_scores({"truth": ["yes", "maybe", "no", None], "said": ["yes", "yes", "Yes", "no"]})
    accuracy = compute(BINARY, scores)["accuracy"]
    assert (accuracy.value, accuracy.n, accuracy.n_excluded) == (1.0, 1, {"neither_answer": 2, "null": 1})


def test_binary_without_any_of_its_answers_says_what_there_is() -> None:
    """When nothing matches, the note shows what the fields hold."""
    values = compute(BINARY, make_scores({"truth": [1.0, 0.0], "said": [1.0, 1.0]}))
    assert (
        values["accuracy"].note
        == "no sample counts towards it: instead of 'yes' or 'no' there is '0.0', '1.0'"
    )
    assert {value.value for value in values.values()} == {None}


@pytest.mark.parametrize(("positive", "negative"), [(True, False), ("True", "False")])
def test_binary_compares_as_text(positive: str, negative: str) -> None:
    """A boolean matches the text that Python prints for it."""
    metric = BinaryClassification("truth", "said", positive, negative)
    assert compute(metric, make_scores({"truth": [True], "said": ["True"]}))["accuracy"].value == 1.0


def test_binary_rates_without_positives_are_none() -> None:
    """0/0 is no value."""
    values = compute(BINARY, make_scores({"truth": ["no"], "said": ["no"]}))
    assert (values["precision"].value, values["precision"].note) == (None, "0/0: 'yes' is never predicted")
    assert (values["recall"].value, values["recall"].note) == (None, "0/0: 'yes' is never the truth")
    assert (values["f1_score"].value, values["f1_score"].note) == (
        None,
        "0/0: 'yes' is neither predicted nor the truth",
    )


def test_binary_answers_must_differ() -> None:
    """Two equal answers cannot be told apart."""
    with pytest.raises(SpecError) as caught:
        BinaryClassification("truth", "said", 1, "1")
    assert caught.value.code == "E108"


def make_letters() -> Scores:
    """Return five samples: A found, A missed by silence, B taken for A, B found, and a failed one."""
    return make_scores(
        {"is_correct": [1.0, 0.0, 0.0, 1.0, None]},
        {
            "ground_truth_choice": ["A", "A", "B", "B", None],
            "predicted_choice": ["A", None, "A", "B", None],
        },
        status=["SCORED"] * 4 + ["FAILED"],
    )


def test_multiclass_counts_silence_as_a_miss() -> None:
    """A null prediction lowers the recall of its true class and no precision."""
    values = compute(LETTERS, make_letters())
    assert {name: value.value for name, value in values.items()} == {
        "accuracy": 0.5,
        "A_precision": 0.5,
        "A_recall": 0.5,
        "A_f1_score": 0.5,
        "B_precision": 1.0,
        "B_recall": 0.5,
        "B_f1_score": 2 / 3,
        "macro_precision": 0.75,
        "macro_recall": 0.5,
        "macro_f1_score": 7 / 12,
    }
    assert values["accuracy"].n_excluded == {"failed": 1}


def test_multiclass_accuracy_is_the_mean_of_is_correct() -> None:
    """Accuracy is the same by either road, with the same interval."""
    scores = make_letters()
    accuracy, mean = (
        compute(LETTERS, scores)["accuracy"],
        compute(Mean("is_correct"), scores)["is_correct_mean"],
    )
    assert (accuracy.value, accuracy.n, accuracy.interval) == (mean.value, mean.n, mean.interval)


def test_multiclass_accuracy_carries_the_confusion() -> None:
    """The confusion counts, truth first, lie in the details; silence apart."""
    details = compute(LETTERS, make_letters())["accuracy"].details
    assert details["confusion"] == {"A": {"A": 1}, "B": {"A": 1, "B": 1}}
    assert details["no_prediction"] == {"A": 1}


def test_class_that_is_never_predicted_has_no_precision() -> None:
    """0/0 stays out of the average, which says so."""
    scores = make_scores({"ground_truth_choice": ["A", "B"], "predicted_choice": ["A", "C"]})
    values = compute(LETTERS, scores)
    assert (values["B_precision"].value, values["B_precision"].note) == (None, "0/0: 'B' is never predicted")
    assert (values["C_recall"].value, values["C_recall"].note) == (None, "0/0: 'C' is never the truth")
    assert values["macro_recall"].value == 0.5
    assert values["macro_recall"].note == "mean over 2 of 3 classes, the others are 0/0"
    assert values["macro_f1_score"].value == 1 / 3


def test_multiclass_without_samples_is_none() -> None:
    """Null truths are left out; without any truth there is no value."""
    scores = make_scores({"ground_truth_choice": [None], "predicted_choice": ["A"]})
    values = compute(LETTERS, scores)
    assert list(values) == ["accuracy", "macro_precision", "macro_recall", "macro_f1_score"]
    assert {value.value for value in values.values()} == {None}
    assert values["accuracy"].n_excluded == {"null": 1}


def test_prediction_field_that_no_score_has_is_an_error() -> None:
    """A misspelt prediction field is not a model that never answers."""
    with pytest.raises(ScoringError, match="no score has the field `predicted_choice`"):
        compute(LETTERS, make_scores({"ground_truth_choice": ["A"]}))


def test_many_pairs_of_truth_and_prediction_are_not_resampled() -> None:
    """The mean of the classes' F1 is there, and the note says why it has no interval."""
    truths = [f"class {number}" for number in range(501)]
    value = compute(
        MulticlassClassification("t", "s"), make_scores({"x": [1] * 501}, {"t": truths, "s": truths})
    )
    assert (value["macro_f1_score"].value, value["macro_f1_score"].interval) == (1.0, None)
    assert value["macro_f1_score"].interval_note == (
        "501 pairs of truth and prediction are too many to resample"
    )


def test_the_mean_f1_is_resampled_from_the_confusion() -> None:
    """Around its value, by BCa; the seed decides and is 0 where the part has none."""
    truths = ["A"] * 8 + ["B"] * 6 + ["C"] * 6
    said = ["A"] * 6 + ["B", None] + ["B"] * 4 + ["A", "C"] + ["C"] * 3 + ["A", "B", None]
    scores = make_scores({"t": truths, "s": said})
    metric = MulticlassClassification("t", "s")
    value = compute(metric, scores)["macro_f1_score"]
    expected = (2 * 6 / 16 + 2 * 4 / 12 + 2 * 3 / 10) / 3
    assert value.value == pytest.approx(expected)
    assert value.interval_method == "bca"
    assert value.interval == pytest.approx((0.45083890326217424, 0.8960780570992165), rel=1e-9)
    assert value.std_error == pytest.approx(0.1136286052988389, rel=1e-9)
    part = metric.merge([metric.measure(scores)])
    again = {one.name: one for one in metric.finish({**part, "seed": 0})}["macro_f1_score"]
    other = {one.name: one for one in metric.finish({**part, "seed": 1})}["macro_f1_score"]
    assert again == value
    assert other.interval != value.interval


def test_rows_without_a_truth_are_left_out_wherever_they_stand() -> None:
    """Whatever stands after them is counted."""
    found = MulticlassClassification("t", "s").collect(
        ValueCounts(
            [((None, "A"), 2), (("A", "A"), 3), ((None, None), 1), (("A", None), 1)], Counter(), ["t", "s"]
        )
    )
    assert (found["n"], found["left_out"]) == (4, {"null": 3})
    assert (found["confusion"], found["no_prediction"]) == ({"A": {"A": 3}}, {"A": 1})


def test_a_class_that_some_samples_lack_has_ratios_of_nothing() -> None:
    """A cluster without a class adds nothing to its sums."""
    metric = MulticlassClassification("t", "s")
    whole = {"n": 2, "confusion": {"A": {"A": 1}, "B": {"B": 1}}, "no_prediction": {}}
    part = {"n": 1, "confusion": {"A": {"A": 1}}, "no_prediction": {}}
    ratios = metric.ratios(part, whole)
    assert {name: (one.top, one.bottom) for name, one in ratios.items() if name.startswith("B_")} == {
        "B_precision": (0, 0),
        "B_recall": (0, 0),
        "B_f1_score": (0, 0),
    }
    assert (ratios["A_recall"].top, ratios["A_recall"].bottom, ratios["accuracy"].bottom) == (1, 1, 1)


def test_counts_are_summed_before_they_are_divided() -> None:
    """Two samples with 3 TP, 1 FP, 2 FN in all: 3/4, 3/5, 6/9."""
    scores = make_scores({"tp": [2, 1], "fp": [1, 0], "fn": [0, 2]})
    assert compute(Precision("tp", "fp"), scores)["precision"].value == 0.75
    assert compute(Recall("tp", "fn"), scores)["recall"].value == 0.6
    assert compute(F1Score("tp", "fp", "fn"), scores)["f1_score"].value == 6 / 9


def test_counts_of_one_outcome_per_sample_have_an_interval() -> None:
    """Only where every sample adds at most one outcome the ratio is a share of independent samples."""
    single = compute(Precision("tp", "fp"), make_scores({"tp": [1, 0, 0], "fp": [0, 1, 0]}))["precision"]
    assert (single.value, single.n, single.interval_method) == (0.5, 3, "wilson")
    assert single.details == {"count": 1, "of": 2}
    several = compute(Precision("tp", "fp"), make_scores({"tp": [1, 1], "fp": [1, 0]}))["precision"]
    assert several.interval_method == "ratio_wilson"


def test_counts_within_a_sample_belong_together() -> None:
    """The standard error is that of a ratio of sums over samples: √(n/(n-1) · Σ(TP - R(TP + FP))²) / Σ."""
    scores = make_scores({"tp": [3, 1, 0, 2], "fp": [1, 0, 2, 1]})
    value = compute(Precision("tp", "fp"), scores)["precision"]
    residuals = [3 - 0.6 * 4, 1 - 0.6, 0 - 0.6 * 2, 2 - 0.6 * 3]
    expected = math.sqrt(4 / 3 * sum(one**2 for one in residuals)) / 10
    assert value.value == 0.6
    assert value.std_error == pytest.approx(expected, rel=1e-15)
    assert value.interval is not None
    assert 0 < value.interval[0] < 0.6 < value.interval[1] < 1


def test_f1_of_single_outcomes_has_the_interval_of_its_hits() -> None:
    """Of hits, false alarms and misses, hits are a share J with a Wilson interval, and F1 is 2J/(1+J)."""
    scores = make_scores({"tp": [1, 1, 0, 0], "fp": [0, 0, 1, 0], "fn": [0, 0, 0, 1]})
    value = compute(F1Score("tp", "fp", "fn"), scores)["f1_score"]
    low, high = wilson(2, 4)
    assert (value.value, value.interval_method) == (2 / 3, "wilson")
    assert value.interval == (2 * low / (1 + low), 2 * high / (1 + high))


def test_without_spread_there_is_no_interval() -> None:
    """Samples that are all alike say nothing of the next one, and the note says so."""
    value = compute(Precision("tp", "fp"), make_scores({"tp": [2, 2], "fp": [0, 0]}))["precision"]
    assert (value.value, value.interval) == (1.0, None)
    assert "all samples are alike" in str(value.interval_note)


@pytest.mark.parametrize("metric", [Precision("a", "b"), Recall("a", "b"), F1Score("a", "b", "b")])
def test_nothing_of_nothing_is_none(metric: Metric) -> None:
    """0/0 is no value, and the note says so."""
    value = compute(metric, make_scores({"a": [0, 0], "b": [0, 0]}))[metric.type]
    assert (value.value, value.n) == (None, 2)
    assert value.note is not None
    assert value.note.startswith("0/0: ")


def test_sample_with_a_missing_count_is_left_out() -> None:
    """Half a sample does not count."""
    value = compute(Recall("tp", "fn", name="Found"), make_scores({"tp": [1, 5], "fn": [1, None]}))["Found"]
    assert (value.value, value.n, value.n_excluded) == (0.5, 1, {"null": 1})


def test_negative_counts_are_an_error() -> None:
    """A count below 0 is a mistake of the scorer, and the number would be wrong."""
    with pytest.raises(ScoringError, match="negative ones in 1 sample"):
        compute(Precision("tp", "fp"), make_scores({"tp": [1], "fp": [-1]}))


def test_samples_that_are_all_left_out_give_no_value() -> None:
    """Where every count is missing, there is no share and no 0."""
    scores = make_scores({"tp": [None, 1], "fp": [1, None]}, status=["SCORED", "FAILED"])
    value = compute(Precision("tp", "fp"), scores)["precision"]
    assert (value.value, value.n, value.note) == (None, 0, "no sample counts towards it")
    assert dict(value.n_excluded) == {"failed": 1, "null": 1}


def test_sums_begin_at_nothing() -> None:
    """Counts, their squares and their products, exact: two hits and one miss, then one hit."""
    part = Precision("tp", "fp").measure(make_scores({"tp": [2, 1], "fp": [1, 0]}))
    unit = 1 << 1074
    assert (part["hits"], part["misses"]) == (3 * unit, unit)
    squares = (part["hit_squares"], part["products"], part["miss_squares"])
    assert squares == (5 * unit**2, 2 * unit**2, unit**2)
    assert (part["negative"], part["clustered"], part["n"]) == (0, 1, 2)


def test_each_value_has_its_share() -> None:
    """Every distinct value is a metric value named after it, in the order of the text, with an interval."""
    scores = make_scores({"is_correct": [1.0] * 4}, {"validity": ["VALID", "INVALID", "VALID", "VALID"]})
    values = compute(Frequency("validity"), scores)
    assert {name: value.value for name, value in values.items()} == {
        "validity_INVALID": 0.25,
        "validity_VALID": 0.75,
    }
    assert list(values) == sorted(values)
    assert all(value.interval_method == "wilson" and value.n == 4 for value in values.values())


def test_shares_sum_to_one_exactly() -> None:
    """The counts behind the shares add up to the whole, even where the floats are rounded."""
    values = compute(Frequency("x"), make_scores({"x": ["a", "b", "c", "c", "d", "d", "d"]})).values()
    shares = [Fraction(int(str(value.details["count"])), int(str(value.details["of"]))) for value in values]
    assert sum(shares) == 1


def test_floats_and_booleans_are_named_as_python_prints_them() -> None:
    """`1.0` stays `1.0`, `True` stays `True`, `2` stays `2`."""
    assert list(compute(Frequency("x"), make_scores({"x": [1.0, 0.0]}))) == ["x_0.0", "x_1.0"]
    assert list(compute(Frequency("x"), make_scores({"x": [True, False]}))) == ["x_False", "x_True"]
    assert list(compute(Frequency("x"), make_scores({"x": [2, 10]}))) == ["x_10", "x_2"]


def test_equal_numbers_are_one_value() -> None:
    """Where a field holds any float, whole numbers are written as floats, so that 1 and 1.0 are one value."""
    values = compute(Frequency("x"), make_scores({"x": [1, 1.0, 2, 0.5]}, encoded=["x"]))
    assert {name: value.value for name, value in values.items()} == {
        "x_0.5": 0.25,
        "x_1.0": 0.5,
        "x_2.0": 0.25,
    }


def test_null_is_left_out_and_counted() -> None:
    """Null is no value of the field."""
    values = compute(Frequency("letter"), make_scores({"letter": ["A", None, "A"]}))
    assert list(values) == ["letter_A"]
    assert (values["letter_A"].value, values["letter_A"].n_excluded) == (1.0, {"null": 1})


def test_lists_are_named_as_json() -> None:
    """Nested values appear as their JSON text."""
    values = compute(Frequency("choices"), make_scores({"choices": [["A", "B"], ["A", "B"]]}))
    assert list(values) == ['choices_["A", "B"]']


def test_nothing_to_count_is_one_value_without_number() -> None:
    """A field without values still says that it was looked at."""
    values = compute(Frequency("x"), make_scores({"x": [None, math.nan]}))
    assert list(values) == ["x_frequency"]
    assert values["x_frequency"].value is None
    assert values["x_frequency"].n_excluded == {"not_finite": 1, "null": 1}


def make_pairs(pairs: Sequence[tuple[float | None, float | None]]) -> Scores:
    """Return scores with these confidences and right answers."""
    rows = [
        {
            "status": "SCORED",
            "reason": None,
            "values": {"confidence": one, "is_correct": right},
            "excluded_by": None,
        }
        for one, right in pairs
    ]
    frame = pl.DataFrame(rows, schema_overrides={"reason": pl.String, "excluded_by": pl.String})
    return Scores(frame.with_columns(pl.struct(pl.lit(None).alias("_")).alias("metadata")))


def finish(pairs: Sequence[tuple[float | None, float | None]], *bins: int) -> list[MetricValue]:
    """Return the values over all pairs."""
    metric = Calibration(bins=bins or (10,))
    return metric.finish(metric.measure(make_pairs(pairs)))


def test_the_error_is_the_weighted_distance_in_each_bin() -> None:
    """Two bins: 0.9 sure and right in half, 0.5 sure and always right."""
    pairs = [(0.9, 1.0), (0.9, 0.0), (0.5, 1.0), (0.5, 1.0)]
    value = finish(pairs)[0]
    assert value.name == "ece_10"
    assert value.value == pytest.approx(0.5 * 0.4 + 0.5 * 0.5)


def test_a_model_that_is_as_sure_as_it_is_right_has_no_error() -> None:
    """Three of four at 0.75."""
    assert finish([(0.75, 1.0), (0.75, 1.0), (0.75, 1.0), (0.75, 0.0)])[0].value == 0.0


@pytest.mark.parametrize(
    ("confidence", "size", "place"),
    [(0.0, 10, 0), (0.1, 10, 1), (0.05, 10, 0), (0.5, 10, 4), (0.5, 2, 0), (0.51, 2, 1), (1.0, 15, 14)],
)
def test_bins_include_their_upper_end(confidence: float, size: int, place: int) -> None:
    """The float 0.1 is a little more than a tenth, and lies in the second of ten bins."""
    assert find_bin(confidence, size) == place


def test_the_curve_has_every_bin() -> None:
    """An empty bin has no confidence and no accuracy."""
    curve = finish([(0.2, 0.0), (0.4, 1.0)], 2)[0].details["bins"]
    assert curve == [
        {"from": 0.0, "to": 0.5, "n": 2, "confidence": pytest.approx(0.3), "accuracy": 0.5},
        {"from": 0.5, "to": 1.0, "n": 0, "confidence": None, "accuracy": None},
    ]


def test_rows_without_a_confidence_are_left_out_and_counted() -> None:
    """Null, and what is no probability."""
    value = finish([(None, 1.0), (1.5, 1.0), (0.5, 1.0)])[0]
    assert (value.n, value.n_excluded) == (1, {"null": 1, "outside_0_to_1": 1})
    assert finish([(None, 1.0)])[0].value is None


def test_shards_merge_exactly() -> None:
    """The sums are exact, so any split and any order give the same bits."""
    pairs = [((7 * number % 101) / 101, float(number % 3 == 0)) for number in range(90)]
    metric = Calibration()
    parts = [metric.measure(make_pairs(pairs[start : start + 7])) for start in range(0, 90, 7)]
    whole = metric.finish(metric.measure(make_pairs(pairs)))
    assert metric.finish(metric.merge(parts[::-1])) == whole
    assert whole[0].interval is None


@pytest.mark.parametrize("bins", [(), (0,), (10, 10)])
def test_unsuitable_bins_are_refused(bins: tuple[int, ...]) -> None:
    """There is at least one number of bins, from 1 on, each once."""
    with pytest.raises(SpecError):
        Calibration(bins=bins)


def test_value_names_are_known_before_there_are_scores() -> None:
    """Gates may name the error for each number of bins, which is a share."""
    names = Calibration(bins=(5, 20)).value_names()
    assert (names.names, names.is_share) == (("ece_5", "ece_20"), True)


def test_the_curve_counts_every_right_answer_of_a_bin() -> None:
    """Three of four with a confidence in one bin are right; half right counts half."""
    curve = finish([(0.15, 1.0), (0.15, 1.0), (0.19, 1.0), (0.11, 0.0), (0.95, 0.5), (0.95, 0.5)], 10)[0]
    points = curve.details["bins"]
    assert isinstance(points, list)
    assert points[1] == {
        "from": 0.1,
        "to": 0.2,
        "n": 4,
        "confidence": pytest.approx(0.15),
        "accuracy": 0.75,
    }
    assert (points[9]["n"], points[9]["accuracy"]) == (2, 0.5)
    assert points[0] == {"from": 0.0, "to": 0.1, "n": 0, "confidence": None, "accuracy": None}


def test_one_bin_and_full_confidence_are_suitable() -> None:
    """The ends of what is allowed are allowed."""
    (value,) = finish([(1.0, 1.0), (0.0, 0.0), (1.0, 0.0)], 1)
    assert (value.name, value.n) == ("ece_1", 3)
    assert value.value == pytest.approx(1 / 3)
    assert dict(value.n_excluded) == {}


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
    """One letter alone is no agreement to speak of."""
    assert measure_kappa({"A": {"A": 3}}) is None
    assert measure_kappa({}) is None


def test_recalls_and_their_spread() -> None:
    """RStd is the population standard deviation of the recalls, in points."""
    recalls = measure_recalls(CONFUSION)
    assert recalls == {"A": 0.8, "B": 0.4}
    assert measure_rstd(list(recalls.values())) == pytest.approx(20.0, rel=1e-12)
    assert measure_rstd([0.5]) is None
    assert measure_rstd([]) is None
