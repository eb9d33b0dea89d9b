from __future__ import annotations

import polars as pl
import pytest

from answerkey.datasets import HeldRows, load_rows
from answerkey.datasets.recorded import find_field


def reach(rows: list[dict[str, object]], name: str) -> list[object] | None:
    """Return the cells that a name reaches."""
    samples = load_rows(rows, name="rows").samples
    found = find_field(HeldRows(samples), name)
    cells = None if found is None else found.read(samples)
    return cells.to_list() if isinstance(cells, pl.Series) else cells


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"a": "x"}, "a"),
        ({"a.b": "x", "a": {"b": "no"}}, "a.b"),
        ({"a": {"b": "x"}}, "a.b"),
        ({"a": {"b.c": "x", "b": {"c": "no"}}}, "a.b.c"),
        ({"a": {"b": {"c": "x"}}}, "a.b.c"),
        ({"a.b": {"c": "x"}, "a": {"b": {"c": "no"}}}, "a.b.c"),
        ({"a.b": {"z": "no"}, "a": {"b": {"c": "x"}}}, "a.b.c"),
        ({"by": {"org_model-1.5@001": "x"}}, "by.org_model-1.5@001"),
        ({"by": {"v1": {"no": 1}, "v1.5": "x"}}, "by.v1.5"),
    ],
)
def test_the_exact_name_first_then_the_longest(row: dict[str, object], name: str) -> None:
    """A dotted name reaches the exact column, else the field under the longest matching name."""
    assert reach([row], name) == ["x"]


@pytest.mark.parametrize("name", ["b", "a.c", "a.b.c", "a.", ".a", "a..b"])
def test_names_that_reach_nothing(name: str) -> None:
    """A name without a column or field reaches nothing."""
    assert reach([{"a": {"b": "x"}, "t": "text"}], name) is None


def test_objects_of_different_shapes_are_searched_row_by_row() -> None:
    """A row without the field has a null cell."""
    rows: list[dict[str, object]] = [{"by": {"m": "x"}}, {"by": {"n": 1}}, {"by": None}, {"by": {"m": None}}]
    assert reach(rows, "by.m") == ["x", None, None, None]
    assert reach(rows, "by.k") is None
