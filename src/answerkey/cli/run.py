"""`run`, `score`, `check`, `doctor`, `resume` and `rescore`: from a task file to a run and its
summary.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from answerkey.cli.console import Console, write_json, write_lines
from answerkey.cli.options import (
    COLUMN,
    CONFIG,
    ENV,
    FAILED,
    FILE,
    INCOMPLETE,
    NATURAL,
    POLICY_OPTIONS,
    POSITIVE,
    REPORT_OPTIONS,
    RUN,
    SCORE,
    SINGLE_ANSWERS,
    TASK,
    WriteFiles,
    add_options,
    command,
    find_baselines,
    find_exit_code,
    flag,
    keep_files,
    option,
    run_option,
    write_files,
)
from answerkey.errors import AnswerkeyError, DataError, SpecError
from answerkey.options import Options

if TYPE_CHECKING:
    from answerkey.evaluate.run import Matrix
    from answerkey.runs import Run
    from answerkey.text import Line

#: Options as the verbs take them: name to value.
Chosen = dict[str, Any]
#: A file, or the log of another tool as a run file that holds its tables.
Source = str | Mapping[str, Any]


SAVE = option(
    "--save", "DIR", "Also write a data file as a project of YAML files that does the same."
)
OUTSIDE = run_option("allow_outside")
OUT = option("--out", "DIR", "Folder of the run; default `runs/<time>-<key>`.")
ENGINE = run_option("engine", default=Options.engine)
ENGINE_AGAIN = run_option(
    "engine",
    help="local or ray: where chunks are evaluated; as before unless given.",
)
RAY_ADDRESS = run_option("ray_address")
ALLOW_FAILED = run_option("allow_failed")
TRUST = run_option("trust_code")
ALLOW_HOST = run_option("allow_hosts", multiple=True)
COPY = run_option("copy")
DATASET = run_option("dataset")
PRICE = run_option("price")
ROW_OPTIONS = (
    COLUMN,
    run_option("num_samples", type=POSITIVE),
    run_option("subsampling"),
    run_option("seed", type=int),
    ENV,
    OUTSIDE,
)
LOG_OPTIONS = (
    option(
        "--as",
        "WHAT",
        "log or data: what FILE is, where it may be both.",
        "read_as",
        type=click.Choice(["log", "data"]),
    ),
    TASK,
    SCORE,
    SINGLE_ANSWERS,
)
TASK_OPTIONS = (
    CONFIG,
    DATASET,
    run_option("completions"),
    run_option("completion_column", "completion_columns", multiple=True),
    run_option("split_thinking"),
    *ROW_OPTIONS,
    ALLOW_HOST,
)
CALL_OPTIONS = (
    run_option("cache_policy"),
    run_option("max_calls", type=NATURAL),
    run_option("max_cost", type=click.FloatRange(min=0)),
    PRICE,
)
LIVE_OPTIONS = (
    run_option("batch"),
    *CALL_OPTIONS,
    run_option("stop_on_nonsense"),
)
RUN_OPTIONS = (OUT, ENGINE, RAY_ADDRESS, ALLOW_FAILED, TRUST, COPY)


@command(
    "run",
    "run questions.jsonl --model builtin/longest",
    "run my-project",
    "run task.yaml --dataset questions.jsonl --model builtin/longest",
    "run my-project --model builtin/random --model builtin/longest",
)
@FILE
@run_option("model", "models", multiple=True)
@add_options(*LOG_OPTIONS, *TASK_OPTIONS, SAVE, *RUN_OPTIONS)
@add_options(*LIVE_OPTIONS, *POLICY_OPTIONS, *REPORT_OPTIONS)
@flag("--dry-run", "Show the first prompt, calls and tokens; call no model.")
def run_command(
    console: Console,
    file: str,
    models: tuple[str, ...],
    *,
    completion_columns: tuple[str, ...],
    dry_run: bool,
    out: str | None,
    **options: Any,
) -> int:
    """Check FILE, call the model, score the replies, write the run and print its summary.

    FILE is a data file, a run file, a folder with `run.yaml`, a task file, or a ready-made task
    (`answerkey tasks`). For a task file add `--dataset`, and `--model` or `--completions`.
    """
    options["models"] = models
    options["completion_columns"] = completion_columns
    return _start_runs(console, file, out, options, dry_run=dry_run)


def _start_runs(
    console: Console,
    file: str,
    out: str | None,
    options: Chosen,
    *,
    dry_run: bool = False,
    calls_model: bool = True,
) -> int:
    """Run a file, print the summary, and return the exit code; see `run_matrix`."""
    from answerkey.evaluate.run import run_matrix

    with keep_files(options) as write:
        find_baselines(options)
        source = open_source(console, file, options)
        if dry_run:
            return _show_plans(console, source, options)
        with console.display() as display:
            made = run_matrix(
                source,
                out=out,
                display=display,
                calls_model=calls_model,
                **options,
            )
        return finish(console, made, write=write)


def _show_plans(console: Console, file: Source, options: Chosen) -> int:
    """Print the calls that a run would make, for each model and each column of completions."""
    from answerkey.evaluate.dry_run import plan_calls
    from answerkey.reports.preview import describe_plan, draw_plan

    models = options.pop("models") or (None,)
    columns = options.pop("completion_columns") or (None,)
    plans = []
    for model, column in product(models, columns):
        plans.append(
            plan_calls(
                file,
                **options,
                model=model,
                completion_column=column,
            )
        )
    described = list(map(describe_plan, plans))
    console.show(
        lambda: {"dry_run": described[0] if len(described) == 1 else described},
        lambda: chain.from_iterable(map(draw_plan, plans)),
    )
    return 0


def open_source(console: Console, file: str, options: Chosen) -> Source:
    """Return the file of a command, or for the log of another tool the tables read from it.

    Options that only logs and data files have are removed from `options`.
    """
    read_as = options.pop("read_as")
    for_log = {name: options.pop(name) for name in ("task", "score", "single_answers")}
    kind = _find_kind(Path(file), read_as)
    if kind is not None:
        return _open_log(console, file, kind, options, for_log)
    for name, value in for_log.items():
        if value:
            flag = name.replace("_", "-")
            _refuse(f"`--{flag}` is for the log of another tool, which `{file}` is not")
    open_data_file(console, file, options)
    return file


def _open_log(
    console: Console,
    file: str,
    kind: str,
    options: Chosen,
    for_log: Chosen,
) -> Source:
    """Return the tables of another tool's log; options about its questions are removed."""
    from answerkey.importers import ImportOptions
    from answerkey.importers.imports import load_log

    if options.pop("save") is not None:
        _refuse_save(file)
    chosen = {name: value for name, value in for_log.items() if value}
    chosen |= {"columns": options["columns"], "allow_failed": options["allow_failed"]}
    options["columns"] = {}
    if kind.endswith("-batch") and options["dataset"] is not None:
        chosen["dataset"] = Path(options["dataset"]).resolve()
        options["dataset"] = None
    run, notices = load_log(Path(file), kind, ImportOptions(**chosen))
    console.say_text(f"{file}: log ({kind})")
    console.warn(notices)
    return run


