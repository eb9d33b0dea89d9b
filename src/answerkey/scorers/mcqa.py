"""The scorer `string_equals_mcqa`: the first character of the completion against the ground-truth choice.

Values: `is_correct` (1.0 or 0.0). Metadata: `completion_validity` (VALID or INVALID), `validity_reason` (null
when VALID), `predicted_choice` (null when INVALID), `ground_truth_choice`, `choices`, `extraction_rule`. A
rule that has parts also gives `answer_span`, the passage of the text that decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from answerkey.errors import SpecError
from answerkey.scorers.base import (
    CALL_FAILED,
    BaseScorer,
    RowProblem,
    build_scores,
    compile_templates,
    find_statuses,
)
from answerkey.scorers.choices import check_truth, parse_choices, parse_truth, read_options
from answerkey.scorers.extraction import ExtractionRule, find_rule, find_schema
from answerkey.scorers.heads import Reading
from answerkey.scorers.mcqa_rows import ResolvedRows, find_faults, report_rows
from answerkey.scorers.ordered_rows import resolve_ordered
from answerkey.scorers.row_faults import RowFault
from answerkey.scorers.rules_with_parts import tabulate
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
    options: Sequence[str] | None = None,
) -> Score:
    """Return the verdict on one completion; FAILED when choices or truth are unsuitable.

    A verdict without a score has the same names as any other, all null. `options`: the texts of the choices.
    """
    rule = find_rule(extraction)
    try:
        names, right = parse_choices(choices).names, parse_truth(truth).name
        check_truth(right, names)
    except RowFault as fault:
        return _withhold(ScoreStatus.FAILED, fault.reason, rule)
    if not isinstance(completion, Completion):
        completion = Completion(completion)
    if completion.status is CompletionStatus.ERROR:
        return _withhold(ScoreStatus.ERROR, CALL_FAILED, rule)
    reading = read_completion(completion, names, rule, options)
    return Score(
        ScoreStatus.SCORED,
        values={"is_correct": 1.0 if reading.choice == right else 0.0},
        metadata={
            "completion_validity": str(Validity.INVALID if reading.choice is None else Validity.VALID),
            "validity_reason": reading.reason,
            "predicted_choice": reading.choice,
            "ground_truth_choice": right,
            "choices": list(names),
            "extraction_rule": rule.name if reading.part is None else f"{rule.name}/{reading.part}",
            **({"answer_span": reading.span and list(reading.span)} if rule.has_parts else {}),
        },
    )


def _withhold(status: ScoreStatus, reason: str, rule: ExtractionRule) -> Score:
    names = (*METADATA_NAMES, "answer_span") if rule.has_parts else METADATA_NAMES
    return Score(status, reason, dict.fromkeys(VALUE_NAMES), dict.fromkeys(names))


def read_completion(
    completion: Completion,
    choices: Sequence[str],
    rule: ExtractionRule,
    options: Sequence[str] | None = None,
) -> Reading:
    """Return what the rule reads in a completion; a refusal and a reply without text name no choice."""
    if completion.status is CompletionStatus.REFUSED:
        return Reading(reason="REFUSED")
    if completion.status is CompletionStatus.NO_TEXT or completion.text is None:
        return Reading(reason="NO_TEXT")
    return rule.read(completion.text, choices, options)


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
    follows_order: ClassVar[bool] = True

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
        return report_rows(resolve_ordered(templates, samples), templates, samples)

    def know(self, samples: Samples) -> Known:
        """Return choices, truth and option texts of each sample; None where a row has none."""
        rows = resolve_ordered(self.templates(), samples)
        pairs = [rows.pairs[code] for code in rows.codes.to_list()]
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
        rows = resolve_ordered(self.templates(), samples)
        options = self.tell_options(samples) if rule.reads_options else None
        readings = _read_completions(rule, completions, rows, options)
        choice, truths = readings["choice"], rows.truths
        statuses, reasons = find_statuses(_name_faults(rows), completions.frame["status"])
        return build_scores(
            statuses,
            reasons,
            {"is_correct": (choice == truths).fill_null(value=False).cast(pl.Float64)},
            metadata={
                "completion_validity": _VALIDITY.gather(choice.is_null().cast(pl.UInt32)),
                "validity_reason": readings["reason"],
                "predicted_choice": choice,
                "ground_truth_choice": truths,
                "choices": rows.choices,
                **_name_rule(rule, readings),
            },
        )

    def tell_options(self, samples: Samples) -> pl.Series | None:
        """Return the texts of the choices that a rule is told; None when the field `options` is not given."""
        if self.options is None:
            return None
        native = Template.compile(self.options).series(samples)
        if native is not None and native.dtype == pl.List(pl.String):
            return native.list.eval(pl.element().fill_null(""))
        return pl.Series(self._find_options(samples), dtype=pl.List(pl.String))


#: By whether there is no choice.
_VALIDITY = pl.Series([Validity.VALID.value, Validity.INVALID.value])


def _name_faults(rows: ResolvedRows) -> pl.Series:
    """Return the reason why a row is FAILED, null for rows that can be scored."""
    reasons = rows.choose(lambda pair: pair.faults[0].fault.reason if pair.faults else None, pl.String())
    if not rows.options:
        return reasons
    faults = (rows.options.get(row) for row in range(len(reasons)))
    options = pl.Series([None if one is None else one.fault.reason for one in faults], dtype=pl.String)
    return reasons.zip_with(reasons.is_not_null(), options)


def _name_rule(rule: ExtractionRule, readings: pl.DataFrame) -> dict[str, pl.Series]:
    """Return which rule decided; and if it has parts, which of them, and where."""
    name = pl.repeat(rule.name, readings.height, dtype=pl.String, eager=True)
    if not rule.has_parts:
        return {"extraction_rule": name}
    part = readings.select(pl.concat_str(name, pl.lit("/"), "part")).to_series()
    return {"extraction_rule": part.fill_null(rule.name), "answer_span": readings["span"]}


def _read_completions(
    rule: ExtractionRule, completions: Completions, rows: ResolvedRows, options: pl.Series | None
) -> pl.DataFrame:
    """Return the readings of every row, made in groups with the same choices."""
    found = dict.fromkeys(pair.choices for pair in rows.pairs)
    lists = [names for names in found if names is not None]
    silent = completions.frame.select(_REASON_WITHOUT_TEXT).to_series()
    if len(lists) == len(found) == 1 and silent.null_count() == len(silent):
        return rule.read_all(completions.frame["completion"], lists[0], options)
    positions: dict[object, int] = {names: position for position, names in enumerate(lists)}
    groups = rows.choose(lambda pair: positions.get(pair.choices), pl.UInt32()).set(
        silent.is_not_null(), None
    )
    columns = [completions.frame["completion"].alias("text"), groups.alias("group")]
    texts = pl.DataFrame([*columns, *([] if options is None else [options.alias("options")])])
    readings = _read_groups(rule, texts, lists)
    return readings.with_columns(pl.coalesce(silent, "reason").alias("reason"))


#: Rows whose choices fewer others have are read one by one.
SMALL_GROUP = 64


def _read_groups(rule: ExtractionRule, texts: pl.DataFrame, lists: Sequence[tuple[str, ...]]) -> pl.DataFrame:
    """Return the readings of texts with the choices of their group; nothing where the group is null."""
    table = texts.with_row_index("row").drop_nulls("group")
    is_small = table.select(pl.len().over("group") < SMALL_GROUP).to_series()
    few, parts = table.filter(is_small), table.filter(~is_small).partition_by("group")
    alone = [rule.read(text, lists[group], *options) for text, group, *options in few.drop("row").iter_rows()]
    read = [rule.read_all(part["text"], lists[part["group"][0]], *part[:, 3:]) for part in parts]
    first = tabulate(alone, find_schema(rule))
    order = pl.concat(part["row"] for part in (few, *parts))
    places = pl.repeat(None, texts.height, dtype=pl.UInt32, eager=True)
    places.scatter(order, pl.int_range(len(order), dtype=pl.UInt32, eager=True))
    return pl.concat([first, *read]).select(pl.all().gather(places))


_REASON_WITHOUT_TEXT = (
    pl.when(pl.col("status") == CompletionStatus.REFUSED.value)
    .then(pl.lit("REFUSED"))
    .when((pl.col("status") == CompletionStatus.NO_TEXT.value) | pl.col("completion").is_null())
    .then(pl.lit("NO_TEXT"))
)
