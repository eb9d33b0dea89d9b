"""What the summary needs besides the metrics: counts that add up, reasons, letters and categories.

The counts of a task are a plain mapping that JSON can hold, called its `tally` in files:

    counts              samples = scored + failed + errors, scored = valid + invalid; refused and
                        declined are parts of invalid
    completion_statuses how many completions are OK, REFUSED, NO_TEXT, ERROR
    cut_off             how many completions the token limit cut off (finish reason `length`)
    thinking            only where there are any: recorded completions that begin with a thinking
                        block
    invalid             reason → count, first example (sample id, start of the completion); scored
                        samples
    failed, errors      the same for samples without a score
    doubted             only where there are any: INVALID completions that state a choice and speak
                        against it: count, and how many state the true one; of samples that count
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
    trials              only under trials: num_trials, and the counts of trials
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import polars as pl

from answerkey.metrics.base import sort_keys
from answerkey.metrics.trials import (
    NO_GROUP,
    SEVERITY,
    Examples,
    RowFacts,
    describe_samples,
    find_extra_rows,
    find_worst_rows,
    is_ordered,
    number_samples,
)
from answerkey.reader.markup import THOUGHT_BEGIN
from answerkey.reader.stated_answer import DECLINED
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
NO_CATEGORY = NO_GROUP
#: How much of a completion an example shows.
EXAMPLE_CHARACTERS = 200
#: Why a row has no score that was left out because the first ones all failed in the same way.
STOPPED_EARLY = "STOPPED_EARLY"
#: Why a sample has no score where the call to a judge or a fallback failed.
MODEL_CALL_FAILED = frozenset(["JUDGE_CALL_FAILED", "FALLBACK_CALL_FAILED"])
#: What is no failure of the scorer itself: a model that gave no reply, a row that was left out.
NOT_SCORING = MODEL_CALL_FAILED | {STOPPED_EARLY}

#: What a reason is grouped by: all before its second colon, for `SNIPPET_FAILED (raised): KeyError:
#: 'x'` has as many forms as there are keys.
_REASON_GROUP = r"^([^:]*(?:: [^:]*)?)"
#: The metadata that counts are made of.
COUNTED_FIELDS = frozenset(
    {
        "choices",
        "completion_validity",
        "doubted_choice",
        "fallback_error",
        "fallback_text",
        "ground_truth_choice",
        "is_correct",
        "predicted_choice",
        "validity_reason",
    }
)
#: What of the counts is of samples under trials and orders.
_OF_SAMPLES = ("counts", "failed", "errors", "excluded")
_CALL_STATUSES = pl.Enum([status.value for status in CompletionStatus])
_RIGHT_OR_WRONG = (0.0, 1.0)

TaskCounts = dict[str, Any]


# What is kept of rows, chunk by chunk


def describe_rows(
    samples: Samples,
    completions: Completions,
    verdicts: Mapping[str, Scores],
    *,
    main: str,
    columns: Iterable[str] = (),
) -> RowFacts:
    """Return what the metrics and counts need to know of a chunk, without ids and texts.

    The table has `call_status`, `is_cut_off` and `is_thinking`, and where another tool has judged
    the completions `their_score`. Ids and beginnings of texts are kept of the first
    row with each reason.
    """
    scores = verdicts[main]
    calls = completions.column("status")
    text = completions.column("completion")
    is_thinking = completions.column("source") == "recorded"
    is_thinking &= text.str.contains(THOUGHT_BEGIN)
    is_cut_off = completions.column("finish_reason") == "length"
    described = [
        *describe_samples(samples, columns),
        calls.cast(_CALL_STATUSES).alias("call_status"),
        is_cut_off.fill_null(value=False).alias("is_cut_off"),
        is_thinking.fill_null(value=False).alias("is_thinking"),
    ]
    shown = {
        "sample_id": completions.column("sample_id"),
        "completion": text.str.slice(0, EXAMPLE_CHARACTERS),
    }
    examples: dict[tuple[str, str], Mapping[str, str | None]] = {}
    for kind, reasons in _name_reasons(scores, calls):
        examples |= _find_examples(kind, reasons, shown)
    for key, table in verdicts.items():
        failed = {
            "sample_id": shown["sample_id"],
            "message": _fill_reasons(table),
            "traceback": table.text(TRACEBACK_FIELD),
        }
        examples |= _find_examples(f"failures of {key}", _name_failures(table, calls), failed)
    if any(completion.their_score is not None for completion in completions):
        described.append(completions.column("their_score"))
    return RowFacts(pl.DataFrame(described), examples)


def _find_examples(kind: str, reasons: pl.Series, shown: Mapping[str, pl.Series]) -> Examples:
    """Return what is shown of the first row with each reason."""
    is_first = reasons.is_first_distinct() & reasons.is_not_null()
    examples = {}
    for row in is_first.arg_true():
        example = {name: series[row] for name, series in shown.items()}
        examples[kind, str(reasons[row])] = example
    return examples


# Why rows are invalid, or have no score


def find_invalid_reasons(scores: Scores, calls: pl.Series) -> pl.Series:
    """Return why each completion is invalid, null where it is valid.

    By its status if no scorer says so.
    """
    validity = scores.column("completion_validity")
    if validity is None:
        return _mask(calls, calls != CompletionStatus.OK.value)
    reason = scores.column("validity_reason")
    if reason is None:
        reason = validity
    return _mask(reason.fill_null(Validity.INVALID.value), validity == Validity.INVALID.value)


def _name_reasons(scores: Scores, calls: pl.Series) -> Iterator[tuple[str, pl.Series]]:
    """Yield why rows are `invalid`, `failed` or `errors`; null where they are not."""
    status = scores.frame["status"]
    invalid = find_invalid_reasons(scores, calls)
    yield "invalid", _mask(invalid, status == ScoreStatus.SCORED.value)
    reason = _fill_reasons(scores)
    yield "failed", _mask(reason, status == ScoreStatus.FAILED.value)
    yield "errors", _mask(reason, status == ScoreStatus.ERROR.value)


def _fill_reasons(scores: Scores) -> pl.Series:
    return scores.frame["reason"].fill_null("UNKNOWN")


def _name_failures(scores: Scores, calls: pl.Series) -> pl.Series:
    """Return how a scorer itself failed on each row; null where it did not.

    A scorer fails on a row that is FAILED, and on one whose own call failed although there is a
    completion.
    """
    status = scores.frame["status"]
    is_failed = status == ScoreStatus.FAILED.value
    is_failed |= (status == ScoreStatus.ERROR.value) & (calls != CompletionStatus.ERROR.value)
    if not is_failed.any():
        return pl.repeat(None, len(scores), dtype=pl.String, eager=True)
    message = _mask(_fill_reasons(scores), is_failed).cast(pl.String)
    return message.str.extract(_REASON_GROUP).str.strip_chars()


def _mask(values: pl.Series, is_kept: pl.Series) -> pl.Series:
    """Return the values that are kept, and null in place of the others."""
    return pl.select(pl.when(is_kept).then(values)).to_series()


def _count_reasons(kind: str, reasons: pl.Series, examples: Examples) -> dict[str, dict[str, Any]]:
    """Return count and example of each reason, in the order in which they first occur."""
    table = reasons.alias("reason").to_frame().drop_nulls()
    counted = {}
    for reason, count in table.group_by("reason", maintain_order=True).len().iter_rows():
        example = examples.get((kind, reason), {})
        counted[reason] = {"count": count, "example": dict(example)}
    return counted


def _add_reasons(reasons: Mapping[str, Mapping[str, Any]]) -> int:
    return sum(entry["count"] for entry in reasons.values())


def find_failures(
    facts: RowFacts, verdicts: Mapping[str, Scores]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return which scorers failed, on how many rows, and how: scorer key → reason → count and first
    example.

    The other counts are those of the main scorer; a scorer beside it that fails would not be seen
    in them.
    """
    failures = {}
    for key, scores in verdicts.items():
        reasons = _name_failures(scores, facts.table["call_status"])
        counted = _count_reasons(f"failures of {key}", reasons, facts.examples)
        if counted:
            failures[key] = counted
    return failures