def _find_kind(path: Path, read_as: str | None) -> str | None:
    """Return the kind of a log; None for a file that is not read as a log.

    Importers of other packages are asked only with `--as log`.
    """
    if read_as == "data" or not path.exists():
        return None
    if read_as is None and _is_project(path):
        return None
    from answerkey.importers.imports import OWN_READERS, READERS, find_kind

    if read_as is None:
        kind = find_kind(path, OWN_READERS)
        return None if kind == "plain" else kind
    kind = find_kind(path, READERS)
    if kind is None:
        message = f"`{path}` is not a known kind of log"
        raise DataError("E201", message, hint="`--as data`, or leave it out")
    return kind


def _is_project(path: Path) -> bool:
    """Return whether a path is a task or run file, or a folder with one; no importer is loaded."""
    if path.is_dir():
        return any(path.glob("run.y*ml"))
    if path.suffix not in {".yaml", ".yml"}:
        return False
    with path.open("rb") as stream:
        return not stream.read(8).startswith(b"evalId:")


def open_data_file(console: Console, file: str, options: Chosen) -> None:
    """Print what is recognised in a data file, and write it as a project if `--save` is given.

    `save` is removed from the options.
    """
    from answerkey.spec import Options, is_data_file

    folder = options.pop("save", None)
    if not is_data_file(file):
        if folder is not None:
            _refuse_save(file)
        return
    from answerkey.spec.data_file import describe_file, write_project

    first = dict(options)
    first["model"] = next(iter(first.pop("models", ())), first.get("model"))
    first["completion_column"] = next(iter(first.pop("completion_columns", ())), None)
    chosen = Options(**first)
    console.say_text(describe_file(file, chosen))
    if folder is not None:
        project = Path(folder)
        write_files(project, write_project(file, chosen, project))
        console.say_text(f"project: {folder}")


def _refuse_save(file: str) -> NoReturn:
    _refuse(f"`--save` writes a data file as a project, which `{file}` is not")


def _refuse(message: str) -> NoReturn:
    raise SpecError("E119", message, hint="leave it out")


