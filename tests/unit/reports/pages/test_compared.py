from __future__ import annotations

from typing import Any

import pytest

from answerkey.reports import html
from answerkey.reports.html import describe_comparison, list_compared
from answerkey.runs import Run

from .conftest import MakeRun, list_rows, open_table


def describe(*runs: Run, baseline: str | None = None, common: bool = False) -> dict[str, Any]:
    """Return the comparison of runs that are called r0, r1 and so on."""
    named = {f"r{number}": run for number, run in enumerate(runs)}
    tables = {name: {"quiz": open_table(run)} for name, run in named.items()}
    return describe_comparison(named, tables, baseline=baseline, common=common)


def test_a_pair_has_all_that_a_page_shows(make_run: MakeRun) -> None:
    """Difference with interval and test, a sentence, categories, flips with their places."""
    found = describe(make_run("a"), make_run("b", list_rows(q0="B", q1="B", q4="B")))
    assert found["notices"] == ["the datasets of `a` and `b` differ, though samples and truths are the same"]
    assert found["refused"] is None
    (task,) = found["tasks"]
    assert {name: task[name] for name in ("key", "samples", "is_share")} == {
        "key": "quiz",
        "samples": 5,
        "is_share": True,
    }
    assert [(run["id"], run["label"], run["mean"], run["n"]) for run in task["runs"]] == [
        ("r0", "a", 0.2, 5),
        ("r1", "b", 0.4, 5),
    ]
    (pair,) = task["pairs"]
    assert set(pair) == {
        "first", "second", "difference", "interval", "se", "p", "p_adjusted", "test", "is_significant",
        "first_only", "second_only", "left_out", "sentence", "categories", "flips", "flips_total",
    }  # fmt: skip
    assert (pair["first"], pair["second"], pair["difference"]) == ("r0", "r1", -0.2)
    assert (pair["first_only"], pair["second_only"], pair["flips_total"]) == (1, 2, 3)
    assert pair["test"] == "McNemar's exact test"
    assert pair["sentence"].startswith("a is 20.00 points worse than b on 5 samples, 95 % interval [")
    assert pair["sentence"].endswith("]: that may be chance (p = 1.00000).")
    assert pair["flips"] == [
        {"id": "000001", "p": {"r0": 0, "r1": 0}, "side": "first"},
        {"id": "000002", "p": {"r0": 1, "r1": 1}, "side": "second"},
        {"id": "000005", "p": {"r0": 4, "r1": 4}, "side": "second"},
    ]
    assert [one["label"] for one in pair["categories"]] == ["(none)", "mathematics", "nature"]


def test_a_baseline_is_held_against_all_others(make_run: MakeRun) -> None:
    """There is a pair for each other run, and its second is the baseline."""
    runs = make_run("a"), make_run("b"), make_run("c", list_rows(q0="B"))
    found = describe(*runs, baseline="r1")
    assert [(pair["first"], pair["second"]) for pair in found["tasks"][0]["pairs"]] == [
        ("r0", "r1"),
        ("r2", "r1"),
    ]
    assert [run["id"] for run in found["tasks"][0]["runs"]] == ["r0", "r2", "r1"]


def test_runs_that_are_equal_are_as_good_as_each_other(make_run: MakeRun) -> None:
    """No difference, no flips, and a sentence that says so."""
    (pair,) = describe(make_run("a"), make_run("b"))["tasks"][0]["pairs"]
    assert (pair["difference"], pair["flips"], pair["flips_total"]) == (0.0, [], 0)
    assert pair["sentence"].startswith("a is as good as b on 5 samples")


def test_runs_on_other_samples_are_refused_with_the_reason(make_run: MakeRun) -> None:
    """The page says why there is no comparison; `common` compares what both have."""
    runs = make_run("a"), make_run("b", list_rows()[:3])
    found = describe(*runs)
    assert found["tasks"] == []
    assert "2 samples of `a` are not in `b`" in found["refused"]
    assert "--common" in found["refused"]
    assert describe(*runs, common=True)["tasks"][0]["samples"] == 3


def test_flips_that_are_too_many_are_listed_from_both_sides(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their total says how many there are."""
    monkeypatch.setattr(html, "MOST_FLIPS", 2)
    (pair,) = describe(make_run("a"), make_run("b", list_rows(q0="B", q1="B", q4="B")))["tasks"][0]["pairs"]
    assert [one["side"] for one in pair["flips"]] == ["first", "second"]
    assert pair["flips_total"] == 3


def test_listed_flips_are_known_by_position(make_run: MakeRun) -> None:
    """What a report must embed so that flips can be looked at."""
    found = describe(make_run("a"), make_run("b", list_rows(q0="B", q1="B")))
    assert list_compared(found, "r0", 0) == [0, 1]
    assert list_compared(found, "r0", 1) == []
    assert list_compared(None, "r0", 0) == []
