"""JSON Lines and JSON: one object per row, no key twice, no number that JSON does not have."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl

from answerkey.datasets.content import Content
from answerkey.datasets.names import check_names
from answerkey.datasets.shapes import Columns, build_frame
from answerkey.datasets.text_rows import MAX_CELL
from answerkey.datasets.troubles import Troubles
from answerkey.errors import DataError, Place

_SPACES = " \t\r\n"
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


@dataclass
class _Rows:
    """Objects gathered column by column, with the line each starts on."""

    content: Content
    columns: dict[str, list[object]] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)

    def add(self, row: dict[str, object], line: int) -> None:
        columns = self.columns
        if row.keys() != columns.keys():
            self._pad(row)
        for name, value in row.items():
            columns[name].append(value)
        self.lines.append(line)

    def _pad(self, row: dict[str, object]) -> None:
        """Make new columns for new keys, and null cells for missing ones."""
        for name in row:
            if name not in self.columns:
                self.columns[name] = [None] * len(self.lines)
        for name in self.columns.keys() - row.keys():
            self.columns[name].append(None)

    def build(self) -> Columns:
        if not self.lines:
            raise DataError("E210", "the file has no rows", where=self.content.place())
        if not self.columns:
            raise DataError("E210", "the rows of the file have no columns", where=self.content.place())
        notices = check_names(list(self.columns), self.content.place())
        frame, encoded = build_frame(self.columns)
        return Columns(frame, pl.Series("line", self.lines, dtype=pl.Int64), encoded, notices)


def read_json_lines(content: Content) -> Columns:
    """Return the columns of a file with one JSON object per line; blank lines are skipped."""
    text = content.text()
    _refuse_list(content, text)
    rows, troubles = _Rows(content), Troubles(content.file)
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip(_SPACES):
            continue
        try:
            row = check_row(parse_json(line), line)
        except json.JSONDecodeError as error:
            where = content.place(number, error.colno)
            troubles.add("E202", _describe(error), where=where, hint=content.guess())
        except BadJsonError as error:
            troubles.add(error.code, error.message, where=error.place(content, number), hint=error.hint)
        else:
            rows.add(row, number)
    troubles.raise_any()
    return rows.build()


def read_json_list(content: Content) -> Columns:
    """Return the columns of a file that is one JSON list of objects; a syntax error ends the reading."""
    rows, troubles = _Rows(content), Troubles(content.file)
    scanner = _ListScanner(content)
    try:
        for source, value in scanner.elements():
            _try_row(rows, troubles, value, source=source, line=scanner.line)
    except json.JSONDecodeError as error:
        where = content.place(error.lineno, error.colno)
        troubles.add("E202", _describe(error), where=where, hint=content.guess())
    except BadJsonError as error:
        troubles.add(error.code, error.message, where=error.place(content, scanner.line), hint=error.hint)
    troubles.raise_any()
    return rows.build()


def _try_row(rows: _Rows, troubles: Troubles, value: object, *, source: str, line: int) -> None:
    try:
        rows.add(check_row(value, source), line)
    except BadJsonError as error:
        troubles.add(error.code, error.message, where=error.place(rows.content, line), hint=error.hint)


class _ListScanner:
    """The elements of a JSON list one by one, so that each has its line; `line` is that of the last one."""

    def __init__(self, content: Content) -> None:
        self.text = content.text()
        self.at = 0
        self.line = 1
        self._skip_space()
        if self.at == len(self.text):
            raise DataError("E210", "the file is empty", where=content.place())
        if not self._take("["):
            raise _not_a_list(content, self.text, self.line)

    def elements(self) -> Iterator[tuple[str, object]]:
        """Yield the source and the value of each element."""
        is_first = True
        while not self._take("]"):
            if not is_first and not self._take(","):
                raise json.JSONDecodeError("Expecting ',' or ']'", self.text, self.at)
            is_first = False
            self._skip_space()
            start, value = self.at, self._decode()
            yield self.text[start : self.at], value
            self.line += self.text.count("\n", start, self.at)
        self._skip_space()
        if self.at != len(self.text):
            raise json.JSONDecodeError("Extra text after the list", self.text, self.at)

    def _decode(self) -> object:
        try:
            value, self.at = DECODER.raw_decode(self.text, self.at)
        except (json.JSONDecodeError, BadJsonError):
            raise
        except (RecursionError, ValueError) as error:
            raise _too_large(error) from None
        return value

    def _take(self, mark: str) -> bool:
        self._skip_space()
        is_there = self.text.startswith(mark, self.at)
        self.at += is_there
        return is_there

    def _skip_space(self) -> None:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] in _SPACES:
            self.at += 1
        self.line += self.text.count("\n", start, self.at)


def parse_json(text: str) -> object:
    """Return the value of a JSON text; raises JSONDecodeError, or BadJsonError for what is refused."""
    try:
        return DECODER.decode(text)
    except (json.JSONDecodeError, BadJsonError):
        raise
    except (RecursionError, ValueError) as error:
        raise _too_large(error) from None


def check_row(value: object, source: str) -> dict[str, object]:
    """Return the row if it is an object that a table can hold; `source` is its JSON text."""
    if not isinstance(value, dict):
        kind = _KINDS.get(type(value), "null")
        raise BadJsonError("E202", f"the row is {kind}, not an object", 'write `{"column": value, ...}`')
    if source.count("[") + source.count("{") > MAX_DEPTH and _measure_depth(value) > MAX_DEPTH:
        raise BadJsonError("E202", f"the row is nested more than {MAX_DEPTH} levels deep")
    if _SURROGATE_ESCAPE.search(source):
        _refuse_surrogates(value)
    if len(source) > MAX_CELL:
        _refuse_huge(value)
    return value


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


def _refuse_list(content: Content, text: str) -> None:
    """Refuse a JSON list under the name of JSON Lines with one error instead of one per line."""
    start = text[:200].lstrip()
    if start.startswith("["):
        hint = "name it `.json`, or write one object per line"
        message = "the file starts with a list, not with an object"
        raise DataError("E202", message, where=content.place(1), hint=hint)


def _not_a_list(content: Content, text: str, line: int) -> DataError:
    hint = "write a list of objects: `[{...}, {...}]`"
    if re.match(r"\s*\{.*\}\s*\n\s*\{", text):
        hint = "this looks like one object per line: name it `.jsonl`"
    return DataError("E202", "the file is not a JSON list of objects", where=content.place(line), hint=hint)


def _too_large(error: RecursionError | ValueError) -> BadJsonError:
    if isinstance(error, RecursionError):
        return BadJsonError("E202", f"the row is nested more than {MAX_DEPTH} levels deep")
    return BadJsonError("E202", "a number has too many digits", "write it as text")


def _describe(error: json.JSONDecodeError) -> str:
    return f"not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}"
