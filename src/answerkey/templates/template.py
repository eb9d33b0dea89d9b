"""A compiled per-row template: a constant, a column, or an expression."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Self

import jinja2
from jinja2 import nodes

from answerkey.errors import SpecError, listing
from answerkey.templates.analysis import (
    Step,
    find_columns,
    find_literal_text,
    find_lone_expression,
    find_path,
    find_paths_from,
)
from answerkey.templates.compiling import (
    NotConstantError,
    compile_expression,
    compile_text,
    find_line,
    fold_constant,
    parse_template,
    print_text,
    take_value,
)
from answerkey.templates.environment import open_environment
from answerkey.templates.placeholders import find_config_names
from answerkey.templates.plain import PartialRow, make_plain
from answerkey.templates.trouble import FOREIGN, RowTrouble, translate_error
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
    _expression: jinja2.Template | None = field(default=None, repr=False)
    _steps: tuple[Step, ...] = field(default=(), repr=False)

    @classmethod
    def compile(cls, source: object, *, names: Sequence[str] = ("sample",)) -> Self:
        """Return the template that a text is; any other value is a constant.

        Raise SpecError E112 for what is no template, with its line within the text, and `UnresolvedConfig`.
        """
        if not isinstance(source, str):
            return cls(source, "constant", names=tuple(names), _constant=source)
        if left := find_config_names(source):
            raise UnresolvedConfig(left)
        tree = parse_template(source, names)
        expression = find_lone_expression(tree)
        if expression is None:
            return cls._compile_text(source, tree, tuple(names))
        try:
            return cls(source, "constant", names=tuple(names), _constant=fold_constant(expression))
        except NotConstantError:
            return cls._compile_expression(source, tree, expression, names=tuple(names))

    @classmethod
    def _compile_text(cls, source: str, tree: nodes.Template, names: tuple[str, ...]) -> Self:
        text = find_literal_text(tree)
        if text is not None:
            return cls(source, "constant", names=names, _constant=text)
        template = cls(source, "expression", find_columns(tree), names=names)
        _ = template._text  # compiled now, so that what Jinja refuses is refused here
        return template

    @classmethod
    def _compile_expression(
        cls, source: str, tree: nodes.Template, expression: nodes.Expr, *, names: tuple[str, ...]
    ) -> Self:
        steps = find_path(expression)
        return cls(
            source,
            "column" if steps else "expression",
            find_columns(tree),
            tuple(step.key for step in steps) if steps else None,
            names,
            _expression=compile_expression(source, expression),
            _steps=steps or (),
        )

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
        printed = self._print(_wrap_sample(context))
        if isinstance(printed, RowTrouble):
            raise printed
        return printed

    def values(self, samples: Samples) -> list[object]:
        """Return the value for every row, reading `sample` alone; a failing row's value is a RowTrouble."""
        if self.kind == "constant":
            return [self._constant] * len(samples)
        if self.kind == "column":
            return self._read_column(samples)
        if self._reads_whole_rows(samples):
            return [self._attempt({"sample": row}) for row in samples.rows()]
        return self._read_columns(samples)

    def _read_column(self, samples: Samples) -> list[object]:
        column = str(self._steps[0].key)
        if column not in samples.columns:
            return [self._attempt({"sample": PartialRow.of({}, samples.columns)})] * len(samples)
        cells = samples.values(column)
        return [self._follow(cell) for cell in cells] if len(self._steps) > 1 else cells

    def _follow(self, cell: object) -> object:
        """Return what the rest of the path leads to."""
        environment = open_environment()
        value = cell
        try:
            for step in self._steps[1:]:
                value = step.take(value, environment)
            return make_plain(value)
        except FOREIGN as error:
            return translate_error(error)

    def _reads_whole_rows(self, samples: Samples) -> bool:
        """Say whether any column may be read: `sample.items` without that column is a method of the row."""
        if self.columns is None:
            return True
        return any(hasattr(dict, name) and name not in samples.columns for name in self.columns)

    def _read_columns(self, samples: Samples) -> list[object]:
        """Return the values, computed once for rows that are alike in every column that is read."""
        columns = samples.columns
        present = [name for name in columns if name in (self.columns or ())]
        known: dict[str, object] = {}
        values: list[object] = []
        for row in samples.rows(present):
            key = _write_key(row)
            if key is None:
                values.append(self._attempt({"sample": PartialRow.of(row, columns)}))
                continue
            if key not in known:
                known[key] = self._attempt({"sample": PartialRow.of(row, columns)})
            values.append(known[key])
        return values

    def _attempt(self, context: Mapping[str, object]) -> object:
        """Return the value or the trouble; not raising it keeps no traceback alive with the row in it."""
        if self.kind == "constant":
            return self._constant
        if self._expression is None:
            return self._print(_wrap_sample(context))
        try:
            return make_plain(take_value(self._expression, _wrap_sample(context)))
        except FOREIGN as error:
            return translate_error(error)

    def _print(self, context: dict[str, object]) -> str | RowTrouble:
        try:
            return print_text(self._text, context)
        except FOREIGN as error:
            trouble = translate_error(error)
            line = find_line(self._text, error.__traceback__) if "\n" in str(self.source) else None
            return trouble if line is None else trouble.at_line(line)

    @cached_property
    def _text(self) -> jinja2.Template:
        return compile_text(str(self.source))


def _wrap_sample(context: Mapping[str, object]) -> dict[str, object]:
    """Return the context with `sample` as a row, so that a missing key is named a missing column."""
    wrapped = dict(context)
    sample = context.get("sample")
    if isinstance(sample, Mapping) and not isinstance(sample, Row):
        wrapped["sample"] = Row(sample)
    return wrapped


def _write_key(row: Row) -> str | None:
    """Return a text that is the same only for the same values of the same types: 1, 1.0, true, "1" differ."""
    try:
        return json.dumps(list(row.values()))
    except (TypeError, ValueError, RecursionError):
        return None


def _compile_again(source: object, names: tuple[str, ...]) -> Template:
    return Template.compile(source, names=names)
