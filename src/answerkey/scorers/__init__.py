"""Samples and completions become scores; one module per scorer: its fields, its rule, its column form."""

from __future__ import annotations

from answerkey.scorers.actions import Action, apply_actions, try_action
from answerkey.scorers.base import BaseScorer, RowProblem, Scorer, build_scores, compile_templates
from answerkey.scorers.choice_probabilities import ChoiceProbabilities, judge_probabilities
from answerkey.scorers.mcqa import StringEqualsMcqa, judge
from answerkey.scorers.model_judge import JUDGE_CALL_FAILED, AskingScorer, ModelAsAJudge
from answerkey.scorers.parts import PART_REASONS, PARTS
from answerkey.scorers.python_scorer import PythonScorer
from answerkey.scorers.reasons import REASONS, explain_verdict
from answerkey.scorers.registry import SCORERS
from answerkey.scorers.rereading import choose_spots, count_readings, pick_spots
from answerkey.scorers.scoring import join_scores, score_rows
from answerkey.scorers.string_equals import StringEquals

__all__ = [
    "JUDGE_CALL_FAILED",
    "PARTS",
    "PART_REASONS",
    "REASONS",
    "SCORERS",
    "Action",
    "AskingScorer",
    "BaseScorer",
    "ChoiceProbabilities",
    "ModelAsAJudge",
    "PythonScorer",
    "RowProblem",
    "Scorer",
    "StringEquals",
    "StringEqualsMcqa",
    "apply_actions",
    "build_scores",
    "choose_spots",
    "compile_templates",
    "count_readings",
    "explain_verdict",
    "join_scores",
    "judge",
    "judge_probabilities",
    "pick_spots",
    "score_rows",
    "try_action",
]
