"""Calling models from the nodes of a cluster, one Ray actor on each.

calls ──► known to the journal? ──► ActorRound ──► one ModelActor on each node ──► endpoint
                                        └────► journal, then the actor may go on

One process keeps the journal of a run, and it is not the actor's. So finished calls hold their places at the
actor until the other side says that it has kept them. An actor whose other side is gone sends nothing more
once its places are taken.
"""

from __future__ import annotations

import asyncio
import io
import pickle
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, Self

from answerkey.errors import HIDDEN, AnswerkeyError, EngineError
from answerkey.models.calls import (
    Call,
    CallSettings,
    Event,
    Finished,
    Limits,
    Retried,
    charge,
    charge_completion,
)
from answerkey.models.client import (
    BUDGET_POLL_SECONDS,
    GRACE_SECONDS,
    LOG,
    ModelClient,
    Round,
    encode_body,
)
from answerkey.models.config import Secret
from answerkey.models.providers import Connection
from answerkey.types import Completion

#: How long the other side waits for news before it is told that there are none.
WAIT_SECONDS = 0.5
#: An actor that was lost so often without one answer in between is given up.
LOSSES = 5
_HINT = "look at `ray status`; what was answered is kept, and `answerkey resume` goes on"


class ActorLostError(Exception):
    """The process of an actor, or its whole node, is gone; what it was doing is not known."""


@dataclass(frozen=True)
class Node:
    """A machine that takes work; `address` is how others reach it."""

    name: str
    address: str


class ActorHandle(Protocol):
    """A process on a node with one object in it."""

    def call(self, method: str, *given: object) -> Future[Any]:
        """Call a method of the object; the future may hold a `ActorLostError`, or an error of ours.

        Several calls may be under way at a time. What is given and what comes back can be pickled.
        """

    def close(self) -> None:
        """End the process, whatever it is doing; twice does no harm."""


class ActorHost(Protocol):
    """The nodes of an engine, and how an object comes to live there."""

    def list_nodes(self) -> Sequence[Node]:
        """Return the nodes that are there now, in the same order each time."""

    def open(self, node: Node, build: Callable[[str], object]) -> ActorHandle:
        """Start a process on a node; `build` is called there with the node's address, and its value kept.

        Returns at once. What `build` raises is raised by every call.
        """


@dataclass(frozen=True, repr=False)
class Order:
    """Whom an actor calls, and within which limits: its own share of them.

    It can be pickled though it holds secrets, and shows nothing of itself.
    """

    packed: bytes

    @classmethod
    def pack(cls, connection: Connection, limits: Limits) -> Self:
        """Return the order for an actor."""
        stream = io.BytesIO()
        _Packer(stream, protocol=pickle.HIGHEST_PROTOCOL).dump((connection, limits))
        return cls(stream.getvalue())

    def unpack(self) -> tuple[Connection, Limits]:
        """Return what is in it."""
        connection, limits = pickle.loads(self.packed)  # noqa: S301 - packed by our own process
        return connection, limits

    def __repr__(self) -> str:
        return f"Order({HIDDEN})"


class _Packer(pickle.Pickler):
    """Packs secrets, too, which refuse to be pickled by anybody else."""

    def reducer_override(self, thing: object) -> Any:  # noqa: ANN401 - as in the base class
        if isinstance(thing, Secret):
            return Secret, (thing.reveal(), thing.origin)
        return NotImplemented


@dataclass(frozen=True)
class News:
    """What happened at an actor. Calls are named by the number they came with.

    `finished` is the batch with the number `batch`. `retried` has a call, why, the pause and the attempt.
    After `is_over` nothing follows; `reason` is why, if it was not told to end.
    """

    batch: int
    finished: Sequence[tuple[int, Completion]]
    retried: Sequence[tuple[int, str, float, int]]
    is_over: bool = False
    reason: AnswerkeyError | None = None


# On the node.


class ModelActor:
    """Calls one endpoint from its node, round after round; safe for threads."""

    def __init__(self, order: Order, address: str) -> None:
        connection, limits = order.unpack()
        self._client = ModelClient(connection.at_node(address), CallSettings(limits=limits))
        self._round: FedRound | None = None
        self._running: Future[dict[str, Completion]] | None = None

    def begin(self) -> None:
        """Begin a round."""
        self._round = FedRound(self._client)
        self._running = self._client.background.submit(self._round.run())
        self._running.add_done_callback(self._round.finish)

    def exchange(self, calls: Sequence[Call], kept: int) -> News:
        """Take calls, and the number of the last batch that is kept; return what happened meanwhile."""
        fed = self._require_round()
        if calls:
            self._client.background.call(lambda: fed.feed(*calls))
        return fed.take(kept, WAIT_SECONDS)

    def halt(self, grace: float | None) -> None:
        """Send nothing more; requests under way get `grace` seconds (None: all they need)."""
        if (fed := self._round) is not None:
            self._client.background.call(lambda: fed.stop(None, grace=grace))

    def end(self, kept: int) -> None:
        """End the round; `kept` is the number of the last batch."""
        fed = self._require_round()
        fed.take(kept, 0)
        self._client.background.call(lambda: fed.feed(None))
        if self._running is not None:
            self._running.exception()
        self._round = None

    def close(self) -> None:
        """Cut everything off and close the connections."""
        if self._round is not None:
            self._round.abandon()
        self._client.close()

    def _require_round(self) -> FedRound:
        if self._round is None:
            raise RuntimeError("no round has begun")
        return self._round


