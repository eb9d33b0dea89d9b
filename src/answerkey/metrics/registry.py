"""All metric types by the name that stands in `type:`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import ClassVar, Protocol

from answerkey.errors import ScoringError
from answerkey.metrics.classification import BinaryClassification, MulticlassClassification
from answerkey.metrics.counts import F1Score, Precision, Recall
from answerkey.metrics.frequency import Frequency
from answerkey.metrics.moments import Max, Mean, Min, StdDev
from answerkey.metrics.observed import Part
from answerkey.metrics.python import PythonMetric
from answerkey.metrics.weighted import WeightedAverage
from answerkey.types import MetricValue, Scores


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


class MetricKinds(Mapping[str, type[Metric]]):
    """The built-in metrics, then those of other packages, which are loaded when first asked for.

    A package registers a class under its `type` in the entry point group `answerkey.metrics`; a built-in name
    cannot be taken over.
    """

    group = "answerkey.metrics"

    def __init__(self, *built_in: type[Metric]) -> None:
        self._kinds = {kind.type: kind for kind in built_in}
        self._is_complete = False

    def __getitem__(self, name: str) -> type[Metric]:
        if name not in self._kinds:
            self._complete()
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        self._complete()
        return iter(self._kinds)

    def __len__(self) -> int:
        self._complete()
        return len(self._kinds)

    def _complete(self) -> None:
        if self._is_complete:
            return
        self._is_complete = True
        for entry in entry_points(group=self.group):
            self._kinds.setdefault(entry.name, entry.load())


METRICS: Mapping[str, type[Metric]] = MetricKinds(
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
    PythonMetric,
)
