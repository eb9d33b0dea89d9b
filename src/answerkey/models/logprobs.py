"""Log-probabilities of tokens in responses of the chat and the text API, and rankings from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice, zip_longest
from operator import attrgetter
from typing import Any, SupportsFloat, cast

from answerkey.models.responses import Body, Messages, get_field, list_entries, read_text
from answerkey.types import Completion, CompletionStatus, Request

#: A token, its log-probability, its alternatives with their log-probabilities, and its offset, as
#: sent.
SentToken = tuple[Any, Any, Sequence[tuple[Any, Any]], Any]


@dataclass(frozen=True)
class Position:
    """A token of a completion: its text, its log-probability, and the likeliest tokens in its
    place.

    `top` has each token once, including the token itself if it has a log-probability. `offset` is
    its position in the whole text, in characters; None if unknown.
    """

    token: str
    logprob: float | None
    top: Mapping[str, float]
    offset: int | None = None


def read_positions(logprobs: object) -> list[Position]:
    """Return the tokens of a completion in order; none without log-probabilities.

    They end before the first damaged one, because the positions after it are unknown.
    """
    positions = []
    for token, sent_logprob, alternatives, offset in _list_tokens(logprobs):
        if not isinstance(token, str):
            break
        logprob = read_logprob(sent_logprob)
        top: dict[str, float] = {}
        for name, value in (*alternatives, (token, logprob)):
            number = read_logprob(value)
            if isinstance(name, str) and number is not None:
                top.setdefault(name, number)
        place = offset if type(offset) is int else None
        positions.append(
            Position(
                token,
                logprob,
                top,
                place,
            )
        )
    return positions


def _list_tokens(logprobs: object) -> Iterator[SentToken]:
    for entry in list_entries(get_field(logprobs, "content")):
        alternatives = []
        for pair in list_entries(get_field(entry, "top_logprobs")):
            alternative = get_field(pair, "token"), get_field(pair, "logprob")
            alternatives.append(alternative)
        token = get_field(entry, "token")
        logprob = get_field(entry, "logprob")
        yield token, logprob, alternatives, None
    tokens = list_entries(get_field(logprobs, "tokens"))
    numbers = list_entries(get_field(logprobs, "token_logprobs"))
    tops = list_entries(get_field(logprobs, "top_logprobs"))
    offsets = list_entries(get_field(logprobs, "text_offset"))
    rows = zip_longest(
        tokens,
        numbers,
        tops,
        offsets,
    )
    for token, logprob, top, offset in islice(rows, len(tokens)):
        alternatives = []
        if isinstance(top, Mapping):
            alternatives.extend(top.items())
        yield token, logprob, alternatives, offset


def read_logprob(value: object) -> float | None:
    """Return a log-probability; None for anything else. Rounding may leave one slightly above 0."""
    if type(value) not in (int, float):
        return None
    try:
        number = float(cast("float", value))
    except OverflowError:
        return None
    if math.isnan(number):
        return None
    return min(0.0, number)


def measure_continuation(completion: Completion, prompt: str, continuation: str) -> Body:
    """Return how likely the continuation is after the prompt, as an entry of a ranking.

    If it cannot be measured, `why` says why. A token that starts in the prompt and ends in the
    continuation counts as part of the continuation, which then `is_split`.
    """
    for measured in list_entries(get_field(completion.logprobs, "ranking")):
        return dict(cast("Body", measured))  # the model has ranked it
    start = len(prompt)
    end = start + len(continuation)
    total = 0.0
    count = 0
    is_split = False
    token_end = 0
    entry: Body = {"continuation": continuation, "logprob": None}
    for position in read_positions(completion.logprobs):
        token_start = token_end if position.offset is None else position.offset
        token_end = token_start + len(position.token)
        if token_end <= start or token_start >= end:
            continue
        if position.logprob is None:
            return {**entry, "why": "a token of the continuation has no log-probability"}
        total += position.logprob
        count += 1
        is_split = is_split or token_start < start
    if token_end < end or not count:
        why = "the endpoint did not echo the log-probabilities of the text"
        return {**entry, "why": why}
    entry |= {"logprob": total, "tokens": count, "bytes": len(continuation.encode())}
    if is_split:
        entry["is_split"] = True
    return entry


# Rankings: each continuation is one call, whose text is the prompt followed by the continuation.


def continue_prompt(prompt: Messages, continuations: Sequence[str]) -> list[list[Body]]:
    """Return the messages of each call: the text of the prompt with one of the continuations."""
    text = _join_texts(prompt)
    prompts = []
    for end in continuations:
        message: Body = {"role": "user", "content": text + end}
        prompts.append([message])
    return prompts


def _join_texts(prompt: Messages) -> str:
    """Return the messages as the text that a completions API gets."""
    return "\n\n".join(read_text(message) for message in prompt)


def rank_continuations(
    requests: Sequence[Request],
    continuations: Sequence[Sequence[str]],
    complete: Callable[[Sequence[Request]], Sequence[Completion]],
) -> list[Completion]:
    """Return a completion for each request, with the log-probabilities of its continuations.

    `complete` gets a request for each continuation, whose `text` is the prompt alone.
    """
    continued = []
    for request, ends in zip(requests, continuations, strict=True):
        text = _join_texts(request.messages)
        for messages in continue_prompt(request.messages, ends):
            continued.append(replace(request, messages=messages, text=text))
    completions = iter(complete(continued))
    rankings = []
    for request, ends in zip(requests, continuations, strict=True):
        ranked = list(islice(completions, len(ends)))
        rankings.append(_rank(request.messages, ends, ranked))
    return rankings


def _rank(
    prompt: Messages, continuations: Sequence[str], completions: Sequence[Completion]
) -> Completion:
    """Return the completion of one request; a failed call is the result of them all."""
    text = _join_texts(prompt)
    ranking = []
    for completion, continuation in zip(completions, continuations, strict=True):
        if completion.status is CompletionStatus.ERROR:
            return completion.with_fields(prompt=prompt)
        ranking.append(measure_continuation(completion, text, continuation))
    latencies = [completion.latency or 0.0 for completion in completions]
    return Completion(
        None,
        prompt=prompt,
        latency=sum(latencies),
        prompt_tokens=_sum_known(completion.prompt_tokens for completion in completions),
        completion_tokens=_sum_known(completion.completion_tokens for completion in completions),
        logprobs={"ranking": ranking},
        source=completions[0].source,
    )


def _sum_known(counts: Iterable[int | None]) -> int | None:
    """Return the sum of the known counts; None if none is known."""
    known_counts = [count for count in counts if count is not None]
    if known_counts:
        return sum(known_counts)
    return None


@dataclass(frozen=True)
class Ranker:
    """Turns an object's `loglikelihoods(prompt, continuations)`, which returns numbers, into
    completions.
    """

    model: Any

    def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """Return the log-probability of each request's continuation, which follows its `text`."""
        completions = []
        for prompt, group in groupby(requests, key=attrgetter("text")):
            ends = [read_text(request.messages[0]).removeprefix(prompt) for request in group]
            numbers = list(self.model.loglikelihoods(prompt, ends))
            if len(numbers) != len(ends):
                problem = f"{len(numbers)} numbers for {len(ends)} continuations"
                raise ValueError(f"`loglikelihoods` returned {problem}")
            for end, number in zip(ends, numbers, strict=True):
                entry = _describe_continuation(end, number)
                completions.append(Completion(None, logprobs={"ranking": [entry]}))
        return completions


def _describe_continuation(continuation: str, number: object) -> Body:
    """Return the entry of a ranking for a number from a model, which may be one of NumPy's."""
    if isinstance(number, SupportsFloat) and not isinstance(number, bool):
        number = float(number)
    logprob = read_logprob(number)
    if logprob is None or math.isinf(logprob):
        why = f"`loglikelihoods` returned {number!r:.80}, which is not a log-probability"
        return {"continuation": continuation, "logprob": None, "why": why}
    return {
        "continuation": continuation,
        "logprob": logprob,
        "bytes": len(continuation.encode()),
    }
