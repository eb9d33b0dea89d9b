"""The formats of data files: CSV, TSV, JSON Lines, JSON, paragraphs, Parquet and Arrow.

A reader yields the rows of a content in their order, each with the line it starts on (in Parquet
and Arrow its number). A cell of CSV and TSV is
always text, and every row has as many cells as the header. A row of JSON is an object. The ending
of the name tells the format, unless the user states it.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import chain
from operator import itemgetter
from os.path import relpath
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal, NamedTuple, TextIO

import polars as pl

from answerkey.datasets.cells import (
    DECODER,
    BadJsonError,
    check_names,
    check_object,
    parse_json,
    plain,
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
    refuse_file,
)
from answerkey.errors import DataError, Place
from answerkey.types import Notice

#: What a first column without a name is called, as pandas writes row numbers.
UNNAMED = "column_1"
ROWS_HINT = "is this the right file, and was it written to its end?"
QUOTE_HINT = 'a cell in double quotes ends at the next double quote; one inside it is written `""`'
#: So many lines are looked at to find two that are not blank.
FIRST_LINES = 20
#: So many characters of a JSON list are read at a time.
WINDOW = 2**20
#: So much of a text is looked at to tell what it may be.
BEGINNING = 2**20
#: So many rows of a Parquet or Arrow file are in memory at a time.
FRAME_ROWS = 32_768
SPACES = " \t\r\n"
SPACE = re.compile(f"[{SPACES}]*")
#: How near to the end of a window a value that goes on can be mistaken for a broken one.
EDGE = 16
#: Begins each message of an Arrow stream; before a length of zero it ends the stream. Without that
#: end mark a stream that was cut between two batches would look whole.
ARROW_MESSAGE = b"\xff\xff\xff\xff"
ARROW_END = ARROW_MESSAGE + b"\x00\x00\x00\x00"


class Record(NamedTuple):
    """One row of a file: the line it starts on, its cells, its size in characters.

    `offset` is where its line begins in the bytes of a JSON Lines file. `file_index` says which of
    several files it is from.
    """

    line: int
    fields: Mapping[str, object]
    size: int
    offset: int = 0
    file_index: int = 0


def read_delimited(
    content: Content,
    *,
    separator: str,
    names: tuple[str, ...] | None = None,
    skipped: int = 0,
) -> Iterator[Record]:
    """Yield the rows of a file with commas or tabs.

    `names` are those of a file without a header line. `skipped` rows at its top are passed over.
    """
    if names is None:
        separator = _detect_separator(content, separator)
    with content.open_text() as stream:
        rows = _iterate_cells(content, stream, separator)
        for _ in range(skipped):
            next(rows, None)
        filled_rows = filter(itemgetter(1), rows)
        line, first = next(filled_rows, (1, []))
        if not first:
            raise content.error("E210", "the file is empty", hint=content.guess() or ROWS_HINT)
        if names is None:
            header = _name_header(first)
        else:
            header = list(names)
            if first == header:
                message = "the file has a header line with these names"
                raise content.error(
                    "E202",
                    message,
                    line,
                    hint="leave `header` out",
                )
            rows = chain([(line, first)], rows)
        content.notices.extend(check_names(header, content.place(line)))
        yield from _read_cells(content, header, rows)


def _name_header(cells: list[str]) -> list[str]:
    if len(cells) > 1 and not cells[0].strip():
        return [UNNAMED, *cells[1:]]
    return cells


def _read_cells(
    content: Content,
    header: Sequence[str],
    rows: Iterator[tuple[int, list[str]]],
) -> Iterator[Record]:
    """Yield rows of cells as records; those of another width than the header are errors."""
    errors = RowErrors(content.file)
    blank_line: int | None = None
    for line, cells in rows:
        if not cells:
            blank_line = line
            continue
        if len(cells) != len(header):
            count = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
            message = f"the row has {count}, the header has {len(header)}"
            hint = "a cell that holds the separator or a line break must be in double quotes"
            errors.add(
                "E202",
                message,
                where=content.place(line),
                hint=hint,
            )
            continue
        if blank_line is not None and len(header) == 1:
            # It may be a line to skip, or an empty cell.
            hint = 'write `""` for an empty cell, or remove the line'
            message = "blank line in a file of one column"
            raise content.error(
                "E202",
                message,
                blank_line,
                hint=hint,
            )
        fields = dict(zip(header, cells, strict=True))
        yield Record(line, fields, sum(map(len, cells)))
    errors.raise_any()


def _detect_separator(content: Content, usual: str) -> str:
    """Return what separates the cells: the usual mark, unless the first two lines have another.

    Spreadsheets write semicolons where a comma stands in numbers.
    """
    lines: list[str] = []
    with content.open_text() as stream:
        for _ in range(FIRST_LINES):
            line = stream.readline(BEGINNING)
            if line.strip():
                lines.append(line)
    first_lines = lines[:2]
    if len(first_lines) > 1 and usual not in first_lines[0]:
        for mark in (";", "\t", ",", "|"):
            if all(mark in line for line in first_lines):
                return mark
    return usual


def _iterate_cells(
    content: Content,
    stream: TextIO,
    separator: str,
) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line of each row and its cells; a blank line has none."""
    # The limit is the process's; it is only ever raised, so that no other reader is disturbed.
    cell_limit = find_cell_limit()
    row_limit = find_line_limit()
    csv.field_size_limit(max(csv.field_size_limit(), cell_limit))
    row_size = 0

    def measure_lines() -> Iterator[str]:
        nonlocal row_size
        for text in _iterate_text(content, stream):
            row_size += len(text)
            if row_size > row_limit:
                message = describe_long("the row", row_limit)
                raise content.error(
                    "E202",
                    message,
                    line,
                    hint=QUOTE_HINT,
                )
            yield text

    reader = csv.reader(
        measure_lines(),
        delimiter=separator,
        strict=True,
    )
    while True:
        line = reader.line_num + 1
        row_size = 0
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            message = _describe_quotes(str(error), cell_limit)
            raise content.error(
                "E202",
                message,
                line,
                hint=QUOTE_HINT,
            ) from None
        yield line, cells


