"""The tables of a run and their rows, the registry of kinds, and repeatable random draws.

Plural names are tables, singular names rows. Tables are Polars frames with fixed columns; rows are
plain values.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import polars as pl

from answerkey.errors import Place, SpecError, hide_secrets
from answerkey.trace import Row as Row  # noqa: PLC0414 - re-exported
from answerkey.trace import build_solver_output

#: Columns of orders if a prior is estimated: whether the row's sample is used to estimate it, and
#: whether the row is used only for that.
PRIOR_SCHEMA: dict[str, pl.DataType] = {
    "estimates_prior": pl.Boolean(),
    "is_extra": pl.Boolean(),
}


@dataclass(frozen=True, slots=True)
class Sample:
    """One row of a dataset: its id, the fields that `{{ sample }}` sees, and its place."""

    id: str
    fields: Row
    file: str | None = None
    line: int | None = None

    def __reduce__(self) -> tuple[object, ...]:
        """Return plain values, which are pickled faster than a frozen class with slots."""
        return Sample, (self.id, self.fields, self.file, self.line)

    def place(self, column: str | None = None) -> Place:
        """Return the place of the row, for an error."""
        return Place(
            file=self.file,
            line=self.line,
            sample=self.id,
            field=column,
        )


@dataclass(frozen=True)
class Samples:
    """A dataset, or a chunk of it, in memory: its samples in order.

    `orders` is set if options are in another order than in the file. For each row it has the id of
    the sample (`base_sample_id`), the original position of the option at each position (`order`),
    and the reason why the order was not changed, or null (`not_reordered`); the columns of
    `PRIOR_SCHEMA` may follow. `written` are then the samples as in the file.
    """

    items: Sequence[Sample]
    columns: Sequence[str]
    file: str | None = None
    orders: pl.DataFrame | None = None
    written: Sequence[Sample] | None = None
    #: Columns of which it is known that every cell is text or null: nobody has looked.
    text_columns: ClassVar[frozenset[str]] = frozenset()

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.items)

    @cached_property
    def ids(self) -> pl.Series:
        """The ids of all samples."""
        ids = [sample.id for sample in self.items]
        return pl.Series("sample_id", ids, dtype=pl.String)

    def slice(self, offset: int, length: int) -> Self:
        """Return the rows from `offset` on, at most `length` of them."""
        return self.take(range(len(self.items))[offset : offset + length])

    def take(self, positions: Sequence[int] | pl.Series) -> Self:
        """Return the rows at these positions, in the order given."""
        if isinstance(positions, range) and len(positions) == len(self.items):
            return self
        positions = list(positions)
        items = [self.items[position] for position in positions]
        if self.orders is None or self.written is None:
            return replace(self, items=items)
        written = [self.written[position] for position in positions]
        orders = self.orders[positions]
        return replace(
            self,
            items=items,
            orders=orders,
            written=written,
        )

    def repeat(self, times: int) -> Self:
        """Return each row `times` times, one after the other."""
        if times == 1:
            return self
        positions = range(len(self.items) * times)
        return self.take([position // times for position in positions])

    def load(self) -> Self:
        """Return the rows, which are already in memory."""
        return self

    def with_column(self, name: str, value: object) -> Self:
        """Return the rows with one more column, which has the same value everywhere."""
        items = []
        for sample in self.items:
            fields = Row(sample.fields)
            fields[name] = value
            items.append(replace(sample, fields=fields))
        columns = [*self.columns, name]
        return replace(self, items=items, columns=columns)

    def as_written(self) -> Self:
        """Return the rows with their options in the order of the file."""
        if self.written is None:
            return self
        return replace(
            self,
            items=self.written,
            orders=None,
            written=None,
        )

    def row(self, position: int) -> Row:
        """Return the fields of one row."""
        return self.items[position].fields

    def rows(self) -> Iterator[Row]:
        """Yield the fields of each row."""
        for sample in self.items:
            yield sample.fields

    def values(self, column: str) -> list[object]:
        """Return the cells of one column."""
        return [sample.fields[column] for sample in self.items]

    def place(self, position: int, column: str | None = None) -> Place:
        """Return the place of a row, for an error."""
        return self.items[position].place(column)


class CompletionStatus(StrEnum):
    """The outcome of a call: an answer text, a refusal, a reply without text, or a failure."""

    OK = "OK"
    REFUSED = "REFUSED"
    NO_TEXT = "NO_TEXT"
    ERROR = "ERROR"


CACHE_NAMES = ("cached_tokens", "cache_write_tokens")
USAGE_NAMES = ("prompt_tokens", "completion_tokens", "reasoning_tokens", *CACHE_NAMES)
_USAGE_SCHEMA = dict.fromkeys(USAGE_NAMES, pl.Int64())
COMPLETION_SCHEMA: dict[str, pl.DataType] = {
    "sample_id": pl.String(),
    "trial": pl.Int32(),
    "prompt": pl.String(),
    "completion": pl.String(),
    "status": pl.String(),
    "finish_reason": pl.String(),
    "usage": pl.Struct(_USAGE_SCHEMA),
    "latency": pl.Float64(),
    "source": pl.String(),
    "reply": pl.String(),
    "reasoning": pl.String(),
    "logprobs": pl.String(),
    "error": pl.String(),
    "raw": pl.String(),
    "attempts": pl.Int32(),
}
#: Additional columns that recorded completions may have: another tool's verdict, 1 for right and 0
#: for wrong, and the answer that it read in them.
IMPORTED_SCHEMA: dict[str, pl.DataType] = {
    "imported_score": pl.Float64(),
    "imported_answer": pl.String(),
}
#: The source of completions of invalid rows, which a run leaves out.
NOT_ASKED = "not asked"
#: The fields of a completion that are stored as JSON text, and the attributes of columns with
#: another name.
_JSON_FIELDS = ("prompt", "reply", "logprobs")
_ATTRIBUTES = {"completion": "text", "status": "status.value"}
_ALL_COLUMNS = COMPLETION_SCHEMA | IMPORTED_SCHEMA | _USAGE_SCHEMA
_write_json = json.JSONEncoder(ensure_ascii=False, default=str).encode


@dataclass(frozen=True)
class Completion:
    """The model's response to one sample; `text` is None unless `status` is OK.

    `prompt` is the list of messages that was sent, `reply` the whole answer as an OpenAI-like
    message (`{"role": "assistant", "content": ..., "refusal": ...}`); both are None if unknown.
    `reasoning` is the reasoning of a model that returns it separately; `reasoning_tokens` are part
    of the completion's tokens. `cached_tokens` were read from the provider's prompt cache,
    `cache_write_tokens` written to it; both are part of the prompt's tokens. `error` says why the
    status is ERROR. `raw` is the body that could not be read, or the original text before thoughts,
    or the JSON around a choice, were removed. `source` is `live`, `batch`, `cache`, `recorded` or
    `builtin`. `asked_at` is the time of the original call of a cached completion, in seconds since
    1970. `imported_score` and `imported_answer` are another tool's verdict, see `IMPORTED_SCHEMA`.
    """

    text: str | None
    status: CompletionStatus = CompletionStatus.OK
    prompt: Sequence[Mapping[str, object]] | None = None
    reply: Mapping[str, object] | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    latency: float | None = None
    reasoning: str | None = None
    logprobs: object = None
    error: str | None = None
    raw: str | None = None
    attempts: int | None = None
    source: str | None = None
    asked_at: int | None = None
    sample_id: str = ""
    trial: int = 0
    imported_score: float | None = None
    imported_answer: str | None = None

    def with_fields(self, **fields: object) -> Self:
        """Return a copy with other values in some fields, ten times as fast as `replace`."""
        completion = object.__new__(type(self))
        object.__setattr__(completion, "__dict__", vars(self) | fields)
        return completion

    def solver_output(self) -> dict[str, object]:
        """Return the `solver_output` of templates and filters, with the names of both eras."""
        exchange = self.exchange()
        return build_solver_output(exchange["output"], exchange["messages"])

    def exchange(self) -> dict[str, Any]:
        """Return the values behind the other names of `solver_output`.

        `output` is the last reply as an OpenAI-like object, `messages` the prompt with the reply at
        the end.
        """
        message: dict[str, object] = {"role": "assistant", "content": self.text}
        if self.reply:
            message = dict(self.reply)
        choice = {"message": message, "finish_reason": self.finish_reason}
        usage = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
        }
        output = {"choices": [choice], "usage": usage}
        messages = [*(self.prompt or ()), message]
        return {"output": output, "messages": messages}


_BLANK = Completion(None)


class Completions:
    """The model's responses, one completion per sample and trial in the order of the samples.

    Rows and the table with the columns of `COMPLETION_SCHEMA` are built from each other on first
    use.
    """

    def __init__(self, items: Sequence[Completion]) -> None:
        self.items = items

    @classmethod
    def from_frame(cls, frame: pl.DataFrame) -> Self:
        """Return the completions of a stored table."""
        completions = cls.__new__(cls)
        completions.frame = frame
        return completions

    @classmethod
    def build(cls, ids: Iterable[str], completions: Sequence[Completion], *, source: str) -> Self:
        """Return completions of the samples with these ids; `source` is set if a completion has
        none.
        """
        items = []
        for sample_id, completion in zip(ids, completions, strict=True):
            own_source = completion.source or source
            items.append(completion.with_fields(sample_id=sample_id, source=own_source))
        return cls(items)

    @classmethod
    def build_texts(
        cls,
        ids: Iterable[str],
        texts: Iterable[str | None],
        *,
        source: str,
    ) -> Self:
        """Return completions with these texts; None gets the status `absent`."""
        filled = Completion("", source=source)
        empty = Completion(None, CompletionStatus.NO_TEXT, source=source)
        items = []
        for sample_id, text in zip(ids, texts, strict=True):
            completion = empty if text is None else filled
            items.append(completion.with_fields(sample_id=sample_id, text=text))
        return cls(items)

    def __reduce__(self) -> tuple[Callable[..., Completions], tuple[object, ...]]:
        return Completions.from_frame, (self.frame,)

    def __len__(self) -> int:
        if "frame" in vars(self):
            return self.frame.height
        return len(self.items)

    def __iter__(self) -> Iterator[Completion]:
        return iter(self.items)

    @cached_property
    def items(self) -> Sequence[Completion]:
        """The completions."""
        text = pl.col("completion").alias("text")
        usage = pl.col("usage").struct.unnest()
        table = self.frame.select(text, pl.exclude("completion", "usage"), usage)
        items = []
        for row in table.iter_rows(named=True):
            row["status"] = CompletionStatus(row["status"])
            for name in _JSON_FIELDS:
                if row[name] is not None:
                    row[name] = json.loads(row[name])
            items.append(_BLANK.with_fields(**row))
        return items

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The completions as a table."""
        frame = pl.DataFrame([self.column(name) for name in COMPLETION_SCHEMA])
        imported_scores = self.column("imported_score")
        if imported_scores.count():
            frame = frame.with_columns(imported_scores, self.column("imported_answer"))
        return frame

    def column(self, name: str) -> pl.Series:
        """Return one column of the table, without building the others."""
        if "frame" in vars(self) and name in self.frame.columns:
            return self.frame[name]
        if name == "usage":
            columns = [self.column(usage_name) for usage_name in USAGE_NAMES]
            return pl.DataFrame(columns).to_struct("usage")
        attribute = attrgetter(_ATTRIBUTES.get(name, name))
        cells = list(map(attribute, self.items))
        if name in _JSON_FIELDS:
            cells = [cell if cell is None else _write_json(cell) for cell in cells]
        return pl.Series(name, cells, dtype=_ALL_COLUMNS[name])

    def take(self, positions: Sequence[int] | pl.Series) -> Self:
        """Return the rows at these positions, in this order."""
        if "items" in vars(self):
            return type(self)([self.items[position] for position in positions])
        return self.from_frame(self.frame[positions])

    def number(self, trials: range) -> Self:
        """Return the completions numbered by these trials, starting again with every sample."""
        items = []
        for row, completion in enumerate(self.items):
            trial = trials[row % len(trials)]
            if completion.trial != trial:
                completion = completion.with_fields(trial=trial)  # noqa: PLW2901
            items.append(completion)
        return type(self)(items)

    def spread(
        self,
        positions: Sequence[int],
        ids: Sequence[str] | pl.Series,
        times: int = 1,
    ) -> Self:
        """Return completions for all `ids`, with these at `positions`; the others get the source
        "not asked".

        There are `times` consecutive rows for each position and each id.
        """
        blank = Completion(None, CompletionStatus.NO_TEXT, source=NOT_ASKED)
        items = []
        for sample_id in ids:
            items += [blank.with_fields(sample_id=sample_id)] * times
        for place, position in enumerate(positions):
            for trial in range(times):
                completion = self.items[place * times + trial]
                items[position * times + trial] = completion
        return type(self)(items)


