"""Laws of trials and repetitions, from the file to the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests import projects

import answerkey as ak
from answerkey.evaluate.dry_run import plan_calls
from answerkey.evaluate.reopen import reopen
from answerkey.spec import job
from answerkey.testing import TestServer

if TYPE_CHECKING:
    from tests.unit.evaluate.conftest import Project

SCORER = {
    **projects.SCORER,
    "metrics": [
        {"type": "mean", "field": "is_correct", "name": "Accuracy"},
        {"type": "mean", "field": "is_correct.pass@2", "name": "pass@2"},
        {"type": "frequency", "field": "completion_validity"},
    ],
}
TRIALS = {
    "num_trials": 3,
    "score_aggregators": [
        {"score_name": "is_correct", "aggregator": {"function": "mean"}},
        {"score_name": "is_correct", "aggregator": {"function": "pass@k", "k": 2}},
    ],
}
ROWS = [{"question": f"q{i}", "answer": "AB"[i % 2], "category": "xy"[i % 2]} for i in range(20)]
SAID = ["A", "A", "B", "A", "A", "A"]
SIMULATED = "builtin/simulated?accuracy=0.6&style=bare&seed=1"
Called = Callable[..., Any]


def make_task(project: Project, **definition: object) -> dict[str, Any]:
    """Return a task that asks each sample three times."""
    return project.task(**{"scorers": [SCORER], "trials": TRIALS, **definition})


def write_plan(project: Project, num_runs: int = 1, **definition: Any) -> Path:  # noqa: ANN401 - a definition
    """Write a run file and twenty rows; return the folder."""
    project.write_rows(ROWS)
    repeated = {"repeatability": {"num_runs": num_runs}} if num_runs > 1 else {}
    fields = {"scorers": [SCORER], "trials": TRIALS, **definition}
    return project.plan({"model_key": SIMULATED, **repeated}, **fields)


def record(texts: list[str] = SAID) -> list[dict[str, object]]:
    """Return recorded completions, one row per sample and trial."""
    return [
        {"sample_id": f"{number // 3 + 1:06d}", "trial": number % 3, "completion": text}
        for number, text in enumerate(texts)
    ]


def test_every_trial_asks_each_sample(project: Project, tmp_path: Path, call: Called) -> None:
    """One row per sample and trial, sample after sample, in tables, exports and what is opened
    again.

    Counts and `n` are of samples.
    """
    run = ak.run(write_plan(project), out=tmp_path / "out")
    task = run.tasks["quiz"]
    assert task.scores.height == task.completions.height == 60
    assert task.scores["trial"].to_list() == [0, 1, 2] * 20
    assert task.scores["sample_id"].to_list()[:4] == ["000001", "000001", "000001", "000002"]
    assert task.counts["samples"] == task.counts["scored"] == 20
    assert task.totals["trials"]["counts"]["samples"] == 60
    assert run.metrics["Accuracy"].n == 20
    validity = run.metrics["completion_validity_VALID"]
    assert (validity.n, validity.interval) == (60, None)
    opened = reopen(run)
    whole, part = opened.read(range(20)), opened.read(range(1, 3))
    sizes = {len(opened), len(whole.samples), len(whole.completions), whole.scores.height}
    assert sizes == {60}
    assert part.samples.ids.to_list() == ["000002"] * 3 + ["000003"] * 3
    assert part.completions.frame.equals(whole.completions.frame.slice(3, 6))
    assert part.scores.equals(whole.scores.slice(3, 6))
    exported = call("export", tmp_path / "out", "--to", "jsonl").out
    rows = [json.loads(line) for line in exported.splitlines()]
    assert [(row["sample_id"], row["trial"]) for row in rows[2:4]] == [("000001", 2), ("000002", 0)]
    assert rows[3]["sample"]["question"] == "q1"
    assert ak.score(make_task(project), ROWS, rows).metrics == run.metrics
    assert len(call("export", tmp_path / "out", "--to", "csv").out.splitlines()) == 61
    shown = call("explain", tmp_path / "out", "2", "--json").json["samples"]
    trials = [(sample["trial"], sample["sample"]["question"]) for sample in shown]
    assert trials == [(0, "q1"), (1, "q1"), (2, "q1")]
    assert "Sample 000002 in task quiz, trial 2" in call("explain", tmp_path / "out", "2").out


def test_trials_differ_and_the_first_is_as_it_always_was(project: Project, tmp_path: Path) -> None:
    """A model that draws draws anew in each trial; trial 0 is the run without trials."""
    many = ak.run(write_plan(project), out=tmp_path / "many").tasks["quiz"].completions
    once = project.run("once", model=SIMULATED).tasks["quiz"].completions
    texts = [many.filter(trial=number)["completion"].to_list() for number in range(3)]
    assert texts[0] == once["completion"].to_list()
    assert texts[0] != texts[1] != texts[2]


def test_aggregates_are_of_the_recorded_trials(project: Project) -> None:
    """2 of 3 and 0 of 3: the mean is 1/3, pass@2 is (1 + 0) / 2."""
    run = ak.score(make_task(project), ROWS[:2], record())
    assert run.metrics["Accuracy"].value == 1 / 3
    assert (run.metrics["pass@2"].value, run.metrics["pass@2"].n) == (0.5, 2)


def test_recorded_completions_without_trials_are_refused(project: Project) -> None:
    """One completion for each sample does not answer for three trials; nor are they repeated."""
    beside = [{**row, "completion": "A"} for row in ROWS]
    arguments: list[Any] = [(ROWS[:2], ["A", "B"]), (beside,), (beside,)]
    for task, completions in zip([{}, {}, {"solver": None}], arguments, strict=True):
        with pytest.raises(ak.DataError, match=r"E209.*has 3 trials of each sample"):
            ak.score(make_task(project, **task), *completions)
    replies = project.write_rows(record(["A", "B", "A"] * 20), "said")
    with pytest.raises(ak.SpecError, match=r"E119.*recorded completions are the same in every run"):
        ak.run(write_plan(project, 2), completions=replies)


def test_chunks_change_nothing(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers, the tally and the tables are the same in one chunk and in many."""
    plan = write_plan(project)
    whole = ak.run(plan, out=tmp_path / "whole").tasks["quiz"]
    monkeypatch.setattr(job, "CHUNK_ROWS", 7)
    parts = ak.run(plan, out=tmp_path / "parts").tasks["quiz"]
    assert len(list((tmp_path / "parts" / "tasks" / "quiz" / "scores").iterdir())) == 10
    assert (parts.metrics, parts.totals) == (whole.metrics, whole.totals)
    assert parts.scores.equals(whole.scores)


