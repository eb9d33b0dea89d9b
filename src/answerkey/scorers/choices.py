"""Choices and ground truths as datasets spell them: lists, JSON text, Python literals, integers."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from answerkey.scorers.characters import LONGEST_CHARACTER, compose, measure_character, strip_white_space
from answerkey.scorers.row_faults import FaultReason, RowFault

#: Longer text in a cell is no list of single characters; parsing it would only cost time.
LONGEST_LIST = 100_000

ADVICE = "only single-character choices are supported here; for longer answers use the scorer `string_equals`"
_LIST_HINT = 'write a list of single characters such as ["A", "B", "C", "D"]'
_SHOWN = 80


@dataclass(frozen=True)
class Choices:
    """The choices of one row, trimmed and in NFC, in their order."""

    names: tuple[str, ...]
    is_trimmed: bool = False


@dataclass(frozen=True)
class Truth:
    """The ground truth of one row, trimmed and in NFC."""

    name: str
    is_trimmed: bool = False


def parse_choices(value: object) -> Choices:
    """Return the choices that a cell or a template yields, or raise `RowFault`."""
    cells = _read_list(value)
    if not cells:
        raise RowFault("BAD_CHOICES", "the list of choices is empty", _LIST_HINT)
    texts = [_read_text(cell, "BAD_CHOICES", "choice") for cell in cells]
    names = tuple(_read_character(text, "BAD_CHOICES", "choice") for text in texts)
    for position, name in enumerate(names):
        if name in names[:position]:
            message = f"choice {name!r} appears twice in {show(list(names))}"
            raise RowFault("BAD_CHOICES", message, "choices must be distinct")
    return Choices(names, any(text != strip_white_space(text) for text in texts))


def parse_truth(value: object) -> Truth:
    """Return the ground truth that a cell or a template yields, or raise `RowFault`."""
    text = _read_text(value, "BAD_TRUTH", "ground truth")
    return Truth(_read_character(text, "BAD_TRUTH", "ground truth"), text != strip_white_space(text))


def check_truth(truth: str, choices: Sequence[str]) -> None:
    """Raise `RowFault` unless the truth is one of the choices."""
    if truth not in choices:
        message = f"ground truth {truth!r} is not among the choices {show(list(choices))}"
        raise RowFault("BAD_TRUTH", message)


def read_options(value: object) -> tuple[str, ...] | None:
    """Return the texts of the choices if the value is a list (or the text of a list), else None."""
    try:
        cells = _read_list(value)
    except RowFault:
        return None
    return tuple("" if cell is None else str(cell) for cell in cells)


def show(value: object) -> str:
    """Return a value as an error shows it, cut when long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _read_list(value: object) -> Sequence[object]:
    if isinstance(value, str):
        value = _parse_text(value)
    if isinstance(value, list | tuple):
        return value
    named = "null" if value is None else f"{show(value)}, not a list"
    raise RowFault("BAD_CHOICES", f"the choices are {named}", _LIST_HINT)


def _parse_text(text: str) -> object:
    """Return what JSON or Python reads in the text; the text itself when neither reads it."""
    if len(text) > LONGEST_LIST:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.literal_eval(strip_white_space(text))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return text


def _read_text(cell: object, reason: FaultReason, noun: str) -> str:
    if isinstance(cell, str):
        return cell
    if cell is None:
        raise RowFault(reason, f"{noun} is null", "every row needs one; fill the cell or filter the row out")
    if isinstance(cell, int) and not isinstance(cell, bool):
        return str(cell)
    message = f"{noun} {show(cell)} is {_name_kind(cell)}, not text or an integer"
    raise RowFault(reason, message, f"write the {noun} as text, for example 'A' or '1'")


def _name_kind(cell: object) -> str:
    if isinstance(cell, bool):
        return "true/false"
    if isinstance(cell, float):
        return "a number with decimals"
    return "a nested value" if isinstance(cell, list | tuple | dict | set) else f"a {type(cell).__name__}"


def _read_character(text: str, reason: FaultReason, noun: str) -> str:
    name = strip_white_space(text)
    if not name:
        raise RowFault(reason, f"{noun} is empty", "every choice is one character, such as 'A'")
    if measure_character(name) != len(name) or len(name) > LONGEST_CHARACTER:
        raise RowFault(reason, f"{noun} {show(name)} has more than one character", ADVICE)
    return compose(name)
