"""The laws of one request over HTTP: a reply, or why there is none, whatever the other side
does.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal

import aiohttp
import pytest
from tests.lazy import trustme

from answerkey.errors import SpecError
from answerkey.models import proxy as proxies
from answerkey.models.calls import Limits
from answerkey.models.config import Secret
from answerkey.models.http import HttpClient, explain_error
from answerkey.models.model import LiveModel
from answerkey.models.providers import APIS, Connection
from answerkey.models.retry import HttpReply, HttpRequest, NoReply

Console = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
KEY = "sk-canary-0123456789"
POST = HttpRequest(b"{}")
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CLOSED = NoReply("reset", "`127.0.0.1` closed the connection without a reply")


@cache
def open_authority() -> Any:  # noqa: ANN401  # of a library that is imported late
    """Return the certificate authority of the endpoints of these tests."""
    return trustme.CA()


def connect(url: str, key: str | None = KEY, trusted_ca: str | None = None) -> Connection:
    """Return a connection, with a key."""
    headers = {} if key is None else {"Authorization": Secret(f"Bearer {key}")}
    return Connection("m", APIS["chat"], url, "m", headers, trusted_ca=trusted_ca)


def answer_with(raw: bytes, *, seen: list[bytes] | None = None) -> Console:
    """Return a server that sends the same bytes to every request and then closes."""

    async def console(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if seen is not None:
            seen.append(head)
        writer.write(raw)
        await writer.drain()
        writer.close()

    return console


def make_raw(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """Return the bytes of an HTTP reply."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def serve(console: Console, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Yield the port of a server that talks like this; leave nothing open."""
    talks: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        talks.add(asyncio.ensure_future(console(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        for writer in writers:
            writer.transport.abort()
        await server.wait_closed()
        await asyncio.sleep(0)


async def send(
    connection: Connection,
    *requests: HttpRequest,
    limits: Limits | None = None,
    seconds: float = 120.0,
) -> list[HttpReply | NoReply]:
    """Return what requests of one client bring, one after the other."""
    client, reply = HttpClient(connection, limits or Limits()), []
    try:
        for request in requests:
            reply.append(await client.send(request, seconds=seconds))
            for _ in range(20):  # what else the server sends has arrived by then
                await asyncio.sleep(0)
    finally:
        await client.close()
    return reply


def call_all(
    console: Console,
    *requests: HttpRequest,
    limits: Limits | None = None,
    seconds: float = 120.0,
    key: str | None = KEY,
) -> list[HttpReply | NoReply]:
    """Return what requests to such a server bring.

    The URL of one, if it has one, is a path there.
    """

    async def run() -> list[HttpReply | NoReply]:
        async with serve(console) as port:
            host = f"http://127.0.0.1:{port}"
            there = [
                request if request.url is None else request._replace(url=f"{host}{request.url}")
                for request in requests
            ]
            return await send(connect(f"{host}/v1", key), *there, limits=limits, seconds=seconds)

    return asyncio.run(run())


def call(
    console: Console,
    request: HttpRequest = POST,
    limits: Limits | None = None,
    *,
    seconds: float = 120.0,
) -> HttpReply | NoReply:
    """Return what one request to such a server brings."""
    (reply,) = call_all(console, request, limits=limits, seconds=seconds)
    return reply


def call_well(console: Console) -> HttpReply:
    """Return the reply of such a server."""
    reply = call(console)
    assert isinstance(reply, HttpReply)
    return reply


def test_a_reply_comes_back_whole() -> None:
    """Status, headers and body are as they were sent; header names in any case."""
    reply = call_well(answer_with(make_raw(b'{"a": 1}', "Retry-After: 3", status="429 Slow Down")))
    assert (reply.status, reply.body, reply.headers.get("retry-after")) == (429, b'{"a": 1}', "3")


@pytest.mark.parametrize(
    ("request_", "start", "kind"),
    [
        (POST, "POST /v1 HTTP/1.1", "application/json"),
        (
            HttpRequest(b"hello", "POST", "/v1/a%2Fb?c=1", "text/plain"),
            "POST /v1/a%2Fb?c=1 HTTP/1.1",
            "text/plain",
        ),
    ],
)
def test_a_request_says_what_it_is(request_: HttpRequest, start: str, kind: str) -> None:
    """JSON is asked for, not compressed, with the key in its header.

    Paths are kept.
    """
    seen: list[bytes] = []
    call(answer_with(make_raw(b"{}"), seen=seen), request_)
    lines = seen[0].decode().split("\r\n")
    assert lines[0] == start
    headers = {f"Content-Type: {kind}", f"Authorization: Bearer {KEY}"}
    assert headers | {"Accept-Encoding: identity"} <= {*lines}
    assert [line for line in lines if line.startswith("User-Agent: answerkey/")]


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (make_raw(b"hello", "Content-Encoding: gzip"), "compressed"),
        (b"", "reset"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "unreadable"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "reset"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf", "reset"),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
            "unreadable",
        ),
    ],
)
def test_broken_replies_are_told(raw: bytes, kind: str) -> None:
    """A damaged body, a connection that closes early or breaks off, or another protocol."""
    reply = call(answer_with(raw))
    assert isinstance(reply, NoReply)
    assert reply.kind == kind


@pytest.mark.parametrize(
    ("request_", "cap"), [(POST, 1000), (HttpRequest(None, "GET", "/v1/file", max_bytes=1000), 10)]
)
def test_large_bodies_are_refused(request_: HttpRequest, cap: int) -> None:
    """A body above the cap, or above that of the request: announced or not announced."""
    for size in (1000, 1001):
        body = b"x" * size
        for raw in (make_raw(body), b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body):
            reply = call(answer_with(raw), request_, Limits(max_bytes=cap))
            if size == 1000:
                assert isinstance(reply, HttpReply)
                assert reply.body == body
            else:
                assert reply == NoReply(
                    "too_large", "the reply of `127.0.0.1` is larger than 1000 bytes"
                )


def test_time_runs_out_also_while_bytes_arrive() -> None:
    """A server that drips is cut off when the time is over."""

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0.01)

    why = "no whole reply from `127.0.0.1` within 0.2 s"
    assert call(drip, seconds=0.2) == NoReply("timeout", why)


