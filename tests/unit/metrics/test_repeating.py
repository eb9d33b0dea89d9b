from __future__ import annotations

import polars as pl

from answerkey.metrics import compare_repetitions, measure_agreement
from answerkey.types import MetricValue


def value(number: float | None, name: str = "Accuracy", kind: str = "mean") -> MetricValue:
    """Return a metric value."""
    return MetricValue(name, number, 3, type=kind, metric="m", scorer="s")


def test_the_documented_example() -> None:
    """2/3, 1, 2/3, 1, 2/3 have the mean 0.8 and the sample standard deviation 0.183."""
    runs = [[value(number)] for number in (2 / 3, 1.0, 2 / 3, 1.0, 2 / 3)]
    found = compare_repetitions(runs)[0]
    assert round(found["mean"], 12) == 0.8
    assert round(found["std_dev"], 3) == 0.183
    assert (found["min"], found["max"], found["runs"]) == (2 / 3, 1.0, 5)
    assert found["values"] == [2 / 3, 1.0, 2 / 3, 1.0, 2 / 3]


def test_runs_without_a_value_are_left_out_and_seen() -> None:
    """Null is no 0; one value has no standard deviation."""
    found = compare_repetitions([[value(None)], [value(0.5)]])[0]
    assert (found["mean"], found["std_dev"], found["runs"]) == (0.5, None, 1)
    assert found["values"] == [None, 0.5]


def test_a_label_that_a_run_never_saw_is_zero_there() -> None:
    """Shares of a frequency are 0 where the value does not occur, so that means stay means."""
    first = [value(1.0, "x_A", "frequency")]
    second = [value(0.5, "x_A", "frequency"), value(0.5, "x_B", "frequency")]
    found = {one["name"]: one for one in compare_repetitions([first, second])}
    assert found["x_B"]["values"] == [0.0, 0.5]
    assert found["x_B"]["mean"] == 0.25


def test_a_metric_that_a_run_lacks_has_no_value_there() -> None:
    """Any other missing value stays missing."""
    found = compare_repetitions([[value(0.5)], []])[0]
    assert found["values"] == [0.5, None]


def test_the_share_of_the_modal_score() -> None:
    """The most frequent score of each sample, the smallest of equals, and how many runs have it."""
    runs = [pl.Series([1.0, 0.0, 1.0]), pl.Series([1.0, 1.0, None]), pl.Series([0.0, None, None])]
    found = measure_agreement(runs)
    assert found["score"].to_list() == [1.0, 0.0, 1.0]
    assert found["share"].to_list() == [2 / 3, 0.5, 1.0]
    assert found["runs"].to_list() == [3, 2, 1]


def test_a_sample_without_any_score_has_no_share() -> None:
    """Nothing is made up for it."""
    found = measure_agreement([pl.Series([None, 1.0]), pl.Series([None, 1.0])])
    assert found["share"].to_list() == [None, 1.0]
    assert found["runs"].to_list() == [0, 2]


def test_a_comparison_has_all_its_fields() -> None:
    """What the value is about, and what the runs make of it."""
    assert compare_repetitions([[value(0.5)], [value(1.0)]]) == [
        {
            "name": "Accuracy",
            "type": "mean",
            "metric": "m",
            "scorer": "s",
            "purpose": "score",
            "mean": 0.75,
            "std_dev": 0.125**0.5,
            "min": 0.5,
            "max": 1.0,
            "runs": 2,
            "values": [0.5, 1.0],
        }
    ]


def test_no_value_in_any_run_has_no_numbers() -> None:
    """Neither a mean nor ends."""
    found = compare_repetitions([[value(None)], [value(None)]])[0]
    assert [found[name] for name in ("mean", "std_dev", "min", "max", "runs")] == [None, None, None, None, 0]
