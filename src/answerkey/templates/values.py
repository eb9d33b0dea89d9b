"""The outcome of a template on one row: a plain value, or an error in the user's terms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, ValuesView
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, SupportsIndex

from jinja2 import TemplateError, TemplateRuntimeError, Undefined
from jinja2.exceptions import SecurityError, UndefinedError

from answerkey.errors import listing, suggest
from answerkey.trace import Row

#: A message may quote a value from the template; longer messages are cut.
_MAX_MESSAGE_LENGTH = 2_000
#: The types of values that need no conversion.
SCALARS = frozenset([str, int, float, bool, type(None)])
_LAZY = (Iterator, AbstractSet, ValuesView, range)
#: The first matching type gives the word.
_TYPE_WORDS: dict[type, str] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    tuple: "a list",
    Row: "a sample",
    dict: "a mapping",
}
#: Exceptions that a template can raise while it renders.
FOREIGN = (
    TemplateError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    NameError,
    RuntimeError,
    TypeError,
    ValueError,
    re.error,
)
#: Messages for exceptions whose own text does not help the user.
_MESSAGES: dict[type[BaseException], str] = {
    KeyError: "there is no key {}",
    MemoryError: "the template needs more memory than is available",
    RecursionError: "the template calls itself too often, or the value is nested too deeply",
    SecurityError: "not allowed in a template: {}",
    ZeroDivisionError: "division by zero",
    re.error: "not a regular expression: {}",
}


@dataclass(eq=False)
class RowError(Exception):
    """The error of a template on one row; the caller decides whether to stop.

    `column` names the column of `sample` that does not exist; `is_undefined` is true if anything
    that the template reads does not exist (a column, a field, a list element).
    """

    message: str
    hint: str | None = None
    column: str | None = None
    is_undefined: bool = False

    def __post_init__(self) -> None:
        if len(self.message) > _MAX_MESSAGE_LENGTH:
            self.message = f"{self.message[:_MAX_MESSAGE_LENGTH]}…"

    def __str__(self) -> str:
        return self.message


class RowExcessError(RowError):
    """A template exceeds a limit on one row."""


class ExcessError(OverflowError):
    """A template exceeds a limit on one row; raised while it renders."""


class MissingName(UndefinedError):  # noqa: N818 - named like the thing that is missing
    """A template reads something that does not exist."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        column: str | None = None,
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.column = column


def translate_error(error: BaseException, line: int | None = None) -> RowError:
    """Return an exception from rendering in the user's terms.

    `line` is the line of the template, if it is known.
    """
    message = str(error) or type(error).__name__
    for kind, text in _MESSAGES.items():
        if isinstance(error, kind):
            message = text.format(error)
    if line is not None:
        message = f"{message} (line {line} of the template)"
    hint = None
    column = None
    if isinstance(error, MissingName):
        hint = error.hint
        column = error.column
    elif isinstance(error, TypeError) and "NoneType" in message:
        hint = (
            "a value is null in this row; "
            "`| default('', true)` gives null and empty values a default"
        )
    error_type = RowError
    if isinstance(error, (ExcessError, MemoryError)):
        error_type = RowExcessError
    is_undefined = isinstance(error, UndefinedError)
    return error_type(
        message,
        hint=hint,
        column=column,
        is_undefined=is_undefined,
    )


class JsonText(str):  # noqa: SLOT000 - the parsed content is kept
    """Text that contains JSON, whose fields can be read as in `text | fromjson`."""

    def __getitem__(self, key: SupportsIndex | slice | str) -> object:  # type: ignore[override]  # also by name
        if isinstance(key, str):
            return self._content[key]
        return str(self)[key]

    @cached_property
    def _content(self) -> Any:  # noqa: ANN401 - whatever JSON can hold
        return json.loads(self)


def describe_type(value: object) -> str:
    """Return the name of a value's type that users of templates know."""
    for kind, word in _TYPE_WORDS.items():
        if isinstance(value, kind):
            return word
    return f"a {type(value).__name__}"


def make_plain(value: object, *, keep_tuples: bool = False) -> object:
    """Return a value without lazy parts: generators, ranges and views become lists.

    An undefined value anywhere inside raises, and so does a function or an internal object of
    Jinja. Tuples become lists too, unless they are to be printed.
    """
    if type(value) in SCALARS:
        return value
    if isinstance(value, Undefined):
        fail_undefined(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, dict):
        return {key: make_plain(cell, keep_tuples=keep_tuples) for key, cell in value.items()}
    if not isinstance(value, (list, tuple)):
        _refuse_machinery(value)
        if not isinstance(value, _LAZY):
            return value
    parts = [make_plain(part, keep_tuples=keep_tuples) for part in value]
    if keep_tuples and isinstance(value, tuple):
        return tuple(parts)
    return parts


def _refuse_machinery(value: object) -> None:
    """Raise for a function or an internal object of Jinja, which no row can contain."""
    name = None
    if callable(value):
        name = "a function"
    elif type(value).__module__.startswith("jinja2"):
        name = f"Jinja's `{type(value).__name__}`"
    if name is not None:
        raise TemplateRuntimeError(f"the template yields {name}, which is not a value")


def make_printable(value: object) -> object:
    """Return what Jinja prints for a value: the value without lazy parts.

    An `if` without `else` whose condition is false prints nothing.
    """
    if type(value) is Undefined:
        return ""
    return make_plain(value, keep_tuples=True)


def fail_undefined(value: Undefined) -> NoReturn:
    """Raise the error of an undefined value."""
    value._fail_with_undefined_error()  # noqa: SLF001 - there is no public name for it


def explain_missing(owner: object, name: object) -> MissingName:
    """Return the error for a name that `owner` does not have."""
    if isinstance(owner, dict):
        return _explain_missing_key(owner, name)
    part = "such element"
    if isinstance(name, str):
        part = f"field `{name}`"
    elif isinstance(name, int):
        part = f"element {name}"
    hint = None
    if isinstance(owner, str):
        hint = "use `| fromjson` to read text that contains JSON"
    return MissingName(f"{describe_type(owner)} has no {part}", hint=hint)


def _explain_missing_key(owner: dict[str, object], name: object) -> MissingName:
    hint = f"fields: {listing(owner)}"
    message = f"there is no field `{name}`"
    column = None
    if isinstance(owner, Row):
        hint = f"columns: {listing(owner)}"
        message = f"`{name}` is not a column"
        column = str(name)
    suggestion = suggest(str(name), owner)
    if suggestion:
        hint = f"{suggestion} {hint}"
    return MissingName(message, hint=hint, column=column)
