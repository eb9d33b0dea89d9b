"""The base class of scorers, how their scores become a table, and action rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeGuard

import polars as pl

from answerkey.errors import DataError, InternalError, Place, SpecError
from answerkey.sandbox import Snippet
from answerkey.templates import RowError, RowFilter, Template
from answerkey.types import (
    EMPTY_STRUCT_FIELD,
    PRIOR_SCHEMA,
    Completion,
    Completions,
    CompletionStatus,
    Known,
    Notice,
    Request,
    Row,
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
#: The errors of a scorer's fields, each with the field's name.
FieldErrors = list[tuple[str, SpecError]]
#: The messages that are sent to a model.
Prompt = Sequence[Mapping[str, object]]
#: Sends the requests of one trial, whose number is the second argument, to a model.
ModelCall = Callable[[Sequence[Request], int], Sequence[Completion]]
#: The type of each value or metadata field of a score, by name; None for one that is stored as
#: JSON text.
Types = Mapping[str, pl.DataType | None]


@dataclass(frozen=True)
class RowProblem:
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
    template_fields: ClassVar[tuple[str, ...]] = ()
    #: Those of them that may read the completion, and the names that they see.
    reply_fields: ClassVar[tuple[str, ...]] = ()
    reply_names: ClassVar[tuple[str, ...]] = ("sample", "solver_output")
    value_types: ClassVar[Types | None] = {}
    metadata_types: ClassVar[Types | None] = {}
    #: The names of the values and metadata that hold no numbers.
    text_names: ClassVar[tuple[str, ...]]
    main_value: ClassVar[str | None] = None
    default_metric_name: ClassVar[str | None] = None
    #: Whether it reads a choice out of the text of a completion.
    reads_choices: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        types = {**(cls.value_types or {}), **(cls.metadata_types or {})}
        names = [name for name, dtype in types.items() if dtype is None or not dtype.is_numeric()]
        cls.text_names = tuple(names)

    @property
    def needs_completion(self) -> bool:
        """Whether completions are needed; False for a scorer that looks at the sample alone."""
        return True

    @property
    def completion_fields(self) -> tuple[str, ...]:
        """The template fields that read the completion."""
        return tuple(name for name in self.reply_fields if reads_completion(getattr(self, name)))

    def check_fields(self) -> FieldErrors:
        """Return what is wrong with the fields themselves, each with the field's name."""
        return []

    def compile_field(self, field: str) -> Template | None:
        """Return the template of a field, None if the field is not set. Raise SpecError."""
        source = getattr(self, field)
        if source is None:
            return None
        if field in self.reply_fields:
            return Template.compile(source, names=self.reply_names)
        return Template.compile(source)

    def templates(self) -> dict[str, Template]:
        """Return the templates of all fields that are set. Raise the first SpecError."""
        templates, errors = compile_templates(self)
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
        templates, errors = compile_templates(self)
        if errors or not len(samples):
            return [], []
        faults = []
        for field, template in templates.items():
            if field not in self.completion_fields:
                values = Template.compile(template.source).values(samples)
            else:
                reply = Completions.build(samples.ids[:1], [Completion("")], source="made up")
                problem = self.try_field(field, samples.take([0]), reply)
                values = [problem] if problem is not None and problem.column else []
            for row, value in enumerate(values):
                fault = self.find_fault(field, value)
                if fault is not None:
                    faults.append((row, fault))
        return report_faults(faults, templates, samples), []

    def find_fault(self, field: str, value: object) -> RowFault | None:
        """Return what is wrong with the value of a field: by default, that its template failed."""
        if isinstance(value, RowError):
            return RowFault.from_error(field, value)
        return None

    def try_field(self, field: str, samples: Samples, completions: Completions) -> RowError | None:
        """Return the first error of a field that reads the completion; None if there is none."""
        template = self.templates()[field]
        for sample, completion in zip(samples.rows(), completions, strict=True):
            try:
                template.render(**self.build_context(sample, completion))
            except RowError as problem:
                return problem
        return None

    def build_context(self, sample: Row, completion: Completion) -> dict[str, object]:
        """Return what a template that reads the completion sees."""
        return {"sample": sample, "solver_output": completion.solver_output()}

    def sample_facts(self, samples: Samples) -> Known | None:  # noqa: ARG002 - for scorers that know choices
        """Return what is known of each sample before a model is called; None if nothing is."""
        return None

    def questions(self, samples: Samples) -> Sequence[Any]:
        """Return what `judge` needs to know of each sample: by default the sample itself."""
        return samples.items

    def judge(self, question: Any, completion: Completion) -> Score:  # noqa: ANN401, ARG002 - for scorers that judge row by row
        """Return the score of one completion, which is there: its call did not fail."""
        raise InternalError("E901", f"scorer `{self.type}` has neither `judge` nor `score`")

    def score(self, samples: Samples, completions: Completions) -> list[Score]:
        """Return the score of each completion, in order."""
        scores = []
        for question, completion in zip(self.questions(samples), completions, strict=True):
            if self.needs_completion and completion.status is CompletionStatus.ERROR:
                scores.append(UNANSWERED)
            else:
                scores.append(self.judge(question, completion))
        return scores

    def column_types(self, scores: Sequence[Score]) -> tuple[Types, Types]:  # noqa: ARG002 - for scorers that cannot tell before
        """Return the types of the stored values and of the stored metadata."""
        return self.value_types or {}, self.metadata_types or {}


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


