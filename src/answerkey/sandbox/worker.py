"""The worker's side of `SnippetProcess`: runs one user function. Started by path.

Imports no answerkey. Frames in both directions are a length (8 bytes, big endian) and JSON. The
parent sends the setting once and then batches of argument lists; the worker sends "up", "ready" (or
why not), and a frame for each call.
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
from collections.abc import Awaitable, Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, cast

if TYPE_CHECKING:
    import asyncio

#: The exit code when the arguments alone need too much memory.
MEMORY_EXIT_CODE = 97
TRACEBACK_CHARACTERS = 8000
#: A call that exceeds its CPU time by this much is ended, even if the parent is gone.
CPU_GRACE_SECONDS = 2
#: The time to read the arguments of a batch of calls.
READ_SECONDS = 600.0
#: By machine: the architecture's number in seccomp filters, and the number of the system call
#: `socket`.
NETWORK_CALLS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
#: The call that sets up io_uring, which can open sockets too, and the first number of x32, where
#: the same calls have other numbers.
URING_SETUP = 425
FOREIGN_CALLS = 0x40000000

Function = Callable[..., object]
#: The parent's settings for the snippet.
Setting = Mapping[str, Any]


class View(dict[str, object]):
    """A mapping whose keys can be read with dots too, as in `sample.meta.topic`.

    The attributes of every dict (`items`, `get`, …) take precedence; a key with such a name needs
    brackets.
    """

    def __getattr__(self, name: str) -> object:
        if name in self and not name.startswith("__"):
            return self[name]
        keys = list(map(repr, self))
        shown = ", ".join(keys[:20]) or "none"
        raise AttributeError(f"there is no key {name!r}; keys: {shown}")


class ScoreView(View):
    """One score as `compute_metrics` sees it: `score.values["x"]` and `score["values"]["x"]`."""

    # The values of a score take precedence over the dict's own method `values`.
    values = property(lambda self: self["values"])


@functools.cache
def load_trace() -> ModuleType:
    """Return `answerkey/trace.py` without the package around it, which takes far longer to load."""
    folder = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - pathlib is not loaded here
    path = f"{folder}/trace.py"
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - same
        code = compile(file.read(), path, "exec", dont_inherit=True)
    module = ModuleType("trace")
    exec(code, module.__dict__)  # noqa: S102 - our own file
    return module


class Channel:
    """The private connection to the parent, which nothing that the snippet prints can reach.

    When the parent is gone, this process removes `folder`, since nobody else will, and ends.
    """

    def __init__(self, descriptor: int, folder: str) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.settimeout(None)
        self._folder = folder
        # The watcher thread needs little stack, and the address space is limited.
        threading.stack_size(256 * 1024)
        watcher = threading.Thread(
            target=self._watch,
            args=(descriptor,),
            daemon=True,
        )
        watcher.start()
        threading.stack_size(0)

    def receive(self) -> bytearray:
        """Return the next message; end the process if the parent is gone."""
        header = self._read(8)
        (length,) = struct.unpack(">Q", header)
        return self._read(length)

    def send(self, payload: bytes) -> None:
        """Send one message."""
        header = struct.pack(">Q", len(payload))
        try:
            self._socket.sendall(header + payload)
        except (BrokenPipeError, ConnectionResetError):
            self._leave()

    def _watch(self, descriptor: int) -> None:
        """Wait for the end of the parent while the snippet runs."""
        hangup = select.poll()
        hangup.register(descriptor, 0)
        hangup.poll()
        self._leave()

    def _leave(self) -> NoReturn:
        """Remove the working folder and end this process and all children of the snippet."""
        shutil.rmtree(self._folder, ignore_errors=True)
        # Even a process that can open no files can remove an empty folder.
        with contextlib.suppress(OSError):
            os.rmdir(self._folder)  # noqa: PTH106 - pathlib is not loaded here
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(0)

    def _read(self, length: int) -> bytearray:
        message = bytearray()
        while len(message) < length:
            part = b""
            missing = length - len(message)
            with contextlib.suppress(ConnectionResetError):
                part = self._socket.recv(min(missing, 1 << 20))
            if not part:
                self._leave()
            message += part
        return message


def main(descriptor: int, folder: str) -> None:
    """Serve calls until the parent hangs up."""
    import asyncio  # before the limits are set; the parent, which imports this module, has none

    channel = Channel(descriptor, folder)
    channel.send(b'{"value": "up"}')
    setting = json.loads(channel.receive())
    name = setting["function"]
    if name == "compute_scores":
        load_trace()
    limit_process(
        AS=setting["memory_bytes"],
        FSIZE=16 * 1024**2,
        CORE=0,
    )
    # Functions that act as a model may need the network.
    if name not in {"infer", "run_inference"}:
        refuse_network()
    limit_cpu(setting["seconds"])
    function = load_function(setting)
    if isinstance(function, bytes):
        channel.send(function)
        return
    channel.send(b'{"value": "ready"}')
    serve_calls(channel, setting, function, asyncio.Runner())


def serve_calls(
    channel: Channel,
    setting: Setting,
    function: Function,
    runner: asyncio.Runner,
) -> NoReturn:
    """Answer each call; a child that the snippet has forked never answers instead of us."""
    process_id = os.getpid()
    while True:
        limit_cpu(READ_SECONDS)
        try:
            calls: list[list[object]] = json.loads(channel.receive(), object_hook=View)
        except MemoryError:
            os._exit(MEMORY_EXIT_CODE)
        for arguments in calls:
            limit_cpu(setting["seconds"])
            shown = show_arguments(setting["function"], arguments)
            payload = call_function(function, shown, runner, setting["label"])
            if os.getpid() != process_id:
                os._exit(0)
            channel.send(payload)


def limit_process(**limits: int) -> None:
    """Lower the limits of this process; a limit that the system refuses to change is kept."""
    import resource

    for name, value in limits.items():
        with contextlib.suppress(OSError, ValueError, AttributeError):
            limit = getattr(resource, f"RLIMIT_{name}")
            resource.setrlimit(limit, (value, value))


def limit_cpu(seconds: float) -> None:
    """Let the system end this process if a call uses far too much CPU time."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(time.process_time() + seconds) + CPU_GRACE_SECONDS
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def refuse_network() -> None:
    """Let the system refuse new sockets to this process and its children.

    This works on Linux, on most machines. `socketpair`, which event loops need, is still allowed.
    """
    machine = os.uname().machine
    if sys.platform != "linux" or machine not in NETWORK_CALLS:
        return
    architecture, socket_call = NETWORK_CALLS[machine]
    # A filter of system calls (seccomp): load the architecture, then the number of the call; a jump
    # gives the number of lines it skips. The last two lines allow and refuse.
    lines = [
        (0x20, 0, 0, 4),
        (0x15, 0, 5, architecture),
        (0x20, 0, 0, 0),
        (0x35, 3, 0, FOREIGN_CALLS),
        (0x15, 2, 0, socket_call),
        (0x15, 1, 0, URING_SETUP),
        (0x06, 0, 0, 0x7FFF0000),
        (0x06, 0, 0, 0x00050000 | errno.EACCES),
    ]
    code = b"".join(struct.pack("=HBBI", *line) for line in lines)
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        library = ctypes.CDLL(None, use_errno=True)
        instructions = ctypes.create_string_buffer(code, len(code))
        header = struct.pack("@HP", len(lines), ctypes.addressof(instructions))
        program = ctypes.create_string_buffer(header, len(header))
        # PR_SET_NO_NEW_PRIVS, then PR_SET_SECCOMP with SECCOMP_MODE_FILTER.
        if library.prctl(38, 1, 0, 0, 0) == 0:
            library.prctl(22, 2, program, 0, 0)


