"""Parses responses: messages of any origin, and response bodies of each API.

    status, body ──► JSON object ──► message (one `parse_…` per API) ──► Completion

A response that cannot be read becomes a completion with status ERROR, with the reason in `error`
and the body in `raw`. Nothing is ever raised, and nothing but the model's own text becomes an
answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from answerkey.errors import SolverError
from answerkey.reader.markup import split_thoughts
from answerkey.types import Completion, CompletionStatus

#: A small body can need much memory once it is parsed: each value takes fifty bytes or more.
MAX_PARTS = 1_000_000
#: No call has this many tokens, and the sum of any run fits into 64 bits.
MAX_TOKENS = 1 << 40
#: Replies are not nested more deeply than this.
DEPTH = 8
RAW_BYTES = 65_536
ERROR_CHARACTERS = 500
ANSWERED = range(200, 300)

TEXT_PARTS = frozenset({"text", "output_text", "input_text"})
#: The fields and parts in which endpoints return the thoughts of a reasoning model.
THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking")
THOUGHT_PARTS = frozenset({"thinking", "reasoning", "reasoning_content", "reasoning_text"})
#: The roles of everyone but the model.
OTHER_ROLES = frozenset({"system", "developer", "user", "tool", "function"})
MESSAGE_KEYS = frozenset({"content", "refusal", "tool_calls", "function_call"})
WRAPPER_KEYS = ("choices", "message", "output", "messages", "items")
REPLY_KEYS = MESSAGE_KEYS.union(WRAPPER_KEYS, {"role"})
#: The fields of a message besides its text and its thoughts.
_SAYS_MORE = ("refusal", "tool_calls", "function_call", "audio", "annotations")
#: Finish reasons of other APIs, by those of OpenAI.
FINISH_REASONS: dict[str, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "STOP": "stop",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
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
#: The names of token counts in the APIs, the better name first.
_TOKEN_NAMES = {
    "prompt_tokens": "prompt_tokens",
    "input_tokens": "prompt_tokens",
    "promptTokenCount": "prompt_tokens",
    "completion_tokens": "completion_tokens",
    "output_tokens": "completion_tokens",
    "candidatesTokenCount": "completion_tokens",
    "reasoning_tokens": "reasoning_tokens",
    "thoughtsTokenCount": "reasoning_tokens",
    "cached_tokens": "cached_tokens",
    "cache_read_input_tokens": "cached_tokens",
    "cachedContentTokenCount": "cached_tokens",
    "prompt_cache_hit_tokens": "cached_tokens",
    "cache_write_tokens": "cache_write_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}
#: Anthropic does not include cached tokens in the prompt tokens.
_CACHED_APART = frozenset({"cache_read_input_tokens", "cache_creation_input_tokens"})
_DETAILS = (
    "prompt_tokens_details",
    "input_tokens_details",
    "completion_tokens_details",
    "output_tokens_details",
)
#: The fields of error bodies that may contain the message, the best first.
ERROR_FIELDS = ("error", "message", "detail", "errors", "msg", "type", "code")
#: A JSON object that is read, one that is built, and the messages to a model.
Fields = Mapping[str, object]
Body = dict[str, object]
Messages = Sequence[Fields]
#: `isinstance` recognises a `dict` faster than any other `Mapping`.
_OBJECTS = (dict, Mapping)
_NO_TEXT = Completion(None, CompletionStatus.NO_TEXT)
#: `with_fields` takes a quarter of the time that a new completion takes.
_EMPTY = Completion("")
#: Made once: `json.loads` with `parse_constant` would make a decoder for every reply.
_JSON = json.JSONDecoder(parse_constant=lambda _: None)


class Unreadable(Exception):  # noqa: N818 - it becomes a completion, not an error of the run
    """A body or a message that cannot be read; the text says why."""


# Plain values.


def get_field(value: object, name: str) -> object:
    """Return a field of an object; None if it has none, or is not an object."""
    if isinstance(value, _OBJECTS):
        return value.get(name)
    return None


def list_entries(value: object) -> Sequence[object]:
    """Return a list unchanged; an empty one for anything else."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return value
    return ()


def _is_word_in(value: object, words: frozenset[str]) -> bool:
    """Return whether a value of any type is one of these words."""
    return isinstance(value, str) and value in words


