"""The base class of scorers, how their scores become a table, and action rules."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeGuard

import polars as pl

from answerkey.datasets.rows import build_frame
from answerkey.errors import DataError, InternalError, Place, SpecError
from answerkey.models.config import Model
from answerkey.sandbox import Snippet
from answerkey.templates import RowError, RowFilter, Template
from answerkey.types import (
    EMPTY_STRUCT_FIELD,
    PRIOR_SCHEMA,
    Completion,
    Completions,
    CompletionStatus,
    Notice,
    Request,
    Row,
    Sample,
    SampleFacts,
    Samples,
    Score,
    Scores,
    ScoreStatus,
)

#: Why a sample without a completion has no score: the call failed.
CALL_FAILED = "CALL_FAILED"
#: What a model does for a scorer: it gives the score, or reads what an extraction rule could not.
ModelRole = Literal["judge", "fallback"]
#: The names of fields, of values, or of what a template sees.
Names = tuple[str, ...]
#: The errors of a scorer's fields, each with the field's name.
FieldErrors = list[tuple[str, SpecError]]
#: The messages that are sent to a model.
Prompt = Sequence[Mapping[str, object]]
#: The type of each value or metadata field of a score, by name; None for one that is stored as
#: JSON text.
Types = Mapping[str, pl.DataType | None]
#: Scores by the key of their scorer.
ScoresByKey = Mapping[str, Scores]


class RowProblem(NamedTuple):
    """A row that cannot be scored: its position, the error, and the reason of its FAILED score.

    A column that does not exist (E206) fails every row but is reported once, at the first of them.
    `field` is the scorer's field that reads it.
    """

    position: int
    error: DataError
    reason: str
    field: str | None = None


#: The rows that cannot be scored, and warnings for the user.
RowChecks = tuple[list[RowProblem], list[Notice]]


class Scorer:
    """Gives each completion a score; its dataclass fields are its YAML fields.

    A scorer says in `judge` what one completion is worth. One that works on many rows at once, or
    calls a model, overrides `score` instead. `value_types` and `metadata_types` are None when only
    the scores can tell. `main_value` is what the default metric, named `default_metric_name`,
    averages; without it `metrics` are required.
    """

    type: ClassVar[str]
    title: ClassVar[str]
    template_fields: ClassVar[Names] = ()
    #: Those of them that may read the completion, and the names that they see.
    reply_fields: ClassVar[Names] = ()
    reply_names: ClassVar[Names] = ("sample", "solver_output")
    value_types: ClassVar[Types | None] = {}
    metadata_types: ClassVar[Types | None] = {}
    main_value: ClassVar[str | None] = None
    default_metric_name: ClassVar[str | None] = None
    #: Whether it reads a choice out of the text of a completion.
    reads_choices: ClassVar[bool] = False
    #: Whether it reads of a sample only what its templates name; not inherited, see
    #: `reads_by_templates`.
    by_templates: ClassVar[bool] = False

    @property
    def text_names(self) -> Names:
        """The names of the values and metadata that hold no numbers."""
        types = {**(self.value_types or {}), **(self.metadata_types or {})}
        names = []
        for name, dtype in types.items():
            if dtype is None or not dtype.is_numeric():
                names.append(name)
        return tuple(names)

    @property
    def needs_completion(self) -> bool:
        """Whether completions are needed; False for a scorer that looks at the sample alone."""
        return True

    @property
    def completion_fields(self) -> Names:
        """The template fields that use more than the sample, or do not compile."""
        names = []
        for name in self.reply_fields:
            try:
                Template.compile(getattr(self, name))
            except SpecError:
                names.append(name)
        return tuple(names)

    def check_fields(self) -> FieldErrors:
        """Return what is wrong with the fields themselves, each with the field's name."""
        return []

    def compile_field(self, field: str) -> Template | None:
        """Return the template of a field, None if the field is not set. Raise SpecError."""
        source = getattr(self, field)
        if source is None:
            return None
        if field in self.reply_fields:
            return Template.compile(source, self.reply_names)
        return Template.compile(source)

    @cached_property
    def compiled(self) -> tuple[dict[str, Template], FieldErrors]:
        """The templates that compile, and all errors of the fields."""
        templates = {}
        errors = self.check_fields()
        for field in self.template_fields:
            try:
                template = self.compile_field(field)
            except SpecError as error:
                errors.append((field, error))
                continue
            if template is not None:
                templates[field] = template
        return templates, errors

    def templates(self) -> dict[str, Template]:
        """Return the templates of all fields that are set. Raise the first SpecError."""
        templates, errors = self.compiled
        for _, error in errors:
            raise error
        return templates

    def snippets(self) -> tuple[Snippet, ...]:
        """Return the Python snippets that the scorer runs."""
        return ()

    def check_rows(self, samples: Samples) -> RowChecks:
        """Return the rows that cannot be scored, and warnings for the user.

        A template that reads the completion is only tried on the first row, for columns that do
        not exist.
        """
        templates, errors = self.compiled
        if errors or not len(samples):
            return [], []
        faults = []
        for field, template in templates.items():
            values: Sequence[object] = ()
            if field not in self.completion_fields:
                values = template.values(samples)
            else:
                problem = self.try_field(field, samples.row(0), Completion(""))
                if problem is not None and problem.column:
                    values = [problem]
            for row, value in enumerate(values):
                fault = find_fault(field, value)
                if fault is not None:
                    faults.append((row, fault))
        return report_faults(faults, templates, samples), []

    def try_field(
        self,
        field: str,
        sample: Row,
        completion: Completion,
    ) -> RowError | None:
        """Return the error of a field that reads the completion; None if there is none."""
        context = self.build_context(sample, completion)
        try:
            self.templates()[field].render(**context)
        except RowError as problem:
            return problem
        return None

    def build_context(
        self,
        sample: Row,
        completion: Completion,
    ) -> dict[str, object]:
        """Return what a template that reads the completion sees."""
        return {"sample": sample, "solver_output": completion.solver_output()}

    def sample_facts(self, samples: Samples) -> SampleFacts | None:  # noqa: ARG002 - for scorers that know choices
        """Return what is known of each sample before a model is called; None if nothing is."""
        return None

    def judge(self, question: Sample, completion: Completion) -> Score:  # noqa: ARG002 - for scorers that judge row by row
        """Return the score of one completion, which is there: its call did not fail."""
        raise InternalError("E901", f"scorer `{self.type}` has neither `judge` nor `score`")

    def score(
        self,
        samples: Samples,
        completions: Completions,
    ) -> list[Score]:
        """Return the score of each completion, in order."""
        scores = []
        for sample, completion in zip(samples, completions, strict=True):
            if self.needs_completion and completion.status is CompletionStatus.ERROR:
                scores.append(UNANSWERED)
            else:
                scores.append(self.judge(sample, completion))
        return scores

    def column_types(self, scores: Sequence[Score]) -> tuple[Types, Types]:  # noqa: ARG002 - for scorers that cannot tell before
        """Return the types of the stored values and of the stored metadata."""
        return self.value_types or {}, self.metadata_types or {}


