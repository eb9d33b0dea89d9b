"""What every scorer is, the table of its verdicts, what templates see, scoring a shard, and action rules."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeGuard, runtime_checkable

import polars as pl

from answerkey.errors import DataError, Place, SpecError
from answerkey.sandbox import Snippet
from answerkey.templates import RowError, RowFilter, Sifted, Template
from answerkey.types import (
    EMPTY_STRUCT_FIELD,
    LATER_NAMES,
    PRIOR_SCHEMA,
    Completion,
    Completions,
    Known,
    Notice,
    Question,
    Samples,
    Score,
    Scores,
    ScoreStatus,
)

if TYPE_CHECKING:
    from answerkey.models.config import Model

#: Why a sample without a completion has no score: the call failed.
CALL_FAILED = "CALL_FAILED"
#: What a model does for a scorer: it gives the score, or reads what an extraction rule could not.
ModelRole = Literal["judge", "fallback"]


@dataclass(frozen=True)
class RowProblem:
    """A row that cannot be scored: its position, the error, and the reason of its FAILED score.

    A column that does not exist (E206) fails every row and is reported once, at the first of them. `field` is
    the scorer's field that asked for it.
    """

    position: int
    error: DataError
    reason: str
    field: str | None = None


class Scorer(ABC):
    """Turns samples and completions into scores; its dataclass fields are its YAML fields.

    `value_names` and `metadata_names` are None when only the scores can tell. `main_value` is what the
    default metric, named `default_metric_name`, takes the mean of; without it `metrics` are required. A
    scorer of your own builds on this class, or has the same methods.
    """

    type: ClassVar[str]
    title: ClassVar[str]
    template_fields: ClassVar[tuple[str, ...]] = ()
    value_names: ClassVar[tuple[str, ...] | None]
    metadata_names: ClassVar[tuple[str, ...] | None]
    main_value: ClassVar[str | None]
    default_metric_name: ClassVar[str | None]

    @property
    def scales(self) -> Mapping[str, tuple[float, float]]:
        """The least and the greatest number of values and metadata, by name, where they have these."""
        return {}

    @property
    def completion_fields(self) -> tuple[str, ...]:
        """The templates that read the completion; a scorer that has some can `try_field` each of them."""
        return ()

    @property
    def needs_completion(self) -> bool:
        """Whether there must be completions; False for a scorer that looks at the sample alone."""
        return True

    def check_fields(self) -> list[tuple[str, SpecError]]:
        """Return what is wrong with the fields themselves, each with the field's name."""
        return []

    def compile_field(self, field: str) -> Template | None:
        """Return the template of one field, None when it is not given; raise SpecError."""
        source = getattr(self, field)
        return None if source is None else Template.compile(source)

    def templates(self) -> dict[str, Template]:
        """Return the templates of all fields that are given; raise the first SpecError."""
        compiled = {field: self.compile_field(field) for field in self.template_fields}
        return {field: template for field, template in compiled.items() if template is not None}

    def snippets(self) -> tuple[Snippet, ...]:
        """Return the Python snippets that the scorer would run."""
        return ()

    def check_rows(self, samples: Samples) -> tuple[list[RowProblem], list[Notice]]:  # noqa: ARG002 - for scorers
        """Return the rows that cannot be scored, and what the user should hear."""
        return [], []

    def sample_facts(self, samples: Samples) -> Known | None:  # noqa: ARG002 - for scorers that know choices
        """Return what is known of each sample before a model is asked; None when nothing is."""
        return None

    @abstractmethod
    def score(self, samples: Samples, completions: Completions) -> Scores:
        """Return one verdict per sample, in order."""


@runtime_checkable
class ModelScorer(Protocol):
    """A scorer that may ask a model of its own, the one that `model_key` names; `asks_model` tells."""

    @property
    def model_key(self) -> str:
        """How the file calls the model; found like the model of a task."""

    def bind(self, model: Model, *, key: str) -> Scorer:
        """Return the scorer that asks this model; `key` is the scorer's own, for the purpose of its calls."""


def asks_model(scorer: object) -> TypeGuard[ModelScorer]:
    """Say whether a scorer asks a model; where that is optional, `model_key` may be None."""
    return isinstance(scorer, ModelScorer) and scorer.model_key is not None


