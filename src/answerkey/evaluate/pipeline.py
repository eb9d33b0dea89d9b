"""The one way of a task, top to bottom. Read this first.

    task file ──► Task ──► Samples ──► Completions ──► Scores ──► MetricValues ──► Run
                  spec     datasets    solvers         scorers    metrics          runs

`run_task` takes a prepared task through it: shard by shard on an engine, each shard loaded where the work is
done and written as a part, only plain numbers kept.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import polars as pl

from answerkey.datasets import Shard
from answerkey.datasets.storage import list_objects, remove_objects
from answerkey.engines import Engine
from answerkey.errors import AnswerkeyError, DataError, EngineError, InternalError
from answerkey.evaluate.checks import (
    RowFindings,
    ShardFindings,
    check_rows,
    conclude_findings,
    find_missing_design,
    look_at_shard,
)
from answerkey.evaluate.prepare import Opened, Prepared, Progress
from answerkey.metrics import (
    STOPPED_EARLY,
    aggregate_scores,
    compare_repetitions,
    count_shard,
    find_same_failure,
    finish_metric,
    measure_agreement,
    measure_metrics,
    merge_counts,
    name_values,
)
from answerkey.runs import RunPlace, StoredFolder, TaskWriter
from answerkey.runs.store import FolderStore, MemoryStore, ObjectStore
from answerkey.scorers import (
    apply_actions,
    count_readings,
    find_audited_rows,
    join_scores,
    score_rows,
)
from answerkey.spec import ScoringStep, Task
from answerkey.types import Completions, MetricValue, Samples, Scores, ScoreStatus

#: So many samples are worked on before the others, where that costs calls or time.
FIRST = 50


@dataclass(frozen=True)
class Measured:
    """What is kept of a shard, plain numbers only; `errors` counts verdicts missing because a call failed."""

    rows: int
    errors: int
    parts: Sequence[Sequence[Any]]
    tally: Mapping[str, Any]
    encoded: Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Outcome:
    """A task's metric values, the main scorer's counts, and which score fields are stored as JSON text."""

    values: Sequence[MetricValue]
    tally: Mapping[str, Any]
    encoded: Mapping[str, Sequence[str]]
    errors: int = 0

    @property
    def is_stopped(self) -> bool:
        """Whether rows were left out because the first ones all failed in the same way."""
        return any(STOPPED_EARLY in reasons for reasons in self.tally["failures"].values())


def run_task(
    prepared: Prepared,
    writer: TaskWriter,
    engine: Engine,
    progress: Progress,
    *,
    first: int = 0,
    is_stopped: bool = False,
) -> Outcome:
    """Take a task from its samples to its metric values.

    When the `first` samples all fail in the same way, the others are left out; all are when the run
    `is_stopped` already.
    """
    measured: list[Measured] = []
    function = partial(run_shard, prepared.without_rows(), writer)
    for shards in prepared.stages(first):
        is_over = is_stopped or (bool(measured) and find_same_failure(measured[0].tally) is not None)
        worked = (one.leave_out(STOPPED_EARLY) for one in shards) if is_over else shards
        for one in engine.map(function, worked, spread=prepared.spread):
            measured.append(one)
            progress("score", sum(part.rows for part in measured), len(prepared.dataset))
    require_rows(prepared, writer, measured)
    outcome = merge_shards(prepared.task, measured)
    writer.write_metrics(outcome.values, outcome.tally)
    return outcome


def run_shard(prepared: Prepared, writer: TaskWriter, shard: Shard, rows: Samples | None = None) -> Measured:
    """Take one shard from its samples to the parts of its metrics, and write its tables."""
    task, size = prepared.task, prepared.task.num_trials
    asked = shard.samples.load(prepared.columns) if rows is None else rows
    samples = asked.repeat(size)
    completions, scores = (work_around if shard.withheld else work_on)(prepared, shard, asked)
    if prepared.keep_completions and not shard.is_trial:
        writer.write_completions(shard.index, completions.frame)
    if not shard.is_trial:
        writer.write_scores(shard.index, join_scores(completions, scores))
    parts = [measure_metrics(one.metrics, scores[one.key], samples, task.trials) for one in task.scoring]
    tally = count_shard(samples, completions, scores, main=task.main_step.key, num_trials=size)
    main, spots = task.main_step, find_audited_rows(prepared.spots, shard.places, size)
    tally["readings"] = count_readings(main.scorer, samples, completions, scores[main.key], spots)
    errors = sum(one.count(ScoreStatus.ERROR) for one in scores.values())
    return Measured(len(asked), errors, parts, tally, {key: one.encoded for key, one in scores.items()})


def require_rows(prepared: Prepared, writer: TaskWriter, measured: Sequence[Measured]) -> None:
    """Raise EngineError E603 unless every row was worked on once, and is in the tables once."""
    wanted, found = len(prepared.dataset), sum(one.rows for one in measured)
    stored = writer.count_scores()
    if found != wanted or stored != wanted * prepared.task.num_trials:
        message = f"of {wanted} rows, {found} were worked on, and the tables have {stored} verdicts"
        hint = "is the run folder on storage that every node shares?"
        raise EngineError("E603", message, hint=hint)


def merge_shards(task: Task, measured: Sequence[Measured]) -> Outcome:
    """Put the parts of all shards together."""
    tally = merge_counts([one.tally for one in measured])
    keys = [step.key for step in task.scoring]
    encoded = {key: sorted(frozenset().union(*(one.encoded[key] for one in measured))) for key in keys}
    return Outcome(merge_metrics(task, measured), tally, encoded, sum(one.errors for one in measured))


def merge_metrics(task: Task, measured: Sequence[Measured]) -> list[MetricValue]:
    """Merge the parts of all shards and return every metric value under its final name."""
    groups = []
    for i, step in enumerate(task.scoring):
        for j, one in enumerate(step.metrics):
            values = finish_metric(one, [shard.parts[i][j] for shard in measured], task.trials)
            groups.append((step.key, one.key, step.purpose, one.metric.type, values))
    return name_values(groups)


Worked = tuple[Completions, dict[str, Scores]]


def work_on(prepared: Prepared, shard: Shard, asked: Samples) -> Worked:
    """Return what is said and judged of every row of a shard."""
    completions = complete(prepared, shard, asked)
    return completions, judge(prepared.task, asked, completions, shard.failed)


def work_around(prepared: Prepared, shard: Shard, asked: Samples) -> Worked:
    """Return the same with the withheld rows FAILED: nothing is asked, read or judged of them."""
    size, left = prepared.task.num_trials, shard.left
    parts = [
        complete(prepared, one, asked.slice(one.offset - shard.offset, len(one.samples)))
        for one in shard.cut_around()
    ]
    said = Completions(pl.concat([one.frame for one in parts]))
    failed = [place for place, row in enumerate(left) if row in set(shard.failed)]
    scores = judge(prepared.task, asked.take(left), said, failed)
    rows = [row * size + trial for row in left for trial in range(size)]
    whole = {key: one.spread(rows, len(asked) * size, shard.reason) for key, one in scores.items()}
    return said.spread(left, asked.ids, size).number(prepared.trials), whole


def judge(task: Task, asked: Samples, completions: Completions, failed: Sequence[int]) -> dict[str, Scores]:
    """Return the scores of these samples by scorer, as they are after the task's actions."""
    size, samples = task.num_trials, asked.repeat(task.num_trials)
    rows = [row * size + trial for row in failed for trial in range(size)]
    scores = {step.key: score_rows(step.scorer, samples, completions, rows) for step in task.scoring}
    return apply_actions(task.actions, samples, completions, scores, num_trials=size)


