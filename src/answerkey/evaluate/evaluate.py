"""The path of every run, on one page. Read this first.

    source ──► Job ──► samples ──► completions ──► scores ──► metric values ──► Run
               job     datasets    solvers         scorers    metrics          runs

`evaluate` takes the jobs of a run along it. Where a model is called, `check_jobs` checks every row
before the first call is paid for; other rows are checked as they are scored. Each chunk of rows is
completed and scored (`chunk.py`), here or by an engine's workers, and written to the run's tables.
The metrics are computed once, from the finished table of scores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from answerkey import features
from answerkey.engines import Engine
from answerkey.errors import (
    AnswerkeyError,
    EngineError,
    InternalError,
    RunError,
    SolverError,
    distinct,
    raise_all,
    raise_if_interrupted,
)
from answerkey.evaluate.checks import RowProblems, check_whole
from answerkey.evaluate.chunk import ChunkResult, check_chunk, evaluate_chunk
from answerkey.evaluate.display import Display
from answerkey.evaluate.job import Job, Progress, Shared
from answerkey.evaluate.options import Options
from answerkey.evaluate.together import call_together
from answerkey.metrics import (
    STOPPED_EARLY,
    RowFacts,
    add_counts,
    aggregate_scores,
    compare_repetitions,
    compute_metrics,
    count_task,
    find_category_column,
    measure_agreement,
    name_values,
    shrink_scores,
)
from answerkey.runs import Run, RunWriter, TaskWriter, join_parts
from answerkey.runs.writing import unify_parts
from answerkey.spec import Task
from answerkey.types import MetricValue, Notice, Scores, ScoreStatus

if TYPE_CHECKING:
    from answerkey.evaluate.session import Session

#: So many samples are worked on before the others, where that costs calls or runs foreign code.
FIRST_SAMPLES = 50
#: The calls stop when this share of the first completions cannot be read.
UNREAD_SHARE = 0.8
#: A key that is refused, or a model that cannot be reached: other models may still be called.
UNREACHABLE = frozenset({"E304", "E306"})


def evaluate(
    jobs: Sequence[Job],
    writer: RunWriter,
    engine: Engine,
    options: Options,
    display: Display,
    *,
    num_beside: int = 0,
) -> Run:
    """Take every job of a run to its metric values, close the run, and return it.

    The run is incomplete when a call failed permanently, or when more samples could not be scored
    than `allow_failed` says. `num_beside` other runs call models at the same time.
    """
    evaluation = Evaluation(jobs, writer, engine, options, display)
    with writer:
        with evaluation.calling_models(num_beside):
            evaluation.evaluate_jobs()
            evaluation.raise_problems()
        return evaluation.close()


@dataclass
class Evaluation:
    """A run that is being evaluated, and what has come of its jobs so far.

    `entries` are what `run.json` will say about each job. `refused` says which rows are wrong,
    `failures` which jobs could not be scored.
    """

    jobs: Sequence[Job]
    writer: RunWriter
    engine: Engine
    options: Options
    display: Display
    session: Session | None = None
    entries: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    refused: list[AnswerkeyError] = field(default_factory=list)
    failures: list[AnswerkeyError] = field(default_factory=list)
    is_incomplete: bool = False
    is_stopped: bool = False

    @contextmanager
    def calling_models(self, num_beside: int) -> Iterator[None]:
        """Open the session in which models are called, if any is; it is closed at the end."""
        if not self._calls_models:
            yield
            return
        from answerkey.evaluate.session import open_session

        with open_session(
            self.jobs, self.writer, self.options, self.display, num_beside=num_beside
        ) as self.session:
            yield

    @property
    def _calls_models(self) -> bool:
        return any(job.calls_models for job in self.jobs)

    def evaluate_jobs(self) -> None:
        """Take every job to its metric values, those of different endpoints at the same time."""
        try:
            if self.session is not None and self.session.is_parallel:
                jobs = self.session.take_turns(self.jobs)
                attempts = call_together({job.key: partial(self._attempt, job) for job in jobs})
                for job in jobs:
                    self._note(job, attempts[job.key])
            else:
                for job in self.jobs:
                    if self.session is None or not self.session.has_given_up(job):
                        self._note(job, self._attempt(job))
        except KeyboardInterrupt as interrupt:
            self._save_interrupted(interrupt)
            raise

    def _attempt(self, job: Job) -> list[Outcome] | AnswerkeyError:
        """Return the outcome of each repetition of a job, or what ended it."""
        attempt: list[Outcome] | AnswerkeyError
        try:
            attempt = self._evaluate_repetitions(job)
        except RunError:
            raise  # a run folder that cannot be written cannot say so either
        except AnswerkeyError as error:
            attempt = error
        if self.session is not None and self.session.is_parallel:
            ended_by = attempt if isinstance(attempt, AnswerkeyError) else None
            self.session.displays[job.key].close(ended_by)
        return attempt

    def _note(self, job: Job, attempt: list[Outcome] | AnswerkeyError) -> None:
        """Keep what came of a job; a model that cannot be called ends the jobs that need it."""
        if not isinstance(attempt, AnswerkeyError):
            self._note_outcomes(job, attempt)
        elif self.session is not None and attempt.code in UNREACHABLE:
            self.failures.append(attempt)
            self.entries[job.key] = self._describe_calls(job)
            self.session.give_up(job.key)
        else:
            self._save_stopped(attempt)
            raise attempt

    def _evaluate_repetitions(self, job: Job) -> list[Outcome]:
        """Return the outcome of each repetition; nearly all jobs have one.

        Where calls or foreign code cost something, the first samples are tried first, and nothing
        more is done if these fail. A batch is submitted whole, since it may take a day.
        """
        limit = self.options.failed_limit(job.dataset.num_samples)
        is_costly = job.calls_models or job.runs_foreign_code
        first = 0
        if is_costly and limit < FIRST_SAMPLES and not self.options.batch:
            first = FIRST_SAMPLES
        tables = self.writer.task(job.key)
        display = self.display if self.session is None else self.session.displays[job.key]
        outcomes: list[Outcome] = []
        for number in range(job.specification.num_runs):
            repetition = job.repeat(number)
            if self.session is not None:
                repetition = self.session.bind(repetition)
            outcome = evaluate_rows(
                repetition,
                tables.repetition(number),
                self.engine,
                display.report,
                allowed=self.options.failed_limit(len(job.dataset)),
                first=first,
                is_guarded=self.session is not None and self.session.is_guarded(job),
                is_stopped=self.is_stopped or any(earlier.is_stopped for earlier in outcomes),
            )
            outcomes.append(outcome)
            if outcome.refused or outcome.failure:
                return outcomes
        if len(outcomes) > 1:
            write_repeatability(job.task, tables, outcomes)
        return outcomes

    def _note_outcomes(self, job: Job, outcomes: Sequence[Outcome]) -> None:
        first, last = outcomes[0], outcomes[-1]
        if not job.is_checked:
            self.notices += [*job.dataset.notices, *first.notices]
        if last.refused or last.failure:
            self.refused += last.refused
            if last.failure:
                self.failures.append(last.failure)
            return
        counts = {"counts": first.totals["counts"], "encoded": first.encoded}
        self.entries[job.key] = counts | self._describe_calls(job)
        self.is_stopped |= last.is_stopped
        limit = self.options.failed_limit(job.dataset.num_samples)
        for outcome in outcomes:
            if outcome.errors or outcome.totals["unscored"] > limit:
                self.is_incomplete = True
        if self.session is not None:
            self.session.close_models(job.key)

    def _describe_calls(self, job: Job) -> dict[str, Any]:
        return {} if self.session is None else self.session.describe(job.key)

    def _save_interrupted(self, interrupt: KeyboardInterrupt) -> None:
        """Write what there is at once, since a signal may not wait long; then what still comes."""
        self._write_interrupted(interrupt)
        if self.session is not None:
            self.session.stack.close()
            self._write_interrupted(interrupt)

    def _write_interrupted(self, interrupt: KeyboardInterrupt) -> None:
        try:
            self.writer.stop(self._describe_entries(), interrupt)
        except AnswerkeyError as error:  # storage that cannot be reached must not hide the signal
            self.display.warn(Notice(error.message, hint=error.hint))

    def _save_stopped(self, error: AnswerkeyError) -> None:
        """Keep a run that stopped, so that it can be resumed; discard one without any calls."""
        if self._is_kept or isinstance(error, EngineError | InternalError):
            self.writer.stop(self._describe_entries(), error)
        else:
            self.writer.discard()

    def _describe_entries(self) -> dict[str, Mapping[str, Any]]:
        """Return the entries of finished jobs, and what the others have sent so far."""
        return {job.key: self._describe_calls(job) for job in self.jobs} | self.entries

    @property
    def _is_kept(self) -> bool:
        """Whether a run that stops is kept.

        Wrong rows leave nothing of a run that calls no model: it can be started again once they
        are fixed.
        """
        return self.writer.is_resumed or self._calls_models

    def raise_problems(self) -> None:
        """Raise what is wrong with rows, or else why jobs could not be scored."""
        errors = self.refused or self.failures
        if not errors:
            return
        self._save_stopped(errors[0])
        raise_all(distinct(errors))

    def close(self) -> Run:
        """Write the notices, decide the gates, and return the finished run."""
        self.writer.add_notices(self.notices)
        status = "incomplete" if self.is_incomplete else "complete"
        conclude = _decide_gates if self.writer.manifest.get("policies") else None
        return self.writer.finish(status, self.entries, conclude)


def _decide_gates(run: Run) -> dict[str, Any]:
    return {"gates": features.load_gates().decide_gates(run, run.manifest["policies"])}


# One job: its rows in chunks, then its metrics.


@dataclass(frozen=True)
class Outcome:
    """A job's metric values, the main scorer's counts, and which score fields are JSON text.

    There is nothing of that when more rows are wrong than is allowed (`refused`), or a chunk could
    not be scored (`failure`).
    """

    values: Sequence[MetricValue] = ()
    totals: Mapping[str, Any] = field(default_factory=dict)
    encoded: Mapping[str, Sequence[str]] = field(default_factory=dict)
    errors: int = 0
    notices: Sequence[Notice] = ()
    refused: Sequence[AnswerkeyError] = ()
    failure: AnswerkeyError | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether rows were left out because the first ones all failed for the same reason."""
        return any(STOPPED_EARLY in reasons for reasons in self.totals.get("failures", {}).values())


