"""Sums of scores without rounding, and the one rounding at the end.

Every finite float is a whole multiple of 2**-1074, so a sum of floats is a whole number of such units. Whole
numbers add up to the same sum in any order, which is what makes shards merge bit for bit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement

import polars as pl

#: Floats are whole multiples of 2**-UNIT_BITS.
UNIT_BITS = 1074

#: Bits of a root before its rounding: a float's 53, and enough that the rest only says "a little more".
_ROOT_BITS = 64

#: Bits of a digit of `sum_column`; the product of two, summed over a slice, fits into 63 bits.
_DIGIT_BITS = 21
#: So many digits are looked at: the bits of a float, and of one that is some ten binary places smaller.
_DIGITS = 4
_SLICE = 1 << 20
#: Larger and smaller numbers would not stay exact when they are shifted into place.
_LARGEST_EXPONENT = 900


def to_units(number: float, bits: int = UNIT_BITS) -> int:
    """Return a finite number as a whole number of units of 2**-1074, or of other units, exactly."""
    return _scale(*number.as_integer_ratio(), bits)


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


def sum_column(numbers: pl.Series) -> tuple[int, int]:
    """Return what `sum_exactly` returns, for a column of finite numbers that are nearly all different.

    A float is cut into whole numbers of some bits, as a decimal number is cut into digits. Digits, and
    products of two, are summed up by columns, without any rounding; the few sums are put together in Python.
    """
    total = squares = 0
    for offset in range(0, len(numbers), _SLICE):
        part = numbers.slice(offset, _SLICE)
        top = math.frexp(max(map(abs, find_ends(part))))[1]
        if abs(top) > _LARGEST_EXPONENT:
            rest = sum_exactly((number, 1) for number in part.to_list())
            total, squares = total + rest[0], squares + rest[1]
            continue
        digits: list[pl.Series] = []
        left = part * 2.0 ** (_DIGIT_BITS - top)
        for _ in range(_DIGITS):
            digits.append(left.cast(pl.Int64))
            left = (left - digits[-1].cast(pl.Float64)) * 2.0**_DIGIT_BITS
            if not (left != 0).any():
                break
        # Numbers that have no other digits.
        is_exact = (left == 0) & ((part.abs() >= 2.0 ** (top - 100)) | (part == 0))
        digits = [digit.filter(is_exact) for digit in digits]
        shifts = [UNIT_BITS + top - _DIGIT_BITS * (place + 1) for place in range(len(digits))]
        total += sum(int(digit.sum()) << shift for digit, shift in zip(digits, shifts, strict=True))
        for one, other in combinations_with_replacement(range(len(digits)), 2):
            times = 1 if one == other else 2
            squares += times * int((digits[one] * digits[other]).sum()) << shifts[one] + shifts[other]
        rest = sum_exactly((number, 1) for number in part.filter(~is_exact).to_list())
        total, squares = total + rest[0], squares + rest[1]
    return total, squares


def find_ends(numbers: pl.Series) -> list[float]:
    """Return the smallest and the largest number in order, once if they are the same; minus zero is zero."""
    ends = numbers.to_frame("x").select(low=pl.min("x"), high=pl.max("x")).row(0)
    return sorted({end + 0.0 for end in ends if end is not None})


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
