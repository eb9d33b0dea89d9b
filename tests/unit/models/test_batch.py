"""The laws of calling in batches, at every API that has them: handed in once, collected by name,
nothing paid twice.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.servers import BatchBehaviour, BatchServer, BatchStore, connect

from answerkey.errors import RunError, SolverError, SpecError
from answerkey.models import calls
from answerkey.models.batch import (
    BatchClient,
    BatchLimits,
    read_lines,
    split_into_files,
    write_line,
)
from answerkey.models.batch_lines import read_line
from answerkey.models.calls import (
    BatchPending,
    BatchPolled,
    Budget,
    Call,
    Event,
    SubmittedBatch,
    call_key,
)
from answerkey.models.config import Caller, Generation, Price
from answerkey.models.providers import APIS as PROVIDER_APIS
from answerkey.models.providers import Connection
from answerkey.models.responses import Body, Messages
from answerkey.models.retry import HttpReply, HttpRequest, NoReply
from answerkey.models.store import CallStore
from answerkey.testing import Reply
from answerkey.testing.apis import find_style, write_error
from answerkey.types import Completion, CompletionStatus

KEY = "sk-canary-0123456789"
APIS = ("openai", "anthropic")
ERROR = CompletionStatus.ERROR
Came = HttpReply | NoReply
USAGE: dict[str, dict[str, object]] = {
    "/chat/completions": {"usage": {"prompt_tokens": 100, "completion_tokens": 10}},
    "/messages": {
        "usage": {"input_tokens": 60, "cache_read_input_tokens": 40, "output_tokens": 10}
    },
}


def reach(api: str = "openai") -> Connection:
    """Return the connection of a provider's model with a limit of tokens."""
    connection = connect(f"{api}/m", caller=Caller({f"{api.upper()}_API_KEY": KEY}))
    return replace(connection, generation=Generation(max_tokens=10))


def make_calls(connection: Connection, *questions: str) -> list[Call]:
    """Return one call for each question."""
    prompts = [[{"role": "user", "content": question}] for question in questions]
    keys = [call_key(connection.identity, prompt, 0) for prompt in prompts]
    return [Call(keys[at], str(at), 0, prompt) for at, prompt in enumerate(prompts)]


def echo(path: str, body: Mapping[str, Any]) -> tuple[int, object]:
    """Answer with the question in capitals; one with an `x` is refused."""
    style = find_style(path)
    assert style is not None
    text = str(style.read(body)[-1]["content"])
    if "x" in text:
        return 400, write_error("no x, please", "invalid_request_error")
    return 200, style.write(body, Reply(text.upper())) | USAGE[style.path]


@dataclass
class Desk:
    """Files and batches without a network.

    `faults` spoils requests of a kind, each time one of its list is taken; one of a kind in `lost`
    is done, but its reply does not arrive. Kinds are `upload`, `create`, `list`, `look`, `collect`.
    """

    store: BatchStore = field(default_factory=lambda: BatchStore(echo))
    behaviour: BatchBehaviour = field(default_factory=BatchBehaviour)
    faults: dict[str, list[Came]] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    sent: list[tuple[str, str, bytes | None]] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)

    async def send(self, request: HttpRequest, *, seconds: float) -> Came:
        """Answer a request."""
        assert seconds > 0
        await asyncio.sleep(0)
        url = request.url or ""
        parts = urlsplit(url).path.strip("/").split("/")[-3:]
        kind = "look"
        if request.method == "POST":
            kind = "upload" if parts[-1] == "files" else "create"
        elif parts[-1] in {"batches", "content", "results"}:
            kind = "list" if parts[-1] == "batches" else "collect"
        self.kinds.append(kind)
        self.sent.append((request.method, url, request.body))
        if self.faults.get(kind):
            return self.faults[kind].pop(0)
        reply = self._answer(kind, parts, request)
        return NoReply("timeout", "nothing came back") if kind in self.lost else reply

    async def close(self) -> None:
        """Do nothing."""

    def _answer(self, kind: str, parts: list[str], request: HttpRequest) -> HttpReply:
        if kind == "upload":
            return show(self.store.add_file(read_form(request.body or b"")))
        body = json.loads(request.body) if request.body else {}
        result = self.store.answer(request.method, parts, body, self.behaviour)
        if result is None:
            return HttpReply(404, {}, b'{"error": "not here"}')
        return HttpReply(200, {}, result) if isinstance(result, bytes) else show(result)

    @property
    def sizes(self) -> list[int]:
        """How many calls each batch has."""
        files = [self.store.files[batch["input_file_id"]] for batch in self.store.batches.values()]
        return [len(file.splitlines()) for file in files]


