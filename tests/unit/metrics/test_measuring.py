from __future__ import annotations

import polars as pl
import pytest
from scipy.stats import sem

from answerkey.metrics import (
    Aggregator,
    Design,
    Frequency,
    KeyedMetric,
    Mean,
    Metric,
    Part,
    PythonMetric,
    ScoreAggregator,
    Trials,
    finish_metric,
    measure_metrics,
)
from answerkey.metrics.classification import MulticlassClassification
from answerkey.metrics.moments import WeightedAverage
from answerkey.types import MetricValue, Samples, Scores

from .conftest import ScoresMaker

TRIALS = Trials(2)


def conclude(metric: Metric, *shards: Scores, trials: Trials | None = TRIALS) -> dict[str, MetricValue]:
    """Return a metric's values over shards, by name."""
    one = KeyedMetric("m", metric)
    parts = [measure_metrics([one], shard, number_samples(shard), trials)[0] for shard in shards]
    return {value.name: value for value in finish_metric(one, parts, trials)}


def number_samples(scores: Scores) -> Samples:
    """Return samples without columns, as many as there are scores."""
    return Samples(pl.DataFrame(), pl.Series(range(len(scores))).cast(pl.String))


def test_without_trials_nothing_changes(make_scores: ScoresMaker) -> None:
    """A metric over samples that were asked once is what it always was."""
    value = conclude(Mean("x"), make_scores({"x": [1.0, 0.0]}), trials=None)["x_mean"]
    assert (value.value, value.n, value.interval_method, dict(value.details)) == (
        0.5,
        2,
        "wilson",
        {"count": 1, "of": 2},
    )


def test_a_metric_sees_samples(make_scores: ScoresMaker) -> None:
    """`n` counts samples, and the interval is that of their means, kept within [0, 1] for right and wrong."""
    value = conclude(Mean("is_correct"), make_scores({"is_correct": [1, 0, 1, 1]}))["is_correct_mean"]
    assert (value.value, value.n, value.interval_method) == (0.75, 2, "student_t")
    assert (value.interval, value.std_error, value.is_share) == ((0.0, 1.0), 0.25, True)
    assert dict(value.details) == {
        "num_trials": 2,
        "counts": "samples",
        "aggregates": {"is_correct": "mean"},
    }


def test_aggregates_that_are_all_zero_or_one_have_an_interval(make_scores: ScoresMaker) -> None:
    """`min` of right and wrong is a share of samples."""
    trials = Trials(2, (ScoreAggregator("is_correct", Aggregator("min")),))
    value = conclude(Mean("is_correct.min"), make_scores({"is_correct": [1, 0, 1, 1]}), trials=trials)
    assert value["is_correct.min_mean"].value == 0.5
    assert value["is_correct.min_mean"].interval_method == "wilson"


def test_metadata_is_counted_per_trial(make_scores: ScoresMaker) -> None:
    """There is no aggregate of a letter: `n` counts trials, and the trials of a sample are one cluster."""
    letters = ["A", "B", "A", "A", "A", "A", "B", "B", "A", "B", "A", "A"]
    value = conclude(Frequency("letter"), make_scores({"x": [1] * 12}, {"letter": letters}))["letter_A"]
    shares = [0.5, 1, 1, 0, 0.5, 1]
    assert (value.value, value.n, value.interval_method) == (8 / 12, 12, "clustered_wilson")
    assert value.std_error == pytest.approx(sem(shares), rel=1e-14)
    assert (value.details["counts"], value.details["clusters"]) == ("trials", 6)


def test_few_samples_have_no_interval_for_their_trials(make_scores: ScoresMaker) -> None:
    """Trials of two samples are two clusters, however many they are."""
    scores = make_scores({"x": [1, 0, 1, 1]}, {"letter": ["A", "B", "A", "A"]})
    value = conclude(Frequency("letter"), scores)["letter_A"]
    assert (value.value, value.interval) == (0.75, None)
    assert value.interval_note == "an interval needs at least 5 samples, there are 2"


def test_classification_of_metadata_is_counted_per_trial(make_scores: ScoresMaker) -> None:
    """Truth and prediction are metadata, so each trial is classified."""
    scores = make_scores({"x": [1, 0]}, {"truth": ["A", "A"], "said": ["A", "B"]})
    value = conclude(MulticlassClassification("truth", "said"), scores)["accuracy"]
    assert (value.value, value.n) == (0.5, 2)


