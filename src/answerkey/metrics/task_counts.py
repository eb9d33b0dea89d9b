"""The counts of a task that a summary shows in addition to metrics: statuses, reasons, letters,
categories.

The counts of a task are a plain mapping for JSON, called `tally` in files:

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
    imported            only where another tool has judged the completions, too: see
    `_compare_verdicts`
    trials              only under trials: num_trials, and the counts of trials
    orders              only under orders of options: the counts of all rows; not_reordered: how
    many samples
                        are shown as in the file, by reason; extra: rows that only estimate a prior

Under trials and orders `counts`, `failed`, `errors` and `excluded` are of samples, and a sample
counts as its worst row: it is in error when any call failed, invalid when any completion is, valid
when all are. The others are of rows.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import polars as pl

from answerkey.metrics.base import (
    count_combinations,
    decode,
    read_column,
    read_number,
    sort_keys,
)
from answerkey.metrics.trials import (
    NO_GROUP,
    SEVERITY,
    find_worst_rows,
    label_rows,
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

#: Columns that may contain a sample's category; the first one that a dataset has is used.
CATEGORY_COLUMNS = ("category", "subject", "topic", "domain", "subset")
#: The category of samples without one.
NO_CATEGORY = NO_GROUP
#: The number of characters of a completion shown in an example.
EXAMPLE_CHARACTERS = 200
#: The reason of rows that were skipped because the first rows all failed in the same way.
STOPPED_EARLY = "STOPPED_EARLY"
#: The reasons of samples without a score because the call to a judge or a fallback failed.
MODEL_CALL_FAILED = frozenset(["JUDGE_CALL_FAILED", "FALLBACK_CALL_FAILED"])
#: Reasons that are not failures of the scorer itself: a model without a reply, a skipped row.
NOT_SCORING = MODEL_CALL_FAILED | {STOPPED_EARLY}

#: Reasons are grouped by the text before the second colon: `SNIPPET_FAILED (raised): KeyError: 'x'`
#: would have as many forms as keys.
_REASON_GROUP = r"^([^:]*(?:: [^:]*)?)"
#: The metadata that the counts need.
COUNTED_FIELDS = frozenset(
    {
        "choices",
        "completion_validity",
        "doubted_choice",
        "extraction_rule",
        "fallback_error",
        "fallback_text",
        "ground_truth_choice",
        "is_correct",
        "predicted_choice",
        "validity_reason",
    }
)
#: The counts that are of samples, not rows, with trials and orders.
_OF_SAMPLES = ("counts", "failed", "errors", "excluded")
_CALL_STATUSES = pl.Enum(CompletionStatus)
_RIGHT_OR_WRONG = (0.0, 1.0)

TaskCounts = dict[str, Any]
#: An example row for each kind of reason and reason.
Examples = dict[tuple[str, str], dict[str, str | None]]
#: The count and an example of each reason.
Reasons = dict[str, dict[str, Any]]


# Facts about rows, chunk by chunk


@dataclass(frozen=True)
class RowFacts:
    """Facts about rows that the metrics and counts need in addition to the scores.

    `table` has a row for each sample and trial, in the order of the scores, without texts. If
    options are shown in several orders it has `base_sample_id` (a hash), `not_reordered` and
    `is_extra`; the dataset column `x` is `label:x`; then follow the columns of `describe_rows`.
    """

    table: pl.DataFrame
    examples: Examples = field(default_factory=dict)

    @classmethod
    def join(cls, chunks: Sequence[RowFacts]) -> RowFacts:
        """Return the facts of all chunks, keeping the first example of each kind."""
        examples: Examples = {}
        for chunk in chunks:
            examples = chunk.examples | examples
        tables = [chunk.table for chunk in chunks]
        return cls(pl.concat(tables, how="diagonal_relaxed"), examples)


def describe_samples(samples: Samples, columns: Iterable[str]) -> pl.DataFrame:
    """Return the facts about these rows, with the labels from these columns of the dataset."""
    series: list[pl.Series] = []
    if samples.orders is not None:
        not_reordered = pl.selectors.by_name("not_reordered", require_all=False)
        is_extra = pl.selectors.by_name("is_extra", require_all=False)
        sample = pl.col("base_sample_id").hash()
        orders = samples.orders.select(
            sample,
            not_reordered.cast(pl.Categorical),
            is_extra,
        )
        series.extend(orders)
    for column in dict.fromkeys(columns):
        labels = label_rows(samples, column).cast(pl.Categorical)
        series.append(labels.alias(f"label:{column}"))
    return pl.DataFrame(series)


def describe_rows(
    samples: Samples,
    completions: Completions,
    verdicts: Mapping[str, Scores],
    *,
    main: str,
    columns: Iterable[str] = (),
) -> RowFacts:
    """Return the facts about a chunk that the metrics and counts need, without ids and texts.

    The table has `call_status`, `is_cut_off` and `is_thinking`, and `imported_score` if another
    tool has judged the completions. The id and the beginning of the text are kept for the first row
    with each reason.
    """
    calls = completions.column("status").cast(_CALL_STATUSES)
    texts = completions.column("completion")
    is_thinking = completions.column("source") == "recorded"
    is_thinking &= texts.str.contains(THOUGHT_BEGIN)
    is_cut_off = completions.column("finish_reason") == "length"
    described = [
        *describe_samples(samples, columns),
        calls.alias("call_status"),
        is_cut_off.fill_null(value=False).alias("is_cut_off"),
        is_thinking.fill_null(value=False).alias("is_thinking"),
    ]
    imported_scores = completions.column("imported_score")
    if imported_scores.null_count() < len(imported_scores):
        described.append(imported_scores)
    examples: Examples = {}
    for key, scores in verdicts.items():
        for row, reason in _iterate_first(_list_failures(scores, calls)):
            examples[f"failures of {key}", reason] = {
                "sample_id": completions.items[row].sample_id,
                "message": scores.frame["reason"][row] or "UNKNOWN",
                "traceback": scores.text(TRACEBACK_FIELD)[row],
            }
    for kind, rows in _list_reasons(verdicts[main], calls).items():
        for row, reason in _iterate_first(rows):
            completion = completions.items[row]
            shown = completion.text and completion.text[:EXAMPLE_CHARACTERS]
            examples[kind, reason] = {"sample_id": completion.sample_id, "completion": shown}
    return RowFacts(pl.DataFrame(described), examples)


# Why rows are invalid, or have no score


def find_invalid_reasons(scores: Scores, calls: pl.Series) -> pl.Series:
    """Return why each completion is invalid; null if it is valid.

    If no scorer gives a reason, it is the status.
    """
    validity = scores.columns.get("completion_validity")
    if validity is None:
        reasons = calls
        is_invalid = calls != CompletionStatus.OK.value
    else:
        reasons = scores.columns.get("validity_reason", validity)
        is_invalid = validity == Validity.INVALID.value
    reasons = reasons.fill_null(Validity.INVALID.value)
    chosen = pl.when(is_invalid).then(reasons)
    return pl.select(chosen).to_series()


def _list_reasons(scores: Scores, calls: pl.Series) -> dict[str, pl.DataFrame]:
    """Return the rows that are `invalid`, `failed` or in `errors`, with their reasons."""
    status = scores.frame["status"]
    reasons = scores.frame["reason"]
    invalid = find_invalid_reasons(scores, calls)
    is_invalid = invalid.is_not_null() & (status == ScoreStatus.SCORED.value)
    return {
        "invalid": _list_rows(is_invalid, invalid),
        "failed": _list_rows(status == ScoreStatus.FAILED.value, reasons),
        "errors": _list_rows(status == ScoreStatus.ERROR.value, reasons),
    }


def _list_failures(scores: Scores, calls: pl.Series) -> pl.DataFrame:
    """Return the rows on which the scorer itself failed, with the groups of their reasons.

    They are FAILED, or their own call failed although there is a completion.
    """
    status = scores.frame["status"]
    is_failed = status == ScoreStatus.FAILED.value
    is_error = status == ScoreStatus.ERROR.value
    is_answered = calls != CompletionStatus.ERROR.value
    rows = _list_rows(is_failed | (is_error & is_answered), scores.frame["reason"])
    texts = pl.col("reason").cast(pl.String)
    groups = texts.str.extract(_REASON_GROUP).str.strip_chars()
    return rows.with_columns(groups)


def _list_rows(is_chosen: pl.Series, reasons: pl.Series) -> pl.DataFrame:
    """Return the positions of the chosen rows, with their reasons."""
    is_chosen = is_chosen.fill_null(value=False)
    chosen = reasons.filter(is_chosen).fill_null("UNKNOWN")
    return pl.DataFrame({"row": is_chosen.arg_true(), "reason": chosen})


def _iterate_first(rows: pl.DataFrame) -> Iterator[tuple[int, str]]:
    """Yield the first row with each reason, and the reason."""
    first = rows.unique("reason", keep="first", maintain_order=True)
    return first.iter_rows()


def _count_reasons(
    kind: str,
    rows: pl.DataFrame,
    examples: Examples,
) -> Reasons:
    """Return the count and an example of each reason, in order of first occurrence."""
    counted = {}
    groups = count_combinations(rows.select("reason"))
    for reason, count in groups.iter_rows():
        example = examples.get((kind, reason), {})
        counted[reason] = {"count": count, "example": example}
    return counted


def find_failures(facts: RowFacts, verdicts: Mapping[str, Scores]) -> dict[str, Reasons]:
    """Return the failures of each scorer: scorer key → reason → count and first example.

    The other counts are those of the main scorer, so they do not show failures of other scorers.
    """
    failures = {}
    for key, scores in verdicts.items():
        if scores.count(ScoreStatus.SCORED) == len(scores):
            continue
        rows = _list_failures(scores, facts.table["call_status"])
        if not rows.is_empty():
            failures[key] = _count_reasons(f"failures of {key}", rows, facts.examples)
    return failures


def find_same_failure(
    failures: Mapping[str, Mapping[str, Any]],
    rows: int,
) -> str | None:
    """Return the failure shared by all rows, as `scorer: reason`; None if some did not fail with
    it.
    """
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
    """Return the counts of a task: those of the main scorer, and the failures of every scorer.

    All tables have the same rows, `num_trials` for each sample.
    """
    num_rows = facts.table.height
    if "is_extra" in facts.table.columns:
        facts, verdicts = _leave_out_extra(facts, verdicts)
    rows = facts.table
    counts = count_rows(facts, verdicts[main], category)
    counts["failures"] = find_failures(facts, verdicts)
    owners = number_samples(rows, rows.height, num_trials)
    unscored = owners.clear()
    fallback = {}
    for key, scores in verdicts.items():
        is_failed = scores.frame["status"] == ScoreStatus.FAILED.value
        unscored.append(owners.filter(is_failed))
        if "fallback_text" in scores.columns:
            fallback[key] = _count_fallback(scores)
    counts["unscored"] = unscored.n_unique()
    counts["readings"] = {}
    if fallback:
        counts["fallback"] = fallback
    if "imported_score" in rows.columns:
        counts["imported"] = _compare_verdicts(rows["imported_score"], verdicts[main])
    if num_trials > 1 or "base_sample_id" in rows.columns:
        extra = num_rows - rows.height
        _count_samples(
            counts,
            facts,
            verdicts[main],
            owners,
            num_trials,
            extra,
        )
    return counts


def _leave_out_extra(
    facts: RowFacts,
    verdicts: Mapping[str, Scores],
) -> tuple[RowFacts, dict[str, Scores]]:
    """Return facts and scores without rows that only estimate a prior, unless their call failed."""
    is_extra = facts.table["is_extra"]
    for scores in verdicts.values():
        is_extra &= scores.frame["status"] != ScoreStatus.ERROR.value
    kept = (~is_extra).arg_true()
    kept_scores = {}
    for key, scores in verdicts.items():
        kept_scores[key] = scores.take(kept)
    return RowFacts(facts.table[kept], facts.examples), kept_scores


def _count_samples(
    counts: TaskCounts,
    facts: RowFacts,
    scores: Scores,
    owners: pl.Series,
    num_trials: int,
    extra: int,
) -> None:
    """Replace the counts of rows with those of samples."""
    rows = facts.table
    row_counts = counts["counts"]
    reasons = find_invalid_reasons(scores, rows["call_status"])
    # An error is worse than a failure, and a refusal worse than an unreadable answer.
    status = scores.frame["status"]
    is_refused = reasons == CompletionStatus.REFUSED.value
    severity = pl.max_horizontal(
        status.replace_strict(SEVERITY, default=0, return_dtype=pl.Int8),
        reasons.is_not_null().cast(pl.Int8),
        is_refused.cast(pl.Int8) * 2,
    )
    worst = find_worst_rows(pl.select(severity).to_series(), owners)
    worst_facts = RowFacts(rows[worst], facts.examples)
    of_samples = count_rows(worst_facts, scores.take(worst))
    for name in _OF_SAMPLES:
        counts[name] = of_samples[name]
    if num_trials > 1:
        counts["trials"] = {"num_trials": num_trials, "counts": row_counts}
    if "base_sample_id" in rows.columns:
        not_reordered = _count_values(rows["not_reordered"].gather(worst))
        counts["orders"] = {
            "counts": row_counts,
            "not_reordered": not_reordered,
            "extra": extra,
        }


def find_category_column(columns: Collection[str]) -> str | None:
    """Return the column with the categories, or None."""
    return next((name for name in CATEGORY_COLUMNS if name in columns), None)


def count_rows(
    facts: RowFacts,
    scores: Scores,
    category: str | None = None,
) -> TaskCounts:
    """Return the counts of one scorer; the tables have the same rows."""
    rows = facts.table
    reasons = _list_reasons(scores, rows["call_status"])
    counted = {}
    for kind, failing in reasons.items():
        counted[kind] = _count_reasons(kind, failing, facts.examples)
    invalid: Counter[str] = Counter()
    for reason, entry in counted["invalid"].items():
        invalid[reason] = entry["count"]
    is_scored = scores.frame["status"] == ScoreStatus.SCORED.value
    num_scored = int(is_scored.sum())
    counts: TaskCounts = {
        "counts": {
            "samples": len(scores),
            "scored": num_scored,
            "valid": num_scored - invalid.total(),
            "invalid": invalid.total(),
            "refused": invalid[CompletionStatus.REFUSED.value],
            "declined": invalid[DECLINED],
            "failed": reasons["failed"].height,
            "errors": reasons["errors"].height,
        },
        "completion_statuses": _count_values(rows["call_status"]),
        "cut_off": int(rows["is_cut_off"].sum()),
        **counted,
        "excluded": _count_values(scores.frame["excluded_by"].filter(is_scored)),
        "letters": count_letters(scores),
        "choice_counts": count_choices(scores),
        "category_column": category,
        "categories": {},
    }
    if category is not None:
        counts["categories"] = _count_categories(rows[f"label:{category}"], scores)
    thinking = int(rows["is_thinking"].sum())
    if thinking:
        counts["thinking"] = thinking
    doubted = _count_doubted(scores)
    if doubted["count"]:
        counts["doubted"] = doubted
    return counts


def _count_fields(scores: Scores, *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield the combinations of fields, as texts, each with its number of counted rows."""
    columns = [read_column(scores, name).alias(name) for name in names]
    table = pl.DataFrame([scores.counted(), *columns])
    groups = count_combinations(table).filter("counted").drop("counted")
    # Categories become texts only now, when there are few.
    return groups.with_columns(pl.col(*names).cast(pl.String)).iter_rows()


