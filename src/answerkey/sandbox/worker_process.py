"""One operating-system process for code that is not ours: how it is started, talked to, watched and ended."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path

from answerkey.sandbox.snippet import SnippetTrouble

RUN_SNIPPET = (str(Path(__file__).with_name("worker.py")),)
#: Nothing of the caller's Python settings, no compiled files left behind.
ISOLATED = ("-I", "-B", "-X", "utf8")
#: A starting interpreter may be slow on a busy machine; this is not the snippet's own time.
START_SECONDS = 60.0
POLL_SECONDS = 0.1
OUTPUT_CHARACTERS = 4000
FRAME_BYTES = 64 * 1024 * 1024
#: Some Python builds do not start without it; it holds no secret.
KEPT_VARIABLES = ("LD_LIBRARY_PATH",)
#: Libraries that start a thread for each core would fill the address space on large machines.
SET_VARIABLES = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
#: What `worker.py` leaves with when the arguments alone need too much memory.
MEMORY_EXIT_CODE = 97
#: Time that the worker is given to read a message, beside the snippet's own.
BYTES_PER_SECOND = 10_000_000


class WorkerProcess:
    """A running worker; `receive` raises SnippetTrouble, after which the process must be closed.

    It has an almost empty environment, a working folder of its own and a process group of its own, so that
    closing it also ends what the snippet has started. `program` is what the interpreter runs; it is told the
    number of its socket and its folder.
    """

    def __init__(self, *program: str) -> None:
        folder = tempfile.mkdtemp(prefix="answerkey-snippet-")
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own worker file and our own interpreter
                [sys.executable, *ISOLATED, *(program or RUN_SNIPPET), str(theirs.fileno()), folder],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                cwd=folder,
                env=_environment(folder),
                start_new_session=True,
            )
        self._socket = ours
        self._buffer = bytearray()
        self._output = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(ours, selectors.EVENT_READ)
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)
            self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self.close = weakref.finalize(self, _end_process, self._process, ours, self._selector, folder)

    @property
    def output(self) -> str:
        """The end of what the snippet has printed so far."""
        return self._output.decode(errors="replace")[-OUTPUT_CHARACTERS:]

    def send(self, message: object) -> float:
        """Hand a message over; return how many seconds reading it may take.

        A worker that is gone, or does not listen, is noticed by `receive`.
        """
        return self.send_bytes(json.dumps(message, default=str).encode())

    def send_bytes(self, payload: bytes) -> float:
        """Hand a message over as it is; return how many seconds reading it may take."""
        self._socket.settimeout(START_SECONDS)
        with contextlib.suppress(OSError):
            self._socket.sendall(struct.pack(">Q", len(payload)) + payload)
        return len(payload) / BYTES_PER_SECOND

    def receive(self, *, seconds: float) -> dict[str, object]:
        """Return the worker's next message."""
        try:
            message = json.loads(self.receive_bytes(seconds=seconds))
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict) or message.keys().isdisjoint({"state", "value", "kind"}):
            raise SnippetTrouble("died", "the snippet broke its connection", output=self.output)
        return message

    def receive_bytes(self, *, seconds: float) -> bytes:
        """Return the worker's next message as it was sent."""
        deadline = time.monotonic() + seconds
        (length,) = struct.unpack(">Q", self._take(8, deadline))
        if length > FRAME_BYTES:
            raise SnippetTrouble("bad_value", f"the snippet returned more than {FRAME_BYTES >> 20} MiB")
        return self._take(length, deadline)

    def _take(self, length: int, deadline: float) -> bytes:
        while len(self._buffer) < length:
            self._listen(deadline)
        taken = bytes(self._buffer[:length])
        del self._buffer[:length]
        return taken

    def _listen(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise SnippetTrouble("timeout", "the snippet took too long", output=self.output)
        ready = [key.fileobj for key, _ in self._selector.select(min(left, POLL_SECONDS))]
        for stream in ready:
            self._read(stream)
        if not ready and self._process.poll() is not None:
            raise self._describe_death()

    def _read(self, stream: object) -> None:
        if stream is not self._socket:
            self._read_output()
            return
        try:
            part = self._socket.recv(1 << 20)
        except OSError:
            part = b""
        if not part:
            raise self._describe_death()
        self._buffer += part

    def _read_output(self) -> None:
        stdout = self._process.stdout
        if stdout is None:
            return
        part = os.read(stdout.fileno(), 1 << 16)
        if not part and stdout.fileno() in self._selector.get_map():
            self._selector.unregister(stdout)
        self._output = (self._output + part)[-4 * OUTPUT_CHARACTERS :]

    def _describe_death(self) -> SnippetTrouble:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
        with contextlib.suppress(OSError):
            self._read_output()
        code = self._process.returncode
        if code in {-signal.SIGXCPU, -signal.SIGPROF}:
            return SnippetTrouble("timeout", "the snippet took too much CPU time", output=self.output)
        if code == MEMORY_EXIT_CODE:
            return SnippetTrouble("memory", "the snippet's arguments need too much memory")
        return SnippetTrouble("died", f"the snippet's process ended: {_name_end(code)}", output=self.output)


def _name_end(code: int | None) -> str:
    if code is None:
        return "it closed its connection"
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"


def _environment(folder: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return {**kept, **SET_VARIABLES, "HOME": folder, "TMPDIR": folder}


def _end_process(
    process: subprocess.Popen[bytes], connection: socket.socket, selector: selectors.BaseSelector, folder: str
) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    selector.close()
    connection.close()
    if process.stdout is not None:
        process.stdout.close()
    shutil.rmtree(folder, ignore_errors=True)
