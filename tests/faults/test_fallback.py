"""A fallback from a task file to the run folder, against an endpoint: what is asked, kept and
counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.projects import describe_task, write_rows
from tests.servers import find_places

import answerkey as ak
from answerkey.reports.overview import audit_task, build_overview, dump
from answerkey.reports.samples import SampleTable
from answerkey.spec import job, load_plan
from answerkey.testing import Reply
from answerkey.testing.replies import Messages

from .second_models import FOUND, SecondModel, answer_or_read, read_numbers, use_fallback

ASKED = 8
PROMPT = "answerkey.scorers.mcqa.StringEqualsMcqa.model_prompt"
Call = Callable[..., Any]


def list_prompts(fallback: SecondModel) -> list[str]:
    """Return what the fallback was asked."""
    bodies = [request.body or {} for request in fallback.server.asked.requests]
    return [str(body["messages"][0]["content"]) for body in bodies if body["model"] == "m-small"]


# What is asked and counted.


def test_fallback_reads_what_the_rule_cannot(fallback: SecondModel) -> None:
    """It is asked about completions with a text in which no choice is read, each once, and never
    shown more.

    The truth, the question and the id of the sample are nowhere in what it is asked.
    """
    run = fallback.run()
    assert (run.status, fallback.count_asked()) == ("complete", (16, ASKED))
    choices = [score["metadata"]["predicted_choice"] for score in fallback.list_scores(run)]
    assert choices == FOUND * 2
    prompts = list_prompts(fallback)
    questions = [int(re.findall(r"A\. w(\d+)", prompt)[0]) for prompt in prompts]
    assert questions == [4, 5, 6, 7, 12, 13, 14, 15]
    for word in ("ASKED", "answer is B", "00000", "truth"):
        assert not any(word in prompt for prompt in prompts)


def test_share_accuracy_and_the_number_without_it(
    fallback: SecondModel, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All three stand in the summary, in `--json` and in `metrics.json`, and come from all rows."""
    run, out = fallback.run(), fallback.folder / "run"
    counts = {"n": 16, "right": 8, "invalid": 6, "asked": 8, "named": 4, "correct": 2, "failed": 0}
    assert run.tasks["quiz"].totals["fallback"] == {"quiz": counts}
    assert run.metrics["Accuracy"].value == 0.5
    fallback.write(fallback.without)
    alone = fallback.run("alone")
    assert alone.metrics["Accuracy"].value == 6 / 16
    assert "fallback" not in alone.tasks["quiz"].totals
    (task,) = call("show", out, "--json").json["tasks"]
    result = task["fallback"]["quiz"]
    assert (result["model"], result["share"], result["accuracy"]) == ("small", 0.5, 0.5)
    assert (result["with_it"]["accuracy"], result["without_it"]["accuracy"]) == (0.5, 6 / 16)
    assert (result["with_it"]["invalid"], result["without_it"]["invalid"]) == (6, 10)
    assert result["without_it"]["interval"] == pytest.approx(alone.metrics["Accuracy"].interval)
    shown = " ".join(call("show", out, "-v").out.split())
    text = "Fallback small: asked about 8 of 16 completions (50.00 %), it named a choice in 4, the "
    assert f"{text}right one in 2. Accuracy is 50.00 % with it and 37.50 % without it." in shown
    monkeypatch.setenv("COLUMNS", "120")
    audit = " ".join(call("audit", out).out.split())
    assert re.search(r"stated_answer/fallback \(this run\) 50\.00 % \[[^]]+\] 37\.50 % 10 ", audit)
    assert re.search(r" stated_answer 37\.50 % \[[^]]+\] 62\.50 % 6 ", audit)


def test_what_actions_leave_out_counts_on_neither_side(fallback: SecondModel) -> None:
    """The number without it is of the same samples."""
    left = {"expression": "{{ sample.question }}", "op": "equals", "value": "q4"}
    fallback.write(actions=[{"key": "one", "filter": left, "action": "exclude_from_metrics"}])
    result = fallback.run().tasks["quiz"].totals["fallback"]["quiz"]
    assert (result["n"], result["asked"], result["named"], result["correct"]) == (15, 7, 3, 1)


def test_trials_are_read_one_by_one(fallback: SecondModel) -> None:
    """Each trial of a sample is asked about for itself, and the counts are of trials."""
    fallback.write(trials={"num_trials": 2})
    run = fallback.run()
    assert fallback.count_asked() == (32, 2 * ASKED)
    assert run.tasks["quiz"].totals["fallback"]["quiz"]["n"] == 32


