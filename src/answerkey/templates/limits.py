"""How much a template may do on one row.

Every limit on steps and sizes is a count, not a time, so that the same row always gives the same
value. Only what a bounded template can do is counted (`environment`); everything else is stopped by
the limits of the worker process (`rendering`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from jinja2.runtime import Context

from answerkey.templates.values import ExcessError

#: What Jinja and filters hand around: any value at all.
Value = Any
#: The steps of one row: elements that loops and filters go through, calls, and text that is made.
MAX_STEPS = 1_000_000
#: A bounded template that needs no more is rendered in this process, any other in a worker.
FEW_STEPS = 10_000
#: What a call counts, and a filter for each element.
CALL_STEPS = 20
FILTER_STEPS = 5
#: The characters that count as one step.
STEP_TEXT = 32
#: What a bounded template may consist of: so many nodes, and so many loops inside each other.
MAX_NODES = 500
MAX_LOOPS = 3
#: Larger texts and lists are refused, and larger products.
MAX_ELEMENTS = 10_000_000
MAX_PARTS = 1_000_000
MAX_BITS = 10_000


class StepBudget:
    """What is left of the steps of one row."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.steps = steps
        self.left = steps

    def spend(self, steps: int) -> None:
        """Take steps away; raise ExcessError when there are none left."""
        self.left -= steps
        if self.left < 0:
            raise ExcessError(f"the template takes more than {self.steps:,} steps on this row")

    def spend_text(self, size: int) -> None:
        """Take away the steps of a text or list before it is made; raise ExcessError."""
        if size > MAX_ELEMENTS:
            raise ExcessError(
                f"the template makes a value of {size:,} elements; {MAX_ELEMENTS:,} are allowed"
            )
        self.spend(1 + size // STEP_TEXT)


def measure(value: object) -> int:
    """Return about how long a value is when it is printed; raise ExcessError if that is too long.

    A list that holds another twice, and that one a third twice, is exponentially long.
    """
    size = len(value) if type(value) is str else count_size(value, MAX_ELEMENTS)
    if size > MAX_ELEMENTS:
        raise ExcessError(
            f"the template makes a value of more than {MAX_ELEMENTS:,} elements "
            f"or {MAX_PARTS:,} parts"
        )
    return size


def count_size(value: object, most: int) -> int:
    """Return how many characters and parts a value has, or some number above `most`."""
    size = 0
    parts = 0
    waiting = [value]
    while waiting and size + parts <= most:
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
    """What a template sees of one row, with its budget of steps."""

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
        """Say whether a value is part of the row, at any depth, which nothing may change."""
        return _holds(dict(self.row), value)


def _holds(container: object, value: object) -> bool:
    if container is value:
        return True
    if isinstance(container, dict):
        container = list(container.values())
    if not isinstance(container, (list, tuple)):
        return False
    return any(_holds(part, value) for part in container)
