"""Columns of a written table: what is stored is what was there."""

from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.datasets.frames import build_column, infer_types
from answerkey.types import Row, Sample, Samples

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)


def infer_type(cells: list[object]) -> pl.DataType | None:
    """Return the type of a column with these cells."""
    return infer_types(Samples([Sample("x", Row(x=cell)) for cell in cells], ["x"]))["x"]


def read_back(cells: list[object]) -> tuple[list[object], bool]:
    """Return the cells after storing them, and whether they were stored as JSON text."""
    dtype = infer_type(cells)
    stored: list[object] = build_column("x", cells, dtype).to_list()
    if dtype is None:
        stored = [None if one is None else json.loads(str(one)) for one in stored]
    return stored, dtype is None


@given(st.lists(values, min_size=1, max_size=6))
def test_any_column_reads_back_exactly(cells: list[object]) -> None:
    """Whatever JSON holds comes back the same, type for type and key for key."""
    assert json.dumps(read_back(cells)[0]) == json.dumps(cells)


@pytest.mark.parametrize(
    ("cells", "dtype"),
    [
        ([None, None], pl.String()),
        ([1, None], pl.Int64()),
        ([1, 1.5], None),
        ([1, True], None),
        ([1, 2**63], None),
        (["a", 1], None),
        ([[], None], pl.List(pl.String())),
        ([[], [1]], pl.List(pl.Int64())),
        ([[], [[1]]], None),
        ([[1], ["a"]], None),
        ([{"a": 1}, {"a": None}], None),
        ([1, [1]], None),
    ],
)
def test_a_type_is_native_only_if_all_share_it(
    cells: list[object], dtype: pl.DataType | None
) -> None:
    """Values that differ in type, mappings and lists of lists have no native type."""
    assert infer_type(cells) == dtype