def test_text_in_any_shard_decides_for_all(make_scores: ScoresMaker) -> None:
    """A value that is text somewhere is counted per trial everywhere, however samples were sharded."""
    first = make_scores({"label": [1, 1]}, encoded=["label"])
    second = make_scores({"label": ["x", 1]}, encoded=["label"])
    whole = make_scores({"label": [1, 1, "x", 1]}, encoded=["label"])
    assert conclude(Frequency("label"), first, second) == conclude(Frequency("label"), whole)
    assert conclude(Frequency("label"), whole)["label_1"].value == 0.75


def test_samples_without_all_their_trials_are_left_out_and_counted(make_scores: ScoresMaker) -> None:
    """A sample with a failed call is no 0 and no half: it is in `n_excluded`."""
    scores = make_scores({"x": [1, None, 1, 1]}, status=["SCORED", "ERROR", "SCORED", "SCORED"])
    value = conclude(Mean("x"), scores)["x_mean"]
    assert (value.value, value.n, dict(value.n_excluded)) == (1.0, 1, {"error": 1})


def test_a_field_that_is_nowhere_is_named(make_scores: ScoresMaker) -> None:
    """The note lists the aggregates that there are."""
    value = conclude(Mean("is_correct.max"), make_scores({"is_correct": [1, 0]}))["is_correct.max_mean"]
    assert value.value is None
    assert "no score has the field `is_correct.max`" in str(value.note)


def order_samples(owners: str, is_extra: str | None = None, trials: int = 1) -> Samples:
    """Return samples, a letter for each order in which one is shown; `x` marks rows for a prior."""
    orders = pl.DataFrame({"base_sample_id": list(owners)})
    if is_extra is not None:
        orders = orders.with_columns(is_extra=pl.Series([mark == "x" for mark in is_extra]))
    ids = pl.Series([str(number) for number in range(len(owners))])
    frame = pl.DataFrame({"g": list(owners)})
    return Samples(frame, ids, orders=orders).repeat(trials)


def conclude_orders(
    metric: Metric, scores: Scores, samples: Samples, trials: Trials | None = None
) -> MetricValue:
    """Return the first value of a metric over samples that were shown in several orders."""
    one = KeyedMetric("m", metric)
    return finish_metric(one, measure_metrics([one], scores, samples, trials), trials)[0]


def test_orders_of_a_sample_are_one_sample(make_scores: ScoresMaker) -> None:
    """Two samples in two orders: `n` is 2, and a value is the mean over a sample's orders."""
    value = conclude_orders(Mean("x"), make_scores({"x": [1, 0, 1, 1]}), order_samples("aabb"))
    assert (value.value, value.n, value.std_error) == (0.75, 2, 0.25)
    assert (value.details["num_trials"], value.details["counts"]) == (1, "samples")


def test_orders_and_trials_of_a_sample_are_one_sample(make_scores: ScoresMaker) -> None:
    """The mean is over the trials of an order first, then over the orders."""
    scores = make_scores({"x": [1, 0, 1, 1, 0, 0, 1, 0]})
    value = conclude_orders(Mean("x"), scores, order_samples("aabb", trials=2), TRIALS)
    assert (value.value, value.n, value.std_error) == (0.5, 2, 0.25)


def test_letters_in_several_orders_are_clustered_by_sample(make_scores: ScoresMaker) -> None:
    """Words are counted row by row; the rows of a sample are one cluster, whatever their number."""
    scores = make_scores({"x": [1] * 11}, {"letter": list("ABAAABBABAB")})
    value = conclude_orders(Frequency("letter"), scores, order_samples("aabbccddeee"))
    assert (value.name, value.value, value.n) == ("letter_A", 6 / 11, 11)
    assert (value.details["clusters"], value.details["counts"]) == (5, "orders")


def test_rows_that_estimate_a_prior_count_for_the_metric_that_reads_them_alone(
    make_scores: ScoresMaker,
) -> None:
    """The mean sees one row of each sample; a metric that reads the extra rows is handed all of them."""
    scores = make_scores({"x": [1, 0, 0, 1]})
    samples = order_samples("aaab", is_extra=".xx.")
    value = conclude_orders(Mean("x"), scores, samples)
    assert (value.value, value.n) == (1.0, 2)
    assert conclude_orders(Mean("x"), scores, order_samples("aaab", is_extra="....")).n == 2
    one = KeyedMetric("m", RowCount())
    assert measure_metrics([one], scores, samples)[0]["whole"] == {"rows": 4}


