"""Compute metric values from the table of scores: overall, by group, and with clusters.

With trials and orders, a metric sees the aggregates, one row per sample. A metric that reads a
field without an aggregate (metadata, or values other than numbers) counts the rows instead.

Samples in a cluster are not independent: questions on one passage, or the rows of one sample.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, NamedTuple

import polars as pl

from answerkey.errors import ScoringError
from answerkey.metrics.base import (
    BaseMetric,
    CountingMetric,
    Coverage,
    Labels,
    Metric,
    Sums,
    ValueCounts,
    count_coverage,
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
    has_binary_trials,
    has_unaggregated,
    name_clusters,
    name_groups,
    number_samples,
)
from answerkey.types import Groups, GroupValue, MetricValue, Scores, ScoreStatus

#: More groups than this are not a readable breakdown; they are counted but not listed.
MAX_GROUPS = 10_000
#: With fewer clusters there is a standard error but no interval, since its coverage would be too
#: low.
MIN_CLUSTERS = 5

ONE_TRIAL = Trials(num_trials=1)
_STATUSES = pl.Enum(ScoreStatus)


class Design(NamedTuple):
    """The dataset columns that group samples, and how intervals are computed.

    For each column of `group_by`, a metric gets a value for each group, and their average. Samples
    with the same `cluster_by` are not independent (questions on one passage), and the interval
    allows for that, with the correction C/(C-1) for few clusters.
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
        """The noun for clusters in notes.

        Without a column, the rows of a sample form a cluster.
        """
        return f"values of `{self.cluster_by}`" if self.cluster_by else "samples"


class KeyedMetric(NamedTuple):
    """A metric with its key, which is unique in its scorer, and the design of its samples.

    `scale` is the range of its values, if it is known.
    """

    key: str
    metric: Metric
    design: Design = Design()
    scale: Scale | None = None


def find_scale(metric: Metric, scales: Mapping[str, Scale]) -> Scale | None:
    """Return the scale of a metric's values from the scales of the scorer's fields.

    None if it is unknown. In every scorer right is 1, wrong is 0, and partly right is between them.
    """
    if not hasattr(metric, "find_scale"):
        return None
    all_scales = {"is_correct": (0.0, 1.0), **scales}
    scale: Scale | None = metric.find_scale(all_scales)
    return scale


# The rows that metrics see


def shrink_scores(metrics: Sequence[KeyedMetric], frame: pl.DataFrame) -> pl.DataFrame:
    """Return the scores of one scorer in the compact form that is kept in memory.

    Texts become categories, `choices` their number, and metadata that no metric and no count reads
    null.
    """
    names: set[str] = set()
    for keyed in metrics:
        fields = keyed.metric.fields()
        if not fields:
            return frame  # the fields that this metric reads are unknown
        names.update(fields)
    metadata = frame["metadata"].struct.unnest()
    for name in set(metadata.columns) - names - COUNTED_FIELDS:
        metadata = metadata.with_columns(pl.lit(None).alias(name))
    choices = metadata.schema.get("choices")
    if "choices" not in names and choices == pl.List(pl.String):
        metadata = metadata.with_columns(pl.col("choices").list.len())
    as_categories = pl.selectors.string().cast(pl.Categorical)
    values = frame["values"].struct.unnest().with_columns(as_categories)
    columns = [frame["status"].cast(_STATUSES)]
    for name in ("reason", "excluded_by"):
        # Most scores have neither, and a column of the type Null takes no memory.
        dtype = pl.Categorical() if frame[name].count() else pl.Null()
        columns.append(frame[name].cast(dtype))
    columns.append(values.to_struct("values"))
    columns.append(metadata.with_columns(as_categories).to_struct("metadata"))
    return pl.DataFrame(columns)