def load_function(setting: Setting) -> Function | bytes:
    """Run the snippet's top level and return its function, or the frame of its failure.

    The function may take fewer arguments than are offered.
    """
    source = setting["source"]
    name = setting["function"]
    file_name = f"<{setting['label']}>"
    lines = [f"{line}\n" for line in source.splitlines()]
    linecache.cache[file_name] = (len(source), None, lines, file_name)
    # Dataclasses and pickle look their module up by name.
    module = ModuleType("snippet")
    sys.modules["snippet"] = module
    try:
        code = compile(source, file_name, "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - this is what the worker is for
    except BaseException as error:  # noqa: BLE001 - report whatever user code raises, sys.exit included
        message = f"{type(error).__name__} while the snippet was loaded"
        return fail("load", message, format_own(error, file_name))
    function = module.__dict__.get(name)
    if not callable(function):
        return fail("load", f"the snippet defines no function `{name}`")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return cast("Function", function)
    for count in range(setting["most"], 0, -1):
        with contextlib.suppress(TypeError):
            signature.bind(*[None] * count)
            return lambda *values: function(*values[:count])
    return fail("load", f"`{name}{signature}` cannot be called with the arguments it is given")


def show_arguments(name: str, arguments: list[Any]) -> list[Any]:
    """Return the arguments in the form that the function sees.

    Metrics get scores; other functions get the `solver_output` of an exchange.
    """
    if name == "compute_metrics":
        return [list(map(ScoreView, scores)) for scores in arguments]
    match arguments:
        case [sample, {"output": output, "messages": messages}] if name == "compute_scores":
            trace = load_trace()
            shown = trace.build_solver_output(output, messages, View)
            messages = trace.Trace(shown["trace"])
            return [sample, View(shown, trace=messages)]
    return arguments


def call_function(
    function: Function,
    arguments: list[object],
    runner: asyncio.Runner,
    label: str,
) -> bytes:
    """Return the frame with the value of one call, or with its error."""

    async def finish(value: Awaitable[object]) -> object:
        return await value

    try:
        value = function(*arguments)
        if inspect.isawaitable(value):
            value = runner.run(finish(value))
    except BaseException as error:  # noqa: BLE001 - report whatever user code raises, sys.exit included
        kind = "raised"
        message = describe(error)
        if isinstance(error, MemoryError):
            kind = "memory"
            message = "the snippet ran out of memory"
        return fail(kind, message, format_own(error, f"<{label}>"))
    return encode_value(value)


def encode_value(value: object) -> bytes:
    """Return the frame with a value, or with the reason why it cannot be sent."""
    try:
        frame = {"value": value}
        text = json.dumps(
            frame,
            allow_nan=False,
            ensure_ascii=False,
            default=unwrap_scalar,
        )
        return text.encode()
    except Exception as error:  # noqa: BLE001 - a user's class may raise anything while it is encoded
        message = f"the snippet returned a value that is not plain JSON ({describe(error)})"
    return fail("bad_value", message)


def unwrap_scalar(value: object) -> object:
    """Return the Python value of a NumPy-like scalar."""
    item: Callable[[], object] | None = getattr(value, "item", None)
    if item is None:
        raise TypeError(f"{type(value).__name__} is not JSON")
    return item()


def fail(kind: str, message: str, own_traceback: str = "") -> bytes:
    """Return the frame of a failed call."""
    failure = {"kind": kind, "message": message, "traceback": own_traceback}
    return json.dumps(failure).encode()


def describe(error: BaseException) -> str:
    """Return an exception's type and text on one line, as Python shows it."""
    lines = traceback.format_exception_only(error)
    return lines[-1].strip()[:500]


def format_own(error: BaseException, file_name: str) -> str:
    """Return the traceback from the snippet's first own line on, without any frame of this file."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != file_name:
        frames = frames.tb_next
    try:
        lines = traceback.format_exception(error.with_traceback(frames))
    except Exception:  # noqa: BLE001 - a user's exception may fail while it is shown
        return type(error).__name__
    text = "".join(lines).rstrip()
    return text[-TRACEBACK_CHARACTERS:]


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
