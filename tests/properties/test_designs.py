"""However samples are ordered and cut into chunks, groups, clusters and intervals are the same,
bit for bit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import samples_from_frame

from answerkey.metrics import (
    Design,
    KeyedMetric,
    Mean,
    Metric,
    Trials,
    compute_metrics,
    describe_samples,
)
from answerkey.metrics.classification import Frequency, MulticlassClassification, Precision
from answerkey.metrics.moments import StdDev, WeightedAverage
from answerkey.types import GroupValue, MetricValue, Samples, Scores

#: `make test-long` draws three times as many examples.
IS_LONG = bool(os.environ.get("ANSWERKEY_LONG"))

Row = dict[str, object]
METRICS: tuple[Metric, ...] = (
    Mean("is_correct"),
    Mean("real"),
    StdDev("real"),
    Precision("is_correct", "count"),
    WeightedAverage("real", "count"),
    Frequency("letter"),
    MulticlassClassification("truth", "letter"),
)
DESIGNS = (
    Design(),
    Design(("group",)),
    Design(cluster_by="cluster"),
    Design(("group", "cluster"), "cluster"),
    Design(("group",), "cluster"),
)
letters = st.sampled_from(["A", "B", None])
rows = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["SCORED"] * 8 + ["FAILED"]),
        "is_correct": st.sampled_from([0.0, 1.0, None]),
        "real": st.floats(-1e6, 1e6) | st.none() | st.sampled_from([0.1, 0.2, 1e300]),
        "count": st.integers(0, 3),
        "truth": st.sampled_from(["A", "B"]),
        "letter": letters,
        "group": st.sampled_from(["x", "y", None]),
        "cluster": st.integers(0, 6) | st.none(),
    }
)


def make_tables(sampled: Sequence[Row]) -> tuple[Scores, Samples]:
    """Return the scores and the samples of these rows; ids say which row it was."""
    floats = {
        name: pl.Series([row[name] for row in sampled], dtype=pl.Float64)
        for name in ("is_correct", "real")
    }
    counts = pl.Series([row["count"] for row in sampled], dtype=pl.Int64)
    texts = {
        name: pl.Series([row[name] for row in sampled], dtype=pl.String)
        for name in ("truth", "letter", "status", "group")
    }
    frame = pl.DataFrame(
        {
            "status": texts["status"],
            "reason": pl.Series([None] * len(sampled), dtype=pl.String),
            "values": pl.DataFrame({**floats, "count": counts}).to_struct(),
            "metadata": pl.DataFrame(
                {name: texts[name] for name in ("truth", "letter")}
            ).to_struct(),
            "excluded_by": pl.Series([None] * len(sampled), dtype=pl.String),
        }
    )
    clusters = pl.Series([row["cluster"] for row in sampled], dtype=pl.Int64)
    columns = pl.DataFrame({"group": texts["group"], "cluster": clusters})
    ids = pl.Series([str(row["id"]) for row in sampled], dtype=pl.String)
    return Scores(frame), samples_from_frame(columns, ids)


def conclude(
    one: KeyedMetric, chunks: Sequence[Sequence[Row]], trials: Trials | None
) -> list[MetricValue]:
    """Return a metric's values over rows whose tables come in chunks."""
    tables = list(map(make_tables, chunks))
    scores = Scores(pl.concat([scores.frame for scores, _ in tables]))
    rows = pl.concat([describe_samples(samples, one.design.columns) for _, samples in tables])
    return compute_metrics([one], scores, rows, trials)[0]


def write_values(values: Sequence[MetricValue]) -> str:
    """Return the values as text that differs if any bit differs; refuses NaN."""
    return json.dumps([asdict(value) for value in values], allow_nan=False)


def cut_rows(sampled: Sequence[Row], cuts: Sequence[int], size: int = 1) -> list[Sequence[Row]]:
    """Return the rows cut after whole samples; chunks may be empty."""
    places = [0, *sorted(min(cut * size, len(sampled)) for cut in cuts), len(sampled)]
    return [sampled[start:end] for start, end in pairwise(places)]


@pytest.mark.parametrize("metric", METRICS, ids=repr)
@settings(max_examples=15)
@given(
    sampled=st.lists(rows, min_size=1, max_size=24),
    design=st.sampled_from(DESIGNS),
    choose=st.data(),
)
def test_order_and_chunks_change_nothing(
    metric: Metric, sampled: list[Row], design: Design, choose: st.DataObject
) -> None:
    """Values, groups, standard errors and intervals do not depend on the order or the chunks."""
    numbered = [row | {"id": number} for number, row in enumerate(sampled)]
    one = KeyedMetric("m", metric, design)
    whole = conclude(one, [numbered], None)
    shuffled = choose.draw(st.permutations(numbered))
    chunks = cut_rows(shuffled, choose.draw(st.lists(st.integers(0, 30), max_size=3)))
    assert write_values(conclude(one, chunks, None)) == write_values(whole)


@settings(max_examples=40 if IS_LONG else 6)
@given(
    sampled=st.lists(st.lists(rows, min_size=2, max_size=2), min_size=1, max_size=12),
    metric=st.sampled_from(METRICS),
    design=st.sampled_from(DESIGNS),
    cuts=st.lists(st.integers(0, 12), max_size=3),
)
def test_chunks_change_nothing_under_trials(
    sampled: list[list[Row]], metric: Metric, design: Design, cuts: list[int]
) -> None:
    """The trials of a sample stay together, and everything else is as it is without trials."""
    flat = [
        trial | {"id": number, "group": sample[0]["group"], "cluster": sample[0]["cluster"]}
        for number, sample in enumerate(sampled)
        for trial in sample
    ]
    one = KeyedMetric("m", metric, design)
    whole = conclude(one, [flat], Trials(2))
    assert write_values(conclude(one, cut_rows(flat, cuts, 2), Trials(2))) == write_values(whole)


@settings(max_examples=40 if IS_LONG else 6)
@given(
    sampled=st.lists(rows, min_size=1, max_size=30),
    metric=st.sampled_from(METRICS),
    design=st.sampled_from(DESIGNS),
)
def test_a_value_has_an_interval_or_says_why_not(
    sampled: list[Row], metric: Metric, design: Design
) -> None:
    """No number stands without its interval or the reason.

    An interval holds its value; a share's is one.
    """
    numbered = [row | {"id": number} for number, row in enumerate(sampled)]
    for value in conclude(KeyedMetric("m", metric, design), [numbered], None):
        results: list[MetricValue | GroupValue] = [value]
        for groups in value.groups:
            results += [*groups.values, groups.macro]
        for each in results:
            assert each.value is None or each.interval is not None or each.interval_note
            assert (each.interval is None) == (each.interval_method is None)
            assert each.value is not None or each.note
            if each.interval is not None and each.interval_method != "bca":
                assert each.interval[0] <= (each.value or 0) <= each.interval[1]
            if value.is_share and each.interval is not None:
                assert 0 <= each.interval[0] <= each.interval[1] <= 1
