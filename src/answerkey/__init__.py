"""answerkey: multiple-choice evaluation of language models.

The public names, loaded when first used so that `import answerkey` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from answerkey import features
from answerkey._version import __version__ as __version__

if TYPE_CHECKING:  # each under its own name, so that type checkers see it from outside
    from answerkey.comparison.compare import Comparison as Comparison
    from answerkey.comparison.compare import compare as compare
    from answerkey.comparison.power import plan_comparison as plan_comparison
    from answerkey.dataset_audit.audit import audit_dataset as audit_dataset
    from answerkey.errors import AnswerkeyError as AnswerkeyError
    from answerkey.errors import DataError as DataError
    from answerkey.errors import EngineError as EngineError
    from answerkey.errors import InternalError as InternalError
    from answerkey.errors import Problems as Problems
    from answerkey.errors import RunError as RunError
    from answerkey.errors import ScoringError as ScoringError
    from answerkey.errors import SolverError as SolverError
    from answerkey.errors import SpecError as SpecError
    from answerkey.evaluate.dry_run import check as check
    from answerkey.evaluate.dry_run import plan_calls as plan_calls
    from answerkey.evaluate.rerun import rescore as rescore
    from answerkey.evaluate.rerun import resume as resume
    from answerkey.evaluate.rerun import resume_matrix as resume_matrix
    from answerkey.evaluate.run import Matrix as Matrix
    from answerkey.evaluate.run import arun as arun
    from answerkey.evaluate.run import run as run
    from answerkey.evaluate.run import run_matrix as run_matrix
    from answerkey.evaluate.run import score as score
    from answerkey.evaluate.tasks import load_task as load_task
    from answerkey.evaluate.tasks import mcqa as mcqa
    from answerkey.exporters import export as export
    from answerkey.importers.imports import import_log as import_log
    from answerkey.reports.explain import explain as explain
    from answerkey.reports.html import report as report
    from answerkey.run_audit.audit import audit as audit
    from answerkey.run_audit.text import Audit as Audit
    from answerkey.runs import Run as Run
    from answerkey.runs import TaskRun as TaskRun
    from answerkey.runs import list_runs as list_runs
    from answerkey.runs import load_run as load_run
    from answerkey.scorers import judge as judge
    from answerkey.spec import Task as Task
    from answerkey.types import MetricValue as MetricValue
    from answerkey.types import Score as Score

_HOMES = {
    "answerkey.comparison.compare": ("Comparison", "compare"),
    "answerkey.comparison.power": ("plan_comparison",),
    "answerkey.dataset_audit.audit": ("audit_dataset",),
    "answerkey.evaluate.dry_run": ("check", "plan_calls"),
    "answerkey.evaluate.tasks": ("load_task", "mcqa"),
    "answerkey.evaluate.rerun": ("rescore", "resume", "resume_matrix"),
    "answerkey.evaluate.run": ("Matrix", "arun", "run", "run_matrix", "score"),
    "answerkey.exporters": ("export",),
    "answerkey.importers.imports": ("import_log",),
    "answerkey.reports.explain": ("explain",),
    "answerkey.reports.html": ("report",),
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
    "answerkey.run_audit.audit": ("audit",),
    "answerkey.run_audit.text": ("Audit",),
    "answerkey.runs": ("Run", "TaskRun", "list_runs", "load_run"),
    "answerkey.scorers": ("judge",),
    "answerkey.spec": ("Task",),
    "answerkey.types": ("MetricValue", "Score"),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(["__version__", *_NAMES])  # noqa: PLE0605 - computed


def _load_gates() -> ModuleType:
    from answerkey.gates import policies

    return policies


def _load_choice_order() -> ModuleType:
    from answerkey.robustness import choice_order

    return choice_order


def _draw_error(error: AnswerkeyError) -> str:
    from answerkey.text import write_problem

    return write_problem(error, for_python=True)


features.draw_error = _draw_error
features.load_gates = _load_gates
features.load_choice_order = _load_choice_order


def _load_exporters() -> ModuleType:
    from answerkey import exporters

    return exporters


def _load_importers() -> ModuleType:
    from answerkey.importers import imports

    return imports


def _load_terminal() -> ModuleType:
    from answerkey.reports import terminal

    return terminal


features.load_exporters = _load_exporters
features.load_importers = _load_importers
features.load_terminal = _load_terminal


def __getattr__(name: str) -> object:
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module `answerkey` has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
