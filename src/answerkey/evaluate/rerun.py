"""A run opened again: read row by row, measured by other groups, scored anew, or gone on with.

A resumed run is scored anew from the journal, so that the tables are those of a run that never stopped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import polars as pl

from answerkey.datasets import (
    BlankCompletions,
    Dataset,
    Recorded,
    Rows,
    Selection,
    digest_file,
    find_own_completions,
    is_stored,
    load_table,
    match_completions,
    open_dataset,
)
from answerkey.engines import open_engine
from answerkey.errors import DataError, Place, RunError, SpecError, listing, raise_all, suggest
from answerkey.evaluate.choice_order import name_completions, order_dataset
from answerkey.evaluate.pipeline import Measured, merge_metrics
from answerkey.evaluate.prepare import (
    STORED,
    Opened,
    Options,
    Prepared,
    Progress,
    describe_policies,
    fit_rows,
    lay_out_work,
    list_solver_columns,
    open_judges,
    read_options,
    stay_silent,
    take_policies,
)
from answerkey.evaluate.runner import (
    check_plan,
    describe_run,
    describe_sources,
    describe_system,
    describe_task,
    open_plan,
    work,
)
from answerkey.evaluate.session import Onlooker, require_askable
from answerkey.metrics import Design, KeyedMetric, PythonMetric, measure_metrics
from answerkey.models import Generation, ModelConfig
from answerkey.runs import (
    KeptCompletions,
    Run,
    RunPlace,
    RunWriter,
    StoredFolder,
    TaskRun,
    default_folder,
    find_place,
    forget_journal,
    has_only_begun,
    load_manifest,
    load_run,
    reopen_run,
    require_free,
    start_run,
)
from answerkey.sandbox import require_trust
from answerkey.solvers import Solver
from answerkey.spec import (
    DatasetSpec,
    Loaded,
    Overrides,
    Plan,
    ScoringStep,
    Specification,
    Task,
    is_task_file,
    load_judges,
    load_model,
    load_plan,
    load_task,
    source_from,
    task_from_source,
)
from answerkey.types import Completions, CompletionStatus, Notice, Samples, Scores

#: Rows that become Python values take more memory than those that stay columns.
READ_TOGETHER = 32_768


@dataclass(frozen=True)
class Excerpt:
    """Some rows of a run, one per sample and trial: samples, completions and scores, row for row."""

    samples: Samples
    completions: Completions
    scores: pl.DataFrame


@dataclass(frozen=True)
class Reopened:
    """One task of a run with its dataset and its completions; nothing of them is loaded yet."""

    task: Task
    task_run: TaskRun
    dataset: Dataset
    recorded: Recorded

    def __len__(self) -> int:
        return len(self.dataset) * self.task.num_trials

    def read(self, offset: int, length: int) -> Excerpt:
        """Return the rows of `length` samples from the one at `offset` on, with all their trials."""
        size = self.task.num_trials
        samples = self.dataset.rows.slice(offset, length).load()
        completions = self.recorded.slice(offset, len(samples)).read(samples)
        scores = self.task_run.stored_scores.read(offset * size, len(samples) * size)
        return Excerpt(samples.repeat(size), completions, scores)

    def iterate(self) -> Iterator[Excerpt]:
        """Yield all rows, some samples at a time."""
        most = min(READ_TOGETHER, fit_rows(self.dataset.rows, None, self.recorded))
        step = max(1, most // self.task.num_trials)
        for offset in range(0, len(self.dataset), step):
            yield self.read(offset, step)


@dataclass(frozen=True)
class TracedCompletions:
    """Completions that a solver finds in the dataset, without asking a model."""

    solver: Solver
    columns: frozenset[str]
    num_trials: int = 1

    def slice(self, offset: int, length: int) -> Self:  # noqa: ARG002 - the samples bring their own
        """Return the same."""
        return self

    def read(self, samples: Samples) -> Completions:
        """Return what the solver finds."""
        return self.solver.solve(samples, model=None, known=None, examples=None)


def reopen(run: Run, task_key: str | None = None) -> Reopened:
    """Return a task of a run with its samples and completions; E505 when files are gone or have changed."""
    task_run = find_task(run, task_key)
    task = task_from_source(task_run.source["task"])
    dataset = reopen_rows(task_run, task)
    return Reopened(task, task_run, dataset, _reopen_completions(task, task_run, dataset))


def find_task(run: Run, key: str | None) -> TaskRun:
    """Return the task with this key, or the only one."""
    if key is None and len(run.tasks) == 1:
        return next(iter(run.tasks.values()))
    if key is None or key not in run.tasks:
        problem = "the run has several tasks" if key is None else f"the run has no task `{key}`"
        raise RunError("E504", problem, hint=f"name one with `--task`: {listing(run.tasks)}")
    return run.tasks[key]


def reopen_rows(task_run: TaskRun, task: Task | None = None) -> Dataset:
    """Return the dataset of a task with a row for each row of its scores, trials aside."""
    task = task or task_from_source(task_run.source["task"])
    dataset, entry = reopen_dataset(task_run), task_run.manifest["completions"]
    if task.choice_order is None or entry["source"] != "recorded" or not entry["file"]:
        return order_dataset(task, dataset)
    return order_dataset(task, dataset, _reload_completions(entry))


def reopen_dataset(task_run: TaskRun) -> Dataset:
    """Return the dataset of a task with the rows that were used; E505 when it is gone or has changed."""
    entry: Mapping[str, Any] = task_run.manifest["dataset"]
    selection = Selection(**task_run.manifest["selection"])
    try:
        dataset = open_dataset(
            source_from(task_run.source["dataset"]), selection=selection, name=entry["key"]
        )
    except DataError as error:
        raise gone("dataset", entry["file"], error.message) from error
    if dataset.fingerprint != entry["fingerprint"]:
        raise gone("dataset", entry["file"], "its content has changed since the run")
    return dataset


def _reopen_completions(task: Task, task_run: TaskRun, dataset: Dataset) -> Recorded:
    entry: Mapping[str, Any] = task_run.manifest["completions"]
    if (kept := find_kept(task_run, dataset)) is not None:
        return kept
    if entry["source"] == "recorded":
        table = name_completions(task, _reload_completions(entry), dataset)
        return match_completions(table, dataset, column=entry["column"], num_trials=task.num_trials)
    if entry["source"] == "trace" and task.solver is not None:
        columns = list_solver_columns(task.solver, dataset)
        return TracedCompletions(task.solver, frozenset(dataset.columns) if columns is None else columns)
    return find_own_completions(dataset.rows, column=entry["column"]) or BlankCompletions()


def find_kept(task_run: TaskRun, dataset: Dataset) -> KeptCompletions | None:
    """Return the completions that the run keeps, if it does."""
    kept = task_run.stored_completions
    return KeptCompletions(kept, len(kept) // max(len(dataset), 1)) if len(kept) else None


def _reload_completions(entry: Mapping[str, Any]) -> Rows:
    file = str(entry["file"])
    try:
        if not is_stored(file) and not Path(file).is_file():
            raise gone("completions", file, "the file is not there any more")
        if digest_file(file) != entry["sha256"]:
            raise gone("completions", file, "its content has changed since the run")
    except DataError as error:
        raise gone("completions", file, error.message) from error
    return load_table(file, by_trial=True).rows


def gone(what: str, file: str | None, why: str) -> RunError:
    """Return E505 for something that a run refers to."""
    return RunError(
        "E505",
        f"the run's {what} cannot be opened again: {why}",
        where=Place(file=file),
        hint="put the file back as it was, or run again with `--copy` so that the run keeps the completions",
    )


def regroup(
    run: Run,
    *,
    group_by: Sequence[str] = (),
    cluster_by: str | None = None,
    is_corrected: bool | None = None,
) -> Run:
    """Return the run with its metrics by these groups and clusters, in place of those of its tasks.

    The dataset must still be there (E505). Metrics of your own functions stay as they are.
    """
    changes: dict[str, object] = {}
    changes |= {"group_by": tuple(dict.fromkeys(group_by))} if group_by else {}
    changes |= {"cluster_by": cluster_by} if cluster_by else {}
    changes |= {} if is_corrected is None else {"is_corrected": is_corrected}
    return replace(run, tasks={key: _regroup_task(one, changes) for key, one in run.tasks.items()})


def _regroup_task(task_run: TaskRun, changes: dict[str, object]) -> TaskRun:
    task = _change_designs(task_from_source(task_run.source["task"]), changes)
    samples = _read_labels(task_run, task)
    measured = [_measure(task, one) for one in _pair(task_run, samples, task.num_trials)]
    values = {value.name: value for value in merge_metrics(task, measured)}
    own = {name: value for name, value in task_run.metrics.items() if value.type == PythonMetric.type}
    order = {name: place for place, name in enumerate(task_run.metrics)}
    found = sorted((values | own).items(), key=lambda pair: order.get(pair[0], len(order)))
    return replace(task_run, metrics=dict(found))


def _change_designs(task: Task, changes: dict[str, object]) -> Task:
    """Return the task with other designs, and without metrics that run code."""

    def change(step: ScoringStep) -> ScoringStep:
        kept = [one for one in step.metrics if one.metric.type != PythonMetric.type]
        return replace(step, metrics=tuple(_change(one, changes) for one in kept))

    return replace(task, scoring=tuple(change(step) for step in task.scoring))


def _change(one: KeyedMetric, changes: dict[str, object]) -> KeyedMetric:
    design: Design = replace(one.design, **changes)  # type: ignore[arg-type]  # the fields of Design
    return replace(one, design=design)


def _read_labels(task_run: TaskRun, task: Task) -> Samples:
    """Return the samples of the run with the columns that group and cluster them."""
    dataset = reopen_rows(task_run)
    for name in task.design_columns:
        require_column(name, dataset.columns, task_run)
    return dataset.samples(task.design_columns)


def require_column(name: str, columns: Sequence[str], task_run: TaskRun) -> None:
    """Raise E206 when the dataset of a task has no such column."""
    if name not in columns:
        entry = task_run.manifest["dataset"]
        hint = suggest(name, columns) or f"columns: {listing(columns)}"
        message = f"dataset `{entry['key']}` has no column `{name}`"
        raise DataError("E206", message, where=Place(file=entry.get("file")), hint=hint)


Pair = tuple[dict[str, Scores], Samples]


def _pair(task_run: TaskRun, samples: Samples, num_trials: int) -> Iterator[Pair]:
    """Yield the scores of each part by scorer, with the samples of their rows."""
    offset = 0
    encoded = task_run.manifest.get("encoded") or {}
    for part in task_run.score_parts():
        size = part.height // num_trials
        rows = samples.slice(offset, size).repeat(num_trials)
        offset += size
        keys = [name for name in part.columns if name not in {"sample_id", "trial"}]
        yield {key: _read_scores(part[key], encoded.get(key, ())) for key in keys}, rows


def _read_scores(column: pl.Series, encoded: Sequence[str]) -> Scores:
    return Scores(column.struct.unnest(), frozenset(encoded))


def _measure(task: Task, pair: Pair) -> Measured:
    scores, samples = pair
    parts = [measure_metrics(one.metrics, scores[one.key], samples, task.trials) for one in task.scoring]
    return Measured(len(samples), 0, parts, {}, {})


TaskSource = Task | Mapping[str, object] | str | Path
NOT_ASKED = "not asked"
#: What belongs to the old run and cannot be chosen again.
NOT_RESCORED = ("model", "dataset", "completions", "completion_column", "num_samples", "subsampling", "seed")


def rescore(
    run: Run | str | RunPlace,
    task: TaskSource | None = None,
    *,
    out: str | RunPlace | None = None,
    progress: Progress | None = None,
    onlooker: Onlooker | None = None,
    **options: object,
) -> Run:
    """Score an old run's completions again, by its own tasks or by changed ones, and return the new run.

    `task` is a task file, a mapping or a Task for the tasks of the run with the same key (or its only one),
    or a run file. Options as in `Options`; the samples and the completions are those of the old run. Scorers
    that ask a model ask it, as far as the call cache does not know; `onlooker` sees that.
    """
    old = run if isinstance(run, Run) else load_run(run)
    chosen = read_options("rescore", options)
    _require_finished(old)
    _refuse_fixed(chosen)
    chosen = _allow_as_before(chosen, old)
    place = find_place(out) if out is not None else default_folder(old.key)
    require_free(place)
    report = progress or stay_silent
    tasks, notices = _choose_tasks(old, task, chosen)
    file = _find_run_file(old, task)
    policies, more = _take_policies(old, task, tasks, chosen)
    opened = [open_scored(old, key, new, run_file=file, options=chosen) for key, new in tasks.items()]
    require_trust(
        [one for each in opened for one in each.specification.snippets], trust_code=chosen.trust_code
    )
    engine = open_engine(chosen.engine, chosen.ray_address)
    opened, heard = check_plan(opened, chosen, report, engine)
    opened = [mark_unasked(one) for one in opened]
    require_askable(opened, chosen)
    manifest = _describe(old, opened, [*notices, *more, *heard], chosen) | {"file": file}
    manifest |= describe_policies(policies)
    sources = {one.prepared.key: describe_sources(one) for one in opened}
    with start_run(place, manifest, sources) as writer:
        return work(opened, writer, engine, report, options=chosen, onlooker=onlooker)


def _find_run_file(run: Run, task: TaskSource | None) -> str | None:
    """Return the file in which scorers look up their models: the run file that is given, or the old run's."""
    if isinstance(task, str | Path) and not is_task_file(task):
        return str(Path(task).resolve())
    file = run.manifest.get("file")
    return None if file is None else str(file)