class FedRound(Round):
    """A round whose calls come in while it runs, and hold their places until the other side has kept them."""

    def __init__(self, client: ModelClient) -> None:
        super().__init__(client, ())
        self._size = 2 * client.endpoint.concurrency.cap
        self._feed: asyncio.Queue[Call | None] = asyncio.Queue()
        #: Guards what follows: the event loop fills it, threads of the actor empty it.
        self._changed = threading.Condition()
        self._finished: list[tuple[int, Completion]] = []
        #: The batch that the other side has, and has not kept yet; its number.
        self._taken: list[tuple[int, Completion]] = []
        self._number = 0
        self._retried: list[tuple[int, str, float, int]] = []
        self._is_over = self._is_abandoned = self._is_told = False
        self._end_reason: BaseException | None = None

    def feed(self, *calls: Call | None) -> None:
        """Take more calls; None says that no more will come: the round ends with the last one."""
        for call in calls:
            self._feed.put_nowait(call)

    def stop(self, reason: BaseException | None, *, grace: float | None = None) -> None:
        """Send nothing more; see `Round.stop`. The other side, and so the other actors, hear at once why."""
        super().stop(reason, grace=grace)
        with self._changed:
            self._end_reason = self._end_reason or reason
            self._changed.notify_all()

    def finish(self, running: Future[dict[str, Completion]]) -> None:
        """Note that the round is over."""
        with self._changed:
            self._is_over = True
            self._end_reason = self._end_reason or (None if running.cancelled() else running.exception())
            self._changed.notify_all()

    def abandon(self) -> None:
        """Note that nobody will come any more."""
        with self._changed:
            self._is_abandoned = True
            self._changed.notify_all()

    def take(self, kept: int, seconds: float) -> News:
        """Note which batch is kept, and return the next one; wait for it so long at most."""
        with self._changed:
            if self._taken and kept >= self._number:
                free, count = self._endpoint.semaphore.finish, len(self._taken)
                self._client.background.call(lambda: free(count))
                self._taken = []
                self._changed.notify_all()

            def has_news() -> bool:
                is_told = self._end_reason is None or self._is_told
                return bool(self._taken or self._finished or self._is_over or not is_told)

            self._changed.wait_for(has_news, seconds)
            if self._finished and not self._taken:
                self._taken, self._finished = self._finished, []
                self._number += 1
            retried, self._retried = self._retried, []
            reason, self._is_told = self._end_reason, self._end_reason is not None
            if reason is not None and not isinstance(reason, AnswerkeyError):
                raise reason
            return News(self._number, self._taken, retried, self._is_over and not self._taken, reason)

    async def _work(self) -> None:
        """Take call after call; who waits for one holds no place that another's next attempt may need."""
        semaphore = self._endpoint.semaphore
        while not self._is_stopped:
            call = await self._feed.get()
            if call is None:
                self.feed(None)  # for the next one who waits
                return
            await semaphore.enter()
            completion = await self._make(call)
            if completion is None:
                semaphore.finish()
                return
            with self._changed:
                self._finished.append((int(call.key), replace(completion, prompt=None)))
                self._changed.notify_all()

    def _tell(self, event: Event) -> None:
        if isinstance(event, Retried):
            with self._changed:
                self._retried.append((int(event.call.key), event.why, event.wait, event.attempt))

    async def _flush(self) -> None:
        """Wait until all is kept, or nobody is there any more."""

        def wait_until(is_kept: Callable[[], bool]) -> None:
            with self._changed:
                self._changed.wait_for(is_kept)

        await self._in_thread(wait_until, lambda: self._is_abandoned or not (self._finished or self._taken))


# In the process of the run.


@dataclass(eq=False)
class Worker:
    """One actor as it is seen from here.

    `out` are the numbers of the calls that it has, `window` how many it may have, `losses` how often it was
    lost since it answered last.
    """

    node: Node
    actor: ActorHandle
    order: Order
    window: int
    out: set[int] = field(default_factory=set)
    losses: int = 0

    async def call(self, method: str, *given: object) -> Any:  # noqa: ANN401 - whatever the method returns
        """Call a method of the actor."""
        return await asyncio.wrap_future(self.actor.call(method, *given))