def _count_doubted(scores: Scores) -> dict[str, int]:
    """Return the number of INVALID completions that state a doubted choice, and of those that state
    the true one.
    """
    names = ("completion_validity", "doubted_choice", "ground_truth_choice")
    counts = {"count": 0, "correct": 0}
    for validity, doubted, truth, rows in _count_fields(scores, *names):
        if validity == Validity.INVALID.value and doubted is not None:
            counts["count"] += rows
            counts["correct"] += rows * (doubted == truth)
    return counts


def _count_values(values: pl.Series) -> dict[str, int]:
    """Return the number of occurrences of each value except null."""
    counts = count_combinations(values.drop_nulls().to_frame())
    return dict(sorted((str(value), rows) for value, rows in counts.iter_rows()))


def count_letters(scores: Scores) -> dict[str, dict[str, int]]:
    """Return true choice → predicted choice (or INVALID) → count, of rows that count."""
    if "predicted_choice" not in scores.columns:
        return {}
    names = ("ground_truth_choice", "predicted_choice")
    letters: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for truth, predicted, rows in _count_fields(scores, *names):
        if predicted is None:
            predicted = Validity.INVALID.value  # noqa: PLW2901 - its name in the counts
        if truth is not None:
            letters[truth][predicted] += rows
    return sort_keys(letters)


