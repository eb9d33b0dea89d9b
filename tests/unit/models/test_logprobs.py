"""Laws of reading log-probabilities in the forms of the APIs."""

from __future__ import annotations

import pytest

from answerkey.models.responses import Continued, Position, measure_continuation, read_positions
from answerkey.types import Completion

CHAT = {
    "content": [
        {
            "token": "A",
            "logprob": -0.1,
            "top_logprobs": [{"token": "A", "logprob": -0.1}, {"token": "B", "logprob": -3}],
        },
        {"token": ".", "logprob": -0.5, "top_logprobs": []},
    ]
}
TEXT = {
    "tokens": [" A", "."],
    "token_logprobs": [-0.1, -0.5],
    "top_logprobs": [{" A": -0.1, " B": -3.0}, None],
    "text_offset": [7, 9],
}
GEMINI = {
    "chosenCandidates": [{"token": "A", "logProbability": -0.1}, {"token": ".", "logProbability": -0.5}],
    "topCandidates": [
        {"candidates": [{"token": "A", "logProbability": -0.1}, {"token": "B", "logProbability": -3}]},
    ],
}


@pytest.mark.parametrize("logprobs", [CHAT, TEXT, GEMINI])
def test_every_api_says_the_same(logprobs: object) -> None:
    """Tokens, their log-probabilities, and the likeliest alternatives."""
    found = read_positions(logprobs)
    assert [one.token.strip() for one in found] == ["A", "."]
    assert [one.logprob for one in found] == [-0.1, -0.5]
    assert {token.strip(): value for token, value in found[0].top.items()} == {"A": -0.1, "B": -3.0}
    assert list(found[1].top.values()) == [-0.5]


@pytest.mark.parametrize(
    "logprobs",
    [None, "x", {}, {"content": None}, {"content": [7]}, {"content": [{"token": 3}]}, {"tokens": "AB"}, []],
)
def test_what_is_none_has_no_positions(logprobs: object) -> None:
    """Damaged and missing log-probabilities raise nothing and make nothing up."""
    assert read_positions(logprobs) == []


def test_reading_stops_at_the_first_damaged_token() -> None:
    """What follows it has no known place."""
    assert len(read_positions({"content": [CHAT["content"][0], None, CHAT["content"][1]]})) == 1


def test_a_logprob_above_zero_is_zero_and_one_that_is_none_is_left_out() -> None:
    """Endpoints round; NaN and text are no probabilities."""
    first = {"token": "A", "logprob": 1e-9, "top_logprobs": [{"token": "B", "logprob": "x"}]}
    found = read_positions({"content": [first, {"token": "B", "logprob": float("nan")}]})
    assert (found[0].logprob, found[0].top) == (0.0, {"A": 0.0})
    assert (found[1].logprob, found[1].top) == (None, {})


def echo(tokens: list[str], logprobs: list[float | None], offsets: list[int] | None = None) -> Completion:
    """Return a completion that echoes a text."""
    told = {"tokens": tokens, "token_logprobs": logprobs, "text_offset": offsets}
    return Completion("", logprobs=told)


def test_a_continuation_is_as_likely_as_its_tokens_together() -> None:
    """Tokens of the prompt, and what was generated after the text, do not count."""
    said = echo(["Q", ":", " blue", " sky", " x"], [None, -1.0, -0.5, -0.25, -9.0], [0, 1, 2, 7, 11])
    assert measure_continuation(said, "Q:", " blue sky") == Continued(-0.75, 2)
    bare = echo(["Q", ":", " blue", " sky"], [None, -1.0, -0.5, -0.25])
    assert measure_continuation(bare, "Q:", " blue sky") == Continued(-0.75, 2)


def test_a_token_on_the_border_belongs_to_the_continuation() -> None:
    """It is counted, and marked."""
    said = echo(["Q", ": b", "lue"], [None, -2.0, -0.5])
    assert measure_continuation(said, "Q:", " blue") == Continued(-2.5, 2, is_split=True)


def test_an_endpoint_that_echoes_nothing_says_nothing_about_a_continuation() -> None:
    """Neither does one that leaves out a log-probability."""
    assert isinstance(measure_continuation(Completion("x"), "Q:", " blue"), str)
    assert isinstance(measure_continuation(echo(["Q:"], [None]), "Q:", " blue"), str)
    assert isinstance(measure_continuation(echo(["Q:", " blue"], [None, None]), "Q:", " blue"), str)


def test_a_whole_number_that_no_float_holds_is_no_log_probability() -> None:
    """Whoever sends one does not end a run."""
    assert read_positions({"content": [{"token": "A", "logprob": -(10**400)}]}) == [Position("A", None, {})]
