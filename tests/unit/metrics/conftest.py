"""Scores for the laws of metrics, written as lists of values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from answerkey.metrics import Metric
from answerkey.types import EMPTY_STRUCT_FIELD, MetricValue, Scores


def make_scores(
    values: Mapping[str, Sequence[object]],
    metadata: Mapping[str, Sequence[object]] | None = None,
    *,
    status: Sequence[str] | None = None,
    excluded_by: Sequence[str | None] | None = None,
    encoded: Sequence[str] = (),
) -> Scores:
    """Return scores with these columns; a name in `encoded` is stored as JSON text."""
    height = len(next(iter(values.values())))
    frame = pl.DataFrame(
        {
            "status": status or ["SCORED"] * height,
            "reason": pl.Series([None] * height, dtype=pl.String),
            "values": _make_struct(values, height, encoded),
            "metadata": _make_struct(metadata or {}, height, encoded),
            "excluded_by": pl.Series(list(excluded_by or [None] * height), dtype=pl.String),
        }
    )
    return Scores(frame, frozenset(encoded))


def _make_struct(
    columns: Mapping[str, Sequence[Any]], height: int, encoded: Sequence[str]
) -> pl.Series:
    stored = {name: list(cells) for name, cells in columns.items()}
    for name in stored.keys() & set(encoded):
        stored[name] = [None if cell is None else json.dumps(cell) for cell in stored[name]]
    return pl.DataFrame(stored or {EMPTY_STRUCT_FIELD: [None] * height}).to_struct()


def compute(metric: Metric, scores: Scores) -> dict[str, MetricValue]:
    """Return a metric's values by name."""
    return {value.name: value for value in metric.compute(scores)}
