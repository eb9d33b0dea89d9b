"""Metrics over samples: asked once or several times, as a whole, by group, and in clusters.

Under trials a metric sees the aggregates, one row per sample. A metric that reads something without an
aggregate (metadata, or values that are no numbers) counts the trials instead; which of the two it is can
depend on the scores, so a part holds both until all shards are merged. A part of either holds

    whole       the metric's own part
    clusters    the sums of each cluster, where samples come in clusters
    groups      column → group → whole and clusters, where the design groups samples

Clusters are questions on one passage, or trials of one sample; only the sums of each are kept. Clusters with
a name may lie in several shards; those without one (the trials of a sample) never do, and are counted where
their sums are the same.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import polars as pl

from answerkey.errors import ScoringError
from answerkey.metrics.base import (
    BaseMetric,
    CountingMetric,
    Labels,
    Metric,
    Part,
    ValueCounts,
    merge_parts,
    read_columns,
    read_rows,
    split_counts,
    write_label,
)
from answerkey.metrics.exact import UNIT_BITS, average, to_units
from answerkey.metrics.intervals import (
    CLUSTERED_STUDENT,
    CLUSTERED_WILSON,
    Ratio,
    Scale,
    average_clustered_error,
    average_errors,
    average_shares,
    bound_value,
    measure_clustered_error,
)
from answerkey.metrics.trials import (
    Trials,
    aggregate_scores,
    average_orders,
    find_first_rows,
    find_own_rows,
    find_owners,
    holds_other,
    holds_shares,
    number_samples,
)
from answerkey.types import Groups, GroupValue, MetricValue, Samples, Scores

#: How samples without a group are called.
NO_GROUP = "(none)"
#: More groups than that are no breakdown for people; they are counted, and not listed.
MOST_GROUPS = 10_000
#: With fewer clusters there is a standard error, but no interval: it would miss too often.
FEWEST_CLUSTERS = 5
#: So many different samples without a name are kept at most.
MOST_KINDS = 5_000

BY_SAMPLE, BY_TRIAL = "by_sample", "by_trial"
WHOLE, CLUSTERS, GROUPS = "whole", "clusters", "groups"
#: Clusters by name; kinds of clusters without one, by their sums; whether there are too many of those.
NAMED, ALIKE, WIDE = "named", "alike", "wide"


@dataclass(frozen=True)
class Design:
    """Columns of the dataset that put samples together, and how intervals are made.

    Each column of `group_by` gives a metric's value for each of its groups, and their average. Samples with
    the same `cluster_by` are not independent (questions on one passage), and the interval allows for that,
    with the correction C/(C-1) for few clusters unless it is switched off. `seed` is for resampling.
    """

    group_by: tuple[str, ...] = ()
    cluster_by: str | None = None
    is_corrected: bool = True
    seed: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the samples must have."""
        return (*self.group_by, *([self.cluster_by] if self.cluster_by else []))

    @property
    def cluster_noun(self) -> str:
        """What clusters are called in notes; without any of its own, a table of trials has its samples."""
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
    """Return the scale of a metric's values from those of the fields that a scorer knows; None without one.

    Right or wrong is 1 or 0 in every scorer, and a part of an answer lies in between.
    """
    find: Callable[..., Scale | None] = getattr(metric, "find_scale", lambda _: None)
    return find({"is_correct": (0.0, 1.0), **scales})


@runtime_checkable
class RatioMetric(Protocol):
    """A metric whose values are ratios of sums; `sums` names what of a part they are computed from."""

    sums: ClassVar[tuple[str, ...]]

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""

    def collect(self, counts: ValueCounts) -> Part:
        """Return the part of these counts."""

    def ratios(self, part: Part, whole: Part) -> dict[str, Ratio]:
        """Return the sums of a part by the name of the value, for every name of the whole."""


# Labels of rows --------------------------------------------------------------------------------------------


def label_rows(samples: Samples, column: str) -> pl.Series:
    """Return a column of the dataset as text, as metrics write values; null stays null."""
    series = samples.frame[column].rename(column)
    if series.dtype == pl.String and column not in samples.encoded:
        return series
    distinct = series.unique(maintain_order=True)
    values = Samples(pl.DataFrame([distinct]), pl.Series([], dtype=pl.String), encoded=samples.encoded)
    labels = [None if one is None else write_label(one) for one in values.values(column)]
    table = pl.DataFrame([distinct, pl.Series("label", labels, dtype=pl.String)])
    rows = pl.DataFrame([series]).join(table, on=column, how="left", nulls_equal=True, maintain_order="left")
    return rows["label"].rename(column)


