"""Which samples a report embeds when there are more than a file can carry, and the sentence that says so."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from answerkey.reports.pages.rows import RowBook

#: So many rows of a task are in a report, unless the caller says otherwise.
MOST_EMBEDDED = 20_000
#: Of each kind that decides something, at most this part of all that are embedded.
SHARE = 4
SEED = 0


@dataclass(frozen=True)
class Selection:
    """The positions of the rows that a report embeds, in dataset order; the sentence is None for all."""

    positions: pl.Series
    count: int
    sentence: str | None = None

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True)
class _Kind:
    """Rows of one kind: how many there are, and which of them are embedded."""

    name: str
    total: int
    chosen: Sequence[int]
    looked_at: int | None = None

    def say(self) -> str:
        """Return how many of them there are in the file: `5,000 of 31,204 INVALID`."""
        among = f" (of {self.looked_at:,} that were looked at)" if self.looked_at else ""
        if len(self.chosen) == self.total:
            return f"all {self.total:,} {self.name}{among}"
        return f"{len(self.chosen):,} of {self.total:,} {self.name}{among}"


def select_rows(book: RowBook, most: int = MOST_EMBEDDED, compared: Sequence[int] = ()) -> Selection:
    """Return all rows, or the ones that decide something and others drawn at random.

    `compared` are rows that another run has right and this one not, or the other way round.
    """
    count = len(book)
    if count <= most:
        return Selection(pl.int_range(count, dtype=pl.UInt32, eager=True), count)
    noun = "samples" if book.task_run.counts["samples"] == count else "rows"
    if not most:
        return Selection(pl.Series([], dtype=pl.UInt32), count, f"This file holds none of {count:,} {noun}.")
    kinds = list(_choose_kinds(book, most, compared))
    chosen = {position for kind in kinds for position in kind.chosen}
    rest = _draw_rest(chosen, count, most - len(chosen))
    positions = pl.Series(sorted(chosen | set(rest)), dtype=pl.UInt32)
    return Selection(positions, count, _say(kinds, len(rest), f"{len(positions):,} of {count:,} {noun}"))


def _choose_kinds(book: RowBook, most: int, compared: Sequence[int]) -> Iterator[_Kind]:
    index, share = book.index, most // SHARE
    invalid = index.is_invalid
    wrong = index.is_scored & ~invalid & ~index.is_right
    yield _choose("INVALID", invalid.arg_true(), share)
    looked_at = len(book.reread) if len(book.reread) < len(book) else None
    yield _choose("flipped between rules", book.flips, share, looked_at)
    yield _choose("wrong", wrong.arg_true(), share)
    yield _choose("without a score", (~index.is_scored).arg_true(), share // SHARE)
    if compared:
        yield _choose("flipped between runs", pl.Series(compared, dtype=pl.UInt32), share // SHARE)


def _choose(name: str, found: pl.Series, most: int, looked_at: int | None = None) -> _Kind:
    if len(found) <= most:
        return _Kind(name, len(found), found.to_list(), looked_at)
    draw = random.Random(SEED)  # noqa: S311 - for repeatability, not for secrets
    places = pl.Series(sorted(draw.sample(range(len(found)), most)), dtype=pl.UInt32)
    return _Kind(name, len(found), found.gather(places).to_list(), looked_at)


def _draw_rest(chosen: set[int], count: int, most: int) -> list[int]:
    """Return rows that are not chosen yet, drawn at random."""
    draw = random.Random(SEED + 1)  # noqa: S311 - for repeatability, not for secrets
    found: list[int] = []
    for position in draw.sample(range(count), min(count, most + len(chosen))):
        if len(found) == most:
            break
        if position not in chosen:
            found.append(position)
    return found


def _say(kinds: Sequence[_Kind], rest: int, whole: str) -> str:
    parts = [kind.say() for kind in kinds if kind.total]
    listed = ", ".join([*parts, f"{rest:,} others drawn at random"])
    distinct = len({position for kind in kinds for position in kind.chosen})
    several = " (some are of several kinds)" if distinct < sum(len(kind.chosen) for kind in kinds) else ""
    return (
        f"This file holds {whole}: {listed}{several}."
        " Every number of the overview is of all; the table, its counts and the search are of these alone."
    )
