"""HTTP requests to one endpoint: each returns a reply or a `NoReply`; errors are never raised.

aiohttp does connections, HTTP, TLS and CONNECT. Imported only when a model is called.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import re
import socket
import ssl
from contextlib import AsyncExitStack
from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from answerkey._version import __version__
from answerkey.models.calls import MEGABYTE, Limits
from answerkey.models.providers import Connection
from answerkey.models.proxy import find_proxy_for_key, open_tls_context
from answerkey.models.responses import get_field, list_entries, parse_json
from answerkey.models.retry import HttpReply, HttpRequest, NoReply, NoReplyKind

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.connector import Connection as PooledConnection
    from aiohttp.tracing import Trace

LOG = logging.getLogger("answerkey.models")
KEEP_ALIVE_SECONDS = 15.0
#: How long a new connection is kept idle before its first request, in case a surplus reply arrives.
QUIET_SECONDS = 0.01
#: The maximum size of a header in bytes; aiohttp takes at most 128 headers.
LARGEST_HEADER = 16_384
#: How many bytes of a body are read at a time.
STEP = 1 << 15
#: Bodies up to this size are always read at once.
SMALL_BODY = 1 << 17
#: How many larger bodies are read at the same time: each may take `max_bytes` of memory.
LARGE_BODIES = 2
_FINAL, _REQUEST_TIMEOUT, _SERVER_ERRORS = 200, 408, 500


class EarlyReplyError(aiohttp.ClientError):
    """The server replied before a request was sent."""


class MismatchedReplyError(aiohttp.ClientError):
    """The server sent more replies than it got requests, and the surplus one repeats nothing."""


class CheckedConnector(aiohttp.TCPConnector):
    """A pool that never returns a connection on which something arrived before the request.

    aiohttp would take it for the reply to the next request, which is about another sample. The pool
    returns the connection that has been idle longest. Once a server has sent such a reply, each
    request gets its own connection.
    """

    def __init__(self, host: str, *, tls: ssl.SSLContext | bool) -> None:
        super().__init__(
            limit=0,
            ssl=tls,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
        )
        self._host = host
        self._is_reusing = True
        #: The start of the last reply on each connection.
        self._replies: WeakKeyDictionary[ResponseHandler, bytes] = WeakKeyDictionary()
        #: The connection of the current asyncio task.
        self._taken: ContextVar[ResponseHandler] = ContextVar("taken")

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  # the name is aiohttp's
    ) -> PooledConnection:
        """Return a connection from the pool, or a new one, on which nothing has arrived."""
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            assert protocol is not None  # noqa: S101  # only closed connections have none
            try:
                if await self._is_clean(protocol):
                    self._taken.set(protocol)
                    return connection
            except BaseException:
                connection.close()
                raise
            connection.close()

    async def _is_clean(self, protocol: ResponseHandler) -> bool:
        """Return whether nothing has arrived on a connection, so that it may be used."""
        is_new = protocol not in self._replies
        if is_new:
            self._replies[protocol] = b""
            await asyncio.sleep(QUIET_SECONDS)
        # The event loop has already read what arrived on an idle connection.
        is_open = protocol.is_connected()
        if is_new and not is_open:
            raise aiohttp.ServerDisconnectedError
        is_clean = is_open and not protocol.should_close
        if is_new and not is_clean:
            self._stop_reusing()
            raise EarlyReplyError
        if len(protocol):
            await self._check_surplus(protocol)
        return is_clean and (is_new or self._is_reusing)

    async def note_reply(self, status: int, body: bytes) -> None:
        """Remember the reply on the current task's connection.

        After a gateway's timeout, the reply that it waited for may still arrive, so the connection
        is not used again.
        """
        protocol = self._taken.get()
        self._replies[protocol] = body[:STEP]
        if len(protocol):
            await self._check_surplus(protocol)
        if status == _REQUEST_TIMEOUT or status >= _SERVER_ERRORS:
            protocol.close()

    async def _check_surplus(self, protocol: ResponseHandler) -> None:
        """Read a surplus reply; raise MismatchedReplyError unless it repeats the last one."""
        message, payload = await protocol.read()
        if message.code == _FINAL:  # another status may be the goodbye to an idle connection
            self._stop_reusing()
            surplus = payload.read_nowait()[:STEP]
            if not self._replies[protocol].startswith(surplus):
                raise MismatchedReplyError

    def _stop_reusing(self) -> None:
        if self._is_reusing:
            self._is_reusing = False
            why = "%s sent a reply without a request; each request now gets its own connection"
            LOG.warning(why, self._host)


class HttpClient:
    """The HTTP client of one connection; created and used inside one event loop.

    Connections are reused and certificates checked. Redirects, cookies and `.netrc` are ignored.
    Nothing is sent twice, and a body larger than `limits.max_bytes` is not read to its end.
    """

    def __init__(self, connection: Connection, limits: Limits) -> None:
        self._limits = limits
        self._host = f"`{connection.host}`"
        self._large_bodies = asyncio.Semaphore(LARGE_BODIES)
        self._proxy = find_proxy_for_key(
            connection.url, connection.name, has_key=connection.has_secret
        )
        self._url = URL(connection.url)
        # Opening a TLS context takes a while, and is useless without TLS.
        schemes = {self._url.scheme, URL(self._proxy or "").scheme}
        tls = open_tls_context(connection.trusted_ca) if "https" in schemes else True
        # These must not be the session's headers: aiohttp sends those, with the key, to a proxy
        # before there is a tunnel.
        self._headers = CIMultiDict(
            {
                "User-Agent": f"answerkey/{__version__}",
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "Content-Type": "application/json",
            }
        )
        self._headers.update(connection.reveal_headers())
        self._connector = CheckedConnector(self._host, tls=tls)
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect_seconds),
            auto_decompress=False,
            read_bufsize=STEP // 2,
            max_line_size=LARGEST_HEADER,
            max_field_size=LARGEST_HEADER,
        )
        # aiohttp would repeat a GET when its connection breaks; its own test client sets this, too.
        self._session._retry_connection = False  # noqa: SLF001

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def send(self, request: HttpRequest, *, seconds: float) -> HttpReply | NoReply:
        """Return the reply, or why there is no whole one after `seconds`, however slowly it
        arrives.
        """
        response = None
        most = request.max_bytes or self._limits.max_bytes
        try:
            async with asyncio.timeout(seconds):
                response = await self._begin(request)
                if response.status < _FINAL:
                    return NoReply("unreadable", f"{self._host} does not answer in HTTP")
                body = await self._read(response, most)
            await self._connector.note_reply(response.status, body or b"")
        except (aiohttp.ClientError, OSError, ValueError) as error:  # TimeoutError is an OSError
            return explain_error(error, self._host, seconds, has_begun=response is not None)
        finally:
            if response is not None:
                response.close()  # does nothing if the body was read to its end
        if body is None:
            return NoReply("too_large", f"the reply of {self._host} is larger than {most} bytes")
        encoding = response.headers.get("content-encoding", "identity")
        if encoding.strip().lower() != "identity":
            why = f"{self._host} compresses its reply, which was not requested"
            return NoReply("compressed", why)
        return HttpReply(response.status, response.headers, body)

    async def _begin(self, request: HttpRequest) -> aiohttp.ClientResponse:
        """Send a request; return the response as soon as its headers have arrived."""
        url = self._url
        headers = self._headers
        if request.url is not None:
            url = URL(request.url)
            headers = headers.copy()
            headers["Content-Type"] = request.content_type
        data: bytes | io.BytesIO | None = request.body
        if request.body is not None and len(request.body) > MEGABYTE:
            data = io.BytesIO(request.body)  # large bodies are written in pieces
        return await self._session.request(
            request.method,
            url,
            data=data,
            headers=headers,
            allow_redirects=False,
            proxy=self._proxy,
        )

    async def _read(self, response: aiohttp.ClientResponse, most: int) -> bytes | None:
        """Return the body; None as soon as it is too large."""
        announced = response.content_length or 0
        if announced > most:
            return None
        if 0 < announced <= SMALL_BODY:
            return await response.read()
        parts = []
        size = 0
        async with AsyncExitStack() as stack:
            # In small steps: unread bytes stay in aiohttp's buffer, and while that is full, nothing
            # is received.
            while part := await response.content.read(STEP):
                if size <= SMALL_BODY < size + len(part):
                    await stack.enter_async_context(self._large_bodies)
                size += len(part)
                if size > most:
                    return None
                parts.append(part)
        return b"".join(parts)


async def list_models(connection: Connection, client: HttpClient, *, seconds: float) -> list[str]:
    """Return the models that an endpoint lists and `--model` can name."""
    url = f"{connection.url.removesuffix(connection.api.path)}/models"
    request = HttpRequest(None, "GET", url, max_bytes=MEGABYTE)
    reply = await client.send(request, seconds=seconds)
    if isinstance(reply, NoReply) or reply.status != _FINAL:
        return []
    names = []
    for entry in list_entries(get_field(parse_json(reply.body), "data")):
        name = str(get_field(entry, "id") or "")
        if re.fullmatch(r"[^?#\s]+", name) and name.isprintable():
            names.append(name)
    return names


#: Why there is no whole reply, in our words, because a library's may contain addresses. The first
#: match counts.
_REASONS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], NoReplyKind, str], ...] = (
    (aiohttp.ServerTimeoutError, "timeout", "{host} did not accept the connection in time"),
    (TimeoutError, "timeout", "no whole reply from {host} within {seconds:g} s"),
    (EarlyReplyError, "unreadable", "{host} replied before the request was sent"),
    (MismatchedReplyError, "mismatched", "{host} sent more replies than there were requests"),
    ((aiohttp.InvalidURL, UnicodeError), "address", "the address is not valid"),
    (
        aiohttp.ClientConnectorCertificateError,
        "certificate",
        "the certificate of {host} is not valid: {certificate}",
    ),
    (
        (aiohttp.ClientConnectorSSLError, ssl.SSLError),
        "certificate",
        "{host} answers without TLS",
    ),
    (
        aiohttp.ClientHttpProxyError,
        "connect",
        "the proxy does not connect to {host}: status {status}",
    ),
    (aiohttp.ClientProxyConnectionError, "connect", "cannot connect to the proxy: {cause}"),
    (aiohttp.ClientConnectorError, "connect", "cannot connect to {host}: {cause}"),
    (
        (aiohttp.ClientResponseError, ValueError),
        "unreadable",
        "{host} does not answer in HTTP",
    ),
)


def explain_error(
    error: Exception,
    host: str,
    seconds: float,
    *,
    has_begun: bool = False,
) -> NoReply:
    """Return why there is no whole reply."""
    os_error = getattr(error, "os_error", None)
    details = {
        "host": host,
        "seconds": seconds,
        "status": getattr(error, "status", None),
        "certificate": getattr(
            getattr(error, "certificate_error", None), "verify_message", "it cannot be checked"
        ),
        "cause": os.strerror(os_error.errno) if os_error and os_error.errno else "it fails",
    }
    if isinstance(os_error, socket.gaierror):
        return NoReply("connect", f"the host {host} is not known")
    for kind, reply_kind, text in _REASONS:
        if isinstance(error, kind):
            return NoReply(reply_kind, text.format(**details))
    if has_begun:
        return NoReply("reset", f"{host} closed the connection in the middle of its reply")
    return NoReply("reset", f"{host} closed the connection without a reply")