def finish(
    console: Console,
    made: Matrix | Run,
    *,
    write: WriteFiles | None = None,
) -> int:
    """Print the summary of a run, or of several and the table that compares them.

    Return the exit code. `write` writes the files of `--junit` and `--summary`.
    """
    from answerkey.reports.view import describe_run
    from answerkey.runs import Run
    from answerkey.text import BLANK, describe_problems, draw_problems

    runs: Sequence[Run]
    if isinstance(made, Run):
        runs = [made]
        errors = []
    else:
        runs = made.runs
        errors = _list_errors(made)
    is_single = len(runs) == 1 and not errors
    resume = f"answerkey resume {shlex.quote(str(made.path))}"
    if not console.as_json:
        _print_runs(console, runs, str(made.path), is_single=is_single)
    elif is_single:
        write_json(describe_run(runs[0]))
    else:
        described: dict[str, object] = {"runs": [*map(describe_run, runs)]}
        if errors:
            described |= {"resume": resume, **describe_problems(errors)}
        write_json(described)
    if errors:
        write_lines([BLANK, *draw_problems(errors, console.width)], sys.stderr)
        console.say_text(f"to continue: {resume}")
    if write is not None:
        write(runs)
    return INCOMPLETE if errors else find_exit_code(runs)


def _list_errors(matrix: Matrix) -> list[AnswerkeyError]:
    """Return what went wrong in several runs; each error names its run."""
    problems = []
    for name, error in matrix.errors.items():
        for problem in getattr(error, "errors", (error,)):
            message = problem.message
            if f"`{name}`" not in message:
                message = f"`{name}`: {message}"
            where = problem.where
            problems.append(AnswerkeyError(problem.code, message, where=where, hint=problem.hint))
    return problems


def _print_runs(
    console: Console,
    runs: Sequence[Run],
    folder: str,
    *,
    is_single: bool,
) -> None:
    """Print summaries; then what to do next with a single run, or how several compare."""
    from answerkey.reports.terminal import draw_next_for_several, draw_next_steps, draw_summary
    from answerkey.text import BLANK

    for run in runs:
        summary = draw_summary(run, console.width, verbose=console.verbose)
        write_lines([*summary, BLANK], sys.stdout)
    if is_single:
        console.say(draw_next_steps(runs[0]))
    elif runs:
        from answerkey.reports.leaderboard import draw_leaderboard

        write_lines(draw_leaderboard(runs, console.width), sys.stdout)
        if sum(run.status == "complete" for run in runs) > 1:
            console.say([BLANK, *draw_next_for_several(folder)])


@command(
    "score",
    "score questions.jsonl --completions answers.jsonl",
    "score task.yaml --dataset questions.jsonl --completions answers.jsonl",
    "score task.yaml --dataset both.jsonl --completion-column completions.my-model",
)
@FILE
@add_options(
    *LOG_OPTIONS, *TASK_OPTIONS, SAVE, *RUN_OPTIONS, *CALL_OPTIONS, *POLICY_OPTIONS, *REPORT_OPTIONS
)
def score_command(
    console: Console,
    file: str,
    *,
    completion_columns: tuple[str, ...],
    out: str | None,
    **options: Any,
) -> int:
    """Score recorded completions with the task in FILE, a data file, or another tool's log.

    Call no model. Leave `--completions` out if the dataset has the completion column. A judge or
    fallback still calls its model.
    """
    is_recorded = options["completions"] is not None or bool(completion_columns)
    options["completion_columns"] = completion_columns
    return _start_runs(console, file, out, options, calls_model=is_recorded)


@command("export-prompts", "export-prompts my-project -o prompts.parquet")
@FILE
@option(
    "-o",
    "FILE",
    "File to write; its ending decides: .parquet, .jsonl or .csv.",
    "--out",
    required=True,
)
@option("--task", "KEY", "Task, if FILE has several.")
@add_options(CONFIG, DATASET, *ROW_OPTIONS)
def export_prompts_command(
    console: Console,
    file: str,
    *,
    out: str,
    task: str | None,
    **options: Any,
) -> None:
    """Write the prompts of a task, for an engine that generates offline; call no model.

    A row has `sample_id` (`option_order` and `trial` where there are several), `messages`, and
    `prompt`, the same as one text. `answerkey score` joins the completions by these ids.
    """
    from answerkey.exporters import export_prompts

    open_data_file(console, file, options)
    with console.display() as display:
        rows = export_prompts(
            file,
            out,
            task=task,
            progress=display.report,
            **options,
        )
    console.show(lambda: {"export_prompts": {"file": out, "rows": rows}}, tuple)
    console.say_text(f"{rows} prompts written to {out}")


