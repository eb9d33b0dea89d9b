"""CSV, TSV, JSON Lines and JSON as rows, read as a stream; each row knows the line it starts on.

A cell of CSV and TSV is always text, and every row has as many cells as the header. A row of JSON is an
object.
"""

from __future__ import annotations

import csv
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import TextIO

from answerkey.datasets.columns import (
    DECODER,
    BadJsonError,
    RowWriter,
    TableBuilder,
    check_names,
    check_row,
    parse_json,
    refuse_size,
)
from answerkey.datasets.content import MAX_CELL, Content, RowErrors
from answerkey.errors import Place
from answerkey.types import Notice

_SEPARATOR_NAMES = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars"}
_SPACES = " \t\r\n"
_SPACE = re.compile(f"[{_SPACES}]*")
_BLOCK = 2**20
#: As much of a text is looked at to tell what it may be.
_SHOWN = 2**20
#: How far from the end of a block a value that goes on in the next one can be mistaken for a broken one.
_EDGE = 16


def read_delimited(
    content: Content,
    table: TableBuilder,
    *,
    separator: str,
    names: tuple[str, ...] | None = None,
    skipped: int = 0,
) -> tuple[Notice, ...]:
    """Hand over the rows of a file with commas or tabs; return what is odd about it.

    `names` are those of a file without a header line. `skipped` rows at its top are passed over first.
    """
    with content.open_text() as stream:
        rows = _iterate_rows(content, stream, separator)
        for _ in range(skipped):
            next(rows, None)
        line, first = next(((line, cells) for line, cells in rows if cells), (1, []))
        if not first:
            raise content.error("E210", "the file is empty", hint=content.guess())
        header = first if names is None else list(names)
        notices = check_names(header, content.place(line))
        if names is not None:
            if first == header:  # its header line would count as a row
                message = "the file has a header line with these names"
                raise content.error("E202", message, line, hint="leave `header` out")
            rows = chain([(line, first)], rows)
        writer: RowWriter[list[str]] = RowWriter(
            table, lambda rows: dict(zip(header, zip(*rows, strict=True), strict=True))
        )
        errors = RowErrors(content.file)
        blank: int | None = None
        is_first = True
        for line, cells in rows:
            if is_first and len(header) == 1:
                _refuse_separator(content, header[0], "".join(cells), separator)
            if not cells:
                blank = line
            elif len(cells) != len(header):
                count = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
                hint = "a cell that holds the separator or a line break must be in double quotes"
                message = f"the row has {count}, the header has {len(header)}"
                errors.add("E202", message, where=content.place(line), hint=hint)
            else:
                if blank is not None and len(header) == 1:  # it may be a skipped line or an empty cell
                    hint = 'write `""` for an empty cell, or remove the line'
                    raise content.error("E202", "blank line in a file of one column", blank, hint=hint)
                writer.add(cells, line, sum(map(len, cells)))
                is_first = False
        errors.raise_any()
        writer.flush()
    return notices


