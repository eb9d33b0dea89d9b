"""One endpoint over HTTP: a body is posted, a reply or a trouble comes back, nothing is raised."""

from __future__ import annotations

import io
import math
import os
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from answerkey._version import __version__
from answerkey.errors import SpecError
from answerkey.models.connections import Connection, Tls
from answerkey.models.limits import Limits
from answerkey.models.retrying import Reply, Trouble, TroubleKind

if TYPE_CHECKING:
    from ssl import SSLContext

    from aiohttp import ClientResponse, ClientSession, ClientTimeout
    from aiohttp.client import _RequestContextManager

#: aiohttp wants larger bodies as a stream.
LARGE_BODY = 1 << 20
KEEP_ALIVE_SECONDS = 15.0
#: What goes wrong, by the name of the exception's class or of the nearest base in the table. Names, so that
#: aiohttp is imported only when something is sent.
TROUBLES: dict[str, tuple[TroubleKind, str]] = {
    "ClientConnectorCertificateError": ("certificate", "the certificate of {host} is not valid"),
    "ClientSSLError": ("certificate", "no secure connection to {host}"),
    "ServerFingerprintMismatch": ("certificate", "the certificate of {host} is not the expected one"),
    "ClientConnectorDNSError": ("connect", "the host {host} is not known"),
    "ClientConnectorError": ("connect", "cannot connect to {host}"),
    "ConnectionTimeoutError": ("timeout", "{host} did not take the connection in time"),
    "ServerTimeoutError": ("timeout", "no whole reply from {host} within {seconds:g} s"),
    "TimeoutError": ("timeout", "no whole reply from {host} within {seconds:g} s"),
    "ClientPayloadError": ("reset", "{host} broke off in the middle of its reply"),
    "UploadAbortedError": ("reset", "{host} broke off in the middle of the request"),
    "ClientConnectionError": ("reset", "{host} closed the connection without a reply"),
    "RedirectClientError": ("address", "{host} redirects; redirects are not followed"),
    "ClientResponseError": ("unreadable", "{host} does not answer in HTTP"),
    "InvalidURL": ("address", "the address is not valid"),
    "NonHttpUrlClientError": ("address", "the address does not begin with http:// or https://"),
    "ClientError": ("reset", "the connection to {host} failed"),
    "OSError": ("reset", "the connection to {host} failed"),
    "ValueError": ("address", "the address or a header cannot be sent as it is"),
}


class Sender(Protocol):
    """Posts a body to one endpoint."""

    async def post(self, body: bytes, *, seconds: float) -> Reply | Trouble:
        """Return what came back within so many seconds."""

    async def close(self) -> None:
        """Close all connections."""


@dataclass(frozen=True)
class Errand:
    """A request that is no call: to another path of the same endpoint, with a limit for its reply."""

    method: Literal["GET", "POST"]
    url: str
    body: bytes | None = None
    content_type: str = "application/json"
    max_bytes: int | None = None


class Client:
    """The sender over aiohttp; made and used inside one event loop.

    Connections are kept and used again, certificates are checked, redirects are not followed, cookies are not
    kept, and a body beyond `limits.max_bytes` is not read to its end.
    """

    def __init__(self, connection: Connection, limits: Limits, concurrent: int) -> None:
        from aiohttp import ClientError
        from yarl import URL

        self._errors = (ClientError, OSError, ValueError)
        self._url = URL(connection.url)
        self._host = f"`{connection.host}`"
        self._limits = limits
        self._timeout = _limit_time(limits.attempt_seconds, limits)
        self._session = _open_session(connection, limits, concurrent)

    async def post(self, body: bytes, *, seconds: float) -> Reply | Trouble:
        """Return what came back within so many seconds, however slowly it drips."""
        limit = self._choose_timeout(seconds)
        sending = self._session.post(self._url, data=_pack(body), allow_redirects=False, timeout=limit)
        return await self._receive(sending, seconds, self._limits.max_bytes)

    async def send(self, errand: Errand, *, seconds: float) -> Reply | Trouble:
        """Return what came back from another path within so many seconds."""
        from yarl import URL

        sending = self._session.request(
            errand.method,
            URL(errand.url, encoded=True),
            data=None if errand.body is None else _pack(errand.body),
            headers={"Content-Type": errand.content_type},
            allow_redirects=False,
            timeout=_limit_time(seconds, self._limits),
        )
        return await self._receive(sending, seconds, errand.max_bytes or self._limits.max_bytes)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def _receive(self, sending: _RequestContextManager, seconds: float, most: int) -> Reply | Trouble:
        try:
            async with sending as reply:
                packed = await _read_body(reply, most)
                if packed is None:
                    reply.close()
                    return self._refuse_size(most)
                encoding = reply.headers.get("Content-Encoding", "identity").strip().lower()
                if encoding in {"identity", ""}:
                    return Reply(reply.status, reply.headers, packed)
                return self._unpack(reply, packed, encoding, most)
        except self._errors as error:
            return self._explain(error, seconds)

    def _choose_timeout(self, seconds: float) -> ClientTimeout:
        if seconds == self._timeout.total:
            return self._timeout
        return _limit_time(seconds, self._limits)

    def _unpack(self, reply: ClientResponse, packed: bytes, encoding: str, most: int) -> Reply | Trouble:
        try:
            body = unpack(packed, encoding, most)
        except zlib.error:
            return Trouble("unreadable", f"the reply of {self._host} cannot be unpacked ({encoding})")
        except LookupError:
            return Trouble("unreadable", f"{self._host} packs its reply in a way it was not asked for")
        if body is None:
            return self._refuse_size(most)
        return Reply(reply.status, reply.headers, body)

    def _refuse_size(self, most: int) -> Trouble:
        return Trouble("too_large", f"the reply of {self._host} is larger than {most} bytes")

    def _explain(self, error: BaseException, seconds: float) -> Trouble:
        kind, words = find_trouble(type(error))
        text = words.format(host=self._host, seconds=seconds)
        cause = _name_cause(getattr(error, "certificate_error", None) or getattr(error, "os_error", None))
        return Trouble(kind, f"{text}: {cause}" if cause else text)


