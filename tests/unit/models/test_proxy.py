"""The proxy that the environment names is used, is named, and sees no key."""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

from answerkey.errors import SpecError
from answerkey.models import LiveModel, Secret
from answerkey.models import proxy as proxies
from answerkey.models.client import HttpClient
from answerkey.models.providers import OPENAI_CHAT, Connection
from answerkey.models.retry import Limits, NoReply, Reply

KEY = "sk-canary-0123456789"
#: No such host can exist, so that whatever comes of it comes through the proxy.
HOST = "endpoint.invalid"
AUTHORITY = trustme.CA()
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name no proxy and no certificates, and forget which proxy was announced."""
    for name in (*VARIABLES, *map(str.lower, VARIABLES), "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    proxies._announce.cache_clear()


def call_by_proxy(
    choose: Callable[[str], None], url: str, *, key: str | None = KEY, refusal: bytes = b""
) -> tuple[Reply | NoReply, list[bytes], list[bytes]]:
    """Return what a request brings, what the proxy was told before a tunnel, and what the endpoint was told.

    The proxy leads every tunnel to one endpoint; `choose` is given its address.
    """
    told: list[bytes] = []
    asked: list[bytes] = []
    ports: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(REPLY)
            await writer.drain()
        writer.close()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told.append(await reader.readuntil(b"\r\n\r\n"))
        if refusal or not told[-1].startswith(b"CONNECT"):
            writer.write(refusal or REPLY)
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        there, back = await asyncio.open_connection("127.0.0.1", ports[0])
        await asyncio.gather(pump(reader, back), pump(there, writer))

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert(HOST).configure_cert(context)

    async def run() -> Reply | NoReply:
        endpoint = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        ports.append(endpoint.sockets[0].getsockname()[1])
        server = await asyncio.start_server(tunnel, "127.0.0.1", 0)
        choose(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        headers = {} if key is None else {"Authorization": Secret(f"Bearer {key}")}
        client = None
        try:
            client = HttpClient(Connection("m", OPENAI_CHAT, url, "m", headers), Limits())
            return await client.post(b"{}", seconds=30)
        finally:
            if client is not None:
                await client.close()
            for one in (server, endpoint):
                one.close()
                await one.wait_closed()
            await asyncio.sleep(0.05)  # the tunnels notice

    return asyncio.run(run()), told, asked


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """Return a file with the certificate that vouches for the endpoint."""
    file = tmp_path / "own.pem"
    AUTHORITY.cert_pem.write_to_path(str(file))
    return file


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("trusted_by", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_an_endpoint_is_reached_through_a_tunnel(
    variable: str, trusted_by: str, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy sees the host alone; the key is inside TLS, which certificates of one's own vouch for."""
    monkeypatch.setenv(trusted_by, str(certificates))
    reply, told, asked = call_by_proxy(
        lambda address: monkeypatch.setenv(variable, f"http://{address}"), f"https://{HOST}/v1"
    )
    assert isinstance(reply, Reply)
    assert told[0].startswith(f"CONNECT {HOST}:443 HTTP/1.1\r\n".encode())
    assert KEY.encode() not in told[0]
    assert b"proxy-authorization" not in told[0].lower()
    assert f"Authorization: Bearer {KEY}".encode() in asked[0]


def test_a_proxy_is_told_its_password_and_nobody_else_is(
    certificates: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named once on stderr, without the password, which the endpoint does not see either."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            reply, told, asked = call_by_proxy(
                lambda address: monkeypatch.setenv("HTTPS_PROXY", f"http://me:pass-canary@{address}"),
                f"https://{HOST}/v1",
            )
            assert isinstance(reply, Reply)
            assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:pass-canary") in told[0]
            assert b"proxy" not in asked[0].lower()
            assert "pass-canary" not in caplog.text
    said = [one.getMessage() for one in caplog.records]
    assert len(said) == 2  # two proxies, each on its own port
    assert all(one.startswith("requests go through the proxy `http://***@127.0.0.1:") for one in said)


@pytest.mark.parametrize("excepted", [HOST, ".invalid", "*", f"other.example,{HOST}:443"])
def test_a_host_in_no_proxy_is_reached_without_one(excepted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy hears nothing."""
    monkeypatch.setenv("no_proxy", excepted)
    came, told, _ = call_by_proxy(
        lambda address: monkeypatch.setenv("HTTPS_PROXY", f"http://{address}"), f"https://{HOST}:443/v1"
    )
    assert came == NoReply("connect", f"the host `{HOST}` is not known")
    assert not told


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/v1", "http://localhost:1/v1", "http://[::1]:1/v1"])
def test_this_machine_is_reached_without_a_proxy(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment says."""
    came, told, _ = call_by_proxy(
        lambda address: monkeypatch.setenv("HTTP_PROXY", f"http://{address}"), url, key=None
    )
    assert isinstance(came, NoReply)
    assert (came.kind, told) == ("connect", [])


def test_a_key_does_not_pass_a_proxy_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before anything is sent, also before a run begins; without a key the proxy is used."""
    url = f"http://{HOST}/v1"
    monkeypatch.setenv("HTTP_PROXY", "http://me:pass-canary@127.0.0.1:9")
    model = LiveModel(Connection("m", OPENAI_CHAT, url, "m", {"Authorization": Secret(f"Bearer {KEY}")}))
    with pytest.raises(SpecError, match=r"would pass through the proxy `http://.*` without TLS") as caught:
        model.require_ready()
    assert (caught.value.code, "pass-canary" in str(caught.value)) == ("E117", False)
    with pytest.raises(SpecError, match="without TLS"):
        call_by_proxy(lambda address: monkeypatch.setenv("HTTP_PROXY", f"http://{address}"), url)
    reply, told, _ = call_by_proxy(lambda address: monkeypatch.setenv("HTTP_PROXY", address), url, key=None)
    assert isinstance(reply, Reply)
    assert told[0].startswith(f"POST {url} HTTP/1.1\r\n".encode())


def test_a_proxy_that_refuses_is_named_as_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """So is one that is not there."""
    came, _, asked = call_by_proxy(
        lambda address: monkeypatch.setenv("HTTPS_PROXY", f"http://{address}"),
        f"https://{HOST}/v1",
        refusal=b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
    )
    assert came == NoReply("connect", f"the proxy does not connect to `{HOST}`: status 407")
    assert not asked
    came, _, _ = call_by_proxy(
        lambda _: monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1"), f"https://{HOST}/v1"
    )
    assert came == NoReply("connect", "cannot connect to the proxy: Connection refused")


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("ALL_PROXY", "socks5://me:pass-canary@127.0.0.1:9", "cannot be used for `endpoint.invalid`"),
        ("REQUESTS_CA_BUNDLE", "/no/such/file", "which holds no certificates"),
    ],
)
def test_what_cannot_be_used_is_said(
    variable: str, value: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E119, without a password."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(SpecError, match=reason) as caught:
        call_by_proxy(lambda _: None, f"https://{HOST}/v1")
    assert (caught.value.code, "pass-canary" in str(caught.value)) == ("E119", False)
