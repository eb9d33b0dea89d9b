"""Log-probabilities as endpoints send them, in one form: token by token, with the alternatives of each.

Chat completions have `content`, text completions `tokens` and `token_logprobs`, Gemini `chosenCandidates` and
`topCandidates`. What is none of these, or damaged, has no positions: nobody makes up a probability.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile, zip_longest

Found = Mapping[str, object]


@dataclass(frozen=True)
class Position:
    """One token of a completion: its text, its log-probability, and the likeliest tokens in its place.

    `top` holds each token once, the token itself included if it has a log-probability. `offset` is where it
    begins in the whole text, in characters; None when that is not said.
    """

    token: str
    logprob: float | None
    top: Mapping[str, float]
    offset: int | None = None


def read_positions(logprobs: object) -> list[Position]:
    """Return the tokens of a completion in order; none where there are no log-probabilities."""
    if not isinstance(logprobs, Mapping):
        return []
    for name, read in (("content", _read_chat), ("tokens", _read_text), ("chosenCandidates", _read_gemini)):
        if isinstance(logprobs.get(name), list):
            return _cut(read(logprobs))
    return []


def _cut(positions: Iterable[Position | None]) -> list[Position]:
    """Return the positions up to the first that is damaged: what follows it has no known place."""
    return [one for one in takewhile(lambda one: one is not None, positions) if one is not None]


def _read_chat(logprobs: Found) -> Iterator[Position | None]:
    for one in _list(logprobs, "content"):
        pairs = [(_read(two, "token"), _read(two, "logprob")) for two in _list(one, "top_logprobs")]
        yield _build(_read(one, "token"), _read(one, "logprob"), pairs)


def _read_text(logprobs: Found) -> Iterator[Position | None]:
    names = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    columns = [_list(logprobs, name) for name in names]
    for token, logprob, top, offset in islice(zip_longest(*columns), len(columns[0])):
        pairs = list(top.items()) if isinstance(top, Mapping) else []
        yield _build(token, logprob, pairs, offset)


def _read_gemini(logprobs: Found) -> Iterator[Position | None]:
    chosen, tops = _list(logprobs, "chosenCandidates"), _list(logprobs, "topCandidates")
    for one, top in islice(zip_longest(chosen, tops), len(chosen)):
        pairs = [(_read(two, "token"), _read(two, "logProbability")) for two in _list(top, "candidates")]
        yield _build(_read(one, "token"), _read(one, "logProbability"), pairs)


def _build(
    token: object, logprob: object, pairs: Sequence[tuple[object, object]], offset: object = None
) -> Position | None:
    if not isinstance(token, str):
        return None
    own = read_logprob(logprob)
    top: dict[str, float] = {}
    for name, value in [*pairs, (token, own)]:
        number = read_logprob(value)
        if isinstance(name, str) and number is not None:
            top.setdefault(name, number)
    place = offset if isinstance(offset, int) and not isinstance(offset, bool) else None
    return Position(token, own, top, place)


def read_logprob(value: object) -> float | None:
    """Return a log-probability; None for what is none. Rounding may leave it a little above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return None if math.isnan(number) else min(0.0, number)


def _read(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None


def _list(value: object, name: str) -> list[object]:
    """Return the list under a name; an empty one where there is none."""
    found = _read(value, name)
    return found if isinstance(found, list) else []
