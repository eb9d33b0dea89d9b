from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from scipy import stats

from answerkey.metrics import Metric, StdDev
from answerkey.metrics.resampling import MOST_CELLS
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
