from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import polars as pl
import pytest

from answerkey.metrics import find_category_column, merge_counts
from answerkey.metrics.task_counts import count_choices, count_letters, count_rows
from answerkey.types import Completion, Completions, CompletionStatus, Samples, Scores

MakeScores = Callable[..., Scores]

TEXTS = ["A", "b " * 150, "B", "maybe", None, "C", None, "A"]
STATUSES = ["OK", "OK", "OK", "OK", "REFUSED", "OK", "ERROR", "OK"]


def make_samples(category: Sequence[object] = ("x", "x", "y", "y", "x", None, "y", "x")) -> Samples:
    """Return eight samples with a category."""
    ids = pl.Series([f"{number:06d}" for number in range(1, len(category) + 1)])
    return Samples(pl.DataFrame({"category": list(category)}), ids)


def make_completions() -> Completions:
    """Return eight completions; the fifth is a refusal, the seventh an error."""
    rows = [Completion(text, CompletionStatus(status)) for text, status in zip(TEXTS, STATUSES, strict=True)]
    return Completions.build(make_samples().ids, rows, source="recorded")


def make_mcqa_scores(make_scores: MakeScores) -> Scores:
    """Return their scores: three invalid, one valid and wrong, one error, one excluded by an action."""
    return make_scores(
        {"is_correct": [1.0, 0.0, 1.0, 0.0, 0.0, 0.0, None, 1.0]},
        {
            "completion_validity": [
                "VALID",
                "INVALID",
                "VALID",
                "INVALID",
                "INVALID",
                "VALID",
                None,
                "VALID",
            ],
            "validity_reason": [None, "NOT_A_CHOICE", None, "NOT_A_CHOICE", "REFUSED", None, None, None],
            "predicted_choice": ["A", None, "B", None, None, "C", None, "A"],
            "ground_truth_choice": ["A", "A", "B", "B", "A", "B", None, "A"],
        },
        status=["SCORED"] * 6 + ["ERROR", "SCORED"],
        excluded_by=[None] * 7 + ["repeated"],
    )


def test_counts_add_up(make_scores: MakeScores) -> None:
    """Scored, failed and errors are all samples; valid and invalid are all scored ones."""
    tally = count_rows(make_samples(), make_completions(), make_mcqa_scores(make_scores), "category")
    assert tally["counts"] == {
        "samples": 8,
        "scored": 7,
        "valid": 4,
        "invalid": 3,
        "refused": 1,
        "failed": 0,
        "errors": 1,
    }
    assert tally["completion_statuses"] == {"ERROR": 1, "OK": 6, "REFUSED": 1}
    assert tally["excluded"] == {"repeated": 1}


def test_reasons_carry_the_first_example(make_scores: MakeScores) -> None:
    """Each reason shows its first sample and at most 200 characters of its completion."""
    tally = count_rows(make_samples(), make_completions(), make_mcqa_scores(make_scores), "category")
    assert tally["invalid"] == {
        "NOT_A_CHOICE": {"count": 2, "example": {"sample_id": "000002", "completion": "b " * 100}},
        "REFUSED": {"count": 1, "example": {"sample_id": "000005", "completion": None}},
    }
    assert tally["errors"] == {
        "UNKNOWN": {"count": 1, "example": {"sample_id": "000007", "completion": None}}
    }


def test_letters_and_categories_cover_what_the_metrics_see(make_scores: MakeScores) -> None:
    """A sample that an action excludes is in neither; a missing category has a name."""
    tally = count_rows(make_samples(), make_completions(), make_mcqa_scores(make_scores), "category")
    assert tally["letters"] == {"A": {"A": 1, "INVALID": 2}, "B": {"B": 1, "C": 1, "INVALID": 1}}
    assert tally["category_column"] == "category"
    assert tally["categories"] == {
        "(none)": {"n": 1, "correct": 0, "partial": 0},
        "x": {"n": 3, "correct": 1, "partial": 0},
        "y": {"n": 2, "correct": 1, "partial": 0},
    }


def test_scorer_without_validity_goes_by_the_completion(make_scores: MakeScores) -> None:
    """Refusals and replies without text are invalid for every scorer."""
    scores = make_scores({"is_correct": [1.0] * 6 + [None, 0.0]}, status=["SCORED"] * 6 + ["ERROR", "SCORED"])
    tally = count_rows(make_samples(), make_completions(), scores, None)
    assert (tally["counts"]["valid"], tally["counts"]["invalid"], tally["counts"]["refused"]) == (6, 1, 1)
    assert list(tally["invalid"]) == ["REFUSED"]
    assert (tally["letters"], tally["categories"]) == ({}, {})


