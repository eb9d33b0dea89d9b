"""A small project for tests of `evaluate`: a task, its rows, and runs of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.projects import SCORER, describe_solver, describe_task, write_rows

import answerkey as ak

Rows = Sequence[Mapping[str, Any]]


@dataclass
class Project:
    """A folder with `task.yaml` and `rows.jsonl`; with `run.yaml` once `plan` was called."""

    folder: Path

    def task(self, **definition: object) -> dict[str, Any]:
        """Return a task of one letter; what is None is left out of its definition."""
        fields = {"solver": describe_solver(), "scorers": [SCORER], **definition}
        return describe_task(**{name: part for name, part in fields.items() if part is not None})

    def write_task(self, task: Mapping[str, Any]) -> Path:
        """Write the task file; JSON is YAML, too."""
        (self.folder / "task.yaml").write_text(json.dumps(task))
        return self.folder / "task.yaml"

    def write_rows(self, rows: Rows, name: str = "rows") -> str:
        """Write rows as JSON lines; return the file."""
        write_rows(self.folder / f"{name}.jsonl", rows)
        return str(self.folder / f"{name}.jsonl")

    def plan(
        self,
        *specifications: Mapping[str, Any],
        datasets: Sequence[str] = ("rows",),
        **definition: Any,  # noqa: ANN401 - parts of a definition
    ) -> Path:
        """Write a run file that runs the task as these say; return the folder."""
        described = []
        for key in datasets:
            source = {"type": "local", "file_path": f"{key}.jsonl"}
            described.append({"key": key, "display_name": key, "source": source})
        pairs = [{"task_key": "quiz", **specification} for specification in specifications]
        evaluation = {"key": "all", "display_name": "All", "task_specifications": pairs}
        tasks = [self.task(**definition)]
        plan = {"datasets": described, "tasks": tasks, "evaluation": evaluation}
        (self.folder / "run.yaml").write_text(json.dumps(plan))
        return self.folder

    def run(self, out: str = "run", **options: Any) -> ak.Run:  # noqa: ANN401 - any option of a run
        """Run the task file over the rows."""
        dataset = str(self.folder / "rows.jsonl")
        return ak.run(self.folder / "task.yaml", dataset=dataset, out=self.folder / out, **options)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project whose task sends each question to a model."""
    made = Project(tmp_path)
    made.write_task(made.task())
    made.write_rows([{"question": f"q{number}", "answer": "AB"[number % 2]} for number in range(6)])
    return made
