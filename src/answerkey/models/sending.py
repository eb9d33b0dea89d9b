"""Asking an endpoint: a plain function in front, an event loop behind it.

calls ──► known to the ledger? ──► Round ──► Line (places, rates) ──► Client (HTTP)
                                     └────► Commits ──► ledger, then it counts
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TypedDict

from answerkey.errors import AnswerkeyError
from answerkey.models.background import Background
from answerkey.models.budget import Budget, Price
from answerkey.models.calls import Call, Event, Finished, Ledger, MemoryLedger, Watch, call_key
from answerkey.models.connections import Connection
from answerkey.models.limits import Clock, Limits
from answerkey.models.line import Line
from answerkey.models.rounds import GRACE_SECONDS, Round, Sender, Terms
from answerkey.types import Completion

if TYPE_CHECKING:
    from answerkey.models.client import Client

__all__ = [
    "Asker",
    "Budget",
    "Call",
    "Ledger",
    "Limits",
    "Means",
    "MemoryLedger",
    "Price",
    "Watch",
    "call_key",
]

#: A waiting thread looks up this often, so that Ctrl-C is heard whichever thread the system gives it to.
SIGNAL_SECONDS = 0.25
#: What was answered in the last moment is written within so many seconds, wherever it was asked from.
WRITE_SECONDS = 1.0


def open_client(connection: Connection, limits: Limits) -> Client:
    """Return the HTTP client; aiohttp, which is large, is imported with the first one."""
    from answerkey.models.client import Client

    return Client(connection, limits)


@dataclass(frozen=True)
class Means:
    """What an asker takes from the world: time, chance, and HTTP. Tests bring their own."""

    clock: Clock = field(default_factory=lambda: Clock(time.monotonic, time.time, asyncio.sleep))
    draw: Callable[[], float] = random.random
    open_sender: Callable[[Connection, Limits], Sender] = open_client


class Asking(Protocol):
    """Calls that are being asked."""

    async def run(self) -> dict[str, Completion]:
        """Return the completions by key; raise what made it stop."""

    def stop(self, reason: BaseException | None, *, grace: float | None = None) -> None:
        """Send nothing more; requests under way get `grace` seconds."""


class AskerSettings(TypedDict, total=False):
    """The settings of an asker that may be left out."""

    ledger: Ledger | None
    limits: Limits | None
    budget: Budget | None
    price: Price | None
    watch: Watch | None
    means: Means | None


class Asker:
    """Asks one endpoint, for one run; a context manager, closed in the end.

    `ask` may be called from several threads: one asking follows the other, so that a question of both is sent
    once.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        ledger: Ledger | None = None,
        limits: Limits | None = None,
        budget: Budget | None = None,
        price: Price | None = None,
        watch: Watch | None = None,
        means: Means | None = None,
    ) -> None:
        self._means = means or Means()
        self._line = Line(connection, limits or Limits(), self._means.clock, self._means.draw)
        executor = ThreadPoolExecutor(1, thread_name_prefix="answerkey-ledger")
        self._terms = Terms(ledger or MemoryLedger(), executor, budget or Budget(), price, watch)
        self._background = Background(f"answerkey-ask-{connection.name}")
        self._sender: Sender | None = None
        self._lock = threading.Lock()
        self._reason: AnswerkeyError | None = None
        #: Calls that are under way after an interrupt.
        self._stopping: Future[dict[str, Completion]] | None = None
        self._close = weakref.finalize(self, _shut_down, self._background, executor)

    def ask(self, calls: Sequence[Call]) -> list[Completion]:
        """Return the completions in the order of the calls; each is in the ledger.

        A call that failed for good has a completion with status ERROR. Raises SolverError E304 (the key is
        refused), E305 (a limit is reached) or E306 (the endpoint cannot be reached), and what the ledger
        raises; what was answered before is in the ledger. An endpoint that was given up is not asked again.
        Ctrl-C is raised at once; calls under way then have `GRACE_SECONDS`, for which `close` waits.
        """
        with self._lock:
            self._await_stopped()
            if self._reason is not None:
                raise self._reason
            first = {call.key: call for call in reversed(calls)}
            known = self._find(list(first.values()))
            self._tell(Finished(call, known[call.key], is_known=True) for call in calls if call.key in known)
            missing = [call for call in calls if call.key not in known and first[call.key] is call]
            answered = self._send(missing) if missing else {}
            self._tell(
                Finished(call, answered[call.key], is_known=True)
                for call in calls
                if call.key in answered and first[call.key] is not call
            )
            return [known.get(call.key) or answered[call.key] for call in calls]

    def close(self) -> None:
        """Close the connections and end the threads; twice does no harm."""
        try:
            self._await_stopped()
        finally:
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _find(self, calls: Sequence[Call]) -> dict[str, Completion]:
        return self._terms.executor.submit(self._terms.ledger.find, calls).result()

    def _send(self, calls: Sequence[Call]) -> dict[str, Completion]:
        asking = self._background.submit(self._open_round(calls)).result()
        running = self._background.submit(asking.run())
        try:
            while not wait([running], timeout=SIGNAL_SECONDS).done:
                continue
            return running.result()
        except KeyboardInterrupt:
            self._stopping = running
            self._background.call(lambda: asking.stop(None, grace=GRACE_SECONDS))
            raise
        except AnswerkeyError as error:
            self._reason = error
            raise

    def _await_stopped(self) -> None:
        """Wait until the calls that an interrupt left under way are written, or cut off."""
        running, self._stopping = self._stopping, None
        if running is not None:
            wait([running], timeout=GRACE_SECONDS + WRITE_SECONDS)

    async def _open_round(self, calls: Sequence[Call]) -> Asking:
        if self._sender is None:
            sender = self._means.open_sender(self._line.connection, self._line.limits)
            self._background.stop_with(sender.close)
            self._sender = sender
        return Round(self._line, self._sender, self._terms, calls)

    def _tell(self, events: Iterable[Event]) -> None:
        if self._terms.watch is not None:
            for event in events:
                self._terms.watch(event)


def _shut_down(background: Background, executor: ThreadPoolExecutor) -> None:
    background.stop()
    executor.shutdown()
