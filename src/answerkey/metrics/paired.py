"""Two runs on the same samples: the mean difference, how sure it is, and whether chance explains
it.

Below: how many samples a comparison needs, and what it can show with those there are (Miller 2024).
A sample's difference of two models varies by the sample (`between`, ω²), and by chance each time a
model is asked (`first` and `second`, σ²), which asking several times averages out. The plan is for
a two-sided test of the mean difference, which is normal for as many samples as evaluations have.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from answerkey.metrics.intervals import (
    CLUSTERED_STUDENT,
    NEWCOMBE,
    NORMAL,
    STUDENT,
    Interval,
    Margin,
    Ratio,
    binomial_cdf,
    measure_clustered_error,
    student,
    student_tails,
    wilson,
)
from answerkey.metrics.measure import FEWEST_CLUSTERS

#: With fewer samples on which the runs differ, mean ± t · error misses too often.
FEWEST_FLIPS = 10

#: Which test a p-value is of.
EXACT_TEST, PAIRED_TEST, CLUSTERED_TEST = "mcnemar_exact", "paired_t", "clustered_t"

#: A value of the first run, of the second, and how many samples have both.
Pair = tuple[float, float, int]


@dataclass(frozen=True)
class Flips:
    """How many samples both runs have right, only one of them, or neither.

    For values that are 0 or 1.
    """

    both: int
    first_only: int
    second_only: int
    neither: int

    @property
    def n(self) -> int:
        """How many samples there are."""
        return self.both + self.first_only + self.second_only + self.neither


@dataclass(frozen=True)
class Evidence(Margin):
    """How sure a difference is.

    `p` is the chance of one as large if there were none, by `p_method`.
    """

    p: float | None = None
    p_method: str | None = None
    clusters: int | None = None


@dataclass(frozen=True)
class Difference:
    """The mean of first minus second over the same samples.

    `flips`, `p_exact` and `p_mid` (McNemar's tests) only where all values are 0 or 1.
    """

    n: int
    first: float
    second: float
    value: float
    evidence: Evidence
    flips: Flips | None = None
    p_exact: float | None = None
    p_mid: float | None = None


def measure_difference(
    pairs: Sequence[Pair],
    clusters: Mapping[str, Sequence[Pair]] | None = None,
) -> Difference:
    """Return the difference over one or more pairs of finite values.

    `clusters` are the same pairs by cluster; the test and the interval then allow for them.
    """
    differences = _sum_differences(pairs)
    n = differences.n
    first = Fraction()
    for left, _, count in pairs:
        first += count * Fraction(left)
    second = first - differences.top
    value = differences.value
    flips = _count_flips(pairs)
    p_exact = p_mid = None
    if flips is not None:
        p_exact, p_mid = mcnemar(flips)
    if clusters is not None:
        ratios = [[_sum_differences(cluster)] for cluster in clusters.values()]
        error, _ = measure_clustered_error(ratios)
        evidence = _weigh_clusters(value, error, len(clusters))
    elif flips is not None:
        evidence = _weigh_flips(value, differences.std_error, flips, p_exact)
    else:
        evidence = _weigh_samples(value, differences.std_error, n)
    return Difference(
        n,
        float(first / n),
        float(second / n),
        value,
        evidence,
        flips,
        p_exact,
        p_mid,
    )


def _count_flips(pairs: Sequence[Pair]) -> Flips | None:
    """Return the flips of values that are 0 or 1; None where some are not."""
    counts: Counter[tuple[float, float]] = Counter()
    for left, right, count in pairs:
        if left not in {0, 1} or right not in {0, 1}:
            return None
        counts[left, right] += count
    return Flips(
        both=counts[1, 1],
        first_only=counts[1, 0],
        second_only=counts[0, 1],
        neither=counts[0, 0],
    )


def _weigh_clusters(
    value: float,
    error: float | None,
    clusters: int,
) -> Evidence:
    """Return how sure a difference over clusters is."""
    if clusters < FEWEST_CLUSTERS:
        note = f"it needs {FEWEST_CLUSTERS} clusters, there are {clusters}"
        return Evidence(error, interval_note=note, clusters=clusters)
    evidence = _weigh_samples(value, error, clusters, noun=f"{clusters} clusters")
    if evidence.interval is None:
        return replace(evidence, clusters=clusters)
    return replace(
        evidence,
        interval_method=CLUSTERED_STUDENT,
        p_method=CLUSTERED_TEST,
        clusters=clusters,
    )


def _weigh_flips(
    value: float,
    error: float | None,
    flips: Flips,
    p_exact: float | None,
) -> Evidence:
    """Return how sure a difference of right answers is."""
    if flips.first_only + flips.second_only < FEWEST_FLIPS:
        method = NEWCOMBE
        interval = bound_flips(flips)
    else:
        method = STUDENT
        error = error or 0.0
        interval = student(value, error, flips.n - 1)
    return Evidence(
        error,
        interval,
        method,
        p=p_exact,
        p_method=EXACT_TEST,
    )


def _weigh_samples(
    value: float,
    error: float | None,
    n: int,
    *,
    noun: str = "samples",
) -> Evidence:
    """Return how sure a difference over independent samples is."""
    if not error:
        note = "there is one sample" if n == 1 else f"all {noun} differ alike"
        return Evidence(error, interval_note=note)
    p = student_tails(value / error, n - 1)
    interval = student(value, error, n - 1)
    return Evidence(
        error,
        interval,
        STUDENT,
        p=p,
        p_method=PAIRED_TEST,
    )


def _sum_differences(pairs: Iterable[Pair]) -> Ratio:
    differences = Ratio()
    for left, right, count in pairs:
        differences.add(Fraction(left) - Fraction(right), 1, count)
    return differences


def mcnemar(flips: Flips) -> tuple[float, float]:
    """Return the p-values of McNemar's exact test and of its mid-p form, both two-sided."""
    tosses = flips.first_only + flips.second_only
    heads = min(flips.first_only, flips.second_only)
    if flips.first_only == flips.second_only:
        return 1.0, 1.0
    tail = binomial_cdf(heads, tosses)
    shorter_tail = binomial_cdf(heads - 1, tosses)
    return min(1.0, 2 * tail), tail + shorter_tail


def bound_flips(flips: Flips) -> Interval:
    """Return the 95 % interval of a difference of paired shares, for any number of flips.

    Newcombe's (1998, method 10): the distances from the shares to the ends of their Wilson
    intervals, with the correlation of the pairs.
    """
    n = flips.n
    first = flips.both + flips.first_only
    second = flips.both + flips.second_only
    value = first / n - second / n
    low, high = wilson(first, n)
    second_low, second_high = wilson(second, n)
    first_below = first / n - low
    first_above = high - first / n
    second_below = second / n - second_low
    second_above = second_high - second / n
    # The correlation of right answers, drawn towards 0 by half a sample where it is positive.
    tie = 0.0
    spread = first * (n - first) * second * (n - second)
    if spread:
        product: float = flips.both * flips.neither - flips.first_only * flips.second_only
        if product > 0:
            product = max(0.0, product - n / 2)
        tie = product / math.sqrt(spread)
    below = first_below**2 - 2 * tie * first_below * second_above + second_above**2
    above = first_above**2 - 2 * tie * first_above * second_below + second_below**2
    reach_below = math.sqrt(max(0.0, below))
    reach_above = math.sqrt(max(0.0, above))
    return value - reach_below, value + reach_above


def adjust_by_holm(chances: Sequence[float | None]) -> list[float | None]:
    """Return p-values corrected for their number by Holm's step-down method; None stays None."""
    ordered = []
    for place, p in enumerate(chances):
        if p is not None:
            ordered.append((p, place))
    ordered.sort()
    adjusted: list[float | None] = [None] * len(chances)
    largest = 0.0
    for rank, (p, place) in enumerate(ordered):
        product = (len(ordered) - rank) * p
        largest = max(largest, min(1.0, product))
        adjusted[place] = largest
    return adjusted


# Planning a comparison


@dataclass(frozen=True)
class Aim:
    """How sure a test is to be: `alpha` of calling chance a difference, `power` of seeing one."""

    alpha: float = 0.05
    power: float = 0.8

    @property
    def reach(self) -> float:
        """How many standard errors a difference must have."""
        critical = NORMAL.inv_cdf(1 - self.alpha / 2)
        return critical + NORMAL.inv_cdf(self.power)


def count_samples(variance: float, difference: float, aim: Aim) -> int:
    """Return how many samples it takes to see a difference; at least one."""
    samples = (aim.reach / difference) ** 2 * variance
    return max(1, math.ceil(samples))


def find_smallest(variance: float, samples: int, aim: Aim) -> float:
    """Return the smallest difference that so many samples show."""
    return aim.reach * math.sqrt(variance / samples)


def measure_power(
    variance: float,
    samples: int,
    difference: float,
    alpha: float,
) -> float:
    """Return how often so many samples show a difference that is there."""
    if not variance:
        return 1.0
    errors = difference / math.sqrt(variance / samples)
    critical = NORMAL.inv_cdf(1 - alpha / 2)
    return NORMAL.cdf(errors - critical) + NORMAL.cdf(-errors - critical)
