"""The tables that a run goes through, their rows, how kinds are found by name, and draws that
repeat.

Plural is a table, singular a row. Tables are Polars frames with a fixed meaning; rows are plain
values.
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
from typing import Any, Literal, NamedTuple, Self, TypeVar

import polars as pl

from answerkey.errors import Place, SpecError, hide_secrets
from answerkey.trace import Row as Row  # noqa: PLC0414 - handed on
from answerkey.trace import build_solver_output

#: Of each row, where a prior is estimated: whether its sample estimates it, and whether the row is
#: there for that alone.
PRIOR_SCHEMA: dict[str, pl.DataType] = {
    "estimates_prior": pl.Boolean(),
    "is_extra": pl.Boolean(),
}


@dataclass(frozen=True, slots=True)
class Sample:
    """One row of a dataset: its id, the fields that `{{ sample }}` sees, and where it stands."""

    id: str
    fields: Row
    file: str | None = None
    line: int | None = None

    def __reduce__(self) -> tuple[object, ...]:
        """Return plain values, which are pickled faster than a frozen class with slots."""
        return Sample, (self.id, self.fields, self.file, self.line)

    def place(self, column: str | None = None) -> Place:
        """Return where the row stands, for an error."""
        return Place(
            file=self.file,
            line=self.line,
            sample=self.id,
            field=column,
        )


@dataclass(frozen=True)
class Samples:
    """A dataset, or a chunk of it, in memory: its samples in their order.

    `orders` is there when options stand in another order than in the file. It says of each row the
    sample it is of (`base_sample_id`), the place in the file of the option at each place (`order`),
    and why it was left as it stands, or null (`left_in_place`); `PRIOR_SCHEMA` may follow.
    `written` are then the samples as the file has them.
    """

    items: Sequence[Sample]
    columns: Sequence[str]
    file: str | None = None
    orders: pl.DataFrame | None = None
    written: Sequence[Sample] | None = None

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
        """Return the rows, which are in memory already."""
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
        """Return where a row stands, for an error."""
        return self.items[position].place(column)


class CompletionStatus(StrEnum):
    """What became of the question: an answer text, a refusal, a reply without text, or a call that
    failed.
    """

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
#: Columns that recorded completions may have beside those: how another tool judged them, 1 for
#: right and 0 for wrong, and which answer it read in them.
THEIR_SCHEMA: dict[str, pl.DataType] = {
    "their_score": pl.Float64(),
    "their_answer": pl.String(),
}
#: The source of completions of rows that a run left out, being wrong.
NOT_ASKED = "not asked"
#: The fields of a completion that are stored as JSON text, and columns that are called otherwise.
_JSON_FIELDS = ("prompt", "reply", "logprobs")
_ATTRIBUTES = {"completion": "text", "status": "status.value"}
_ALL_COLUMNS = COMPLETION_SCHEMA | THEIR_SCHEMA | _USAGE_SCHEMA
_write_json = json.JSONEncoder(ensure_ascii=False, default=str).encode


@dataclass(frozen=True)
class Completion:
    """What the model said to one sample; `text` is None unless `status` is OK.

    `prompt` is the list of messages that was asked, `reply` the whole answer as an OpenAI-like
    message (`{"role": "assistant", "content": ..., "refusal": ...}`); both are None when not known.
    `reasoning` is what a reasoning model thought, apart from its answer; `reasoning_tokens` are
    part of the completion's. `cached_tokens` were read from the provider's prompt cache,
    `cache_write_tokens` written to it; both are part of the prompt's. `error` says why the status
    is ERROR, `raw` is the body that could not be read, or the text as it came before thoughts or
    the JSON around a choice were taken off. `source` is `live`, `batch`, `cache`, `recorded` or
    `builtin`. `asked_at` is when a completion of the cache was asked for, in seconds since 1970.
    `their_score` and `their_answer` are what another tool made of it, see `THEIR_SCHEMA`.
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
    their_score: float | None = None
    their_answer: str | None = None

    def with_fields(self, **fields: object) -> Self:
        """Return the completion with other values of some fields, ten times as fast as `replace`
        does.
        """
        completion = object.__new__(type(self))
        object.__setattr__(completion, "__dict__", vars(self) | fields)
        return completion

    def solver_output(self) -> dict[str, object]:
        """Return the `solver_output` of templates and filters, with the names of both eras."""
        exchange = self.exchange()
        return build_solver_output(exchange["output"], exchange["messages"])

    def exchange(self) -> dict[str, Any]:
        """Return what the other names of `solver_output` are made of.

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
    """What the model said, one completion per sample and trial in the order of the samples.

    They are rows. The table with the columns of `COMPLETION_SCHEMA` is built when it is first
    asked for, and the rows of a stored table when they are.
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
        """Return completions of the samples with these ids; `source` is for those without one."""
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
        """Return completions with these texts; None is a reply without text."""
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
        their_scores = self.column("their_score")
        if their_scores.count():
            frame = frame.with_columns(their_scores, self.column("their_answer"))
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
        """Return the completions with these trial numbers, for every sample over again."""
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
        """Return completions for all `ids`, these at `positions`; the others were not asked.

        There are `times` rows for each position and each id, one after the other.
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


#: Parquet has no struct without fields; a scorer without metadata stores this one, always null.
EMPTY_STRUCT_FIELD = "_"
#: Where a scorer that runs code keeps the traceback of a row on which it failed; part of the
#: metadata.
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


#: The extraction rules that need no pattern of the user's.
RULE_NAMES = ("first_character", "first_character_literal", "leading_label", "stated_answer")

#: Under which of these names an option that is a mapping has its text.
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
    field per name; all null unless SCORED), `excluded_by` (key of the action rule that keeps the
    row out of the metrics, or null). Fields in `encoded` hold JSON text because their values have
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
        """Return a field as text; all null where there is none such."""
        column = self.columns.get(name)
        if column is None:
            column = pl.repeat(None, self.frame.height, dtype=pl.String, eager=True)
        return column.cast(pl.String)

    def take(self, rows: pl.Series) -> Self:
        """Return the rows at these positions, in this order."""
        return type(self)(self.frame[rows], self.encoded)

    def counted(self) -> pl.Series:
        """Return which rows take part in metrics: SCORED and not excluded by an action."""
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
            # A struct that is null becomes one of nulls, as everywhere else.
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
    """One number of a task: its value, how many samples stand behind it, what was left out, how
    sure it is.

    `value` is None when there is nothing to compute; `note` then says why. `interval_note` says why
    a value has no interval. `details` holds what belongs to the value but is no number (a confusion
    matrix). `is_share` says that it lies within [0, 1] by its nature.
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
    """How a gate stands; of several, the first of these that occurs stands for all.

    One that is not decided does not let a run through, one that is skipped is none.
    """

    FAIL = "FAIL"
    NOT_DECIDED = "NOT_DECIDED"
    PASS = "PASS"  # noqa: S105 - a word, not a password
    SKIPPED = "SKIPPED"


