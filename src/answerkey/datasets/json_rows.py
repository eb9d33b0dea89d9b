"""JSON Lines and JSON: one object per row, read as a stream."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TextIO

from answerkey.datasets.content import Content
from answerkey.datasets.gathering import CHUNK_CHARACTERS, CHUNK_ROWS, Chunk, Gatherer
from answerkey.datasets.json_values import DECODER, BadJsonError, check_row, parse_json, refuse_size
from answerkey.datasets.names import check_names
from answerkey.datasets.troubles import Troubles
from answerkey.errors import DataError
from answerkey.types import Notice

_SPACES = " \t\r\n"
_SPACE = re.compile(f"[{_SPACES}]*")
_BLOCK = 2**20
#: As much of a text is looked at to tell what it may be.
_SHOWN = 2**20
#: How far from the end of a block a value that goes on in the next one can be mistaken for a broken one.
_EDGE = 16


@dataclass
class _Rows:
    """Objects gathered into chunks, with the line each starts on; `names` are all keys seen so far."""

    gatherer: Gatherer
    names: dict[str, None] = field(default_factory=dict)
    rows: list[dict[str, object]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    characters: int = 0
    count: int = 0

    def add(self, row: dict[str, object], source: str, line: int) -> None:
        self.rows.append(row)
        self.lines.append(line)
        self.characters += len(source)
        if len(self.rows) >= CHUNK_ROWS or self.characters >= CHUNK_CHARACTERS:
            self._flush()

    def _flush(self) -> None:
        shapes = dict.fromkeys(map(tuple, self.rows))
        for shape in shapes:
            self.names.update(dict.fromkeys(shape))
        is_regular = len(shapes) == 1 and len(next(iter(shapes))) == len(self.names)
        columns = {name: self._take(name, is_regular=is_regular) for name in self.names}
        self.gatherer.add(Chunk(columns, self.lines))
        self.count += len(self.rows)
        self.rows, self.lines, self.characters = [], [], 0

    def _take(self, name: str, *, is_regular: bool) -> list[object]:
        """Return the values of one key; null where it is missing."""
        if is_regular:
            return list(map(itemgetter(name), self.rows))
        return [row.get(name) for row in self.rows]

    def finish(self, content: Content) -> tuple[Notice, ...]:
        self._flush()
        if not self.count:
            raise DataError("E210", "the file has no rows", where=content.place())
        if not self.names:
            raise DataError("E210", "the rows of the file have no columns", where=content.place())
        return check_names(list(self.names), content.place())


def read_json_lines(content: Content, gatherer: Gatherer) -> tuple[Notice, ...]:
    """Hand over the rows of a file with one JSON object per line; return what is odd about it."""
    rows, troubles = _Rows(gatherer), Troubles(content.file)
    for number, line in _iterate_lines(content):
        try:
            row = check_row(parse_json(line), line)
        except json.JSONDecodeError as error:
            where = content.place(number, error.colno)
            troubles.add("E202", _describe(error.msg), where=where, hint=content.guess())
        except BadJsonError as error:
            troubles.add(error.code, error.message, where=error.place(content, number), hint=error.hint)
        else:
            rows.add(row, line, number)
    troubles.raise_any()
    return rows.finish(content)


def _iterate_lines(content: Content) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, each with its number."""
    is_first = True
    with content.open_text("\n") as stream:
        for number, line in enumerate(stream, 1):
            if line.strip(_SPACES):
                if is_first:
                    _refuse_list(content, line)
                    is_first = False
                yield number, line.removesuffix("\n")


def _refuse_list(content: Content, line: str) -> None:
    """Refuse a JSON list under the name of JSON Lines with one error instead of one per line."""
    if line.lstrip().startswith("["):
        hint = "name it `.json`, or write one object per line"
        message = "the file starts with a list, not with an object"
        raise DataError("E202", message, where=content.place(1), hint=hint)


def read_json_list(content: Content, gatherer: Gatherer) -> tuple[Notice, ...]:
    """Hand over the rows of a file that is one JSON list of objects; a syntax error ends the reading."""
    rows, troubles = _Rows(gatherer), Troubles(content.file)
    with content.open_text() as stream:
        scanner = _ListScanner(content, stream)
        try:
            for source, value in scanner.elements():
                _try_row(rows, troubles, value, source=source, content=content, line=scanner.line)
        except _SyntaxTrouble as error:
            where = content.place(error.line, error.column)
            troubles.add("E202", _describe(error.message), where=where, hint=content.guess())
        except BadJsonError as error:
            troubles.add(error.code, error.message, where=error.place(content, scanner.line), hint=error.hint)
    troubles.raise_any()
    return rows.finish(content)


