"""The models that scorers ask: what a scorer's `model_key` means."""

from __future__ import annotations

from pathlib import Path

from answerkey.errors import SpecError, raise_all
from answerkey.models import ModelConfig
from answerkey.scorers import AskingScorer
from answerkey.spec.definitions import Definitions, find_model, read_definitions
from answerkey.spec.findings import Findings
from answerkey.spec.model_choice import Choice
from answerkey.spec.nodes import MapNode
from answerkey.spec.opening import find_file, open_project
from answerkey.spec.plans import Overrides
from answerkey.spec.tasks import Task

Judges = dict[str, str | ModelConfig]


def find_judges(task: Task, known: Definitions, *, is_callers: bool = False) -> Judges:
    """Return the model of each scorer that asks one, by the scorer's key; what is wrong is reported.

    They are named like the model of a task, and generate as their own definition says.
    """
    choices = list_choices(task, is_callers=is_callers)
    found = {key: find_model(choice, known, is_asked=True) for key, choice in choices.items()}
    return {key: model for key, model in found.items() if model is not None}


def list_choices(task: Task, *, is_callers: bool = False) -> dict[str, Choice]:
    """Return how the scorers that ask a model name it, by the scorer's key."""
    return {
        step.key: Choice(
            step.scorer.model_key,
            task.place("definition", "scorers", step.index, "model_key"),
            is_callers=is_callers,
        )
        for step in task.scoring
        if isinstance(step.scorer, AskingScorer)
    }


def load_judges(
    task: Task, *, run_file: str | Path | None, overrides: Overrides, is_callers: bool = False
) -> Judges:
    """Return the models that the scorers of a task ask, by the scorer's key; raise all errors at once.

    A key is looked up in `run_file`, where the task is used; without one, only a name will do. `is_callers`:
    the caller wrote the task, not a file.
    """
    choices = list_choices(task, is_callers=is_callers)
    keys = [one for one in choices.values() if "/" not in one.reference]
    if run_file is None:
        raise_all([_refuse_key(one) for one in keys])
    if not choices:
        return {}
    findings = Findings()
    known = Definitions(open_project(_find_folder(run_file or task.file), overrides, findings))
    if keys and run_file is not None:
        node = known.project.read(find_file(Path(run_file)))
        if isinstance(node, MapNode) and "definition" not in node.entries:
            read_definitions(node, known)
    # What is wrong elsewhere in the run file does not matter, unless a judge is what is wrong there.
    before = len(findings.errors)
    judges = find_judges(task, known, is_callers=is_callers)
    raise_all(findings.errors[before:] or (findings.errors if len(judges) < len(choices) else []))
    return judges


def _find_folder(file: str | Path | None) -> Path:
    path = Path() if file is None else Path(file)
    return path if file is None or path.is_dir() else path.parent


def _refuse_key(choice: Choice) -> SpecError:
    return SpecError(
        "E113",
        f"model `{choice.reference}` is not defined: a task by itself has no models",
        where=choice.place,
        hint="name it as `provider/model` or by its URL (`http://HOST/v1#NAME`), or use a run file",
    )
