"""One value of a row: what JSON knows, what of it is refused, and text cells typed as `columns:` asks.

`{choices: list, correct_index: int}` types two columns of text. Nothing else ever changes the type of a cell.
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
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Literal

import polars as pl

from answerkey.datasets.content import MAX_CELL, RowErrors
from answerkey.errors import Place

ColumnKind = Literal["text", "int", "float", "bool", "list", "json"]

#: Nesting that templates and readers of the run folder can still walk.
MAX_DEPTH = 100
_SCALARS = frozenset({str, bool, float, int, type(None)})
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_INT = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_JSON_KINDS = {str: "text", bool: "a boolean", int: "a number", float: "a number", list: "a list"}
#: Python literals longer than this are not parsed; JSON has no such limit.
_LITERAL_LIMIT = 100_000
#: Characters of a bad cell that are shown.
_SHOWN = 80


def make_plain(values: Sequence[object]) -> Sequence[object]:
    """Return values as JSON knows them, so that a dataset holds the same whatever it was read from.

    Raises TypeError for one that has no JSON form.
    """
    return values if set(map(type, values)) <= _SCALARS else [plain(value) for value in values]


def plain(value: object) -> object:
    """Return one value as JSON knows it: dates in ISO form, decimals as written, bytes in base64."""
    if type(value) in _SCALARS:
        return value
    match value:
        case Mapping():
            for key in value:
                if not isinstance(key, str):
                    raise TypeError(f"a mapping whose key {key!r} is not text")
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            return str(value)
        case Decimal():  # without places a whole number, else its text: no digit is lost
            return int(value) if value.as_tuple().exponent == 0 else format(value, "f")
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case str():
            return str.__str__(value)
        case int():
            return int(value)
        case float():
            return float(value)
    unwrap = getattr(value, "item", None)
    unwrapped = unwrap() if callable(unwrap) else value
    if type(unwrapped) in _SCALARS:
        return unwrapped
    raise TypeError(f"a value of type {type(value).__name__}")


class BadJsonError(Exception):
    """A JSON text that parses but is refused."""

    def __init__(self, code: str, message: str, hint: str | None = None, key: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.key = code, message, hint, key


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    built = dict(pairs)
    if len(built) == len(pairs):
        return built
    names = [name for name, _ in pairs]
    twice = next(name for name in names if names.count(name) > 1)
    raise BadJsonError("E212", f"key `{twice}` appears twice in one object", "remove one of them")


def _refuse_constant(name: str) -> object:
    raise BadJsonError("E202", f"`{name}` is not a JSON value", "write null for a missing number")


def _refuse_infinite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise BadJsonError("E202", f"the number {text[:40]} is too large")
    return number


#: Reads no key twice, and no number that JSON does not have.
DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant, parse_float=_refuse_infinite
)


def parse_json(text: str) -> object:
    """Return the value of a JSON text; raises JSONDecodeError, or BadJsonError for what is refused."""
    if text.startswith("{"):
        with suppress(StopIteration, ValueError, RecursionError, BadJsonError):  # told in full below
            value, end = DECODER.scan_once(text, 0)  # type: ignore[attr-defined]  # CPython has it
            if end == len(text):
                return value
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


def check_row(value: object, source: str) -> dict[str, object]:
    """Return the row if it is an object that a table can hold; `source` is its JSON text."""
    if not isinstance(value, dict):
        kind = _JSON_KINDS.get(type(value), "null")
        raise BadJsonError("E202", f"the row is {kind}, not an object", 'write `{"column": value, ...}`')
    if len(source) > 2 * MAX_DEPTH and source.count("[") + source.count("{") > MAX_DEPTH:
        depth, level = 0, [value]
        while level := [one for one in level if isinstance(one, dict | list)]:
            depth += 1
            level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
        if depth > MAX_DEPTH:
            raise BadJsonError("E202", f"the row is nested more than {MAX_DEPTH} levels deep")
    if "\\u" in source and _SURROGATE_ESCAPE.search(source):
        for name, cell in value.items():
            if _SURROGATE.search(json.dumps([name, cell], ensure_ascii=False)):
                message = "half of a surrogate pair (`\\ud800` to `\\udfff`) is not a character"
                raise BadJsonError("E203", message, "write both halves, or the character itself", name)
    if len(source) > MAX_CELL:
        for name, cell in value.items():
            if len(json.dumps(cell, ensure_ascii=False)) > MAX_CELL:
                raise BadJsonError("E202", f"the cell has more than {MAX_CELL} characters", None, name)
    return value


class _UnfitError(Exception):
    """A cell that does not have the type asked for; the text says why."""


def type_cells(
    cells: Sequence[object],
    kind: ColumnKind,
    where: Place,
    lines: Sequence[int] | pl.Series,
    errors: RowErrors,
) -> list[object]:
    """Return the typed cells of a column; each distinct text is parsed once.

    A text cell is parsed, an empty one is null (but stays empty text for `text`); a cell that already has the
    type stays as it is. An unfit one is among the errors, and null.
    """
    known: dict[str, object] = {}
    typed: list[object] = []
    with warnings.catch_warnings():
        # A Python literal with a stray backslash makes the compiler warn; the cell keeps the backslash.
        warnings.simplefilter("ignore")
        for position, cell in enumerate(cells):
            try:
                typed.append(_type_cell(cell, kind, known))
            except _UnfitError as error:
                text = repr(cell)
                shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
                message = f"{shown} is not {_WANTED[kind]}{error}"
                errors.add("E211", message, where=replace(where, line=int(lines[position])))
                typed.append(None)
    return typed


def _type_cell(cell: object, kind: ColumnKind, known: dict[str, object]) -> object:
    if isinstance(cell, str):
        if cell not in known:
            is_empty = kind != "text" and not cell.strip()
            known[cell] = None if is_empty else _PARSERS[kind](cell)
        return known[cell]
    if cell is None or kind == "json" or type(cell) is _PYTHON[kind]:
        return cell
    if kind in {"float", "text"} and type(cell) is int:
        return float(cell) if kind == "float" else str(cell)
    raise _UnfitError


def _parse_int(text: str) -> int:
    if not _INT.fullmatch(text.strip()):
        raise _UnfitError
    try:
        return int(text)
    except ValueError:
        raise _UnfitError(": too many digits") from None


def _parse_float(text: str) -> float:
    if not _FLOAT.fullmatch(text.strip()) or abs(number := float(text)) == float("inf"):
        raise _UnfitError
    return number


def _parse_bool(text: str) -> bool:
    try:
        return _BOOLEANS[text.strip().lower()]
    except KeyError:
        raise _UnfitError from None


def _parse_any(text: str) -> object:
    try:
        return _require_characters(text, parse_json(text))
    except json.JSONDecodeError as error:
        raise _UnfitError(f": {error.msg.lower()} at character {error.pos + 1}") from None
    except BadJsonError as error:
        raise _UnfitError(f": {error.message}") from None


def _parse_list(text: str) -> list[object]:
    try:
        value = parse_json(text)
    except json.JSONDecodeError:
        value = _parse_literal(text.strip())
    except BadJsonError as error:
        raise _UnfitError(f": {error.message}") from None
    if not isinstance(value, list):
        raise _UnfitError
    _require_characters(text, value)
    return value


def _require_characters(text: str, value: object) -> object:
    """Return the value if its texts are whole characters; only an escape can smuggle in half of one."""
    if "\\" in text and _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise _UnfitError(": half of a surrogate pair is not a character")
    return value


def _parse_literal(text: str) -> object:
    """Return the value of a Python literal, tuples as lists."""
    if len(text) > _LITERAL_LIMIT:
        raise _UnfitError(f": Python literals are read up to {_LITERAL_LIMIT} characters; write JSON")
    try:
        tree = ast.parse(text, mode="eval")
        value = ast.literal_eval(tree)
        kinds = [token.type for token in tokenize.generate_tokens(io.StringIO(text).readline)]
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, tokenize.TokenError):
        raise _UnfitError(": neither JSON nor a Python literal") from None
    words = [kind for kind in kinds if kind not in {tokenize.NL, tokenize.COMMENT}]
    if (tokenize.STRING, tokenize.STRING) in pairwise(words):  # Python would glue them into one choice
        raise _UnfitError(": two texts follow each other without a comma between them")
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            keys = [ast.dump(key) for key in node.keys if key is not None]
            if len(set(keys)) < len(keys):
                raise _UnfitError(": a key appears twice")
    return _as_json(value)


def _as_json(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_as_json(one) for one in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _as_json(one) for key, one in value.items()}
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise _UnfitError(f": {value!r} has no form in JSON")


_PARSERS: dict[ColumnKind, Callable[[str], object]] = {
    "text": str,
    "int": _parse_int,
    "float": _parse_float,
    "bool": _parse_bool,
    "list": _parse_list,
    "json": _parse_any,
}
_PYTHON: dict[ColumnKind, type] = {"text": str, "int": int, "float": float, "bool": bool, "list": list}
_WANTED: dict[ColumnKind, str] = {
    "text": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "json": "JSON",
}
