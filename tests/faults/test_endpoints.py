"""Calling endpoints that do everything wrong, over real connections on this machine."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

import pytest
from tests.servers import find_places

from answerkey.errors import SolverError
from answerkey.models import client as clients
from answerkey.models.calls import (
    Call,
    CallSettings,
    Event,
    Finished,
    Limits,
    MemoryLedger,
    call_key,
)
from answerkey.models.client import ModelClient
from answerkey.models.config import Secret
from answerkey.models.providers import APIS, Connection
from answerkey.testing import Behaviour, Reply, TestServer
from answerkey.types import Completion, CompletionStatus

KEY = "sk-canary-0123456789abcdef"
QUICK = Limits(first_wait=0.002, wait_seconds=0.02, call_seconds=600, max_bytes=1 << 20)
MIX = {"429_seconds": 0.03, "429_date": 0.02, "500": 0.04, "503": 0.02}
MIX |= {"reset": 0.03, "cut": 0.02, "bad_json": 0.04}
#: Seconds: an hour would pass, or more, if nobody looked at the clock; it takes half of one.
HANGS = 300
COUNT = 10_000 if os.environ.get("ANSWERKEY_LONG") else 1_000


def connect(server: TestServer) -> Connection:
    """Return a connection to the server, with a key."""
    headers, url = {"Authorization": Secret(f"Bearer {KEY}")}, f"{server.url}/chat/completions"
    return Connection("test", APIS["chat"], url, "test", headers, Secret(KEY))


def make_calls(connection: Connection, count: int) -> list[Call]:
    """Return this many different calls."""
    calls = []
    for number in range(count):
        messages = [{"role": "user", "content": f"question {number}"}]
        calls.append(Call(call_key(connection.identity, messages, 0), f"{number:05d}", 0, messages))
    return calls


def complete(server: TestServer, count: int, **settings: Any) -> Sequence[Completion]:  # noqa: ANN401  # of CallSettings
    """Return the completions of this many calls by a client with these settings."""
    connection = connect(server)
    with ModelClient(connection, CallSettings(**settings)) as client:
        return client.complete(make_calls(connection, count))


def always(fault: str, **behaviour: Any) -> TestServer:  # noqa: ANN401  # of Behaviour
    """Return a server that never does anything but fail."""
    return TestServer("A", Behaviour(faults={fault: 1.0}, faulty_attempts=None, **behaviour))


def echo(messages: object) -> str:
    """Answer with the question."""
    return str(messages[-1]["content"])  # type: ignore[index]  # a list of messages


def test_a_fifth_of_faults_changes_nothing_in_the_answers() -> None:
    """Every call is answered right and paid for once; only retries come on top."""
    behaviour = Behaviour(faults={**MIX, "hang": 0.002}, faulty_attempts=None, hang_seconds=0.1)
    with TestServer(echo, behaviour) as server:
        completions = complete(server, COUNT, limits=QUICK)
        requests = server.asked
    for number, completion in enumerate(completions):
        assert completion.text == f"question {number}"
    assert len(completions) == COUNT
    assert requests.answered == COUNT
    assert requests.total == COUNT + sum(requests.faults.values())
    assert sum(completion.attempts or 0 for completion in completions) == requests.total
    assert sum(requests.faults.values()) > 0.15 * COUNT


@pytest.mark.parametrize("fault", ["429", "reset", "cut", "bad_json", "empty"])
def test_a_fault_without_end_is_an_error_of_the_call(fault: str) -> None:
    """Each call ends as ERROR with its reason after its attempts.

    Nothing is raised, nothing is missing.
    """
    limits = Limits(first_wait=0.001, wait_seconds=0.002, attempts=3, unreadable_attempts=3)
    with always(fault) as server:
        completions = complete(server, 20, limits=limits)
        total = server.asked.total
    ends = [(completion.status, completion.attempts) for completion in completions]
    assert ends == [(CompletionStatus.ERROR, 3)] * 20
    assert all(completion.error for completion in completions)
    assert total == 60


@pytest.mark.parametrize(
    ("fault", "why", "error"),
    [
        ("html", "is a web page, not an API: the body is HTML", "the body is HTML, not JSON"),
        ("500", "failed: HTTP 500: Internal Server Error", "HTTP 500: Internal Server Error"),
    ],
)
def test_endpoints_of_web_pages_or_errors_are_given_up(fault: str, why: str, error: str) -> None:
    """After the third call; one that has answered may send as many as it likes."""
    limits = Limits(first_wait=0.001, wait_seconds=0.002, attempts=3, unreadable_attempts=3)
    with always(fault) as server:
        connection = connect(server)
        with ModelClient(connection, CallSettings(limits=limits)) as client:
            with pytest.raises(SolverError, match=f"E306.*{why}"):
                client.complete(make_calls(connection, 20))
            server.change(faults={})
        with ModelClient(connection, CallSettings(limits=limits)) as client:
            client.complete(make_calls(connection, 1))
            server.change(faults={fault: 1.0}, faulty_attempts=None)
            completions = client.complete(make_calls(connection, 20)[1:])
    assert {completion.error for completion in completions} == {error}


def test_a_wrong_key_costs_at_most_one_request_per_connection() -> None:
    """E304 after the first refusals; the rest is never sent."""
    with TestServer("A", Behaviour(api_key="another")) as server:
        with pytest.raises(SolverError, match="E304"):
            complete(server, 1000)
        assert server.asked.total <= len(server.asked.connections)


def test_a_key_that_expires_stops_and_keeps_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was answered before the refusal is kept; no connection carries two refused requests."""
    monkeypatch.setattr(clients, "GRACE_SECONDS", HANGS)  # on a busy machine five seconds pass
    ledger = MemoryLedger()
    with TestServer("A") as server:

        def watch(event: Event) -> None:
            if isinstance(event, Finished) and event.call.sample_id == "00200":
                server.change(api_key="another")

        with pytest.raises(SolverError, match="E304"):
            complete(server, 5000, ledger=ledger, watch=watch)
        # Calls in flight end in any order, so some before the watched one may still be open.
        assert len(ledger.kept) == server.asked.answered >= 100
        assert server.asked.statuses[401] <= len(server.asked.connections)