class _ScoreTable(NamedTuple):
    """Scores, and facts about their rows, see `RowFacts`.

    Among the facts, `owner` is the number of the sample if samples have several rows or clusters.
    `is_by_owner`: the rows of a sample are a cluster. `is_share`: the numbers are aggregates of
    zeros and ones.
    """

    scores: Scores
    rows: pl.DataFrame
    is_by_owner: bool = False
    is_share: bool = False

    def find_groups(self, column: str) -> pl.Series:
        """Return the group of each row."""
        return name_groups(self.rows[f"label:{column}"])

    def find_clusters(self, column: str | None) -> pl.Series | None:
        """Return the cluster of each row, from a column or its sample; None if rows are
        independent.
        """
        if column is not None:
            return name_clusters(self.rows[f"label:{column}"], self.rows["owner"])
        if self.is_by_owner:
            return self.rows["owner"]
        return None

    def take(self, positions: pl.Series) -> _ScoreTable:
        """Return the rows at these positions."""
        return _ScoreTable(self.scores.take(positions), self.rows[positions])


def compute_metrics(
    metrics: Sequence[KeyedMetric],
    scores: Scores,
    rows: pl.DataFrame,
    trials: Trials | None = None,
) -> list[list[MetricValue]]:
    """Return the values of each metric; a value that cannot be computed is null, with the reason.

    `rows` has the facts about each row of the scores, see `RowFacts`.
    """
    has_several = trials is not None or "base_sample_id" in rows.columns
    num_trials = 1 if trials is None else trials.num_trials
    has_clusters = any(keyed.design.cluster_by for keyed in metrics)
    if has_several or has_clusters:
        owners = number_samples(rows, len(scores), num_trials)
        rows = pl.DataFrame([*rows, owners.alias("owner")])
    everything = _ScoreTable(scores, rows)
    table = everything
    if "is_extra" in rows.columns:
        is_asked = ~rows["is_extra"]
        table = everything.take(is_asked.arg_true())
    by_sample = None
    if has_several:
        by_sample = _combine_rows(table, trials)
    computed = []
    for keyed in metrics:
        metric = keyed.metric
        if getattr(metric, "reads_extra", False):
            values = _compute_values(keyed, everything)
        elif by_sample is None or getattr(metric, "reads_rows", False):
            values = _compute_values(keyed, table)
        else:
            values = _compute_aggregates(
                keyed,
                table,
                by_sample,
                trials or ONE_TRIAL,
            )
        computed.append(values)
    return computed


def _combine_rows(table: _ScoreTable, trials: Trials | None) -> _ScoreTable:
    """Return one row for each sample, aggregating first its trials, then its orders."""
    if trials is not None:
        scores = aggregate_scores(table.scores, trials)
        table = _ScoreTable(scores, table.rows.gather_every(trials.num_trials))
    if "base_sample_id" in table.rows.columns:
        scores = average_orders(table.scores, table.rows["owner"])
        rows = table.rows.unique("owner", keep="first", maintain_order=True)
        table = _ScoreTable(scores, rows)
    return table


def _compute_aggregates(
    keyed: KeyedMetric,
    table: _ScoreTable,
    by_sample: _ScoreTable,
    trials: Trials,
) -> list[MetricValue]:
    """Return the values from the aggregates of samples, or from rows if there are none."""
    names = keyed.metric.fields()
    details: dict[str, object] = {"num_trials": trials.num_trials}
    if any(has_unaggregated(table.scores, name) for name in names):
        table = table._replace(is_by_owner=True)
        details["counts"] = "trials" if trials.num_trials > 1 else "orders"
    else:
        is_share = all(has_binary_trials(table.scores, name) for name in names)
        table = by_sample._replace(is_share=is_share)
        details["counts"] = "samples"
        aggregates = {}
        for name in names:
            if "." not in name:
                aggregates[name] = trials.aggregators_of(name)[0].label
        if aggregates:
            details["aggregates"] = aggregates
    values = []
    for value in _compute_values(keyed, table):
        all_details = {**value.details, **details}
        values.append(replace(value, details=all_details))
    return values