class RowCount(PythonMetric):
    """How many rows there are, those for a prior among them."""

    reads_rows = True
    reads_extra = True

    def __init__(self) -> None:
        super().__init__("def compute_metrics(scores):\n    return {}\n")

    def measure(self, scores: Scores) -> Part:
        """Return the number of rows."""
        return {"rows": len(scores)}


def test_a_snippet_over_orders_sees_samples(make_scores: ScoresMaker) -> None:
    """Your own function gets one row per sample, with what all orders say in lists."""
    snippet = (
        "def compute_metrics(scores):\n    return {'n': len(scores), 'first': scores[0]['values']['x']}\n"
    )
    one = KeyedMetric("m", PythonMetric(snippet))
    scores = make_scores({"x": [1, 0, 1, 1]}, {"letter": list("ABAB")})
    values = finish_metric(one, measure_metrics([one], scores, order_samples("aabb")))
    assert {value.name: value.value for value in values} == {"n": 2.0, "first": 0.5}


def group_orders(owners: str, groups: str) -> Samples:
    """Return samples in several orders, with a group for each row."""
    orders = pl.DataFrame({"base_sample_id": list(owners)})
    ids = pl.Series([str(number) for number in range(len(owners))])
    return Samples(pl.DataFrame({"g": list(groups)}), ids, orders=orders)


def test_groups_of_orders_have_the_means_of_their_samples(make_scores: ScoresMaker) -> None:
    """Means over the orders of a sample come first, within groups as in the whole."""
    one = KeyedMetric("m", Mean("x"), Design(group_by=("g",)))
    scores = make_scores({"x": [1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1]})
    samples = group_orders("aabbccddeeff", "ppppppqqqqqq")
    (value,) = finish_metric(one, measure_metrics([one], scores, samples))
    first, second = value.groups[0].values
    assert (first.group, first.value, first.n, second.group, second.value, second.n) == (
        "p",
        0.5,
        3,
        "q",
        5 / 6,
        3,
    )
    assert first.std_error == pytest.approx(sem([0.5, 1, 0]))
    assert second.std_error == pytest.approx(sem([1, 0.5, 1]))


def test_groups_of_letters_in_several_orders_are_clustered_by_sample(make_scores: ScoresMaker) -> None:
    """Rows are counted, and the rows of a sample are one cluster of its group."""
    one = KeyedMetric("m", Frequency("letter"), Design(group_by=("g",)))
    scores = make_scores({"x": [1] * 12}, {"letter": list("ABAAABBBAAAB")})
    samples = group_orders("aabbccddeeff", "ppppppqqqqqq")
    value = finish_metric(one, measure_metrics([one], scores, samples))[0]
    first, second = value.groups[0].values
    assert (value.name, first.value, first.n, second.value, second.n) == ("letter_A", 2 / 3, 6, 0.5, 6)
    assert first.std_error == pytest.approx(sem([0.5, 1, 0.5]))
    assert second.std_error == pytest.approx(sem([0, 1, 0.5]))
    assert first.interval_note == "an interval needs at least 5 samples, there are 3"


def test_groups_of_trials_are_clustered_by_sample(make_scores: ScoresMaker) -> None:
    """Three samples, asked twice, in one group."""
    one = KeyedMetric("m", Frequency("letter"), Design(group_by=("g",)))
    frame = pl.DataFrame({"g": list("ppp")})
    samples = Samples(frame, pl.Series(list("abc"))).repeat(2)
    scores = make_scores({"x": [1] * 6}, {"letter": list("ABAAAB")})
    value = finish_metric(one, measure_metrics([one], scores, samples, TRIALS), TRIALS)[0]
    (only,) = value.groups[0].values
    assert only.std_error == pytest.approx(sem([0.5, 1, 0.5]))
    assert only.interval_note == "an interval needs at least 5 samples, there are 3"


def test_fields_of_shares_alone_make_a_share(make_scores: ScoresMaker) -> None:
    """A ratio of a count and a share under trials is no share."""
    metric = WeightedAverage("x", "w")
    part = measure_metrics(
        [KeyedMetric("m", metric)],
        make_scores({"x": [1, 0], "w": [2, 3]}),
        number_samples(make_scores({"x": [1, 0]})),
        TRIALS,
    )[0]
    assert part["is_share"] is False


def test_rows_for_a_prior_leave_the_orders_of_others_in_place(make_scores: ScoresMaker) -> None:
    """What is left of a sample is still several orders of one sample."""
    scores = make_scores({"x": [1, 0, 0, 1, 1]})
    value = conclude_orders(Mean("x"), scores, order_samples("aaabb", is_extra="..x.."))
    assert (value.value, value.n) == (0.75, 2)
