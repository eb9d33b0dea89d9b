"""A table of a run in parts on shared storage, of which any range of rows can be read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO

import polars as pl

from answerkey.datasets.ranges import lay_out, load_footer
from answerkey.datasets.storage import StoredObject, list_objects, put_object
from answerkey.errors import DataError, RunError
from answerkey.runs.files import PARQUET, encode_json, join_parts, require_digest, require_likely, unify
from answerkey.runs.parts import cut_range
from answerkey.runs.places import reaching_storage

#: How many parts are asked about at a time.
TOGETHER = 8
_PART = re.compile(r"part-\d+\.parquet")


@dataclass(frozen=True)
class StoredParts:
    """The parts of a table under an address; E503 when they are damaged, E509 when they cannot be had.

    `found` are the parts as they were when the run was opened. Those with a SHA-256 in `digests`, by their
    names, are hashed once, before their first row is used.
    """

    url: str
    found: tuple[StoredObject, ...] | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    _hashed: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    @cached_property
    def _files(self) -> tuple[tuple[StoredObject, int], ...]:
        parts = list_stored_parts(self.url) if self.found is None else self.found
        with ThreadPoolExecutor(TOGETHER) as pool:
            return tuple(zip(parts, pool.map(count_stored_rows, parts), strict=True))

    def __len__(self) -> int:
        return sum(rows for _, rows in self._files)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return (_read(self._require_same(part), 0, rows, None) for part, rows in self._files)

    def read(self, offset: int, length: int, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows from `offset` on, at most `length` of them, with all columns or with some."""
        ranges = cut_range(self._files, offset, length)
        return join_parts(
            [_read(self._require_same(part), first, rows, columns) for part, first, rows in ranges]
        )

    def _require_same(self, part: StoredObject) -> StoredObject:
        if part.name in self.digests and part.name not in self._hashed:
            require_same(part, self.digests[part.name])
            self._hashed.add(part.name)
        return part

    def read_all(self) -> pl.DataFrame:
        """Return the whole table; a frame without columns when there are no parts."""
        try:
            return join_parts(list(self))
        except pl.exceptions.PolarsError as error:
            raise _describe(self.url, error) from error

    def unify(self) -> None:
        """Give all parts the same schema; see `unify`."""
        parts = [part for part, _ in self._files]
        with ThreadPoolExecutor(TOGETHER) as pool:
            schemas = dict(zip(parts, pool.map(_read_schema, parts), strict=True))
        counts = dict(self._files)
        unify(
            schemas,
            lambda part: _read(part, 0, counts[part], None),
            lambda part, frame: put_frame(part.url, frame),
            self.url,
        )


def list_stored_parts(url: str) -> list[StoredObject]:
    """Return the parts of a table in their order."""
    with reaching_storage():
        return [one for one in list_objects(url) if _PART.fullmatch(one.url[len(url) + 1 :])]


def require_same(stored: StoredObject, digest: str) -> None:
    """Raise E503 when an object, which is read for that, has another SHA-256."""
    with reaching_storage():
        require_digest(stored.url, stored.digest(), digest)


def put_frame(url: str, frame: pl.DataFrame) -> None:
    """Write a Parquet object, whole or not at all, with the very bytes of a file."""
    out = BytesIO()
    frame.write_parquet(out, **PARQUET)
    with reaching_storage():
        put_object(url, out.getvalue())


def put_json(url: str, content: object) -> None:
    """Write a JSON object with the very bytes of a file."""
    with reaching_storage():
        put_object(url, encode_json(content))


def read_stored_frame(stored: StoredObject) -> pl.DataFrame:
    """Return a Parquet object of a run."""
    return _read(stored, 0, count_stored_rows(stored), None)


def count_stored_rows(part: StoredObject) -> int:
    """Return how many rows a Parquet object of a run says it has; E503 when that cannot be."""
    with reaching_storage():
        try:
            rows = load_footer(part).rows
            require_likely(rows, part.size)
        except (DataError, ValueError) as error:
            if isinstance(error, DataError) and error.code != "E202":
                raise
            raise _describe(part.url, error) from None
    return rows


def _read_schema(part: StoredObject) -> Mapping[str, pl.DataType]:
    with reaching_storage(), lay_out(part, range(0), ()) as path:
        try:
            return pl.scan_parquet(path, glob=False).collect_schema()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise _describe(part.url, error) from error


def _read(part: StoredObject, offset: int, length: int, columns: Sequence[str] | None) -> pl.DataFrame:
    names = load_footer(part).columns if columns is None else columns
    with reaching_storage(), lay_out(part, range(offset, offset + length), names) as path:
        try:
            scan = pl.scan_parquet(path, glob=False).slice(offset, length)
            return (scan if columns is None else scan.select(pl.selectors.by_name(*columns))).collect()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise _describe(part.url, error) from error


def _describe(url: str, error: Exception) -> RunError:
    return RunError("E503", f"cannot read `{url}`: {error}", hint="the run folder is damaged")
