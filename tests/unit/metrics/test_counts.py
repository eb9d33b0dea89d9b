from __future__ import annotations

from collections.abc import Callable

import pytest

from answerkey.errors import ScoringError
from answerkey.metrics import F1Score, Metric, Precision, Recall
from answerkey.types import MetricValue, Scores

MakeScores = Callable[..., Scores]
Compute = Callable[[Metric, Scores], dict[str, MetricValue]]


def test_counts_are_summed_before_they_are_divided(make_scores: MakeScores, compute: Compute) -> None:
    """Two samples with 3 TP, 1 FP, 2 FN in all: 3/4, 3/5, 6/9."""
    scores = make_scores({"tp": [2, 1], "fp": [1, 0], "fn": [0, 2]})
    assert compute(Precision("tp", "fp"), scores)["precision"].value == 0.75
    assert compute(Recall("tp", "fn"), scores)["recall"].value == 0.6
    assert compute(F1Score("tp", "fp", "fn"), scores)["f1_score"].value == 6 / 9


def test_counts_of_one_outcome_per_sample_have_an_interval(make_scores: MakeScores, compute: Compute) -> None:
    """Only where every sample adds at most one outcome the ratio is a share of independent samples."""
    single = compute(Precision("tp", "fp"), make_scores({"tp": [1, 0, 0], "fp": [0, 1, 0]}))["precision"]
    assert (single.value, single.n, single.interval_method) == (0.5, 3, "wilson")
    assert single.details == {"count": 1, "of": 2}
    several = compute(Precision("tp", "fp"), make_scores({"tp": [1, 1], "fp": [1, 0]}))["precision"]
    assert several.interval is None


def test_f1_has_no_interval(make_scores: MakeScores, compute: Compute) -> None:
    """F1 is no share of samples."""
    assert (
        compute(F1Score("tp", "fp", "fn"), make_scores({"tp": [1], "fp": [0], "fn": [0]}))[
            "f1_score"
        ].interval
        is None
    )


@pytest.mark.parametrize("metric", [Precision("a", "b"), Recall("a", "b"), F1Score("a", "b", "b")])
def test_nothing_of_nothing_is_none(metric: Metric, make_scores: MakeScores, compute: Compute) -> None:
    """0/0 is no value, and the note says so."""
    value = compute(metric, make_scores({"a": [0, 0], "b": [0, 0]}))[metric.type]
    assert (value.value, value.n) == (None, 2)
    assert value.note is not None
    assert value.note.startswith("0/0: ")


def test_sample_with_a_missing_count_is_left_out(make_scores: MakeScores, compute: Compute) -> None:
    """Half a sample does not count."""
    value = compute(Recall("tp", "fn", name="Found"), make_scores({"tp": [1, 5], "fn": [1, None]}))["Found"]
    assert (value.value, value.n, value.n_excluded) == (0.5, 1, {"null": 1})


def test_negative_counts_are_an_error(make_scores: MakeScores, compute: Compute) -> None:
    """A count below 0 is a mistake of the scorer, and the number would be wrong."""
    with pytest.raises(ScoringError, match="negative ones in 1 sample"):
        compute(Precision("tp", "fp"), make_scores({"tp": [1], "fp": [-1]}))
