"""How sure a standard deviation is: resampled while few values differ, else by the fourth moment.

More distinct values than can be resampled are also more samples than the formula for large n needs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from operator import mul

from answerkey.metrics.concluding import Margin, bound_margin
from answerkey.metrics.exact import UNIT_BITS, divide_and_root
from answerkey.metrics.intervals import BCA, STUDENT, student
from answerkey.metrics.observed import Part, is_finite, merge_parts
from answerkey.metrics.resampling import MOST_CELLS, Statistic, resample


def close_spread(part: Part, counts: Iterable[tuple[tuple[object, ...], int]]) -> Part:
    """Return a part with its distinct numbers (unless they are many) and the sums of their higher powers."""
    numbers: Counter[float] = Counter()
    for (value,), count in counts:
        if isinstance(value, int | float) and is_finite(value):
            numbers[float(value)] += count
    cells = {repr(number): count for number, count in numbers.items()}
    cubes, fourths = (_sum_powers(numbers.items(), power) for power in (3, 4))
    return _cut_cells({**part, "cells": cells, "wide": 0, "cubes": cubes, "fourths": fourths})


def merge_spreads(parts: Sequence[Part]) -> Part:
    """Return several parts as one; whether there are too many cells does not depend on how they were cut."""
    return _cut_cells(merge_parts(parts))


def _cut_cells(part: Part) -> Part:
    if part.get("wide") or len(part.get("cells", ())) > MOST_CELLS:
        return {**part, "cells": {}, "wide": 1}
    return part


def _sum_powers(numbers: Iterable[tuple[float, int]], power: int) -> int:
    """Return the exact sum of powers, in units of 2**-(1074 · power)."""
    sums: defaultdict[int, int] = defaultdict(int)
    for number, count in numbers:
        top, bottom = number.as_integer_ratio()
        sums[bottom] += count * top**power
    return sum(top << power * (UNIT_BITS + 1 - bottom.bit_length()) for bottom, top in sums.items())


def measure_spread(part: Part, value: float | None) -> Margin:
    """Return how sure the standard deviation of at least two numbers is; `part["seed"]` seeds resamples."""
    if value is None:
        return Margin()
    if part["wide"]:
        return _measure_by_moments(part, value)
    cells = sorted((float(number), count) for number, count in part["cells"].items())
    # Halves of the numbers, since their range may be more than a float holds.
    low, half = cells[0][0] / 2, cells[-1][0] / 2 - cells[0][0] / 2
    counts = [count for _, count in cells]
    statistic = _deviate([(number / 2 - low) / (half or 1.0) for number, _ in cells], counts)
    found = resample(counts, statistic, part.get("seed", 0))
    if found.interval is None or found.std_error is None:
        return Margin(note=found.note)
    error, lower, upper = (number * half * 2 for number in (found.std_error, *found.interval))
    return bound_margin(error, (lower, upper), BCA)


def _deviate(numbers: Sequence[float], counts: Sequence[int]) -> Statistic:
    """Return the sample standard deviation as a function of how often each number occurs."""
    middle = sum(map(mul, counts, numbers)) / sum(counts)
    centred = [number - middle for number in numbers]  # else the squares would cancel each other
    squares = [number * number for number in centred]

    def measure(drawn: Sequence[int]) -> float:
        n = sum(drawn)  # more than 1: only many numbers are resampled
        spread = sum(map(mul, drawn, squares)) - sum(map(mul, drawn, centred)) ** 2 / n
        return float((max(0.0, spread) / (n - 1)) ** 0.5)

    return measure


def _measure_by_moments(part: Part, value: float) -> Margin:
    """Return the margin for large n: s² has about the variance (m4 - m2²) / n, and s that over 4 s²."""
    n, first, second = part["n"], part["sum"], part["squares"]
    spread = n * second - first**2
    fourth = n**3 * part["fourths"] - 4 * n**2 * first * part["cubes"]
    fourth += 6 * n * first**2 * second - 3 * first**4
    error = divide_and_root((fourth - spread**2) * (n - 1), 4 * n**4 * spread << 2 * UNIT_BITS)
    if not error:
        return Margin(error, note="the error is too small for a float")
    return bound_margin(error, student(value, error, n - 1), STUDENT)
