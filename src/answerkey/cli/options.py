"""Options that several commands share, and what a shell completes for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from answerkey.cli.console import Console
from answerkey.errors import AnswerkeyError, SpecError
from answerkey.options import DECLARATIONS, GATES, Options

if TYPE_CHECKING:
    from answerkey.runs import Run


FAILED = 1
INCOMPLETE = 3
Kind = Literal["task", "run", "dataset", "model"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Command = Callable[..., int | None]
Decorator = Callable[[Command], Command]
#: The value of an option, as click has read it.
ClickValue = Any


def option(
    flag: str,
    metavar: str,
    text: str,
    *names: str,
    **more: ClickValue,
) -> Decorator:
    """Return an option with a value.

    `text` is its help, and `names` is what the function calls it.
    """
    return click.option(
        flag,
        *names,
        metavar=metavar,
        help=text,
        **more,
    )


def flag(
    name: str,
    text: str,
    *names: str,
    **more: ClickValue,
) -> Decorator:
    """Return an option without a value; `text` and `names` are as for `option`."""
    return click.option(
        name,
        *names,
        is_flag=True,
        help=text,
        **more,
    )


NATURAL = click.IntRange(min=0)
POSITIVE = click.IntRange(min=1)


def run_option(name: str, *names: str, **changes: ClickValue) -> Decorator:
    """Return an option of a run as `Options` declares it; `names` as for `option`."""
    declared = DECLARATIONS[name]
    settings: dict[str, ClickValue] = {"help": declared.text}
    flag = declared.flag or f"--{name.replace('_', '-')}"
    if declared.has_opposite:
        flag += f"/--no-{flag.removeprefix('--')}"
    if declared.choices:
        settings["type"] = click.Choice(declared.choices)
    if declared.metavar:
        settings["metavar"] = declared.metavar
    else:
        settings["is_flag"] = True
        settings["default"] = getattr(Options, name)
    return click.option(flag, *(names or [name]), **settings | changes)


POLICY_OPTIONS = tuple(map(run_option, GATES))
REPORT_OPTIONS = (
    option("--junit", "FILE", "Write the gates as JUnit XML."),
    option("--summary", "FILE", "Append numbers and gates as Markdown."),
)


def write_files(folder: Path, texts: Mapping[str, str], *, with_schemas: bool = True) -> list[Path]:
    """Write the files of a project into a folder, all or none, and return them.

    E119 when one is there already. The first line of a YAML file leads editors to its JSON Schema,
    which is written as well.
    """
    from answerkey.spec.schema import write_schema

    files = dict(texts)
    if with_schemas:
        for kind in KINDS:
            if text := texts.get(f"{kind}.yaml"):
                mark = f"# yaml-language-server: $schema=.schemas/{kind}.json"
                files[f"{kind}.yaml"] = f"{mark}\n{text}"
                files[f".schemas/{kind}.json"] = write_schema(kind)
    paths = {folder / name: text for name, text in files.items()}
    taken = [path for path in paths if path.exists()]
    if folder.is_file():
        taken = [folder]
    if taken:
        message = f"`{taken[0]}` already exists; nothing was written"
        raise SpecError("E119", message, hint="choose a new or empty folder")
    for path, text in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return list(paths)


def write_size(size: int) -> str:
    """Return a number of bytes for people."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


#: Writes `--junit` and `--summary`, for finished runs or for the error that stopped a run.
WriteFiles = Callable[["Sequence[Run] | AnswerkeyError"], None]


@contextmanager
def keep_files(options: dict[str, Any]) -> Iterator[WriteFiles | None]:
    """Take `--junit` and `--summary` out of the options and yield the function that writes them;
    None without either.

    A file that cannot be written is E119 before any model is called. An error is written to the
    files as well.
    """
    files = {}
    for name in ("junit", "summary"):
        file = options.pop(name)
        if file is not None:
            files[name] = _require_writable(name, file)
    if not files:
        yield None
        return
    try:
        yield partial(_write_reports, files)
    except AnswerkeyError as error:
        _write_reports(files, error)
        raise


def _require_writable(name: str, file: str) -> Path:
    path = Path(file)
    if path.is_dir() or not path.absolute().parent.is_dir():
        hint = 'name a file in a folder that exists; on GitHub `--summary "$GITHUB_STEP_SUMMARY"`'
        raise SpecError("E119", f"`--{name} {file}` cannot be written", hint=hint)
    return path


