"""Calling an endpoint: a plain function in front, an event loop behind it.

calls ──► known to the journal? ──► Round ──► EndpointState (concurrency, rates) ──► HttpClient
                                     └────► journal, then it counts
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from answerkey.errors import AnswerkeyError, raise_if_interrupted
from answerkey.models.calls import (
    Answers,
    Call,
    Calls,
    CallSettings,
    Event,
    Finished,
    Limits,
    Retried,
    charge_completion,
    complete_calls,
)
from answerkey.models.endpoint import EndpointState
from answerkey.models.providers import Connection
from answerkey.models.responses import fail
from answerkey.models.retry import HttpRequest, Retry, RetryVerdict
from answerkey.types import Completion

if TYPE_CHECKING:
    from answerkey.models.http import HttpClient

LOG = logging.getLogger("answerkey.models")
#: Bodies are ASCII, so that any text is safe.
encode_body = json.JSONEncoder(separators=(",", ":"), default=str).encode
#: Calls under way when all is stopped may still be answered, and are paid for; they get this long.
GRACE_SECONDS = 5.0
#: How often a call looks whether the budget has room again.
BUDGET_POLL_SECONDS = 0.05
#: A waiting thread looks up this often, so that Ctrl-C is handled promptly, whichever thread the
#: system gives it to.
SIGNAL_SECONDS = 0.25
#: What was answered in the last moment is written within so many seconds, wherever it was sent
#: from.
WRITE_SECONDS = 1.0
#: The pause between two writings to a ledger: each costs as much as a few calls do.
GATHER_SECONDS = 0.002
#: The pause between two waits for the disk, which slow down the calls.
SETTLE_SECONDS = 0.05
#: While calls are made, Python looks for garbage after so many new objects.
GARBAGE_THRESHOLD = 200_000

T = TypeVar("T")
U = TypeVar("U")


def open_http(connection: Connection, limits: Limits) -> HttpClient:
    """Return the HTTP client; aiohttp, which is large, is imported with the first one."""
    from answerkey.models.http import HttpClient

    return HttpClient(connection, limits)


@contextmanager
def collect_rarely() -> Iterator[None]:
    """Have Python look for garbage rarely: it goes through all calls, which takes a fifth of the
    time.
    """
    before = gc.get_threshold()
    is_changed = 0 < before[0] < GARBAGE_THRESHOLD
    if is_changed:
        gc.set_threshold(GARBAGE_THRESHOLD)
    try:
        yield
    finally:
        if is_changed:
            gc.set_threshold(*before)


class ModelClient:
    """Calls one endpoint, for one run; a context manager, closed in the end.

    `complete` may be used by several threads: one follows the other, so that a question of both is
    sent once. `open_http` is what tests replace.
    """

    def __init__(self, connection: Connection, settings: CallSettings | None = None) -> None:
        settings = settings or CallSettings()
        self.settings = settings
        self.endpoint = EndpointState(connection, settings.limits, settings.clock)
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="answerkey-ledger")
        self.open_http = open_http
        self._http: HttpClient | None = None
        self.background = Background(f"answerkey-calls-{connection.name}")
        #: Why the endpoint was given up.
        self.reason: AnswerkeyError | None = None
        #: Calls that are under way after an interrupt.
        self._stopping: Future[None] | None = None
        self._close = weakref.finalize(self, _shut_down, self.background, self.executor)

    def complete(self, calls: Calls) -> list[Completion]:
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
            distinct = {call.key: call for call in calls}
            settings = self.settings
            stored = settings.ledger.find(list(distinct.values()))
            return complete_calls(calls, stored, self._send, settings.watch)

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
            endpoint = self.endpoint
            self._http = self.open_http(endpoint.connection, endpoint.limits)
            self.background.on_stop = self._http.close
        return self._http

    def start_round(self, calls: Calls) -> Round:
        """Return the calls as they are made here, one by one."""
        return Round(self, calls)

    def _send(self, calls: Calls) -> Answers:
        started = self.start_round(calls)
        try:
            # An interrupt may come before `submit` returns, when calls are made already.
            running = self.background.submit(started.run())
            with collect_rarely():
                while not wait([running], timeout=SIGNAL_SECONDS).done:
                    raise_if_interrupted()
            return running.result()
        except KeyboardInterrupt:
            self._stopping = self.background.submit(started.end())
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

    def __init__(self, client: ModelClient, calls: Calls) -> None:
        self._client = client
        self._settings = client.settings
        self._endpoint = client.endpoint
        self._calls = calls
        self._waiting = iter(calls)
        self._task: asyncio.Task[Any] | None = None
        self._answered: Answers = {}
        self._workers = set[asyncio.Task[None]]()
        self._sending = set[asyncio.Task[Any] | None]()
        self._finished = list[tuple[Call, Completion]]()
        self._timer: asyncio.TimerHandle | None = None
        self._store_at = 0.0
        self._unsettled = list[tuple[Call, Completion]]()
        self._settling: asyncio.Task[None] | None = None
        self._reason: BaseException | None = None
        self._is_stopped = False
        self._is_over = asyncio.Event()

    async def run(self) -> Answers:
        """Return the completions by key.

        Raise what made it stop. After `stop(None)`: what there is.
        """
        self._task = asyncio.current_task()
        self._http = self._client.start_http()
        concurrency = self._endpoint.concurrency
        try:
            for _ in self._calls[: 2 * concurrency.cap]:
                worker = asyncio.create_task(self._work())
                worker.add_done_callback(self._note_end)
                self._workers.add(worker)
            if self._workers:
                await asyncio.wait(self._workers)
            # Answered in the last moment; or the ledger has failed, and is tried again.
            if self._timer is not None:
                self._timer.cancel()
            self._store()
            self._is_over.set()
            if self._settling is not None:
                await self._settling
        finally:
            concurrency.reset()
        if self._reason is not None:
            raise self._reason
        return self._answered

    async def end(self) -> None:
        """Stop, and wait until what is under way is stored, or cut off."""
        self.stop(None, grace=GRACE_SECONDS)
        if self._task is not None:
            await asyncio.wait([self._task])

    def stop(self, reason: BaseException | None, *, grace: float | None = None) -> None:
        """Send nothing more. Requests under way get `grace` seconds (None: all they need) to be
        answered.
        """
        self._is_stopped = True
        self._reason = self._reason or reason
        if reason is None and self._sending:
            report_stop(len(self._sending))
        for task in self._workers - self._sending:
            task.cancel()

        def cut_off() -> None:
            for task in self._workers:
                task.cancel()

        if grace == 0:
            cut_off()
        elif grace is not None:
            asyncio.get_running_loop().call_later(grace, cut_off)

    def _note_end(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        if worker.cancelled():
            return
        error = worker.exception()
        if error is not None:
            self.stop(error, grace=0)

    async def _work(self) -> None:
        concurrency = self._endpoint.concurrency
        while not self._is_stopped:
            await concurrency.enter()
            completion = None
            call = next(self._waiting, None)
            if call is not None and not self._is_stopped:
                completion = await self._make(call)
            if call is None or completion is None:
                concurrency.finish()
                return
            if not self._finished:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_at(self._store_at, self._store)
            self._finished.append((call, completion))

    def _store(self) -> None:
        """Store the calls that have finished since the last time; only now they count.

        This is done here and not in a thread: it takes less time than to change threads.
        """
        batch = self._finished
        if not batch:
            return
        try:
            self._settings.ledger.write(batch)
        except Exception as error:  # noqa: BLE001 - `run` raises it
            self.stop(error, grace=GRACE_SECONDS)
            return  # nothing more is stored: `_finished` stays
        self._finished = []
        self._store_at = asyncio.get_running_loop().time() + GATHER_SECONDS
        for call, completion in batch:
            self._answered[call.key] = completion
            self._tell(Finished(call, completion))
        self._endpoint.concurrency.finish(len(batch))
        self._unsettled += batch
        if self._settling is None:
            self._settling = asyncio.create_task(self._settle())

    async def _settle(self) -> None:
        """Wait for the disk, again and again; calls are made and stored meanwhile."""
        while self._unsettled:
            batch = self._unsettled
            self._unsettled = []
            try:
                await self._in_thread(self._settings.ledger.settle, batch)
            except Exception as error:  # noqa: BLE001 - `run` raises it
                self.stop(error, grace=GRACE_SECONDS)
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_over.wait(), SETTLE_SECONDS)
        self._settling = None

    async def _make(self, call: Call) -> Completion | None:
        """Return the completion of a call, or None when the round is stopped before there is
        one.
        """
        endpoint = self._endpoint
        budget = self._settings.budget
        price = self._settings.price
        try:
            request = endpoint.connection.build(call.messages)
        except AnswerkeyError as error:
            return fail(error.message).with_fields(prompt=call.messages, source="live")
        body = encode_body(request).encode()
        reserved = endpoint.estimate_cost(body, price)
        cost = 0.0
        try:
            while not budget.reserve(reserved):
                await endpoint.clock.sleep(BUDGET_POLL_SECONDS)
        except AnswerkeyError as error:
            self.stop(error)
            return None
        try:
            completion = await self._send(call, body)
            if completion is not None:
                cost = charge_completion(price, completion)
            return completion
        finally:
            budget.settle(reserved, cost)

    async def _send(self, call: Call, body: bytes) -> Completion | None:
        """Send a request until there is a completion, if only an error.

        None when the round is stopped.
        """
        endpoint = self._endpoint
        clock = endpoint.clock
        retry = Retry(endpoint.limits, clock)
        request = HttpRequest(body)
        task = asyncio.current_task()
        while True:
            if (pause := endpoint.take_turn()) > 0:
                await clock.sleep(pause)
            begun = clock.now()
            sent = endpoint.concurrency.begin()
            self._sending.add(task)
            try:
                seconds = retry.begin_attempt()
                came = await self._http.send(request, seconds=seconds)
            finally:
                self._sending.discard(task)
            latency = clock.now() - begun
            outcome = endpoint.judge(came, sent, latency)
            wait = retry.choose_wait(outcome, endpoint.health)
            reason = endpoint.health.note(outcome, is_final=wait is None)
            if reason is not None:
                self.stop(reason, grace=GRACE_SECONDS)
                return None
            if self._is_stopped and outcome.verdict is not RetryVerdict.ANSWERED:
                return None
            if wait is None:
                endpoint.note_usage(outcome.completion)
                return outcome.completion.with_fields(
                    prompt=call.messages,
                    latency=latency,
                    attempts=retry.attempts,
                    source="live",
                )
            why = outcome.completion.error or outcome.label
            LOG.debug("sample %s: %s; retried in %.1f s", call.sample_id, why, wait)
            self._tell(Retried(call, why, wait, retry.attempts))
            endpoint.concurrency.leave()
            await clock.sleep(wait)
            await endpoint.concurrency.enter(is_retry=True)

    async def _in_thread(self, work: Callable[[U], T], argument: U) -> T:
        """Do something with the ledger, or with what is written beside it, outside the event
        loop.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._client.executor, work, argument)

    def _tell(self, event: Event) -> None:
        """Let who looks on hear an event; an error that this raises stops the calls."""
        try:
            self._settings.watch(event)
        except AnswerkeyError as error:
            self.stop(error)


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
            self._thread = threading.Thread(
                target=self._run,
                name=self._name,
                daemon=True,
            )
            self._thread.start()
        self._is_ready.wait()
        if self._loop is None:
            work.close()
            raise RuntimeError("the event loop has been stopped")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop(self) -> None:
        """Cancel what is running, clean up, and end the thread; twice does no harm."""
        if self._thread is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
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
