"""The scorer `string_equals_mcqa`: the choice that the completion names against the ground-truth choice.

Values: `is_correct` (1.0 or 0.0). Metadata: `completion_validity` (VALID or INVALID), `validity_reason` (null
when VALID), `predicted_choice` (null when INVALID), `ground_truth_choice`, `choices`, `extraction_rule`. A
rule that has parts also gives `answer_span`, the passage of the text that decided; a `fallback` gives
`fallback_text` and `fallback_error`. Where the options were shown in another order than in the file, the
truth moves with its option.

Below: the audited samples, whose completions are read by every rule and as other harnesses read them.
"""

from __future__ import annotations

import json
import math
import random
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from answerkey.errors import SpecError, listing
from answerkey.reader import EXTRACTORS, Reading, explain_reading
from answerkey.reader.characters import (
    LONGEST_CHARACTER,
    WHITE_SPACE,
    compose,
    measure_character,
    strip_white_space,
)
from answerkey.reader.explain import shorten
from answerkey.reader.extractors import measure_options
from answerkey.reader.markup import MAYBE_THOUGHT, SAID_AFTER, is_thought
from answerkey.reader.stated_answer import narrow_options
from answerkey.scorers.base import (
    CALL_FAILED,
    FAULTS,
    FaultReason,
    RowFault,
    RowProblem,
    Scorer,
    build_scores,
    compile_templates,
    fill,
    find_statuses,
    mark_faults,
    name_column,
    report_faults,
    spread,
)
from answerkey.scorers.extraction import ExtractionRule, find_rule, tabulate
from answerkey.scorers.fallback import FALLBACK, FALLBACK_CALL_FAILED, NOTHING_TO_READ, PROMPT, read_again
from answerkey.templates import RowError, Template
from answerkey.text import parse_python
from answerkey.types import (
    OPTION_TEXT_KEYS,
    RULE_NAMES,
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
METADATA_NAMES = (
    "completion_validity",
    "validity_reason",
    "predicted_choice",
    "ground_truth_choice",
    "choices",
    "extraction_rule",
)
#: What is meant for a column, without the braces of a template.
_COLUMN = re.compile(r"\W*(?:sample\.)?([A-Za-z_]\w+)\W*")
#: Rows whose choices fewer others have are read one by one.
SMALL_GROUP = 64


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
    metadata: dict[str, object] = dict.fromkeys(METADATA_NAMES)
    metadata |= {"answer_span": None} if rule.has_parts else {}
    unscored = dict.fromkeys(VALUE_NAMES)
    try:
        names, _ = parse_choices(choices, is_numbered=rule.reads_numbers)
        right, _ = parse_truth(truth, is_numbered=rule.reads_numbers)
        check_truth(right, names)
    except RowFault as fault:
        return Score(ScoreStatus.FAILED, fault.reason, unscored, metadata)
    if not isinstance(completion, Completion):
        completion = Completion(completion)
    if completion.status is CompletionStatus.ERROR:
        return Score(ScoreStatus.ERROR, CALL_FAILED, unscored, metadata)
    if completion.status is CompletionStatus.REFUSED:
        reading = Reading(reason="REFUSED")
    elif completion.status is CompletionStatus.NO_TEXT or completion.text is None:
        reading = Reading(reason="NO_TEXT")
    else:
        reading = rule.read(completion.text, names, options)
    if reading.reason in UNSAID and _is_truncated(completion):
        reading = replace(reading, reason=TRUNCATED)
    metadata |= {
        "completion_validity": str(Validity.INVALID if reading.choice is None else Validity.VALID),
        "validity_reason": reading.reason,
        "predicted_choice": reading.choice,
        "ground_truth_choice": right,
        "choices": list(names),
        "extraction_rule": rule.name if reading.part is None else f"{rule.name}/{reading.part}",
    }
    metadata |= {"answer_span": reading.span and list(reading.span)} if rule.has_parts else {}
    is_correct = 1.0 if reading.choice == right else 0.0
    return Score(ScoreStatus.SCORED, values={"is_correct": is_correct}, metadata=metadata)


def _is_truncated(completion: Completion) -> bool:
    """Return whether a model that thought says nothing after it; a tool call is no silence."""
    text = completion.text or ""
    if text.strip(WHITE_SPACE) or completion.finish_reason == "tool_calls":
        return is_thought(text)
    return completion.reasoning is not None or bool(completion.reasoning_tokens)


def _mark_truncated(reasons: pl.Series, completions: pl.DataFrame) -> pl.Series:
    """Return reasons with `TRUNCATED` where a completion ends within its thoughts, as `judge` gives it."""
    rows = reasons.is_in(sorted(UNSAID)).fill_null(value=False).arg_true()
    if not len(rows):
        return reasons
    found = completions.select("completion", "reasoning", "finish_reason", "usage")[rows]
    texts, usage = found["completion"].fill_null(""), found["usage"].struct.unnest()
    is_blank = texts.str.strip_chars(WHITE_SPACE) == ""
    has_thoughts = found["reasoning"].is_not_null() | (usage["reasoning_tokens"].fill_null(0) > 0)
    is_call = (found["finish_reason"] == "tool_calls").fill_null(value=False)
    may_be = ~is_blank & texts.str.contains(MAYBE_THOUGHT) & ~texts.str.contains(SAID_AFTER)
    thoughts = [text for text in texts.filter(may_be).unique() if is_thought(text)]
    is_cut = (is_blank & has_thoughts & ~is_call) | texts.is_in(thoughts)
    return reasons.clone().scatter(rows.filter(is_cut), TRUNCATED)


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
        """Whether choices may be the numbers 1, 2, …; false for an extraction rule that there is not."""
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
        constants: dict[str, RowFault | tuple[Any, bool]] = {}
        for field, column in (("ground_truth_choice", "answer"), ("choices", "choices")):
            if getattr(self, field) is None and getattr(self, f"{field}_field") is None:
                message = f"`{field}` is missing (and so is its deprecated form `{field}_field`)"
                hint = f'for example `{field}: "{{{{ sample.{column} }}}}"`'
                errors.append((field, SpecError("E108", message, hint=hint)))
            with suppress(SpecError):
                template = self.compile_field(field)
                if template is not None and template.kind == "constant":
                    constants[field] = _read_value(field, template.evaluate(), is_numbered=self.is_numbered)
        for one in _build_pair(constants).faults:
            written, advice = getattr(self, one.field), one.hint
            word = _COLUMN.fullmatch(written) if isinstance(written, str) else None
            if word and word[1] not in (read_options(self.choices) or ()):
                advice = f'for the column write `{one.field}: "{{{{ sample.{word[1]} }}}}"`'
            errors.append((one.field, SpecError("E108", f"`{one.field}`: {one.message}", hint=advice)))
        return errors

    def check_rows(self, samples: Samples) -> tuple[list[RowProblem], list[Notice]]:
        """Return an error for every faulty row, and a notice for every field whose values were trimmed."""
        templates, errors = compile_templates(self)
        for field, _ in errors:
            templates.pop(field, None)
        rows = resolve_rows(templates, samples, is_numbered=self.is_numbered)
        notices = []
        for name, template in templates.items():
            column, source = name_column(template), str(template.source).strip()
            is_lone = source.startswith("{{") and source.endswith("}}") and source.count("{{") == 1
            # The columns whose cells the template hands on; none when text of its own stands around them.
            columns = [column] if column else sorted(template.columns or ()) if is_lone else []
            trimmed = rows.choose(lambda pair, name=name: name in pair.trimmed, pl.Boolean())  # type: ignore[misc]  # a default binds the loop variable
            if columns and trimmed.any():
                noun = "choices" if name == "choices" else "ground truths"
                word, only = ("column", columns[0]) if len(columns) == 1 else ("columns", None)
                message = f"white space around {noun} in {word} {listing(columns)} is ignored"
                where = samples.place(int(trimmed.arg_true()[0]), only)
                notices.append(Notice(message, where, "clean the cells to be rid of this warning"))
        return report_faults(rows.faults(), templates, samples), notices

    def sample_facts(self, samples: Samples) -> Known:
        """Return choices, truth and option texts of each sample; None where a row has none."""
        rows = resolve_rows(self.templates(), samples, is_numbered=self.is_numbered)
        return Known(
            choices=[None if one is None else tuple(one) for one in rows.choices.to_list()],
            truths=rows.truths.to_list(),
            options=self._find_options(samples),
        )

    def option_texts(self, samples: Samples, *, only_told: bool = True) -> pl.Series | None:
        """Return the texts of the choices that a rule is told; None when the field `options` is not given.

        Without `only_told`, those of a column `options` are known, too.
        """
        native = None
        if self.options is not None:
            native = Template.compile(self.options).series(samples)
        elif only_told or "options" not in samples.columns:
            return None
        elif "options" not in samples.encoded:
            native = samples.frame["options"]
        if native is not None and native.dtype == pl.List(pl.String):
            return native.list.eval(pl.element().fill_null(""))
        return pl.Series(self._find_options(samples), dtype=pl.List(pl.String))

    def _find_options(self, samples: Samples) -> list[tuple[str, ...] | None]:
        if self.options is not None:
            values = Template.compile(self.options).values(samples)
        elif "options" in samples.columns:
            values = [None if isinstance(cell, str) else cell for cell in samples.values("options")]
        else:
            return [None] * len(samples)
        return [None if isinstance(one, RowError | None) else read_options(one) for one in values]

    def score(self, samples: Samples, completions: Completions) -> Scores:
        """Return the verdicts, the same as `judge` gives row by row."""
        rule = find_rule(self.extraction)
        rows = resolve_rows(self.templates(), samples, is_numbered=self.is_numbered)
        readings = self._read(rule, completions, rows, samples)
        choice, truths = readings["choice"], rows.truths
        statuses, reasons = find_statuses(rows.reasons(), completions.frame["status"])
        names = {"extraction_rule": fill(readings.height, rule.name)}
        if rule.has_parts:
            part = readings.select(pl.concat_str(pl.lit(f"{rule.name}/"), "part")).to_series()
            names = {"extraction_rule": part.fill_null(rule.name), "answer_span": readings["span"]}
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
                **names,
            },
        )

    def _read(
        self, rule: ExtractionRule, completions: Completions, rows: ResolvedRows, samples: Samples
    ) -> pl.DataFrame:
        """Return the readings of every row, made in groups with the same choices."""
        options = self.option_texts(samples) if rule.reads_options else None
        texts = completions.frame["completion"]
        found = dict.fromkeys(pair.choices for pair in rows.pairs)
        lists = [names for names in found if names is not None]
        silent = completions.frame.select(_REASON_WITHOUT_TEXT).to_series()
        own = rows.codes.is_null() & silent.is_null()
        if len(lists) == len(found) == 1 and silent.null_count() == len(silent) and not own.any():
            readings = rule.read_all(texts, lists[0], options)
            return readings.with_columns(_mark_truncated(readings["reason"], completions.frame))
        numbers: dict[object, int] = {names: number for number, names in enumerate(lists)}
        groups = rows.choose(lambda pair: numbers.get(pair.choices), pl.UInt32())
        groups = groups.set(silent.is_not_null(), None)
        columns = [texts.alias("text"), groups.alias("group")]
        table = pl.DataFrame([*columns, *([] if options is None else [options.alias("options")])])
        # A row without choices or without a text is in no group, and nothing is read there.
        table = table.with_row_index("row").drop_nulls("group")
        is_small = table.select(pl.len().over("group") < SMALL_GROUP).to_series()
        few, parts = table.filter(is_small), table.filter(~is_small).partition_by("group")
        alone = [rule.read(text, lists[group], *told) for text, group, *told in few.drop("row").iter_rows()]
        read = [rule.read_all(part["text"], lists[part["group"][0]], *part[:, 3:]) for part in parts]
        order = [part["row"] for part in (few, *parts)]
        if own.any():
            given = [one.filter(own) for one in (texts, rows.choices, options) if one is not None]
            order.append(own.arg_true().alias("row"))
            if rule.read_own is None:
                each = zip(*(one.to_list() for one in given), strict=True)
                each_read = (rule.read(text, tuple(names), *told) for text, names, *told in each)
                read.append(tabulate(each_read, rule.schema))
            else:
                read.append(rule.read_own(*given))
        places = spread(pl.concat(order), len(texts))
        readings = pl.concat([tabulate(alone, rule.schema), *read]).select(pl.all().gather(places))
        reasons = readings.select(pl.coalesce(silent, "reason").alias("reason")).to_series()
        return readings.with_columns(_mark_truncated(reasons, completions.frame))


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

    def score(self, samples: Samples, completions: Completions) -> Scores:
        """Return the verdicts; where the fallback names no choice, those of the rule.

        Where its call fails, the sample is an ERROR, like one whose judge did not answer.
        """
        scores = super().score(samples, completions)
        metadata = scores.frame["metadata"].struct.unnest()
        rows, told = find_unread(scores), self.option_texts(samples)
        texts, choices = completions.frame["completion"].gather(rows), metadata["choices"].gather(rows)
        options = [None] * len(rows) if told is None else told.gather(rows).to_list()
        replies = read_again(
            self.model,
            dict(zip(rows.to_list(), zip(texts, choices.to_list(), options, strict=True), strict=True)),
            ids=samples.ids.to_list(),
            trials=completions.frame["trial"].to_list(),
            purpose=f"{self.model_role}:{self.key}",
        )
        stated = scores.frame.select("status", "reason", scores.column("is_correct"))
        table = pl.concat([metadata, stated], how="horizontal").with_row_index("row")
        table = table.join(replies, on="row", how="left", maintain_order="left")
        is_named, is_failed = pl.col("named").is_not_null(), pl.col("fallback_error").is_not_null()
        is_right = (pl.col("named") == pl.col("ground_truth_choice")).cast(pl.Float64)
        rule = f"{find_rule(self.extraction).name}/{FALLBACK}"
        changes = {
            "status": (is_failed, pl.lit(ScoreStatus.ERROR.value)),
            "reason": (is_failed, pl.lit(FALLBACK_CALL_FAILED)),
            "is_correct": (is_named, is_right),
            "completion_validity": (is_named, pl.lit(Validity.VALID.value)),
            "validity_reason": (is_named, pl.lit(None, pl.String)),
            "predicted_choice": (is_named, pl.col("named")),
            "extraction_rule": (is_named, pl.lit(rule)),
        }
        if "answer_span" in metadata.columns:
            changes["answer_span"] = is_named, pl.lit(None, metadata.schema["answer_span"])
        table = table.with_columns(
            pl.when(is_changed).then(value).otherwise(pl.col(name)).alias(name)
            for name, (is_changed, value) in changes.items()
        )
        return build_scores(
            table["status"],
            table["reason"],
            {"is_correct": table["is_correct"]},
            metadata={name: table[name] for name in metadata.columns},
            kept={name: table[name] for name in ("fallback_text", "fallback_error")},
        )


