"""CSV and TSV: every cell is text, every row has as many cells as the header."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TextIO

from answerkey.datasets.content import MAX_CELL, Content
from answerkey.datasets.gathering import CHUNK_CHARACTERS, CHUNK_ROWS, Chunk, Gatherer
from answerkey.datasets.names import check_names
from answerkey.datasets.troubles import Troubles
from answerkey.errors import DataError
from answerkey.types import Notice

_RAGGED_HINT = "a cell that holds the separator or a line break must be in double quotes"
_SEPARATOR_NAMES = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars"}


@dataclass
class _Rows:
    """Rows gathered into chunks, so that no file is held as Python lists as a whole."""

    gatherer: Gatherer
    names: list[str]
    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    characters: int = 0

    def add(self, cells: list[str], line: int) -> None:
        self.rows.append(cells)
        self.lines.append(line)
        self.characters += sum(map(len, cells))
        if len(self.rows) >= CHUNK_ROWS or self.characters >= CHUNK_CHARACTERS:
            self.flush()

    def flush(self) -> None:
        columns = dict(zip(self.names, zip(*self.rows, strict=True), strict=True)) if self.rows else {}
        self.gatherer.add(Chunk(columns, self.lines))
        self.rows, self.lines, self.characters = [], [], 0


@dataclass(frozen=True)
class Heading:
    """Where the column names of a delimited file come from.

    `names` are those of a file without a header line. `skipped` rows at its top are passed over first.
    """

    names: tuple[str, ...] | None = None
    skipped: int = 0


def read_csv(content: Content, gatherer: Gatherer, heading: Heading | None = None) -> tuple[Notice, ...]:
    """Hand over the rows of a file with commas; return what is odd about it."""
    return _read_delimited(content, gatherer, ",", heading or Heading())


def read_tsv(content: Content, gatherer: Gatherer, heading: Heading | None = None) -> tuple[Notice, ...]:
    """Hand over the rows of a file with tabs; return what is odd about it."""
    return _read_delimited(content, gatherer, "\t", heading or Heading())


def _read_delimited(
    content: Content, gatherer: Gatherer, separator: str, heading: Heading
) -> tuple[Notice, ...]:
    with content.open_text() as stream:
        rows = _iterate_rows(content, stream, separator)
        for _ in range(heading.skipped):
            next(rows, None)
        line, first = next(((line, cells) for line, cells in rows if cells), (1, []))
        if not first:
            raise DataError("E210", "the file is empty", where=content.place(), hint=content.guess())
        header = first if heading.names is None else list(heading.names)
        notices = check_names(header, content.place(line))
        if heading.names is not None:
            _refuse_header(content, line, first, header)
            rows = chain([(line, first)], rows)
        _read_rows(content, rows, _Rows(gatherer, header), separator)
    return notices


def _refuse_header(content: Content, line: int, first: list[str], header: list[str]) -> None:
    """Refuse names for a file that has them already: its header line would count as a row."""
    if first == header:
        hint = "leave `header` out"
        raise DataError(
            "E202", "the file has a header line with these names", where=content.place(line), hint=hint
        )


def _read_rows(content: Content, rows: Iterator[tuple[int, list[str]]], found: _Rows, separator: str) -> None:
    header, troubles = found.names, Troubles(content.file)
    blank: int | None = None
    is_first = True
    for line, cells in rows:
        if is_first and len(header) == 1:
            _refuse_separator(content, header[0], cells, separator)
        if not cells:
            blank = line
        elif len(cells) != len(header):
            message = f"the row has {_count_cells(cells)}, the header has {len(header)}"
            troubles.add("E202", message, where=content.place(line), hint=_RAGGED_HINT)
        else:
            _refuse_blank(content, blank, header)
            found.add(cells, line)
            is_first = False
    troubles.raise_any()
    found.flush()


def _count_cells(cells: list[str]) -> str:
    return "1 cell" if len(cells) == 1 else f"{len(cells)} cells"


def _refuse_blank(content: Content, blank: int | None, header: list[str]) -> None:
    """Refuse a blank line between rows of one column: it may be a skipped line or an empty cell."""
    if blank is not None and len(header) == 1:
        hint = 'write `""` for an empty cell, or remove the line'
        raise DataError("E202", "blank line in a file of one column", where=content.place(blank), hint=hint)


def _iterate_rows(content: Content, stream: TextIO, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line of each row and its cells; a blank line has none."""
    # The limit is the process's; it is only ever raised, so that no other reader is disturbed.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))
    reader = csv.reader(_refuse_nul(content, stream), delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _translate(error, content, line) from None
        yield line, cells


def _refuse_nul(content: Content, stream: TextIO) -> Iterator[str]:
    for line in stream:
        if "\0" in line:
            content.check_text()
        yield line


def _translate(error: csv.Error, content: Content, line: int) -> DataError:
    reason = str(error)
    hint = 'a cell in double quotes ends at the next double quote; one inside it is written `""`'
    if reason.startswith("unexpected end"):
        message = "a double quote opened in this row is never closed"
    elif reason.startswith("field larger"):
        message = f"a cell of this row has more than {MAX_CELL} characters; is a double quote not closed?"
    else:
        message = f"misplaced double quote: {reason}"
    return DataError("E202", message, where=content.place(line), hint=hint)


def _refuse_separator(content: Content, header: str, cells: list[str], separator: str) -> None:
    """Refuse a header of one name if it and the first row hold another separator."""
    row = "".join(cells)
    for other, name in _SEPARATOR_NAMES.items():
        if other in header and other in row:
            message = f"the header is one column {header!r}; the columns seem to be separated by {name}"
            hint = f"separate columns by {_SEPARATOR_NAMES[separator]}, or use the ending that fits"
            raise DataError("E202", message, where=content.place(1), hint=hint)
