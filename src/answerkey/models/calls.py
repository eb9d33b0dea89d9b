"""Calling an endpoint: a plain function in front, an event loop behind it.

calls ──► known to the journal? ──► Round ──► EndpointState (semaphore, rates) ──► Client (HTTP)
                                     └────► Commits ──► journal, then it counts
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
import logging
import random
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from json import encoder
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypedDict, TypeVar, runtime_checkable

from answerkey.errors import AnswerkeyError, SolverError
from answerkey.models.providers import Connection
from answerkey.models.retry import Clock, EndpointState, Limits, NoReply, Outcome, Patience, Reply, Verdict
from answerkey.types import Completion, CompletionStatus

if TYPE_CHECKING:
    from answerkey.models.client import HttpClient


def make_encoder(
    default: Callable[[object], object] = str, *, sort_keys: bool = False
) -> Callable[[object], str]:
    """Return what makes compact JSON in ASCII; `default` makes something of what JSON does not know.

    The same text comes from `json.JSONEncoder.encode`, which puts its machine together anew for each.
    """
    make = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return json.JSONEncoder(separators=(",", ":"), default=default, sort_keys=sort_keys).encode
    skips_keys, takes_nan = False, True
    quote = encoder.encode_basestring_ascii
    machine = make(None, default, quote, None, ":", ",", sort_keys, skips_keys, takes_nan)
    return lambda value: "".join(machine(value, 0))


@dataclass(frozen=True, slots=True)
class Call:
    """One question to a model; `purpose` is `solve`, or `judge:` and the key of a scorer.

    Calls with the same `key` are the same question and share one completion.
    """

    key: str
    sample_id: str
    trial: int
    messages: Sequence[Mapping[str, object]]
    purpose: str = "solve"


class Ledger(Protocol):
    """Where finished calls are kept; used by one thread at a time."""

    def find(self, calls: Sequence[Call]) -> dict[str, Completion]:
        """Return the completions that are known, by the key of the call; failed calls are not among them."""

    def add(self, finished: Sequence[tuple[Call, Completion]]) -> None:
        """Keep finished calls; they are safe when this returns."""


@runtime_checkable
class SwiftLedger(Ledger, Protocol):
    """A ledger that keeps calls in two steps; `write` and `settle` together do what `add` does."""

    def write(self, finished: Sequence[tuple[Call, Completion]]) -> None:
        """Keep finished calls so that they outlive this process; the event loop waits for it."""

    def settle(self, finished: Sequence[tuple[Call, Completion]]) -> None:
        """Make sure that what was written outlives the machine as well; called from another thread."""


@dataclass
class MemoryLedger:
    """A ledger for runs that leave nothing behind."""

    kept: dict[str, Completion] = field(default_factory=dict)

    def find(self, calls: Sequence[Call]) -> dict[str, Completion]:
        """Return the completions that are known, by the key of the call; failed calls are not among them."""
        found = {call.key: self.kept.get(call.key) for call in calls}
        return {key: one for key, one in found.items() if one and one.status is not CompletionStatus.ERROR}

    def add(self, finished: Sequence[tuple[Call, Completion]]) -> None:
        """Keep finished calls."""
        self.kept.update((call.key, completion) for call, completion in finished)


#: One order and no spaces, so that equal questions have equal texts.
_encode_canonically = make_encoder(sort_keys=True)


class Identified(Protocol):
    """Something that answers, as far as the key of a call is concerned."""

    @property
    def identity(self) -> str:
        """A stable text for everything that decides the answer, without secrets."""


def call_key(connection: Identified, messages: Sequence[Mapping[str, object]], trial: int) -> str:
    """Return the key of a question: the same for the same model, parameters, messages and trial.

    The order of the keys inside a message does not matter.
    """
    parts = [connection.identity, list(messages), trial]
    return hashlib.sha256(_encode_canonically(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Finished:
    """A call has its completion, and the ledger has it; `is_known` ones were not asked for."""

    call: Call
    completion: Completion
    is_known: bool


@dataclass(frozen=True, slots=True)
class Retried:
    """A call met trouble and is asked again after `wait` seconds; `attempt` counts from 1."""

    call: Call
    why: str
    wait: float
    attempt: int


@dataclass(frozen=True, slots=True)
class Adapted:
    """From now on so many requests may be under way at once."""

    limit: int
    why: str


@dataclass(frozen=True, slots=True)
class BatchSeen:
    """A batch was looked at: its status as the endpoint names it, and how many of its calls are done."""

    batch: str
    status: str
    done: int
    total: int
    is_over: bool


@dataclass(frozen=True, slots=True)
class BatchLeft:
    """The waiting ends before a batch does; it goes on at the endpoint, and can be collected later."""

    batch: str
    calls: int


Event = Finished | Retried | Adapted | BatchSeen | BatchLeft

#: Hears every event, one at a time and in a hurry: asking waits for it. An AnswerkeyError that it raises
#: stops the asking; calls under way are finished and kept.
Watch = Callable[[Event], None]


RESUME_HINT = "what was answered is kept; `answerkey resume` goes on without this limit, or with a new one"


@dataclass(frozen=True)
class Price:
    """What one token costs, in the currency of the limit."""

    prompt: float
    completion: float

    def charge(self, prompt_tokens: float, completion_tokens: float) -> float:
        """Return what so many tokens cost."""
        return self.prompt * prompt_tokens + self.completion * completion_tokens


def charge(price: Price | None, prompt_tokens: int | None, completion_tokens: int | None) -> float:
    """Return what tokens cost; nothing when no price is known."""
    return 0.0 if price is None else price.charge(prompt_tokens or 0, completion_tokens or 0)


@dataclass
class Budget:
    """What may still be asked; shared by all askers of a run, and safe for threads.

    A call is counted once, however often it is retried; one that is already known is not counted. `calls`
    and `spent` start with what the run has used before. Money is set aside before a call is sent, and
    settled with what it cost.
    """

    max_calls: int | None = None
    max_cost: float | None = None
    calls: int = 0
    spent: float = 0.0
    _reserved: float = field(default=0.0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def reserve(self, cost: float) -> bool:
        """Set money and one call aside; False means: calls under way must be settled first.

        Raises SolverError E305 when the next call would pass a limit, whatever those under way cost.
        """
        with self._lock:
            if self.max_calls is not None and self.calls >= self.max_calls:
                raise SolverError("E305", f"stopped at the limit of {self.max_calls} calls", hint=RESUME_HINT)
            if self.max_cost is not None and self.spent + cost > self.max_cost:
                message = (
                    f"stopped before the limit of {self.max_cost:g}: {self.spent:.4f} is spent, "
                    f"and the next call may cost {cost:.4f}"
                )
                raise SolverError("E305", message, hint=RESUME_HINT)
            if self.max_cost is not None and self.spent + self._reserved + cost > self.max_cost:
                return False
            self.calls += 1
            self._reserved += cost
            return True

    def admit(self, calls: int) -> None:
        """Count calls that were sent before, by a process that did not live to see them answered."""
        with self._lock:
            self.calls += calls

    def settle(self, reserved: float, cost: float) -> None:
        """Replace what was set aside for a call by what it cost."""
        with self._lock:
            self._reserved = max(0.0, self._reserved - reserved)
            self.spent += cost


#: So long after one writing to a swift ledger comes the next: each costs as much as a few calls do.
GATHER_SECONDS = 0.002
#: So long after a writing it is made safe, together with what has been written since.
SETTLE_SECONDS = 0.02
#: Nothing more is written while so many calls are not safe yet: the disk is slower than the endpoint.
MOST_UNSETTLED = 1_000

Batch = list[tuple[Call, Completion]]


@dataclass(frozen=True)
class Notes:
    """Who hears what: that so many calls need no place any more, that the ledger has one, that it failed.

    What the ledger did not take, and what comes after, is handed to it once more at the end: it is paid for.
    """

    free: Callable[[int], None]
    keep: Callable[[Call, Completion], None]
    fail: Callable[[BaseException], None]


def open_commits(ledger: Ledger, executor: Executor, notes: Notes) -> PlainCommits:
    """Return the way to a ledger; `executor` has one thread."""
    if isinstance(ledger, SwiftLedger):
        return SwiftCommits(ledger, executor, notes)
    return PlainCommits(ledger, executor, notes)


class PlainCommits:
    """Writes in the thread of the executor, one batch after the other; used inside one event loop."""

    def __init__(self, ledger: Ledger, executor: Executor, notes: Notes) -> None:
        self._ledger = ledger
        self._executor = executor
        self._notes = notes
        self._gathered: Batch = []
        self._task: asyncio.Task[None] | None = None
        self._has_failed = False

    def put(self, call: Call, completion: Completion) -> None:
        """Hand in a finished call."""
        self._gathered.append((call, completion))
        self._go_on()

    async def flush(self) -> None:
        """Wait until everything is safe, or the ledger has failed."""
        while self._task is not None:
            await asyncio.wait({self._task})
        if self._has_failed:
            await _add_rest(self._ledger, self._executor, self._gathered)

    def _go_on(self) -> None:
        if self._gathered and self._task is None and not self._has_failed:
            self._task = asyncio.get_running_loop().create_task(self._write())
            self._task.add_done_callback(self._end)

    async def _write(self) -> None:
        batch, self._gathered = self._gathered, []
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._ledger.add, batch)
        except AnswerkeyError:
            self._gathered = batch + self._gathered
            raise
        self._note_kept(batch)

    def _note_kept(self, batch: Batch) -> None:
        for call, completion in batch:
            self._notes.keep(call, completion)
        self._notes.free(len(batch))

    def _end(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._fail(error)
        self._go_on()

    def _fail(self, error: BaseException) -> None:
        self._has_failed = True
        self._notes.fail(error)


class SwiftCommits(PlainCommits):
    """Writes in the event loop itself, and has it made safe in the thread of the executor."""

    def __init__(self, ledger: SwiftLedger, executor: Executor, notes: Notes) -> None:
        super().__init__(ledger, executor, notes)
        self._swift = ledger
        self._loop = asyncio.get_running_loop()
        self._unsettled: Batch = []
        self._writing: asyncio.Handle | None = None
        self._settling: asyncio.Handle | None = None
        self._written_at = -GATHER_SECONDS

    async def flush(self) -> None:
        """Wait until everything is safe, or the ledger has failed."""
        while (self._gathered or self._unsettled or self._task) and not self._has_failed:
            if self._task is None:
                self._write_now()
                self._settle()
            if self._task is not None:
                await asyncio.wait({self._task})
        if self._task is not None:
            await asyncio.wait({self._task})
        if self._has_failed:
            await _add_rest(self._ledger, self._executor, self._unsettled + self._gathered)

    def _go_on(self) -> None:
        """See to it that what is gathered will be written, unless too much is not safe yet."""
        is_held = self._has_failed or len(self._unsettled) >= MOST_UNSETTLED
        if not self._gathered or self._writing is not None or is_held:
            return
        at = self._written_at + GATHER_SECONDS
        is_late = self._loop.time() >= at
        self._writing = (
            self._loop.call_soon(self._write_now) if is_late else self._loop.call_at(at, self._write_now)
        )

    def _write_now(self) -> None:
        _cancel(self._writing)
        self._writing = None
        if not self._gathered or self._has_failed:
            return
        batch, self._gathered = self._gathered, []
        try:
            self._swift.write(batch)
        except AnswerkeyError as error:
            self._take_back(batch, error)
            return
        except BaseException as error:  # a bug; nobody waits for this function, but for the calls
            self._take_back(batch, error)
            raise
        self._written_at = self._loop.time()
        self._unsettled += batch
        self._settle_soon()
        self._note_kept(batch)

    def _settle_soon(self) -> None:
        """See to it that what is written will be made safe, together with more."""
        if self._unsettled and self._task is None and self._settling is None:
            self._settling = self._loop.call_later(SETTLE_SECONDS, self._settle)

    def _settle(self) -> None:
        _cancel(self._settling)
        self._settling = None
        if self._unsettled and self._task is None and not self._has_failed:
            self._task = self._loop.create_task(self._settle_batch(list(self._unsettled)))
            self._task.add_done_callback(self._end)

    async def _settle_batch(self, batch: Batch) -> None:
        await self._loop.run_in_executor(self._executor, self._swift.settle, batch)
        del self._unsettled[: len(batch)]

    def _end(self, task: asyncio.Task[None]) -> None:
        super()._end(task)
        if not self._has_failed and not task.cancelled():
            self._settle_soon()

    def _take_back(self, batch: Batch, error: BaseException) -> None:
        self._gathered = batch + self._gathered
        self._fail(error)


def _cancel(handle: asyncio.Handle | None) -> None:
    if handle is not None:
        handle.cancel()


async def _add_rest(ledger: Ledger, executor: Executor, rest: Batch) -> None:
    """Try once more; the reason why it does not work is known already."""
    if rest:
        with suppress(AnswerkeyError):
            await asyncio.get_running_loop().run_in_executor(executor, ledger.add, rest)


T = TypeVar("T")


class Background:
    """Runs coroutines in its own thread until it is stopped; works inside a notebook's loop as well."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_ready = threading.Event()
        self._is_over: asyncio.Event | None = None
        self._on_stop: Callable[[], Coroutine[Any, Any, None]] | None = None

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine; the thread is started with the first one."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
            self._is_ready.wait()
        if self._loop is None:
            work.close()
            raise RuntimeError("the event loop has been stopped")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[[], None]) -> None:
        """Call a function inside the loop, without waiting for it; nothing when there is no loop."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(function)

    def stop_with(self, clean_up: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Say what is to be done last, before the loop ends."""
        self._on_stop = clean_up

    def stop(self) -> None:
        """Cancel what is running, clean up, and end the thread; twice does no harm."""
        if self._thread is None or self._loop is None:
            return
        over = self._is_over
        if over is not None:
            self.call(over.set)
        self._thread.join()
        self._loop = None

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=find_loop_factory()) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_over = asyncio.Event()
        self._is_ready.set()
        await self._is_over.wait()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        if self._on_stop is not None:
            await self._on_stop()


