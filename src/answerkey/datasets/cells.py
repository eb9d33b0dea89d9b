"""The values of cells: plain values, the parsing of JSON, and columns that a user gives a type.

`columns: {choices: list, correct_index: int}` types cells of text. Nothing else ever changes the
type of a cell.
"""

from __future__ import annotations

import ast
import base64
import datetime as dt
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

from answerkey.errors import DataError, Place, raise_all
from answerkey.text import parse_python, parse_syntax

ColumnKind = Literal["text", "int", "float", "bool", "list", "json"]

#: Nesting that templates and readers of the run folder can still walk.
MAX_DEPTH = 100
#: Lists longer than this are not parsed as Python literals; JSON has no such limit.
LITERAL_LIMIT = 100_000
SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
INTEGER = re.compile(r"[+-]?[0-9]+")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
#: A text in a list that Python or NumPy wrote.
QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
OBJECT_HINT = 'write `{"column": value, ...}` on each line, or name a JSON list `.json`'
#: The type of a declared kind, and what errors call it.
KINDS: dict[ColumnKind, tuple[type, str]] = {
    "text": (str, "text"),
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "bool": (bool, "true or false"),
    "list": (list, "a list"),
    "json": (object, "JSON"),
}


def plain(value: object) -> object:
    """Return a value as JSON knows it: dates in ISO form, decimals as written, NaN as null.

    Bytes are text if they are UTF-8, else base64. TypeError for a value that has no JSON form.
    """
    if value is None or type(value) in {str, bool, int}:
        return value
    for kind, convert in _CONVERTERS:
        if isinstance(value, kind):
            return convert(value)
    unwrap = getattr(value, "tolist", None) or getattr(value, "item", None)
    if callable(unwrap):
        unwrapped = unwrap()
        if type(unwrapped) is not type(value):
            return plain(unwrapped)
    if type(value).__name__ == "NAType":  # the null of pandas
        return None
    raise TypeError(f"a value of type {type(value).__name__}")


