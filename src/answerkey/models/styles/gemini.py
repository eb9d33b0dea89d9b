"""Gemini's own API: `POST …/models/NAME:generateContent`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from answerkey.models.connections import Connection, Message
from answerkey.models.reading import read_body
from answerkey.models.replies import take_gemini
from answerkey.models.styles.messages import split_system
from answerkey.types import Completion

_NAMES = {
    "temperature": "temperature",
    "top_p": "topP",
    "max_tokens": "maxOutputTokens",
    "seed": "seed",
    "stop": "stopSequences",
}
_ROLES = {"user": "user", "assistant": "model"}


@dataclass(frozen=True)
class GeminiContent:
    """The model stands in the address, the system's text apart; the assistant is called `model`."""

    unsupported: ClassVar[frozenset[str]] = frozenset({"echo"})
    takes_schema: ClassVar[bool] = True

    def describe(self) -> object:
        """Return the style's name."""
        return "gemini"

    def build(self, connection: Connection, messages: Sequence[Message]) -> dict[str, object]:
        """Return the request's body."""
        system, others = split_system(messages)
        contents = [{"role": _ROLES[role], "parts": [{"text": text}]} for role, text in others]
        body: dict[str, object] = {"contents": contents}
        if system is not None:
            body["systemInstruction"] = {"parts": [{"text": system}]}
        config = _build_config(connection)
        return body | ({"generationConfig": config} if config else {})

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Completion:
        """Return what the first candidate says."""
        del headers
        return read_body(status, body, take_gemini)


def _build_config(connection: Connection) -> dict[str, object]:
    generation = connection.generation
    config = {_NAMES[name]: value for name, value in generation.given().items() if name in _NAMES}
    if generation.wants_logprobs:
        config["responseLogprobs"] = True
        if generation.top_logprobs is not None:
            config["logprobs"] = generation.top_logprobs
    if connection.schema is not None:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": dict(connection.schema)}
    return config


GEMINI = GeminiContent()
