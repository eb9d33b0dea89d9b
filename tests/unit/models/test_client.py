"""Laws of calls: each is made once, in order and within its budget, and kept before it counts."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import signal
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.errors import AnswerkeyError, RunError, SolverError
from answerkey.models.calls import (
    Budget,
    Call,
    CallSettings,
    Clock,
    Event,
    Finished,
    FinishedCalls,
    Limits,
    MemoryLedger,
    Retried,
    Reused,
    call_key,
    charge,
    completion_cost,
)
from answerkey.models.client import Background, ModelClient
from answerkey.models.config import Generation, Price
from answerkey.models.providers import APIS, Connection
from answerkey.models.retry import HttpReply, HttpRequest, NoReply
from answerkey.models.store import decode_completion, encode_completion
from answerkey.types import Completion, CompletionStatus

T = TypeVar("T")
CHAT = APIS["chat"]
URL = "http://127.0.0.1:9/v1"
CONNECTION = Connection("m", CHAT, URL, "m", generation=Generation(max_tokens=10))


def say(text: str, status: int = 200, **headers: str) -> HttpReply:
    """Return a reply in the way of OpenAI."""
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    body = {"choices": [{"message": {"role": "assistant", "content": text}}], "usage": usage}
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpReply(status, sent, json.dumps(body if status == 200 else {"error": text}).encode())


@dataclass
class FakeEndpoint:
    """An endpoint without a network: answers by question and attempt (from 1), and counts.

    Its clock is one in which sleep takes no time, but time passes.
    """

    answer: Callable[[str, int], HttpReply | NoReply] = lambda text, attempt: say(
        f"{text} {attempt}"
    )
    asked: list[str] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    is_closed: bool = False
    time: float = 0.0
    slept: list[float] = field(default_factory=list)

    async def send(self, request: HttpRequest, *, seconds: float) -> HttpReply | NoReply:
        """Answer after one turn of the loop."""
        assert seconds > 0
        question = json.loads(request.body or b"")["messages"][0]["content"]
        self.asked.append(question)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
        finally:
            self.at_once -= 1
        return self.answer(question, self.asked.count(question))

    async def close(self) -> None:
        """Note that it was closed."""
        self.is_closed = True

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)

    def open(self, connection: Connection = CONNECTION, **settings: object) -> ModelClient:
        """Return a client that calls it."""
        clock = Clock(lambda: self.time, lambda: self.time, self.sleep, lambda: 1.0)
        client = ModelClient(connection, CallSettings(clock=clock, **settings))  # type: ignore[arg-type]
        client.open_http = lambda *_: self  # type: ignore[assignment]
        return client

    def fail(self, calls: Sequence[Call], match: str, **settings: object) -> AnswerkeyError:
        """Return the error that calls end with."""
        failing = pytest.raises(AnswerkeyError, match=match)
        with self.open(CONNECTION, **settings) as client, failing as caught:
            client.complete(calls)
        return caught.value


def make_calls(*questions: str) -> list[Call]:
    """Return one call for each question."""
    conversations = [[{"role": "user", "content": question}] for question in questions]
    return [
        Call(call_key(CONNECTION.identity, messages, 0), f"{number:03d}", 0, messages)
        for number, messages in enumerate(conversations)
    ]


def number_calls(count: int) -> list[Call]:
    """Return this many different calls."""
    return make_calls(*(f"q{number}" for number in range(count)))


def test_completions_come_in_the_order_of_the_calls() -> None:
    """Whatever is answered first, each call gets its own completion at its own place."""
    with FakeEndpoint().open() as client:
        completions = client.complete(number_calls(300))
    assert [reply.text for reply in completions] == [f"q{n} 1" for n in range(300)]
    assert completions[0] == Completion(
        "q0 1",
        prompt=[{"role": "user", "content": "q0"}],
        prompt_tokens=100,
        completion_tokens=10,
        latency=0.0,
        attempts=1,
        source="live",
    )


def test_equal_questions_are_asked_once() -> None:
    """Calls with the same key share one completion, within one asking, after it, and between
    threads.
    """
    endpoint = FakeEndpoint()
    with endpoint.open() as client:
        first = client.complete(make_calls("a", "b", "a"))
        second = client.complete(make_calls("b"))
        assert [reply.text for reply in first + second] == ["a 1", "b 1", "a 1", "b 1"]
        assert sorted(endpoint.asked) == ["a", "b"]
        threads = [
            threading.Thread(target=client.complete, args=(number_calls(50),)) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(endpoint.asked) == 2 + 50


def test_what_the_ledger_knows_is_not_asked() -> None:
    """A known completion is returned as it is.

    Failed ones are asked again. Each is told of once.
    """
    calls = make_calls("a", "b", "c", "c")
    failed = Completion(None, CompletionStatus.ERROR, error="earlier")
    endpoint, events = FakeEndpoint(), list[Event]()
    ledger = MemoryLedger({calls[0].key: Completion("known"), calls[1].key: failed})
    with endpoint.open(ledger=ledger, watch=events.append) as client:
        assert [reply.text for reply in client.complete(calls)] == ["known", "b 1", "c 1", "c 1"]
    assert sorted(endpoint.asked) == ["b", "c"]
    finished = [event for event in events if isinstance(event, Finished)]
    assert sorted(event.call.sample_id for event in finished) == ["001", "002"]
    remembered = [event for event in events if isinstance(event, Reused)]
    remembered_ids = [[call.sample_id for call, _ in event.calls] for event in remembered]
    assert remembered_ids == [["000"], ["003"]]


def test_trials_are_questions_of_their_own() -> None:
    """The key depends on the model, the messages and the trial, not on the order inside a
    message.
    """
    first, second = [{"role": "user", "content": "a"}], [{"content": "a", "role": "user"}]
    assert call_key(CONNECTION.identity, first, 0) == call_key(CONNECTION.identity, second, 0)
    assert call_key(CONNECTION.identity, first, 0) != call_key(CONNECTION.identity, first, 1)
    warm = Connection("m", CHAT, URL, "m", generation=Generation(temperature=1.0))
    assert call_key(CONNECTION.identity, first, 0) != call_key(warm.identity, first, 0)


def test_an_error_that_passes_is_not_seen_in_the_answer() -> None:
    """Overload, a reset and half a JSON are asked again; the attempts are counted."""
    half = HttpReply(200, {}, b'{"cho')
    errors: list[HttpReply | NoReply] = [say("busy", 503), NoReply("reset", "gone"), half]
    endpoint = FakeEndpoint(lambda question, attempt: [*errors, say(question)][attempt - 1])
    events: list[Event] = []
    with endpoint.open(watch=events.append) as client:
        (completion,) = client.complete(make_calls("a"))
    assert (completion.text, completion.attempts) == ("a", 4)
    assert endpoint.slept == [0.5, 1.0, 0.5]
    assert [
        (event.why, event.wait, event.attempt) for event in events if isinstance(event, Retried)
    ] == [("HTTP 503: busy", 0.5, 1), ("gone", 1.0, 2), ("the body is not JSON", 0.5, 3)]


def test_a_call_that_fails_for_good_is_a_completion_and_is_kept() -> None:
    """Bad requests are asked once, passing errors as often as allowed.

    Both end as ERROR in the ledger.
    """
    ledger = MemoryLedger()
    endpoint = FakeEndpoint(lambda question, _: say("no", 400 if question == "bad" else 500))
    calls = make_calls("bad", "down")
    with endpoint.open(ledger=ledger, limits=Limits(attempts=4)) as client:
        bad, down = client.complete(calls)
    assert (bad.status, bad.error, bad.attempts) == ("ERROR", "HTTP 400: no", 1)
    assert (down.status, down.error, down.attempts) == ("ERROR", "HTTP 500: no", 4)
    assert [ledger.kept[call.key] for call in calls] == [bad, down]
    assert ledger.find(calls) == {}


@pytest.mark.parametrize(
    ("answer", "match", "most"),
    [
        (NoReply("timeout", "within 120 s"), "E306.*`m` never answers: within 120 s", 8),
        (NoReply("connect", "refused"), "E306.*`m` cannot be reached: refused", 60),
        (
            say("bad key", 401),
            r"E304.*requires an API key, but none was sent \(status 401\): HTTP 401: bad key",
            8,
        ),
    ],
)
def test_silent_endpoints_are_given_up(answer: HttpReply | NoReply, match: str, most: int) -> None:
    """With few more requests than were under way at the start, and within seconds."""
    endpoint = FakeEndpoint(lambda *_: answer)
    assert endpoint.fail(number_calls(1000), match).exit_code == 3
    assert len(endpoint.asked) <= most
    assert max(endpoint.slept, default=0) < 3


def test_a_refused_key_stops_everything() -> None:
    """After the first 401 nothing more is sent, ever; what was answered before is kept."""
    ledger = MemoryLedger()
    endpoint = FakeEndpoint(lambda text, _: say("bad key", 401) if text == "q20" else say(text))
    with endpoint.open(ledger=ledger, limits=Limits(max_concurrent=2)) as client:
        for calls in (number_calls(1000), make_calls("another")):
            with pytest.raises(SolverError, match="E304"):
                client.complete(calls)
    assert len(endpoint.asked) <= 23
    assert len(ledger.kept) >= 20


def test_a_call_holds_its_place_until_it_is_kept() -> None:
    """No more calls are asked but not yet kept than may be under way at once."""
    sizes: list[int] = []

    class Noting(MemoryLedger):
        def write(self, finished: FinishedCalls) -> None:
            sizes.append(len(finished))
            super().write(finished)

    with FakeEndpoint().open(ledger=Noting(), limits=Limits(max_concurrent=4)) as client:
        client.complete(number_calls(200))
    assert (sum(sizes), 1 <= max(sizes) <= 4) == (200, True)


def test_the_pause_an_endpoint_asks_for_holds_for_all_at_one_at_a_time() -> None:
    """With one request at a time and status 429, no request is sent before the pause is over."""
    endpoint = FakeEndpoint()
    moments: list[float] = []

    def answer(question: str, attempt: int) -> HttpReply:
        moments.append(endpoint.time)
        is_early = (question, attempt) == ("q0", 1)
        return say("wait", 429, retry_after="30") if is_early else say(question)

    endpoint.answer = answer
    with endpoint.open(limits=Limits(max_concurrent=1)) as client:
        client.complete(number_calls(3))
    assert moments[0] == 0
    assert min(moments[1:]) >= 30


def test_the_budget_is_not_passed() -> None:
    """7 calls of 7 are sent and kept.

    Of calls that cost 0.3 each (10 tokens at 0.03), 1.0 buys three.
    """
    ledger, endpoint = MemoryLedger(), FakeEndpoint()
    endpoint.fail(
        number_calls(100), "E305.*limit of 7 calls", ledger=ledger, budget=Budget(max_calls=7)
    )
    assert (len(endpoint.asked), len(ledger.kept)) == (7, 7)
    budget, endpoint = Budget(max_cost=1.0), FakeEndpoint()
    match = r"limit of 1: 0\.9000 is spent, and the next call may cost 0\.3000"
    endpoint.fail(number_calls(100), match, budget=budget, price=Price(0.0, 0.03))
    assert len(endpoint.asked) == 3
    assert budget.spent == pytest.approx(0.9)
    calls = number_calls(8)  # known calls are free, and the last allowed call is asked
    filled = MemoryLedger({calls[0].key: Completion("known")})
    with FakeEndpoint().open(ledger=filled, budget=Budget(max_calls=7)) as client:
        assert len(client.complete(calls)) == 8


def test_a_ledger_that_fails_stops_the_calls() -> None:
    """A full disk is raised as the ledger says it, and nothing that was not kept is counted.

    After one failure what has been answered by then, or is under way, is handed to it once more.
    """

    @dataclass
    class Broken(MemoryLedger):
        at: int = 0
        is_for_ever: bool = False
        has_failed: bool = False

        def write(self, finished: FinishedCalls) -> None:
            if len(self.kept) >= self.at and (self.is_for_ever or not self.has_failed):
                self.has_failed = True
                raise RunError("E502", "no space left")
            super().write(finished)

    full, events = Broken(at=10, is_for_ever=True), list[Event]()
    FakeEndpoint().fail(number_calls(1000), "no space left", ledger=full, watch=events.append)
    assert len([event for event in events if isinstance(event, Finished)]) == len(full.kept)
    once, endpoint = Broken(), FakeEndpoint()
    endpoint.fail(number_calls(50), "no space left", ledger=once, limits=Limits(max_concurrent=4))
    assert 1 <= len(endpoint.asked) == len(once.kept) <= 12


def test_an_onlooker_can_stop_the_calls() -> None:
    """An error that the onlooker raises is what the calls end with; what is under way is kept."""
    ledger, endpoint = MemoryLedger(), FakeEndpoint()

    def watch(event: Event) -> None:
        if isinstance(event, Finished) and event.completion.text == "q5 1":
            raise SolverError("E305", "nonsense")

    endpoint.fail(number_calls(1000), "nonsense", ledger=ledger, watch=watch)
    assert len(endpoint.asked) == len(ledger.kept) < 100


def test_messages_that_make_no_request_are_an_error_of_the_call() -> None:
    """What the API cannot be asked becomes a completion with the reason; the others are asked."""

    def write(
        connection: Connection, messages: Sequence[Mapping[str, object]], fields: dict[str, object]
    ) -> dict[str, object]:
        if messages[0]["content"] == "b":
            raise SolverError("E302", "cannot be put")
        return CHAT.write(connection, messages, fields)

    with FakeEndpoint().open(Connection("m", replace(CHAT, write=write), URL, "m")) as client:
        good, bad = client.complete(make_calls("a", "b"))
    assert good.text == "a 1"
    assert (bad.status, bad.error) == ("ERROR", "cannot be put")


def test_connections_live_on_between_calls_and_are_closed_in_the_end() -> None:
    """One sender serves all calls; closing ends it and every thread."""
    opened: list[FakeEndpoint] = []

    def open_endpoint(*_: object) -> FakeEndpoint:
        opened.append(FakeEndpoint())
        return opened[-1]

    before = set(threading.enumerate())
    client = ModelClient(CONNECTION)
    client.open_http = open_endpoint  # type: ignore[assignment]
    client.complete(make_calls("a"))
    client.complete(make_calls("b"))
    client.close()
    client.close()
    assert [connection.is_closed for connection in opened] == [True]
    assert set(threading.enumerate()) <= before


def test_a_client_that_is_forgotten_closes_itself() -> None:
    """Without `close`, the threads end with the last reference."""
    before = set(threading.enumerate())
    endpoint = FakeEndpoint()
    client = endpoint.open()
    client.complete(make_calls("a"))
    gone = weakref.ref(client)
    del client
    gc.collect()
    assert gone() is None
    assert endpoint.is_closed
    assert set(threading.enumerate()) <= before


def test_calling_works_inside_a_running_loop() -> None:
    """A notebook has a loop of its own; calling from within it works like anywhere else."""

    async def run() -> str | None:
        with FakeEndpoint().open() as client:
            return client.complete(make_calls("a"))[0].text

    assert asyncio.run(run()) == "a 1"


def test_an_interrupt_keeps_what_was_answered() -> None:
    """After Ctrl-C no call is begun, all that were are in the ledger, and the interrupt goes on."""

    def answer(question: str, _attempt: int) -> HttpReply:
        if question == "q30":
            signal.raise_signal(signal.SIGINT)
        return say(question)

    ledger, endpoint = MemoryLedger(), FakeEndpoint(answer)
    # A shell that starts tests in the background has them ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with endpoint.open(ledger=ledger) as client:
            with pytest.raises(KeyboardInterrupt):
                client.complete(number_calls(10_000))
            assert client.complete(make_calls("q0"))[0].text == "q0"
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(ledger.kept) == len(endpoint.asked) < 10_000


@pytest.mark.parametrize("is_begun", [True, False])
def test_an_interrupt_before_the_round_is_known_keeps_what_was_answered(
    monkeypatch: pytest.MonkeyPatch,
    is_begun: bool,  # noqa: FBT001 - a table
) -> None:
    """On a busy machine Ctrl-C can come when calls are made already and `submit` has not
    returned, or before the first one; the client goes on.
    """
    submit, interrupts, is_called = Background.submit, [KeyboardInterrupt()], threading.Event()

    def interrupt(background: Background, work: Coroutine[Any, Any, T]) -> Future[T]:
        if interrupts and not is_begun:
            work.close()
            raise interrupts.pop()
        running = submit(background, work)
        if interrupts:
            is_called.wait()
            raise interrupts.pop()
        return running

    def answer(question: str, _attempt: int) -> HttpReply:
        if question == "q30":
            is_called.set()
        return say(question)

    monkeypatch.setattr(Background, "submit", interrupt)
    ledger, endpoint = MemoryLedger(), FakeEndpoint(answer)
    with endpoint.open(ledger=ledger) as client:
        with pytest.raises(KeyboardInterrupt):
            client.complete(number_calls(10_000))
        assert len(endpoint.asked) > 0 or not is_begun
        assert client.complete(make_calls("q0"))[0].text == "q0"
        assert len(ledger.kept) == len(endpoint.asked) < 10_000


def test_garbage_is_looked_for_rarely_while_calls_are_made() -> None:
    """Afterwards as often as before."""
    before, seen = gc.get_threshold(), set[int]()

    def answer(question: str, _attempt: int) -> HttpReply:
        seen.add(gc.get_threshold()[0])
        return say(question)

    with FakeEndpoint(answer).open() as client:
        client.complete(number_calls(300))
    assert max(seen) == 200_000
    assert gc.get_threshold() == before


def test_memory_does_not_grow_with_the_number_of_calls() -> None:
    """However many calls there are, only a window of them has a task."""
    most = 0

    def answer(question: str, _attempt: int) -> HttpReply:
        nonlocal most
        most = max(most, len(asyncio.all_tasks()))
        return say(question)

    with FakeEndpoint(answer).open(limits=Limits(max_concurrent=4)) as client:
        client.complete(number_calls(600))
    assert most <= 2 * 4 + 4


# Budgets and prices, and the quick JSON encoder.


def test_the_number_of_calls_is_never_passed() -> None:
    """With a limit of two calls the third is refused with E305.

    Without one, calls are only counted. What an earlier part of the run has asked counts, even
    beyond the limit.
    """
    free, budget, resumed = Budget(), Budget(max_calls=2), Budget(max_calls=5, calls=3)
    assert all(free.reserve(1e9) for _ in range(3))
    assert (budget.reserve(0), budget.reserve(0)) == (True, True)
    resumed.admit(3)
    for limited, match in ((budget, "limit of 2 calls"), (resumed, "limit of 5 calls")):
        with pytest.raises(SolverError, match=match) as raised:
            limited.reserve(0)
        assert (raised.value.code, raised.value.exit_code) == ("E305", 3)
    assert (free.calls, budget.calls, resumed.calls) == (3, 2, 6)


def test_money_under_way_counts_until_it_is_settled() -> None:
    """A call that fits only if those under way cost less than set aside has to wait, and is then
    let in.
    """
    budget = Budget(max_cost=1.0)
    assert budget.reserve(0.6)
    assert not budget.reserve(0.6)
    budget.settle(0.6, 0.1)
    assert budget.reserve(0.6)
    assert budget.calls == 2


def test_money_is_never_overspent() -> None:
    """A call that would pass the limit by what is spent already is refused with E305."""
    budget = Budget(max_cost=1.0)
    assert budget.reserve(0.6)
    budget.settle(0.6, 0.6)
    over = r"limit of 1: 0\.6000 is spent, and the next call may cost 0\.6000"
    with pytest.raises(SolverError, match=over):
        budget.reserve(0.6)


def test_cached_tokens_have_a_price_of_their_own() -> None:
    """Read and written tokens are taken out of the prompt's.

    Without a price they cost what others do.
    """
    reply = Completion("B", prompt_tokens=100, completion_tokens=10)
    reply = replace(reply, cached_tokens=60, cache_write_tokens=30)
    assert completion_cost(Price(2.0, 5.0), reply) == 250.0
    assert completion_cost(Price(2.0, 5.0, cached=0.5, written=3.0), reply) == 20 + 30 + 90 + 50
    more = Completion("B", prompt_tokens=10, completion_tokens=0, cached_tokens=60)
    assert completion_cost(Price(2.0, 5.0, cached=0.5), more) == 30.0


def test_a_batch_costs_half() -> None:
    """Of every price."""
    tokens, price = (100, 10, 60, 30), Price(2.0, 5.0, cached=0.5, written=3.0)
    assert charge(price, *tokens, is_batch=True) == charge(price, *tokens) / 2
    assert completion_cost(price, Completion("B", prompt_tokens=100, source="batch")) == 100.0
    assert completion_cost(price, Completion("B", prompt_tokens=100, source="live")) == 200.0


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12
)


@given(st.text(st.characters()), st.floats(), st.integers(min_value=0), VALUES)
def test_completions_come_back(text: str, latency: float, tokens: int, logprobs: object) -> None:
    """Whatever is in its fields; a number that is not finite is null."""
    completion = Completion(
        text,
        CompletionStatus.OK,
        latency=latency,
        prompt_tokens=tokens,
        logprobs={"content": logprobs},
    )
    written = encode_completion(completion)
    assert json.loads(written)["status"] == "OK"
    result = decode_completion(written)
    assert (result.text, result.prompt_tokens) == (text, tokens)
    assert result.latency == (latency if math.isfinite(latency) else None)
