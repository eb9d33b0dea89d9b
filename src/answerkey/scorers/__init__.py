"""Samples and completions become scores; one module per scorer: its fields, its rule, its column form."""

from __future__ import annotations

from answerkey.scorers.base import (
    Action,
    RowProblem,
    Scorer,
    apply_actions,
    build_scores,
    compile_templates,
    try_action,
)
from answerkey.scorers.choice_probabilities import ChoiceProbabilities, judge_probabilities
from answerkey.scorers.mcqa import StringEqualsMcqa, explain_verdict, judge
from answerkey.scorers.model_judge import JUDGE_CALL_FAILED, ModelAsAJudge, ModelScorer
from answerkey.scorers.python_scorer import PythonScorer
from answerkey.scorers.scoring import (
    choose_audited,
    count_readings,
    find_audited_rows,
    join_scores,
    score_rows,
)
from answerkey.scorers.string_equals import StringEquals
from answerkey.types import Registry

_OWN: tuple[type[Scorer], ...] = (
    StringEqualsMcqa,
    StringEquals,
    PythonScorer,
    ModelAsAJudge,
    ChoiceProbabilities,
)

#: The scorers by type.
SCORERS: Registry[Scorer] = Registry("answerkey.scorers", {scorer.type: scorer for scorer in _OWN})

#: The name that scorers of other packages build on.
BaseScorer = Scorer

__all__ = [
    "JUDGE_CALL_FAILED",
    "SCORERS",
    "Action",
    "BaseScorer",
    "ChoiceProbabilities",
    "ModelAsAJudge",
    "ModelScorer",
    "PythonScorer",
    "RowProblem",
    "Scorer",
    "StringEquals",
    "StringEqualsMcqa",
    "apply_actions",
    "build_scores",
    "choose_audited",
    "compile_templates",
    "count_readings",
    "explain_verdict",
    "find_audited_rows",
    "join_scores",
    "judge",
    "judge_probabilities",
    "score_rows",
    "try_action",
]