def reads_by_templates(scorer: Scorer) -> bool:
    """Return whether the very class of a scorer says that it reads samples by templates alone.

    A class derived from it may look at any column.
    """
    return bool(vars(type(scorer)).get("by_templates"))


#: The score of a completion whose call failed.
UNANSWERED = Score(ScoreStatus.ERROR, CALL_FAILED)


class ModelScorer(Protocol):
    """A scorer that may call a model of its own, the one that `model_key` names."""

    @property
    def model_key(self) -> str:
        """The name of the model in the file; looked up like the model of a task."""

    def bind(
        self,
        model: Model,
        *,
        key: str,
    ) -> Scorer:
        """Return the scorer that calls this model.

        `key` is the scorer's own; it is part of the purpose of its calls.
        """


def asks_model(scorer: object) -> TypeGuard[ModelScorer]:
    """Return whether a scorer calls a model; `model_key` is None where it could but does not."""
    return getattr(scorer, "model_key", None) is not None


def find_role(scorer: object) -> ModelRole:
    """Return what a scorer's model does for it; the purpose of its calls begins with this."""
    role: ModelRole = getattr(scorer, "model_role", "judge")
    return role


def ask_model(
    model: Model,
    purpose: str,
    prompts: Mapping[int, Prompt],
    completions: Completions,
) -> dict[int, Completion]:
    """Return the reply of a scorer's model to the prompt about each of these completions.

    Calls of a live model are stored under their purpose.
    """
    from answerkey.models.model import is_identified

    items = completions.items
    replies: dict[int, Completion] = {}
    for trial in sorted({items[row].trial for row in prompts}):
        rows = [row for row in prompts if items[row].trial == trial]
        requests = [Request(items[row].sample_id, prompts[row]) for row in rows]
        if is_identified(model):
            answers = model.complete(requests, trial=trial, purpose=purpose)
        else:
            answers = model.complete(requests)
        replies.update(zip(rows, answers, strict=True))
    return replies


# What is wrong with a row of the dataset.

