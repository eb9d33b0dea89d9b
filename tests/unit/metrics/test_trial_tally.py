from __future__ import annotations

import polars as pl

from answerkey.metrics import merge_tallies, tally_shard
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
    tally = tally_shard(
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
    tally = tally_shard(
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
        tally_shard(
            samples.slice(start, 4),
            completions.slice(start, 4),
            {"mcqa": Scores(scores.frame.slice(start, 4))},
            main="mcqa",
            num_trials=2,
        )
        for start in (0, 4)
    ]
    whole = tally_shard(samples, completions, {"mcqa": scores}, main="mcqa", num_trials=2)
    assert merge_tallies(parts) == merge_tallies([whole])
