"""The scorer `string_equals`: the completion, or a value derived from it, is exactly the ground truth.

Values: `is_correct` (1.0 or 0.0). Metadata: `answer_gt` and `answer_pred`, the two texts that were compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from answerkey.errors import SpecError
from answerkey.scorers.base import CALL_FAILED, BaseScorer, RowProblem, build_scores, compile_templates
from answerkey.scorers.distinct import find_distinct
from answerkey.scorers.row_faults import FieldFault, RowFault, report_faults
from answerkey.templates import RowTrouble, Template
from answerkey.types import Completions, CompletionStatus, Notice, Samples, Scores, ScoreStatus

_TEMPLATE_FAILED = "TEMPLATE_FAILED"


@dataclass(frozen=True)
class StringEquals(BaseScorer):
    """Compares two texts exactly: case and white space matter.

    `value` sees `sample` and `solver_output`; without it the completion's text is compared.
    """

    ground_truth: str | int
    value: str | int | None = None

    type: ClassVar[str] = "string_equals"
    title: ClassVar[str] = "String Equality"
    template_fields: ClassVar[tuple[str, ...]] = ("ground_truth", "value")
    value_names: ClassVar[tuple[str, ...] | None] = ("is_correct",)
    metadata_names: ClassVar[tuple[str, ...] | None] = ("answer_gt", "answer_pred")
    text_names: ClassVar[tuple[str, ...]] = ("answer_gt", "answer_pred")
    main_value: ClassVar[str | None] = "is_correct"
    default_metric_name: ClassVar[str | None] = "Accuracy"

    @property
    def needs_completion(self) -> bool:
        """Whether the compared value comes from the completion; False when `value` reads the sample alone."""
        if self.value is None:
            return True
        try:
            Template.compile(self.value)
        except SpecError:
            return True
        return False

    def compile_field(self, field: str) -> Template | None:
        """Return the template of one field; `value` sees `solver_output` too."""
        source = getattr(self, field)
        names = ("sample", "solver_output") if field == "value" else ("sample",)
        return None if source is None else Template.compile(source, names=names)

    def check_rows(self, samples: Samples) -> tuple[list[RowProblem], list[Notice]]:
        """Return the rows without a ground truth, and those on which a template fails."""
        templates, errors = compile_templates(self)
        if self.needs_completion:
            templates.pop("value", None)
        if errors:
            return [], []
        faulty = []
        for field, template in templates.items():
            distinct = find_distinct(template, samples)
            faults = [_find_fault(field, value) for value in distinct.values]
            found = ((position, faults[code]) for position, code in enumerate(distinct.codes))
            faulty += [(position, fault) for position, fault in found if fault is not None]
        return report_faults(sorted(faulty, key=lambda one: one[0]), templates, samples), []

    def score(self, samples: Samples, completions: Completions) -> Scores:
        """Return the verdicts; a completion without text is wrong, a row without ground truth FAILED."""
        frame = pl.DataFrame(
            [
                completions.frame["status"].alias("call"),
                *self._read_truths(samples),
                *self._read_values(samples, completions),
            ]
        )
        fault = pl.coalesce("fault_gt", "fault_pred")
        has_failed, has_no_call = fault.is_not_null(), self._has_no_call()
        verdicts = frame.with_columns(
            status=pl.when(has_failed)
            .then(pl.lit(ScoreStatus.FAILED.value))
            .when(has_no_call)
            .then(pl.lit(ScoreStatus.ERROR.value))
            .otherwise(pl.lit(ScoreStatus.SCORED.value)),
            reason=pl.when(has_failed).then(fault).when(has_no_call).then(pl.lit(CALL_FAILED)),
            is_correct=(pl.col("answer_gt") == pl.col("answer_pred")).fill_null(value=False).cast(pl.Float64),
        )
        return build_scores(
            verdicts["status"],
            verdicts["reason"],
            {"is_correct": verdicts["is_correct"]},
            metadata={name: verdicts[name] for name in ("answer_gt", "answer_pred")},
        )

    def _has_no_call(self) -> pl.Expr:
        return (pl.col("call") == CompletionStatus.ERROR.value) & pl.lit(self.needs_completion)

    def _read_truths(self, samples: Samples) -> list[pl.Series]:
        distinct = find_distinct(self.templates()["ground_truth"], samples)
        faults = [_find_fault("ground_truth", value) for value in distinct.values]
        reasons = pl.Series([None if one is None else one.fault.reason for one in faults], dtype=pl.String)
        texts = pl.Series([_write_text(value) for value in distinct.values], dtype=pl.String)
        return [
            texts.gather(distinct.codes).alias("answer_gt"),
            reasons.gather(distinct.codes).alias("fault_gt"),
        ]

    def _read_values(self, samples: Samples, completions: Completions) -> list[pl.Series]:
        template = self.templates().get("value")
        if template is None:
            is_text = completions.frame["status"] == CompletionStatus.OK.value
            texts = completions.frame["completion"].set(~is_text, None)
            return [texts.alias("answer_pred"), pl.Series("fault_pred", [None] * len(texts), dtype=pl.String)]
        if self.needs_completion:
            values = _evaluate_rows(template, samples, completions)
        else:
            values = template.values(samples)
        faults = [_TEMPLATE_FAILED if isinstance(value, RowTrouble) else None for value in values]
        return [
            pl.Series("answer_pred", [_write_text(value) for value in values], dtype=pl.String),
            pl.Series("fault_pred", faults, dtype=pl.String),
        ]


def _evaluate_rows(template: Template, samples: Samples, completions: Completions) -> list[object]:
    """Return the value of each row, its RowTrouble, or None where there is no text to derive it from."""
    values: list[object] = []
    for sample, completion in zip(samples.rows(), completions.rows(), strict=True):
        value: object = None
        if completion.status is CompletionStatus.OK:
            try:
                value = template.evaluate(sample=sample, solver_output=completion.solver_output())
            except RowTrouble as trouble:
                value = trouble
        values.append(value)
    return values


def _find_fault(field: str, value: object) -> FieldFault | None:
    if isinstance(value, RowTrouble):
        return FieldFault.from_trouble(field, value)
    if value is None and field == "ground_truth":
        return FieldFault(
            field, RowFault("BAD_TRUTH", "ground truth is null", "fill the cell or filter the row out")
        )
    return None


def _write_text(value: object) -> str | None:
    """Return a value as Jinja prints it; null stays null."""
    return None if value is None or isinstance(value, RowTrouble) else str(value)
