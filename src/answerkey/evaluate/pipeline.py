"""The one path of a task, top to bottom. Read this first.

    task file ──► Task ──► Samples ──► Completions ──► Scores ──► MetricValues ──► Run
                  spec     datasets    solvers         scorers    metrics          runs

`run_task` takes a prepared task along it, shard by shard on an engine. Each shard is read, checked,
completed, scored and written as a part of the run's tables. The metrics are computed once, from the
finished table of scores.
Where a model is called, `check_task` takes the same path as far as the step *check*, over all
shards, before the first call is paid; without a model, rows are checked as they are scored.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import dropwhile
from typing import Any

import polars as pl

from answerkey.datasets.dataset import Shard
from answerkey.engines import Engine
from answerkey.errors import (
    AnswerkeyError,
    EngineError,
    InternalError,
    RunError,
    raise_if_interrupted,
)
from answerkey.evaluate.checks import RowProblems, check_samples, check_whole
from answerkey.evaluate.prepare import Opened, Prepared, Progress
from answerkey.metrics import (
    STOPPED_EARLY,
    RowFacts,
    add_counts,
    aggregate_scores,
    compare_repetitions,
    compute_metrics,
    count_task,
    describe_rows,
    find_category_column,
    find_failures,
    find_same_failure,
    measure_agreement,
    name_values,
    shrink_scores,
)
from answerkey.models.config import sees_samples
from answerkey.runs import TaskWriter, join_parts
from answerkey.runs.writing import unify_parts
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
    Completion,
    Completions,
    CompletionStatus,
    MetricValue,
    Notice,
    Samples,
    Scores,
    ScoreStatus,
)

#: So many samples are worked on before the others, where that costs calls or time.
FIRST = 50


@dataclass(frozen=True)
class ShardResult:
    """What is kept of a shard beside its tables.

    `facts` is what the metrics and counts need to know of its rows, `readings` how other extraction
    rules read some of them. `errors` counts verdicts missing because a call failed; `is_failing`
    says that all rows failed in the same way. `problems` is what is wrong with its rows, `failure`
    why they could not be scored.
    """

    rows: int
    facts: RowFacts = field(default_factory=lambda: RowFacts(pl.DataFrame()))
    readings: Mapping[str, Any] = field(default_factory=dict)
    encoded: Mapping[str, frozenset[str]] = field(default_factory=dict)
    errors: int = 0
    is_failing: bool = False
    problems: RowProblems | None = None
    failure: AnswerkeyError | None = None


@dataclass(frozen=True)
class Outcome:
    """A task's metric values, the main scorer's counts, and which score fields are stored as JSON
    text.

    There is nothing of that when more rows are wrong than is allowed (`refused`), or a shard could
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
        """Whether rows were left out because the first ones all failed in the same way."""
        return any(STOPPED_EARLY in reasons for reasons in self.totals.get("failures", {}).values())


def run_task(
    prepared: Prepared,
    writer: TaskWriter,
    engine: Engine,
    progress: Progress,
    *,
    allowed: int = 0,
    first: int = 0,
    is_stopped: bool = False,
) -> Outcome:
    """Take a task from its samples to its metric values, and write its tables.

    `allowed` rows may be wrong. When the `first` samples all fail in the same way, the others are
    left out; all are when the run `is_stopped` already. EngineError E603 unless every row was
    worked on once, and is in the tables once.
    """
    problems, results = _run_shards(
        prepared, writer, engine, progress, first=first, is_stopped=is_stopped
    )
    if problems.fatal or len(problems.failed) > allowed:
        return Outcome(notices=problems.notices, refused=problems.errors(prepared))
    for result in results:
        if result.failure is not None:
            return Outcome(notices=problems.notices, failure=result.failure)
    expected = len(prepared.dataset)
    worked = sum(result.rows for result in results)
    stored = len(writer.scores)
    if worked != expected or stored != expected * prepared.task.num_trials:
        message = (
            f"of {expected} rows, {worked} were worked on, and the tables have {stored} verdicts"
        )
        raise EngineError(
            "E603", message, hint="is the run folder on storage that every node shares?"
        )
    outcome = _conclude(prepared, writer, results)
    outcome = replace(outcome, notices=problems.notices)
    writer.write_metrics(outcome.values, outcome.totals)
    return outcome


def _conclude(prepared: Prepared, writer: TaskWriter, results: Sequence[ShardResult]) -> Outcome:
    """Compute the metrics and counts of a task from its stored scores."""
    task = prepared.task
    encoded: dict[str, list[str]] = {}
    for step in task.scoring:
        names = set[str]()
        for result in results:
            names |= result.encoded[step.key]
        encoded[step.key] = sorted(names)
    facts = RowFacts.join([result.facts for result in results])
    unify_parts(writer.store, writer.scores.base)
    scores = read_scores(task, writer.scores, encoded)
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


