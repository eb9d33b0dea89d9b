"""Reading a reply, in whatever of the usual shapes it comes; never fails."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from answerkey.types import Completion, CompletionStatus

#: A small body can be large once it is read: each value in it takes fifty bytes and more.
MOST_PARTS = 1_000_000
#: Wrappers inside wrappers deeper than this are nobody's reply.
DEPTH = 8

TEXT_PARTS = frozenset({"text", "output_text", "input_text"})
REFUSED_ENDS = frozenset({"refusal", "content_filter"})
#: Who speaks when it is not the model.
OTHER_ROLES = frozenset({"system", "developer", "user", "tool", "function"})
MESSAGE_KEYS = frozenset({"content", "refusal", "tool_calls", "function_call"})
WRAPPER_KEYS = ("choices", "messages", "output", "message", "items")


def read_message(message: object) -> Completion:
    """Return what a reply says.

    Text; an OpenAI-like message; a whole chat completion (its first choice); an object with `output` or
    `messages`; a list of messages (the last of the assistant). Text parts are joined by a newline. A refusal
    is REFUSED; null, tool calls alone and shapes that hold no text are NO_TEXT.
    """
    return _read(message, DEPTH)


def is_trace(value: object) -> bool:
    """Return whether a value has the shape of a reply or of an exchange of messages.

    A message with `role` and content; a list of messages; an object whose `choices`, `messages`, `output`,
    `message` or `items` is or holds one.
    """
    return _is_trace(value, DEPTH)


def _is_trace(value: object, depth: int) -> bool:
    if isinstance(value, Mapping) and "role" in value:
        return not MESSAGE_KEYS.isdisjoint(value)
    if depth == 0:
        return False
    if isinstance(value, Mapping):
        return any(_holds_trace(value[key], depth - 1) for key in WRAPPER_KEYS if key in value)
    entries = _entries(value)
    return bool(entries) and all(isinstance(one, Mapping) and "role" in one for one in entries)


def _holds_trace(value: object, depth: int) -> bool:
    return _is_trace(value, depth) or any(_is_trace(one, depth) for one in _entries(value))


def _entries(value: object) -> Sequence[object]:
    return value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else ()


def _read(message: object, depth: int) -> Completion:
    if isinstance(message, str):
        return Completion(mend_text(message))
    if message is None or depth == 0:
        return Completion(None, CompletionStatus.NO_TEXT)
    if isinstance(message, Mapping):
        return _read_mapping(message, depth - 1)
    if isinstance(message, Sequence) and not isinstance(message, bytes):
        return _read_list(message, depth - 1)
    if isinstance(message, int | float):
        return Completion(str(message))
    return Completion(None, CompletionStatus.NO_TEXT)


def _read_list(messages: Sequence[object], depth: int) -> Completion:
    if all(isinstance(one, str) or (isinstance(one, Mapping) and _is_part(one)) for one in messages):
        return _read_mapping({"role": "assistant", "content": messages}, depth)
    for position in range(len(messages) - 1, -1, -1):
        one = messages[position]
        if isinstance(one, Mapping) and one.get("role", "assistant") == "assistant" and not _is_aside(one):
            return _with_prompt(_read(one, depth), messages[:position])
    return Completion(None, CompletionStatus.NO_TEXT)


def _is_part(value: Mapping[str, object]) -> bool:
    return "role" not in value and _is_one_of(value.get("type"), TEXT_PARTS | {"refusal"})


def _is_one_of(value: object, words: frozenset[str]) -> bool:
    """Return whether a value is one of some words; it may be anything, also what cannot be hashed."""
    return isinstance(value, str) and value in words


def _is_aside(value: Mapping[str, object]) -> bool:
    """Return whether an entry of a reply is no message: reasoning, a tool call, a search."""
    return "role" not in value and value.get("type", "message") != "message"


def _with_prompt(completion: Completion, earlier: Sequence[object]) -> Completion:
    prompt = [make_plain(one) for one in earlier if isinstance(one, Mapping)]
    return replace(completion, prompt=prompt or completion.prompt)


def _read_mapping(message: Mapping[str, object], depth: int) -> Completion:
    if "role" in message or not MESSAGE_KEYS.isdisjoint(message):
        return _read_one(message)
    choices = message.get("choices")
    if isinstance(choices, Sequence) and choices and isinstance(choices[0], Mapping):
        return _read_choice(choices[0], message, depth)
    for key in ("message", "output", "messages", "items"):
        if key in message:
            return _add_usage(_with_exchange(_read(message[key], depth), message), message)
    return Completion(None, CompletionStatus.NO_TEXT)


def _with_exchange(completion: Completion, holder: Mapping[str, object]) -> Completion:
    """Add the prompt of an object that holds the whole exchange beside the last reply."""
    messages = holder.get("messages")
    if completion.prompt is not None or "output" not in holder or not isinstance(messages, Sequence):
        return completion
    return _with_prompt(completion, messages[:-1])


def _read_choice(choice: Mapping[str, object], holder: Mapping[str, object], depth: int) -> Completion:
    completion = _read(choice.get("message", choice.get("text")), depth)
    end = choice.get("finish_reason")
    logprobs = choice.get("logprobs")
    completion = replace(
        completion,
        finish_reason=mend_text(end) if isinstance(end, str) else None,
        logprobs=to_json_values(logprobs) if isinstance(logprobs, Mapping) else None,
    )
    if _is_one_of(end, REFUSED_ENDS) and not completion.text:
        completion = replace(completion, text=None, status=CompletionStatus.REFUSED)
    return _add_usage(completion, holder)


def _add_usage(completion: Completion, holder: Mapping[str, object]) -> Completion:
    usage = holder.get("usage")
    if not isinstance(usage, Mapping):
        return completion
    asked = read_count(usage.get("prompt_tokens", usage.get("input_tokens")))
    said = read_count(usage.get("completion_tokens", usage.get("output_tokens")))
    return replace(completion, prompt_tokens=asked, completion_tokens=said)


def read_count(value: object) -> int | None:
    """Return a number of tokens; None for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def _read_one(message: Mapping[str, object]) -> Completion:
    if _is_one_of(message.get("role"), OTHER_ROLES):
        return Completion(None, CompletionStatus.NO_TEXT)
    reply = make_plain(message)
    text, is_refused = _read_content(message.get("content"))
    refusal = message.get("refusal")
    if is_refused or (isinstance(refusal, str) and refusal) or message.get("stop_reason") == "refusal":
        return Completion(None, CompletionStatus.REFUSED, reply=reply)
    has_calls = bool(message.get("tool_calls") or message.get("function_call"))
    if text is None or (has_calls and not text.strip()):
        return Completion(None, CompletionStatus.NO_TEXT, reply=reply)
    return Completion(mend_text(text), reply=reply)