@pytest.mark.parametrize(
    ("url", "reply"),
    [
        (
            "http://127.0.0.1:1/v1?key=secret",
            NoReply("connect", "cannot connect to `127.0.0.1`: Connection refused"),
        ),
        (
            "http://no-such-host.invalid/v1?key=secret",
            NoReply("connect", "the host `no-such-host.invalid` is not known"),
        ),
    ],
)
def test_nobody_there_is_said_without_the_key_or_the_path(url: str, reply: NoReply) -> None:
    """A closed port, and a host that nobody knows."""
    assert asyncio.run(send(connect(url), POST, seconds=30)) == [reply]


def test_a_large_question_is_sent() -> None:
    """A body of more than a megabyte arrives."""
    lengths: list[int] = []

    async def console(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(head.split("content-length: ")[1].split("\r\n")[0])
        lengths.append(len(await reader.readexactly(size)))
        writer.write(make_raw(b"{}"))
        await writer.drain()
        writer.close()

    assert isinstance(call(console, HttpRequest(b"x" * 3_000_000)), HttpReply)
    assert lengths == [3_000_000]


def call_securely(trusted_ca: str | None) -> HttpReply | NoReply:
    """Return what one request to a server with a certificate of its own brings."""

    async def run() -> HttpReply | NoReply:
        async with serve(answer_with(make_raw(b"{}")), serve_tls()) as port:
            connection = connect(f"https://127.0.0.1:{port}/v1", trusted_ca=trusted_ca)
            (reply,) = await send(connection, POST, seconds=10)
            return reply

    return asyncio.run(run())


def test_certificates_are_checked() -> None:
    """A certificate without a trusted authority is refused; `trusted_ca` names an authority."""
    assert call_securely(None) == NoReply(
        "certificate",
        "the certificate of `127.0.0.1` is not valid: unable to get local issuer certificate",
    )
    assert isinstance(call_securely(open_authority().cert_pem.bytes().decode()), HttpReply)


def serve_tls() -> ssl.SSLContext:
    """Return the TLS of a server on this machine."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    open_authority().issue_cert("127.0.0.1").configure_cert(context)
    return context


def test_an_error_of_the_library_shows_no_address() -> None:
    """What aiohttp and the system raise is told with the host and nothing secret."""
    errors: list[tuple[Exception, str]] = [
        (ssl.SSLError("x"), "certificate"),
        (TimeoutError(), "timeout"),
        (aiohttp.ConnectionTimeoutError("x"), "timeout"),
        (aiohttp.InvalidURL("x"), "address"),
        (UnicodeError("x"), "address"),
        (aiohttp.ServerDisconnectedError(), "reset"),
        (aiohttp.ClientPayloadError("x"), "reset"),
        (ConnectionResetError(104, "x"), "reset"),
    ]
    for error, kind in errors:
        reply = explain_error(error, "`h`", 1.0)
        assert reply.kind == kind
        assert "x" not in reply.why.split()


def test_only_the_reply_itself_counts() -> None:
    """What comes before it, after it in the same bytes, or without a length, adds nothing to it."""
    early = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    reply = call_well(answer_with(early + make_raw(b"{}", "Retry-After: 1")))
    assert (reply.status, reply.body, "link" in reply.headers) == (200, b"{}", False)
    second = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nretry-after: 9\r\n\r\n"
    reply = call_well(answer_with(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nB" + second))
    assert (list(map(str.lower, reply.headers)), reply.body) == (["content-length"], b"B")
    assert call_well(answer_with(b"HTTP/1.1 200 OK\r\n\r\nwhole")).body == b"whole"


def test_headers_come_to_an_end() -> None:
    """A server that sends headers without end is given up, long before the time is over."""

    async def console(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while not writer.is_closing():
            writer.write(b"X-Header: " + b"x" * 1000 + b"\r\n")
            await asyncio.sleep(0)

    assert call(console) == NoReply("unreadable", "`127.0.0.1` does not answer in HTTP")


@pytest.mark.parametrize(
    ("raw", "unasked", "opened"),
    [
        (PLAIN, b"", 1),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", b"", 1),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", b"", 3),
        (PLAIN + PLAIN, b"", 3),
        (PLAIN, PLAIN, 3),
    ],
)
def test_a_connection_is_used_again(raw: bytes, unasked: bytes, opened: int) -> None:
    """Unless it is to be closed, or brings bytes that were not asked for: those answer no
    question.
    """
    seen: list[int] = []

    async def console(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(1)
        while True:
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(2)
            writer.write(raw)
            await writer.drain()
            if unasked:
                await asyncio.sleep(0)
                writer.write(unasked)

    assert [type(reply) for reply in call_all(console, POST, POST, POST)] == [HttpReply] * 3
    assert len(seen) == opened


def make_reply(text: bytes, status: bytes = b"200 OK") -> bytes:
    """Return the bytes of a reply after which the connection stays open."""
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(text), text)


async def read_question(reader: asyncio.StreamReader) -> bytes:
    """Return the body of the next request, which has one byte."""
    await reader.readuntil(b"\r\n\r\n")
    return await reader.readexactly(1)


async def repeat_each_reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send each reply twice, the second one when the first may have been read."""
    while question := await read_question(reader):
        writer.write(make_reply(question))
        for _ in range(10):
            await asyncio.sleep(0)
        writer.write(make_reply(question))


async def reply_after_a_timeout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Give up the first question with status 504, and answer it before the next one."""
    late = await read_question(reader)
    writer.write(make_reply(b"", b"504 Gateway Timeout"))
    while question := await read_question(reader):
        writer.write(make_reply(late))
        writer.write(make_reply(question))


async def reply_before_the_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Send a reply as soon as a client connects."""
    writer.write(make_reply(b"0"))
    while question := await read_question(reader):
        writer.write(make_reply(question))


async def answer_one_too_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the second question with the first reply; its own reply comes with it."""
    writer.write(make_reply(first := await read_question(reader)))
    while question := await read_question(reader):
        writer.write(make_reply(first) + make_reply(question))


async def answer_one_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the second question with the first reply.

    Its own reply comes when nobody waits for it.
    """
    writer.write(make_reply(first := await read_question(reader)))
    while question := await read_question(reader):
        writer.write(make_reply(first))
        for _ in range(10):
            await asyncio.sleep(0)
        writer.write(make_reply(question))


async def close_half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close the sending side after a reply, without a word before."""
    writer.write(make_reply(await read_question(reader)))
    writer.write_eof()
    await reader.read()


async def say_farewell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Tell an idle connection that nothing was asked any more, as some load balancers do."""
    writer.write(make_reply(await read_question(reader)))
    await asyncio.sleep(0)
    writer.write(make_reply(b"", b"408 Request Timeout"))
    await reader.read()


EARLY = "`127.0.0.1` replied before the request was sent"
MISMATCHED = "`127.0.0.1` sent more replies than there were requests"


@pytest.mark.parametrize(
    ("console", "replies"),
    [
        (repeat_each_reply, [b"1", b"2", b"3"]),
        (reply_after_a_timeout, [504, 504, 504]),
        (reply_before_the_request, [EARLY, EARLY, EARLY]),
        (answer_one_too_early, [b"1", MISMATCHED, b"3"]),
        (answer_one_late, [b"1", b"1", MISMATCHED]),
        (close_half, [b"1", b"2", b"3"]),
        (say_farewell, [b"1", b"2", b"3"]),
    ],
)
def test_a_reply_belongs_to_its_request(console: Console, replies: list[object]) -> None:
    """What arrives before a request is no reply to it.

    Where replies were mixed up already, all ends.
    """
    came = call_all(console, HttpRequest(b"1"), HttpRequest(b"2"), HttpRequest(b"3"))
    texts = [end.why if isinstance(end, NoReply) else end.body or end.status for end in came]
    assert texts == replies


def test_an_address_is_written_as_http_wants_it() -> None:
    """Host and port for the header, path and query escaped where they must be, and not twice."""
    seen: list[bytes] = []

    async def run() -> None:
        async with serve(answer_with(make_raw(b"{}"), seen=seen)) as port:
            for path in ("/v1/x y?a=b", "", "/a%2Fb", "/\u00e4"):
                await send(connect(f"http://127.0.0.1:{port}{path}"), POST)
            assert f"Host: 127.0.0.1:{port}".encode() in seen[0]

    asyncio.run(run())
    assert [head.split()[1] for head in seen] == [b"/v1/x%20y?a=b", b"/", b"/a%2Fb", b"/%C3%A4"]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("is_kept", [False, True])
def test_nothing_is_sent_twice(method: Literal["GET", "POST"], is_kept: bool) -> None:  # noqa: FBT001 - a table
    """A connection that breaks is no reply, not another request, whatever HTTP says of the method.

    The endpoint may close one that was kept while the next request is on its way.
    """
    seen: list[bytes] = []

    async def console(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if is_kept:
            seen.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(PLAIN)
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    *before, last = call_all(
        console, *[HttpRequest(None, method, "/v1/file")] * (1 + is_kept), seconds=10
    )
    assert [type(reply) for reply in before] == [HttpReply] * is_kept
    assert (last, len(seen)) == (CLOSED, 1 + is_kept)


def test_no_cookies_and_no_netrc_are_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What an endpoint sets is not sent back, and a password of this machine goes nowhere."""
    (tmp_path / ".netrc").write_text("default login me password canary-password\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    seen: list[bytes] = []
    call_all(answer_with(make_raw(b"{}", "Set-Cookie: a=b"), seen=seen), POST, POST, key=None)
    assert len(seen) == 2
    heads = b"".join(seen).lower()
    assert (b"cookie" in heads, b"authorization" in heads) == (False, False)


@pytest.mark.parametrize(
    ("connect_seconds", "seconds", "why"),
    [
        (60.0, 0.05, "no whole reply from `127.0.0.1` within 0.05 s"),
        (0.05, 60.0, "`127.0.0.1` did not accept the connection in time"),
    ],
)
def test_a_timeout_says_whose_time_it_was(connect_seconds: float, seconds: float, why: str) -> None:
    """That of the call, or that of connecting; here TLS is never begun."""

    async def console(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(-1)

    async def run() -> list[HttpReply | NoReply]:
        async with serve(console) as port:
            url, limits = f"https://127.0.0.1:{port}/v1", Limits(connect_seconds=connect_seconds)
            return await send(connect(url), POST, limits=limits, seconds=seconds)

    assert asyncio.run(run()) == [NoReply("timeout", why)]


# The proxy that the environment names is used, is named, and sees no key.

#: No such host can exist, so that whatever comes of it comes through the proxy.
HOST = "endpoint.invalid"
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name no proxy and no certificates, and forget which proxy was announced."""
    for name in (*VARIABLES, *map(str.lower, VARIABLES), "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    proxies._announce.cache_clear()


@pytest.mark.parametrize(
    ("url", "proxy", "opened"),
    [
        (f"http://{HOST}/v1", "", 0),
        (f"https://{HOST}/v1", "", 1),
        (f"http://{HOST}/v1", "https://127.0.0.1:1", 1),
    ],
)
def test_certificates_are_loaded_where_tls_is_spoken(
    monkeypatch: pytest.MonkeyPatch, url: str, proxy: str, opened: int
) -> None:
    """By the endpoint, or by the proxy before it."""
    loaded: list[object] = []

    def load(trusted_ca: object) -> bool:
        loaded.append(trusted_ca)
        return True

    monkeypatch.setattr("answerkey.models.http.open_tls_context", load)
    monkeypatch.setenv("HTTP_PROXY", proxy)
    assert isinstance(asyncio.run(send(connect(url, None), POST))[0], NoReply)
    assert len(loaded) == opened


def call_by_proxy(
    variable: str = "HTTPS_PROXY",
    value: str = "http://{}",
    *,
    url: str = f"https://{HOST}/v1",
    key: str | None = KEY,
    refusal: bytes = b"",
) -> tuple[HttpReply | NoReply, list[bytes], list[bytes]]:
    """Return what a request brings, what the proxy was told before a tunnel, and what the endpoint
    was told.

    The proxy leads every tunnel to one endpoint; its address stands for `{}` in the environment
    value.
    """
    heads: list[bytes] = []
    endpoint_heads: list[bytes] = []
    ports: list[int] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        if refusal or not heads[-1].startswith(b"CONNECT"):
            writer.write(refusal or REPLY)
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        there, back = await asyncio.open_connection("127.0.0.1", ports[0])
        await asyncio.gather(pump(reader, back), pump(there, writer))

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    open_authority().issue_cert(HOST).configure_cert(context)

    async def run() -> HttpReply | NoReply:
        endpoint = serve(answer_with(REPLY, seen=endpoint_heads), context)
        async with endpoint as port, serve(tunnel) as proxy_port:
            ports.append(port)
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv(variable, value.format(f"127.0.0.1:{proxy_port}"))
                (reply,) = await send(connect(url, key), POST, seconds=30)
            return reply

    return asyncio.run(run()), heads, endpoint_heads


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """Return a file with the certificate that vouches for the endpoint."""
    file = tmp_path / "own.pem"
    open_authority().cert_pem.write_to_path(str(file))
    return file


@pytest.mark.parametrize(
    ("variable", "trusted_by"),
    [
        ("HTTPS_PROXY", "SSL_CERT_FILE"),
        ("https_proxy", "REQUESTS_CA_BUNDLE"),
        ("ALL_PROXY", "SSL_CERT_FILE"),
    ],
)
def test_an_endpoint_is_reached_through_a_tunnel(
    variable: str, trusted_by: str, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy sees the host alone.

    The key is inside TLS, which certificates of one's own vouch for.
    """
    monkeypatch.setenv(trusted_by, str(certificates))
    reply, heads, endpoint_heads = call_by_proxy(variable)
    assert isinstance(reply, HttpReply)
    assert heads[0].startswith(f"CONNECT {HOST}:443 HTTP/1.1\r\n".encode())
    assert KEY.encode() not in heads[0]
    assert b"proxy-authorization" not in heads[0].lower()
    assert f"Authorization: Bearer {KEY}".encode() in endpoint_heads[0]


def test_a_proxy_is_told_its_password_and_nobody_else_is(
    certificates: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named once on stderr, without the password, which the endpoint does not see either."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            reply, heads, endpoint_heads = call_by_proxy(value="http://me:pass-canary@{}")
            assert isinstance(reply, HttpReply)
            assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:pass-canary") in heads[0]
            assert b"proxy" not in endpoint_heads[0].lower()
            assert "pass-canary" not in caplog.text
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 2  # two proxies, each on its own port
    begin = "requests go through the proxy `http://***@127.0.0.1:"
    assert all(text.startswith(begin) for text in warnings)


@pytest.mark.parametrize("excepted", [HOST, ".invalid", "*", f"other.example,{HOST}:443"])
def test_a_host_in_no_proxy_needs_none(excepted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy gets no request."""
    monkeypatch.setenv("no_proxy", excepted)
    came, heads, _ = call_by_proxy(url=f"https://{HOST}:443/v1")
    assert came == NoReply("connect", f"the host `{HOST}` is not known")
    assert not heads


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/v1", "http://localhost:1/v1", "http://[::1]:1/v1"]
)
def test_this_machine_is_reached_without_a_proxy(url: str) -> None:
    """Whatever the environment says."""
    came, heads, _ = call_by_proxy("HTTP_PROXY", url=url, key=None)
    assert isinstance(came, NoReply)
    assert (came.kind, heads) == ("connect", [])


def test_a_key_does_not_pass_a_proxy_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before anything is sent, also before a run begins.

    Without a key the proxy is used.
    """
    url = f"http://{HOST}/v1"
    monkeypatch.setenv("HTTP_PROXY", "http://me:pass-canary@127.0.0.1:9")
    with pytest.raises(
        SpecError, match=r"would pass through the proxy `http://.*` without TLS"
    ) as caught:
        LiveModel(connect(url)).require_ready()
    assert (caught.value.code, "pass-canary" in str(caught.value)) == ("E117", False)
    with pytest.raises(SpecError, match="without TLS"):
        call_by_proxy("HTTP_PROXY", url=url)
    reply, heads, _ = call_by_proxy("HTTP_PROXY", "{}", url=url, key=None)
    assert isinstance(reply, HttpReply)
    assert heads[0].startswith(f"POST {url} HTTP/1.1\r\n".encode())


def test_a_proxy_that_refuses_is_named_as_the_reason() -> None:
    """So is one that is not there."""
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    came, _, endpoint_heads = call_by_proxy(refusal=refusal)
    assert came == NoReply("connect", f"the proxy does not connect to `{HOST}`: status 407")
    assert not endpoint_heads
    came, _, _ = call_by_proxy(value="http://127.0.0.1:1")
    assert came == NoReply("connect", "cannot connect to the proxy: Connection refused")


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        (
            "ALL_PROXY",
            "socks5://me:pass-canary@127.0.0.1:9",
            "cannot be used for `endpoint.invalid`",
        ),
        ("REQUESTS_CA_BUNDLE", "/no/such/file", "which contains no certificates"),
    ],
)
def test_what_cannot_be_used_is_said(variable: str, value: str, reason: str) -> None:
    """E119, without a password."""
    with pytest.raises(SpecError, match=reason) as caught:
        call_by_proxy(variable, value)
    assert (caught.value.code, "pass-canary" in str(caught.value)) == ("E119", False)
