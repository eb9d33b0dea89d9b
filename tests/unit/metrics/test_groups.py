"""Groups and clusters of metrics, from the scores to the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
import pytest

from answerkey.metrics import (
    Design,
    Frequency,
    KeyedMetric,
    Max,
    Mean,
    Metric,
    MulticlassClassification,
    Precision,
    PythonMetric,
    Trials,
    conclude_metric,
    measure_metrics,
    wilson,
)
from answerkey.metrics.groups import MOST_GROUPS
from answerkey.types import MetricValue, Samples, Scores

from .conftest import ScoresMaker

KNOWN = [1.0, 1.0, 0.0, 0.0, 1.0, 0.0]


def conclude(
    metric: Metric,
    scores: Scores,
    columns: Mapping[str, Sequence[object]],
    design: Design,
    *,
    trials: Trials | None = None,
) -> dict[str, MetricValue]:
    """Return a metric's values by name; the columns are the samples'."""
    one = KeyedMetric("m", metric, design)
    frame = pl.DataFrame(dict(columns))
    samples = Samples(frame, pl.Series([str(number) for number in range(frame.height)]))
    if trials is not None:
        samples = samples.repeat(trials.num_trials)
    part = measure_metrics([one], scores, samples, trials)[0]
    return {value.name: value for value in conclude_metric(one, [part], trials)}


def test_clusters_have_their_known_error(make_scores: ScoresMaker) -> None:
    """1, 1, 0, 0, 1, 0 in a, a, b, b, c, c: 0.288675, or 0.235702 without the correction."""
    clusters = {"c": list("aabbcc")}
    scores = make_scores({"x": KNOWN})
    found = conclude(Mean("x"), scores, clusters, Design(cluster_by="c"))["x_mean"]
    plain = conclude(Mean("x"), scores, clusters, Design(cluster_by="c", is_corrected=False))["x_mean"]
    assert (round(found.std_error or 0, 6), round(plain.std_error or 0, 6)) == (0.288675, 0.235702)
    assert found.details["clusters"] == 3
    assert (found.interval, found.interval_note) == (
        None,
        "an interval needs at least 5 values of `c`, there are 3",
    )


def test_clusters_of_one_are_independent_samples(make_scores: ScoresMaker) -> None:
    """Where every sample is its own cluster, the standard error is the plain one."""
    scores = make_scores({"x": KNOWN * 3})
    clusters = {"c": [str(number) for number in range(18)]}
    found = conclude(Mean("x"), scores, clusters, Design(cluster_by="c"))["x_mean"]
    plain = conclude(Mean("x"), scores, clusters, Design())["x_mean"]
    assert found.std_error == pytest.approx(plain.std_error, rel=1e-15)
    assert found.interval_method == "clustered_wilson"


def test_clusters_cover_every_ratio(make_scores: ScoresMaker) -> None:
    """Shares, precision, classes and their averages have clustered intervals; the end of a field has none."""
    truth = ["A", "B", "A", "B"] * 10
    said = ["A", "A", "A", "B", None] * 8
    clusters = {"c": [number // 4 for number in range(40)]}
    scores = make_scores(
        {"x": [0.5, 1.5] * 20, "tp": [1, 2] * 20, "fp": [1, 0] * 20}, {"t": truth, "s": said}
    )
    for metric in (Mean("x"), Precision("tp", "fp"), Frequency("s"), MulticlassClassification("t", "s")):
        for value in conclude(metric, scores, clusters, Design(cluster_by="c")).values():
            assert (value.details["clusters"], value.std_error is not None) == (10, True), value.name
    largest = conclude(Max("x"), scores, clusters, Design(cluster_by="c"))["x_max"]
    assert (largest.interval, largest.interval_note) == (None, "no formula for values of `c` fits this type")


def test_groups_have_their_own_values(make_scores: ScoresMaker) -> None:
    """Each group is measured alone, with its own interval and what it leaves out; labels are in order."""
    scores = make_scores({"x": [1, 0, 1, 1, 0]}, status=["SCORED"] * 4 + ["FAILED"])
    groups = conclude(Mean("x"), scores, {"g": ["b", "a", "a", "b", "b"]}, Design(("g",)))["x_mean"].groups
    (found,) = groups
    assert found.column == "g"
    assert [(one.group, one.value, one.n, dict(one.n_excluded)) for one in found.values] == [
        ("a", 0.5, 2, {}),
        ("b", 1.0, 2, {"failed": 1}),
    ]
    assert [one.interval for one in found.values] == [wilson(1, 2), wilson(2, 2)]


def test_macro_average_counts_every_group_once(make_scores: ScoresMaker) -> None:
    """Ninety right of a hundred and one right of ten: 0.5, not the share of all."""
    scores = make_scores({"x": [1] * 90 + [0] * 10 + [1] + [0] * 9})
    groups = {"g": ["large"] * 100 + ["small"] * 10}
    value = conclude(Mean("x"), scores, groups, Design(("g",)))["x_mean"]
    macro = value.groups[0].macro
    assert value.value == 91 / 110
    assert (macro.value, macro.n) == (0.5, 2)
    assert macro.std_error == pytest.approx((0.09 / 99 + 0.09 / 9) ** 0.5 / 2, rel=1e-14)
    assert macro.interval_method == "stratified"


def test_groups_that_are_the_clusters_stand_for_others(make_scores: ScoresMaker) -> None:
    """The macro average then varies as the groups differ; each group is measured as a whole of its own."""
    scores = make_scores({"x": [1, 1, 1, 0, 0, 0, 1, 0, 1, 1, 0, 1]})
    groups = {"g": list("aabbccddeeff")}
    macro = conclude(Mean("x"), scores, groups, Design(("g",), "g"))["x_mean"].groups[0]
    shares = [1, 0.5, 0, 0.5, 1, 0.5]
    mean = sum(shares) / 6
    expected = (sum((share - mean) ** 2 for share in shares) / 5 / 6) ** 0.5
    assert macro.macro.std_error == pytest.approx(expected, rel=1e-14)
    assert macro.values[0].interval == wilson(2, 2)


def test_clusters_may_lie_across_groups(make_scores: ScoresMaker) -> None:
    """With one cluster per pair of samples, one in each group, the groups' errors do not add as if apart."""
    x = [1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 1, 1]
    scores = make_scores({"x": [*x, *x]})
    columns = {"g": ["a"] * 12 + ["b"] * 12, "c": [*range(12), *range(12)]}
    value = conclude(Mean("x"), scores, columns, Design(("g",), "c"))["x_mean"]
    assert value.groups[0].macro.std_error == pytest.approx(value.std_error, rel=1e-13)


