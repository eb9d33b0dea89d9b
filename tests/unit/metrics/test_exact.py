from __future__ import annotations

import math
import statistics
import sys
from fractions import Fraction

import pytest

from answerkey.metrics.exact import average, divide, divide_and_root, find_common_bits, sum_exactly, to_units


@pytest.mark.parametrize("number", [0.0, 1.0, -0.1, 5e-324, sys.float_info.max, 1 / 3, 7, -(10**300)])
def test_units_are_exact(number: float) -> None:
    """A finite number is a whole number of units."""
    assert Fraction(to_units(number), 2**1074) == Fraction(number)


def test_sums_are_exact() -> None:
    """Sums keep what adding floats would lose."""
    total, squares = sum_exactly([(1e308, 1), (0.1, 3), (-1e308, 1)])
    assert Fraction(total, 2**1074) == 3 * Fraction(0.1)
    assert Fraction(squares, 2**2148) == 2 * Fraction(1e308) ** 2 + 3 * Fraction(0.1) ** 2


def test_division_rounds_once() -> None:
    """A third is the float next to a third; what no float can hold is None."""
    assert divide(1, 3) == 1 / 3
    assert divide(10**400, 1) is None


@pytest.mark.parametrize(
    ("top", "bottom"), [(2, 1), (1, 3), (9, 4), (10**40 + 1, 7), (1, 10**600), (10**600, 3), (1, 2**2148)]
)
def test_root_is_the_nearest_float(top: int, bottom: int) -> None:
    """The root lies nearer to the true one than half a step to either neighbour."""
    root = divide_and_root(top, bottom)
    assert root is not None
    below, above = math.nextafter(root, 0), math.nextafter(root, math.inf)
    assert ((Fraction(below) + Fraction(root)) / 2) ** 2 <= Fraction(top, bottom)
    assert Fraction(top, bottom) <= ((Fraction(root) + Fraction(above)) / 2) ** 2


def test_root_of_nothing_is_zero_and_of_too_much_is_none() -> None:
    """The ends of the range are values, not exceptions."""
    assert divide_and_root(0, 5) == 0.0
    assert divide_and_root(10**700, 1) is None


def test_root_gives_the_deviation_of_the_standard_library() -> None:
    """The deviation of a few floats is bit for bit that of `statistics.stdev`."""
    numbers = [0.1, 0.7, 0.35, 1e-9, 12.5]
    total, squares = sum_exactly((number, 1) for number in numbers)
    top, bottom = 5 * squares - total**2, 20 << 2148
    assert divide_and_root(top, bottom) == statistics.stdev(numbers)


def test_whole_numbers_need_no_bits_after_the_point() -> None:
    """The smallest unit that all numbers are multiples of."""
    assert find_common_bits([]) == 0
    assert find_common_bits([3, -7.0]) == 0
    assert find_common_bits([0.5, 0.375, 2]) == 3


def test_mean_is_rounded_once() -> None:
    """Also where a sum in floats would overflow."""
    assert average([1e308, 1e308, 1e308]) == 1e308
    assert average([1.0, 2.0, 4.5]) == 2.5
