"""What a template sees of one row, and how much it may still do there."""

from __future__ import annotations

from typing import Any

from jinja2.runtime import Context

from answerkey.templates.limits import MOST_STEPS, Effort

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

    def renew(self) -> None:
        """Begin anew with the next row: nothing set, nothing spent."""
        self.vars.clear()
        self.exported_vars.clear()
        self.effort.left = MOST_STEPS
        self.eval_ctx.autoescape = False
        self._held = None

    def derived(self, locals: dict[str, Value] | None = None) -> RowContext:  # noqa: A002 - Jinja's own signature
        """Return a context of the same row; what was given and what is left stay the same."""
        context = super().derived(locals)
        if not isinstance(context, RowContext):
            raise TypeError(type(context).__name__)
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
