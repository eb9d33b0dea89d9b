"""However samples are ordered and cut into chunks, every metric gives the same values, bit for
bit.
"""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import samples_from_frame

from answerkey.metrics import METRICS, Mean, Metric, RowFacts, describe_rows, wilson
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
from answerkey.metrics.python import PythonMetric, list_scores
from answerkey.metrics.task_counts import count_rows
from answerkey.types import Completion, Completions, MetricValue, Scores

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
    WeightedAverage("real", "weight"),
    WeightedAverage("predicted", {"A": 0.1, "B": 0.2, "C": 1 / 3}),
    Precision("weight", "count"),
    Recall("is_correct", "count"),
    F1Score("weight", "count", "is_correct"),
    BinaryClassification("truth", "predicted", "A", "B"),
    MulticlassClassification("truth", "predicted"),
    Calibration("real", "is_correct"),
)

#: Sums stay finite whatever the snippet's order of summing: `fsum` rounds once.
SNIPPET = PythonMetric(
    "import math\n"
    "def compute_metrics(scores):\n"
    "    return {'total': math.fsum(score.values['weight'] or 0 for score in scores), "
    "'n': len(scores)}\n"
)

Row = dict[str, object]
reals = (
    st.floats(allow_nan=True, allow_infinity=True)
    | st.none()
    | st.sampled_from([0.1, 0.2, -0.0, 1e16, 1.0])
)
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
    }
)


def make_scores(sampled: Sequence[Row]) -> Scores:
    """Return the scores of these rows; `mixed` has no common type and is stored as JSON."""
    values = pl.DataFrame(
        {
            "is_correct": pl.Series([row["is_correct"] for row in sampled], dtype=pl.Float64),
            "real": pl.Series([row["real"] for row in sampled], dtype=pl.Float64),
            "mixed": pl.Series([_encode(row["mixed"]) for row in sampled], dtype=pl.String),
            "weight": pl.Series([row["weight"] for row in sampled], dtype=pl.Float64),
            "count": pl.Series([row["count"] for row in sampled], dtype=pl.Int64),
        }
    )
    metadata = pl.DataFrame(
        {
            "truth": pl.Series([row["truth"] for row in sampled], dtype=pl.String),
            "predicted": pl.Series([row["predicted"] for row in sampled], dtype=pl.String),
        }
    )
    frame = pl.DataFrame(
        {
            "status": pl.Series([row["status"] for row in sampled], dtype=pl.String),
            "reason": pl.Series([None] * len(sampled), dtype=pl.String),
            "values": values.to_struct(),
            "metadata": metadata.to_struct(),
            "excluded_by": pl.Series([row["excluded_by"] for row in sampled], dtype=pl.String),
        }
    )
    return Scores(frame, frozenset({"mixed"}))


def _encode(value: object) -> str | None:
    return None if value is None else json.dumps(value)


def cut_rows(sampled: Sequence[Row], cuts: Sequence[int]) -> list[Sequence[Row]]:
    """Return the rows cut at these places; chunks may be empty."""
    places = [0, *sorted(min(cut, len(sampled)) for cut in cuts), len(sampled)]
    return [sampled[start:end] for start, end in pairwise(places)]


def write_values(values: Sequence[MetricValue]) -> str:
    """Return the values as text that differs if any bit differs; refuses NaN."""
    return json.dumps([asdict(value) for value in values], allow_nan=False)


@pytest.mark.parametrize("metric", SHARED_METRICS, ids=repr)
@settings(max_examples=40 if IS_LONG else 6)
@given(sampled=st.lists(rows, min_size=1, max_size=30), choose=st.data())
def test_order_and_chunks_change_nothing(
    metric: Metric, sampled: list[Row], choose: st.DataObject
) -> None:
    """A table in one chunk or many, and in another order, gives identical values."""
    whole = metric.compute(make_scores(sampled))
    shuffled = choose.draw(st.permutations(sampled))
    chunks = cut_rows(shuffled, choose.draw(st.lists(st.integers(0, 30), max_size=4)))
    assert write_values(metric.compute(join_chunks(chunks))) == write_values(whole)


def join_chunks(chunks: Sequence[Sequence[Row]]) -> Scores:
    """Return a table of scores that was written in chunks."""
    tables = [make_scores(chunk) for chunk in chunks]
    return Scores(pl.concat([table.frame for table in tables]), tables[0].encoded)


@settings(max_examples=5)
@given(
    sampled=st.lists(rows, min_size=1, max_size=20), cuts=st.lists(st.integers(0, 20), max_size=3)
)
def test_snippet_sees_the_same_scores_in_any_chunks(sampled: list[Row], cuts: list[int]) -> None:
    """A snippet's values do not depend on the chunks, and not on the order if its own arithmetic
    does not.
    """
    finite = [row | {"real": None, "mixed": None} for row in sampled]
    whole = make_scores(finite)
    assert list_scores(join_chunks(cut_rows(finite, cuts))) == list_scores(whole)
    turned = make_scores(finite[::-1])
    assert write_values(SNIPPET.compute(turned)) == write_values(SNIPPET.compute(whole))


def test_every_metric_type_is_under_these_laws() -> None:
    """A new metric type comes with its property."""
    assert {metric.type for metric in (*SHARED_METRICS, SNIPPET)} == set(METRICS)


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
    empty: Row = dict.fromkeys(
        ("excluded_by", "is_correct", "real", "mixed", "weight", "count", "truth", "predicted")
    )
    return {**empty, "status": "SCORED", **given_values}


@given(sampled=st.lists(st.tuples(st.sampled_from("ABCD"), letters), min_size=1, max_size=40))
def test_accuracy_is_the_same_by_either_road(sampled: list[tuple[str, str | None]]) -> None:
    """Multiclass accuracy is the mean of is_correct, with the same interval."""
    scores = make_scores(
        [
            _fill(truth=truth, predicted=said, is_correct=float(truth == said))
            for truth, said in sampled
        ]
    )
    (mean,) = Mean("is_correct").compute(scores)
    accuracy = MulticlassClassification("truth", "predicted").compute(scores)[0]
    assert (accuracy.value, accuracy.interval, accuracy.n) == (mean.value, mean.interval, mean.n)


@given(sampled=st.lists(rows, min_size=1, max_size=30))
def test_frequencies_sum_to_one(sampled: list[Row]) -> None:
    """The counts behind the shares of a field add up to all that count."""
    values = Frequency("mixed").compute(make_scores(sampled))
    shares = [value.details["count"] for value in values if value.value is not None]
    assert sum(int(str(share)) for share in shares) == values[0].n


@given(n=st.integers(1, 10**9), share=st.floats(0, 1))
def test_interval_holds_the_share(n: int, share: float) -> None:
    """The interval lies in [0, 1] around its share."""
    successes = round(n * share)
    low, high = wilson(successes, n)
    assert 0 <= low <= successes / n <= high <= 1


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
    assert (
        counts["scored"] + counts["failed"] + counts["errors"] == counts["samples"] == len(sampled)
    )
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
