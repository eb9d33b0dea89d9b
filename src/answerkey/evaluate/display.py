"""Who watches a run while it is under way."""

# ruff: noqa: ARG002 - by itself, a display shows nothing of what it is told

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from answerkey.errors import AnswerkeyError
from answerkey.evaluate.job import Progress
from answerkey.types import Notice

if TYPE_CHECKING:
    from answerkey.evaluate.observer import Observer


class Display(Protocol):
    """Shows the progress of one run, or of several at the same time."""

    def open_run(self, name: str, total: int) -> Display:
        """Return the display of one run of several, whose solvers make `total` calls."""

    def report(self, stage: str, done: int, total: int) -> None:
        """Show how many rows of a stage are done."""

    def follow(self, observer: Observer) -> None:
        """Show a task that begins to call its model; `observer.look` may be called from any
        thread.
        """

    def warn(self, notice: Notice) -> None:
        """Show a notice at once; called from any thread."""

    def say(self, text: str) -> None:
        """Show a line about how the run goes on."""

    def close(self, error: AnswerkeyError | None) -> None:
        """Show that the run is over, and what kept it from its end."""


class NullProgress:
    """The progress display of a run that nobody watches."""

    def open_run(self, name: str, total: int) -> NullProgress:
        """Return the display itself: it shows nothing."""
        return self

    def report(self, stage: str, done: int, total: int) -> None:
        """Show nothing."""

    def follow(self, observer: Observer) -> None:
        """Show nothing."""

    def warn(self, notice: Notice) -> None:
        """Show nothing."""

    def say(self, text: str) -> None:
        """Show nothing."""

    def close(self, error: AnswerkeyError | None) -> None:
        """Show nothing."""


class ProgressCallback(NullProgress):
    """A display that hands the progress of each stage to a function of the caller's."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def report(self, stage: str, done: int, total: int) -> None:
        """Call the function."""
        self._progress(stage, done, total)


def choose_display(display: Display | None, progress: Progress | None) -> Display:
    """Return the display that is given, one that calls `progress`, or one that shows nothing."""
    if display is not None:
        return display
    if progress is not None:
        return ProgressCallback(progress)
    return NullProgress()