def call_model(
    model: Model, requests: Sequence[Request], trial: int, purpose: str
) -> Sequence[Completion]:
    """Return the replies of a scorer's model.

    Calls of a live model are stored under their purpose.
    """
    from answerkey.models.model import is_identified

    if is_identified(model):
        return model.complete(requests, trial=trial, purpose=purpose)
    return model.complete(requests)


def call_by_trial(
    call: ModelCall, prompts: Mapping[int, Prompt], completions: Completions
) -> dict[int, Completion]:
    """Return the reply to the prompt about each of these completions."""
    rows_by_trial: dict[int, list[int]] = {}
    for row in prompts:
        rows_by_trial.setdefault(completions.items[row].trial, []).append(row)
    replies: dict[int, Completion] = {}
    for trial, rows in sorted(rows_by_trial.items()):
        requests = [Request(completions.items[row].sample_id, prompts[row]) for row in rows]
        replies.update(zip(rows, call(requests, trial), strict=True))
    return replies


def compile_templates(scorer: Scorer) -> tuple[dict[str, Template], FieldErrors]:
    """Return the templates that compile, and all errors of the fields with the field's name."""
    templates = {}
    errors = scorer.check_fields()
    for field in scorer.template_fields:
        try:
            template = scorer.compile_field(field)
        except SpecError as error:
            errors.append((field, error))
            continue
        if template is not None:
            templates[field] = template
    return templates, errors


def reads_completion(source: object) -> bool:
    """Return whether a template uses more than the sample; one that does not compile may."""
    try:
        Template.compile(source)
    except SpecError:
        return True
    return False


# What is wrong with a row of the dataset.

