"""How another tool's verdicts on the same completions compare with ours: a part of the tally.

    compared      completions with a verdict of both: right or wrong
    both_right, both_wrong
    only_theirs   they say right, we say wrong: count, and reason → count, first example
    only_ours     the reverse
    not_compared  why → count: NOT_JUDGED and PARTLY_RIGHT by them, NOT_SCORED by us

A reason is why our scorer found the completion INVALID, or what was read: READ_ANOTHER, THEY_READ_NOTHING, or
READ_ALIKE where the same answer was read and the truths differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from answerkey.metrics.observed import merge_parts, sort_keys
from answerkey.types import Completions, Scores, ScoreStatus, Validity

READ_ALIKE, READ_ANOTHER, READ_NOTHING = "READ_ALIKE", "READ_ANOTHER", "THEY_READ_NOTHING"
SIDES = ("only_theirs", "only_ours")
_COUNTS = ("compared", "both_right", "both_wrong")
#: How much of a completion an example shows.
_EXAMPLE_CHARACTERS = 200


def measure_theirs(ids: pl.Series, completions: Completions | None, scores: Scores) -> dict[str, Any]:
    """Return the comparison of one shard; empty where nobody else has judged, or we do not say right."""
    correct = scores.column("is_correct")
    if completions is None or "their_score" not in completions.frame.columns or correct is None:
        return {}
    if "is_correct" in scores.encoded or not correct.dtype.is_numeric():
        return {}
    table = _lay_out(ids, completions, scores, correct)
    ours, theirs = pl.col("ours") == 1, pl.col("theirs") == 1
    both = table.filter("is_compared")
    sides = {"only_theirs": theirs & ~ours, "only_ours": ours & ~theirs}
    return {
        "compared": both.height,
        "both_right": both.filter(ours & theirs).height,
        "both_wrong": both.filter(~ours & ~theirs).height,
        **{side: _collect(both.filter(is_there)) for side, is_there in sides.items()},
        "not_compared": _count_others(table),
    }


def _lay_out(ids: pl.Series, completions: Completions, scores: Scores, correct: pl.Series) -> pl.DataFrame:
    said = completions.frame
    nothing = pl.Series([None] * said.height, dtype=pl.String)
    validity, why, read = (
        nothing if (found := scores.column(name)) is None else found.cast(pl.String)
        for name in ("completion_validity", "validity_reason", "predicted_choice")
    )
    table = pl.DataFrame(
        {
            "sample_id": ids.cast(pl.String),
            "completion": said["completion"],
            "status": scores.frame["status"],
            "ours": correct.cast(pl.Float64),
            "theirs": said["their_score"],
            "validity": validity,
            "why": why,
            "predicted_choice": read,
            "their_answer": said["their_answer"] if "their_answer" in said.columns else nothing,
        }
    )
    is_scored = (pl.col("status") == ScoreStatus.SCORED.value) & pl.col("ours").is_in([0.0, 1.0])
    is_judged = pl.col("theirs").is_in([0.0, 1.0])
    return table.with_columns(
        is_scored.fill_null(value=False).alias("is_scored"),
        (is_scored & is_judged).fill_null(value=False).alias("is_compared"),
    )


def _collect(table: pl.DataFrame) -> dict[str, Any]:
    """Return how many rows there are, and count and first example of each reason, in their order."""
    is_invalid = pl.col("validity") == Validity.INVALID.value
    has_read = pl.col("their_answer").fill_null("").str.strip_chars() != ""
    reason = (
        pl.when(is_invalid & (pl.col("theirs") == 1))
        .then(pl.coalesce("why", pl.lit(Validity.INVALID.value)))
        .when(pl.col("their_answer") == pl.col("predicted_choice"))
        .then(pl.lit(READ_ALIKE))
        .when(~has_read & (pl.col("theirs") == 0))
        .then(pl.lit(READ_NOTHING))
        .otherwise(pl.lit(READ_ANOTHER))
    )
    shown = ("sample_id", "completion", "predicted_choice", "their_answer")
    cut = table.with_columns(pl.col("completion").str.slice(0, _EXAMPLE_CHARACTERS), reason.alias("reason"))
    groups = cut.group_by("reason", maintain_order=True).agg(
        pl.len().alias("count"), *(pl.col(name).first() for name in shown)
    )
    reasons = {
        row["reason"]: {"count": row["count"], "example": {name: row[name] for name in shown}}
        for row in groups.iter_rows(named=True)
    }
    return {"count": table.height, "reasons": reasons}


def _count_others(table: pl.DataFrame) -> dict[str, int]:
    kept = {
        "NOT_SCORED": ~pl.col("is_scored"),
        "NOT_JUDGED": pl.col("is_scored") & pl.col("theirs").is_null(),
        "PARTLY_RIGHT": pl.col("is_scored") & pl.col("theirs").is_not_null() & ~pl.col("is_compared"),
    }
    counts = table.select(rows.sum().alias(name) for name, rows in kept.items()).row(0, named=True)
    return {name: int(count) for name, count in counts.items() if count}


def merge_theirs(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the comparisons of shards, given in dataset order, as one; first examples stay first."""
    found = [part for part in parts if part]
    if not found:
        return {}
    merged: dict[str, Any] = {name: sum(part[name] for part in found) for name in _COUNTS}
    for side in SIDES:
        reasons: dict[str, dict[str, Any]] = {}
        for reason, one in ((name, one) for part in found for name, one in part[side]["reasons"].items()):
            known = reasons.setdefault(reason, {**one, "count": 0})
            known["count"] += one["count"]
        merged[side] = {"count": sum(part[side]["count"] for part in found), "reasons": reasons}
    return merged | {"not_compared": sort_keys(merge_parts(part["not_compared"] for part in found))}