def _take_policies(
    run: Run, task: TaskSource | None, tasks: Mapping[str, Task], options: Options
) -> tuple[Sequence[Any], list[Notice]]:
    """Return the policies of the new run: those given, those of a run file that is given, or the old ones."""
    if options.policies is None and isinstance(task, str | Path) and not is_task_file(task):
        plan = load_plan(task, _read_as_recorded(options)).value
        policies = plan.policies if plan else ()
        raise_all([error for one in policies for error in one.find_baseline_errors(run.key)])
        return policies, []
    return take_policies(tasks, run.key, options, stored=run.manifest.get("policies") or ())


def _read_as_recorded(options: Options) -> Overrides:
    """Return what a run file is read with when no model is to be asked."""
    return replace(options.overrides(), completions="those of the old run")


def reopen_rescored(
    manifest: Mapping[str, Any], options: Options, *, tasks: Mapping[str, Task]
) -> list[Opened]:
    """Return the tasks of a run that scores an old one again, to go on with it."""
    source = manifest["rescored_from"]
    old = load_run(str(source["path"]))
    if old.manifest.get("started_at") != source["started_at"]:
        raise RunError(
            "E507",
            f"the run cannot be resumed: `{source['path']}` is not the run any more that it scores again",
            hint="start again with `answerkey rescore`; what the judges said comes from the call cache",
        )
    file = manifest.get("file")
    return [open_scored(old, key, task, run_file=file, options=options) for key, task in tasks.items()]


