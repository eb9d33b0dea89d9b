"""Trials and orders of options: aggregate the rows of a sample into one row.

A table of trials has `num_trials` consecutive rows for each sample, in dataset order. A table of
orders has one row for each order and trial, also consecutive; samples may have different numbers of
them. Repetitions of a whole task are compared here too: how far its numbers, and the score of each
sample, stay the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import stdev
from typing import Any, Literal

import polars as pl

from answerkey.metrics.base import decode, is_finite, write_label
from answerkey.metrics.intervals import average
from answerkey.types import EMPTY_STRUCT_FIELD, MetricValue, Samples, Scores, ScoreStatus

AggregatorName = Literal[
    "mean",
    "min",
    "max",
    "pass@k",
    "pass^k",
    "pass@k_plugin",
    "pass^k_plugin",
]

#: The functions that need `k`. The unbiased ones draw k of the trials without replacement, and need
#: values that are 0 or 1.
WITH_K = frozenset({"pass@k", "pass^k", "pass@k_plugin", "pass^k_plugin"})
UNBIASED = frozenset({"pass@k", "pass^k"})

#: A sample counts as its worst row.
SEVERITY = {
    ScoreStatus.ERROR.value: 4,
    ScoreStatus.FAILED.value: 3,
}


@dataclass(frozen=True)
class Aggregator:
    """A function of a sample's trials; `k` is only for the functions in `WITH_K`."""

    function: AggregatorName
    k: int | None = None

    @property
    def label(self) -> str:
        """The name with `k` filled in: `mean`, `pass@3`, `pass^3_plugin`."""
        if self.k is None:
            return self.function
        return self.function.replace("k", str(self.k), 1)

    def apply(self, values: Sequence[object]) -> float | None:
        """Return the aggregate of one sample, rounded once and independent of the order of its
        trials.

        None if a value is missing, not a number, or unsuitable for the function; NaN if one is not
        finite.
        """
        if not values:
            return None
        numbers: list[float] = []
        for value in values:
            if not isinstance(value, int | float):
                return None
            numbers.append(value)
        if not all(map(is_finite, numbers)):
            return math.nan
        if self.function == "min":
            return float(min(numbers))
        if self.function == "max":
            return float(max(numbers))
        total = sum(map(Fraction, numbers), Fraction())
        share = total / len(numbers)
        if self.function == "mean":
            return float(share)
        if self.function not in UNBIASED:
            return self._estimate_pass(share)
        if not {0, 1}.issuperset(numbers):
            return None
        return self._count_pass(int(total), len(numbers))

    def _estimate_pass(self, share: Fraction) -> float | None:
        """Return the plug-in form, with the mean as the probability of a success."""
        if not 0 <= share <= 1:
            return None
        k = self.k or 1
        if self.function == "pass^k_plugin":
            return float(share**k)
        return float(1 - (1 - share) ** k)

    def _count_pass(self, successes: int, n: int) -> float | None:
        """Return the probability that k trials, drawn without replacement, are all successes, or
        include one.
        """
        k = self.k or 1
        if k > n:
            return None
        draws = math.comb(n, k)
        if self.function == "pass^k":
            return math.comb(successes, k) / draws
        return (draws - math.comb(n - successes, k)) / draws


#: The aggregator of scores for which none is given.
DEFAULT = Aggregator("mean")


@dataclass(frozen=True)
class ScoreAggregator:
    """How the trials' values with one name are aggregated."""

    score_name: str
    aggregator: Aggregator


@dataclass(frozen=True)
class Trials:
    """The number of trials of each sample, and the aggregators of its values."""

    num_trials: int
    score_aggregators: tuple[ScoreAggregator, ...] = ()

    def aggregators_of(self, name: str) -> list[Aggregator]:
        """Return the aggregators of a value; its bare name refers to the first one."""
        aggregators = []
        for entry in self.score_aggregators:
            if entry.score_name == name:
                aggregators.append(entry.aggregator)
        return aggregators or [DEFAULT]

    def names_of(self, name: str) -> list[str]:
        """Return the names of a value's aggregates: its own name, then one for each aggregator."""
        names = [name]
        for aggregator in self.aggregators_of(name):
            names.append(f"{name}.{aggregator.label}")
        return names


# Labels of rows, and the samples that they belong to

#: The name of the group of samples without one.
NO_GROUP = "(none)"


def label_rows(samples: Samples, column: str) -> pl.Series:
    """Return a column of the dataset as text, in the form that metrics use; null stays null."""
    labels: list[str | None] = []
    for value in samples.values(column):
        if value is None:
            labels.append(None)
        else:
            labels.append(write_label(value))
    return pl.Series(column, labels, dtype=pl.String)


