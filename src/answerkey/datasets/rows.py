"""Rows that lie somewhere, in memory or in a Parquet file, and are loaded part by part.

A part of them is itself such rows, small enough to be sent to where the work is done: it says where to read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from answerkey.types import Samples

#: Positions in ascending order; a range where they follow each other.
Positions = range | pl.Series
#: How many rows are looked at together where all of them are looked at.
BLOCK_ROWS = 131_072


class Rows(Protocol):
    """Rows in their order, with ids and lines; see `Samples` for `encoded` and `file`."""

    @property
    def columns(self) -> list[str]:
        """The column names."""

    @property
    def encoded(self) -> frozenset[str]:
        """The columns whose cells hold JSON text."""

    @property
    def file(self) -> str | None:
        """The name that errors give."""

    def __len__(self) -> int:
        """Return how many rows there are."""

    def slice(self, offset: int, length: int) -> Rows:
        """Return the rows from `offset` on, at most `length` of them; nothing is loaded."""

    def take(self, positions: Positions) -> Rows:
        """Return the rows at these positions, which ascend; nothing is loaded."""

    def load(self, columns: Collection[str] | None = None) -> Samples:
        """Return all rows, with all columns or with those named that there are."""

    def ids(self) -> pl.Series:
        """Return the ids of all rows."""


@dataclass(frozen=True)
class HeldRows:
    """Rows in memory."""

    samples: Samples

    @property
    def columns(self) -> list[str]:
        """The column names."""
        return self.samples.columns

    @property
    def encoded(self) -> frozenset[str]:
        """The columns whose cells hold JSON text."""
        return self.samples.encoded

    @property
    def file(self) -> str | None:
        """The name that errors give."""
        return self.samples.file

    def __len__(self) -> int:
        return len(self.samples)

    def slice(self, offset: int, length: int) -> Rows:
        """Return the rows from `offset` on, at most `length` of them."""
        whole = offset == 0 and length >= len(self)
        return self if whole else HeldRows(self.samples.slice(offset, length))

    def take(self, positions: Positions) -> Rows:
        """Return the rows at these positions."""
        if isinstance(positions, range):
            return self.slice(positions.start, len(positions))
        return HeldRows(self.samples.take(positions))

    def load(self, columns: Collection[str] | None = None) -> Samples:
        """Return the rows, with all columns or with those named that there are."""
        names = choose_names(self.columns, columns)
        return self.samples if len(names) == len(self.columns) else self.samples.select(names)

    def ids(self) -> pl.Series:
        """Return the ids of all rows."""
        return self.samples.ids


@dataclass(frozen=True)
class RowsOver:
    """Rows made of other rows, with their columns and their name."""

    rows: Rows

    @property
    def columns(self) -> list[str]:
        """The column names."""
        return self.rows.columns

    @property
    def encoded(self) -> frozenset[str]:
        """The columns whose cells hold JSON text."""
        return self.rows.encoded

    @property
    def file(self) -> str | None:
        """The name that errors give."""
        return self.rows.file


@dataclass(frozen=True)
class PickedRows(RowsOver):
    """Rows that do not follow each other, out of rows that are not in memory."""

    positions: pl.Series

    def __len__(self) -> int:
        return len(self.positions)

    def slice(self, offset: int, length: int) -> Rows:
        """Return the rows from `offset` on, at most `length` of them."""
        return PickedRows(self.rows, self.positions.slice(offset, length))

    def take(self, positions: Positions) -> Rows:
        """Return the rows at these positions among the picked ones."""
        chosen = join_positions(self.positions, positions)
        return self.rows.take(chosen)

    def load(self, columns: Collection[str] | None = None) -> Samples:
        """Return the rows; of those between them, no more than a block is in memory at a time."""
        parts = [near.load(columns).take(places) for near, places in self._stretches()]
        return concat_samples(parts) if parts else self.rows.slice(0, 0).load(columns)

    def ids(self) -> pl.Series:
        """Return the ids of all rows."""
        parts = [near.ids().gather(places) for near, places in self._stretches()]
        return pl.concat(parts) if parts else self.rows.slice(0, 0).ids()

    def _stretches(self) -> Iterator[tuple[Rows, pl.Series]]:
        """Yield stretches of at most a block, each with the places of the picked rows in it."""
        left = self.positions
        while len(left):
            start = int(left[0])
            count = left.search_sorted(start + BLOCK_ROWS)
            near, left = left.head(count), left.slice(count)
            yield self.rows.slice(start, int(near[-1]) + 1 - start), near - start


def choose_names(known: Sequence[str], wanted: Collection[str] | None) -> list[str]:
    """Return the known columns that are wanted, in their order; the first where none is.

    A table without any column would not know how many rows it has.
    """
    if wanted is None:
        return list(known)
    return [name for name in known if name in wanted] or list(known[:1])


def concat_samples(parts: Sequence[Samples]) -> Samples:
    """Return parts of the same rows as one."""
    if len(parts) == 1:
        return parts[0]
    lines = [one.lines for one in parts if one.lines is not None]
    files = [one.files for one in parts if one.files is not None]
    return Samples(
        pl.concat([one.frame for one in parts]),
        pl.concat([one.ids for one in parts]),
        parts[0].file,
        pl.concat(lines) if lines else None,
        parts[0].encoded,
        files=pl.concat(files) if files else None,
    )


def join_positions(outer: Positions, inner: Positions) -> Positions:
    """Return where rows stand that are chosen out of chosen ones."""
    if isinstance(outer, range):
        if isinstance(inner, range):
            return outer[inner.start : inner.stop]
        return inner + outer.start if outer.start else inner
    return outer.slice(inner.start, len(inner)) if isinstance(inner, range) else outer.gather(inner)


def locate_positions(outer: Positions, inner: Positions) -> Positions:
    """Return where rows stand among chosen ones, of which they are a part; the reverse of joining."""
    if isinstance(outer, range):
        if isinstance(inner, range):
            return range(inner.start - outer.start, inner.stop - outer.start)
        return inner - outer.start if outer.start else inner
    wanted = pl.Series(inner, dtype=outer.dtype)
    return outer.search_sorted(wanted)


def iterate_blocks(
    rows: Rows, columns: Collection[str] | None = None, *, size: int | None = None
) -> Iterator[tuple[int, Samples]]:
    """Yield the rows block by block, each with the position of its first row."""
    step = size or BLOCK_ROWS
    for offset in range(0, len(rows), step):
        yield offset, rows.slice(offset, step).load(columns)
