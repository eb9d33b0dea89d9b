"""Lines of a batch's output: what each says of the call that it names."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
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
_OK = 200


@dataclass(frozen=True)
class LineForm:
    """Where a line has the answer with its status, or the error: names with dots between them."""

    body: str = "response.body"
    status: str = "response.status_code"
    error: str = "error"


OPENAI_LINES = LineForm()
ANTHROPIC_LINES = LineForm(body="result.message", error="result.error")


def dig(value: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    """Return what is at a path of an object; None where there is nothing."""
    for name in path.split("."):
        value = get_field(value, name)
    return value


def read_line(
    line: object,
    form: LineForm,
    read: Callable[[int, bytes], Completion],
) -> Completion:
    """Return what a line says; `read` takes the status and the body of an answer."""
    body = dig(line, form.body)
    error = dig(line, form.error)
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
    status = dig(line, form.status)
    if not isinstance(status, int):
        status = _OK
    return read(status, body.encode(errors="replace"))
