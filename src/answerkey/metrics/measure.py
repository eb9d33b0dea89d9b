"""From the table of scores to metric values: as a whole, by group, and in clusters.

Under trials and orders a metric sees the aggregates, one row per sample. A metric that reads
something without an aggregate (metadata, or values that are no numbers) counts the rows instead.

Clusters are samples that are not independent: questions on one passage, or the rows of one sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

import polars as pl

from answerkey.errors import ScoringError
from answerkey.metrics.base import (
    BaseMetric,
    CountingMetric,
    Coverage,
    Labels,
    Metric,
    ValueCounts,
    count_left_out,
    sort_keys,
    split_counts,
)
from answerkey.metrics.intervals import (
    CLUSTERED_STUDENT,
    CLUSTERED_WILSON,
    Margin,
    Ratio,
    Scale,
    average,
    average_errors,
    average_shares,
    bound_value,
    measure_clustered_error,
)
from answerkey.metrics.task_counts import COUNTED_FIELDS
from answerkey.metrics.trials import (
    Trials,
    aggregate_scores,
    average_orders,
    find_first_rows,
    holds_other,
    holds_shares,
    name_clusters,
    name_groups,
    number_samples,
)
from answerkey.types import Groups, GroupValue, MetricValue, Scores, ScoreStatus

#: More groups than that are no breakdown for people; they are counted, and not listed.
MOST_GROUPS = 10_000
#: With fewer clusters there is a standard error, but no interval: it would miss too often.
FEWEST_CLUSTERS = 5

STATUSES = pl.Enum(ScoreStatus)


@dataclass(frozen=True)
class Design:
    """Columns of the dataset that put samples together, and how intervals are made.

    Each column of `group_by` gives a metric's value for each of its groups, and their average.
    Samples with the same `cluster_by` are not independent (questions on one passage), and the
    interval allows for that, with the correction C/(C-1) for few clusters.
    """

    group_by: tuple[str, ...] = ()
    cluster_by: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the samples must have."""
        if self.cluster_by is None:
            return self.group_by
        return (*self.group_by, self.cluster_by)

    @property
    def cluster_noun(self) -> str:
        """What clusters are called in notes.

        Without a column, the rows of each sample are a cluster.
        """
        return f"values of `{self.cluster_by}`" if self.cluster_by else "samples"


@dataclass(frozen=True)
class KeyedMetric:
    """A metric and its key, unique in its scorer, with the design of its samples.

    `scale` are the ends that its values cannot pass, where these are known.
    """

    key: str
    metric: Metric
    design: Design = Design()
    scale: Scale | None = None


def find_scale(metric: Metric, scales: Mapping[str, Scale]) -> Scale | None:
    """Return the scale of a metric's values from those of the fields that a scorer knows.

    None without one. Right or wrong is 1 or 0 in every scorer, and a part of an answer lies in
    between.
    """
    find = getattr(metric, "find_scale", None)
    if find is None:
        return None
    scale: Scale | None = find({"is_correct": (0.0, 1.0), **scales})
    return scale


# The rows that metrics see


@dataclass(frozen=True)
class _ScoreTable:
    """Scores with the groups and clusters of their rows, by column of the dataset.

    Where samples have several rows, `owners` are the numbers of the samples, and the rows of each
    are a cluster. `is_share` says that the numbers are aggregates of zeros and ones.
    """

    scores: Scores
    groups: Mapping[str, pl.Series]
    clusters: Mapping[str, pl.Series]
    owners: pl.Series | None = None
    is_share: bool = False

    def find_clusters(self, column: str | None) -> pl.Series | None:
        """Return the cluster of each row: by a column, or the sample; None where each is alone."""
        return self.owners if column is None else self.clusters[column]

    def take(self, rows: pl.Series) -> _ScoreTable:
        """Return the rows at these positions."""
        return _ScoreTable(
            self.scores.take(rows),
            {column: labels.gather(rows) for column, labels in self.groups.items()},
            {column: labels.gather(rows) for column, labels in self.clusters.items()},
            None if self.owners is None else self.owners.gather(rows),
            self.is_share,
        )

    def split(self, column: str) -> dict[str, _ScoreTable]:
        """Return the rows of each group."""
        labels = self.groups[column].alias("label").to_frame().with_row_index("row")
        tables = {}
        for label, rows in labels.group_by("label").agg("row").iter_rows():
            tables[label] = self.take(pl.Series(rows, dtype=pl.UInt32))
        return tables