def show(value: object, status: int = 200) -> HttpReply:
    """Return a reply with a JSON body."""
    return HttpReply(status, {}, json.dumps(value).encode())


def read_form(form: bytes) -> bytes:
    """Return the file of an upload."""
    boundary = form.split(b"\r\n", 1)[0]
    purpose, file = form.split(boundary)[1:3]
    assert purpose.endswith(b'name="purpose"\r\n\r\nbatch\r\n')
    assert b'filename="calls.jsonl"' in file
    return file.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n")


class Book(CallStore):
    """Where batches are written down; with `dies`, the process ends before a name is."""

    dies = False

    def keep_batch(self, batch: SubmittedBatch) -> None:
        """Write a batch down, or its name."""
        if self.dies and batch.batch is not None:
            raise RunError("E502", "killed")
        super().keep_batch(batch)


@dataclass
class Kept:
    """What outlives a process: the ledger and the book; and the events it sent."""

    api: str = "openai"
    ledger: calls.MemoryLedger = field(default_factory=calls.MemoryLedger)
    book: Book = field(default_factory=lambda: Book(None))
    events: list[Event] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    time: float = 0.0

    async def sleep(self, seconds: float) -> None:
        """Let time pass, without waiting for it."""
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)

    def open(
        self,
        desk: Desk | None,
        connection: Connection | None = None,
        limits: BatchLimits | None = None,
        **settings: Any,  # noqa: ANN401 - fields of `CallSettings`
    ) -> BatchClient:
        """Return a client as a new process would make it; without a desk it goes over HTTP."""
        clock = calls.Clock(lambda: self.time, lambda: self.time, self.sleep, lambda: 1.0)
        usual: dict[str, Any] = {"ledger": self.ledger, "watch": self.events.append, "clock": clock}
        how = calls.CallSettings(**(usual | settings))
        client = BatchClient(connection or reach(self.api), how, self.book, limits)
        if desk is not None:
            client.open_http = lambda *_: desk  # type: ignore[assignment]
        return client

    def complete(self, desk: Desk, *questions: str, **settings: Any) -> list[str | None]:  # noqa: ANN401
        """Return what one process is answered: texts, or errors."""
        with self.open(desk, **settings) as client:
            return tell(client.complete(make_calls(reach(self.api), *questions)))

    def fail(self, desk: Desk, code: str, *questions: str, **settings: Any) -> SolverError:  # noqa: ANN401
        """Return the error that one process ends with; no key is in it."""
        with pytest.raises(SolverError) as caught:
            self.complete(desk, *questions, **settings)
        assert caught.value.code == code
        assert "canary" not in str(caught.value)
        return caught.value

    def write_down(self, question: str, file: str, batch: str | None = None) -> None:
        """Write a batch with one call down, as an earlier process did."""
        (call,) = make_calls(reach(self.api), question)
        self.book.keep_batch(SubmittedBatch(file, reach(self.api).identity, [call.key], batch))

    @property
    def batches(self) -> list[str | None]:
        """The names of the batches that are written down."""
        return [batch.batch for batch in self.book.list_batches()]


