"""The tables that travel through the house, and their rows.

Plural is a table, singular a row. Tables are Polars frames with a fixed meaning; rows are plain values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Self

import polars as pl

from answerkey.errors import Place

Purpose = Literal["score", "qa"]


class Row(dict[str, object]):
    """One dataset row as `{{ sample }}` sees it: column name to value."""


Sample = Row


class CompletionStatus(StrEnum):
    """What became of the question: an answer text, a refusal, a reply without text, or a call that failed."""

    OK = "OK"
    REFUSED = "REFUSED"
    NO_TEXT = "NO_TEXT"
    ERROR = "ERROR"


class ScoreStatus(StrEnum):
    """SCORED has values; FAILED is the dataset's or the scorer's fault; ERROR means the call failed."""

    SCORED = "SCORED"
    FAILED = "FAILED"
    ERROR = "ERROR"


class Validity(StrEnum):
    """Whether the completion unambiguously names one of the choices."""

    VALID = "VALID"
    INVALID = "INVALID"


@dataclass(frozen=True)
class Samples:
    """A dataset, or a shard of it: one row per sample, in dataset order.

    `encoded` names the columns whose cells hold JSON text because their values have no common type; `row`
    and `rows` decode them. `lines` is the 1-based line (row number for binary formats) of each row in `file`.
    """

    frame: pl.DataFrame
    ids: pl.Series
    file: str | None = None
    lines: pl.Series | None = None
    encoded: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def columns(self) -> list[str]:
        """The dataset's column names (generated sample ids are not among them)."""
        return self.frame.columns

    def slice(self, offset: int, length: int) -> Self:
        """Return the rows from `offset` on, at most `length` of them."""
        return self._with(self.frame.slice(offset, length), lambda series: series.slice(offset, length))

    def take(self, rows: Sequence[int]) -> Self:
        """Return the rows with these positions, in the order given."""
        indices = pl.Series(rows, dtype=pl.UInt32)
        return self._with(self.frame[indices], lambda series: series.gather(indices))

    def _with(self, frame: pl.DataFrame, change: Callable[[pl.Series], pl.Series]) -> Self:
        lines = None if self.lines is None else change(self.lines)
        return type(self)(frame, change(self.ids), self.file, lines, self.encoded)

    def row(self, position: int) -> Sample:
        """Return one row as `{{ sample }}` sees it."""
        return next(iter(self.slice(position, 1).rows()))

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[Sample]:
        """Yield rows as `{{ sample }}` sees them, with all columns or only some."""
        frame = self.frame if columns is None else self.frame.select(columns)
        if frame.width == 0:
            yield from (Row() for _ in range(len(self)))
            return
        decode = [name for name in frame.columns if name in self.encoded]
        for values in frame.iter_rows(named=True):
            row = Row(values)
            for name in decode:
                text = row[name]
                row[name] = None if text is None else json.loads(str(text))
            yield row

    def values(self, column: str) -> list[object]:
        """Return one column as Python values, decoded."""
        found: list[object] = self.frame[column].to_list()
        if column not in self.encoded:
            return found
        return [None if text is None else json.loads(str(text)) for text in found]

    def place(self, position: int, column: str | None = None) -> Place:
        """Return where a row stands, for an error."""
        line = None if self.lines is None else int(self.lines[position])
        return Place(file=self.file, line=line, sample=str(self.ids[position]), field=column)


COMPLETION_SCHEMA: dict[str, pl.DataType] = {
    "sample_id": pl.String(),
    "trial": pl.Int32(),
    "prompt": pl.String(),
    "completion": pl.String(),
    "status": pl.String(),
    "finish_reason": pl.String(),
    "usage": pl.Struct({"prompt_tokens": pl.Int64, "completion_tokens": pl.Int64}),
    "latency": pl.Float64(),
    "source": pl.String(),
    "reply": pl.String(),
    "reasoning": pl.String(),
    "logprobs": pl.String(),
    "error": pl.String(),
    "raw": pl.String(),
    "attempts": pl.Int32(),
}


