"""Files become tables: which reader for which file, several files as one table, columns that are derived.

The format is told by the ending of the name, or stated; it is never guessed from the content.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import partial
from hashlib import sha256
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Literal

import polars as pl

from answerkey.datasets.columns import (
    CHUNK_ROWS,
    BuiltTable,
    Columns,
    Kinds,
    SpillFolder,
    TableBuilder,
    build_frame,
    check_names,
    check_sizes,
    join_chunks,
    type_columns,
    without_collecting,
)
from answerkey.datasets.content import (
    COMPRESSIONS,
    HELD_BYTES,
    SHOWN,
    Content,
    RowErrors,
    describe_unreadable,
    read_content,
)
from answerkey.datasets.downloads import fetch_object, find_digest, open_object
from answerkey.datasets.parquet import (
    ARROW_FILE,
    adopt_frame,
    open_parquet,
    open_stored_parquet,
    read_arrow,
    read_arrow_blocks,
    read_parquet,
    read_parquet_blocks,
)
from answerkey.datasets.rows import (
    HeldRows,
    PickedRows,
    Positions,
    Rows,
    RowsOver,
    check_ids,
    iterate_blocks,
    name_samples,
)
from answerkey.datasets.storage import is_stored
from answerkey.datasets.table_cache import name_entry, open_cache
from answerkey.datasets.text_files import (
    Heading,
    read_csv,
    read_json_lines,
    read_json_list,
    read_paragraphs,
    read_tsv,
)
from answerkey.datasets.values import ColumnKind, make_plain
from answerkey.errors import AnswerkeyError, DataError, Place, SpecError, listing, raise_all
from answerkey.templates import RowFilter, RowTrouble, Template
from answerkey.types import Notice, Samples

FormatName = Literal["csv", "tsv", "jsonl", "json", "parquet", "arrow", "paragraphs"]
#: Files that hold several times their size.
_EXPANDING = frozenset({*COMPRESSIONS, ".parquet", ".pq", ".arrow", ".feather", ".ipc"})
_EXPANSION = 8


@dataclass(frozen=True)
class Format:
    """How files of one kind are read: as a stream, and (where that is not the same) into memory.

    A stream hands the rows of a file over, chunk by chunk, and returns what is odd about it.
    """

    name: str
    stream: Callable[[Content, TableBuilder], tuple[Notice, ...]]
    hold: Callable[[Content], Columns] | None = None


_CSV, _TSV = Format("csv", read_csv), Format("tsv", read_tsv)
_JSON_LINES, _JSON = Format("jsonl", read_json_lines), Format("json", read_json_list)
_PARQUET = Format("parquet", read_parquet_blocks, read_parquet)
_ARROW = Format("arrow", read_arrow_blocks, read_arrow)
#: Ending of a file name to its format.
FORMATS: dict[str, Format] = {
    ".csv": _CSV,
    ".tsv": _TSV,
    ".jsonl": _JSON_LINES,
    ".ndjson": _JSON_LINES,
    ".json": _JSON,
    ".parquet": _PARQUET,
    ".pq": _PARQUET,
    ".arrow": _ARROW,
    ".feather": _ARROW,
    ".ipc": _ARROW,
}
#: Formats by their own names; paragraphs have no ending of their own.
_BY_NAME = {one.name: one for one in (*FORMATS.values(), Format("paragraphs", read_paragraphs))}
_DELIMITED = {"csv": read_csv, "tsv": read_tsv}


def split_endings(name: str | Path) -> tuple[str, str]:
    """Return the ending of a name that says its format, and that of its compression; empty for none."""
    endings = [ending.lower() for ending in PurePosixPath(name).suffixes]
    packed = endings.pop() if endings and endings[-1] in COMPRESSIONS else ""
    return (endings[-1] if endings and endings[-1] in FORMATS else ""), packed


def matches(name: str, pattern: str) -> bool:
    """Return whether a path within a folder, or the name at its end, fits a pattern with `*` and `?`."""
    return fnmatch(name, pattern) or ("/" not in pattern and fnmatch(name.rpartition("/")[2], pattern))


@dataclass(frozen=True)
class Layout:
    """What is said about a file beyond its name: its format, and for CSV and TSV where names come from."""

    form: FormatName | None = None
    heading: Heading = field(default_factory=Heading)

    def find_format(self, path: Path) -> Format:
        """Return how files with this name are read; raises DataError E201 and E202."""
        ending, _ = split_endings(path.name)
        if not self.form and not ending:
            message = f"the ending of `{path.name}` names no format"
            hint = f"endings: {listing(FORMATS)}, each also with {listing(COMPRESSIONS)}"
            raise DataError("E201", message, where=Place(file=str(path)), hint=hint)
        form = _BY_NAME[self.form] if self.form else FORMATS[ending]
        if self.heading == Heading():
            return form
        if form.name not in _DELIMITED:
            message = f"`header` and `skip_rows` are for CSV and TSV, and `{path.name}` is {form.name}"
            raise DataError("E202", message, where=Place(file=str(path)))
        # The name is part of the key under which a large file is kept as a table.
        name = f"{form.name} {json.dumps([self.heading.names, self.heading.skipped])}"
        return replace(form, name=name, stream=partial(_DELIMITED[form.name], heading=self.heading))

    def is_plain_parquet(self, name: str) -> bool:
        """Return whether a file with this name is Parquet that is not compressed as a whole."""
        return self.find_format(Path(name)).name == _PARQUET.name and not split_endings(name)[1]

    def describe(self) -> list[object]:
        """Return what makes rows other rows, for a digest; empty where the name says it all."""
        if self == Layout():
            return []
        return [self.form, self.heading.names, self.heading.skipped]


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


def read_table(path: str | Path, *, columns: Kinds | None = None, by_trial: bool = False) -> Samples:
    """Return the rows of a data file, compressed or not, with their sample ids.

    With `by_trial`, rows of one sample may differ in the column `trial`.
    """
    return load_table(path, columns=columns, by_trial=by_trial).samples


def load_table(
    path: str | Path,
    *,
    columns: Kinds | None = None,
    by_trial: bool = False,
    layout: Layout | None = None,
    shown: str | None = None,
) -> Table:
    """Return the rows of a data file with the digest of its content and what is odd about it.

    The file may be on shared storage (`s3://…`): Parquet is read where it lies, another object is fetched.
    `shown` is the file's name in errors.
    """
    layout, kinds = layout or Layout(), columns or {}
    if isinstance(path, str) and is_stored(path):
        shown = shown or path
        stored = open_object(path)
        lies_in_place = layout.is_plain_parquet(stored.name) and not kinds
        found = open_stored_parquet(stored, shown) if lies_in_place else None
        if found is not None:
            if not len(found):
                raise DataError("E210", "the file has no rows", where=Place(file=shown))
            check_ids(found, by_trial=by_trial)
            return Table(found, find_digest(stored), check_names(found.columns, Place(file=shown)))
        path = fetch_object(stored, "".join(split_endings(stored.name))).path
    content = read_content(path, shown=shown)
    try:
        rows, notices = _open_rows(content, layout.find_format(Path(path)), kinds)
        if not len(rows):
            raise DataError("E210", "the file has no rows", where=content.place())
        check_ids(rows, by_trial=by_trial)
        return Table(rows, content.digest, notices)
    except OSError as error:
        raise describe_unreadable(content.path, error) from None


def _open_rows(content: Content, form: Format, kinds: Kinds) -> tuple[Rows, tuple[Notice, ...]]:
    """Return where the rows lie: in the file itself, in memory when they are few, else in the cache."""
    if form.name == _PARQUET.name and not content.is_packed and not kinds:
        found = open_parquet(content)
        if found is not None:
            return found, check_names(found.columns, content.place())
    is_stream = form.name == _ARROW.name and not content.head.startswith(ARROW_FILE)
    if content.raw is not None or is_stream:
        held = _hold(content, form, kinds)
        return HeldRows(name_samples(held, content.file)), held.notices

    def build(chunks: SpillFolder) -> BuiltTable:
        readable = chunks.unpack(content) if form.hold else content
        return _build(readable, form, TableBuilder(content, kinds, chunks))

    key = name_entry(content.digest, form.name, kinds)
    rows, notices, _ = _keep(key, content.file, build, lambda: (_hold(content, form, kinds), ()))
    return rows, notices


def _hold(content: Content, form: Format, kinds: Kinds) -> Columns:
    """Return the rows of a file in memory."""
    if form.hold is None:
        chunks: dict[int, pl.DataFrame] = {}
        return join_chunks(chunks, _build(content, form, TableBuilder(content, kinds, chunks)))
    found = form.hold(content)
    if not found.frame.height:
        raise DataError("E210", "the file has no rows", where=content.place())
    errors = RowErrors(content.file)
    for series in found.frame.iter_columns():
        check_sizes(series, found.lines, errors)
    errors.raise_any()
    return type_columns(found, kinds, content.file) if kinds else found


def _build(content: Content, form: Format, table: TableBuilder) -> BuiltTable:
    try:
        with without_collecting():
            return table.finish(form.stream(content, table))
    except (AnswerkeyError, UnicodeDecodeError):
        if form.hold is None:
            content.check_text()  # what is no text at all is told first
        raise


def _keep(
    key: str,
    file: str,
    build: Callable[[SpillFolder], BuiltTable],
    hold: Callable[[], tuple[Columns, tuple[int, ...]]],
) -> tuple[Rows, tuple[Notice, ...], tuple[int, ...]]:
    """Return the rows of a large table from the cache, its notices, and how many rows each of its files has.

    It is built only if it has not been before. Where there is no room, not even for temporary files, it is
    held in memory.
    """
    cache = open_cache()
    found = cache.find(key, file)
    if found is None:
        try:
            with cache.open_spill_folder() as chunks:
                found = cache.keep(key, chunks, build(chunks), file)
        except (OSError, pl.exceptions.PolarsError) as error:
            held, spans = hold()
            notice = Notice(f"`{file}` is held in memory: it cannot be kept as a table: {error}")
            return HeldRows(name_samples(held, file)), (*held.notices, notice), spans
    return found.rows, (*found.notices, *cache.notices), found.spans


def samples_from(
    rows: pl.DataFrame | Sequence[Mapping[str, object]], *, name: str, by_trial: bool = False
) -> Samples:
    """Return rows that are in memory as samples; `name` stands for the file in errors."""
    return load_rows(rows, name=name, by_trial=by_trial).samples


def load_rows(
    rows: pl.DataFrame | Sequence[Mapping[str, object]], *, name: str, by_trial: bool = False
) -> Table:
    """Return rows that are in memory with the digest of their content."""
    where = Place(file=name)
    found = adopt_frame(rows, where) if isinstance(rows, pl.DataFrame) else _adopt_rows(rows, where)
    if not found.frame.height:
        raise DataError("E210", f"`{name}` has no rows", where=where)
    held = HeldRows(name_samples(found, name))
    check_ids(held, by_trial=by_trial)
    return Table(held, digest_rows(held), found.notices)


def _adopt_rows(rows: Sequence[Mapping[str, object]], where: Place) -> Columns:
    names: dict[object, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    for key in names:
        if not isinstance(key, str):
            raise DataError("E202", f"the column name {key!r} is not text", where=where)
    columns: dict[str, Sequence[object]] = {}
    notices = check_names([str(key) for key in names], where)
    for name in map(str, names):
        try:
            columns[name] = make_plain([row.get(name) for row in rows])
        except TypeError as error:
            place = Place(file=where.file, field=name)
            raise DataError("E202", f"the column holds {error}", where=place) from None
    try:
        frame, encoded = build_frame(columns)
    except UnicodeEncodeError as error:
        message = f"the text {error.object!r} holds half of a surrogate pair, which is not a character"
        raise DataError("E203", message, where=where) from None
    lines = pl.int_range(1, len(rows) + 1, eager=True, dtype=pl.Int64)
    return Columns(frame, lines.alias("line"), encoded, notices)


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
    first: dict[tuple[str, str], tuple[RowTrouble, Place]] = field(default_factory=dict)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, label: str, error: RowTrouble, samples: Samples, row: int) -> None:
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


@dataclass
class DerivedColumns:
    """`derive`: templates of new columns, over the row as its file has it, and where they failed so far."""

    templates: Mapping[str, str]
    errors: TemplateErrors = field(default_factory=lambda: TemplateErrors(only_columns=True))

    def refuse_lost(self, names: Collection[str], file: str) -> None:
        """Raise E212 for a column of the file that a template would replace without reading it."""
        for name, source in self.templates.items():
            read = Template.compile(source).columns
            if name in names and read is not None and name not in read:
                message = f"derived column `{name}` would replace the column `{name}` of the file"
                hint = f"rename one of them; a template that reads `sample.{name}` may replace it"
                where = Place(file=file, field=name)
                raise DataError("E212", f"{message}, which it does not read", where=where, hint=hint)

    def derive(self, samples: Samples) -> dict[str, Sequence[object]]:
        """Return the new columns of some rows; a row on which a template fails has a null cell."""
        columns: dict[str, Sequence[object]] = {}
        for name, source in self.templates.items():
            values = list(Template.compile(source).values(samples))
            for row, value in enumerate(values):
                if isinstance(value, RowTrouble):
                    self.errors.add(f"derived column `{name}`", value, samples, row)
                    values[row] = None
            try:
                columns[name] = make_plain(values)
            except TypeError as error:
                where = Place(file=samples.file, field=name)
                raise DataError("E207", f"derived column `{name}` yields {error}", where=where) from None
        return columns


@dataclass(frozen=True, kw_only=True)
class FileFields:
    """How the files of a source are read; the fields that all sources with files have in YAML.

    `format` says what a name does not. `header` names the columns of CSV and TSV without a header line, and
    `skip_rows` are passed over at the top. `columns` types text cells. `file_column` is a column to hold the
    name of each row's file. `derive` has templates for new columns.
    """

    format: FormatName | None = None
    header: tuple[str, ...] | None = None
    skip_rows: int = 0
    columns: dict[str, ColumnKind] = field(default_factory=dict)
    file_column: str | None = None
    derive: dict[str, str] = field(default_factory=dict)
    filters: tuple[RowFilter, ...] = ()

    def __post_init__(self) -> None:
        if self.skip_rows < 0:
            raise SpecError("E108", f"`skip_rows` is {self.skip_rows}, it must not be negative")

    @property
    def layout(self) -> Layout:
        """What is said about the files beyond their names."""
        return Layout(self.format, Heading(self.header, self.skip_rows))

    @property
    def makes_no_column(self) -> bool:
        """Whether a single file is read as it stands."""
        return not self.derive and self.file_column is None


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
    said = how.layout.describe()
    if len(files) == 1 and how.makes_no_column:
        file = files[0]
        table = load_table(file.path, columns=how.columns, layout=how.layout, shown=file.shown)
        return replace(table, digest=_hash([table.digest, *said])) if said else table
    shown = files[0].shown if len(files) == 1 else shown
    if how.file_column is not None:
        check_names([how.file_column], Place(file=shown))
    check_names(list(how.derive), Place(file=shown))
    # The contents stand for the rows, and all that is said about how they are read.
    contents = [
        [read_content(one.path, shown=one.shown).digest, one.label if how.file_column else None]
        for one in files
    ]
    digest = _hash([contents, said, how.file_column, list(how.derive.items())])
    build = partial(_join_files, files, how, shown)

    def hold() -> tuple[Columns, tuple[int, ...]]:
        chunks: dict[int, pl.DataFrame] = {}
        built = build(chunks)
        return join_chunks(chunks, built), built.spans

    sizes = (
        path.stat().st_size * (_EXPANSION if path.suffix.lower() in _EXPANDING else 1)
        for path in (Path(one.path) for one in files)
    )
    if sum(sizes) <= HELD_BYTES:
        held, spans = hold()
        rows: Rows = HeldRows(name_samples(held, shown))
        notices = held.notices
    else:
        rows, notices, spans = _keep(name_entry(digest, "joined", {}), shown, build, hold)
    if len(files) > 1:
        starts = tuple(accumulate(spans, initial=0))[:-1]
        rows = FiledRows(rows, tuple(one.shown for one in files), starts)
    check_ids(rows)
    return Table(rows, digest, notices)


def _hash(parts: object) -> str:
    return sha256(json.dumps(parts).encode()).hexdigest()


def _join_files(
    files: Sequence[DataFile], how: FileFields, shown: str, chunks: dict[int, pl.DataFrame] | SpillFolder
) -> BuiltTable:
    """Read one file after the other; only what is read of the one at hand is in memory."""
    derived = DerivedColumns(how.derive)
    joined = TableBuilder(Content(shown, Path(shown), raw=b""), {}, chunks)
    notices: dict[Notice, None] = {}
    spans: list[int] = []
    with without_collecting():
        for file in files:
            table = load_table(file.path, columns=how.columns, layout=how.layout, shown=file.shown)
            notices.update(dict.fromkeys(table.notices))
            spans.append(len(table.rows))
            for columns, lines in _extend_rows(table.rows, file, how, derived):
                joined.add(columns, lines)
        derived.errors.raise_any()
        return replace(joined.finish(tuple(notices)), spans=tuple(spans))


def _extend_rows(
    rows: Rows, file: DataFile, how: FileFields, derived: DerivedColumns
) -> Iterator[tuple[Mapping[str, Sequence[object] | pl.Series], Sequence[int]]]:
    """Yield the rows of a file chunk by chunk, with the columns that are made for them, and their lines."""
    if how.file_column in rows.columns:
        message = f"`file_column` is `{how.file_column}`, which is a column of the file"
        hint = "choose another name there, or rename the column in the file"
        raise DataError("E212", message, where=Place(file=file.shown), hint=hint)
    derived.refuse_lost(rows.columns, file.shown)
    for _, block in iterate_blocks(rows, size=CHUNK_ROWS):
        samples = block
        if how.file_column is not None:
            label = pl.lit(file.label, pl.String).alias(how.file_column)
            samples = replace(block, frame=block.frame.with_columns(label))
        columns: dict[str, Sequence[object] | pl.Series] = {
            name: samples.values(name) if name in samples.encoded else samples.frame[name]
            for name in samples.columns
        }
        lines = range(1, len(samples) + 1) if samples.lines is None else samples.lines.to_list()
        yield {**columns, **derived.derive(samples)}, lines


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

    def slice(self, offset: int, length: int) -> Rows:
        """Return the rows from `offset` on, at most `length` of them."""
        return replace(self, rows=self.rows.slice(offset, length), offset=self.offset + offset)

    def take(self, positions: Positions) -> Rows:
        """Return the rows at these positions."""
        if isinstance(positions, range):
            return self.slice(positions.start, len(positions))
        return PickedRows(self, positions)

    def load(self, columns: Collection[str] | None = None) -> Samples:
        """Return the rows, with all columns or with those named that there are, each with its file."""
        samples = self.rows.load(columns)
        places = pl.int_range(self.offset, self.offset + len(samples), eager=True, dtype=pl.Int64)
        numbers = pl.Series(self.starts, dtype=pl.Int64).search_sorted(places, side="right") - 1
        return replace(samples, files=pl.Series("file", self.names, dtype=pl.String).gather(numbers))

    def ids(self) -> pl.Series:
        """Return the ids of all rows."""
        return self.rows.ids()


def read_documents(folder: Path, paths: Sequence[Path], how: FileFields) -> Table:
    """Return a row for each text file: `sample_id` (the hash of its text), `file_name` and `content`."""
    rows: list[dict[str, object]] = []
    for path in paths:
        content = Content(str(path), path)
        content.check_text()
        with content.open_text() as stream:
            text = stream.read()
        name = path.relative_to(folder).as_posix()
        rows.append({"sample_id": sha256(text.encode()).hexdigest(), "file_name": name, "content": text})
    table = load_rows(rows, name=str(folder))
    if not how.derive:
        return table
    derived = DerivedColumns(how.derive)
    derived.refuse_lost(table.rows.columns, str(folder))
    columns = derived.derive(table.samples)
    derived.errors.raise_any()
    for name, cells in columns.items():
        for row, cell in zip(rows, cells, strict=True):
            row[name] = cell
    return load_rows(rows, name=str(folder))
