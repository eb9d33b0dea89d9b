"""The values of cells: plain values, the parsing of JSON, and columns that a user gives a type.

`columns: {choices: list, correct_index: int}` types cells of text. Nothing else ever changes the
type of a cell.
"""

from __future__ import annotations

import ast
import base64
import datetime as dt
import io
import json
import math
import re
import tokenize
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Literal

from answerkey.errors import DataError, Place, listing, raise_all
from answerkey.text import parse_python, parse_syntax
from answerkey.types import Notice

ColumnKind = Literal["text", "int", "float", "bool", "list", "json"]

#: Nesting that templates and readers of the run folder can still walk.
MAX_DEPTH = 100
#: Python literals longer than this are not parsed; JSON has no such limit.
LITERAL_LIMIT = 100_000
#: Characters of a bad cell that an error shows.
SHOWN_CHARACTERS = 80
SCALARS = frozenset({str, bool, float, int, type(None)})
SURROGATE = re.compile("[\ud800-\udfff]")
SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
INTEGER = re.compile(r"[+-]?[0-9]+")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
JSON_KINDS = {str: "text", bool: "a boolean", int: "a number", float: "a number", list: "a list"}
KIND_TYPES: dict[ColumnKind, type] = {
    "text": str,
    "int": int,
    "float": float,
    "bool": bool,
    "list": list,
    "json": object,
}
KIND_NAMES: dict[ColumnKind, str] = {
    "text": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "json": "JSON",
}


def plain(value: object) -> object:
    """Return a value as JSON knows it: dates in ISO form, decimals as written, bytes in base64.

    Raises TypeError for a value that has no JSON form.
    """
    if type(value) in SCALARS:
        return value
    match value:
        case Mapping():
            return _plain_mapping(value)
        case list() | tuple():
            return [plain(element) for element in value]
        case dt.date() | dt.time():
            return _plain_date(value)
        case dt.timedelta():
            return str(value)
        case Decimal():
            return _plain_decimal(value)
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case str() | int() | float():
            return _plain_scalar(value)
    return _plain_array(value)


