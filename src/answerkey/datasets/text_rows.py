"""CSV and TSV: every cell is text, every row has as many cells as the header."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl

from answerkey.datasets.content import Content
from answerkey.datasets.names import check_names
from answerkey.datasets.shapes import Columns
from answerkey.datasets.troubles import Troubles
from answerkey.errors import DataError

#: The longest cell, in characters; longer ones are nearly always an unclosed quote.
MAX_CELL = 16 * 2**20
#: Rows that are held as Python lists at a time.
_CHUNK = 50_000
_RAGGED_HINT = "a cell that holds the separator or a line break must be in double quotes"
_SEPARATOR_NAMES = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars"}


@dataclass
class _Chunks:
    """Rows gathered into frames piece by piece, so that no file is held as Python lists as a whole."""

    names: list[str]
    rows: list[list[str]] = field(default_factory=list)
    frames: list[pl.DataFrame] = field(default_factory=list)

    def add(self, cells: list[str]) -> None:
        self.rows.append(cells)
        if len(self.rows) >= _CHUNK:
            self.flush()

    def flush(self) -> None:
        schema = dict.fromkeys(self.names, pl.String())
        columns = dict(zip(self.names, zip(*self.rows, strict=True), strict=True)) if self.rows else {}
        self.frames.append(pl.DataFrame(columns, schema=schema))
        self.rows = []

    def frame(self) -> pl.DataFrame:
        self.flush()
        return pl.concat(self.frames, rechunk=True)


def read_csv(content: Content) -> Columns:
    """Return the columns of a file with commas."""
    return _read_delimited(content, ",")


def read_tsv(content: Content) -> Columns:
    """Return the columns of a file with tabs."""
    return _read_delimited(content, "\t")


def _read_delimited(content: Content, separator: str) -> Columns:
    rows = _iterate_rows(content, separator)
    line, header = next(((line, cells) for line, cells in rows if cells), (1, []))
    if not header:
        raise DataError("E210", "the file is empty", where=content.place(), hint=content.guess())
    notices = check_names(header, content.place(line))
    chunks, lines = _Chunks(header), list[int]()
    troubles = Troubles(content.file)
    blank: int | None = None
    for line, cells in rows:
        if not lines and len(header) == 1:
            _refuse_separator(content, header[0], cells, separator)
        if not cells:
            blank = line
        elif len(cells) != len(header):
            message = f"the row has {_count_cells(cells)}, the header has {len(header)}"
            troubles.add("E202", message, where=content.place(line), hint=_RAGGED_HINT)
        else:
            _refuse_blank(content, blank, header)
            chunks.add(cells)
            lines.append(line)
    troubles.raise_any()
    return Columns(chunks.frame(), pl.Series("line", lines, dtype=pl.Int64), notices=notices)


def _count_cells(cells: list[str]) -> str:
    return "1 cell" if len(cells) == 1 else f"{len(cells)} cells"


def _refuse_blank(content: Content, blank: int | None, header: list[str]) -> None:
    """Refuse a blank line between rows of one column: it may be a skipped line or an empty cell."""
    if blank is not None and len(header) == 1:
        hint = 'write `""` for an empty cell, or remove the line'
        raise DataError("E202", "blank line in a file of one column", where=content.place(blank), hint=hint)


def _iterate_rows(content: Content, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line of each row and its cells; a blank line has none."""
    # The limit is the process's; it is only ever raised, so that no other reader is disturbed.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))
    reader = csv.reader(io.StringIO(content.text(), newline=""), delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _translate(error, content, line) from None
        yield line, cells


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
