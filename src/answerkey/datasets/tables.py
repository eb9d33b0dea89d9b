"""Tables of rows: data files, several files joined, documents, and tables in memory.

Rows are held in memory while they are few. A large file of JSON Lines is read where it lies; any
other is written once as JSON Lines into a temporary file, which is removed at the end of the
process.
"""

from __future__ import annotations

import atexit
import json
import os
import tempfile
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import partial
from hashlib import sha256
from math import isnan
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from answerkey.datasets.cells import (
    ColumnKind,
    UnfitCellError,
    check_names,
    convert_cell,
    describe_unfit,
    plain,
)
from answerkey.datasets.content import (
    COMPRESSIONS,
    FOREIGN,
    SHOWN,
    Content,
    RowErrors,
    describe_long,
    describe_unreadable,
    find_cell_limit,
    refuse_file,
    require_plain,
)
from answerkey.datasets.formats import (
    FORMATS,
    READERS,
    ROWS_HINT,
    FormatName,
    Record,
    measure_fields,
    read_frame,
    split_endings,
)
from answerkey.datasets.questions import SAID_ROLES, QuestionColumns
from answerkey.datasets.rows import (
    MARK_ROWS,
    PLACE_KEY,
    LineRows,
    Rows,
    check_ids,
    complete_fields,
    iterate_blocks,
    name_row,
    read_stamp,
)
from answerkey.datasets.storage import fetch_object, is_stored, open_object
from answerkey.errors import (
    AnswerkeyError,
    DataError,
    Place,
    SpecError,
    listing,
    raise_all,
    refuse_column,
    suggest,
)
from answerkey.templates import RowError, RowFilter, Template
from answerkey.types import Notice, Sample, Samples

DELIMITED = frozenset({"csv", "tsv"})
BINARY = frozenset({"parquet", "arrow"})
WORKBOOKS = frozenset({".xlsx", ".xls", ".ods"})
#: The column in which a run keeps rows that were in memory, as JSON text.
SAMPLE_COLUMN = "sample"
#: A table with more bytes is not held in memory.
HELD_BYTES = 64 * 2**20
#: About what a row takes in memory beside its characters.
ROW_BYTES = 500


def matches(name: str, pattern: str) -> bool:
    """Return whether a path within a folder, or its last part, fits a pattern with `*` and `?`."""
    if fnmatch(name, pattern):
        return True
    return "/" not in pattern and fnmatch(name.rpartition("/")[2], pattern)


@dataclass(frozen=True, kw_only=True)
class FileFields:
    """How the files of a source are read; the fields that all sources with files have in YAML.

    `format` says what a name does not. `header` names the columns of CSV and TSV without a header
    line, and `skip_rows` are passed over at the top. `columns` types text cells. `file_column` is a
    column to hold the name of each row's file. `questions` says which columns are what (see
    `QuestionColumns`). `derive` has templates for new columns.
    """

    format: FormatName | None = None
    header: tuple[str, ...] | None = None
    skip_rows: int = 0
    columns: dict[str, ColumnKind] = field(default_factory=dict)
    file_column: str | None = None
    questions: dict[str, str | list[str]] = field(default_factory=dict)
    derive: dict[str, str] = field(default_factory=dict)
    filters: tuple[RowFilter, ...] = ()

    def __post_init__(self) -> None:
        if self.skip_rows < 0:
            raise SpecError("E108", f"`skip_rows` is {self.skip_rows}, it must not be negative")
        for role in self.questions.keys() - set(SAID_ROLES):
            hint = suggest(role, SAID_ROLES) or f"parts: {listing(SAID_ROLES)}"
            raise SpecError("E107", f"unknown key `{role}` in `questions`", hint=hint)

    def find_format(self, path: str | Path) -> FormatName:
        """Return the format of a file with this name; raises DataError E201 and E202."""
        name = Path(path).name
        ending = split_endings(path)[0]
        if not self.format and not ending:
            hint = f"endings: {listing(FORMATS)}, each also with {listing(COMPRESSIONS)}"
            if Path(path).suffix.lower() in WORKBOOKS:
                hint = f"save the sheet as CSV, and name that; {hint}"
            message = f"the ending of `{name}` names no format"
            raise refuse_file("E201", message, str(path), hint)
        form = self.format or FORMATS[ending]
        if (self.header is not None or self.skip_rows) and form not in DELIMITED:
            message = f"`header` and `skip_rows` are for CSV and TSV, and `{name}` is {form}"
            raise refuse_file("E202", message, str(path))
        return form

    @property
    def makes_no_column(self) -> bool:
        """Whether a single file is read as it stands."""
        return not self.derive and not self.questions and self.file_column is None


