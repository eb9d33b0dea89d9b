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


def test_spread_table_has_failed_rows_between() -> None:
    """Rows stand where they belong.

    Those between are FAILED, without values and with all fields.
    """
    spread = make_scores([0.5, 1.0]).spread([0, 2], 4, "BAD_ROW")
    missing = Score(ScoreStatus.FAILED, "BAD_ROW", {"score": None}, {"twice": None})
    low = Score(ScoreStatus.SCORED, None, {"score": 0.5}, {"twice": 1.0})
    high = Score(ScoreStatus.SCORED, None, {"score": 1.0}, {"twice": 2.0})
    assert list(spread.rows()) == [low, missing, high, missing]
    assert (spread.count(ScoreStatus.SCORED), spread.count(ScoreStatus.FAILED)) == (2, 2)


def test_value_comes_before_metadata_of_the_same_name() -> None:
    """A field is found by its name: a value, else metadata, else nothing.

    Of a null struct it is null.
    """
    scores = make_scores([0.5])
    assert scores.column("twice").to_list() == [1.0]  # type: ignore[union-attr]
    assert scores.column("thrice") is None
    assert scores.column("_") is None
    metadata = [{"score": "x"}, {"score": "y"}]
    gap = pl.DataFrame({"values": [{"score": 1.0}, None], "metadata": metadata})
    assert Scores(gap).column("score").to_list() == [1.0, None]  # type: ignore[union-attr]
