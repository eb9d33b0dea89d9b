"""What the test server is told and what it counts: replies, behaviour, requests.

And the APIs it speaks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from threading import Lock
from types import MappingProxyType
from typing import Any, Literal, get_args

from answerkey.types import Draws

Kind = Literal[
    "text",
    "list_content",
    "null_content",
    "empty_text",
    "refusal",
    "content_filter",
    "tool_calls",
    "truncated",
    "reasoning",
    "empty_choices",
    "no_choices",
    "wrong_types",
    "error_body",
    "html",
    "bad_json",
    "empty_body",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

Messages = Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class Reply:
    """One reply: its text, and the kind of message the text is put in.

    `body` replaces everything that the kind would write. `reasoning` is what the model thinks in a
    reply of the kind `reasoning`. `delay` (seconds) is added to the server's own. `logprobs` are
    sent when they are asked for: the alternatives of the first token, or, for a prompt that is
    echoed, of its endings; an empty mapping sends none.
    """

    text: str = "A"
    kind: Kind = "text"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    reasoning: str = "Let me think: C or B?"
    delay: float = 0.0
    logprobs: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind of reply {self.kind!r}; there are {', '.join(KINDS)}")


#: What the server answers: always the same, by the text of the last user message, or by a function.
Answers = str | Reply | Mapping[str, str | Reply] | Callable[[Messages], str | Reply]


class NoAnswerError(LookupError):
    """The recorded answers have none for this prompt."""


def find_reply(answers: Answers, messages: Messages) -> Reply:
    """Return the reply to some messages; raise NoAnswerError when none is recorded for them."""
    found: str | Reply | None
    if isinstance(answers, str | Reply):
        found = answers
    elif isinstance(answers, Mapping):
        found = answers.get(read_prompt(messages))
    else:
        found = answers(messages)
    if found is None:
        raise NoAnswerError(f"no answer is recorded for the prompt {read_prompt(messages)[:200]!r}")
    return Reply(found) if isinstance(found, str) else found


def read_prompt(messages: Messages) -> str:
    """Return the text of the last user message; of the last message when there is none."""
    users = [message for message in messages if message.get("role") == "user"] or list(messages)
    return read_content(users[-1].get("content")) if users else ""


def read_content(content: object) -> str:
    """Return the text of a message's content; parts are joined by a newline."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, Mapping))


_CHOICES = ("enum", "choice", "guided_choice")


def obey(body: Mapping[str, Any], reply: Reply) -> Reply:
    """Return a reply as its request wants it: one of the choices that it names, in JSON if it asks
    for that.

    The choice is the last that the text names, else the first of all. The reply to a last message
    that is marked `prefix` begins with its text, as Mistral's does.
    """
    found, last = _find_choices("", body), [{}, *_read_chat(body)][-1]
    if found is not None and reply.kind in {"text", "reasoning"} and reply.body is None:
        choices, name = found
        words = {one: rf"(?<!\w){re.escape(one)}(?!\w)" for one in choices}
        ends = {one: [at.end() for at in re.finditer(words[one], reply.text)] for one in choices}
        chosen = max(choices, key=lambda one: max(ends[one], default=-1))
        return replace(reply, text=chosen if name is None else json.dumps({name: chosen}))
    if last.get("prefix"):
        return replace(reply, text=f"{last.get('content')}{reply.text}")
    return reply


def _find_choices(key: str, value: object) -> tuple[list[str], str | None] | None:
    """Return the choices in a JSON value, and the field of the reply that holds one.

    That is a property's.
    """
    for name, inner in value.items() if isinstance(value, Mapping) else ():
        if name in _CHOICES and isinstance(inner, list) and inner:
            return list(map(str, inner)), None
        if (found := _find_choices(name, inner)) is not None:
            return (found[0], name) if key == "properties" else found
    return None


def answer_by_hash(
    choices: Sequence[str] = ("A", "B", "C", "D"), *, seed: int = 0
) -> Callable[[Messages], str]:
    """Return answers that pick one of the choices for each prompt, the same for the same prompt."""

    def pick(messages: Messages) -> str:
        digest = hashlib.sha256(read_prompt(messages).encode(errors="surrogatepass")).hexdigest()
        return Draws(seed, digest).pick(choices, "answer")

    return pick


