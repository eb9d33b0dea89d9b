"""`rescore`, `resume`: a run scored anew, or continued where it stopped.

A resumed run is scored anew, from the store of calls or from recorded completions, so that its
tables are those of a run that never stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from answerkey.datasets.dataset import Selection
from answerkey.datasets.storage import digest_file
from answerkey.engines import open_engine
from answerkey.errors import (
    AnswerkeyError,
    DataError,
    Place,
    RunError,
    SpecError,
    listing,
    raise_all,
    suggest,
)
from answerkey.evaluate.display import Display, choose_display
from answerkey.evaluate.job import Job, Progress, Shared, open_job_of, open_jobs
from answerkey.evaluate.manifest import (
    describe_job,
    describe_run,
    describe_sources,
    describe_system,
)
from answerkey.evaluate.options import STORED, Options, RunOptions, read_options, show_options
from answerkey.evaluate.reopen import CHANGED, find_kept, find_source, refuse_gone, reopen
from answerkey.evaluate.run import (
    BegunRun,
    Matrix,
    PendingRun,
    TaskSource,
    choose_policies,
    finish_together,
    make_run,
    require_trusted,
)
from answerkey.models.config import Generation, ModelConfig
from answerkey.runs import (
    Run,
    RunPlace,
    RunWriter,
    StoredFolder,
    Table,
    choose_place,
    find_place,
    forget_journal,
    is_run,
    list_places,
    load_manifest,
    load_run,
    name_answerer,
    reopen_run,
)
from answerkey.spec import (
    DatasetSpec,
    Plan,
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
from answerkey.types import Notice

#: What belongs to an old run and cannot be chosen again when it is scored anew, or resumed.
FIXED = (
    "model",
    "dataset",
    "completions",
    "completion_column",
    "split_thinking",
    "num_samples",
    "subsampling",
    "seed",
)
#: Options that may stop a run; one that did holds no more when the run is resumed.
LIMITS = frozenset({"max_calls", "max_cost"})


# `rescore`: new scores for the completions of an old run, as a new run.


@show_options(RunOptions)
def rescore(
    run: Run | str | RunPlace,
    task: TaskSource | None = None,
    *,
    out: str | RunPlace | None = None,
    progress: Progress | None = None,
    display: Display | None = None,
    **options: Unpack[RunOptions],
) -> Run:
    """Score an old run's completions again, by its own tasks or by changed ones, as a new run.

    `task` is a task file, a mapping or a Task for the tasks of the run with the same key (or its
    only one), or a run file. Options as in `Options`; the samples and the completions are those of
    the old run. Scorers that call a model call it. Of a run in memory, the new one is in memory as
    well, unless `out` says where it goes.
    """
    old = load_run(run)
    chosen = read_options("rescore", options)
    _require_finished(old)
    for name in FIXED:
        if getattr(chosen, name) is not None:
            message = (
                f"`{name}` cannot be chosen: an old run is scored again with its own "
                "samples and completions"
            )
            hint = "leave it out, or use `answerkey run` or `answerkey score`"
            raise SpecError("E119", message, hint=hint)
    if chosen.allow_failed is None:
        chosen = replace(chosen, allow_failed=old.manifest.get("options", {}).get("allow_failed"))
    place = None
    if out is not None or old.path is not None:
        place = choose_place(out, old.key)
    plan = None
    file = old.manifest.get("file")
    if isinstance(task, str | Path) and not is_task_file(task):
        plan, notices = _load_rescore_plan(task, chosen)
        new_tasks = {entry.key: entry.task for entry in plan.specifications} if plan else {}
        file = str(Path(task).resolve())
    else:
        new_task, notices = _load_new_task(old, task, chosen)
        new_tasks = {f"task {new_task.key}": new_task} if new_task else {}
    tasks, more = _choose_tasks(old, new_tasks)
    if chosen.policies is None and plan is not None:
        policies: Sequence[Mapping[str, Any]] = plan.policies
        raise_all(plan.find_baseline_errors(old.key))
        heard: Sequence[Notice] = ()
    else:
        stored = old.manifest.get("policies") or ()
        policies, heard = choose_policies(tasks, old.key, chosen, stored=stored)
    jobs = [_open_rescored(old, key, new, file, chosen) for key, new in tasks.items()]
    require_trusted((job.specification for job in jobs), chosen)
    manifest = describe_run(
        old.key,
        old.manifest["display_name"],
        jobs,
        [*notices, *more, *heard],
        policies,
        rescored_from={
            "path": str(old.path.resolve()) if old.path else None,
            "started_at": old.manifest.get("started_at"),
        },
        options=chosen.stored(),
        file=file,
    )
    for entry in manifest["tasks"]:  # the samples and the model are those of the old run
        before = old.tasks[entry["key"]].manifest
        entry |= {"dataset": before["dataset"], "model": before["model"]}
    engine = open_engine(chosen.engine, chosen.ray_address)
    pending = PendingRun(old.key, jobs, manifest, engine, chosen)
    return make_run(pending, place, choose_display(display, progress))


def _require_finished(run: Run) -> None:
    if run.status == "running" or "stopped" in run.manifest or not run.tasks:
        where = Place(file=str(run.path)) if run.path else None
        hint = f"finish it first: `answerkey resume {run.path}`"
        message = "a run that is not finished cannot be scored again"
        raise RunError("E507", message, where=where, hint=hint)


def _load_rescore_plan(file: str | Path, options: Options) -> tuple[Plan | None, list[Notice]]:
    """Return the plan of a run file, read as if no model were to be called."""
    loaded = load_plan(file, replace(options, completions="those of the old run"))
    raise_all(loaded.errors)
    return loaded.value, list(loaded.notices)


def _load_new_task(
    old: Run, task: TaskSource | None, options: Options
) -> tuple[Task | None, list[Notice]]:
    """Return the task to score with; config values that nobody gives are those of the old run."""
    if task is None or isinstance(task, Task):
        return task, []
    loaded = load_task(task, overrides=options)
    messages = {error.message for error in loaded.errors}
    values: dict[str, object] = {}
    for task_run in old.tasks.values():
        values |= task_run.manifest["config"]
    missing = {
        key: value
        for key, value in values.items()
        if f"config value `{key}` is missing" in messages
    }
    if missing:
        loaded = load_task(task, config=missing, overrides=options)
    raise_all(loaded.errors)
    return loaded.value, list(loaded.notices)


def _choose_tasks(run: Run, new: Mapping[str, Task]) -> tuple[dict[str, Task], list[Notice]]:
    """Return the task to score with for each task of the run, and notices about them.

    Without new tasks they are the old ones. Some may be left out, or send other prompts now.
    """
    old = {key: task_from_source(task_run.source["task"]) for key, task_run in run.tasks.items()}
    if not new:
        return old, []
    chosen: dict[str, Task] = {}
    for key, old_task in old.items():
        task = new.get(key) or new.get(f"task {old_task.key}")
        if task is not None:
            chosen[key] = task
    if not chosen and len(old) == len(new) == 1:
        chosen = {next(iter(old)): next(iter(new.values()))}
    if not chosen:
        names = sorted({task.key for task in new.values()})
        hint = suggest(names[0], old) or f"tasks of the run: {listing(old)}"
        raise RunError("E504", f"the run has no task {listing(names)}", hint=hint)
    notices = []
    for key in old:
        if key not in chosen:
            notices.append(Notice(f"task `{key}` is left out: it is not among the new tasks"))
    for key, task in chosen.items():
        if _find_solver(task) != _find_solver(old[key]):
            notice = Notice(
                f"task `{key}` would send other prompts now; these completions answer the old ones",
                where=task.place("definition", "solver"),
                hint="`answerkey run` calls the model anew",
            )
            notices.append(notice)
    return chosen, notices


def _find_solver(task: Task) -> object:
    definition: Any = task.source["definition"]
    return definition.get("solver")


def _open_rescored(run: Run, key: str, task: Task, run_file: str | None, options: Options) -> Job:
    """Return the job of a task on the samples and completions of an old run."""
    reopened = reopen(run, key)
    task_run = reopened.task_run
    entry, source = task_run.manifest, task_run.source
    repeated = []
    for repetition in task_run.repetitions:
        kept = find_kept(repetition, reopened.dataset)
        if kept is not None:
            repeated.append(kept)
    for completions in (reopened.recorded, *repeated):
        if completions.num_trials != task.num_trials:
            asked = completions.num_trials
            before = f"the old run called its model {asked} times for each sample"
            message = f"task `{task.key}` has {task.num_trials} trials; {before}"
            hint = f"set `num_trials` to {asked}, or use `answerkey run`"
            raise RunError("E507", message, where=task.place("definition", "trials"), hint=hint)
    if task.choice_order != reopened.task.choice_order:
        message = f"task `{task.key}` has another `choice_order` than the old run"
        hint = "leave `choice_order` as it was, or use `answerkey run`"
        raise RunError("E507", message, where=task.place("definition", "choice_order"), hint=hint)
    origin = find_source(source["dataset"], task_run.stored_samples, entry["dataset"]["key"])
    specification = Specification(
        key=key,
        task=task,
        dataset=DatasetSpec(entry["dataset"]["key"], origin, entry["dataset"]["display_name"]),
        display_name=entry["display_name"],
        model_key=source["model_key"],
        selection=Selection(**entry["selection"]),
        num_runs=1 + len(task_run.repetitions),
        judges=load_judges(task, run_file=run_file, overrides=options),
    )
    # The new run keeps the completions that the old one has, and those that only its own solver
    # finds.
    is_kept = len(task_run.stored_completions) or entry["completions"]["source"] == "trace"
    return open_job_of(
        specification,
        reopened.dataset,
        recorded=reopened.recorded,
        repeated=tuple(repeated),
        completions=dict(entry["completions"]),
        keep_completions=options.copy or bool(is_kept),
        is_rescored=True,
    )


# `resume`: a run that stopped, continued.


@show_options(RunOptions)
def resume(
    path: str | Path | StoredFolder,
    *,
    progress: Progress | None = None,
    display: Display | None = None,
    **options: Unpack[RunOptions],
) -> Run:
    """Continue a run where it stopped and return it finished.

    A complete run is returned as it is. Options as in `Options`; those that the run was started
    with hold unless they are given again. A limit that stopped the run holds no more. A model that
    is a function is given again.
    """
    display = choose_display(display, progress)
    stopped = reopen_stopped(find_place(path), options, display)
    if isinstance(stopped, Run):
        return stopped
    pending, writer = stopped
    return pending.finish(writer, display)


@show_options(RunOptions)
def resume_matrix(
    folder: str | RunPlace, *, display: Display | None = None, **options: Unpack[RunOptions]
) -> Matrix:
    """Continue every run below a folder and return all of them; options as in `resume`."""
    shared = Shared()
    parent = find_place(folder)
    display = choose_display(display, None)
    places = list_places(parent)
    if not places:
        message = f"`{parent}` is no run folder, and there is none below it"
        raise RunError("E501", message, hint="`answerkey runs` lists the runs of a folder")
    begun: list[BegunRun] = []
    siblings: dict[RunPlace, None] = {}
    with ExitStack() as undo:
        for place in places:
            name = place.name
            try:
                manifest = load_run(place).manifest
                name = next(map(name_answerer, manifest["tasks"]), name)
                for sibling in manifest.get("matrix") or ():
                    siblings[find_place(place.parent) / sibling] = None
                stopped = reopen_stopped(place, options, display, shared)
            except AnswerkeyError as error:
                begun.append(BegunRun(name, place, result=error))
                continue
            if isinstance(stopped, Run):
                begun.append(BegunRun(name, place, result=stopped))
                continue
            pending, writer = stopped
            undo.callback(writer.close)
            begun.append(BegunRun(name, place, pending, writer))
        undo.pop_all()
    for place in siblings:
        if place not in places:
            message = f"`{place}` is gone, or was never begun: no model was called then"
            lost = RunError("E507", message, hint="start it again with `answerkey run`")
            begun.append(BegunRun(place.name, place, result=lost))
    return finish_together(parent, begun, display)


def reopen_stopped(
    place: RunPlace, options: Mapping[str, Any], display: Display, shared: Shared | None = None
) -> Run | tuple[PendingRun, RunWriter]:
    """Return a run that stopped, ready to continue, with its writer; a complete one as it is."""
    if load_manifest(place)["status"] == "complete":
        forget_journal(place)  # a failing disk may have kept it
        return load_run(place)
    with ExitStack() as stack:
        writer = stack.enter_context(reopen_run(place))
        if writer.manifest["status"] == "complete":  # the process that held it has just finished
            forget_journal(place)
            return load_run(place)
        chosen, kept = _choose_options(writer.manifest, options)
        engine = open_engine(chosen.engine, chosen.ray_address)
        jobs = _open_again(writer, chosen, shared)
        pending = PendingRun(place.name, jobs, writer.manifest, engine, chosen)
        pending = pending.check(display, shared)
        writer.restart({**describe_system(), "options": kept.stored()})
        for job in jobs:
            for number in range(job.specification.num_runs):
                writer.task(job.key).repetition(number).clear()
        stack.pop_all()
        return pending, writer


def _choose_options(
    manifest: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[Options, Options]:
    """Return the options with which a run continues, and those that its folder keeps.

    A limit that is lifted stays lifted; whatever else is chosen now holds for this time alone.
    """
    chosen = {name: value for name, value in options.items() if value is not None}
    fixed = {*FIXED, "config", *GATES}
    if callable(chosen.get("model")):
        fixed.remove("model")  # a function is in no folder
    for name in chosen:
        if name in fixed:
            message = f"`{name}` cannot be chosen: a run goes on with what it was started with"
            hint = "leave it out, or start a new run with `answerkey run`"
            raise SpecError("E119", message, hint=hint)
    stored = manifest.get("options")
    if not isinstance(stored, Mapping):
        raise _refuse("it does not say which options it was started with")
    unknown = sorted(stored.keys() - set(STORED))
    if unknown:
        raise _refuse(f"its folder states options that it cannot decide: {listing(unknown)}")
    held = dict(stored)
    if (manifest.get("stopped") or {}).get("code") == "E305":
        # Whoever resumes a run that a limit stopped has seen that, and wants it to continue.
        for name in LIMITS:
            held.pop(name, None)
        held["stop_on_nonsense"] = False
    if "engine" in chosen:
        held.pop("ray_address", None)  # that cluster belongs to the engine of before
    limits = {name: value for name, value in chosen.items() if name in LIMITS}
    return read_options("resume", {**held, **chosen}), read_options("resume", {**held, **limits})


def _open_again(writer: RunWriter, options: Options, shared: Shared | None) -> list[Job]:
    """Return the jobs of a run that stopped.

    E505 or E507 when what decides the numbers is not as it was.
    """
    manifest = writer.manifest
    sources = {entry["key"]: writer.read_source(entry["key"]) for entry in manifest["tasks"]}
    if "rescored_from" in manifest:
        jobs = _open_rescored_again(manifest, sources, options)
    else:
        specifications = []
        for entry in manifest["tasks"]:
            specifications.append(_specify(entry, sources[entry["key"]], writer, options))
        require_trusted(specifications, options)
        try:
            jobs = open_jobs(specifications, options, shared)
        except DataError as error:
            file = error.where.file if error.where else None
            raise refuse_gone("dataset", file, error.message) from error
    for entry, job in zip(manifest["tasks"], jobs, strict=True):
        described = describe_job(job)
        if "rescored_from" not in manifest:
            _require_unchanged(job, described, entry, sources[entry["key"]])
        for before, now in zip(entry["scorers"], described["scorers"], strict=True):
            if now.get("model") != before.get("model"):
                raise _refuse(f"the model of its scorer `{before['key']}` is not the same any more")
    return jobs


def _open_rescored_again(
    manifest: Mapping[str, Any], sources: Mapping[str, Mapping[str, Any]], options: Options
) -> list[Job]:
    origin = manifest["rescored_from"]
    path = str(origin["path"])
    old = load_run(path) if is_run(find_place(path)) else None
    if old is None or old.manifest.get("started_at") != origin["started_at"]:
        message = (
            f"the run cannot be resumed: `{path}` is not the run any more that it scores again"
        )
        raise RunError("E507", message, hint="start again with `answerkey rescore`")
    jobs = []
    for key, source in sources.items():
        task = task_from_source(source["task"])
        jobs.append(_open_rescored(old, key, task, manifest.get("file"), options))
    require_trusted((job.specification for job in jobs), options)
    return jobs


def _require_unchanged(
    job: Job, described: Mapping[str, Any], entry: Mapping[str, Any], source: Mapping[str, Any]
) -> None:
    """Raise unless dataset, images, completions, examples and model are as the run left them."""
    if described["dataset"]["fingerprint"] != entry["dataset"]["fingerprint"]:
        raise refuse_gone("dataset", entry["dataset"]["file"], CHANGED)
    for image, digest in source["image_files"].items():
        if not Path(image).is_file() or digest_file(image) != digest:
            raise refuse_gone("image", image, CHANGED)
    if described["completions"]["sha256"] != entry["completions"]["sha256"]:
        raise refuse_gone("completions", entry["completions"]["file"], CHANGED)
    if describe_sources(job)["examples_fingerprint"] != source["examples_fingerprint"]:
        raise refuse_gone("examples", (source["examples"] or {}).get("file_path"), CHANGED)
    if described["model"] != entry["model"]:
        raise _refuse(f"its model `{entry['model']['name']}` is not the same any more")


def _specify(
    entry: Mapping[str, Any], source: Mapping[str, Any], writer: RunWriter, options: Options
) -> Specification:
    """Return what a task of a run was to do, from its entry in `run.json` and its `task.json`."""
    dataset, completions = entry["dataset"], entry["completions"]
    task = task_from_source(source["task"])
    file = writer.manifest.get("file")
    samples = Table(writer.store, f"tasks/{entry['key']}/samples")
    origin = find_source(source["dataset"], samples, dataset["key"])
    examples = None
    if source["examples"]:
        examples = DatasetSpec("examples", source_from(source["examples"]))
    recorded_file = None
    if completions["source"] == "recorded" and completions["file"]:
        recorded_file = str(completions["file"])
    model = None
    if entry["model"]:
        model = _find_model(entry["model"], source, file, options)
    return Specification(
        key=entry["key"],
        task=task,
        dataset=DatasetSpec(dataset["key"], origin, dataset["display_name"]),
        display_name=entry["display_name"],
        model=model,
        model_key=source["model_key"],
        model_name=completions.get("model"),
        selection=Selection(**entry["selection"]),
        examples=examples,
        num_runs=source["num_runs"],
        judges=load_judges(task, run_file=file, overrides=options),
        completions=recorded_file,
    )


def _find_model(
    entry: Mapping[str, Any], source: Mapping[str, Any], file: str | None, options: Options
) -> str | ModelConfig | None:
    """Return the model by its name; secrets, and what its file defines, are looked up again."""
    name = source["model_key"]
    is_function = isinstance(options.model, ModelConfig)
    if bool(entry.get("is_function")) != is_function:
        reason = f"its model is the Python function `{name}`, which is in no folder"
        if is_function:
            reason = f"its model is `{name}`, and a function is given"
        hint = "in Python, give the same function again: `ak.resume(run, model=FUNCTION)`"
        raise _refuse(reason, hint)
    if is_function:
        return options.model
    stored = dict(source["generation"] or {})
    if "stop" in stored:
        stored["stop"] = tuple(stored["stop"])
    return load_model(name, file or "", generation=Generation(**stored), overrides=options)


def _refuse(reason: str, hint: str = "start again with `answerkey run`") -> RunError:
    return RunError("E507", f"the run cannot be resumed: {reason}", hint=hint)
