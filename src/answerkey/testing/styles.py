"""The APIs that the test server speaks: how each asks, and how each writes a reply of some kind."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from answerkey.testing.replies import Kind, Messages, Reply, read_content
from answerkey.testing.token_logprobs import write_chat_logprobs, write_text_logprobs

Body = Mapping[str, Any]

HTML = b"<!doctype html><html><head><title>502 Bad Gateway</title></head><body><h1>Sorry</h1></body></html>"
BAD_JSON = (
    b'{"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"index": 0, "message": {"role": "ass'
)
#: What is sent as it is, whatever the API.
RAW: dict[str, tuple[bytes, str]] = {
    "html": (HTML, "text/html"),
    "bad_json": (BAD_JSON, "application/json"),
    "empty_body": (b"", "application/json"),
}


@dataclass(frozen=True)
class Style:
    """One API: which paths are its, how its requests are read, how its replies and errors are written."""

    name: str
    path: re.Pattern[str]
    read: Callable[[Body], Messages]
    write: Callable[[Body, Reply], object]
    write_error: Callable[[str, str], object]


def encode_reply(style: Style, body: Body, reply: Reply) -> tuple[bytes, str]:
    """Return the bytes of a reply and their content type."""
    if reply.body is not None:
        return reply.body, "application/json"
    if reply.kind in RAW:
        return RAW[reply.kind]
    if reply.kind == "error_body":
        return encode(style.write_error("the engine is overloaded", "server_error")), "application/json"
    return encode(style.write(body, reply)), "application/json"


def encode(value: object) -> bytes:
    """Return JSON as bytes."""
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


def find_style(path: str) -> Style | None:
    """Return the API that a path belongs to; any prefix will do."""
    return next((style for style in STYLES if style.path.search(path)), None)


def count_tokens(text: str) -> int:
    """Return a number of tokens: one for every four characters, at least one."""
    return max(1, len(text) // 4)


def _read_chat(body: Body) -> Messages:
    messages = body.get("messages")
    return [one for one in messages if isinstance(one, Mapping)] if isinstance(messages, list) else []


def _read_text_prompt(body: Body) -> Messages:
    prompt = body.get("prompt")
    return [{"role": "user", "content": prompt if isinstance(prompt, str) else json.dumps(prompt)}]


def _read_gemini(body: Body) -> Messages:
    roles = {"model": "assistant"}
    contents = body.get("contents") or []
    system = body.get("systemInstruction") or body.get("system_instruction")
    first = [{"role": "system", "content": read_content(system.get("parts"))}] if system else []
    return first + [
        {"role": roles.get(str(one.get("role")), "user"), "content": read_content(one.get("parts"))}
        for one in contents
    ]


def _read_anthropic(body: Body) -> Messages:
    system = body.get("system")
    first = [{"role": "system", "content": read_content(system)}] if system else []
    return [*first, *_read_chat(body)]


def _count_prompt(messages: Messages) -> int:
    return count_tokens("".join(read_content(one.get("content")) for one in messages))


def _write_chat(body: Body, reply: Reply) -> object:
    prompt, said = _count_prompt(_read_chat(body)), count_tokens(reply.text)
    usage = {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said}
    whole: dict[str, object] = {
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": body.get("model"),
        "choices": [_write_choice(body, reply)],
        "usage": usage,
    }
    return _spoil(whole, reply.kind, "choices")


def _spoil(whole: dict[str, object], kind: Kind, answers: str) -> dict[str, object]:
    """Return the reply without the answers, or with something else in their place."""
    if kind == "no_choices":
        del whole[answers]
    if kind in {"empty_choices", "wrong_types"}:
        whole[answers] = [] if kind == "empty_choices" else {"0": 7}
    return whole


_CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
_ENDS = {"truncated": "length", "content_filter": "content_filter", "tool_calls": "tool_calls"}


def _write_choice(body: Body, reply: Reply) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": _chat_content(reply)}
    if reply.kind == "refusal":
        message["refusal"] = reply.text
    if reply.kind == "tool_calls":
        message["tool_calls"] = [_CALL]
    if reply.kind == "reasoning":
        message["reasoning_content"] = reply.reasoning
    logprobs = write_chat_logprobs(body, reply) if body.get("logprobs") else None
    end = _ENDS.get(reply.kind, "stop")
    return {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": end}


def _chat_content(reply: Reply) -> object:
    if reply.kind in {"null_content", "refusal", "content_filter", "tool_calls"}:
        return None
    if reply.kind == "list_content":
        return [{"type": "text", "text": part} for part in _halve(reply.text)]
    return "" if reply.kind == "empty_text" else reply.text


def _halve(text: str) -> list[str]:
    """Return a text in two parts that are not empty, cut at a newline when there is one; else in one."""
    first, newline, rest = text.partition("\n")
    return [first, rest] if newline and first and rest else [text]


def _write_text(body: Body, reply: Reply) -> object:
    said = None if reply.kind in {"null_content", "refusal", "tool_calls"} else reply.text
    text = "" if reply.kind in {"empty_text", "content_filter"} else said
    if body.get("echo") and text is not None:
        text = f"{body.get('prompt', '')}{text}"
    logprobs = write_text_logprobs(body, reply) if body.get("logprobs") else None
    choice = {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": _ENDS.get(reply.kind, "stop")}
    whole: dict[str, object] = {
        "id": "cmpl-test",
        "object": "text_completion",
        "created": 1_700_000_000,
        "model": body.get("model"),
        "choices": [choice],
        "usage": {
            "prompt_tokens": _count_prompt(_read_text_prompt(body)),
            "completion_tokens": count_tokens(reply.text),
        },
    }
    return _spoil(whole, reply.kind, "choices")


def _write_openai_error(message: str, kind: str) -> object:
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _write_anthropic(body: Body, reply: Reply) -> object:
    ends = {
        "truncated": "max_tokens",
        "refusal": "refusal",
        "content_filter": "refusal",
        "tool_calls": "tool_use",
    }
    whole: dict[str, object] = {
        "id": "msg_test",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": _anthropic_blocks(reply),
        "stop_reason": ends.get(reply.kind, "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": _count_prompt(_read_anthropic(body)),
            "output_tokens": count_tokens(reply.text),
        },
    }
    return _spoil(whole, reply.kind, "content")


def _anthropic_blocks(reply: Reply) -> Sequence[object]:
    text = {"type": "text", "text": "" if reply.kind == "empty_text" else reply.text}
    if reply.kind in {"null_content", "refusal", "content_filter"}:
        return []
    if reply.kind == "tool_calls":
        return [{"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {}}]
    if reply.kind == "reasoning":
        return [{"type": "thinking", "thinking": reply.reasoning, "signature": "c2ln"}, text]
    if reply.kind == "list_content":
        return [{"type": "text", "text": part} for part in _halve(reply.text)]
    return [text]


def _write_anthropic_error(message: str, kind: str) -> object:
    return {"type": "error", "error": {"type": kind, "message": message}}


def _write_gemini(body: Body, reply: Reply) -> object:
    prompt, said = _count_prompt(_read_gemini(body)), count_tokens(reply.text)
    usage = {"promptTokenCount": prompt, "candidatesTokenCount": said, "totalTokenCount": prompt + said}
    if reply.kind == "refusal":
        return {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage}
    ends = {"truncated": "MAX_TOKENS", "content_filter": "SAFETY"}
    candidate: dict[str, object] = {"index": 0, "finishReason": ends.get(reply.kind, "STOP")}
    parts = _gemini_parts(reply)
    if parts:
        candidate["content"] = {"role": "model", "parts": parts}
    whole: dict[str, object] = {"candidates": [candidate], "usageMetadata": usage}
    return _spoil(whole, reply.kind, "candidates")


def _gemini_parts(reply: Reply) -> Sequence[object]:
    text = {"text": "" if reply.kind == "empty_text" else reply.text}
    if reply.kind in {"null_content", "content_filter"}:
        return []
    if reply.kind == "tool_calls":
        return [{"functionCall": {"name": "look_up", "args": {}}}]
    if reply.kind == "reasoning":
        return [{"text": reply.reasoning, "thought": True}, text]
    if reply.kind == "list_content":
        return [{"text": part} for part in _halve(reply.text)]
    return [text]


def _write_gemini_error(message: str, kind: str) -> object:
    return {"error": {"code": 500, "message": message, "status": kind.upper()}}


CHAT = Style("chat", re.compile(r"/chat/completions$"), _read_chat, _write_chat, _write_openai_error)
STYLES: tuple[Style, ...] = (
    CHAT,
    Style("completions", re.compile(r"/completions$"), _read_text_prompt, _write_text, _write_openai_error),
    Style("anthropic", re.compile(r"/messages$"), _read_anthropic, _write_anthropic, _write_anthropic_error),
    Style("gemini", re.compile(r":generateContent$"), _read_gemini, _write_gemini, _write_gemini_error),
)
