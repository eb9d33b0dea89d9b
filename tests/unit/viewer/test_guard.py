"""Laws of the guard: what it lets in, and everything that it does not."""

from __future__ import annotations

import pytest

from answerkey.errors import ServeError
from answerkey.viewer.guard import MAX_TARGET, Guard, PageRequest, RequestTarget

TOKEN = "a-token-of-the-tests"  # noqa: S105 - of the tests
HOST = "127.0.0.1:8765"
GUARD = Guard(TOKEN, 8765)
GIVEN = ("X-Answerkey-Token", TOKEN)


FOREIGN_HOSTS = """
evil.example evil.example:8765 127.0.0.1 127.0.0.1:8766 127.0.0.1:87650 localhost localhost.:8765
localhost.evil.example:8765 127.0.0.1.nip.io:8765 127.1:8765 2130706433:8765 0x7f000001:8765
0.0.0.0:8765 192.168.0.10:8765 user@127.0.0.1:8765 127.0.0.1:8765@evil.example 127.0.0.1:8765/ [::1]
[::ffff:127.0.0.1]:8765 ::1:8765 127.0.0.1: １２７.0.0.1:8765
"""
FOREIGN_ORIGINS = """
http://evil.example https://127.0.0.1:8765 http://127.0.0.1 http://127.0.0.1:8766 http://localhost:8765
http://127.0.0.1:8765.evil.example http://127.0.0.1:8765/ http://user@127.0.0.1:8765 file:// null
chrome-extension://abc
"""


def make_request(
    target: str = "/api/runs",
    *more: tuple[str, str],
    method: str = "GET",
    host: str = HOST,
    token: tuple[str, str] | None = GIVEN,
) -> PageRequest:
    """Return a request that is in order but for what is told."""
    return PageRequest(method, target, [("Host", host), *([token] if token else []), *more])


def refuse(request: PageRequest, guard: Guard = GUARD) -> tuple[str, int]:
    """Return the code and the status with which a request is refused."""
    with pytest.raises(ServeError) as caught:
        guard.admit(request)
    return caught.value.code, caught.value.status


def test_a_request_with_the_token_is_let_in() -> None:
    """What is asked for comes back in parts.

    A browser that opens the page has it in the address.
    """
    assert GUARD.admit(make_request(f"/?token={TOKEN}", token=None)).is_page
    result = GUARD.admit(make_request("/api/runs/r12/tasks/0/rows?offset=10&text=a%20b%26c"))
    parts = ("api", "runs", "r12", "tasks", "0", "rows")
    assert result == RequestTarget(parts, {"offset": "10", "text": "a b&c"})
    # Each name of this machine with the right port is taken, and the page itself as origin.
    for host in ("127.0.0.1:8765", "localhost:8765", "LOCALHOST:8765", "[::1]:8765"):
        GUARD.admit(make_request("/api/runs", ("Origin", f"http://{host.lower()}"), host=host))


@pytest.mark.parametrize("host", [*FOREIGN_HOSTS.split(), f"{HOST}, evil.example", f"{HOST} x", ""])
def test_a_foreign_host_is_refused(host: str) -> None:
    """A name that is made to point here stays a foreign name, token or not."""
    assert refuse(make_request(host=host)) == ("E701", 403)
    assert refuse(make_request(f"/?token={TOKEN}", host=host)) == ("E701", 403)


def test_a_host_is_named_once() -> None:
    """Without a name there is nothing to trust; of two names each reader could take another."""
    assert refuse(PageRequest("GET", "/api/runs", [GIVEN])) == ("E701", 403)
    assert refuse(make_request("/api/runs", ("host", "evil.example"))) == ("E702", 400)


@pytest.mark.parametrize("origin", [*FOREIGN_ORIGINS.split(), ""])
@pytest.mark.parametrize("method", ["GET", "PUT", "OPTIONS", "POST"])
def test_a_foreign_origin_is_refused(origin: str, method: str) -> None:
    """It must be this very server, under the name by which it is called.

    The token changes nothing.
    """
    request = make_request("/api/runs", ("Origin", origin), ("Content-Length", "0"), method=method)
    assert refuse(request) == ("E701", 403)


def mark(site: str, mode: str, destination: str) -> list[tuple[str, str]]:
    """Return the headers by which a browser says from where, how and for what it asks."""
    values = {"Site": site, "Mode": mode, "Dest": destination}
    return [(f"Sec-Fetch-{name}", value) for name, value in values.items()]


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site"])
def test_what_a_browser_marks_as_foreign_is_refused(site: str) -> None:
    """A page elsewhere can neither ask nor frame.

    Another port of this machine is elsewhere, too.
    """
    asking, framed = mark(site, "no-cors", "script"), mark(site, "navigate", "iframe")
    assert refuse(make_request("/api/runs", *asking)) == ("E701", 403)
    for marks in (asking, framed):
        assert refuse(make_request(f"/?token={TOKEN}", *marks)) == ("E701", 403)


def test_a_link_to_the_page_may_stand_anywhere() -> None:
    """Following it opens the page itself, which other sites cannot read."""
    marks = mark("cross-site", "navigate", "document")
    GUARD.admit(make_request(f"/?token={TOKEN}", *marks))
    assert refuse(make_request("/api/runs", *marks)) == ("E701", 403)


