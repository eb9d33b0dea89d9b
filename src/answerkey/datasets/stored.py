"""Rows in a Parquet file, of which only what is asked for is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from answerkey.datasets.binary import FOREIGN, find_casts, refuse_damage
from answerkey.datasets.content import Content
from answerkey.datasets.gathering import LINE, refuse_huge
from answerkey.datasets.ids import ID_COLUMN, number_rows, read_ids
from answerkey.datasets.ranges import lay_out
from answerkey.datasets.rows import PickedRows, Positions, Rows, choose_names
from answerkey.datasets.storage import StoredObject
from answerkey.datasets.troubles import Troubles
from answerkey.errors import DataError, Place
from answerkey.types import Samples

Stamp = tuple[int, int]


@dataclass(frozen=True)
class StoredRows:
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
    stamp: Stamp | None = None
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

    def take(self, positions: Positions) -> Rows:
        """Return the rows at these positions."""
        if isinstance(positions, range):
            return self.slice(positions.start, len(positions))
        return PickedRows(self, positions)

    def load(self, columns: Collection[str] | None = None) -> Samples:
        """Return the rows, with all columns or with those named that there are."""
        names = choose_names(self.columns, columns)
        with_id = [*names, ID_COLUMN] if ID_COLUMN in self.schema and ID_COLUMN not in names else names
        frame = self._read(with_id if self.first_line is not None else [*with_id, LINE])
        ids = self._name_rows(frame)
        encoded = self.encoded.intersection(names)
        return Samples(
            frame.select(pl.selectors.by_name(*names)), ids, self.file, self._number_lines(frame), encoded
        )

    def ids(self) -> pl.Series:
        """Return the ids of all rows; generated ones are not read from anywhere."""
        generated = ID_COLUMN not in self.schema
        return number_rows(self.offset + 1, self.length) if generated else self.load([ID_COLUMN]).ids

    def _read(self, names: list[str]) -> pl.DataFrame:
        if not self.length:
            types = {name: self.schema.get(name, pl.Int64()) for name in names}
            return pl.DataFrame(schema=types)
        self._require_unchanged()
        wanted = pl.selectors.by_name(*names)
        try:
            with self._open(names) as path:
                scan = pl.scan_parquet(path, glob=False, use_statistics=False, cache=False)
                frame = scan.slice(self.offset, self.length).select(wanted).collect()
        except FOREIGN as error:
            refuse_damage(Content(str(self.file), self.path), "Parquet", error)
        if frame.height != self.length:
            raise self._refuse_change()
        changed = [frame[name].cast(self.schema[name]) for name in names if name in self.casts]
        frame = frame.with_columns(changed) if changed else frame
        self._refuse_huge(frame)
        return frame

    def _open(self, names: list[str]) -> AbstractContextManager[Path]:
        """Return the file to read these columns from."""
        if self.stored is None:
            return nullcontext(self.path)
        return lay_out(self.stored, range(self.offset, self.offset + self.length), names)

    def _name_rows(self, frame: pl.DataFrame) -> pl.Series:
        if ID_COLUMN in self.schema:
            return read_ids(frame[ID_COLUMN], is_encoded=ID_COLUMN in self.encoded)
        return number_rows(self.offset + 1, self.length)

    def _number_lines(self, frame: pl.DataFrame) -> pl.Series:
        if self.first_line is None:
            return frame[LINE].alias("line")
        first = self.first_line + self.offset
        return pl.int_range(first, first + self.length, eager=True, dtype=pl.Int64).alias("line")

    def _refuse_huge(self, frame: pl.DataFrame) -> None:
        troubles = Troubles(self.file)
        lines = self._number_lines(frame)
        for series in frame.iter_columns():
            refuse_huge(series, lines, troubles)
        troubles.raise_any()

    def _require_unchanged(self) -> None:
        if self.stamp is not None and read_stamp(self.path) != self.stamp:
            raise self._refuse_change()

    def _refuse_change(self) -> DataError:
        message = "the file has changed while it was being read"
        return DataError("E201", message, where=Place(file=self.file), hint="start again when it is complete")


def read_stamp(path: Path) -> Stamp | None:
    """Return what changes when a file does; None when it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def open_parquet(content: Content) -> StoredRows | None:
    """Return the rows of a Parquet file; None when some of its columns need a look at every value."""
    stamp = read_stamp(content.path)
    if not content.head:
        raise DataError("E210", "the file is empty", where=content.place())
    path = content.path.absolute()  # it is read by whoever works on it, wherever that is
    found = _describe(content.path, content)
    return None if found is None else replace(found, path=path, stamp=stamp)


def open_stored_parquet(stored: StoredObject, file: str) -> StoredRows | None:
    """Return the rows of a Parquet object on shared storage; None as above. Only its end is read."""
    content = Content(file, Path(stored.name), raw=b"")
    if not stored.size:
        raise DataError("E210", "the file is empty", where=content.place())
    with lay_out(stored, range(0), ()) as path:
        found = _describe(path, content)
    return None if found is None else replace(found, path=content.path, stored=stored)


def _describe(path: Path, content: Content) -> StoredRows | None:
    """Return the rows as the end of a file describes them."""
    try:
        schema = pl.scan_parquet(path, glob=False).collect_schema()
        casts = find_casts(schema)
        length = int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
    except FOREIGN as error:
        refuse_damage(content, "Parquet", error)
    if casts is None:
        return None
    changed = frozenset(name for name, dtype in casts.items() if dtype != schema[name])
    return StoredRows(path, casts, 0, length, content.file, casts=changed)
