"""Laws of recorded completions that a run file names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import answerkey as ak
from answerkey.errors import DataError

SOLVER = {
    "type": "single_turn_solver",
    "input_builder": {
        "type": "chat_completion",
        "input_messages": [{"role": "user", "content": "{{ sample.question }}"}],
    },
}


def write_project(folder: Path, *, solver: bool = False, **specification: object) -> Path:
    """Write a run file beside its rows and two files of completions; return its folder."""
    folder.mkdir(exist_ok=True)
    rows = [{"sample_id": name, "question": name, "answer": "A"} for name in ("a", "b")]
    said = [{"sample_id": "b", "completion": "B"}, {"sample_id": "a", "completion": "A"}]
    other = [{"sample_id": name, "completion": "A"} for name in ("a", "b")]
    for name, content in (("rows", rows), ("said", said), ("other", other)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in content))
    scorer = {
        "type": "string_equals_mcqa",
        "ground_truth_choice": "{{ sample.answer }}",
        "choices": ["A", "B"],
    }
    definition: dict[str, Any] = {"dataset": {"key": "rows"}, "scorers": [scorer]}
    definition |= {"solver": SOLVER} if solver else {}
    source = {"type": "local", "file_path": "rows.jsonl"}
    run = {
        "models": [{"key": "they", "display_name": "They", "config": {"connection_type": "placeholder"}}],
        "datasets": [{"key": "rows", "display_name": "Rows", "source": source}],
        "tasks": [{"key": "quiz", "display_name": "Quiz", "description": "", "definition": definition}],
        "evaluation": {
            "key": "quiz",
            "task_specifications": [{"task_key": "quiz", "completions": "said.jsonl", **specification}],
        },
    }
    (folder / "run.yaml").write_text(json.dumps(run))
    return folder


@pytest.mark.parametrize("solver", [False, True])
def test_completions_beside_the_run_file_are_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, solver: bool
) -> None:
    """Wherever the command is given; no model is asked, though the task has a solver."""
    project = write_project(tmp_path / "project", solver=solver)
    monkeypatch.chdir(tmp_path)
    run = ak.run("project", out=tmp_path / "run")
    assert run.metrics["Accuracy"].value == 0.5
    told = run.tasks["quiz"].manifest["completions"]
    assert (told["source"], told["file"]) == ("recorded", str(project / "said.jsonl"))


def test_the_caller_wins_over_the_file(tmp_path: Path) -> None:
    """By other completions, or by a model that is to be asked."""
    project = write_project(tmp_path / "project", solver=True)
    other = ak.run(project, out=tmp_path / "one", completions=project / "other.jsonl")
    asked = ak.run(project, out=tmp_path / "two", model="builtin/constant?choice=A")
    assert (other.metrics["Accuracy"].value, asked.metrics["Accuracy"].value) == (1.0, 1.0)
    assert asked.tasks["quiz"].manifest["completions"]["source"] == "builtin"


def test_whose_completions_they_are_may_be_said(tmp_path: Path) -> None:
    """By the key of a model, which is not asked; its display name is shown."""
    run = ak.run(write_project(tmp_path / "project", model_key="they"), out=tmp_path / "run")
    task = run.tasks["quiz"]
    assert (task.manifest["model"], task.manifest["completions"]["model"]) == (None, "They")


def test_completions_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    """As any other data file."""
    project = write_project(tmp_path / "project", completions="gone.jsonl")
    with pytest.raises(DataError, match="there is no data file") as caught:
        ak.run(project, out=tmp_path / "run")
    assert caught.value.code == "E201"


def test_such_a_run_can_be_scored_again(tmp_path: Path) -> None:
    """With the same completions."""
    project = write_project(tmp_path / "project")
    run = ak.run(project, out=tmp_path / "run")
    again = ak.rescore(run, out=tmp_path / "again")
    assert again.metrics["Accuracy"].value == 0.5
