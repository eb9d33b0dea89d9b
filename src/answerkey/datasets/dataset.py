"""A dataset ready for use: filtered, selected, with a fingerprint; its rows are loaded part by part."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Self

from answerkey.datasets.filtering import filter_rows
from answerkey.datasets.rows import HeldRows, Positions, Rows, join_positions
from answerkey.datasets.selection import Selection, select_rows
from answerkey.datasets.sources import Source
from answerkey.datasets.tables import Table, digest_rows
from answerkey.errors import DataError, Place
from answerkey.types import Notice, Samples


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
    def of(cls, samples: Samples | Rows, *, name: str) -> Self:
        """Return samples as a dataset; its fingerprint is that of their ids and rows."""
        rows = HeldRows(samples) if isinstance(samples, Samples) else samples
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
        _refuse_empty(table, name)
    chosen = select_rows(table.rows.take(kept), selection)
    return Dataset(
        name=name,
        fingerprint=_fingerprint(table, source, selection),
        table=table.rows,
        kept=kept,
        chosen=join_positions(kept, chosen),
        notices=(*table.notices, *_notice_shortage(len(kept), selection, name)),
    )


def _refuse_empty(table: Table, name: str) -> None:
    message = f"dataset `{name}`: the filters leave none of its {len(table.rows)} rows"
    where = Place(file=table.rows.file)
    raise DataError("E210", message, where=where, hint="loosen the filters of the dataset")


def _notice_shortage(count: int, selection: Selection, name: str) -> tuple[Notice, ...]:
    wanted = selection.num_samples
    if wanted is None or wanted <= count:
        return ()
    return (Notice(f"dataset `{name}` has {count} rows, fewer than `num_samples` {wanted}: all are used"),)


def _fingerprint(table: Table, source: Source, selection: Selection) -> str:
    """Return the sha256 over the content and all that decides which rows are used and how they are read."""
    typing = getattr(source, "columns", {})
    filters = [
        {"op": one.op, "expression": one.expression, "value": one.value, "values": one.values}
        for one in source.filters
    ]
    used = Selection() if selection.num_samples is None else selection
    parts = [table.digest, sorted(typing.items()), filters, asdict(used)]
    return sha256(json.dumps(parts, ensure_ascii=True, sort_keys=True, default=str).encode()).hexdigest()
