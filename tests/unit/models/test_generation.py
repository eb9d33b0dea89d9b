from __future__ import annotations

import pytest

from answerkey.errors import SpecError
from answerkey.models.settings import Generation, read_generation


def test_what_is_given_is_what_is_set() -> None:
    """Parameters that are not set are left to the endpoint; zero and false are set."""
    generation = Generation(temperature=0, stop=("\n", "Q:"), logprobs=False)
    assert generation.given() == {"temperature": 0, "stop": ["\n", "Q:"], "logprobs": False}


def test_the_nearer_wins() -> None:
    """What a task specification sets wins over the model's own, parameter by parameter."""
    nearer, farther = Generation(temperature=0), Generation(temperature=1, max_tokens=5)
    assert nearer.over(farther) == Generation(temperature=0, max_tokens=5)


@pytest.mark.parametrize(
    ("generation", "wants"),
    [
        (Generation(), False),
        (Generation(logprobs=True), True),
        (Generation(top_logprobs=3), True),
        (Generation(top_logprobs=0), True),
        (Generation(logprobs=False, top_logprobs=3), False),
    ],
)
def test_top_logprobs_ask_for_logprobs(generation: Generation, wants: bool) -> None:  # noqa: FBT001  # a table
    """`top_logprobs` alone asks for log probabilities, unless `logprobs` is false."""
    assert generation.wants_logprobs is wants


def test_a_name_can_state_it() -> None:
    """Every parameter can be written behind `?`."""
    texts = {
        "temperature": "0.5",
        "top_p": "1",
        "max_tokens": "16",
        "seed": "-3",
        "stop": "\n",
        "logprobs": "true",
        "top_logprobs": "0",
    }
    assert read_generation("m", texts) == Generation(0.5, 1, 16, -3, ("\n",), logprobs=True, top_logprobs=0)


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("temperature", "-1", "model `m`: `temperature` is '-1', not a number from 0 on"),
        ("temperature", "nan", "model `m`: `temperature` is 'nan', not a number from 0 on"),
        ("top_p", "1.5", "model `m`: `top_p` is '1.5', not a number from 0 to 1"),
        ("max_tokens", "0", "model `m`: `max_tokens` is '0', not a whole number from 1 on"),
        ("seed", "x", "model `m`: `seed` is 'x', not a whole number"),
        ("stop", "", "model `m`: `stop` is '', not a text that is not empty"),
        ("logprobs", "yes", "model `m`: `logprobs` is 'yes', not `true` or `false`"),
        ("top_logprobs", "-1", "model `m`: `top_logprobs` is '-1', not a whole number from 0 on"),
        ("temprature", "0", "model `m` has no parameter `temprature`"),
    ],
)
def test_what_a_name_states_is_checked(key: str, text: str, message: str) -> None:
    """A value out of range and an unknown parameter are errors."""
    with pytest.raises(SpecError) as caught:
        read_generation("m", {key: text})
    assert (caught.value.code, caught.value.message) == ("E301", message)
