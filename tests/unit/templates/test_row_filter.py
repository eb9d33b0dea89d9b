"""Laws of row filters: values are compared by value, not by how a file happened to store them."""

from __future__ import annotations

import pickle
from typing import get_args

import polars as pl
import pytest
from tests.samples import read_cases, samples_from_frame

from answerkey.errors import SpecError
from answerkey.templates import FilterOp, RowError, RowFilter

CASES = read_cases(__file__)


def matches(op: FilterOp, cell: object, value: object = None) -> bool:
    """Say whether a cell matches."""
    return RowFilter(op, "{{ sample.x }}", value).matches(sample={"x": cell})


@pytest.mark.parametrize(
    ("cell", "value", "equal"),
    [
        *CASES["equality"],
        *(("9" * 5000, 3, False), ("a", "a", True), ("a", "A", False), (True, "true", True)),
    ],
)
def test_equality_is_by_value(cell: object, value: object, equal: bool) -> None:  # noqa: FBT001 - a column of the table
    """As numbers if one is a number and the other reads as one, else as text.

    Null equals only null.
    """
    assert matches("equals", cell, value) is equal
    assert matches("not_equals", cell, value) is not equal


@pytest.mark.parametrize(("cell", "value", "order"), CASES["order"])
def test_order_is_of_numbers_or_of_texts(cell: object, value: object, order: int) -> None:
    """As numbers if one is a number and the other reads as one; two texts as texts."""
    assert matches("greater_than", cell, value) is (order > 0)
    assert matches("less_than", cell, value) is (order < 0)
    assert matches("greater_or_equal", cell, value) is (order >= 0)
    assert matches("less_or_equal", cell, value) is (order <= 0)


@pytest.mark.parametrize(("cell", "value"), [(None, 3), ("a", 3), (3, "a"), (True, 0), ([1], [0])])
def test_values_without_an_order_are_the_rows_error(cell: object, value: object) -> None:
    """Nothing is quietly left out or let in."""
    with pytest.raises(RowError, match="have no order"):
        matches("greater_than", cell, value)


def test_the_message_about_order_names_both_values() -> None:
    """Value and type of each side."""
    with pytest.raises(RowError) as caught:
        matches("less_than", None, 3)
    assert caught.value.message == "None (null) and 3 (a number) have no order"


@pytest.mark.parametrize(("cell", "truth"), CASES["truth"])
def test_truth_has_several_spellings(cell: object, truth: bool) -> None:  # noqa: FBT001 - a column of the table
    """Words, digits and booleans, in any case."""
    assert matches("is_true", cell) is truth
    assert matches("is_false", cell) is not truth


@pytest.mark.parametrize("cell", [None, "", "maybe", 2, [True], "on"])
def test_what_is_neither_true_nor_false_matches_neither(cell: object) -> None:
    """Both filters leave it out."""
    assert not matches("is_true", cell)
    assert not matches("is_false", cell)


def test_in_compares_with_each_of_the_values() -> None:
    """By the rules of `equals`."""
    condition = RowFilter("in", "sample.x", values=("a", 3, None))
    assert [condition.matches(sample={"x": cell}) for cell in ("a", "3", None, "b")] == [
        True,
        True,
        True,
        False,
    ]
    opposite = RowFilter("not_in", "sample.x", values=("a", 3))
    assert [opposite.matches(sample={"x": cell}) for cell in "a3b"] == [False, False, True]


@pytest.mark.parametrize(("row", "there"), CASES["existence"])
def test_exists_asks_for_something_that_is_not_null(row: dict[str, object], there: bool) -> None:  # noqa: FBT001 - a column of the table
    """A missing column, a missing field and null are not there; an empty text is."""
    assert RowFilter("exists", "{{ sample.x.y }}").matches(sample=row) is there
    assert RowFilter("not_exists", "{{ sample.x.y }}").matches(sample=row) is not there


def test_exists_does_not_hide_other_error() -> None:
    """A broken expression is neither there nor not there."""
    with pytest.raises(RowError, match="division by zero"):
        RowFilter("exists", "{{ 1 / sample.x }}").matches(sample={"x": 0})


