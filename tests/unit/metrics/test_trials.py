from __future__ import annotations

import math
from itertools import combinations, permutations

import polars as pl
import pytest

from answerkey.metrics import (
    UNBIASED,
    WITH_K,
    Aggregator,
    AggregatorName,
    ScoreAggregator,
    Trials,
    aggregate_scores,
    compare_repetitions,
    measure_agreement,
)
from answerkey.metrics.trials import average_orders, holds_shares
from answerkey.types import MetricValue

from .conftest import make_scores

TWO = Trials(2)


RICH = Trials(
    3,
    (
        ScoreAggregator("is_correct", Aggregator("pass@k", 2)),
        ScoreAggregator("is_correct", Aggregator("mean")),
    ),
)


def test_values_become_their_mean() -> None:
    """Without an aggregator a value is its mean, under its own name and under `.mean`."""
    found = aggregate_scores(make_scores({"is_correct": [1.0, 0.0, 1.0, 1.0]}), TWO)
    assert [dict(score.values) for score in found.rows()] == [
        {"is_correct.mean": 0.5, "is_correct": 0.5},
        {"is_correct.mean": 1.0, "is_correct": 1.0},
    ]


def test_the_bare_name_means_the_first_aggregator() -> None:
    """`is_correct` is what the first aggregator makes of it; each has its own name beside it."""
    found = aggregate_scores(make_scores({"is_correct": [1, 0, 0, 0, 0, 0]}), RICH)
    columns = {name: found.column(name) for name in RICH.names_of("is_correct")}
    assert {name: column.to_list() for name, column in columns.items() if column is not None} == {
        "is_correct": [2 / 3, 0.0],
        "is_correct.pass@2": [2 / 3, 0.0],
        "is_correct.mean": [1 / 3, 0.0],
    }


def test_a_sample_is_scored_when_all_its_trials_are() -> None:
    """One failed call puts the whole sample in error, one failed score fails it; no trial counts as 0."""
    scores = make_scores(
        {"is_correct": [1.0, None, None, 1.0, None, None]},
        status=["SCORED", "FAILED", "FAILED", "SCORED", "FAILED", "ERROR"],
    )
    found = aggregate_scores(scores, TWO)
    assert found.frame["status"].to_list() == ["FAILED", "FAILED", "ERROR"]
    values = found.column("is_correct")
    assert values is not None
    assert values.to_list() == [None, None, None]


def test_actions_keep_out_whole_samples() -> None:
    """The rule that keeps a sample out is the sample's."""
    scores = make_scores({"x": [1, 1, 1, 1]}, excluded_by=["rule", "rule", None, None])
    assert aggregate_scores(scores, TWO).frame["excluded_by"].to_list() == ["rule", None]


def test_what_is_no_number_becomes_a_list() -> None:
    """Metadata, and values that are no numbers, are what each trial says, in order."""
    scores = make_scores(
        {"label": ["a", 1, 2, 3]},
        {"choice": ["A", "B", None, "B"]},
        encoded=["label"],
    )
    rows = [(dict(score.values), dict(score.metadata)) for score in aggregate_scores(scores, TWO).rows()]
    assert rows == [
        ({"label": ["a", 1]}, {"choice": ["A", "B"]}),
        ({"label": [2, 3]}, {"choice": [None, "B"]}),
    ]


def test_a_null_value_has_no_aggregate() -> None:
    """A trial that is scored without a value leaves the sample without one."""
    found = aggregate_scores(make_scores({"x": [1.0, None, 0.0, 1.0]}), TWO).column("x")
    assert found is not None
    assert found.to_list() == [None, 0.5]


def test_lists_are_told_trial_by_trial() -> None:
    """What each trial lists stays apart, also where trials list the same."""
    words = [["A", "B"], ["B", "A"], ["A", "B"], ["A", "B"]]
    shares = [[0.5, 0.25], [1.0], [0.5, 0.25], [1.0]]
    scores = make_scores({"x": [1, 1, 1, 1]}, {"choices": words, "shares": shares})
    rows = [dict(score.metadata) for score in aggregate_scores(scores, TWO).rows()]
    assert rows == [
        {"choices": words[:2], "shares": shares[:2]},
        {"choices": words[2:], "shares": shares[2:]},
    ]


