"""The command as a process of its own, without importing it each time.

`Forked(["run", "project"], stdout=PIPE)` is a `subprocess.Popen` of `python -m answerkey run
project`. One process imports everything once and forks for each command, which then has folder,
environment, streams and signals as a new process has them. What Python reads when it starts, such
as the encoding of streams, is as it was for the first process: a test that is about the start of
the command starts it anew.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

#: The command `answerkey` of a shell that has the descriptor of `Forked.share`: it asks for a fork
#: as well.
COMMAND = f"""#!{sys.executable} -IS
import array, json, os, socket, sys
reports, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
request = {{"words": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
files = array.array("i", [0, 1, 2, theirs.fileno()])
server = socket.socket(fileno=int(os.environ["FORKED"]))
body = json.dumps(request | {{"first": "", "is_leader": False}}).encode()
server.sendmsg([body], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
theirs.close()
reports.recv(20)
sys.exit(os.waitstatus_to_exitcode(int(reports.recv(20))))
"""
#: Modules that import much more, or that act when they are imported.
LEFT_OUT = tuple(f"answerkey.{name}" for name in ("testing", "__main__", "adapters", "engines.ray"))
MOST = 1_000_000  # bytes of a request


class Forked(subprocess.Popen[Any]):
    """A forked command; its words are the arguments of `answerkey`."""

    _server: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    def __init__(self, words: Sequence[str], *, first: str = "", **settings: Any) -> None:  # noqa: ANN401  # of Popen
        """Start the command; `first` is Python that its process carries out before."""
        self._first = first
        super().__init__(list(words), **settings)

    def _execute_child(self, words: list[str], *settings: Any) -> None:  # noqa: ANN401  # those of Popen
        # In Popen's order: …, cwd, env, …, the ends of three pipes, …, start_new_session,
        # process_group.
        folder, environment, pipes = settings[4], settings[5], settings[9:15]
        request = {
            "words": words,
            "first": self._first,
            "folder": os.fspath(folder or Path.cwd()),
            "environment": dict(os.environ if environment is None else environment),
            "is_leader": bool(settings[20]),
        }
        ends = enumerate((pipes[0], pipes[3], pipes[5]))
        streams = [number if pipe == -1 else pipe for number, pipe in ends]
        self._reports, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            body = json.dumps(request).encode()
            assert len(body) < MOST
            files = array.array("i", [*streams, theirs.fileno()])
            self._open_server().sendmsg([body], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
        self.pid = int(self._reports.recv(20))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]  # of the library alone

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if flags & os.WNOHANG and not select.select([self._reports], [], [], 0)[0]:
            return 0, 0
        status = self._reports.recv(20)
        self._reports.close()
        return self.pid, int(status)

    def _internal_poll(self, **_: object) -> int | None:
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self._handle_exitstatus(status)  # type: ignore[attr-defined]  # of the library alone
        return self.returncode

    @classmethod
    def share(cls) -> dict[str, Any]:
        """Return the settings of a process whose commands are `COMMAND`, which is on its path."""
        descriptor = cls._open_server().fileno()
        return {"pass_fds": [descriptor], "env": {**os.environ, "FORKED": str(descriptor)}}

    @classmethod
    def _open_server(cls) -> socket.socket:
        if cls._server is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            code = f"import runpy; runpy.run_path({__file__!r}, run_name='server')"
            descriptor = theirs.fileno()
            command = [sys.executable, "-c", code, str(descriptor)]
            process = subprocess.Popen(command, pass_fds=[descriptor])
            theirs.close()
            cls._server = process, ours
            atexit.register(cls._close_server)
        return cls._server[1]

    @classmethod
    def _close_server(cls) -> None:
        assert cls._server is not None
        process, ours = cls._server
        ours.close()
        process.wait()


def serve(requests: socket.socket) -> tuple[list[int], dict[str, Any]] | None:
    """Fork for each request, and report the child's process id and how it ended.

    Return the request in each child; return None in this process when all clients are gone.
    """
    running: dict[int, int] = {}
    woken, wakes = socket.socketpair()
    with requests, woken, wakes:
        wakes.setblocking(False)  # noqa: FBT003  # of the library
        signal.set_wakeup_fd(wakes.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            ready, _, _ = select.select([requests, woken], [], [])
            if woken in ready:
                woken.recv(1000)
                while running and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                    report(running.pop(ended[0]), ended[1])
            if requests in ready:
                body, files, _, _ = socket.recv_fds(requests, MOST, 4)
                if not body:
                    return None
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    for descriptor in (files[3], *running.values()):
                        os.close(descriptor)
                    return files[:3], json.loads(body)
                for file in files[:3]:
                    os.close(file)
                os.write(files[3], str(pid).encode())
                running[pid] = files[3]


def report(receiver: int, status: int) -> None:
    """Report how a process ended."""
    with suppress(BrokenPipeError):  # who asked is gone
        os.write(receiver, str(status).encode())
    os.close(receiver)


def become(
    files: list[int],
    *,
    words: list[str],
    first: str,
    folder: str,
    environment: dict[str, str],
    is_leader: bool,
) -> None:
    """Become the process of a command: set streams, folder, environment and signals, and run."""
    for stop in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    if is_leader:
        os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    warnings.resetwarnings()
    # As in every process of Python. A signal may arrive between opening a socket and keeping it.
    warnings.simplefilter("ignore", ResourceWarning)
    exec(first, {})  # noqa: S102  # of a test
    from answerkey.cli import main

    sys.argv = ["answerkey", *words]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # until the end
    sys.stdout, sys.stderr = (
        open(number, "w", encoding="utf-8", closefd=False, buffering=1, errors=errors)  # noqa: SIM115  # same
        for number, errors in ((1, "strict"), (2, "backslashreplace"))
    )
    sys.exit(main())


def load() -> None:
    """Import what commands need."""
    import answerkey

    warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside the threads of a library
    gc.disable()
    for module in pkgutil.walk_packages(answerkey.__path__, "answerkey."):
        if not module.name.startswith(LEFT_OUT):
            importlib.import_module(module.name)
    gc.freeze()  # a search for garbage would copy all of it into each fork
    gc.enable()


if __name__ == "server":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for whom it is meant has it from the terminal
    load()
    if (request := serve(socket.socket(fileno=int(sys.argv[1])))) is not None:
        become(request[0], **request[1])
