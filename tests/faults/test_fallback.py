"""A fallback from a task file to the run folder, against an endpoint: what is asked, kept and
counted.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.forked import Forked
from tests.servers import find_places

import answerkey as ak
from answerkey.models.store import CallStore
from answerkey.reports.overview import audit_task, build_overview, dump
from answerkey.reports.samples import SampleTable
from answerkey.spec import job, load_plan
from answerkey.testing import Behaviour, Reply, TestServer
from answerkey.testing.replies import Messages

from . import projects
from .projects import describe_live_task, describe_model, describe_solver, describe_task, write_rows

SOLVER = describe_solver("ASKED {{ sample.question }}")
EXTRACTION = {"rule": "stated_answer", "fallback": "small"}
SCORER: dict[str, Any] = {
    **projects.SCORER,
    "key": "quiz",
    "choices": ["A", "B", "C", "D"],
    "options": "{{ sample.options }}",
}
#: What the model says to a question: the rule reads the first three, and there is nothing to read
#: in the fourth; the rest is for the fallback, which finds the letter that stands in brackets.
TEXTS = [
    "The answer is B.",
    "C",
    "**D**",
    " ",
    "Hm, number 2 [B]?",
    "Not sure [C]",
    "A or B",
    "It depends.",
]
FOUND = ["B", "C", "D", None, "B", "C", None, None]
ROWS = [
    {
        "question": f"q{n}",
        "answer": "BCDABDAD"[n % 8],
        "options": [f"w{n}", f"x{n}", f"y{n}", f"z{n}"],
    }
    for n in range(16)
]
ASKED = 8
Call = Callable[..., Any]


def read_completion(text: str) -> str:
    """Read a completion as a fallback would: the letter in brackets."""
    shown = re.search(r"\n(--- \w+ ---)\n(.*)\n\1\n", text, re.DOTALL)
    assert shown is not None
    result = re.search(r"\[([A-D])\]", shown[2])
    return result[1] if result else "NONE"


def say(messages: Messages) -> str | Reply:
    """Answer a question, or read a completion."""
    text = str(messages[0]["content"])
    if not text.startswith("ASKED q"):
        return read_completion(text)
    number = int(text.removeprefix("ASKED q"))
    return f"{TEXTS[number % 8]}{' ' * (number // 8)}"


def fail_once(messages: Messages) -> str | Reply:
    """Answer and read, but for one completion, about which there is nothing but an error."""
    is_read = "number 2 [B]? \n" in str(messages[0]["content"])
    return Reply(kind="error_body") if is_read else say(messages)


@pytest.fixture
def server() -> Iterator[TestServer]:
    """Return an endpoint that answers and reads."""
    with TestServer(say) as running:
        yield running


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with sixteen rows, and replies recorded for them."""
    folder = tmp_path / "project"
    folder.mkdir()
    write_rows(folder / "rows.jsonl", ROWS)
    replies = [f"{TEXTS[n % 8]}{' ' * (n // 8)}" for n in range(16)]
    write_rows(folder / "said.jsonl", [{"completion": reply} for reply in replies])
    return folder


def write_run(folder: Path, url: str, extraction: object = None, **definition: object) -> Path:
    """Write a run file with a model, a fallback and a task; models are asked one at a time."""
    scorer = {**SCORER, "extraction": extraction or EXTRACTION}
    task = describe_live_task(**{"solver": SOLVER, "scorers": [scorer], **definition})
    models = [describe_model(key, url) for key in ("mine", "small")]
    for model in models:
        model["max_concurrent_requests"] = 1
    return projects.write_run(folder, models, task=task)


def count_asked(server: TestServer) -> tuple[int, int]:
    """Return how often the model was asked, and the fallback."""
    models = [str((request.body or {}).get("model")) for request in server.asked.requests]
    return models.count("m-mine"), models.count("m-small")


def list_scores(run: ak.Run) -> list[dict[str, Any]]:
    """Return the scores, row by row."""
    return run.tasks["quiz"].scores["quiz"].to_list()


def list_found(run: ak.Run) -> list[str | None]:
    """Return the choices that were read, row by row."""
    return [score["metadata"]["predicted_choice"] for score in list_scores(run)]


