"""The laws of batches at Anthropic and Gemini: what is sent, what is read, and nothing paid
twice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.servers import BatchBehaviour, BatchServer, BatchStore

from answerkey.errors import RunError, SolverError
from answerkey.models.batch import BatchClient, BatchLimits, read_entries
from answerkey.models.calls import (
    BatchLeft,
    BatchSeen,
    Call,
    CallSettings,
    Clock,
    Event,
    MemoryLedger,
    Submitted,
    call_key,
)
from answerkey.models.config import Caller, Generation
from answerkey.models.connections import connect
from answerkey.models.providers import Connection
from answerkey.models.retry import HttpReply, HttpRequest, NoReply
from answerkey.testing.apis import find_style
from answerkey.types import Completion, CompletionStatus

ROOTS = {
    "anthropic": "https://api.anthropic.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
}
APIS = tuple(ROOTS)


def make_connection(api: str) -> Connection:
    """Return the connection of a provider's model with a limit of tokens."""
    connection = connect(f"{api}/m", caller=Caller({f"{api.upper()}_API_KEY": "sk-0123456789"}))
    return replace(connection, generation=Generation(max_tokens=10))


def make_calls(connection: Connection, *questions: str) -> list[Call]:
    """Return one call for each question."""
    prompts = [[{"role": "user", "content": question}] for question in questions]
    return [Call(call_key(connection, one, 0), f"{at}", 0, one) for at, one in enumerate(prompts)]


def echo(path: str, body: Mapping[str, Any]) -> tuple[int, object]:
    """Answer with the question in capitals; one with an `x` is refused."""
    style = find_style(path)
    assert style is not None
    text = str(style.read(body)[-1]["content"])
    if "x" in text:
        return 400, style.write_error("no x, please", "invalid_request_error")
    if path == "/v1/messages":
        usage = {"input_tokens": 60, "cache_read_input_tokens": 40, "output_tokens": 10}
        return 200, {
            "type": "message",
            "content": [{"type": "text", "text": text.upper()}],
            "usage": usage,
        }
    counts = {"promptTokenCount": 100, "cachedContentTokenCount": 40, "candidatesTokenCount": 10}
    said = {"content": {"parts": [{"text": text.upper()}]}, "finishReason": "STOP"}
    return 200, {"candidates": [said], "usageMetadata": counts}


@dataclass
class Desk:
    """An endpoint without a network: what was sent and answered.

    Faults by method and end of path.
    """

    store: BatchStore = field(default_factory=lambda: BatchStore(echo))
    behaviour: BatchBehaviour = field(default_factory=BatchBehaviour)
    faults: dict[str, list[HttpReply | NoReply]] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    sent: list[tuple[str, str, bytes | None]] = field(default_factory=list)
    replies: list[HttpReply] = field(default_factory=list)

    async def send(self, request: HttpRequest, *, seconds: float) -> HttpReply | NoReply:
        """Answer a request; one in `lost` is done, but its reply does not arrive."""
        assert seconds > 0
        await asyncio.sleep(0)
        url = urlsplit(request.url or "")
        self.sent.append((request.method, request.url or "", request.body))
        parts = [part for part in url.path.split("/") if part][-3:]
        kind = f"{request.method} {parts[-1]}"
        if self.faults.get(kind):
            return self.faults[kind].pop(0)
        body = json.loads(request.body) if request.body else {}
        found = self.store.answer(request.method, parts, body, self.behaviour)
        reply = HttpReply(404, {}, b'{"error": "not here"}')
        if found is not None:
            reply = HttpReply(
                200, {}, found if isinstance(found, bytes) else json.dumps(found).encode()
            )
        self.replies.append(reply)
        return NoReply("timeout", "nothing came back") if kind in self.lost else reply

    async def close(self) -> None:
        """Do nothing."""

    @property
    def orders(self) -> list[bytes]:
        """The bodies of the requests that make a batch."""
        return [body for method, _, body in self.sent if method == "POST" and body]


@dataclass
class Book:
    """Where batches are written down; with `dies`, the process ends before a name is."""

    kept: dict[str, Submitted] = field(default_factory=dict)
    dies: bool = False

    def list_batches(self, identity: str) -> list[Submitted]:
        """Return the batches of a connection."""
        return [one for one in self.kept.values() if one.identity == identity]

    def keep_batch(self, batch: Submitted) -> None:
        """Write a batch down, or its name."""
        if self.dies and batch.batch is not None:
            raise RunError("E502", "killed")
        self.kept[batch.file] = batch

    def end_batch(self, batch: Submitted) -> None:
        """Forget a batch."""
        self.kept.pop(batch.file, None)


