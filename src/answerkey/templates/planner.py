"""How a template is evaluated over whole tables: as a column, once per distinct tuple of values, or by rows.

The reference is always the template evaluated on one row; every way here gives the same values and the same
troubles, row for row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl

from answerkey.errors import listing
from answerkey.templates.analysis import Path
from answerkey.templates.distinct import Distinct, merge_distinct, number_values
from answerkey.templates.forms import Column, Computed, Field, Form, Tables, limit_size
from answerkey.templates.keys import Groups, Unkeyed, find_keys, find_value_keys, group_rows
from answerkey.templates.rendering import SAMPLE, Feed

PlanKind = Literal["constant", "column", "column expression", "distinct", "rows"]


@dataclass(frozen=True)
class Plan:
    """How a template will be evaluated on a table; `reads` are the paths that decide its value.

    `why` says, of one that goes row by row, what leaves no other way.
    """

    kind: PlanKind
    reads: tuple[str, ...] = ()
    why: str | None = None

    def __str__(self) -> str:
        if self.kind == "distinct":
            what = "value" if len(self.reads) == 1 else "tuple"
            return f"once per distinct {what} of {listing(self.reads)}" if self.reads else "once for all rows"
        if self.kind == "rows":
            return f"row by row: {self.why}"
        return f"{self.kind} {listing(self.reads)}" if self.reads else self.kind


@dataclass(frozen=True)
class Program:
    """One way to use a template, for its value or for its text: all that is known of it before any table.

    `form` is how columns compute it, if they can; `reads` is what decides its value; `render` renders rows.
    `is_lone` says that it is nothing but a path.
    """

    form: Form | None
    reads: Mapping[str, frozenset[Path]]
    render: Callable[[Feed], list[object]]
    is_lone: bool = False

    def number(self, tables: Tables) -> Distinct:
        """Return the distinct values, and which row has which."""
        computed = self.compute(tables)
        if computed is None:
            return self._number_rendered(tables)
        if computed.good is None or computed.good.all():
            return _number_cells(computed.series)
        return merge_distinct(
            computed.good,
            _number_cells(computed.series.filter(computed.good)),
            self._number_rendered(tables, (~computed.good).arg_true()),
        )

    def list_values(self, tables: Tables) -> list[object]:
        """Return the value of every row."""
        computed = self.compute(tables)
        if computed is None:
            return self._list_rendered(tables)
        values: list[object] = computed.series.to_list()
        if computed.good is None or computed.good.all():
            return values
        rows = (~computed.good).arg_true()
        for row, value in zip(rows.to_list(), self._list_rendered(tables, rows), strict=True):
            values[row] = value
        return values

    def build_series(self, tables: Tables) -> pl.Series | None:
        """Return the values as a column, if that is how they are computed and no row is in trouble."""
        computed = self.compute(tables)
        if computed is None or computed.good is None or computed.good.all():
            return None if computed is None else computed.series
        rows = (~computed.good).arg_true()
        others = self._list_rendered(tables, rows)
        if computed.series.dtype != pl.String or not all(isinstance(one, str) for one in others):
            return None
        return computed.series.clone().scatter(rows, pl.Series(others, dtype=pl.String))

    def compute(self, tables: Tables) -> Computed | None:
        """Return what columns compute; None if these cannot."""
        computed = None if self.form is None else self.form.compute(tables)
        return None if computed is None else limit_size(computed)

    def plan(self, tables: Tables, later: Collection[str] = ()) -> Plan:
        """Return how the values are found for tables like these; no value is looked at.

        The tables of the names in `later` are there when rows are evaluated, and not yet known.
        """
        empty = {name: table.slice(0, 0) for name, table in tables.items()}
        reads = tuple(sorted(_name_path(name, path) for name, paths in self.reads.items() for path in paths))
        others = [name for name in self.reads if name not in tables]
        absent = [name for name in others if name not in later]
        if absent:
            return Plan("rows", reads, f"it reads {listing(absent)}, which the dataset does not have")
        whole = [name for name in others if () in self.reads[name]]
        if whole:
            return Plan("rows", reads, f"it uses {listing(whole)} as a whole")
        if not others and self.compute(empty) is not None:
            return Plan("column" if _is_plain(self.form) else "column expression", reads)
        keys = self._find_keys(empty)
        if isinstance(keys, Unkeyed):
            return Plan("rows", reads, keys.why)
        return Plan("distinct", reads)

    def _number_rendered(self, tables: Tables, rows: pl.Series | None = None) -> Distinct:
        groups = self._group(tables, rows)
        if groups is None:
            return number_values(self.render(Feed(tables, self.reads, rows)))
        distinct = number_values(self.render(Feed(tables, self.reads, groups.leaders)))
        return Distinct(distinct.values, distinct.codes.gather(groups.codes))

    def _list_rendered(self, tables: Tables, rows: pl.Series | None = None) -> list[object]:
        groups = self._group(tables, rows)
        if groups is None:
            return self.render(Feed(tables, self.reads, rows))
        return Distinct(self.render(Feed(tables, self.reads, groups.leaders)), groups.codes).spread()

    def _group(self, tables: Tables, rows: pl.Series | None) -> Groups | None:
        """Return the groups of rows that are alike in all that is read; None if each row is on its own."""
        keys = self._find_keys(tables)
        if isinstance(keys, Unkeyed):
            return None
        if rows is None:
            return group_rows(keys, max(map(len, tables.values()), default=0))
        groups = group_rows([key.gather(rows) for key in keys], len(rows))
        return Groups(rows.gather(groups.leaders), groups.codes)

    def _find_keys(self, tables: Tables) -> list[pl.Series] | Unkeyed:
        keys: list[pl.Series] = []
        for name, table in tables.items():
            for path in self.reads.get(name, ()):
                found = find_keys(path, table, is_lone=self.is_lone)
                if isinstance(found, Unkeyed):
                    return found
                keys += found
        return keys


def _number_cells(series: pl.Series) -> Distinct:
    keys = find_value_keys(series)
    if keys is None:
        return number_values(series.to_list())
    groups = group_rows(keys, len(series))
    return Distinct(series.gather(groups.leaders).to_list(), groups.codes)


def _name_path(name: str, path: Path) -> str:
    """Return a path as a user writes it, without `sample`."""
    keys = [str(step.key) for step in path]
    return ".".join(keys if name == SAMPLE and keys else [name, *keys])


def _is_plain(form: Form | None) -> bool:
    """Say whether a form is a column as it stands, or a field of one."""
    while isinstance(form, Field):
        form = form.owner
    return isinstance(form, Column)
