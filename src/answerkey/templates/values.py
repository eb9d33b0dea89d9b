"""What comes out of a template on one row: a plain value, or what went wrong in the words of the user."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any, Final, NoReturn, SupportsIndex, TypeGuard

from jinja2 import TemplateError, TemplateRuntimeError, Undefined
from jinja2.exceptions import SecurityError, UndefinedError

from answerkey.errors import listing, suggest
from answerkey.trace import Row

#: A message may quote what a template made; more of it says no more.
_LONGEST_MESSAGE: Final = 2_000
#: What goes out as it is.
SCALARS: Final = frozenset([str, int, float, bool, type(None)])
_LAZY: Final = (Iterator, AbstractSet, ValuesView, range)
_TYPE_WORDS: Final[dict[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    tuple: "a list",
    dict: "a mapping",
    Row: "a sample",
}


class RowError(Exception):
    """What went wrong with a template on one row; the caller decides whether that stops anything.

    `column` names the column of `sample` that does not exist; `is_undefined` is true whenever something that
    the template reads is not there (a column, a field, a list element).
    """

    def __init__(
        self, message: str, *, hint: str | None = None, column: str | None = None, is_undefined: bool = False
    ) -> None:
        self.message = message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}…"
        super().__init__(self.message)
        self.hint = hint
        self.column = column
        self.is_undefined = is_undefined


class RowExcessError(RowError):
    """A template does more on a row than it may."""


class ExcessError(OverflowError):
    """A template does more on a row than it may; raised while it renders."""


class MissingName(UndefinedError):  # noqa: N818 - named like the thing that is missing
    """A template reads something that is not there."""

    def __init__(self, message: str, *, hint: str | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.column = column


#: What a template can raise while it renders.
FOREIGN: Final = (
    *(TemplateError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError, AttributeError),
    *(AssertionError, NameError, MemoryError, re.error),
)


def translate_error(error: BaseException, line: int | None = None) -> RowError:
    """Return what an exception of a rendering template means to the user, with the line if it is known."""
    message, hint, column = str(error) or type(error).__name__, None, None
    match error:
        case MissingName():
            hint, column = error.hint, error.column
        case SecurityError():
            message = f"not allowed in a template: {error}"
            hint = "templates read the row; they change only lists and mappings that they make themselves"
        case ZeroDivisionError():
            message = "division by zero"
        case KeyError():
            message = f"there is no key {error.args[0]!r}" if error.args else "there is no such key"
        case RecursionError():
            message = "the template calls itself too often, or the value is nested too deeply"
        case MemoryError():
            message = "the template needs more memory than there is"
        case re.error():
            message = f"not a regular expression: {error}"
        case TypeError():
            message = str(error) or "values of the wrong type"
            if "NoneType" in message:
                hint = (
                    "a value is null in this row; `| default('', true)` gives null and empty values a default"
                )
    if line is not None:
        message = f"{message[:_LONGEST_MESSAGE]} (line {line} of the template)"
    kind = RowExcessError if isinstance(error, ExcessError) else RowError
    return kind(message, hint=hint, column=column, is_undefined=isinstance(error, UndefinedError))


class PartialMapping(dict[str, object]):
    """A mapping with only the keys that a template reads; `known` has the names of all there are."""

    def __init__(self, known: Sequence[str]) -> None:
        super().__init__()
        self.known = known


class PartialRow(PartialMapping, Row):
    """A row with only the columns that a template reads."""


class JsonText(str):  # noqa: SLOT000 - what was read once is kept
    """Text whose fields can be read as those of the JSON that it holds, like `text | fromjson`."""

    def __getitem__(self, key: SupportsIndex | slice | str) -> object:  # type: ignore[override]  # also by name
        return self._content[key] if isinstance(key, str) else str(self)[key]

    @cached_property
    def _content(self) -> Any:  # noqa: ANN401 - whatever JSON can hold
        return json.loads(self)


def describe_type(value: object) -> str:
    """Return the word for a value's type, as a user of templates knows it."""
    known = (_TYPE_WORDS[kind] for kind in type(value).__mro__ if kind in _TYPE_WORDS)
    return next(known, f"a {type(value).__name__}")


def is_flat(value: object) -> TypeGuard[list[object]]:
    """Say whether a value is a list of nothing but texts, numbers and nulls."""
    return type(value) is list and SCALARS.issuperset(map(type, value))


def make_plain(value: object, *, keep_tuples: bool = False) -> object:
    """Return a value without anything lazy in it: generators, ranges and views become lists.

    An undefined value anywhere inside fails, and so does a function or another part of Jinja's own machinery.
    Tuples become lists too, unless they are to be printed.
    """
    if type(value) in SCALARS:
        return value
    if is_flat(value):
        return list(value)
    if isinstance(value, Undefined):
        fail_undefined(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return {key: make_plain(one, keep_tuples=keep_tuples) for key, one in value.items()}
    if not isinstance(value, (list, tuple)):
        if callable(value) or type(value).__module__.startswith("jinja2"):
            name = getattr(value, "__name__", type(value).__name__)
            what = "a function" if callable(value) else f"Jinja's `{name}`"
            raise TemplateRuntimeError(f"the template yields {what}, which is no value")
        if not isinstance(value, _LAZY):
            return value
    parts = [make_plain(one, keep_tuples=keep_tuples) for one in value]
    return tuple(parts) if keep_tuples and isinstance(value, tuple) else parts


def make_printable(value: object) -> object:
    """Return what Jinja prints in place of a value: the same, but nothing lazy in it.

    Of an `if` without `else` that does not hold Jinja prints nothing, strict or not.
    """
    return "" if type(value) is Undefined else make_plain(value, keep_tuples=True)


def fail_undefined(value: Undefined) -> NoReturn:
    """Raise the error that an undefined value stands for."""
    value._fail_with_undefined_error()  # noqa: SLF001 - there is no public name for it


def explain_missing(owner: object, name: object) -> MissingName:
    """Return the error for a name that `owner` does not have."""
    shown = "null" if name is None else repr(name)
    part = f"field `{name}`" if isinstance(name, str) else f"element {shown}"
    if isinstance(owner, Mapping):
        known = owner.known if isinstance(owner, PartialMapping) else list(owner)
        near = suggest(str(name), known)
        names = f"{'columns' if isinstance(owner, Row) else 'fields'}: {listing(known)}"
        hint = f"{near} {names}" if near else names
        if isinstance(owner, Row):
            return MissingName(f"`{name}` is not a column", hint=hint, column=str(name))
        return MissingName(f"there is no field `{name}`", hint=hint)
    if owner is None:
        return MissingName(f"null has no {part}", hint="the value is null in this row")
    if isinstance(owner, (list, tuple, str)) and not isinstance(name, str):
        if not isinstance(name, int):
            return MissingName(f"{shown} is not an index", hint="an index is a whole number; the first is 0")
        size = f"{len(owner)} {'character' if isinstance(owner, str) else 'value'}{'s' * (len(owner) != 1)}"
        return MissingName(f"index {name} is outside {describe_type(owner)} of {size}", hint="the first is 0")
    advice = None
    if isinstance(owner, str):
        advice = "text that holds JSON is read with `| fromjson`"
    elif isinstance(owner, (list, tuple)) and isinstance(name, str) and name.strip().isdigit():
        advice = f"{name!r} is text; make a number of it with `| int`"
    return MissingName(f"{describe_type(owner)} has no {part}", hint=advice)
