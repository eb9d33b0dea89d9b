"""The one path of a task, and the functions that take it: run, score, check, resume, rescore.

    prepare ──► checks ──► pipeline ──► runner
    everything  rows       shard by     the run
    opened                 shard        closed

The names are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from answerkey.evaluate.checks import PlannedTemplate
    from answerkey.evaluate.prepare import Options, Progress, fit_rows, load_task, stay_silent
    from answerkey.evaluate.rerun import (
        Excerpt,
        Reopened,
        find_task,
        regroup,
        remeasure,
        reopen,
        reopen_dataset,
        reopen_rows,
        require_column,
        rescore,
        resume,
    )
    from answerkey.evaluate.runner import (
        Checked,
        CheckedTask,
        DryRun,
        PlannedTask,
        check,
        plan_calls,
        run,
        score,
    )
    from answerkey.evaluate.session import CallProgress, Judged, Listener, Observer

_HOMES = {
    "checks": ("PlannedTemplate",),
    "prepare": ("Options", "Progress", "fit_rows", "load_task", "stay_silent"),
    "rerun": (
        "Excerpt",
        "Reopened",
        "find_task",
        "regroup",
        "remeasure",
        "reopen",
        "reopen_dataset",
        "reopen_rows",
        "require_column",
        "rescore",
        "resume",
    ),
    "runner": ("Checked", "CheckedTask", "DryRun", "PlannedTask", "check", "plan_calls", "run", "score"),
    "session": ("Judged", "Observer", "Listener", "CallProgress"),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CallProgress",
    "Checked",
    "CheckedTask",
    "DryRun",
    "Excerpt",
    "Judged",
    "Listener",
    "Observer",
    "Options",
    "PlannedTask",
    "PlannedTemplate",
    "Progress",
    "Reopened",
    "check",
    "find_task",
    "fit_rows",
    "load_task",
    "plan_calls",
    "regroup",
    "remeasure",
    "reopen",
    "reopen_dataset",
    "reopen_rows",
    "require_column",
    "rescore",
    "resume",
    "run",
    "score",
    "stay_silent",
]


def __getattr__(name: str) -> object:
    if name in _NAMES:
        return getattr(import_module(f"answerkey.evaluate.{_NAMES[name]}"), name)
    raise AttributeError(f"module `answerkey.evaluate` has no attribute {name!r}")
