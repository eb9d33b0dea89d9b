"""The filters of templates: additions to Jinja's, and Jinja's own with counted steps.

Among Jinja's own filters, only those that a bounded template may use are counted (`environment`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NoReturn

from jinja2 import pass_context
from jinja2.filters import FILTERS as JINJA_FILTERS

from answerkey.templates.limits import RowContext, Value, measure
from answerkey.templates.values import ExcessError, describe_type, make_plain, make_printable

#: The names of two filters that the compiler inserts; no template can contain such names.
LOOP_STEPS = "loop steps"
JOIN_TEXT = "join text"
_SHOWN_CHARACTERS = 80


@pass_context
def print_value(context: RowContext, value: Value) -> Value:
    """Return what Jinja prints for a value."""
    size = measure(value)
    if type(value) is str:
        context.budget.spend_text(size)
        return value
    printed = make_printable(value)
    context.budget.spend_text(measure(printed))
    return printed


@pass_context
def join_text(context: RowContext, values: list[Value]) -> str:
    """Return the concatenated texts of the values: the operator `~`."""
    return "".join(str(print_value(context, value)) for value in values)


@pass_context
def guard_steps(context: RowContext, values: Iterable[Value], weight: int = 1) -> Iterable[Value]:
    """Return the input of a loop, with its steps counted.

    They are counted at once, or one by one if the length is unknown.
    """

    def count_steps() -> Iterator[Value]:
        for value in values:
            context.budget.spend(weight)
            yield value

    try:
        size = len(values)  # type: ignore[arg-type]  # fails if it has no length
    except TypeError:
        return count_steps()
    context.budget.spend(size * weight)
    return values


def write_text(value: object) -> str:
    """Return a value as text; ExcessError if it would be too long."""
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
    """Return a value as a whole number; `default` if it is not one."""
    # Python itself refuses more decimal digits than this.
    if base != 10 and len(str(value)) > 4300:  # noqa: PLR2004 - as above
        raise ExcessError(f"`int`: {len(value):,} digits are too many")
    return JINJA_FILTERS["int"](value, default, base)


@pass_context
def parse_json(context: RowContext, value: object) -> object:
    """Return the value that JSON text encodes."""
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
        # A lone surrogate cannot be written to any file.
        json.dumps(parsed, ensure_ascii=False).encode()
    return parsed


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"`fromjson`: {word} is not JSON")


def _parse_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"`fromjson`: {digits[:_SHOWN_CHARACTERS]} is too large a number")
    return number


#: Created once: `json.loads` with settings creates a decoder for every text.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_float)


def escape_json(value: object) -> str:
    """Return text escaped for use between the quotes of a JSON string.

    Other values are first printed by Jinja.
    """
    return json.dumps(write_text(value), ensure_ascii=False)[1:-1]


@pass_context
def write_json(context: RowContext, value: object, indent: int | None = None) -> str:
    """Return a value as JSON text: keys in order, not escaped for HTML, without NaN."""
    size = measure(value)
    if indent is not None:
        # Python writes indented JSON in pure Python code, which takes about eight times as long.
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
    """Return the lists zipped, as long as the shortest."""
    return [list(group) for group in zip(first, *more, strict=False)]


def merge_mappings(first: Mapping[str, object], *more: Mapping[str, object]) -> dict[str, object]:
    """Return one mapping with the keys of all; later values win."""
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


#: Our own filters by name.
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
