"""However samples are ordered and cut into chunks, every metric gives the same values, groups and
intervals, bit for bit; aggregates of trials are exact.
"""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from itertools import chain, pairwise
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import samples_from_frame

from answerkey.metrics import (
    METRICS,
    Aggregator,
    Design,
    KeyedMetric,
    Mean,
    Metric,
    RowFacts,
    ScoreAggregator,
    Trials,
    compute_metrics,
    describe_rows,
    describe_samples,
)
from answerkey.metrics.classification import (
    BinaryClassification,
    Calibration,
    F1Score,
    Frequency,
    MulticlassClassification,
    Precision,
    Recall,
)
from answerkey.metrics.moments import Max, Min, StdDev, WeightedAverage
from answerkey.metrics.task_counts import count_rows
from answerkey.types import Completion, Completions, GroupValue, MetricValue, Samples, Scores

#: `make test-long` draws three times as many examples.
IS_LONG = bool(os.environ.get("ANSWERKEY_LONG"))

SHARED_METRICS: tuple[Metric, ...] = (
    Mean("is_correct"),
    Mean("real"),
    Mean("mixed"),
    Max("real"),
    Min("mixed"),
    StdDev("real"),
    StdDev("is_correct"),
    Frequency("mixed"),
    Frequency("predicted"),
    WeightedAverage("predicted", {"A": 0.1, "B": 0.2, "C": 1 / 3}),
    Precision("weight", "count"),
    Recall("is_correct", "count"),
    F1Score("weight", "count", "is_correct"),
    BinaryClassification("truth", "predicted", "A", "B"),
    MulticlassClassification("truth", "predicted"),
    Calibration("real", "is_correct"),
)

COLUMN_LISTS = ((), ("group",), ("group", "cluster"))
DESIGNS = [Design(by, cluster) for by in COLUMN_LISTS for cluster in (None, "cluster")]
TRIALS = Trials(
    2,
    (
        ScoreAggregator("is_correct", Aggregator("mean")),
        ScoreAggregator("is_correct", Aggregator("pass@k", 2)),
        ScoreAggregator("is_correct", Aggregator("pass^k", 2)),
    ),
)
OF_TRIALS = (*SHARED_METRICS, Mean("is_correct.pass@2"), StdDev("is_correct.pass^2"))


Row = dict[str, object]
reals = st.none() | st.sampled_from([0.1, 0.2, -0.0, 1e16, 1.0])
reals |= st.floats(allow_nan=True, allow_infinity=True)
mixed = st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.none() | st.integers(0, 2)
weights = st.floats(0, 1e6) | st.none()
letters = st.sampled_from(["A", "B", "C", None])
rows = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["SCORED"] * 6 + ["FAILED", "ERROR"]),
        "excluded_by": st.sampled_from([None] * 6 + ["rule"]),
        "is_correct": st.sampled_from([0.0, 1.0, None]),
        "real": reals,
        "mixed": mixed,
        "weight": weights,
        "count": st.integers(0, 3) | st.none(),
        "truth": letters,
        "predicted": letters,
        "group": st.sampled_from(["x", "y", None]),
        "cluster": st.integers(0, 6) | st.none(),
    }
)
designs = st.sampled_from(DESIGNS)
cut_places = st.lists(st.integers(0, 30), max_size=4)


TEXTS = ("status", "excluded_by")
COLUMNS: dict[str, dict[str, pl.DataType]] = {
    "values": {
        "is_correct": pl.Float64(),
        "real": pl.Float64(),
        "mixed": pl.String(),
        "weight": pl.Float64(),
        "count": pl.Int64(),
    },
    "metadata": {"truth": pl.String(), "predicted": pl.String()},
}


def make_scores(sampled: Sequence[Row]) -> Scores:
    """Return the scores of these rows; `mixed` has no common type and is stored as JSON."""
    encoded = [{**row, "mixed": _encode(row["mixed"])} for row in sampled]
    columns = {name: pl.Series([row[name] for row in sampled], dtype=pl.String) for name in TEXTS}
    for name, schema in COLUMNS.items():
        columns[name] = pl.DataFrame(encoded, schema, strict=False).to_struct(name)
    frame = pl.DataFrame(columns).with_columns(reason=pl.lit(None, pl.String))
    return Scores(frame, frozenset({"mixed"}))


def _encode(value: object) -> str | None:
    return None if value is None else json.dumps(value)


