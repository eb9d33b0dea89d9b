"""The test server: an OpenAI-compatible endpoint on this machine, in its own thread.

A request is counted, admitted or refused, then answered, or given a fault.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import socket
import struct
import time
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http import HTTPStatus
from threading import Event, Thread
from typing import Any, ClassVar, Self

from aiohttp import web
from aiohttp.web import BaseRequest, Response, StreamResponse

from answerkey.testing.apis import JSON, RAW, Style, encode, encode_reply, find_style, write_error
from answerkey.testing.replies import (
    KEY_HEADERS,
    Answers,
    Asked,
    Behaviour,
    Messages,
    NoAnswerError,
    Request,
    find_reply,
    read_prompt,
)

Body = Mapping[str, Any]


def refuse(
    status: int,
    message: str = "",
    *,
    headers: dict[str, str] | None = None,
) -> Response:
    """Return an error; the default message is the phrase of its status."""
    kind = "server_error"
    phrase = "error"
    with suppress(ValueError):
        kind = HTTPStatus(status).name.lower()
        phrase = HTTPStatus(status).phrase
    error = encode(write_error(message or phrase, kind))
    return Response(
        status=status,
        body=error,
        content_type=JSON,
        headers=headers,
    )


def break_connection(request: BaseRequest, *, is_reset: bool = True) -> Response:
    """Close the connection in the middle of a reply; after a reset, even the part sent may not
    arrive.
    """
    transport = request.transport
    if transport is not None and is_reset:
        connection = transport.get_extra_info("socket")
        at_once = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        transport.abort()
    elif transport is not None:
        transport.close()
    return Response()


@dataclass
class RequestHandler:
    """Answers requests; lives on the server's event loop."""

    answers: Answers
    behaviour: Behaviour
    asked: Asked
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    attempts: Counter[str] = field(default_factory=Counter)
    _recent: deque[float] = field(default_factory=deque)

    async def handle(self, request: BaseRequest) -> StreamResponse:
        """Answer one request, whatever it is."""
        raw = b""
        if request.content_type != "multipart/form-data":
            raw = await request.content.read()
        body = _parse(raw)
        counts = self.asked  # a request open during `forget` is closed in the old counts
        headers = {}
        for name, value in request.headers.items():
            headers[name.lower()] = value
        peer = request.transport and request.transport.get_extra_info("peername")
        seen = Request(request.method, request.path_qs, headers, body)
        counts.add(seen, peer)
        status = 0
        is_answer = False
        try:
            stream, is_answer = await self._answer(request, body)
            transport = request.transport
            if transport is not None and not transport.is_closing():
                status = stream.status
            return stream
        finally:
            counts.close(status, is_answer=is_answer)

    async def _answer(
        self,
        request: BaseRequest,
        body: Body | None,
    ) -> tuple[StreamResponse, bool]:
        """Return the response, and whether it answers the prompt."""
        style = None
        if request.method == "POST":
            style = find_style(request.path)
        refusal = self._refuse(request)
        if refusal is not None:
            return refusal, False
        if style is None:
            return await self.answer_other(request, body), False
        if body is None:
            return refuse(400, "the body is not a JSON object"), False
        for name in self.behaviour.unknown_fields:
            if name in body:
                return refuse(400, f"unknown field {name!r}"), False
        digest, attempt, messages = self.count_prompt(request.path, style, body)
        try:
            reply = find_reply(self.answers, messages)
        except NoAnswerError as error:
            return refuse(400, str(error)), False
        delay = self.behaviour.choose_delay(digest) + reply.delay
        if delay > 0:
            await asyncio.sleep(delay)
        content, kind = encode_reply(style, body, reply)
        fault = self.behaviour.choose_fault(digest, attempt)
        if fault is not None:
            self.asked.count(self.asked.faults, fault)
            return await self._respond_with_fault(fault, request, content), False
        response = Response(
            status=reply.status,
            body=content,
            content_type=kind,
            headers=dict(reply.headers),
        )
        return response, True

    def _refuse(self, request: BaseRequest) -> Response | None:
        behaviour = self.behaviour
        keys = []
        for name in KEY_HEADERS:
            key = request.headers.get(name, "")
            keys.append(key.removeprefix("Bearer "))
        if behaviour.api_key is not None and behaviour.api_key not in keys:
            return refuse(401, "Incorrect API key provided")
        most = behaviour.max_concurrent
        if most is not None and self.asked.at_once > most:
            return refuse(429, "too many requests at once")
        if behaviour.requests_per_minute is None:
            return None
        now = time.monotonic()
        start = now - behaviour.minute_seconds
        while self._recent and self._recent[0] <= start:
            self._recent.popleft()
        if len(self._recent) >= behaviour.requests_per_minute:
            wait = math.ceil(self._recent[0] - start)
            headers = {"Retry-After": str(wait)}
            return refuse(429, "rate limit", headers=headers)
        self._recent.append(now)
        return None

    async def _respond_with_fault(
        self,
        fault: str,
        request: BaseRequest,
        body: bytes,
    ) -> StreamResponse:
        """Respond to a request with a fault."""
        if fault in RAW:
            content, kind = RAW[fault]
            return Response(body=content, content_type=kind)
        if fault == "hang":
            with suppress(TimeoutError):
                await asyncio.wait_for(self.is_over.wait(), self.behaviour.hang_seconds)
        if fault in {"reset", "hang"}:
            return break_connection(request)
        if fault in {"cut", "endless"}:
            return await self._stream_fault(fault, request, body)
        status = int(fault[:3])
        headers = {}
        if status < HTTPStatus.BAD_REQUEST:
            headers["Location"] = self.behaviour.redirect_to
        if fault.endswith("_seconds"):
            headers["Retry-After"] = f"{self.behaviour.retry_after:g}"
        if fault.endswith("_date"):
            pause = timedelta(seconds=self.behaviour.retry_after)
            moment = datetime.now(UTC) + pause
            headers["Retry-After"] = format_datetime(moment, usegmt=True)
        return refuse(status, headers=headers)

    async def _stream_fault(
        self,
        fault: str,
        request: BaseRequest,
        body: bytes,
    ) -> StreamResponse:
        """Send a body that is cut off, or never ends."""
        stream = StreamResponse(headers={"Content-Type": JSON})
        if fault != "endless":
            stream.content_length = len(body)
        await stream.prepare(request)
        if fault == "cut":
            half = len(body) // 2
            await stream.write(body[:half])
            break_connection(request, is_reset=False)
            return stream
        await stream.write(b'{"choices": [{"message": {"role": "assistant", "content": "')
        while not self.is_over.is_set():
            await stream.write(b"A" * (1 << 16))
            await asyncio.sleep(0)
        return break_connection(request)

    def count_prompt(
        self,
        path: str,
        style: Style,
        body: Body,
    ) -> tuple[str, int, Messages]:
        """Count a prompt; return a digest of its content, how often that was sent before, and
        its messages.
        """
        messages = style.read(body)
        prompt = read_prompt(messages)
        self.asked.count(self.asked.by_prompt, prompt)
        content = json.dumps([path, body], sort_keys=True)
        digest = hashlib.sha256(content.encode()).hexdigest()
        self.attempts[digest] += 1
        return digest, self.attempts[digest] - 1, messages

    async def answer_other(
        self,
        request: BaseRequest,
        body: Body | None,
    ) -> Response:
        """Answer requests other than prompts: the list of models; 404 for anything else."""
        del body
        if request.path.endswith("/models"):
            models = [{"id": "test"}]
            return web.json_response({"object": "list", "data": models})
        return refuse(404, f"there is nothing at {request.path}")