#: By whether there is no choice.
_VALIDITY = pl.Series([Validity.VALID.value, Validity.INVALID.value])
_REASON_WITHOUT_TEXT = (
    pl.when(pl.col("status") == CompletionStatus.REFUSED.value)
    .then(pl.lit("REFUSED"))
    .when((pl.col("status") == CompletionStatus.NO_TEXT.value) | pl.col("completion").is_null())
    .then(pl.lit("NO_TEXT"))
)


# Choices and ground truths as datasets spell them: lists, JSON text, Python literals, integers.

#: Longer text in a cell is no list of single characters; parsing it would only cost time.
LONGEST_LIST = 100_000

#: More choices are no question; and a number as a label.
MOST_CHOICES = 1_000
_NUMBER = re.compile("[1-9][0-9]{0,3}")
_LONGER = "for longer answers use the scorer `string_equals`"
ADVICE = f"only single-character choices are supported here; {_LONGER}"
_LIST_HINT = 'write a list of single characters such as ["A", "B", "C", "D"]'


def parse_choices(value: object, *, is_numbered: bool = False) -> tuple[tuple[str, ...], bool]:
    """Return the choices that a cell or a template yields, and whether white space was cut; raise `RowFault`.

    They are trimmed, in NFC and in their order: single characters or, with `is_numbered`, 1, 2, … as well.
    """
    cells = _read_list(value)
    if not cells:
        raise RowFault("BAD_CHOICES", "the list of choices is empty", _LIST_HINT)
    if len(cells) > MOST_CHOICES:
        message = f"there are {len(cells):,} choices, and at most {MOST_CHOICES:,} are read"
        raise RowFault("BAD_CHOICES", message, "offer fewer choices")
    numbers = [str(number) for number in range(1, len(cells) + 1)]
    if is_numbered and numbers == [str(cell) for cell in cells]:
        return tuple(numbers), False
    found = [_read_character(cell, "BAD_CHOICES", "choice") for cell in cells]
    names = tuple(name for name, _ in found)
    if len(set(names)) < len(names):
        twice = next(name for position, name in enumerate(names) if name in names[:position])
        message = f"choice {twice!r} appears twice in {shorten(list(names))}"
        raise RowFault("BAD_CHOICES", message, "choices must be distinct")
    return names, any(is_trimmed for _, is_trimmed in found)


