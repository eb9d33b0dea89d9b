"""Files become tables: several files as one table, columns that are derived, the cache of tables.

Large files that are no Parquet are read once, and kept as Parquet in the user's cache folder. An entry there
is named by a hash of the decompressed content, of the format and of how cells are typed. Nothing depends on
the cache: where it is switched off, or cannot be written, the table is a temporary file.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import partial
from hashlib import sha256
from itertools import accumulate
from math import isnan
from pathlib import Path
from queue import Full, Queue
from typing import TYPE_CHECKING, Any, Protocol
from zlib import crc32

import polars as pl
from polars.io.plugins import register_io_source

from answerkey.datasets.columns import (
    LINE,
    BuiltTable,
    Cells,
    Chunk,
    Chunks,
    ColumnKind,
    SpillFolder,
    build_table,
    check_names,
    make_plain,
)
from answerkey.datasets.content import (
    COMPRESSIONS,
    FOREIGN,
    HELD_BYTES,
    SHOWN,
    Content,
    describe_long,
    describe_unreadable,
    find_line_limit,
    read_content,
)
from answerkey.datasets.formats import (
    CHUNK_ROWS,
    FORMATS,
    READERS,
    FormatName,
    is_arrow_file,
    read_frames,
    split_endings,
)
from answerkey.datasets.questions import SAID_ROLES, QuestionColumns
from answerkey.datasets.rows import (
    BLOCK_ROWS,
    Rows,
    RowsOver,
    StoredRows,
    check_ids,
    iterate_blocks,
    name_samples,
    open_parquet,
)
from answerkey.datasets.storage import fetch_object, find_digest, is_stored, open_cache_folder, open_object
from answerkey.errors import AnswerkeyError, DataError, Place, SpecError, listing, raise_all, suggest
from answerkey.templates import RowError, RowFilter, Template
from answerkey.types import Notice, Samples, read_limit

if TYPE_CHECKING:
    from polars._typing import ParquetMetadata

_DELIMITED = frozenset({"csv", "tsv"})
_BINARY = frozenset({"parquet", "arrow"})
#: Compressed and binary files hold several times their size.
_EXPANSION = 8
#: `off`, or how many gigabytes the cache may hold.
VARIABLE = "ANSWERKEY_TABLE_CACHE"
GIGABYTE = 10**9
DEFAULT_BYTES = 20 * GIGABYTE
#: Changes when the same file would be stored otherwise.
VERSION = 1
#: What was used so many seconds ago may be in use, and what was begun so long ago was given up.
REST_SECONDS, GIVEN_UP_SECONDS = 3600.0, 86_400.0
GROUP_BYTES = 64 * 2**20
#: Rows that are so many times as large as the first ones need groups of fewer rows.
_UNEVEN = 4
_KEY = "answerkey"
_SPILL = ".draft-"


def matches(name: str, pattern: str) -> bool:
    """Return whether a path within a folder, or the name at its end, fits a pattern with `*` and `?`."""
    return fnmatch(name, pattern) or ("/" not in pattern and fnmatch(name.rpartition("/")[2], pattern))


@dataclass(frozen=True, kw_only=True)
class FileFields:
    """How the files of a source are read; the fields that all sources with files have in YAML.

    `format` says what a name does not. `header` names the columns of CSV and TSV without a header line, and
    `skip_rows` are passed over at the top. `columns` types text cells. `file_column` is a column to hold the
    name of each row's file. `questions` says which columns are what (see `QuestionColumns`). `derive` has
    templates for new columns.
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
        name, ending = Path(path).name, split_endings(path)[0]
        if not self.format and not ending:
            message = f"the ending of `{name}` names no format"
            hint = f"endings: {listing(FORMATS)}, each also with {listing(COMPRESSIONS)}"
            if Path(path).suffix.lower() in {".xlsx", ".xls", ".ods"}:
                hint = f"save the sheet as CSV, and name that; {hint}"
            raise DataError("E201", message, where=Place(file=str(path)), hint=hint)
        form = self.format or FORMATS[ending]
        if (self.header is not None or self.skip_rows) and form not in _DELIMITED:
            message = f"`header` and `skip_rows` are for CSV and TSV, and `{name}` is {form}"
            raise DataError("E202", message, where=Place(file=str(path)))
        return form

    def lies_in_place(self, name: str) -> bool:
        """Return whether a file with this name on shared storage is read there: Parquet, as it stands."""
        is_plain = self.find_format(name) == "parquet" and not split_endings(name)[1]
        return is_plain and not self.columns and self.makes_no_column

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
    path: str | Path, how: FileFields | None = None, *, by_trial: bool = False, shown: str | None = None
) -> Table:
    """Return the rows of a data file, compressed or not, with the digest of its content and what is odd.

    The file may be on shared storage (`s3://…`): Parquet is read where it lies, another object is fetched.
    Of `how` it is used how one file is read. With `by_trial`, rows of one sample may differ in the column
    `trial`. `shown` is the file's name in errors.
    """
    how = how or FileFields()
    rows: Rows | None = None
    notices: tuple[Notice, ...] = ()
    if isinstance(path, str) and is_stored(path):
        shown = shown or path
        stored = open_object(path)
        if how.lies_in_place(stored.name):
            rows = open_parquet(Content(shown, Path(stored.name), raw=b""), stored)
        if rows is None:
            path = fetch_object(stored, "".join(split_endings(stored.name))).path
        else:
            digest = find_digest(stored)
    if rows is None:
        content = read_content(path, shown=shown)
        try:
            rows, notices = _open_rows(content, how, how.find_format(path))
            digest = content.digest
        except OSError as error:
            raise describe_unreadable(content.path, error, content.file) from None
    notices = notices or check_names(rows.columns, Place(file=rows.file))
    if not len(rows):
        raise DataError("E210", "the file has no rows", where=Place(file=rows.file))
    check_ids(rows, by_trial=by_trial)
    return Table(rows, digest, notices)


