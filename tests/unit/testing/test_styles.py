from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from answerkey.models.responses import read_message
from answerkey.testing import KINDS, Reply, TestServer
from answerkey.testing.replies import Messages, read_prompt

Ask = Callable[..., Any]

BODIES: dict[str, tuple[str, dict[str, object]]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
    "azure": (
        "/openai/deployments/m/chat/completions?api-version=1",
        {"messages": [{"role": "user", "content": "hi"}]},
    ),
    "completions": ("/v1/completions", {"prompt": "hi"}),
    "anthropic": (
        "/v1/messages",
        {"system": "be kind", "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
    ),
    "gemini": (
        "/v1beta/models/g:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    ),
}


@pytest.mark.parametrize("style", BODIES)
def test_every_api_reads_the_prompt(request_any: Ask, style: str) -> None:
    """Whatever the API, the text of the last user message is the prompt."""
    path, body = BODIES[style]
    with TestServer() as server:
        assert request_any(server, body, path).status == 200
        assert server.asked.by_prompt == {"hi": 1}


def test_replies_have_the_shape_of_their_api(request_any: Ask) -> None:
    """Each API has its own place for the text and for the token counts."""
    with TestServer("Blue") as server:
        said = {style: request_any(server, body, path).json for style, (path, body) in BODIES.items()}
    assert said["chat"]["choices"][0]["message"] == {"role": "assistant", "content": "Blue"}
    assert said["chat"]["usage"] == {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    assert said["completions"]["choices"][0]["text"] == "Blue"
    assert said["anthropic"]["content"] == [{"type": "text", "text": "Blue"}]
    assert said["anthropic"]["usage"] == {"input_tokens": 2, "output_tokens": 1}
    assert said["gemini"]["candidates"][0]["content"]["parts"] == [{"text": "Blue"}]
    assert said["gemini"]["usageMetadata"]["candidatesTokenCount"] == 1


EXPECTED: dict[str, tuple[str | None, str]] = {
    "text": ("B\nC", "OK"),
    "list_content": ("B\nC", "OK"),
    "null_content": (None, "NO_TEXT"),
    "empty_text": ("", "OK"),
    "refusal": (None, "REFUSED"),
    "content_filter": (None, "REFUSED"),
    "tool_calls": (None, "NO_TEXT"),
    "truncated": ("B\nC", "OK"),
    "reasoning": ("B\nC", "OK"),
    "empty_choices": (None, "NO_TEXT"),
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_kinds_mean_what_they_say(ask: Ask, kind: Any) -> None:  # noqa: ANN401 - a literal
    """A chat reply of a kind is read as that kind."""
    with TestServer(Reply("B\nC", kind)) as server:
        completion = read_message(ask(server).json)
    assert (completion.text, completion.status.value) == EXPECTED[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("style", BODIES)
def test_every_kind_is_sent_by_every_api(request_any: Ask, style: str, kind: Any) -> None:  # noqa: ANN401 - a literal
    """No kind breaks the server; all have status 200."""
    path, body = BODIES[style]
    with TestServer(Reply("B", kind)) as server:
        assert request_any(server, body, path).status == 200


def test_truncation_and_reasoning_are_told(ask: Ask) -> None:
    """A truncated reply ends for its length; reasoning stands beside the text."""
    with TestServer(Reply("B", "truncated")) as server:
        assert ask(server).json["choices"][0]["finish_reason"] == "length"
        server.change(Reply("B", "reasoning", reasoning="hm"))
        assert ask(server).json["choices"][0]["message"]["reasoning_content"] == "hm"


def test_logprobs_are_given_when_asked_for(ask: Ask) -> None:
    """With `logprobs` the first character has its log probability, and as many rivals as asked for."""
    with TestServer("B") as server:
        got = ask(server, extra={"logprobs": True, "top_logprobs": 3}).json["choices"][0]["logprobs"][
            "content"
        ]
        assert [one["token"] for one in got[0]["top_logprobs"]] == ["B", "A", "C"]
        assert got[0]["logprob"] == -0.1
        assert ask(server).json["choices"][0]["logprobs"] is None


def test_a_reply_may_be_anything(ask: Ask) -> None:
    """Status, headers and body can be given as they are."""
    with TestServer(Reply(status=418, headers={"X-Odd": "1"}, body=b"[]")) as server:
        got = ask(server)
        assert (got.status, got.headers["x-odd"], got.body) == (418, "1", b"[]")


def test_gemini_and_anthropic_hand_over_all_messages(request_any: Ask) -> None:
    """System text and earlier turns reach the function that answers."""
    heard: list[list[object]] = []

    def listen(messages: Messages) -> str:
        heard.append([(one["role"], one["content"]) for one in messages])
        return read_prompt(messages)

    with TestServer(listen) as server:
        contents = [{"role": "user", "parts": [{"text": "a"}]}, {"role": "model", "parts": [{"text": "b"}]}]
        body = {"contents": contents, "systemInstruction": {"parts": [{"text": "s"}]}}
        request_any(server, body, "/v1beta/models/g:generateContent")
        request_any(server, {"system": "s", "messages": [{"role": "user", "content": "a"}]}, "/v1/messages")
    assert heard == [[("system", "s"), ("user", "a"), ("assistant", "b")], [("system", "s"), ("user", "a")]]