@dataclass(frozen=True)
class Table:
    """All rows of a source, before filters and selection; `digest` stands for its content."""

    rows: Rows
    digest: str
    notices: tuple[Notice, ...] = ()

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
) -> Table:
    """Return the rows of a data file, with the digest of its content and what is odd about it.

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
        raise describe_unreadable(content.path, error, content.file) from None
    check_ids(rows, by_trial=by_trial)
    return Table(rows, digest, tuple(content.notices))


def _read_rows(content: Content, how: FileFields) -> Rows:
    form = how.find_format(content.path)
    read = READERS[form]
    if how.header is not None or how.skip_rows:
        read = partial(read, names=how.header, skipped=how.skip_rows)
    in_place: Path | None = None
    if form == "jsonl" and not content.is_packed and content.wide is None and not how.columns:
        in_place = content.path.absolute()
    try:
        records = read(content)
        if how.columns:
            records = _type_cells(records, how.columns, content)
        rows = collect_rows(records, [content.file], in_place=in_place)
    except (AnswerkeyError, UnicodeDecodeError):
        if form not in BINARY:
            content.check_text()  # bytes that are no text explain every other mistake
        raise
    for name in how.columns:
        if name not in rows.columns:
            message = f"`columns` types `{name}`, which is not a column"
            where = Place(file=content.file, field=name)
            raise refuse_column(message, name, rows.columns, where)
    if form in {"jsonl", "json"}:
        content.notices.extend(check_names(rows.columns, content.place()))
    return rows


def _type_cells(
    records: Iterable[Record],
    kinds: Mapping[str, ColumnKind],
    content: Content,
) -> Iterator[Record]:
    """Yield the rows with their declared columns typed; cells that do not fit are E211."""
    errors = RowErrors(content.file)
    for record in records:
        fields = dict(record.fields)
        for name in kinds.keys() & fields.keys():
            try:
                fields[name] = convert_cell(fields[name], kinds[name])
            except UnfitCellError as error:
                message = describe_unfit(fields[name], kinds[name], error)
                where = Place(file=content.file, line=record.line, field=name)
                errors.add("E211", message, where=where)
        yield record._replace(fields=fields)
    errors.raise_any()


def collect_rows(
    records: Iterable[Record],
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
    columns: dict[str, None] = {}
    held: list[Record] = []
    size = 0
    cell_limit = find_cell_limit()
    long_cells = RowErrors(files[0])
    row_file: RowFile | None = None
    for record in records:
        if not record.fields.keys() <= columns.keys():
            columns.update(dict.fromkeys(record.fields))
        held.append(record)
        if not is_limited:
            continue
        if record.size > cell_limit:
            _refuse_long_cells(record, cell_limit, files, long_cells)
        size += record.size + ROW_BYTES
        if size > HELD_BYTES:
            row_file = row_file or RowFile(files, in_place)
            row_file.write(held)
            held = []
            size = 0
    if not held and row_file is None:
        raise refuse_file("E210", "the file has no rows", files[0], ROWS_HINT)
    long_cells.raise_any()
    if not columns:
        raise refuse_file("E210", "the rows of the file have no columns", files[0])
    if row_file is not None:
        row_file.write(held)
        return row_file.open_rows(list(columns))
    names = list(columns)
    samples: list[Sample] = []
    for number, record in enumerate(held, 1):
        fields = complete_fields(record.fields, names)
        file = files[record.file_index]
        samples.append(Sample(name_row(fields, number), fields, file, record.line))
    return Samples(samples, names, files[0])


def _refuse_long_cells(
    record: Record,
    limit: int,
    files: Sequence[str],
    errors: RowErrors,
) -> None:
    for name, cell in record.fields.items():
        text = cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False)
        if len(text) > limit:
            where = Place(file=files[record.file_index], line=record.line, field=name)
            errors.add("E202", describe_long("the cell", limit), where=where)


class RowFile:
    """A file of JSON Lines with the rows of a table: the user's own, or a temporary one.

    A temporary file is written here, and removed at the end of the process.
    """

    def __init__(self, files: Sequence[str], in_place: Path | None) -> None:
        self._files = files
        self._is_temporary = in_place is None
        self._path = in_place or _create_file(files[0])
        self._marks = array("q")
        self._mark_lines = array("q")
        self._count = 0

    def write(self, records: Iterable[Record]) -> None:
        """Add rows to a temporary file; of the user's own file only note where they begin."""
        if not self._is_temporary:
            for record in records:
                self._mark(record.line, record.offset)
            return
        with _needing_room(self._files[0]), self._path.open("ab") as stream:
            for record in records:
                self._mark(record.line, stream.tell())
                row = {PLACE_KEY: [record.line, record.file_index], **record.fields}
                stream.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")

    def _mark(self, line: int, offset: int) -> None:
        if self._count % MARK_ROWS == 0:
            self._marks.append(offset)
            self._mark_lines.append(line)
        self._count += 1

    def open_rows(self, columns: Sequence[str]) -> LineRows:
        """Return the rows that were written."""
        return LineRows(
            self._path,
            columns,
            self._marks,
            self._mark_lines,
            0,
            self._count,
            self._files,
            read_stamp(self._path),
        )