def _open_rows(content: Content, how: FileFields, form: FormatName) -> tuple[Rows, tuple[Notice, ...]]:
    """Return where the rows lie: in the file itself, in memory when they are few, else in the cache."""
    if form == "parquet" and not content.is_packed and not how.columns:
        found = open_parquet(content)
        if found is not None:
            return found, ()
    name, read = str(form), READERS[form]
    if how.header is not None or how.skip_rows:
        # The name is part of the key under which a large file is kept as a table.
        name = f"{form} {json.dumps([how.header, how.skip_rows])}"
        read = partial(read, names=how.header, skipped=how.skip_rows)

    def build(chunks: Chunks) -> BuiltTable:
        readable, notices = content, list[Notice]()
        if form in _BINARY and isinstance(chunks, SpillFolder):
            readable = chunks.unpack(content)
        try:
            return build_table(read(readable, notices), content.file, how.columns, chunks, notices=notices)
        except (AnswerkeyError, UnicodeDecodeError):
            if form not in _BINARY:
                content.check_text()  # what is no text at all is told first
            raise

    is_small = content.raw is not None or (form == "arrow" and not is_arrow_file(content))
    key = "" if is_small else name_entry(content.digest, name, how.columns)
    rows, notices, _ = _build_rows(build, key, content.file, is_small=is_small)
    return rows, notices


#: The rows of a table, what is said about it, and how many rows each of several files has.
BuiltRows = tuple[Rows, tuple[Notice, ...], tuple[int, ...]]


def _build_rows(build: Callable[[Chunks], BuiltTable], key: str, file: str, *, is_small: bool) -> BuiltRows:
    """Return the rows of a table; a large one is kept in the cache, and built only if it has not been before.

    Where there is no room, not even for temporary files, it is held in memory, as a small one is.
    """
    notices: tuple[Notice, ...] = ()
    if not is_small:
        try:
            return _keep_table(key, build, file)
        except (OSError, pl.exceptions.PolarsError) as error:
            notices = (Notice(f"`{file}` is held in memory: it cannot be kept as a table: {error}"),)
    chunks: dict[int, pl.DataFrame] = {}
    built = build(chunks)
    return _join_chunks(chunks, built, file), (*built.notices, *notices), built.spans


