"""Sums of scores without rounding, and the one rounding at the end.

Every finite float is a fraction, and a sum of fractions is the same in any order.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

#: A number that is added and multiplied without rounding.
Exact = int | Fraction

#: Bits of a root before its rounding: the 53 of a float, and some more, of which the last only
#: says whether anything was cut off.
_ROOT_BITS = 64


def sum_exactly(numbers: Iterable[tuple[float, int]]) -> tuple[Fraction, Fraction]:
    """Return the sum of numbers and the sum of their squares; each comes with its count."""
    # Numerators add up fast as long as they have the same denominator.
    sums: defaultdict[int, int] = defaultdict(int)
    squares: defaultdict[int, int] = defaultdict(int)
    for number, count in numbers:
        top, bottom = number.as_integer_ratio()
        sums[bottom] += count * top
        squares[bottom * bottom] += count * top * top
    return _add_fractions(sums), _add_fractions(squares)


def _add_fractions(tops: Mapping[int, int]) -> Fraction:
    """Return the sum of fractions whose denominators, the keys, are powers of two."""
    bottom = max(tops, default=1)
    total = 0
    for denominator, top in tops.items():
        total += top * (bottom // denominator)
    return Fraction(total, bottom)


def to_integers(numbers: Sequence[float | Fraction]) -> tuple[list[int], int]:
    """Return the numbers times their least common denominator, and that denominator.

    Whole numbers are added and multiplied much faster than fractions.
    """
    pairs = [number.as_integer_ratio() for number in numbers]
    scale = math.lcm(*{bottom for _, bottom in pairs})
    return [top * (scale // bottom) for top, bottom in pairs], scale


def divide(top: Exact, bottom: Exact) -> float | None:
    """Return top / bottom rounded once, or None if no float is that large."""
    try:
        return float(Fraction(top) / bottom)
    except OverflowError:
        return None


def average(numbers: Sequence[float]) -> float:
    """Return the mean of at least one finite number, rounded once."""
    total, _ = sum_exactly((number, 1) for number in numbers)
    return float(total / len(numbers))


def divide_and_root(top: Exact, bottom: Exact) -> float | None:
    """Return the square root of top / bottom (top ≥ 0) rounded once, or None if no float is that
    large.
    """
    numerator, denominator = (Fraction(top) / bottom).as_integer_ratio()
    if numerator == 0:
        return 0.0
    size = numerator.bit_length() - denominator.bit_length()
    shift = max(0, _ROOT_BITS - size // 2)
    scaled = numerator << (2 * shift)
    root = math.isqrt(scaled // denominator)
    # An odd last bit stands for the digits cut off, so that the division rounds as the true root
    # would.
    is_cut = root * root * denominator != scaled
    return divide((root << 1) | int(is_cut), 1 << (shift + 1))