# ── how the server behaves

BatchOutcome = Literal["completed", "failed", "expired", "cancelled"]

#: Faults that are more than a status code, with what each does.
FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "429_seconds": "status 429 with `Retry-After` in seconds",
        "429_date": "status 429 with `Retry-After` as a date",
        "503_seconds": "status 503 with `Retry-After` in seconds",
        "reset": "the connection is reset before anything is answered",
        "cut": "half of the body, then the connection is closed",
        "hang": "nothing is answered for `hang_seconds`, then the connection is closed",
        "drip": "the right body, one byte every `drip_seconds`",
        "endless": "a body that never ends",
        "gzip_bomb": "a small compressed body that unpacks to `bomb_bytes`",
        "bad_json": "status 200 and a body that stops in the middle of its JSON",
        "html": "status 200 and a page for people",
        "empty": "status 200 and no body at all",
    }
)

_STATUSES = range(300, 600)


@dataclass(frozen=True)
class Behaviour:
    """How the server treats requests; what it answers is said apart.

    `delay` in seconds, or from and to (drawn by the request's content). `faults` maps a status code
    (`"500"`) or a name out of `FAULTS` to the share of requests that meet it; which do is drawn
    from `seed`, the content and how often it was asked; only its first `faulty_attempts` requests
    do (None: all). `requests_per_minute` and `max_concurrent` answer 429 above the limit; a minute
    lasts `minute_seconds`. With `api_key`, requests that do not bring it are refused (401).
    `unknown_fields` of a body are refused (400). `canary` is a text to look out for in all that
    arrives. Redirects lead to `redirect_to`. Replies are constrained to the choices that a request
    names, unless `ignores_format`.
    """

    delay: float | tuple[float, float] = 0.0
    faults: Mapping[str, float] = field(default_factory=dict)
    faulty_attempts: int | None = 3
    seed: int = 0
    requests_per_minute: int | None = None
    minute_seconds: float = 60.0
    max_concurrent: int | None = None
    api_key: str | None = None
    unknown_fields: tuple[str, ...] = ()
    canary: str | None = None
    retry_after: float = 0.0
    hang_seconds: float = 3600.0
    drip_seconds: float = 1.0
    bomb_bytes: int = 1 << 26
    redirect_to: str = "/elsewhere"
    ignores_format: bool = False
    batch_polls: int = 2
    batch_outcome: BatchOutcome = "completed"

    def __post_init__(self) -> None:
        for name in self.faults:
            if name not in FAULTS and not (name.isdecimal() and int(name) in _STATUSES):
                raise ValueError(
                    f"unknown fault {name!r}: a status code, or one of {', '.join(FAULTS)}"
                )
        if not 0 <= sum(self.faults.values()) <= 1 + 1e-9 or any(
            one < 0 for one in self.faults.values()
        ):
            raise ValueError("the shares of faults must be between 0 and 1 together")
        if self.batch_outcome not in get_args(BatchOutcome):
            raise ValueError(f"unknown batch outcome {self.batch_outcome!r}")

    def choose_fault(self, digest: str, attempt: int) -> str | None:
        """Return the fault that the attempt (from 0) of a request with this content meets, or
        None.
        """
        if not self.faults or (
            self.faulty_attempts is not None and attempt >= self.faulty_attempts
        ):
            return None
        left = Draws(self.seed, digest).draw(f"fault {attempt}")
        for name, share in self.faults.items():
            if left < share:
                return name
            left -= share
        return None

    def choose_delay(self, digest: str) -> float:
        """Return how many seconds a request with this content waits."""
        if not isinstance(self.delay, tuple):
            return self.delay
        low, high = self.delay
        return low + (high - low) * Draws(self.seed, digest).draw("delay")


