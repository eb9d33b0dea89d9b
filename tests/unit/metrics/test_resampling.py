from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest
from scipy import stats

from answerkey.metrics.intervals import FEWEST_SAMPLES, _accelerate, draw_binomial, resample

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


def test_a_number_beyond_all_its_resamples_has_no_interval() -> None:
    """How many samples differ is always less in a draw with replacement."""
    found = resample([1] * 60, lambda counts: float(sum(map(bool, counts))))
    assert (found.interval, found.note) == (None, "all resamples lie on one side of the value")
    assert found.std_error is not None


def test_samples_without_which_there_is_no_number_do_not_accelerate() -> None:
    """The lead's inverse is 0/0 without one of the leaders; only leaving out the others tells anything."""

    def invert_lead(counts: Sequence[int]) -> float | None:
        return 1 / (counts[0] - counts[1]) if counts[0] != counts[1] else None

    assert _accelerate([31, 30, 0], invert_lead) == 0.0
    assert _accelerate([32, 30, 0], invert_lead) == pytest.approx(
        (30 * (32 / 62) ** 3 - 32 * (30 / 62) ** 3) / (6 * (30 * (32 / 62) ** 2 + 32 * (30 / 62) ** 2) ** 1.5)
    )


@pytest.mark.parametrize(
    ("n", "share", "drawn"),
    [
        (20, 0.3, [7, 7, 5, 5, 6, 4, 9, 4, 9, 10, 3, 5, 7, 8, 10, 4, 7, 9, 3, 6, 4, 6, 3, 4]),
        (
            1000,
            0.4,
            [
                395,
                371,
                426,
                413,
                402,
                386,
                417,
                415,
                391,
                411,
                405,
                400,
                399,
                430,
                402,
                425,
                421,
                400,
                404,
                382,
                364,
                390,
                399,
                396,
            ],
        ),
        (
            60,
            0.8,
            [49, 43, 48, 51, 45, 50, 46, 47, 48, 48, 42, 48, 43, 44, 48, 47, 55, 50, 48, 49, 47, 49, 50, 45],
        ),
        (
            25,
            0.5,
            [12, 8, 17, 13, 10, 15, 11, 14, 13, 13, 17, 13, 16, 16, 13, 13, 10, 7, 11, 12, 12, 14, 11, 11],
        ),
        (
            1000000,
            0.25,
            [
                249650,
                249872,
                249171,
                250735,
                250352,
                250045,
                249538,
                249615,
                250465,
                250411,
                249758,
                250301,
                250589,
                250131,
                250007,
                249968,
                250837,
                250058,
                250692,
                250595,
                250010,
                250122,
                249515,
                248971,
            ],
        ),
        (200, 0.051, [8, 9, 5, 15, 11, 7, 14, 8, 13, 11, 10, 10, 16, 11, 15, 15, 10, 11, 7, 8, 10, 9, 11, 9]),
        (10, 1.0, [10, 10]),
    ],
)
def test_a_seed_gives_the_same_draws_for_ever(n: int, share: float, drawn: list[int]) -> None:
    """An interval of last year can be computed again: the draws never change."""
    random = Random(4)
    assert [draw_binomial(n, share, random.random) for _ in drawn] == drawn


def divide_first_by_second(counts: Sequence[int]) -> float | None:
    """Return a ratio, which is skewed."""
    return counts[0] / counts[1] if counts[1] else None


@pytest.mark.parametrize(
    ("counts", "seed", "std_error", "interval"),
    [
        ([30, 70, 0], 0, 0.09469704673500617, (0.26582278481012656, 0.639344262295082)),
        ([300, 700], 0, 0.02876491708598553, (0.37362637362637363, 0.48588410104011887)),
        ([900, 5000, 40], 7, 0.006617457596948898, (0.16719713531292504, 0.1934836607251232)),
    ],
)
def test_intervals_of_skewed_numbers_are_repeatable(
    counts: list[int], seed: int, std_error: float, interval: tuple[float, float]
) -> None:
    """Drawn cell by cell, shifted by bias and acceleration, read between two resamples."""
    found = resample(counts, divide_first_by_second, seed)
    assert found.std_error == pytest.approx(std_error, rel=1e-12)
    assert found.interval == pytest.approx(interval, rel=1e-12)
    assert found.note is None


def test_few_samples_in_many_cells_are_drawn_one_by_one() -> None:
    """The mean of eight values, four of them twice: ten samples are enough, and each draw is of twelve."""
    sizes = []

    def average(counts: Sequence[int]) -> float:
        sizes.append(sum(counts))
        return sum(place * count for place, count in enumerate(counts)) / sum(counts)

    found = resample([2] * 4 + [1] * 4, average, 3)
    assert found.interval == pytest.approx((1.75, 25 / 6))
    assert set(sizes) == {11, 12}
    assert found.std_error == pytest.approx(0.6393248664091451, rel=1e-12)


def test_ten_samples_are_enough() -> None:
    """The least that is resampled."""
    assert resample([6, 4], share_first).interval == (0.3, 0.9)


def test_one_resample_of_a_hundred_may_have_no_value() -> None:
    """Twenty of 2,000 without a value are left out; 21 are too many."""
    for missing, note in ((20, None), (21, "too many resamples have no value (0/0)")):
        left = [missing]

        def skip_some(counts: Sequence[int], left: list[int] = left) -> float | None:
            if counts[0] not in {29, 30} and left[0]:
                left[0] -= 1
                return None
            return counts[0] / sum(counts)

        assert resample([30, 70], skip_some).note == note


def test_the_acceleration_is_that_of_leaving_out_each_sample() -> None:
    """Of a share of 3 in 10, by Efron's formula: without one of the three it is 2/9, without another 3/9."""
    mean = (3 * 2 / 9 + 7 * 3 / 9) / 10
    squares = 3 * (mean - 2 / 9) ** 2 + 7 * (mean - 3 / 9) ** 2
    cubes = 3 * (mean - 2 / 9) ** 3 + 7 * (mean - 3 / 9) ** 3
    assert _accelerate([3, 5, 2], share_first) == pytest.approx(cubes / (6 * squares**1.5), rel=1e-12)
