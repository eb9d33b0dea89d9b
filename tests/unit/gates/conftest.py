"""Twenty questions of which sixteen are answered rightly, and the rules that such a run is held
against.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests import projects

import answerkey as ak

SCORER: dict[str, Any] = {
    **projects.SCORER,
    "metrics": [
        {"type": "mean", "field": "is_correct", "name": "Accuracy", "group_by": "subject"},
        {"type": "frequency", "field": "completion_validity"},
        {"type": "max", "field": "is_correct", "name": "Best"},
    ],
}
TASK = projects.describe_task(dataset={"key": "d"}, scorers=[SCORER])
#: Sixteen right, two wrong, two INVALID.
SAID: Sequence[str | None] = [*["A"] * 16, "B", "B", "hm", "hm"]
ROWS = [
    {"sample_id": f"s{place:02d}", "answer": "A", "subject": "law" if place < 10 else "art"}
    for place in range(20)
]
Write = Callable[..., Path]


def rule(kind: str, **fields: object) -> dict[str, object]:
    """Return a rule of a kind."""
    about = {"key": fields.pop("key", "r"), "scope": fields.pop("scope", "all_latest")}
    return {**about, "definition": {"type": kind, **fields}}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return a writer of the project, with policies and task specifications, into the current
    folder.
    """
    monkeypatch.chdir(tmp_path)

    def write_project(
        policies: str = "",
        specifications: str = "{task_key: quiz}",
        *,
        task: object = TASK,
        said: Sequence[str | None] = SAID,
        config: str = "[]",
    ) -> Path:
        rows = [{**row, "completion": text} for row, text in zip(ROWS, said, strict=True)]
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (tmp_path / "task.yaml").write_text(json.dumps(task))
        about = f"key: e, config_spec: {config}, task_specifications: [{specifications}]"
        (tmp_path / "run.yaml").write_text(
            f"{policies}"
            "datasets: [{key: d, display_name: D, source: {type: local, file_path: rows.jsonl}}]\n"
            f"tasks: [{{$ref: task.yaml}}]\nevaluation: {{{about}}}\n"
        )
        return tmp_path

    return write_project


@pytest.fixture
def run(write: Write) -> Callable[..., ak.Run]:
    """Return a runner of the task on completions, into a folder of its name."""

    def run_task(
        name: str,
        said: Sequence[str | None] = SAID,
        *rules: object,
        **options: Any,  # noqa: ANN401 - of `run`
    ) -> ak.Run:
        folder = write(said=said)
        options |= {"policies": [{"key": "p", "rules": rules}]} if rules else {}
        dataset = str(folder / "rows.jsonl")
        return ak.run(folder / "task.yaml", dataset=dataset, out=folder / name, **options)

    return run_task
