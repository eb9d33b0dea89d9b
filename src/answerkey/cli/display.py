"""Progress while a command works: a small block on a terminal, a line now and then elsewhere, or nothing."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

from answerkey.cli.talk import colour_line, is_unicode, write_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from answerkey.text import Line
    from answerkey.types import Notice
    from answerkey.verbs import Observer

STAGES = {"read": "reading", "check": "checking", "solve": "solving", "score": "scoring"}
#: How often a block is drawn anew: often enough to be alive, seldom enough to be calm.
DRAWN_PER_SECOND = 4
#: A line is written after so many seconds, or earlier when as much more is done.
LINE_SECONDS = 30.0
LINE_SHARE = 0.1
LEAST_SECONDS = 5.0
TICK_SECONDS = 1.0


class LastingStream:
    """A stream that may go away, as a closed terminal does: what is written then is lost."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text if the stream is there."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream if it is there."""
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        return getattr(self._stream, name)


class Display(Protocol):
    """What shows progress; it is the `Onlooker` of a run as well."""

    def report(self, stage: str, done: int, total: int) -> None:
        """Take how far a stage is."""

    def follow(self, observer: Observer) -> None:
        """Take the observer of a task that begins to ask."""

    def warn(self, notice: Notice) -> None:
        """Take a warning."""

    def say(self, text: str) -> None:
        """Take a line about how the run goes on."""


class SilentDisplay:
    """Shows nothing."""

    def report(self, stage: str, done: int, total: int) -> None:
        """Say nothing."""

    def follow(self, observer: Observer) -> None:
        """Say nothing."""

    def warn(self, notice: Notice) -> None:
        """Say nothing."""

    def say(self, text: str) -> None:
        """Say nothing."""


class LineDisplay:
    """Writes a line now and then while a model is asked; `tick` looks whether it is time for one."""

    def __init__(
        self, write: Callable[[list[Line]], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._clock = clock
        self._observer: Observer | None = None
        self._written_at = clock()
        self._share = 0.0
        self._batches: list[tuple[str, str]] = []

    def report(self, stage: str, done: int, total: int) -> None:
        """Say nothing: what is not asked of a model is over soon."""

    def follow(self, observer: Observer) -> None:
        """Begin to look at a task."""
        self._observer, self._written_at, self._share = observer, self._clock(), 0.0

    def warn(self, notice: Notice) -> None:
        """Write a warning at once."""
        from answerkey.text import draw_notice

        self._write(draw_notice(notice))

    def say(self, text: str) -> None:
        """Write a line."""
        from answerkey.text import line

        self._write([line(text)])

    def tick(self) -> None:
        """Write a line if it is time for one."""
        if self._observer is None:
            return
        from answerkey.reports.progress import write_standing
        from answerkey.text import line

        standing = self._observer.look()
        share = standing.done / standing.total if standing.total else 1.0
        waited = self._clock() - self._written_at
        is_due = waited >= LINE_SECONDS or (waited >= LEAST_SECONDS and share >= self._share + LINE_SHARE)
        batches = [(one.batch, one.status) for one in standing.batches]
        if (is_due and self._share < 1) or (batches and batches != self._batches):
            self._written_at, self._share, self._batches = self._clock(), share, batches
            self._write([line(write_standing(standing))])


class BlockDisplay:
    """Draws a small block on a terminal and draws it anew in place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._observer: Observer | None = None
        self._stage: tuple[str, int, int] | None = None

    def report(self, stage: str, done: int, total: int) -> None:
        """Take how far a stage is."""
        self._stage = (STAGES.get(stage, stage), done, total)

    def follow(self, observer: Observer) -> None:
        """Show a task that begins to ask."""
        self._observer = observer

    def warn(self, notice: Notice) -> None:
        """Print a warning above the block."""
        from answerkey.text import draw_notice

        for one in draw_notice(notice):
            self._console.print(colour_line(one), soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a line above the block."""
        self._console.print(text, soft_wrap=True)

    def draw(self) -> Text:
        """Return the block as it is now."""
        from rich.text import Text

        from answerkey.reports.progress import BAR, PLAIN_BAR, draw_bar, draw_standing

        bar = BAR if is_unicode(sys.stderr) else PLAIN_BAR
        lines = [draw_bar(*self._stage, bar=bar)] if self._stage else []
        if self._observer is not None:
            lines = draw_standing(self._observer.look(), self._console.width, bar=bar)
        return Text("\n").join(map(colour_line, lines))


@contextmanager
def open_display(*, is_quiet: bool) -> Iterator[Display]:
    """Yield what shows progress on stderr, fit for who looks at it."""
    if is_quiet:
        yield SilentDisplay()
    elif _is_terminal():
        with _draw_block() as block:
            yield block
    else:
        with _write_now_and_then() as lines:
            yield lines


def _is_terminal() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def _draw_block() -> Iterator[BlockDisplay]:
    from rich.console import Console
    from rich.live import Live

    stream = cast("TextIO", LastingStream(sys.stderr))
    console = Console(file=stream, markup=False, highlight=False, emoji=False)
    display = BlockDisplay(console)
    with Live(
        console=console,
        get_renderable=display.draw,
        refresh_per_second=DRAWN_PER_SECOND,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ):
        yield display


@contextmanager
def _write_now_and_then() -> Iterator[LineDisplay]:
    stream = cast("TextIO", LastingStream(sys.stderr))
    display = LineDisplay(lambda lines: write_lines(lines, stream))
    is_over = threading.Event()

    def tick() -> None:
        while not is_over.wait(TICK_SECONDS):
            display.tick()

    ticker = threading.Thread(target=tick, name="answerkey-progress", daemon=True)
    ticker.start()
    try:
        yield display
    finally:
        is_over.set()
        ticker.join()
