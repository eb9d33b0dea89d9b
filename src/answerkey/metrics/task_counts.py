"""What the summary needs besides the metrics: counts that add up, reasons, letters and categories.

The counts of a task are a plain mapping that JSON can hold, called its `tally` in files:

    counts              samples = scored + failed + errors, scored = valid + invalid, refused ⊂
    invalid
    completion_statuses how many completions are OK, REFUSED, NO_TEXT, ERROR
    cut_off             how many completions the token limit cut off (finish reason `length`)
    thinking            only where there are any: how many recorded completions begin with a
    thinking block
    invalid             reason → count, first example (sample id, start of the completion); scored
    samples
    failed, errors      the same for samples without a score
    excluded            action key → how many scored samples it keeps out of the metrics
    letters             true choice → predicted choice (or INVALID) → count, of samples that count
    choice_counts       number of choices → count, of samples that count
    category_column     the column, or null
    categories          category → n, correct, partial (neither 0 nor 1), of samples that count
    failures            scorer key → reason → count, first example, of every scorer; see
    `find_failures`
    unscored            how many samples some scorer could not score: FAILED by at least one
    readings            some completions read by every extraction rule: n, rule → correct, invalid
    fallback            only where a scorer has one: scorer key → see `_count_fallback`
    theirs              only where another tool has judged the completions, too: see
    `_compare_verdicts`
    trials              only under trials: num_trials, the counts of trials, and votes: see
    `count_votes`;
                        self_consistency is the share of trials that agree with most of their sample
    orders              only under orders of options: the counts of all rows; left_in_place: how
    many samples
                        are shown as in the file, by reason; extra: rows that only estimate a prior

Under trials and orders `counts`, `failed`, `errors` and `excluded` are of samples, and a sample
counts as its worst row: it is in error when any call failed, invalid when any completion is, valid
when all are. The others are of rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import polars as pl

from answerkey.metrics.base import sort_keys
from answerkey.metrics.exact import divide
from answerkey.metrics.rows import find_own_rows, is_ordered, number_samples, read_owners
from answerkey.metrics.trials import SEVERITY, VOTES, count_votes, find_worst_rows
from answerkey.reader.markup import THOUGHT_BEGIN
from answerkey.types import (
    TRACEBACK_FIELD,
    Completions,
    CompletionStatus,
    Scores,
    ScoreStatus,
    Validity,
)

#: Columns that hold a sample's category, the first one that a dataset has.
CATEGORY_COLUMNS = ("category", "subject", "topic", "domain", "subset")
#: How samples without a category are called.
NO_CATEGORY = "(none)"
#: How much of a completion an example shows.
EXAMPLE_CHARACTERS = 200
#: Why a row has no score that was left out because the first ones all failed in the same way.
STOPPED_EARLY = "STOPPED_EARLY"
#: Why a sample has no score where the call to a judge or a fallback failed.
MODEL_CALL_FAILED = frozenset(["JUDGE_CALL_FAILED", "FALLBACK_CALL_FAILED"])
#: What is no failure of the scorer itself: a model that gave no reply, a row that was left out.
NOT_SCORING = MODEL_CALL_FAILED | {STOPPED_EARLY}
#: Why we and another tool differ where our scorer found the completion VALID.
READ_ALIKE, READ_ANOTHER, READ_NOTHING = "READ_ALIKE", "READ_ANOTHER", "THEY_READ_NOTHING"
FORMAT_FAILURE = "FORMAT_FAILURE"

#: What a reason is grouped by: all before its second colon, for `SNIPPET_FAILED (raised): KeyError:
#: 'x'` has as many forms as there are keys.
_REASON_GROUP = r"^([^:]*(?:: [^:]*)?)"
#: The metadata that counts are made of.
COUNTED_FIELDS = frozenset(
    {
        *VOTES,
        TRACEBACK_FIELD,
        "choices",
        "completion_validity",
        "extraction_rule",
        "fallback_error",
        "fallback_text",
        "ground_truth_choice",
        "is_correct",
        "validity_reason",
    }
)
#: What of the counts is of samples under trials and orders.
_OF_SAMPLES = ("counts", "failed", "errors", "excluded")
_REFUSED, _INVALID = 2, 1

TaskCounts = dict[str, Any]


# What is kept of completions, chunk by chunk


def describe_completions(completions: Completions, scores: Scores) -> pl.DataFrame:
    """Return what the counts need of completions, without their texts.

    `scores` are those of the main scorer. The beginning of a text is kept where it may be shown as
    an example: where the completion is not simply valid.
    """
    text = completions.column("completion")
    status = completions.column("status")
    is_thinking = completions.column("source") == "recorded"
    is_thinking &= text.str.contains(THOUGHT_BEGIN)
    disputes = _find_disputes(completions, scores)
    is_shown = scores.frame["status"] != ScoreStatus.SCORED.value
    is_shown |= find_invalid_reasons(scores, status).is_not_null()
    if "dispute" in disputes.columns:
        is_shown |= disputes["dispute"].is_not_null()
    head = pl.when(is_shown).then(text.str.slice(0, EXAMPLE_CHARACTERS))
    return pl.select(
        status.alias("call_status"),
        (completions.column("finish_reason") == "length")
        .fill_null(value=False)
        .alias("is_cut_off"),
        is_thinking.fill_null(value=False).alias("is_thinking"),
        head.alias("example"),
        *disputes,
    )


def _find_disputes(completions: Completions, scores: Scores) -> pl.DataFrame:
    """Return the verdicts of another tool, and why they differ from ours where they do.

    The reason is why our scorer found the completion INVALID, or what was read: READ_ANOTHER,
    THEY_READ_NOTHING, FORMAT_FAILURE where they compared the whole text, or READ_ALIKE where the
    same answer was read and the truths differ.
    """
    correct = scores.column("is_correct")
    if correct is None or "is_correct" in scores.encoded or not correct.dtype.is_numeric():
        return pl.DataFrame()
    if all(completion.their_score is None for completion in completions):
        return pl.DataFrame()
    score = pl.Series([completion.their_score for completion in completions], dtype=pl.Float64)
    answer = pl.Series([completion.their_answer for completion in completions], dtype=pl.String)
    stripped = answer.fill_null("").str.strip_chars()
    is_whole_text = stripped == completions.column("completion").str.strip_chars()
    is_theirs = score == 1
    is_invalid = scores.text("completion_validity") == Validity.INVALID.value
    reason = (
        pl.when(is_invalid & is_theirs)
        .then(scores.text("validity_reason").fill_null(Validity.INVALID.value))
        .when(answer == scores.text("predicted_choice"))
        .then(pl.lit(READ_ALIKE))
        .when((stripped == "") & ~is_theirs)
        .then(pl.lit(READ_NOTHING))
        .when(is_whole_text & ~is_theirs)
        .then(pl.lit(FORMAT_FAILURE))
        .otherwise(pl.lit(READ_ANOTHER))
    )
    is_disputed = scores.frame["status"] == ScoreStatus.SCORED.value
    is_disputed &= correct.is_in([0.0, 1.0]) & score.is_in([0.0, 1.0])
    is_disputed &= correct != score
    return pl.select(
        score.alias("their_score"),
        pl.when(is_disputed).then(reason).alias("dispute"),
        pl.when(is_disputed).then(answer).alias("their_answer"),
    )


# The counts of a task


def count_task(
    rows: pl.DataFrame,
    verdicts: Mapping[str, Scores],
    *,
    main: str,
    num_trials: int = 1,
    category: str | None = None,
) -> TaskCounts:
    """Return the counts of a task, of the main scorer except for the failures, which are of every
    one.

    `rows` has what `describe_samples` and `describe_completions` return; all tables have the same
    rows, `num_trials` for each sample.
    """
    is_kept = find_own_rows(rows)
    extra = 0
    if not is_kept.all():
        # Rows that only estimate a prior are not counted, unless their call failed.
        for scores in verdicts.values():
            is_kept |= scores.frame["status"] == ScoreStatus.ERROR.value
        kept = is_kept.arg_true()
        extra = rows.height - len(kept)
        rows = rows[kept]
        verdicts = {key: scores.take(kept) for key, scores in verdicts.items()}
    scores = verdicts[main]
    counts = count_rows(rows, scores, category)
    counts["failures"] = find_failures(rows, verdicts)
    counts["unscored"] = _count_unscored(rows, verdicts)
    counts["readings"] = {}
    fallback = {}
    for key, table in verdicts.items():
        read = _count_fallback(table)
        if read:
            fallback[key] = read
    if fallback:
        counts["fallback"] = fallback
    if "their_score" in rows.columns:
        counts["theirs"] = _compare_verdicts(rows, scores)
    if num_trials == 1 and not is_ordered(rows):
        return counts
    row_counts = counts["counts"]
    shown = _choose_worst_rows(
        rows,
        scores,
        num_trials,
    )
    of_samples = count_rows(rows[shown], scores.take(shown))
    for name in _OF_SAMPLES:
        counts[name] = of_samples[name]
    if num_trials > 1:
        counts["trials"] = {"num_trials": num_trials, "counts": row_counts}
        votes = {} if is_ordered(rows) else count_votes(scores, num_trials)
        if votes:
            counts["trials"]["votes"] = votes
    if is_ordered(rows):
        left_in_place = _count_each(rows["left_in_place"].gather(shown))
        counts["orders"] = {"counts": row_counts, "left_in_place": left_in_place, "extra": extra}
    return counts


def _choose_worst_rows(rows: pl.DataFrame, scores: Scores, num_trials: int) -> pl.Series:
    """Return the worst row of each sample: an error before a failure, a refusal before invalid."""
    reasons = find_invalid_reasons(scores, rows["call_status"])
    invalid = (
        pl.when(reasons == CompletionStatus.REFUSED.value)
        .then(_REFUSED)
        .when(reasons.is_not_null())
        .then(_INVALID)
        .otherwise(0)
    )
    status = scores.frame["status"].replace_strict(SEVERITY, default=0)
    severity = pl.select(pl.max_horizontal(invalid, status)).to_series()
    return find_worst_rows(severity, number_samples(rows, num_trials))


def _count_unscored(rows: pl.DataFrame, verdicts: Mapping[str, Scores]) -> int:
    """Return how many samples some scorer could not score."""
    is_failed = pl.repeat(
        value=False,
        n=rows.height,
        dtype=pl.Boolean,
        eager=True,
    )
    for scores in verdicts.values():
        is_failed |= scores.frame["status"] == ScoreStatus.FAILED.value
    return read_owners(rows).filter(is_failed).n_unique()


def find_category_column(columns: Iterable[str]) -> str | None:
    """Return the column that holds categories, or None."""
    present = set(columns)
    return next((name for name in CATEGORY_COLUMNS if name in present), None)


def count_rows(rows: pl.DataFrame, scores: Scores, category: str | None = None) -> TaskCounts:
    """Return the counts of one scorer; the tables have the same rows."""
    status = scores.frame["status"]
    is_scored = status == ScoreStatus.SCORED.value
    reason = scores.frame["reason"].cast(pl.String).fill_null("UNKNOWN")
    invalid_reasons = find_invalid_reasons(scores, rows["call_status"])
    invalid = _count_reasons(
        rows,
        invalid_reasons,
        is_scored,
    )
    failed = _count_reasons(
        rows,
        reason,
        status == ScoreStatus.FAILED.value,
    )
    errors = _count_reasons(
        rows,
        reason,
        status == ScoreStatus.ERROR.value,
    )
    num_scored = int(is_scored.sum())
    num_invalid = _add_reasons(invalid)
    refused = invalid.get(CompletionStatus.REFUSED.value, {"count": 0})
    counts: TaskCounts = {
        "counts": {
            "samples": len(scores),
            "scored": num_scored,
            "valid": num_scored - num_invalid,
            "invalid": num_invalid,
            "refused": refused["count"],
            "failed": _add_reasons(failed),
            "errors": _add_reasons(errors),
        },
        "completion_statuses": _count_each(rows["call_status"]),
        "cut_off": int(rows["is_cut_off"].sum()),
        "thinking": int(rows["is_thinking"].sum()),
        "invalid": invalid,
        "failed": failed,
        "errors": errors,
        "excluded": _count_each(scores.frame["excluded_by"].filter(is_scored)),
        "letters": count_letters(scores),
        "choice_counts": count_choices(scores),
        "category_column": category,
        "categories": {},
    }
    if category is not None:
        counts["categories"] = _count_categories(rows[f"label:{category}"], scores)
    if not counts["thinking"]:
        del counts["thinking"]
    return counts


def _count_reasons(
    rows: pl.DataFrame, reasons: pl.Series, is_counted: pl.Series
) -> dict[str, dict[str, Any]]:
    """Return count and first example of each reason, in the order of the examples."""
    table = pl.DataFrame(
        [
            reasons.alias("reason"),
            rows["sample_id"],
            rows["example"].alias("completion"),
        ]
    )
    return _group_reasons(table.filter(is_counted & reasons.is_not_null()))


def _group_reasons(table: pl.DataFrame) -> dict[str, dict[str, Any]]:
    """Return count and first row of each `reason`, in the order in which they first occur."""
    groups = table.group_by("reason", maintain_order=True).agg(
        pl.len().alias("count"), pl.exclude("reason").first()
    )
    reasons = {}
    for row in groups.iter_rows(named=True):
        reason = row.pop("reason")
        count = row.pop("count")
        reasons[reason] = {"count": count, "example": row}
    return reasons


def _add_reasons(reasons: Mapping[str, Mapping[str, Any]]) -> int:
    return sum(entry["count"] for entry in reasons.values())


def find_invalid_reasons(scores: Scores, calls: pl.Series) -> pl.Series:
    """Return why each completion is invalid, null where it is valid.

    By its status if no scorer says so.
    """
    if scores.column("completion_validity") is None:
        return pl.select(pl.when(calls != CompletionStatus.OK.value).then(calls)).to_series()
    is_invalid = scores.text("completion_validity") == Validity.INVALID.value
    reason = scores.text("validity_reason").fill_null(Validity.INVALID.value)
    return pl.select(pl.when(is_invalid).then(reason)).to_series()


def _count_each(values: pl.Series) -> dict[str, int]:
    """Return how often each value occurs, null left out."""
    counts = values.cast(pl.String).drop_nulls().value_counts(name="count")
    return dict(sorted(counts.iter_rows()))


def count_letters(scores: Scores) -> dict[str, dict[str, int]]:
    """Return true choice → predicted choice (or INVALID) → count, of rows that count."""
    truth = scores.column("ground_truth_choice")
    predicted = scores.column("predicted_choice")
    if truth is None or predicted is None:
        return {}
    letters = pl.DataFrame(
        {
            "true": truth.cast(pl.String),
            "predicted": predicted.cast(pl.String).fill_null(Validity.INVALID.value),
        }
    )
    groups = letters.filter(scores.counted()).group_by("true", "predicted").len()
    counts: dict[str, dict[str, int]] = {}
    for true, letter, count in groups.drop_nulls("true").sort("true", "predicted").iter_rows():
        counts.setdefault(true, {})[letter] = count
    return counts


def count_choices(scores: Scores) -> dict[str, int]:
    """Return number of choices → count, of rows that count.

    The numbers as text, as JSON has them.
    """
    choices = scores.column("choices")
    if choices is None or not isinstance(choices.dtype, pl.List):
        return {}
    return _count_each(choices.list.len().filter(scores.counted()))


def _count_categories(labels: pl.Series, scores: Scores) -> dict[str, dict[str, int]]:
    correct = scores.column("is_correct")
    if correct is not None and "is_correct" in scores.encoded:
        numbers = correct.cast(pl.String).replace({"true": "1", "false": "0"})
        correct = numbers.cast(pl.Float64, strict=False)
    if correct is None or not (correct.dtype.is_numeric() or correct.dtype == pl.Boolean):
        return {}
    table = pl.DataFrame(
        {"category": labels.fill_null(NO_CATEGORY), "right": correct.cast(pl.Float64)}
    )
    groups = (
        table.filter(scores.counted())
        .drop_nulls("right")
        .group_by("category")
        .agg(
            pl.len().alias("n"),
            (pl.col("right") == 1).sum().alias("correct"),
            (~pl.col("right").is_in([0.0, 1.0])).sum().alias("partial"),
        )
    )
    categories = {}
    for row in groups.sort("category").iter_rows(named=True):
        categories[row.pop("category")] = row
    return sort_keys(categories)


def _count_fallback(scores: Scores) -> dict[str, int]:
    """Return what a fallback adds to a scorer, of rows that count; empty where the scorer has none.

    n, right, invalid   completions, with what the fallback read
    asked               completions that it was asked about
    named, correct      those in which it named a choice, and the right one
    failed              calls to it that failed, of all rows
    """
    replies = scores.column("fallback_text")
    failed = scores.column("fallback_error")
    if replies is None or failed is None:
        return {}
    table = pl.DataFrame(
        [
            scores.text("extraction_rule").str.ends_with("/fallback").alias("named"),
            pl.Series(
                "right",
                scores.column("is_correct"),
                pl.Float64,
            )
            == 1,
            scores.text("predicted_choice").is_null().alias("invalid"),
            replies.is_not_null().alias("asked"),
        ]
    ).filter(scores.counted())
    counts = table.select(
        pl.len().alias("n"),
        pl.col(
            "right",
            "invalid",
            "asked",
            "named",
        ).sum(),
        (pl.col("named") & pl.col("right")).sum().alias("correct"),
    )
    return {**counts.row(0, named=True), "failed": len(failed) - failed.null_count()}


def find_failures(rows: pl.DataFrame, verdicts: Mapping[str, Scores]) -> dict[str, dict[str, Any]]:
    """Return which scorers failed, on how many rows, and how: scorer key → reason → count and first
    example.

    The other counts are those of the main scorer; a scorer beside it that fails would not be seen
    in them. A scorer fails on a row that is FAILED, and on one whose own call failed although there
    is a completion.
    """
    is_answered = rows["call_status"] != CompletionStatus.ERROR.value
    failures = {}
    for key, scores in verdicts.items():
        status = scores.frame["status"]
        is_failed = status == ScoreStatus.FAILED.value
        is_failed |= (status == ScoreStatus.ERROR.value) & is_answered
        if not is_failed.any():
            continue
        message = scores.frame["reason"].cast(pl.String).fill_null("UNKNOWN")
        table = pl.DataFrame(
            [
                message.str.extract(_REASON_GROUP).str.strip_chars().alias("reason"),
                rows["sample_id"],
                message.alias("message"),
                scores.text(TRACEBACK_FIELD).alias("traceback"),
            ]
        )
        failures[key] = _group_reasons(table.filter(is_failed))
    return failures


def find_same_failure(failures: Mapping[str, Mapping[str, Any]], rows: int) -> str | None:
    """Return what all rows have failed with, as `scorer: reason`; None when some have not."""
    for key, reasons in failures.items():
        for reason, entry in reasons.items():
            if entry["count"] == rows and reason not in NOT_SCORING:
                return f"{key}: {reason}"
    return None


def _compare_verdicts(rows: pl.DataFrame, scores: Scores) -> dict[str, Any]:
    """Return how the imported verdicts of another tool on the same completions compare with ours.

    compared      completions with a verdict of both: right or wrong
    both_right, both_wrong
    only_theirs   they say right, we say wrong: count, and reason → count, first example
    only_ours     the reverse
    not_compared  why → count: NOT_JUDGED and PARTLY_RIGHT by them, NOT_SCORED by us
    """
    correct = scores.column("is_correct")
    if correct is None:
        return {}
    table = pl.DataFrame(
        [
            rows["dispute"].alias("reason"),
            rows["sample_id"],
            rows["example"].alias("completion"),
            scores.text("predicted_choice").alias("predicted_choice"),
            rows["their_answer"],
            rows["their_score"].alias("theirs"),
            correct.cast(pl.Float64, strict=False).alias("ours"),
            scores.frame["status"],
        ]
    )
    ours = pl.col("ours")
    theirs = pl.col("theirs")
    is_scored = (pl.col("status") == ScoreStatus.SCORED.value) & ours.is_in([0.0, 1.0])
    is_scored = is_scored.fill_null(value=False)
    is_compared = (is_scored & theirs.is_in([0.0, 1.0])).fill_null(value=False)
    compared = table.filter(is_compared)
    disputed = compared.drop("ours", "status")
    counts: dict[str, Any] = {
        "compared": compared.height,
        "both_right": compared.filter((ours == 1) & (theirs == 1)).height,
        "both_wrong": compared.filter((ours == 0) & (theirs == 0)).height,
    }
    for side, score in (("only_theirs", 1), ("only_ours", 0)):
        mine = disputed.filter(pl.col("reason").is_not_null(), theirs == score).drop("theirs")
        counts[side] = {"count": mine.height, "reasons": _group_reasons(mine)}
    is_judged = theirs.is_not_null()
    left_out = table.select(
        (is_scored & ~is_judged).sum().alias("NOT_JUDGED"),
        (~is_scored).sum().alias("NOT_SCORED"),
        (is_scored & is_judged & ~is_compared).sum().alias("PARTLY_RIGHT"),
    )
    not_compared = left_out.row(0, named=True)
    counts["not_compared"] = {name: count for name, count in not_compared.items() if count}
    return counts


def add_counts(chunks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return nested mappings of counts added up, with their keys in the order of their text."""
    total: dict[str, Any] = {}
    for chunk in chunks:
        for key, value in chunk.items():
            if isinstance(value, Mapping):
                total[key] = add_counts([total.get(key, {}), value])
            else:
                total[key] = total.get(key, 0) + value
    return dict(sorted(total.items()))


