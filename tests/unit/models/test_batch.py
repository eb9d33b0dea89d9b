"""The laws of calling in batches: handed in once, collected by name, nothing paid twice."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.servers import BatchBehaviour, BatchServer, BatchStore

from answerkey.errors import SolverError, SpecError
from answerkey.models.batch import BatchClient, BatchLimits, cut_files, read_lines, write_line
from answerkey.models.calls import (
    BatchLeft,
    BatchSeen,
    Budget,
    Call,
    CallSettings,
    Clock,
    Event,
    Finished,
    MemoryLedger,
    Submitted,
    call_key,
)
from answerkey.models.config import Caller, Generation, Price, Secret
from answerkey.models.connections import connect
from answerkey.models.providers import APIS, Connection
from answerkey.models.retry import HttpReply, HttpRequest, NoReply
from answerkey.types import Completion, CompletionStatus

KEY = "sk-canary-0123456789"
URL = "http://127.0.0.1:9/v1/chat/completions"
CONNECTION = Connection(
    "m",
    APIS["chat"],
    URL,
    "m",
    {"Authorization": Secret(f"Bearer {KEY}")},
    Secret(KEY),
    Generation(max_tokens=10),
)
ERROR = CompletionStatus.ERROR


@dataclass
class MemoryBook:
    """A book for runs that leave nothing behind."""

    kept: dict[str, Submitted] = field(default_factory=dict)

    def list_batches(self, identity: str) -> list[Submitted]:
        """Return the batches of a connection that are not collected yet, the oldest first."""
        return [one for one in self.kept.values() if one.identity == identity]

    def keep_batch(self, batch: Submitted) -> None:
        """Write a batch down, or its name."""
        self.kept[batch.file] = batch

    def end_batch(self, batch: Submitted) -> None:
        """Forget a batch."""
        self.kept.pop(batch.file, None)


def echo(_: str, body: Mapping[str, Any]) -> tuple[int, object]:
    """Answer with the question."""
    text = body["messages"][0]["content"]
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return 200, {
        "choices": [{"message": {"role": "assistant", "content": text.upper()}}],
        "usage": usage,
    }


def refuse_some(_: str, body: Mapping[str, Any]) -> tuple[int, object]:
    """Answer every question but those with an `x`."""
    if "x" in body["messages"][0]["content"]:
        return 400, {"error": {"message": "no x, please"}}
    return echo(_, body)


@dataclass
class FakeDesk:
    """Files and batches without a network.

    `faults` spoils requests, each time one of its list is taken. Its keys are a method and the last
    word of a path that is no name: `POST files`, `GET batches`, `GET content`, and `GET batch` for
    a look at one batch.
    """

    desk: BatchStore = field(default_factory=lambda: BatchStore(echo))
    behaviour: BatchBehaviour = field(default_factory=BatchBehaviour)
    faults: dict[str, list[HttpReply | NoReply]] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    seen: list[str] = field(default_factory=list)
    is_closed: bool = False

    async def send(self, request: HttpRequest, *, seconds: float) -> HttpReply | NoReply:
        """Answer a request; one of a kind in `lost` is done, but its reply does not arrive."""
        assert seconds > 0
        await asyncio.sleep(0)
        parts = [part for part in urlsplit(request.url or "").path.split("/") if part][1:]
        kind = f"{request.method} {'batch' if len(parts) == 2 else parts[-1]}"
        self.seen.append(kind)
        if self.faults.get(kind):
            return self.faults[kind].pop(0)
        reply = self._answer(request, parts)
        return NoReply("timeout", "nothing came back") if kind in self.lost else reply

    async def close(self) -> None:
        """Note that it was closed."""
        self.is_closed = True

    def _answer(self, request: HttpRequest, parts: list[str]) -> HttpReply:
        if request.method == "POST" and parts == ["files"]:
            assert request.body is not None
            return show(self.desk.add_file(read_form(request.body)))
        body = json.loads(request.body) if request.body else {}
        found = self.desk.answer(request.method, parts, body, self.behaviour)
        if isinstance(found, bytes):
            return HttpReply(200, {}, found)
        return HttpReply(404, {}, b'{"error": "not here"}') if found is None else show(found)

    @property
    def inputs(self) -> list[list[dict[str, Any]]]:
        """The lines of each batch's input."""
        files = [self.desk.files[batch["input_file_id"]] for batch in self.desk.batches.values()]
        return [[json.loads(line) for line in file.splitlines()] for file in files]


