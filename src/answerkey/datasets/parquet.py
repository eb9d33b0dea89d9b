"""Parquet and Arrow files, and any Polars frame, as columns of values that templates can use.

Of a Parquet file only what is asked for is read; of one on shared storage only that is fetched.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NoReturn, cast

import polars as pl

from answerkey.datasets.columns import (
    CHUNK_ROWS,
    LINE,
    Cells,
    TableBuilder,
    check_names,
    check_sizes,
    make_plain,
)
from answerkey.datasets.content import Content, RowErrors
from answerkey.datasets.downloads import fetch_object
from answerkey.datasets.rows import ID_COLUMN, Rows, SlicedRows, choose_names, number_rows, read_ids
from answerkey.datasets.storage import StoredObject, open_store
from answerkey.errors import DataError, Place
from answerkey.types import Notice, Samples

#: What Polars raises about a file that is not what it should be.
FOREIGN = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)
#: Begins each message of an Arrow stream; before a length of zero it ends the stream. Without that end mark a
#: stream that was cut between two batches would look whole.
_MESSAGE = b"\xff\xff\xff\xff"
_END_OF_STREAM = _MESSAGE + b"\x00\x00\x00\x00"
#: Column types that a cast brings to a type of ours without loss.
_CASTS: dict[type[pl.DataType], pl.DataType] = {
    **{kind: kind() for kind in (pl.String, pl.Boolean, pl.Int64, pl.Float64)},
    **dict.fromkeys((pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32), pl.Int64()),
    pl.Float32: pl.Float64(),
    **dict.fromkeys((pl.Categorical, pl.Enum, pl.Null), pl.String()),
}


def read_parquet(content: Content, table: TableBuilder) -> tuple[Notice, ...]:
    """Hand over the rows of a Parquet file; return what is odd about it. The line of a row is its number."""
    whole, parts = partial(pl.read_parquet, glob=False), partial(pl.scan_parquet, glob=False)
    return _read(content, table, "Parquet", whole, parts)


def read_arrow(content: Content, table: TableBuilder) -> tuple[Notice, ...]:
    """Hand over the rows of an Arrow file or stream; return what is odd about it."""
    if content.head.startswith(b"FEA1"):
        hint = "write it anew as Feather version 2 or as Parquet"
        raise content.error("E202", "Feather version 1 is not read", hint=hint)
    if is_arrow_file(content):
        return _read(content, table, "Arrow", pl.read_ipc, partial(pl.scan_ipc, glob=False))
    return _read(content, table, "Arrow", pl.read_ipc_stream, None)


def is_arrow_file(content: Content) -> bool:
    """Return whether an Arrow content can be read in parts; a stream cannot."""
    return content.head.startswith(b"ARROW1")


def _read(
    content: Content,
    table: TableBuilder,
    kind: str,
    read: Callable[[io.BytesIO], pl.DataFrame],
    scan: Callable[[Path], pl.LazyFrame] | None,
) -> tuple[Notice, ...]:
    """Hand over a file as a whole where it is held in memory, or packed, or a stream; else in chunks."""
    try:
        if content.raw is None and not content.is_packed and scan is not None:
            return read_frames(scan(content.path), table)
        with content.open() as stream:
            raw = stream.read()
        if not raw:
            raise content.error("E210", "the file is empty")
        if raw.startswith(_MESSAGE) and not raw.endswith(_END_OF_STREAM) and kind == "Arrow":
            hint = content.guess() or "copy or download it again"
            raise content.error("E202", "the Arrow stream has no end mark", hint=hint)
        return read_frames(read(io.BytesIO(raw)), table)
    except FOREIGN as error:
        _refuse_damage(content, kind, error)


def _refuse_damage(content: Content, kind: str, error: BaseException) -> NoReturn:
    """Raise E202 for a file that is not what its name says."""
    hint = content.guess() or "copy or download it again"
    message = f"not a valid {kind} file: {(str(error).splitlines() or ['damaged'])[0]}"
    raise content.error("E202", message, hint=hint) from None


def read_frames(source: pl.DataFrame | pl.LazyFrame, table: TableBuilder) -> tuple[Notice, ...]:
    """Hand over a frame with types that JSON also has, whole or in chunks; return what is odd about it."""

    def iterate(part: pl.DataFrame | pl.LazyFrame) -> Iterator[pl.DataFrame]:
        if isinstance(part, pl.DataFrame):
            return iter([part])
        height = int(part.select(pl.len()).collect().item())
        return (part.slice(offset, CHUNK_ROWS).collect() for offset in range(0, height, CHUNK_ROWS))

    place = table.content.place()
    schema = source.schema if isinstance(source, pl.DataFrame) else source.collect_schema()
    notices = list(check_names(schema.names(), place))
    casts = {name: _find_cast(dtype) for name, dtype in schema.items()}
    for name, dtype in schema.items():
        if "Binary" not in str(dtype):
            continue
        only = source.select(pl.selectors.by_name(name))
        if dtype == pl.Binary and all(_is_utf8(frame[name]) for frame in iterate(only)):
            casts[name] = pl.String()  # some writers do not mark their text as such
        else:
            message = f"column `{name}` holds bytes; templates see them in base64"
            notices.append(Notice(message, where=Place(file=place.file, field=name)))
    first = 1
    for frame in iterate(source):
        columns: dict[str, Cells] = {}
        for name, to_type in casts.items():
            try:
                series = frame[name]
                columns[name] = make_plain(series.to_list()) if to_type is None else series.cast(to_type)
            except TypeError as error:
                message = f"column `{name}` holds {error}, which has no form in JSON"
                raise DataError("E202", message, where=place) from None
        table.add(columns, range(first, first + frame.height))
        first += frame.height
    return tuple(notices)


def _is_utf8(series: pl.Series) -> bool:
    try:
        series.cast(pl.String)
    except pl.exceptions.PolarsError:
        return False
    return True


def _find_cast(dtype: pl.DataType) -> pl.DataType | None:
    """Return the type to cast to without loss, or None if values need a look one by one."""
    if isinstance(dtype, pl.List):
        inner = _find_cast(cast("pl.DataType", dtype.inner))
        return None if inner is None else pl.List(inner)
    if isinstance(dtype, pl.Struct) and dtype.fields:
        fields = {one.name: _find_cast(cast("pl.DataType", one.dtype)) for one in dtype.fields}
        known = {name: one for name, one in fields.items() if one is not None}
        return pl.Struct(known) if len(known) == len(fields) else None
    return _CASTS.get(type(dtype))


@dataclass(frozen=True)
class StoredRows(SlicedRows):
    """Some consecutive rows of a Parquet file.

    `schema` holds the types as samples have them, `casts` those that the file has otherwise. Each row is on
    the line after the one before it, the first row of the file on `first_line`; without that the lines are a
    column. A file that has not the `stamp` any more has changed while it was in use. Of an object on shared
    storage, which is at no `path` of this machine, what is read is fetched.
    """

    path: Path
    schema: Mapping[str, pl.DataType]
    offset: int
    length: int
    file: str | None
    encoded: frozenset[str] = frozenset()
    casts: frozenset[str] = frozenset()
    first_line: int | None = 1
    stamp: tuple[int, int] | None = None
    stored: StoredObject | None = None

    @property
    def columns(self) -> list[str]:
        """The column names."""
        return list(self.schema)

    def __len__(self) -> int:
        return self.length

    def slice(self, offset: int, length: int) -> Rows:
        """Return the rows from `offset` on, at most `length` of them."""
        length = max(0, min(length, self.length - offset))
        return replace(self, offset=self.offset + offset, length=length)

    def load(self, columns: Collection[str] | None = None) -> Samples:
        """Return the rows, with all columns or with those named that there are."""
        names = choose_names(self.columns, columns)
        has_ids = ID_COLUMN in self.schema
        with_id = [*names, ID_COLUMN] if has_ids and ID_COLUMN not in names else names
        frame = self._read(with_id if self.first_line is not None else [*with_id, LINE])
        if self.first_line is None:
            lines = frame[LINE].alias("line")
        else:
            first = self.first_line + self.offset
            lines = pl.int_range(first, first + self.length, eager=True, dtype=pl.Int64).alias("line")
        errors = RowErrors(self.file)
        for series in frame.iter_columns():
            check_sizes(series, lines, errors)
        errors.raise_any()
        if has_ids:
            ids = read_ids(frame[ID_COLUMN], is_encoded=ID_COLUMN in self.encoded)
        else:
            ids = number_rows(self.offset + 1, self.length)
        chosen = frame.select(pl.selectors.by_name(*names))
        return Samples(chosen, ids, self.file, lines, self.encoded.intersection(names))

    def ids(self) -> pl.Series:
        """Return the ids of all rows; generated ones are not read from anywhere."""
        generated = ID_COLUMN not in self.schema
        return number_rows(self.offset + 1, self.length) if generated else self.load([ID_COLUMN]).ids

    def _read(self, names: list[str]) -> pl.DataFrame:
        if not self.length:
            return pl.DataFrame(schema={name: self.schema.get(name, pl.Int64()) for name in names})
        if self.stamp is not None and _read_stamp(self.path) != self.stamp:
            raise self._refuse_change()
        try:
            with scan_stored(self.stored) if self.stored else nullcontext(_scan(self.path)) as scan:
                rows = scan.slice(self.offset, self.length)
                frame = rows.select(pl.selectors.by_name(*names)).collect()
        except FOREIGN as error:
            _refuse_damage(Content(str(self.file), self.path), "Parquet", error)
        if frame.height != self.length:
            raise self._refuse_change()
        changed = [frame[name].cast(self.schema[name]) for name in names if name in self.casts]
        return frame.with_columns(changed) if changed else frame

    def _refuse_change(self) -> DataError:
        message = "the file has changed while it was being read"
        return DataError("E201", message, where=Place(file=self.file), hint="start again when it is complete")


def _read_stamp(path: Path) -> tuple[int, int] | None:
    """Return what changes when a file does; None when it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _scan(path: Path | str, **options: Any) -> pl.LazyFrame:  # noqa: ANN401 - those of Polars
    return pl.scan_parquet(path, glob=False, use_statistics=False, cache=False, **options)