# What guessing would get, and what is left of an accuracy when that is taken off
# ---------------------------

#: True letter → predicted letter, or anything else for none → count.
Letters = Mapping[str, Mapping[str, int]]


def measure_chance(choice_counts: Mapping[int, int]) -> float | None:
    """Return the mean of 1/K over samples; `choice_counts` says how many samples have K choices."""
    total = sum(choice_counts.values())
    if not total:
        return None
    chances = Fraction()
    for size, count in choice_counts.items():
        chances += Fraction(count, size)
    return divide(chances, total)


def correct_for_chance(share: float, chance: float) -> float | None:
    """Return (share - chance) / (1 - chance): 0 is guessing, 1 is all right.

    None when all is chance.
    """
    return (share - chance) / (1 - chance) if chance < 1 else None


def measure_kappa(letters: Letters) -> float | None:
    """Return Cohen's kappa of truths and predictions.

    A sample without a prediction agrees with none. None where agreement by accident would be
    complete.
    """
    predicted: Counter[str] = Counter()
    for row in letters.values():
        predicted.update(row)
    total = predicted.total()
    hits = 0
    by_accident = 0
    for letter, row in letters.items():
        hits += row.get(letter, 0)
        by_accident += sum(row.values()) * predicted[letter]
    bottom = total * total - by_accident
    return divide(hits * total - by_accident, bottom) if bottom else None


def measure_recalls(letters: Letters) -> dict[str, float]:
    """Return, for each letter that is ever true, the share of its samples that were answered with
    it.
    """
    recalls = {}
    for letter, row in letters.items():
        total = sum(row.values())
        if total:
            recalls[letter] = row.get(letter, 0) / total
    return recalls


def measure_rstd(recalls: Sequence[float]) -> float | None:
    """Return RStd, the standard deviation of the recalls of letters, in points.

    None for a single letter. The population form: the letters are all there are, no draw from more
    of them.
    """
    if len(recalls) <= 1:
        return None
    mean = math.fsum(recalls) / len(recalls)
    squares = math.fsum((recall - mean) ** 2 for recall in recalls)
    return 100 * math.sqrt(squares / len(recalls))
