"""What batches brought back: lines with a `custom_id` and an answer, in any order, without the questions.

The questions come from a dataset whose ids are the `custom_id`s. Without one there are only completions.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from answerkey.exchange.archives import DamagedError
from answerkey.exchange.fields import get, get_text
from answerkey.exchange.lines import Line
from answerkey.exchange.logs import Glimpse, Log, Row
from answerkey.exchange.plain import require_dataset
from answerkey.models.responses import (
    fail,
    find_complaint,
    read_body,
    read_message,
    take_anthropic,
    take_chat,
    take_text,
)
from answerkey.types import Completion, CompletionStatus

_OK = 200


class _BatchReader(ABC):
    """What both kinds of batches have in common."""

    kind: ClassVar[str]
    title: ClassVar[str]

    def read(self, log: Log) -> Iterator[Line]:
        """Yield a line for each question of the dataset, then one for each answer."""
        questions = require_dataset(log)
        for sample_id, row in questions.iterate() if questions else ():
            yield Line(sample_id, questions.roles.read_asked(row) if questions else None)
        log.told.task = (log.wishes.dataset or log.path).name.partition(".")[0]
        if questions is None:
            hint = "name the file with the questions: `--dataset FILE`"
            log.notice("the log has no questions and no truths: only completions are written", hint)
        for piece in log.pieces():
            if not piece.name.endswith((".jsonl", ".ndjson", ".gz", ".zst")) and log.path.is_dir():
                continue
            for number, row in log.read_lines(piece):
                line = log.take(self._read_row, row, piece, number)
                if line is not None:
                    log.told.model = log.told.model or self.name_model(row)
                    yield line

    def _read_row(self, row: Row) -> Line:
        name = get_text(row, "custom_id")
        if not name:
            raise DamagedError("the line has no `custom_id`")
        return Line(name, None, self.read_answer(row))

    @abstractmethod
    def read_answer(self, row: Row) -> Completion:
        """Return what a line says."""

    @abstractmethod
    def name_model(self, row: Row) -> str | None:
        """Return the model that a line names."""


class OpenAiBatchReader(_BatchReader):
    """Reads output and error files of OpenAI's batches, and of those who copied them."""

    kind: ClassVar[str] = "openai-batch"
    title: ClassVar[str] = "OpenAI batch output"

    @classmethod
    def recognises(cls, glimpse: Glimpse) -> bool:
        """Return whether the first line has a `custom_id` and a place for an answer."""
        return "custom_id" in glimpse.first and {"response", "error"} & set(glimpse.first) != set()

    def read_answer(self, row: Row) -> Completion:
        """Return what a line says: a chat completion, a text completion, or a response."""
        error, answer = row.get("error"), row.get("response")
        if error:
            return fail(
                f"{get_text(error, 'code') or 'error'}: {find_complaint(error) or 'no reason is given'}"
            )
        if not isinstance(answer, dict):
            return fail("the line has neither an answer nor an error")
        status, body = answer.get("status_code"), answer.get("body")
        status = status if isinstance(status, int) else _OK
        if get(body, "object") == "response" or (
            get(body, "output") is not None and not get(body, "choices")
        ):
            return _read_output(status, body)
        is_text = get(body, "object") == "text_completion"
        return read_body(status, _write(body), take_text if is_text else take_chat)

    def name_model(self, row: Row) -> str | None:
        """Return the model that answered."""
        return get_text(row, "response", "body", "model")


class AnthropicBatchReader(_BatchReader):
    """Reads the results of Anthropic's message batches."""

    kind: ClassVar[str] = "anthropic-batch"
    title: ClassVar[str] = "Anthropic batch output"

    @classmethod
    def recognises(cls, glimpse: Glimpse) -> bool:
        """Return whether the first line has a `custom_id` and a result with a type."""
        return "custom_id" in glimpse.first and get_text(glimpse.first, "result", "type") is not None

    def read_answer(self, row: Row) -> Completion:
        """Return what a line says: a message, or why there is none."""
        kind, message = get_text(row, "result", "type"), get(row, "result", "message")
        if kind != "succeeded":
            reason = find_complaint(get(row, "result", "error"))
            return fail(f"{kind or 'no result'}: {reason}" if reason else str(kind or "no result"))
        return read_body(_OK, _write(message), take_anthropic)

    def name_model(self, row: Row) -> str | None:
        """Return the model that answered."""
        return get_text(row, "result", "message", "model")


def _write(body: object) -> bytes:
    if isinstance(body, str):
        return body.encode(errors="replace")
    try:
        return json.dumps(body).encode()
    except RecursionError:
        return b""


def _read_output(status: int, body: object) -> Completion:
    """Return what a body of the Responses API says: the texts of its messages, thoughts apart."""
    if status >= 400:  # noqa: PLR2004 - the statuses of HTTP that are errors
        return fail(f"HTTP {status}: {find_complaint(body)}")
    if get_text(body, "status") in {"failed", "cancelled"}:
        return fail(find_complaint(get(body, "error")) or f"the response is {get_text(body, 'status')}")
    said = read_message({"output": get(body, "output"), "usage": get(body, "usage")})
    is_cut = get_text(body, "incomplete_details", "reason") in {"max_output_tokens", "max_tokens"}
    is_filtered = get_text(body, "incomplete_details", "reason") == "content_filter"
    if is_filtered and not said.text:
        return replace(said, text=None, status=CompletionStatus.REFUSED, finish_reason="content_filter")
    return replace(said, finish_reason="length" if is_cut else "stop")
