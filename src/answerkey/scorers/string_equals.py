"""The scorer `string_equals`: the completion, or a value derived from it, is exactly the ground truth.

Values: `is_correct` (1.0 or 0.0). Metadata: `answer_gt` and `answer_pred`, the two texts that were compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from answerkey.scorers.base import (
    CALL_FAILED,
    RowFault,
    RowProblem,
    Scorer,
    compile_templates,
    reads_completion,
    report_faults,
    tabulate_scores,
    view_completions,
)
from answerkey.templates import RowError, Template
from answerkey.types import Completions, CompletionStatus, Notice, Samples, Score, Scores, ScoreStatus


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
    value_names = ("is_correct",)
    metadata_names = ("answer_gt", "answer_pred")
    text_names = ("answer_gt", "answer_pred")
    main_value = "is_correct"
    default_metric_name = "Accuracy"

    @property
    def needs_completion(self) -> bool:
        """Whether the compared value comes from the completion; False when `value` reads the sample alone."""
        return self.value is None or reads_completion(self.value)

    def compile_field(self, field: str) -> Template | None:
        """Return the template of one field; `value` sees `solver_output` too."""
        source = getattr(self, field)
        names = ("sample", "solver_output") if field == "value" else ("sample",)
        return None if source is None else Template.compile(source, names=names)

    @property
    def completion_fields(self) -> tuple[str, ...]:
        """`value`, if it reads the completion."""
        return ("value",) if self.value is not None and self.needs_completion else ()

    def try_field(self, field: str, samples: Samples, completions: Completions) -> RowError | None:
        """Return what goes wrong with `value` on these rows; None when nothing does."""
        template = self.templates()[field]
        values = template.values(samples, solver_output=view_completions(completions, template))
        return next((one for one in values if isinstance(one, RowError)), None)

    def check_rows(self, samples: Samples) -> tuple[list[RowProblem], list[Notice]]:
        """Return the rows without a ground truth, and those on which a template fails."""
        templates, errors = compile_templates(self)
        if self.needs_completion:
            templates.pop("value", None)
        if errors:
            return [], []
        faulty: list[tuple[int, RowFault]] = []
        for field, template in templates.items():
            for row, value in enumerate(template.values(samples)):
                fault = find_fault(field, value)
                if fault is not None:
                    faulty.append((row, fault))
        return report_faults(sorted(faulty, key=lambda one: one[0]), templates, samples), []

    def score(self, samples: Samples, completions: Completions) -> Scores:
        """Return the verdicts; a completion without text is wrong, a row without ground truth FAILED."""
        templates = self.templates()
        truths = templates["ground_truth"].values(samples)
        values = self._list_values(templates.get("value"), samples, completions)
        statuses = completions.frame["status"].to_list()
        scores = [self._judge(*row) for row in zip(truths, values, statuses, strict=True)]
        texts = dict.fromkeys(self.metadata_names, pl.String())
        return tabulate_scores(scores, {"is_correct": pl.Float64()}, texts)

    def _list_values(
        self, template: Template | None, samples: Samples, completions: Completions
    ) -> list[object]:
        """Return what is compared in each row: null where there is no text to derive it from."""
        texts = completions.frame["completion"].to_list()
        is_said = (completions.frame["status"] == CompletionStatus.OK.value).to_list()
        if template is None:
            return [text if said else None for text, said in zip(texts, is_said, strict=True)]
        if not self.needs_completion:
            return template.values(samples)
        rows = [row for row, said in enumerate(is_said) if said]
        replies = completions.take(rows)
        output = view_completions(replies, template)
        rendered = dict(zip(rows, template.values(samples.take(rows), solver_output=output), strict=True))
        return [rendered.get(row) for row in range(len(samples))]

    def _judge(self, truth: object, value: object, status: str) -> Score:
        """Return the verdict on one row."""
        fault = find_fault("ground_truth", truth) or find_fault("value", value)
        if fault is not None:
            return Score(ScoreStatus.FAILED, fault.reason)
        if self.needs_completion and status == CompletionStatus.ERROR.value:
            return Score(ScoreStatus.ERROR, CALL_FAILED)
        text = None if value is None else str(value)
        is_correct = 1.0 if text == str(truth) else 0.0
        metadata = {"answer_gt": str(truth), "answer_pred": text}
        return Score(ScoreStatus.SCORED, values={"is_correct": is_correct}, metadata=metadata)


def find_fault(field: str, value: object) -> RowFault | None:
    """Return what is wrong with a value: its template failed, or there is no ground truth."""
    if isinstance(value, RowError):
        return RowFault.from_error(field, value)
    if value is None and field == "ground_truth":
        return RowFault("BAD_TRUTH", "ground truth is null", "fill the cell or filter the row out", field)
    return None
