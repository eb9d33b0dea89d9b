"""The scorer `string_equals_mcqa`: the first character of the completion against the ground-truth choice.

Values: `is_correct` (1.0 or 0.0). Metadata: `completion_validity` (VALID or INVALID), `validity_reason` (null
when VALID), `predicted_choice` (null when INVALID), `ground_truth_choice`, `choices`, `extraction_rule`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from answerkey.errors import SpecError
from answerkey.scorers.base import CALL_FAILED, BaseScorer, RowProblem, build_scores, compile_templates
from answerkey.scorers.choices import check_truth, parse_choices, parse_truth, read_options
from answerkey.scorers.extraction import ExtractionRule, find_rule
from answerkey.scorers.first_character import Reading
from answerkey.scorers.mcqa_rows import ResolvedRows, find_faults, report_rows, resolve_rows
from answerkey.scorers.row_faults import RowFault
from answerkey.templates import RowTrouble, Template
from answerkey.types import (
    Completion,
    Completions,
    CompletionStatus,
    Known,
    Notice,
    Samples,
    Score,
    Scores,
    ScoreStatus,
    Validity,
)

Extraction = str | dict[str, str]

VALUE_NAMES = ("is_correct",)
METADATA_NAMES = (
    "completion_validity",
    "validity_reason",
    "predicted_choice",
    "ground_truth_choice",
    "choices",
    "extraction_rule",
)

_EXAMPLES = {
    "ground_truth_choice": '`ground_truth_choice: "{{ sample.answer }}"`',
    "choices": '`choices: "{{ sample.choices }}"`',
}


def judge(
    completion: str | Completion | None,
    choices: Sequence[str],
    truth: str,
    extraction: Extraction = "first_character",
) -> Score:
    """Return the verdict on one completion; FAILED when choices or truth are unsuitable.

    A verdict without a score has the same names as any other, all null.
    """
    rule = find_rule(extraction)
    try:
        names, right = parse_choices(choices).names, parse_truth(truth).name
        check_truth(right, names)
    except RowFault as fault:
        return _withhold(ScoreStatus.FAILED, fault.reason)
    if not isinstance(completion, Completion):
        completion = Completion(completion)
    if completion.status is CompletionStatus.ERROR:
        return _withhold(ScoreStatus.ERROR, CALL_FAILED)
    reading = read_completion(completion, names, rule)
    return Score(
        ScoreStatus.SCORED,
        values={"is_correct": 1.0 if reading.choice == right else 0.0},
        metadata={
            "completion_validity": str(Validity.INVALID if reading.choice is None else Validity.VALID),
            "validity_reason": reading.reason,
            "predicted_choice": reading.choice,
            "ground_truth_choice": right,
            "choices": list(names),
            "extraction_rule": rule.name,
        },
    )


def _withhold(status: ScoreStatus, reason: str) -> Score:
    return Score(status, reason, dict.fromkeys(VALUE_NAMES), dict.fromkeys(METADATA_NAMES))


def read_completion(completion: Completion, choices: Sequence[str], rule: ExtractionRule) -> Reading:
    """Return what the rule reads in a completion; a refusal and a reply without text name no choice."""
    if completion.status is CompletionStatus.REFUSED:
        return Reading(reason="REFUSED")
    if completion.status is CompletionStatus.NO_TEXT or completion.text is None:
        return Reading(reason="NO_TEXT")
    return rule.read(completion.text, choices)


@dataclass(frozen=True)
class StringEqualsMcqa(BaseScorer):
    """Compares the first character of the completion with the ground-truth choice.

    `ground_truth_choice_field` and `choices_field` are the deprecated spellings of the first two.
    """

    ground_truth_choice: str | int | None = None
    choices: str | list[str | int] | None = None
    ground_truth_choice_field: str | None = None
    choices_field: str | None = None
    extraction: Extraction = "first_character"
    options: str | list[str] | None = None

    type: ClassVar[str] = "string_equals_mcqa"
    title: ClassVar[str] = "String Equality (Multiple Choice)"
    template_fields: ClassVar[tuple[str, ...]] = ("ground_truth_choice", "choices", "options")
    value_names: ClassVar[tuple[str, ...] | None] = VALUE_NAMES
    metadata_names: ClassVar[tuple[str, ...] | None] = METADATA_NAMES
    text_names: ClassVar[tuple[str, ...]] = metadata_names or ()
    main_value: ClassVar[str | None] = "is_correct"
    default_metric_name: ClassVar[str | None] = "Accuracy"

    def compile_field(self, field: str) -> Template | None:
        """Return the template of one field; a deprecated column name stands for a template that reads it."""
        written = getattr(self, field)
        column = getattr(self, f"{field}_field", None)
        if written is None and column is not None:
            written = f"{{{{ sample[{column!r}] }}}}"
        return None if written is None else Template.compile(written)

    def check_fields(self) -> list[tuple[str, SpecError]]:
        """Return an unknown extraction rule, a missing field, and constants that fit no row."""
        errors: list[tuple[str, SpecError]] = []
        try:
            find_rule(self.extraction)
        except SpecError as error:
            errors.append(("extraction", error))
        for field in ("ground_truth_choice", "choices"):
            if getattr(self, field) is None and getattr(self, f"{field}_field") is None:
                message = f"`{field}` is missing (and so is its deprecated form `{field}_field`)"
                errors.append((field, SpecError("E108", message, hint=f"for example {_EXAMPLES[field]}")))
        return [*errors, *self._check_constants()]

    def _check_constants(self) -> Iterator[tuple[str, SpecError]]:
        constants: dict[str, object] = {}
        for field in ("ground_truth_choice", "choices"):
            with suppress(SpecError):
                template = self.compile_field(field)
                if template is not None and template.kind == "constant":
                    constants[field] = template.evaluate()
        for fault in find_faults(constants):
            message = f"`{fault.field}`: {fault.fault.message}"
            yield fault.field, SpecError("E108", message, hint=fault.fault.hint)

    def check_rows(self, samples: Samples) -> tuple[list[RowProblem], list[Notice]]:
        """Return the rows whose choices or truth are unsuitable, and notices of trimmed white space."""
        templates, errors = compile_templates(self)
        for field, _ in errors:
            templates.pop(field, None)
        return report_rows(resolve_rows(templates, samples), templates, samples)

    def know(self, samples: Samples) -> Known:
        """Return choices, truth and option texts of each sample; None where a row has none."""
        rows = resolve_rows(self.templates(), samples)
        pairs = [rows.pairs[code] for code in rows.codes]
        return Known(
            choices=[pair.choices for pair in pairs],
            truths=[pair.truth for pair in pairs],
            options=self._find_options(samples),
        )

    def _find_options(self, samples: Samples) -> list[tuple[str, ...] | None]:
        if self.options is not None:
            values = Template.compile(self.options).values(samples)
        elif "options" in samples.columns:
            values = [None if isinstance(cell, str) else cell for cell in samples.values("options")]
        else:
            return [None] * len(samples)
        return [None if isinstance(one, RowTrouble | None) else read_options(one) for one in values]

    def score(self, samples: Samples, completions: Completions) -> Scores:
        """Return the verdicts, the same as `judge` gives row by row."""
        rule = find_rule(self.extraction)
        rows = resolve_rows(self.templates(), samples)
        frame = _read_completions(rule, completions, rows).with_columns(
            call=completions.frame["status"],
            fault=_name_faults(rows),
            choices=rows.choose(lambda pair: pair.choices, pl.List(pl.String)),
            ground_truth_choice=rows.choose(lambda pair: pair.truth, pl.String()),
            extraction_rule=pl.lit(rule.name),
        )
        verdicts = frame.with_columns(**_VERDICT)
        names = self.metadata_names or ()
        return build_scores(
            verdicts["status"],
            verdicts["reason"],
            {"is_correct": verdicts["is_correct"]},
            metadata={name: verdicts[name] for name in names},
        )


_HAS_FAULT = pl.col("fault").is_not_null()
_HAS_NO_CALL = pl.col("call") == CompletionStatus.ERROR.value
_IS_VALID = pl.col("predicted_choice").is_not_null()

#: The verdict from what was read: the columns of `Scores`, with values and metadata not yet in their structs.
_VERDICT: dict[str, pl.Expr] = {
    "status": pl.when(_HAS_FAULT)
    .then(pl.lit(ScoreStatus.FAILED.value))
    .when(_HAS_NO_CALL)
    .then(pl.lit(ScoreStatus.ERROR.value))
    .otherwise(pl.lit(ScoreStatus.SCORED.value)),
    "reason": pl.when(_HAS_FAULT).then("fault").when(_HAS_NO_CALL).then(pl.lit(CALL_FAILED)),
    "is_correct": (_IS_VALID & (pl.col("predicted_choice") == pl.col("ground_truth_choice")))
    .fill_null(value=False)
    .cast(pl.Float64),
    "completion_validity": pl.when(_IS_VALID)
    .then(pl.lit(Validity.VALID.value))
    .otherwise(pl.lit(Validity.INVALID.value)),
}


def _name_faults(rows: ResolvedRows) -> pl.Series:
    """Return the reason why a row is FAILED, null for rows that can be scored."""
    reasons = rows.choose(lambda pair: pair.faults[0].fault.reason if pair.faults else None, pl.String())
    if not rows.options:
        return reasons
    faults = (rows.options.get(row) for row in range(len(reasons)))
    options = pl.Series([None if one is None else one.fault.reason for one in faults], dtype=pl.String)
    return reasons.zip_with(reasons.is_not_null(), options)


def _read_completions(rule: ExtractionRule, completions: Completions, rows: ResolvedRows) -> pl.DataFrame:
    """Return `predicted_choice` and `validity_reason` of every row, read in groups with the same choices."""
    lists = list(dict.fromkeys(pair.choices for pair in rows.pairs if pair.choices is not None))
    positions = {names: position for position, names in enumerate(lists)}
    frame = completions.frame.select(
        pl.col("completion").alias("text"),
        _REASON_WITHOUT_TEXT.alias("validity_reason"),
        group=rows.choose(lambda pair: positions.get(pair.choices or ()), pl.UInt32()),
    ).with_row_index("row")
    is_text = pl.col("validity_reason").is_null() & pl.col("group").is_not_null()
    parts = [frame.filter(~is_text).select("row", pl.lit(None, pl.String).alias("choice"), "validity_reason")]
    for part in frame.filter(is_text).partition_by("group"):
        readings = rule.read_all(part["text"], lists[part["group"][0]])
        parts.append(
            part.select("row").with_columns(readings["choice"], readings["reason"].alias("validity_reason"))
        )
    return pl.concat(parts).sort("row").select(pl.col("choice").alias("predicted_choice"), "validity_reason")


_REASON_WITHOUT_TEXT = (
    pl.when(pl.col("status") == CompletionStatus.REFUSED.value)
    .then(pl.lit("REFUSED"))
    .when((pl.col("status") == CompletionStatus.NO_TEXT.value) | pl.col("completion").is_null())
    .then(pl.lit("NO_TEXT"))
)