def name_groups(labels: pl.Series) -> pl.Series:
    """Return labels with the samples that have none in a group of their own."""
    return labels.fill_null(NO_GROUP)


def name_clusters(labels: pl.Series, ids: pl.Series) -> pl.Series:
    """Return labels with each sample that has none in a cluster of its own; no label begins like those."""
    own = pl.lit("\0") + ids.cast(pl.String)
    return pl.select(pl.when(labels.is_null()).then(own).otherwise(labels)).to_series().rename(labels.name)


# What one shard contributes --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Table:
    """Scores with the labels of their rows: groups by column, clusters by `cluster ` and the column.

    Where samples have several rows, `owners` are the numbers of the samples, and those rows are a cluster.
    """

    scores: Scores
    labels: Mapping[str, pl.Series]
    owners: pl.Series | None = None


def measure_metrics(
    metrics: Sequence[KeyedMetric], scores: Scores, samples: Samples, trials: Trials | None = None
) -> list[Part]:
    """Return what one shard contributes to each metric; both tables have a row for each sample and trial."""
    own = find_own_rows(samples)
    if own is not None and samples.orders is not None:
        # Rows that only estimate a prior are seen by the metrics that ask for them.
        rows, orders = own.arg_true(), samples.orders.drop("is_extra")
        everything = scores, replace(samples, orders=orders)
        kept = scores.take(rows), replace(samples.take(rows), orders=orders[rows])
        found = []
        for one in metrics:
            seen = everything if getattr(one.metric, "reads_extra", False) else kept
            found += measure_metrics([one], *seen, trials)
        return found
    columns = {name: label_rows(samples, name) for one in metrics for name in one.design.columns}
    labels = {name: name_groups(series) for name, series in columns.items()}
    for name in {one.design.cluster_by for one in metrics if one.design.cluster_by}:
        labels[f"cluster {name}"] = name_clusters(columns[name], find_owners(samples))
    table = aggregated = _Table(scores, labels)
    if trials is None and samples.orders is None:
        return [_measure(one, table) for one in metrics]
    names = [one.metric.fields() for one in metrics]
    listed = {name for own_names in names for name in own_names} if all(names) else None
    size = trials.num_trials if trials else 1
    if trials is not None:
        firsts = {name: series.gather_every(size) for name, series in labels.items()}
        aggregated = _Table(aggregate_scores(scores, trials, listed), firsts)
    owners = number_samples(samples, size)
    if samples.orders is not None:
        each = owners.gather_every(size)
        first_rows = find_first_rows(each)
        firsts = {name: series.gather(first_rows) for name, series in aggregated.labels.items()}
        aggregated = _Table(average_orders(aggregated.scores, each, listed), firsts)
    asked = replace(table, owners=owners) if size > 1 or samples.orders is not None else table
    return [
        _measure(one, table)
        if getattr(one.metric, "reads_rows", False)
        else {
            BY_SAMPLE: _measure(one, aggregated),
            BY_TRIAL: _measure(one, asked) if one.metric.fields() else {WHOLE: {}},
            "is_by_trial": any(holds_other(scores, name) for name in one.metric.fields()),
            "is_share": all(holds_shares(scores, name) for name in one.metric.fields()),
        }
        for one in metrics
    ]


def _measure(one: KeyedMetric, table: _Table) -> Part:
    metric, design = one.metric, one.design
    part: Part = {WHOLE: metric.measure(table.scores)}
    if design.cluster_by is not None:
        found = _collect_named(metric, table.scores, [table.labels[f"cluster {design.cluster_by}"]])
        part[CLUSTERS] = {NAMED: {label: sums for (label,), sums in found.items()}}
    elif table.owners is not None:
        part[CLUSTERS] = _collect_alike(metric, table.scores, table.owners)
    for column in design.group_by:
        # Where groups are the clusters, each has but one.
        cluster_by = None if design.cluster_by == column else design.cluster_by
        inner = replace(one, design=replace(design, group_by=(), cluster_by=cluster_by))
        part.setdefault(GROUPS, {})[column] = _split(inner, table, column)
    return part


