"""Calling an endpoint: a plain function in front, an event loop behind it.

calls ──► known to the journal? ──► Round ──► EndpointState (semaphore, rates) ──► HttpClient
                                     └────► Commits ──► journal, then it counts
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from answerkey.errors import AnswerkeyError, raise_if_interrupted
from answerkey.models.calls import (
    Call,
    CallSettings,
    Event,
    Finished,
    FinishedCalls,
    Ledger,
    Limits,
    Retried,
    charge,
    charge_completion,
    complete_calls,
)
from answerkey.models.endpoint import EndpointState
from answerkey.models.providers import Connection
from answerkey.models.retry import Request, Retry, Verdict
from answerkey.types import Completion, CompletionStatus, make_encoder

if TYPE_CHECKING:
    from answerkey.models.http import HttpClient

LOG = logging.getLogger("answerkey.models")
#: Bodies are ASCII, so that any text is safe.
encode_body = make_encoder()
#: Calls under way when all is stopped may still be answered, and are paid for; they get this long.
GRACE_SECONDS = 5.0
#: How often a call looks whether the budget has room again.
BUDGET_POLL_SECONDS = 0.05
#: A waiting thread looks up this often, so that Ctrl-C is heard whichever thread the system gives
#: it to.
SIGNAL_SECONDS = 0.25
#: What was answered in the last moment is written within so many seconds, wherever it was sent
#: from.
WRITE_SECONDS = 1.0
#: The pause between two writings to a ledger: each costs as much as a few calls do. Connections
#: rest about as long, so that nothing waits for it.
GATHER_SECONDS = 0.004
#: So long after a writing it is made safe, together with what has been written since.
SETTLE_SECONDS = 0.02
#: Nothing more is written while so many calls are not safe yet: the disk is slower than the
#: endpoint.
MOST_UNSETTLED = 1_000
#: So many new objects make the garbage collector look for garbage while calls are made.
GARBAGE_THRESHOLD = 50_000

T = TypeVar("T")
U = TypeVar("U")


def open_http(connection: Connection, limits: Limits) -> HttpClient:
    """Return the HTTP client; aiohttp, which is large, is imported with the first one."""
    from answerkey.models.http import HttpClient

    return HttpClient(connection, limits)


class ModelClient:
    """Calls one endpoint, for one run; a context manager, closed in the end.

    `complete` may be used by several threads: one follows the other, so that a question of both is
    sent once. `open_http` is what tests replace.
    """

    def __init__(self, connection: Connection, settings: CallSettings | None = None) -> None:
        self.settings = settings or CallSettings()
        self.endpoint = EndpointState(connection, self.settings.limits, self.settings.clock)
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="answerkey-ledger")
        self.open_http = open_http
        self._http: HttpClient | None = None
        self.background = Background(f"answerkey-calls-{connection.name}")
        #: Why the endpoint was given up.
        self.reason: AnswerkeyError | None = None
        #: Calls that are under way after an interrupt.
        self._stopping: Future[None] | None = None
        self._close = weakref.finalize(self, _shut_down, self.background, self.executor)

    def complete(self, calls: Sequence[Call]) -> list[Completion]:
        """Return the completions in the order of the calls; each is in the ledger.

        A call that failed for good has a completion with status ERROR. Raises SolverError E304 (the
        key is refused), E305 (a limit is reached) or E306 (the endpoint cannot be reached), and
        what the ledger raises; what was answered before is in the ledger. An endpoint that was
        given up is not called again. Ctrl-C is raised at once; calls under way then have
        `GRACE_SECONDS`, for which `close` waits.
        """
        with self.settings.turn:
            raise_if_interrupted()  # it may have come while others were calling
            self._await_stopped()
            if self.reason is not None:
                raise self.reason
            distinct = list({call.key: call for call in calls}.values())
            stored = self.executor.submit(self.settings.ledger.find, distinct).result()
            return complete_calls(calls, stored, self._send, self.settings.watch)

    def close(self) -> None:
        """Close the connections and end the threads; twice does no harm."""
        try:
            self._await_stopped()
        finally:
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_http(self) -> HttpClient:
        """Return the HTTP client, which is opened inside the event loop and closed with it."""
        if self._http is None:
            self._http = self.open_http(self.endpoint.connection, self.endpoint.limits)
            self.background.on_stop = self._http.close
        return self._http

    def start_round(self, calls: Sequence[Call]) -> Round:
        """Return the calls as they are made here, one by one."""
        return Round(self, calls)

    def _send(self, calls: Sequence[Call]) -> dict[str, Completion]:
        started = self.start_round(calls)
        under_way = list[asyncio.Task[Any] | None]()

        async def run() -> dict[str, Completion]:
            under_way.append(asyncio.current_task())
            return await started.run()

        async def end() -> None:
            started.stop(None, grace=GRACE_SECONDS)
            for task in filter(None, under_way):
                await asyncio.wait([task])

        try:
            # An interrupt may come before `submit` returns, when calls are made already.
            running = self.background.submit(run())
            while not wait([running], timeout=SIGNAL_SECONDS).done:
                raise_if_interrupted()
            return running.result()
        except KeyboardInterrupt:
            self._stopping = self.background.submit(end())
            raise
        except AnswerkeyError as error:
            self.reason = error
            raise

    def _await_stopped(self) -> None:
        """Wait until the calls that an interrupt left under way are written, or cut off."""
        running = self._stopping
        self._stopping = None
        if running is not None:
            wait([running], timeout=GRACE_SECONDS + WRITE_SECONDS)


def report_stop(calls: int) -> None:
    """Say that the end waits for calls under way."""
    why = "stopping: waiting up to %g s for replies under way (%d); a second Ctrl-C ends at once"
    LOG.warning(why, GRACE_SECONDS, calls)


def _shut_down(background: Background, executor: ThreadPoolExecutor) -> None:
    background.stop()
    executor.shutdown()


class Round:
    """Makes calls with distinct keys, all of them unknown to the ledger.

    A call holds its place until the ledger has it, whatever becomes of this process. So what a
    sudden death loses is never more than there are connections.
    """

    def __init__(self, client: ModelClient, calls: Sequence[Call]) -> None:
        self._client = client
        self._settings = client.settings
        self._endpoint = endpoint = client.endpoint
        endpoint.connection = endpoint.connection.share_prefixes(call.messages for call in calls)
        self._rest = iter(calls)
        self._size = min(len(calls), 2 * client.endpoint.concurrency.cap)
        self._answered: dict[str, Completion] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sending: set[asyncio.Task[object] | None] = set()
        self._reason: BaseException | None = None
        self._is_stopped = False

    async def run(self) -> dict[str, Completion]:
        """Return the completions by key.

        Raise what made it stop. After `stop(None)`: what there is.
        """
        self._http = self._client.start_http()
        ledger = self._settings.ledger
        end = partial(self.stop, grace=GRACE_SECONDS)
        self._commits = Commits(ledger, self._client.executor, self._note_kept, end)
        try:
            with collect_garbage_rarely():
                for _ in range(self._size):
                    self._start(self._work())
                if self._tasks:
                    await asyncio.wait(self._tasks)
                await self._flush()
        finally:
            self._endpoint.semaphore.reset()
        if self._reason is not None:
            raise self._reason
        return self._answered

    def stop(self, reason: BaseException | None, *, grace: float | None = None) -> None:
        """Send nothing more. Requests under way get `grace` seconds (None: all they need) to be
        answered.
        """
        self._is_stopped = True
        self._reason = self._reason or reason
        if reason is None and self._sending:
            report_stop(len(self._sending))
        for task in self._tasks - self._sending:
            task.cancel()

        def cut_off() -> None:
            for task in self._tasks:
                task.cancel()

        if grace == 0:
            cut_off()
        elif grace is not None:
            asyncio.get_running_loop().call_later(grace, cut_off)

    async def _flush(self) -> None:
        await self._commits.flush()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(self._note_end)
        self._tasks.add(task)

    async def _work(self) -> None:
        semaphore = self._endpoint.semaphore
        while not self._is_stopped:
            await semaphore.enter()
            call = None if self._is_stopped else next(self._rest, None)
            completion = None if call is None else await self._make(call)
            if call is None or completion is None:
                semaphore.finish()
                return
            self._commits.put(call, completion)

    async def _make(self, call: Call) -> Completion | None:
        """Return the completion of a call, or None when the round is stopped before there is
        one.
        """
        endpoint = self._endpoint
        budget = self._settings.budget
        price = self._settings.price
        try:
            body = encode_body(endpoint.connection.build(call.messages, call.choices)).encode()
        except AnswerkeyError as error:
            return Completion(
                None, CompletionStatus.ERROR, call.messages, error=error.message, source="live"
            )
        prompt, longest = endpoint.estimate_tokens(body)
        reserved = charge(price, prompt, longest)
        cost = 0.0
        try:
            while not budget.reserve(reserved):
                await endpoint.clock.sleep(BUDGET_POLL_SECONDS)
        except AnswerkeyError as error:
            self.stop(error)
            return None
        try:
            completion = await self._send(call, body, prompt + longest)
            if completion is not None:
                cost = charge_completion(price, completion)
            return completion
        finally:
            budget.settle(reserved, cost)

    async def _send(self, call: Call, body: bytes, tokens: int) -> Completion | None:
        """Send a request until there is a completion, if only an error.

        None when the round is stopped.
        """
        endpoint = self._endpoint
        clock = self._endpoint.clock
        semaphore = self._endpoint.semaphore
        retry = Retry(endpoint.limits, clock)
        request = Request(body)
        task = asyncio.current_task()
        while True:
            if (pause := endpoint.take_turn(tokens)) > 0:
                await clock.sleep(pause)
            begun = clock.now()
            sent = endpoint.concurrency.begin()
            self._sending.add(task)
            try:
                came = await self._http.send(request, seconds=retry.begin_attempt())
            finally:
                self._sending.discard(task)
            outcome = endpoint.judge(came, sent, clock.now() - begun)
            wait = retry.choose_wait(outcome, endpoint.health)
            reason = endpoint.health.note(outcome, is_final=wait is None)
            if reason is not None:
                self.stop(reason, grace=GRACE_SECONDS)
                return None
            if self._is_stopped and outcome.verdict is not Verdict.ANSWERED:
                return None
            if wait is None:
                endpoint.note_usage(outcome.completion, tokens)
                return outcome.completion.with_fields(
                    prompt=call.messages,
                    latency=clock.now() - begun,
                    attempts=retry.attempts,
                    source="live",
                )
            why = outcome.completion.error or outcome.label
            LOG.debug("sample %s: %s; retried in %.1f s", call.sample_id, why, wait)
            self._tell(Retried(call, why, wait, retry.attempts))
            semaphore.leave()
            await clock.sleep(wait)
            await semaphore.enter(is_again=True)

    async def _in_thread(self, work: Callable[[U], T], argument: U) -> T:
        """Do something with the ledger, or with what is written beside it, outside the event
        loop.
        """
        return await asyncio.get_running_loop().run_in_executor(
            self._client.executor, work, argument
        )

    def _tell(self, event: Event) -> None:
        """Let who looks on hear an event; an error that this raises stops the calls."""
        if self._settings.watch is not None:
            try:
                self._settings.watch(event)
            except AnswerkeyError as error:
                self.stop(error)

    def _note_kept(self, kept: FinishedCalls) -> None:
        for call, completion in kept:
            self._answered[call.key] = completion
            self._tell(Finished(call, completion))
        self._endpoint.semaphore.finish(len(kept))

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.stop(error, grace=0)


@contextmanager
def collect_garbage_rarely() -> Iterator[None]:
    """Let the garbage collector look less often.

    Hundreds of requests under way are many objects, none of them garbage; looking through them
    again and again is an eighth of all work.
    """
    first, *older = gc.get_threshold()
    if not 0 < first < GARBAGE_THRESHOLD:
        yield
        return
    gc.set_threshold(GARBAGE_THRESHOLD, *older)
    try:
        yield
    finally:
        gc.set_threshold(first, *older)


@dataclass(eq=False)
class Commits:
    """The way of finished calls to a ledger: written in the event loop, made safe in a thread.

    `on_kept` hears of calls that are written, `on_error` that the ledger has failed. What the
    ledger did not take, and what comes after, is handed to it once more at the end: it is paid for.
    """

    _ledger: Ledger
    _executor: Executor
    _on_kept: Callable[[FinishedCalls], None]
    _on_error: Callable[[BaseException], None]
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _gathered: list[tuple[Call, Completion]] = field(default_factory=list)
    _unsettled: list[tuple[Call, Completion]] = field(default_factory=list)
    _writing: asyncio.Handle | None = None
    _settling: asyncio.Handle | None = None
    _task: asyncio.Future[None] | None = None
    _has_failed: bool = False
    _written_at: float = -GATHER_SECONDS

    def put(self, call: Call, completion: Completion) -> None:
        """Hand in a finished call."""
        self._gathered.append((call, completion))
        self._write_soon()

    async def flush(self) -> None:
        """Wait until everything is safe, or the ledger has failed."""
        while self._task is not None or (
            not self._has_failed and (self._gathered or self._unsettled)
        ):
            if self._task is None:
                self._write()
                self._settle()
            if self._task is not None:
                await asyncio.wait({self._task})
        unkept = self._unsettled + self._gathered
        if self._has_failed and unkept:
            with suppress(AnswerkeyError):  # why it does not work is known already
                await self._loop.run_in_executor(self._executor, self._ledger.add, unkept)

    def _write_soon(self) -> None:
        """See to it that what is gathered will be written, unless too much is not safe yet."""
        is_held = self._has_failed or len(self._unsettled) >= MOST_UNSETTLED
        if self._gathered and self._writing is None and not is_held:
            at = self._written_at + GATHER_SECONDS
            loop = self._loop
            is_late = loop.time() >= at
            self._writing = (
                loop.call_soon(self._write) if is_late else loop.call_at(at, self._write)
            )

    def _write(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        if not self._gathered or self._has_failed:
            return
        try:
            self._ledger.write(self._gathered)
        except AnswerkeyError as error:
            self._fail(error)
            return
        except BaseException as error:  # a bug; nobody waits for this function, but for the calls
            self._fail(error)
            raise
        self._written_at = self._loop.time()
        batch = self._gathered
        self._gathered = []
        self._unsettled += batch
        self._settle_soon()
        self._on_kept(batch)

    def _settle_soon(self) -> None:
        """See to it that what is written will be made safe, together with more."""
        if self._unsettled and self._task is None and self._settling is None:
            self._settling = self._loop.call_later(SETTLE_SECONDS, self._settle)

    def _settle(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        if self._unsettled and self._task is None and not self._has_failed:
            batch = list(self._unsettled)
            self._task = self._loop.run_in_executor(self._executor, self._ledger.settle, batch)
            self._task.add_done_callback(lambda done: self._note_settled(done, len(batch)))

    def _note_settled(self, done: asyncio.Future[None], count: int) -> None:
        self._task = None
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            self._fail(error)
            return
        del self._unsettled[:count]
        self._write_soon()
        self._settle_soon()

    def _fail(self, error: BaseException) -> None:
        self._has_failed = True
        self._on_error(error)


class Background:
    """Runs coroutines in its own thread until it is stopped.

    Works inside a notebook's loop as well. `on_stop` is done last, before the loop ends.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_ready = threading.Event()
        self.on_stop: Callable[[], Coroutine[Any, Any, None]] | None = None

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
        """Call a function inside the loop, without waiting for it.

        Nothing when there is no loop.
        """
        if self._loop is not None:
            self._loop.call_soon_threadsafe(function)

    def stop(self) -> None:
        """Cancel what is running, clean up, and end the thread; twice does no harm."""
        if self._thread is not None and self._loop is not None:
            self.call(self._loop.stop)
            self._thread.join()
            self._loop = None

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            loop = self._loop = runner.get_loop()
            loop.call_soon(self._is_ready.set)
            loop.run_forever()
            runner.run(self._clean_up())

    async def _clean_up(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.on_stop is not None:
            await self.on_stop()