def complete(prepared: Prepared, shard: Shard, samples: Samples) -> Completions:
    """Return a shard's completions, one per sample and trial: those there are, or what the solver gets."""
    solver, size, trials = prepared.task.solver, prepared.task.num_trials, prepared.trials
    if shard.recorded is not None:
        return shard.recorded.read(samples).number(trials)
    if solver is None:
        raise InternalError("E901", f"task `{prepared.task.key}` has neither completions nor a solver")
    positions = sorted(set(range(len(samples))).difference(shard.failed)) if shard.failed else None
    asked = samples if positions is None else samples.take(positions)
    known, examples = prepared.task.know(asked), prepared.examples
    answers = solver.solve(asked, model=prepared.model, known=known, examples=examples, trials=trials)
    return (answers if positions is None else answers.spread(positions, samples.ids, size)).number(trials)


#: What is wrong with a shard, and what was measured: nothing, or why not, where it could not be scored.
Visited = tuple[ShardFindings, Measured | AnswerkeyError | None]


@dataclass(frozen=True)
class Staged:
    """A task that has been scored, and whose tables do not belong to a run yet."""

    writer: TaskWriter
    outcome: Outcome

    def deliver(self, writer: TaskWriter) -> Outcome:
        """Hand the tables and numbers over to a run."""
        writer.adopt(self.writer)
        writer.write_metrics(self.outcome.values, self.outcome.tally)
        return self.outcome


