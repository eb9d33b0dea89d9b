"""Reading a column of texts by their heads: what the first characters decide is decided once for all of them.

A rule that looks at the beginning of a text gives the same for every text that begins alike. It is tried on
the distinct heads of the texts, which are few; only texts whose head does not decide are looked at further.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import SupportsIndex

import polars as pl

#: So few distinct heads are read at their longest at once.
FEW_HEADS = 64

#: More heads of one size are not kept.
MOST_KNOWN = 100_000


@dataclass(frozen=True)
class Reading:
    """What a rule reads in a completion: a choice, or the reason why it names none.

    Where a rule has parts, `part` is the one that decided, and `span` the passage of the text, as offsets.
    """

    choice: str | None = None
    reason: str | None = None
    part: str | None = None
    span: tuple[int, int] | None = None


class BeyondHead(Exception):  # noqa: N818 - says where a rule looked; nothing went wrong
    """A rule looked beyond the head of a text; `at_rest` when it asked for all the rest."""

    def __init__(self, *, at_rest: bool = False) -> None:
        super().__init__()
        self.at_rest = at_rest


class Head(str):
    """The beginning of a longer text: to look beyond its end raises `BeyondHead`."""

    __slots__ = ()

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        """Return a part of the head."""
        stop = key.stop if isinstance(key, slice) else key.__index__() + 1
        if stop is None or stop > len(self):
            raise BeyondHead(at_rest=stop is None)
        return super().__getitem__(key)

    def lstrip(self, characters: str | None = None, /) -> str:
        """Return the head without these characters before it."""
        rest = super().lstrip(characters)
        if not rest:
            raise BeyondHead
        return Head(rest)


class Open(Enum):
    """What a head says of a text that it does not decide: a longer one may, or only the whole text."""

    LONGER = "longer"
    WHOLE = "whole"


#: What has been read in heads, for each size.
Known = defaultdict[int, dict[str, Reading | Open]]


class HeadReader:
    """Applies a rule to columns of texts, none of them null; a column of readings is one of their numbers.

    What was read in a head is kept in `known`, for further columns and the same rule.
    """

    def __init__(self, read: Callable[[str], Reading], known: Known | None = None) -> None:
        self.read = read
        self.known = defaultdict(dict) if known is None else known
        self._numbers: dict[Reading | Open, int] = {state: number for number, state in enumerate(Open)}

    def read_heads(self, texts: pl.Series, sizes: Sequence[int]) -> pl.Series:
        """Return the number of each text's reading, by heads of growing sizes as far as those decide."""
        numbers = self._read_heads(texts, sizes[0])
        is_open = self.find(Open.LONGER, numbers)
        if sizes[1:] and is_open.any():
            heads = texts.filter(is_open).str.head(sizes[-1])
            further = sizes[-1:] if heads.n_unique() <= FEW_HEADS else sizes[1:]
            numbers.scatter(is_open.arg_true(), self.read_heads(heads, further))
        return numbers

    def read_whole(self, texts: pl.Series) -> pl.Series:
        """Return the number of each text's reading; equal texts are read once."""
        return map_distinct(texts, lambda text: self._number(self.read(text)))

    def find(self, state: Open, numbers: pl.Series) -> pl.Series:
        """Return which texts are open in this way."""
        return numbers == self._numbers[state]

    def look_up(self, numbers: pl.Series) -> pl.DataFrame:
        """Return `choice` and `reason` of the readings with these numbers."""
        readings = [Reading() if isinstance(one, Open) else one for one in self._numbers]
        choices = pl.Series("choice", [one.choice for one in readings], dtype=pl.String)
        reasons = pl.Series("reason", [one.reason for one in readings], dtype=pl.String)
        return pl.DataFrame([choices.gather(numbers), reasons.gather(numbers)])

    def _read_heads(self, texts: pl.Series, size: int) -> pl.Series:
        known = self.known[size]
        if len(known) > MOST_KNOWN:
            known.clear()
        return map_distinct(
            texts.str.head(size), lambda head: self._number(known.get(head) or self._read_head(head, size))
        )

    def _read_head(self, head: str, size: int) -> Reading | Open:
        try:
            # What is shorter than asked for is no head but the text itself.
            found: Reading | Open = self.read(head if len(head) < size else Head(head))
        except BeyondHead as beyond:
            found = Open.WHOLE if beyond.at_rest else Open.LONGER
        self.known[size][head] = found
        return found

    def _number(self, reading: Reading | Open) -> int:
        return self._numbers.setdefault(reading, len(self._numbers))


def map_distinct(texts: pl.Series, number: Callable[[str], int]) -> pl.Series:
    """Return a number for each text; each distinct text is asked about once."""
    distinct = texts.unique()
    numbers = pl.Series([number(text) for text in distinct.to_list()], dtype=pl.UInt32)
    return numbers.gather(texts.cast(pl.Enum(distinct)).to_physical())
