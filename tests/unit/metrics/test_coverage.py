"""Intervals hold the truth about as often as they say: in 95 of 100 draws, with the slack that chance needs.

With 400 draws and a coverage of 95 %, fewer than 92 % are a chance of 1 in 100.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from answerkey.metrics import intervals, wilson
from answerkey.metrics.intervals import (
    Interval,
    Ratio,
    Share,
    average_shares,
    draw_binomial,
    measure_clustered_error,
    measure_error,
    measure_f1,
    measure_ratio,
    resample,
    score_interval,
    student,
)
from answerkey.metrics.paired import Flips, bound_flips, measure_difference

DRAWS = 400
Draw = Callable[[Random], Interval | None]


def measure_coverage(draw: Draw, truth: float) -> float:
    """Return how often an interval holds the truth, of those there are."""
    random = Random(11)
    found = [one for one in (draw(random) for _ in range(DRAWS)) if one is not None]
    assert len(found) > DRAWS / 2
    return sum(low <= truth <= high for low, high in found) / len(found)


@pytest.mark.parametrize(("n", "share"), [(20, 0.9), (200, 0.5), (200, 0.98)])
def test_shares(n: int, share: float) -> None:
    """Wilson's interval holds a share, also of few samples and near 1."""
    covered = measure_coverage(lambda random: wilson(draw_binomial(n, share, random.random), n), share)
    assert 0.92 <= covered <= 0.99


@pytest.mark.parametrize("n", [5, 30])
def test_means(n: int) -> None:
    """Student's interval holds the mean of few normal numbers."""

    def draw(random: Random) -> Interval:
        numbers = [random.gauss(2, 1) for _ in range(n)]
        mean = sum(numbers) / n
        error = (sum((one - mean) ** 2 for one in numbers) / (n - 1) / n) ** 0.5
        return student(mean, error, n - 1)

    assert 0.92 <= measure_coverage(draw, 2.0) <= 0.98


@pytest.mark.parametrize(("clusters", "size"), [(10, 20), (57, 20)])
def test_clusters(clusters: int, size: int) -> None:
    """Shares of clusters that differ among themselves are held, where a plain interval would fail."""

    def draw(random: Random) -> Interval | None:
        counts = [draw_binomial(size, random.betavariate(4, 1), random.random) for _ in range(clusters)]
        error, _ = measure_clustered_error([(Ratio(count, size, size), 1) for count in counts])
        share = sum(counts) / (clusters * size)
        return score_interval(share, error, clusters - 1) if error else None

    assert 0.91 <= measure_coverage(draw, 0.8) <= 0.99


@pytest.mark.parametrize("size", [2, 20])
def test_averages_of_groups(size: int) -> None:
    """The mean of many groups is held, also where most groups are all right."""
    shares = [0.5 + 0.48 * place / 29 for place in range(30)]

    def draw(random: Random) -> Interval | None:
        return average_shares(
            [Share(draw_binomial(size, share, random.random), size) for share in shares]
        ).interval

    assert 0.93 <= measure_coverage(draw, sum(shares) / 30) <= 1.0


def test_f1_of_a_class() -> None:
    """Of hits, false alarms and misses with the shares 0.6, 0.2, 0.2: F1 is 1.2/1.6."""

    def draw(random: Random) -> Interval | None:
        hits = draw_binomial(60, 0.6, random.random)
        return measure_f1(hits, 60 - hits).interval

    assert 0.92 <= measure_coverage(draw, 0.75) <= 0.98


def test_ratios_of_sums() -> None:
    """Samples of one to four outcomes, with shares of their own, have a ratio that is held."""

    def draw(random: Random) -> Interval | None:
        sizes = [random.randrange(1, 5) for _ in range(50)]
        tops = [draw_binomial(size, random.betavariate(8, 2), random.random) for size in sizes]
        ratio = Ratio(sum(tops), sum(sizes), 50)
        error = measure_error(
            ratio,
            tops=sum(top**2 for top in tops),
            products=sum(top * size for top, size in zip(tops, sizes, strict=True)),
            bottoms=sum(size**2 for size in sizes),
        )
        return measure_ratio(ratio.top / ratio.bottom, error, 50, is_share=True).interval

    assert 0.91 <= measure_coverage(draw, 0.8) <= 0.99


def test_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bootstrap holds a share that a formula would hold, too."""
    monkeypatch.setattr(intervals, "RESAMPLES", 200)

    def draw(random: Random) -> Interval | None:
        count = draw_binomial(100, 0.7, random.random)
        return resample(
            [count, 100 - count], lambda cells: cells[0] / sum(cells), random.randrange(10**6)
        ).interval

    assert 0.9 <= measure_coverage(draw, 0.7) <= 0.99


@pytest.mark.parametrize(("n", "first", "second"), [(100, 0.05, 0.0), (200, 0.05, 0.05), (50, 0.2, 0.1)])
def test_differences(n: int, first: float, second: float) -> None:
    """The difference of two runs is held, with few flips and with many, to one side and to both."""

    def draw(random: Random) -> Interval | None:
        flips = _draw_flips(n, first, second, random)
        pairs = [
            (1.0, 1.0, flips.both),
            (1.0, 0.0, flips.first_only),
            (0.0, 1.0, flips.second_only),
            (0.0, 0.0, flips.neither),
        ]
        found = measure_difference(pairs)
        return None if found is None else found.evidence.interval

    assert 0.91 <= measure_coverage(draw, first - second) <= 1.0


def test_differences_with_hardly_any_flip() -> None:
    """Newcombe's interval holds a difference that nearly never shows."""
    covered = measure_coverage(lambda random: bound_flips(_draw_flips(80, 0.02, 0.01, random)), 0.01)
    assert covered >= 0.94


def _draw_flips(n: int, first: float, second: float, random: Random) -> Flips:
    """Return flips with these shares to one side and the other; of the rest, both have 0.8 right."""
    one = draw_binomial(n, first, random.random)
    other = draw_binomial(n - one, second / (1 - first), random.random)
    both = draw_binomial(n - one - other, 0.8, random.random)
    return Flips(both, one, other, n - one - other - both)
