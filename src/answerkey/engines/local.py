"""The local engine: works in this process, or in worker processes.

Functions and chunks are sent as pickles, only between our own processes. A worker process does the
same with a chunk as a Ray node.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice
from queue import SimpleQueue
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from answerkey.errors import EngineError, InternalError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")
#: Where work may run: only in this process, also on other machines, or also in worker processes
#: here.
Spread = Literal["alone", "apart", "processes"]
#: The number of chunks per core that are handed out before the first result is awaited.
AHEAD = 2
#: A chunk, and each part of it that ends its process, is split into this many parts.
TRIAL_PARTS = 64
#: If more stretches of rows than this end their process, the rows are not the cause.
MAX_STRETCHES = 32
#: Signals that reach all processes of a terminal; only the parent handles them.
_PARENTS_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
#: Only one thread at a time may start processes, since `__main__` is hidden meanwhile.
_launch = threading.Lock()


class Engine:
    """Applies a function to chunks on this machine, on all cores available to this process.

    Results come in the order of the chunks, whichever finishes first. Unless `spread` is "alone",
    the function and the chunks can be pickled.
    """

    def connect(self) -> None:
        """Connect to the engine's machines, or raise EngineError E601; for this machine there is
        nothing to do.
        """

    def map(
        self,
        function: Callable[[Chunk], Result],
        chunks: Iterable[Chunk],
        *,
        spread: Spread = "alone",
    ) -> Iterator[Result]:
        """Yield the function's value for each chunk.

        Only a few more chunks than cores are in progress at a time. A chunk that fails stops the
        work: its error is raised in its turn.
        """
        if spread != "processes":
            return (function(chunk) for chunk in chunks)
        return map_processes(function, chunks, count_cores())


def count_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_processes(
    function: Callable[[Chunk], Result], chunks: Iterable[Chunk], count: int
) -> Iterator[Result]:
    """Yield the function's value for each chunk in order, using `count` processes.

    A single chunk runs in this process, and so does a function that cannot be sent or loaded there.
    When the iteration ends, for whatever reason, the processes are killed in the middle of their
    work.
    """
    waiting = iter(chunks)
    first = list(islice(waiting, count))
    payload = pickle_function(function) if len(first) > 1 else None
    if payload is None:
        yield from map(function, chain(first, waiting))
        return
    pool = WorkerPool(payload, len(first))
    handed: deque[tuple[Chunk, Future[bytes]]] = deque()

    def finish() -> Result:
        chunk, future = handed.popleft()
        try:
            result: Result = open_answer(future.result())
        except UnknownFunctionError:
            result = function(chunk)
        return result

    try:
        for chunk in chain(first, waiting):
            handed.append((chunk, pool.submit(pickle.dumps(chunk))))
            if len(handed) >= AHEAD * len(first):
                yield finish()
        while handed:
            yield finish()
    except WorkerEndedError as error:
        hint = "was the machine out of memory? run again with fewer other processes"
        raise EngineError("E602", f"a worker process ended: {error}", hint=hint) from None
    finally:
        pool.close()


def find_deadly_rows(function: bytes, chunk: Any) -> list[Any]:  # noqa: ANN401 - it can be split
    """Return the rows of a chunk that end the process working on them, each as a chunk of its own.

    The parts of the chunk are tried one after another in one process, which is restarted whenever
    it ends; then the parts of those that ended it, down to single rows, which are tried twice.
    EngineError E602 if so many parts end it that the rows cannot be the cause.
    """
    worker = Worker(function)

    def ends_process(part: object) -> bool:
        nonlocal worker
        try:
            worker.apply(pickle.dumps(part))
        except WorkerEndedError:
            worker.close()
            worker = Worker(function)
            return True
        return False

    suspects = [chunk]
    deadly: list[Any] = []
    try:
        while suspects:
            parts = chain.from_iterable(suspect.split(TRIAL_PARTS) for suspect in suspects)
            suspects = []
            for part in parts:
                if not ends_process(part):
                    continue
                if len(part.split(2)) > 1:
                    suspects.append(part)
                elif ends_process(part):
                    deadly.append(part)
                if len(suspects) + len(deadly) > MAX_STRETCHES:
                    message = (
                        f"more than {MAX_STRETCHES} stretches of a chunk's rows end their worker"
                    )
                    hint = "was a node out of memory? give nodes fewer CPUs"
                    raise EngineError("E602", message, hint=hint)
        return deadly
    finally:
        worker.close()


class WorkerEndedError(Exception):
    """A worker process ended before it answered; the text says how."""


class Worker:
    """A process that applies one function to chunks, one after the other."""

    def __init__(self, function: bytes) -> None:
        import multiprocessing

        # Not forked: Polars would wait forever for threads that a fork does not copy.
        context = multiprocessing.get_context("spawn")
        self._pipe, end_of_worker = context.Pipe()
        self._process = context.Process(
            target=answer_parent, args=(function, end_of_worker), daemon=True
        )
        # The process must not run the caller's script again, nor receive signals before it is
        # ready.
        with _launch:
            main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
            before = signal.pthread_sigmask(signal.SIG_BLOCK, _PARENTS_SIGNALS)
            try:
                self._process.start()
            finally:
                sys.modules["__main__"] = main
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        end_of_worker.close()

    def apply(self, chunk: bytes) -> bytes:
        """Return the answer to a chunk; raise WorkerEndedError if the process ends first."""
        try:
            self._pipe.send_bytes(chunk)
            return self._pipe.recv_bytes()
        except (EOFError, OSError):
            raise WorkerEndedError(self._explain_end()) from None

    def _explain_end(self) -> str:
        self._process.join(1)  # the pipe may close before the exit code is known
        code = self._process.exitcode or 0
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def kill(self) -> None:
        """End the process in the middle of its work."""
        self._process.kill()

    def close(self) -> None:
        """Kill the process and free its resources. Nobody may be waiting for an answer any more."""
        self.kill()
        self._process.join()
        self._process.close()
        self._pipe.close()


class WorkerPool:
    """Several workers for one function, each with a thread that waits for its answers."""

    def __init__(self, function: bytes, count: int) -> None:
        self._workers = [Worker(function) for _ in range(count)]
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="answerkey-worker")

    def submit(self, chunk: bytes) -> Future[bytes]:
        """Hand a chunk to the next worker that is idle; the future holds its answer."""
        return self._threads.submit(self._apply, chunk)

    def _apply(self, chunk: bytes) -> bytes:
        worker = self._idle.get()
        try:
            return worker.apply(chunk)
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """End the processes in the middle of their work."""
        for worker in self._workers:
            worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.close()


def answer_parent(function: bytes, pipe: Connection) -> None:
    """Apply the function to each chunk that the parent sends, until it sends no more."""
    _become_worker()
    with suppress(AttributeError, ImportError, pickle.UnpicklingError):
        load_function(function)  # an error comes back with the first chunk
    gc.freeze()  # the garbage collector need not scan imported modules
    with suppress(EOFError, OSError):
        while True:
            pipe.send_bytes(apply_function(function, pipe.recv_bytes()))


def _become_worker() -> None:
    """Make this process a worker: in its own session, and ending with its parent."""
    os.setsid()
    # There is a worker for each core, so Polars, which is not loaded yet, needs only one thread.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    for number in _PARENTS_SIGNALS:
        signal.signal(number, lambda *_: None)  # not ignored: that would be inherited
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PARENTS_SIGNALS)
    import multiprocessing

    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    os.dup2(2, 1)  # what a library prints must not mix with our output


def pickle_function(function: Callable[[Any], object]) -> bytes | None:
    """Return the pickled function; None if it cannot be pickled."""
    try:
        return pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


@lru_cache(maxsize=2)
def load_function(payload: bytes) -> Callable[[Any], object]:
    """Return the unpickled function; its imports happen the first time."""
    function: Callable[[Any], object] = pickle.loads(payload)  # noqa: S301 - from our own process
    return function


class UnknownFunctionError(Exception):
    """The function cannot be loaded in the process that is to run it."""


def open_answer(payload: bytes) -> Any:  # noqa: ANN401 - whatever the function returns
    """Return the value in an answer, or raise its error.

    UnknownFunctionError if the function could not be loaded.
    """
    kind, value = pickle.loads(payload)  # noqa: S301 - from our own process
    if kind == "value":
        return value
    raise value if kind == "error" else UnknownFunctionError(value)


def apply_function(function: bytes, chunk: bytes) -> bytes:
    """Return the function's value for a chunk, or its error, as a tagged pickle."""
    gc.disable()  # the garbage collector would scan all rows for cycles and find none
    try:
        loaded = load_function(function)
    except (AttributeError, ImportError, pickle.UnpicklingError) as error:
        return pickle.dumps(("unknown", str(error)))
    try:
        return pickle.dumps(("value", loaded(pickle.loads(chunk))))  # noqa: S301 - from our own process
    except BaseException as error:  # noqa: BLE001 - it is raised again in the parent
        return describe_error(error)
    finally:
        gc.enable()


def describe_error(error: BaseException) -> bytes:
    """Return an error as the answer to a chunk; an error that cannot be pickled is replaced by its
    text.
    """
    error.add_note("".join(traceback.format_exception(error)))
    try:
        payload = pickle.dumps(("error", error))
        pickle.loads(payload)  # noqa: S301 - our own bytes: some errors can be sent but not received
    except (pickle.PickleError, TypeError, AttributeError, ImportError, ValueError):
        print("".join(traceback.format_exception(error)), file=sys.stderr)  # noqa: T201 - nobody else will
        message = f"a worker process failed: {type(error).__name__}: {error}"
        return pickle.dumps(("error", InternalError("E901", message)))
    return payload