def evaluate_rows(  # noqa: PLR0913 - each says another thing about the rows
    job: Job,
    tables: TaskWriter,
    engine: Engine,
    progress: Progress,
    *,
    allowed: int = 0,
    first: int = 0,
    is_guarded: bool = False,
    is_stopped: bool = False,
) -> Outcome:
    """Complete and score a job's rows chunk by chunk, write them, and compute its metrics.

    `allowed` rows may be wrong. When the `first` samples all fail for the same reason, the others
    are left out; all are when the run `is_stopped` already. When it `is_guarded`, SolverError E305
    is raised where most of the first completions cannot be read.
    """
    problems = RowProblems(len(job.dataset))
    results: list[ChunkResult] = []
    done = 0
    work = partial(evaluate_chunk, job.without_rows())
    for chunks in job.stages(first):
        if is_stopped or (results and results[0].is_failing):
            chunks = (chunk.leave_out(STOPPED_EARLY) for chunk in chunks)  # noqa: PLW2901
        for result in engine.map(work, chunks, spread=job.spread):
            tables.write_chunk(len(results), result.scores, result.completions)
            if result.problems is not None:
                problems.merge(result.problems, done)
            results.append(replace(result, scores=None, completions=None, problems=None))
            done += result.rows
            progress("score", done, len(job.dataset))
            raise_if_interrupted()
            if is_guarded and len(results) == 1 and done == first:
                _require_readable(result, first * job.task.num_trials)
    if not job.is_checked:
        check_whole(problems, job)
    if problems.fatal or len(problems.failed) > allowed:
        return Outcome(notices=problems.notices, refused=problems.errors(job))
    for result in results:
        if result.failure is not None:
            return Outcome(notices=problems.notices, failure=result.failure)
    outcome = replace(_conclude(job, tables, results), notices=problems.notices)
    tables.write_metrics(outcome.values, outcome.totals)
    return outcome