def tell(completions: list[Completion]) -> list[str | None]:
    """Return the texts, or the errors."""
    return [reply.text if reply.error is None else reply.error for reply in completions]


def name_questions(count: int) -> list[str]:
    """Return this many different questions."""
    return [f"q{number}" for number in range(count)]


OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com/v1/messages/batches"
MESSAGE = '"messages":[{"role":"user","content":"%s"}]'
CHAT_LINE = (
    '{"custom_id":"%s","method":"POST","url":"/v1/chat/completions",'
    f'"body":{{"model":"m",{MESSAGE},"max_completion_tokens":10}}}}\n'
)
ORDERS = {
    "openai": ("", CHAT_LINE),
    "anthropic": (
        '{"requests":[ENTRIES]}',
        f'{{"custom_id":"%s","params":{{"model":"m","max_tokens":10,{MESSAGE}}}}}',
    ),
}
PATHS = {
    "openai": [
        f"POST {OPENAI}/files",
        f"POST {OPENAI}/batches",
        *[f"GET {OPENAI}/batches/batch_1"] * 2,
        f"GET {OPENAI}/files/file-2/content",
    ],
    "anthropic": [
        f"POST {ANTHROPIC}",
        *[f"GET {ANTHROPIC}/batch_1"] * 2,
        f"GET {ANTHROPIC}/batch_1/results",
    ],
}


@pytest.mark.parametrize("api", APIS)
def test_what_is_sent_and_what_comes_back(api: str) -> None:
    """All calls together, each by its key, then looks, then the answers: JSON by JSON."""
    desk, kept = Desk(), Kept(api)
    a, b = make_calls(reach(api), "a", "b")
    with kept.open(desk) as client:
        first, *later = client.complete([a, b, a])
    assert tell(later) == ["B", "A"]
    assert first == Completion(
        "A",
        prompt=a.messages,
        prompt_tokens=100,
        completion_tokens=10,
        cached_tokens=40 if api == "anthropic" else None,
        finish_reason=first.finish_reason,
        attempts=1,
        source="batch",
    )
    assert [f"{method} {url}" for method, url, _ in desk.sent] == PATHS[api]
    order, entry = ORDERS[api]
    entries = [entry % (call.key, call.messages[0]["content"]) for call in (a, b)]
    if api == "openai":
        assert desk.store.files["file-1"].decode() == "".join(entries)
    else:
        sent = json.loads(desk.sent[0][2] or b"")
        assert sent == json.loads(order.replace("ENTRIES", ",".join(entries)))
    assert kept.batches == []


def test_completions_come_in_the_order_of_the_calls() -> None:
    """The output is in any order; each call gets its own line by its name."""
    desk, kept = Desk(), Kept()
    assert kept.complete(desk, *name_questions(50)) == [f"Q{number}" for number in range(50)]
    output = [json.loads(line)["custom_id"] for line in desk.store.files["file-2"].splitlines()]
    assert output != [call.key for call in make_calls(reach(), *name_questions(50))]


def test_what_is_known_is_not_handed_in_and_kept_before_it_is_told() -> None:
    """The ledger comes first; without a missing call there is no batch."""
    desk, kept = Desk(), Kept()

    def watch(event: Event) -> None:
        assert not isinstance(event, calls.Finished) or event.call.key in kept.ledger.kept

    for questions in ("ab", "a", "abc"):
        kept.complete(desk, *questions, watch=watch)
    assert desk.sizes == [2, 1]


