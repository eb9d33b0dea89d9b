"""The scorer `choice_probabilities`: the choice that the model found likeliest, not the one it wrote.

It reads log-probabilities: of the first token of the answer, or of continuations that were ranked. A
completion without any is FAILED, never wrong. Values: `is_correct`, `confidence`, `truth_probability`, `nll`,
`brier`, `choice_mass`, `text_mismatch`, `is_partial`. Metadata: `predicted_choice`, `ground_truth_choice`,
`choices`, `probabilities`, `text_choice`, `answer_token`, `choices_outside`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, get_args

import polars as pl

from answerkey.errors import SpecError, listing, suggest
from answerkey.scorers.answer_tokens import Likelihoods, Normalise, read_likelihoods
from answerkey.scorers.base import BaseScorer, RowProblem, build_scores
from answerkey.scorers.mcqa import Extraction, StringEqualsMcqa
from answerkey.templates import Template
from answerkey.types import Completions, Known, Notice, Samples, Score, Scores, ScoreStatus

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
    found = read_likelihoods(logprobs, choices, normalise)
    if not isinstance(found, Likelihoods):
        return Score(ScoreStatus.FAILED, found)
    best, shares, place = found.best, found.shares, list(choices).index(truth)
    predicted = choices[best[0]] if len(best) == 1 else None
    share = shares[place]
    squares = [((one or 0.0) - (at == place)) ** 2 for at, one in enumerate(shares)]
    values = {
        "is_correct": 1.0 / len(best) if place in best else 0.0,
        "confidence": shares[best[0]],
        "truth_probability": share,
        "nll": None if not share else -math.log(share),
        "brier": math.fsum(squares),
        "choice_mass": found.mass,
        "text_mismatch": None if said is None else float(said != predicted),
        "is_partial": float(None in shares),
    }
    metadata = {
        "predicted_choice": predicted,
        "ground_truth_choice": truth,
        "choices": list(choices),
        "probabilities": list(shares),
        "text_choice": said,
        "answer_token": found.token,
        "choices_outside": sum(one is None for one in shares),
    }
    return Score(ScoreStatus.SCORED, values=values, metadata=metadata)


@dataclass(frozen=True)
class ChoiceProbabilities(BaseScorer):
    """Compares the likeliest choice with the ground-truth choice.

    `extraction` is how the text is read, to be compared with it. `normalise` divides the log-probability of a
    ranked continuation by its length.
    """

    ground_truth_choice: str | int
    choices: str | list[str | int]
    extraction: Extraction = "first_character"
    options: str | list[str] | None = None
    normalise: Normalise = "none"

    type: ClassVar[str] = "choice_probabilities"
    title: ClassVar[str] = "Choice Probabilities"
    template_fields: ClassVar[tuple[str, ...]] = ("ground_truth_choice", "choices", "options")
    value_names: ClassVar[tuple[str, ...] | None] = VALUE_NAMES
    metadata_names: ClassVar[tuple[str, ...] | None] = tuple(METADATA_TYPES)
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {
        **dict.fromkeys(VALUE_NAMES, (0.0, 1.0)),
        "nll": (0.0, math.inf),
        "brier": (0.0, 2.0),
    }
    text_names: ClassVar[tuple[str, ...]] = tuple(
        name for name in METADATA_TYPES if name != "choices_outside"
    )
    main_value: ClassVar[str | None] = "is_correct"
    default_metric_name: ClassVar[str | None] = "Accuracy by Probability"
    default_metrics: ClassVar[tuple[Mapping[str, object], ...]] = (
        {"type": "mean", "field": "is_correct", "name": "Accuracy by Probability"},
        {"type": "mean", "field": "text_mismatch", "name": "Text Mismatch Rate"},
        {"type": "calibration"},
        {"type": "mean", "field": "brier", "name": "Brier Score"},
        {"type": "mean", "field": "nll", "name": "NLL"},
        {"type": "mean", "field": "choice_mass", "name": "Choice Mass"},
        {"type": "mean", "field": "is_partial", "name": "Choices outside top_logprobs"},
    )
    follows_order: ClassVar[bool] = True
    reads_logprobs: ClassVar[bool] = True

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

    def know(self, samples: Samples) -> Known:
        """Return choices, truth and option texts of each sample."""
        return self._text.know(samples)

    def score(self, samples: Samples, completions: Completions) -> Scores:
        """Return the verdicts, the same as `judge_probabilities` gives row by row."""
        text = self._text.score(samples, completions)
        columns = ("choices", "ground_truth_choice", "predicted_choice")
        read = [[] if (found := text.column(name)) is None else found.to_list() for name in columns]
        heads = text.frame.select("status", "reason").iter_rows()
        rows = zip(heads, completions.frame["logprobs"].to_list(), *read, strict=True)
        verdicts = [
            self._judge(status, reason, logprobs, names, truth, said)
            for (status, reason), logprobs, names, truth, said in rows
        ]
        values = {name: [one.values.get(name) for one in verdicts] for name in VALUE_NAMES}
        metadata = {name: [one.metadata.get(name) for one in verdicts] for name in METADATA_TYPES}
        return build_scores(
            pl.Series([one.status.value for one in verdicts], dtype=pl.String),
            pl.Series([one.reason for one in verdicts], dtype=pl.String),
            {name: pl.Series(found, dtype=pl.Float64) for name, found in values.items()},
            metadata={name: pl.Series(metadata[name], dtype=dtype) for name, dtype in METADATA_TYPES.items()},
        )

    def _judge(
        self,
        status: str,
        reason: str | None,
        logprobs: str | None,
        choices: Sequence[str] | None,
        truth: str | None,
        said: str | None,
    ) -> Score:
        if status != ScoreStatus.SCORED.value or choices is None or truth is None:
            return Score(ScoreStatus(status), reason)
        told = None if logprobs is None else json.loads(logprobs)
        return judge_probabilities(told, choices, truth, said, self.normalise)
