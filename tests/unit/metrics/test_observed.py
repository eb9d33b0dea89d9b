from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from decimal import Decimal

import pytest

from answerkey.metrics.base import (
    MANY,
    PartBuilder,
    ValueCounts,
    count_values,
    find_many,
    is_finite,
    merge_parts,
    sort_keys,
    write_label,
)
from answerkey.types import Scores

MakeScores = Callable[..., Scores]


def test_combinations_are_counted_once(make_scores: MakeScores) -> None:
    """Equal rows become one combination with its count."""
    scores = make_scores({"x": [1.0, 1.0, 0.0]}, {"y": ["A", "A", None]})
    assert sorted(count_values(scores, ["x", "y"]).counts, key=repr) == [((0.0, None), 1), ((1.0, "A"), 2)]


def test_decimals_are_floats(make_scores: MakeScores) -> None:
    """A decimal column counts as floats."""
    assert count_values(make_scores({"x": [Decimal("0.5")]}), ["x"]).counts == [((0.5,), 1)]


def test_failed_and_excluded_is_failed(make_scores: MakeScores) -> None:
    """A sample is left out for one reason only; that it has no score comes first."""
    scores = make_scores({"x": [None]}, status=["FAILED"], excluded_by=["rule"])
    assert count_values(scores, ["x"]).left_out == {"failed": 1}


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("a", "a"),
        (1, "1"),
        (1.0, "1.0"),
        (True, "True"),
        (["ä", 1], '["ä", 1]'),
        ({"b": 1, "a": 2}, '{"a": 2, "b": 1}'),
    ],
)
def test_label_is_the_text_of_a_value(value: object, label: str) -> None:
    """Numbers and booleans as Python prints them, nested values as JSON with sorted keys."""
    assert write_label(value) == label


def test_parts_merge_leaf_by_leaf() -> None:
    """Numbers are added, mappings merged, lists united."""
    parts = [{"n": 1, "by": {"a": 1}, "seen": ["b"]}, {"n": 2, "by": {"a": 1, "b": 5}, "seen": ["a", "b"]}]
    assert merge_parts(parts) == {"n": 3, "by": {"a": 2, "b": 5}, "seen": ["a", "b"]}
    assert merge_parts(parts) == merge_parts(reversed(parts))


def test_parts_of_different_metrics_do_not_merge() -> None:
    """A number and a mapping have no sum."""
    with pytest.raises(TypeError, match="parts of different metrics"):
        merge_parts([{"n": 1}, {"n": {}}])


def test_numbers_beyond_floats_are_not_finite() -> None:
    """A larger integer than a float holds is one of them."""
    assert [is_finite(number) for number in (1, 0.5, 10**400, float("nan"), float("inf"))] == [
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(("first", "second"), [([1], 2), ({}, []), (1, "a")])
def test_leaves_of_different_kinds_do_not_merge(first: object, second: object) -> None:
    """In either order."""
    for one, other in ((first, second), (second, first)):
        with pytest.raises(TypeError, match="parts of different metrics"):
            merge_parts([{"x": one}, {"x": other}])


def test_a_part_leaves_out_what_it_cannot_take() -> None:
    """Null, what is no number, and what is not finite; each is counted, and the rest is taken."""
    builder = PartBuilder(ValueCounts([], Counter(), ["x", "y"]))
    assert builder.take_numbers(["x", "y"], [1, 2.5], 2) == [1, 2.5]
    assert builder.take_numbers(["x", "y"], [None, 1], 3) is None
    assert builder.take_numbers(["x", "y"], [1, "a"], 4) is None
    assert builder.take_numbers(["x", "y"], [float("nan"), 1], 5) is None
    builder.leave_out("nobody", 0)
    part = builder.build(sums=1)
    assert (part["n"], part["sums"], part["names"]) == (2, 1, ["x", "y"])
    assert part["left_out"] == {"null": 3, "not_finite": 5}
    assert (part["unsuitable"], part["examples"]) == ({"y": 4}, {"y": ["'a'"]})


def test_keys_are_sorted_at_every_depth() -> None:
    """So that parts of equal content are equal as text."""
    assert json.dumps(sort_keys({"b": {"d": 1, "c": 2}, "a": 3})) == '{"a": 3, "b": {"c": 2, "d": 1}}'


@pytest.mark.parametrize(("distinct", "is_many"), [(MANY, False), (MANY + 1, True)])
def test_a_field_is_summed_when_nearly_all_its_numbers_differ(
    make_scores: MakeScores, distinct: int, *, is_many: bool
) -> None:
    """A glance at the first rows decides; what comes later does not."""
    first = [float(number % distinct) for number in range(2 * MANY)]
    scores = make_scores({"x": first + [float(number) for number in range(10_000, 10_000 + 2 * MANY)]})
    assert (find_many(scores, "x") is not None) == is_many
    assert find_many(scores, "y") is None
