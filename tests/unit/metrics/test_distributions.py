from __future__ import annotations

import pytest
from scipy import stats

from answerkey.metrics.intervals import (
    NORMAL,
    Z_95,
    beta_share,
    student_quantile,
    student_tails,
    toss_share,
    toss_tail,
)


@pytest.mark.parametrize("df", [1, 2, 3, 5, 10, 29, 56, 199, 500, 999, 1000, 1001, 14_013, 10**7])
@pytest.mark.parametrize("share", [0.6, 0.9, 0.975, 0.995])
def test_student_quantile_agrees_with_scipy(df: int, share: float) -> None:
    """The quantile of Student's t is exact to 12 digits, on both sides of where the expansion takes over."""
    assert student_quantile(share, df) == pytest.approx(stats.t.ppf(share, df), rel=1e-12)


@pytest.mark.parametrize("df", [1, 2, 5, 30, 500, 14_013, 10**6])
@pytest.mark.parametrize("point", [-3.0, 0.01, 1.0, 2.5, 12.0])
def test_student_tails_agree_with_scipy(df: int, point: float) -> None:
    """Both tails of Student's t are exact to eight digits."""
    assert student_tails(point, df) == pytest.approx(2 * stats.t.sf(abs(point), df), rel=1e-8)


@pytest.mark.parametrize(
    ("first", "second", "point"), [(0.5, 0.5, 0.3), (2, 3, 0.7), (50, 0.5, 0.99), (3, 80, 0.02)]
)
def test_beta_share_agrees_with_scipy(first: float, second: float, point: float) -> None:
    """The regularised incomplete beta function is exact to twelve digits, and runs from 0 to 1."""
    assert beta_share(first, second, point) == pytest.approx(stats.beta.cdf(point, first, second), rel=1e-12)
    assert (beta_share(first, second, 0.0), beta_share(first, second, 1.0)) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("heads", "tosses"), [(0, 0), (0, 1), (5, 10), (799, 1630), (2500, 5000), (2400, 5001), (499_000, 10**6)]
)
def test_tosses_agree_with_scipy(heads: int, tosses: int) -> None:
    """Tails and shares of a fair coin are exact to nine digits, in whole numbers and beyond them."""
    assert toss_tail(heads, tosses) == pytest.approx(stats.binom.cdf(heads, tosses, 0.5), rel=1e-9)
    assert toss_share(heads, tosses) == pytest.approx(stats.binom.pmf(heads, tosses, 0.5), rel=1e-9)


def test_normal_distribution_agrees_with_scipy() -> None:
    """Quantile and share of the normal distribution are those of scipy."""
    assert NORMAL.inv_cdf(0.975) == pytest.approx(stats.norm.ppf(0.975), abs=1e-15)
    assert NORMAL.cdf(-1.3) == pytest.approx(stats.norm.cdf(-1.3), rel=1e-14)
    assert pytest.approx(stats.norm.ppf(0.975), abs=1e-15) == Z_95


def test_shares_of_very_large_parameters_end_in_time() -> None:
    """Three digits are right for a hundred billion samples; for more the fraction is cut, and is a share."""
    assert beta_share(1e11, 1e11, 0.499999) == pytest.approx(stats.beta.cdf(0.499999, 1e11, 1e11), abs=1e-3)
    assert 0 < beta_share(1e14, 1e14, 0.5 - 3.5e-10) < 0.5


@pytest.mark.parametrize("share", [0.9999, 0.99999, 0.9999999])
def test_far_quantiles_of_few_degrees_agree_with_scipy(share: float) -> None:
    """Beyond the first guess the range is doubled until the point lies in it."""
    assert student_quantile(share, 1) == pytest.approx(stats.t.ppf(share, 1), rel=1e-9)
