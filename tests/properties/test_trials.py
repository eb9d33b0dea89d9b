"""Aggregates are exact; neither the order of trials nor the chunks of samples change anything."""

from __future__ import annotations

import os
from fractions import Fraction
from math import comb
from random import Random

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import samples_from_frame

from answerkey.metrics import (
    Aggregator,
    KeyedMetric,
    Mean,
    Metric,
    ScoreAggregator,
    Trials,
    aggregate_scores,
    compute_metrics,
    describe_samples,
)
from answerkey.metrics.classification import Frequency
from answerkey.metrics.moments import Max, StdDev
from answerkey.types import EMPTY_STRUCT_FIELD, MetricValue, Samples, Scores

#: `make test-long` draws three times as many examples.
IS_LONG = bool(os.environ.get("ANSWERKEY_LONG"))

OUTCOMES = st.lists(st.booleans(), min_size=1, max_size=12)
REALS = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8)
NUM_TRIALS = 3
TRIALS = Trials(
    NUM_TRIALS,
    (
        ScoreAggregator("is_correct", Aggregator("mean")),
        ScoreAggregator("is_correct", Aggregator("pass@k", 2)),
        ScoreAggregator("is_correct", Aggregator("pass^k", 2)),
    ),
)
METRICS: tuple[Metric, ...] = (
    Mean("is_correct"),
    Mean("is_correct.pass@2"),
    StdDev("is_correct.pass^2"),
    Mean("real"),
    Max("real"),
    Frequency("letter"),
    Frequency("is_correct"),
)


@given(OUTCOMES, st.data())
def test_pass_at_k_is_the_combinatorial_estimator(
    outcomes: list[bool], data: st.DataObject
) -> None:
    """pass@k is 1 - C(n-c, k)/C(n, k), pass^k is C(c, k)/C(n, k), as the nearest floats."""
    k = data.draw(st.integers(1, len(outcomes)))
    n, right = len(outcomes), sum(outcomes)
    at_least_one = 1 - Fraction(comb(n - right, k), comb(n, k))
    assert Aggregator("pass@k", k).apply(outcomes) == float(at_least_one)
    assert Aggregator("pass^k", k).apply(outcomes) == float(Fraction(comb(right, k), comb(n, k)))


@given(OUTCOMES)
def test_one_draw_is_the_mean(outcomes: list[bool]) -> None:
    """For k = 1 all four forms are the mean."""
    forms = [Aggregator(name, 1) for name in ("pass@k", "pass^k", "pass@k_plugin", "pass^k_plugin")]
    assert {form.apply(outcomes) for form in forms} == {Aggregator("mean").apply(outcomes)}


@given(REALS, st.randoms(use_true_random=False))
def test_a_mean_is_exact_in_any_order(numbers: list[float], random: Random) -> None:
    """The mean is the nearest float to the true one, whatever the order."""
    truth = float(sum(map(Fraction, numbers)) / len(numbers))
    mixed = list(numbers)
    random.shuffle(mixed)
    assert Aggregator("mean").apply(numbers) == truth
    assert Aggregator("mean").apply(mixed) == truth


STATUSES = st.sampled_from(["SCORED", "SCORED", "SCORED", "SCORED", "FAILED", "ERROR"])
TRIAL = st.tuples(
    STATUSES, st.integers(0, 1), st.floats(-1e9, 1e9), st.sampled_from(["A", "B", None])
)
TABLE = st.lists(st.lists(TRIAL, min_size=NUM_TRIALS, max_size=NUM_TRIALS), min_size=1, max_size=12)
Sample = list[tuple[str, int, float, str | None]]


def make_scores(samples: list[Sample]) -> Scores:
    """Return the table of these trials."""
    rows = [trial for sample in samples for trial in sample]
    is_scored = [row[0] == "SCORED" for row in rows]
    values = pl.DataFrame(
        {
            "is_correct": [
                float(row[1]) if one else None for row, one in zip(rows, is_scored, strict=True)
            ],
            "real": [row[2] if one else None for row, one in zip(rows, is_scored, strict=True)],
        },
        schema={"is_correct": pl.Float64, "real": pl.Float64},
    )
    letters = [row[3] if one else None for row, one in zip(rows, is_scored, strict=True)]
    metadata = pl.DataFrame(
        {name: pl.Series(letters, dtype=pl.String) for name in ("letter", "answer_pred")}
    )
    frame = pl.DataFrame(
        {
            "status": [row[0] for row in rows],
            "reason": pl.Series([None] * len(rows), dtype=pl.String),
            "values": values.to_struct(),
            "metadata": metadata.to_struct(),
            "excluded_by": pl.Series([None] * len(rows), dtype=pl.String),
        }
    )
    return Scores(frame)


def conclude(chunks: list[Scores]) -> list[list[MetricValue]]:
    """Return the values of all metrics over a table that comes in chunks."""
    keyed = [KeyedMetric(metric.type, metric) for metric in METRICS]
    scores = Scores(pl.concat([chunk.frame for chunk in chunks]))
    rows = describe_samples(number_samples(scores), ())
    return compute_metrics(keyed, scores, rows, TRIALS)


def number_samples(scores: Scores) -> Samples:
    """Return samples without columns, as many as there are scores."""
    return samples_from_frame(pl.DataFrame(), pl.Series(range(len(scores))).cast(pl.String))


@settings(max_examples=60 if IS_LONG else 10)
@given(TABLE, st.data())
def test_neither_chunks_nor_the_order_of_trials_matter(
    samples: list[Sample], data: st.DataObject
) -> None:
    """However samples are cut into chunks and their trials are ordered, the values are the same."""
    cut = data.draw(st.integers(0, len(samples)))
    mixed = [data.draw(st.permutations(sample)) for sample in samples]
    whole = conclude([make_scores(samples)])
    chunks = [part for part in (mixed[:cut], mixed[cut:]) if part]
    assert conclude([make_scores(part) for part in chunks]) == whole


@settings(max_examples=60 if IS_LONG else 10)
@given(TABLE)
def test_every_sample_is_one_row(samples: list[Sample]) -> None:
    """There is one row for each sample, SCORED exactly when all its trials are."""
    result = aggregate_scores(make_scores(samples), TRIALS)
    expected = [all(trial[0] == "SCORED" for trial in sample) for sample in samples]
    assert [status == "SCORED" for status in result.frame["status"]] == expected
    assert EMPTY_STRUCT_FIELD not in result.value_names
