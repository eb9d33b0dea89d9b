"""Calling models from the nodes of a cluster, one Ray actor on each.

calls ──► known to the journal? ──► ActorRound ──► one ModelActor on each node ──► endpoint
                                        └────► Commits ──► journal, then the actor may go on

One process keeps the journal of a run, and it is not the actor's. So the journal of an actor is a hand-over:
it has a batch when the other side says that the batch is kept, and until then its calls hold their places.
An actor whose other side is gone sends nothing more once its places are taken.
"""

from __future__ import annotations

import asyncio
import io
import pickle
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeVar, Unpack

from answerkey.errors import HIDDEN, AnswerkeyError, EngineError
from answerkey.models.calls import (
    BUDGET_POLL_SECONDS,
    GRACE_SECONDS,
    LOG,
    Background,
    Budget,
    Call,
    ClientSettings,
    Event,
    Finished,
    ModelClient,
    Notes,
    PlainCommits,
    Retried,
    Round,
    Sender,
    Terms,
    charge,
    encode_body,
    open_client,
)
from answerkey.models.providers import Connection
from answerkey.models.retry import Clock, EndpointState, Limits
from answerkey.models.settings import Secret
from answerkey.types import Completion


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
        ...

    def close(self) -> None:
        """End the process, whatever it is doing; twice does no harm."""
        ...


class ActorHost(Protocol):
    """The nodes of an engine, and how an object comes to live there."""

    def list_nodes(self) -> Sequence[Node]:
        """Return the nodes that are there now, in the same order each time."""
        ...

    def open(self, node: Node, build: Callable[[str], object]) -> ActorHandle:
        """Start a process on a node; `build` is called there with the node's address, and its value kept.

        Returns at once. What `build` raises is raised by every call.
        """
        ...


Content = TypeVar("Content")


@dataclass(frozen=True, repr=False)
class Payload(Generic[Content]):
    """Something packed that can be pickled though it holds secrets; it shows nothing of itself."""

    packed: bytes

    @classmethod
    def pack(cls, content: Content) -> Self:
        """Return the payload with this content."""
        stream = io.BytesIO()
        _Packer(stream, protocol=pickle.HIGHEST_PROTOCOL).dump(content)
        return cls(stream.getvalue())

    def unpack(self) -> Content:
        """Return what is in it."""
        content: Content = pickle.loads(self.packed)  # noqa: S301 - packed by our own process
        return content

    def __repr__(self) -> str:
        return f"Payload({HIDDEN})"


class _Packer(pickle.Pickler):
    """Packs secrets, too, which refuse to be pickled by anybody else."""

    def reducer_override(self, thing: object) -> Any:  # noqa: ANN401 - as in the base class
        if isinstance(thing, Secret):
            return Secret, (thing.reveal(), thing.origin)
        return NotImplemented


#: How long the other side waits for news before it is told that there are none.
WAIT_SECONDS = 0.5
#: The number that the other side gave a call, and what is asked.
Errand = tuple[int, Sequence[Mapping[str, object]]]


@dataclass(frozen=True)
class Order:
    """What an actor needs to know: whom to ask, and within which limits, its own share of them."""

    connection: Connection
    limits: Limits


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


def open_model_actor(order: Payload[Order], address: str) -> ModelActor:
    """Return the actor on the node with this address."""
    return ModelActor(order.unpack(), address)


