"""Intervals where samples come in clusters: questions on one passage, trials of one sample.

Only the sums of each cluster are kept. Clusters with a name may lie in several shards; those without one (the
trials of a sample) never do, and are counted where their sums are the same.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from answerkey.metrics.design import RatioMetric
from answerkey.metrics.intervals import CLUSTERED_STUDENT, CLUSTERED_WILSON, score_interval, student
from answerkey.metrics.observed import Part, merge_parts
from answerkey.metrics.ratios import Ratio, count_clusters, measure_clustered_error
from answerkey.metrics.registry import Metric
from answerkey.metrics.splitting import Labels, count_alike, split_observed
from answerkey.types import MetricValue, Scores

#: With fewer clusters there is a standard error, but no interval: it would miss too often.
FEWEST_CLUSTERS = 5
#: So many different samples without a name are kept at most.
MOST_KINDS = 5_000

NAMED, ALIKE, WIDE = "named", "alike", "wide"


@dataclass(frozen=True)
class Clustering:
    """What clusters are called in notes, and whether their number is corrected for."""

    noun: str
    column: str | None = None
    is_corrected: bool = True


def collect_named(metric: Metric, scores: Scores, labels: Sequence[pl.Series]) -> dict[Labels, Part]:
    """Return the sums of each cluster of a shard; nothing for a metric that is no ratio of sums."""
    if not isinstance(metric, RatioMetric):
        return {}
    found = split_observed(scores, metric.fields(), labels)
    return {label: _keep_sums(metric, metric.collect(one)) for label, one in found.items() if one.counts}


def collect_alike(metric: Metric, scores: Scores, size: int) -> Part:
    """Return how often the `size` rows of a sample have the same sums."""
    if not isinstance(metric, RatioMetric) or not metric.fields():
        return {}
    kinds: Counter[str] = Counter()
    for observed, count in count_alike(scores, metric.fields(), size):
        sums = _keep_sums(metric, metric.collect(observed))
        kinds[json.dumps(sums, sort_keys=True)] += count
    return _cut_kinds({ALIKE: dict(kinds), WIDE: 0})


def _keep_sums(metric: RatioMetric, part: Part) -> Part:
    return {name: part[name] for name in metric.sums}


def merge_clusters(parts: Sequence[Part]) -> Part:
    """Return the clusters of several shards as one."""
    return _cut_kinds(merge_parts(parts))


def _cut_kinds(part: Part) -> Part:
    if part.get(WIDE) or len(part.get(ALIKE, ())) > MOST_KINDS:
        return {**part, ALIKE: {}, WIDE: 1}
    return part


def read_clusters(part: Part) -> list[tuple[Part, int]]:
    """Return the sums of the clusters, and how often each occurs."""
    alike: list[tuple[Any, int]] = [(json.loads(text), count) for text, count in part.get(ALIKE, {}).items()]
    return alike + [(sums, 1) for sums in part.get(NAMED, {}).values()]


def apply_clusters(
    values: Sequence[MetricValue], metric: Metric, whole: Part, part: Part, clustering: Clustering
) -> list[MetricValue]:
    """Return values with the interval that allows for their clusters; the one they had does not hold."""
    bare = [_strip_interval(value) for value in values]
    if not isinstance(metric, RatioMetric) or not whole.get("n"):
        return [_say(value, f"no formula for {clustering.noun} fits this type") for value in bare]
    if part.get(WIDE):
        return [_say(value, f"too many different {clustering.noun}") for value in bare]
    clusters = [(metric.ratios(sums, whole), count) for sums, count in read_clusters(part)]
    members: dict[str, list[str]] = metric.averages(whole) if hasattr(metric, "averages") else {}
    known = metric.ratios(whole, whole)
    uses = Counter(value.name for value in bare)
    found = []
    for value in bare:
        if uses[value.name] > 1:  # a class called `macro` has the names of the averages
            found.append(_say(value, "two values of the metric have this name"))
        elif value.name in known:
            own = [(ratios[value.name], count) for ratios, count in clusters]
            error = measure_clustered_error(own, is_corrected=clustering.is_corrected)
            found.append(bound_clustered(value, error, count_clusters(own), clustering))
        elif members.get(value.name):
            rows = [([ratios[name] for name in members[value.name]], count) for ratios, count in clusters]
            error, size = average_clustered_error(rows, is_corrected=clustering.is_corrected)
            found.append(bound_clustered(value, error, size, clustering))
        else:
            found.append(_say(value, f"no formula for {clustering.noun} fits this type"))
    return found


def _strip_interval(value: MetricValue) -> MetricValue:
    return replace(value, std_error=None, interval=None, interval_method=None, interval_note=None)


def _say(value: MetricValue, note: str) -> MetricValue:
    return value if value.value is None else replace(value, interval_note=note)


def bound_clustered(
    value: MetricValue, std_error: float | None, size: int, clustering: Clustering
) -> MetricValue:
    """Return a value with its clustered standard error and, where there are enough clusters, an interval."""
    about = {"clusters": size, "clusters_corrected": clustering.is_corrected}
    details = {**value.details, **about, "cluster_by": clustering.column}
    stated = replace(value, std_error=std_error, details=details)
    if value.value is None:
        return replace(value, details=details)
    if size < FEWEST_CLUSTERS:
        note = f"an interval needs at least {FEWEST_CLUSTERS} {clustering.noun}, there are {size}"
        return replace(stated, interval_note=note)
    if not std_error:
        return replace(stated, interval_note=f"all {size} {clustering.noun} are alike")
    if value.is_share and 0 < value.value < 1:
        interval = score_interval(value.value, std_error, size - 1)
        return replace(stated, interval=interval, interval_method=CLUSTERED_WILSON)
    interval = student(value.value, std_error, size - 1, is_share=value.is_share)
    if not all(map(math.isfinite, interval)):
        return replace(stated, interval_note="the spread is too large for a float")
    return replace(stated, interval=interval, interval_method=CLUSTERED_STUDENT)


def average_clustered_error(
    clusters: Sequence[tuple[Sequence[Ratio], int]], *, is_corrected: bool
) -> tuple[float | None, int]:
    """Return the standard error of the mean of several ratios over the same clusters, and how many these are.

    Each cluster is given with its sums for every ratio and how often it occurs. Its residual is the mean of
    its residuals: (top - R · bottom) / Σ bottom.
    """
    size = sum(count for ratios, count in clusters if any(one.n for one in ratios))
    if size <= 1:
        return None, size
    correction = size / (size - 1) if is_corrected else 1.0
    try:
        squares = math.fsum(count * one * one for one, count in _average_residuals(clusters))
    except OverflowError:
        return None, size
    error = math.sqrt(correction * squares) / len(clusters[0][0])
    return (error if math.isfinite(error) else None), size


def _average_residuals(clusters: Sequence[tuple[Sequence[Ratio], int]]) -> list[tuple[float, int]]:
    """Return the sum of each cluster's residuals, and how often it occurs."""
    columns = range(len(clusters[0][0]))
    tops = [sum(ratios[i].top * count for ratios, count in clusters) for i in columns]
    bottoms = [sum(ratios[i].bottom * count for ratios, count in clusters) for i in columns]
    return [
        (math.fsum(_divide_residual(ratios[i], tops[i], bottoms[i]) for i in columns), count)
        for ratios, count in clusters
    ]


def _divide_residual(ratio: Ratio, top: int, bottom: int) -> float:
    return (ratio.top * bottom - top * ratio.bottom) / bottom**2