def test_lists_keep_their_letters() -> None:
    """What trials say is stored as it is written, not as escapes."""
    scores = make_scores({"x": [1, 1]}, {"choice": ["é", "答"]})
    assert aggregate_scores(scores, TWO).frame["metadata"].struct.field("choice").to_list() == ['["é", "答"]']


def test_minus_zero_is_told_apart_from_zero() -> None:
    """Two samples whose trials differ only by a sign are two rows."""
    scores = make_scores({"x": [1, 1, 1, 1]}, {"y": [0.0, 1.0, -0.0, 1.0]})
    rows = [str(score.metadata["y"]) for score in aggregate_scores(scores, TWO).rows()]
    assert rows == ["[0.0, 1.0]", "[-0.0, 1.0]"]


def test_aggregates_of_shares_are_known_by_the_value_they_begin_with() -> None:
    """`is_correct.pass@2` is a share because `is_correct` is 0 or 1; a name of nothing is none."""
    scores = make_scores({"is_correct": [1, 0], "x": [0.5, 1.0]})
    names = ("is_correct", "is_correct.pass@2", "x", "x.mean", "other", "other.mean", "")
    assert [holds_shares(scores, name) for name in names] == [True, True, False, False, False, False, False]
    assert holds_shares(make_scores({"x": [1, "a"]}, encoded=["x"]), "x") is False


def test_values_after_one_that_is_listed_are_aggregated() -> None:
    """Each value is what it is, wherever it stands."""
    scores = make_scores({"label": ["a", "b"], "x": [1.0, 0.0]})
    (row,) = [dict(score.values) for score in aggregate_scores(scores, TWO).rows()]
    assert row == {"label": ["a", "b"], "x.mean": 0.5, "x": 0.5}


def test_statuses_are_ranked_by_severity() -> None:
    """A call that failed is worse than a row that failed, and any of them worse than a score."""
    statuses = ["SCORED", "SCORED", "SCORED", "FAILED", "ERROR", "FAILED"]
    scores = make_scores({"x": [1.0, 1.0, 1.0, None, None, None]}, status=statuses)
    assert aggregate_scores(scores, TWO).frame["status"].to_list() == ["SCORED", "FAILED", "ERROR"]


THREE_OF_FIVE = (1.0, 0.0, 1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("function", "k", "value"),
    [
        ("mean", None, 0.6),
        ("min", None, 0.0),
        ("max", None, 1.0),
        ("pass@k", 1, 0.6),
        ("pass@k", 2, 0.9),
        ("pass@k", 5, 1.0),
        ("pass^k", 1, 0.6),
        ("pass^k", 2, 0.3),
        ("pass^k", 3, 0.1),
        ("pass^k", 5, 0.0),
        ("pass@k_plugin", 5, 0.98976),
        ("pass^k_plugin", 5, 0.07776),
        ("pass@k_plugin", 2, 0.84),
    ],
)
def test_three_of_five_trials(function: AggregatorName, k: int | None, value: float) -> None:
    """Three successes in five trials give these numbers, rounded once."""
    assert Aggregator(function, k).apply(THREE_OF_FIVE) == value


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("right", [0, 1, 2, 3, 4])
def test_unbiased_forms_count_the_ways_to_draw_k_trials(right: int, k: int) -> None:
    """pass@k is the share of draws of k trials with a success, pass^k the share with nothing else."""
    trials = [1] * right + [0] * (4 - right)
    draws = list(combinations(trials, k))
    assert Aggregator("pass@k", k).apply(trials) == sum(any(draw) for draw in draws) / len(draws)
    assert Aggregator("pass^k", k).apply(trials) == sum(all(draw) for draw in draws) / len(draws)


