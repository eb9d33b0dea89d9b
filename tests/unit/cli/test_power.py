from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.mark.parametrize(("trials", "samples"), [("1", "3876"), ("10", "1260")])
def test_known_plans(call: Call, trials: str, samples: str) -> None:
    """Numbers may be written as fractions: ω² = 1/9, σ² = 1/6, 3 points."""
    shown = call("power", "--difference", "0.03", "--omega2", "1/9", "--sigma2", "1/6", "--trials", trials)
    assert shown.code == 0
    assert f"  difference  samples\n    3 points     {samples}\n" in shown.out


def test_usual_differences_are_looked_up(call: Call) -> None:
    """Without a difference, a table of them."""
    shown = call("power", "--accuracy", "85%", "--correlation", "0.5", "--samples", "2000")
    assert "     1 point    10008\n" in shown.out
    assert "   10 points      101\n" in shown.out
    assert "  2000 samples show a difference of 2.24 points and more\n" in shown.out
    assert "(accuracy 0.85, correlation 0.5)" in shown.out


def test_without_a_variance_the_largest_is_taken_and_said(call: Call) -> None:
    """A difference alone is enough: accuracy 0.5, at which right and wrong answers vary most."""
    shown = call("power", "--difference", "0.02")
    assert (shown.code, shown.out) == (
        0,
        call("power", "--difference", "0.02", "--accuracy", "0.5").out,
    )
    assert "    2 points     9812\n" in shown.out
    assert "warning: nothing says how much samples vary" in shown.err
    assert all(
        call("power", "--accuracy", share, "--json").json["power"]["variance"] < 0.5
        for share in ("0.4", "0.6", "0.8")
    )


def test_power_of_what_is_planned(call: Call) -> None:
    """With samples and a difference, how often the one shows the other."""
    shown = call("power", "--accuracy", "0.5", "--samples", "1000", "--difference", "5%", "--alpha", "0.01")
    assert "  and one of 5 points in 36.7 % of all cases\n" in shown.out


def test_json(call: Call) -> None:
    """The same numbers, in full."""
    plan = call("power", "--accuracy", "0.8", "--difference", "0.05", "--unpaired", "--json").json["power"]
    assert plan["needed"] == [{"difference": 0.05, "samples": 1005}]
    assert (plan["is_paired"], plan["samples"], plan["basis"]) == (False, None, "accuracy 0.8")


@pytest.mark.parametrize("words", [("--difference", "x"), ("--accuracy", "1/0"), ("--accuracy", "2")])
def test_what_is_no_plan_is_refused(call: Call, words: tuple[str, ...]) -> None:
    """E119 with what to write."""
    refused = call("power", *words)
    assert refused.code == 2
    assert "error[E119]" in refused.err


def test_a_run_lends_its_variance(call: Call, run_folder: object) -> None:
    """One run stands for both models, which is said."""
    shown = call("power", run_folder)
    assert "(variance of `done` for both models, correlation 0)" in shown.out
    assert "as if the models' answers had nothing to do with each other" in shown.err