def _plain_scalar(value: float | str) -> float | str:
    """Return a value of a subclass, such as an enumeration, as its plain value."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    return float(value)


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


def _plain_array(value: object) -> object:
    """Return the plain form of an array, of its scalars, or of the null of pandas."""
    unwrap = getattr(value, "tolist", None) or getattr(value, "item", None)
    if callable(unwrap):
        unwrapped = unwrap()
        if type(unwrapped) in SCALARS:
            return unwrapped
        if isinstance(unwrapped, list):
            return [plain(element) for element in unwrapped]
    if type(value).__name__ == "NAType":
        return None
    raise TypeError(f"a value of type {type(value).__name__}")


@dataclass(eq=False)
class BadJsonError(Exception):
    """A JSON text that is refused. `key` is of its object; a syntax error has line and column."""

    code: str
    message: str
    hint: str | None = None
    key: str | None = None
    line: int | None = None
    column: int | None = None


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) == len(pairs):
        return fields
    names = [name for name, _ in pairs]
    repeated = next(name for name in names if names.count(name) > 1)
    message = f"key `{repeated}` appears twice in one object"
    raise BadJsonError("E212", message, "remove one of them")


def _refuse_constant(name: str) -> object:
    raise BadJsonError("E202", f"`{name}` is not a JSON value", "write null for a missing number")


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise BadJsonError("E202", f"the number {text[:40]} is too large")
    return number


#: Refuses a key that appears twice, and numbers that JSON does not have.
DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates,
    parse_constant=_refuse_constant,
    parse_float=_parse_float,
)


def parse_json(text: str) -> object:
    """Return the value of a JSON text, or raise JSONDecodeError or BadJsonError."""
    try:
        return DECODER.decode(text)
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError) as error:
        raise refuse_size(error) from None


def refuse_size(error: RecursionError | ValueError) -> BadJsonError:
    """Return what is wrong with a text that the parser gave up on."""
    if isinstance(error, RecursionError):
        return BadJsonError("E202", f"the row is nested more than {MAX_DEPTH} levels deep")
    return BadJsonError("E202", "a number has too many digits", "write it as text")


def check_object(value: object, source: str) -> dict[str, object]:
    """Return the row that a JSON value is, or raise BadJsonError; `source` is its JSON text."""
    if not isinstance(value, dict):
        kind = JSON_KINDS.get(type(value), "null")
        hint = 'write `{"column": value, ...}`'
        raise BadJsonError("E202", f"the row is {kind}, not an object", hint)
    brackets = source.count("[") + source.count("{")
    if brackets > MAX_DEPTH:
        _refuse_deep_nesting(value)
    if "\\u" in source and SURROGATE_ESCAPE.search(source):
        _refuse_surrogates(value)
    return value


def _refuse_deep_nesting(value: object) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        inner: list[object] = []
        for element in level:
            if isinstance(element, dict):
                inner += element.values()
            elif isinstance(element, list):
                inner += element
        level = inner
    if level:
        raise refuse_size(RecursionError())


def _refuse_surrogates(fields: Mapping[str, object]) -> None:
    for name, cell in fields.items():
        if has_surrogate([name, cell]):
            message = "half of a surrogate pair (`\\ud800` to `\\udfff`) is not a character"
            raise BadJsonError(
                "E203",
                message,
                "write both halves, or the character itself",
                name,
            )


def has_surrogate(value: object) -> bool:
    """Return whether a text within a value holds half of a surrogate pair."""
    return SURROGATE.search(json.dumps(value, ensure_ascii=False)) is not None


class UnfitCellError(Exception):
    """A cell that does not have the declared type; the text says why, if there is more to say."""


def convert_cell(cell: object, kind: ColumnKind) -> object:
    """Return a cell with the declared type; raises UnfitCellError with what is wrong with it."""
    if isinstance(cell, str):
        return _parse_cell(cell, kind)
    if cell is None or kind == "json" or type(cell) is KIND_TYPES[kind]:
        return cell
    if kind == "float" and type(cell) is int:
        return float(cell)
    if kind == "text" and type(cell) is int:
        return str(cell)
    raise UnfitCellError


def describe_unfit(cell: object, kind: ColumnKind, error: UnfitCellError) -> str:
    """Return the message about a cell that does not have the declared type."""
    shown = repr(cell)
    if len(shown) > SHOWN_CHARACTERS:
        shown = f"{shown[:SHOWN_CHARACTERS]}..."
    return f"{shown} is not {KIND_NAMES[kind]}{error}"


def _parse_cell(cell: str, kind: ColumnKind) -> object:
    text = cell.strip()
    if kind == "text":
        return cell
    if not text:
        return None
    match kind:
        case "bool" if text.lower() in BOOLEANS:
            return BOOLEANS[text.lower()]
        case "float" if NUMBER.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
        case "int" if INTEGER.fullmatch(text):
            return _parse_integer(text)
        case "list":
            return _parse_list(cell)
        case "json":
            return _parse_json_cell(cell)
    raise UnfitCellError


def _parse_integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UnfitCellError(": too many digits") from None


def _parse_json_cell(cell: str) -> object:
    try:
        value = parse_json(cell)
    except BadJsonError as error:
        raise UnfitCellError(f": {error.message}") from None
    except json.JSONDecodeError as error:
        message = f": {error.msg.lower()} at character {error.pos + 1}"
        raise UnfitCellError(message) from None
    return _without_surrogates(value, cell)


def _parse_list(cell: str) -> object:
    """Return the list that a cell holds as JSON or as a Python literal."""
    try:
        value = parse_json(cell)
    except BadJsonError as error:
        raise UnfitCellError(f": {error.message}") from None
    except json.JSONDecodeError:
        value = _parse_literal(cell.strip())
    if not isinstance(value, list):
        raise UnfitCellError
    return _without_surrogates(value, cell)


def _without_surrogates(value: object, cell: str) -> object:
    # Only an escape can smuggle in half of a character.
    if "\\" in cell and has_surrogate(value):
        raise UnfitCellError(": half of a surrogate pair is not a character")
    return value


def _parse_literal(text: str) -> object:
    """Return the value of a Python literal, tuples as lists."""
    if len(text) > LITERAL_LIMIT:
        message = f": Python literals are read up to {LITERAL_LIMIT} characters; write JSON"
        raise UnfitCellError(message)
    try:
        value = parse_python(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (ValueError, SyntaxError, tokenize.TokenError):
        raise UnfitCellError(": neither JSON nor a Python literal") from None
    _refuse_joined_texts(tokens)
    _refuse_repeated_keys(text)
    try:
        return parse_json(json.dumps(value, allow_nan=False))
    except BadJsonError as error:
        raise UnfitCellError(f": {error.message}") from None
    except (TypeError, ValueError):
        raise UnfitCellError(": it holds a value that has no form in JSON") from None


def _refuse_joined_texts(tokens: Sequence[tokenize.TokenInfo]) -> None:
    """Refuse two texts without a comma between them: Python would make one choice of them."""
    blanks = {tokenize.NL, tokenize.COMMENT}
    kinds = [token.type for token in tokens if token.type not in blanks]
    if (tokenize.STRING, tokenize.STRING) in pairwise(kinds):
        raise UnfitCellError(": two texts follow each other without a comma between them")


def _refuse_repeated_keys(text: str) -> None:
    """Refuse a mapping that gives a key twice: Python would keep the last value in silence."""
    for node in ast.walk(parse_syntax(text, "eval")):
        if not isinstance(node, ast.Dict):
            continue
        keys = [ast.literal_eval(key) for key in node.keys if key is not None]
        for key, count in Counter(keys).items():
            if count > 1:
                raise UnfitCellError(f": key `{key}` appears twice in one object")


def check_names(names: Sequence[str], where: Place) -> list[Notice]:
    """Refuse duplicate and empty column names; notice those with white space around them."""
    first: dict[str, int] = {}
    errors: list[DataError] = []
    for number, name in enumerate(names, 1):
        if not name.strip():
            message = f"column {number} has no name"
            hint = "give the column a name; a table written by pandas needs `index=False`"
            errors.append(DataError("E202", message, where=where, hint=hint))
        elif name in first:
            message = f"column `{name}` appears twice, as column {first[name]} and column {number}"
            hint = "rename or remove one of them"
            errors.append(DataError("E212", message, where=where, hint=hint))
        first.setdefault(name, number)
    raise_all(errors)
    spaced = [repr(name) for name in names if name != name.strip()]
    if not spaced:
        return []
    message = f"white space around column names is part of the name: {listing(spaced)}"
    hint = "remove it, or write `sample[' name']` in templates"
    return [Notice(message, where=where, hint=hint)]
