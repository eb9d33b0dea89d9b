"""The public verbs, as plain functions; the command line prints what they return."""

from answerkey.verbs.checking import Checked, CheckedTask, check
from answerkey.verbs.loading import load_task
from answerkey.verbs.observing import Observer, Onlooker, Standing
from answerkey.verbs.options import Options
from answerkey.verbs.planning import DryRun, PlannedTask, plan_calls
from answerkey.verbs.reopening import Reopened, reopen
from answerkey.verbs.rescoring import rescore
from answerkey.verbs.resuming import resume
from answerkey.verbs.running import run
from answerkey.verbs.scoring import score

__all__ = [
    "Checked",
    "CheckedTask",
    "DryRun",
    "Observer",
    "Onlooker",
    "Options",
    "PlannedTask",
    "Reopened",
    "Standing",
    "check",
    "load_task",
    "plan_calls",
    "reopen",
    "rescore",
    "resume",
    "run",
    "score",
]
