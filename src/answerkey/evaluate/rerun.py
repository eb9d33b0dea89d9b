"""A run opened again: read row by row, measured by other groups, scored anew, or gone on with.

A resumed run is scored anew, from the journal or from recorded completions, so that its tables are
those of a run that never stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import polars as pl

from answerkey.datasets.dataset import Dataset, Recorded, Selection, open_dataset
from answerkey.datasets.formats import Record
from answerkey.datasets.recorded import BlankCompletions, SplitCompletions, find_own_completions
from answerkey.datasets.rows import Rows
from answerkey.datasets.sources import MemorySource, Source
from answerkey.datasets.storage import digest_file, is_stored
from answerkey.datasets.tables import SAMPLE_COLUMN, collect_rows, load_rows, load_table
from answerkey.datasets.tables import Table as LoadedTable
from answerkey.engines import open_engine
from answerkey.errors import (
    DataError,
    Place,
    RunError,
    SpecError,
    listing,
    raise_all,
    refuse_column,
    suggest,
)
from answerkey.evaluate.choice_order import order_dataset
from answerkey.evaluate.pipeline import measure_task, read_scores
from answerkey.evaluate.prepare import (
    STORED,
    Opened,
    Options,
    Prepared,
    Progress,
    RunOptions,
    find_completions,
    find_traced,
    fit_rows,
    ignore_progress,
    prepare_opened,
    read_options,
    take_policies,
)
from answerkey.evaluate.runner import (
    Started,
    TaskSource,
    check_beforehand,
    describe_run,
    describe_sources,
    describe_system,
    describe_task,
    prepare_all,
    run_new,
    trust_snippets,
)
from answerkey.metrics import KeyedMetric, describe_samples
from answerkey.models.config import Generation, ModelConfig
from answerkey.runs import (
    KeptCompletions,
    Run,
    RunPlace,
    RunWriter,
    StoredFolder,
    Table,
    TaskRun,
    begin_noted,
    choose_place,
    find_place,
    forget_journal,
    is_run,
    load_manifest,
    load_run,
    reopen_run,
)
from answerkey.spec import (
    DatasetSpec,
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
from answerkey.spec.project import GATES
from answerkey.types import Completions, MetricValue, Notice, Samples

if TYPE_CHECKING:
    from answerkey.evaluate.session import Listener

#: What belongs to an old run and cannot be chosen again when it is scored anew, or gone on with.
FIXED = (
    *("model", "dataset", "completions", "completion_column", "split_thinking"),
    *("num_samples", "subsampling", "seed"),
)
#: What may stop a run, and ends with that.
LIMITS = frozenset({"max_calls", "max_cost"})
#: Rows that are read together; they stay columns.
READ_TOGETHER = 65_536


# The samples and completions of a run, as they were, read part by part.


@dataclass(frozen=True)
class Excerpt:
    """Some rows of a run, one per sample and trial: samples, completions and scores, row for
    row.
    """

    samples: Samples
    completions: Completions
    scores: pl.DataFrame

    def slice(self, offset: int, length: int) -> Self:
        """Return the rows from `offset` on, at most `length` of them."""
        samples, completions = (
            self.samples.slice(offset, length),
            self.completions.slice(offset, length),
        )
        return type(self)(samples, completions, self.scores.slice(offset, length))


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
        """Return the rows of `length` samples from the one at `offset` on, with all their
        trials.
        """
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


def reopen(run: Run, task_key: str | None = None) -> Reopened:
    """Return a task of a run with its samples and completions.

    E505 when files are gone or have changed.
    """
    task_run = find_task(run, task_key)
    task = task_from_source(task_run.source["task"])
    dataset, entry = reopen_rows(task_run, task), task_run.manifest["completions"]
    recorded: Recorded | None = find_kept(task_run, dataset)
    if recorded is not None:
        return Reopened(task, task_run, dataset, recorded)
    if entry["source"] == "recorded":
        table = _reload_completions(entry)
        recorded = find_completions(task, dataset, table, entry["column"], calls_model=False)
    if entry["source"] == "trace":
        recorded = find_traced(task, dataset)
    recorded = (
        recorded or find_own_completions(dataset.rows, column=entry["column"]) or BlankCompletions()
    )
    if entry.get("split_thinking"):
        recorded = SplitCompletions(recorded)
    return Reopened(task, task_run, dataset, recorded)


def find_task(run: Run, key: str | None) -> TaskRun:
    """Return the task with this key, or the only one."""
    if key is None and len(run.tasks) == 1:
        return next(iter(run.tasks.values()))
    if key is None or key not in run.tasks:
        problem = (
            f"the run has {len(run.tasks)} tasks" if key is None else f"the run has no task `{key}`"
        )
        hint = suggest(key or "", run.tasks) or f"name one with `--task`: {listing(run.tasks)}"
        raise RunError("E504", problem, hint=hint)
    return run.tasks[key]


def reopen_rows(task_run: TaskRun, task: Task | None = None) -> Dataset:
    """Return the dataset of a task with a row for each row of its scores, trials aside."""
    task = task or task_from_source(task_run.source["task"])
    dataset, entry = reopen_dataset(task_run), task_run.manifest["completions"]
    table = None
    if task.choice_order is not None and entry["source"] == "recorded":
        table = _reload_completions(entry) if entry["file"] else _restore_orders(task, task_run)
    return order_dataset(task, dataset, table)


def _restore_orders(task: Task, task_run: TaskRun) -> Rows:
    """Return in which orders completions that came from memory say that samples were shown."""
    scores, told = task_run.scores.gather_every(task.num_trials), pl.col(task.main_step.key).struct
    names = {"sample_id": "base_sample_id", "option_order": "option_order"}
    columns = [told.field("metadata").struct.field(one).alias(name) for name, one in names.items()]
    try:
        orders = scores.select(columns)
    except pl.exceptions.PolarsError as error:
        raise _gone("completions", None, str(error)) from error
    if any(orders.null_count().row(0)):
        raise _gone(
            "completions", None, "in which order a sample was shown that failed is not known"
        )
    return load_rows(orders, name="completions", by_trial=True).rows


def reopen_dataset(task_run: TaskRun) -> Dataset:
    """Return the dataset of a task with the rows that were used.

    E505 when it is gone or has changed.
    """
    entry: Mapping[str, Any] = task_run.manifest["dataset"]
    selection = Selection(**task_run.manifest["selection"])
    try:
        source = find_source(task_run.source["dataset"], task_run.stored_samples, entry["key"])
        dataset = open_dataset(source, selection=selection, name=entry["key"])
    except DataError as error:
        raise _gone("dataset", entry["file"], error.message) from error
    if dataset.fingerprint != entry["fingerprint"]:
        raise _gone("dataset", entry["file"], CHANGED)
    return dataset


def find_source(stated: Mapping[str, Any], kept: Table, name: str) -> Source:
    """Return where the rows of a run come from: those that were in memory are among its own
    files.
    """
    if stated["type"] != MemorySource.type:
        return source_from(stated)
    frame = kept.read_all()
    try:
        rows = [json.loads(text) for text in frame[SAMPLE_COLUMN]]
        records = [Record(number, fields, 0) for number, fields in enumerate(rows, 1)]
        loaded = collect_rows(records, [name], is_limited=False)
        return MemorySource(LoadedTable(loaded, str(stated["digest"])))
    except (pl.exceptions.PolarsError, AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"cannot read `{kept.store.show(kept.base)}`: {error}"
        raise RunError("E503", message, hint="the run folder is damaged") from error


def find_kept(task_run: TaskRun, dataset: Dataset) -> KeptCompletions | None:
    """Return the completions that the run keeps, if it does."""
    kept = task_run.stored_completions
    return KeptCompletions(kept, len(kept) // max(len(dataset), 1)) if len(kept) else None


def _reload_completions(entry: Mapping[str, Any]) -> Rows:
    file = str(entry["file"])
    try:
        if not is_stored(file) and not Path(file).is_file():
            raise _gone("completions", file, "the file is not there any more")
        if digest_file(file) != entry["sha256"]:
            raise _gone("completions", file, CHANGED)
    except DataError as error:
        raise _gone("completions", file, error.message) from error
    return load_table(file, by_trial=True).rows


CHANGED = "its content has changed since the run"


def _gone(what: str, file: str | None, why: str) -> RunError:
    """Return E505 for something that a run refers to."""
    message = f"the run's {what} cannot be opened again: {why}"
    hint = (
        "put the file back as it was, or run again with `--copy` so that the run keeps the "
        "completions"
    )
    return RunError("E505", message, where=Place(file=file), hint=hint)


# The metrics of a finished run, measured by other groups or clusters; nothing is scored or written.


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
    changes: dict[str, Any] = {}
    changes |= {"group_by": tuple(dict.fromkeys(group_by))} if group_by else {}
    changes |= {"cluster_by": cluster_by} if cluster_by else {}
    changes |= {} if is_corrected is None else {"is_corrected": is_corrected}

    def change(one: KeyedMetric) -> KeyedMetric:
        return replace(one, design=replace(one.design, **changes))

    def regroup_task(task_run: TaskRun) -> TaskRun:
        values = remeasure(task_run, change)
        own = {name: value for name, value in task_run.metrics.items() if value.type == "python"}
        order = {name: place for place, name in enumerate(task_run.metrics)}
        found = sorted((values | own).items(), key=lambda pair: order.get(pair[0], len(order)))
        return replace(task_run, metrics=dict(found))

    return replace(run, tasks={key: regroup_task(one) for key, one in run.tasks.items()})


def remeasure(
    task_run: TaskRun,
    change: Callable[[KeyedMetric], KeyedMetric] = lambda metric: metric,
    *,
    columns: Collection[str] = (),
    keep: Callable[[Samples], pl.Series] | None = None,
) -> dict[str, MetricValue]:
    """Return the metrics of a finished task, changed as said, measured again from its stored
    scores.

    Metrics of own functions are left out: measuring them would run code. `keep` gives the positions
    of the samples that count, of some that have these `columns`.
    """
    task = task_from_source(task_run.source["task"])
    steps = [
        replace(
            step, metrics=tuple(change(one) for one in step.metrics if one.metric.type != "python")
        )
        for step in task.scoring
    ]
    task = replace(task, scoring=tuple(steps))
    dataset, offset, size = reopen_rows(task_run), 0, task.num_trials
    wanted = frozenset({*columns, *task.design_columns})
    for name in (*columns, *task.design_columns):
        require_column(name, dataset.columns, task_run)
    parts = []
    facts = []
    for part in task_run.score_parts():
        samples = dataset.rows.slice(offset, part.height // size).load(wanted)
        offset += part.height // size
        if keep is None:
            parts.append(part)
        else:
            places = keep(samples)
            samples = samples.take(places)
            rows = [place * size + trial for place in places.to_list() for trial in range(size)]
            parts.append(part[pl.Series(rows, dtype=pl.UInt32)])
        facts.append(describe_samples(samples.repeat(size), task.design_columns))
    if not parts:
        return {}
    encoded = task_run.manifest.get("encoded") or {}
    scores = read_scores(task, parts, encoded)
    values = measure_task(task, scores, pl.concat(facts))
    return {value.name: value for value in values}


def require_column(name: str, columns: Sequence[str], task_run: TaskRun) -> None:
    """Raise E206 when the dataset of a task has no such column."""
    if name not in columns:
        entry = task_run.manifest["dataset"]
        message = f"dataset `{entry['key']}` has no column `{name}`"
        raise refuse_column(message, name, columns, Place(file=entry.get("file")))


# `rescore`: new scores for the completions of an old run, as a new run.


def rescore(
    run: Run | str | RunPlace,
    task: TaskSource | None = None,
    *,
    out: str | RunPlace | None = None,
    progress: Progress | None = None,
    listener: Listener | None = None,
    **options: Unpack[RunOptions],
) -> Run:
    """Score an old run's completions again, by its own tasks or by changed ones, and return the new
    run.

    `task` is a task file, a mapping or a Task for the tasks of the run with the same key (or its
    only one), or a run file. Options as in `Options`; the samples and the completions are those of
    the old run. Scorers that ask a model ask it; `listener` hears of that. Of a run in memory, the
    new one is there as well, unless `out` says where it goes.
    """
    old = load_run(run)
    chosen = read_options("rescore", options)
    if old.status == "running" or "stopped" in old.manifest or not old.tasks:
        message = "a run that is not finished cannot be scored again"
        hint = f"finish it first: `answerkey resume {old.path}`"
        raise RunError(
            "E507", message, where=Place(file=str(old.path)) if old.path else None, hint=hint
        )
    for name in FIXED:
        if getattr(chosen, name) is not None:
            raise SpecError(
                "E119",
                f"`{name}` cannot be chosen: an old run is scored again with its own "
                "samples and completions",
                hint="leave it out, or use `answerkey run` or `answerkey score`",
            )
    if chosen.allow_failed is None:
        chosen = replace(chosen, allow_failed=old.manifest.get("options", {}).get("allow_failed"))
    place = None if out is None and old.path is None else choose_place(out, old.key)
    plan = None
    if isinstance(task, str | Path) and not is_task_file(
        task
    ):  # read as if no model were to be asked
        loaded = load_plan(task, replace(chosen, completions="those of the old run"))
        raise_all(loaded.errors)
        plan = loaded.value
        tasks, notices = _choose_tasks(
            old, {one.key: one.task for one in plan.specifications} if plan else {}, loaded.notices
        )
        file: str | None = str(Path(task).resolve())
    else:
        new, told = task, list[Notice]()
        if new is not None and not isinstance(new, Task):
            first = load_task(new, overrides=chosen)
            # Config values that nobody gives are those of the old run.
            values = {
                key: one
                for run in old.tasks.values()
                for key, one in run.manifest["config"].items()
            }
            said = {error.message for error in first.errors}
            missing = {
                key: one
                for key, one in values.items()
                if f"config value `{key}` is missing" in said
            }
            again = load_task(new, config=missing, overrides=chosen) if missing else first
            raise_all(again.errors)
            new, told = again.value, again.notices
        tasks, notices = _choose_tasks(old, {f"task {new.key}": new} if new else {}, told)
        file = old.manifest.get("file")
    if chosen.policies is None and plan is not None:
        policies: Sequence[Mapping[str, Any]] = plan.policies
        more: Sequence[Notice] = ()
        raise_all(plan.find_baseline_errors(old.key))
    else:
        stored = old.manifest.get("policies") or ()
        policies, more = take_policies(tasks, old.key, chosen, stored=stored)
    prepared = [_prepare_rescored(old, key, new, file, chosen) for key, new in tasks.items()]
    trust_snippets((one.specification for one in prepared), chosen)
    path = str(old.path.resolve()) if old.path else None
    source = {"path": path, "started_at": old.manifest.get("started_at")}
    name, notices = old.manifest["display_name"], [*notices, *more]
    about = {"rescored_from": source, "options": chosen.stored(), "file": file}
    manifest = describe_run(old.key, name, prepared, notices, policies, **about)
    for entry in manifest["tasks"]:  # the samples and the model are those of the old run
        before = old.tasks[entry["key"]].manifest
        entry |= {name: before[name] for name in ("dataset", "model")}
    engine = open_engine(chosen.engine, chosen.ray_address)
    report = progress or ignore_progress
    return run_new(prepared, place, manifest, engine, report, options=chosen, listener=listener)


def _choose_tasks(
    run: Run, new: Mapping[str, Task], notices: Sequence[Notice]
) -> tuple[dict[str, Task], list[Notice]]:
    """Return the task to score with for each task of the run, and what is to be said about them.

    Without new tasks they are the old ones. Some are left out, or would ask something else now.
    """
    old = {key: task_from_source(one.source["task"]) for key, one in run.tasks.items()}
    if not new:
        return old, []
    chosen = {
        key: found for key in old if (found := new.get(key) or new.get(f"task {old[key].key}"))
    }
    if not chosen and len(old) == len(new) == 1:
        chosen = {next(iter(old)): next(iter(new.values()))}
    if not chosen:
        names = sorted({one.key for one in new.values()})
        hint = suggest(names[0], old) or f"tasks of the run: {listing(old)}"
        raise RunError("E504", f"the run has no task {listing(names)}", hint=hint)
    gone = [key for key in old if key not in chosen]
    left = [Notice(f"task `{key}` is left out: it is not among the new tasks") for key in gone]
    definitions: dict[str, tuple[Any, Any]] = {
        key: (task.source["definition"], old[key].source["definition"])
        for key, task in chosen.items()
    }
    other = [
        Notice(
            f"task `{key}` would send other prompts now; these completions answer the old ones",
            where=chosen[key].place("definition", "solver"),
            hint="`answerkey run` calls the model anew",
        )
        for key, (now, then) in definitions.items()
        if now.get("solver") != then.get("solver")
    ]
    return chosen, [*notices, *left, *other]


def _prepare_rescored(
    run: Run, key: str, task: Task, run_file: str | None, options: Options
) -> Prepared:
    """Return a task ready to be scored: the samples and completions of the old run, the new
    task.
    """
    found = reopen(run, key)
    task_run, entry, source = found.task_run, found.task_run.manifest, found.task_run.source
    kept = [find_kept(one, found.dataset) for one in task_run.repetitions]
    repeated = tuple(one for one in kept if one is not None)
    for completions in (found.recorded, *repeated):
        if (asked := completions.num_trials) != task.num_trials:
            before = f"the old run called its model {asked} times for each sample"
            message = f"task `{task.key}` has {task.num_trials} trials; {before}"
            hint = f"set `num_trials` to {asked}, or use `answerkey run`"
            raise RunError("E507", message, where=task.place("definition", "trials"), hint=hint)
    if task.choice_order != found.task.choice_order:
        message = f"task `{task.key}` has another `choice_order` than the old run"
        hint = "leave `choice_order` as it was, or use `answerkey run`"
        raise RunError("E507", message, where=task.place("definition", "choice_order"), hint=hint)
    origin = find_source(source["dataset"], task_run.stored_samples, entry["dataset"]["key"])
    dataset = DatasetSpec(entry["dataset"]["key"], origin, entry["dataset"]["display_name"])
    specification = Specification(
        key=key,
        task=task,
        dataset=dataset,
        display_name=entry["display_name"],
        model_key=source["model_key"],
        selection=Selection(**entry["selection"]),
        num_runs=1 + len(task_run.repetitions),
        judges=load_judges(task, run_file=run_file, overrides=options),
    )
    # The new run needs the completions that the old one has, and those that only its own solver
    # finds.
    is_kept = bool(len(task_run.stored_completions)) or entry["completions"]["source"] == "trace"
    return prepare_opened(
        specification,
        found.dataset,
        recorded=found.recorded,
        repeated=repeated,
        completions=dict(entry["completions"]),
        keep_completions=options.copy or is_kept,
        is_rescored=True,
    )


# `resume`: a run that stopped, gone on with.


def resume(
    path: str | Path | StoredFolder,
    *,
    progress: Progress | None = None,
    listener: Listener | None = None,
    **options: Unpack[RunOptions],
) -> Run:
    """Go on with a run where it stopped and return it finished.

    A complete run is returned as it is. Options as in `Options`; those that the run was started
    with hold unless they are given again. A limit that stopped the run holds no more. A model that
    is a function is given again.
    """
    report = progress or ignore_progress
    found = reopen_stopped(find_place(path), options, report)
    return found if isinstance(found, Run) else found.finish(report, listener)


def reopen_stopped(
    place: RunPlace, options: Mapping[str, Any], progress: Progress, opened: Opened | None = None
) -> Run | Started:
    """Return a run that stopped, ready to go on; one that is complete as it is."""
    begin_noted(place)
    if load_manifest(place)["status"] == "complete":
        forget_journal(place)  # a disk that had failed may have kept it
        return load_run(place)
    with ExitStack() as stack:
        writer = stack.enter_context(reopen_run(place))
        if writer.manifest["status"] == "complete":  # the process that held it has just finished
            forget_journal(place)
            return load_run(place)
        manifest, given = (
            writer.manifest,
            {key: one for key, one in options.items() if one is not None},
        )
        fixed = {*FIXED, "config", *GATES}
        fixed -= {"model"} if callable(given.get("model")) else set()  # a function is in no folder
        for name in given.keys() & fixed:
            message = f"`{name}` cannot be chosen: a run goes on with what it was started with"
            hint = "leave it out, or start a new run with `answerkey run`"
            raise SpecError("E119", message, hint=hint)
        stored = manifest.get("options")
        if not isinstance(stored, Mapping):
            raise _refuse("it does not say which options it was started with")
        if unknown := stored.keys() - set(STORED):
            raise _refuse(
                f"its folder states options that it cannot decide: {listing(sorted(unknown))}"
            )
        # Who resumes a run that a limit stopped has seen that, and wants it to go on.
        ended = (
            LIMITS if (manifest.get("stopped") or {}).get("code") == "E305" else frozenset[str]()
        )
        if "engine" in given:
            ended |= {"ray_address"}  # the cluster of before belongs to the engine of before
        held = {name: value for name, value in stored.items() if name not in ended}
        held |= {"stop_on_nonsense": False} if ended >= LIMITS else {}
        chosen = read_options("resume", {**held, **given})
        engine = open_engine(chosen.engine, chosen.ray_address)
        tasks: Sequence[Prepared] = [
            replace(one, num_asked=writer.count_asked(one.key) // one.task.num_trials)
            if one.recorded is None
            else one
            for one in _prepare_again(writer, chosen, opened)
        ]
        tasks, _ = check_beforehand(tasks, chosen, engine, progress, opened)
        # A limit that is lifted stays lifted; what else is chosen holds for this time alone.
        limits = {name: value for name, value in given.items() if name in LIMITS}
        kept = read_options("resume", {**held, **limits})
        writer.restart({**describe_system(), "options": kept.stored()})
        for one in tasks:
            for number in range(one.specification.num_runs):
                writer.task(one.key).repetition(number).clear()
        stack.pop_all()
        return Started(writer, tasks, engine, chosen)


def _prepare_again(writer: RunWriter, options: Options, opened: Opened | None) -> list[Prepared]:
    """Return the tasks of a run that stopped.

    E505 or E507 when what decides the numbers is not as it was.
    """
    manifest = writer.manifest
    sources = {entry["key"]: writer.read_source(entry["key"]) for entry in manifest["tasks"]}
    if "rescored_from" in manifest:
        source = manifest["rescored_from"]
        old = load_run(str(source["path"])) if is_run(find_place(str(source["path"]))) else None
        if old is None or old.manifest.get("started_at") != source["started_at"]:
            raise RunError(
                "E507",
                f"the run cannot be resumed: `{source['path']}` is not the run any more "
                "that it scores again",
                hint="start again with `answerkey rescore`",
            )
        tasks = [
            _prepare_rescored(
                old, key, task_from_source(one["task"]), manifest.get("file"), options
            )
            for key, one in sources.items()
        ]
        trust_snippets((one.specification for one in tasks), options)
    else:
        specifications = [
            _specify(entry, sources[entry["key"]], writer, options) for entry in manifest["tasks"]
        ]
        trust_snippets(specifications, options)
        try:
            tasks = prepare_all(specifications, options, opened)
        except DataError as error:
            raise _gone(
                "dataset", error.where.file if error.where else None, error.message
            ) from error
    for entry, one in zip(manifest["tasks"], tasks, strict=True):
        found, source = describe_task(one), sources[entry["key"]]
        if "rescored_from" not in manifest:
            shown = describe_sources(one)["examples_fingerprint"]
            if found["dataset"]["fingerprint"] != entry["dataset"]["fingerprint"]:
                raise _gone("dataset", entry["dataset"]["file"], CHANGED)
            for image, digest in source["image_files"].items():
                if not Path(image).is_file() or digest_file(image) != digest:
                    raise _gone("image", image, CHANGED)
            if found["completions"]["sha256"] != entry["completions"]["sha256"]:
                raise _gone("completions", entry["completions"]["file"], CHANGED)
            if shown != source["examples_fingerprint"]:
                raise _gone("examples", (source["examples"] or {}).get("file_path"), CHANGED)
            if found["model"] != entry["model"]:
                raise _refuse(f"its model `{entry['model']['name']}` is not the same any more")
        for before, now in zip(entry["scorers"], found["scorers"], strict=True):
            if now.get("model") != before.get("model"):
                raise _refuse(f"the model of its scorer `{before['key']}` is not the same any more")
    return tasks


def _specify(
    entry: Mapping[str, Any], source: Mapping[str, Any], writer: RunWriter, options: Options
) -> Specification:
    """Return what a task of a run was to do, from its entry in `run.json` and its `task.json`."""
    dataset, examples, completions = entry["dataset"], source["examples"], entry["completions"]
    task, model, file = task_from_source(source["task"]), None, writer.manifest.get("file")
    is_recorded = completions["source"] == "recorded" and completions["file"]
    if entry[
        "model"
    ]:  # as it was named; what is secret, and what its file defines, is looked up again
        reference, stated = source["model_key"], dict(source["generation"] or {})
        if "stop" in stated:
            stated["stop"] = tuple(stated["stop"])
        model = options.model
        if bool(entry["model"].get("is_function")) != isinstance(model, ModelConfig):
            what = f"its model is `{reference}`, and a function is given"
            if not isinstance(model, ModelConfig):
                what = f"its model is the Python function `{reference}`, which is in no folder"
            raise _refuse(
                what, "in Python, give the same function again: `ak.resume(run, model=FUNCTION)`"
            )
        if not isinstance(model, ModelConfig):
            generation = Generation(**stated)
            model = load_model(reference, file or "", generation=generation, overrides=options)
    kept = Table(writer.store, f"tasks/{entry['key']}/samples")
    origin = find_source(source["dataset"], kept, dataset["key"])
    return Specification(
        key=entry["key"],
        task=task,
        dataset=DatasetSpec(dataset["key"], origin, dataset["display_name"]),
        display_name=entry["display_name"],
        model=model,
        model_key=source["model_key"],
        model_name=completions.get("model"),
        selection=Selection(**entry["selection"]),
        examples=DatasetSpec("examples", source_from(examples)) if examples else None,
        num_runs=source["num_runs"],
        judges=load_judges(task, run_file=file, overrides=options),
        completions=str(completions["file"]) if is_recorded else None,
    )


def _refuse(why: str, hint: str | None = None) -> RunError:
    hint = hint or "start again with `answerkey run`"
    return RunError("E507", f"the run cannot be resumed: {why}", hint=hint)
