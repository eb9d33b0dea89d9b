"""All that is needed to render a template anywhere, here or in a worker process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import jinja2

from answerkey.templates.analysis import find_lone_expression
from answerkey.templates.compiling import (
    compile_expression,
    compile_text,
    find_line,
    open_frame,
    parse_template,
    print_text,
    take_value,
)
from answerkey.templates.row_context import RowContext
from answerkey.templates.rows import Rows
from answerkey.templates.trouble import FOREIGN, RowTrouble, translate_error


@dataclass(frozen=True)
class Recipe:
    """A template's text, the names it sees, and what is wanted of it.

    `keeps_value`: the value of its lone expression, rather than what it prints. `columns` are those of
    `sample` that it reads; None: any.
    """

    source: str
    names: tuple[str, ...]
    keeps_value: bool
    columns: frozenset[str] | None
    is_tame: bool

    def render(self, rows: Rows, steps: int) -> Iterator[object]:
        """Yield the outcome for every row, with so many steps for each; a failing row's is its RowTrouble."""
        template = compile_recipe(self)
        finish = take_value if self.keeps_value else print_text
        frame = self._open(template, rows, steps)
        for _ in rows.fill():
            frame.renew()
            try:
                outcome: object = finish(template, frame)
            except FOREIGN as error:
                outcome = self._explain(template, error)
                frame = self._open(template, rows, steps)
            yield outcome

    def _open(self, template: jinja2.Template, rows: Rows, steps: int) -> RowContext:
        frame = open_frame(template, rows.given)
        frame.grant(steps, own_size=len(self.source), columns=self.columns)
        return frame

    def _explain(self, template: jinja2.Template, error: BaseException) -> RowTrouble:
        """Return the trouble of a row; of a text with several lines it names the line."""
        trouble = translate_error(error)
        has_lines = not self.keeps_value and "\n" in self.source
        line = find_line(template, error.__traceback__) if has_lines else None
        return trouble if line is None else trouble.at_line(line)


@lru_cache(maxsize=1024)
def compile_recipe(recipe: Recipe) -> jinja2.Template:
    """Return the compiled form. Raise SpecError E112."""
    expression = None
    if recipe.keeps_value:
        expression = find_lone_expression(parse_template(recipe.source, recipe.names))
    if expression is None:
        return compile_text(recipe.source)
    return compile_expression(recipe.source, expression)
