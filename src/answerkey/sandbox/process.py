"""The worker process that calls a user's function, or renders untrusted templates."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal, Self

from answerkey.sandbox import worker
from answerkey.sandbox.snippet import FORMS, Snippet

SnippetErrorKind = Literal["load", "raised", "timeout", "memory", "crashed", "bad_value"]
#: The time to start the interpreter, which is slow on a busy machine; it does not count as the
#: snippet's.
START_SECONDS = 60.0
FRAME_BYTES = 64 * 1024**2


@dataclass(eq=False)
class SnippetError(Exception):
    """A call that failed; `traceback` shows the user's own lines."""

    kind: SnippetErrorKind
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.message}\n{self.traceback}".rstrip("\n")


@dataclass(eq=False)
class SnippetProcess:
    """A snippet that is ready to be called; a context manager.

    `seconds` limits the wall-clock time of one call (and of loading the snippet), `memory_bytes`
    the address space of its process. Entering the context loads the snippet: SnippetError of kind
    `load` if that fails.
    """

    snippet: Snippet
    seconds: float = 10.0
    memory_bytes: int = 4 * 1024**3
    _worker: WorkerProcess | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process and its children; a later call starts a new one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def call(self, arguments: Sequence[object]) -> object:
        """Return the function's value for these arguments, or raise SnippetError."""
        outcome = next(self.call_all([arguments]))
        if isinstance(outcome, SnippetError):
            raise outcome
        return outcome

    def call_all(self, calls: Iterable[Sequence[object]]) -> Iterator[object]:
        """Yield the value or the error of each call, in order.

        Only an error while loading is raised.
        """
        pending = iter(calls)
        while batch := list(islice(pending, 100)):
            while batch:
                outcomes = self._call_batch(batch)
                batch = batch[len(outcomes) :]
                yield from outcomes

    def _call_batch(self, calls: Sequence[Sequence[object]]) -> list[object]:
        """Return the outcomes of calls, up to the first that ends the process."""
        process = self._start()
        argument_lists = list(map(list, calls))
        payload = json.dumps(argument_lists, default=str).encode()
        # Before the first call the worker reads all arguments, which takes time too.
        seconds = self.seconds + process.send(payload)
        outcomes: list[object] = []
        try:
            for _ in calls:
                outcomes.append(self._receive(process, seconds))
                seconds = self.seconds
        except SnippetError as problem:
            self.close()
            outcomes.append(problem)
        return outcomes

    def _start(self) -> WorkerProcess:
        if self._worker is not None:
            return self._worker
        program = Path(__file__).with_name("worker.py")
        self._worker = WorkerProcess(str(program))
        function = self.snippet.function
        setting = {
            "source": self.snippet.source,
            "function": function,
            "label": self.snippet.label,
            "most": len(FORMS[function]),
            "memory_bytes": self.memory_bytes,
            "seconds": self.seconds,
        }
        try:
            self._worker.receive(seconds=START_SECONDS)
            self._worker.send(json.dumps(setting).encode())
            outcome = self._receive(self._worker, self.seconds)
        except SnippetError as problem:
            self.close()
            message = f"{problem.message} while it was loaded"
            raise SnippetError("load", message) from None
        if isinstance(outcome, SnippetError):
            self.close()
            raise outcome
        return self._worker

    def _receive(self, process: WorkerProcess, seconds: float) -> object:
        """Return the value or the error of a call; raise an error that ends the process."""
        try:
            message = json.loads(process.receive(seconds=seconds))
        except (ValueError, RecursionError):
            message = None
        except SnippetError as problem:
            problem.message = self._name_limit(problem.kind, problem.message)
            raise
        match message:
            case {"kind": kind, "message": text, "traceback": traceback}:
                text = self._name_limit(kind, text)
                return SnippetError(kind, text, traceback=traceback)
            case {"value": value}:
                return value
        raise SnippetError("crashed", "the snippet corrupted its connection")

    def _name_limit(self, kind: SnippetErrorKind, message: str) -> str:
        """Return the message of an error, with the value of the limit it exceeded."""
        if kind == "timeout":
            return f"the snippet took longer than its limit of {self.seconds:g} s"
        if kind == "memory":
            return f"{message}; its limit is {self.memory_bytes / 1024**2:g} MiB"
        return message


