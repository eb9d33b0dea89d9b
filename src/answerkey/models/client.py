"""One endpoint over HTTP: a body is posted, a reply or a trouble comes back, nothing is raised."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from answerkey._version import __version__
from answerkey.errors import SpecError
from answerkey.models.connections import Connection, Tls
from answerkey.models.limits import Limits
from answerkey.models.retrying import Reply, Trouble

if TYPE_CHECKING:
    from ssl import SSLContext

    from answerkey.models.wire import Address

#: How much of a body is unpacked in one go.
_STEP = 1 << 20
#: What would end a header before its end, or a request.
_FORBIDDEN = frozenset("\r\n\0")


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
    """The sender of one connection; made and used inside one event loop.

    Connections are kept and used again, certificates are checked, redirects are not followed, cookies are not
    kept, no proxy is used, and a body beyond `limits.max_bytes` is not read to its end.
    """

    def __init__(self, connection: Connection, limits: Limits) -> None:
        from answerkey.models.wire import Address, Wire

        self._limits = limits
        self._host = f"`{connection.host}`"
        self._wire = Wire(_trust(connection.name, connection.tls), limits.connect_seconds)
        self._parse = Address.parse
        self._url = connection.url
        self._headers = {
            "User-Agent": f"answerkey/{__version__}",
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate",
            **connection.reveal_headers(),
        }
        try:
            self._address = Address.parse(connection.url)
            self._head = self._write_head("POST", self._address, "application/json")
        except ValueError:
            self._head = b""

    async def post(self, body: bytes, *, seconds: float) -> Reply | Trouble:
        """Return what came back within so many seconds, however slowly it drips."""
        if not self._head:
            return Trouble("address", "the address or a header cannot be sent as it is")
        request = b"%b%d\r\n\r\n%b" % (self._head, len(body), body)
        most = self._limits.max_bytes
        return self._unpack(await self._wire.exchange(self._address, request, most, seconds=seconds), most)

    async def send(self, errand: Errand, *, seconds: float) -> Reply | Trouble:
        """Return what came back from another path within so many seconds."""
        try:
            address = self._parse(errand.url)
            head = self._write_head(errand.method, address, errand.content_type)
        except ValueError:
            return Trouble("address", "the address or a header cannot be sent as it is")
        body = errand.body or b""
        most = errand.max_bytes or self._limits.max_bytes
        request = b"%b%d\r\n\r\n%b" % (head, len(body), body)
        return self._unpack(await self._wire.exchange(address, request, most, seconds=seconds), most)

    async def close(self) -> None:
        """Close all connections."""
        await self._wire.close()

    def _write_head(self, method: str, address: Address, content_type: str) -> bytes:
        """Return a request up to the number of its length; ValueError for what cannot be sent."""
        headers = {"Host": address.name, "Content-Type": content_type, **self._headers}
        headers = {name: headers[name] for name in {name.lower(): name for name in headers}.values()}
        if any(_FORBIDDEN.intersection(f"{name}{value}") for name, value in headers.items()):
            raise ValueError("a header with a line break")
        lines = [
            f"{method} {address.path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        return ("\r\n".join(lines) + "\r\nContent-Length: ").encode("latin-1")

    def _unpack(self, came: Reply | Trouble, most: int) -> Reply | Trouble:
        if isinstance(came, Trouble) or not (encoding := came.headers.get("content-encoding")):
            return came
        encoding = encoding.strip().lower()
        if encoding == "identity":
            return came
        try:
            body = unpack(came.body, encoding, most)
        except zlib.error:
            return Trouble("unreadable", f"the reply of {self._host} cannot be unpacked ({encoding})")
        except LookupError:
            return Trouble("unreadable", f"{self._host} packs its reply in a way it was not asked for")
        if body is None:
            return Trouble("too_large", f"the reply of {self._host} is larger than {most} bytes")
        return Reply(came.status, came.headers, body)


def _trust(name: str, tls: Tls | None) -> SSLContext:
    import ssl

    try:
        context = ssl.create_default_context(cadata=None if tls is None else tls.trusted_ca)
    except (ssl.SSLError, ValueError):
        hint = "give the text of a PEM file, from `-----BEGIN CERTIFICATE-----` on"
        raise SpecError("E108", f"model `{name}`: `trusted_ca` holds no certificate", hint=hint) from None
    context.set_alpn_protocols(["http/1.1"])
    return context


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
        while not unpacker.eof:
            # Step by step: zlib holds what it unpacks in one go twice.
            part = unpacker.decompress(packed, min(_STEP, most - size + 1))
            if not part and not unpacker.eof:
                raise zlib.error("cut off")
            parts.append(part)
            size += len(part)
            if size > most:
                return None
            packed = unpacker.unconsumed_tail
        packed = unpacker.unused_data.lstrip(b"\0")
    return b"".join(parts)
