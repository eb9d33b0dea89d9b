"""The public verbs, as plain functions; the command line prints what they return."""

from answerkey.verbs.checking import Checked, CheckedTask, check
from answerkey.verbs.loading import load_task
from answerkey.verbs.options import Options
from answerkey.verbs.planning import DryRun, PlannedTask, plan_calls
from answerkey.verbs.reopening import Reopened, reopen
from answerkey.verbs.running import run
from answerkey.verbs.scoring import score

__all__ = [
    "Checked",
    "CheckedTask",
    "DryRun",
    "Options",
    "PlannedTask",
    "Reopened",
    "check",
    "load_task",
    "plan_calls",
    "reopen",
    "run",
    "score",
]