def find_same_failure(failures: Mapping[str, Mapping[str, Any]], rows: int) -> str | None:
    """Return what all rows have failed with, as `scorer: reason`; None when some have not."""
    for key, reasons in failures.items():
        for reason, entry in reasons.items():
            if entry["count"] == rows and reason not in NOT_SCORING:
                return f"{key}: {reason}"
    return None


# The counts of a task


def count_task(
    facts: RowFacts,
    verdicts: Mapping[str, Scores],
    *,
    main: str,
    num_trials: int = 1,
    category: str | None = None,
) -> TaskCounts:
    """Return the counts of a task, of the main scorer except for the failures, which are of every
    one.

    All tables have the same rows, `num_trials` for each sample.
    """
    rows = facts.table
    is_extra = find_extra_rows(rows)
    if is_extra is not None:
        # Rows that only estimate a prior are not counted, unless their call failed.
        for scores in verdicts.values():
            is_extra &= scores.frame["status"] != ScoreStatus.ERROR.value
        kept = (~is_extra).arg_true()
        facts = RowFacts(rows[kept], facts.examples)
        verdicts = {key: scores.take(kept) for key, scores in verdicts.items()}
    extra = rows.height - facts.table.height
    rows = facts.table
    scores = verdicts[main]
    counts = count_rows(facts, scores, category)
    counts["failures"] = find_failures(facts, verdicts)
    counts["unscored"] = _count_unscored(rows, verdicts, num_trials)
    counts["readings"] = {}
    fallback = {key: _count_fallback(table) for key, table in verdicts.items()}
    if any(fallback.values()):
        counts["fallback"] = {key: read for key, read in fallback.items() if read}
    if "their_score" in rows.columns:
        counts["theirs"] = _compare_verdicts(rows["their_score"], scores)
    if num_trials > 1 or is_ordered(rows):
        _count_samples(counts, facts, scores, num_trials, extra)
    return counts


