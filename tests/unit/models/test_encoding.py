"""Laws of the quick JSON encoder: it writes what the standard library's does."""

from __future__ import annotations

import json
from datetime import date
from json import encoder

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.models.cache import decode_completion, encode_completion
from answerkey.models.calls import make_encoder
from answerkey.types import Completion, CompletionStatus

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12
)


@given(VALUES, st.booleans())
def test_the_text_is_that_of_the_standard_library(value: object, sort_keys: bool) -> None:  # noqa: FBT001 - drawn
    """Any value that JSON knows, sorted or not, half surrogate pairs included."""
    theirs = json.JSONEncoder(separators=(",", ":"), default=str, sort_keys=sort_keys).encode(value)
    assert make_encoder(sort_keys=sort_keys)(value) == theirs


def test_what_json_does_not_know_is_made_into_something() -> None:
    """By the function that is given; in the middle of a value, too, and again after one that failed."""
    encode = make_encoder(lambda value: {"text": str(value)})
    assert encode([date(2026, 1, 2)]) == '[{"text":"2026-01-02"}]'
    with pytest.raises(ZeroDivisionError):
        make_encoder(lambda _: 1 // 0)([date(2026, 1, 2)])
    assert encode({"a": [1]}) == '{"a":[1]}'


def test_an_interpreter_without_the_machine_writes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only slower."""
    monkeypatch.setattr(encoder, "c_make_encoder", None)
    assert make_encoder(sort_keys=True)({"b": 1, "a": [None, "é"]}) == '{"a":[null,"\\u00e9"],"b":1}'


@given(st.text(st.characters()), st.floats(), st.integers(min_value=0), VALUES)
def test_any_completion_comes_back(text: str, latency: float, tokens: int, logprobs: object) -> None:
    """Whatever is in its fields; NaN is None, since no file may hold it."""
    completion = Completion(
        text, CompletionStatus.OK, latency=latency, prompt_tokens=tokens, logprobs={"content": logprobs}
    )
    written = encode_completion(completion)
    assert json.loads(written)["status"] == "OK"
    found = decode_completion(written)
    assert (found.text, found.prompt_tokens) == (text, tokens)
    assert found.latency == (None if latency != latency else latency)  # noqa: PLR0124 - NaN is not itself
