"""What a command prints: data on stdout, messages and progress on stderr, colour only for a
terminal.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO, cast
from weakref import WeakSet

from answerkey.evaluate.display import Display

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.text import Text

    from answerkey.errors import AnswerkeyError
    from answerkey.evaluate.observer import Observer
    from answerkey.reports.terminal import RunProgress
    from answerkey.text import Line
    from answerkey.types import Notice


#: What JSON has been written to.
_json_streams: WeakSet[TextIO] = WeakSet()
STYLES = {
    "plain": "",
    "title": "bold",
    "head": "dim",
    "strong": "bold",
    "dim": "dim",
    "good": "green",
    "warn": "yellow",
    "bad": "bold red",
}


@dataclass(frozen=True)
class Console:
    """How a command prints: `--json`, `--verbose`, `--quiet`."""

    as_json: bool = False
    verbose: bool = False
    quiet: bool = False

    @property
    def width(self) -> int:
        """The cells of a line: of the terminal, or 100 where there is none."""
        return max(60, shutil.get_terminal_size((100, 24)).columns)

    def show(
        self,
        describe: Callable[[], object],
        draw: Callable[[], Iterable[Line]],
        notices: Iterable[Notice] = (),
    ) -> None:
        """Print data on stdout: the one JSON object of `--json`, else lines for people, and then
        notices.
        """
        if self.as_json:
            write_json(describe())
        else:
            write_lines(draw(), sys.stdout)
            self.warn(notices)

    def say(self, lines: Iterable[Line]) -> None:
        """Print messages on stderr, unless `--quiet`."""
        if not self.quiet:
            write_lines(lines, sys.stderr)

    def say_text(self, text: str) -> None:
        """Print one message on stderr, unless `--quiet`."""
        self.say([text])

    def warn(self, notices: Iterable[Notice]) -> None:
        """Print notices on stderr, unless `--quiet`."""
        from answerkey.text import draw_notice

        for notice in notices:
            self.say(draw_notice(notice))

    @contextmanager
    def display(self) -> Iterator[ConsoleDisplay]:
        """Yield the display of progress on stderr: a block on a terminal, else only warnings."""
        if self.quiet:
            yield ConsoleDisplay()
            return
        stream = cast("TextIO", FallibleStream(sys.stderr))
        if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
            yield ConsoleDisplay(stream)
            return
        from rich.console import Console as RichConsole
        from rich.live import Live

        console = RichConsole(
            file=stream,
            markup=False,
            highlight=False,
            emoji=False,
        )
        block = BlockDisplay(console)
        with Live(
            console=console,
            get_renderable=block.draw,
            refresh_per_second=4,  # often enough to be alive, seldom enough to be calm
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        ):
            yield block


def wants_colour(stream: TextIO) -> bool:
    """Return whether to colour what goes to a stream: `NO_COLOR`, then `FORCE_COLOR`, then a
    terminal.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def write_lines(lines: Iterable[Line], stream: TextIO) -> None:
    """Write lines to a stream, with or without colour; the text is the same."""
    from answerkey.text import plain_text

    if not wants_colour(stream):
        write_text(plain_text(lines), stream)
        return
    from rich.console import Console as RichConsole

    console = RichConsole(
        file=stream,
        force_terminal=True,
        markup=False,
        highlight=False,
        emoji=False,
    )
    with console.capture() as captured:
        for line in lines:
            console.print(colour_line(line), soft_wrap=True)
    write_text(captured.get(), stream)


def write_text(text: str, stream: TextIO) -> None:
    """Write text to a stream; once its reader has gone, like `head`, text is lost silently."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        detach_stream(stream)


def detach_stream(stream: TextIO) -> None:
    """Redirect a stream to nowhere after its pipe or terminal was closed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def colour_line(line: Line) -> Text:
    """Return a line with its roles as colours."""
    from rich.text import Text

    from answerkey.text import list_spans

    text = Text()
    for span in list_spans(line):
        text.append(span.text, style=STYLES[span.role] or None)
    text.rstrip()
    return text


def write_json(content: object) -> None:
    """Write one JSON object to stdout.

    Never NaN, readable in any encoding, nothing that a terminal obeys.
    """
    from answerkey.text import escape_json

    is_ascii = not is_unicode(sys.stdout)
    text = (
        escape_json(
            json.dumps(
                content,
                ensure_ascii=is_ascii,
                indent=2,
                allow_nan=False,
            )
        )
        + "\n"
    )
    _json_streams.add(sys.stdout)
    write_text(text, sys.stdout)


def has_written_json() -> bool:
    """Return whether stdout has its one JSON object."""
    return sys.stdout in _json_streams


@dataclass(frozen=True)
class VisibleStream:
    """A terminal for data: control and hidden characters are escaped, line breaks are kept."""

    stream: TextIO
    show: Callable[[str], str]

    def write(self, text: str) -> int:
        """Write text with its hidden characters escaped."""
        return self.stream.write(self.show(text))

    def flush(self) -> None:
        """Flush the terminal."""
        self.stream.flush()


