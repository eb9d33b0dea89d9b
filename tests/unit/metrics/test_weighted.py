from __future__ import annotations

from collections.abc import Callable

import pytest
from scipy import stats

from answerkey.errors import ScoringError, SpecError
from answerkey.metrics import Metric
from answerkey.metrics.intervals import student
from answerkey.metrics.moments import WeightedAverage
from answerkey.types import MetricValue, Scores

MakeScores = Callable[..., Scores]
Compute = Callable[[Metric, Scores], dict[str, MetricValue]]


def test_table_gives_the_mean_of_the_weights(make_scores: MakeScores, compute: Compute) -> None:
    """Each value counts as its weight; a value without a weight is left out and counted."""
    metric = WeightedAverage("grade", {"good": 1.0, "fair": 0.5})
    scores = make_scores({"grade": ["good", "fair", "good", "odd", None]})
    value = compute(metric, scores)["grade_weighted_average"]
    assert (value.value, value.n) == (2.5 / 3, 3)
    assert value.n_excluded == {"no_weight": 1, "null": 1}


@pytest.mark.parametrize("key", ["1.0", "1", 1, 1.0])
def test_number_finds_its_weight_in_any_spelling(key: str, make_scores: MakeScores, compute: Compute) -> None:
    """The value 1.0 has the weight of `1` as well as of `1.0`."""
    value = compute(WeightedAverage("x", {key: 3.0}), make_scores({"x": [1.0]}))["x_weighted_average"]
    assert value.value == 3.0


def test_text_finds_its_weight_only_as_text(make_scores: MakeScores, compute: Compute) -> None:
    """The text "1.0" is not the number 1."""
    value = compute(WeightedAverage("x", {"1": 3.0}), make_scores({"x": ["1.0"]}))["x_weighted_average"]
    assert value.n_excluded == {"no_weight": 1}


def test_field_of_weights_weighs_each_sample(make_scores: MakeScores, compute: Compute) -> None:
    """With a field name the value is Σwx / Σw; a sample without weight is left out."""
    scores = make_scores({"x": [1.0, 0.0, 1.0], "w": [3, 1, None]})
    value = compute(WeightedAverage("x", "w", name="Weighted"), scores)["Weighted"]
    assert (value.value, value.n, value.n_excluded) == (0.75, 2, {"no_weight": 1})


def test_weights_of_zero_give_no_value(make_scores: MakeScores, compute: Compute) -> None:
    """Σw = 0 is 0/0."""
    value = compute(WeightedAverage("x", "w"), make_scores({"x": [1.0], "w": [0.0]}))["x_weighted_average"]
    assert (value.value, value.note) == (None, "all weights are 0")


def test_nothing_to_weigh_gives_no_value(make_scores: MakeScores, compute: Compute) -> None:
    """No sample, no value."""
    value = compute(WeightedAverage("x", {"A": 1}), make_scores({"x": ["B"]}))["x_weighted_average"]
    assert (value.value, value.note) == (None, "no sample counts towards it")


def test_negative_weight_of_a_sample_is_an_error(make_scores: MakeScores, compute: Compute) -> None:
    """A sample cannot count less than not at all."""
    with pytest.raises(ScoringError, match="`w` holds negative weights in 1 sample"):
        compute(WeightedAverage("x", "w"), make_scores({"x": [1.0], "w": [-1.0]}))


def test_text_cannot_be_weighed_by_a_field(make_scores: MakeScores, compute: Compute) -> None:
    """Only numbers have a weighted mean."""
    with pytest.raises(ScoringError, match="`x` holds other values in 1 sample, such as 'A'"):
        compute(WeightedAverage("x", "w"), make_scores({"x": ["A"], "w": [1.0]}))


def test_error_shows_the_field_that_is_wrong(make_scores: MakeScores, compute: Compute) -> None:
    """The examples are those of the field that the error names, and long ones are cut."""
    scores = make_scores({"x": [1.0, 1.0], "w": ["z" * 500, "heavy"]})
    with pytest.raises(ScoringError) as caught:
        compute(WeightedAverage("x", "w"), scores)
    assert caught.value.message == (
        "`weighted_average` needs numbers, but `w` holds other values in 2 samples, "
        f"such as 'heavy', '{'z' * 79}…"
    )