@pytest.mark.parametrize(
    ("api", "refused", "expired"),
    [
        ("openai", "HTTP 400: no x, please", "batch_expired: this request was not served"),
        (
            "anthropic",
            "errored: no x, please",
            "expired: the batch expired before this call was answered",
        ),
    ],
)
def test_failed_and_expired_calls_are_handed_in_again(api: str, refused: str, expired: str) -> None:
    """They are errors that say so and are kept; the next process hands in these and no others."""
    desk, kept = Desk(), Kept(api)
    assert kept.complete(desk, "a", "x") == ["A", refused]
    assert [reply.status for reply in kept.ledger.kept.values()][1] is ERROR
    desk.behaviour = BatchBehaviour(batch_outcome="expired")
    assert kept.complete(desk, "a", "b", "c")[2] == expired
    desk.behaviour = BatchBehaviour()
    assert kept.complete(desk, "a", "b", "c") == ["A", "B", "C"]
    assert desk.sizes == [2, 2, 1]


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
@pytest.mark.parametrize("api", APIS)
def test_a_batch_that_ends_otherwise_leaves_no_call_without_a_completion(
    api: str,
    outcome: Any,  # noqa: ANN401 - a literal
) -> None:
    """A refused batch is E306; calls of a cancelled one are errors. The next process asks again."""
    kept, desk = Kept(api), Desk(behaviour=BatchBehaviour(batch_outcome=outcome))
    if outcome == "failed" and api != "anthropic":
        assert "refuses the batch `batch_1`: " in kept.fail(desk, "E306", "a", "b").message
    else:
        assert len(kept.complete(desk, "a", "b")) == 2
    assert kept.batches == []
    desk.behaviour = BatchBehaviour()
    assert kept.complete(desk, "a", "b") == ["A", "B"]


SILENT = "the batch has no result for this call"
NEITHER = "the line of this call has neither an answer nor an error"


@pytest.mark.parametrize(
    ("line", "start"),
    [
        *(
            (line, SILENT)
            for line in (b"not json", b"[1, 2]", b'{"custom_id": 7}', b"\xff\xfe", b"")
        ),
        (b'{"custom_id": "another", "response": {}}', SILENT),
        (b"[" * 100_000, SILENT),
        (b'{"custom_id": "KEY"}', NEITHER),
        (b'{"custom_id": "KEY", "response": []}', NEITHER),
        (b'{"custom_id": "KEY", "response": {"status_code": 200}}', NEITHER),
        (b'{"custom_id": "KEY", "error": "oops"}', "the batch reports an error: oops"),
        (b'{"custom_id": "KEY", "error": {"code": "c"}}', "c: c"),
        (
            b'{"custom_id": "KEY", "response": {"status_code": 500, "body": "<html>"}}',
            "HTTP 500: the body is HTML, not JSON",
        ),
        (b'{"custom_id": "KEY", "response": {"status_code": 302, "body": {}}}', "HTTP 302"),
    ],
)
def test_lines_without_sense_are_errors(line: bytes, start: str) -> None:
    """Whatever stands in an output file, every call has a completion, and nothing is thrown."""
    content = line.replace(b"KEY", make_calls(reach(), "a")[0].key.encode()) + b"\n"
    desk, kept = Desk(faults={"collect": [HttpReply(200, {}, content)]}), Kept()
    (error,) = kept.complete(desk, "a")
    assert str(error).startswith(start)
    assert kept.batches == []


def test_an_answer_wins_over_an_error() -> None:
    """A call that stands in both files was answered."""
    (call,) = make_calls(reach(), "a")
    body = echo("/v1/chat/completions", {"messages": call.messages})[1]
    good = {"custom_id": call.key, "response": {"status_code": 200, "body": body}}
    error = {"custom_id": call.key, "response": None, "error": {"message": "late"}}
    desk = Desk(faults={"collect": [show(good), show(error)]})
    assert Kept().complete(desk, "a", "x") == ["A", SILENT]


