"""Shards on worker processes: for work that holds Python's lock.

A worker is a new interpreter, so that no lock or thread is inherited, and does not run the caller's script
again. It is sent the function once and then shards, one at a time; both travel as pickles, between our own
processes alone.
"""

from __future__ import annotations

import os
import pickle
import queue
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Any, TypeVar

from answerkey.engines.threads import map_threads
from answerkey.errors import EngineError

Shard = TypeVar("Shard")
Part = TypeVar("Part")
#: What a worker runs: our own path first, so that it finds the same modules, then its loop.
_BOOT = "import sys; sys.path[:] = sys.argv[1:]; from answerkey.engines.worker import serve; serve()"
#: There is a worker for each core; the column library needs no threads beside them.
_SETTINGS = {"POLARS_MAX_THREADS": "1"}
_LENGTH = struct.Struct(">Q")


class UnknownFunctionError(Exception):
    """A function that another process cannot load."""


class Worker:
    """One process that applies a function, given as a pickle, to one shard after the other."""

    def __init__(self, function: bytes) -> None:
        command = [sys.executable, "-I", "-X", "utf8", "-c", _BOOT, *filter(None, sys.path)]
        self._process = subprocess.Popen(  # noqa: S603 - our own module in our own interpreter
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**_SETTINGS, **os.environ},
            start_new_session=True,
        )
        self._send(function)

    def call(self, shard: object) -> Any:  # noqa: ANN401 - whatever the function returns
        """Return the function's value for a shard, or raise its error.

        Raise `UnknownFunctionError` when the worker does not know the function, as when it is of a script.
        """
        self._send(pickle.dumps(shard))
        kind, value = self._receive()
        if kind == "unknown":
            raise UnknownFunctionError(value)
        if kind == "error":
            raise value
        return value

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what it did not read any more cannot be flushed
                if stream is not None:
                    stream.close()

    def _send(self, message: bytes) -> None:
        stdin = self._process.stdin
        try:
            if stdin is not None:
                stdin.write(_LENGTH.pack(len(message)) + message)
                stdin.flush()
        except (OSError, ValueError):  # it is gone, which reading tells better
            return

    def _receive(self) -> tuple[str, Any]:
        stdout = self._process.stdout
        head = b"" if stdout is None else stdout.read(_LENGTH.size)
        if stdout is None or len(head) < _LENGTH.size:
            raise self._describe_end()
        (length,) = _LENGTH.unpack(head)
        body = stdout.read(length)
        if len(body) < length:
            raise self._describe_end()
        message: tuple[str, Any] = pickle.loads(body)  # noqa: S301 - from our own process
        return message

    def _describe_end(self) -> EngineError:
        code = self._process.wait()
        why = f"signal {-code}" if code < 0 else f"exit code {code}"
        hint = "was the machine out of memory? run again with fewer processes beside it"
        return EngineError("E602", f"a worker process ended: {why}", hint=hint)


def map_workers(function: Callable[[Shard], Part], shards: Iterable[Shard], count: int) -> Iterator[Part]:
    """Yield the function's value for each shard in order, with `count` processes at work.

    One shard, and a function that cannot be sent anywhere, is worked on here.
    """
    waiting = iter(shards)
    first = list(islice(waiting, count))
    payload = pickle_function(function) if len(first) > 1 else None
    if payload is None:
        yield from map(function, chain(first, waiting))
        return
    workers = [Worker(payload) for _ in first]
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    for one in workers:
        idle.put(one)

    def call(shard: Shard) -> Part:
        worker = idle.get()
        try:
            found: Part = worker.call(shard)
        except UnknownFunctionError:
            return function(shard)
        finally:
            idle.put(worker)
        return found

    def stop() -> None:
        for one in workers:
            one.end()

    yield from map_threads(call, chain(first, waiting), len(workers), stop)


def pickle_function(function: Callable[[Any], object]) -> bytes | None:
    """Return the function as it is sent to other processes; None when it cannot be."""
    try:
        return pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