def _require_finished(run: Run) -> None:
    if run.status == "running" or "stopped" in run.manifest or not run.tasks:
        raise RunError(
            "E507",
            "a run that is not finished cannot be scored again",
            where=Place(file=str(run.path)) if run.path else None,
            hint=f"finish it first: `answerkey resume {run.path}`",
        )


def _refuse_fixed(options: Options) -> None:
    for name in NOT_RESCORED:
        if getattr(options, name) is not None:
            raise SpecError(
                "E119",
                f"`{name}` cannot be chosen: an old run is scored again with its own samples and completions",
                hint="leave it out, or use `answerkey run` or `answerkey score`",
            )


def _allow_as_before(options: Options, run: Run) -> Options:
    """Return the options with the old run's allowance for FAILED rows, unless there is a new one."""
    if options.allow_failed is not None:
        return options
    return replace(options, allow_failed=run.manifest.get("options", {}).get("allow_failed"))


def _choose_tasks(
    run: Run, task: TaskSource | None, options: Options
) -> tuple[dict[str, Task], list[Notice]]:
    """Return the task to score with for each task of the run, and what is to be said about them."""
    old = {key: task_from_source(one.source["task"]) for key, one in run.tasks.items()}
    if task is None:
        return old, []
    new, notices = _load_new(run, task, options)
    chosen = {key: found for key in old if (found := new.get(key) or new.get(f"task {old[key].key}"))}
    if not chosen and len(old) == len(new) == 1:
        chosen = {next(iter(old)): next(iter(new.values()))}
    if not chosen:
        names = sorted({one.key for one in new.values()})
        hint = suggest(names[0], old) or f"tasks of the run: {listing(old)}"
        raise RunError("E504", f"the run has no task {listing(names)}", hint=hint)
    return chosen, [*notices, *_compare_tasks(old, chosen)]


