"""The filters of templates: those that Jinja lacks, and Jinja's own with counted steps.

Of Jinja's own filters only those are counted that a bounded template may use (`environment`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

from jinja2 import pass_context
from jinja2.filters import FILTERS as JINJA_FILTERS

from answerkey.templates.limits import RowContext, measure
from answerkey.templates.values import ExcessError, describe_type, make_plain, make_printable

#: What Jinja and filters hand around: any value at all.
Value = Any
#: The names of two guards that the compiler puts in; no template can write them.
LOOP_STEPS = "loop steps"
JOIN_TEXT = "join text"
_SHOWN_CHARACTERS = 80


@pass_context
def print_value(context: RowContext, value: Value) -> Value:
    """Return what Jinja prints in place of a value."""
    size = measure(value)
    if type(value) is str:
        context.budget.spend_text(size)
        return value
    printed = make_printable(value)
    context.budget.spend_text(measure(printed))
    return printed


@pass_context
def join_text(context: RowContext, values: list[Value]) -> str:
    """Return what `~` makes of values: their texts put together."""
    return "".join(str(print_value(context, value)) for value in values)


@pass_context
def guard_steps(context: RowContext, values: Iterable[Value], weight: int = 1) -> Iterable[Value]:
    """Return what a loop goes through, with its steps counted.

    All at once, or one by one where the length is not known.
    """

    def count_steps() -> Iterator[Value]:
        for value in values:
            context.budget.spend(weight)
            yield value

    try:
        size = len(values)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        return count_steps()
    context.budget.spend(size * weight)
    return values


def write_text(value: object) -> str:
    """Return a value as text, unless it would be too long."""
    measure(value)
    return str(value)


@pass_context
def join_values(
    context: RowContext,
    value: Iterable[Value],
    d: str = "",
    attribute: str | int | None = None,
) -> str:
    """Return the values as one text with `d` between them."""
    if attribute is not None:
        value = context.call(JINJA_FILTERS["map"], value, attribute=attribute)
    values = list(value)
    separator = str(d)
    context.budget.spend_text(len(separator) * len(values) + measure(values))
    return separator.join(map(str, values))


def parse_integer(value: Value, default: Value = 0, base: int = 10) -> Value:
    """Return a value as a whole number, `default` for what is none."""
    # Python itself refuses as many decimal digits.
    if base != 10 and len(str(value)) > 4300:  # noqa: PLR2004 - as above
        raise ExcessError(f"`int`: {len(value):,} digits are too many")
    return JINJA_FILTERS["int"](value, default, base)


@pass_context
def parse_json(context: RowContext, value: object) -> object:
    """Return the value that JSON text stands for."""
    if not isinstance(value, str):
        plain = make_plain(value)
        raise TypeError(f"`fromjson` reads text, and this is {describe_type(plain)}")
    # The parsed value takes several times the memory of the text.
    context.budget.spend_text(4 * len(value))
    try:
        parsed: object = _DECODER.decode(value)
    except json.JSONDecodeError as error:
        shown = value[:_SHOWN_CHARACTERS]
        raise ValueError(f"`fromjson`: {shown!r} is not JSON ({error})") from None
    if "\\u" in value:
        # Half a character cannot be written to any file.
        json.dumps(parsed, ensure_ascii=False).encode()
    return parsed


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"`fromjson`: {word} is not JSON")


def _parse_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"`fromjson`: {digits[:_SHOWN_CHARACTERS]} is too large a number")
    return number


#: Made once: `json.loads` with settings makes a decoder for every text.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_float)


def escape_json(value: object) -> str:
    """Return text as it stands between the quotes of a JSON string.

    Other values as Jinja prints them.
    """
    return json.dumps(write_text(value), ensure_ascii=False)[1:-1]


@pass_context
def write_json(context: RowContext, value: object, indent: int | None = None) -> str:
    """Return a value as JSON text: keys in their order, nothing escaped for HTML, no NaN."""
    size = measure(value)
    if indent is not None:
        # Indented JSON is written by Python, which takes some eight times as long.
        size *= 8 + indent
    context.budget.spend_text(size)
    plain = make_plain(value)
    return json.dumps(
        plain,
        ensure_ascii=False,
        allow_nan=False,
        indent=indent,
        default=str,
    )


def zip_lists(first: Iterable[object], *more: Iterable[object]) -> list[list[object]]:
    """Return the lists side by side, as long as the shortest."""
    return [list(group) for group in zip(first, *more, strict=False)]


def merge_mappings(first: Mapping[str, object], *more: Mapping[str, object]) -> dict[str, object]:
    """Return one mapping with the keys of all; the later value wins."""
    merged: dict[str, object] = {}
    for mapping in (first, *more):
        merged = {**merged, **mapping}
    return merged


def replace_pattern(
    value: object,
    pattern: str,
    repl: str = "",
    multiline: bool = False,  # noqa: FBT001, FBT002 - order and names as published
    ignorecase: bool = False,  # noqa: FBT001, FBT002 - same
    count: int = 0,
) -> str:
    """Return text with the matches of a regular expression replaced, the first `count` or all."""
    flags = re.MULTILINE * multiline | re.IGNORECASE * ignorecase
    return re.sub(pattern, repl, write_text(value), count=count, flags=flags)


#: The filters that are ours, by name.
FILTERS: dict[str, Callable[..., object]] = {
    "fromjson": parse_json,
    "int": parse_integer,
    "join": join_values,
    "json_escape": escape_json,
    "merge": merge_mappings,
    "regex_replace": replace_pattern,
    "tojson": write_json,
    "zip": zip_lists,
    LOOP_STEPS: guard_steps,
    JOIN_TEXT: join_text,
}
