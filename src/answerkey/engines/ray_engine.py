"""Shards on a Ray cluster: the function that this machine would run, as one Ray task for each shard.

Ray itself tries nothing twice. A task whose worker or node is gone is handed out again here, a few times;
then its shard is searched for the row that ends every worker, and done without it.
"""

from __future__ import annotations

import pickle
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from answerkey._version import __version__
from answerkey.engines.engine import Divisible, Spread
from answerkey.engines.ray_cluster import Cluster, require_ray, shorten
from answerkey.engines.ray_stations import RayStations
from answerkey.engines.ray_task import apply_function
from answerkey.engines.threads import AHEAD
from answerkey.engines.workers import pickle_function
from answerkey.errors import EngineError

Shard = TypeVar("Shard")
Part = TypeVar("Part")
#: A shard, or a lone row, that has ended so many workers is held to be the cause.
TRIES = 3
#: A shard may lose so many nodes: whoever takes nodes away takes many.
NODE_TRIES = 12
#: With more stretches of rows than this that end their worker, it is not for the rows.
MOST_STRETCHES = 32


class RayEngine:
    """Works on a Ray cluster: the one at an address, or one of its own on this machine, on loopback alone."""

    name: ClassVar[str] = "ray"
    is_far: ClassVar[bool] = True

    def __init__(self, address: str | None = None) -> None:
        require_ray()
        self._address = address
        self._cluster: Cluster | None = None

    def map(
        self, function: Callable[[Shard], Part], shards: Iterable[Shard], *, spread: Spread = "alone"
    ) -> Iterator[Part]:
        """Yield the function's value for each shard, in the order of the shards.

        What is to stay alone, and a function that cannot be sent anywhere, is worked on here.
        """
        payload = None if spread == "alone" else pickle_function(function)
        if payload is None:
            return (function(shard) for shard in shards)
        return Dispatch(self._open(), payload).map(shards)

    @property
    def stations(self) -> RayStations:
        """The nodes of the cluster; it is joined, or started, when they are asked for."""
        return RayStations(self._open)

    def _open(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self._address)
            weakref.finalize(self, self._cluster.close)
        return self._cluster


@dataclass
class Attempt:
    """A shard that has been handed out, and what came of it before."""

    shard: Any
    task: Any
    crashes: int = 0
    lost_nodes: int = 0
    has_withheld: bool = False


@dataclass(frozen=True)
class Crash:
    """A worker that ended in the middle of its shard; `is_node` when its whole node did."""

    reason: str
    is_node: bool


