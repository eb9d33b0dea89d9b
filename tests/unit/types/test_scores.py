"""Laws of the table of verdicts."""

from __future__ import annotations

import polars as pl

from answerkey.scorers import build_table
from answerkey.types import Score, Scores, ScoreStatus


def make_scores(values: list[float]) -> Scores:
    """Return a table in which everything is scored."""
    scores = []
    for value in values:
        metadata = {"twice": 2 * value}
        scores.append(Score(ScoreStatus.SCORED, values={"score": value}, metadata=metadata))
    return build_table(scores, {"score": pl.Float64()}, {"twice": pl.Float64()})


def test_rows_that_are_left_out_are_failed_with_all_fields() -> None:
    """Each is FAILED for the reason, without values."""
    missing = Score(ScoreStatus.FAILED, "BAD_ROW", {"score": None}, {"twice": None})
    assert list(make_scores([0.5]).fail_all(2, "BAD_ROW").rows()) == [missing, missing]
    assert list(make_scores([]).fail_all(1, "BAD_ROW").rows()) == [missing]


def test_value_comes_before_metadata_of_the_same_name() -> None:
    """A field is found by its name: a value, else metadata, else nothing.

    Of a null struct it is null.
    """
    scores = make_scores([0.5])
    assert scores.column("twice").to_list() == [1.0]  # type: ignore[union-attr]
    assert scores.column("thrice") is None
    assert scores.column("_") is None
    gap = pl.DataFrame(
        {"values": [{"score": 1.0}, None], "metadata": [{"score": "x"}, {"score": "y"}]}
    )
    assert Scores(gap).column("score").to_list() == [1.0, None]  # type: ignore[union-attr]