def make_samples(sampled: Sequence[Row]) -> Samples:
    """Return the samples of these rows."""
    schema = {"group": pl.String(), "cluster": pl.Int64()}
    ids = pl.Series([str(row["id"]) for row in sampled], dtype=pl.String)
    return samples_from_frame(pl.DataFrame(list(sampled), schema), ids)


def measure(
    metric: Metric, design: Design, chunks: Sequence[Sequence[Row]], trials: Trials | None = None
) -> list[MetricValue]:
    """Return a metric's values over rows whose tables come in chunks."""
    facts = [describe_samples(make_samples(chunk), design.columns) for chunk in chunks]
    keyed = KeyedMetric("m", metric, design)
    return compute_metrics([keyed], join_chunks(chunks), pl.concat(facts), trials)[0]


def number_rows(sampled: Sequence[Row]) -> list[Row]:
    """Return the rows with ids."""
    return [row | {"id": number} for number, row in enumerate(sampled)]


def cut_rows(sampled: Sequence[Row], cuts: Sequence[int]) -> list[Sequence[Row]]:
    """Return the rows cut at these places; chunks may be empty."""
    places = [0, *sorted(min(cut, len(sampled)) for cut in cuts), len(sampled)]
    return [sampled[start:end] for start, end in pairwise(places)]


def write_values(values: Sequence[MetricValue]) -> str:
    """Return the values as text that differs if any bit differs; refuses NaN."""
    return json.dumps([asdict(value) for value in values], allow_nan=False)


@pytest.mark.parametrize("metric", SHARED_METRICS, ids=repr)
@settings(max_examples=40 if IS_LONG else 10)
@given(sampled=st.lists(rows, min_size=1, max_size=30), design=designs, choose=st.data())
def test_order_and_chunks_change_nothing(
    metric: Metric, sampled: list[Row], design: Design, choose: st.DataObject
) -> None:
    """A table in one chunk or many, and in another order, gives identical values, groups, standard
    errors and intervals.
    """
    numbered = number_rows(sampled)
    whole = measure(metric, design, [numbered])
    chunks = cut_rows(choose.draw(st.permutations(numbered)), choose.draw(cut_places))
    assert write_values(measure(metric, design, chunks)) == write_values(whole)


@settings(max_examples=60 if IS_LONG else 15)
@given(
    sampled=st.lists(st.lists(rows, min_size=2, max_size=2), min_size=1, max_size=12),
    metric=st.sampled_from(OF_TRIALS),
    design=designs,
    choose=st.data(),
)
def test_neither_chunks_nor_the_order_of_trials_matter(
    sampled: list[list[Row]], metric: Metric, design: Design, choose: st.DataObject
) -> None:
    """However samples are cut into chunks and their trials are ordered, the values are the same."""
    samples = []
    for number, trials in enumerate(sampled):
        # An action keeps out all trials of a sample, or none.
        shared = {name: trials[0][name] for name in ("group", "cluster", "excluded_by")}
        shared["id"] = number
        samples.append([trial | shared for trial in trials])
    mixed_trials = [choose.draw(st.permutations(trials)) for trials in samples]
    cut = choose.draw(st.integers(0, len(samples)))
    chunks = [list(chain(*part)) for part in (mixed_trials[:cut], mixed_trials[cut:])]
    whole = measure(metric, design, [list(chain(*samples))], TRIALS)
    assert write_values(measure(metric, design, chunks, TRIALS)) == write_values(whole)


@settings(max_examples=60 if IS_LONG else 15)
@given(
    sampled=st.lists(rows, min_size=1, max_size=30),
    metric=st.sampled_from(SHARED_METRICS),
    design=designs,
)
def test_no_number_stands_alone(sampled: list[Row], metric: Metric, design: Design) -> None:
    """No number stands without its interval or the reason.

    An interval holds its value; a share's is one.
    """
    for value in measure(metric, design, [number_rows(sampled)]):
        results: list[MetricValue | GroupValue] = [value]
        for groups in value.groups:
            results += [*groups.values, groups.macro]
        for result in results:
            assert result.value is None or result.interval is not None or result.interval_note
            assert (result.interval is None) == (result.interval_method is None)
            assert result.value is not None or result.note
            low, high = result.interval or (0.0, 0.0)
            if result.interval is not None:
                assert low <= (result.value or 0) <= high
            if value.is_share:
                assert 0 <= low <= high <= 1


