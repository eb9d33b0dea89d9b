"""Templates that see a completion, tried on a made-up one: what they read that none ever has."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import polars as pl

from answerkey.errors import AnswerkeyError, SpecError
from answerkey.evaluate.job import Job
from answerkey.scorers import build_table, try_action
from answerkey.spec import ScoringStep, Task
from answerkey.templates import RowError, TemplateStopped
from answerkey.types import Completion, Completions, Samples, Score, Scores, ScoreStatus

#: A name that a row of the dataset itself lacks is that row's error, unless so many lack it.
TRIED_ROWS = 50
#: How many different names one template may read of a message or a score.
MOST_NAMES = 100
TEXT = "A"
_PROMPT = tuple({"role": role, "content": TEXT} for role in ("system", "user"))
_NAME = re.compile(r"^(?P<owner>.*?) (?:has )?no field `(?P<name>[^`]*)`")
#: Made-up values of which the true type is not known.
_UNKNOWN = frozenset(["null", "a number", "a boolean"])
_LINE = re.compile(r" \(line (?P<line>\d+) of the template\)$")

#: Returns what goes wrong with a template on samples, their completions and scores, if anything.
Attempt = Callable[[Samples, Completions, dict[str, Scores]], RowError | None]


def find_unreadable(job: Job) -> list[AnswerkeyError]:
    """Return an error for each template that reads a field which a completion or a score cannot
    have.
    """
    task = job.task
    attempts: list[tuple[tuple[str | int, ...], Attempt]] = []
    for step in task.scoring:
        for name in step.scorer.completion_fields:
            attempts.append((("definition", "scorers", step.index, name), _try_field(step, name)))
    for index, action in enumerate(task.actions):
        expression = ("definition", "actions", index, "filter", "expression")
        attempts.append((expression, partial(try_action, action)))
    rows = job.dataset.rows.slice(0, TRIED_ROWS)
    if not attempts or not len(rows):
        return []
    samples = rows.load()
    errors: list[AnswerkeyError] = []
    for path, attempt in attempts:
        try:
            problem = _try_rows(attempt, task, samples)
        except TemplateStopped as stopped:
            errors.append(stopped.at(task.places.of_template(stopped.source)))
            continue
        if problem is not None:
            match = _LINE.search(problem.message)
            where = task.places.of_line(path, int(match["line"]) if match else None)
            message = f"`{path[-1]}`: {_LINE.sub('', problem.message)}"
            errors.append(SpecError("E112", message, where=where, hint=problem.hint))
    return errors


def _try_field(step: ScoringStep, name: str) -> Attempt:
    return lambda samples, completions, _: step.scorer.try_field(name, samples, completions)


def _try_rows(attempt: Attempt, task: Task, samples: Samples) -> RowError | None:
    """Return the error of the last row; None as soon as one has none.

    A name that one of the rows has is no mistake of the template.
    """
    problem = None
    for row in range(len(samples)):
        problem = _try_row(attempt, task, samples.take([row]))
        if problem is None:
            return None
    return problem


def _try_row(attempt: Attempt, task: Task, sample: Samples) -> RowError | None:
    """Return the error about a field that is missing even where a made-up reply and scores have it.

    What a provider adds to a message, and what a snippet returns, is not known beforehand: a field
    that the template reads of one of them may be there. The content of a message may be text or a
    list of parts.
    """
    missing: dict[str, RowError] = {}
    is_in_parts = False
    for _ in range(MOST_NAMES):
        completions = _make_completions(sample, missing, is_in_parts=is_in_parts)
        problem = attempt(sample, completions, _make_scores(task, missing))
        if problem is None or not problem.is_undefined:
            return None
        match = _NAME.search(problem.message)
        if match is None or match["owner"] in _UNKNOWN:
            return None
        is_text = match["owner"] == "text"
        if is_text and missing and not is_in_parts:
            return None
        if match["name"] in missing:
            return missing[match["name"]]
        if not is_text and match["owner"] != "there is":
            return problem
        is_in_parts |= is_text
        missing[match["name"]] = problem
    return None


def _make_completions(
    sample: Samples, missing: dict[str, RowError], *, is_in_parts: bool
) -> Completions:
    """Return a made-up completion whose message has the fields that were missing so far."""
    fields = dict.fromkeys(missing, TEXT)
    content: object = TEXT
    if is_in_parts:
        content = [{"type": "text", "text": TEXT, **fields}]
    completion = Completion(
        TEXT,
        prompt=_PROMPT,
        reply={**fields, "role": "assistant", "content": content},
        finish_reason="stop",
        prompt_tokens=1,
        completion_tokens=1,
    )
    return Completions.build(sample.ids, [completion], source="made up")


def _make_scores(task: Task, missing: dict[str, RowError]) -> dict[str, Scores]:
    scores = {}
    for step in task.scoring:
        names = [*(step.scorer.value_names or ()), *(step.scorer.metadata_names or ()), *missing]
        score = Score(ScoreStatus.SCORED, values=dict.fromkeys(names, 1.0))
        scores[step.key] = build_table([score], dict.fromkeys(names, pl.Float64()), {})
    return scores
