"""How a command ends: signals, errors as text on stderr (JSON on stdout when asked for), exit
codes.
"""

from __future__ import annotations

import errno
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
from itertools import takewhile
from types import FrameType

import click

from answerkey._version import __version__
from answerkey.cli.console import (
    Console,
    has_written_json,
    leave_stream,
    surviving_lost_reader,
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

#: Ctrl-C; Slurm, Kubernetes, `docker stop`; a terminal that is closed (where the system has that).
ENDING = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
#: A signal that was ignored when the process started (`nohup`) stays ignored.
_FREE = (signal.SIG_DFL, signal.default_int_handler)
#: So long after the first signal everything is over: `docker stop` kills after ten seconds.
SECONDS = 7.0
#: A signal so soon after the first, in seconds, is the same one once more.
SAME_SIGNAL = 0.2
#: The exit code of a command that a signal ended is this plus the number of the signal.
EXIT_CODE = 128


class Interrupted(KeyboardInterrupt):
    """A signal that ends the command; for everything below the command line it is Ctrl-C."""

    def __init__(self, number: int) -> None:
        self.number = number
        by = "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
        self.message = f"interrupted{by}"
        super().__init__(self.message)


class Signals:
    """The signals of one command; `first` is the one that ends it.

    `give_up` is called, in another thread, when putting things away takes too long.
    """

    def __init__(self, give_up: Callable[[Interrupted], object]) -> None:
        self.first: Interrupted | None = None
        self.is_over = False
        self._began = 0.0
        self._give_up = give_up
        self._timer = threading.Timer(SECONDS, self._end)
        self._timer.daemon = True

    def hear(self, number: int, _frame: FrameType | None) -> None:
        """Raise the first signal; end the process with the second.

        One Ctrl-C may come twice, and a terminal that is closed hangs up twice.
        """
        if self.first is None:
            self.first = Interrupted(number)
            self._began = time.monotonic()
            self._timer.start()
            raise self.first
        is_same = number == self.first.number and signal.Signals(number).name == "SIGHUP"
        if time.monotonic() >= self._began + SAME_SIGNAL and not is_same:
            os._exit(EXIT_CODE + number)

    def _end(self) -> None:
        if self.first is not None:
            if not self.is_over:
                self._give_up(self.first)
            os._exit(EXIT_CODE + self.first.number)

    def close(self, *, is_last: bool) -> None:
        """Take that everything was put away; only the end of the process may be waited for."""
        self.is_over = True
        if not is_last:
            self._timer.cancel()


@contextmanager
def hear_signals(give_up: Callable[[Interrupted], object], *, is_last: bool) -> Iterator[Signals]:
    """Let signals end what is done inside; outside the main thread they do what they did before.

    Where `is_last`, this is the last thing that the process does, and it has to end in time, too.
    """
    heard = Signals(give_up)
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            if signal.getsignal(number) in _FREE:
                before[number] = signal.signal(number, heard.hear)
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        heard.close(is_last=is_last)


#: What the machine says no to: space, rights, names. No bug of ours.
OUR_SURROUNDINGS = frozenset(
    getattr(errno, name)
    for name in (
        *("EACCES", "EDQUOT", "EIO", "EMFILE", "ENAMETOOLONG", "ENFILE"),
        *("ENOSPC", "ENOTDIR", "EPERM", "EROFS"),
    )
)


def catch_faults(work: Callable[[], object], words: Sequence[str], *, is_last: bool = False) -> int:
    """Do the work and return its exit code; `words` are the arguments, asked for `--json` and `-v`.

    `is_last` says that the process ends with it.
    """
    has_terminal = sys.stderr.isatty()
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal's encoding lacks is written out rather than ending the
        # command.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    with hear_signals(lambda stop: _tell_interrupt(stop, words), is_last=is_last) as heard:
        try:
            from answerkey.text import remember_paths

            remember_paths(words)
            code = work()
            with surviving_lost_reader(sys.stdout):
                sys.stdout.flush()
        except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001 - nothing ends in a traceback
            # An error that follows a signal is one of its effects.
            stop = heard.first or _find_interrupt(error, has_terminal=has_terminal)
            if stop is None:
                return _tell_error(error, words)
            if not hasattr(stop, "__notes__"):  # Polars raises another one for the same signal
                for note in getattr(error, "__notes__", ()):
                    stop.add_note(note)
            return _tell_interrupt(stop, words)
    return code if isinstance(code, int) else 0


def _find_interrupt(error: BaseException, *, has_terminal: bool) -> BaseException | None:
    """Return the interrupt that an error is, or that click made an error of.

    A terminal that was closed may be noticed when it is written to, before the signal comes.
    """
    if isinstance(error, click.Abort):
        return error.__cause__ or error
    if isinstance(error, KeyboardInterrupt):
        return error
    if isinstance(error, OSError) and error.errno == errno.EIO:
        is_stream = has_terminal and not error.filename
        return Interrupted(signal.SIGHUP) if is_stream else None
    return None


def _tell_error(error: BaseException, words: Sequence[str]) -> int:
    """Say what went wrong, on stderr and with `--json` also on stdout, and return the exit code."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        write_text(f"{error.ctx.get_help() if error.ctx else error}\n", sys.stderr)
        return error.exit_code
    from answerkey.text import describe_problems, draw_problems

    problem = translate(error, words)
    errors = problem.errors if isinstance(problem, Problems) else (problem,)
    if _wants_json(words):
        write_json(describe_problems(errors) | _describe_notes(problem))
    write_lines(draw_problems(errors, Console().width), sys.stderr)
    _say_notes(error)
    return problem.exit_code


def _tell_interrupt(stop: BaseException, words: Sequence[str]) -> int:
    """Say that a signal ended the command, with `--json` also on stdout, and return the exit
    code.
    """
    why = stop if isinstance(stop, Interrupted) else Interrupted(signal.SIGINT)
    try:
        if _wants_json(words) and not has_written_json():
            error = AnswerkeyError("", why.message).describe() | {"code": None}
            write_json({"errors": [error]} | _describe_notes(stop))
        sys.stdout.flush()
        sys.stderr.write(f"{why.message}\n")
        _say_notes(stop)
        sys.stderr.flush()
    except OSError:  # a terminal that was closed; Python would try again at its end
        for stream in (sys.stdout, sys.stderr):
            leave_stream(stream)
    return EXIT_CODE + why.number


def _say_notes(error: BaseException) -> None:
    """Write how to go on, which a run that was stopped notes on what stopped it."""
    for note in getattr(error, "__notes__", ()):
        write_text(f"to go on where it stopped: {_show(str(note))}\n", sys.stderr)


def _show(text: str) -> str:
    """Return text for a terminal: paths and messages may hold what it would obey."""
    from answerkey.text import make_visible

    return make_visible(text, keep_lines=True)


def _describe_notes(error: BaseException) -> dict[str, object]:
    notes = getattr(error, "__notes__", ())
    return {"resume": notes[0]} if notes else {}


def _wants_json(words: Sequence[str]) -> bool:
    options = takewhile(lambda word: word != "--", words)
    return "--json" in options


def translate(error: BaseException, words: Sequence[str]) -> AnswerkeyError:
    """Return whatever went wrong as an error of ours."""
    if isinstance(error, AnswerkeyError):
        return error
    if isinstance(error, click.UsageError):
        return _translate_usage(error)
    if isinstance(error, OSError) and (refusal := _translate_refusal(error)):
        return refusal
    how = "the traceback that `-v` shows"
    if "--verbose" in words or any(re.fullmatch("-[vq]*v[vq]*", word) for word in words):
        how = "the traceback above"
        write_text(_show(hide_secrets("".join(traceback.format_exception(error)))), sys.stderr)
    versions = f"answerkey {__version__}, Python {platform.python_version()}, {platform.system()}"
    message = f"a bug in answerkey: {type(error).__name__}: {error}"
    hint = f"please report it with the command line, {how}, and: {versions}"
    return InternalError("E901", message, hint=hint)


def _translate_refusal(error: OSError) -> RunError | None:
    """Return what the machine says no to as an error of ours."""
    if error.errno not in OUR_SURROUNDINGS:
        return None
    try:
        sys.stdout.flush()
    except OSError:  # Python would try, and complain, once more at its end
        leave_stream(sys.stdout)
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
