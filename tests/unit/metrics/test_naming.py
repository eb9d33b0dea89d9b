from __future__ import annotations

from answerkey.metrics import name_values
from answerkey.metrics.base import ValueGroup
from answerkey.types import MetricValue


def make_values(*names: str) -> list[MetricValue]:
    """Return values with these names."""
    return [MetricValue(name, 1.0, 1) for name in names]


def test_unique_name_stays() -> None:
    """A name that occurs once in the task stays, and the value learns where it comes from."""
    (value,) = name_values([("mcqa", "acc", "qa", "mean", make_values("Accuracy"))])
    assert (value.name, value.scorer, value.metric, value.purpose, value.type) == (
        "Accuracy",
        "mcqa",
        "acc",
        "qa",
        "mean",
    )


def test_shared_name_gets_the_metric_key() -> None:
    """Two metrics with one name are told apart by their keys; other names are left alone."""
    groups: list[ValueGroup] = [
        ("mcqa", "a", "score", "mean", make_values("x")),
        ("mcqa", "b", "score", "mean", make_values("x", "y")),
    ]
    assert [value.name for value in name_values(groups)] == ["a_x", "b_x", "y"]


def test_shared_metric_key_gets_the_scorer_key() -> None:
    """Where two scorers have a metric with the same key and name, the scorer's key comes first."""
    groups: list[ValueGroup] = [
        ("one", "mean", "score", "mean", make_values("x")),
        ("two", "mean", "score", "mean", make_values("x")),
        ("two", "other", "score", "mean", make_values("x")),
    ]
    assert [value.name for value in name_values(groups)] == ["one_mean_x", "two_mean_x", "other_x"]


def test_longer_name_never_hides_another_value() -> None:
    """A name with a key in front that is already somebody's own name goes one step further."""
    groups: list[ValueGroup] = [
        ("s", "a", "score", "mean", make_values("x")),
        ("s", "b", "score", "mean", make_values("x")),
        ("s", "c", "score", "mean", make_values("a_x")),
    ]
    assert [value.name for value in name_values(groups)] == ["s_a_x", "b_x", "a_x"]


def test_names_that_stay_equal_are_numbered() -> None:
    """Even equal names of one metric all stay in the task."""
    groups: list[ValueGroup] = [("s", "m", "score", "python", make_values("x", "x", "x"))]
    assert [value.name for value in name_values(groups)] == ["s_m_x", "s_m_x-2", "s_m_x-3"]
