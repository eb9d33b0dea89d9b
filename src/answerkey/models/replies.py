"""What an answer says in each API: chat and text completions, Anthropic's messages, Gemini's candidates.

Each function reads the JSON object of an answer and raises `Unreadable` for one that is not as its API says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from answerkey.models.message import OTHER_ROLES, TEXT_PARTS
from answerkey.models.reading import Said, Unreadable, find_complaint

#: Objects that JSON was read from are dicts, and asking for those is quick.
Found = Mapping[str, object]
MISSING = object()

#: Where endpoints put what a reasoning model thought, beside the content.
THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking")
THOUGHT_PARTS = frozenset({"thinking", "reasoning", "reasoning_content", "reasoning_text"})
_SAYS_MORE = ("refusal", "tool_calls", "function_call", "audio", "annotations")
_BESIDE_CONTENT = (*THOUGHT_FIELDS, *_SAYS_MORE)


def take_chat(body: Found) -> Said:
    """Return what the first choice of a chat completion says."""
    usage = _take_usage(body)
    choice = _take_first(body, "choices")
    if choice is None:
        return Said(
            prompt_tokens=usage.get("prompt_tokens"), completion_tokens=usage.get("completion_tokens")
        )
    message = choice.get("message")
    if not isinstance(message, dict):
        raise Unreadable("the first choice has no `message`")
    role = message.get("role")
    if isinstance(role, str) and role in OTHER_ROLES:
        raise Unreadable(f"the message is of the role {role!r}, not the assistant's")
    texts, thoughts, refusal, reply = _take_message(message)
    return Said(
        texts,
        thoughts,
        refusal,
        reply,
        _take_end(choice),
        usage.get("prompt_tokens"),
        usage.get("completion_tokens"),
        choice.get("logprobs"),
    )


def _take_message(message: Found) -> tuple[Sequence[str], Sequence[str], str | None, Found | None]:
    """Return the texts, the thoughts, the refusal and what there is beside them."""
    content = message.get("content")
    if isinstance(content, str) and not any(map(message.get, _BESIDE_CONTENT)):  # nearly all are so
        return [content], (), None, None
    parts = _take_parts(content)
    thoughts = [*_take_thoughts(message), *parts.thoughts]
    refusal = _take_refusal(message) if parts.refusal is None else parts.refusal
    texts = parts.texts if any(text.strip() for text in parts.texts) or not _has_calls(message) else ()
    return texts, thoughts, refusal, _keep_reply(message)


def take_text(body: Found) -> Said:
    """Return what the first choice of a text completion says."""
    usage = _take_usage(body)
    choice = _take_first(body, "choices")
    text = None if choice is None else choice.get("text", MISSING)
    if not isinstance(text, str | None):
        raise Unreadable("the first choice has no `text`")
    return Said(
        texts=[text] if isinstance(text, str) else (),
        finish_reason=None if choice is None else _take_end(choice),
        prompt_tokens=usage.get("prompt_tokens"),
        completion_tokens=usage.get("completion_tokens"),
        logprobs=None if choice is None else choice.get("logprobs"),
    )


def take_anthropic(body: Found) -> Said:
    """Return what a message of Anthropic's API says; thinking blocks are apart from the text."""
    if "content" not in body:
        raise Unreadable("the body has no `content`")
    usage = _take_usage(body)
    parts = _take_parts(body["content"])
    end = body.get("stop_reason")
    refusal = "\n".join(parts.texts) if end == "refusal" else parts.refusal
    reply = {"role": "assistant", "content": body["content"]}
    return Said(
        texts=parts.texts,
        thoughts=parts.thoughts,
        refusal=refusal,
        reply=reply if refusal is not None or not parts.texts else None,
        finish_reason=end,
        prompt_tokens=_add_cached(usage),
        completion_tokens=usage.get("output_tokens"),
    )


def take_gemini(body: Found) -> Said:
    """Return what the first candidate of Gemini's API says; thoughts are apart from the text."""
    usage = body.get("usageMetadata")
    usage = usage if isinstance(usage, dict) else {}
    blocked = _take_block(body)
    has_candidates = "candidates" in body
    if not has_candidates and blocked is None:
        raise Unreadable("the body has no `candidates`")
    candidate = _take_first(body, "candidates") if has_candidates else None
    content = None if candidate is None else candidate.get("content")
    parts = _take_gemini_parts(content)
    return Said(
        texts=parts.texts,
        thoughts=parts.thoughts,
        refusal=blocked,
        finish_reason=None if candidate is None else _take_end(candidate, "finishReason"),
        prompt_tokens=usage.get("promptTokenCount"),
        completion_tokens=_add_counts(usage.get("candidatesTokenCount"), usage.get("thoughtsTokenCount")),
        logprobs=None if candidate is None else candidate.get("logprobsResult"),
    )