def _clip_interval(value: MetricValue, scale: Scale | None) -> MetricValue:
    """Return a value with its interval clipped to its scale."""
    if scale is None or value.value is None or value.interval is None:
        return value
    low, high = scale
    if not low <= value.value <= high:
        return value
    start, end = value.interval
    interval = (max(low, start), min(high, end))
    return replace(value, interval=interval)


# All rows, and each group


@dataclass(frozen=True)
class _Measured:
    """The results for all rows or one group: the samples that count, the values, and the ratios
    behind them.

    `clusters` are the ratios of each cluster; None if rows are independent.
    """

    coverage: Coverage
    values: Sequence[MetricValue]
    sums: Sums = field(default_factory=Sums)
    clusters: Mapping[Any, Sums] | None = None


def _compute_values(keyed: KeyedMetric, table: _ScoreTable) -> list[MetricValue]:
    """Return the values with their clusters and groups."""
    values = _measure(keyed, table)[()].values
    groups: dict[str, dict[str, _Measured]] = {}
    for column in keyed.design.group_by:
        groups[column] = {}
        if table.find_groups(column).n_unique() <= MAX_GROUPS:
            measured = _measure(keyed, table, column)
            for (label,), group in sorted(measured.items()):
                groups[column][label] = group
    bounded = []
    for value in values:
        breakdowns = []
        for column, members in groups.items():
            if members:
                breakdowns.append(_make_groups(value, keyed, column, members))
            else:
                size = table.find_groups(column).n_unique()
                note = f"there are more than {MAX_GROUPS} groups"
                macro = GroupValue(None, None, size, note=note)
                breakdowns.append(Groups(column, (), macro))
        value = _clip_interval(value, keyed.scale)  # noqa: PLW2901 - the same, within its scale
        bounded.append(replace(value, groups=(*value.groups, *breakdowns)))
    return bounded


def _measure(
    keyed: KeyedMetric,
    table: _ScoreTable,
    column: str | None = None,
) -> dict[Labels, _Measured]:
    """Return the values of each group of a column, or of all rows, which are called `()`."""
    metric = keyed.metric
    labels = []
    cluster_by = keyed.design.cluster_by
    if column is not None:
        labels.append(table.find_groups(column))
        if cluster_by == column:
            # If the groups are the clusters, each has only one.
            cluster_by = None
    clusters = table.find_clusters(cluster_by)
    if not isinstance(metric, CountingMetric):
        return _measure_scores(keyed, table.scores, labels, has_clusters=clusters is not None)
    fields = metric.fields()
    cluster_sums: defaultdict[Labels, dict[object, Sums]] = defaultdict(dict)
    if clusters is not None:
        split = split_counts(table.scores, fields, [*labels, clusters])
        for (*label, cluster), counts in split.items():
            sums = metric.collect(counts)
            if counts.n:
                cluster_sums[tuple(label)][cluster] = sums
    measured = {}
    split = split_counts(table.scores, fields, labels)
    for group, counts in split.items():
        counts.is_share = table.is_share
        part = _measure_counts(metric, counts)
        if clusters is not None:
            part = replace(part, clusters=cluster_sums[group])
            part = replace(part, values=_bound_by_clusters(keyed.design, metric, part))
        measured[group] = part
    return measured


def _measure_scores(
    keyed: KeyedMetric,
    scores: Scores,
    labels: Sequence[pl.Series],
    *,
    has_clusters: bool,
) -> dict[Labels, _Measured]:
    """Return the values of a metric that reads the scores themselves."""
    parts: dict[Labels, Scores] = {(): scores}
    for series in labels:
        parts = {}
        for label in series.unique():
            is_member = series == label
            parts[(label,)] = scores.take(is_member.arg_true())
    measured = {}
    for group, part in parts.items():
        coverage = count_coverage(part)
        try:
            values = keyed.metric.compute(part)
        except ScoringError as error:
            values = [_make_error(keyed.metric, error)]
        if values:
            first, *_ = values
            coverage = Coverage(first.n, Counter(first.n_excluded))
        if has_clusters:
            values = [_note_no_formula(value, keyed.design) for value in values]
        measured[group] = _Measured(coverage, values)
    return measured


