"""Scores become metric values, computed once from the finished table of scores.

A module other than those imported here is loaded when a task names one of its metrics.
"""

from answerkey.metrics.base import Metric, ValueNames, foresee_names, name_values
from answerkey.metrics.intervals import average_counts, wilson
from answerkey.metrics.measure import (
    Design,
    KeyedMetric,
    compute_metrics,
    find_scale,
    shrink_scores,
)
from answerkey.metrics.moments import Mean
from answerkey.metrics.rows import RowFacts, describe_samples
from answerkey.metrics.task_counts import (
    MODEL_CALL_FAILED,
    STOPPED_EARLY,
    add_counts,
    count_task,
    describe_rows,
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
    "find_category_column",
    "find_failures",
    "find_same_failure",
    "find_scale",
    "foresee_names",
    "measure_agreement",
    "name_values",
    "shrink_scores",
    "wilson",
]

#: All metric types by the name that stands in `type:`.
METRICS: Registry[Metric] = Registry(
    "answerkey.metrics",
    {
        "mean": "answerkey.metrics.moments:Mean",
        "max": "answerkey.metrics.moments:Max",
        "min": "answerkey.metrics.moments:Min",
        "std_dev": "answerkey.metrics.moments:StdDev",
        "frequency": "answerkey.metrics.classification:Frequency",
        "weighted_average": "answerkey.metrics.moments:WeightedAverage",
        "precision": "answerkey.metrics.classification:Precision",
        "recall": "answerkey.metrics.classification:Recall",
        "f1_score": "answerkey.metrics.classification:F1Score",
        "binary-classification": "answerkey.metrics.classification:BinaryClassification",
        "multiclass-classification": "answerkey.metrics.classification:MulticlassClassification",
        "calibration": "answerkey.metrics.classification:Calibration",
        "python": "answerkey.metrics.python:PythonMetric",
    },
)