def find_role(scorer: object) -> ModelRole:
    """Return what the model of a scorer does for it, which also begins the purpose of its calls."""
    role: ModelRole = getattr(scorer, "model_role", "judge")
    return role


def call_model(
    model: Model, questions: Sequence[Question], *, trial: int, purpose: str
) -> Sequence[Completion]:
    """Return what a model of a scorer says; the calls of a live one are kept under their purpose."""
    from answerkey.models.model import LiveModel, SnippetModel

    if not questions:
        return []
    if isinstance(model, LiveModel | SnippetModel):
        return model.answer(questions, trial=trial, purpose=purpose)
    return model.answer(questions)


def compile_templates(scorer: Scorer) -> tuple[dict[str, Template], list[tuple[str, SpecError]]]:
    """Return the templates that compile, and every error of the scorer's fields with the field's name."""
    compiled: dict[str, Template] = {}
    errors = scorer.check_fields()
    for field in scorer.template_fields:
        try:
            template = scorer.compile_field(field)
            compiled |= {} if template is None else {field: template}
        except SpecError as error:
            errors.append((field, error))
    return compiled, errors


def reads_completion(source: object) -> bool:
    """Say whether a template uses more than the sample; one that does not compile may."""
    try:
        Template.compile(source)
    except SpecError:
        return True
    return False


# What is wrong with a row of the dataset.

FaultReason = Literal["BAD_TRUTH", "BAD_CHOICES", "TEMPLATE_FAILED"]
_CODES: dict[FaultReason, str] = {"BAD_TRUTH": "E204", "BAD_CHOICES": "E205", "TEMPLATE_FAILED": "E207"}
#: The same for one sample: the dataset's fault, not the model's.
FAULTS: dict[str, str] = {
    "BAD_TRUTH": "the ground truth of this row is not one single character out of its choices",
    "BAD_CHOICES": "the choices of this row are not a list of distinct single characters",
    "TEMPLATE_FAILED": "a template of the scorer could not be rendered on this row",
}


class RowFault(Exception):  # noqa: N818 - a row's error, which becomes a value or an error with a code
    """What is wrong with one value of a row, and what to do about it.

    `field` is the scorer's field that has the value; `missing` names a column that does not exist.
    """

    def __init__(self, reason: FaultReason, message: str, hint: str | None = None, field: str = "") -> None:
        super().__init__(message)
        self.reason: FaultReason = reason
        self.message, self.hint, self.field = message, hint, field
        self.missing: str | None = None

    @classmethod
    def from_error(cls, field: str, problem: RowError) -> RowFault:
        """Return the fault of a field whose template failed on a row."""
        fault = cls("TEMPLATE_FAILED", f"`{field}`: {problem.message}", problem.hint, field)
        fault.missing = problem.column if problem.is_undefined else None
        return fault


def report_faults(
    faulty: Iterable[tuple[int, RowFault]], templates: Mapping[str, Template], samples: Samples
) -> list[RowProblem]:
    """Return an error for each fault; a column that does not exist is told once."""
    problems: dict[object, RowProblem] = {}
    for position, fault in faulty:
        is_missing = fault.missing is not None and fault.missing not in samples.columns
        key = (fault.field, fault.missing if is_missing else position)
        if key in problems:
            continue
        if is_missing:
            error = DataError("E206", fault.message, where=Place(file=samples.file), hint=fault.hint)
        else:
            error = DataError(
                _CODES[fault.reason],
                f"sample `{samples.ids[position]}`: {fault.message}",
                where=samples.place(position, name_column(templates[fault.field])),
                hint=fault.hint or "fix the row",
            )
        problems[key] = RowProblem(position, error, fault.reason, fault.field)
    return list(problems.values())


def name_column(template: Template) -> str | None:
    """Return the column that a template simply reads, dotted into structs; None for anything else."""
    if template.kind != "column" or not template.path:
        return None
    return ".".join(str(part) for part in template.path)


# The table of verdicts.


def fill(height: int, text: str | None) -> pl.Series:
    """Return a column with the same text in every row."""
    return pl.repeat(text, height, dtype=pl.String, eager=True)