@command(
    "check",
    "check questions.jsonl",
    "check my-project",
    "check task.yaml --dataset questions.jsonl",
)
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
)
@run_option("model", help="Model to use in place of the one in FILE.")
@add_options(*TASK_OPTIONS, *POLICY_OPTIONS)
def check_command(
    console: Console,
    files: tuple[str, ...],
    *,
    completion_columns: tuple[str, ...],
    **options: Any,
) -> int:
    """Find every mistake in FILE that can be found without a model; several files one by one.

    It checks files, config, templates on every row, columns, truths, choices and metric fields, and
    reports all mistakes at once. Exit code 2 on errors, 0 on warnings alone.
    """
    from answerkey.evaluate.dry_run import check
    from answerkey.reports.preview import describe_check, draw_check

    find_baselines(options)
    for file in files:
        with suppress(AnswerkeyError):  # it is reported with the others
            open_data_file(console, file, {**options, "completion_columns": completion_columns})
    results = []
    lines: list[Line] = []
    with console.display() as display:
        for file, column in product(files, completion_columns or (None,)):
            options["completion_column"] = column
            result = check(file, progress=display.report, **options)
            results.append((file, result))
            if len(files) > 1:
                lines.append(file)
            lines += draw_check(result, console.width)
    described = [describe_check(result, file) for file, result in results]
    console.show(
        lambda: described[0] if len(described) == 1 else {"checks": described}, lambda: lines
    )
    return max((error.exit_code for _, result in results for error in result.errors), default=0)


@command(
    "doctor",
    "doctor openai/gpt-4.1-nano",
    "doctor http://127.0.0.1:8000/v1#my-model my-project --timeout 120",
)
@click.argument("model", metavar="MODEL")
@click.argument("task", metavar="[TASK]", required=False)
@option("--timeout", "SECONDS", "Seconds for one call; default 20.", "seconds", default=20.0)
@add_options(PRICE, CONFIG, DATASET, COLUMN, ENV, OUTSIDE, ALLOW_HOST, TRUST)
def doctor_command(
    console: Console,
    model: str,
    task: str | None,
    **options: Any,
) -> int:
    """Call MODEL a few times and say whether its numbers can be trusted, before money is spent.

    With TASK (as for `run`), its first samples are asked and read by its own scorer. Exit code 1 if
    a check failed, 3 if the model gave no answer.
    """
    from answerkey.evaluate.doctor import examine
    from answerkey.reports.preview import draw_examination

    console.say_text(f"a few small calls, each of at most {options['seconds']:g} s")
    result = examine(model, task, **options)
    console.show(lambda: {"doctor": result}, lambda: draw_examination(result, console.width))
    if not result["answered"]:
        return INCOMPLETE
    return 0 if result["good"] else FAILED


@command("resume", "resume latest")
@RUN
@add_options(ENGINE_AGAIN, RAY_ADDRESS, ALLOW_FAILED, TRUST, ENV, ALLOW_HOST)
@add_options(*LIVE_OPTIONS, *REPORT_OPTIONS)
def resume_command(console: Console, run: str, **options: Any) -> int:
    """Continue RUN where it stopped, without repeating finished calls.

    RUN is a run folder, its name below `runs`, `latest`, or a folder of runs: all of them. Failed
    calls are repeated. A complete run does not change.
    """
    from answerkey.evaluate import rerun
    from answerkey.reports.listing import find_run
    from answerkey.runs import find_place, is_run, load_manifest

    with keep_files(options) as write:
        place = find_place(run)
        if isinstance(place, Path) and not place.is_dir():
            place = find_run(run).path or place
        if not is_run(place):
            with console.display() as display:
                return finish(
                    console, rerun.resume_matrix(place, display=display, **options), write=write
                )
        if load_manifest(place)["status"] == "complete":
            console.say_text("the run is complete: nothing is left to do")
        with console.display() as display:
            resumed = rerun.resume(place, display=display, **options)
        return finish(console, resumed, write=write)


@command(
    "rescore",
    "rescore latest",
    "rescore runs/my-run task.yaml --out runs/my-run-again",
)
@RUN
@click.argument("file", metavar="[FILE]", required=False)
@add_options(CONFIG, OUT, ALLOW_FAILED, TRUST, COPY, ENGINE, RAY_ADDRESS, ENV, OUTSIDE, ALLOW_HOST)
@add_options(*CALL_OPTIONS, *POLICY_OPTIONS, *REPORT_OPTIONS)
def rescore_command(
    console: Console,
    run: str,
    file: str | None,
    *,
    out: str | None,
    **options: Any,
) -> int:
    """Score the completions of RUN again, as a new run, without calling the model.

    FILE is a changed task file; without it the tasks of RUN are used.
    Samples and completions are those of RUN. A judge or fallback calls its model; `--cache-policy
    reuse` takes replies that the call cache has.
    """
    from answerkey.evaluate import rerun
    from answerkey.reports.listing import find_run

    with keep_files(options) as write:
        find_baselines(options)
        with console.display() as display:
            scored = rerun.rescore(
                find_run(run),
                file,
                out=out,
                display=display,
                **options,
            )
        return finish(console, scored, write=write)
