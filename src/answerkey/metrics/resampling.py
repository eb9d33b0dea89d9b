"""Intervals by resampling, for numbers that no formula fits: the bootstrap, bias-corrected and accelerated.

Samples that look alike to a metric form a cell, so a resample is a draw of cell counts: its work grows with
the cells, not with the samples. It depends on the counts and the seed alone. Only `random()` is used, the one
method whose sequence Python keeps from version to version.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from answerkey.metrics.distributions import normal_cdf, normal_quantile

#: A number from the counts of the cells; None where it is 0/0.
Statistic = Callable[[Sequence[int]], float | None]

RESAMPLES = 2_000
#: With fewer samples a resample says too little about the next draw.
FEWEST_SAMPLES = 10
#: How many cells are resampled at most.
MOST_CELLS = 500

#: Among so many resamples one may be 0/0 before the interval is given up.
_SELDOM = 100
#: Below so many expected successes, waiting from one to the next is faster than rejection.
_FEW_EXPECTED = 10
#: While the samples are at most so many times the cells, drawing samples is faster than drawing counts.
_SPARSE = 4
_TAIL = 0.025
_MEDIAN = 0.5


@dataclass(frozen=True)
class Resampled:
    """What resampling says of a number; `note` says why there is no interval."""

    std_error: float | None = None
    interval: tuple[float, float] | None = None
    note: str | None = None


def resample(counts: Sequence[int], statistic: Statistic, seed: int | None = 0) -> Resampled:
    """Return the standard error and the 95 % BCa interval of a number computed from cell counts.

    A seed of None is for numbers whose spread something else will tell: nothing is drawn.
    """
    n, value = sum(counts), statistic(counts)
    if value is None or seed is None:
        return Resampled(note="not resampled")
    if n < FEWEST_SAMPLES:
        return Resampled(note=f"resampling needs at least {FEWEST_SAMPLES} samples, there are {n}")
    draw = _choose_draw(counts, Random(seed))  # noqa: S311 - repeatable, no secret
    drawn = [statistic(draw()) for _ in range(RESAMPLES)]
    found = sorted(one for one in drawn if one is not None)
    if (RESAMPLES - len(found)) * _SELDOM > RESAMPLES:
        return Resampled(note="too many resamples have no value (0/0)")
    if found[0] == found[-1]:
        return Resampled(note="all resamples give the same number")
    return Resampled(_measure_spread(found), *_read_interval(found, value, _skew(counts, statistic)))


def _measure_spread(found: Sequence[float]) -> float:
    mean = math.fsum(found) / len(found)
    return math.sqrt(math.fsum((one - mean) ** 2 for one in found) / (len(found) - 1))


def _read_interval(
    found: Sequence[float], value: float, acceleration: float
) -> tuple[tuple[float, float] | None, str | None]:
    """Return the interval from the sorted resamples, or why there is none (Efron 1987)."""
    below = sum(one < value for one in found)
    equal = sum(one == value for one in found)
    share = (below + equal / 2) / len(found)
    if not 0 < share < 1:
        return None, "all resamples lie on one side of the value"
    bias = normal_quantile(share)
    ends = []
    for tail in (_TAIL, 1 - _TAIL):
        shifted = bias + normal_quantile(tail)
        # It is positive: no acceleration is beyond 1/6, and no shift beyond 5.5 with so many resamples.
        slope = 1 - acceleration * shifted
        ends.append(_pick(found, normal_cdf(bias + shifted / slope)))
    return (ends[0], ends[1]), None


def _pick(found: Sequence[float], share: float) -> float:
    """Return the quantile of sorted numbers, between two of them in proportion."""
    place = share * (len(found) - 1)
    low = min(int(place), len(found) - 2)
    return found[low] + (place - low) * (found[low + 1] - found[low])


def _skew(counts: Sequence[int], statistic: Statistic) -> float:
    """Return the acceleration, from the numbers that remain when one sample of a cell is left out."""
    left = list(counts)
    outcomes: list[tuple[float, int]] = []
    for cell, count in enumerate(counts):
        if count:
            left[cell] -= 1
            value = statistic(left)
            left[cell] += 1
            if value is not None:
                outcomes.append((value, count))
    n = sum(count for _, count in outcomes)
    mean = math.fsum(value * count for value, count in outcomes) / n
    squares = math.fsum(count * (mean - value) ** 2 for value, count in outcomes)
    cubes = math.fsum(count * (mean - value) ** 3 for value, count in outcomes)
    return cubes / (6 * squares**1.5) if squares else 0.0


def _choose_draw(counts: Sequence[int], random: Random) -> Callable[[], list[int]]:
    """Return what draws the cell counts of a resample: sample by sample, or cell by cell."""
    n = sum(counts)
    if n <= _SPARSE * len(counts):
        cells = [cell for cell, count in enumerate(counts) for _ in range(count)]
        return lambda: _draw_samples(cells, len(counts), random.random)
    rest = list(accumulate(reversed(counts)))[::-1]
    shares = [count / left if left else 0.0 for count, left in zip(counts, rest, strict=True)]
    return lambda: _draw_cells(n, shares, random.random)


def _draw_samples(cells: Sequence[int], size: int, random: Callable[[], float]) -> list[int]:
    drawn, n = [0] * size, len(cells)
    for _ in range(n):
        drawn[cells[int(random() * n)]] += 1
    return drawn


def _draw_cells(n: int, shares: Sequence[float], random: Callable[[], float]) -> list[int]:
    """Return multinomial counts; `shares` are those of each cell among itself and the cells after it."""
    drawn = []
    for share in shares:
        count = draw_binomial(n, share, random) if n else 0
        drawn.append(count)
        n -= count
    return drawn


def draw_binomial(n: int, share: float, random: Callable[[], float]) -> int:
    """Return how many of `n` independent trials succeed."""
    if share > _MEDIAN:
        return n - draw_binomial(n, 1 - share, random)
    if share <= 0:
        return 0
    return _wait(n, share, random) if n * share < _FEW_EXPECTED else _reject(n, share, random)


def _wait(n: int, share: float, random: Callable[[], float]) -> int:
    """Return a binomial count by drawing how long each success is waited for."""
    scale, place, count = 1 / math.log1p(-share), 0, 0
    while True:
        place += int(math.log(1 - random()) * scale) + 1
        if place > n:
            return count
        count += 1


def _reject(n: int, share: float, random: Callable[[], float]) -> int:
    """Return a binomial count by transformed rejection with squeeze (Hörmann 1993, algorithm BTRS)."""
    spread = math.sqrt(n * share * (1 - share))
    width = 1.15 + 2.53 * spread
    skew = -0.0873 + 0.0248 * width + 0.01 * share
    centre, inside = n * share + 0.5, 0.92 - 4.2 / width
    while True:
        aside = random() - 0.5
        reach = 0.5 - abs(aside)
        height = 1 - random()
        count = math.floor((2 * skew / reach + width) * aside + centre) if reach else -1
        if not 0 <= count <= n:
            continue
        if reach >= 0.07 and height <= inside:  # noqa: PLR2004 - the constants of the algorithm
            return count
        scaled = height * (2.83 + 5.1 / width) * spread / (skew / (reach * reach) + width)
        if math.log(scaled) <= _compare_with_mode(count, n, share):
            return count


def _compare_with_mode(count: int, n: int, share: float) -> float:
    """Return the logarithm of a count's probability over that of the most probable count."""
    mode = math.floor((n + 1) * share)
    ways = math.lgamma(mode + 1) + math.lgamma(n - mode + 1)
    ways -= math.lgamma(count + 1) + math.lgamma(n - count + 1)
    return ways + (count - mode) * math.log(share / (1 - share))