class Stage:
    """Where tables wait until it is known that they may enter a run: in memory; a context manager."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of what has waited."""

    def takes(self, prepared: Prepared) -> bool:
        """Return whether a task can be scored while it is checked; another process has its own memory."""
        return prepared.spread == "threads"

    def open_task(self, key: str) -> TaskWriter:
        """Return the writer of one task."""
        return TaskWriter(MemoryStore(), f"tasks/{key}")


class FolderStage(Stage):
    """A stage in a temporary folder, which is made when it is needed; a context manager.

    It is a folder of this machine, or one in `home`, where others can see it.
    """

    def __init__(self, home: Path | None = None) -> None:
        self._home = home
        self._stack = ExitStack()
        self._folder: Path | None = None

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def takes(self, prepared: Prepared) -> bool:
        """Return whether a task can be scored while it is checked."""
        # Completions that are to be kept may be too many for a temporary folder.
        return prepared.spread in ("threads", "processes") and not prepared.keep_completions

    def open_task(self, key: str) -> TaskWriter:
        """Return the writer of one task."""
        if self._folder is None:
            if self._home is not None:
                self._home.mkdir(parents=True, exist_ok=True)
            made = tempfile.TemporaryDirectory(
                prefix=".answerkey-scores-" if self._home else "answerkey-scores-",
                dir=self._home,
                ignore_cleanup_errors=True,
            )
            self._folder = Path(self._stack.enter_context(made))
        return TaskWriter(FolderStore(self._folder, is_draft=True), f"tasks/{key}").make()


class StoredStage(Stage):
    """A stage on shared storage, beside the run that is to be; what waits there is removed in the end."""

    def __init__(self, home: str) -> None:
        self._url = f"{home}/.answerkey-scores-{secrets.token_hex(6)}"
        self._is_used = False

    def __exit__(self, *_: object) -> None:
        if self._is_used:
            with suppress(DataError):
                remove_objects([one.url for one in list_objects(self._url)])

    def takes(self, prepared: Prepared) -> bool:
        """Return whether a task can be scored while it is checked."""
        return prepared.spread in ("threads", "processes") and not prepared.keep_completions

    def open_task(self, key: str) -> TaskWriter:
        """Return the writer of one task."""
        self._is_used = True
        return TaskWriter(ObjectStore(StoredFolder(self._url)), f"tasks/{key}")


def open_stage(place: RunPlace, *, is_far: bool) -> Stage:
    """Return where tables wait for a run: on this machine, or where every node of a cluster can see them."""
    if not is_far:
        return FolderStage()
    return (
        StoredStage(place.parent) if isinstance(place, StoredFolder) else FolderStage(place.absolute().parent)
    )


def visit_rows(
    prepared: Prepared, writer: TaskWriter, progress: Progress, engine: Engine
) -> tuple[RowFindings, Staged | AnswerkeyError | None]:
    """Check and score every row; return what is wrong, and the scores, or why there are none."""
    if find_missing_design(prepared.task, prepared.dataset):  # nothing could be measured
        return check_rows(prepared, progress, engine), None
    findings, measured = RowFindings(len(prepared.dataset)), list[Measured | AnswerkeyError | None]()
    done = 0
    function = partial(visit_shard, prepared.without_rows(), writer)
    for found, one in engine.map(function, prepared.shards(), spread=prepared.spread):
        measured.append(one)
        findings.take(found, done)
        done += found.rows
        progress("score", done, len(prepared.dataset))
    conclude_findings(findings, prepared)
    return findings, _conclude_visit(prepared, writer, measured)


