"""Unweighted means of several independent numbers, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from answerkey.metrics.concluding import Margin, Share, bound_margin
from answerkey.metrics.exact import average
from answerkey.metrics.intervals import MOVER, STRATIFIED, mover, score_interval, student, wilson
from answerkey.types import MetricValue

SINGLE = "a part with one sample says nothing about its spread"
NO_SPREAD = "no part shows any spread"


def average_shares(shares: Sequence[Share]) -> Margin:
    """Return how sure the mean of independent shares is, each of at least two 0/1 outcomes.

    The squared standard errors add up. A share that is all or nothing shows no spread, which is chance as
    often as truth: it is given that of the Jeffreys posterior. Degrees of freedom by Satterthwaite.
    """
    if any(share.of <= 1 for share in shares):
        return Margin(note=SINGLE, is_share=True)
    if not shares:
        return Margin()
    size = len(shares)
    mean = math.fsum(share.count / share.of for share in shares) / size
    spreads = [_spread(share) for share in shares]
    total = math.fsum(spreads)
    error = math.sqrt(total) / size
    if all(share.count in {0, share.of} for share in shares) and mean in {0.0, 1.0}:
        found = mover((share.count / share.of, wilson(share.count, share.of)) for share in shares)
        return Margin(error, found, MOVER, is_share=True)
    freedom = total**2 / math.fsum(
        one**2 / (share.of - 1) for one, share in zip(spreads, shares, strict=True)
    )
    found = score_interval(mean, error, max(1, int(freedom)))
    return Margin(error, found, STRATIFIED, is_share=True)


def average_counts(counts: Sequence[tuple[int, int]]) -> tuple[float, tuple[float, float] | None]:
    """Return the mean of shares, each given as how many of how many, and its interval if there is one."""
    shares = [Share(count, of) for count, of in counts]
    mean = math.fsum(share.count / share.of for share in shares) / len(shares)
    return mean, average_shares(shares).interval


def _spread(share: Share) -> float:
    """Return the squared standard error of a share."""
    count, of = share.count, share.of
    if 0 < count < of:
        return count * (of - count) / (of * of * (of - 1))
    return (count + 0.5) * (of - count + 0.5) / ((of + 1) ** 2 * (of + 2))


def average_errors(values: Sequence[MetricValue]) -> Margin:
    """Return how sure the mean of independent values is, from their own standard errors."""
    is_share = all(value.is_share for value in values)
    errors = [value.std_error for value in values]
    known = [error for error in errors if error is not None]
    if len(known) < len(values):
        missing = sum(error is None for error in errors)
        return Margin(note=f"{missing} of {len(values)} have no standard error", is_share=is_share)
    largest = max(known)
    if not largest:
        return Margin(largest, note=NO_SPREAD, is_share=is_share)
    mean = average([float(value.value or 0) for value in values])
    squares = [(error / largest) ** 2 for error in known]  # no square is then too large for a float
    total = math.fsum(squares)
    error = largest * math.sqrt(total) / len(values)
    freedom = total**2 / math.fsum(
        square**2 / _count_freedom(value) for square, value in zip(squares, values, strict=True)
    )
    df = max(1, int(freedom))
    if is_share and 0 < mean < 1:
        return Margin(error, score_interval(mean, error, df), STRATIFIED, is_share=True)
    return bound_margin(error, student(mean, error, df, is_share=is_share), STRATIFIED)


def _count_freedom(value: MetricValue) -> int:
    """Return the degrees of freedom of a value's standard error: one less than its clusters, or samples."""
    return max(1, int(str(value.details.get("clusters", value.n))) - 1)