def _count_samples(
    counts: TaskCounts, facts: RowFacts, scores: Scores, num_trials: int, extra: int
) -> None:
    """Put the counts of samples in place of those of rows."""
    rows = facts.table
    row_counts = counts["counts"]
    reasons = find_invalid_reasons(scores, rows["call_status"])
    # An error is worse than a failure, a refusal worse than an answer that cannot be read.
    severity = pl.max_horizontal(
        scores.frame["status"].replace_strict(SEVERITY, default=0, return_dtype=pl.Int8),
        reasons.is_not_null().cast(pl.Int8),
        (reasons == CompletionStatus.REFUSED.value).cast(pl.Int8) * 2,
    )
    owners = number_samples(rows, len(scores), num_trials)
    worst = find_worst_rows(pl.select(severity).to_series(), owners)
    of_samples = count_rows(RowFacts(rows[worst], facts.examples), scores.take(worst))
    for name in _OF_SAMPLES:
        counts[name] = of_samples[name]
    if num_trials > 1:
        counts["trials"] = {"num_trials": num_trials, "counts": row_counts}
    if is_ordered(rows):
        left_in_place = _count_each(rows["left_in_place"].gather(worst))
        counts["orders"] = {"counts": row_counts, "left_in_place": left_in_place, "extra": extra}


def _count_unscored(rows: pl.DataFrame, verdicts: Mapping[str, Scores], num_trials: int) -> int:
    """Return how many samples some scorer could not score."""
    is_failed = pl.repeat(value=False, n=rows.height, dtype=pl.Boolean, eager=True)
    for scores in verdicts.values():
        is_failed |= scores.frame["status"] == ScoreStatus.FAILED.value
    if num_trials == 1 and not is_ordered(rows):
        return int(is_failed.sum())
    return number_samples(rows, rows.height, num_trials).filter(is_failed).n_unique()


def find_category_column(columns: Iterable[str]) -> str | None:
    """Return the column that holds categories, or None."""
    present = set(columns)
    return next((name for name in CATEGORY_COLUMNS if name in present), None)


