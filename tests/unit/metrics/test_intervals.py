from __future__ import annotations

import pytest
from scipy.stats import binomtest, t

from answerkey.metrics import wilson
from answerkey.metrics.intervals import measure_f1, mover, score_interval, student


def test_real_share_has_its_known_interval() -> None:
    """11,918 of 14,014 has the interval [0.844435, 0.856244]."""
    low, high = wilson(11_918, 14_014)
    assert (round(low, 6), round(high, 6)) == (0.844435, 0.856244)


@pytest.mark.parametrize(
    ("successes", "n"), [(0, 1), (1, 1), (1, 2), (3, 10), (0, 500), (500, 500), (999, 1_000_000)]
)
def test_interval_agrees_with_scipy(successes: int, n: int) -> None:
    """The interval is the Wilson score interval without continuity correction."""
    theirs = binomtest(successes, n).proportion_ci(0.95, method="wilson")
    assert wilson(successes, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_none_and_all_touch_the_ends_exactly() -> None:
    """Nothing right starts at 0, everything right ends at 1, without rounding noise."""
    assert wilson(0, 7)[0] == 0.0
    assert wilson(7, 7)[1] == 1.0


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (2, 1), (-1, 5)])
def test_impossible_share_is_refused(successes: int, n: int) -> None:
    """There is no interval without samples or outside of 0 to n."""
    with pytest.raises(ValueError, match="no share"):
        wilson(successes, n)


def test_f1_carries_the_interval_of_its_hits_over() -> None:
    """6 hits among 8 samples that are a hit, a false alarm or a miss: F1 is 12/14, within its interval."""
    low, high = wilson(6, 8)
    assert measure_f1(6, 2).interval == (2 * low / (1 + low), 2 * high / (1 + high))
    assert 2 * low / (1 + low) < 12 / 14 < 2 * high / (1 + high)


def test_student_reaches_t_standard_errors_to_both_sides() -> None:
    """The interval is value ± t · error; that of a share does not leave [0, 1]."""
    reach = 0.1 * t.ppf(0.975, 9)
    assert student(0.9, 0.1, 9) == pytest.approx((0.9 - reach, 0.9 + reach), rel=1e-13)
    assert student(0.9, 0.1, 9, is_share=True) == pytest.approx((0.9 - reach, 1.0), rel=1e-13)


def test_score_interval_of_independent_outcomes_is_the_wilson_interval() -> None:
    """With the standard error √(p(1-p)/n) and many degrees of freedom nothing is left of the difference."""
    share, n = 0.85, 14_000
    found = score_interval(share, (share * (1 - share) / n) ** 0.5, 10**9)
    assert found == pytest.approx(wilson(11_900, n), rel=1e-9)


@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
def test_score_interval_stays_within_zero_and_one(share: float) -> None:
    """However large the standard error, a share's interval holds it and stays a share."""
    low, high = score_interval(share, 0.4, 4)
    assert 0 <= low < share < high <= 1


def test_mover_of_one_part_is_its_own_interval() -> None:
    """The mean of one value is as sure as the value."""
    assert mover([(0.5, (0.3, 0.9))]) == pytest.approx((0.3, 0.9), rel=1e-15)


def test_mover_adds_distances_as_squares() -> None:
    """Four equal parts halve the distances to both ends."""
    low, high = mover([(0.5, (0.3, 0.9))] * 4)
    assert (low, high) == pytest.approx((0.4, 0.7), rel=1e-15)