def _join_chunks(chunks: dict[int, pl.DataFrame], built: BuiltTable, file: str) -> Samples:
    whole = pl.concat([chunks[number] for number in sorted(chunks)], rechunk=True)
    return name_samples(whole.drop(LINE), whole[LINE].alias("line"), built.encoded, file)


class ArrowStream(Protocol):
    """A table that gives itself by the Arrow C interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule with the rows."""


#: A table in memory, of whatever library; see `gather_table`.
Tabular = ArrowStream | pl.LazyFrame | Mapping[str, Iterable[object]] | Iterable[Mapping[str, object]]
_NO_TABLE = "give a frame (Polars, pandas, Arrow, `datasets`), rows as mappings, columns by name, or a path"


def load_rows(
    data: Tabular | Iterable[object], *, name: str, by_trial: bool = False, lone: str = ""
) -> Table:
    """Return a table in memory with the digest of its content; `name` is its name in errors.

    Where a `lone` column will do, it may be given by itself.
    """
    chunks: dict[int, pl.DataFrame] = {}
    notices: list[Notice] = []
    found = gather_table(data, name, lone=lone)
    if isinstance(found, pl.DataFrame):
        rows, parts = found.height, read_frames(found, name, notices)
    else:
        rows, parts = max(map(len, found.values()), default=0), _read_columns(found, name, notices)
    if not rows:
        raise DataError("E210", f"`{name}` has no rows", where=Place(file=name))
    try:
        built = build_table(parts, name, {}, chunks, notices=notices, is_limited=False)
    except UnicodeEncodeError as error:
        message = f"the text {error.object!r} holds half of a surrogate pair, which is not a character"
        raise DataError("E203", message, where=Place(file=name)) from None
    held = _join_chunks(chunks, built, name)
    check_ids(held, by_trial=by_trial)
    return Table(held, digest_rows(held), built.notices)


def gather_table(data: Any, name: str, *, lone: str = "") -> pl.DataFrame | dict[str, list[object]]:  # noqa: ANN401 - of any library
    """Return a table of any library as a frame, or as Python values by column.

    Values that have no type in common stay as they are: Arrow would make `1.0` of a `1` beside `1.5`, and
    give a mapping the keys of the others. So what pandas holds does not go that way.
    """
    where, pandas = Place(file=name), sys.modules.get("pandas")
    is_column = bool(lone) and any(hasattr(data, one) for one in ("dtype", "type"))
    if hasattr(data, "with_format") and isinstance(getattr(data, "num_rows", None), int):
        data = data.with_format("arrow")[:]  # of `datasets`, which knows Arrow
    if isinstance(data, pl.LazyFrame | pl.DataFrame):
        return data.lazy().collect()
    if pandas is not None and isinstance(data, pandas.DataFrame):
        # An index without a name only numbers the rows.
        levels = [data.index.get_level_values(n) for n, one in enumerate(data.index.names) if one is not None]
        named = [(one.name, one) for one in (*levels, *(data.iloc[:, n] for n in range(data.shape[1])))]
    elif isinstance(data, Mapping):
        named = list(data.items())
    elif hasattr(data, "__arrow_c_stream__") and not is_column:
        try:
            return pl.DataFrame(data)
        except FOREIGN as error:
            message, code = f"`{name}` cannot be read as a table: {str(error).splitlines()[0]}", "E202"
            code = "E212" if isinstance(error, pl.exceptions.DuplicateError) else code
            raise DataError(code, message, where=where, hint=_NO_TABLE) from None
    else:
        rows: Any = _list_cells(data)
        if lone and rows is not None and not any(isinstance(one, Mapping) for one in rows):
            return {lone: rows}
        wrong = [(n, one) for n, one in enumerate(rows or (), 1) if not isinstance(one, Mapping)]
        if rows is None or wrong:
            number, other = wrong[0] if wrong else (0, data)
            message = f"is a value of type {type(other).__name__}, not a {'mapping' if wrong else 'table'}"
            what = f"`{name}`: row {number}" if wrong else f"`{name}`"
            raise DataError("E202", f"{what} {message}", where=where, hint=_NO_TABLE)
        names = dict.fromkeys(key for row in rows for key in row)
        named = [(key, [row.get(key) for row in rows]) for key in names]
    for label, _ in named:
        if not isinstance(label, str):
            raise DataError("E202", f"the column name {label!r} is not text", where=where)
    check_names([label for label, _ in named], where)
    found: dict[str, list[object]] = {}
    for label, column in named:
        listed = None if hasattr(column, "column_names") else _list_cells(column)
        if listed is None:
            what = f"is a value of type {type(column).__name__}, not a list of cells"
            hint = "a single row is written `[{…}]`; of several tables choose one"
            raise DataError("E202", f"`{name}`: column `{label}` {what}", where=where, hint=hint)
        found[label] = listed
    if len(set(map(len, found.values()))) > 1:
        told = ", ".join(f"`{label}` {len(cells)}" for label, cells in found.items())
        raise DataError("E202", f"`{name}`: the columns differ in their number of cells: {told}", where=where)
    return found


