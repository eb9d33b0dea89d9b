"""`run`, `score`, `check`, `resume` and `rescore`: from a task file to a run and its summary."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from answerkey.cli.console import Console
from answerkey.cli.options import (
    CALL_OPTIONS,
    LIVE_OPTIONS,
    POLICY_OPTIONS,
    REPORT_OPTIONS,
    RESCORE_OPTIONS,
    RESUME_OPTIONS,
    RUN_OPTIONS,
    SAVE,
    TASK_OPTIONS,
    Chosen,
    WriteFiles,
    add_options,
    complete_model,
    complete_run,
    complete_task,
    find_baseline,
    find_exit_code,
    keep_files,
    option,
    with_console,
    write_files,
)
from answerkey.errors import AnswerkeyError, SpecError, raise_all

if TYPE_CHECKING:
    from answerkey.runs import Run
    from answerkey.spec import Specification


@click.command(
    "run",
    epilog="""\b
Examples:
  answerkey run questions.jsonl --model builtin/longest
  answerkey run my-project
  answerkey run task.yaml --dataset questions.jsonl --model builtin/longest
  answerkey run my-project --model builtin/random --model builtin/longest""",
)
@click.argument("file", metavar="FILE", shell_complete=complete_task)
@option(
    "--model",
    "NAME",
    "Who answers; again: one run each.",
    "models",
    multiple=True,
    shell_complete=complete_model,
)
@add_options(*TASK_OPTIONS, SAVE, *RUN_OPTIONS)
@add_options(*LIVE_OPTIONS, *POLICY_OPTIONS, *REPORT_OPTIONS)
@click.option("--dry-run", is_flag=True, help="Show prompts, calls and tokens; call no model.")
@with_console
def run_command(
    console: Console, file: str, models: tuple[str, ...], *, dry_run: bool, out: str | None, **options: object
) -> int:
    """Check FILE, solve and score its tasks, write the run, print the summary.

    FILE is a data file, whose columns are recognised, a run file, a folder that holds `run.yaml`, a task
    file, or a ready-made task (`answerkey tasks`); for a task file `--dataset` and `--model` or
    `--completions` fill what it leaves open.
    """
    with keep_files(options) as write:
        options = find_baseline(options)
        open_data_file(console, file, options, next(iter(models), None))
        if dry_run:
            from answerkey.evaluate.runner import plan_calls
            from answerkey.reports.preview import describe_plan, draw_plan

            plans = [plan_calls(file, **options | {"model": one}) for one in models or (None,)]
            if console.as_json:
                found = [describe_plan(plan) for plan in plans]
                console.print_json({"dry_run": found[0] if len(found) == 1 else found})
            for plan in plans if not console.as_json else ():
                console.print_lines(draw_plan(plan))
            return 0
        if len(models) > 1:
            runs = _run_each(console, file, models, out=out, options=options)
        else:
            model = models[0] if models else None
            runs = [run_file(console, file, out=out, options=options | {"model": model})]
        return finish(console, runs, write=write)


def open_data_file(console: Console, file: str, options: Chosen, model: str | None = None) -> None:
    """Say what is recognised in a data file, and write it as a project where `--save` asks for that.

    That option is taken out of the others.
    """
    from answerkey.evaluate.prepare import Options
    from answerkey.spec.data_file import describe_file, is_data_file, write_project

    folder = options.pop("save", None)
    if is_data_file(file):
        chosen = Options(**{"model": model, **options})  # type: ignore[arg-type]  # the fields of Options
        console.say_text(describe_file(file, chosen))
        if folder is not None:
            write_files(Path(str(folder)), write_project(file, chosen, Path(str(folder))))
            console.say_text(f"project: {folder}")
    elif folder is not None:
        message = f"`--save` writes a data file as a project, and `{file}` is none"
        raise SpecError("E119", message, hint="leave it out")


def run_file(console: Console, file: str | Path, *, out: str | Path | None, options: Chosen) -> Run:
    """Run a file, and show how far it is."""
    from answerkey.evaluate import runner

    with console.display() as display:
        return runner.run(file, out=out, progress=display.report, listener=display, **options)


def _run_each(
    console: Console, file: str, models: tuple[str, ...], *, out: str | None, options: Chosen
) -> list[Run]:
    from answerkey.models.model import LiveModel, open_model

    for model in models:  # a mistyped last name is found before the first model is asked
        for one in _read_plan(file, options | {"model": model}):
            opened = None if one.model is None else open_model(one.model)
            if isinstance(opened, LiveModel):
                opened.require_ready()
                if options.get("batch"):
                    opened.connection.require_batches()
    runs = []
    for number, model in enumerate(models, start=1):
        slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", model).strip("-")
        folder = f"{out.rstrip('/')}/{number}-{slug}" if out else None
        runs.append(run_file(console, file, out=folder, options=options | {"model": model}))
    return runs


def _read_plan(file: str, options: Chosen) -> Sequence[Specification]:
    """Return what a file asks for; raise all its errors."""
    from answerkey.evaluate.prepare import Options
    from answerkey.spec import load_plan

    loaded = load_plan(file, Options(**options))  # type: ignore[arg-type]  # the fields of Options
    raise_all(loaded.errors)
    return loaded.value.specifications if loaded.value else ()


def finish(
    console: Console,
    runs: list[Run],
    steps: Sequence[tuple[str, str]] = (),
    *,
    write: WriteFiles | None = None,
) -> int:
    """Print the summary of a run, or of several and the table that compares them; return the exit code.

    `write` is for what others are to read of it.
    """
    from answerkey.reports.terminal import draw_next_steps, draw_side_by_side, draw_summary
    from answerkey.reports.view import describe_run
    from answerkey.text import BLANK

    if console.as_json:
        several = {"runs": [describe_run(run) for run in runs]}
        console.print_json(several if len(runs) > 1 else describe_run(runs[0]))
    else:
        for run in runs:
            console.print_lines([*draw_summary(run, console.width, verbose=console.verbose), BLANK])
        if len(runs) > 1:
            console.print_lines(draw_side_by_side(runs, console.width))
        else:
            console.say(draw_next_steps(runs[0], steps))
    if write is not None:
        write(runs)
    return find_exit_code(runs)


@click.command(
    "score",
    epilog="""\b