class _Tables:
    """The tables that the metrics of one scorer see: with a row for each trial, and for each
    sample.
    """

    def __init__(
        self,
        metrics: Sequence[KeyedMetric],
        scores: Scores,
        rows: pl.DataFrame,
        trials: Trials | None,
    ) -> None:
        self._rows = rows
        self._has_trials = trials is not None
        self.trials = trials or Trials(num_trials=1)
        groups = {}
        clusters = {}
        for metric in metrics:
            for column in metric.design.group_by:
                groups[column] = name_groups(rows[f"label:{column}"])
            cluster_by = metric.design.cluster_by
            if cluster_by is not None:
                owners = number_samples(rows, len(scores), self.trials.num_trials)
                clusters[cluster_by] = name_clusters(rows[f"label:{cluster_by}"], owners)
        self.by_row = _ScoreTable(scores, groups, clusters)
        self.is_aggregated = trials is not None or "base_sample_id" in rows.columns

    @cached_property
    def by_owner(self) -> _ScoreTable:
        """The rows, of which those of a sample are a cluster."""
        size = self.trials.num_trials
        if size == 1 and "base_sample_id" not in self._rows.columns:
            return self.by_row
        owners = number_samples(self._rows, len(self.by_row.scores), size)
        return replace(self.by_row, owners=owners)

    @cached_property
    def by_sample(self) -> _ScoreTable:
        """One row for each sample: first its trials are aggregated, then its orders."""
        table = self.by_row
        size = self.trials.num_trials
        if self._has_trials:
            firsts = pl.int_range(0, len(table.scores), size, eager=True)
            scores = aggregate_scores(table.scores, self.trials)
            table = replace(table.take(firsts), scores=scores)
        if "base_sample_id" in self._rows.columns:
            owners = self._rows["base_sample_id"].gather_every(size)
            firsts = find_first_rows(owners)
            scores = average_orders(table.scores, owners.rle_id())
            table = replace(table.take(firsts), scores=scores)
        return table


def _list_fields(metrics: Sequence[KeyedMetric]) -> set[str] | None:
    """Return the fields that the metrics read; None where one does not say."""
    names: set[str] = set()
    for metric in metrics:
        metric_names = metric.metric.fields()
        if not metric_names:
            return None
        names.update(metric_names)
    return names


def shrink_scores(metrics: Sequence[KeyedMetric], frame: pl.DataFrame) -> pl.DataFrame:
    """Return the scores of one scorer as they are kept in memory.

    Texts become categories, `choices` their number. Metadata that no metric and no count reads
    becomes null.
    """
    names = _list_fields(metrics)
    if names is None:
        return frame
    metadata = frame["metadata"].struct.unnest()
    kept = names | COUNTED_FIELDS
    if "fallback_text" in metadata.columns:
        kept |= {"extraction_rule"}
    unread = [name for name in metadata.columns if name not in kept]
    metadata = metadata.with_columns(pl.lit(None).alias(name) for name in unread)
    if metadata.schema.get("choices") == pl.List(pl.String) and "choices" not in names:
        metadata = metadata.with_columns(pl.col("choices").list.len().cast(pl.UInt16))
    values = frame["values"].struct.unnest()
    texts = pl.selectors.string()
    return frame.select(
        pl.col("status").cast(STATUSES),
        pl.col("reason", "excluded_by").cast(pl.Categorical),
        values.with_columns(texts.cast(pl.Categorical)).to_struct("values"),
        metadata.with_columns(texts.cast(pl.Categorical)).to_struct("metadata"),
    )


def compute_metrics(
    metrics: Sequence[KeyedMetric],
    scores: Scores,
    rows: pl.DataFrame,
    trials: Trials | None = None,
) -> list[list[MetricValue]]:
    """Return the values of each metric; one that cannot be computed is a null with the reason.

    `rows` says what is known of each row of the scores, see `RowFacts`.
    """
    tables = everything = _Tables(metrics, scores, rows, trials)
    if "is_extra" in rows.columns:
        kept = (~rows["is_extra"]).arg_true()
        tables = _Tables(metrics, scores.take(kept), rows[kept], trials)
    computed = []
    for metric in metrics:
        # Rows that only estimate a prior are seen by the metrics that ask for them.
        reads_extra = getattr(metric.metric, "reads_extra", False)
        computed.append(_compute_metric(metric, everything if reads_extra else tables))
    return computed