def read_config(config: Any) -> tuple[Answers, Behaviour]:  # noqa: ANN401 - JSON
    """Return answers and behaviour of a JSON object: fields of `Behaviour`, and `answers` or
    `choices`.

    `answers` is a text, a reply (an object with `kind`), or an object from prompt to text or reply;
    `choices` is a list out of which each prompt gets one by its hash.
    """
    if not isinstance(config, Mapping):
        raise TypeError("the settings must be a JSON object")
    rest = dict(config)
    choices = rest.pop("choices", None)
    stated = rest.pop("answers", "A")
    if isinstance(stated, str) or "kind" in stated:
        answers: Answers = _read_reply(stated)
    else:
        answers = {str(prompt): _read_reply(one) for prompt, one in stated.items()}
    known = sorted(one.name for one in fields(Behaviour))
    if unknown := sorted(rest.keys() - set(known)):
        raise ValueError(
            f"unknown setting {unknown[0]!r}; there are answers, choices, {', '.join(known)}"
        )
    rest |= {name: tuple(value) for name, value in rest.items() if isinstance(value, list)}
    behaviour = Behaviour(**rest)
    return (answer_by_hash(choices, seed=behaviour.seed) if choices else answers), behaviour


def _read_reply(value: Any) -> str | Reply:  # noqa: ANN401 - JSON
    return value if isinstance(value, str) else Reply(**value)


# ── what the server was asked

#: Headers that carry keys, in the ways of the providers.
KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_KEPT_REQUESTS = 1000