@pytest.mark.parametrize("api", APIS)
def test_one_refused_batch_leaves_the_others(api: str) -> None:
    """What the others say is collected before E306 is raised, with the reason or without one."""
    desk, kept = Desk(behaviour=BatchBehaviour(batch_polls=1)), Kept(api)
    refusals = {
        "openai": {"id": "batch_1", "status": "failed", "errors": {"data": [{"message": "full"}]}},
        "anthropic": {"id": "batch_1", "processing_status": "failed"},
    }
    desk.faults["look"] = [show(refusals[api])]
    error = kept.fail(desk, "E306", "a", "b", limits=BatchLimits(max_calls=1))
    reason = "full" if api == "openai" else "it gives no reason"
    assert f"refuses the batch `batch_1`: {reason}" in error.message
    assert [reply.text for reply in kept.ledger.kept.values()] == ["B"]
    assert kept.batches == []


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("limits", "sizes"),
    [(BatchLimits(max_calls=4), [4, 4, 2]), (BatchLimits(max_bytes=10), [1] * 10)],
)
def test_many_calls_are_several_batches(api: str, limits: BatchLimits, sizes: list[int]) -> None:
    """None is larger than allowed, all are under way together, and a call is in one of them."""
    desk, kept = Desk(), Kept(api)
    assert kept.complete(desk, *name_questions(10), limits=limits)[9] == "Q9"
    assert desk.sizes == sizes
    assert "create" not in desk.kinds[desk.kinds.index("look") :]
    assert kept.open(desk).batch_limits.max_bytes < 256 * 10**6


def test_pauses_between_looks_grow() -> None:
    """From a second to a minute, and the first look is taken at once."""
    kept = Kept()
    kept.complete(Desk(behaviour=BatchBehaviour(batch_polls=15)), "a")
    assert (kept.slept[:3], kept.slept[-1], len(kept.slept)) == ([1.0, 1.5, 2.25], 60.0, 14)


@pytest.mark.parametrize(
    ("api", "words"),
    [
        ("openai", ["validating", "in_progress", "completed"]),
        ("anthropic", ["in_progress", "in_progress", "ended"]),
    ],
)
def test_looks_are_told(api: str, words: list[str]) -> None:
    """The watcher is told the status in the API's words, and how far the batch is."""
    kept = Kept(api)
    kept.complete(Desk(), "a", "x")
    assert [event for event in kept.events if isinstance(event, BatchPolled)] == [
        BatchPolled("batch_1", words[0], 0, 2, is_over=False),
        BatchPolled("batch_1", words[1], 0, 2, is_over=False),
        BatchPolled("batch_1", words[2], 2, 2, is_over=True),
    ]


def die_after(looks: int, kept: Kept) -> Callable[[Event], None]:
    """Return a watcher that stops the calls after this many events of batches."""

    def watch(event: Event) -> None:
        kept.events.append(event)
        if sum(isinstance(seen, BatchPolled) for seen in kept.events) == looks:
            raise SolverError("E305", "stopped")

    return watch


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("looks", [1, 2, 3])
def test_a_batch_under_way_is_collected_by_the_next_process(api: str, looks: int) -> None:
    """Whenever the first one ends, nothing is handed in again.

    Who stops waiting is told what goes on. A resumed run may not make as many calls again.
    """
    desk, kept, budget = Desk(), Kept(api), Budget(max_calls=2)
    kept.fail(desk, "E305", "a", "b", watch=die_after(looks, kept))
    assert kept.batches == ["batch_1"]
    if looks > 1:
        assert kept.events[-1] == BatchPending("batch_1", 2)
    kept.fail(desk, "E305", "a", "b", "c", budget=budget)
    assert (budget.calls, len(kept.ledger.kept)) == (2, 2)
    assert kept.complete(desk, "a", "b", "c") == ["A", "B", "C"]
    assert (desk.sizes, kept.batches) == ([2, 1], [])