class ModelActor:
    """Asks one endpoint from its node, round after round; safe for threads."""

    def __init__(self, order: Order, address: str) -> None:
        connection = order.connection.at_node(address)
        clock = Clock(time.monotonic, time.time, asyncio.sleep)
        self._endpoint = EndpointState(connection, order.limits, clock, random.random)
        self._background = Background(f"answerkey-actor-{connection.name}")
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
            self._sender = open_client(self._endpoint.connection, self._endpoint.limits)
            self._background.stop_with(self._sender.close)
        handed = HandOver()
        terms = Terms(handed, self._executor, Budget(), None, handed.hear)
        fed = FedRound(self._endpoint, self._sender, terms, handed.announce)
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
        self, line: EndpointState, sender: Sender, terms: Terms, on_stop: Callable[[BaseException], None]
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
        gate = self._endpoint.semaphore
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
    """The ledger of an actor: what is added is safe when the other side has said so."""

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
        """Note why the round is coming to its end: the other actors need not find out for themselves."""
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
            self._changed.wait_for(
                lambda: (
                    self._number > self._kept
                    or self._is_over
                    or (self._reason is not None and not self._is_told)
                ),
                seconds,
            )
            batch = self._batch if self._number > self._kept else ()
            finished = [(int(call.key), replace(one, prompt=None)) for call, one in batch]
            retried, self._retried = self._retried, []
            reason, self._is_told = self._reason, self._reason is not None
            if reason is not None and not isinstance(reason, AnswerkeyError):
                raise reason
            return News(self._number, finished, retried, self._is_over and not batch, reason)


SECONDS_PER_MINUTE = 60


@dataclass(eq=False)
class Worker:
    """One actor as it is seen from here.

    `out` are the numbers of the calls that it has, `window` how many it may have, `losses` how often it was
    lost since it answered last.
    """

    node: Node
    actor: ActorHandle
    order: Payload[Order]
    window: int
    out: set[int] = field(default_factory=set)
    losses: int = 0

    async def call(self, method: str, *given: object) -> Any:  # noqa: ANN401 - whatever the method returns
        """Call a method of the actor."""
        return await asyncio.wrap_future(self.actor.call(method, *given))


class WorkerPool:
    """Opens the actors, replaces those that are lost, and closes them.

    An endpoint that all nodes share has its limits shared out; where each node has an endpoint of its own,
    the limits are for each.
    """

    def __init__(self, connection: Connection, limits: Limits, actors: ActorHost) -> None:
        self._connection = connection
        self._limits = limits
        self._actors = actors
        self.workers: list[Worker] = []

    def open(self) -> None:
        """Open the actors, if they are not open yet."""
        if self.workers:
            return
        nodes = list(self._actors.list_nodes())
        if not nodes:
            raise EngineError("E601", "the cluster has no node that takes work", hint="look at `ray status`")
        orders = share_out(Order(self._connection, self._limits), len(nodes))
        self.workers = [self._open_worker(node, order) for node, order in zip(nodes, orders, strict=False)]

    def replace(self, worker: Worker) -> bool:
        """Open an actor in place of one that is lost; False when its node is gone and had its own endpoint.

        It goes to the same node, or to another if that one is gone: the share stays in use.
        """
        worker.actor.close()
        nodes = list(self._actors.list_nodes())
        if worker.node not in nodes:
            if self._connection.is_per_node or not nodes:
                self.workers.remove(worker)
                return False
            worker.node = min(nodes, key=lambda node: sum(one.node == node for one in self.workers))
        worker.actor = self._open_actor(worker.node, worker.order)
        return True

    def close(self) -> None:
        """End the processes."""
        for worker in self.workers:
            worker.actor.close()
        self.workers = []

    def _open_worker(self, node: Node, order: Order) -> Worker:
        payload = Payload.pack(order)
        places = order.connection.max_concurrent or order.limits.max_concurrent
        return Worker(node, self._open_actor(node, payload), payload, window=2 * places)

    def _open_actor(self, node: Node, order: Payload[Order]) -> ActorHandle:
        return self._actors.open(node, partial(open_model_actor, order))


