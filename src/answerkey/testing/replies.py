"""What the test server is told and what it counts: replies, behaviour, requests; and the APIs it speaks."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from threading import Lock
from types import MappingProxyType
from typing import Any, Literal, get_args

from answerkey.models.builtin import Draws

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

    `body` replaces everything that the kind would write. `reasoning` is what the model thinks in a reply of
    the kind `reasoning`. `delay` (seconds) is added to the server's own. `logprobs` are sent when they are
    asked for: the alternatives of the first token, or, for a prompt that is echoed, of its endings; an empty
    mapping sends none.
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


def answer_by_hash(
    choices: Sequence[str] = ("A", "B", "C", "D"), *, seed: int = 0
) -> Callable[[Messages], str]:
    """Return answers that pick one of the choices for each prompt, the same for the same prompt."""

    def pick(messages: Messages) -> str:
        digest = hashlib.sha256(read_prompt(messages).encode(errors="surrogatepass")).hexdigest()
        return Draws(seed, digest).pick(choices, "answer")

    return pick


# ── how the server behaves ──────────────────────────────────────────────────────────────────────────────────

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

    `delay` in seconds, or from and to (drawn by the request's content). `faults` maps a status code (`"500"`)
    or a name out of `FAULTS` to the share of requests that meet it; which do is drawn from `seed`, the
    content and how often it was asked; only its first `faulty_attempts` requests do (None: all).
    `requests_per_minute` and `max_concurrent` answer 429 above the limit; a minute lasts `minute_seconds`.
    With `api_key`, requests that do not bring it are refused (401). `unknown_fields` of a body are refused
    (400). `canary` is a text to look out for in all that arrives. Redirects lead to `redirect_to`.
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
    batch_polls: int = 2
    batch_outcome: BatchOutcome = "completed"

    def __post_init__(self) -> None:
        for name in self.faults:
            if name not in FAULTS and not (name.isdecimal() and int(name) in _STATUSES):
                raise ValueError(f"unknown fault {name!r}: a status code, or one of {', '.join(FAULTS)}")
        if not 0 <= sum(self.faults.values()) <= 1 + 1e-9 or any(one < 0 for one in self.faults.values()):
            raise ValueError("the shares of faults must be between 0 and 1 together")
        if self.batch_outcome not in get_args(BatchOutcome):
            raise ValueError(f"unknown batch outcome {self.batch_outcome!r}")

    def choose_fault(self, digest: str, attempt: int) -> str | None:
        """Return the fault that the attempt (from 0) of a request with this content meets, or None."""
        if not self.faults or (self.faulty_attempts is not None and attempt >= self.faulty_attempts):
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
    """Return answers and behaviour of a JSON object: fields of `Behaviour`, and `answers` or `choices`.

    `answers` is a text, a reply (an object with `kind`), or an object from prompt to text or reply; `choices`
    is a list out of which each prompt gets one by its hash.
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
    known = {one.name for one in fields(Behaviour)}
    unknown = sorted(set(rest) - known)
    if unknown:
        raise ValueError(
            f"unknown setting {unknown[0]!r}; there are answers, choices, {', '.join(sorted(known))}"
        )
    rest |= {name: tuple(value) for name, value in rest.items() if isinstance(value, list)}
    behaviour = Behaviour(**rest)
    return (answer_by_hash(choices, seed=behaviour.seed) if choices else answers), behaviour


def _read_reply(value: Any) -> str | Reply:  # noqa: ANN401 - JSON
    return value if isinstance(value, str) else Reply(**value)


# ── what the server was asked ───────────────────────────────────────────────────────────────────────────────

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

    `by_prompt` counts by the text of the last user message, `statuses` by what was answered (0: no status was
    sent), `faults` by the fault met. `keys` are the values of key headers. `canary_places` says where the
    canary was seen (`header authorization`, `path`, `body`, …). `requests` are the last 1,000.
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
    _attempts: Counter[str] = field(default_factory=Counter, repr=False)
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

    def add_prompt(self, prompt: str) -> None:
        """Count what was asked."""
        with self._lock:
            self.by_prompt[prompt] += 1

    def add_attempt(self, digest: str) -> int:
        """Return how often this content was asked before, and count it."""
        with self._lock:
            self._attempts[digest] += 1
            return self._attempts[digest] - 1

    def add_fault(self, name: str) -> None:
        """Count a fault."""
        with self._lock:
            self.faults[name] += 1

    def add_canary(self, place: str) -> None:
        """Count a place where the canary was seen."""
        with self._lock:
            self.canary_places[place] += 1

    def close(self, status: int, *, is_answer: bool) -> None:
        """Count a request that is over."""
        with self._lock:
            self.at_once -= 1
            self.answered += is_answer
            self.statuses[status] += 1

    def as_json(self) -> dict[str, Any]:
        """Return the counts as plain values; requests and keys are left out."""
        with self._lock:
            return {
                "total": self.total,
                "answered": self.answered,
                "at_once": self.at_once,
                "most_at_once": self.most_at_once,
                "connections": len(self.connections),
                "by_path": dict(self.by_path),
                "by_prompt": dict(self.by_prompt),
                "statuses": {str(status): count for status, count in self.statuses.items()},
                "faults": dict(self.faults),
                "canary_places": dict(self.canary_places),
            }


