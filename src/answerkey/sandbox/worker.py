"""The other side of `SnippetProcess`: runs one user function. Started by path; imports no answerkey.

Frames in both directions are a length (8 bytes, big endian) and JSON. The parent sends the setting once and
then batches of argument lists; the worker sends "up", "ready" (or why not), and a frame for each call.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import inspect
import json
import linecache
import os
import select
import shutil
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn, cast

if TYPE_CHECKING:
    import asyncio

TRACEBACK_CHARACTERS = 8000
CPU_GRACE_SECONDS = 2
#: Reading a large batch is our work, not the snippet's.
READ_SECONDS = 600.0
#: How the parent learns that the arguments alone were too much.
MEMORY_EXIT_CODE = 97
MODULE_NAME = "snippet"
SHOWN_KEYS = 20
#: The watching thread needs almost none, and the address space is limited.
STACK_BYTES = 256 * 1024

#: What Linux calls these things; a machine's own name for its calls, and its number of the call `socket`.
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
SECCOMP_ALLOW, SECCOMP_ERRNO = 0x7FFF0000, 0x00050000
NETWORK_CALLS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
#: Rings of requests can open sockets as well; from the other number on, calls are those of another kind.
URING_SETUP, FOREIGN_CALLS = 425, 0x40000000

Function = Callable[..., object]
Outcome = dict[str, object]


class View(dict[str, object]):
    """A mapping whose keys can be read with dots too: `sample.meta.topic` is `sample["meta"]["topic"]`.

    What every dict has (`items`, `get`, …) stays what it is; a key of that name needs brackets.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> object:
        if name in self and not name.startswith("__"):
            return self[name]
        known = ", ".join(map(repr, list(self)[:SHOWN_KEYS]))
        raise AttributeError(f"there is no key {name!r}; keys: {known or 'none'}")


class ScoreView(View):
    """One score as `compute_metrics` sees it: `score.values["x"]` and `score["values"]["x"]`."""

    __slots__ = ()

    # A score is known by its values; what a dict calls `values` is not missed here.
    values = property(lambda self: self["values"])

    def __repr__(self) -> str:
        return f"Score({super().__repr__()})"


