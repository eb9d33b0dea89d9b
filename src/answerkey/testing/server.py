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
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cache
from http import HTTPStatus
from threading import Event, Thread
from typing import Any, ClassVar, Self

from aiohttp import BodyPartReader, web

from answerkey.testing.replies import (
    CHAT,
    JSON,
    KEY_HEADERS,
    RAW,
    Answers,
    Asked,
    Behaviour,
    Messages,
    NoAnswerError,
    Reply,
    Request,
    Style,
    encode,
    encode_reply,
    find_reply,
    find_style,
    obey,
    read_prompt,
)
from answerkey.types import Draws

# ── files and batches: upload, create, poll, fetch; all are kept in the form that OpenAI has
# ────────────────

#: What one line of a batch is answered with: its body goes in, status and body come out.
Serve = Callable[[str, Mapping[str, Any]], tuple[int, object]]
_CREATED, _GOOD = 1_700_000_000, 200
_UNDER_WAY = frozenset({"validating", "in_progress"})
_GEMINI_STATES = {"validating": "PENDING", "in_progress": "RUNNING", "completed": "SUCCEEDED"}


@dataclass
class BatchStore:
    """Keeps files and batches.

    A batch is done after `Behaviour.batch_polls` polls, lines in any order.
    """

    serve: Serve
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Of the batches of Gemini and Anthropic, how they are named and when they were made.
    _made: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    _polls: Counter[str] = field(default_factory=Counter)

    def add_file(self, content: bytes) -> dict[str, object]:
        """Return the new file as the API shows it."""
        key = f"file-{len(self.files) + 1}"
        self.files[key] = content
        return self._show_file(key)

    def answer(
        self, method: str, parts: list[str], body: Mapping[str, Any], behaviour: Behaviour
    ) -> bytes | dict[str, Any] | None:
        """Return what the last parts of a path ask for, a file or JSON.

        None when that is not ours.
        """
        match parts:
            case ["files", key, "content"]:
                return self.files.get(key)
            case [*_, "messages", "batches"] if method == "POST":
                entries = {one["custom_id"]: one["params"] for one in body["requests"]}
                return self._order("/v1/messages", entries, None)
            case ["batches", key, "results"] if key in self.batches:
                return b"".join(encode(one) + b"\n" for one in self._list_results(key))
            case [*_, "models", name] if name.endswith(":batchGenerateContent"):
                batch = body["batch"]
                entries = (batch.get("inputConfig") or batch["input_config"])["requests"][
                    "requests"
                ]
                bodies = {one["metadata"]["key"]: one["request"] for one in entries}
                label = batch.get("displayName") or batch["display_name"]
                return self._order(":generateContent", bodies, label)
            case [*_, "files", key] if key in self.files:
                return self._show_file(key)
            case [*_, "batches"] if method == "POST":
                return self._create(body)
            case [*before, "batches"]:
                shown = [self._show(one) for one in reversed(self.batches.values())]
                listed = {"object": "list", "data": shown, "has_more": False}
                return {"operations": shown} if "v1beta" in before else listed
            case [*_, "batches", key] if key in self.batches:
                self._poll(self.batches[key], behaviour)
                return self._show(self.batches[key])
            case ["batches", key, "cancel"] | [*_, "batches", key] if (
                key.removesuffix(":cancel") in self.batches
            ):
                batch = self.batches[key.removesuffix(":cancel")]
                if batch["status"] in _UNDER_WAY:
                    batch["status"] = "cancelled"
                return self._show(batch)
            case [*_, "models"]:
                return {"object": "list", "data": [{"id": "test", "object": "model"}]}
        return None

    def _create(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a new batch as the API shows it; None when its input file is not there."""
        if body.get("input_file_id") not in self.files:
            return None
        key = f"batch_{len(self.batches) + 1}"
        self.batches[key] = {
            "id": key,
            "object": "batch",
            "endpoint": str(body.get("endpoint")),
            "input_file_id": body["input_file_id"],
            "completion_window": "24h",
            "status": "validating",
            "output_file_id": None,
            "error_file_id": None,
            "created_at": _CREATED,
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
            "metadata": body.get("metadata"),
        }
        return self.batches[key]

    def _order(self, url: str, bodies: Mapping[str, Any], name: str | None) -> dict[str, Any]:
        """Return a new batch over these bodies."""
        lines = ({"custom_id": key, "url": url, "body": one} for key, one in bodies.items())
        file = self.add_file(b"".join(encode(line) + b"\n" for line in lines))["id"]
        batch = self._create({"input_file_id": file}) or {}
        batch["request_counts"]["total"] = len(bodies)
        self._made[batch["id"]] = name, datetime.now(UTC).isoformat()
        return self._show(batch)

    def _show(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return a batch as its API shows it."""
        key, state, counts = batch["id"], batch["status"], batch["request_counts"]
        if key not in self._made:
            return batch
        (name, made), is_over = self._made[key], state not in _UNDER_WAY
        if name is None:
            ends = Counter(one["result"]["type"] for one in self._list_results(key))
            ends["processing"] = 0 if is_over else counts["total"]
            kinds = ("processing", "succeeded", "errored", "canceled", "expired")
            about = {
                "id": key,
                "type": "message_batch",
                "request_counts": {one: ends[one] for one in kinds},
            }
            about |= {
                "processing_status": "ended" if is_over else "in_progress",
                "created_at": made,
            }
            return about | {
                "results_url": f"/v1/messages/batches/{key}/results" if is_over else None
            }
        theirs = {"total": "request", "completed": "successfulRequest", "failed": "failedRequest"}
        stats = {f"{theirs[one]}Count": str(count) for one, count in counts.items()}
        state = _GEMINI_STATES.get(state, state.upper())
        about = {"displayName": name, "state": f"BATCH_STATE_{state}", "batchStats": stats}
        end: dict[str, Any] = {
            "done": True,
            "error": {"code": 1, "message": f"the batch is {state}"},
        }
        if state == "SUCCEEDED":
            answers = [_write_answer(one) for one in self._list_results(key)]
            end = {"done": True, "response": {"inlinedResponses": {"inlinedResponses": answers}}}
        return {"name": f"batches/{key}", "metadata": about, **(end if is_over else {})}

    def _list_results(self, key: str) -> list[dict[str, Any]]:
        """Return what became of the calls of a batch, as Anthropic writes it."""
        files = [self.batches[key][name] for name in ("output_file_id", "error_file_id")]
        lines = [
            json.loads(line) for file in files if file for line in self.files[file].splitlines()
        ]
        return [{"custom_id": line["custom_id"], "result": _end_line(line)} for line in lines]

    def _show_file(self, key: str) -> dict[str, object]:
        shown = {"id": key, "object": "file", "bytes": len(self.files[key]), "created_at": _CREATED}
        return {**shown, "filename": f"{key}.jsonl", "purpose": "batch"}

    def _poll(self, batch: dict[str, Any], behaviour: Behaviour) -> None:
        """Take a batch one step further."""
        if batch["status"] not in _UNDER_WAY:
            return
        self._polls[batch["id"]] += 1
        batch["status"] = "in_progress"
        if self._polls[batch["id"]] < behaviour.batch_polls:
            return
        status = batch["status"] = behaviour.batch_outcome
        lines = [
            json.loads(line)
            for line in self.files[batch["input_file_id"]].splitlines()
            if line.strip()
        ]
        batch["request_counts"]["total"] = len(lines)
        if status == "failed":
            return
        # A batch that expires or is cancelled has served about half of its lines.
        served, left = (lines, []) if status == "completed" else (lines[::2], lines[1::2])
        done = [self._answer_line(line) for line in served]
        done.sort(key=lambda one: Draws(behaviour.seed, str(one["custom_id"])).rank("batch order"))
        good = [one for one in done if one["response"]["status_code"] == _GOOD]
        error = {"code": f"batch_{status}", "message": "this request was not served"}
        bad = [one for one in done if one not in good]
        bad += [_write_line(line["custom_id"], None, error) for line in left]
        batch["request_counts"] |= {"completed": len(good), "failed": len(bad)}
        for name, outcome in (("output_file_id", good), ("error_file_id", bad)):
            if outcome:
                batch[name] = self.add_file(b"".join(encode(line) + b"\n" for line in outcome))[
                    "id"
                ]

    def _answer_line(self, line: Mapping[str, Any]) -> dict[str, Any]:
        status, body = self.serve(str(line.get("url")), line.get("body") or {})
        answer = {"status_code": status, "request_id": f"req-{line['custom_id']}", "body": body}
        return _write_line(line["custom_id"], answer, None)


def _end_line(line: Mapping[str, Any]) -> dict[str, Any]:
    if (answer := line["response"]) is None:
        return {"type": line["error"]["code"].removeprefix("batch_").replace("lled", "led")}
    is_good, body = answer["status_code"] == _GOOD, answer["body"]
    return {"type": "succeeded", "message": body} if is_good else {"type": "errored", "error": body}


def _write_answer(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return what became of a call as Gemini writes it."""
    about, result = {"metadata": {"key": one["custom_id"]}}, one["result"]
    if result["type"] == "errored":
        return {**about, "error": result["error"]["error"]}
    return {**about, "response": result["message"]}


def _write_line(key: str, answer: object, error: object) -> dict[str, Any]:
    return {"id": f"batch_req_{key}", "custom_id": key, "response": answer, "error": error}


# ── faults

_BLOCK = 1 << 16
_REDIRECTS = range(300, 400)
_KNOWN_STATUSES = frozenset(one.value for one in HTTPStatus)


def refuse(
    style: Style, status: int, message: str | None = None, *, headers: dict[str, str] | None = None
) -> web.Response:
    """Return an error in the way of the API."""
    text = message or HTTPStatus(status).phrase if status in _KNOWN_STATUSES else "error"
    kind = HTTPStatus(status).name.lower() if status in _KNOWN_STATUSES else "server_error"
    return web.Response(
        status=status,
        body=encode(style.write_error(text, kind)),
        content_type=JSON,
        headers=headers,
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


@cache
def _pack_bomb(size: int) -> bytes:
    """Return that many spaces, compressed: about a thousandth of it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = b" " * (1 << 20)
    packed = [
        packer.compress(block[: min(len(block), size - at)]) for at in range(0, size, len(block))
    ]
    return b"".join([*packed, packer.flush()])


# ── one request

#: Where the counts are read over HTTP; such a request is not counted itself.
COUNTS_PATH = "/asked"


@dataclass
class RequestHandler:
    """Answers requests; lives on the server's event loop."""

    answers: Answers
    behaviour: Behaviour
    asked: Asked
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    attempts: Counter[str] = field(default_factory=Counter)
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
        headers = {name.lower(): value for name, value in request.headers.items()}
        seen = Request(request.method, request.path, headers, body)
        asked.add(seen, request.transport and request.transport.get_extra_info("peername"))
        if (canary := self.behaviour.canary) is not None:
            places = {f"header {name}": value for name, value in headers.items()}
            places |= {"path": request.path_qs, "body": raw.decode(errors="replace")}
            for place, text in places.items():
                if canary in text:
                    asked.count(asked.canary_places, place)
        status, is_answer = 0, False
        try:
            stream, is_answer = await self._answer(request, body)
            is_open = request.transport is not None and not request.transport.is_closing()
            status = stream.status if is_open else 0
            return stream
        finally:
            asked.close(status, is_answer=is_answer)

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
        digest, attempt, messages = self._count_prompt(request.path, style, body)
        try:
            reply = self._find_reply(body, messages)
        except NoAnswerError as error:
            return refuse(style, 400, str(error)), False
        delay = self.behaviour.choose_delay(digest) + reply.delay
        if delay > 0:
            await asyncio.sleep(delay)
        content, kind = encode_reply(style, body, reply)
        fault = self.behaviour.choose_fault(digest, attempt)
        if fault is None:
            headers = dict(reply.headers)
            return web.Response(
                status=reply.status, body=content, content_type=kind, headers=headers
            ), True
        self.asked.count(self.asked.faults, fault)
        return await self._meet_fault(fault, request, style, content), False

    def _refuse(self, request: web.BaseRequest, style: Style) -> web.Response | None:
        behaviour = self.behaviour
        if behaviour.api_key is not None:
            given = [request.headers.get(name, "").removeprefix("Bearer ") for name in KEY_HEADERS]
            if behaviour.api_key not in {*given, request.query.get("key")}:
                return refuse(style, 401, "Incorrect API key provided")
        if behaviour.max_concurrent is not None and self.asked.at_once > behaviour.max_concurrent:
            return refuse(style, 429, "too many requests at once")
        if behaviour.requests_per_minute is not None:
            now, minute = time.monotonic(), behaviour.minute_seconds
            while self._recent and self._recent[0] <= now - minute:
                self._recent.popleft()
            if len(self._recent) >= behaviour.requests_per_minute:
                wait = math.ceil(self._recent[0] + minute - now)
                return refuse(style, 429, "rate limit", headers={"Retry-After": str(wait)})
            self._recent.append(now)
        return None

    async def _meet_fault(
        self, fault: str, request: web.BaseRequest, style: Style, body: bytes
    ) -> web.StreamResponse:
        """Answer a request with a fault in place of its body.

        One that breaks the connection has status 0.
        """
        behaviour = self.behaviour
        if fault in RAW:
            content, kind = RAW[fault]
            return web.Response(body=content, content_type=kind)
        if fault == "gzip_bomb":
            packed = await asyncio.to_thread(_pack_bomb, behaviour.bomb_bytes)
            return web.Response(
                body=packed, content_type=JSON, headers={"Content-Encoding": "gzip"}
            )
        if fault == "hang":
            await self._wait(behaviour.hang_seconds)
        if fault in {"reset", "hang"}:
            return break_connection(request, is_reset=True)
        if fault in {"cut", "drip", "endless"}:
            length = {} if fault == "endless" else {"Content-Length": str(len(body))}
            stream = web.StreamResponse(headers={"Content-Type": JSON, **length})
            await stream.prepare(request)
            if fault == "cut":
                await stream.write(body[: len(body) // 2])
                break_connection(request, is_reset=False)
                return stream
            if fault == "drip":
                for position in range(len(body)):
                    await stream.write(body[position : position + 1])
                    if await self._wait(behaviour.drip_seconds):
                        return break_connection(request, is_reset=True)
                return stream
            await stream.write(b'{"choices": [{"message": {"role": "assistant", "content": "')
            while not self.is_over.is_set():
                await stream.write(b"A" * _BLOCK)
                await asyncio.sleep(0)
            return break_connection(request, is_reset=True)
        status, headers = int(fault.partition("_")[0]), {}
        if fault.endswith("_seconds"):
            headers["Retry-After"] = f"{behaviour.retry_after:g}"
        elif fault.endswith("_date"):
            moment = datetime.now(UTC) + timedelta(seconds=behaviour.retry_after)
            headers["Retry-After"] = format_datetime(moment, usegmt=True)
        elif status in _REDIRECTS:
            headers["Location"] = behaviour.redirect_to
        return refuse(style, status, headers=headers)

    async def _wait(self, seconds: float) -> bool:
        """Return whether the server is about to stop, after waiting as long at most."""
        try:
            await asyncio.wait_for(self.is_over.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _count_prompt(
        self, path: str, style: Style, body: Mapping[str, Any]
    ) -> tuple[str, int, Messages]:
        """Count a prompt.

        Return what stands for its content, how often that was asked before, and it.
        """
        messages = style.read(body)
        self.asked.count(self.asked.by_prompt, read_prompt(messages))
        digest = hashlib.sha256(json.dumps([path, body], sort_keys=True).encode()).hexdigest()
        self.attempts[digest] += 1
        return digest, self.attempts[digest] - 1, messages

    def _serve_line(self, path: str, body: Mapping[str, Any]) -> tuple[int, object]:
        """Return status and body for one line of a batch.

        Of the faults only statuses can happen to it.
        """
        style = find_style(path) or CHAT
        digest, attempt, messages = self._count_prompt(path, style, body)
        fault = self.behaviour.choose_fault(digest, attempt)
        if fault is not None and fault.isdecimal():
            self.asked.count(self.asked.faults, fault)
            return int(fault), style.write_error("error", "server_error")
        try:
            return 200, style.write(body, self._find_reply(body, messages))
        except NoAnswerError as error:
            return 400, style.write_error(str(error), "bad_request")

    def _find_reply(self, body: Mapping[str, Any], messages: Messages) -> Reply:
        reply = find_reply(self.answers, messages)
        return reply if self.behaviour.ignores_format else obey(body, reply)

    async def _keep_files(
        self, request: web.BaseRequest, body: Mapping[str, Any] | None
    ) -> web.Response:
        """Answer what belongs to files, batches and the list of models; 404 for anything else."""
        store = self._batches
        parts = [part for part in request.path.split("/") if part][-3:]
        if request.method == "POST" and parts[-1:] == ["files"]:
            return web.json_response(store.add_file(await _read_upload(request)))
        try:
            found = store.answer(request.method, parts, body or {}, self.behaviour)
        except (AttributeError, KeyError, TypeError):
            return refuse(CHAT, 400, "the batch is not of the form that its API has")
        if found is None:
            return refuse(CHAT, 404, f"there is nothing at {request.path}")
        if isinstance(found, bytes):
            return web.Response(body=found, content_type="application/octet-stream")
        return web.json_response(found)


def _parse(raw: bytes) -> Mapping[str, Any] | None:
    try:
        body = json.loads(raw) if raw else None
    except ValueError:
        return None
    return body if isinstance(body, Mapping) else None


async def _read_upload(request: web.BaseRequest) -> bytes:
    if request.content_type != "multipart/form-data":
        return b""
    reader = await request.multipart()
    async for part in reader:
        if isinstance(part, BodyPartReader) and part.name == "file":
            return bytes(await part.read())
    return b""


# ── the server

HOST = "127.0.0.1"
_BACKLOG = 4096
_GRACE = 0.05
#: So many turns of the event loop, and everything that was begun with a connection is done.
_TURNS = 20


class TestServer:
    """A model's endpoint for tests: says and fails as it is told to, and counts what it was asked.

    Use it in a `with` statement, or call `start` and `stop`. It speaks the chat and the plain
    completions of OpenAI, files and batches, and the native APIs of Anthropic and Gemini, under any
    path prefix.
    """

    __test__: ClassVar[bool] = False  # its name begins like that of a test class

    def __init__(
        self, answers: Answers = "A", behaviour: Behaviour | None = None, *, port: int = 0
    ) -> None:
        self._handler = RequestHandler(answers, behaviour or Behaviour(), Asked())
        #: Chosen by the system unless it was given.
        self.port = port
        self._is_ready = Event()
        self._error: OSError | None = None
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def root(self) -> str:
        """The address without a path: the base of the APIs of Anthropic and Gemini."""
        return f"http://{HOST}:{self.port}"

    @property
    def url(self) -> str:
        """The base URL in the way of OpenAI, as in `--model URL#name`."""
        return f"{self.root}/v1"

    @property
    def asked(self) -> Asked:
        """What the server was asked since it started, or since `forget`."""
        return self._handler.asked

    def start(self) -> Self:
        """Start serving.

        Return when requests are taken. Raise OSError when the port is not free.
        """
        self._thread = Thread(target=self._run, name="answerkey test server", daemon=True)
        self._thread.start()
        self._is_ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error
        return self

    def stop(self) -> None:
        """Close all connections and stop; what is being answered is cut off. Twice does no harm."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._handler.is_over.set)
        if self._thread is not None:
            self._thread.join()

    def change(self, answers: Answers | None = None, **behaviour: object) -> None:
        """Change what is answered, or fields of the behaviour, from the next request on."""
        if answers is not None:
            self._handler.answers = answers
        self._handler.behaviour = replace(self._handler.behaviour, **behaviour)  # type: ignore[arg-type]  # its own fields

    def forget(self) -> None:
        """Begin to count anew; also how often each content was asked."""
        self._handler.asked, self._handler.attempts = Asked(), Counter()

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
        server = web.Server(self._handler.handle, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=_GRACE)
        with socket.create_server((HOST, self.port), backlog=_BACKLOG) as listener:
            try:
                await runner.setup()
                await web.SockSite(runner, listener, backlog=_BACKLOG).start()
                self.port = listener.getsockname()[1]
                self._is_ready.set()
                await self._handler.is_over.wait()
                # No more connections are taken, those there are break; what is not read is not
                # waited for.
                self._loop.remove_reader(listener)
                for _ in range(
                    2 * _TURNS
                ):  # a connection that was just taken is not the server's yet
                    for connection in server.connections:
                        if connection.transport is not None:
                            connection.transport.abort()
                    await asyncio.sleep(0)
            finally:
                await runner.cleanup()