def _try_row(
    rows: _Rows, troubles: Troubles, value: object, *, source: str, content: Content, line: int
) -> None:
    try:
        row = check_row(value, source)
    except BadJsonError as error:
        troubles.add(error.code, error.message, where=error.place(content, line), hint=error.hint)
    else:
        rows.add(row, source, line)


class _SyntaxTrouble(Exception):  # noqa: N818 - it becomes an error with a code
    """Where a JSON list breaks off."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


class _ListScanner:
    """The elements of a JSON list one by one, so that each has its line; `line` is that of the last one.

    Of the text only a window is in memory, which grows when an element does not fit.
    """

    def __init__(self, content: Content, stream: TextIO) -> None:
        self.stream = stream
        self.text = ""
        self.at = 0
        self.line = 1
        self._lines_before, self._columns_before = 0, 0
        self._skip_space()
        if self.at == len(self.text):
            raise DataError("E210", "the file is empty", where=content.place())
        if not self._take("["):
            raise _not_a_list(content, self.text + stream.read(_SHOWN), self.line)

    def elements(self) -> Iterator[tuple[str, object]]:
        """Yield the source and the value of each element."""
        is_first = True
        while not self._take("]"):
            if not is_first and not self._take(","):
                raise self._fail("Expecting ',' or ']'", self.at)
            is_first = False
            self._skip_space()
            value, end = self._decode()
            source = self.text[self.at : end]
            yield source, value
            self.line += source.count("\n")
            self.at = end
        self._skip_space()
        if self.at != len(self.text):
            raise self._fail("Extra text after the list", self.at)

    def _decode(self) -> tuple[object, int]:
        """Return the value that starts here, and where it ends."""
        while True:
            try:
                value, end = DECODER.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or error.pos > len(self.text) - _EDGE
                if not is_cut or not self._read_on():
                    raise self._fail(error.msg, error.pos) from None
            except BadJsonError:
                raise
            except (RecursionError, ValueError) as error:
                raise refuse_size(error) from None
            else:
                # A number goes on in the next block, maybe.
                if end < len(self.text) or self.text[end - 1] in '}]"' or not self._read_on():
                    return value, end

    def _read_on(self) -> bool:
        """Let go of what has been read and add to the window; return whether there was more."""
        more = self.stream.read(max(_BLOCK, len(self.text) - self.at))
        if more:
            self._lines_before, self._columns_before = self._locate(self.at)
            self.text, self.at = self.text[self.at :] + more, 0
        return bool(more)

    def _locate(self, position: int) -> tuple[int, int]:
        """Return how many lines end before a position, and how many characters its line has before it."""
        lines = self.text.count("\n", 0, position)
        start = self.text.rfind("\n", 0, position)
        columns = position - start - 1 + (0 if lines else self._columns_before)
        return self._lines_before + lines, columns

    def _fail(self, message: str, position: int) -> _SyntaxTrouble:
        lines, columns = self._locate(position)
        return _SyntaxTrouble(message, lines + 1, columns + 1)

    def _take(self, mark: str) -> bool:
        self._skip_space()
        is_there = self.text.startswith(mark, self.at)
        self.at += is_there
        return is_there

    def _skip_space(self) -> None:
        while True:
            found = _SPACE.match(self.text, self.at)
            end = found.end() if found else self.at
            self.line += self.text.count("\n", self.at, end)
            self.at = end
            if end < len(self.text) or not self._read_on():
                return


def _not_a_list(content: Content, text: str, line: int) -> DataError:
    hint = "write a list of objects: `[{...}, {...}]`"
    if re.match(r"\s*\{.*\}\s*\n\s*\{", text):
        hint = "this looks like one object per line: name it `.jsonl`"
    return DataError("E202", "the file is not a JSON list of objects", where=content.place(line), hint=hint)


def _describe(message: str) -> str:
    return f"not valid JSON: {message[:1].lower()}{message[1:]}"
