from __future__ import annotations

import polars as pl
import pytest
from scipy.stats import sem

from answerkey.metrics import (
    Aggregator,
    Frequency,
    KeyedMetric,
    Mean,
    Metric,
    MulticlassClassification,
    ScoreAggregator,
    Trials,
    conclude_metric,
    measure_metrics,
)
from answerkey.types import MetricValue, Samples, Scores

from .conftest import ScoresMaker

TRIALS = Trials(2)


def conclude(metric: Metric, *shards: Scores, trials: Trials | None = TRIALS) -> dict[str, MetricValue]:
    """Return a metric's values over shards, by name."""
    one = KeyedMetric("m", metric)
    parts = [measure_metrics([one], shard, number_samples(shard), trials)[0] for shard in shards]
    return {value.name: value for value in conclude_metric(one, parts, trials)}


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