FaultReason = Literal["BAD_TRUTH", "BAD_CHOICES", "TEMPLATE_FAILED"]
_CODES: dict[FaultReason, str] = {
    "BAD_TRUTH": "E204",
    "BAD_CHOICES": "E205",
    "TEMPLATE_FAILED": "E207",
}
#: The same for one sample: the dataset's fault, not the model's.
FAULTS: dict[str, str] = {
    "BAD_TRUTH": "the ground truth of this row is not one single character out of its choices",
    "BAD_CHOICES": "the choices of this row are not a list of distinct single characters",
    "TEMPLATE_FAILED": "a template of the scorer could not be rendered on this row",
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
    def from_error(cls, field: str, problem: RowError) -> RowFault:
        """Return the fault of a field whose template failed on a row."""
        message = f"`{field}`: {problem.message}"
        return cls("TEMPLATE_FAILED", message, problem.hint, field, problem.column)


def report_faults(
    faults: Iterable[tuple[int, RowFault]], templates: Mapping[str, Template], samples: Samples
) -> list[RowProblem]:
    """Return the problem behind each fault of a row; a missing column is reported once."""
    problems: dict[object, RowProblem] = {}
    for row, fault in sorted(faults, key=itemgetter(0)):
        is_missing = fault.missing is not None and fault.missing not in samples.columns
        key = (fault.field, fault.missing if is_missing else row)
        if key in problems:
            continue
        code = "E206"
        message = fault.message
        where = Place(file=samples.file)
        hint = fault.hint
        if not is_missing:
            code = _CODES[fault.reason]
            message = f"sample `{samples.ids[row]}`: {fault.message}"
            where = samples.place(row, name_column(templates[fault.field]))
            hint = fault.hint or "fix the row"
        error = DataError(
            code,
            message,
            where=where,
            hint=hint,
        )
        problems[key] = RowProblem(
            row,
            error,
            fault.reason,
            fault.field,
        )
    return list(problems.values())


def name_column(template: Template) -> str | None:
    """Return the column that a template simply reads, with dots into structs; None otherwise."""
    if template.kind != "column" or not template.path:
        return None
    return ".".join(map(str, template.path))


# Scoring a chunk of rows, whose options may stand in another order than in the file.

#: Why a row that the dataset got wrong has no score.
BAD_ROW = "BAD_ROW"


def score_rows(
    scorer: Scorer, samples: Samples, completions: Completions, failed: Collection[int]
) -> Scores:
    """Return a scorer's scores with these rows FAILED; no model is called about a failed row."""
    if not failed:
        return tabulate_scores(scorer, scorer.score(samples, completions), samples)
    rows: Sequence[int] = range(len(samples))
    if asks_model(scorer):
        rows = sorted(set(rows).difference(failed))
    scores = [Score(ScoreStatus.FAILED, BAD_ROW)] * len(samples)
    judged = scorer.score(samples.take(rows), completions.take(rows))
    for row, score in zip(rows, judged, strict=True):
        # A row that has no score anyway keeps its own reason.
        if row not in failed or score.status is not ScoreStatus.SCORED:
            scores[row] = score
    return tabulate_scores(scorer, scores, samples)


#: What scores say about the order of the options, where that is not the one of the file.
ORDER_TYPES: Types = {
    "base_sample_id": pl.String(),
    "option_order": pl.List(pl.String),
    "predicted_option": pl.String(),
    "ground_truth_option": pl.String(),
    "left_in_place": pl.String(),
}


def note_orders(scores: Sequence[Score], orders: pl.DataFrame) -> list[Score]:
    """Return the scores with what they say about the order, whatever their status."""
    noted = []
    for score, row in zip(scores, orders.iter_rows(named=True), strict=True):
        order = row.pop("order")
        metadata: dict[str, Any] = {**score.metadata, **row, "option_order": None}
        labels = metadata.get("choices") or ()
        labels_in_file = {}
        if len(order) == len(labels):
            metadata["option_order"] = [labels[place] for place in order]
            labels_in_file = dict(zip(labels, metadata["option_order"], strict=True))
        for kind in ("predicted", "ground_truth"):
            label = metadata.get(f"{kind}_choice")
            metadata[f"{kind}_option"] = labels_in_file.get(label, label)
        noted.append(replace(score, metadata=metadata))
    return noted


# The table of scores.


def tabulate_scores(scorer: Scorer, scores: Sequence[Score], samples: Samples) -> Scores:
    """Return a scorer's scores as a table, with what they say about the order of the options."""
    value_types, metadata_types = scorer.column_types(scores)
    if samples.orders is not None:
        scores = note_orders(scores, samples.orders)
        prior = {name: PRIOR_SCHEMA[name] for name in PRIOR_SCHEMA if name in samples.orders}
        metadata_types = {**metadata_types, **ORDER_TYPES, **prior}
    return build_table(scores, value_types, metadata_types)


def build_table(scores: Sequence[Score], value_types: Types, metadata_types: Types) -> Scores:
    """Return the table of scores with these values and metadata; what a score lacks is null."""
    columns = {
        "status": pl.Series([score.status.value for score in scores], dtype=pl.String),
        "reason": pl.Series([score.reason for score in scores], dtype=pl.String),
        "values": _build_structs([score.values for score in scores], value_types),
        "metadata": _build_structs([score.metadata for score in scores], metadata_types),
        "excluded_by": pl.Series([None] * len(scores), dtype=pl.String),
    }
    types = {**value_types, **metadata_types}
    encoded = frozenset(name for name, dtype in types.items() if dtype is None)
    return Scores(pl.DataFrame(columns), encoded)


def _build_structs(rows: Sequence[Mapping[str, Any]], types: Types) -> pl.Series:
    """Return rows as a column of structs."""
    columns = []
    for name, dtype in (types or {EMPTY_STRUCT_FIELD: pl.Boolean()}).items():
        cells = [row.get(name) for row in rows]
        if dtype is None:
            cells = list(map(_write_json, cells))
        elif dtype == pl.Float64:
            cells = [cell if cell is None else float(cell) for cell in cells]
        if isinstance(dtype, pl.List):
            columns.append(_build_lists(name, cells, dtype))
        else:
            columns.append(pl.Series(name, cells, dtype or pl.String))
    return pl.DataFrame(columns).to_struct()


def _build_lists(name: str, cells: Sequence[Sequence[object] | None], dtype: pl.List) -> pl.Series:
    """Return a column of lists; equal ones are built once, since Polars takes long for each."""
    numbers: dict[tuple[object, ...] | None, int] = {}
    places = []
    for cell in cells:
        key = None if cell is None else tuple(cell)
        places.append(numbers.setdefault(key, len(numbers)))
    return pl.Series(name, list(numbers), dtype).gather(places)


def _write_json(cell: object) -> str | None:
    return None if cell is None else json.dumps(cell, ensure_ascii=False)


def join_scores(completions: Completions, scores: Mapping[str, Scores]) -> pl.DataFrame:
    """Return a chunk's scores as stored: `sample_id`, `trial`, then one struct per scorer key."""
    structs = [table.frame.to_struct(key) for key, table in scores.items()]
    return pl.DataFrame([completions.column("sample_id"), completions.column("trial"), *structs])


# Action rules: what happens to samples after scoring.


@dataclass(frozen=True)
class Action:
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
    scores: Mapping[str, Scores],
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
    for row, context in enumerate(build_contexts(samples, completions, scores)):
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
    marked = {}
    for key, table in scores.items():
        marked[key] = replace(table, frame=table.frame.with_columns(column))
    return marked


def build_contexts(
    samples: Samples, completions: Completions, scores: Mapping[str, Scores]
) -> Iterator[dict[str, object]]:
    """Yield what the filter of an action sees of each row."""
    tables = [table.rows() for table in scores.values()]
    for sample, completion, *row in zip(samples.rows(), completions, *tables, strict=True):
        cells = {}
        for key, score in zip(scores, row, strict=True):
            cells[key] = {**score.metadata, **score.values}
        yield {
            "sample": sample,
            "solver_output": completion.solver_output(),
            "scores": cells,
        }


def try_action(
    action: Action, samples: Samples, completions: Completions, scores: Mapping[str, Scores]
) -> RowError | None:
    """Return the first error of a rule on these rows; None if there is none."""
    for context in build_contexts(samples, completions, scores):
        try:
            action.filter.matches(**context)
        except RowError as problem:
            return problem
    return None
