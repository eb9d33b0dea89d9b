"""Laws of the test server: what it answers, how it fails, what it counts.

And that its page says so.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import re
import socket
import threading
from contextlib import closing, suppress
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest

from answerkey.models.responses import read_message
from answerkey.testing import FAULTS, KINDS, Asked, Behaviour, Reply, TestServer, answer_by_hash
from answerkey.testing.replies import Messages, read_prompt

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "testing.md"
CHAT = "/v1/chat/completions"
HI = [{"role": "user", "content": "hi"}]
BODIES: dict[str, tuple[str, dict[str, object]]] = {
    "chat": (CHAT, {"messages": HI}),
    "azure": ("/openai/deployments/m/chat/completions?api-version=1", {"messages": HI}),
    "completions": ("/v1/completions", {"prompt": "hi"}),
    "anthropic": (
        "/v1/messages",
        {
            "system": "be kind",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        },
    ),
    "gemini": (
        "/v1beta/models/g:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    ),
}


@dataclasses.dataclass(frozen=True)
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
    def choice(self) -> Any:  # noqa: ANN401 - whatever the server said
        """The first choice of a chat completion."""
        return self.json["choices"][0]

    @property
    def text(self) -> object:
        """The content of the chat message."""
        return self.choice["message"]["content"]


def send(
    server: TestServer,
    body: object,
    path: str = CHAT,
    method: str = "POST",
    **options: Any,  # noqa: ANN401 - headers, timeout
) -> Got:
    """Send one request on a connection of its own and return what came back."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection(
        "127.0.0.1", server.port, timeout=options.get("timeout", 120)
    )
    with closing(connection):
        connection.request(method, path, content, options.get("headers", {}))
        got = connection.getresponse()
        headers = {name.lower(): value for name, value in got.getheaders()}
        return Got(got.status, headers, got.read())


def ask(server: TestServer, prompt: str = "hi", path: str = CHAT, **options: Any) -> Got:  # noqa: ANN401 - see `send`
    """Ask one question in the way of OpenAI's chat."""
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": prompt}],
        **options.pop("extra", {}),
    }
    return send(server, body, path, **options)


# What it answers.


def test_answers_are_fixed_recorded_or_computed() -> None:
    """A text answers everything, a mapping by the last user message, a function by all messages."""
    with TestServer("B") as server:
        assert ask(server).text == "B"
        server.change({"one": "1", "two": Reply("2")})
        assert ask(server, "two").text == "2"
        assert ask(server, "three").status == 400
        server.change(lambda messages: str(messages[-1]["content"]).upper())
        assert ask(server, "loud").text == "LOUD"
        server.change(Reply(status=418, headers={"X-Odd": "1"}, body=b"[]"))
        got = ask(server)
        assert (got.status, got.headers["x-odd"], got.body) == (418, "1", b"[]")


def test_every_api_reads_the_prompt_and_sends_every_kind() -> None:
    """Whatever the API, the text of the last user message is the prompt.

    No kind breaks the server.
    """
    with TestServer() as server:
        for path, body in BODIES.values():
            server.forget()
            for kind in KINDS:
                server.change(Reply("B", kind))
                assert send(server, body, path).status == 200
            assert server.asked.by_prompt == {"hi": len(KINDS)}


