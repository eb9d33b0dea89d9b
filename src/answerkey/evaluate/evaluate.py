"""The path of every run, on one page. Read this first.

    source ──► Job ──► samples ──► completions ──► scores ──► metric values ──► Run
               job     datasets    solvers         scorers    metrics          runs

`Evaluation.run` takes the jobs of a run along it. Where a model is called, every row is checked
before the first call is paid for; other rows are checked as they are scored. Each chunk of rows is
completed and scored (`chunk.py`), here or by an engine's workers, and written to the run's tables.
The metrics are computed once, from the finished table of scores.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from answerkey import features
from answerkey.datasets.sources import MemorySource
from answerkey.engines import Engine
from answerkey.errors import (
    AnswerkeyError,
    EngineError,
    InternalError,
    RunError,
    Stop,
    distinct,
    raise_all,
    raise_if_interrupted,
)
from answerkey.evaluate.chunk import (
    ChunkResult,
    RowProblems,
    check_chunk,
    check_whole,
    evaluate_chunk,
)
from answerkey.evaluate.display import Display, Progress
from answerkey.evaluate.manifest import describe_sources, tabulate_samples
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
from answerkey.runs import NewFolder, Run, RunPlace, RunWriter, TaskWriter, join_parts, start_run
from answerkey.runs.writing import unify_parts
from answerkey.spec import Job, Options, Task
from answerkey.types import MetricValue, Notice, Scores, ScoreStatus

if TYPE_CHECKING:
    from answerkey.evaluate.session import Session

Key = TypeVar("Key")
#: What `run.json` says about a job.
Entry = Mapping[str, Any]
Result = TypeVar("Result")
#: The number of samples that are tried before the others, if this costs calls or runs user code.
FIRST_SAMPLES = 50
#: Errors after which other models may still be called: a refused key, a model out of reach.
UNREACHABLE = frozenset({"E304", "E306"})
#: The maximum number of functions that are called at the same time.
MAX_THREADS = 32
#: A thread that waits for them wakes up this often, so that Ctrl-C is handled promptly.
SIGNAL_SECONDS = 0.25


@dataclass(eq=False)
class Evaluation:
    """A run with open jobs, and their results so far.

    `manifest` is what `run.json` says first, and `writer` is there once the run has begun. `name`
    is that of its model or completion column, where several runs are made. `entries` are what
    `run.json` will say about each job. `refused` says which rows are wrong, `failures` which jobs
    could not be scored.
    """

    name: str
    jobs: Sequence[Job]
    manifest: dict[str, Any]
    engine: Engine
    options: Options
    display: Display
    writer: RunWriter = field(init=False)
    session: Session | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    refused: list[AnswerkeyError] = field(default_factory=list)
    failures: list[AnswerkeyError] = field(default_factory=list)
    is_incomplete: bool = False
    is_stopped: bool = False

    def run(self, place: RunPlace | NewFolder | None) -> Run:
        """Check, begin and evaluate the run, and return it finished."""
        self.check()
        self.begin(place)
        return self.evaluate()

    def check(self) -> None:
        """Check all rows if the run calls a model; raise all problems.

        Not one call is paid for as long as a row of any job is wrong.
        """
        if not any(job.calls_models for job in self.jobs):
            return
        from answerkey.evaluate.session import require_callable

        jobs, notices = check_jobs(
            self.jobs,
            self.options,
            self.engine,
            self.display.report,
        )
        require_callable(jobs, self.options)
        self.jobs = jobs
        self.manifest["notices"] = [*self.manifest["notices"], *map(str, notices)]

    def begin(self, place: RunPlace | NewFolder | None) -> None:
        """Create the run folder and lock it; without a place the run is kept in memory."""
        sources = {}
        samples = {}
        for job in self.jobs:
            sources[job.key] = describe_sources(job)
            if isinstance(job.dataset_spec.source, MemorySource):
                samples[job.key] = tabulate_samples(job.dataset_spec.source)
        self.writer = start_run(
            place,
            self.manifest,
            sources,
            samples,
        )

    def evaluate(self, num_other_runs: int = 0) -> Run:
        """Evaluate every job up to its metric values, close the run, and return it.

        The run is incomplete when a call failed permanently, or when more samples could not be
        scored than `allow_failed` says. `num_other_runs` call models at the same time.
        """
        with self.writer:
            with ExitStack() as stack:
                if any(job.calls_models for job in self.jobs):
                    from answerkey.evaluate.session import open_session

                    session = open_session(
                        self.jobs,
                        self.writer,
                        self.options,
                        self.display,
                        num_other_runs=num_other_runs,
                    )
                    self.session = stack.enter_context(session)
                self._evaluate_jobs()
            self.writer.add_notices(self.notices)
            status = "incomplete" if self.is_incomplete else "complete"
            conclude = _decide_gates if self.writer.manifest.get("policies") else None
            return self.writer.finish(status, self.entries, conclude)

    def _evaluate_jobs(self) -> None:
        """Evaluate every job up to its metric values, different endpoints at the same time.

        Raise what is wrong with rows, or else why jobs could not be scored.
        """
        session = self.session
        try:
            if session is not None and session.displays:
                from answerkey.evaluate.session import share_turns

                jobs = share_turns(self.jobs, {}, self.options)
                works = {job.key: partial(self._attempt, job) for job in jobs}
                results = call_together(works)
                for job in jobs:
                    self._note(job, results[job.key])
            else:
                for job in self.jobs:
                    if session is None or not session.has_given_up(job):
                        self._note(job, self._attempt(job))
        except KeyboardInterrupt as interrupt:
            self._save_interrupted(interrupt)
            raise
        errors = self.refused or self.failures
        if errors:
            self._save_stopped(errors[0])
            raise_all(distinct(errors))

    def _attempt(self, job: Job) -> list[Outcome] | AnswerkeyError:
        """Return the outcomes of a job, one for each repetition, or what ended it early."""
        result: list[Outcome] | AnswerkeyError
        ended_by = None
        try:
            result = self._evaluate_job(job)
        except RunError:
            raise  # a run folder that cannot be written cannot say so either
        except AnswerkeyError as error:
            result = ended_by = error
        if self.session is not None and self.session.displays:
            self._find_display(job).close(ended_by)
        return result

    def _find_display(self, job: Job) -> Display:
        """Return the display of a job: its own where jobs are evaluated at the same time."""
        if self.session is None:
            return self.display
        return self.session.displays.get(job.key, self.display)

    def _evaluate_job(self, job: Job) -> list[Outcome]:
        """Return the outcomes of the repetitions of a job, up to the first without values."""
        tables = self.writer.task(job.key)
        outcomes: list[Outcome] = []
        is_stopped = self.is_stopped
        for number in range(job.num_runs):
            repetition = job.repeat(number)
            if self.session is not None:
                repetition = self.session.bind(repetition)
            outcome = self.evaluate_rows(
                repetition, tables.repetition(number), is_stopped=is_stopped
            )
            outcomes.append(outcome)
            if outcome.refused or outcome.failure:
                return outcomes
            is_stopped |= outcome.is_stopped
        if len(outcomes) > 1:
            write_repeatability(job.task, tables, outcomes)
        return outcomes

    def evaluate_rows(
        self,
        job: Job,
        tables: TaskWriter,
        *,
        is_stopped: bool,
    ) -> Outcome:
        """Complete and score a job's rows chunk by chunk, write them, and compute its metrics.

        When the first samples all fail for the same reason, the others are left out; all are when
        the run `is_stopped` already. SolverError E305 is raised where most of the first completions
        cannot be read.
        """
        first = self._count_first(job)
        display = self._find_display(job)
        problems = RowProblems(job.num_rows)
        results: list[ChunkResult] = []
        work = partial(evaluate_chunk, job.without_rows())
        for stage in job.stages(first):
            chunks = stage
            is_stopped |= any(result.is_failing for result in results)
            if is_stopped:
                chunks = (chunk.leave_out(STOPPED_EARLY) for chunk in stage)
            for result in self.engine.map(work, chunks, spread=job.spread):
                tables.write_part("completions", len(results), result.completions)
                tables.write_part("scores", len(results), result.scores)
                problems.merge(result.problems)
                results.append(replace(result, scores=None, completions=None))
                display.report("score", problems.merged, problems.rows)
                raise_if_interrupted()
            if self.session is not None and problems.merged == first:
                self.session.require_readable(job, results)
        if not job.is_checked:
            check_whole(problems, job)
        outcome = Outcome(notices=problems.notices, is_stopped=is_stopped)
        if problems.exceed(self.options.failed_limit(job.num_rows)):
            return replace(outcome, refused=problems.errors(job))
        return _conclude(
            job,
            tables,
            results,
            outcome,
        )

    def _count_first(self, job: Job) -> int:
        """Return how many samples are tried before the others, if samples cost something.

        A batch is submitted whole, since it may take a day.
        """
        if self.options.batch or not job.is_costly:
            return 0
        limit = self.options.failed_limit(job.dataset.num_samples)
        return FIRST_SAMPLES if limit < FIRST_SAMPLES else 0

    def _note(self, job: Job, result: list[Outcome] | AnswerkeyError) -> None:
        """Keep the result of a job; a model that cannot be called ends the jobs that need it."""
        if isinstance(result, list):
            self._note_outcomes(job, result)
        elif self.session is not None and result.code in UNREACHABLE:
            self.failures.append(result)
            self.entries[job.key] = self.session.describe(job.key)
            self.session.give_up(job.key)
        else:
            self._save_stopped(result)
            raise result

    def _note_outcomes(self, job: Job, outcomes: Sequence[Outcome]) -> None:
        first = outcomes[0]
        last = outcomes[-1]
        if not job.is_checked:
            self.notices += [*job.dataset.notices, *first.notices]
        self.refused += last.refused
        if last.failure:
            self.failures.append(last.failure)
        if last.refused or last.failure:
            return
        entry = {"counts": first.totals["counts"], "encoded": first.encoded}
        if self.session is not None:
            entry |= self.session.describe(job.key)
            self.session.close_models(job.key)
        self.entries[job.key] = entry
        self.is_stopped |= last.is_stopped
        limit = self.options.failed_limit(job.dataset.num_samples)
        for outcome in outcomes:
            if outcome.errors or outcome.totals["unscored"] > limit:
                self.is_incomplete = True

    def _save_interrupted(self, interrupt: KeyboardInterrupt) -> None:
        """Write the results so far at once, since a signal may not wait; then the late ones."""
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
        """Keep a run that stopped, so that it can be resumed.

        Wrong rows leave nothing of a run that calls no model: it can be started again once they
        are fixed.
        """
        is_begun = self.writer.is_resumed or self.session is not None
        if is_begun or isinstance(error, EngineError | InternalError):
            self.writer.stop(self._describe_entries(), error)
        else:
            self.writer.discard()

    def _describe_entries(self) -> dict[str, Entry]:
        """Return the entries of finished jobs, and what the others have sent so far."""
        entries: dict[str, Entry] = {}
        for job in self.jobs:
            entries[job.key] = {}
            if self.session is not None:
                entries[job.key] = self.session.describe(job.key)
        return entries | self.entries


def _decide_gates(run: Run) -> dict[str, Any]:
    policies = run.manifest["policies"]
    return {"gates": features.load_gates().decide_gates(run, policies)}


def call_together(functions: Mapping[Key, Callable[[], Result]]) -> dict[Key, Result]:
    """Call functions at the same time, each in a thread of its own; return what each returns.

    Ctrl-C, and an error of one, stop the others: it is raised when all have ended.
    """
    stop = Stop()

    def follow(function: Callable[[], Result]) -> Result:
        with stop.followed():
            return function()

    pool = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="answerkey-run")
    try:
        futures = {key: pool.submit(follow, function) for key, function in functions.items()}
        while wait(futures.values(), SIGNAL_SECONDS, FIRST_EXCEPTION).not_done:
            for future in futures.values():
                if future.done():
                    future.result()
        return {key: future.result() for key, future in futures.items()}
    except BaseException as error:
        stop.message = getattr(error, "message", "interrupted")
        raise
    finally:
        pool.shutdown(cancel_futures=True)


# One job: its rows in chunks, then its metrics.


@dataclass(frozen=True)
class Outcome:
    """A job's metric values, the main scorer's counts, and which score fields are JSON text.

    There is nothing of that when more rows are wrong than is allowed (`refused`), or a chunk could
    not be scored (`failure`). `is_stopped` when rows were left out because the first ones all
    failed for the same reason.
    """

    values: Sequence[MetricValue] = ()
    totals: Mapping[str, Any] = field(default_factory=dict)
    encoded: Mapping[str, Sequence[str]] = field(default_factory=dict)
    errors: int = 0
    notices: Sequence[Notice] = ()
    refused: Sequence[AnswerkeyError] = ()
    failure: AnswerkeyError | None = None
    is_stopped: bool = False


def _conclude(
    job: Job,
    tables: TaskWriter,
    results: Sequence[ChunkResult],
    outcome: Outcome,
) -> Outcome:
    """Compute and write the metrics and counts of a job from its stored scores.

    There are none where a chunk could not be scored.
    """
    for result in results:
        if result.failure is not None:
            return replace(outcome, failure=result.failure)
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
    num_rows = len(scores[task.main_step.key])
    expected = job.num_rows * task.num_trials
    if num_rows != expected:
        message = f"the score table of `{job.key}` has {num_rows:,} of {expected:,} rows"
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
    values = measure_task(task, scores, facts.table)
    tables.write_metrics(values, totals)
    return replace(
        outcome,
        values=values,
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

    Metadata that is not counted is left null, so that long texts of judges are not all in memory.
    """
    frames: dict[str, list[pl.DataFrame]] = {step.key: [] for step in task.scoring}
    for part in parts:
        for step in task.scoring:
            frame = part[step.key].struct.unnest()
            frames[step.key].append(shrink_scores(step.metrics, frame))
    scores = {}
    for key, chunks in frames.items():
        names = frozenset(encoded.get(key, ()))
        scores[key] = Scores(join_parts(chunks), names)
    return scores


