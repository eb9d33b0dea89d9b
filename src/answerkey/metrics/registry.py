"""All metric types by the name that stands in `type:`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from answerkey.errors import ScoringError
from answerkey.metrics.calibration import Calibration
from answerkey.metrics.classification import BinaryClassification, MulticlassClassification
from answerkey.metrics.counts import F1Score, Precision, Recall
from answerkey.metrics.frequency import Frequency
from answerkey.metrics.moments import Max, Mean, Min, StdDev
from answerkey.metrics.observed import Part
from answerkey.metrics.python import PythonMetric
from answerkey.metrics.weighted import WeightedAverage
from answerkey.types import MetricValue, Registry, Scores


class Metric(Protocol):
    """A frozen dataclass whose fields are those of the YAML, and three verbs that work shard by shard."""

    type: ClassVar[str]

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""
        ...

    def measure(self, scores: Scores) -> Part:
        """Return what one shard contributes, as plain values."""
        ...

    def merge(self, parts: Sequence[Part]) -> Part:
        """Return several parts as one; however the samples were sharded, the outcome is the same."""
        ...

    def finish(self, part: Part) -> list[MetricValue]:
        """Return the values. Raises ScoringError when the fields do not hold what the metric needs."""
        ...


def finish_metric(metric: Metric, part: Part) -> list[MetricValue]:
    """Return a metric's values; one that cannot be computed is a null with the reason, and costs no other."""
    try:
        return metric.finish(part)
    except ScoringError as error:
        name = str(getattr(metric, "name", None) or "_".join([*metric.fields(), metric.type]))
        return [MetricValue(name, None, 0, note=f"{error.message} ({error.code})", type=metric.type)]


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

METRICS: Registry[Metric] = Registry("answerkey.metrics", {metric.type: metric for metric in _OWN})
