"""How a template is evaluated over whole tables: as a column, once per distinct tuple of values, or by rows.

The reference is always the template evaluated on one row; every way here gives the same values and the same
errors, row for row. What columns compute comes with the rows on which it is exactly what Jinja gives; the
other rows are rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

import polars as pl
from jinja2 import nodes

from answerkey.errors import listing
from answerkey.templates.analysis import Path, Step, find_path, read_step
from answerkey.templates.environment import open_environment
from answerkey.templates.rendering import Recipe, Rows, render_rows
from answerkey.templates.values import (
    FOREIGN,
    FREE_OUTPUT,
    MOST_ELEMENTS,
    MOST_GROWTH,
    SCALARS,
    PartialMapping,
    PartialRow,
    RowError,
    make_plain,
    make_printable,
    measure,
    translate_error,
)
from answerkey.types import Samples

PlanKind = Literal["constant", "column", "column expression", "distinct", "rows"]
#: The tables behind the names of a template: `sample`, and others that some templates see.
Tables = Mapping[str, Samples]
#: The name that sees rows whose missing keys are missing columns.
SAMPLE: Final = "sample"
#: Rows with more characters and parts than this are rendered in a worker process, whatever the template.
LARGE_ROW: Final = 16_384
#: Longer texts are rendered, so that the limits on one row are applied to them.
_LONG_TEXT: Final = 500_000
#: What texts out of proportion to their columns may take together, before they are rendered one by one.
_MOST_BYTES: Final = 64 * 2**20
#: The white space of ASCII, as Python strips it; the column library knows others.
_BLANKS: Final = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f "
#: Columns of texts with no more distinct ones than this are grouped by a quicker way.
_FEW_TEXTS: Final = 1_000
_WHOLE: Final = (pl.Int64, pl.Int32, pl.Int16, pl.Int8, pl.UInt32, pl.UInt16, pl.UInt8)
_TEXTS: Final = frozenset([str])


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

    `expression` is what its value is, or what it prints joined by `~`; None for one with statements. `reads`
    is what decides its value. `path` is what the template consists of, if it is nothing but a path.
    """

    recipe: Recipe
    expression: nodes.Node | None
    reads: Mapping[str, frozenset[Path]]
    path: Path = ()

    def number(self, tables: Tables) -> Distinct:
        """Return the distinct values, and which row has which."""
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
        if not others and self.expression is not None and compute_column(self.expression, empty) is not None:
            path = find_path(self.expression, SAMPLE)
            is_plain = path is not None and all(isinstance(step.key, str) for step in path)
            return Plan("column" if is_plain else "column expression", reads)
        keys = self._find_keys(empty)
        return Plan("rows", reads, keys) if isinstance(keys, str) else Plan("distinct", reads)

    def _compute(self, tables: Tables) -> Computed | None:
        """Return what columns compute; None if these cannot."""
        if self.expression is None:
            return None
        empty = {name: table.slice(0, 0) for name, table in tables.items()}
        if compute_column(self.expression, empty) is None:  # found out before any part of it is computed
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


# The expressions that columns compute: a column, its parts, its letters changed, text around it.


@dataclass(frozen=True)
class Computed:
    """A column, and the rows on which it is exact; None: all of them."""

    series: pl.Series
    good: pl.Series | None = None

    def require(self, good: pl.Series | None) -> Computed:
        """Return the same column, exact on these rows at most."""
        if good is None or self.good is None:
            return Computed(self.series, self.good if good is None else good)
        return Computed(self.series, self.good & good)


_CHANGES: Final[dict[str, Callable[[pl.Series], pl.Series]]] = {
    "upper": lambda series: series.str.to_uppercase(),
    "lower": lambda series: series.str.to_lowercase(),
    "trim": lambda series: series.str.strip_chars(_BLANKS),
}
_METHODS: Final = {"upper": "upper", "lower": "lower", "strip": "trim"}


