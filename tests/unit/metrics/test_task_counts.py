from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest
from tests.samples import samples_from_frame

from answerkey.metrics import RowFacts, count_task, describe_rows, find_category_column
from answerkey.metrics.task_counts import count_choices, count_letters, count_rows
from answerkey.types import (
    TRACEBACK_FIELD,
    Completion,
    Completions,
    CompletionStatus,
    Samples,
    Scores,
)

from .conftest import make_scores

TEXTS = ["A", "b " * 150, "B", "maybe", None, "C", None, "A"]


REASONS = [None, "NOT_A_CHOICE", None, "NOT_A_CHOICE", "REFUSED", None, None, None]
VALIDITY = [" ", "IN", " ", "IN", "IN", " ", None, " "]
STATUSES = ["OK", "OK", "OK", "OK", "REFUSED", "OK", "ERROR", "OK"]


def make_samples(category: Sequence[object] = ("x", "x", "y", "y", "x", None, "y", "x")) -> Samples:
    """Return eight samples with a category."""
    ids = pl.Series([f"{number:06d}" for number in range(1, len(category) + 1)])
    return samples_from_frame(pl.DataFrame({"category": list(category)}), ids)


def make_completions() -> Completions:
    """Return eight completions; the fifth is a refusal, the seventh an error."""
    rows = list(map(Completion, TEXTS, map(CompletionStatus, STATUSES)))
    return Completions.build(make_samples().ids, rows, source="recorded")


def make_mcqa_scores() -> Scores:
    """Return their scores: three invalid, one valid and wrong, one error, one excluded by an
    action.
    """
    return make_scores(
        {"is_correct": [1.0, 0.0, 1.0, 0.0, 0.0, 0.0, None, 1.0]},
        {
            "completion_validity": [verdict and f"{verdict.strip()}VALID" for verdict in VALIDITY],
            "validity_reason": REASONS,
            "predicted_choice": ["A", None, "B", None, None, "C", None, "A"],
            "ground_truth_choice": ["A", "A", "B", "B", "A", "B", None, "A"],
        },
        status=["SCORED"] * 6 + ["ERROR", "SCORED"],
        excluded_by=[None] * 7 + ["repeated"],
    )


def describe(
    samples: Samples, completions: Completions | None, verdicts: Mapping[str, Scores]
) -> RowFacts:
    """Return what is known of the rows; without completions, each is there and has no text."""
    if completions is None:
        texts = [Completion(None)] * len(samples)
        completions = Completions.build(samples.ids, texts, source="live")
    columns = [name for name in samples.columns if name == "category"]
    main = next(iter(verdicts))
    return describe_rows(samples, completions, verdicts, main=main, columns=columns)


def count_samples(
    samples: Samples, completions: Completions | None, scores: Scores, category: str | None = None
) -> dict[str, Any]:
    """Return the counts of one scorer."""
    return count_rows(describe(samples, completions, {"s": scores}), scores, category)


def count_verdicts(
    samples: Samples,
    completions: Completions | None,
    verdicts: Mapping[str, Scores],
    num_trials: int = 1,
) -> dict[str, Any]:
    """Return the counts of a task whose first scorer is the main one."""
    main = next(iter(verdicts))
    rows = describe(samples, completions, verdicts)
    category = "category" if "category" in samples.columns else None
    return count_task(rows, verdicts, main=main, num_trials=num_trials, category=category)


def count_eight() -> dict[str, Any]:
    """Return the counts of the eight samples."""
    return count_samples(make_samples(), make_completions(), make_mcqa_scores(), "category")


def list_counts(*numbers: int) -> dict[str, int]:
    """Return the counts of a task."""
    names = ("samples", "scored", "valid", "invalid", "refused", "failed", "errors")
    return {**dict(zip(names, numbers, strict=True)), "declined": 0}


def list_reasons(**reasons: tuple[int, str, str | None]) -> dict[str, Any]:
    """Return reasons with their count and first example."""
    result = {}
    for name, (count, sample, text) in reasons.items():
        result[name] = {"count": count, "example": {"sample_id": sample, "completion": text}}
    return result


def test_declined_and_doubted_replies_are_counted_apart() -> None:
    """A reply that declines is not refused; a doubted choice may be the true one."""
    scores = make_scores(
        {"is_correct": [0.0, 0.0, 0.0, 1.0]},
        {
            "completion_validity": ["INVALID", "INVALID", "INVALID", "VALID"],
            "validity_reason": ["DECLINED", "SEVERAL_CHOICES", "SEVERAL_CHOICES", None],
            "predicted_choice": [None, None, None, "A"],
            "ground_truth_choice": ["A", "A", "B", "A"],
            "doubted_choice": [None, "A", "A", None],
        },
    )
    counts = count_samples(make_samples(("x",) * 4), None, scores)
    assert (counts["counts"]["declined"], counts["counts"]["refused"]) == (1, 0)
    assert counts["doubted"] == {"count": 2, "correct": 1}


