"""Samples whose options are shown in several orders: which rows belong together, and what they come to.

The rows of a sample, one for each order and trial, stand one after the other.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from fractions import Fraction

import polars as pl

from answerkey.metrics.aggregators import average
from answerkey.metrics.clusters import ALIKE, WIDE, collect_named, merge_clusters
from answerkey.metrics.observed import Part, is_finite, read_column
from answerkey.metrics.registry import Metric
from answerkey.metrics.trials import SEVERITY, holds_other
from answerkey.types import EMPTY_STRUCT_FIELD, Samples, Scores, ScoreStatus


def find_owners(samples: Samples) -> pl.Series:
    """Return the id of the sample that each row is of; its own where options stand as in the file."""
    return samples.ids if samples.orders is None else samples.orders["base_sample_id"]


def find_heads(owners: pl.Series) -> pl.Series:
    """Return the positions of the first row of each sample."""
    return (owners != owners.shift()).fill_null(value=True).arg_true()


def find_worst_row(severity: pl.Series, owners: pl.Series) -> pl.Series:
    """Return for each sample its row with the highest severity, the first of equals."""
    rows = pl.DataFrame([severity.alias("severity"), owners.alias("owner")]).with_row_index("row")
    groups = rows.group_by("owner", maintain_order=True).agg(pl.col("row").get(pl.col("severity").arg_max()))
    return groups["row"]


def average_orders(scores: Scores, owners: pl.Series, listed: Collection[str] | None = None) -> Scores:
    """Return one row per sample: the mean of each value over its orders.

    A sample is SCORED when all its rows are; otherwise it has the status and reason of its worst one. What is
    no number, and all metadata, becomes the list of what the rows say. With `listed`, metadata of other names
    stays null: nobody is going to look at it.
    """
    severity = scores.frame["status"].replace_strict(SEVERITY, default=0)
    heads = scores.frame[find_worst_row(severity, owners)].select("status", "reason", "excluded_by")
    values, lists = {}, []
    for name in scores.value_names:
        told = _list_rows(scores, name, owners)
        if holds_other(scores, name):
            values[name] = _write_lists(told)
            lists.append(name)
        else:
            values[name] = _average_all(told)
    nothing = pl.repeat(None, len(heads), dtype=pl.String, eager=True)
    metadata = {
        name: nothing
        if listed is not None and name not in listed
        else _write_lists(_list_rows(scores, name, owners))
        for name in scores.metadata_names
    }
    is_scored = heads["status"] == ScoreStatus.SCORED.value
    frame = heads.with_columns(_pack(values, is_scored, "values"), _pack(metadata, is_scored, "metadata"))
    return Scores(frame, frozenset({*lists, *metadata}))


def _list_rows(scores: Scores, name: str, owners: pl.Series) -> list[list[object]]:
    """Return what the rows of each sample say, decoded."""
    table = pl.DataFrame([owners.alias("owner"), read_column(scores, name).alias("said")])
    rows: list[list[object]] = table.group_by("owner", maintain_order=True).agg("said")["said"].to_list()
    if name not in scores.encoded:
        return rows
    return [[None if text is None else json.loads(str(text)) for text in row] for row in rows]


def _average_all(rows: list[list[object]]) -> pl.Series:
    """Return the mean of each row; equal rows are computed once."""
    known: dict[tuple[object, ...], float | None] = {}
    found = []
    for row in map(tuple, rows):
        if row not in known:
            known[row] = _average(row)
        found.append(known[row])
    return pl.Series(found, dtype=pl.Float64)


def _average(values: Sequence[object]) -> float | None:
    """Return the mean, rounded once; None when a value is missing, NaN when one is not finite."""
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) < len(values):
        return None
    if not all(map(is_finite, numbers)):
        return float("nan")
    return float(average([Fraction(number) for number in numbers]))


def _write_lists(rows: list[list[object]]) -> pl.Series:
    return pl.Series([json.dumps(row, ensure_ascii=False, default=str) for row in rows], dtype=pl.String)


def _pack(columns: dict[str, pl.Series], is_scored: pl.Series, name: str) -> pl.Series:
    """Return columns as a struct whose fields are null unless the sample is scored."""
    blank = pl.repeat(None, len(is_scored), dtype=pl.Boolean, eager=True)
    table = pl.DataFrame(columns or {EMPTY_STRUCT_FIELD: blank})
    return table.select(pl.when(is_scored).then(pl.col(one)).alias(one) for one in table.columns).to_struct(
        name
    )


def collect_owned(metric: Metric, scores: Scores, owners: pl.Series) -> Part:
    """Return how often samples have the same sums over their rows."""
    kinds: Counter[str] = Counter()
    for sums in collect_named(metric, scores, [owners]).values() if metric.fields() else ():
        kinds[json.dumps(sums, sort_keys=True)] += 1
    return merge_clusters([{ALIKE: dict(kinds), WIDE: 0}])


def find_own_rows(samples: Samples) -> pl.Series | None:
    """Return which rows count: all but those that are there to estimate a prior; None where all do."""
    if samples.orders is None or "is_extra" not in samples.orders.columns:
        return None
    is_extra = samples.orders["is_extra"]
    return ~is_extra if is_extra.any() else None