def _parse(raw: bytes) -> Body | None:
    try:
        body = json.loads(raw)
    except ValueError:
        return None
    if isinstance(body, Mapping):
        return body
    return None


HOST = "127.0.0.1"
_BACKLOG = 4096
_GRACE = 0.05
#: The turns of the event loop after which all work on open connections is done.
_TURNS = 40


class TestServer:
    """A model server for tests: it replies and fails as configured, and counts requests.

    Use it in a `with` statement, or call `start` and `stop`. It speaks the chat and the plain
    completions of OpenAI, and the native APIs of Anthropic and Gemini, under any path prefix.
    """

    __test__: ClassVar[bool] = False  # otherwise pytest would collect it as a test class
    handler_class: ClassVar = RequestHandler
    behaviour_class: ClassVar = Behaviour

    def __init__(
        self,
        answers: Answers = "A",
        behaviour: Behaviour | None = None,
        *,
        port: int = 0,
    ) -> None:
        behaviour = behaviour or self.behaviour_class()
        self._handler = self.handler_class(answers, behaviour, Asked())
        #: Chosen by the system unless given.
        self.port = port
        self._is_ready = Event()
        self._error: OSError | None = None
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def root(self) -> str:
        """The address without a path: the base URL of the APIs of Anthropic and Gemini."""
        return f"http://{HOST}:{self.port}"

    @property
    def url(self) -> str:
        """The base URL of the OpenAI API, as in `--model URL#name`."""
        return f"{self.root}/v1"

    @property
    def asked(self) -> Asked:
        """The requests since the server started, or since `forget`."""
        return self._handler.asked

    def start(self) -> Self:
        """Start serving.

        Return when the server accepts requests. Raise OSError if the port is not free.
        """
        self._thread = Thread(
            target=self._run,
            name="answerkey test server",
            daemon=True,
        )
        self._thread.start()
        self._is_ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error
        return self

    def stop(self) -> None:
        """Close all connections and stop; open requests are cut off. Stopping twice is harmless."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._handler.is_over.set)
        if self._thread is not None:
            self._thread.join()

    def change(self, answers: Answers | None = None, **behaviour: object) -> None:
        """Change the replies, or fields of the behaviour, from the next request on."""
        if answers is not None:
            self._handler.answers = answers
        self._handler.behaviour = replace(self._handler.behaviour, **behaviour)  # type: ignore[arg-type]  # its own fields

    def forget(self) -> None:
        """Reset all counts, including how often each content was sent."""
        self._handler.asked = Asked()
        self._handler.attempts = Counter()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            self._error = error
        finally:
            self._is_ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        handle = self._handler.handle
        server = web.Server(handle, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=_GRACE)
        address = (HOST, self.port)
        with socket.create_server(address, backlog=_BACKLOG) as listener:
            try:
                await runner.setup()
                site = web.SockSite(runner, listener, backlog=_BACKLOG)
                await site.start()
                self.port = listener.getsockname()[1]
                self._is_ready.set()
                await self._handler.is_over.wait()
                # Stop accepting connections and break the open ones, without waiting for unread
                # data.
                self._loop.remove_reader(listener)
                for _ in range(_TURNS):  # a connection just accepted is not registered yet
                    for connection in server.connections:
                        if connection.transport is not None:
                            connection.transport.abort()
                    await asyncio.sleep(0)
            finally:
                await runner.cleanup()
