"""A dataset ready for use: filtered, selected, with a fingerprint, and cut into shards.

Rows are used that pass every filter: the first of them, or a seeded random choice, in whole or by
strata.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import blake2b, sha256
from itertools import pairwise
from typing import Literal, Protocol, Self

import polars as pl

from answerkey.datasets.content import refuse_file
from answerkey.datasets.rows import (
    Positions,
    Rows,
    iterate_blocks,
    iterate_samples,
    join_positions,
)
from answerkey.datasets.sources import Source
from answerkey.datasets.tables import TemplateErrors, digest_rows
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
    def of(cls, rows: Rows, *, name: str) -> Self:
        """Return samples as a dataset; its fingerprint is that of their ids and rows."""
        positions = range(len(rows))
        return cls(
            name,
            digest_rows(rows, with_ids=True),
            rows,
            positions,
            positions,
        )

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

    def samples(self, columns: Collection[str] | None = None) -> Samples:
        """Return all selected samples, loaded, with all columns or with some."""
        return self.rows.load(columns)

    def without_rows(self) -> Self:
        """Return what is known of the dataset, without its rows: small enough to be sent around."""
        return replace(
            self,
            table=self.table.slice(0, 0),
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
    kept = filter_rows(table.rows, source.filters)
    if not len(kept):
        message = f"dataset `{name}`: the filters leave none of its {len(table.rows)} rows"
        hint = "loosen the filters of the dataset"
        raise refuse_file("E210", message, table.rows.file, hint)
    chosen = select_rows(table.rows.take(kept), selection)
    notices = table.notices
    count = selection.num_samples
    if count is not None and count > len(kept):
        text = (
            f"dataset `{name}` has {len(kept)} rows, fewer than `num_samples` {count}: all are used"
        )
        notices = (*notices, Notice(text))
    fingerprint = _fingerprint(table.digest, source, selection)
    return Dataset(
        name,
        fingerprint,
        table.rows,
        kept,
        join_positions(kept, chosen),
        notices,
    )


def _fingerprint(
    digest: str,
    source: Source,
    selection: Selection,
) -> str:
    """Return a hash of the content and of all that decides which rows are used and how."""
    filters: list[dict[str, object]] = []
    for row_filter in source.filters:
        filters.append(
            {
                "op": row_filter.op,
                "expression": row_filter.expression,
                "value": row_filter.value,
                "values": row_filter.values,
            }
        )
    if selection.num_samples is None:
        selection = Selection()
    types = sorted(getattr(source, "columns", {}).items())
    parts = [digest, types, filters, asdict(selection)]
    text = json.dumps(
        parts,
        ensure_ascii=True,
        sort_keys=True,
        default=str,
    )
    return sha256(text.encode()).hexdigest()


def filter_rows(rows: Rows, filters: Sequence[RowFilter]) -> Positions:
    """Return where the rows stand that pass every filter, in order.

    A filter is shown only rows that passed those before it; a row on which it fails does not pass.
    """
    if not filters:
        return range(len(rows))
    errors = [TemplateErrors() for _ in filters]
    kept = array("q")
    for offset, block in iterate_blocks(rows):
        positions = list(range(len(block)))
        for row_filter, failures in zip(filters, errors, strict=True):
            verdicts = row_filter.sift(block.take(positions))
            passing: list[int] = []
            for position, verdict in zip(positions, verdicts, strict=True):
                if isinstance(verdict, RowError):
                    label = f"filter `{row_filter.expression}`"
                    failures.add(label, verdict, block.items[position])
                elif verdict:
                    passing.append(position)
            positions = passing
        kept.extend(offset + position for position in positions)
    for failures in errors:
        failures.raise_any()
    return pl.Series(kept, dtype=pl.Int64)


def select_rows(rows: Rows, selection: Selection) -> Positions:
    """Return where the selected rows stand, in order; all of them if fewer are there."""
    count = selection.num_samples
    column = selection.stratify_by
    if count is not None and count < 1:
        raise SpecError("E108", f"`num_samples` is {count}; it must be at least 1")
    if column is not None and column not in rows.columns:
        message = f"`stratify_by` names `{column}`, which is not a column"
        raise refuse_column(
            message,
            column,
            rows.columns,
            Place(file=rows.file),
        )
    if count is None or count >= len(rows):
        return range(len(rows))
    if column is None and selection.subsampling == "head":
        return range(count)
    strata = _list_strata(rows, column)
    sizes = Counter(strata)
    names = sorted(sizes)
    shares = share_out(count, [sizes[name] for name in names])
    ranks = pl.Series(rank_ids(rows.ids, selection.seed), dtype=pl.UInt64)
    table = pl.DataFrame({"stratum": strata, "rank": ranks}).with_row_index("row")
    chosen: list[pl.Series] = []
    for name, share in zip(names, shares, strict=True):
        ranked = table.filter(pl.col("stratum") == name).sort("rank", "row")
        chosen.append(ranked["row"].head(share))
    return pl.concat(chosen).sort().cast(pl.Int64)


def _list_strata(rows: Rows, column: str | None) -> list[str]:
    if column is None:
        return [""] * len(rows)
    return [repr(sample.fields[column]) for sample in iterate_samples(rows)]


def rank_ids(ids: Iterable[str], seed: int) -> array[int]:
    """Return the rank of each row, which depends on the seed and its id alone.

    Rows with smaller ranks are chosen first.
    """
    start = blake2b(f"{seed}\0".encode(), digest_size=RANK_BYTES)
    ranks = array("Q")
    for sample_id in ids:
        digest = start.copy()
        digest.update(sample_id.encode())
        ranks.append(int.from_bytes(digest.digest()[:8], "big"))
    return ranks


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
    """Completions that somebody once gave; a slice of them says where to read, and is small."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the dataset that are read."""

    @property
    def num_trials(self) -> int:
        """How many there are for each sample."""

    def slice(self, offset: int, length: int) -> Self:
        """Return those of `length` samples from `offset` on."""

    def read(self, samples: Samples) -> Completions:
        """Return the completions of the samples, which are all that these are for."""


