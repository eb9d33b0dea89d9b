"""answerkey: multiple-choice evaluation of language models.

The public names, loaded when first used so that `import answerkey` stays fast.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from answerkey._version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from answerkey.comparison.compare import Comparison, compare
    from answerkey.comparison.power import plan_comparison
    from answerkey.errors import (
        AnswerkeyError,
        DataError,
        EngineError,
        InternalError,
        Problems,
        RunError,
        ScoringError,
        SolverError,
        SpecError,
    )
    from answerkey.evaluate import check, load_task, plan_calls, rescore, resume, run, score
    from answerkey.reports.pages.plots import Plot
    from answerkey.runs import Run, TaskRun, list_runs, load_run
    from answerkey.scorers import judge
    from answerkey.spec import Task
    from answerkey.types import MetricValue, Score
    from answerkey.verbs.auditing import audit
    from answerkey.verbs.auditing_datasets import audit_dataset
    from answerkey.verbs.audits import Audit

_HOMES = {
    "answerkey.comparison.compare": ("Comparison", "compare"),
    "answerkey.comparison.power": ("plan_comparison",),
    "answerkey.evaluate": ("check", "load_task", "plan_calls", "rescore", "resume", "run", "score"),
    "answerkey.errors": (
        "AnswerkeyError",
        "DataError",
        "EngineError",
        "InternalError",
        "Problems",
        "RunError",
        "ScoringError",
        "SolverError",
        "SpecError",
    ),
    "answerkey.runs": ("Run", "TaskRun", "list_runs", "load_run"),
    "answerkey.scorers": ("judge",),
    "answerkey.spec": ("Task",),
    "answerkey.types": ("MetricValue", "Score"),
    "answerkey.verbs.auditing": ("audit",),
    "answerkey.verbs.auditing_datasets": ("audit_dataset",),
    "answerkey.verbs.audits": ("Audit",),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}
_GIVE_RUNS = (
    "answerkey.comparison.compare",
    "answerkey.evaluate",
    "answerkey.runs",
    "answerkey.verbs",
    "answerkey.verbs.auditing",
    "answerkey.verbs.audits",
)

__all__ = [
    "AnswerkeyError",
    "Audit",
    "Comparison",
    "DataError",
    "EngineError",
    "InternalError",
    "MetricValue",
    "Problems",
    "Run",
    "RunError",
    "Score",
    "ScoringError",
    "SolverError",
    "SpecError",
    "Task",
    "TaskRun",
    "__version__",
    "audit",
    "audit_dataset",
    "check",
    "compare",
    "judge",
    "list_runs",
    "load_run",
    "load_task",
    "plan_calls",
    "plan_comparison",
    "rescore",
    "resume",
    "run",
    "score",
]


def __getattr__(name: str) -> object:
    if name in _NAMES:
        if _NAMES[name] in _GIVE_RUNS:
            _attach_display()
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module `answerkey` has no attribute {name!r}")


def _attach_display() -> None:
    """Let runs, comparisons and audits show themselves in print and in a notebook.

    `reports` is above `runs` and `verbs`, so the hooks are put on from here.
    """
    from answerkey.comparison.compare import Comparison
    from answerkey.reports import notebook
    from answerkey.runs import Run
    from answerkey.verbs.audits import Audit

    Run.__str__ = notebook.to_text  # type: ignore[assignment]
    Run._repr_html_ = notebook.to_html  # type: ignore[attr-defined]
    _attach_plots(Run, notebook.to_plots)
    Comparison.__str__ = notebook.compare_to_text  # type: ignore[assignment]
    Comparison._repr_html_ = notebook.compare_to_html  # type: ignore[attr-defined]
    Audit.__str__ = notebook.audit_to_text  # type: ignore[assignment]
    Audit._repr_html_ = notebook.audit_to_html  # type: ignore[attr-defined]


def _attach_plots(owner: type[Run], list_plots: Callable[[Run], dict[str, Plot]]) -> None:
    """Let a run list its plots, once: they are made from its completions, which never change."""
    plots = cached_property(list_plots)
    plots.__set_name__(owner, "plots")
    owner.plots = plots  # type: ignore[method-assign, assignment]


def __dir__() -> list[str]:
    return __all__
