"""Who watches a run while it is under way."""

# ruff: noqa: ARG002 - the base class shows nothing

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from answerkey.errors import AnswerkeyError
    from answerkey.evaluate.observer import Observer
    from answerkey.types import Notice

#: Called with a stage, how many rows of it are done, and how many there are.
Progress = Callable[[str, int, int], None]


def ignore_progress(stage: str, done: int, total: int) -> None:
    """Accept a progress report and show nothing."""


class Display:
    """Shows the progress of one run, or of several at the same time.

    This base class only passes the progress of each stage to the caller's function.
    """

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress or ignore_progress

    def open_run(self, name: str, total: int) -> Display:
        """Return the display of one run of several, whose solvers make `total` calls."""
        return self

    def report(
        self,
        stage: str,
        done: int,
        total: int,
    ) -> None:
        """Show how many rows of a stage are done."""
        self._progress(stage, done, total)

    def follow(self, observer: Observer) -> None:
        """Show a task that starts calling its model; `observer.look` may be called from any
        thread.
        """

    def warn(self, notice: Notice) -> None:
        """Show a notice at once; called from any thread."""

    def say(self, text: str) -> None:
        """Show a line about the progress of the run."""

    def close(self, error: AnswerkeyError | None) -> None:
        """Show that the run is over, and the error that stopped it, if any."""
