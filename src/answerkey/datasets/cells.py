"""The values of cells: plain values, and columns that a user gives a type.

`columns: {choices: list, correct_index: int}` types cells of text. Nothing else ever changes the
type of a cell.
"""

from __future__ import annotations

import ast
import base64
import datetime as dt
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

from answerkey.datasets.content import check_text, parse_json, refuse_duplicates
from answerkey.errors import DataError
from answerkey.text import parse_python, parse_syntax

ColumnKind = Literal["int", "list", "json"]

#: Lists longer than this are not parsed as Python literals; JSON has no such limit.
LITERAL_LIMIT = 100_000
INTEGER = re.compile(r"[+-]?[0-9]+")
#: A text in a list that Python or NumPy wrote.
QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
#: The type of a declared kind, and what errors call it.
KINDS: dict[ColumnKind, tuple[type, str]] = {
    "int": (int, "a whole number"),
    "list": (list, "a list"),
    "json": (object, "JSON"),
}


def plain(value: object) -> object:
    """Return a value as JSON knows it: dates in ISO form, decimals as written, NaN as null.

    Bytes are text if they are UTF-8, else base64. TypeError for a value that has no JSON form.
    """
    if value is None or type(value) in {str, bool, int}:
        return value
    match value:
        case float():
            return None if math.isnan(value) else float(value)
        case list() | tuple():
            return [plain(item) for item in value]
        case Mapping():
            return plain_fields(value)
        case str():
            return str.__str__(value)
        case int():
            return int(value)
    return _plain_foreign(value)


def plain_fields(mapping: Mapping[Any, object]) -> dict[str, object]:
    """Return a mapping with plain values; TypeError for a key that is no text."""
    converted = {}
    for key, value in mapping.items():
        if not isinstance(key, str):
            raise TypeError(f"a mapping whose key {key!r} is not text")
        converted[str(key)] = plain(value)
    return converted


def _plain_foreign(value: Any) -> object:  # noqa: ANN401 - of any library
    """Return a value of a type that JSON does not have."""
    match value:
        case dt.date() | dt.time():
            is_missing = value != value  # noqa: PLR0124 - pandas has a time that is none
            if is_missing:
                return None
            return value.isoformat()
        case dt.timedelta():
            return str(value)
        case Decimal():
            # As text, so that no decimal place is lost.
            is_whole = value.as_tuple().exponent == 0
            return int(value) if is_whole else format(value, "f")
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return base64.b64encode(value).decode("ascii")
    unwrap = getattr(value, "tolist", None) or getattr(value, "item", None)
    if callable(unwrap):
        unwrapped = unwrap()
        if type(unwrapped) is not type(value):
            return plain(unwrapped)
    if type(value).__name__ == "NAType":  # the null of pandas
        return None
    raise TypeError(f"a value of type {type(value).__name__}")


# ── declared types


def convert_cell(cell: object, kind: ColumnKind) -> object:
    """Return a cell with the declared type; ValueError with what is wrong with it."""
    expected, description = KINDS[kind]
    try:
        if isinstance(cell, str):
            return _parse_cell(cell.strip(), kind)
        if cell is None or kind == "json" or type(cell) is expected:
            return cell
    except (TypeError, ValueError, DataError) as error:
        reason = str(getattr(error, "message", error))
        if reason:
            description = f"{description}: {reason}"
    raise ValueError(f"{repr(cell)[:80]} is not {description}")


def _parse_cell(text: str, kind: ColumnKind) -> object:
    if not text:
        return None
    value: object = None
    if kind != "int":
        value = parse_literal(text)
    elif INTEGER.fullmatch(text):
        value = int(text)
    if not isinstance(value, KINDS[kind][0]):
        raise ValueError  # noqa: TRY004 - the text is wrong, not its type
    return value


def parse_literal(text: str) -> object:
    """Return the value of a JSON text, of a Python literal, or of a list as NumPy prints it.

    ValueError or DataError for any other text.
    """
    try:
        value = parse_json(text)
    except DataError as error:
        if error.where is None:  # it is JSON, and not valid
            raise
        value = plain(_parse_python(text))
    check_text(value)
    return value


def _parse_python(text: str) -> object:
    if len(text) > LITERAL_LIMIT:
        raise ValueError(f"Python literals are read up to {LITERAL_LIMIT} characters; write JSON")
    quoted = QUOTED.findall(text)
    unquoted = QUOTED.sub('"', text)
    if len(quoted) > 1 and not unquoted.strip('[]" \t\r\n'):
        return list(map(parse_python, quoted))
    # Python would make one text of the two.
    if re.search(r'"\s*"', unquoted):
        raise ValueError("two texts follow each other without a comma between them")
    try:
        value = parse_python(text)
    except ValueError:
        raise ValueError("neither JSON nor a Python literal") from None
    # Python would keep the last value of a key that is given twice.
    for node in ast.walk(parse_syntax(text, "eval")):
        if isinstance(node, ast.Dict):
            refuse_duplicates([(getattr(key, "value", key), None) for key in node.keys])
    return value
