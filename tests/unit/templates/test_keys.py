"""Laws of the columns that tell rows apart, and of the groups of rows that are alike."""

from __future__ import annotations

import polars as pl
import pytest

from answerkey.templates.analysis import Path, Step
from answerkey.templates.keys import Unkeyed, find_keys, find_value_keys, group_rows
from answerkey.types import Samples


def path(*keys: str | int) -> Path:
    """Return a path of attributes and, for numbers, of subscripts."""
    return tuple(Step("subscript" if isinstance(key, int) else "attribute", key) for key in keys)


def make_samples(*encoded: str, **columns: object) -> Samples:
    """Return a table of these columns."""
    frame = pl.DataFrame(columns, strict=False)
    return Samples(frame, pl.Series([str(n) for n in range(frame.height)]), encoded=frozenset(encoded))


def group(way: Path, samples: Samples, *, is_lone: bool = False) -> list[int]:
    """Return the number of each row's group."""
    keys = find_keys(way, samples, is_lone=is_lone)
    assert not isinstance(keys, Unkeyed)
    return group_rows(keys, len(samples)).codes.to_list()


def test_rows_are_grouped_by_value() -> None:
    """Groups are numbered by their first rows; null is a value like any other."""
    assert group(path("a"), make_samples(a=["x", "y", None, "x", None])) == [0, 1, 2, 0, 2]


def test_groups_lead_to_their_first_rows() -> None:
    """One leader for each group, in order; keys count together."""
    keys = [pl.Series([1, 1, 2, 1]), pl.Series(["a", "b", "a", "a"])]
    groups = group_rows(keys, 4)
    assert (groups.leaders.to_list(), groups.codes.to_list()) == ([0, 1, 2], [0, 1, 2, 0])
    assert groups.codes.dtype == pl.UInt32


@pytest.mark.parametrize(("height", "leaders", "codes"), [(3, [0], [0, 0, 0]), (0, [], [])])
def test_without_keys_all_rows_are_alike(height: int, leaders: list[int], codes: list[int]) -> None:
    """A template that reads nothing is rendered once, and not at all for no rows."""
    groups = group_rows([], height)
    assert (groups.leaders.to_list(), groups.codes.to_list()) == (leaders, codes)


def test_null_empty_and_nothing_stay_apart_at_any_depth() -> None:
    """A null list is not an empty one, and a null struct is not one of nulls."""
    lists = [None, [], [None], None, [], ["a"]]
    assert group(path("a"), make_samples(a=lists)) == [0, 1, 2, 0, 1, 3]
    structs = pl.Series([None, {"k": None}, None, {"k": 1}], dtype=pl.Struct({"k": pl.Int64}))
    assert group(path("a"), make_samples(a=structs)) == [0, 1, 0, 2]
    inside = pl.Series([[None], [{"k": None}], [None]], dtype=pl.List(pl.Struct({"k": pl.Int64})))
    assert group(path("a"), make_samples(a=inside)) == [0, 1, 0]


def test_only_the_field_that_is_read_counts() -> None:
    """The rest of a struct may differ; that it is null counts."""
    meta = [{"k": "x", "rest": 1}, {"k": "x", "rest": 2}, {"k": None, "rest": 1}, None]
    assert group(path("meta", "k"), make_samples(meta=meta)) == [0, 0, 1, 2]
    assert group(path("meta"), make_samples(meta=meta)) == [0, 1, 2, 3]


def test_only_the_element_that_is_read_counts() -> None:
    """And how long the list is, which is in the error about an index outside it."""
    lists = [["x", "a"], ["x", "b"], ["x"], [], None, ["x", None], [None, "x"]]
    samples = make_samples(a=lists)
    assert group(path("a", 0), samples) == [0, 0, 1, 2, 3, 0, 4]
    assert group(path("a", -1), samples) == [0, 1, 2, 3, 4, 5, 6]
    assert group(path("a", 2**40), samples) == [0, 1, 2, 3, 4, 5, 6]