def test_options_are_shown_as_the_model_saw_them(fallback: SecondModel) -> None:
    """Under rotations the fallback sees each row's order, and its label is mapped back to the
    option.
    """
    fallback.write(choice_order={"options": "{{ sample.options }}", "orders": "rotations"})
    run = fallback.run(num_samples=5)
    prompts = list_prompts(fallback)
    second_options = {re.findall(r"^B\. (\w)4$", text, re.MULTILINE)[0] for text in prompts}
    assert second_options == {*"wxyz"}
    results = [score["metadata"] for score in fallback.list_scores(run)[-4:]]
    assert {result["extraction_rule"] for result in results} == {"stated_answer/fallback"}
    assert {result["predicted_choice"] for result in results} == {"B"}
    assert sorted(result["predicted_option"] for result in results) == ["A", "B", "C", "D"]
    assert run.tasks["quiz"].totals["fallback"]["quiz"]["n"] == 20


def test_wrong_rows_cause_no_calls(fallback: SecondModel) -> None:
    """A row that the dataset has wrong is FAILED, also where its completion is INVALID."""
    fallback.rows[4]["answer"] = "E"
    write_rows(fallback.folder / "rows.jsonl", fallback.rows)
    options: dict[str, Any] = {"allow_failed": 1, "completions": fallback.folder / "said.jsonl"}
    planned = ak.plan_calls(fallback.folder / "run.yaml", **options).tasks[0]
    assert planned.fallback_calls == 15
    run = fallback.run(**options)
    assert fallback.count_asked() == (0, ASKED - 1)
    assert fallback.list_scores(run)[4]["status"] == "FAILED"


# The same numbers, however they come about.