@dataclass(frozen=True)
class Shard:
    """Some consecutive samples: the index of the shard, where it starts, and where to read it.

    `recorded` are their completions, where there are any; `failed` the positions of rows that are
    wrong. Of rows at the positions `skipped` nothing but the ids is used, for `reason`: they end
    the process that works on them, unless it says otherwise. What comes of a shard that `is_trial`
    is not kept.
    """

    index: int
    offset: int
    samples: Rows
    recorded: Recorded | None = None
    failed: tuple[int, ...] = ()
    skipped: tuple[int, ...] = ()
    is_trial: bool = False
    reason: str = "ENDED_WORKER"

    @property
    def left(self) -> list[int]:
        """The positions of the rows that are worked on."""
        return sorted(set(range(len(self.samples))).difference(self.skipped))

    def cut(self, start: int, stop: int) -> Shard:
        """Return a part of the shard, in which nothing is skipped."""
        recorded = self.recorded
        if recorded is not None:
            recorded = recorded.slice(start, stop - start)
        return replace(
            self,
            offset=self.offset + start,
            samples=self.samples.slice(start, stop - start),
            recorded=recorded,
            failed=tuple(row - start for row in self.failed if start <= row < stop),
            skipped=(),
        )

    def cut_around(self) -> list[Shard]:
        """Return the stretches between the rows that are skipped.

        One without rows where there is none.
        """
        ends = [-1, *self.skipped, len(self.samples)]
        spans = [(before + 1, after) for before, after in pairwise(ends) if after > before + 1]
        return [self.cut(*span) for span in spans or [(0, 0)]]

    def split(self, count: int) -> list[Shard]:
        """Return at most so many parts of like size, for trial only; one part is a single row."""
        size = len(self.samples)
        trial = replace(self, is_trial=True)
        step = max(1, -(-size // count))
        return [trial.cut(start, min(start + step, size)) for start in range(0, size, step)]

    def leave_out(self, reason: str) -> Shard:
        """Return the shard with all its rows left out of the work."""
        return replace(
            self,
            skipped=tuple(range(len(self.samples))),
            reason=reason,
        )

    def skip(self, rows: Sequence[Shard]) -> Shard:
        """Return the shard with these rows, shards of one row each, left out of the work."""
        positions = {row.offset - self.offset for row in rows}
        return replace(self, skipped=tuple(sorted(positions.union(self.skipped))))

    @property
    def places(self) -> range:
        """Where its samples stand in the dataset."""
        return range(self.offset, self.offset + len(self.samples))


def cut_shards(
    dataset: Dataset,
    rows: int,
    recorded: Recorded | None = None,
    failed: Sequence[int] = (),
) -> Iterator[Shard]:
    """Yield the dataset in shards of at most `rows` samples, in order; nothing is loaded yet.

    `failed` are the positions of rows that are wrong, in order.
    """
    for index, span in enumerate(dataset.cut(rows)):
        offset = span.start
        samples = dataset.rows.slice(offset, len(span))
        first = bisect_left(failed, offset)
        last = bisect_left(failed, offset + len(samples))
        failed_here = tuple(row - offset for row in failed[first:last])
        part = None if recorded is None else recorded.slice(offset, len(samples))
        yield Shard(
            index,
            offset,
            samples,
            part,
            failed_here,
        )


#: What annotators call a label that is in order; compared in lower case.
CLEAN_VALUES = frozenset(
    {"ok", "okay", "clean", "good", "correct", "valid", "verified", "no_error", "true", "yes", "1"}
)

#: The column, and the values that are clean.
CleanLabels = tuple[str, frozenset[str]]


def choose_clean(column: str | None, clean: Sequence[str]) -> CleanLabels | None:
    """Return the column with the values that are clean, or the usual ones; None without one."""
    if column is None:
        return None
    values = frozenset(_normalise_label(value) for value in clean)
    return column, values or CLEAN_VALUES


def read_label_quality(samples: Samples, column: str) -> pl.Series:
    """Return what a column says of each label, as text in lower case."""
    labels = [_normalise_label(value) for value in samples.values(column)]
    return pl.Series(labels, dtype=pl.String)


def _normalise_label(value: object) -> str:
    return "(none)" if value is None else str(value).strip().lower()
