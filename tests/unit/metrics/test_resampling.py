from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest
from scipy import stats

from answerkey.metrics.resampling import FEWEST_SAMPLES, draw_binomial, resample

NUMBERS = [0.3, 0.7, 1.1, 1.4, 2.0, 2.2, 2.9, 3.3, 4.1, 5.6, 8.0, 9.5]


def deviate(counts: Sequence[int]) -> float | None:
    """Return the sample standard deviation of NUMBERS, each as often as its count."""
    n = sum(counts)
    mean = sum(count * number for count, number in zip(counts, NUMBERS, strict=True)) / n
    squares = sum(count * (number - mean) ** 2 for count, number in zip(counts, NUMBERS, strict=True))
    return float((squares / (n - 1)) ** 0.5)


def share_first(counts: Sequence[int]) -> float:
    """Return the share of the first cell."""
    return counts[0] / sum(counts)


@pytest.mark.parametrize(
    ("n", "share"), [(20, 0.3), (100, 0.02), (1000, 0.4), (10**6, 0.25), (50, 0.7), (10**7, 1e-7)]
)
def test_binomial_draws_have_the_binomial_distribution(n: int, share: float) -> None:
    """Twenty classes of equal probability are hit as a binomial variable hits them."""
    random = Random(2)
    drawn = [draw_binomial(n, share, random.random) for _ in range(5_000)]
    edges = sorted({float(stats.binom.ppf(step / 20, n, share)) for step in range(1, 20)})
    below = [0.0, *(float(stats.binom.cdf(edge, n, share)) for edge in edges), 1.0]
    expected = [5_000 * (upper - lower) for lower, upper in pairwise(below)]
    seen = [0] * len(expected)
    for one in drawn:
        seen[sum(one > edge for edge in edges)] += 1
    kept = [(one, other) for one, other in zip(seen, expected, strict=True) if other > 1]
    total = sum(one for one, _ in kept) / sum(other for _, other in kept)
    chance = stats.chisquare([one for one, _ in kept], [other * total for _, other in kept]).pvalue
    assert chance > 0.001


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_certain_outcomes_are_certain(share: float) -> None:
    """Nothing and everything are never drawn otherwise."""
    assert draw_binomial(9, share, Random(0).random) == 9 * share


def test_interval_agrees_with_scipy() -> None:
    """The BCa interval of a standard deviation is scipy's, up to the chance of the draws."""
    found = resample([1] * len(NUMBERS), deviate)
    theirs = stats.bootstrap(
        (NUMBERS,), lambda row, axis: row.std(axis=axis, ddof=1), n_resamples=20_000, method="BCa", rng=0
    )
    assert found.interval == pytest.approx(tuple(theirs.confidence_interval), rel=0.04)
    assert found.std_error == pytest.approx(theirs.standard_error, rel=0.05)


def test_cells_are_resampled_as_samples_are() -> None:
    """A share of 300 of 1,000, drawn as counts of two cells, has about its Wilson interval."""
    found = resample([300, 700], share_first)
    theirs = stats.binomtest(300, 1000).proportion_ci(method="wilson")
    assert found.interval == pytest.approx((theirs.low, theirs.high), abs=0.003)
    assert found.std_error == pytest.approx((0.3 * 0.7 / 1000) ** 0.5, rel=0.05)


def test_the_same_seed_gives_the_same_interval() -> None:
    """Nothing but counts and seed decides: these very numbers, on every machine."""
    assert resample([30, 70], share_first, 0) == resample([30, 70], share_first, 0)
    assert resample([30, 70], share_first, 0) != resample([30, 70], share_first, 1)
    assert resample([30, 70], share_first, 0).interval == (0.21, 0.39)


@pytest.mark.parametrize(
    ("counts", "note"),
    [
        ([FEWEST_SAMPLES - 1, 0], "resampling needs at least 10 samples, there are 9"),
        ([20, 0], "all resamples give the same number"),
    ],
)
def test_no_interval_without_its_conditions(counts: list[int], note: str) -> None:
    """Few samples, or samples that are all alike, have none, and the note says why."""
    found = resample(counts, share_first)
    assert (found.interval, found.note) == (None, note)


def test_values_that_are_often_nothing_have_no_interval() -> None:
    """A number that is 0/0 in more than one of a hundred resamples is not resampled."""

    def divide(counts: Sequence[int]) -> float | None:
        return counts[0] / counts[1] if counts[1] else None

    found = resample([30, 2], divide)
    assert (found.interval, found.note) == (None, "too many resamples have no value (0/0)")


def test_without_a_seed_nothing_is_drawn() -> None:
    """Where clusters tell the spread, resampling would be wasted."""
    assert resample([30, 70], share_first, None).interval is None
