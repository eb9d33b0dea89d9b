from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import polars as pl
import pytest

from answerkey.metrics import (
    Aggregator,
    AggregatorName,
    ScoreAggregator,
    Trials,
    aggregate_scores,
    compare_repetitions,
    measure_agreement,
)
from answerkey.metrics.trials import has_binary_trials
from answerkey.types import MetricValue, Scores

from .conftest import make_scores

TWO = Trials(2)


WAYS = (Aggregator("pass@k", 2), Aggregator("mean"))
RICH = Trials(3, tuple(ScoreAggregator("is_correct", way) for way in WAYS))


def list_values(scores: Scores) -> list[dict[str, object]]:
    """Return the aggregated values of two trials per sample."""
    return [dict(score.values) for score in aggregate_scores(scores, TWO).rows()]


def test_values_become_their_aggregates() -> None:
    """The mean without an aggregator, else what the first one makes of it.

    Each has its own name, too.
    """
    halves = [{"x.mean": 0.5, "x": 0.5}, {"x.mean": 1.0, "x": 1.0}]
    assert list_values(make_scores({"x": [1.0, 0.0, 1.0, 1.0]})) == halves
    expected = [None, 0.5]
    assert [row["x"] for row in list_values(make_scores({"x": [1.0, None, 0.0, 1.0]}))] == expected
    result = list(aggregate_scores(make_scores({"is_correct": [1, 0, 0, 0, 0, 0]}), RICH).rows())
    names = ("is_correct", "is_correct.pass@2", "is_correct.mean")
    assert RICH.names_of("is_correct") == list(names)
    assert [dict(one.values) for one in result] == [
        dict(zip(names, (2 / 3, 2 / 3, 1 / 3), strict=True)),
        dict.fromkeys(names, 0.0),
    ]


def test_a_sample_is_scored_when_all_its_trials_are() -> None:
    """One failed call puts the whole sample in error, one failed score fails it.

    No trial counts as 0. A rule that keeps a trial out keeps the sample out.
    """
    names = {"S": "SCORED", "F": "FAILED", "E": "ERROR"}
    statuses = [names[letter] for letter in "SFFSFEEFSS"]
    values = [1.0 if status == "SCORED" else None for status in statuses]
    result = aggregate_scores(make_scores({"x": values}, status=statuses), TWO)
    assert result.frame["status"].to_list() == ["FAILED", "FAILED", "ERROR", "ERROR", "SCORED"]
    assert [score.values["x"] for score in result.rows()] == [None, None, None, None, 1.0]
    scores = make_scores({"x": [1, 1, 1, 1]}, excluded_by=["rule", "rule", None, None])
    assert aggregate_scores(scores, TWO).frame["excluded_by"].to_list() == ["rule", None]


def test_values_other_than_numbers_become_lists() -> None:
    """Metadata, and values that are not numbers, become lists of the trials' values, in order."""
    choices = {"choice": ["A", "B", None, "B"]}
    scores = make_scores({"label": ["a", 1, 2, 3]}, choices, encoded=["label"])
    rows = list(aggregate_scores(scores, TWO).rows())
    assert [dict(row.values) for row in rows] == [{"label": ["a", 1]}, {"label": [2, 3]}]
    assert [dict(row.metadata) for row in rows] == [{"choice": ["A", "B"]}, {"choice": [None, "B"]}]


def test_lists_hold_the_values_of_all_trials() -> None:
    """Text is stored without escapes; -0.0 is distinguished from 0.0."""
    metadata: dict[str, Sequence[object]] = {
        "choice": ["é", "答", "", "a"],
        "y": [0.0, 1.0, -0.0, 1.0],
    }
    scores = make_scores({"x": [1] * 4}, metadata)
    stored = aggregate_scores(scores, TWO).frame["metadata"].struct.unnest()
    assert stored["choice"].to_list() == ['["é", "答"]', '["", "a"]']
    assert stored["y"].to_list() == ["[0.0, 1.0]", "[-0.0, 1.0]"]
    scores = make_scores({"label": ["a", "b"], "x": [1.0, 0.0]})
    assert list_values(scores) == [{"label": ["a", "b"], "x.mean": 0.5, "x": 0.5}]


def test_aggregates_of_shares_are_known_by_the_value_they_begin_with() -> None:
    """`is_correct.pass@2` is a share because `is_correct` is 0 or 1; an unknown name is not."""
    scores = make_scores({"is_correct": [1, 0], "x": [0.5, 1.0]})
    names = ("is_correct", "is_correct.pass@2", "x", "x.mean", "other", "other.mean", "")
    expected = [True, True, False, False, False, False, False]
    assert [has_binary_trials(scores, name) for name in names] == expected
    assert has_binary_trials(make_scores({"x": [1, "a"]}, encoded=["x"]), "x") is False


