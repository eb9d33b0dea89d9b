"""Source text to a checked syntax tree, and from there to Jinja's compiled form; foreign errors end here."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final, cast

import jinja2
from jinja2 import TemplateSyntaxError, UndefinedError, nodes

from answerkey.errors import Place, SpecError
from answerkey.templates.analysis import check_tree
from answerkey.templates.environment import open_environment
from answerkey.templates.limits import FREE_OUTPUT, MOST_ELEMENTS, ExcessError, measure
from answerkey.templates.plain import SCALARS, make_plain
from answerkey.templates.row_context import RowContext
from answerkey.templates.tameness import is_tame
from answerkey.templates.trouble import FOREIGN

#: What Jinja and Python raise for a text that cannot be compiled, or has a constant without a value.
UNCOMPILABLE: Final = (
    TemplateSyntaxError,
    SyntaxError,
    ValueError,
    UndefinedError,
    RecursionError,
    MemoryError,
)
_VALUE: Final = "value"
LONGEST_SOURCE: Final = 2_000_000
_LONGEST_NUMBER: Final = 4_300
_DIGITS: Final = re.compile(r"[0-9_]+")


class NotConstantError(Exception):
    """An expression has no value before a row is known."""


def parse_template(source: str, names: Sequence[str]) -> nodes.Template:
    """Return the syntax tree of a template whose names, filters and tests all exist. Raise SpecError E112."""
    environment = open_environment()
    _check_length(source)
    with _translate_errors(source):
        tree = environment.parse(source)
        check_tree(tree, environment, names)
    return tree


def _check_length(source: str) -> None:
    """Refuse what Jinja would need too long, or too much memory, to read."""
    if len(source) > LONGEST_SOURCE:
        message = f"the template has {len(source):,} characters; {LONGEST_SOURCE:,} are allowed"
        raise SpecError("E112", message, where=Place(line=1))
    for digits in _DIGITS.finditer(source):
        if len(digits[0]) > _LONGEST_NUMBER and _is_code(source, digits.start()):
            line = source.count("\n", 0, digits.start()) + 1
            raise SpecError(
                "E112", f"a number of {len(digits[0]):,} digits is too long", where=Place(line=line)
            )


def _is_code(source: str, position: int) -> bool:
    opened = max(source.rfind(mark, 0, position) for mark in ("{{", "{%"))
    return opened > max(source.rfind(mark, 0, position) for mark in ("}}", "%}"))


def compile_text(source: str) -> jinja2.Template:
    """Return the template that prints. Raise SpecError E112."""
    with _translate_errors(source):
        return open_environment().from_string(source)


def compile_expression(source: str, expression: nodes.Expr) -> jinja2.Template:
    """Return a template that keeps its value, for `take_value`, and prints nothing. Raise SpecError E112."""
    store = nodes.Assign(nodes.Name(_VALUE, "store"), expression, lineno=expression.lineno)
    tree = nodes.Template([store], lineno=1)
    tree.set_environment(open_environment())
    with _translate_errors(source):
        return open_environment().from_string(tree)


def open_frame(template: jinja2.Template, given: Mapping[str, object]) -> RowContext:
    """Return what a template renders in: what it is given, and what it may still do."""
    return cast("RowContext", template.new_context(dict(given)))


def take_value(template: jinja2.Template, frame: RowContext) -> object:
    """Return the value of the lone expression, with nothing lazy in it."""
    list(template.root_render_func(frame))  # it prints nothing, and is done when it has said so
    value = frame.vars[_VALUE]
    if type(value) is str and len(value) > FREE_OUTPUT:
        frame.limit_growth(len(value))
    if type(value) in SCALARS:
        return value
    size = measure(value)
    if size > FREE_OUTPUT:
        frame.limit_growth(size)
    return make_plain(value)


def print_text(template: jinja2.Template, frame: RowContext) -> str:
    """Return what a template prints."""
    text = "".join(template.root_render_func(frame))
    if len(text) > MOST_ELEMENTS:
        raise ExcessError(f"the template prints {len(text):,} characters; {MOST_ELEMENTS:,} are allowed")
    if len(text) > FREE_OUTPUT:
        frame.limit_growth(len(text))
    return text


def fold_constant(expression: nodes.Expr, names: Sequence[str]) -> object:
    """Return the value of a tame expression that needs no row. Raise NotConstantError for any other."""
    if not is_tame(expression, names):
        raise NotConstantError
    try:
        return make_plain(expression.as_const())
    except nodes.Impossible:
        raise NotConstantError from None
    except FOREIGN:
        raise NotConstantError from None


def find_line(template: jinja2.Template, traceback: TracebackType | None) -> int | None:
    """Return the line of the template where an exception was raised."""
    line = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == (template.filename or "<template>"):
            line = template.get_corresponding_lineno(traceback.tb_lineno)
        traceback = traceback.tb_next
    return line


@contextmanager
def _translate_errors(source: str) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            # A regular expression in quotes, `'\d'`, is fine in Jinja but has Python's decoder warn.
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    except UNCOMPILABLE as error:
        raise _refuse(source, error) from None


def _refuse(source: str, error: Exception) -> SpecError:
    line = error.lineno if isinstance(error, TemplateSyntaxError) else None
    if isinstance(error, RecursionError | MemoryError):
        return SpecError("E112", "template does not parse: it is nested too deeply", where=Place(line=line))
    if isinstance(error, UndefinedError):
        return SpecError("E112", f"template fails on every row: {error}", where=Place(line=line))
    reason = (
        str(getattr(error, "msg", None) or getattr(error, "message", None) or error) or type(error).__name__
    )
    hint = None
    if r"\|" in source and "unexpected char" in reason:
        hint = "write `|`; the backslash comes from a Markdown table"
    return SpecError("E112", f"template does not parse: {reason}", where=Place(line=line), hint=hint)