def show(value: object) -> HttpReply:
    """Return a reply with a JSON body."""
    return HttpReply(200, {}, json.dumps(value).encode())


def read_form(form: bytes) -> bytes:
    """Return the file of an upload."""
    boundary = form.split(b"\r\n", 1)[0]
    purpose, file = form.split(boundary)[1:3]
    assert purpose.endswith(b'name="purpose"\r\n\r\nbatch\r\n')
    assert b'filename="calls.jsonl"' in file
    return file.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n")


@dataclass
class Kept:
    """What outlives a process: the ledger and the book; and what was heard."""

    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    book: MemoryBook = field(default_factory=MemoryBook)
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
        desk: FakeDesk | None,
        *,
        connection: Connection = CONNECTION,
        limits: BatchLimits | None = None,
        **settings: object,
    ) -> BatchClient:
        """Return a client as a new process would make it; without a desk it goes over HTTP."""
        clock = Clock(lambda: self.time, lambda: self.time, self.sleep, lambda: 1.0)
        known = {"ledger": self.ledger, "watch": self.events.append, "clock": clock}
        client = BatchClient(connection, CallSettings(**(known | settings)), self.book, limits)  # type: ignore[arg-type]
        if desk is not None:
            client.open_http = lambda *_: desk  # type: ignore[assignment]
        return client

    def complete(self, desk: FakeDesk, *questions: str, **settings: object) -> list[Completion]:
        """Return what one process is answered."""
        with self.open(desk, **settings) as client:  # type: ignore[arg-type]  # the settings of `open`
            return client.complete(make_calls(*questions))

    def fail(self, desk: FakeDesk, code: str, *questions: str, **settings: object) -> SolverError:
        """Return the error that one process ends with; no key is in it."""
        with pytest.raises(SolverError) as caught:
            self.complete(desk, *questions, **settings)
        assert caught.value.code == code
        assert "canary" not in str(caught.value)
        return caught.value


def make_calls(*questions: str, connection: Connection = CONNECTION) -> list[Call]:
    """Return one call for each question."""
    prompts = [[{"role": "user", "content": question}] for question in questions]
    return [
        Call(call_key(connection, prompt, 0), f"{number:03d}", 0, prompt)
        for number, prompt in enumerate(prompts)
    ]


def name_questions(count: int) -> list[str]:
    """Return so many different questions."""
    return [f"q{number}" for number in range(count)]


def tell(completions: Sequence[Completion]) -> list[str | None]:
    """Return the texts, or the errors."""
    return [one.text if one.error is None else one.error for one in completions]


def test_completions_come_in_the_order_of_the_calls() -> None:
    """The output is in any order; each call gets its own line by its name."""
    desk, kept = FakeDesk(), Kept()
    completions = kept.complete(desk, *name_questions(50))
    assert tell(completions) == [f"Q{number}" for number in range(50)]
    output = [json.loads(line)["custom_id"] for line in desk.desk.files["file-2"].splitlines()]
    assert output != [call.key for call in make_calls(*name_questions(50))]
    assert completions[0] == Completion(
        "Q0",
        prompt=[{"role": "user", "content": "q0"}],
        prompt_tokens=100,
        completion_tokens=10,
        attempts=1,
        source="batch",
        reply=completions[0].reply,
    )
    assert desk.seen == ["POST files", "POST batches", "GET batch", "GET batch", "GET content"]
    assert desk.is_closed
    assert kept.book.kept == {}


