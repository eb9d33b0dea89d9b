"""Limits on what a template may do on one row.

Limits on steps and sizes are counts, not times, so that the same row always gives the same value.
Only operations of bounded templates are counted (`environment`); everything else is stopped by the
limits of the worker process (`rendering`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from jinja2.runtime import Context

from answerkey.templates.values import ExcessError

#: Any value that Jinja and filters pass around.
Value = Any
#: The maximum number of steps on one row: elements of loops and filters, calls, and text created.
MAX_STEPS = 1_000_000
#: A bounded template that needs no more steps is rendered in this process, any other in a worker.
MAX_LOCAL_STEPS = 10_000
#: The steps of a call, and of a filter for each element.
CALL_STEPS = 20
FILTER_STEPS = 5
#: The number of characters that count as one step.
STEP_TEXT = 32
#: The maximum size of a bounded template: its nodes, and the depth of its loops.
MAX_NODES = 500
MAX_LOOPS = 3
#: The maximum size of texts, lists and products.
MAX_ELEMENTS = 10_000_000
MAX_PARTS = 1_000_000
MAX_BITS = 10_000


class StepBudget:
    """The remaining steps of one row."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.steps = steps
        self.left = steps

    def spend(self, steps: int) -> None:
        """Spend steps; raise ExcessError if none are left."""
        self.left -= steps
        if self.left < 0:
            raise ExcessError(f"the template takes more than {self.steps:,} steps on this row")

    def spend_text(self, size: int) -> None:
        """Spend the steps of a text or list before it is created; raise ExcessError."""
        if size > MAX_ELEMENTS:
            raise ExcessError(
                f"the template makes a value of {size:,} elements; {MAX_ELEMENTS:,} are allowed"
            )
        self.spend(1 + size // STEP_TEXT)


def measure(value: object) -> int:
    """Return the approximate printed length of a value; raise ExcessError if it is too long.

    A list that contains another twice, which contains a third twice, is exponentially long.
    """
    size = len(value) if type(value) is str else count_size(value, MAX_ELEMENTS)
    if size > MAX_ELEMENTS:
        raise ExcessError(
            f"the template makes a value of more than {MAX_ELEMENTS:,} elements "
            f"or {MAX_PARTS:,} parts"
        )
    return size


def count_size(value: object, limit: int) -> int:
    """Return the number of characters and parts of a value, or some number above `limit`."""
    size = 0
    parts = 0
    waiting = [value]
    while waiting and size + parts <= limit:
        part = waiting.pop()
        if type(part) is str or isinstance(part, (str, bytes)):
            size += len(part)
        elif isinstance(part, (list, tuple, dict)):
            parts += len(part) + 1
            if parts > MAX_PARTS:
                return MAX_ELEMENTS + 1
            waiting.extend(part)
            if isinstance(part, dict):
                waiting.extend(part.values())
        else:
            size += 1
    return size + parts


class RowContext(Context):
    """The names that a template sees for one row, with its budget of steps."""

    def __init__(self, *arguments: Value, **options: Value) -> None:
        super().__init__(*arguments, **options)
        self.budget = StepBudget()
        self.row: Mapping[str, Value] = self.parent

    def derived(self, locals: dict[str, Value] | None = None) -> RowContext:  # noqa: A002 - Jinja's own signature
        """Return a context of the same row with the same budget."""
        context = cast("RowContext", super().derived(locals))
        context.budget = self.budget
        context.row = self.row
        return context

    def holds(self, value: object) -> bool:
        """Return whether a value is part of the row, at any depth; such values must not be
        changed.
        """
        return _holds(dict(self.row), value)


def _holds(container: object, value: object) -> bool:
    if container is value:
        return True
    if isinstance(container, dict):
        container = list(container.values())
    if not isinstance(container, (list, tuple)):
        return False
    return any(_holds(part, value) for part in container)
