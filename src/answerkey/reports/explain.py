"""One sample's whole way: row, prompt, completion, and per scorer the verdict and why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import polars as pl

from answerkey.errors import RunError, listing
from answerkey.evaluate import reopen
from answerkey.exporters import describe_verdict, find_encoded, pick_task
from answerkey.runs import Run, TaskRun
from answerkey.scorers import Scorer, StringEqualsMcqa, explain_verdict, judge
from answerkey.text import clean_numbers, show_place
from answerkey.types import THEIR_SCHEMA, Completion, Completions, Samples, Score, ScoreStatus

SEARCHED_IDS = 20_000
READ_IDS = 500_000


@dataclass(frozen=True)
class Verdict:
    """What one scorer said of the sample; `why` is the deciding rule in a sentence, where there is one."""

    key: str
    about: Mapping[str, Any]
    score: Mapping[str, Any]
    why: str | None = None


@dataclass(frozen=True)
class Explained:
    """A sample on its way; `row` and `completion` are None where the run's files are gone (see `missing`).

    `trial` is None where each sample was asked once. `theirs` is another tool's verdict, where there is one.
    """

    run: str
    task: str
    sample_id: str
    where: str
    row: Mapping[str, object] | None
    completion: Completion | None
    verdicts: Sequence[Verdict] = field(default_factory=tuple)
    missing: str | None = None
    trial: int | None = None
    theirs: Mapping[str, object] = field(default_factory=dict)


def explain_sample(run: Run, name: str, *, task_key: str | None = None) -> list[Explained]:
    """Return the sample's way in every task that has it, or in the one named; E504 when none has it.

    A sample that was asked several times has a way for each trial.
    """
    tasks = [pick_task(run, task_key)] if task_key else list(run.tasks.values())
    found = [(task, position) for task in tasks if (position := find_position(task, name)) is not None]
    if not found:
        raise _miss_sample(tasks, name)
    return [
        _explain_in_task(run, task, position + trial)
        for task, position in found
        for trial in range(count_trials(task))
    ]


def count_trials(task: TaskRun) -> int:
    """Return how often each sample was asked."""
    return int((task.manifest.get("trials") or {}).get("num_trials", 1))


def find_position(task: TaskRun, name: str) -> int | None:
    """Return where a sample stands in the run: by its id, or by the row number of a generated id."""
    names = [name, name.zfill(6)] if name.isdecimal() and name.isascii() else [name]
    found: dict[str, int] = {}
    for offset, ids in iterate_ids(task):
        for one in names:
            if one not in found and (position := ids.index_of(one)) is not None:
                found[one] = offset + int(position)
        if names[0] in found:
            break
    return next((found[one] for one in names if one in found), None)


def iterate_ids(task: TaskRun) -> Iterator[tuple[int, pl.Series]]:
    """Yield the ids of a task's rows, some at a time, with the position of the first of them."""
    scores = task.stored_scores
    for offset in range(0, len(scores), READ_IDS):
        yield offset, scores.read(offset, READ_IDS, ["sample_id"])["sample_id"]


def _miss_sample(tasks: Sequence[TaskRun], name: str) -> RunError:
    firsts = [task.stored_scores.read(0, SEARCHED_IDS, ["sample_id"]) for task in tasks]
    ids = [str(one) for first in firsts for one in first["sample_id"]]
    alike = get_close_matches(name.zfill(6) if name.isdecimal() else name, ids, n=3, cutoff=0.6)
    near = [one for one in ids if one.startswith(name)][:3] or alike
    span = f"the ids go from `{ids[0]}` to `{ids[-1]}`" if ids else "the run has no samples"
    hint = f"near it: {listing(near)}" if near else span
    return RunError("E504", f"there is no sample `{name}` in this run", hint=hint)


def _explain_in_task(run: Run, task: TaskRun, position: int) -> Explained:
    stored = task.stored_scores.read(position, 1).row(0, named=True)
    verdicts = _read_verdicts(task, stored)
    size = count_trials(task)
    about: dict[str, Any] = {"run": str(run.path), "task": task.key, "sample_id": str(stored["sample_id"])}
    about |= {"trial": int(stored["trial"])} if size > 1 else {}
    try:
        opened = reopen(run, task.key)
    except RunError as error:
        said = _read_stored(task, position)
        return Explained(
            **about, where="", row=None, completion=said, verdicts=verdicts, missing=error.message
        )
    part = opened.read(position // size, 1)
    samples = part.samples.slice(position % size, 1)
    own = part.completions.slice(position % size, 1)
    completion = next(own.rows())
    scorers = {step.key: step.scorer for step in opened.task.scoring}
    verdicts = [
        replace(one, why=_find_why(scorers[one.key], samples, completion, one.score)) for one in verdicts
    ]
    about |= {"where": show_place(samples.place(0)), "theirs": _read_theirs(own)}
    return Explained(**about, row=samples.row(0), completion=completion, verdicts=verdicts)


def _read_theirs(said: Completions) -> dict[str, object]:
    return {name: said.frame[name][0] for name in THEIR_SCHEMA if name in said.frame.columns}


def _read_verdicts(task: TaskRun, stored: Mapping[str, Any]) -> list[Verdict]:
    entries = {one["key"]: one for one in task.manifest.get("scorers") or []}
    encoded = find_encoded(task)
    return [
        Verdict(key, entries.get(key, {}), describe_verdict(verdict, encoded.get(key, ())))
        for key, verdict in stored.items()
        if key not in {"sample_id", "trial"}
    ]


def _read_stored(task: TaskRun, position: int) -> Completion | None:
    kept = task.stored_completions
    return next(Completions(kept.read(position, 1)).rows(), None) if len(kept) else None


def _find_why(
    scorer: Scorer, samples: Samples, completion: Completion, score: Mapping[str, Any]
) -> str | None:
    """Return why the verdict is so: the row's own error, or the rule that `judge` followed."""
    said: str | None = score["metadata"].get("judge_error")
    if score["status"] == ScoreStatus.FAILED.value:
        problems, _ = scorer.check_rows(samples)
        return problems[0].error.message if problems else said
    if score["status"] == ScoreStatus.ERROR.value:
        return said
    if not isinstance(scorer, StringEqualsMcqa):
        return None
    choices, truth = score["metadata"]["choices"], score["metadata"]["ground_truth_choice"]
    told = scorer.option_texts(samples)
    options = None if told is None else told.to_list()[0]
    verdict: Score = judge(completion, choices, truth, scorer.extraction, options)
    return explain_verdict(completion, choices, verdict)


def describe_explained(explained: Explained) -> dict[str, Any]:
    """Return the sample's way as plain values."""
    completion = explained.completion
    described = {
        "run": explained.run,
        "task": explained.task,
        "sample_id": explained.sample_id,
        **({} if explained.trial is None else {"trial": explained.trial}),
        "where": explained.where or None,
        "missing": explained.missing,
        "sample": None if explained.row is None else dict(explained.row),
        "prompt": None if completion is None or completion.prompt is None else list(completion.prompt),
        "completion": None if completion is None else completion.text,
        "completion_status": None if completion is None else completion.status.value,
        "scores": {one.key: {**one.score, "why": one.why} for one in explained.verdicts},
        **({"theirs": dict(explained.theirs)} if explained.theirs else {}),
    }
    # Through text once: dates and other values that JSON lacks become what they print as.
    plain: dict[str, Any] = json.loads(json.dumps(clean_numbers(described), default=str))
    return plain