def compute_column(node: nodes.Node, tables: Tables) -> Computed | None:
    """Return the values of an expression; None if columns, or columns of these types, cannot compute it."""
    match node:
        case nodes.Getattr() | nodes.Getitem():
            return _compute_part(node, tables)
        case nodes.Concat():
            return _compute_text(node.nodes, tables)
        case nodes.Filter(
            name=name, node=nodes.Expr() as value, args=[], kwargs=[], dyn_args=None, dyn_kwargs=None
        ):
            if name == "string":
                return _compute_text([value], tables)
            owner = compute_column(value, tables) if name in _CHANGES else None
            texts = None if owner is None else print_cells(owner)
            return None if texts is None else _change_letters(texts, name)
        case nodes.Call(node=nodes.Getattr() as method, args=[], kwargs=[], dyn_args=None, dyn_kwargs=None):
            owner = compute_column(method.node, tables) if method.attr in _METHODS else None
            if owner is None or owner.series.dtype != pl.String:  # nothing else has these methods
                return None
            return _change_letters(owner, _METHODS[method.attr])
    return None


def _compute_part(node: nodes.Getattr | nodes.Getitem, tables: Tables) -> Computed | None:
    """Return a column, a field of a struct, or an element of a list or a text.

    A field is not exact where its struct is null, an element not where its index is null or outside.
    """
    step = read_step(node)
    if isinstance(node.node, nodes.Name):
        table = tables.get(node.node.name)
        if table is None or step is None or step.key not in table.columns or step.key in table.encoded:
            return None
        series = table.frame[str(step.key)]
        is_native = all(
            one.is_integer() or one in (pl.String, pl.Boolean, pl.Float64)
            for one in _list_leaves(series.dtype)
        )
        return Computed(series) if is_native else None
    owner = compute_column(node.node, tables)
    if owner is None:
        return None
    series, dtype = owner.series, owner.series.dtype
    if step is not None and isinstance(step.key, str):
        if not isinstance(dtype, pl.Struct) or step.key not in [one.name for one in dtype.fields]:
            return None
        is_there = series.is_not_null() if series.null_count() else None
        return Computed(series.struct.field(step.key), owner.good).require(is_there)
    if step is None:
        index = compute_column(node.arg, tables) if isinstance(node, nodes.Getitem) else None
    else:
        position = cast("int", step.key)
        is_known = _fits_index(position)
        index = Computed(pl.repeat(position, len(series), dtype=pl.Int64, eager=True)) if is_known else None
    if index is None or index.series.dtype not in _WHOLE or not isinstance(dtype, (pl.List, pl.String)):
        return None
    is_list, place = isinstance(dtype, pl.List), pl.when("inside").then("index")
    size = (pl.col("owner").list.len() if is_list else pl.col("owner").str.len_chars()).cast(pl.Int64)
    # An index far outside its list is more than the column library takes: there it is null.
    frame = pl.DataFrame([series.alias("owner"), index.series.alias("index")]).with_columns(
        pl.col("index").is_between(-size, size - 1).fill_null(value=False).alias("inside")
    )
    owners = pl.col("owner")
    element = owners.list.get(place, null_on_oob=True) if is_list else owners.str.slice(place, 1)
    found = frame.select(element).to_series()
    return Computed(found, owner.good).require(index.good).require(frame["inside"])


def _change_letters(texts: Computed, change: str) -> Computed:
    """Return the changed texts; exact for ASCII, where Rust and Python agree."""
    is_ascii = (texts.series.str.len_bytes() == texts.series.str.len_chars()).fill_null(value=False)
    changed = Computed(_CHANGES[change](texts.series), texts.good)
    return changed if is_ascii.all() else changed.require(is_ascii)