def _read_content(content: object) -> tuple[str | None, bool]:
    """Return the text of a message's content (None when it has none) and whether a part of it refuses."""
    if isinstance(content, str):
        return content, False
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        return (str(content) if isinstance(content, int | float) else None), False
    parts = [_read_part(part) for part in content]
    texts = [part for part in parts if part is not None]
    is_refused = any(isinstance(part, Mapping) and part.get("type") == "refusal" for part in content)
    return ("\n".join(texts) if texts else None), is_refused


def _read_part(part: object) -> str | None:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping) or not _is_one_of(part.get("type", "text"), TEXT_PARTS):
        return None
    text = part.get("text")
    text = text.get("value") if isinstance(text, Mapping) else text
    return text if isinstance(text, str) else None


def mend_text(text: str) -> str:
    """Return the text with half surrogate pairs, which no file can hold, as U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def make_plain(message: Mapping[str, object]) -> dict[str, object]:
    """Return a message as plain JSON values that any file can hold."""
    plain = to_json_values(message)
    return plain if isinstance(plain, dict) else {"role": str(message.get("role", "assistant"))}


def to_json_values(value: object) -> object:
    """Return a value as plain JSON values that any file can hold; None for one that is too deep for it."""
    try:
        text = json.dumps(value, default=str, ensure_ascii=False, skipkeys=True)
        plain: object = json.loads(mend_text(text), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return plain


def has_too_many_parts(body: bytes) -> bool:
    """Return whether reading a body of JSON would take far more memory than any answer needs.

    In each part of it there is a comma or a bracket. Texts have them too, but an answer has no million.
    """
    return len(body) > MOST_PARTS and sum(map(body.count, (b",", b"[", b"{"))) > MOST_PARTS
