"""Metrics: values computed once from the finished table of scores.

Other modules than those imported here are loaded when a task names one of their metrics.
"""

from answerkey.metrics.base import Metric, ValueNames, expected_names, name_values
from answerkey.metrics.intervals import average_counts, wilson
from answerkey.metrics.measure import (
    Design,
    KeyedMetric,
    compute_metrics,
    find_scale,
    shrink_scores,
)
from answerkey.metrics.moments import Max, Mean, Min, StdDev, WeightedAverage
from answerkey.metrics.task_counts import (
    MODEL_CALL_FAILED,
    STOPPED_EARLY,
    RowFacts,
    add_counts,
    count_task,
    describe_rows,
    describe_samples,
    find_category_column,
    find_failures,
    find_same_failure,
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
    "MODEL_CALL_FAILED",
    "STOPPED_EARLY",
    "UNBIASED",
    "WITH_K",
    "Aggregator",
    "AggregatorName",
    "Design",
    "KeyedMetric",
    "Mean",
    "Metric",
    "RowFacts",
    "ScoreAggregator",
    "Trials",
    "ValueNames",
    "add_counts",
    "aggregate_scores",
    "average_counts",
    "compare_repetitions",
    "compute_metrics",
    "count_task",
    "describe_rows",
    "describe_samples",
    "expected_names",
    "find_category_column",
    "find_failures",
    "find_same_failure",
    "find_scale",
    "measure_agreement",
    "name_values",
    "shrink_scores",
    "wilson",
]

_OWN = (
    "mean",
    "max",
    "min",
    "std_dev",
    "frequency",
    "weighted_average",
    "precision",
    "recall",
    "f1_score",
    "binary-classification",
    "multiclass-classification",
    "calibration",
    "python",
)


def _load_metric(name: str) -> type[Metric]:
    kinds: tuple[type[Metric], ...] = (
        Mean,
        Max,
        Min,
        StdDev,
        WeightedAverage,
    )
    if name not in {kind.type for kind in kinds}:
        from answerkey.metrics import classification
        from answerkey.metrics.python import PythonMetric

        kinds = (
            classification.Frequency,
            classification.Precision,
            classification.Recall,
            classification.F1Score,
            classification.BinaryClassification,
            classification.MulticlassClassification,
            classification.Calibration,
            PythonMetric,
        )
    return next(kind for kind in kinds if kind.type == name)


#: All metric types by their name in `type:`.
METRICS: Registry[Metric] = Registry("answerkey.metrics", _OWN, _load_metric)
