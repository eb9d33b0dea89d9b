"""A sample's trouble with a template, and what each foreign exception becomes in the words of the user."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from jinja2 import TemplateError
from jinja2.exceptions import SecurityError, UndefinedError

from answerkey.templates.limits import ExcessError

#: A message may quote what a template made; more of it says no more.
_LONGEST_MESSAGE: Final = 2_000


class RowTrouble(Exception):  # noqa: N818 - it is handed on as a value of one row more often than it is raised
    """What went wrong with a template on one row; the caller decides whether that stops anything.

    `column` names the column of `sample` that does not exist; `is_undefined` is true whenever something that
    the template reads is not there (a column, a field, a list element).
    """

    def __init__(
        self, message: str, *, hint: str | None = None, column: str | None = None, is_undefined: bool = False
    ) -> None:
        message = message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}…"
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.column = column
        self.is_undefined = is_undefined

    def at_line(self, line: int) -> RowTrouble:
        """Return the same trouble with the line of the template in its message."""
        message = f"{self.message} (line {line} of the template)"
        return type(self)(message, hint=self.hint, column=self.column, is_undefined=self.is_undefined)


class Excess(RowTrouble):
    """A template does more on a row than it may."""


class MissingName(UndefinedError):  # noqa: N818 - named like the thing that is missing
    """A template reads something that is not there."""

    def __init__(self, message: str, *, hint: str | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.column = column


def _from_missing(error: BaseException) -> RowTrouble:
    hint, column = (error.hint, error.column) if isinstance(error, MissingName) else (None, None)
    return RowTrouble(str(error), hint=hint, column=column, is_undefined=True)


def _from_security(error: BaseException) -> RowTrouble:
    return RowTrouble(
        f"not allowed in a template: {error}",
        hint="templates read the row; they change only lists and mappings that they make themselves",
    )


def _from_key(error: BaseException) -> RowTrouble:
    return RowTrouble(f"there is no key {error.args[0]!r}" if error.args else "there is no such key")


def _from_text(error: BaseException) -> RowTrouble:
    return RowTrouble(str(error) or type(error).__name__)


def _from_type(error: BaseException) -> RowTrouble:
    hint = None
    if "NoneType" in str(error):
        hint = "a value is null in this row; `| default('', true)` gives null and empty values a default"
    return RowTrouble(str(error) or "values of the wrong type", hint=hint)


def _say(message: str) -> Callable[[BaseException], RowTrouble]:
    return lambda _: RowTrouble(message)


#: Most special first: the first class that fits decides.
TRANSLATIONS: Final[dict[type[BaseException], Callable[[BaseException], RowTrouble]]] = {
    UndefinedError: _from_missing,
    SecurityError: _from_security,
    TemplateError: _from_text,
    ZeroDivisionError: _say("division by zero"),
    ExcessError: lambda error: Excess(str(error)),
    OverflowError: _from_text,
    ArithmeticError: _from_text,
    KeyError: _from_key,
    IndexError: _from_text,
    LookupError: _from_text,
    RecursionError: _say("the template calls itself too often, or the value is nested too deeply"),
    RuntimeError: _from_text,
    TypeError: _from_type,
    ValueError: _from_text,
    AttributeError: _from_text,
    AssertionError: _from_text,
    NameError: _from_text,
    MemoryError: _say("the template needs more memory than there is"),
    re.error: lambda error: RowTrouble(f"not a regular expression: {error}"),
}

#: What a template can raise while it renders.
FOREIGN: Final = tuple(TRANSLATIONS)


def translate_error(error: BaseException) -> RowTrouble:
    """Return the trouble that an exception of a rendering template means to the user."""
    for kind, translate in TRANSLATIONS.items():
        if isinstance(error, kind):
            return translate(error)
    raise error
