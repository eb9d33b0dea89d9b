"""Features on top of `evaluate`: comparisons, gates, audits; each moves into a package of its own."""

from answerkey.verbs.comparing import compare
from answerkey.verbs.comparisons import Comparison
from answerkey.verbs.powering import PowerPlan, plan_comparison
from answerkey.verbs.variants import VariedMetric, VariedTask, compare_variants

__all__ = [
    "Comparison",
    "PowerPlan",
    "VariedMetric",
    "VariedTask",
    "compare",
    "compare_variants",
    "plan_comparison",
]
