"""`python`: a user's own function computes the values, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from answerkey.errors import SpecError
from answerkey.metrics.base import NOTHING_COUNTED, BaseMetric, Part, count_left_out, merge_parts, read_number
from answerkey.metrics.intervals import Margin
from answerkey.reader.explain import shorten
from answerkey.types import MetricValue, Scores

if TYPE_CHECKING:
    from answerkey.sandbox import Snippet

OWN_FUNCTION = "how sure the number of your own function is, only you can tell"

#: How long a snippet may take for all samples of a task.
SECONDS = 300.0


@dataclass(frozen=True)
class PythonMetric(BaseMetric):
    """What `compute_metrics(scores)` returns: names to numbers.

    The snippet sees the samples that count, in dataset order, so parts must be merged in that order.
    """

    compute_metrics_snippet: str

    type: ClassVar[str] = "python"

    def __post_init__(self) -> None:
        if not self.compute_metrics_snippet.strip():
            hint = "write a function `compute_metrics(scores)` that returns names and numbers"
            raise SpecError("E108", "`compute_metrics_snippet` is empty", hint=hint)

    def fields(self) -> tuple[str, ...]:
        """Return no names: which fields the snippet reads is its own affair."""
        return ()

    def snippets(self) -> tuple[Snippet, ...]:
        """Return the code that must be trusted before it runs."""
        from answerkey.sandbox import Snippet

        return (Snippet("compute_metrics", self.compute_metrics_snippet, label="compute_metrics_snippet"),)

    def measure(self, scores: Scores) -> Part:
        """Return the scores that count as plain values, in order."""
        counted = Scores(scores.frame.filter(scores.counted()), scores.encoded)
        plain = [{"values": dict(score.values), "metadata": dict(score.metadata)} for score in counted.rows()]
        return {"n": len(plain), "left_out": dict(count_left_out(scores)), "scores": plain}

    def merge(self, parts: Sequence[Part]) -> Part:
        """Return several parts, given in dataset order, as one."""
        common = merge_parts({"n": part["n"], "left_out": part["left_out"]} for part in parts)
        return {**common, "scores": [score for part in parts for score in part["scores"]]}

    def finish(self, part: Part) -> list[MetricValue]:
        """Return the snippet's values; a failure is one value without number, its traceback in `details`."""
        from answerkey.sandbox import SnippetError, SnippetProcess

        if not part["scores"]:
            return [self.state(self.type, None, part, note=NOTHING_COUNTED)]
        try:
            with SnippetProcess(self.snippets()[0], seconds=SECONDS) as process:
                computed = process.call([part["scores"]])
        except SnippetError as problem:
            lines = problem.traceback.strip().splitlines() if problem.kind in {"raised", "load"} else []
            note = f"the snippet failed: {lines[-1] if lines else problem.message}"
            details = {"kind": problem.kind, "traceback": problem.traceback}
            return [self.state(self.type, None, part, note=note, details=details)]
        if not isinstance(computed, Mapping) or not computed:
            what = f"it returned {shorten(computed)}, not a mapping of names to numbers"
            note, details = f"the snippet failed: {what}", {"kind": "bad_value"}
            return [self.state(self.type, None, part, note=note, details=details)]
        return [self._state_computed(str(name), value, part) for name, value in computed.items()]

    def _state_computed(self, name: str, value: object, part: Part) -> MetricValue:
        number = read_number(value)
        if number is not None:
            return self.state(name, float(number), part, margin=Margin(interval_note=OWN_FUNCTION))
        is_number = isinstance(value, int | float)
        what = "a number that is not finite" if is_number else f"{shorten(value)}, not a number"
        return self.state(name, None, part, note=f"the snippet returned {what}")