def test_a_step_that_leaves_the_shape_reads_the_whole_value() -> None:
    """A method, a character, a key of a list: the value decides."""
    assert group(path("a", 0), make_samples(a=["xy", "xz", "xy"])) == [0, 1, 0]
    assert group(path("a", "upper"), make_samples(a=["x", "y", "x"])) == [0, 1, 0]
    assert group(path("a", "k"), make_samples(a=[["x"], ["y"]])) == [0, 1]


def test_a_field_that_is_not_there_reads_nothing_but_whether_its_struct_is() -> None:
    """Unless it is a method, which can read all of it when it is called."""
    samples = make_samples(meta=[{"k": 1}, {"k": 2}, None])
    assert group(path("meta", "kex"), samples) == [0, 0, 1]
    assert group(path("meta", "items"), samples) == [0, 1, 2]
    assert group(path("meta", "items"), samples, is_lone=True) == [0, 0, 1]
    assert group((*path("meta"), Step("subscript", "items")), samples) == [0, 0, 1]


def test_a_column_that_is_not_there_reads_nothing() -> None:
    """Every row has the same trouble."""
    samples = make_samples(a=[1, 2])
    assert group(path("b"), samples) == [0, 0]
    assert group((Step("subscript", 0),), samples) == [0, 0]
    assert group(path("keys"), samples, is_lone=True) == [0, 0]


def test_a_method_of_the_row_may_read_all_of_it() -> None:
    """Where no column has its name, no columns tell rows apart."""
    found = find_keys(path("keys"), make_samples(a=[1, 2]), is_lone=False)
    assert found == Unkeyed("there is no column `keys`, which leaves the method of the row")
    assert find_keys((), make_samples(a=[1]), is_lone=False) == Unkeyed("it uses the row as a whole")
    assert group(path("keys"), make_samples(keys=["x", "y", "x"])) == [0, 1, 0]


def test_an_encoded_cell_counts_by_its_text() -> None:
    """Its type is in the text: `1` and `"1"` differ."""
    assert group(path("a", "k"), make_samples("a", a=["1", '"1"', "1", None])) == [0, 1, 0, 2]


def test_the_two_zeros_are_two_values() -> None:
    """They equal each other and print differently."""
    assert group(path("a"), make_samples(a=[0.0, -0.0, 0.0, None, 1.0])) == [0, 1, 0, 2, 3]
    assert group(path("a"), make_samples(a=[float("nan"), 1.0, float("nan")])) == [0, 1, 0]


@pytest.mark.parametrize(
    "series",
    [
        pl.Series([[0.0], [-0.0]]),
        pl.Series([{"k": 0.0}, {"k": -0.0}]),
        pl.Series([[{"k": [0.0]}], [{"k": [-0.0]}]]),
        pl.Series(["2026-01-02"]).str.to_date(),
        pl.Series([["2026-01-02"]]).list.eval(pl.element().str.to_date()),
    ],
)
def test_values_that_columns_cannot_tell_apart_are_rendered_one_by_one(series: pl.Series) -> None:
    """A negative zero inside a list, and types that datasets do not have."""
    assert find_value_keys(series) is None
    found = find_keys(path("a"), make_samples(a=series), is_lone=False)
    assert found == Unkeyed("the values of column `a` cannot be told apart by the column library")


def test_lists_and_structs_of_floats_without_a_negative_zero_are_told_apart() -> None:
    """The column is its own key."""
    for series in (pl.Series([[0.5], [], None]), pl.Series([{"k": 0.5, "n": 1}])):
        keys = find_value_keys(series)
        assert keys is not None
        assert len(keys) == 1


def test_many_different_texts_are_grouped_as_few_are() -> None:
    """Beyond a thousand of them another way is taken, to the same groups."""
    texts = [str(number % 1_001) for number in range(2_500)]
    found = group_rows([pl.Series(texts)], len(texts))
    assert found.codes.to_list() == [number % 1_001 for number in range(2_500)]
    assert found.leaders.to_list() == list(range(1_001))
