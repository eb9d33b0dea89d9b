"""The Ray engine: works on an existing Ray cluster, or on its own cluster on this machine.

A chunk is one Ray task, which runs the same function as on this machine. Ray itself retries
nothing. A task whose worker or node has died is submitted again here, a few times, while all others
continue; a chunk that keeps ending its workers is searched for the rows that do, and run without
them.
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
from typing import Any, NamedTuple, TypeVar

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
    "check `ray status`, and the Ray version of its nodes; name another cluster "
    "with `--ray-address`, "
    "or work here with `--engine local`"
)
#: The variables that `import ray` and `ray.init` set themselves. If they are set already, Ray adds
#: no name. An empty hook is Python's default.
_RAYS_OWN = {"RAY_CLIENT_MODE": "0", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONBREAKPOINT": ""}
#: Without this, Ray gives a node the machine's network address, even when 127.0.0.1 is requested.
_LOOPBACK_SETTING = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_LOOPBACK = "127.0.0.1"
#: The size of the object store: workers read chunks themselves and return numbers, which is little.
_STORE_BYTES = 200 * 2**20
#: A cluster that does not accept a connection or respond within this time is unreachable.
_ANSWER_SECONDS = 7.0
#: The preface of an HTTP/2 connection, with empty settings.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
#: Fixed for this process, since Ray keeps the first token.
_TOKEN = secrets.token_hex(32)
#: Ray creates sockets below its folder, whose paths may have at most a hundred characters.
_MAX_FOLDER_LENGTH = 40


def log_message(message: dict[str, Any], *_: object) -> None:
    """Log what Ray would otherwise print into the output of answerkey."""
    for text in message["lines"]:
        LOG.debug("%s", text)


def prepare_environment(address: str | None) -> None:
    """Set the variables that Ray, and our own cluster, read only from the environment.

    Polars reads the environment in its own threads, outside Python's lock: adding a name meanwhile
    crashes the process. So this happens once, when the engine is chosen and before any rows are
    read; connecting adds nothing, and closing restores nothing. Other uses of Ray in this process
    then see the same settings.
    """
    settings = {name: value for name, value in _RAYS_OWN.items() if name not in os.environ}
    if address is None:
        settings |= _LOOPBACK_SETTING
        # Otherwise Ray would store a token in the user's home folder.
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
        # Ray prints messages about workers and nodes to stdout, whatever `log_to_driver` says.
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
        finally:  # Ray installs its own handler
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)

    def close(self) -> None:
        """Disconnect from the cluster; our own cluster ends with that."""
        if self._is_ours:
            self._is_ours = False
            with suppress(self.ray.exceptions.RayError, OSError, RuntimeError):
                self.ray.shutdown()
        self._printer["print_worker_logs"] = self._print
        if self._folder is not None:
            self._folder.cleanup()

    def _start(self) -> None:
        """Start a cluster on this machine, bound to loopback, with a token that only our processes
        know.
        """
        # Ray's own folder, or else one that only this user can enter and that is removed with the
        # cluster.
        folder = None
        if "RAY_TMPDIR" not in os.environ:
            made = tempfile.TemporaryDirectory(prefix="ak-ray-", ignore_cleanup_errors=True)
            folder = str(Path(made.name) / "r")
            if len(folder) > _MAX_FOLDER_LENGTH:
                made.cleanup()
                folder = None
            else:
                self._folder = made
        self._is_ours = True
        # Ray reads its settings when it is imported, which may have happened earlier.
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
            message = f"Ray does not stay on loopback: its node is at {listing(addresses)}"
            raise EngineError("E601", message, hint="start a cluster yourself and name it")

    def _join(self, address: str) -> None:
        """Join a cluster.

        OSError if nobody listens or speaks HTTP/2 there: Ray itself would try for minutes.
        """
        target = address
        if address == "auto":
            services: Any = import_module("ray._private.services")
            target = services.get_ray_address_from_environment(address, None)
        if _is_loopback(target):  # the equivalent of `_LOOPBACK_SETTING` for this process
            self._constants.ENABLE_RAY_CLUSTER = False
        host, _, port = target.removeprefix("ray://").rpartition(":")
        if port.isdecimal():  # otherwise Ray reports the mistake
            with socket.create_connection(
                (host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS
            ) as probe:
                probe.sendall(_GREETING)
                with suppress(ConnectionResetError):  # a server is there, and expects TLS
                    probe.recv(1)
        self._is_ours = True
        self.ray.init(
            address=address,
            log_to_driver=False,
            logging_level="ERROR",
        )


def shorten(error: BaseException) -> str:
    """Return the first line of Ray's message, which can be pages long."""
    return str(error).strip().partition("\n")[0]


def _is_loopback(address: str) -> bool:
    host = address.removeprefix("ray://").rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def answer_chunk(version: str, function: bytes, chunk: bytes, *, is_search: bool) -> bytes:
    """Return the answer to a chunk, like a worker process on this machine; for a search, the rows
    that end the process working on them.

    EngineError E601 if another version of answerkey sent the work.
    """
    # There is one task for each core, so Polars, which is not loaded yet, needs only one thread.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    if version != __version__:
        message = f"a node has answerkey {__version__}, but the work was sent by {version}"
        hint = "install one version on every node"
        return describe_error(EngineError("E601", message, hint=hint))
    if not is_search:
        return apply_function(function, chunk)
    try:
        return pickle.dumps(("value", find_deadly_rows(function, pickle.loads(chunk))))  # noqa: S301 - our own
    except EngineError as error:
        return describe_error(error)


