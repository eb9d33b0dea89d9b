"""Lines of a batch's output: what each says of the call that it names."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from answerkey.errors import hide_secrets
from answerkey.models.responses import fail, find_complaint, get_field
from answerkey.types import Completion

#: Why a call has no line in the output, by how its batch ended.
SILENCE = {
    "expired": "the batch expired before this call was answered",
    "cancelled": "the batch was cancelled before this call was answered",
    "canceled": "the batch was cancelled before this call was answered",
}


def dig(value: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    """Return what is at a path of an object; None where there is nothing."""
    for name in path.split("."):
        value = get_field(value, name)
    return value


def read_line(line: object, read: Callable[[int, bytes], Completion]) -> Completion:
    """Return what a line says; `read` takes the status and the body of an answer.

    OpenAI has both in `response`; Anthropic has the body, or the error, in `result`.
    """
    body = dig(line, "response.body")
    if body is None:
        body = dig(line, "result.message")
    error = get_field(line, "error") or dig(line, "result.error")
    kind = dig(line, "result.type")
    if kind and body is None:
        error = {"code": kind, "message": find_complaint(error) or SILENCE.get(str(kind))}
    if error:
        code = get_field(error, "code")
        if not isinstance(code, str) or not code:
            code = "the batch reports an error"
        reason = find_complaint(error) or "it gives no reason"
        return fail(hide_secrets(f"{code}: {reason}"))
    if body is None:
        return fail("the line of this call has neither an answer nor an error")
    try:
        if not isinstance(body, str):
            body = json.dumps(body)
    except RecursionError:
        return fail("the answer is nested too deeply to be read")
    status = dig(line, "response.status_code")
    if not isinstance(status, int):
        status = 200
    return read(status, body.encode(errors="replace"))
