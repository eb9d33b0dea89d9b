"""The settings of the test server, and its counts: replies, behaviour, requests."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Literal, get_args

from answerkey.types import Draws

Kind = Literal[
    "text",
    "null_content",
    "empty_text",
    "refusal",
    "truncated",
    "reasoning",
    "error_body",
    "html",
    "bad_json",
    "empty_body",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

Messages = Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class Reply:
    """One reply: its text, and the kind of message that contains the text.

    `body` replaces the whole body that the kind would write. `reasoning` is the model's reasoning
    in a reply of the kind `reasoning`. `delay` (seconds) is added to the server's own. `logprobs`
    are sent if the request asks for them: the alternatives of the first token, or, for an echoed
    prompt, of its endings; an empty mapping sends none.
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
            kinds = ", ".join(KINDS)
            raise ValueError(f"unknown kind of reply {self.kind!r}; kinds: {kinds}")


#: The server's replies: always the same, by the text of the last user message, or from a function.
Answer = str | Reply
Answers = Answer | Mapping[str, Answer] | Callable[[Messages], Answer]


class NoAnswerError(LookupError):
    """No answer is recorded for this prompt."""


def find_reply(answers: Answers, messages: Messages) -> Reply:
    """Return the reply to these messages; raise NoAnswerError if none is recorded for them."""
    answer: Answer | None
    if isinstance(answers, str | Reply):
        answer = answers
    elif isinstance(answers, Mapping):
        answer = answers.get(read_prompt(messages))
    else:
        answer = answers(messages)
    if answer is None:
        raise NoAnswerError(f"no answer is recorded for the prompt {read_prompt(messages)[:200]!r}")
    if isinstance(answer, str):
        return Reply(answer)
    return answer


def read_prompt(messages: Messages) -> str:
    """Return the text of the last user message, or of the last message if there is none."""
    users = [message for message in messages if message.get("role") == "user"]
    for message in reversed(users or messages):
        return read_content(message.get("content"))
    return ""


def read_content(content: object) -> str:
    """Return the text of a message's content, with parts joined by newlines."""
    if isinstance(content, str):
        return content
    texts = []
    for part in list_objects(content):
        texts.append(str(part.get("text") or ""))
    return "\n".join(texts)


def list_objects(value: object) -> list[Mapping[str, Any]]:
    """Return the objects of a JSON list; anything else has none."""
    if not isinstance(value, list):
        return []
    return [entry for entry in value if isinstance(entry, Mapping)]


def answer_by_hash(
    choices: Sequence[str] = ("A", "B", "C", "D"),
    *,
    seed: int = 0,
) -> Callable[[Messages], str]:
    """Return a function that picks one of the choices for a prompt, always the same for the same
    prompt.
    """

    def pick(messages: Messages) -> str:
        prompt = read_prompt(messages).encode(errors="surrogatepass")
        digest = hashlib.sha256(prompt).hexdigest()
        return Draws(seed, digest).pick(choices, "answer")

    return pick


# The server's behaviour.

#: Faults other than plain status codes, with their effects.
FAULTS: Mapping[str, str] = {
    "429_seconds": "status 429 with `Retry-After` in seconds",
    "429_date": "status 429 with `Retry-After` as a date",
    "503_seconds": "status 503 with `Retry-After` in seconds",
    "reset": "the connection is reset before any response",
    "cut": "half of the body, then the connection is closed",
    "hang": "no response for `hang_seconds`, then the connection is closed",
    "endless": "a body that never ends",
    "bad_json": "status 200 and a body that stops in the middle of its JSON",
    "html": "status 200 and an HTML page",
    "empty": "status 200 and no body at all",
}


@dataclass(frozen=True)
class Behaviour:
    """How the server treats requests; its replies are set separately.

    `delay` is a number of seconds, or a range (drawn by the request's content). `faults` maps a
    status code (`"500"`) or a name in `FAULTS` to the share of requests that get it; the draw
    depends on `seed`, the content and how often it was sent; only the first `faulty_attempts`
    requests with the same content get a fault (None: all). Above `requests_per_minute` or
    `max_concurrent`, requests get 429; a minute lasts `minute_seconds`. With `api_key`, requests
    without it are refused (401). `unknown_fields` of a body are refused (400). Redirects lead to
    `redirect_to`.
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
    retry_after: float = 0.0
    hang_seconds: float = 3600.0
    redirect_to: str = "/elsewhere"

    def __post_init__(self) -> None:
        for name in self.faults:
            is_status = re.fullmatch("[345][0-9][0-9]", name)
            if name not in FAULTS and not is_status:
                names = ", ".join(FAULTS)
                raise ValueError(f"unknown fault {name!r}: a status code, or one of {names}")
        shares = self.faults.values()
        total = sum(shares)
        if min(shares, default=0) < 0 or total > 1 + 1e-9:
            raise ValueError("the shares of faults must add up to a number between 0 and 1")

    def choose_fault(self, digest: str, attempt: int) -> str | None:
        """Return the fault of an attempt (from 0) of a request with this content, or None."""
        if self.faulty_attempts is not None and attempt >= self.faulty_attempts:
            return None
        draws = Draws(self.seed, digest)
        left = draws.draw(f"fault {attempt}")
        for name, share in self.faults.items():
            if left < share:
                return name
            left -= share
        return None

    def choose_delay(self, digest: str) -> float:
        """Return the delay of a request with this content, in seconds."""
        if not isinstance(self.delay, tuple):
            return self.delay
        low, high = self.delay
        share = Draws(self.seed, digest).draw("delay")
        return low + (high - low) * share


# Counts of requests.

#: The headers in which providers expect API keys.
KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")


@dataclass(frozen=True)
class Request:
    """One request as received; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any] | None = None


@dataclass
class Asked:
    """Counts of the server's requests; safe to read while the server runs.

    `by_prompt` counts by the text of the last user message, `statuses` by HTTP status (0: none was
    sent), `faults` by fault. `keys` are the values of key headers. `requests` are the last 1,000.
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
    connections: set[object] = field(default_factory=set)
    requests: deque[Request] = field(default_factory=lambda: deque(maxlen=1000))
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, request: Request, peer: object) -> None:
        """Count a request that has arrived."""
        with self._lock:
            self.total += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            path, _, _ = request.path.partition("?")
            self.by_path[path] += 1
            self.connections.add(peer)
            self.requests.append(request)
            for name in KEY_HEADERS:
                if name in request.headers:
                    self.keys[request.headers[name]] += 1

    def count(
        self,
        counter: Counter[str],
        key: str,
    ) -> None:
        """Add one to a counter."""
        with self._lock:
            counter[key] += 1

    def close(self, status: int, *, is_answer: bool) -> None:
        """Count a finished request."""
        with self._lock:
            self.at_once -= 1
            self.answered += is_answer
            self.statuses[status] += 1
