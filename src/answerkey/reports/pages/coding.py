"""Columns of texts as small whole numbers and the few texts that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

#: A column with more different texts is not coded.
MOST_NAMES = 65_535


@dataclass
class Coder:
    """Numbers texts in the order in which they first appear; `parts` are the codes so far, null for null.

    `is_full` says that there are too many texts: the codes are then of no use.
    """

    names: dict[str, int] = field(default_factory=dict)
    parts: list[pl.Series] = field(default_factory=list)
    is_full: bool = False

    def add(self, texts: pl.Series) -> None:
        """Take further rows."""
        if self.is_full:
            return
        distinct = texts.unique(maintain_order=True).drop_nulls()
        for name in distinct:
            self.names.setdefault(name, len(self.names))
        if len(self.names) > MOST_NAMES:
            self.is_full, self.parts = True, []
            self.names.clear()
            return
        codes = pl.Series([self.names[name] for name in distinct], dtype=pl.UInt16)
        self.parts.append(texts.replace_strict(distinct, codes, default=None, return_dtype=pl.UInt16))

    def finish(self, length: int) -> Coded | None:
        """Return the coded column; None where there are too many texts."""
        if self.is_full:
            return None
        codes = pl.concat(self.parts) if self.parts else pl.repeat(None, length, dtype=pl.UInt16, eager=True)
        return Coded(codes, tuple(self.names))


@dataclass(frozen=True)
class Coded:
    """Codes of rows, null where there is no text, and the texts by code."""

    codes: pl.Series
    names: tuple[str, ...]

    def matches(self, name: str) -> pl.Series:
        """Return which rows have this text."""
        if name not in self.names:
            return pl.repeat(False, len(self.codes), dtype=pl.Boolean, eager=True)  # noqa: FBT003 - the value
        return (self.codes == self.names.index(name)).fill_null(value=False)

    def rank(self) -> pl.Series:
        """Return a number for each row by which it sorts as its text does; null for null."""
        places = {name: rank for rank, name in enumerate(sorted(self.names))}
        ranks = pl.Series([places[name] for name in self.names], dtype=pl.UInt16)
        return ranks.gather(self.codes)


def encode(texts: Sequence[str | None]) -> tuple[list[int], list[str]]:
    """Return a code for each text, -1 for None, and the texts by code."""
    names: dict[str, int] = {}
    codes = [-1 if text is None else names.setdefault(text, len(names)) for text in texts]
    return codes, list(names)
