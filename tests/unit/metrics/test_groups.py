"""Groups and clusters of metrics, from the scores to the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
import pytest
from scipy import stats

from answerkey.metrics import (
    Design,
    Frequency,
    KeyedMetric,
    Mean,
    Metric,
    PythonMetric,
    Trials,
    finish_metric,
    measure,
    measure_metrics,
    wilson,
)
from answerkey.metrics.classification import BinaryClassification, MulticlassClassification, Precision
from answerkey.metrics.intervals import Ratio, Share, average_clustered_error, average_shares
from answerkey.metrics.measure import MOST_GROUPS, bound_clustered
from answerkey.metrics.moments import Max
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
    return {value.name: value for value in finish_metric(one, [part], trials)}


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


def test_groups_that_all_lack_a_value_have_no_average(make_scores: ScoresMaker) -> None:
    """Where nothing was scored, neither the groups nor their average have a number."""
    scores = make_scores({"x": [1, 0]}, status=["FAILED", "ERROR"])
    found = conclude(Mean("x"), scores, {"g": list("ab")}, Design(("g",)))["x_mean"].groups[0]
    assert [(one.group, one.value, dict(one.n_excluded)) for one in found.values] == [
        ("a", None, {"failed": 1}),
        ("b", None, {"error": 1}),
    ]
    assert (found.macro.value, found.macro.n, found.macro.note) == (None, 0, "no group has a value")


def test_a_class_that_a_group_lacks_has_no_value_there(make_scores: ScoresMaker) -> None:
    """Neither right nor wrong: the group has no sample of it."""
    scores = make_scores({"x": [1] * 3}, {"t": ["A", "B", "B"], "s": ["A", "B", "A"]}, excluded_by=[None] * 3)
    metric = MulticlassClassification("t", "s")
    found = conclude(metric, scores, {"g": list("pqp")}, Design(("g",)))["A_recall"].groups[0]
    assert [(one.group, one.value, one.n, one.note) for one in found.values] == [
        ("p", 1.0, 2, None),
        ("q", None, 1, "it does not occur in this group"),
    ]


def test_values_without_a_formula_for_clusters_say_so_in_their_average(make_scores: ScoresMaker) -> None:
    """The mean of the groups' largest values is there, without an interval."""
    scores = make_scores({"x": [1.0, 2.0, 3.0, 5.0]})
    columns = {"g": list("aabb"), "c": list("pqpq")}
    macro = conclude(Max("x"), scores, columns, Design(("g",), "c"))["x_max"].groups[0].macro
    assert (macro.value, macro.interval) == (3.5, None)
    assert macro.interval_note == "no formula for clusters fits this type"


