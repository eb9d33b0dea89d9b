"""The scorers by type."""

from __future__ import annotations

from answerkey.scorers.base import Scorer
from answerkey.scorers.choice_probabilities import ChoiceProbabilities
from answerkey.scorers.mcqa import StringEqualsMcqa
from answerkey.scorers.model_judge import ModelAsAJudge
from answerkey.scorers.python_scorer import PythonScorer
from answerkey.scorers.string_equals import StringEquals
from answerkey.types import Registry

_OWN: tuple[type[Scorer], ...] = (
    StringEqualsMcqa,
    StringEquals,
    PythonScorer,
    ModelAsAJudge,
    ChoiceProbabilities,
)

SCORERS: Registry[Scorer] = Registry("answerkey.scorers", {scorer.type: scorer for scorer in _OWN})
