from __future__ import annotations

import pytest
from scipy.stats import binomtest, norm

from answerkey.metrics.intervals import Z_95, wilson


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


def test_quantile_is_that_of_the_normal_distribution() -> None:
    """Z is the 97.5 % point."""
    assert pytest.approx(norm.ppf(0.975), abs=1e-15) == Z_95


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (2, 1), (-1, 5)])
def test_impossible_share_is_refused(successes: int, n: int) -> None:
    """There is no interval without samples or outside of 0 to n."""
    with pytest.raises(ValueError, match="no share"):
        wilson(successes, n)