def _iterate_rows(content: Content, stream: TextIO, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line of each row and its cells; a blank line has none."""
    # The limit is the process's; it is only ever raised, so that no other reader is disturbed.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))
    reader = csv.reader(_refuse_nul(content, stream), delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reason = str(error)
            if reason.startswith("unexpected end"):
                message = "a double quote opened in this row is never closed"
            elif reason.startswith("field larger"):
                message = f"a cell of this row has more than {MAX_CELL} characters"
                message += "; is a double quote not closed?"
            else:
                message = f"misplaced double quote: {reason}"
            hint = 'a cell in double quotes ends at the next double quote; one inside it is written `""`'
            raise content.error("E202", message, line, hint=hint) from None
        yield line, cells


def _refuse_nul(content: Content, stream: TextIO) -> Iterator[str]:
    for line in stream:
        if "\0" in line:
            content.check_text()
        yield line


def _refuse_separator(content: Content, header: str, row: str, separator: str) -> None:
    """Refuse a header of one name if it and the first row hold another separator."""
    for other, name in _SEPARATOR_NAMES.items():
        if other in header and other in row:
            message = f"the header is one column {header!r}; the columns seem to be separated by {name}"
            hint = f"separate columns by {_SEPARATOR_NAMES[separator]}, or use the ending that fits"
            raise content.error("E202", message, 1, hint=hint)


def read_paragraphs(content: Content, table: TableBuilder) -> tuple[Notice, ...]:
    """Hand over the original files of LogiQA: the lines between blank ones are a row, on its first line."""
    writer: RowWriter[list[str]] = RowWriter(table, lambda rows: {"lines": rows})
    lines: list[str] = []
    with content.open_text() as stream:
        for number, raw in enumerate(chain(_refuse_nul(content, stream), [""]), 1):
            if raw.strip():
                lines.append(raw.rstrip("\r\n"))
            elif lines:
                writer.add(lines, number - len(lines), sum(map(len, lines)))
                lines = []
    writer.flush()
    return ()


def _arrange_objects(
    names: dict[str, None], rows: Sequence[Mapping[str, object]]
) -> Mapping[str, Sequence[object]]:
    """Return the values of each key, null where it is missing; `names` are all keys seen so far."""
    shapes = dict.fromkeys(map(tuple, rows))
    for shape in shapes:
        names.update(dict.fromkeys(shape))
    if len(shapes) == 1 and len(next(iter(shapes))) == len(names):
        return {name: list(map(itemgetter(name), rows)) for name in names}
    return {name: [row.get(name) for row in rows] for name in names}


class _ObjectWriter:
    """Writes JSON objects as rows; what is wrong with some of them is told together in the end."""

    def __init__(self, content: Content, table: TableBuilder) -> None:
        self.content = content
        self.errors = RowErrors(content.file)
        self.names: dict[str, None] = {}
        self.writer: RowWriter[dict[str, object]] = RowWriter(table, partial(_arrange_objects, self.names))
        self.is_empty = True

    def add(self, value: object, source: str, line: int) -> None:
        try:
            row = check_row(value, source)
        except BadJsonError as error:
            self.refuse(error, line)
        else:
            self.writer.add(row, line, len(source))
            self.is_empty = False

    def refuse(self, error: BadJsonError, line: int) -> None:
        where = Place(file=self.content.file, line=line, field=error.key)
        self.errors.add(error.code, error.message, where=where, hint=error.hint)

    def refuse_syntax(self, message: str, line: int, column: int) -> None:
        text = f"not valid JSON: {message[:1].lower()}{message[1:]}"
        self.errors.add("E202", text, where=self.content.place(line, column), hint=self.content.guess())

    def finish(self) -> tuple[Notice, ...]:
        self.errors.raise_any()
        self.writer.flush()
        if self.is_empty:
            raise self.content.error("E210", "the file has no rows")
        if not self.names:
            raise self.content.error("E210", "the rows of the file have no columns")
        return check_names(list(self.names), self.content.place())


def read_json_lines(content: Content, table: TableBuilder) -> tuple[Notice, ...]:
    """Hand over the rows of a file with one JSON object per line; return what is odd about it."""
    writer = _ObjectWriter(content, table)
    is_first = True
    with content.open_text("\n") as stream:
        for number, raw in enumerate(stream, 1):
            if not raw.strip(_SPACES):
                continue
            if is_first and raw.lstrip().startswith("["):  # one error instead of one per line
                message = "the file starts with a list, not with an object"
                hint = "name it `.json`, or write one object per line"
                raise content.error("E202", message, 1, hint=hint)
            is_first = False
            line = raw.removesuffix("\n")
            try:
                value = parse_json(line)
            except json.JSONDecodeError as error:
                writer.refuse_syntax(error.msg, number, error.colno)
            except BadJsonError as error:
                writer.refuse(error, number)
            else:
                writer.add(value, line, number)
    return writer.finish()


def read_json_list(content: Content, table: TableBuilder) -> tuple[Notice, ...]:
    """Hand over the rows of a file that is one JSON list of objects; a syntax error ends the reading."""
    writer = _ObjectWriter(content, table)
    with content.open_text() as stream:
        rows = _JsonList(content, stream)
        try:
            for source, value in rows.elements():
                writer.add(value, source, rows.line)
        except _SyntaxError as error:
            writer.refuse_syntax(*error.args)
        except BadJsonError as error:
            writer.refuse(error, rows.line)
    return writer.finish()


class _SyntaxError(Exception):
    """Where a JSON list breaks off: message, line and column."""


class JsonWindow(ABC):
    """A JSON text that is read value by value; only a window of it is in memory, which grows with a value.

    `at` is a place in the window, `line` its line.
    """

    def __init__(self, stream: TextIO, decoder: json.JSONDecoder, block: int) -> None:
        self.text, self.at, self.line = "", 0, 1
        self._stream, self._decoder, self._block = stream, decoder, block

    def peek(self) -> str:
        """Go to the next character that is no white space, and return it; "" at the end."""
        while True:
            found = _SPACE.match(self.text, self.at)
            end = found.end() if found else self.at
            self.line += self.text.count("\n", self.at, end)
            self.at = end
            if end < len(self.text):
                return self.text[end]
            if not self.read_on():
                return ""

    def take(self, mark: str) -> bool:
        """Return whether a mark comes next, and go behind it."""
        is_there = self.peek() == mark
        self.at += is_there
        return is_there

    def decode(self) -> tuple[object, int]:
        """Return the value that starts here, and where it ends; raises what `fail` returns."""
        while True:
            try:
                value, end = self._decoder.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or error.pos > len(self.text) - _EDGE
                if not is_cut or not self.read_on():
                    raise self.fail(error.msg, error.pos) from None
            else:
                # A number goes on in the next block, maybe: `1` and `.5`, or `1e-` and `5`.
                is_whole = self.text[end - 1] in '}]"' or end <= len(self.text) - _EDGE
                if is_whole or not self.read_on():
                    return value, end

    def read_on(self) -> bool:
        """Let go of what has been read and add to the window; return whether there was more."""
        more = self._stream.read(max(self._block, len(self.text) - self.at))
        if more:
            self.text, self.at = self.text[self.at :] + more, 0
        return bool(more)

    @abstractmethod
    def fail(self, message: str, position: int) -> Exception:
        """Return the error about a text that breaks off."""


class _JsonList(JsonWindow):
    """The elements of a JSON list one by one, so that each has its line."""

    def __init__(self, content: Content, stream: TextIO) -> None:
        super().__init__(stream, DECODER, _BLOCK)
        self._lines_before, self._columns_before = 0, 0
        if not self.peek():
            raise content.error("E210", "the file is empty")
        if not self.take("["):
            hint = "write a list of objects: `[{...}, {...}]`"
            if re.match(r"\s*\{.*\}\s*\n\s*\{", self.text + stream.read(_SHOWN)):
                hint = "this looks like one object per line: name it `.jsonl`"
            raise content.error("E202", "the file is not a JSON list of objects", self.line, hint=hint)

    def elements(self) -> Iterator[tuple[str, object]]:
        """Yield the source and the value of each element; `line` is that on which it starts."""
        is_first = True
        while not self.take("]"):
            if not is_first and not self.take(","):
                raise self.fail("Expecting ',' or ']'", self.at)
            is_first = False
            self.peek()
            try:
                value, end = self.decode()
            except (RecursionError, ValueError) as error:
                raise refuse_size(error) from None
            source = self.text[self.at : end]
            yield source, value
            self.line += source.count("\n")
            self.at = end
        if self.peek():
            raise self.fail("Extra text after the list", self.at)

    def read_on(self) -> bool:
        """Add to the window, and remember what was before it."""
        before = self._locate(self.at)
        is_more = super().read_on()
        if is_more:
            self._lines_before, self._columns_before = before
        return is_more

    def _locate(self, position: int) -> tuple[int, int]:
        """Return how many lines end before a position, and how many characters its line has before it."""
        lines = self.text.count("\n", 0, position)
        start = self.text.rfind("\n", 0, position)
        columns = position - start - 1 + (0 if lines else self._columns_before)
        return self._lines_before + lines, columns

    def fail(self, message: str, position: int) -> _SyntaxError:
        """Return the error, with line and column."""
        lines, columns = self._locate(position)
        return _SyntaxError(message, lines + 1, columns + 1)
