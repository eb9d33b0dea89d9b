"""Judges from a task file to the run folder, against an endpoint: what is asked, kept, counted and
paid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import answerkey as ak
from answerkey.models.store import CallStore
from answerkey.testing import Reply, TestServer
from answerkey.testing.replies import Messages

from . import projects
from .projects import describe_live_task, describe_model, describe_task, write_rows

JUDGE: dict[str, Any] = {
    "type": "model_as_a_judge_scorer",
    "key": "quality",
    "model_key": "judge",
    "user_prompt": "RATE {{ sample.question }}: {{ input_prompt }}",
    "score_max": 10,
    "use_structured_outputs": True,
}
EXACT = {"type": "string_equals", "key": "exact", "ground_truth": "{{ sample.answer }}"}
ROWS = [{"question": f"q{number}", "answer": f"say q{number}"} for number in range(6)]
#: What the judge gives; it is off the scale for one row.
SCORES = [0.5, 1.0, 0.5, None, 0.5, 0.5]
INFER = "def infer(messages):\n    return '{\"score\": 5}'\n"


def write_verdict(score: float) -> str:
    """Return a verdict as a judge should write it."""
    return json.dumps({"reasoning": "because", "score": score, "confidence": 0.5})


def say(messages: Messages) -> str | Reply:
    """Answer questions, and judge answers: q1 in prose, q3 off the scale."""
    first = str(messages[0]["content"])
    if not first.startswith("RATE"):
        return f"say {first}"
    question = first.removeprefix("RATE ")[:2]
    if question == "q1":
        return f"I think so.\n```json\n{write_verdict(10)}\n```\nThat is all."
    if question == "q3":
        return write_verdict(11)
    return write_verdict(5)


def fail_q4(messages: Messages) -> str | Reply:
    """Answer and judge, but for one answer, to which there is nothing but an error."""
    is_q4 = str(messages[0]["content"]).startswith("RATE q4")
    return Reply(kind="error_body") if is_q4 else say(messages)


@pytest.fixture
def server() -> Iterator[TestServer]:
    """Return an endpoint that answers and judges."""
    with TestServer(say) as running:
        yield running


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with six rows."""
    folder = tmp_path / "project"
    folder.mkdir()
    write_rows(folder / "rows.jsonl", ROWS)
    return folder


def write_run(
    folder: Path, url: str, scorers: list[dict[str, Any]] | None = None, **definition: object
) -> Path:
    """Write a run file with a model, a judge and a task."""
    models = [describe_model(key, url) for key in ("mine", "judge")]
    task = describe_live_task(scorers=scorers or [EXACT, JUDGE], **definition)
    return projects.write_run(folder, models, task=task)


def read_judged(run: ak.Run) -> list[dict[str, Any]]:
    """Return the judge's verdicts, row by row."""
    return run.tasks["quiz"].scores["quality"].to_list()


def count_asked(server: TestServer) -> tuple[int, int]:
    """Return how often the model was asked, and the judge."""
    models = [str((request.body or {}).get("model")) for request in server.asked.requests]
    return models.count("m-mine"), models.count("m-judge")


def test_a_judge_scores_what_the_model_said(server: TestServer, project: Path) -> None:
    """Any form of the score is read; one off the scale is FAILED with its text."""
    run = ak.run(write_run(project, server.url), out=project / "run", allow_failed=1)
    result = read_judged(run)
    assert run.status == "complete"
    assert [score["status"] for score in result] == ["SCORED"] * 3 + ["FAILED"] + ["SCORED"] * 2
    assert [score["values"]["score"] for score in result] == SCORES
    assert result[3]["reason"] == "JUDGE_UNREADABLE"
    assert result[3]["metadata"]["judge_text"] == write_verdict(11)
    assert (
        result[3]["metadata"]["judge_error"] == "the score is 11, and the scale goes from 0 to 10"
    )
    assert count_asked(server) == (6, 6)
    bodies = [request.body or {} for request in server.asked.requests]
    shaped = [body["model"] for body in bodies if "response_format" in body]
    assert shaped == ["m-judge"] * 6


