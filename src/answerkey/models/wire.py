"""HTTP/1.1 on the wire: connections that are kept, one request at a time on each.

    Wire ──► a resting Channel, or a new one ──► Reply
                                          └────► Trouble

A general HTTP library costs several times the processor time per request, most of it for what an endpoint of
models never needs: cookies, redirects, forms. The parser is llhttp's; TLS is the standard library's.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote, urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from answerkey.models.retrying import Reply, Trouble
from answerkey.models.room import Room

KEEP_ALIVE_SECONDS = 15.0
#: The most bytes of a status line with all headers.
LARGEST_HEAD = 65_536
#: Chunks have a frame each; a body in frames may be so many times as long as what is in them.
LARGEST_FRAMING = 8
#: How long the next address of a host waits for the one before it.
NEXT_ADDRESS_SECONDS = 0.25
_PORTS = {"http": 80, "https": 443}
#: Characters of an address that are sent as they are.
_SAFE = "/%:@!$&'()*+,;=-._~[]?"
_FINAL = 200


@dataclass(frozen=True)
class Address:
    """Where a request goes."""

    host: str
    port: int
    is_secure: bool
    path: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """Return the parts of an address; ValueError when it is none."""
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError("no address of a web server")
        host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
        path = quote(parts.path or "/", safe=_SAFE)
        query = f"?{quote(parts.query, safe=_SAFE)}" if parts.query else ""
        return cls(host, parts.port or _PORTS[parts.scheme], parts.scheme == "https", path + query)

    @property
    def name(self) -> str:
        """Host and port as the `Host` header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS["https" if self.is_secure else "http"] else f"{host}:{self.port}"