WRONG = ["", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), f" {TOKEN}x", "é", "\x00"]


@pytest.mark.parametrize("token", [*WRONG, f"{TOKEN},{TOKEN}"])
def test_a_wrong_token_is_refused(token: str) -> None:
    """In the header and in the address, alike."""
    assert refuse(make_request(token=("X-Answerkey-Token", token))) == ("E704", 403)


@pytest.mark.parametrize("query", ["", "?token=", "?token=wrong", f"?TOKEN={TOKEN}", f"?x={TOKEN}"])
def test_the_page_is_not_shown_without_its_token(query: str) -> None:
    """The header does not open it, and no other parameter."""
    assert refuse(make_request(f"/{query}")) == ("E704", 403)


@pytest.mark.parametrize("path", ["runs", f"runs?token={TOKEN}", "runs/r1/tasks/0/rows/1"])
def test_nothing_but_the_page_takes_the_token_from_the_address(path: str) -> None:
    """A link or a form of another site could carry it there; browsers send cookies for anyone."""
    cookie = ("Cookie", f"token={TOKEN}; X-Answerkey-Token={TOKEN}")
    assert refuse(make_request(f"/api/{path}", token=None)) == ("E704", 403)
    assert refuse(make_request(f"/api/{path}", cookie, token=None)) == ("E704", 403)


PATHS = r"""
/.. /../ /../../etc/passwd /api/../../etc/passwd /api/runs/../../../etc/passwd /api/runs/.. /api/runs/.
/api/runs/%2e%2e /api/runs/%2e%2e%2f%2e%2e%2fetc%2fpasswd /api/runs/%2E%2E%2Fx /api/runs/.%2e/x
/api/runs/..%2fx /api/runs/..%5cx /api/runs/..\..\windows\win.ini /api/runs/\..\x \..\x
/api/runs/%5c%2e%2e%5cx /api/runs/%252e%252e%252fetc%252fpasswd /api/runs/%25252e%25252e
/api/runs/%c0%ae%c0%ae%c0%afetc /api/runs/%e0%80%ae%e0%80%ae /api/runs/%ef%bc%8e%ef%bc%8e
/api/runs/%e2%80%a5 /api/runs/%u002e%u002e /api/runs/first%00 /api/runs/%00 /api/runs/....//....//etc
/api/runs/..;/x /api/runs//etc/passwd //etc/passwd ///etc/passwd /etc/passwd /api/runs/%2fetc%2fpasswd
/api/runs/C:%5cwindows /api/runs/C:/windows /api/runs/file:///etc/passwd /api/runs/~root /api/runs/first
/api/runs/first/run.json /api/runs/r0/tasks/%2e%2e/rows /api/runs/r0/tasks/0/rows/../../x
/api/runs/r0/tasks/0/rows/%2e%2e /api/runs/ /api/runs/r0/ /api%2fruns /%61pi/runs /api/runs#x
/api/runs;x=1 api/runs * http://evil.example/api/runs http://127.0.0.1:8765/api/runs /static/core.js
/favicon.ico
"""  # noqa: E501 - the text as it is written
#: Of these the guard knows only that they are well formed; there is no run of such an id.
UNKNOWN = {"/etc/passwd", "/api/runs/first"}


@pytest.mark.parametrize("target", [*PATHS.split(), "/" + "a/" * 200, "/" + "a" * 65])
def test_an_unknown_path_is_refused(target: str) -> None:
    """A path has letters, digits, `-` and `_` between single slashes, and is never decoded.

    Without the token, unknown and known paths look alike.
    """
    assert target in UNKNOWN or refuse(make_request(target)) == ("E703", 404)
    assert refuse(make_request(target, token=None)) == ("E704", 403)


ODD = ["/\x00", "/\u2025", "/\uff0e\uff0e", "\x7f", " \t"]


@pytest.mark.parametrize("target", ["", *(f"/api/runs{end}" for end in ODD)])
def test_characters_that_no_address_has_are_refused(target: str) -> None:
    """They have to be encoded, and in a path nothing is."""
    assert refuse(make_request(target)) == ("E702", 400)


@pytest.mark.parametrize("query", ["a=1&a=2", "a=%ff", "&".join(f"p{n}=1" for n in range(30))])
def test_parameters_that_cannot_be_read_are_refused(query: str) -> None:
    """Twice the same, no UTF-8, too many; an address that is too long is not even split."""
    assert refuse(make_request("/api/runs?text=" + "x" * MAX_TARGET)) == ("E702", 414)
    assert refuse(make_request(f"/api/runs?{query}")) == ("E702", 400)


LENGTHS = ["", "3, 3", *["999999999999", "9999999999999", "3", "-1", "+3", "0x3", "３"]]
CHUNKED, THREE = ("Transfer-Encoding", "chunked"), ("Content-Length", "3")
BODIES = [[CHUNKED], [CHUNKED, THREE], [THREE, THREE]]
BODIES += [[("Content-Length", length)] for length in LENGTHS]


@pytest.mark.parametrize("headers", BODIES)
def test_a_body_is_refused_however_its_length_is_stated(headers: list[tuple[str, str]]) -> None:
    """Where a body ends must not be a matter of opinion."""
    assert refuse(make_request("/api/runs", *headers)) == ("E702", 400)
    GUARD.admit(make_request("/api/runs", ("Content-Length", "0")))