def read_numbers(run: ak.Run) -> dict[str, Any]:
    """Return the metrics, the counts and the scores of a run."""
    metrics = {name: asdict(value) for name, value in run.metrics.items()}
    return {"metrics": metrics, "totals": run.tasks["quiz"].totals, "scores": list_scores(run)}


# What is asked and counted.


def test_fallback_reads_what_the_rule_cannot(server: TestServer, project: Path) -> None:
    """It is asked about completions with a text in which no choice is read, each once, and never
    shown more.

    The truth, the question and the id of the sample are nowhere in what it is asked.
    """
    run = ak.run(write_run(project, server.url), out=project / "run")
    assert (run.status, count_asked(server)) == ("complete", (16, ASKED))
    assert list_found(run) == FOUND * 2
    bodies = [request.body or {} for request in server.asked.requests]
    prompts = [str(body["messages"]) for body in bodies if body["model"] == "m-small"]
    questions = [int(re.findall(r"A\. w(\d+)", prompt)[0]) for prompt in prompts]
    assert questions == [4, 5, 6, 7, 12, 13, 14, 15]
    for word in ("ASKED", "answer is B", "00000", "truth"):
        assert not any(word in prompt for prompt in prompts)


def test_share_accuracy_and_the_number_without_it(
    server: TestServer, project: Path, call: Call
) -> None:
    """All three stand in the summary, in `--json` and in `metrics.json`, and come from all rows."""
    run = ak.run(write_run(project, server.url), out=project / "run")
    counts = {"n": 16, "right": 8, "invalid": 6, "asked": 8, "named": 4, "correct": 2, "failed": 0}
    assert run.tasks["quiz"].totals["fallback"] == {"quiz": counts}
    assert run.metrics["Accuracy"].value == 0.5
    alone = ak.run(write_run(project, server.url, "stated_answer"), out=project / "alone")
    assert alone.metrics["Accuracy"].value == 6 / 16
    assert "fallback" not in alone.tasks["quiz"].totals
    (task,) = call("show", project / "run", "--json").json["tasks"]
    result = task["fallback"]["quiz"]
    assert (result["model"], result["share"], result["accuracy"]) == ("small", 0.5, 0.5)
    assert (result["with_it"]["accuracy"], result["without_it"]["accuracy"]) == (0.5, 6 / 16)
    assert (result["with_it"]["invalid"], result["without_it"]["invalid"]) == (6, 10)
    assert result["without_it"]["interval"] == pytest.approx(alone.metrics["Accuracy"].interval)
    shown = " ".join(call("show", project / "run", "-v").out.split())
    assert (
        "Fallback small: asked about 8 of 16 completions (50.00 %), it named a choice in 4, the"
        in shown
    )
    assert "right one in 2. Accuracy is 50.00 % with it and 37.50 % without it." in shown
    audit = " ".join(call("audit", project / "run").out.split())
    assert re.search(r"stated_answer/fallback \(this run\) 50\.00 % \[[^]]+\] 37\.50 % 10 ", audit)
    assert re.search(r" stated_answer 37\.50 % \[[^]]+\] 62\.50 % 6 ", audit)


def test_what_actions_leave_out_counts_on_neither_side(server: TestServer, project: Path) -> None:
    """The number without it is of the same samples."""
    left = {"expression": "{{ sample.question }}", "op": "equals", "value": "q4"}
    action = {"key": "one", "filter": left, "action": "exclude_from_metrics"}
    run = ak.run(write_run(project, server.url, actions=[action]), out=project / "run")
    result = run.tasks["quiz"].totals["fallback"]["quiz"]
    assert (result["n"], result["asked"], result["named"], result["correct"]) == (15, 7, 3, 1)


def test_trials_are_read_one_by_one(server: TestServer, project: Path) -> None:
    """Each trial of a sample is asked about for itself, and the counts are of trials."""
    run = ak.run(write_run(project, server.url, trials={"num_trials": 2}), out=project / "run")
    assert count_asked(server) == (32, 2 * ASKED)
    assert run.tasks["quiz"].totals["fallback"]["quiz"]["n"] == 32


