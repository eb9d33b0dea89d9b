"""Parquet and Arrow files that are too large to be held and whose values need a look one by one."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from answerkey.datasets.binary import FOREIGN, find_casts, notice_bytes, refuse_damage
from answerkey.datasets.content import Content
from answerkey.datasets.gathering import CHUNK_ROWS, Chunk, Gatherer
from answerkey.datasets.names import check_names
from answerkey.datasets.plain import make_plain
from answerkey.types import Notice


def read_parquet_blocks(content: Content, gatherer: Gatherer) -> tuple[Notice, ...]:
    """Hand over the rows of a Parquet file; return what is odd about it."""
    return _read_blocks(content, gatherer, "Parquet", pl.scan_parquet(content.path, glob=False))


def read_arrow_blocks(content: Content, gatherer: Gatherer) -> tuple[Notice, ...]:
    """Hand over the rows of an Arrow file, not of a stream; return what is odd about it."""
    return _read_blocks(content, gatherer, "Arrow", pl.scan_ipc(content.path, glob=False))


def _read_blocks(content: Content, gatherer: Gatherer, kind: str, scan: pl.LazyFrame) -> tuple[Notice, ...]:
    try:
        schema = scan.collect_schema()
        notices = check_names(schema.names(), content.place())
        texts = {name for name, dtype in schema.items() if dtype == pl.Binary and _is_utf8(scan, name)}
        for first, frame in _iterate(scan):
            columns = {
                series.name: _adopt(series, is_text=series.name in texts) for series in frame.iter_columns()
            }
            gatherer.add(Chunk(columns, range(first, first + frame.height)))
    except FOREIGN as error:
        refuse_damage(content, kind, error)
    odd = [name for name, dtype in schema.items() if "Binary" in str(dtype) and name not in texts]
    return (*notices, *(notice_bytes(name, content.place()) for name in odd))


def _iterate(scan: pl.LazyFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield the rows block by block, each with the number of its first row."""
    height = int(scan.select(pl.len()).collect().item())
    for offset in range(0, height, CHUNK_ROWS):
        yield offset + 1, scan.slice(offset, CHUNK_ROWS).collect()


def _is_utf8(scan: pl.LazyFrame, name: str) -> bool:
    """Return whether all bytes of a column are text."""
    try:
        for _, frame in _iterate(scan.select(pl.selectors.by_name(name))):
            frame[name].cast(pl.String)
    except pl.exceptions.ComputeError:
        return False
    return True


def _adopt(series: pl.Series, *, is_text: bool) -> list[object] | pl.Series:
    casts = {series.name: pl.String()} if is_text else find_casts({series.name: series.dtype})
    if casts is not None:
        return series.cast(casts[series.name])
    return list(make_plain(series.to_list()))
