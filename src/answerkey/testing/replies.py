"""What the test server says to one request: a text, or one of the strange things that endpoints say."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

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
