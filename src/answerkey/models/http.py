"""One endpoint over HTTP: a request is sent, a reply or a `NoReply` comes back, nothing is raised.

aiohttp keeps the connections and does HTTP, TLS and CONNECT. Imported only where a model is called.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import re
import socket
import ssl
import zlib
from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from answerkey._version import __version__
from answerkey.models.calls import Limits
from answerkey.models.providers import Connection
from answerkey.models.proxy import find_proxy_for_key, open_tls_context
from answerkey.models.responses import get_field, has_too_many_parts, list_entries
from answerkey.models.retry import NoReply, NoReplyKind, Reply, Request

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.connector import Connection as PooledConnection
    from aiohttp.tracing import Trace

LOG = logging.getLogger("answerkey.models")
KEEP_ALIVE_SECONDS = 15.0
#: A connection rests this long between a reply and the next request, so that a reply too many can
#: arrive before it; longer where one did.
QUIET_SECONDS, LONG_QUIET_SECONDS = 0.01, 0.25
#: The most bytes of one header; aiohttp takes at most 128 of them.
LARGEST_HEADER = 16_384
#: A body up to this size is read in any case.
SMALL_BODY = 1 << 15
#: How much all larger ones may have together before they wait for each other.
LARGE_BODIES = 16 << 20
#: How much of a body is unpacked in one go.
_STEP = 1 << 20
_FINAL, _BAD_REQUEST, _REQUEST_TIMEOUT, _SERVER_ERRORS = 200, 400, 408, 500


class BodyMemory:
    """How much of all large replies together is in memory.

    Beyond that they wait, the oldest never does. Each reply has a limit of its own. Without this
    one, an endpoint that sends large replies to every request at once would take that limit as
    often as there are connections.
    """

    def __init__(self, most: int = LARGE_BODIES) -> None:
        self._most = most
        self._sizes: dict[object, int] = {}
        self._taken = 0
        self._waiting: list[asyncio.Future[None]] = []

    async def reserve(self, body: object, size: int) -> None:
        """Return when a body may have so many bytes in memory."""
        while self._taken + size - self._sizes.setdefault(body, 0) > self._most:
            if body is next(iter(self._sizes)):
                break
            freed = asyncio.get_running_loop().create_future()
            self._waiting.append(freed)
            await freed
        self._taken += size - self._sizes[body]
        self._sizes[body] = size

    def release(self, body: object) -> None:
        """Give the memory of a body back; all that wait look again."""
        self._taken -= self._sizes.pop(body, 0)
        waiting = self._waiting
        self._waiting = []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


class EarlyReplyError(aiohttp.ClientError):
    """The server replied before a request was sent."""


class MismatchedReplyError(aiohttp.ClientError):
    """The server sent one reply more than there were requests, and it does not repeat the one
    before.
    """


class CheckedConnector(aiohttp.TCPConnector):
    """A pool that never hands out a connection on which something has arrived before the request.

    aiohttp itself would take that for the reply to the next request, which is about another sample.
    Once a server has sent such a reply, each request gets a connection of its own.
    """

    def __init__(self, host: str, tls: ssl.SSLContext) -> None:
        super().__init__(limit=0, ssl=tls, keepalive_timeout=KEEP_ALIVE_SECONDS)
        self._host = host
        self._is_reusing = True
        #: The beginning of the last reply on each connection, and when it was read.
        self._replies: WeakKeyDictionary[ResponseHandler, tuple[bytes, float]]
        self._replies = WeakKeyDictionary()
        #: The connection that the current asyncio task has taken.
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
        """Return whether nothing arrives on a connection, and it may be used."""
        is_new = protocol not in self._replies
        now = self._loop.time()
        _, replied_at = self._replies.setdefault(protocol, (b"", now))
        quiet_seconds = QUIET_SECONDS if self._is_reusing else LONG_QUIET_SECONDS
        rest_seconds = max(0.0, replied_at + quiet_seconds - now)
        await asyncio.sleep(rest_seconds)
        if not rest_seconds:
            await asyncio.sleep(0)  # in this turn the event loop reads what has arrived
        is_open = protocol.is_connected()
        is_clean = is_open and not protocol.should_close
        if is_new and not is_open:
            raise aiohttp.ServerDisconnectedError
        if is_new and not is_clean:
            self._stop_reusing()
            raise EarlyReplyError
        await self._check_surplus(protocol)
        return is_clean and (is_new or self._is_reusing)

    async def note_reply(self, status: int, body: bytes) -> None:
        """Take in the reply on the connection of the current task.

        After a timeout of a server on the way, the reply that it waited for may yet come: the
        connection is not used again.
        """
        protocol = self._taken.get()
        self._replies[protocol] = body[:SMALL_BODY], self._loop.time()
        await self._check_surplus(protocol)
        if status == _REQUEST_TIMEOUT or status >= _SERVER_ERRORS:
            protocol.close()

    async def _check_surplus(self, protocol: ResponseHandler) -> None:
        """Raise MismatchedReplyError if there is another reply, unless it repeats the last one."""
        if len(protocol) == 0:
            return
        message, payload = await protocol.read()
        if message.code == _FINAL:  # anything else may be a farewell to an idle connection
            self._stop_reusing()
            reply, _ = self._replies[protocol]
            if not reply.startswith(payload.read_nowait()[:SMALL_BODY]):
                raise MismatchedReplyError

    def _stop_reusing(self) -> None:
        if self._is_reusing:
            self._is_reusing = False
            why = "%s sent a reply without a request; each request now gets its own connection"
            LOG.warning(why, self._host)


class HttpClient:
    """The HTTP client of one connection; made and used inside one event loop.

    Connections are kept and used again, certificates are checked, redirects are not followed,
    cookies and `.netrc` are not read, nothing is sent twice, and a body beyond `limits.max_bytes`
    is not read to its end.
    """

    def __init__(self, connection: Connection, limits: Limits) -> None:
        self._limits = limits
        self._host = f"`{connection.host}`"
        self._memory = BodyMemory()
        self._proxy = find_proxy_for_key(
            connection.url, connection.name, has_key=connection.has_secret
        )
        tls = open_tls_context(connection.trusted_ca)
        # Not the session's: aiohttp tells a proxy those, the key included, before there is a
        # tunnel.
        self._headers = CIMultiDict(
            {
                "User-Agent": f"answerkey/{__version__}",
                "Accept": "application/json",
                "Accept-Encoding": "gzip, deflate",
                "Content-Type": "application/json",
            }
        )
        self._headers.update(connection.reveal_headers())
        self._connector = CheckedConnector(self._host, tls)
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect_seconds),
            auto_decompress=False,
            read_bufsize=SMALL_BODY // 2,
            max_line_size=LARGEST_HEADER,
            max_field_size=LARGEST_HEADER,
        )
        # aiohttp would send a GET once more when its connection breaks; its own test client does
        # the same.
        self._session._retry_connection = False  # noqa: SLF001
        self._url = URL(connection.url)
        #: Whether the server wants TLS where none is spoken; None until there is a reason to find
        #: out.
        self._is_tls = None if self._url.scheme == "http" and self._proxy is None else False

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def send(self, request: Request, *, seconds: float) -> Reply | NoReply:
        """Return the reply, or why there is none after `seconds` at most, however slowly it
        arrives.
        """
        reply = await self._send(request, seconds)
        if isinstance(reply, NoReply):
            is_suspicious = reply.kind in {"reset", "unreadable"}
        else:
            is_suspicious = reply.status == _BAD_REQUEST
        if is_suspicious and self._is_tls is None:
            self._is_tls = await self._expects_tls()
        if is_suspicious and self._is_tls:
            return NoReply("certificate", f"{self._host} answers only with TLS")
        return reply

    async def _expects_tls(self) -> bool:
        """Return whether the server makes a TLS handshake.

        Nothing is sent over it, so the certificate is not checked.
        """
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            async with asyncio.timeout(self._limits.reach_seconds):
                _, writer = await asyncio.open_connection(
                    self._url.host, self._url.port, ssl=context
                )
        except OSError:  # TimeoutError and ssl.SSLError, too
            return False
        writer.transport.abort()
        return True

    async def _send(self, request: Request, seconds: float) -> Reply | NoReply:
        response = None
        try:
            async with asyncio.timeout(seconds):
                response = await self._begin(request)
                if response.status < _FINAL:
                    return NoReply("unreadable", f"{self._host} does not answer in HTTP")
                most = request.max_bytes or self._limits.max_bytes
                packed = await self._read(response, most)
            await self._connector.note_reply(response.status, packed or b"")
            return self._finish(response, packed, most)
        except (aiohttp.ClientError, OSError, ValueError) as error:  # TimeoutError is an OSError
            return explain_error(error, self._host, seconds, has_begun=response is not None)
        finally:
            if response is not None:
                self._memory.release(response)
                response.close()  # one that was read to its end has given its connection back

    async def _begin(self, request: Request) -> aiohttp.ClientResponse:
        """Send a request; return the response as soon as its headers are there."""
        url = self._url
        headers = self._headers
        if request.url is not None:
            url = URL(request.url)
            headers = headers.copy()
            headers["Content-Type"] = request.content_type
        data: bytes | io.BytesIO | None = request.body
        if request.body is not None and len(request.body) > _STEP:
            data = io.BytesIO(request.body)  # a large body is written piece by piece
        return await self._session.request(
            request.method,
            url,
            data=data,
            headers=headers,
            allow_redirects=False,
            proxy=self._proxy,
        )

    def _finish(
        self, response: aiohttp.ClientResponse, packed: bytes | None, most: int
    ) -> Reply | NoReply:
        """Return the reply with its body unpacked; `packed` is None for one that is too large."""
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        try:
            body = None if packed is None else unpack(packed, encoding, most)
        except zlib.error:
            why = f"the reply of {self._host} cannot be unpacked ({encoding})"
            return NoReply("unreadable", why)
        except LookupError:
            why = f"{self._host} compresses its reply in a way that was not requested"
            return NoReply("unreadable", why)
        if body is None:
            return NoReply("too_large", f"the reply of {self._host} is larger than {most} bytes")
        return Reply(response.status, response.headers, body)

    async def _read(self, response: aiohttp.ClientResponse, most: int) -> bytes | None:
        """Return the body as it was sent, or None as soon as it is too large."""
        announced = response.content_length or 0
        if announced > most:
            return None
        if 0 < announced <= SMALL_BODY:
            return await response.read()
        parts: list[bytes] = []
        size = 0
        # In small pieces: the rest stays in aiohttp's buffer, and while that is full, nothing is
        # received.
        while part := await response.content.read(SMALL_BODY):
            size += len(part)
            if size > most:
                return None
            parts.append(part)
            await self._memory.reserve(response, size + SMALL_BODY)
        return b"".join(parts)


async def list_models(connection: Connection, client: HttpClient, *, seconds: float) -> list[str]:
    """Return the models that an endpoint lists and that `--model` can name."""
    url = f"{connection.url.removesuffix(connection.api.path)}/models"
    came = await client.send(Request(None, "GET", url, max_bytes=_STEP), seconds=seconds)
    if isinstance(came, NoReply) or came.status != _FINAL or has_too_many_parts(came.body):
        return []
    try:
        answer = json.loads(came.body)
    except (ValueError, RecursionError):
        return []
    names = []
    for entry in list_entries(get_field(answer, "data")):
        name = get_field(entry, "id")
        if isinstance(name, str) and re.fullmatch(r"[^?#\s]+", name) and name.isprintable():
            names.append(name)
    return names


#: Why there is no whole reply, in our words: a library's may hold addresses. The first fit counts.
_REASONS: tuple[tuple[type[Exception], NoReplyKind, str], ...] = (
    (aiohttp.ServerTimeoutError, "timeout", "{host} did not take the connection in time"),
    (TimeoutError, "timeout", "no whole reply from {host} within {seconds:g} s"),
    (EarlyReplyError, "unreadable", "{host} replied before the request was sent"),
    (MismatchedReplyError, "mismatched", "{host} sent more replies than there were requests"),
    (aiohttp.InvalidURL, "address", "the address is not valid"),
    (UnicodeError, "address", "the address is not valid"),
    (aiohttp.ClientResponseError, "unreadable", "{host} does not answer in HTTP"),
    (ValueError, "unreadable", "{host} does not answer in HTTP"),
)


def explain_error(
    error: Exception, host: str, seconds: float, *, has_begun: bool = False
) -> NoReply:
    """Return why there is no whole reply."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "it cannot be checked")
            return NoReply("certificate", f"the certificate of {host} is not valid: {reason}")
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            is_plain = re.search("WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE", str(error))
            why = f"{host} answers without TLS" if is_plain else f"no secure connection to {host}"
            return NoReply("certificate", why)
        case aiohttp.ClientHttpProxyError():
            why = f"the proxy does not connect to {host}: status {error.status}"
            return NoReply("connect", why)
        case aiohttp.ClientConnectorError():
            return _explain_no_connection(error, host)
        case aiohttp.ClientResponseError() if re.search("Got more than|many headers", str(error)):
            return NoReply("unreadable", f"{host} does not come to an end with its headers")
    for kind, reply_kind, text in _REASONS:
        if isinstance(error, kind):
            return NoReply(reply_kind, text.format(host=host, seconds=seconds))
    if has_begun:
        return NoReply("reset", f"{host} broke off in the middle of its reply")
    return NoReply("reset", f"{host} closed the connection without a reply")


