"""How much of all replies together is in memory while they arrive.

Each reply has a limit of its own. Without this one, an endpoint that sends large replies to every request at
once would take that limit as often as there are connections.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

#: A body up to this size is read in any case.
SMALL_BODY = 1 << 17
#: How much all larger ones may have together before they wait for each other.
LARGE_BODIES = 16 << 20
#: What one look at a connection brings at most.
ONE_READ = 1 << 18


class Reader(Protocol):
    """A connection on which a body arrives."""

    def pause(self) -> None:
        """Read nothing more for now."""

    def go_on(self) -> None:
        """Read again."""


@dataclass
class Room:
    """The room for large bodies. When it is full they come one after the other; the oldest never waits."""

    most: int = LARGE_BODIES
    _sizes: dict[Reader, int] = field(default_factory=dict, init=False)
    _taken: int = field(default=0, init=False)

    def grow(self, reader: Reader, size: int) -> None:
        """Note how large a body is by now; its connection pauses when there is no room for more."""
        if size <= SMALL_BODY:
            return
        self._taken += size - self._sizes.get(reader, 0)
        self._sizes[reader] = size
        if self._taken > self.most and reader is not next(iter(self._sizes)):
            reader.pause()

    def leave(self, reader: Reader) -> None:
        """Give the room of a body back, to the oldest that waits, and to others as far as it goes."""
        if reader not in self._sizes:
            return
        self._taken -= self._sizes.pop(reader)
        reader.go_on()  # its last part may have been one too many, and it may be asked again
        free = self.most - self._taken
        for number, one in enumerate(list(self._sizes)):
            if number > 0 and free < ONE_READ:
                return
            one.go_on()
            free -= ONE_READ
