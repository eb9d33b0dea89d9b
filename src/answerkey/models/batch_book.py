"""Which batches are under way: written down before the endpoint begins to work, lest one be paid twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Submitted:
    """Calls handed in together: the file that was uploaded, and the batch once its name is known.

    `identity` is that of the connection. A batch without a name may be under way all the same: the process
    may have died while it was being created.
    """

    file: str
    identity: str
    keys: Sequence[str]
    batch: str | None = None


class BatchBook(Protocol):
    """Where batches are written down; used by one thread at a time."""

    def list_batches(self, identity: str) -> list[Submitted]:
        """Return the batches of a connection that are not collected yet, the oldest first."""

    def keep_batch(self, batch: Submitted) -> None:
        """Write a batch down, or its name; it is safe when this returns."""

    def end_batch(self, batch: Submitted) -> None:
        """Forget a batch: its calls are in the ledger, or there was nothing to collect."""


@dataclass
class MemoryBook:
    """A book for runs that leave nothing behind."""

    kept: dict[str, Submitted] = field(default_factory=dict)

    def list_batches(self, identity: str) -> list[Submitted]:
        """Return the batches of a connection that are not collected yet, the oldest first."""
        return [one for one in self.kept.values() if one.identity == identity]

    def keep_batch(self, batch: Submitted) -> None:
        """Write a batch down, or its name."""
        self.kept[batch.file] = batch

    def end_batch(self, batch: Submitted) -> None:
        """Forget a batch."""
        self.kept.pop(batch.file, None)
