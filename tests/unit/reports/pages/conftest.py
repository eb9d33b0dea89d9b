"""Runs on disk, made as a user makes them, for the pages that show them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from answerkey.runs import Run, load_run

Rows = Sequence[Mapping[str, Any]]

SCORER: dict[str, Any] = {
    "type": "string_equals_mcqa",
    "ground_truth_choice": "{{ sample.answer }}",
    "choices": ["A", "B", "C"],
}
#: Right, wrong, INVALID in three ways, and a completion that flips: the first character is no answer.
ROWS: Rows = [
    {"question": "Two plus two?", "options": ["four", "five", "six"], "answer": "A", "completion": "A."},
    {"question": "Three?", "options": ["one", "three", "two"], "answer": "B", "completion": "C"},
    {"question": "Water?", "options": ["dry", "hot", "wet"], "answer": "C", "completion": "The answer is C."},
    {"question": "Sky?", "options": ["blue", "red", "green"], "answer": "A", "completion": None},
    {"question": "Grass?", "options": ["red", "green", "blue"], "answer": "B", "completion": "  "},
]
CATEGORIES = ("mathematics", "mathematics", "nature", "nature", None)


def list_rows() -> list[dict[str, Any]]:
    """Return the rows with their categories."""
    return [{**row, "category": name} for row, name in zip(ROWS, CATEGORIES, strict=True)]


MakeRun = Callable[..., Run]


@pytest.fixture
def make_run(tmp_path: Path, call: Callable[..., Any]) -> MakeRun:
    """Return a maker of finished runs: rows, changes to the task's definition, words of the command line."""

    def make(
        name: str = "run",
        rows: Rows | None = None,
        *words: str,
        scorers: Sequence[Mapping[str, Any]] = (SCORER,),
        **changes: object,
    ) -> Run:
        folder = tmp_path / f"{name}-files"
        folder.mkdir()
        given = list_rows() if rows is None else rows
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in given))
        definition = {"scorers": list(scorers), **changes}
        task = {"key": "quiz", "display_name": "Quiz", "description": "", "definition": definition}
        (folder / "task.yaml").write_text(json.dumps(task))
        done = call(
            "score",
            folder / "task.yaml",
            "--dataset",
            folder / "rows.jsonl",
            "--out",
            tmp_path / name,
            *words,
        )
        assert done.code == 0, done.err
        return load_run(tmp_path / name)

    return make


def lose_dataset(run: Run) -> None:
    """Delete the dataset that a run refers to."""
    for task in run.tasks.values():
        Path(task.manifest["dataset"]["file"]).unlink()
