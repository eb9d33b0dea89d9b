"""A dataset ready for use: read, filtered, selected, with a fingerprint."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Self

import polars as pl

from answerkey.datasets.selection import Selection, select_rows
from answerkey.datasets.sources import Source
from answerkey.datasets.tables import Table, digest_rows
from answerkey.errors import DataError, Place, raise_all
from answerkey.templates import RowFilter, RowTrouble
from answerkey.types import Notice, Samples

SHARD_SIZE = 65_536


@dataclass(frozen=True)
class Dataset:
    """The samples of a task; `all_ids` are those of every row read, `kept_ids` of those the filters keep."""

    name: str
    fingerprint: str
    rows_read: int
    rows_filtered: int
    notices: tuple[Notice, ...]
    all_ids: pl.Series
    kept_ids: pl.Series
    selected: Samples

    @classmethod
    def of(cls, samples: Samples, *, name: str) -> Self:
        """Return samples in memory as a dataset; its fingerprint is that of their ids and rows."""
        frame = samples.frame.select(samples.ids.alias(""), pl.all())
        fingerprint = digest_rows(frame, samples.encoded)
        return cls(name, fingerprint, len(samples), 0, (), samples.ids, samples.ids, samples)

    def __len__(self) -> int:
        return len(self.selected)

    @property
    def columns(self) -> list[str]:
        """The column names."""
        return self.selected.columns

    def samples(self) -> Samples:
        """Return all selected samples."""
        return self.selected

    def shards(self, size: int = SHARD_SIZE) -> Iterator[Samples]:
        """Yield the samples in order, `size` at a time."""
        for offset in range(0, len(self), size):
            yield self.selected.slice(offset, size)


def open_dataset(source: Source, *, selection: Selection | None = None, name: str) -> Dataset:
    """Return the dataset of a source; raises for bad rows, failing filters, and when no row is left."""
    selection = selection or Selection()
    table = source.read(name=name)
    kept = filter_rows(table.samples, source.filters)
    if not len(kept):
        _refuse_empty(table, name)
    selected = select_rows(kept, selection)
    return Dataset(
        name=name,
        fingerprint=_fingerprint(table, source, selection),
        rows_read=len(table.samples),
        rows_filtered=len(table.samples) - len(kept),
        notices=(*table.notices, *_notice_shortage(len(kept), selection, name)),
        all_ids=table.samples.ids,
        kept_ids=kept.ids,
        selected=selected,
    )


def filter_rows(samples: Samples, filters: Sequence[RowFilter]) -> Samples:
    """Return the samples that pass every filter, in order."""
    for one in filters:
        mask = one.mask(samples)
        troubles = [(row, each) for row, each in enumerate(mask) if isinstance(each, RowTrouble)]
        if troubles:
            _refuse_rows(samples, one, troubles)
        samples = samples.take([row for row, is_kept in enumerate(mask) if is_kept])
    return samples


def _refuse_rows(samples: Samples, one: RowFilter, troubles: Sequence[tuple[int, RowTrouble]]) -> None:
    """Raise one error per kind of trouble, at its first row."""
    kinds: dict[str, list[tuple[int, RowTrouble]]] = {}
    for row, trouble in troubles:
        kinds.setdefault(trouble.message, []).append((row, trouble))
    errors: list[DataError] = []
    for message, group in list(kinds.items())[:20]:
        row, trouble = group[0]
        rest = f" (and in {len(group) - 1} more rows)" if len(group) > 1 else ""
        code = "E206" if trouble.is_undefined else "E207"
        text = f"filter `{one.expression}`: {message}{rest}"
        where = samples.place(row, trouble.column)
        errors.append(DataError(code, text, where=where, hint=trouble.hint))
    raise_all(errors)


def _refuse_empty(table: Table, name: str) -> None:
    message = f"dataset `{name}`: the filters leave none of its {len(table.samples)} rows"
    where = Place(file=table.samples.file)
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
