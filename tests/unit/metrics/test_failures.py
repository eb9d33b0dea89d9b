from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from answerkey.metrics import count_shard, merge_counts
from answerkey.types import TRACEBACK_FIELD, Completion, Completions, CompletionStatus, Samples, Scores

IDS = pl.Series(["a", "b", "c", "d"])


def make_scores(reasons: list[str | None], tracebacks: list[str | None] | None = None) -> Scores:
    """Return scores that are FAILED where there is a reason."""
    kept = tracebacks or [None] * len(reasons)
    return Scores(
        pl.DataFrame(
            {
                "status": ["SCORED" if reason is None else "FAILED" for reason in reasons],
                "reason": pl.Series(reasons, dtype=pl.String),
                "values": [{"x": 1.0}] * len(reasons),
                "metadata": [{TRACEBACK_FIELD: text} for text in kept],
                "excluded_by": pl.Series([None] * len(reasons), dtype=pl.String),
            },
            schema_overrides={"metadata": pl.Struct({TRACEBACK_FIELD: pl.String})},
        )
    )


def count(ids: pl.Series, verdicts: Mapping[str, Scores], said: Completions | None = None) -> dict[str, Any]:
    """Return the counts of these verdicts."""
    samples = Samples(pl.DataFrame({"x": ids}), ids)
    return count_shard(samples, said, verdicts, main=next(iter(verdicts)))


def test_failures_of_every_scorer_are_counted_with_an_example() -> None:
    """A scorer beside the main one does not fail unseen; one that does not fail is left out."""
    own = make_scores(
        [None, "SNIPPET_FAILED (raised): KeyError: 'x'", None, None], [None, "File 1", None, None]
    )
    found = count(IDS, {"mcqa": make_scores([None] * 4), "own": own})["failures"]
    example = {"sample_id": "b", "message": "SNIPPET_FAILED (raised): KeyError: 'x'", "traceback": "File 1"}
    assert found == {"own": {"SNIPPET_FAILED (raised): KeyError": {"count": 1, "example": example}}}


def test_reasons_are_grouped_by_what_they_have_in_common() -> None:
    """What was raised groups them, not the text that may name a value of the row."""
    reasons: list[str | None] = [
        "SNIPPET_FAILED (raised): KeyError: 'x'",
        "SNIPPET_FAILED (raised): KeyError: 'y'",
        "SNIPPET_FAILED (timeout): the snippet took longer than its limit of 10 s",
        "BAD_TRUTH",
    ]
    found = count(IDS, {"own": make_scores(reasons)})["failures"]
    assert {reason: one["count"] for reason, one in found["own"].items()} == {
        "SNIPPET_FAILED (raised): KeyError": 2,
        "SNIPPET_FAILED (timeout): the snippet took longer than its limit of 10 s": 1,
        "BAD_TRUTH": 1,
    }


def test_scorer_without_tracebacks_has_none_in_its_example() -> None:
    """Scorers that run no code have nothing to show but the reason."""
    scores = make_scores(["BAD_TRUTH"])
    bare = Scores(scores.frame.with_columns(metadata=pl.struct(letter=pl.lit("A"))))
    example = {"sample_id": "a", "message": "BAD_TRUTH", "traceback": None}
    assert count(IDS.head(1), {"mcqa": bare})["failures"] == {
        "mcqa": {"BAD_TRUTH": {"count": 1, "example": example}}
    }


def test_shards_merge_to_the_whole() -> None:
    """However the rows were sharded: the same counts, the same first examples, in the same order."""
    reasons = ["BAD_TRUTH", None, "BAD_CHOICES", "BAD_TRUTH"]
    whole = count(IDS, {"one": make_scores(reasons)})
    parts = [count(IDS[i : i + 1], {"one": make_scores(reasons[i : i + 1])}) for i in range(4)]
    assert json.dumps(merge_counts(parts)) == json.dumps(merge_counts([whole]))


def test_calls_of_a_scorer_that_failed_are_its_failures() -> None:
    """An ERROR counts where there is a completion; one without is the completion's own."""
    frame = make_scores(["JUDGE_CALL_FAILED", "CALL_FAILED", None, None]).frame
    scores = Scores(frame.with_columns(pl.col("status").replace({"FAILED": "ERROR"})))
    said = [Completion("x"), Completion(None, CompletionStatus.ERROR), Completion("y"), Completion("z")]
    completions = Completions.build(IDS, said, source="live")
    found = count(IDS, {"judge": scores}, completions)["failures"]
    assert {reason: one["count"] for reason, one in found["judge"].items()} == {"JUDGE_CALL_FAILED": 1}


def test_a_scorer_without_failures_has_none() -> None:
    """Scored rows, and calls that failed before the scorer had anything to judge."""
    ids = pl.Series(["1", "2"])
    assert count(ids, {"s": make_scores([None, None])})["failures"] == {}