def _load_new(run: Run, task: TaskSource, options: Options) -> tuple[dict[str, Task], list[Notice]]:
    """Return the new tasks, by specification key for a run file, else by `task <key>`."""
    if isinstance(task, Task):
        return {f"task {task.key}": task}, []
    if isinstance(task, Mapping) or is_task_file(task):
        loaded = _load_task(run, task, options)
        raise_all(loaded.errors)
        return ({f"task {loaded.value.key}": loaded.value} if loaded.value else {}), loaded.notices
    plan = load_plan(task, _read_as_recorded(options))
    raise_all(plan.errors)
    specifications = plan.value.specifications if plan.value else ()
    return {one.key: one.task for one in specifications}, plan.notices


def _load_task(run: Run, task: Mapping[str, object] | str | Path, options: Options) -> Loaded[Task]:
    """Return a task from its file; config values that nobody gives are those of the old run."""
    loaded = load_task(task, overrides=options.overrides())
    stored = {name: value for one in run.tasks.values() for name, value in one.manifest["config"].items()}
    missing = {
        name: value
        for name, value in stored.items()
        if any(error.message == f"config value `{name}` is missing" for error in loaded.errors)
    }
    return load_task(task, config=missing, overrides=options.overrides()) if missing else loaded


def _compare_tasks(old: Mapping[str, Task], new: Mapping[str, Task]) -> list[Notice]:
    """Return what is to be said about tasks that are left out, or that would ask something else now."""
    notices = [
        Notice(f"task `{key}` is left out: it is not among the new tasks") for key in old if key not in new
    ]
    for key, task in new.items():
        if _solver_of(task) != _solver_of(old[key]):
            notices.append(
                Notice(
                    f"task `{key}` would ask something else now; these are answers to what was asked then",
                    where=task.place("definition", "solver"),
                    hint="`answerkey run` asks anew",
                )
            )
    return notices


