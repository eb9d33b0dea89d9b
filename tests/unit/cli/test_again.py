"""Laws of `resume` and `rescore`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from answerkey.evaluate import runner
from answerkey.runs import reopen_run

Call = Callable[..., Any]


@pytest.fixture
def stopped(run_folder: Path) -> Path:
    """Return a run that is there but for its end."""
    manifest = json.loads((run_folder / "run.json").read_text())
    (run_folder / "run.json").write_text(json.dumps({**manifest, "status": "running"}))
    return run_folder


def test_resume_finishes_a_run_and_prints_its_summary(call: Call, stopped: Path) -> None:
    """The summary is that of `run`."""
    done = call("resume", stopped)
    assert done.code == 0
    assert "  Accuracy  25.00 %  [4.56, 69.94]  4\n" in done.out


def test_resume_finds_runs_by_name(call: Call, stopped: Path) -> None:
    """A name below `runs` and `latest` will do."""
    Path("runs").mkdir()
    stopped.rename("runs/half")
    found = call("resume", "half", "--json").json["run"]
    assert (found["path"], found["status"]) == ("runs/half", "complete")
    assert call("resume", "latest").code == 0
    assert call("resume", "nothing").err.startswith("error[E501]: there is no run `nothing`")


def test_a_complete_run_is_said_to_be_complete(call: Call, run_folder: Path) -> None:
    """It is shown, and that is no failure."""
    done = call("resume", run_folder)
    assert done.code == 0
    assert done.err.startswith("the run is complete: there is nothing to go on with\n")
    assert "25.00 %" in done.out


def test_a_run_without_run_json_starts_again(call: Call) -> None:
    """E507 says how."""
    Path("half/tasks").mkdir(parents=True)
    refused = call("resume", "half")
    assert refused.code == 2
    assert refused.err.startswith("error[E507]: `half` stopped before its `run.json` was written")
    assert "start again with `answerkey run`" in refused.err


def test_a_run_in_use_is_refused(call: Call, stopped: Path) -> None:
    """E506 names the process."""
    with reopen_run(stopped):
        refused = call("resume", stopped)
    assert refused.code == 2
    assert refused.err.startswith(f"error[E506]: `{stopped}` is in use by process ")


def test_an_interrupted_command_says_how_to_go_on(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends with exit code 130 and the command that goes on."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    words = (project / "task.yaml", "--dataset", project / "rows.jsonl", "--out", "half", "--copy")
    with monkeypatch.context() as patch:
        patch.setattr(runner, "run_task", stop)
        done = call("score", *words)
    assert done.code == 130
    assert done.err.endswith("interrupted\nto go on where it stopped: answerkey resume half\n")
    assert call("resume", "half").code == 0


def test_rescore_makes_a_new_run(call: Call, project: Path, run_folder: Path) -> None:
    """A changed task file gives other numbers for the same completions."""
    task = project / "task.yaml"
    task.write_text(task.read_text().replace('"{{ sample.answer }}"', "B"))
    done = call("rescore", run_folder, task, "--out", "again", "--json").json
    assert done["run"]["path"] == "again"
    assert done["tasks"][0]["metrics"][0]["value"] == 0.0
    same = call("rescore", run_folder, "--out", "same", "--json").json
    assert same["tasks"][0]["metrics"][0]["value"] == 0.25


def test_rescore_says_when_a_task_does_not_fit(call: Call, run_folder: Path) -> None:
    """A file that is not there is E101."""
    assert call("rescore", run_folder, "nowhere.yaml").err.startswith("error[E101]")
