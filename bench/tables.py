"""Tables and numbers as text, for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MILLION = 1_000_000


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
        return "\n".join(f"| {' | '.join(row)} |" for row in [self.head, ruler, *self.rows])


def say_seconds(seconds: float | None) -> str:
    """Return seconds with their thousandths where there are few."""
    if seconds is None:
        return "-"
    return f"{seconds:.3f} s" if seconds < 1 else f"{seconds:,.2f} s"


def say_rate(rate: float | None) -> str:
    """Return a rate per second."""
    if rate is None:
        return "-"
    return f"{rate / MILLION:.2f} M/s" if rate >= MILLION else f"{rate:,.0f}/s"


def say_bytes(count: float) -> str:
    """Return bytes as megabytes of a million."""
    return f"{count / MILLION:,.0f} MB" if count >= 10 * MILLION else f"{count / MILLION:.1f} MB"


def say_rows(rows: int) -> str:
    """Return a number of rows: 10 k, 1 M."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if rows >= size and rows % size == 0:
            return f"{rows // size} {letter}"
    return f"{rows:,}"