FaultReason = Literal["BAD_TRUTH", "BAD_CHOICES", "TEMPLATE_FAILED"]
_CODES: dict[FaultReason, str] = {
    "BAD_TRUTH": "E204",
    "BAD_CHOICES": "E205",
    "TEMPLATE_FAILED": "E207",
}


@dataclass(eq=False)
class RowFault(Exception):  # noqa: N818 - a row's error, which becomes a value or an error with a code
    """What is wrong with one value of a row, and what to do about it.

    `field` is the scorer's field that has the value; `missing` names a column that does not exist.
    """

    reason: FaultReason
    message: str
    hint: str | None = None
    field: str = ""
    missing: str | None = None

    @classmethod
    def from_error(
        cls,
        field: str,
        problem: RowError,
    ) -> RowFault:
        """Return the fault of a field whose template failed on a row."""
        message = f"`{field}`: {problem.message}"
        return cls("TEMPLATE_FAILED", message, problem.hint, field, problem.column)


def find_fault(field: str, value: object) -> RowFault | None:
    """Return what is wrong with a value: its template failed, or the ground truth is null."""
    if isinstance(value, RowError):
        return RowFault.from_error(field, value)
    if value is None and field == "ground_truth":
        hint = "fill the cell or filter the row out"
        return RowFault("BAD_TRUTH", "ground truth is null", hint, field)
    return None


def report_faults(
    faults: Sequence[tuple[int, RowFault]],
    templates: Mapping[str, Template],
    samples: Samples,
) -> list[RowProblem]:
    """Return the problem behind each fault of a row; a missing column is reported once."""
    problems: dict[object, RowProblem] = {}
    for row, fault in sorted(faults, key=itemgetter(0)):
        is_column = fault.missing is None or fault.missing in samples.columns
        if is_column:
            key: object = (fault.field, row)
            path = templates[fault.field].path or ()
            column = ".".join(map(str, path)) or None
            error = DataError(
                _CODES[fault.reason],
                f"sample `{samples.ids[row]}`: {fault.message}",
                where=samples.place(row, column),
                hint=fault.hint or "fix the row",
            )
        else:
            key = (fault.field, fault.missing)
            where = Place(samples.file)
            error = DataError("E206", fault.message, where=where, hint=fault.hint)
        problem = RowProblem(row, error, fault.reason, fault.field)
        problems.setdefault(key, problem)
    return list(problems.values())


# Scoring a chunk of rows, whose options may stand in another order than in the file.

#: Why a row that the dataset got wrong has no score.
BAD_ROW = "BAD_ROW"


def score_rows(
    scorer: Scorer,
    samples: Samples,
    completions: Completions,
    failed: Collection[int] = (),
) -> Scores:
    """Return a scorer's scores as a table, these rows FAILED.

    No model is called about a failed row. Where the options stand in another order than in the
    file, the metadata says so.
    """
    rows: Sequence[int] = range(len(samples))
    calls_model = asks_model(scorer)
    if failed and calls_model:
        rows = sorted(set(rows).difference(failed))
        scores = scorer.score(samples.take(rows), completions.take(rows))
    else:
        scores = scorer.score(samples, completions)
    if failed:
        scores = _fail_rows(scores, rows, failed, len(samples))
    value_types, metadata_types = scorer.column_types(scores)
    orders = samples.orders
    if orders is not None:
        scores = note_orders(scores, orders)
        metadata_types = {**metadata_types, **ORDER_TYPES}
        for name, dtype in PRIOR_SCHEMA.items():
            if name in orders:
                metadata_types[name] = dtype
    return build_table(scores, value_types, metadata_types)


def _fail_rows(
    scores: Sequence[Score],
    rows: Sequence[int],
    failed: Collection[int],
    size: int,
) -> list[Score]:
    """Return the scores of all rows, `failed` ones FAILED; one without a score keeps its reason."""
    merged = [Score(ScoreStatus.FAILED, BAD_ROW)] * size
    for row, score in zip(rows, scores, strict=True):
        if row not in failed or score.status is not ScoreStatus.SCORED:
            merged[row] = score
    return merged


#: What scores say about the order of the options, where that is not the one of the file.
ORDER_TYPES: Types = {
    "base_sample_id": pl.String(),
    "option_order": pl.List(pl.String),
    "predicted_option": pl.String(),
    "ground_truth_option": pl.String(),
    "not_reordered": pl.String(),
}


