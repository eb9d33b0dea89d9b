"""The files of batches: calls as lines of JSON, and what the lines of an output file say."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from answerkey.errors import AnswerkeyError
from answerkey.models.calls import Call
from answerkey.models.connections import Connection
from answerkey.models.limits import MEGABYTE
from answerkey.models.reading import fail, find_complaint
from answerkey.models.retrying import Reply, judge_reply
from answerkey.types import Completion, CompletionStatus

#: Where each line of a batch is sent, whatever the base URL: the APIs that have batches name it like this.
ENDPOINT = "/v1/chat/completions"
_OK = 200
_LONGEST = 300


@dataclass(frozen=True)
class BatchLimits:
    """How large a batch may be, how large its output, and how often it is looked at (in seconds).

    The pauses between two looks grow from `first_poll` to `longest_poll`. A transfer of a file may take
    `transfer_seconds`; an endpoint that cannot be reached for `outage_seconds` is not waited for any longer.
    """

    max_calls: int = 50_000
    max_bytes: int = 200 * MEGABYTE
    output_bytes: int = 1024 * MEGABYTE
    first_poll: float = 1.0
    longest_poll: float = 60.0
    poll_growth: float = 1.5
    transfer_seconds: float = 1800.0
    outage_seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class Written:
    """A call as a line of a batch's input, with its line break."""

    call: Call
    line: bytes


def write_line(connection: Connection, call: Call) -> Written | Completion:
    """Return a call as a line; a completion with status ERROR when its request cannot be built."""
    try:
        body = connection.build(call.messages)
    except AnswerkeyError as error:
        return Completion(None, CompletionStatus.ERROR, call.messages, error=error.message, source="live")
    line = {"custom_id": call.key, "method": "POST", "url": ENDPOINT, "body": body}
    return Written(call, json.dumps(line, separators=(",", ":"), default=str).encode() + b"\n")


def cut_files(lines: Iterable[Written], limits: BatchLimits) -> Iterator[list[Written]]:
    """Yield the lines in lists that each fit into one batch; a line too large for any is alone."""
    file: list[Written] = []
    size = 0
    for one in lines:
        if file and (len(file) >= limits.max_calls or size + len(one.line) > limits.max_bytes):
            yield file
            file, size = [], 0
        file.append(one)
        size += len(one.line)
    if file:
        yield file


def read_lines(content: bytes, connection: Connection) -> Iterator[tuple[str, Completion]]:
    """Yield key and completion of each line that names a call, in the order of the file; never raises.

    A line that cannot be read names no call.
    """
    for raw in io.BytesIO(content):
        line = _parse(raw)
        key = line.get("custom_id")
        if isinstance(key, str):
            yield key, _read_line(line, connection)


def complete_line(completion: Completion, call: Call) -> Completion:
    """Return a completion with what is known of its call; how long one line took, nobody tells."""
    return replace(completion, prompt=call.messages, attempts=1, source="live")


def _parse(raw: bytes) -> Mapping[str, Any]:
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return line if isinstance(line, dict) else {}


def _read_line(line: Mapping[str, Any], connection: Connection) -> Completion:
    answer, error = line.get("response"), line.get("error")
    if error:
        return fail(connection.hide(f"{_name_error(error)}: {find_complaint(error) or 'no reason is given'}"))
    if not isinstance(answer, Mapping):
        return fail("the line of this call has neither an answer nor an error")
    status, body = answer.get("status_code"), answer.get("body")
    try:
        raw = body.encode(errors="replace") if isinstance(body, str) else json.dumps(body).encode()
    except RecursionError:
        return fail("the answer is nested too deeply to be read")
    reply = Reply(status if isinstance(status, int) else _OK, {}, raw)
    return judge_reply(reply, connection.read).completion


def _name_error(error: object) -> str:
    code = error.get("code") if isinstance(error, Mapping) else None
    return code[:_LONGEST] if isinstance(code, str) and code else "the batch reports an error"
