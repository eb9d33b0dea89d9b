"""Recorded completions that say in which order the options stood: the column `option_order`.

It holds, for each place, what the option there is called in the dataset: `["C", "A", "B"]`, or `CAB`; or
where it stands there, counted from 0: `[2, 0, 1]`. The sample is that of `base_sample_id`, else of
`sample_id`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from answerkey.datasets import HeldRows, Rows
from answerkey.datasets.rows import ID_COLUMN, ORDER_COLUMN
from answerkey.errors import DataError, Place
from answerkey.types import Samples

BASE_COLUMN = "base_sample_id"
Places = tuple[int, ...]


@dataclass(frozen=True)
class RecordedOrders:
    """The orders in which samples were asked, as they are written, by the id of the sample."""

    cells: dict[str, list[tuple[object, Place]]]

    def read(self, sample: str, labels: Sequence[str]) -> tuple[Places, ...]:
        """Return the orders of a sample, each once; E209 for one that is none of its options."""
        found = [read_order(cell, labels, place) for cell, place in self.cells.get(sample, ())]
        return tuple(dict.fromkeys(found))


def list_recorded_orders(completions: Rows) -> RecordedOrders | None:
    """Return the orders that a table of completions states; None when it has no column for them."""
    if ORDER_COLUMN not in completions.columns:
        return None
    table = completions.load([ID_COLUMN, BASE_COLUMN, ORDER_COLUMN])
    cells: dict[str, list[tuple[object, Place]]] = {}
    pairs = zip(_list_bases(table), table.values(ORDER_COLUMN), strict=True)
    for position, (sample, cell) in enumerate(pairs):
        cells.setdefault(sample, []).append((cell, table.place(position, ORDER_COLUMN)))
    return RecordedOrders(cells)


def _list_bases(table: Samples) -> list[str]:
    named = table.values(BASE_COLUMN) if BASE_COLUMN in table.columns else [None] * len(table)
    return [str(own) if base is None else str(base) for own, base in zip(table.ids, named, strict=True)]


def read_order(cell: object, labels: Sequence[str], place: Place) -> Places:
    """Return the places of the options in the dataset; null is the order of the dataset."""
    names = _read_names(cell)
    if names is None:
        return tuple(range(len(labels)))
    numbers = sorted(str(place) for place in range(len(labels)))
    if sorted(names) == numbers and sorted(labels) != numbers:
        return tuple(map(int, names))
    if sorted(names) != sorted(labels):
        raise DataError(
            "E209",
            f"`{ORDER_COLUMN}` is {cell!r}, which is no order of the choices {list(labels)!r}",
            where=place,
            hint="name every choice once: at each place the one that its option has in the dataset",
        )
    return tuple(list(labels).index(name) for name in names)


def _read_names(cell: object) -> list[str] | None:
    if isinstance(cell, str):
        text = cell.strip()
        if text.startswith("["):
            try:
                cell = json.loads(text)
            except (ValueError, RecursionError):
                cell = list(text)
        else:
            cell = [one.strip() for one in text.split(",")] if "," in text else list(text.replace(" ", ""))
    if cell is None or cell == []:
        return None
    return [str(one) for one in cell] if isinstance(cell, list) else [str(cell)]


def name_recorded(completions: Rows, asked: Samples, labels: Sequence[Sequence[str] | None]) -> Rows:
    """Return completions under the ids of the rows that were asked, which are told by sample and order.

    `asked` are the rows of the dataset, `labels` what the options of each are called.
    """
    if ORDER_COLUMN not in completions.columns or asked.orders is None:
        return completions
    named: dict[tuple[str, Places], str] = {}
    known: dict[str, Sequence[str]] = {}
    rows = zip(asked.ids, asked.orders.select("base_sample_id", "order").iter_rows(), labels, strict=True)
    for name, (sample, order), names in rows:
        named[sample, tuple(order)] = str(name)
        known[sample] = names or ()
    table = completions.load()
    ids = []
    cells = zip(_list_bases(table), table.ids, table.values(ORDER_COLUMN), strict=True)
    for position, (sample, own, cell) in enumerate(cells):
        names = known.get(sample)
        order = read_order(cell, names, table.place(position, ORDER_COLUMN)) if names else ()
        ids.append(named.get((sample, order), str(own)))
    series = pl.Series(ID_COLUMN, ids, dtype=pl.String)
    return HeldRows(replace(table, frame=table.frame.with_columns(series), ids=series))
