"""Several runs at once: every model, or every column of completions, with all tasks, in a folder of its own.

Everything is read, opened and checked first, each dataset once. Then every run has its folder, and only then
is a model called: each run in a thread of its own, the endpoints at the same time. Models of one endpoint
take turns, so that its limits hold for them together. What ends one run does not end the others.
"""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Unpack

from answerkey.engines import open_engine
from answerkey.errors import AnswerkeyError, RunError, SpecError
from answerkey.evaluate.prepare import Opened, RunOptions, read_options
from answerkey.evaluate.rerun import reopen_stopped
from answerkey.evaluate.runner import (
    Ready,
    Started,
    TaskSource,
    check_beforehand,
    prepare_run,
    read_plan,
    start_new,
)
from answerkey.models.calls import StoppableThread, Stopped
from answerkey.runs import (
    Run,
    RunPlace,
    choose_place,
    find_place,
    is_run,
    list_places,
    load_manifest,
    load_run,
    name_answerer,
)

if TYPE_CHECKING:
    from answerkey.evaluate.session import Display

#: So many runs are under way at a time.
MOST_AT_ONCE = 32
#: The main thread looks up this often, so that Ctrl-C is heard.
SIGNAL_SECONDS = 0.25


@dataclass(frozen=True)
class Matrix:
    """Several runs below one folder, in the order in which they were asked for.

    `errors` say what kept runs from their end, by the names of their models or columns. What is there of such
    a run is among the runs all the same.
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
    path: TaskSource,
    *,
    models: Sequence[str | Callable[..., object]] = (),
    completion_columns: Sequence[str] = (),
    out: str | RunPlace | None = None,
    display: Display | None = None,
    **options: Unpack[RunOptions],
) -> Matrix:
    """Run a file once for each model, or for each column of completions, and return the runs.

    Without `models`, they are those of the file's `matrix`. Each run has a folder below `out`; one alone has
    `out` itself, and raises what ends it. Options as in `Options`; limits are those of each run.
    """
    if len(models) > 1 and len(completion_columns) > 1:
        message = "`--model` and `--completion-column` are both given several times"
        raise SpecError("E119", message, hint="name several models, or several columns")
    display, opened, given = display or _look_away(), Opened(), dict[str, Any](options)
    given["dataset"] = (first := read_options("run_matrix", given)).dataset  # a table is read once
    planned = []
    for model, column in product(models or [first.model], completion_columns or [first.completion_column]):
        chosen = read_options("run_matrix", {**given, "model": model, "completion_column": column})
        plan, notices = read_plan(path, chosen)
        names = list(plan.matrix) or ["-".join(filter(None, (chosen.model_name, column)))]
        planned += [(name, one, notices, chosen) for name, one in zip(names, plan.split(), strict=True)]
    engine = open_engine(first.engine, first.ray_address)
    parent = choose_place(out, planned[0][1].key)
    runs = [prepare_run(path, plan, notices, chosen, opened) for _, plan, notices, chosen in planned]
    checked = [check_beforehand(one.tasks, one.options, engine, display.report, opened) for one in runs]
    if len(runs) == 1:
        ready, heard = replace(runs[0], tasks=checked[0][0]), checked[0][1]
        return Matrix(parent, (start_new(ready, parent, engine, heard).finish(display.report, display),), {})
    slugs = [re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-") for name, *_ in planned]
    folders = [f"{number}-{slug}".rstrip("-") for number, slug in enumerate(slugs, start=1)]
    jobs: list[Job] = []
    with ExitStack() as undo:
        for one, (tasks, heard), folder, (name, *_) in zip(runs, checked, folders, planned, strict=True):
            manifest = {**one.manifest, "matrix": folders}
            started = start_new(Ready(tasks, manifest, one.options), parent / folder, engine, heard)
            undo.callback(started.writer.discard)
            jobs.append(Job(name, parent / folder, started))
        undo.pop_all()
    return finish_together(parent, jobs, display)


def resume_matrix(
    folder: str | RunPlace, *, display: Display | None = None, **options: Unpack[RunOptions]
) -> Matrix:
    """Go on with every run below a folder and return all of them; options as in `resume`."""
    display, opened, parent = display or _look_away(), Opened(), find_place(folder)
    places = list_places(parent)
    if not places:
        hint = "`answerkey runs` lists the runs of a folder"
        raise RunError("E501", f"`{parent}` is no run folder, and there is none below it", hint=hint)
    jobs: list[Job] = []
    wanted: dict[RunPlace, None] = {}
    with ExitStack() as undo:
        for place in places:
            name = place.name
            try:
                manifest = load_manifest(place)
                name = next((name_answerer(one) for one in manifest["tasks"]), name)
                wanted |= dict.fromkeys(
                    find_place(place.parent) / one for one in manifest.get("matrix") or ()
                )
                found: Started | Run | AnswerkeyError = reopen_stopped(place, options, display.report, opened)
            except AnswerkeyError as error:
                found = error
            if isinstance(found, Started):
                undo.callback(found.writer.close)
            jobs.append(Job(name, place, found))
        undo.pop_all()
    for place in [one for one in wanted if one not in places]:
        message = f"`{place}` is gone, or was never begun: no model was called then"
        error = RunError("E507", message, hint="start it again with `answerkey run`")
        jobs.append(Job(place.name, place, error))
    return finish_together(parent, jobs, display)


def _look_away() -> Display:
    from answerkey.evaluate.session import NobodyLooks

    return NobodyLooks()


@dataclass(frozen=True)
class Job:
    """One of several runs: about to begin, complete already, or what keeps it from being gone on with."""

    name: str
    place: RunPlace
    run: Started | Run | AnswerkeyError


def finish_together(parent: RunPlace, jobs: Sequence[Job], display: Display) -> Matrix:
    """Take all runs to their end, at the same time where models are called, and return them.

    Ctrl-C, and an error of ours, stop all of them; how to go on is noted on it.
    """
    started = {number: job.run for number, job in enumerate(jobs) if isinstance(job.run, Started)}
    totals, is_live = dict.fromkeys(started, 0), False
    if any(task.calls_models for one in started.values() for task in one.tasks):
        from answerkey.evaluate.session import calls_live, count_questions, share_turns

        turns: dict[object, threading.Lock] = {}
        for number, one in started.items():
            started[number] = replace(one, tasks=share_turns(one.tasks, turns, one.options))
            totals[number] = count_questions(one.tasks)
            is_live |= calls_live(one.tasks)
    outcomes: dict[int, Run | AnswerkeyError] = {}
    threads: dict[int, StoppableThread[Run | AnswerkeyError]] = {}
    shown = {number: display.open_run(jobs[number].name, total) for number, total in totals.items()}
    waiting, num_beside = list(started), min(len(started), MOST_AT_ONCE) - 1 if is_live else 0

    def work(number: int) -> Run | AnswerkeyError:
        one, listener = started[number], shown[number]
        try:
            found: Run | AnswerkeyError = one.finish(listener.report, listener, num_beside)
        except AnswerkeyError as error:
            found = error
        listener.close(found if isinstance(found, AnswerkeyError) else None)
        return found

    try:
        while waiting and not is_live:
            number = waiting.pop(0)
            outcomes[number] = work(number)
        while waiting or threads:
            while waiting and len(threads) < MOST_AT_ONCE:
                number = waiting.pop(0)
                name = f"answerkey-run-{jobs[number].name}"
                threads[number] = StoppableThread(partial(work, number), name)
                threads[number].start()
            running = [one.outcome for one in threads.values()]
            wait(running, timeout=SIGNAL_SECONDS, return_when=FIRST_COMPLETED)
            for number in [number for number, one in threads.items() if one.outcome.done()]:
                outcomes[number] = threads[number].outcome.result()
                del threads[number]
    except BaseException as stop:
        stop.__notes__ = [f"answerkey resume {shlex.quote(str(parent))}"]
        message = getattr(stop, "message", "interrupted")
        for one in threads.values():
            one.reason = Stopped(message)
        for number in waiting:  # it was to begin later
            with suppress(Stopped), started[number].writer:
                raise Stopped(message) from None
        wait([one.outcome for one in threads.values()])
        raise
    runs, errors = list[Run](), dict[str, AnswerkeyError]()
    for number, job in enumerate(jobs):
        found = outcomes.get(number) or job.run
        if isinstance(found, AnswerkeyError):
            errors[job.name if job.name not in errors else f"{job.name} ({number + 1})"] = found
            with suppress(AnswerkeyError):
                runs.extend([load_run(job.place)] if is_run(job.place) else [])
        elif isinstance(found, Run):
            runs.append(found)
    return Matrix(parent, tuple(runs), errors)
