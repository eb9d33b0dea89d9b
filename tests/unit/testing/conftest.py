"""A plain client for the test server."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from answerkey.testing import TestServer

CHAT = "/v1/chat/completions"


@dataclass(frozen=True)
class Got:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever the server said
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def text(self) -> object:
        """The content of the chat message."""
        return self.json["choices"][0]["message"]["content"]


def send(
    server: TestServer,
    body: object,
    path: str = CHAT,
    *,
    method: str = "POST",
    headers: dict[str, str] | None = None,
    timeout: float = 120,
) -> Got:
    """Send one request on a connection of its own and return what came back."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else None
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)) as connection:
        connection.request(method, path, content, headers or {})
        got = connection.getresponse()
        return Got(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())


@pytest.fixture
def ask() -> Callable[..., Got]:
    """Return a function that asks one question in the way of OpenAI's chat."""

    def ask_one(server: TestServer, prompt: str = "hi", path: str = CHAT, **options: Any) -> Got:  # noqa: ANN401
        messages = [{"role": "user", "content": prompt}]
        return send(server, {"model": "m", "messages": messages, **options.pop("extra", {})}, path, **options)

    return ask_one


@pytest.fixture
def request_any() -> Callable[..., Got]:
    """Return a function that sends any request."""
    return send