def share_out(connection: Connection, limits: Limits, nodes: int) -> list[Connection]:
    """Return a connection for each node that is to call, in which all limits together are those given.

    Every actor has a place at least, and a request a second: what may come at once stays what it is. Where
    each node has an endpoint of its own, the limits are for each.
    """
    if connection.is_per_node:
        return [connection] * nodes
    places = connection.max_concurrent or limits.max_concurrent
    requests = connection.requests_per_minute or limits.requests_per_minute
    tokens = connection.tokens_per_minute or limits.tokens_per_minute
    count = min(nodes, max(1, places))
    if requests is not None:
        count = min(count, max(1, int(requests / 60)))
    return [
        replace(
            connection,
            max_concurrent=places // count + (number < places % count),
            requests_per_minute=None if requests is None else requests / count,
            tokens_per_minute=None if tokens is None else tokens / count,
        )
        for number in range(count)
    ]


class ActorClient(ModelClient):
    """Calls one endpoint from every node of a cluster, for one run; a context manager, closed in the end.

    Beside what calling raises, EngineError E602 says that no node is left, or that the processes on one end
    again and again.
    """

    def __init__(self, connection: Connection, settings: CallSettings, actors: ActorHost) -> None:
        super().__init__(connection, settings)
        self._actors = actors
        self.workers: list[Worker] = []
        self._close_workers = weakref.finalize(self, _close_workers, self.workers)

    def close(self) -> None:
        """Close the connections and end the processes; twice does no harm."""
        try:
            self._await_stopped()
        finally:
            self._close_workers()
            super().close()

    def start_round(self, calls: Sequence[Call]) -> ActorRound:
        """Return the calls as they are made by actors, which are opened with the first.

        Not in the event loop: joining a cluster takes seconds, and wants the thread that hears of signals.
        """
        started = ActorRound(self, calls)  # first: actors are to know what these calls share
        if not self.workers:
            nodes = list(self._actors.list_nodes())
            if not nodes:
                hint = "look at `ray status`"
                raise EngineError("E601", "the cluster has no node that takes work", hint=hint)
            limits = self.endpoint.limits
            shares = share_out(self.endpoint.connection, limits, len(nodes))
            for node, share in zip(nodes, shares, strict=False):
                order = Order.pack(share, limits)
                window = 2 * (share.max_concurrent or limits.max_concurrent)
                self.workers.append(
                    Worker(node, self._actors.open(node, partial(ModelActor, order)), order, window)
                )
        return started

    def replace_worker(self, worker: Worker) -> bool:
        """Open an actor in place of one that is lost; False when its node is gone and had its own endpoint.

        It goes to the same node, or to another if that one is gone: the share stays in use.
        """
        worker.actor.close()
        nodes = list(self._actors.list_nodes())
        if worker.node not in nodes:
            if self.endpoint.connection.is_per_node or not nodes:
                self.workers.remove(worker)
                return False
            worker.node = min(nodes, key=lambda node: sum(one.node == node for one in self.workers))
        worker.actor = self._actors.open(worker.node, partial(ModelActor, worker.order))
        return True


def _close_workers(workers: list[Worker]) -> None:
    while workers:
        workers.pop().actor.close()


