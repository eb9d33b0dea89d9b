"""The laws of counting and pricing tokens: each once, in the words of every API."""

from __future__ import annotations

import json

import pytest

from answerkey.models.calls import charge, charge_completion
from answerkey.models.config import Price
from answerkey.models.names import ApiName
from answerkey.models.providers import APIS
from answerkey.types import USAGE_NAMES, Completion

#: An answer of each API, without its usage.
ANSWERS: dict[ApiName, dict[str, object]] = {
    "chat": {"choices": [{"message": {"role": "assistant", "content": "B"}}]},
    "completions": {"choices": [{"text": "B"}]},
    "anthropic": {"content": [{"type": "text", "text": "B"}]},
    "gemini": {"candidates": [{"content": {"parts": [{"text": "B"}]}}]},
}
#: Usage as it comes: prompt, completion, reasoning, cached, written.
COUNTED: list[tuple[ApiName, dict[str, object], tuple[int | None, ...]]] = [
    (
        # OpenAI: the completion's tokens include those of the thoughts, the prompt's the cached
        # ones.
        "chat",
        {
            "prompt_tokens": 1200,
            "completion_tokens": 50,
            "total_tokens": 1250,
            "prompt_tokens_details": {"cached_tokens": 1024, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 40},
        },
        (1200, 50, 40, 1024, None),
    ),
    (
        "chat",  # xAI: thoughts apart from the completion
        {
            "prompt_tokens": 100,
            "completion_tokens": 10,
            "total_tokens": 150,
            "prompt_tokens_details": {"cached_tokens": 64},
            "completion_tokens_details": {"reasoning_tokens": 40},
        },
        (100, 50, 40, 64, None),
    ),
    (
        "chat",  # DeepSeek
        {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "total_tokens": 105,
            "prompt_cache_hit_tokens": 64,
            "prompt_cache_miss_tokens": 36,
            "completion_tokens_details": {"reasoning_tokens": 4},
        },
        (100, 5, 4, 64, None),
    ),
    (
        "chat",  # OpenRouter, for a model whose cache is written to
        {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 80},
        },
        (100, 5, None, 0, 80),
    ),
    ("completions", {"prompt_tokens": 100, "completion_tokens": 5}, (100, 5, None, None, None)),
    (
        "anthropic",  # cached tokens apart from `input_tokens`; thoughts are output
        {
            "input_tokens": 40,
            "cache_creation_input_tokens": 100,
            "cache_read_input_tokens": 1000,
            "output_tokens": 50,
        },
        (1140, 50, None, 1000, 100),
    ),
    (
        "gemini",  # thoughts apart from the candidates
        {
            "promptTokenCount": 1200,
            "cachedContentTokenCount": 1024,
            "candidatesTokenCount": 10,
            "thoughtsTokenCount": 40,
            "totalTokenCount": 1250,
        },
        (1200, 50, 40, 1024, None),
    ),
    (
        "gemini",  # cut off within the thoughts
        {"promptTokenCount": 12, "thoughtsTokenCount": 40, "totalTokenCount": 52},
        (12, 40, 40, None, None),
    ),
    ("chat", {"prompt_tokens_details": {"cached_tokens": "many"}}, (None, None, None, None, None)),
]


@pytest.mark.parametrize(("api", "usage", "tokens"), COUNTED)
def test_tokens_are_counted_once(
    api: ApiName, usage: dict[str, object], tokens: tuple[int | None, ...]
) -> None:
    """Thoughts are part of the completion, tokens of the prompt cache part of the prompt, in every
    API.
    """
    name = "usageMetadata" if api == "gemini" else "usage"
    said = APIS[api].read(200, json.dumps({**ANSWERS[api], name: usage}).encode())
    assert said.text == "B"
    assert tuple(getattr(said, one) for one in USAGE_NAMES) == tokens
    price = Price(1.0, 1000.0)
    assert charge_completion(price, said) == (tokens[0] or 0) + 1000.0 * (tokens[1] or 0)


def test_cached_tokens_have_a_price_of_their_own() -> None:
    """Read and written tokens are taken out of the prompt's.

    Without a price they cost what others do.
    """
    said = Completion(
        "B", prompt_tokens=100, completion_tokens=10, cached_tokens=60, cache_write_tokens=30
    )
    assert charge_completion(Price(2.0, 5.0), said) == 250.0
    assert charge_completion(Price(2.0, 5.0, cached=0.5, written=3.0), said) == 20 + 30 + 90 + 50
    more = Completion("B", prompt_tokens=10, completion_tokens=0, cached_tokens=60)
    assert charge_completion(Price(2.0, 5.0, cached=0.5), more) == 30.0


def test_a_batch_costs_half() -> None:
    """Of every price."""
    tokens, price = (100, 10, 60, 30), Price(2.0, 5.0, cached=0.5, written=3.0)
    assert charge(price, *tokens, is_batch=True) == charge(price, *tokens) / 2
    assert charge_completion(price, Completion("B", prompt_tokens=100, source="batch")) == 100.0
    assert charge_completion(price, Completion("B", prompt_tokens=100, source="live")) == 200.0
