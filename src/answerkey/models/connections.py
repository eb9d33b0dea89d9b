"""Everything that is needed to send one request, and nothing that may be shown by accident."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Protocol
from urllib.parse import urlsplit

from answerkey.errors import HIDDEN, SpecError
from answerkey.models.generation import Generation
from answerkey.models.hosts import NODE_IP, put_address
from answerkey.models.secret import SHORTEST_KEY, Secret
from answerkey.types import Completion

Message = Mapping[str, object]

_NEVER = r"(?!)"


class ApiStyle(Protocol):
    """How one API is spoken: what a request's body is, and what the body of its answer says."""

    @property
    def unsupported(self) -> frozenset[str]:
        """The fields of `Generation` that the API does not have."""
        ...

    @property
    def takes_schema(self) -> bool:
        """Whether the API can be asked for JSON of a given shape."""
        ...

    def describe(self) -> object:
        """Return what tells this style from others, as JSON values; part of a connection's identity."""
        ...

    def build(self, connection: Connection, messages: Sequence[Message]) -> object:
        """Return the JSON body of a request; SolverError E302 for messages that cannot be put into one."""
        ...

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Completion:
        """Return what an answer says; total: it never raises."""
        ...


@dataclass(frozen=True)
class Tls:
    """How an endpoint proves who it is: certificates (PEM text) that are trusted instead of the system's."""

    trusted_ca: str | None = None


@dataclass(frozen=True)
class Connection:
    """Who is asked, where, and how. `identity` stands for all that decides the answers.

    `missing_key` names the environment value whose key the endpoint will ask for and which is not set.
    `schema` is the JSON Schema that the answer is to have, where the API takes one.
    """

    name: str
    style: ApiStyle
    url: str
    model: str | None = None
    headers: Mapping[str, Secret | str] = field(default_factory=dict)
    key: Secret | None = None
    generation: Generation = field(default_factory=Generation)
    schema: Mapping[str, object] | None = None
    tls: Tls | None = None
    max_concurrent: int | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    missing_key: str | None = None

    @cached_property
    def identity(self) -> str:
        """A hash of everything that decides the answers; no secret is in it."""
        parts = {
            "url": self.url,
            "model": self.model,
            "style": self.style.describe(),
            "generation": self.generation.given(),
            "schema": self.schema,
            "headers": {name: value for name, value in self.headers.items() if isinstance(value, str)},
        }
        return sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()

    @property
    def host(self) -> str:
        """The host that is asked, for messages."""
        return urlsplit(self.url).hostname or self.url

    @property
    def is_per_node(self) -> bool:
        """Whether each node of a cluster asks an endpoint of its own."""
        return self.host == NODE_IP

    def at_node(self, address: str) -> Connection:
        """Return the connection as a node with this address uses it."""
        return replace(self, url=put_address(self.url, address))

    def build(self, messages: Sequence[Message]) -> object:
        """Return the JSON body of the request for these messages; SolverError E302 when there is none."""
        return self.style.build(self, messages)

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Completion:
        """Return what an answer says, without a key that the endpoint sends back; never raises."""
        if b"\\" in body or any(map(body.__contains__, self._plain_secrets)):
            body = self._hidden_bytes.sub(HIDDEN.encode(), body)
        return self.style.read(status, headers, body)

    def hide(self, text: str) -> str:
        """Return a text, such as the message of a foreign exception, with every secret in it as `***`."""
        return self._hidden.sub(HIDDEN, text)

    def reveal_headers(self) -> dict[str, str]:
        """Return the headers as they are sent; the one place where secrets leave their cover."""
        return {
            name: value.reveal() if isinstance(value, Secret) else value
            for name, value in self.headers.items()
        }

    def ask_for(self, schema: Mapping[str, object]) -> Connection:
        """Return the connection for answers of a shape; the same one where the API cannot be asked for it."""
        return replace(self, schema=schema) if self.style.takes_schema else self

    def require_key(self) -> None:
        """Raise SpecError E117 when the endpoint will ask for a key and there is none."""
        if self.missing_key is not None:
            hint = f"set it in the environment or in `.env`: `{self.missing_key}=…`"
            message = f"model `{self.name}` needs a key, and `{self.missing_key}` is not set"
            raise SpecError("E117", message, hint=hint)

    def require_address(self) -> None:
        """Raise SpecError E119 when the address is that of a node, and none is meant."""
        if self.is_per_node:
            message = f"model `{self.name}`: `{NODE_IP}` stands for the node of a cluster that asks"
            raise SpecError("E119", message, hint="add `--engine ray`, or write an address in its place")

    @property
    def has_secret(self) -> bool:
        """Whether a key, or a header that may hold one, is sent."""
        return any(isinstance(value, Secret) and value for value in (*self.headers.values(), self.key))

    @cached_property
    def _hidden(self) -> re.Pattern[str]:
        """What is hidden: the secrets, longest first, in plain text and in any form that JSON has for it."""
        texts = sorted(self._secrets, key=len, reverse=True)
        return re.compile("|".join("".join(map(_match_character, text)) for text in texts) or _NEVER)

    @cached_property
    def _hidden_bytes(self) -> re.Pattern[bytes]:
        return re.compile(self._hidden.pattern.encode())

    @cached_property
    def _plain_secrets(self) -> list[bytes]:
        """The secrets as they stand in a body without a backslash."""
        return [text.encode() for text in self._secrets]

    @property
    def _secrets(self) -> set[str]:
        held = [value for value in (*self.headers.values(), self.key) if isinstance(value, Secret)]
        return {secret.reveal() for secret in held if len(secret.reveal()) >= SHORTEST_KEY}


def _match_character(character: str) -> str:
    """Return a pattern for a character of a key, as itself or escaped; keys are ASCII."""
    plain = re.escape(character)
    return f"(?:{plain}|(?i:\\\\u{ord(character):04x})|\\\\{plain})"
