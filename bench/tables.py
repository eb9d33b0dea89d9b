"""Tables and numbers as text, for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table whose first column is text and whose others are aligned to the right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def to_text(self) -> str:
        """Return the table for a terminal."""
        cells = [self.head, *self.rows]
        widths = [max(len(row[place]) for row in cells) for place in range(len(self.head))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if place == 0 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        )

    def to_markdown(self) -> str:
        """Return the table for a page."""
        ruler = ["---", *["---:"] * (len(self.head) - 1)]
        return "\n".join(f"|{'|'.join(row)}|" for row in [self.head, ruler, *self.rows])