def measure_task(
    task: Task,
    scores: Mapping[str, Scores],
    facts: pl.DataFrame,
) -> list[MetricValue]:
    """Return every metric value of a task under its final name."""
    groups = []
    for step in task.scoring:
        computed = compute_metrics(
            step.metrics,
            scores[step.key],
            facts,
            task.trials,
        )
        for metric, values in zip(step.metrics, computed, strict=True):
            groups.append((step.key, metric.key, step.purpose, metric.metric.type, values))
    return name_values(groups)


# The check of all rows before the first call is paid for, and for `check`.


def check_jobs(
    jobs: Sequence[Job],
    options: Options,
    engine: Engine,
    progress: Progress,
) -> tuple[list[Job], list[Notice]]:
    """Return the jobs with all of their rows checked, and notices for the user.

    Jobs of a resumed run may have been checked before it stopped. Raise when more rows are wrong
    than `allow_failed` says.
    """
    checked: list[Job] = []
    errors: list[AnswerkeyError] = []
    notices: list[Notice] = []
    for job in jobs:
        if job.is_checked:
            checked.append(job)
            continue
        problems = check_rows(job, engine, progress)
        notices += [*job.dataset.notices, *problems.notices]
        limit = options.failed_limit(job.num_rows)
        if problems.exceed(limit):
            errors += problems.errors(job)
        checked_job = replace(
            job,
            failed=problems.failed,
            image_files=problems.image_files,
            is_checked=True,
        )
        checked.append(checked_job)
    raise_all(errors)
    return checked, list(dict.fromkeys(notices))


