"""Exact sums of a column of floats and of their squares, for columns whose numbers are all different.

A float is cut into whole numbers of some bits, as a decimal number is cut into digits. Digits, and products
of them, are summed up by columns, without any rounding; the few sums are put together in Python.
"""

from __future__ import annotations

import math
from itertools import combinations_with_replacement

import polars as pl

from answerkey.metrics.exact import UNIT_BITS, sum_exactly

#: Bits of a digit; the product of two digits, summed over a slice, fits into 63 bits.
DIGIT_BITS = 21
#: So many digits are looked at: the bits of a float, and of one that is some ten binary places smaller.
DIGITS = 4
SLICE = 1 << 20

#: Larger and smaller numbers would not stay exact when they are shifted into place.
_LARGEST_EXPONENT = 900


def sum_column(numbers: pl.Series) -> tuple[int, int]:
    """Return what `sum_exactly` returns for finite numbers, none of them null."""
    total = squares = 0
    for offset in range(0, len(numbers), SLICE):
        part = numbers.slice(offset, SLICE)
        top = math.frexp(max(map(abs, find_ends(part))))[1]
        digits, is_exact = _cut_digits(part, top)
        digits = [digit.filter(is_exact) for digit in digits]
        shifts = [UNIT_BITS + top - DIGIT_BITS * (place + 1) for place in range(len(digits))]
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


def _cut_digits(numbers: pl.Series, top: int) -> tuple[list[pl.Series], pl.Series]:
    """Return the first digits of numbers below 2**top, and which numbers have no others."""
    if abs(top) > _LARGEST_EXPONENT:
        return [], pl.repeat(False, len(numbers), dtype=pl.Boolean, eager=True)  # noqa: FBT003 - the value
    is_tiny = (numbers.abs() < 2.0 ** (top - 100)) & (numbers != 0)
    rest = numbers * 2.0 ** (DIGIT_BITS - top)
    digits: list[pl.Series] = []
    for _ in range(DIGITS):
        digit = rest.cast(pl.Int64)
        digits.append(digit)
        rest = (rest - digit.cast(pl.Float64)) * 2.0**DIGIT_BITS
        if not (rest != 0).any():
            break
    return digits, (rest == 0) & ~is_tiny
