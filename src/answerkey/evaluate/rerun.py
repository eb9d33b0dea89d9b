"""`rescore` and `resume`: score a run again, or continue it where it stopped.

A resumed run is scored anew, from the store of calls or from recorded completions, so that its
tables are those of a run that never stopped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from answerkey import features
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
    suggest,
)
from answerkey.evaluate.display import Display, Progress
from answerkey.evaluate.evaluate import Evaluation
from answerkey.evaluate.job import Shared, complete_job, open_jobs
from answerkey.evaluate.manifest import (
    ENVIRONMENT,
    describe_job,
    describe_run,
    describe_sources,
)
from answerkey.evaluate.reopen import (
    CONTENT_CHANGED,
    Reopened,
    find_source,
    find_stored_completions,
    gone_error,
    reopen,
)
from answerkey.evaluate.run import (
    Matrix,
    MatrixMember,
    RunOptions,
    TaskSource,
    finish_together,
    read_options,
    require_trusted,
    show_options,
)
from answerkey.models.config import Generation, ModelConfig
from answerkey.options import GATES, STORED
from answerkey.runs import (
    Run,
    RunPlace,
    RunWriter,
    StoredFolder,
    StoredTable,
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
    Job,
    Options,
    Task,
    load_judges,
    load_model,
    load_task,
    source_from,
    task_from_source,
)
from answerkey.spec.nodes import ProblemList
from answerkey.types import Notice

#: Options that an old run has fixed: they cannot be changed when it is rescored or resumed.
INHERITED_OPTIONS = (
    "model",
    "dataset",
    "completions",
    "completion_column",
    "split_thinking",
    "num_samples",
    "subsampling",
    "seed",
)
#: What `run.json` or `task.json` says about a run or a task.
Entry = Mapping[str, Any]
#: Options that may stop a run; the one that did no longer applies when the run is resumed.
LIMITS = frozenset({"max_calls", "max_cost"})


# `rescore`: a new run with new scores for the completions of an old one.


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

    `task` is a task file, a mapping or a Task for the tasks of the run with the same key, or for
    its only one. Options as in `Options`; the samples and the completions are those of the old run.
    Scorers that call a model call it. Of a run in memory, the new one is in memory as well, unless
    `out` says where it goes.
    """
    old = load_run(run)
    chosen = read_options("rescore", options)
    _require_finished(old)
    _refuse_inherited(options, INHERITED_OPTIONS)
    if chosen.allow_failed is None:
        old_options = old.manifest.get("options", {})
        chosen = replace(chosen, allow_failed=old_options.get("allow_failed"))
    place = None
    if out is not None or old.path is not None:
        place = choose_place(out, old.key)
    new_task, notices = _load_new_task(old, task, chosen)
    tasks = _choose_tasks(old, new_task, notices)
    stored = old.manifest.get("policies") or ()
    policies: Sequence[Mapping[str, Any]] = ()
    if chosen.states_gates or stored:
        resolve_policies = features.load_gates().resolve_policies
        policies, more = resolve_policies(tasks, old.key, chosen, stored=stored)
        notices += more
    file = old.manifest.get("file")
    jobs = _open_rescored(old, tasks, file, chosen)
    manifest = describe_run(
        old.key,
        old.manifest["display_name"],
        jobs,
        notices,
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
    display = display or Display(progress)
    return Evaluation(old.key, jobs, manifest, engine, chosen, display).run(place)


def _require_finished(run: Run) -> None:
    if run.status == "running" or "stopped" in run.manifest or not run.tasks:
        where = Place(file=str(run.path)) if run.path else None
        hint = f"finish it first: `answerkey resume {run.path}`"
        message = "a run that is not finished cannot be scored again"
        raise RunError("E507", message, where=where, hint=hint)


def _refuse_inherited(options: Entry, fixed: Collection[str]) -> None:
    """Raise E119 for an option that belongs to the old run."""
    for name, value in options.items():
        if value is not None and name in fixed:
            message = f"`{name}` cannot be changed: the old run has fixed it"
            hint = "leave it out, or start a new run with `answerkey run`"
            raise SpecError("E119", message, hint=hint)


def _load_new_task(
    old: Run,
    task: TaskSource | None,
    options: Options,
) -> tuple[Task | None, list[Notice]]:
    """Return the task to score with; missing config values are those of the old run."""
    if task is None or isinstance(task, Task):
        return task, []
    problems = ProblemList()
    try:
        return load_task(task, options, problems), problems.notices
    except AnswerkeyError:
        messages = {error.message for error in problems.errors}
    values: dict[str, object] = {}
    for task_run in old.tasks.values():
        values |= task_run.manifest["config"]
    missing = {key: values[key] for key in values if f"config value `{key}` is missing" in messages}
    config = {**options.config, **missing}
    problems = ProblemList()
    return load_task(task, replace(options, config=config), problems), problems.notices


def _choose_tasks(
    run: Run,
    new: Task | None,
    notices: list[Notice],
) -> dict[str, Task]:
    """Return the task to score with for each task of the run; the old ones without a new one."""
    old = {}
    for key, task_run in run.tasks.items():
        old[key] = task_from_source(task_run.source["task"])
    if new is None:
        return old
    chosen = {}
    for key, task in old.items():
        if new.key != task.key and len(old) > 1:
            notices.append(Notice(f"task `{key}` is left out: the new task is another one"))
            continue
        chosen[key] = new
        if _find_solver(new) != _find_solver(task):
            notice = Notice(
                f"task `{key}` would send other prompts now; these completions answer the old ones",
                where=new.place("definition", "solver"),
                hint="`answerkey run` calls the model again",
            )
            notices.append(notice)
    if not chosen:
        hint = suggest(new.key, old) or f"tasks of the run: {listing(old)}"
        raise RunError("E504", f"the run has no task `{new.key}`", hint=hint)
    return chosen


def _find_solver(task: Task) -> object:
    definition: Any = task.source["definition"]
    return definition.get("solver")


def _open_rescored(
    run: Run,
    tasks: Mapping[str, Task],
    run_file: str | None,
    options: Options,
) -> list[Job]:
    """Return the jobs of tasks, by key, on the samples and completions of an old run."""
    jobs = []
    for key, task in tasks.items():
        jobs.append(_open_rescored_task(reopen(run, key), task, run_file, options))
    require_trusted(jobs, options)
    return jobs


def _open_rescored_task(
    reopened: Reopened,
    task: Task,
    run_file: str | None,
    options: Options,
) -> Job:
    task_run = reopened.task_run
    entry = task_run.manifest
    repeated = []
    for repetition in task_run.repetitions:
        kept = find_stored_completions(repetition, reopened.dataset)
        if kept is not None:
            repeated.append(kept)
    for completions in (reopened.recorded, *repeated):
        if completions.num_trials != task.num_trials:
            num_calls = completions.num_trials
            before = f"the old run called its model {num_calls} times for each sample"
            message = f"task `{task.key}` has {task.num_trials} trials; {before}"
            where = task.place("definition", "trials")
            hint = f"set `num_trials` to {num_calls}, or use `answerkey run`"
            raise RunError("E507", message, where=where, hint=hint)
    if task.choice_order != reopened.task.choice_order:
        message = f"task `{task.key}` has another `choice_order` than the old run"
        where = task.place("definition", "choice_order")
        hint = "leave `choice_order` as it was, or use `answerkey run`"
        raise RunError("E507", message, where=where, hint=hint)
    job = _plan_again(
        entry,
        task_run.source,
        task,
        task_run.stored_samples,
        run_file,
        options,
    )
    # The new run keeps the completions that the old one has, and those that only its own solver
    # finds.
    is_kept = len(task_run.stored_completions) or entry["completions"]["source"] == "trace"
    opened = replace(
        job,
        opened=reopened.dataset,
        recorded=reopened.recorded,
        repeated=tuple(repeated),
        completions=dict(entry["completions"]),
        keep_completions=options.copy or bool(is_kept),
        is_rescored=True,
    )
    return complete_job(opened)


# `resume`: continue a run that stopped.


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
    display = display or Display(progress)
    stopped = reopen_stopped(find_place(path), options, display)
    return stopped if isinstance(stopped, Run) else stopped.evaluate()


@show_options(RunOptions)
def resume_matrix(
    folder: str | RunPlace,
    *,
    display: Display | None = None,
    **options: Unpack[RunOptions],
) -> Matrix:
    """Continue every run below a folder and return all of them; options as in `resume`."""
    shared = Shared()
    parent = find_place(folder)
    display = display or Display()
    places = list_places(parent)
    if not places:
        message = f"`{parent}` is no run folder, and there is none below it"
        raise RunError("E501", message, hint="`answerkey runs` lists the runs of a folder")
    members: list[MatrixMember] = []
    siblings: dict[RunPlace, None] = {}
    with ExitStack() as undo:
        for place in places:
            name = place.name
            result: Evaluation | Run | AnswerkeyError
            try:
                manifest = load_run(place).manifest
                name = next(map(name_answerer, manifest["tasks"]), name)
                for sibling in manifest.get("matrix") or ():
                    siblings[find_place(place.parent) / sibling] = None
                result = reopen_stopped(
                    place,
                    options,
                    display,
                    shared,
                )
            except AnswerkeyError as error:
                result = error
            if isinstance(result, Evaluation):
                undo.callback(result.writer.close)
            members.append(MatrixMember(name, place, result))
        undo.pop_all()
    for place in siblings:
        if place not in places:
            message = f"`{place}` is gone or was never started: no model has been called"
            lost = RunError("E507", message, hint="start it again with `answerkey run`")
            members.append(MatrixMember(place.name, place, lost))
    return finish_together(parent, members, display)


def reopen_stopped(
    place: RunPlace,
    options: Entry,
    display: Display,
    shared: Shared | None = None,
) -> Run | Evaluation:
    """Return a run that stopped, ready to continue; a complete one as it is."""
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
        engine.connect()  # there may be no work left that would notice a missing cluster
        jobs = _open_again(writer, chosen, shared)
        manifest = dict(writer.manifest)
        pending = Evaluation(
            place.name,
            jobs,
            manifest,
            engine,
            chosen,
            display,
        )
        pending.writer = writer
        pending.check()
        writer.restart({**ENVIRONMENT, "options": kept.stored()})
        for job in jobs:
            for number in range(job.num_runs):
                writer.task(job.key).repetition(number).clear()
        stack.pop_all()
        return pending


def _choose_options(manifest: Entry, options: Entry) -> tuple[Options, Options]:
    """Return the options with which a run continues, and those that its folder keeps.

    A limit that is lifted stays lifted; other options given now only hold for this time.
    """
    chosen = {name: value for name, value in options.items() if value is not None}
    fixed = {*INHERITED_OPTIONS, "config", *GATES}
    if not isinstance(chosen.get("model"), str | None):
        fixed.remove("model")  # a function or an object is in no folder
    _refuse_inherited(chosen, fixed)
    stored = manifest.get("options")
    if not isinstance(stored, Mapping):
        raise _refuse("it does not say which options it was started with")
    unknown = sorted(stored.keys() - set(STORED))
    if unknown:
        raise _refuse(f"its folder states options that it cannot decide: {listing(unknown)}")
    held = dict(stored)
    if (manifest.get("stopped") or {}).get("code") == "E305":
        # A user who resumes a run that a limit stopped knows about it, and wants it to continue.
        for name in LIMITS:
            held.pop(name, None)
        held["stop_on_nonsense"] = False
    if "engine" in chosen:
        held.pop("ray_address", None)  # that cluster belongs to the engine of before
    limits = {name: value for name, value in chosen.items() if name in LIMITS}
    kept = read_options("resume", {**held, **limits})
    return read_options("resume", {**held, **chosen}), kept


def _open_again(
    writer: RunWriter,
    options: Options,
    shared: Shared | None,
) -> list[Job]:
    """Return the jobs of a run that stopped.

    E505 or E507 when what decides the numbers is not as it was.
    """
    manifest = writer.manifest
    sources = {}
    for entry in manifest["tasks"]:
        sources[entry["key"]] = writer.read_source(entry["key"])
    if "rescored_from" in manifest:
        jobs = _open_rescored_again(manifest, sources, options)
    else:
        stopped = []
        for entry in manifest["tasks"]:
            source = sources[entry["key"]]
            stopped.append(
                _plan_stopped(
                    entry,
                    source,
                    writer,
                    options,
                )
            )
        require_trusted(stopped, options)
        try:
            jobs = open_jobs(stopped, options, shared)
        except DataError as error:
            file = error.where.file if error.where else None
            raise gone_error("dataset", file, error.message) from error
    for entry, job in zip(manifest["tasks"], jobs, strict=True):
        described = describe_job(job)
        if "rescored_from" not in manifest:
            _require_unchanged(
                job,
                described,
                entry,
                sources[entry["key"]],
            )
        for before, now in zip(entry["scorers"], described["scorers"], strict=True):
            if now.get("model") != before.get("model"):
                raise _refuse(f"the model of its scorer `{before['key']}` is not the same any more")
    if manifest["answerkey_version"] != ENVIRONMENT["answerkey_version"]:
        return jobs
    # Rows that this version checked before the first call, and found in order, still are.
    return [replace(job, is_checked=sources[job.key]["rows_checked"]) for job in jobs]


def _open_rescored_again(
    manifest: Entry,
    sources: Mapping[str, Entry],
    options: Options,
) -> list[Job]:
    origin = manifest["rescored_from"]
    path = str(origin["path"])
    old = load_run(path) if is_run(find_place(path)) else None
    if old is None or old.manifest.get("started_at") != origin["started_at"]:
        message = f"the run cannot be resumed: `{path}` is no longer the run that it rescores"
        raise RunError("E507", message, hint="start again with `answerkey rescore`")
    tasks = {key: task_from_source(source["task"]) for key, source in sources.items()}
    return _open_rescored(old, tasks, manifest.get("file"), options)


def _require_unchanged(
    job: Job,
    described: Entry,
    entry: Entry,
    source: Entry,
) -> None:
    """Raise unless dataset, images, completions, examples and model are as the run left them."""
    if described["dataset"]["fingerprint"] != entry["dataset"]["fingerprint"]:
        raise gone_error("dataset", entry["dataset"]["file"], CONTENT_CHANGED)
    for image, digest in source["image_files"].items():
        if not Path(image).is_file() or digest_file(image) != digest:
            raise gone_error("image", image, CONTENT_CHANGED)
    if described["completions"]["sha256"] != entry["completions"]["sha256"]:
        raise gone_error("completions", entry["completions"]["file"], CONTENT_CHANGED)
    if describe_sources(job)["examples_fingerprint"] != source["examples_fingerprint"]:
        raise gone_error("examples", (source["examples"] or {}).get("file_path"), CONTENT_CHANGED)
    if described["model"] != entry["model"]:
        raise _refuse(f"its model `{entry['model']['name']}` is not the same any more")


def _plan_again(
    entry: Entry,
    source: Entry,
    task: Task,
    samples: StoredTable,
    file: str | None,
    options: Options,
) -> Job:
    """Return the job of a task of a run, from its entry in `run.json` and its `task.json`.

    Its model, examples and completions are left open.
    """
    dataset = entry["dataset"]
    origin = find_source(source["dataset"], samples, dataset["key"])
    return Job(
        key=entry["key"],
        task=task,
        dataset_spec=DatasetSpec(dataset["key"], origin, dataset["display_name"]),
        display_name=entry["display_name"],
        model_key=source["model_key"],
        selection=Selection(**entry["selection"]),
        num_runs=source["num_runs"],
        judge_choices=load_judges(task, run_file=file, options=options),
    )


def _plan_stopped(
    entry: Entry,
    source: Entry,
    writer: RunWriter,
    options: Options,
) -> Job:
    """Return the remaining job of a task of a run that stopped."""
    file = writer.manifest.get("file")
    completions = entry["completions"]
    samples = StoredTable(writer.store, f"tasks/{entry['key']}/samples")
    task = task_from_source(source["task"])
    job = _plan_again(
        entry,
        source,
        task,
        samples,
        file,
        options,
    )
    examples = None
    if source["examples"]:
        examples = DatasetSpec("examples", source_from(source["examples"]))
    recorded_file = None
    if completions["source"] == "recorded" and completions["file"]:
        recorded_file = str(completions["file"])
    model = None
    if entry["model"]:
        model = _find_model(
            entry["model"],
            source,
            file,
            options,
        )
    return replace(
        job,
        model_choice=model,
        model_name=completions.get("model"),
        examples_spec=examples,
        completions_from=recorded_file,
    )


def _find_model(
    entry: Entry,
    source: Entry,
    file: str | None,
    options: Options,
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
    return load_model(
        name,
        file or "",
        generation=Generation(**stored),
        options=options,
    )


def _refuse(reason: str, hint: str = "start again with `answerkey run`") -> RunError:
    return RunError("E507", f"the run cannot be resumed: {reason}", hint=hint)