def _list_cells(column: Any) -> list[object] | None:  # noqa: ANN401 - of any library
    """Return the cells of a column of any library; None for what is no list. NaN is null in pandas."""
    if isinstance(column, str | bytes | set | frozenset | Mapping) or not hasattr(column, "__iter__"):
        return None
    ways = (getattr(column, way, None) for way in ("to_pylist", "to_list", "tolist"))
    unwrap: Any = next(filter(callable, ways), None)
    cells = list(column) if unwrap is None else unwrap()
    if getattr(column, "hasnans", False):
        cells = [None if gone else cell for cell, gone in zip(cells, column.isna().tolist(), strict=True)]
    return cells if isinstance(cells, list) else None


def _read_columns(
    columns: Mapping[str, Sequence[object]], file: str, notices: list[Notice]
) -> Iterator[Chunk]:
    notices += check_names(list(columns), Place(file=file))
    found: dict[str, Cells] = {}
    for name, given in columns.items():
        try:
            cells = make_plain(given)
        except TypeError as error:
            place = Place(file=file, field=name)
            raise DataError("E202", f"the column holds {error}", where=place) from None
        kinds = set(map(type, cells))
        if float in kinds and kinds - {float, int, type(None)}:  # among texts, pandas has NaN for null
            cells = [None if isinstance(cell, float) and isnan(cell) else cell for cell in cells]
        found[name] = cells
    yield found, range(1, 1 + max(map(len, columns.values())))


def digest_rows(rows: Rows, *, with_ids: bool = False) -> str:
    """Return the sha256 of the rows as JSON lines, so that equal rows have equal digests."""
    digest = None
    for _, block in iterate_blocks(rows):
        frame = block.frame.select(block.ids.alias(""), pl.all()) if with_ids else block.frame
        if digest is None:
            header = [list(map(str, frame.schema.items())), sorted(block.encoded)]
            digest = sha256(f"{json.dumps(header)}\n".encode())
        # JSON lines write a float that is not a number as null; as text it stays apart.
        digest.update(frame.with_columns(pl.selectors.float().cast(pl.String)).write_ndjson().encode())
    return (digest or sha256()).hexdigest()