#: Parquet has no structs without fields, so a scorer without metadata stores this field, always
#: null.
EMPTY_STRUCT_FIELD = "_"
#: The metadata field in which a scorer that runs code stores the traceback of a failure.
TRACEBACK_FIELD = "snippet_traceback"


class ScoreStatus(StrEnum):
    """SCORED has values.

    FAILED is the dataset's or the scorer's fault; ERROR means the call failed.
    """

    SCORED = "SCORED"
    FAILED = "FAILED"
    ERROR = "ERROR"


class Validity(StrEnum):
    """Whether the completion unambiguously names one of the choices."""

    VALID = "VALID"
    INVALID = "INVALID"


#: The extraction rules that do not need a user's pattern.
RULE_NAMES = ("first_character", "first_character_literal", "leading_label", "stated_answer")

#: The keys under which an option that is a mapping may have its text.
OPTION_TEXT_KEYS = ("text", "content", "value", "option")


@dataclass(frozen=True)
class Score:
    """The verdict of one scorer on one sample."""

    status: ScoreStatus
    reason: str | None = None
    values: Mapping[str, object] = field(default_factory=dict)
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Scores:
    """The verdicts of one scorer, one row per sample in the order of the samples.

    Columns of `frame`: `status` and `reason` (text), `values` and `metadata` (structs with one
    field per name; all null unless SCORED), `excluded_by` (key of the action rule that excludes the
    row from the metrics, or null). Fields in `encoded` contain JSON text because their values have
    no common type.
    """

    frame: pl.DataFrame
    encoded: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return self.frame.height

    @property
    def value_names(self) -> list[str]:
        """The names of the values."""
        return _field_names(self.frame, "values")

    @property
    def metadata_names(self) -> list[str]:
        """The names of the metadata."""
        return _field_names(self.frame, "metadata")

    @cached_property
    def columns(self) -> dict[str, pl.Series]:
        """Values and metadata by name; a value hides metadata of the same name.

        Rows without a score are null.
        """
        columns: dict[str, pl.Series] = {}
        for group in ("metadata", "values"):
            columns |= self.frame[group].struct.unnest().to_dict()
        columns.pop(EMPTY_STRUCT_FIELD, None)
        return columns

    def column(self, name: str) -> pl.Series | None:
        """Return a value by name, else a metadata field, else None."""
        return self.columns.get(name)

    def text(self, name: str) -> pl.Series:
        """Return a field as text; all null if it does not exist."""
        column = self.columns.get(name)
        if column is None:
            column = pl.repeat(None, self.frame.height, dtype=pl.String, eager=True)
        return column.cast(pl.String)

    def take(self, rows: pl.Series) -> Self:
        """Return the rows at these positions, in this order."""
        return type(self)(self.frame[rows], self.encoded)

    def counted(self) -> pl.Series:
        """Return which rows count towards metrics: SCORED and not excluded by an action."""
        is_scored = self.frame["status"] == ScoreStatus.SCORED.value
        is_counted = is_scored & self.frame["excluded_by"].is_null()
        return is_counted.alias("counted")

    def count(self, status: ScoreStatus) -> int:
        """Return how many verdicts have this status."""
        has_status = self.frame["status"] == status.value
        return int(has_status.sum())

    def spread(self, positions: Sequence[int], length: int, reason: str) -> Self:
        """Return a table of `length` rows with these at `positions`; the others are FAILED."""
        missing = self.frame.clear(1).with_columns(
            status=pl.lit(ScoreStatus.FAILED.value),
            reason=pl.lit(reason),
        )
        for name in ("values", "metadata"):
            # A null struct becomes a struct of nulls, as everywhere else.
            nulls = missing[name].struct.unnest().to_struct(name)
            missing = missing.with_columns(nulls)
        order = [len(self)] * length
        for row, position in enumerate(positions):
            order[position] = row
        frame = pl.concat([self.frame, missing])[order]
        return type(self)(frame, self.encoded)

    def rows(self) -> Iterator[Score]:
        """Yield the verdicts one by one."""
        for row in self.frame.iter_rows(named=True):
            status = ScoreStatus(row["status"])
            values = self._decode(row["values"])
            metadata = self._decode(row["metadata"])
            yield Score(status, row["reason"], values, metadata)

    def _decode(self, group: Mapping[str, object]) -> dict[str, object]:
        decoded = {}
        for name, value in group.items():
            if name in self.encoded and value is not None:
                decoded[name] = json.loads(str(value))
            elif name != EMPTY_STRUCT_FIELD:
                decoded[name] = value
        return decoded


