"""What the table of samples shows of a verdict: status, validity, reason, value, truth, predicted choice."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import polars as pl

from answerkey.metrics import Mean
from answerkey.metrics.base import read_number
from answerkey.metrics.task_counts import find_invalid_reasons
from answerkey.spec import ScoringStep
from answerkey.types import Completions, Scores, ScoreStatus, Validity

TRUTHS = ("ground_truth_choice", "answer_gt")
PREDICTIONS = ("predicted_choice", "answer_pred")
COLUMNS: dict[str, pl.DataType] = {
    "status": pl.String(),
    "validity": pl.String(),
    "reason": pl.String(),
    "truth": pl.String(),
    "predicted": pl.String(),
    "value": pl.Float64(),
    "is_counted": pl.Boolean(),
}
#: What a status without a reason is called.
UNKNOWN = "UNKNOWN"


def tabulate_verdicts(
    verdicts: pl.Series, encoded: Collection[str], value: str | None, completions: Completions | None
) -> pl.DataFrame:
    """Return the columns of `COLUMNS` for a scorer's verdicts; `value` is the name of its main value.

    The completions tell which of them are no text, where the scorer itself does not say what is VALID.
    """
    scores = Scores(verdicts.struct.unnest(), frozenset(encoded))
    status, is_scored = scores.frame["status"], scores.frame["status"] == ScoreStatus.SCORED.value
    invalid = _find_invalid(scores, completions)
    validity = pl.when(invalid.is_null()).then(pl.lit(Validity.VALID.value))
    is_known = needs_no_completions(scores) or completions is not None
    failed = scores.frame["reason"].fill_null(UNKNOWN)
    found: dict[str, pl.Expr] = {
        "status": pl.lit(status),
        "validity": pl.when(is_scored & is_known).then(validity.otherwise(pl.lit(Validity.INVALID.value))),
        "reason": pl.when(is_scored).then(invalid).otherwise(failed),
        "truth": pl.lit(_find_text(scores, TRUTHS)),
        "predicted": pl.lit(_find_text(scores, PREDICTIONS)),
        "value": pl.when(is_scored).then(_read_numbers(scores, value)),
        "is_counted": pl.lit(scores.counted()),
    }
    return pl.select(one.cast(COLUMNS[name]).alias(name) for name, one in found.items())


def needs_no_completions(scores: Scores) -> bool:
    """Return whether the scorer itself says which completions are VALID."""
    return "completion_validity" in scores.metadata_names


def _find_invalid(scores: Scores, completions: Completions | None) -> pl.Series:
    nothing = pl.repeat(None, len(scores), dtype=pl.String, eager=True)
    return find_invalid_reasons(scores, nothing if completions is None else completions.frame["status"])


def _find_text(scores: Scores, names: Sequence[str]) -> pl.Series:
    """Return the first of these fields that the scorer has, as text."""
    for name in names:
        column = scores.column(name)
        if column is not None and name not in scores.encoded and not column.dtype.is_nested():
            return column.cast(pl.String)
    return pl.repeat(None, len(scores), dtype=pl.String, eager=True)


def _read_numbers(scores: Scores, name: str | None) -> pl.Series:
    """Return a value as floats; null where it is no finite number."""
    column = None if name is None else scores.column(name)
    if column is None:
        return pl.repeat(None, len(scores), dtype=pl.Float64, eager=True)
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        numbers = column.cast(pl.Float64)
        return pl.select(pl.when(numbers.is_finite()).then(numbers)).to_series()
    if name not in scores.encoded:
        return pl.repeat(None, len(scores), dtype=pl.Float64, eager=True)
    known = {text: read_number(json.loads(text)) for text in column.unique() if text is not None}
    return pl.Series([known.get(text) for text in column], dtype=pl.Float64, strict=False)


def find_value_name(step: ScoringStep, fields: Sequence[str]) -> str | None:
    """Return the value that stands for a scorer: its main one, what its first mean is of, or its first."""
    if step.scorer.main_value is not None:
        return step.scorer.main_value
    means = [one.metric.field.partition(".")[0] for one in step.metrics if isinstance(one.metric, Mean)]
    return next((name for name in means if name in fields), next(iter(fields), None))
