"""The dataset as a table, and one row of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import polars as pl

from answerkey.errors import Place
from answerkey.types.row import Row

#: Of each row whose options were put in order: the sample it is of, the place in the file of the option at
#: each place, and why it was left as it stands, or null. The columns as written follow, each after `WRITTEN`.
#: Where a prior is estimated, `PRIOR_SCHEMA` says by which samples, and which rows are there for that alone.
ORDER_SCHEMA: dict[str, pl.DataType] = {
    "base_sample_id": pl.String(),
    "order": pl.List(pl.UInt16),
    "left_in_place": pl.String(),
}
PRIOR_SCHEMA: dict[str, pl.DataType] = {"estimates_prior": pl.Boolean(), "is_extra": pl.Boolean()}
WRITTEN = "written "


Sample = Row


@dataclass(frozen=True)
class Samples:
    """A dataset, or a shard of it: one row per sample, in dataset order.

    `encoded` names the columns whose cells hold JSON text because their values have no common type; `row`
    and `rows` decode them. `lines` is the 1-based line (row number for binary formats) of each row in `file`,
    or where the rows come from several files, in that of `files`.
    `orders` is there when options stand in another order than in the file, see `ORDER_SCHEMA`. `memo` is for
    what was found out about these rows and is wanted again; other rows have their own.
    """

    frame: pl.DataFrame
    ids: pl.Series
    file: str | None = None
    lines: pl.Series | None = None
    encoded: frozenset[str] = frozenset()
    orders: pl.DataFrame | None = None
    files: pl.Series | None = None
    memo: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def columns(self) -> list[str]:
        """The dataset's column names (generated sample ids are not among them)."""
        return self.frame.columns

    def slice(self, offset: int, length: int) -> Self:
        """Return the rows from `offset` on, at most `length` of them."""
        return self._with(self.frame.slice(offset, length), lambda series: series.slice(offset, length))

    def take(self, rows: Sequence[int] | pl.Series) -> Self:
        """Return the rows with these positions, in the order given."""
        indices = pl.Series(rows, dtype=pl.UInt32)
        return self._with(self.frame[indices], lambda series: series.gather(indices))

    def select(self, columns: Sequence[str]) -> Self:
        """Return the rows with these columns alone, and with their ids and lines."""
        encoded = self.encoded.intersection(columns)
        return replace(self, frame=self.frame.select(pl.selectors.by_name(*columns)), encoded=encoded)

    def repeat(self, times: int) -> Self:
        """Return each row `times` times, one after the other."""
        if times == 1:
            return self
        return self.take(pl.int_range(len(self) * times, dtype=pl.UInt32, eager=True) // times)

    def _with(self, frame: pl.DataFrame, change: Callable[[pl.Series], pl.Series]) -> Self:
        lines = None if self.lines is None else change(self.lines)
        files = None if self.files is None else change(self.files)
        orders = None if self.orders is None else pl.DataFrame(map(change, self.orders.iter_columns()))
        return replace(self, frame=frame, ids=change(self.ids), lines=lines, orders=orders, files=files)

    def as_written(self) -> Self:
        """Return the rows with their options in the order of the file."""
        if self.orders is None:
            return self
        kept = [one for one in self.orders.columns if one.startswith(WRITTEN)]
        columns = [self.orders[one].alias(one.removeprefix(WRITTEN)) for one in kept]
        present = [one for one in columns if one.name in self.frame.columns]
        return replace(self, frame=self.frame.with_columns(present), orders=None)

    def row(self, position: int) -> Sample:
        """Return one row as `{{ sample }}` sees it."""
        return next(iter(self.slice(position, 1).rows()))

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[Sample]:
        """Yield rows as `{{ sample }}` sees them, with all columns or only some."""
        frame = self.frame if columns is None else self.frame.select(pl.selectors.by_name(*columns))
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
        file = self.file if self.files is None else str(self.files[position])
        return Place(file=file, line=line, sample=str(self.ids[position]), field=column)