def _field_names(frame: pl.DataFrame, group: str) -> list[str]:
    names = []
    for struct_field in frame.schema[group].fields:  # type: ignore[attr-defined]  # it is a struct
        if struct_field.name != EMPTY_STRUCT_FIELD:
            names.append(struct_field.name)
    return names


Purpose = Literal["score", "qa"]


@dataclass(frozen=True)
class GroupValue:
    """A metric's number for one group of samples, or its average over the groups.

    `group` is None for the average; its `n` counts groups. The other fields are those of
    `MetricValue`.
    """

    group: str | None
    value: float | None
    n: int
    n_excluded: Mapping[str, int] = field(default_factory=dict)
    interval: tuple[float, float] | None = None
    interval_method: str | None = None
    interval_note: str | None = None
    std_error: float | None = None
    note: str | None = None


@dataclass(frozen=True)
class Groups:
    """A metric's numbers by the values of one dataset column, and their unweighted average."""

    column: str
    values: tuple[GroupValue, ...]
    macro: GroupValue


@dataclass(frozen=True)
class MetricValue:
    """One number of a task: its value, its number of samples, the samples left out, and its
    uncertainty.

    `value` is None if it cannot be computed; `note` then says why. `interval_note` says why a value
    has no interval. `details` has related data other than numbers (a confusion matrix). `is_share`:
    the value is always between 0 and 1.
    """

    name: str
    value: float | None
    n: int
    n_excluded: Mapping[str, int] = field(default_factory=dict)
    interval: tuple[float, float] | None = None
    interval_method: str | None = None
    note: str | None = None
    type: str = ""
    metric: str = ""
    scorer: str = ""
    purpose: Purpose = "score"
    details: Mapping[str, object] = field(default_factory=dict)
    interval_note: str | None = None
    std_error: float | None = None
    is_share: bool = False
    groups: tuple[Groups, ...] = ()


