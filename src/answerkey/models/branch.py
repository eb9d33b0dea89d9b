"""Asking from a node of a cluster: calls come in, completions are handed over, and count when they are kept.

One process keeps the journal of a run, and it is not this one. So the ledger of a branch is a hand-over: it
has a batch only when the other side says that the batch is kept, and until then its calls hold their places.
A branch whose other side is gone sends nothing more once its places are taken.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from answerkey.errors import AnswerkeyError
from answerkey.models.background import Background
from answerkey.models.budget import Budget
from answerkey.models.calls import Call, Event, Retried
from answerkey.models.connections import Connection
from answerkey.models.limits import Clock, Limits
from answerkey.models.line import Line
from answerkey.models.parcels import Parcel
from answerkey.models.rounds import Round, Sender, Terms
from answerkey.models.sending import open_client
from answerkey.types import Completion

#: How long the other side waits for news before it is told that there are none.
WAIT_SECONDS = 0.5
#: The number that the other side gave a call, and what is asked.
Errand = tuple[int, Sequence[Mapping[str, object]]]


@dataclass(frozen=True)
class Order:
    """What a branch needs to know: whom to ask, and within which limits, its own share of them."""

    connection: Connection
    limits: Limits


@dataclass(frozen=True)
class News:
    """What happened at a branch. Calls are named by the number they came with.

    `finished` is the batch with the number `batch`. `retried` has a call, why, the pause and the attempt.
    After `is_over` nothing follows; `reason` is why, if it was not told to end.
    """

    batch: int
    finished: Sequence[tuple[int, Completion]]
    retried: Sequence[tuple[int, str, float, int]]
    is_over: bool = False
    reason: AnswerkeyError | None = None


def open_branch(order: Parcel[Order], address: str) -> Branch:
    """Return the branch on the node with this address."""
    return Branch(order.unpack(), address)


class Branch:
    """Asks one endpoint from its node, round after round; safe for threads."""

    def __init__(self, order: Order, address: str) -> None:
        connection = order.connection.at_node(address)
        clock = Clock(time.monotonic, time.time, asyncio.sleep)
        self._line = Line(connection, order.limits, clock, random.random)
        self._background = Background(f"answerkey-branch-{connection.name}")
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="answerkey-hand-over")
        self._sender: Sender | None = None
        self._visit: _Visit | None = None

    def begin(self) -> None:
        """Begin a round."""
        self._visit = self._background.submit(self._open_visit()).result()

    def exchange(self, errands: Sequence[Errand], kept: int) -> News:
        """Take calls, and the number of the last batch that is kept; return what happened meanwhile."""
        visit = self._require_visit()
        if errands:
            calls = [Call(str(number), "", 0, messages) for number, messages in errands]
            self._background.call(lambda: visit.round.feed(calls))
        return visit.handed.take(kept, WAIT_SECONDS)

    def halt(self, grace: float | None) -> None:
        """Send nothing more; requests under way get `grace` seconds (None: all they need)."""
        visit = self._visit
        if visit is not None:
            self._background.call(lambda: visit.round.stop(None, grace=grace))

    def end(self, kept: int) -> None:
        """End the round; `kept` is the number of the last batch."""
        visit = self._require_visit()
        visit.handed.take(kept, 0)
        self._background.call(visit.round.close_feed)
        visit.running.exception()
        self._visit = None

    def close(self) -> None:
        """Cut everything off and close the connections."""
        if self._visit is not None:
            self._visit.handed.abandon()
        self._background.stop()
        self._executor.shutdown()

    def _require_visit(self) -> _Visit:
        if self._visit is None:
            raise RuntimeError("no round has begun")
        return self._visit

    async def _open_visit(self) -> _Visit:
        if self._sender is None:
            self._sender = open_client(self._line.connection, self._line.limits)
            self._background.stop_with(self._sender.close)
        handed = HandOver()
        terms = Terms(handed, self._executor, Budget(), None, handed.hear)
        fed = FedRound(self._line, self._sender, terms, handed.announce)
        running = self._background.submit(fed.run())
        running.add_done_callback(handed.finish)
        return _Visit(fed, handed, running)


@dataclass(frozen=True)
class _Visit:
    """A round that is under way."""

    round: FedRound
    handed: HandOver
    running: Future[dict[str, Completion]]


class FedRound(Round):
    """A round whose calls come in while it runs; it keeps none of them."""

    def __init__(
        self, line: Line, sender: Sender, terms: Terms, on_stop: Callable[[BaseException], None]
    ) -> None:
        """Take `on_stop` to be told at once why the round stops."""
        super().__init__(line, sender, terms, ())
        self._size = 2 * line.concurrent
        self._on_stop = on_stop
        self._feed: asyncio.Queue[Call | None] = asyncio.Queue()

    def feed(self, calls: Sequence[Call]) -> None:
        """Take more calls."""
        for call in calls:
            self._feed.put_nowait(call)

    def close_feed(self) -> None:
        """Say that no more calls will come: the round ends with the last one."""
        self._feed.put_nowait(None)

    def stop(self, reason: BaseException | None, *, grace: float | None = None) -> None:
        """Send nothing more; see `Round.stop`."""
        super().stop(reason, grace=grace)
        if reason is not None:
            self._on_stop(reason)

    async def _work(self) -> None:
        """Take call after call; who waits for one holds no place that another's next attempt may need."""
        gate = self._line.gate
        while not self._is_stopped:
            call = await self._feed.get()
            if call is None:
                self.close_feed()  # for the next one who waits
                return
            await gate.enter()
            completion = await self._ask(call)
            if completion is None:
                gate.finish()
                return
            self._commits.put(call, completion)

    def _note_kept(self, call: Call, completion: Completion) -> None:
        """Forget it: the other side has it."""


