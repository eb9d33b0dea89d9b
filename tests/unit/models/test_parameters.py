"""Laws of parameters: what each API is sent, byte for byte, against the test server.

Slips are errors.
"""

from __future__ import annotations

import json

import pytest
from tests.servers import connect

from answerkey.errors import SpecError
from answerkey.models.config import Caller, Generation
from answerkey.models.model import LiveModel, open_model
from answerkey.testing import TestServer
from answerkey.types import Request

ASK = [{"role": "user", "content": "A or B?"}]


def send(name: str, **environment: str) -> dict[str, object]:
    """Return the body that the test server was sent for one question to a model at its address."""
    with TestServer("A") as server:
        values = {key: value.format(root=server.root) for key, value in environment.items()}
        model = open_model(name.format(url=server.url, root=server.root), caller=Caller(values))
        assert isinstance(model, LiveModel)
        with model:
            (reply,) = model.complete([Request("1", ASK)])
        assert reply.text == "A"
        body = server.asked.requests[-1].body
        assert body is not None
        return dict(body)


def test_anything_else_is_passed_through() -> None:
    """`extra_body.NAME=` sends any field; dots lead into objects, what is no JSON is a text."""
    name = (
        "{url}?temperature=0&extra_body.chat_template_kwargs.enable_thinking=false"
        "&extra_body.chat_template_kwargs.style=terse&extra_body.repetition_penalty=1.1"
        "&extra_body.guided_choice=%5B%22A%22%2C%22B%22%5D&extra_body.tag=NaN#m"
    )
    assert send(name) == {
        "model": "m",
        "messages": ASK,
        "temperature": 0.0,
        "chat_template_kwargs": {"enable_thinking": False, "style": "terse"},
        "repetition_penalty": 1.1,
        "guided_choice": ["A", "B"],
        "tag": "NaN",
    }


def test_objects_of_the_body_are_merged() -> None:
    """What is passed through stands beside our own fields of the same object."""
    name = "{root}/v1beta?api=gemini&reasoning_effort=high&extra_body.generationConfig.topK=7#m"
    thinking = {"thinkingConfig": {"thinkingLevel": "high"}}
    assert send(name)["generationConfig"] == {**thinking, "topK": 7}


def refuse(name: str) -> SpecError:
    """Return the error that a name gives."""
    with pytest.raises(SpecError) as caught:
        connect(name, caller=Caller({}))
    return caught.value


@pytest.mark.parametrize(
    ("name", "api", "parameter"),
    [
        ("http://h/v1?echo=true#m", "chat", "echo"),
        ("anthropic/claude?seed=1", "anthropic", "seed"),
        ("anthropic/claude?logprobs=true", "anthropic", "logprobs"),
        ("http://h/v1?api=completions&reasoning_effort=low#m", "completions", "reasoning_effort"),
    ],
)
def test_what_an_api_lacks_is_named_with_it(name: str, api: str, parameter: str) -> None:
    """The error names the API and the parameter; nothing is dropped."""
    error = refuse(name)
    message = f"model `{name}`: the API `{api}` does not take `{parameter}`"
    assert (error.code, error.message) == ("E108", message)
    assert "`extra_body`" in str(error.hint)


def test_a_slip_is_an_error() -> None:
    """An unknown effort or name is not passed through unless that is asked for."""
    error = refuse("openai/gpt-5?reasoning_effort=hihg")
    assert (error.code, error.hint) == ("E301", "did you mean `high`?")
    slip = refuse("openai/gpt-5?reasoning_efort=1")
    sends = "`extra_body.reasoning_efort=` sends it as it is"
    assert (slip.code, slip.hint) == ("E301", f"did you mean `reasoning_effort`? {sends}")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("extra_body.model=x", "model"),
        ("extra_body.messages=%5B%5D", "messages"),
        ("temperature=0&extra_body.temperature=1", "temperature"),
        ("extra_body.stream=true", "stream"),
        ("api=anthropic&extra_body.system=x", "system"),
        ("api=anthropic&extra_body.max_tokens=5", "max_tokens"),
        ("api=completions&extra_body.prompt=x", "prompt"),
    ],
)
def test_what_answerkey_sends_is_not_overridden(query: str, field: str) -> None:
    """Neither the question nor the model nor a parameter that is set can be changed by
    `extra_body`.
    """
    error = refuse(f"http://h/v1?{query}#m")
    assert error.code == "E108"
    assert error.message.endswith(f"`{field}` of `extra_body` is set by answerkey itself")


@pytest.mark.parametrize("name", ["api_key", "user.auth_token", "Authorization"])
def test_secrets_do_not_stand_in_the_body(name: str) -> None:
    """A field that is named like a secret is refused: what is in the body decides the identity."""
    error = refuse(f"openai/x?extra_body.{name}=hunter22")
    assert error.code == "E117"
    assert "hunter22" not in str(error)
    connect("openai/x?extra_body.prompt_cache_key=k", caller=Caller({}))


def test_the_nearer_extra_body_wins_field_by_field() -> None:
    """Of a task's `extra_body` and its model's, both are sent; the task's wins."""
    nearer = Generation(extra_body={"a": 1})
    farther = Generation(extra_body={"a": 2, "b": 3}, seed=1)
    assert nearer.over(farther) == Generation(extra_body={"a": 1, "b": 3}, seed=1)
    assert json.loads(json.dumps(nearer.given())) == {"extra_body": {"a": 1}}


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("openrouter/a/b?reasoning_effort=low", "reasoning", {"effort": "low"}),
        ("https://openrouter.ai/api/v1?reasoning_effort=low#a/b", "reasoning", {"effort": "low"}),
        ("mistral/m?seed=3", "random_seed", 3),
        ("openai/gpt-5?max_tokens=9", "max_completion_tokens", 9),
    ],
)
def test_some_providers_name_a_parameter_otherwise(name: str, field: str, value: object) -> None:
    """The provider is known by its name, or by its host."""
    body = connect(name, caller=Caller({})).build(ASK)
    assert isinstance(body, dict)
    assert body == {"model": body["model"], "messages": ASK, field: value}