class Dispatch:
    """One function, given as a pickle, and the shards that are handed out to it."""

    def __init__(self, cluster: Cluster, function: bytes) -> None:
        self._cluster = cluster
        self._ray = cluster.ray
        # A try that Ray makes by itself would be one that nobody counts.
        settings = {"num_cpus": 1, "max_retries": 0, "scheduling_strategy": "SPREAD"}
        self._apply = self._ray.remote(**settings)(apply_function)
        self._function = self._ray.put(function)

    def map(self, shards: Iterable[Any]) -> Iterator[Any]:
        """Yield the function's value for each shard in order; few more are under way than there is room."""
        waiting: deque[Attempt] = deque()
        most = AHEAD * self._cluster.count_places()
        try:
            for shard in shards:
                waiting.append(Attempt(shard, self._submit(shard)))
                if len(waiting) >= most:
                    yield self._finish(waiting)
            while waiting:
                yield self._finish(waiting)
        finally:
            for one in waiting:
                self._ray.cancel(one.task, force=True)

    def _submit(self, shard: object) -> Any:  # noqa: ANN401 - Ray's own kind
        return self._apply.remote(__version__, self._function, pickle.dumps(shard))

    def _finish(self, waiting: deque[Attempt]) -> Any:  # noqa: ANN401 - whatever the function returns
        """Return the value of the first that waits, however often that has to be tried."""
        first = waiting[0]
        while isinstance(found := self._fetch(first.task), Crash):
            self._try_again(first, found)
        waiting.popleft()
        kind, value = pickle.loads(found)  # noqa: S301 - from our own workers
        if kind == "value":
            return value
        if kind == "error":
            raise value
        hint = "install the packages that the task needs on every node"
        raise EngineError("E601", f"a node cannot load the work: {value}", hint=hint)

    def _fetch(self, task: Any) -> bytes | Crash:  # noqa: ANN401 - Ray's own kind
        kinds = self._ray.exceptions
        lost = (
            kinds.NodeDiedError,
            kinds.ObjectLostError,
            kinds.OwnerDiedError,
            kinds.ObjectFetchTimedOutError,
        )
        try:
            answer: bytes = self._ray.get(task)
        except lost as error:
            return Crash(shorten(error), is_node=True)
        except (kinds.WorkerCrashedError, kinds.OutOfMemoryError) as error:
            return Crash(shorten(error), is_node=False)
        except kinds.RayError as error:
            raise EngineError("E602", f"Ray failed: {shorten(error)}", hint="look at `ray status`") from error
        return answer

    def _try_again(self, attempt: Attempt, crash: Crash) -> None:
        """Hand a shard out again, without the rows that end workers if there have been enough tries."""
        attempt.lost_nodes += crash.is_node
        attempt.crashes += not crash.is_node
        if attempt.lost_nodes >= NODE_TRIES:
            raise EngineError("E602", f"a shard lost {NODE_TRIES} nodes: {crash.reason}", hint=_LOST)
        if attempt.crashes >= TRIES:
            attempt.shard = self._withhold(attempt, crash)
            attempt.crashes, attempt.has_withheld = 0, True
        attempt.task = self._submit(attempt.shard)

    def _withhold(self, attempt: Attempt, crash: Crash) -> Any:  # noqa: ANN401 - a shard
        rows = (
            [] if attempt.has_withheld or not hasattr(attempt.shard, "halve") else self._find(attempt.shard)
        )
        if not rows:
            message = f"a shard ended {TRIES} workers, and no row of it did alone: {crash.reason}"
            raise EngineError("E602", message, hint=_MEMORY)
        return attempt.shard.withhold(rows)

    def _find(self, shard: Divisible) -> list[Divisible]:
        """Return the single rows of a shard that end every worker, by halves that do."""
        suspects, deadly = [shard], list[Divisible]()
        while suspects:
            halves: list[Divisible] = []
            for one in suspects:
                both = one.halve()
                if both is not None:
                    halves.extend(both)
                elif self._is_deadly(one):
                    deadly.append(one)
            suspects = self._try_all(halves)
            if len(suspects) + len(deadly) > MOST_STRETCHES:
                message = f"more than {MOST_STRETCHES} stretches of a shard's rows end their worker"
                raise EngineError("E602", message, hint=_MEMORY)
        return deadly

    def _try_all(self, shards: Sequence[Divisible]) -> list[Divisible]:
        """Return those that end their worker."""
        tasks = [self._submit(one) for one in shards]
        return [one for one, task in zip(shards, tasks, strict=True) if self._ends_worker(one, task)]

    def _is_deadly(self, row: Divisible) -> bool:
        """Return whether a row that ended a worker does so again and again."""
        return all(self._ends_worker(row, self._submit(row)) for _ in range(TRIES - 1))

    def _ends_worker(self, shard: Divisible, task: Any) -> bool:  # noqa: ANN401 - Ray's own kind
        """Return whether a worker ended; the loss of a node says nothing, and is tried again."""
        for _ in range(NODE_TRIES):
            found = self._fetch(task)
            if not (isinstance(found, Crash) and found.is_node):
                return isinstance(found, Crash)
            task = self._submit(shard)
        raise EngineError("E602", f"a shard lost {NODE_TRIES} nodes", hint=_LOST)


_LOST = "look at `ray status`; nodes that come and go too often get nothing done"
_MEMORY = "was a node out of memory? look at Ray's logs of the worker, or give nodes fewer CPUs"
