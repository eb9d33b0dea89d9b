"""A dataset ready for use: filtered, selected, with a fingerprint, and cut into shards.

Rows are used that pass every filter: the first of them, or a seeded random choice, in whole or by strata.
"""

from __future__ import annotations

import json
import sys
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import blake2b, sha256
from itertools import pairwise
from typing import Literal, Protocol, Self

import polars as pl

from answerkey.datasets.rows import BLOCK_ROWS, Positions, Rows, iterate_blocks, join_positions
from answerkey.datasets.sources import Source
from answerkey.datasets.tables import TemplateErrors, digest_rows
from answerkey.errors import DataError, Place, SpecError, refuse_column
from answerkey.templates import RowFilter
from answerkey.types import Completions, Notice, Samples

_DIGEST_BYTES = 16


@dataclass(frozen=True)
class Selection:
    """How many samples to use and which; with `stratify_by`, each value of that column keeps its share."""

    num_samples: int | None = None
    subsampling: Literal["head", "random"] = "head"
    seed: int = 0
    stratify_by: str | None = None


@dataclass(frozen=True)
class Dataset:
    """The samples of a task: those at `chosen` among all rows of `table`; filters keep those at `kept`."""

    name: str
    fingerprint: str
    table: Rows
    kept: Positions
    chosen: Positions
    notices: tuple[Notice, ...] = ()

    @classmethod
    def of(cls, rows: Rows, *, name: str) -> Self:
        """Return samples as a dataset; its fingerprint is that of their ids and rows."""
        every = range(len(rows))
        return cls(name, digest_rows(rows, with_ids=True), rows, every, every)

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def columns(self) -> list[str]:
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
        return replace(self, table=self.table.slice(0, 0), kept=range(0), chosen=range(0))


def open_dataset(source: Source, *, selection: Selection | None = None, name: str) -> Dataset:
    """Return the dataset of a source; raises for bad rows, failing filters, and when no row is left."""
    selection = selection or Selection()
    table = source.read(name=name)
    kept = filter_rows(table.rows, source.filters)
    if not len(kept):
        message = f"dataset `{name}`: the filters leave none of its {len(table.rows)} rows"
        where = Place(file=table.rows.file)
        raise DataError("E210", message, where=where, hint="loosen the filters of the dataset")
    chosen = select_rows(table.rows.take(kept), selection)
    notices, wanted = table.notices, selection.num_samples
    if wanted is not None and wanted > len(kept):
        text = f"dataset `{name}` has {len(kept)} rows, fewer than `num_samples` {wanted}: all are used"
        notices = (*notices, Notice(text))
    # The fingerprint is over the content and all that decides which rows are used and how they are read.
    filters = [
        {"op": one.op, "expression": one.expression, "value": one.value, "values": one.values}
        for one in source.filters
    ]
    typing = sorted(getattr(source, "columns", {}).items())
    parts = [table.digest, typing, filters, asdict(Selection() if wanted is None else selection)]
    said = json.dumps(parts, ensure_ascii=True, sort_keys=True, default=str)
    fingerprint = sha256(said.encode()).hexdigest()
    return Dataset(name, fingerprint, table.rows, kept, join_positions(kept, chosen), notices)


def filter_rows(rows: Rows, filters: Sequence[RowFilter]) -> Positions:
    """Return where the rows stand that pass every filter, in order.

    A filter is shown only rows that passed those before it; a row on which it fails does not pass.
    """
    if not filters:
        return range(len(rows))
    read: set[str] | None = set()  # the columns that filters read; None for all, also when one does not exist
    for one in filters:
        columns = one.row_template.columns
        read = None if read is None or columns is None else read | columns
    if read is not None and not read <= set(rows.columns):
        read = None
    errors = [TemplateErrors() for _ in filters]
    kept: list[pl.Series] = []
    for offset, block in iterate_blocks(rows, read):
        passed = pl.int_range(len(block), dtype=pl.Int64, eager=True)
        for one, failed in zip(filters, errors, strict=True):
            left = block if len(passed) == len(block) else block.take(passed)
            sifted = one.sift(left)
            for row, error in sifted.problems:
                failed.add(f"filter `{one.expression}`", error, left, row)
            passed = passed.filter(sifted.is_kept)
        kept.append(passed + offset)
    for failed in errors:
        failed.raise_any()
    return pl.concat(kept)


def select_rows(rows: Rows, selection: Selection) -> Positions:
    """Return where the selected rows stand, in order; all of them if fewer are there than asked for."""
    wanted, column = selection.num_samples, selection.stratify_by
    if wanted is not None and wanted < 1:
        raise SpecError("E108", f"`num_samples` is {wanted}; it must be at least 1")
    if column is not None and column not in rows.columns:
        message = f"`stratify_by` names `{column}`, which is not a column"
        raise refuse_column(message, column, rows.columns, Place(file=rows.file))
    if wanted is None or wanted >= len(rows):
        return range(len(rows))
    if column is None and selection.subsampling == "head":
        return range(wanted)
    shares = {"": wanted}
    if column is not None:
        sizes: Counter[str] = Counter()
        for _, block in iterate_blocks(rows, [column]):
            sizes.update(map(repr, block.values(column)))
        names = sorted(sizes)
        shares = dict(zip(names, share_out(wanted, [sizes[name] for name in names]), strict=True))
    # Of each stratum the rows with the smallest ranks so far; of the others nothing is kept.
    best: dict[str, pl.DataFrame] = {}
    for offset in range(0, len(rows), BLOCK_ROWS):
        part, parts = rows.slice(offset, BLOCK_ROWS), dict[tuple[object, ...], pl.DataFrame]()
        if column is None:
            parts["",] = rank_ids(part.ids.to_list(), selection.seed)
        else:
            block = part.load([column])
            strata = pl.Series("stratum", list(map(repr, block.values(column))), dtype=pl.String)
            ranked = rank_ids(block.ids.to_list(), selection.seed).with_columns(strata)
            parts = ranked.partition_by("stratum", as_dict=True, include_key=False)
        for (key,), found in parts.items():
            name, ranks = str(key), found.with_columns(pl.col("row") + offset)
            both = pl.concat([best[name], ranks]) if name in best else ranks
            best[name] = both.sort("high", "low", "row").head(shares[name])
    return pl.concat([one["row"] for one in best.values()]).sort()