def _compute_metric(keyed: KeyedMetric, tables: _Tables) -> list[MetricValue]:
    """Return the values from whichever table the metric can read."""
    names = keyed.metric.fields()
    scores = tables.by_row.scores
    if not tables.is_aggregated or getattr(keyed.metric, "reads_rows", False):
        return _cut_intervals(_compute_values(keyed, tables.by_row), keyed.scale)
    num_trials = tables.trials.num_trials
    details: dict[str, object] = {"num_trials": num_trials}
    if any(holds_other(scores, name) for name in names):
        values = _compute_values(keyed, tables.by_owner)
        details["counts"] = "trials" if num_trials > 1 else "orders"
    else:
        is_share = all(holds_shares(scores, name) for name in names)
        values = _compute_values(keyed, replace(tables.by_sample, is_share=is_share))
        details["counts"] = "samples"
        aggregates = {}
        for name in names:
            if "." not in name:
                aggregates[name] = tables.trials.aggregators_of(name)[0].label
        if aggregates:
            details["aggregates"] = aggregates
    values = [replace(value, details={**value.details, **details}) for value in values]
    return _cut_intervals(values, keyed.scale)


Bounded = TypeVar("Bounded", MetricValue, GroupValue)


def _cut_intervals(values: Sequence[MetricValue], scale: Scale | None) -> list[MetricValue]:
    """Return the values with intervals that do not pass the ends of their scale."""
    if scale is None:
        return list(values)
    cut = []
    for value in values:
        groups = []
        for group in value.groups:
            members = [_cut_interval(member, scale) for member in group.values]
            macro = _cut_interval(group.macro, scale)
            groups.append(
                replace(
                    group,
                    values=tuple(members),
                    macro=macro,
                )
            )
        cut.append(replace(_cut_interval(value, scale), groups=tuple(groups)))
    return cut


def _cut_interval(value: Bounded, scale: Scale) -> Bounded:
    low, high = scale
    if value.value is None or value.interval is None or not low <= value.value <= high:
        return value
    start, end = value.interval
    return replace(value, interval=(max(low, start), min(high, end)))


# The whole, and each group


#: The sums of each cluster, by its name; None where rows are independent.
_Clusters = Mapping[Any, Any] | None


@dataclass(frozen=True)
class _Measured:
    """The whole, or one group: which samples count, its values, its sums and its clusters."""

    coverage: Coverage
    values: Sequence[MetricValue]
    clusters: _Clusters = None
    sums: Any = None

    @cached_property
    def by_name(self) -> dict[str, MetricValue]:
        """The values by name, the first of each."""
        return {value.name: value for value in reversed(self.values)}


def _compute_values(keyed: KeyedMetric, table: _ScoreTable) -> list[MetricValue]:
    """Return the values with their clusters and groups."""
    whole = _measure(
        keyed,
        table,
        keyed.design.cluster_by,
    )
    columns: dict[str, dict[str, _Measured]] = {}
    sizes = {}
    for column in keyed.design.group_by:
        sizes[column] = table.groups[column].n_unique()
        if sizes[column] <= MOST_GROUPS:
            columns[column] = dict(sorted(_measure_groups(keyed, table, column).items()))
    values = []
    for value in whole.values:
        groups = []
        for column, size in sizes.items():
            if column in columns:
                groups.append(
                    _state_groups(
                        value,
                        keyed,
                        column,
                        columns[column],
                        whole,
                    )
                )
            else:
                note = f"there are more than {MOST_GROUPS} groups"
                groups.append(
                    Groups(
                        column,
                        (),
                        GroupValue(
                            None,
                            None,
                            size,
                            note=note,
                        ),
                    )
                )
        values.append(replace(value, groups=tuple(groups)))
    return values


def _measure(keyed: KeyedMetric, table: _ScoreTable, cluster_by: str | None) -> _Measured:
    """Return the values of all rows of a table."""
    if isinstance(keyed.metric, CountingMetric):
        return _measure_split(keyed, keyed.metric, table, [], cluster_by)[()]
    has_clusters = table.find_clusters(cluster_by) is not None
    return _measure_scores(keyed, table.scores, has_clusters=has_clusters)


def _measure_groups(keyed: KeyedMetric, table: _ScoreTable, column: str) -> dict[str, _Measured]:
    """Return the values of each group."""
    cluster_by = keyed.design.cluster_by
    if cluster_by == column:
        # Where groups are the clusters, each has but one.
        cluster_by = None
    if isinstance(keyed.metric, CountingMetric):
        split = _measure_split(keyed, keyed.metric, table, [table.groups[column]], cluster_by)
        return {label: group for (label,), group in split.items()}
    parts = table.split(column)
    return {label: _measure(keyed, part, cluster_by) for label, part in parts.items()}


