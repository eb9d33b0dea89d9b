"""What guessing would get, and what is left of an accuracy when that is taken off."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from answerkey.metrics.exact import divide

#: True letter → predicted letter, or anything else for none → count.
Letters = Mapping[str, Mapping[str, int]]

POINTS = 100


def measure_chance(choice_counts: Mapping[int, int]) -> float | None:
    """Return the mean of 1/K over samples; `choice_counts` says how many samples have K choices."""
    total = sum(choice_counts.values())
    if not total:
        return None
    chance = sum((Fraction(count, size) for size, count in choice_counts.items()), Fraction(0)) / total
    return divide(chance.numerator, chance.denominator)


def correct_for_chance(share: float, chance: float) -> float | None:
    """Return (share - chance) / (1 - chance): 0 is guessing, 1 is all right; None when all is chance."""
    return (share - chance) / (1 - chance) if chance < 1 else None


def measure_kappa(letters: Letters) -> float | None:
    """Return Cohen's kappa of truths and predictions; a sample without a prediction agrees with none.

    None where agreement by accident would be complete.
    """
    total = sum(sum(row.values()) for row in letters.values())
    if not total:
        return None
    hits = sum(row.get(letter, 0) for letter, row in letters.items())
    by_accident = sum(
        sum(row.values()) * sum(other.get(letter, 0) for other in letters.values())
        for letter, row in letters.items()
    )
    bottom = total * total - by_accident
    return divide(hits * total - by_accident, bottom) if bottom else None


def measure_recalls(letters: Letters) -> dict[str, float]:
    """Return, for each letter that is ever true, the share of its samples that were answered with it."""
    return {
        letter: row.get(letter, 0) / sum(row.values()) for letter, row in letters.items() if sum(row.values())
    }


def measure_spread(recalls: Sequence[float]) -> float | None:
    """Return RStd, the standard deviation of the recalls of letters, in points; None for a single letter.

    The population form: the letters are all there are, no draw from more of them.
    """
    if len(recalls) <= 1:
        return None
    mean = math.fsum(recalls) / len(recalls)
    return POINTS * math.sqrt(math.fsum((one - mean) ** 2 for one in recalls) / len(recalls))