def read_scores(
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
            frames[step.key].append(shrink_scores(step.metrics, frame, task.trials))
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


def check_task(
    prepared: Prepared, engine: Engine, progress: Progress, opened: Opened | None = None
) -> RowProblems:
    """Read and check every row of a task, and do no more: before a model is called, or instead of a
    run.

    Rows of which the model was asked already need no check.

    What is wrong with rows does not depend on the model: rows that were checked for another one
    (`opened`) are not read again.
    """
    known: dict[object, RowProblems] = (
        opened.share(dict) if opened and prepared.recorded is None else {}
    )
    if (key := (id(prepared.dataset), prepared.task.fingerprint, prepared.num_asked)) not in known:
        known[key], _ = _run_shards(prepared.only_checked(), None, engine, progress)
    problems = RowProblems(len(prepared.dataset))
    problems.merge(known[key], 0)
    check_whole(problems, prepared)
    return problems


def _run_shards(
    prepared: Prepared,
    writer: TaskWriter | None,
    engine: Engine,
    progress: Progress,
    *,
    first: int = 0,
    is_stopped: bool = False,
) -> tuple[RowProblems, list[ShardResult]]:
    """Work on every shard, in order; without a writer, no further than the step *check*."""
    rows = len(prepared.dataset)
    done = 0
    problems = RowProblems(rows)
    results: list[ShardResult] = []
    work = partial(run_shard, prepared.without_rows(), writer)
    stages = prepared.stages(first)
    if writer is None:
        left = list(
            dropwhile(lambda one: one.offset + len(one.samples) <= prepared.num_asked, next(stages))
        )
        stages, done = iter([left]), left[0].offset if left else rows
    for shards in stages:
        is_over = is_stopped or any(result.is_failing for result in results[:1])
        worked = (shard.leave_out(STOPPED_EARLY) for shard in shards) if is_over else shards
        for result in engine.map(work, worked, spread=prepared.spread):
            if result.problems is not None:
                problems.merge(result.problems, done)
            if writer is not None:
                writer.keep_part(len(results))
            results.append(replace(result, problems=None))
            done += result.rows
            progress("check" if writer is None else "score", done, rows)
            raise_if_interrupted()
    if writer is not None and not prepared.is_checked:
        check_whole(problems, prepared)
    return problems, results


def run_shard(prepared: Prepared, writer: TaskWriter | None, shard: Shard) -> ShardResult:
    """Take one shard from its samples to its stored scores: read, check, complete, score, write.

    Rows that are skipped are neither completed nor judged; those that ended a worker are not even
    checked.
    """
    task, size = prepared.task, prepared.task.num_trials
    asked = shard.samples.load(prepared.columns)
    problems = None
    if not prepared.is_checked:
        if not shard.skipped or shard.reason == STOPPED_EARLY:
            problems = check_samples(prepared, shard, asked)
        else:
            problems = check_samples(prepared, shard, asked.take(shard.left))
            problems.failed = array("q", [shard.left[position] for position in problems.failed])
        shard = replace(shard, failed=tuple(sorted(set(problems.failed))))
        if writer is None or problems.fatal:
            return ShardResult(len(asked), problems=problems)
    try:
        written = None if shard.skipped else _find_written(prepared, shard, asked, writer)
        if not shard.skipped:
            completions = _complete(prepared, shard, asked) if written is None else written
            scores = _judge(task, asked, completions, shard.failed)
        else:
            left, parts = shard.left, list[Completion]()
            for one in shard.cut_around():
                rows = asked.slice(one.offset - shard.offset, len(one.samples))
                parts += _complete(prepared, one, rows)
            said = Completions(parts)
            failed = [place for place, row in enumerate(left) if row in set(shard.failed)]
            judged = _judge(task, asked.take(left), said, failed)
            trials = [row * size + trial for row in left for trial in range(size)]
            scores = {
                key: one.spread(trials, len(asked) * size, shard.reason)
                for key, one in judged.items()
            }
            completions = said.spread(left, asked.ids, size).number(prepared.trials)
        samples, main = asked.repeat(size), task.main_step
        if writer is not None and not shard.is_trial:
            if prepared.keep_completions and written is None:
                writer.write_part("completions", shard.index, completions.frame)
            writer.write_part("scores", shard.index, join_scores(completions, scores))
        audited = find_audited_rows(prepared.audited, shard.places, size)
        readings = count_readings(main.scorer, samples, completions, scores[main.key], audited)
    except AnswerkeyError as error:
        if problems is None or isinstance(error, RunError):
            raise
        # First of all, rows that are wrong.
        return ShardResult(len(asked), problems=problems, failure=error)
    columns = list(task.design_columns)
    category = find_category_column(asked.columns)
    if category is not None:
        columns.append(category)
    facts = describe_rows(samples, completions, scores, main=main.key, columns=columns)
    failure = find_same_failure(find_failures(facts, scores), len(samples))
    return ShardResult(
        len(asked),
        facts=facts,
        readings=readings,
        encoded={key: table.encoded for key, table in scores.items()},
        errors=sum(table.count(ScoreStatus.ERROR) for table in scores.values()),
        is_failing=failure is not None,
        problems=problems,
    )


def _find_written(
    prepared: Prepared, shard: Shard, samples: Samples, writer: TaskWriter | None
) -> Completions | None:
    """Return the completions of a shard that the run had written before it stopped."""
    if writer is None or shard.recorded is not None:
        return None
    written = writer.read_completions(shard.index, samples.repeat(prepared.task.num_trials).ids)
    if written is not None and (watch := getattr(prepared.model, "watch", None)) is not None:
        from answerkey.models.calls import Reused

        watch(Reused(written))
    return None if written is None else written.number(prepared.trials)


def _complete(prepared: Prepared, shard: Shard, samples: Samples) -> Completions:
    """Return a shard's completions, one per sample and trial: those there are, or what the solver
    gets.

    Of an old run, rows that were wrong then and are in order now have an error.
    """
    solver, size, trials = prepared.task.solver, prepared.task.num_trials, prepared.trials
    if shard.recorded is not None:
        recorded = shard.recorded.read(samples)
        if prepared.is_rescored:
            why = "the old run did not call its model for this row"
            items = []
            for row, completion in enumerate(recorded):
                if completion.source == NOT_ASKED and row // size not in shard.failed:
                    missing = completion.with_fields(status=CompletionStatus.ERROR, error=why)
                    items.append(missing)
                else:
                    items.append(completion)
            recorded = Completions(items)
        return recorded.number(trials)
    if solver is None:
        raise InternalError(
            "E901", f"task `{prepared.task.key}` has neither completions nor a solver"
        )
    positions = sorted(set(range(len(samples))).difference(shard.failed)) if shard.failed else None
    asked = samples if positions is None else samples.take(positions)
    is_told = not solver.sends_prompts or sees_samples(prepared.model)
    known, examples = prepared.task.sample_facts(asked) if is_told else None, prepared.examples
    answers = solver.solve(
        asked, model=prepared.model, known=known, examples=examples, trials=trials
    )
    return (answers if positions is None else answers.spread(positions, samples.ids, size)).number(
        trials
    )


def _judge(
    task: Task, asked: Samples, completions: Completions, failed: Sequence[int]
) -> dict[str, Scores]:
    """Return the scores of these samples by scorer, as they are after the task's actions."""
    size, samples = task.num_trials, asked.repeat(task.num_trials)
    rows = [row * size + trial for row in failed for trial in range(size)]
    scores = {
        step.key: score_rows(step.scorer, samples, completions, rows) for step in task.scoring
    }
    return apply_actions(task.actions, samples, completions, scores, num_trials=size)


# Repeatability: a task run several times, and how far its numbers stay the same.


def compare_outcomes(task: Task, writer: TaskWriter, outcomes: Sequence[Outcome]) -> None:
    """Write what the repetitions say together: each metric's spread, and each sample's modal score.

    Scores that are numbers are compared as such, anything else as text; a scorer without a value
    has none.
    """
    tables = [writer.repetition(number).scores.read_all() for number in range(len(outcomes))]
    agreement: dict[str, pl.DataFrame] = {}
    for step in task.scoring:
        runs = []
        for table, outcome in zip(tables, outcomes, strict=True):
            scores = Scores(table[step.key].struct.unnest(), frozenset(outcome.encoded[step.key]))
            scores = scores if task.trials is None else aggregate_scores(scores, task.trials)
            name = step.scorer.main_value or next(iter(scores.value_names), None)
            found = None if name is None else scores.column(name)
            if found is None:
                break
            is_scored = scores.frame["status"] == ScoreStatus.SCORED.value
            runs.append(pl.select(pl.when(is_scored).then(found).alias("score")).to_series())
        else:
            are_numbers = all(run.dtype.is_numeric() or run.dtype == pl.Boolean for run in runs)
            runs = [run.cast(pl.Float64 if are_numbers else pl.String) for run in runs]
            agreement[step.key] = measure_agreement(runs)
    shares = {key: frame["share"].drop_nulls() for key, frame in agreement.items()}
    summary = {
        "num_runs": len(outcomes),
        "metrics": compare_repetitions([outcome.values for outcome in outcomes]),
        "agreement": {
            key: {
                "samples": len(found),
                "mean_share": None if found.is_empty() else found.mean(),
                "unanimous": int((found == 1).sum()),
            }
            for key, found in shares.items()
        },
    }
    ids = tables[0]["sample_id"].gather_every(task.num_trials)
    columns = [frame.to_struct(key) for key, frame in agreement.items()]
    writer.write_repeatability(summary, pl.DataFrame([ids, *columns]))
