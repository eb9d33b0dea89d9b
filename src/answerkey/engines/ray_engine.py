"""Chunks on a Ray cluster: one that is there, or one of our own on this machine.

A chunk is one Ray task, which runs the function that this machine would run. Ray itself tries
nothing twice. A task whose worker or node is gone is handed out again here, a few times, while all
others go on; a chunk that ends its workers is searched for the rows that do, and done without them.
"""

from __future__ import annotations

import logging
import os
import pickle
import secrets
import signal
import socket
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar

from answerkey._version import __version__
from answerkey.datasets.rows import dump_with_rows
from answerkey.engines.local import (
    AHEAD,
    Engine,
    Spread,
    UnknownFunctionError,
    apply_function,
    count_cores,
    describe_error,
    find_deadly_rows,
    open_answer,
    pickle_function,
)
from answerkey.errors import EngineError, listing

Chunk = TypeVar("Chunk")
Part = TypeVar("Part")
LOG = logging.getLogger("answerkey")
_JOIN_HINT = (
    "look at `ray status`, and at the Ray version of its nodes; name another cluster "
    "with `--ray-address`, "
    "or work here with `--engine local`"
)
#: What `import ray` and `ray.init` write themselves. If it is there already, they add no name. An
#: empty hook is Python's own.
_RAYS_OWN = {"RAY_CLIENT_MODE": "0", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONBREAKPOINT": ""}
#: Without this, Ray gives a node the address of the machine in the network, even if told 127.0.0.1.
_LOOPBACK_SETTING = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_LOOPBACK = "127.0.0.1"
#: Chunks that are read where they are worked on, and plain numbers, need little.
_STORE_BYTES = 200 * 2**20
#: A cluster that does not take a connection, or says nothing, for so many seconds is gone.
_ANSWER_SECONDS = 7.0
#: How a connection of HTTP/2 begins, with settings that say nothing.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
#: The same as long as this process lives: Ray remembers the first.
_TOKEN = secrets.token_hex(32)
#: Ray keeps sockets below its folder, and their names must not be longer than a hundred characters.
_LONGEST_FOLDER = 40


def log_message(message: dict[str, Any], *_: object) -> None:
    """Log what Ray would print among the output of answerkey."""
    for text in message["lines"]:
        LOG.debug("%s", text)


def prepare_environment(address: str | None) -> None:
    """Set what Ray, and a cluster of our own, read from nowhere but the environment.

    Polars reads the environment in its own threads, outside Python's lock: a name that is added
    meanwhile ends the process. So this is done once, when the engine is chosen and before any rows
    are read; connecting adds nothing, and closing puts nothing back. Afterwards, other uses of Ray
    in this process see the same settings.
    """
    settings = {name: value for name, value in _RAYS_OWN.items() if name not in os.environ}
    if address is None:
        settings |= _LOOPBACK_SETTING
        # Else Ray would keep a token in the user's home.
        if "RAY_AUTH_MODE" not in os.environ:
            settings |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _TOKEN}
    os.environ.update(settings)


