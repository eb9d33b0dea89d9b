"""Which rows of a dataset pass its filters, and why that cannot be said of some."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import polars as pl

from answerkey.datasets.rows import Positions, Rows, iterate_blocks
from answerkey.errors import DataError, Place, raise_all
from answerkey.templates import RowFilter, RowTrouble
from answerkey.types import Samples

#: How many kinds of trouble with one filter are shown.
SHOWN = 20


@dataclass
class _Kind:
    """Rows that have the same trouble: the first of them, and how many."""

    trouble: RowTrouble
    where: Place
    count: int = 0


@dataclass
class _Findings:
    """The troubles of one filter by kind, in the order in which they were met."""

    filter: RowFilter
    kinds: dict[str, _Kind] = field(default_factory=dict)

    def add(self, samples: Samples, row: int, trouble: RowTrouble) -> None:
        if trouble.message not in self.kinds:
            self.kinds[trouble.message] = _Kind(trouble, samples.place(row, trouble.column))
        self.kinds[trouble.message].count += 1

    def raise_any(self) -> None:
        """Raise one error per kind of trouble, at its first row."""
        errors: list[DataError] = []
        for message, kind in list(self.kinds.items())[:SHOWN]:
            rest = f" (and in {kind.count - 1} more rows)" if kind.count > 1 else ""
            code = "E206" if kind.trouble.is_undefined else "E207"
            text = f"filter `{self.filter.expression}`: {message}{rest}"
            errors.append(DataError(code, text, where=kind.where, hint=kind.trouble.hint))
        raise_all(errors)


def filter_rows(rows: Rows, filters: Sequence[RowFilter]) -> Positions:
    """Return where the rows stand that pass every filter, in order.

    A filter is shown only rows that passed those before it.
    """
    if not filters:
        return range(len(rows))
    findings = [_Findings(one) for one in filters]
    kept = [
        _filter_block(block, findings) + offset
        for offset, block in iterate_blocks(rows, _columns_read(filters, rows.columns))
    ]
    for one in findings:
        one.raise_any()
    return pl.concat(kept)


def _filter_block(samples: Samples, findings: Sequence[_Findings]) -> pl.Series:
    """Return the positions in this block that pass; a row in trouble does not."""
    passed = pl.int_range(len(samples), dtype=pl.Int64, eager=True)
    for one in findings:
        left = samples if len(passed) == len(samples) else samples.take(passed)
        sifted = one.filter.sift(left)
        for row, trouble in sifted.troubles:
            one.add(left, row, trouble)
        passed = passed.filter(sifted.is_kept)
    return passed


def _columns_read(filters: Sequence[RowFilter], known: Collection[str]) -> frozenset[str] | None:
    """Return the columns that filters read; None for all, also when one of them does not exist."""
    read: frozenset[str] = frozenset()
    for one in filters:
        columns = one.row_template.columns
        if columns is None or not columns <= set(known):
            return None
        read |= columns
    return read
