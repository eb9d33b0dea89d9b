"""Rendering a template on many rows, with one context and one row object that are filled anew each time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import jinja2
import polars as pl

from answerkey.templates.analysis import Path
from answerkey.templates.compiling import find_line, open_frame, print_text, take_value
from answerkey.templates.environment import open_environment
from answerkey.templates.forms import Tables
from answerkey.templates.keys import may_read_row
from answerkey.templates.limits import measure
from answerkey.templates.plain import SCALARS, PartialMapping, PartialRow, make_plain
from answerkey.templates.trouble import FOREIGN, RowTrouble, translate_error
from answerkey.types import Samples

#: The name that sees rows whose missing keys are missing columns.
SAMPLE = "sample"


@dataclass(frozen=True)
class Feed:
    """The rows to render: what is read of each table, and (unless all) at which positions."""

    tables: Tables
    reads: Mapping[str, frozenset[Path]]
    rows: pl.Series | None = None

    def __len__(self) -> int:
        if self.rows is not None:
            return len(self.rows)
        return max((len(table) for table in self.tables.values()), default=0)

    def cells(self, table: Samples, column: str) -> list[object]:
        """Return the values of one column, decoded."""
        series = table.frame[column]
        values: list[object] = (series if self.rows is None else series.gather(self.rows)).to_list()
        if column not in table.encoded:
            return values
        return [None if text is None else json.loads(str(text)) for text in values]

    def open(self) -> Rows:
        """Return what templates see, before the first row."""
        columns = {name: self._find_columns(name) for name in self.tables if name in self.reads}
        given: dict[str, PartialMapping] = {
            name: (PartialRow if name == SAMPLE else PartialMapping).of(self.tables[name].columns)
            for name in columns
        }
        cells = {
            name: [self.cells(self.tables[name], column) for column in found]
            for name, found in columns.items()
        }
        return Rows(given, columns, cells, len(self))

    def _find_columns(self, name: str) -> list[str]:
        """Return the columns to hand out, in the order of the table; all of them if it is used as a whole."""
        table, paths = self.tables[name], self.reads[name]
        if any(may_read_row(path, table) for path in paths):
            return table.columns
        wanted = {path[0].key for path in paths}
        return [column for column in table.columns if column in wanted]


@dataclass(frozen=True)
class Rows:
    """What a template sees by name, and the cells that go into it row by row."""

    given: Mapping[str, PartialMapping]
    columns: Mapping[str, Sequence[str]]
    cells: Mapping[str, Sequence[Sequence[object]]]
    height: int

    def fill(self) -> Iterator[None]:
        """Fill in one row after the other."""
        filled = [name for name in self.given if self.columns[name]]
        if len(filled) == 1:
            row, columns = self.given[filled[0]], self.columns[filled[0]]
            for values in zip(*self.cells[filled[0]], strict=True):
                row.update(zip(columns, values, strict=True))
                yield
            return
        tuples = [zip(*self.cells[name], strict=True) for name in filled]
        for one in zip(*tuples, strict=True) if tuples else repeat((), self.height):
            for name, values in zip(filled, one, strict=True):
                self.given[name].update(zip(self.columns[name], values, strict=True))
            yield


def render_values(template: jinja2.Template, feed: Feed) -> list[object]:
    """Return the value of a lone expression for every row; a failing row's is its RowTrouble."""
    rows = feed.open()
    found: list[object] = []
    frame = open_frame(template, rows.given)
    for _ in rows.fill():
        frame.renew()
        try:
            found.append(take_value(template, frame))
        except FOREIGN as error:
            found.append(translate_error(error))
            frame = open_frame(template, rows.given)
    return found


def render_texts(template: jinja2.Template, feed: Feed, *, has_lines: bool) -> list[object]:
    """Return what is printed for every row; a failing row has its RowTrouble, which may name the line."""
    rows = feed.open()
    found: list[object] = []
    frame = open_frame(template, rows.given)
    for _ in rows.fill():
        frame.renew()
        try:
            found.append(print_text(template, frame))
        except FOREIGN as error:
            found.append(explain_error(template, error, has_lines=has_lines))
            frame = open_frame(template, rows.given)
    return found


def explain_error(template: jinja2.Template, error: BaseException, *, has_lines: bool) -> RowTrouble:
    """Return the trouble of a row on which a printing template failed, with the line if there are several."""
    trouble = translate_error(error)
    line = find_line(template, error.__traceback__) if has_lines else None
    return trouble if line is None else trouble.at_line(line)


def follow_path(path: Path, feed: Feed) -> list[object]:
    """Return what a path from `sample` leads to in every row, without Jinja's compiled form."""
    table = feed.tables[SAMPLE]
    return [_take_steps(path[1:], cell) for cell in feed.cells(table, str(path[0].key))]


def _take_steps(steps: Path, cell: object) -> object:
    environment = open_environment()
    value = cell
    try:
        for step in steps:
            value = step.take(value, environment)
        if type(value) in SCALARS:
            return value
        measure(value)
        return make_plain(value)
    except FOREIGN as error:
        return translate_error(error)
