from __future__ import annotations

import io
import threading
import time
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from rich.console import Console

from answerkey.cli.console import BlockDisplay, Display, LineDisplay, open_display
from answerkey.evaluate.session import CallProgress, Observer
from answerkey.models.calls import BatchSeen
from answerkey.text import Line, plain_text
from answerkey.types import Notice


@dataclass
class Scene:
    """A display with a clock and a task that can be moved on by hand."""

    now: float = 0.0
    done: int = 0
    batches: tuple[BatchSeen, ...] = ()
    written: list[str] = field(default_factory=list)

    def look(self) -> CallProgress:
        """Return how far the task is."""
        return CallProgress("mmlu", "solve", self.done, 100, batches=self.batches)

    def write(self, lines: list[Line]) -> None:
        """Keep what is written."""
        self.written.append(plain_text(lines))

    def open(self) -> LineDisplay:
        """Return the display, looking at the task."""
        display = LineDisplay(self.write, lambda: self.now)
        display.follow(cast("Observer", self))
        return display


def test_a_line_comes_every_half_minute() -> None:
    """Also when nothing moves: one sees that it waits."""
    scene = Scene()
    display = scene.open()
    for second in range(1, 91):
        scene.now = second
        display.tick()
    assert len(scene.written) == 3


def test_a_line_comes_earlier_when_much_is_done() -> None:
    """With another tenth done, but at most one line in five seconds."""
    scene = Scene()
    display = scene.open()
    for second in range(1, 21):
        scene.now, scene.done = second, 5 * second
        display.tick()
    assert [one.split(",")[0] for one in scene.written] == [
        "mmlu: 25 of 100 (25 %)",
        "mmlu: 50 of 100 (50 %)",
        "mmlu: 75 of 100 (75 %)",
        "mmlu: 100 of 100 (100 %)",
    ]


def test_when_all_is_done_nothing_more_is_said() -> None:
    """The summary has the word."""
    scene = Scene(done=100)
    display = scene.open()
    for second in (10, 50, 90):
        scene.now = second
        display.tick()
    assert len(scene.written) == 1


def test_without_a_model_to_ask_there_is_no_line() -> None:
    """Scoring what is recorded is over soon."""
    scene = Scene()
    display = LineDisplay(scene.write, lambda: scene.now)
    display.report("score", 1, 2)
    scene.now = 100
    display.tick()
    assert scene.written == []


def test_a_warning_is_written_at_once() -> None:
    """It has its next step with it."""
    scene = Scene()
    scene.open().warn(Notice("all the same", hint="look at the prompt"))
    assert scene.written == ["warning: all the same\n  = help: look at the prompt\n"]


def test_the_block_is_the_stage_until_a_model_is_asked() -> None:
    """First the checking, then the task."""
    console = Console(file=io.StringIO(), width=80)
    display = BlockDisplay(console)
    assert display.draw().plain == ""
    display.report("check", 1, 2)
    assert display.draw().plain.startswith("checking  ")
    display.follow(cast("Observer", Scene(done=50)))
    assert "50/100" in display.draw().plain


def test_a_warning_stands_above_the_block() -> None:
    """It is printed, and stays when the block is drawn anew."""
    console = Console(file=io.StringIO(), width=80)
    BlockDisplay(console).warn(Notice("all the [bold]same[/bold]"))
    written: Any = console.file
    assert written.getvalue() == "warning: all the [bold]same[/bold]\n"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def test_who_looks_decides_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block on a terminal, lines in a file or on a terminal that cannot redraw, nothing with `-q`."""
    monkeypatch.setenv("TERM", "xterm")
    with open_display(is_quiet=True) as silent:
        assert type(silent) is Display
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with open_display(is_quiet=False) as lines:
        assert isinstance(lines, LineDisplay)
    monkeypatch.setattr("sys.stderr", Terminal())
    with open_display(is_quiet=False) as block:
        assert isinstance(block, BlockDisplay)
    monkeypatch.setenv("TERM", "dumb")
    with open_display(is_quiet=False) as dumb:
        assert isinstance(dumb, LineDisplay)


def test_a_line_comes_when_the_status_of_a_batch_changes() -> None:
    """How far it is does not matter as much."""
    scene = Scene()
    display = scene.open()
    for second, (status, done) in enumerate([("validating", 0), ("in_progress", 1), ("in_progress", 2)]):
        scene.now = second
        scene.batches = (BatchSeen("batch_1", status, done, 9, is_over=False),)
        display.tick()
    assert [one.split(", ")[1] for one in scene.written] == [
        "batch batch_1 validating 0/9",
        "batch batch_1 in_progress 1/9",
    ]


def test_an_interrupt_in_a_thread_reaches_the_main_one() -> None:
    """Polars raises Ctrl-C in the thread whose query it ends: the one that shows progress hands it on."""

    class Interrupted(Scene):
        def look(self) -> CallProgress:
            raise KeyboardInterrupt

    scene = Interrupted()
    display = scene.open()
    ticker = threading.Thread(target=display.tick)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it comes whenever the main thread runs
        ticker.start()
        ticker.join()
        time.sleep(60)
    assert scene.written == []
