"""Two runs on the same samples: the mean difference, how sure it is, and whether chance explains it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from answerkey.metrics.clusters import FEWEST_CLUSTERS
from answerkey.metrics.distributions import student_tails, toss_share, toss_tail
from answerkey.metrics.exact import UNIT_BITS, to_units
from answerkey.metrics.intervals import CLUSTERED_STUDENT, NEWCOMBE, STUDENT, Interval, student, wilson
from answerkey.metrics.ratios import Ratio, Squares, measure_clustered_error, measure_error

#: With fewer samples on which the runs differ, mean ± t · error misses too often.
FEWEST_FLIPS = 10

#: Which test a p-value is of.
EXACT_TEST, PAIRED_TEST, CLUSTERED_TEST = "mcnemar_exact", "paired_t", "clustered_t"

#: A value of the first run, of the second, and how many samples have both.
Pair = tuple[float, float, int]


@dataclass(frozen=True)
class Flips:
    """How many samples both runs have right, only one of them, or neither; for values that are 0 or 1."""

    both: int
    first_only: int
    second_only: int
    neither: int


@dataclass(frozen=True)
class Evidence:
    """How sure a difference is; `p` is the chance of one as large if there were none, by `p_method`."""

    std_error: float | None = None
    interval: Interval | None = None
    interval_method: str | None = None
    interval_note: str | None = None
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
    *,
    is_corrected: bool = True,
) -> Difference | None:
    """Return the difference over pairs of finite values; None without any.

    `clusters` are the same pairs by cluster; the test and the interval then allow for them.
    """
    sums = _add_up(pairs)
    if not sums.n:
        return None
    flips = count_flips(pairs)
    exact, mid = mcnemar(flips) if flips is not None else (None, None)
    if clusters is not None:
        evidence = _weigh_clusters(sums, [_add_up(one) for one in clusters.values()], is_corrected)
    elif flips is not None:
        evidence = _weigh_flips(sums, flips, exact)
    else:
        evidence = _weigh_samples(sums)
    size = sums.n << UNIT_BITS
    return Difference(
        n=sums.n,
        first=sums.first / size,
        second=sums.second / size,
        value=sums.value,
        evidence=evidence,
        flips=flips,
        p_exact=exact,
        p_mid=mid,
    )


@dataclass(frozen=True)
class _Sums:
    """Exact sums over pairs, in units of 2**-1074, and of squared differences, in units of 2**-2148."""

    n: int
    first: int
    second: int
    squares: int

    @property
    def ratio(self) -> Ratio:
        return Ratio(self.first - self.second, self.n << UNIT_BITS, self.n)

    @property
    def value(self) -> float:
        return (self.first - self.second) / (self.n << UNIT_BITS)

    @property
    def std_error(self) -> float | None:
        """The standard error over independent samples; None for fewer than two."""
        products = (self.first - self.second) << UNIT_BITS
        return measure_error(self.ratio, Squares(self.squares, products, self.n << 2 * UNIT_BITS))


def _add_up(pairs: Iterable[Pair]) -> _Sums:
    n = first = second = squares = 0
    for one, other, count in pairs:
        left, right = to_units(one), to_units(other)
        n += count
        first += count * left
        second += count * right
        squares += count * (left - right) ** 2
    return _Sums(n, first, second, squares)


def count_flips(pairs: Iterable[Pair]) -> Flips | None:
    """Return the four counts; None when a value is neither 0 nor 1."""
    counts = dict.fromkeys([(1, 1), (1, 0), (0, 1), (0, 0)], 0)
    for one, other, count in pairs:
        if one not in {0, 1} or other not in {0, 1}:
            return None
        counts[int(one), int(other)] += count
    return Flips(*counts.values())


def mcnemar(flips: Flips) -> tuple[float, float]:
    """Return the p-values of McNemar's exact test and of its mid-p form, both two-sided."""
    tosses = flips.first_only + flips.second_only
    heads = min(flips.first_only, flips.second_only)
    if flips.first_only == flips.second_only:
        return 1.0, 1.0
    exact = min(1.0, 2 * toss_tail(heads, tosses))
    return exact, exact - toss_share(heads, tosses)


