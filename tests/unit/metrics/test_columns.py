from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from random import Random

import polars as pl
import pytest

from answerkey.metrics import Mean, Metric, base
from answerkey.metrics.exact import find_ends, sum_column
from answerkey.metrics.moments import Max, Min, StdDev
from answerkey.scorers import build_scores

KINDS: dict[str, Callable[[Random], float]] = {
    "shares": lambda random: random.random(),
    "quotients": lambda random: random.randrange(-999, 999) / random.randrange(1, 999),
    "wide": lambda random: random.gauss(0, 1) * 10 ** random.randrange(-12, 12),
    "tiny": lambda random: random.choice([5e-324, 1e-300, -3.5, 0.0, -0.0]),
    "huge": lambda random: random.choice([1e308, -1e308, 1e-308]),
    "at the limit": lambda random: random.choice([2.0**850, 2.0**-700, 2.0**751, -1.0]),
    "two digits": lambda random: random.choice([1.0, 0.5 + 2.0**-21]),
    "zero": lambda _: 0.0,
    "smallest": lambda _: 5e-324,
}


@pytest.mark.parametrize("kind", KINDS)
def test_powers_are_summed_without_rounding(kind: str) -> None:
    """The sums are those of fractions, whatever the size of the numbers."""
    random = Random(kind)
    numbers = [KINDS[kind](random) for _ in range(400)]
    expected = tuple(sum(Fraction(one) ** power for one in numbers) * 2 ** (1074 * power) for power in (1, 2))
    assert sum_column(pl.Series(numbers)) == expected


def test_nothing_sums_up_to_zero() -> None:
    """A column without numbers has sums."""
    assert sum_column(pl.Series([], dtype=pl.Float64)) == (0, 0)


@pytest.mark.parametrize("metric", [Mean("x"), Max("x"), Min("x"), StdDev("x")], ids=lambda one: one.type)
@pytest.mark.parametrize("kind", ["shares", "quotients", "mixed"])
def test_columns_of_many_numbers_are_measured_as_if_counted(
    metric: Metric, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part does not depend on whether numbers were counted one by one or summed up as a column."""
    random = Random(kind)
    odd = [None, float("nan"), float("inf"), -0.0, 0.0, 1.0]
    cells = [KINDS["shares" if kind == "mixed" else kind](random) for _ in range(1500)]
    column = pl.Series(cells + (odd * 20 if kind == "mixed" else []), dtype=pl.Float64)
    statuses = pl.Series(["SCORED" if row % 10 else "FAILED" for row in range(len(column))])
    scores = build_scores(statuses, pl.Series(["BAD_ROW"] * len(column)), {"x": column}, metadata={})
    monkeypatch.setattr(base, "MANY", 10_000)
    counted = metric.measure(scores)
    monkeypatch.setattr(base, "MANY", 600)
    assert metric.measure(scores) == counted
    assert counted["n"] == 1350 + (56 if kind == "mixed" else 0)


def test_minus_zero_is_no_end() -> None:
    """The ends of a column are printed, and -0.0 is 0."""
    assert [repr(end) for end in find_ends(pl.Series([-0.0, 0.0]))] == ["0.0"]
    assert [repr(end) for end in find_ends(pl.Series([-0.0]))] == ["0.0"]
    assert find_ends(pl.Series([2.0, -1.0, None])) == [-1.0, 2.0]
