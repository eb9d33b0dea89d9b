"""Laws of the names of values, before there are any."""

from __future__ import annotations

import polars as pl
import pytest

from answerkey.metrics import Frequency, Mean, Metric, PythonMetric, ValueNames, foresee_names
from answerkey.metrics.classification import (
    BinaryClassification,
    F1Score,
    MulticlassClassification,
    Precision,
)
from answerkey.metrics.moments import Max, StdDev, WeightedAverage
from answerkey.types import Scores

METRICS: list[Metric] = [
    Mean("is_correct"),
    Mean("is_correct", "Accuracy"),
    Max("hits"),
    StdDev("hits"),
    Frequency("label"),
    WeightedAverage("label", {"a": 1.0, "b": 0.0}),
    Precision("hits", "misses"),
    F1Score("hits", "misses", "misses", "F"),
    BinaryClassification("label", "said", "a", "b"),
    MulticlassClassification("label", "said"),
]


def make_scores() -> Scores:
    """Return three scored samples."""
    values = pl.DataFrame(
        {
            "is_correct": [1.0, 0.0, 1.0],
            "hits": [1, 0, 2],
            "misses": [0, 1, 1],
            "label": ["a", "b", "a"],
            "said": ["a", "a", "b"],
        }
    )
    nothing = pl.Series([None] * 3, dtype=pl.String)
    columns = {"status": ["SCORED"] * 3, "reason": nothing, "values": values.to_struct()}
    return Scores(pl.DataFrame({**columns, "metadata": values.to_struct(), "excluded_by": nothing}))


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: type(metric).__name__)
def test_every_value_has_a_name_that_was_foreseen(metric: Metric) -> None:
    """What a metric is called before there are scores is what it is called afterwards."""
    found = [value.name for value in metric.finish(metric.merge([metric.measure(make_scores())]))]
    names = foresee_names(metric)
    assert all(names.allow(name) for name in found)
    assert set(names.names) <= set(found)


def test_a_name_that_no_value_can_have_is_refused() -> None:
    """A plain metric has one name; labels stand between an opening and an ending."""
    assert not foresee_names(Mean("is_correct")).allow("accuracy")
    assert not foresee_names(Frequency("label")).allow("lable_a")
    classes = foresee_names(MulticlassClassification("label", "said"))
    assert classes.allow("a_precision")
    assert not classes.allow("precision")
    assert not classes.allow("a_accuracy")


def test_a_function_of_the_users_own_may_name_its_values_anything() -> None:
    """Nothing can be said about a snippet before it runs."""
    assert foresee_names(PythonMetric("def compute_metrics(scores): return {}")).allow("whatever")


@pytest.mark.parametrize(
    ("metric", "is_share"),
    [(Mean("is_correct"), True), (Mean("score"), False), (Frequency("label"), True), (Max("hits"), False)],
)
def test_what_lies_between_0_and_1_is_known(metric: Metric, *, is_share: bool) -> None:
    """Right or wrong, and shares by their kind."""
    assert foresee_names(metric).is_share is is_share


def test_patterns_need_room_for_both_ends() -> None:
    """`a_mean` fits what begins with `a` and ends with `_mean`; the ends may touch but not overlap."""
    names = ValueNames(("x",), (("ab", "bc"),))
    assert [names.allow(name) for name in ("x", "abbc", "ab-bc", "abc", "bc", "y")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
