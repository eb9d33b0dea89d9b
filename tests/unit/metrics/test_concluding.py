from __future__ import annotations

import math

import pytest

from answerkey.errors import ScoringError
from answerkey.metrics import Mean, wilson
from answerkey.metrics.base import say_samples
from answerkey.metrics.intervals import (
    Margin,
    Share,
    bound_margin,
    measure_f1,
    measure_mean,
    measure_ratio,
    measure_share,
    score_interval,
    student,
)

METRIC = Mean("x")


def test_a_share_of_one_sample_has_no_standard_error() -> None:
    """Its interval is Wilson's all the same."""
    assert measure_share(Share(1, 1)) == Margin(None, wilson(1, 1), "wilson", is_share=True)
    assert measure_share(Share(1, 2)).std_error == 0.5
    assert measure_share(Share(3, 10)).std_error == pytest.approx((0.3 * 0.7 / 9) ** 0.5)


def test_f1_of_one_sample_has_no_standard_error() -> None:
    """From two on it has: that of J by the delta method."""
    low, _ = wilson(1, 1)
    assert measure_f1(1, 0) == Margin(None, (2 * low / (1 + low), 1.0), "wilson", is_share=True)
    share = 3 / 5
    error = (share * (1 - share) / 4) ** 0.5 * 2 / (1 + share) ** 2
    assert measure_f1(3, 2).std_error == pytest.approx(error)
    assert measure_f1(1, 1).std_error == pytest.approx((0.5 * 0.5) ** 0.5 * 2 / 1.5**2)


def test_means_have_student_s_interval() -> None:
    """With one degree of freedom less than there are samples."""
    assert measure_mean(2.0, 0.5, 9) == Margin(0.5, student(2.0, 0.5, 8), "student_t")
    assert measure_mean(0.9, 0.5, 9, is_share=True) == Margin(0.5, (0.0, 1.0), "student_t", is_share=True)


def test_ratios_have_the_interval_of_their_kind() -> None:
    """A share that of the effective sample, any other number Student's."""
    share = measure_ratio(0.4, 0.1, 9, is_share=True)
    assert share == Margin(0.1, score_interval(0.4, 0.1, 8), "ratio_wilson", is_share=True)
    assert measure_ratio(4.0, 0.1, 9, is_share=False) == Margin(0.1, student(4.0, 0.1, 8), "ratio_t")


@pytest.mark.parametrize("is_share", [True, False])
def test_without_a_spread_the_note_says_why(*, is_share: bool) -> None:
    """One sample, samples that are alike, or a spread beyond all floats."""
    one = Margin(None, note="there is one sample, and a spread needs two", is_share=is_share)
    alike = Margin(0.0, note="all samples are alike, which says nothing about the spread", is_share=is_share)
    huge = Margin(None, note="the spread is too large for a float", is_share=is_share)
    for measure in (measure_mean, measure_ratio):
        assert measure(1.0, None, 1, is_share=is_share) == one
        assert measure(1.0, 0.0, 2, is_share=is_share) == alike
        assert measure(1.0, None, 2, is_share=is_share) == huge


@pytest.mark.parametrize("interval", [(0.0, math.inf), (-math.inf, 0.0), (-math.inf, math.inf)])
def test_an_interval_with_an_end_beyond_floats_is_none(interval: tuple[float, float]) -> None:
    """One such end is enough."""
    assert bound_margin(1.0, interval, "m") == Margin(1.0, note="the spread is too large for a float")
    assert bound_margin(1.0, (0.0, 1.0), "m") == Margin(1.0, (0.0, 1.0), "m")


def test_a_field_that_is_nowhere_is_named_with_a_hint() -> None:
    """With the name that it may stand for, or with those that there are; without rows nothing is missed."""
    with pytest.raises(ScoringError) as caught:
        Mean("is_corect").check({"rows": 1, "names": ["is_correct"]})
    assert (caught.value.code, str(caught.value.hint)) == ("E402", "did you mean `is_correct`?")
    with pytest.raises(ScoringError) as caught:
        Mean("grade").check({"rows": 1, "names": ["x"]})
    assert caught.value.hint == "the scorer has `x`"
    Mean("grade").check({"rows": 0, "names": []})
    Mean("grade").check({})


def test_values_that_are_no_numbers_are_shown() -> None:
    """How many samples, and three of the values at most."""
    part = {"unsuitable": {"x": 4}, "examples": {"x": ["'a'", "'b'", "'c'", "'d'"]}}
    with pytest.raises(ScoringError) as caught:
        Mean("x").check(part)
    held = "holds other values in 4 samples, such as 'a', 'b', 'c'"
    assert caught.value.message == f"`mean` needs numbers, but `x` {held}"
    assert caught.value.hint == "`frequency` and the classification metrics read text"


def test_values_say_what_was_left_out() -> None:
    """In the order of the reasons; those that are not finite are in the note as well."""
    value = METRIC.state("x", 1.0, {"n": 3, "left_out": {"null": 2, "not_finite": 1}}, note="so")
    assert list(value.n_excluded.items()) == [("not_finite", 1), ("null", 2)]
    assert (value.n, value.note, value.type) == (3, "so; 1 NaN or infinite left out", "mean")
    assert METRIC.state("x", 1.0, {}).n == 0


def test_without_a_value_there_is_no_margin() -> None:
    """Neither an interval, nor a note about one."""
    value = METRIC.state("x", None, {}, margin=Margin(1.0, (0.0, 1.0), "m", "note", is_share=True))
    assert (value.std_error, value.interval, value.interval_method, value.interval_note) == (None,) * 4
    assert value.is_share is False


def test_shares_say_their_counts() -> None:
    """A share of nothing has a note in place of a value."""
    value = METRIC.state_share("x", Share(1, 4), {"n": 4}, details={"more": 1})
    assert (value.value, dict(value.details)) == (0.25, {"count": 1, "of": 4, "more": 1})
    assert value.interval == wilson(1, 4)
    empty = METRIC.state_share("x", Share(0, 0), {"n": 4})
    assert (empty.value, empty.note) == (None, "no sample counts towards it")
    assert dict(empty.details) == {"count": 0, "of": 0}


def test_samples_are_counted_in_words() -> None:
    """One is not plural."""
    assert [say_samples(count) for count in (0, 1, 2)] == ["0 samples", "1 sample", "2 samples"]
