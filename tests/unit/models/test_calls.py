"""The laws of asking: every call once, in order, kept before it counts, and a clean stop."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from answerkey.errors import RunError, SolverError
from answerkey.models.calls import (
    Adapted,
    Budget,
    Call,
    Event,
    Finished,
    Means,
    MemoryLedger,
    ModelClient,
    Price,
    Retried,
    call_key,
)
from answerkey.models.providers import OPENAI_CHAT, Connection
from answerkey.models.retry import Clock, Limits, NoReply, Reply
from answerkey.models.settings import Generation
from answerkey.types import Completion, CompletionStatus

CONNECTION = Connection("m", OPENAI_CHAT, "http://127.0.0.1:9/v1", "m", generation=Generation(max_tokens=10))


def say(text: str, status: int = 200, **headers: str) -> Reply:
    """Return a reply in the way of OpenAI."""
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    body = {"choices": [{"message": {"role": "assistant", "content": text}}], "usage": usage}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, named, json.dumps(body if status == 200 else {"error": text}).encode())


def echo(question: str, attempt: int) -> Reply | NoReply:
    """Answer with the question and the number of the attempt."""
    return say(f"{question} {attempt}")


@dataclass
class FakeEndpoint:
    """An endpoint without a network: answers by question and attempt (from 1), and counts."""

    answer: Callable[[str, int], Reply | NoReply] = echo
    asked: list[str] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    is_closed: bool = False
    hold: asyncio.Event | None = None

    async def post(self, body: bytes, *, seconds: float) -> Reply | NoReply:
        """Answer after one turn of the loop, or once `hold` is set."""
        del seconds
        question = json.loads(body)["messages"][0]["content"]
        self.asked.append(question)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await (asyncio.sleep(0) if self.hold is None else self.hold.wait())
        finally:
            self.at_once -= 1
        return self.answer(question, self.asked.count(question))

    async def close(self) -> None:
        """Note that it was closed."""
        self.is_closed = True


@dataclass
class Dream:
    """A clock in which sleep takes no time, but time passes."""

    time: float = 0.0
    slept: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)

    def means(self, endpoint: FakeEndpoint) -> Means:
        """Return the means of an asker that dreams."""
        clock = Clock(lambda: self.time, lambda: self.time, self.sleep)
        return Means(clock, lambda: 1.0, lambda *_: endpoint)


def make_calls(*questions: str) -> list[Call]:
    """Return one call for each question."""
    calls = []
    for number, question in enumerate(questions):
        messages = [{"role": "user", "content": question}]
        calls.append(Call(call_key(CONNECTION, messages, 0), f"{number:03d}", 0, messages))
    return calls


def number_calls(count: int) -> list[Call]:
    """Return so many different calls."""
    return make_calls(*(f"q{number}" for number in range(count)))


def open_asker(endpoint: FakeEndpoint, dream: Dream | None = None, **settings: object) -> ModelClient:
    """Return an asker without a network."""
    return ModelClient(CONNECTION, means=(dream or Dream()).means(endpoint), **settings)  # type: ignore[arg-type]


def test_completions_come_in_the_order_of_the_calls() -> None:
    """Whatever is answered first, each call gets its own completion at its own place."""
    with open_asker(FakeEndpoint()) as asker:
        completions = asker.ask(number_calls(300))
    assert [one.text for one in completions] == [f"q{number} 1" for number in range(300)]
    assert completions[0] == Completion(
        "q0 1",
        prompt=[{"role": "user", "content": "q0"}],
        prompt_tokens=100,
        completion_tokens=10,
        latency=0.0,
        attempts=1,
        source="live",
        reply=completions[0].reply,
    )


def test_no_calls_need_no_endpoint() -> None:
    """Nothing to ask: nothing is opened."""
    endpoint = FakeEndpoint()
    with open_asker(endpoint) as asker:
        assert asker.ask([]) == []
    assert not endpoint.is_closed


def test_equal_questions_are_asked_once() -> None:
    """Calls with the same key share one completion, within one asking and after it."""
    endpoint = FakeEndpoint()
    with open_asker(endpoint) as asker:
        first = asker.ask(make_calls("a", "b", "a"))
        second = asker.ask(make_calls("b"))
    assert [one.text for one in first + second] == ["a 1", "b 1", "a 1", "b 1"]
    assert sorted(endpoint.asked) == ["a", "b"]


def test_threads_that_ask_the_same_share_the_answer() -> None:
    """Askings follow one another, so that the second finds what the first has asked."""
    endpoint = FakeEndpoint()
    calls = number_calls(50)
    with open_asker(endpoint) as asker:
        threads = [threading.Thread(target=asker.ask, args=(calls,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(endpoint.asked) == 50


def test_what_the_ledger_knows_is_not_asked() -> None:
    """A known completion is returned as it is; failed ones are asked again."""
    calls = make_calls("a", "b")
    ledger = MemoryLedger({calls[0].key: Completion("known"), calls[1].key: fail_once()})
    endpoint = FakeEndpoint()
    with open_asker(endpoint, ledger=ledger) as asker:
        assert [one.text for one in asker.ask(calls)] == ["known", "b 1"]
    assert endpoint.asked == ["b"]


def fail_once() -> Completion:
    """Return the completion of a failed call."""
    return Completion(None, CompletionStatus.ERROR, error="earlier")


def test_trials_are_questions_of_their_own() -> None:
    """The key depends on the model, the messages and the trial, not on the order inside a message."""
    one, other = [{"role": "user", "content": "a"}], [{"content": "a", "role": "user"}]
    assert call_key(CONNECTION, one, 0) == call_key(CONNECTION, other, 0)
    assert call_key(CONNECTION, one, 0) != call_key(CONNECTION, one, 1)
    warm = Connection("m", OPENAI_CHAT, CONNECTION.url, "m", generation=Generation(temperature=1.0))
    assert call_key(CONNECTION, one, 0) != call_key(warm, one, 0)


def test_trouble_that_passes_is_not_seen_in_the_answer() -> None:
    """Overload, a reset and half a JSON are asked again; the attempts are counted."""
    troubles: list[Reply | NoReply] = [say("busy", 503), NoReply("reset", "gone"), Reply(200, {}, b'{"cho')]

    def answer(question: str, attempt: int) -> Reply | NoReply:
        return troubles[attempt - 1] if attempt <= 3 else say(question)

    dream = Dream()
    events: list[Event] = []
    with open_asker(FakeEndpoint(answer), dream, watch=events.append) as asker:
        (completion,) = asker.ask(make_calls("a"))
    assert (completion.text, completion.attempts) == ("a", 4)
    assert dream.slept == [0.5, 1.0, 0.5]
    assert [(event.why, event.wait, event.attempt) for event in events if isinstance(event, Retried)] == [
        ("HTTP 503: busy", 0.5, 1),
        ("gone", 1.0, 2),
        ("the body is not JSON", 0.5, 3),
    ]


def test_a_call_that_fails_for_good_is_a_completion_and_is_kept() -> None:
    """Bad requests are asked once, passing troubles as often as allowed; both end as ERROR in the ledger."""
    ledger = MemoryLedger()
    endpoint = FakeEndpoint(lambda question, _: say("no", 400 if question == "bad" else 500))
    calls = make_calls("bad", "down")
    with open_asker(endpoint, ledger=ledger, limits=Limits(attempts=4)) as asker:
        bad, down = asker.ask(calls)
    assert (bad.status, bad.error, bad.attempts) == ("ERROR", "HTTP 400: no", 1)
    assert (down.status, down.error, down.attempts) == ("ERROR", "HTTP 500: no", 4)
    assert [ledger.kept[call.key] for call in calls] == [bad, down]
    assert ledger.find(calls) == {}


def test_the_deadline_ends_a_call() -> None:
    """However many attempts are left, a call whose time is over has failed."""
    dream = Dream()

    def hang(_question: str, _attempt: int) -> NoReply:
        dream.time += 60
        return NoReply("timeout", "no reply")

    endpoint = FakeEndpoint()
    with open_asker(endpoint, dream, limits=Limits(call_seconds=150)) as asker:
        endpoint.answer = echo
        asker.ask(make_calls("first"))
        endpoint.answer = hang
        (completion,) = asker.ask(make_calls("a"))
    assert (completion.error, completion.attempts) == ("no reply", 3)


def test_an_endpoint_that_never_answers_is_told_after_one_timeout() -> None:
    """No call is asked a second time, and no more calls than were under way at the start."""
    endpoint = FakeEndpoint(lambda *_: NoReply("timeout", "no whole reply from `h` within 120 s"))
    with (
        open_asker(endpoint) as asker,
        pytest.raises(SolverError, match="`m` never answers: no whole reply from `h` within 120 s"),
    ):
        asker.ask(number_calls(1000))
    assert len(endpoint.asked) == len(set(endpoint.asked)) <= 8


def test_never_more_at_once_than_allowed() -> None:
    """The model's own limit wins over the asker's."""
    endpoint = FakeEndpoint()
    with open_asker(endpoint, limits=Limits(max_concurrent=5)) as asker:
        asker.ask(number_calls(100))
    narrow = FakeEndpoint()
    connection = Connection("m", OPENAI_CHAT, CONNECTION.url, max_concurrent=3)
    with ModelClient(connection, limits=Limits(max_concurrent=5), means=Dream().means(narrow)) as asker:
        asker.ask(number_calls(100))
    assert (endpoint.most_at_once, narrow.most_at_once) == (5, 3)


def test_a_call_holds_its_place_until_it_is_kept() -> None:
    """No more calls are asked but not yet kept than may be under way at once."""

    class SlowLedger(MemoryLedger):
        most = 0

        def add(self, finished: Sequence[tuple[Call, Completion]]) -> None:
            super().add(finished)
            self.most = max(self.most, len(finished))

    ledger = SlowLedger()
    endpoint = FakeEndpoint()
    with open_asker(endpoint, ledger=ledger, limits=Limits(max_concurrent=4)) as asker:
        asker.ask(number_calls(200))
    assert 1 <= ledger.most <= 4


def test_an_endpoint_that_struggles_is_asked_more_slowly() -> None:
    """When most requests are refused for their number, fewer are sent at once; the onlooker hears it."""
    events: list[Event] = []
    endpoint = FakeEndpoint()
    endpoint.answer = lambda question, _: say("slow down", 429) if endpoint.at_once > 1 else say(question)
    with open_asker(endpoint, watch=events.append, limits=Limits(attempts=1000, call_seconds=1e9)) as asker:
        completions = asker.ask(number_calls(40))
    limits = [event.limit for event in events if isinstance(event, Adapted)]
    assert limits[:2] == [4, 2]
    assert all(one.status is CompletionStatus.OK for one in completions)


def test_the_pause_an_endpoint_asks_for_holds_for_all_at_one_at_a_time() -> None:
    """With one request at a time and status 429, nobody asks before the pause is over."""
    dream = Dream()
    moments: list[float] = []

    def answer(question: str, attempt: int) -> Reply:
        moments.append(dream.time)
        return say("wait", 429, retry_after="30") if (question, attempt) == ("q0", 1) else say(question)

    with open_asker(FakeEndpoint(answer), dream, limits=Limits(max_concurrent=1)) as asker:
        asker.ask(number_calls(3))
    assert moments[0] == 0
    assert min(moments[1:]) >= 30


def test_rates_are_kept() -> None:
    """At 60 requests a minute, four requests take three seconds; tokens are counted alike."""
    for connection, seconds in (
        (Connection("m", OPENAI_CHAT, CONNECTION.url, requests_per_minute=60, max_concurrent=1), 3.0),
        (Connection("m", OPENAI_CHAT, CONNECTION.url, tokens_per_minute=6600, max_concurrent=1), 3.0),
    ):
        dream = Dream()
        with ModelClient(connection, means=dream.means(FakeEndpoint())) as asker:
            asker.ask(number_calls(4))
        assert dream.time == pytest.approx(seconds, abs=1.5)


def test_a_refused_key_stops_everything() -> None:
    """After the first 401 nothing more is sent; what was answered before is kept; E304, exit code 3."""
    ledger = MemoryLedger()
    endpoint = FakeEndpoint(lambda question, _: say("bad key", 401) if question == "q20" else say(question))
    with open_asker(endpoint, ledger=ledger, limits=Limits(max_concurrent=2)) as asker:
        with pytest.raises(SolverError, match=r"refuses the key \(status 401\): HTTP 401: bad key") as raised:
            asker.ask(number_calls(1000))
        with pytest.raises(SolverError, match="E304"):
            asker.ask(make_calls("another"))
    assert (raised.value.code, raised.value.exit_code) == ("E304", 3)
    assert len(endpoint.asked) <= 23
    assert len(ledger.kept) >= 20


def test_a_key_that_was_never_good_costs_one_request_per_place() -> None:
    """No more requests are sent than may be under way at the start."""
    endpoint = FakeEndpoint(lambda *_: say("bad key", 401))
    with open_asker(endpoint) as asker, pytest.raises(SolverError, match="E304"):
        asker.ask(number_calls(1000))
    assert len(endpoint.asked) <= 8


def test_an_endpoint_that_is_not_there_is_given_up() -> None:
    """When no connection was ever made, the asking ends within five seconds: E306."""
    endpoint, dream = (
        FakeEndpoint(lambda *_: NoReply("connect", "cannot connect to `h`: Connection refused")),
        Dream(),
    )
    with (
        open_asker(endpoint, dream) as asker,
        pytest.raises(SolverError, match="`m` cannot be reached: cannot connect to `h`: Connection refused"),
    ):
        asker.ask(number_calls(1000))
    assert len(endpoint.asked) < 60
    assert max(dream.slept) < 3


def test_the_number_of_calls_is_not_passed() -> None:
    """With a limit of 7 calls, 7 are sent, all 7 are kept, and the asking ends with E305."""
    ledger = MemoryLedger()
    endpoint = FakeEndpoint()
    with (
        open_asker(endpoint, ledger=ledger, budget=Budget(max_calls=7)) as asker,
        pytest.raises(SolverError, match="limit of 7 calls"),
    ):
        asker.ask(number_calls(100))
    assert (len(endpoint.asked), len(ledger.kept)) == (7, 7)


def test_a_limit_that_is_just_enough_is_enough() -> None:
    """Known calls are free, and the last allowed call is asked."""
    calls = number_calls(8)
    ledger = MemoryLedger({calls[0].key: Completion("known")})
    with open_asker(FakeEndpoint(), ledger=ledger, budget=Budget(max_calls=7)) as asker:
        assert len(asker.ask(calls)) == 8


def test_the_money_is_not_passed() -> None:
    """A call costs 0.3 (10 tokens at 0.03); with 1.0 to spend three are sent, and 0.9 is spent."""
    budget = Budget(max_cost=1.0)
    endpoint = FakeEndpoint()
    with (
        open_asker(endpoint, budget=budget, price=Price(0.0, 0.03)) as asker,
        pytest.raises(SolverError, match=r"limit of 1: 0\.9000 is spent, and the next call may cost 0\.3000"),
    ):
        asker.ask(number_calls(100))
    assert len(endpoint.asked) == 3
    assert budget.spent == pytest.approx(0.9)


def test_a_ledger_that_fails_stops_the_asking() -> None:
    """A full disk is raised as the ledger says it, and nothing that was not kept is counted."""

    class FullLedger(MemoryLedger):
        def add(self, finished: Sequence[tuple[Call, Completion]]) -> None:
            if len(self.kept) >= 10:
                raise RunError("E502", "no space left")
            super().add(finished)

    ledger = FullLedger()
    events: list[Event] = []
    with (
        open_asker(FakeEndpoint(), ledger=ledger, watch=events.append) as asker,
        pytest.raises(RunError, match="no space left"),
    ):
        asker.ask(number_calls(1000))
    assert len([event for event in events if isinstance(event, Finished)]) == len(ledger.kept)


def test_what_a_ledger_did_not_take_is_handed_to_it_once_more() -> None:
    """After one failure the asking stops; what has been answered by then, or is under way, is kept."""

    @dataclass
    class OnceBroken(MemoryLedger):
        has_failed: bool = False

        def add(self, finished: Sequence[tuple[Call, Completion]]) -> None:
            if not self.has_failed:
                self.has_failed = True
                raise RunError("E502", "no space left on device")
            super().add(finished)

    ledger, endpoint = OnceBroken(), FakeEndpoint()
    with (
        open_asker(endpoint, ledger=ledger, limits=Limits(max_concurrent=4)) as asker,
        pytest.raises(RunError, match="no space left on device"),
    ):
        asker.ask(number_calls(50))
    assert 1 <= len(endpoint.asked) <= 12
    assert len(ledger.kept) == len(endpoint.asked)


def test_an_onlooker_can_stop_the_asking() -> None:
    """An error that the onlooker raises is what the asking ends with; what is under way is kept."""
    ledger = MemoryLedger()
    endpoint = FakeEndpoint()

    def watch(event: Event) -> None:
        if isinstance(event, Finished) and event.completion.text == "q5 1":
            raise SolverError("E305", "nonsense")

    with (
        open_asker(endpoint, ledger=ledger, watch=watch) as asker,
        pytest.raises(SolverError, match="nonsense"),
    ):
        asker.ask(number_calls(1000))
    assert len(endpoint.asked) == len(ledger.kept) < 100


def test_the_onlooker_hears_of_every_call_once() -> None:
    """Known, asked and shared calls are told apart."""
    calls = make_calls("a", "b", "b")
    events: list[Event] = []
    ledger = MemoryLedger({calls[0].key: Completion("known")})
    with open_asker(FakeEndpoint(), ledger=ledger, watch=events.append) as asker:
        asker.ask(calls)
    heard = [(event.call.sample_id, event.is_known) for event in events if isinstance(event, Finished)]
    assert heard == [("000", True), ("001", False), ("002", True)]


def test_messages_that_make_no_request_are_an_error_of_the_call() -> None:
    """What the API cannot be asked becomes a completion with the reason; the others are asked."""

    @dataclass(frozen=True)
    class Picky(type(OPENAI_CHAT)):  # type: ignore[misc]  # a style like the real one, but for one question
        def build(self, connection: Connection, messages: Sequence[dict[str, object]]) -> object:
            if messages[0]["content"] == "b":
                raise SolverError("E302", "cannot be put")
            return super().build(connection, messages)

    connection = Connection("m", Picky(), CONNECTION.url, "m")
    with ModelClient(connection, means=Dream().means(FakeEndpoint())) as asker:
        good, bad = asker.ask(make_calls("a", "b"))
    assert good.text == "a 1"
    assert (bad.status, bad.error) == ("ERROR", "cannot be put")


def test_connections_live_on_between_askings_and_are_closed_in_the_end() -> None:
    """One sender serves all askings; closing ends it and every thread."""
    opened: list[FakeEndpoint] = []

    def open_endpoint(*_: object) -> FakeEndpoint:
        opened.append(FakeEndpoint())
        return opened[-1]

    before = set(threading.enumerate())
    means = Dream().means(FakeEndpoint())
    asker = ModelClient(CONNECTION, means=Means(means.clock, means.draw, open_endpoint))
    asker.ask(make_calls("a"))
    asker.ask(make_calls("b"))
    asker.close()
    asker.close()
    assert [one.is_closed for one in opened] == [True]
    assert set(threading.enumerate()) == before


def test_an_asker_that_is_forgotten_closes_itself() -> None:
    """Without `close`, the threads end with the last reference."""
    before = set(threading.enumerate())
    endpoint = FakeEndpoint()
    asker = open_asker(endpoint)
    asker.ask(make_calls("a"))
    gone = weakref.ref(asker)
    del asker
    gc.collect()
    assert gone() is None
    assert endpoint.is_closed
    assert set(threading.enumerate()) == before


def test_asking_works_inside_a_running_loop() -> None:
    """A notebook has a loop of its own; asking from within it works like anywhere else."""

    async def run() -> str | None:
        with open_asker(FakeEndpoint()) as asker:
            return asker.ask(make_calls("a"))[0].text

    assert asyncio.run(run()) == "a 1"


def test_an_interrupt_keeps_what_was_answered() -> None:
    """After Ctrl-C no call is begun, all that were are in the ledger, and the interrupt goes on."""
    import signal

    ledger = MemoryLedger()
    endpoint = FakeEndpoint(lambda question, _: interrupt() if question == "q30" else say(question))
    # A shell that starts tests in the background has them ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with open_asker(endpoint, ledger=ledger) as asker:
            with pytest.raises(KeyboardInterrupt):
                asker.ask(number_calls(100_000))
            assert asker.ask(make_calls("q0"))[0].text == "q0"
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(ledger.kept) == len(endpoint.asked) < 100_000


def interrupt() -> Reply:
    """Press Ctrl-C, as far as this process can tell."""
    import signal

    signal.raise_signal(signal.SIGINT)
    return say("late")


def test_memory_does_not_grow_with_the_number_of_calls() -> None:
    """However many calls there are, only a window of them has a task."""
    most = 0
    endpoint = FakeEndpoint()

    def answer(question: str, _attempt: int) -> Reply:
        nonlocal most
        most = max(most, len(asyncio.all_tasks()))
        return say(question)

    endpoint.answer = answer
    with open_asker(endpoint, limits=Limits(max_concurrent=4)) as asker:
        asker.ask(number_calls(2000))
    assert most <= 2 * 4 + 4


def test_the_first_second_brings_no_more_than_the_rate() -> None:
    """600 a minute are ten a second, from the first second on."""
    dream, seconds = Dream(), list[int]()

    def answer(question: str, _attempt: int) -> Reply:
        seconds.append(int(dream.time + 1e-6))
        return say(question)

    connection = Connection("m", OPENAI_CHAT, CONNECTION.url, requests_per_minute=600, max_concurrent=1)
    with ModelClient(connection, means=dream.means(FakeEndpoint(answer))) as asker:
        asker.ask(number_calls(30))
    assert seconds == [0] * 10 + [1] * 10 + [2] * 10