def _require_readable(result: ChunkResult, count: int) -> None:
    """Raise SolverError E305 when most of the first completions are INVALID."""
    if result.invalid >= UNREAD_SHARE * count:
        message = f"stopped: {result.invalid} of the first {count} completions are INVALID"
        hint = (
            "`--dry-run` shows the prompt: does it ask for the letter alone, and is `max_tokens` "
            "large enough? `--no-stop-on-nonsense` starts a run that goes on"
        )
        raise SolverError("E305", message, hint=hint)


def _conclude(job: Job, tables: TaskWriter, results: Sequence[ChunkResult]) -> Outcome:
    """Compute the metrics and counts of a job from its stored scores."""
    task = job.task
    encoded: dict[str, list[str]] = {}
    for step in task.scoring:
        names = set[str]()
        for result in results:
            names |= result.encoded[step.key]
        encoded[step.key] = sorted(names)
    facts = RowFacts.join([result.facts for result in results])
    unify_parts(tables.store, tables.scores.base)
    scores = load_scores(task, tables.scores, encoded)
    main_scores = scores[task.main_step.key]
    expected = len(job.dataset) * task.num_trials
    if len(main_scores) != expected:
        message = f"the score table of `{job.key}` has {len(main_scores):,} of {expected:,} rows"
        raise EngineError("E603", message, hint="run it again; if it happens again, report it")
    labels = [name.removeprefix("label:") for name in facts.table.columns]
    totals = count_task(
        facts,
        scores,
        main=task.main_step.key,
        num_trials=task.num_trials,
        category=find_category_column(labels),
    )
    totals["readings"] = add_counts(result.readings for result in results)
    return Outcome(
        values=measure_task(task, scores, facts.table),
        totals=totals,
        encoded=encoded,
        errors=sum(result.errors for result in results),
    )


