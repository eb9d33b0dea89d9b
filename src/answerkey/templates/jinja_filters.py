"""The filters that templates have beside Jinja's own, and a `tojson` that writes plain JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NoReturn

from jinja2 import pass_context

from answerkey.templates.limits import measure
from answerkey.templates.patterns import replace_matches
from answerkey.templates.plain import check_unicode, describe_type, make_plain
from answerkey.templates.row_context import RowContext

_MOST_INDENT: Final = 100
#: What JSON text stands for takes several times its memory.
_JSON_GROWTH: Final = 4
#: Indented JSON is written by Python, which takes so many times as long.
_INDENT_GROWTH: Final = 8
_SHOWN: Final = 80


@pass_context
def parse_json(context: RowContext, value: object) -> object:
    """Return the value that JSON text stands for."""
    if not isinstance(value, str):
        plain = make_plain(value)
        raise TypeError(f"`fromjson` reads text, and this is {describe_type(plain)}")
    context.effort.spend_text(_JSON_GROWTH * len(value))
    try:
        found: object = _DECODER.decode(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"`fromjson`: {value[:_SHOWN]!r} is not JSON ({error})") from None
    if "\\u" in value:
        check_unicode(json.dumps(found, ensure_ascii=False))
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"`fromjson`: {word} is not JSON")


def _read_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"`fromjson`: {digits[:_SHOWN]} is too large a number")
    return number


#: Made once: `json.loads` with settings makes a decoder for every text.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_read_float)


def escape_json(value: object) -> str:
    """Return text as it stands between the quotes of a JSON string; other values as Jinja prints them."""
    return json.dumps(write_text(value), ensure_ascii=False)[1:-1]


def write_text(value: object) -> str:
    """Return a value as text, unless it would be too long."""
    if isinstance(value, str):
        return value
    measure(value)
    return str(value)


@pass_context
def write_json(context: RowContext, value: object, indent: int | None = None) -> str:
    """Return a value as JSON text: keys in their order, nothing escaped for HTML, no NaN or infinity."""
    if indent is not None and indent > _MOST_INDENT:
        raise ValueError(f"`tojson`: an indent of {indent} is too wide")
    size = measure(value)
    context.effort.spend_text(size if indent is None else size * _INDENT_GROWTH)
    return json.dumps(
        make_plain(value), ensure_ascii=False, allow_nan=False, indent=indent, default=_write_cell
    )


def _write_cell(value: object) -> str:
    """Return a cell that JSON has no type for (a date, a decimal) as text."""
    if isinstance(value, bytes):
        raise TypeError("`tojson`: bytes have no JSON form")
    return str(value)


def zip_lists(first: Iterable[object], *others: Iterable[object]) -> list[list[object]]:
    """Return the lists side by side, as long as the shortest."""
    return [list(group) for group in zip(first, *others, strict=False)]


def merge_mappings(first: Mapping[str, object], *others: Mapping[str, object]) -> dict[str, object]:
    """Return one mapping with the keys of all; the later value wins."""
    merged: dict[str, object] = {}
    for mapping in (first, *others):
        merged |= {key: mapping[key] for key in mapping.keys()}  # noqa: SIM118 - a list must fail here, not iterate
    return merged


@pass_context
def replace_pattern(
    context: RowContext,
    value: object,
    pattern: str,
    repl: str = "",
    multiline: bool = False,  # noqa: FBT001, FBT002 - order and names as published
    ignorecase: bool = False,  # noqa: FBT001, FBT002 - same
    count: int = 0,
) -> str:
    """Return text with the matches of a regular expression replaced, the first `count` or (0) all of them."""
    flags = (re.MULTILINE if multiline else re.NOFLAG) | (re.IGNORECASE if ignorecase else re.NOFLAG)
    text = write_text(value)
    return replace_matches(pattern, repl, text, flags=flags, effort=context.effort, count=count)


#: The name in templates, and what it does.
FILTERS: Final[dict[str, Callable[..., object]]] = {
    "fromjson": parse_json,
    "json_escape": escape_json,
    "merge": merge_mappings,
    "regex_replace": replace_pattern,
    "tojson": write_json,
    "zip": zip_lists,
}