def test_a_line_is_the_request_that_would_be_sent() -> None:
    """Its name is the key of the call, and no name is there twice."""
    desk = FakeDesk()
    first, *_ = make_calls("a")
    assert tell(Kept().complete(desk, "a", "b", "a")) == ["A", "B", "A"]
    (lines,) = desk.inputs
    assert lines[0] == {
        "custom_id": first.key,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": CONNECTION.build(first.messages),
    }
    assert len({line["custom_id"] for line in lines}) == len(lines) == 2


def test_what_is_known_is_not_handed_in() -> None:
    """The ledger comes first; without a missing call there is no batch."""
    desk, kept = FakeDesk(), Kept()
    kept.complete(desk, "a", "b")
    kept.complete(desk, "a")
    kept.complete(desk, "a", "b", "c")
    assert [len(lines) for lines in desk.inputs] == [2, 1]


def test_every_call_is_kept_before_it_is_told() -> None:
    """A finished call is in the ledger when the onlooker hears of it."""
    kept = Kept()

    def watch(event: Event) -> None:
        if isinstance(event, Finished):
            assert event.call.key in kept.ledger.kept
            kept.events.append(event)

    kept.complete(FakeDesk(), "a", "b", watch=watch)
    assert len(kept.events) == 2


def test_lines_that_failed_are_errors_and_asked_again() -> None:
    """What stands in the error file is a failed call: kept, but not found by the next asking."""
    desk, kept = FakeDesk(BatchStore(refuse_some)), Kept()
    assert tell(kept.complete(desk, "a", "x", "b")) == ["A", "HTTP 400: no x, please", "B"]
    assert kept.ledger.kept[make_calls("x")[0].key].status is ERROR
    desk.desk.serve = echo
    assert tell(kept.complete(desk, "a", "x", "b")) == ["A", "X", "B"]
    assert [len(lines) for lines in desk.inputs] == [3, 1]


def test_an_expired_batch_has_answered_a_part() -> None:
    """The rest are errors that say so."""
    desk = FakeDesk(behaviour=BatchBehaviour(batch_outcome="expired"))
    assert tell(Kept().complete(desk, "a", "b", "c")) == [
        "A",
        "batch_expired: this request was not served",
        "C",
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"not json", "the batch says nothing of this call"),
        (b"[1, 2]", "the batch says nothing of this call"),
        (b'{"custom_id": 7}', "the batch says nothing of this call"),
        (b'{"custom_id": "another", "response": {}}', "the batch says nothing of this call"),
        (b"[" * 100_000, "the batch says nothing of this call"),
        (b"\xff\xfe", "the batch says nothing of this call"),
        (b"", "the batch says nothing of this call"),
        (b'{"custom_id": "KEY"}', "the line of this call has neither an answer nor an error"),
        (
            b'{"custom_id": "KEY", "response": []}',
            "the line of this call has neither an answer nor an error",
        ),
        (b'{"custom_id": "KEY", "error": "oops"}', "the batch reports an error: oops"),
        (b'{"custom_id": "KEY", "error": {"code": "c"}}', "c: c"),
        (
            b'{"custom_id": "KEY", "response": {"status_code": 200}}',
            "the line of this call has neither an answer nor an error",
        ),
        (
            b'{"custom_id": "KEY", "response": {"status_code": 500, "body": "<html>"}}',
            "HTTP 500: the body is HTML, not JSON",
        ),
        (
            b'{"custom_id": "KEY", "response": {"status_code": 302, "body": {}}}',
            "status 302: the endpoint",
        ),
    ],
)
def test_lines_without_sense_are_errors(line: bytes, said: str) -> None:
    """Whatever stands in an output file, every call has a completion, and nothing is thrown."""
    desk, kept = FakeDesk(), Kept()
    content = line.replace(b"KEY", make_calls("a")[0].key.encode()) + b"\n"
    desk.faults["GET content"] = [HttpReply(200, {}, content)]
    (completion,) = kept.complete(desk, "a")
    assert completion.status is ERROR
    assert (completion.error or "").startswith(said)
    assert kept.book.kept == {}