@functools.cache
def load_trace() -> ModuleType:
    """Return `answerkey/trace.py`, without the package around it, which takes far longer to load."""
    path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "trace.py")  # noqa: PTH118, PTH120 - nothing more is loaded here than is needed
    module = ModuleType("trace")
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - same
        exec(compile(file.read(), path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - our own file
    return module


class Channel:
    """The private connection to the parent; nothing that the snippet prints can get into it.

    When the parent is gone the process ends, and takes `folder` with it: nobody else is left to remove it.
    """

    def __init__(self, descriptor: int, folder: str) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.settimeout(None)
        self._folder = folder
        threading.stack_size(STACK_BYTES)
        threading.Thread(target=self._watch, args=(descriptor,), daemon=True).start()
        threading.stack_size(0)

    def receive(self) -> bytearray:
        """Return the next message; leave the process when the parent is gone."""
        (length,) = struct.unpack(">Q", self._read(8))
        return self._read(length)

    def send(self, payload: bytes) -> None:
        """Send one message."""
        try:
            self._socket.sendall(struct.pack(">Q", len(payload)) + payload)
        except (BrokenPipeError, ConnectionResetError):
            self._leave()

    def _watch(self, descriptor: int) -> None:
        """Wait beside the snippet, which may take its time, for the end of the parent."""
        hangup = select.poll()
        hangup.register(descriptor, 0)
        if any(event & select.POLLHUP for _, event in hangup.poll()):
            self._leave()

    def _leave(self) -> NoReturn:
        """Remove the working folder and end this process with all that the snippet has started."""
        shutil.rmtree(self._folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # a process that can open nothing can still remove what is empty
            os.rmdir(self._folder)  # noqa: PTH106 - nothing more is loaded here than is needed
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(0)

    def _read(self, length: int) -> bytearray:
        parts = bytearray()
        while len(parts) < length:
            try:
                part = self._socket.recv(min(length - len(parts), 1 << 20))
            except ConnectionResetError:  # the parent ended before it had read all that we said
                part = b""
            if not part:
                self._leave()
            parts += part
        return parts


def main() -> None:
    """Serve calls until the parent hangs up; a child that the snippet forked never answers in our place."""
    import asyncio  # before there are limits; the parent, which imports this module, needs none

    folder = sys.argv.pop()
    channel = Channel(int(sys.argv.pop()), folder)
    channel.send(b'{"state": "up"}')
    setting = json.loads(channel.receive())
    name, file_name = setting["function"], f"<{setting['label']}>"
    if name == "compute_scores":
        load_trace()
    limit_process(AS=setting["memory_bytes"], FSIZE=setting["file_bytes"], CORE=0)
    if not setting["has_network"]:
        refuse_network()
    limit_cpu(setting["seconds"])
    function = load_function(setting["source"], name, file_name, setting["most"])
    if isinstance(function, dict):
        channel.send(json.dumps(function).encode())
        return
    channel.send(b'{"state": "ready"}')
    own, runner = os.getpid(), asyncio.Runner()
    while True:
        limit_cpu(READ_SECONDS)
        try:
            calls: list[list[object]] = json.loads(channel.receive(), object_hook=View)
        except MemoryError:
            os._exit(MEMORY_EXIT_CODE)
        for arguments in calls:
            limit_cpu(setting["seconds"])
            payload = call_function(function, show_arguments(name, arguments), runner, file_name)
            if os.getpid() != own:
                os._exit(0)
            channel.send(payload)


def limit_process(**limits: int) -> None:
    """Lower what this process may take; a limit that the system refuses to set is left as it is."""
    import resource

    for name, value in limits.items():
        with contextlib.suppress(OSError, ValueError, AttributeError):
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


def refuse_network() -> None:
    """Have the system refuse every new socket to this process and its children; Linux can, on most machines.

    `socketpair`, which event loops need, stays.
    """
    machine = NETWORK_CALLS.get(os.uname().machine) if sys.platform == "linux" else None
    if machine is None:
        return
    refuse = SECCOMP_ERRNO | errno.EACCES
    # Load the architecture, then the number of the call; a jump says how many lines it leaves out.
    lines = [(0x20, 0, 0, 4), (0x15, 0, 5, machine[0]), (0x20, 0, 0, 0), (0x35, 3, 0, FOREIGN_CALLS)]
    lines += [(0x15, 2, 0, machine[1]), (0x15, 1, 0, URING_SETUP), (0x06, 0, 0, SECCOMP_ALLOW)]
    lines += [(0x06, 0, 0, refuse)]
    program = b"".join(struct.pack("=HBBI", *line) for line in lines)
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        library = ctypes.CDLL(None, use_errno=True)
        held = ctypes.create_string_buffer(program, len(program))
        whole = struct.pack("@HP", len(lines), ctypes.addressof(held))
        if library.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
            library.prctl(
                PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.create_string_buffer(whole, len(whole)), 0, 0
            )


def limit_cpu(seconds: float) -> None:
    """Let the system end this process when a call takes far too long, even if the parent is gone."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(time.process_time() + seconds) + CPU_GRACE_SECONDS
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def load_function(source: str, name: str, file_name: str, most: int) -> Function | Outcome:
    """Run the snippet's top level and return its function, or why there is none.

    The function can be called with `most` arguments, of which it may want fewer.
    """
    lines = [f"{line}\n" for line in source.splitlines()]
    linecache.cache[file_name] = (len(source), None, lines, file_name)
    # Dataclasses and pickle look their module up by name.
    module = sys.modules[MODULE_NAME] = ModuleType(MODULE_NAME)
    try:
        exec(compile(source, file_name, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - this is what the worker is for
    except BaseException as error:  # noqa: BLE001 - whatever user code raises is told, sys.exit included
        message = f"{type(error).__name__} while the snippet was loaded"
        return fail("load", message, format_own(error, file_name))
    function = module.__dict__.get(name)
    if not callable(function):
        return fail("load", f"the snippet defines no function `{name}`")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return cast("Function", function)
    for count in range(most, 0, -1):
        with contextlib.suppress(TypeError):
            signature.bind(*[None] * count)
            return lambda *values: function(*values[:count])
    return fail("load", f"`{name}{signature}` cannot be called with the arguments it is given")


def show_arguments(name: str, arguments: list[object]) -> list[object]:
    """Return the arguments as a function sees them: scores, and the `solver_output` of an exchange."""
    if name == "compute_metrics":
        return [
            [ScoreView(one) for one in group] if isinstance(group, list) else group for group in arguments
        ]
    match arguments:
        case [sample, {"output": output, "messages": messages, **others}] if (
            name == "compute_scores" and not others
        ):
            shown = load_trace().build_solver_output(output, messages, View)
            return [sample, View(shown, trace=load_trace().Trace(shown["trace"]))]
    return arguments


def call_function(
    function: Function, arguments: list[object], runner: asyncio.Runner, file_name: str
) -> bytes:
    """Return the frame that tells what one call gave, or why it gives nothing that can be passed on."""

    async def finish(value: Awaitable[object]) -> object:
        return await value

    try:
        value = function(*arguments)
        if inspect.isawaitable(value):
            value = runner.run(finish(value))
    except BaseException as error:  # noqa: BLE001 - whatever user code raises is told, sys.exit included
        is_memory = isinstance(error, MemoryError)
        kind = "memory" if is_memory else "raised"
        message = "the snippet ran out of memory" if is_memory else describe(error)
        return json.dumps(fail(kind, message, format_own(error, file_name))).encode()
    kind = "bad_value"
    try:
        text = json.dumps({"value": value}, allow_nan=False, ensure_ascii=False, default=unwrap_scalar)
        return text.encode()
    except UnicodeEncodeError:
        message = "the snippet returned text that is not valid Unicode"
    except RecursionError:
        message = "the snippet returned a value that is nested too deeply"
    except ValueError as error:
        reason = "a value that holds itself" if "ircular" in str(error) else "NaN or an infinity"
        message = f"the snippet returned {reason}"
    except MemoryError:
        kind, message = "memory", "the snippet's value needs too much memory"
    except Exception as error:  # noqa: BLE001 - a user's class may raise anything while it is read
        message = f"the snippet returned a value that is not plain JSON ({describe(error)})"
    return json.dumps(fail(kind, message)).encode()


def unwrap_scalar(value: object) -> object:
    """Return the Python value of a NumPy-like scalar."""
    if type(value).__module__.partition(".")[0] == "numpy" and getattr(value, "ndim", 1) == 0:
        scalar: object = value.item()  # type: ignore[attr-defined]  # a NumPy scalar has it
        return scalar
    raise TypeError(f"{type(value).__name__} is not JSON")


def fail(kind: str, message: str, own_traceback: str = "") -> Outcome:
    """Return the outcome of a call without a value."""
    return {"kind": kind, "message": message, "traceback": own_traceback}


def describe(error: BaseException) -> str:
    """Return an exception's type and text on one line, as Python shows it.

    One that comes from a socket that was refused, as libraries pass it on, says that there is no network.
    """
    told = traceback.format_exception_only(error)[-1].strip()[:500]
    for one in list_chain(error):
        if isinstance(one, socket.gaierror) or (isinstance(one, PermissionError) and one.filename is None):
            return f"{told} (snippets of scorers and metrics have no network)"
    return told


def list_chain(error: BaseException) -> list[BaseException]:
    """Return an exception and those that led to it, each once."""
    found = [error]
    for one in found:  # which grows meanwhile
        for other in (one.__cause__, one.__context__):
            if other is not None and all(other is not known for known in found):
                found.append(other)
    return found


def format_own(error: BaseException, file_name: str) -> str:
    """Return the traceback from the snippet's first own line on, so without any frame of this file."""
    for one in list_chain(error):
        frames = one.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != file_name:
            frames = frames.tb_next
        one.__traceback__ = frames
    try:
        text = "".join(traceback.format_exception(error)).rstrip()
    except Exception:  # noqa: BLE001 - a user's exception may fail while it is shown
        return type(error).__name__
    half = TRACEBACK_CHARACTERS // 2
    return text if len(text) <= TRACEBACK_CHARACTERS else f"{text[:half]}\n…\n{text[-half:]}"


if __name__ == "__main__":
    main()
