"""The engine of this machine: this process, or worker processes.

Functions and chunks travel as pickles, between our own processes alone. What a worker process does
with a chunk is the same on a Ray node.
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
#: Where work may go: nowhere but this process, to other machines one chunk at a time, or to worker
#: processes as well.
Spread = Literal["alone", "apart", "processes"]
#: So many chunks for each core are handed out before the first of them is waited for.
AHEAD = 2
#: A chunk, and then each part of it that ends its process, is split in so many.
TRIAL_PARTS = 64
#: With more stretches of rows than this that end their process, it is not for the rows.
MAX_STRETCHES = 32
#: What is sent to all processes at once is the parent's to obey.
_PARENTS_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
#: One thread at a time starts processes: meanwhile this one has no `__main__`.
_launch = threading.Lock()


class Engine:
    """Applies a function to chunks on this machine, on all cores that the process may use.

    What comes back is in the order of the chunks, whatever finished first. Unless the work stays
    alone, the function and the chunks can be pickled.
    """

    def connect(self) -> None:
        """Reach what the engine works on, or raise EngineError E601; this machine is here."""

    def map(
        self,
        function: Callable[[Chunk], Result],
        chunks: Iterable[Chunk],
        *,
        spread: Spread = "alone",
    ) -> Iterator[Result]:
        """Yield the function's value for each chunk.

        Hardly more chunks are under way than there are cores. A chunk that fails stops the work:
        its error is raised when its turn comes.
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
    """Yield the function's value for each chunk in order, with `count` processes at work.

    One chunk, and a function that cannot be sent or is not known there, is worked on here. Whatever
    ends it, the processes are killed in the middle of their work.
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
        hint = "was the machine out of memory? run again with fewer processes beside it"
        raise EngineError("E602", f"a worker process ended: {error}", hint=hint) from None
    finally:
        pool.close()


def find_deadly_rows(function: bytes, chunk: Any) -> list[Any]:  # noqa: ANN401 - it can be split
    """Return the rows of a chunk, each a chunk of its own, that end the process which works on
    them.

    The parts of the chunk are tried one after another in one process, which is started again when
    it has ended; then the parts of those that ended it, down to single rows, which are tried twice.
    EngineError E602 when so much of the chunk ends it that the rows cannot be the cause.
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

        # Not forked: Polars waits forever for the threads that a fork does not copy.
        context = multiprocessing.get_context("spawn")
        self._pipe, end_of_worker = context.Pipe()
        self._process = context.Process(
            target=answer_parent, args=(function, end_of_worker), daemon=True
        )
        # The process does not run the caller's script again, nor hear signals before it is ready.
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
        self._process.join(1)  # its end may be known before its exit code is
        code = self._process.exitcode or 0
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def kill(self) -> None:
        """End the process in the middle of its work."""
        self._process.kill()

    def close(self) -> None:
        """Kill the process, and free what is left of it. Nobody waits for an answer any more."""
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
    gc.freeze()  # no search for cycles goes through what was imported
    with suppress(EOFError, OSError):
        while True:
            pipe.send_bytes(apply_function(function, pipe.recv_bytes()))


def _become_worker() -> None:
    """Make this process a worker: in a session of its own, and ending with its parent."""
    os.setsid()
    # There is a worker for each core; Polars, not loaded so far, needs no threads beside them.
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
    os.dup2(2, 1)  # what a library prints is no output of ours


def pickle_function(function: Callable[[Any], object]) -> bytes | None:
    """Return the function as it is sent to other processes; None when it cannot be."""
    try:
        return pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


@lru_cache(maxsize=2)
def load_function(payload: bytes) -> Callable[[Any], object]:
    """Return the function that was sent; what it needs is imported the first time."""
    function: Callable[[Any], object] = pickle.loads(payload)  # noqa: S301 - from our own process
    return function


class UnknownFunctionError(Exception):
    """The function that was sent cannot be loaded where it is to work."""


def open_answer(payload: bytes) -> Any:  # noqa: ANN401 - whatever the function returns
    """Return the value that an answer holds, or raise its error.

    UnknownFunctionError when nothing ran.
    """
    kind, value = pickle.loads(payload)  # noqa: S301 - from our own process
    if kind == "value":
        return value
    raise value if kind == "error" else UnknownFunctionError(value)


def apply_function(function: bytes, chunk: bytes) -> bytes:
    """Return the function's value for a chunk, or its error, as a pickle that says which it is."""
    gc.disable()  # the search for cycles would go through all rows, and find none
    try:
        loaded = load_function(function)
    except (AttributeError, ImportError, pickle.UnpicklingError) as error:
        return pickle.dumps(("unknown", str(error)))
    try:
        return pickle.dumps(("value", loaded(pickle.loads(chunk))))  # noqa: S301 - from our own process
    except BaseException as error:  # noqa: BLE001 - it is raised again by whoever asked
        return describe_error(error)
    finally:
        gc.enable()


def describe_error(error: BaseException) -> bytes:
    """Return an error as the answer to a chunk; one that cannot be sent is put into words."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        payload = pickle.dumps(("error", error))
        pickle.loads(payload)  # noqa: S301 - our own bytes: some errors can be sent but not received
    except (pickle.PickleError, TypeError, AttributeError, ImportError, ValueError):
        print("".join(traceback.format_exception(error)), file=sys.stderr)  # noqa: T201 - nobody else will
        message = f"a worker process failed: {type(error).__name__}: {error}"
        return pickle.dumps(("error", InternalError("E901", message)))
    return payload
