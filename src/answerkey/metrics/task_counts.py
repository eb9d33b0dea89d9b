"""What the summary needs besides the metrics: counts that add up, reasons, letters and categories.

The counts of a task are a plain mapping that JSON can hold, called its `tally` in files:

    counts              samples = scored + failed + errors, scored = valid + invalid, refused ⊂ invalid
    completion_statuses how many completions are OK, REFUSED, NO_TEXT, ERROR
    cut_off             how many completions the token limit cut off (finish reason `length`)
    thinking            only where there are any: how many recorded completions begin with a thinking block
    invalid             reason → count, first example (sample id, start of the completion); scored samples
    failed, errors      the same for samples without a score
    excluded            action key → how many scored samples it keeps out of the metrics
    letters             true choice → predicted choice (or INVALID) → count, of samples that count
    choice_counts       number of choices → count, of samples that count
    category_column     the column, or null
    categories          category → n, correct, partial (neither 0 nor 1), of samples that count
    failures            scorer key → reason → count, first example, of every scorer; see `_find_failures`
    unscored            how many samples some scorer could not score: FAILED by at least one
    readings            some completions read by every extraction rule: n, rule → correct, invalid
    fallback            only where a scorer has one: scorer key → see `_count_fallback`
    theirs              only where another tool has judged the completions, too: see `_compare_verdicts`
    trials              only under trials: num_trials, the counts of trials, and votes: see `count_votes`;
                        self_consistency is the share of trials that agree with most of their sample
    orders              only under orders of options: the counts of all rows; left_in_place: how many samples
                        are shown as in the file, by reason; extra: rows that only estimate a prior

Under trials and orders `counts`, `failed`, `errors` and `excluded` are of samples, and a sample counts as its
worst row: it is in error when any call failed, invalid when any completion is, valid when all are. The others
are of rows.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import polars as pl

from answerkey.metrics.base import merge_parts, sort_keys, write_label
from answerkey.metrics.exact import divide
from answerkey.metrics.trials import (
    SEVERITY,
    count_votes,
    find_own_rows,
    find_owners,
    find_worst_rows,
    number_samples,
)
from answerkey.reader.markup import THOUGHT_BEGIN
from answerkey.types import (
    TRACEBACK_FIELD,
    Completions,
    CompletionStatus,
    Samples,
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

#: What a reason is grouped by: all before its second colon, for `SNIPPET_FAILED (raised): KeyError: 'x'`
#: has as many forms as there are keys.
_REASON_GROUP = r"^([^:]*(?:: [^:]*)?)"
_COUNTS = ("samples", "scored", "valid", "invalid", "refused", "failed", "errors")
#: What of the counts is of samples under trials; and what has its keys in the order of their text.
_OF_SAMPLES = ("counts", "failed", "errors", "excluded")
_SORTED = ("completion_statuses", "excluded", "letters", "choice_counts", "categories", "readings")
_REFUSED, _INVALID = 2, 1

TaskCounts = dict[str, Any]


def count_shard(
    samples: Samples,
    completions: Completions | None,
    verdicts: Mapping[str, Scores],
    *,
    main: str,
    num_trials: int = 1,
) -> TaskCounts:
    """Return the counts of one shard, of the main scorer except for the failures, which are of every one.

    All tables have the same rows, `num_trials` for each sample.
    """
    extra, own = 0, find_own_rows(samples)
    if own is not None:
        # Rows that only estimate a prior are not counted, unless their call failed.
        for one in verdicts.values():
            own |= one.frame["status"] == ScoreStatus.ERROR.value
        rows = own.arg_true()
        extra = len(own) - len(rows)
        samples, verdicts = samples.take(rows), {key: one.take(rows) for key, one in verdicts.items()}
        completions = None if completions is None else Completions(completions.frame[rows])
    scores = verdicts[main]
    is_failed = [one.frame["status"] == ScoreStatus.FAILED.value for one in verdicts.values()]
    counts = count_rows(samples, completions, scores, find_category_column(samples.columns))
    counts["failures"] = _find_failures(samples.ids, verdicts, completions)
    unscored = pl.select(pl.any_horizontal(is_failed)).to_series()
    counts["unscored"] = find_owners(samples).filter(unscored).n_unique()
    found = {key: _count_fallback(one) for key, one in verdicts.items()}
    counts["fallback"] = {key: one for key, one in found.items() if one}
    counts["theirs"] = _compare_verdicts(samples.ids, completions, scores)
    if completions is None or (num_trials == 1 and samples.orders is None):
        return counts
    reasons = find_invalid_reasons(scores, completions.frame["status"])
    is_refused = reasons == CompletionStatus.REFUSED.value
    invalid = pl.when(is_refused).then(_REFUSED).when(reasons.is_not_null()).then(_INVALID).otherwise(0)
    status = scores.frame["status"].replace_strict(SEVERITY, default=0)
    severity = pl.select(pl.max_horizontal(invalid, status)).to_series()
    worst = find_worst_rows(severity, number_samples(samples, num_trials))
    shown = samples.take(worst.to_list())
    of_samples = count_rows(shown, Completions(completions.frame[worst]), scores.take(worst))
    of_rows: TaskCounts = {}
    if num_trials > 1:
        of_rows["trials"] = {"num_trials": num_trials, "counts": counts["counts"]}
        votes = count_votes(scores, num_trials) if samples.orders is None else {}
        of_rows["trials"] |= {"votes": votes} if votes else {}
    if shown.orders is not None:
        kept = dict(shown.orders["left_in_place"].drop_nulls().value_counts().iter_rows())
        of_rows["orders"] = {"counts": counts["counts"], "left_in_place": kept, "extra": extra}
    return {**counts, **{name: of_samples[name] for name in _OF_SAMPLES}, **of_rows}


def find_category_column(columns: Iterable[str]) -> str | None:
    """Return the column that holds categories, or None."""
    present = set(columns)
    return next((name for name in CATEGORY_COLUMNS if name in present), None)


def count_rows(
    samples: Samples, completions: Completions | None, scores: Scores, category: str | None = None
) -> TaskCounts:
    """Return the counts of one scorer; the three tables have the same rows."""
    if completions is None:
        texts = calls = pl.repeat(None, len(scores), dtype=pl.String, eager=True)
    else:
        texts, calls = completions.frame["completion"], completions.frame["status"]
    status = scores.frame["status"]
    is_scored = status == ScoreStatus.SCORED.value
    reason = scores.frame["reason"].fill_null("UNKNOWN")

    def count_reasons(reasons: pl.Series, rows: pl.Series) -> dict[str, dict[str, Any]]:
        """Return count and first example of each reason in these rows, in the order of the examples."""
        if not rows.any() or reasons.null_count() == len(reasons):
            return {}
        table = pl.DataFrame([reasons.alias("reason")]).with_row_index("row")
        groups = table.filter(rows & reasons.is_not_null()).group_by("reason").agg(pl.len(), pl.min("row"))
        found = {}
        for name, count, row in groups.sort("row").iter_rows():
            text = None if texts[row] is None else str(texts[row])[:EXAMPLE_CHARACTERS]
            example = {"sample_id": str(samples.ids[row]), "completion": text}
            found[name] = {"count": count, "example": example}
        return found

    invalid = count_reasons(find_invalid_reasons(scores, calls), is_scored)
    failed = count_reasons(reason, status == ScoreStatus.FAILED.value)
    errors = count_reasons(reason, status == ScoreStatus.ERROR.value)
    num_scored = int(is_scored.sum())
    num_invalid, num_failed, num_errors = (
        sum(one["count"] for one in reasons.values()) for reasons in (invalid, failed, errors)
    )
    return {
        "counts": {
            "samples": len(scores),
            "scored": num_scored,
            "valid": num_scored - num_invalid,
            "invalid": num_invalid,
            "refused": invalid.get(CompletionStatus.REFUSED.value, {"count": 0})["count"],
            "failed": num_failed,
            "errors": num_errors,
        },
        "completion_statuses": _count_each(calls),
        "cut_off": 0 if completions is None else int((completions.frame["finish_reason"] == "length").sum()),
        "thinking": 0 if completions is None else _count_thinking(completions),
        "invalid": invalid,
        "failed": failed,
        "errors": errors,
        "excluded": _count_each(scores.frame["excluded_by"], is_scored),
        "letters": count_letters(scores),
        "choice_counts": count_choices(scores),
        "category_column": category,
        "categories": {} if category is None else _count_categories(samples, scores, category),
    }


def _count_thinking(completions: Completions) -> int:
    texts = completions.frame.filter(pl.col("source") == "recorded")["completion"]
    return int(texts.str.contains(THOUGHT_BEGIN).sum())


def find_invalid_reasons(scores: Scores, calls: pl.Series) -> pl.Series:
    """Return why each completion is invalid, null where it is valid; by its status if no scorer says so."""
    if scores.column("completion_validity") is None:
        return pl.select(pl.when(calls != CompletionStatus.OK.value).then(calls)).to_series()
    is_invalid = scores.text("completion_validity") == Validity.INVALID.value
    stated = scores.text("validity_reason").fill_null(Validity.INVALID.value)
    return pl.select(pl.when(is_invalid).then(stated)).to_series()


def _count_each(values: pl.Series, rows: pl.Series | None = None) -> dict[str, int]:
    """Return how often each value occurs in these rows, null left out."""
    if values.null_count() == len(values):
        return {}
    counted = values if rows is None else values.filter(rows)
    counts = counted.cast(pl.String).drop_nulls().value_counts(name="count")
    return dict(sorted(counts.iter_rows()))


def count_letters(scores: Scores) -> dict[str, dict[str, int]]:
    """Return true choice → predicted choice (or INVALID) → count, of rows that count."""
    truth, predicted = scores.column("ground_truth_choice"), scores.column("predicted_choice")
    if truth is None or predicted is None:
        return {}
    letters = pl.DataFrame({"true": truth.cast(pl.String), "predicted": predicted.cast(pl.String)})
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
    return _count_each(choices.list.len(), None if scores.are_all_counted else scores.counted())


def _count_categories(samples: Samples, scores: Scores, category: str) -> dict[str, dict[str, int]]:
    correct = scores.column("is_correct")
    if correct is not None and "is_correct" in scores.encoded:
        correct = correct.cast(pl.String).replace({"true": "1", "false": "0"}).cast(pl.Float64, strict=False)
    if correct is None or not (correct.dtype.is_numeric() or correct.dtype == pl.Boolean):
        return {}
    rows = pl.DataFrame({"category": samples.frame[category], "correct": correct.cast(pl.Float64)})
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
    found = []
    for value, *counts in groups.iter_rows():
        decoded = json.loads(value) if category in samples.encoded and value is not None else value
        label = NO_CATEGORY if decoded is None else write_label(decoded)
        found.append({label: dict(zip(("n", "correct", "partial"), counts, strict=True))})
    return sort_keys(merge_parts(found))


def _count_fallback(scores: Scores) -> dict[str, int]:
    """Return what a fallback adds to a scorer, of rows that count; empty where the scorer has none.

    n, right, invalid   completions, with what the fallback read
    asked               completions that it was asked about
    named, correct      those in which it named a choice, and the right one
    failed              calls to it that failed, of all rows
    """
    said, failed = scores.column("fallback_text"), scores.column("fallback_error")
    if said is None or failed is None:
        return {}
    table = pl.DataFrame(
        [
            scores.text("extraction_rule").str.ends_with("/fallback").alias("named"),
            pl.Series("right", scores.column("is_correct"), pl.Float64) == 1,
            scores.text("predicted_choice").is_null().alias("invalid"),
            said.is_not_null().alias("asked"),
        ]
    ).filter(scores.counted())
    counted = table.select(
        pl.len().alias("n"),
        pl.col("right", "invalid", "asked", "named").sum(),
        (pl.col("named") & pl.col("right")).sum().alias("correct"),
    )
    return {**counted.row(0, named=True), "failed": len(failed) - failed.null_count()}


def _find_failures(
    ids: pl.Series, verdicts: Mapping[str, Scores], completions: Completions | None
) -> dict[str, dict[str, Any]]:
    """Return which scorers failed, on how many rows, and how: scorer key → reason → count and first example.

    The other counts are those of the main scorer; a scorer beside it that fails would not be seen in them. A
    scorer fails on a row that is FAILED, and on one whose own call failed although there is a completion.
    """
    found = {}
    for key, scores in verdicts.items():
        is_failed = scores.frame["status"] == ScoreStatus.FAILED.value
        if completions is not None:
            is_answered = completions.frame["status"] != CompletionStatus.ERROR.value
            is_failed |= (scores.frame["status"] == ScoreStatus.ERROR.value) & is_answered
        if not is_failed.any():
            continue
        table = pl.DataFrame(
            [
                ids.cast(pl.String).alias("sample_id"),
                scores.frame["reason"].fill_null("UNKNOWN").alias("message"),
                scores.text(TRACEBACK_FIELD).alias("traceback"),
            ]
        ).filter(is_failed)
        found[key] = _group_reasons(table, pl.col("message").str.extract(_REASON_GROUP).str.strip_chars())
    return found


def _group_reasons(table: pl.DataFrame, reason: pl.Expr) -> dict[str, dict[str, Any]]:
    """Return count and first row of each reason, in the order in which they first occur."""
    groups = table.group_by(reason.alias("reason"), maintain_order=True).agg(
        pl.len().alias("count"), pl.exclude("reason").first()
    )
    return {
        row.pop("reason"): {"count": row.pop("count"), "example": row} for row in groups.iter_rows(named=True)
    }


def find_same_failure(counts: Mapping[str, Any]) -> str | None:
    """Return what all rows have failed with, as `scorer: reason`; None when some have not."""
    rows = (counts.get("trials") or counts.get("orders") or counts)["counts"]["samples"]
    for key, reasons in counts["failures"].items():
        for reason, one in reasons.items():
            if one["count"] == rows and reason not in NOT_SCORING:
                return f"{key}: {reason}"
    return None


def _compare_verdicts(ids: pl.Series, completions: Completions | None, scores: Scores) -> dict[str, Any]:
    """Return how the imported verdicts of another tool on the same completions compare with ours.

        compared      completions with a verdict of both: right or wrong
        both_right, both_wrong
        only_theirs   they say right, we say wrong: count, and reason → count, first example
        only_ours     the reverse
        not_compared  why → count: NOT_JUDGED and PARTLY_RIGHT by them, NOT_SCORED by us

    A reason is why our scorer found the completion INVALID, or what was read: READ_ANOTHER,
    THEY_READ_NOTHING, FORMAT_FAILURE where they compared the whole text, or READ_ALIKE where the same answer
    was read and the truths differ. Empty where nobody else has judged, or we do not say right.
    """
    correct = scores.column("is_correct")
    if completions is None or "their_score" not in completions.frame.columns or correct is None:
        return {}
    if "is_correct" in scores.encoded or not correct.dtype.is_numeric():
        return {}
    said = completions.frame
    nothing = pl.repeat(None, said.height, dtype=pl.String, eager=True)
    their_text = pl.col("their_answer").fill_null("").str.strip_chars()
    whole_text = said["completion"].str.strip_chars()
    table = pl.DataFrame(
        {
            "sample_id": ids.cast(pl.String),
            "completion": said["completion"].str.slice(0, EXAMPLE_CHARACTERS),
            "predicted_choice": scores.text("predicted_choice"),
            "their_answer": said["their_answer"] if "their_answer" in said.columns else nothing,
            "status": scores.frame["status"],
            "ours": correct.cast(pl.Float64),
            "theirs": said["their_score"],
            "validity": scores.text("completion_validity"),
            "why": scores.text("validity_reason"),
        }
    ).with_columns(is_whole_text=their_text == whole_text)
    is_scored = (pl.col("status") == ScoreStatus.SCORED.value) & pl.col("ours").is_in([0.0, 1.0])
    is_scored = is_scored.fill_null(value=False)
    is_compared = (is_scored & pl.col("theirs").is_in([0.0, 1.0])).fill_null(value=False)
    reason = (
        pl.when((pl.col("validity") == Validity.INVALID.value) & (pl.col("theirs") == 1))
        .then(pl.coalesce("why", pl.lit(Validity.INVALID.value)))
        .when(pl.col("their_answer") == pl.col("predicted_choice"))
        .then(pl.lit(READ_ALIKE))
        .when((their_text == "") & (pl.col("theirs") == 0))
        .then(pl.lit(READ_NOTHING))
        .when(pl.col("is_whole_text") & (pl.col("theirs") == 0))
        .then(pl.lit(FORMAT_FAILURE))
        .otherwise(pl.lit(READ_ANOTHER))
    )
    ours, theirs = pl.col("ours") == 1, pl.col("theirs") == 1
    both, found = table.filter(is_compared), {}
    for side, is_there in (("only_theirs", theirs & ~ours), ("only_ours", ours & ~theirs)):
        rows = both.filter(is_there).with_columns(reason.alias("reason"))
        shown = rows.select("reason", "sample_id", "completion", "predicted_choice", "their_answer")
        found[side] = {"count": rows.height, "reasons": _group_reasons(shown, pl.col("reason"))}
    is_judged = pl.col("theirs").is_not_null()
    others = table.select(
        (~is_scored).sum().alias("NOT_SCORED"),
        (is_scored & ~is_judged).sum().alias("NOT_JUDGED"),
        (is_scored & is_judged & ~is_compared).sum().alias("PARTLY_RIGHT"),
    ).row(0, named=True)
    return {
        "compared": both.height,
        "both_right": both.filter(ours & theirs).height,
        "both_wrong": both.filter(~ours & ~theirs).height,
        **found,
        "not_compared": {name: count for name, count in others.items() if count},
    }


def merge_counts(shards: Sequence[Mapping[str, Any]]) -> TaskCounts:
    """Return the counts of shards, given in dataset order, as one; first examples stay first."""
    nothing: TaskCounts = {
        "counts": dict.fromkeys(_COUNTS, 0),
        "completion_statuses": {},
        **dict.fromkeys(("cut_off", "thinking"), 0),
        **{name: {} for name in ("invalid", "failed", "errors", "excluded", "letters", "choice_counts")},
        "category_column": None,
        **{name: {} for name in ("categories", "failures")},
        "unscored": 0,
        "readings": {},
    }
    merged = merge_parts([nothing, *shards])
    columns = [shard["category_column"] for shard in shards]
    merged["category_column"] = next((column for column in columns if column is not None), None)
    merged |= {name: sort_keys(merged[name]) for name in _SORTED}
    for name in ("fallback", "thinking", "theirs"):  # only where there are any
        if not merged.get(name):
            merged.pop(name, None)
    if "theirs" in merged:
        merged["theirs"]["not_compared"] = sort_keys(merged["theirs"]["not_compared"])
    if "trials" in merged:
        size = next(one["trials"]["num_trials"] for one in shards if "trials" in one)
        merged["trials"]["num_trials"] = size
        if votes := merged["trials"].get("votes"):
            total = votes["samples"] * size
            votes["self_consistency"] = votes["agreeing"] / total if total else None
    if "orders" in merged:
        merged["orders"]["left_in_place"] = sort_keys(merged["orders"]["left_in_place"])
    return merged


# What guessing would get, and what is left of an accuracy when that is taken off ---------------------------

#: True letter → predicted letter, or anything else for none → count.
Letters = Mapping[str, Mapping[str, int]]


def measure_chance(choice_counts: Mapping[int, int]) -> float | None:
    """Return the mean of 1/K over samples; `choice_counts` says how many samples have K choices."""
    total = sum(choice_counts.values())
    if not total:
        return None
    chance = sum((Fraction(count, size) for size, count in choice_counts.items()), Fraction(0)) / total
    return divide(chance.numerator, chance.denominator)


def correct_for_chance(share: float, chance: float) -> float | None:
    """Return (share - chance) / (1 - chance): 0 is guessing, 1 is all right; None when all is chance."""
    return (share - chance) / (1 - chance) if chance < 1 else None


def measure_kappa(letters: Letters) -> float | None:
    """Return Cohen's kappa of truths and predictions; a sample without a prediction agrees with none.

    None where agreement by accident would be complete.
    """
    total = sum(sum(row.values()) for row in letters.values())
    if not total:
        return None
    hits = sum(row.get(letter, 0) for letter, row in letters.items())
    by_accident = sum(
        sum(row.values()) * sum(other.get(letter, 0) for other in letters.values())
        for letter, row in letters.items()
    )
    bottom = total * total - by_accident
    return divide(hits * total - by_accident, bottom) if bottom else None


def measure_recalls(letters: Letters) -> dict[str, float]:
    """Return, for each letter that is ever true, the share of its samples that were answered with it."""
    return {
        letter: row.get(letter, 0) / sum(row.values()) for letter, row in letters.items() if sum(row.values())
    }


def measure_rstd(recalls: Sequence[float]) -> float | None:
    """Return RStd, the standard deviation of the recalls of letters, in points; None for a single letter.

    The population form: the letters are all there are, no draw from more of them.
    """
    if len(recalls) <= 1:
        return None
    mean = math.fsum(recalls) / len(recalls)
    return 100 * math.sqrt(math.fsum((one - mean) ** 2 for one in recalls) / len(recalls))
