"""What a template sees of one row, and how much it may still do there."""

from __future__ import annotations

from typing import Any, cast

from jinja2.runtime import Context

from answerkey.templates.limits import MOST_ELEMENTS, Effort, count_within, limit_growth

#: What Jinja hands around: any value at all.
Value = Any


class RowContext(Context):
    """What a template sees of one row, with the effort that is left for it.

    `holds` tells the row's own values, which nothing may change, from what the template made itself.
    """

    def __init__(self, *arguments: Value, **options: Value) -> None:
        super().__init__(*arguments, **options)
        self.effort = Effort()
        self.given = self.parent
        self._held: frozenset[int] | None = None
        self._own_size = 0
        self._columns: frozenset[str] | None = None

    def grant(self, steps: int, *, own_size: int, columns: frozenset[str] | None) -> None:
        """Say what the template may do, how long it is itself, and which columns it reads (None: any)."""
        self.effort = Effort(steps)
        self._own_size = own_size
        self._columns = columns

    def limit_growth(self, size: int) -> None:
        """Raise ExcessError for an outcome that is out of proportion to the row and the template."""
        given = sum(self._count(name, value) for name, value in self.given.items())
        limit_growth(size, self._own_size + given)

    def _count(self, name: str, value: object) -> int:
        if name == "sample" and isinstance(value, dict) and self._columns is not None:
            value = {key: value[key] for key in self._columns if key in value}
        return min(count_within(value, MOST_ELEMENTS), MOST_ELEMENTS)

    def renew(self) -> None:
        """Begin anew with the next row: nothing set, nothing spent."""
        self.vars.clear()
        self.exported_vars.clear()
        self.effort.renew()
        self.eval_ctx.autoescape = False
        self._held = None

    def derived(self, locals: dict[str, Value] | None = None) -> RowContext:  # noqa: A002 - Jinja's own signature
        """Return a context of the same row; what was given and what is left stay the same."""
        context = cast("RowContext", super().derived(locals))
        context.effort, context.given = self.effort, self.given
        return context

    def holds(self, value: object) -> bool:
        """Say whether a value is part of what was given, at any depth."""
        if self._held is None:
            self._held = frozenset(_walk_containers(self.given))
        return id(value) in self._held


def _walk_containers(root: object) -> set[int]:
    """Return the identities of a value and of all lists and mappings inside it."""
    found: set[int] = set()
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if not isinstance(value, (list, tuple, dict)) or id(value) in found:
            continue
        found.add(id(value))
        waiting.extend(value.values() if isinstance(value, dict) else value)
    return found
