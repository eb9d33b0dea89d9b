"""Judges from a task file to the run folder, against an endpoint: what is asked, kept, counted and
paid.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.projects import describe_task, write_rows

import answerkey as ak

from .second_models import EXACT, JUDGE, SecondModel, write_verdict

#: What the judge gives; it is off the scale for one row.
SCORES = [0.5, 1.0, 0.5, None, 0.5, 0.5]
INFER = "def infer(messages):\n    return '{\"score\": 5}'\n"
Call = Callable[..., Any]


def test_a_judge_scores_what_the_model_said(judge: SecondModel) -> None:
    """Any form of the score is read; one off the scale is FAILED with its text."""
    run = judge.run(allow_failed=1)
    result = judge.list_scores(run)
    assert run.status == "complete"
    assert [score["status"] for score in result] == ["SCORED"] * 3 + ["FAILED"] + ["SCORED"] * 2
    assert [score["values"]["score"] for score in result] == SCORES
    metadata = result[3]["metadata"]
    assert result[3]["reason"] == "JUDGE_UNREADABLE"
    assert metadata["judge_text"] == write_verdict(11)
    assert metadata["judge_error"] == "the score is 11, and the scale goes from 0 to 10"
    assert judge.count_asked() == (6, 6)
    bodies = [request.body or {} for request in judge.server.asked.requests]
    shaped = [body["model"] for body in bodies if "response_format" in body]
    assert shaped == ["m-judge"] * 6


def test_counts_add_up(judge: SecondModel) -> None:
    """The counts are the main scorer's.

    The judge's calls and failures are listed apart, by its key.
    """
    run = judge.run()
    task = run.tasks["quiz"]
    assert (task.counts["samples"], task.counts["scored"], task.counts["failed"]) == (6, 6, 0)
    assert task.totals["failures"]["quality"]["JUDGE_UNREADABLE"]["count"] == 1
    assert run.metrics["Mean Score"].n == 5
    assert run.metrics["Mean Score"].value == pytest.approx(0.6)
    calls = task.manifest["calls"]
    assert {purpose: (usage["calls"], usage["failed"]) for purpose, usage in calls.items()} == {
        "solve": (6, 0),
        "judge:quality": (6, 0),
    }
    scorers = task.manifest["scorers"]
    assert [scorer.get("model", {}).get("name") for scorer in scorers] == [None, "judge"]


def test_the_cache_knows_a_judge_by_its_prompt(judge: SecondModel) -> None:
    """Under another key it is not asked again; another prompt asks the judge, and the model not."""
    first = judge.run("first", cache_policy="update")
    judge.server.forget()
    judge.write([JUDGE | {"key": "renamed"}])
    renamed = judge.run("renamed", cache_policy="reuse")
    assert renamed.tasks["quiz"].scores["renamed"].to_list() == judge.list_scores(first)
    assert judge.server.asked.total == 0
    judge.write([JUDGE | {"user_prompt": "RATE {{ sample.question }} anew"}])
    judge.run("changed", cache_policy="reuse")
    assert judge.count_asked() == (0, 6)


def test_rows_that_are_failed_are_not_judged(judge: SecondModel) -> None:
    """A row with an error in the dataset causes no call, and is FAILED for the judge as well."""
    write_rows(judge.folder / "rows.jsonl", [*judge.rows[:5], {"question": "q5", "answer": None}])
    truth = "{{ sample.answer[4] }}"
    mcqa = {"type": "string_equals_mcqa", "ground_truth_choice": truth, "choices": ["q"]}
    judge.write([mcqa, JUDGE])
    score = judge.list_scores(judge.run(allow_failed=1))[5]
    assert judge.count_asked() == (5, 5)
    assert (score["status"], score["reason"]) == ("FAILED", "BAD_ROW")


def test_each_trial_is_judged_for_itself(judge: SecondModel) -> None:
    """Trials are separate calls, also of the judge."""
    judge.write([JUDGE], trials={"num_trials": 2})
    scores = judge.list_scores(judge.run())
    assert judge.count_asked() == (12, 12)
    assert [score["status"] for score in scores].count("FAILED") == 2


def test_dry_run_counts_the_judges(judge: SecondModel) -> None:
    """Samples times judges, and nothing is asked."""
    file = judge.write([EXACT, JUDGE, JUDGE | {"key": "other", "user_prompt": "RATE"}])
    planned = ak.plan_calls(file).tasks[0]
    assert (planned.calls, planned.judge_calls) == (6, 12)
    assert judge.server.asked.total == 0


def test_check_validates_the_judge(judge: SecondModel) -> None:
    """Prompts that read the sample alone are rendered on every row.

    A model that cannot judge is said.
    """
    write_rows(judge.folder / "rows.jsonl", [judge.rows[0], {"question": None}])
    prompt = "RATE {{ sample.question | length }}"
    file = judge.write([JUDGE | {"model_key": "builtin/random", "user_prompt": prompt}])
    checked = ak.check(file)
    assert [error.code for error in checked.errors] == ["E301", "E207"]
    assert "cannot judge" in checked.errors[0].message
    assert judge.server.asked.total == 0


def test_a_judging_snippet_needs_trust(judge: SecondModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that is the user's own code is not run by surprise."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(judge.folder / "config"))
    file = judge.folder / "run.yaml"
    plan = json.loads(file.read_text())
    plan["models"][1]["config"] = {"connection_type": "custom_inference", "snippet": INFER}
    file.write_text(json.dumps(plan))
    with pytest.raises(ak.SpecError, match="E118"):
        judge.run()
    run = judge.run(trust_code=True)
    assert {score["values"]["score"] for score in judge.list_scores(run)} == {0.5}
    assert run.tasks["quiz"].manifest["calls"]["judge:quality"]["calls"] == 6
    assert judge.count_asked() == (6, 0)


def test_judge_in_memory(judge: SecondModel) -> None:
    """`score` asks a judge that is named by its URL; a key means nothing without a run file."""

    def score(model: str) -> ak.Run:
        task = describe_task(scorers=[JUDGE | {"model_key": model}])
        return ak.score(task, judge.rows, ["x"] * 6, cache_policy="no-cache")

    scores = judge.list_scores(score(f"{judge.server.url}#m-judge"))
    assert [score["values"]["score"] for score in scores] == SCORES
    assert judge.count_asked() == (0, 6)
    with pytest.raises(ak.SpecError, match="model `judge` is not defined"):
        score("judge")
    with pytest.raises(ak.SpecError, match="cannot judge"):
        score("builtin/longest")


def test_commands_name_the_judge(judge: SecondModel, call: Call) -> None:
    """The summary says who judged and what was asked.

    A dry run says how many calls that would be.
    """
    file, out = judge.folder / "run.yaml", judge.folder / "run"
    assert "about 6 calls more" in call("run", file, "--dry-run").out
    reuse = ("--cache-policy", "reuse")
    done = call("run", file, "--out", out, "--allow-failed", 1, *reuse)
    assert done.code == 0
    assert "  judge    judge\n" in done.out
    assert "Calls of the judge quality" in done.out
    again = call("rescore", out, "--out", judge.folder / "again", "--max-calls", 0, *reuse)
    assert again.code == 0
