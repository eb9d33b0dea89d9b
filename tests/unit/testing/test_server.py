from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from answerkey.testing import Behaviour, Reply, TestServer
from answerkey.testing.replies import Messages

Ask = Callable[..., Any]


def test_answers_are_fixed_recorded_or_computed(ask: Ask) -> None:
    """A text answers everything, a mapping by the last user message, a function by all messages."""

    def shout(messages: Messages) -> str:
        return str(messages[-1]["content"]).upper()

    with TestServer("B") as server:
        assert ask(server).text == "B"
        server.change({"one": "1", "two": Reply("2")})
        assert ask(server, "two").text == "2"
        assert ask(server, "three").status == 400
        server.change(shout)
        assert ask(server, "loud").text == "LOUD"


def test_everything_is_counted(ask: Ask) -> None:
    """Requests, prompts, paths, statuses, connections and keys are counted; `forget` begins anew."""
    with TestServer() as server:
        for prompt in ("x", "x", "y"):
            ask(server, prompt, headers={"Authorization": "Bearer k"})
        asked = server.asked
        assert (asked.total, asked.answered, asked.at_once) == (3, 3, 0)
        assert asked.by_prompt == {"x": 2, "y": 1}
        assert asked.by_path == {"/v1/chat/completions": 3}
        assert asked.statuses == {200: 3}
        assert asked.keys == {"Bearer k": 3}
        assert len(asked.connections) == 3
        assert [one.body["messages"][0]["content"] for one in asked.requests if one.body] == ["x", "x", "y"]
        server.forget()
        assert server.asked.total == 0


def test_counts_are_read_over_http(ask: Ask, request_any: Ask) -> None:
    """`GET /asked` gives the counts as JSON, without keys, and is not counted itself."""
    with TestServer() as server:
        ask(server, headers={"Authorization": "Bearer secret"})
        got = request_any(server, None, "/asked", method="GET")
        assert got.json["total"] == 1
        assert got.json["by_prompt"] == {"hi": 1}
        assert b"secret" not in got.body
        assert request_any(server, None, "/asked", method="GET").json["total"] == 1


def test_requests_at_once_are_counted(ask: Ask) -> None:
    """The largest number of requests that were being answered together is kept."""

    def go() -> None:
        with suppress(ConnectionError, http.client.HTTPException):
            ask(server)

    threads = [threading.Thread(target=go) for _ in range(3)]
    with TestServer(Reply(delay=600.0)) as server:
        for thread in threads:
            thread.start()
        while server.asked.at_once < 3:
            threads[0].join(0.01)
    for thread in threads:
        thread.join()
    assert (server.asked.most_at_once, server.asked.at_once) == (3, 0)


def test_limits_answer_429(ask: Ask) -> None:
    """More requests in a minute than allowed are refused, with the seconds to wait."""
    with TestServer(behaviour=Behaviour(requests_per_minute=2)) as server:
        assert [ask(server).status for _ in range(3)] == [200, 200, 429]
        assert 0 < int(ask(server).headers["retry-after"]) <= 60
        server.change(requests_per_minute=None, max_concurrent=0)
        assert ask(server).status == 429


@pytest.mark.parametrize(
    "headers", [{"Authorization": "Bearer right"}, {"x-api-key": "right"}, {"x-goog-api-key": "right"}]
)
def test_key_is_asked_for(ask: Ask, headers: dict[str, str]) -> None:
    """With `api_key` a request without it, or with another, is refused with 401."""
    with TestServer(behaviour=Behaviour(api_key="right")) as server:
        assert ask(server).status == 401
        assert ask(server, headers={"Authorization": "Bearer wrong"}).status == 401
        assert ask(server, headers=headers).status == 200


def test_canary_is_looked_out_for(ask: Ask) -> None:
    """Every place where the canary arrives is counted by its name."""
    with TestServer(behaviour=Behaviour(canary="sk-1")) as server:
        ask(server, headers={"Authorization": "Bearer sk-1"})
        ask(server, "my key is sk-1")
        ask(server, path="/v1/chat/completions?key=sk-1")
        assert server.asked.canary_places == {"header authorization": 1, "body": 1, "path": 1}


def test_unknown_fields_are_refused(ask: Ask) -> None:
    """A field that the endpoint does not know is a 400 that names it."""
    with TestServer(behaviour=Behaviour(unknown_fields=("response_format",))) as server:
        got = ask(server, extra={"response_format": {"type": "json_object"}})
        assert got.status == 400
        assert "response_format" in got.json["error"]["message"]
        assert ask(server).status == 200


def test_bodies_that_are_no_json_are_refused(request_any: Ask) -> None:
    """A body that is no JSON object is a 400; a path that is nothing is a 404."""
    with TestServer() as server:
        assert request_any(server, b"{").status == 400
        assert request_any(server, [1]).status == 400
        assert request_any(server, {}, "/v1/embeddings").status == 404


def read_to_end(client: socket.socket) -> bytes:
    """Return what arrives until the connection ends, in whichever way."""
    client.settimeout(120)
    try:
        return client.recv(1)
    except ConnectionError:
        return b""


def test_stop_leaves_nothing_behind(ask: Ask) -> None:
    """After `stop` the thread is gone and the port is free; a second `stop` does no harm."""
    server = TestServer(behaviour=Behaviour(faults={"hang": 1.0})).start()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        body = b'{"messages": []}'
        client.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
            % (len(body), body)
        )
        server.stop()
        assert read_to_end(client) == b""
    server.stop()
    assert "answerkey test server" not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(ConnectionRefusedError):
        ask(server)


def test_port_that_is_taken_is_an_error() -> None:
    """A port that somebody else listens on is an OSError at the start."""
    with TestServer() as first, pytest.raises(OSError, match="address"):
        TestServer(port=first.port).start()
