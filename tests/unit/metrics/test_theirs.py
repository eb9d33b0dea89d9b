from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pytest

from answerkey.metrics import count_shard, merge_counts
from answerkey.types import Completions, Samples, Scores

ScoresMaker = Callable[..., Scores]

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


def make_said(theirs: Sequence[float | None], read: Sequence[str | None] | None = None) -> Completions:
    """Return completions that somebody else has judged."""
    ids = pl.Series([f"s{number}" for number in range(len(theirs))], dtype=pl.String)
    texts = pl.Series([f"text {number}" for number in range(len(theirs))], dtype=pl.String)
    told = [pl.Series("their_score", theirs, dtype=pl.Float64)]
    told += [] if read is None else [pl.Series("their_answer", read, dtype=pl.String)]
    return Completions(Completions.build_texts(ids, texts, source="recorded").frame.with_columns(told))


def make_tables(make_scores: ScoresMaker) -> tuple[pl.Series, Completions, Scores]:
    """Return the tables of `ROWS`."""
    ours, theirs, why, predicted, read = (list(column) for column in zip(*ROWS, strict=True))
    validity = ["INVALID" if reason else "VALID" for reason in why]
    scores = make_scores(
        {"is_correct": ours},
        {"completion_validity": validity, "validity_reason": why, "predicted_choice": predicted},
        status=["FAILED" if one is None else "SCORED" for one in ours],
    )
    said = make_said(
        [None if one is None else float(str(one)) for one in theirs], [one and str(one) for one in read]
    )
    return said.frame["sample_id"], said, scores


def count(ids: pl.Series, said: Completions | None, scores: Scores) -> dict[str, Any]:
    """Return the counts of these verdicts."""
    return count_shard(Samples(pl.DataFrame({"x": ids}), ids), said, {"m": scores}, main="m")


def compare(ids: pl.Series, said: Completions | None, scores: Scores) -> dict[str, Any]:
    """Return how our verdicts compare with the imported ones."""
    found: dict[str, Any] = count(ids, said, scores)["theirs"]
    return found


def test_verdicts_are_compared_where_both_say_right_or_wrong(make_scores: ScoresMaker) -> None:
    """What one of them leaves open is counted apart."""
    found = compare(*make_tables(make_scores))
    assert (found["compared"], found["both_right"], found["both_wrong"]) == (8, 1, 1)
    assert (found["only_theirs"]["count"], found["only_ours"]["count"]) == (4, 2)
    assert found["not_compared"] == {"NOT_SCORED": 1, "NOT_JUDGED": 1, "PARTLY_RIGHT": 1}


def test_differences_have_reasons_and_a_first_example(make_scores: ScoresMaker) -> None:
    """Why our scorer took no answer, or what was read."""
    found = compare(*make_tables(make_scores))
    counts = {
        side: {reason: one["count"] for reason, one in found[side]["reasons"].items()}
        for side in ("only_theirs", "only_ours")
    }
    assert counts == {
        "only_theirs": {"NOT_A_CHOICE": 2, "READ_ANOTHER": 1, "READ_ALIKE": 1},
        "only_ours": {"THEY_READ_NOTHING": 1, "READ_ANOTHER": 1},
    }
    assert found["only_theirs"]["reasons"]["NOT_A_CHOICE"]["example"] == {
        "sample_id": "s2",
        "completion": "text 2",
        "predicted_choice": None,
        "their_answer": "A",
    }


@pytest.mark.parametrize("cut", [1, 3, 7])
def test_shards_say_together_what_the_whole_says(make_scores: ScoresMaker, cut: int) -> None:
    """Counts add up, and the first example stays."""
    ids, said, scores = make_tables(make_scores)
    parts = []
    for offset, length in ((0, cut), (cut, len(ROWS) - cut)):
        part = Scores(scores.frame.slice(offset, length))
        parts.append(count(ids.slice(offset, length), said.slice(offset, length), part))
    assert merge_counts(parts)["theirs"] == compare(ids, said, scores)


def test_where_nobody_else_has_judged_there_is_nothing_to_compare(make_scores: ScoresMaker) -> None:
    """Neither without their column, nor where our scorer does not say right or wrong."""
    said = make_said([1.0])
    plain = Completions(said.frame.drop("their_score"))
    assert compare(said.frame["sample_id"], plain, make_scores({"is_correct": [1.0]})) == {}
    assert compare(said.frame["sample_id"], said, make_scores({"score": [1.0]})) == {}
    assert compare(said.frame["sample_id"], None, make_scores({"is_correct": [1.0]})) == {}
    bare = count(said.frame["sample_id"], plain, make_scores({"is_correct": [1.0]}))
    assert "theirs" not in merge_counts([bare, bare])


def test_their_answers_need_not_be_known(make_scores: ScoresMaker) -> None:
    """Then nothing is said about what they read."""
    said = make_said([0.0, 1.0])
    scores = make_scores({"is_correct": [1.0, 0.0]})
    found = compare(said.frame["sample_id"], said, scores)
    assert list(found["only_ours"]["reasons"]) == ["THEY_READ_NOTHING"]
    assert list(found["only_theirs"]["reasons"]) == ["READ_ANOTHER"]


def test_values_that_are_no_numbers_are_not_compared(make_scores: ScoresMaker) -> None:
    """A scorer that says `is_correct` in words, or in words and numbers, says nothing of right or wrong."""
    said = make_said([1.0, 0.0])
    words = make_scores({"is_correct": ["yes", "no"]})
    mixed = make_scores({"is_correct": [1.0, "no"]}, encoded=["is_correct"])
    assert compare(said.frame["sample_id"], said, words) == {}
    assert compare(said.frame["sample_id"], said, mixed) == {}


def test_partly_right_scores_of_ours_are_not_compared(make_scores: ScoresMaker) -> None:
    """Half right is neither right nor wrong, whatever the other says."""
    said = make_said([1.0, 0.0])
    found = compare(said.frame["sample_id"], said, make_scores({"is_correct": [0.5, 0.0]}))
    assert (found["compared"], found["both_wrong"], found["not_compared"]) == (1, 1, {"NOT_SCORED": 1})
