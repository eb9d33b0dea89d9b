from __future__ import annotations

import polars as pl

from answerkey.metrics import count_shard, merge_counts
from answerkey.types import Completion, Completions, CompletionStatus, Samples, Scores

from .conftest import ScoresMaker

IDS = ["a", "b", "c", "d"]


def make_samples() -> Samples:
    """Return four samples, each twice."""
    frame = pl.DataFrame({"category": ["x", "x", "y", "y"]})
    return Samples(frame, pl.Series("sample_id", IDS)).repeat(2)


def make_completions() -> Completions:
    """Return two trials of each: good, one refused, one failed call, one unclear."""
    refused, failed = Completion(None, CompletionStatus.REFUSED), Completion(None, CompletionStatus.ERROR)
    good = Completion("A")
    said = [good, good, refused, good, good, failed, good, Completion("?")]
    return Completions.build([one for one in IDS for _ in range(2)], said, source="builtin")


def judge(make_scores: ScoresMaker) -> Scores:
    """Return the verdicts on them."""
    reasons = [None, None, "REFUSED", None, None, None, None, "NOT_A_CHOICE"]
    return make_scores(
        {"is_correct": [1.0, 0.0, 0.0, 1.0, 1.0, None, 1.0, 0.0]},
        {
            "completion_validity": ["INVALID" if one else "VALID" for one in reasons],
            "validity_reason": reasons,
        },
        status=["SCORED"] * 5 + ["ERROR"] + ["SCORED"] * 2,
    )


def test_a_sample_counts_as_its_worst_trial(make_scores: ScoresMaker) -> None:
    """Samples add up; a failed call makes an error of the sample, an invalid completion an invalid one."""
    tally = count_shard(
        make_samples(), make_completions(), {"mcqa": judge(make_scores)}, main="mcqa", num_trials=2
    )
    assert tally["counts"] == {
        "samples": 4,
        "scored": 3,
        "valid": 1,
        "invalid": 2,
        "refused": 1,
        "failed": 0,
        "errors": 1,
    }
    assert list(tally["errors"].values())[0]["count"] == 1  # noqa: RUF015 - the only one there is


def test_trials_are_counted_beside_them(make_scores: ScoresMaker) -> None:
    """Completions, reasons and categories are of trials, which add up, too."""
    tally = count_shard(
        make_samples(), make_completions(), {"mcqa": judge(make_scores)}, main="mcqa", num_trials=2
    )
    assert tally["trials"]["num_trials"] == 2
    assert tally["trials"]["counts"] == {
        "samples": 8,
        "scored": 7,
        "valid": 5,
        "invalid": 2,
        "refused": 1,
        "failed": 0,
        "errors": 1,
    }
    assert tally["completion_statuses"] == {"ERROR": 1, "OK": 6, "REFUSED": 1}
    assert tally["categories"]["x"] == {"n": 4, "correct": 2, "partial": 0}


def test_shards_merge_to_the_whole(make_scores: ScoresMaker) -> None:
    """Two shards give the tally of all samples."""
    samples, completions, scores = make_samples(), make_completions(), judge(make_scores)
    parts = [
        count_shard(
            samples.slice(start, 4),
            completions.slice(start, 4),
            {"mcqa": Scores(scores.frame.slice(start, 4))},
            main="mcqa",
            num_trials=2,
        )
        for start in (0, 4)
    ]
    whole = count_shard(samples, completions, {"mcqa": scores}, main="mcqa", num_trials=2)
    assert merge_counts(parts) == merge_counts([whole])


def test_samples_asked_once_have_the_plain_tally(make_scores: ScoresMaker) -> None:
    """Without completions, or with one for each sample, nothing is said about trials."""
    scores, samples = judge(make_scores), make_samples()
    bare = count_shard(samples, None, {"mcqa": scores}, main="mcqa", num_trials=2)
    once = count_shard(samples, make_completions(), {"mcqa": scores}, main="mcqa")
    assert ("trials" in bare, "trials" in once) == (False, False)
    assert (bare["counts"]["samples"], once["counts"]["samples"]) == (8, 8)


def show_twice(left: list[str | None], extra: list[bool] | None = None) -> Samples:
    """Return two samples, each in two orders and asked twice."""
    orders = pl.DataFrame(
        {"base_sample_id": list("aabb"), "left_in_place": pl.Series(left, dtype=pl.String)}
        | ({} if extra is None else {"is_extra": extra})
    )
    frame = pl.DataFrame({"category": ["x", "x", "y", "y"]})
    return Samples(frame, pl.Series("sample_id", IDS), orders=orders).repeat(2)


def test_a_sample_counts_as_its_worst_row_in_any_order(make_scores: ScoresMaker) -> None:
    """Both samples have an invalid or failed row; the counts of all rows stand beside them."""
    samples = show_twice([None, None, "REFERS_TO_LABELS", "REFERS_TO_LABELS"])
    tally = count_shard(samples, make_completions(), {"mcqa": judge(make_scores)}, main="mcqa", num_trials=2)
    assert (tally["counts"]["samples"], tally["counts"]["valid"]) == (2, 0)
    assert (tally["counts"]["invalid"], tally["counts"]["errors"]) == (1, 1)
    assert tally["orders"]["counts"]["samples"] == 8
    assert (tally["orders"]["left_in_place"], tally["orders"]["extra"]) == ({"REFERS_TO_LABELS": 1}, 0)
    merged = merge_counts([tally, tally])["orders"]
    assert merged["counts"]["samples"] == 16
    assert (merged["left_in_place"], merged["extra"]) == ({"REFERS_TO_LABELS": 2}, 0)


def test_rows_that_estimate_a_prior_are_counted_apart_unless_their_call_failed(
    make_scores: ScoresMaker,
) -> None:
    """Of four extra rows one is an error, which must be seen; the others are but a number."""
    samples = show_twice([None] * 4, [False, True, True, False])
    tally = count_shard(samples, make_completions(), {"mcqa": judge(make_scores)}, main="mcqa", num_trials=1)
    assert tally["orders"]["extra"] == 3
    assert (tally["orders"]["counts"]["samples"], tally["orders"]["counts"]["errors"]) == (5, 1)
    bare = count_shard(samples, None, {"mcqa": judge(make_scores)}, main="mcqa")
    assert bare["counts"]["samples"] == 5


def test_merged_shards_count_trials_and_orders(make_scores: ScoresMaker) -> None:
    """Numbers of trials, counts of trials, rows left in place and rows that estimate a prior."""
    scores = make_scores({"is_correct": [1.0]})
    samples = Samples(pl.DataFrame(), pl.Series(["1"]))
    shard = count_shard(samples, None, {"s": scores}, main="s")
    counts = dict.fromkeys(shard["counts"], 1)
    told = {
        **shard,
        "trials": {"num_trials": 3, "counts": counts},
        "orders": {"counts": counts, "left_in_place": {"no list": 1}, "extra": 2},
    }
    merged = merge_counts([shard, told, told])
    twice = dict.fromkeys(shard["counts"], 2)
    assert merged["trials"] == {"num_trials": 3, "counts": twice}
    assert merged["orders"] == {"counts": twice, "left_in_place": {"no list": 2}, "extra": 4}
    assert "trials" not in merge_counts([shard])
    assert "orders" not in merge_counts([shard])