def test_an_answer_wins_over_an_error() -> None:
    """A call that stands in both files was answered."""
    desk, kept, key = FakeDesk(BatchStore(refuse_some)), Kept(), make_calls("a")[0].key
    body = echo("", {"messages": [{"role": "user", "content": "a"}]})[1]
    good = {"custom_id": key, "response": {"status_code": 200, "body": body}}
    error = {"custom_id": key, "response": None, "error": {"message": "late"}}
    desk.faults["GET content"] = [
        HttpReply(200, {}, json.dumps(one).encode()) for one in (good, error)
    ]
    assert tell(kept.complete(desk, "a", "x")) == ["A", "the batch says nothing of this call"]


def test_a_refused_batch_is_an_error() -> None:
    """A batch that fails as a whole was not begun: E306 with the reason, and it can be handed in
    again.
    """
    desk, kept = FakeDesk(behaviour=BatchBehaviour(batch_polls=1)), Kept()
    complaint = {
        "data": [{"code": "token_limit_exceeded", "message": "too many tokens are waiting"}]
    }
    failed = {"id": "batch_1", "status": "failed", "errors": complaint}
    desk.faults["GET batch"] = [show(failed)]
    assert (
        "refuses the batch `batch_1`: too many tokens are waiting"
        in kept.fail(desk, "E306", "a").message
    )
    assert kept.ledger.kept == {}
    assert tell(kept.complete(desk, "a")) == ["A"]


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        (BatchLimits(max_calls=4), [4, 4, 2]),
        (BatchLimits(max_bytes=600), [2, 2, 2, 2, 2]),
        (BatchLimits(max_bytes=10), [1] * 10),
    ],
)
def test_many_calls_are_several_batches(limits: BatchLimits, sizes: list[int]) -> None:
    """None is larger than allowed, all are under way together, and a call is in one of them."""
    desk = FakeDesk()
    completions = Kept().complete(desk, *name_questions(10), limits=limits)
    assert tell(completions) == [f"Q{number}" for number in range(10)]
    assert [len(lines) for lines in desk.inputs] == sizes
    assert desk.seen.index("GET batch") == 2 * len(sizes)


def test_one_refused_batch_leaves_the_others() -> None:
    """What the others say is collected before the error is raised."""
    desk, kept = FakeDesk(behaviour=BatchBehaviour(batch_polls=1)), Kept()
    desk.faults["GET batch"] = [show({"id": "batch_1", "status": "failed", "errors": None})]
    with pytest.raises(SolverError, match="it gives no reason"):
        kept.complete(desk, "a", "b", limits=BatchLimits(max_calls=1))
    assert [one.text for one in kept.ledger.kept.values()] == ["B"]
    assert kept.book.kept == {}


def test_pauses_between_looks_grow() -> None:
    """From a second to a minute, and the first look is taken at once."""
    kept = Kept()
    kept.complete(FakeDesk(behaviour=BatchBehaviour(batch_polls=15)), "a")
    assert kept.slept[:3] == [1.0, 1.5, 2.25]
    assert kept.slept[-1] == 60.0
    assert len(kept.slept) == 14


def test_looks_are_told() -> None:
    """The onlooker hears the status and how far the batch is."""
    kept = Kept()
    kept.complete(FakeDesk(), "a", "b")
    assert [event for event in kept.events if isinstance(event, BatchSeen)] == [
        BatchSeen("batch_1", "validating", 0, 2, is_over=False),
        BatchSeen("batch_1", "in_progress", 0, 2, is_over=False),
        BatchSeen("batch_1", "completed", 2, 2, is_over=True),
    ]


def die_when(status: str) -> Callable[[Event], None]:
    """Return an onlooker that ends the asking when a batch has this status."""

    def watch(event: Event) -> None:
        if isinstance(event, BatchSeen) and event.status == status:
            raise SolverError("E305", "stopped")

    return watch