class GateStatus(StrEnum):
    """The status of a gate; the status of several gates is the first of these that occurs.

    An undecided gate does not let a run pass; a skipped gate is ignored.
    """

    FAIL = "FAIL"
    NOT_DECIDED = "NOT_DECIDED"
    PASS = "PASS"  # noqa: S105 - a word, not a password
    SKIPPED = "SKIPPED"


@dataclass(frozen=True)
class GateCheck:
    """One number compared with the requirement of a rule.

    `number` is what is compared: the value, an end of its interval, a share or a difference; if it
    is None, `note` says why. `repetition` counts from 1 if a task was run several times. `details`
    are the counts or the comparison behind the number.
    """

    task: str
    name: str
    status: GateStatus
    number: float | None = None
    value: float | None = None
    interval: tuple[float, float] | None = None
    n: int = 0
    is_share: bool = False
    note: str | None = None
    repetition: int | None = None
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Gate:
    """A rule and its status; `definition` is its requirement, as in the file.

    `note` says why it is undecided or skipped.
    """

    policy: str
    rule: str
    status: GateStatus
    definition: Mapping[str, object]
    display_name: str = ""
    description: str | None = None
    checks: tuple[GateCheck, ...] = ()
    note: str | None = None


def find_worst_status(statuses: Iterable[GateStatus]) -> GateStatus | None:
    """Return the combined status of several gates or checks; None if there are none."""
    return min(statuses, key=list(GateStatus).index, default=None)


