"""Tables of rows: data files, several files joined, documents, and tables in memory.

Rows are held in memory while they are few. A large file of JSON Lines is read where it lies; any
other is written once as JSON Lines into a temporary file, which is removed at the end of the
process.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from types import NoneType
from typing import Any, NamedTuple, Protocol

import polars as pl

from answerkey.datasets.cells import ColumnKind, convert_cell, plain
from answerkey.datasets.content import (
    COMPRESSIONS,
    ENCODING_HINT,
    FOREIGN,
    Content,
    RowErrors,
    check_names,
    describe_long,
    find_line_limit,
    refuse_file,
    require_plain,
)
from answerkey.datasets.formats import (
    FORMATS,
    READERS,
    ROWS_HINT,
    FormatName,
    ParsedRow,
    ParsedRows,
    measure_fields,
    read_frame,
    split_endings,
)
from answerkey.datasets.questions import SAID_ROLES, QuestionColumns
from answerkey.datasets.rows import (
    LineRows,
    Rows,
    build_sample,
    check_ids,
    iterate_blocks,
    iterate_samples,
    read_stamp,
)
from answerkey.datasets.storage import fetch_object, is_stored, open_object
from answerkey.errors import (
    AnswerkeyError,
    DataError,
    Place,
    SpecError,
    listing,
    refuse_column,
    suggest,
)
from answerkey.templates import RowError, RowFilter, Template
from answerkey.types import Sample, Samples

#: The column in which a run keeps rows that were in memory, as JSON text.
SAMPLE_COLUMN = "sample"
#: A table with more bytes is not held in memory.
HELD_BYTES = 64 * 2**20
#: Of such a table so much is held until it is written.
WRITTEN_BYTES = 2**20
#: About what a row takes in memory beside its characters.
ROW_BYTES = 500


def matches(name: str, pattern: str) -> bool:
    """Return whether a path within a folder, or its last part, fits a pattern with `*` and `?`."""
    last_part = name if "/" in pattern else PurePosixPath(name).name
    return fnmatch(name, pattern) or fnmatch(last_part, pattern)


@dataclass(frozen=True, kw_only=True)
class FileFields:
    """How the files of a source are read; the fields that all sources with files have in YAML.

    `format` says what a name does not. `header` names the columns of CSV and TSV without a header
    line. `columns` types text cells. `file_column` is a column to hold the name of each row's file.
    `questions` says which columns are what (see `QuestionColumns`). `derive` has templates for new
    columns.
    """

    format: FormatName | None = None
    header: tuple[str, ...] | None = None
    columns: dict[str, ColumnKind] = field(default_factory=dict)
    file_column: str | None = None
    questions: dict[str, str | list[str]] = field(default_factory=dict)
    derive: dict[str, str] = field(default_factory=dict)
    filters: tuple[RowFilter, ...] = ()

    def __post_init__(self) -> None:
        for role in self.questions.keys() - set(SAID_ROLES):
            hint = suggest(role, SAID_ROLES) or f"parts: {listing(SAID_ROLES)}"
            raise SpecError("E107", f"unknown key `{role}` in `questions`", hint=hint)

    def find_format(self, path: str | Path) -> FormatName:
        """Return the format of a file with this name; raises DataError E201 and E202."""
        name = Path(path).name
        ending, _ = split_endings(path)
        form = self.format or FORMATS.get(ending)
        if form is None:
            hint = f"endings: {listing(FORMATS)}, each also with {listing(COMPRESSIONS)}; "
            hint += "save a workbook as CSV"
            message = f"the ending of `{name}` names no format"
            raise refuse_file("E201", message, str(path), hint)
        if self.header is not None and form not in {"csv", "tsv"}:
            message = f"`header` is for CSV and TSV, and `{name}` is {form}"
            raise refuse_file("E202", message, str(path))
        return form


@dataclass(frozen=True)
class DataTable:
    """All rows of a source, before filters and selection; `digest` stands for its content."""

    rows: Rows
    digest: str

    @property
    def samples(self) -> Samples:
        """All rows, loaded."""
        return self.rows.load()


def load_table(
    path: str | Path,
    how: FileFields | None = None,
    *,
    by_trial: bool = False,
    shown: str | None = None,
) -> DataTable:
    """Return the rows of a data file, with the digest of its content.

    A file on shared storage (`s3://…`) is fetched first. With `by_trial`, rows of one sample may
    differ in the column `trial`. `shown` is the file's name in errors.
    """
    how = how or FileFields()
    shown = shown or str(path)
    if isinstance(path, str) and is_stored(path):
        path = fetch_object(open_object(path)).path
    content = Content(shown, Path(path))
    require_plain(content.path)
    try:
        rows = _read_rows(content, how)
        digest = content.digest
    except OSError as error:
        raise content.refuse_unreadable(error) from None
    check_ids(rows, by_trial=by_trial)
    return DataTable(rows, digest)


def _read_rows(content: Content, how: FileFields) -> Rows:
    form = how.find_format(content.path)
    read = READERS[form]
    if how.header is not None:
        read = partial(read, names=how.header)
    is_packed = content.path.suffix.lower() in COMPRESSIONS
    in_place: Path | None = None
    if form == "jsonl" and not is_packed and not how.columns:
        in_place = content.path.absolute()
    try:
        records = read(content)
        if how.columns:
            records = _type_cells(records, how.columns, content)
        rows = collect_rows(records, [content.file], in_place=in_place)
    except AnswerkeyError:
        if form not in {"parquet", "arrow"}:
            content.check_text()  # bytes that are no text explain every other mistake
        raise
    except UnicodeDecodeError as error:
        content.check_text()
        message = f"not valid {error.encoding}: {error.reason}"
        raise content.error("E203", message, hint=ENCODING_HINT) from None
    for name in how.columns:
        if name not in rows.columns:
            message = f"`columns` types `{name}`, which is not a column"
            where = Place(content.file, field=name)
            raise refuse_column(message, name, rows.columns, where)
    return rows


def _type_cells(
    records: Iterable[ParsedRow],
    kinds: Mapping[str, ColumnKind],
    content: Content,
) -> ParsedRows:
    """Yield the rows with their declared columns typed; cells that do not fit are E211."""
    errors = RowErrors(content.file)
    for record in records:
        fields = dict(record.fields)
        for name, kind in kinds.items():
            if name not in fields:
                continue
            try:
                fields[name] = convert_cell(fields[name], kind)
            except ValueError as error:
                where = Place(content.file, record.line, field=name)
                errors.add(DataError("E211", str(error), where=where))
        yield record._replace(fields=fields)
    errors.raise_any()


def collect_rows(
    records: Iterable[ParsedRow],
    files: Sequence[str],
    *,
    in_place: Path | None = None,
    is_limited: bool = True,
) -> Rows:
    """Return rows: in memory while they are few, else in a file of JSON Lines.

    `files` are the names of their files in errors. Rows of a file of JSON Lines may stay where they
    are, `in_place`. Unless `is_limited`, rows and cells may have any size, and stay in memory.
    E210 when there are no rows, E202 for cells that are too long.
    """
    types: defaultdict[str, set[type]] = defaultdict(set)
    held = []
    size = 0
    row_limit = find_line_limit() if is_limited else sys.maxsize
    row_file: RowFile | None = None
    held_bytes = HELD_BYTES
    for record in records:
        for name, cell in record.fields.items():
            types[name].add(type(cell))
        if record.size > row_limit:
            where = Place(files[record.file_index], record.line)
            raise DataError("E202", describe_long("the row", row_limit), where=where)
        held.append(record)
        size += record.size + ROW_BYTES
        if is_limited and size > held_bytes:
            row_file = row_file or RowFile(files, in_place)
            row_file.write(held)
            held = []
            size = 0
            held_bytes = WRITTEN_BYTES
    if not types:
        raise refuse_file("E210", "there are no rows", files[0], ROWS_HINT)
    names = list(types)
    check_names(names, Place(files[0]))
    if row_file is not None:
        row_file.write(held)
        return row_file.open_rows(types)
    samples = [
        build_sample(
            record.fields,
            names,
            number=number,
            file=files[record.file_index],
            line=record.line,
        )
        for number, record in enumerate(held, 1)
    ]
    return Samples(samples, names, files[0])


#: Where each row of a file of JSON Lines begins, and its line in which of the user's files.
MARKS = {
    "offset": pl.UInt64(),
    "line": pl.UInt32(),
    "file_index": pl.UInt32(),
}


class RowFile:
    """A file of JSON Lines with the rows of a table: the user's own, or a temporary copy.

    A copy is written here, and removed at the end of the process.
    """

    def __init__(
        self,
        files: Sequence[str],
        in_place: Path | None,
    ) -> None:
        self._files = files
        self._path = in_place
        self._is_copy = in_place is None
        self._marks: list[pl.DataFrame] = []

    def write(self, records: Sequence[ParsedRow]) -> None:
        """Note where rows begin, after adding them to a copy."""
        offsets = [record.offset for record in records]
        if self._is_copy:
            try:
                offsets = self._append(records)
            except OSError as error:
                file = self._files[0]
                message = f"cannot keep the rows of `{file}` in a temporary file: {error}"
                folder = tempfile.gettempdir()
                hint = f"make room in `{folder}`, or name another folder: `TMPDIR=FOLDER`"
                raise refuse_file("E201", message, file, hint) from None
        columns = [
            offsets,
            [record.line for record in records],
            [record.file_index for record in records],
        ]
        self._marks.append(pl.DataFrame(columns, MARKS, orient="col"))

    def _append(self, records: Sequence[ParsedRow]) -> list[int]:
        """Write rows to the copy, and return where they begin."""
        if self._path is None:
            descriptor, name = tempfile.mkstemp(prefix="answerkey-rows-", suffix=".jsonl")
            os.close(descriptor)
            self._path = Path(name)
            atexit.register(self._path.unlink, missing_ok=True)
        offsets = []
        with self._path.open("ab") as stream:
            for record in records:
                offsets.append(stream.tell())
                text = json.dumps(record.fields, ensure_ascii=False)
                stream.write(text.encode() + b"\n")
        return offsets

    def open_rows(self, types: Mapping[str, set[type]]) -> LineRows:
        """Return the rows that were written; `types` are those of the cells of each column."""
        path = self._path or Path()
        marks = pl.concat(self._marks)
        marks = pl.DataFrame([column.shrink_dtype() for column in marks])
        return LineRows(
            path,
            read_stamp(path),
            list(types),
            self._files,
            marks,
            range(marks.height),
            frozenset(name for name in types if types[name] <= {str, NoneType}),
        )


class ArrowStream(Protocol):
    """A table that gives itself by the Arrow C interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule with the rows."""


#: A table in memory, of whatever library.
Tabular = (
    ArrowStream | pl.LazyFrame | Mapping[str, Iterable[object]] | Iterable[Mapping[str, object]]
)
NO_TABLE = (
    "give a frame (Polars, pandas, Arrow, `datasets`), rows as mappings, columns by name, or a path"
)


def load_rows(
    data: Tabular | Iterable[object],
    *,
    name: str,
    by_trial: bool = False,
    lone: str = "",
) -> DataTable:
    """Return a table in memory with the digest of its content; `name` is its name in errors.

    Where a `lone` column will do, it may be given by itself.
    """
    records = _read_tabular(data, name, lone)
    rows = collect_rows(records, [name], is_limited=False)
    try:
        digest = digest_rows(rows)
    except UnicodeEncodeError as error:
        start = max(0, error.start - 40)
        text = error.object[start : error.end + 40]
        message = f"the text {text!r} holds half of a surrogate pair, which is not a character"
        raise refuse_file("E203", message, name) from None
    check_ids(rows, by_trial=by_trial)
    return DataTable(rows, digest)


def _read_tabular(
    data: object,
    name: str,
    lone: str,
) -> ParsedRows:
    """Yield the rows of a table of any library."""
    rows = _list_rows(data, name)
    if isinstance(rows, pl.LazyFrame):
        yield from read_frame(rows, name)
        return
    if lone and not any(isinstance(row, Mapping) for row in rows):
        rows = [{lone: cell} for cell in rows]
    for number, row in enumerate(rows, 1):
        try:
            fields: Any = plain(row)
        except TypeError as error:
            raise refuse_file("E202", f"`{name}`: row {number} holds {error}", name) from None
        if not isinstance(fields, dict):
            message = f"`{name}`: row {number} is a value of type {type(row).__name__}"
            raise refuse_file("E202", f"{message}, not a mapping", name, NO_TABLE)
        yield ParsedRow(number, fields, 0)


def _list_rows(
    data: Any,  # noqa: ANN401 - of any library
    name: str,
) -> pl.LazyFrame | list[Any]:
    """Return a table of any library as a frame of Polars, or as a list of rows.

    Values that have no type in common stay as they are: Arrow would make `1.0` of a `1` beside
    `1.5`, and give a mapping the keys of the others. So what pandas holds does not go that way.
    """
    if isinstance(data, pl.LazyFrame):
        return data
    if isinstance(data, Mapping):
        return _zip_columns(data, name)
    if hasattr(data, "reset_index") and hasattr(data, "columns"):  # of pandas
        # An index without a name only numbers the rows.
        frame = data.reset_index() if any(data.index.names) else data
        return _zip_columns(frame, name)
    if hasattr(data, "with_format") and hasattr(data, "num_rows"):  # `datasets` knows Arrow
        data = data.with_format("arrow")[:]
    is_column = hasattr(data, "dtype") or hasattr(data, "type")
    if hasattr(data, "__arrow_c_stream__") and not is_column:
        return _import_arrow(data, name)
    return _list_cells(data, name)


def _import_arrow(data: Any, name: str) -> pl.LazyFrame:  # noqa: ANN401 - of any library
    try:
        return pl.DataFrame(data).lazy()
    except FOREIGN as error:
        message = f"`{name}` cannot be read as a table: {str(error).splitlines()[0]}"
        code = "E202"
        if isinstance(error, pl.exceptions.DuplicateError):
            code = "E212"
        raise refuse_file(code, message, name, NO_TABLE) from None


def _list_cells(column: Any, name: str) -> list[Any]:  # noqa: ANN401 - of any library
    """Return the cells of a column, or the rows of a list; E202 for what is no list."""
    cells = column
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, method):
            cells = getattr(column, method)()
    is_value = isinstance(cells, str | bytes | set | frozenset | Mapping)
    if is_value or not hasattr(cells, "__iter__"):
        message = f"`{name}` is a value of type {type(column).__name__}, not a list"
        raise refuse_file("E202", message, name, NO_TABLE)
    return list(cells)


def _zip_columns(data: Any, name: str) -> list[dict[object, object]]:  # noqa: ANN401 - of any library
    """Return the rows of a table that is given by its columns."""
    columns = {}
    for label, cells in data.items():
        if label in columns:
            raise refuse_file("E212", f"`{name}`: column `{label}` appears twice", name)
        # One of several tables is no column.
        column = cells
        if hasattr(cells, "column_names"):
            column = None
        columns[label] = _list_cells(column, f"{name}.{label}")
    try:
        rows = list(zip(*columns.values(), strict=True))
    except ValueError:
        message = f"`{name}`: the columns differ in their number of cells"
        raise refuse_file("E202", message, name) from None
    return [dict(zip(columns, cells, strict=True)) for cells in rows]


def digest_rows(rows: Rows) -> str:
    """Return the sha256 of the rows as JSON lines, so that equal rows have equal digests."""
    digest = sha256()
    for sample in iterate_samples(rows):
        text = json.dumps(sample.fields, ensure_ascii=False)
        digest.update(text.encode() + b"\n")
    return digest.hexdigest()


def describe_template_error(
    label: str,
    error: RowError,
    sample: Sample,
) -> DataError:
    """Return the error of what `label` names on a row: E206 for a column that is not there."""
    is_missing = error.is_undefined and error.column is not None
    code = "E206" if is_missing else "E207"
    message = f"{label}: {error.message}"
    where = sample.place(error.column)
    return DataError(
        code,
        message,
        where=where,
        hint=error.hint,
    )


def _derive(
    how: FileFields,
    samples: Samples,
    errors: RowErrors,
) -> list[dict[str, object]]:
    """Return the fields of each row with its derived columns; null where a template fails.

    E212 for a column of the file that a template would replace without reading it.
    """
    rows = [dict(fields) for fields in samples.rows()]
    for name, source in how.derive.items():
        label = f"derived column `{name}`"
        template = Template.compile(source)
        is_read = template.columns is None or name in template.columns
        if name in samples.columns and not is_read:
            message = f"{label} would replace the column `{name}`, which it does not read"
            hint = f"rename it, or read `sample.{name}`"
            raise refuse_file(
                "E212",
                message,
                samples.file,
                hint,
                field=name,
            )
        values = template.values(samples)
        for sample, fields, value in zip(samples, rows, values, strict=True):
            fields[name] = None
            if isinstance(value, RowError):
                errors.add(describe_template_error(label, value, sample))
                continue
            try:
                fields[name] = plain(value)
            except TypeError as error:
                message = f"{label} yields {error}"
                raise refuse_file(
                    "E207",
                    message,
                    sample.file,
                    field=name,
                ) from None
    return rows


class DataFile(NamedTuple):
    """A file to be read: its name in errors, and what `file_column` says of it.

    A single one that is read as it stands may be an address on shared storage.
    """

    path: Path | str
    shown: str
    label: str


def read_files(
    files: Sequence[DataFile],
    how: FileFields,
    *,
    shown: str,
) -> DataTable:
    """Return the rows of all files, in their order; `shown` is the name of them all in errors."""
    makes_columns = how.derive or how.questions or how.file_column
    if len(files) == 1 and not makes_columns:
        file = files[0]
        table = load_table(file.path, how, shown=file.shown)
        digest = digest_files(how, [[table.digest, None]])
        return replace(table, digest=digest)
    contents = []

    def read_records() -> ParsedRows:
        errors = RowErrors(shown)
        for index, file in enumerate(files):
            table = load_table(file.path, how, shown=file.shown)
            label = None
            if how.file_column:
                label = file.label
            contents.append([table.digest, label])
            for sample, fields in _extend_rows(table.rows, file, how, errors):
                line = sample.line or 1
                size = measure_fields(fields)
                yield ParsedRow(
                    line,
                    fields,
                    size,
                    file_index=index,
                )
        errors.raise_any()

    names = [file.shown for file in files]
    rows = collect_rows(read_records(), names)
    check_ids(rows)
    return DataTable(rows, digest_files(how, contents))


def _extend_rows(
    rows: Rows,
    file: DataFile,
    how: FileFields,
    errors: RowErrors,
) -> Iterator[tuple[Sample, dict[str, object]]]:
    """Yield each row, and its fields with the columns that are made for it."""
    if how.file_column in rows.columns:
        message = f"`file_column` is `{how.file_column}`, which is a column of the file"
        raise refuse_file("E212", message, file.shown, "choose another name")
    questions = None
    if how.questions:
        questions = QuestionColumns.of(how.questions, rows)
    for _, samples in iterate_blocks(rows):
        block = samples
        if questions is not None:
            block = questions.derive(block)
        if how.file_column is not None:
            block = block.with_column(how.file_column, file.label)
        extended = _derive(how, block, errors)
        yield from zip(block, extended, strict=True)


def digest_files(how: FileFields, contents: Sequence[Sequence[str | None]]) -> str:
    """Return the hash of the content of all files, and of what is made of it."""
    roles = dict(how.questions)
    # Which column has the completions does not change the questions.
    roles.pop("completion", None)
    layout = [
        how.format,
        how.header,
        how.file_column,
        how.derive,
        roles,
    ]
    if len(contents) == 1 and not any(layout):
        return str(contents[0][0])
    text = json.dumps([contents, layout], sort_keys=True)
    return sha256(text.encode()).hexdigest()