def load_scores(
    task: Task,
    parts: Iterable[pl.DataFrame],
    encoded: Mapping[str, Collection[str]],
) -> dict[str, Scores]:
    """Return the scores of each scorer from the parts of a stored table.

    Metadata that nobody counts is left null, so that long texts of judges are not all in memory.
    """
    frames: dict[str, list[pl.DataFrame]] = {step.key: [] for step in task.scoring}
    for part in parts:
        for step in task.scoring:
            frame = part[step.key].struct.unnest()
            frames[step.key].append(shrink_scores(step.metrics, frame))
    scores = {}
    for key, chunks in frames.items():
        scores[key] = Scores(join_parts(chunks), frozenset(encoded.get(key, ())))
    return scores


def measure_task(
    task: Task, scores: Mapping[str, Scores], facts: pl.DataFrame
) -> list[MetricValue]:
    """Return every metric value of a task under its final name."""
    groups = []
    for step in task.scoring:
        computed = compute_metrics(step.metrics, scores[step.key], facts, task.trials)
        for metric, values in zip(step.metrics, computed, strict=True):
            groups.append((step.key, metric.key, step.purpose, metric.metric.type, values))
    return name_values(groups)


# The check of all rows before the first call is paid for, and for `check`.


def check_jobs(
    jobs: Sequence[Job],
    options: Options,
    engine: Engine,
    progress: Progress,
    shared: Shared | None = None,
) -> tuple[list[Job], list[Notice]]:
    """Return the jobs with all of their rows checked, and notices for the user.

    Raise when more rows are wrong than `allow_failed` says.
    """
    checked: list[Job] = []
    errors: list[AnswerkeyError] = []
    notices: list[Notice] = []
    for job in jobs:
        problems = check_rows(job, engine, progress, shared)
        notices += [*job.dataset.notices, *problems.notices]
        if problems.fatal or len(problems.failed) > options.failed_limit(len(job.dataset)):
            errors += problems.errors(job)
        job = replace(  # noqa: PLW2901 - the same job, checked
            job, failed=problems.failed, image_files=problems.image_files, is_checked=True
        )
        checked.append(job)
    raise_all(errors)
    return checked, list(dict.fromkeys(notices))


