"""The scorer `string_equals_mcqa`: the choice that the completion names against the ground-truth choice.

Values: `is_correct` (1.0 or 0.0). Metadata: `completion_validity` (VALID or INVALID), `validity_reason` (null
when VALID), `predicted_choice` (null when INVALID), `ground_truth_choice`, `choices`, `extraction_rule`. A
rule that has parts also gives `answer_span`, the passage of the text that decided; a `fallback` gives
`fallback_text` and `fallback_error`. Where the options were shown in another order than in the file, the
truth moves with its option.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from answerkey.errors import SpecError, listing
from answerkey.reader import Reading, explain_reading
from answerkey.reader.characters import WHITE_SPACE
from answerkey.reader.explain import shorten
from answerkey.reader.markup import is_thought
from answerkey.scorers.base import (
    CALL_FAILED,
    FAULTS,
    RowProblem,
    Scorer,
    compile_templates,
    name_column,
    report_faults,
    tabulate_scores,
)
from answerkey.scorers.extraction import ExtractionRule, find_rule
from answerkey.scorers.fallback import (
    FALLBACK,
    FALLBACK_CALL_FAILED,
    NOTHING_TO_READ,
    PROMPT,
    FallbackReply,
    read_again,
)
from answerkey.scorers.question import Question, build_question, build_questions, read_options
from answerkey.templates import Template
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

if TYPE_CHECKING:
    from answerkey.models.config import Model

Extraction = str | dict[str, str]

VALUE_NAMES = ("is_correct",)
METADATA_TYPES: dict[str, pl.DataType] = {
    "completion_validity": pl.String(),
    "validity_reason": pl.String(),
    "predicted_choice": pl.String(),
    "ground_truth_choice": pl.String(),
    "choices": pl.List(pl.String),
    "extraction_rule": pl.String(),
}
METADATA_NAMES = tuple(METADATA_TYPES)
SPAN_TYPES: dict[str, pl.DataType] = {"answer_span": pl.List(pl.Int64)}
FALLBACK_TYPES: dict[str, pl.DataType] = {"fallback_text": pl.String(), "fallback_error": pl.String()}
#: What is meant for a column, without the braces of a template.
_COLUMN = re.compile(r"\W*(?:sample\.)?([A-Za-z_]\w+)\W*")

#: Why a completion is INVALID that ends within its thoughts, and which reasons that stands in place of.
TRUNCATED = "TRUNCATED_THINKING"
UNSAID = frozenset({"EMPTY", "NO_TEXT", "NOT_A_CHOICE", "NOTHING_STATED"})

# The rule for one completion.


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
    if isinstance(extraction, Mapping) and FALLBACK in extraction:
        raise SpecError("E108", "`judge` asks no model", hint="leave `fallback` out, or use `score`")
    rule = find_rule(extraction)
    cells = {"choices": choices, "ground_truth_choice": truth}
    question = build_question(cells, is_numbered=rule.reads_numbers)
    if options is not None:
        question = replace(question, options=tuple(options))
    if not isinstance(completion, Completion):
        completion = Completion(completion)
    [reading] = read_completions(rule, [question], [completion])
    return judge_reading(rule, question, completion, reading)


def read_completions(
    rule: ExtractionRule, questions: Sequence[Question], completions: Sequence[Completion]
) -> list[Reading]:
    """Return what a rule reads in each completion; where there is no text to read, the reason alone."""
    readings: list[Reading] = []
    passages = []
    positions = []
    for position, (question, completion) in enumerate(zip(questions, completions, strict=True)):
        reading = Reading(reason="NO_TEXT")
        if completion.status is CompletionStatus.REFUSED:
            reading = Reading(reason="REFUSED")
        readings.append(reading)
        if completion.status is CompletionStatus.OK and completion.text is not None and not question.faults:
            positions.append(position)
            passages.append((completion.text, question.labels, question.options))
    for position, reading in zip(positions, rule.read_all(passages), strict=True):
        readings[position] = reading
    return readings


def judge_reading(
    rule: ExtractionRule, question: Question, completion: Completion, reading: Reading
) -> Score:
    """Return the verdict on what was read in a completion."""
    if question.faults:
        return _leave_unscored(rule, ScoreStatus.FAILED, question.faults[0].reason)
    if completion.status is CompletionStatus.ERROR:
        return _leave_unscored(rule, ScoreStatus.ERROR, CALL_FAILED)
    reason = reading.reason
    if reason in UNSAID and _is_truncated(completion):
        reason = TRUNCATED
    metadata: dict[str, object] = {
        "completion_validity": Validity.INVALID.value if reading.choice is None else Validity.VALID.value,
        "validity_reason": reason,
        "predicted_choice": reading.choice,
        "ground_truth_choice": question.truth,
        "choices": list(question.labels),
        "extraction_rule": rule.name if reading.part is None else f"{rule.name}/{reading.part}",
    }
    if rule.has_parts:
        metadata["answer_span"] = reading.span and list(reading.span)
    is_correct = 1.0 if reading.choice in question.truths else 0.0
    return Score(ScoreStatus.SCORED, values={"is_correct": is_correct}, metadata=metadata)


def _leave_unscored(rule: ExtractionRule, status: ScoreStatus, reason: str) -> Score:
    """Return a verdict without a score: the names of every other verdict, all null."""
    types = METADATA_TYPES | SPAN_TYPES if rule.has_parts else METADATA_TYPES
    return Score(status, reason, dict.fromkeys(VALUE_NAMES), dict.fromkeys(types))


def _is_truncated(completion: Completion) -> bool:
    """Return whether a model that thought says nothing after it; a tool call is no silence."""
    text = completion.text or ""
    if text.strip(WHITE_SPACE) or completion.finish_reason == "tool_calls":
        return is_thought(text)
    return completion.reasoning is not None or bool(completion.reasoning_tokens)


def explain_verdict(completion: str | Completion | None, choices: Sequence[str], score: Score) -> str:
    """Return, in one sentence, why `judge` decided so."""
    if score.status is ScoreStatus.FAILED:
        return f"FAILED: {FAULTS.get(str(score.reason), score.reason)}"
    if score.status is ScoreStatus.ERROR:
        return "ERROR: the call failed, so there is nothing to judge"
    text = completion.text if isinstance(completion, Completion) else completion
    rule, _, part = str(score.metadata["extraction_rule"]).partition("/")
    said, predicted = score.metadata.get("fallback_text"), score.metadata["predicted_choice"]
    if part == FALLBACK:
        truth = score.metadata["ground_truth_choice"]
        relation = f"{'is' if predicted == truth else 'is not'} the ground truth {truth!r}"
        how = f"`{rule}` reads no choice, the fallback reads {predicted!r} (it says {shorten(said)})"
        return f"VALID: {how}, which {relation}"
    why = explain_reading(text or "", choices, score.metadata)
    return why if said is None else f"{why}; the fallback says {shorten(said)}"


# The scorer.


@dataclass(frozen=True)
class StringEqualsMcqa(Scorer):
    """Compares the choice that the completion names with the ground-truth choice.

    `ground_truth_choice_field` and `choices_field` are the deprecated spellings of the first two.
    """

    ground_truth_choice: str | int | None = None
    choices: str | list[str | int] | None = None
    ground_truth_choice_field: str | None = None
    choices_field: str | None = None
    extraction: Extraction = "first_character"
    options: str | list[str] | None = None

    type = "string_equals_mcqa"
    title = "String Equality (Multiple Choice)"
    template_fields = ("ground_truth_choice", "choices", "options")
    value_names = VALUE_NAMES
    metadata_names = METADATA_NAMES
    text_names = METADATA_NAMES
    main_value = "is_correct"
    default_metric_name = "Accuracy"
    follows_order = True
    model_role = FALLBACK
    #: What decides the replies of a fallback beside the model.
    model_prompt = PROMPT

    @property
    def model_key(self) -> str | None:
        """The model that reads what the rule cannot; None without a `fallback`."""
        return self.extraction.get(FALLBACK) if isinstance(self.extraction, dict) else None

    @property
    def rule_name(self) -> str:
        """What the way of reading is called."""
        name = find_rule(self.extraction).name
        return name if self.model_key is None else f"{name}/{FALLBACK}"

    @property
    def is_numbered(self) -> bool:
        """Whether choices may be the numbers 1, 2, …; false for an extraction rule that does not exist."""
        try:
            return find_rule(self.extraction).reads_numbers
        except SpecError:
            return False

    def bind(self, model: Model, *, key: str) -> StringEqualsMcqa:
        """Return the scorer with the model of its `fallback`; `key` is the scorer's own, for its calls."""
        if getattr(model, "needs", None) or model.name.startswith("builtin/"):
            message = f"model `{model.name}` answers multiple-choice questions and cannot read completions"
            raise SpecError("E301", message, hint="name a live model without `answer_format` in `fallback`")
        own = {one.name: getattr(self, one.name) for one in fields(StringEqualsMcqa)}
        return McqaWithFallback(**own, model=model, key=key)

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
        constants: dict[str, object] = {}
        for field, column in (("ground_truth_choice", "answer"), ("choices", "choices")):
            if getattr(self, field) is None and getattr(self, f"{field}_field") is None:
                message = f"`{field}` is missing (and so is its deprecated form `{field}_field`)"
                hint = f'for example `{field}: "{{{{ sample.{column} }}}}"`'
                errors.append((field, SpecError("E108", message, hint=hint)))
            with suppress(SpecError):
                template = self.compile_field(field)
                if template is not None and template.kind == "constant":
                    constants[field] = template.evaluate()
        for fault in build_question(constants, is_numbered=self.is_numbered).faults:
            written, advice = getattr(self, fault.field), fault.hint
            word = _COLUMN.fullmatch(written) if isinstance(written, str) else None
            if word and word[1] not in (read_options(self.choices) or ()):
                advice = f'for the column write `{fault.field}: "{{{{ sample.{word[1]} }}}}"`'
            errors.append((fault.field, SpecError("E108", f"`{fault.field}`: {fault.message}", hint=advice)))
        return errors

    def questions(self, samples: Samples, templates: Mapping[str, Template] | None = None) -> list[Question]:
        """Return the question of each sample; the same samples are looked at once."""
        templates = self.templates() if templates is None else templates
        sources = [(name, repr(template.source)) for name, template in sorted(templates.items())]
        key = ("questions", self.is_numbered, *sources)
        if key not in samples.memo:
            samples.memo[key] = list(build_questions(templates, samples, is_numbered=self.is_numbered))
        return cast("list[Question]", samples.memo[key])

    def check_rows(self, samples: Samples) -> tuple[list[RowProblem], list[Notice]]:
        """Return an error for every faulty row, and a notice for every field whose values were trimmed."""
        templates, errors = compile_templates(self)
        for field, _ in errors:
            templates.pop(field, None)
        questions = self.questions(samples, templates)
        faults = [(row, fault) for row, question in enumerate(questions) for fault in question.faults]
        notices = []
        for field, template in templates.items():
            columns = _list_columns(template)
            row = next((row for row, question in enumerate(questions) if field in question.trimmed), None)
            if columns and row is not None:
                notices.append(_describe_trimmed(field, columns, samples, row))
        return report_faults(faults, templates, samples), notices

    def sample_facts(self, samples: Samples) -> Known:
        """Return choices, truth and option texts of each sample; None where a row has none."""
        questions = self.questions(samples)
        return Known(
            choices=[question.labels or None for question in questions],
            truths=[question.truth for question in questions],
            options=self.option_texts(samples, only_told=False),
        )

    def option_texts(self, samples: Samples, *, only_told: bool = True) -> list[tuple[str, ...] | None]:
        """Return the texts of the options of each sample; None where they are not known.

        A rule is told those of the field `options`. Without `only_told`, a column `options` counts too.
        """
        if self.options is not None:
            return [question.options for question in self.questions(samples)]
        if only_told or "options" not in samples.columns:
            return [None] * len(samples)
        cells = samples.values("options")
        return [None if isinstance(cell, str | None) else read_options(cell) for cell in cells]

    @property
    def metadata_types(self) -> Mapping[str, pl.DataType]:
        """The metadata of a score, by name."""
        return METADATA_TYPES | SPAN_TYPES if find_rule(self.extraction).has_parts else METADATA_TYPES

    def judge_rows(self, samples: Samples, completions: Completions) -> list[Score]:
        """Return the verdict on each completion."""
        rule = find_rule(self.extraction)
        questions = self.questions(samples)
        replies = list(completions.rows())
        readings = read_completions(rule, questions, replies)
        rows = zip(questions, replies, readings, strict=True)
        return [judge_reading(rule, question, reply, reading) for question, reply, reading in rows]

    def score(self, samples: Samples, completions: Completions) -> Scores:
        """Return the table of the verdicts."""
        scores = self.judge_rows(samples, completions)
        return tabulate_scores(scores, {"is_correct": pl.Float64()}, self.metadata_types)


