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
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from answerkey.errors import EngineError, InternalError

if TYPE_CHECKING:
    from concurrent.futures.process import ProcessPoolExecutor

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
MOST_STRETCHES = 32
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
    from concurrent.futures.process import BrokenProcessPool

    pool = _open_pool(len(first))
    handed: deque[tuple[Chunk, Future[bytes]]] = deque()

    def finish() -> Result:
        chunk, future = handed.popleft()
        try:
            result: Result = open_answer(future.result())
        except UnknownFunctionError:
            result = function(chunk)
        return result

    try:
        for _ in first:  # the processes start while the first chunks are loaded
            _submit(pool, prepare_worker, payload)
        for chunk in chain(first, waiting):
            handed.append((chunk, _submit(pool, apply_function, payload, pickle.dumps(chunk))))
            if len(handed) >= AHEAD * len(first):
                yield finish()
        while handed:
            yield finish()
    except BrokenProcessPool:
        reason = _explain_end(pool)
        hint = "was the machine out of memory? run again with fewer processes beside it"
        raise EngineError("E602", f"a worker process ended: {reason}", hint=hint) from None
    finally:
        _close_pool(pool)


def find_deadly_rows(function: bytes, chunk: Any) -> list[Any]:  # noqa: ANN401 - it can be split
    """Return the rows of a chunk, each a chunk of its own, that end the process which works on
    them.

    The parts of the chunk are tried one after another in one process, which is started again when
    it has ended; then the parts of those that ended it, down to single rows, which are tried twice.
    EngineError E602 when so much of the chunk ends it that the rows cannot be the cause.
    """
    from concurrent.futures.process import BrokenProcessPool

    pool = _open_pool(1)

    def ends_process(part: object) -> bool:
        nonlocal pool
        try:
            _submit(pool, apply_function, function, pickle.dumps(part)).result()
        except BrokenProcessPool:
            _close_pool(pool)
            pool = _open_pool(1)
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
                if len(suspects) + len(deadly) > MOST_STRETCHES:
                    message = (
                        f"more than {MOST_STRETCHES} stretches of a chunk's rows end their worker"
                    )
                    hint = "was a node out of memory? give nodes fewer CPUs"
                    raise EngineError("E602", message, hint=hint)
        return deadly
    finally:
        _close_pool(pool)


def _open_pool(count: int) -> ProcessPoolExecutor:
    import multiprocessing
    from concurrent.futures.process import ProcessPoolExecutor

    # Not forked: Polars waits forever for the threads that a fork does not copy.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(count, context, _start_worker)


def _submit(
    pool: ProcessPoolExecutor, function: Callable[..., Result], *values: object
) -> Future[Result]:
    """Hand work to a pool, which may start a process for it.

    The process does not run the caller's script again, nor hear signals before it is ready.
    """
    with _launch:
        main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _PARENTS_SIGNALS)
        try:
            return pool.submit(function, *values)
        finally:
            sys.modules["__main__"] = main
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _explain_end(pool: ProcessPoolExecutor) -> str:
    """Return how a process of a broken pool ended."""
    for process in list(pool._processes.values()):  # noqa: SLF001 - no public name before Python 3.14
        process.join(0.05)  # its end may be known before its exit code is
        code = process.exitcode
        if code is not None:
            return f"signal {-code}" if code < 0 else f"exit code {code}"
    return "exit code 0"


def _close_pool(pool: ProcessPoolExecutor) -> None:
    """End the processes in the middle of their work."""
    for process in list((pool._processes or {}).values()):  # noqa: SLF001 - as above
        process.kill()
    # Python before 3.11.5 waits forever until they have read what is being sent to them.
    pool._call_queue._reader.close()  # type: ignore[attr-defined] # noqa: SLF001 - as above
    pool.shutdown(wait=True, cancel_futures=True)


def _start_worker() -> None:
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


def prepare_worker(payload: bytes) -> None:
    """Import what the function needs; an error comes back with the first chunk."""
    with suppress(AttributeError, ImportError, pickle.UnpicklingError):
        load_function(payload)
    gc.freeze()  # no search for cycles goes through what was imported


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