class WorkerProcess:
    """A process for code that we did not write.

    After `receive` has raised SnippetError, it must be closed. It has an almost empty environment,
    its own working folder, and its own process group, so that closing it also ends the children of
    the snippet. `program` is the interpreter's command line; the numbers of the socket and the
    folder are appended to it.
    """

    def __init__(self, *program: str) -> None:
        folder = tempfile.mkdtemp(prefix="answerkey-snippet-")
        self._socket, socket_of_worker = socket.socketpair()
        descriptor = socket_of_worker.fileno()
        # Ignore the caller's Python settings, and leave no compiled files behind.
        interpreter = [sys.executable, "-I", "-B", "-X", "utf8"]
        command = [*interpreter, *program, str(descriptor), folder]
        with socket_of_worker:
            self._process = subprocess.Popen(  # noqa: S603 - our own worker file and our own interpreter
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[descriptor],
                cwd=folder,
                env=_build_environment(folder),
                start_new_session=True,
            )
        self.close = weakref.finalize(self, _end_process, self._process, self._socket, folder)

    def send(self, payload: bytes) -> float:
        """Send a message; return how many seconds the worker may take to read it.

        `receive` notices a worker that has died or does not read.
        """
        self._socket.settimeout(START_SECONDS)
        header = struct.pack(">Q", len(payload))
        with contextlib.suppress(OSError):
            self._socket.sendall(header + payload)
        return len(payload) / 10_000_000

    def receive(self, *, seconds: float) -> bytes:
        """Return the worker's next message."""
        deadline = time.monotonic() + seconds
        header = self._read(8, deadline)
        (length,) = struct.unpack(">Q", header)
        if length > FRAME_BYTES:
            message = f"the snippet returned more than {FRAME_BYTES >> 20} MiB"
            raise SnippetError("bad_value", message)
        return self._read(length, deadline)

    def _read(self, length: int, deadline: float) -> bytes:
        message = bytearray()
        while len(message) < length:
            if time.monotonic() > deadline:
                raise SnippetError("timeout", "the snippet took too long")
            message += self._read_part(length - len(message))
        return bytes(message)

    def _read_part(self, length: int) -> bytes:
        """Return the bytes received so far, at most `length`."""
        self._socket.settimeout(0.1)
        part = b""
        try:
            part = self._socket.recv(min(length, 1 << 20))
        except TimeoutError:
            # A child of the snippet may keep the connection open.
            if self._process.poll() is None:
                return part
        except OSError:
            pass
        if not part:
            raise self._describe_death()
        return part

    def _describe_death(self) -> SnippetError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
        code = self._process.returncode
        if code == -signal.SIGPROF:
            return SnippetError("timeout", "the snippet took too much CPU time")
        if code == worker.MEMORY_EXIT_CODE:
            return SnippetError("memory", "the snippet's arguments need too much memory")
        end = "it closed its connection" if code is None else f"exit code {code}"
        return SnippetError("crashed", f"the snippet's process ended: {end}")


def _build_environment(folder: str) -> dict[str, str]:
    environment = {
        "HOME": folder,
        "TMPDIR": folder,
        # On large machines, a thread for each core would use up the address space.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "POLARS_MAX_THREADS": "1",
    }
    # Some Python builds do not start without it; it holds no secret.
    if "LD_LIBRARY_PATH" in os.environ:
        environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return environment


def _end_process(
    process: subprocess.Popen[bytes],
    connection: socket.socket,
    folder: str,
) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    connection.close()
    shutil.rmtree(folder, ignore_errors=True)
