"""answerkey: multiple-choice evaluation of language models.

The public names, loaded when first used so that `import answerkey` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from answerkey._version import __version__

if TYPE_CHECKING:
    from answerkey.comparison.compare import Comparison, compare
    from answerkey.comparison.power import plan_comparison
    from answerkey.dataset_audit.audit import audit_dataset
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
    from answerkey.evaluate.prepare import load_task
    from answerkey.evaluate.rerun import rescore, resume
    from answerkey.evaluate.runner import check, plan_calls, run, score
    from answerkey.run_audit.audit import Audit, audit
    from answerkey.runs import Run, TaskRun, list_runs, load_run
    from answerkey.scorers import judge
    from answerkey.spec import Task
    from answerkey.types import MetricValue, Score

_HOMES = {
    "answerkey.comparison.compare": ("Comparison", "compare"),
    "answerkey.comparison.power": ("plan_comparison",),
    "answerkey.dataset_audit.audit": ("audit_dataset",),
    "answerkey.evaluate.prepare": ("load_task",),
    "answerkey.evaluate.rerun": ("rescore", "resume"),
    "answerkey.evaluate.runner": ("check", "plan_calls", "run", "score"),
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
    "answerkey.run_audit.audit": ("Audit", "audit"),
    "answerkey.runs": ("Run", "TaskRun", "list_runs", "load_run"),
    "answerkey.scorers": ("judge",),
    "answerkey.spec": ("Task",),
    "answerkey.types": ("MetricValue", "Score"),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}

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
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module `answerkey` has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