def read_count(value: object) -> int | None:
    """Return a token count; None for anything else, or if it is so large that sums overflow."""
    if type(value) is int and 0 <= value < MAX_TOKENS:
        return value
    return None


def replace_lone_surrogates(text: str) -> str:
    """Return the text with lone surrogates, which no file can hold, replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def to_json_object(message: Fields) -> Body:
    """Return a message as plain JSON values that any file can hold."""
    plain = to_json_values(message)
    if isinstance(plain, dict):
        return plain
    return {"role": str(message.get("role", "assistant"))}


def to_json_values(value: object) -> object:
    """Return a value as plain JSON values that any file can hold; None if nested too deeply."""
    try:
        text = json.dumps(
            value,
            default=str,
            ensure_ascii=False,
            skipkeys=True,
        )
        return _JSON.decode(replace_lone_surrogates(text))
    except (ValueError, RecursionError):
        return None


def parse_json(body: bytes) -> object:
    """Return the JSON value in a body; None if there is none, or if it is nested too deeply."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def shorten(text: str) -> str:
    """Return a text on one line, cut to a readable length."""
    words = " ".join(replace_lone_surrogates(text).split())
    if len(words) <= ERROR_CHARACTERS:
        return words
    return f"{words[:ERROR_CHARACTERS]}…"


def fail(reason: str, body: bytes = b"") -> Completion:
    """Return the completion of a failed call: ERROR, the reason, and the body that was not an
    answer.
    """
    return Completion(
        None,
        CompletionStatus.ERROR,
        error=shorten(reason),
        raw=cut_raw(body) or None,
    )


def cut_raw(body: bytes) -> str:
    """Return the first 64 kB of a body as text that any file can hold."""
    text = body[:RAW_BYTES].decode(errors="replace")
    return text.encode()[:RAW_BYTES].decode(errors="ignore")


# Messages of any origin.


def is_trace(value: object, depth: int = DEPTH) -> bool:
    """Return whether a value has the shape of a reply or of an exchange of messages.

    That is a message with `role` and content, a list of messages, or an object that has one of them
    in `choices`, `messages`, `output`, `message` or `items`.
    """
    if not isinstance(value, Mapping):
        entries = list_entries(value)
        return bool(entries) and all(map(_has_role, entries))
    if "role" in value:
        return not MESSAGE_KEYS.isdisjoint(value)
    if depth == 0:
        return False
    for key in WRAPPER_KEYS:
        inner = value.get(key)
        for entry in (inner, *list_entries(inner)):
            if is_trace(entry, depth - 1):
                return True
    return False


def _has_role(message: object) -> bool:
    return isinstance(message, Mapping) and "role" in message


def read_message(message: object, depth: int = DEPTH) -> Completion:
    """Return the completion in a reply.

    A reply is a text; an OpenAI-like message; a chat completion (its first choice); an object with
    `output` or `messages`; or a list of messages (the assistant's last one). Text parts are joined
    by newlines. A refusal is REFUSED; null, tool calls alone and shapes without text are NO_TEXT.
    """
    if isinstance(message, str):
        return _EMPTY.with_fields(text=replace_lone_surrogates(message))
    if isinstance(message, int | float):
        return Completion(str(message))
    if depth == 0:
        return _NO_TEXT
    if isinstance(message, Mapping):
        if "role" in message or not MESSAGE_KEYS.isdisjoint(message):
            return _read_single(message)
        return _read_wrapped(message, depth - 1)
    return _read_list(list_entries(message), depth - 1)


def _read_single(message: Fields) -> Completion:
    """Return the completion in one message of the assistant, which becomes its `reply`."""
    if _is_word_in(message.get("role"), OTHER_ROLES):
        return _NO_TEXT
    content = message.get("content")
    if isinstance(content, int | float):
        message = {**message, "content": str(content)}
    try:
        completion = _parse_message(message, message.get("stop_reason"))
    except Unreadable:
        completion = _NO_TEXT
    return completion.with_fields(reply=to_json_object(message), finish_reason=None)


def _read_list(messages: Sequence[object], depth: int) -> Completion:
    if messages and all(map(_is_content_part, messages)):
        return _read_single({"role": "assistant", "content": list(messages)})
    for position in reversed(range(len(messages))):
        message = messages[position]
        if not isinstance(message, Mapping):
            continue
        # Without a role, it may be reasoning, a tool call or a search.
        kind = "message" if "role" in message else message.get("type", "message")
        if kind == "message" and message.get("role", "assistant") == "assistant":
            return _add_prompt(read_message(message, depth), messages[:position])
    return _NO_TEXT


