"""A small project for tests of `evaluate`: a task, its rows, and runs of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import answerkey as ak

SCORER = {
    "type": "string_equals_mcqa",
    "ground_truth_choice": "{{ sample.answer }}",
    "choices": ["A", "B"],
}
Rows = Sequence[Mapping[str, Any]]


def make_solver(content: str = "{{ sample.question }}", **more: object) -> dict[str, Any]:
    """Return a solver that sends one message."""
    messages = [{"role": "user", "content": content}]
    builder = {"type": "chat_completion", "input_messages": messages}
    return {"type": "single_turn_solver", "input_builder": builder, **more}


@dataclass
class Project:
    """A folder with `task.yaml` and `rows.jsonl`; with `run.yaml` once `plan` was called."""

    folder: Path

    def task(self, **definition: object) -> dict[str, Any]:
        """Return a task of one letter; what is None is left out of its definition."""
        stated = {"solver": make_solver(), "scorers": [SCORER], **definition}
        stated = {name: value for name, value in stated.items() if value is not None}
        return {"key": "quiz", "display_name": "Quiz", "description": "", "definition": stated}

    def write_task(self, task: Mapping[str, Any]) -> Path:
        """Write the task file; JSON is YAML, too."""
        (self.folder / "task.yaml").write_text(json.dumps(task))
        return self.folder / "task.yaml"

    def write_rows(self, rows: Rows, name: str = "rows") -> str:
        """Write rows as JSON lines; return the file."""
        (self.folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(self.folder / f"{name}.jsonl")

    def plan(
        self,
        *specifications: Mapping[str, Any],
        datasets: Sequence[str] = ("rows",),
        **definition: Any,  # noqa: ANN401 - parts of a definition
    ) -> Path:
        """Write a run file that runs the task as these say; return the folder."""
        sources = [{"type": "local", "file_path": f"{name}.jsonl"} for name in datasets]
        named = zip(datasets, sources, strict=True)
        plan = {
            "datasets": [
                {"key": key, "display_name": key, "source": source} for key, source in named
            ],
            "tasks": [self.task(**definition)],
            "evaluation": {
                "key": "all",
                "display_name": "All",
                "task_specifications": [
                    {"task_key": "quiz", **specification} for specification in specifications
                ],
            },
        }
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
