"""The formats of data files: CSV, TSV, JSON Lines, JSON, paragraphs, Parquet and Arrow as chunks of rows.

A reader yields the rows of a content in their order, each with the line it starts on (in Parquet and Arrow
its number), and adds to `notices` what is odd about the file. A cell of CSV and TSV is always text, and every
row has as many cells as the header. A row of JSON is an object. A format is told by the ending of the name,
or stated; of the content, only what separates the cells of CSV and TSV is read off.
"""

from __future__ import annotations

import csv
import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import itemgetter
from os.path import relpath
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Generic, Literal, TextIO, TypeVar

import polars as pl

from answerkey.datasets.blocks import (
    DelimitedBlocks,
    JsonBlocks,
    cut_blocks,
    join_chunks,
    work_ahead,
)
from answerkey.datasets.columns import (
    DECODER,
    BadJsonError,
    Cells,
    Chunk,
    check_names,
    check_row,
    find_cast,
    make_plain,
    parse_json,
    refuse_size,
)
from answerkey.datasets.content import (
    COMPRESSIONS,
    FOREIGN,
    UTF8_MARK,
    Content,
    RowErrors,
    describe_long,
    find_cell_limit,
    find_line_limit,
    iterate_lines,
    open_blocks,
)
from answerkey.errors import DataError, Place
from answerkey.types import Notice

Row = TypeVar("Row")
#: A chunk ends after so many rows, or so many characters.
CHUNK_ROWS = 32_768
CHUNK_CHARACTERS = 16 * 2**20
#: What a first column without a name is called.
UNNAMED = "column_1"
#: So many lines are looked at to find two that are not blank.
_LOOKED_AT = 20
_ROWS_HINT = "is this the right file, and was it written to its end?"
_QUOTE_HINT = 'a cell in double quotes ends at the next double quote; one inside it is written `""`'
_SPACES = " \t\r\n"
_SPACE = re.compile(f"[{_SPACES}]*")
_BLOCK = 2**20
#: As much of a text is looked at to tell what it may be.
_SHOWN = 2**20
#: How far from the end of a block a value that goes on in the next one can be mistaken for a broken one.
_EDGE = 16
#: Begins each message of an Arrow stream; before a length of zero it ends the stream. Without that end mark a
#: stream that was cut between two batches would look whole.
_MESSAGE = b"\xff\xff\xff\xff"
_END_OF_STREAM = _MESSAGE + b"\x00\x00\x00\x00"


@dataclass(slots=True)
class Buffer(Generic[Row]):
    """Rows until they are a chunk, so that no file is held as Python objects as a whole.

    `arrange` makes columns of rows.
    """

    arrange: Callable[[list[Row]], Mapping[str, Cells]]
    rows: list[Row] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    characters: int = 0

    def add(self, row: Row, line: int, characters: int) -> bool:
        """Take one row, the line it starts on, and how long it is; return whether it is time to `take`."""
        self.rows.append(row)
        self.lines.append(line)
        self.characters += characters
        return len(self.rows) >= CHUNK_ROWS or self.characters >= CHUNK_CHARACTERS

    def take(self) -> Iterator[Chunk]:
        """Yield the rows that are there as a chunk, and begin anew."""
        if self.rows:
            yield self.arrange(self.rows), self.lines
        self.rows, self.lines, self.characters = [], [], 0


def read_delimited(
    content: Content,
    notices: list[Notice],
    *,
    separator: str,
    names: tuple[str, ...] | None = None,
    skipped: int = 0,
) -> Iterator[Chunk]:
    """Yield the rows of a file with commas or tabs.

    `names` are those of a file without a header line. `skipped` rows at its top are passed over first.
    """
    with content.open_text() as stream:
        mark = _find_separator(content, separator) if names is None else separator
        rows = _iterate_cells(content, stream, mark)
        for _ in range(skipped):
            next(rows, None)
        line, first = next(((line, cells) for line, cells in rows if cells), (1, []))
        if not first:
            raise content.error("E210", "the file is empty", hint=content.guess() or _ROWS_HINT)
        header = first if names is None else list(names)
        if names is None and len(first) > 1 and not first[0].strip():  # as pandas writes row numbers
            header = [UNNAMED, *first[1:]]
        notices += check_names(header, content.place(line))
        before = line + "".join(first).count("\n")
        if names is not None:
            if first == header:  # its header line would count as a row
                message = "the file has a header line with these names"
                raise content.error("E202", message, line, hint="leave `header` out")
            before = line - 1
            rows = chain([(line, first)], rows)
        yield from join_chunks(_read_rows(content, tuple(header), mark, before, rows), CHUNK_ROWS)