def name_groups(labels: pl.Series) -> pl.Series:
    """Return labels with all unlabelled samples in one group of their own."""
    return labels.cast(pl.String).fill_null(NO_GROUP)


def name_clusters(labels: pl.Series, owners: pl.Series) -> pl.Series:
    """Return labels with each unlabelled sample in its own cluster.

    `owners` are the ids or numbers of the samples. No label begins like the names of these
    clusters.
    """
    single = "\0" + owners.cast(pl.String)
    return labels.cast(pl.String).fill_null(single)


def find_owners(samples: Samples) -> pl.Series:
    """Return the id of each row's sample, whatever the order of its options."""
    if samples.orders is None:
        return samples.ids
    return samples.orders["base_sample_id"]


def number_samples(rows: pl.DataFrame, size: int, num_trials: int) -> pl.Series:
    """Return a number for each of `size` rows, the same for all rows of a sample."""
    if "base_sample_id" in rows.columns:
        return rows["base_sample_id"].rle_id()
    return pl.int_range(size, dtype=pl.UInt32, eager=True) // num_trials


# Which rows belong together


def find_worst_rows(severity: pl.Series, owners: pl.Series) -> pl.Series:
    """Return for each sample the row with the highest severity, and the first in a tie."""
    table = pl.DataFrame({"severity": severity, "owner": owners})
    worst = pl.col("severity").arg_max()
    rows = table.with_row_index("row")
    samples = rows.group_by("owner", maintain_order=True)
    return samples.agg(pl.col("row").get(worst))["row"]


# One row per sample

#: The aggregates of each value, by their names.
Aggregators = dict[str, dict[str, Aggregator]]


