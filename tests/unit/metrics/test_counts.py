from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from answerkey.errors import ScoringError
from answerkey.metrics import Metric, wilson
from answerkey.metrics.classification import F1Score, Precision, Recall
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
    assert several.interval_method == "ratio_wilson"


def test_counts_within_a_sample_belong_together(make_scores: MakeScores, compute: Compute) -> None:
    """The standard error is that of a ratio of sums over samples: √(n/(n-1) · Σ(TP - R(TP + FP))²) / Σ."""
    scores = make_scores({"tp": [3, 1, 0, 2], "fp": [1, 0, 2, 1]})
    value = compute(Precision("tp", "fp"), scores)["precision"]
    residuals = [3 - 0.6 * 4, 1 - 0.6, 0 - 0.6 * 2, 2 - 0.6 * 3]
    expected = math.sqrt(4 / 3 * sum(one**2 for one in residuals)) / 10
    assert value.value == 0.6
    assert value.std_error == pytest.approx(expected, rel=1e-15)
    assert value.interval is not None
    assert 0 < value.interval[0] < 0.6 < value.interval[1] < 1


def test_f1_of_single_outcomes_has_the_interval_of_its_hits(
    make_scores: MakeScores, compute: Compute
) -> None:
    """Of hits, false alarms and misses, hits are a share J with a Wilson interval, and F1 is 2J/(1+J)."""
    scores = make_scores({"tp": [1, 1, 0, 0], "fp": [0, 0, 1, 0], "fn": [0, 0, 0, 1]})
    value = compute(F1Score("tp", "fp", "fn"), scores)["f1_score"]
    low, high = wilson(2, 4)
    assert (value.value, value.interval_method) == (2 / 3, "wilson")
    assert value.interval == (2 * low / (1 + low), 2 * high / (1 + high))


def test_without_spread_there_is_no_interval(make_scores: MakeScores, compute: Compute) -> None:
    """Samples that are all alike say nothing of the next one, and the note says so."""
    value = compute(Precision("tp", "fp"), make_scores({"tp": [2, 2], "fp": [0, 0]}))["precision"]
    assert (value.value, value.interval) == (1.0, None)
    assert "all samples are alike" in str(value.interval_note)


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


def test_samples_that_are_all_left_out_give_no_value(make_scores: MakeScores, compute: Compute) -> None:
    """Where every count is missing, there is no share and no 0."""
    scores = make_scores({"tp": [None, 1], "fp": [1, None]}, status=["SCORED", "FAILED"])
    value = compute(Precision("tp", "fp"), scores)["precision"]
    assert (value.value, value.n, value.note) == (None, 0, "no sample counts towards it")
    assert dict(value.n_excluded) == {"failed": 1, "null": 1}


def test_sums_begin_at_nothing(make_scores: MakeScores) -> None:
    """Counts, their squares and their products, exact: two hits and one miss, then one hit."""
    part = Precision("tp", "fp").measure(make_scores({"tp": [2, 1], "fp": [1, 0]}))
    unit = 1 << 1074
    assert (part["hits"], part["misses"]) == (3 * unit, unit)
    squares = (part["hit_squares"], part["products"], part["miss_squares"])
    assert squares == (5 * unit**2, 2 * unit**2, unit**2)
    assert (part["negative"], part["clustered"], part["n"]) == (0, 1, 2)