def test_replies_have_the_shape_of_their_api() -> None:
    """Each API has its own place for the text and for the token counts."""
    with TestServer("Blue") as server:
        sent = {style: send(server, body, path).json for style, (path, body) in BODIES.items()}
    assert sent["chat"]["choices"][0]["message"] == {"role": "assistant", "content": "Blue"}
    assert sent["chat"]["usage"] == {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    assert sent["completions"]["choices"][0]["text"] == "Blue"
    assert sent["anthropic"]["content"] == [{"type": "text", "text": "Blue"}]
    assert sent["anthropic"]["usage"] == {"input_tokens": 2, "output_tokens": 1}
    assert sent["gemini"]["candidates"][0]["content"]["parts"] == [{"text": "Blue"}]
    assert sent["gemini"]["usageMetadata"]["candidatesTokenCount"] == 1


def test_kinds_mean_what_they_say() -> None:
    """A chat reply of a kind is read as that kind; a truncated one ends for its length."""
    expected: dict[Any, tuple[str | None, str]] = {
        **dict.fromkeys(("text", "truncated", "reasoning"), ("B\nC", "OK")),
        "null_content": (None, "NO_TEXT"),
        "refusal": (None, "REFUSED"),
        "empty_text": ("", "OK"),
    }
    with TestServer() as server:
        for kind, meant in expected.items():
            server.change(Reply("B\nC", kind, reasoning="hm"))
            got = ask(server)
            reply = read_message(got.json)
            assert (reply.text, reply.status.value) == meant
            assert (reply.finish_reason == "length") == (kind == "truncated")
            assert (kind == "reasoning") == ('"reasoning_content": "hm"' in got.body.decode())


def test_logprobs_are_sent_on_request() -> None:
    """With `logprobs` the first character has its log probability, and as many rivals as asked
    for.
    """
    with TestServer("B") as server:
        got = ask(server, extra={"logprobs": True, "top_logprobs": 3}).choice["logprobs"]["content"]
        assert [entry["token"] for entry in got[0]["top_logprobs"]] == ["B", "A", "C"]
        assert got[0]["logprob"] == -0.1
        assert ask(server).choice["logprobs"] is None


def test_gemini_and_anthropic_hand_over_all_messages() -> None:
    """System text and earlier turns reach the function that answers."""
    heard: list[list[object]] = []

    def listen(messages: Messages) -> str:
        heard.append([(message["role"], message["content"]) for message in messages])
        return read_prompt(messages)

    with TestServer(listen) as server:
        contents = [{"role": "user", "parts": [{"text": "a"}]}]
        contents += [{"role": "model", "parts": [{"text": "b"}]}]
        body = {"contents": contents, "systemInstruction": {"parts": [{"text": "s"}]}}
        send(server, body, "/v1beta/models/g:generateContent")
        send(
            server, {"system": "s", "messages": [{"role": "user", "content": "a"}]}, "/v1/messages"
        )
    start = [("system", "s"), ("user", "a")]
    assert heard == [[*start, ("assistant", "b")], start]


# What it counts, and whom it refuses.


def test_everything_is_counted() -> None:
    """All of a request is counted, keys and connections too; `forget` begins anew."""
    with TestServer() as server:
        for prompt in ("x", "x", "y"):
            ask(server, prompt, headers={"Authorization": "Bearer secret"})
        counts = server.asked
        assert (counts.total, counts.answered, counts.at_once) == (3, 3, 0)
        assert (counts.by_prompt, counts.by_path) == ({"x": 2, "y": 1}, {CHAT: 3})
        assert (counts.statuses, counts.keys) == ({200: 3}, {"Bearer secret": 3})
        assert len(counts.connections) == 3
        assert [request.path for request in counts.requests] == [CHAT] * 3
        server.forget()
        assert server.asked.total == 0


def test_requests_at_once_are_counted() -> None:
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


def test_limits_answer_429() -> None:
    """More requests in a minute than allowed are refused, with the seconds to wait."""
    with TestServer(behaviour=Behaviour(requests_per_minute=2)) as server:
        assert [ask(server).status for _ in range(3)] == [200, 200, 429]
        assert 0 < int(ask(server).headers["retry-after"]) <= 60
        server.change(requests_per_minute=None, max_concurrent=0)
        assert ask(server).status == 429


def test_invalid_requests_are_explained() -> None:
    """Another key is 401.

    A field that is not known, and a body that is no JSON object, 400; a path 404.
    """
    with TestServer(
        behaviour=Behaviour(api_key="right", unknown_fields=("response_format",))
    ) as server:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            assert ask(server, headers=headers).status == 401
        keys = {"Authorization": "Bearer right", "x-api-key": "right", "api-key": "right"}
        for name, value in keys.items():
            assert ask(server, headers={name: value}).status == 200
        good = {"x-goog-api-key": "right"}
        got = ask(server, extra={"response_format": {"type": "json_object"}}, headers=good)
        assert (got.status, "response_format" in got.json["error"]["message"]) == (400, True)
        assert [send(server, body, headers=good).status for body in (b"{", [1])] == [400, 400]
        assert send(server, {}, "/v1/embeddings", headers=good).status == 404


def test_stop_leaves_nothing_behind() -> None:
    """After `stop` the thread is gone and the port is free; a second `stop` does no harm."""
    server = TestServer(behaviour=Behaviour(faults={"hang": 1.0})).start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as client:
        client.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        server.stop()
        with suppress(ConnectionError):
            assert client.recv(1) == b""
    server.stop()
    assert "answerkey test server" not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(ConnectionRefusedError):
        ask(server)


def test_port_that_is_taken_is_an_error() -> None:
    """A port that is in use is an OSError at the start."""
    with TestServer() as first, pytest.raises(OSError, match="address"):
        TestServer(port=first.port).start()


# How it fails.


def open_faulty(fault: str, **behaviour: Any) -> TestServer:  # noqa: ANN401 - fields of Behaviour
    """Return a server on which the first request of each content meets this fault."""
    return TestServer("B", Behaviour(faults={fault: 1.0}, faulty_attempts=1, **behaviour))


def test_status_faults() -> None:
    """A status code is answered with an error body and nothing to wait for.

    The next attempt is good. A redirect leads to `redirect_to`.
    """
    with open_faulty("500", redirect_to="http://127.0.0.1:9/x") as server:
        for status in ("400", "401", "403", "404", "408", "409", "422", "425", "429", "500", "503"):
            server.change(faults={status: 1.0})
            got = ask(server, status)
            assert (got.status, "retry-after" in got.headers) == (int(status), False)
            assert got.json["error"]["message"]
            assert ask(server, status).text == "B"
            assert server.asked.faults[status] == 1
        assert server.asked.answered == 11
        for status in ("301", "302", "303", "307", "308"):
            server.change(faults={status: 1.0})
            got = ask(server, status)
            assert (got.status, got.headers["location"]) == (int(status), "http://127.0.0.1:9/x")


def test_retry_after_in_both_forms() -> None:
    """`Retry-After` comes in seconds or as a date."""
    with open_faulty("429_seconds", retry_after=7) as server:
        assert ask(server).headers["retry-after"] == "7"
        server.change(faults={"503_seconds": 1.0})
        assert (ask(server, "b").status, ask(server, "c").headers["retry-after"]) == (503, "7")
        server.change(faults={"429_date": 1.0})
        got = ask(server, "d")
        moment = parsedate_to_datetime(got.headers["retry-after"])
        assert 0 <= (moment - parsedate_to_datetime(got.headers["date"])).total_seconds() <= 8


def test_connections_break() -> None:
    """A reset, half a body, silence until `hang_seconds` have passed."""
    with open_faulty("reset") as server:
        with pytest.raises(ConnectionResetError):
            ask(server)
        assert server.asked.statuses == {0: 1}
        server.change(faults={"cut": 1.0})
        with pytest.raises(http.client.IncompleteRead):
            ask(server, "b")
        server.change(faults={"hang": 1.0})
        with pytest.raises(TimeoutError):
            ask(server, "d", timeout=0.2)
        server.change(hang_seconds=0.0)
        with pytest.raises(ConnectionResetError):
            ask(server, "e")
        server.change(faults={"bad_json": 1.0})
        with pytest.raises(ValueError, match="Unterminated"):
            _ = ask(server, "f").json
        server.change(faults={"html": 1.0})
        assert ask(server, "g").headers["content-type"].startswith("text/html")
        server.change(faults={"empty": 1.0})
        assert ask(server, "h").body == b""


def test_endless_body_never_ends() -> None:
    """An endless body goes on until the server stops, which it can."""
    with open_faulty("endless") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        connection.request("POST", CHAT, b'{"messages": []}')
        stream = connection.getresponse()
        assert len(stream.read(1 << 20)) == 1 << 20
    stream.close()
    connection.close()


def test_faults_and_delays_are_drawn() -> None:
    """Of many contents about the share meets each fault; the same ones for the same seed.

    Only the first attempts of a content do, unless `faulty_attempts` is None.
    """
    behaviour = Behaviour(faults={"429": 0.1, "reset": 0.05}, seed=3, delay=(0.1, 0.2))
    numbers = [str(number) for number in range(10_000)]
    drawn = [behaviour.choose_fault(number, 0) for number in numbers]
    assert 900 < drawn.count("429") < 1100
    assert 400 < drawn.count("reset") < 600
    for seed, is_same in ((3, True), (4, False)):
        again = dataclasses.replace(behaviour, seed=seed)
        assert ([again.choose_fault(one, 0) for one in numbers] == drawn) is is_same
    delays = {behaviour.choose_delay(number) for number in numbers[:100]}
    assert (len(delays), min(delays) >= 0.1, max(delays) <= 0.2) == (100, True, True)
    always = Behaviour(faults={"500": 1.0}, faulty_attempts=None, delay=0.5)
    assert (always.choose_fault("x", 99), always.choose_delay("x")) == ("500", 0.5)
    twice = dataclasses.replace(always, faulty_attempts=2)
    assert [twice.choose_fault("x", at) for at in range(4)] == ["500", "500", None, None]


# Settings, and the page about them.


def test_answers_by_hash_are_drawn_by_the_prompt() -> None:
    """The same prompt always gets the same choice; over many prompts, every choice comes up."""
    answer = answer_by_hash(["A", "B"])
    chats: list[Messages] = [[{"role": "user", "content": str(number)}] for number in range(50)]
    replies = [answer(messages) for messages in chats]
    assert set(replies) == {"A", "B"}
    assert replies == [answer_by_hash(["A", "B"])(messages) for messages in chats]


@pytest.mark.parametrize(
    ("faults", "match"),
    [
        ({"oops": 0.1}, "unknown fault"),
        ({"200": 0.1}, "unknown fault"),
        ({"500": 0.7, "429": 0.4}, "shares of faults"),
        ({"500": -1}, "shares of faults"),
    ],
)
def test_wrong_faults_are_refused(faults: dict[str, float], match: str) -> None:
    """Unknown faults are errors that name what there is; so are shares that are none."""
    with pytest.raises(ValueError, match=match):
        Behaviour(faults=faults)


def test_an_unknown_kind_of_reply_is_refused() -> None:
    """The error names the kinds that there are."""
    with pytest.raises(ValueError, match="unknown kind of reply 'odd'; kinds: text,"):
        Reply(kind="odd")  # type: ignore[arg-type]  # it is wrong


def test_page_names_everything() -> None:
    """Every kind, fault, setting and count has its line on the page, and faults say the same
    there.
    """
    page = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*`) \| ([^|]*) \|", page, flags=re.MULTILINE)
    names = {name for cell, _ in rows for name in re.findall(r"`(\w+)`", cell)}
    counts = {field.name for field in dataclasses.fields(Asked) if not field.name.startswith("_")}
    fields = {field.name for field in dataclasses.fields(Behaviour)}
    assert {*KINDS, *fields, *counts} - names == set()
    assert all(f"| `{name}` | {text} |" in page for name, text in FAULTS.items())
