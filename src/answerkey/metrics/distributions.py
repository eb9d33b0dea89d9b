"""Normal, Student's t and binomial distributions, as far as intervals and tests need them.

scipy has all of them and weighs more than everything else together; the tests compare with it.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

_NORMAL = NormalDist()

#: The 97.5 % point of the standard normal distribution.
Z_95 = 1.959963984540054

#: Up to so many tosses a binomial tail is summed in whole numbers.
_EXACT_TOSSES = 5_000

#: From here on the expansion of the t quantile in powers of 1/df is exact to the last digits of a float.
_MANY_DEGREES = 1_000

_TINY = 1e-300
_PRECISION = 1e-16
_MOST_STEPS = 100_000


def normal_quantile(share: float) -> float:
    """Return the point below which a standard normal variable lies with this probability."""
    return _NORMAL.inv_cdf(share)


def normal_cdf(point: float) -> float:
    """Return the probability that a standard normal variable lies below a point."""
    return _NORMAL.cdf(point)


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
    # The fraction converges fast on this side of the mean; the other side is its mirror image.
    if point < (first + 1) / (first + second + 2):
        return math.exp(logarithm) * _continue_fraction(first, second, point) / first
    return 1 - math.exp(logarithm) * _continue_fraction(second, first, 1 - point) / second


def _continue_fraction(first: float, second: float, point: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    top = 1.0
    bottom = 1 / _away_from_zero(1 - (first + second) * point / (first + 1))
    fraction = bottom
    for step in range(1, _MOST_STEPS):
        even = step * (second - step) * point / ((first + 2 * step - 1) * (first + 2 * step))
        odd = -(first + step) * (first + second + step) * point
        odd /= (first + 2 * step) * (first + 2 * step + 1)
        change = 1.0
        for term in (even, odd):
            bottom = 1 / _away_from_zero(1 + term * bottom)
            top = _away_from_zero(1 + term / top)
            change = top * bottom
            fraction *= change
        if abs(change - 1) <= _PRECISION:
            break
    return fraction


def _away_from_zero(number: float) -> float:
    return number if abs(number) > _TINY else _TINY


def student_tails(point: float, df: int) -> float:
    """Return the probability that Student's t with `df` degrees lies further from 0 than a point."""
    return beta_share(df / 2, 0.5, df / (df + point * point))


@cache
def student_quantile(share: float, df: int) -> float:
    """Return the point below which Student's t with `df` degrees lies with a probability of 0.5 or more."""
    start = _expand_quantile(normal_quantile(share), df)
    if df >= _MANY_DEGREES:
        return start
    tails = 2 * (1 - share)
    low, high = 0.0, max(2.0, 2 * start)
    while student_tails(high, df) > tails:
        low, high = high, 2 * high
    while True:
        middle = (low + high) / 2
        if middle in {low, high}:
            return middle
        if student_tails(middle, df) > tails:
            low = middle
        else:
            high = middle


def _expand_quantile(point: float, df: int) -> float:
    """Return the t quantile from the normal one, in powers of 1/df (Abramowitz and Stegun 26.7.5)."""
    square = point * point
    terms = (
        (square + 1) / 4,
        ((5 * square + 16) * square + 3) / 96,
        (((3 * square + 19) * square + 17) * square - 15) / 384,
        ((((79 * square + 776) * square + 1482) * square - 1920) * square - 945) / 92160,
    )
    return point + math.fsum(point * term / float(df**power) for power, term in enumerate(terms, 1))


def toss_tail(heads: int, tosses: int) -> float:
    """Return the probability of at most so many heads in tosses of a fair coin."""
    if tosses > _EXACT_TOSSES:
        return beta_share(tosses - heads, heads + 1, 0.5)
    term = total = 1
    for count in range(heads):
        term = term * (tosses - count) // (count + 1)
        total += term
    return total / (1 << tosses)


def toss_share(heads: int, tosses: int) -> float:
    """Return the probability of exactly so many heads in tosses of a fair coin."""
    if tosses <= _EXACT_TOSSES:
        return math.comb(tosses, heads) / (1 << tosses)
    ways = math.lgamma(tosses + 1) - math.lgamma(heads + 1) - math.lgamma(tosses - heads + 1)
    return math.exp(ways - tosses * math.log(2))
