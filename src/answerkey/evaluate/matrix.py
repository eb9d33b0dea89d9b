"""Several runs at once: every model, or every column of completions, with all tasks, in a folder of
its own.

Everything is read, opened and checked first, each dataset once. Then every run has its folder, and
only then is a model called: each run in a thread of its own, the endpoints at the same time. Models
of one endpoint take turns, so that its limits hold for them together. What ends one run does not
end the others.
"""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from answerkey.engines import open_engine
from answerkey.errors import AnswerkeyError, RunError, SpecError, Stop, Stopped
from answerkey.evaluate import runner
from answerkey.evaluate.prepare import Opened, RunOptions, read_options
from answerkey.runs import (
    NewFolder,
    Run,
    RunPlace,
    begin_noted,
    choose_place,
    find_place,
    forget_beginnings,
    list_places,
    load_run,
    name_answerer,
    remove_empty,
    write_beginnings,
)

if TYPE_CHECKING:
    from answerkey.evaluate.session import Display

#: So many runs are under way at a time.
MOST_AT_ONCE = 32
#: The main thread looks up this often, so that Ctrl-C is heard.
SIGNAL_SECONDS = 0.25
#: One of several runs: its name, where it lies, and the run, about to begin or complete, or what is
#: wrong.
Job = tuple[str, RunPlace, runner.Started | Run | AnswerkeyError]


@dataclass(frozen=True)
class Matrix:
    """Several runs below one folder, in the order in which they were asked for.

    `errors` say what kept runs from their end, by the names of their models or columns. What is
    there of such a run is among the runs all the same.
    """

    path: RunPlace
    runs: tuple[Run, ...]
    errors: Mapping[str, AnswerkeyError]

    @property
    def status(self) -> str:
        """`complete` if every run is."""
        is_complete = not self.errors and all(run.status == "complete" for run in self.runs)
        return "complete" if is_complete else "incomplete"


