"""Rendering a template on many rows: here, or in a worker process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from answerkey.templates.analysis import Path
from answerkey.templates.environment import open_environment
from answerkey.templates.forms import Tables
from answerkey.templates.isolation import render_isolated
from answerkey.templates.keys import may_read_row
from answerkey.templates.limits import FEW_STEPS, count_within, measure
from answerkey.templates.plain import SCALARS, PartialMapping, PartialRow, make_plain
from answerkey.templates.recipes import Recipe
from answerkey.templates.rows import Rows
from answerkey.templates.sizes import weigh_cells
from answerkey.templates.trouble import FOREIGN, Excess, translate_error
from answerkey.types import Samples

#: Rows with more characters and parts than this are rendered in a worker process, whatever the template.
LARGE_ROW: Final = 16_384
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
        values: list[object] = self._take(table.frame[column]).to_list()
        if column not in table.encoded:
            return values
        return [None if text is None else json.loads(str(text)) for text in values]

    def find_large(self, most: int) -> list[int] | None:
        """Return where what is read of a row has more than `most` characters and parts; None: nowhere."""
        weights = [
            weigh_cells(self._take(self.tables[name].frame[column]))
            for name in self.reads
            if name in self.tables
            for column in self._find_columns(name)
        ]
        total = sum(weights[1:], start=weights[0]) if weights else None
        return None if total is None or not (total > most).any() else (total > most).arg_true().to_list()

    def _take(self, series: pl.Series) -> pl.Series:
        return series if self.rows is None else series.gather(self.rows)

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
        return Rows(given, len(self), columns, cells)

    def _find_columns(self, name: str) -> list[str]:
        """Return the columns to hand out, in the order of the table; all of them if it is used as a whole."""
        table, paths = self.tables[name], self.reads[name]
        if any(may_read_row(path, table) for path in paths):
            return table.columns
        wanted = {path[0].key for path in paths}
        return [column for column in table.columns if column in wanted]


def render_feed(recipe: Recipe, feed: Feed) -> list[object]:
    """Return the outcome for every row; that of a failing row is its RowTrouble. Raise TemplateStopped."""
    rows = feed.open()
    if not recipe.is_tame:
        return render_isolated(recipe, rows)
    large = feed.find_large(LARGE_ROW)
    if large is None:
        return _render_here(recipe, rows)
    small = sorted(set(range(rows.height)) - set(large))
    return _merge(large, render_isolated(recipe, rows.take(large)), _render_here(recipe, rows.take(small)))


def render_one(recipe: Recipe, context: Mapping[str, object]) -> object:
    """Return the outcome for one row, or its RowTrouble. Raise TemplateStopped."""
    rows = Rows(context)
    is_small = count_within(list(context.values()), LARGE_ROW) <= LARGE_ROW
    found = _render_here(recipe, rows) if recipe.is_tame and is_small else render_isolated(recipe, rows)
    return found[0]


def _render_here(recipe: Recipe, rows: Rows) -> list[object]:
    """Render tame rows in this process; those that take more than few steps are rendered again elsewhere."""
    found = list(recipe.render(rows, FEW_STEPS))
    heavy = [position for position, outcome in enumerate(found) if type(outcome) is Excess]
    if heavy:
        for position, outcome in zip(heavy, render_isolated(recipe, rows.take(heavy)), strict=True):
            found[position] = outcome
    return found


def _merge(positions: Sequence[int], there: list[object], elsewhere: list[object]) -> list[object]:
    """Return one list of what belongs at these positions and of the others in their order."""
    at, others = dict(zip(positions, there, strict=True)), iter(elsewhere)
    return [at[row] if row in at else next(others) for row in range(len(there) + len(elsewhere))]


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
