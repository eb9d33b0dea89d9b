"""A dataset ready for use: filtered, selected, with a fingerprint, and split into chunks.

Rows are used that pass every filter: the first of them, or a seeded random choice, in whole or by
strata.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from functools import cached_property
from hashlib import blake2b, sha256
from heapq import nsmallest
from typing import Literal, Protocol, Self

import polars as pl

from answerkey.datasets.content import RowErrors, refuse_file
from answerkey.datasets.rows import (
    Positions,
    Rows,
    iterate_blocks,
    iterate_samples,
    join_positions,
)
from answerkey.datasets.sources import Source
from answerkey.datasets.tables import describe_template_error, digest_rows
from answerkey.errors import Place, SpecError, refuse_column
from answerkey.templates import RowError, RowFilter
from answerkey.types import Completions, Notice, Samples

RANK_BYTES = 16


@dataclass(frozen=True)
class Selection:
    """How many samples to use and which.

    With `stratify_by`, each value of that column keeps its share.
    """

    num_samples: int | None = None
    subsampling: Literal["head", "random"] = "head"
    seed: int = 0
    stratify_by: str | None = None


@dataclass(frozen=True)
class Dataset:
    """The samples of a task: those at `chosen` among all rows of `table`.

    Filters keep the rows at `kept`.
    """

    name: str
    fingerprint: str
    table: Rows
    kept: Positions
    chosen: Positions
    notices: tuple[Notice, ...] = ()

    @classmethod
    def of(
        cls,
        rows: Rows,
        *,
        name: str,
    ) -> Self:
        """Return samples as a dataset; its fingerprint is that of their rows."""
        positions = range(len(rows))
        return cls(name, digest_rows(rows), rows, positions, positions)

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def columns(self) -> Sequence[str]:
        """The column names."""
        return self.table.columns

    @property
    def rows_read(self) -> int:
        """How many rows the source has."""
        return len(self.table)

    @property
    def rows_filtered(self) -> int:
        """How many rows the filters leave out."""
        return len(self.table) - len(self.kept)

    @cached_property
    def rows(self) -> Rows:
        """The selected rows."""
        return self.table.take(self.chosen)

    @property
    def num_samples(self) -> int:
        """How many samples there are; a row may also be one of several orders of a sample."""
        return len(self)

    def cut(self, rows: int) -> Iterator[range]:
        """Yield positions in consecutive parts of at most `rows` rows."""
        for offset in range(0, len(self), rows):
            yield range(offset, min(offset + rows, len(self)))

    def samples(self) -> Samples:
        """Return all selected samples, loaded."""
        return self.rows.load()

    def without_rows(self) -> Self:
        """Return the dataset without its rows, small enough to be sent to other processes."""
        empty = self.table.slice(0, 0).load()
        return replace(
            self,
            table=empty,
            kept=range(0),
            chosen=range(0),
        )


def open_dataset(
    source: Source,
    *,
    selection: Selection | None = None,
    name: str,
) -> Dataset:
    """Return the dataset of a source.

    Raises for bad rows, failing filters, and when no row is left.
    """
    selection = selection or Selection()
    table = source.read(name=name)
    kept: Positions = range(len(table.rows))
    if source.filters:
        kept = filter_rows(table.rows, source.filters)
    if not len(kept):
        message = f"dataset `{name}`: the filters leave none of its {len(table.rows)} rows"
        hint = "loosen the filters of the dataset"
        raise refuse_file("E210", message, table.rows.file, hint)
    chosen = kept
    if selection != Selection():
        places = select_rows(table.rows.take(kept), selection)
        chosen = join_positions(kept, places)
    notices = []
    count = selection.num_samples
    if count is not None and count > len(kept):
        text = f"dataset `{name}` has {len(kept)} rows, fewer than `num_samples` {count}"
        notices.append(Notice(f"{text}: all are used"))
    return Dataset(
        name,
        _fingerprint(table.digest, source, selection),
        table.rows,
        kept,
        chosen,
        tuple(notices),
    )


def _fingerprint(
    digest: str,
    source: Source,
    selection: Selection,
) -> str:
    """Return a hash of the content and of all that decides which rows are used and how."""
    filters = list(map(astuple, source.filters))
    if selection.num_samples is None:
        selection = Selection()
    types = sorted(getattr(source, "columns", {}).items())
    content = [digest, types, filters, asdict(selection)]
    text = json.dumps(content, sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()


def filter_rows(rows: Rows, filters: Sequence[RowFilter]) -> Positions:
    """Return where the rows stand that pass every filter, in order.

    A filter is shown only rows that passed those before it; a row on which it fails does not pass.
    """
    errors = RowErrors(rows.file)
    kept = array("q")
    for offset, block in iterate_blocks(rows):
        positions = list(range(len(block)))
        for row_filter in filters:
            label = f"filter `{row_filter.expression}`"
            verdicts = row_filter.sift(block.take(positions))
            passing = []
            for position, verdict in zip(positions, verdicts, strict=True):
                if isinstance(verdict, RowError):
                    sample = block.items[position]
                    errors.add(describe_template_error(label, verdict, sample))
                elif verdict:
                    passing.append(position)
            positions = passing
        kept.extend(offset + position for position in positions)
    errors.raise_any()
    return pl.Series(kept, dtype=pl.Int64)


def select_rows(rows: Rows, selection: Selection) -> Positions:
    """Return where the selected rows stand, in order; all of them if fewer are there."""
    count = selection.num_samples
    column = selection.stratify_by
    if count is not None and count < 1:
        raise SpecError("E108", f"`num_samples` is {count}; it must be at least 1")
    if column is not None and column not in rows.columns:
        message = f"`stratify_by` names `{column}`, which is not a column"
        where = Place(rows.file)
        raise refuse_column(message, column, rows.columns, where)
    if count is None or count >= len(rows):
        return range(len(rows))
    if column is None and selection.subsampling == "head":
        return range(count)
    return _draw_rows(rows, count, selection)


def _draw_rows(
    rows: Rows,
    count: int,
    selection: Selection,
) -> pl.Series:
    """Return the positions of `count` rows with the smallest ranks, in each stratum its share."""
    column = selection.stratify_by
    ranks = array("Q")
    strata: dict[str, array[int]] = {}
    for position, sample in enumerate(iterate_samples(rows)):
        ranks.append(rank_id(sample.id, selection.seed))
        stratum = ""
        if column is not None:
            stratum = repr(sample.fields[column])
        strata.setdefault(stratum, array("q")).append(position)
    positions = [strata[stratum] for stratum in sorted(strata)]
    shares = share_out(count, list(map(len, positions)))
    chosen = []
    for places, share in zip(positions, shares, strict=True):
        chosen += nsmallest(share, places, key=ranks.__getitem__)
    return pl.Series(sorted(chosen), dtype=pl.Int64)


def rank_id(sample_id: str, seed: int) -> int:
    """Return the rank of a row, which depends on the seed and its id alone.

    Rows with smaller ranks are chosen first.
    """
    content = f"{seed}\0{sample_id}".encode()
    digest = blake2b(content, digest_size=RANK_BYTES).digest()
    return int.from_bytes(digest[:8], "big")


def share_out(count: int, sizes: Sequence[int]) -> list[int]:
    """Return how many of `count` each stratum gets: its proportion, rest to the largest remainders.

    Equal remainders go to the larger stratum, then to the earlier one.
    """
    total = sum(sizes)
    shares = [count * size // total for size in sizes]

    def precedence(place: int) -> tuple[int, int, int]:
        remainder = count * sizes[place] % total
        return -remainder, -sizes[place], place

    places = sorted(range(len(sizes)), key=precedence)
    for place in places[: count - sum(shares)]:
        shares[place] += 1
    return shares


class Recorded(Protocol):
    """Completions that somebody once gave; a part of them says where to read, and is small."""

    @property
    def num_trials(self) -> int:
        """How many there are for each sample."""

    def take(self, positions: Positions) -> Self:
        """Return those of the samples at these positions."""

    def read(self, samples: Samples) -> Completions:
        """Return the completions of all samples of this part."""


@dataclass(frozen=True)
class Chunk:
    """Some consecutive samples: the index of the chunk, where it starts, and where to read it.

    `recorded` are their completions, where there are any; `failed` the positions of rows that are
    wrong. Of rows at the positions `skipped` nothing but the ids is used, for `reason`: they end
    the process that works on them, unless it says otherwise.
    """

    index: int
    offset: int
    samples: Rows
    recorded: Recorded | None = None
    failed: tuple[int, ...] = ()
    skipped: tuple[int, ...] = ()
    reason: str = "ENDED_WORKER"

    @property
    def left(self) -> list[int]:
        """The positions of the rows that are worked on."""
        positions = set(range(len(self.samples)))
        return sorted(positions.difference(self.skipped))

    @property
    def places(self) -> range:
        """Where its samples stand in the dataset."""
        return range(self.offset, self.offset + len(self.samples))

    def cut(
        self,
        start: int,
        stop: int,
    ) -> Chunk:
        """Return a part of the chunk, in which nothing is skipped."""
        recorded = self.recorded
        if recorded is not None:
            recorded = recorded.take(range(start, stop))
        first = bisect_left(self.failed, start)
        last = bisect_left(self.failed, stop)
        return replace(
            self,
            offset=self.offset + start,
            samples=self.samples.slice(start, stop - start),
            recorded=recorded,
            failed=tuple(row - start for row in self.failed[first:last]),
            skipped=(),
        )

    def split(self, count: int) -> list[Chunk]:
        """Return at most `count` parts of like size, of one row at least."""
        size = len(self.samples)
        step = max(1, -(-size // count))
        parts = []
        for start in range(0, size, step):
            parts.append(self.cut(start, min(start + step, size)))
        return parts

    def leave_out(self, reason: str) -> Chunk:
        """Return the chunk with all its rows left out of the work."""
        every_row = tuple(range(len(self.samples)))
        return replace(self, skipped=every_row, reason=reason)

    def skip(self, rows: Sequence[Chunk]) -> Chunk:
        """Return the chunk with these rows, chunks of one row each, left out of the work."""
        positions = {row.offset - self.offset for row in rows}
        skipped = sorted(positions.union(self.skipped))
        return replace(self, skipped=tuple(skipped))


def split_into_chunks(
    dataset: Dataset,
    rows: int,
    recorded: Recorded | None = None,
    failed: Sequence[int] = (),
) -> Iterator[Chunk]:
    """Yield the dataset in chunks of at most `rows` samples, in order; nothing is loaded yet.

    `failed` are the positions of rows that are wrong, in order.
    """
    whole = Chunk(
        0,
        0,
        dataset.rows,
        recorded,
        tuple(failed),
    )
    for index, span in enumerate(dataset.cut(rows)):
        yield replace(whole.cut(span.start, span.stop), index=index)