@pytest.mark.parametrize("api", APIS)
def test_a_process_that_dies_without_the_name_leaves_the_batch_to_the_next(api: str) -> None:
    """What is handed in is written down before; the next process finds the batch in the list."""
    desk, kept = Desk(), Kept(api)
    kept.book.dies = True
    with pytest.raises(RunError):
        kept.complete(desk, "a", "b")
    assert kept.batches == [None]
    kept.book.dies = False
    assert kept.complete(desk, "a", "b") == ["A", "B"]
    assert (desk.kinds.count("create"), kept.batches) == (1, [])


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("listed", [[], [HttpReply(404, {}, b"{}")]])
def test_what_is_in_no_list_was_not_made(api: str, listed: list[Came]) -> None:
    """Nor is it where nothing is listed; its calls are handed in, once."""
    desk, kept = Desk(faults={"list": listed}), Kept(api)
    kept.write_down("a", "answerkey-0-0011")
    assert kept.complete(desk, "a", "b") == ["A", "B"]
    assert (desk.sizes, kept.batches) == ([2], [])


@pytest.mark.parametrize("api", APIS)
def test_an_order_whose_reply_is_lost_is_not_repeated(api: str) -> None:
    """Before another attempt the batches are listed; after a 429 there is none."""
    desk = Desk(lost={"create"})
    assert Kept(api).complete(desk, "a") == ["A"]
    assert list(desk.store.batches) == ["batch_1"]
    desk = Desk(faults={"create": [HttpReply(429, {}, b"{}"), NoReply("reset", "broken off")]})
    assert Kept(api).complete(desk, "a") == ["A"]
    assert desk.kinds.count("list") == 1


def test_a_file_that_never_became_a_batch_becomes_one() -> None:
    """Nothing is uploaded twice."""
    desk, kept = Desk(faults={"create": [NoReply("certificate", "expired")]}), Kept()
    kept.fail(desk, "E306", "a")
    assert kept.batches == [None]
    assert kept.complete(desk, "a") == ["A"]
    assert desk.kinds.count("upload") == 1


def test_batches_of_other_models_are_left_alone() -> None:
    """A batch is taken up by the connection that made it, and only if it holds one of the calls."""
    kept = Kept()
    kept.write_down("another", "file-9", "batch_9")
    kept.book.keep_batch(
        SubmittedBatch("file-8", "another", [make_calls(reach(), "a")[0].key], "batch_8")
    )
    assert kept.complete(Desk(), "a") == ["A"]
    assert kept.batches == ["batch_9", "batch_8"]


def test_a_batch_that_is_gone_is_asked_again() -> None:
    """Its calls are errors that say so, and the next asking hands them in."""
    desk, kept = Desk(), Kept()
    kept.write_down("a", "file-1", "batch_7")
    assert kept.complete(desk, "a") == ["the batch no longer exists: HTTP 404: not here"]
    assert kept.complete(desk, "a") == ["A"]


@pytest.mark.parametrize("problem", [HttpReply(404, {}, b"{}"), NoReply("too_large", "too large")])
def test_an_output_that_cannot_be_had_is_an_error_of_its_calls(problem: Came) -> None:
    """A file that is gone or too large fails the calls that it was about."""
    (error,) = Kept().complete(Desk(faults={"collect": [problem]}), "a")
    assert str(error).startswith("a file of the batch cannot be downloaded: ")


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("kind", ["upload", "create", "look", "collect"])
@pytest.mark.parametrize(
    "problem",
    [
        HttpReply(429, {"retry-after": "7"}, b"{}"),
        HttpReply(503, {}, b"<html>"),
        NoReply("reset", "broken off"),
        NoReply("timeout", "too late"),
    ],
)
def test_what_may_pass_is_tried_again(api: str, kind: str, problem: Came) -> None:
    """Every request is repeated after a pause, and the calls are handed in once."""
    desk, kept = Desk(faults={kind: [problem, problem]}), Kept(api)
    assert kept.complete(desk, "a") == ["A"]
    assert list(desk.store.batches) == ["batch_1"]
    if isinstance(problem, HttpReply) and problem.status == 429 and kind in desk.kinds:
        assert kept.slept.count(7.5) == 2


