"""Metrics over samples: asked once or several times, as a whole, by group, and in clusters.

Under trials a metric sees the aggregates, one row per sample. A metric that reads something without an
aggregate (metadata, or values that are no numbers) counts the trials instead; which of the two it is can
depend on the scores, so a part holds both until all shards are merged. A part of either holds

    whole       the metric's own part
    clusters    the sums of each cluster, where samples come in clusters
    groups      column → group → whole and clusters, where the design groups samples
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import polars as pl

from answerkey.metrics.clusters import (
    NAMED,
    Clustering,
    apply_clusters,
    collect_alike,
    collect_named,
    merge_clusters,
)
from answerkey.metrics.design import (
    Design,
    KeyedMetric,
    Splittable,
    label_columns,
    name_clusters,
    name_groups,
    pick_first,
)
from answerkey.metrics.groups import Breakdown, Grouped
from answerkey.metrics.intervals import Scale
from answerkey.metrics.observed import Part
from answerkey.metrics.orders import average_orders, collect_owned, find_heads, find_own_rows, find_owners
from answerkey.metrics.registry import Metric, finish_metric
from answerkey.metrics.splitting import split_observed
from answerkey.metrics.trials import Trials, aggregate_scores, holds_other, holds_shares
from answerkey.types import GroupValue, MetricValue, Samples, Scores

BY_SAMPLE, BY_TRIAL = "by_sample", "by_trial"
Bounded = TypeVar("Bounded", MetricValue, GroupValue)
WHOLE, CLUSTERS, GROUPS = "whole", "clusters", "groups"


@dataclass(frozen=True)
class _Table:
    """Scores with the labels of their rows; `size` rows belong to one sample, and are a cluster by that.

    Where samples have other numbers of rows, `owners` are the ids of the samples.
    """

    scores: Scores
    labels: Mapping[str, pl.Series]
    size: int = 1
    owners: pl.Series | None = None

    @property
    def has_repeats(self) -> bool:
        """Whether samples have several rows."""
        return self.size > 1 or self.owners is not None

    def filter(self, rows: pl.Series) -> _Table:
        labels = {name: series.filter(rows) for name, series in self.labels.items()}
        owners = None if self.owners is None else self.owners.filter(rows)
        return _Table(Scores(self.scores.frame.filter(rows), self.scores.encoded), labels, self.size, owners)


def measure_metrics(
    metrics: Sequence[KeyedMetric], scores: Scores, samples: Samples, trials: Trials | None = None
) -> list[Part]:
    """Return what one shard contributes to each metric; both tables have a row for each sample and trial."""
    own = find_own_rows(samples)
    if own is not None:
        return _measure_apart(metrics, scores, samples, own, trials)
    labels = _label(samples, [one.design for one in metrics])
    if trials is None and samples.orders is None:
        return [_measure(one, _Table(scores, labels)) for one in metrics]
    fields = [one.metric.fields() for one in metrics]
    listed = {name for names in fields for name in names} if all(fields) else None
    asked = _Table(scores, labels, trials.num_trials if trials else 1)
    aggregated = asked
    if trials is not None:
        whole = aggregate_scores(scores, trials, listed)
        aggregated = _Table(whole, pick_first(labels, trials.num_trials))
    if samples.orders is not None:
        owners = find_owners(samples)
        asked = replace(asked, owners=owners)
        aggregated = _average_orders(aggregated, owners.gather_every(asked.size), listed)
    return [
        _measure(one, _Table(scores, labels))
        if getattr(one.metric, "reads_rows", False)
        else {
            BY_SAMPLE: _measure(one, aggregated),
            BY_TRIAL: _measure(one, asked) if one.metric.fields() else {WHOLE: {}},
            "is_by_trial": any(holds_other(scores, name) for name in one.metric.fields()),
            "is_share": all(holds_shares(scores, name) for name in one.metric.fields()),
        }
        for one in metrics
    ]


def _measure_apart(
    metrics: Sequence[KeyedMetric], scores: Scores, samples: Samples, own: pl.Series, trials: Trials | None
) -> list[Part]:
    """Return the parts of metrics that see all rows, and of the others, which see the samples' own."""
    rows = own.arg_true()
    kept = (
        Scores(scores.frame[rows], scores.encoded),
        replace(samples.take(rows), orders=_cut_orders(samples, rows)),
    )
    whole = scores, replace(samples, orders=_cut_orders(samples, None))
    return [
        measure_metrics([one], *(whole if getattr(one.metric, "reads_extra", False) else kept), trials)[0]
        for one in metrics
    ]


