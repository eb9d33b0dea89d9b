"""A project and a finished run of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, without colour and with lines of 100 cells."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return tmp_path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with a task file and a dataset that holds its completions."""
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "task.yaml").write_text(TASK, encoding="utf-8")
    (folder / "rows.jsonl").write_text(ROWS, encoding="utf-8")
    return folder


@pytest.fixture
def run_folder(project: Path, call: Callable[..., Any]) -> Path:
    """Return the folder of a finished run."""
    folder = project / "done"
    words = ("score", project / "task.yaml", "--dataset", project / "rows.jsonl", "--out", folder)
    assert call(*words).code == 0
    return folder
