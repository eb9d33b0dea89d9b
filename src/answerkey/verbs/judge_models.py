"""Models that scorers ask: opened with their task, and put into its scorers for the time of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from answerkey.errors import AnswerkeyError, SpecError
from answerkey.models.config import ModelConfig
from answerkey.models.model import Model, open_model
from answerkey.pipeline import Prepared
from answerkey.scorers import AskingScorer
from answerkey.spec import ScoringStep, Task

SOLVE = "solve"


def name_purpose(key: str) -> str:
    """Return the purpose of the calls of a scorer."""
    return f"judge:{key}"


def open_judges(
    task: Task, judges: Mapping[str, str | ModelConfig]
) -> tuple[dict[str, Model], list[AnswerkeyError]]:
    """Return the models of scorers that ask one, by the scorer's key, and why some cannot judge."""
    opened: dict[str, Model] = {}
    errors: list[AnswerkeyError] = []
    for step in task.scoring:
        if step.key not in judges or not isinstance(step.scorer, AskingScorer):
            continue
        try:
            model = open_model(judges[step.key])
            step.scorer.bind(model, key=step.key)
        except SpecError as error:
            where = task.place("definition", "scorers", step.index, "model_key")
            errors.append(SpecError(error.code, error.message, where=error.where or where, hint=error.hint))
        else:
            opened[step.key] = model
    return opened, errors


def list_models(prepared: Prepared) -> dict[str, Model]:
    """Return every model that a task asks, by the purpose of its calls."""
    own = {} if prepared.model is None else {SOLVE: prepared.model}
    return own | {name_purpose(key): model for key, model in prepared.judges.items()}


def place_judges(task: Task, judges: Mapping[str, Model]) -> Task:
    """Return the task with its scorers ready to ask these models, given by the scorer's key."""
    return replace(task, scoring=tuple(_place_judge(step, judges.get(step.key)) for step in task.scoring))


def _place_judge(step: ScoringStep, model: Model | None) -> ScoringStep:
    if model is None or not isinstance(step.scorer, AskingScorer):
        return step
    return replace(step, scorer=step.scorer.bind(model, key=step.key))
