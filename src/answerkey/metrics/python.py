"""`python`: a user's own function computes the values, in its own process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from answerkey.errors import SpecError
from answerkey.metrics.base import (
    NOTHING_COUNTED,
    BaseMetric,
    Coverage,
    count_coverage,
    read_number,
)
from answerkey.metrics.intervals import Margin
from answerkey.reader.explain import shorten
from answerkey.types import MetricValue, Scores

if TYPE_CHECKING:
    from answerkey.sandbox import Snippet

OWN_FUNCTION = "the uncertainty of your own function's number is unknown"

#: The time limit of a snippet for all samples of a task, in seconds.
SECONDS = 300.0


@dataclass(frozen=True)
class PythonMetric(BaseMetric):
    """The numbers that `compute_metrics(scores)` returns, by name.

    The snippet sees the samples that count, in dataset order.
    """

    compute_metrics_snippet: str

    type: ClassVar[str] = "python"

    def __post_init__(self) -> None:
        if not self.compute_metrics_snippet.strip():
            message = "`compute_metrics_snippet` is empty"
            hint = "write a function `compute_metrics(scores)` that returns names and numbers"
            raise SpecError("E108", message, hint=hint)

    def fields(self) -> tuple[str, ...]:
        """Return no names: the fields that the snippet reads are unknown."""
        return ()

    def snippets(self) -> tuple[Snippet, ...]:
        """Return the code that must be trusted before it runs."""
        from answerkey.sandbox import Snippet

        snippet = Snippet(
            "compute_metrics",
            self.compute_metrics_snippet,
            label="compute_metrics_snippet",
        )
        return (snippet,)

    def compute(self, scores: Scores) -> list[MetricValue]:
        """Return the snippet's values.

        A failure is a single value without a number, with the traceback in `details`.
        """
        from answerkey.sandbox import SnippetError, SnippetProcess

        rows = list_scores(scores)
        coverage = count_coverage(scores)
        if not rows:
            return [self.make_value(self.type, None, coverage, note=NOTHING_COUNTED)]
        [snippet] = self.snippets()
        try:
            with SnippetProcess(snippet, seconds=SECONDS) as process:
                computed = process.call([rows])
        except SnippetError as problem:
            message = problem.message
            lines = problem.traceback.strip().splitlines()
            if lines and problem.kind in {"raised", "load"}:
                message = lines[-1]
            details = {"kind": problem.kind, "traceback": problem.traceback}
            return [self._make_failure(message, coverage, details)]
        if not isinstance(computed, Mapping) or not computed:
            message = f"it returned {shorten(computed)}, not a mapping of names to numbers"
            return [self._make_failure(message, coverage, {"kind": "bad_value"})]
        values = []
        for name, value in computed.items():
            values.append(self._make_computed(str(name), value, coverage))
        return values

    def _make_failure(
        self,
        message: str,
        coverage: Coverage,
        details: Mapping[str, object],
    ) -> MetricValue:
        return self.make_value(
            self.type,
            None,
            coverage,
            note=f"the snippet failed: {message}",
            details=details,
        )

    def _make_computed(
        self,
        name: str,
        value: object,
        coverage: Coverage,
    ) -> MetricValue:
        number = read_number(value)
        if number is not None:
            margin = Margin(interval_note=OWN_FUNCTION)
            return self.make_value(name, float(number), coverage, margin=margin)
        problem = f"{shorten(value)}, not a number"
        if isinstance(value, int | float):
            problem = "a number that is not finite"
        return self.make_value(name, None, coverage, note=f"the snippet returned {problem}")


def list_scores(scores: Scores) -> list[dict[str, object]]:
    """Return the scores that count, as plain values, in order."""
    counted = scores.take(scores.counted().arg_true())
    rows: list[dict[str, object]] = []
    for score in counted.rows():
        row: dict[str, object] = {
            "values": dict(score.values),
            "metadata": dict(score.metadata),
        }
        rows.append(row)
    return rows
