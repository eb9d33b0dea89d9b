from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from answerkey.metrics import Frequency, Metric
from answerkey.types import MetricValue, Scores

MakeScores = Callable[..., Scores]
Compute = Callable[[Metric, Scores], dict[str, MetricValue]]


def test_each_value_has_its_share(make_scores: MakeScores, compute: Compute) -> None:
    """Every distinct value is a metric value named after it, in the order of the text, with an interval."""
    scores = make_scores({"is_correct": [1.0] * 4}, {"validity": ["VALID", "INVALID", "VALID", "VALID"]})
    values = compute(Frequency("validity"), scores)
    assert {name: value.value for name, value in values.items()} == {
        "validity_INVALID": 0.25,
        "validity_VALID": 0.75,
    }
    assert list(values) == sorted(values)
    assert all(value.interval_method == "wilson" and value.n == 4 for value in values.values())


def test_shares_sum_to_one_exactly(make_scores: MakeScores, compute: Compute) -> None:
    """The counts behind the shares add up to the whole, even where the floats are rounded."""
    values = compute(Frequency("x"), make_scores({"x": ["a", "b", "c", "c", "d", "d", "d"]})).values()
    shares = [Fraction(int(str(value.details["count"])), int(str(value.details["of"]))) for value in values]
    assert sum(shares) == 1


def test_floats_and_booleans_are_named_as_python_prints_them(
    make_scores: MakeScores, compute: Compute
) -> None:
    """`1.0` stays `1.0`, `True` stays `True`, `2` stays `2`."""
    assert list(compute(Frequency("x"), make_scores({"x": [1.0, 0.0]}))) == ["x_0.0", "x_1.0"]
    assert list(compute(Frequency("x"), make_scores({"x": [True, False]}))) == ["x_False", "x_True"]
    assert list(compute(Frequency("x"), make_scores({"x": [2, 10]}))) == ["x_10", "x_2"]


def test_equal_numbers_are_one_value(make_scores: MakeScores, compute: Compute) -> None:
    """Where a field holds any float, whole numbers are written as floats, so that 1 and 1.0 are one value."""
    values = compute(Frequency("x"), make_scores({"x": [1, 1.0, 2, 0.5]}, encoded=["x"]))
    assert {name: value.value for name, value in values.items()} == {
        "x_0.5": 0.25,
        "x_1.0": 0.5,
        "x_2.0": 0.25,
    }


def test_null_is_left_out_and_counted(make_scores: MakeScores, compute: Compute) -> None:
    """Null is no value of the field."""
    values = compute(Frequency("letter"), make_scores({"letter": ["A", None, "A"]}))
    assert list(values) == ["letter_A"]
    assert (values["letter_A"].value, values["letter_A"].n_excluded) == (1.0, {"null": 1})


def test_lists_are_named_as_json(make_scores: MakeScores, compute: Compute) -> None:
    """Nested values appear as their JSON text."""
    values = compute(Frequency("choices"), make_scores({"choices": [["A", "B"], ["A", "B"]]}))
    assert list(values) == ['choices_["A", "B"]']


def test_nothing_to_count_is_one_value_without_number(make_scores: MakeScores, compute: Compute) -> None:
    """A field without values still says that it was looked at."""
    values = compute(Frequency("x"), make_scores({"x": [None, math.nan]}))
    assert list(values) == ["x_frequency"]
    assert values["x_frequency"].value is None
    assert values["x_frequency"].n_excluded == {"not_finite": 1, "null": 1}