def _create_file(file: str) -> Path:
    with _needing_room(file):
        descriptor, name = tempfile.mkstemp(prefix="answerkey-rows-", suffix=".jsonl")
    os.close(descriptor)
    path = Path(name)
    atexit.register(path.unlink, missing_ok=True)
    return path


@contextmanager
def _needing_room(file: str) -> Iterator[None]:
    """Turn an error of the temporary file for the rows of `file` into E201."""
    try:
        yield
    except OSError as error:
        message = f"cannot keep the rows of `{file}` in a temporary file: {error}"
        hint = f"make room in `{tempfile.gettempdir()}`, or name another folder: `TMPDIR=FOLDER`"
        raise refuse_file("E201", message, file, hint) from None


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
) -> Table:
    """Return a table in memory with the digest of its content; `name` is its name in errors.

    Where a `lone` column will do, it may be given by itself.
    """
    notices: list[Notice] = []
    records = list(_read_tabular(data, name, lone, notices))
    if not records:
        raise refuse_file("E210", f"`{name}` has no rows", name)
    rows = collect_rows(records, [name], is_limited=False)
    try:
        digest = digest_rows(rows)
    except UnicodeEncodeError as error:
        start = max(0, error.start - 40)
        text = error.object[start : error.end + 40]
        message = f"the text {text!r} holds half of a surrogate pair, which is not a character"
        raise refuse_file("E203", message, name) from None
    check_ids(rows, by_trial=by_trial)
    return Table(rows, digest, tuple(notices))


def _read_tabular(
    data: Any,  # noqa: ANN401 - of any library
    name: str,
    lone: str,
    notices: list[Notice],
) -> Iterator[Record]:
    """Yield the rows of a table of any library.

    Values that have no type in common stay as they are: Arrow would make `1.0` of a `1` beside
    `1.5`, and give a mapping the keys of the others. So what pandas holds does not go that way.
    """
    if hasattr(data, "with_format") and isinstance(getattr(data, "num_rows", None), int):
        data = data.with_format("arrow")[:]  # of `datasets`, which knows Arrow
    is_pandas = hasattr(data, "reset_index") and hasattr(data, "columns")
    if is_pandas and any(data.index.names):
        data = data.reset_index()  # an index without a name only numbers the rows
    is_column = bool(lone) and (hasattr(data, "dtype") or hasattr(data, "type"))
    if isinstance(data, pl.LazyFrame):
        yield from read_frame(data, name, notices)
    elif is_pandas or isinstance(data, Mapping):
        yield from _read_columns(list(data.items()), name, notices)
    elif hasattr(data, "__arrow_c_stream__") and not is_column:
        yield from read_frame(_import_arrow(data, name).lazy(), name, notices)
    else:
        yield from _read_columns(_gather_columns(data, name, lone), name, notices)


def _import_arrow(data: Any, name: str) -> pl.DataFrame:  # noqa: ANN401 - of any library
    try:
        return pl.DataFrame(data)
    except FOREIGN as error:
        message = f"`{name}` cannot be read as a table: {str(error).splitlines()[0]}"
        code = "E212" if isinstance(error, pl.exceptions.DuplicateError) else "E202"
        raise refuse_file(code, message, name, NO_TABLE) from None