def check_rows(
    job: Job, engine: Engine, progress: Progress, shared: Shared | None = None
) -> RowProblems:
    """Return what is wrong with the rows of a job, and with the job as a whole.

    What is wrong with rows does not depend on the model: rows that were checked for another one
    (`shared`) are not read again.
    """
    checked: dict[object, RowProblems] = {}
    if shared is not None and job.recorded is None:
        checked = shared.get(dict)
    key = (id(job.dataset), job.task.fingerprint)
    if key not in checked:
        checked[key] = _check_chunks(job.only_check(), engine, progress)
    problems = RowProblems(len(job.dataset))
    problems.merge(checked[key], 0)
    check_whole(problems, job)
    return problems


def _check_chunks(job: Job, engine: Engine, progress: Progress) -> RowProblems:
    rows = len(job.dataset)
    problems = RowProblems(rows)
    done = 0
    work = partial(check_chunk, job.without_rows())
    for chunk_problems in engine.map(work, job.chunks(), spread=job.spread):
        problems.merge(chunk_problems, done)
        done += chunk_problems.rows
        progress("check", done, rows)
        raise_if_interrupted()
    return problems


# Repeatability: a task run several times, and how far its numbers stay the same.


def write_repeatability(task: Task, tables: TaskWriter, outcomes: Sequence[Outcome]) -> None:
    """Write the spread of each metric over the repetitions, and how far they agree by sample."""
    stored = [tables.repetition(number).scores.read_all() for number in range(len(outcomes))]
    agreement: dict[str, pl.DataFrame] = {}
    summaries: dict[str, dict[str, object]] = {}
    for step in task.scoring:
        columns = []
        for table, outcome in zip(stored, outcomes, strict=True):
            scores = Scores(table[step.key].struct.unnest(), frozenset(outcome.encoded[step.key]))
            columns.append(_find_main_value(task, step.scorer.main_value, scores))
        values = [column for column in columns if column is not None]
        if len(values) < len(columns):
            continue  # a scorer without a value has nothing to agree on
        agreement[step.key] = measure_agreement(_cast_alike(values))
        shares = agreement[step.key]["share"].drop_nulls()
        summaries[step.key] = {
            "samples": len(shares),
            "mean_share": None if shares.is_empty() else shares.mean(),
            "unanimous": int((shares == 1).sum()),
        }
    summary = {
        "num_runs": len(outcomes),
        "metrics": compare_repetitions([outcome.values for outcome in outcomes]),
        "agreement": summaries,
    }
    ids = stored[0]["sample_id"].gather_every(task.num_trials)
    structs = [frame.to_struct(key) for key, frame in agreement.items()]
    tables.write_repeatability(summary, pl.DataFrame([ids, *structs]))


def _find_main_value(task: Task, name: str | None, scores: Scores) -> pl.Series | None:
    """Return the main value of each sample, null where it is not SCORED; None without one."""
    if task.trials is not None:
        scores = aggregate_scores(scores, task.trials)
    name = name or next(iter(scores.value_names), None)
    column = None if name is None else scores.column(name)
    if column is None:
        return None
    is_scored = scores.frame["status"] == ScoreStatus.SCORED.value
    return pl.select(pl.when(is_scored).then(column).alias("score")).to_series()


def _cast_alike(columns: Sequence[pl.Series]) -> list[pl.Series]:
    """Return columns as numbers where all are numbers, and as text otherwise."""
    dtype: type[pl.DataType] = pl.Float64
    for column in columns:
        if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
            dtype = pl.String
    return [column.cast(dtype) for column in columns]