def share_out(order: Order, nodes: int) -> list[Order]:
    """Return an order for each node that is to ask, in which all limits together are those of the order.

    Every actor has a place at least, and a request a second: what may come at once stays what it is.
    """
    connection, limits = order.connection, order.limits
    if connection.is_per_node:
        return [order] * nodes
    places = connection.max_concurrent or limits.max_concurrent
    requests = connection.requests_per_minute or limits.requests_per_minute
    tokens = connection.tokens_per_minute or limits.tokens_per_minute
    count = min(nodes, max(1, places))
    if requests is not None:
        count = min(count, max(1, int(requests / SECONDS_PER_MINUTE)))
    return [
        replace(
            order,
            connection=replace(
                connection,
                max_concurrent=places // count + (number < places % count),
                requests_per_minute=None if requests is None else requests / count,
                tokens_per_minute=None if tokens is None else tokens / count,
            ),
        )
        for number in range(count)
    ]


#: An actor that was lost so often without one answer in between is given up.
LOSSES = 5


class ActorClient(ModelClient):
    """Asks one endpoint from every node of a cluster, for one run; a context manager, closed in the end.

    Beside what asking raises, EngineError E602 says that no node is left, or that the processes on one end
    again and again.
    """

    def __init__(self, connection: Connection, actors: ActorHost, **settings: Unpack[ClientSettings]) -> None:
        super().__init__(connection, **settings)
        self._pool = WorkerPool(connection, settings.get("limits") or Limits(), actors)
        self._dismiss = weakref.finalize(self, self._pool.close)

    def close(self) -> None:
        """Close the connections and end the processes; twice does no harm."""
        try:
            self._await_stopped()
        finally:
            self._dismiss()
            super().close()

    def _send(self, calls: Sequence[Call]) -> dict[str, Completion]:
        # Not in the event loop: joining a cluster takes seconds, and wants the thread that hears of signals.
        self._pool.open()
        return super()._send(calls)

    async def _open_round(self, calls: Sequence[Call]) -> ActorRound:
        return ActorRound(self._endpoint, self._pool, self._terms, calls)