@dataclass
class TemplateErrors:
    """Rows on which templates fail, by kind: the first of them, and how many.

    A template that fails everywhere in the same way is one mistake, told once at its first row. What is
    undefined is E206, with `only_columns` only where a column is; any other failure is E207.
    """

    only_columns: bool = False
    first: dict[tuple[str, str], tuple[RowError, Place]] = field(default_factory=dict)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, label: str, error: RowError, samples: Samples, row: int) -> None:
        """Remember that what `label` names failed on a row."""
        kind = label, error.message
        if kind not in self.first:
            self.first[kind] = error, samples.place(row, error.column)
        self.counts[kind] += 1

    def raise_any(self) -> None:
        """Raise what failed; nothing if nothing did."""
        errors: list[DataError] = []
        for kind, (error, where) in list(self.first.items())[:SHOWN]:
            rest = f" (and in {self.counts[kind] - 1} more rows)" if self.counts[kind] > 1 else ""
            is_missing = error.is_undefined and not (self.only_columns and error.column is None)
            text = f"{kind[0]}: {kind[1]}{rest}"
            errors.append(DataError("E206" if is_missing else "E207", text, where=where, hint=error.hint))
        raise_all(errors)


def _refuse_lost(how: FileFields, names: Collection[str], file: str) -> None:
    """Raise E212 for a column of the file that a template would replace without reading it."""
    for name, source in how.derive.items():
        read = Template.compile(source).columns
        if name in names and read is not None and name not in read:
            message = f"derived column `{name}` would replace the column `{name}` of the file"
            hint = f"rename one of them; a template that reads `sample.{name}` may replace it"
            where = Place(file=file, field=name)
            raise DataError("E212", f"{message}, which it does not read", where=where, hint=hint)


def _derive(how: FileFields, samples: Samples, errors: TemplateErrors) -> dict[str, Sequence[object]]:
    """Return new columns, over the rows as their file has them; null where a template fails."""
    columns: dict[str, Sequence[object]] = {}
    for name, source in how.derive.items():
        values = list(Template.compile(source).values(samples))
        for row, value in enumerate(values):
            if isinstance(value, RowError):
                errors.add(f"derived column `{name}`", value, samples, row)
                values[row] = None
        try:
            columns[name] = make_plain(values)
        except TypeError as error:
            where = Place(file=samples.file, field=name)
            raise DataError("E207", f"derived column `{name}` yields {error}", where=where) from None
    return columns


@dataclass(frozen=True)
class DataFile:
    """A file to be read: its name in errors, and what `file_column` says of it.

    A single one that is read as it stands may be an address on shared storage.
    """

    path: Path | str
    shown: str
    label: str


def read_files(files: Sequence[DataFile], how: FileFields, *, shown: str) -> Table:
    """Return the rows of all files, in their order; `shown` is the name of them all in errors."""
    layout: list[object] = [how.format, how.header, how.skip_rows]
    layout = [] if layout == [None, None, 0] else layout  # the names say it all
    if len(files) == 1 and how.makes_no_column:
        table = load_table(files[0].path, how, shown=files[0].shown)
        return replace(table, digest=_hash([table.digest, *layout])) if layout else table
    shown = files[0].shown if len(files) == 1 else shown
    if how.file_column is not None:
        check_names([how.file_column], Place(file=shown))
    check_names(list(how.derive), Place(file=shown))
    # The contents stand for the rows, and all that is said about how they are read.
    contents = [
        [read_content(one.path, shown=one.shown).digest, one.label if how.file_column else None]
        for one in files
    ]
    # Which column has the completions does not change the questions.
    made = [sorted((role, name) for role, name in how.questions.items() if role != "completion")]
    digest = _hash([contents, layout, how.file_column, list(how.derive.items()), *made])
    size = 0
    for path in (Path(one.path) for one in files):
        ending, packed = split_endings(path)
        is_expanding = packed or FORMATS.get(ending) in _BINARY
        size += path.stat().st_size * (_EXPANSION if is_expanding else 1)

    def build(chunks: Chunks) -> BuiltTable:
        notices: dict[Notice, None] = {}
        spans: list[int] = []
        parts = _extend_files(files, how, notices, spans)
        return build_table(parts, shown, {}, chunks, notices=notices, spans=spans)

    key = name_entry(_hash([digest, how.questions.get("completion")]), "joined", {})
    is_small = size <= HELD_BYTES
    rows, notices, spans = _build_rows(build, key, shown, is_small=is_small)
    if len(files) > 1:
        starts = tuple(accumulate(spans, initial=0))[:-1]
        rows = FiledRows(rows, tuple(one.shown for one in files), starts)
    check_ids(rows)
    return Table(rows, digest, notices)


