"""The same task several times: how far its numbers, and the score of each sample, stay the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from answerkey.metrics.exact import UNIT_BITS, divide, divide_and_root, sum_exactly
from answerkey.metrics.frequency import Frequency
from answerkey.types import MetricValue


def compare_repetitions(runs: Sequence[Sequence[MetricValue]]) -> list[dict[str, Any]]:
    """Return for each metric its value in every run, their mean and their sample standard deviation.

    A run without a value is left out, and `runs` says how many there are; a label of `frequency` that a run
    never saw has the share 0 there. Metrics are in the order in which they first occur.
    """
    tables = [{value.name: value for value in run} for run in runs]
    first = {name: value for table in reversed(tables) for name, value in table.items()}
    order = dict.fromkeys(name for table in tables for name in table)
    return [
        _compare_one(first[name], [_read_value(first[name], table) for table in tables]) for name in order
    ]


def _read_value(value: MetricValue, table: dict[str, MetricValue]) -> float | None:
    if value.name in table:
        return table[value.name].value
    siblings = [one for one in table.values() if (one.scorer, one.metric) == (value.scorer, value.metric)]
    is_unseen = value.type == Frequency.type and any(one.value is not None for one in siblings)
    return 0.0 if is_unseen else None


def _compare_one(about: MetricValue, values: Sequence[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    n = len(known)
    total, squares = sum_exactly((value, 1) for value in known)
    spread = n * squares - total**2
    return {
        "name": about.name,
        "type": about.type,
        "metric": about.metric,
        "scorer": about.scorer,
        "purpose": about.purpose,
        "mean": divide(total, n << UNIT_BITS) if n else None,
        "std_dev": divide_and_root(spread, n * (n - 1) << 2 * UNIT_BITS) if n > 1 else None,
        "min": min(known, default=None),
        "max": max(known, default=None),
        "runs": n,
        "values": list(values),
    }


def measure_agreement(runs: Sequence[pl.Series]) -> pl.DataFrame:
    """Return for each sample its modal `score`, the `share` of the runs that have it, and how many `runs` do.

    Each series holds the scores of one run, row by row the same samples; null is a run without a score, which
    is left out. Of equally frequent scores the smallest is the modal one.
    """
    size = len(runs[0])
    rows = pl.int_range(0, size, eager=True).alias("row")
    cells = pl.concat([pl.DataFrame([rows, run.alias("score")]) for run in runs], how="vertical_relaxed")
    counts = cells.drop_nulls("score").group_by("row", "score").len("count")
    modal = (
        counts.sort("row", "count", "score", descending=[False, True, False])
        .group_by("row", maintain_order=True)
        .agg(pl.col("score").first(), pl.col("count").first(), pl.col("count").sum().alias("runs"))
    )
    joined = pl.DataFrame([rows]).join(modal, on="row", how="left", maintain_order="left")
    return joined.select(
        "score",
        (pl.col("count") / pl.col("runs")).alias("share"),
        pl.col("runs").fill_null(0).cast(pl.Int32),
    )
