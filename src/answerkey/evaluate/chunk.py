"""One chunk of a job: its samples are read, checked, completed and scored, row by row.

`check_samples` finds what is wrong with the rows and prompts of one chunk, without calling a model.
What it finds in all chunks is merged into one `RowProblems`, to which `check_whole` adds what is
wrong with the job as a whole.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from answerkey.datasets.dataset import Chunk
from answerkey.datasets.rows import list_rows
from answerkey.errors import (
    AnswerkeyError,
    DataError,
    InternalError,
    Place,
    RunError,
    SpecError,
    distinct,
)
from answerkey.metrics import (
    STOPPED_EARLY,
    RowFacts,
    describe_rows,
    find_category_column,
    find_failures,
    find_same_failure,
)
from answerkey.models.config import sees_samples
from answerkey.models.images import list_images
from answerkey.scorers import (
    RowProblem,
    apply_actions,
    build_table,
    count_readings,
    find_audited_rows,
    join_scores,
    score_rows,
    try_action,
)
from answerkey.solvers import Solver, find_column_field, require_known
from answerkey.solvers.solver import Prompt
from answerkey.spec import Job, ScoringStep, Task
from answerkey.spec.job import CHUNK_ROWS
from answerkey.templates import RowError, TemplateStopped
from answerkey.text import show_place
from answerkey.types import (
    NOT_ASKED,
    Completion,
    Completions,
    CompletionStatus,
    Notice,
    Samples,
    Score,
    Scores,
    ScoreStatus,
    Validity,
)

#: The maximum number of errors of one kind that are shown; the others are only counted.
MAX_SHOWN_ERRORS = 5
#: If this many first rows all lack a name, the template is wrong, not the rows.
MAX_TRIED_ROWS = 50
#: The maximum number of missing names that one template may read from a message or a score.
MAX_MISSING_NAMES = 100
_PROMPT = tuple({"role": role, "content": "A"} for role in ("system", "user"))
_NAME = r"^(?P<owner>.*?) (?:has )?no field `(?P<name>[^`]*)`"
#: A placeholder for values whose true type is not known.
_UNKNOWN = frozenset(["null", "a number", "a boolean"])
_LINE = r" \(line (?P<line>\d+) of the template\)$"

#: Tries a template on samples, their completions and scores, and returns its error, if any.
Attempt = Callable[[Samples, Completions, dict[str, Scores]], RowError | None]


# Problems of rows.


@dataclass
class RowProblems:
    """What is wrong with rows: errors to show (each kind cut short), and which rows they are.

    `failed` holds the positions of rows that may be FAILED with `--allow-failed`, in order once
    merged; `fatal` the errors that no allowance covers. `rows` is how many rows were checked, or
    will be; those of chunks that were `merged` are done. `images` are the kinds of images in the
    prompts, `image_files` the SHA-256 of each that is a file.
    """

    rows: int
    merged: int = 0
    shown: list[tuple[str, AnswerkeyError]] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    failed: array[int] = field(default_factory=lambda: array("q"))
    fatal: list[AnswerkeyError] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    images: set[str] = field(default_factory=set)
    image_files: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, error: AnswerkeyError) -> None:
        """Count an error, and keep it while there are few of its kind; the same one counts once."""
        is_cut = self.counts[kind, error.code] >= MAX_SHOWN_ERRORS
        if not is_cut or error.where is None:
            for _, shown in self.shown:
                if (shown.message, shown.where) == (error.message, error.where):
                    return
        self.counts[kind, error.code] += 1
        if not is_cut:
            self.shown.append((kind, error))

    def add_row(
        self,
        kind: str,
        position: int,
        error: AnswerkeyError,
    ) -> None:
        """Add a problem of a row; a column that does not exist is not the fault of a row."""
        if error.code == "E206":
            self.fatal.append(error)
        else:
            self.failed.append(position)
            self.add(kind, error)

    def add_images(self, prompt: Prompt) -> None:
        """Note the images in a prompt."""
        for image in list_images(prompt):
            self.images.add(image.kind)
            if isinstance(image.content, Path):
                self.image_files[str(image.content)] = str(image["sha256"])

    def merge(self, chunk: RowProblems) -> None:
        """Add the problems of the next chunk."""
        uncounted = chunk.counts.copy()
        for kind, error in chunk.shown:
            self.add(kind, error)
            uncounted[kind, error.code] -= 1
        self.counts.update(uncounted)
        self.failed.extend(self.merged + row for row in sorted(set(chunk.failed)))
        if chunk.fatal:
            self.fatal = distinct((*self.fatal, *chunk.fatal))
        self.images |= chunk.images
        self.image_files |= chunk.image_files
        self.notices = list(dict.fromkeys((*self.notices, *chunk.notices)))
        self.merged += chunk.rows

    def exceed(self, limit: int) -> bool:
        """Return whether there are more problems than a run may have."""
        return bool(self.fatal) or len(self.failed) > limit

    def errors(self, job: Job) -> list[AnswerkeyError]:
        """Return the errors to show: the first ones of each kind, and how many more there are."""
        errors = list(self.fatal)
        columns = _list_own_columns(job)
        num_failed = max(len(self.failed), len({error.where for _, error in self.shown}))
        for _, error in self.shown:
            row_error = _name_own_column(error, columns)
            if num_failed < self.rows:
                row_error = _allow(row_error, num_failed)
            errors.append(row_error)
        hint = "correct the rows above first"
        file = job.dataset.rows.file
        if file is not None and num_failed >= self.rows:
            place = show_place(Place(file=file))
            hint = f"`answerkey init DIR --dataset {place}` writes a task that reads this file"
        for (kind, code), count in self.counts.items():
            if count > MAX_SHOWN_ERRORS:
                message = f"{kind}: {count - MAX_SHOWN_ERRORS:,} more rows have the same problem"
                errors.append(DataError(code, message, hint=hint))
        return errors


def _allow(error: AnswerkeyError, count: int) -> DataError:
    """Return the error of a row with a hint that says how to score the others."""
    samples = "these samples"
    if error.where and error.where.sample:
        samples = "this sample"
    hint = (
        f"{error.hint or 'fix the row'}, or run with `--allow-failed {count}` to score the rest "
        f"and report {samples} as FAILED"
    )
    return DataError(error.code, error.message, where=error.where, hint=hint)


def _list_own_columns(job: Job) -> dict[str | None, str]:
    """Return the names that the file has for the columns which `questions` derives."""
    names: dict[str | None, str] = {}
    parts = getattr(job.dataset_spec.source, "questions", {})
    for part, columns in parts.items():
        name = columns if isinstance(columns, str) else ", ".join(columns)
        if part in {"truth", "options"}:  # whose form may follow
            name = name.rpartition(":")[0] or name
        names[part] = name
    if "options" in names:
        names.setdefault("choices", names["options"])
    return names


def _name_own_column(error: AnswerkeyError, names: Mapping[str | None, str]) -> AnswerkeyError:
    """Return an error of a row with the name that the file has for the column at fault."""
    if error.where is None or error.where.field not in names:
        return error
    message = error.message
    hint = error.hint
    if error.where.field == "choices":  # which are made of the options, unless there are none
        message = f"sample `{error.where.sample}`: the question has no options"
        hint = "list them"
    where = replace(error.where, field=names[error.where.field])
    return DataError(error.code, message, where=where, hint=hint)


def check_chunk(job: Job, chunk: Chunk) -> RowProblems:
    """Return the problems of the rows of a chunk."""
    return check_samples(job, chunk, chunk.samples.load())


def check_samples(job: Job, chunk: Chunk, samples: Samples) -> RowProblems:
    """Return the problems of rows of a chunk; rows that crash a worker are not checked.

    Prompts do not matter where completions are recorded. A problem of the whole, such as a missing
    column, is placed where the task asks for it.
    """
    problems = RowProblems(len(samples))
    left: Sequence[int] = range(len(samples))
    if chunk.skipped and chunk.reason != STOPPED_EARLY:
        left = chunk.left
    _check_rows(
        job,
        chunk,
        samples.take(left),
        problems,
    )
    problems.failed = array("q", [left[position] for position in problems.failed])
    return problems


def _check_rows(
    job: Job,
    chunk: Chunk,
    samples: Samples,
    problems: RowProblems,
) -> None:
    """Add the problems that the scorers and the solver have with samples."""
    task = job.task
    try:
        for step in task.scoring:
            row_problems, notices = step.scorer.check_rows(samples)
            problems.notices.extend(notices)
            for problem in row_problems:
                error = _place_scorer_error(job, step, problem)
                problems.add_row(f"scorer `{step.key}`", problem.position, error)
        if task.choice_order is not None:
            from answerkey.evaluate.choice_order import find_order_problems

            for problem in find_order_problems(task, samples):
                problems.add_row("`choice_order`", problem.position, problem.error)
        if chunk.recorded is None and task.solver is not None:
            _check_prompts(
                job,
                task.solver,
                samples,
                problems,
            )
    except TemplateStopped as stopped:
        problems.fatal.append(stopped.at(task.places.of_template(stopped.source)))


def _place_scorer_error(
    job: Job,
    step: ScoringStep,
    problem: RowProblem,
) -> AnswerkeyError:
    """Return the error of a row; it names its scorer if there are several."""
    error = problem.error
    message = error.message
    where = error.where
    if error.code == "E206" and problem.field is not None:
        message = f"{message} of dataset `{job.dataset.name}`"
        where = job.task.place(
            "definition",
            "scorers",
            step.index,
            problem.field,
        )
    elif error.code != "E206" and len(job.task.scoring) > 1:
        message = f"{message} (scorer `{step.key}`)"
    return DataError(error.code, message, where=where, hint=error.hint)


def _check_prompts(
    job: Job,
    solver: Solver,
    samples: Samples,
    problems: RowProblems,
) -> None:
    """Add the problems of the prompts of rows, and the images in them."""
    task = job.task
    prompts, errors = solver.check_prompts(samples, job.examples)
    for prompt in prompts:
        if not isinstance(prompt, RowError):
            problems.add_images(prompt)
    failed = set(problems.failed)
    for position, error in errors:
        if position in failed:  # its prompt fails for the same reason
            continue
        message = error.message
        where = error.where
        if error.code == "E207":
            message = f"{message} (prompt of task `{task.key}`)"
        elif error.code == "E206":
            where = task.place("definition", "solver", *find_column_field(solver, error))
        elif where is None and error.code == "E302":
            where = task.place(
                "definition",
                "solver",
                "examples",
                "num_examples",
            )
        placed = DataError(error.code, message, where=where, hint=error.hint)
        problems.add_row("solver", position, placed)


def check_whole(problems: RowProblems, job: Job) -> None:
    """Add the problems of the job as a whole: the model, and templates of completions."""
    try:
        if job.model is not None and sees_samples(job.model):
            samples = job.dataset.rows.slice(0, CHUNK_ROWS).load()
            require_known(job.model, samples, job.task.sample_facts(samples))
        connection = getattr(job.model, "connection", None)
        if connection is not None:
            connection.require_images(problems.images)
    except SpecError as error:
        problems.fatal.append(error)
    problems.fatal.extend(find_unreadable(job))


# Templates that see a completion are tried on a made-up one, to find fields that cannot exist.


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
    rows = job.dataset.rows.slice(0, MAX_TRIED_ROWS)
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
            match = re.search(_LINE, problem.message)
            where = task.places.of_line(path, int(match["line"]) if match else None)
            message = f"`{path[-1]}`: {re.sub(_LINE, '', problem.message)}"
            errors.append(SpecError("E112", message, where=where, hint=problem.hint))
    return errors


def _try_field(step: ScoringStep, name: str) -> Attempt:
    return lambda samples, completions, _: step.scorer.try_field(
        name, samples.row(0), completions.items[0]
    )


def _try_rows(
    attempt: Attempt,
    task: Task,
    samples: Samples,
) -> RowError | None:
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
    for _ in range(MAX_MISSING_NAMES):
        completion = _make_completion(missing, is_in_parts=is_in_parts)
        completions = Completions.build(sample.ids, [completion], source="made up")
        problem = attempt(sample, completions, _make_scores(task, missing))
        if problem is None or not problem.is_undefined:
            return None
        match = re.search(_NAME, problem.message)
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


def _make_completion(names: Iterable[str], *, is_in_parts: bool) -> Completion:
    """Return a made-up completion whose message has fields with these names."""
    fields = dict.fromkeys(names, "A")
    content: object = "A"
    if is_in_parts:
        content = [
            {
                "type": "text",
                "text": "A",
                **fields,
            }
        ]
    reply = {
        **fields,
        "role": "assistant",
        "content": content,
    }
    completion = Completion(
        "A",
        prompt=_PROMPT,
        reply=reply,
        finish_reason="stop",
    )
    return completion.with_fields(prompt_tokens=1, completion_tokens=1)


def _make_scores(task: Task, missing: Iterable[str]) -> dict[str, Scores]:
    scores = {}
    for step in task.scoring:
        names = [*(step.scorer.value_types or ()), *(step.scorer.metadata_types or ()), *missing]
        score = Score(ScoreStatus.SCORED, values=dict.fromkeys(names, 1.0))
        scores[step.key] = build_table([score], dict.fromkeys(names, pl.Float64()), {})
    return scores


# From the samples of a chunk to its scores.


@dataclass(frozen=True)
class ChunkResult:
    """The result of a chunk.

    `problems` is what is wrong with its rows, `failure` why they could not be scored. `scores` and
    `completions` are its rows of the run's tables; there are no `completions` where the run keeps
    none, or has them already. `facts` is what metrics and counts need to know about the rows,
    `readings` how other extraction rules read some of them. `errors` counts verdicts that are
    missing because a call failed, `invalid` completions that the main scorer cannot read;
    `is_failing` says that all rows failed for one reason.
    """

    problems: RowProblems
    failure: AnswerkeyError | None = None
    scores: pl.DataFrame | None = None
    completions: pl.DataFrame | None = None
    facts: RowFacts = field(default_factory=lambda: RowFacts(pl.DataFrame()))
    readings: Mapping[str, Any] = field(default_factory=dict)
    encoded: Mapping[str, frozenset[str]] = field(default_factory=dict)
    errors: int = 0
    invalid: int = 0
    is_failing: bool = False


def evaluate_chunk(job: Job, chunk: Chunk) -> ChunkResult:
    """Complete and score the samples of a chunk."""
    samples = chunk.samples.load()
    if job.is_checked:
        return _score_chunk(
            job,
            chunk,
            samples,
            RowProblems(len(samples)),
        )
    problems = check_samples(job, chunk, samples)
    if problems.fatal:
        return ChunkResult(problems)
    chunk = replace(chunk, failed=tuple(sorted(set(problems.failed))))
    try:
        return _score_chunk(
            job,
            chunk,
            samples,
            problems,
        )
    except RunError:
        raise
    except AnswerkeyError as error:
        # Rows that are wrong come first: they are reported with the chunks that follow.
        return ChunkResult(problems, error)


def _score_chunk(
    job: Job,
    chunk: Chunk,
    samples: Samples,
    problems: RowProblems,
) -> ChunkResult:
    task = job.task
    size = task.num_trials
    repeated = samples.repeat(size)
    completions = _complete(job, chunk, samples)
    scores = _judge(
        task,
        chunk,
        samples,
        completions,
    )
    main = task.main_step
    main_scores = scores[main.key]
    audited = find_audited_rows(job.audited, chunk.places, size)
    columns = list(task.design_columns)
    category = find_category_column(samples.columns)
    if category is not None:
        columns.append(category)
    facts = describe_rows(
        repeated,
        completions,
        scores,
        main=main.key,
        columns=columns,
    )
    is_invalid = main_scores.text("completion_validity") == Validity.INVALID.value
    return ChunkResult(
        problems,
        scores=join_scores(completions, scores),
        completions=completions.frame if job.keep_completions else None,
        facts=facts,
        readings=count_readings(
            main.scorer,
            repeated,
            completions,
            main_scores,
            audited,
        ),
        encoded={key: table.encoded for key, table in scores.items()},
        errors=sum(table.count(ScoreStatus.ERROR) for table in scores.values()),
        invalid=int(is_invalid.sum()),
        is_failing=find_same_failure(find_failures(facts, scores), len(repeated)) is not None,
    )


def _complete(job: Job, chunk: Chunk, samples: Samples) -> Completions:
    """Return a chunk's completions, one per sample and trial."""
    if chunk.recorded is None:
        completions = _solve(job, chunk, samples)
    else:
        completions = chunk.recorded.read(samples)
        if job.is_rescored:
            completions = _mark_unasked(completions, chunk.failed, job.task.num_trials)
    return completions.number(job.trials)