def parse_truth(value: object, *, is_numbered: bool = False) -> tuple[str, bool]:
    """Return the ground truth of a cell or a template, and whether white space was cut; raise `RowFault`."""
    if is_numbered and type(value) in {int, str} and _NUMBER.fullmatch(str(value)):
        return str(value), False
    return _read_character(value, "BAD_TRUTH", "ground truth")


def check_truth(truth: str, choices: Sequence[str]) -> None:
    """Raise `RowFault` unless the truth is one of the choices."""
    if truth not in choices:
        message = f"ground truth {truth!r} is not among the choices {shorten(list(choices))}"
        raise RowFault("BAD_TRUTH", message, field="ground_truth_choice")


def read_options(value: object) -> tuple[str, ...] | None:
    """Return the texts of the choices if the value is a list (or the text of a list), else None.

    An option may be a mapping that holds its text, such as `{key: A, text: Paris}`.
    """
    try:
        cells = _read_list(value)
    except RowFault:
        return None
    texts = []
    for cell in cells:
        text = cell
        if isinstance(cell, Mapping):
            text = next((cell[key] for key in OPTION_TEXT_KEYS if key in cell), cell)
        texts.append("" if text is None else str(text))
    return tuple(texts)


def _read_list(value: object) -> Sequence[object]:
    """Return a list, or what JSON or Python reads in a text."""
    if isinstance(value, str) and len(value) <= LONGEST_LIST:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            with suppress(ValueError):
                value = parse_python(strip_white_space(str(value)))
    if isinstance(value, list | tuple):
        return value
    named = "null" if value is None else f"{shorten(value)}, not a list"
    raise RowFault("BAD_CHOICES", f"the choices are {named}", _LIST_HINT)


