"""The scorer `choice_probabilities`: the choice that the model found likeliest, not the one it wrote.

It reads log-probabilities: of the first token of the answer, or of continuations that were ranked. A
completion without any is FAILED, never wrong. Values: `is_correct`, `confidence`, `truth_probability`, `nll`,
`brier`, `choice_mass`, `text_mismatch`, `is_partial`. Metadata: `predicted_choice`, `ground_truth_choice`,
`choices`, `probabilities`, `text_choice`, `answer_token`, `choices_outside`.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

import polars as pl

from answerkey.errors import SpecError, listing, suggest
from answerkey.models.responses import ANSWER, Position, read_logprob, read_positions
from answerkey.reader.characters import compose
from answerkey.reader.markup import split_thoughts
from answerkey.scorers.base import RowProblem, Scorer, tabulate_scores
from answerkey.scorers.mcqa import Extraction, StringEqualsMcqa
from answerkey.templates import Template
from answerkey.types import Completions, Known, Notice, Samples, Score, Scores, ScoreStatus

Normalise = Literal["none", "tokens", "bytes"]

VALUE_NAMES = (
    "is_correct",
    "confidence",
    "truth_probability",
    "nll",
    "brier",
    "choice_mass",
    "text_mismatch",
    "is_partial",
)
METADATA_TYPES: dict[str, pl.DataType] = {
    "predicted_choice": pl.String(),
    "ground_truth_choice": pl.String(),
    "choices": pl.List(pl.String),
    "probabilities": pl.List(pl.Float64),
    "text_choice": pl.String(),
    "answer_token": pl.String(),
    "choices_outside": pl.Int64(),
}


def judge_probabilities(
    logprobs: object,
    choices: Sequence[str],
    truth: str,
    said: str | None = None,
    normalise: Normalise = "none",
) -> Score:
    """Return the verdict on one completion's log-probabilities; `said` is the choice that its text names.

    Of choices that are equally likely none is predicted, and each is right to its part. A choice outside the
    alternatives that were sent counts as one of no probability where it is not the truth; the probability of
    a truth outside them is not known, and neither is its `nll`.
    """
    likelihoods = read_likelihoods(logprobs, choices, normalise)
    if isinstance(likelihoods, str):
        return Score(ScoreStatus.FAILED, likelihoods)
    likely, mass, token = likelihoods
    inside = [one for one in likely if one is not None]
    highest = max(inside)
    best = [place for place, one in enumerate(likely) if one == highest]
    shares = _share_out(likely, highest)
    predicted = choices[best[0]] if len(best) == 1 else None
    right = choices.index(truth)
    share = shares[right]
    squares = [((one or 0.0) - (place == right)) ** 2 for place, one in enumerate(shares)]
    values = {
        "is_correct": 1.0 / len(best) if right in best else 0.0,
        "confidence": shares[best[0]],
        "truth_probability": share,
        "nll": -math.log(share) if share else None,
        "brier": math.fsum(squares),
        "choice_mass": mass,
        "text_mismatch": None if said is None else float(said != predicted),
        "is_partial": float(len(inside) < len(likely)),
    }
    metadata = {
        "predicted_choice": predicted,
        "ground_truth_choice": truth,
        "choices": list(choices),
        "probabilities": shares,
        "text_choice": said,
        "answer_token": token,
        "choices_outside": len(likely) - len(inside),
    }
    return Score(ScoreStatus.SCORED, values=values, metadata=metadata)


def _share_out(likely: Sequence[float | None], highest: float) -> list[float | None]:
    """Return the probability of each choice among all of them; None for one that is not known."""
    weights = [None if one is None else math.exp(one - highest) for one in likely]
    total = math.fsum([weight for weight in weights if weight is not None])
    return [None if weight is None else weight / total for weight in weights]


@dataclass(frozen=True)
class ChoiceProbabilities(Scorer):
    """Compares the likeliest choice with the ground-truth choice.

    `extraction` is how the text is read, to be compared with it. `normalise` divides the log-probability of a
    ranked continuation by its length.
    """

    ground_truth_choice: str | int
    choices: str | list[str | int]
    extraction: Extraction = "first_character"
    options: str | list[str] | None = None
    normalise: Normalise = "none"

    type = "choice_probabilities"
    title = "Choice Probabilities"
    template_fields = ("ground_truth_choice", "choices", "options")
    value_names = VALUE_NAMES
    metadata_names = tuple(METADATA_TYPES)
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {
        **dict.fromkeys(VALUE_NAMES, (0.0, 1.0)),
        "nll": (0.0, math.inf),
        "brier": (0.0, 2.0),
    }
    text_names = tuple(name for name in METADATA_TYPES if name != "choices_outside")
    main_value = "is_correct"
    default_metric_name = "Accuracy by Probability"
    default_metrics = (
        {"type": "mean", "field": "is_correct", "name": "Accuracy by Probability"},
        {"type": "mean", "field": "text_mismatch", "name": "Text Mismatch Rate"},
        {"type": "calibration"},
        {"type": "mean", "field": "brier", "name": "Brier Score"},
        {"type": "mean", "field": "nll", "name": "NLL"},
        {"type": "mean", "field": "choice_mass", "name": "Choice Mass"},
        {"type": "mean", "field": "is_partial", "name": "Choices outside top_logprobs"},
    )
    follows_order = True
    reads_logprobs = True

    def __post_init__(self) -> None:
        known = get_args(Normalise)
        if self.normalise not in known:
            hint = suggest(str(self.normalise), known) or f"ways: {listing(known)}"
            raise SpecError("E108", f"`normalise` is {self.normalise!r}", hint=hint)

    @cached_property
    def _text(self) -> StringEqualsMcqa:
        """What reads the text, the choices and the truth."""
        return StringEqualsMcqa(
            self.ground_truth_choice, self.choices, extraction=self.extraction, options=self.options
        )

    def compile_field(self, field: str) -> Template | None:
        """Return the template of one field."""
        return self._text.compile_field(field)

    def check_fields(self) -> list[tuple[str, SpecError]]:
        """Return an unknown extraction rule, and constants that fit no row."""
        return self._text.check_fields()

    def check_rows(self, samples: Samples) -> tuple[list[RowProblem], list[Notice]]:
        """Return the rows whose choices or truth are unsuitable."""
        return self._text.check_rows(samples)

    def sample_facts(self, samples: Samples) -> Known:
        """Return choices, truth and option texts of each sample."""
        return self._text.sample_facts(samples)

    def score(self, samples: Samples, completions: Completions) -> Scores:
        """Return the verdicts on the log-probabilities of each completion."""
        readings = self._text.judge_rows(samples, completions)
        cells = completions.frame["logprobs"].to_list()
        scores = [self._judge(*row) for row in zip(readings, cells, strict=True)]
        return tabulate_scores(scores, dict.fromkeys(VALUE_NAMES, pl.Float64()), METADATA_TYPES)

    def _judge(self, reading: Score, logprobs: str | None) -> Score:
        """Return the verdict on one completion, whose text was judged before."""
        if reading.status is not ScoreStatus.SCORED:
            return Score(reading.status, reading.reason)
        metadata: Mapping[str, Any] = reading.metadata
        return judge_probabilities(
            logprobs and json.loads(logprobs),
            metadata["choices"],
            metadata["ground_truth_choice"],
            metadata["predicted_choice"],
            self.normalise,
        )


# How likely each choice was: read from the alternatives of the first token of the answer. Tokens such as
# ` B`, `(B` and `B.` all stand for the choice `B`, and their probabilities add up. Tokens before the answer
# that hold nothing but white space and opening marks are passed over.

#: What may stand before and after a label within its token.
OPENING = " \t\r\n([{<\"'`*_$#>-«“‘„（【「『：:"  # noqa: RUF001 - the punctuation of many languages
CLOSING = " \t\r\n)]}>\"'`*_$.,;:!?»”’）】」』。，、：；"  # noqa: RUF001 - same
_ENVELOPE = re.compile(rf'^\s*\{{\s*"{ANSWER}"\s*:\s*"')
#: So many tokens before the answer are passed over at most.
MOST_OPENING = 8
#: No continuation has so many tokens or bytes.
_LONGEST = 1 << 63

NoLogprobs = Literal["NO_LOGPROBS", "NO_ANSWER_TOKEN", "NO_CHOICE_IN_TOP_LOGPROBS", "OTHER_RANKING"]


def read_likelihoods(
    logprobs: object, choices: Sequence[str], normalise: Normalise
) -> tuple[list[float | None], float | None, str | None] | NoLogprobs:
    """Return how likely each choice was, or why that is not known.

    The log-probability of each choice, None for one outside the alternatives that were sent; the probability
    of all choices together, None for continuations that were ranked; the answer's own token.
    """
    if isinstance(logprobs, Mapping) and isinstance(logprobs.get("ranking"), list):
        if len(logprobs["ranking"]) != len(choices):
            return "OTHER_RANKING"
        found = [_weigh(one, normalise) for one in logprobs["ranking"]]
        return "NO_LOGPROBS" if None in found else (found, None, None)
    positions = read_positions(logprobs)
    if not any(one.top for one in positions):
        return "NO_LOGPROBS"
    positions = _skip_thoughts(positions)
    answer = next((one for one in positions[: MOST_OPENING + 1] if one.token.strip(OPENING)), None)
    if answer is None:
        return "NO_ANSWER_TOKEN"
    sums: dict[str, list[float]] = {}
    for token, logprob in answer.top.items():
        sums.setdefault(read_label(token), []).append(math.exp(logprob))
    likely = [math.fsum(sums[name]) if name in sums else None for name in choices]
    known = [one for one in likely if one]
    if not known:
        return "NO_CHOICE_IN_TOP_LOGPROBS"
    logs = [math.log(one) if one else None for one in likely]
    return logs, min(1.0, math.fsum(known)), answer.token


def _skip_thoughts(positions: list[Position]) -> list[Position]:
    """Return the tokens after the thoughts, and what stands before a choice in JSON that we asked for."""
    text = "".join(one.token for one in positions)
    said = (split_thoughts(text) or ("", text))[1]
    said = said if text.endswith(said) else text  # what is said may be in several pieces
    said = _ENVELOPE.sub("", said)
    ends, place = [], 0
    for one in positions:
        place += len(one.token)
        ends.append(place)
    return positions[bisect_right(ends, len(text) - len(said)) :]


def read_label(token: str) -> str:
    """Return what a token says without the marks around it."""
    return compose(token.lstrip(OPENING).rstrip(CLOSING))


def _weigh(one: object, normalise: Normalise) -> float | None:
    """Return the log-probability of a continuation, by its length if that is asked for."""
    if not isinstance(one, dict | Mapping):  # most are, and that is told faster
        return None
    logprob = read_logprob(one.get("logprob"))
    if logprob is None or normalise == "none":
        return logprob
    length = one.get(normalise)
    return logprob / length if isinstance(length, int) and 0 < length < _LONGEST else None
