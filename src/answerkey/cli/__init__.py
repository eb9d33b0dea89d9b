"""Commands; the only package that prints and exits.

`main` finds the command, runs it, and turns every outcome, signals included, into text on stderr
(with `--json`, JSON on stdout) and an exit code. Each command reads its options, calls a function,
and prints what the reports drew (`console`). What a command needs is imported when it is called, so
that `--help` is fast.
"""

from __future__ import annotations

import errno
import gc
import os
import platform
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import FrameType

import click

from answerkey._version import __version__
from answerkey.cli import look, run, start
from answerkey.cli.console import (
    Console,
    detach_stream,
    has_written_json,
    write_json,
    write_lines,
    write_text,
)
from answerkey.errors import (
    AnswerkeyError,
    InternalError,
    Problems,
    RunError,
    SpecError,
    hide_secrets,
)

#: The commands in the groups and the order of `--help`, and what each does in one line.
COMMANDS: dict[str, dict[click.Command, str]] = {
    "Evaluate": {
        run.run_command: "Call a model, score its replies, write the run and print its summary.",
        run.score_command: "Score recorded completions; no model is called.",
        run.resume_command: "Continue an interrupted run where it stopped.",
        run.rescore_command: "Score an old run's completions again, as a new run.",
        run.export_prompts_command: "Write the prompts with their ids, for offline batch engines.",
        run.check_command: "Find every mistake that can be found without a model.",
        run.doctor_command: "Call a model a few times and report what would spoil its numbers.",
        look.audit_dataset_command: (
            "Find problems in the questions: duplicates, wrong truths, skew."
        ),
    },
    "Look at runs": {
        look.show_command: "Print the summary of a run.",
        look.explain_command: "Show one sample from its row to its score.",
        look.audit_command: "Show how much of a number depends on format, position and chance.",
        look.compare_command: "Compare runs sample by sample.",
        look.power_command: "Plan a comparison: how many samples a difference needs.",
        look.report_command: "Write runs as one self-contained HTML file.",
        look.view_command: "Show the runs of a folder in a local web page.",
        look.runs_command: "List the runs of a folder.",
        look.export_command: "Write the per-sample rows of a run as JSONL, CSV or Parquet.",
    },
    "Start": {
        start.tasks_command: "List the ready-made tasks, or show one.",
        start.import_command: "Turn another tool's log into a project that can be scored.",
        start.demo_command: "Run the built-in example from end to end, offline.",
        start.init_command: "Create a working project to start from.",
        start.schema_command: "Print the JSON Schema of a file kind, for editors.",
        start.cache_command: "Show what is kept of earlier calls and datasets, or clear it.",
    },
}
#: The garbage collector runs after so many new objects; libraries create many while they load, and
#: keep them.
GARBAGE_THRESHOLD = 200_000


class App(click.Group):
    """The commands in their groups."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        """Write the commands in their groups."""
        for title, group in COMMANDS.items():
            with formatter.section(title):
                rows = [(str(command.name), summary) for command, summary in group.items()]
                formatter.write_dl(rows)


@click.group(
    cls=App,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: answerkey demo\n\nHelp for one command: answerkey run --help",
)
@click.version_option(__version__, prog_name="answerkey", message="%(prog)s %(version)s")
@click.option(
    "-v", "--verbose", is_flag=True, help="Show more, and the traceback of an internal error."
)
@click.option("-q", "--quiet", is_flag=True, help="Print only data and errors.")
@click.pass_context
def app(context: click.Context, *, verbose: bool, quiet: bool) -> None:
    """Multiple-choice evaluation of language models with numbers that stand up."""
    context.obj = {"verbose": verbose, "quiet": quiet}


for commands in COMMANDS.values():
    for command, summary in commands.items():
        command.short_help = summary
        app.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command line, by default that of the process, and return the exit code."""
    is_last = arguments is None
    if is_last:
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:  # closed by the caller
                setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - to the end
        gc.set_threshold(GARBAGE_THRESHOLD)
        # To find plugins, pydantic reads the metadata of every package that is installed.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    words = list(sys.argv[1:] if arguments is None else arguments)
    code = run_and_report(
        lambda: app.main(words, prog_name="answerkey", standalone_mode=False),
        words,
        is_last=is_last,
    )
    if is_last:
        gc.freeze()  # the system takes all memory back, so the last collection is skipped
    return code


# How a command ends.