def _hash(parts: object) -> str:
    return sha256(json.dumps(parts).encode()).hexdigest()


def _extend_files(
    files: Sequence[DataFile], how: FileFields, notices: dict[Notice, None], spans: list[int]
) -> Iterator[Chunk]:
    """Yield the rows of one file after the other, with the columns that are made for them.

    Only what is read of the file at hand is in memory. What is odd goes to `notices`, how many rows each file
    has to `spans`.
    """
    errors = TemplateErrors(only_columns=True)
    for file in files:
        table = load_table(file.path, how, shown=file.shown)
        notices.update(dict.fromkeys(table.notices))
        spans.append(0)
        if how.file_column in table.rows.columns:
            message = f"`file_column` is `{how.file_column}`, which is a column of the file"
            hint = "choose another name there, or rename the column in the file"
            raise DataError("E212", message, where=Place(file=file.shown), hint=hint)
        _refuse_lost(how, table.rows.columns, file.shown)
        asked = QuestionColumns.of(how.questions, table.rows) if how.questions else None
        for _, block in iterate_blocks(table.rows, size=CHUNK_ROWS):
            samples = block if asked is None else asked.derive(block)
            if how.file_column is not None:
                label = pl.lit(file.label, pl.String).alias(how.file_column)
                samples = replace(samples, frame=samples.frame.with_columns(label))
            columns: dict[str, Cells] = {
                name: samples.values(name) if name in samples.encoded else samples.frame[name]
                for name in samples.columns
            }
            lines = range(1, len(samples) + 1) if samples.lines is None else samples.lines.to_list()
            spans[-1] += len(samples)  # a row may hold several questions
            yield {**columns, **_derive(how, samples, errors)}, lines
    errors.raise_any()


@dataclass(frozen=True)
class FiledRows(RowsOver):
    """Rows out of several files, one after the other, of which each knows its file.

    `starts` are the positions of the first rows of the files; `offset` is that of the first row here.
    """

    names: tuple[str, ...]
    starts: tuple[int, ...]
    offset: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def ids(self) -> pl.Series:
        """The ids of all rows."""
        return self.rows.ids

    def slice(self, offset: int, length: int) -> Rows:
        """Return the rows from `offset` on, at most `length` of them."""
        return replace(self, rows=self.rows.slice(offset, length), offset=self.offset + offset)

    def load(self, columns: Collection[str] | None = None) -> Samples:
        """Return the rows, with all columns or with those named that there are, each with its file."""
        samples = self.rows.load(columns)
        places = pl.int_range(self.offset, self.offset + len(samples), eager=True, dtype=pl.Int64)
        numbers = pl.Series(self.starts, dtype=pl.Int64).search_sorted(places, side="right") - 1
        return replace(samples, files=pl.Series("file", self.names, dtype=pl.String).gather(numbers))


def read_documents(folder: Path, paths: Sequence[Path], how: FileFields) -> Table:
    """Return a row for each text file: `sample_id` (the hash of its text), `file_name` and `content`."""
    rows: list[dict[str, object]] = []
    longest = find_line_limit()
    for path in paths:
        content = Content(str(path), path)
        content.check_text()
        with content.open_text() as stream:
            text = stream.read(longest + 1)
        if len(text) > longest:
            raise content.error("E202", describe_long("the document", longest))
        name = path.relative_to(folder).as_posix()
        rows.append({"sample_id": sha256(text.encode()).hexdigest(), "file_name": name, "content": text})
    table = load_rows(rows, name=str(folder))
    if not how.derive:
        return table
    _refuse_lost(how, table.rows.columns, str(folder))
    errors = TemplateErrors(only_columns=True)
    columns = _derive(how, table.samples, errors)
    errors.raise_any()
    cells = zip(*columns.values(), strict=True)
    rows = [row | dict(zip(columns, own, strict=True)) for row, own in zip(rows, cells, strict=True)]
    return load_rows(rows, name=str(folder))


