"""Files become tables: the format is told by the ending of the name, never guessed from the content."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Literal

import polars as pl

from answerkey.datasets.binary import adopt_frame, read_arrow, read_parquet
from answerkey.datasets.binary_blocks import read_arrow_blocks, read_parquet_blocks
from answerkey.datasets.cells import ColumnKind, type_columns
from answerkey.datasets.content import COMPRESSIONS, Content, describe_unreadable, read_content
from answerkey.datasets.gathering import Gathered, Gatherer, gather_held, refuse_huge, without_collecting
from answerkey.datasets.ids import check_ids, name_samples
from answerkey.datasets.json_rows import read_json_lines, read_json_list
from answerkey.datasets.names import check_names
from answerkey.datasets.paragraph_rows import read_paragraphs
from answerkey.datasets.plain import make_plain
from answerkey.datasets.rows import HeldRows, Rows, iterate_blocks
from answerkey.datasets.shapes import Columns, build_frame
from answerkey.datasets.storage import is_stored
from answerkey.datasets.stored import open_parquet, open_stored_parquet
from answerkey.datasets.stored_files import fetch_object, find_digest, open_object
from answerkey.datasets.table_cache import name_entry, open_cache
from answerkey.datasets.text_rows import Heading, read_csv, read_tsv
from answerkey.datasets.troubles import Troubles
from answerkey.errors import AnswerkeyError, DataError, Place, listing
from answerkey.types import Notice, Samples

Kinds = Mapping[str, ColumnKind]
FormatName = Literal["csv", "tsv", "jsonl", "json", "parquet", "arrow", "paragraphs"]
#: Hands the rows of a file over, chunk by chunk, and returns what is odd about it.
Reader = Callable[[Content, Gatherer], tuple[Notice, ...]]
_ARROW_FILE = b"ARROW1"


@dataclass(frozen=True)
class Format:
    """How files of one kind are read: as a stream, and (where that is not the same) into memory."""

    name: str
    stream: Reader
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


@dataclass(frozen=True)
class Layout:
    """What is said about a file beyond its name: its format, and for CSV and TSV where names come from."""

    form: FormatName | None = None
    heading: Heading = field(default_factory=Heading)

    def find_format(self, path: Path) -> Format:
        """Return how files with this name are read; raises DataError E201 and E202."""
        form = _BY_NAME[self.form] if self.form else find_format(path)
        if self.heading == Heading():
            return form
        if form.name not in _DELIMITED:
            message = f"`header` and `skip_rows` are for CSV and TSV, and `{path.name}` is {form.name}"
            raise DataError("E202", message, where=Place(file=str(path)))
        # The name is part of the key under which a large file is kept as a table.
        name = f"{form.name} {json.dumps([self.heading.names, self.heading.skipped])}"
        return replace(form, name=name, stream=partial(_DELIMITED[form.name], heading=self.heading))

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

    The file may be on shared storage (`s3://…`). `shown` is the file's name in errors.
    """
    if isinstance(path, str) and is_stored(path):
        how = layout or Layout()
        shown = shown or path
        found = _open_stored(path, how, columns or {}, shown, by_trial=by_trial)
        if isinstance(found, Table):
            return found
        path = found
    content = read_content(path, shown=shown)
    try:
        form = (layout or Layout()).find_format(Path(path))
        rows, notices = _open_rows(content, form, columns or {})
        if not len(rows):
            raise DataError("E210", "the file has no rows", where=content.place())
        check_ids(rows, by_trial=by_trial)
        return Table(rows, content.digest, notices)
    except OSError as error:
        raise describe_unreadable(content.path, error) from None


def _open_stored(url: str, layout: Layout, kinds: Kinds, shown: str, *, by_trial: bool) -> Table | Path:
    """Return the rows of a Parquet object, read where it lies; another object as a file of this machine."""
    stored = open_object(url)
    if is_plain_parquet(stored.name, layout) and not kinds:
        rows = open_stored_parquet(stored, shown)
        if rows is not None:
            if not len(rows):
                raise DataError("E210", "the file has no rows", where=Place(file=shown))
            check_ids(rows, by_trial=by_trial)
            return Table(rows, find_digest(stored), check_names(rows.columns, Place(file=shown)))
    return fetch_object(stored, find_endings(stored.name)).path


def is_plain_parquet(name: str, layout: Layout) -> bool:
    """Return whether a file with this name is Parquet that is not compressed as a whole."""
    packed = PurePosixPath(name).suffix.lower() in COMPRESSIONS
    return layout.find_format(Path(name)).name == _PARQUET.name and not packed


