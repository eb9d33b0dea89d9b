"""The test server: an OpenAI-compatible endpoint on this machine, in a thread of its own.

A request is counted, let in or refused, then answered, or met with a fault.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import socket
import struct
import time
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cache
from http import HTTPStatus
from threading import Event, Thread
from typing import Any, ClassVar, Self

from aiohttp import BodyPartReader, web

from answerkey.models.builtin import Draws
from answerkey.testing.replies import (
    BAD_JSON,
    CHAT,
    HTML,
    KEY_HEADERS,
    Answers,
    Asked,
    Behaviour,
    NoAnswerError,
    Request,
    Style,
    encode,
    encode_reply,
    find_reply,
    find_style,
    read_prompt,
)

# ── files and batches of OpenAI-shaped APIs: upload, create, poll, fetch ────────────────────────────────────

#: What one line of a batch is answered with: its body goes in, status and body come out.
Serve = Callable[[str, Mapping[str, Any]], tuple[int, object]]
_CREATED, _GOOD = 1_700_000_000, 200


@dataclass
class Batch:
    """One batch and how often it was polled."""

    key: str
    input_file: str
    endpoint: str
    metadata: object
    status: str = "validating"
    polls: int = 0
    output_file: str | None = None
    error_file: str | None = None
    total: int = 0
    completed: int = 0
    failed: int = 0

    def as_json(self) -> dict[str, object]:
        """Return the batch as the API shows it."""
        return {
            "id": self.key,
            "object": "batch",
            "endpoint": self.endpoint,
            "input_file_id": self.input_file,
            "completion_window": "24h",
            "status": self.status,
            "output_file_id": self.output_file,
            "error_file_id": self.error_file,
            "created_at": _CREATED,
            "request_counts": {"total": self.total, "completed": self.completed, "failed": self.failed},
            "metadata": self.metadata,
        }


@dataclass
class BatchStore:
    """Keeps files and batches; a batch is done after `Behaviour.batch_polls` polls, lines in any order."""

    serve: Serve
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, Batch] = field(default_factory=dict)

    def add_file(self, content: bytes) -> dict[str, object]:
        """Return the new file as the API shows it."""
        key = f"file-{len(self.files) + 1}"
        self.files[key] = content
        return self.show_file(key)

    def show_file(self, key: str) -> dict[str, object]:
        """Return a file as the API shows it."""
        return {
            "id": key,
            "object": "file",
            "bytes": len(self.files[key]),
            "created_at": _CREATED,
            "filename": f"{key}.jsonl",
            "purpose": "batch",
        }

    def find_content(self, parts: list[str]) -> bytes | None:
        """Return the bytes of a file when the last parts of a path ask for them."""
        match parts:
            case ["files", key, "content"]:
                return self.files.get(key)
        return None

    def show(
        self, method: str, parts: list[str], body: Mapping[str, Any], behaviour: Behaviour
    ) -> dict[str, object] | None:
        """Return what the last parts of a path ask for; None when that is nothing of ours."""
        shown: dict[str, object] | None = None
        match parts:
            case [*_, "files", key] if key in self.files:
                shown = self.show_file(key)
            case [*_, "batches"] if method == "POST":
                shown = self.create(body)
            case [*_, "batches"]:
                batches = [batch.as_json() for batch in self.batches.values()]
                shown = {"object": "list", "data": batches, "has_more": False}
            case [*_, "batches", key] if key in self.batches:
                shown = self.poll(key, behaviour)
            case ["batches", key, "cancel"] if key in self.batches:
                shown = self.cancel(key)
            case [*_, "models"]:
                shown = {"object": "list", "data": [{"id": "test", "object": "model"}]}
        return shown

    def create(self, body: Mapping[str, Any]) -> dict[str, object] | None:
        """Return a new batch as the API shows it; None when its input file is not there."""
        if body.get("input_file_id") not in self.files:
            return None
        key = f"batch_{len(self.batches) + 1}"
        batch = Batch(key, body["input_file_id"], str(body.get("endpoint")), body.get("metadata"))
        self.batches[key] = batch
        return batch.as_json()

    def poll(self, key: str, behaviour: Behaviour) -> dict[str, object]:
        """Return a batch as the API shows it, one step further."""
        batch = self.batches[key]
        if batch.status in {"validating", "in_progress"}:
            batch.polls += 1
            batch.status = "in_progress"
            if batch.polls >= behaviour.batch_polls:
                self._finish(batch, behaviour)
        return batch.as_json()

    def cancel(self, key: str) -> dict[str, object]:
        """Return a batch as the API shows it, cancelled unless it is over."""
        batch = self.batches[key]
        if batch.status in {"validating", "in_progress"}:
            batch.status = "cancelled"
        return batch.as_json()

    def _finish(self, batch: Batch, behaviour: Behaviour) -> None:
        batch.status = behaviour.batch_outcome
        lines = [json.loads(line) for line in self.files[batch.input_file].splitlines() if line.strip()]
        batch.total = len(lines)
        if batch.status == "failed":
            return
        # A batch that expires or is cancelled has served about half of its lines.
        is_whole = batch.status == "completed"
        served, left = (lines, []) if is_whole else (lines[::2], lines[1::2])
        done = [self._answer_line(line) for line in served]
        done.sort(key=lambda one: Draws(behaviour.seed, str(one["custom_id"])).rank("batch order"))
        good = [one for one in done if one["error"] is None and one["response"]["status_code"] == _GOOD]
        bad = [one for one in done if one not in good] + [_drop_line(line, batch.status) for line in left]
        batch.completed, batch.failed = len(good), len(bad)
        batch.output_file = self._write(good)
        batch.error_file = self._write(bad)

    def _answer_line(self, line: Mapping[str, Any]) -> dict[str, Any]:
        status, body = self.serve(str(line.get("url")), line.get("body") or {})
        key = line["custom_id"]
        answer = {"status_code": status, "request_id": f"req-{key}", "body": body}
        return {"id": f"batch_req_{key}", "custom_id": key, "response": answer, "error": None}

    def _write(self, lines: list[dict[str, Any]]) -> str | None:
        if not lines:
            return None
        return str(self.add_file(b"".join(encode(line) + b"\n" for line in lines))["id"])


def _drop_line(line: Mapping[str, Any], status: str) -> dict[str, Any]:
    error, key = {"code": f"batch_{status}", "message": "this request was not served"}, line["custom_id"]
    return {"id": f"batch_req_{key}", "custom_id": key, "response": None, "error": error}


# ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────

JSON = "application/json"
_BLOCK = 1 << 16
_REDIRECTS = range(300, 400)
_KNOWN_STATUSES = frozenset(one.value for one in HTTPStatus)
#: Faults that are a body of status 200.
_BODIES = {"bad_json": (BAD_JSON, JSON), "html": (HTML, "text/html"), "empty": (b"", JSON)}


@dataclass(frozen=True)
class FaultyRequest:
    """A request that meets a fault; `body` is what it would have got."""

    request: web.BaseRequest
    behaviour: Behaviour
    style: Style
    body: bytes
    is_over: asyncio.Event


async def answer_with_fault(name: str, faulty: FaultyRequest) -> web.StreamResponse:
    """Answer a request with a fault; one that breaks the connection has the status 0."""
    if name in _FAULTS:
        return await _FAULTS[name](faulty)
    if name in _BODIES:
        content, kind = _BODIES[name]
        return web.Response(body=content, content_type=kind)
    status, headers = int(name.partition("_")[0]), {}
    if name.endswith("_seconds"):
        headers["Retry-After"] = f"{faulty.behaviour.retry_after:g}"
    elif name.endswith("_date"):
        moment = datetime.now(UTC) + timedelta(seconds=faulty.behaviour.retry_after)
        headers["Retry-After"] = format_datetime(moment, usegmt=True)
    elif status in _REDIRECTS:
        headers["Location"] = faulty.behaviour.redirect_to
    return refuse(faulty.style, status, headers=headers)


def refuse(
    style: Style, status: int, message: str | None = None, *, headers: dict[str, str] | None = None
) -> web.Response:
    """Return an error in the way of the API."""
    text = message or HTTPStatus(status).phrase if status in _KNOWN_STATUSES else "trouble"
    kind = HTTPStatus(status).name.lower() if status in _KNOWN_STATUSES else "server_error"
    return web.Response(
        status=status, body=encode(style.write_error(text, kind)), content_type=JSON, headers=headers
    )


def break_connection(request: web.BaseRequest, *, is_reset: bool) -> web.Response:
    """Close the connection under a reply; with a reset, what was sent may not arrive either."""
    transport = request.transport
    if transport is not None:
        if is_reset:
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort() if is_reset else transport.close()
    return web.Response(status=200)


async def _reset(faulty: FaultyRequest) -> web.StreamResponse:
    return break_connection(faulty.request, is_reset=True)


async def _hang(faulty: FaultyRequest) -> web.StreamResponse:
    await _wait(faulty, faulty.behaviour.hang_seconds)
    return break_connection(faulty.request, is_reset=True)


async def _wait(faulty: FaultyRequest, seconds: float) -> bool:
    """Return whether the server is about to stop, after waiting as long at most."""
    try:
        await asyncio.wait_for(faulty.is_over.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def _cut(faulty: FaultyRequest) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Type": JSON, "Content-Length": str(len(faulty.body))})
    await stream.prepare(faulty.request)
    await stream.write(faulty.body[: len(faulty.body) // 2])
    break_connection(faulty.request, is_reset=False)
    return stream


async def _drip(faulty: FaultyRequest) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Type": JSON, "Content-Length": str(len(faulty.body))})
    await stream.prepare(faulty.request)
    for position in range(len(faulty.body)):
        await stream.write(faulty.body[position : position + 1])
        if await _wait(faulty, faulty.behaviour.drip_seconds):
            return break_connection(faulty.request, is_reset=True)
    return stream


async def _send_endless(faulty: FaultyRequest) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Type": JSON})
    await stream.prepare(faulty.request)
    await stream.write(b'{"choices": [{"message": {"role": "assistant", "content": "')
    while not faulty.is_over.is_set():
        await stream.write(b"A" * _BLOCK)
        await asyncio.sleep(0)
    return break_connection(faulty.request, is_reset=True)


async def _send_bomb(faulty: FaultyRequest) -> web.StreamResponse:
    packed = await asyncio.to_thread(_pack_bomb, faulty.behaviour.bomb_bytes)
    return web.Response(body=packed, content_type=JSON, headers={"Content-Encoding": "gzip"})


@cache
def _pack_bomb(size: int) -> bytes:
    """Return that many spaces, compressed: about a thousandth of it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = b" " * (1 << 20)
    packed = [packer.compress(block[: min(len(block), size - at)]) for at in range(0, size, len(block))]
    return b"".join([*packed, packer.flush()])


