"""Pearson's chi-square test that counts are as expected."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_PRECISION = 1e-16
_TINY = 1e-300
_MOST_STEPS = 100_000


@dataclass(frozen=True)
class ChiSquare:
    """The statistic, its degrees of freedom, and how often chance alone would give as large a one."""

    statistic: float
    df: int
    p: float


def compare_counts(groups: Iterable[tuple[Sequence[int], Sequence[float]]]) -> ChiSquare | None:
    """Return the test of observed against expected counts in independent groups; None without any degree.

    Each group has one degree less than it has cells; its expected counts are positive and have its sum.
    """
    statistic, df = 0.0, 0
    for observed, expected in groups:
        statistic += math.fsum(
            (one - other) ** 2 / other for one, other in zip(observed, expected, strict=True)
        )
        df += len(observed) - 1
    return ChiSquare(statistic, df, chi_square_tail(statistic, df)) if df > 0 else None


def chi_square_tail(point: float, df: int) -> float:
    """Return the probability that a chi-square variable with `df` degrees is larger than a point."""
    return _gamma_tail(df / 2, point / 2)


def _gamma_tail(shape: float, point: float) -> float:
    """Return the regularised upper incomplete gamma function Q(shape, point)."""
    if point <= 0:
        return 1.0
    scale = math.exp(shape * math.log(point) - point - math.lgamma(shape))
    if point < shape + 1:
        return max(0.0, 1 - scale * _sum_series(shape, point))
    return scale * _continue_fraction(shape, point)


def _sum_series(shape: float, point: float) -> float:
    """Return the series of the lower function, which converges fast below the mean."""
    term = total = 1 / shape
    for step in range(1, _MOST_STEPS):
        term *= point / (shape + step)
        total += term
        if term < total * _PRECISION:
            break
    return total


def _continue_fraction(shape: float, point: float) -> float:
    """Return the continued fraction of the upper function, by Lentz's method."""
    below = point + 1 - shape
    top, bottom = 1 / _TINY, 1 / below
    fraction = bottom
    for step in range(1, _MOST_STEPS):
        factor = -step * (step - shape)
        below += 2
        bottom = factor * bottom + below
        bottom = 1 / (bottom if abs(bottom) > _TINY else _TINY)
        top = below + factor / top
        top = top if abs(top) > _TINY else _TINY
        change = top * bottom
        fraction *= change
        if abs(change - 1) <= _PRECISION:
            break
    return fraction