@dataclass(frozen=True)
class GateCheck:
    """One number held against what a rule needs.

    `number` is what counts: the value, an end of its interval, a share or a difference; None when
    there is none, and `note` then says why. `repetition` counts from 1 where a task was run several
    times. `details` are the counts or the comparison behind the number.
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
    """A rule and how it stands; `definition` is what it needs, as the files state it.

    `note` says why it is not decided or skipped.
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
    """Return what several gates or checks come to together; None for none."""
    return min(statuses, key=list(GateStatus).index, default=None)


@dataclass(frozen=True)
class Request:
    """What a model is asked for one sample; options and truth are for built-in models only.

    So are the choices, unless replies are constrained to them. A model that draws draws anew for
    each `trial`.
    """

    sample_id: str
    messages: Sequence[Mapping[str, object]]
    choices: Sequence[str] | None = None
    options: Sequence[str] | None = None
    truth: str | None = None
    text: str = ""
    trial: int = 0


class Known(NamedTuple):
    """What a scorer knows of each sample before a model is asked; lists as long as the samples."""

    choices: Sequence[Sequence[str] | None]
    truths: Sequence[str | None]
    options: Sequence[Sequence[str] | None]


@dataclass(frozen=True)
class Notice:
    """Something the user should hear once: an old name, a trimmed cell; never a reason to stop.

    Its words hold no secret.
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
    """Classes by the name that stands in `type:`; `load` imports one of ours when it is needed.

    A package adds one through an entry point of the group, under its name; a name of ours cannot be
    taken over. Entry points are looked at only for names that are not ours.
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
                raise self._refuse(f"`{point.name}` is brought by {packages}")
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
    """Draws for one sample and trial; each purpose has its own number in [0, 1)."""

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
        """Return one of the values, each as likely as the others."""
        return values[self.rank(purpose) * len(values) // _SPAN]

    def pick_share(self, shares: Mapping[Value, int], purpose: str) -> Value:
        """Return one of the keys, each as likely as its share."""
        left = self.rank(purpose) * sum(shares.values()) // _SPAN
        for value, share in shares.items():
            if left < share:
                return value
            left -= share
        raise ValueError("shares must not be empty")