def count_choices(scores: Scores) -> dict[str, int]:
    """Return number of choices (as text) → count, of rows that count."""
    choices = scores.column("choices")
    if choices is None:
        return {}
    if isinstance(choices.dtype, pl.List):
        choices = choices.list.len()
    if not choices.dtype.is_integer():
        return {}
    return _count_values(choices.filter(scores.counted()))


def _read_correct(scores: Scores) -> pl.Series | None:
    """Return `is_correct` as numbers; None if the scorer has no such numbers."""
    correct = scores.column("is_correct")
    if correct is None:
        return None
    if "is_correct" in scores.encoded:
        numbers = map(read_number, decode(correct))
        return pl.Series("is_correct", numbers, dtype=pl.Float64)
    if correct.dtype.is_numeric() or correct.dtype == pl.Boolean:
        return correct.cast(pl.Float64)
    return None


def _count_categories(
    labels: pl.Series,
    scores: Scores,
) -> dict[str, dict[str, int]]:
    correct = _read_correct(scores)
    if correct is None:
        return {}
    right = pl.col("right")
    is_partial = ~right.is_in(_RIGHT_OR_WRONG)
    table = pl.DataFrame({"category": labels, "right": correct})
    groups = (
        table.filter(scores.counted())
        .drop_nulls("right")
        .group_by("category")
        .agg(
            pl.len().alias("n"),
            (right == 1).sum().alias("correct"),
            is_partial.sum().alias("partial"),
        )
    )
    categories = {}
    for row in groups.iter_rows(named=True):
        categories[row.pop("category") or NO_CATEGORY] = row
    return sort_keys(categories)


