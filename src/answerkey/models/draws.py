"""Chance that depends on a seed and a name alone: not on order, shards, platform or Python version."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Value = TypeVar("Value")

_SPAN = 1 << 64


@dataclass(frozen=True)
class Draws:
    """Draws for one sample and trial; each purpose has its own number in [0, 1)."""

    seed: int
    name: str
    trial: int = 0

    def rank(self, purpose: str = "") -> int:
        """Return a whole number in [0, 2**64) that orders names at random."""
        key = f"{self.seed}\0{self.name}\0{purpose}" + (f"\0{self.trial}" if self.trial else "")
        return int.from_bytes(hashlib.sha256(key.encode(errors="surrogatepass")).digest()[:8], "big")

    def draw(self, purpose: str) -> float:
        """Return a number in [0, 1)."""
        return (self.rank(purpose) >> 11) / (_SPAN >> 11)

    def pick(self, values: Sequence[Value], purpose: str) -> Value:
        """Return one of the values, each as likely as the others."""
        return values[self.rank(purpose) * len(values) // _SPAN]

    def pick_share(self, shares: Mapping[Value, int], purpose: str) -> Value:
        """Return one of the keys, each as likely as its share."""
        left = self.rank(purpose) * sum(shares.values()) // _SPAN
        for value, share in shares.items():
            if left < share:
                return value
            left -= share
        raise ValueError("shares must not be empty")
