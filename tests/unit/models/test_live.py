from __future__ import annotations

from dataclasses import replace

import pytest

from answerkey.errors import SolverError, SpecError
from answerkey.models import LiveModel, open_model
from answerkey.models.calls import Event, Finished, MemoryLedger
from answerkey.models.config import ModelConfig, ProviderConfig, connect
from answerkey.models.settings import Caller
from answerkey.testing import Reply, TestServer
from answerkey.testing.replies import Kind
from answerkey.types import CompletionStatus, Question

KEY = "sk-canary-0123456789"
OK, REFUSED, NO_TEXT, _ = CompletionStatus


def ask(*texts: str) -> list[Question]:
    """Return questions of one user message each."""
    return [Question(str(i), [{"role": "user", "content": text}]) for i, text in enumerate(texts)]


def open_live(name: str, **environment: str) -> LiveModel:
    """Return a live model; it is closed by whoever uses it."""
    model = open_model(name, caller=Caller(environment))
    assert isinstance(model, LiveModel)
    return model


def test_an_endpoint_is_asked() -> None:
    """A model that is named by a URL answers in the order of the questions."""
    with TestServer({"one": "A", "two": "B"}) as server, open_live(f"{server.url}#m") as model:
        assert [one.text for one in model.answer(ask("two", "one"))] == ["B", "A"]
        assert model.name == f"{server.url}#m"
        assert not model.is_simulated
        assert server.asked.requests[0].body is not None
        assert server.asked.requests[0].body["model"] == "m"


@pytest.mark.parametrize(
    ("name", "variable", "path"),
    [
        ("openai/m", "OPENAI", "/v1/chat/completions"),
        ("openai/m?api=completions", "OPENAI", "/v1/completions"),
        ("anthropic/m", "ANTHROPIC", "/v1/messages"),
        ("gemini/m", "GEMINI", "/v1beta/models/m:generateContent"),
        ("azure/m", "AZURE", "/openai/v1/chat/completions"),
    ],
)
def test_every_api_is_spoken(name: str, variable: str, path: str) -> None:
    """Each API is asked under its path, with the key in its header, and its answer is read."""
    with TestServer("B") as server:
        environment = {f"{variable}_BASE_URL": server.root, f"{variable}_API_KEY": KEY}
        with open_live(name, **environment) as model:
            (completion,) = model.answer(ask("A or B?"))
        assert (completion.text, completion.status) == ("B", OK)
        assert list(server.asked.by_path) == [path]
        assert [key.removeprefix("Bearer ") for key in server.asked.keys] == [KEY]


def test_what_is_known_is_not_asked() -> None:
    """A bound model looks into its ledger first; trials are questions of their own."""
    events: list[Event] = []
    with TestServer("B") as server, open_live(f"{server.url}#m") as unbound:
        ledger = MemoryLedger()
        for _ in range(2):
            with unbound.bind(ledger, watch=events.append) as model:
                model.answer(ask("q"))
        assert server.asked.total == 1
        with unbound.bind(ledger) as model:
            model.answer(ask("q"), trial=1)
        assert server.asked.total == 2
    assert [event.is_known for event in events if isinstance(event, Finished)] == [False, True]


def test_a_missing_key_stops_before_anything_is_asked() -> None:
    """A provider is not asked without its key."""
    model = LiveModel(connect(ModelConfig("openai/m", ProviderConfig("openai", "m"))))
    for action in (model.require_ready, lambda: model.answer(ask("q"))):
        with pytest.raises(SpecError) as caught:
            action()
        assert caught.value.code == "E117"


def test_a_refused_key_is_not_shown() -> None:
    """A 401 is E304, and the key that the endpoint sends back is in no message."""
    reply = Reply(status=401, body=f'{{"error": {{"message": "bad key {KEY}"}}}}'.encode())
    with TestServer(reply) as server, open_live(f"{server.url}#m", ANSWERKEY_API_KEY=KEY) as model:
        with pytest.raises(SolverError) as caught:
            model.answer(ask("q"))
        assert caught.value.code == "E304"
        assert "canary" not in str(caught.value)


STRANGE: list[tuple[Kind, CompletionStatus, str | None]] = [
    ("text", OK, "B"),
    ("null_content", NO_TEXT, None),
    ("empty_text", OK, ""),
    ("refusal", REFUSED, None),
    ("content_filter", REFUSED, None),
    ("tool_calls", NO_TEXT, None),
    ("truncated", OK, "B"),
    ("reasoning", OK, "B"),
    ("empty_choices", NO_TEXT, None),
]


@pytest.mark.parametrize(("kind", "status", "text"), STRANGE)
def test_strange_answers_have_their_status(kind: Kind, status: CompletionStatus, text: str | None) -> None:
    """Whatever an endpoint says, the question has a completion with the status it deserves."""
    with TestServer(Reply("B", kind)) as server, open_live(f"{server.url}#m") as model:
        (completion,) = model.answer(ask("q"))
    assert (completion.status, completion.text) == (status, text)
    assert (completion.finish_reason == "length") == (kind == "truncated")
    assert completion.reasoning == ("Let me think: C or B?" if kind == "reasoning" else None)


def test_every_trial_is_a_call_of_its_own() -> None:
    """The same question in another trial is asked again; in the same trial it is known."""
    with TestServer("A") as server, open_live(f"{server.url}#m") as model:
        question = ask("one")[0]
        model.answer([question, replace(question, trial=1), replace(question, trial=1)])
        assert server.asked.total == 2
        model.answer([question], trial=1)
        assert server.asked.total == 2


def test_the_address_of_a_node_needs_nodes() -> None:
    """A model whose host is `{node_ip}` is not asked from here."""
    model = open_live("http://{node_ip}:8000/v1#m")
    with pytest.raises(SpecError, match="stands for the node of a cluster") as caught:
        model.answer(ask("q"))
    assert caught.value.code == "E119"
