"""The files of a project whose model is an endpoint, piece by piece."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

Fields = dict[str, Any]

SCORER: Fields = {
    "type": "string_equals_mcqa",
    "ground_truth_choice": "{{ sample.answer }}",
    "choices": ["A", "B"],
}


def describe_solver(prompt: str = "{{ sample.question }}") -> Fields:
    """Return a solver that sends one message."""
    messages = [{"role": "user", "content": prompt}]
    builder = {"type": "chat_completion", "input_messages": messages}
    return {"type": "single_turn_solver", "input_builder": builder}


def describe_task(**definition: object) -> Fields:
    """Return the task `quiz`."""
    return {"key": "quiz", "display_name": "Quiz", "description": "", "definition": definition}


def describe_model(key: str, url: str, **config: object) -> Fields:
    """Return a model at an endpoint, which knows it as `m-KEY`."""
    connection = {
        "connection_type": "custom_connection",
        "url": f"{url}/chat/completions",
        "model_key": f"m-{key}",
        **config,
    }
    return {"key": key, "display_name": key, "task": "chat_completion", "config": connection}


def make_task(*scorers: Mapping[str, Any], name: str = "Quiz", **definition: object) -> Fields:
    """Return a task with these scorers, or with `SCORER`; its key is its name in lower case."""
    task = describe_task(scorers=list(scorers) or [SCORER], **definition)
    return {**task, "key": name.lower(), "display_name": name}


def write_task(path: Path, *scorers: Mapping[str, Any], **options: Any) -> Path:  # noqa: ANN401 - of `make_task`
    """Write a task file, and return it."""
    path.write_text(json.dumps(make_task(*scorers, **options)))
    return path


def write_rows(path: Path, rows: Iterable[object]) -> Path:
    """Write one JSON value a line, and return the file."""
    lines = [f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def write_run(folder: Path, models: list[Fields], *, task: Fields, **more: object) -> Path:
    """Write a run file that asks the first model, if any, the questions of `rows.jsonl`."""
    source = {"type": "local", "file_path": "rows.jsonl"}
    dataset = {"key": "rows", "display_name": "Rows", "source": source}
    plan = {"datasets": [dataset], "tasks": [task], **more}
    if models:
        pairs = [{"task_key": task["key"], "model_key": models[0]["key"]}]
        evaluation = {"key": "e", "display_name": "E", "description": ""}
        plan["models"] = models
        plan["evaluation"] = {**evaluation, "task_specifications": pairs}
    file = folder / "run.yaml"
    file.write_text(json.dumps(plan))
    return file


def drop_times(value: Any) -> Any:  # noqa: ANN401 - whatever stands in a JSON file
    """Return JSON without times, and without the list of the other runs of a matrix."""
    if isinstance(value, dict):
        left_out = {"started_at", "ended_at", "latency", "matrix"}
        return {name: drop_times(item) for name, item in value.items() if name not in left_out}
    return [drop_times(item) for item in value] if isinstance(value, list) else value


def read_results(folder: Path) -> dict[str, Any]:
    """Return every file of a run: scores as bytes, the others without times."""
    results: dict[str, Any] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        if "/completions/" in name:
            results[name] = pl.read_parquet(path).drop("latency").to_dicts()
        elif path.suffix == ".json":
            results[name] = drop_times(json.loads(path.read_text()))
        else:
            results[name] = path.read_bytes()
    for name, entry in results["run.json"]["files"].items():
        if "/completions/" in name:  # latencies are in the bytes
            entry.clear()
    return results


def describe_live_task(**definition: object) -> Fields:
    """Return the task `quiz` over `rows.jsonl`, whose questions are sent as they are."""
    fields = {"dataset": {"key": "rows"}, "solver": describe_solver(), "scorers": [SCORER]}
    return describe_task(**fields | definition)
