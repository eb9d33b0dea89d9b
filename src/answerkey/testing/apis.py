"""The APIs that the test server speaks: how each one reads requests and writes replies."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from answerkey.testing.replies import Messages, Reply, list_objects, read_content

Body = Mapping[str, Any]
Answer = dict[str, Any]
Logprobs = dict[str, float]
Token = tuple[str, float]

JSON = "application/json"
_PAGE = b"<!doctype html><html><head><title>502 Bad Gateway</title></head><body>Sorry</body></html>"
_CUT = b'{"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"index": 0, "message": {"r'
#: Bodies that are the same for every API, by the kind of reply or the name of the fault.
RAW = {
    "html": (_PAGE, "text/html"),
    "bad_json": (_CUT, JSON),
    "empty_body": (b"", JSON),
    "empty": (b"", JSON),
}


@dataclass(frozen=True)
class Style:
    """One API: the ending of its paths, and how it reads requests and writes replies."""

    path: str
    read: Callable[[Body], Messages]
    write: Callable[[Body, Reply], Answer]


def encode_reply(
    style: Style,
    body: Body,
    reply: Reply,
) -> tuple[bytes, str]:
    """Return the bytes of a reply and their content type."""
    if reply.body is not None:
        return reply.body, JSON
    if reply.kind in RAW:
        return RAW[reply.kind]
    if reply.kind == "error_body":
        return encode(write_error("the engine is overloaded", "server_error")), JSON
    return encode(style.write(body, reply)), JSON


def write_error(message: str, kind: str) -> Answer:
    """Return an error with the fields of all APIs."""
    error = {
        "message": message,
        "type": kind,
        "status": kind.upper(),
        "param": None,
        "code": None,
    }
    return {"type": "error", "error": error}


def encode(value: object) -> bytes:
    """Return JSON as bytes."""
    text = json.dumps(value, ensure_ascii=False)
    return text.encode(errors="surrogatepass")


def find_style(path: str) -> Style | None:
    """Return the API that a path belongs to, whatever its prefix."""
    for style in STYLES:
        if path.endswith(style.path):
            return style
    return None


# Requests of each API.


def _read_chat(body: Body) -> Messages:
    return list_objects(body.get("messages"))


def _read_text_prompt(body: Body) -> Messages:
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        prompt = json.dumps(prompt)
    return [{"role": "user", "content": prompt}]


def _read_anthropic(body: Body) -> Messages:
    messages = _read_system(body.get("system"))
    messages += list_objects(body.get("messages"))
    return messages


def _read_gemini(body: Body) -> Messages:
    system = body.get("systemInstruction") or {}
    messages = _read_system(system.get("parts"))
    for message in list_objects(body.get("contents")):
        role = "assistant" if message.get("role") == "model" else "user"
        content = read_content(message.get("parts"))
        messages.append({"role": role, "content": content})
    return messages


def _read_system(content: object) -> list[Mapping[str, object]]:
    if content:
        return [{"role": "system", "content": read_content(content)}]
    return []


# Replies of each API.


def _count_tokens(messages: Messages, reply: Reply) -> tuple[int, int]:
    """Return the token counts of a prompt and its reply: one for every four characters, at least
    one.
    """
    length = 0
    for message in messages:
        length += len(read_content(message.get("content")))
    tokens = max(1, len(reply.text) // 4)
    return max(1, length // 4), tokens


def _find_text(reply: Reply) -> str | None:
    """Return the text of a reply; None for a kind without text."""
    if reply.kind in {"null_content", "refusal"}:
        return None
    if reply.kind == "empty_text":
        return ""
    return reply.text


def _write_openai(
    name: str,
    body: Body,
    reply: Reply,
    choice: Answer,
) -> Answer:
    read = _read_chat if name == "chat.completion" else _read_text_prompt
    prompt_tokens, tokens = _count_tokens(read(body), reply)
    choice["index"] = 0
    choice["finish_reason"] = "length" if reply.kind == "truncated" else "stop"
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": tokens,
        "total_tokens": prompt_tokens + tokens,
    }
    return {
        "id": "chatcmpl-test",
        "object": name,
        "created": 1_700_000_000,
        "model": body.get("model"),
        "choices": [choice],
        "usage": usage,
    }


def _write_chat(body: Body, reply: Reply) -> Answer:
    message = {"role": "assistant", "content": _find_text(reply)}
    if reply.kind == "refusal":
        message["refusal"] = reply.text
    if reply.kind == "reasoning":
        message["reasoning_content"] = reply.reasoning
    logprobs = write_chat_logprobs(body, reply)
    choice = {"message": message, "logprobs": logprobs}
    return _write_openai("chat.completion", body, reply, choice)


def _write_text(body: Body, reply: Reply) -> Answer:
    text = _find_text(reply)
    if text is not None and body.get("echo"):
        text = f"{body.get('prompt', '')}{text}"
    logprobs = write_text_logprobs(body, reply)
    choice = {"text": text, "logprobs": logprobs}
    return _write_openai("text_completion", body, reply, choice)


def _write_anthropic(body: Body, reply: Reply) -> Answer:
    prompt_tokens, tokens = _count_tokens(_read_anthropic(body), reply)
    ends = {"truncated": "max_tokens", "refusal": "refusal"}
    content = []
    if reply.kind == "reasoning":
        thought = {
            "type": "thinking",
            "thinking": reply.reasoning,
            "signature": "c2ln",
        }
        content.append(thought)
    text = _find_text(reply)
    if text is not None:
        content.append({"type": "text", "text": text})
    return {
        "id": "msg_test",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": content,
        "stop_reason": ends.get(reply.kind, "end_turn"),
        "usage": {"input_tokens": prompt_tokens, "output_tokens": tokens},
    }


def _write_gemini(body: Body, reply: Reply) -> Answer:
    prompt_tokens, tokens = _count_tokens(_read_gemini(body), reply)
    usage = {"promptTokenCount": prompt_tokens, "candidatesTokenCount": tokens}
    if reply.kind == "refusal":
        return {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage}
    parts: list[Answer] = []
    if reply.kind == "reasoning":
        parts.append({"text": reply.reasoning, "thought": True})
    text = _find_text(reply)
    if text is not None:
        parts.append({"text": text})
    candidate = {
        "finishReason": "MAX_TOKENS" if reply.kind == "truncated" else "STOP",
        "content": {"role": "model", "parts": parts},
    }
    return {"candidates": [candidate], "usageMetadata": usage}


CHAT = Style("/chat/completions", _read_chat, _write_chat)
STYLES: tuple[Style, ...] = (
    CHAT,
    Style("/completions", _read_text_prompt, _write_text),
    Style("/messages", _read_anthropic, _write_anthropic),
    Style(":generateContent", _read_gemini, _write_gemini),
)


# Log-probabilities of the first token of a reply, or of an echoed text.

#: A token of a text without its own log-probabilities: a word with the white space before it.
_PIECES = re.compile(r"\s*\S+|\s+")
_LIKELY, _UNLIKELY, _USUAL = -0.1, -3.0, -1.0


def write_chat_logprobs(body: Body, reply: Reply) -> object:
    """Return `logprobs` of a chat completion; null if the reply's mapping is empty."""
    if not body.get("logprobs") or reply.logprobs == {}:
        return None
    token, alternatives = _rank_first(reply)
    logprob = alternatives.get(token, _LIKELY)
    first = _write_token(token, logprob)
    top = []
    for alternative in _list_top(alternatives, body.get("top_logprobs")):
        top.append(_write_token(*alternative))
    first["top_logprobs"] = top
    return {"content": [first]}


