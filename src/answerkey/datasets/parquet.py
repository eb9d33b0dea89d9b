"""Parquet and Arrow files, and any Polars frame, as columns of values that templates can use.

Of a Parquet file only what is asked for is read. Of one on shared storage only that is fetched: the end of
the file says where the columns of a group of rows lie, and what is fetched is laid out in a local file with
holes, at the very places where the object has it, so that Polars reads it as it reads any file. A few hundred
megabytes are kept for the next shard of the same rows; then a new file is begun.
"""

from __future__ import annotations

import atexit
import io
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

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
from answerkey.datasets.rows import ID_COLUMN, Rows, SlicedRows, choose_names, number_rows, read_ids
from answerkey.datasets.storage import BLOCK, StoredObject
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
            with self._open(names) as path:
                scan = pl.scan_parquet(path, glob=False, use_statistics=False, cache=False)
                rows = scan.slice(self.offset, self.length)
                frame = rows.select(pl.selectors.by_name(*names)).collect()
        except FOREIGN as error:
            _refuse_damage(Content(str(self.file), self.path), "Parquet", error)
        if frame.height != self.length:
            raise self._refuse_change()
        changed = [frame[name].cast(self.schema[name]) for name in names if name in self.casts]
        return frame.with_columns(changed) if changed else frame

    def _open(self, names: list[str]) -> AbstractContextManager[Path]:
        """Return the file to read these columns from."""
        if self.stored is None:
            return nullcontext(self.path)
        return lay_out(self.stored, range(self.offset, self.offset + self.length), names)

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


def open_parquet(content: Content) -> StoredRows | None:
    """Return the rows of a Parquet file; None when some of its columns need a look at every value."""
    stamp = _read_stamp(content.path)
    if not content.head:
        raise content.error("E210", "the file is empty")
    path = content.path.absolute()  # it is read by whoever works on it, wherever that is
    found = _describe(content.path, content)
    return None if found is None else replace(found, path=path, stamp=stamp)


def open_stored_parquet(stored: StoredObject, file: str) -> StoredRows | None:
    """Return the rows of a Parquet object on shared storage; None as above. Only its end is read."""
    content = Content(file, Path(stored.name), raw=b"")
    if not stored.size:
        raise content.error("E210", "the file is empty")
    with lay_out(stored, range(0), ()) as path:
        found = _describe(path, content)
    return None if found is None else replace(found, path=content.path, stored=stored)


def _describe(path: Path, content: Content) -> StoredRows | None:
    """Return the rows as the end of a file describes them."""
    try:
        schema = pl.scan_parquet(path, glob=False).collect_schema()
        length = int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
    except FOREIGN as error:
        _refuse_damage(content, "Parquet", error)
    found = {name: _find_cast(dtype) for name, dtype in schema.items()}
    casts = {name: dtype for name, dtype in found.items() if dtype is not None}
    if len(casts) < len(found):
        return None
    changed = frozenset(name for name, dtype in casts.items() if dtype != schema[name])
    return StoredRows(path, casts, 0, length, content.file, casts=changed)


#: Where a piece of a column starts, and where it stops.
Span = tuple[int, int]
#: A file with holes is left for a new one when it holds so many bytes.
MOST_BYTES = 256 * 2**20
#: Of so many objects, those read last, what was fetched is kept.
_KEPT = 4
#: How many ranges of one shard are on the way together.
_TOGETHER = 4
#: The end of an object is fetched by a guess at its length first.
_GUESS = 2**16
_LARGEST_FOOTER = 2**30
#: Where a file without a name can be opened, nothing is left of a process that was killed.
_IS_NAMELESS = sys.platform == "linux"
_PARQUET_MARK = b"PAR1"
#: Length and mark, after the footer.
TAIL = 8
#: Some writers leave the header of the first page out of a column's size.
_SLACK = 128


