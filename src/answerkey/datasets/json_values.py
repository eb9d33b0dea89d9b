"""One JSON value: no key twice, no number that JSON does not have, nothing that a table cannot hold."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress

from answerkey.datasets.content import MAX_CELL, Content
from answerkey.errors import Place

SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
#: Nesting that templates and readers of the run folder can still walk.
MAX_DEPTH = 100
_KINDS = {str: "text", bool: "a boolean", int: "a number", float: "a number", list: "a list"}


class BadJsonError(Exception):
    """A JSON text that parses but is refused."""

    def __init__(self, code: str, message: str, hint: str | None = None, key: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.key = code, message, hint, key

    def place(self, content: Content, line: int) -> Place:
        """Return the place of the value in a row that starts on this line."""
        return Place(file=content.file, line=line, field=self.key)


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    built = dict(pairs)
    if len(built) == len(pairs):
        return built
    names = [name for name, _ in pairs]
    twice = next(name for name in names if names.count(name) > 1)
    raise BadJsonError("E212", f"key `{twice}` appears twice in one object", "remove one of them")


def _refuse_constant(name: str) -> object:
    raise BadJsonError("E202", f"`{name}` is not a JSON value", "write null for a missing number")


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise BadJsonError("E202", f"the number {text[:40]} is too large")
    return number


DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant, parse_float=_parse_float
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
    except (json.JSONDecodeError, BadJsonError):
        raise
    except (RecursionError, ValueError) as error:
        raise refuse_size(error) from None


def check_row(value: object, source: str) -> dict[str, object]:
    """Return the row if it is an object that a table can hold; `source` is its JSON text."""
    if not isinstance(value, dict):
        kind = _KINDS.get(type(value), "null")
        raise BadJsonError("E202", f"the row is {kind}, not an object", 'write `{"column": value, ...}`')
    if len(source) > 2 * MAX_DEPTH and source.count("[") + source.count("{") > MAX_DEPTH:
        _refuse_depth(value)
    if "\\u" in source and _SURROGATE_ESCAPE.search(source):
        _refuse_surrogates(value)
    if len(source) > MAX_CELL:
        _refuse_huge(value)
    return value


def _refuse_depth(row: dict[str, object]) -> None:
    if _measure_depth(row) > MAX_DEPTH:
        raise BadJsonError("E202", f"the row is nested more than {MAX_DEPTH} levels deep")


def _measure_depth(value: object) -> int:
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


def _refuse_surrogates(row: dict[str, object]) -> None:
    for name, value in row.items():
        if SURROGATE.search(json.dumps([name, value], ensure_ascii=False)):
            message = "half of a surrogate pair (`\\ud800` to `\\udfff`) is not a character"
            raise BadJsonError("E203", message, "write both halves, or the character itself", name)


def _refuse_huge(row: dict[str, object]) -> None:
    for name, value in row.items():
        if len(json.dumps(value, ensure_ascii=False)) > MAX_CELL:
            raise BadJsonError("E202", f"the cell has more than {MAX_CELL} characters", None, name)


def refuse_size(error: RecursionError | ValueError) -> BadJsonError:
    """Return what is wrong with a text that the parser gave up on."""
    if isinstance(error, RecursionError):
        return BadJsonError("E202", f"the row is nested more than {MAX_DEPTH} levels deep")
    return BadJsonError("E202", "a number has too many digits", "write it as text")
