"""Lines of a batch's output: the completion of the call that each line names."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from answerkey.errors import hide_secrets
from answerkey.models.responses import fail, find_error_message, get_field
from answerkey.types import Completion

#: Why a call has no line in the output, by the status of its batch.
UNANSWERED_REASONS = {
    "expired": "the batch expired before this call was answered",
    "cancelled": "the batch was cancelled before this call was answered",
    "canceled": "the batch was cancelled before this call was answered",
}


def get_path(value: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    """Return the value at a path in an object; None if there is none."""
    for name in path.split("."):
        value = get_field(value, name)
    return value


def read_line(line: object, read: Callable[[int, bytes], Completion]) -> Completion:
    """Return the completion in a line; `read` takes the status and the body of a response.

    OpenAI has both in `response`; Anthropic has the body, or the error, in `result`.
    """
    body = get_path(line, "response.body")
    if body is None:
        body = get_path(line, "result.message")
    error = get_field(line, "error") or get_path(line, "result.error")
    kind = get_path(line, "result.type")
    if kind and body is None:
        error = {
            "code": kind,
            "message": find_error_message(error) or UNANSWERED_REASONS.get(str(kind)),
        }
    if error:
        code = get_field(error, "code")
        if not isinstance(code, str) or not code:
            code = "the batch reports an error"
        reason = find_error_message(error) or "it gives no reason"
        return fail(hide_secrets(f"{code}: {reason}"))
    if body is None:
        return fail("the line of this call has neither an answer nor an error")
    try:
        if not isinstance(body, str):
            body = json.dumps(body)
    except RecursionError:
        return fail("the answer is nested too deeply to be read")
    status = get_path(line, "response.status_code")
    if not isinstance(status, int):
        status = 200
    return read(status, body.encode(errors="replace"))
