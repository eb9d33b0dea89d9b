"""Typing cells as a dataset's `columns:` asks: `{choices: list, correct_index: int}`."""

from __future__ import annotations

import ast
import io
import json
import math
import re
import tokenize
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import polars as pl

from answerkey.datasets.json_values import SURROGATE, BadJsonError, parse_json
from answerkey.datasets.shapes import Columns, build_column
from answerkey.datasets.troubles import Troubles
from answerkey.errors import DataError, Place, listing, suggest

ColumnKind = Literal["text", "int", "float", "bool", "list", "json"]

_INT = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
#: Python literals longer than this are not parsed; JSON has no such limit.
_LITERAL_LIMIT = 100_000
#: Characters of a bad cell that are shown.
_SHOWN = 80


class _UnfitError(Exception):
    """A cell that does not have the type asked for; the text says why."""


def type_columns(columns: Columns, kinds: Mapping[str, ColumnKind], file: str | None) -> Columns:
    """Return the columns with those in `kinds` typed; all unfit cells are reported together."""
    require_columns(kinds, columns.frame.columns, file)
    troubles = Troubles(file)
    frame, encoded = columns.frame, set(columns.encoded)
    for name, kind in kinds.items():
        cells: list[object] = frame[name].to_list()
        if name in encoded:
            cells = [None if cell is None else json.loads(str(cell)) for cell in cells]
        values = type_cells(cells, kind, Place(file=file, field=name), columns.lines, troubles)
        series, is_encoded = build_column(name, values)
        frame = frame.with_columns(series)
        encoded = encoded | {name} if is_encoded else encoded - {name}
    troubles.raise_any()
    return replace(columns, frame=frame, encoded=frozenset(encoded))


def require_columns(kinds: Mapping[str, ColumnKind], names: list[str], file: str | None) -> None:
    """Raise E206 for the first column that is to be typed and is not there."""
    for name in kinds:
        if name not in names:
            message = f"`columns` types `{name}`, which is not a column"
            hint = suggest(name, names) or f"columns: {listing(names)}"
            raise DataError("E206", message, where=Place(file=file, field=name), hint=hint)


def type_cells(
    cells: Sequence[object],
    kind: ColumnKind,
    where: Place,
    lines: Sequence[int] | pl.Series,
    troubles: Troubles,
) -> list[object]:
    """Return the typed cells of a column; each distinct text is parsed once.

    A text cell is parsed, an empty one is null (but stays empty text for `text`); a cell that already has the
    type stays as it is. An unfit one is among the troubles, and null.
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
                message = f"{_shorten(cell)} is not {_WANTED[kind]}{error}"
                troubles.add("E211", message, where=replace(where, line=int(lines[position])))
                typed.append(None)
    return typed


def _type_cell(cell: object, kind: ColumnKind, known: dict[str, object]) -> object:
    if cell is None:
        return None
    if not isinstance(cell, str):
        return _keep(cell, kind)
    if cell not in known:
        is_empty = kind != "text" and not cell.strip()
        known[cell] = None if is_empty else _PARSERS[kind](cell)
    return known[cell]


def _keep(cell: object, kind: ColumnKind) -> object:
    """Return a cell that is no text if it has the type already."""
    if kind == "json" or type(cell) is _PYTHON[kind]:
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
        return _WORDS[text.strip().lower()]
    except KeyError:
        raise _UnfitError from None


def _parse_any(text: str) -> object:
    try:
        return _check_text(text, _load(text))
    except json.JSONDecodeError as error:
        raise _UnfitError(f": {error.msg.lower()} at character {error.pos + 1}") from None


def _parse_list(text: str) -> list[object]:
    try:
        value = _load(text)
    except json.JSONDecodeError:
        value = _parse_literal(text.strip())
    if not isinstance(value, list):
        raise _UnfitError
    _check_text(text, value)
    return value


def _load(text: str) -> object:
    try:
        return parse_json(text)
    except BadJsonError as error:
        raise _UnfitError(f": {error.message}") from None


def _check_text(text: str, value: object) -> object:
    """Return the value if its texts are whole characters; only an escape can smuggle in half of one."""
    if "\\" in text and SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise _UnfitError(": half of a surrogate pair is not a character")
    return value


def _parse_literal(text: str) -> object:
    """Return the value of a Python literal, tuples as lists."""
    if len(text) > _LITERAL_LIMIT:
        raise _UnfitError(f": Python literals are read up to {_LITERAL_LIMIT} characters; write JSON")
    try:
        tree = ast.parse(text, mode="eval")
        value = ast.literal_eval(tree)
        has_gap = _lacks_comma(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, tokenize.TokenError):
        raise _UnfitError(": neither JSON nor a Python literal") from None
    if has_gap:
        raise _UnfitError(": two texts follow each other without a comma between them")
    if _repeats_key(tree):
        raise _UnfitError(": a key appears twice")
    return _as_json(value)


def _repeats_key(tree: ast.AST) -> bool:
    dicts = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    keys = [[ast.dump(key) for key in node.keys if key is not None] for node in dicts]
    return any(len(set(names)) < len(names) for names in keys)


def _lacks_comma(text: str) -> bool:
    """Return whether two string literals stand side by side; Python would glue them into one choice."""
    kinds = [token.type for token in tokenize.generate_tokens(io.StringIO(text).readline)]
    words = [kind for kind in kinds if kind not in {tokenize.NL, tokenize.COMMENT}]
    return any(pair == (tokenize.STRING, tokenize.STRING) for pair in pairwise(words))


def _as_json(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_as_json(one) for one in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _as_json(one) for key, one in value.items()}
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise _UnfitError(f": {value!r} has no form in JSON")


def _shorten(cell: object) -> str:
    text = repr(cell)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


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
