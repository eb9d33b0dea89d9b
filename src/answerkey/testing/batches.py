"""The files and batches of OpenAI-shaped APIs: upload, create, poll, fetch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from answerkey.models.builtin import Draws
from answerkey.testing.behaviour import Behaviour
from answerkey.testing.styles import encode

#: What one line of a batch is answered with: its body goes in, status and body come out.
Serve = Callable[[str, Mapping[str, Any]], tuple[int, object]]
_CREATED = 1_700_000_000


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
class BatchDesk:
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
        done = [self._serve_line(line) for line in served]
        done.sort(key=lambda one: Draws(behaviour.seed, str(one["custom_id"])).rank("batch order"))
        good = [one for one in done if one["error"] is None and one["response"]["status_code"] == _GOOD]
        bad = [one for one in done if one not in good] + [_drop_line(line, batch.status) for line in left]
        batch.completed, batch.failed = len(good), len(bad)
        batch.output_file = self._write(good)
        batch.error_file = self._write(bad)

    def _serve_line(self, line: Mapping[str, Any]) -> dict[str, Any]:
        status, body = self.serve(str(line.get("url")), line.get("body") or {})
        answer = {"status_code": status, "request_id": f"req-{line['custom_id']}", "body": body}
        return {
            "id": f"batch_req_{line['custom_id']}",
            "custom_id": line["custom_id"],
            "response": answer,
            "error": None,
        }

    def _write(self, lines: list[dict[str, Any]]) -> str | None:
        if not lines:
            return None
        return str(self.add_file(b"".join(encode(line) + b"\n" for line in lines))["id"])


_GOOD = 200


def _drop_line(line: Mapping[str, Any], status: str) -> dict[str, Any]:
    error = {"code": f"batch_{status}", "message": "this request was not served"}
    return {
        "id": f"batch_req_{line['custom_id']}",
        "custom_id": line["custom_id"],
        "response": None,
        "error": error,
    }
