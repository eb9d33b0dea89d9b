"""The public verbs, as plain functions; the command line prints what they return."""

from answerkey.verbs.checking import Checked, CheckedTask, check
from answerkey.verbs.comparing import compare
from answerkey.verbs.comparisons import Comparison
from answerkey.verbs.loading import load_task
from answerkey.verbs.observing import Observer, Onlooker, Standing
from answerkey.verbs.options import Options
from answerkey.verbs.planning import DryRun, PlannedTask, plan_calls
from answerkey.verbs.powering import PowerPlan, plan_comparison
from answerkey.verbs.regrouping import regroup
from answerkey.verbs.reopening import Excerpt, Reopened, reopen
from answerkey.verbs.rescoring import rescore
from answerkey.verbs.resuming import resume
from answerkey.verbs.running import run
from answerkey.verbs.scoring import score
from answerkey.verbs.template_plans import PlannedTemplate
from answerkey.verbs.variants import VariedMetric, VariedTask, compare_variants

__all__ = [
    "Checked",
    "CheckedTask",
    "Comparison",
    "DryRun",
    "Excerpt",
    "Observer",
    "Onlooker",
    "Options",
    "PlannedTask",
    "PlannedTemplate",
    "PowerPlan",
    "Reopened",
    "Standing",
    "VariedMetric",
    "VariedTask",
    "check",
    "compare",
    "compare_variants",
    "load_task",
    "plan_calls",
    "plan_comparison",
    "regroup",
    "reopen",
    "rescore",
    "resume",
    "run",
    "score",
]