def test_rates_of_two_answers_are_clustered(make_scores: ScoresMaker) -> None:
    """Accuracy of a binary classification has the error of its clusters' shares."""
    truth, said = ["yes", "yes", "no", "no"] * 6, ["yes", "no", "no", "no", "yes", "yes"] * 4
    scores = make_scores({"x": [1] * 24}, {"t": truth, "s": said})
    clusters = {"c": [number // 4 for number in range(24)]}
    found = conclude(BinaryClassification("t", "s", "yes", "no"), scores, clusters, Design(cluster_by="c"))
    shares = [
        sum(a == b for a, b in zip(truth[i : i + 4], said[i : i + 4], strict=True)) / 4
        for i in range(0, 24, 4)
    ]
    assert found["accuracy"].value == pytest.approx(sum(shares) / 6)
    assert found["accuracy"].std_error == pytest.approx(stats.sem(shares))
    assert {value.details["clusters"] for value in found.values()} == {6}


def test_names_that_two_values_share_have_no_clustered_interval(make_scores: ScoresMaker) -> None:
    """A class called `macro` has the names of the averages."""
    scores = make_scores(
        {"x": [1] * 10}, {"t": ["macro", "A"] * 5, "s": ["macro", "A", "A", "A", "macro"] * 2}
    )
    one = KeyedMetric("m", MulticlassClassification("t", "s"), Design(cluster_by="c"))
    samples = Samples(pl.DataFrame({"c": list(range(10))}), pl.Series(map(str, range(10))))
    values = finish_metric(one, measure_metrics([one], scores, samples))
    notes = {value.interval_note for value in values if value.name == "macro_recall"}
    assert notes == {"two values of the metric have this name"}
    assert {value.interval for value in values if value.name == "macro_recall"} == {None}


def test_averages_over_no_class_at_all_stay_empty(make_scores: ScoresMaker) -> None:
    """Where nothing was ever predicted, no class has a precision, and clusters change nothing about it."""
    scores = make_scores(
        {"x": [0] * 6}, {"t": ["A", "B"] * 3, "s": [None] * 5 + ["?"]}, status=["SCORED"] * 5 + ["FAILED"]
    )
    found = conclude(
        MulticlassClassification("t", "s"), scores, {"c": list("aabbcc")}, Design(cluster_by="c")
    )
    assert (found["macro_precision"].value, found["macro_precision"].interval_note) == (None, None)
    assert found["accuracy"].value == 0.0


def test_means_beyond_zero_and_one_have_student_s_interval(make_scores: ScoresMaker) -> None:
    """Clustered values that are no shares: the mean of five clusters of one is Student's t over them."""
    numbers = [1.0, 2.0, 4.0, 8.0, 10.0]
    clusters = {"c": list("abcde")}
    value = conclude(Mean("x"), make_scores({"x": numbers}), clusters, Design(cluster_by="c"))["x_mean"]
    assert value.interval_method == "clustered_t"
    assert value.interval == pytest.approx(stats.t.interval(0.95, 4, 5.0, stats.sem(numbers)))
    wide = make_scores({"x": [1.7e308, -1.7e308, 1.7e308, -1.7e308, 0.0]})
    value = conclude(Mean("x"), wide, clusters, Design(cluster_by="c"))["x_mean"]
    assert (value.interval, value.interval_note) == (None, "the spread is too large for a float")


def test_squares_beyond_all_floats_have_no_error() -> None:
    """The error of an average whose squares no float can sum is none, and the clusters are counted."""
    clusters = [([Ratio(sign * 5 * 10**154, 1, 1)], 1) for sign in (1, -1, 1, -1)]
    assert average_clustered_error(clusters, is_corrected=False) == (None, 4)


def test_too_many_different_samples_have_no_interval(
    make_scores: ScoresMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples whose trials all differ are counted up to a bound; beyond it the value stands alone."""
    monkeypatch.setattr(measure, "MOST_KINDS", 2)
    letters = ["A", "A", "A", "B", "B", "B", "A", "A"]
    scores = make_scores({"x": [1] * 8}, {"letter": letters})
    columns = {"g": list("abcd")}
    value = conclude(Frequency("letter"), scores, columns, Design(), trials=Trials(2))["letter_A"]
    assert (value.value, value.interval, value.std_error) == (0.625, None, None)
    assert value.interval_note == "too many different samples"


@pytest.mark.parametrize(
    ("value", "method"), [(0.0, "clustered_t"), (0.5, "clustered_wilson"), (1.0, "clustered_t")]
)
def test_shares_at_an_end_are_kept_within_it(value: float, method: str) -> None:
    """Wilson's form needs a share between the ends; at an end Student's interval is cut there."""
    found = bound_clustered(MetricValue("x", value, 9, is_share=True), 0.1, 6, Design())
    assert found.interval_method == method
    assert found.interval is not None
    assert (found.interval[0] >= 0, found.interval[1] <= 1) == (True, True)
    assert found.details["clusters"] == 6


def test_one_sum_of_several_ratios_is_averaged_over_them() -> None:
    """One cluster twice, with two ratios: by hand."""
    clusters = [([Ratio(1, 1, 1), Ratio(0, 1, 1)], 2), ([Ratio(0, 1, 1), Ratio(0, 1, 1)], 1)]
    error, size = average_clustered_error(clusters, is_corrected=True)
    residuals = [(1 - 2 / 3) / 3] * 2 + [-2 / 3 / 3]
    assert size == 3
    assert error == pytest.approx((3 / 2 * sum(one**2 for one in residuals)) ** 0.5 / 2)
    assert average_clustered_error([([Ratio(1, 1, 1)], 1)], is_corrected=True) == (None, 1)
    plain, _ = average_clustered_error(clusters, is_corrected=False)
    assert plain == pytest.approx(sum(one**2 for one in residuals) ** 0.5 / 2)


def test_averages_over_few_clusters_name_the_column(make_scores: ScoresMaker) -> None:
    """So that the reader knows what there are too few of."""
    columns = {"g": list("aabb"), "c": list("xyxy")}
    found = conclude(
        Mean("x"), make_scores({"x": [1, 0, 1, 1]}), columns, Design(group_by=("g",), cluster_by="c")
    )
    macro = found["x_mean"].groups[0].macro
    assert macro.interval_note == "an interval needs at least 5 values of `c`, there are 2"
    assert (macro.value, macro.n) == (0.75, 2)


def test_averages_of_shares_and_others_are_no_shares(make_scores: ScoresMaker) -> None:
    """One group whose values are beyond 0 and 1 makes the average a plain number."""
    columns = {"g": list("aaabbb")}
    found = conclude(Mean("x"), make_scores({"x": [1, 0, 1, 2, 3, 5]}), columns, Design(group_by=("g",)))
    macro = found["x_mean"].groups[0].macro
    assert macro.interval is not None
    assert macro.interval[1] > 1


def test_averages_of_shares_add_up_their_counts(make_scores: ScoresMaker) -> None:
    """Shares of independent samples are averaged by their counts, as strata are."""
    columns = {"g": ["a"] * 10 + ["b"] * 20}
    scores = make_scores({"x": [1] * 6 + [0] * 4 + [1] * 18 + [0] * 2})
    macro = conclude(Mean("x"), scores, columns, Design(group_by=("g",)))["x_mean"].groups[0].macro
    expected = average_shares([Share(6, 10), Share(18, 20)])
    assert (macro.interval, macro.std_error) == (expected.interval, expected.std_error)
