"""Groups and clusters of metrics, from the scores to the values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.lazy import stats
from tests.samples import samples_from_frame

import answerkey as ak
from answerkey.metrics import (
    Aggregator,
    Design,
    KeyedMetric,
    Mean,
    Metric,
    ScoreAggregator,
    Trials,
    compute_metrics,
    describe_samples,
    measure,
    wilson,
)
from answerkey.metrics.classification import Frequency, MulticlassClassification, Precision
from answerkey.metrics.intervals import Ratio, measure_clustered_error
from answerkey.metrics.measure import bound_clustered
from answerkey.metrics.moments import Max, Min
from answerkey.metrics.python import PythonMetric
from answerkey.metrics.trials import label_rows, name_clusters, name_groups
from answerkey.testing import TestServer
from answerkey.types import MetricValue, Samples, Scores

from .conftest import make_scores

PLAIN, TRIALS = Design(), Trials(2)


def finish(
    metric: Metric,
    scores: Scores,
    samples: Samples | Mapping[str, Sequence[object]] | None = None,
    design: Design = PLAIN,
    *,
    trials: Trials | None = None,
) -> dict[str, MetricValue]:
    """Return a metric's values by name, the first of each.

    The columns are those of samples asked once.
    """
    keyed = KeyedMetric("m", metric, design)
    if not isinstance(samples, Samples):
        size = len(scores) // (trials.num_trials if trials else 1)
        frame = pl.DataFrame(dict(samples or {"row": range(size)}))
        samples = samples_from_frame(frame, pl.Series(map(str, range(frame.height))))
        samples = samples.repeat(trials.num_trials) if trials else samples
    rows = describe_samples(samples, design.columns)
    (values,) = compute_metrics([keyed], scores, rows, trials)
    return {value.name: value for value in reversed(values)}


def show_groups(value: MetricValue) -> list[tuple[str | None, float | None, int]]:
    """Return group, value and n of the first column."""
    return [(group.group, group.value, group.n) for group in value.groups[0].values]


def test_a_metric_sees_samples() -> None:
    """`n` counts samples, and the interval is that of their means, kept within [0, 1] for right and
    wrong.

    Over samples that were asked once it is as ever; `min` of right and wrong is a share of samples.
    """
    once = finish(Mean("x"), make_scores({"x": [1.0, 0.0]}))["x_mean"]
    assert (once.value, once.n, once.interval_method) == (0.5, 2, "wilson")
    assert dict(once.details) == {"count": 1, "of": 2}
    scores = make_scores({"is_correct": [1, 0, 1, 1]})
    value = finish(Mean("is_correct"), scores, trials=TRIALS)["is_correct_mean"]
    assert (value.value, value.n, value.interval_method) == (0.75, 2, "student_t")
    assert (value.interval, value.std_error, value.is_share) == ((0.0, 1.0), 0.25, True)
    details = {"num_trials": 2, "counts": "samples", "aggregates": {"is_correct": "mean"}}
    assert dict(value.details) == details
    trials = Trials(2, (ScoreAggregator("is_correct", Aggregator("min")),))
    value = finish(Mean("is_correct.min"), scores, trials=trials)["is_correct.min_mean"]
    assert (value.value, value.interval_method) == (0.5, "wilson")


SUM_UP = "def compute_metrics(s):\n return {{'sum': sum(row['values']['{}'] for row in s)}}\n"


@pytest.mark.parametrize(
    ("metric", "name", "value"),
    [
        (Mean("x"), "x_mean", 0.5),
        (Mean("x.max"), "x.max_mean", 2 / 3),
        (Max("x"), "x_max", 1.0),
        (Min("x"), "x_min", 0.0),
        (Max("x.max"), "x.max_max", 1.0),
        (Min("x.max"), "x.max_min", 0.0),
        (PythonMetric(SUM_UP.format("x")), "sum", 1.5),
        (PythonMetric(SUM_UP.format("x.max")), "sum", 2.0),
    ],
)
def test_every_metric_sees_aggregates(metric: Metric, name: str, value: float) -> None:
    """Three samples with means 1/2, 0 and 1 and maxima 1, 0 and 1.

    A function of your own sees both.
    """
    trials = Trials(2, tuple(ScoreAggregator("x", Aggregator(kind)) for kind in ("mean", "max")))
    measured = finish(metric, make_scores({"x": [1, 0, 0, 0, 1, 1]}), trials=trials)[name]
    assert measured.value == pytest.approx(value)
    assert (measured.n, measured.details["counts"]) == (3, "samples")


def test_metadata_is_counted_per_trial() -> None:
    """There is no aggregate of a letter: `n` counts trials, and the trials of a sample are one
    cluster.
    """
    letters = ["A", "B", "A", "A", "A", "A", "B", "B", "A", "B", "A", "A"]
    scores = make_scores({"x": [1] * 12}, {"letter": letters})
    value = finish(Frequency("letter"), scores, trials=TRIALS)["letter_A"]
    assert (value.value, value.n, value.interval_method) == (8 / 12, 12, "clustered_wilson")
    assert value.std_error == pytest.approx(stats.sem([0.5, 1, 1, 0, 0.5, 1]), rel=1e-14)
    assert (value.details["counts"], value.details["clusters"]) == ("trials", 6)
    few = make_scores({"x": [1, 0, 1, 1]}, {"letter": ["A", "B", "A", "A"]})
    value = finish(Frequency("letter"), few, trials=TRIALS)["letter_A"]
    assert (value.value, value.interval) == (0.75, None)
    assert value.interval_note == "an interval needs at least 5 samples, there are 2"
    scores = make_scores({"x": [1, 0]}, {"truth": ["A", "A"], "said": ["A", "B"]})
    value = finish(MulticlassClassification("truth", "said"), scores, trials=TRIALS)["accuracy"]
    assert (value.value, value.n) == (0.5, 2)


def test_text_in_any_row_decides_for_all() -> None:
    """A value that is text somewhere is counted per trial everywhere."""
    scores = make_scores({"label": [1, 1, "x", 1]}, encoded=["label"])
    values = finish(Frequency("label"), scores, trials=TRIALS)
    expected = {"label_1": 0.75, "label_x": 0.25}
    assert {name: value.value for name, value in values.items()} == expected


def test_samples_without_all_their_trials_are_left_out_and_counted() -> None:
    """A sample with a failed call counts neither as 0 nor as a half.

    A field that is nowhere is named in the note.
    """
    scores = make_scores({"x": [1, None, 1, 1]}, status=["SCORED", "ERROR", "SCORED", "SCORED"])
    value = finish(Mean("x"), scores, trials=TRIALS)["x_mean"]
    assert (value.value, value.n, dict(value.n_excluded)) == (1.0, 1, {"error": 1})
    value = finish(Mean("x.max"), make_scores({"x": [1, 0]}), trials=TRIALS)["x.max_mean"]
    assert value.value is None
    assert "no score has the field `x.max`" in str(value.note)


def order_samples(
    owners: str, is_extra: str | None = None, trials: int = 1, groups: str | None = None
) -> Samples:
    """Return samples, a letter for each order in which one is shown; `x` marks rows for a prior."""
    orders = pl.DataFrame({"base_sample_id": list(owners)})
    if is_extra is not None:
        orders = orders.with_columns(is_extra=pl.Series([mark == "x" for mark in is_extra]))
    ids = pl.Series(map(str, range(len(owners))))
    frame = pl.DataFrame({"g": list(groups or owners)})
    return samples_from_frame(frame, ids, orders=orders).repeat(trials)


def test_orders_of_a_sample_are_one_sample() -> None:
    """A value is the mean over a sample's orders, and over the trials of each order before that."""
    value = finish(Mean("x"), make_scores({"x": [1, 0, 1, 1]}), order_samples("aabb"))["x_mean"]
    assert (value.value, value.n, value.std_error) == (0.75, 2, 0.25)
    assert (value.details["num_trials"], value.details["counts"]) == (1, "samples")
    scores = make_scores({"x": [1, 0, 1, 1, 0, 0, 1, 0]})
    value = finish(Mean("x"), scores, order_samples("aabb", trials=2), trials=TRIALS)["x_mean"]
    assert (value.value, value.n, value.std_error) == (0.5, 2, 0.25)