def note_orders(scores: Sequence[Score], orders: pl.DataFrame) -> list[Score]:
    """Return the scores with what they say about the order, whatever their status."""
    noted = []
    rows = orders.iter_rows(named=True)
    for score, row in zip(scores, rows, strict=True):
        order = row.pop("order")
        metadata: dict[str, Any] = {**score.metadata, **row}
        labels = metadata.get("choices") or ()
        labels_in_file = {}
        option_order = None
        if len(order) == len(labels):
            option_order = [labels[place] for place in order]
            labels_in_file = dict(zip(labels, option_order, strict=True))
        metadata["option_order"] = option_order
        for kind in ("predicted", "ground_truth"):
            label = metadata.get(f"{kind}_choice")
            metadata[f"{kind}_option"] = labels_in_file.get(label, label)
        noted.append(replace(score, metadata=metadata))
    return noted


def build_table(
    scores: Sequence[Score],
    value_types: Types,
    metadata_types: Types,
) -> Scores:
    """Return the table of scores with these values and metadata; what a score lacks is null.

    Rows may share a score, which is written once.
    """
    shared = {id(score): score for score in scores}
    numbers = dict(zip(shared, range(len(shared)), strict=True))
    rows = [numbers[id(score)] for score in scores]
    distinct = list(shared.values())
    statuses = [score.status.value for score in distinct]
    reasons = [score.reason for score in distinct]
    values = [score.values for score in distinct]
    metadata = [score.metadata for score in distinct]
    columns = [
        pl.Series("status", statuses, pl.String),
        pl.Series("reason", reasons, pl.String),
        _build_structs("values", values, value_types),
        _build_structs("metadata", metadata, metadata_types),
        pl.Series("excluded_by", [None] * len(distinct), pl.String),
    ]
    types = [*value_types.items(), *metadata_types.items()]
    encoded = frozenset(name for name, dtype in types if dtype is None)
    return Scores(pl.DataFrame(columns)[rows], encoded)


def _build_structs(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    types: Types,
) -> pl.Series:
    """Return rows as a column of structs; a field without a type holds JSON text."""
    return build_frame(rows, types or {EMPTY_STRUCT_FIELD: pl.Boolean()}).to_struct(name)


def join_scores(completions: Completions, scores: ScoresByKey) -> pl.DataFrame:
    """Return a chunk's scores as stored: `sample_id`, `trial`, then one struct per scorer key."""
    columns = [completions.column(name) for name in ("sample_id", "trial")]
    columns += [table.frame.to_struct(key) for key, table in scores.items()]
    return pl.DataFrame(columns)


# Action rules: what happens to samples after scoring.


class Action(NamedTuple):
    """A rule: samples that match `filter` are left out of every metric, and counted under its key.

    The filter sees `sample`, `solver_output` and `scores` (scorer key, then value or metadata
    name).
    """

    key: str
    filter: RowFilter
    action: Literal["exclude_from_metrics"] = "exclude_from_metrics"


def apply_actions(
    actions: Sequence[Action],
    samples: Samples,
    completions: Completions,
    scores: ScoresByKey,
    *,
    num_trials: int = 1,
) -> dict[str, Scores]:
    """Return the scores with `excluded_by` set to the first rule that matches, else null.

    A sample that a rule matches in one of its trials is left out with all of them. Raise DataError
    for the first row on which a rule fails.
    """
    if not actions:
        return dict(scores)
    keys: dict[int, str] = {}
    contexts = build_contexts(samples, completions, scores)
    for row, context in enumerate(contexts):
        sample = row // num_trials
        for action in actions:
            try:
                if sample not in keys and action.filter.matches(**context):
                    keys[sample] = action.key
            except RowError as problem:
                message = f"action `{action.key}`: {problem.message}"
                where = samples.place(row, problem.column)
                raise DataError("E207", message, where=where, hint=problem.hint) from problem
    excluded = [keys.get(row // num_trials) for row in range(len(samples))]
    column = pl.Series("excluded_by", excluded, pl.String)
    return {
        key: replace(table, frame=table.frame.with_columns(column)) for key, table in scores.items()
    }


def build_contexts(
    samples: Samples,
    completions: Completions,
    scores: ScoresByKey,
) -> Iterator[dict[str, object]]:
    """Yield what the filter of an action sees of each row."""
    tables = {key: table.rows() for key, table in scores.items()}
    for sample, completion in zip(samples.rows(), completions, strict=True):
        cells = {}
        for key, rows in tables.items():
            score = next(rows)
            cells[key] = {**score.metadata, **score.values}
        yield {
            "sample": sample,
            "solver_output": completion.solver_output(),
            "scores": cells,
        }


def try_action(
    action: Action,
    samples: Samples,
    completions: Completions,
    scores: ScoresByKey,
) -> RowError | None:
    """Return the error of a rule on this row; None if there is none."""
    [context] = build_contexts(samples, completions, scores)
    try:
        action.filter.matches(**context)
    except RowError as problem:
        return problem
    return None
