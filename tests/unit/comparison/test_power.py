"""Laws of planned comparisons: where the variance comes from, and what follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import answerkey as ak
from answerkey.errors import AnswerkeyError, SpecError

from .conftest import Make

Call = Callable[..., Any]


def test_a_given_variance_has_its_known_plan(call: Call) -> None:
    """Miller's example: ω² = 1/9, σ² = 1/6 of each, a difference of 0.03; fractions may be
    written.
    """
    plan = ak.plan_comparison(difference=0.03, omega2=4 / 9)
    assert plan.needed == ((0.03, 3_876),)
    assert (plan.samples, plan.smallest, plan.achieved) == (None, None, None)
    shown = call("power", "--difference", "0.03", "--omega2", "4/9")
    assert "  difference  samples\n    3 points     3876\n" in shown.out


@pytest.mark.parametrize(
    ("options", "variance"),
    [
        ({"accuracy": [0.8]}, 0.32),
        ({"accuracy": [0.8], "correlation": 0.5}, 0.16),
        ({"accuracy": [0.8, 0.5]}, 0.41),
    ],
)
def test_accuracies_have_their_variance(options: dict[str, Any], variance: float) -> None:
    """p(1-p) of each model, less twice their covariance when the samples are the same."""
    assert ak.plan_comparison(**options).variance == pytest.approx(variance)


def test_a_run_lends_its_variance_to_both_models(make: Make, call: Call) -> None:
    """Eight of ten right: the sample variance of a right answer, twice.

    The samples are those of the run.
    """
    run = make("done", "AABBAABB??")
    plan = ak.plan_comparison(run)
    assert plan.variance == pytest.approx(2 * 0.16 * 10 / 9)
    assert plan.samples == 10
    assert plan.notices
    assert ak.plan_comparison(run, correlation=0.5).notices == ()
    shown = call("power", "done")
    assert "(variance of `done` for both models, correlation 0)" in shown.out
    assert "the models' answers are assumed to be independent" in shown.err
    with pytest.raises(SpecError, match="3 runs"):
        ak.plan_comparison(run, run, run)


def test_two_runs_lend_the_variance_of_their_differences(make: Make) -> None:
    """Of four samples they differ on one: differences 1, 0, 0, 0."""
    runs = [make("a", "AA?B"), make("b", "?A?B")]
    plan = ak.plan_comparison(*runs, difference=0.5)
    assert plan.variance == pytest.approx(0.25)
    assert plan.achieved == pytest.approx(0.516, abs=0.001)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accuracy": [0.5], "omega2": 0.1}, "only one source"),
        ({"accuracy": [1.5]}, "not between 0 and 1"),
        ({"accuracy": [0.5], "correlation": 2.0}, "`correlation` is 2.0"),
        ({"accuracy": [0.5], "difference": 0.0}, "not above 0"),
        ({"accuracy": [0.5], "difference": 2.0}, "accuracies differ by at most 1"),
        ({"accuracy": [0.5], "samples": 0}, "not above 0"),
        ({"accuracy": [0.5], "alpha": 0.0}, "`alpha` is 0.0"),
        ({"accuracy": [0.5, 0.6, 0.7]}, "given 3 times"),
        ({"omega2": -0.1}, "cannot be negative"),
    ],
)
def test_what_cannot_be_planned_is_refused(options: dict[str, Any], message: str) -> None:
    """E119, with what is wrong and what to write."""
    with pytest.raises(AnswerkeyError, match=rf"^error\[E119\]: .*{message}"):
        ak.plan_comparison(**options)


@pytest.mark.parametrize("words", ["--difference x", "--accuracy 1/0", "--accuracy 2"])
def test_text_that_is_not_a_number_is_refused(call: Call, words: str) -> None:
    """E119 with what to write."""
    refused = call("power", *words.split())
    assert (refused.code, "error[E119]" in refused.err) == (2, True)


def test_the_command_prints_the_plan(call: Call) -> None:
    """A table of usual differences, what the samples show, and how often.

    `--json` has the same in full.
    """
    shown = call("power", "--accuracy", "85%", "--correlation", "0.5", "--samples", "2000").out
    assert "     1 point    10008\n" in shown
    assert "   10 points      101\n" in shown
    assert "  2000 samples detect a difference of 2.24 points or more\n" in shown
    assert "(accuracy 0.85, correlation 0.5)" in shown
    words = ("--accuracy", "0.5", "--samples", "1000", "--difference", "5%", "--alpha", "0.01")
    assert "  and one of 5 points in 36.7 % of all cases\n" in call("power", *words).out
    plan = call("power", "--accuracy", "0.8", "--difference", "0.05", "--json").json["power"]
    assert plan["needed"] == [{"difference": 0.05, "samples": 1005}]
    assert (plan["samples"], plan["basis"]) == (None, "accuracy 0.8, correlation 0")


def test_without_a_variance_the_largest_is_assumed_with_a_warning(call: Call) -> None:
    """A difference alone is enough: accuracy 0.5, at which right and wrong answers vary most."""
    shown = call("power", "--difference", "0.02")
    assert shown.out == call("power", "--difference", "0.02", "--accuracy", "0.5").out
    assert "    2 points     9812\n" in shown.out
    assert "warning: the variance is unknown" in shown.err
    assert all(ak.plan_comparison(accuracy=[share]).variance < 0.5 for share in (0.4, 0.6, 0.8))