def _read_character(cell: object, reason: FaultReason, noun: str) -> tuple[str, bool]:
    """Return the one character of a cell, and whether white space was cut off around it."""
    if type(cell) is str and len(cell) == 1 and "!" <= cell <= "~":  # nearly every label
        return cell, False
    if cell is None:
        raise RowFault(reason, f"{noun} is null", "every row needs one; fill the cell or filter the row out")
    if isinstance(cell, bool) or not isinstance(cell, str | int):
        kinds: dict[type, str] = {bool: "true/false", float: "a number with decimals"}
        is_nested = isinstance(cell, list | tuple | dict | set)
        other = "a nested value" if is_nested else f"a {type(cell).__name__}"
        message = f"{noun} {shorten(cell)} is {kinds.get(type(cell), other)}, not text or an integer"
        raise RowFault(reason, message, f"write the {noun} as text, for example 'A' or '1'")
    text = str(cell)
    name = strip_white_space(text)
    if not name:
        raise RowFault(reason, f"{noun} is empty", "every choice is one character, such as 'A'")
    if measure_character(name) != len(name) or len(name) > LONGEST_CHARACTER:
        hint = ADVICE if reason == "BAD_CHOICES" else f"write the label of a choice, such as 'A'; {_LONGER}"
        raise RowFault(reason, f"{noun} {shorten(name)} has more than one character", hint)
    return compose(name), text != name