@pytest.mark.parametrize("status", ["validating", "in_progress", "completed"])
def test_a_batch_under_way_is_collected_by_the_next_process(status: str) -> None:
    """Whenever the first one ends after the creation, nothing is handed in again."""
    desk, kept = FakeDesk(), Kept()
    kept.fail(desk, "E305", "a", "b", watch=die_when(status))
    assert [one.batch for one in kept.book.kept.values()] == ["batch_1"]
    assert tell(kept.complete(desk, "a", "b", "c")) == ["A", "B", "C"]
    assert [len(lines) for lines in desk.inputs] == [2, 1]
    assert kept.book.kept == {}


def test_who_stops_waiting_is_told_what_goes_on() -> None:
    """Each batch that is left is told, with its number of calls."""
    kept = Kept()

    def watch(event: Event) -> None:
        kept.events.append(event)
        die_when("in_progress")(event)

    kept.fail(FakeDesk(), "E305", "a", "b", watch=watch)
    assert kept.events[-1] == BatchLeft("batch_1", 2)


def test_a_creation_whose_reply_is_lost_is_not_repeated() -> None:
    """Before another attempt the batches are listed: the one over our file is ours."""
    desk, kept = FakeDesk(lost={"POST batches"}), Kept()
    assert tell(kept.complete(desk, "a")) == ["A"]
    assert list(desk.desk.batches) == ["batch_1"]
    assert desk.seen[:3] == ["POST files", "POST batches", "GET batches"]


def test_a_process_that_dies_while_it_creates_a_batch_leaves_it_to_the_next() -> None:
    """The file is written down before; the batch over it is found, and not created again."""
    desk, kept = FakeDesk(), Kept()
    uploaded = str(desk.desk.add_file(b"")["id"])
    first = make_calls("a")[0]
    line = {
        "custom_id": first.key,
        "url": "/v1/chat/completions",
        "body": CONNECTION.build(first.messages),
    }
    desk.desk.files[uploaded] = json.dumps(line).encode()
    kept.book.keep_batch(Submitted(uploaded, CONNECTION.identity, [first.key]))
    desk.desk.answer("POST", ["batches"], {"input_file_id": uploaded}, desk.behaviour)
    assert tell(kept.complete(desk, "a")) == ["A"]
    assert list(desk.desk.batches) == ["batch_1"]
    assert "POST files" not in desk.seen


def test_a_file_that_never_became_a_batch_becomes_one() -> None:
    """Nothing is uploaded twice; a file that is gone is made anew."""
    desk, kept = FakeDesk(faults={"POST batches": [NoReply("certificate", "expired")]}), Kept()
    kept.fail(desk, "E306", "a")
    assert [one.batch for one in kept.book.kept.values()] == [None]
    assert tell(kept.complete(desk, "a")) == ["A"]
    assert desk.seen.count("POST files") == 1
    kept.book.keep_batch(Submitted("file-of-old", CONNECTION.identity, [make_calls("b")[0].key]))
    assert tell(kept.complete(desk, "b")) == ["B"]
    assert kept.book.kept == {}


def test_batches_of_other_models_are_left_alone() -> None:
    """A batch is taken up by the connection that made it, and when it holds a call of ours."""
    desk, kept = FakeDesk(), Kept()
    others = [
        Submitted("file-8", "another", [make_calls("a")[0].key], "batch_8"),
        Submitted("file-9", CONNECTION.identity, ["another call"], "batch_9"),
    ]
    for one in others:
        kept.book.keep_batch(one)
    assert tell(kept.complete(desk, "a")) == ["A"]
    assert list(kept.book.kept.values()) == others


def test_a_batch_that_is_gone_is_asked_again() -> None:
    """Its calls are errors that say so, and the next asking hands them in."""
    desk, kept = FakeDesk(), Kept()
    kept.book.keep_batch(
        Submitted("file-1", CONNECTION.identity, [make_calls("a")[0].key], "batch_7")
    )
    assert tell(kept.complete(desk, "a")) == ["the batch is not there: HTTP 404: not here"]
    assert tell(kept.complete(desk, "a")) == ["A"]