def build_scores(
    statuses: pl.Series,
    reasons: pl.Series,
    values: Mapping[str, pl.Series],
    *,
    metadata: Mapping[str, pl.Series],
    kept: Mapping[str, pl.Series] | None = None,
    encoded: frozenset[str] = frozenset(),
) -> Scores:
    """Return the table of verdicts; values and metadata become null where the status is not SCORED.

    `kept` is metadata that stays whatever the status is. `encoded` as in `Scores`.
    """
    is_scored = statuses == ScoreStatus.SCORED.value
    frame = pl.DataFrame(
        {
            "status": statuses,
            "reason": reasons,
            "values": _build_struct(values, is_scored, {}),
            "metadata": _build_struct(metadata, is_scored, kept or {}),
            "excluded_by": fill(len(statuses), None),
        }
    )
    return Scores(frame, encoded)


def tabulate_scores(
    scores: Sequence[Score], values: Mapping[str, pl.DataType], metadata: Mapping[str, pl.DataType]
) -> Scores:
    """Return the table of verdicts, with these values and this metadata; what a verdict lacks is null."""
    size = len(scores)
    frame = pl.DataFrame(
        {
            "status": pl.Series([score.status.value for score in scores], dtype=pl.String),
            "reason": pl.Series([score.reason for score in scores], dtype=pl.String),
            "values": _tabulate([score.values for score in scores], values),
            "metadata": _tabulate([score.metadata for score in scores], metadata),
            "excluded_by": fill(size, None),
        }
    )
    return Scores(frame)


def _tabulate(rows: Sequence[Mapping[str, object]], types: Mapping[str, pl.DataType]) -> pl.Series:
    """Return rows as a column of structs."""
    columns = []
    for name, dtype in types.items():
        cells = [row.get(name) for row in rows]
        build = _build_lists if dtype.is_nested() else pl.Series
        columns.append(build(name, cells, dtype))
    return pl.DataFrame(columns).to_struct()


def _build_lists(name: str, cells: Sequence[Any], dtype: pl.DataType) -> pl.Series:
    """Return a column of lists, of which most are equal; to build each of them anew takes long."""
    codes: dict[object, int] = {}
    distinct: list[object] = []
    rows: list[int] = []
    for cell in cells:
        key = None if cell is None else tuple(cell)
        code = codes.setdefault(key, len(distinct))
        if code == len(distinct):
            distinct.append(cell)
        rows.append(code)
    return pl.Series(name, distinct, dtype).gather(pl.Series(rows, dtype=pl.UInt32))


def _build_struct(
    columns: Mapping[str, pl.Series], is_scored: pl.Series, kept: Mapping[str, pl.Series]
) -> pl.Series:
    fields = {name: column for name, column in columns.items() if name not in kept}
    if not is_scored.all():
        fields = {name: pl.select(pl.when(is_scored).then(one)).to_series() for name, one in fields.items()}
    named = [column.alias(name) for name, column in {**fields, **kept}.items()]
    blank = pl.repeat(None, len(is_scored), dtype=pl.Boolean, eager=True).alias(EMPTY_STRUCT_FIELD)
    return pl.DataFrame(named or [blank]).to_struct()


# What templates and filters see beside the sample, as tables: `solver_output` and `scores`.


def view_completions(completions: Completions, template: Template) -> Samples:
    """Return the `solver_output` of every row: just what `Completion.solver_output` gives, as columns.

    Replies and prompts are JSON text of any shape, and so are the columns wherever a table has any of them.
    The names of the later era are JSON text too; those that the template does not read are null.
    """
    frame, ids = completions.frame, completions.frame["sample_id"]
    usage = frame["usage"].struct.unnest().select("prompt_tokens", "completion_tokens").to_struct("usage")
    table = frame.select(
        pl.lit("assistant").alias("role"),
        pl.col("completion").alias("content"),
        "finish_reason",
        usage,
        "reply",
        "prompt",
    )
    is_bare = all(frame[name].null_count() == frame.height for name in ("reply", "prompt"))
    if is_bare:
        shown = table.select(_OUTPUT, _MESSAGES)
    else:
        shown = table.with_columns(_MESSAGE_TEXT).select(_OUTPUT_TEXT, _MESSAGES_TEXT)
    paths = template.paths_from("solver_output")
    read = {path[0] for path in paths if path} if () not in paths else set(LATER_NAMES)
    later = [name for name in LATER_NAMES if name in read]
    rows = [one.solver_output() for one in completions.rows()] if later else []
    columns = {name: [json.dumps(row[name], ensure_ascii=False) for row in rows] for name in later}
    shown = shown.with_columns(pl.lit(None, pl.String).alias(name) for name in LATER_NAMES)
    shown = shown.with_columns(pl.Series(name, texts, pl.String) for name, texts in columns.items())
    encoded = LATER_NAMES if is_bare else shown.columns
    return Samples(shown, ids, encoded=frozenset(encoded))