class ActorRound:
    """Hands out calls with distinct keys, all of them unknown to the ledger, and keeps what comes back.

    An actor has few more calls than places. It hears that a batch is kept when the ledger has it, so that
    what a sudden death loses, here or there, is never more than there are connections. The calls of an actor
    that is lost are handed out again, first of all.
    """

    def __init__(self, line: EndpointState, pool: WorkerPool, terms: Terms, calls: Sequence[Call]) -> None:
        self._endpoint = line
        self._pool = pool
        self._terms = terms
        self._calls = calls
        self._queue = deque(range(len(calls)))
        #: What is set aside for calls that are handed out, or were.
        self._reserved: dict[int, float] = {}
        self._answered: dict[str, Completion] = {}
        self._batches: dict[str, _Batch] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._asides: set[asyncio.Task[None]] = set()
        self._reason: BaseException | None = None
        self._is_stopped = self._is_broken = False
        # An actor waits for every batch: it goes to the disk at once. Places are up to the actors.
        notes = Notes(lambda _: None, self._note_kept, self._note_broken)
        self._commits = PlainCommits(terms.ledger, terms.executor, notes)

    async def run(self) -> dict[str, Completion]:
        """Return the completions by key; raise what made it stop. After `stop(None)`: what there is."""
        for worker in self._pool.workers:
            task = asyncio.create_task(self._serve(worker))
            task.add_done_callback(self._note_end)
            self._tasks.add(task)
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._commits.flush()
        for task in self._asides:
            task.cancel()
        for reserved in self._reserved.values():
            self._terms.budget.settle(reserved, 0.0)
        if self._reason is not None:
            raise self._reason
        return self._answered

    def stop(self, reason: BaseException | None, *, grace: float | None = None) -> None:
        """Send nothing more. Requests under way get `grace` seconds (None: all they need) to be answered."""
        self._is_stopped = True
        self._reason = self._reason or reason
        for worker in self._pool.workers:
            task = asyncio.create_task(_halt(worker, grace))
            task.add_done_callback(self._asides.discard)
            self._asides.add(task)

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
            news: News = await worker.call(
                "exchange", [(one, self._calls[one].messages) for one in chosen], kept
            )
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
        while len(chosen) < room and not self._is_stopped:
            if not self._reserve(self._queue[0]):
                break
            chosen.append(self._queue.popleft())
        worker.out.update(chosen)
        return chosen

    def _reserve(self, number: int) -> bool:
        """Set a call and its money aside; a limit that is reached lets those before it be finished."""
        if number in self._reserved:
            return True
        budget, cost = self._terms.budget, 0.0
        if budget.max_cost is not None and self._terms.price is not None:
            cost = charge(self._terms.price, *self._estimate(self._calls[number]))
        try:
            has_room = budget.reserve(cost)
        except AnswerkeyError as error:
            self._reason = self._reason or error
            self._queue.clear()
            return False
        if has_room:
            self._reserved[number] = cost
        return has_room

    def _estimate(self, call: Call) -> tuple[int, int]:
        try:
            body = encode_body(self._endpoint.connection.build(call.messages)).encode()
        except AnswerkeyError:
            body = b""
        return self._endpoint.estimate_tokens(body)

    async def _take(self, worker: Worker, news: News) -> None:
        """Take in what an actor tells; return when the ledger has it, or will not have it."""
        for number, why, wait, attempt in news.retried:
            LOG.debug("sample %s: %s; asked again in %.1f s", self._calls[number].sample_id, why, wait)
            self._tell(Retried(self._calls[number], why, wait, attempt))
        batch = _Batch()
        for number, said in news.finished:
            if number in worker.out:
                worker.out.discard(number)
                self._settle(number, said)
                batch.size += 1
                self._batches[self._calls[number].key] = batch
                self._commits.put(self._calls[number], replace(said, prompt=self._calls[number].messages))
        if news.finished:
            worker.losses = 0
        if news.reason is not None and not self._is_stopped:
            self.stop(news.reason, grace=GRACE_SECONDS)
        if batch.size and not self._is_broken:
            await batch.is_kept.wait()

    def _settle(self, number: int, said: Completion) -> None:
        cost = charge(self._terms.price, said.prompt_tokens, said.completion_tokens)
        self._terms.budget.settle(self._reserved.pop(number), cost)
        self._endpoint.note_usage(said, 0)

    async def _replace(self, worker: Worker, why: str) -> bool:
        """Open another actor for one that is lost; False when there is none to be had."""
        worker.losses += 1
        if worker.losses >= LOSSES:
            message = f"the process that asks from node {worker.node.address} ended {LOSSES} times: {why}"
            self.stop(EngineError("E602", message, hint=_HINT), grace=GRACE_SECONDS)
            return False
        await self._endpoint.clock.sleep(float(worker.losses - 1))
        try:
            is_open = await asyncio.get_running_loop().run_in_executor(None, self._pool.replace, worker)
        except AnswerkeyError as error:
            self.stop(error, grace=GRACE_SECONDS)
            return False
        if not is_open and not self._pool.workers:
            self.stop(EngineError("E602", f"no node is left that could ask: {why}", hint=_HINT))
        return is_open

    def _tell(self, event: Event) -> None:
        self._terms.tell(event, self.stop)

    def _note_kept(self, call: Call, completion: Completion) -> None:
        self._answered[call.key] = completion
        batch = self._batches.pop(call.key)
        batch.size -= 1
        if batch.size == 0:
            batch.is_kept.set()
        self._tell(Finished(call, completion, is_known=False))

    def _note_broken(self, error: BaseException) -> None:
        self._is_broken = True
        for batch in self._batches.values():
            batch.is_kept.set()
        self.stop(error, grace=GRACE_SECONDS)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.stop(error, grace=0)


@dataclass(eq=False)
class _Batch:
    """Calls that came together; `size` of them are not kept yet."""

    size: int = 0
    is_kept: asyncio.Event = field(default_factory=asyncio.Event)


async def _halt(worker: Worker, grace: float | None) -> None:
    with suppress(ActorLostError):
        await worker.call("halt", grace)


_HINT = "look at `ray status`; what was answered is kept, and `answerkey resume` goes on"