def count_rows(facts: RowFacts, scores: Scores, category: str | None = None) -> TaskCounts:
    """Return the counts of one scorer; the tables have the same rows."""
    rows = facts.table
    counted = {}
    for kind, reasons in _name_reasons(scores, rows["call_status"]):
        counted[kind] = _count_reasons(kind, reasons, facts.examples)
    num_scored = scores.count(ScoreStatus.SCORED)
    num_invalid = _add_reasons(counted["invalid"])
    is_scored = scores.frame["status"] == ScoreStatus.SCORED.value
    counts: TaskCounts = {
        "counts": {
            "samples": len(scores),
            "scored": num_scored,
            "valid": num_scored - num_invalid,
            "invalid": num_invalid,
            "refused": _count_reason(counted["invalid"], CompletionStatus.REFUSED.value),
            "declined": _count_reason(counted["invalid"], DECLINED),
            "failed": _add_reasons(counted["failed"]),
            "errors": _add_reasons(counted["errors"]),
        },
        "completion_statuses": _count_each(rows["call_status"]),
        "cut_off": int(rows["is_cut_off"].sum()),
        "thinking": int(rows["is_thinking"].sum()),
        **counted,
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
    if doubted := _count_doubted(scores):
        counts["doubted"] = doubted
    return counts


def _count_reason(reasons: Mapping[str, Mapping[str, Any]], reason: str) -> int:
    """Return how many completions are INVALID for a reason."""
    entry = reasons.get(reason)
    return entry["count"] if entry else 0


def _count_doubted(scores: Scores) -> dict[str, int]:
    """Return how many INVALID completions state a choice in doubt, and how many the true one."""
    stated = scores.column("doubted_choice")
    truth = scores.column("ground_truth_choice")
    if stated is None or truth is None:
        return {}
    is_doubted = scores.counted() & stated.is_not_null()
    is_doubted &= scores.text("completion_validity") == Validity.INVALID.value
    if not is_doubted.any():
        return {}
    is_right = is_doubted & (stated.cast(pl.String) == truth.cast(pl.String))
    return {"count": int(is_doubted.sum()), "correct": int(is_right.sum())}


def _count_each(values: pl.Series) -> dict[str, int]:
    """Return how often each value occurs, null left out."""
    counts = values.drop_nulls().value_counts(name="count")
    return dict(sorted((str(value), count) for value, count in counts.iter_rows()))


def count_letters(scores: Scores) -> dict[str, dict[str, int]]:
    """Return true choice → predicted choice (or INVALID) → count, of rows that count."""
    truth = scores.column("ground_truth_choice")
    predicted = scores.column("predicted_choice")
    if truth is None or predicted is None:
        return {}
    letters = pl.DataFrame({"true": truth, "predicted": predicted}).filter(scores.counted())
    groups = letters.drop_nulls("true").group_by("true", "predicted").len()
    counts: dict[str, dict[str, int]] = {}
    named = groups.with_columns(pl.col("true", "predicted").cast(pl.String))
    named = named.with_columns(pl.col("predicted").fill_null(Validity.INVALID.value))
    for true, letter, count in named.sort("true", "predicted").iter_rows():
        counts.setdefault(true, {})[letter] = count
    return counts


def count_choices(scores: Scores) -> dict[str, int]:
    """Return number of choices (as text) → count, of rows that count."""
    choices = scores.column("choices")
    if choices is None or choices.dtype == pl.Null:
        return {}
    if isinstance(choices.dtype, pl.List):
        choices = choices.list.len()
    if not choices.dtype.is_integer():
        return {}
    return _count_each(choices.filter(scores.counted()))


def _count_categories(labels: pl.Series, scores: Scores) -> dict[str, dict[str, int]]:
    correct = scores.column("is_correct")
    if correct is not None and "is_correct" in scores.encoded:
        numbers = correct.cast(pl.String).replace({"true": "1", "false": "0"})
        correct = numbers.cast(pl.Float64, strict=False)
    if correct is None or not (correct.dtype.is_numeric() or correct.dtype == pl.Boolean):
        return {}
    table = pl.DataFrame({"category": labels, "right": correct.cast(pl.Float64)})
    groups = (
        table.filter(scores.counted())
        .drop_nulls("right")
        .group_by("category")
        .agg(
            pl.len().alias("n"),
            (pl.col("right") == 1).sum().alias("correct"),
            (~pl.col("right").is_in(_RIGHT_OR_WRONG)).sum().alias("partial"),
        )
    )
    categories = {}
    for row in groups.iter_rows(named=True):
        categories[row.pop("category") or NO_CATEGORY] = row
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
    right = pl.Series("right", scores.column("is_correct"), pl.Float64) == 1
    table = pl.DataFrame(
        [
            scores.text("extraction_rule").str.ends_with("/fallback").alias("named"),
            right,
            scores.text("predicted_choice").is_null().alias("invalid"),
            replies.is_not_null().alias("asked"),
        ]
    ).filter(scores.counted())
    counts = table.select(
        pl.len().alias("n"),
        pl.col("right", "invalid", "asked", "named").sum(),
        (pl.col("named") & pl.col("right")).sum().alias("correct"),
    )
    return {**counts.row(0, named=True), "failed": len(failed) - failed.null_count()}


def _compare_verdicts(theirs: pl.Series, scores: Scores) -> dict[str, Any]:
    """Return how the imported verdicts of another tool on the same completions compare with ours.

    compared      completions with a verdict of both: right or wrong
    both_right, both_wrong, only_theirs, only_ours
                  who calls how many of them right
    not_compared  why → count: NOT_JUDGED and PARTLY_RIGHT by them, NOT_SCORED by us
    """
    correct = scores.column("is_correct")
    if correct is None or "is_correct" in scores.encoded or not correct.dtype.is_numeric():
        return {}
    ours = correct.cast(pl.Float64)
    is_scored = scores.frame["status"] == ScoreStatus.SCORED.value
    is_scored &= ours.is_in(_RIGHT_OR_WRONG).fill_null(value=False)
    is_judged = theirs.is_not_null()
    is_compared = is_scored & theirs.is_in(_RIGHT_OR_WRONG).fill_null(value=False)
    sides = {
        "compared": is_compared,
        "both_right": is_compared & (ours == 1) & (theirs == 1),
        "both_wrong": is_compared & (ours == 0) & (theirs == 0),
        "only_theirs": is_compared & (theirs > ours),
        "only_ours": is_compared & (theirs < ours),
    }
    counts: dict[str, Any] = {name: int(rows.sum()) for name, rows in sides.items()}
    left_out = {
        "NOT_JUDGED": int((is_scored & ~is_judged).sum()),
        "NOT_SCORED": int((~is_scored).sum()),
        "PARTLY_RIGHT": int((is_scored & is_judged & ~is_compared).sum()),
    }
    counts["not_compared"] = {name: count for name, count in left_out.items() if count}
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
    return float(chances / total)


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
    return (hits * total - by_accident) / bottom if bottom else None


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