@dataclass(frozen=True)
class Request:
    """The request to a model for one sample; options and truth are only for built-in models.

    So are the choices, unless replies are constrained to them. A model that draws at random draws
    again for each `trial`.
    """

    sample_id: str
    messages: Sequence[Mapping[str, object]]
    choices: Sequence[str] | None = None
    options: Sequence[str] | None = None
    truth: str | None = None
    text: str = ""
    trial: int = 0


class SampleFacts(NamedTuple):
    """Facts about each sample that a scorer knows before a model is called; one list entry per
    sample.
    """

    choices: Sequence[Sequence[str] | None]
    truths: Sequence[str | None]
    options: Sequence[Sequence[str] | None]


@dataclass(frozen=True)
class Notice:
    """A warning that the user should see once: an old name, a trimmed cell; never a reason to stop.

    Its text contains no secrets.
    """

    message: str
    where: Place | None = None
    hint: str | None = None

    def __post_init__(self) -> None:
        facts = {
            "message": hide_secrets(self.message),
            "where": self.where and self.where.without_secrets(),
            "hint": self.hint and hide_secrets(self.hint),
        }
        vars(self).update(facts)

    def __str__(self) -> str:
        text = f"warning: {self.message}"
        if self.where and str(self.where):
            text += f"\n  --> {self.where}"
        if self.hint:
            text += f"\n  = help: {self.hint}"
        return text


