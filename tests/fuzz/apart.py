"""Laws that are checked in a process of their own, which Polars may end: `python -m
tests.fuzz.apart`.

What reads Parquet and Arrow in Polars asks for as much memory as a damaged file names, and ends its
process when there is none. No code of ours can catch that. Every other end of the process breaks
the law.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import cache
from typing import IO

from .law import HERE

#: How an end begins that is not ours.
FOREIGN_ENDS = (b"memory allocation of ", b"capacity overflow")
#: How long an input may take, on a machine that does much else.
SECONDS = 60.0
_LENGTH = struct.Struct("<I")


class Worker:
    """A process that checks laws on what it is sent."""

    def __init__(self) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.apart"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            cwd=HERE.parents[1],
            env={**os.environ, "RUST_BACKTRACE": "0"},
        )

    def ask(self, name: str, raw: bytes) -> bytes | None:
        """Return what the process says of an input under a law; None when it has ended."""
        sent, came = self._process.stdin, self._process.stdout
        assert sent is not None
        assert came is not None
        sent.write(b"".join(_LENGTH.pack(len(part)) + part for part in (name.encode(), raw)))
        sent.flush()
        if not select.select([came], [], [], SECONDS)[0]:
            self._process.kill()
            raise AssertionError(f"no outcome within {SECONDS:g} s")
        head = came.read(_LENGTH.size)
        return came.read(*_LENGTH.unpack(head)) if len(head) == _LENGTH.size else None

    def end(self) -> tuple[int, bytes]:
        """Return how the process ended, and the last of what it wrote."""
        code = self._process.wait()
        self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - 10_000))
        output = self._said.read()
        for stream in (self._said, self._process.stdin, self._process.stdout):
            if stream is not None:
                _close(stream)
        return code, output


def _close(stream: IO[bytes]) -> None:
    try:
        stream.close()
    except BrokenPipeError:
        return


_WORKERS: list[Worker] = []


def check_apart(name: str, raw: bytes) -> None:
    """Check a law on an input in another process, which is kept for the next, of any law."""
    if not _WORKERS:
        _WORKERS.append(Worker())
    try:
        result = _WORKERS[0].ask(name, raw)
    except BrokenPipeError:
        result = None
    except AssertionError:
        _WORKERS.pop().end()
        raise
    if result is None:
        code, output = _WORKERS.pop().end()
        is_foreign = code == -signal.SIGABRT and any(words in output for words in FOREIGN_ENDS)
        assert is_foreign, f"the process ended with {code}: {output.decode(errors='replace')}"
    assert not result, result.decode(errors="replace")


def close_workers() -> None:
    """End the process that waits for an input."""
    while _WORKERS:
        worker = _WORKERS.pop()
        stream = worker._process.stdin
        if stream is not None:
            _close(stream)
        worker.end()


@cache
def find_law(name: str) -> Callable[[bytes], None]:
    """Return what a law checks, in this process."""
    from .targets import LAWS

    return LAWS[name].check


def serve() -> None:
    """Check what comes on stdin, a law and an input, until it ends.

    Say nothing, or what was wrong.
    """
    sent, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while head := sent.read(_LENGTH.size):
        name = sent.read(*_LENGTH.unpack(head)).decode()
        raw = sent.read(*_LENGTH.unpack(sent.read(_LENGTH.size)))
        answer = b""
        try:
            find_law(name)(raw)
        except Exception:  # noqa: BLE001 - whatever it is, it broke the law
            answer = traceback.format_exc().encode()
        answers.write(_LENGTH.pack(len(answer)) + answer)
        answers.flush()


if __name__ == "__main__":
    serve()