_MESSAGE = pl.struct("role", "content").alias("message")
_OUTPUT = pl.struct(pl.concat_list(pl.struct(_MESSAGE, "finish_reason")).alias("choices"), "usage").alias(
    "output"
)
_MESSAGES = pl.concat_list(_MESSAGE).alias("messages")

# A reply without anything in it is none; a prompt is a list that the message is added to.
_HAS_REPLY = pl.col("reply").is_not_null() & ~pl.col("reply").is_in(["{}", "null"])
_MESSAGE_TEXT = (
    pl.when(_HAS_REPLY).then("reply").otherwise(pl.struct("role", "content").struct.json_encode())
).alias("message")
_OUTPUT_TEXT = pl.concat_str(
    pl.lit('{"choices":[{"message":'),
    "message",
    pl.lit(',"finish_reason":'),
    pl.struct("finish_reason").struct.json_encode().str.slice(len('{"finish_reason":')),
    pl.lit('],"usage":'),
    pl.col("usage").struct.json_encode(),
    pl.lit("}"),
).alias("output")
_ASKED = pl.col("prompt").str.strip_chars_end().str.head(-1).str.strip_chars_end().fill_null("[")
_MESSAGES_TEXT = pl.concat_str(
    _ASKED, pl.when(_ASKED != "[").then(pl.lit(",")).otherwise(pl.lit("")), "message", pl.lit("]")
).alias("messages")


def view_scores(scores: Mapping[str, Scores]) -> Samples:
    """Return the `scores` of every row: for each scorer its metadata and values by name.

    A struct; JSON text when values have no common type, or when there are none.
    """
    columns, encoded = [], set()
    for key, one in scores.items():
        names = [*one.metadata_names, *one.value_names]
        if one.encoded or not names:
            texts = [json.dumps({**row.metadata, **row.values}) for row in one.rows()]
            columns.append(pl.Series(key, texts, dtype=pl.String))
            encoded.add(key)
        else:
            columns.append(pl.DataFrame({name: one.column(name) for name in names}).to_struct(key))
    frame = pl.DataFrame(columns)
    return Samples(frame, pl.Series(range(frame.height)), encoded=frozenset(encoded))


# Scoring the rows of a shard, whose options may stand in another order than in the file.

#: Why a row that the dataset got wrong has no score.
BAD_ROW = "BAD_ROW"
#: What a score says of the order: all labels are those that the options have in the file.
ORDER_FIELDS: dict[str, pl.DataType] = {
    "base_sample_id": pl.String(),
    "option_order": pl.List(pl.String),
    "predicted_option": pl.String(),
    "ground_truth_option": pl.String(),
    "left_in_place": pl.String(),
}


def score_rows(scorer: Scorer, samples: Samples, completions: Completions, failed: Sequence[int]) -> Scores:
    """Return a scorer's verdicts with these rows FAILED; nobody is asked about a row that is."""
    is_asking = asks_model(scorer)
    if not failed or not is_asking:
        return note_orders(scorer.score(samples, completions).fail(failed, BAD_ROW), samples)
    left_out = set(failed)
    rows = [row for row in range(len(samples)) if row not in left_out]
    scores = scorer.score(samples.take(rows), completions.take(rows))
    return note_orders(scores.spread(rows, len(samples), BAD_ROW), samples)


def join_scores(completions: Completions, scores: Mapping[str, Scores]) -> pl.DataFrame:
    """Return the stored form of a shard's scores: `sample_id`, `trial`, then one struct per scorer key."""
    tables = [completions.frame.select("sample_id", "trial")]
    tables += [pl.DataFrame([one.frame.to_struct(key)]) for key, one in scores.items()]
    return pl.concat(tables, how="horizontal")


