"""A sample for which no prompt can be built, for a reason other than a template that fails."""

from __future__ import annotations

from answerkey.templates import RowTrouble


class PromptTrouble(RowTrouble):
    """The trouble of one row, with its own error code."""

    code = "E302"


class ExamplesTrouble(PromptTrouble):
    """Too few examples: what the task asks for is at fault, so that it is told once, not row by row."""
