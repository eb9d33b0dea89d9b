from __future__ import annotations

import random

import polars as pl
import pytest

from answerkey.reports.pages.excerpts import cut_stretches, join_columns, order_positions


@pytest.mark.parametrize("seed", range(30))
def test_stretches_hold_all_rows_in_order(seed: int) -> None:
    """Whatever is asked for, each row is read once, from a stretch that is not too long."""
    draw = random.Random(seed)
    size, most = draw.choice([1, 2, 5]), draw.choice([1, 7, 100, 10_000])
    wanted = sorted(draw.sample(range(5_000), draw.randrange(1, 400)))
    found: list[int] = []
    for first, last, places in cut_stretches(pl.Series(wanted, dtype=pl.UInt32), size, most):
        assert 0 < last - first <= most
        assert 0 <= int(places[0]) < size
        assert int(places[-1]) < (last - first) * size
        found += (places + first * size).to_list()
    assert found == wanted


def test_rows_far_apart_are_not_read_together() -> None:
    """Between them would lie more than is worth reading."""
    stretches = cut_stretches(pl.Series([0, 1, 500], dtype=pl.UInt32), 1, 1_000)
    assert [(first, last) for first, last, _ in stretches] == [(0, 2), (500, 501)]


def test_nothing_asked_for_is_nothing_read() -> None:
    """There is no stretch without a row."""
    assert list(cut_stretches(pl.Series([], dtype=pl.UInt32), 1, 10)) == []
    assert order_positions([])[1] == []


def test_positions_are_put_in_order_and_found_again() -> None:
    """Each is read once, however often it is asked for."""
    distinct, places = order_positions([9, 3, 9, 5])
    assert (distinct.to_list(), places) == ([3, 5, 9], [2, 0, 2, 1])


def test_all_columns_are_more_than_some() -> None:
    """Where one part needs all of them, all are read."""
    assert join_columns({"a"}, frozenset({"b"})) == frozenset({"a", "b"})
    assert join_columns({"a"}, None) is None