@pytest.mark.parametrize("function", ["mean", "min", "max", "pass@k", "pass^k"])
def test_the_order_of_trials_does_not_matter(function: AggregatorName) -> None:
    """Any order of the same trials gives the same number, bit for bit."""
    one = Aggregator(function, 2 if function in WITH_K else None)
    trials = (0.0, 1.0, 1.0) if function in UNBIASED else (0.1, 0.2, 1e17)
    assert len({one.apply(order) for order in permutations(trials)}) == 1


def test_a_mean_is_exact() -> None:
    """Sums are not rounded on the way."""
    assert Aggregator("mean").apply((1e16, 1.0, -1e16)) == 1 / 3
    assert Aggregator("mean").apply((True, False, True)) == 2 / 3


@pytest.mark.parametrize("function", ["pass@k", "pass^k"])
def test_unbiased_forms_need_zeros_and_ones(function: AggregatorName) -> None:
    """A trial that is neither a success nor a failure, or too few trials, give no number."""
    assert Aggregator(function, 1).apply((0.5, 1.0)) is None
    assert Aggregator(function, 3).apply((0, 1)) is None


def test_plugin_forms_take_any_share() -> None:
    """The mean stands for p, if it is a share at all."""
    assert Aggregator("pass@k_plugin", 2).apply((0.5, 0.5)) == 0.75
    assert Aggregator("pass^k_plugin", 2).apply((0.5, 0.5)) == 0.25
    assert Aggregator("pass@k_plugin", 2).apply((3.0, 0.0)) is None
    assert Aggregator("pass^k_plugin", 2).apply((-1.0, 0.0)) is None


def test_a_missing_trial_is_never_a_zero() -> None:
    """A null or a text among the trials gives no number; a value that is not finite stays visible."""
    assert Aggregator("mean").apply((1.0, None)) is None
    assert Aggregator("max").apply((1.0, "yes")) is None
    assert Aggregator("mean").apply(()) is None
    assert math.isnan(Aggregator("mean").apply((1.0, math.inf)) or 0)


def test_labels_have_k_filled_in() -> None:
    """The label is how a metric names the aggregate."""
    labels = [Aggregator(name, k).label for name, k in LABELLED]
    assert labels == ["mean", "pass@3", "pass^10", "pass@2_plugin"]


LABELLED: list[tuple[AggregatorName, int | None]] = [
    ("mean", None),
    ("pass@k", 3),
    ("pass^k", 10),
    ("pass@k_plugin", 2),
]


def test_without_k_one_trial_is_drawn() -> None:
    """`pass@k` is then the mean."""
    assert Aggregator("pass@k").apply([1, 0, 0, 0]) == 0.25
    assert Aggregator("pass^k").apply([1, 0, 0, 0]) == 0.25


def test_a_share_of_all_is_within_the_ends() -> None:
    """The plug-in estimates take 0 and 1."""
    for function in ("pass@k_plugin", "pass^k_plugin"):
        assert [Aggregator(function, 3).apply(values) for values in ([1, 1], [0, 0])] == [1.0, 0.0]
        assert Aggregator(function, 3).apply([1, 2]) is None


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


def test_what_is_no_number_is_listed_for_each_sample() -> None:
    """Words become the list of what the rows say; one value that is not finite spoils its mean."""
    owners = pl.Series(["a", "a", "b", "b"])
    mixed = make_scores({"x": ["yes", 1, None, "no"], "y": [1, 0, 1, 0]}, encoded=["x", "y"])
    assert [dict(one.values) for one in average_orders(mixed, owners).rows()] == [
        {"x": ["yes", 1], "y": 0.5},
        {"x": [None, "no"], "y": 0.5},
    ]
    endless = average_orders(make_scores({"x": [1.0, float("inf"), 1.0, None]}), owners).column("x")
    assert endless is not None
    assert str(endless.to_list()) == "[nan, None]"