@dataclass(frozen=True)
class Request:
    """One request as it came in; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any] | None = None


@dataclass
class Asked:
    """What was asked, counted; safe to read while the server runs.

    `by_prompt` counts by the text of the last user message, `statuses` by what was answered (0: no
    status was sent), `faults` by the fault met. `keys` are the values of key headers.
    `canary_places` says where the canary was seen (`header authorization`, `path`, `body`, …).
    `requests` are the last 1,000.
    """

    total: int = 0
    answered: int = 0
    at_once: int = 0
    most_at_once: int = 0
    by_path: Counter[str] = field(default_factory=Counter)
    by_prompt: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    keys: Counter[str] = field(default_factory=Counter)
    canary_places: Counter[str] = field(default_factory=Counter)
    connections: set[object] = field(default_factory=set)
    requests: deque[Request] = field(default_factory=lambda: deque(maxlen=_KEPT_REQUESTS))
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, request: Request, peer: object) -> None:
        """Count a request that has arrived."""
        with self._lock:
            self.total += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self.by_path[request.path] += 1
            self.connections.add(peer)
            self.requests.append(request)
            for name in KEY_HEADERS:
                if name in request.headers:
                    self.keys[request.headers[name]] += 1

    def count(self, counter: Counter[str], key: str) -> None:
        """Count something in one of the counters."""
        with self._lock:
            counter[key] += 1

    def close(self, status: int, *, is_answer: bool) -> None:
        """Count a request that is over."""
        with self._lock:
            self.at_once -= 1
            self.answered += is_answer
            self.statuses[status] += 1

    def as_json(self) -> dict[str, Any]:
        """Return the counts as plain values; requests and keys are left out."""
        numbers = ("total", "answered", "at_once", "most_at_once")
        names = ("by_path", "by_prompt", "faults", "canary_places")
        with self._lock:
            return {
                **{name: getattr(self, name) for name in numbers},
                "connections": len(self.connections),
                "statuses": {str(status): count for status, count in self.statuses.items()},
                **{name: dict(getattr(self, name)) for name in names},
            }


# ── the APIs: how each asks, and how each writes a reply of some kind
# ───────────────────────────────────────

Body = Mapping[str, Any]

JSON = "application/json"
_HTML = (
    b"<!doctype html><html><head><title>502 Bad "
    b"Gateway</title></head><body><h1>Sorry</h1></body></html>"
)
_CUT = (
    b'{"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"index": 0, "message": '
    b'{"role": "ass'
)
#: What is sent as it is, whatever the API, by the kind of a reply or the name of a fault.
RAW: dict[str, tuple[bytes, str]] = {
    "html": (_HTML, "text/html"),
    "bad_json": (_CUT, JSON),
    "empty_body": (b"", JSON),
    "empty": (b"", JSON),
}


@dataclass(frozen=True)
class Style:
    """One API: how its paths end, where its answers are, how it reads requests and writes
    replies.
    """

    path: str
    answers: str
    read: Callable[[Body], Messages]
    write: Callable[[Body, Reply], dict[str, Any]]
    write_error: Callable[[str, str], object]


def encode_reply(style: Style, body: Body, reply: Reply) -> tuple[bytes, str]:
    """Return the bytes of a reply and their content type."""
    if reply.body is not None:
        return reply.body, JSON
    if reply.kind in RAW:
        return RAW[reply.kind]
    if reply.kind == "error_body":
        return encode(style.write_error("the engine is overloaded", "server_error")), JSON
    whole = style.write(body, reply)
    if reply.kind == "no_choices":
        whole.pop(style.answers, None)
    elif reply.kind in {"empty_choices", "wrong_types"}:
        whole[style.answers] = [] if reply.kind == "empty_choices" else {"0": 7}
    return encode(whole), JSON


def encode(value: object) -> bytes:
    """Return JSON as bytes."""
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


def find_style(path: str) -> Style | None:
    """Return the API that a path belongs to; any prefix will do."""
    return next((style for style in STYLES if path.endswith(style.path)), None)


def _read_chat(body: Body) -> Messages:
    messages = body.get("messages")
    return (
        [one for one in messages if isinstance(one, Mapping)] if isinstance(messages, list) else []
    )


def _read_text_prompt(body: Body) -> Messages:
    prompt = body.get("prompt")
    return [{"role": "user", "content": prompt if isinstance(prompt, str) else json.dumps(prompt)}]


def _read_responses(body: Body) -> Messages:
    told = body.get("input")
    if isinstance(told, str):
        return [{"role": "user", "content": told}]
    return [one for one in told if isinstance(one, Mapping)] if isinstance(told, list) else []


def _read_gemini(body: Body) -> Messages:
    system = body.get("systemInstruction") or body.get("system_instruction")
    first = [{"role": "system", "content": read_content(system.get("parts"))}] if system else []
    roles = {"model": "assistant"}
    return first + [
        {"role": roles.get(str(one.get("role")), "user"), "content": read_content(one.get("parts"))}
        for one in body.get("contents") or []
    ]


def _read_anthropic(body: Body) -> Messages:
    system = body.get("system")
    first = [{"role": "system", "content": read_content(system)}] if system else []
    return [*first, *_read_chat(body)]


def _count_tokens(messages: Messages, reply: Reply) -> tuple[int, int]:
    """Return the tokens of a prompt and of its reply: one for every four characters, at least
    one.
    """
    asked = "".join(read_content(one.get("content")) for one in messages)
    return max(1, len(asked) // 4), max(1, len(reply.text) // 4)


_OPENAI_ENDS = {
    "truncated": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
}
_ANTHROPIC_ENDS = {
    "truncated": "max_tokens",
    "refusal": "refusal",
    "content_filter": "refusal",
    "tool_calls": "tool_use",
}
_RESPONSES_ENDS = {"truncated": "max_output_tokens", "content_filter": "content_filter"}
_GEMINI_ENDS = {"truncated": "MAX_TOKENS", "content_filter": "SAFETY"}
_CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}


def _write_parts(
    reply: Reply, make_text: Callable[[str], object], *, call: object = None, thought: object = None
) -> list[object]:
    """Return the parts of a reply of some kind, in the form of an API."""
    if reply.kind in {"null_content", "refusal", "content_filter"}:
        return []
    if reply.kind == "tool_calls":
        return [call] if call else []
    texts = [reply.text]
    if (
        reply.kind == "list_content"
    ):  # two parts that are not empty, cut at a newline when there is one
        first, newline, rest = reply.text.partition("\n")
        texts = [first, rest] if newline and first and rest else texts
    if reply.kind == "empty_text":
        texts = [""]
    return [*([thought] if thought and reply.kind == "reasoning" else []), *map(make_text, texts)]


def _write_openai(
    body: Body, prompt: Messages, reply: Reply, name: str, choice: Body
) -> dict[str, Any]:
    asked, said = _count_tokens(prompt, reply)
    usage = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
    return {
        "id": "chatcmpl-test" if name == "chat.completion" else "cmpl-test",
        "object": name,
        "created": 1_700_000_000,
        "model": body.get("model"),
        "choices": [{"index": 0, **choice, "finish_reason": _OPENAI_ENDS.get(reply.kind, "stop")}],
        "usage": usage,
    }


def _write_chat(body: Body, reply: Reply) -> dict[str, Any]:
    parts: list[Any] = _write_parts(reply, lambda text: {"type": "text", "text": text})
    content = parts if reply.kind == "list_content" else parts[0]["text"] if parts else None
    message: dict[str, object] = {"role": "assistant", "content": content}
    if reply.kind == "refusal":
        message["refusal"] = reply.text
    if reply.kind == "tool_calls":
        message["tool_calls"] = [_CALL]
    if reply.kind == "reasoning":
        message["reasoning_content"] = reply.reasoning
    logprobs = write_chat_logprobs(body, reply) if body.get("logprobs") else None
    choice = {"message": message, "logprobs": logprobs}
    return _write_openai(body, _read_chat(body), reply, "chat.completion", choice)


def _write_text(body: Body, reply: Reply) -> dict[str, Any]:
    said = None if reply.kind in {"null_content", "refusal", "tool_calls"} else reply.text
    text = "" if reply.kind in {"empty_text", "content_filter"} else said
    if body.get("echo") and text is not None:
        text = f"{body.get('prompt', '')}{text}"
    logprobs = write_text_logprobs(body, reply) if body.get("logprobs") else None
    choice = {"text": text, "logprobs": logprobs}
    return _write_openai(body, _read_text_prompt(body), reply, "text_completion", choice)


def _write_responses(body: Body, reply: Reply) -> dict[str, Any]:
    asked, said = _count_tokens(_read_responses(body), reply)
    logprobs: list[object] = []
    if "message.output_text.logprobs" in (body.get("include") or ()):
        written = write_chat_logprobs(body, reply)
        logprobs = written["content"] if isinstance(written, dict) else []
    beside = {"annotations": [], "logprobs": logprobs}
    content = _write_parts(reply, lambda text: {"type": "output_text", "text": text, **beside})
    if reply.kind == "refusal":
        content = [{"type": "refusal", "refusal": reply.text}]
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }
    summary = [{"type": "summary_text", "text": reply.reasoning}]
    thought = {"type": "reasoning", "id": "rs_1", "summary": summary}
    call = {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": "{}"}
    has_thought, reason = reply.kind == "reasoning", _RESPONSES_ENDS.get(reply.kind)
    return {
        "id": "resp_test",
        "object": "response",
        "status": "completed" if reason is None else "incomplete",
        "error": None,
        "incomplete_details": None if reason is None else {"reason": reason},
        "model": body.get("model"),
        "output": [
            *([thought] if has_thought else []),
            *([call] if reply.kind == "tool_calls" else [message] if content else []),
        ],
        "usage": {
            "input_tokens": asked,
            "output_tokens": said,
            "output_tokens_details": {"reasoning_tokens": said // 2 if has_thought else 0},
            "total_tokens": asked + said,
        },
    }


def _write_anthropic(body: Body, reply: Reply) -> dict[str, Any]:
    asked, said = _count_tokens(_read_anthropic(body), reply)
    return {
        "id": "msg_test",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": _write_parts(
            reply,
            lambda text: {"type": "text", "text": text},
            call={"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {}},
            thought={"type": "thinking", "thinking": reply.reasoning, "signature": "c2ln"},
        ),
        "stop_reason": _ANTHROPIC_ENDS.get(reply.kind, "end_turn"),
        "stop_sequence": None,
        "usage": {"input_tokens": asked, "output_tokens": said},
    }


def _write_gemini(body: Body, reply: Reply) -> dict[str, Any]:
    asked, said = _count_tokens(_read_gemini(body), reply)
    usage = {
        "promptTokenCount": asked,
        "candidatesTokenCount": said,
        "totalTokenCount": asked + said,
    }
    if reply.kind == "refusal":
        return {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage}
    candidate: dict[str, object] = {
        "index": 0,
        "finishReason": _GEMINI_ENDS.get(reply.kind, "STOP"),
    }
    parts = _write_parts(
        reply,
        lambda text: {"text": text},
        call={"functionCall": {"name": "look_up", "args": {}}},
        thought={"text": reply.reasoning, "thought": True},
    )
    if parts:
        candidate["content"] = {"role": "model", "parts": parts}
    return {"candidates": [candidate], "usageMetadata": usage}


def _write_openai_error(message: str, kind: str) -> object:
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


CHAT = Style("/chat/completions", "choices", _read_chat, _write_chat, _write_openai_error)
STYLES: tuple[Style, ...] = (
    CHAT,
    Style("/completions", "choices", _read_text_prompt, _write_text, _write_openai_error),
    Style("/responses", "output", _read_responses, _write_responses, _write_openai_error),
    Style(
        "/messages",
        "content",
        _read_anthropic,
        _write_anthropic,
        lambda message, kind: {"type": "error", "error": {"type": kind, "message": message}},
    ),
    Style(
        ":generateContent",
        "candidates",
        _read_gemini,
        _write_gemini,
        lambda message, kind: {"error": {"code": 500, "message": message, "status": kind.upper()}},
    ),
)


# ── log-probabilities: of the first token of a reply, or of an echoed text
# ──────────────────────────────────

#: Tokens of texts that nobody has given log-probabilities for: a word with the white space before
#: it.
_PIECES = re.compile(r"\s*\S+|\s+")
_LIKELY, _UNLIKELY, _USUAL = -0.1, -3.0, -1.0


def write_chat_logprobs(body: Body, reply: Reply) -> object:
    """Return `logprobs` of a chat completion; null when the reply has an empty mapping of them."""
    if reply.logprobs is not None and not reply.logprobs:
        return None
    token, ranked = _rank_first(reply)
    shown = [(token, ranked.get(token, _LIKELY)), *_list_top(ranked, body.get("top_logprobs"))]
    first, *top = [
        {"token": one, "logprob": value, "bytes": list(one.encode())} for one, value in shown
    ]
    return {"content": [{**first, "top_logprobs": top}]}


def _rank_first(reply: Reply) -> tuple[str, dict[str, float]]:
    """Return the first token of a reply, and its alternatives with their log-probabilities.

    It is the longest token with a log-probability that the text begins with; else its first piece.
    Nobody's log-probabilities are those of letters.
    """
    if reply.logprobs is None:
        token = reply.text[:1]
        return token, {token: _LIKELY} | {one: _UNLIKELY for one in "ABCDEFGHIJ" if one != token}
    first = _PIECES.match(reply.text)
    known = [one for one in reply.logprobs if one and reply.text.startswith(one)]
    return max(known, key=len, default=first.group() if first else ""), dict(reply.logprobs)


def _list_top(ranked: Mapping[str, float], most: object) -> list[tuple[str, float]]:
    return sorted(ranked.items(), key=lambda pair: -pair[1])[: int(str(most or 0))]


def write_text_logprobs(body: Body, reply: Reply) -> object:
    """Return `logprobs` of a text completion, of the echoed prompt as well if that is asked for.

    A prompt that ends in one of the reply's `logprobs` has that log-probability for its ending,
    spread evenly over its tokens; all other tokens of it have -1. Without `echo` the mapping is of
    the first token.
    """
    if reply.logprobs is not None and not reply.logprobs:
        return None
    if body.get("echo"):
        prompt, known = str(body.get("prompt", "")), reply.logprobs or {}
        ending = max((one for one in known if one and prompt.endswith(one)), key=len, default="")
        tokens = [(piece, _USUAL) for piece in _PIECES.findall(prompt[: len(prompt) - len(ending)])]
        pieces = _PIECES.findall(ending)
        tokens += [(piece, known[ending] / len(pieces)) for piece in pieces]
        tokens += [(piece, _LIKELY) for piece in _PIECES.findall(reply.text)]
        tops = [{token: one} for token, one in tokens]
        values: list[float | None] = [None, *(one for _, one in tokens[1:])]
    else:
        token, ranked = _rank_first(reply)
        tokens = [(token, ranked.get(token, _LIKELY))]
        tops, values = [dict(_list_top(ranked, body.get("logprobs")))], [tokens[0][1]]
    offsets = [sum(len(token) for token, _ in tokens[:place]) for place in range(len(tokens))]
    return {
        "tokens": [token for token, _ in tokens],
        "token_logprobs": values,
        "top_logprobs": tops,
        "text_offset": offsets,
    }
