"""Laws of trials and repetitions, from the file to the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import answerkey as ak
from answerkey.evaluate import plan_calls, prepare, reopen
from answerkey.exporters import read_rows
from answerkey.testing import TestServer

SCORER = {
    "type": "string_equals_mcqa",
    "ground_truth_choice": "{{ sample.answer }}",
    "choices": ["A", "B"],
    "metrics": [
        {"type": "mean", "field": "is_correct", "name": "Accuracy"},
        {"type": "mean", "field": "is_correct.pass@2", "name": "pass@2"},
        {"type": "frequency", "field": "completion_validity"},
    ],
}
SOLVER = {
    "type": "single_turn_solver",
    "input_builder": {
        "type": "chat_completion",
        "input_messages": [{"role": "user", "content": "{{ sample.question }}"}],
    },
}
TRIALS = {
    "num_trials": 3,
    "score_aggregators": [
        {"score_name": "is_correct", "aggregator": {"function": "mean"}},
        {"score_name": "is_correct", "aggregator": {"function": "pass@k", "k": 2}},
    ],
}
ROWS = [{"question": f"q{i}", "answer": "AB"[i % 2], "category": "xy"[i % 2]} for i in range(20)]
SAID = {"q0": ["A", "A", "B"], "q1": ["A", "A", "A"]}
SIMULATED = "builtin/simulated?accuracy=0.6&style=bare&seed=1"
Called = Callable[..., Any]


def make_task(**changes: object) -> dict[str, Any]:
    """Return the task, with changes to its definition."""
    definition = {"solver": SOLVER, "scorers": [SCORER], "trials": TRIALS, **changes}
    return {"key": "quiz", "display_name": "Quiz", "description": "", "definition": definition}


def write_project(folder: Path, *, num_runs: int | None = None, **changes: object) -> Path:
    """Write a run file, its task and its rows; return the folder."""
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    specification: dict[str, Any] = {"task_key": "quiz", "model_key": SIMULATED}
    specification |= {"repeatability": {"num_runs": num_runs}} if num_runs else {}
    run = {
        "datasets": [
            {
                "key": "rows",
                "display_name": "Rows",
                "source": {"type": "local", "file_path": "rows.jsonl"},
            }
        ],
        "tasks": [make_task(**changes)],
        "evaluation": {"key": "quiz", "display_name": "Quiz", "task_specifications": [specification]},
    }
    (folder / "run.yaml").write_text(json.dumps(run))
    return folder


def record(said: dict[str, list[str]]) -> list[dict[str, object]]:
    """Return recorded completions, one row per sample and trial."""
    return [
        {"sample_id": f"{int(name[1:]) + 1:06d}", "trial": trial, "completion": text}
        for name, texts in said.items()
        for trial, text in enumerate(texts)
    ]


def test_each_sample_is_asked_in_every_trial(tmp_path: Path) -> None:
    """Tables have one row per sample and trial, sample after sample; counts and `n` are of samples."""
    run = ak.run(write_project(tmp_path), out=tmp_path / "out")
    task = run.tasks["quiz"]
    assert task.scores.height == task.completions.height == 60
    assert task.scores["trial"].to_list() == [0, 1, 2] * 20
    assert task.scores["sample_id"].to_list()[:4] == ["000001", "000001", "000001", "000002"]
    assert task.counts["samples"] == task.counts["scored"] == 20
    assert task.tally["trials"]["counts"]["samples"] == 60
    assert run.metrics["Accuracy"].n == 20
    assert run.metrics["completion_validity_VALID"].n == 60
    assert run.metrics["completion_validity_VALID"].interval is None


def test_trials_differ_and_the_first_is_what_it_always_was(tmp_path: Path) -> None:
    """A model that draws draws anew in each trial; trial 0 is the run without trials."""
    many = ak.run(write_project(tmp_path), out=tmp_path / "many").tasks["quiz"].completions
    scorer = {**SCORER, "metrics": SCORER["metrics"][:1]}
    plain = make_task(scorers=[scorer])
    del plain["definition"]["trials"]
    (tmp_path / "task.yaml").write_text(json.dumps(plain))
    once = ak.run(
        tmp_path / "task.yaml", dataset=str(tmp_path / "rows.jsonl"), model=SIMULATED, out=tmp_path / "once"
    )
    texts = [many.filter(trial=number)["completion"].to_list() for number in range(3)]
    assert texts[0] == once.tasks["quiz"].completions["completion"].to_list()
    assert texts[0] != texts[1] != texts[2]


def test_aggregates_are_of_the_recorded_trials() -> None:
    """2 of 3 and 0 of 3: the mean is 1/3, pass@2 is (1 + 0) / 2."""
    run = ak.score(make_task(), ROWS[:2], record(SAID))
    assert run.metrics["Accuracy"].value == 1 / 3
    assert run.metrics["pass@2"].value == 0.5
    assert run.metrics["pass@2"].n == 2


def test_recorded_completions_without_trials_are_refused() -> None:
    """One completion for each sample does not answer for three trials."""
    with pytest.raises(ak.DataError, match="asks each sample 3 times") as caught:
        ak.score(make_task(), ROWS[:2], ["A", "B"])
    assert caught.value.code == "E209"
    with pytest.raises(ak.DataError, match="asks each sample 3 times"):
        ak.score(make_task(), [{**row, "completion": "A"} for row in ROWS])
    bare = make_task()
    del bare["definition"]["solver"]
    with pytest.raises(ak.DataError, match="asks each sample 3 times"):
        ak.score(bare, [{**row, "completion": "A"} for row in ROWS])


def test_shards_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers, the tally and the tables are the same in one shard and in many."""
    project = write_project(tmp_path)
    whole = ak.run(project, out=tmp_path / "whole").tasks["quiz"]
    monkeypatch.setattr(prepare, "SHARD_ROWS", 7)
    parts = ak.run(project, out=tmp_path / "parts").tasks["quiz"]
    assert len(list((tmp_path / "parts" / "tasks" / "quiz" / "scores").iterdir())) == 10
    assert parts.metrics == whole.metrics
    assert parts.tally == whole.tally
    assert parts.scores.equals(whole.scores)


