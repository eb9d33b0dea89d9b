"""The laws of calling from several nodes, with nodes that are threads of this process."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from answerkey.errors import AnswerkeyError, EngineError, RunError, SolverError
from answerkey.models.actors import LOSSES, ActorClient, ActorLostError, ModelActor, Node, Order, share_out
from answerkey.models.calls import (
    Budget,
    Call,
    CallSettings,
    Clock,
    Event,
    Finished,
    Limits,
    MemoryLedger,
    Retried,
    call_key,
)
from answerkey.models.config import Caller, Price, Secret
from answerkey.models.providers import Connection, connect
from answerkey.testing import Behaviour, Reply, TestServer
from answerkey.types import Completion

KEY = "sk-canary-0123456789"


def send(what: Any) -> Any:  # noqa: ANN401 - whatever travels
    """Return what arrives in another process."""
    return pickle.loads(pickle.dumps(what))  # noqa: S301 - our own


class FakeActor:
    """An actor whose object is in this process; what goes to it and comes back is pickled all the same."""

    def __init__(self, node: Node, build: Callable[[str], object]) -> None:
        self.node = node
        self.exchanges: list[int] = []
        self.is_lost = False
        self._waiting: set[Future[Any]] = set()
        self._lock = threading.Lock()
        made: Callable[[str], ModelActor] = send(build)
        self._object = made(node.address)

    def call(self, method: str, *given: object) -> Future[Any]:
        """Call a method in a thread of its own."""
        answer: Future[Any] = Future()
        if method == "exchange":
            self.exchanges.append(len(given[0]))  # type: ignore[arg-type]  # calls
        with self._lock:
            if self.is_lost:
                answer.set_exception(ActorLostError("killed"))
                return answer
            self._waiting.add(answer)
        words = send(given)
        threading.Thread(target=self._answer, args=(answer, method, words), daemon=True).start()
        return answer

    def lose(self) -> None:
        """End it as kill -9 does: nothing that is under way comes back."""
        with self._lock:
            self.is_lost = True
            waiting, self._waiting = self._waiting, set()
        for one in waiting:
            with suppress(Exception):
                one.set_exception(ActorLostError("killed"))
        self._object.close()

    def close(self) -> None:
        """End the object."""
        if not self.is_lost:
            self.lose()

    def _answer(self, answer: Future[Any], method: str, words: Sequence[object]) -> None:
        try:
            value, error = getattr(self._object, method)(*words), None
        except Exception as problem:  # noqa: BLE001 - it travels
            value, error = None, problem
        with self._lock:
            if answer not in self._waiting:
                return
            self._waiting.discard(answer)
        with suppress(InvalidStateError):  # on a busy machine who asked has given up
            if error is None:
                answer.set_result(send(value))
            else:
                answer.set_exception(send(error))


@dataclass
class FakeActors:
    """Nodes of a cluster that is none."""

    nodes: list[Node] = field(default_factory=lambda: [Node("one", "127.0.0.1"), Node("two", "127.0.0.1")])
    opened: list[FakeActor] = field(default_factory=list)
    dies_at_once: bool = False

    def list_nodes(self) -> Sequence[Node]:
        """Return the nodes."""
        return list(self.nodes)

    def open(self, node: Node, build: Callable[[str], object]) -> FakeActor:
        """Open an actor."""
        actor = FakeActor(node, build)
        self.opened.append(actor)
        if self.dies_at_once:
            actor.lose()
        return actor


@dataclass
class Answerer:
    """Answers with the question; at the question with a number, something happens first."""

    at: int | None = None
    then: Callable[[], object] | None = None
    count: int = 0

    def __call__(self, messages: Sequence[Mapping[str, object]]) -> str:
        """Return the question."""
        self.count += 1
        if self.then is not None and self.count == self.at:
            self.then()
        return str(messages[-1]["content"])


@pytest.fixture
def answerer() -> Answerer:
    """Return who answers."""
    return Answerer()


@pytest.fixture
def server(answerer: Answerer) -> Iterator[TestServer]:
    """Return an endpoint that takes a moment."""
    with TestServer(answerer, Behaviour(delay=0.002)) as running:
        yield running


def open_client(url: str, actors: FakeActors, **settings: Any) -> ActorClient:  # noqa: ANN401 - settings
    """Return an client for an endpoint."""
    connection = connect(f"{url}#m", caller=Caller({"ANSWERKEY_API_KEY": KEY}))
    settings.setdefault("limits", Limits(max_concurrent=16, first_wait=0.01))
    return ActorClient(connection, CallSettings(**settings), actors)


def number_calls(count: int, connection: Connection | None = None) -> list[Call]:
    """Return so many different calls."""
    who = connection or connect("http://127.0.0.1:9/v1#m", caller=Caller({}))
    calls = []
    for number in range(count):
        messages = [{"role": "user", "content": f"q{number}"}]
        calls.append(Call(call_key(who, messages, 0), f"{number:03d}", 0, messages))
    return calls


def test_completions_come_in_the_order_of_the_calls(server: TestServer) -> None:
    """Two actors share the calls; each is asked once, and each completion is as if asked from here."""
    actors, ledger = FakeActors(), MemoryLedger()
    calls = number_calls(300)
    with open_client(server.url, actors, ledger=ledger) as client:
        said = client.complete(calls)
        assert client.complete(calls[:1]) == said[:1]
    assert [one.text for one in said] == [f"q{number}" for number in range(300)]
    assert said[7].prompt == calls[7].messages
    assert (said[7].source, said[7].attempts) == ("live", 1)
    assert server.asked.total == len(ledger.kept) == 300
    assert [sum(one.exchanges) > 30 for one in actors.opened] == [True, True]
    assert set(server.asked.keys) == {f"Bearer {KEY}"}


def test_few_calls_are_spread_as_well(server: TestServer) -> None:
    """The first actor does not take all."""
    server.change(delay=1)
    actors = FakeActors()
    with open_client(server.url, actors) as client:
        client.complete(number_calls(8))
    assert min(sum(one.exchanges) for one in actors.opened) >= 2


def test_all_actors_together_keep_to_the_places(server: TestServer) -> None:
    """Never more requests at once than the model allows, however many nodes there are."""
    server.change(delay=0.02)
    with open_client(server.url, FakeActors(), limits=Limits(max_concurrent=6)) as client:
        client.complete(number_calls(100))
    assert server.asked.most_at_once <= 6


def test_a_call_holds_its_place_until_the_ledger_has_it(server: TestServer) -> None:
    """While nothing can be kept, no more is asked than there are places."""
    is_seen, may_go_on = threading.Event(), threading.Event()

    class StuckLedger(MemoryLedger):
        def add(self, finished: Sequence[tuple[Call, Completion]]) -> None:
            is_seen.set()
            may_go_on.wait(300)
            super().add(finished)

    with open_client(
        server.url, FakeActors(), ledger=StuckLedger(), limits=Limits(max_concurrent=8)
    ) as client:
        asking = threading.Thread(target=client.complete, args=(number_calls(100),))
        asking.start()
        assert is_seen.wait(300)
        asking.join(0.5)
        assert server.asked.total <= 8
        may_go_on.set()
        asking.join(300)
    assert server.asked.total == 100


def test_the_calls_of_a_lost_actor_are_asked_by_others(server: TestServer, answerer: Answerer) -> None:
    """Nothing is lost; nothing is asked twice but what was under way."""
    actors, ledger = FakeActors(), MemoryLedger()
    answerer.at, answerer.then = 100, lambda: threading.Thread(target=actors.opened[0].lose).start()
    with open_client(server.url, actors, ledger=ledger) as client:
        said = client.complete(number_calls(400))
    assert [one.text for one in said] == [f"q{number}" for number in range(400)]
    assert len(ledger.kept) == 400
    assert 400 <= server.asked.total <= 400 + 8
    assert [one.node.name for one in actors.opened] == ["one", "two", "one"]


@pytest.mark.parametrize(
    ("host", "opened"), [("127.0.0.1", ["one", "two", "two"]), ("{node_ip}", ["one", "two"])]
)
def test_the_share_of_a_lost_node_goes_to_another(
    server: TestServer, answerer: Answerer, host: str, opened: list[str]
) -> None:
    """A node that is gone is not used again; a second actor of another one has its places.

    Where each node has an endpoint of its own, none is asked more than it allows: the others do the rest.
    """
    actors = FakeActors()

    def lose_node() -> None:
        del actors.nodes[0]
        threading.Thread(target=actors.opened[0].lose).start()

    answerer.at, answerer.then = 50, lose_node
    with open_client(server.url.replace("127.0.0.1", host), actors) as client:
        assert len(client.complete(number_calls(300))) == 300
    assert [one.node.name for one in actors.opened] == opened


def test_processes_that_end_again_and_again_are_given_up() -> None:
    """An actor that never answers is opened a few times, not without end."""
    actors = FakeActors([Node("one", "127.0.0.1")], dies_at_once=True)
    with (
        open_client("http://127.0.0.1:9/v1", actors, clock=Clock(sleep=sleep_not)) as client,
        pytest.raises(EngineError, match=f"ended {LOSSES} times: killed") as caught,
    ):
        client.complete(number_calls(10))
    assert caught.value.code == "E602"
    assert len(actors.opened) == LOSSES


async def sleep_not(seconds: float) -> None:
    """Let no time pass."""
    del seconds


def test_no_node_is_an_error() -> None:
    """A cluster without nodes is said to be one."""
    with open_client("http://127.0.0.1:9/v1", FakeActors([])) as client:
        with pytest.raises(EngineError, match="no node that takes work") as caught:
            client.complete(number_calls(1))
        assert caught.value.code == "E601"
        assert client.complete([]) == []


def test_a_refused_key_stops_all_actors(server: TestServer) -> None:
    """No connection carries more than one refused request, and the key is in no message."""
    server.change(answers=Reply(status=401, body=f'{{"error": {{"message": "bad {KEY}"}}}}'.encode()))
    with open_client(server.url, FakeActors()) as client, pytest.raises(SolverError) as caught:
        client.complete(number_calls(1000))
    assert caught.value.code == "E304"
    assert KEY not in str(caught.value)
    assert server.asked.total <= len(server.asked.connections) <= 16


def test_the_number_of_calls_is_not_passed(server: TestServer) -> None:
    """Exactly as many are asked as the limit allows, and all of them are kept."""
    ledger = MemoryLedger()
    with (
        open_client(server.url, FakeActors(), ledger=ledger, budget=Budget(max_calls=37)) as client,
        pytest.raises(SolverError, match="limit of 37 calls") as caught,
    ):
        client.complete(number_calls(500))
    assert caught.value.code == "E305"
    assert server.asked.total == len(ledger.kept) == 37


def test_the_limit_holds_when_an_actor_is_lost(server: TestServer, answerer: Answerer) -> None:
    """What was handed out before the limit is finished by others, and counted once."""
    actors, ledger, budget = FakeActors(), MemoryLedger(), Budget(max_calls=40)
    answerer.at, answerer.then = 30, lambda: threading.Thread(target=actors.opened[0].lose).start()
    with (
        open_client(server.url, actors, ledger=ledger, budget=budget) as client,
        pytest.raises(SolverError, match="limit of 40 calls"),
    ):
        client.complete(number_calls(500))
    assert (len(ledger.kept), budget.calls) == (40, 40)


def test_the_money_is_not_passed(server: TestServer) -> None:
    """What is set aside for calls under way counts until it is known what they cost."""
    ledger, budget = MemoryLedger(), Budget(max_cost=2.0)
    with (
        open_client(server.url, FakeActors(), ledger=ledger, budget=budget, price=Price(0, 0.002)) as client,
        pytest.raises(SolverError, match="stopped before the limit of 2"),
    ):
        client.complete(number_calls(2500))
    assert len(ledger.kept) == server.asked.total > 10
    assert 1.0 < budget.spent <= 2.0


def test_actors_mark_what_prompts_share_for_the_cache(server: TestServer) -> None:
    """What the first calls begin with goes to the actors with their order."""
    known = {"ANTHROPIC_BASE_URL": server.root, "ANTHROPIC_API_KEY": KEY}
    connection = connect("anthropic/m", caller=Caller(known))
    system = {"role": "system", "content": "Choose one. " * 500}
    calls = [replace(one, messages=[system, *one.messages]) for one in number_calls(60, connection)]
    settings = CallSettings(limits=Limits(max_concurrent=16))
    with ActorClient(connection, settings, FakeActors()) as client:
        client.complete(calls[:50])
        client.complete(calls[50:])
    bodies = [str(one.body) for one in server.asked.requests]
    assert [body.count("cache_control") for body in bodies] == [1] * 60


def test_a_ledger_that_fails_stops_the_asking(server: TestServer) -> None:
    """A full disk is raised as the ledger says it; what was answered is handed to it once more."""

    @dataclass
    class OnceBroken(MemoryLedger):
        has_failed: bool = False

        def add(self, finished: Sequence[tuple[Call, Completion]]) -> None:
            if not self.has_failed:
                self.has_failed = True
                raise RunError("E502", "no space left")
            super().add(finished)

    ledger = OnceBroken()
    with (
        open_client(server.url, FakeActors(), ledger=ledger) as client,
        pytest.raises(RunError, match="no space left"),
    ):
        client.complete(number_calls(1000))
    assert len(ledger.kept) == server.asked.total <= 64


def test_an_onlooker_can_stop_the_asking(server: TestServer) -> None:
    """What is under way is finished and kept; nothing else is sent."""
    ledger = MemoryLedger()

    def watch(event: Event) -> None:
        if isinstance(event, Finished) and len(ledger.kept) >= 20:
            raise SolverError("E305", "nonsense")

    with (
        open_client(server.url, FakeActors(), ledger=ledger, watch=watch) as client,
        pytest.raises(SolverError, match="nonsense"),
    ):
        client.complete(number_calls(5000))
    assert len(ledger.kept) == server.asked.total < 300


def test_the_onlooker_hears_of_retries_and_of_every_call_once(server: TestServer) -> None:
    """As if it were asked from here."""
    server.change(faults={"503": 0.3})
    events: list[Event] = []
    with open_client(server.url, FakeActors(), watch=events.append) as client:
        client.complete(number_calls(100))
    heard = [event.call.sample_id for event in events if isinstance(event, Finished)]
    retried = [event for event in events if isinstance(event, Retried)]
    assert sorted(heard) == [f"{number:03d}" for number in range(100)]
    assert len(retried) == server.asked.faults["503"] == server.asked.total - 100
    assert {event.why.partition(":")[0] for event in retried} == {"HTTP 503"}


def test_an_interrupt_keeps_what_was_answered(server: TestServer, answerer: Answerer) -> None:
    """After Ctrl-C no call is begun, all that were are in the ledger, and the next asking works."""
    import signal

    ledger = MemoryLedger()
    answerer.at, answerer.then = 100, lambda: signal.raise_signal(signal.SIGINT)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with open_client(server.url, FakeActors(), ledger=ledger) as client:
            with pytest.raises(KeyboardInterrupt):
                client.complete(number_calls(5_000))
            assert client.complete(number_calls(5_001)[5_000:])[0].text == "q5000"
            assert len(ledger.kept) == server.asked.total < 5_000
    finally:
        signal.signal(signal.SIGINT, before)


def test_each_node_asks_its_own_endpoint(server: TestServer) -> None:
    """The address of the node stands where the URL says so; the identity is the same on all of them."""
    url = f"http://{{node_ip}}:{server.port}/v1"
    with open_client(url, FakeActors()) as client:
        assert client.complete(number_calls(1))[0].text == "q0"
    assert server.asked.requests[0].headers["host"] == f"127.0.0.1:{server.port}"


def test_an_error_of_an_actor_is_raised_here() -> None:
    """What cannot work on a node is said once, and not tried again."""
    limits = Limits(max_concurrent=4, attempts=1, first_wait=0.0)
    with (
        open_client("http://127.0.0.1:9/v1", FakeActors(), limits=limits) as client,
        pytest.raises(AnswerkeyError, match="cannot be reached") as caught,
    ):
        client.complete(number_calls(20))
    assert caught.value.code == "E306"


@pytest.mark.parametrize(
    ("limits", "nodes", "shares"),
    [
        # All shares together are the whole; what is not limited stays so.
        (Limits(64, 600, 9000), 3, [(22, 200, 3000), (21, 200, 3000), (21, 200, 3000)]),
        (Limits(), 2, [(32, None, None)] * 2),
        # No actor has less than a place and a request a second; with more nodes than that, some ask nothing.
        (Limits(max_concurrent=2), 8, [(1, None, None)] * 2),
        (Limits(requests_per_minute=120), 8, [(32, 60, None)] * 2),
        (Limits(requests_per_minute=10), 8, [(64, 10, None)]),
    ],
)
def test_limits_are_shared_out(limits: Limits, nodes: int, shares: list[tuple[float | None, ...]]) -> None:
    """Places, requests and tokens a minute; where each node has an endpoint, each has all of them."""
    found = share_out(connect("http://127.0.0.1:9/v1#m", caller=Caller({})), limits, nodes)
    assert [(one.max_concurrent, one.requests_per_minute, one.tokens_per_minute) for one in found] == shares
    own = connect("http://{node_ip}:8000/v1#m", caller=Caller({}))
    assert share_out(own, limits, nodes) == [own] * nodes


def test_a_connection_arrives_with_its_key() -> None:
    """What is unpacked sends the same headers, and hides the same texts; nothing else shows or packs it."""
    sent = connect("http://127.0.0.1:9/v1#m", caller=Caller({"ANSWERKEY_API_KEY": KEY}))
    order = Order.pack(sent, Limits())
    received, limits = pickle.loads(pickle.dumps(order)).unpack()  # noqa: S301 - our own
    assert (received, limits) == (sent, Limits())
    assert received.reveal_headers()["Authorization"] == f"Bearer {KEY}"
    assert received.identity == sent.identity
    assert received.hide(f"it was {KEY}") == "it was ***"
    assert received.key.origin == "caller"
    assert (repr(order), str(order), f"{[order]}") == ("Order(***)", "Order(***)", "[Order(***)]")
    with pytest.raises(TypeError, match="a secret is not stored"):
        pickle.dumps(Secret(KEY))