def test_a_bad_row_is_failed_in_all_its_trials(project: Project, tmp_path: Path) -> None:
    """It is not asked, and counted once."""
    plan = write_plan(project)
    project.write_rows([*ROWS[:2], {"question": "q", "answer": "Z", "category": "x"}, *ROWS[3:]])
    run = ak.run(plan, out=tmp_path / "out", allow_failed=1)
    task = run.tasks["quiz"]
    assert (task.counts["failed"], task.counts["scored"]) == (1, 19)
    bad = task.completions.filter(sample_id="000003")
    assert bad["source"].to_list() == ["not asked"] * 3
    assert bad["trial"].to_list() == [0, 1, 2]
    assert run.metrics["Accuracy"].n_excluded == {"failed": 1}


def test_an_action_keeps_out_the_whole_sample(project: Project) -> None:
    """A rule that matches one trial keeps the sample out of every metric, whatever it counts."""
    expression = "{{ scores.string_equals_mcqa.predicted_choice }}"
    rule = {"op": "equals", "expression": expression, "value": "B"}
    action = {"key": "no-b", "action": "exclude_from_metrics", "filter": rule}
    run = ak.score(make_task(project, actions=[action]), ROWS[:2], record())
    assert run.metrics["Accuracy"].n_excluded == {"excluded:no-b": 1}
    assert run.metrics["completion_validity_VALID"].n == 3
    assert run.tasks["quiz"].totals["excluded"] == {"no-b": 1}