def open_node_answer(payload: bytes) -> Any:  # noqa: ANN401 - whatever the function returns
    """Return the value in a node's answer, or raise its error."""
    try:
        return open_answer(payload)
    except UnknownFunctionError as error:
        hint = "install the packages that the task needs on every node"
        raise EngineError("E601", f"a node cannot load the work: {error}", hint=hint) from None


#: A chunk that has ended this many workers is given up.
TRIES = 3
#: A chunk that can be split is searched earlier, after this many, for the rows that cause it.
SEARCH_AFTER = 2
#: A chunk may lose this many nodes: nodes are often taken away by the dozen.
NODE_TRIES = 12
#: At least this many cores are assumed: an autoscaler starts nodes only for waiting tasks.
MIN_CORES = 8
#: How often the cores of the cluster are counted, in seconds: nodes come and go.
COUNT_SECONDS = 1.0
#: No more chunks are submitted while answers waiting for an earlier chunk exceed this size.
MAX_HELD_BYTES = 128 * 2**20


class RayEngine(Engine):
    """Works on a Ray cluster: the one at an address, or its own on this machine, on loopback
    only.
    """

    def __init__(self, address: str | None = None) -> None:
        if find_spec("ray") is None:  # without importing it
            hint = "install it with `pip install ray==2.60.0`"
            raise EngineError("E601", "the engine `ray` needs Ray", hint=hint)
        prepare_environment(address)
        self._address = address
        self._cluster: Cluster | None = None
        self._connecting = threading.Lock()

    def connect(self) -> None:
        """Connect to the cluster, or start one."""
        self._open_cluster()

    def map(
        self,
        function: Callable[[Chunk], Part],
        chunks: Iterable[Chunk],
        *,
        spread: Spread = "alone",
    ) -> Iterator[Part]:
        """Yield the function's value for each chunk, in the order of the chunks.

        With `spread` "alone", or a function that cannot be pickled, the work is done in this
        process.
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
    """A submitted chunk, its index, and its earlier crashes.

    A chunk with the methods `split` and `skip` is searched once for rows that end every worker.
    """

    index: int
    chunk: Any
    crashes: int = 0
    lost_nodes: int = 0
    is_searching: bool = False
    is_searched: bool = False


class Crash(NamedTuple):
    """The end of a worker in the middle of its chunk; `is_node` if its whole node was lost."""

    reason: str
    is_node: bool


class Dispatch:
    """One pickled function, and the chunks submitted to it."""

    def __init__(self, ray: Any, function: bytes) -> None:  # noqa: ANN401 - the library
        self._ray = ray
        # Nobody would count Ray's own retries. Not `SPREAD`: it requests a worker for each task,
        # and until Ray knows of a lost node, more and more tasks wait for that node.
        self._work = ray.remote(num_cpus=1, max_retries=0)(answer_chunk)
        self._function = ray.put(function)
        self._waiting: Iterator[Any] = iter(())
        self._running: dict[Any, Attempt] = {}
        #: Answers, or errors, that wait for those of earlier chunks.
        self._held: dict[int, bytes | EngineError] = {}
        self._held_bytes = 0

    def map(self, chunks: Iterable[Any]) -> Iterator[Any]:
        """Yield the function's value for each chunk in order, whichever finishes first.

        More tasks are submitted than the cluster has cores, so that no core is idle and new nodes
        find work. An error is raised when it is its chunk's turn.
        """
        self._waiting = iter(chunks)
        handed = turn = places = 0
        count_at = 0.0
        try:
            while True:
                if time.monotonic() >= count_at:
                    cores = int(self._ray.cluster_resources().get("CPU", 0))
                    places = AHEAD * max(cores, MIN_CORES)
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
                    yield open_node_answer(answer)
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
        """Collect finished tasks, waiting until it is time to count cores again."""
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
                    self._skip_rows(attempt, open_node_answer(answer))
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
                "E602", f"Ray failed: {shorten(error)}", hint="check `ray status`"
            ) from error
        return answer

    def _try_again(self, attempt: Attempt, crash: Crash) -> None:
        """Submit a chunk again, or have it searched if it seems to be the cause."""
        attempt.lost_nodes += crash.is_node
        attempt.crashes += not crash.is_node
        if attempt.lost_nodes >= NODE_TRIES:
            raise EngineError(
                "E602", f"a chunk lost {NODE_TRIES} nodes: {crash.reason}", hint=_LOST
            )
        if attempt.crashes >= TRIES:
            message = f"a chunk ended {TRIES} workers, but no row of it did alone: {crash.reason}"
            raise EngineError("E602", message, hint=_MEMORY)
        can_search = hasattr(attempt.chunk, "skip") and not attempt.is_searched
        if can_search and attempt.crashes >= SEARCH_AFTER:
            attempt.is_searching = attempt.is_searched = True
            attempt.crashes = 0
        self._submit(attempt)

    def _skip_rows(self, attempt: Attempt, rows: list[Any]) -> None:
        """Submit a chunk again without the rows that were found.

        If none were found, submit it unchanged, one last time.
        """
        attempt.is_searching = False
        attempt.crashes = 0 if rows else TRIES - 1
        if rows:
            attempt.chunk = attempt.chunk.skip(rows)
            LOG.warning("rows that end their worker are FAILED (ENDED_WORKER): %d", len(rows))
        self._submit(attempt)


#: Marks the end of the chunks.
_NONE = object()
_LOST = "check `ray status`; nodes that come and go too often get nothing done"
_MEMORY = "was a node out of memory? give nodes fewer CPUs; `-v` shows Ray's messages"
