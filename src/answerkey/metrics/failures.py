"""Which scorers failed, on how many rows, and how: scorer key → reason → count and first example.

The counts of a tally are those of the main scorer; a scorer beside it that fails would not be seen in them.
A scorer fails on a row that is FAILED, and on one whose own call failed although there is a completion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from answerkey.types import TRACEBACK_FIELD, Completions, CompletionStatus, Scores, ScoreStatus

#: Why a row has no score that was left out because the first ones all failed in the same way.
STOPPED_EARLY = "STOPPED_EARLY"
#: What is no failure of the scorer itself: a judge that gave no reply, a row that was left out.
NOT_SCORING = frozenset(["JUDGE_CALL_FAILED", STOPPED_EARLY])

Failures = dict[str, dict[str, dict[str, Any]]]

#: What a reason is grouped by: all before its second colon, for `SNIPPET_FAILED (raised): KeyError: 'x'`
#: has as many forms as there are keys.
GROUP = r"^([^:]*(?:: [^:]*)?)"


def measure_failures(
    ids: pl.Series, scores: Mapping[str, Scores], completions: Completions | None = None
) -> Failures:
    """Return the rows of one shard on which each scorer failed; a scorer without any is left out."""
    found = {key: _collect(ids, one, completions) for key, one in scores.items()}
    return {key: reasons for key, reasons in found.items() if reasons}


def _collect(ids: pl.Series, scores: Scores, completions: Completions | None) -> dict[str, dict[str, Any]]:
    """Return the reasons in the order in which they first occur."""
    is_failed = scores.frame["status"] == ScoreStatus.FAILED.value
    if completions is not None:
        is_answered = completions.frame["status"] != CompletionStatus.ERROR.value
        is_failed |= (scores.frame["status"] == ScoreStatus.ERROR.value) & is_answered
    if not is_failed.any():
        return {}
    traceback = scores.column(TRACEBACK_FIELD)
    message = scores.frame["reason"].fill_null("UNKNOWN")
    table = pl.DataFrame(
        {
            "sample_id": ids.cast(pl.String),
            "message": message,
            "traceback": pl.Series([None] * len(ids), dtype=pl.String) if traceback is None else traceback,
        }
    ).filter(is_failed)
    reason = pl.col("message").str.extract(GROUP).str.strip_chars()
    groups = table.group_by(reason.alias("reason"), maintain_order=True).agg(
        pl.len().alias("count"), pl.exclude("reason").first()
    )
    return {
        row.pop("reason"): {"count": row.pop("count"), "example": row} for row in groups.iter_rows(named=True)
    }


def count_unscored(owners: pl.Series, scores: Mapping[str, Scores]) -> int:
    """Return how many samples some scorer could not score; `owners` has the sample that each row is of."""
    failed = pl.select(
        pl.any_horizontal(one.frame["status"] == ScoreStatus.FAILED.value for one in scores.values())
    ).to_series()
    return owners.filter(failed).n_unique()


def find_same_failure(tally: Mapping[str, Any]) -> str | None:
    """Return what all rows of a tally have failed with, as `scorer: reason`; None when some have not."""
    rows = (tally.get("trials") or tally.get("orders") or tally)["counts"]["samples"]
    return next(
        (
            f"{key}: {reason}"
            for key, reasons in tally["failures"].items()
            for reason, one in reasons.items()
            if one["count"] == rows and reason not in NOT_SCORING
        ),
        None,
    )


def merge_failures(parts: Iterable[Failures]) -> Failures:
    """Return the failures of shards, given in dataset order, as one; first examples stay first."""
    merged: Failures = {}
    for part in parts:
        for key, reasons in part.items():
            known = merged.setdefault(key, {})
            for reason, found in reasons.items():
                one = known.setdefault(reason, {**found, "count": 0})
                one["count"] += found["count"]
    return merged