def visit_shard(prepared: Prepared, writer: TaskWriter, shard: Shard) -> Visited:
    """Check and score one shard; a shard that lacks a column is not scored."""
    samples = shard.samples.load(prepared.columns)
    found = look_at_shard(prepared, shard, samples, is_recorded=shard.recorded is not None)
    if found.fatal:
        return found, None
    try:
        return found, run_shard(prepared, writer, replace(shard, failed=tuple(sorted(found.failed))), samples)
    except AnswerkeyError as error:
        return found, error


def _conclude_visit(
    prepared: Prepared, writer: TaskWriter, measured: Sequence[Measured | AnswerkeyError | None]
) -> Staged | AnswerkeyError | None:
    scored: list[Measured] = []
    for one in measured:
        if not isinstance(one, Measured):
            return one
        scored.append(one)
    require_rows(prepared, writer, scored)
    return Staged(writer, merge_shards(prepared.task, scored))


def run_repetitions(
    opened: Opened, writer: TaskWriter, run: Callable[..., Outcome], *, is_stopped: bool = False
) -> list[Outcome]:
    """Run a task as often as its specification says and return every outcome; most are run once.

    Nothing more is done once `run`, of a prepared task and a writer, has stopped early.
    """
    outcomes: list[Outcome] = []
    for number in range(opened.specification.num_runs):
        is_over = is_stopped or any(one.is_stopped for one in outcomes)
        prepared, to = opened.prepare_repetition(number), writer.repetition(number)
        outcomes.append(run(prepared, to, is_stopped=is_over))
    if len(outcomes) > 1:
        _conclude_repetitions(opened.prepared.task, writer, outcomes)
    return outcomes


def _conclude_repetitions(task: Task, writer: TaskWriter, outcomes: Sequence[Outcome]) -> None:
    """Write what the repetitions say together: each metric's spread, and each sample's modal score."""
    tables = [writer.repetition(number).read_scores() for number in range(len(outcomes))]
    ids = tables[0]["sample_id"].gather_every(task.num_trials)
    agreement = {
        step.key: measure_agreement(runs)
        for step in task.scoring
        if (runs := _read_runs(task, step, tables, outcomes))
    }
    summary = {
        "num_runs": len(outcomes),
        "metrics": compare_repetitions([outcome.values for outcome in outcomes]),
        "agreement": {key: _sum_up(frame) for key, frame in agreement.items()},
    }
    columns = [frame.to_struct(key) for key, frame in agreement.items()]
    writer.write_repeatability(summary, pl.DataFrame([ids, *columns]))


def _read_runs(
    task: Task, step: ScoringStep, tables: Sequence[pl.DataFrame], outcomes: Sequence[Outcome]
) -> list[pl.Series]:
    """Return the main score of each sample in each repetition; nothing for a scorer without any value."""
    runs = []
    for table, outcome in zip(tables, outcomes, strict=True):
        scores = Scores(table[step.key].struct.unnest(), frozenset(outcome.encoded[step.key]))
        scores = scores if task.trials is None else aggregate_scores(scores, task.trials)
        name = step.scorer.main_value or next(iter(scores.value_names), None)
        found = None if name is None else scores.column(name)
        if found is None:
            return []
        is_scored = scores.frame["status"] == ScoreStatus.SCORED.value
        runs.append(pl.select(pl.when(is_scored).then(found).alias("score")).to_series())
    return _make_alike(runs)


def _make_alike(runs: Sequence[pl.Series]) -> list[pl.Series]:
    """Return the runs with one type of score; numbers stay numbers, anything else becomes text."""
    if all(run.dtype.is_numeric() or run.dtype == pl.Boolean for run in runs):
        return [run.cast(pl.Float64) for run in runs]
    return [run.cast(pl.String) for run in runs]


def _sum_up(agreement: pl.DataFrame) -> dict[str, Any]:
    """Return how many samples have a modal score, its mean share, and in how many all runs agree."""
    shares = agreement["share"].drop_nulls()
    return {
        "samples": len(shares),
        "mean_share": None if shares.is_empty() else shares.mean(),
        "unanimous": int((shares == 1).sum()),
    }
