"""Parquet and Arrow files, and any Polars frame, as columns of values that templates can use."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import NoReturn, cast

import polars as pl

from answerkey.datasets.content import Content
from answerkey.datasets.names import check_names
from answerkey.datasets.plain import make_plain
from answerkey.datasets.shapes import Columns, build_column
from answerkey.errors import DataError, Place
from answerkey.types import Notice

#: What Polars raises about a file that is not what it should be.
FOREIGN = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)
#: Begins each message of an Arrow stream; before a length of zero it ends the stream. Without that end mark a
#: stream that was cut between two batches would look whole.
_MARK = b"\xff\xff\xff\xff"
_END_OF_STREAM = _MARK + b"\x00\x00\x00\x00"
#: Column types that a cast brings to a type of ours without loss.
_CASTS: dict[type[pl.DataType], pl.DataType] = {
    **{kind: kind() for kind in (pl.String, pl.Boolean, pl.Int64, pl.Float64)},
    **dict.fromkeys((pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32), pl.Int64()),
    pl.Float32: pl.Float64(),
    **dict.fromkeys((pl.Categorical, pl.Enum, pl.Null), pl.String()),
}


def read_parquet(content: Content) -> Columns:
    """Return the columns of a Parquet file; the line of a row is its number."""
    return _read(content, "Parquet", lambda source: pl.read_parquet(source, glob=False))


def read_arrow(content: Content) -> Columns:
    """Return the columns of an Arrow file or stream; the line of a row is its number."""
    if content.head.startswith(b"ARROW1"):
        return _read(content, "Arrow", pl.read_ipc)
    if content.head.startswith(b"FEA1"):
        hint = "write it anew as Feather version 2 or as Parquet"
        raise DataError("E202", "Feather version 1 is not read", where=content.place(), hint=hint)
    return _read(content, "Arrow", pl.read_ipc_stream, end=_END_OF_STREAM)


def _read(
    content: Content, kind: str, read: Callable[[io.BytesIO], pl.DataFrame], *, end: bytes = b""
) -> Columns:
    with content.open() as stream:
        raw = stream.read()
    if not raw:
        raise DataError("E210", "the file is empty", where=content.place())
    if raw.startswith(_MARK) and not raw.endswith(end):
        hint = content.guess() or "copy or download it again"
        raise DataError("E202", "the Arrow stream has no end mark", where=content.place(), hint=hint)
    try:
        frame = read(io.BytesIO(raw))
    except FOREIGN as error:
        refuse_damage(content, kind, error)
    return adopt_frame(frame, content.place())


def refuse_damage(content: Content, kind: str, error: BaseException) -> NoReturn:
    """Raise E202 for a file that is not what its name says."""
    hint = content.guess() or "copy or download it again"
    message = f"not a valid {kind} file: {(str(error).splitlines() or ['damaged'])[0]}"
    raise DataError("E202", message, where=content.place(), hint=hint) from None


def adopt_frame(frame: pl.DataFrame, where: Place) -> Columns:
    """Return a frame's columns with types that JSON also has."""
    notices = list(check_names(frame.columns, where))
    encoded: set[str] = set()
    columns: list[pl.Series] = []
    for series in frame.iter_columns():
        column, is_encoded, notice = _adopt(series, where)
        columns.append(column)
        encoded |= {series.name} if is_encoded else set()
        notices += [notice] if notice else []
    lines = pl.int_range(1, frame.height + 1, eager=True, dtype=pl.Int64).alias("line")
    return Columns(pl.DataFrame(columns), lines, frozenset(encoded), tuple(notices))


def find_casts(schema: Mapping[str, pl.DataType]) -> dict[str, pl.DataType] | None:
    """Return the types that columns are cast to without loss; None when values need a look one by one."""
    casts = {name: _find_cast(dtype) for name, dtype in schema.items()}
    known = {name: dtype for name, dtype in casts.items() if dtype is not None}
    return known if len(known) == len(casts) else None


def _adopt(series: pl.Series, where: Place) -> tuple[pl.Series, bool, Notice | None]:
    dtype = _find_cast(series.dtype)
    if dtype is not None:
        return (series if dtype == series.dtype else series.cast(dtype)), False, None
    if (text := _read_utf8(series)) is not None:
        return text, False, None
    try:
        values = make_plain(series.to_list())
    except TypeError as error:
        message = f"column `{series.name}` holds {error}, which has no form in JSON"
        raise DataError("E202", message, where=where) from None
    column, is_encoded = build_column(series.name, values)
    return column, is_encoded, _notice_bytes(series, where)


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


def _read_utf8(series: pl.Series) -> pl.Series | None:
    """Return a column of bytes as text if all are UTF-8: some writers do not mark their text as such."""
    try:
        return series.cast(pl.String) if series.dtype == pl.Binary else None
    except pl.exceptions.PolarsError:
        return None


def _notice_bytes(series: pl.Series, where: Place) -> Notice | None:
    return notice_bytes(series.name, where) if "Binary" in str(series.dtype) else None


def notice_bytes(name: str, where: Place) -> Notice:
    """Return what is said about a column of bytes that are no text."""
    message = f"column `{name}` holds bytes; templates see them in base64"
    return Notice(message, where=Place(file=where.file, field=name))
