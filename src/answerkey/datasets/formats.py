"""The formats of data files: CSV, TSV, JSON Lines, JSON, Parquet and Arrow.

A reader yields the rows of a content in their order, each with the line it starts on (in Parquet
and Arrow its number). A cell of CSV and TSV is
always text, and every row has as many cells as the header. A row of JSON is an object. The ending
of the name tells the format, unless the user states it.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple, TextIO

import polars as pl

from answerkey.datasets.cells import plain
from answerkey.datasets.content import (
    COMPRESSIONS,
    DECODER,
    FOREIGN,
    UTF8_MARK,
    Content,
    RowErrors,
    check_names,
    check_row,
    describe_long,
    find_line_limit,
    iterate_lines,
    parse_json,
    refuse_file,
    refuse_json,
)
from answerkey.errors import DataError, Place
from answerkey.text import format_count

#: What a first column without a name is called, as pandas writes row numbers.
UNNAMED = "column_1"
ROWS_HINT = "is this the right file, and was it written to its end?"
QUOTE_HINT = 'a cell in double quotes ends at the next double quote; one inside it is written `""`'
#: So much of a line is looked at to tell what separates its cells.
BEGINNING = 2**20
#: A JSON list is in memory as a whole; it may have so many times the characters of a line.
LIST_LINES = 4
#: So many rows of a Parquet or Arrow file are in memory at a time.
FRAME_ROWS = 32_768
LIST_START = re.compile(r"\s*\[\s*")
LIST_SEPARATOR = re.compile(r"\s*(?:,\s*|(?=\]))")
ROW_HINT = 'a row is one line such as `{"question": "…", "answer": "A"}`, as `json.dumps` writes it'
#: Begins each message of an Arrow stream; before a length of zero it ends the stream. Without that
#: end mark a stream that was cut between two batches would look whole.
ARROW_MESSAGE = b"\xff\xff\xff\xff"
ARROW_END = ARROW_MESSAGE + b"\x00\x00\x00\x00"


#: The line on which a row begins, and its cells.
CellRow = tuple[int, list[str]]


class ParsedRow(NamedTuple):
    """One row of a file: the line it starts on, its cells, its size in characters.

    `offset` is where its line begins in the bytes of a JSON Lines file. `file_index` says which of
    several files it is from.
    """

    line: int
    fields: Mapping[str, object]
    size: int
    offset: int = 0
    file_index: int = 0


#: The rows of a file, in order.
ParsedRows = Iterator[ParsedRow]


def read_delimited(
    content: Content,
    *,
    separator: str,
    names: tuple[str, ...] | None = None,
) -> ParsedRows:
    """Yield the rows of a file with commas or tabs.

    `names` are those of a file without a header line.
    """
    if names is None:
        separator = _detect_separator(content, separator)
    with content.open_text() as stream:
        rows: Iterator[CellRow] = _iterate_cells(content, stream, separator)
        rows = filter(itemgetter(1), rows)  # blank lines have no cells
        line, header = next(rows, (1, []))
        if not header:
            hint = content.guess() or ROWS_HINT
            raise content.error("E210", "the file is empty", hint=hint)
        if names is not None:
            rows = chain([(line, header)], rows)
            if header == list(names):
                message = "the file has a header line with these names"
                raise content.error(
                    "E202",
                    message,
                    line,
                    hint="leave `header` out",
                )
            header = list(names)
        elif len(header) > 1 and not header[0].strip():
            header[0] = UNNAMED
        check_names(header, Place(content.file, line))
        yield from _read_cells(content, header, rows)


def _read_cells(
    content: Content,
    header: Sequence[str],
    rows: Iterator[CellRow],
) -> ParsedRows:
    """Yield rows of cells as records; those of another width than the header are errors."""
    errors = RowErrors(content.file)
    for line, cells in rows:
        if len(cells) == len(header):
            fields = dict(zip(header, cells, strict=True))
            size = sum(map(len, cells))
            yield ParsedRow(line, fields, size)
            continue
        count = format_count(len(cells), "cell")
        message = f"the row has {count}, the header has {len(header)}"
        hint = "a cell that holds the separator or a line break must be in double quotes"
        errors.add(content.error("E202", message, line, hint=hint))
    errors.raise_any()


def _detect_separator(content: Content, usual: str) -> str:
    """Return what separates the cells: the usual mark, unless the first two lines have another.

    Spreadsheets write semicolons where a comma stands in numbers.
    """
    with content.open_text() as stream:
        first = stream.readline(BEGINNING)
        second = stream.readline(BEGINNING)
    if usual not in first:
        for mark in ";\t,":
            if mark in first and mark in second:
                return mark
    return usual


def _iterate_cells(
    content: Content,
    stream: TextIO,
    separator: str,
) -> Iterator[CellRow]:
    """Yield the first line of each row and its cells; a blank line has none."""
    limit = find_line_limit()
    # The limit is the process's; it is only ever raised, so that no other reader is disturbed.
    if csv.field_size_limit() < limit:
        csv.field_size_limit(limit)
    lines = _iterate_text(content, stream)
    reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            message = str(error)
            if message.startswith("field larger"):
                message = describe_long("the row", limit)
            elif message == "unexpected end of data":
                message = "a double quote opened in this row is never closed"
            raise content.error(
                "E202",
                message,
                line,
                hint=QUOTE_HINT,
            ) from None
        yield line, cells


def _iterate_text(content: Content, stream: TextIO) -> Iterator[str]:
    for line in iterate_lines(stream, content.file):
        if "\0" in line:
            content.check_text()
        yield line


def read_document(content: Content) -> ParsedRows:
    """Yield a text as one row, whose id is the hash of the text."""
    content.check_text()
    with content.open_text() as stream:
        text = stream.read(find_line_limit() + 1)
    fields = {"sample_id": content.digest, "content": text}
    yield ParsedRow(1, fields, len(text))


def read_json_lines(content: Content) -> ParsedRows:
    """Yield the rows of a file with one JSON object per line; bad rows are reported together."""
    errors = RowErrors(content.file)
    limit = find_line_limit()
    number = offset = 0
    with content.open() as stream:
        while raw := stream.readline(limit + 1):
            number += 1
            if len(raw) > limit:
                raise content.error("E202", describe_long("the line", limit), number)
            start = offset
            offset += len(raw)
            if number == 1 and raw.startswith(UTF8_MARK):
                start = len(UTF8_MARK)
                raw = raw[start:]
            source = raw.decode().removesuffix("\n")
            if not source.strip():
                continue
            try:
                fields = check_row(parse_json(source), source)
            except DataError as error:
                errors.add(_locate(content, error, number))
            else:
                yield ParsedRow(number, fields, len(source), start)
    errors.raise_any()


def _locate(
    content: Content,
    error: DataError,
    line: int,
) -> DataError:
    """Return the error of a row with the line on which the row begins."""
    column = None
    hint = error.hint
    if error.where is not None:
        column = error.where.column
    if column:
        hint = content.guess() or ROW_HINT
    return content.error(
        error.code,
        error.message,
        line,
        column=column,
        hint=hint,
    )


def read_json_list(content: Content) -> ParsedRows:
    """Yield the rows of a file that is one JSON list of objects, up to the first mistake."""
    limit = find_line_limit() * LIST_LINES
    with content.open_text() as stream:
        text = stream.read(limit + 1)
    if len(text) > limit:
        message = describe_long("the file", limit)
        raise content.error("E202", message, hint="write JSON Lines")
    opening = LIST_START.match(text)
    if not text.strip():
        raise content.error("E210", "the file is empty", hint=ROWS_HINT)
    if opening is None:
        message = "the file is not a JSON list of objects"
        hint = "write `[{...}, {...}]`; a file with one object per line is named `.jsonl`"
        raise content.error(
            "E202",
            message,
            1,
            hint=hint,
        )
    start = opening.end()
    line = 1 + text.count("\n", 0, start)
    try:
        while not text.startswith("]", start):
            value, end = DECODER.raw_decode(text, start)
            source = text[start:end]
            fields = check_row(value, source)
            yield ParsedRow(line, fields, len(source))
            separator = LIST_SEPARATOR.match(text, end)
            if separator is None:
                raise json.JSONDecodeError("Expecting ',' or ']'", text, end)
            line += text.count("\n", start, separator.end())
            start = separator.end()
        if text[start + 1 :].strip():
            raise json.JSONDecodeError("Extra text after the list", text, start + 1)
    except (RecursionError, ValueError, DataError) as error:
        refusal = error if isinstance(error, DataError) else refuse_json(error)
        if refusal.where is not None:
            line = refusal.where.line or line
        raise _locate(content, refusal, line) from None


def read_binary(content: Content, *, kind: str) -> ParsedRows:
    """Yield the rows of a Parquet or Arrow file, or an Arrow stream."""
    try:
        frame = _open_frame(content, kind)
        yield from read_frame(frame, content.file)
    except FOREIGN as error:
        lines = str(error).splitlines() or ["damaged"]
        reason = lines[0].replace(str(content.path), content.file)
        hint = content.guess() or "copy or download it again"
        raise content.error("E202", f"not a valid {kind} file: {reason}", hint=hint) from None


def _open_frame(content: Content, kind: str) -> pl.LazyFrame:
    """Return the rows of a file; one that is packed, and a stream, are held in memory."""
    if not content.head:
        raise content.error("E210", "the file is empty")
    source: Path | bytes = content.path
    if content.path.suffix.lower() in COMPRESSIONS:
        with content.open() as stream:
            source = stream.read()
    if kind == "Parquet":
        return pl.scan_parquet(source, glob=False)
    if content.head.startswith(b"ARROW1"):
        return pl.scan_ipc(source, glob=False)
    with content.open() as stream:
        messages = stream.read()
    if messages.startswith(ARROW_MESSAGE) and not messages.endswith(ARROW_END):
        hint = content.guess() or "copy or download it again"
        raise content.error("E202", "the Arrow stream has no end mark", hint=hint)
    return pl.read_ipc_stream(messages).lazy()


PLAIN_TYPES = {pl.String, pl.Boolean, pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt32}


def read_frame(frame: pl.LazyFrame, file: str) -> ParsedRows:
    """Yield the rows of a frame with values that JSON has; `file` is its name in errors."""
    count = frame.select(pl.len()).collect().item()
    for offset in range(0, count, FRAME_ROWS):
        part = frame.slice(offset, FRAME_ROWS).collect()
        foreign = [name for name, kind in part.schema.items() if not _is_plain_type(kind)]
        for number, row in enumerate(part.iter_rows(named=True), offset + 1):
            try:
                for name in foreign:
                    row[name] = plain(row[name])
            except TypeError as error:
                message = f"row {number} holds {error}, which has no form in JSON"
                raise refuse_file("E202", message, file) from None
            yield ParsedRow(number, row, measure_fields(row))


def _is_plain_type(kind: pl.DataType) -> bool:
    """Return whether every value of a type is one that JSON has: no NaN, and no bytes or dates."""
    if isinstance(kind, pl.List):
        return kind.inner in PLAIN_TYPES
    return kind in PLAIN_TYPES


def measure_fields(fields: Mapping[str, object]) -> int:
    """Return about how many characters the cells of a row have."""
    return sum(map(len, map(str, fields.values())))


FormatName = Literal["csv", "tsv", "jsonl", "json", "parquet", "arrow", "document"]
READERS: dict[FormatName, Callable[..., ParsedRows]] = {
    "csv": partial(read_delimited, separator=","),
    "tsv": partial(read_delimited, separator="\t"),
    "jsonl": read_json_lines,
    "json": read_json_list,
    "parquet": partial(read_binary, kind="Parquet"),
    "arrow": partial(read_binary, kind="Arrow"),
    "document": read_document,
}
#: Ending of a file name to its format; documents have none.
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
    """Return the ending of a name that says its format, and that of its compression, or ""."""
    path = PurePosixPath(str(name).lower())
    compression = ""
    if path.suffix in COMPRESSIONS:
        compression = path.suffix
        path = path.with_suffix("")
    ending = path.suffix if path.suffix in FORMATS else ""
    return ending, compression
