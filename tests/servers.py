"""Where a text arrived; and the test server with files and batches: upload, create, poll, fetch.

All are kept in the form that OpenAI has; `_show` writes that of Anthropic.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

from aiohttp import BodyPartReader, web

from answerkey.models.config import Caller, ModelConfig
from answerkey.models.model import LiveModel, open_model
from answerkey.models.providers import Connection
from answerkey.testing import Asked, Behaviour, TestServer
from answerkey.testing.apis import CHAT, encode, find_style, write_error
from answerkey.testing.replies import NoAnswerError, find_reply
from answerkey.testing.server import RequestHandler, refuse
from answerkey.types import Draws

#: Answers one line of a batch: its path and body go in, status and body come out.
Serve = Callable[[str, Mapping[str, Any]], tuple[int, object]]
_CREATED, _GOOD = 1_700_000_000, 200
_UNDER_WAY = frozenset({"validating", "in_progress"})
_ANTHROPIC_ENDS = {"batch_expired": "expired", "batch_cancelled": "canceled"}


def connect(model: str | ModelConfig, caller: Caller | None = None) -> Connection:
    """Return the connection of a model, which is not code."""
    opened = open_model(model, caller=caller)
    assert isinstance(opened, LiveModel)
    return opened.connection


@dataclass(frozen=True)
class BatchBehaviour(Behaviour):
    """Also when and how a batch ends."""

    batch_polls: int = 2
    batch_outcome: Literal["completed", "failed", "expired", "cancelled"] = "completed"


@dataclass
class BatchStore:
    """Keeps files and batches.

    A batch is done after `BatchBehaviour.batch_polls` polls, its lines in any order.
    """

    serve: Serve
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: When the batches of Anthropic were made.
    _made: dict[str, str] = field(default_factory=dict)
    _polls: Counter[str] = field(default_factory=Counter)

    def add_file(self, content: bytes) -> dict[str, object]:
        """Return the new file as the API shows it."""
        key = f"file-{len(self.files) + 1}"
        self.files[key] = content
        return self._show_file(key)

    def answer(
        self, method: str, parts: list[str], body: Mapping[str, Any], behaviour: BatchBehaviour
    ) -> bytes | dict[str, Any] | None:
        """Return what the last parts of a path ask for, a file or JSON; None when there is none."""
        if method == "POST":
            return self._order(parts, body)
        match parts:
            case ["files", key, "content"]:
                return self.files.get(key)
            case ["batches", key, "results"] if key in self.batches:
                return _join_lines(self._list_results(key))
            case [*_, "files", key] if key in self.files:
                return self._show_file(key)
            case [*_, "batches", key] if key in self.batches:
                self._poll(self.batches[key], behaviour)
                return self._show(key)
            case [*_, "batches"]:
                batches = [self._show(key) for key in reversed(self.batches)]
                return {"object": "list", "data": batches, "has_more": False}
        return None

    def _order(self, parts: list[str], body: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a new batch in the form of the API that a path belongs to."""
        match parts:
            case [*_, "messages", "batches"]:
                entries = {entry["custom_id"]: entry["params"] for entry in body["requests"]}
                return self._create_over("/v1/messages", entries)
            case [*_, "batches"] if body.get("input_file_id") in self.files:
                return self._create(body)
        return None

    def _create(self, body: Mapping[str, Any]) -> dict[str, Any]:
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
        }
        return self.batches[key]

    def _create_over(self, url: str, bodies: Mapping[str, Any]) -> dict[str, Any]:
        """Return a new batch over these bodies."""
        lines = [{"custom_id": key, "url": url, "body": body} for key, body in bodies.items()]
        batch = self._create({"input_file_id": self.add_file(_join_lines(lines))["id"]})
        batch["request_counts"]["total"] = len(bodies)
        self._made[batch["id"]] = datetime.now(UTC).isoformat()
        return self._show(batch["id"])

    def _show(self, key: str) -> dict[str, Any]:
        """Return a batch as its API shows it."""
        if key not in self._made:
            return self.batches[key]
        return self._show_anthropic(key, self._made[key])

    def _show_anthropic(self, key: str, made_at: str) -> dict[str, Any]:
        counts = Counter(result["result"]["type"] for result in self._list_results(key))
        is_over = self.batches[key]["status"] not in _UNDER_WAY
        if not is_over:
            counts["processing"] = self.batches[key]["request_counts"]["total"]
        kinds = ("processing", "succeeded", "errored", "canceled", "expired")
        return {
            "id": key,
            "type": "message_batch",
            "request_counts": {kind: counts[kind] for kind in kinds},
            "processing_status": "ended" if is_over else "in_progress",
            "created_at": made_at,
            "results_url": f"/v1/messages/batches/{key}/results" if is_over else None,
        }

    def _list_results(self, key: str) -> list[dict[str, Any]]:
        """Return what became of the calls of a batch, as Anthropic writes it."""
        batch = self.batches[key]
        lines = self._read_lines(batch["output_file_id"]) + self._read_lines(batch["error_file_id"])
        return [{"custom_id": line["custom_id"], "result": _end_line(line)} for line in lines]

    def _read_lines(self, file: str | None) -> list[dict[str, Any]]:
        content = self.files[file] if file else b""
        return [json.loads(line) for line in content.splitlines() if line.strip()]

    def _show_file(self, key: str) -> dict[str, object]:
        size = len(self.files[key])
        shown = {"id": key, "object": "file", "bytes": size, "created_at": _CREATED}
        return {**shown, "filename": f"{key}.jsonl", "purpose": "batch"}

    def _poll(self, batch: dict[str, Any], behaviour: BatchBehaviour) -> None:
        """Take a batch one step further."""
        if batch["status"] not in _UNDER_WAY:
            return
        batch["status"] = "in_progress"
        self._polls[batch["id"]] += 1
        if self._polls[batch["id"]] >= behaviour.batch_polls:
            batch["status"] = behaviour.batch_outcome
            self._finish(batch, behaviour.seed)

    def _finish(self, batch: dict[str, Any], seed: int) -> None:
        """Serve the lines of a batch in any order; about half of them when it ends early."""
        lines = self._read_lines(batch["input_file_id"])
        batch["request_counts"]["total"] = len(lines)
        status = batch["status"]
        if status == "failed":
            return
        is_whole = status == "completed"
        answered = [self._answer_line(line) for line in (lines if is_whole else lines[::2])]
        answered.sort(key=lambda line: Draws(seed, str(line["custom_id"])).rank("batch order"))
        good = [line for line in answered if line["response"]["status_code"] == _GOOD]
        bad = [line for line in answered if line["response"]["status_code"] != _GOOD]
        batch["request_counts"] |= {"completed": len(good), "failed": len(lines) - len(good)}
        if not is_whole:
            error = {"code": f"batch_{status}", "message": "this request was not served"}
            bad += [_write_line(line["custom_id"], None, error) for line in lines[1::2]]
        for name, output in {"output_file_id": good, "error_file_id": bad}.items():
            if output:
                batch[name] = self.add_file(_join_lines(output))["id"]

    def _answer_line(self, line: Mapping[str, Any]) -> dict[str, Any]:
        status, body = self.serve(str(line.get("url")), line.get("body") or {})
        answer = {"status_code": status, "request_id": f"req-{line['custom_id']}", "body": body}
        return _write_line(line["custom_id"], answer, None)