def _explain_no_connection(error: aiohttp.ClientConnectorError, host: str) -> NoReply:
    is_proxy = isinstance(error, aiohttp.ClientProxyConnectionError)
    if isinstance(error.os_error, socket.gaierror):
        return NoReply("connect", f"the host {'of the proxy' if is_proxy else host} is not known")
    cause = "" if error.errno is None else f": {os.strerror(error.errno)}"
    return NoReply("connect", f"cannot connect to {'the proxy' if is_proxy else host}{cause}")


def unpack(packed: bytes, encoding: str, most: int) -> bytes | None:
    """Return an unpacked body, or None as soon as it is larger than `most`; at most that much is
    held.

    Raises zlib.error for damaged bodies and LookupError for encodings that were not asked for.
    """
    if encoding in {"identity", ""}:
        return packed
    if encoding in {"gzip", "x-gzip"}:
        return _inflate(packed, most, window=31)
    if encoding != "deflate":
        raise LookupError(encoding)
    try:
        return _inflate(packed, most, window=15)
    except zlib.error:  # some servers send it without the zlib header
        return _inflate(packed, most, window=-15)


def _inflate(packed: bytes, most: int, *, window: int) -> bytes | None:
    body = bytearray()
    while packed:
        unpacker = zlib.decompressobj(window)
        while not unpacker.eof:
            # Step by step: zlib holds what it unpacks in one go twice.
            part = unpacker.decompress(packed, min(_STEP, most - len(body) + 1))
            if not part and not unpacker.eof:
                raise zlib.error("cut off")
            body += part
            if len(body) > most:
                return None
            packed = unpacker.unconsumed_tail
        packed = unpacker.unused_data.lstrip(b"\0")
    return bytes(body)