def test_a_web_page_in_place_of_a_batch_does_not_end_the_waiting() -> None:
    """A proxy may send one."""
    desk = Desk(faults={"look": [HttpReply(200, {}, b"<html>")]})
    assert Kept().complete(desk, "a") == ["A"]


LASTING = [
    HttpReply(302, {"Location": "http://elsewhere"}, b""),
    HttpReply(400, {}, b'{"error": "what?"}'),
    NoReply("certificate", "not valid"),
    NoReply("address", "not valid"),
]
NO_BATCHES = [{}, {"id": 7}, {"id": "..", "name": ".."}, {"id": "batch_1", "name": "batch_1"}]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("kind", "problem", "code"),
    [
        *((kind, show({"error": f"bad key {KEY}"}, 401), "E304") for kind in ("create", "look")),
        *((kind, problem, "E306") for kind in ("look", "collect") for problem in LASTING),
        *((kind, show(batch), "E306") for kind in ("create", "look") for batch in NO_BATCHES),
        ("look", show("page"), "E306"),
    ],
)
def test_what_is_paid_for_is_not_given_up(api: str, kind: str, problem: Came, code: str) -> None:
    """A refused key, a redirect, a bad certificate or what is no batch ends the waiting.

    What is under way stays written down and is collected later; the key is in no message.
    """
    desk, kept = Desk(faults={kind: [problem]}), Kept(api)
    kept.fail(desk, code, "a")
    assert kept.batches == ([None] if kind == "create" else ["batch_1"])
    assert kept.complete(desk, "a") == ["A"]
    assert list(desk.store.batches) == ["batch_1"]


def test_an_endpoint_that_stays_away_is_given_up_after_an_hour() -> None:
    """Looks are repeated longer than calls; then E306, and the batch can be collected later."""
    desk, kept = Desk(faults={"look": [NoReply("reset", "gone away")] * 1000}), Kept()
    assert "gone away" in kept.fail(desk, "E306", "a").message
    assert 3500 < kept.time < 3700
    desk.faults.clear()
    assert kept.complete(desk, "a") == ["A"]


@pytest.mark.parametrize(
    ("api", "kind"), [("openai", "upload"), *((api, "create") for api in APIS)]
)
def test_an_endpoint_without_batches_says_so(api: str, kind: str) -> None:
    """E306 with the way out, and nothing is written down that could be waited for."""
    kept = Kept(api)
    error = kept.fail(Desk(faults={kind: [show({"detail": "Not Found"}, 404)]}), "E306", "a")
    assert "does not accept a batch: HTTP 404: Not Found" in error.message
    assert "--no-batch" in (error.hint or "")
    assert kept.batches == []


def test_max_calls_is_not_passed() -> None:
    """What fits is handed in and collected; then E305."""
    desk, kept = Desk(), Kept()
    error = kept.fail(desk, "E305", *name_questions(10), budget=Budget(max_calls=4))
    assert "limit of 4 calls" in error.message
    assert (desk.sizes, len(kept.ledger.kept)) == ([4], 4)


def test_max_cost_is_not_passed() -> None:
    """Money is set aside by estimate and settled by usage.

    What that frees is used by another batch.
    """
    desk, budget = Desk(), Budget(max_cost=600)
    connection = replace(reach(), generation=Generation(max_tokens=20))
    failing = pytest.raises(SolverError, match=r"^error\[E305\]")
    with Kept().open(desk, connection, budget=budget, price=Price(0, 20)) as client, failing:
        client.complete(make_calls(connection, *name_questions(10)))
    assert (budget.spent, desk.sizes) == (500, [3, 1, 1])


def test_a_request_that_cannot_be_built_is_an_error() -> None:
    """It is kept, and the others are handed in."""
    api, desk = PROVIDER_APIS["chat"], Desk()

    def write(connection: Connection, messages: Messages, parameters: Body) -> Body:
        if messages[0]["content"] == "bad":
            raise SolverError("E302", "cannot be built")
        return api.write(connection, messages, parameters)

    connection = replace(reach(), api=replace(api, write=write))
    with Kept().open(desk, connection) as client:
        completions = client.complete(make_calls(connection, "a", "bad"))
    assert (tell(completions), desk.sizes) == (["A", "cannot be built"], [1])