def _solver_of(task: Task) -> object:
    definition: Any = task.source["definition"]
    return definition.get("solver")


def open_scored(run: Run, key: str, task: Task, *, run_file: str | None, options: Options) -> Opened:
    """Return a task ready to be scored: the samples and completions of the old run, the new task."""
    found = reopen(run, key)
    judges = load_judges(task, run_file=run_file, overrides=options.overrides())
    models, errors = open_judges(task, judges)
    raise_all(errors)
    entry, source = found.task_run.manifest, found.task_run.source
    specification = Specification(
        key=key,
        task=task,
        dataset=DatasetSpec(
            entry["dataset"]["key"], source_from(source["dataset"]), entry["dataset"]["display_name"]
        ),
        display_name=entry["display_name"],
        model_key=source.get("model_key"),
        selection=Selection(**entry["selection"]),
        num_runs=1 + len(found.task_run.repetitions),
        judges=judges,
    )
    kept = [find_kept(one, found.dataset) for one in found.task_run.repetitions]
    repeated = tuple(one for one in kept if one is not None)
    for one in (found.recorded, *repeated):
        _require_trials(task, one)
    _require_orders(task, found.task)
    prepared = Prepared(
        key=key,
        task=task,
        dataset=found.dataset,
        recorded=found.recorded,
        judges=models,
        keep_completions=options.copy or _keeps_completions(found.task_run),
    )
    return Opened(specification, lay_out_work(prepared), dict(entry["completions"]), repeated)


