"""Reading the body of any answer: one total function, whatever the endpoint sends.

    status, body ──► JSON object ──► what was said (one `take_…` per API) ──► Completion

What cannot be read is a completion with status ERROR, the reason in `error` and the body in `raw`; nothing is
ever raised, and nothing that was not said becomes an answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from answerkey.models.message import (
    DEPTH,
    has_too_many_parts,
    make_plain,
    mend_text,
    read_count,
    to_json_values,
)
from answerkey.types import Completion, CompletionStatus

RAW_BYTES = 65_536
ERROR_CHARACTERS = 500
#: How the APIs name the ends of a completion, in the words of one of them.
FINISH_REASONS: dict[str, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "STOP": "stop",
    "max_tokens": "length",
    "MAX_TOKENS": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
}
#: Where error bodies say what is wrong, the best place first.
COMPLAINT_FIELDS = ("error", "message", "detail", "errors", "msg", "type", "code")
ANSWERED = range(200, 300)
_NOTHING = Completion(None)


class Said(NamedTuple):
    """What an answer says, in the words of no API. `texts` and `thoughts` are its parts in order.

    `refusal` is the text of a refusal, "" for one without words. `reply` is the whole message where it says
    more than its text.
    """

    texts: Sequence[str] = ()
    thoughts: Sequence[str] = ()
    refusal: str | None = None
    reply: Mapping[str, object] | None = None
    finish_reason: object = None
    prompt_tokens: object = None
    completion_tokens: object = None
    logprobs: object = None


class Unreadable(Exception):  # noqa: N818 - it becomes a completion, never an error of a run
    """A body that is not what the API promises; the message says why."""


def read_body(status: int, body: bytes, take: Callable[[Mapping[str, object]], Said]) -> Completion:
    """Return what a body says; `take` reads the JSON object of an answer that was given (status 2xx)."""
    try:
        return _read(status, body, take)
    except Unreadable as trouble:
        return fail(str(trouble), body)


def _read(status: int, body: bytes, take: Callable[[Mapping[str, object]], Said]) -> Completion:
    if status not in ANSWERED:
        raise Unreadable(_join(f"HTTP {status}", _explain(body)))
    parsed = _parse(body)
    if not isinstance(parsed, Mapping):
        raise Unreadable(f"the body is JSON, but no object: {type(parsed).__name__}")
    if _is_complaint(parsed):
        raise Unreadable(_join("the endpoint reports an error", find_complaint(parsed)))
    return _conclude(take(parsed))


def _explain(body: bytes) -> str:
    try:
        return find_complaint(_parse(body))
    except Unreadable as trouble:
        return str(trouble)


def fail(reason: str, body: bytes = b"") -> Completion:
    """Return the completion of a call that failed: ERROR, why, and what was sent instead of an answer."""
    return Completion(
        None, CompletionStatus.ERROR, error=shorten(reason), raw=cut_raw(body) if body else None
    )


def cut_raw(body: bytes) -> str:
    """Return the first 64 kB of a body as text that any file can hold."""
    text = body[:RAW_BYTES].decode(errors="replace")
    return text.encode()[:RAW_BYTES].decode(errors="ignore")


def shorten(text: str) -> str:
    """Return a text on one line, cut where it gets too long to be read."""
    words = " ".join(mend_text(text).split())
    return words if len(words) <= ERROR_CHARACTERS else f"{words[:ERROR_CHARACTERS]}…"


#: Made once: `json.loads` with `parse_constant` makes a decoder for every reply.
_JSON = json.JSONDecoder(parse_constant=lambda _: None)


def _parse(body: bytes) -> object:
    if has_too_many_parts(body):
        raise Unreadable("the body has more than a million parts")
    try:
        text = body.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise Unreadable("the body is not UTF-8") from None
    try:
        return _JSON.decode(text)
    except (ValueError, RecursionError):
        raise Unreadable(_describe_text(text)) from None


def _describe_text(text: str) -> str:
    start = text.lstrip()[:100]
    if not start:
        return "the body is empty"
    if start.startswith("<"):
        return "the body is HTML, not JSON"
    return "the body is a stream of events, not JSON" if start.startswith("data:") else "the body is not JSON"


def _is_complaint(body: Mapping[str, object]) -> bool:
    return bool(body.get("error")) or "error" in {_word(body.get("object")), _word(body.get("type"))}


def find_complaint(body: object, depth: int = DEPTH) -> str:
    """Return the message of an error body, in any of the usual shapes; "" when there is none."""
    if isinstance(body, str):
        return body
    if depth == 0:
        return ""
    if isinstance(body, list):
        return next((found for one in body if (found := find_complaint(one, depth - 1))), "")
    if not isinstance(body, Mapping):
        return ""
    values = (body.get(key) for key in COMPLAINT_FIELDS)
    return next((found for one in values if (found := find_complaint(one, depth - 1))), "")


def _join(start: str, rest: str) -> str:
    return f"{start}: {rest}" if rest else start


def _conclude(said: Said) -> Completion:
    text = mend_text("\n".join(said.texts)) if said.texts else None
    stated = _word(said.finish_reason)
    end = FINISH_REASONS.get(stated, stated) or None
    status = CompletionStatus.OK if text is not None else CompletionStatus.NO_TEXT
    if said.refusal is not None or (end == "content_filter" and not text):
        text, status = None, CompletionStatus.REFUSED
    return _NOTHING.with_fields(
        text=text,
        status=status,
        reply=None if said.reply is None else make_plain(said.reply),
        finish_reason=end,
        prompt_tokens=read_count(said.prompt_tokens),
        completion_tokens=read_count(said.completion_tokens),
        reasoning=mend_text("\n".join(said.thoughts)) if said.thoughts else None,
        logprobs=to_json_values(said.logprobs) if isinstance(said.logprobs, Mapping) else None,
    )


def _word(value: object) -> str:
    return mend_text(value) if isinstance(value, str) else ""
