"""The engine of this machine, and the protocol that every engine follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Protocol, TypeVar

from answerkey.errors import EngineError, listing, suggest

Shard = TypeVar("Shard")
Part = TypeVar("Part")

#: Engines that the command line knows by name and this release does not have.
LATER_ENGINES = frozenset({"ray"})


class Engine(Protocol):
    """Applies a function to shards; what comes back is in shard order, whatever finished first."""

    name: ClassVar[str]

    def map(self, function: Callable[[Shard], Part], shards: Iterable[Shard]) -> Iterator[Part]:
        """Yield the function's value for each shard, in the order of the shards."""
        ...


class LocalEngine:
    """Works in this process, shard after shard: one shard is in memory at a time.

    The column library spreads the work on one shard over the cores.
    """

    name: ClassVar[str] = "local"

    def map(self, function: Callable[[Shard], Part], shards: Iterable[Shard]) -> Iterator[Part]:
        """Yield the function's value for each shard; the next shard is only read when it is asked for."""
        for shard in shards:
            yield function(shard)


ENGINES: dict[str, type[Engine]] = {LocalEngine.name: LocalEngine}


def open_engine(name: str = LocalEngine.name) -> Engine:
    """Return the engine with this name; EngineError E601 when there is none."""
    if name in ENGINES:
        return ENGINES[name]()
    if name in LATER_ENGINES:
        raise EngineError("E601", f"the engine `{name}` is not in this release", hint="use `--engine local`")
    near = suggest(name, ENGINES)
    raise EngineError("E601", f"unknown engine `{name}`", hint=near or f"engines: {listing(ENGINES)}")