@dataclass
class Kept:
    """What outlives a process, and what was heard."""

    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    book: Book = field(default_factory=Book)
    events: list[Event] = field(default_factory=list)
    time: float = 0.0

    async def sleep(self, seconds: float) -> None:
        """Let time pass, without waiting for it."""
        self.time += seconds
        await asyncio.sleep(0)

    def complete(
        self,
        connection: Connection,
        desk: Desk | None,
        *questions: str,
        limits: BatchLimits | None = None,
        **settings: object,
    ) -> list[Completion]:
        """Return what one process is answered; without a desk it goes over HTTP."""
        clock = Clock(lambda: self.time, lambda: self.time, self.sleep, lambda: 1.0)
        known = {"ledger": self.ledger, "watch": self.events.append, "clock": clock} | settings
        client = BatchClient(connection, CallSettings(**known), self.book, limits)  # type: ignore[arg-type]
        if desk is not None:
            client.open_http = lambda *_: desk  # type: ignore[assignment]
        with client:
            return client.complete(make_calls(connection, *questions))


def tell(completions: list[Completion]) -> list[str | None]:
    """Return the texts, or the errors."""
    return [one.text if one.error is None else one.error for one in completions]


def test_what_is_sent_to_anthropic_and_what_comes_back() -> None:
    """One request with all calls, looks, one file of results: byte for byte."""
    connection, desk, kept = make_connection("anthropic"), Desk(), Kept()
    said = kept.complete(connection, desk, "a", "b")
    keys = [call.key for call in make_calls(connection, "a", "b")]
    entry = (
        '{"custom_id":"%s","params":{"model":"m","max_tokens":10,'
        '"messages":[{"role":"user","content":"%s"}]}}'
    )
    body = f'{{"requests":[{entry % (keys[0], "a")},{entry % (keys[1], "b")}]}}'
    batches = "https://api.anthropic.com/v1/messages/batches"
    assert desk.sent == [
        ("POST", batches, body.encode()),
        ("GET", f"{batches}/batch_1", None),
        ("GET", f"{batches}/batch_1", None),
        ("GET", f"{batches}/batch_1/results", None),
    ]
    assert all(len(key) == 64 and key.isalnum() for key in keys)
    made = json.loads(desk.replies[0].body)
    assert made["processing_status"] == "in_progress"
    assert made["request_counts"] == {
        "processing": 2,
        "succeeded": 0,
        "errored": 0,
        "canceled": 0,
        "expired": 0,
    }
    results = sorted(
        desk.replies[-1].body.splitlines(),
        key=lambda line: keys.index(json.loads(line)["custom_id"]),
    )
    assert results[0].decode() == (
        f'{{"custom_id": "{keys[0]}", "result": {{"type": "succeeded", "message": '
        '{"type": "message", '
        '"content": [{"type": "text", "text": "A"}], "usage": {"input_tokens": 60, '
        '"cache_read_input_tokens": 40, '
        '"output_tokens": 10}}}}'
    )
    assert tell(said) == ["A", "B"]
    first = said[0]
    assert (first.source, first.attempts, first.latency) == ("batch", 1, None)
    assert (first.prompt_tokens, first.completion_tokens, first.cached_tokens) == (100, 10, 40)
    assert kept.book.kept == {}


