"""Uncertainty: standard errors, and 95 % intervals with a formula for each kind of number.

This module has the distributions that intervals and tests need: scipy has them all, but is larger
than all other dependencies together; the tests compare with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

from answerkey.types import MetricValue

#: A number for exact arithmetic: every finite float is a fraction, and a sum of fractions is the
#: same in any order.
Exact = int | Fraction
Interval = tuple[float, float]
#: A share of 0/1 outcomes: the number of ones, and of outcomes.
Counts = tuple[int, int]
#: The smallest and the largest possible value.
Scale = tuple[float, float]

#: The methods of intervals, as given in `interval_method`.
WILSON, STUDENT = "wilson", "student_t"
CLUSTERED_WILSON, CLUSTERED_STUDENT = "clustered_wilson", "clustered_t"
RATIO_WILSON, RATIO_STUDENT = "ratio_wilson", "ratio_t"
STRATIFIED, MOVER, NEWCOMBE = "stratified", "mover", "newcombe"

TOO_LARGE_SPREAD = "the spread is too large for a float"
ONE_SAMPLE = "there is only one sample, and a spread needs two"
ALL_ALIKE = "all samples are alike, which says nothing about the spread"
SINGLE = "a part with one sample says nothing about its spread"
NO_SPREAD = "no part shows any spread"

NORMAL = NormalDist()
#: The 97.5 % point of the standard normal distribution.
Z_95 = 1.959963984540054
_UPPER = 0.975

#: Up to this many tosses, a binomial tail is summed in whole numbers.
_EXACT_TOSSES = 5_000
#: From here on, the expansion of the t quantile in powers of 1/df is exact to the last digits of a
#: float.
_MANY_DEGREES = 1_000
_TINY = 1e-300
_PRECISION = 1e-16
_MAX_STEPS = 100_000


# Distributions


def beta_share(first: float, second: float, point: float) -> float:
    """Return the regularised incomplete beta function I_point(first, second)."""
    if point <= 0:
        return 0.0
    if point >= 1:
        return 1.0
    logarithm = (
        math.lgamma(first + second)
        - math.lgamma(first)
        - math.lgamma(second)
        + first * math.log(point)
        + second * math.log1p(-point)
    )
    scale = math.exp(logarithm)
    # The fraction converges fast on this side of the mean; the other side is its mirror image.
    if point < (first + 1) / (first + second + 2):
        return scale * _continue_fraction(first, second, point) / first
    mirrored = _continue_fraction(second, first, 1 - point)
    return 1 - scale * mirrored / second


def _continue_fraction(first: float, second: float, point: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""

    def keep_from_zero(number: float) -> float:
        return number if abs(number) > _TINY else _TINY

    top = 1.0
    start = (first + second) * point / (first + 1)
    bottom = 1 / keep_from_zero(1 - start)
    fraction = bottom
    for step in range(1, _MAX_STEPS):
        middle = first + 2 * step
        even = step * (second - step) * point
        even /= (middle - 1) * middle
        odd = -(first + step) * (first + second + step) * point
        odd /= middle * (middle + 1)
        change = 1.0
        for term in (even, odd):
            bottom = 1 / keep_from_zero(1 + term * bottom)
            top = keep_from_zero(1 + term / top)
            change = top * bottom
            fraction *= change
        if abs(change - 1) <= _PRECISION:
            break
    return fraction


def student_tails(point: float, df: int) -> float:
    """Return the probability that Student's t with `df` degrees is further from 0 than `point`."""
    return beta_share(
        df / 2,
        0.5,
        df / (df + point * point),
    )


@cache
def student_quantile(share: float, df: int) -> float:
    """Return the quantile of Student's t with `df` degrees for a probability of 0.5 or more."""
    if df >= _MANY_DEGREES:
        return _expand_quantile(share, df)
    tails = 2 * (1 - share)
    low = 0.0
    high = 2.0
    while student_tails(high, df) > tails:
        low = high
        high *= 2
    while True:
        middle = (low + high) / 2
        if middle in {low, high}:
            return middle
        if student_tails(middle, df) > tails:
            low = middle
        else:
            high = middle


def _expand_quantile(share: float, df: int) -> float:
    """Return the quantile for many degrees of freedom.

    It is expanded from the normal quantile in powers of 1/df (Abramowitz and Stegun 26.7.5).
    """
    point = NORMAL.inv_cdf(share)
    square = point * point
    polynomials = (
        ((1, 1), 4),
        ((5, 16, 3), 96),
        ((3, 19, 17, -15), 384),
        ((79, 776, 1482, -1920, -945), 92160),
    )
    corrections = []
    for power, (coefficients, divisor) in enumerate(polynomials, start=1):
        term = 0.0
        for coefficient in coefficients:
            term = term * square + coefficient
        term /= divisor
        corrections.append(point * term / float(df**power))
    return point + math.fsum(corrections)


