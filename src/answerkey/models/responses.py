"""Reading responses: any message, and the body of any answer in each API.

Never fails.

    status, body ──► JSON object ──► what was said (one `take_…` per API) ──► Completion

What cannot be read is a completion with status ERROR, the reason in `error` and the body in `raw`;
nothing is ever raised, and nothing that was not said becomes an answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from answerkey.errors import SolverError
from answerkey.reader.markup import split_thoughts
from answerkey.types import USAGE_NAMES, Completion, CompletionStatus

#: A small body can be large once it is read: each value in it takes fifty bytes and more.
MOST_PARTS = 1_000_000
#: No call has so many tokens, and the sum of any run fits into 64 bits.
MOST_TOKENS = 1 << 40
#: Wrappers inside wrappers deeper than this are nobody's reply.
DEPTH = 8

TEXT_PARTS = frozenset({"text", "output_text", "input_text"})
REFUSED_ENDS = frozenset({"refusal", "content_filter"})
#: Who speaks when it is not the model.
OTHER_ROLES = frozenset({"system", "developer", "user", "tool", "function"})
MESSAGE_KEYS = frozenset({"content", "refusal", "tool_calls", "function_call"})
WRAPPER_KEYS = ("choices", "messages", "output", "message", "items")
REPLY_KEYS = MESSAGE_KEYS.union(WRAPPER_KEYS, {"role"})

Found = Mapping[str, object]
#: An instance of `dict` is known at once, one of `Mapping` after a search.
_MAPPINGS = (dict, Mapping)
_NO_TEXT = Completion(None, CompletionStatus.NO_TEXT)


def _is_one_of(value: object, words: frozenset[str]) -> bool:
    """Return whether a value is one of some words.

    It may be anything, also what cannot be hashed.
    """
    return isinstance(value, str) and value in words


def get_field(value: object, name: str) -> object:
    """Return a field of an object; None if it has none, or is none."""
    if isinstance(value, _MAPPINGS):
        return value.get(name)
    return None


def list_entries(value: object) -> Sequence[object]:
    """Return a list as it is; an empty one for anything else."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return value
    return ()


def is_trace(value: object, depth: int = DEPTH) -> bool:
    """Return whether a value has the shape of a reply or of an exchange of messages.

    A message with `role` and content; a list of messages; an object whose `choices`, `messages`,
    `output`, `message` or `items` is or holds one.
    """
    if isinstance(value, Mapping) and "role" in value:
        return not MESSAGE_KEYS.isdisjoint(value)
    if depth == 0:
        return False
    if not isinstance(value, Mapping):
        entries = list_entries(value)
        return bool(entries) and all(map(_has_role, entries))
    for key in WRAPPER_KEYS:
        if key in value:
            entries = [value[key], *list_entries(value[key])]
            if any(is_trace(entry, depth - 1) for entry in entries):
                return True
    return False


def _has_role(message: object) -> bool:
    return isinstance(message, Mapping) and "role" in message


def read_message(message: object, depth: int = DEPTH) -> Completion:
    """Return what a reply says.

    Text; an OpenAI-like message; a whole chat completion (its first choice); an object with
    `output` or `messages`; a list of messages (the last of the assistant). Text parts are joined by
    a newline. A refusal is REFUSED; null, tool calls alone and shapes that hold no text are
    NO_TEXT.
    """
    if isinstance(message, str):
        return Completion(mend_text(message))
    if isinstance(message, int | float):
        return Completion(str(message))
    if depth == 0:
        return _NO_TEXT
    if isinstance(message, Mapping):
        return _read_mapping(message, depth - 1)
    if isinstance(message, Sequence) and not isinstance(message, bytes):
        return _read_list(message, depth - 1)
    return _NO_TEXT


def _read_list(messages: Sequence[object], depth: int) -> Completion:
    if all(map(_is_content_part, messages)):
        return _read_one({"role": "assistant", "content": messages})
    for position in reversed(range(len(messages))):
        message = messages[position]
        if not isinstance(message, Mapping) or message.get("role", "assistant") != "assistant":
            continue
        # Not reasoning, a tool call, a search.
        if "role" in message or message.get("type", "message") == "message":
            return _add_prompt(read_message(message, depth), messages[:position])
    return _NO_TEXT