@pytest.mark.parametrize("size", [1, 3, 16])
def test_every_chunk_size_gives_the_same_numbers(
    fallback: SecondModel, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Scores, counts and metrics are those of one chunk, bit for bit; nothing is asked twice."""
    whole = read_numbers(fallback.run("whole", cache_policy="no-cache"))
    fallback.server.forget()
    monkeypatch.setattr(job, "CHUNK_ROWS", size)
    assert read_numbers(fallback.run("chunks", cache_policy="no-cache")) == whole
    assert fallback.count_asked() == (16, ASKED)


def test_live_recorded_and_in_memory_give_the_same(fallback: SecondModel) -> None:
    """The same completions are read alike, wherever they come from."""
    file = fallback.folder / "said.jsonl"
    live, recorded = fallback.run("live"), fallback.run("recorded", completions=file)
    task = describe_task(scorers=use_fallback(f"{fallback.server.url}#m-small"))
    replies = [json.loads(line)["completion"] for line in file.read_text().splitlines()]
    memory = ak.score(task, fallback.rows, replies)
    first, *further = map(fallback.list_scores, (live, recorded, memory))
    assert further == [first, first]


def test_a_later_prompt_is_another(fallback: SecondModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the completions read by one prompt and half by another is no result."""
    with pytest.raises(ak.SolverError):
        fallback.run("stopped", max_calls=19)
    monkeypatch.setattr(PROMPT, "Which one? {reply}")
    message = "the model of its scorer `quiz` is not the same any more"
    with pytest.raises(ak.RunError, match=message):
        ak.resume(fallback.folder / "stopped")


def test_fingerprint_of_a_fallback(fallback: SecondModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks with another fallback, without one, or with another built-in prompt are different."""
    kinds = [fallback.without, fallback.scorers, use_fallback("mine")]

    def list_fingerprints() -> list[str]:
        plans = [load_plan(fallback.write(scorers)) for scorers in kinds]
        return [str(plan.jobs[0].task.fingerprint) for plan in plans]

    results = list_fingerprints()
    monkeypatch.setattr(PROMPT, "Which one? {reply}")
    changed = list_fingerprints()
    assert len({*results, *changed}) == 5
    assert changed[0] == results[0]


# What goes wrong.


@pytest.mark.parametrize(("name", "code"), [("smal", "E113"), ("builtin/random", "E301")])
def test_check_validates_the_fallback(fallback: SecondModel, name: str, code: str) -> None:
    """A model that is not defined, and one that reads nothing, are told at the place of
    `fallback`.
    """
    assert not ak.check(fallback.folder / "run.yaml").errors
    file = fallback.write(use_fallback(name))
    file.write_text(json.dumps(json.loads(file.read_text()), indent=1))
    (error,) = ak.check(file).errors
    assert (error.code, name in error.message) == (code, True)
    assert error.where is not None
    assert f'"fallback": "{name}"' in file.read_text().splitlines()[(error.where.line or 0) - 1]
    assert fallback.server.asked.total == 0


def test_key_stays_where_it_belongs(fallback: SecondModel, call: Call) -> None:
    """The key of a fallback is in its header, and in no file, summary or prompt, though it is sent
    back.
    """
    key, folder = "sk-canary-0123456789abcdef", fallback.folder

    def tell(messages: Messages) -> str | Reply:
        is_asked = str(messages[0]["content"]).startswith("ASKED")
        return answer_or_read(messages) if is_asked else f"B {key}"

    fallback.server.change(tell)
    plan = json.loads((folder / "run.yaml").read_text())
    plan["models"][1]["config"]["api_key"] = "$SMALL_KEY"
    (folder / "run.yaml").write_text(json.dumps(plan))
    (folder / ".env").write_text(f"SMALL_KEY={key}\n")
    done = call("run", folder, "--out", folder / "run", "--env", folder / ".env")
    assert done.code == 0, done.err
    assert set(find_places(fallback.server.asked, key)) == {"header authorization"}
    (folder / ".env").unlink()
    assert key not in done.out + done.err
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert not any(key.encode() in content for content in files)


# Before it is asked, and afterwards.


def test_dry_run_counts_it(fallback: SecondModel, call: Call) -> None:
    """All that a model is yet to say, or the recorded completions that the rule cannot read."""
    file, replies = fallback.folder / "run.yaml", fallback.folder / "said.jsonl"
    planned = ak.plan_calls(file).tasks[0]
    assert (planned.calls, planned.judge_calls, planned.fallback_calls) == (16, 0, 16)
    done = call("run", file, "--completions", replies, "--dry-run")
    assert "fallback       at most 16 calls more" in done.out
    assert ak.plan_calls(fallback.write(fallback.without)).tasks[0].fallback_calls == 0
    assert fallback.server.asked.total == 0


def test_commands_name_the_fallback_before_calling_it(fallback: SecondModel, call: Call) -> None:
    """`run`, `score` and `rescore` name the model before they ask it."""
    about = "is asked about completions of `quiz` in which no choice is read, at most 16"
    notice = f"fallback: `small` {about}\n"
    folder, reuse = fallback.folder, ("--cache-policy", "reuse")
    words = ("--completions", folder / "said.jsonl", "--out", folder / "run")
    done = call("score", folder / "run.yaml", *words, *reuse)
    assert done.err.startswith(notice)
    assert "  fallback     small\n" in done.out
    assert "Calls of the fallback quiz\n  calls    8 = 8 sent" in done.out
    again = call("rescore", folder / "run", "--out", folder / "again", "--max-calls", 0, *reuse)
    assert (again.code, again.err.startswith(notice)) == (0, True)
    assert call("rescore", folder / "run", "--out", folder / "quiet", "--quiet").err == ""


def test_audit_and_report_compare_it_with_the_rule(fallback: SecondModel, call: Call) -> None:
    """The rule by itself is a line among the other rules, with what it reads without the
    fallback.
    """
    run, out = fallback.run(), fallback.folder / "run"
    result = call("audit", out, "--json").json["audit"]["tasks"][0]
    rules = {reader["name"]: (reader["kind"], reader["correct"]) for reader in result["readers"]}
    assert (rules["stated_answer/fallback"], rules["stated_answer"]) == (("own", 8), ("rule", 6))
    assert call("report", out, "-o", fallback.folder / "run.html").code == 0
    audits = {key: audit_task(SampleTable(run, task_run)) for key, task_run in run.tasks.items()}
    (task,) = dump(build_overview(run, audits, run_id="r0", label="run"))["tasks"]
    lines = {line["name"]: (line["kind"], line["value"]) for line in task["plots"]["rules"]}
    assert lines["stated_answer/fallback"] == ("own", 0.5)
    assert lines["stated_answer"] == ("rule", 0.375)
    assert (task["rule"], task["scorer"]) == ("stated_answer/fallback", "quiz, fallback small")
    assert task["headline"]["note"].endswith("50.00 % with it and 37.50 % without it.")


def test_the_fallback_reads_imported_completions(fallback: SecondModel, call: Call) -> None:
    """A log of another tool, imported and given a fallback: where they said right, we do now,
    too.
    """
    shared = {"question": "?", "options": ["x", "yy"], "score": 1}
    rows = [
        {**shared, "id": "a", "answer": "A", "output": "A"},
        {**shared, "id": "b", "answer": "B", "output": "Is it [B]?"},
    ]
    log, project = fallback.folder / "log.jsonl", fallback.folder / "mine"
    write_rows(log, rows)
    assert call("import", "plain", log, "--out", project).code == 0
    (file,) = [path for path in project.glob("*.yaml") if "extraction:" in path.read_text()]
    alone = ak.run(project, out=fallback.folder / "alone")
    setting = f'extraction: {{rule: stated_answer, fallback: "{fallback.server.url}#m-small"}}'
    file.write_text(file.read_text().replace("extraction: stated_answer", setting))
    run = ak.run(project, out=fallback.folder / "run")
    (before,), (after,) = alone.tasks.values(), run.tasks.values()
    both_right = [task.totals["imported"]["both_right"] for task in (before, after)]
    assert both_right == [1, 2]
    assert fallback.count_asked() == (0, 1)