class Channel(asyncio.Protocol):
    """One connection. `is_resting` says that it waits for its next request.

    The methods whose names begin with `on_` are called by the parser.
    """

    def __init__(self, host: str, room: Room) -> None:
        self.is_resting = True
        self.rests_since = 0.0
        self._host = host
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport  # from the beginning on: nobody has the channel before
        self._awaited: asyncio.Future[Reply | Trouble] | None = None
        self._prepare(0)

    def _prepare(self, most: int) -> None:
        self._parser = HttpResponseParser(self)
        self._most = most
        self._received = self._size = self._status = 0
        self._is_closed_by_end = False
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self._transport = cast("asyncio.Transport", transport)

    def ask(self, request: bytes, most: int) -> asyncio.Future[Reply | Trouble]:
        """Send a request; the reply's body may have so many bytes, as sent."""
        self._prepare(most)
        self.is_resting = False
        self._awaited = self._loop.create_future()
        self._transport.write(request)
        return self._awaited

    def forget(self) -> None:
        """Let go of the last reply, which a connection that rests has no use for."""
        self._awaited = None

    def give_up(self, trouble: Trouble | None = None) -> None:
        """Close the connection at once; who waits for a reply gets the trouble."""
        self.is_resting = False
        self._transport.abort()
        if trouble is not None:
            self._settle(trouble)

    def pause(self) -> None:
        """Read nothing more for now: other large bodies go first."""
        self._transport.pause_reading()

    def go_on(self) -> None:
        """Read again."""
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Read on; bytes that nobody asked for end the connection."""
        if self._is_answered:
            self.give_up()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.give_up(Trouble("unreadable", f"{self._host} does not answer in HTTP"))
        if self._received > LARGEST_HEAD + LARGEST_FRAMING * (self._most if self._status else 0):
            self.give_up(Trouble("unreadable", f"{self._host} does not come to an end with its headers"))

    def on_message_begin(self) -> None:
        """Begin a reply; a second one to the same request ends the connection."""
        if self._is_answered:
            self.give_up()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; the last of several with one name counts."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Look how the body is going to end, and whether it is announced as too large."""
        self._status = self._parser.get_status_code()
        announced = self._headers.get("content-length")
        self._is_closed_by_end = announced is None and "transfer-encoding" not in self._headers
        if announced is not None and announced.isdecimal() and int(announced) > self._most:
            self._refuse_size()

    def on_body(self, part: bytes) -> None:
        """Take a part of the body, unless it is too much."""
        self._size += len(part)
        if self._size > self._most:
            self._refuse_size()
        else:
            self._parts.append(part)
            self._room.grow(self, self._size)

    def on_message_complete(self) -> None:
        """Hand over the reply; a preliminary one (1xx) is followed by another."""
        if self._is_answered:
            return
        if self._status < _FINAL:
            self._headers, self._parts, self._status = {}, [], 0
            return
        self.is_resting = self._parser.should_keep_alive() and not self._is_closed_by_end
        self._conclude()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the end of the connection as the end of the body, where that is how it ends."""
        self.is_resting = False
        if self._is_answered:
            return
        if exc is None and self._status >= _FINAL and self._is_closed_by_end:
            self._conclude()
        elif self._status:
            self._settle(Trouble("reset", f"{self._host} broke off in the middle of its reply"))
        else:
            self._settle(Trouble("reset", f"{self._host} closed the connection without a reply"))

    @property
    def _is_answered(self) -> bool:
        return self._awaited is None or self._awaited.done()

    def _refuse_size(self) -> None:
        self.give_up(Trouble("too_large", f"the reply of {self._host} is larger than {self._most} bytes"))

    def _conclude(self) -> None:
        self._settle(Reply(self._status, self._headers, b"".join(self._parts)))

    def _settle(self, came: Reply | Trouble) -> None:
        self._parts, self._headers = [], {}  # what still comes belongs to no reply
        if self._awaited is not None and not self._awaited.done():  # who waited may have been cancelled
            self._awaited.set_result(came)


@dataclass
class Wire:
    """The connections to endpoints; used inside one event loop. `context` is for those over TLS."""

    context: ssl.SSLContext | None
    connect_seconds: float
    _resting: dict[tuple[str, int, bool], list[Channel]] = field(default_factory=dict, init=False)
    _room: Room = field(default_factory=Room, init=False)

    async def exchange(
        self, address: Address, request: bytes, most: int, *, seconds: float
    ) -> Reply | Trouble:
        """Return what comes back within so many seconds, however slowly it drips."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        host = f"`{address.host}`"
        channel = self._find_resting(address, loop.time()) or await self._connect(address, host, seconds)
        if isinstance(channel, Trouble):
            return channel
        late = _be_late(host, seconds)
        timer = loop.call_at(ends_at, channel.give_up, late)
        try:
            return await channel.ask(request, most)
        finally:
            timer.cancel()
            self._room.leave(channel)  # not before: until now the whole body has waited to be read
            channel.forget()
            self._keep(address, channel, loop.time())

    async def close(self) -> None:
        """Close all connections that wait for a request."""
        for channels in self._resting.values():
            for channel in channels:
                channel.give_up()
        self._resting.clear()
        await asyncio.sleep(0)  # the event loop closes them when it is its turn

    def _find_resting(self, address: Address, now: float) -> Channel | None:
        """Return the connection that was used last, if it still stands."""
        channels = self._resting.get((address.host, address.port, address.is_secure), [])
        while channels:
            channel = channels.pop()
            if channel.is_resting and now - channel.rests_since < KEEP_ALIVE_SECONDS:
                return channel
            channel.give_up()
        return None

    def _keep(self, address: Address, channel: Channel, now: float) -> None:
        if not channel.is_resting:
            channel.give_up()
            return
        channel.rests_since = now
        self._resting.setdefault((address.host, address.port, address.is_secure), []).append(channel)

    async def _connect(self, address: Address, host: str, seconds: float) -> Channel | Trouble:
        loop = asyncio.get_running_loop()
        # Other loops than the standard library's try one address of a host after the other.
        is_own = isinstance(loop, asyncio.BaseEventLoop)
        delay: dict[str, Any] = {"happy_eyeballs_delay": NEXT_ADDRESS_SECONDS} if is_own else {}
        context = self.context if address.is_secure else None
        try:
            async with asyncio.timeout(min(self.connect_seconds, seconds)):
                _, channel = await loop.create_connection(
                    lambda: Channel(host, self._room), address.host, address.port, ssl=context, **delay
                )
        except (OSError, UnicodeError) as error:
            if isinstance(error, TimeoutError) and seconds < self.connect_seconds:
                return _be_late(host, seconds)
            return explain_connecting(error, host)
        return channel


def _be_late(host: str, seconds: float) -> Trouble:
    return Trouble("timeout", f"no whole reply from {host} within {seconds:g} s")


def explain_connecting(error: OSError | UnicodeError, host: str) -> Trouble:
    """Return why there is no connection, in the words of the system; a library's may hold addresses."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = getattr(error, "verify_message", "it cannot be checked")
        return Trouble("certificate", f"the certificate of {host} is not valid: {why}")
    if isinstance(error, ssl.SSLError):
        return Trouble("certificate", f"no secure connection to {host}")
    if isinstance(error, TimeoutError):
        return Trouble("timeout", f"{host} did not take the connection in time")
    if isinstance(error, socket.gaierror):
        return Trouble("connect", f"the host {host} is not known")
    if isinstance(error, UnicodeError):
        return Trouble("address", "the address is not valid")
    cause = "" if error.errno is None else f": {os.strerror(error.errno)}"
    return Trouble("connect", f"cannot connect to {host}{cause}")
