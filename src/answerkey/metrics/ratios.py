"""Ratios of sums, which most metrics are, and their standard error: exact sums, rounded once.

A mean is Σx over Σ1, precision is ΣTP over Σ(TP + FP). What one sample, or one cluster of samples, says
differently from the whole is its residual `top - R · bottom`; the spread of the residuals is the spread of R.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from answerkey.metrics.exact import divide_and_root


@dataclass(frozen=True)
class Ratio:
    """The sums over some samples: whole numbers, both in the same units; `n` samples stand behind them."""

    top: int
    bottom: int
    n: int


@dataclass(frozen=True)
class Squares:
    """Σ top², Σ top · bottom and Σ bottom² over samples, for the standard error of their ratio."""

    tops: int
    products: int
    bottoms: int


def measure_error(ratio: Ratio, squares: Squares) -> float | None:
    """Return the standard error of a ratio over independent samples; None for fewer than two.

    √(n/(n-1) · Σ(top - R · bottom)²) / Σ bottom. Of a mean it is the sample standard deviation over √n.
    """
    if ratio.n <= 1 or not ratio.bottom:
        return None
    top, bottom = ratio.top, ratio.bottom
    residuals = bottom**2 * squares.tops - 2 * top * bottom * squares.products + top**2 * squares.bottoms
    return divide_and_root(ratio.n * residuals, (ratio.n - 1) * bottom**4)


def measure_clustered_error(
    clusters: Sequence[tuple[Ratio, int]], *, is_corrected: bool = True
) -> float | None:
    """Return the standard error of a ratio over clusters, each given with how often it occurs.

    √(Σ (top - R · bottom)²) / Σ bottom with the sums of each cluster, times √(C/(C-1)) where corrected.
    None for fewer than two clusters.
    """
    size = count_clusters(clusters)
    shift = _count_zeros(clusters)
    small = [(one.top >> shift, one.bottom >> shift, count) for one, count in clusters]
    top, bottom = sum(one[0] * one[2] for one in small), sum(one[1] * one[2] for one in small)
    if size <= 1 or not bottom:
        return None
    residuals = sum(count * (own * bottom - top * of) ** 2 for own, of, count in small)
    if is_corrected:
        return divide_and_root(size * residuals, (size - 1) * bottom**4)
    return divide_and_root(residuals, bottom**4)


def count_clusters(clusters: Iterable[tuple[Ratio, int]]) -> int:
    """Return how many clusters have a sample that counts."""
    return sum(count for one, count in clusters if one.n)


def _count_zeros(clusters: Iterable[tuple[Ratio, int]]) -> int:
    """Return how many binary zeros all sums end with; without them, the numbers to square are small."""
    union = 0
    for one, _ in clusters:
        union |= one.top | one.bottom
    return (union & -union).bit_length() - 1 if union else 0
