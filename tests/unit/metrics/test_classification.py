from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from answerkey.errors import ScoringError, SpecError
from answerkey.metrics import Mean, Metric
from answerkey.metrics.base import ValueCounts
from answerkey.metrics.classification import BinaryClassification, MulticlassClassification
from answerkey.types import MetricValue, Scores

MakeScores = Callable[..., Scores]
Compute = Callable[[Metric, Scores], dict[str, MetricValue]]

BINARY = BinaryClassification("truth", "said", "yes", "no")
LETTERS = MulticlassClassification("ground_truth_choice", "predicted_choice")


def test_binary_counts_the_four_cells(make_scores: MakeScores, compute: Compute) -> None:
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


def test_binary_leaves_out_other_answers(make_scores: MakeScores, compute: Compute) -> None:
    """A sample that holds neither answer, or null, is left out and counted."""
    scores = make_scores({"truth": ["yes", "maybe", "no", None], "said": ["yes", "yes", "Yes", "no"]})
    accuracy = compute(BINARY, scores)["accuracy"]
    assert (accuracy.value, accuracy.n, accuracy.n_excluded) == (1.0, 1, {"neither_answer": 2, "null": 1})


def test_binary_without_any_of_its_answers_says_what_there_is(
    make_scores: MakeScores, compute: Compute
) -> None:
    """When nothing matches, the note shows what the fields hold."""
    values = compute(BINARY, make_scores({"truth": [1.0, 0.0], "said": [1.0, 1.0]}))
    assert (
        values["accuracy"].note
        == "no sample counts towards it: instead of 'yes' or 'no' there is '0.0', '1.0'"
    )
    assert {value.value for value in values.values()} == {None}


@pytest.mark.parametrize(("positive", "negative"), [(True, False), ("True", "False")])
def test_binary_compares_as_text(
    positive: str, negative: str, make_scores: MakeScores, compute: Compute
) -> None:
    """A boolean matches the text that Python prints for it."""
    metric = BinaryClassification("truth", "said", positive, negative)
    assert compute(metric, make_scores({"truth": [True], "said": ["True"]}))["accuracy"].value == 1.0


def test_binary_rates_without_positives_are_none(make_scores: MakeScores, compute: Compute) -> None:
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


def make_letters(make_scores: MakeScores) -> Scores:
    """Return five samples: A found, A missed by silence, B taken for A, B found, and a failed one."""
    return make_scores(
        {"is_correct": [1.0, 0.0, 0.0, 1.0, None]},
        {
            "ground_truth_choice": ["A", "A", "B", "B", None],
            "predicted_choice": ["A", None, "A", "B", None],
        },
        status=["SCORED"] * 4 + ["FAILED"],
    )


def test_multiclass_counts_silence_as_a_miss(make_scores: MakeScores, compute: Compute) -> None:
    """A null prediction lowers the recall of its true class and no precision."""
    values = compute(LETTERS, make_letters(make_scores))
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


def test_multiclass_accuracy_is_the_mean_of_is_correct(make_scores: MakeScores, compute: Compute) -> None:
    """Accuracy is the same by either road, with the same interval."""
    scores = make_letters(make_scores)
    accuracy, mean = (
        compute(LETTERS, scores)["accuracy"],
        compute(Mean("is_correct"), scores)["is_correct_mean"],
    )
    assert (accuracy.value, accuracy.n, accuracy.interval) == (mean.value, mean.n, mean.interval)


def test_multiclass_accuracy_carries_the_confusion(make_scores: MakeScores, compute: Compute) -> None:
    """The confusion counts, truth first, lie in the details; silence apart."""
    details = compute(LETTERS, make_letters(make_scores))["accuracy"].details
    assert details["confusion"] == {"A": {"A": 1}, "B": {"A": 1, "B": 1}}
    assert details["no_prediction"] == {"A": 1}


def test_class_that_is_never_predicted_has_no_precision(make_scores: MakeScores, compute: Compute) -> None:
    """0/0 stays out of the average, which says so."""
    scores = make_scores({"ground_truth_choice": ["A", "B"], "predicted_choice": ["A", "C"]})
    values = compute(LETTERS, scores)
    assert (values["B_precision"].value, values["B_precision"].note) == (None, "0/0: 'B' is never predicted")
    assert (values["C_recall"].value, values["C_recall"].note) == (None, "0/0: 'C' is never the truth")
    assert values["macro_recall"].value == 0.5
    assert values["macro_recall"].note == "mean over 2 of 3 classes, the others are 0/0"
    assert values["macro_f1_score"].value == 1 / 3


def test_multiclass_without_samples_is_none(make_scores: MakeScores, compute: Compute) -> None:
    """Null truths are left out; without any truth there is no value."""
    scores = make_scores({"ground_truth_choice": [None], "predicted_choice": ["A"]})
    values = compute(LETTERS, scores)
    assert list(values) == ["accuracy", "macro_precision", "macro_recall", "macro_f1_score"]
    assert {value.value for value in values.values()} == {None}
    assert values["accuracy"].n_excluded == {"null": 1}


def test_prediction_field_that_no_score_has_is_an_error(make_scores: MakeScores, compute: Compute) -> None:
    """A misspelt prediction field is not a model that never answers."""
    with pytest.raises(ScoringError, match="no score has the field `predicted_choice`"):
        compute(LETTERS, make_scores({"ground_truth_choice": ["A"]}))


def test_many_pairs_of_truth_and_prediction_are_not_resampled(
    make_scores: MakeScores, compute: Compute
) -> None:
    """The mean of the classes' F1 is there, and the note says why it has no interval."""
    truths = [f"class {number}" for number in range(501)]
    value = compute(
        MulticlassClassification("t", "s"), make_scores({"x": [1] * 501}, {"t": truths, "s": truths})
    )
    assert (value["macro_f1_score"].value, value["macro_f1_score"].interval) == (1.0, None)
    assert value["macro_f1_score"].interval_note == (
        "501 pairs of truth and prediction are too many to resample"
    )


def test_the_mean_f1_is_resampled_from_the_confusion(make_scores: MakeScores, compute: Compute) -> None:
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
