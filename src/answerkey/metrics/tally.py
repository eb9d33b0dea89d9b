"""What the summary needs besides the metrics: counts that add up, reasons, letters and categories.

A tally is a plain mapping that JSON can hold:

    counts              samples = scored + failed + errors, scored = valid + invalid, refused ⊂ invalid
    completion_statuses how many completions are OK, REFUSED, NO_TEXT, ERROR
    cut_off             how many completions the token limit cut off (finish reason `length`)
    invalid             reason → count, first example (sample id, start of the completion); scored samples
    failed, errors      the same for samples without a score
    excluded            action key → how many scored samples it keeps out of the metrics
    letters             true choice → predicted choice (or INVALID) → count, of samples that count
    category_column     the column, or null
    categories          category → n, correct, partial (neither 0 nor 1), of samples that count
    failures            scorer key → reason → count, first example; of every scorer, see `failures`
    trials              only under trials, see `trial_tally`
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from answerkey.metrics.failures import merge_failures
from answerkey.metrics.observed import merge_parts, sort_keys, write_label
from answerkey.types import Completions, CompletionStatus, Samples, Scores, ScoreStatus, Validity

#: Columns that hold a sample's category, the first one that a dataset has.
CATEGORY_COLUMNS = ("category", "subject", "topic", "domain", "subset")

#: How samples without a category are called.
NO_CATEGORY = "(none)"

#: How much of a completion an example shows.
EXAMPLE_CHARACTERS = 200

COUNTS = ("samples", "scored", "valid", "invalid", "refused", "failed", "errors")

Tally = dict[str, Any]


def find_category_column(columns: Iterable[str]) -> str | None:
    """Return the column that holds categories, or None."""
    present = set(columns)
    return next((name for name in CATEGORY_COLUMNS if name in present), None)


def measure_tally(
    samples: Samples, completions: Completions | None, scores: Scores, category: str | None = None
) -> Tally:
    """Return the tally of one shard; the three tables have the same rows."""
    table = _lay_out(samples, completions, scores)
    scored = table.filter(status=ScoreStatus.SCORED.value)
    invalid = scored.filter(pl.col("invalid_reason").is_not_null())
    failed = table.filter(status=ScoreStatus.FAILED.value)
    errors = table.filter(status=ScoreStatus.ERROR.value)
    return {
        "counts": {
            "samples": table.height,
            "scored": scored.height,
            "valid": scored.height - invalid.height,
            "invalid": invalid.height,
            "refused": invalid.filter(invalid_reason=CompletionStatus.REFUSED.value).height,
            "failed": failed.height,
            "errors": errors.height,
        },
        "completion_statuses": _count(table["completion_status"].drop_nulls()),
        "cut_off": 0 if completions is None else int((completions.frame["finish_reason"] == "length").sum()),
        "invalid": _collect_reasons(invalid, "invalid_reason"),
        "failed": _collect_reasons(failed, "reason"),
        "errors": _collect_reasons(errors, "reason"),
        "excluded": _count(scored["excluded_by"].drop_nulls()),
        "letters": _count_letters(scores),
        "category_column": category,
        "categories": {} if category is None else _count_categories(samples, scores, category),
    }


def _lay_out(samples: Samples, completions: Completions | None, scores: Scores) -> pl.DataFrame:
    """Return one row per sample with what is tallied; `invalid_reason` is null for valid completions."""
    height = len(scores)
    texts = statuses = pl.Series([None] * height, dtype=pl.String)
    if completions is not None:
        texts, statuses = completions.frame["completion"], completions.frame["status"]
    return scores.frame.select("status", "reason", "excluded_by").with_columns(
        samples.ids.cast(pl.String).alias("sample_id"),
        texts.alias("completion"),
        statuses.alias("completion_status"),
        find_invalid_reasons(scores, statuses).alias("invalid_reason"),
    )


def find_invalid_reasons(scores: Scores, statuses: pl.Series) -> pl.Series:
    """Return why each completion is invalid, null where it is valid; by its status if no scorer says so."""
    validity, reason = scores.column("completion_validity"), scores.column("validity_reason")
    if validity is None:
        return pl.select(pl.when(statuses != CompletionStatus.OK.value).then(statuses)).to_series()
    stated = pl.lit(None, dtype=pl.String) if reason is None else reason.cast(pl.String)
    is_invalid = validity.cast(pl.String) == Validity.INVALID.value
    return pl.select(
        pl.when(is_invalid).then(pl.coalesce(stated, pl.lit(Validity.INVALID.value)))
    ).to_series()


def _count(values: pl.Series) -> dict[str, int]:
    groups = pl.DataFrame([values.cast(pl.String).alias("value")]).group_by("value").len().sort("value")
    return dict(groups.iter_rows())


def _collect_reasons(table: pl.DataFrame, column: str) -> dict[str, dict[str, Any]]:
    """Return count and first example of each reason, in the order in which the reasons first occur."""
    groups = table.group_by(pl.col(column).fill_null("UNKNOWN"), maintain_order=True).agg(
        pl.len().alias("count"),
        pl.col("sample_id").first(),
        pl.col("completion").first().str.slice(0, EXAMPLE_CHARACTERS),
    )
    return {
        reason: {"count": count, "example": {"sample_id": sample_id, "completion": completion}}
        for reason, count, sample_id, completion in groups.iter_rows()
    }


def _count_letters(scores: Scores) -> dict[str, dict[str, int]]:
    truth, predicted = scores.column("ground_truth_choice"), scores.column("predicted_choice")
    if truth is None or predicted is None:
        return {}
    letters = pl.DataFrame(
        [truth.cast(pl.String).alias("true"), predicted.cast(pl.String).alias("predicted")]
    ).filter(scores.counted() & truth.is_not_null())
    groups = letters.group_by("true", pl.col("predicted").fill_null(Validity.INVALID.value)).len()
    counts: dict[str, dict[str, int]] = {}
    for true, letter, count in groups.sort("true", "predicted").iter_rows():
        counts.setdefault(true, {})[letter] = count
    return counts


def _count_categories(samples: Samples, scores: Scores, category: str) -> dict[str, dict[str, int]]:
    correct = _read_correct(scores)
    if correct is None:
        return {}
    rows = pl.DataFrame([samples.frame[category].alias("category"), correct.alias("correct")])
    groups = (
        rows.filter(scores.counted() & correct.is_not_null())
        .group_by("category")
        .agg(
            pl.len().alias("n"),
            (pl.col("correct") == 1).sum().alias("correct"),
            (~pl.col("correct").is_in([0.0, 1.0])).sum().alias("partial"),
        )
    )
    labels = _label_categories(groups["category"], is_encoded=category in samples.encoded)
    counts = groups.select("n", "correct", "partial").iter_rows(named=True)
    return sort_keys(merge_parts({label: count} for label, count in zip(labels, counts, strict=True)))


def _read_correct(scores: Scores) -> pl.Series | None:
    """Return `is_correct` as floats, null where it is no number; None when the scorer has no such number."""
    correct = scores.column("is_correct")
    if correct is not None and "is_correct" in scores.encoded:
        return correct.cast(pl.String).replace({"true": "1", "false": "0"}).cast(pl.Float64, strict=False)
    if correct is None or not (correct.dtype.is_numeric() or correct.dtype == pl.Boolean):
        return None
    return correct.cast(pl.Float64)


def _label_categories(values: pl.Series, *, is_encoded: bool) -> list[str]:
    decoded = [json.loads(value) if is_encoded and value is not None else value for value in values.to_list()]
    return [NO_CATEGORY if value is None else write_label(value) for value in decoded]


def merge_tallies(tallies: Sequence[Mapping[str, Any]]) -> Tally:
    """Return the tallies of shards, given in dataset order, as one; first examples stay first."""
    columns = [tally["category_column"] for tally in tallies]
    return {
        "counts": {name: sum(tally["counts"][name] for tally in tallies) for name in COUNTS},
        "completion_statuses": _merge_counts(tallies, "completion_statuses"),
        "cut_off": sum(tally["cut_off"] for tally in tallies),
        "invalid": _merge_reasons(tallies, "invalid"),
        "failed": _merge_reasons(tallies, "failed"),
        "errors": _merge_reasons(tallies, "errors"),
        "excluded": _merge_counts(tallies, "excluded"),
        "letters": _merge_counts(tallies, "letters"),
        "category_column": next((column for column in columns if column is not None), None),
        "categories": _merge_counts(tallies, "categories"),
        "failures": merge_failures(tally.get("failures", {}) for tally in tallies),
    }


def _merge_counts(tallies: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    return sort_keys(merge_parts(tally[name] for tally in tallies))


def _merge_reasons(tallies: Sequence[Mapping[str, Any]], name: str) -> dict[str, dict[str, Any]]:
    merged: dict[str, dict[str, Any]] = {}
    for tally in tallies:
        for reason, found in tally[name].items():
            known = merged.setdefault(reason, {**found, "count": 0})
            known["count"] += found["count"]
    return merged