@pytest.mark.parametrize("weights", [{}, "", {"A": "much"}, {"A": True}, {"A": float("nan")}, {"A": None}])
def test_weights_that_are_none_are_refused_at_once(weights: dict[str | bool | float, float] | str) -> None:
    """Empty weights, and weights that are no numbers, are the file's mistake."""
    with pytest.raises(SpecError) as caught:
        WeightedAverage("x", weights)
    assert caught.value.code == "E108"


def test_names_among_the_weights_are_no_numbers(make_scores: MakeScores, compute: Compute) -> None:
    """A number is looked up among the keys that read as one; the others are passed over."""
    metric = WeightedAverage("x", {"none": 7.0, "2.50": 3.0})
    assert compute(metric, make_scores({"x": [2.5]}))["x_weighted_average"].value == 3.0
    assert compute(metric, make_scores({"x": [1.5]}))["x_weighted_average"].value is None


def test_the_mean_of_weights_has_student_s_interval(make_scores: MakeScores, compute: Compute) -> None:
    """Weights out of a table are numbers like others; a field of weights makes a ratio."""
    scores = make_scores({"grade": ["good", "fair", "good", "bad"]})
    metric = WeightedAverage("grade", {"good": 1.0, "fair": 0.5, "bad": 0.0})
    value = compute(metric, scores)["grade_weighted_average"]
    numbers = [1.0, 0.5, 1.0, 0.0]
    assert value.std_error == pytest.approx(stats.sem(numbers))
    assert value.interval == student(0.625, value.std_error or 0, 3)
    assert (value.interval_method, value.note) == ("student_t", None)


def test_a_weighted_ratio_has_its_linearised_error(make_scores: MakeScores, compute: Compute) -> None:
    """√(n/(n-1) · Σ w²(x - R)²) / Σw, and Student's interval with n - 1 degrees."""
    values, weights = [1.0, 0.0, 0.5, 1.0], [3, 1, 2, 2]
    value = compute(WeightedAverage("x", "w"), make_scores({"x": values, "w": weights}))["x_weighted_average"]
    squares = sum((weight * (one - 0.75)) ** 2 for one, weight in zip(values, weights, strict=True))
    assert value.value == 0.75
    assert value.std_error == pytest.approx((4 / 3 * squares) ** 0.5 / 8)
    assert value.interval == student(0.75, value.std_error or 0, 3)
    assert value.interval_method == "ratio_t"


def test_means_of_the_largest_floats_are_held(make_scores: MakeScores, compute: Compute) -> None:
    """Sums are exact, so nothing overflows on the way."""
    scores = make_scores({"x": [1e308, -1e308], "w": [1e308, 1.7e308]})
    value = compute(WeightedAverage("x", "w"), scores)["x_weighted_average"]
    assert value.note is None
    far = make_scores({"grade": ["a", "a"]})
    value = compute(WeightedAverage("grade", {"a": 1.7e308}), far)["grade_weighted_average"]
    assert (value.value, value.note) == (1.7e308, None)


def test_empty_weights_are_refused_with_a_hint() -> None:
    """The hint says what to write."""
    with pytest.raises(SpecError) as caught:
        WeightedAverage("x", {})
    assert caught.value.code == "E108"
    assert (
        caught.value.hint == "give each value of the field a weight, or name the field that holds the weights"
    )


def test_negative_weights_have_a_code_and_a_hint(make_scores: MakeScores, compute: Compute) -> None:
    """And are counted in samples."""
    with pytest.raises(ScoringError) as caught:
        compute(WeightedAverage("x", "w"), make_scores({"x": [1.0, 1.0], "w": [-1.0, -2.0]}))
    assert (caught.value.code, caught.value.hint) == ("E402", "a weight is 0 or more")
    assert "in 2 samples" in caught.value.message