def test_options_are_shown_as_the_model_saw_them(server: TestServer, project: Path) -> None:
    """Under rotations the fallback sees each row's order, and its label is mapped back to the
    option.
    """
    order = {"options": "{{ sample.options }}", "orders": "rotations"}
    file = write_run(project, server.url, choice_order=order)
    run = ak.run(file, out=project / "run", num_samples=5)
    bodies = [request.body or {} for request in server.asked.requests]
    prompts = [str(body["messages"][0]["content"]) for body in bodies if body["model"] == "m-small"]
    second_options = {re.findall(r"^B\. (\w)4$", text, re.MULTILINE)[0] for text in prompts}
    assert second_options == {*"wxyz"}
    results = [score["metadata"] for score in list_scores(run)[-4:]]
    assert {result["extraction_rule"] for result in results} == {"stated_answer/fallback"}
    assert {result["predicted_choice"] for result in results} == {"B"}
    assert sorted(result["predicted_option"] for result in results) == ["A", "B", "C", "D"]
    assert run.tasks["quiz"].totals["fallback"]["quiz"]["n"] == 20


def test_wrong_rows_cause_no_calls(server: TestServer, project: Path) -> None:
    """A row that the dataset has wrong is FAILED, also where its completion is INVALID."""
    rows = [row | ({"answer": "E"} if row["question"] == "q4" else {}) for row in ROWS]
    write_rows(project / "rows.jsonl", rows)
    file = write_run(project, server.url)
    options: dict[str, Any] = {"allow_failed": 1, "completions": str(project / "said.jsonl")}
    assert ak.plan_calls(file, **options).tasks[0].fallback_calls == 15
    run = ak.run(file, out=project / "run", **options)
    assert count_asked(server) == (0, ASKED - 1)
    assert list_scores(run)[4]["status"] == "FAILED"


# The same numbers, however they come about.