def _mark_unasked(
    completions: Completions,
    failed: Sequence[int],
    size: int,
) -> Completions:
    """Return an old run's completions; a row that was wrong then and is right now is an error."""
    error = "the old run did not call its model for this row"
    items = []
    for row, completion in enumerate(completions):
        if completion.source == NOT_ASKED and row // size not in failed:
            unasked = completion.with_fields(status=CompletionStatus.ERROR, error=error)
            items.append(unasked)
        else:
            items.append(completion)
    return Completions(items)


def _solve(job: Job, chunk: Chunk, samples: Samples) -> Completions:
    """Return the solver's completion for each sample and trial; wrong rows are not sent."""
    task = job.task
    if task.solver is None:
        raise InternalError("E901", f"task `{task.key}` has neither completions nor a solver")
    positions = sorted(set(chunk.left).difference(chunk.failed))
    is_whole = len(positions) == len(samples)
    sound = samples if is_whole else samples.take(positions)
    facts = None
    if not task.solver.sends_prompts or sees_samples(job.model):
        facts = task.sample_facts(sound)
    completions = task.solver.solve(
        sound,
        model=job.model,
        facts=facts,
        examples=job.examples,
        trials=job.trials,
    )
    if is_whole:
        return completions
    return completions.spread(positions, samples.ids, task.num_trials)


def _judge(
    task: Task,
    chunk: Chunk,
    samples: Samples,
    completions: Completions,
) -> dict[str, Scores]:
    """Return the scores by scorer, after the task's actions; skipped rows are FAILED."""
    size = task.num_trials
    left = chunk.left
    rows = list_rows(left, size)
    if chunk.skipped:
        samples = samples.take(left)
        completions = completions.take(rows)
    wrong_rows = set(chunk.failed)
    positions = [position for position, row in enumerate(left) if row in wrong_rows]
    failed = list_rows(positions, size)
    repeated = samples.repeat(size)
    scores = {
        step.key: score_rows(
            step.scorer,
            repeated,
            completions,
            failed,
        )
        for step in task.scoring
    }
    scores = apply_actions(
        task.actions,
        repeated,
        completions,
        scores,
        num_trials=size,
    )
    if not chunk.skipped:
        return scores
    length = len(chunk.samples) * size
    return {key: table.spread(rows, length, chunk.reason) for key, table in scores.items()}