def _count_fallback(scores: Scores) -> dict[str, int]:
    """Return the counts of a scorer's fallback, over rows that count.

    n, right, invalid   completions, with what the fallback read asked               completions
    that it was asked about named, correct      those in which it named a choice, and the right one
    failed              calls to it that failed, of all rows
    """
    right = pl.Series("right", scores.column("is_correct"), pl.Float64)
    rules = scores.text("extraction_rule")
    table = pl.DataFrame(
        {
            "right": right == 1,
            "named": rules.str.ends_with("/fallback"),
            "invalid": scores.text("predicted_choice").is_null(),
            "asked": scores.text("fallback_text").is_not_null(),
        }
    )
    is_correct = pl.col("named") & pl.col("right")
    counts = table.filter(scores.counted()).select(
        pl.len().alias("n"),
        pl.col("right", "invalid", "asked", "named").sum(),
        is_correct.sum().alias("correct"),
    )
    failed = scores.text("fallback_error").count()
    return {**counts.row(0, named=True), "failed": failed}


def _compare_verdicts(imported: pl.Series, scores: Scores) -> dict[str, Any]:
    """Return a comparison of another tool's imported verdicts with ours on the same completions.

    compared      completions with a verdict of both: right or wrong
    both_right, both_wrong, only_imported, only_ours
                  who calls how many of them right
    not_compared  why → count: NOT_JUDGED and PARTLY_RIGHT by them, NOT_SCORED by us
    """
    correct = _read_correct(scores)
    if correct is None:
        return {}
    verdicts = {
        "both_right": 0,
        "both_wrong": 0,
        "only_imported": 0,
        "only_ours": 0,
    }
    left_out: Counter[str] = Counter()
    table = pl.DataFrame([scores.frame["status"], correct, imported])
    for status, ours, imported_score, rows in count_combinations(table).iter_rows():
        if status != ScoreStatus.SCORED.value or ours not in _RIGHT_OR_WRONG:
            left_out["NOT_SCORED"] += rows
        elif imported_score is None:
            left_out["NOT_JUDGED"] += rows
        elif imported_score not in _RIGHT_OR_WRONG:
            left_out["PARTLY_RIGHT"] += rows
        elif ours == imported_score:
            verdicts["both_right" if ours else "both_wrong"] += rows
        else:
            verdicts["only_ours" if ours else "only_imported"] += rows
    return {
        "compared": sum(verdicts.values()),
        **verdicts,
        "not_compared": sort_keys(left_out),
    }