@dataclass(frozen=True)
class Completion:
    """What the model said to one sample; `text` is None unless `status` is OK.

    `prompt` is the list of messages that was asked, `reply` the whole answer as an OpenAI-like message
    (`{"role": "assistant", "content": ..., "refusal": ...}`); both are None when not known. `reasoning` is
    what a reasoning model thought, apart from its answer. `error` says why the status is ERROR, `raw` is the
    body that could not be read. `source` overrules the table's, for one answered from the cache.
    """

    text: str | None
    status: CompletionStatus = CompletionStatus.OK
    prompt: Sequence[Mapping[str, object]] | None = None
    reply: Mapping[str, object] | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency: float | None = None
    reasoning: str | None = None
    logprobs: object = None
    error: str | None = None
    raw: str | None = None
    attempts: int | None = None
    source: str | None = None

    def solver_output(self) -> dict[str, object]:
        """Return the `solver_output` of templates, filters and snippets: `output` and `messages`."""
        message = dict(self.reply) if self.reply else {"role": "assistant", "content": self.text}
        usage = {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens}
        output = {"choices": [{"message": message, "finish_reason": self.finish_reason}], "usage": usage}
        return {"output": output, "messages": [*(self.prompt or ()), message]}


@dataclass(frozen=True)
class Completions:
    """What the model said, one row per sample in the order of the samples; columns as `COMPLETION_SCHEMA`.

    `prompt` and `reply` hold JSON text. `source` is `live`, `recorded` or `builtin`.
    """

    frame: pl.DataFrame

    @classmethod
    def build(
        cls, ids: Sequence[str] | pl.Series, completions: Sequence[Completion], *, source: str, trial: int = 0
    ) -> Self:
        """Return the table of these completions."""
        rows = {
            "sample_id": ids,
            "trial": [trial] * len(completions),
            "prompt": [_to_json(one.prompt) for one in completions],
            "completion": [one.text for one in completions],
            "status": [one.status.value for one in completions],
            "finish_reason": [one.finish_reason for one in completions],
            "usage": [
                {"prompt_tokens": one.prompt_tokens, "completion_tokens": one.completion_tokens}
                for one in completions
            ],
            "latency": [one.latency for one in completions],
            "source": [one.source or source for one in completions],
            "reply": [_to_json(one.reply) for one in completions],
            "reasoning": [one.reasoning for one in completions],
            "logprobs": [_to_json(one.logprobs) for one in completions],
            "error": [one.error for one in completions],
            "raw": [one.raw for one in completions],
            "attempts": [one.attempts for one in completions],
        }
        return cls(pl.DataFrame(rows, schema=COMPLETION_SCHEMA))

    @classmethod
    def build_blank(cls, ids: pl.Series) -> Self:
        """Return a table for samples that are evaluated without a completion."""
        return cls.build(ids, [Completion(None)] * len(ids), source="dataset")

    def __len__(self) -> int:
        return self.frame.height

    def slice(self, offset: int, length: int) -> Self:
        """Return the rows from `offset` on, at most `length` of them."""
        return type(self)(self.frame.slice(offset, length))

    def spread(self, positions: Sequence[int], ids: pl.Series) -> Self:
        """Return a table for all `ids`, these rows at `positions`; the others were not asked: no text."""
        nothing = [Completion(None, CompletionStatus.NO_TEXT)] * len(ids)
        blank = self.build(ids, nothing, source="not asked")
        rows = [len(self) + place for place in range(len(ids))]
        for row, position in enumerate(positions):
            rows[position] = row
        return type(self)(pl.concat([self.frame, blank.frame])[rows])

    def rows(self) -> Iterator[Completion]:
        """Yield the completions one by one."""
        for row in self.frame.iter_rows(named=True):
            usage = row["usage"] or {}
            yield Completion(
                text=row["completion"],
                status=CompletionStatus(row["status"]),
                prompt=None if row["prompt"] is None else json.loads(row["prompt"]),
                reply=None if row["reply"] is None else json.loads(row["reply"]),
                finish_reason=row["finish_reason"],
                prompt_tokens=usage.get("prompt_tokens"),
                completion_tokens=usage.get("completion_tokens"),
                latency=row["latency"],
                reasoning=row["reasoning"],
                logprobs=None if row["logprobs"] is None else json.loads(row["logprobs"]),
                error=row["error"],
                raw=row["raw"],
                attempts=row["attempts"],
                source=row["source"],
            )