# Choices and truth of every row, and what is wrong with them.


@dataclass(frozen=True)
class Pair:
    """Choices and truth as some rows have them, or the faults that keep those rows from being scored.

    `trimmed` are the fields whose values have white space around them.
    """

    choices: tuple[str, ...] | None
    truth: str | None
    faults: tuple[RowFault, ...] = ()
    trimmed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ResolvedRows:
    """The pairs of choices and truth, and for each row the position of its pair; some pairs have no row.

    `cells` are the columns of fields that hold in every row just what is read there; a row that is in order
    and has choices of its own has no pair, but cells. `options` holds the rows on which the template of the
    option texts fails.
    """

    pairs: list[Pair]
    codes: pl.Series
    options: Mapping[int, RowFault]
    cells: Mapping[str, pl.Series]

    def choose(self, pick: Callable[[Pair], object], dtype: pl.DataType) -> pl.Series:
        """Return one value per row, picked from its pair."""
        return pl.Series([pick(pair) for pair in self.pairs], dtype=dtype).gather(self.codes)

    def faults(self) -> Iterator[tuple[int, RowFault]]:
        """Yield the faulty rows with each of their faults, in order."""
        bad = self.choose(lambda pair: bool(pair.faults), pl.Boolean()).arg_true().to_list()
        for position in sorted({*bad, *self.options}):
            code = self.codes[position]
            yield from () if code is None else ((position, one) for one in self.pairs[code].faults)
            if position in self.options:
                yield position, self.options[position]

    def reasons(self) -> pl.Series:
        """Return the reason why a row is FAILED, null for rows that can be scored."""
        first: dict[int, RowFault] = {}
        for row, fault in self.faults():
            first.setdefault(row, fault)
        return mark_faults(first, len(self.codes))

    @property
    def truths(self) -> pl.Series:
        """The ground truth of each row; null where there is none."""
        cells = self.cells.get("ground_truth_choice")
        return self.choose(lambda pair: pair.truth, pl.String()) if cells is None else cells

    @property
    def choices(self) -> pl.Series:
        """The choices of each row; null where there are none."""
        cells = self.cells.get("choices")
        return self.choose(lambda pair: pair.choices, pl.List(pl.String)) if cells is None else cells


#: More combinations of choices and truths than this are only looked at if there are rows with them.
MOST_PAIRS = 256
#: So many rows tell whether most rows have choices of their own.
_FIRST_ROWS = 1_000
_DTYPES: dict[str, pl.DataType] = {"choices": pl.List(pl.String), "ground_truth_choice": pl.String()}


def resolve_rows(
    templates: Mapping[str, Template],
    samples: Samples,
    *,
    is_numbered: bool = False,
) -> ResolvedRows:
    """Return choices and truth of every row, the truth at the place to which its option was moved.

    Rows are resolved once, for checking and for scoring them.
    """
    key = (
        "resolved",
        is_numbered,
        *((name, repr(template.source)) for name, template in sorted(templates.items())),
    )
    if key in samples.memo:
        return cast("ResolvedRows", samples.memo[key])
    written = samples if samples.orders is None else samples.as_written()
    options: dict[int, RowFault] = {}
    template = templates.get("options")
    if template is not None and template.series(written) is None:
        # Apart from the pairs, since every row has its own texts.
        values = enumerate(template.values(written))
        options = {
            row: RowFault.from_error("options", one) for row, one in values if isinstance(one, RowError)
        }
    plain = None if samples.orders is not None else _find_plain(templates, written)
    if plain is None:
        rows = _resolve_distinct(templates, samples, written, options, is_numbered=is_numbered)
    else:
        good, cells = plain
        kept, others = good.arg_true(), (~good).arg_true()
        left = written.take(others)
        rest = _resolve_distinct(templates, left, left, {}, is_numbered=is_numbered)
        codes = rest.codes.gather(spread(others, len(written)))
        if len(others):
            both = {"choices": rest.choices, "ground_truth_choice": rest.truths}
            places = spread(pl.concat([kept, others]), len(written))
            cells = {
                name: pl.concat([cells[name].gather(kept), one]).gather(places) for name, one in both.items()
            }
        rows = ResolvedRows(rest.pairs, codes, options, cells)
    samples.memo[key] = rows
    return rows


