"""Which rows of a dataset are used: the first ones, or a seeded random choice, in whole or by strata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from answerkey.errors import DataError, Place, SpecError, listing, suggest
from answerkey.types import Samples


@dataclass(frozen=True)
class Selection:
    """How many samples to use and which; with `stratify_by`, each value of that column keeps its share."""

    num_samples: int | None = None
    subsampling: Literal["head", "random"] = "head"
    seed: int = 0
    stratify_by: str | None = None


def select_rows(samples: Samples, selection: Selection) -> Samples:
    """Return the selected samples in dataset order; all of them if fewer are there than asked for."""
    wanted = selection.num_samples
    if wanted is not None and wanted < 1:
        raise SpecError("E108", f"`num_samples` is {wanted}; it must be at least 1")
    if selection.stratify_by is not None:
        _check_column(samples, selection.stratify_by)
    if wanted is None or wanted >= len(samples):
        return samples
    if selection.stratify_by is not None:
        return samples.take(_pick_strata(samples, selection, wanted))
    if selection.subsampling == "head":
        return samples.slice(0, wanted)
    ranked = rank_rows(samples.ids.to_list(), selection.seed)
    return samples.take(sorted(ranked[:wanted]))


def rank_rows(ids: Sequence[str], seed: int) -> list[int]:
    """Return row positions in an order that depends on nothing but the seed and the sample ids."""
    start = blake2b(f"{seed}\0".encode(), digest_size=16)

    def rank(position: int) -> bytes:
        digest = start.copy()
        digest.update(ids[position].encode())
        return digest.digest()

    return sorted(range(len(ids)), key=rank)


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


def _pick_strata(samples: Samples, selection: Selection, wanted: int) -> list[int]:
    strata: dict[str, list[int]] = {}
    values = samples.values(str(selection.stratify_by))
    for position in rank_rows(samples.ids.to_list(), selection.seed):
        strata.setdefault(repr(values[position]), []).append(position)
    names = sorted(strata)
    shares = share_out(wanted, [len(strata[name]) for name in names])
    return sorted(row for name, share in zip(names, shares, strict=True) for row in strata[name][:share])


def _check_column(samples: Samples, name: str) -> None:
    if name not in samples.columns:
        hint = suggest(name, samples.columns) or f"columns: {listing(samples.columns)}"
        message = f"`stratify_by` names `{name}`, which is not a column"
        raise DataError("E206", message, where=Place(file=samples.file), hint=hint)