def name_entry(digest: str, form: str, kinds: Mapping[str, str]) -> str:
    """Return the name of the cache entry of a content that is read in this way."""
    return _hash([VERSION, digest, form, sorted(kinds.items())])


class _UnevenError(Exception):
    """Chunks that cannot be written as they come."""


class _ParquetFolder(SpillFolder, AbstractContextManager["_ParquetFolder"]):
    """Chunks that are written into one Parquet file while the next ones are read.

    The first says which types all have, how large rows are, and whether each row is on the line after the one
    before it; if not, lines are a column. A chunk that is otherwise is refused.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._waiting: Queue[pl.DataFrame | None] = Queue(1)
        self._pool = ThreadPoolExecutor(1)
        self._written: Future[None] | None = None
        self._known = ""

    def __setitem__(self, number: int, frame: pl.DataFrame) -> None:
        size = frame.estimated_size() / frame.height
        if self._written is None:
            self._schema, self._size, self._line = frame.schema, size, int(frame[LINE][0])
        is_next = frame[LINE].equals(pl.int_range(self._line, self._line + frame.height, eager=True))
        if self._written is None:
            self._has_lines = not is_next
            self._written = self._pool.submit(self._write)
        if frame.schema != self._schema or size > _UNEVEN * self._size or not (is_next or self._has_lines):
            raise _UnevenError
        self._line += frame.height
        self._put(frame if self._has_lines else frame.drop(LINE))

    def __getitem__(self, number: int) -> pl.DataFrame:
        raise _UnevenError

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, pl.exceptions.PolarsError):  # `finish` has told it
            self._put(None)
        self._pool.shutdown()

    def finish(self, known: str) -> None:
        """Write what is known of the table at the end of the file."""
        self._known = known
        self._put(None)
        if self._written is not None:
            self._written.result()
        if pl.read_parquet_metadata(self.folder / "whole").get(_KEY) != known:
            raise _UnevenError

    def _put(self, frame: pl.DataFrame | None) -> None:
        """Hand a chunk to the writer, when it has room; raises what has ended it."""
        while self._written is not None:
            if self._written.done():
                self._written.result()
                break
            with suppress(Full):
                self._waiting.put(frame, timeout=1)
                break

    def _write(self) -> None:
        def iterate(*_: object) -> Iterator[pl.DataFrame]:
            while (frame := self._waiting.get()) is not None:
                yield frame

        schema = {name: dtype for name, dtype in self._schema.items() if self._has_lines or name != LINE}
        # Polars asks for what is written at the end when all rows are there.
        scan = register_io_source(iterate, schema=schema)
        _write_parquet(scan, self.folder, self._size, lambda _: {_KEY: self._known})


def _write_parquet(scan: pl.LazyFrame, folder: Path, size: float, metadata: ParquetMetadata) -> None:
    """Write rows of about so many bytes as Parquet, in groups of a bearable size."""
    scan.sink_parquet(
        folder / "whole",
        compression="lz4",
        statistics=False,
        row_group_size=max(1, min(int(GROUP_BYTES / max(size, 1)), BLOCK_ROWS)),
        metadata=metadata,
    )


def _describe(built: BuiltTable) -> str:
    """Return what is stored of a table beside its rows; notices without the file, another each time."""
    places = [(one, one.where or Place()) for one in built.notices]
    known = {
        "rows": built.rows,
        "encoded": sorted(built.encoded),
        "first_line": built.first_line,
        "notices": [[one.message, one.hint, where.line, where.field] for one, where in places],
        "spans": list(built.spans),
    }
    return json.dumps(known)


def _keep_table(key: str, build: Callable[[Chunks], BuiltTable], file: str) -> BuiltRows:
    """Return the table of the cache with this key; without one it is built by way of chunks in files.

    It becomes an entry of the cache, or a temporary file where that is switched off or cannot be used.
    SpecError E119 when the environment says nonsense about the cache.
    """
    folder: Path | None = open_cache_folder("tables")
    limit = read_limit(VARIABLE, DEFAULT_BYTES)
    folder = folder if limit else None
    unusable: tuple[Notice, ...] = ()
    for path in folder.glob(f"{key}-*.parquet") if folder is not None else ():
        with suppress(OSError):  # another process may have deleted it
            if path.name == _name_file(key, path):
                os.utime(path)
                return _open_entry(path, file)
            path.unlink()
            unusable = (Notice(f"the table cache was damaged: `{path}` is built again from `{file}`"),)
    if folder is not None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            spill = Path(tempfile.mkdtemp(prefix=_SPILL, dir=folder))
        except OSError as error:
            reason = f"the table cache `{folder}` cannot be used: {error}"
            hint = f"make room or correct its rights; `{VARIABLE}=off` switches it off"
            unusable += (Notice(f"{reason}; large files are read each time", hint=hint),)
            folder = None
    if folder is None:
        spill = Path(tempfile.mkdtemp(prefix="answerkey-table-"))
    try:
        whole = spill / "whole"
        try:
            with _ParquetFolder(spill) as chunks:
                built = build(chunks)
                chunks.finish(_describe(built))
        except _UnevenError:
            built = build(SpillFolder(spill))
            scan = pl.scan_ipc(sorted(spill.glob("*.arrow")), glob=False)
            scan = scan if built.first_line is None else scan.drop(LINE)
            _write_parquet(scan, spill, built.size / built.rows, {_KEY: _describe(built)})
        if folder is not None:
            path = whole.replace(folder / _name_file(key, whole))
            _make_room(folder, limit, path)
        else:
            kept = Path(tempfile.mkdtemp(prefix="answerkey-table-"))
            atexit.register(shutil.rmtree, kept, ignore_errors=True)
            path = Path(shutil.move(whole, kept / f"{key}.parquet"))
    finally:
        shutil.rmtree(spill, ignore_errors=True)
    stored, notices, spans = _open_entry(path, file)
    return stored, (*notices, *unusable), spans


def _name_file(key: str, path: Path) -> str:
    """Return the name of an entry with the checksum of its content, by which damage is noticed."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = crc32(block, checksum)
    return f"{key}-{checksum:08x}.parquet"


