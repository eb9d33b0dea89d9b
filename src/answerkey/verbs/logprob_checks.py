"""Whether a model is asked for the log-probabilities that a task reads."""

from __future__ import annotations

from answerkey.errors import AnswerkeyError, SpecError
from answerkey.models.model import LiveModel, Model
from answerkey.solvers import ChoiceRankingSolver, require_echo
from answerkey.spec import Task

_HINT = "add `generation: {logprobs: true, top_logprobs: 10}` to the model, or `?top_logprobs=10` to its name"


def find_missing_logprobs(task: Task, model: Model | None) -> list[AnswerkeyError]:
    """Return an error for each scorer that reads log-probabilities which the model will not send."""
    if model is None:
        return []
    if isinstance(task.solver, ChoiceRankingSolver):
        try:
            require_echo(model)
        except SpecError as error:
            return [error]
        return []
    why = _explain(model)
    return [
        SpecError(
            "E108",
            f"scorer `{step.key}` reads log-probabilities, and {why}",
            where=task.place("definition", "scorers", step.index),
            hint=_HINT,
        )
        for step in task.scoring
        if why and getattr(step.scorer, "reads_logprobs", False)
    ]


def _explain(model: Model) -> str | None:
    """Return why a model sends none that would do; None when it may."""
    if model.name.startswith("builtin/"):
        return f"`{model.name}` has none"
    if not isinstance(model, LiveModel):
        return None
    generation = model.connection.generation
    if not generation.wants_logprobs:
        return f"model `{model.name}` is not asked for them"
    if not generation.top_logprobs:
        return f"model `{model.name}` is asked for no alternatives: `top_logprobs` is not set"
    return None