def _write_reports(files: Mapping[str, Path], outcome: Sequence[Run] | AnswerkeyError) -> None:
    """Write gates as JUnit XML, and append the summary to that of an earlier step."""
    from answerkey.reports import markdown
    from answerkey.runs import write_output

    if isinstance(outcome, AnswerkeyError):
        suites = markdown.write_junit_fault(outcome)
        page = markdown.write_summary_fault(outcome)
    else:
        suites = markdown.write_junit(outcome)
        page = markdown.write_markdown(outcome)
    summary = files.get("summary")
    if "junit" in files:
        write_output(files["junit"], lambda path: path.write_bytes(suites.encode()))
    if summary is not None and summary.is_file():
        with summary.open("ab") as stream:
            stream.write(page.encode())
    elif summary is not None:
        write_output(summary, lambda path: path.write_bytes(page.encode()))


def find_baselines(options: dict[str, Any]) -> None:
    """Replace the runs that options name, as for `show`, by their folders."""
    for name in ("baseline", "not_worse_than"):
        if options[name] is not None:
            from answerkey.reports.listing import find_run

            run = find_run(str(options[name]))
            options[name] = str(run.path or options[name])


def find_exit_code(runs: Sequence[Run]) -> int:
    """Return 3 when a run is incomplete, 1 when a gate fails, else 0."""
    from answerkey.types import GateStatus

    if any(run.status != "complete" for run in runs):
        return INCOMPLETE
    statuses = {gate.status for run in runs for gate in run.gates}
    if statuses & {GateStatus.FAIL, GateStatus.NOT_DECIDED}:
        return FAILED
    return 0


FILE = click.argument("file", metavar="FILE")
RUN = click.argument("run", metavar="RUN")
RUNS = click.argument(
    "runs",
    metavar="RUN...",
    nargs=-1,
    required=True,
)

FLAGS = {
    ("--json", "as_json"): "Print one JSON object on stdout, nothing else.",
    ("-v", "--verbose"): "Show more, and the traceback of an internal error.",
    ("-q", "--quiet"): "Print only data and errors.",
}


def command(name: str, *examples: str) -> Callable[[Command], click.Command]:
    """Return a decorator that makes a command of a function, which is given a console first.

    The help ends with the examples; `answerkey`, with which each begins, is left out here.
    """
    lines = [f"answerkey {example}" for example in examples]
    epilog = "\n  ".join(("\b\nExamples:", *lines))
    if len(lines) == 1:
        epilog = f"Example: {lines[0]}"

    def decorate(function: Command) -> click.Command:
        @wraps(function)
        def call(
            *args: object,
            as_json: bool,
            verbose: bool,
            quiet: bool,
            **options: object,
        ) -> int | None:
            outer = click.get_current_context().obj or {}
            console = Console(
                as_json=as_json,
                verbose=verbose or outer.get("verbose", False),
                quiet=quiet or outer.get("quiet", False),
            )
            return function(console, *args, **options)

        decorated = click.command(name, epilog=epilog)(call)
        for flags, text in FLAGS.items():
            decorated.params.append(click.Option(flags, is_flag=True, help=text))
        return decorated

    return decorate


def add_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds options, shown in the order given."""

    def add(function: Command) -> Command:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def pairs_option(name: str, form: str, example: str) -> Decorator:
    """Return a repeatable option of a run, of the form `name=value`, that becomes a mapping.

    The last of a name wins. The value may be empty, and means none then.
    """
    flag = DECLARATIONS[name].flag or f"--{name}"

    def parse(_context: object, _option: object, pairs: tuple[str, ...]) -> dict[str, str]:
        values = {}
        for pair in pairs:
            key, mark, value = pair.partition("=")
            if not (key.strip() and mark):
                message = f"`{flag} {pair}` is not of the form `{form}`"
                hint = f"write `{flag} {example.format(pair)}`"
                raise SpecError("E119", message, hint=hint)
            values[key.strip()] = value
        return values

    return run_option(name, multiple=True, callback=parse)


CONFIG = pairs_option("config", "name=value", "k=4")
COLUMN = pairs_option("columns", "PART=NAME", "truth={}")
TASK = option("--task", "NAME", "Task of the log, if it has several; default: all of them.")
SCORE = option("--score", "NAME", "Score of the log to compare with, if it has several.")
SINGLE_ANSWERS = flag(
    "--single-answers", "Leave out the log's questions with several right letters."
)
ENV = run_option("env")