def _measure_counts(metric: CountingMetric, counts: ValueCounts) -> _Measured:
    """Return the values from the counts of combinations."""
    sums = metric.collect(counts)
    try:
        metric.check(counts)
        values = metric.make_values(counts, sums)
    except ScoringError as error:
        values = [_make_error(metric, error)]
    if not metric.has_ratios:
        sums = Sums()
    return _Measured(counts, values, sums)


def _make_error(metric: Metric, error: ScoringError) -> MetricValue:
    """Return a value without a number, with the reason."""
    name = getattr(metric, "name", None)
    if name is None:
        name = "_".join([*metric.fields(), metric.type])
    note = f"{error.message} ({error.code})"
    return MetricValue(name, None, 0, note=note, type=metric.type)


# Intervals that allow for clusters


def _bound_by_clusters(
    design: Design,
    metric: CountingMetric,
    measured: _Measured,
) -> list[MetricValue]:
    """Return values with intervals that allow for their clusters.

    Their previous intervals are not valid.
    """
    averages = metric.averages(measured.sums)
    uses = Counter(value.name for value in measured.values)
    bounded = []
    for value in measured.values:
        # An average is the mean of several ratios, any other value is a single ratio.
        names = averages.get(value.name, [value.name])
        if not (metric.has_ratios and measured.coverage.n and names):
            bounded.append(_note_no_formula(value, design))
        elif uses[value.name] > 1:
            # The values of a class called `macro` have the same names as the averages.
            note = "two values of the metric have this name"
            bounded.append(_note_interval(value, note))
        else:
            clusters = []
            for sums in (measured.clusters or {}).values():
                clusters.append([sums[name] for name in names])
            bare = _note_interval(value, None)
            bounded.append(bound_clustered(bare, clusters, design))
    return bounded


def _note_no_formula(value: MetricValue, design: Design) -> MetricValue:
    return _note_interval(value, f"there is no formula for {design.cluster_noun} with this type")


def _note_interval(value: MetricValue, note: str | None) -> MetricValue:
    """Return the value without its interval, with a note if it has a number."""
    if value.value is None:
        note = None
    return replace(
        value,
        std_error=None,
        interval=None,
        interval_method=None,
        interval_note=note,
    )


def bound_clustered(
    value: MetricValue,
    clusters: Sequence[Sequence[Ratio]],
    design: Design,
) -> MetricValue:
    """Return the mean of one or more ratios with its clustered standard error and, where there are
    enough clusters, an interval.
    """
    std_error, size = measure_clustered_error(clusters)
    facts = {"clusters": size, "cluster_by": design.cluster_by}
    value = replace(value, details={**value.details, **facts})
    if value.value is None:
        return value
    noun = design.cluster_noun
    note = None
    if size < MIN_CLUSTERS:
        note = f"an interval needs at least {MIN_CLUSTERS} {noun}, there are {size}"
    elif not std_error:
        note = f"all {size} {noun} are alike"
    if note is not None:
        return replace(value, std_error=std_error, interval_note=note)
    margin = bound_value(
        value.value,
        std_error,
        size - 1,
        CLUSTERED_STUDENT,
        score_method=CLUSTERED_WILSON,
        is_share=value.is_share,
    )
    return replace(value, **vars(margin))


# Values by group: micro is the overall value, macro the average of the groups


