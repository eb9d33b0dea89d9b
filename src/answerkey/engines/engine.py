"""The engine of this machine, and the protocol that every engine follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Literal, Protocol, TypeVar

from answerkey.engines.threads import count_cores, map_threads
from answerkey.engines.workers import map_workers
from answerkey.errors import EngineError, listing, suggest

Shard = TypeVar("Shard")
Part = TypeVar("Part")
#: How work may be spread: not at all, over threads (column work, during which Python's lock is free), or over
#: processes (Python code for each row, which needs the lock).
Spread = Literal["alone", "threads", "processes"]

#: Engines that the command line knows by name and this release does not have.
LATER_ENGINES = frozenset({"ray"})


class Engine(Protocol):
    """Applies a function to shards; what comes back is in shard order, whatever finished first.

    Unless the work stays alone, the function and the shards can be pickled.
    """

    name: ClassVar[str]

    def map(
        self, function: Callable[[Shard], Part], shards: Iterable[Shard], *, spread: Spread = "alone"
    ) -> Iterator[Part]:
        """Yield the function's value for each shard, in the order of the shards."""
        ...


class LocalEngine:
    """Works on this machine, on all cores that the process may use."""

    name: ClassVar[str] = "local"

    def map(
        self, function: Callable[[Shard], Part], shards: Iterable[Shard], *, spread: Spread = "alone"
    ) -> Iterator[Part]:
        """Yield the function's value for each shard; hardly more shards are under way than there are cores.

        A shard that fails stops the work: its error is raised when its turn comes.
        """
        if spread == "processes":
            return map_workers(function, shards, count_cores())
        if spread == "threads":
            # One more than cores: there is work while one of them waits for its turn in Python.
            return map_threads(function, shards, count_cores() + 1)
        return (function(shard) for shard in shards)


ENGINES: dict[str, type[Engine]] = {LocalEngine.name: LocalEngine}


def open_engine(name: str = LocalEngine.name) -> Engine:
    """Return the engine with this name; EngineError E601 when there is none."""
    if name in ENGINES:
        return ENGINES[name]()
    if name in LATER_ENGINES:
        raise EngineError("E601", f"the engine `{name}` is not in this release", hint="use `--engine local`")
    near = suggest(name, ENGINES)
    raise EngineError("E601", f"unknown engine `{name}`", hint=near or f"engines: {listing(ENGINES)}")
