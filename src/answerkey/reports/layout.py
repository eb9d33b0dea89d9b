"""Lines of text with roles, and tables laid out in them; how a role looks is the printer's business."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from answerkey.reports.sanitize import make_visible, measure_width, shorten

Role = Literal["plain", "title", "head", "strong", "dim", "good", "warn", "bad"]


@dataclass(frozen=True)
class Span:
    """A piece of a line."""

    text: str
    role: Role = "plain"


Line = tuple[Span, ...]
Cell = str | Span
BLANK: Line = ()
INDENT = "  "
GAP = "  "


def line(*pieces: Cell) -> Line:
    """Return a line from texts and spans."""
    return tuple(piece if isinstance(piece, Span) else Span(piece) for piece in pieces)


def make_line_visible(one: Line) -> Line:
    """Return a line with what is still hidden in it written out: the last gate before a terminal."""
    return tuple(Span(make_visible(span.text), span.role) for span in one)


def plain_text(lines: Iterable[Line]) -> str:
    """Return lines as text without roles, each ended by a line feed, without blanks at line ends."""
    return "".join("".join(span.text for span in one).rstrip() + "\n" for one in lines)


@dataclass(frozen=True)
class Table:
    """A small table: `align` has one of `<` and `>` per column; `flexible` is the column that may be cut."""

    header: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    align: str
    flexible: int | None = None


def lay_out(table: Table, width: int, *, indent: str = INDENT) -> list[Line]:
    """Return the table as lines of at most `width` cells, as far as cutting the flexible column allows.

    A column without any text is left out, and so is a heading line without any.
    """
    columns = [
        _Column([_as_span(cell) for cell in cells], align, is_flexible=number == table.flexible)
        for number, (align, *cells) in enumerate(zip(table.align, table.header, *table.rows, strict=True))
        if any(_as_span(cell).text for cell in cells[1:])
    ]
    spare = width - len(indent) - sum(column.width for column in columns) - len(GAP) * (len(columns) - 1)
    widths = [column.fit(spare) for column in columns]
    lines = [_draw_row(number, columns, widths, indent) for number in range(len(table.rows) + 1)]
    return lines if any(column.cells[0].text for column in columns) else lines[1:]


@dataclass(frozen=True)
class _Column:
    """The cells of one column, the heading first."""

    cells: Sequence[Span]
    align: str
    is_flexible: bool

    @property
    def width(self) -> int:
        return max(measure_width(cell.text) for cell in self.cells)

    def fit(self, spare: int) -> int:
        """Return the width to draw it in when the table has `spare` cells left, or lacks them."""
        least = max(8, measure_width(self.cells[0].text))
        return max(least, self.width + spare) if self.is_flexible and spare < 0 else self.width


def _as_span(cell: Cell) -> Span:
    return cell if isinstance(cell, Span) else Span(cell)


def _draw_row(number: int, columns: Sequence[_Column], widths: Sequence[int], indent: str) -> Line:
    pieces: list[Span] = [Span(indent)]
    for column, width in zip(columns, widths, strict=True):
        cell = column.cells[number]
        text = cell.text if measure_width(cell.text) <= width else shorten(cell.text, width)
        room = " " * (width - measure_width(text))
        pieces += [Span(GAP)] if len(pieces) > 1 else []
        pieces.append(
            Span(room + text if column.align == ">" else text + room, cell.role if number else "head")
        )
    return tuple(piece for piece in pieces if piece.text)


def wrap(text: str, width: int) -> list[str]:
    """Return text broken at spaces into lines of at most `width` cells; a longer word gets its own line."""
    lines: list[str] = []
    current = ""
    for word in text.split(" "):
        joined = f"{current} {word}" if current else word
        if current and measure_width(joined) > width:
            lines.append(current)
            current = word
        else:
            current = joined
    return [*lines, current]
