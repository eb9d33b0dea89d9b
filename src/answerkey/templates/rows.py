"""What a template sees by name, and the cells that go into it row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat


@dataclass(frozen=True)
class Rows:
    """What a template sees by name, and the cells that go into it: by name, then by column."""

    given: Mapping[str, object]
    height: int = 1
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    cells: Mapping[str, Sequence[Sequence[object]]] = field(default_factory=dict)

    def fill(self) -> Iterator[None]:
        """Fill in one row after the other."""
        filled = [name for name in self.columns if self.columns[name]]
        rows = [self.given[name] for name in filled]
        if len(filled) == 1:
            row, columns = rows[0], self.columns[filled[0]]
            for values in zip(*self.cells[filled[0]], strict=True):
                row.update(zip(columns, values, strict=True))  # type: ignore[attr-defined]  # what has cells is a mapping
                yield
            return
        tuples = [zip(*self.cells[name], strict=True) for name in filled]
        for one in zip(*tuples, strict=True) if tuples else repeat((), self.height):
            for name, row, values in zip(filled, rows, one, strict=True):
                row.update(zip(self.columns[name], values, strict=True))  # type: ignore[attr-defined]  # same
            yield

    def take(self, positions: Sequence[int]) -> Rows:
        """Return the rows at these positions."""
        cells = {
            name: [[column[position] for position in positions] for column in columns]
            for name, columns in self.cells.items()
        }
        return replace(self, cells=cells, height=len(positions))

    def cut(self, most: int) -> Iterator[Rows]:
        """Yield the rows in parts of at most `most`."""
        for start in range(0, self.height, most):
            yield self.slice(start, min(start + most, self.height))

    def slice(self, start: int, end: int) -> Rows:
        """Return consecutive rows."""
        cells = {name: [column[start:end] for column in columns] for name, columns in self.cells.items()}
        return replace(self, cells=cells, height=end - start)
