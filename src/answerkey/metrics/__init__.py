"""Scores become metric values: each shard is measured alone, the parts are merged exactly, then finished."""

from answerkey.metrics.aggregators import UNBIASED, WITH_K, Aggregator, AggregatorName
from answerkey.metrics.averages import average_counts
from answerkey.metrics.calibration import Calibration
from answerkey.metrics.choice_order import ChoiceOrderMetric
from answerkey.metrics.classification import BinaryClassification, MulticlassClassification
from answerkey.metrics.counts import F1Score, Precision, Recall
from answerkey.metrics.design import Design, KeyedMetric, find_scale
from answerkey.metrics.failures import STOPPED_EARLY, find_same_failure
from answerkey.metrics.frequency import Frequency
from answerkey.metrics.intervals import wilson
from answerkey.metrics.measuring import conclude_metric, measure_metrics
from answerkey.metrics.moments import Max, Mean, Min, StdDev
from answerkey.metrics.naming import name_values
from answerkey.metrics.observed import Part
from answerkey.metrics.pride import PrideMetric
from answerkey.metrics.python import PythonMetric
from answerkey.metrics.registry import METRICS, Metric, finish_metric
from answerkey.metrics.repeating import compare_repetitions, measure_agreement
from answerkey.metrics.tally import Tally, find_category_column, measure_tally
from answerkey.metrics.trial_tally import merge_tallies, tally_shard
from answerkey.metrics.trials import ScoreAggregator, Trials, aggregate_scores
from answerkey.metrics.value_names import ValueNames, foresee_names
from answerkey.metrics.weighted import WeightedAverage

__all__ = [
    "METRICS",
    "STOPPED_EARLY",
    "UNBIASED",
    "WITH_K",
    "Aggregator",
    "AggregatorName",
    "BinaryClassification",
    "Calibration",
    "ChoiceOrderMetric",
    "Design",
    "F1Score",
    "Frequency",
    "KeyedMetric",
    "Max",
    "Mean",
    "Metric",
    "Min",
    "MulticlassClassification",
    "Part",
    "Precision",
    "PrideMetric",
    "PythonMetric",
    "Recall",
    "ScoreAggregator",
    "StdDev",
    "Tally",
    "Trials",
    "ValueNames",
    "WeightedAverage",
    "aggregate_scores",
    "average_counts",
    "compare_repetitions",
    "conclude_metric",
    "find_category_column",
    "find_same_failure",
    "find_scale",
    "finish_metric",
    "foresee_names",
    "measure_agreement",
    "measure_metrics",
    "measure_tally",
    "merge_tallies",
    "name_values",
    "tally_shard",
    "wilson",
]