def _find_plain(
    templates: Mapping[str, Template], samples: Samples
) -> tuple[pl.Series, Mapping[str, pl.Series]] | None:
    """Return the rows that are read as they stand, and the columns; None where rows have choices in common.

    Such a row has distinct choices, each one character of `PRINTABLE`, and the truth is one of them. What is
    said of any other row, the rule for one row says.
    """
    for part in (samples.slice(0, _FIRST_ROWS), samples):
        found = {name: templates[name].series(part) for name in _DTYPES if name in templates}
        cells = {name: one for name, one in found.items() if one is not None and one.dtype == _DTYPES[name]}
        if len(cells) < len(_DTYPES) or (
            part is not samples and cells["choices"].n_unique() <= len(part) // 2
        ):
            return None
    choices, truths = cells.values()
    # A text of single characters with a space between two; its length says that no choice has a space.
    joined, sizes = choices.list.join(" "), choices.list.len()
    is_good = joined.str.contains("^[!-~](?: [!-~])*$") & (joined.str.len_bytes() + 1 == 2 * sizes)
    is_good &= (choices.list.n_unique() == sizes) & choices.list.contains(truths)
    return is_good.fill_null(value=False), cells


def _resolve_distinct(
    templates: Mapping[str, Template],
    samples: Samples,
    written: Samples,
    options: Mapping[int, RowFault],
    *,
    is_numbered: bool,
) -> ResolvedRows:
    """Return choices and truth of every row, each distinct value parsed once."""
    names = [name for name in _DTYPES if name in templates]
    fields = {name: templates[name].distinct(written) for name in names}
    read = {
        name: [_read_value(name, value, is_numbered=is_numbered) for value in one.values]
        for name, one in fields.items()
    }
    # Combinations of codes, one from each field, and which of them each row has.
    sizes = [len(fields[name].values) for name in names]
    codes = pl.zeros(len(written), pl.UInt32, eager=True)
    if math.prod(sizes) <= MOST_PAIRS:
        combinations: list[tuple[int, ...]] = list(product(*map(range, sizes)))
        for name, size in zip(names, sizes, strict=True):
            codes = codes * size + fields[name].codes
    else:
        frame = pl.DataFrame([fields[name].codes.alias(name) for name in names])
        distinct = frame.unique(maintain_order=True).with_row_index("pair")
        codes = frame.join(distinct, on=frame.columns, how="left", maintain_order="left")["pair"]
        combinations = distinct.drop("pair").rows()
    pairs = [
        _build_pair({name: read[name][code] for name, code in zip(names, combination, strict=True)})
        for combination in combinations
    ]
    cells: dict[str, pl.Series] = {}
    for name in names:
        # Cells that hold just what is read there: nothing to trim, to compose or to parse, no faults.
        spelled = [one if isinstance(one, RowFault) else one[0] for one in read[name]]
        plain = [list(one) if isinstance(one, tuple) else one for one in spelled]
        series = templates[name].series(written) if plain == list(fields[name].values) else None
        cells |= {} if series is None or series.dtype != _DTYPES[name] else {name: series}
    if samples.orders is not None:
        moved: dict[tuple[int, str | None], int] = {}
        places = []
        for code, order in zip(codes.to_list(), samples.orders["order"].to_list(), strict=True):
            truth = move_label(pairs[code].truth, pairs[code].choices, order)
            places.append(moved.setdefault((code, truth), len(moved)))
        pairs = [replace(pairs[code], truth=truth) for code, truth in moved]
        codes = pl.Series(places, dtype=pl.UInt32)
        cells.pop("ground_truth_choice", None)
    return ResolvedRows(pairs, codes, options, cells)


def _read_value(name: str, value: object, *, is_numbered: bool) -> RowFault | tuple[Any, bool]:
    """Return the parsed value of a field and whether it was trimmed, or its fault."""
    if isinstance(value, RowError):
        return RowFault.from_error(name, value)
    try:
        return (parse_choices if name == "choices" else parse_truth)(value, is_numbered=is_numbered)
    except RowFault as fault:
        fault.field = name
        return fault


def _build_pair(read: Mapping[str, RowFault | tuple[Any, bool]]) -> Pair:
    faults = [one for name in _DTYPES if isinstance(one := read.get(name), RowFault)]
    parsed = {name: one for name, one in read.items() if not isinstance(one, RowFault)}
    choices, truth = (parsed.get(name, (None, False))[0] for name in _DTYPES)
    if choices is not None and truth is not None:
        try:
            check_truth(truth, choices)
        except RowFault as fault:
            faults.append(fault)
    trimmed = frozenset(name for name, (_, is_trimmed) in parsed.items() if is_trimmed)
    return Pair(choices, truth, tuple(faults), trimmed)