def test_failed_rows_are_counted_by_reason(make_scores: MakeScores) -> None:
    """A failed row is neither valid nor invalid."""
    scores = make_scores({"is_correct": [None, 1.0]}, status=["FAILED", "SCORED"])
    scores = Scores(scores.frame.with_columns(reason=pl.Series(["BAD_TRUTH", None])))
    tally = count_rows(make_samples(["x", "y"]), None, scores, "category")
    assert tally["counts"]["failed"] == 1
    assert tally["failed"]["BAD_TRUTH"]["example"] == {"sample_id": "000001", "completion": None}
    assert list(tally["categories"]) == ["y"]


def test_partial_credit_is_counted_apart(make_scores: MakeScores) -> None:
    """A score between 0 and 1 is no right answer, and the tally says that there are such scores."""
    scores = make_scores({"is_correct": [0.5, 1.0]})
    tally = count_rows(make_samples(["x", "x"]), None, scores, "category")
    assert tally["categories"] == {"x": {"n": 2, "correct": 1, "partial": 1}}


def test_mixed_scores_count_like_others(make_scores: MakeScores) -> None:
    """Right answers of a scorer that mixes booleans, numbers and text are those equal to 1."""
    scores = make_scores({"is_correct": [True, 1, 0.0, "yes", None]}, encoded=["is_correct"])
    tally = count_rows(make_samples(["x"] * 5), None, scores, "category")
    assert tally["categories"] == {"x": {"n": 3, "correct": 2, "partial": 0}}


def test_scores_of_text_have_no_categories(make_scores: MakeScores) -> None:
    """Text is neither right nor wrong."""
    tally = count_rows(make_samples(["x"]), None, make_scores({"is_correct": ["yes"]}), "category")
    assert tally["categories"] == {}


def test_categories_stored_as_json_are_named_by_their_text(make_scores: MakeScores) -> None:
    """A column of mixed values names its categories without quotation marks; equal names are one category."""
    samples = make_samples(['"7"', "7", '"law"'])
    samples = Samples(samples.frame, samples.ids, encoded=frozenset({"category"}))
    tally = count_rows(samples, None, make_scores({"is_correct": [True, False, True]}), "category")
    assert tally["categories"] == {
        "7": {"n": 2, "correct": 1, "partial": 0},
        "law": {"n": 1, "correct": 1, "partial": 0},
    }


@pytest.mark.parametrize("cut", [1, 3, 5, 7])
def test_merged_shards_are_the_whole(cut: int, make_scores: MakeScores) -> None:
    """However the rows are sharded, the tally is the same, with the same first examples in the same order."""
    samples, completions, scores = make_samples(), make_completions(), make_mcqa_scores(make_scores)
    shards = [
        count_rows(
            samples.slice(start, length),
            completions.slice(start, length),
            Scores(scores.frame.slice(start, length)),
            "category",
        )
        for start, length in ((0, cut), (cut, 8 - cut))
    ]
    whole = count_rows(samples, completions, scores, "category")
    assert json.dumps(merge_counts(shards)) == json.dumps(merge_counts([whole]))


def test_merging_leaves_the_shards_alone(make_scores: MakeScores) -> None:
    """Merging twice gives the same tally."""
    shard = count_rows(make_samples(), make_completions(), make_mcqa_scores(make_scores), "category")
    assert merge_counts([shard, shard]) == merge_counts([shard, shard])
    assert shard["invalid"]["REFUSED"]["count"] == 1


def test_no_shards_are_an_empty_tally() -> None:
    """Without samples every count is 0."""
    tally = merge_counts([])
    assert set(tally["counts"].values()) == {0}
    assert tally["category_column"] is None


def test_category_column_is_the_first_known_name() -> None:
    """`category` comes before `subject`, wherever they stand."""
    assert find_category_column(["question", "subject", "category"]) == "category"
    assert find_category_column(["topic", "domain"]) == "topic"
    assert find_category_column(["question", "answer"]) is None


def test_samples_are_counted_by_their_number_of_choices(make_scores: MakeScores) -> None:
    """Rows without a score do not count; choices that are no list are not counted at all."""
    choices = [["A", "B"], ["A", "B", "C"], ["A", "B"], None]
    scores = make_scores({"x": [1.0] * 4}, {"choices": choices}, status=["SCORED"] * 3 + ["FAILED"])
    assert count_choices(scores) == {"2": 2, "3": 1}
    assert count_choices(make_scores({"x": [1.0]}, {"choices": [["A", "B"]]})) == {"2": 1}
    assert count_choices(make_scores({"x": [1.0]}, {"choices": ["A|B"]})) == {}


