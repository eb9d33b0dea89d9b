from __future__ import annotations

import pytest

from answerkey.metrics import average_counts
from answerkey.metrics.intervals import Margin, Share, average_errors, average_shares, score_interval, student
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


def test_degrees_of_freedom_are_satterthwaite_s() -> None:
    """Those of the two shares, weighed by their spreads; the interval is that of the effective sample."""
    shares = [Share(30, 50), Share(90, 100)]
    first, second = 0.6 * 0.4 / 49, 0.9 * 0.1 / 99
    freedom = int((first + second) ** 2 / (first**2 / 49 + second**2 / 99))
    found = average_shares(shares)
    assert found.interval == score_interval(0.75, found.std_error or 0, freedom)
    assert found.interval == pytest.approx((0.6672408897833992, 0.8177969386923625))
    assert found.is_share


def test_small_shares_have_at_least_one_degree_of_freedom() -> None:
    """Two samples in one part and four in the other."""
    found = average_shares([Share(1, 2), Share(3, 4)])
    assert found.std_error == pytest.approx((1 / 4 + 1 / 16) ** 0.5 / 2)
    assert found.interval == pytest.approx((0.007144589133472922, 0.9974161330847594))


def test_shares_of_nothing_and_of_all_have_a_mean_between() -> None:
    """Only where all shares are at the same end is the interval made from their own."""
    assert average_shares([Share(0, 5), Share(5, 5)]).method == "stratified"
    found = average_shares([Share(0, 5), Share(0, 8)])
    assert (found.method, found.is_share) == ("mover", True)
    assert found.interval == pytest.approx((0.0, 0.27111587944915344))


def test_no_shares_have_no_mean() -> None:
    """There is nothing to be sure of."""
    assert average_shares([]) == Margin()


def test_counts_have_the_interval_of_their_shares() -> None:
    """The same as for shares."""
    assert average_counts([(30, 50), (90, 100)]) == (
        0.75,
        average_shares([Share(30, 50), Share(90, 100)]).interval,
    )


def test_means_of_shares_stay_within_zero_and_one() -> None:
    """From their own errors 0.1 and 0.2 with 4 and 8 degrees of freedom."""
    values = [
        MetricValue("x", 0.25, 5, std_error=0.1, is_share=True),
        MetricValue("x", 0.5, 9, std_error=0.2, is_share=True),
    ]
    found = average_errors(values)
    freedom = int((0.25 + 1) ** 2 / (0.25**2 / 4 + 1 / 8))
    assert found.interval == score_interval(0.375, found.std_error or 0, freedom)
    assert (found.is_share, found.method) == (True, "stratified")
    assert found.std_error == pytest.approx(0.05**0.5 / 2)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_means_at_an_end_are_cut_there(value: float) -> None:
    """A share of all or nothing that has an error is not carried beyond the end."""
    found = average_errors([MetricValue("x", value, 9, std_error=0.1, is_share=True)] * 2)
    assert found.interval is not None
    assert (min(found.interval), max(found.interval))[int(value)] == value


def test_degrees_of_freedom_are_those_of_clusters_where_there_are_any() -> None:
    """One less than the clusters that a value was computed from, else than its samples, and at least 1."""
    plain = [MetricValue("x", 10.0, 50, std_error=3.0), MetricValue("x", 20.0, 5, std_error=4.0)]
    clustered = [MetricValue("x", 10.0, 50, std_error=3.0, details={"clusters": 2})] * 2
    single = [MetricValue("x", 10.0, 1, std_error=3.0)] * 2
    squares = (9 / 16, 1.0)
    freedom = int(sum(squares) ** 2 / (squares[0] ** 2 / 49 + squares[1] ** 2 / 4))
    assert average_errors(plain).interval == student(15.0, 2.5, freedom)
    for values in (clustered, single):
        found = average_errors(values)
        assert found.interval == student(10.0, found.std_error or 0, 2)


def test_parts_without_spread_have_a_note() -> None:
    """An error of 0 is known, and no interval follows from it."""
    found = average_errors([MetricValue("x", 1.0, 5, std_error=0.0, is_share=True)] * 2)
    assert found == Margin(0.0, note="no part shows any spread", is_share=True)