def move_label(label: str | None, choices: Sequence[str] | None, order: Sequence[int]) -> str | None:
    """Return what the option with this label in the file is called in this order."""
    if label is None or choices is None or label not in choices or len(order) != len(choices):
        return label
    return choices[list(order).index(choices.index(label))]


# Audited samples: the same completions read by every rule and by other harnesses' extractors.

FIRST, LITERAL, _, STATED = RULE_NAMES
#: So many samples stand for all in a summary; the audit itself reads every one.
MOST_AUDITED = 1_000
#: What the run itself read, among the counts by rule.
OWN = "own"

Labels = tuple[str, ...]
Passage = tuple[str | None, Labels, Labels | None]


@dataclass(frozen=True)
class Passages:
    """Completions to read: text (null where there is none), labels and option texts of each.

    `options` is None where nobody knows any. `is_told` says that the rules are given them, as the scorer's
    field `options` does; extractors see them whenever they are known.
    """

    texts: pl.Series
    choices: pl.Series
    options: pl.Series | None
    is_told: bool = False

    def take(self, rows: pl.Series) -> Passages:
        """Return some of them."""
        options = None if self.options is None else self.options.gather(rows)
        return replace(
            self, texts=self.texts.gather(rows), choices=self.choices.gather(rows), options=options
        )

    def list_rows(self) -> Iterator[Passage]:
        """Yield them one by one."""
        options = [None] * len(self.texts) if self.options is None else self.options.to_list()
        for text, names, told in zip(self.texts, self.choices.to_list(), options, strict=True):
            yield text, tuple(names), None if told is None else tuple(told)


#: Part after part of a run has the same short texts, and more than one part of a report the same samples:
#: what is read in them is remembered, of longer ones not.
_RECALLED, _RECALLED_EXTRACTED = 2_000, 24


@lru_cache(maxsize=16_384)
def _recall_reading(name: str, text: str, choices: Labels, options: Labels | None) -> Reading:
    return find_rule(name).read(text, choices, options)


@lru_cache(maxsize=65_536)
def _recall_choice(name: str, text: str, choices: Labels, options: Labels | None) -> str | None:
    return EXTRACTORS[name].read(text, choices, options)


def read_by_rule(name: str, text: str, choices: Labels, options: Labels | None) -> Reading:
    """Return what a rule reads."""
    if options and find_rule(name).reads_options:
        options = narrow_options(text, choices, options)
    recall = _recall_reading if len(text) <= _RECALLED else _recall_reading.__wrapped__
    return recall(name, text, choices, options)


def extract(name: str, text: str, choices: Labels, options: Labels | None) -> str | None:
    """Return what the extractor of another harness reads."""
    recall = _recall_choice if len(text) <= _RECALLED_EXTRACTED else _recall_choice.__wrapped__
    return recall(name, text, choices, options)


def fit_options(text: str | None, options: Labels | None) -> Labels | None:
    """Return what an extractor looks for in the text; no option is in a text that is shorter than each."""
    if text is None or not options or measure_options(options) > len(text.lower()):
        return None
    return options


def list_passages(
    scorer: StringEqualsMcqa,
    samples: Samples,
    completions: Completions,
    scores: Scores,
    *,
    only_told: bool = False,
) -> Passages:
    """Return what there is to read; every row has been scored.

    With `only_told`, option texts are those that the scorer is given; else also those of a column `options`.
    """
    choices = scores.column("choices")
    return Passages(
        keep_texts(completions.frame["completion"], completions.frame["status"]),
        pl.Series([], dtype=pl.List(pl.String)) if choices is None else choices,
        scorer.option_texts(samples, only_told=only_told),
        scorer.options is not None,
    )


def keep_texts(texts: pl.Series, calls: pl.Series) -> pl.Series:
    """Return the texts of completions; null for a refusal and for a reply without any."""
    return texts.zip_with(calls == CompletionStatus.OK.value, pl.Series([None], dtype=pl.String))


def reread(passages: Passages, names: Sequence[str]) -> dict[str, pl.Series]:
    """Return what each of these rules and extractors reads in each text: a choice, or null."""

    def number(options: pl.Series | None) -> tuple[list[Passage], pl.Series]:
        """Return the distinct combinations, and which of them each row has."""
        given = replace(passages, options=options)
        columns = [passages.texts.alias("text"), passages.choices.alias("choices")]
        table = pl.DataFrame(columns if options is None else [*columns, options.alias("options")])
        rows = table.with_row_index("row")
        first = rows.select(pl.col("row").first().over(table.columns)).to_series()
        distinct = first.unique().sort()
        return list(given.take(distinct).list_rows()), distinct.search_sorted(first)

    plain = number(None)
    told = seen = plain
    if passages.options is not None:
        told = number(passages.options) if passages.is_told else plain
        seen = number(_fit_options(passages.texts, passages.options))
    found: dict[str, pl.Series] = {}
    for name in names:
        is_rule = name not in EXTRACTORS
        keys, codes = plain
        if find_rule(name).reads_options if is_rule else EXTRACTORS[name].reads_options:
            keys, codes = told if is_rule else seen
        labels = [
            None
            if text is None
            else read_by_rule(name, text, choices, options).choice
            if is_rule
            else extract(name, text, choices, options)
            for text, choices, options in keys
        ]
        found[name] = pl.Series(name, labels, dtype=pl.String).gather(codes)
    return found