def _describe_quotes(reason: str, cell_limit: int) -> str:
    if reason.startswith("unexpected end"):
        return "a double quote opened in this row is never closed"
    if reason.startswith("field larger"):
        return describe_long("a cell of this row", cell_limit)
    return f"misplaced double quote: {reason}"


def _iterate_text(content: Content, stream: TextIO) -> Iterator[str]:
    for line in iterate_lines(stream, content.file):
        if "\0" in line:
            content.check_text()
        yield line


def read_paragraphs(content: Content) -> Iterator[Record]:
    """Yield the original files of LogiQA: the lines between blank ones are a row."""
    lines: list[str] = []
    with content.open_text() as stream:
        for number, text in enumerate(chain(_iterate_text(content, stream), [""]), 1):
            if text.strip():
                lines.append(text.rstrip("\r\n"))
            elif lines:
                size = sum(map(len, lines))
                yield Record(number - len(lines), {"lines": lines}, size)
                lines = []


def read_document(content: Content) -> Iterator[Record]:
    """Yield a text as one row, whose id is the hash of the text."""
    content.check_text()
    with content.open_text() as stream:
        text = stream.read(find_line_limit() + 1)
    digest = sha256(text.encode()).hexdigest()
    yield Record(1, {"sample_id": digest, "content": text}, len(text))


def read_json_lines(content: Content) -> Iterator[Record]:
    """Yield the rows of a file with one JSON object per line; all bad rows are told together."""
    errors = RowErrors(content.file)
    is_first = True
    for number, offset, raw in _iterate_raw_lines(content):
        source = raw.decode().strip(SPACES)
        if not source:
            continue
        if is_first and source.startswith("["):
            message = "the file starts with a list, not with an object"
            hint = "name it `.json`, or write one object per line"
            raise content.error(
                "E202",
                message,
                1,
                hint=hint,
            )
        is_first = False
        try:
            fields = check_object(_parse_line(raw.decode(), number), source)
        except BadJsonError as error:
            _add_json_error(errors, content, error, number, source)
        else:
            yield Record(
                number,
                fields,
                len(source),
                offset,
            )
    errors.raise_any()