class Cluster:
    """A connection to Ray; closing it ends what was started for it, and nothing else."""

    def __init__(self, address: str | None) -> None:
        self._is_ours = False
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.ray: Any = import_module("ray")
        self._constants: Any = import_module("ray._private.ray_constants")
        self._printer = vars(import_module("ray._private.worker"))
        self._print = self._printer["print_worker_logs"]
        if self.ray.is_initialized():
            current = self.ray.get_runtime_context().gcs_address
            if address not in (None, "auto", current):
                message = (
                    f"this program is connected to the Ray cluster at `{current}`, not `{address}`"
                )
                how = "leave `ray_address` out, or call `ray.shutdown()` first"
                raise EngineError("E601", message, hint=how)
            return
        # Ray prints what became of workers and nodes to stdout, whatever `log_to_driver` says.
        self._printer["print_worker_logs"] = log_message
        handler = signal.getsignal(signal.SIGTERM)
        try:
            self._start() if address is None else self._join(address)
        except (
            OSError,
            ValueError,
            RuntimeError,
            TimeoutError,
            self.ray.exceptions.RayError,
        ) as error:
            self.close()
            what = (
                "cannot start Ray"
                if address is None
                else f"cannot reach the Ray cluster at `{address}`"
            )
            hint = _JOIN_HINT if address else None
            raise EngineError("E601", f"{what}: {error}", hint=hint) from error
        finally:  # Ray puts one of its own in its place
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)

    def close(self) -> None:
        """Leave the cluster; one of our own ends with that."""
        if self._is_ours:
            self._is_ours = False
            with suppress(self.ray.exceptions.RayError, OSError, RuntimeError):
                self.ray.shutdown()
        self._printer["print_worker_logs"] = self._print
        if self._folder is not None:
            self._folder.cleanup()

    def _start(self) -> None:
        """Start a cluster on this machine, bound to loopback, with a token that only our processes
        have.
        """
        # Ray's own; else one that ends with the cluster, and that only this user can enter.
        folder = None
        if "RAY_TMPDIR" not in os.environ:
            made = tempfile.TemporaryDirectory(prefix="ak-ray-", ignore_cleanup_errors=True)
            folder = str(Path(made.name) / "r")
            if len(folder) > _LONGEST_FOLDER:
                made.cleanup()
                folder = None
            else:
                self._folder = made
        self._is_ours = True
        # Settings are read when Ray is imported, which may have been before we came.
        self._constants.ENABLE_RAY_CLUSTER = False
        config: Any = import_module("ray._raylet").Config
        config.initialize("")
        self.ray.init(
            address="local",
            num_cpus=count_cores(),
            object_store_memory=_STORE_BYTES,
            include_dashboard=False,
            _temp_dir=folder,
            log_to_driver=False,
            logging_level="ERROR",
            _node_ip_address=_LOOPBACK,
        )
        addresses = {node["NodeManagerAddress"] for node in self.ray.nodes()}
        if addresses != {_LOOPBACK}:
            self.close()
            message = f"Ray does not keep to loopback: its node is at {listing(addresses)}"
            raise EngineError("E601", message, hint="start a cluster yourself and name it")

    def _join(self, address: str) -> None:
        """Join a cluster.

        OSError where nobody listens or speaks HTTP/2: Ray itself would try for minutes.
        """
        target = address
        if address == "auto":
            services: Any = import_module("ray._private.services")
            target = services.get_ray_address_from_environment(address, None)
        if _is_loopback(target):  # as `_LOOPBACK_SETTING` says to processes that are started
            self._constants.ENABLE_RAY_CLUSTER = False
        host, _, port = target.removeprefix("ray://").rpartition(":")
        if port.isdecimal():  # else Ray says what is wrong with it
            with socket.create_connection(
                (host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS
            ) as probe:
                probe.sendall(_GREETING)
                with suppress(ConnectionResetError):  # somebody is there, and wants TLS
                    probe.recv(1)
        self._is_ours = True
        self.ray.init(
            address=address,
            log_to_driver=False,
            logging_level="ERROR",
        )


def shorten(error: BaseException) -> str:
    """Return the first line of what Ray says, which can be pages."""
    return str(error).strip().partition("\n")[0]


def _is_loopback(address: str) -> bool:
    host = address.removeprefix("ray://").rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def answer_chunk(version: str, function: bytes, chunk: bytes, *, is_search: bool) -> bytes:
    """Return the answer to a chunk, as a worker process of this machine gives it; for a search, the
    rows that end the process which works on them.

    EngineError E601 if the work was sent by another version of answerkey.
    """
    # One task for each core: the column library, not loaded so far, needs no threads beside them.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    if version != __version__:
        message = f"a node has answerkey {__version__}, and the work was sent by {version}"
        hint = "install one version on every node"
        return describe_error(EngineError("E601", message, hint=hint))
    if not is_search:
        return apply_function(function, chunk)
    try:
        return pickle.dumps(("value", find_deadly_rows(function, pickle.loads(chunk))))  # noqa: S301 - our own
    except EngineError as error:
        return describe_error(error)


def open_far_answer(payload: bytes) -> Any:  # noqa: ANN401 - whatever the function returns
    """Return the value that the answer of a node holds, or raise its error."""
    try:
        return open_answer(payload)
    except UnknownFunctionError as error:
        hint = "install the packages that the task needs on every node"
        raise EngineError("E601", f"a node cannot load the work: {error}", hint=hint) from None


#: A chunk that has ended so many workers is given up.
TRIES = 3
#: One that can be split is searched before that, for the rows that do it.
SEARCH_AFTER = 2
#: A chunk may lose so many nodes: whoever takes nodes away takes many.
NODE_TRIES = 12
#: So many cores are counted on at least: an autoscaler starts nodes for tasks that wait for them.
FEWEST_CORES = 8
#: How often the cores of the cluster are counted, in seconds: nodes come and go.
COUNT_SECONDS = 1.0
#: Answers that wait for an earlier chunk may have so many bytes before no more chunks are handed
#: out.
MAX_HELD_BYTES = 128 * 2**20


class RayEngine(Engine):
    """Works on a Ray cluster: the one at an address, or one of its own on this machine, on loopback
    alone.
    """

    def __init__(self, address: str | None = None) -> None:
        if find_spec("ray") is None:  # it is not imported
            hint = "install it with `pip install ray==2.60.0`"
            raise EngineError("E601", "the engine `ray` needs Ray", hint=hint)
        prepare_environment(address)
        self._address = address
        self._cluster: Cluster | None = None
        self._connecting = threading.Lock()

    def connect(self) -> None:
        """Reach the cluster, or start one."""
        self._open_cluster()

    def map(
        self,
        function: Callable[[Chunk], Part],
        chunks: Iterable[Chunk],
        *,
        spread: Spread = "alone",
    ) -> Iterator[Part]:
        """Yield the function's value for each chunk, in the order of the chunks.

        What is to stay alone, and a function that cannot be sent anywhere, is worked on here.
        """
        payload = None if spread == "alone" else pickle_function(function)
        if payload is None:
            return (function(chunk) for chunk in chunks)
        return Dispatch(self._open_cluster().ray, payload).map(chunks)

    def _open_cluster(self) -> Cluster:
        with self._connecting:  # several runs may share the engine
            if self._cluster is None:
                self._cluster = Cluster(self._address)
                weakref.finalize(self, self._cluster.close)
            return self._cluster


@dataclass
class Attempt:
    """A chunk that has been handed out, its index, and what came of it before.

    One that has the methods `split` and `skip` is searched once for rows that end every worker.
    """

    index: int
    chunk: Any
    crashes: int = 0
    lost_nodes: int = 0
    is_searching: bool = False
    is_searched: bool = False


@dataclass(frozen=True)
class Crash:
    """A worker that ended in the middle of its chunk; `is_node` when its whole node did."""

    reason: str
    is_node: bool


class Dispatch:
    """One function, given as a pickle, and the chunks that are handed out to it."""

    def __init__(self, ray: Any, function: bytes) -> None:  # noqa: ANN401 - the library
        self._ray = ray
        # A try that Ray makes by itself would be one that nobody counts. Not `SPREAD`: that asks
        # for a worker for each task, and while the loss of a node is not known to Ray, ever more
        # tasks wait for that node.
        self._work = ray.remote(num_cpus=1, max_retries=0)(answer_chunk)
        self._function = ray.put(function)
        self._waiting: Iterator[Any] = iter(())
        self._running: dict[Any, Attempt] = {}
        #: Answers that wait for those of earlier chunks, or why there is none.
        self._held: dict[int, bytes | EngineError] = {}
        self._held_bytes = 0

    def map(self, chunks: Iterable[Any]) -> Iterator[Any]:
        """Yield the function's value for each chunk in order, whichever is done first.

        More tasks are under way than the cluster has cores: none is idle, and nodes that come find
        work. An error is raised when the turn of its chunk comes.
        """
        self._waiting = iter(chunks)
        handed = turn = places = 0
        count_at = 0.0
        try:
            while True:
                if time.monotonic() >= count_at:
                    cores = int(self._ray.cluster_resources().get("CPU", 0))
                    places = AHEAD * max(cores, FEWEST_CORES)
                    count_at = time.monotonic() + COUNT_SECONDS
                while len(self._running) < places and self._held_bytes < MAX_HELD_BYTES:
                    chunk = next(self._waiting, _NONE)
                    if chunk is _NONE:
                        break
                    self._submit(Attempt(handed, chunk))
                    handed += 1
                if turn in self._held:
                    answer = self._held.pop(turn)
                    turn += 1
                    if isinstance(answer, EngineError):
                        raise answer
                    self._held_bytes -= len(answer)
                    yield open_far_answer(answer)
                elif self._running:
                    self._collect()
                else:
                    return
        finally:
            for task in self._running:
                self._ray.cancel(task, force=True)

    def _submit(self, attempt: Attempt) -> None:
        chunk = dump_with_rows(attempt.chunk)
        task = self._work.remote(
            __version__,
            self._function,
            chunk,
            is_search=attempt.is_searching,
        )
        self._running[task] = attempt

    def _collect(self) -> None:
        """Take in all that is done; wait for it until it is time to count cores again."""
        tasks = list(self._running)
        if not self._ray.wait(tasks, num_returns=1, timeout=COUNT_SECONDS)[0]:
            return
        for task in self._ray.wait(tasks, num_returns=len(tasks), timeout=0)[0]:
            attempt = self._running.pop(task)
            try:
                answer = self._fetch(task)
                if isinstance(answer, Crash):
                    self._try_again(attempt, answer)
                elif attempt.is_searching:
                    self._skip_rows(attempt, open_far_answer(answer))
                else:
                    self._held[attempt.index] = answer
                    self._held_bytes += len(answer)
            except EngineError as error:
                self._held[attempt.index] = error
                self._waiting = iter(())

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
            raise EngineError(
                "E602", f"Ray failed: {shorten(error)}", hint="look at `ray status`"
            ) from error
        return answer

    def _try_again(self, attempt: Attempt, crash: Crash) -> None:
        """Hand a chunk out again, or have it searched if it seems to be the cause."""
        attempt.lost_nodes += crash.is_node
        attempt.crashes += not crash.is_node
        if attempt.lost_nodes >= NODE_TRIES:
            raise EngineError(
                "E602", f"a chunk lost {NODE_TRIES} nodes: {crash.reason}", hint=_LOST
            )
        if attempt.crashes >= TRIES:
            message = f"a chunk ended {TRIES} workers, and no row of it did alone: {crash.reason}"
            raise EngineError("E602", message, hint=_MEMORY)
        can_search = hasattr(attempt.chunk, "skip") and not attempt.is_searched
        if can_search and attempt.crashes >= SEARCH_AFTER:
            attempt.is_searching = attempt.is_searched = True
            attempt.crashes = 0
        self._submit(attempt)

    def _skip_rows(self, attempt: Attempt, rows: list[Any]) -> None:
        """Hand a chunk out again without the rows that were found.

        Without any, as it is, a last time.
        """
        attempt.is_searching = False
        attempt.crashes = 0 if rows else TRIES - 1
        if rows:
            attempt.chunk = attempt.chunk.skip(rows)
            LOG.warning("rows that end their worker are FAILED (ENDED_WORKER): %d", len(rows))
        self._submit(attempt)


#: There is no further chunk.
_NONE = object()
_LOST = "look at `ray status`; nodes that come and go too often get nothing done"
_MEMORY = "was a node out of memory? give nodes fewer CPUs; `-v` shows Ray's messages"