def _is_content_part(part: object) -> bool:
    """Return whether a value is text, or a part of a message's content."""
    if isinstance(part, str):
        return True
    if not isinstance(part, Mapping) or "role" in part:
        return False
    kind = part.get("type")
    return kind == "refusal" or _is_word_in(kind, TEXT_PARTS)


def _add_prompt(completion: Completion, earlier: Sequence[object]) -> Completion:
    prompt = [to_json_object(message) for message in earlier if isinstance(message, Mapping)]
    return completion.with_fields(prompt=prompt or completion.prompt)


def _read_wrapped(message: Fields, depth: int) -> Completion:
    """Return the completion in an object around a reply."""
    key = next(filter(message.get, WRAPPER_KEYS), "")
    inner = message.get(key)
    choices = list_entries(inner)
    if key == "choices" and choices and isinstance(choices[0], Mapping):
        choice = choices[0]
        text = choice.get("text")
        completion = read_message(choice.get("message", text), depth)
        end = choice.get("finish_reason")
        completion = _add_ending(completion, end, choice.get("logprobs"))
    else:
        completion = read_message(inner, depth)
    exchange = list_entries(message.get("messages"))
    if completion.prompt is None and "output" in message and exchange:
        # The object has the whole exchange next to the last reply.
        completion = _add_prompt(completion, exchange[:-1])
    return completion.with_fields(**read_usage(message.get("usage")))


def _add_ending(completion: Completion, end: object, logprobs: object) -> Completion:
    """Return a completion with its finish reason; filtered without a text, it is REFUSED."""
    fields: Body = {}
    if isinstance(end, str) and end:
        fields["finish_reason"] = FINISH_REASONS.get(end) or replace_lone_surrogates(end)
    if fields.get("finish_reason") == "content_filter" and not completion.text:
        fields["text"] = None
        fields["status"] = CompletionStatus.REFUSED
    if logprobs is not None and isinstance(logprobs, Mapping):
        fields["logprobs"] = to_json_values(logprobs)
    return completion.with_fields(**fields)


def _parse_message(message: Fields, end: object = None, logprobs: object = None) -> Completion:
    """Return the completion in a message; raise Unreadable if it is not one.

    `reply` is the message without its thoughts, if it has more than one text.
    """
    role = message.get("role")
    if _is_word_in(role, OTHER_ROLES):
        raise Unreadable(f"the message has the role {role!r}, not `assistant`")
    content = message.get("content")
    texts, thoughts, is_refused = _split_content(content)
    thoughts.insert(0, _find_text(message, *THOUGHT_FIELDS))
    if is_refused or end == "refusal" or _find_text(message, "refusal"):
        completion = Completion(None, CompletionStatus.REFUSED)
    else:
        completion = _join_texts(texts, message)
    thought = replace_lone_surrogates("\n".join(filter(None, thoughts)))
    if thought:
        completion = completion.with_fields(reasoning=thought)
    says_more = any(map(message.get, _SAYS_MORE))
    if says_more or not isinstance(content, str):
        reply = dict(message)
        for name in THOUGHT_FIELDS:
            reply.pop(name, None)
        completion = completion.with_fields(reply=to_json_object(reply))
    return _add_ending(completion, end, logprobs)


def _join_texts(texts: Sequence[str], message: Fields) -> Completion:
    """Return the texts of a message as one; blank ones next to a tool call are not an answer."""
    text = replace_lone_surrogates("\n".join(texts))
    calls = message.get("tool_calls") or message.get("function_call")
    if not texts or (calls and not text.strip()):
        return _NO_TEXT
    return _EMPTY.with_fields(text=text)


def _split_content(content: object) -> tuple[list[str], list[str], bool]:
    """Return the texts and the thoughts in a content, and whether it contains a refusal.

    The content is a text, a list of parts, or null.
    """
    texts = []
    thoughts = []
    is_refused = False
    if isinstance(content, str):
        texts.append(content)
        content = None
    if not isinstance(content, list | None):
        name = type(content).__name__
        raise Unreadable(f"the content is neither text nor a list of parts: {name}")
    for part in content or ():
        kind = _find_kind(part)
        if kind == "refusal":
            is_refused = True
        elif _is_word_in(kind, THOUGHT_PARTS):
            thoughts.append(_find_text(part, *THOUGHT_FIELDS, "text"))
        elif not isinstance(kind, str) or kind in TEXT_PARTS:
            texts.append(_require_text(part))
    return texts, thoughts, is_refused