#: Characters that Python and Polars treat alike, and those of them that are punctuation.
_PLAIN, _MARKS = r"^[\t\n\x20-\x7e]*$", r"[!-#%-*,-/:;?@\[-\]_{}]"


def _fit_options(texts: pl.Series, options: pl.Series) -> pl.Series:
    """Return option texts as `fit_options` does, if not for as many rows: null where none is looked for."""
    one = pl.element()
    size = pl.when(one.str.contains(_PLAIN)).then(
        one.str.strip_chars().str.replace_all(_MARKS, "").str.len_chars()
    )
    distinct = options.unique().to_frame("options")
    sizes = distinct.with_columns(size=pl.col("options").list.eval(size.otherwise(0)).list.min())
    rows = pl.DataFrame([texts.alias("text"), options.alias("options")])
    rows = rows.join(sizes, on="options", how="left", maintain_order="left")
    is_short = (pl.col("text").str.len_bytes() < pl.col("size")) | pl.col("text").is_null()
    return rows.select(pl.when(~is_short).then("options")).to_series()


def choose_audited(count: int, most: int = MOST_AUDITED) -> tuple[int, ...]:
    """Return the positions, in order, of at most `most` samples that stand for all `count` of them.

    They are drawn at random, and depend on nothing but the two numbers.
    """
    if count <= most:
        return tuple(range(count))
    draw = random.Random(0)  # noqa: S311 - for repeatability, not for secrets
    return tuple(sorted(draw.sample(range(count), most)))


def find_audited_rows(audited: Sequence[int], stretch: range, size: int) -> list[int]:
    """Return which rows of a stretch of samples, with `size` rows each, belong to audited samples."""
    first, last = bisect_left(audited, stretch.start), bisect_left(audited, stretch.stop)
    starts = [(sample - stretch.start) * size for sample in audited[first:last]]
    return [start + trial for start in starts for trial in range(size)]


def count_readings(
    scorer: Scorer, samples: Samples, completions: Completions, scores: Scores, rows: Sequence[int]
) -> dict[str, Any]:
    """Return how many of these rows each rule reads, and how many rightly: `n`, and by rule two counts.

    `samples` is how many samples the rows are of, `own` what the scorer itself reads, by the rule that
    `own_rule` names. Rows without a score, or kept out of the metrics, are passed over. Empty for scorers
    that read no choices. Where another tool has judged, `theirs` says by which rules and extractors so many
    completions get its verdict of those where it is not ours.
    """
    if not isinstance(scorer, StringEqualsMcqa):
        return {}
    chosen = pl.Series(rows, dtype=pl.UInt32)
    chosen = chosen if scores.are_all_counted else chosen.filter(scores.counted().gather(chosen))
    asked, said = samples.take(chosen), completions.take(chosen)
    verdicts = scores.take(chosen)
    passages = list_passages(scorer, asked, said, verdicts, only_told=True)
    own, truths = verdicts.text("predicted_choice"), verdicts.text("ground_truth_choice")
    others = [name for name in RULE_NAMES if name != scorer.rule_name]
    owners = asked.ids if asked.orders is None else asked.orders["base_sample_id"]
    counts = {
        "n": len(chosen),
        "samples": owners.n_unique(),
        "rules": {
            name: {"correct": int((read == truths).sum()), "invalid": read.null_count()}
            for name, read in {OWN: own, **reread(passages, others)}.items()
        },
        "own_rule": {scorer.rule_name: len(chosen)},
    }
    if "their_score" not in said.frame.columns:
        return counts
    # Who reads as another tool does where its verdict is not ours: who makes right what it calls right.
    theirs, is_right = said.frame["their_score"], (own == truths).fill_null(value=False)
    is_judged = theirs.is_in([0.0, 1.0]).fill_null(value=False)
    differ = (is_judged & ((theirs == 1) != is_right)).arg_true()
    wanted, truth = theirs.gather(differ) == 1, truths.gather(differ)
    found = reread(passages.take(differ), (*RULE_NAMES, *EXTRACTORS)) if len(differ) else {}
    agreeing = {
        name: int(((read == truth).fill_null(value=False) == wanted).sum()) for name, read in found.items()
    }
    return {**counts, "theirs": {"n": len(differ), "readers": agreeing}}