def _measure_split(
    keyed: KeyedMetric,
    metric: CountingMetric[Any],
    table: _ScoreTable,
    labels: Sequence[pl.Series],
    cluster_by: str | None,
) -> dict[Labels, _Measured]:
    """Return the values of the rows with each combination of labels."""
    names = metric.fields()
    clusters: dict[Labels, dict[object, Any]] = {}
    cluster_labels = table.find_clusters(cluster_by)
    if cluster_labels is not None:
        split = split_counts(table.scores, names, [*labels, cluster_labels])
        for (*label, cluster), counts in split.items():
            sums = clusters.setdefault(tuple(label), {})
            if counts.counts:
                sums[cluster] = metric.collect(counts)
    measured = {}
    for group, counts in split_counts(table.scores, names, labels).items():
        counts.is_share = table.is_share
        measured[group] = _measure_counts(keyed, metric, counts, clusters.get(group))
    return measured


def _measure_scores(keyed: KeyedMetric, scores: Scores, *, has_clusters: bool) -> _Measured:
    """Return the values of a metric that reads the scores themselves."""
    coverage = Coverage(int(scores.counted().sum()), count_left_out(scores))
    try:
        values = keyed.metric.compute(scores)
    except ScoringError as error:
        values = [_state_error(keyed.metric, error)]
    if values:
        coverage = Coverage(values[0].n, Counter(values[0].n_excluded))
    if has_clusters:
        note = f"no formula for {keyed.design.cluster_noun} fits this type"
        values = _note_intervals(values, note)
    return _Measured(coverage, values)


def _measure_counts(
    keyed: KeyedMetric, metric: CountingMetric[Any], counts: ValueCounts, clusters: _Clusters
) -> _Measured:
    """Return the values from the counts of combinations, with intervals that allow for clusters."""
    sums = metric.collect(counts)
    try:
        metric.check(counts)
        values = metric.state_values(counts, sums)
    except ScoringError as error:
        values = [_state_error(metric, error)]
    measured = _Measured(counts, values, clusters, sums)
    if clusters is None:
        return measured
    return replace(measured, values=_bound_by_clusters(keyed, metric, measured, clusters))


def _state_error(metric: Metric, error: ScoringError) -> MetricValue:
    """Return a value without a number, and why it has none."""
    name = getattr(metric, "name", None) or "_".join([*metric.fields(), metric.type])
    return MetricValue(
        name,
        None,
        0,
        note=f"{error.message} ({error.code})",
        type=metric.type,
    )


# Intervals that allow for clusters


def _bound_by_clusters(
    keyed: KeyedMetric,
    metric: CountingMetric[Any],
    measured: _Measured,
    clusters: Mapping[Any, Any],
) -> list[MetricValue]:
    """Return values with the interval that allows for their clusters.

    The one they had does not hold.
    """
    design = keyed.design
    whole = measured.sums
    # An average is the mean of several ratios, any other value is one.
    members: dict[str, list[str]] = {}
    if measured.coverage.n:
        members = {name: [name] for name in metric.ratios(whole, whole)}
        members |= metric.averages(whole)
    ratios = []
    if members:
        ratios = [metric.ratios(sums, whole) for sums in clusters.values()]
    uses = Counter(value.name for value in measured.values)
    bounded = []
    for value in measured.values:
        names = members.get(value.name, [])
        note = None
        if members and uses[value.name] > 1:
            # A class called `macro` has the names of the averages.
            note = "two values of the metric have this name"
        elif not names:
            note = f"no formula for {design.cluster_noun} fits this type"
        if note is not None:
            bounded += _note_intervals([value], note)
            continue
        error, size = measure_clustered_error(
            [[cluster[name] for name in names] for cluster in ratios]
        )
        bare = replace(value, **_NO_MARGIN)
        bounded.append(bound_clustered(bare, error, size, design))
    return bounded


#: The margin of a value whose spread is not known; whether it is a share stays.
_NO_MARGIN: dict[str, Any] = {
    "std_error": None,
    "interval": None,
    "interval_method": None,
    "interval_note": None,
}


def _note_intervals(values: Sequence[MetricValue], note: str) -> list[MetricValue]:
    """Return the values without intervals; those that have a number say why."""
    noted = []
    for value in values:
        bare = replace(value, **_NO_MARGIN)
        if value.value is not None:
            bare = replace(bare, interval_note=note)
        noted.append(bare)
    return noted


def bound_clustered(
    value: MetricValue, std_error: float | None, size: int, design: Design
) -> MetricValue:
    """Return a value with its clustered standard error and, where there are enough clusters, an
    interval.
    """
    details = {
        **value.details,
        "clusters": size,
        "cluster_by": design.cluster_by,
    }
    value = replace(value, details=details)
    if value.value is None:
        return value
    noun = design.cluster_noun
    if size < FEWEST_CLUSTERS:
        note = f"an interval needs at least {FEWEST_CLUSTERS} {noun}, there are {size}"
        return replace(
            value,
            std_error=std_error,
            interval_note=note,
        )
    if not std_error:
        return replace(
            value,
            std_error=std_error,
            interval_note=f"all {size} {noun} are alike",
        )
    margin = bound_value(
        value.value,
        std_error,
        size - 1,
        CLUSTERED_STUDENT,
        score_method=CLUSTERED_WILSON,
        is_share=value.is_share,
    )
    return replace(value, **vars(margin))


