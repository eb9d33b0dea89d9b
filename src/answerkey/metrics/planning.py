"""How many samples a comparison needs, and what it can show with those there are (Miller 2024).

A sample's difference of two models varies by the sample (`between`, ω²), and by chance each time a model is
asked (`first` and `second`, σ²), which asking several times averages out. The plan is for a two-sided test of
the mean difference, which is normal for as many samples as evaluations have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from answerkey.metrics.distributions import normal_cdf, normal_quantile


@dataclass(frozen=True)
class Spread:
    """The variance of one sample's difference, in its parts; each model is asked so many times."""

    between: float
    first: float = 0.0
    second: float = 0.0
    first_trials: int = 1
    second_trials: int = 1

    @property
    def total(self) -> float:
        """ω² + σ₁²/K₁ + σ₂²/K₂."""
        return self.between + self.first / self.first_trials + self.second / self.second_trials


@dataclass(frozen=True)
class Aim:
    """How sure a test is to be: `alpha` of calling chance a difference, `power` of seeing one."""

    alpha: float = 0.05
    power: float = 0.8

    @property
    def reach(self) -> float:
        """How many standard errors a difference must have."""
        return normal_quantile(1 - self.alpha / 2) + normal_quantile(self.power)


def count_samples(variance: float, difference: float, aim: Aim) -> int:
    """Return how many samples it takes to see a difference; at least one."""
    return max(1, math.ceil((aim.reach / difference) ** 2 * variance))


def find_smallest(variance: float, samples: int, aim: Aim) -> float:
    """Return the smallest difference that so many samples show."""
    return aim.reach * math.sqrt(variance / samples)


def measure_power(variance: float, samples: int, difference: float, alpha: float) -> float:
    """Return how often so many samples show a difference that is there."""
    if not variance:
        return 1.0
    errors, critical = difference / math.sqrt(variance / samples), normal_quantile(1 - alpha / 2)
    return normal_cdf(errors - critical) + normal_cdf(-errors - critical)
