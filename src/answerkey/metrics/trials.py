"""Trials: each sample is asked several times, and the metrics see one row per sample.

A table of trials has `num_trials` rows for each sample, one after the other, in dataset order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import polars as pl

from answerkey.metrics.aggregators import Aggregator
from answerkey.metrics.observed import is_number, read_column
from answerkey.types import EMPTY_STRUCT_FIELD, Scores, ScoreStatus

#: What stands for a score that no aggregator is given for.
DEFAULT = Aggregator("mean")

#: A sample counts as its worst trial.
SEVERITY = {ScoreStatus.ERROR.value: 4, ScoreStatus.FAILED.value: 3}


@dataclass(frozen=True)
class ScoreAggregator:
    """How the trials' values of one name become the sample's."""

    score_name: str
    aggregator: Aggregator


@dataclass(frozen=True)
class Trials:
    """How often each sample is asked, and how its values are put together."""

    num_trials: int
    score_aggregators: tuple[ScoreAggregator, ...] = ()

    def aggregators_of(self, name: str) -> list[Aggregator]:
        """Return the aggregators of a value; the first one is what its bare name means."""
        return [one.aggregator for one in self.score_aggregators if one.score_name == name] or [DEFAULT]

    def names_of(self, name: str) -> list[str]:
        """Return what the aggregates of a value are called: its own name, then one for each aggregator."""
        return [name, *(f"{name}.{one.label}" for one in self.aggregators_of(name))]


def aggregate_scores(scores: Scores, trials: Trials, listed: Collection[str] | None = None) -> Scores:
    """Return one row per sample from a table of trials.

    A sample is SCORED when all its trials are; otherwise it has the status and reason of its worst trial.
    Values become their aggregates; a value that is no number, and all metadata, become the list of what the
    trials say. With `listed`, metadata of other names stays null: nobody is going to look at it.
    """
    worst = find_worst(scores.frame["status"].replace_strict(SEVERITY, default=0), trials.num_trials)
    heads = scores.frame[worst].select("status", "reason", "excluded_by")
    values, lists = _aggregate_values(scores, trials)
    nothing = pl.repeat(None, len(heads), dtype=pl.String, eager=True)
    metadata = {
        name: nothing if listed is not None and name not in listed else _list_trials(scores, name, trials)
        for name in scores.metadata_names
    }
    is_scored = heads["status"] == ScoreStatus.SCORED.value
    frame = heads.with_columns(_pack(values, is_scored, "values"), _pack(metadata, is_scored, "metadata"))
    return Scores(frame, frozenset({*lists, *metadata}))


def find_worst(severity: pl.Series, num_trials: int) -> pl.Series:
    """Return for each sample the row of its trial with the highest severity, the first of equals."""
    rows = pl.DataFrame({"severity": severity}).with_row_index("row")
    groups = rows.group_by(pl.col("row") // num_trials, maintain_order=True).agg(
        pl.col("severity").arg_max().alias("trial")
    )
    return groups.select(pl.col("row") * num_trials + pl.col("trial")).to_series()


def holds_other(scores: Scores, name: str) -> bool:
    """Whether a field has no aggregate: metadata, or a value that is no number in some row."""
    if name not in scores.value_names:
        return name in scores.metadata_names
    return any(value is not None and not is_number(value) for value in _distinct(scores, name))


def holds_shares(scores: Scores, name: str) -> bool:
    """Whether all trials of a value, or of the value that an aggregate's name begins with, are 0 or 1."""
    base = name if name in scores.value_names else name.rpartition(".")[0]
    if base not in scores.value_names:
        return False
    column = scores.frame["values"].struct.field(base).drop_nulls().unique()
    values = [json.loads(text) for text in column] if base in scores.encoded else column.to_list()
    return all(value in (0, 1) for value in values)


def _distinct(scores: Scores, name: str) -> list[object]:
    column = scores.frame["values"].struct.field(name)
    if name in scores.encoded:
        return [None if text is None else json.loads(text) for text in column.unique().to_list()]
    return [0] if column.dtype.is_numeric() or column.dtype == pl.Boolean else column.drop_nulls().to_list()


def _aggregate_values(scores: Scores, trials: Trials) -> tuple[dict[str, pl.Series], list[str]]:
    """Return the aggregates by name, and which of them are lists as JSON text."""
    values: dict[str, pl.Series] = {}
    lists: list[str] = []
    for name in scores.value_names:
        if holds_other(scores, name):
            values[name] = _list_trials(scores, name, trials)
            lists.append(name)
            continue
        told = _read_trials(scores, name, trials)
        first, *rest = trials.names_of(name)
        for label, aggregator in zip(rest, trials.aggregators_of(name), strict=True):
            values[label] = told.map(aggregator.apply, pl.Float64())
        values[first] = values[rest[0]]
    return values, lists


@dataclass(frozen=True)
class _Told:
    """What the trials of samples say: each distinct row of it, and which of them each sample has."""

    rows: Sequence[tuple[object, ...]]
    codes: pl.Series

    def map(self, function: Callable[[tuple[object, ...]], object], dtype: pl.DataType) -> pl.Series:
        """Return the function's value for each sample; equal rows are computed once."""
        return pl.Series([function(row) for row in self.rows], dtype=dtype).gather(self.codes)


def _read_trials(scores: Scores, name: str, trials: Trials) -> _Told:
    """Return what the trials of each sample say, decoded; values come before metadata of the same name."""
    column = read_column(scores, name)
    size = trials.num_trials
    table = pl.DataFrame([column.gather_every(size, place).alias(str(place)) for place in range(size)])
    first = _find_first(table)
    leaders = first.unique().sort()
    rows = table[leaders].rows()
    if name in scores.encoded:
        rows = [tuple(None if text is None else json.loads(text) for text in row) for row in rows]
    return _Told(rows, leaders.search_sorted(first).cast(pl.UInt32))


def _find_first(table: pl.DataFrame) -> pl.Series:
    """Return for each row the first one that is the same; -0.0, which is printed apart, is not 0.0."""
    if not all(dtype.is_numeric() or dtype in _COMPARED for dtype in table.dtypes):
        return pl.int_range(table.height, dtype=pl.UInt32, eager=True)
    floats = [name for name, dtype in table.schema.items() if dtype.is_float()]
    signs = [((pl.col(name) == 0) & (1 / pl.col(name) < 0)).alias(f"sign {name}") for name in floats]
    keys = table.with_columns(signs)
    return keys.with_row_index("row").select(pl.col("row").min().over(keys.columns)).to_series()


_COMPARED = (pl.String, pl.Boolean, pl.List(pl.String))


def _list_trials(scores: Scores, name: str, trials: Trials) -> pl.Series:
    return _read_trials(scores, name, trials).map(_write_list, pl.String())


def _write_list(row: tuple[object, ...]) -> str:
    return json.dumps(row, ensure_ascii=False, default=str)


def _pack(columns: dict[str, pl.Series], is_scored: pl.Series, name: str) -> pl.Series:
    """Return columns as a struct whose fields are null unless the sample is scored."""
    blank = pl.Series([None] * len(is_scored), dtype=pl.Boolean)
    table = pl.DataFrame(columns or {EMPTY_STRUCT_FIELD: blank})
    return table.select(pl.when(is_scored).then(pl.col(one)).alias(one) for one in table.columns).to_struct(
        name
    )
