"""The scorer `string_equals`: the completion, or a value derived from it, equals the ground truth.

Values: `is_correct` (1.0 or 0.0). Metadata: `answer_gt` and `answer_pred`, the two texts that were
compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from answerkey.scorers.base import (
    CALL_FAILED,
    RowChecks,
    RowFault,
    Scorer,
    Types,
    compile_templates,
    reads_completion,
    report_faults,
    view_completions,
)
from answerkey.templates import RowError, Template
from answerkey.types import (
    Completion,
    Completions,
    CompletionStatus,
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
    value_types: ClassVar[Types] = {"is_correct": pl.Float64()}
    metadata_types: ClassVar[Types] = {"answer_gt": pl.String(), "answer_pred": pl.String()}
    main_value = "is_correct"
    default_metric_name = "Accuracy"

    @property
    def needs_completion(self) -> bool:
        """Whether the compared value comes from the completion, not from the sample alone."""
        return self.value is None or reads_completion(self.value)

    def compile_field(self, field: str) -> Template | None:
        """Return the template of one field; `value` sees `solver_output` too."""
        if field == "value" and self.value is not None:
            return Template.compile(self.value, names=("sample", "solver_output"))
        return super().compile_field(field)

    @property
    def completion_fields(self) -> tuple[str, ...]:
        """`value`, if it reads the completion."""
        if self.value is None or not self.needs_completion:
            return ()
        return ("value",)

    def check_rows(self, samples: Samples) -> RowChecks:
        """Return the rows without a ground truth, and those on which a template fails."""
        templates, errors = compile_templates(self)
        if errors:
            return [], []
        if self.needs_completion:
            templates.pop("value", None)
        faults = []
        for field, template in templates.items():
            for row, value in enumerate(template.values(samples)):
                fault = find_fault(field, value)
                if fault is not None:
                    faults.append((row, fault))
        return report_faults(faults, templates, samples), []

    def score(self, samples: Samples, completions: Completions) -> list[Score]:
        """Return the scores.

        A completion without text is wrong, a row without ground truth FAILED.
        """
        truths = self.templates()["ground_truth"].values(samples)
        values = self._list_values(samples, completions)
        return list(map(self._judge, truths, values, completions))

    def _list_values(self, samples: Samples, completions: Completions) -> list[object]:
        """Return what is compared in each row."""
        template = self.compile_field("value")
        if template is None:
            return [completion.text for completion in completions]
        if not self.needs_completion:
            return template.values(samples)
        return template.values(samples, solver_output=view_completions(completions))

    def _judge(
        self,
        truth: object,
        value: object,
        completion: Completion,
    ) -> Score:
        """Return the score of one row."""
        if completion.status is not CompletionStatus.OK and self.needs_completion:
            value = None
        fault = find_fault("ground_truth", truth) or find_fault("value", value)
        if fault is not None:
            return Score(ScoreStatus.FAILED, fault.reason)
        if completion.status is CompletionStatus.ERROR and self.needs_completion:
            return Score(ScoreStatus.ERROR, CALL_FAILED)
        text = None if value is None else str(value)
        is_correct = float(text == str(truth))
        metadata = {"answer_gt": str(truth), "answer_pred": text}
        return Score(
            ScoreStatus.SCORED,
            values={"is_correct": is_correct},
            metadata=metadata,
        )


def find_fault(field: str, value: object) -> RowFault | None:
    """Return what is wrong with a value: its template failed, or the ground truth is null."""
    if isinstance(value, RowError):
        return RowFault.from_error(field, value)
    if value is None and field == "ground_truth":
        hint = "fill the cell or filter the row out"
        return RowFault("BAD_TRUTH", "ground truth is null", hint, field)
    return None