def find_endings(name: str) -> str:
    """Return the endings of a name that say what the file is."""
    endings = [ending.lower() for ending in PurePosixPath(name).suffixes]
    packed = endings.pop() if endings and endings[-1] in COMPRESSIONS else ""
    return (endings[-1] if endings and endings[-1] in FORMATS else "") + packed


def _open_rows(content: Content, form: Format, kinds: Kinds) -> tuple[Rows, tuple[Notice, ...]]:
    """Return where the rows lie: in the file itself, in memory when they are few, else in the cache."""
    if form.name == _PARQUET.name and not content.is_packed and not kinds:
        found = open_parquet(content)
        if found is not None:
            return found, check_names(found.columns, content.place())
    is_stream = form.name == _ARROW.name and not content.head.startswith(_ARROW_FILE)
    if content.raw is not None or is_stream:
        held = _hold(content, form, kinds)
        return HeldRows(name_samples(held, content.file)), held.notices
    return _cache(content, form, kinds)


def _hold(content: Content, form: Format, kinds: Kinds) -> Columns:
    if form.hold is None:
        drafts: dict[int, pl.DataFrame] = {}
        gathered = _gather(content, form, Gatherer(content, kinds, drafts))
        return gather_held(drafts, gathered)
    found = form.hold(content)
    if not found.frame.height:
        raise DataError("E210", "the file has no rows", where=content.place())
    troubles = Troubles(content.file)
    for series in found.frame.iter_columns():
        refuse_huge(series, found.lines, troubles)
    troubles.raise_any()
    return type_columns(found, kinds, content.file) if kinds else found


def _cache(content: Content, form: Format, kinds: Kinds) -> tuple[Rows, tuple[Notice, ...]]:
    """Return the rows of a large file, which is read only if it has not been read before."""
    cache = open_cache()
    key = name_entry(content.digest, form.name, kinds)
    found = cache.find(key, content.file)
    if found is not None:
        return found.rows, found.notices
    try:
        with cache.open_drafts() as drafts:
            gatherer = Gatherer(content, kinds, drafts)
            gathered = _gather(drafts.unpack(content) if form.hold else content, form, gatherer)
            found = cache.keep(key, drafts, gathered, content.file)
    except (OSError, pl.exceptions.PolarsError) as error:  # there is no room, not even for temporary files
        held = _hold(content, form, kinds)
        notice = Notice(f"`{content.file}` is held in memory: it cannot be kept as a table: {error}")
        return HeldRows(name_samples(held, content.file)), (*held.notices, notice)
    return found.rows, (*found.notices, *cache.notices)


def _gather(content: Content, form: Format, gatherer: Gatherer) -> Gathered:
    try:
        with without_collecting():
            return gatherer.finish(form.stream(content, gatherer))
    except (AnswerkeyError, UnicodeDecodeError):
        if form.hold is None:
            content.check_text()  # what is no text at all is told first
        raise


def find_format(path: Path) -> Format:
    """Return how files with this name are read."""
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in COMPRESSIONS:
        endings.pop()
    if endings and endings[-1] in FORMATS:
        return FORMATS[endings[-1]]
    message = f"the ending of `{path.name}` names no format"
    hint = f"endings: {listing(FORMATS)}, each also with {listing(COMPRESSIONS)}"
    raise DataError("E201", message, where=Place(file=str(path)), hint=hint)


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
    found = adopt_frame(rows, where) if isinstance(rows, pl.DataFrame) else _gather_rows(rows, where)
    if not found.frame.height:
        raise DataError("E210", f"`{name}` has no rows", where=where)
    held = HeldRows(name_samples(found, name))
    check_ids(held, by_trial=by_trial)
    return Table(held, digest_rows(held), found.notices)


def _gather_rows(rows: Sequence[Mapping[str, object]], where: Place) -> Columns:
    names: dict[object, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    notices = check_names([_check_name(key, where) for key in names], where)
    columns = {str(key): _plain_column(rows, str(key), where) for key in names}
    try:
        frame, encoded = build_frame(columns)
    except UnicodeEncodeError as error:
        message = f"the text {error.object!r} holds half of a surrogate pair, which is not a character"
        raise DataError("E203", message, where=where) from None
    lines = pl.int_range(1, len(rows) + 1, eager=True, dtype=pl.Int64)
    return Columns(frame, lines.alias("line"), encoded, notices)


def _check_name(key: object, where: Place) -> str:
    if isinstance(key, str):
        return key
    raise DataError("E202", f"the column name {key!r} is not text", where=where)


def _plain_column(rows: Sequence[Mapping[str, object]], name: str, where: Place) -> Sequence[object]:
    try:
        return make_plain([row.get(name) for row in rows])
    except TypeError as error:
        place = Place(file=where.file, field=name)
        raise DataError("E202", f"the column holds {error}", where=place) from None


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
