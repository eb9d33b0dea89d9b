from __future__ import annotations

from answerkey.metrics import Aggregator, ScoreAggregator, Trials, aggregate_scores
from answerkey.metrics.trials import holds_shares

from .conftest import ScoresMaker

TWO = Trials(2)
RICH = Trials(
    3,
    (
        ScoreAggregator("is_correct", Aggregator("pass@k", 2)),
        ScoreAggregator("is_correct", Aggregator("mean")),
    ),
)


def test_values_become_their_mean(make_scores: ScoresMaker) -> None:
    """Without an aggregator a value is its mean, under its own name and under `.mean`."""
    found = aggregate_scores(make_scores({"is_correct": [1.0, 0.0, 1.0, 1.0]}), TWO)
    assert [dict(score.values) for score in found.rows()] == [
        {"is_correct.mean": 0.5, "is_correct": 0.5},
        {"is_correct.mean": 1.0, "is_correct": 1.0},
    ]


def test_the_bare_name_means_the_first_aggregator(make_scores: ScoresMaker) -> None:
    """`is_correct` is what the first aggregator makes of it; each has its own name beside it."""
    found = aggregate_scores(make_scores({"is_correct": [1, 0, 0, 0, 0, 0]}), RICH)
    columns = {name: found.column(name) for name in RICH.names_of("is_correct")}
    assert {name: column.to_list() for name, column in columns.items() if column is not None} == {
        "is_correct": [2 / 3, 0.0],
        "is_correct.pass@2": [2 / 3, 0.0],
        "is_correct.mean": [1 / 3, 0.0],
    }


def test_a_sample_is_scored_when_all_its_trials_are(make_scores: ScoresMaker) -> None:
    """One failed call puts the whole sample in error, one failed score fails it; no trial counts as 0."""
    scores = make_scores(
        {"is_correct": [1.0, None, None, 1.0, None, None]},
        status=["SCORED", "FAILED", "FAILED", "SCORED", "FAILED", "ERROR"],
    )
    found = aggregate_scores(scores, TWO)
    assert found.frame["status"].to_list() == ["FAILED", "FAILED", "ERROR"]
    values = found.column("is_correct")
    assert values is not None
    assert values.to_list() == [None, None, None]


def test_actions_keep_out_whole_samples(make_scores: ScoresMaker) -> None:
    """The rule that keeps a sample out is the sample's."""
    scores = make_scores({"x": [1, 1, 1, 1]}, excluded_by=["rule", "rule", None, None])
    assert aggregate_scores(scores, TWO).frame["excluded_by"].to_list() == ["rule", None]


def test_what_is_no_number_becomes_a_list(make_scores: ScoresMaker) -> None:
    """Metadata, and values that are no numbers, are what each trial says, in order."""
    scores = make_scores(
        {"label": ["a", 1, 2, 3]},
        {"choice": ["A", "B", None, "B"]},
        encoded=["label"],
    )
    rows = [(dict(score.values), dict(score.metadata)) for score in aggregate_scores(scores, TWO).rows()]
    assert rows == [
        ({"label": ["a", 1]}, {"choice": ["A", "B"]}),
        ({"label": [2, 3]}, {"choice": [None, "B"]}),
    ]


def test_a_null_value_has_no_aggregate(make_scores: ScoresMaker) -> None:
    """A trial that is scored without a value leaves the sample without one."""
    found = aggregate_scores(make_scores({"x": [1.0, None, 0.0, 1.0]}), TWO).column("x")
    assert found is not None
    assert found.to_list() == [None, 0.5]


def test_lists_are_told_trial_by_trial(make_scores: ScoresMaker) -> None:
    """What each trial lists stays apart, also where trials list the same."""
    words = [["A", "B"], ["B", "A"], ["A", "B"], ["A", "B"]]
    shares = [[0.5, 0.25], [1.0], [0.5, 0.25], [1.0]]
    scores = make_scores({"x": [1, 1, 1, 1]}, {"choices": words, "shares": shares})
    rows = [dict(score.metadata) for score in aggregate_scores(scores, TWO).rows()]
    assert rows == [
        {"choices": words[:2], "shares": shares[:2]},
        {"choices": words[2:], "shares": shares[2:]},
    ]


def test_lists_keep_their_letters(make_scores: ScoresMaker) -> None:
    """What trials say is stored as it is written, not as escapes."""
    scores = make_scores({"x": [1, 1]}, {"choice": ["é", "答"]})
    assert aggregate_scores(scores, TWO).frame["metadata"].struct.field("choice").to_list() == ['["é", "答"]']


def test_minus_zero_is_told_apart_from_zero(make_scores: ScoresMaker) -> None:
    """Two samples whose trials differ only by a sign are two rows."""
    scores = make_scores({"x": [1, 1, 1, 1]}, {"y": [0.0, 1.0, -0.0, 1.0]})
    rows = [str(score.metadata["y"]) for score in aggregate_scores(scores, TWO).rows()]
    assert rows == ["[0.0, 1.0]", "[-0.0, 1.0]"]


def test_aggregates_of_shares_are_known_by_the_value_they_begin_with(make_scores: ScoresMaker) -> None:
    """`is_correct.pass@2` is a share because `is_correct` is 0 or 1; a name of nothing is none."""
    scores = make_scores({"is_correct": [1, 0], "x": [0.5, 1.0]})
    names = ("is_correct", "is_correct.pass@2", "x", "x.mean", "other", "other.mean", "")
    assert [holds_shares(scores, name) for name in names] == [True, True, False, False, False, False, False]
    assert holds_shares(make_scores({"x": [1, "a"]}, encoded=["x"]), "x") is False


def test_values_after_one_that_is_listed_are_aggregated(make_scores: ScoresMaker) -> None:
    """Each value is what it is, wherever it stands."""
    scores = make_scores({"label": ["a", "b"], "x": [1.0, 0.0]})
    (row,) = [dict(score.values) for score in aggregate_scores(scores, TWO).rows()]
    assert row == {"label": ["a", "b"], "x.mean": 0.5, "x": 0.5}


def test_statuses_are_ranked_by_severity(make_scores: ScoresMaker) -> None:
    """A call that failed is worse than a row that failed, and any of them worse than a score."""
    statuses = ["SCORED", "SCORED", "SCORED", "FAILED", "ERROR", "FAILED"]
    scores = make_scores({"x": [1.0, 1.0, 1.0, None, None, None]}, status=statuses)
    assert aggregate_scores(scores, TWO).frame["status"].to_list() == ["SCORED", "FAILED", "ERROR"]