class HandOver:
    """The ledger of a branch: what is added is safe when the other side has said so."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._batch: Sequence[tuple[Call, Completion]] = ()
        self._retried: list[tuple[int, str, float, int]] = []
        self._number = self._kept = 0
        self._is_over = self._is_abandoned = False
        self._reason: BaseException | None = None
        self._is_told = False

    def find(self, calls: Sequence[Call]) -> dict[str, Completion]:
        """Return nothing: what is known is not sent here."""
        del calls
        return {}

    def add(self, finished: Sequence[tuple[Call, Completion]]) -> None:
        """Hand finished calls over; return when they are kept, or nobody is there any more."""
        with self._changed:
            self._number += 1
            self._batch = finished
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._kept >= self._number or self._is_abandoned)

    def hear(self, event: Event) -> None:
        """Note a call that is asked again."""
        if isinstance(event, Retried):
            with self._changed:
                self._retried.append((int(event.call.key), event.why, event.wait, event.attempt))

    def announce(self, reason: BaseException) -> None:
        """Note why the round is coming to its end: the other branches need not find out for themselves."""
        with self._changed:
            self._reason = self._reason or reason
            self._changed.notify_all()

    def finish(self, running: Future[dict[str, Completion]]) -> None:
        """Note that the round is over."""
        with self._changed:
            self._is_over = True
            self._reason = self._reason or (None if running.cancelled() else running.exception())
            self._changed.notify_all()

    def abandon(self) -> None:
        """Note that nobody will come any more."""
        with self._changed:
            self._is_abandoned = True
            self._changed.notify_all()

    def take(self, kept: int, seconds: float) -> News:
        """Note which batch is kept, and return the next one; wait for it so long at most."""
        with self._changed:
            if kept > self._kept:
                self._kept = kept
                self._changed.notify_all()
            self._changed.wait_for(self._has_news, seconds)
            batch = self._batch if self._number > self._kept else ()
            finished = [(int(call.key), replace(one, prompt=None)) for call, one in batch]
            retried, self._retried = self._retried, []
            reason, self._is_told = self._reason, self._reason is not None
            if reason is not None and not isinstance(reason, AnswerkeyError):
                raise reason
            return News(self._number, finished, retried, self._is_over and not batch, reason)

    def _has_news(self) -> bool:
        is_troubled = self._reason is not None and not self._is_told
        return self._number > self._kept or self._is_over or is_troubled
