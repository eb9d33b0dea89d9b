"""The APIs that most endpoints speak: chat completions, and text completions for base models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from answerkey.models.connections import Connection, Message
from answerkey.models.reading import read_body
from answerkey.models.replies import take_chat, take_text
from answerkey.models.styles.messages import read_text
from answerkey.types import Completion

SCHEMA_NAME = "answer"


@dataclass(frozen=True)
class OpenAiChat:
    """`POST …/chat/completions`; `limit_field` is how the endpoint calls the limit of tokens."""

    limit_field: str = "max_tokens"
    unsupported: ClassVar[frozenset[str]] = frozenset({"echo"})
    takes_schema: ClassVar[bool] = True

    def describe(self) -> object:
        """Return the style's name; how a limit is called decides no answer."""
        return "chat"

    def build(self, connection: Connection, messages: Sequence[Message]) -> dict[str, object]:
        """Return the request's body."""
        body: dict[str, object] = {"messages": [dict(message) for message in messages]}
        if connection.model is not None:
            body = {"model": connection.model, **body}
        given = connection.generation.given()
        if "max_tokens" in given:
            body[self.limit_field] = given.pop("max_tokens")
        if connection.generation.wants_logprobs:
            given["logprobs"] = True
        if connection.schema is not None:
            shape = {"name": SCHEMA_NAME, "schema": dict(connection.schema), "strict": True}
            given["response_format"] = {"type": "json_schema", "json_schema": shape}
        return body | given

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Completion:
        """Return what a chat completion says."""
        del headers
        return read_body(status, body, take_chat)


@dataclass(frozen=True)
class OpenAiCompletions:
    """`POST …/completions`: the messages are one plain text, without roles, parted by an empty line."""

    unsupported: ClassVar[frozenset[str]] = frozenset()
    takes_schema: ClassVar[bool] = False

    def describe(self) -> object:
        """Return the style's name."""
        return "completions"

    def build(self, connection: Connection, messages: Sequence[Message]) -> dict[str, object]:
        """Return the request's body; `logprobs` is a number in this API."""
        body: dict[str, object] = {"prompt": "\n\n".join(read_text(message) for message in messages)}
        if connection.model is not None:
            body = {"model": connection.model, **body}
        given = connection.generation.given()
        top = given.pop("top_logprobs", None)
        given.pop("logprobs", None)
        if connection.generation.wants_logprobs:
            given["logprobs"] = 1 if top is None else top
        if connection.generation.echo:
            given.setdefault("max_tokens", 1)  # what comes after the text is of no use
        return body | given

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Completion:
        """Return what a text completion says."""
        del headers
        return read_body(status, body, take_text)


OPENAI_CHAT = OpenAiChat()
OPENAI_COMPLETIONS = OpenAiCompletions()
