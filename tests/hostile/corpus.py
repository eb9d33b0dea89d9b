"""The corpora, and what becomes of each case when a project that holds it is checked."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.processes import run_python

HERE = Path(__file__).parent
#: What is promised for each case.
SECONDS = 5.0
MEGABYTES = 300
_ENTRY = re.compile(
    r"^## (?P<name>[^\n]+)\n\n```jinja\n(?P<source>.*?)\n```$", re.DOTALL | re.MULTILINE
)

ROW = {
    "text": "hello",
    "evil": "__class__",
    "number": 7,
    "choices": ["A", "B"],
    "answer": "A",
    "meta": {"tags": ["x"]},
}
ROWS = "".join(json.dumps({"id": f"row {number}", **ROW}) + "\n" for number in range(4))
DATASET = "key: rows\ndisplay_name: Rows\nsource: {type: local, file_path: rows.jsonl}\n"
PROMPT = '"{% for c in sample.choices %}{{ loop.index }}. {{ c }} {% endfor %}"'
GOOD = f"""\
key: good
display_name: Good
description: A task that does no harm.
definition:
  dataset: {{key: rows}}
  solver:
    type: single_turn_solver
    input_builder:
      type: chat_completion
      input_messages:
        - {{role: user, content: {PROMPT}}}
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice: "{{{{ sample.answer }}}}"
      choices: "{{{{ sample.choices }}}}"
"""
RUN = """\
datasets: [{$ref: dataset.yaml}]
tasks: [%s]
evaluation:
  key: trial
  display_name: Trial
  task_specifications: [%s]
"""


@dataclass(frozen=True)
class Outcome:
    """What one case did: its errors, what it cost, and what it started, wrote or harmed."""

    name: str
    errors: Sequence[Mapping[str, Any]]
    cpu: float
    memory: int
    harm: Sequence[str]


def read_templates(name: str) -> dict[str, str]:
    """Return the templates of a corpus by their titles."""
    text = (HERE / "corpora" / f"{name}.md").read_text(encoding="utf-8")
    return {entry["name"]: entry["source"] for entry in _ENTRY.finditer(text)}


def write_run(*keys: str) -> str:
    """Return a run file with these tasks."""
    tasks = [f"{{$ref: {key}.yaml}}" for key in keys]
    specifications = [f"{{task_key: {key}, model_key: builtin/random}}" for key in keys]
    return RUN % (", ".join(tasks), ", ".join(specifications))


def write_evil(prompt: str) -> str:
    """Return a task whose prompt is this template."""
    return GOOD.replace("key: good", "key: evil").replace(PROMPT, json.dumps(prompt))


def write_project(folder: Path, **tasks: str) -> None:
    """Write a project with these tasks and a good one, a run of all, and one of the good task."""
    files = {"rows.jsonl": ROWS, "dataset.yaml": DATASET, "good.yaml": GOOD}
    files |= {f"{key}.yaml": task for key, task in tasks.items()}
    files |= {"run.yaml": write_run(*tasks, "good"), "good_run.yaml": write_run("good")}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def run_cases(
    folder: Path, cases: Sequence[Mapping[str, object]], **environment: str
) -> dict[str, Outcome]:
    """Return the outcome of every case, one after the other in one process."""
    write_project(folder, evil=GOOD)
    options: dict[str, Any] = {"input": json.dumps(cases), "timeout": 600 + 60 * len(cases)}
    variables = {**os.environ, "SECRET_TOKEN": "this is the secret", **environment}
    done = run_python(HERE / "jail.py", folder, env=variables, **options)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = [Outcome(**json.loads(line)) for line in done.stdout.splitlines()]
    return {outcome.name: outcome for outcome in outcomes}


def require_refusal(outcome: Outcome) -> None:
    """Require what is promised: refused in time, with place and reason, and nothing else
    happened.
    """
    assert outcome.errors, "it was not refused"
    for error in outcome.errors:
        assert error["file"] is not None
        assert error["line"] is not None
        assert error["message"]
        assert "this is the secret" not in json.dumps(error)
    assert outcome.cpu < SECONDS
    assert outcome.memory < MEGABYTES
    assert outcome.harm == []
