"""One request's way through the test server: counted, let in or refused, answered or spoiled."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import BodyPartReader, web

from answerkey.testing.asked import KEY_HEADERS, Asked, Request
from answerkey.testing.batches import BatchDesk
from answerkey.testing.behaviour import Behaviour
from answerkey.testing.faults import Occasion, commit_fault, refuse
from answerkey.testing.replies import Answers, NoAnswerError, Reply, find_reply, read_prompt
from answerkey.testing.styles import CHAT, Style, encode_reply, find_style

#: Where the counts are read over HTTP; such a request is not counted itself.
COUNTS_PATH = "/asked"


@dataclass
class Handling:
    """Answers requests; lives on the server's event loop."""

    answers: Answers
    behaviour: Behaviour
    asked: Asked
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    _recent: deque[float] = field(default_factory=deque)
    _batches: BatchDesk = field(init=False)

    def __post_init__(self) -> None:
        self._batches = BatchDesk(self._serve_line)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, whatever it is."""
        if request.path == COUNTS_PATH:
            return web.json_response(self.asked.as_json())
        is_upload = request.content_type == "multipart/form-data"
        raw = b"" if is_upload else await request.content.read()
        body = _parse(raw)
        asked = self.asked  # a request that `forget` overtakes is closed where it was counted
        self._count(request, raw, body)
        status, is_answer = 0, False
        try:
            stream, is_answer = await self._answer(request, body)
            status = (
                stream.status if request.transport is not None and not request.transport.is_closing() else 0
            )
            return stream
        finally:
            asked.close(status, is_answer=is_answer)

    def _count(self, request: web.BaseRequest, raw: bytes, body: Mapping[str, Any] | None) -> None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        seen = Request(request.method, request.path, headers, body)
        self.asked.add(seen, request.transport and request.transport.get_extra_info("peername"))
        canary = self.behaviour.canary
        if canary is None:
            return
        places = {f"header {name}": value for name, value in headers.items()}
        places |= {"path": request.path_qs, "body": raw.decode(errors="replace")}
        for place, text in places.items():
            if canary in text:
                self.asked.add_canary(place)

    async def _answer(
        self, request: web.BaseRequest, body: Mapping[str, Any] | None
    ) -> tuple[web.StreamResponse, bool]:
        """Return what to send, and whether it is the answer that was asked for."""
        style = find_style(request.path) if request.method == "POST" else None
        refusal = self._refuse(request, style or CHAT)
        if refusal is not None:
            return refusal, False
        if style is None:
            return await self._keep_files(request, body), False
        if body is None:
            return refuse(style, 400, "the body is not a JSON object"), False
        unknown = [name for name in self.behaviour.unknown_fields if name in body]
        if unknown:
            return refuse(style, 400, f"unknown field {unknown[0]!r}"), False
        return await self._ask(request, style, body)

    def _refuse(self, request: web.BaseRequest, style: Style) -> web.Response | None:
        behaviour = self.behaviour
        if behaviour.api_key is not None and not _brings_key(request, behaviour.api_key):
            return refuse(style, 401, "Incorrect API key provided")
        if behaviour.max_concurrent is not None and self.asked.at_once > behaviour.max_concurrent:
            return refuse(style, 429, "too many requests at once")
        wait = self._measure_wait()
        if wait > 0:
            return refuse(style, 429, "rate limit", headers={"Retry-After": str(math.ceil(wait))})
        return None

    def _measure_wait(self) -> float:
        """Return for how many seconds no further request is allowed; count this one if it is."""
        limit, minute = self.behaviour.requests_per_minute, self.behaviour.minute_seconds
        if limit is None:
            return 0.0
        now = time.monotonic()
        while self._recent and self._recent[0] <= now - minute:
            self._recent.popleft()
        if len(self._recent) >= limit:
            return self._recent[0] + minute - now
        self._recent.append(now)
        return 0.0

    async def _ask(
        self, request: web.BaseRequest, style: Style, body: Mapping[str, Any]
    ) -> tuple[web.StreamResponse, bool]:
        messages = style.read(body)
        self.asked.add_prompt(read_prompt(messages))
        digest = _digest(request.path, body)
        attempt = self.asked.add_attempt(digest)
        try:
            reply = find_reply(self.answers, messages)
        except NoAnswerError as error:
            return refuse(style, 400, str(error)), False
        await self._pause(self.behaviour.choose_delay(digest) + reply.delay)
        content, kind = encode_reply(style, body, reply)
        fault = self.behaviour.choose_fault(digest, attempt)
        if fault is None:
            return _send(reply, content, kind), True
        self.asked.add_fault(fault)
        occasion = Occasion(request, self.behaviour, style, content, self.is_over)
        return await commit_fault(fault, occasion), False

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            await asyncio.sleep(seconds)

    def _serve_line(self, path: str, body: Mapping[str, Any]) -> tuple[int, object]:
        """Return status and body for one line of a batch; of the faults only statuses can happen to it."""
        style = find_style(path) or CHAT
        messages = style.read(body)
        self.asked.add_prompt(read_prompt(messages))
        digest = _digest(path, body)
        fault = self.behaviour.choose_fault(digest, self.asked.add_attempt(digest))
        if fault is not None and fault.isdecimal():
            self.asked.add_fault(fault)
            return int(fault), style.write_error("trouble", "server_error")
        try:
            return 200, style.write(body, find_reply(self.answers, messages))
        except NoAnswerError as error:
            return 400, style.write_error(str(error), "bad_request")

    async def _keep_files(self, request: web.BaseRequest, body: Mapping[str, Any] | None) -> web.Response:
        """Answer what belongs to files, batches and the list of models; 404 for anything else."""
        desk = self._batches
        parts = [part for part in request.path.split("/") if part][-3:]
        if request.method == "POST" and parts[-1:] == ["files"]:
            return web.json_response(desk.add_file(await _read_upload(request)))
        content = desk.find_content(parts)
        if content is not None:
            return web.Response(body=content, content_type="application/octet-stream")
        shown = desk.show(request.method, parts, body or {}, self.behaviour)
        if shown is not None:
            return web.json_response(shown)
        return refuse(CHAT, 404, f"there is nothing at {request.path}")


def _parse(raw: bytes) -> Mapping[str, Any] | None:
    try:
        body = json.loads(raw) if raw else None
    except ValueError:
        return None
    return body if isinstance(body, Mapping) else None


def _digest(path: str, body: Mapping[str, Any]) -> str:
    text = json.dumps([path, body], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _brings_key(request: web.BaseRequest, key: str) -> bool:
    given = [request.headers.get(name, "").removeprefix("Bearer ") for name in KEY_HEADERS]
    return key in given or request.query.get("key") == key


def _send(reply: Reply, content: bytes, kind: str) -> web.Response:
    return web.Response(status=reply.status, body=content, content_type=kind, headers=dict(reply.headers))


async def _read_upload(request: web.BaseRequest) -> bytes:
    if request.content_type != "multipart/form-data":
        return b""
    reader = await request.multipart()
    async for part in reader:
        if isinstance(part, BodyPartReader) and part.name == "file":
            return bytes(await part.read())
    return b""
