from __future__ import annotations

import math
from itertools import combinations, permutations

import pytest

from answerkey.metrics import UNBIASED, WITH_K, Aggregator, AggregatorName

THREE_OF_FIVE = (1.0, 0.0, 1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("function", "k", "value"),
    [
        ("mean", None, 0.6),
        ("min", None, 0.0),
        ("max", None, 1.0),
        ("pass@k", 1, 0.6),
        ("pass@k", 2, 0.9),
        ("pass@k", 5, 1.0),
        ("pass^k", 1, 0.6),
        ("pass^k", 2, 0.3),
        ("pass^k", 3, 0.1),
        ("pass^k", 5, 0.0),
        ("pass@k_plugin", 5, 0.98976),
        ("pass^k_plugin", 5, 0.07776),
        ("pass@k_plugin", 2, 0.84),
    ],
)
def test_three_of_five_trials(function: AggregatorName, k: int | None, value: float) -> None:
    """Three successes in five trials give these numbers, rounded once."""
    assert Aggregator(function, k).apply(THREE_OF_FIVE) == value


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("right", [0, 1, 2, 3, 4])
def test_unbiased_forms_count_the_ways_to_draw_k_trials(right: int, k: int) -> None:
    """pass@k is the share of draws of k trials with a success, pass^k the share with nothing else."""
    trials = [1] * right + [0] * (4 - right)
    draws = list(combinations(trials, k))
    assert Aggregator("pass@k", k).apply(trials) == sum(any(draw) for draw in draws) / len(draws)
    assert Aggregator("pass^k", k).apply(trials) == sum(all(draw) for draw in draws) / len(draws)


@pytest.mark.parametrize("function", ["mean", "min", "max", "pass@k", "pass^k"])
def test_the_order_of_trials_does_not_matter(function: AggregatorName) -> None:
    """Any order of the same trials gives the same number, bit for bit."""
    one = Aggregator(function, 2 if function in WITH_K else None)
    trials = (0.0, 1.0, 1.0) if function in UNBIASED else (0.1, 0.2, 1e17)
    assert len({one.apply(order) for order in permutations(trials)}) == 1


def test_a_mean_is_exact() -> None:
    """Sums are not rounded on the way."""
    assert Aggregator("mean").apply((1e16, 1.0, -1e16)) == 1 / 3
    assert Aggregator("mean").apply((True, False, True)) == 2 / 3


@pytest.mark.parametrize("function", ["pass@k", "pass^k"])
def test_unbiased_forms_need_zeros_and_ones(function: AggregatorName) -> None:
    """A trial that is neither a success nor a failure, or too few trials, give no number."""
    assert Aggregator(function, 1).apply((0.5, 1.0)) is None
    assert Aggregator(function, 3).apply((0, 1)) is None


def test_plugin_forms_take_any_share() -> None:
    """The mean stands for p, if it is a share at all."""
    assert Aggregator("pass@k_plugin", 2).apply((0.5, 0.5)) == 0.75
    assert Aggregator("pass^k_plugin", 2).apply((0.5, 0.5)) == 0.25
    assert Aggregator("pass@k_plugin", 2).apply((3.0, 0.0)) is None
    assert Aggregator("pass^k_plugin", 2).apply((-1.0, 0.0)) is None


def test_a_missing_trial_is_never_a_zero() -> None:
    """A null or a text among the trials gives no number; a value that is not finite stays visible."""
    assert Aggregator("mean").apply((1.0, None)) is None
    assert Aggregator("max").apply((1.0, "yes")) is None
    assert Aggregator("mean").apply(()) is None
    assert math.isnan(Aggregator("mean").apply((1.0, math.inf)) or 0)


def test_labels_have_k_filled_in() -> None:
    """The label is how a metric names the aggregate."""
    labels = [Aggregator(name, k).label for name, k in LABELLED]
    assert labels == ["mean", "pass@3", "pass^10", "pass@2_plugin"]


LABELLED: list[tuple[AggregatorName, int | None]] = [
    ("mean", None),
    ("pass@k", 3),
    ("pass^k", 10),
    ("pass@k_plugin", 2),
]


def test_without_k_one_trial_is_drawn() -> None:
    """`pass@k` is then the mean."""
    assert Aggregator("pass@k").apply([1, 0, 0, 0]) == 0.25
    assert Aggregator("pass^k").apply([1, 0, 0, 0]) == 0.25


def test_a_share_of_all_is_within_the_ends() -> None:
    """The plug-in estimates take 0 and 1."""
    for function in ("pass@k_plugin", "pass^k_plugin"):
        assert [Aggregator(function, 3).apply(values) for values in ([1, 1], [0, 0])] == [1.0, 0.0]
        assert Aggregator(function, 3).apply([1, 2]) is None