def _is_content_part(part: object) -> bool:
    """Return whether a value is text, or a part of a message's content."""
    if isinstance(part, str):
        return True
    if not isinstance(part, Mapping) or "role" in part:
        return False
    return _is_one_of(part.get("type"), TEXT_PARTS | {"refusal"})


def _add_prompt(completion: Completion, earlier: Sequence[object]) -> Completion:
    prompt = [make_plain(message) for message in earlier if isinstance(message, Mapping)]
    return replace(completion, prompt=prompt or completion.prompt)


def _read_mapping(message: Found, depth: int) -> Completion:
    if "role" in message or not MESSAGE_KEYS.isdisjoint(message):
        return _read_one(message)
    choices = message.get("choices")
    if isinstance(choices, Sequence) and choices and isinstance(choices[0], Mapping):
        completion = _read_choice(choices[0], depth)
    else:
        for key in ("message", "output", "messages", "items"):
            if key in message:
                completion = _read_wrapped(message, key, depth)
                break
        else:
            return _NO_TEXT
    usage = message.get("usage")
    if not isinstance(usage, Mapping):
        return completion
    prompt_tokens = read_count(usage.get("prompt_tokens", usage.get("input_tokens")))
    name = "completion_tokens" if "completion_tokens" in usage else "output_tokens"
    tokens = (prompt_tokens, *map(read_count, _count_said(usage, name)))
    return completion.with_fields(**dict(zip(USAGE_NAMES, tokens, strict=True)))


def _read_choice(choice: Found, depth: int) -> Completion:
    """Return what one choice of a chat or text completion says."""
    completion = read_message(choice.get("message", choice.get("text")), depth)
    end = choice.get("finish_reason")
    logprobs = choice.get("logprobs")
    completion = replace(
        completion,
        finish_reason=mend_text(end) if isinstance(end, str) else None,
        logprobs=to_json_values(logprobs) if isinstance(logprobs, Mapping) else None,
    )
    if _is_one_of(end, REFUSED_ENDS) and not completion.text:
        completion = replace(completion, text=None, status=CompletionStatus.REFUSED)
    return completion


def _read_wrapped(message: Found, key: str, depth: int) -> Completion:
    completion = read_message(message[key], depth)
    exchange = message.get("messages")
    if completion.prompt is None and "output" in message and isinstance(exchange, Sequence):
        # It holds the whole beside the last reply.
        completion = _add_prompt(completion, exchange[:-1])
    return completion