@pytest.mark.parametrize(
    "limit", [{"max_concurrent": 4}, {"requests_per_minute": 100, "minute_seconds": 0.2}]
)
def test_an_endpoint_with_limits_answers_everything(limit: dict[str, float]) -> None:
    """Where 429 says that there were too many, all calls are answered in the end."""
    behaviour = Behaviour(delay=0.002, retry_after=0.05, **limit)  # type: ignore[arg-type]  # fields of it
    limits = Limits(first_wait=0.01, wait_seconds=0.5)
    with TestServer(echo, behaviour) as server:
        completions = complete(server, 400, limits=limits)
        assert server.asked.answered == 400
    assert all(completion.status is CompletionStatus.OK for completion in completions)


def test_a_server_that_goes_away_is_given_up() -> None:
    """When nothing answers any more, the asking ends with E306, and what was answered is kept."""
    ledger = MemoryLedger()
    limits = Limits(attempts=2, first_wait=0.001, wait_seconds=0.002)
    server = TestServer("A").start()
    finished = []

    def watch(event: Event) -> None:
        if isinstance(event, Finished):
            finished.append(event)
            if len(finished) == 100:  # whichever they are: calls at once end in any order
                server.stop()

    message = "calls to `test` failed in a row, all for the same reason"
    with pytest.raises(SolverError, match=message):
        complete(server, 5000, ledger=ledger, limits=limits, watch=watch)
    kept = [completion.status for completion in ledger.kept.values()]
    assert kept.count(CompletionStatus.OK) >= 100
    assert kept.count(CompletionStatus.ERROR) < 300


def test_the_key_is_seen_in_its_header_and_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    """Not in a completion, an event, an error or a log, also when the endpoint sends it back."""
    caplog.set_level(logging.DEBUG)
    echoed = Reply(body=f'{{"error": "bad key {KEY}", "k": "{KEY}"}}'.encode(), status=200)
    answers = {"question 0": echoed, "question 1": Reply(body=f"<html>{KEY}".encode())}
    names = ["500", "429_seconds", "reset", "cut", "bad_json", "html", "400", "302"]
    faults = dict.fromkeys(names, 0.1)
    seen: list[object] = []
    with TestServer(lambda messages: answers.get(echo(messages), "A")) as server:
        connection = connect(server)
        with ModelClient(connection, CallSettings(limits=QUICK, watch=seen.append)) as client:
            seen += client.complete(make_calls(connection, 2))
            server.change(faults=faults, faulty_attempts=None)
            seen += client.complete(make_calls(connection, 200))
            server.change(faults={}, api_key="another")
            with pytest.raises(SolverError, match="E304") as raised:
                client.complete(make_calls(connection, 300))
        assert list(find_places(server.asked, KEY)) == ["header authorization"]
    assert KEY not in repr(seen)
    assert KEY not in f"{raised.value!s} {raised.value!r} {connection!r} {client!r}"
    assert KEY not in caplog.text
    assert "retried in" in caplog.text