def test_counts_add_up() -> None:
    """Scored, failed and errors are all samples; valid and invalid are all scored ones.

    Each reason shows its first sample and at most 200 characters of its completion. Letters and
    categories cover what the metrics see: a sample that an action excludes is in neither; a missing
    category has a name.
    """
    totals = count_eight()
    assert totals["counts"] == list_counts(8, 7, 4, 3, 1, 0, 1)
    assert totals["completion_statuses"] == {"ERROR": 1, "OK": 6, "REFUSED": 1}
    assert totals["excluded"] == {"repeated": 1}
    example = {"NOT_A_CHOICE": (2, "000002", "b " * 100), "REFUSED": (1, "000005", None)}
    assert totals["invalid"] == list_reasons(**example)
    assert totals["errors"] == list_reasons(UNKNOWN=(1, "000007", None))
    assert totals["letters"] == {"A": {"A": 1, "INVALID": 2}, "B": {"B": 1, "C": 1, "INVALID": 1}}
    assert totals["category_column"] == "category"
    assert totals["categories"] == {
        "(none)": {"n": 1, "correct": 0, "partial": 0},
        "x": {"n": 3, "correct": 1, "partial": 0},
        "y": {"n": 2, "correct": 1, "partial": 0},
    }


def test_scorer_without_validity_goes_by_the_completion() -> None:
    """Refusals and replies without text are invalid for every scorer."""
    status = ["SCORED"] * 6 + ["ERROR", "SCORED"]
    scores = make_scores({"is_correct": [1.0] * 6 + [None, 0.0]}, status=status)
    totals = count_samples(make_samples(), make_completions(), scores, None)
    assert totals["counts"] == list_counts(8, 7, 6, 1, 1, 0, 1)
    assert list(totals["invalid"]) == ["REFUSED"]
    assert (totals["letters"], totals["categories"]) == ({}, {})


def test_failed_rows_are_counted_by_reason() -> None:
    """A failed row is neither valid nor invalid; rows that are all scored fail for no reason."""
    samples = make_samples(["x", "y"])
    totals = count_samples(samples, None, make_failed(["BAD_TRUTH", None]), "category")
    assert totals["counts"]["failed"] == 1
    assert totals["failed"] == list_reasons(BAD_TRUTH=(1, "000001", None))
    scores = make_scores({"is_correct": [1.0, 0.0]}, {"completion_validity": ["VALID", "INVALID"]})
    totals = count_samples(make_samples(["x", "x"]), None, scores)
    assert totals["invalid"] == list_reasons(INVALID=(1, "000002", None))
    assert (totals["failed"], totals["errors"], totals["excluded"]) == ({}, {}, {})
    assert (totals["completion_statuses"], totals["counts"]["invalid"]) == ({"OK": 2}, 1)


@pytest.mark.parametrize(
    ("values", "encoded", "expected"),
    [
        ([0.5, 1.0], [], {"x": {"n": 2, "correct": 1, "partial": 1}}),
        (
            [True, False, 1, 0.0, "yes", None],
            ["is_correct"],
            {"x": {"n": 4, "correct": 2, "partial": 0}},
        ),
        (["yes"], [], {}),
    ],
)
def test_only_values_of_one_are_right_answers(
    values: list[object], encoded: list[str], expected: dict[str, object]
) -> None:
    """A score between 0 and 1 is counted apart, text is neither right nor wrong."""
    scores = make_scores({"is_correct": values}, encoded=encoded)
    totals = count_samples(make_samples(["x"] * len(values)), None, scores, "category")
    assert totals["categories"] == expected


def test_categories_stored_as_json_are_named_by_their_text() -> None:
    """A column of mixed values names its categories without quotation marks.

    Equal names are one category.
    """
    ids = pl.Series(["0", "1", "2"])
    frame = pl.DataFrame({"category": ['"7"', "7", '"law"']})
    samples = samples_from_frame(frame, ids, encoded=frozenset({"category"}))
    scores = make_scores({"is_correct": [True, False, True]})
    totals = count_samples(samples, None, scores, "category")
    assert totals["categories"] == {
        "7": {"n": 2, "correct": 1, "partial": 0},
        "law": {"n": 1, "correct": 1, "partial": 0},
    }


