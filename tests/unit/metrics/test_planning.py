from __future__ import annotations

import pytest
from scipy import stats

from answerkey.metrics.paired import Aim, Spread, count_samples, find_smallest, measure_power

#: Miller 2024: ω² = 1/9 and σ² = 1/6 of each model.
KNOWN = Spread(1 / 9, 1 / 6, 1 / 6)


@pytest.mark.parametrize(("trials", "samples"), [(1, 3_876), (10, 1_260)])
def test_known_plans_have_their_known_size(trials: int, samples: int) -> None:
    """A difference of 0.03 takes 3,876 samples when each is asked once, 1,260 when it is asked ten times."""
    spread = Spread(1 / 9, 1 / 6, 1 / 6, trials, trials)
    assert count_samples(spread.total, 0.03, Aim()) == samples


def test_smallest_difference_and_samples_undo_each_other() -> None:
    """With the samples that a difference takes, the smallest difference is that one, or a little less."""
    samples = count_samples(KNOWN.total, 0.05, Aim())
    assert find_smallest(KNOWN.total, samples, Aim()) <= 0.05 < find_smallest(KNOWN.total, samples - 1, Aim())


def test_power_at_the_smallest_difference_is_the_power_asked_for() -> None:
    """The test sees it in 80 of 100 cases; without any difference, it errs in 5."""
    smallest = find_smallest(KNOWN.total, 1_000, Aim(power=0.8))
    assert measure_power(KNOWN.total, 1_000, smallest, 0.05) == pytest.approx(0.8, abs=1e-5)
    assert measure_power(KNOWN.total, 1_000, 0.0, 0.05) == pytest.approx(0.05, abs=1e-12)


def test_power_agrees_with_scipy() -> None:
    """It is the share of a shifted normal variable beyond the critical points."""
    error = (KNOWN.total / 400) ** 0.5
    shifted = stats.norm(0.06 / error)
    expected = shifted.sf(stats.norm.ppf(0.995)) + shifted.cdf(-stats.norm.ppf(0.995))
    assert measure_power(KNOWN.total, 400, 0.06, 0.01) == pytest.approx(expected, rel=1e-12)


def test_without_spread_one_sample_is_enough() -> None:
    """If nothing varies, the first sample shows it."""
    assert (count_samples(0.0, 0.03, Aim()), measure_power(0.0, 1, 0.03, 0.05)) == (1, 1.0)