def _read_rows(
    content: Content,
    header: tuple[str, ...],
    separator: str,
    before: int,
    rows: Iterator[tuple[int, list[str]]],
) -> Iterator[Chunk]:
    """Yield the rows that follow after so many lines: in blocks as long as that will do, then one by one."""
    buffer: Buffer[list[str]] = Buffer(lambda rows: dict(zip(header, zip(*rows, strict=True), strict=True)))
    errors = RowErrors(content.file)
    blank: int | None = None
    width = len(header)
    with content.open() as stream:
        begin = [stream.readline() for _ in range(before)]
        if content.wide is None and not any(b"\r" in one.removesuffix(b"\r\n") for one in begin):
            rest = b"" if before else stream.read(len(UTF8_MARK)).removeprefix(UTF8_MARK)
            blocks = cut_blocks(stream, rest, by_row=True)
            parsed = work_ahead(DelimitedBlocks(header, separator).parse, blocks)
            rows = iter(())
            for block, found in parsed:
                if found is None:
                    others = open_blocks(stream, chain([block], (one for one, _ in parsed)), _BLOCK)
                    text = io.TextIOWrapper(others, encoding="utf-8", newline="")
                    rows = _iterate_cells(content, text, separator, before)
                    break
                columns, lines, breaks = found
                if isinstance(lines, range):
                    yield columns, range(before + 1, before + 1 + len(lines))
                else:
                    yield columns, (lines + before + 1).to_list()
                before += breaks
        for line, cells in rows:
            if not cells:
                blank = line
            elif len(cells) != width:
                count = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
                hint = "a cell that holds the separator or a line break must be in double quotes"
                message = f"the row has {count}, the header has {width}"
                errors.add("E202", message, where=content.place(line), hint=hint)
            else:
                if blank is not None and width == 1:  # it may be a skipped line or an empty cell
                    hint = 'write `""` for an empty cell, or remove the line'
                    raise content.error("E202", "blank line in a file of one column", blank, hint=hint)
                if buffer.add(cells, line, sum(map(len, cells))):
                    yield from buffer.take()
    errors.raise_any()
    yield from buffer.take()


def _find_separator(content: Content, usual: str) -> str:
    """Return what separates the cells: what is usual, unless the first two lines have another mark instead.

    Spreadsheets write semicolons where a comma stands in numbers.
    """
    with content.open_text() as stream:
        lines = [one for one in (stream.readline(_SHOWN) for _ in range(_LOOKED_AT)) if one.strip()][:2]
    others = [one for one in (";", "\t", ",", "|") if one != usual and all(one in line for line in lines)]
    return others[0] if len(lines) > 1 and others and usual not in lines[0] else usual


