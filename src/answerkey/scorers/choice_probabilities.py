"""The scorer `choice_probabilities`: the choice that is likeliest, not the one that was written.

It reads log-probabilities: of the first token of the answer, or of continuations that were ranked.
A completion without any is FAILED, never wrong. Values: `is_correct`, `confidence`,
`truth_probability`, `nll`, `brier`, `choice_mass`, `text_mismatch`, `is_partial`. Metadata:
`predicted_choice`, `ground_truth_choice`, `choices`, `probabilities`, `text_choice`,
`answer_token`, `choices_outside`.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, Literal

import polars as pl

from answerkey.models.logprobs import Position, read_logprob, read_positions
from answerkey.reader.characters import compose
from answerkey.reader.markup import split_thoughts
from answerkey.scorers.base import Types
from answerkey.scorers.mcqa import StringEqualsMcqa
from answerkey.types import Completions, Samples, Score, ScoreStatus

Normalise = Literal["none", "tokens", "bytes"]
#: A number for each choice; None where it is unknown.
Logs = list[float | None]


def judge_probabilities(
    logprobs: object,
    choices: Sequence[str],
    truth: str,
    text_choice: str | None = None,
    normalise: Normalise = "none",
) -> Score:
    """Return the score of one completion's log-probabilities; `text_choice` is what its text names.

    Of choices that are equally likely none is predicted, and each gets its share of the point. A
    choice outside the alternatives that were sent counts as improbable where it is not the truth;
    the probability of a truth outside them is unknown, and so is its `nll`.
    """
    likelihoods = read_likelihoods(logprobs, choices, normalise)
    if isinstance(likelihoods, str):
        return Score(ScoreStatus.FAILED, likelihoods)
    logs, mass, token = likelihoods
    highest = max(log for log in logs if log is not None)
    shares = _share_out(logs, highest)
    best = [choice for choice, log in zip(choices, logs, strict=True) if log == highest]
    predicted = best[0] if len(best) == 1 else None
    squares = []
    for choice, share in zip(choices, shares, strict=True):
        error = (share or 0.0) - (choice == truth)
        squares.append(error**2)
    outside = logs.count(None)
    truth_share = shares[choices.index(truth)]
    values = {
        "is_correct": best.count(truth) / len(best),
        "confidence": shares[logs.index(highest)],
        "truth_probability": truth_share,
        "nll": -math.log(truth_share) if truth_share else None,
        "brier": math.fsum(squares),
        "choice_mass": mass,
        "text_mismatch": None if text_choice is None else float(text_choice != predicted),
        "is_partial": float(outside > 0),
    }
    metadata = {
        "predicted_choice": predicted,
        "ground_truth_choice": truth,
        "choices": list(choices),
        "probabilities": shares,
        "text_choice": text_choice,
        "answer_token": token,
        "choices_outside": outside,
    }
    return Score(ScoreStatus.SCORED, values=values, metadata=metadata)


def _share_out(logs: Logs, highest: float) -> Logs:
    """Return the probability of each choice among all of them; None where it is unknown."""
    weights = [None if log is None else math.exp(log - highest) for log in logs]
    total = math.fsum(filter(None, weights))
    return [None if weight is None else weight / total for weight in weights]


@dataclass(frozen=True)
class ChoiceProbabilities(StringEqualsMcqa):
    """Compares the likeliest choice with the ground-truth choice.

    `extraction` is how the text is read, to be compared with it. `normalise` divides the
    log-probability of a ranked continuation by its length.
    """

    normalise: Normalise = "none"

    type = "choice_probabilities"
    title = "Choice Probabilities"
    value_types: ClassVar[Types] = dict.fromkeys(
        (
            "is_correct",
            "confidence",
            "truth_probability",
            "nll",
            "brier",
            "choice_mass",
            "text_mismatch",
            "is_partial",
        ),
        pl.Float64(),
    )
    metadata_types: ClassVar[Types] = {
        "predicted_choice": pl.String(),
        "ground_truth_choice": pl.String(),
        "choices": pl.List(pl.String),
        "probabilities": pl.List(pl.Float64),
        "text_choice": pl.String(),
        "answer_token": pl.String(),
        "choices_outside": pl.Int64(),
    }
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {
        **dict.fromkeys(value_types, (0.0, 1.0)),
        "nll": (0.0, math.inf),
        "brier": (0.0, 2.0),
    }
    default_metric_name = "Accuracy by Probability"
    default_metrics = (
        {"type": "mean", "field": "is_correct", "name": default_metric_name},
        {"type": "mean", "field": "text_mismatch", "name": "Text Mismatch Rate"},
        {"type": "calibration"},
        {"type": "mean", "field": "brier", "name": "Brier Score"},
        {"type": "mean", "field": "nll", "name": "NLL"},
        {"type": "mean", "field": "choice_mass", "name": "Choice Mass"},
        {"type": "mean", "field": "is_partial", "name": "Choices outside top_logprobs"},
    )
    reads_choices = False
    by_templates = True
    reads_logprobs = True

    def score(
        self,
        samples: Samples,
        completions: Completions,
    ) -> list[Score]:
        """Return the scores of the log-probabilities of each completion."""
        scores = []
        readings = super().score(samples, completions)
        for reading, completion in zip(readings, completions, strict=True):
            metadata: Mapping[str, Any] = reading.metadata
            score = Score(reading.status, reading.reason)
            if reading.status is ScoreStatus.SCORED:
                score = judge_probabilities(
                    completion.logprobs,
                    metadata["choices"],
                    metadata["ground_truth_choice"],
                    metadata["predicted_choice"],
                    self.normalise,
                )
            scores.append(score)
        return scores


# How likely each choice was: read from the alternatives of the first token of the answer. Tokens
# such as ` B`, `(B` and `B.` all stand for the choice `B`, and their probabilities add up. Tokens
# before the answer that hold nothing but white space and opening marks are passed over.

#: What may stand before and after a label within its token.
OPENING = " \t\r\n([{<\"'`*_$#>-«“‘„（【「『：:"  # noqa: RUF001 - the punctuation of many languages
CLOSING = " \t\r\n)]}>\"'`*_$.,;:!?»”’）】」』。，、：；"  # noqa: RUF001 - same
_ENVELOPE = re.compile(r'^\s*\{\s*"answer"\s*:\s*"')
#: So many tokens before the answer are passed over at most.
MOST_OPENING = 8
#: No continuation has so many tokens or bytes.
_LONGEST = 1 << 63

NoLogprobs = Literal["NO_LOGPROBS", "NO_ANSWER_TOKEN", "NO_CHOICE_IN_TOP_LOGPROBS", "OTHER_RANKING"]
#: The log-probability of each choice, None for one outside the alternatives that were sent; the
#: probability of all choices together, None for a ranking; and the token of the answer.
Likelihoods = tuple[Logs, float | None, str | None]


def read_likelihoods(
    logprobs: object,
    choices: Sequence[str],
    normalise: Normalise,
) -> Likelihoods | NoLogprobs:
    """Return how likely each choice was, or why that is unknown."""
    match logprobs:
        case {"ranking": list(ranking)} if len(ranking) != len(choices):
            return "OTHER_RANKING"
        case {"ranking": list(ranking)}:
            logs = [_weigh(continuation, normalise) for continuation in ranking]
            if None in logs:
                return "NO_LOGPROBS"
            return logs, None, None
    positions = read_positions(logprobs)
    if not any(position.top for position in positions):
        return "NO_LOGPROBS"
    for position in _skip_thoughts(positions)[: MOST_OPENING + 1]:
        if position.token.strip(OPENING):
            return _read_alternatives(position, choices)
    return "NO_ANSWER_TOKEN"


def _read_alternatives(position: Position, choices: Sequence[str]) -> Likelihoods | NoLogprobs:
    """Return how likely each choice is among the alternatives of the answer's token."""
    by_label: dict[str, list[float]] = {}
    for token, logprob in position.top.items():
        label = read_label(token)
        by_label.setdefault(label, []).append(math.exp(logprob))
    probabilities = []
    logs: Logs = []
    for choice in choices:
        probability = math.fsum(by_label.get(choice, ()))
        probabilities.append(probability)
        logs.append(math.log(probability) if probability else None)
    mass = math.fsum(probabilities)
    if not mass:
        return "NO_CHOICE_IN_TOP_LOGPROBS"
    return logs, min(1.0, mass), position.token


def _skip_thoughts(positions: list[Position]) -> list[Position]:
    """Return the tokens of the answer, after thoughts and the JSON that we asked for."""
    text = "".join(position.token for position in positions)
    _, answer = split_thoughts(text) or ("", text)
    if not text.endswith(answer):  # it may be in several pieces
        answer = text
    answer = _ENVELOPE.sub("", answer)
    begin = len(text) - len(answer)
    lengths = [len(position.token) for position in positions]
    ends = list(accumulate(lengths))
    return positions[bisect_right(ends, begin) :]


def read_label(token: str) -> str:
    """Return the content of a token without the marks around it."""
    return compose(token.lstrip(OPENING).rstrip(CLOSING))


def _weigh(continuation: object, normalise: Normalise) -> float | None:
    """Return the log-probability of a continuation, divided by its length if that is asked for."""
    if not isinstance(continuation, Mapping):
        return None
    logprob = read_logprob(continuation.get("logprob"))
    if logprob is None or normalise == "none":
        return logprob
    length = continuation.get(normalise)
    if isinstance(length, int) and 0 < length < _LONGEST:
        return logprob / length
    return None