def _split(one: KeyedMetric, table: _Table, column: str) -> dict[str, Part]:
    """Return the parts of each group."""
    metric, cluster_by, labels = one.metric, one.design.cluster_by, table.labels[column]
    if not isinstance(metric, CountingMetric) or (table.owners is not None and cluster_by is None):
        parts = {}
        for label in labels.unique():
            rows = labels == label
            scores = Scores(table.scores.frame.filter(rows), table.scores.encoded)
            own = {name: series.filter(rows) for name, series in table.labels.items()}
            owners = None if table.owners is None else table.owners.filter(rows)
            parts[str(label)] = _measure(one, _Table(scores, own, owners))
        return parts
    found = split_counts(table.scores, metric.fields(), [labels])
    parts = {label: {WHOLE: metric.collect(counts)} for (label,), counts in found.items()}
    if cluster_by is not None:
        for part in parts.values():
            part[CLUSTERS] = {NAMED: {}}
        both = [labels, table.labels[f"cluster {cluster_by}"]]
        for (label, cluster), sums in _collect_named(metric, table.scores, both).items():
            parts[label][CLUSTERS][NAMED][cluster] = sums
    return parts


def _collect_named(metric: Metric, scores: Scores, labels: Sequence[pl.Series]) -> dict[Labels, Part]:
    """Return the sums of each cluster of a shard; nothing for a metric that is no ratio of sums."""
    if not isinstance(metric, RatioMetric):
        return {}
    found = split_counts(scores, metric.fields(), labels)
    return {label: _keep_sums(metric, one) for label, one in found.items() if one.counts}


def _collect_alike(metric: Metric, scores: Scores, owners: pl.Series) -> Part:
    """Return how often the rows of a sample have the same sums."""
    names = metric.fields()
    if not isinstance(metric, RatioMetric) or not names:
        return {}
    table = pl.DataFrame([*read_columns(scores, names), owners.alias("owner")]).filter(scores.counted())
    places = [str(place) for place in range(len(names))]
    kinds = table.group_by(places).agg("owner").with_row_index("kind")
    combinations = read_rows(kinds, scores, names)
    # A sample is spelled by the numbers of its rows' combinations; equal ones are counted before any sums.
    coded = kinds.select("kind", "owner").explode("owner")
    spelled = coded.group_by("owner").agg(pl.col("kind").sort().cast(pl.String))
    alike: Counter[str] = Counter()
    for spelling, rows in spelled.select(pl.col("kind").list.join(" ")).group_by("kind").len().iter_rows():
        counts = [(combinations[int(kind)], times) for kind, times in Counter(spelling.split(" ")).items()]
        sums = _keep_sums(metric, ValueCounts(counts, {}, scores.names))
        alike[json.dumps(sums, sort_keys=True)] += rows
    return _limit_kinds({ALIKE: dict(alike), WIDE: 0})


def _keep_sums(metric: RatioMetric, counts: ValueCounts) -> Part:
    part = metric.collect(counts)
    return {name: part[name] for name in metric.sums}


def _limit_kinds(clusters: Part) -> Part:
    is_wide = clusters.get(WIDE) or len(clusters.get(ALIKE, ())) > MOST_KINDS
    return {**clusters, ALIKE: {}, WIDE: 1} if is_wide else clusters


# From the parts of all shards to values --------------------------------------------------------------------


@dataclass(frozen=True)
class _Finished:
    """The whole, or one group: its merged part, its clusters if there are any, and its values."""

    whole: Part
    clusters: Part
    values: Sequence[MetricValue]

    @cached_property
    def by_name(self) -> dict[str, MetricValue]:
        """The values by name, the first of each."""
        return {value.name: value for value in reversed(self.values)}


Bounded = TypeVar("Bounded", MetricValue, GroupValue)


def finish_metric(one: KeyedMetric, parts: Sequence[Part], trials: Trials | None = None) -> list[MetricValue]:
    """Return a metric's values from all its parts; one that cannot be computed is a null with the reason."""
    if not any(BY_SAMPLE in part for part in parts):
        values = _finish_parts(one, parts)
    else:
        asked = trials or Trials(num_trials=1)
        about: dict[str, object] = {"num_trials": asked.num_trials}
        if any(part["is_by_trial"] for part in parts):
            # Trials of one sample are no independent draws, but a cluster.
            values = _finish_parts(one, [part[BY_TRIAL] for part in parts])
            about["counts"] = "trials" if asked.num_trials > 1 else "orders"
        else:
            is_share = all(part["is_share"] for part in parts)
            values = _finish_parts(one, [part[BY_SAMPLE] for part in parts], is_share=is_share)
            about["counts"] = "samples"
            bare = [name for name in one.metric.fields() if "." not in name]
            if bare:
                about["aggregates"] = {name: asked.aggregators_of(name)[0].label for name in bare}
        values = [replace(value, details={**value.details, **about}) for value in values]
    if one.scale is None:
        return values
    low, high = one.scale

    def keep(bounded: Bounded) -> Bounded:
        """Return a value whose interval does not pass the ends of its scale."""
        if bounded.value is None or bounded.interval is None or not low <= bounded.value <= high:
            return bounded
        return replace(bounded, interval=(max(low, bounded.interval[0]), min(high, bounded.interval[1])))

    def keep_groups(one: Groups) -> Groups:
        return replace(one, values=tuple(map(keep, one.values)), macro=keep(one.macro))

    return [replace(keep(value), groups=tuple(map(keep_groups, value.groups))) for value in values]