@pytest.mark.parametrize("size", [1, 3, 16])
def test_every_chunk_size_gives_the_same_numbers(
    server: TestServer, project: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Scores, counts and metrics are those of one chunk, bit for bit; nothing is asked twice."""
    file = write_run(project, server.url)
    whole = read_numbers(ak.run(file, out=project / "whole", cache_policy="no-cache"))
    server.forget()
    monkeypatch.setattr(job, "CHUNK_ROWS", size)
    result = ak.run(file, out=project / "chunks", cache_policy="no-cache")
    assert read_numbers(result) == whole
    assert count_asked(server) == (16, ASKED)


def test_live_recorded_and_in_memory_give_the_same(server: TestServer, project: Path) -> None:
    """The same completions are read alike, whoever brings them."""
    file = write_run(project, server.url)
    live = ak.run(file, out=project / "live")
    recorded = ak.run(file, out=project / "recorded", completions=str(project / "said.jsonl"))
    scorer = {**SCORER, "extraction": EXTRACTION | {"fallback": f"{server.url}#m-small"}}
    lines = (project / "said.jsonl").read_text().splitlines()
    replies = [json.loads(line)["completion"] for line in lines]
    memory = ak.score(describe_task(scorers=[scorer]), ROWS, replies)
    assert list_scores(recorded) == list_scores(memory) == list_scores(live)


def test_second_run_asks_nothing(server: TestServer, project: Path) -> None:
    """What was said of the same completion comes from the cache."""
    file = write_run(project, server.url)
    first = ak.run(file, out=project / "first", cache_policy="update")
    server.forget()
    second = ak.run(file, out=project / "second", cache_policy="reuse")
    assert server.asked.total == 0
    assert read_numbers(second) == read_numbers(first)


def test_resumed_run_asks_nothing_twice(server: TestServer, project: Path) -> None:
    """A run that stopped at a limit amid the second look goes on with the rest, without the cache,
    too.
    """
    file = write_run(project, server.url)
    whole = ak.run(file, out=project / "whole", cache_policy="no-cache")
    server.forget()
    with pytest.raises(ak.SolverError) as caught:
        ak.run(file, out=project / "stopped", cache_policy="no-cache", max_calls=19)
    assert (caught.value.code, count_asked(server)) == ("E305", (16, 3))
    journal = CallStore(project / "stopped" / "calls.sqlite")
    purposes = {usage.purpose: usage.calls for usage in journal.sum_usage("quiz")}
    journal.close()
    assert purposes == {"solve": 16, "fallback:quiz": 3}
    resumed = ak.resume(project / "stopped")
    assert (resumed.status, count_asked(server)) == ("complete", (16, ASKED))
    assert read_numbers(resumed) == read_numbers(whole)


class Killer:
    """Answers and reads.

    At a completion with this number, counted from now on, a process is killed.
    """

    def __init__(self) -> None:
        self.pid, self.left = 0, 0

    def __call__(self, messages: Messages) -> str | Reply:
        """Kill before the reply is sent, so that the call is not paid for."""
        if not str(messages[0]["content"]).startswith("ASKED") and self.pid:
            self.left -= 1
            if self.left == 0:
                os.kill(self.pid, signal.SIGKILL)
        return say(messages)


def test_a_run_killed_during_fallback_calls_can_be_resumed(project: Path) -> None:
    """After three kills the tables are those of a run that was never killed.

    Calls are made one at a time: what is asked twice is the one call that each kill cut off.
    """
    killer = Killer()
    with TestServer(killer, Behaviour(delay=(0.01, 0.02))) as server:
        file = write_run(project, server.url)
        whole = ak.run(file, out=project / "whole", cache_policy="no-cache")
        server.forget()
        words = ["run", str(file), "--out", str(project / "killed"), "--cache-policy", "no-cache"]
        for left in (2, 2, 3):
            with Forked(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
                killer.pid, killer.left = process.pid, left
                _, err = process.communicate(timeout=300)
            assert process.returncode == -signal.SIGKILL, err
            words = ["resume", str(project / "killed")]
        killer.pid = 0
        resumed = ak.resume(project / "killed")
        assert count_asked(server) == (16, ASKED + 3)
        assert max(server.asked.by_prompt.values()) == 2
    assert read_numbers(resumed) == read_numbers(whole)


def test_resume_wants_the_same_fallback(
    server: TestServer, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another model, or another prompt of a later release, is not that of the run."""
    file = write_run(project, server.url)
    with pytest.raises(ak.SolverError):
        ak.run(file, out=project / "stopped", max_calls=19)
    text, message = file.read_text(), "the model of its scorer `quiz` is not the same any more"
    file.write_text(text.replace("m-small", "m-other"))
    with pytest.raises(ak.RunError, match=message):
        ak.resume(project / "stopped")
    file.write_text(text)
    monkeypatch.setattr(
        "answerkey.scorers.mcqa.StringEqualsMcqa.model_prompt", "Which one? {reply}"
    )
    with pytest.raises(ak.RunError, match=message):
        ak.resume(project / "stopped")


def test_fingerprint_has_the_fallback_and_its_prompt(
    server: TestServer, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks differ that have another fallback, none, or another prompt of ours."""

    def print_task(extraction: object) -> str:
        [job] = load_plan(write_run(project, server.url, extraction)).jobs
        return str(job.task.fingerprint)

    results = [
        print_task(extraction)
        for extraction in ("stated_answer", EXTRACTION, EXTRACTION | {"fallback": "mine"})
    ]
    monkeypatch.setattr(
        "answerkey.scorers.mcqa.StringEqualsMcqa.model_prompt", "Which one? {reply}"
    )
    changed = [print_task(extraction) for extraction in ("stated_answer", EXTRACTION)]
    assert len({*results, *changed}) == 4
    assert changed[0] == results[0]


# What goes wrong.


def test_failed_call_makes_the_run_incomplete(
    server: TestServer, project: Path, call: Call
) -> None:
    """Its sample is an ERROR, not INVALID; a resume asks only that one."""
    server.change(fail_once)
    done = call("run", write_run(project, server.url), "--out", project / "run")
    assert done.code == 3
    assert "INCOMPLETE: 1 call to a judge or fallback failed, so no accuracy is shown" in done.out
    assert "16 samples = 15 scored + 0 failed + 1 errors" in done.out
    assert "Accuracy is" not in done.out
    run = ak.load_run(project / "run")
    assert (list_scores(run)[12]["status"], list_scores(run)[12]["reason"]) == (
        "ERROR",
        "FALLBACK_CALL_FAILED",
    )
    assert run.tasks["quiz"].totals["fallback"]["quiz"]["failed"] == 1
    explained = call("explain", project / "run", "000013", "--json").json["samples"][0]["scores"][
        "quiz"
    ]
    assert explained["why"] == explained["metadata"]["fallback_error"] != ""
    server.change(say)
    server.forget()
    assert ak.resume(project / "run").status == "complete"
    assert count_asked(server) == (0, 1)


def test_check_validates_the_fallback(server: TestServer, project: Path) -> None:
    """A model that is not defined, and one that reads nothing, are told at the place of
    `fallback`.
    """
    for name, code in (("smal", "E113"), ("builtin/random", "E301")):
        file = write_run(project, server.url, EXTRACTION | {"fallback": name})
        file.write_text(json.dumps(json.loads(file.read_text()), indent=1))
        (error,) = ak.check(file).errors
        assert (error.code, name in error.message) == (code, True)
        assert error.where is not None
        assert f'"fallback": "{name}"' in file.read_text().splitlines()[(error.where.line or 0) - 1]
    assert not ak.check(write_run(project, server.url)).errors
    assert server.asked.total == 0


def test_the_key_is_required_before_the_first_call(
    server: TestServer, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`check` does without it; `run` says so before the model is asked."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    file = write_run(project, server.url, EXTRACTION | {"fallback": "openai/gpt-4.1-nano"})
    assert not ak.check(file).errors
    with pytest.raises(ak.SpecError) as caught:
        ak.run(file, out=project / "run")
    assert (caught.value.code, server.asked.total) == ("E117", 0)


def test_key_stays_where_it_belongs(project: Path, call: Call) -> None:
    """The key of a fallback is in its header, and in no file, summary or prompt, though it is sent
    back.
    """
    key = "sk-canary-0123456789abcdef"

    def tell(messages: Messages) -> str | Reply:
        return f"B {key}" if not str(messages[0]["content"]).startswith("ASKED") else say(messages)

    with TestServer(tell) as server:
        file = write_run(project, server.url)
        plan = json.loads(file.read_text())
        plan["models"][1]["config"]["api_key"] = "$SMALL_KEY"
        file.write_text(json.dumps(plan))
        (project / ".env").write_text(f"SMALL_KEY={key}\n")
        done = call("run", file, "--out", project / "run", "--env", project / ".env")
        assert done.code == 0, done.err
        assert set(find_places(server.asked, key)) == {"header authorization"}
    (project / ".env").unlink()
    assert key not in done.out + done.err
    assert not any(
        key.encode() in path.read_bytes() for path in project.rglob("*") if path.is_file()
    )


# Before it is asked, and afterwards.


def test_dry_run_counts_it(server: TestServer, project: Path, call: Call) -> None:
    """All that a model is yet to say, or the recorded completions that the rule cannot read."""
    file = write_run(project, server.url)
    planned = ak.plan_calls(file).tasks[0]
    assert (planned.calls, planned.judge_calls, planned.fallback_calls) == (16, 0, 16)
    done = call("run", file, "--completions", project / "said.jsonl", "--dry-run")
    assert "fallback       at most 16 calls more" in done.out
    assert (
        ak.plan_calls(write_run(project, server.url, "stated_answer")).tasks[0].fallback_calls == 0
    )
    assert server.asked.total == 0


def test_commands_name_the_fallback_before_calling_it(
    server: TestServer, project: Path, call: Call
) -> None:
    """`run`, `score` and `rescore` name the model before they ask it."""
    notice = (
        "fallback: `small` is asked about completions of `quiz` in which no choice is "
        "read, at most 16\n"
    )
    file = write_run(project, server.url)
    reuse = ("--cache-policy", "reuse")
    done = call(
        "score", file, "--completions", project / "said.jsonl", "--out", project / "run", *reuse
    )
    assert done.err.startswith(notice)
    assert "  fallback     small\n" in done.out
    assert "Calls of the fallback quiz\n  calls    8 = 8 sent" in done.out
    again = call("rescore", project / "run", "--out", project / "again", "--max-calls", 0, *reuse)
    assert (again.code, again.err.startswith(notice)) == (0, True)
    quiet = call("rescore", project / "run", "--out", project / "quiet", "--quiet")
    assert quiet.err == ""


def read_task(file: Path) -> dict[str, Any]:
    """Return the task of a run file."""
    plan = json.loads(file.read_text())
    task: dict[str, Any] = plan["tasks"][0]
    return task


def test_rescore_asks_the_fallback_alone(server: TestServer, project: Path) -> None:
    """One that is new to an old run is asked, within limits.

    Taken away again, the old numbers are back.
    """
    file = write_run(project, server.url, "stated_answer")
    old = ak.run(file, out=project / "old")
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
    run = ak.resume(project / "new")
    assert (run.status, count_asked(server)) == ("complete", (0, ASKED))
    assert list_found(run) == FOUND * 2
    write_run(project, server.url, "stated_answer")
    back = ak.rescore(project / "new", read_task(file), out=project / "back")
    assert read_numbers(back) == read_numbers(old)
    assert count_asked(server) == (0, ASKED)


def test_cost_counts(server: TestServer, project: Path) -> None:
    """Its tokens are paid for out of the same purse, and stated apart."""
    run = ak.run(write_run(project, server.url), out=project / "run", price="1:1")
    costs = {
        purpose: usage["cost"] for purpose, usage in run.tasks["quiz"].manifest["calls"].items()
    }
    assert set(costs) == {"solve", "fallback:quiz"}
    assert all(cost > 0 for cost in costs.values())


def test_audit_and_report_compare_it_with_the_rule(
    server: TestServer, project: Path, call: Call
) -> None:
    """The rule by itself is a line among the other rules, with what it reads without the
    fallback.
    """
    ak.run(write_run(project, server.url), out=project / "run")
    result = call("audit", project / "run", "--json").json["audit"]["tasks"][0]
    rules = {reader["name"]: (reader["kind"], reader["correct"]) for reader in result["readers"]}
    assert (rules["stated_answer/fallback"], rules["stated_answer"]) == (("own", 8), ("rule", 6))
    assert call("report", project / "run", "-o", project / "run.html").code == 0
    run = ak.load_run(project / "run")
    audits = {key: audit_task(SampleTable(run, task_run)) for key, task_run in run.tasks.items()}
    (task,) = dump(build_overview(run, audits, run_id="r0", label="run"))["tasks"]
    lines = {line["name"]: (line["kind"], line["value"]) for line in task["plots"]["rules"]}
    assert lines["stated_answer/fallback"] == ("own", 0.5)
    assert lines["stated_answer"] == ("rule", 0.375)
    assert (task["rule"], task["scorer"]) == (
        "stated_answer/fallback",
        "quiz, fallback small",
    )
    assert task["headline"]["note"].endswith("50.00 % with it and 37.50 % without it.")


def test_the_fallback_reads_imported_completions(
    server: TestServer, project: Path, call: Call
) -> None:
    """A log of another tool, imported and given a fallback: where they said right, we do now,
    too.
    """
    shared = {"question": "?", "options": ["x", "yy"], "score": 1}
    rows = [
        {**shared, "id": "a", "answer": "A", "output": "A"},
        {**shared, "id": "b", "answer": "B", "output": "Hm [B]."},
    ]
    write_rows(project / "log.jsonl", rows)
    assert call("import", "plain", project / "log.jsonl", "--out", project / "mine").code == 0
    (file,) = [
        path for path in (project / "mine").glob("*.yaml") if "extraction:" in path.read_text()
    ]
    alone = ak.run(project / "mine", out=project / "alone")
    fallback = f'extraction: {{rule: stated_answer, fallback: "{server.url}#m-small"}}'
    file.write_text(file.read_text().replace("extraction: stated_answer", fallback))
    run = ak.run(project / "mine", out=project / "run")
    (before,) = alone.tasks.values()
    (after,) = run.tasks.values()
    assert (before.totals["theirs"]["both_right"], after.totals["theirs"]["both_right"]) == (1, 2)
    assert count_asked(server) == (0, 1)
