"""Laws that are checked in a process of their own, which Polars may end.

What reads Parquet and Arrow in Polars asks for as much memory as a damaged file names, and ends its
process when there is none. No code of ours can catch that. Every other end of the process breaks
the law.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

#: How an end begins that is not ours.
FOREIGN_ENDS = ("memory allocation of ", "capacity overflow")
#: How long an input may take, on a machine that does much else.
SECONDS = 60.0


class Worker:
    """A process that checks laws on what it is sent."""

    def __init__(self) -> None:
        self._output = tempfile.NamedTemporaryFile()  # noqa: SIM115 - closed with the process
        self._connection, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=serve, args=(theirs, self._output.name), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, name: str, raw: bytes) -> str:
        """Return what the process says of an input under a law: nothing when the law holds."""
        self._connection.send((name, raw))
        if not self._connection.poll(SECONDS):
            self._process.kill()
            raise AssertionError(f"no outcome within {SECONDS:g} s")
        return str(self._connection.recv())

    def end(self) -> tuple[int | None, str]:
        """Return how the process ended, and the last of what it wrote."""
        self._connection.close()
        self._process.join()
        with self._output:
            output = self._output.read().decode(errors="replace")
        return self._process.exitcode, output[-10_000:]


_WORKERS: list[Worker] = []


def check_apart(name: str, raw: bytes) -> None:
    """Check a law on an input in another process, which is kept for the next, of any law."""
    if not _WORKERS:
        _WORKERS.append(Worker())
    try:
        problem = _WORKERS[0].ask(name, raw)
    except (EOFError, ConnectionError):
        code, output = _WORKERS.pop().end()
        is_foreign = code == -signal.SIGABRT and any(words in output for words in FOREIGN_ENDS)
        assert is_foreign, f"the process ended with {code}: {output}"
    except AssertionError:
        _WORKERS.pop().end()
        raise
    else:
        assert not problem, problem


def close_workers() -> None:
    """End the process that waits for an input."""
    while _WORKERS:
        _WORKERS.pop().end()


def serve(connection: Connection, output: str) -> None:
    """Check what comes, a law and an input, until nobody sends any more.

    Answer with nothing, or with what was wrong; what Polars prints goes to a file.
    """
    os.environ["RUST_BACKTRACE"] = "0"
    with Path(output).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    from .targets import LAWS

    while True:
        try:
            name, raw = connection.recv()
        except EOFError:
            return
        problem = ""
        try:
            LAWS[name].check(raw)
        except Exception:  # noqa: BLE001 - whatever it is, it broke the law
            problem = traceback.format_exc()
        connection.send(problem)