def _compute_text(pieces: Sequence[nodes.Node], tables: Tables) -> Computed | None:
    """Return literal text and what is printed between it, put together; not exact where limits may apply."""
    whole = Computed(pl.Series([], dtype=pl.String))
    columns: list[pl.Series] = []
    parts: list[pl.Expr] = []
    literal = 0
    for piece in pieces:
        text = piece.data if isinstance(piece, nodes.TemplateData) else None
        # Jinja has made one constant of what consists of constants: a list, too.
        if isinstance(piece, nodes.Const) and type(piece.value) in SCALARS:
            text = str(piece.value)
        if text is not None:
            literal += len(text.encode())
            parts.append(pl.lit(text))
            continue
        found = compute_column(piece, tables)
        printed = None if found is None else print_cells(found)
        if found is None or printed is None:
            return None
        name = f"{'text' if found.series.dtype == pl.String else 'other'} {len(columns)}"
        parts.append(pl.col(name))
        columns.append(printed.series.alias(name))
        whole = whole.require(printed.good)
    if not columns:
        return None
    frame = pl.DataFrame(columns)
    sizes = [int(one.estimated_size()) for one in columns]
    total = literal * frame.height + sum(sizes)
    if total > _MOST_BYTES and total > MOST_GROWTH * max(sizes):
        return None  # much memory, and far more than what the texts are made of
    texts = frame.select(pl.concat_str(parts).alias("text")).to_series()
    size = texts.str.len_bytes().cast(pl.Int64)
    if (cast("int | None", size.max()) or 0) <= FREE_OUTPUT:
        return Computed(texts, whole.good)
    given = [one.str.len_chars() for one in columns if one.name.startswith("text")]
    most = pl.DataFrame(given).max_horizontal().cast(pl.Int64) if given else size * 0
    is_proportionate = (size <= FREE_OUTPUT + MOST_GROWTH * most) & (size <= _LONG_TEXT)
    return Computed(texts, whole.good).require(is_proportionate)


def print_cells(cells: Computed) -> Computed | None:
    """Return what Jinja prints for the values: `None` for null, `True` for true, the rest as Python does.

    Each distinct float, list or struct is printed once; not exact where limits may apply.
    """
    series, dtype = cells.series, cells.series.dtype
    if dtype == pl.String or dtype.is_integer():
        texts = series.cast(pl.String)
    elif dtype == pl.Boolean:
        texts = series.replace_strict({True: "True", False: "False"}, return_dtype=pl.String)
    else:
        keys = find_value_keys(series)
        if keys is None:
            return None
        leaders, codes = group_rows(keys, len(series))
        printed: list[str | None] = []
        for value in series.gather(leaders).to_list():
            try:
                printed.append(str(make_printable(value)) if measure(value) <= _LONG_TEXT else None)
            except OverflowError:
                printed.append(None)
        texts = pl.Series(printed, dtype=pl.String).gather(codes)
        is_short = texts.is_not_null() if texts.null_count() else None
        return Computed(texts.fill_null(""), cells.good).require(is_short)
    return Computed(texts.fill_null("None") if texts.null_count() else texts, cells.good)


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
        elif isinstance(series.dtype, pl.List) and isinstance(step.key, int) and _fits_index(step.key):
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


def _fits_index(index: int) -> bool:
    """Say whether the column library can take an index."""
    return abs(index) < 2**31


def _is_method(step: Step) -> bool:
    return step.kind == "attribute" and hasattr(dict, str(step.key))


def _list_leaves(dtype: pl.DataType) -> list[pl.DataType]:
    """Return the types of what stands in a column at the end of all lists and structs."""
    if isinstance(dtype, pl.List):
        return _list_leaves(cast("pl.DataType", dtype.inner))
    if isinstance(dtype, pl.Struct):
        return [leaf for one in dtype.fields for leaf in _list_leaves(cast("pl.DataType", one.dtype))]
    return [dtype]


def find_value_keys(series: pl.Series) -> list[pl.Series] | None:
    """Return columns that are alike in two rows only if the values are the same; None if none are."""
    leaves = _list_leaves(series.dtype)
    # Types of which Polars finds equal values just as Python does.
    is_exact = all(
        one.is_integer() or one.is_float() or isinstance(one, (pl.String, pl.Boolean, pl.Null))
        for one in leaves
    )
    if not is_exact:
        return None
    # -0.0 prints otherwise than 0.0, and equals it.
    negative = [((one == 0) & (1 / one < 0)).fill_null(value=False) for one in _find_floats(series)]
    if not any(one.any() for one in negative):
        return [series]
    return [series, negative[0]] if series.dtype.is_float() else None


