"""How many requests are under way at once: against endpoints that take only so much, in simulated
time.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import selectors
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answerkey.models.calls import Call, CallSettings, Clock
from answerkey.models.client import ModelClient, Round
from answerkey.models.endpoint import Concurrency
from answerkey.models.providers import APIS, Connection
from answerkey.models.retry import CallOutcome, HttpReply, HttpRequest, NoReply, RetryVerdict
from answerkey.types import Completion

ANSWER = json.dumps({"choices": [{"message": {"role": "assistant", "content": "B"}}]}).encode()
UNLIMITED = 1e9
CONNECTION = Connection("m", APIS["chat"], "http://127.0.0.1:9/v1", "m")


class _Selector(selectors.SelectSelector):
    """Does not wait: the clock moves on by as much."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nothing is left to happen"
        self.now += max(0.0, timeout)
        return super().select(0)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop in which time passes only while everybody waits."""

    def __init__(self) -> None:
        self._selecting = _Selector()
        super().__init__(self._selecting)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Return the simulated seconds."""
        return self._selecting.now


class InlineExecutor(Executor):
    """Does everything at once, in the same thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401
        """Do it."""
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


@dataclass
class Endpoint:
    """Takes `most` at once and `rate` a second, works on `slots` at a time, and fails by chance.

    `latency` makes the seconds of a request of how many are under way. `later` is a moment and the
    `most` from then on, `outage` a time in which nothing is answered.
    """

    most: int = 10_000
    rate: float = UNLIMITED
    slots: int = 10_000
    latency: Callable[[int], float] = lambda _: 0.05
    spread: float = 0.0
    status: int = 429
    headers: dict[str, str] = field(default_factory=dict)
    error_share: float = 0.0
    later: tuple[float, int] = (0.0, 0)
    outage: tuple[float, float] = (0.0, 0.0)
    seed: int = 1
    under_way: int = 0
    peak: int = 0
    sent: int = 0
    failed: int = 0
    moments: list[float] = field(default_factory=list)
    tokens: float = 10.0
    paid_at: float = 0.0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._slots = asyncio.Semaphore(self.slots)

    async def send(self, _request: HttpRequest, *, seconds: float) -> HttpReply | NoReply:
        """Answer, or refuse."""
        self.sent += 1
        self.under_way += 1
        self.peak = max(self.peak, self.under_way)
        try:
            async with asyncio.timeout(seconds):
                return await self._answer(asyncio.get_running_loop().time())
        except TimeoutError:
            self.failed += 1
            return NoReply("timeout", "no reply")
        finally:
            self.under_way -= 1

    async def _answer(self, now: float) -> HttpReply:
        self.moments.append(now)
        if self.later[1] and now >= self.later[0]:
            self.most = self.later[1]
        self.tokens, self.paid_at = min(10.0, self.tokens + (now - self.paid_at) * self.rate), now
        is_refused = self.under_way > self.most or (self.tokens < 1 and self.rate < UNLIMITED)
        is_refused |= self.outage[0] <= now < self.outage[1]
        if is_refused or self._chance.random() < self.error_share:
            self.failed += 1
            await asyncio.sleep(0.001)
            return HttpReply(self.status, self.headers, b'{"error": "no"}')
        self.tokens -= 1
        seconds = self.latency(self.under_way) * self._chance.lognormvariate(0, self.spread)
        async with self._slots:
            await asyncio.sleep(seconds)
        return HttpReply(200, {}, ANSWER)

    async def close(self) -> None:
        """Do nothing."""


def call_endpoint(
    endpoint: Endpoint, count: int, *, clients: int = 1, **connection: int
) -> tuple[float, list[int]]:
    """Make calls to an endpoint; return the seconds it took and the limits in the end.

    All are answered, unless errors by chance use up the attempts of one.
    """

    async def run(loop: SimulatedLoop) -> list[int]:
        opened = []
        for number in range(clients):
            clock = Clock(loop.time, loop.time, asyncio.sleep, random.Random(number).random)
            client = ModelClient(replace(CONNECTION, **connection), CallSettings(clock=clock))  # type: ignore[arg-type]  # of fields that are numbers
            client.executor.shutdown()
            client.executor = InlineExecutor()  # type: ignore[assignment]
            client.open_http = lambda *_: endpoint  # type: ignore[assignment]
            opened.append(client)
        calls = [Call(str(n), str(n), 0, [{"role": "user", "content": "q"}]) for n in range(count)]
        rounds, upcoming = [Round(client, calls) for client in opened], iter(calls)
        for turn in rounds:
            turn._waiting = upcoming  # all take from the same calls
        answered = await asyncio.gather(*(turn.run() for turn in rounds))
        assert sum(map(len, answered)) == len({key for batch in answered for key in batch}) == count
        texts = [turn.text for batch in answered for turn in batch.values()]
        assert endpoint.error_share or set(texts) == {"B"}
        assert texts.count("B") == endpoint.sent - endpoint.failed
        return [client.endpoint.concurrency.limit for client in opened]

    loop = SimulatedLoop()
    try:
        limits = loop.run_until_complete(run(loop))
        return loop.time(), limits
    finally:
        loop.close()


@pytest.mark.parametrize("status", [429, 503, 529])
@pytest.mark.parametrize("headers", [{}, {"retry-after": "1"}])
def test_ten_at_once_are_found_and_kept(status: int, headers: dict[str, str]) -> None:
    """800 calls of 50 ms take 4 s at best. Few are refused, and Retry-After holds up only those."""
    endpoint = Endpoint(most=10, status=status, headers=headers)
    seconds, limits = call_endpoint(endpoint, 800)
    assert seconds < (6.5 if headers else 5.0)
    assert endpoint.failed < 0.03 * endpoint.sent
    assert 7 <= limits[0] <= 11
    assert endpoint.peak <= 16


LIMITS = [1, 2, 3, 7, 8, 9, 13, 15, 20, 33, 50, 63]


@pytest.mark.parametrize("most", LIMITS if os.environ.get("ANSWERKEY_LONG") else LIMITS[::3])
def test_any_limit_is_found(most: int) -> None:
    """What the endpoint takes, with latencies that differ, in little more than the least time."""
    endpoint = Endpoint(most=most, spread=0.3)
    count = 100 * most
    seconds, limits = call_endpoint(endpoint, count)
    assert 0.7 * most - 1 <= limits[0] <= most + 1
    assert seconds < 1.3 * 1.05 * count * 0.05 / most
    assert endpoint.failed < 0.03 * endpoint.sent + 21


def test_without_a_limit_the_cap_is_reached_at_once() -> None:
    """8, 16, 32, 64: three times the latency; never more than the model allows."""
    endpoint = Endpoint()
    seconds, limits = call_endpoint(endpoint, 1600)
    assert (limits, endpoint.peak, endpoint.failed) == ([64], 64, 0)
    assert seconds < 1600 / 64 * 0.05 + 5 * 0.05
    endpoint = Endpoint()
    assert call_endpoint(endpoint, 400, max_concurrent=20)[1] == [20]
    assert endpoint.peak == 20


@pytest.mark.parametrize(("slots", "latency"), [(8, 20.0), (8, 25.0), (1, 10.0)])
def test_an_endpoint_with_a_queue_is_not_driven_into_timeouts(slots: int, latency: float) -> None:
    """More at once brings nothing but waiting there: the limit stops before requests take too
    long.
    """
    endpoint = Endpoint(slots=slots, latency=lambda _: latency)
    seconds, limits = call_endpoint(endpoint, 300)
    assert (endpoint.failed, limits[0] < 64) == (0, True)
    assert seconds < 1.02 * 300 * latency / slots


@pytest.mark.parametrize("seed", range(4 if os.environ.get("ANSWERKEY_LONG") else 1))
def test_latency_that_grows_more_slowly_does_not_stop_it(seed: int) -> None:
    """An endpoint that works in batches answers more in the same time, if each takes somewhat
    longer.
    """
    endpoint = Endpoint(latency=lambda count: max(1.0, count / 8) ** 0.5, spread=0.4, seed=seed)
    assert call_endpoint(endpoint, 1000)[1] == [64]


@pytest.mark.parametrize(("rate", "count", "most_refused"), [(100, 1000, 0.07), (20, 300, 0.15)])
@pytest.mark.parametrize("headers", [{}, {"retry-after": "1"}])
def test_a_rate_is_found_as_well(
    rate: float, count: int, most_refused: float, headers: dict[str, str]
) -> None:
    """A limit per second, with ten at the start, even if one request at a time is too many."""
    endpoint = Endpoint(rate=rate, headers=headers)
    seconds, _ = call_endpoint(endpoint, count)
    assert seconds < 1.6 * (count - 10) / rate + 2
    assert endpoint.failed < most_refused * endpoint.sent


def test_the_limit_follows_the_endpoint() -> None:
    """It rises when more is taken, and falls when less is."""
    endpoint = Endpoint(most=10, later=(2.0, 30))
    assert 22 <= call_endpoint(endpoint, 3000)[1][0] <= 31
    assert endpoint.failed < 0.03 * endpoint.sent
    endpoint = Endpoint(most=40, later=(2.0, 10))
    assert call_endpoint(endpoint, 2400)[1][0] <= 11
    assert endpoint.failed < 0.04 * endpoint.sent


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_errors_by_chance_do_not_lower_the_limit(share: float) -> None:
    """A server error is no sign of overload."""
    for seed in range(2 if os.environ.get("ANSWERKEY_LONG") else 1):
        endpoint = Endpoint(error_share=share, status=500, seed=seed)
        assert call_endpoint(endpoint, 3000)[1][0] > 25


@pytest.mark.parametrize("status", [429, 500])
def test_an_outage_is_got_over(status: int) -> None:
    """While nothing is answered little is sent; afterwards it is soon as before."""
    endpoint = Endpoint(outage=(2.0, 8.0), latency=lambda _: 0.5, status=status)
    seconds, limits = call_endpoint(endpoint, 4000)
    assert limits[0] >= 32
    assert seconds < 70
    assert endpoint.failed < 800


def test_rates_of_the_model_hold_beside_a_limit() -> None:
    """100 a second at most, and no more at once than the endpoint takes."""
    endpoint = Endpoint(most=3, latency=lambda _: 0.02)
    seconds, limits = call_endpoint(endpoint, 300, requests_per_minute=6000)
    assert 2.9 < seconds < 3.7
    assert limits[0] <= 16
    assert endpoint.failed < 0.05 * endpoint.sent
    per_second = [sum(at <= moment < at + 1 for moment in endpoint.moments) for at in range(3)]
    assert max(per_second) <= 101


def test_a_limit_that_was_not_used_does_not_grow() -> None:
    """One request at a time says nothing about eight."""
    limit = Concurrency(64)
    answered = CallOutcome(RetryVerdict.ANSWERED, Completion("B"))
    for _ in range(200):
        limit.note(limit.begin(), answered, 0.05)
    assert limit.limit == 8


def test_several_clients_share_what_an_endpoint_takes() -> None:
    """None knows of the others, and few requests are refused."""
    endpoint = Endpoint(most=10, spread=0.2)
    seconds, limits = call_endpoint(endpoint, 1600, clients=2, max_concurrent=32)
    assert seconds < 1.2 * 1600 * 0.05 / 10
    assert endpoint.failed < 0.03 * endpoint.sent
    assert sum(limits) <= 12


@settings(max_examples=25 if os.environ.get("ANSWERKEY_LONG") else 12)
@given(st.data())
def test_whatever_the_endpoint_does_calls_are_answered_within_the_cap(data: st.DataObject) -> None:
    """Nothing is lost, nothing is answered twice, and there are never more at once than allowed."""
    cap = data.draw(st.integers(1, 80), label="cap")
    endpoint = Endpoint(
        most=data.draw(st.integers(1, 100), label="most"),
        rate=data.draw(st.sampled_from([5.0, 50.0, UNLIMITED]), label="rate"),
        slots=data.draw(st.sampled_from([1, 8, 1000]), label="slots"),
        spread=data.draw(st.sampled_from([0.0, 0.5]), label="spread"),
        status=data.draw(st.sampled_from([429, 500, 503]), label="status"),
        error_share=data.draw(st.sampled_from([0.0, 0.1, 0.3]), label="errors"),
        headers=data.draw(st.sampled_from([{}, {"retry-after": "1"}]), label="headers"),
        seed=data.draw(st.integers(0, 9), label="seed"),
    )
    _, limits = call_endpoint(endpoint, 150, max_concurrent=cap)
    assert 1 <= limits[0] <= cap
    assert endpoint.peak <= cap