def _require_trials(task: Task, completions: Recorded) -> None:
    """Raise E507 when the new task has another number of trials than the old run."""
    asked = completions.num_trials
    if asked != task.num_trials:
        raise RunError(
            "E507",
            f"task `{task.key}` has {task.num_trials} trials; the old run asked each sample {asked} times",
            where=task.place("definition", "trials"),
            hint=f"set `num_trials` to {asked}, or use `answerkey run`",
        )


def _require_orders(task: Task, old: Task) -> None:
    """Raise E507 when the new task shows options in other orders than the old run did."""
    if task.choice_order != old.choice_order:
        raise RunError(
            "E507",
            f"task `{task.key}` has another `choice_order` than the old run",
            where=task.place("definition", "choice_order"),
            hint="leave `choice_order` as it was, or use `answerkey run`",
        )


def _keeps_completions(task_run: TaskRun) -> bool:
    """Return whether the new run needs them: the old one has them, or only its own solver finds them."""
    return bool(len(task_run.stored_completions)) or task_run.manifest["completions"]["source"] == "trace"


def mark_unasked(opened: Opened) -> Opened:
    """Return the task with an error where a row was not asked, being at fault then, and is in order now."""
    prepared = opened.prepared
    if prepared.recorded is None:
        return opened
    wrong = tuple(prepared.failed)
    recorded, *repeated = (MarkedCompletions(one, wrong) for one in (prepared.recorded, *opened.repeated))
    return replace(opened, prepared=replace(prepared, recorded=recorded), repeated=tuple(repeated))


