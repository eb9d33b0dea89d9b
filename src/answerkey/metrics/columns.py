"""Exact sums of the powers of a column of floats, for columns whose numbers are all different.

A float is cut into whole numbers of some bits, as a decimal number is cut into digits. Digits, and products
of them, are summed up by columns, without any rounding; the few sums are put together in Python.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

import polars as pl

from answerkey.metrics.exact import UNIT_BITS, to_units

#: Bits of a digit; the product of four digits, summed over a slice, fits into 127 bits, that of two into 63.
DIGIT_BITS = 21
#: So many digits are looked at: the bits of a float, and of one that is some ten binary places smaller.
DIGITS = 4
SLICE = 1 << 20
#: Two digits multiplied and summed are small enough for the usual whole numbers.
_SHORT_POWER = 2

#: Larger and smaller numbers would not stay exact when they are shifted into place.
_LARGEST_EXPONENT = 900


def sum_powers(numbers: pl.Series, powers: Sequence[int]) -> list[int]:
    """Return the sum of each power p, in units of 2**-(1074 p); the numbers are finite, none is null."""
    totals = [0] * len(powers)
    for offset in range(0, len(numbers), SLICE):
        part = numbers.slice(offset, SLICE)
        top = math.frexp(max(map(abs, find_ends(part))))[1]
        digits, is_exact = _cut_digits(part, top)
        for place, power in enumerate(powers):
            totals[place] += _sum_products([one.filter(is_exact) for one in digits], top, power)
            totals[place] += sum(_raise(number, power) for number in part.filter(~is_exact).to_list())
    return totals


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


def _sum_products(digits: Sequence[pl.Series], top: int, power: int) -> int:
    """Return the sum of a power: each product of digits, as often as it occurs and at its place."""
    wide = digits if power <= _SHORT_POWER else [one.cast(pl.Int128) for one in digits]
    total = 0
    for places, product in _multiply(wide, power):
        times = math.factorial(power) // math.prod(math.factorial(places.count(one)) for one in set(places))
        shift = power * (UNIT_BITS + top) - DIGIT_BITS * sum(place + 1 for place in places)
        total += times * int(product.sum()) << shift
    return total


def _multiply(digits: Sequence[pl.Series], power: int) -> Iterator[tuple[tuple[int, ...], pl.Series]]:
    """Yield the products of `power` digits with their places, in any order but each choice once."""
    for places in combinations_with_replacement(range(len(digits)), power):
        product = digits[places[0]]
        for place in places[1:]:
            product = product * digits[place]
        yield places, product


def _raise(number: float, power: int) -> int:
    units: int = to_units(number) ** power
    return units