def open_stream(*, is_json: bool) -> TextIO:
    """Return stdout for data: exact for programs, with hidden characters escaped on a terminal."""
    if not sys.stdout.isatty():
        return sys.stdout
    from answerkey.text import escape_json, make_visible

    show = escape_json if is_json else partial(make_visible, keep_lines=True)
    return cast("TextIO", VisibleStream(sys.stdout, show))


def is_unicode(stream: TextIO) -> bool:
    """Return whether a stream takes every character."""
    return (stream.encoding or "utf-8").lower().replace("-", "") == "utf8"


STAGES = {
    "read": "reading",
    "check": "checking",
    "solve": "solving",
    "score": "scoring",
}


@dataclass(frozen=True)
class FallibleStream:
    """A stream, such as a terminal, that may be closed: what is written afterwards is lost."""

    stream: TextIO

    def write(self, text: str) -> int:
        """Write text if the stream is there."""
        with suppress(OSError):
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream if it is there."""
        with suppress(OSError):
            self.stream.flush()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        return getattr(self.stream, name)


@dataclass
class ConsoleDisplay(Display):
    """A display without progress: it writes only warnings and messages."""

    stream: TextIO | None = None
    lanes: list[Lane] = field(default_factory=list)
    observer: Observer | None = None
    stage: tuple[str, int, int] | None = None

    def open_run(self, name: str, total: int) -> Lane:
        """Return the display of one of several runs."""
        self.lanes.append(Lane(self, name, total))
        return self.lanes[-1]

    def report(
        self,
        stage: str,
        done: int,
        total: int,
    ) -> None:
        """Note how far a stage is."""
        self.stage = (STAGES.get(stage, stage), done, total)

    def follow(self, observer: Observer) -> None:
        """Note the observer of a task that begins to call a model."""
        self.observer = observer

    def warn(self, notice: Notice) -> None:
        """Write a warning."""
        from answerkey.text import draw_notice

        self.write(draw_notice(notice))

    def say(self, text: str) -> None:
        """Write a line about the progress of the run."""
        self.write([text])

    def write(self, lines: list[Line]) -> None:
        """Write lines at once."""
        if self.stream is not None:
            write_lines(lines, self.stream)


class Lane(ConsoleDisplay):
    """The display of one of several runs: its messages begin with its name."""

    def __init__(
        self,
        display: ConsoleDisplay,
        name: str,
        total: int,
    ) -> None:
        super().__init__()
        self._display = display
        # The address of an endpoint is longer than the name of the model, and says less.
        self._name = name.rpartition("#")[2] or name
        self._total = total
        self._solved: list[Observer] = []
        self._end = ""

    def follow(self, observer: Observer) -> None:
        """Note the observer of the next task."""
        super().follow(observer)
        self._solved.append(observer)

    def warn(self, notice: Notice) -> None:
        """Pass a warning on."""
        self._display.warn(replace(notice, message=f"{self._name}: {notice.message}"))

    def say(self, text: str) -> None:
        """Pass a line on."""
        self._display.say(f"{self._name}: {text}")

    def close(self, error: AnswerkeyError | None) -> None:
        """Show that the run is over."""
        self._end = "done" if error is None else f"failed: {error.message}"

    def look(self) -> RunProgress:
        """Return how far the run is."""
        from answerkey.reports.terminal import RunProgress

        calls = None
        state = self._end
        if not state and self.observer is not None:
            calls = self.observer.look()
        elif not state and self.stage is not None:
            stage, done, total = self.stage
            state = f"{stage} {done}/{total}"
        solved = sum(observer.solved for observer in self._solved)
        return RunProgress(self._name, solved, self._total, calls, state, bool(self._end))


class BlockDisplay(ConsoleDisplay):
    """A small block on a terminal that is redrawn in place."""

    def __init__(self, console: RichConsole) -> None:
        super().__init__()
        self._console = console

    def write(self, lines: list[Line]) -> None:
        """Print lines above the block."""
        for line in lines:
            self._console.print(colour_line(line), soft_wrap=True)

    def draw(self) -> Text:
        """Return the block as it is now."""
        from rich.text import Text

        from answerkey.reports.terminal import BAR, PLAIN_BAR, draw_bar, draw_progress, draw_runs

        bar = BAR if is_unicode(sys.stderr) else PLAIN_BAR
        width = self._console.width
        lines: list[Line] = []
        if self.lanes:
            lines = draw_runs([lane.look() for lane in self.lanes], width, bar=bar)
        elif self.observer is not None:
            lines = draw_progress(self.observer.look(), width, bar=bar)
        elif self.stage is not None:
            lines = [draw_bar(*self.stage, bar=bar)]
        return Text("\n").join(map(colour_line, lines))
