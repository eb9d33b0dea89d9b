"""The loop of a worker process; see `workers`."""

from __future__ import annotations

import gc
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

from answerkey.errors import InternalError

_LENGTH = struct.Struct(">Q")
#: A function, or why it cannot be loaded.
Loaded = Callable[[Any], object] | str


def serve() -> None:
    """Take a function and then shards, and answer each; end with the process that sends them."""
    for name in ("SIGTERM", "SIGHUP"):  # what is sent to all processes at once is the parent's to obey
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: None)  # not ignored: that would be inherited
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(incoming, messages), daemon=True).start()
    function = load_function(messages.get())
    while True:
        # The search for cycles would look through all rows of a shard again and again, and find none.
        gc.disable()
        answer = answer_shard(function, messages.get())
        gc.enable()
        _send(outgoing, answer)
        gc.collect()


def _listen(incoming: BinaryIO, messages: queue.SimpleQueue[bytes]) -> None:
    """Take messages; leave at once when nobody can send any more, whatever is under way."""
    while head := incoming.read(_LENGTH.size):
        (length,) = _LENGTH.unpack(head)
        messages.put(incoming.read(length))
    os._exit(0)


def load_function(payload: bytes) -> Loaded:
    """Return the function, or why it cannot be loaded."""
    try:
        function: Callable[[Any], object] = pickle.loads(payload)  # noqa: S301 - from our own process
    except (AttributeError, ImportError, pickle.UnpicklingError) as error:
        return str(error)
    return function


def answer_shard(function: Loaded, payload: bytes) -> bytes:
    """Return the function's value for a pickled shard, or its error, as a pickle that says which it is."""
    if isinstance(function, str):
        return pickle.dumps(("unknown", function))
    try:
        return pickle.dumps(("value", function(pickle.loads(payload))))  # noqa: S301 - from our own process
    except BaseException as error:  # noqa: BLE001 - it is raised again by whoever asked
        return describe_error(error)


def describe_error(error: BaseException) -> bytes:
    """Return an error as the answer to a shard; one that cannot be sent is put into words."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        payload = pickle.dumps(("error", error))
        pickle.loads(payload)  # noqa: S301 - our own bytes: some errors can be sent but not received
    except (pickle.PickleError, TypeError, AttributeError, ImportError, ValueError):
        print("".join(traceback.format_exception(error)), file=sys.stderr)  # noqa: T201 - nobody else will
        message = f"a worker process failed: {type(error).__name__}: {error}"
        return pickle.dumps(("error", InternalError("E901", message)))
    return payload


def _send(outgoing: BinaryIO, message: bytes) -> None:
    outgoing.write(_LENGTH.pack(len(message)) + message)
    outgoing.flush()
