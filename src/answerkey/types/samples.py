"""The dataset as a table, and one row of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import polars as pl

from answerkey.errors import Place


class Row(dict[str, object]):
    """One dataset row as `{{ sample }}` sees it: column name to value."""


Sample = Row


@dataclass(frozen=True)
class Samples:
    """A dataset, or a shard of it: one row per sample, in dataset order.

    `encoded` names the columns whose cells hold JSON text because their values have no common type; `row`
    and `rows` decode them. `lines` is the 1-based line (row number for binary formats) of each row in `file`.
    """

    frame: pl.DataFrame
    ids: pl.Series
    file: str | None = None
    lines: pl.Series | None = None
    encoded: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def columns(self) -> list[str]:
        """The dataset's column names (generated sample ids are not among them)."""
        return self.frame.columns

    def slice(self, offset: int, length: int) -> Self:
        """Return the rows from `offset` on, at most `length` of them."""
        return self._with(self.frame.slice(offset, length), lambda series: series.slice(offset, length))

    def take(self, rows: Sequence[int]) -> Self:
        """Return the rows with these positions, in the order given."""
        indices = pl.Series(rows, dtype=pl.UInt32)
        return self._with(self.frame[indices], lambda series: series.gather(indices))

    def repeat(self, times: int) -> Self:
        """Return each row `times` times, one after the other."""
        if times == 1:
            return self
        return self.take([row for row in range(len(self)) for _ in range(times)])

    def _with(self, frame: pl.DataFrame, change: Callable[[pl.Series], pl.Series]) -> Self:
        lines = None if self.lines is None else change(self.lines)
        return type(self)(frame, change(self.ids), self.file, lines, self.encoded)

    def row(self, position: int) -> Sample:
        """Return one row as `{{ sample }}` sees it."""
        return next(iter(self.slice(position, 1).rows()))

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[Sample]:
        """Yield rows as `{{ sample }}` sees them, with all columns or only some."""
        frame = self.frame if columns is None else self.frame.select(columns)
        if frame.width == 0:
            yield from (Row() for _ in range(len(self)))
            return
        decode = [name for name in frame.columns if name in self.encoded]
        for values in frame.iter_rows(named=True):
            row = Row(values)
            for name in decode:
                text = row[name]
                row[name] = None if text is None else json.loads(str(text))
            yield row

    def values(self, column: str) -> list[object]:
        """Return one column as Python values, decoded."""
        found: list[object] = self.frame[column].to_list()
        if column not in self.encoded:
            return found
        return [None if text is None else json.loads(str(text)) for text in found]

    def place(self, position: int, column: str | None = None) -> Place:
        """Return where a row stands, for an error."""
        line = None if self.lines is None else int(self.lines[position])
        return Place(file=self.file, line=line, sample=str(self.ids[position]), field=column)