def add_counts(chunks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sum of nested mappings of counts, with sorted keys."""
    total: dict[str, Any] = {}
    for chunk in chunks:
        for key, value in chunk.items():
            if isinstance(value, Mapping):
                earlier = total.get(key, {})
                total[key] = add_counts([earlier, value])
            else:
                total[key] = total.get(key, 0) + value
    return sort_keys(total)


# The accuracy of guessing, and accuracies corrected for it

#: True letter → predicted letter, or any other text for none → count.
Letters = Mapping[str, Mapping[str, int]]


def measure_chance(choice_counts: Mapping[int, int]) -> float | None:
    """Return the mean of 1/K over samples; `choice_counts` counts samples by their number of
    choices K.
    """
    total = sum(choice_counts.values())
    if not total:
        return None
    chances = Fraction()
    for size, count in choice_counts.items():
        chances += Fraction(count, size)
    return float(chances / total)


def correct_for_chance(share: float, chance: float) -> float | None:
    """Return (share - chance) / (1 - chance): 0 is guessing, 1 is all right.

    None if the chance is 1.
    """
    if chance >= 1:
        return None
    return (share - chance) / (1 - chance)


def measure_kappa(letters: Letters) -> float | None:
    """Return Cohen's kappa of truths and predictions.

    A sample without a prediction never agrees. None if the expected agreement is complete.
    """
    predicted: Counter[str] = Counter()
    for row in letters.values():
        predicted.update(row)
    total = predicted.total()
    hits = 0
    by_accident = 0
    for letter, row in letters.items():
        hits += row.get(letter, 0)
        true = sum(row.values())
        by_accident += true * predicted[letter]
    bottom = total * total - by_accident
    if not bottom:
        return None
    return (hits * total - by_accident) / bottom


def measure_recalls(letters: Letters) -> dict[str, float]:
    """Return the recall of each letter that is ever true."""
    recalls = {}
    for letter, row in letters.items():
        total = sum(row.values())
        if total:
            recalls[letter] = row.get(letter, 0) / total
    return recalls


def measure_rstd(recalls: Sequence[float]) -> float | None:
    """Return RStd, the standard deviation of the recalls of letters, in points.

    None for a single letter. It is the population form, since the letters are not a sample of more
    letters.
    """
    if len(recalls) <= 1:
        return None
    size = len(recalls)
    mean = math.fsum(recalls) / size
    squares = math.fsum((recall - mean) ** 2 for recall in recalls)
    return 100 * math.sqrt(squares / size)