def read_count(value: object) -> int | None:
    """Return a number of tokens; None for what is none, or so large that sums would overflow."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if 0 <= value < MOST_TOKENS:
        return value
    return None


def _read_one(message: Found) -> Completion:
    """Return what one message of the assistant says."""
    if _is_one_of(message.get("role"), OTHER_ROLES):
        return _NO_TEXT
    content = message.get("content")
    parts = list_entries(content)
    reasoning = _join_thoughts(message, parts)
    reply = make_plain(message)
    if _is_refusal(message, parts):
        return Completion(None, CompletionStatus.REFUSED, reply=reply, reasoning=reasoning)
    texts = [text for part in parts if (text := _find_part(part)) is not None]
    if isinstance(content, str | int | float):
        texts = [str(content)]
    text = "\n".join(texts)
    if not texts or (_has_calls(message) and not text.strip()):
        return Completion(None, CompletionStatus.NO_TEXT, reply=reply, reasoning=reasoning)
    return Completion(mend_text(text), reply=reply, reasoning=reasoning)


def _join_thoughts(message: Found, parts: Sequence[object]) -> str | None:
    thoughts = [_find_thought(message, *THOUGHT_FIELDS)]
    for part in parts:
        if _is_one_of(get_field(part, "type"), THOUGHT_PARTS):
            thoughts.append(_find_thought(part, *THOUGHT_FIELDS, "text"))
    return mend_text("\n".join(filter(None, thoughts))) or None


def _is_refusal(message: Found, parts: Sequence[object]) -> bool:
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        return True
    if message.get("stop_reason") == "refusal":
        return True
    return any(get_field(part, "type") == "refusal" for part in parts)


def _has_calls(message: Found) -> bool:
    return bool(message.get("tool_calls") or message.get("function_call"))


def take_out_thoughts(completion: Completion) -> Completion:
    """Return a completion with the thoughts of its text apart; `raw` is the text as it was."""
    if completion.text is None:
        return completion
    parts = split_thoughts(completion.text)
    if parts is None:
        return completion
    thoughts, text = parts
    return replace(
        completion,
        text=text,
        reasoning="\n".join(filter(None, (completion.reasoning, thoughts))),
        raw=completion.raw or completion.text,
    )


#: The field of the JSON object that a reply is asked for, where an endpoint takes no bare choices.
ANSWER = "answer"


def take_off_prefill(completion: Completion, prefill: str) -> Completion:
    """Return a completion without the text that its reply was begun with, which some endpoints
    repeat.
    """
    text = completion.text
    if text is None or not text.startswith(prefill):
        return completion
    return replace(completion, text=text.removeprefix(prefill), raw=text)


def take_off_envelope(completion: Completion) -> Completion:
    """Return a completion whose text is the bare choice.

    What is not the JSON object we ask for stays.
    """
    try:
        value = json.loads(completion.text or "")
    except (ValueError, RecursionError):
        return completion
    if not isinstance(value, dict) or value.keys() != {ANSWER}:
        return completion
    answer = value[ANSWER]
    if not isinstance(answer, str):
        return completion
    return replace(completion, text=mend_text(answer), raw=completion.raw or completion.text)


def _find_part(part: object) -> str | None:
    """Return the text of a part of a message's content; None for a part of another kind."""
    is_text = not isinstance(part, Mapping) or _is_one_of(part.get("type", "text"), TEXT_PARTS)
    if is_text:
        return _find_text(part)
    return None


def _find_text(part: object) -> str | None:
    """Return a part that is text, its `text`, or the `value` of that."""
    for name in ("text", "value"):
        part = part.get(name) if isinstance(part, Mapping) else part
    if isinstance(part, str):
        return part
    return None


def read_text(message: Found) -> str:
    """Return the text of a message, parts joined by a newline.

    SolverError E302 for anything else in it.
    """
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        raise SolverError("E302", f"a message's content is not text: {type(content).__name__}")
    texts: list[str] = []
    for part in content:
        if (text := _find_part(part)) is None:
            kind = part.get("type", "text") if isinstance(part, Mapping) else None
            raise SolverError("E302", f"a part of a message's content is not text: {kind!r}")
        texts.append(text)
    return "\n".join(texts)


