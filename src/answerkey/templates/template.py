"""A compiled per-row template, and the row filters of datasets and actions, which are made of one."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import repeat
from typing import Any, Final, Literal, cast

import polars as pl
from jinja2 import nodes

from answerkey.errors import SpecError, listing
from answerkey.templates.analysis import (
    Path,
    find_literal_text,
    find_lone_expression,
    find_path,
    find_paths,
    is_bounded,
    parse_template,
)
from answerkey.templates.config import find_config_names
from answerkey.templates.environment import open_environment
from answerkey.templates.rendering import Context, Recipe, compile_recipe, render_rows
from answerkey.templates.values import (
    FOREIGN,
    PartialMapping,
    PartialRow,
    RowError,
    describe_type,
    is_flat,
    make_plain,
    measure,
    translate_error,
)
from answerkey.types import Row, Samples

Kind = Literal["constant", "column", "expression"]
#: The name under which templates see the row.
SAMPLE: Final = "sample"


class UnresolvedConfig(SpecError):  # noqa: N818 - named for what is left in the template
    """A template still holds `<< config.x >>`; `names` are the config names."""

    def __init__(self, names: Sequence[str]) -> None:
        hint = "config is filled in once, when a file is loaded; values are not searched for further names"
        super().__init__("E110", f"config value that was not filled in: {listing(names)}", hint=hint)
        self.names = tuple(names)


@dataclass(frozen=True, eq=False)
class Template:
    """A template, compiled once.

    `columns` are the columns of `sample` that it reads; None when it may read any. `path` leads from `sample`
    to the value when `kind` is "column": `("answer",)`, or `("meta", "key")` for a field of a struct.
    """

    source: object
    kind: Kind
    columns: frozenset[str] | None = frozenset()
    path: tuple[str | int, ...] | None = None
    names: tuple[str, ...] = (SAMPLE,)
    _constant: object = field(default=None, repr=False)
    #: Where constant steps lead from each name.
    _paths: Mapping[str, frozenset[Path]] = field(default_factory=dict, repr=False)
    #: How the value is rendered, and how the text is; a source that is no text has neither.
    _value_recipe: Recipe | None = field(default=None, repr=False)
    _text_recipe: Recipe | None = field(default=None, repr=False)

    @classmethod
    def compile(cls, source: object, names: Sequence[str] = (SAMPLE,)) -> Template:
        """Return the template that a text is; any other value is a constant.

        Raise SpecError E112 for what is no template, with its line within the text, and `UnresolvedConfig`.
        """
        if isinstance(source, str):
            return _compile_once(source, tuple(names))
        return cls(source, "constant", names=tuple(names), _constant=source)

    def __reduce__(self) -> tuple[Callable[..., Template], tuple[object, ...]]:
        return Template.compile, (self.source, self.names)

    def paths_from(self, name: str) -> frozenset[tuple[str | int, ...]]:
        """Return where constant steps lead from a name: `scores.a.b` leads to `("a", "b")`."""
        return frozenset(tuple(step.key for step in path) for path in self._paths.get(name, ()))

    def evaluate(self, **context: object) -> object:
        """Return the value for one row: of a lone `{{ expression }}` with its type, otherwise text.

        Raise RowError.
        """
        if self.kind == "constant" or self._value_recipe is None:
            return self._constant
        return _render_one(self._value_recipe, context)

    def render(self, **context: object) -> str:
        """Return the text that Jinja prints for one row. Raise RowError."""
        if self._text_recipe is None:
            return str(self.source)
        return str(_render_one(self._text_recipe, context))

    def values(self, samples: Samples, **others: Samples) -> list[object]:
        """Return the value for every row; a failing row's value is a RowError.

        `others` are the tables behind names beside `sample`, row for row; without one its name is undefined.
        """
        if self.kind == "constant" or self._value_recipe is None:
            return [self._constant] * len(samples)
        if self.kind == "column" and self.path and self.path[0] in samples.columns:
            [steps] = self._paths[SAMPLE]
            return [_follow_path(steps[1:], cell) for cell in samples.values(str(self.path[0]))]
        return render_rows(self._value_recipe, self._build_contexts({SAMPLE: samples, **others}))

    def texts(self, samples: Samples, **others: Samples) -> list[str | RowError]:
        """Return what `render` prints for every row; a failing row has its RowError."""
        if self._text_recipe is None:
            return [str(self.source)] * len(samples)
        if self.kind == "constant":
            rendered = render_rows(self._text_recipe, [{}]) * len(samples)
        else:
            contexts = self._build_contexts({SAMPLE: samples, **others})
            rendered = render_rows(self._text_recipe, contexts)
        return cast("list[str | RowError]", rendered)

    def _build_contexts(self, tables: Mapping[str, Samples]) -> Iterator[Context]:
        """Yield what the template sees of each row: of every table the columns that it reads."""
        rows_by_name: dict[str, Iterator[PartialMapping]] = {}
        for name, table in tables.items():
            paths = self._paths.get(name)
            if paths:
                rows_by_name[name] = _build_rows(name, table, paths)
        for _ in range(len(tables[SAMPLE])):
            yield {name: next(rows) for name, rows in rows_by_name.items()}


def _build_rows(name: str, table: Samples, paths: Collection[Path]) -> Iterator[PartialMapping]:
    """Return the rows of a table with the columns to which these paths lead."""
    columns = list(table.columns)
    if not any(_may_read_row(path, columns) for path in paths):
        firsts = {path[0].key for path in paths}
        columns = [column for column in columns if column in firsts]
    row_type = PartialRow if name == SAMPLE else PartialMapping
    if not columns:
        return repeat(row_type(table.columns), len(table))

    def build_row(*cells: object) -> PartialMapping:
        return row_type(table.columns, zip(columns, cells, strict=True))

    return map(build_row, *map(table.values, columns))


def _may_read_row(path: Path, columns: Collection[str]) -> bool:
    """Return whether a path can lead to any column: to the whole row, or to a method of the row."""
    if not path:
        return True
    first = path[0]
    is_method = first.kind == "attribute" and hasattr(dict, str(first.key))
    return is_method and first.key not in columns


def _follow_path(steps: Path, cell: object) -> object:
    """Return what a path leads to from a cell, as Jinja does, without compiling anything."""
    if not steps and (type(cell) is str or is_flat(cell)):  # nearly every cell
        return cell
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


def _render_one(recipe: Recipe, context: Mapping[str, object]) -> object:
    """Return the outcome for one row. Raise its RowError, or TemplateStopped."""
    given = dict(context)
    sample = given.get(SAMPLE)
    if isinstance(sample, Mapping) and not isinstance(sample, Row):
        given[SAMPLE] = Row(sample)  # so that a missing key is named a missing column
    [outcome] = render_rows(recipe, [given])
    if isinstance(outcome, RowError):
        raise outcome
    return outcome


@lru_cache(maxsize=1024)
def _compile_once(source: str, names: tuple[str, ...]) -> Template:
    """Return the template of a text, compiled once in each process: shard after shard asks for it."""
    if left := find_config_names(source):
        raise UnresolvedConfig(left)
    tree = parse_template(source, names)
    paths = {name: frozenset(find_paths(tree, name)) for name in names}
    columns = _find_columns(paths.get(SAMPLE, frozenset()))
    bounded = is_bounded(tree, names)
    text_recipe = Recipe(source, names, keeps_value=False, columns=columns, is_bounded=bounded)
    value_recipe = text_recipe
    expression = find_lone_expression(tree)
    if expression is not None:
        value_recipe = replace(text_recipe, keeps_value=True)
    shared: dict[str, Any] = {
        "names": names,
        "_paths": paths,
        "_value_recipe": value_recipe,
        "_text_recipe": text_recipe,
    }
    if expression is None:
        text = find_literal_text(tree)
        if text is not None:
            return Template(source, "constant", _constant=text, **shared)
    elif value_recipe.is_bounded:
        with suppress(nodes.Impossible, *FOREIGN):
            return Template(source, "constant", _constant=make_plain(expression.as_const()), **shared)
    compile_recipe(value_recipe)  # so that what Jinja refuses is refused here
    steps = find_path(expression, SAMPLE) if expression is not None else None
    if steps and isinstance(steps[0].key, str):
        return Template(source, "column", columns, tuple(step.key for step in steps), **shared)
    return Template(source, "expression", columns, **shared)


def _find_columns(paths: Collection[Path]) -> frozenset[str] | None:
    """Return the columns to which paths lead; None if one of them may lead to any column."""
    columns: set[str] = set()
    for path in paths:
        if not path or not isinstance(path[0].key, str):
            return None
        columns.add(path[0].key)
    return frozenset(columns)


FilterOp = Literal[
    "equals",
    "not_equals",
    "greater_than",
    "less_than",
    "greater_or_equal",
    "less_or_equal",
    "in",
    "not_in",
    "exists",
    "not_exists",
    "is_true",
    "is_false",
]
_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "greater_than": operator.gt,
    "less_than": operator.lt,
    "greater_or_equal": operator.ge,
    "less_or_equal": operator.le,
}
TRUTH_WORDS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,4000}")
#: More digits than Python turns into a whole number are read as a float.
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
#: What the filter of a dataset sees, and that of an action.
DATASET_NAMES: Final = ("sample",)
ACTION_NAMES: Final = ("sample", "solver_output", "scores")


@dataclass(frozen=True)
class Sifted:
    """Which rows a filter keeps; null, and here with the reason, where that cannot be said."""

    is_kept: pl.Series
    problems: tuple[tuple[int, RowError], ...] = ()


@dataclass(frozen=True)
class RowFilter:
    """One condition on a row; `expression` is a template (`{{ sample.x }}`) or bare code (`sample.x`)."""

    op: FilterOp
    expression: str
    value: object = None
    values: tuple[object, ...] | None = None

    def __post_init__(self) -> None:
        needs_values = self.op in {"in", "not_in"}
        if needs_values and self.values is None:
            raise SpecError("E108", f"a filter with op `{self.op}` needs `values`", hint="`values: [a, b]`")
        if not needs_values and self.values is not None:
            message = f"a filter with op `{self.op}` has no `values`"
            raise SpecError("E108", message, hint="use `in` or `not_in`")

    @cached_property
    def template(self) -> Template:
        """The compiled expression of an action's filter. Raise SpecError E112."""
        return self.compile(ACTION_NAMES)

    @cached_property
    def row_template(self) -> Template:
        """The compiled expression of a dataset's filter, which sees the row alone. Raise SpecError E112."""
        return self.compile(DATASET_NAMES)

    def compile(self, names: Sequence[str]) -> Template:
        """Return the expression as a template that sees these names. Raise SpecError E112."""
        is_template = any(mark in self.expression for mark in ("{{", "{%", "{#"))
        source = self.expression if is_template else f"{{{{ {self.expression} }}}}"
        return Template.compile(source, names=names)

    def matches(self, **context: object) -> bool:
        """Say whether a row fulfils the condition. Raise RowError."""
        try:
            value = self.template.evaluate(**context)
        except RowError as problem:
            value = problem
        verdict = self._judge(value)
        if isinstance(verdict, RowError):
            raise verdict
        return verdict

    def sift(self, samples: Samples, **others: Samples) -> Sifted:
        """Return which rows fulfil the condition.

        `others` are the tables behind the other names of an action's filter; without them it is a dataset's.
        """
        template = self.template if others else self.row_template
        is_kept: list[bool | None] = []
        problems: list[tuple[int, RowError]] = []
        for row, value in enumerate(template.values(samples, **others)):
            verdict = self._judge(value)
            if isinstance(verdict, RowError):
                problems.append((row, verdict))
                is_kept.append(None)
            else:
                is_kept.append(verdict)
        return Sifted(pl.Series(is_kept, dtype=pl.Boolean), tuple(problems))

    def _judge(self, value: object) -> bool | RowError:
        """Say whether a value fulfils the condition; of an error only whether it exists can be said."""
        if isinstance(value, RowError):
            can_be_said = value.is_undefined and self.op in {"exists", "not_exists"}
            return self.op == "not_exists" if can_be_said else value
        match self.op:
            case "exists" | "not_exists":  # an empty text exists
                return (value is not None) is (self.op == "exists")
            case "equals" | "not_equals":
                return is_equal(value, self.value) is (self.op == "equals")
            case "in" | "not_in":
                return any(is_equal(value, one) for one in self.values or ()) is (self.op == "in")
            case "is_true" | "is_false":
                return _read_truth(value) is (self.op == "is_true")
        pair: tuple[object, object] = value, self.value
        if not (isinstance(value, str) and isinstance(self.value, str)):
            pair = read_number(value), read_number(self.value)
            if None in pair:
                sides = [f"{one!r} ({describe_type(one)})" for one in (value, self.value)]
                hint = "order is for two numbers or two texts; filter the others out with `exists`"
                return RowError(f"{' and '.join(sides)} have no order", hint=hint)
        return _ORDERS[self.op](*pair)


def is_equal(left: object, right: object) -> bool:
    """Say whether two values are equal: numbers if one is a number and the other reads as one, else text."""
    if left is None or right is None:
        return left is right
    if isinstance(left, bool) or isinstance(right, bool):
        return _read_truth(left) is not None and _read_truth(left) is _read_truth(right)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(is_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_equal(left[key], right[key]) for key in left)
    numbers = read_number(left), read_number(right)
    if None not in numbers and not (isinstance(left, str) and isinstance(right, str)):
        return numbers[0] == numbers[1]
    return str(left) == str(right)


def read_number(value: object) -> int | float | None:
    """Return the number that a value is or reads as, else None."""
    if isinstance(value, (int, float)):
        return None if isinstance(value, bool) else value
    text = value.strip() if isinstance(value, str) else ""
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else None


def _read_truth(value: object) -> bool | None:
    """Return the truth value that a boolean, a number or a word stands for, else None."""
    if isinstance(value, (bool, int, float)):
        return bool(value) if value in (0, 1) else None
    return TRUTH_WORDS.get(value.strip().casefold()) if isinstance(value, str) else None