def find_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop where uvloop is installed, else None for Python's own."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return None
    return factory


#: Bodies are ASCII, so that any text is safe.
encode_body = make_encoder()
LOG = logging.getLogger("answerkey.models")
#: Calls under way when the asking stops may still be answered, and are paid for; they get this long.
GRACE_SECONDS = 5.0
#: How often a call looks whether the budget has room again.
BUDGET_POLL_SECONDS = 0.05


class Sender(Protocol):
    """Posts a body to one endpoint."""

    async def post(self, body: bytes, *, seconds: float) -> Reply | NoReply:
        """Return what came back within so many seconds."""

    async def close(self) -> None:
        """Close all connections."""


@dataclass(frozen=True)
class Terms:
    """Under which terms calls are asked: where they are kept, what they may cost, who looks on."""

    ledger: Ledger
    executor: Executor
    budget: Budget
    price: Price | None
    watch: Watch | None

    def tell(self, event: Event, stop: Callable[[AnswerkeyError], None]) -> None:
        """Let who looks on hear an event; what that raises goes to `stop`."""
        if self.watch is None:
            return
        try:
            self.watch(event)
        except AnswerkeyError as error:
            stop(error)


class Round:
    """Asks calls with distinct keys, all of them unknown to the ledger.

    A call holds its place until the ledger has it, whatever becomes of this process. So what a sudden death
    loses is never more than there are connections.
    """

    def __init__(self, line: EndpointState, sender: Sender, terms: Terms, calls: Sequence[Call]) -> None:
        self._endpoint = line
        self._sender = sender
        self._terms = terms
        self._rest = iter(calls)
        self._size = min(len(calls), 2 * line.concurrent)
        self._answered: dict[str, Completion] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sending: set[asyncio.Task[object]] = set()
        self._reason: BaseException | None = None
        self._is_stopped = False
        notes = Notes(line.semaphore.finish, self._note_kept, self._note_broken)
        self._commits = open_commits(terms.ledger, terms.executor, notes)

    async def run(self) -> dict[str, Completion]:
        """Return the completions by key; raise what made it stop. After `stop(None)`: what there is."""
        try:
            for _ in range(self._size):
                task = asyncio.create_task(self._work())
                task.add_done_callback(self._note_end)
                self._tasks.add(task)
            if self._tasks:
                await asyncio.wait(self._tasks)
            await self._commits.flush()
        finally:
            self._endpoint.semaphore.reset()
        if self._reason is not None:
            raise self._reason
        return self._answered

    def stop(self, reason: BaseException | None, *, grace: float | None = None) -> None:
        """Send nothing more. Requests under way get `grace` seconds (None: all they need) to be answered."""
        self._is_stopped = True
        self._reason = self._reason or reason
        for task in self._tasks - self._sending:
            task.cancel()
        if grace == 0:
            self._cut_off()
        elif grace is not None:
            asyncio.get_running_loop().call_later(grace, self._cut_off)

    def _cut_off(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _work(self) -> None:
        gate = self._endpoint.semaphore
        while not self._is_stopped:
            await gate.enter()
            call = None if self._is_stopped else next(self._rest, None)
            completion = None if call is None else await self._ask(call)
            if call is None or completion is None:
                gate.finish()
                return
            self._commits.put(call, completion)

    async def _ask(self, call: Call) -> Completion | None:
        """Return the completion of a call, or None when the round is stopped before there is one."""
        body = self._encode(call)
        if isinstance(body, Completion):
            return body
        prompt, longest = self._endpoint.estimate_tokens(body)
        reserved = charge(self._terms.price, prompt, longest)
        try:
            while not self._terms.budget.reserve(reserved):
                await self._endpoint.clock.sleep(BUDGET_POLL_SECONDS)
        except AnswerkeyError as error:
            self.stop(error)
            return None
        cost = 0.0
        try:
            completion = await self._try_until_final(call, body, prompt + longest)
            if completion is not None:
                cost = charge(self._terms.price, completion.prompt_tokens, completion.completion_tokens)
            return completion
        finally:
            self._terms.budget.settle(reserved, cost)

    def _encode(self, call: Call) -> bytes | Completion:
        try:
            body = self._endpoint.connection.build(call.messages)
        except AnswerkeyError as error:
            return Completion(None, CompletionStatus.ERROR, call.messages, error=error.message, source="live")
        return encode_body(body).encode()

    async def _try_until_final(self, call: Call, body: bytes, tokens: int) -> Completion | None:
        line = self._endpoint
        patience = Patience(line.limits, line.clock, line.draw)
        while True:
            if (pause := line.take_turn(tokens)) > 0:
                await line.clock.sleep(pause)
            begun = line.clock.now()
            outcome = await self._send(body, patience.begin_attempt())
            wait = patience.choose_wait(outcome, is_reached=line.health.is_reached)
            if self._must_stop(outcome, is_final=wait is None):
                return None
            if wait is None:
                line.note_usage(outcome.completion, tokens)
                latency = line.clock.now() - begun
                return outcome.completion.with_fields(
                    prompt=call.messages, latency=latency, attempts=patience.attempts, source="live"
                )
            self._tell_retry(call, outcome, wait, patience.attempts)
            line.semaphore.leave()
            await line.clock.sleep(wait)
            await line.semaphore.enter_again()

    async def _send(self, body: bytes, seconds: float) -> Outcome:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("sending happens inside a task")
        epoch = self._endpoint.semaphore.pace.epoch
        self._sending.add(task)
        try:
            came = await self._sender.post(body, seconds=seconds)
        finally:
            self._sending.discard(task)
        outcome, has_adapted = self._endpoint.judge(came, epoch)
        if has_adapted:
            self._tell(Adapted(self._endpoint.semaphore.pace.limit, outcome.label or "healthy"))
        return outcome

    def _must_stop(self, outcome: Outcome, *, is_final: bool) -> bool:
        """Return whether this call comes to no end: the endpoint is given up, or all has been stopped."""
        reason = self._endpoint.health.note(outcome, is_final=is_final)
        if reason is not None:
            self.stop(reason, grace=GRACE_SECONDS)
            return True
        return self._is_stopped and outcome.verdict is not Verdict.ANSWERED

    def _tell_retry(self, call: Call, outcome: Outcome, wait: float, attempt: int) -> None:
        why = outcome.completion.error or outcome.label
        LOG.debug("sample %s: %s; asked again in %.1f s", call.sample_id, why, wait)
        self._tell(Retried(call, why, wait, attempt))

    def _tell(self, event: Event) -> None:
        self._terms.tell(event, self.stop)

    def _note_kept(self, call: Call, completion: Completion) -> None:
        self._answered[call.key] = completion
        if self._terms.watch is not None:
            self._tell(Finished(call, completion, is_known=False))

    def _note_broken(self, error: BaseException) -> None:
        self.stop(error, grace=GRACE_SECONDS)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.stop(error, grace=0)


#: A waiting thread looks up this often, so that Ctrl-C is heard whichever thread the system gives it to.
SIGNAL_SECONDS = 0.25
#: What was answered in the last moment is written within so many seconds, wherever it was asked from.
WRITE_SECONDS = 1.0


def open_client(connection: Connection, limits: Limits) -> HttpClient:
    """Return the HTTP client; aiohttp, which is large, is imported with the first one."""
    from answerkey.models.client import HttpClient

    return HttpClient(connection, limits)


@dataclass(frozen=True)
class Means:
    """What an asker takes from the world: time, chance, and HTTP. Tests bring their own."""

    clock: Clock = field(default_factory=lambda: Clock(time.monotonic, time.time, asyncio.sleep))
    draw: Callable[[], float] = random.random
    open_sender: Callable[[Connection, Limits], Sender] = open_client


class RunningCalls(Protocol):
    """Calls that are being asked."""

    async def run(self) -> dict[str, Completion]:
        """Return the completions by key; raise what made it stop."""

    def stop(self, reason: BaseException | None, *, grace: float | None = None) -> None:
        """Send nothing more; requests under way get `grace` seconds."""


class ClientSettings(TypedDict, total=False):
    """The settings of an asker that may be left out."""

    ledger: Ledger | None
    limits: Limits | None
    budget: Budget | None
    price: Price | None
    watch: Watch | None
    means: Means | None


class ModelClient:
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
        self._endpoint = EndpointState(connection, limits or Limits(), self._means.clock, self._means.draw)
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

    async def _open_round(self, calls: Sequence[Call]) -> RunningCalls:
        if self._sender is None:
            sender = self._means.open_sender(self._endpoint.connection, self._endpoint.limits)
            self._background.stop_with(sender.close)
            self._sender = sender
        return Round(self._endpoint, self._sender, self._terms, calls)

    def _tell(self, events: Iterable[Event]) -> None:
        if self._terms.watch is not None:
            for event in events:
                self._terms.watch(event)


def _shut_down(background: Background, executor: ThreadPoolExecutor) -> None:
    background.stop()
    executor.shutdown()