def _gather_columns(
    data: Any,  # noqa: ANN401 - of any library
    name: str,
    lone: str,
) -> list[tuple[object, Any]]:
    """Return the columns of a list of mappings, or the lone column that a list of cells is."""
    rows: Any = list_cells(data)
    if rows is None:
        message = f"`{name}` is a value of type {type(data).__name__}, not a table"
        raise refuse_file("E202", message, name, NO_TABLE)
    if lone and not any(isinstance(row, Mapping) for row in rows):
        return [(lone, rows)]
    names: dict[object, None] = {}
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            kind = type(row).__name__
            message = f"`{name}`: row {number} is a value of type {kind}, not a mapping"
            raise refuse_file("E202", message, name, NO_TABLE)
        names.update(dict.fromkeys(row))
    columns: list[tuple[object, Any]] = []
    for key in names:
        cells = [row.get(key) for row in rows]
        columns.append((key, cells))
    return columns


def list_cells(column: Any) -> list[object] | None:  # noqa: ANN401 - of any library
    """Return the cells of a column of any library; None for what is no list."""
    is_one_value = isinstance(column, str | bytes | set | frozenset | Mapping)
    if is_one_value or not hasattr(column, "__iter__"):
        return None
    unwrap: Any = None
    for method in ("tolist", "to_list", "to_pylist"):
        unwrap = getattr(column, method, unwrap)
    cells = list(column) if unwrap is None else unwrap()
    if not isinstance(cells, list):
        return None
    return cells


def _read_columns(
    columns: Sequence[tuple[object, Any]],
    file: str,
    notices: list[Notice],
) -> Iterator[Record]:
    """Yield the rows of a table that is given by its columns."""
    names: list[str] = []
    for label, _ in columns:
        if not isinstance(label, str):
            raise refuse_file("E202", f"the column name {label!r} is not text", file)
        names.append(label)
    notices += check_names(names, Place(file=file))
    table: dict[str, list[object]] = {}
    for name, (_, cells) in zip(names, columns, strict=True):
        table[name] = _read_column(name, cells, file)
    lengths = {len(cells) for cells in table.values()}
    if len(lengths) > 1:
        counts = ", ".join(f"`{name}` {len(cells)}" for name, cells in table.items())
        message = f"`{file}`: the columns differ in their number of cells: {counts}"
        raise refuse_file("E202", message, file)
    for number, cells in enumerate(zip(*table.values(), strict=True), 1):
        fields = dict(zip(names, cells, strict=True))
        yield Record(number, fields, measure_fields(fields))


def _read_column(
    name: str,
    column: Any,  # noqa: ANN401 - of any library
    file: str,
) -> list[object]:
    cells = None if hasattr(column, "column_names") else list_cells(column)
    if cells is None:
        kind = type(column).__name__
        message = f"`{file}`: column `{name}` is a value of type {kind}, not a list of cells"
        hint = "a single row is written `[{…}]`; of several tables choose one"
        raise refuse_file("E202", message, file, hint)
    values: list[object] = []
    for cell in cells:
        try:
            value = plain(cell)
        except TypeError as error:
            message = f"the column holds {error}"
            raise refuse_file("E202", message, file, field=name) from None
        # pandas has NaN for null.
        is_missing = isinstance(value, float) and isnan(value)
        values.append(None if is_missing else value)
    return values