_FAULTS: dict[str, Callable[[FaultyRequest], Awaitable[web.StreamResponse]]] = {
    "reset": _reset,
    "cut": _cut,
    "hang": _hang,
    "drip": _drip,
    "endless": _send_endless,
    "gzip_bomb": _send_bomb,
}


# ── one request ─────────────────────────────────────────────────────────────────────────────────────────────

#: Where the counts are read over HTTP; such a request is not counted itself.
COUNTS_PATH = "/asked"


@dataclass
class RequestHandler:
    """Answers requests; lives on the server's event loop."""

    answers: Answers
    behaviour: Behaviour
    asked: Asked
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    _recent: deque[float] = field(default_factory=deque)
    _batches: BatchStore = field(init=False)

    def __post_init__(self) -> None:
        self._batches = BatchStore(self._serve_line)

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
        delay = self.behaviour.choose_delay(digest) + reply.delay
        if delay > 0:
            await asyncio.sleep(delay)
        content, kind = encode_reply(style, body, reply)
        fault = self.behaviour.choose_fault(digest, attempt)
        if fault is None:
            headers = dict(reply.headers)
            return web.Response(status=reply.status, body=content, content_type=kind, headers=headers), True
        self.asked.add_fault(fault)
        faulty = FaultyRequest(request, self.behaviour, style, content, self.is_over)
        return await answer_with_fault(fault, faulty), False

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
        store = self._batches
        parts = [part for part in request.path.split("/") if part][-3:]
        if request.method == "POST" and parts[-1:] == ["files"]:
            return web.json_response(store.add_file(await _read_upload(request)))
        content = store.find_content(parts)
        if content is not None:
            return web.Response(body=content, content_type="application/octet-stream")
        shown = store.show(request.method, parts, body or {}, self.behaviour)
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


