"""How likely each choice was: read from the alternatives of the first token of the answer.

Tokens such as ` B`, `(B` and `B.` all stand for the choice `B`, and their probabilities add up. Tokens before
the answer that hold nothing but white space and opening marks are passed over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from answerkey.models.responses import Position, read_logprob, read_positions
from answerkey.scorers.characters import compose

#: What may stand before and after a label within its token.
OPENING = " \t\r\n([{<\"'`*_$#>-«“‘„（【「『：:"  # noqa: RUF001 - the punctuation of many languages
CLOSING = " \t\r\n)]}>\"'`*_$.,;:!?»”’）】」』。，、：；"  # noqa: RUF001 - same
#: So many tokens before the answer are passed over at most.
MOST_OPENING = 8
#: No continuation has so many tokens or bytes.
_LONGEST = 1 << 63

Normalise = Literal["none", "tokens", "bytes"]
NoLogprobs = Literal["NO_LOGPROBS", "NO_ANSWER_TOKEN", "NO_CHOICE_IN_TOP_LOGPROBS", "OTHER_RANKING"]


@dataclass(frozen=True)
class Likelihoods:
    """The log-probability of each choice, in order; None for one outside the alternatives that were sent.

    No such choice is likelier than `floor`. `mass` is the probability of all choices together, None for
    continuations that were ranked. `token` is the answer's own token.
    """

    logprobs: tuple[float | None, ...]
    floor: float | None = None
    mass: float | None = None
    token: str | None = None

    @property
    def shares(self) -> tuple[float | None, ...]:
        """The probability of each choice, given that one of them is the answer; None where not known."""
        known = [one for one in self.logprobs if one is not None]
        highest = max(known)
        total = math.fsum(math.exp(one - highest) for one in known)
        return tuple(None if one is None else math.exp(one - highest) / total for one in self.logprobs)

    @property
    def best(self) -> tuple[int, ...]:
        """The places of the likeliest choices: one, unless several are equally likely."""
        highest = max(one for one in self.logprobs if one is not None)
        return tuple(place for place, one in enumerate(self.logprobs) if one == highest)


def read_likelihoods(
    logprobs: object, choices: Sequence[str], normalise: Normalise
) -> Likelihoods | NoLogprobs:
    """Return how likely each choice was, or why that is not known."""
    if isinstance(logprobs, Mapping) and isinstance(logprobs.get("ranking"), list):
        return _read_ranking(logprobs["ranking"], choices, normalise)
    positions = read_positions(logprobs)
    if not any(one.top for one in positions):
        return "NO_LOGPROBS"
    answer = next((one for one in positions[: MOST_OPENING + 1] if one.token.strip(OPENING)), None)
    return "NO_ANSWER_TOKEN" if answer is None else _read_token(answer, choices)


def _read_token(answer: Position, choices: Sequence[str]) -> Likelihoods | NoLogprobs:
    sums: dict[str, list[float]] = {}
    for token, logprob in answer.top.items():
        sums.setdefault(read_label(token), []).append(math.exp(logprob))
    found = [math.fsum(sums[name]) if name in sums else None for name in choices]
    known = [one for one in found if one]
    if not known:
        return "NO_CHOICE_IN_TOP_LOGPROBS"
    logprobs = tuple(math.log(one) if one else None for one in found)
    floor = min(answer.top.values())
    return Likelihoods(logprobs, floor, min(1.0, math.fsum(known)), answer.token)


def read_label(token: str) -> str:
    """Return what a token says without the marks around it."""
    return compose(token.lstrip(OPENING).rstrip(CLOSING))


def _read_ranking(
    ranking: Sequence[object], choices: Sequence[str], normalise: Normalise
) -> Likelihoods | NoLogprobs:
    if len(ranking) != len(choices):
        return "OTHER_RANKING"
    found = tuple(_weigh(one, normalise) for one in ranking)
    return "NO_LOGPROBS" if None in found else Likelihoods(found)


def _weigh(one: object, normalise: Normalise) -> float | None:
    """Return the log-probability of a continuation, by its length if that is asked for."""
    if not isinstance(one, Mapping):
        return None
    logprob = read_logprob(one.get("logprob"))
    if logprob is None or normalise == "none":
        return logprob
    length = one.get(normalise)
    return logprob / length if isinstance(length, int) and 0 < length < _LONGEST else None