def run_matrix(
    path: runner.TaskSource,
    *,
    models: Sequence[str | Callable[..., object] | None] = (),
    completion_columns: Sequence[str | None] = (),
    out: str | RunPlace | None = None,
    display: Display | None = None,
    calls_model: bool = True,
    **options: Unpack[RunOptions],
) -> Matrix:
    """Run a file once for each model, or each completion column.

    Without `models`, they are those of the file's `matrix`. Each run has a folder below `out`; one
    alone has `out` itself, and raises what ends it. Options as in `Options`; limits are those of
    each run. Without `calls_model`, a task that has no recorded completions is E119.
    """
    if len(models) > 1 and len(completion_columns) > 1:
        message = "`--model` and `--completion-column` are both given several times"
        raise SpecError("E119", message, hint="name several models, or several columns")
    given, opened, display = dict[str, Any](options), Opened(), display or open_null_display()
    first = read_options("run_matrix", given)
    given["dataset"] = first.dataset  # a table is read once
    planned = []
    for model, column in product(
        models or (given.get("model"),), completion_columns or (first.completion_column,)
    ):
        chosen = read_options("run_matrix", {**given, "model": model, "completion_column": column})
        plan, notices = runner.read_plan(path, chosen)
        for one in () if calls_model else plan.specifications:
            if (
                one.completions is None
                and one.task.solver is not None
                and one.task.solver.needs_model
            ):
                message = f"task `{one.task.key}` calls a model, and `score` calls none"
                hint = (
                    "add `--completions FILE` or `--completion-column NAME`, or use `answerkey run`"
                )
                raise SpecError("E119", message, hint=hint)
        names = list(plan.matrix) or ["-".join(filter(None, (chosen.model_name, column)))]
        planned += [
            (name, one, notices, chosen) for name, one in zip(names, plan.split(), strict=True)
        ]
    engine = open_engine(first.engine, first.ray_address)
    parent, ready = choose_place(out, planned[0][1].key), []
    for _, plan, notices, stated in planned:
        tasks, manifest, chosen = runner.prepare_run(path, plan, notices, stated, opened)
        tasks, heard = runner.check_beforehand(tasks, chosen, engine, display.report, opened)
        ready.append((tasks, manifest, chosen, heard))
    if len(ready) == 1:
        alone = runner.start_new(tasks, parent, manifest, engine, chosen, heard)
        run = alone.finish(display.report, display)
        return Matrix(run.path or Path(), (run,), {})
    slugs = [re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-") for name, *_ in planned]
    folders, jobs = [f"{number}-{slug}" for number, slug in enumerate(slugs, start=1)], list[Job]()
    with ExitStack() as undo:
        if isinstance(parent, NewFolder):
            parent, made = parent.make()
            for made_folder in reversed(made):
                undo.callback(remove_empty, made_folder)
        beginnings = {}
        for folder, (tasks, manifest, _, heard) in zip(folders, ready, strict=True):
            manifest["matrix"] = folders
            beginning, samples = runner.describe_beginning(tasks, manifest, heard)
            if not samples:
                beginnings[folder] = beginning
        write_beginnings(parent, beginnings)
        undo.callback(forget_beginnings, parent)
        for (tasks, manifest, chosen, heard), folder, (name, *_) in zip(
            ready, folders, planned, strict=True
        ):
            started = runner.start_new(tasks, parent / folder, manifest, engine, chosen, heard)
            undo.callback(started.writer.discard)
            jobs.append((name, parent / folder, started))
        undo.pop_all()
    forget_beginnings(parent)
    return finish_together(parent, jobs, display)


def open_null_display() -> Display:
    """Return a display that shows nothing; what it stands on is for runs that call models."""
    from answerkey.evaluate.session import NullProgress

    return NullProgress()


def resume_matrix(
    folder: str | RunPlace, *, display: Display | None = None, **options: Unpack[RunOptions]
) -> Matrix:
    """Go on with every run below a folder.

    Returns all of them; options as in `resume`.
    """
    from answerkey.evaluate.rerun import reopen_stopped

    opened, parent, display = Opened(), find_place(folder), display or open_null_display()
    begin_noted(parent)
    places, jobs, others = list_places(parent), list[Job](), dict[RunPlace, None]()
    if not places:
        hint = "`answerkey runs` lists the runs of a folder"
        raise RunError(
            "E501", f"`{parent}` is no run folder, and there is none below it", hint=hint
        )
    with ExitStack() as undo:
        for place in places:
            name = place.name
            try:
                known = load_run(place).manifest
                name = next((name_answerer(one) for one in known["tasks"]), name)
                others |= dict.fromkeys(
                    find_place(place.parent) / one for one in known.get("matrix") or ()
                )
                found: Any = reopen_stopped(place, options, display.report, opened)
            except AnswerkeyError as error:
                found = error
            if isinstance(found, runner.Started):
                undo.callback(found.writer.close)
            jobs.append((name, place, found))
        undo.pop_all()
    for place in [one for one in others if one not in places]:
        message = f"`{place}` is gone, or was never begun: no model was called then"
        hint = "start it again with `answerkey run`"
        jobs.append((place.name, place, RunError("E507", message, hint=hint)))
    return finish_together(parent, jobs, display)


def finish_together(parent: RunPlace, jobs: Sequence[Job], display: Display) -> Matrix:
    """Take all runs to their end, at the same time where models are called, and return them.

    Ctrl-C, and an error of ours, stop all of them; how to go on is noted on it.
    """
    from answerkey.evaluate.session import calls_live, count_questions, share_turns

    started = {
        number: run for number, (_, _, run) in enumerate(jobs) if isinstance(run, runner.Started)
    }
    is_live, stop = any(calls_live(one.tasks) for one in started.values()), Stop()
    turns: dict[object, threading.Lock] = {}
    sizes = {number: count_questions(one.tasks) for number, one in started.items()}
    shown = {number: display.open_run(jobs[number][0], size) for number, size in sizes.items()}

    def work(number: int) -> Run | AnswerkeyError:
        one, look, num_beside = started[number], shown[number], len(started) - 1 if is_live else 0
        one = replace(one, tasks=share_turns(one.tasks, turns, one.options))
        try:
            with stop.followed():
                found: Run | AnswerkeyError = one.finish(look.report, look, num_beside)
        except AnswerkeyError as error:
            found = error
        look.close(found if isinstance(found, AnswerkeyError) else None)
        return found

    futures: dict[int, Future[Run | AnswerkeyError]] = {}
    pool = ThreadPoolExecutor(
        MOST_AT_ONCE, thread_name_prefix="answerkey-run"
    )  # idle without threads
    try:
        for number in started:
            futures[number] = pool.submit(work, number) if is_live else Future()
            if not is_live:
                futures[number].set_result(work(number))
        while wait(futures.values(), SIGNAL_SECONDS, FIRST_EXCEPTION).not_done:
            for one in futures.values():
                if one.done():
                    one.result()
        outcomes = {number: one.result() for number, one in futures.items()}
    except BaseException as error:
        error.__notes__ = [f"answerkey resume {shlex.quote(str(parent))}"]
        stop.message = getattr(error, "message", "interrupted")
        pool.shutdown(cancel_futures=True)
        for (
            left
        ) in started.values():  # some were to begin later; those that have ended stay as they are
            with suppress(Stopped), left.writer:
                raise Stopped from None
        raise
    pool.shutdown()
    runs, errors = list[Run](), dict[str, AnswerkeyError]()
    for number, (name, place, run) in enumerate(jobs):
        found = outcomes.get(number) or run
        if isinstance(found, AnswerkeyError):
            errors[name if name not in errors else f"{name} ({number + 1})"] = found
            with suppress(AnswerkeyError):
                found = load_run(place)
        runs.extend([found] if isinstance(found, Run) else [])
    return Matrix(parent, tuple(runs), errors)
