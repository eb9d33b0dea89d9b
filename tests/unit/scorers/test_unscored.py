"""Samples that a scorer cannot score: the run says so in its status, its exit code and everywhere
else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.projects import describe_solver, make_task, write_rows, write_task

import answerkey as ak
from answerkey.testing import TestServer

Call = Callable[..., Any]
NO_JSON = {
    "type": "string_equals",
    "ground_truth": "{{ sample.answer }}",
    "value": "{{ (solver_output.output.choices[0].message.content | fromjson).answer }}",
}
RAISES = {
    "type": "python",
    "compute_scores_snippet": "def compute_scores(sample, output):\n    return "
    "{'x': sample['nope']}\n",
    "metrics": [{"type": "mean", "field": "x"}],
}
SOLVER = describe_solver()


def make_rows(texts: list[str]) -> list[dict[str, str]]:
    """Return samples with these completions."""
    return [
        {"question": f"q{number}", "answer": "A", "completion": text}
        for number, text in enumerate(texts)
    ]


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, with lines of 100 cells."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a dataset of 120 samples whose completion is the right letter.

    Caches are this test's own.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write_rows(tmp_path / "rows.jsonl", make_rows(["A"] * 120))


@pytest.fixture
def server() -> Iterator[TestServer]:
    """Return an endpoint that answers with a letter, as a model and as a judge."""
    with TestServer(lambda _: "A") as running:
        yield running


def count(done: Any) -> tuple[str, int, int, int]:  # noqa: ANN401 - what a command did
    """Return the status of a run, and its scored, failed and error samples."""
    counts = done.json["tasks"][0]["counts"]
    return done.json["run"]["status"], counts["scored"], counts["failed"], counts["errors"]


def test_nothing_scored_is_not_complete(call: Call, tmp_path: Path, rows: Path) -> None:
    """A template that fails on every completion: exit 3, no number, an error in JUnit, the same in
    `show`.
    """
    task, junit = write_task(tmp_path / "task.yaml", NO_JSON), tmp_path / "junit.xml"
    done = call("score", task, "--dataset", rows, "--out", "run", "--json", "--junit", junit)
    assert (done.code, count(done)) == (3, ("incomplete", 0, 120, 0))
    failures = "120 of 120 samples could not be scored (most often scorer `string_equals`"
    assert failures in junit.read_text()
    assert 'errors="1"' in junit.read_text()
    shown = call("show", "run")
    assert "INCOMPLETE: 120 of 120 samples could not be scored" in shown.out
    assert "answerkey rescore" in shown.out
    assert "answerkey resume" not in shown.out
    assert "Accuracy" not in shown.out
    assert call("resume", "run").code == 3
    call("show", "run", "--summary", tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "INCOMPLETE: 120 of 120 samples could not be scored" in page


def test_failed_samples_may_be_allowed(call: Call, tmp_path: Path) -> None:
    """As many as `--allow-failed` says are left out and counted.

    One more makes the run incomplete.
    """
    rows = make_rows(['{"answer": "A"}'] * 17 + ["none"] * 3)
    file = write_rows(tmp_path / "rows.jsonl", rows)
    task = write_task(tmp_path / "task.yaml", NO_JSON)
    words = ("score", task, "--dataset", file, "--json")
    assert [call(*words, "--allow-failed", most).code for most in "23"] == [3, 0]
    assert [call(*words, "--allow-failed", most).code for most in ("14%", "15%")] == [3, 0]
    allowed = call(*words, "--allow-failed", "3", "--out", "run")
    assert count(allowed) == ("complete", 17, 3, 0)
    assert call("rescore", "run", "--out", "again", "--json").code == 0
    assert call("rescore", "run", "--out", "strict", "--allow-failed", "2").code == 3


def test_a_second_scorer_counts_too(call: Call, tmp_path: Path, rows: Path) -> None:
    """A scorer beside the main one that fails on every sample leaves the run incomplete."""
    good = {"type": "string_equals", "ground_truth": "{{ sample.answer }}"}
    task = write_task(tmp_path / "task.yaml", good, {**NO_JSON, "purpose": "qa", "key": "other"})
    done = call("score", task, "--dataset", rows, "--out", "run", "--json")
    assert (done.code, count(done)) == (3, ("incomplete", 120, 0, 0))
    failures = "120 of 120 samples could not be scored (most often scorer `other`"
    assert failures in call("show", "run").out


def test_failing_code_runs_on_fifty_samples(call: Call, tmp_path: Path, rows: Path) -> None:
    """The first 50 fail alike: the rest is left out and counted, unless as many may fail.

    `rescore` mends.
    """
    task = write_task(tmp_path / "task.yaml", RAISES)
    words = ("score", task, "--dataset", rows, "--trust-code")
    done = call(*words, "--out", "run", "--json")
    assert (done.code, count(done)) == (3, ("incomplete", 0, 120, 0))
    shown = " ".join(call("show", "run").out.split())
    assert "INCOMPLETE: 120 of 120 samples could not be scored" in shown
    assert "failed STOPPED_EARLY 70 000051" in shown
    everyone = call(*words, "--out", "all", "--allow-failed", "120", "--json")
    assert (everyone.code, count(everyone)) == (0, ("complete", 0, 120, 0))
    assert "STOPPED_EARLY" not in call("show", "all").out
    snippet = "def compute_scores(sample):\n    return {'x': 1}\n"
    right = {**RAISES, "compute_scores_snippet": snippet}
    mended = call("rescore", "run", write_task(task, right), "--trust-code", "--json")
    assert (mended.code, count(mended)) == (0, ("complete", 120, 0, 0))


def test_other_failures_do_not_stop_a_run(call: Call, tmp_path: Path) -> None:
    """A sample among the first 50 that is scored is reason enough to go on."""
    rows = make_rows(["none"] * 49 + ["fine"] + ["none"] * 70)
    file = write_rows(tmp_path / "rows.jsonl", rows)
    snippet = (
        "def compute_scores(sample, solver_output):\n    return {'x': {'fine': "
        "1}[sample['completion']]}\n"
    )
    task = write_task(tmp_path / "task.yaml", {**RAISES, "compute_scores_snippet": snippet})
    done = call("score", task, "--dataset", file, "--trust-code", "--out", "run", "--json")
    assert (done.code, count(done)) == (3, ("incomplete", 1, 119, 0))
    assert "STOPPED_EARLY" not in call("show", "run").out


def test_a_judge_that_only_talks_is_paid_for_fifty_samples(
    call: Call, tmp_path: Path, rows: Path, server: TestServer
) -> None:
    """Nothing more is asked: 50 completions, 50 replies of the judge.

    A new run asks all of them.
    """
    judge = {
        "type": "model_as_a_judge_scorer",
        "model_key": f"{server.url}#judge",
        "user_prompt": "{{ sample.question }} {{ model_output }}",
    }
    task = write_task(tmp_path / "task.yaml", judge, solver=SOLVER)
    words = ("--dataset", rows, "--model", f"{server.url}#m")
    done = call("run", task, *words, "--out", "run", "--json")
    assert (done.code, count(done)) == (3, ("incomplete", 0, 120, 0))
    assert server.asked.total == 100
    shown = " ".join(call("show", "run").out.split())
    assert "scorer `model_as_a_judge_scorer`: JUDGE_UNREADABLE" in shown
    assert "Fix the scorer" in shown
    assert call("resume", "run").code == 3
    assert server.asked.total == 100
    right = {"type": "string_equals", "ground_truth": "{{ sample.answer }}"}
    mended = call("rescore", "run", write_task(task, right, solver=SOLVER), "--json")
    assert (mended.code, count(mended)) == (3, ("incomplete", 50, 0, 70))
    assert call("run", task, *words).code == 0
    assert server.asked.total == 220


def test_resume_takes_allowance(call: Call, tmp_path: Path, rows: Path, server: TestServer) -> None:
    """`resume --allow-failed` asks the rest; the tables have every sample once."""
    task = write_task(tmp_path / "task.yaml", RAISES, solver=SOLVER)
    model = ("--model", f"{server.url}#m", "--trust-code")
    assert call("run", task, "--dataset", rows, *model, "--out", "run").code == 3
    assert server.asked.total == 50
    done = call("resume", "run", "--allow-failed", "100%", "--trust-code", "--json")
    assert (done.code, count(done)) == (0, ("complete", 0, 120, 0))
    assert server.asked.total == 120
    assert len(ak.load_run("run").tasks["quiz"].scores) == 120


def test_a_run_stops_before_its_other_tasks(
    call: Call, tmp_path: Path, rows: Path, server: TestServer
) -> None:
    """Neither a repetition nor another task is asked after the first 50 have failed."""
    write_task(tmp_path / "task.yaml", RAISES, solver=SOLVER, dataset={"key": "d"})
    dataset = {"key": "d", "display_name": "D", "source": {"type": "local", "file_path": rows.name}}
    pair = {"task_key": "quiz", "model_key": "m"}
    model = {"key": "m", "display_name": "M", "task": "chat_completion"}
    url = f"{server.url}/chat/completions"
    config = {"connection_type": "custom_connection", "url": url, "model_key": "m"}
    config["adapter"] = {"key": "latticeflow$openai_chat_completion"}  # type: ignore[assignment]
    evaluation = {"key": "e", "display_name": "E", "description": "D"}
    first = {**pair, "key": "first", "repeatability": {"num_runs": 2}}
    evaluation["task_specifications"] = [first, {**pair, "key": "second"}]  # type: ignore[assignment]
    models = [{**model, "config": config}]
    parts = {"tasks": [{"$ref": "task.yaml"}], "datasets": [dataset], "models": models}
    (tmp_path / "run.yaml").write_text(json.dumps({**parts, "evaluation": evaluation}))
    done = call("run", tmp_path / "run.yaml", "--trust-code", "--json")
    assert (done.code, count(done)) == (3, ("incomplete", 0, 120, 0))
    assert server.asked.total == 50


def test_scores_in_memory_are_incomplete_too(rows: Path) -> None:
    """`score` in Python gives the same status and counts."""
    table = [json.loads(line) for line in rows.read_text().splitlines()]
    run = ak.score(make_task(NO_JSON), table)
    assert (run.status, run.tasks["quiz"].counts["failed"]) == ("incomplete", 120)
    run = ak.score(make_task(RAISES), table, trust_code=True)
    assert (run.status, run.tasks["quiz"].counts["failed"]) == ("incomplete", 120)
    assert run.tasks["quiz"].totals["failed"]["STOPPED_EARLY"]["count"] == 70
