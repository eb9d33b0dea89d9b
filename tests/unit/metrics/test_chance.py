from __future__ import annotations

import pytest

from answerkey.metrics.classification import (
    correct_for_chance,
    measure_chance,
    measure_kappa,
    measure_recalls,
    measure_rstd,
)

LETTERS = {"A": {"A": 40, "B": 10}, "B": {"A": 20, "B": 20, "INVALID": 10}}


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
    assert measure_kappa(LETTERS) == pytest.approx((0.6 - 0.45) / (1 - 0.45), rel=1e-15)
    assert measure_kappa({"A": {"A": 3}, "B": {"B": 2}}) == 1
    assert measure_kappa({"A": {"INVALID": 3}}) == 0


def test_kappa_is_none_where_accident_would_explain_all() -> None:
    """One letter alone is no agreement to speak of."""
    assert measure_kappa({"A": {"A": 3}}) is None
    assert measure_kappa({}) is None


def test_recalls_and_their_spread() -> None:
    """RStd is the population standard deviation of the recalls, in points."""
    recalls = measure_recalls(LETTERS)
    assert recalls == {"A": 0.8, "B": 0.4}
    assert measure_rstd(list(recalls.values())) == pytest.approx(20.0, rel=1e-12)
    assert measure_rstd([0.5]) is None
    assert measure_rstd([]) is None