def rank_ids(ids: Sequence[str], seed: int) -> pl.DataFrame:
    """Return the rank of each row, which depends on nothing but the seed and its id; smaller comes first.

    The rank is the pair of `high` and `low`; `row` is the position of the id.
    """
    start = blake2b(f"{seed}\0".encode(), digest_size=_DIGEST_BYTES)
    digests = bytearray()
    for name in ids:
        digest = start.copy()
        digest.update(name.encode())
        digests += digest.digest()
    numbers = array("Q", bytes(digests))  # the first byte of each counts most
    if sys.byteorder == "little":
        numbers.byteswap()
    halves = pl.Series(numbers, dtype=pl.UInt64)
    row = pl.int_range(len(ids), dtype=pl.Int64, eager=True)
    return pl.DataFrame({"row": row, "high": halves.gather_every(2), "low": halves.gather_every(2, 1)})


def share_out(wanted: int, sizes: Sequence[int]) -> list[int]:
    """Return how many of `wanted` each stratum gets: its proportion, rest to the largest remainders.

    Equal remainders go to the larger stratum, then to the earlier one.
    """
    total = sum(sizes)
    shares = [wanted * size // total for size in sizes]
    order = sorted(range(len(sizes)), key=lambda one: (-(wanted * sizes[one] % total), -sizes[one], one))
    for one in order[: wanted - sum(shares)]:
        shares[one] += 1
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
    """Some consecutive samples: the index of the shard, where it starts in the dataset, where to read it.

    `recorded` are their completions, where there are any; `failed` the positions of rows that are wrong.
    Of rows at the positions `skipped` nothing but the ids is used, for `reason`: they end the process that
    works on them, unless it says otherwise. What comes of a shard that `is_trial` is not kept.
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
        return replace(
            self,
            offset=self.offset + start,
            samples=self.samples.slice(start, stop - start),
            recorded=None if self.recorded is None else self.recorded.slice(start, stop - start),
            failed=tuple(row - start for row in self.failed if start <= row < stop),
            skipped=(),
        )

    def cut_around(self) -> list[Shard]:
        """Return the stretches between the rows that are skipped; one without rows where there is none."""
        ends = [-1, *self.skipped, len(self.samples)]
        spans = [(before + 1, after) for before, after in pairwise(ends) if after > before + 1]
        return [self.cut(*span) for span in spans or [(0, 0)]]

    def split(self, count: int) -> list[Shard]:
        """Return at most so many parts of like size, for trial only; one part is a single row."""
        size, trial = len(self.samples), replace(self, is_trial=True)
        step = max(1, -(-size // count))
        return [trial.cut(start, min(start + step, size)) for start in range(0, size, step)]

    def leave_out(self, reason: str) -> Shard:
        """Return the shard with all its rows left out of the work."""
        return replace(self, skipped=tuple(range(len(self.samples))), reason=reason)

    def skip(self, rows: Sequence[Shard]) -> Shard:
        """Return the shard with these rows, shards of one row each, left out of the work."""
        found = {one.offset - self.offset for one in rows}
        return replace(self, skipped=tuple(sorted(found.union(self.skipped))))

    @property
    def places(self) -> range:
        """Where its samples stand in the dataset."""
        return range(self.offset, self.offset + len(self.samples))


def cut_shards(
    dataset: Dataset, rows: int, recorded: Recorded | None = None, failed: Sequence[int] = ()
) -> Iterator[Shard]:
    """Yield the dataset in shards of at most `rows` samples, in order; nothing is loaded yet.

    `failed` are the positions of rows that are wrong, in order.
    """
    for index, span in enumerate(dataset.cut(rows)):
        offset = span.start
        samples = dataset.rows.slice(offset, len(span))
        own = failed[bisect_left(failed, offset) : bisect_left(failed, offset + len(samples))]
        part = None if recorded is None else recorded.slice(offset, len(samples))
        yield Shard(index, offset, samples, part, tuple(row - offset for row in own))


#: What annotators call a label that is in order; compared in lower case.
CLEAN_VALUES = frozenset(
    {"ok", "okay", "clean", "good", "correct", "valid", "verified", "no_error", "true", "yes", "1"}
)

#: The column, and the values that are clean.
CleanLabels = tuple[str, frozenset[str]]


def choose_clean(column: str | None, clean: Sequence[str]) -> CleanLabels | None:
    """Return the column with the values that the caller calls clean, or the usual ones; None without one."""
    return None if column is None else (column, frozenset(map(_write, clean)) or CLEAN_VALUES)


def read_label_quality(samples: Samples, column: str) -> pl.Series:
    """Return what a column says of each label, as text in lower case."""
    return pl.Series([_write(one) for one in samples.values(column)], dtype=pl.String)


def _write(value: object) -> str:
    return "(none)" if value is None else str(value).strip().lower()