def test_letters_in_several_orders_are_clustered_by_sample() -> None:
    """Words are counted row by row; the rows of a sample are one cluster, whatever their number."""
    scores = make_scores({"x": [1] * 11}, {"letter": list("ABAAABBABAB")})
    value = finish(Frequency("letter"), scores, order_samples("aabbccddeee"))["letter_A"]
    assert (value.value, value.n) == (6 / 11, 11)
    assert (value.details["clusters"], value.details["counts"]) == (5, "orders")


def test_rows_that_estimate_a_prior_count_for_the_metric_that_reads_them_alone() -> None:
    """The mean sees the other rows, still as orders.

    A metric that reads the extra rows is handed all.
    """
    scores = make_scores({"x": [1, 0, 0, 1]})
    samples = order_samples("aaab", is_extra=".xx.")
    value = finish(Mean("x"), scores, samples)["x_mean"]
    assert (value.value, value.n) == (1.0, 2)
    assert finish(Mean("x"), scores, order_samples("aaab", is_extra="...."))["x_mean"].n == 2
    assert finish(RowCount(), scores, samples)["rows"].value == 4
    scores = make_scores({"x": [1, 0, 0, 1, 1]})
    value = finish(Mean("x"), scores, order_samples("aaabb", is_extra="..x.."))["x_mean"]
    assert (value.value, value.n) == (0.75, 2)


