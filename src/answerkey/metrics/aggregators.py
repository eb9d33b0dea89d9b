"""One number from the trials of a sample: exact fractions, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from answerkey.metrics.observed import is_finite, is_number

AggregatorName = Literal["mean", "min", "max", "pass@k", "pass^k", "pass@k_plugin", "pass^k_plugin"]

#: The functions that need `k`, and among them those that draw k of the trials without putting them back.
WITH_K = frozenset({"pass@k", "pass^k", "pass@k_plugin", "pass^k_plugin"})
UNBIASED = frozenset({"pass@k", "pass^k"})


@dataclass(frozen=True)
class Aggregator:
    """A function of a sample's trials; `k` is for the `pass` functions only."""

    function: AggregatorName
    k: int | None = None

    @property
    def label(self) -> str:
        """The name with `k` filled in: `mean`, `pass@3`, `pass^3_plugin`."""
        return self.function if self.k is None else self.function.replace("k", str(self.k), 1)

    def apply(self, values: Sequence[object]) -> float | None:
        """Return the aggregate of one sample, in whatever order its trials are given.

        None when a value is missing or no number, or when it is not what the function is about; NaN when one
        is not finite.
        """
        if not values or not all(is_number(value) for value in values):
            return None
        numbers: list[float] = [value for value in values if isinstance(value, int | float)]
        if not all(is_finite(number) for number in numbers):
            return math.nan
        found = _FUNCTIONS[self.function]([Fraction(number) for number in numbers], self.k or 1)
        return None if found is None else float(found)


def average(values: Sequence[Fraction], _: int = 1) -> Fraction:
    """Return the mean."""
    return sum(values, Fraction()) / len(values)


def pass_at_k(values: Sequence[Fraction], k: int) -> Fraction | None:
    """Return the chance that k of the trials, drawn without putting back, hold a success.

    1 - C(n-c, k) / C(n, k), the unbiased estimate of 1 - (1-p)^k; for n ≥ k values that are all 0 or 1.
    """
    if not _is_binary(values) or k > len(values):
        return None
    n, right = len(values), int(sum(values))
    return 1 - Fraction(math.comb(n - right, k), math.comb(n, k))


def pass_hat_k(values: Sequence[Fraction], k: int) -> Fraction | None:
    """Return the chance that k of the trials, drawn without putting back, are all successes.

    C(c, k) / C(n, k), the unbiased estimate of p^k; for n ≥ k values that are all 0 or 1.
    """
    if not _is_binary(values) or k > len(values):
        return None
    n, right = len(values), int(sum(values))
    return Fraction(math.comb(right, k), math.comb(n, k))


def pass_at_k_plugin(values: Sequence[Fraction], k: int) -> Fraction | None:
    """Return 1 - (1-p)^k with the mean as p; for a mean within [0, 1]."""
    share = average(values)
    return 1 - (1 - share) ** k if 0 <= share <= 1 else None


def pass_hat_k_plugin(values: Sequence[Fraction], k: int) -> Fraction | None:
    """Return p^k with the mean as p; for a mean within [0, 1]."""
    share = average(values)
    return share**k if 0 <= share <= 1 else None


def _is_binary(values: Sequence[Fraction]) -> bool:
    return all(value in {0, 1} for value in values)


_FUNCTIONS: dict[str, Callable[[Sequence[Fraction], int], Fraction | None]] = {
    "mean": average,
    "min": lambda values, _: min(values),
    "max": lambda values, _: max(values),
    "pass@k": pass_at_k,
    "pass^k": pass_hat_k,
    "pass@k_plugin": pass_at_k_plugin,
    "pass^k_plugin": pass_hat_k_plugin,
}