def digest_rows(rows: Rows, *, with_ids: bool = False) -> str:
    """Return the sha256 of the rows as JSON lines, so that equal rows have equal digests."""
    digest = sha256()
    for _, block in iterate_blocks(rows):
        for sample in block:
            row = [sample.id, sample.fields] if with_ids else sample.fields
            digest.update(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    return digest.hexdigest()


@dataclass
class TemplateErrors:
    """Rows on which templates fail, by kind: the first of them, and how many.

    A template that fails everywhere in the same way is one mistake, told once at its first row.
    What is undefined is E206, with `only_columns` only where a column is; any other failure is
    E207.
    """

    only_columns: bool = False
    first: dict[tuple[str, str], tuple[RowError, Place]] = field(default_factory=dict)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(
        self,
        label: str,
        error: RowError,
        sample: Sample,
    ) -> None:
        """Remember that what `label` names failed on a row."""
        kind = (label, error.message)
        self.first.setdefault(kind, (error, sample.place(error.column)))
        self.counts[kind] += 1

    def raise_any(self) -> None:
        """Raise what failed; do nothing if nothing did."""
        errors: list[DataError] = []
        for kind, (error, where) in list(self.first.items())[:SHOWN]:
            label, message = kind
            text = f"{label}: {message}"
            if self.counts[kind] > 1:
                text += f" (and in {self.counts[kind] - 1} more rows)"
            is_missing = error.is_undefined and not (self.only_columns and error.column is None)
            code = "E206" if is_missing else "E207"
            errors.append(
                DataError(
                    code,
                    text,
                    where=where,
                    hint=error.hint,
                )
            )
        raise_all(errors)


def _refuse_lost(
    how: FileFields,
    names: Collection[str],
    file: str,
) -> None:
    """Raise E212 for a column of the file that a template would replace without reading it."""
    for name, source in how.derive.items():
        columns = Template.compile(source).columns
        if name in names and columns is not None and name not in columns:
            message = (
                f"derived column `{name}` would replace the column `{name}` of the file, "
                "which it does not read"
            )
            hint = f"rename one of them; a template that reads `sample.{name}` may replace it"
            raise refuse_file("E212", message, file, hint, field=name)


def _derive(
    how: FileFields,
    samples: Samples,
    errors: TemplateErrors,
) -> list[dict[str, object]]:
    """Return the fields of each row with its derived columns; null where a template fails."""
    rows = [dict(fields) for fields in samples.rows()]
    for name, source in how.derive.items():
        values = Template.compile(source).values(samples)
        for sample, fields, value in zip(
            samples,
            rows,
            values,
            strict=True,
        ):
            if isinstance(value, RowError):
                errors.add(f"derived column `{name}`", value, sample)
                fields[name] = None
                continue
            try:
                fields[name] = plain(value)
            except TypeError as error:
                message = f"derived column `{name}` yields {error}"
                raise refuse_file("E207", message, sample.file, field=name) from None
    return rows


@dataclass(frozen=True)
class DataFile:
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
) -> Table:
    """Return the rows of all files, in their order; `shown` is the name of them all in errors."""
    layout: list[object] = []
    if how.format is not None or how.header is not None or how.skip_rows:
        layout = [how.format, how.header, how.skip_rows]
    if len(files) == 1 and how.makes_no_column:
        table = load_table(files[0].path, how, shown=files[0].shown)
        if layout:
            table = replace(table, digest=_hash([table.digest, *layout]))
        return table
    where = Place(file=files[0].shown if len(files) == 1 else shown)
    if how.file_column is not None:
        check_names([how.file_column], where)
    check_names(list(how.derive), where)
    return _join_files(files, how, layout)


def _join_files(
    files: Sequence[DataFile],
    how: FileFields,
    layout: list[object],
) -> Table:
    """Return the rows of one file after the other, with the columns that are made for them."""
    notices: dict[Notice, None] = {}
    contents: list[list[str | None]] = []

    def read_records() -> Iterator[Record]:
        errors = TemplateErrors(only_columns=True)
        for index, file in enumerate(files):
            table = load_table(file.path, how, shown=file.shown)
            notices.update(dict.fromkeys(table.notices))
            contents.append([table.digest, file.label if how.file_column else None])
            for line, fields in _extend_rows(table.rows, file, how, errors):
                yield Record(line, fields, measure_fields(fields), file_index=index)
        errors.raise_any()

    rows = collect_rows(read_records(), [file.shown for file in files])
    check_ids(rows)
    # Which column has the completions does not change the questions.
    roles = dict(how.questions)
    roles.pop("completion", None)
    derived = list(how.derive.items())
    parts = [contents, layout, how.file_column, derived, sorted(roles.items())]
    return Table(rows, _hash(parts), tuple(notices))


def _extend_rows(
    rows: Rows,
    file: DataFile,
    how: FileFields,
    errors: TemplateErrors,
) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the line and the fields of each row, with the columns that are made for it."""
    if how.file_column in rows.columns:
        message = f"`file_column` is `{how.file_column}`, which is a column of the file"
        hint = "choose another name there, or rename the column in the file"
        raise refuse_file("E212", message, file.shown, hint)
    _refuse_lost(how, rows.columns, file.shown)
    questions = QuestionColumns.of(how.questions, rows) if how.questions else None
    for _, block in iterate_blocks(rows):
        samples = block if questions is None else questions.derive(block)
        if how.file_column is not None:
            samples = samples.with_column(how.file_column, file.label)
        derived = _derive(how, samples, errors)
        for sample, fields in zip(samples, derived, strict=True):
            yield sample.line or 1, fields


def _hash(parts: object) -> str:
    return sha256(json.dumps(parts).encode()).hexdigest()