@pytest.mark.parametrize(
    "problem", [HttpReply(404, {}, b"{}"), NoReply("too_large", "the file is too large")]
)
def test_an_output_that_cannot_be_had_is_an_error_of_its_calls(
    problem: HttpReply | NoReply,
) -> None:
    """A file that is gone or too large fails the calls that it was about."""
    desk = FakeDesk(faults={"GET content": [problem]})
    (completion,) = Kept().complete(desk, "a")
    assert completion.status is ERROR
    assert (completion.error or "").startswith("a file of the batch cannot be had: ")


@pytest.mark.parametrize("kind", ["POST files", "POST batches", "GET batch", "GET content"])
@pytest.mark.parametrize(
    "problem",
    [
        HttpReply(429, {"retry-after": "7"}, b"{}"),
        HttpReply(503, {}, b"<html>"),
        NoReply("reset", "broken off"),
        NoReply("timeout", "too late"),
    ],
)
def test_what_may_pass_is_tried_again(kind: str, problem: HttpReply | NoReply) -> None:
    """Every request is repeated after a pause, and the calls are handed in once."""
    desk, kept = FakeDesk(faults={kind: [problem, problem]}), Kept()
    assert tell(kept.complete(desk, "a")) == ["A"]
    assert list(desk.desk.batches) == ["batch_1"]
    if isinstance(problem, HttpReply) and problem.status == 429:
        assert kept.slept.count(7.5) == 2


@pytest.mark.parametrize("kind", ["POST files", "POST batches", "GET batch"])
def test_a_refused_key_ends_the_asking(kind: str) -> None:
    """E304; what is under way stays written down, and the key is in no message."""
    desk, kept = FakeDesk(), Kept()
    refusal = HttpReply(401, {}, json.dumps({"error": f"bad key {KEY}"}).encode())
    desk.faults[kind] = [refusal]
    kept.fail(desk, "E304", "a")
    assert len(kept.book.kept) == (0 if kind == "POST files" else 1)
    assert tell(kept.complete(desk, "a")) == ["A"]
    assert list(desk.desk.batches) == ["batch_1"]


@pytest.mark.parametrize("kind", ["GET batch", "GET content"])
@pytest.mark.parametrize(
    "problem",
    [
        HttpReply(302, {"Location": "http://elsewhere"}, b""),
        HttpReply(400, {}, b'{"error": "what?"}'),
        NoReply("certificate", "not valid"),
        NoReply("address", "not valid"),
    ],
)
def test_what_is_paid_for_is_not_given_up(kind: str, problem: HttpReply | NoReply) -> None:
    """A refusal, a redirect or a bad certificate ends the waiting; the batch is collected later."""
    desk, kept = FakeDesk(faults={kind: [problem]}), Kept()
    kept.fail(desk, "E306", "a")
    assert tell(kept.complete(desk, "a")) == ["A"]
    assert list(desk.desk.batches) == ["batch_1"]


def test_an_endpoint_that_stays_away_is_given_up_after_an_hour() -> None:
    """Looks are repeated longer than calls; then E306, and the batch can be collected later."""
    desk, kept = FakeDesk(), Kept()
    desk.faults["GET batch"] = [NoReply("reset", "gone away")] * 1000
    assert "gone away" in kept.fail(desk, "E306", "a").message
    assert 3500 < kept.time < 3700
    desk.faults.clear()
    assert tell(kept.complete(desk, "a")) == ["A"]


@pytest.mark.parametrize("kind", ["POST files", "POST batches"])
def test_an_endpoint_without_batches_says_so(kind: str) -> None:
    """E306 with the way out, and nothing is written down that could be waited for."""
    kept = Kept()
    error = kept.fail(
        FakeDesk(faults={kind: [HttpReply(404, {}, b'{"detail": "Not Found"}')]}), "E306", "a"
    )
    assert "takes no batch: HTTP 404: Not Found" in error.message
    assert "--no-batch" in (error.hint or "")
    assert kept.book.kept == {}