def test_what_is_sent_to_gemini_and_what_comes_back() -> None:
    """One request with all calls under a name of ours, looks, and the answers in the last: byte for
    byte.
    """
    connection, desk, kept = make_connection("gemini"), Desk(), Kept()
    said = kept.complete(connection, desk, "a", "b")
    keys = [call.key for call in make_calls(connection, "a", "b")]
    entry = (
        '{"request":{"contents":[{"role":"user","parts":[{"text":"%s"}]}],'
        '"generationConfig":{"maxOutputTokens":10}},"metadata":{"key":"%s"}}'
    )
    name = json.loads(desk.orders[0])["batch"]["displayName"]
    body = (
        f'{{"batch":{{"displayName":"{name}","inputConfig":{{"requests":{{"requests":['
        f"{entry % ('a', keys[0])},{entry % ('b', keys[1])}]}}}}}}}}"
    )
    root = "https://generativelanguage.googleapis.com/v1beta"
    assert desk.sent == [
        ("POST", f"{root}/models/m:batchGenerateContent", body.encode()),
        ("GET", f"{root}/batches/batch_1", None),
        ("GET", f"{root}/batches/batch_1", None),
    ]
    stats = {"requestCount": "2", "successfulRequestCount": "0", "failedRequestCount": "0"}
    made = {"displayName": name, "state": "BATCH_STATE_PENDING", "batchStats": stats}
    assert json.loads(desk.replies[0].body) == {"name": "batches/batch_1", "metadata": made}
    over = json.loads(desk.replies[-1].body)
    assert over["metadata"]["state"] == "BATCH_STATE_SUCCEEDED"
    answers = over["response"]["inlinedResponses"]["inlinedResponses"]
    assert {one["metadata"]["key"] for one in answers} == set(keys)
    assert tell(said) == ["A", "B"]
    first = said[0]
    assert (first.source, first.finish_reason) == ("batch", "stop")
    assert (first.prompt_tokens, first.completion_tokens, first.cached_tokens) == (100, 10, 40)
    assert kept.book.kept == {}


@pytest.mark.parametrize("api", APIS)
def test_looks_are_told(api: str) -> None:
    """The onlooker hears the status in the words of the API, and how far the batch is."""
    kept = Kept()
    kept.complete(make_connection(api), Desk(), "a", "x")
    words = {"anthropic": ("in_progress", "ended"), "gemini": ("running", "succeeded")}[api]
    seen = [one for one in kept.events if isinstance(one, BatchSeen)]
    assert seen[1:] == [
        BatchSeen("batch_1", words[0], 0, 2, is_over=False),
        BatchSeen("batch_1", words[1], 2, 2, is_over=True),
    ]


@pytest.mark.parametrize(
    ("api", "errors"),
    [
        (
            "anthropic",
            ["errored: no x, please", "expired: the batch expired before this call was answered"],
        ),
        ("gemini", ["the batch reports an error: no x, please", "the batch is EXPIRED"]),
    ],
)
def test_calls_that_failed_or_expired_are_handed_in_again(api: str, errors: list[str]) -> None:
    """They are errors that say so; the next process hands in these and no others."""
    connection, desk, kept = make_connection(api), Desk(), Kept()
    assert tell(kept.complete(connection, desk, "a", "x")) == ["A", errors[0]]
    desk.behaviour = BatchBehaviour(batch_outcome="expired")
    said = kept.complete(connection, desk, "a", "b", "c")
    assert said[2].error == errors[1]
    assert said[2].status is CompletionStatus.ERROR
    desk.behaviour = BatchBehaviour()
    assert tell(kept.complete(connection, desk, "a", "b", "c")) == ["A", "B", "C"]
    sizes = [body.count(b'"user"') for body in desk.orders]
    assert sizes == (
        [2, 2, 1] if api == "anthropic" else [2, 2, 2]
    )  # Gemini has no answers when it expires


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
@pytest.mark.parametrize("api", APIS)
def test_a_batch_that_ends_otherwise_leaves_no_call_without_a_completion(
    api: str, outcome: str
) -> None:
    """A refused batch is E306; calls of a cancelled one are errors."""
    connection, kept = make_connection(api), Kept()
    desk = Desk(behaviour=BatchBehaviour(batch_outcome=outcome))  # type: ignore[arg-type]
    if (api, outcome) == ("gemini", "failed"):
        with pytest.raises(SolverError, match="refuses the batch `batch_1`: the batch is FAILED"):
            kept.complete(connection, desk, "a", "b")
    else:
        assert len(kept.complete(connection, desk, "a", "b")) == 2
    assert kept.book.kept == {}
    desk.behaviour = BatchBehaviour()
    assert tell(kept.complete(connection, desk, "a", "b")) == ["A", "B"]


@pytest.mark.parametrize("api", APIS)
def test_a_process_that_dies_before_it_knows_the_name_leaves_the_batch_to_the_next(
    api: str,
) -> None:
    """What is handed in is written down before; the next process finds the batch in the list."""
    connection, desk, kept = make_connection(api), Desk(), Kept(book=Book(dies=True))
    with pytest.raises(RunError):
        kept.complete(connection, desk, "a", "b")
    assert [one.batch for one in kept.book.kept.values()] == [None]
    kept.book.dies = False
    assert tell(kept.complete(connection, desk, "a", "b")) == ["A", "B"]
    assert len(desk.orders) == 1
    assert kept.book.kept == {}