def test_a_label_that_a_group_lacks_is_none_of_its_samples(make_scores: ScoresMaker) -> None:
    """The share of a letter in a group that never has it is 0, with an interval."""
    scores = make_scores({"x": [1] * 4}, {"letter": ["A", "B", "B", "B"]})
    groups = conclude(Frequency("letter"), scores, {"g": list("pqqq")}, Design(("g",)))["letter_A"].groups[0]
    assert [(one.group, one.value, one.interval) for one in groups.values] == [
        ("p", 1.0, wilson(1, 1)),
        ("q", 0.0, wilson(0, 3)),
    ]


def test_samples_without_a_group_are_shown_as_such(make_scores: ScoresMaker) -> None:
    """Null is a group of its own."""
    value = conclude(Mean("x"), make_scores({"x": [1, 0]}), {"g": [None, "a"]}, Design(("g",)))["x_mean"]
    assert [one.group for one in value.groups[0].values] == ["(none)", "a"]


def test_groups_without_a_value_stay_out_of_the_average(make_scores: ScoresMaker) -> None:
    """The average says over how many groups it was taken."""
    scores = make_scores({"x": [1, 0, None]}, status=["SCORED", "SCORED", "FAILED"])
    macro = conclude(Mean("x"), scores, {"g": list("aab")}, Design(("g",)))["x_mean"].groups[0].macro
    assert (macro.value, macro.n) == (0.5, 1)
    assert macro.note == "mean over 1 of 2 groups, the others have no value"


def test_too_many_groups_are_not_listed(make_scores: ScoresMaker) -> None:
    """A column of ids is no breakdown, and its note says so."""
    size = MOST_GROUPS + 1
    value = conclude(Mean("x"), make_scores({"x": [1] * size}), {"g": list(range(size))}, Design(("g",)))
    groups = value["x_mean"].groups[0]
    assert (groups.values, groups.macro.note) == ((), "there are more than 10000 groups")


def test_trials_are_grouped_by_their_samples(make_scores: ScoresMaker) -> None:
    """A group's value is the mean over its samples, its interval that of their means."""
    scores = make_scores({"x": [1, 0, 1, 1, 0, 0, 1, 0]})
    value = conclude(Mean("x"), scores, {"g": list("aabb")}, Design(("g",)), trials=Trials(2))["x_mean"]
    assert [(one.group, one.value, one.n) for one in value.groups[0].values] == [
        ("a", 0.75, 2),
        ("b", 0.25, 2),
    ]


def test_metadata_of_trials_is_grouped_too(make_scores: ScoresMaker) -> None:
    """Letters are counted per trial in each group; the samples of a group are its clusters."""
    letters = ["A", "B"] * 6 + ["A", "A"] * 6
    scores = make_scores({"x": [1] * 24}, {"letter": letters})
    groups = {"g": ["p"] * 6 + ["q"] * 6}
    value = conclude(Frequency("letter"), scores, groups, Design(("g",)), trials=Trials(2))["letter_A"]
    assert [(one.group, one.value, one.n) for one in value.groups[0].values] == [
        ("p", 0.5, 12),
        ("q", 1.0, 12),
    ]


def test_clusters_under_trials_are_those_of_the_samples(make_scores: ScoresMaker) -> None:
    """All trials of all samples of a passage are one cluster."""
    scores = make_scores({"x": [1, 0] * 10}, {"letter": ["A", "B"] * 10})
    clusters = {"c": list("aabbccddee")}
    for metric in (Mean("x"), Frequency("letter")):
        for value in conclude(metric, scores, clusters, Design((), "c"), trials=Trials(2)).values():
            assert (value.details["clusters"], value.details["cluster_by"]) == (5, "c")


def test_snippets_are_run_for_every_group(make_scores: ScoresMaker) -> None:
    """Your own function sees the scores of a group alone."""
    metric = PythonMetric("def compute_metrics(scores):\n    return {'n': len(scores)}\n")
    value = conclude(metric, make_scores({"x": [1, 0, 1]}), {"g": list("aab")}, Design(("g",)))["n"]
    assert [(one.group, one.value) for one in value.groups[0].values] == [("a", 2.0), ("b", 1.0)]
    assert value.interval_note