def test_counts_add_up(server: TestServer, project: Path) -> None:
    """The counts are the main scorer's.

    The judge's calls and failures are listed apart, by its key.
    """
    run = ak.run(write_run(project, server.url), out=project / "run")
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


def test_second_run_asks_nothing(server: TestServer, project: Path) -> None:
    """What a judge said to the same prompt comes from the cache, also under another key or beside
    others.
    """
    file = write_run(project, server.url)
    first = ak.run(file, out=project / "first", cache_policy="update")
    server.forget()
    second = ak.run(file, out=project / "second", cache_policy="reuse")
    write_run(project, server.url, [JUDGE | {"key": "renamed"}])
    third = ak.run(file, out=project / "third", cache_policy="reuse")
    assert server.asked.total == 0
    assert read_judged(second) == read_judged(first)
    assert third.tasks["quiz"].scores["renamed"].to_list() == read_judged(first)


def test_changed_judge_asks_only_the_judge(server: TestServer, project: Path) -> None:
    """Another prompt for the judge asks the judge again, and the model not."""
    ak.run(write_run(project, server.url), out=project / "first", cache_policy="update")
    server.forget()
    file = write_run(
        project, server.url, [JUDGE | {"user_prompt": "RATE {{ sample.question }} anew"}]
    )
    ak.run(file, out=project / "second", cache_policy="reuse")
    assert count_asked(server) == (0, 6)


def test_resumed_run_asks_nothing_twice(server: TestServer, project: Path) -> None:
    """A run that stopped at a limit amid the judging goes on with the rest, without the cache,
    too.
    """
    file = write_run(project, server.url)
    whole = ak.run(file, out=project / "whole", cache_policy="no-cache")
    server.forget()
    with pytest.raises(ak.SolverError) as caught:
        ak.run(file, out=project / "stopped", cache_policy="no-cache", max_calls=9, allow_failed=1)
    assert caught.value.code == "E305"
    assert count_asked(server) == (6, 3)
    resumed = ak.resume(project / "stopped")
    assert (resumed.status, count_asked(server)) == ("complete", (6, 6))
    assert read_judged(resumed) == read_judged(whole)
    assert resumed.tasks["quiz"].manifest["calls"]["judge:quality"]["calls"] == 6


def test_resume_wants_the_same_judge(server: TestServer, project: Path) -> None:
    """A judge that the run file defines otherwise by now is not the judge of the run."""
    file = write_run(project, server.url)
    with pytest.raises(ak.SolverError):
        ak.run(file, out=project / "stopped", max_calls=9)
    file.write_text(file.read_text().replace("m-judge", "m-other"))
    with pytest.raises(
        ak.RunError, match="the model of its scorer `quality` is not the same any more"
    ):
        ak.resume(project / "stopped")


def test_failed_judge_call_makes_the_run_incomplete(
    server: TestServer, project: Path, call: Callable[..., Any]
) -> None:
    """It does so beside another scorer, too, whose counts stay as they are.

    A resume asks only that one.
    """
    server.change(fail_q4)
    done = call(
        "run", write_run(project, server.url), "--out", project / "run", "--allow-failed", 1
    )
    assert done.code == 3
    assert "INCOMPLETE: 1 call to a judge or fallback failed, so no accuracy is shown" in done.out
    assert "6 samples = 6 scored + 0 failed + 0 errors" in done.out
    run = ak.load_run(project / "run")
    assert (read_judged(run)[4]["status"], read_judged(run)[4]["reason"]) == (
        "ERROR",
        "JUDGE_CALL_FAILED",
    )
    assert run.tasks["quiz"].totals["failures"]["quality"]["JUDGE_CALL_FAILED"]["count"] == 1
    server.change(say)
    server.forget()
    assert ak.resume(project / "run").status == "complete"
    assert count_asked(server) == (0, 1)