def _plain_float(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _plain_list(values: Sequence[object]) -> list[object]:
    return [plain(value) for value in values]


def _plain_mapping(mapping: Mapping[object, object]) -> dict[str, object]:
    converted: dict[str, object] = {}
    for key, value in mapping.items():
        if not isinstance(key, str):
            raise TypeError(f"a mapping whose key {key!r} is not text")
        converted[str(key)] = plain(value)
    return converted


def _plain_date(value: dt.date | dt.time) -> str | None:
    is_missing = value != value  # noqa: PLR0124 - pandas has a time that is none
    return None if is_missing else value.isoformat()


def _plain_decimal(value: Decimal) -> int | str:
    """Return a whole number, or the text of a number with decimal places, so that none is lost."""
    if value.as_tuple().exponent == 0:
        return int(value)
    return format(value, "f")


def _plain_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode("ascii")


_CONVERTERS: tuple[tuple[Any, Callable[[Any], object]], ...] = (
    (float, _plain_float),
    (list | tuple, _plain_list),
    (Mapping, _plain_mapping),
    (str, str.__str__),
    (int, int),
    (dt.date | dt.time, _plain_date),
    (dt.timedelta, str),
    (Decimal, _plain_decimal),
    (bytes, _plain_bytes),
)


# ── JSON


def _refuse_duplicates(pairs: list[tuple[Any, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) == len(pairs):
        return fields
    names = [name for name, _ in pairs]
    repeated = next(name for name in names if names.count(name) > 1)
    message = f"key `{repeated}` appears twice in one object"
    raise DataError("E212", message, hint="remove one of them")


def _refuse_constant(name: str) -> object:
    hint = "write null for a missing number"
    raise DataError("E202", f"`{name}` is not a JSON value", hint=hint)


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise DataError("E202", f"the number {text[:40]} is too large")
    return number


#: Refuses a key that appears twice, and numbers that JSON does not have.
DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates,
    parse_constant=_refuse_constant,
    parse_float=_parse_float,
)


def parse_json(text: str) -> object:
    """Return the value of a JSON text; DataError for one that is not valid."""
    try:
        return DECODER.decode(text)
    except (RecursionError, ValueError) as error:
        raise refuse_json(error) from None


def refuse_json(error: RecursionError | ValueError) -> DataError:
    """Return E202 for an error of the parser; a mistake of syntax has its line and column."""
    if isinstance(error, json.JSONDecodeError):
        message = f"not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        return DataError("E202", message, where=Place(line=error.lineno, column=error.colno))
    if isinstance(error, RecursionError):
        return DataError("E202", f"the row is nested more than {MAX_DEPTH} levels deep")
    return DataError("E202", "a number has too many digits", hint="write it as text")


def check_row(value: object, source: str) -> dict[str, object]:
    """Return the row that a JSON value is, or raise DataError; `source` is its JSON text."""
    if not isinstance(value, dict):
        message = f"the row is {source.strip()[:40]}, not an object"
        raise DataError("E202", message, hint=OBJECT_HINT)
    if source.count("[") + source.count("{") > MAX_DEPTH and _is_deeper(value, MAX_DEPTH):
        raise refuse_json(RecursionError())
    if SURROGATE_ESCAPE.search(source):
        try:
            check_text(value)
        except ValueError as error:
            hint = "write both halves, or the character itself"
            raise DataError("E203", str(error), hint=hint) from None
    return value


def _is_deeper(value: object, levels: int) -> bool:
    """Return whether lists and objects are nested more than so many levels deep."""
    inner: Iterable[object] = ()
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list):
        inner = value
    return levels < 0 or any(_is_deeper(element, levels - 1) for element in inner)


def check_text(value: object) -> None:
    """Raise ValueError for half of a surrogate pair in a value, or a number that JSON lacks."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair is not a character") from None


# ── declared types


def convert_cell(cell: object, kind: ColumnKind) -> object:
    """Return a cell with the declared type; ValueError with what is wrong with it."""
    expected, description = KINDS[kind]
    try:
        if isinstance(cell, str) and kind != "text":
            return _parse_cell(cell.strip(), kind)
        if cell is None or kind == "json" or type(cell) is expected:
            return cell
        if type(cell) is int and kind in {"float", "text"}:
            return expected(cell)
    except (TypeError, ValueError, DataError) as error:
        reason = str(getattr(error, "message", error))
        description = ": ".join(filter(None, [description, reason]))
    raise ValueError(f"{repr(cell)[:80]} is not {description}")


def _parse_cell(text: str, kind: ColumnKind) -> object:
    if not text:
        return None
    if kind == "bool" and text.lower() in BOOLEANS:
        return BOOLEANS[text.lower()]
    if kind == "int" and INTEGER.fullmatch(text):
        return int(text)
    if kind == "float" and NUMBER.fullmatch(text):
        return _parse_float(text)
    if kind in {"list", "json"}:
        value = parse_literal(text)
        if kind == "json" or isinstance(value, list):
            return value
    raise ValueError


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
            _refuse_duplicates([(getattr(key, "value", key), None) for key in node.keys])
    return value


def check_names(names: Sequence[str], where: Place) -> None:
    """Refuse duplicate and empty column names."""
    numbers: dict[str, int] = {}
    errors: list[DataError] = []
    for number, name in enumerate(names, 1):
        first = numbers.setdefault(name, number)
        if not name.strip():
            message = f"column {number} has no name"
            hint = "give the column a name; a table written by pandas needs `index=False`"
            errors.append(DataError("E202", message, where=where, hint=hint))
        elif first != number:
            message = f"column `{name}` appears twice, as column {first} and column {number}"
            hint = "rename or remove one of them"
            errors.append(DataError("E212", message, where=where, hint=hint))
    raise_all(errors)