def _join_lines(values: Iterable[object]) -> bytes:
    return b"".join(encode(value) + b"\n" for value in values)


def _end_line(line: Mapping[str, Any]) -> dict[str, Any]:
    answer = line["response"]
    if answer is None:
        return {"type": _ANTHROPIC_ENDS[line["error"]["code"]]}
    if answer["status_code"] == _GOOD:
        return {"type": "succeeded", "message": answer["body"]}
    return {"type": "errored", "error": answer["body"]}


def _write_line(key: str, answer: object, error: object) -> dict[str, Any]:
    return {"id": f"batch_req_{key}", "custom_id": key, "response": answer, "error": error}


@dataclass
class BatchHandler(RequestHandler):
    """Answers requests, also those about files and batches."""

    _batches: BatchStore = field(init=False)

    def __post_init__(self) -> None:
        self._batches = BatchStore(self._serve_line)

    async def answer_other(
        self, request: web.BaseRequest, body: Mapping[str, Any] | None
    ) -> web.Response:
        """Answer what belongs to files and batches, or anything else as ever."""
        parts = [part for part in request.path.split("/") if part][-3:]
        if request.method == "POST" and parts[-1:] == ["files"]:
            return web.json_response(self._batches.add_file(await _read_upload(request)))
        assert isinstance(self.behaviour, BatchBehaviour)
        try:
            answer = self._batches.answer(request.method, parts, body or {}, self.behaviour)
        except (KeyError, TypeError):
            return refuse(400, "the batch does not have the form of its API")
        if answer is None:
            return await super().answer_other(request, body)
        if isinstance(answer, bytes):
            return web.Response(body=answer, content_type="application/octet-stream")
        return web.json_response(answer)

    def _serve_line(self, path: str, body: Mapping[str, Any]) -> tuple[int, object]:
        """Return status and body for one line of a batch; of the faults, it meets statuses only."""
        style = find_style(path) or CHAT
        digest, attempt, messages = self.count_prompt(path, style, body)
        fault = self.behaviour.choose_fault(digest, attempt)
        if fault is not None and fault.isdecimal():
            self.asked.count(self.asked.faults, fault)
            return int(fault), write_error("error", "server_error")
        try:
            return 200, style.write(body, find_reply(self.answers, messages))
        except NoAnswerError as error:
            return 400, write_error(str(error), "bad_request")


async def _read_upload(request: web.BaseRequest) -> bytes:
    if request.content_type == "multipart/form-data":
        async for part in await request.multipart():
            if isinstance(part, BodyPartReader) and part.name == "file":
                return bytes(await part.read())
    return b""


class BatchServer(TestServer):
    """A test server that also takes batches."""

    handler_class: ClassVar = BatchHandler
    behaviour_class: ClassVar = BatchBehaviour


def find_places(log: Asked, text: str) -> Counter[str]:
    """Return where a text is in what was asked: `header NAME`, `path`, `body`."""
    places: Counter[str] = Counter()
    for request in log.requests:
        texts = {f"header {name}": value for name, value in request.headers.items()}
        texts |= {"path": request.path, "body": json.dumps(request.body)}
        places.update(place for place, content in texts.items() if text in content)
    return places