def mend_text(text: str) -> str:
    """Return the text with half surrogate pairs, which no file can hold, as U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def make_plain(message: Found) -> dict[str, object]:
    """Return a message as plain JSON values that any file can hold."""
    plain = to_json_values(message)
    if isinstance(plain, dict):
        return plain
    return {"role": str(message.get("role", "assistant"))}


def to_json_values(value: object) -> object:
    """Return a value as plain JSON values that any file can hold.

    None for one that is too deep for it.
    """
    try:
        text = json.dumps(value, default=str, ensure_ascii=False, skipkeys=True)
        plain: object = json.loads(mend_text(text), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return plain


# The bodies of answers.

RAW_BYTES = 65_536
ERROR_CHARACTERS = 500
ANSWERED = range(200, 300)
#: How the APIs name the ends of a completion, in the words of one of them.
FINISH_REASONS: dict[str, str] = {
    **dict.fromkeys(("end_turn", "stop_sequence", "STOP"), "stop"),
    **dict.fromkeys(("max_tokens", "max_output_tokens", "MAX_TOKENS"), "length"),
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    **dict.fromkeys(("refusal", "SAFETY", "RECITATION", "BLOCKLIST"), "content_filter"),
    **dict.fromkeys(("PROHIBITED_CONTENT", "SPII"), "content_filter"),
}
#: Where error bodies say what is wrong, the best place first.
COMPLAINT_FIELDS = ("error", "message", "detail", "errors", "msg", "type", "code")
_NOTHING = Completion(None)
#: Made once: `json.loads` with `parse_constant` makes a decoder for every reply.
_JSON = json.JSONDecoder(parse_constant=lambda _: None)


class Unreadable(Exception):  # noqa: N818 - it becomes a completion, never an error of a run
    """A body that is not what the API promises; the message says why."""


def has_too_many_parts(body: bytes) -> bool:
    """Return whether reading a body of JSON would take far more memory than any answer needs.

    In each part of it there is a comma or a bracket. Texts have them too, but an answer has no
    million.
    """
    return len(body) > MOST_PARTS and sum(map(body.count, (b",", b"[", b"{"))) > MOST_PARTS


def read_body(status: int, body: bytes, take: Callable[[Found], Completion]) -> Completion:
    """Return what a body says.

    `take` reads the JSON object of an answer that was given (status 2xx).
    """
    try:
        value = _parse(body)
        if status not in ANSWERED:
            reason = find_complaint(value)
        elif not isinstance(value, Mapping):
            reason = f"the body is JSON, but no object: {type(value).__name__}"
        elif value.get("error") or "error" in (value.get("object"), value.get("type")):
            reason = _join("the endpoint reports an error", find_complaint(value))
        else:
            return take(value)
    except Unreadable as error:
        reason = str(error)
    if status not in ANSWERED:
        reason = _join(f"HTTP {status}", reason)
    return fail(reason, body)


def _join(start: str, reason: str) -> str:
    if reason:
        return f"{start}: {reason}"
    return start


def _say(
    texts: Sequence[str],
    thoughts: Sequence[str] = (),
    *,
    end: object,
    tokens: Sequence[object],
    refusal: str | None = None,
    reply: Found | None = None,
    logprobs: object = None,
) -> Completion:
    """Return what an answer says. `texts` and `thoughts` are its parts in order.

    `refusal` is the text of a refusal, "" for one without words. `reply` is the whole message where
    it says more than its text. `tokens` are those of the prompt, of the completion, of its
    thoughts, those that were read from the provider's prompt cache, and those that were written to
    it.
    """
    text = mend_text("\n".join(texts)) if texts else None
    ended = mend_text(end) if isinstance(end, str) else ""
    ended = FINISH_REASONS.get(ended, ended)
    status = CompletionStatus.OK if text is not None else CompletionStatus.NO_TEXT
    if refusal is not None or (ended == "content_filter" and not text):
        text = None
        status = CompletionStatus.REFUSED
    return _NOTHING.with_fields(
        text=text,
        status=status,
        reply=None if reply is None else make_plain(reply),
        finish_reason=ended or None,
        **dict(zip(USAGE_NAMES, map(read_count, tokens), strict=True)),
        reasoning=mend_text("\n".join(thoughts)) if thoughts else None,
        logprobs=to_json_values(logprobs) if isinstance(logprobs, Mapping) else None,
    )


def fail(reason: str, body: bytes = b"") -> Completion:
    """Return the completion of a call that failed: ERROR, why, and what was sent instead of an
    answer.
    """
    raw = cut_raw(body) if body else None
    return Completion(None, CompletionStatus.ERROR, error=shorten(reason), raw=raw)


def cut_raw(body: bytes) -> str:
    """Return the first 64 kB of a body as text that any file can hold."""
    text = body[:RAW_BYTES].decode(errors="replace")
    return text.encode()[:RAW_BYTES].decode(errors="ignore")


def shorten(text: str) -> str:
    """Return a text on one line, cut where it gets too long to be read."""
    words = " ".join(mend_text(text).split())
    if len(words) <= ERROR_CHARACTERS:
        return words
    return f"{words[:ERROR_CHARACTERS]}…"


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


def find_complaint(body: object, depth: int = DEPTH) -> str:
    """Return the message of an error body, in any of the usual shapes; "" when there is none."""
    if isinstance(body, str):
        return body
    values: Sequence[object] = ()
    if depth and isinstance(body, list):
        values = body
    elif depth and isinstance(body, Mapping):
        values = [body.get(key) for key in COMPLAINT_FIELDS]
    for value in values:
        complaint = find_complaint(value, depth - 1)
        if complaint:
            return complaint
    return ""


# What an answer says, in each API.

#: Where endpoints put what a reasoning model thought, beside the content.
THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking")
THOUGHT_PARTS = frozenset({"thinking", "reasoning", "reasoning_content", "reasoning_text"})
_SAYS_MORE = ("refusal", "tool_calls", "function_call", "audio", "annotations")
_BESIDE_CONTENT = (*THOUGHT_FIELDS, *_SAYS_MORE)


def take_chat(body: Found) -> Completion:
    """Return what the first choice of a chat completion says."""
    choice, about = _take_choice(body)
    if choice is None:
        return _say((), **about)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise Unreadable("the first choice has no `message`")
    role = message.get("role")
    if _is_one_of(role, OTHER_ROLES):
        raise Unreadable(f"the message is of the role {role!r}, not the assistant's")
    content = message.get("content")
    if isinstance(content, str) and not any(map(message.get, _BESIDE_CONTENT)):  # nearly all are so
        return _say((content,), **about)
    return _take_message(message, about)


def _take_message(message: dict[str, object], about: dict[str, Any]) -> Completion:
    """Return what a message says that has more than a text."""
    content = message.get("content")
    texts, thoughts, refusal = _take_parts(content)
    own_thoughts = _find_thought(message, *THOUGHT_FIELDS)
    if own_thoughts:
        thoughts.insert(0, own_thoughts)
    own_refusal = message.get("refusal")
    if refusal is None and isinstance(own_refusal, str) and own_refusal:
        refusal = own_refusal
    if _has_calls(message) and not any(map(str.strip, texts)):
        texts = []
    reply = None
    if not isinstance(content, str) or any(map(message.get, _SAYS_MORE)):
        # It says more than one text, and is kept without its thoughts.
        reply = {name: value for name, value in message.items() if name not in THOUGHT_FIELDS}
    return _say(texts, thoughts, refusal=refusal, reply=reply, **about)


def take_text(body: Found) -> Completion:
    """Return what the first choice of a text completion says."""
    choice, about = _take_choice(body)
    text = None if choice is None else choice.get("text", 0)
    if not isinstance(text, str | None):
        raise Unreadable("the first choice has no `text`")
    return _say(() if text is None else (text,), **about)


def _take_choice(body: Found) -> tuple[Found | None, dict[str, Any]]:
    """Return the first choice, and what `_say` is told beside its text."""
    choice, end = _take_first(body, "choices", "finish_reason")
    usage = body.get("usage")
    tokens = get_field(usage, "prompt_tokens"), *_count_said(usage, "completion_tokens")
    return choice, {"end": end, "tokens": tokens, "logprobs": get_field(choice, "logprobs")}


def take_responses(body: Found) -> Completion:
    """Return what the last message of OpenAI's Responses API says.

    Reasoning items are apart from the text. A response that is incomplete ended at the limit of
    tokens, or by the content filter.
    """
    items = body.get("output")
    if not isinstance(items, list):
        raise Unreadable("`output` is no list" if "output" in body else "the body has no `output`")
    if body.get("status") in ("failed", "cancelled"):
        raise Unreadable(f"the response is {body['status']}")
    message, thoughts = _take_items(items)
    content = get_field(message, "content")
    texts, further_thoughts, refusal = _take_parts(content)
    if body.get("status") == "incomplete":
        end = get_field(body.get("incomplete_details"), "reason")
    elif message is None and len(items) > len(thoughts):
        end = "tool_calls"
    else:
        end = "stop"
    tokens: list[object] = []
    for part in list_entries(content):
        tokens += list_entries(get_field(part, "logprobs"))
    usage = body.get("usage")
    return _say(
        texts,
        [*thoughts, *further_thoughts],
        end=end,
        tokens=(get_field(usage, "input_tokens"), *_count_said(usage, "output_tokens")),
        refusal=refusal,
        reply=message if refusal is not None else None,
        logprobs={"content": tokens} if tokens else None,
    )


def _take_items(items: Sequence[object]) -> tuple[Found | None, list[str]]:
    """Return the last message among the items of a response, and the thoughts of all."""
    message: Found | None = None
    thoughts: list[str] = []
    for item in items:
        if get_field(item, "type") == "reasoning":
            thought = _find_thought(item, "content") or _find_thought(item, "summary")
            if thought:
                thoughts.append(thought)
        elif isinstance(item, Mapping) and item.get("type", "message") == "message":
            message = item
    return message, thoughts


def take_anthropic(body: Found) -> Completion:
    """Return what a message of Anthropic's API says; thinking blocks are apart from the text."""
    if "content" not in body:
        raise Unreadable("the body has no `content`")
    usage = body.get("usage")
    end = body.get("stop_reason")
    texts, thoughts, refusal = _take_parts(body["content"])
    refusal = "\n".join(texts) if end == "refusal" else refusal
    reply = {"role": "assistant", "content": body["content"]}
    # Anthropic counts the tokens that were cached apart from the others.
    prompt_tokens = _add_counts(
        usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"
    )
    return _say(
        texts,
        thoughts,
        end=end,
        tokens=(prompt_tokens, *_count_said(usage, "output_tokens")),
        refusal=refusal,
        reply=reply if refusal is not None or not texts else None,
    )