# ── the APIs: how each asks, and how each writes a reply of some kind ───────────────────────────────────────

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
    return _distort(whole, reply.kind, "choices")


def _distort(whole: dict[str, object], kind: Kind, answers: str) -> dict[str, object]:
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
    return _distort(whole, reply.kind, "choices")


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
    return _distort(whole, reply.kind, "content")


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
    return _distort(whole, reply.kind, "candidates")


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


# ── log-probabilities: of the first token of a reply, or of an echoed text ──────────────────────────────────

#: Tokens of texts that nobody has given log-probabilities for: a word with the white space before it.
_PIECES = re.compile(r"\s*\S+|\s+")
_LIKELY, _UNLIKELY, _USUAL = -0.1, -3.0, -1.0


def write_chat_logprobs(body: Mapping[str, Any], reply: Reply) -> object:
    """Return `logprobs` of a chat completion; null when the reply has an empty mapping of them."""
    most = int(body.get("top_logprobs") or 0)
    if reply.logprobs is None:
        token, ranked = reply.text[:1], _guess(reply.text[:1])
    elif not reply.logprobs:
        return None
    else:
        token, ranked = _find_token(reply), dict(reply.logprobs)
    first = _write_token(token, ranked.get(token, _LIKELY))
    top = sorted(ranked.items(), key=lambda pair: -pair[1])[:most]
    return {"content": [{**first, "top_logprobs": [_write_token(*pair) for pair in top]}]}


def _guess(token: str) -> dict[str, float]:
    others = {letter: _UNLIKELY for letter in "ABCDEFGHIJ" if letter != token}
    return {token: _LIKELY} | others


def _find_token(reply: Reply) -> str:
    """Return the longest token with a log-probability that the text begins with; else its first piece."""
    known = sorted(reply.logprobs or (), key=len, reverse=True)
    first = _PIECES.match(reply.text)
    return next((one for one in known if one and reply.text.startswith(one)), first.group() if first else "")


def _write_token(token: str, logprob: float) -> dict[str, object]:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode())}


def write_text_logprobs(body: Mapping[str, Any], reply: Reply) -> object:
    """Return `logprobs` of a text completion, of the echoed prompt as well if that is asked for.

    A prompt that ends in one of the reply's `logprobs` has that log-probability for its ending, spread evenly
    over its tokens; all other tokens of it have -1. Without `echo` the mapping is of the first token.
    """
    if reply.logprobs is not None and not reply.logprobs:
        return None
    prompt = str(body.get("prompt", "")) if body.get("echo") else ""
    tokens: list[tuple[str, float]] = []
    if prompt:
        tokens += _split_prompt(prompt, reply.logprobs or {})
    ranked = dict(reply.logprobs or _guess(reply.text[:1])) if not prompt else {}
    said = _PIECES.findall(reply.text) if prompt else [_find_token(reply)]
    tokens += [(token, ranked.get(token, _LIKELY)) for token in said]
    most = int(body.get("logprobs") or 0)
    top = dict(sorted(ranked.items(), key=lambda pair: -pair[1])[:most])
    offsets = [sum(len(token) for token, _ in tokens[:place]) for place in range(len(tokens))]
    return {
        "tokens": [token for token, _ in tokens],
        "token_logprobs": [None if prompt and not place else one for place, (_, one) in enumerate(tokens)],
        "top_logprobs": [
            top if not prompt and not place else {token: one} for place, (token, one) in enumerate(tokens)
        ],
        "text_offset": offsets,
    }


def _split_prompt(prompt: str, logprobs: Mapping[str, float]) -> list[tuple[str, float]]:
    ending = max((one for one in logprobs if one and prompt.endswith(one)), key=len, default="")
    start = [(piece, _USUAL) for piece in _PIECES.findall(prompt[: len(prompt) - len(ending)])]
    pieces = _PIECES.findall(ending)
    return start + [(piece, logprobs[ending] / len(pieces)) for piece in pieces]