@pytest.mark.parametrize("api", APIS)
def test_a_process_that_dies_before_it_sends_anything_is_followed_by_one_that_does(
    api: str,
) -> None:
    """What is written down and is in no list was not made; its calls are handed in, once."""
    connection, desk, kept = make_connection(api), Desk(), Kept()
    keys = [call.key for call in make_calls(connection, "a", "b")]
    kept.book.keep_batch(Submitted("answerkey-0-0011", connection.identity, keys))
    assert tell(kept.complete(connection, desk, "a", "b")) == ["A", "B"]
    assert len(desk.orders) == 1
    assert kept.book.kept == {}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("looks", [1, 2])
def test_a_batch_under_way_is_collected_by_the_next_process(api: str, looks: int) -> None:
    """Whenever the first one ends, nothing is handed in again.

    Who stops waiting is told what goes on.
    """
    connection, desk, kept = (
        make_connection(api),
        Desk(behaviour=BatchBehaviour(batch_polls=3)),
        Kept(),
    )

    def watch(event: Event) -> None:
        kept.events.append(event)
        if (
            isinstance(event, BatchSeen)
            and sum(isinstance(one, BatchSeen) for one in kept.events) == looks + 1
        ):
            raise SolverError("E305", "stopped")

    with pytest.raises(SolverError):
        kept.complete(connection, desk, "a", "b", watch=watch)
    assert kept.events[-1] == BatchLeft("batch_1", 2)
    assert tell(kept.complete(connection, desk, "a", "b", "c")) == ["A", "B", "C"]
    assert [body.count(b'"user"') for body in desk.orders] == [2, 1]


@pytest.mark.parametrize(
    ("api", "end"), [("anthropic", "batches"), ("gemini", "m:batchGenerateContent")]
)
def test_an_order_whose_reply_is_lost_is_not_repeated(api: str, end: str) -> None:
    """Before another attempt the batches are listed; after a 429 there is none."""
    connection, desk, kept = make_connection(api), Desk(lost={f"POST {end}"}), Kept()
    assert tell(kept.complete(connection, desk, "a")) == ["A"]
    assert list(desk.store.batches) == ["batch_1"]
    desk = Desk(faults={f"POST {end}": [HttpReply(429, {}, b"{}"), NoReply("reset", "broken off")]})
    assert tell(Kept().complete(connection, desk, "a")) == ["A"]
    listed = [url for method, url, _ in desk.sent if method == "GET" and url.endswith("batches")]
    assert listed == [f"{ROOTS[api]}{'/messages' if api == 'anthropic' else ''}/batches"]


@pytest.mark.parametrize("api", APIS)
def test_what_makes_no_sense_fails_nothing_but_its_call(api: str) -> None:
    """Results that cannot be read, or are not there, are errors of their calls."""
    connection = make_connection(api)
    lines: list[object] = [
        7,
        {},
        {"custom_id": "a"},
        {"metadata": {"key": "a"}},
        {"custom_id": "a", "result": {"type": ["x"]}},
        {"custom_id": "a", "result": {"type": "succeeded"}},
        {"metadata": {"key": "a"}, "response": None},
    ]
    read = [one for _, one in read_entries(lines, connection)]
    assert read
    assert {one.status for one in read} == {CompletionStatus.ERROR}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
RESULTS = st.fixed_dictionaries(
    {"type": VALUES | st.just("succeeded"), "message": VALUES, "error": VALUES}
)


@given(st.sampled_from(APIS), VALUES | RESULTS, VALUES, VALUES)
def test_any_result_of_a_call_is_a_completion(
    api: str, result: object, answer: object, error: object
) -> None:
    """Whatever an endpoint says of a call, one completion comes of it and nothing is raised."""
    line = {
        "custom_id": "a",
        "metadata": {"key": "a"},
        "result": result,
        "response": answer,
        "error": error,
    }
    ((key, said),) = read_entries([line], make_connection(api))
    assert key == "a"
    assert (said.text is None) == (said.status is not CompletionStatus.OK)


@pytest.mark.parametrize(
    "problem",
    [HttpReply(200, {}, b"<html>"), HttpReply(503, {}, b"{}"), HttpReply(200, {}, b"[" * 9)],
)
def test_a_look_that_cannot_be_read_is_taken_again(problem: HttpReply) -> None:
    """A page of a proxy in place of a batch of Gemini does not end the waiting."""
    desk = Desk(faults={"GET batch_1": [problem]})
    assert tell(Kept().complete(make_connection("gemini"), desk, "a")) == ["A"]