def take_gemini(body: Found) -> Completion:
    """Return what the first candidate of Gemini's API says; thoughts are apart from the text."""
    refusal = get_field(body.get("promptFeedback"), "blockReason")
    if not isinstance(refusal, str) or not refusal:
        refusal = None
    candidate: Found | None = None
    end: object = None
    if "candidates" in body or refusal is None:
        candidate, end = _take_first(body, "candidates", "finishReason")
    texts, thoughts = _take_gemini_parts(get_field(candidate, "content"))
    return _say(
        texts,
        thoughts,
        end=end,
        tokens=_count_gemini(body.get("usageMetadata")),
        refusal=refusal,
        logprobs=get_field(candidate, "logprobsResult"),
    )


def _take_gemini_parts(content: object) -> tuple[list[str], list[str]]:
    """Return the texts and the thoughts of a candidate's content."""
    parts = content.get("parts", []) if isinstance(content, dict) else []
    if not isinstance(content, dict | None) or not isinstance(parts, list):
        raise Unreadable("the content of the first candidate is no list of parts")
    texts: list[str] = []
    thoughts: list[str] = []
    for part in parts:
        if not isinstance(part, dict):
            raise Unreadable("a part of the content is no object")
        if "text" not in part:
            continue
        if part.get("thought"):
            thoughts.append(_require_text(part))
        else:
            texts.append(_require_text(part))
    return texts, thoughts


