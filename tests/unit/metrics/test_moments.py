"""Laws of `mean`, `max`, `min`, `std_dev` and `weighted_average`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import pytest
from tests.lazy import stats

from answerkey.errors import ScoringError, SpecError
from answerkey.metrics import Mean, Metric, wilson
from answerkey.metrics.intervals import student
from answerkey.metrics.moments import Max, Min, StdDev, WeightedAverage
from answerkey.runs import join_parts
from answerkey.types import Scores

from .conftest import compute, make_scores

NOTHING = "no sample counts towards it"
TABLE = WeightedAverage("x", {"good": 1.0, "fair": 0.5, "bad": 0.0})


def check(
    metric: Metric, x: Sequence[object], w: Sequence[object] | None = None, **expected: object
) -> None:
    """Check the one value of a metric over columns `x` and `w`."""
    columns = {"x": x} if w is None else {"x": x, "w": w}
    (value,) = compute(metric, make_scores(columns)).values()
    assert {name: getattr(value, name) for name in expected} == expected


def test_the_mean_of_right_and_wrong_is_a_share() -> None:
    """It says how many of how many, and how sure that is; true counts as 1, false as 0."""
    share: dict[str, Any] = {"interval": wilson(3, 4), "interval_method": "wilson"}
    details = {"count": 3, "of": 4}
    check(Mean("x"), [1.0, 0.0, 1.0, 1.0], value=0.75, n=4, type="mean", details=details, **share)
    check(Mean("x"), [True, False], value=0.5, interval=wilson(1, 2))
    check(Mean("x", name="Mean Score"), [2], name="Mean Score")


def test_the_mean_of_other_numbers_has_the_interval_of_student() -> None:
    """Mean ± t · s/√n with n - 1 degrees, as scipy has it; without a spread the note says why."""
    numbers = [0.2, 0.9, 0.4, 0.4, 0.7]
    ends = pytest.approx(stats.ttest_1samp(numbers, 0).confidence_interval(0.95), rel=1e-12)
    error = pytest.approx(stats.sem(numbers), rel=1e-14)
    check(Mean("x"), numbers, interval=ends, std_error=error, interval_method="student_t")
    alike = "all samples are alike, which says nothing about the spread"
    check(Mean("x"), [0.5, 0.5], value=0.5, interval=None, interval_note=alike)
    single = "there is only one sample, and a spread needs two"
    check(Mean("x"), [0.5], value=0.5, interval=None, interval_note=single)
    note, numbers = "the spread is too large for a float", [1.5e308, -1.5e308]
    check(Mean("x"), numbers, value=0.0, std_error=1.5e308, interval=None, interval_note=note)


def test_sums_are_not_rounded_on_the_way() -> None:
    """Ten times 0.1 has the mean 0.1.

    Large terms that cancel leave the small ones; nothing overflows.
    """
    check(Mean("x"), [0.1] * 10, value=0.1)
    check(Mean("x"), [1e300, 1.0, -1e300, 1.0], value=0.5)
    check(WeightedAverage("x", {"a": 1.7e308}), ["a", "a"], value=1.7e308, note=None)


def test_ends_are_values_of_the_field() -> None:
    """The largest of a sample says nothing about the largest there is."""
    unknown = "the end of a sample says nothing about values not seen"
    check(Max("x"), [3, -2, 7], name="x_max", value=7.0, interval=None, interval_note=unknown)
    check(Min("x"), [3, -2, 7], name="x_min", value=-2.0, interval=None, interval_note=unknown)
    for numbers in ([0.0, -0.0], [-0.0, 0.0]):
        assert repr(compute(Min("x"), make_scores({"x": numbers}))["x_min"].value) == "0.0"


def test_the_deviation_is_that_of_a_sample() -> None:
    """The divisor is n - 1; one value has none, and neither has what no float can hold."""
    numbers = [2 / 3, 1.0, 2 / 3, 1.0, 2 / 3]
    unsure = dict.fromkeys(["interval", "std_error", "interval_method"])
    note = "answerkey computes none for a standard deviation"
    value = statistics.stdev(numbers)
    check(StdDev("x"), numbers, name="x_std_dev", value=value, interval_note=note, **unsure)
    check(StdDev("x"), [5.0], value=None, n=1, note="it needs at least two values, there is one")
    check(StdDev("x"), [1.7e308, -1.7e308], value=None, note="the value is too large for a float")


def test_a_table_gives_the_mean_of_the_weights() -> None:
    """Weights are numbers like others; a value without a weight is left out and counted."""
    error = float(stats.sem([1.0, 0.5, 1.0, 0.0]))
    sure: dict[str, Any] = {"std_error": pytest.approx(error), "interval_method": "student_t"}
    sure |= {"interval": pytest.approx(student(0.625, error, 3)), "note": None}
    check(TABLE, ["good", "fair", "good", "bad"], value=0.625, **sure)
    left_out = {"no_weight": 1, "null": 1}
    check(TABLE, ["good", "fair", "good", "odd", None], value=2.5 / 3, n=3, n_excluded=left_out)


def test_a_number_finds_its_weight_in_any_spelling() -> None:
    """Keys that read as no number are passed over; the text "1.0" is not the number 1."""
    for key in ("1.0", "1", 1, 1.0):
        check(WeightedAverage("x", {key: 3.0}), [1.0], value=3.0)
    check(WeightedAverage("x", {"none": 7.0, "2.50": 3.0}), [2.5, 1.5], value=3.0, n=1)
    left_out = {"no_weight": 1}
    check(WeightedAverage("x", {"1": 3.0}), ["1.0"], value=None, note=NOTHING, n_excluded=left_out)


@pytest.mark.parametrize(
    "metric", [Mean("x"), Max("x"), Min("x"), StdDev("x"), TABLE], ids=lambda one: one.type
)
def test_without_numbers_there_is_no_value(metric: Metric) -> None:
    """Neither 0 nor NaN: a null with the reason, also for a task without any samples."""
    scores = make_scores({"x": [None, None]}, status=["FAILED", "SCORED"])
    (value,) = compute(metric, scores).values()
    assert (value.value, value.n, value.note) == (None, 0, NOTHING)
    assert value.n_excluded == {"failed": 1, "null": 1}
    (value,) = metric.compute(Scores(scores.frame.head(0)))
    assert (value.value, value.n, value.n_excluded) == (None, 0, {})


def test_left_out_samples_are_counted_by_reason() -> None:
    """Failed, errors, excluded and null samples are left out, each with its reason."""
    scores = make_scores(
        {"x": [1.0, None, None, 0.0, None, 1.0]},
        status=["SCORED", "FAILED", "ERROR", "SCORED", "SCORED", "SCORED"],
        excluded_by=[None, None, None, "refusals", None, None],
    )
    value = compute(Mean("x"), scores)["x_mean"]
    assert (value.value, value.n) == (1.0, 2)
    assert value.n_excluded == {"error": 1, "excluded:refusals": 1, "failed": 1, "null": 1}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 10**400])
def test_values_that_are_not_finite_are_left_out_and_named(number: float) -> None:
    """NaN, infinity and integers too large for a float cannot be averaged."""
    scores = make_scores({"x": [1.0, number]}, encoded=["x"] * (number == 10**400))
    value = compute(Mean("x"), scores)["x_mean"]
    assert (value.value, value.n, value.n_excluded) == (1.0, 1, {"not_finite": 1})
    assert value.note == "1 NaN or infinite left out"


def test_unsuitable_fields_are_errors() -> None:
    """The error shows what the field holds, in samples.

    A misspelt field is not a column of nulls.
    """

    def refuse(metric: Metric, message: str, hint: str, **columns: list[Any]) -> None:
        with pytest.raises(ScoringError) as caught:
            compute(metric, make_scores(columns))
        assert (caught.value.code, caught.value.message) == ("E402", message)
        assert caught.value.hint == hint

    text = "`frequency` and the classification metrics read text"
    for metric in (Mean("x"), Max("x"), Min("x"), StdDev("x")):
        held = "needs numbers, but `x` has other values in 2 samples, such as 'A', 'B'"
        refuse(metric, f"`{metric.type}` {held}", text, x=["B", "A"])

    missing = "`mean`: no score has the field `is_corect`"
    refuse(Mean("is_corect"), missing, "did you mean `is_correct`?", is_correct=[1.0])


def test_fields_are_read_wherever_they_are() -> None:
    """Values before metadata of the same name.

    Null in a chunk that lacks the field; mixed kinds as JSON.
    """
    metric = Mean("x")
    assert compute(metric, make_scores({"x": [1.0]}, {"x": [5.0]}))["x_mean"].value == 1.0
    chunks = [make_scores({"x": [1.0]}).frame, make_scores({"y": [1.0, 2.0]}).frame]
    (value,) = metric.compute(Scores(join_parts(chunks)))
    assert (value.value, value.n, value.n_excluded) == (1.0, 1, {"null": 2})
    value = compute(metric, make_scores({"x": [1, 0.5, True, None]}, encoded=["x"]))["x_mean"]
    assert (value.value, value.n, value.n_excluded) == (2.5 / 3, 3, {"null": 1})


@pytest.mark.parametrize(
    "weights", [{}, {"A": "much"}, {"A": True}, {"A": float("nan")}, {"A": None}]
)
def test_weights_that_are_none_are_refused(
    weights: dict[str | bool | float, float],
) -> None:
    """Empty weights, and weights that are not numbers, are a mistake in the file."""
    with pytest.raises(SpecError) as caught:
        WeightedAverage("x", weights)
    assert caught.value.code == "E108"
    advice = "give each value of the field a weight"
    assert caught.value.hint == (None if weights else advice)
