"""Calls one endpoint: a plain function in front, an event loop behind it.

calls ──► in the journal? ──► Round ──► EndpointState (concurrency, rates) ──► HttpClient
                                └────► journal, and only then does a call count
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
    complete_calls,
    completion_cost,
)
from answerkey.models.endpoint import EndpointState
from answerkey.models.providers import Connection
from answerkey.models.responses import fail
from answerkey.models.retry import HttpRequest, Retry, RetryVerdict
from answerkey.types import Completion

if TYPE_CHECKING:
    from answerkey.models.http import HttpClient

LOG = logging.getLogger("answerkey.models")
#: Bodies are ASCII, which is safe for any text.
encode_body = json.JSONEncoder(separators=(",", ":"), default=str).encode
#: How long open calls get after an interrupt: they may still be answered, and are paid for.
GRACE_SECONDS = 5.0
#: How often a call checks whether the budget has room again.
BUDGET_POLL_SECONDS = 0.05
#: How often a waiting thread wakes up, so that Ctrl-C is handled promptly whichever thread the
#: system delivers it to.
SIGNAL_SECONDS = 0.25
#: How long the last answers may take to be written after the calls have been cut off.
WRITE_SECONDS = 1.0
#: The pause between two writes to a ledger; each costs as much as a few calls.
GATHER_SECONDS = 0.002
#: The pause between two syncs to disk, which slow down the calls.
SETTLE_SECONDS = 0.05
#: The threshold of Python's garbage collector while calls are made.
GARBAGE_THRESHOLD = 200_000

T = TypeVar("T")
U = TypeVar("U")


def open_http(connection: Connection, limits: Limits) -> HttpClient:
    """Return the HTTP client; aiohttp, which is large, is imported with the first one."""
    from answerkey.models.http import HttpClient

    return HttpClient(connection, limits)


@contextmanager
def collect_rarely() -> Iterator[None]:
    """Run the garbage collector rarely: visiting all calls would take a fifth of the time."""
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
    """Calls one endpoint for one run; a context manager.

    `complete` may be used from several threads, one at a time, so that a question of both is sent
    once. Tests replace `open_http`.
    """

    def __init__(self, connection: Connection, settings: CallSettings | None = None) -> None:
        settings = settings or CallSettings()
        self.settings = settings
        self.endpoint = EndpointState(connection, settings.limits, settings.clock)
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="answerkey-ledger")
        self.open_http = open_http
        self._http: HttpClient | None = None
        self.background = Background(f"answerkey-calls-{connection.name}")
        #: Why the endpoint is no longer called.
        self.reason: AnswerkeyError | None = None
        #: The calls that an interrupt left open.
        self._stopping: Future[None] | None = None
        self._close = weakref.finalize(self, _shut_down, self.background, self.executor)

    def complete(self, calls: Calls) -> list[Completion]:
        """Return the completions in the order of the calls; each is in the ledger.

        A call that failed permanently has a completion with status ERROR. Raises SolverError E304
        (the key is refused), E305 (a limit is reached) or E306 (the endpoint cannot be reached),
        and errors of the ledger; earlier answers are in the ledger. After such an error the
        endpoint is not called again. Ctrl-C is raised at once; open calls then have
        `GRACE_SECONDS`, for which `close` waits.
        """
        with self.settings.turn:
            raise_if_interrupted()  # while this thread waited for its turn
            self._await_stopped()
            if self.reason is not None:
                raise self.reason
            distinct = {call.key: call for call in calls}
            settings = self.settings
            stored = settings.ledger.find(list(distinct.values()))
            return complete_calls(calls, stored, self._send, settings.watch)

    def close(self) -> None:
        """Close the connections and end the threads; calling it twice is harmless."""
        try:
            self._await_stopped()
        finally:
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_http(self) -> HttpClient:
        """Return the HTTP client, which is opened and closed inside the event loop."""
        if self._http is None:
            endpoint = self.endpoint
            self._http = self.open_http(endpoint.connection, endpoint.limits)
            self.background.on_stop = self._http.close
        return self._http

    def start_round(self, calls: Calls) -> Round:
        """Return a round of these calls."""
        return Round(self, calls)

    def _send(self, calls: Calls) -> Answers:
        started = self.start_round(calls)
        try:
            # An interrupt may arrive before `submit` returns, when calls are already being made.
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
        """Wait until the calls that an interrupt left open are written, or cut off."""
        running = self._stopping
        self._stopping = None
        if running is not None:
            wait([running], timeout=GRACE_SECONDS + WRITE_SECONDS)


def report_stop(calls: int) -> None:
    """Log that open calls are being waited for."""
    why = "stopping: waiting up to %g s for replies under way (%d); a second Ctrl-C ends at once"
    LOG.warning(why, GRACE_SECONDS, calls)


def _shut_down(background: Background, executor: ThreadPoolExecutor) -> None:
    background.stop()
    executor.shutdown()


class Round:
    """Makes calls with distinct keys that the ledger does not have.

    A call keeps its slot until the ledger has it. So a crash of this process never loses more calls
    than there are connections.
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

        Raises the error that stopped it; after `stop(None)` it returns the completions so far.
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
            # The last answers; or the ledger has failed, and this tries again.
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
        """Stop, and wait until open calls are stored or cut off."""
        self.stop(None, grace=GRACE_SECONDS)
        if self._task is not None:
            await asyncio.wait([self._task])

    def stop(self, reason: BaseException | None, *, grace: float | None = None) -> None:
        """Send nothing more.

        Open requests get `grace` seconds to be answered; None means as long as they need.
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
        """Store the calls that have finished since the last time; only now do they count.

        Done on the event loop: it takes less time than a change of threads.
        """
        batch = self._finished
        if not batch:
            return
        try:
            self._settings.ledger.write(batch)
        except Exception as error:  # noqa: BLE001 - `run` raises it
            self.stop(error, grace=GRACE_SECONDS)
            return  # `_finished` stays, so nothing more is stored
        self._finished = []
        self._store_at = asyncio.get_running_loop().time() + GATHER_SECONDS
        for call, completion in batch:
            self._answered[call.key] = completion
            self._notify(Finished(call, completion))
        self._endpoint.concurrency.finish(len(batch))
        self._unsettled += batch
        if self._settling is None:
            self._settling = asyncio.create_task(self._settle())

    async def _settle(self) -> None:
        """Sync to disk again and again, while further calls are made and stored."""
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
        """Return the completion of a call; None if the round is stopped before there is one."""
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
                cost = completion_cost(price, completion)
            return completion
        finally:
            budget.settle(reserved, cost)

    async def _send(self, call: Call, body: bytes) -> Completion | None:
        """Send a request until it has a completion, which may be an error.

        Returns None if the round is stopped.
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
                reply = await self._http.send(request, seconds=seconds)
            finally:
                self._sending.discard(task)
            latency = clock.now() - begun
            outcome = endpoint.judge(reply, sent, latency)
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
            self._notify(Retried(call, why, wait, retry.attempts))
            endpoint.concurrency.leave()
            await clock.sleep(wait)
            await endpoint.concurrency.enter(is_retry=True)

    async def _in_thread(self, work: Callable[[U], T], argument: U) -> T:
        """Use the ledger outside the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._client.executor, work, argument)

    def _notify(self, event: Event) -> None:
        """Pass an event on; an error of the listener stops the calls."""
        try:
            self._settings.watch(event)
        except AnswerkeyError as error:
            self.stop(error)


class Background:
    """Runs coroutines in a thread of its own until it is stopped.

    This also works inside a notebook's loop. `on_stop` runs last, before the loop ends.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_ready = threading.Event()
        self.on_stop: Callable[[], Coroutine[Any, Any, None]] | None = None

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine; the first one starts the thread."""
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
        """Cancel what is running, clean up, and end the thread; calling it twice is harmless."""
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
