from __future__ import annotations

import pytest

from answerkey.metrics.averages import average_counts, average_errors, average_shares
from answerkey.metrics.concluding import Share
from answerkey.types import MetricValue


def test_variances_of_shares_add_up() -> None:
    """The standard error of a mean of shares is √(Σ p(1-p)/(n-1)) over their number."""
    found = average_shares([Share(30, 50), Share(90, 100)])
    expected = (0.6 * 0.4 / 49 + 0.9 * 0.1 / 99) ** 0.5 / 2
    assert found.std_error == pytest.approx(expected, rel=1e-14)
    assert found.method == "stratified"
    assert found.interval is not None
    assert found.interval[0] < 0.75 < found.interval[1]


def test_a_perfect_share_is_not_taken_as_certain() -> None:
    """All of 5 has the spread of its Jeffreys posterior: 5.5 · 0.5 / (36 · 7)."""
    found = average_shares([Share(5, 5), Share(50, 100)])
    expected = (5.5 * 0.5 / (36 * 7) + 0.25 / 99) ** 0.5 / 2
    assert found.std_error == pytest.approx(expected, rel=1e-14)


def test_all_perfect_shares_end_at_one() -> None:
    """Where every share is all, the interval ends at 1 and does not shrink to it."""
    found = average_shares([Share(5, 5)] * 10)
    assert found.method == "mover"
    assert found.interval is not None
    assert (0.8 < found.interval[0] < 0.9, found.interval[1]) == (True, 1.0)


def test_a_part_with_one_sample_leaves_no_interval() -> None:
    """Its spread cannot be known, and the note says so."""
    found = average_shares([Share(1, 1), Share(50, 100)])
    assert (found.interval, found.note) == (None, "a part with one sample says nothing about its spread")


def test_counts_are_averaged_without_weights() -> None:
    """Each part counts the same, however large it is."""
    assert average_counts([(1, 2), (100, 100)])[0] == 0.75


def test_standard_errors_add_up_as_squares() -> None:
    """Two values with errors 3 and 4 have a mean with the error 2.5."""
    values = [MetricValue("x", 10.0, 50, std_error=3.0), MetricValue("x", 20.0, 50, std_error=4.0)]
    found = average_errors(values)
    assert (found.std_error, found.method) == (2.5, "stratified")
    assert found.interval == pytest.approx((10.03, 19.97), abs=0.01)


def test_a_missing_error_leaves_no_interval() -> None:
    """One value without a standard error is enough, and the note counts them."""
    found = average_errors([MetricValue("x", 1.0, 5), MetricValue("x", 2.0, 5, std_error=0.1)])
    assert (found.interval, found.note) == (None, "1 of 2 have no standard error")