@pytest.mark.parametrize(
    "shown", [{"metadata": {}}, {"metadata": {"state": "BATCH_STATE_"}}, {"metadata": 3}]
)
def test_what_is_no_batch_of_gemini_is_not_waited_for(shown: dict[str, object]) -> None:
    """A batch without a state is E306; it stays written down."""
    kept = Kept()
    desk = Desk(faults={"GET batch_1": [HttpReply(200, {}, json.dumps(shown).encode())]})
    with pytest.raises(SolverError, match="has no `id`"):
        kept.complete(make_connection("gemini"), desk, "a")
    assert len(kept.book.kept) == 1


@pytest.mark.parametrize("api", APIS)
def test_a_batch_without_a_name_is_not_waited_for(api: str) -> None:
    """E306, and what was handed in stays written down."""
    kept, end = Kept(), {"anthropic": "batches", "gemini": "m:batchGenerateContent"}[api]
    made = {"processing_status": "in_progress", "metadata": {"state": "BATCH_STATE_PENDING"}}
    desk = Desk(faults={f"POST {end}": [HttpReply(200, {}, json.dumps(made).encode())]})
    with pytest.raises(SolverError, match="has no `id`"):
        kept.complete(make_connection(api), desk, "a")
    assert [one.batch for one in kept.book.kept.values()] == [None]


@pytest.mark.parametrize("api", APIS)
def test_many_calls_are_several_batches(api: str) -> None:
    """None is larger than allowed; Gemini takes 20 MB in one request."""
    connection, desk = make_connection(api), Desk()
    said = Kept().complete(connection, desk, "a", "b", "c", limits=BatchLimits(max_calls=2))
    assert tell(said) == ["A", "B", "C"]
    assert [body.count(b'"user"') for body in desk.orders] == [2, 1]
    client = BatchClient(connection, CallSettings(), Book())
    assert client.batch_limits.max_bytes < (20_000_000 if api == "gemini" else 256_000_000)


@pytest.mark.parametrize(
    ("api", "paths"),
    [
        (
            "anthropic",
            {
                "/v1/messages/batches": 1,
                "/v1/messages/batches/batch_1": 2,
                "/v1/messages/batches/batch_1/results": 1,
            },
        ),
        ("gemini", {"/v1beta/models/m:batchGenerateContent": 1, "/v1beta/batches/batch_1": 2}),
    ],
)
def test_batches_go_over_http(api: str, paths: dict[str, int]) -> None:
    """The test server has both APIs; each request brings the key in its header."""
    with BatchServer({"a": "1", "b": "2"}, BatchBehaviour(api_key="sk-0123456789")) as server:
        environment = {
            f"{api.upper()}_API_KEY": "sk-0123456789",
            f"{api.upper()}_BASE_URL": server.root,
        }
        connection = connect(f"{api}/m", caller=Caller(environment))
        assert tell(Kept().complete(connection, None, "b", "a")) == ["2", "1"]
        assert server.asked.by_path == paths
        assert server.asked.keys == {"sk-0123456789": sum(paths.values())}
        assert server.asked.by_prompt == {"a": 1, "b": 1}


@pytest.mark.parametrize("api", APIS)
def test_a_batch_can_be_cancelled(api: str) -> None:
    """Somebody cancels it at the provider: its calls are errors, and handed in again by the next
    process.
    """
    connection, desk, kept = make_connection(api), Desk(), Kept()

    def watch(event: Event) -> None:
        if isinstance(event, BatchSeen) and not event.is_over:
            desk.store.batches["batch_1"]["status"] = "cancelled"

    (said,) = kept.complete(connection, desk, "a", watch=watch)
    assert said.status is CompletionStatus.ERROR
    assert tell(kept.complete(connection, desk, "a")) == ["A"]


@pytest.mark.parametrize("api", APIS)
def test_an_endpoint_that_lists_no_batches_is_handed_the_calls_anew(api: str) -> None:
    """Where nothing can be looked up, what was written down without a name is taken as not made."""
    connection, kept = make_connection(api), Kept()
    desk = Desk(faults={"GET batches": [HttpReply(404, {}, b"{}")]})
    keys = [call.key for call in make_calls(connection, "a")]
    kept.book.keep_batch(Submitted("answerkey-0-0011", connection.identity, keys))
    assert tell(kept.complete(connection, desk, "a", watch=None)) == ["A"]
    assert desk.store.batches["batch_1"]["status"] == "completed"