def test_rows_that_are_failed_are_not_judged(server: TestServer, project: Path) -> None:
    """A row with an error in the dataset causes no call, and is FAILED for the judge as well."""
    rows = [*ROWS[:5], {"question": "q5", "answer": None}]
    write_rows(project / "rows.jsonl", rows)
    mcqa = {
        "type": "string_equals_mcqa",
        "ground_truth_choice": "{{ sample.answer[4] }}",
        "choices": ["q"],
    }
    run = ak.run(write_run(project, server.url, [mcqa, JUDGE]), out=project / "run", allow_failed=1)
    assert count_asked(server) == (5, 5)
    assert (read_judged(run)[5]["status"], read_judged(run)[5]["reason"]) == ("FAILED", "BAD_ROW")


def test_each_trial_is_judged_for_itself(server: TestServer, project: Path) -> None:
    """Trials are separate calls, also of the judge."""
    trials = {"num_trials": 2}
    run = ak.run(write_run(project, server.url, [JUDGE], trials=trials), out=project / "run")
    assert count_asked(server) == (12, 12)
    assert [score["status"] for score in read_judged(run)].count("FAILED") == 2


def test_recorded_completions_are_judged(server: TestServer, project: Path) -> None:
    """`score` asks the judge, and no other model."""
    write_rows(project / "said.jsonl", [{"completion": "x"}] * 6)
    file = write_run(project, server.url)
    run = ak.run(file, out=project / "run", allow_failed=1, completions=str(project / "said.jsonl"))
    assert run.status == "complete"
    assert count_asked(server) == (0, 6)


def read_task(file: Path) -> dict[str, Any]:
    """Return the task of a run file."""
    plan = json.loads(file.read_text())
    task: dict[str, Any] = plan["tasks"][0]
    return task


def test_rescore_asks_the_judge_alone(server: TestServer, project: Path) -> None:
    """A judge that is new to an old run is asked, within limits.

    One that the cache knows is not.
    """
    file = write_run(project, server.url, [EXACT])
    ak.run(file, out=project / "old")
    server.forget()
    write_run(project, server.url)
    with pytest.raises(ak.SolverError) as caught:
        ak.rescore(
            project / "old",
            read_task(file),
            out=project / "new",
            max_calls=2,
            cache_policy="no-cache",
        )
    assert caught.value.code == "E305"
    run = ak.resume(project / "new", allow_failed=1)
    assert (run.status, count_asked(server)) == ("complete", (0, 6))
    assert read_judged(run)[1]["values"] == {"score": 1.0}
    server.forget()
    ak.rescore(project / "new", out=project / "newer", cache_policy="reuse")
    ak.rescore(project / "new", out=project / "newest", cache_policy="reuse")
    assert count_asked(server) == (0, 6)


def test_dry_run_counts_the_judges(server: TestServer, project: Path) -> None:
    """Samples times judges, and nothing is asked."""
    judges = [EXACT, JUDGE, JUDGE | {"key": "other", "user_prompt": "RATE"}]
    planned = ak.plan_calls(write_run(project, server.url, judges)).tasks[0]
    assert (planned.calls, planned.judge_calls) == (6, 12)
    assert server.asked.total == 0


def test_check_validates_the_judge(server: TestServer, project: Path) -> None:
    """Prompts that read the sample alone are rendered on every row.

    A model that cannot judge is said.
    """
    write_rows(project / "rows.jsonl", [ROWS[0], {"question": None}])
    judge = JUDGE | {
        "model_key": "builtin/random",
        "user_prompt": "RATE {{ sample.question | length }}",
    }
    checked = ak.check(write_run(project, server.url, [judge]))
    assert [error.code for error in checked.errors] == ["E301", "E207"]
    assert "cannot judge" in checked.errors[0].message
    assert server.asked.total == 0


