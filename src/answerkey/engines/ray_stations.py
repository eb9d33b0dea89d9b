"""Objects of ours on the nodes of a Ray cluster, each in an actor; what they are is none of our business.

Ray starts nothing again: who uses a station learns that it is lost, and decides.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from typing import Any

from answerkey._version import __version__
from answerkey.engines.ray_cluster import Cluster, shorten
from answerkey.engines.ray_resident import Resident
from answerkey.errors import EngineError
from answerkey.models.stations import Node, StationLostError

#: How many calls to one station are under way at a time.
CALLS_AT_ONCE = 4
#: No core is set aside: who lives at a station mostly waits, and tasks want the cores.
_SETTINGS = {"num_cpus": 0, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": CALLS_AT_ONCE}


class RayStations:
    """The nodes of a cluster, which is opened when it is first asked for."""

    def __init__(self, open_cluster: Callable[[], Cluster]) -> None:
        self._open_cluster = open_cluster

    def list_nodes(self) -> Sequence[Node]:
        """Return the nodes that are alive and take work: those with a CPU, or all where none has one."""
        ray = self._open_cluster().ray
        alive = [one for one in ray.nodes() if one["Alive"]]
        able = [one for one in alive if one["Resources"].get("CPU", 0) > 0]
        nodes = [Node(one["NodeID"], one["NodeManagerAddress"]) for one in able or alive]
        return sorted(nodes, key=lambda node: (node.address, node.name))

    def open(self, node: Node, build: Callable[[str], object]) -> RayStation:
        """Start an actor on a node, and let it call `build`."""
        ray = self._open_cluster().ray
        strategies: Any = import_module("ray.util.scheduling_strategies")
        here = strategies.NodeAffinitySchedulingStrategy(node_id=node.name, soft=False)
        actor = ray.remote(**_SETTINGS, scheduling_strategy=here)(Resident).remote()
        # Not as an argument of the actor: Ray keeps those as long as it knows of it.
        opening = actor.open.remote(__version__, pickle.dumps(build), node.address)
        return RayStation(ray, actor, opening)


class RayStation:
    """An actor with one object in it."""

    def __init__(self, ray: Any, actor: Any, opening: Any) -> None:  # noqa: ANN401 - Ray's own kinds
        self._ray = ray
        self._actor = actor
        self._opening = opening

    def call(self, method: str, *given: object) -> Future[Any]:
        """Call a method of the object."""
        answer: Future[Any] = Future()
        kinds = self._ray.exceptions

        def pass_on(found: Future[bytes]) -> None:
            if not answer.set_running_or_notify_cancel():
                return
            error = found.exception()
            if error is None:
                _answer(answer, found.result())
            elif isinstance(error, kinds.RayError) and not isinstance(error, kinds.RayTaskError):
                answer.set_exception(StationLostError(shorten(error)))
            else:
                answer.set_exception(EngineError("E602", f"Ray failed: {shorten(error)}"))

        self._actor.call.remote(method, pickle.dumps(given)).future().add_done_callback(pass_on)
        return answer

    def close(self) -> None:
        """End the actor's process."""
        with suppress(self._ray.exceptions.RayError, RuntimeError, ValueError):
            self._ray.kill(self._actor, no_restart=True)


def _answer(answer: Future[Any], payload: bytes) -> None:
    kind, value = pickle.loads(payload)  # noqa: S301 - from our own process
    if kind == "value":
        answer.set_result(value)
    elif kind == "error":
        answer.set_exception(value)
    else:
        hint = "install the packages that the task needs on every node"
        answer.set_exception(EngineError("E601", f"a node cannot load the work: {value}", hint=hint))