async def _read_upload(request: web.BaseRequest) -> bytes:
    if request.content_type != "multipart/form-data":
        return b""
    reader = await request.multipart()
    async for part in reader:
        if isinstance(part, BodyPartReader) and part.name == "file":
            return bytes(await part.read())
    return b""


# ── the server ──────────────────────────────────────────────────────────────────────────────────────────────

HOST = "127.0.0.1"
_BACKLOG = 4096
_GRACE = 0.05
#: So many turns of the event loop, and everything that was begun with a connection is done.
_TURNS = 20


class TestServer:
    """A model's endpoint for tests: says and fails as it is told to, and counts what it was asked.

    Use it in a `with` statement, or call `start` and `stop`. It speaks the chat and the plain completions of
    OpenAI, files and batches, and the native APIs of Anthropic and Gemini, under any path prefix.
    """

    __test__: ClassVar[bool] = False  # its name begins like that of a test class

    def __init__(self, answers: Answers = "A", behaviour: Behaviour | None = None, *, port: int = 0) -> None:
        self._answers = answers
        self._behaviour = behaviour or Behaviour()
        self._asked = Asked()
        self._port = port
        self._is_ready = Event()
        self._error: OSError | None = None
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handler: RequestHandler | None = None

    @property
    def root(self) -> str:
        """The address without a path: the base of the APIs of Anthropic and Gemini."""
        return f"http://{HOST}:{self._port}"

    @property
    def url(self) -> str:
        """The base URL in the way of OpenAI, as in `--model URL#name`."""
        return f"{self.root}/v1"

    @property
    def port(self) -> int:
        """The port; chosen by the system unless it was given."""
        return self._port

    @property
    def asked(self) -> Asked:
        """What the server was asked since it started, or since `forget`."""
        return self._asked

    def start(self) -> Self:
        """Start serving; return when requests are taken. Raise OSError when the port is not free."""
        self._thread = Thread(target=self._run, name="answerkey test server", daemon=True)
        self._thread.start()
        self._is_ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error
        return self

    def stop(self) -> None:
        """Close all connections and stop; what is being answered is cut off. Twice does no harm."""
        if self._loop is not None and self._handler is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._handler.is_over.set)
        if self._thread is not None:
            self._thread.join()

    def change(self, answers: Answers | None = None, **behaviour: object) -> None:
        """Change what is answered, or fields of the behaviour, from the next request on."""
        if answers is not None:
            self._answers = answers
        self._behaviour = replace(self._behaviour, **behaviour)  # type: ignore[arg-type]  # its own fields
        if self._handler is not None:
            self._handler.answers = self._answers
            self._handler.behaviour = self._behaviour

    def forget(self) -> None:
        """Begin to count anew; also how often each content was asked."""
        self._asked = Asked()
        if self._handler is not None:
            self._handler.asked = self._asked

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
        self._handler = RequestHandler(self._answers, self._behaviour, self._asked)
        server = web.Server(self._handler.handle, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=_GRACE)
        with socket.create_server((HOST, self._port), backlog=_BACKLOG) as listener:
            try:
                await runner.setup()
                await web.SockSite(runner, listener, backlog=_BACKLOG).start()
                self._port = listener.getsockname()[1]
                self._is_ready.set()
                await self._handler.is_over.wait()
                await _cut_off(listener, server)
            finally:
                await runner.cleanup()


async def _cut_off(listener: socket.socket, server: web.Server) -> None:
    """Take no more connections and break those there are; what a client does not read is not waited for."""
    asyncio.get_running_loop().remove_reader(listener)
    await _turn()  # a connection that was just taken is not among the server's yet
    for connection in server.connections:
        if connection.transport is not None:
            connection.transport.abort()
    await _turn()


async def _turn() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
