"""The laws of prompt caching: what many prompts begin with is marked for Anthropic's cache, and
only that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from answerkey.errors import SpecError
from answerkey.models.batch import BatchClient
from answerkey.models.calls import Call, CallSettings, Clock, Submitted, call_key
from answerkey.models.client import ModelClient
from answerkey.models.config import Caller
from answerkey.models.connections import connect
from answerkey.models.providers import SHARING_CALLS, Connection
from answerkey.testing import TestServer

Message = Mapping[str, object]
MARK = {"type": "ephemeral"}
LONG = "Choose one of the options. " * 200
SYSTEM = {"role": "system", "content": LONG}
SHOTS = [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "B"}]


@pytest.fixture
def server() -> Iterator[TestServer]:
    """Return a server that always answers A."""
    with TestServer("A") as running:
        yield running


def open_model(server: TestServer, name: str = "anthropic/m") -> Connection:
    """Return the connection of a model at the server."""
    environment = {"ANTHROPIC_BASE_URL": server.root, "ANTHROPIC_API_KEY": "none"}
    return connect(name, caller=Caller(environment))


def make_calls(connection: Connection, prompts: Sequence[Sequence[Message]]) -> list[Call]:
    """Return one call for each prompt."""
    return [Call(call_key(connection, one, 0), f"{at}", 0, one) for at, one in enumerate(prompts)]


def ask(
    server: TestServer, prompts: Sequence[Sequence[Message]], name: str = "anthropic/m"
) -> list[Any]:
    """Return the bodies that the server was sent for these prompts, in the order of their
    questions.
    """
    connection = open_model(server, name)
    with ModelClient(connection) as client:
        client.complete(make_calls(connection, prompts))
    bodies = [one.body for one in server.asked.requests if one.body is not None]
    return sorted(bodies, key=lambda body: str(body["messages"][-1]["content"]))


def make_prompts(*before: Message, count: int = SHARING_CALLS) -> list[list[Message]]:
    """Return prompts that begin alike."""
    return [
        [*before, {"role": "user", "content": f"question {number:02d}"}] for number in range(count)
    ]


def test_the_last_message_that_all_prompts_share_is_marked(server: TestServer) -> None:
    """The system's text and the examples before it are cached with it.

    The question is sent as ever.
    """
    bodies = ask(server, make_prompts(SYSTEM, *SHOTS))
    assert len(bodies) == SHARING_CALLS
    assert bodies[0] == {
        "model": "m",
        "max_tokens": 4096,
        "messages": [
            {"role": "user", "content": "1 + 1?"},
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "B", "cache_control": MARK}],
            },
            {"role": "user", "content": "question 00"},
        ],
        "system": LONG,
    }
    assert all(str(body).count("cache_control") == 1 for body in bodies)


def test_the_text_of_the_system_alone_is_marked(server: TestServer) -> None:
    """Without examples it is all that the prompts share."""
    bodies = ask(server, make_prompts(SYSTEM))
    assert bodies[0]["system"] == [{"type": "text", "text": LONG, "cache_control": MARK}]
    assert bodies[0]["messages"] == [{"role": "user", "content": "question 00"}]


def test_each_group_of_prompts_is_cached_on_its_own(server: TestServer) -> None:
    """Examples of each subject; a prompt that begins like no other is not marked."""
    others = {"role": "system", "content": f"Other. {LONG}"}
    lone = {"role": "system", "content": f"Lone. {LONG}"}
    prompts = [*make_prompts(SYSTEM), *make_prompts(others), *make_prompts(lone, count=1)]
    marked = [
        str(body["system"])[:40] for body in ask(server, prompts) if "cache_control" in str(body)
    ]
    assert len(marked) == 2 * SHARING_CALLS
    assert not any("Lone" in one for one in marked)


def test_the_rest_of_a_run_is_marked_like_its_begin(server: TestServer) -> None:
    """Prompts come some at a time; what was shared by many is cached already when few follow."""
    connection = open_model(server)
    calls = make_calls(connection, make_prompts(SYSTEM, count=SHARING_CALLS + 1))
    with ModelClient(connection) as client:
        client.complete(calls[:-1])
        client.complete(calls[-1:])
    last = server.asked.requests[-1].body
    assert last is not None
    assert last["system"] == [{"type": "text", "text": LONG, "cache_control": MARK}]


@pytest.mark.parametrize(
    ("prompts", "name"),
    [
        (make_prompts(SYSTEM, count=SHARING_CALLS - 1), "anthropic/m"),
        (make_prompts({"role": "system", "content": "Be short."}, *SHOTS), "anthropic/m"),
        (make_prompts(), "anthropic/m"),
        ([[{"role": "assistant", "content": LONG}]] * SHARING_CALLS, "anthropic/m"),
        (make_prompts(SYSTEM), "anthropic/m?prompt_caching=false"),
    ],
)
def test_what_is_not_worth_it_is_not_marked(
    server: TestServer, prompts: list[list[Message]], name: str
) -> None:
    """Few calls, a short prefix, none at all, or a user who does not want it."""
    assert not any("cache_control" in str(body) for body in ask(server, prompts, name))


def test_whoever_asks_for_it_has_every_prefix_marked(server: TestServer) -> None:
    """`prompt_caching: true` leaves it to the provider whether a prefix is too short."""
    (body,) = ask(server, make_prompts(*SHOTS, count=1), "anthropic/m?prompt_caching=true")
    assert body["messages"][1]["content"] == [{"type": "text", "text": "B", "cache_control": MARK}]


def test_words_put_into_the_mouth_of_the_model_are_not_part_of_the_prefix(
    server: TestServer,
) -> None:
    """A prompt that ends with the assistant shares what stands before the last question."""
    prompts = [[*one, {"role": "assistant", "content": "Answer:"}] for one in make_prompts(SYSTEM)]
    body = ask(server, prompts)[0]
    assert body["system"] == [{"type": "text", "text": LONG, "cache_control": MARK}]
    assert "cache_control" not in str(body["messages"])


def test_caching_decides_no_answer(server: TestServer) -> None:
    """Calls have the same key with and without it, so that journal and cache know them."""
    names = ("anthropic/m", "anthropic/m?prompt_caching=true", "anthropic/m?prompt_caching=false")
    assert len({open_model(server, name).identity for name in names}) == 1


@pytest.mark.parametrize("name", ["openai/m", "gemini/m", "openai/m?api=responses"])
def test_an_api_that_caches_on_its_own_does_not_take_it(name: str) -> None:
    """E108 names the API; nothing is marked there."""
    with pytest.raises(SpecError, match=r"does not take `prompt_caching`") as caught:
        connect(f"{name}{'&' if '?' in name else '?'}prompt_caching=true", caller=Caller({}))
    assert "APIs that have it: `anthropic`" in (caught.value.hint or "")
    connection = connect(name, caller=Caller({}))
    assert connection.share_prefixes(make_prompts(SYSTEM)) is connection


def test_batches_are_cached_as_well(server: TestServer) -> None:
    """Each entry of a batch is marked."""

    class Book:
        """Where nothing is kept."""

        def list_batches(self, identity: str) -> list[Submitted]:
            """Return nothing."""
            del identity
            return []

        def keep_batch(self, batch: Submitted) -> None:
            """Do nothing."""

        def end_batch(self, batch: Submitted) -> None:
            """Do nothing."""

    async def hurry(_: float) -> None:
        """Do not wait."""

    connection = open_model(server)
    settings = CallSettings(clock=replace(Clock(), sleep=hurry))
    with BatchClient(connection, settings, Book()) as client:
        client.complete(make_calls(connection, make_prompts(SYSTEM)))
    sent = server.asked.requests[0].body
    assert sent is not None
    marked = [one["params"]["system"][0]["cache_control"] for one in sent["requests"]]
    assert marked == [MARK] * SHARING_CALLS
