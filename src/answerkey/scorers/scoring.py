"""Scoring with some rows left out: those that the dataset got wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from answerkey.scorers.base import Scorer
from answerkey.scorers.model_judge import AskingScorer
from answerkey.scorers.ordered_rows import note_orders
from answerkey.types import Completions, Samples, Scores

#: Why a row that the dataset got wrong has no score.
BAD_ROW = "BAD_ROW"


def score_rows(scorer: Scorer, samples: Samples, completions: Completions, failed: Sequence[int]) -> Scores:
    """Return a scorer's verdicts with these rows FAILED; nobody is asked about a row that is."""
    if not failed or not isinstance(scorer, AskingScorer):
        return note_orders(scorer.score(samples, completions).fail(failed, BAD_ROW), samples)
    left_out = set(failed)
    rows = [row for row in range(len(samples)) if row not in left_out]
    scores = scorer.score(samples.take(rows), completions.take(rows))
    return note_orders(scores.spread(rows, len(samples), BAD_ROW), samples)


def join_scores(completions: Completions, scores: Mapping[str, Scores]) -> pl.DataFrame:
    """Return the stored form of a shard's scores: `sample_id`, `trial`, then one struct per scorer key."""
    tables = [completions.frame.select("sample_id", "trial")]
    tables += [pl.DataFrame([one.frame.to_struct(key)]) for key, one in scores.items()]
    return pl.concat(tables, how="horizontal")
