"""Paired comparison of two runs: the mean difference on the same samples, its interval, and tests.

Also power analysis: how many samples a comparison needs, and the difference that given samples can
detect (Miller 2024). A sample's difference between two models varies with the sample (`between`,
ω²), and by chance with each call (`first` and `second`, σ²), which repeated calls average out. The
plan is for a two-sided test of the mean difference, which is approximately normal for the numbers
of samples in evaluations.
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
from answerkey.metrics.measure import MIN_CLUSTERS

#: With fewer samples on which the runs differ, the coverage of mean ± t · error is too low.
MIN_FLIPS = 10

#: The test behind a p-value.
EXACT_TEST, PAIRED_TEST, CLUSTERED_TEST = "mcnemar_exact", "paired_t", "clustered_t"

#: A value of the first run, a value of the second, and the number of samples with both.
Pair = tuple[float, float, int]


@dataclass(frozen=True)
class Flips:
    """The number of samples that both runs got right, only one of them, or neither. Values must be
    0 or 1.
    """

    both: int
    first_only: int
    second_only: int
    neither: int

    @property
    def n(self) -> int:
        """The number of samples."""
        return self.both + self.first_only + self.second_only + self.neither


@dataclass(frozen=True)
class Evidence(Margin):
    """The uncertainty of a difference.

    `p` is the p-value of the test `p_method`.
    """

    p: float | None = None
    p_method: str | None = None
    clusters: int | None = None


@dataclass(frozen=True)
class Difference:
    """The mean of first minus second over the same samples.

    `flips`, `p_exact` and `p_mid` (McNemar's tests) are set only if all values are 0 or 1.
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
        evidence = _test_clusters(value, error, len(clusters))
    elif flips is not None:
        evidence = _test_flips(value, differences.std_error, flips, p_exact)
    else:
        evidence = _test_samples(value, differences.std_error, n)
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
    """Return the flips of values that are all 0 or 1; None if some are not."""
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


def _test_clusters(
    value: float,
    error: float | None,
    clusters: int,
) -> Evidence:
    """Return the evidence for a difference over clusters."""
    if clusters < MIN_CLUSTERS:
        note = f"it needs {MIN_CLUSTERS} clusters, there are {clusters}"
        return Evidence(error, interval_note=note, clusters=clusters)
    evidence = _test_samples(value, error, clusters, noun=f"{clusters} clusters")
    if evidence.interval is None:
        return replace(evidence, clusters=clusters)
    return replace(
        evidence,
        interval_method=CLUSTERED_STUDENT,
        p_method=CLUSTERED_TEST,
        clusters=clusters,
    )


def _test_flips(
    value: float,
    error: float | None,
    flips: Flips,
    p_exact: float | None,
) -> Evidence:
    """Return the evidence for a difference of right answers."""
    if flips.first_only + flips.second_only < MIN_FLIPS:
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


def _test_samples(
    value: float,
    error: float | None,
    n: int,
    *,
    noun: str = "samples",
) -> Evidence:
    """Return the evidence for a difference over independent samples."""
    if not error:
        note = "there is only one sample" if n == 1 else f"all {noun} differ alike"
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

    It is Newcombe's (1998, method 10): from the distances of the shares to the ends of their Wilson
    intervals, and the correlation of the pairs.
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
    # The correlation of right answers, shrunk towards 0 by half a sample if it is positive.
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


def adjust_by_holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values corrected for their number by Holm's step-down method; None stays None."""
    ordered = []
    for place, p in enumerate(p_values):
        if p is not None:
            ordered.append((p, place))
    ordered.sort()
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(ordered):
        product = (len(ordered) - rank) * p
        largest = max(largest, min(1.0, product))
        adjusted[place] = largest
    return adjusted


# Planning a comparison


@dataclass(frozen=True)
class Aim:
    """The errors of a test: `alpha` is the risk of a false difference, `power` the chance to detect
    a true one.
    """

    alpha: float = 0.05
    power: float = 0.8

    @property
    def reach(self) -> float:
        """The number of standard errors that a difference must have."""
        critical = NORMAL.inv_cdf(1 - self.alpha / 2)
        return critical + NORMAL.inv_cdf(self.power)


def count_samples(variance: float, difference: float, aim: Aim) -> int:
    """Return the number of samples needed to detect a difference; at least one."""
    samples = (aim.reach / difference) ** 2 * variance
    return max(1, math.ceil(samples))


def smallest_difference(variance: float, samples: int, aim: Aim) -> float:
    """Return the smallest difference that this number of samples can detect."""
    return aim.reach * math.sqrt(variance / samples)


def measure_power(
    variance: float,
    samples: int,
    difference: float,
    alpha: float,
) -> float:
    """Return the probability that this number of samples detects a true difference."""
    if not variance:
        return 1.0
    errors = difference / math.sqrt(variance / samples)
    critical = NORMAL.inv_cdf(1 - alpha / 2)
    return NORMAL.cdf(errors - critical) + NORMAL.cdf(-errors - critical)