def test_samples_are_counted_by_their_number_of_choices_and_letters() -> None:
    """Rows without a score do not count.

    Choices that are no list, or letters without truths, are nothing.
    """
    choices = [["A", "B"], ["A", "B", "C"], ["A", "B"], None]
    scores = make_scores({"x": [1.0] * 4}, {"choices": choices}, status=["SCORED"] * 3 + ["FAILED"])
    assert count_choices(scores) == {"2": 2, "3": 1}
    assert count_choices(make_scores({"x": [1.0]}, {"choices": [["A", "B"]]})) == {"2": 1}
    assert count_choices(make_scores({"x": [1.0]}, {"choices": ["A|B"]})) == {}
    for name in ("ground_truth_choice", "predicted_choice"):
        assert count_letters(make_scores({"x": [1.0]}, {name: ["A"]})) == {}


def test_completions_that_the_limit_cut_off_are_counted() -> None:
    """Their finish reason is `length`."""
    rows = [Completion("A", finish_reason=why) for why in ("length", "stop", "length")]
    samples = make_samples(["x", "x", "x"])
    completions = Completions.build(samples.ids, rows, source="recorded")
    scores = make_scores({"is_correct": [1.0, 1.0, 1.0]})
    assert count_samples(samples, completions, scores)["cut_off"] == 2
    assert count_samples(samples, None, scores)["cut_off"] == 0


IDS = pl.Series(["a", "b", "c", "d"])


def make_failed(
    reasons: Sequence[str | None], tracebacks: Sequence[str | None] | None = None
) -> Scores:
    """Return scores that are FAILED where there is a reason."""
    statuses = ["SCORED" if reason is None else "FAILED" for reason in reasons]
    kept = tracebacks or [None] * len(reasons)
    scores = make_scores({"x": [1.0] * len(reasons)}, {TRACEBACK_FIELD: kept}, status=statuses)
    return Scores(scores.frame.with_columns(reason=pl.Series(reasons, dtype=pl.String)))


def count(
    ids: pl.Series, verdicts: Mapping[str, Scores], replies: Completions | None = None
) -> dict[str, Any]:
    """Return the counts of these verdicts."""
    return count_verdicts(samples_from_frame(pl.DataFrame({"x": ids}), ids), replies, verdicts)


def list_failures(
    verdicts: Mapping[str, Scores], replies: Completions | None = None
) -> dict[str, dict[str, int]]:
    """Return how often each scorer fails, by reason."""
    counts = {}
    for key, reasons in count(IDS, verdicts, replies)["failures"].items():
        counts[key] = {reason: entry["count"] for reason, entry in reasons.items()}
    return counts


def test_failures_of_every_scorer_are_counted_with_an_example() -> None:
    """Failures of a scorer other than the main one are shown; a scorer without failures is left
    out.
    """
    raised = "SNIPPET_FAILED (raised): KeyError: 'x'"
    second = make_failed([None, raised, None, None], [None, "File 1", None, None])
    bare = make_scores({"x": [1.0]}, {"letter": ["A"]}, status=["FAILED"])
    fails = count(IDS, {"mcqa": make_failed([None] * 4), "own": second})["failures"]
    example: dict[str, str | None] = {"sample_id": "b", "message": raised, "traceback": "File 1"}
    assert fails == {"own": {"SNIPPET_FAILED (raised): KeyError": {"count": 1, "example": example}}}
    example = {"sample_id": "a", "message": "UNKNOWN", "traceback": None}
    fails = count(IDS.head(1), {"mcqa": bare})["failures"]
    assert fails == {"mcqa": {"UNKNOWN": {"count": 1, "example": example}}}


def test_reasons_are_grouped_by_their_common_prefix() -> None:
    """What was raised groups them, not the text that may name a value of the row."""
    slow = "SNIPPET_FAILED (timeout): the snippet took longer than its limit of 10 s"
    raised = [f"SNIPPET_FAILED (raised): KeyError: {key!r}" for key in "xy"]
    result = list_failures({"own": make_failed([*raised, slow, "BAD_TRUTH"])})
    assert result == {"own": {"SNIPPET_FAILED (raised): KeyError": 2, slow: 1, "BAD_TRUTH": 1}}


