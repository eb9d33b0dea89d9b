"""A compiled per-row template: a constant, a column, or an expression."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Literal, cast

import polars as pl
from jinja2 import nodes

from answerkey.errors import SpecError, listing
from answerkey.templates.analysis import (
    Path,
    find_columns,
    find_literal_text,
    find_lone_expression,
    find_path,
    find_paths_from,
    find_reads,
)
from answerkey.templates.compiling import NotConstantError, fold_constant, parse_template
from answerkey.templates.distinct import Distinct, make_constant
from answerkey.templates.form_reading import read_form, read_text_form
from answerkey.templates.placeholders import find_config_names
from answerkey.templates.planner import Plan, Program
from answerkey.templates.recipes import Recipe, compile_recipe
from answerkey.templates.rendering import Feed, follow_path, render_feed, render_one
from answerkey.templates.tameness import is_tame
from answerkey.templates.trouble import RowTrouble
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
    names: tuple[str, ...] = ("sample",)
    _constant: object = field(default=None, repr=False)
    _recipe: Recipe | None = field(default=None, repr=False)
    _steps: Path = field(default=(), repr=False)

    @classmethod
    def compile(cls, source: object, *, names: Sequence[str] = ("sample",)) -> Template:
        """Return the template that a text is; any other value is a constant.

        Raise SpecError E112 for what is no template, with its line within the text, and `UnresolvedConfig`.
        """
        if isinstance(source, str):
            return _compile_once(source, tuple(names))
        return cls(source, "constant", names=tuple(names), _constant=source)

    def __reduce__(self) -> tuple[Callable[..., Template], tuple[object, ...]]:
        return _compile_again, (self.source, self.names)

    def paths_from(self, name: str) -> frozenset[tuple[str | int, ...]]:
        """Return where constant steps lead from a name: `scores.a.b` leads to `("a", "b")`."""
        if self.kind == "constant":
            return frozenset()
        return find_paths_from(parse_template(str(self.source), self.names), name)

    def evaluate(self, **context: object) -> object:
        """Return the value for one row: of a lone `{{ expression }}` with its type, otherwise text.

        Raise RowTrouble.
        """
        value = self._attempt(context)
        if isinstance(value, RowTrouble):
            raise value
        return value

    def render(self, **context: object) -> str:
        """Return the text that Jinja prints for one row. Raise RowTrouble."""
        if not isinstance(self.source, str):
            return str(self.source)
        printed = render_one(self._text_recipe, _wrap_sample(context))
        if isinstance(printed, RowTrouble):
            raise printed
        return str(printed)

    def values(self, samples: Samples, **others: Samples) -> list[object]:
        """Return the value for every row; a failing row's value is a RowTrouble.

        `others` are the tables behind names beside `sample`, row for row; without one its name is undefined.
        """
        if self.kind == "constant":
            return [self._constant] * len(samples)
        return self._value_program.list_values({"sample": samples, **others})

    def distinct(self, samples: Samples, **others: Samples) -> Distinct:
        """Return the distinct values, and for each row the position of its value among them."""
        if self.kind == "constant":
            return make_constant(self._constant, len(samples))
        if others:
            return self._value_program.number({"sample": samples, **others})
        key = "distinct", self.source, self.names
        if key not in samples.memo:
            samples.memo[key] = self._value_program.number({"sample": samples})
        found: Distinct = samples.memo[key]
        return found

    def series(self, samples: Samples, **others: Samples) -> pl.Series | None:
        """Return the values as a column; None where columns cannot compute them, or a row is in trouble."""
        if self.kind == "constant":
            return None
        return self._value_program.build_series({"sample": samples, **others})

    def texts(self, samples: Samples, **others: Samples) -> list[str | RowTrouble]:
        """Return what `render` prints for every row; a failing row has its RowTrouble."""
        if not isinstance(self.source, str):
            return [str(self.source)] * len(samples)
        texts = self._text_program.list_values({"sample": samples, **others})
        return cast("list[str | RowTrouble]", texts)

    def plan(self, samples: Samples, *, as_text: bool = False, later: Collection[str] = ()) -> Plan:
        """Return how the values, or the texts, will be found for a table with these columns.

        `later` are names whose tables are there when rows are evaluated.
        """
        if self.kind == "constant":
            return Plan("constant")
        program = self._text_program if as_text else self._value_program
        return program.plan({"sample": samples}, later)

    @cached_property
    def _value_program(self) -> Program:
        if self._recipe is None or not self._recipe.keeps_value:
            return self._text_program
        tree = parse_template(str(self.source), self.names)
        return Program(
            form=read_form(find_lone_expression(tree), self.names),
            reads=find_reads(tree, self.names),
            render=partial(self._render_values, self._recipe),
            is_lone=self.kind == "column",
        )

    @cached_property
    def _text_program(self) -> Program:
        tree = parse_template(str(self.source), self.names)
        return Program(
            form=read_text_form(tree, self.names),
            reads=find_reads(tree, self.names),
            render=partial(render_feed, self._text_recipe),
        )

    def _render_values(self, recipe: Recipe, feed: Feed) -> list[object]:
        if self._steps and self._steps[0].key in feed.tables["sample"].columns:
            return follow_path(self._steps, feed)
        return render_feed(recipe, feed)

    def _attempt(self, context: Mapping[str, object]) -> object:
        """Return the value or the trouble; not raising it keeps no traceback alive with the row in it."""
        if self._recipe is None:
            return self._constant
        return render_one(self._recipe, _wrap_sample(context))

    @cached_property
    def _text_recipe(self) -> Recipe:
        if self._recipe is None:
            return _write_recipe(str(self.source), self.names, keeps_value=False)
        return replace(self._recipe, keeps_value=False)


def _wrap_sample(context: Mapping[str, object]) -> dict[str, object]:
    """Return the context with `sample` as a row, so that a missing key is named a missing column."""
    wrapped = dict(context)
    sample = context.get("sample")
    if isinstance(sample, Mapping) and not isinstance(sample, Row):
        wrapped["sample"] = Row(sample)
    return wrapped


@lru_cache(maxsize=1024)
def _compile_once(source: str, names: tuple[str, ...]) -> Template:
    """Return the template of a text, compiled once in each process: shard after shard asks for it."""
    if left := find_config_names(source):
        raise UnresolvedConfig(left)
    tree = parse_template(source, names)
    expression = find_lone_expression(tree)
    if expression is None:
        return _compile_text(source, tree, names)
    try:
        return Template(source, "constant", names=names, _constant=fold_constant(expression, names))
    except NotConstantError:
        return _compile_expression(source, tree, expression, names=names)


def _compile_expression(
    source: str, tree: nodes.Template, expression: nodes.Expr, *, names: tuple[str, ...]
) -> Template:
    steps = find_path(expression)
    return Template(
        source,
        "column" if steps else "expression",
        find_columns(tree),
        tuple(step.key for step in steps) if steps else None,
        names,
        _recipe=_compile_recipe(source, names, keeps_value=True),
        _steps=steps or (),
    )


def _compile_text(source: str, tree: nodes.Template, names: tuple[str, ...]) -> Template:
    text = find_literal_text(tree)
    if text is not None:
        return Template(source, "constant", names=names, _constant=text)
    recipe = _compile_recipe(source, names, keeps_value=False)
    return Template(source, "expression", find_columns(tree), names=names, _recipe=recipe)


def _compile_recipe(source: str, names: tuple[str, ...], *, keeps_value: bool) -> Recipe:
    """Return the recipe, compiled now, so that what Jinja refuses is refused here."""
    recipe = _write_recipe(source, names, keeps_value=keeps_value)
    compile_recipe(recipe)
    return recipe


def _write_recipe(source: str, names: tuple[str, ...], *, keeps_value: bool) -> Recipe:
    tree = parse_template(source, names)
    return Recipe(source, names, keeps_value, find_columns(tree), is_tame(tree, names))


def _compile_again(source: object, names: tuple[str, ...]) -> Template:
    return Template.compile(source, names=names)
