from __future__ import annotations

import gzip
import http.client
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from answerkey.testing import Behaviour, TestServer

Ask = Callable[..., Any]


def open_faulty(fault: str, **behaviour: Any) -> TestServer:  # noqa: ANN401 - fields of Behaviour
    """Return a server on which the first request of each content meets this fault."""
    return TestServer("B", Behaviour(faults={fault: 1.0}, faulty_attempts=1, **behaviour))


@pytest.mark.parametrize(
    "status", ["400", "401", "403", "404", "408", "409", "422", "425", "429", "500", "503"]
)
def test_status_faults(ask: Ask, status: str) -> None:
    """A status code is answered with an error body and nothing to wait for; the next attempt is good."""
    with open_faulty(status) as server:
        got = ask(server)
        assert got.status == int(status)
        assert got.json["error"]["message"]
        assert "retry-after" not in got.headers
        assert ask(server).text == "B"
        assert server.asked.faults == {status: 1}
        assert server.asked.answered == 1


@pytest.mark.parametrize("status", ["301", "302", "303", "307", "308"])
def test_redirects(ask: Ask, status: str) -> None:
    """A redirect leads to `redirect_to`."""
    with open_faulty(status, redirect_to="http://127.0.0.1:9/x") as server:
        got = ask(server)
        assert got.status == int(status)
        assert got.headers["location"] == "http://127.0.0.1:9/x"


def test_retry_after_in_both_forms(ask: Ask) -> None:
    """`Retry-After` comes in seconds or as a date."""
    with open_faulty("429_seconds", retry_after=7) as server:
        assert ask(server).headers["retry-after"] == "7"
        server.change(faults={"503_seconds": 1.0})
        assert (ask(server, "b").status, ask(server, "c").headers["retry-after"]) == (503, "7")
        server.change(faults={"429_date": 1.0})
        got = ask(server, "d")
        moment = parsedate_to_datetime(got.headers["retry-after"])
        assert 0 <= (moment - parsedate_to_datetime(got.headers["date"])).total_seconds() <= 8


def test_reset_breaks_the_connection(ask: Ask) -> None:
    """A reset is a connection error, counted with the status 0."""
    with open_faulty("reset") as server:
        with pytest.raises(ConnectionResetError):
            ask(server)
        assert server.asked.statuses == {0: 1}


def test_cut_body_ends_early(ask: Ask) -> None:
    """A cut body is shorter than its length says."""
    with open_faulty("cut") as server, pytest.raises(http.client.IncompleteRead):
        ask(server)


def test_hang_answers_nothing(ask: Ask) -> None:
    """A hang is silence, until `hang_seconds` have passed."""
    with open_faulty("hang") as server:
        with pytest.raises(TimeoutError):
            ask(server, timeout=0.2)
        server.change(hang_seconds=0.0)
        with pytest.raises(ConnectionResetError):
            ask(server, "b")


def test_drip_sends_byte_by_byte(ask: Ask) -> None:
    """A dripping body is the right one, in the end."""
    with open_faulty("drip", drip_seconds=0.0) as server:
        assert ask(server).text == "B"


def test_endless_body_never_ends() -> None:
    """An endless body goes on until the server stops, which it can."""
    with open_faulty("endless") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        connection.request("POST", "/v1/chat/completions", b'{"messages": []}')
        stream = connection.getresponse()
        assert len(stream.read(1 << 20)) == 1 << 20
    stream.close()
    connection.close()


def test_gzip_bomb_unpacks_to_much(ask: Ask) -> None:
    """A small compressed body unpacks to `bomb_bytes`."""
    with open_faulty("gzip_bomb", bomb_bytes=5_000_000) as server:
        got = ask(server)
        assert got.headers["content-encoding"] == "gzip"
        assert len(got.body) < 10_000
        assert len(gzip.decompress(got.body)) == 5_000_000


def test_bodies_that_cannot_be_read(ask: Ask) -> None:
    """Status 200 with broken JSON, a page, or nothing."""
    with open_faulty("bad_json") as server:
        with pytest.raises(ValueError, match="Unterminated"):
            _ = ask(server).json
        server.change(faults={"html": 1.0})
        assert ask(server, "b").headers["content-type"].startswith("text/html")
        server.change(faults={"empty": 1.0})
        assert ask(server, "c").body == b""