@dataclass(frozen=True)
class MarkedCompletions:
    """Completions of an old run, with an error for rows that were not asked then and are in order now."""

    recorded: Recorded
    wrong: tuple[int, ...]

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the dataset that are read."""
        return self.recorded.columns

    @property
    def num_trials(self) -> int:
        """How many there are for each sample."""
        return self.recorded.num_trials

    def slice(self, offset: int, length: int) -> Self:
        """Return those of `length` samples from `offset` on."""
        wrong = self.wrong[bisect_left(self.wrong, offset) : bisect_left(self.wrong, offset + length)]
        cut = self.recorded.slice(offset, length)
        return replace(self, recorded=cut, wrong=tuple(row - offset for row in wrong))

    def read(self, samples: Samples) -> Completions:
        """Return the completions of the samples."""
        found = self.recorded.read(samples)
        position = pl.int_range(pl.len()) // self.num_trials
        is_missing = (pl.col("source") == NOT_ASKED) & ~position.is_in(self.wrong)
        status = pl.when(is_missing).then(pl.lit(CompletionStatus.ERROR.value)).otherwise(pl.col("status"))
        why = pl.when(is_missing).then(pl.lit("the old run did not ask this row")).otherwise(pl.col("error"))
        return Completions(found.frame.with_columns(status=status, error=why))


def _describe(
    old: Run, opened: Sequence[Opened], notices: Sequence[Notice], options: Options
) -> dict[str, Any]:
    """Return what `run.json` says: the new tasks, on the samples and the model of the old run."""
    manifest = describe_run(old.key, old.manifest["display_name"], opened, notices)
    for entry in manifest["tasks"]:
        before = old.tasks[entry["key"]].manifest
        entry |= {name: before[name] for name in ("dataset", "model")}
    path = str(old.path.resolve()) if old.path else None
    source = {"path": path, "started_at": old.manifest.get("started_at")}
    return manifest | {"rescored_from": source, "options": options.stored()}


#: What the run was started with; the rest may be given anew.
NOT_RESUMED = frozenset(
    {"config", "model", "dataset", "completions", "completion_column", "num_samples", "subsampling", "seed"}
    | {"policies", "baseline"}
)
#: What may stop a run, and ends with that.
LIMITS = frozenset({"max_calls", "max_cost"})


def resume(
    path: str | Path | StoredFolder,
    *,
    progress: Progress | None = None,
    onlooker: Onlooker | None = None,
    **options: object,
) -> Run:
    """Go on with a run where it stopped and return it finished; a complete run is returned as it is.

    Options as in `Options`; those that the run was started with hold unless they are given again. A limit
    that stopped the run holds no more.
    """
    place = find_place(path)
    require_started(place)
    if load_manifest(place)["status"] == "complete":
        forget_journal(place)  # a disk that had failed may have kept it
        return load_run(place)
    report = progress or stay_silent
    with reopen_run(place) as writer:
        if writer.manifest["status"] == "complete":  # the process that held it has just finished
            forget_journal(place)
            return load_run(place)
        _refuse_rescored(writer.manifest)
        chosen = _take_options(writer.manifest, options)
        engine = open_engine(chosen.engine, chosen.ray_address)
        opened, _ = check_plan(_open_again(writer, chosen), chosen, report, engine)
        opened = [mark_unasked(one) for one in opened]
        require_askable(opened, chosen)
        writer.restart(describe_system())
        for one in opened:
            for number in range(one.specification.num_runs):
                writer.task(one.prepared.key).repetition(number).clear()
        return work(opened, writer, engine, report, options=chosen, onlooker=onlooker)


def require_started(folder: RunPlace) -> None:
    """Raise E507 for a run that stopped before `run.json` was written."""
    if has_only_begun(folder):
        raise RunError(
            "E507",
            f"`{folder}` stopped before its `run.json` was written: there is nothing to go on from",
            where=Place(file=str(folder)),
            hint="start again with `answerkey run`; nothing had been asked",
        )


def _refuse_rescored(manifest: Mapping[str, Any]) -> None:
    if "rescored_from" in manifest and not _has_judges(manifest):
        raise RunError(
            "E507",
            "a run that scores an old one again asks nothing, so there is nothing to go on with",
            hint=f"start again: `answerkey rescore {manifest['rescored_from']['path']}`",
        )


def _has_judges(manifest: Mapping[str, Any]) -> bool:
    return any("model" in scorer for entry in manifest["tasks"] for scorer in entry["scorers"])


def _take_options(manifest: Mapping[str, Any], given: Mapping[str, object]) -> Options:
    for name in given.keys() & NOT_RESUMED:
        if given[name] is not None:
            raise SpecError(
                "E119",
                f"`{name}` cannot be chosen: a run goes on with what it was started with",
                hint="leave it out, or start a new run with `answerkey run`",
            )
    stored = manifest.get("options")
    if not isinstance(stored, Mapping):
        raise _refuse("it does not say which options it was started with")
    unknown = stored.keys() - set(STORED)
    if unknown:
        raise _refuse(f"its folder states options that it cannot decide: {listing(sorted(unknown))}")
    given = {name: value for name, value in given.items() if value is not None}
    ended = LIMITS if _has_hit_limit(manifest) else frozenset[str]()
    if "engine" in given:
        ended |= {"ray_address"}  # the cluster of before belongs to the engine of before
    held = {name: value for name, value in stored.items() if name not in ended}
    return read_options("resume", {**held, **given})


def _has_hit_limit(manifest: Mapping[str, Any]) -> bool:
    """Return whether a limit stopped the run: who resumes it has seen that, and wants it to go on."""
    return bool((manifest.get("stopped") or {}).get("code") == "E305")


def _open_again(writer: RunWriter, options: Options) -> list[Opened]:
    entries: Sequence[Mapping[str, Any]] = writer.manifest["tasks"]
    sources = {entry["key"]: writer.read_source(entry["key"]) for entry in entries}
    if "rescored_from" in writer.manifest:
        return _open_rescored(writer.manifest, sources, options)
    specifications = [specify(entry, sources[entry["key"]], writer.manifest, options) for entry in entries]
    require_trust([one for each in specifications for one in each.snippets], trust_code=options.trust_code)
    plan = Plan(writer.manifest["key"], tuple(specifications), project=writer.store.home or Path(), file="")
    try:
        opened = open_plan(plan, options)
    except DataError as error:
        raise gone("dataset", error.where.file if error.where else None, error.message) from error
    for entry, one in zip(entries, opened, strict=True):
        _compare(entry, sources[entry["key"]], one)
    return opened


def _open_rescored(
    manifest: Mapping[str, Any], sources: Mapping[str, Mapping[str, Any]], options: Options
) -> list[Opened]:
    tasks = {key: task_from_source(source["task"]) for key, source in sources.items()}
    opened = reopen_rescored(manifest, options, tasks=tasks)
    require_trust(
        [one for each in opened for one in each.specification.snippets], trust_code=options.trust_code
    )
    for entry, one in zip(manifest["tasks"], opened, strict=True):
        compare_judges(entry, describe_task(one))
    return opened


def specify(
    entry: Mapping[str, Any], source: Mapping[str, Any], manifest: Mapping[str, Any], options: Options
) -> Specification:
    """Return what a task of a run was to do, from its entry in `run.json` and its `task.json`."""
    dataset, examples = entry["dataset"], source["examples"]
    task = task_from_source(source["task"])
    return Specification(
        key=entry["key"],
        task=task,
        dataset=DatasetSpec(dataset["key"], source_from(source["dataset"]), dataset["display_name"]),
        display_name=entry["display_name"],
        model=_find_model(source, manifest, options) if entry["model"] else None,
        model_key=source.get("model_key"),
        model_name=entry["completions"].get("model"),
        selection=Selection(**entry["selection"]),
        examples=DatasetSpec("examples", source_from(examples)) if examples else None,
        num_runs=source.get("num_runs", 1),
        judges=load_judges(task, run_file=manifest.get("file"), overrides=options.overrides()),
        completions=_find_recorded(entry),
    )


def _find_recorded(entry: Mapping[str, Any]) -> str | None:
    told = entry["completions"]
    return str(told["file"]) if told["source"] == "recorded" and told["file"] else None


def _find_model(
    source: Mapping[str, Any], manifest: Mapping[str, Any], options: Options
) -> str | ModelConfig:
    """Return the model as it was named; what is secret, and what its file defines, is looked up again."""
    reference, stated = source.get("model_key"), dict(source.get("generation") or {})
    if reference is None:
        raise _refuse("it does not say how its model was named")
    if "stop" in stated:
        stated["stop"] = tuple(stated["stop"])
    return load_model(
        reference, manifest["file"], generation=Generation(**stated), overrides=options.overrides()
    )


def _compare(entry: Mapping[str, Any], source: Mapping[str, Any], opened: Opened) -> None:
    """Raise E505 or E507 when anything that decides the numbers is not as it was."""
    found = describe_task(opened)
    changed = "its content has changed since the run"
    if found["dataset"]["fingerprint"] != entry["dataset"]["fingerprint"]:
        raise gone("dataset", entry["dataset"]["file"], changed)
    if found["completions"]["sha256"] != entry["completions"]["sha256"]:
        raise gone("completions", entry["completions"]["file"], changed)
    if describe_sources(opened)["examples_fingerprint"] != source.get("examples_fingerprint"):
        raise gone("examples", (source["examples"] or {}).get("file_path"), changed)
    if found["model"] != entry["model"]:
        raise _refuse(f"its model `{entry['model']['name']}` is not the same any more")
    compare_judges(entry, found)


def compare_judges(entry: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise E507 when a scorer would ask another model than before; both are entries in `run.json`."""
    for before, now in zip(entry["scorers"], found["scorers"], strict=True):
        if now.get("model") != before.get("model"):
            raise _refuse(f"the model of its scorer `{before['key']}` is not the same any more")


def _refuse(why: str) -> RunError:
    return RunError(
        "E507",
        f"the run cannot be resumed: {why}",
        hint="start again with `answerkey run`; what was answered already comes from the call cache",
    )
