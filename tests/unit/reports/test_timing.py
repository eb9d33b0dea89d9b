"""Laws of histograms: round bars that add up, and outliers apart."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.reports.pages.timing import choose_step, count_bins

NUMBERS = st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("width", "step"), [(20.0, 1.0), (21.0, 2.0), (2.0, 0.1), (0.9, 0.05), (1000.0, 50.0), (1001.0, 100.0)]
)
def test_steps_are_round(width: float, step: float) -> None:
    """A step is 1, 2 or 5 times a power of ten, at most twenty make the width."""
    assert choose_step(width) == pytest.approx(step)


def test_tokens_have_whole_steps() -> None:
    """Nobody says half a token."""
    assert choose_step(3.0, is_whole=True) == 1.0
    assert choose_step(0.0, is_whole=True) == 1.0


def test_a_value_stands_in_the_bar_that_begins_with_it() -> None:
    """A bar holds its lower end, and not its upper one."""
    bins = count_bins(pl.Series([1.0, 1.0, 2.0, 3.0]), is_whole=True)
    assert bins == [
        {"low": 1.0, "high": 2.0, "count": 2},
        {"low": 2.0, "high": 3.0, "count": 1},
        {"low": 3.0, "high": 4.0, "count": 1},
    ]


def test_outliers_share_a_bar() -> None:
    """One call of a minute leaves the others apart; its bar goes up to it."""
    bins = count_bins(pl.Series([0.5 + place / 1000 for place in range(500)] + [60.0]))
    assert bins[-1]["count"] == 1
    assert bins[-1]["high"] == 60.0
    assert len(bins) > 10


def test_equal_values_have_one_bar() -> None:
    """No width, one bar."""
    assert [one["count"] for one in count_bins(pl.Series([2.0, 2.0]))] == [2]
    assert count_bins(pl.Series([], dtype=pl.Float64)) == []


@given(NUMBERS, st.booleans())
def test_bars_add_up_and_join(numbers: list[float], is_whole: bool) -> None:  # noqa: FBT001 - drawn
    """Every value is in one bar, and a bar begins where the last one ends."""
    values = [float(round(one)) for one in numbers] if is_whole else numbers
    bins = count_bins(pl.Series(values), is_whole=is_whole)
    assert sum(one["count"] for one in bins) == len(values)
    assert all(one["high"] == other["low"] for one, other in pairwise(bins))
    assert bins[0]["low"] <= min(values)
    assert bins[-1]["high"] >= max(values)
