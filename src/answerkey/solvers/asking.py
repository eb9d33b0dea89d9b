"""From prompts to completions: what a model is told of each sample, and what it must be able to know."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

from answerkey.errors import SpecError
from answerkey.models import OPTIONS_HINT, Model, missing_parts
from answerkey.solvers.solver import ONE_TRIAL, Prompt
from answerkey.types import Completions, Known, Question, Samples

OPTIONS_COLUMN = "options"
#: Where the question stands without the options, if the dataset has such a column.
QUESTION_COLUMN = "question"
#: Longer texts are no lists of options; Python's own reader takes a hundred times their memory.
LONGEST_LIST = 100_000


def ask_model(
    model: Model,
    samples: Samples,
    prompts: Sequence[Prompt],
    known: Known | None,
    *,
    trials: range = ONE_TRIAL,
) -> Completions:
    """Return the model's completion for each prompt and trial, with the prompt in it."""
    require_known(model, samples, known)
    questions = build_questions(samples, prompts, known)
    questions = [one if not trial else replace(one, trial=trial) for one in questions for trial in trials]
    answers = zip(model.answer(questions), questions, strict=True)
    completions = [replace(one, prompt=question.messages) for one, question in answers]
    source = "builtin" if model.name.startswith("builtin/") else "live"
    return Completions.build(samples.repeat(len(trials)).ids, completions, source=source)


def require_known(model: Model, samples: Samples, known: Known | None) -> None:
    """Raise SpecError E301 when a built-in model needs what neither the scorers nor the dataset tell."""
    missing = missing_parts(model, known)
    if missing:
        words = " and ".join(f"`{name}`" for name in sorted(missing))
        raise SpecError(
            "E301",
            f"model `{model.name}` answers from the {words} of a scorer, and no scorer of the task has them",
            hint="add a scorer `string_equals_mcqa`, or use `builtin/constant?choice=A`",
        )
    needs: frozenset[str] = getattr(model, "needs", frozenset())
    if OPTIONS_COLUMN in needs and len(samples) and not any(read_options(samples, known)):
        message = f"model `{model.name}` reads the option texts, and there are none"
        raise SpecError("E301", message, hint=OPTIONS_HINT)


def build_questions(samples: Samples, prompts: Sequence[Prompt], known: Known | None) -> list[Question]:
    """Return what the model is asked; choices, options and truth are for the built-in models."""
    size = len(samples)
    choices = known.choices if known else [None] * size
    truths = known.truths if known else [None] * size
    options = read_options(samples, known)
    texts = samples.values(QUESTION_COLUMN) if QUESTION_COLUMN in samples.columns else [None] * size
    return [
        Question(
            sample_id=sample_id,
            messages=prompts[i],
            choices=choices[i],
            options=options[i],
            truth=truths[i],
            text=text if isinstance(text := texts[i], str) else _last_user_text(prompts[i]),
        )
        for i, sample_id in enumerate(samples.ids.to_list())
    ]


def read_options(samples: Samples, known: Known | None) -> list[Sequence[str] | None]:
    """Return each sample's option texts: from the scorer, else from the column `options`, else None."""
    told: list[Sequence[str] | None] = list(known.options) if known else [None] * len(samples)
    if OPTIONS_COLUMN not in samples.columns or all(one is not None for one in told):
        return told
    cells = samples.values(OPTIONS_COLUMN)
    return [one if one is not None else _read_texts(cell) for one, cell in zip(told, cells, strict=True)]


def _read_texts(cell: object) -> list[str] | None:
    """Return the texts of a cell: a list, a mapping, objects with `text`, or a list written as text."""
    if isinstance(cell, str):
        cell = _parse_list(cell)
    if isinstance(cell, Mapping):
        cell = list(cell.values())
    if not isinstance(cell, list):
        return None
    texts = [one.get("text") if isinstance(one, Mapping) else one for one in cell]
    return [str(text) for text in texts] if all(isinstance(one, str | int | float) for one in texts) else None


def _parse_list(text: str) -> object:
    if len(text) > LONGEST_LIST:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def _last_user_text(prompt: Prompt) -> str:
    for message in reversed(prompt):
        if message["role"] == "user":
            return str(message["content"])
    return ""
