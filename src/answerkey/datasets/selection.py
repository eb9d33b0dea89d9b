"""Which rows of a dataset are used: the first ones, or a seeded random choice, in whole or by strata."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

import polars as pl

from answerkey.datasets.rows import BLOCK_ROWS, Positions, Rows, iterate_blocks
from answerkey.errors import DataError, Place, SpecError, listing, suggest

_DIGEST_BYTES = 16


@dataclass(frozen=True)
class Selection:
    """How many samples to use and which; with `stratify_by`, each value of that column keeps its share."""

    num_samples: int | None = None
    subsampling: Literal["head", "random"] = "head"
    seed: int = 0
    stratify_by: str | None = None


def select_rows(rows: Rows, selection: Selection) -> Positions:
    """Return where the selected rows stand, in order; all of them if fewer are there than asked for."""
    wanted = selection.num_samples
    if wanted is not None and wanted < 1:
        raise SpecError("E108", f"`num_samples` is {wanted}; it must be at least 1")
    if selection.stratify_by is not None:
        _check_column(rows, selection.stratify_by)
    if wanted is None or wanted >= len(rows):
        return range(len(rows))
    if selection.stratify_by is not None:
        return _pick_strata(rows, selection, wanted)
    if selection.subsampling == "head":
        return range(wanted)
    best = _Best(wanted)
    for offset in range(0, len(rows), BLOCK_ROWS):
        ids = rows.slice(offset, BLOCK_ROWS).ids().to_list()
        best.add(rank_ids(ids, selection.seed).with_columns(pl.col("row") + offset))
    return best.rows().sort()


def rank_ids(ids: Sequence[str], seed: int) -> pl.DataFrame:
    """Return the rank of each row, which depends on nothing but the seed and its id; smaller comes first.

    The rank is the pair of `high` and `low`; `row` is the position of the id.
    """
    start = blake2b(f"{seed}\0".encode(), digest_size=_DIGEST_BYTES)
    digests = bytearray()
    for name in ids:
        digest = start.copy()
        digest.update(name.encode())
        digests += digest.digest()
    halves = _read_numbers(bytes(digests))
    row = pl.int_range(len(ids), dtype=pl.Int64, eager=True)
    return pl.DataFrame({"row": row, "high": halves.gather_every(2), "low": halves.gather_every(2, 1)})


def _read_numbers(raw: bytes) -> pl.Series:
    """Return bytes as numbers of eight each, the first byte of each counting most."""
    numbers = array("Q", raw)
    if array("H", b"\x01\x00")[0] == 1:  # this machine counts the other way round
        numbers.byteswap()
    return pl.Series(numbers, dtype=pl.UInt64)


class _Best:
    """The rows with the smallest ranks among all that were seen; of the others nothing is kept."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._found: list[pl.DataFrame] = []

    def add(self, ranked: pl.DataFrame) -> None:
        self._found.append(ranked)
        if sum(one.height for one in self._found) > 2 * self._wanted:
            self._found = [self._take()]

    def _take(self) -> pl.DataFrame:
        return pl.concat(self._found).sort("high", "low", "row").head(self._wanted)

    def rows(self) -> pl.Series:
        return self._take()["row"] if self._found else pl.Series(dtype=pl.Int64)


def share_out(wanted: int, sizes: Sequence[int]) -> list[int]:
    """Return how many of `wanted` each stratum gets: its proportion, rest to the largest remainders.

    Equal remainders go to the larger stratum, then to the earlier one.
    """
    total = sum(sizes)
    shares = [wanted * size // total for size in sizes]
    order = sorted(range(len(sizes)), key=lambda one: (-(wanted * sizes[one] % total), -sizes[one], one))
    for one in order[: wanted - sum(shares)]:
        shares[one] += 1
    return shares


def _pick_strata(rows: Rows, selection: Selection, wanted: int) -> pl.Series:
    column = str(selection.stratify_by)
    sizes: Counter[str] = Counter()
    for _, block in iterate_blocks(rows, [column]):
        sizes.update(map(repr, block.values(column)))
    names = sorted(sizes)
    shares = share_out(wanted, [sizes[name] for name in names])
    strata = {name: _Best(share) for name, share in zip(names, shares, strict=True)}
    for offset, block in iterate_blocks(rows, [column]):
        ranked = rank_ids(block.ids.to_list(), selection.seed).with_columns(pl.col("row") + offset)
        values = pl.Series("stratum", list(map(repr, block.values(column))), dtype=pl.String)
        parts = ranked.with_columns(values).partition_by("stratum", as_dict=True, include_key=False)
        for (name,), part in parts.items():
            strata[name].add(part)
    return pl.concat([one.rows() for one in strata.values()]).sort()


def _check_column(rows: Rows, name: str) -> None:
    if name not in rows.columns:
        hint = suggest(name, rows.columns) or f"columns: {listing(rows.columns)}"
        message = f"`stratify_by` names `{name}`, which is not a column"
        raise DataError("E206", message, where=Place(file=rows.file), hint=hint)
