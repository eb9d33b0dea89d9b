"""How the test server does each fault."""

from __future__ import annotations

import asyncio
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cache
from http import HTTPStatus

from aiohttp import web

from answerkey.testing.behaviour import Behaviour
from answerkey.testing.styles import BAD_JSON, HTML, Style, encode

JSON = "application/json"
_BLOCK = 1 << 16
_REDIRECTS = range(300, 400)


@dataclass(frozen=True)
class Occasion:
    """A request that meets a fault; `body` is what it would have got."""

    request: web.BaseRequest
    behaviour: Behaviour
    style: Style
    body: bytes
    is_over: asyncio.Event


async def commit_fault(name: str, occasion: Occasion) -> web.StreamResponse:
    """Answer a request with a fault; one that breaks the connection has the status 0."""
    if name in _FAULTS:
        return await _FAULTS[name](occasion)
    return refuse(occasion.style, int(name), headers=_redirect(int(name), occasion.behaviour))


def refuse(
    style: Style, status: int, message: str | None = None, *, headers: dict[str, str] | None = None
) -> web.Response:
    """Return an error in the way of the API."""
    text = message or HTTPStatus(status).phrase if status in _KNOWN else "trouble"
    kind = HTTPStatus(status).name.lower() if status in _KNOWN else "server_error"
    return web.Response(
        status=status, body=encode(style.write_error(text, kind)), content_type=JSON, headers=headers
    )


_KNOWN = frozenset(one.value for one in HTTPStatus)


def _redirect(status: int, behaviour: Behaviour) -> dict[str, str] | None:
    return {"Location": behaviour.redirect_to} if status in _REDIRECTS else None


def break_connection(request: web.BaseRequest, *, is_reset: bool) -> web.Response:
    """Close the connection under a reply; with a reset, what was sent may not arrive either."""
    transport = request.transport
    if transport is not None:
        if is_reset:
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort() if is_reset else transport.close()
    return web.Response(status=200)


async def _reset(occasion: Occasion) -> web.StreamResponse:
    return break_connection(occasion.request, is_reset=True)


async def _hang(occasion: Occasion) -> web.StreamResponse:
    await _wait(occasion, occasion.behaviour.hang_seconds)
    return break_connection(occasion.request, is_reset=True)


async def _wait(occasion: Occasion, seconds: float) -> bool:
    """Return whether the server is about to stop, after waiting as long at most."""
    try:
        await asyncio.wait_for(occasion.is_over.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def _cut(occasion: Occasion) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Type": JSON, "Content-Length": str(len(occasion.body))})
    await stream.prepare(occasion.request)
    await stream.write(occasion.body[: len(occasion.body) // 2])
    break_connection(occasion.request, is_reset=False)
    return stream


async def _drip(occasion: Occasion) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Type": JSON, "Content-Length": str(len(occasion.body))})
    await stream.prepare(occasion.request)
    for position in range(len(occasion.body)):
        await stream.write(occasion.body[position : position + 1])
        if await _wait(occasion, occasion.behaviour.drip_seconds):
            return break_connection(occasion.request, is_reset=True)
    return stream


async def _send_endless(occasion: Occasion) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Type": JSON})
    await stream.prepare(occasion.request)
    await stream.write(b'{"choices": [{"message": {"role": "assistant", "content": "')
    while not occasion.is_over.is_set():
        await stream.write(b"A" * _BLOCK)
        await asyncio.sleep(0)
    return break_connection(occasion.request, is_reset=True)


async def _send_bomb(occasion: Occasion) -> web.StreamResponse:
    packed = await asyncio.to_thread(_pack_bomb, occasion.behaviour.bomb_bytes)
    return web.Response(body=packed, content_type=JSON, headers={"Content-Encoding": "gzip"})


@cache
def _pack_bomb(size: int) -> bytes:
    """Return that many spaces, compressed: about a thousandth of it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = b" " * (1 << 20)
    packed = [packer.compress(block[: min(len(block), size - at)]) for at in range(0, size, len(block))]
    return b"".join([*packed, packer.flush()])


async def _ask_to_wait(occasion: Occasion, status: int) -> web.StreamResponse:
    seconds = f"{occasion.behaviour.retry_after:g}"
    return refuse(occasion.style, status, headers={"Retry-After": seconds})


async def _send_429_seconds(occasion: Occasion) -> web.StreamResponse:
    return await _ask_to_wait(occasion, 429)


async def _send_503_seconds(occasion: Occasion) -> web.StreamResponse:
    return await _ask_to_wait(occasion, 503)


async def _send_429_date(occasion: Occasion) -> web.StreamResponse:
    moment = datetime.now(UTC) + timedelta(seconds=occasion.behaviour.retry_after)
    return refuse(occasion.style, 429, headers={"Retry-After": format_datetime(moment, usegmt=True)})


async def _send_bad_json(_: Occasion) -> web.StreamResponse:
    return web.Response(body=BAD_JSON, content_type=JSON)


async def _send_html(_: Occasion) -> web.StreamResponse:
    return web.Response(body=HTML, content_type="text/html")


async def _send_nothing(_: Occasion) -> web.StreamResponse:
    return web.Response(body=b"", content_type=JSON)


_FAULTS: dict[str, Callable[[Occasion], Awaitable[web.StreamResponse]]] = {
    "429_seconds": _send_429_seconds,
    "429_date": _send_429_date,
    "503_seconds": _send_503_seconds,
    "reset": _reset,
    "cut": _cut,
    "hang": _hang,
    "drip": _drip,
    "endless": _send_endless,
    "gzip_bomb": _send_bomb,
    "bad_json": _send_bad_json,
    "html": _send_html,
    "empty": _send_nothing,
}