def aggregate_scores(scores: Scores, trials: Trials) -> Scores:
    """Return one row per sample from a table of trials.

    A sample is SCORED if all its trials are; otherwise it has the status and reason of its worst
    trial. Values become their aggregates; values that are not numbers, and all metadata, become
    lists of the trials' values.
    """
    aggregators: Aggregators = {}
    for name in scores.value_names:
        functions = trials.aggregators_of(name)
        aggregators[name] = {name: functions[0]}
        for function in functions:
            aggregators[name][f"{name}.{function.label}"] = function
    rows = pl.int_range(len(scores), eager=True)
    return _combine_rows(scores, rows // trials.num_trials, aggregators)


def average_orders(scores: Scores, owners: pl.Series) -> Scores:
    """Return one row per sample with the mean of each value over its orders.

    Everything else is as in `aggregate_scores`.
    """
    aggregators = {name: {name: DEFAULT} for name in scores.value_names}
    return _combine_rows(scores, owners, aggregators)


def _combine_rows(
    scores: Scores,
    owners: pl.Series,
    aggregators: Aggregators,
) -> Scores:
    severity = scores.frame["status"].replace_strict(SEVERITY, default=0)
    worst_rows = find_worst_rows(severity, owners)
    worst = scores.frame[worst_rows]
    cells = _collect_cells(scores, owners)
    values: dict[str, pl.Series] = {}
    metadata: dict[str, pl.Series] = {}
    lists = list(scores.metadata_names)
    for name in scores.metadata_names:
        metadata[name] = _write_lists(cells[name])
    for name in scores.value_names:
        if has_unaggregated(scores, name):
            values[name] = _write_lists(cells[name])
            lists.append(name)
            continue
        for label, aggregator in aggregators[name].items():
            numbers = [aggregator.apply(row) for row in cells[name]]
            values[label] = pl.Series(numbers, dtype=pl.Float64)
    is_scored = worst["status"] == ScoreStatus.SCORED.value
    frame = worst.select(
        "status",
        "reason",
        "excluded_by",
        _build_struct("values", values, is_scored),
        _build_struct("metadata", metadata, is_scored),
    )
    return Scores(frame, frozenset(lists))


def _collect_cells(
    scores: Scores,
    owners: pl.Series,
) -> dict[str, list[list[Any]]]:
    """Return for each field the list of values of each sample."""
    collected = {}
    for name, column in scores.columns.items():
        rows = pl.DataFrame({"owner": owners, "cell": column})
        groups = rows.group_by("owner", maintain_order=True)
        samples = groups.agg("cell")["cell"].to_list()
        if name in scores.encoded:
            samples = list(map(decode, samples))
        collected[name] = samples
    return collected


def _write_lists(rows: Sequence[object]) -> pl.Series:
    write = json.JSONEncoder(ensure_ascii=False, default=str).encode
    return pl.Series(map(write, rows), dtype=pl.String)


def _build_struct(
    name: str,
    columns: Mapping[str, pl.Series],
    is_scored: pl.Series,
) -> pl.Series:
    """Return columns as one struct whose fields are null if a sample is not scored."""
    if not columns:
        nothing = is_scored.clear(len(is_scored))
        columns = {EMPTY_STRUCT_FIELD: nothing}
    cells = pl.when(is_scored).then(pl.all())
    return pl.DataFrame(columns).select(cells).to_struct(name)


def has_unaggregated(scores: Scores, name: str) -> bool:
    """Whether a field has no aggregate: metadata, or a value that is not a number in some row."""
    if name not in scores.value_names:
        return name in scores.metadata_names
    column = scores.columns[name].drop_nulls()
    if name not in scores.encoded:
        is_number = column.dtype.is_numeric() or column.dtype == pl.Boolean
        return not is_number and not column.is_empty()
    values = decode(column.unique())
    return not all(isinstance(value, int | float) for value in values)


def has_binary_trials(scores: Scores, name: str) -> bool:
    """Whether all trials of a value, or of the value named at the beginning of an aggregate's name,
    are 0 or 1.
    """
    base = name
    if name not in scores.value_names:
        base = name.rpartition(".")[0]
    if base not in scores.value_names:
        return False
    column = scores.columns[base].drop_nulls()
    values: Iterable[object] = column.unique()
    if base in scores.encoded:
        values = decode(values)
    return {0, 1}.issuperset(values)


# Repetitions of a whole task


def compare_repetitions(
    runs: Sequence[Sequence[MetricValue]],
) -> list[dict[str, Any]]:
    """Return for each metric its value in every run, their mean and their sample standard
    deviation.

    A run without a value is left out, and `runs` counts the others; a label of `frequency` that
    never occurs in a run has the share 0 there. Metrics are in order of first occurrence.
    """
    tables = []
    first: dict[str, MetricValue] = {}
    for run in runs:
        table = {value.name: value for value in run}
        first = table | first
        tables.append(table)
    names: dict[str, None] = {}
    for table in tables:
        names |= dict.fromkeys(table)
    return [_compare_value(first[name], tables) for name in names]


def _compare_value(
    value: MetricValue,
    tables: Sequence[Mapping[str, MetricValue]],
) -> dict[str, Any]:
    """Return the comparison of the runs for one metric value."""
    values = [_read_value(value, table) for table in tables]
    numbers = [number for number in values if number is not None]
    mean = None
    std_dev = None
    if numbers:
        mean = average(numbers)
    if len(numbers) > 1:
        std_dev = stdev(numbers)
    return {
        "name": value.name,
        "type": value.type,
        "metric": value.metric,
        "scorer": value.scorer,
        "purpose": value.purpose,
        "mean": mean,
        "std_dev": std_dev,
        "min": min(numbers, default=None),
        "max": max(numbers, default=None),
        "runs": len(numbers),
        "values": values,
    }


def _read_value(
    value: MetricValue,
    table: Mapping[str, MetricValue],
) -> float | None:
    """Return the value in one run.

    A label of `frequency` that does not occur, although others do, has the share 0.
    """
    if value.name in table:
        return table[value.name].value
    if value.type != "frequency":
        return None
    for sibling in table.values():
        is_same_scorer = sibling.scorer == value.scorer
        is_same_metric = is_same_scorer and sibling.metric == value.metric
        if is_same_metric and sibling.value is not None:
            return 0.0
    return None


def measure_agreement(runs: Sequence[pl.Series]) -> pl.DataFrame:
    """Return for each sample its modal `score`, the `share` of runs with that score, and the number
    of `runs` with a score.

    Each series has the scores of one run, with the same samples in the same rows; a null score is
    left out. Of equally frequent scores the smallest is the modal one.
    """
    rows = pl.int_range(len(runs[0]), eager=True)
    frames = []
    for run in runs:
        frames.append(pl.DataFrame({"row": rows, "run_score": run}))
    table = pl.concat(frames, how="vertical_relaxed")
    score = pl.col("run_score")
    modal = score.drop_nulls().mode().min()
    is_modal = score == modal
    samples = table.group_by("row", maintain_order=True).agg(
        modal.alias("score"),
        is_modal.mean().alias("share"),
        score.count().cast(pl.Int32).alias("runs"),
    )
    return samples.drop("row")
