"""A project and a finished run of it; a quiz that asks a server on this machine."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.forked import Forked
from tests.projects import SCORER, describe_solver, describe_task, write_rows

from answerkey.testing import TestServer

Call = Callable[..., Any]
TASK = """\
key: small
display_name: Small
description: Four questions.
definition:
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice: "{{ sample.answer }}"
      choices: ["A", "B", "C"]
"""
ROWS = """\
{"question": "one", "answer": "A", "completion": "A"}
{"question": "two", "answer": "B", "completion": "Answer: B"}
{"question": "three", "answer": "C", "completion": null}
{"question": "four", "answer": "C", "completion": "\\u001b[31mB"}
"""
QUIZ = describe_task(solver=describe_solver(), scorers=[{**SCORER, "choices": [*"ABCD"]}])


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def start(*words: object, first: str = "") -> subprocess.Popen[str]:
    """Start a command in a process of its own, which hears every signal and begins with Python of a
    test.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return Forked(list(map(str, words)), first=first, text=True, **pipes)


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, without colour and with lines of 100 cells."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return tmp_path


def write_project(parent: Path) -> Path:
    """Return a new folder with a task file and a dataset that holds its completions."""
    folder = parent / "small"
    folder.mkdir()
    (folder / "task.yaml").write_text(TASK, encoding="utf-8")
    (folder / "rows.jsonl").write_text(ROWS, encoding="utf-8")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project of its own."""
    return write_project(tmp_path)


@pytest.fixture
def words(project: Path) -> tuple[str, ...]:
    """Return the arguments that name the small project."""
    return (str(project / "task.yaml"), "--dataset", str(project / "rows.jsonl"))


@pytest.fixture
def run_folder(project: Path, call: Call) -> Path:
    """Return the folder of a finished run."""
    words = ("score", project / "task.yaml", "--dataset", project / "rows.jsonl")
    assert call(*words, "--out", project / "done").code == 0
    return project / "done"


@pytest.fixture
def server() -> Iterator[TestServer]:
    """Return a server that always answers A."""
    with TestServer("A") as running:
        yield running


@pytest.fixture
def quiz(tmp_path: Path, server: TestServer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the arguments of a run of 120 questions that are asked of the server, with caches of
    its own.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "task.yaml").write_text(json.dumps(QUIZ))
    rows = [{"question": f"question {n}?", "answer": "ABCD"[n % 4]} for n in range(120)]
    write_rows(tmp_path / "rows.jsonl", rows)
    return ["task.yaml", "--dataset", "rows.jsonl", "--model", f"{server.url}#m"]
