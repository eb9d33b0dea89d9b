"""Samples and completions become scores; one module per scorer: its fields and its rule.

A module other than those imported here is loaded when a task names its scorer.
"""

from __future__ import annotations

from answerkey.scorers.base import (
    Action,
    RowProblem,
    Scorer,
    apply_actions,
    asks_model,
    build_table,
    compile_templates,
    find_role,
    join_scores,
    score_rows,
    try_action,
)
from answerkey.scorers.mcqa import (
    StringEqualsMcqa,
    explain_verdict,
    judge,
    reads_choices,
)
from answerkey.scorers.rereading import choose_audited, count_readings, find_audited_rows
from answerkey.types import Registry

_OWN = (
    "string_equals_mcqa",
    "string_equals",
    "python",
    "model_as_a_judge_scorer",
    "model_as_a_judge_classifier",
    "labeler_via_model",
    "choice_probabilities",
)
#: The `template_fields` of these, so that none is loaded to know how a file is read.
_TEMPLATE_FIELDS = frozenset(
    {
        "choices",
        "ground_truth",
        "ground_truth_choice",
        "options",
        "system_prompt",
        "user_prompt",
        "value",
    }
)


def _load_scorer(name: str) -> type[Scorer]:
    if name == "string_equals_mcqa":
        return StringEqualsMcqa
    from answerkey.scorers.choice_probabilities import ChoiceProbabilities
    from answerkey.scorers.model_judge import ModelAsAJudge, ModelClassifier, ModelLabeler
    from answerkey.scorers.python_scorer import PythonScorer
    from answerkey.scorers.string_equals import StringEquals

    kinds: tuple[type[Scorer], ...] = (
        StringEquals,
        PythonScorer,
        ChoiceProbabilities,
        ModelAsAJudge,
        ModelClassifier,
        ModelLabeler,
    )
    return next(kind for kind in kinds if kind.type == name)


#: The scorers by type.
SCORERS: Registry[Scorer] = Registry("answerkey.scorers", _OWN, _load_scorer)

#: The name that scorers of other packages build on.
BaseScorer = Scorer


def list_template_fields() -> frozenset[str]:
    """Return the names of the fields that hold templates in any scorer."""
    fields = set(_TEMPLATE_FIELDS)
    for name in SCORERS:
        if name not in _OWN:
            fields.update(SCORERS[name].template_fields)
    return frozenset(fields)


def reads_by_templates(scorer: Scorer) -> bool:
    """Whether a scorer reads of a sample only what its templates name.

    Others may look at any column.
    """
    if scorer.type not in {"string_equals", "string_equals_mcqa", "choice_probabilities"}:
        return False
    return type(scorer) is SCORERS[scorer.type]


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
    "compile_templates",
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