def _to_json(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, default=str)


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

    Columns of `frame`: `status` and `reason` (text), `values` and `metadata` (structs with one field per
    name; all null unless SCORED), `excluded_by` (key of the action rule that keeps the row out of the
    metrics, or null). Fields in `encoded` hold JSON text because their values have no common type.
    """

    frame: pl.DataFrame
    encoded: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return self.frame.height

    @property
    def value_names(self) -> list[str]:
        """The names of the values."""
        return _field_names(self.frame.schema["values"])

    @property
    def metadata_names(self) -> list[str]:
        """The names of the metadata."""
        return _field_names(self.frame.schema["metadata"])

    def column(self, name: str) -> pl.Series | None:
        """Return a value by name, else a metadata field, else None; rows without a score are null."""
        for group, names in (("values", self.value_names), ("metadata", self.metadata_names)):
            if name in names:
                return self.frame[group].struct.field(name).rename(name)
        return None

    def counted(self) -> pl.Series:
        """Return which rows take part in metrics: SCORED and not excluded by an action."""
        mask = (pl.col("status") == ScoreStatus.SCORED.value) & pl.col("excluded_by").is_null()
        return self.frame.select(mask.alias("counted")).to_series()

    def fail(self, positions: Sequence[int], reason: str) -> Self:
        """Return the table with these rows FAILED; a row that has no score anyway keeps its own reason."""
        if not positions:
            return self
        rows = pl.Series(range(len(self))).is_in(list(positions))
        hit = rows & (self.frame["status"] == ScoreStatus.SCORED.value)
        frame = self.frame.with_columns(
            pl.when(hit).then(pl.lit(ScoreStatus.FAILED.value)).otherwise("status").alias("status"),
            pl.when(hit).then(pl.lit(reason)).otherwise("reason").alias("reason"),
            *(_blank_fields(self.frame, name, hit) for name in ("values", "metadata")),
        )
        return type(self)(frame, self.encoded)

    def rows(self) -> Iterator[Score]:
        """Yield the verdicts one by one."""
        for row in self.frame.iter_rows(named=True):
            yield Score(
                ScoreStatus(row["status"]),
                row["reason"],
                self._decode(row["values"]),
                self._decode(row["metadata"]),
            )

    def _decode(self, group: Mapping[str, object] | None) -> dict[str, object]:
        return {
            name: json.loads(str(value)) if name in self.encoded and value is not None else value
            for name, value in (group or {}).items()
            if name != EMPTY_STRUCT_FIELD
        }


def _blank_fields(frame: pl.DataFrame, group: str, hit: pl.Series) -> pl.Series:
    fields = frame[group].struct.unnest()
    return fields.select(pl.when(~hit).then(pl.col(name)).alias(name) for name in fields.columns).to_struct(
        group
    )


#: Parquet has no struct without fields; a scorer without metadata stores this one, always null.
EMPTY_STRUCT_FIELD = "_"


def _field_names(dtype: pl.DataType) -> list[str]:
    fields = dtype.fields if isinstance(dtype, pl.Struct) else []
    return [one.name for one in fields if one.name != EMPTY_STRUCT_FIELD]


@dataclass(frozen=True)
class MetricValue:
    """One number of a task: its value, how many samples stand behind it, what was left out, how sure it is.

    `value` is None when there is nothing to compute; `note` then says why. `details` holds what belongs to
    the value but is no number (a confusion matrix).
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


@dataclass(frozen=True)
class Question:
    """What a model is asked for one sample; choices, options and truth are for built-in models only."""

    sample_id: str
    messages: Sequence[Mapping[str, object]]
    choices: Sequence[str] | None = None
    options: Sequence[str] | None = None
    truth: str | None = None
    text: str = ""


@dataclass(frozen=True)
class Known:
    """What a scorer knows of each sample before a model is asked; lists as long as the samples."""

    choices: Sequence[Sequence[str] | None]
    truths: Sequence[str | None]
    options: Sequence[Sequence[str] | None]


@dataclass(frozen=True)
class Notice:
    """Something the user should hear once: an old name, a trimmed cell; never a reason to stop."""

    message: str
    where: Place | None = None
    hint: str | None = None

    def __str__(self) -> str:
        lines = [f"warning: {self.message}"]
        if self.where and str(self.where):
            lines.append(f"  --> {self.where}")
        if self.hint:
            lines.append(f"  = help: {self.hint}")
        return "\n".join(lines)
