"""Laws of the numbering of distinct values."""

from __future__ import annotations

import polars as pl

from answerkey.templates import Distinct, RowTrouble
from answerkey.templates.distinct import make_constant, merge_distinct, number_values


def codes(*numbers: int) -> pl.Series:
    """Return row numbers as a numbering has them."""
    return pl.Series("code", numbers, dtype=pl.UInt32)


def test_values_are_numbered_as_they_appear() -> None:
    """Each row has the position of its value."""
    distinct = number_values(["b", "a", "b", None])
    assert distinct.values == ["b", "a", None]
    assert distinct.codes.to_list() == [0, 1, 0, 2]
    assert distinct.codes.dtype == pl.UInt32


def test_values_of_different_types_stay_apart() -> None:
    """1, 1.0, true and "1" are four values; so are 0.0 and -0.0, inside lists as well."""
    values: list[object] = [1, 1.0, True, "1", 0.0, -0.0, [1], [True], [0.0], [-0.0], {"a": 1}, {"a": 1.0}]
    distinct = number_values([*values, *values])
    assert list(map(repr, distinct.values)) == list(map(repr, values))
    assert distinct.codes.to_list() == [*range(12), *range(12)]


def test_a_list_of_texts_is_no_other_list() -> None:
    """Whatever its texts look like."""
    lists: list[object] = [[], ["a", "b"], ["ab"], ["1"], [1], ["[1]"], [[1]], "[1]", ["texts"], [None]]
    assert number_values([*lists, *lists]).codes.to_list() == [*range(10), *range(10)]


def test_the_order_of_keys_makes_a_difference() -> None:
    """Two mappings print alike only if their keys are in the same order."""
    assert len(number_values([{"a": 1, "b": 2}, {"b": 2, "a": 1}]).values) == 2


def test_troubles_are_the_same_when_all_their_parts_are() -> None:
    """Message, hint, column and kind."""
    troubles = [
        RowTrouble("m"),
        RowTrouble("m"),
        RowTrouble("m", hint="h"),
        RowTrouble("m", column="c"),
        RowTrouble("m", is_undefined=True),
        RowTrouble("n"),
    ]
    assert number_values(troubles).codes.to_list() == [0, 0, 1, 2, 3, 4]
    assert number_values(["m", RowTrouble("m")]).codes.to_list() == [0, 1]


def test_spreading_gives_each_row_its_value() -> None:
    """As long as the table."""
    assert Distinct(["a", 1], codes(1, 0, 1)).spread() == [1, "a", 1]
    assert len(Distinct(["a", 1], codes(1, 0, 1))) == 3


def test_a_constant_is_one_value_for_every_row() -> None:
    """Also for no rows at all."""
    assert make_constant(["A"], 2).spread() == [["A"], ["A"]]
    assert make_constant("A", 0).spread() == []
    assert make_constant("A", 2).codes.dtype == pl.UInt32


def test_two_numberings_become_one() -> None:
    """Rows stay where they are, and a value that both have is one value."""
    mask = pl.Series([True, False, True, False])
    both = merge_distinct(mask, Distinct(["a", "b"], codes(1, 0)), Distinct(["c", "a"], codes(0, 1)))
    assert both.values == ["a", "b", "c"]
    assert both.spread() == ["b", "c", "a", "a"]
    assert both.codes.dtype == pl.UInt32