def restore_label(label: str | None, choices: Sequence[str] | None, order: Sequence[int]) -> str | None:
    """Return what the option with this label in this order is called in the file."""
    if label is None or choices is None or label not in choices or len(order) != len(choices):
        return label
    return choices[order[choices.index(label)]]


def note_orders(scores: Scores, samples: Samples) -> Scores:
    """Return scores with what they say of the order, whatever their status; without orders, as they are."""
    if samples.orders is None:
        return scores
    orders = samples.orders["order"].to_list()
    choices, predicted, truth = (
        [None] * len(scores) if column is None else column.to_list()
        for column in map(scores.column, ("choices", "predicted_choice", "ground_truth_choice"))
    )
    columns: dict[str, pl.Series | Sequence[object]] = {
        "base_sample_id": samples.orders["base_sample_id"],
        "option_order": [
            None if names is None or len(order) != len(names) else [names[place] for place in order]
            for names, order in zip(choices, orders, strict=True)
        ],
        "predicted_option": list(map(restore_label, predicted, choices, orders)),
        "ground_truth_option": list(map(restore_label, truth, choices, orders)),
        "left_in_place": samples.orders["left_in_place"],
    }
    added = [pl.Series(name, columns[name], dtype=dtype) for name, dtype in ORDER_FIELDS.items()]
    added += [samples.orders[name] for name in PRIOR_SCHEMA if name in samples.orders.columns]
    metadata = scores.frame["metadata"].struct.unnest().with_columns(added).to_struct("metadata")
    return Scores(scores.frame.with_columns(metadata), scores.encoded)


# Action rules: what happens to samples after scoring.


@dataclass(frozen=True)
class Action:
    """A rule: samples that match `filter` are left out of every metric, and counted under the rule's key.

    The filter sees `sample`, `solver_output` and `scores` (scorer key, then value or metadata name).
    """

    key: str
    filter: RowFilter
    action: Literal["exclude_from_metrics"] = "exclude_from_metrics"

    def sift(self, samples: Samples, completions: Completions, scores: Mapping[str, Scores]) -> Sifted:
        """Return which rows match, and what goes wrong on which of them."""
        template, views = self.filter.template, {}
        if template.paths_from("solver_output"):
            views["solver_output"] = view_completions(completions, template)
        if template.paths_from("scores"):
            views["scores"] = view_scores(scores)
        return self.filter.sift(samples, **views)


def apply_actions(
    actions: Sequence[Action],
    samples: Samples,
    completions: Completions,
    scores: Mapping[str, Scores],
    *,
    num_trials: int = 1,
) -> dict[str, Scores]:
    """Return the scores with `excluded_by` set to the first rule that matches, null where none does.

    A sample that a rule matches in one of its trials is kept out with all of them. Raise DataError for the
    first row on which a rule fails.
    """
    if not actions:
        return dict(scores)
    excluded = fill(len(samples), None).alias("excluded_by")
    problems: list[tuple[int, Action, RowError]] = []
    for action in actions:
        sifted = action.sift(samples, completions, scores)
        is_hit = sifted.is_kept.fill_null(value=False) & excluded.is_null()
        problems += [(row, action, one) for row, one in sifted.problems if excluded[row] is None]
        if is_hit.any():
            excluded = excluded.set(is_hit, action.key)
    if problems:
        row, action, problem = min(problems, key=lambda one: one[0])
        message, where = f"action `{action.key}`: {problem.message}", samples.place(row, problem.column)
        raise DataError("E207", message, where=where, hint=problem.hint) from problem
    if num_trials > 1:
        sample = pl.int_range(pl.len()) // num_trials
        excluded = excluded.to_frame().select(pl.all().drop_nulls().first().over(sample)).to_series()
    return {key: replace(one, frame=one.frame.with_columns(excluded)) for key, one in scores.items()}


def try_action(
    action: Action, samples: Samples, completions: Completions, scores: Mapping[str, Scores]
) -> RowError | None:
    """Return what goes wrong with a rule on these rows; None when nothing does."""
    return next((problem for _, problem in action.sift(samples, completions, scores).problems), None)
