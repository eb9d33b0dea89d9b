"""Anthropic's own API: `POST …/messages`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from answerkey.models.connections import Connection, Message
from answerkey.models.reading import read_body
from answerkey.models.replies import take_anthropic
from answerkey.models.styles.messages import split_system
from answerkey.types import Completion

#: The API asks for a limit; this one is far above the length of an answer to a question with choices.
DEFAULT_MAX_TOKENS = 4096
VERSION = "2023-06-01"
_NAMES = {"stop": "stop_sequences"}


@dataclass(frozen=True)
class AnthropicMessages:
    """The system's text stands apart; there is neither a seed nor log probabilities."""

    unsupported: ClassVar[frozenset[str]] = frozenset({"seed", "logprobs", "top_logprobs", "echo"})
    takes_schema: ClassVar[bool] = False

    def describe(self) -> object:
        """Return the style's name and what it sends by itself."""
        return ["anthropic", DEFAULT_MAX_TOKENS]

    def build(self, connection: Connection, messages: Sequence[Message]) -> dict[str, object]:
        """Return the request's body."""
        system, others = split_system(messages)
        body: dict[str, object] = {
            "model": connection.model,
            "max_tokens": DEFAULT_MAX_TOKENS,
            "messages": [{"role": role, "content": text} for role, text in others],
        }
        if system is not None:
            body["system"] = system
        given = connection.generation.given()
        return body | {_NAMES.get(name, name): value for name, value in given.items()}

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Completion:
        """Return what a message says."""
        del headers
        return read_body(status, body, take_anthropic)


ANTHROPIC = AnthropicMessages()
