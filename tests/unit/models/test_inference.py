from __future__ import annotations

import pytest

from answerkey.errors import SolverError
from answerkey.models import InferenceConfig, ModelConfig, Secret, SnippetModel, open_model
from answerkey.models.calls import Budget, Event, Finished, MemoryLedger
from answerkey.sandbox import Snippet
from answerkey.types import CompletionStatus, Question

OK, REFUSED, NO_TEXT, ERROR = CompletionStatus


def open_snippet(source: str, **environment: str) -> SnippetModel:
    """Return a model that is a snippet."""
    secrets = {name: Secret(text) for name, text in environment.items()}
    model = open_model(ModelConfig("own", InferenceConfig(Snippet("infer", source), secrets)))
    assert isinstance(model, SnippetModel)
    return model


def ask(*texts: str) -> list[Question]:
    """Return questions of one user message each."""
    return [Question(str(i), [{"role": "user", "content": text}]) for i, text in enumerate(texts)]


def test_a_snippet_answers() -> None:
    """`infer` gets the messages and gives a text, a message or a chat completion."""
    source = (
        "def infer(messages):\n"
        "    text = messages[-1]['content']\n"
        "    if text == 'refuse':\n"
        "        return {'role': 'assistant', 'content': None, 'refusal': 'no'}\n"
        "    if text == 'whole':\n"
        "        return {'choices': [{'message': {'content': 'W'}, 'finish_reason': 'length'}]}\n"
        "    return None if text == 'nothing' else text.upper()\n"
    )
    model = open_snippet(source)
    found = model.answer(ask("a", "refuse", "whole", "nothing", "a"))
    model.close()
    assert [(one.text, one.status) for one in found] == [
        ("A", OK),
        (None, REFUSED),
        ("W", OK),
        (None, NO_TEXT),
        ("A", OK),
    ]
    assert found[2].finish_reason == "length"


def test_a_snippet_that_fails_on_a_sample_fails_there_alone() -> None:
    """What a snippet raises is the ERROR of that call; the environment that it was given is hidden."""
    source = (
        "def infer(messages, environment):\n"
        "    if messages[0]['content'] == 'bad':\n"
        "        raise ValueError('with ' + environment['WHERE'])\n"
        "    return ['no', {}] if messages[0]['content'] == 'odd' else 'B'\n"
    )
    model = open_snippet(source, WHERE="hush-canary")
    found = model.answer(ask("good", "bad", "odd", "fine"))
    model.close()
    assert [one.status for one in found] == [OK, ERROR, ERROR, OK]
    assert "ValueError: with ***" in str(found[1].error)
    assert "canary" not in repr([*found, model])


def test_a_key_that_a_snippet_says_is_hidden_and_its_other_values_are_not() -> None:
    """Only what is named like a secret, and long enough to be one, is taken out of an answer."""
    source = (
        "def infer(messages, environment):\n"
        "    text = ' '.join(environment.values())\n"
        "    return text if messages[0]['content'] == 'plain' else {'role': 'assistant', 'content': [\n"
        "        {'type': 'text', 'text': text}]}\n"
    )
    model = open_snippet(source, MY_API_KEY="sk-canary-1", MODEL="large", MY_AUTH_KEY="A")
    found = model.answer(ask("plain", "message"))
    model.close()
    assert [one.text for one in found] == ["*** large A"] * 2
    assert "canary" not in repr(found)


def test_a_snippet_that_cannot_be_loaded_stops_everything() -> None:
    """A snippet that fails while it is loaded is E306."""
    model = open_snippet("raise OSError('no weights')\ndef infer(messages): return 'A'")
    with pytest.raises(SolverError) as caught:
        model.answer(ask("q"))
    assert caught.value.code == "E306"
    assert "no weights" in caught.value.message


def test_answers_of_a_snippet_are_kept() -> None:
    """A bound model looks into its ledger first; its budget counts what was asked."""
    events: list[Event] = []
    ledger, budget = MemoryLedger(), Budget(max_calls=2)
    model = open_snippet("def infer(messages): return 'B'").bind(ledger, budget, events.append)
    model.answer(ask("q", "q", "r"))
    model.answer(ask("q"))
    with pytest.raises(SolverError) as caught:
        model.answer(ask("s"))
    model.close()
    assert caught.value.code == "E305"
    assert len(ledger.kept) == 2
    assert [event.is_known for event in events if isinstance(event, Finished)] == [False, False, True]


def test_another_snippet_is_another_model() -> None:
    """The identity is that of the text that runs."""
    one, two = (open_snippet(f"def infer(messages): return '{text}'") for text in "AB")
    assert one.identity == open_snippet("def infer(messages): return 'A'").identity != two.identity
