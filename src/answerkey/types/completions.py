"""What the model said: the table, and one completion of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import polars as pl

from answerkey.types.trace import build_solver_output


class CompletionStatus(StrEnum):
    """What became of the question: an answer text, a refusal, a reply without text, or a call that failed."""

    OK = "OK"
    REFUSED = "REFUSED"
    NO_TEXT = "NO_TEXT"
    ERROR = "ERROR"


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


#: Columns that recorded completions may have beside those: how another tool judged them, 1 for right and 0
#: for wrong, and which answer it read in them.
THEIR_SCHEMA: dict[str, pl.DataType] = {"their_score": pl.Float64(), "their_answer": pl.String()}


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

    def with_fields(self, **fields: object) -> Self:
        """Return the completion with other values of some fields, ten times as fast as `replace` does."""
        made = object.__new__(type(self))
        vars(made).update(vars(self), **fields)
        return made

    def solver_output(self) -> dict[str, object]:
        """Return the `solver_output` of templates and filters, with the names of both eras."""
        exchange = self.exchange()
        return build_solver_output(exchange["output"], exchange["messages"])

    def exchange(self) -> dict[str, Any]:
        """Return what the other names of `solver_output` are made of.

        `output` is the last reply as an OpenAI-like object, `messages` the prompt with the reply at the end.
        """
        message = dict(self.reply) if self.reply else {"role": "assistant", "content": self.text}
        usage = {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens}
        output = {"choices": [{"message": message, "finish_reason": self.finish_reason}], "usage": usage}
        return {"output": output, "messages": [*(self.prompt or ()), message]}


@dataclass(frozen=True)
class Completions:
    """What the model said, one row per sample and trial in the order of the samples; see `COMPLETION_SCHEMA`.

    `prompt` and `reply` hold JSON text. `source` is `live`, `recorded` or `builtin`. Recorded ones that
    another tool has judged have the columns of `THEIR_SCHEMA` as well.
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
    def build_texts(
        cls,
        ids: pl.Series,
        texts: pl.Series,
        *,
        source: str,
        absent: CompletionStatus = CompletionStatus.NO_TEXT,
    ) -> Self:
        """Return the table of plain texts, where null has the status `absent`; no Python value is made."""
        status = pl.when(pl.col("completion").is_null()).then(pl.lit(absent.value))
        known = {
            "sample_id": pl.col("sample_id"),
            "trial": pl.lit(0, dtype=pl.Int32),
            "completion": pl.col("completion"),
            "status": status.otherwise(pl.lit(CompletionStatus.OK.value)),
            "usage": pl.struct(
                pl.lit(None, dtype=pl.Int64).alias("prompt_tokens"),
                pl.lit(None, dtype=pl.Int64).alias("completion_tokens"),
            ),
            "source": pl.lit(source),
        }
        nothing = {name: pl.lit(None, dtype=dtype) for name, dtype in COMPLETION_SCHEMA.items()}
        frame = pl.DataFrame({"sample_id": ids, "completion": texts})
        return cls(frame.select(one.alias(name) for name, one in (nothing | known).items()))

    @classmethod
    def build_blank(cls, ids: pl.Series) -> Self:
        """Return a table for samples that are evaluated without a completion."""
        nothing = pl.Series([None], dtype=pl.String).new_from_index(0, len(ids))
        return cls.build_texts(ids, nothing, source="dataset", absent=CompletionStatus.OK)

    def __len__(self) -> int:
        return self.frame.height

    def slice(self, offset: int, length: int) -> Self:
        """Return the rows from `offset` on, at most `length` of them."""
        return type(self)(self.frame.slice(offset, length))

    def take(self, positions: Sequence[int] | pl.Series) -> Self:
        """Return the rows at these positions, in this order."""
        return type(self)(self.frame[pl.Series(positions, dtype=pl.UInt32)])

    def number(self, trials: range) -> Self:
        """Return the table with these trial numbers, for every sample over again."""
        if len(trials) == 1:
            return type(self)(self.frame.with_columns(pl.lit(trials.start, pl.Int32).alias("trial")))
        trial = trials.start + pl.int_range(pl.len()) % len(trials)
        return type(self)(self.frame.with_columns(trial.cast(pl.Int32).alias("trial")))

    def spread(self, positions: Sequence[int], ids: pl.Series, times: int = 1) -> Self:
        """Return a table for all `ids`, these rows at `positions`; the others were not asked: no text.

        There are `times` rows for each position and each id, one after the other.
        """
        everyone = ids.gather(pl.int_range(len(ids) * times, dtype=pl.UInt32, eager=True) // times)
        nothing = pl.repeat(None, len(everyone), dtype=pl.String, eager=True)
        blank = self.build_texts(everyone, nothing, source="not asked")
        places = [position * times + trial for position in positions for trial in range(times)]
        rows = pl.int_range(len(self), len(self) + len(blank), dtype=pl.UInt32, eager=True)
        rows = rows.scatter(places, pl.int_range(len(self), dtype=pl.UInt32, eager=True))
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
