"""Samples and completions become scores; one module per scorer: its fields, its rule, its column form."""

from __future__ import annotations

from answerkey.scorers.actions import Action, apply_actions
from answerkey.scorers.base import BaseScorer, RowProblem, Scorer, build_scores, compile_templates
from answerkey.scorers.mcqa import StringEqualsMcqa, judge
from answerkey.scorers.model_judge import JUDGE_CALL_FAILED, AskingScorer, ModelAsAJudge
from answerkey.scorers.python_scorer import PythonScorer
from answerkey.scorers.reasons import REASONS, explain_verdict
from answerkey.scorers.registry import SCORERS
from answerkey.scorers.scoring import join_scores, score_rows
from answerkey.scorers.string_equals import StringEquals

__all__ = [
    "JUDGE_CALL_FAILED",
    "REASONS",
    "SCORERS",
    "Action",
    "AskingScorer",
    "BaseScorer",
    "ModelAsAJudge",
    "PythonScorer",
    "RowProblem",
    "Scorer",
    "StringEquals",
    "StringEqualsMcqa",
    "apply_actions",
    "build_scores",
    "compile_templates",
    "explain_verdict",
    "join_scores",
    "judge",
    "score_rows",
]