def test_a_key_that_is_sent_back_is_hidden() -> None:
    """Neither an answer, nor an error, nor a complaint shows it."""
    desk = Desk(BatchStore(lambda *_: (500, {"error": f"no {KEY}"})))
    assert Kept().complete(desk, "a") == ["HTTP 500: no ***"]
    desk = Desk(faults={"look": [show({"id": "b", "status": "failed", "errors": f"no {KEY}"})]})
    assert "no ***" in Kept().fail(desk, "E306", "a").message


@pytest.mark.parametrize("api", APIS)
def test_batches_go_over_http(api: str) -> None:
    """Each request reaches its path, and brings the key in its header."""
    with BatchServer({"a": "1", "b": "2"}, BatchBehaviour(api_key=KEY)) as server:
        values = {f"{api.upper()}_API_KEY": KEY, f"{api.upper()}_BASE_URL": server.root}
        connection = connect(f"{api}/m", caller=Caller(values))
        with Kept().open(None, connection) as client:
            assert tell(client.complete(make_calls(connection, "b", "a"))) == ["2", "1"]
        paths = [f"{request.method} {request.path}" for request in server.asked.requests]
        assert paths == [re.sub("https://[^/]+", "", path) for path in PATHS[api]]
        assert sum(server.asked.keys.values()) == len(paths)


def test_which_endpoints_take_batches() -> None:
    """OpenAI's chat API and Anthropic's; for others E119 names model and way out."""
    for name in ("openai/m", "http://127.0.0.1:8000/v1#m", "novita/m", "anthropic/m"):
        connect(name, caller=Caller({})).require_batches()
    for name in ("openai/m?api=completions", "gemini/m", "https://me.openai.azure.com/openai/v1#m"):
        match = re.escape(f"`batch=True` cannot be used with `{name}`")
        with pytest.raises(SpecError, match=rf"^error\[E119\]: .*{match}"):
            connect(name, caller=Caller({})).require_batches()


@given(st.lists(st.integers(1, 60), max_size=20), st.integers(1, 5), st.integers(1, 400))
def test_files_hold_every_line_once(lengths: list[int], calls: int, size: int) -> None:
    """In order, within the limits; only a line that is too large for any file is alone in one."""
    lines = {f"k{number}": b"x" * length for number, length in enumerate(lengths)}
    files = list(split_into_files(lines, BatchLimits(max_calls=calls, max_bytes=size)))
    assert [pair for file in files for pair in file.items()] == list(lines.items())
    assert all(0 < len(file) <= calls for file in files)
    assert all(len(file) == 1 or sum(map(len, file.values())) <= size for file in files)


def test_a_text_never_breaks_a_line() -> None:
    """Line breaks and their many relatives are escaped, half a surrogate pair as well."""
    messages = [{"role": "user", "content": "1\n2\r3\u20284\x855\ud800"}]
    written = write_line(reach(), Call("a", "1", 0, messages))
    assert isinstance(written, bytes)
    assert len(written.splitlines()) == 1
    assert written.isascii()


@pytest.mark.parametrize("depth", [10, 900, 10**5])
def test_no_depth_of_an_answer_raises(depth: int) -> None:
    """A line that cannot be parsed is no line; one that can be is the failure of its call."""
    line = f'{{"custom_id": "a", "response": {{"body": {"[" * depth}{"]" * depth}}}}}'
    assert [reply.status.value for _, reply in read_lines(line.encode(), reach())] in (
        [],
        ["ERROR"],
    )
    loop: list[object] = []
    for _ in range(depth):
        loop = [loop]
    assert read_line({"response": {"body": loop}}, reach().read).status is ERROR
