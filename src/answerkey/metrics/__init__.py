"""Scores become metric values: each shard is measured alone, the parts are merged exactly, then finished."""

from answerkey.metrics.classification import BinaryClassification, MulticlassClassification
from answerkey.metrics.counts import F1Score, Precision, Recall
from answerkey.metrics.frequency import Frequency
from answerkey.metrics.intervals import wilson
from answerkey.metrics.moments import Max, Mean, Min, StdDev
from answerkey.metrics.naming import name_values
from answerkey.metrics.observed import Part
from answerkey.metrics.python import PythonMetric
from answerkey.metrics.registry import METRICS, Metric, finish_metric
from answerkey.metrics.tally import Tally, find_category_column, measure_tally, merge_tallies
from answerkey.metrics.weighted import WeightedAverage

__all__ = [
    "METRICS",
    "BinaryClassification",
    "F1Score",
    "Frequency",
    "Max",
    "Mean",
    "Metric",
    "Min",
    "MulticlassClassification",
    "Part",
    "Precision",
    "PythonMetric",
    "Recall",
    "StdDev",
    "Tally",
    "WeightedAverage",
    "find_category_column",
    "finish_metric",
    "measure_tally",
    "merge_tallies",
    "name_values",
    "wilson",
]
