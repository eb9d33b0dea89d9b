"""A table of a run: in parts on disk or in memory, of which any range of rows can be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import polars as pl

from answerkey.runs.files import (
    count_rows,
    describe_damage,
    digest_file,
    join_parts,
    list_parts,
    read_frame,
    refuse_changed,
    require_digest,
)
from answerkey.types import Completions, Samples

T = TypeVar("T")


class Parts(Protocol):
    """A table in parts, one for each shard."""

    def __len__(self) -> int:
        """Return how many rows there are."""

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """Yield part by part; one is in memory at a time."""

    def read(self, offset: int, length: int, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows from `offset` on, at most `length` of them, with all columns or with some."""

    def read_all(self) -> pl.DataFrame:
        """Return the whole table; a frame without columns when there are no parts."""


@dataclass(frozen=True)
class FolderParts:
    """The parts of a table in a folder; E503 when they are damaged.

    With `listed`, what `run.json` says of them by their names, a part is hashed once, before its first row is
    used.
    """

    folder: Path
    listed: Mapping[str, Mapping[str, Any]] | None = None
    _hashed: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    @cached_property
    def _files(self) -> tuple[tuple[Path, int], ...]:
        return tuple((path, self._count(path)) for path in self._list())

    def _list(self) -> list[Path]:
        if self.listed is None:
            return list_parts(self.folder)
        return [self.folder / name for name in sorted(self.listed)]

    def _count(self, path: Path) -> int:
        rows = count_rows(path)
        if self.listed is not None and rows != self.listed[path.name]["rows"]:
            raise refuse_changed(path, f"it has {rows:,} rows, `run.json` another number")
        return rows

    def _require_same(self, path: Path) -> Path:
        if self.listed is not None and path.name not in self._hashed:
            require_digest(path, digest_file(path), self.listed[path.name]["sha256"])
            self._hashed.add(path.name)
        return path

    def __len__(self) -> int:
        return sum(rows for _, rows in self._files)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return (read_frame(self._require_same(path)) for path in self._list())

    def read(self, offset: int, length: int, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows from `offset` on, at most `length` of them, with all columns or with some."""
        ranges = cut_range(self._files, offset, length)
        return join_parts(
            [_read_range(self._require_same(path), first, rows, columns) for path, first, rows in ranges]
        )

    def read_all(self) -> pl.DataFrame:
        """Return the whole table; a frame without columns when there are no parts."""
        try:
            return join_parts(list(self))
        except pl.exceptions.PolarsError as error:
            raise describe_damage(self.folder, error) from error


def cut_range(parts: Iterable[tuple[T, int]], offset: int, length: int) -> Iterator[tuple[T, int, int]]:
    """Yield which rows of which parts a range of the whole table is: the part, its first row, how many."""
    start = 0
    for part, rows in parts:
        first, last = max(offset, start), min(offset + length, start + rows)
        if first < last:
            yield part, first - start, last - first
        start += rows


@dataclass(frozen=True)
class HeldParts:
    """The parts of a table in memory."""

    frames: list[pl.DataFrame] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(one.height for one in self.frames)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return iter(self.frames)

    def read(self, offset: int, length: int, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows from `offset` on, at most `length` of them, with all columns or with some."""
        found = self.read_all().slice(offset, length)
        return found if columns is None else found.select(columns)

    def read_all(self) -> pl.DataFrame:
        """Return the whole table; a frame without columns when there are no parts."""
        return join_parts(self.frames)


@dataclass(frozen=True)
class KeptCompletions:
    """The completions that a run keeps, `num_trials` for each of its samples."""

    parts: Parts
    num_trials: int
    offset: int = 0
    length: int | None = None
    columns: frozenset[str] = frozenset()

    def slice(self, offset: int, length: int) -> Self:
        """Return those of `length` samples from `offset` on."""
        return replace(self, offset=self.offset + offset, length=length)

    def read(self, samples: Samples) -> Completions:
        """Return the completions of the samples."""
        length = len(samples) if self.length is None else self.length
        return Completions(self.parts.read(self.offset * self.num_trials, length * self.num_trials))


def _read_range(path: Path, offset: int, length: int, columns: Sequence[str] | None) -> pl.DataFrame:
    try:
        scan = pl.scan_parquet(path, glob=False).slice(offset, length)
        return (scan if columns is None else scan.select(pl.selectors.by_name(*columns))).collect()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise describe_damage(path, error) from error