# Values by group: micro is the value itself, macro their average over the groups


def _state_groups(
    value: MetricValue,
    keyed: KeyedMetric,
    column: str,
    groups: Mapping[str, _Measured],
    whole: _Measured,
) -> Groups:
    """Return a value of the metric by group, and its average over the groups."""
    values = {label: _find_value(value, keyed, group) for label, group in groups.items()}
    listed = tuple(_describe(label, member) for label, member in values.items())
    defined = {label: member for label, member in values.items() if member.value is not None}
    if not defined:
        return Groups(
            column,
            listed,
            GroupValue(
                None,
                None,
                0,
                note="no group has a value",
            ),
        )
    note = None
    if len(defined) < len(values):
        note = f"mean over {len(defined)} of {len(values)} groups, the others have no value"
    mean = MetricValue(
        value.name,
        average([float(member.value or 0) for member in defined.values()]),
        len(defined),
        note=note,
        is_share=all(member.is_share for member in defined.values()),
    )
    if keyed.design.cluster_by is None:
        margin = _average_margins(list(defined.values()))
        mean = replace(mean, **{**vars(margin), "is_share": mean.is_share})
    else:
        clusters = _gather_clusters(
            value.name, keyed.metric, [groups[label] for label in defined], whole
        )
        if keyed.design.cluster_by == column:
            # The groups stand for others like them, and what counts is how far they differ.
            clusters = [[_make_ratio(member)] for member in defined.values()]
        mean = _bound_mean(mean, clusters, keyed.design)
    return Groups(
        column,
        listed,
        _describe(None, mean),
    )


def _find_value(value: MetricValue, keyed: KeyedMetric, group: _Measured) -> MetricValue:
    """Return the value of the same name in a group."""
    if value.name in group.by_name:
        return group.by_name[value.name]
    n = group.coverage.n
    if value.type == "frequency" and n and isinstance(keyed.metric, BaseMetric):
        # A label that it never has is none of its samples.
        return keyed.metric.state_share(
            value.name,
            (0, n),
            group.coverage,
        )
    note = "it does not occur in this group"
    return MetricValue(
        value.name, None, n, sort_keys(group.coverage.left_out), note=note, type=value.type
    )


def _average_margins(values: Sequence[MetricValue]) -> Margin:
    """Return how sure the mean of the groups is, each measured with an error of its own."""
    shares = []
    for value in values:
        count = value.details.get("count")
        of = value.details.get("of")
        is_clustered = "clusters" in value.details
        if isinstance(count, int) and isinstance(of, int) and not is_clustered:
            shares.append((count, of))
    if len(shares) == len(values):
        return average_shares(shares)
    return average_errors(values)


def _make_ratio(value: MetricValue) -> Ratio:
    return Ratio(Fraction(value.value or 0), 1, 1)


def _gather_clusters(
    name: str, metric: Metric, groups: Sequence[_Measured], whole: _Measured
) -> list[list[Ratio]]:
    """Return of each cluster its sums in every group: a cluster may lie in several."""
    if not isinstance(metric, CountingMetric) or not metric.ratios(whole.sums, whole.sums):
        return []
    nothing = Ratio(0, 0, 0)
    clusters: dict[str, list[Ratio]] = {}
    for place, group in enumerate(groups):
        for cluster, sums in (group.clusters or {}).items():
            ratio = metric.ratios(sums, whole.sums).get(name, nothing)
            clusters.setdefault(cluster, [nothing] * len(groups))[place] = ratio
    return [ratios for _, ratios in sorted(clusters.items())]


def _bound_mean(
    mean: MetricValue, clusters: Sequence[Sequence[Ratio]], design: Design
) -> MetricValue:
    """Return the mean over the groups with its clustered interval."""
    if not clusters:
        return replace(mean, interval_note="no formula for clusters fits this type")
    error, size = measure_clustered_error(clusters)
    return bound_clustered(mean, error, size, design)


def _describe(label: str | None, value: MetricValue) -> GroupValue:
    shared = [entry.name for entry in fields(GroupValue) if entry.name != "group"]
    return GroupValue(label, **{name: getattr(value, name) for name in shared})