def test_calls_of_a_scorer_that_failed_are_its_failures() -> None:
    """An ERROR counts where there is a completion; one without is the completion's own."""
    frame = make_failed(["JUDGE_CALL_FAILED", "CALL_FAILED", None, None]).frame
    scores = Scores(frame.with_columns(pl.col("status").replace({"FAILED": "ERROR"})))
    good, failed = Completion("x"), Completion(None, CompletionStatus.ERROR)
    completions = Completions.build(IDS, [good, failed, good, good], source="live")
    assert list_failures({"judge": scores}, completions) == {"judge": {"JUDGE_CALL_FAILED": 1}}
    assert list_failures({"s": make_failed([None] * 4)}) == {}


#: Ours, theirs, our validity reason, what we read, what they read.
ROWS: list[tuple[float | None, float | None, str | None, str | None, str | None]] = [
    (1.0, 1.0, None, "A", "A"),
    (0.0, 0.0, None, "B", "B"),
    (0.0, 1.0, "NOT_A_CHOICE", None, "A"),
    (0.0, 1.0, "NOT_A_CHOICE", None, "A"),
    (0.0, 1.0, None, "B", "A"),
    (0.0, 1.0, None, "B", "B"),
    (1.0, 0.0, None, "A", None),
    (1.0, 0.0, None, "A", "C"),
    (1.0, None, None, "A", None),
    (1.0, 0.5, None, "A", "A"),
    (None, 1.0, None, None, "A"),
]


def make_said(
    theirs: Sequence[float | None], read: Sequence[str | None] | None = None
) -> Completions:
    """Return completions with the verdicts of another tool."""
    ids = pl.Series([f"s{number}" for number in range(len(theirs))], dtype=pl.String)
    texts = pl.Series([f"text {number}" for number in range(len(theirs))], dtype=pl.String)
    columns = [pl.Series("imported_score", theirs, dtype=pl.Float64)]
    columns += [] if read is None else [pl.Series("imported_answer", read, dtype=pl.String)]
    frame = Completions.build_texts(ids, texts, source="recorded").frame
    return Completions.from_frame(frame.with_columns(columns))


def make_tables() -> tuple[pl.Series, Completions, Scores]:
    """Return the tables of `ROWS`."""
    ours, theirs, why, predicted, read = (list(column) for column in zip(*ROWS, strict=True))
    validity = ["INVALID" if reason else "VALID" for reason in why]
    scores = make_scores(
        {"is_correct": ours},
        {"completion_validity": validity, "validity_reason": why, "predicted_choice": predicted},
        status=["FAILED" if our is None else "SCORED" for our in ours],
    )
    replies = make_said(theirs, read)
    return replies.frame["sample_id"], replies, scores


def count_theirs(ids: pl.Series, replies: Completions | None, scores: Scores) -> dict[str, Any]:
    """Return the counts of these verdicts."""
    return count_verdicts(samples_from_frame(pl.DataFrame({"x": ids}), ids), replies, {"m": scores})


def compare(ids: pl.Series, replies: Completions | None, scores: Scores) -> dict[str, Any]:
    """Return how our verdicts compare with the imported ones."""
    result: dict[str, Any] = count_theirs(ids, replies, scores).get("imported", {})
    return result


def test_verdicts_are_compared_where_both_say_right_or_wrong() -> None:
    """What one of them leaves open is counted apart."""
    result = compare(*make_tables())
    assert (result["compared"], result["both_right"], result["both_wrong"]) == (8, 1, 1)
    assert result["not_compared"] == {"NOT_SCORED": 1, "NOT_JUDGED": 1, "PARTLY_RIGHT": 1}
    assert (result["only_imported"], result["only_ours"]) == (4, 2)


def test_missing_verdicts_are_not_compared() -> None:
    """Neither without their column, nor where our scorer does not say right or wrong in numbers."""
    replies = make_said([1.0, 0.0])
    ids = replies.frame["sample_id"]
    plain = Completions.from_frame(replies.frame.drop("imported_score"))
    right = make_scores({"is_correct": [1.0, 0.0]})
    words = make_scores({"is_correct": ["yes", "no"]})
    mixed = make_scores({"is_correct": [1.0, "no"]}, encoded=["is_correct"])
    assert (compare(ids, plain, right), compare(ids, None, right)) == ({}, {})
    for scores in (make_scores({"score": [1.0, 0.0]}), words):
        assert compare(ids, replies, scores) == {}
    counts = compare(ids, replies, mixed)
    assert (counts["both_right"], counts["not_compared"]) == (1, {"NOT_SCORED": 1})


def test_half_right_is_neither_right_nor_wrong() -> None:
    """A score between 0 and 1 is not compared."""
    replies = make_said([0.0, 1.0])
    result = compare(replies.frame["sample_id"], replies, make_scores({"is_correct": [0.0, 0.5]}))
    assert (result["compared"], result["both_wrong"]) == (1, 1)
    assert result["not_compared"] == {"NOT_SCORED": 1}


