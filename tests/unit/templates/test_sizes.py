"""Laws of the sizes of a column's values: never less than what a template's limits would count."""

from __future__ import annotations

import polars as pl
import pytest

from answerkey.templates.limits import measure
from answerkey.templates.sizes import find_small

COLUMNS = [
    pl.Series(["", "ab", None, "日本"]),
    pl.Series([["a", "bc"], [], None, [None, ""]]),
    pl.Series([[1, 2, 3], None, []]),
    pl.Series([[True, False], [None]]),
    pl.Series([{"k": "abc", "n": [1, 2]}, None, {"k": None, "n": None}]),
    pl.Series([[{"k": "abc", "n": [["x"], []]}], [], None]),
]


@pytest.mark.parametrize("series", COLUMNS)
def test_no_value_counts_less_than_its_measure(series: pl.Series) -> None:
    """Whatever may be more than the limit is not called small."""
    for most in range(25):
        small = find_small(series, most)
        calls_small = [True] * len(series) if small is None else small.to_list()
        for value, is_small in zip(series.to_list(), calls_small, strict=True):
            assert not is_small or measure(value) <= most


@pytest.mark.parametrize("series", COLUMNS)
def test_values_far_below_the_limit_are_small(series: pl.Series) -> None:
    """Which is seen without a look at each."""
    assert find_small(series, 1000) is None


def test_one_large_value_does_not_make_the_others_large() -> None:
    """Large columns are looked at row by row."""
    small = find_small(pl.Series([["x" * 50], ["y"], None]), 20)
    assert small is not None
    assert small.to_list() == [False, True, True]
    assert find_small(pl.Series(["x" * 15] * 4), 20) is None