def join_chunks(chunks: Sequence[Sequence[Row]]) -> Scores:
    """Return a table of scores that was written in chunks."""
    tables = [make_scores(chunk) for chunk in chunks]
    return Scores(pl.concat([table.frame for table in tables]), tables[0].encoded)


def test_every_metric_type_is_under_these_laws() -> None:
    """A new metric type comes with its property."""
    assert {metric.type for metric in SHARED_METRICS} == set(METRICS) - {"python"}


@given(sampled=st.lists(rows, max_size=30))
def test_every_sample_is_counted_or_left_out(sampled: list[Row]) -> None:
    """Those that count and those left out add up to the samples, for every value of every
    metric.
    """
    scores = make_scores(sampled)
    for metric in SHARED_METRICS:
        for value in metric.compute(scores):
            assert value.n + sum(value.n_excluded.values()) == len(sampled)
            assert value.value is None or math.isfinite(value.value)
            assert value.value is not None or value.note


@given(numbers=st.lists(st.floats(-1e150, 1e150), min_size=2, max_size=30))
def test_moments_are_those_of_the_standard_library(numbers: list[float]) -> None:
    """Mean and deviation are the exact ones, rounded once."""
    scores = make_scores([_fill(real=number) for number in numbers])
    ((mean,), (deviation,)) = (metric.compute(scores) for metric in (Mean("real"), StdDev("real")))
    assert mean.value == float(sum(map(Fraction, numbers)) / len(numbers))
    assert deviation.value == statistics.stdev(numbers)


def _fill(**given_values: object) -> Row:
    names = ("excluded_by", *COLUMNS["values"], *COLUMNS["metadata"])
    return {**dict.fromkeys(names), "status": "SCORED", **given_values}


@given(
    sampled=st.lists(rows, min_size=1, max_size=30), cuts=st.lists(st.integers(0, 30), max_size=4)
)
def test_tally_does_not_depend_on_chunks(sampled: list[Row], cuts: list[int]) -> None:
    """The tally of consecutive chunks is the tally of the whole, examples and all, and its counts
    add up.
    """
    numbered = [row | {"id": f"{number:06d}"} for number, row in enumerate(sampled, 1)]
    whole = _tally([numbered])
    assert json.dumps(_tally(cut_rows(numbered, cuts))) == json.dumps(whole)
    counts = whole["counts"]
    assert counts["samples"] == len(sampled)
    assert counts["scored"] + counts["failed"] + counts["errors"] == len(sampled)
    assert counts["valid"] + counts["invalid"] == counts["scored"]


def _tally(chunks: Sequence[Sequence[Row]]) -> dict[str, Any]:
    rows = RowFacts.join([_describe_rows(chunk) for chunk in chunks])
    return count_rows(rows, join_chunks(chunks), "subject")


def _describe_rows(chunk: Sequence[Row]) -> RowFacts:
    ids = pl.Series([row["id"] for row in chunk], dtype=pl.String)
    category = pl.Series([row["truth"] for row in chunk], dtype=pl.String)
    samples = samples_from_frame(pl.DataFrame({"subject": category}), ids)
    texts = [row["predicted"] for row in chunk]
    completions = [Completion(None if text is None else str(text)) for text in texts]
    built = Completions.build(ids, completions, source="recorded")
    scores = {"s": make_scores(chunk)}
    return describe_rows(samples, built, scores, main="s", columns=["subject"])


REALS = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8)


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.data())
def test_pass_at_k_is_the_unbiased_estimator(outcomes: list[bool], data: st.DataObject) -> None:
    """pass@k is 1 - C(n-c, k)/C(n, k), pass^k is C(c, k)/C(n, k), as the nearest floats."""
    k = data.draw(st.integers(1, len(outcomes)))
    n, right = len(outcomes), sum(outcomes)
    at_least_one = 1 - Fraction(math.comb(n - right, k), math.comb(n, k))
    all_right = Fraction(math.comb(right, k), math.comb(n, k))
    assert Aggregator("pass@k", k).apply(outcomes) == float(at_least_one)
    assert Aggregator("pass^k", k).apply(outcomes) == float(all_right)


@given(REALS, st.randoms(use_true_random=False))
def test_a_mean_is_exact_in_any_order(numbers: list[float], random: Random) -> None:
    """The mean is the nearest float to the true one, whatever the order."""
    truth = float(sum(map(Fraction, numbers)) / len(numbers))
    shuffled = random.sample(numbers, len(numbers))
    assert Aggregator("mean").apply(numbers) == truth
    assert Aggregator("mean").apply(shuffled) == truth
