"""A task whose replies name a choice, for tests of what is done with its run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

MCQA: dict[str, Any] = {
    "type": "string_equals_mcqa",
    "ground_truth_choice": "{{ sample.answer }}",
    "choices": ["A", "B"],
}


def make_task(*scorers: Mapping[str, Any], name: str = "Quiz", **definition: Any) -> dict[str, Any]:  # noqa: ANN401 - YAML has any
    """Return a task with these scorers, or with `MCQA`; its key is its name in lower case."""
    words = {"key": name.lower(), "display_name": name, "description": ""}
    return {**words, "definition": {"scorers": list(scorers) or [MCQA], **definition}}


def make_solver(content: str = "{{ sample.question }}") -> dict[str, Any]:
    """Return a solver that asks with one message."""
    messages = [{"role": "user", "content": content}]
    builder = {"type": "chat_completion", "input_messages": messages}
    return {"type": "single_turn_solver", "input_builder": builder}


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows as JSON Lines, and return the file."""
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def write_task(path: Path, *scorers: Mapping[str, Any], **options: Any) -> Path:  # noqa: ANN401 - as above
    """Write a task file, and return it."""
    path.write_text(json.dumps(make_task(*scorers, **options)), encoding="utf-8")
    return path