def _find_floats(series: pl.Series) -> Iterator[pl.Series]:
    """Yield the floats of a column, at any depth."""
    if series.dtype.is_float():
        yield series
    elif isinstance(series.dtype, pl.List) and "Float" in str(series.dtype):
        yield from _find_floats(series.explode())
    elif isinstance(series.dtype, pl.Struct):
        for one in series.dtype.fields:
            yield from _find_floats(series.struct.field(one.name))


def group_rows(keys: Sequence[pl.Series], height: int) -> tuple[pl.Series, pl.Series]:
    """Return the first row of each group of rows that are alike in all keys, and for each row its group.

    Groups are in the order of their first rows.
    """
    if all(map(_are_alike, keys)):
        first = pl.zeros(height, pl.UInt32, eager=True)
        return first.head(1), first
    if len(keys) == 1 and keys[0].dtype == pl.String and not keys[0].null_count():
        leaders = keys[0].arg_unique()
        if len(leaders) <= _FEW_TEXTS:  # a third of the time of what is done for any keys
            texts = pl.Enum(keys[0].gather(leaders))
            return leaders, keys[0].cast(texts).to_physical().cast(pl.UInt32)
    frame = pl.DataFrame([key.alias(str(number)) for number, key in enumerate(keys)])
    first = frame.with_row_index("row").select(pl.col("row").min().over(frame.columns)).to_series()
    is_leader = first == pl.int_range(height, dtype=pl.UInt32, eager=True)
    numbers = is_leader.cum_sum() - 1
    return is_leader.arg_true(), numbers.gather(first).cast(pl.UInt32)


def _are_alike(series: pl.Series) -> bool:
    """Say whether all rows of a column of texts, or of lists of texts, are the same; False if unsure.

    Choices mostly are, and this is found out in a third of the time that grouping takes.
    """
    if series.null_count() or not len(series):
        return False
    if series.dtype == pl.String:
        return bool((series == series[0]).all())
    if series.dtype != pl.List(pl.String):
        return False
    sizes = series.list.len()
    size, cells = int(sizes[0]), series.explode()
    if not size or cells.null_count() or not (sizes == size).all():
        return False
    return all(bool((cells.gather_every(size, place) == cells[place]).all()) for place in range(size))


# How large the values of a column are, told without looking at them one by one.

#: A value counts for itself and as an element of what it stands in, beside its characters.
_EACH: Final = 2


def weigh_cells(series: pl.Series) -> pl.Series:
    """Return at least as much as each value has characters and elements."""
    return series.to_frame("value").select(_weigh(pl.col("value"), series.dtype)).to_series()


def bound_total(series: pl.Series) -> int:
    """Return at least as much as all values of a column count together."""
    own = _EACH * len(series)
    if isinstance(series.dtype, pl.List):
        return own + bound_total(series.explode())
    if isinstance(series.dtype, pl.Struct):
        return own + sum(bound_total(series.struct.field(one.name)) for one in series.dtype.fields)
    return own + (int(series.estimated_size()) if series.dtype == pl.String else 0)


def _weigh(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return at least what each value counts."""
    if isinstance(dtype, pl.List):
        elements = value.list.eval(_weigh(pl.element(), cast("pl.DataType", dtype.inner)))
        return elements.list.sum().fill_null(0) + _EACH
    if isinstance(dtype, pl.Struct):
        fields = [
            _weigh(value.struct.field(one.name), cast("pl.DataType", one.dtype)) for one in dtype.fields
        ]
        return pl.sum_horizontal(fields) + _EACH
    size = value.str.len_bytes() if dtype == pl.String else value.is_null()
    return size.cast(pl.Int64).fill_null(0) + _EACH