def _find_kind(part: object) -> object:
    """Return the type of a part of a content; without a `type`, it is text."""
    if isinstance(part, Mapping):
        return part.get("type", "text")
    return "text"


def _require_text(part: object) -> str:
    """Return the text of a part: the part itself, its `text`, or the `value` of that."""
    for name in ("text", "value"):
        if isinstance(part, Mapping):
            part = part.get(name)
    if not isinstance(part, str):
        raise Unreadable("a part of the content has no text")
    return part


def _find_text(part: object, *names: str) -> str:
    """Return the text of the first of these fields that has one, or has parts with one; else ""."""
    if not isinstance(part, _OBJECTS):
        return ""
    for value in filter(None, map(part.get, names)):
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            texts = [_find_text(entry, "text") for entry in value]
            return "\n".join(filter(None, texts))
    return ""


def read_text(message: Fields) -> str:
    """Return the text of a message, with parts joined by newlines.

    Raises SolverError E302 for anything that is not text.
    """
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        raise SolverError("E302", f"a message's content is not text: {type(content).__name__}")
    texts = []
    for part in content:
        kind = _find_kind(part)
        try:
            text = _require_text(part)
        except Unreadable:
            kind = None
        if not _is_word_in(kind, TEXT_PARTS):
            raise SolverError("E302", f"a part of a message's content is not text: {kind!r}")
        texts.append(text)
    return "\n".join(texts)


def read_usage(usage: object) -> dict[str, int | None]:
    """Return the token counts that an endpoint reports, by `USAGE_NAMES`."""
    if not isinstance(usage, _OBJECTS):
        return {}
    counts = dict(usage)
    for details in filter(None, map(usage.get, _DETAILS)):
        if isinstance(details, Mapping):
            counts = {**details, **counts}
    tokens: dict[str, int | None] = {}
    for name in filter(counts.__contains__, _TOKEN_NAMES):
        tokens.setdefault(_TOKEN_NAMES[name], read_count(counts[name]))
    _add_thoughts(tokens, counts)
    prompt = tokens.get("prompt_tokens")
    if prompt is not None and not _CACHED_APART.isdisjoint(counts):
        read = tokens.get("cached_tokens") or 0
        written = tokens.get("cache_write_tokens") or 0
        tokens["prompt_tokens"] = prompt + read + written
    return tokens


def _add_thoughts(tokens: dict[str, int | None], counts: Fields) -> None:
    """Add the thoughts to the tokens of the completion, for APIs that count them separately."""
    thoughts = tokens.get("reasoning_tokens") or 0
    if not thoughts:
        return
    completion = tokens.get("completion_tokens") or 0
    total = (tokens.get("prompt_tokens") or 0) + completion + thoughts
    if "thoughtsTokenCount" in counts or counts.get("total_tokens") == total:
        tokens["completion_tokens"] = completion + thoughts


# Thoughts in the text of a completion.


def split_reasoning(completion: Completion) -> Completion:
    """Return a completion without the thoughts in its text; `raw` is the original text."""
    if completion.text is None:
        return completion
    parts = split_thoughts(completion.text)
    if parts is None:
        return completion
    thoughts, text = parts
    all_thoughts = filter(None, (completion.reasoning, thoughts))
    return completion.with_fields(
        text=text,
        reasoning="\n".join(all_thoughts),
        raw=completion.raw or completion.text,
    )


# Response bodies.


def has_too_many_parts(body: bytes) -> bool:
    """Return whether parsing a JSON body would take far more memory than any answer needs.

    Each part has a comma or a bracket. Texts contain them too, but no answer contains a million.
    """
    if len(body) <= MAX_PARTS:
        return False
    parts = body.count(b",")
    parts += body.count(b"[") + body.count(b"{")
    return parts > MAX_PARTS