class RowCount(PythonMetric):
    """How many rows there are, those for a prior among them."""

    reads_rows = True
    reads_extra = True

    def __init__(self) -> None:
        super().__init__("def compute_metrics(scores):\n    return {}\n")

    def compute(self, scores: Scores) -> list[MetricValue]:
        """Return the number of rows."""
        return [MetricValue("rows", len(scores), len(scores))]


def test_a_snippet_over_orders_sees_samples() -> None:
    """Your own function gets one row per sample, with what all orders say in lists."""
    body = "{'n': len(scores), 'first': scores[0]['values']['x']}"
    scores = make_scores({"x": [1, 0, 1, 1]}, {"letter": list("ABAB")})
    metric = PythonMetric(f"def compute_metrics(scores):\n    return {body}\n")
    values = finish(metric, scores, order_samples("aabb"))
    assert {name: value.value for name, value in values.items()} == {"n": 2.0, "first": 0.5}


def test_groups_of_orders_have_the_means_of_their_samples() -> None:
    """Means over the orders of a sample come first.

    Rows of letters are a cluster of their group.
    """
    samples = order_samples("aabbccddeeff", groups="ppppppqqqqqq")
    x, letters = [1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1], list("ABAAABBBAAAB")
    scores = make_scores({"x": x}, {"letter": letters})
    value = finish(Mean("x"), scores, samples, Design(("g",)))["x_mean"]
    assert show_groups(value) == [("p", 0.5, 3), ("q", 5 / 6, 3)]
    errors = [group.std_error for group in value.groups[0].values]
    assert errors == [pytest.approx(stats.sem([0.5, 1, 0])), pytest.approx(stats.sem([1, 0.5, 1]))]
    value = finish(Frequency("letter"), scores, samples, Design(("g",)))["letter_A"]
    assert show_groups(value) == [("p", 2 / 3, 6), ("q", 0.5, 6)]
    errors = [group.std_error for group in value.groups[0].values]
    expected = [pytest.approx(stats.sem([0.5, 1, 0.5])), pytest.approx(stats.sem([0, 1, 0.5]))]
    assert errors == expected
    note = "an interval needs at least 5 samples, there are 3"
    assert {group.interval_note for group in value.groups[0].values} == {note}


def test_clusters_have_their_known_error() -> None:
    """1, 1, 0, 0, 1, 0 in a, a, b, b, c, c: 0.288675."""
    clusters = {"c": list("aabbcc")}
    scores = make_scores({"x": [1.0, 1.0, 0.0, 0.0, 1.0, 0.0]})
    value = finish(Mean("x"), scores, clusters, Design(cluster_by="c"))["x_mean"]
    assert round(value.std_error or 0, 6) == 0.288675
    assert (value.details["clusters"], value.interval) == (3, None)
    assert value.interval_note == "an interval needs at least 5 values of `c`, there are 3"