class ActorRound(Round):
    """Hands out calls with distinct keys, all of them unknown to the ledger, and keeps what comes back.

    An actor has few more calls than places. It hears that a batch is kept when the ledger has it, so that
    what a sudden death loses, here or there, is never more than there are connections. The calls of an actor
    that is lost are handed out again, first of all.
    """

    def __init__(self, client: ActorClient, calls: Sequence[Call]) -> None:
        super().__init__(client, calls)
        self._pool = client
        self._calls = calls
        self._queue = deque(range(len(calls)))
        #: What is set aside for calls that are handed out, or were.
        self._reserved: dict[int, float] = {}
        #: What the ledger did not take, and what came after that.
        self._unkept: list[tuple[Call, Completion]] = []
        self._halting: set[asyncio.Task[None]] = set()
        self._is_broken = False

    async def run(self) -> dict[str, Completion]:
        """Return the completions by key; raise what made it stop. After `stop(None)`: what there is."""
        for worker in self._pool.workers:
            self._start(self._serve(worker))
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._unkept:  # it is paid for
            with suppress(AnswerkeyError):
                await self._in_thread(self._settings.ledger.add, self._unkept)
        for task in self._halting:
            task.cancel()
        for reserved in self._reserved.values():
            self._settings.budget.settle(reserved, 0.0)
        if self._reason is not None:
            raise self._reason
        return self._answered

    def stop(self, reason: BaseException | None, *, grace: float | None = None) -> None:
        """Send nothing more. Requests under way get `grace` seconds (None: all they need) to be answered."""
        self._is_stopped = True
        self._reason = self._reason or reason

        async def halt(worker: Worker) -> None:
            with suppress(ActorLostError):
                await worker.call("halt", grace)

        for worker in self._pool.workers:
            task = asyncio.create_task(halt(worker))
            task.add_done_callback(self._halting.discard)
            self._halting.add(task)

    async def _serve(self, worker: Worker) -> None:
        """Work with an actor, and with those that take its place when it is lost, until all is answered."""
        while True:
            try:
                await self._work_with(worker)
            except ActorLostError as lost:
                self._queue.extendleft(sorted(worker.out, reverse=True))
                worker.out.clear()
                if self._is_done() or not await self._replace(worker, str(lost)):
                    return
            else:
                return

    async def _work_with(self, worker: Worker) -> None:
        await worker.call("begin")
        kept, is_over = 0, False
        while not is_over:
            chosen = self._choose(worker)
            if not worker.out:
                if self._is_done():
                    break
                # Another actor may be lost, or money come back.
                await self._endpoint.clock.sleep(BUDGET_POLL_SECONDS)
                continue
            calls = [replace(self._calls[one], key=str(one)) for one in chosen]
            news: News = await worker.call("exchange", calls, kept)
            await self._take(worker, news)
            kept, is_over = news.batch, news.is_over
        worker.out.clear()
        await worker.call("end", kept)

    def _is_done(self) -> bool:
        """Return whether nothing will be handed out any more."""
        return self._is_stopped or not (self._queue or any(one.out for one in self._pool.workers))

    def _choose(self, worker: Worker) -> list[int]:
        """Return the calls that an actor gets now: as many as it has room for, or its part of the rest."""
        room = min(worker.window - len(worker.out), -(-len(self._queue) // len(self._pool.workers)))
        chosen: list[int] = []
        while len(chosen) < room and not self._is_stopped and self._reserve(self._queue[0]):
            chosen.append(self._queue.popleft())
        worker.out.update(chosen)
        return chosen

    def _reserve(self, number: int) -> bool:
        """Set a call and its money aside; a limit that is reached lets those before it be finished."""
        if number in self._reserved:
            return True
        endpoint, budget, price, cost = self._endpoint, self._settings.budget, self._settings.price, 0.0
        if budget.max_cost is not None and price is not None:
            try:
                call = self._calls[number]
                body = encode_body(endpoint.connection.build(call.messages, call.choices)).encode()
            except AnswerkeyError:
                body = b""
            cost = charge(price, *endpoint.estimate_tokens(body))
        try:
            has_room = budget.reserve(cost)
        except AnswerkeyError as error:
            self._reason = self._reason or error
            self._queue.clear()
            return False
        if has_room:
            self._reserved[number] = cost
        return has_room

    async def _take(self, worker: Worker, news: News) -> None:
        """Take in what an actor tells; return when the ledger has it, or will not have it."""
        for number, why, wait, attempt in news.retried:
            LOG.debug("sample %s: %s; retried in %.1f s", self._calls[number].sample_id, why, wait)
            self._tell(Retried(self._calls[number], why, wait, attempt))
        finished: list[tuple[Call, Completion]] = []
        for number, said in news.finished:
            if number in worker.out:
                worker.out.discard(number)
                cost = charge_completion(self._settings.price, said)
                self._settings.budget.settle(self._reserved.pop(number), cost)
                self._endpoint.note_usage(said, 0)
                prompt = self._calls[number].messages
                finished.append((self._calls[number], said.with_fields(prompt=prompt)))
        if news.finished:
            worker.losses = 0
        if news.reason is not None and not self._is_stopped:
            self.stop(news.reason, grace=GRACE_SECONDS)
        if not finished:
            return
        if not self._is_broken:
            try:
                await self._in_thread(self._settings.ledger.add, finished)
            except AnswerkeyError as error:
                self._is_broken = True
                self.stop(error, grace=GRACE_SECONDS)
            else:
                for call, completion in finished:
                    self._answered[call.key] = completion
                    self._tell(Finished(call, completion))
                return
        self._unkept += finished

    async def _replace(self, worker: Worker, why: str) -> bool:
        """Open another actor for one that is lost; False when there is none to be had."""
        worker.losses += 1
        if worker.losses >= LOSSES:
            message = f"the client process of node {worker.node.address} ended {LOSSES} times: {why}"
            self.stop(EngineError("E602", message, hint=_HINT), grace=GRACE_SECONDS)
            return False
        await self._endpoint.clock.sleep(float(worker.losses - 1))
        try:
            is_open = await asyncio.to_thread(self._pool.replace_worker, worker)
        except AnswerkeyError as error:
            self.stop(error, grace=GRACE_SECONDS)
            return False
        if not is_open and not self._pool.workers:
            self.stop(EngineError("E602", f"no node is left that could call the model: {why}", hint=_HINT))
        return is_open