@contextmanager
def scan_stored(stored: StoredObject) -> Iterator[pl.LazyFrame]:
    """Yield the rows of a Parquet object; what is collected of them is fetched.

    DataError E214 when the object cannot be had, or is another one before or after that. Where Polars cannot
    be told how to reach the store, the object is fetched whole.
    """
    store, path = open_store(stored.url)
    options = store.find_scan_options(path)
    stored.require_unchanged()
    try:
        if options is None:
            yield _scan(_fetch_whole(stored))
        else:
            yield _scan(stored.url, storage_options=options, credential_provider=None)
    except (OSError, pl.exceptions.PolarsError) as error:
        stored.require_unchanged()
        if isinstance(error, OSError):
            raise store.refuse(path, error) from None
        raise
    stored.require_unchanged()


@lru_cache(maxsize=64)
def _fetch_whole(stored: StoredObject) -> Path:
    """Return the file that an object was fetched into; looked for once, since its hash is compared."""
    return fetch_object(stored, ".parquet").path


def open_parquet(content: Content) -> StoredRows | None:
    """Return the rows of a Parquet file; None when some of its columns need a look at every value."""
    stamp = _read_stamp(content.path)
    if not content.head:
        raise content.error("E210", "the file is empty")
    path = content.path.absolute()  # it is read by whoever works on it, wherever that is
    found = _describe(nullcontext(_scan(content.path)), content)
    return None if found is None else replace(found, path=path, stamp=stamp)


def open_stored_parquet(stored: StoredObject, file: str) -> StoredRows | None:
    """Return the rows of a Parquet object on shared storage; None as above. Only its end is read."""
    content = Content(file, Path(stored.name), raw=b"")
    if not stored.size:
        raise content.error("E210", "the file is empty")
    found = _describe(scan_stored(stored), content)
    return None if found is None else replace(found, path=content.path, stored=stored)


def _describe(opened: AbstractContextManager[pl.LazyFrame], content: Content) -> StoredRows | None:
    """Return the rows as the end of a file describes them."""
    try:
        with opened as scan:
            schema = scan.collect_schema()
            length = int(scan.select(pl.len()).collect().item())
    except FOREIGN as error:
        _refuse_damage(content, "Parquet", error)
    found = {name: _find_cast(dtype) for name, dtype in schema.items()}
    casts = {name: dtype for name, dtype in found.items() if dtype is not None}
    if len(casts) < len(found):
        return None
    changed = frozenset(name for name, dtype in casts.items() if dtype != schema[name])
    return StoredRows(content.path, casts, 0, length, content.file, casts=changed)
