from __future__ import annotations

import pytest
from scipy.stats import chi2, chisquare

from answerkey.metrics.intervals import chi_square_tail, compare_counts


@pytest.mark.parametrize("df", [1, 2, 3, 4, 9, 20, 57, 171, 500])
@pytest.mark.parametrize("point", [0.0, 1e-6, 0.1, 1.0, 3.841, 10.0, 40.0, 150.0, 700.0])
def test_the_tail_is_that_of_scipy(point: float, df: int) -> None:
    """Own code and scipy agree to twelve digits."""
    assert chi_square_tail(point, df) == pytest.approx(chi2.sf(point, df), rel=1e-11, abs=1e-300)


def test_one_group_is_the_usual_test() -> None:
    """With one group the test is scipy's `chisquare`."""
    counts = [3219, 3452, 3575, 3768]
    found = compare_counts([(counts, [sum(counts) / 4] * 4)])
    expected = chisquare(counts)
    assert found is not None
    assert found.df == 3
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)


def test_groups_add_up() -> None:
    """Statistics and degrees of independent groups are added."""
    found = compare_counts([([30, 10], [20.0, 20.0]), ([10, 10, 10], [10.0] * 3)])
    assert found is not None
    assert (found.statistic, found.df) == (10.0, 3)
    assert found.p == pytest.approx(chi2.sf(10, 3), rel=1e-12)


def test_nothing_to_compare_is_no_test() -> None:
    """Without a group of at least two cells there is no test."""
    assert compare_counts([]) is None
    assert compare_counts([([5], [5.0])]) is None


@pytest.mark.parametrize(("point", "df", "error"), [(1e9, 10**9, 1e-4), (1e13 + 4.5e4, 10**13, 0.01)])
def test_degrees_beyond_all_use_end_in_time(point: float, df: int, error: float) -> None:
    """An approximation takes the place of sums of so many terms; the first digits are right then."""
    assert chi_square_tail(point, df) == pytest.approx(chi2.sf(point, df), abs=error)