def _make_room(folder: Path, limit: int, kept: Path) -> None:
    """Delete what was not used for longest until the rest fits."""
    entries: list[tuple[float, Path, int]] = []
    for path in folder.iterdir():
        with suppress(OSError):  # another process may have deleted it
            found = path.stat()
            entries.append((found.st_mtime, path, found.st_size))
    now, size = time.time(), 0
    for used, path, length in sorted(entries, reverse=True):
        if path.name.startswith(_SPILL):
            if now - used > GIVEN_UP_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
            continue
        size += length
        if size > limit and path != kept and now - used > REST_SECONDS:
            path.unlink(missing_ok=True)
            size -= length


def _open_entry(path: Path, file: str) -> BuiltRows:
    known: dict[str, Any] = json.loads(pl.read_parquet_metadata(path)[_KEY])
    held = pl.scan_parquet(path, glob=False).collect_schema()
    schema = {name: dtype for name, dtype in held.items() if name != LINE}
    encoded, first = frozenset(known["encoded"]), known["first_line"]
    notices = tuple(
        Notice(message, where=Place(file=file, line=line, field=name), hint=hint)
        for message, hint, line, name in known["notices"]
    )
    rows = StoredRows(path, schema, 0, known["rows"], file, encoded, first_line=first)
    return rows, notices, tuple(known.get("spans", ()))
