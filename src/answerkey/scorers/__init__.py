"""Samples and completions become scores; one module per scorer: its fields and its rule."""

from __future__ import annotations

from answerkey.scorers.base import (
    Action,
    RowProblem,
    Scorer,
    apply_actions,
    asks_model,
    build_table,
    find_role,
    join_scores,
    reads_by_templates,
    score_rows,
    try_action,
)
from answerkey.scorers.choice_probabilities import ChoiceProbabilities
from answerkey.scorers.mcqa import (
    StringEqualsMcqa,
    explain_verdict,
    judge,
    reads_choices,
)
from answerkey.scorers.model_judge import ModelAsAJudge, ModelClassifier, ModelLabeler
from answerkey.scorers.python_scorer import PythonScorer
from answerkey.scorers.rereading import choose_audited, count_readings, find_audited_rows
from answerkey.scorers.string_equals import StringEquals
from answerkey.types import Registry

_OWN: dict[str, type[Scorer]] = {
    "string_equals_mcqa": StringEqualsMcqa,
    "string_equals": StringEquals,
    "python": PythonScorer,
    "model_as_a_judge_scorer": ModelAsAJudge,
    "model_as_a_judge_classifier": ModelClassifier,
    "labeler_via_model": ModelLabeler,
    "choice_probabilities": ChoiceProbabilities,
}
#: The scorers by type.
SCORERS: Registry[Scorer] = Registry("answerkey.scorers", _OWN, _OWN.__getitem__)

#: The name that scorers of other packages build on.
BaseScorer = Scorer


def list_template_fields() -> frozenset[str]:
    """Return the names of the fields that hold templates in any scorer."""
    return frozenset().union(*(scorer.template_fields for scorer in SCORERS.values()))


__all__ = [
    "SCORERS",
    "Action",
    "BaseScorer",
    "RowProblem",
    "Scorer",
    "StringEqualsMcqa",
    "apply_actions",
    "asks_model",
    "build_table",
    "choose_audited",
    "count_readings",
    "explain_verdict",
    "find_audited_rows",
    "find_role",
    "join_scores",
    "judge",
    "list_template_fields",
    "reads_by_templates",
    "reads_choices",
    "score_rows",
    "try_action",
]
