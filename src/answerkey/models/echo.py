"""What an echoed text says about its ending: how likely a model finds a continuation after a prompt."""

from __future__ import annotations

from dataclasses import dataclass

from answerkey.models.logprobs import read_positions
from answerkey.types import Completion

NO_ECHO = "the endpoint did not echo the log-probabilities of the text"


@dataclass(frozen=True)
class Continued:
    """The log-probability of a continuation and its number of tokens; `is_split` if one began before it."""

    logprob: float
    tokens: int
    is_split: bool = False


def measure_continuation(completion: Completion, prompt: str, continuation: str) -> Continued | str:
    """Return how likely the continuation is after the prompt, or why that cannot be told.

    A token that begins in the prompt and ends in the continuation belongs to the continuation.
    """
    start, end = len(prompt), len(prompt) + len(continuation)
    total, count, is_split, place = 0.0, 0, False, 0
    for one in read_positions(completion.logprobs):
        begins = place if one.offset is None else one.offset
        place = begins + len(one.token)
        if place <= start or begins >= end:
            continue
        if one.logprob is None:
            return "a token of the continuation has no log-probability"
        total, count, is_split = total + one.logprob, count + 1, is_split or begins < start
    if place < end or not count:
        return NO_ECHO
    return Continued(total, count, is_split)
