"""New scores for the completions of an old run, as a new run.

No model is asked for completions; scorers that ask a model ask theirs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import polars as pl

from answerkey.datasets import Recorded, Selection
from answerkey.engines import open_engine
from answerkey.errors import Place, RunError, SpecError, listing, raise_all, suggest
from answerkey.pipeline import Prepared, Progress
from answerkey.runs import (
    Run,
    RunPlace,
    TaskRun,
    default_folder,
    find_place,
    load_run,
    require_free,
    start_run,
)
from answerkey.sandbox import require_trust
from answerkey.spec import (
    DatasetSpec,
    Loaded,
    Overrides,
    Policy,
    Specification,
    Task,
    is_task_file,
    load_judges,
    load_plan,
    load_task,
    source_from,
    task_from_source,
)
from answerkey.types import Completions, CompletionStatus, Notice, Samples
from answerkey.verbs.binding import require_askable
from answerkey.verbs.gating import describe_policies, list_baseline_errors, take_policies
from answerkey.verbs.judge_models import open_judges
from answerkey.verbs.observing import Onlooker
from answerkey.verbs.opening import Opened, lay_out_work
from answerkey.verbs.options import Options, read_options, stay_silent
from answerkey.verbs.reopening import find_kept, reopen
from answerkey.verbs.running import check_plan, describe_run, describe_sources, work

TaskSource = Task | Mapping[str, object] | str | Path
NOT_ASKED = "not asked"
#: What belongs to the old run and cannot be chosen again.
FIXED = ("model", "dataset", "completions", "completion_column", "num_samples", "subsampling", "seed")


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
) -> tuple[tuple[Policy, ...], list[Notice]]:
    """Return the policies of the new run: those given, those of a run file that is given, or the old ones."""
    if options.policies is None and isinstance(task, str | Path) and not is_task_file(task):
        plan = load_plan(task, _read_as_recorded(options)).value
        policies = plan.policies if plan else ()
        raise_all(list_baseline_errors(policies, run.key))
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
    for name in FIXED:
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
    return chosen, [*notices, *_compare(old, chosen)]


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


def _compare(old: Mapping[str, Task], new: Mapping[str, Task]) -> list[Notice]:
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
