"""Laws of the wire: what comes over a socket, to the letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from answerkey.errors import SpecError
from answerkey.viewer.server import Server, open_server

from .conftest import Client


def test_the_page_is_served_to_who_has_the_address(server: Server, client: Client) -> None:
    """The address that is printed is all that a browser needs.

    The socket is bound to this machine alone.
    """
    assert server.url.startswith(f"http://127.0.0.1:{server.server_port}/?token=")
    assert server.socket.getsockname()[0] == "127.0.0.1"
    address = server.url.removeprefix(f"http://127.0.0.1:{server.server_port}")
    shown = client.ask(address, X_Answerkey_Token=None)
    assert (shown.status, shown.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"<!doctype html>" in shown.body
    # Runs are served to who has the token in the header.
    assert [run["label"] for run in client.ask("/api/runs").json["runs"]] == ["second", "first"]


def test_each_start_has_a_token_and_a_port_of_its_own(runs: Path) -> None:
    """Two viewers of the same folder know nothing of each other."""
    with open_server(runs) as first, open_server(runs) as second:
        assert first.server_port != second.server_port
        tokens = [server.url.partition("token=")[2] for server in (first, second)]
    assert tokens[0] != tokens[1]
    assert all(len(token) == 43 for token in tokens)


ELSEWHERE = [("Host", "evil.example"), ("Host", None), ("Origin", "http://evil.example")]
ELSEWHERE += [("Origin", "null"), ("Sec_Fetch_Site", "cross-site")]
ELSEWHERE += [("X_Answerkey_Token", None), ("X_Answerkey_Token", "wrong")]


@pytest.mark.parametrize(("name", "value"), ELSEWHERE)
def test_a_request_from_elsewhere_is_refused(client: Client, name: str, value: str | None) -> None:
    """Over a connection as in the guard."""
    answer = client.ask("/api/runs", **{name: value})
    assert (answer.status, answer.headers["x-content-type-options"]) == (403, "nosniff")
    assert answer.json["error"]["code"] in {"E701", "E704"}


ODD_PATHS = rb"""
/../../../etc/passwd /api/runs/../../x //etc/passwd /%2e%2e/%2e%2e/etc/passwd /%252e%252e/x /..%5c..%5cx
/..\..\x \x file:///etc/passwd http://evil.example/ *
"""  # noqa: E501 - the text as it is written
ODD_ENDS = (b"\x00", b"\xe2\x80\xa5/x", b"\xef\xbc\x8e" * 2 + b"/x")


@pytest.mark.parametrize("target", [*ODD_PATHS.split(), *(b"/api/runs/" + end for end in ODD_ENDS)])
def test_no_spelling_of_a_path_leads_out(client: Client, target: bytes) -> None:
    """Nothing of it is decoded on its way to the guard."""
    head = f" HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nX-Answerkey-Token: {client.token}\r\n"
    answer = client.say(b"GET " + target + head.encode() + b"Connection: close\r\n\r\n")
    assert answer.status in {400, 404}
    assert b"root:" not in answer.body


METHODS = "POST PUT DELETE PATCH HEAD OPTIONS TRACE CONNECT BREW"


@pytest.mark.parametrize("method", METHODS.split())
def test_other_methods_are_refused(client: Client, method: str) -> None:
    """And no more is said: a preflight gets no leave to send what the foreign page wanted."""
    wish = {"Access_Control_Request_Method": "PUT", "Origin": "http://evil.example"}
    wish["Access_Control_Request_Headers"] = "x-answerkey-token"
    for headers in ({}, wish):
        answer = client.ask("/api/runs", method, **headers)
        assert answer.status == 405
        assert not [name for name in answer.headers if name.startswith("access-control")]


NO_REQUESTS = {
    b"GET / HTTP/2.0": 505,
    b"GET /": 400,
    b"nonsense": 400,
    b"\x16\x03\x01\x02\x00\x01\x00": 400,
    b"GET / HTTP/1.1 x": 400,
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1": 414,
    b"GET / HTTP/1.1" + b"\r\nX: y" * 150: 431,
    b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000: 431,
}


@pytest.mark.parametrize(("words", "status"), NO_REQUESTS.items())
def test_malformed_requests_are_refused_in_the_same_form(
    client: Client, words: bytes, status: int
) -> None:
    """As JSON, with all headers."""
    answer = client.say(words + b"\r\n\r\n")
    assert answer.status == status
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.json["error"]["code"] == "E702"


def test_header_lines_that_could_be_read_in_two_ways_are_refused(client: Client) -> None:
    """A space before the colon, a line that goes on below."""
    for line in ("Origin : http://evil.example", "X-Other: a\r\n b"):
        head = f"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n"
        headers = f"X-Answerkey-Token: {client.token}\r\n{line}\r\nConnection: close\r\n\r\n"
        answer = client.say(f"{head}{headers}".encode())
        assert (answer.status, answer.json["error"]["code"]) == (400, "E702")


def test_a_port_that_is_taken_is_refused(runs: Path, server: Server) -> None:
    """E119 with what to do."""
    with pytest.raises(SpecError, match=str(server.server_port)) as caught:
        open_server(runs, port=server.server_port)
    assert caught.value.code == "E119"