def _take_usage(body: Found) -> Found:
    usage = body.get("usage")
    return usage if isinstance(usage, dict) else {}


def _take_first(body: Found, name: str) -> Found | None:
    """Return the first entry of a list of answers, None for an empty list."""
    found = body.get(name)
    if not isinstance(found, list):
        raise Unreadable(f"`{name}` is no list" if name in body else f"the body has no `{name}`")
    if not found:
        return None
    first = found[0]
    if not isinstance(first, dict):
        raise Unreadable(f"the first of `{name}` is no object")
    if first.get("error"):
        raise Unreadable(f"the endpoint reports an error: {find_complaint(first['error'])}")
    return first


def _take_end(choice: Found, name: str = "finish_reason") -> object:
    end = choice.get(name)
    if end == "error":
        raise Unreadable("the endpoint reports an error in the middle of the answer")
    return end


def _take_parts(content: object) -> Said:
    """Return the texts and thoughts of a message's content: text, a list of parts, or null."""
    if content is None:
        return Said()
    if isinstance(content, str):
        return Said(texts=[content])
    if not isinstance(content, list):
        raise Unreadable(f"the content is neither text nor a list of parts: {type(content).__name__}")
    texts, thoughts, refusal = [], [], None
    for part in content:
        kind = part.get("type", "text") if isinstance(part, dict) else "text"
        if kind == "refusal":
            refusal = _find_text(part, "refusal")
        elif isinstance(kind, str) and kind in THOUGHT_PARTS:
            thoughts.append(_find_text(part, *THOUGHT_FIELDS, "text"))
        elif not isinstance(kind, str) or kind in TEXT_PARTS:
            texts.append(_require_text(part))
    return Said(texts=texts, thoughts=[one for one in thoughts if one], refusal=refusal)


def _require_text(part: object) -> str:
    text = part.get("text") if isinstance(part, dict) else part
    text = text.get("value") if isinstance(text, dict) else text
    if not isinstance(text, str):
        raise Unreadable("a part of the content has no text")
    return text


def _find_text(part: object, *names: str) -> str:
    """Return the text under the first of some names that has one, also as a list of parts; "" without."""
    for name in names:
        value = part.get(name) if isinstance(part, dict) else None
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "\n".join(text for one in value if (text := _find_text(one, "text")))
    return ""


def _take_thoughts(message: Found) -> list[str]:
    return [text for text in [_find_text(message, *THOUGHT_FIELDS)] if text]


def _take_refusal(message: Found) -> str | None:
    refusal = message.get("refusal")
    return refusal if isinstance(refusal, str) and refusal else None


def _has_calls(message: Found) -> bool:
    return bool(message.get("tool_calls") or message.get("function_call"))


def _keep_reply(message: Found) -> Found | None:
    """Return the message without its thoughts, if it says more than one text."""
    if isinstance(message.get("content"), str) and not any(message.get(name) for name in _SAYS_MORE):
        return None
    return {name: value for name, value in message.items() if name not in THOUGHT_FIELDS}


def _add_cached(usage: Found) -> int | None:
    """Return the prompt's tokens: Anthropic counts those that were cached apart from the others."""
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return _add_counts(*(usage.get(name) for name in names))


def _add_counts(first: object, *others: object) -> int | None:
    if not isinstance(first, int) or isinstance(first, bool):
        return None
    return first + sum(one for one in others if isinstance(one, int))


def _take_block(body: Found) -> str | None:
    feedback = body.get("promptFeedback")
    reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
    return reason if isinstance(reason, str) and reason else None


def _take_gemini_parts(content: object) -> Said:
    parts = content.get("parts", []) if isinstance(content, dict) else []
    if not isinstance(content, dict | None) or not isinstance(parts, list):
        raise Unreadable("the content of the first candidate is no list of parts")
    texts: list[str] = []
    thoughts: list[str] = []
    for part in parts:
        if not isinstance(part, dict):
            raise Unreadable("a part of the content is no object")
        if "text" in part:
            (thoughts if part.get("thought") else texts).append(_require_text(part))
    return Said(texts=texts, thoughts=thoughts)
