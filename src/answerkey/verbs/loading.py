"""A task file loaded for use in Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from answerkey.errors import InternalError, raise_all
from answerkey.spec import Overrides, Task
from answerkey.spec import load_task as load_task_file


def load_task(source: str | Path | Mapping[str, object], **config: object) -> Task:
    """Return a task from a file or a mapping, with these config values; raise all its errors at once."""
    loaded = load_task_file(source, config=config, overrides=Overrides(config=config))
    raise_all(loaded.errors)
    if loaded.value is None:
        raise InternalError("E901", "a task without errors was not built")
    return loaded.value
