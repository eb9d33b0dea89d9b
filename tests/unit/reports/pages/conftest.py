"""Runs on disk, made as a user makes them, for the pages that show them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.projects import SCORER as MCQA
from tests.projects import write_rows, write_task

from answerkey.exporters import to_json
from answerkey.reports.sample_view import view_rows, view_sample
from answerkey.reports.samples import SampleTable
from answerkey.runs import Run, load_run

Rows = Sequence[Mapping[str, Any]]
MakeRun = Callable[..., Run]

SCORER = MCQA | {"choices": ["A", "B", "C"]}
#: Right, wrong, INVALID in three ways, of which the first flips: its first character is no answer.
ROWS = [
    ("Two plus two?", ["four", "five", "six"], "A", "A.", "mathematics"),
    ("Three?", ["one", "three", "two"], "B", "C", "mathematics"),
    ("Water?", ["dry", "hot", "wet"], "C", "The answer is C.", "nature"),
    ("Sky?", ["blue", "red", "green"], "A", None, "nature"),
    ("Grass?", ["red", "green", "blue"], "B", "  ", None),
]


def list_rows(times: int = 1, **texts: str) -> Sequence[dict[str, Any]]:
    """Return the rows so many times, with other completions for some of the first: `q0="B"`."""
    names = ("question", "options", "answer", "completion", "category")
    results = [dict(zip(names, row, strict=True)) for row in ROWS * times]
    for name, text in texts.items():
        results[int(name[1:])]["completion"] = text
    return results


@pytest.fixture(scope="session")
def make_in(call: Callable[..., Any]) -> MakeRun:
    """Return a maker of finished runs in a folder."""

    def make(
        parent: Path,
        name: str = "run",
        rows: Rows | None = None,
        *words: object,
        scorers: Sequence[Mapping[str, Any]] = (SCORER,),
        **changes: object,
    ) -> Run:
        (folder := parent / f"{name}-files").mkdir()
        file = write_rows(folder / "rows.jsonl", list_rows() if rows is None else rows)
        task = write_task(folder / "task.yaml", *scorers, **changes)
        done = call("score", task, "--dataset", file, "--out", parent / name, *words)
        assert done.code == 0, done.err
        return load_run(parent / name)

    return make


@pytest.fixture
def make_run(tmp_path: Path, make_in: MakeRun) -> MakeRun:
    """Return a maker of finished runs: name, rows, words of the command line, changes to the
    task.
    """
    return lambda *words, **changes: make_in(tmp_path, *words, **changes)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory, make_in: MakeRun) -> Run:
    """Return a run of the five rows, to be looked at."""
    return make_in(tmp_path_factory.mktemp("small"))


class PlainTable(SampleTable):
    """The rows of a task as the front end reads them."""

    def list(self, positions: Iterable[int]) -> Sequence[dict[str, Any]]:
        """Return the lines of the table for some rows."""
        return [json.loads(to_json(row)) for row in view_rows(self, positions)]

    def describe(self, position: int) -> dict[str, Any]:
        """Return all there is to say of one row."""
        return dict(json.loads(to_json(view_sample(self, position))))


def open_table(run: Run) -> PlainTable:
    """Return the rows of a run's only task."""
    (task,) = run.tasks.values()
    return PlainTable(run, task)


def lose_dataset(run: Run) -> Run:
    """Delete the dataset that a run refers to."""
    for task in run.tasks.values():
        Path(task.manifest["dataset"]["file"]).unlink()
    return run