#: Ctrl-C; Slurm, Kubernetes, `docker stop`; a terminal that is closed (where the system has that).
ENDING = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
#: A signal that was ignored when the process started (`nohup`) stays ignored.
_FREE = (signal.SIG_DFL, signal.default_int_handler)
#: So many seconds after the first signal the process ends: `docker stop` kills after ten.
SECONDS = 7.0
#: A signal that comes within so many seconds of the first is the first one, sent twice.
SAME_SIGNAL = 0.2
#: A command that a signal ended exits with this plus the number of the signal.
EXIT_CODE = 128


class Interrupted(KeyboardInterrupt):
    """A signal that ends the command; everything below the command line treats it as Ctrl-C."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.message = "interrupted"
        if number != signal.SIGINT:
            self.message += f" by {signal.Signals(number).name}"
        super().__init__(self.message)


@dataclass
class Signals:
    """The signals of one command; `first` is the one that ends it.

    `give_up` is called, in another thread, when cleaning up takes too long.
    """

    give_up: Callable[[Interrupted], object]
    first: Interrupted | None = None
    is_over: bool = False
    _began: float = 0.0
    _timer: threading.Timer | None = None

    def handle(self, number: int, _frame: FrameType | None) -> None:
        """Raise the first signal; end the process with the second.

        One Ctrl-C may arrive twice, and closing a terminal sends SIGHUP twice.
        """
        if self.first is None:
            self.first = Interrupted(number)
            self._began = time.monotonic()
            self._timer = threading.Timer(SECONDS, self._end, (self.first,))
            self._timer.daemon = True
            self._timer.start()
            raise self.first
        is_same = number == self.first.number and signal.Signals(number).name == "SIGHUP"
        if time.monotonic() >= self._began + SAME_SIGNAL and not is_same:
            os._exit(EXIT_CODE + number)

    def _end(self, stop: Interrupted) -> None:
        if not self.is_over:
            self.give_up(stop)
        os._exit(EXIT_CODE + stop.number)

    def forget(self) -> None:
        """Let the process live on after the signal."""
        if self._timer is not None:
            self._timer.cancel()


@contextmanager
def handle_signals(give_up: Callable[[Interrupted], object], *, is_last: bool) -> Iterator[Signals]:
    """Let signals end the work inside the block; outside the main thread, change nothing.

    `is_last` says that the process ends with the block: then that, too, has to happen in time.
    """
    signals = Signals(give_up)
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            if signal.getsignal(number) in _FREE:
                before[number] = signal.signal(number, signals.handle)
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signals.is_over = True
        if signals.first is not None and not is_last:
            signals.forget()


#: Errors of the machine, such as a full disk or a missing permission, which are no bugs of ours.
MACHINE_ERRORS = frozenset(
    getattr(errno, name)
    for name in (
        *("EACCES", "EDQUOT", "EIO", "EMFILE", "ENAMETOOLONG", "ENFILE"),
        *("ENOSPC", "ENOTDIR", "EPERM", "EROFS"),
    )
)


def run_and_report(
    work: Callable[[], object], words: Sequence[str], *, is_last: bool = False
) -> int:
    """Do the work, report whatever goes wrong, and return the exit code.

    `words` are the arguments, which may contain `--json` and `-v`. `is_last` says that the process
    ends with the work.
    """
    has_terminal = sys.stderr.isatty()
    streams = (sys.stdout, sys.stderr)
    for stream in streams:
        # A character that the terminal's encoding lacks is written out rather than ending the
        # command.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    with handle_signals(lambda stop: _report_interrupt(stop, words), is_last=is_last) as signals:
        try:
            from answerkey.text import remember_paths

            remember_paths(words)
            code = work()
            write_text("", sys.stdout)
        except SystemExit:
            # When the reader of a pipe has gone, click replaces the streams and exits with 1, but
            # that is no failure.
            if sys.stdout is streams[0]:
                raise
            sys.stdout, sys.stderr = streams
            detach_stream(sys.stdout)
            return 0
        except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001 - nothing ends in a traceback
            # An error that follows a signal is one of its effects.
            stop = signals.first or _find_interrupt(error, has_terminal=has_terminal)
            if stop is None:
                return _report_error(error, words)
            if not hasattr(stop, "__notes__"):  # Polars raises another one for the same signal
                for note in getattr(error, "__notes__", ()):
                    stop.add_note(note)
            return _report_interrupt(stop, words)
    return code if isinstance(code, int) else 0


def _find_interrupt(error: BaseException, *, has_terminal: bool) -> BaseException | None:
    """Return the interrupt behind an error; None if it is no interrupt.

    Writing to a closed terminal may fail before its signal arrives.
    """
    if isinstance(error, click.Abort):
        return error.__cause__ or error
    if isinstance(error, KeyboardInterrupt):
        return error
    if isinstance(error, OSError) and error.errno == errno.EIO:
        is_stream = has_terminal and not error.filename
        return Interrupted(signal.SIGHUP) if is_stream else None
    return None


def _report_error(error: BaseException, words: Sequence[str]) -> int:
    """Write an error to stderr, with `--json` also to stdout, and return the exit code."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        write_text(f"{error.ctx.get_help() if error.ctx else error}\n", sys.stderr)
        return error.exit_code
    from answerkey.text import describe_problems, draw_problems

    problem = translate(error, words)
    errors = problem.errors if isinstance(problem, Problems) else (problem,)
    if _wants_json(words):
        write_json(describe_problems(errors) | _describe_notes(problem))
    write_lines(draw_problems(errors, Console().width), sys.stderr)
    _write_notes(error)
    return problem.exit_code