THREE_OF_FIVE = (1.0, 0.0, 1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("function", "k", "trials", "value"),
    [
        ("mean", None, THREE_OF_FIVE, 0.6), ("mean", None, (1e16, 1.0, -1e16), 1 / 3),
        ("mean", None, (True, False, True), 2 / 3), ("mean", None, (1.0, None), None),
        ("mean", None, (), None), ("min", None, THREE_OF_FIVE, 0.0),
        ("max", None, THREE_OF_FIVE, 1.0), ("max", None, (1.0, "yes"), None),
        ("pass@k", None, (1, 0, 0, 0), 0.25), ("pass@k", 1, THREE_OF_FIVE, 0.6),
        ("pass@k", 2, THREE_OF_FIVE, 0.9), ("pass@k", 5, THREE_OF_FIVE, 1.0),
        ("pass@k", 1, (0.5, 1.0), None), ("pass@k", 3, (0, 1), None),
        ("pass^k", None, (1, 0, 0, 0), 0.25), ("pass^k", 1, THREE_OF_FIVE, 0.6),
        ("pass^k", 2, THREE_OF_FIVE, 0.3), ("pass^k", 3, THREE_OF_FIVE, 0.1),
        ("pass^k", 5, THREE_OF_FIVE, 0.0), ("pass^k", 1, (0.5, 1.0), None),
        ("pass^k", 3, (0, 1), None), ("pass@k_plugin", 2, THREE_OF_FIVE, 0.84),
        ("pass@k_plugin", 5, THREE_OF_FIVE, 0.98976), ("pass@k_plugin", 2, (0.5, 0.5), 0.75),
        ("pass@k_plugin", 3, (1, 1), 1.0), ("pass@k_plugin", 3, (0, 0), 0.0),
        ("pass@k_plugin", 3, (1, 2), None), ("pass^k_plugin", 5, THREE_OF_FIVE, 0.07776),
        ("pass^k_plugin", 2, (0.5, 0.5), 0.25), ("pass^k_plugin", 3, (1, 1), 1.0),
        ("pass^k_plugin", 3, (0, 0), 0.0), ("pass^k_plugin", 2, (-1.0, 0.0), None),
    ],
)  # fmt: skip
def test_trials_have_their_aggregate(
    function: AggregatorName, k: int | None, trials: Sequence[object], value: float | None
) -> None:
    """Rounded once.

    A missing trial is never a zero, and what a function is not about gives no number. Without `k`
    one trial is drawn. The plug-in forms take any share for p, the others zeros and ones.
    """
    assert Aggregator(function, k).apply(trials) == value
    assert math.isnan(Aggregator("mean").apply((1.0, math.inf)) or 0)


def value(number: float | None, name: str = "Accuracy", kind: str = "mean") -> MetricValue:
    """Return a metric value."""
    return MetricValue(name, number, 3, type=kind, metric="m", scorer="s")


def test_repetitions_are_compared_by_name() -> None:
    """2/3, 1, 2/3, 1, 2/3 have the mean 0.8 and the sample standard deviation 0.183.

    A run without a value is left out and seen: null is no 0, and one value has no standard
    deviation. A label of a frequency that a run never saw is 0 there, so that means stay means.
    """
    numbers = [2 / 3, 1.0, 2 / 3, 1.0, 2 / 3]
    about = {"name": "Accuracy", "type": "mean", "metric": "m", "scorer": "s", "purpose": "score"}
    ends = {"mean": pytest.approx(0.8, rel=1e-15), "min": 2 / 3, "max": 1.0}
    (spread,) = compare_repetitions([[value(number)] for number in numbers])
    deviation = statistics.stdev(numbers)
    assert spread == {**about, **ends, "std_dev": deviation, "runs": 5, "values": numbers}
    runs: list[list[MetricValue]]
    cases = (([[value(None)], [value(0.5)]], [None, 0.5]), ([[value(0.5)], []], [0.5, None]))
    for runs, numbers_of in cases:
        (spread,) = compare_repetitions(runs)
        assert (spread["values"], spread["mean"], spread["std_dev"]) == (numbers_of, 0.5, None)
        assert spread["runs"] == 1
    partly = compare_repetitions([[value(0.5), value(0.5, "other")], [value(1.0)]])
    assert [entry["values"] for entry in partly] == [[0.5, 1.0], [0.5, None]]
    (spread,) = compare_repetitions([[value(0.5)], [value(1.0)]])
    assert (spread["mean"], spread["std_dev"], spread["runs"]) == (0.75, 0.125**0.5, 2)
    (spread,) = compare_repetitions([[value(None)], [value(None)]])
    expected = [None, None, None, None, 0]
    assert [spread[name] for name in ("mean", "std_dev", "min", "max", "runs")] == expected
    first = [value(1.0, "x_A", "frequency")]
    second = [value(0.5, "x_A", "frequency"), value(0.5, "x_B", "frequency")]
    _, unseen = compare_repetitions([first, second])
    assert (unseen["values"], unseen["mean"]) == ([0.0, 0.5], 0.25)


def test_the_share_of_the_modal_score() -> None:
    """The most frequent score of each sample, the smallest of equals.

    Without a score there is none.
    """
    columns = [[1.0, 0.0, 1.0, None], [1.0, 1.0, None, None], [0.0, None, None, None]]
    result = measure_agreement([pl.Series(column, dtype=pl.Float64) for column in columns])
    assert result.columns == ["score", "share", "runs"]
    assert result.rows() == [(1.0, 2 / 3, 3), (0.0, 0.5, 2), (1.0, 1.0, 1), (None, None, 0)]


def test_labels_have_k_filled_in() -> None:
    """The label is how a metric names the aggregate."""
    mean, plugin = Aggregator("mean"), Aggregator("pass@k_plugin", 2)
    expected = ["mean", "pass^10", "pass@2_plugin"]
    assert [mean.label, Aggregator("pass^k", 10).label, plugin.label] == expected
