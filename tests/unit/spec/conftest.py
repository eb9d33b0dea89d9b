"""Small projects on disk for the laws of spec."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from answerkey.errors import AnswerkeyError
from answerkey.spec import Options, Plan, Task, load_task
from answerkey.spec.nodes import ProblemList
from answerkey.spec.plan import TaskSource
from answerkey.types import Notice

TASK = """\
key: mcqa
display_name: Questions
description: Multiple choice questions.
config_spec:
  - {type: dataset_column, key: answer_column, display_name: Answer, default_value: answer}
definition:
  dataset: {key: questions}
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice: "{{ sample.<< config.answer_column >> }}"
      choices: "{{ sample.choices }}"
"""

DATASET = """\
key: questions
display_name: Questions
source: {type: local, file_path: questions.jsonl}
"""

RUN = """\
datasets:
  - $ref: dataset.yaml
tasks:
  - $ref: task.yaml
evaluation:
  key: trial
  display_name: Trial
  task_specifications:
    - task_key: mcqa
"""

SOLVER = """\
  solver:
    type: single_turn_solver
    input_builder: {type: chat_completion, input_messages: [{role: user, content: "{{ sample.answer }}"}]}
"""  # noqa: E501 - the text as it is written

Write = Callable[..., Path]


@dataclass
class Loaded:
    """A task, or what keeps it from being one."""

    value: Task | None = None
    errors: list[AnswerkeyError] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)


def load(task: TaskSource, config: dict[str, object] | None = None) -> Loaded:
    """Load a task with its notices, or with all its errors."""
    problems = ProblemList()
    loaded = Loaded(notices=problems.notices)
    try:
        loaded.value = load_task(task, Options(config=config or {}), problems)
    except AnswerkeyError as error:
        loaded.errors = list(getattr(error, "errors", [error]))
    return loaded


def list_errors(source: Loaded | Plan | ProblemList) -> list[str]:
    """Return code and place of every error: `E107 task.yaml:4:1`."""
    return [f"{error.code} {error.where}" for error in source.errors]


def sound(plan: Plan) -> Plan:
    """Return a plan that has no errors."""
    assert [str(error) for error in plan.errors] == []
    return plan


def value_of(loaded: Loaded) -> Task:
    """Return the task that was loaded without errors."""
    assert [str(error) for error in loaded.errors] == []
    assert loaded.value is not None
    return loaded.value


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the process environment as spec sees it: empty, for tests to fill."""
    values: dict[str, str] = {}
    monkeypatch.setattr("answerkey.spec.project.environ", values)
    return values


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write files of a project into an empty folder, which becomes the current one.

    Return the folder.
    """
    monkeypatch.chdir(tmp_path)

    def write_files(**files: str) -> Path:
        for name, text in files.items():
            file = name.replace("__", "/").replace("_yaml", ".yaml").replace("_md", ".md")
            path = tmp_path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return write_files


@pytest.fixture
def project(write: Write) -> Write:
    """Write a whole project, with some files replaced."""

    def write_project(**changes: str) -> Path:
        folder, row = write(), '{"answer": "A", "choices": ["A", "B"], "completion": "A"}\n'
        (folder / "questions.jsonl").write_text(row, encoding="utf-8")
        write(**{"task_yaml": TASK, "dataset_yaml": DATASET, "run_yaml": RUN} | changes)
        return folder

    return write_project