def test_key_of_a_judge_is_only_needed_to_ask(
    server: TestServer, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`check` does without it; `run` says so before the model is asked."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    file = write_run(project, server.url, [JUDGE | {"model_key": "openai/gpt-4.1-nano"}])
    assert not ak.check(file).errors
    with pytest.raises(ak.SpecError) as caught:
        ak.run(file, out=project / "run")
    assert caught.value.code == "E117"
    assert server.asked.total == 0


def test_cost_of_a_judge_counts(server: TestServer, project: Path) -> None:
    """The judge's tokens are paid for out of the same purse, and stated apart."""
    run = ak.run(write_run(project, server.url), out=project / "run", price="1:1")
    costs = {
        purpose: usage["cost"] for purpose, usage in run.tasks["quiz"].manifest["calls"].items()
    }
    assert set(costs) == {"solve", "judge:quality"}
    assert all(cost > 0 for cost in costs.values())
    with pytest.raises(ak.AnswerkeyError, match="what `judge` costs is not known"):
        ak.run(project / "run.yaml", out=project / "other", max_cost=1.0)


def test_snippet_that_judges_needs_trust(
    server: TestServer, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge that is the user's own code is not run by surprise."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "config"))
    file = write_run(project, server.url)
    plan = json.loads(file.read_text())
    plan["models"][1]["config"] = {"connection_type": "custom_inference", "snippet": INFER}
    file.write_text(json.dumps(plan))
    with pytest.raises(ak.SpecError) as caught:
        ak.run(file, out=project / "run")
    assert caught.value.code == "E118"
    run = ak.run(file, out=project / "run", trust_code=True)
    assert {score["values"]["score"] for score in read_judged(run)} == {0.5}
    assert run.tasks["quiz"].manifest["calls"]["judge:quality"]["calls"] == 6
    assert count_asked(server) == (6, 0)


def test_judge_in_memory(server: TestServer) -> None:
    """`score` asks a judge that is named by its URL; a key means nothing without a run file."""
    judge = JUDGE | {"model_key": f"{server.url}#m-judge"}
    task = describe_task(scorers=[judge])
    run = ak.score(task, ROWS, ["x"] * 6, cache_policy="no-cache")
    assert [score["values"]["score"] for score in read_judged(run)] == SCORES
    assert count_asked(server) == (0, 6)
    task["definition"] = {"scorers": [JUDGE]}
    with pytest.raises(ak.SpecError, match="model `judge` is not defined"):
        ak.score(task, ROWS, ["x"] * 6)
    task["definition"] = {"scorers": [JUDGE | {"model_key": "builtin/longest"}]}
    with pytest.raises(ak.SpecError, match="cannot judge"):
        ak.score(task, ROWS, ["x"] * 6)


def test_calls_of_a_judge_are_in_the_journal(server: TestServer, project: Path) -> None:
    """While a run is not complete its journal has the judge's calls under the judge's purpose."""
    with pytest.raises(ak.SolverError):
        ak.run(write_run(project, server.url), out=project / "run", max_calls=9)
    journal = CallStore(project / "run" / "calls.sqlite")
    purposes = {usage.purpose: usage.calls for usage in journal.sum_usage("quiz")}
    journal.close()
    assert purposes == {"solve": 6, "judge:quality": 3}


def test_explained_sample_has_the_words_of_its_judge(
    server: TestServer, project: Path, call: Callable[..., Any]
) -> None:
    """`explain` shows what the judge said, and why it could not be used."""
    ak.run(write_run(project, server.url), out=project / "run")
    done = call("explain", project / "run", "000004", "--json")
    result = done.json["samples"][0]["scores"]["quality"]
    assert result["why"] == "the score is 11, and the scale goes from 0 to 10"
    assert result["metadata"]["judge_text"] == write_verdict(11)


def test_commands_name_the_judge(
    server: TestServer, project: Path, call: Callable[..., Any]
) -> None:
    """The summary says who judged and what was asked.

    A dry run says how many calls that would be.
    """
    planned = call("run", write_run(project, server.url), "--dry-run")
    assert "about 6 calls more" in planned.out
    reuse = ("--cache-policy", "reuse")
    done = call("run", project / "run.yaml", "--out", project / "run", "--allow-failed", 1, *reuse)
    assert done.code == 0
    assert "  judge    judge\n" in done.out
    assert "Calls of the judge quality" in done.out
    again = call("rescore", project / "run", "--out", project / "again", "--max-calls", 0, *reuse)
    assert again.code == 0