def _finish_parts(one: KeyedMetric, parts: Sequence[Part], *, is_share: bool = False) -> list[MetricValue]:
    """Return the values with their clusters and groups."""
    whole = _finish_part(one, parts, is_share=is_share)
    columns = []
    for column in one.design.group_by:
        shards = [part[GROUPS][column] for part in parts]
        labels = sorted({label for shard in shards for label in shard})
        groups = {
            label: _finish_part(one, [shard[label] for shard in shards if label in shard], is_share=is_share)
            for label in labels
        }
        columns.append((column, groups))
    values = []
    for value in whole.values:
        stated = (_state_groups(value, one, column, groups, whole.whole) for column, groups in columns)
        values.append(replace(value, groups=tuple(stated)))
    return values


def _finish_part(one: KeyedMetric, parts: Sequence[Part], *, is_share: bool) -> _Finished:
    """Merge and finish the parts of the whole, or of one group."""
    metric, design = one.metric, one.design
    found = [part[CLUSTERS] for part in parts if CLUSTERS in part]
    clusters = _limit_kinds(merge_parts(found))
    # What clusters are going to say is not resampled before.
    seed = None if found else design.seed
    whole = {**metric.merge([part[WHOLE] for part in parts]), "seed": seed, "is_share": is_share}
    try:
        values = metric.finish(whole)
    except ScoringError as error:
        name = str(getattr(metric, "name", None) or "_".join([*metric.fields(), metric.type]))
        values = [MetricValue(name, None, 0, note=f"{error.message} ({error.code})", type=metric.type)]
    return _Finished(whole, clusters, _apply_clusters(values, one, whole, clusters) if found else values)


def _apply_clusters(
    values: Sequence[MetricValue], one: KeyedMetric, whole: Part, clusters: Part
) -> list[MetricValue]:
    """Return values with the interval that allows for their clusters; the one they had does not hold."""
    metric, design = one.metric, one.design
    ratios: list[tuple[dict[str, Ratio], int]] = []
    members: dict[str, list[str]] = {}
    is_ratio = isinstance(metric, RatioMetric) and bool(whole.get("n"))
    if isinstance(metric, RatioMetric) and is_ratio:
        sums: list[tuple[Any, int]] = [(json.loads(text), n) for text, n in clusters.get(ALIKE, {}).items()]
        sums += [(named, 1) for named in clusters.get(NAMED, {}).values()]
        ratios = [(metric.ratios(part, whole), n) for part, n in sums]
        # An average is the mean of several ratios, any other value is one.
        members = {name: [name] for name in metric.ratios(whole, whole)}
        members |= metric.averages(whole) if hasattr(metric, "averages") else {}
    uses = Counter(value.name for value in values)
    found = []
    for value in values:
        bare = replace(value, std_error=None, interval=None, interval_method=None, interval_note=None)
        note = None
        if is_ratio and clusters.get(WIDE):
            note = f"too many different {design.cluster_noun}"
        elif is_ratio and uses[value.name] > 1:  # a class called `macro` has the names of the averages
            note = "two values of the metric have this name"
        elif not members.get(value.name):
            note = f"no formula for {design.cluster_noun} fits this type"
        if note is not None:
            found.append(bare if value.value is None else replace(bare, interval_note=note))
            continue
        own = members[value.name]
        if own == [value.name]:
            single = [(part[value.name], n) for part, n in ratios]
            error, size = measure_clustered_error(single, is_corrected=design.is_corrected)
        else:
            several = [([part[name] for name in own], n) for part, n in ratios]
            error, size = average_clustered_error(several, is_corrected=design.is_corrected)
        found.append(bound_clustered(bare, error, size, design))
    return found