def _list_columns(template: Template) -> list[str]:
    """Return the columns whose cells a template hands on; none if it has text of its own around them."""
    column = name_column(template)
    if column:
        return [column]
    source = str(template.source).strip()
    is_lone = source.startswith("{{") and source.endswith("}}") and source.count("{{") == 1
    return sorted(template.columns or ()) if is_lone else []


def _describe_trimmed(field: str, columns: Sequence[str], samples: Samples, row: int) -> Notice:
    """Return the notice that white space around the values of a field is ignored."""
    noun = "choices" if field == "choices" else "ground truths"
    word, column = ("column", columns[0]) if len(columns) == 1 else ("columns", None)
    message = f"white space around {noun} in {word} {listing(columns)} is ignored"
    return Notice(message, samples.place(row, column), "clean the cells to be rid of this warning")


def find_unread(scores: Scores) -> pl.Series:
    """Return the rows with a text in which the rule reads no choice: what a fallback is asked about."""
    reasons = scores.frame["metadata"].struct.field("validity_reason")
    return (reasons.is_not_null() & ~reasons.is_in(sorted(NOTHING_TO_READ))).arg_true()


@dataclass(frozen=True)
class McqaWithFallback(StringEqualsMcqa):
    """The scorer with a model that looks again at completions in which the rule reads no choice."""

    _: KW_ONLY
    model: Model
    key: str

    @property
    def metadata_types(self) -> Mapping[str, pl.DataType]:
        """The metadata of a score, by name."""
        return {**super().metadata_types, **FALLBACK_TYPES}

    def judge_rows(self, samples: Samples, completions: Completions) -> list[Score]:
        """Return the verdicts; where the fallback names no choice, those of the rule.

        Where its call fails, the sample is an ERROR, like one whose judge did not answer.
        """
        scores = super().judge_rows(samples, completions)
        texts = completions.frame["completion"].to_list()
        passages = {}
        for row, (score, options) in enumerate(zip(scores, self.option_texts(samples), strict=True)):
            reason = score.metadata["validity_reason"]
            if reason is not None and reason not in NOTHING_TO_READ:
                passages[row] = (texts[row], cast("list[str]", score.metadata["choices"]), options)
        replies = read_again(
            self.model,
            passages,
            ids=samples.ids.to_list(),
            trials=completions.frame["trial"].to_list(),
            purpose=f"{self.model_role}:{self.key}",
        )
        for row, reply in replies.items():
            scores[row] = self._judge_again(scores[row], reply)
        return scores

    def _judge_again(self, score: Score, reply: FallbackReply) -> Score:
        """Return the verdict of the rule with what the fallback says."""
        told: dict[str, Any] = {"fallback_text": reply.text, "fallback_error": reply.error}
        if reply.error is not None:
            return Score(ScoreStatus.ERROR, FALLBACK_CALL_FAILED, dict.fromkeys(VALUE_NAMES), told)
        metadata = {**score.metadata, **told}
        if reply.choice is None:
            return replace(score, metadata=metadata)
        metadata |= {
            "completion_validity": Validity.VALID.value,
            "validity_reason": None,
            "predicted_choice": reply.choice,
            "extraction_rule": f"{find_rule(self.extraction).name}/{FALLBACK}",
        }
        if "answer_span" in metadata:
            metadata["answer_span"] = None
        is_correct = 1.0 if reply.choice == metadata["ground_truth_choice"] else 0.0
        return replace(score, values={"is_correct": is_correct}, metadata=metadata)