def read_body(status: int, body: bytes, take: Callable[[Fields], Completion]) -> Completion:
    """Return the completion in a body; `take` reads the JSON object of a successful response."""
    try:
        value = _parse(body)
        if status not in ANSWERED:
            reason = find_error_message(value)
        elif not isinstance(value, dict):
            reason = f"the body is JSON, but not an object: {type(value).__name__}"
        elif value.get("error") or _is_error(value):
            reason = f"the endpoint reports an error: {find_error_message(value)}".removesuffix(
                ": "
            )
        else:
            usage = value.get("usage") or value.get("usageMetadata")
            return take(value).with_fields(**read_usage(usage))
    except Unreadable as error:
        reason = str(error)
    if status not in ANSWERED:
        reason = f"HTTP {status}: {reason}".removesuffix(": ")
    return fail(reason, body)


def _is_error(value: Fields) -> bool:
    return value.get("object") == "error" or value.get("type") == "error"


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
        start = text.lstrip()[:5]
        reason = "the body is not JSON"
        if not start:
            reason = "the body is empty"
        elif start.startswith("<"):
            reason = "the body is HTML, not JSON"
        elif start == "data:":
            reason = "the body is a stream of events, not JSON"
        raise Unreadable(reason) from None


def find_error_message(body: object, depth: int = DEPTH) -> str:
    """Return the message in an error body of any usual shape; "" if there is none."""
    if isinstance(body, str):
        return body
    values: Sequence[object] = ()
    if depth and isinstance(body, list):
        values = body
    elif depth and isinstance(body, Mapping):
        values = [body.get(key) for key in ERROR_FIELDS]
    for value in values:
        message = find_error_message(value, depth - 1)
        if message:
            return message
    return ""


def parse_chat(body: Fields) -> Completion:
    """Return the first choice of a chat completion."""
    choice, end = _first_answer(body, "choices", "finish_reason")
    if choice is None:
        return _NO_TEXT
    message = choice.get("message")
    if not isinstance(message, dict):
        raise Unreadable("the first choice has no `message`")
    return _parse_message(message, end, choice.get("logprobs"))


def parse_text(body: Fields) -> Completion:
    """Return the first choice of a text completion."""
    choice, end = _first_answer(body, "choices", "finish_reason")
    text = None if choice is None else choice.get("text", 0)
    if not isinstance(text, str | None):
        raise Unreadable("the first choice has no `text`")
    logprobs = get_field(choice, "logprobs")
    return _parse_message({"content": text}, end, logprobs).with_fields(reply=None)


def parse_anthropic(body: Fields) -> Completion:
    """Return a message of Anthropic's API, with its thinking blocks as reasoning."""
    if "content" not in body:
        raise Unreadable("the body has no `content`")
    message = {"role": "assistant", "content": body["content"]}
    completion = _parse_message(message, body.get("stop_reason"))
    if completion.status is CompletionStatus.OK:
        completion = completion.with_fields(reply=None)
    return completion


def parse_gemini(body: Fields) -> Completion:
    """Return the first candidate of Gemini's API, with its thoughts as reasoning."""
    is_blocked = bool(_find_text(body.get("promptFeedback"), "blockReason"))
    if is_blocked and not body.get("candidates"):
        return Completion(None, CompletionStatus.REFUSED)
    candidate, end = _first_answer(body, "candidates", "finishReason")
    content = get_field(candidate, "content") or {}
    parts = get_field(content, "parts") or []
    if not isinstance(content, dict) or not isinstance(parts, list):
        raise Unreadable("the content of the first candidate is not a list of parts")
    texts = []
    for part in parts:
        if not isinstance(part, dict):
            raise Unreadable("a part of the content is not an object")
        if "text" in part:
            kind = "thinking" if part.get("thought") else "text"
            texts.append({**part, "type": kind})
    return _parse_message({"content": texts}, end).with_fields(reply=None)


def _first_answer(body: Fields, name: str, end_name: str) -> tuple[Fields | None, object]:
    """Return the first entry of a list of answers, or None, and how it ended."""
    answers = body.get(name)
    if not isinstance(answers, list):
        raise Unreadable(f"`{name}` is not a list" if name in body else f"the body has no `{name}`")
    if not answers:
        return None, None
    first = answers[0]
    if not isinstance(first, dict):
        raise Unreadable(f"the first entry of `{name}` is not an object")
    if first.get("error"):
        raise Unreadable(f"the endpoint reports an error: {find_error_message(first['error'])}")
    end = first.get(end_name)
    if end == "error":
        raise Unreadable("the endpoint reports an error in the middle of the answer")
    return first, end
