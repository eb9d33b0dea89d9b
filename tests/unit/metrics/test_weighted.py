from __future__ import annotations

from collections.abc import Callable

import pytest

from answerkey.errors import ScoringError, SpecError
from answerkey.metrics import Metric, WeightedAverage
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