def _weigh_flips(sums: _Sums, flips: Flips, exact: float | None) -> Evidence:
    """Return the evidence of right and wrong answers: the exact test, and an interval that fits its size."""
    if flips.first_only + flips.second_only < FEWEST_FLIPS:
        interval, method = bound_flips(flips), NEWCOMBE
        return Evidence(sums.std_error, interval, method, p=exact, p_method=EXACT_TEST)
    error = sums.std_error or 0.0
    interval = student(sums.value, error, sums.n - 1)
    return Evidence(error, interval, STUDENT, p=exact, p_method=EXACT_TEST)


def bound_flips(flips: Flips) -> Interval:
    """Return the 95 % interval of a difference of paired shares, for any number of flips.

    Newcombe's (1998, method 10): the distances from the shares to the ends of their Wilson intervals, with
    the correlation of the pairs.
    """
    n = flips.both + flips.first_only + flips.second_only + flips.neither
    first, second = flips.both + flips.first_only, flips.both + flips.second_only
    one, other = first / n, second / n
    (low, high), (other_low, other_high) = wilson(first, n), wilson(second, n)
    tie = _correlate(flips)
    below = (one - low) ** 2 - 2 * tie * (one - low) * (other_high - other) + (other_high - other) ** 2
    above = (high - one) ** 2 - 2 * tie * (high - one) * (other - other_low) + (other - other_low) ** 2
    value = one - other
    return value - math.sqrt(max(0.0, below)), value + math.sqrt(max(0.0, above))


def _correlate(flips: Flips) -> float:
    """Return the correlation of right answers, drawn towards 0 by half a sample where it is positive."""
    first, second = flips.both + flips.first_only, flips.both + flips.second_only
    n = first + flips.second_only + flips.neither
    spread = first * (n - first) * second * (n - second)
    if not spread:
        return 0.0
    product = flips.both * flips.neither - flips.first_only * flips.second_only
    return (max(0.0, product - n / 2) if product > 0 else product) / math.sqrt(spread)


def _weigh_samples(sums: _Sums) -> Evidence:
    """Return the evidence of values that are not all 0 or 1: Student's t over the samples' differences."""
    error = sums.std_error
    if not error:
        note = "there is one sample" if sums.n == 1 else "all samples differ alike"
        return Evidence(error, interval_note=note)
    return _weigh_error(sums.value, error, sums.n - 1, STUDENT)


def _weigh_clusters(sums: _Sums, clusters: Sequence[_Sums], is_corrected: bool) -> Evidence:  # noqa: FBT001 - inner
    size = len(clusters)
    error = measure_clustered_error([(one.ratio, 1) for one in clusters], is_corrected=is_corrected)
    if size < FEWEST_CLUSTERS or not error:
        alike = f"all {size} clusters differ alike"
        note = alike if size >= FEWEST_CLUSTERS else f"it needs {FEWEST_CLUSTERS} clusters, there are {size}"
        return Evidence(error, interval_note=note, clusters=size)
    return _weigh_error(sums.value, error, size - 1, CLUSTERED_STUDENT, clusters=size)


def _weigh_error(
    value: float, error: float, df: int, method: str, *, clusters: int | None = None
) -> Evidence:
    test = PAIRED_TEST if clusters is None else CLUSTERED_TEST
    p = student_tails(value / error, df)
    return Evidence(error, student(value, error, df), method, p=p, p_method=test, clusters=clusters)


def adjust_by_holm(chances: Sequence[float | None]) -> list[float | None]:
    """Return p-values corrected for their number by Holm's step-down method; None stays None."""
    known = sorted((p, place) for place, p in enumerate(chances) if p is not None)
    adjusted: list[float | None] = [None] * len(chances)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        adjusted[place] = largest
    return adjusted
