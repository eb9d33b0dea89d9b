"""The scorer `python`: a function that the user writes, run in a separate process.

The function is `compute_scores(sample, solver_output)` or `compute_scores(sample)`, plain or async.
It returns the scores of one sample, `{"name": value}`, or `{"scores": {...}, "metadata": {...}}`.
Numbers and booleans are kept as decimals (true is 1.0); other values and all metadata as JSON text.
A sample on which the function fails is FAILED: the reason says how, the metadata field
`snippet_traceback` says where.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from answerkey.errors import ScoringError
from answerkey.sandbox import Snippet, SnippetError, SnippetProcess
from answerkey.scorers.base import UNANSWERED, Scorer, Types
from answerkey.types import (
    TRACEBACK_FIELD,
    Completions,
    CompletionStatus,
    Samples,
    Score,
    ScoreStatus,
)

FUNCTION = "compute_scores"
_LONGEST_REASON = 200
_LARGEST = sys.float_info.max
_LOAD_HINT = (
    f"define `{FUNCTION}(sample, solver_output)` or `{FUNCTION}(sample)`, and let nothing "
    "fail around it"
)


@dataclass(frozen=True)
class PythonScorer(Scorer):
    """Scores each sample with the user's own function."""

    compute_scores_snippet: str

    type = "python"
    title = "Python"
    value_types = None
    metadata_types = None

    @property
    def needs_completion(self) -> bool:
        """Whether the function takes the solver's output; False for `compute_scores(sample)`."""
        [snippet] = self.snippets()
        parameters = snippet.find_parameters()
        if parameters is None:
            return True
        names = parameters.posonlyargs + parameters.args
        return len(names) != 1

    def snippets(self) -> tuple[Snippet, ...]:
        """Return the one snippet, which must be trusted before it is run."""
        snippet = Snippet(FUNCTION, self.compute_scores_snippet, label=self.type)
        return (snippet,)

    def score(
        self,
        samples: Samples,
        completions: Completions,
    ) -> list[Score]:
        """Return the scores. Raise ScoringError E401 when the snippet cannot even be loaded."""
        needs_completion = self.needs_completion
        scores = [UNANSWERED] * len(samples)
        calls = {}
        rows = zip(samples.rows(), completions, strict=True)
        for row, (sample, completion) in enumerate(rows):
            is_error = completion.status is CompletionStatus.ERROR
            if not is_error or not needs_completion:
                calls[row] = [dict(sample), completion.exchange()]
        if not calls:
            return scores
        try:
            with SnippetProcess(self.snippets()[0]) as process:
                outcomes = process.call_all(calls.values())
                for row, outcome in zip(calls, outcomes, strict=True):
                    scores[row] = _read_outcome(outcome)
        except SnippetError as problem:
            message = f"the snippet of a `python` scorer cannot be loaded: {problem}"
            raise ScoringError("E401", message, hint=_LOAD_HINT) from None
        return scores

    def column_types(self, scores: Sequence[Score]) -> tuple[Types, Types]:
        """Return the types of what the function gave: numbers as such, the rest as JSON text."""
        values: dict[str, pl.DataType | None] = {}
        metadata: dict[str, pl.DataType | None] = {}
        for score in scores:
            metadata |= dict.fromkeys(score.metadata)
            for name, value in score.values.items():
                values.setdefault(name, pl.Float64())
                if not isinstance(value, int | float | None):
                    values[name] = None
        metadata.pop(TRACEBACK_FIELD, None)
        metadata[TRACEBACK_FIELD] = pl.String()
        return values, metadata


def _read_outcome(outcome: object) -> Score:
    """Return the score that one call gave."""
    if isinstance(outcome, SnippetError):
        return _fail(outcome.kind, outcome.message, outcome.traceback or None)
    if not isinstance(outcome, Mapping):
        return _fail("bad_value", f"`{FUNCTION}` returned {type(outcome).__name__}, not a dict")
    values: Mapping[str, object] = outcome
    metadata: object = {}
    has_parts = set(outcome) <= {"scores", "metadata"}
    if has_parts and isinstance(outcome.get("scores"), Mapping):
        values = outcome["scores"]
        metadata = outcome.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        return _fail("bad_value", f"`metadata` is {type(metadata).__name__}, not a dict")
    for name, value in values.items():
        if isinstance(value, int | float) and not -_LARGEST <= value <= _LARGEST:
            return _fail("bad_value", f"score `{name}` is {value}, which is no finite number")
    metadata = {**metadata, TRACEBACK_FIELD: None}
    return Score(ScoreStatus.SCORED, values=values, metadata=metadata)


def _fail(kind: str, message: str, traceback: str | None = None) -> Score:
    words = f"SNIPPET_FAILED ({kind}): {message}".split()
    reason = " ".join(words)[:_LONGEST_REASON]
    metadata = {TRACEBACK_FIELD: traceback}
    return Score(ScoreStatus.FAILED, reason, metadata=metadata)
