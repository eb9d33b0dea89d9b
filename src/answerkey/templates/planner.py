"""How a template is evaluated over whole tables: as a column, once per distinct tuple of values, or by rows.

The reference is always the template evaluated on one row; every way here gives the same values and the same
errors, row for row. What columns compute comes with the rows on which it is exactly what Jinja gives; the
other rows are rendered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, cast

import polars as pl
from jinja2 import nodes

from answerkey.errors import listing
from answerkey.templates.analysis import Path, Step, find_path
from answerkey.templates.columns import (
    SAMPLE,
    Computed,
    Tables,
    bound_total,
    compute_column,
    find_value_keys,
    group_rows,
    weigh_cells,
)
from answerkey.templates.environment import open_environment
from answerkey.templates.rendering import Recipe, Rows, render_rows
from answerkey.templates.values import (
    FOREIGN,
    MOST_ELEMENTS,
    PartialMapping,
    PartialRow,
    RowError,
    make_plain,
    measure,
    translate_error,
)
from answerkey.types import Samples

PlanKind = Literal["constant", "column", "column expression", "distinct", "rows"]
#: Rows with more characters and parts than this are rendered in a worker process, whatever the template.
LARGE_ROW: Final = 16_384
_TEXTS: Final = frozenset([str])
#: So many rows tell whether most rows differ.
_FIRST_ROWS: Final = 1_000
#: So few rows with lists are rendered sooner than computed.
_FEW_ROWS: Final = 64
#: No larger index is taken by the column library.
_MOST_INDEX: Final = 2**31


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
class Distinct:
    """Distinct values, and for each row the position of its value among them.

    1, 1.0, true and "1" are different values. A row on which a template fails has its `RowError` as value.
    """

    values: list[object]
    codes: pl.Series

    def __len__(self) -> int:
        return len(self.codes)

    def spread(self) -> list[object]:
        """Return one value per row."""
        values = self.values
        return values * len(self) if len(values) == 1 else [values[code] for code in self.codes.to_list()]


def number_values(values: Sequence[object]) -> Distinct:
    """Return values that stand in Python, one per row, numbered."""
    known: dict[object, int] = {}
    distinct: list[object] = []
    codes: list[int] = []
    for value in values:
        # The key is the same only for the same value of the same type.
        key: object
        if type(value) is str:
            key = value
        elif type(value) is list and _TEXTS.issuperset(map(type, value)):
            key = ("texts", *value)
        elif isinstance(value, RowError):
            key = (RowError, value.message, value.hint, value.column, value.is_undefined)
        else:
            key = (type(value), repr(value))
        code = known.setdefault(key, len(distinct))
        if code == len(distinct):
            distinct.append(value)
        codes.append(code)
    return Distinct(distinct, pl.Series("code", codes, dtype=pl.UInt32))


@dataclass(frozen=True)
class Program:
    """One way to use a template, for its value or for its text: all that is known of it before any table.

    `expression` is what its value is, or what it prints, and its statements, joined by `~`. `reads` is what
    decides its value. `path` is what the template consists of, if it is nothing but a path.
    """

    recipe: Recipe
    expression: nodes.Node
    reads: Mapping[str, frozenset[Path]]
    path: Path = ()
    #: By the types of columns, whether these compute it.
    _computable: dict[object, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    def number(self, tables: Tables) -> Distinct:
        """Return the distinct values, and which row has which."""
        if grouped := self._group(tables):
            found = self.number(grouped[0])
            return Distinct(found.values, found.codes.gather(grouped[1]))
        computed = self._compute(tables)
        if computed is None:
            rendered = self._render_distinct(tables)
            both, codes = number_values(rendered.values), rendered.codes
        elif computed.good is None:
            return _number_cells(computed.series)
        else:
            exact, others = computed.good.arg_true(), (~computed.good).arg_true()
            first = _number_cells(computed.series.gather(exact))
            second = self._render_distinct(take_rows(tables, others))
            both = number_values([*first.values, *second.values])
            codes = pl.zeros(len(computed.series), pl.UInt32, eager=True)
            codes.scatter(exact, first.codes)
            codes.scatter(others, second.codes + len(first.values))
        return Distinct(both.values, both.codes.gather(codes))

    def list_values(self, tables: Tables) -> list[object]:
        """Return the value of every row."""
        if grouped := self._group(tables):
            return Distinct(self.list_values(grouped[0]), grouped[1]).spread()
        computed = self._compute(tables)
        if computed is None:
            return self._render_distinct(tables).spread()
        values: list[object] = computed.series.to_list()
        if computed.good is not None:
            rows = (~computed.good).arg_true()
            others = self._render_distinct(take_rows(tables, rows)).spread()
            for row, value in zip(rows.to_list(), others, strict=True):
                values[row] = value
        return values

    def build_series(self, tables: Tables) -> pl.Series | None:
        """Return the values as a column, if that is how they are computed and no row has an error."""
        if grouped := self._group(tables):
            series = self.build_series(grouped[0])
            return None if series is None else series.gather(grouped[1])
        computed = self._compute(tables)
        if computed is None or computed.good is None:
            return None if computed is None else computed.series
        rows = (~computed.good).arg_true()
        others = self._render_distinct(take_rows(tables, rows)).spread()
        if computed.series.dtype != pl.String or not all(isinstance(one, str) for one in others):
            return None
        return computed.series.clone().scatter(rows, pl.Series(others, dtype=pl.String))

    def plan(self, tables: Tables, later: Collection[str] = ()) -> Plan:
        """Return how the values are found for tables like these; no value is looked at.

        The tables of the names in `later` are there when rows are evaluated, and not yet known.
        """
        empty = {name: table.slice(0, 0) for name, table in tables.items()}
        # As a user writes them, without `sample`.
        named = [
            [*([] if name == SAMPLE and path else [name]), *(str(step.key) for step in path)]
            for name, paths in self.reads.items()
            for path in paths
        ]
        reads = tuple(sorted(map(".".join, named)))
        others = [name for name in self.reads if name not in tables]
        absent = [name for name in others if name not in later]
        if absent:
            return Plan("rows", reads, f"it reads {listing(absent)}, which the dataset does not have")
        whole = [name for name in others if () in self.reads[name]]
        if whole:
            return Plan("rows", reads, f"it uses {listing(whole)} as a whole")
        if not others and self._is_computed(tables):
            path = find_path(self.expression, SAMPLE)
            is_plain = path is not None and all(isinstance(step.key, str) for step in path)
            return Plan("column" if is_plain else "column expression", reads)
        keys = self._find_keys(empty)
        return Plan("rows", reads, keys) if isinstance(keys, str) else Plan("distinct", reads)

    @cached_property
    def goes_through(self) -> bool:
        """Whether it goes through all elements of lists, which takes longer than to find equal rows."""
        whole = nodes.Concat([self.expression])
        names = {one.name for one in whole.find_all(nodes.Filter)}
        names |= {one.attr for one in whole.find_all(nodes.Getattr)}
        return not names.isdisjoint({"map", "join", "index"}) or whole.find(nodes.For) is not None

    def _group(self, tables: Tables) -> tuple[Tables, pl.Series] | None:
        """Return rows that stand for all, and for each row which of them; None where most rows differ.

        The first rows tell whether they do. Rows that only Jinja can render are grouped later.
        """
        height = len(tables[SAMPLE])
        if height <= _FIRST_ROWS or not self.goes_through or not self._is_computed(tables):
            return None
        keys = self._find_keys(tables)
        if isinstance(keys, str):
            return None
        first, _ = group_rows([key.head(_FIRST_ROWS) for key in keys], _FIRST_ROWS)
        if len(first) > _FIRST_ROWS // 2:
            return None
        leaders, codes = group_rows(keys, height)
        return take_rows(tables, leaders), codes

    def _is_computed(self, tables: Tables) -> bool:
        """Say whether columns of these types compute it; no value is looked at."""
        key = frozenset((name, table.encoded, *table.frame.schema.items()) for name, table in tables.items())
        if key not in self._computable:
            empty = {name: table.slice(0, 0) for name, table in tables.items()}
            self._computable[key] = compute_column(self.expression, empty) is not None
        return self._computable[key]

    def _compute(self, tables: Tables) -> Computed | None:
        """Return what columns compute; None if these cannot."""
        if not self._is_computed(tables):  # before any part of it is computed
            return None
        if self.goes_through and len(tables[SAMPLE]) <= _FEW_ROWS:
            return None
        computed = compute_column(self.expression, tables)
        if computed is None:
            return None
        series = computed.series
        if isinstance(series.dtype, (pl.List, pl.Struct)) and bound_total(series) > MOST_ELEMENTS:
            computed = computed.require(weigh_cells(series) <= MOST_ELEMENTS)
        return Computed(series) if computed.good is not None and computed.good.all() else computed

    def _render_distinct(self, tables: Tables) -> Distinct:
        """Render rows, once where they are alike in all that is read; a value may recur."""
        keys, height = self._find_keys(tables), len(tables[SAMPLE])
        if isinstance(keys, str):
            return Distinct(self._render(tables), pl.int_range(height, dtype=pl.UInt32, eager=True))
        leaders, codes = group_rows(keys, height)
        return Distinct(self._render(take_rows(tables, leaders)), codes)

    def _find_keys(self, tables: Tables) -> list[pl.Series] | str:
        keys: list[pl.Series] = []
        for name, table in tables.items():
            for path in self.reads.get(name, ()):
                found = find_keys(path, table, is_lone=bool(self.path))
                if isinstance(found, str):
                    return found
                keys += found
        return keys

    def _render(self, tables: Tables) -> list[object]:
        """Return the outcome for each row; that of a failing row is its RowError."""
        if self.path and self.path[0].key in tables[SAMPLE].columns:
            cells = tables[SAMPLE].values(str(self.path[0].key))
            return [_follow_path(self.path[1:], cell) for cell in cells]
        given: dict[str, PartialMapping] = {}
        columns: dict[str, list[str]] = {}
        for name, table in tables.items():
            if paths := self.reads.get(name):
                reads_all = any(_may_read_row(path, table) for path in paths)
                wanted = table.columns if reads_all else {path[0].key for path in paths}
                columns[name] = [column for column in table.columns if column in wanted]
                given[name] = (PartialRow if name == SAMPLE else PartialMapping)(table.columns)
        read = {name: [tables[name].values(column) for column in some] for name, some in columns.items()}
        large: frozenset[int] = frozenset()
        if self.recipe.is_bounded and any(columns.values()):
            frames = (tables[name].frame.select(some) for name, some in columns.items())
            first, *others = (weigh_cells(series) for frame in frames for series in frame)
            large = frozenset((sum(others, start=first) > LARGE_ROW).arg_true().to_list())
        return render_rows(self.recipe, Rows(given, len(tables[SAMPLE]), columns, read), large)


def take_rows(tables: Tables, rows: pl.Series) -> Tables:
    """Return the rows at these positions of every table; the same tables where these are all."""
    if len(rows) == len(tables[SAMPLE]):  # positions ascend
        return tables
    return {name: table.take(rows) for name, table in tables.items()}


def _follow_path(steps: Path, cell: object) -> object:
    """Return what a path leads to from a cell, as Jinja does, without its compiled form."""
    environment = open_environment()
    value = cell
    try:
        for step in steps:
            take = environment.getattr if step.kind == "attribute" else environment.getitem
            value = take(value, cast("str", step.key))
        measure(value)
        return make_plain(value)
    except FOREIGN as error:
        return translate_error(error)


def _number_cells(series: pl.Series) -> Distinct:
    keys = find_value_keys(series)
    if keys is None:
        return number_values(series.to_list())
    leaders, codes = group_rows(keys, len(series))
    return Distinct(series.gather(leaders).to_list(), codes)


# Which rows are alike in all that a template reads.


def find_keys(path: Path, table: Samples, *, is_lone: bool) -> list[pl.Series] | str:
    """Return columns that are alike in two rows only if all that a path can lead to is alike in them.

    A text says why there are none: each row is rendered on its own. A template that is nothing but the path
    (`is_lone`) calls no method on the way. Where a step leaves the shape of the column (a method, a character
    of a text) the whole value counts.
    """
    if not path:
        return "it uses the row as a whole"
    first = path[0]
    if _may_read_row(path, table) and not is_lone:
        return f"there is no column `{first.key}`, which leaves the method of the row"
    if first.key not in table.columns:
        return []
    series = table.frame[str(first.key)]
    if first.key in table.encoded:
        return [series]
    keys: list[pl.Series] = []
    for step in path[1:]:
        if isinstance(series.dtype, pl.Struct):
            keys.append(series.is_null())
            if step.key not in [one.name for one in series.dtype.fields]:
                if is_lone or not _is_method(step):
                    return keys
                break
            series = series.struct.field(str(step.key))
        elif isinstance(series.dtype, pl.List) and isinstance(step.key, int) and abs(step.key) < _MOST_INDEX:
            keys.append(series.list.len())
            series = series.list.get(step.key, null_on_oob=True)
        else:
            break
    value = find_value_keys(series)
    if value is None:
        return f"the values of column `{first.key}` cannot be told apart by the column library"
    return [*keys, *value]


def _may_read_row(path: Path, table: Samples) -> bool:
    """Say whether a path can lead to any column: to the row, or to a method of it for want of a column."""
    return not path or (_is_method(path[0]) and path[0].key not in table.columns)


def _is_method(step: Step) -> bool:
    return step.kind == "attribute" and hasattr(dict, str(step.key))
