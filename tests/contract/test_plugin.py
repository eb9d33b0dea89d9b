"""A package of somebody else that adds a kind of everything, found by its entry points."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PLUGIN = Path(__file__).with_name("plugin")
MESSAGES = [{"role": "user", "content": "{{ sample.question }}"}]


def carry_out(*words: str) -> dict[str, Any]:
    """Carry out a command in a process that finds the package, and return what it printed as
    JSON.
    """
    command = [sys.executable, "-m", "answerkey", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def test_a_plug_in_of_each_kind_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scorer, a metric, a solver, a source, a model and an importer of another package."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(PLUGIN))
    metrics = [{"type": "kept_metric"}, {"type": "mean", "field": "points"}]
    solvers = {
        "plug": {"type": "kept_solver", "text": "abc"},
        "asked": {
            "type": "single_turn_solver",
            "input_builder": {"type": "chat_completion", "input_messages": MESSAGES},
        },
    }
    tasks = [
        {
            "key": key,
            "display_name": "P",
            "description": "D",
            "definition": {
                "dataset": {"key": "made"},
                "solver": solver,
                "scorers": [{"type": "kept_scorer", "factor": 2, "metrics": metrics}],
            },
        }
        for key, solver in solvers.items()
    ]
    plan = {
        "datasets": [
            {"key": "made", "display_name": "M", "source": {"type": "kept_source", "size": 3}}
        ],
        "tasks": tasks,
        "evaluation": {
            "key": "e",
            "display_name": "E",
            "task_specifications": [
                {"task_key": "plug"},
                {"task_key": "asked", "model_key": "kept/hello"},
            ],
        },
    }
    Path("run.yaml").write_text(json.dumps(plan), encoding="utf-8")
    Path("log.kept").write_text('{"id": "1", "q": "Q?", "t": "A", "c": "A"}\n', encoding="utf-8")
    run = carry_out("run", "run.yaml", "--out", "r")
    values = {
        (task["key"], metric["name"]): metric["value"]
        for task in run["tasks"]
        for metric in task["metrics"]
    }
    assert values == {
        ("plug", "count"): 3.0,
        ("plug", "points_mean"): 6.0,
        ("asked", "count"): 3.0,
        ("asked", "points_mean"): 10.0,
    }
    carry_out("import", "kept-log", "log.kept", "--out", "i")
    imported = carry_out("run", "i", "--out", "r2")
    assert imported["tasks"][0]["metrics"][0]["value"] == 1.0