def _count_gemini(usage: object) -> Sequence[object]:
    """Return the tokens: Gemini counts the thoughts apart, and says nothing of an answer that was
    not begun.
    """
    completion_tokens = get_field(usage, "candidatesTokenCount")
    thought_tokens = read_count(get_field(usage, "thoughtsTokenCount"))
    if thought_tokens is not None:
        completion_tokens = (read_count(completion_tokens) or 0) + thought_tokens
    prompt_tokens = get_field(usage, "promptTokenCount")
    return prompt_tokens, completion_tokens, thought_tokens, *_count_cached(usage)


def _take_first(body: Found, name: str, end_name: str) -> tuple[Found | None, object]:
    """Return the first entry of a list of answers, None for an empty list, and how it ended."""
    answers = body.get(name)
    if not isinstance(answers, list):
        raise Unreadable(f"`{name}` is no list" if name in body else f"the body has no `{name}`")
    if not answers:
        return None, None
    first = answers[0]
    if not isinstance(first, dict):
        raise Unreadable(f"the first of `{name}` is no object")
    if first.get("error"):
        raise Unreadable(f"the endpoint reports an error: {find_complaint(first['error'])}")
    end = first.get(end_name)
    if end == "error":
        raise Unreadable("the endpoint reports an error in the middle of the answer")
    return first, end


