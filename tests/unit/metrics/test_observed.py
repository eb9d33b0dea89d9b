from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest

from answerkey.metrics.observed import merge_parts, observe, write_label
from answerkey.types import Scores

MakeScores = Callable[..., Scores]


def test_combinations_are_counted_once(make_scores: MakeScores) -> None:
    """Equal rows become one combination with its count."""
    scores = make_scores({"x": [1.0, 1.0, 0.0]}, {"y": ["A", "A", None]})
    assert sorted(observe(scores, ["x", "y"]).counts, key=repr) == [((0.0, None), 1), ((1.0, "A"), 2)]


def test_decimals_are_floats(make_scores: MakeScores) -> None:
    """A decimal column counts as floats."""
    assert observe(make_scores({"x": [Decimal("0.5")]}), ["x"]).counts == [((0.5,), 1)]


def test_failed_and_excluded_is_failed(make_scores: MakeScores) -> None:
    """A sample is left out for one reason only; that it has no score comes first."""
    scores = make_scores({"x": [None]}, status=["FAILED"], excluded_by=["rule"])
    assert observe(scores, ["x"]).left_out == {"failed": 1}


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