def test_clusters_cover_every_ratio() -> None:
    """Shares, precision, classes and their averages have clustered intervals.

    The end of a field has none.
    """
    truth = ["A", "B", "A", "B"] * 10
    predictions = ["A", "A", "A", "B", None] * 8
    clusters = {"c": [number // 4 for number in range(40)]}
    counts = {"tp": [1, 2] * 20, "fp": [1, 0] * 20}
    scores = make_scores({"x": [0.5, 1.5] * 20, **counts}, {"t": truth, "s": predictions})
    classes = MulticlassClassification("t", "s")
    for metric in (Mean("x"), Precision("tp", "fp"), Frequency("s"), classes):
        for value in finish(metric, scores, clusters, Design(cluster_by="c")).values():
            assert (value.details["clusters"], value.std_error is None) == (10, False), value.name
    largest = finish(Max("x"), scores, clusters, Design(cluster_by="c"))["x_max"]
    assert largest.interval is None
    assert largest.interval_note == "there is no formula for values of `c` with this type"


def test_groups_have_their_own_values() -> None:
    """Each group is measured alone, with its own interval and what it leaves out.

    Labels are in order. Null is a group of its own.
    """
    scores = make_scores({"x": [1, 0, 1, 1, 0, 1]}, status=["SCORED"] * 4 + ["FAILED", "SCORED"])
    groups = {"g": ["b", "a", "a", "b", "b", None]}
    value = finish(Mean("x"), scores, groups, Design(("g",)))["x_mean"]
    assert (value.groups[0].column, len(value.groups)) == ("g", 1)
    assert show_groups(value) == [("(none)", 1.0, 1), ("a", 0.5, 2), ("b", 1.0, 2)]
    found = value.groups[0].values
    assert [dict(group.n_excluded) for group in found] == [{}, {}, {"failed": 1}]
    assert [group.interval for group in found] == [wilson(1, 1), wilson(1, 2), wilson(2, 2)]


def test_macro_average_counts_every_group_once() -> None:
    """Ninety right of a hundred and one right of ten: 0.5, not the share of all."""
    scores = make_scores({"x": [1] * 90 + [0] * 10 + [1] + [0] * 9})
    groups = {"g": ["large"] * 100 + ["small"] * 10}
    value = finish(Mean("x"), scores, groups, Design(("g",)))["x_mean"]
    macro = value.groups[0].macro
    assert value.value == 91 / 110
    assert (macro.value, macro.n) == (0.5, 2)
    assert macro.std_error == pytest.approx((0.09 / 99 + 0.09 / 9) ** 0.5 / 2, rel=1e-14)
    assert macro.interval_method == "stratified"


def test_groups_that_are_the_clusters_stand_for_others() -> None:
    """The macro average then varies as the groups differ.

    Each group is measured as a whole of its own.
    """
    scores = make_scores({"x": [1, 1, 1, 0, 0, 0, 1, 0, 1, 1, 0, 1]})
    groups = {"g": list("aabbccddeeff")}
    macro = finish(Mean("x"), scores, groups, Design(("g",), "g"))["x_mean"].groups[0]
    shares = [1, 0.5, 0, 0.5, 1, 0.5]
    mean = sum(shares) / 6
    expected = (sum((share - mean) ** 2 for share in shares) / 5 / 6) ** 0.5
    assert macro.macro.std_error == pytest.approx(expected, rel=1e-14)
    assert macro.values[0].interval == wilson(2, 2)


def test_clusters_may_lie_across_groups() -> None:
    """With one cluster per pair of samples, one in each group, the groups' errors do not add as if
    apart.
    """
    x = [1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 1, 1]
    scores = make_scores({"x": [*x, *x]})
    columns = {"g": ["a"] * 12 + ["b"] * 12, "c": [*range(12), *range(12)]}
    value = finish(Mean("x"), scores, columns, Design(("g",), "c"))["x_mean"]
    assert value.groups[0].macro.std_error == pytest.approx(value.std_error, rel=1e-13)
    # Clusters that lie in one group alone: of their residuals in the other there is nothing.
    columns = {"g": list("aaabbb"), "c": list("pqrrst")}
    scores = make_scores({"x": [1, 0, 0, 1, 1, 0]})
    macro = finish(Mean("x"), scores, columns, Design(("g",), "c"))["x_mean"]
    first, second = [2 / 9, -1 / 9, -1 / 9], [1 / 9, 1 / 9, -2 / 9]
    residuals = [first[0], first[1], first[2] + second[0], second[1], second[2]]
    expected = (5 / 4 * sum((residual / 2) ** 2 for residual in residuals)) ** 0.5
    assert macro.groups[0].macro.std_error == pytest.approx(expected)


def test_a_label_that_a_group_lacks_is_none_of_its_samples() -> None:
    """The share of a letter in a group that never has it is 0, with an interval."""
    scores = make_scores({"x": [1] * 4}, {"letter": ["A", "B", "B", "B"]})
    groups = finish(Frequency("letter"), scores, {"g": list("pqqq")}, Design(("g",)))[
        "letter_A"
    ].groups[0]
    expected = [("p", 1.0, wilson(1, 1)), ("q", 0.0, wilson(0, 3))]
    assert [(value.group, value.value, value.interval) for value in groups.values] == expected


def test_groups_without_a_value_stay_out_of_the_average() -> None:
    """The average says over how many groups it was taken."""
    scores = make_scores({"x": [1, 0, None]}, status=["SCORED", "SCORED", "FAILED"])
    macro = finish(Mean("x"), scores, {"g": list("aab")}, Design(("g",)))["x_mean"].groups[0].macro
    assert (macro.value, macro.n) == (0.5, 1)
    assert macro.note == "mean over 1 of 2 groups, the others have no value"


def test_too_many_groups_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of ids is not a breakdown, and a note says so."""
    assert measure.MAX_GROUPS == 10_000
    monkeypatch.setattr(measure, "MAX_GROUPS", 20)
    for size, listed, note in ((20, 20, None), (21, 0, "there are more than 20 groups")):
        scores = make_scores({"x": [1] * size})
        result = finish(Mean("x"), scores, {"g": list(range(size))}, Design(("g",)))
        groups = result["x_mean"].groups[0]
        assert (len(groups.values), groups.macro.note) == (listed, note)


def test_trials_are_grouped_by_their_samples() -> None:
    """A group's value is the mean over its samples; letters are counted per trial in each group."""
    scores = make_scores({"x": [1, 0, 1, 1, 0, 0, 1, 0]}, {"letter": list("ABABAAAA")})
    groups, design = {"g": list("aabb")}, Design(("g",))
    value = finish(Mean("x"), scores, groups, design, trials=TRIALS)["x_mean"]
    assert show_groups(value) == [("a", 0.75, 2), ("b", 0.25, 2)]
    value = finish(Frequency("letter"), scores, groups, design, trials=TRIALS)["letter_A"]
    assert show_groups(value) == [("a", 0.5, 4), ("b", 1.0, 4)]


def test_trials_use_the_clusters_of_their_samples() -> None:
    """All trials of all samples of a passage are one cluster."""
    scores = make_scores({"x": [1, 0] * 10}, {"letter": ["A", "B"] * 10})
    clusters = {"c": list("aabbccddee")}
    for metric in (Mean("x"), Frequency("letter")):
        for value in finish(metric, scores, clusters, Design((), "c"), trials=Trials(2)).values():
            assert (value.details["clusters"], value.details["cluster_by"]) == (5, "c")


def test_snippets_are_run_for_every_group() -> None:
    """Your own function sees the scores of a group alone."""
    metric = PythonMetric("def compute_metrics(scores):\n    return {'n': len(scores)}\n")
    value = finish(metric, make_scores({"x": [1, 0, 1]}), {"g": list("aab")}, Design(("g",)))["n"]
    assert show_groups(value) == [("a", 2.0, 2), ("b", 1.0, 1)]
    assert value.interval_note


def test_groups_that_all_lack_a_value_have_no_average() -> None:
    """Where nothing was scored, neither the groups nor their average have a number."""
    scores = make_scores({"x": [1, 0]}, status=["FAILED", "ERROR"])
    groups = finish(Mean("x"), scores, {"g": list("ab")}, Design(("g",)))["x_mean"].groups[0]
    members = [(value.group, value.value, dict(value.n_excluded)) for value in groups.values]
    assert members == [("a", None, {"failed": 1}), ("b", None, {"error": 1})]
    macro = groups.macro
    assert (macro.value, macro.n, macro.note) == (None, 0, "no group has a value")


def test_a_class_that_a_group_lacks_has_no_value_there() -> None:
    """Neither right nor wrong: the group has no sample of it."""
    scores = make_scores({"x": [1] * 3}, {"t": ["A", "B", "B"], "s": ["A", "B", "A"]})
    metric = MulticlassClassification("t", "s")
    groups = finish(metric, scores, {"g": list("pqp")}, Design(("g",)))["A_recall"].groups[0]
    expected = [("p", 1.0, 2, None), ("q", None, 1, "it does not occur in this group")]
    assert [(value.group, value.value, value.n, value.note) for value in groups.values] == expected


def test_values_without_a_formula_for_clusters_say_so_in_their_average() -> None:
    """The mean of the groups' largest values is there, without an interval."""
    scores = make_scores({"x": [1.0, 2.0, 3.0, 5.0]})
    columns = {"g": list("aabb"), "c": list("pqpq")}
    macro = finish(Max("x"), scores, columns, Design(("g",), "c"))["x_max"].groups[0].macro
    assert (macro.value, macro.interval) == (3.5, None)
    assert macro.interval_note == "there is no formula for clusters with this type"


def test_names_that_two_values_share_have_no_clustered_interval() -> None:
    """A class called `macro` has the names of the averages."""
    letters = {"t": ["macro", "A"] * 5, "s": ["macro", "A", "A", "A", "macro"] * 2}
    scores = make_scores({"x": [1] * 10}, letters)
    design, metric = Design(cluster_by="c"), MulticlassClassification("t", "s")
    value = finish(metric, scores, {"c": list(range(10))}, design)["macro_recall"]
    assert value.interval is None
    assert value.interval_note == "two values of the metric have this name"


def test_averages_over_no_class_at_all_stay_empty() -> None:
    """Where nothing was ever predicted, no class has a precision, and clusters change nothing about
    it.
    """
    predictions = [None] * 5 + ["?"]
    status = ["SCORED"] * 5 + ["FAILED"]
    scores = make_scores({"x": [0] * 6}, {"t": ["A", "B"] * 3, "s": predictions}, status=status)
    metric, design = MulticlassClassification("t", "s"), Design(cluster_by="c")
    result = finish(metric, scores, {"c": list("aabbcc")}, design)
    assert result["macro_precision"].value is None
    assert (result["macro_precision"].interval_note, result["accuracy"].value) == (None, 0.0)


def test_means_beyond_zero_and_one_have_student_s_interval() -> None:
    """Clustered values that are no shares: the mean of five clusters of one is Student's t over
    them.
    """
    numbers = [1.0, 2.0, 4.0, 8.0, 10.0]
    clusters = {"c": list("abcde")}
    design = Design(cluster_by="c")
    value = finish(Mean("x"), make_scores({"x": numbers}), clusters, design)["x_mean"]
    assert value.interval_method == "clustered_t"
    assert value.interval == pytest.approx(stats.t.interval(0.95, 4, 5.0, stats.sem(numbers)))
    wide = make_scores({"x": [1.7e308, -1.7e308, 1.7e308, -1.7e308, 0.0]})
    value = finish(Mean("x"), wide, clusters, design)["x_mean"]
    assert (value.interval, value.interval_note) == (None, "the spread is too large for a float")


def test_squares_beyond_all_floats_have_no_error() -> None:
    """The error of an average whose squares no float can sum is none, and the clusters are
    counted.
    """
    clusters = [[Ratio(sign * 10**310, 1, 1)] for sign in (1, -1, 1, -1)]
    assert measure_clustered_error(clusters) == (None, 4)


@pytest.mark.parametrize(
    ("value", "method"), [(0.0, "clustered_t"), (0.5, "clustered_wilson"), (1.0, "clustered_t")]
)
def test_shares_at_an_end_are_kept_within_it(value: float, method: str) -> None:
    """Wilson's form needs a share between the ends; at an end Student's interval is cut there."""
    clusters = [[Ratio(right, 1, 1)] for right in (0, 1, 0, 1, 0, 1)]
    result = bound_clustered(MetricValue("x", value, 9, is_share=True), clusters, Design())
    assert result.interval_method == method
    assert result.interval is not None
    assert (result.interval[0] >= 0, result.interval[1] <= 1) == (True, True)
    assert result.details["clusters"] == 6


def test_averages_of_shares_and_other_values_are_not_shares() -> None:
    """One group whose values are beyond 0 and 1 makes the average a plain number."""
    scores = make_scores({"x": [1, 0, 1, 2, 3, 5]})
    result = finish(Mean("x"), scores, {"g": list("aaabbb")}, Design(group_by=("g",)))
    macro = result["x_mean"].groups[0].macro
    assert macro.interval is not None
    assert macro.interval[1] > 1


IDS = pl.Series(["a", "b", "c"])


def test_labels_are_the_text_of_the_values() -> None:
    """Numbers and truth values are written as metrics write them, JSON text by its value.

    Null stays null.
    """
    for cells, labels, encoded in (
        ([1.5, None, 2.0], ["1.5", None, "2.0"], ""),
        ([True, False, None], ["True", "False", None], ""),
        (["q", None, ""], ["q", None, ""], ""),
        (['"A"', "3", None], ["A", "3", None], "x"),
    ):
        samples = samples_from_frame(pl.DataFrame({"x": cells}), IDS, encoded=frozenset(encoded))
        assert label_rows(samples, "x").to_list() == labels


def test_samples_without_a_label_form_a_group_and_stand_alone_as_clusters() -> None:
    """They are shown together under a name of their own; nothing says that they belong together."""
    assert name_groups(pl.Series(["x", None])).to_list() == ["x", "(none)"]
    result = name_clusters(pl.Series("c", ["x", None, None]), IDS)
    assert (result.n_unique(), result[0]) == (3, "x")


#: The judge's scores, from 1 to 5, by question.
SCORES = [1, 1, 5, 1, 2, 1]


def judge(messages: Any) -> str:  # noqa: ANN401 - a list of messages
    """Return the verdict on the question whose number is in the prompt."""
    number = int(re.findall(r"q(\d+)", str(messages[0]["content"]))[0])
    return json.dumps({"reasoning": "so", "score": SCORES[number % len(SCORES)], "confidence": 0.9})


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return an endpoint that judges; the call cache is this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with TestServer(judge) as running:
        yield running.url


def score(url: str, metrics: list[dict[str, object]] | None = None, *, rows: int = 6) -> ak.Run:
    """Return a run of a judge over these rows; each passage has two of them."""
    scorer: dict[str, object] = {
        "type": "model_as_a_judge_scorer",
        "model_key": f"{url}#judge",
        "user_prompt": "{{ sample.question }}: {{ model_output }}",
        "score_min": 1,
        "score_max": 5,
    }
    scorer |= {} if metrics is None else {"metrics": metrics}
    samples = [
        {"question": f"q{n}", "passage": f"p{n // 2}", "half": f"h{n % 2}"} for n in range(rows)
    ]
    task = {"key": "t", "display_name": "T", "definition": {"scorers": [scorer]}}
    return ak.score(task, samples, ["x"] * rows)


def test_the_mean_of_a_judge_keeps_to_its_scale(url: str) -> None:
    """Scores are from 0 to 1: the interval of their mean does not begin below 0."""
    value = score(url).metrics["Mean Score"]
    assert value.value == pytest.approx(5 / 24)
    assert value.interval is not None
    assert value.interval[0] == 0.0
    assert value.interval[1] == pytest.approx(0.62865, abs=1e-5)
    assert value.interval_method == "student_t"


@pytest.mark.parametrize(
    ("metric", "scale"),
    [
        ({"type": "mean", "field": "raw_score"}, (1.0, 5.0)),
        (
            {"type": "weighted_average", "field": "raw_score", "weights": {1: -2, 2: 0, 5: 3}},
            (-2.0, 3.0),
        ),
        ({"type": "mean", "field": "score", "cluster_by": "passage"}, (0.0, 1.0)),
    ],
)
def test_every_metric_keeps_to_its_scale(
    url: str, metric: dict[str, object], scale: tuple[float, float]
) -> None:
    """Means, weighted averages, clustered ones, and all groups and their average."""
    (value,) = score(url, [{**metric, "group_by": "half"}], rows=12).metrics.values()
    groups = value.groups[0]
    results = [(number.value, number.interval) for number in (value, groups.macro, *groups.values)]  # type: ignore[attr-defined]
    ends = [(middle, *interval) for middle, interval in results if interval is not None]
    assert ends
    assert all(scale[0] <= low <= middle <= high <= scale[1] for middle, low, high in ends)