@dataclass(frozen=True)
class Footer:
    """The end of a Parquet file: `start` is where it begins, `groups` have rows and column pieces.

    A piece is the name of the column at the top, where it starts and where it stops. Only these numbers are
    used, and only to choose what is fetched; rows are read by Polars alone.
    """

    start: int
    raw: bytes
    rows: int
    groups: tuple[tuple[int, tuple[tuple[str, int, int], ...]], ...]

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns at the top; none where there are no rows."""
        return frozenset(name for _, pieces in self.groups[:1] for name, _, _ in pieces)

    def list_spans(self, rows: range, names: Collection[str]) -> list[Span]:
        """Return where the columns of these rows lie, piece by piece, in order."""
        ends = list(accumulate(count for count, _ in self.groups))
        spans: list[Span] = []
        for (count, pieces), end in zip(self.groups, ends, strict=True):
            if rows.start < end and end - count < rows.stop:
                spans += [(first, last) for name, first, last in pieces if name in names]
        return sorted(spans)


@lru_cache(maxsize=64)
def load_footer(stored: StoredObject) -> Footer:
    """Return the footer of a Parquet object; DataError E202 when it is none."""
    raw = stored.read(max(0, stored.size - _GUESS), stored.size) if stored.size else b""
    length = TAIL + int.from_bytes(raw[-TAIL:-4], "little")
    problem = "the mark at its end is missing"
    if len(raw) >= TAIL and raw.endswith(_PARQUET_MARK):
        problem = "its footer is longer than the file"
        if length <= min(stored.size - len(_PARQUET_MARK), _LARGEST_FOOTER):
            if length > len(raw):
                raw = stored.read(stored.size - length, stored.size)
            try:
                return read_footer(raw[-length:], stored.size - length)
            except ValueError as error:
                problem = str(error)
    message, where = f"not a valid Parquet file: {problem}", Place(file=stored.url)
    raise DataError("E202", message, where=where, hint="write or upload it again")


def read_footer(raw: bytes, start: int) -> Footer:
    """Return what a footer says; `raw` goes to the end of the file. ValueError when it cannot be read."""
    try:
        told = _ThriftReader(raw[:-TAIL]).read_struct()  # the numbers are those of the format's fields
        rows, groups = int(told[3]), tuple(_read_group(one, start) for one in told.get(4, ()))
        if sum(count for count, _ in groups) == rows:
            return Footer(start, raw, rows, groups)
    except (IndexError, KeyError, TypeError, AttributeError, ValueError, RecursionError):
        pass
    raise ValueError("its footer is damaged")


def _read_group(told: dict[int, Any], end: int) -> tuple[int, tuple[tuple[str, int, int], ...]]:
    pieces = []
    for column in told[1]:
        about = column[3]
        path, size, first, dictionary = about[3], about[7], about[9], about.get(11) or 0
        first = dictionary if 0 < dictionary < first else first
        last = min(first + size + _SLACK, end)
        if not 0 <= first <= last:
            raise ValueError
        pieces.append((path[0].decode(), first, last))
    return int(told[3]), tuple(pieces)


class _ThriftReader:
    """Reads Thrift's compact form: structures as dicts by field number, lists as lists, text as bytes."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0
        self._kinds: dict[int, Callable[[], Any]] = {
            1: lambda: True,
            2: lambda: False,
            3: self._take_byte,
            **dict.fromkeys((4, 5, 6), self._read_number),
            7: lambda: self._take(8),
            8: lambda: self._take(self._read_varint()),
            **dict.fromkeys((9, 10), self._read_list),
            11: self._read_map,
            12: self.read_struct,
        }

    def read_struct(self) -> dict[int, Any]:
        """Return the structure at hand."""
        found: dict[int, Any] = {}
        number = 0
        while head := self._take_byte():
            number = number + (head >> 4) if head >> 4 else self._read_number()
            found[number] = self._kinds[head & 15]()
        return found

    def _read_list(self) -> list[Any]:
        head = self._take_byte()
        size = self._read_varint() if head >> 4 == 15 else head >> 4  # noqa: PLR2004 - a long list
        kind = head & 15
        read = self._take_byte if kind in (1, 2) else self._kinds[kind]
        return [read() for _ in range(size)]  # each entry has a byte at least

    def _read_map(self) -> list[Any]:
        size = self._read_varint()
        if size > len(self._raw):
            raise ValueError
        head = self._take_byte() if size else 0
        return [(self._kinds[head >> 4](), self._kinds[head & 15]()) for _ in range(size)]

    def _take(self, count: int) -> bytes:
        if count > len(self._raw) - self._at:
            raise ValueError
        self._at += count
        return self._raw[self._at - count : self._at]

    def _take_byte(self) -> int:
        self._at += 1
        return self._raw[self._at - 1]

    def _read_varint(self) -> int:
        value = 0
        for shift in range(0, 71, 7):  # 64 bits at most
            byte = self._take_byte()
            value |= (byte & 127) << shift
            if byte < 128:  # noqa: PLR2004 - the bit that says that more follow
                return value
        raise ValueError

    def _read_number(self) -> int:
        value = self._read_varint()
        return (value >> 1) ^ -(value & 1)


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Return spans, which are in order, with those that touch as one."""
    merged: list[Span] = []
    for first, last in spans:
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


@dataclass
class _SparseFile:
    """A file with holes, and which spans of the object it has; `users` are at work on it."""

    stored: StoredObject
    file: BinaryIO
    path: Path
    users: int = 0
    held: set[Span] = field(default_factory=set)
    size: int = 0
    filling: threading.Lock = field(default_factory=threading.Lock)
    writing: threading.Lock = field(default_factory=threading.Lock)

    def fill(self, spans: Collection[Span]) -> None:
        """Fetch what is missing; two shards of the same rows fetch it once."""
        with self.filling:
            missing = [span for span in spans if span not in self.held]
            blocks = [
                (start, min(start + BLOCK, last))
                for first, last in merge_spans(missing)
                for start in range(first, last, BLOCK)
            ]
            if blocks:
                with ThreadPoolExecutor(_TOGETHER) as pool:
                    list(pool.map(self._fetch, blocks))
            self.held.update(missing)
            self.size += sum(last - first for first, last in missing)

    def _fetch(self, span: Span) -> None:
        raw = self.stored.read(*span)
        with self.writing, _explain_full_disk(self.stored):
            self.file.seek(span[0])
            self.file.write(raw)
            self.file.flush()

    def close_unused(self) -> None:
        """Give the room back, unless somebody reads the file."""
        if not self.users:
            self.file.close()
            if not _IS_NAMELESS:
                self.path.unlink(missing_ok=True)


#: The files with holes, the one used last at the end.
_files: dict[StoredObject, _SparseFile] = {}
_files_lock = threading.Lock()


@contextmanager
def lay_out(stored: StoredObject, rows: range, names: Collection[str]) -> Iterator[Path]:
    """Yield a file in which these columns of these rows, and the footer, are where the object has them."""
    footer = load_footer(stored)
    spans = footer.list_spans(rows, frozenset(names))
    with _files_lock:
        file = _files.pop(stored, None)
        # One that has all that is wanted is used on: a single group of rows may be larger than is kept.
        if file is not None and file.size > MOST_BYTES and not file.held.issuperset(spans):
            file.close_unused()
            file = None
        file = _files[stored] = file or _create_file(stored, footer)
        file.users += 1
    try:
        file.fill(spans)
        yield file.path
    finally:
        with _files_lock:
            file.users -= 1
            if _files.get(stored) is not file:
                file.close_unused()
            unused = [one for one in _files.values() if not one.users]
            for other in unused[: max(0, len(_files) - _KEPT)]:
                _files.pop(other.stored).close_unused()


@atexit.register
def _close_all() -> None:
    for file in _files.values():
        file.users = 0
        file.close_unused()


def _create_file(stored: StoredObject, footer: Footer) -> _SparseFile:
    """Make a file of the object's size that holds nothing but its marks and its footer."""
    with _explain_full_disk(stored):
        if _IS_NAMELESS:
            file: BinaryIO = tempfile.TemporaryFile(prefix="answerkey-")  # noqa: SIM115 - closed when unused
            path = Path(f"/proc/self/fd/{file.fileno()}")
        else:
            handle, name = tempfile.mkstemp(prefix="answerkey-", suffix=".parquet")
            file, path = os.fdopen(handle, "r+b"), Path(name)
        file.truncate(stored.size)
        file.write(_PARQUET_MARK)
        file.seek(footer.start)
        file.write(footer.raw)
        file.flush()
        return _SparseFile(stored, file, path)


@contextmanager
def _explain_full_disk(stored: StoredObject) -> Iterator[None]:
    """Tell a disk that takes no more from an object that is damaged."""
    try:
        yield
    except OSError as error:
        folder = tempfile.gettempdir()
        message = f"`{stored.url}` cannot be read: what is fetched of it has no room in `{folder}`: {error}"
        hint = "make room there, or name another folder in `TMPDIR`"
        raise DataError("E214", message, where=Place(file=stored.url), hint=hint) from None