def check_rows(job: Job, engine: Engine, progress: Progress) -> RowProblems:
    """Return the problems of the rows of a job, and of the job as a whole."""
    check = job.only_check()
    problems = RowProblems(job.num_rows)
    work = partial(check_chunk, check.without_rows())
    for chunk_problems in engine.map(work, check.chunks(), spread=check.spread):
        problems.merge(chunk_problems)
        progress("check", problems.merged, problems.rows)
        raise_if_interrupted()
    check_whole(problems, job)
    return problems


# Repeatability: a task is run several times to see how far its numbers stay the same.


def write_repeatability(
    task: Task,
    tables: TaskWriter,
    outcomes: Sequence[Outcome],
) -> None:
    """Write the spread of each metric over the repetitions, and their agreement on each sample."""
    repetitions = map(tables.repetition, range(len(outcomes)))
    stored = [repetition.scores.read_all() for repetition in repetitions]
    agreement: dict[str, pl.DataFrame] = {}
    summaries: dict[str, dict[str, object]] = {}
    for step in task.scoring:
        values = []
        for table, outcome in zip(stored, outcomes, strict=True):
            encoded = frozenset(outcome.encoded[step.key])
            scores = Scores(table[step.key].struct.unnest(), encoded)
            column = _find_main_value(task, step.scorer.main_value, scores)
            if column is not None:
                values.append(column)
        if len(values) < len(stored):
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


def _find_main_value(
    task: Task,
    name: str | None,
    scores: Scores,
) -> pl.Series | None:
    """Return the main value of each sample, null where it is not SCORED; None without one."""
    if task.trials is not None:
        scores = aggregate_scores(scores, task.trials)
    name = name or next(iter(scores.value_names), None)
    if name is None:
        return None
    column = scores.column(name)
    if column is None:
        return None
    is_scored = scores.frame["status"] == ScoreStatus.SCORED.value
    value = pl.when(is_scored).then(column)
    return pl.select(value.alias("score")).to_series()


def _cast_alike(columns: Sequence[pl.Series]) -> list[pl.Series]:
    """Return columns as numbers where all are numbers, and as text otherwise."""
    are_numbers = all(column.dtype.is_numeric() or column.dtype == pl.Boolean for column in columns)
    dtype = pl.Float64() if are_numbers else pl.String()
    return [column.cast(dtype) for column in columns]