@pytest.mark.parametrize(
    "expression",
    ["sample.x", "{{ sample.x }}", " {{sample.x}} ", "sample['x']", "sample.x | upper | lower"],
)
def test_an_expression_may_be_bare(expression: str) -> None:
    """With or without the braces it is the same."""
    assert RowFilter("equals", expression, "a").matches(sample={"x": "a"})


def test_a_bare_expression_may_hold_brackets() -> None:
    """Braces of a mapping are no delimiters."""
    assert RowFilter("equals", "{'a': sample.x}['a']", "a").matches(sample={"x": "a"})


def test_action_filters_read_output_and_scores() -> None:
    """`solver_output` and `scores` are names of their own."""
    scores = {"mcqa": {"is_correct": 0.0}}
    assert RowFilter("equals", "scores.mcqa.is_correct", 0).matches(sample={}, scores=scores)
    output = {"output": {"choices": [{"message": {"content": "B"}}]}}
    condition = RowFilter(
        "in", "{{ solver_output.output.choices[0].message.content }}", values=("B",)
    )
    assert condition.matches(sample={}, solver_output=output)


def test_a_broken_expression_is_an_error_of_the_file() -> None:
    """It is found without any row."""
    with pytest.raises(SpecError, match="`answer` is not defined"):
        _ = RowFilter("equals", "answer", "A").template


@pytest.mark.parametrize(("op", "values"), [("in", None), ("not_in", None), ("equals", ("a",))])
def test_values_belong_to_in_and_not_in(op: FilterOp, values: tuple[object, ...] | None) -> None:
    """A filter that cannot be meant is refused."""
    with pytest.raises(SpecError, match=r"^error\[E108\]"):
        RowFilter(op, "sample.x", values=values)


def sift(condition: RowFilter, **columns: list[object]) -> list[object]:
    """Return for every row of a table whether it is kept, or the message of its error."""
    verdicts = condition.sift(samples_from_frame(pl.DataFrame(columns)))
    return [verdict.message if isinstance(verdict, RowError) else verdict for verdict in verdicts]


def test_sifting_has_one_verdict_for_each_row() -> None:
    """Kept, not kept, or the error of that row."""
    unordered = "'a' (text) and 4 (a number) have no order"
    null = "None (null) and 4 (a number) have no order"
    assert sift(RowFilter("less_than", "sample.x", 4), x=["3", "4", "a", None, "3", "a"]) == [
        *[True, False, unordered, null],
        *[True, unordered],
    ]


def test_a_missing_column_is_error_in_each_row() -> None:
    """Unless the filter asks whether it exists."""
    assert sift(RowFilter("equals", "sample.y", 4), x=[1, 2]) == ["`y` is not a column"] * 2
    assert sift(RowFilter("exists", "sample.y"), x=[1, 2]) == [False, False]
    assert sift(RowFilter("exists", "sample.x"), x=[]) == []


@pytest.mark.parametrize("op", get_args(FilterOp))
def test_every_op_has_its_rule(op: FilterOp) -> None:
    """No name of the format is without one."""
    values = ("a",) if op in {"in", "not_in"} else None
    assert isinstance(RowFilter(op, "sample.x", "b", values).matches(sample={"x": "a"}), bool)


def test_a_filter_can_be_sent_to_another_process() -> None:
    """Also after it was used."""
    condition = RowFilter("equals", "sample.x", "a")
    assert condition.matches(sample={"x": "a"})
    again = pickle.loads(pickle.dumps(condition))  # noqa: S301 - our own bytes
    assert again == condition
    assert again.matches(sample={"x": "a"})


@pytest.mark.parametrize("name", ["solver_output", "scores"])
def test_the_filter_of_a_dataset_sees_the_row_alone(name: str) -> None:
    """What comes after solving is known to actions only."""
    condition = RowFilter("exists", f"{name}.x")
    assert condition.template.kind == "expression"
    with pytest.raises(SpecError, match=f"`{name}` is not defined") as caught:
        condition.sift(samples_from_frame(pl.DataFrame({"x": [1]})))
    assert caught.value.code == "E112"
