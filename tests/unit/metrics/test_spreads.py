from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from scipy import stats

from answerkey.metrics import Metric, StdDev
from answerkey.metrics.concluding import Margin
from answerkey.metrics.intervals import student
from answerkey.metrics.observed import Observed
from answerkey.metrics.resampling import MOST_CELLS
from answerkey.metrics.spreads import close_spread, measure_spread, merge_spreads
from answerkey.types import MetricValue, Scores

MakeScores = Callable[..., Scores]
Compute = Callable[[Metric, Scores], dict[str, MetricValue]]


def draw(count: int) -> list[float]:
    """Return so many normal numbers."""
    random = Random(5)
    return [random.gauss(3, 2) for _ in range(count)]


def test_few_values_are_resampled(make_scores: MakeScores, compute: Compute) -> None:
    """The interval is scipy's BCa interval, up to the chance of the draws."""
    numbers = draw(40)
    value = compute(StdDev("x"), make_scores({"x": numbers}))["x_std_dev"]
    theirs = stats.bootstrap(
        (numbers,), lambda row, axis: row.std(axis=axis, ddof=1), n_resamples=10_000, method="BCa", rng=0
    )
    assert value.interval_method == "bca"
    assert value.interval == pytest.approx(tuple(theirs.confidence_interval), rel=0.04)


def test_many_values_have_the_error_of_large_samples(make_scores: MakeScores, compute: Compute) -> None:
    """Of normal numbers s has about the standard error s/√(2n)."""
    count = 3_000
    value = compute(StdDev("x"), make_scores({"x": draw(count)}))["x_std_dev"]
    assert value.interval_method == "student_t"
    assert value.std_error == pytest.approx((value.value or 0) / (2 * count) ** 0.5, rel=0.05)
    assert value.interval == student(value.value or 0, value.std_error or 0, count - 1)


def test_scale_and_place_do_not_matter(make_scores: MakeScores, compute: Compute) -> None:
    """Numbers that are a billion times as large, or far from 0, have the interval as large, or the same."""
    numbers = [float(round(number)) for number in draw(60)]
    plain = compute(StdDev("x"), make_scores({"x": numbers}))["x_std_dev"]
    large = compute(StdDev("x"), make_scores({"x": [number * 2.0**30 for number in numbers]}))["x_std_dev"]
    far = compute(StdDev("x"), make_scores({"x": [number + 2.0**30 for number in numbers]}))["x_std_dev"]
    assert plain.interval is not None
    assert large.interval == pytest.approx([end * 2.0**30 for end in plain.interval], rel=1e-9)
    assert far.interval == pytest.approx(plain.interval, rel=1e-9)


def test_whether_values_are_many_does_not_depend_on_shards(make_scores: MakeScores) -> None:
    """One value more than can be resampled, in one shard or in two, makes the same part."""
    metric = StdDev("x")
    numbers = [float(number) for number in range(MOST_CELLS + 1)]
    whole = metric.merge([metric.measure(make_scores({"x": numbers}))])
    halves = metric.merge([metric.measure(make_scores({"x": part})) for part in (numbers[:9], numbers[9:])])
    assert (whole["wide"], whole["cells"], halves["wide"], halves["cells"]) == (1, {}, 1, {})
    assert metric.finish(halves) == metric.finish(whole)


def test_an_error_below_all_floats_makes_no_interval() -> None:
    """Almost all numbers lie at two points, and the others differ from them by the smallest floats."""
    unit = 5e-324
    places = [2.0**40 + step for step in range(MOST_CELLS // 2 + 1)]
    counts = [
        ((sign * unit * place,), 1 if step else 10**9)
        for sign in (1, -1)
        for step, place in enumerate(places)
    ]
    metric = StdDev("x")
    (value,) = metric.finish(metric.merge([metric.collect(Observed(counts, Counter(), ["x"]))]))
    assert value.value == pytest.approx(unit * 2.0**40)
    assert (value.std_error, value.interval) == (0.0, None)
    assert value.interval_note == "the error is too small for a float"


def test_the_error_of_many_values_is_that_of_the_fourth_moment() -> None:
    """Of numbers 1 to 1,000, each once, by hand from their central moments."""
    numbers = [float(number) for number in range(1, 1001)]
    mean = sum(numbers) / 1000
    second = sum((number - mean) ** 2 for number in numbers) / 1000
    fourth = sum((number - mean) ** 4 for number in numbers) / 1000
    deviation = (second * 1000 / 999) ** 0.5
    metric = StdDev("x")
    observed = Observed([((number,), 1) for number in numbers], Counter(), ["x"])
    (value,) = metric.finish(metric.merge([metric.collect(observed)]))
    assert value.value == pytest.approx(deviation, rel=1e-12)
    expected = ((fourth - second**2) / 1000 / (4 * deviation**2)) ** 0.5
    assert value.std_error == pytest.approx(expected, rel=1e-12)


def test_no_deviation_has_no_margin() -> None:
    """One number deviates from nothing."""
    assert measure_spread({"wide": 0, "cells": {"1.0": 1}}, None) == Margin()


def test_as_many_cells_as_can_be_resampled_are_kept() -> None:
    """500 distinct numbers are, one more is not."""
    counts = [((float(number),), 2) for number in range(MOST_CELLS)]
    part = close_spread({}, counts)
    assert (part["wide"], len(part["cells"]), part["cells"]["3.0"]) == (0, MOST_CELLS, 2)
    more = close_spread({}, [((-1.0,), 1)])
    assert merge_spreads([part, part])["cells"]["3.0"] == 4
    assert (merge_spreads([part, more])["wide"], merge_spreads([part, more])["cells"]) == (1, {})


def test_only_finite_numbers_have_cells_and_powers() -> None:
    """Equal numbers are one cell, however they are written; powers are exact."""
    part = close_spread({}, [((1,), 2), ((1.0,), 1), ((0.5,), 1), ((float("nan"),), 1), (("a",), 1)])
    assert part["cells"] == {"1.0": 3, "0.5": 1}
    assert (part["cubes"] >> 3 * 1074 - 3, part["fourths"] >> 4 * 1074 - 4) == (25, 49)


def test_resampled_deviations_are_repeatable() -> None:
    """The seed is the part's, or 0; halves of the numbers are put back to their size."""
    part = close_spread({}, [((float(number**2),), 1) for number in range(12)])
    first, again = (measure_spread({**part, "seed": 0}, 1.0), measure_spread(part, 1.0))
    assert first == again
    assert measure_spread({**part, "seed": 1}, 1.0) != first
    assert first.interval == pytest.approx((30.14422455096031, 54.24162077113821), rel=1e-12)
    assert first.method == "bca"
