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
    unscored            how many samples some scorer could not score: FAILED by at least one
    choice_counts       number of choices → count, of samples that count
    readings            some completions read by every rule: n, rule → correct, invalid; see `rereading`
    theirs              only where another tool has judged the completions, too: see `theirs`
    trials              only under trials, see `trial_tally`
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from answerkey.metrics.failures import merge_failures
from answerkey.metrics.observed import merge_parts, sort_keys, write_label
from answerkey.metrics.theirs import merge_theirs
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
    if completions is None:
        texts = calls = pl.repeat(None, len(scores), dtype=pl.String, eager=True)
    else:
        texts, calls = completions.frame["completion"], completions.frame["status"]
    status = scores.frame["status"]
    is_scored = status == ScoreStatus.SCORED.value
    examples = _Examples(samples.ids, texts)
    invalid = examples.collect(find_invalid_reasons(scores, calls), is_scored)
    failed = errors = {}
    if not is_scored.all():
        reason = scores.frame["reason"].fill_null("UNKNOWN")
        failed = examples.collect(reason, status == ScoreStatus.FAILED.value)
        errors = examples.collect(reason, status == ScoreStatus.ERROR.value)
    num_scored, num_invalid = int(is_scored.sum()), _sum_counts(invalid)
    return {
        "counts": {
            "samples": len(scores),
            "scored": num_scored,
            "valid": num_scored - num_invalid,
            "invalid": num_invalid,
            "refused": invalid.get(CompletionStatus.REFUSED.value, {"count": 0})["count"],
            "failed": _sum_counts(failed),
            "errors": _sum_counts(errors),
        },
        "completion_statuses": _count(calls),
        "cut_off": 0 if completions is None else int((completions.frame["finish_reason"] == "length").sum()),
        "invalid": invalid,
        "failed": failed,
        "errors": errors,
        "excluded": _count(scores.frame["excluded_by"], is_scored),
        "letters": count_letters(scores),
        "choice_counts": count_choices(scores),
        "category_column": category,
        "categories": {} if category is None else _count_categories(samples, scores, category),
    }


def find_invalid_reasons(scores: Scores, calls: pl.Series) -> pl.Series:
    """Return why each completion is invalid, null where it is valid; by its status if no scorer says so."""
    validity, reason = scores.column("completion_validity"), scores.column("validity_reason")
    if validity is None:
        return pl.select(pl.when(calls != CompletionStatus.OK.value).then(calls)).to_series()
    stated = pl.lit(None, dtype=pl.String) if reason is None else reason.cast(pl.String)
    is_invalid = validity.cast(pl.String) == Validity.INVALID.value
    return pl.select(
        pl.when(is_invalid).then(pl.coalesce(stated, pl.lit(Validity.INVALID.value)))
    ).to_series()


def _count(values: pl.Series, rows: pl.Series | None = None) -> dict[str, int]:
    """Return how often each value occurs in these rows, null left out."""
    if values.null_count() == len(values):
        return {}
    counted = values if rows is None else values.filter(rows)
    counts = counted.cast(pl.String).drop_nulls().value_counts(name="count")
    return dict(sorted(counts.iter_rows()))


def _sum_counts(reasons: Mapping[str, Mapping[str, Any]]) -> int:
    return sum(one["count"] for one in reasons.values())


@dataclass(frozen=True)
class _Examples:
    """Where the example of a reason is taken from: the first row that has it."""

    ids: pl.Series
    texts: pl.Series

    def collect(self, reasons: pl.Series, rows: pl.Series) -> dict[str, dict[str, Any]]:
        """Return count and first example of each reason in these rows, in the order of the examples."""
        if not rows.any() or reasons.null_count() == len(reasons):
            return {}
        table = pl.DataFrame([reasons.alias("reason")]).with_row_index("row")
        groups = table.filter(rows & reasons.is_not_null()).group_by("reason").agg(pl.len(), pl.min("row"))
        return {
            reason: {"count": count, "example": self._show(row)}
            for reason, count, row in groups.sort("row").iter_rows()
        }

    def _show(self, row: int) -> dict[str, str | None]:
        text = self.texts[row]
        return {
            "sample_id": str(self.ids[row]),
            "completion": None if text is None else str(text)[:EXAMPLE_CHARACTERS],
        }


def count_letters(scores: Scores) -> dict[str, dict[str, int]]:
    """Return true choice → predicted choice (or INVALID) → count, of rows that count."""
    truth, predicted = scores.column("ground_truth_choice"), scores.column("predicted_choice")
    if truth is None or predicted is None:
        return {}
    letters = pl.DataFrame(
        [truth.cast(pl.String).alias("true"), predicted.cast(pl.String).alias("predicted")]
    )
    if not scores.are_all_counted:
        letters = letters.filter(scores.counted())
    groups = letters.group_by("true", "predicted").len().drop_nulls("true")
    counts: dict[str, Counter[str]] = {}
    for true, letter, count in groups.iter_rows():
        counts.setdefault(true, Counter())[Validity.INVALID.value if letter is None else letter] += count
    return sort_keys({true: dict(row) for true, row in counts.items()})


def count_choices(scores: Scores) -> dict[str, int]:
    """Return number of choices → count, of rows that count; the numbers as text, as JSON has them."""
    choices = scores.column("choices")
    if choices is None or not isinstance(choices.dtype, pl.List):
        return {}
    sizes = choices.list.len()
    return _count(sizes, None if scores.are_all_counted else scores.counted())


def _count_categories(samples: Samples, scores: Scores, category: str) -> dict[str, dict[str, int]]:
    correct = _read_correct(scores)
    if correct is None:
        return {}
    rows = pl.DataFrame([samples.frame[category].alias("category"), correct.alias("correct")])
    groups = (
        (rows if scores.are_all_counted else rows.filter(scores.counted()))
        .drop_nulls("correct")
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
    theirs = merge_theirs(tally.get("theirs", {}) for tally in tallies)
    return {
        "counts": {name: sum(tally["counts"][name] for tally in tallies) for name in COUNTS},
        "completion_statuses": _merge_counts(tallies, "completion_statuses"),
        "cut_off": sum(tally["cut_off"] for tally in tallies),
        "invalid": _merge_reasons(tallies, "invalid"),
        "failed": _merge_reasons(tallies, "failed"),
        "errors": _merge_reasons(tallies, "errors"),
        "excluded": _merge_counts(tallies, "excluded"),
        "letters": _merge_counts(tallies, "letters"),
        "choice_counts": sort_keys(merge_parts(tally.get("choice_counts", {}) for tally in tallies)),
        "category_column": next((column for column in columns if column is not None), None),
        "categories": _merge_counts(tallies, "categories"),
        "failures": merge_failures(tally.get("failures", {}) for tally in tallies),
        "unscored": sum(tally.get("unscored", 0) for tally in tallies),
        "readings": sort_keys(merge_parts(tally.get("readings", {}) for tally in tallies)),
        **({"theirs": theirs} if theirs else {}),
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
