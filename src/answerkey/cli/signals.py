"""Signals that end a command: the first one lets it put away what it has, in seconds; the second ends it."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

#: Ctrl-C; Slurm, Kubernetes, `docker stop`; a terminal that is closed (where the system has that).
ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
#: A signal that was ignored when the process started (`nohup`) stays ignored.
_FREE = (signal.SIG_DFL, signal.default_int_handler)
#: So long after the first signal everything is over: `docker stop` kills after ten seconds.
SECONDS = 7.0
#: The exit code of a command that a signal ended is this plus the number of the signal.
EXIT_CODE = 128


class Interrupted(KeyboardInterrupt):
    """A signal that ends the command; for everything below the command line it is Ctrl-C."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.message = _name(number)
        super().__init__(self.message)


class Signals:
    """The signals of one command; `first` is the one that ends it."""

    def __init__(self, give_up: Callable[[Interrupted], object]) -> None:
        """Take `give_up` to be called, in another thread, when putting things away takes too long."""
        self.first: Interrupted | None = None
        self.is_over = False
        self._give_up = give_up

    def hear(self, number: int, _frame: FrameType | None) -> None:
        """Raise the first signal in the main thread; any other is heard by `watch`."""
        if self.first is None:
            self.first = Interrupted(number)
            raise self.first

    def watch(self, told: socket.socket, teller: socket.socket) -> None:
        """End the process with the second signal, or when the first is too long ago.

        This is heard in a thread of its own: the main thread may be in the middle of foreign code.
        """
        with told, teller:
            first = _receive(told)
            if first is None:
                return
            told.settimeout(SECONDS)
            try:
                number = _receive(told)
            except TimeoutError:
                if not self.is_over:
                    self._give_up(self.first or Interrupted(first))
                number = first
            if number is not None:
                os._exit(EXIT_CODE + number)


@contextmanager
def hear_signals(give_up: Callable[[Interrupted], object], *, is_last: bool) -> Iterator[Signals]:
    """Let signals end what is done inside; outside the main thread they do what they did before.

    Where `is_last`, this is the last thing that the process does, and it has to end in time, too.
    """
    heard = Signals(give_up)
    free = [number for number in ENDING if signal.getsignal(number) in _FREE]
    if threading.current_thread() is not threading.main_thread() or not free:
        yield heard
        return
    told, teller = socket.socketpair()
    teller.settimeout(0)
    ends = (told, teller)
    threading.Thread(target=heard.watch, args=ends, name="answerkey-signals", daemon=True).start()
    waker = signal.set_wakeup_fd(teller.fileno(), warn_on_full_buffer=False)
    before = {number: signal.signal(number, heard.hear) for number in free}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(waker)
        heard.is_over = True
        if heard.first is None or not is_last:
            teller.shutdown(socket.SHUT_RDWR)


def _receive(told: socket.socket) -> int | None:
    """Return the number of the next signal that ends a command; None when there will be none."""
    with suppress(ConnectionError):
        while number := told.recv(1):
            if number[0] in ENDING:
                return number[0]
    return None


def _name(number: int) -> str:
    """Return how a signal is called in messages."""
    return "interrupted" if number == signal.SIGINT else f"interrupted by {signal.Signals(number).name}"