@pytest.mark.parametrize("shown", [{}, {"id": 7}, {"id": ".."}, {"id": "batch_1"}])
def test_what_is_no_batch_is_not_waited_for(shown: dict[str, object]) -> None:
    """A reply without a name or a status is an error, and the file stays written down."""
    kept = Kept()
    kept.fail(FakeDesk(faults={"POST batches": [show(shown)]}), "E306", "a")
    assert len(kept.book.kept) == 1


def test_max_calls_is_not_passed() -> None:
    """What fits is handed in and collected; then E305. What was sent before counts."""
    desk, kept = FakeDesk(), Kept()
    error = kept.fail(desk, "E305", *name_questions(10), budget=Budget(max_calls=4))
    assert "limit of 4 calls" in error.message
    assert [len(lines) for lines in desk.inputs] == [4]
    assert len(kept.ledger.kept) == 4


def test_calls_under_way_count_when_they_are_taken_up() -> None:
    """A resumed run may not make as many calls again."""
    desk, kept = FakeDesk(), Kept()
    kept.fail(desk, "E305", "a", "b", watch=die_when("in_progress"))
    budget = Budget(max_calls=2)
    with pytest.raises(SolverError, match="limit of 2 calls"):
        kept.complete(desk, "a", "b", "c", budget=budget)
    assert budget.calls == 2
    assert sorted(one.text or "" for one in kept.ledger.kept.values()) == ["A", "B"]


def test_max_cost_is_not_passed() -> None:
    """Money is set aside by estimate and settled by usage.

    What that frees is used by another batch.
    """
    desk, kept, budget = FakeDesk(), Kept(), Budget(max_cost=600)
    connection = replace(CONNECTION, generation=Generation(max_tokens=20))
    calls = make_calls(*name_questions(10), connection=connection)
    with kept.open(desk, connection=connection, budget=budget, price=Price(0, 20)) as client:
        with pytest.raises(SolverError) as caught:
            client.complete(calls)
        assert caught.value.code == "E305"
    assert budget.spent == 500
    assert [len(lines) for lines in desk.inputs] == [3, 1, 1]


def test_a_request_that_cannot_be_built_is_an_error() -> None:
    """It is kept, and the others are handed in."""
    desk, kept = FakeDesk(), Kept()

    def write(
        connection: Connection, messages: Sequence[Mapping[str, object]], given: dict[str, object]
    ) -> dict[str, object]:
        if messages[0]["content"] == "bad":
            raise SolverError("E302", "cannot be built")
        return APIS["chat"].write(connection, messages, given)

    connection = Connection("m", replace(APIS["chat"], write=write), URL, "m")
    with kept.open(desk, connection=connection) as client:
        completions = client.complete(make_calls("a", "bad", connection=connection))
    assert tell(completions) == ["A", "cannot be built"]
    assert [len(lines) for lines in desk.inputs] == [1]


def test_a_key_that_is_sent_back_is_hidden() -> None:
    """Neither an answer, nor an error, nor a complaint shows it."""
    (completion,) = Kept().complete(
        FakeDesk(BatchStore(lambda *_: (500, {"error": f"no {KEY}"}))), "a"
    )
    assert completion.error == "HTTP 500: no ***"
    assert "canary" not in str(completion)
    desk = FakeDesk()
    desk.faults["GET batch"] = [show({"id": "batch_1", "status": "failed", "errors": f"no {KEY}"})]
    with pytest.raises(SolverError, match=r"no \*\*\*"):
        Kept().complete(desk, "a")


def test_batches_go_over_http() -> None:
    """Upload, creation, looks and downloads reach the right paths, each with the key in its
    header.
    """
    with BatchServer({"a": "1", "b": "2"}, BatchBehaviour(api_key=KEY)) as server:
        caller = Caller({"ANSWERKEY_API_KEY": KEY})
        connection = connect(f"{server.url}#m", caller=caller)
        with Kept().open(None, connection=connection) as client:
            assert tell(client.complete(make_calls("b", "a", connection=connection))) == ["2", "1"]
        assert server.asked.by_path == {
            "/v1/files": 1,
            "/v1/batches": 1,
            "/v1/batches/batch_1": 2,
            "/v1/files/file-2/content": 1,
        }
        assert server.asked.keys == {f"Bearer {KEY}": 5}