def _report_interrupt(stop: BaseException, words: Sequence[str]) -> int:
    """Write to stderr, with `--json` also to stdout, that a signal ended the command, and return
    the exit code.
    """
    why = stop if isinstance(stop, Interrupted) else Interrupted(signal.SIGINT)
    try:
        if _wants_json(words) and not has_written_json():
            error = AnswerkeyError("", why.message).describe() | {"code": None}
            write_json({"errors": [error]} | _describe_notes(stop))
        sys.stdout.flush()
        sys.stderr.write(f"{why.message}\n")
        _write_notes(stop)
        sys.stderr.flush()
    except OSError:  # a terminal that was closed; Python would try again at its end
        for stream in (sys.stdout, sys.stderr):
            detach_stream(stream)
    return EXIT_CODE + why.number


def _write_notes(error: BaseException) -> None:
    """Write how to continue, which a stopped run adds as a note to the exception."""
    for note in getattr(error, "__notes__", ()):
        write_text(f"to continue: {_make_safe(str(note))}\n", sys.stderr)


def _make_safe(text: str) -> str:
    """Return text without control characters: a terminal would obey those in paths and messages."""
    from answerkey.text import make_visible

    return make_visible(text, keep_lines=True)


def _describe_notes(error: BaseException) -> dict[str, object]:
    notes = getattr(error, "__notes__", ())
    return {"resume": notes[0]} if notes else {}


def _wants_json(words: Sequence[str]) -> bool:
    options = takewhile(lambda word: word != "--", words)
    return "--json" in options


def translate(error: BaseException, words: Sequence[str]) -> AnswerkeyError:
    """Return any exception as an AnswerkeyError."""
    if isinstance(error, AnswerkeyError):
        return error
    if isinstance(error, click.UsageError):
        return _translate_usage(error)
    if isinstance(error, OSError) and (refusal := _translate_refusal(error)):
        return refusal
    how = "the traceback that `-v` shows"
    if "--verbose" in words or any(re.fullmatch("-[vq]*v[vq]*", word) for word in words):
        how = "the traceback above"
        write_text(_make_safe(hide_secrets("".join(traceback.format_exception(error)))), sys.stderr)
    versions = f"answerkey {__version__}, Python {platform.python_version()}, {platform.system()}"
    message = f"a bug in answerkey: {type(error).__name__}: {error}"
    hint = f"please report it with the command line, {how}, and: {versions}"
    return InternalError("E901", message, hint=hint)


def _translate_refusal(error: OSError) -> RunError | None:
    """Return an error of the machine as a RunError; None for any other OSError."""
    if error.errno not in MACHINE_ERRORS:
        return None
    try:
        sys.stdout.flush()
    except OSError:  # Python would flush again at its end, and complain
        detach_stream(sys.stdout)
    file = f" `{error.filename}`" if error.filename else ""
    hint = "choose another place, make room, or raise a limit: `ulimit -n 4096`"
    return RunError("E502", f"cannot write{file}: {error.strerror}", hint=hint)


def _translate_usage(error: click.UsageError) -> SpecError:
    path = error.ctx.command_path if error.ctx else "answerkey"
    hint = f"`{path} --help` shows what there is"
    message = error.format_message().rstrip(".")
    near = getattr(error, "possibilities", None)
    if near:
        message = error.message.rstrip(".")
        hint = f"did you mean `{near[0]}`?"
    return SpecError("E119", message, hint=hint)