def bound_clustered(value: MetricValue, std_error: float | None, size: int, design: Design) -> MetricValue:
    """Return a value with its clustered standard error and, where there are enough clusters, an interval."""
    about = {"clusters": size, "clusters_corrected": design.is_corrected, "cluster_by": design.cluster_by}
    stated = replace(value, details={**value.details, **about})
    if value.value is None:
        return stated
    stated = replace(stated, std_error=std_error)
    if size < FEWEST_CLUSTERS:
        note = f"an interval needs at least {FEWEST_CLUSTERS} {design.cluster_noun}, there are {size}"
        return replace(stated, interval_note=note)
    if not std_error:
        return replace(stated, interval_note=f"all {size} {design.cluster_noun} are alike")
    methods = {"method": CLUSTERED_STUDENT, "score_method": CLUSTERED_WILSON}
    margin = bound_value(value.value, std_error, size - 1, **methods, is_share=value.is_share)
    return replace(stated, **vars(margin))


# Values by group: micro is the value itself, macro their average over the groups ---------------------------


def _state_groups(
    value: MetricValue, one: KeyedMetric, column: str, groups: Mapping[str, _Finished], whole: Part
) -> Groups:
    """Return a value of the metric by group, and its average over the groups."""
    if len(groups) > MOST_GROUPS:
        note = f"there are more than {MOST_GROUPS} groups"
        return Groups(column, (), GroupValue(None, None, len(groups), note=note))
    own = {}
    for label, group in groups.items():
        n, left_out = group.whole.get("n", 0), dict(sorted(group.whole.get("left_out", {}).items()))
        if value.name in group.by_name:
            own[label] = group.by_name[value.name]
        elif value.type == "frequency" and n and isinstance(one.metric, BaseMetric):
            # A label that it never has is none of its samples.
            own[label] = one.metric.state_share(value.name, (0, n), group.whole)
        else:
            note = "it does not occur in this group"
            own[label] = MetricValue(value.name, None, n, left_out, note=note, type=value.type)
    listed = tuple(_describe(label, found) for label, found in own.items())
    known = {label: found for label, found in own.items() if found.value is not None}
    if not known:
        return Groups(column, listed, GroupValue(None, None, 0, note="no group has a value"))
    note = f"mean over {len(known)} of {len(own)} groups, the others have no value"
    mean = MetricValue(
        value.name,
        average([float(found.value or 0) for found in known.values()]),
        len(known),
        note=note if len(known) < len(own) else None,
        is_share=all(found.is_share for found in known.values()),
    )
    if one.design.cluster_by is None:
        # The groups are those there are, each measured with an error of its own.
        counts = [(found.details.get("count"), found.details.get("of")) for found in known.values()]
        shares = [(count, of) for count, of in counts if isinstance(count, int) and isinstance(of, int)]
        is_clustered = any("clusters" in found.details for found in known.values())
        is_plain = len(shares) == len(known) and not is_clustered
        margin = average_shares(shares) if is_plain else average_errors(list(known.values()))
        mean = replace(mean, **{**vars(margin), "is_share": mean.is_share})
        return Groups(column, listed, _describe(None, mean))
    clusters: list[tuple[Sequence[Ratio], int]] = []
    if one.design.cluster_by == column:
        # The groups stand for others like them, and what counts is how far they differ.
        units = [to_units(float(found.value or 0)) for found in known.values()]
        clusters = [([Ratio(unit, 1 << UNIT_BITS, 1)], 1) for unit in units]
    elif isinstance(one.metric, RatioMetric):
        # Of each cluster its sums in every group: a cluster may lie in several.
        nothing = Ratio(0, 0, 0)
        sums = [
            {
                cluster: one.metric.ratios(part, whole).get(value.name, nothing)
                for cluster, part in groups[label].clusters.get(NAMED, {}).items()
            }
            for label in known
        ]
        names = sorted(set().union(*sums))
        clusters = [([group.get(name, nothing) for group in sums], 1) for name in names]
    if clusters:
        error, size = average_clustered_error(clusters, is_corrected=one.design.is_corrected)
        mean = bound_clustered(mean, error, size, one.design)
    else:
        mean = replace(mean, interval_note="no formula for clusters fits this type")
    return Groups(column, listed, _describe(None, mean))


def _describe(label: str | None, value: MetricValue) -> GroupValue:
    shared = [one.name for one in fields(GroupValue) if one.name != "group"]
    return GroupValue(label, **{name: getattr(value, name) for name in shared})