def _cut_orders(samples: Samples, rows: pl.Series | None) -> pl.DataFrame | None:
    """Return the orders without what tells rows apart: they have been told."""
    orders = None if samples.orders is None else samples.orders.drop("is_extra")
    return orders if orders is None or rows is None else orders[rows]


def _average_orders(table: _Table, owners: pl.Series, listed: Collection[str] | None) -> _Table:
    heads = find_heads(owners)
    labels = {name: series.gather(heads) for name, series in table.labels.items()}
    return _Table(average_orders(table.scores, owners, listed), labels)


def _label(samples: Samples, designs: Sequence[Design]) -> dict[str, pl.Series]:
    """Return the labels of groups by column, and those of clusters by `cluster ` and the column."""
    labels = label_columns(samples, designs)
    found = {name: name_groups(series) for name, series in labels.items()}
    columns = {design.cluster_by for design in designs if design.cluster_by}
    return found | {f"cluster {name}": name_clusters(labels[name], find_owners(samples)) for name in columns}


def _measure(one: KeyedMetric, table: _Table) -> Part:
    metric, design = one.metric, one.design
    part: Part = {WHOLE: metric.measure(table.scores)} | _collect_clusters(metric, design, table)
    if design.group_by:
        part[GROUPS] = {name: _split(_within_group(one, name), table, name) for name in design.group_by}
    return part


def _collect_clusters(metric: Metric, design: Design, table: _Table) -> Part:
    if design.cluster_by is not None:
        found = collect_named(metric, table.scores, [table.labels[f"cluster {design.cluster_by}"]])
        return {CLUSTERS: {NAMED: {label: sums for (label,), sums in found.items()}}}
    if table.owners is not None:
        return {CLUSTERS: collect_owned(metric, table.scores, table.owners)}
    return {CLUSTERS: collect_alike(metric, table.scores, table.size)} if table.size > 1 else {}


def _within_group(one: KeyedMetric, column: str) -> KeyedMetric:
    """Return the metric for the samples of one group; where groups are the clusters, each has but one."""
    cluster_by = None if one.design.cluster_by == column else one.design.cluster_by
    return replace(one, design=replace(one.design, group_by=(), cluster_by=cluster_by))


def _split(one: KeyedMetric, table: _Table, column: str) -> dict[str, Part]:
    """Return the parts of each group."""
    metric, design, labels = one.metric, one.design, table.labels[column]
    if not isinstance(metric, Splittable) or (table.has_repeats and design.cluster_by is None):
        return {str(label): _measure(one, table.filter(labels == label)) for label in labels.unique()}
    found = split_observed(table.scores, metric.fields(), [labels])
    parts: dict[str, Part] = {label: {WHOLE: metric.collect(seen)} for (label,), seen in found.items()}
    if design.cluster_by is not None:
        clusters = [labels, table.labels[f"cluster {design.cluster_by}"]]
        for part in parts.values():
            part[CLUSTERS] = {NAMED: {}}
        for (label, cluster), sums in collect_named(metric, table.scores, clusters).items():
            parts[label][CLUSTERS][NAMED][cluster] = sums
    return parts


def conclude_metric(
    one: KeyedMetric, parts: Sequence[Part], trials: Trials | None = None
) -> list[MetricValue]:
    """Return a metric's values from all its parts; one that cannot be computed is a null with the reason."""
    values = _conclude_parts(one, parts, trials)
    return values if one.scale is None else [_keep_all_within(value, one.scale) for value in values]