def _write_token(token: str, logprob: float) -> dict[str, object]:
    return {
        "token": token,
        "logprob": logprob,
        "bytes": list(token.encode()),
    }


def _rank_first(reply: Reply) -> tuple[str, Logprobs]:
    """Return the first token of a reply, and its alternatives with their log-probabilities.

    The token is the longest one with a log-probability that the text begins with, or else the first
    word. If the reply has no log-probabilities, the alternatives are letters.
    """
    if reply.logprobs is None:
        token = reply.text[:1]
        letters = dict.fromkeys("ABCDEFGHIJ", _UNLIKELY)
        return token, {**letters, token: _LIKELY}
    tokens = list(filter(reply.text.startswith, reply.logprobs))
    token = max(tokens, key=len, default="")
    if not token:
        pieces = _PIECES.findall(reply.text)
        token = "".join(pieces[:1])
    return token, dict(reply.logprobs)


def _list_top(alternatives: Logprobs, limit: object) -> list[Token]:
    """Return the likeliest tokens."""
    ranked = sorted(alternatives, key=lambda token: -alternatives[token])
    likeliest = ranked[: int(str(limit or 0))]
    return [(token, alternatives[token]) for token in likeliest]


def write_text_logprobs(body: Body, reply: Reply) -> object:
    """Return `logprobs` of a text completion, with those of the prompt if `echo` is requested.

    If the prompt ends in one of the reply's `logprobs`, that log-probability is spread evenly over
    the tokens of the ending; all other tokens of the prompt have -1. Without `echo`, the mapping
    applies to the first token.
    """
    if not body.get("logprobs") or reply.logprobs == {}:
        return None
    if body.get("echo"):
        prompt = str(body.get("prompt", ""))
        tokens = _list_echoed(prompt, reply)
        tops = [{token: logprob} for token, logprob in tokens]
    else:
        token, alternatives = _rank_first(reply)
        logprob = alternatives.get(token, _LIKELY)
        tokens = [(token, logprob)]
        likeliest = _list_top(alternatives, body.get("logprobs"))
        tops = [dict(likeliest)]
    texts = [token for token, _ in tokens]
    logprobs: list[float | None] = [logprob for _, logprob in tokens]
    if body.get("echo"):
        logprobs[0] = None  # the first token has no context
    lengths = map(len, texts[:-1])
    return {
        "tokens": texts,
        "token_logprobs": logprobs,
        "top_logprobs": tops,
        "text_offset": list(accumulate(lengths, initial=0)),
    }


def _list_echoed(prompt: str, reply: Reply) -> list[Token]:
    """Return the tokens of an echoed prompt and of the reply, with their log-probabilities."""
    logprobs = reply.logprobs or {}
    endings = [text for text in logprobs if prompt.endswith(text)]
    ending = max(endings, key=len, default="")
    start = prompt.removesuffix(ending)
    tokens = []
    for piece in _PIECES.findall(start):
        tokens.append((piece, _USUAL))
    pieces = _PIECES.findall(ending)
    for piece in pieces:
        share = logprobs[ending] / len(pieces)
        tokens.append((piece, share))
    for piece in _PIECES.findall(reply.text):
        tokens.append((piece, _LIKELY))
    return tokens