def _pack(body: bytes) -> bytes | io.BytesIO:
    return body if len(body) < LARGE_BODY else io.BytesIO(body)


def find_trouble(kind: type[BaseException]) -> tuple[TroubleKind, str]:
    """Return the table's entry for an exception class, or for its nearest base that has one."""
    return next(TROUBLES[base.__name__] for base in kind.__mro__ if base.__name__ in TROUBLES)


def _name_cause(error: Exception | None) -> str | None:
    """Return what the system says ("Connection refused"); the library's own texts may hold addresses."""
    if not isinstance(error, OSError) or error.errno is None:
        return None
    if not type(error).__name__.startswith("SSL"):  # those count their errors in another way
        return os.strerror(error.errno) if error.errno > 0 else error.strerror
    return getattr(error, "verify_message", None)


def _open_session(connection: Connection, limits: Limits, concurrent: int) -> ClientSession:
    from aiohttp import ClientSession, DummyCookieJar, TCPConnector

    connector = TCPConnector(
        limit=concurrent,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        ssl=True if connection.tls is None else _trust(connection.name, connection.tls),
    )
    headers = {
        "User-Agent": f"answerkey/{__version__}",
        "Accept": "application/json",
        "Accept-Encoding": "gzip, deflate",
        "Content-Type": "application/json",
        **connection.reveal_headers(),
    }
    return ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=DummyCookieJar(),
        trust_env=limits.uses_proxy,
        auto_decompress=False,
    )


def _limit_time(seconds: float, limits: Limits) -> ClientTimeout:
    from aiohttp import ClientTimeout

    # From waiting for a connection to the last byte of the body, not rounded up; 0 would mean no limit.
    return ClientTimeout(
        total=max(seconds, 0.001), sock_connect=limits.connect_seconds, ceil_threshold=math.inf
    )


def _trust(name: str, tls: Tls) -> SSLContext:
    import ssl

    try:
        return ssl.create_default_context(cadata=tls.trusted_ca)
    except (ssl.SSLError, ValueError):
        hint = "give the text of a PEM file, from `-----BEGIN CERTIFICATE-----` on"
        raise SpecError("E108", f"model `{name}`: `trusted_ca` holds no certificate", hint=hint) from None


async def _read_body(reply: ClientResponse, most: int) -> bytes | None:
    """Return the body as sent, or None as soon as it is larger than allowed."""
    announced = reply.content_length
    if announced is not None:
        return await reply.read() if announced <= most else None
    parts: list[bytes] = []
    size = 0
    async for part in reply.content.iter_any():
        size += len(part)
        if size > most:
            return None
        parts.append(part)
    return b"".join(parts)


def unpack(packed: bytes, encoding: str, most: int) -> bytes | None:
    """Return an unpacked body, or None as soon as it is larger than `most`; at most that much is held.

    Raises zlib.error for damaged bodies and LookupError for encodings that were not asked for.
    """
    if encoding in {"gzip", "x-gzip"}:
        return _inflate(packed, most, window=31)
    if encoding != "deflate":
        raise LookupError(encoding)
    try:
        return _inflate(packed, most, window=15)
    except zlib.error:  # some servers send it without the zlib header
        return _inflate(packed, most, window=-15)


def _inflate(packed: bytes, most: int, *, window: int) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    while packed:
        unpacker = zlib.decompressobj(window)
        parts.append(unpacker.decompress(packed, most - size + 1))
        size += len(parts[-1])
        if size > most:
            return None
        if not unpacker.eof:
            raise zlib.error("cut off")
        packed = unpacker.unused_data.lstrip(b"\0")
    return b"".join(parts)