Examples:
  answerkey score questions.jsonl --completions answers.jsonl
  answerkey score task.yaml --dataset questions.jsonl --completions answers.jsonl
  answerkey score task.yaml --dataset both.jsonl --completion-column completions.my-model""",
)
@click.argument("file", metavar="FILE", shell_complete=complete_task)
@add_options(*TASK_OPTIONS, SAVE, *RUN_OPTIONS, *CALL_OPTIONS, *POLICY_OPTIONS, *REPORT_OPTIONS)
@with_console
def score_command(console: Console, file: str, *, out: str | None, **options: object) -> int:
    """Score recorded completions with the task in FILE, or of a data file; no model is asked for them.

    `--completions` may be left out when the dataset itself has the completion column. A scorer that asks a
    model asks it.
    """
    with keep_files(options) as write:
        options = find_baseline(options)
        open_data_file(console, file, options)
        if options["completions"] is None and options["completion_column"] is None:
            for one in _read_plan(file, options):
                if one.completions is None and one.task.solver is not None and one.task.solver.needs_model:
                    message = f"task `{one.task.key}` calls a model, and `score` calls none"
                    hint = "add `--completions FILE` or `--completion-column NAME`, or use `answerkey run`"
                    raise SpecError("E119", message, hint=hint)
        return finish(console, [run_file(console, file, out=out, options=options)], write=write)


@click.command(
    "check",
    epilog="""\b
Examples:
  answerkey check questions.jsonl
  answerkey check my-project
  answerkey check task.yaml --dataset questions.jsonl --plan""",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, shell_complete=complete_task)
@option(
    "--model",
    "NAME",
    "Model key or provider/name, in place of the one in FILE.",
    shell_complete=complete_model,
)
@add_options(*TASK_OPTIONS, *POLICY_OPTIONS)
@click.option("--plan", is_flag=True, help="Show how each template will be evaluated.")
@with_console
def check_command(console: Console, files: tuple[str, ...], *, plan: bool, **options: object) -> int:
    """Find every mistake in FILE that can be found without asking a model; several files one by one.

    Files, config, templates on every row, columns, truths, choices, metric fields; all at once. Exit code 2
    on errors, 0 on warnings alone.
    """
    from answerkey.evaluate import runner
    from answerkey.reports.preview import describe_check, draw_check
    from answerkey.text import Span, line

    chosen = find_baseline(options)
    for file in files:
        with suppress(AnswerkeyError):  # it is told with the others
            open_data_file(console, file, chosen)
    with console.display() as display:
        checked = {file: runner.check(file, progress=display.report, **chosen) for file in files}
    if console.as_json:
        described = [describe_check(one, file) for file, one in checked.items()]
        console.print_json(described[0] if len(files) == 1 else {"checks": described})
    else:
        for file, one in checked.items():
            console.print_lines([line(Span(file, "title"))] if len(checked) > 1 else [])
            console.print_lines(draw_check(one, console.width, with_plan=plan))
    codes = (error.exit_code for one in checked.values() for error in one.errors)
    return max(codes, default=0)


@click.command("resume", epilog="Example: answerkey resume latest")
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@add_options(*RESUME_OPTIONS, *REPORT_OPTIONS)
@with_console
def resume_command(console: Console, run: str, **options: object) -> int:
    """Go on with RUN where it stopped; what was answered is not asked again.

    RUN is a run folder, its name below `runs`, or `latest`. Calls that failed are repeated. A run that is
    complete is left as it is.
    """
    from answerkey.evaluate import rerun
    from answerkey.reports.view import find_run
    from answerkey.runs import find_place, has_only_begun, load_manifest

    with keep_files(options) as write:
        place = find_place(run)
        if isinstance(place, Path) and not place.is_dir():
            place = find_run(run).path or place
        if not has_only_begun(place) and load_manifest(place)["status"] == "complete":
            console.say_text("the run is complete: there is nothing to go on with")
        with console.display() as display:
            resumed = rerun.resume(place, progress=display.report, listener=display, **options)
        return finish(console, [resumed], write=write)


@click.command(
    "rescore",
    epilog="""\b
Examples:
  answerkey rescore latest
  answerkey rescore runs/my-run task.yaml --out runs/my-run-again""",
)
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.argument("file", metavar="[FILE]", required=False)
@add_options(*RESCORE_OPTIONS, *POLICY_OPTIONS, *REPORT_OPTIONS)
@with_console
def rescore_command(
    console: Console, run: str, file: str | None, *, out: str | None, **options: object
) -> int:
    """Score the completions of RUN again, as a new run; no model is asked for completions.

    FILE is a changed task file, or the run file that has it; without FILE the tasks of RUN are used as they
    were. Samples and completions are those of RUN. A scorer that asks a model asks it, unless the call cache
    knows what it said.
    """
    from answerkey.evaluate import rerun
    from answerkey.reports.view import find_run

    with keep_files(options) as write:
        options = find_baseline(options)
        with console.display() as display:
            scored = rerun.rescore(
                find_run(run), file, out=out, progress=display.report, listener=display, **options
            )
        return finish(console, [scored], write=write)