TRIAL_IDS = ["a", "b", "c", "d"]


def make_samples_of_trials() -> Samples:
    """Return four samples, each twice."""
    frame = pl.DataFrame({"category": ["x", "x", "y", "y"]})
    return samples_from_frame(frame, pl.Series("sample_id", TRIAL_IDS)).repeat(2)


def make_completions_of_trials() -> Completions:
    """Return two trials of each: good, one refused, one failed call, one unclear."""
    refused = Completion(None, CompletionStatus.REFUSED)
    good, failed = Completion("A"), Completion(None, CompletionStatus.ERROR)
    replies = [good, good, refused, good, good, failed, good, Completion("?")]
    ids = [key for key in TRIAL_IDS for _ in range(2)]
    return Completions.build(ids, replies, source="builtin")


def judge() -> Scores:
    """Return the verdicts on them."""
    reasons = [None, None, "REFUSED", None, None, None, None, "NOT_A_CHOICE"]
    validity = ["INVALID" if reason else "VALID" for reason in reasons]
    return make_scores(
        {"is_correct": [1.0, 0.0, 0.0, 1.0, 1.0, None, 1.0, 0.0]},
        {"completion_validity": validity, "validity_reason": reasons},
        status=["SCORED"] * 5 + ["ERROR"] + ["SCORED"] * 2,
    )


def test_a_sample_counts_as_its_worst_trial() -> None:
    """Samples add up.

    A failed call makes an error of the sample, an invalid completion an invalid one. Completions,
    reasons and categories are of trials, which add up, too.
    """
    samples, completions, scores = make_samples_of_trials(), make_completions_of_trials(), judge()
    totals = count_verdicts(samples, completions, {"mcqa": scores}, 2)
    assert totals["counts"] == list_counts(4, 3, 1, 2, 1, 0, 1)
    assert [total["count"] for total in totals["errors"].values()] == [1]
    assert totals["trials"] == {"num_trials": 2, "counts": list_counts(8, 7, 5, 2, 1, 0, 1)}
    assert totals["completion_statuses"] == {"ERROR": 1, "OK": 6, "REFUSED": 1}
    assert totals["categories"]["x"] == {"n": 4, "correct": 2, "partial": 0}


def show_twice(left: list[str | None], extra: list[bool] | None = None) -> Samples:
    """Return two samples, each in two orders and two trials."""
    orders = pl.DataFrame({"base_sample_id": list("aabb")})
    orders = orders.with_columns(not_reordered=pl.Series(left, dtype=pl.String))
    if extra is not None:
        orders = orders.with_columns(is_extra=pl.Series(extra))
    frame = pl.DataFrame({"category": ["x", "x", "y", "y"]})
    return samples_from_frame(frame, pl.Series("sample_id", TRIAL_IDS), orders=orders).repeat(2)


def test_a_sample_counts_as_its_worst_row_in_any_order() -> None:
    """Both samples have an invalid or failed row; the counts of all rows are given, too."""
    samples = show_twice([None, None, "REFERS_TO_LABELS", "REFERS_TO_LABELS"])
    totals = count_verdicts(samples, make_completions_of_trials(), {"mcqa": judge()}, 2)
    assert (totals["counts"]["samples"], totals["counts"]["valid"]) == (2, 0)
    assert (totals["counts"]["invalid"], totals["counts"]["errors"]) == (1, 1)
    assert totals["orders"]["counts"]["samples"] == 8
    assert totals["orders"]["not_reordered"] == {"REFERS_TO_LABELS": 1}
    assert totals["orders"]["extra"] == 0


def test_rows_that_estimate_a_prior_are_counted_apart_unless_their_call_failed() -> None:
    """Of four extra rows one is an error, which must be seen; the others are but a number."""
    samples = show_twice([None] * 4, [False, True, True, False])
    totals = count_verdicts(samples, make_completions_of_trials(), {"mcqa": judge()})
    assert totals["orders"]["extra"] == 3
    assert (totals["orders"]["counts"]["samples"], totals["orders"]["counts"]["errors"]) == (5, 1)


def test_category_column_is_the_first_known_name() -> None:
    """`category` comes before `subject`, whatever their positions."""
    assert find_category_column(["question", "subject", "category"]) == "category"
    assert find_category_column(["topic", "domain"]) == "topic"
    assert find_category_column(["question", "answer"]) is None