def _iterate_raw_lines(content: Content) -> Iterator[tuple[int, int, bytes]]:
    """Yield the number of each line, where it begins, and its bytes in UTF-8."""
    limit = find_line_limit()
    offset = 0
    with _open_utf8(content) as stream:
        number = 0
        while raw := stream.readline(limit + 1):
            number += 1
            if len(raw) > limit:
                raise content.error("E202", describe_long("the line", limit), number)
            if number == 1 and raw.startswith(UTF8_MARK):
                offset = len(UTF8_MARK)
                raw = raw[offset:]
            yield number, offset, raw
            offset += len(raw)


def _open_utf8(content: Content) -> BinaryIO:
    """Return the bytes of a text in UTF-8, whatever encoding its byte order mark names."""
    if content.wide is None:
        return content.open()
    with content.open_text("\n") as stream:
        return io.BytesIO(stream.read().encode())


def _parse_line(line: str, number: int) -> object:
    text = line.removesuffix("\n")
    try:
        return parse_json(text)
    except json.JSONDecodeError as error:
        refusal = _refuse_syntax(error.msg, number, error.colno)
        is_open = error.msg.startswith("Unterminated") or not text[error.pos :].strip()
        if is_open and not line.endswith("\n"):
            refusal.message = "the file is cut off in its last line"
            refusal.hint = "copy or download it again; `sed '$d' FILE` prints it without that line"
        raise refusal from None


def _refuse_syntax(
    message: str,
    line: int,
    column: int,
) -> BadJsonError:
    text = f"not valid JSON: {message[:1].lower()}{message[1:]}"
    return BadJsonError(
        "E202",
        text,
        line=line,
        column=column,
    )


def _add_json_error(
    errors: RowErrors,
    content: Content,
    error: BadJsonError,
    line: int,
    source: str,
) -> None:
    """Remember what is wrong with the row that begins on a line."""
    where = Place(
        file=content.file,
        line=error.line or line,
        column=error.column,
        field=error.key,
    )
    hint = error.hint
    if error.column:
        guess = content.guess()
        if guess:  # no row of such a file will do
            raise DataError(error.code, error.message, where=where, hint=guess) from None
        hint = hint or _advise_syntax(source, error.column)
    errors.add(error.code, error.message, where=where, hint=hint)


def _advise_syntax(source: str, column: int) -> str:
    """Return what to do about a line that is not JSON."""
    following = source[column - 1 :].lstrip()[:1]
    if not following:
        return "the line ends too early: one row is one line, from `{` to `}`"
    if following == "'":
        return "JSON has double quotes only: write rows with `json.dumps(row)`"
    if following == "}":
        return "remove the comma before it"
    return 'a row is one line such as `{"question": "…", "answer": "A"}`'


def read_json_list(content: Content) -> Iterator[Record]:
    """Yield the rows of a file that is one JSON list of objects, up to a syntax error."""
    errors = RowErrors(content.file)
    with content.open_text() as stream:
        elements = JsonList(content, stream)
        try:
            for value, source in elements.iterate():
                try:
                    fields = check_object(value, source)
                except BadJsonError as error:
                    _add_json_error(errors, content, error, elements.line, source)
                else:
                    yield Record(elements.line, fields, len(source))
        except BadJsonError as error:
            _add_json_error(errors, content, error, elements.line, "")
        except (RecursionError, ValueError) as error:
            _add_json_error(errors, content, refuse_size(error), elements.line, "")
    errors.raise_any()