Kind = TypeVar("Kind")


class Registry(Mapping[str, type[Kind]]):
    """Classes by their name in `type:`; `load` imports a built-in one when it is needed.

    A package adds a class through an entry point of the group, under the entry point's name;
    built-in names cannot be replaced. Entry points are searched only for other names.
    """

    def __init__(
        self,
        group: str,
        names: Iterable[str],
        load: Callable[[str], type[Kind]],
    ) -> None:
        self.group = group
        self._own = dict.fromkeys(names)
        self._load_own = load
        self._loaded: dict[str, type[Kind]] = {}

    def __getitem__(self, name: str) -> type[Kind]:
        if name not in self._loaded:
            if name in self._own:
                self._loaded[name] = self._load_own(name)
            else:
                self._loaded[name] = self._load(self._foreign[name])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._foreign

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._foreign

    def __len__(self) -> int:
        return len(self._own) + len(self._foreign)

    @cached_property
    def _foreign(self) -> dict[str, EntryPoint]:
        points: dict[str, EntryPoint] = {}
        in_order = sorted(entry_points(group=self.group), key=attrgetter("name", "value"))
        for point in in_order:
            if point.name in self._own:
                continue
            first = points.setdefault(point.name, point)
            if first.value != point.value:
                packages = f"{_name_package(first)} and by {_name_package(point)}"
                raise self._refuse(f"`{point.name}` is provided by {packages}")
        return points

    def _load(self, point: EntryPoint) -> type[Kind]:
        try:
            kind: type[Kind] = point.load()
        except (ImportError, AttributeError) as error:
            message = f"`{point.name}` of {_name_package(point)} cannot be loaded: {error}"
            raise self._refuse(message) from error
        return kind

    def _refuse(self, message: str) -> SpecError:
        hint = f"update or uninstall the package; it is an entry point of the group `{self.group}`"
        return SpecError("E109", message, hint=hint)


def _name_package(point: EntryPoint) -> str:
    if point.dist is None:
        return f"`{point.value}`"
    return f"package `{point.dist.name}`"


Value = TypeVar("Value")
_SPAN = 1 << 64


class Draws(NamedTuple):
    """Random draws for one sample and trial; each purpose has its own number in [0, 1)."""

    seed: int
    name: str
    trial: int = 0

    def rank(self, purpose: str = "") -> int:
        """Return a whole number in [0, 2**64) that orders names at random."""
        key = f"{self.seed}\0{self.name}\0{purpose}"
        if self.trial:
            key += f"\0{self.trial}"
        digest = hashlib.sha256(key.encode(errors="surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big")

    def draw(self, purpose: str) -> float:
        """Return a number in [0, 1)."""
        return (self.rank(purpose) >> 11) / (_SPAN >> 11)

    def pick(self, values: Sequence[Value], purpose: str) -> Value:
        """Return one of the values, all equally likely."""
        return values[self.rank(purpose) * len(values) // _SPAN]

    def pick_share(self, shares: Mapping[Value, int], purpose: str) -> Value:
        """Return one of the keys, with the probability of its share."""
        left = self.rank(purpose) * sum(shares.values()) // _SPAN
        for value, share in shares.items():
            if left < share:
                return value
            left -= share
        raise ValueError("shares must not be empty")
