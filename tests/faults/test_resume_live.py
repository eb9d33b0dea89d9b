"""Runs of live models that stopped or failed in part, gone on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.projects import SCORER, describe_live_task, describe_model, write_rows, write_run
from tests.servers import connect

import answerkey as ak
from answerkey.models.config import Generation, ModelConfig
from answerkey.spec import Options, load_model
from answerkey.testing import Reply, TestServer

KEY = "sk-canary-0123456789abcdef"
TASK = describe_live_task()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with a task and ten questions."""
    folder = tmp_path / "project"
    folder.mkdir()
    rows = [{"question": f"q{n}", "answer": "AB"[n % 2]} for n in range(10)]
    write_rows(folder / "rows.jsonl", rows)
    (folder / "task.yaml").write_text(json.dumps(TASK))
    return folder


def write_keyed_run(folder: Path, url: str) -> None:
    """Write a run file whose model has its key from the environment."""
    model = describe_model("mine", url, api_key="<< secrets.MY_KEY >>")
    model["generation"] = {"temperature": 0.5, "stop": ["\n"]}
    write_run(folder, [model], task=TASK)


def run_task(project: Path, url: str, out: str = "run", **options: Any) -> ak.Run:  # noqa: ANN401  # of `run`
    """Run the task file over the questions, against the model `m` of an endpoint."""
    options |= {"dataset": str(project / "rows.jsonl"), "model": f"{url}#m"}
    return ak.run(project / "task.yaml", out=project / out, **options)


def find_model(name: str, file: str | Path) -> str | ModelConfig:
    """Return the model of this name, as a run file or its project says."""
    return load_model(name, file, generation=Generation(), options=Options())


def stop(stage: str, done: int, total: int) -> None:
    """Interrupt a run when everything is asked and scored, but not finished."""
    del done, total
    if stage == "score":
        raise KeyboardInterrupt


def test_a_run_files_model_keeps_its_key(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is looked up where it was.

    No file of the run, the journal included, ever holds it.
    """
    monkeypatch.setenv("MY_KEY", KEY)
    with TestServer("A") as server:
        write_keyed_run(project, server.url)
        with pytest.raises(KeyboardInterrupt):
            ak.run(project, out=project / "run", progress=stop)
        assert (project / "run" / "calls.sqlite").exists()
        files = [path.read_bytes() for path in project.parent.rglob("*") if path.is_file()]
        assert not any(KEY.encode() in content for content in files)
        resumed = ak.resume(project / "run")
        assert (server.asked.total, set(server.asked.keys)) == (10, {f"Bearer {KEY}"})
    assert resumed.metrics["Accuracy"].value == 0.5
    assert set(resumed.tasks["quiz"].completions["source"]) == {"live"}


def test_a_changed_model_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the answers from another endpoint is no result."""
    monkeypatch.setenv("MY_KEY", KEY)
    with TestServer("A") as server, TestServer("B") as elsewhere:
        write_keyed_run(project, server.url)
        with pytest.raises(KeyboardInterrupt):
            ak.run(project, out=project / "run", progress=stop)
        write_keyed_run(project, elsewhere.url)
        message = "E507.*its model `mine` is not the same any more"
        with pytest.raises(ak.RunError, match=message):
            ak.resume(project / "run")
        assert elsewhere.asked.total == 0


def tamper(project: Path, old: str, new: str) -> None:
    """Let a run folder name another host, as its author, who can also compute what belongs to it,
    may.
    """
    for file in (project / "run" / "run.json", project / "run" / "tasks" / "quiz" / "task.json"):
        content = json.loads(file.read_text().replace(old, new))
        for entry in content.get("tasks", []):
            entry["model"]["identity"] = connect(f"{new}#m").identity
        if content.pop("files", None) is not None:
            content["status"] = "running"  # as if it had been killed
        file.write_text(json.dumps(content))


@pytest.mark.parametrize("place", ["environment", "env file of the project"])
def test_a_run_folder_cannot_send_a_key_to_a_host_of_its_choice(
    project: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """A host in `run.json` is not one that the caller named: no key goes there, the project's
    neither.
    """
    with TestServer("A") as server:
        with pytest.raises(KeyboardInterrupt):
            run_task(project, server.url, progress=stop)
        tamper(project, server.url, "https://collector.example/v1")
    manifest = json.loads((project / "run" / "run.json").read_text())
    source = json.loads((project / "run" / "tasks" / "quiz" / "task.json").read_text())
    if place == "environment":
        monkeypatch.setenv("ANSWERKEY_API_KEY", KEY)
        with pytest.raises(ak.SpecError, match=r"E117.*names the host `collector\.example`"):
            ak.resume(project / "run")
    else:
        settings = [f"ANSWERKEY_API_KEY={KEY}", "ANSWERKEY_ALLOW_HOSTS=collector.example", ""]
        (project / ".env").write_text("\n".join(settings))
        assert connect(find_model(source["model_key"], manifest["file"])).key is None


def test_env_files_redirect_no_provider(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A base URL that stands in a file of the project gets no key of the caller, when resuming
    neither.
    """
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    (project / ".env").write_text("OPENAI_BASE_URL=https://collector.example/v1\n")
    with pytest.raises(ak.SpecError, match=r"E117.*names the host `collector\.example`"):
        find_model("openai/gpt-x", project / "run.yaml")


def test_calls_that_failed_are_asked_again_and_no_others(project: Path) -> None:
    """An incomplete run keeps its journal; `resume` asks only what has no answer."""
    answers: dict[str, str | Reply] = {f"q{n}": "A" for n in range(10)}
    broken = {**answers, "q3": Reply(status=400), "q7": Reply(status=400)}
    with TestServer(broken) as server:
        first = run_task(project, server.url)
        assert (first.status, first.tasks["quiz"].counts["errors"]) == ("incomplete", 2)
        server.forget()
        server.change(answers=answers)
        again = ak.resume(project / "run")
        assert server.asked.by_prompt == {"q3": 1, "q7": 1}
    assert (again.status, again.metrics["Accuracy"].value) == ("complete", 0.5)
    assert not (project / "run" / "calls.sqlite").exists()


def test_a_change_of_scorers_alone_asks_nothing(project: Path) -> None:
    """Under `reuse`, the next run with the same prompts is answered from the cache, whatever scores
    it.
    """
    with TestServer("A") as server:
        run_task(project, server.url, "one", cache_policy="reuse")
        scorer = {**SCORER, "ground_truth_choice": "B", "key": "other"}
        changed = describe_live_task(scorers=[scorer])
        (project / "task.yaml").write_text(json.dumps(changed))
        second = run_task(project, server.url, "two", cache_policy="reuse")
        assert server.asked.total == 10
        assert set(second.tasks["quiz"].completions["source"]) == {"cache"}
        assert second.metrics["Accuracy"].value == 0.0
        run_task(project, server.url, "three", cache_policy="update")
        assert server.asked.total == 20


def test_a_bad_cache_is_a_notice_of_the_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is complete, and says that every call was asked."""
    (project / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "file"))
    with TestServer("A") as server:
        run = run_task(project, server.url, cache_policy="update")
    assert run.status == "complete"
    assert any("the call cache" in notice for notice in run.manifest["notices"])