def test_which_endpoints_take_batches() -> None:
    """OpenAI's chat API and the native ones; for others E119 names model and way out."""
    for name in ("openai/m", "http://127.0.0.1:8000/v1#m", "novita/m", "anthropic/m", "gemini/m"):
        connect(name, caller=Caller({})).require_batches()
    azure = "https://me.openai.azure.com/openai/v1#m"
    for name in ("openai/m?api=completions", azure):
        match = re.escape(f"`batch=True` cannot be used with `{name}`")
        with pytest.raises(SpecError, match=match) as caught:
            connect(name, caller=Caller({})).require_batches()
        assert caught.value.code == "E119"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
BODIES = st.fixed_dictionaries(
    {"choices": VALUES | st.lists(st.fixed_dictionaries({"message": VALUES}))}
)


@given(st.binary())
def test_any_bytes_can_be_read(content: bytes) -> None:
    """Whatever is downloaded, nothing is raised."""
    assert all(isinstance(one, Completion) for _, one in read_lines(content, CONNECTION))


@given(VALUES, VALUES | BODIES, VALUES)
def test_any_line_of_a_call_is_a_completion(status: object, body: object, error: object) -> None:
    """A line that names its call becomes one completion; with an error, it has the status ERROR."""
    line = {"custom_id": "a", "response": {"status_code": status, "body": body}, "error": error}
    ((key, completion),) = read_lines(json.dumps(line).encode() + b"\n", CONNECTION)
    assert key == "a"
    if error:
        assert completion.status is CompletionStatus.ERROR
    assert (completion.text is None) == (completion.status is not CompletionStatus.OK)


@given(st.lists(st.text(max_size=30), max_size=20), st.integers(1, 5), st.integers(1, 400))
def test_files_hold_every_line_once(texts: list[str], calls: int, size: int) -> None:
    """In order, within the limits; only a line that is too large for any file is alone in one."""
    asked = [
        Call(f"k{number}", "1", 0, [{"role": "user", "content": text}])
        for number, text in enumerate(texts)
    ]
    lines = [
        (call.key, one) for call in asked if isinstance(one := write_line(CONNECTION, call), bytes)
    ]
    files = list(cut_files(lines, BatchLimits(max_calls=calls, max_bytes=size)))
    assert [pair for file in files for pair in file.items()] == lines
    assert all(0 < len(file) <= calls for file in files)
    assert all(len(file) == 1 or sum(len(line) for line in file.values()) <= size for file in files)


def test_a_text_never_breaks_a_line() -> None:
    """Line breaks and their many relatives are escaped, half a surrogate pair as well."""
    written = write_line(
        CONNECTION, Call("a", "1", 0, [{"role": "user", "content": "1\n2\r3\u20284\x855\ud800"}])
    )
    assert isinstance(written, bytes)
    assert len(written.splitlines()) == 1
    assert written.isascii()


@pytest.mark.parametrize("depth", [10, 900, 10**5])
def test_no_depth_of_an_answer_raises(depth: int) -> None:
    """A line that cannot be parsed is no line; one that can be is the failure of its call."""
    line = (
        '{"custom_id": "a", "response": {"status_code": 200, "body": '
        f"{'[' * depth}{']' * depth}}}}}"
    )
    assert [one.status.value for _, one in read_lines(line.encode(), CONNECTION)] in ([], ["ERROR"])


def test_an_answer_that_is_nested_too_deeply_to_be_written_again_fails_its_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How deep Python parses and how deep it writes are not the same in all its versions."""

    def give_up(_value: object) -> str:
        raise RecursionError

    line = b'{"custom_id": "a", "response": {"status_code": 200, "body": {"choices": []}}}'
    monkeypatch.setattr(json, "dumps", give_up)
    ((key, completion),) = read_lines(line, CONNECTION)
    assert (key, completion.error) == ("a", "the answer is nested too deeply to be read")
