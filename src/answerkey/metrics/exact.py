"""Sums of scores without rounding, and the one rounding at the end.

Every finite float is a whole multiple of 2**-1074, so a sum of floats is a whole number of such units. Whole
numbers add up to the same sum in any order, which is what makes shards merge bit for bit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

#: Floats are whole multiples of 2**-UNIT_BITS.
UNIT_BITS = 1074

#: Bits of a root before its rounding: a float's 53, and enough that the rest only says "a little more".
_ROOT_BITS = 64


def to_units(number: float, bits: int = UNIT_BITS) -> int:
    """Return a finite number as a whole number of units of 2**-1074, or of other units, exactly."""
    return _scale(*number.as_integer_ratio(), bits)


def find_common_bits(numbers: Iterable[float]) -> int:
    """Return the least bits for which all numbers are whole multiples of 2**-bits: small whole numbers."""
    return max((number.as_integer_ratio()[1].bit_length() - 1 for number in numbers), default=0)


def sum_exactly(numbers: Iterable[tuple[float, int]]) -> tuple[int, int]:
    """Return the sum, in units of 2**-1074, and the sum of squares, in units of 2**-2148."""
    # Numerators are small and add up fast; they become units only once for each denominator.
    sums: defaultdict[int, int] = defaultdict(int)
    squares: defaultdict[int, int] = defaultdict(int)
    for number, count in numbers:
        top, bottom = number.as_integer_ratio()
        sums[bottom] += count * top
        squares[bottom] += count * top * top
    return (
        sum(_scale(top, bottom) for bottom, top in sums.items()),
        sum(_scale(top, bottom * bottom, 2 * UNIT_BITS) for bottom, top in squares.items()),
    )


def _scale(top: int, bottom: int, bits: int = UNIT_BITS) -> int:
    """Return top / bottom in units of 2**-bits; the bottom is a power of two."""
    return top << (bits + 1 - bottom.bit_length())


def divide(top: int, bottom: int) -> float | None:
    """Return top / bottom rounded once, or None if no float is that large."""
    try:
        return top / bottom
    except OverflowError:
        return None


def average(numbers: Sequence[float]) -> float:
    """Return the mean of at least one finite number, rounded once; it is never too large for a float."""
    total, _ = sum_exactly((number, 1) for number in numbers)
    return total / (len(numbers) << UNIT_BITS)


def divide_and_root(top: int, bottom: int) -> float | None:
    """Return the square root of top / bottom (top ≥ 0) rounded once, or None if no float is that large."""
    if top == 0:
        return 0.0
    shift = max(0, _ROOT_BITS - (top.bit_length() - bottom.bit_length()) // 2)
    scaled = top << (2 * shift)
    root = math.isqrt(scaled // bottom)
    # An odd last bit stands for the digits cut off, so that the division below rounds as the true root would.
    sticky = int(root * root * bottom != scaled)
    return divide((root << 1) | sticky, 1 << (shift + 1))
