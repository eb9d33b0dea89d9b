"""How sure a number is: its 95 % interval, by a formula for each kind of number."""

from __future__ import annotations

import math
from collections.abc import Iterable

from answerkey.metrics.distributions import Z_95, student_quantile

Interval = tuple[float, float]
#: The least and the greatest number that a value can be.
Scale = tuple[float, float]

#: How an interval was made, as `interval_method` says it.
WILSON, STUDENT, BCA = "wilson", "student_t", "bca"
CLUSTERED_WILSON, CLUSTERED_STUDENT = "clustered_wilson", "clustered_t"
RATIO_WILSON, RATIO_STUDENT = "ratio_wilson", "ratio_t"
STRATIFIED, MOVER, NEWCOMBE = "stratified", "mover", "newcombe"

_UPPER = 0.975


def wilson(successes: int, n: int) -> Interval:
    """Return the 95 % Wilson score interval of a share of `n` ≥ 1; none ends exactly at 0, all at 1."""
    if not 0 <= successes <= n or n == 0:
        message = f"no share: {successes} of {n}"
        raise ValueError(message)
    share, z_squared = successes / n, Z_95 * Z_95
    spread = Z_95 * math.sqrt(share * (1 - share) / n + z_squared / (4 * n * n))
    scale = 1 + z_squared / n
    centre = share + z_squared / (2 * n)
    low = 0.0 if successes == 0 else max(0.0, (centre - spread) / scale)
    high = 1.0 if successes == n else min(1.0, (centre + spread) / scale)
    return low, high


def wilson_f1(hits: int, others: int) -> Interval:
    """Return the 95 % interval of F1 = 2 TP / (2 TP + FP + FN); `others` are FP + FN.

    Among the samples that are a hit, a false alarm or a miss, the hits are a share J with a Wilson interval,
    and F1 is 2 J / (1 + J), which grows with J.
    """
    low, high = wilson(hits, hits + others)
    return 2 * low / (1 + low), 2 * high / (1 + high)


def student(value: float, std_error: float, df: int, *, is_share: bool = False) -> Interval:
    """Return value ± t · standard error with `df` ≥ 1 degrees of freedom; a share is kept within [0, 1]."""
    reach = student_quantile(_UPPER, df) * std_error
    low, high = value - reach, value + reach
    return (max(0.0, low), min(1.0, high)) if is_share else (low, high)


def score_interval(share: float, std_error: float, df: int) -> Interval:
    """Return the interval of a share whose standard error is not that of independent outcomes.

    Wilson's, with the number of samples that would have this standard error in place of n, and t in place of
    z (Dean and Pagano 2015). It stays within [0, 1] and holds better near the ends than share ± t · error.
    """
    t_squared = student_quantile(_UPPER, df) ** 2
    ratio = t_squared * std_error * std_error / (share * (1 - share))  # t² over the effective n
    spread = math.sqrt(ratio * share * (1 - share) + ratio * ratio / 4)
    centre, scale = share + ratio / 2, 1 + ratio
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def mover(parts: Iterable[tuple[float, Interval]]) -> Interval:
    """Return the interval of the mean of independent values, each with its own interval.

    The method of variance estimates recovery (Zou, Huang and Zhang 2009): distances to the lower ends are
    added as squares, and so are those to the upper ends. With Wilson intervals it stays within [0, 1] and
    needs no spread within a part.
    """
    found = list(parts)
    size = len(found)
    mean = math.fsum(value for value, _ in found) / size
    below = math.fsum((value - low) ** 2 for value, (low, _) in found)
    above = math.fsum((high - value) ** 2 for value, (_, high) in found)
    return mean - math.sqrt(below) / size, mean + math.sqrt(above) / size
