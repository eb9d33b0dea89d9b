"""Templates that see a completion, tried on a made-up one: what they read that no completion ever has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import polars as pl

from answerkey.errors import AnswerkeyError, SpecError
from answerkey.pipeline import Prepared
from answerkey.scorers import build_scores, try_action
from answerkey.spec import ScoringStep, Task
from answerkey.templates import RowTrouble, TemplateStopped
from answerkey.types import Completion, Completions, Samples, Scores, ScoreStatus

#: A name that a row of the dataset itself lacks is that row's trouble, unless so many lack it.
TRIED_ROWS = 50
#: How many different names one template may read of a message or a score.
MOST_NAMES = 100
TEXT = "A"
_PROMPT = tuple({"role": role, "content": TEXT} for role in ("system", "user"))
_NAME = re.compile(r"^(?P<owner>.*?) (?:has )?no field `(?P<name>[^`]*)`")
#: Made-up values of which the true type is not known.
_UNKNOWN = frozenset(["null", "a number", "a boolean"])
_LINE = re.compile(r" \(line (?P<line>\d+) of the template\)$")

#: Returns what goes wrong with a template on samples, their completions and scores; None when nothing does.
Try = Callable[[Samples, Completions, dict[str, Scores]], RowTrouble | None]


def find_unreadable(prepared: Prepared) -> list[AnswerkeyError]:
    """Return an error for each template that reads a field which a completion or a score cannot have."""
    task, rows = prepared.task, prepared.dataset.rows.slice(0, TRIED_ROWS)
    tries = list(_list_tries(task))
    if not tries or not len(rows):
        return []
    samples = rows.load(prepared.columns)
    errors: list[AnswerkeyError] = []
    for path, attempt in tries:
        try:
            trouble = _find_trouble(attempt, task, samples)
        except TemplateStopped as stopped:
            errors.append(stopped.at(task.places.of_template(stopped.source)))
            continue
        if trouble is not None:
            line = _LINE.search(trouble.message)
            where = task.places.of_line(path, int(line["line"]) if line else None)
            message = f"`{path[-1]}`: {_LINE.sub('', trouble.message)}"
            errors.append(SpecError("E112", message, where=where, hint=trouble.hint))
    return errors


def _list_tries(task: Task) -> Iterator[tuple[tuple[str | int, ...], Try]]:
    """Yield the templates that see a completion: where they stand, and how to try them."""
    for step in task.scoring:
        for field in getattr(step.scorer, "completion_fields", ()):
            yield ("definition", "scorers", step.index, field), _try_field(step, field)
    for index, action in enumerate(task.actions):
        path = ("definition", "actions", index, "filter", "expression")
        yield path, lambda *tables, one=action: try_action(one, *tables)


def _try_field(step: ScoringStep, field: str) -> Try:
    return lambda samples, completions, _: step.scorer.try_field(field, samples, completions)  # type: ignore[attr-defined]


def _find_trouble(attempt: Try, task: Task, samples: Samples) -> RowTrouble | None:
    """Return what is wrong with a template on every one of the samples; None when one of them is fine."""
    found = None
    for row in range(len(samples)):
        found = _try_row(attempt, task, samples.take([row]))
        if found is None:
            break
    return found


def _try_row(attempt: Try, task: Task, sample: Samples) -> RowTrouble | None:
    """Return the trouble with a field that is missing even where a made-up reply and score have it.

    What a provider adds to a message, and what a snippet returns, is not known beforehand: a field that the
    template reads of one of them may be there. The content of a message may be text or a list of parts.
    """
    told: dict[str, RowTrouble] = {}
    is_in_parts = False
    for _ in range(MOST_NAMES):
        said = _make_completion(told, is_in_parts=is_in_parts)
        completions = Completions.build(sample.ids, [said], source="made up")
        trouble = attempt(sample, completions, _make_scores(task, told))
        if trouble is None or not trouble.is_undefined:
            return None
        missing = _NAME.search(trouble.message)
        if missing is None or missing["owner"] in _UNKNOWN:
            return None
        is_text, is_mapping = missing["owner"] == "text", missing["owner"] == "there is"
        if is_text and told and not is_in_parts:
            return None
        if missing["name"] in told or not (is_text or is_mapping):
            return told.get(missing["name"], trouble)
        is_in_parts |= is_text
        told[missing["name"]] = trouble
    return None


def _make_completion(names: Iterable[str], *, is_in_parts: bool) -> Completion:
    """Return a completion whose message has these fields, too; its content may be a list of parts."""
    more = dict.fromkeys(names, TEXT)
    content: object = [{"type": "text", "text": TEXT, **more}] if is_in_parts else TEXT
    reply = {**more, "role": "assistant", "content": content}
    return Completion(
        TEXT, prompt=_PROMPT, reply=reply, finish_reason="stop", prompt_tokens=1, completion_tokens=1
    )


def _make_scores(task: Task, names: Iterable[str]) -> dict[str, Scores]:
    """Return one verdict of each scorer, with every name that is known of it, and these."""
    blank, status = pl.Series([None], dtype=pl.String), pl.Series([ScoreStatus.SCORED.value])
    verdicts = {}
    for step in task.scoring:
        known = (*(step.scorer.value_names or ()), *(step.scorer.metadata_names or ()), *names)
        values = {name: pl.Series([1.0]) for name in known}
        verdicts[step.key] = build_scores(status, blank, values, metadata={})
    return verdicts
