"""An API that the user describes: Jinja turns messages into a request, an answer into a chat completion."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import ClassVar

from answerkey.errors import SolverError
from answerkey.models.connections import Connection, Message
from answerkey.models.generation import Generation
from answerkey.models.reading import ANSWERED, Unreadable, cut_raw, fail, read_body
from answerkey.models.replies import take_chat
from answerkey.templates import JsonText, RowTrouble, Template, TemplateStopped
from answerkey.types import Completion

INPUT_NAMES = ("input", "model_info", "kwargs")
OUTPUT_NAMES = ("body", "status_code")


@dataclass(frozen=True)
class Adapter:
    """The two templates of an adapter, as they are written."""

    key: str
    process_input: str
    process_output: str

    def parts(self) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
        """Return the field, the source, and the names that can be read, of each template."""
        return (
            ("process_input", self.process_input, INPUT_NAMES),
            ("process_output", self.process_output, OUTPUT_NAMES),
        )


@dataclass(frozen=True)
class AdapterStyle:
    """A user's adapter; it is given `generation` only if its template names it, or `kwargs`."""

    adapter: Adapter
    info: Mapping[str, object] = field(default_factory=dict)
    takes_schema: ClassVar[bool] = False

    @cached_property
    def unsupported(self) -> frozenset[str]:
        """All of `Generation`, unless the input template reads it."""
        if any(name in self.adapter.process_input for name in ("generation", "kwargs")):
            return frozenset()
        return frozenset(one.name for one in fields(Generation))

    def describe(self) -> object:
        """Return the templates and what they read of the model."""
        return ["adapter", self.adapter.process_input, self.adapter.process_output, dict(self.info)]

    @cached_property
    def _templates(self) -> list[Template]:
        return [Template.compile(source, names=names) for _, source, names in self.adapter.parts()]

    def build(self, connection: Connection, messages: Sequence[Message]) -> object:
        """Return the request's body: the JSON that the input template writes."""
        told = {"messages": [dict(message) for message in messages]}
        kwargs = connection.generation.given()
        info = {**self.info, "model_key": connection.model, "generation": kwargs}
        try:
            written = self._templates[0].evaluate(input=told, model_info=info, kwargs=kwargs)
        except (RowTrouble, TemplateStopped) as trouble:
            raise self._refuse(trouble.message, trouble.hint) from None
        if not isinstance(written, str):
            return written
        try:
            return json.loads(written, strict=False)
        except (ValueError, RecursionError) as error:
            hint = 'write texts with `tojson`: `"content": {{ message.content | tojson }}`'
            raise self._refuse(f"what it writes is not JSON: {error}", hint) from None

    def _refuse(self, reason: str, hint: str | None) -> SolverError:
        return SolverError("E302", f"adapter `{self.adapter.key}`, `process_input`: {reason}", hint=hint)

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Completion:
        """Return what the output template makes of an answer; it is not shown what reports an error."""
        del headers
        if status not in ANSWERED:
            return read_body(status, body, take_chat)
        start = f"adapter `{self.adapter.key}`, `process_output`"
        try:
            written = self._adapt(status, body)
        except Unreadable as trouble:
            return fail(f"{start}: {trouble}", body)
        completion = read_body(status, written.encode(errors="replace"), take_chat)
        if completion.error is None:
            return completion
        return replace(completion, error=f"{start}: {completion.error}", raw=cut_raw(body))

    def _adapt(self, status: int, body: bytes) -> str:
        try:
            text = JsonText(body.decode("utf-8-sig"))
            made = self._templates[1].evaluate(body=text, status_code=status)
        except UnicodeDecodeError:
            raise Unreadable("the body is not UTF-8") from None
        except (RowTrouble, TemplateStopped) as trouble:
            raise Unreadable(trouble.message) from None
        return _unwrap(made) if isinstance(made, str) else json.dumps(made, default=str)


def _unwrap(text: str) -> str:
    """Return the text inside a JSON text: `{{ body | tojson }}` quotes a body that is text already."""
    if not text.lstrip().startswith('"'):
        return text
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return inner if isinstance(inner, str) else text