def test_merged_reasons_add_up_and_keep_the_first_example(make_scores: MakeScores) -> None:
    """Of two shards that have the same reason the first one's example stays."""
    shard = count_rows(make_samples(), make_completions(), make_mcqa_scores(make_scores), "category")
    later = count_rows(
        Samples(make_samples().frame, pl.Series([f"later {number}" for number in range(8)])),
        make_completions(),
        make_mcqa_scores(make_scores),
        "category",
    )
    merged = merge_counts([shard, later])
    assert merged["invalid"] == {
        "NOT_A_CHOICE": {"count": 4, "example": {"sample_id": "000002", "completion": "b " * 100}},
        "REFUSED": {"count": 2, "example": {"sample_id": "000005", "completion": None}},
    }
    assert merged["errors"] == {
        "UNKNOWN": {"count": 2, "example": {"sample_id": "000007", "completion": None}}
    }
    assert merged["failed"] == {}
    assert merged["counts"]["samples"] == 16
    assert merged["completion_statuses"] == {"ERROR": 2, "OK": 12, "REFUSED": 2}
    assert merged["excluded"] == {"repeated": 2}
    assert merged["letters"] == {"A": {"A": 2, "INVALID": 4}, "B": {"B": 2, "C": 2, "INVALID": 2}}
    assert merged["categories"]["x"] == {"n": 6, "correct": 2, "partial": 0}
    assert (merged["category_column"], merged["choice_counts"], merged["readings"]) == ("category", {}, {})
    assert (merged["failures"], "theirs" in merged) == ({}, False)


def test_the_first_category_column_of_any_shard_counts(make_scores: MakeScores) -> None:
    """A shard without one does not hide it."""
    shards = [
        count_rows(make_samples(["x"]), None, make_scores({"is_correct": [1.0]}), column)
        for column in (None, "category")
    ]
    assert merge_counts(shards)["category_column"] == "category"


def test_what_shards_tell_besides_is_merged(make_scores: MakeScores) -> None:
    """Readings, numbers of choices, failures and the verdicts of others."""
    shard = count_rows(make_samples(["x"]), None, make_scores({"is_correct": [1.0]}), None)
    side = {"count": 1, "reasons": {"READ_ALIKE": {"count": 1, "example": {}}}}
    theirs = {"compared": 2, "both_right": 1, "both_wrong": 0, "only_theirs": side, "only_ours": side}
    told = {
        **shard,
        "choice_counts": {"4": 1},
        "readings": {"n": 1, "leading_label": {"correct": 1, "invalid": 0}},
        "failures": {"s": {"R": {"count": 1, "example": {"sample_id": "1"}}}},
        "theirs": {**theirs, "not_compared": {"NOT_JUDGED": 1}},
    }
    merged = merge_counts([told, told])
    assert merged["choice_counts"] == {"4": 2}
    assert merged["readings"] == {"leading_label": {"correct": 2, "invalid": 0}, "n": 2}
    assert merged["failures"]["s"]["R"]["count"] == 2
    assert merged["theirs"]["compared"] == 4


def test_completions_that_the_limit_cut_off_are_counted(make_scores: MakeScores) -> None:
    """Their finish reason is `length`."""
    rows = [Completion("A", CompletionStatus.OK, finish_reason=why) for why in ("length", "stop", "length")]
    samples = make_samples(["x", "x", "x"])
    completions = Completions.build(samples.ids, rows, source="recorded")
    scores = make_scores({"is_correct": [1.0, 1.0, 1.0]})
    assert count_rows(samples, completions, scores)["cut_off"] == 2
    assert count_rows(samples, None, scores)["cut_off"] == 0


def test_letters_need_truths_and_predictions(make_scores: MakeScores) -> None:
    """One without the other says nothing."""
    for name in ("ground_truth_choice", "predicted_choice"):
        assert count_letters(make_scores({"x": [1.0]}, {name: ["A"]})) == {}


def test_reasons_of_no_row_are_none(make_scores: MakeScores) -> None:
    """Rows that are all scored fail for no reason, even where one is stated."""
    scores = make_scores({"is_correct": [1.0, 0.0]}, {"completion_validity": ["VALID", "INVALID"]})
    tally = count_rows(make_samples(["x", "x"]), None, scores)
    assert tally["invalid"] == {
        "INVALID": {"count": 1, "example": {"sample_id": "000002", "completion": None}}
    }
    assert (tally["failed"], tally["errors"], tally["excluded"]) == ({}, {}, {})
    assert (tally["completion_statuses"], tally["counts"]["invalid"]) == ({}, 1)