def binomial_cdf(heads: int, tosses: int) -> float:
    """Return the probability of at most `heads` heads in `tosses` of a fair coin."""
    if heads < 0:
        return 0.0
    if tosses > _EXACT_TOSSES:
        return beta_share(tosses - heads, heads + 1, 0.5)
    term = total = 1
    for count in range(heads):
        term = term * (tosses - count) // (count + 1)
        total += term
    return total / (1 << tosses)


def chi_square_tail(point: float, df: int) -> float:
    """Return the probability that a chi-square variable with `df` degrees is larger than
    `point`.
    """
    half = point / 2
    if half <= 0:
        return 1.0
    # Q(a + 1, x) = Q(a, x) + x^a e^-x / Γ(a + 1), from Q(1/2, x) or Q(1, x).
    shape = 1.0
    terms = [math.exp(-half)]
    if df % 2:
        shape = 0.5
        terms = [math.erfc(math.sqrt(half))]
    for _ in range((df - 1) // 2):
        logarithm = shape * math.log(half) - half - math.lgamma(shape + 1)
        terms.append(math.exp(logarithm))
        shape += 1
    return min(1.0, math.fsum(terms))


class ChiSquare(NamedTuple):
    """A chi-square statistic, its degrees of freedom, and its p-value."""

    statistic: float
    df: int
    p: float


#: The observed counts of some cells, and the expected ones.
CellCounts = tuple[Sequence[int], Sequence[float]]


def compare_counts(groups: Iterable[CellCounts]) -> ChiSquare | None:
    """Return Pearson's test of observed against expected counts in groups; None without degrees of
    freedom.

    A group has one degree of freedom less than cells; its expected counts are positive and add up
    to its observed ones.
    """
    statistic = 0.0
    df = 0
    for observed, expected in groups:
        squares = []
        for count, mean in zip(observed, expected, strict=True):
            squares.append((count - mean) ** 2 / mean)
        statistic += math.fsum(squares)
        df += len(observed) - 1
    if df <= 0:
        return None
    return ChiSquare(statistic, df, chi_square_tail(statistic, df))


# Intervals


def wilson(successes: int, n: int) -> Interval:
    """Return the 95 % Wilson score interval of a share of `n` ≥ 1.

    It ends exactly at 0 for no successes, and at 1 for only successes.
    """
    if not 0 <= successes <= n or n == 0:
        message = f"no share: {successes} of {n}"
        raise ValueError(message)
    share = successes / n
    z_squared = Z_95 * Z_95
    variance = share * (1 - share) / n
    spread = Z_95 * math.sqrt(variance + z_squared / (4 * n * n))
    scale = 1 + z_squared / n
    centre = share + z_squared / (2 * n)
    low = 0.0
    high = 1.0
    if successes > 0:
        low = max(0.0, (centre - spread) / scale)
    if successes < n:
        high = min(1.0, (centre + spread) / scale)
    return low, high


def student(
    value: float,
    std_error: float,
    df: int,
    *,
    is_share: bool = False,
) -> Interval:
    """Return value ± t · standard error with `df` ≥ 1 degrees of freedom.

    A share is clipped to [0, 1].
    """
    reach = student_quantile(_UPPER, df) * std_error
    low = value - reach
    high = value + reach
    if is_share:
        return max(0.0, low), min(1.0, high)
    return low, high


def score_interval(share: float, std_error: float, df: int) -> Interval:
    """Return the interval of a share whose standard error is not that of independent outcomes.

    It is Wilson's interval, with n replaced by the number of samples that would have this standard
    error, and z by t (Dean and Pagano 2015). It stays within [0, 1] and has better coverage near
    the ends than share ± t · error.
    """
    t_squared = student_quantile(_UPPER, df) ** 2
    ratio = t_squared * std_error * std_error / (share * (1 - share))  # t² over the effective n
    spread = math.sqrt(ratio * share * (1 - share) + ratio * ratio / 4)
    centre = share + ratio / 2
    scale = 1 + ratio
    low = (centre - spread) / scale
    high = (centre + spread) / scale
    return max(0.0, low), min(1.0, high)


def mover(parts: Iterable[tuple[float, Interval]]) -> Interval:
    """Return the interval of the mean of independent values, each with its own interval.

    This is the method of variance estimates recovery (Zou, Huang and Zhang 2009): the squared
    distances to the lower ends are added, and so are those to the upper ends. With Wilson intervals
    it stays within [0, 1] and needs no spread within a part.
    """
    values = []
    below = []
    above = []
    for value, (low, high) in parts:
        values.append(value)
        below.append((value - low) ** 2)
        above.append((high - value) ** 2)
    size = len(values)
    mean = math.fsum(values) / size
    reach_below = math.sqrt(math.fsum(below)) / size
    reach_above = math.sqrt(math.fsum(above)) / size
    return mean - reach_below, mean + reach_above


# Exact numbers, rounded once


def average(numbers: Sequence[float]) -> float:
    """Return the mean of at least one finite number."""
    total = sum(map(Fraction, numbers), Fraction())
    return float(total / len(numbers))


def root(square: Exact) -> float | None:
    """Return the square root, or None if no float is that large."""
    top, bottom = square.as_integer_ratio()
    quotient = Decimal(top) / Decimal(bottom)
    number = float(quotient.sqrt())
    return number if math.isfinite(number) else None


# Ratios of sums


@dataclass
class Ratio:
    """A ratio of sums, like most metrics: a mean is Σx / Σ1, precision is ΣTP / Σ(TP + FP).

    It is the ratio of `n` samples, with the sums of their squares and products. `several` counts
    samples that are more than a single 0/1 outcome. The residual of a sample, or of a cluster, is
    its deviation from the whole, `top - R · bottom`; the spread of the residuals is the spread of
    R.
    """

    top: Exact = 0
    bottom: Exact = 0
    n: int = 0
    top_squares: Exact = 0
    products: Exact = 0
    bottom_squares: Exact = 0
    several: int = 0

    def add(
        self,
        top: Exact,
        bottom: Exact,
        rows: int = 1,
    ) -> None:
        """Add a number of identical samples."""
        self.n += rows
        self.top += rows * top
        self.bottom += rows * bottom
        self.top_squares += rows * top**2
        self.products += rows * top * bottom
        self.bottom_squares += rows * bottom**2

    @property
    def share(self) -> Counts:
        """The sums of 0/1 outcomes: the number of ones, and of outcomes."""
        return int(self.top), int(self.bottom)

    @property
    def value(self) -> float:
        """The ratio; `bottom` must not be 0."""
        return float(Fraction(self.top) / self.bottom)

    @property
    def std_dev(self) -> float | None:
        """The sample standard deviation of the tops; None for fewer than two, or if too large."""
        if self.n <= 1:
            return None
        squares = Fraction(self.n * self.top_squares - self.top**2)
        return root(squares / (self.n * (self.n - 1)))

    @property
    def std_error(self) -> float | None:
        """The standard error over independent samples; None for fewer than two.

        √(n/(n-1) · Σ(top - R · bottom)²) / Σ bottom. For a mean it is the sample standard deviation
        over √n.
        """
        if self.n <= 1 or not self.bottom:
            return None
        ratio = Fraction(self.top) / self.bottom
        residuals = self.top_squares - 2 * ratio * self.products
        residuals += ratio**2 * self.bottom_squares
        freedom = (self.n - 1) * self.bottom**2
        return root(self.n * residuals / freedom)


def measure_clustered_error(
    clusters: Sequence[Sequence[Ratio]],
) -> tuple[float | None, int]:
    """Return the standard error of the mean of one or more ratios over the same clusters, and the
    number of clusters.

    Each cluster is given by its sums for every ratio. Its residual is the sum of its residuals in
    the ratios: (top - R · bottom) / Σ bottom. The error is √(C/(C-1) · Σ residual²) over the number
    of ratios; None for fewer than two clusters.
    """
    size = len(clusters)
    columns = list(zip(*clusters, strict=True))
    tops = [sum(ratio.top for ratio in column) for column in columns]
    bottoms = [sum(ratio.bottom for ratio in column) for column in columns]
    if size <= 1 or not all(bottoms):
        return None, size
    residuals = []
    for ratios in clusters:
        residual = Fraction()
        for ratio, top, bottom in zip(ratios, tops, bottoms, strict=True):
            distance = ratio.top * bottom - top * ratio.bottom
            residual += Fraction(distance) / bottom**2
        residuals.append(residual)
    try:
        length = math.hypot(*residuals)
    except OverflowError:
        return None, size
    correction = math.sqrt(size / (size - 1))
    error = correction * length / len(columns)
    return error if math.isfinite(error) else None, size


# Margins: the standard error, interval and method of one value


@dataclass(frozen=True)
class Margin:
    """The uncertainty of a value: its standard error, and its interval or the reason why it has
    none.

    The fields are those of `MetricValue`; `is_share`: the value is always between 0 and 1.
    """

    std_error: float | None = None
    interval: Interval | None = None
    interval_method: str | None = None
    interval_note: str | None = None
    is_share: bool = False


def bound_value(
    value: float,
    std_error: float | None,
    df: int,
    method: str,
    *,
    score_method: str | None = None,
    is_share: bool = False,
) -> Margin:
    """Return the margin by Student's t, without an interval if its ends are too large for a float.

    With `score_method`, a share that is neither 0 nor 1 gets the score interval.
    """
    note = TOO_LARGE_SPREAD
    if not std_error:
        if df == 0:
            note = ONE_SAMPLE
        elif std_error is not None:
            note = ALL_ALIKE
        return Margin(std_error, interval_note=note, is_share=is_share)
    if score_method and is_share and 0 < value < 1:
        method = score_method
        interval = score_interval(value, std_error, df)
    else:
        interval = student(value, std_error, df, is_share=is_share)
    if not all(map(math.isfinite, interval)):
        return Margin(std_error, interval_note=note, is_share=is_share)
    return Margin(std_error, interval, method, is_share=is_share)


def measure_share(count: int, of: int) -> Margin:
    """Return the margin of a share of at least one 0/1 outcome: the Wilson interval, for any
    size.
    """
    error = None
    if of > 1:
        variance = Fraction(count * (of - count), of**2 * (of - 1))
        error = root(variance)
    interval = wilson(count, of)
    return Margin(error, interval, WILSON, is_share=True)


def measure_f1(hits: int, misses: int) -> Margin:
    """Return the margin of F1 = 2 TP / (2 TP + FP + FN) of at least one sample; `misses` are FP +
    FN.

    Among hits, false alarms and misses, the hits are a share J with a Wilson interval, and F1 is 2
    J / (1 + J), which grows with J.
    """
    size = hits + misses
    # J = hits / size has the variance J (1 - J) / (size - 1), and F1 = 2 J / (1 + J) the slope 2 /
    # (1 + J)².
    error = None
    if size > 1:
        top = 4 * size**2 * hits * misses
        bottom = (size - 1) * (size + hits) ** 4
        error = root(Fraction(top, bottom))
    low, high = wilson(hits, size)
    interval = (2 * low / (1 + low), 2 * high / (1 + high))
    return Margin(error, interval, WILSON, is_share=True)


def average_shares(shares: Sequence[Counts]) -> Margin:
    """Return the margin of the mean of independent shares, each of at least two 0/1 outcomes.

    A share of 0 or 1 shows no spread, which is as often chance as truth: it gets the spread of the
    Jeffreys posterior.
    """
    if any(of <= 1 for _, of in shares):
        return Margin(interval_note=SINGLE, is_share=True)
    if not shares:
        return Margin()
    spreads = []
    for count, of in shares:
        spread = (count + 0.5) * (of - count + 0.5)
        spread /= (of + 1) ** 2 * (of + 2)
        if 0 < count < of:
            spread = count * (of - count) / (of * of * (of - 1))
        spreads.append((spread, of - 1))
    mean = average([count / of for count, of in shares])
    margin = _add_spreads(mean, spreads, is_share=True)
    if mean in {0.0, 1.0}:
        parts = [(count / of, wilson(count, of)) for count, of in shares]
        return replace(margin, interval=mover(parts), interval_method=MOVER)
    return margin


def average_counts(counts: Sequence[Counts]) -> tuple[float, Interval | None]:
    """Return the mean of shares, and its interval if there is one."""
    total = math.fsum(count / of for count, of in counts)
    margin = average_shares(counts)
    return total / len(counts), margin.interval


def average_errors(values: Sequence[MetricValue]) -> Margin:
    """Return the margin of the mean of independent values, from their own standard errors."""
    is_share = all(value.is_share for value in values)
    errors = [value.std_error for value in values if value.std_error is not None]
    missing = len(values) - len(errors)
    if missing:
        note = f"{missing} of {len(values)} have no standard error"
        return Margin(interval_note=note, is_share=is_share)
    largest = max(errors)
    if not largest:
        return Margin(largest, interval_note=NO_SPREAD, is_share=is_share)
    spreads = []
    for value, error in zip(values, errors, strict=True):
        # A standard error has one degree of freedom less than clusters, or samples.
        size = int(str(value.details.get("clusters", value.n)))
        df = max(1, size - 1)
        # After division by the largest, no square is too large for a float.
        spread = (error / largest) ** 2
        spreads.append((spread, df))
    mean = average([float(value.value or 0) for value in values])
    return _add_spreads(mean, spreads, is_share=is_share, unit=largest)


def _add_spreads(
    mean: float,
    spreads: Sequence[tuple[float, int]],
    *,
    is_share: bool,
    unit: float = 1.0,
) -> Margin:
    """Return the margin of the mean of independent values, from their squared standard errors.

    Each comes with its degrees of freedom; those of the sum follow Satterthwaite.
    """
    total = math.fsum(spread for spread, _ in spreads)
    error = unit * math.sqrt(total) / len(spreads)
    squares = math.fsum(spread**2 / df for spread, df in spreads)
    return bound_value(
        mean,
        error,
        max(1, int(total**2 / squares)),
        STRATIFIED,
        score_method=STRATIFIED,
        is_share=is_share,
    )
