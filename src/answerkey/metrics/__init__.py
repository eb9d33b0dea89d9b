"""Scores become metric values, computed once from the finished table of scores."""

from answerkey.metrics.base import Metric, ValueNames, foresee_names, name_values
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
from answerkey.metrics.measure import (
    Design,
    KeyedMetric,
    compute_metrics,
    find_scale,
    shrink_scores,
)
from answerkey.metrics.moments import Max, Mean, Min, StdDev, WeightedAverage
from answerkey.metrics.python import PythonMetric
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

_KINDS: tuple[type[Metric], ...] = (
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
_OWN = {kind.type: kind for kind in _KINDS}

#: All metric types by the name that stands in `type:`.
METRICS: Registry[Metric] = Registry("answerkey.metrics", _OWN, _OWN.__getitem__)
