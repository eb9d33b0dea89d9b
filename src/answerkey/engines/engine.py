"""The engine of this machine, and the protocol that every engine follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, Literal, Protocol, Self, TypeVar

from answerkey.engines.threads import count_cores, map_threads
from answerkey.engines.workers import map_workers
from answerkey.errors import EngineError, listing, suggest
from answerkey.models.stations import Stations

Shard = TypeVar("Shard")
Part = TypeVar("Part")
#: How work may be spread: not at all, one shard to a process (code that nobody told of threads), over threads
#: (column work, during which Python's lock is free), or over processes (Python code for each row, which needs
#: the lock).
Spread = Literal["alone", "apart", "threads", "processes"]


class Engine(Protocol):
    """Applies a function to shards; what comes back is in shard order, whatever finished first.

    Unless the work stays alone, the function and the shards can be pickled.
    """

    name: ClassVar[str]
    #: Whether work may be done on other machines, which see shared folders alone.
    is_far: ClassVar[bool]

    def map(
        self, function: Callable[[Shard], Part], shards: Iterable[Shard], *, spread: Spread = "alone"
    ) -> Iterator[Part]:
        """Yield the function's value for each shard, in the order of the shards."""
        ...

    @property
    def stations(self) -> Stations | None:
        """Where objects can live on its nodes; None for an engine that has no other machines."""
        ...


class Divisible(Protocol):
    """A shard in which an engine can look for the row that ends every process working on it."""

    def halve(self) -> tuple[Self, Self] | None:
        """Return both halves, for trial only; None when there is a single row."""
        ...

    def withhold(self, rows: Sequence[Self]) -> Self:
        """Return the shard with these rows, halves of halves, left out of the work."""
        ...


class LocalEngine:
    """Works on this machine, on all cores that the process may use."""

    name: ClassVar[str] = "local"
    is_far: ClassVar[bool] = False

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

    @property
    def stations(self) -> None:
        """Nowhere: there is this machine alone."""
        return


def _open_local(address: str | None) -> Engine:
    if address is not None:
        message = f"`--ray-address {address}` is of no use to the engine `local`"
        raise EngineError("E601", message, hint="add `--engine ray`, or leave the address out")
    return LocalEngine()


def _open_ray(address: str | None) -> Engine:
    from answerkey.engines.ray_engine import RayEngine

    return RayEngine(address)


#: Engines by name; each is opened with the address of a cluster, or none.
ENGINES: dict[str, Callable[[str | None], Engine]] = {"local": _open_local, "ray": _open_ray}


def open_engine(name: str = LocalEngine.name, address: str | None = None) -> Engine:
    """Return the engine with this name; EngineError E601 when there is none, or it is not installed."""
    if name in ENGINES:
        return ENGINES[name](address)
    near = suggest(name, ENGINES)
    raise EngineError("E601", f"unknown engine `{name}`", hint=near or f"engines: {listing(ENGINES)}")
