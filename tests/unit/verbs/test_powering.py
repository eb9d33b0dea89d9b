"""Laws of planned comparisons: where the variance comes from, and what follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import answerkey as ak
from answerkey.errors import AnswerkeyError, SpecError

SCORER = {"type": "string_equals_mcqa", "ground_truth_choice": "{{ sample.answer }}", "choices": ["A", "B"]}


def make_run(folder: Path, name: str, said: list[str]) -> ak.Run:
    """Return a run in which the replies to sample `n` are the letters of `said[n]`; the truth is always A."""
    size = len(said[0])
    definition: dict[str, Any] = {"scorers": [SCORER]}
    definition |= {"trials": {"num_trials": size}} if size > 1 else {}
    task = {"key": "quiz", "display_name": "Quiz", "description": "", "definition": definition}
    (folder / f"{name}.yaml").write_text(json.dumps(task))
    pl.DataFrame({"sample_id": [str(n) for n in range(len(said))], "answer": ["A"] * len(said)}).write_ndjson(
        folder / "rows.jsonl"
    )
    replies = [
        {"sample_id": str(n), "trial": trial, "completion": letter}
        for n, letters in enumerate(said)
        for trial, letter in enumerate(letters)
    ]
    pl.DataFrame(replies).write_ndjson(folder / f"{name}.jsonl")
    files: dict[str, Any] = {
        "dataset": str(folder / "rows.jsonl"),
        "completions": str(folder / f"{name}.jsonl"),
    }
    return ak.run(folder / f"{name}.yaml", out=folder / "runs" / name, **files)


@pytest.mark.parametrize(("trials", "samples"), [((1,), 3_876), ((10,), 1_260)])
def test_given_variances_have_their_known_plan(trials: tuple[int, ...], samples: int) -> None:
    """Miller's example: ω² = 1/9 and σ² = 1/6 of each, a difference of 0.03."""
    plan = ak.plan_comparison(difference=0.03, omega2=1 / 9, sigma2=[1 / 6], trials=trials)
    assert plan.needed == ((0.03, samples),)
    assert (plan.samples, plan.smallest, plan.achieved) == (None, None, None)


def test_accuracies_have_the_variance_of_right_and_wrong() -> None:
    """p(1-p) of each model, less twice their covariance when the samples are the same."""
    assert ak.plan_comparison(accuracy=[0.8]).variance == pytest.approx(0.32)
    assert ak.plan_comparison(accuracy=[0.8], correlation=0.5).variance == pytest.approx(0.16)
    assert ak.plan_comparison(accuracy=[0.8, 0.5]).variance == pytest.approx(0.41)
    unpaired = ak.plan_comparison(accuracy=[0.8], correlation=0.5, is_paired=False)
    assert unpaired.variance == pytest.approx(0.32)


def test_a_run_lends_its_variance_to_both_models(tmp_path: Path) -> None:
    """Eight of ten right: the sample variance of a right answer, twice; the samples are those of the run."""
    run = make_run(tmp_path, "a", ["A"] * 8 + ["B"] * 2)
    plan = ak.plan_comparison(run)
    assert plan.variance == pytest.approx(2 * 0.16 * 10 / 9)
    assert plan.samples == 10
    assert plan.notices
    assert ak.plan_comparison(run, correlation=0.5).notices == ()


def test_two_runs_lend_the_variance_of_their_differences(tmp_path: Path) -> None:
    """Of four samples they differ on one: differences 1, 0, 0, 0."""
    runs = [make_run(tmp_path, "a", ["A", "A", "B", "A"]), make_run(tmp_path, "b", ["B", "A", "B", "A"])]
    plan = ak.plan_comparison(*runs, difference=0.5)
    assert plan.variance == pytest.approx(0.25)
    assert plan.achieved == pytest.approx(0.516, abs=0.001)
    assert ak.plan_comparison(*runs, is_paired=False).variance == pytest.approx(1 / 4 + 1 / 3)


def test_trials_tell_chance_from_samples(tmp_path: Path) -> None:
    """The variance within samples shrinks with more trials; that between samples stays."""
    run = make_run(tmp_path, "a", ["AB", "AB", "AA", "BB", "AA", "AB"])
    plan = ak.plan_comparison(run, correlation=0.1)
    assert plan.spread is not None
    assert plan.spread.first == pytest.approx(0.25)
    assert plan.spread.first_trials == 2
    many = ak.plan_comparison(run, correlation=0.1, trials=[100])
    assert many.variance == pytest.approx(plan.spread.between + 0.5 / 100)


def test_more_trials_need_to_know_what_is_chance(tmp_path: Path) -> None:
    """A run that asked once cannot tell."""
    run = make_run(tmp_path, "a", ["A", "B", "A"])
    with pytest.raises(SpecError, match="asked each sample once"):
        ak.plan_comparison(run, trials=[5])
    with pytest.raises(SpecError, match="is not known"):
        ak.plan_comparison(accuracy=[0.5], trials=[5])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accuracy": [0.5], "omega2": 0.1}, "from one of"),
        ({"accuracy": [1.5]}, "not between 0 and 1"),
        ({"accuracy": [0.5], "correlation": 2.0}, "`correlation` is 2.0"),
        ({"accuracy": [0.5], "difference": 0.0}, "not above 0"),
        ({"accuracy": [0.5], "samples": 0}, "not above 0"),
        ({"accuracy": [0.5], "alpha": 0.0}, "`alpha` is 0.0"),
        ({"accuracy": [0.5, 0.6, 0.7]}, "given 3 times"),
        ({"omega2": -0.1}, "cannot be negative"),
        ({"omega2": 0.1, "is_paired": False}, "paired differences"),
    ],
)
def test_what_cannot_be_planned_is_refused(options: dict[str, Any], message: str) -> None:
    """E119, with what is wrong and what to write."""
    with pytest.raises(AnswerkeyError, match=message) as caught:
        ak.plan_comparison(**options)
    assert caught.value.code == "E119"


def test_three_runs_are_too_many(tmp_path: Path) -> None:
    """A comparison has two sides."""
    run = make_run(tmp_path, "a", ["A", "B"])
    with pytest.raises(SpecError, match="3 runs"):
        ak.plan_comparison(run, run, run)
