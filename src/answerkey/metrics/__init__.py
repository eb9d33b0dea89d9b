"""Scores become metric values: each shard is measured alone, the parts are merged exactly, then finished."""

from answerkey.metrics.base import Metric, Part, ValueNames, foresee_names, name_values
from answerkey.metrics.classification import (
    BinaryClassification,
    Calibration,
    F1Score,
    Frequency,
    MulticlassClassification,
    Precision,
    Recall,
)
from answerkey.metrics.intervals import average_counts, wilson
from answerkey.metrics.measure import Design, KeyedMetric, find_scale, finish_metric, measure_metrics
from answerkey.metrics.moments import Max, Mean, Min, StdDev, WeightedAverage
from answerkey.metrics.python import PythonMetric
from answerkey.metrics.task_counts import (
    STOPPED_EARLY,
    count_shard,
    find_category_column,
    find_same_failure,
    merge_counts,
)
from answerkey.metrics.trials import (
    UNBIASED,
    WITH_K,
    Aggregator,
    AggregatorName,
    ScoreAggregator,
    Trials,
    aggregate_scores,
    compare_repetitions,
    measure_agreement,
)
from answerkey.types import Registry

__all__ = [
    "METRICS",
    "STOPPED_EARLY",
    "UNBIASED",
    "WITH_K",
    "Aggregator",
    "AggregatorName",
    "Calibration",
    "Design",
    "Frequency",
    "KeyedMetric",
    "Mean",
    "Metric",
    "Part",
    "PythonMetric",
    "ScoreAggregator",
    "Trials",
    "ValueNames",
    "aggregate_scores",
    "average_counts",
    "compare_repetitions",
    "count_shard",
    "find_category_column",
    "find_same_failure",
    "find_scale",
    "finish_metric",
    "foresee_names",
    "measure_agreement",
    "measure_metrics",
    "merge_counts",
    "name_values",
    "wilson",
]

_OWN: tuple[type[Metric], ...] = (
    Mean,
    Max,
    Min,
    StdDev,
    Frequency,
    WeightedAverage,
    Precision,
    Recall,
    F1Score,
    BinaryClassification,
    MulticlassClassification,
    Calibration,
    PythonMetric,
)

#: All metric types by the name that stands in `type:`.
METRICS: Registry[Metric] = Registry("answerkey.metrics", {metric.type: metric for metric in _OWN})
