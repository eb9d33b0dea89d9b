"""Laws of histograms: round bars that add up."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.reports.overview import choose_step, count_bins

NUMBERS = st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("width", "step"),
    [(20.0, 1.0), (21.0, 2.0), (2.0, 0.1), (0.9, 0.05), (1000.0, 50.0), (1001.0, 100.0)],
)
def test_steps_are_round(width: float, step: float) -> None:
    """A step is 1, 2 or 5 times a power of ten, at most twenty make the width.

    A whole one is 1 or more.
    """
    assert choose_step(width) == pytest.approx(step)
    assert choose_step(width, is_whole=True) == pytest.approx(max(1.0, step))


@pytest.mark.parametrize(
    ("values", "counts"),
    [([1.0, 1.0, 2.0, 3.0], [2, 1, 1]), ([2.0, 2.0], [2]), ([], [])],
    ids=["a bar holds its lower end", "no width, one bar", "nothing"],
)
def test_a_value_stands_in_the_bar_that_begins_with_it(
    values: list[float], counts: list[int]
) -> None:
    """A bar holds its lower end, and not its upper one."""
    bins = count_bins(pl.Series(values, dtype=pl.Float64), is_whole=True)
    assert [bar.count for bar in bins] == counts
    assert all(bar.high == bar.low + 1 for bar in bins)


def test_outliers_share_a_bar() -> None:
    """One call of a minute leaves the others apart; its bar goes up to it."""
    bins = count_bins(pl.Series([0.5 + place / 1000 for place in range(500)] + [60.0]))
    assert (bins[-1].count, bins[-1].high) == (1, 60.0)
    assert len(bins) > 10


@given(NUMBERS, st.booleans())
def test_bars_add_up_and_join(numbers: list[float], is_whole: bool) -> None:  # noqa: FBT001 - drawn
    """Every value is in one bar, and a bar begins where the last one ends."""
    values = [float(round(one)) for one in numbers] if is_whole else numbers
    bins = count_bins(pl.Series(values), is_whole=is_whole)
    assert sum(bar.count for bar in bins) == len(values)
    assert all(bar.high == following.low for bar, following in pairwise(bins))
    assert bins[0].low <= min(values)
    assert bins[-1].high >= max(values)
