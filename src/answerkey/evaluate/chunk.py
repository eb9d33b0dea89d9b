"""One chunk of a job: its samples are read, checked, completed and scored, row by row."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from answerkey.datasets.dataset import Chunk
from answerkey.errors import AnswerkeyError, InternalError, RunError
from answerkey.evaluate.checks import RowProblems, check_samples
from answerkey.evaluate.job import Job
from answerkey.metrics import (
    STOPPED_EARLY,
    RowFacts,
    describe_rows,
    find_category_column,
    find_failures,
    find_same_failure,
)
from answerkey.models.config import sees_samples
from answerkey.scorers import (
    apply_actions,
    count_readings,
    find_audited_rows,
    join_scores,
    score_rows,
)
from answerkey.spec import Task
from answerkey.types import (
    NOT_ASKED,
    Completions,
    CompletionStatus,
    Samples,
    Scores,
    ScoreStatus,
    Validity,
)


@dataclass(frozen=True)
class ChunkResult:
    """What came of a chunk.

    `scores` and `completions` are its rows of the run's tables; there are no `completions` where
    the run keeps none, or has them already. `facts` is what metrics and counts need to know about
    the rows, `readings` how other extraction rules read some of them. `errors` counts verdicts
    that are missing because a call failed, `invalid` completions that the main scorer cannot read;
    `is_failing` says that all rows failed for one reason.
    `problems` is what is wrong with the rows, `failure` why they could not be scored.
    """

    rows: int
    scores: pl.DataFrame | None = None
    completions: pl.DataFrame | None = None
    facts: RowFacts = field(default_factory=lambda: RowFacts(pl.DataFrame()))
    readings: Mapping[str, Any] = field(default_factory=dict)
    encoded: Mapping[str, frozenset[str]] = field(default_factory=dict)
    errors: int = 0
    invalid: int = 0
    is_failing: bool = False
    problems: RowProblems | None = None
    failure: AnswerkeyError | None = None


def check_chunk(job: Job, chunk: Chunk) -> RowProblems:
    """Return what is wrong with the rows of a chunk."""
    return _check(job, chunk, chunk.samples.load())


def _check(job: Job, chunk: Chunk, samples: Samples) -> RowProblems:
    """Return what is wrong with rows; those that end a worker are not looked at."""
    if not chunk.skipped or chunk.reason == STOPPED_EARLY:
        return check_samples(job, chunk, samples)
    problems = check_samples(job, chunk, samples.take(chunk.left))
    problems.rows = len(samples)
    problems.failed = array("q", [chunk.left[position] for position in problems.failed])
    return problems


def evaluate_chunk(job: Job, chunk: Chunk) -> ChunkResult:
    """Take a chunk from its samples to its scores."""
    problems = None
    samples = chunk.samples.load()
    if not job.is_checked:
        problems = _check(job, chunk, samples)
        if problems.fatal:
            return ChunkResult(len(samples), problems=problems)
        chunk = replace(chunk, failed=tuple(sorted(set(problems.failed))))
    try:
        result = _score_chunk(job, chunk, samples)
    except AnswerkeyError as error:
        if problems is None or isinstance(error, RunError):
            raise
        # Rows that are wrong come first: they are reported with the chunks that follow.
        return ChunkResult(len(samples), problems=problems, failure=error)
    return replace(result, problems=problems)


def _score_chunk(job: Job, chunk: Chunk, samples: Samples) -> ChunkResult:
    task = job.task
    size = task.num_trials
    repeated = samples.repeat(size)
    completions = _complete(job, chunk, samples)
    scores = _judge(task, chunk, samples, completions)
    main = task.main_step
    audited = find_audited_rows(job.audited, chunk.places, size)
    columns = list(task.design_columns)
    category = find_category_column(samples.columns)
    if category is not None:
        columns.append(category)
    facts = describe_rows(repeated, completions, scores, main=main.key, columns=columns)
    return ChunkResult(
        rows=len(samples),
        scores=join_scores(completions, scores),
        completions=completions.frame if job.keep_completions else None,
        facts=facts,
        readings=count_readings(main.scorer, repeated, completions, scores[main.key], audited),
        encoded={key: table.encoded for key, table in scores.items()},
        errors=sum(table.count(ScoreStatus.ERROR) for table in scores.values()),
        invalid=_count_invalid(scores[main.key]),
        is_failing=find_same_failure(find_failures(facts, scores), len(repeated)) is not None,
    )


def _count_invalid(scores: Scores) -> int:
    return int((scores.text("completion_validity") == Validity.INVALID.value).sum())


def _complete(job: Job, chunk: Chunk, samples: Samples) -> Completions:
    """Return a chunk's completions, one per sample and trial."""
    if chunk.recorded is None:
        completions = _solve(job, chunk, samples)
    else:
        completions = chunk.recorded.read(samples)
        if job.is_rescored:
            completions = _mark_unasked(completions, chunk.failed, job.task.num_trials)
    return completions.number(job.trials)


def _mark_unasked(completions: Completions, failed: Sequence[int], size: int) -> Completions:
    """Return an old run's completions; a row that was wrong then and is right now is an error."""
    error = "the old run did not call its model for this row"
    items = []
    for row, completion in enumerate(completions):
        if completion.source == NOT_ASKED and row // size not in failed:
            completion = completion.with_fields(  # noqa: PLW2901
                status=CompletionStatus.ERROR, error=error
            )
        items.append(completion)
    return Completions(items)


def _solve(job: Job, chunk: Chunk, samples: Samples) -> Completions:
    """Return what the solver gets for each sample and trial; wrong rows are not sent."""
    task = job.task
    if task.solver is None:
        raise InternalError("E901", f"task `{task.key}` has neither completions nor a solver")
    positions = sorted(set(chunk.left).difference(chunk.failed))
    sound = samples.take(positions) if len(positions) < len(samples) else samples
    facts = None
    if not task.solver.sends_prompts or sees_samples(job.model):
        facts = task.sample_facts(sound)
    completions = task.solver.solve(
        sound, model=job.model, known=facts, examples=job.examples, trials=job.trials
    )
    if sound is not samples:
        return completions.spread(positions, samples.ids, task.num_trials)
    return completions


def _judge(
    task: Task, chunk: Chunk, samples: Samples, completions: Completions
) -> dict[str, Scores]:
    """Return the scores by scorer, after the task's actions; skipped rows are FAILED."""
    size = task.num_trials
    left = chunk.left
    rows = [row * size + trial for row in left for trial in range(size)]
    if chunk.skipped:
        samples = samples.take(left)
        completions = completions.take(rows)
    failed_rows = set(chunk.failed)
    failed: list[int] = []
    for position, row in enumerate(left):
        if row in failed_rows:
            failed.extend(range(position * size, (position + 1) * size))
    repeated = samples.repeat(size)
    scores = {}
    for step in task.scoring:
        scores[step.key] = score_rows(step.scorer, repeated, completions, failed)
    scores = apply_actions(task.actions, repeated, completions, scores, num_trials=size)
    if not chunk.skipped:
        return scores
    length = len(chunk.samples) * size
    return {key: table.spread(rows, length, chunk.reason) for key, table in scores.items()}