class JsonList:
    """The elements of a JSON list one by one, so that each has its line.

    Only a window of the text is in memory, which grows with an element. `line` is the line of the
    place that has been reached.
    """

    def __init__(self, content: Content, stream: TextIO) -> None:
        self.line = 1
        self._content = content
        self._stream = stream
        self._text = ""
        self._at = 0
        self._line_start = 0

    def iterate(self) -> Iterator[tuple[object, str]]:
        """Yield each element and its source; `line` is meanwhile the line on which it starts."""
        content = self._content
        if not self._peek():
            raise content.error("E210", "the file is empty", hint=ROWS_HINT)
        if not self._take("["):
            hint = _advise_list(content, self._text + self._stream.read(BEGINNING))
            message = "the file is not a JSON list of objects"
            raise content.error("E202", message, self.line, hint=hint)
        is_first = True
        while not self._take("]"):
            if not is_first and not self._take(","):
                raise self._refuse("Expecting ',' or ']'", self._at)
            is_first = False
            self._peek()
            value, end = self._decode()
            yield value, self._text[self._at : end]
            self._advance(end)
        if self._peek():
            raise self._refuse("Extra text after the list", self._at)

    def _peek(self) -> str:
        """Go to the next character that is no white space, and return it; "" at the end."""
        while True:
            space = SPACE.match(self._text, self._at)
            self._advance(space.end() if space else self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_on():
                return ""

    def _take(self, mark: str) -> bool:
        """Return whether a mark comes next, and go behind it."""
        is_there = self._peek() == mark
        self._at += is_there
        return is_there

    def _decode(self) -> tuple[object, int]:
        """Return the value that starts here, and where it ends."""
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or error.pos > len(self._text) - EDGE
                if not is_cut or not self._read_on():
                    raise self._refuse(error.msg, error.pos) from None
            else:
                # A number may go on in the next block: `1` and `.5`, or `1e-` and `5`.
                is_whole = self._text[end - 1] in '}]"' or end <= len(self._text) - EDGE
                if is_whole or not self._read_on():
                    return value, end

    def _read_on(self) -> bool:
        """Let go of what has been read and add to the window; return whether there was more."""
        limit = find_line_limit()
        size = len(self._text) - self._at
        if size > limit:
            raise self._content.error("E202", describe_long("an element", limit), self.line)
        more = self._stream.read(max(WINDOW, size))
        if more:
            self._text = self._text[self._at :] + more
            self._line_start -= self._at
            self._at = 0
        return bool(more)

    def _advance(self, end: int) -> None:
        self.line += self._text.count("\n", self._at, end)
        line_end = self._text.rfind("\n", self._at, end)
        if line_end >= 0:
            self._line_start = line_end + 1
        self._at = end

    def _refuse(self, message: str, position: int) -> BadJsonError:
        self._advance(position)
        return _refuse_syntax(message, self.line, position - self._line_start + 1)


def _advise_list(content: Content, beginning: str) -> str:
    """Return what to do about a JSON file that is not a list."""
    if re.match(r"\s*\{.*\}[ \t\r]*\n\s*\{", beginning):
        return "this looks like one object per line: name it `.jsonl`"
    inner = re.search(r'"(\w+)"\s*:\s*\[\s*\{', beginning)
    if inner is None:
        return "write a list of objects: `[{...}, {...}]`"
    rows = f"json.load(open({relpath(str(content.file))!r}))[{inner[1]!r}]"
    script = f"import json; json.dump({rows}, open('rows.json', 'w'))"
    return f'its rows are in `{inner[1]}`; take them out with\npython -c "{script}"'


BinaryKind = Literal["Parquet", "Arrow"]


def read_binary(content: Content, *, kind: BinaryKind) -> Iterator[Record]:
    """Yield the rows of a Parquet or Arrow file, or an Arrow stream."""
    try:
        frame = _open_frame(content, kind)
        yield from read_frame(frame, content.file, content.notices)
    except FOREIGN as error:
        raise content.refuse_damage(kind, error) from None


def _open_frame(content: Content, kind: BinaryKind) -> pl.LazyFrame:
    """Return the rows of a file; one that is packed, and a stream, are held in memory."""
    is_stream = kind == "Arrow" and not content.head.startswith(b"ARROW1")
    if kind == "Arrow" and content.head.startswith(b"FEA1"):
        hint = "write it anew as Feather version 2 or as Parquet"
        raise content.error("E202", "Feather version 1 is not read", hint=hint)
    if not content.head:
        raise content.error("E210", "the file is empty")
    source: Path | bytes = content.path
    if is_stream or content.is_packed:
        with content.open() as stream:
            source = stream.read()
    if kind == "Parquet":
        return pl.scan_parquet(source, glob=False)
    if not is_stream:
        return pl.scan_ipc(source, glob=False)
    is_marked = content.head.startswith(ARROW_MESSAGE)
    if is_marked and isinstance(source, bytes) and not source.endswith(ARROW_END):
        hint = content.guess() or "copy or download it again"
        raise content.error("E202", "the Arrow stream has no end mark", hint=hint)
    return pl.read_ipc_stream(source).lazy()


def read_frame(
    frame: pl.LazyFrame,
    file: str,
    notices: list[Notice],
) -> Iterator[Record]:
    """Yield the rows of a frame with values that JSON has; `file` is its name in errors."""
    schema = frame.collect_schema()
    notices += check_names(schema.names(), Place(file=file))
    texts = _find_text_columns(frame, file, notices)
    frame = frame.with_columns(pl.col(texts).cast(pl.String))
    count = int(frame.select(pl.len()).collect().item())
    number = 0
    for offset in range(0, count, FRAME_ROWS):
        part = frame.slice(offset, FRAME_ROWS).collect()
        for fields in part.iter_rows(named=True):
            number += 1
            yield Record(number, _convert_fields(fields, file), measure_fields(fields))


def _convert_fields(fields: Mapping[str, object], file: str) -> dict[str, object]:
    """Return the cells of a row in the form that JSON has."""
    converted: dict[str, object] = {}
    for name, cell in fields.items():
        try:
            converted[name] = plain(cell)
        except TypeError as error:
            message = f"column `{name}` holds {error}, which has no form in JSON"
            raise refuse_file("E202", message, file) from None
    return converted


def measure_fields(fields: Mapping[str, object]) -> int:
    """Return about how many characters the cells of a row have."""
    size = 0
    for cell in fields.values():
        if isinstance(cell, str):
            size += len(cell)
        elif isinstance(cell, list | dict):
            size += len(str(cell))
        else:
            size += 8
    return size


def holds_bytes(dtype: pl.DataType) -> bool:
    """Return whether values of a type hold bytes, which may be text."""
    return "Binary" in str(dtype)


def _find_text_columns(
    frame: pl.LazyFrame,
    file: str,
    notices: list[Notice],
) -> list[str]:
    """Return the columns of bytes that are text: some writers do not mark their text as such."""
    texts: list[str] = []
    for name, dtype in frame.collect_schema().items():
        if not holds_bytes(dtype):
            continue
        if dtype == pl.Binary and _is_utf8(frame.select(pl.col(f"^{re.escape(name)}$"))):
            texts.append(name)
        else:
            message = f"column `{name}` holds bytes; templates see them in base64"
            notices.append(Notice(message, where=Place(file=file, field=name)))
    return texts


def _is_utf8(column: pl.LazyFrame) -> bool:
    try:
        texts = pl.all().cast(pl.String)
        column.select(texts.is_null().sum()).collect()
    except pl.exceptions.PolarsError:
        return False
    return True


FormatName = Literal["csv", "tsv", "jsonl", "json", "parquet", "arrow", "paragraphs", "document"]
READERS: dict[FormatName, Callable[..., Iterator[Record]]] = {
    "csv": partial(read_delimited, separator=","),
    "tsv": partial(read_delimited, separator="\t"),
    "jsonl": read_json_lines,
    "json": read_json_list,
    "parquet": partial(read_binary, kind="Parquet"),
    "arrow": partial(read_binary, kind="Arrow"),
    "paragraphs": read_paragraphs,
    "document": read_document,
}
#: Ending of a file name to its format; paragraphs and documents have none.
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
    endings = [ending.lower() for ending in PurePosixPath(name).suffixes]
    compression = ""
    if endings and endings[-1] in COMPRESSIONS:
        compression = endings.pop()
    if endings and endings[-1] in FORMATS:
        return endings[-1], compression
    return "", compression
