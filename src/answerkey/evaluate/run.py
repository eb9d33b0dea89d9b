"""`run`, `run_matrix` and `score`: from a file or tables in memory to finished runs.

First the options of these and of all other functions, as type checkers see them; they are declared
in `answerkey.options`.
"""

from __future__ import annotations

import inspect
import re
import shlex
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar, Unpack

from answerkey.datasets.rows import Rows
from answerkey.datasets.sources import MemorySource
from answerkey.datasets.storage import allow_fetching, name_lasting
from answerkey.datasets.tables import Tabular, load_rows
from answerkey.engines import Engine, open_engine
from answerkey.errors import (
    AnswerkeyError,
    Place,
    SpecError,
    Stop,
    Stopped,
    listing,
    raise_all,
    suggest,
)
from answerkey.evaluate.display import Display, Progress
from answerkey.evaluate.evaluate import Evaluation, call_together
from answerkey.evaluate.job import Shared, open_jobs
from answerkey.evaluate.manifest import describe_run
from answerkey.models.config import CachePolicy, Model, read_model
from answerkey.runs import (
    NewFolder,
    Run,
    RunPlace,
    choose_place,
    load_run,
    remove_empty,
)
from answerkey.sandbox import Snippet, require_trust
from answerkey.spec import (
    Job,
    Options,
    Plan,
    Task,
    is_data_file,
    load_plan,
)
from answerkey.spec.nodes import Location

Function = TypeVar("Function", bound=Callable[..., Any])
#: A task or run file, a folder, the name of a ready-made task, a Task, or a mapping as in a file.
TaskSource = Task | Mapping[str, object] | str | Path


class ScoreOptions(TypedDict, total=False):
    """The options of Python's functions, as in `Options`.

    A model may be a function, or an object with `complete`.
    """

    config: Mapping[str, object] | None
    model: str | Callable[[list[dict[str, Any]]], object] | Model | None
    completion_column: str | None
    split_thinking: bool | None
    columns: Mapping[str, str]
    num_samples: int | None
    subsampling: Literal["head", "random"] | None
    seed: int | None
    env: str | Path | None
    allow_outside: bool
    allow_hosts: Sequence[str]
    policies: str | Path | Mapping[str, object] | Sequence[object] | None
    baseline: str | Path | None
    fail_under: float | str | None
    not_worse_than: str | Path | None
    allow_failed: int | str | None
    trust_code: bool
    engine: str
    ray_address: str | None
    copy: bool
    cache_policy: CachePolicy | None
    max_calls: int | None
    max_cost: float | None
    price: str | None
    stop_on_nonsense: bool | None
    batch: bool | None
    max_concurrent: int | None


class RunOptions(ScoreOptions, total=False):
    """The options of functions that are not given samples and completions.

    A dataset may be a table.
    """

    dataset: Tabular | str | Path | None
    completions: str | Path | None


