"""A compiled per-row template, and the row filters of datasets and actions, which are made of one."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
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
from answerkey.templates.columns import SAMPLE
from answerkey.templates.config import find_config_names
from answerkey.templates.planner import LARGE_ROW, Distinct, Plan, Program
from answerkey.templates.rendering import Recipe, Rows, compile_recipe, render_rows
from answerkey.templates.values import FOREIGN, RowError, count_within, describe_type, make_plain
from answerkey.types import Row, Samples

Kind = Literal["constant", "column", "expression"]


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
    #: For the value and for the text; a source that is no text has none.
    _programs: tuple[Program, ...] = field(default=(), repr=False)

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
        if self.kind == "constant":
            return self._constant
        return _render_one(self._programs[0].recipe, context)

    def render(self, **context: object) -> str:
        """Return the text that Jinja prints for one row. Raise RowError."""
        if not self._programs:
            return str(self.source)
        return str(_render_one(self._programs[1].recipe, context))

    def values(self, samples: Samples, **others: Samples) -> list[object]:
        """Return the value for every row; a failing row's value is a RowError.

        `others` are the tables behind names beside `sample`, row for row; without one its name is undefined.
        """
        if self.kind == "constant":
            return [self._constant] * len(samples)
        return self._programs[0].list_values({SAMPLE: samples, **others})

    def distinct(self, samples: Samples, **others: Samples) -> Distinct:
        """Return the distinct values, and for each row the position of its value among them."""
        if self.kind == "constant":
            return Distinct([self._constant], pl.zeros(len(samples), pl.UInt32, eager=True))
        if others:
            return self._programs[0].number({SAMPLE: samples, **others})
        key = "distinct", self.source, self.names
        if key not in samples.memo:
            samples.memo[key] = self._programs[0].number({SAMPLE: samples})
        found: Distinct = samples.memo[key]
        return found

    def series(self, samples: Samples, **others: Samples) -> pl.Series | None:
        """Return the values as a column; None where columns cannot compute them, or a row has an error."""
        if self.kind == "constant":
            return None
        return self._programs[0].build_series({SAMPLE: samples, **others})

    def texts(self, samples: Samples, **others: Samples) -> list[str | RowError]:
        """Return what `render` prints for every row; a failing row has its RowError."""
        if not self._programs:
            return [str(self.source)] * len(samples)
        return cast("list[str | RowError]", self._programs[1].list_values({SAMPLE: samples, **others}))

    def plan(self, samples: Samples, *, as_text: bool = False, later: Collection[str] = ()) -> Plan:
        """Return how the values, or the texts, will be found for a table with these columns.

        `later` are names whose tables are there when rows are evaluated.
        """
        if self.kind == "constant":
            return Plan("constant")
        return self._programs[as_text].plan({SAMPLE: samples}, later)


def _render_one(recipe: Recipe, context: Mapping[str, object]) -> object:
    """Return the outcome for one row. Raise its RowError, or TemplateStopped."""
    given = dict(context)
    sample = given.get(SAMPLE)
    if isinstance(sample, Mapping) and not isinstance(sample, Row):
        given[SAMPLE] = Row(sample)  # so that a missing key is named a missing column
    is_large = count_within(list(given.values()), LARGE_ROW) > LARGE_ROW
    [outcome] = render_rows(recipe, Rows(given), {0} if is_large else frozenset())
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
    shortest = {
        name: frozenset(path for path in found if not any(path[:size] in found for size in range(len(path))))
        for name, found in paths.items()
        if found
    }
    firsts = {path[0].key if path else None for path in paths.get(SAMPLE, ())}
    columns = frozenset(key for key in firsts if isinstance(key, str))
    read = columns if len(columns) == len(firsts) else None
    recipe = Recipe(source, names, keeps_value=False, columns=read, is_bounded=is_bounded(tree, names))
    pieces = [node for one in tree.body for node in (one.nodes if isinstance(one, nodes.Output) else [one])]
    as_value = as_text = Program(recipe, nodes.Concat(pieces), shortest)
    expression = find_lone_expression(tree)
    if expression is not None:
        steps = find_path(expression, SAMPLE) or ()
        is_column = bool(steps) and isinstance(steps[0].key, str)
        recipe = replace(recipe, keeps_value=True)
        as_value = Program(recipe, expression, shortest, steps if is_column else ())
    known: dict[str, Any] = {"names": names, "_paths": paths, "_programs": (as_value, as_text)}
    if expression is None:
        text = find_literal_text(tree)
        if text is not None:
            return Template(source, "constant", _constant=text, **known)
    elif recipe.is_bounded:
        with suppress(nodes.Impossible, *FOREIGN):
            return Template(source, "constant", _constant=make_plain(expression.as_const()), **known)
    compile_recipe(recipe)  # so that what Jinja refuses is refused here
    if as_value.path:
        path = tuple(step.key for step in as_value.path)
        return Template(source, "column", read, path, **known)
    return Template(source, "expression", read, **known)


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
        """Return which rows fulfil the condition, each distinct value judged once.

        `others` are the tables behind the other names of an action's filter; without them it is a dataset's.
        """
        template = self.template if others else self.row_template
        distinct = template.distinct(samples, **others)
        verdicts = [self._judge(value) for value in distinct.values]
        holds = pl.Series([one if isinstance(one, bool) else None for one in verdicts], dtype=pl.Boolean)
        is_kept = holds.gather(distinct.codes)
        rows = is_kept.is_null().arg_true()
        reasons = (verdicts[code] for code in distinct.codes.gather(rows).to_list())
        pairs = zip(rows.to_list(), reasons, strict=True)
        return Sifted(is_kept, tuple((row, one) for row, one in pairs if isinstance(one, RowError)))

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
