"""What columns compute of a template: parts of a row, texts around them, conditions, loops over a list.

What is computed comes with the rows on which it is exactly what Jinja gives. Where a row is null, an index is
outside or a limit may apply, it is not exact, and Jinja decides: it has the value or the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, cast

import polars as pl
from jinja2 import nodes

from answerkey.templates.analysis import read_step
from answerkey.templates.values import (
    CALL_STEPS,
    FREE_OUTPUT,
    MOST_GROWTH,
    SCALARS,
    STEP_TEXT,
    make_printable,
    measure,
)
from answerkey.types import Samples

#: The tables behind the names of a template: `sample`, and others that some templates see.
Tables = Mapping[str, Samples]
#: The name that sees rows whose missing keys are missing columns.
SAMPLE: Final = "sample"
#: Longer texts are rendered, so that the limits on one row are applied to them.
_LONG_TEXT: Final = 500_000
#: What texts out of proportion to their columns may take together, before they are rendered one by one.
_MOST_BYTES: Final = 64 * 2**20
#: The white space of ASCII, as Python strips it; the column library knows others.
_BLANKS: Final = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f "
#: Columns of texts with no more distinct ones than this are grouped by a quicker way.
_FEW_TEXTS: Final = 1_000
_WHOLE: Final = (pl.Int64, pl.Int32, pl.Int16, pl.Int8, pl.UInt32, pl.UInt16, pl.UInt8)
#: Lists of more elements are rendered, and in loops longer texts: no limit on steps is near.
_MOST_PARTS: Final = 1_000
_LOOP_TEXT: Final = 1_024
#: The steps that a loop may need here; Jinja allows twice as many.
_LOOP_STEPS: Final = 500_000
#: Loops of so many turns on each row are put together by a quicker way.
_FEW_TURNS: Final = 32
#: Constants longer than this are looked through by Jinja.
_LONGEST_KEY: Final = 32
#: Sums of such numbers are within those of the column library, and digits that are such numbers.
_LARGEST_TERM: Final = 2**61
_DIGITS: Final = "^-?[0-9]{1,18}$"


class _NotComputedError(Exception):
    """Columns, or columns of these types, cannot compute an expression."""


def _insist(is_fit: bool) -> None:  # noqa: FBT001 - what must hold
    """Give up on columns unless something holds."""
    if not is_fit:
        raise _NotComputedError


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

    def require_values(self) -> Computed:
        """Return the same column, exact only where there is a value."""
        return self.require(self.series.is_not_null()) if self.series.null_count() else self


@dataclass(frozen=True)
class Scope:
    """What names stand for: tables, and in the body of a loop its own names, with a value for each turn.

    `turns` is the row of each turn, and None outside of loops.
    """

    tables: Tables
    names: Mapping[str, Computed] = field(default_factory=dict)
    turns: pl.Series | None = None

    def repeat(self, value: object) -> Computed:
        """Return a constant as a column, unless it is one that columns do not hold."""
        is_held = type(value) in (str, bool, float, list)  # lists are of texts
        is_held = is_held or (type(value) is int and abs(value) < _LARGEST_TERM)
        _insist(is_held)
        height = len(self.tables[SAMPLE] if self.turns is None else self.turns)
        return Computed(pl.Series([value]).new_from_index(0, height))

    def limit_text(self, texts: pl.Series) -> pl.Series | None:
        """Return which texts are so short that no limit applies; None: all of them."""
        most = FREE_OUTPUT if self.turns is None else _LOOP_TEXT
        size = texts.str.len_bytes()
        return (
            None if (cast("int | None", size.max()) or 0) <= most else (size <= most).fill_null(value=False)
        )


_CHANGES: Final[dict[str, Callable[[pl.Series], pl.Series]]] = {
    "upper": lambda series: series.str.to_uppercase(),
    "lower": lambda series: series.str.to_lowercase(),
    "trim": lambda series: series.str.strip_chars(_BLANKS),
}
_METHODS: Final = {"upper": "upper", "lower": "lower", "strip": "trim"}
_ENDS: Final = {"first": 0, "last": -1}


def compute_column(node: nodes.Node, tables: Tables) -> Computed | None:
    """Return the values of an expression; None if columns, or columns of these types, cannot compute it."""
    try:
        return _compute(node, Scope(tables))
    except _NotComputedError:
        return None


def _compute(node: nodes.Node, scope: Scope) -> Computed:
    """Return the values of an expression; what columns cannot compute raises."""
    match node:
        case nodes.Name() if node.name in scope.names:
            return scope.names[node.name]
        case nodes.Const() | nodes.List():
            constant = _read_constant(node)
            return _compute_list(node, scope) if constant is None else scope.repeat(constant)
        case nodes.Getattr(node=nodes.Name(name="loop")) if scope.turns is not None:
            _insist(f"loop.{node.attr}" in scope.names)
            return scope.names[f"loop.{node.attr}"]
        case nodes.Getattr() | nodes.Getitem():
            return _compute_part(node, scope)
        case nodes.Concat():
            return _compute_text(node.nodes, scope)
        case nodes.Filter(node=nodes.Expr() as value, dyn_args=None, dyn_kwargs=None):
            return _compute_filter(node, value, scope)
        case nodes.Call(
            node=nodes.Getattr(attr="index") as method, args=[key], kwargs=[], dyn_args=None, dyn_kwargs=None
        ):
            return _compute_index(method.node, key, scope)
        case nodes.Call(node=nodes.Getattr() as method, args=[], kwargs=[], dyn_args=None, dyn_kwargs=None):
            _insist(method.attr in _METHODS)  # which nothing but texts has
            return _change_letters(_compute_strings(method.node, scope), _METHODS[method.attr], scope)
        case nodes.CondExpr(expr2=nodes.Expr() as other):
            truth = _compute_truth(node.test, scope)
            return _choose(truth, _compute(node.expr1, scope), _compute(other, scope))
        case nodes.Add() | nodes.Sub():
            return _add(node, scope)
        case nodes.Compare(ops=[operand]):
            return _compare(node.expr, operand, scope)
        case nodes.Not():
            truth = _compute_truth(node.node, scope)
            return Computed(~truth.series, truth.good)
        case nodes.Test(name="none" | "defined", args=[], kwargs=[], dyn_args=None, dyn_kwargs=None):
            found = _compute(node.node, scope)
            is_null = found.series.is_null()
            return Computed(is_null if node.name == "none" else is_null | ~is_null, found.good)
    raise _NotComputedError


def _compute_strings(node: nodes.Node, scope: Scope) -> Computed:
    """Return the values of an expression that is a text on every row."""
    found = _compute(node, scope)
    _insist(found.series.dtype == pl.String)
    return found


def _read_constant(node: nodes.Node) -> object:
    """Return the text, number, truth value or list of texts that is written there; None for all else."""
    value = node.value if isinstance(node, nodes.Const) else None
    if isinstance(node, nodes.List):
        value = [one.value if isinstance(one, nodes.Const) else None for one in node.items]
    if isinstance(value, list):
        return value if value and all(type(one) is str for one in value) else None
    return value


def _compute_list(node: nodes.Node, scope: Scope) -> Computed:
    """Return a list of texts that is written out: `[sample.a, sample.b]`."""
    items = node.items if isinstance(node, nodes.List) and scope.turns is None else []
    whole, columns = Computed(pl.Series([], dtype=pl.String)), dict[str, pl.Series]()
    for item in items:
        found = _compute_strings(item, scope)
        columns[str(len(columns))] = found.series
        whole = whole.require(found.good)
    _insist(bool(columns))
    lists = pl.DataFrame(columns).select(pl.concat_list(pl.all()).alias("list")).to_series()
    return Computed(lists, whole.good).require(_limit_weight(lists))


def _limit_weight(series: pl.Series) -> pl.Series | None:
    """Return which values are so small that no limit applies; None: all of them."""
    weight = weigh_cells(series)
    return None if (cast("int | None", weight.max()) or 0) <= FREE_OUTPUT else weight <= FREE_OUTPUT


def _compute_part(node: nodes.Getattr | nodes.Getitem, scope: Scope) -> Computed:
    """Return a column, a field of a struct, or an element of a list or a text.

    A field is not exact where its struct is null, an element not where its index is null or outside.
    """
    step = read_step(node)
    if isinstance(node.node, nodes.Name) and node.node.name not in scope.names:
        table = scope.tables.get(node.node.name)
        if table is None or step is None or step.key not in table.columns or step.key in table.encoded:
            raise _NotComputedError
        series = table.frame[str(step.key)]
        is_native = all(
            one.is_integer() or one in (pl.String, pl.Boolean, pl.Float64)
            for one in _list_leaves(series.dtype)
        )
        _insist(is_native)
        return Computed(series if scope.turns is None else series.gather(scope.turns))
    if step is not None and isinstance(step.key, str):
        owner = _compute(node.node, scope)
        return _take_field(owner.series, step.key).require(owner.good)
    return _take_element(node.node, cast("nodes.Getitem", node).arg, scope)  # an attribute is a text


def _take_element(owner_node: nodes.Node, key: nodes.Node, scope: Scope) -> Computed:
    """Return an element of a list, or a character of a text, by its place."""
    index = _compute(key, scope)
    _insist(index.series.dtype in _WHOLE)
    constant = _read_constant(owner_node)
    if isinstance(constant, str | list) and constant:
        size, places = len(constant), index.series.cast(pl.Int64)
        is_inside = places.is_between(-size, size - 1).fill_null(value=False)
        # Twice in a row, so that -1 is the last one.
        places = (places + size).zip_with(is_inside, pl.zeros(len(places), pl.Int64, eager=True))
        found = pl.Series([*constant, *constant], dtype=pl.String).gather(places)
        return Computed(found, index.good).require(None if is_inside.all() else is_inside)
    owner = _compute(owner_node, scope)
    _insist(isinstance(owner.series.dtype, (pl.List, pl.String)))
    is_list, place = isinstance(owner.series.dtype, pl.List), pl.when("inside").then("index")
    length = (pl.col("owner").list.len() if is_list else pl.col("owner").str.len_chars()).cast(pl.Int64)
    # An index far outside its list is more than the column library takes: there it is null.
    frame = pl.DataFrame([owner.series.alias("owner"), index.series.alias("index")]).with_columns(
        pl.col("index").is_between(-length, length - 1).fill_null(value=False).alias("inside")
    )
    owners = pl.col("owner")
    element = owners.list.get(place, null_on_oob=True) if is_list else owners.str.slice(place, 1)
    found = frame.select(element).to_series()
    return Computed(found, owner.good).require(index.good).require(frame["inside"])


def _compute_filter(node: nodes.Filter, value: nodes.Expr, scope: Scope) -> Computed:
    """Return what a filter makes of a value."""
    name, arguments = node.name, [*node.args, *node.kwargs]
    if name == "join" and len(arguments) <= 1 and not node.kwargs:
        return _join(value, arguments, scope)
    _insist(not arguments)
    if name == "string":
        return _compute_text([value], scope)
    if name in _ENDS:
        return _take_element(value, nodes.Const(_ENDS[name]), scope)
    if name == "list":
        return _compute_elements(value, scope)
    _insist(name in _CHANGES or name in {"int", "length", "count"})
    owner = _compute(value, scope)
    series, dtype = owner.series, owner.series.dtype
    if name in _CHANGES:
        return _change_letters(print_cells(owner), name, scope)
    if name == "int":
        if dtype in _WHOLE:
            return Computed(series.fill_null(0), owner.good)
        _insist(dtype == pl.String)
        is_number = series.str.contains(_DIGITS).fill_null(value=False)
        return Computed(series.cast(pl.Int64, strict=False), owner.good).require(is_number)
    if dtype == pl.String:
        return Computed(series.str.len_chars(), owner.good).require_values()
    _insist(isinstance(dtype, pl.List))
    return Computed(series.list.len(), owner.good).require_values()


def _compute_elements(node: nodes.Node, scope: Scope) -> Computed:
    """Return the lists that a loop or a filter goes through; the filter `map` makes others of them."""
    _insist(
        scope.turns is None and not (isinstance(node, nodes.Filter) and (node.dyn_args or node.dyn_kwargs))
    )
    match node:
        case nodes.Const(value=str() as letters) if letters:
            return scope.repeat(list(letters))
        case nodes.Filter(name="list", node=nodes.Expr() as value, args=[], kwargs=[]):
            return _compute_elements(value, scope)
        case nodes.Filter(
            name="map", node=nodes.Expr() as value, args=[nodes.Const(value=name)], kwargs=[]
        ) if name in ("first", "string", *_CHANGES):
            return _map_elements(value, lambda cells: _map_texts(cells, name, scope), scope)
        case nodes.Filter(name="map", node=nodes.Expr() as value, args=[], kwargs=[keyword]):
            name = keyword.value.value if isinstance(keyword.value, nodes.Const) else None
            _insist(cast("str", keyword.key) == "attribute" and isinstance(name, str) and name.isidentifier())
            return _map_elements(value, lambda cells: _take_field(cells, str(name)), scope)
    found = _compute(node, scope)
    _insist(isinstance(found.series.dtype, pl.List))
    is_short = (found.series.list.len() <= _MOST_PARTS).fill_null(value=False)
    return found if is_short.all() else found.require(is_short)


def _map_texts(cells: pl.Series, name: str, scope: Scope) -> Computed:
    """Return what a filter makes of texts; of anything else, and of an empty one, Jinja does."""
    _insist(cells.dtype == pl.String)
    texts = Computed(cells).require_values()
    if name == "string":
        return texts
    if name != "first":
        return _change_letters(texts, name, scope)
    first = cells.str.slice(0, 1)
    return Computed(first, texts.good).require(cells != "" if (cells == "").any() else None)


def _take_field(cells: pl.Series, name: str) -> Computed:
    """Return a field of mappings that all have it."""
    _insist(isinstance(cells.dtype, pl.Struct) and name in [one.name for one in cells.dtype.fields])
    is_there = cells.is_not_null() if cells.null_count() else None
    return Computed(cells.struct.field(name)).require(is_there)


def _map_elements(node: nodes.Node, change: Callable[[pl.Series], Computed], scope: Scope) -> Computed:
    """Return lists with each element changed; not exact where one of its elements is not."""
    lists = _compute_elements(node, scope)
    turns = Turns.of(lists)
    changed = change(turns.elements)
    inner = pl.List(changed.series.dtype)
    if turns.width is not None:
        made = changed.series.reshape((len(turns.rows), turns.width)).arr.to_list()
    else:
        frame = pl.DataFrame([turns.numbers.alias("turn"), changed.series.alias("value")])
        made = frame.group_by("turn", maintain_order=True).agg("value")["value"]
    empty = pl.Series([[]], dtype=inner).new_from_index(0, len(lists.series))
    whole = made if len(made) == len(empty) else _put(empty, turns.rows, made)
    return Computed(whole, turns.spread_good(changed.good))


def _put(series: pl.Series, rows: pl.Series, values: pl.Series) -> pl.Series:
    """Return a column with these values at these rows, in ascending order."""
    places = pl.zeros(len(series), pl.UInt32, eager=True)
    places.scatter(rows, pl.int_range(1, len(rows) + 1, dtype=pl.UInt32, eager=True))
    return pl.concat([series.head(1), values.cast(series.dtype)]).gather(places)


@dataclass(frozen=True)
class Turns:
    """Every element of lists, one after the other.

    `good` are the rows with a list that can be gone through, `rows` those of them with any element, `numbers`
    says for each element in which of these rows it is. `width` is how many each has, if all have as many.
    """

    good: pl.Series
    rows: pl.Series
    sizes: pl.Series
    numbers: pl.Series
    elements: pl.Series
    width: int | None

    @classmethod
    def of(cls, lists: Computed, most: int = _MOST_PARTS) -> Turns:
        """Return the elements of lists that have no more than so many."""
        sizes = lists.series.list.len()
        good = (sizes <= most).fill_null(value=False)
        if lists.good is not None:
            good &= lists.good
        rows = (good & (sizes > 0).fill_null(value=False)).arg_true()
        is_whole = len(rows) == len(sizes)
        sizes = sizes if is_whole else sizes.gather(rows)
        elements = (lists.series if is_whole else lists.series.gather(rows)).explode()
        width = int(sizes[0]) if len(sizes) and (sizes == sizes[0]).all() else None
        numbers = pl.int_range(len(rows), dtype=pl.UInt32, eager=True)
        numbers = numbers.repeat_by(sizes).explode() if len(rows) else numbers
        if not len(rows):
            elements = elements.clear()
        return cls(good, rows, sizes, numbers, elements, width)

    def spread_good(self, good: pl.Series | None) -> pl.Series | None:
        """Return the rows of which every element is good; None: all of them."""
        found = self.good
        if good is not None and not good.all():
            found = found.clone().scatter(self.rows.gather(self.numbers.filter(~good).unique()), values=False)
        return None if found.all() else found


def _compute_loop(node: nodes.For, scope: Scope) -> Computed:
    """Return what a loop over a list prints for each row."""
    targets = node.target.items if isinstance(node.target, nodes.Tuple) else [node.target]
    own = [one.name for one in targets if isinstance(one, nodes.Name)]
    _insist(not (node.else_ or node.test or node.recursive or {*scope.tables, "loop"}.intersection(own)))
    _insist(len(set(own)) == len(targets))
    lists = _compute_side_by_side(node.iter, len(own), scope)
    parts = list(node.find_all(nodes.Node))
    text = sum(len(one.data) for one in parts if isinstance(one, nodes.TemplateData))
    each = text // STEP_TEXT + len(parts) * (CALL_STEPS + _LOOP_TEXT // STEP_TEXT)
    turns = Turns.of(lists[0], min(_LOOP_STEPS // each, _MOST_PARTS))
    elements = [turns.elements, *(one.series.gather(turns.rows).explode() for one in lists[1:])]
    asked = {one.attr for one in parts if isinstance(one, nodes.Getattr)}
    names = {f"loop.{name}": Computed(one) for name, one in _number_turns(turns, asked).items()}
    names |= dict(zip(own, map(Computed, elements), strict=True))
    body = _compute_body(node.body, Scope(scope.tables, names, turns.rows.gather(turns.numbers)))
    if turns.width is not None and turns.width <= _FEW_TURNS:
        # The texts of the first turns of all rows, those of the second ones, and so on.
        columns = [
            body.series.gather_every(turns.width, place).alias(str(place)) for place in range(turns.width)
        ]
        made = pl.DataFrame(columns).select(pl.concat_str(pl.all()).alias("text")).to_series()
    else:
        frame = pl.DataFrame([turns.numbers.alias("turn"), body.series.alias("text")])
        made = frame.group_by("turn", maintain_order=True).agg(pl.col("text").str.join(""))["text"]
    whole = pl.repeat("", len(lists[0].series), dtype=pl.String, eager=True)
    whole = made if len(made) == len(whole) else _put(whole, turns.rows, made)
    return Computed(whole, turns.spread_good(body.good)).require(scope.limit_text(whole))


def _compute_side_by_side(node: nodes.Node, count: int, scope: Scope) -> list[Computed]:
    """Return the lists that a loop with so many names goes through: one, or several that `zip` joins.

    Several are as long as the shortest of each row; the first is exact where all are.
    """
    sources = [node]
    if count > 1:
        match node:
            case nodes.Filter(
                name="zip", node=nodes.Expr() as first, args=others, kwargs=[], dyn_args=None, dyn_kwargs=None
            ) if len(others) + 1 == count:
                sources = [first, *others]
            case _:
                raise _NotComputedError
    lists = [_compute_elements(one, scope) for one in sources]
    lists = [one.require(_limit_weight(one.series)).require_values() for one in lists]
    if count == 1:
        return lists
    for one in lists[1:]:
        lists[0] = lists[0].require(one.good)
    frame = pl.DataFrame([one.series.alias(str(place)) for place, one in enumerate(lists)])
    cut = frame.select(pl.all().list.head(pl.min_horizontal(pl.all().list.len())))
    return [replace(one, series=series) for one, series in zip(lists, cut.iter_columns(), strict=True)]


def _number_turns(turns: Turns, asked: set[str]) -> dict[str, pl.Series]:
    """Return what is asked of `loop` for each turn."""
    if not asked & {"index", "index0", "first", "last", "length", "revindex", "revindex0"}:
        return {}
    sizes = turns.sizes.cast(pl.Int64)
    lengths = sizes.gather(turns.numbers)
    index = pl.int_range(len(turns.numbers), eager=True) - (sizes.cum_sum() - sizes).gather(turns.numbers)
    numbers = {"index": index + 1, "index0": index, "length": lengths}
    behind = {"revindex": lengths - index, "revindex0": lengths - index - 1}
    return {**numbers, **behind, "first": index == 0, "last": index == lengths - 1}


def _compute_body(body: Sequence[nodes.Node], scope: Scope) -> Computed:
    """Return what the statements of a loop or of an `if` print."""
    pieces: list[nodes.Node] = []
    for one in body:
        pieces += one.nodes if isinstance(one, nodes.Output) else [one]
    return _compute_text(pieces, scope, may_be_constant=True)


def _join(value: nodes.Expr, arguments: Sequence[nodes.Node], scope: Scope) -> Computed:
    """Return the texts of a list with a separator between them."""
    separator = _read_constant(arguments[0]) if arguments else ""
    lists = _compute_elements(value, scope)
    if lists.series.dtype != pl.List(pl.String) or type(separator) is not str:
        raise _NotComputedError
    texts = lists.series.list.join(separator, ignore_nulls=False)
    return Computed(texts, lists.good).require_values().require(scope.limit_text(texts))


def _compute_index(owner: nodes.Node, key: nodes.Node, scope: Scope) -> Computed:
    """Return the place of a text in a list, or in a constant text."""
    wanted = _compute_strings(key, scope)
    constant = _read_constant(owner)
    if isinstance(constant, str | list):
        places = _find_places(constant)
        found = wanted.series.replace_strict(places, default=None, return_dtype=pl.Int64)
        return Computed(found, wanted.good).require_values()
    lists = _compute_elements(owner, scope)
    _insist(lists.series.dtype == pl.List(pl.String))
    turns = Turns.of(lists)
    is_same = turns.elements.eq_missing(wanted.series.gather(turns.rows.gather(turns.numbers)))
    index = _number_turns(turns, {"index0"})["index0"]
    frame = pl.DataFrame([turns.numbers.alias("turn"), index.alias("place")]).filter(is_same)
    first = frame.unique("turn", keep="first", maintain_order=True)
    whole = pl.repeat(None, len(lists.series), dtype=pl.Int64, eager=True)
    whole = whole.scatter(turns.rows.gather(first["turn"]), first["place"])
    return Computed(whole, turns.spread_good(None)).require(wanted.good).require_values()


def _find_places(constant: str | list[str]) -> dict[str, int]:
    """Return where each text is first found in a constant, unless that is too long."""
    size = len(constant)
    _insist(size <= _LONGEST_KEY)
    places: dict[str, int] = {"": 0} if isinstance(constant, str) else {}
    for place in range(size):
        parts = [constant[place]]
        if isinstance(constant, str):
            parts = [constant[place:end] for end in range(place + 1, size + 1)]
        for part in parts:
            places.setdefault(part, place)
    return places


def _choose(truth: Computed, first: Computed, second: Computed) -> Computed:
    """Return one value or the other, by a condition; what is not chosen may fail."""
    _insist(first.series.dtype == second.series.dtype)
    columns = [truth.series.alias("test"), first.series.alias("first"), second.series.alias("second")]
    chosen = pl.when("test").then("first").otherwise("second").alias("chosen")
    found = Computed(pl.DataFrame(columns).select(chosen).to_series(), truth.good)
    if first.good is not None:
        found = found.require(first.good | ~truth.series)
    return found if second.good is None else found.require(second.good | truth.series)


def _compute_truth(node: nodes.Node, scope: Scope) -> Computed:
    """Return whether values count as true; what `and` and `or` need not look at may fail."""
    if isinstance(node, (nodes.And, nodes.Or)):
        left, right = _compute_truth(node.left, scope), _compute_truth(node.right, scope)
        is_and = isinstance(node, nodes.And)
        truth = Computed(left.series & right.series if is_and else left.series | right.series, left.good)
        decided = ~left.series if is_and else left.series
        return truth if right.good is None else truth.require(right.good | decided)
    found = _compute(node, scope)
    series, dtype = found.series, found.series.dtype
    if dtype == pl.String:
        series = series != ""
    elif dtype in _WHOLE:
        series = series != 0
    elif isinstance(dtype, pl.List):
        series = series.list.len() > 0
    else:
        _insist(dtype == pl.Boolean)
    return Computed(series.fill_null(value=False), found.good)


_ORDERS: Final[dict[str, Callable[[pl.Series, pl.Series], pl.Series]]] = {
    "lt": lambda left, right: left < right,
    "lteq": lambda left, right: left <= right,
    "gt": lambda left, right: left > right,
    "gteq": lambda left, right: left >= right,
}


def _compare(expression: nodes.Node, operand: nodes.Operand, scope: Scope) -> Computed:
    """Return how two texts, whole numbers or truth values compare, or whether one is in the other."""
    left, operator = _compute(expression, scope), operand.op
    if operator in {"in", "notin"}:
        found = _find_inside(left, operand.expr, scope)
        return found if operator == "in" else Computed(~found.series, found.good)
    right = _compute(operand.expr, scope)
    kinds = ["whole" if one.series.dtype in _WHOLE else str(one.series.dtype) for one in (left, right)]
    _insist(kinds[0] == kinds[1] and kinds[0] in {"whole", "String", "Boolean"})
    if operator in {"eq", "ne"}:
        same = left.series.eq_missing(right.series)
        return Computed(same if operator == "eq" else ~same, left.good).require(right.good)
    _insist(kinds[0] != "Boolean")
    truth = _ORDERS[operator](left.series, right.series)
    return Computed(truth, left.good).require(right.good).require_values()


def _find_inside(left: Computed, node: nodes.Node, scope: Scope) -> Computed:
    """Return whether texts are in a list of texts, or in a text."""
    _insist(left.series.dtype == pl.String)
    constant = _read_constant(node)
    if isinstance(constant, str | list):
        places = _find_places(constant)
        needed = left.require_values() if isinstance(constant, str) else left
        return Computed(left.series.is_in(list(places)).fill_null(value=False), needed.good)
    right = _compute(node, scope)
    _insist(right.series.dtype in (pl.String, pl.List(pl.String)))
    whole = pl.col("whole")
    frame = pl.DataFrame([left.series.alias("part"), right.series.alias("whole")])
    is_text = right.series.dtype == pl.String
    inside = (
        whole.str.contains(pl.col("part"), literal=True) if is_text else whole.list.contains(pl.col("part"))
    )
    found = frame.select(inside.fill_null(value=False)).to_series()
    return Computed(found, left.require_values().good).require(right.require_values().good)


def _add(node: nodes.Add | nodes.Sub, scope: Scope) -> Computed:
    """Return the sum or the difference of whole numbers, or two texts put together."""
    left, right = _compute(node.left, scope), _compute(node.right, scope)
    whole = Computed(left.series, left.good).require(right.good)
    pair = [left.series, right.series]
    if all(one.dtype == pl.String for one in pair) and isinstance(node, nodes.Add):
        texts = pair[0] + pair[1]
        return Computed(texts, whole.good).require_values().require(scope.limit_text(texts))
    _insist(all(one.dtype in _WHOLE for one in pair))
    first, second = (one.cast(pl.Int64) for one in pair)
    for one in (first, second):
        is_small = one.is_between(-_LARGEST_TERM, _LARGEST_TERM).fill_null(value=False)
        whole = whole if is_small.all() else whole.require(is_small)
    return Computed(first + second if isinstance(node, nodes.Add) else first - second, whole.good)


def _change_letters(texts: Computed, change: str, scope: Scope) -> Computed:
    """Return the changed texts; exact for ASCII, where Rust and Python agree."""
    is_ascii = (texts.series.str.len_bytes() == texts.series.str.len_chars()).fill_null(value=False)
    changed = Computed(_CHANGES[change](texts.series), texts.good)
    if scope.turns is not None:
        changed = changed.require(scope.limit_text(texts.series))
    return changed if is_ascii.all() else changed.require(is_ascii)


def _compute_text(pieces: Sequence[nodes.Node], scope: Scope, *, may_be_constant: bool = False) -> Computed:
    """Return literal text and what is printed between it, put together; not exact where limits may apply."""
    whole = Computed(pl.Series([], dtype=pl.String))
    columns: list[pl.Series] = []
    parts: list[pl.Expr] = []
    literal = ""
    for piece in pieces:
        text = piece.data if isinstance(piece, nodes.TemplateData) else None
        # Jinja has made one constant of what consists of constants: a list, too.
        if isinstance(piece, nodes.Const) and type(piece.value) in SCALARS:
            text = str(piece.value)
        if text is not None:
            literal += text
            parts.append(pl.lit(text))
            continue
        if isinstance(piece, nodes.For):
            found = _compute_loop(piece, scope)
        elif isinstance(piece, nodes.If):
            found = _compute_branches(piece, scope)
        else:
            found = _compute(piece, scope)
        printed = print_cells(found)
        name = f"{'text' if found.series.dtype == pl.String else 'other'} {len(columns)}"
        parts.append(pl.col(name))
        columns.append(printed.series.alias(name))
        whole = whole.require(printed.good)
    if not columns:
        _insist(may_be_constant)
        return scope.repeat(literal)
    frame = pl.DataFrame(columns)
    sizes = [int(one.estimated_size()) for one in columns]
    total = len(literal.encode()) * frame.height + sum(sizes)
    # Not with much memory, and far more than what the texts are made of.
    _insist(total <= _MOST_BYTES or total <= MOST_GROWTH * max(sizes))
    texts = frame.select(pl.concat_str(parts).alias("text")).to_series()
    if scope.turns is not None:
        return Computed(texts, whole.good).require(scope.limit_text(texts))
    size = texts.str.len_bytes().cast(pl.Int64)
    if (cast("int | None", size.max()) or 0) <= FREE_OUTPUT:
        return Computed(texts, whole.good)
    given = [one.str.len_chars() for one in columns if one.name.startswith("text")]
    most = pl.DataFrame(given).max_horizontal().cast(pl.Int64) if given else size * 0
    is_proportionate = (size <= FREE_OUTPUT + MOST_GROWTH * most) & (size <= _LONG_TEXT)
    return Computed(texts, whole.good).require(is_proportionate)


def _compute_branches(node: nodes.If, scope: Scope) -> Computed:
    """Return what the branch of an `if` prints that is chosen."""
    rest: Sequence[nodes.Node] = node.else_
    if node.elif_:
        first, *others = node.elif_
        rest = [nodes.If(first.test, first.body, others, node.else_)]
    truth, body = _compute_truth(node.test, scope), _compute_body(node.body, scope)
    return _choose(truth, body, _compute_body(rest, scope))


def print_cells(cells: Computed) -> Computed:
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
            raise _NotComputedError
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


# Which values are alike.


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
    if all(map(are_alike, keys)):
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


def are_alike(series: pl.Series) -> bool:
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