def test_a_bad_row_is_failed_in_all_its_trials(tmp_path: Path) -> None:
    """It is not asked, and counted once."""
    project = write_project(tmp_path)
    rows = [*ROWS[:2], {"question": "q", "answer": "Z", "category": "x"}, *ROWS[3:]]
    (project / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = ak.run(project, out=tmp_path / "out", allow_failed=1)
    task = run.tasks["quiz"]
    assert (task.counts["failed"], task.counts["scored"]) == (1, 19)
    bad = task.completions.filter(sample_id="000003")
    assert bad["source"].to_list() == ["not asked"] * 3
    assert bad["trial"].to_list() == [0, 1, 2]
    assert run.metrics["Accuracy"].n_excluded == {"failed": 1}


def test_an_action_keeps_out_the_whole_sample() -> None:
    """A rule that matches one trial keeps the sample out of every metric, whatever it counts."""
    action = {
        "key": "no-b",
        "action": "exclude_from_metrics",
        "filter": {
            "op": "equals",
            "expression": "{{ scores.string_equals_mcqa.predicted_choice }}",
            "value": "B",
        },
    }
    run = ak.score(make_task(actions=[action]), ROWS[:2], record(SAID))
    assert run.metrics["Accuracy"].n_excluded == {"excluded:no-b": 1}
    assert run.metrics["completion_validity_VALID"].n == 3
    assert run.tasks["quiz"].tally["excluded"] == {"no-b": 1}


def test_export_has_one_row_per_trial(tmp_path: Path, call: Called) -> None:
    """Every trial is exported with its sample, and can be scored again to the same numbers."""
    run = ak.run(write_project(tmp_path), out=tmp_path / "out")
    done = call("export", tmp_path / "out", "--to", "jsonl", "-o", tmp_path / "rows-out.jsonl")
    assert done.code == 0
    rows = [json.loads(line) for line in (tmp_path / "rows-out.jsonl").read_text().splitlines()]
    assert [(row["sample_id"], row["trial"]) for row in rows[2:4]] == [("000001", 2), ("000002", 0)]
    assert rows[3]["sample"]["question"] == "q1"
    again = ak.score(make_task(), ROWS, rows)
    assert again.metrics == run.metrics
    csv = call("export", tmp_path / "out", "--to", "csv").out
    assert len(csv.splitlines()) == 61


def test_a_run_is_opened_again_with_its_trials(tmp_path: Path) -> None:
    """Samples, completions and scores have a row for each trial, and any part of them can be read."""
    run = ak.run(write_project(tmp_path), out=tmp_path / "out")
    opened = reopen(run)
    whole, part = opened.read(0, 20), opened.read(1, 2)
    assert (len(opened), len(whole.samples), len(whole.completions), whole.scores.height) == (60, 60, 60, 60)
    assert part.samples.ids.to_list() == ["000002"] * 3 + ["000003"] * 3
    assert part.completions.frame.equals(whole.completions.frame.slice(3, 6))
    assert part.scores.equals(whole.scores.slice(3, 6))
    assert next(read_rows(opened))["trial"] == 0


def test_explain_shows_every_trial(tmp_path: Path, call: Called) -> None:
    """One way for each trial, with the trial's number."""
    ak.run(write_project(tmp_path), out=tmp_path / "out")
    shown = call("explain", tmp_path / "out", "2", "--json").json["samples"]
    assert [one["trial"] for one in shown] == [0, 1, 2]
    assert {one["sample"]["question"] for one in shown} == {"q1"}
    assert "Sample 000002 in task quiz, trial 2" in call("explain", tmp_path / "out", "2").out


def test_a_rescored_run_keeps_its_trials(tmp_path: Path) -> None:
    """The same completions give the same numbers; nothing is asked."""
    run = ak.run(write_project(tmp_path, num_runs=2), out=tmp_path / "out")
    again = ak.rescore(run, out=tmp_path / "again")
    assert again.metrics == run.metrics
    assert again.tasks["quiz"].repeatability == run.tasks["quiz"].repeatability


def test_repetitions_are_runs_of_their_own(tmp_path: Path) -> None:
    """Each repetition has other trials, its own tables and numbers; mean and spread are over all."""
    run = ak.run(write_project(tmp_path, num_runs=3), out=tmp_path / "out")
    task = run.tasks["quiz"]
    assert [one.scores["trial"].to_list()[:3] for one in task.repetitions] == [[3, 4, 5], [6, 7, 8]]
    runs = [task, *task.repetitions]
    values = [one.metrics["Accuracy"].value for one in runs]
    assert len(set(values)) > 1
    assert task.repeatability is not None
    (accuracy,) = [one for one in task.repeatability["metrics"] if one["name"] == "Accuracy"]
    assert accuracy["values"] == values
    assert accuracy["std_dev"] == pl.Series(values).std()
    assert (tmp_path / "out" / "tasks" / "quiz" / "repetitions" / "3" / "metrics.json").is_file()


def test_agreement_is_stored_sample_by_sample(tmp_path: Path) -> None:
    """The share of the modal score of every sample, and what it comes to."""
    scorer = {key: value for key, value in SCORER.items() if key != "metrics"}
    project = write_project(tmp_path, num_runs=4, scorers=[scorer], trials=None)
    task = ak.run(project, out=tmp_path / "out").tasks["quiz"]
    runs = [one.scores["string_equals_mcqa"].struct.field("values") for one in (task, *task.repetitions)]
    scores = [[row["is_correct"] for row in run.to_list()] for run in runs]
    expected = [max(row.count(0.0), row.count(1.0)) / 4 for row in zip(*scores, strict=True)]
    shares = task.agreement["string_equals_mcqa"].struct.field("share").to_list()
    assert task.agreement["sample_id"].to_list()[:2] == ["000001", "000002"]
    assert shares == expected
    assert task.repeatability is not None
    found = task.repeatability["agreement"]["string_equals_mcqa"]
    assert found == {
        "samples": 20,
        "mean_share": pytest.approx(sum(expected) / 20),
        "unanimous": expected.count(1.0),
    }


def test_a_model_without_chance_agrees_with_itself(tmp_path: Path) -> None:
    """The spread is 0 and every sample has its modal score in all runs."""
    project = write_project(tmp_path, num_runs=2)
    run = ak.run(project, out=tmp_path / "out", model="builtin/constant?choice=A")
    found = run.tasks["quiz"].repeatability
    assert found is not None
    assert found["metrics"][0]["std_dev"] == 0.0
    assert found["agreement"]["string_equals_mcqa"]["unanimous"] == 20


def test_recorded_completions_are_not_repeated(tmp_path: Path) -> None:
    """They would say the same each time, so it is refused."""
    project = write_project(tmp_path, num_runs=2)
    file = tmp_path / "said.jsonl"
    said = {f"q{i}": ["A", "B", "A"] for i in range(20)}
    file.write_text("".join(json.dumps(row) + "\n" for row in record(said)))
    with pytest.raises(ak.SpecError, match="recorded completions are the same in every run") as caught:
        ak.run(project, completions=str(file))
    assert caught.value.code == "E119"


def test_the_summary_and_json_show_trials_and_repetitions(tmp_path: Path, call: Called) -> None:
    """What was asked how often, the spread, and counts of samples and of trials."""
    project = write_project(tmp_path, num_runs=2)
    done = call("run", project, "--out", tmp_path / "out", "--json").json["tasks"][0]
    assert done["trials"]["num_trials"] == 3
    assert done["repeatability"]["num_runs"] == 2
    assert done["tally"]["trials"]["counts"]["samples"] == 60
    text = call("show", tmp_path / "out").out
    assert "3 of each sample; is_correct is its mean" in text
    assert "2 runs; what follows is the first of them" in text
    assert "Over 2 runs" in text
    assert "20 samples = 20 scored" in text
    assert "60 trials = 60 scored" in text


def test_a_dry_run_counts_trials_and_repetitions(tmp_path: Path) -> None:
    """20 samples, 3 trials, 2 runs."""
    assert plan_calls(write_project(tmp_path, num_runs=2)).tasks[0].calls == 120


def test_nothing_of_one_trial_is_answered_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A live model is asked for every trial of every repetition; a second run finds them all in the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project = write_project(tmp_path, num_runs=2)
    with TestServer("A") as server:
        name = f"{server.url}#m"
        first = ak.run(project, out=tmp_path / "first", model=name)
        assert server.asked.answered == 120
        second = ak.run(project, out=tmp_path / "second", model=name)
        assert server.asked.answered == 120
    assert second.metrics == first.metrics
    assert second.tasks["quiz"].repeatability == first.tasks["quiz"].repeatability


def test_a_failed_trial_leaves_the_run_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that failed for good puts its sample in error, never a 0 into the mean."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    statuses = ["OK", "OK", "ERROR", "OK", "OK", "OK"]
    rows = record(SAID)
    rows = [{**row, "completion_status": status} for row, status in zip(rows, statuses, strict=True)]
    run = ak.score(make_task(), ROWS[:2], rows)
    assert run.status == "incomplete"
    assert run.tasks["quiz"].counts["errors"] == 1
    assert run.metrics["Accuracy"].n_excluded == {"error": 1}
    assert run.metrics["Accuracy"].value == 0.0


def test_a_resumed_run_has_all_its_repetitions(tmp_path: Path) -> None:
    """Interrupted in the second repetition and resumed, it is the uninterrupted run."""
    project = write_project(tmp_path, num_runs=2)
    whole = ak.run(project, out=tmp_path / "whole").tasks["quiz"]
    finished: list[str] = []

    def stop(stage: str, done: int, total: int) -> None:
        if stage == "score" and done == total:
            finished.append(stage)
        if len(finished) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ak.run(project, out=tmp_path / "stopped", progress=stop)
    resumed = ak.resume(tmp_path / "stopped").tasks["quiz"]
    assert resumed.metrics == whole.metrics
    assert resumed.repeatability == whole.repeatability
    assert [
        one.scores.equals(other.scores)
        for one, other in zip(resumed.repetitions, whole.repetitions, strict=True)
    ] == [True]