def test_a_failed_trial_leaves_the_run_incomplete(project: Project) -> None:
    """A call that failed for good puts its sample in error, never a 0 into the mean."""
    rows = [{**row, "completion_status": "OK"} for row in record()]
    rows[2]["completion_status"] = "ERROR"
    run = ak.score(make_task(project), ROWS[:2], rows)
    assert (run.status, run.tasks["quiz"].counts["errors"]) == ("incomplete", 1)
    accuracy = run.metrics["Accuracy"]
    assert (accuracy.value, accuracy.n_excluded) == (0.0, {"error": 1})


def test_repetitions_are_runs_of_their_own(project: Project, tmp_path: Path, call: Called) -> None:
    """Each has other trials, its own tables and numbers.

    Mean and spread are over all, and shown.
    """
    task = ak.run(write_plan(project, 3), out=tmp_path / "out").tasks["quiz"]
    trials = [repetition.scores["trial"].to_list()[:3] for repetition in task.repetitions]
    assert trials == [[3, 4, 5], [6, 7, 8]]
    values = [entry.metrics["Accuracy"].value for entry in (task, *task.repetitions)]
    assert len(set(values)) > 1
    assert task.repeatability is not None
    (accuracy,) = [entry for entry in task.repeatability["metrics"] if entry["name"] == "Accuracy"]
    assert (accuracy["values"], accuracy["std_dev"]) == (values, pl.Series(values).std())
    assert (tmp_path / "out" / "tasks" / "quiz" / "repetitions" / "3" / "metrics.json").is_file()
    shown = call("show", tmp_path / "out", "--json").json["tasks"][0]
    assert (shown["trials"]["num_trials"], shown["repeatability"]["num_runs"]) == (3, 3)
    text = call("show", tmp_path / "out").out
    for words in (
        "3 of each sample; is_correct is its mean",
        "3 runs; what follows is the first of them",
        "Over 3 runs",
        "20 samples = 20 scored",
        "60 trials = 60 scored",
    ):
        assert words in text


def test_agreement_is_stored_sample_by_sample(project: Project, tmp_path: Path) -> None:
    """The share of the modal score of every sample, and what it comes to."""
    scorer = {key: value for key, value in SCORER.items() if key != "metrics"}
    plan = write_plan(project, 4, scorers=[scorer], trials=None)
    task = ak.run(plan, out=tmp_path / "out").tasks["quiz"]
    runs = [each.scores["string_equals_mcqa"].struct for each in (task, *task.repetitions)]
    scores = [[row["is_correct"] for row in run.field("values").to_list()] for run in runs]
    expected = [max(row.count(0.0), row.count(1.0)) / 4 for row in zip(*scores, strict=True)]
    assert task.agreement["sample_id"].to_list()[:2] == ["000001", "000002"]
    assert task.agreement["string_equals_mcqa"].struct.field("share").to_list() == expected
    assert task.repeatability is not None
    mean, unanimous = pytest.approx(sum(expected) / 20), expected.count(1.0)
    wanted = {"samples": 20, "mean_share": mean, "unanimous": unanimous}
    assert task.repeatability["agreement"]["string_equals_mcqa"] == wanted


def test_a_model_without_chance_agrees_with_itself(project: Project, tmp_path: Path) -> None:
    """The spread is 0 and every sample has its modal score in all runs.

    20 samples, 3 trials, 2 runs.
    """
    plan = write_plan(project, 2)
    assert plan_calls(plan).tasks[0].calls == 120
    run = ak.run(plan, out=tmp_path / "out", model="builtin/constant?choice=A")
    repeated = run.tasks["quiz"].repeatability
    assert repeated is not None
    assert repeated["metrics"][0]["std_dev"] == 0.0
    assert repeated["agreement"]["string_equals_mcqa"]["unanimous"] == 20


def test_nothing_of_one_trial_is_answered_by_another(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live model is asked for every trial of every repetition.

    A second run finds them all in the cache.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plan = write_plan(project, 2)
    with TestServer("A") as server:
        run = partial(ak.run, plan, model=f"{server.url}#m")
        first = run(out=tmp_path / "first", cache_policy="update")
        assert server.asked.answered == 120
        second = run(out=tmp_path / "second", cache_policy="reuse")
        assert server.asked.answered == 120
    assert second.metrics == first.metrics
    assert second.tasks["quiz"].repeatability == first.tasks["quiz"].repeatability