def _keep_all_within(value: MetricValue, scale: Scale) -> MetricValue:
    """Return a value whose interval, and those of its groups, do not pass the ends of its scale."""
    groups = [
        replace(
            column,
            values=tuple(_keep_within(one, scale) for one in column.values),
            macro=_keep_within(column.macro, scale),
        )
        for column in value.groups
    ]
    return replace(_keep_within(value, scale), groups=tuple(groups))


def _keep_within(value: Bounded, scale: Scale) -> Bounded:
    low, high = scale
    if value.value is None or value.interval is None or not low <= value.value <= high:
        return value
    return replace(value, interval=(max(low, value.interval[0]), min(high, value.interval[1])))


def _conclude_parts(one: KeyedMetric, parts: Sequence[Part], trials: Trials | None) -> list[MetricValue]:
    if not any(BY_SAMPLE in part for part in parts):
        return _conclude(one, parts)
    asked = trials or Trials(num_trials=1)
    if any(part["is_by_trial"] for part in parts):
        found = _conclude(one, [part[BY_TRIAL] for part in parts])
        return [_mark_trials(value, asked) for value in found]
    is_share = all(part["is_share"] for part in parts)
    found = _conclude(one, [part[BY_SAMPLE] for part in parts], is_share=is_share)
    return [_mark_aggregates(value, one.metric, asked) for value in found]


def _conclude(one: KeyedMetric, parts: Sequence[Part], *, is_share: bool = False) -> list[MetricValue]:
    """Return the values with their clusters and groups."""
    metric, design = one.metric, one.design
    finish = _finisher(metric, design, is_share=is_share)
    whole = finish("", parts)
    columns = [
        Breakdown(
            name, _merge_groups([part[GROUPS][name] for part in parts], finish), metric, design, whole.whole
        )
        for name in design.group_by
    ]
    return [replace(value, groups=tuple(column.state(value) for column in columns)) for value in whole.values]


Finish = Callable[[str, Sequence[Part]], Grouped]


def _finisher(metric: Metric, design: Design, *, is_share: bool) -> Finish:
    """Return what merges and finishes the parts of the whole, or of one group."""
    # Without clusters of its own, a table of trials has its samples for clusters.
    noun = f"values of `{design.cluster_by}`" if design.cluster_by else "samples"
    clustering = Clustering(noun, design.cluster_by, design.is_corrected)

    def finish(label: str, parts: Sequence[Part]) -> Grouped:
        found = [one[CLUSTERS] for one in parts if CLUSTERS in one]
        clusters = merge_clusters(found)
        # What clusters are going to say is not resampled before.
        seed = None if found else design.seed
        part = {**metric.merge([one[WHOLE] for one in parts]), "seed": seed, "is_share": is_share}
        values = finish_metric(metric, part)
        if found:
            values = apply_clusters(values, metric, part, clusters, clustering)
        return Grouped(label, part, clusters, values)

    return finish


def _merge_groups(shards: Sequence[Mapping[str, Part]], finish: Finish) -> list[Grouped]:
    """Return the groups of all shards in the order of their labels."""
    labels = sorted({label for shard in shards for label in shard})
    return [finish(label, [shard[label] for shard in shards if label in shard]) for label in labels]


def _mark_trials(value: MetricValue, trials: Trials) -> MetricValue:
    """Return a value that counts trials; those of one sample are no independent draws, but a cluster."""
    counts = "trials" if trials.num_trials > 1 else "orders"
    details = {**value.details, "num_trials": trials.num_trials, "counts": counts}
    return replace(value, details=details)


def _mark_aggregates(value: MetricValue, metric: Metric, trials: Trials) -> MetricValue:
    """Return a value with what the bare names among its fields stand for."""
    bare = [name for name in metric.fields() if "." not in name]
    meant = {name: trials.aggregators_of(name)[0].label for name in bare}
    details = {**value.details, "num_trials": trials.num_trials, "counts": "samples"}
    return replace(value, details=details | ({"aggregates": meant} if meant else {}))