def _iterate_cells(
    content: Content, stream: TextIO, separator: str, before: int = 0
) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line of each row and its cells; a blank line has none. So many lines were `before`."""
    # The limit is the process's; it is only ever raised, so that no other reader is disturbed.
    most, longest = find_cell_limit(), find_line_limit()
    csv.field_size_limit(max(csv.field_size_limit(), most))
    size = 0

    def measure() -> Iterator[str]:
        nonlocal size
        for text in _refuse_nul(content, stream, before):
            size += len(text)
            if size > longest:
                raise content.error("E202", describe_long("the row", longest), line, hint=_QUOTE_HINT)
            yield text

    reader = csv.reader(measure(), delimiter=separator, strict=True)
    while True:
        line, size = before + reader.line_num + 1, 0
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reason = str(error)
            if reason.startswith("unexpected end"):
                message = "a double quote opened in this row is never closed"
            elif reason.startswith("field larger"):
                message = describe_long("a cell of this row", most)
            else:
                message = f"misplaced double quote: {reason}"
            raise content.error("E202", message, line, hint=_QUOTE_HINT) from None
        yield line, cells


def _refuse_nul(content: Content, stream: TextIO, before: int = 0) -> Iterator[str]:
    for line in iterate_lines(stream, content.file, before):
        if "\0" in line:
            content.check_text()
        yield line


def read_paragraphs(content: Content, notices: list[Notice]) -> Iterator[Chunk]:  # noqa: ARG001 - none is odd
    """Yield the original files of LogiQA: the lines between blank ones are a row, on its first line."""
    buffer: Buffer[list[str]] = Buffer(lambda rows: {"lines": rows})
    lines: list[str] = []
    with content.open_text() as stream:
        for number, raw in enumerate(chain(_refuse_nul(content, stream), [""]), 1):
            if raw.strip():
                lines.append(raw.rstrip("\r\n"))
            elif lines:
                if buffer.add(lines, number - len(lines), sum(map(len, lines))):
                    yield from buffer.take()
                lines = []
    yield from buffer.take()


def read_json_lines(content: Content, notices: list[Notice]) -> Iterator[Chunk]:
    """Yield the rows of a file with one JSON object per line."""

    def list_blocks(stream: BinaryIO) -> Iterator[bytes]:
        if content.wide is not None:
            text = content.open_text("\n")
            pieces = iter(partial(text.read, _BLOCK), "")
            stream = open_blocks(text, (piece.encode() for piece in pieces), _BLOCK)
        yield from cut_blocks(stream, stream.read(len(UTF8_MARK)).removeprefix(UTF8_MARK))

    def parse(stream: BinaryIO) -> Iterator[tuple[object, str, int]]:
        is_first, number, longest = True, 1, find_line_limit()
        for block, found in work_ahead(JsonBlocks().parse, list_blocks(stream)):
            if found is not None:
                yield found, "", number
                number, is_first = number + found[1], False
                continue
            for number, raw in enumerate(io.BytesIO(block), number):  # noqa: B020 - goes on from the last block
                if len(raw) > longest:
                    raise content.error("E202", describe_long("the line", longest), number)
                line = raw.decode().removesuffix("\n")
                if not line.strip(_SPACES):
                    continue
                if is_first and line.lstrip().startswith("["):  # one error instead of one per line
                    message = "the file starts with a list, not with an object"
                    hint = "name it `.json`, or write one object per line"
                    raise content.error("E202", message, 1, hint=hint)
                is_first = False
                try:
                    value = parse_json(line)
                except json.JSONDecodeError as error:
                    value = _refuse_syntax(error.msg, number, error.colno)
                    is_open = error.msg.startswith("Unterminated") or not line[error.pos :].strip()
                    if is_open and not raw.endswith(b"\n"):
                        value.message = "the file is cut off in its last line"
                        value.hint = "copy or download it again; `sed '$d' FILE` prints it without that line"
                except BadJsonError as error:
                    value = error
                yield value, line, number
            number += 1

    with content.open() as stream:
        yield from join_chunks(_chunk_objects(content, notices, parse(stream)), CHUNK_ROWS)


def read_json_list(content: Content, notices: list[Notice]) -> Iterator[Chunk]:
    """Yield the rows of a file that is one JSON list of objects; a syntax error ends the reading."""
    with content.open_text() as stream:
        yield from _chunk_objects(content, notices, _JsonList(content, stream).elements())


def _refuse_syntax(message: str, line: int, column: int) -> BadJsonError:
    text = f"not valid JSON: {message[:1].lower()}{message[1:]}"
    return BadJsonError("E202", text, line=line, column=column)


def _advise_syntax(source: str, error: BadJsonError) -> str:
    """Return what to do about a line that is not JSON."""
    rest = source[(error.column or 1) - 1 :].lstrip()[:1] or "end"
    hints = {
        "'": "JSON has double quotes only: write rows with `json.dumps(row)`",
        "}": "remove the comma before it",
        "end": "the line ends too early: one row is one line, from `{` to `}`",
    }
    return hints.get(rest, 'a row is one line such as `{"question": "…", "answer": "A"}`')


def _chunk_objects(
    content: Content, notices: list[Notice], values: Iterable[tuple[object, str, int]]
) -> Iterator[Chunk]:
    """Yield JSON objects, each with its source and its line, as rows; keys that are missing are null.

    What is wrong with some of them, and what could not be parsed, is told together in the end.
    """
    names: dict[str, None] = {}  # all keys seen so far

    def arrange(rows: Sequence[Mapping[str, object]]) -> Mapping[str, Sequence[object]]:
        shapes = dict.fromkeys(map(tuple, rows))
        for shape in shapes:
            names.update(dict.fromkeys(shape))
        if len(shapes) == 1 and len(next(iter(shapes))) == len(names):
            return {name: list(map(itemgetter(name), rows)) for name in names}
        return {name: [row.get(name) for row in rows] for name in names}

    errors, buffer, is_empty = RowErrors(content.file), Buffer(arrange), True
    longest = find_cell_limit()
    for value, source, line in values:
        if isinstance(value, tuple):  # a block of rows; JSON has no tuples
            columns, count = value
            yield from buffer.take()
            names.update(dict.fromkeys(columns))
            is_empty = False
            yield columns, range(line, line + count)
            continue
        try:
            if isinstance(value, BadJsonError):
                raise value
            is_full = buffer.add(check_row(value, source, longest), line, len(source))
        except BadJsonError as error:
            where = Place(file=content.file, line=error.line or line, column=error.column, field=error.key)
            if error.column and (what := content.guess()):  # no row of it will do
                raise DataError(error.code, error.message, where=where, hint=what) from None
            hint = error.hint
            if error.column and not hint:
                hint = _advise_syntax(source, error)
            errors.add(error.code, error.message, where=where, hint=hint)
            continue
        is_empty = False
        if is_full:
            yield from buffer.take()
    errors.raise_any()
    yield from buffer.take()
    if not names:
        message = "the file has no rows" if is_empty else "the rows of the file have no columns"
        raise content.error("E210", message, hint=_ROWS_HINT)
    notices += check_names(list(names), content.place())


class JsonWindow(ABC):
    """A JSON text that is read value by value; only a window of it is in memory, which grows with a value.

    `at` is a place in the window, `line` its line.
    """

    def __init__(
        self, stream: TextIO, decoder: json.JSONDecoder, block: int, file: str | None = None
    ) -> None:
        self.text, self.at, self.line, self.file = "", 0, 1, file
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
        """Let go of what has been read and add to the window; return whether there was more.

        DataError E202 for a value that is too long.
        """
        limit = find_line_limit()
        if len(self.text) - self.at > limit:
            raise DataError("E202", describe_long("an element", limit), where=Place(self.file, self.line))
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
        super().__init__(stream, DECODER, _BLOCK, content.file)
        self._lines_before, self._columns_before = 0, 0
        if not self.peek():
            raise content.error("E210", "the file is empty", hint=_ROWS_HINT)
        if not self.take("["):
            hint = "write a list of objects: `[{...}, {...}]`"
            beginning = self.text + stream.read(_SHOWN)
            if re.match(r"\s*\{.*\}[ \t\r]*\n\s*\{", beginning):
                hint = "this looks like one object per line: name it `.jsonl`"
            elif inner := re.search(r'"(\w+)"\s*:\s*\[\s*\{', beginning):
                rows = f"json.load(open({relpath(str(content.file))!r}))[{inner[1]!r}]"
                script = f"import json; json.dump({rows}, open('rows.json', 'w'))"
                hint = f'its rows are in `{inner[1]}`; take them out with\npython -c "{script}"'
            raise content.error("E202", "the file is not a JSON list of objects", self.line, hint=hint)

    def elements(self) -> Iterator[tuple[object, str, int]]:
        """Yield each element, its source, and the line on which it starts; last of all what breaks off."""
        is_first = True
        try:
            while not self.take("]"):
                if not is_first and not self.take(","):
                    raise self.fail("Expecting ',' or ']'", self.at)
                is_first = False
                self.peek()
                value, end = self.decode()
                source = self.text[self.at : end]
                yield value, source, self.line
                self.line += source.count("\n")
                self.at = end
            if self.peek():
                raise self.fail("Extra text after the list", self.at)
        except BadJsonError as error:
            yield error, "", self.line
        except (RecursionError, ValueError) as error:
            yield refuse_size(error), "", self.line

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

    def fail(self, message: str, position: int) -> BadJsonError:
        """Return the error, with line and column."""
        lines, columns = self._locate(position)
        return _refuse_syntax(message, lines + 1, columns + 1)


def read_binary(
    content: Content, notices: list[Notice], *, kind: Literal["Parquet", "Arrow"]
) -> Iterator[Chunk]:
    """Yield the rows of a Parquet or Arrow file, or an Arrow stream.

    As a whole where it is held in memory, or packed, or a stream; else in chunks.
    """
    if kind == "Arrow" and content.head.startswith(b"FEA1"):
        hint = "write it anew as Feather version 2 or as Parquet"
        raise content.error("E202", "Feather version 1 is not read", hint=hint)
    is_stream = kind == "Arrow" and not is_arrow_file(content)
    try:
        if content.raw is None and not content.is_packed and not is_stream:
            scan = pl.scan_parquet if kind == "Parquet" else pl.scan_ipc
            yield from read_frames(scan(content.path, glob=False), content.file, notices)
            return
        with content.open() as stream:
            raw = stream.read()
        if not raw:
            raise content.error("E210", "the file is empty")
        if is_stream and raw.startswith(_MESSAGE) and not raw.endswith(_END_OF_STREAM):
            hint = content.guess() or "copy or download it again"
            raise content.error("E202", "the Arrow stream has no end mark", hint=hint)
        read = pl.read_parquet if kind == "Parquet" else pl.read_ipc_stream if is_stream else pl.read_ipc
        yield from read_frames(read(io.BytesIO(raw)), content.file, notices)
    except FOREIGN as error:
        raise content.refuse_damage(kind, error) from None


def is_arrow_file(content: Content) -> bool:
    """Return whether an Arrow content can be read in parts; a stream cannot."""
    return content.head.startswith(b"ARROW1")


def read_frames(source: pl.DataFrame | pl.LazyFrame, file: str, notices: list[Notice]) -> Iterator[Chunk]:
    """Yield a frame, whole or in chunks, with types that JSON also has; `file` is its name in errors."""

    def iterate(part: pl.DataFrame | pl.LazyFrame) -> Iterator[pl.DataFrame]:
        if isinstance(part, pl.DataFrame):
            return iter([part])
        height = int(part.select(pl.len()).collect().item())
        return (part.slice(offset, CHUNK_ROWS).collect() for offset in range(0, height, CHUNK_ROWS))

    schema = source.schema if isinstance(source, pl.DataFrame) else source.collect_schema()
    notices += check_names(schema.names(), Place(file=file))
    casts = {name: find_cast(dtype) for name, dtype in schema.items()}
    for name, dtype in schema.items():
        if "Binary" not in str(dtype):
            continue
        only = source.select(pl.selectors.by_name(name))
        if dtype == pl.Binary and all(_is_utf8(frame[name]) for frame in iterate(only)):
            casts[name] = pl.String()  # some writers do not mark their text as such
        else:
            message = f"column `{name}` holds bytes; templates see them in base64"
            notices.append(Notice(message, where=Place(file=file, field=name)))
    first = 1
    for frame in iterate(source):
        columns: dict[str, Cells] = {}
        for name, to_type in casts.items():
            try:
                series = frame[name]
                columns[name] = make_plain(series.to_list()) if to_type is None else series.cast(to_type)
            except TypeError as error:
                message = f"column `{name}` holds {error}, which has no form in JSON"
                raise DataError("E202", message, where=Place(file=file)) from None
        yield columns, range(first, first + frame.height)
        first += frame.height


def _is_utf8(series: pl.Series) -> bool:
    try:
        series.cast(pl.String)
    except pl.exceptions.PolarsError:
        return False
    return True


FormatName = Literal["csv", "tsv", "jsonl", "json", "parquet", "arrow", "paragraphs"]
READERS: dict[FormatName, Callable[..., Iterator[Chunk]]] = {
    "csv": partial(read_delimited, separator=","),
    "tsv": partial(read_delimited, separator="\t"),
    "jsonl": read_json_lines,
    "json": read_json_list,
    "parquet": partial(read_binary, kind="Parquet"),
    "arrow": partial(read_binary, kind="Arrow"),
    "paragraphs": read_paragraphs,
}
#: Ending of a file name to its format; paragraphs have none.
FORMATS: dict[str, FormatName] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


def split_endings(name: str | Path) -> tuple[str, str]:
    """Return the ending of a name that says its format, and that of its compression; empty for none."""
    endings = [ending.lower() for ending in PurePosixPath(name).suffixes]
    packed = endings.pop() if endings and endings[-1] in COMPRESSIONS else ""
    return (endings[-1] if endings and endings[-1] in FORMATS else ""), packed
