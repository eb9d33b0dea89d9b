"""The scorer `string_equals`: the completion, or a value derived from it, equals the ground truth.

Values: `is_correct` (1.0 or 0.0). Metadata: `answer_gt` and `answer_pred`, the two texts that were
compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from answerkey.scorers.base import UNANSWERED, Scorer, Types, find_fault
from answerkey.templates import RowError
from answerkey.types import (
    Completion,
    Completions,
    CompletionStatus,
    Row,
    Samples,
    Score,
    ScoreStatus,
)


@dataclass(frozen=True)
class StringEquals(Scorer):
    """Compares two texts exactly: case and white space matter.

    `value` sees `sample` and `solver_output`; without it the completion's text is compared.
    """

    ground_truth: str | int
    value: str | int | None = None

    type = "string_equals"
    title = "String Equality"
    template_fields = ("ground_truth", "value")
    reply_fields = ("value",)
    value_types: ClassVar[Types] = {"is_correct": pl.Float64()}
    metadata_types: ClassVar[Types] = {
        "answer_gt": pl.String(),
        "answer_pred": pl.String(),
    }
    main_value = "is_correct"
    default_metric_name = "Accuracy"
    by_templates = True

    @property
    def needs_completion(self) -> bool:
        """Whether the compared value comes from the completion, not from the sample alone."""
        return self.value is None or bool(self.completion_fields)

    def score(
        self,
        samples: Samples,
        completions: Completions,
    ) -> list[Score]:
        """Return the score of each row; one without ground truth is FAILED before anything else."""
        truths = self.templates()["ground_truth"].values(samples)
        return list(map(self._judge_row, samples.rows(), truths, completions))

    def _judge_row(
        self,
        sample: Row,
        truth: object,
        completion: Completion,
    ) -> Score:
        """Return the score of one row; a completion without text is wrong."""
        value: object = None
        status = completion.status
        if not self.needs_completion:
            status = CompletionStatus.OK
        if status is CompletionStatus.OK:
            value = self._find_value(sample, completion)
        fault = find_fault("ground_truth", truth) or find_fault("value", value)
        if fault is not None:
            return Score(ScoreStatus.FAILED, fault.reason)
        if status is CompletionStatus.ERROR:
            return UNANSWERED
        answer = str(truth)
        text = None if value is None else str(value)
        values = {"is_correct": float(text == answer)}
        metadata = {"answer_gt": answer, "answer_pred": text}
        return Score(ScoreStatus.SCORED, values=values, metadata=metadata)

    def _find_value(
        self,
        sample: Row,
        completion: Completion,
    ) -> object:
        """Return what is compared with the ground truth; a RowError if its template fails."""
        template = self.templates().get("value")
        if template is None:
            return completion.text
        try:
            return template.evaluate(**self.build_context(sample, completion))
        except RowError as problem:
            return problem