def _make_groups(
    value: MetricValue,
    keyed: KeyedMetric,
    column: str,
    groups: Mapping[str, _Measured],
) -> Groups:
    """Return a value of the metric by group, and its average over the groups."""
    listed = []
    defined: dict[str, MetricValue] = {}
    for label, group in groups.items():
        member = _find_value(value, keyed, group)
        listed.append(_describe(label, _clip_interval(member, keyed.scale)))
        if member.value is not None:
            defined[label] = member
    if not defined:
        nothing = GroupValue(None, None, 0, note="no group has a value")
        return Groups(column, tuple(listed), nothing)
    note = None
    if len(defined) < len(listed):
        note = f"mean over {len(defined)} of {len(listed)} groups, the others have no value"
    members = list(defined.values())
    mean = replace(_average_values(members), note=note)
    counted = [groups[label] for label in defined]
    mean = _bound_average(mean, members, counted, keyed.design, column)
    mean = _clip_interval(mean, keyed.scale)
    return Groups(column, tuple(listed), _describe(None, mean))


def _average_values(members: Sequence[MetricValue]) -> MetricValue:
    """Return the mean of the values of groups, without its interval."""
    numbers = [float(member.value or 0) for member in members]
    return MetricValue(
        members[0].name,
        average(numbers),
        len(members),
        is_share=all(member.is_share for member in members),
    )


def _bound_average(
    mean: MetricValue,
    members: Sequence[MetricValue],
    groups: Sequence[_Measured],
    design: Design,
    column: str,
) -> MetricValue:
    """Return the mean of groups with its interval."""
    if design.cluster_by is None:
        margin = replace(_average_margins(members), is_share=mean.is_share)
        return replace(mean, **vars(margin))
    if design.cluster_by == column:
        # The groups are a sample of similar groups, so their differences are the spread.
        clusters = []
        for member in members:
            number = Fraction(member.value or 0)
            clusters.append([Ratio(number, 1, 1)])
        return bound_clustered(mean, clusters, design)
    if any(mean.name in group.sums for group in groups):
        clusters = _gather_clusters(mean.name, groups)
        return bound_clustered(mean, clusters, design)
    return replace(mean, interval_note="there is no formula for clusters with this type")


def _find_value(value: MetricValue, keyed: KeyedMetric, group: _Measured) -> MetricValue:
    """Return a group's value of the same name."""
    for member in group.values:
        if member.name == value.name:
            return member
    coverage = group.coverage
    absent = group.sums.absent
    if absent.bottom and isinstance(keyed.metric, BaseMetric):
        # A label that does not occur in the group has the share 0.
        return keyed.metric.make_share(value.name, absent.share, coverage)
    return MetricValue(
        value.name,
        None,
        coverage.n,
        sort_keys(coverage.left_out),
        note="it does not occur in this group",
        type=value.type,
    )


def _average_margins(values: Sequence[MetricValue]) -> Margin:
    """Return the margin of the mean of the groups, each with its own standard error."""
    shares = []
    for value in values:
        count = value.details.get("count")
        of = value.details.get("of")
        if not isinstance(count, int) or not isinstance(of, int):
            return average_errors(values)
        if "clusters" in value.details:
            return average_errors(values)
        shares.append((count, of))
    return average_shares(shares)


def _gather_clusters(name: str, groups: Sequence[_Measured]) -> list[list[Ratio]]:
    """Return the sums of each cluster in every group: a cluster may be in several groups."""
    nothing = Ratio()
    clusters: dict[Any, list[Ratio]] = {}
    for place, group in enumerate(groups):
        for cluster, sums in (group.clusters or {}).items():
            ratios = clusters.setdefault(cluster, [nothing] * len(groups))
            ratios[place] = sums[name]
    return [ratios for _, ratios in sorted(clusters.items())]


def _describe(label: str | None, value: MetricValue) -> GroupValue:
    shared = {}
    for entry in fields(GroupValue)[1:]:
        shared[entry.name] = getattr(value, entry.name)
    return GroupValue(label, **shared)