def _take_parts(content: object) -> tuple[list[str], list[str], str | None]:
    """Return texts, thoughts and refusal of a message's content: text, a list of parts, or null."""
    if content is None:
        return [], [], None
    if isinstance(content, str):
        return [content], [], None
    if not isinstance(content, list):
        raise Unreadable(
            f"the content is neither text nor a list of parts: {type(content).__name__}"
        )
    texts: list[str] = []
    thoughts: list[str] = []
    refusal = None
    for part in content:
        kind = part.get("type", "text") if isinstance(part, dict) else "text"
        if kind == "refusal":
            refusal = _find_thought(part, "refusal")
        elif _is_one_of(kind, THOUGHT_PARTS):
            thought = _find_thought(part, *THOUGHT_FIELDS, "text")
            if thought:
                thoughts.append(thought)
        elif not isinstance(kind, str) or kind in TEXT_PARTS:
            texts.append(_require_text(part))
    return texts, thoughts, refusal


def _require_text(part: object) -> str:
    if (text := _find_text(part)) is None:
        raise Unreadable("a part of the content has no text")
    return text


def _find_thought(part: object, *names: str) -> str:
    """Return the text under the first of some names that has one, also as a list of parts.

    "" without.
    """
    for name in names:
        value = get_field(part, name)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            texts = [_find_thought(entry, "text") for entry in value]
            return "\n".join(filter(None, texts))
    return ""


def _count_said(usage: object, name: str) -> Sequence[object]:
    """Return the tokens of a completion, with those of its thoughts, which some count apart.

    And these. Then come the tokens of the prompt that were read from the provider's cache, and
    those written to it.
    """
    if not isinstance(usage, _MAPPINGS):
        return None, None, None, None
    completion_tokens = usage.get(name)
    thought_tokens = get_field(usage.get(f"{name}_details"), "reasoning_tokens")
    if thought_tokens is None:
        thought_tokens = usage.get("reasoning_tokens")
    thought_tokens = read_count(thought_tokens)
    if thought_tokens:
        total = _add_counts(usage, name, "prompt_tokens", "input_tokens")
        if total is not None and usage.get("total_tokens") == total + thought_tokens:
            completion_tokens = (read_count(completion_tokens) or 0) + thought_tokens
    return completion_tokens, thought_tokens, *_count_cached(usage)


#: How the APIs name the tokens of a prompt that were read from their cache, and those written to
#: it.
_READ_NAMES = (
    "cached_tokens",
    "cache_read_input_tokens",
    "cachedContentTokenCount",
    "prompt_cache_hit_tokens",
)
_WRITTEN_NAMES = ("cache_write_tokens", "cache_creation_input_tokens")


def _count_cached(usage: object) -> tuple[object, object]:
    """Return how many tokens of a prompt were read from the provider's cache, and how many written
    to it.
    """
    details = ("prompt_tokens_details", "input_tokens_details")
    holders = [*(get_field(usage, name) for name in reversed(details)), usage]
    return _find_first(holders, _READ_NAMES), _find_first(holders, _WRITTEN_NAMES)


def _find_first(holders: Sequence[object], names: Sequence[str]) -> object:
    for name in names:
        for holder in holders:
            if isinstance(holder, dict) and name in holder:
                return holder[name]
    return None


def _add_counts(usage: object, name: str, *further_names: str) -> int | None:
    total = get_field(usage, name)
    if not isinstance(total, int) or isinstance(total, bool):
        return None
    for further_name in further_names:
        count = get_field(usage, further_name)
        if isinstance(count, int):
            total += count
    return total
