"""Metrics over samples that were asked once, or several times.

Under trials a metric sees the aggregates, one row per sample. A metric that reads something without an
aggregate (metadata, or values that are no numbers) counts the trials instead; which of the two it is can
depend on the scores, so a part holds both until all shards are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from answerkey.metrics.observed import Part
from answerkey.metrics.registry import Metric, finish_metric
from answerkey.metrics.trials import Trials, aggregate_scores, holds_other
from answerkey.types import MetricValue, Scores

BY_SAMPLE, BY_TRIAL = "by_sample", "by_trial"


def measure_metrics(metrics: Sequence[Metric], scores: Scores, trials: Trials | None = None) -> list[Part]:
    """Return what one shard contributes to each metric; under trials, `scores` is a table of trials."""
    if trials is None:
        return [metric.measure(scores) for metric in metrics]
    aggregated = aggregate_scores(scores, trials)
    return [_measure_both(metric, scores, aggregated) for metric in metrics]


def _measure_both(metric: Metric, scores: Scores, aggregated: Scores) -> Part:
    fields = metric.fields()
    return {
        BY_SAMPLE: metric.measure(aggregated),
        BY_TRIAL: metric.measure(scores) if fields else {},
        "is_by_trial": any(holds_other(scores, name) for name in fields),
    }


def conclude_metric(metric: Metric, parts: Sequence[Part], trials: Trials | None = None) -> list[MetricValue]:
    """Return a metric's values from all its parts; one that cannot be computed is a null with the reason."""
    if trials is None:
        return finish_metric(metric, metric.merge(parts))
    is_by_trial = any(part["is_by_trial"] for part in parts)
    part = metric.merge([part[BY_TRIAL if is_by_trial else BY_SAMPLE] for part in parts])
    found = finish_metric(metric, part)
    if is_by_trial:
        return [_mark_trials(one, trials) for one in found]
    return [_mark_aggregates(one, metric, trials) for one in found]


def _mark_trials(value: MetricValue, trials: Trials) -> MetricValue:
    """Return a value that counts trials: those of one sample are no independent draws, so no interval."""
    details = {**value.details, "num_trials": trials.num_trials, "counts": "trials"}
    return replace(value, interval=None, interval_method=None, details=details)


def _mark_aggregates(value: MetricValue, metric: Metric, trials: Trials) -> MetricValue:
    """Return a value with what the bare names among its fields stand for."""
    bare = [name for name in metric.fields() if "." not in name]
    meant = {name: trials.aggregators_of(name)[0].label for name in bare}
    details = {**value.details, "num_trials": trials.num_trials, "counts": "samples"}
    return replace(value, details=details | ({"aggregates": meant} if meant else {}))
