from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest

from answerkey.models.providers import ANTHROPIC, OPENAI_CHAT, Adapter, AdapterStyle, Connection, OpenAiChat
from answerkey.models.settings import Generation, Secret

KEY = "sk-canary-0123456789/+="
CONNECTION = Connection(
    name="openai/x",
    style=OPENAI_CHAT,
    url="https://x.example/v1/chat/completions",
    model="x",
    headers={"Authorization": Secret(f"Bearer {KEY}"), "X-Tier": "gold"},
    key=Secret(KEY),
)


def test_secrets_do_not_show() -> None:
    """Neither the printed form nor the identity of a connection has a secret in it; it cannot be stored."""
    assert "canary" not in repr(CONNECTION)
    assert "canary" not in str(CONNECTION)
    with pytest.raises(TypeError):
        pickle.dumps(CONNECTION)


def test_the_identity_is_what_decides_the_answers() -> None:
    """URL, model, API, generation, schema and plain headers count; keys, names and limits do not."""
    same = replace(
        CONNECTION,
        name="other",
        key=None,
        headers={"X-Tier": "gold", "Authorization": Secret("y")},
        style=OpenAiChat("max_completion_tokens"),
        max_concurrent=3,
        missing_key="K",
    )
    assert same.identity == CONNECTION.identity
    others = [
        replace(CONNECTION, url="https://y.example/v1/chat/completions"),
        replace(CONNECTION, model="y"),
        replace(CONNECTION, style=ANTHROPIC),
        replace(CONNECTION, generation=Generation(temperature=0)),
        replace(CONNECTION, generation=Generation(temperature=1)),
        replace(CONNECTION, headers={"X-Tier": "silver"}),
        CONNECTION.ask_for({"type": "object"}),
        replace(CONNECTION, style=AdapterStyle(Adapter("a", "{}", "{}"))),
        replace(CONNECTION, style=AdapterStyle(Adapter("a", "{}", "{ }"))),
    ]
    assert len({one.identity for one in [CONNECTION, *others]}) == 10


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": f"Incorrect API key provided: {KEY}"}},
        {"echo": {"authorization": f"Bearer {KEY}"}},
        {"choices": [{"message": {"content": f"Your key is {KEY}."}}]},
        {"choices": [{"message": {"content": "B", "reasoning": KEY}, "logprobs": {"x": KEY}}]},
        {"choices": [{"message": {"content": None, "refusal": KEY}}]},
    ],
)
@pytest.mark.parametrize("status", [200, 401])
def test_a_key_that_comes_back_is_hidden(body: object, status: int) -> None:
    """Whatever an endpoint sends back, the key is stored nowhere."""
    for text in (
        json.dumps(body),
        json.dumps(body).replace("/", "\\/"),
        json.dumps(body).replace("s", "\\u0073"),
        f"<html>{KEY}",
    ):
        completion = CONNECTION.read(status, {}, text.encode())
        assert KEY not in repr(completion)
        assert "canary" not in repr(completion)


def test_short_keys_are_no_secrets() -> None:
    """A key such as `EMPTY` may be part of an answer; it is not hidden there."""
    connection = replace(CONNECTION, headers={"Authorization": Secret("Bearer EMPTY")}, key=Secret("EMPTY"))
    body = json.dumps({"choices": [{"message": {"content": "EMPTY set"}}]}).encode()
    assert connection.read(200, {}, body).text == "EMPTY set"


def test_texts_can_be_cleaned() -> None:
    """A foreign message loses the secrets in it."""
    assert CONNECTION.hide(f"cannot send {KEY}!") == "cannot send ***!"


def test_a_schema_is_asked_for_where_it_can_be() -> None:
    """APIs without structured answers are asked without."""
    assert CONNECTION.ask_for({"type": "object"}).schema == {"type": "object"}
    plain = replace(CONNECTION, style=ANTHROPIC)
    assert plain.ask_for({"type": "object"}) is plain
