"""Jinja's own filters that can make a value far larger than what they are given, within limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Final

from jinja2 import pass_context
from jinja2.filters import FILTERS as JINJA_FILTERS

from answerkey.templates.jinja_filters import write_text
from answerkey.templates.limits import (
    MOST_ELEMENTS,
    STEP_TEXT,
    Effort,
    ExcessError,
    measure,
    measure_conversions,
    measure_joined,
    measure_replacement,
    measure_stripped,
)
from answerkey.templates.plain import SCALARS, is_flat, make_printable
from answerkey.templates.row_context import RowContext

_MOST_DIGITS: Final = 1000
_LONGEST_NUMBER: Final = 4300
_DECIMAL: Final = 10

#: What filters take and give: any value at all.
Value = Any


def _guard(name: str, size: Callable[..., int]) -> Callable[..., Value]:
    """Return one of Jinja's filters that first says how large its outcome is."""
    original = JINJA_FILTERS[name]

    @pass_context
    @wraps(original)
    def guarded(context: RowContext, value: Value, *arguments: Value, **options: Value) -> Value:
        context.effort.spend_text(size(value, *arguments, **options))
        return context.call(original, value, *arguments, **options)

    return guarded


def _measure_indented(value: str, width: int | str = 4, *_rest: Value, **_options: Value) -> int:
    step = len(width) if isinstance(width, str) else width
    return len(value) + (value.count("\n") + 1) * max(step, 0)


def _measure_wrapped(
    value: str,
    width: int = 79,
    break_long_words: bool = True,  # noqa: FBT001, FBT002 - Jinja's own order
    wrapstring: str | None = None,
    *_rest: Value,
    **_options: Value,
) -> int:
    del break_long_words
    lines = len(value) // max(width, 1) + value.count("\n") + 1
    return len(value) + lines * len(wrapstring or "\n")


def _measure_rounded(_value: Value, precision: int = 0, *_rest: Value, **_options: Value) -> int:
    if abs(precision) > _MOST_DIGITS:
        raise ExcessError(f"`round`: {precision} digits are too many")
    return 1


@pass_context
def join_values(
    context: RowContext, value: Iterable[Value], d: str = "", attribute: str | int | None = None
) -> str:
    """Return the values as one text with `d` between them."""
    if attribute is not None:
        value = context.call(JINJA_FILTERS["map"], value, attribute=attribute)
    values = list(value)
    separator = str(d)
    context.effort.spend_text(measure_joined(separator, values))
    return separator.join(map(str, values))


@pass_context
def format_text(context: RowContext, value: Value, *args: Value, **kwargs: Value) -> str:
    """Return text with its conversions (`%s`) filled in, by place or by name."""
    if args and kwargs:
        raise TypeError("`format` takes values either by place or by name")
    text, values = write_text(value), kwargs or args
    context.effort.spend_text(measure_conversions(text, values))
    return text % values


def read_integer(value: Value, default: Value = 0, base: int = 10) -> Value:
    """Return a value as a whole number, `default` for what is none."""
    if isinstance(value, str) and base != _DECIMAL and len(value) > _LONGEST_NUMBER:
        # Python itself refuses the decimal digits of longer ones.
        raise ExcessError(f"`int`: {len(value):,} digits are too many")
    return JINJA_FILTERS["int"](value, default, base)


@pass_context
def trim_text(context: RowContext, value: Value, chars: str | None = None) -> str:
    """Return text without white space, or without these characters, at both ends."""
    if chars is None and type(value) is str:
        return value.strip()
    text = write_text(value)
    context.effort.spend_text(measure_stripped(text, chars))
    return text.strip(chars)


@pass_context
def sum_values(
    context: RowContext, iterable: Iterable[Value], attribute: str | int | None = None, start: Value = 0
) -> Value:
    """Return the values added up; lists are added up to a longer list."""
    values = list(iterable)
    context.effort.spend_text(measure(values))
    return context.call(JINJA_FILTERS["sum"], values, attribute, start)


@pass_context
def replace_text(context: RowContext, s: Value, old: Value, new: Value, count: int | None = None) -> str:
    """Return text with every `old`, or the first `count`, replaced by `new`."""
    text, first, second = write_text(s), write_text(old), write_text(new)
    times = -1 if count is None else count
    context.effort.spend_text(measure_replacement(text, first, second, times))
    return text.replace(first, second, times)


@pass_context
def print_value(context: RowContext, value: Value) -> Value:
    """Return what Jinja prints in place of a value."""
    if type(value) is str:
        effort, size = context.effort, len(value)
        effort.left -= 1 + size // STEP_TEXT
        if size > MOST_ELEMENTS or effort.left < 0:
            effort.spend_text(size)
        return value
    printed = value if type(value) in SCALARS or is_flat(value) else _make_printable(value)
    context.effort.spend_text(measure(printed))
    return printed


@pass_context
def join_text(context: RowContext, values: list[Value]) -> str:
    """Return what `~` makes of values: their texts put together."""
    printed = [one if type(one) is str else _make_printable(one) for one in values]
    context.effort.spend_text(sum(map(measure, printed)))
    return "".join(map(str, printed))


def _make_printable(value: Value) -> Value:
    # A list that holds another twice, and that one a third twice, is exponentially long in few lines.
    measure(value)
    return make_printable(value)


@pass_context
def guard_steps(context: RowContext, values: Iterable[Value], weight: int = 1) -> Iterable[Value]:
    """Return what a loop goes through, its steps paid for: all at once, or one by one where none can tell."""
    try:
        size = len(values)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        return _count_steps(context.effort, values, weight)
    context.effort.spend(size * weight)
    return values


def _count_steps(effort: Effort, values: Iterable[Value], weight: int) -> Iterable[Value]:
    for one in values:
        effort.spend(weight)
        yield one


#: The names of the two guards that the compiler puts in; no template can write them.
LOOP_STEPS: Final = "loop steps"
JOIN_TEXT: Final = "join text"

#: Filters that go through all of what they are given, some of them not before somebody asks for it.
LAZY: Final = frozenset(["map", "select", "reject", "selectattr", "rejectattr", "items"])
GOING_THROUGH: Final = LAZY | frozenset(
    ["batch", "dictsort", "groupby", "list", "max", "min", "reverse", "slice", "sort", "unique", "zip"]
)

GUARDED: Final[dict[str, Callable[..., Value]]] = {
    "batch": _guard(
        "batch", lambda _value, linecount, fill_with=None: linecount if fill_with is not None else 1
    ),
    "center": _guard("center", lambda value, width=80: max(len(value), width)),
    "format": format_text,
    "indent": _guard("indent", _measure_indented),
    "int": read_integer,
    "join": join_values,
    "pprint": _guard("pprint", measure),
    "replace": replace_text,
    "round": _guard("round", _measure_rounded),
    "slice": _guard("slice", lambda _value, slices, fill_with=None: slices),  # noqa: ARG005 - Jinja's own signature
    "string": _guard("string", measure),
    "sum": sum_values,
    "title": _guard("title", measure),
    "trim": trim_text,
    "wordcount": _guard("wordcount", measure),
    "wordwrap": _guard("wordwrap", _measure_wrapped),
    LOOP_STEPS: guard_steps,
    JOIN_TEXT: join_text,
}