def show_options(kind: Any) -> Callable[[Function], Function]:  # noqa: ANN401 - a TypedDict
    """Return a decorator that lists the options of `kind` in the signature that `help` shows."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())[:-1]  # the last one is `**options`
        for name, hint in kind.__annotations__.items():
            default = getattr(Options, name, None)
            parameter = inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=getattr(hint, "__forward_arg__", hint),
            )
            parameters.append(parameter)
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return function

    return decorate


def refuse_unknown(
    function: str,
    names: Iterable[str],
    options: Collection[str],
    *arguments: str,
) -> None:
    """Raise TypeError for options that a function does not have beside its `arguments`."""
    for name in names:
        if name in options:
            continue
        hint = suggest(name, [*options, *arguments])
        if not hint:
            hint = f"options: {listing(options, limit=len(options))}"
        raise TypeError(f"`{function}` has no option `{name}`; {hint}")


def read_options(function: str, options: Mapping[str, object], kind: Any = RunOptions) -> Options:  # noqa: ANN401 - a TypedDict
    """Return the options of a function; TypeError for one that it does not have.

    A Python function becomes the config of a model, a table a source of rows.
    """
    if not options.keys() <= kind.__optional_keys__:
        names = [field.name for field in fields(Options) if field.name in kind.__optional_keys__]
        refuse_unknown(
            function,
            options,
            names,
            "completions",
        )
    values: dict[str, Any] = dict(options)
    values["model"] = read_model(values.get("model"))
    completions = values.get("completions")
    if not isinstance(completions, str | Path | None):
        kind = type(completions).__name__
        raise TypeError(f"`completions` is of type `{kind}`: give a file, or use `ak.score`")
    dataset = values.get("dataset")
    if not isinstance(dataset, str | Path | MemorySource | None):
        values["dataset"] = MemorySource(load_rows(dataset, name="dataset"))
    allow_fetching(*values.get("allow_hosts", ()))
    return Options(**values)


# `run`.


@show_options(RunOptions)
def run(
    path: TaskSource,
    *,
    out: str | RunPlace | None = None,
    progress: Progress | None = None,
    **options: Unpack[RunOptions],
) -> Run:
    """Check everything, solve, score, write the run folder, and return the run.

    Options as in `Options`.
    """
    return run_matrix(
        path,
        out=out,
        display=Display(progress),
        **options,
    ).runs[0]


@show_options(RunOptions)
async def arun(
    path: TaskSource,
    *,
    out: str | RunPlace | None = None,
    progress: Progress | None = None,
    **options: Unpack[RunOptions],
) -> Run:
    """Run in a thread, so that the event loop stays free; cancelling stops the run as Ctrl-C does.

    An async function is called in this event loop.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    values = dict[str, Any](options)
    values["model"] = read_model(values.get("model"), loop)
    stop = Stop()

    def work() -> Run:
        with stop.followed():
            return run(
                path,
                out=out,
                progress=progress,
                **values,
            )

    pool = ThreadPoolExecutor(1, thread_name_prefix="answerkey-run")
    running = loop.run_in_executor(pool, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.message = "interrupted"
        with suppress(AnswerkeyError, KeyboardInterrupt):
            await running
        raise
    finally:
        pool.shutdown(wait=False)


def read_plan(
    path: TaskSource,
    options: Options,
    *,
    is_callers: bool | None = None,
) -> Plan:
    """Load a run or task file; raise all its errors at once, and E118 for untrusted code."""
    source: object = path
    if not isinstance(source, Task | Mapping | str | Path):
        message = f"expected a task, a task file or a data file, not a {type(source).__name__}"
        hint = "for a table: `ak.score(ak.mcqa(question=…, options=…, truth=…), table, model=…)`"
        raise SpecError("E119", message, hint=hint)
    plan = load_plan(path, options, is_callers=is_callers)
    plan.problems.raise_any()
    if not plan.jobs:
        name = str(path) if isinstance(path, str | Path) else "the mapping"
        message = f"`{name}` names nothing to run"
        hint = (
            "a run file needs an `evaluation` with `task_specifications`, or `tasks` and a dataset"
        )
        raise SpecError("E119", message, where=Place(file=name), hint=hint)
    require_trusted(plan.jobs, options)
    if plan.policies:
        raise_all(plan.find_baseline_errors())
    return plan


def require_trusted(jobs: Iterable[Job], options: Options) -> None:
    """Raise E118 for code of the user that is not trusted."""
    snippets: list[Snippet] = []
    for job in jobs:
        snippets += job.snippets
    if snippets:
        require_trust(snippets, trust_code=options.trust_code)


def open_run(
    path: TaskSource,
    plan: Plan,
    options: Options,
    engine: Engine,
    display: Display,
    *,
    name: str = "",
    shared: Shared | None = None,
) -> Evaluation:
    """Return the run of a plan, which has one model, with everything opened."""
    if options.cache_policy is None and plan.cache_policy is not None:
        options = replace(options, cache_policy=plan.cache_policy)
    jobs = open_jobs(plan.jobs, options, shared)
    source = jobs[0].dataset_spec.source
    file = None
    if isinstance(path, str | Path):
        file = name_lasting(path)
    elif isinstance(source, MemorySource) and source.origin:
        file = name_lasting(source.origin)  # the log that the tables are from
    manifest = describe_run(
        plan.key,
        plan.display_name,
        jobs,
        plan.notices,
        plan.policies,
        file=file,
        options=options.stored(),
    )
    return Evaluation(name, jobs, manifest, engine, options, display)


# `run_matrix`: several runs at once.


@dataclass(frozen=True)
class Matrix:
    """Several runs below one folder, in the order of the models or columns given.

    `errors` are those that stopped runs, by the names of their models or columns. A run that
    stopped is among the runs as far as it got.
    """

    path: RunPlace
    runs: tuple[Run, ...]
    errors: Mapping[str, AnswerkeyError]

    @property
    def status(self) -> str:
        """`complete` if every run is."""
        is_complete = not self.errors and all(run.status == "complete" for run in self.runs)
        return "complete" if is_complete else "incomplete"


@show_options(RunOptions)
def run_matrix(
    path: TaskSource,
    *,
    models: Sequence[str | Callable[..., object] | None] = (),
    completion_columns: Sequence[str | None] = (),
    out: str | RunPlace | None = None,
    display: Display | None = None,
    calls_model: bool = True,
    **options: Unpack[RunOptions],
) -> Matrix:
    """Run a file once for each model, or each completion column.

    Everything is read, opened and checked first, each dataset once. Each run has a folder below
    `out`; one alone has `out` itself, and raises what ends it. Options as in `Options`; limits are
    those of each run. Without `calls_model`, a task that has no recorded completions is E119.
    """
    if len(models) > 1 and len(completion_columns) > 1:
        message = "`--model` and `--completion-column` are both given several times"
        raise SpecError("E119", message, hint="name several models, or several columns")
    plans = _read_plans(path, models, completion_columns, options)
    if not calls_model:
        for plan, _ in plans:
            _refuse_calls(plan.jobs)
    first = plans[0][1]
    engine = open_engine(first.engine, first.ray_address)
    place = choose_place(out, plans[0][0].key)
    display = display or Display()
    shared = Shared()
    runs = []
    for plan, chosen in plans:
        name = "-".join(filter(None, (chosen.model_name, chosen.completion_column)))
        pending = open_run(
            path,
            plan,
            chosen,
            engine,
            display,
            name=name,
            shared=shared,
        )
        pending.check()
        runs.append(pending)
    if len(runs) == 1:
        runs[0].begin(place)
        finished = runs[0].evaluate()
        return Matrix(finished.path or Path(), (finished,), {})
    parent, members = _begin_together(runs, place)
    return finish_together(parent, members, display)


def _read_plans(
    path: TaskSource,
    models: Sequence[object],
    completion_columns: Sequence[str | None],
    options: Mapping[str, Any],
) -> list[tuple[Plan, Options]]:
    """Return the plan of each run, for every model and completion column, with its options."""
    common = read_options("run", options)
    choices = product(
        map(read_model, models) if models else (common.model,),
        completion_columns or (common.completion_column,),
    )
    plans = []
    for model, column in choices:
        chosen = replace(common, model=model, completion_column=column)
        plans.append((read_plan(path, chosen), chosen))
    return plans


def _refuse_calls(jobs: Iterable[Job]) -> None:
    """Raise E119 for a task that would call a model."""
    for job in jobs:
        task = job.task
        if job.completions_from is None and task.solver and task.solver.needs_model:
            message = f"task `{task.key}` calls a model, and `score` calls none"
            hint = "add `--completions FILE` or `--completion-column NAME`, or use `answerkey run`"
            raise SpecError("E119", message, hint=hint)


class MatrixMember(NamedTuple):
    """One of several runs: its name and folder, and a run that has begun, a complete one, or the
    error that stopped it.
    """

    name: str
    place: RunPlace
    result: Evaluation | Run | AnswerkeyError


def _begin_together(
    runs: Sequence[Evaluation],
    parent: RunPlace | NewFolder,
) -> tuple[RunPlace, list[MatrixMember]]:
    """Create a folder for each run below `parent`: all of them, or none."""
    folders = []
    for number, pending in enumerate(runs, start=1):
        slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", pending.name).strip("-")
        folders.append(f"{number}-{slug}")
    members: list[MatrixMember] = []
    with ExitStack() as undo:
        if isinstance(parent, NewFolder):
            parent, created = parent.make()
            for path in reversed(created):
                undo.callback(remove_empty, path)
        for folder, pending in zip(folders, runs, strict=True):
            pending.manifest["matrix"] = folders
            pending.begin(parent / folder)
            undo.callback(pending.writer.discard)
            members.append(MatrixMember(pending.name, parent / folder, pending))
        undo.pop_all()
    return parent, members


def finish_together(
    parent: RunPlace,
    members: Sequence[MatrixMember],
    display: Display,
) -> Matrix:
    """Evaluate all runs, at the same time where models are called, and return them.

    Models of one endpoint take turns, so that its limits hold for them together. What ends one run
    does not end the others. Ctrl-C, and an error of ours, stop all of them.
    """
    from answerkey.evaluate.session import calls_live, count_questions, share_turns

    turns: dict[object, threading.Lock] = {}
    pending: dict[int, Evaluation] = {}
    for number, member in enumerate(members):
        if isinstance(member.result, Evaluation):
            run = pending[number] = member.result
            run.jobs = share_turns(run.jobs, turns, run.options)
            run.display = display.open_run(member.name, count_questions(run.jobs))
    num_other_runs = 0
    if any(calls_live(run.jobs) for run in pending.values()):
        num_other_runs = len(pending) - 1
    works = {number: partial(_finish, run, num_other_runs) for number, run in pending.items()}
    try:
        if num_other_runs:
            outcomes = call_together(works)
        else:
            outcomes = {number: work() for number, work in works.items()}
    except BaseException as error:
        error.__notes__ = [f"answerkey resume {shlex.quote(str(parent))}"]
        for member in members:  # some had not begun; those that have ended stay as is
            if isinstance(member.result, Evaluation):
                with suppress(Stopped), member.result.writer:
                    raise Stopped from None
        raise
    return _collect(parent, members, outcomes)


def _collect(
    parent: RunPlace,
    members: Sequence[MatrixMember],
    outcomes: Mapping[int, Run | AnswerkeyError],
) -> Matrix:
    runs: list[Run] = []
    errors: dict[str, AnswerkeyError] = {}
    for number, member in enumerate(members):
        result = outcomes.get(number, member.result)
        if isinstance(result, AnswerkeyError):
            name = member.name
            if name in errors:
                name = f"{name} ({number + 1})"
            errors[name] = result
            with suppress(AnswerkeyError):
                result = load_run(member.place)
        if isinstance(result, Run):
            runs.append(result)
    return Matrix(parent, tuple(runs), errors)


def _finish(pending: Evaluation, num_other_runs: int) -> Run | AnswerkeyError:
    """Return one of several runs finished, or the error that ended it."""
    try:
        finished = pending.evaluate(num_other_runs)
    except AnswerkeyError as error:
        pending.display.close(error)
        return error
    pending.display.close(None)
    return finished


# `score`: from tables in memory to a run in memory.


@show_options(ScoreOptions)
def score(
    task: TaskSource,
    samples: Tabular | str | Path | None = None,
    completions: Tabular | Iterable[str | None] | str | Path | None = None,
    **options: Unpack[ScoreOptions],
) -> Run:
    """Score completions against samples in memory and return the run; options as in `Options`.

    Tables are those of any library. `completions` is a table, a file, or texts in the order of the
    samples; without it the samples' own completion column is scored, or a model that is given is
    called. A data file in place of the task brings its samples: its columns are recognised. A
    scorer that calls a model must name it by provider or URL; it is called.
    """
    chosen = read_options("score", options, ScoreOptions)
    if is_data_file(task) == (samples is not None):
        message = "a data file in place of a task brings its samples; a task needs some"
        raise SpecError("E119", message, hint="pass a task and `samples`, or a data file alone")
    if isinstance(samples, str | Path):
        chosen = replace(chosen, dataset=samples)
    elif samples is not None:
        chosen = replace(chosen, dataset=MemorySource(load_rows(samples, name="samples")))
    recorded = _read_completions(completions)
    plan_options = chosen
    if recorded is not None or (samples is not None and chosen.model is None):
        plan_options = replace(chosen, completions="given")
    plan = read_plan(task, plan_options, is_callers=isinstance(task, Mapping) or None)
    engine = open_engine(chosen.engine, chosen.ray_address)
    planned = [replace(job, completions_from=recorded) for job in plan.jobs]
    # In memory, there is no file of completions that the run could refer to.
    kept = replace(chosen, copy=True)
    jobs = open_jobs(planned, kept, can_use_own=True)
    manifest = describe_run(
        plan.key,
        plan.display_name,
        jobs,
        plan.notices,
        plan.policies,
    )
    return Evaluation(
        plan.key,
        jobs,
        manifest,
        engine,
        chosen,
        Display(),
    ).run(None)


def _read_completions(
    completions: Tabular | Iterable[str | None] | str | Path | None,
) -> Location | Rows | None:
    """Return the file of completions, or the rows of a table or of texts."""
    if completions is None or isinstance(completions, str | Path):
        return completions
    table = load_rows(
        completions,
        name="completions",
        by_trial=True,
        lone="completion",
    )
    return table.rows
