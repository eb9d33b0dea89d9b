"""Prompts of other tools: their messages, and the options that only stand in their text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from answerkey.exchange.fields import get
from answerkey.exchange.labels import LABELS
from answerkey.models.responses import mend_text

#: A line that shows an option: `A) one`, `(B) two`, `C. three`; also with the wide marks of East Asia.
_OPTION = re.compile(
    r"^[ \t]*[(\[\uff08]?(?P<label>[A-Z])[)\].:\uff09\uff0e\uff1a\u3001][ \t]*(?=\S)", re.MULTILINE
)
#: Options stand at the end of a prompt; no more of it is searched.
_SEARCHED = 100_000
_FEWEST = 2
#: How tools call those who speak, where they do not say `user`.
_ROLES = {"HUMAN": "user", "BOT": "assistant", "SYSTEM": "system", "human": "user", "bot": "assistant"}


@dataclass(frozen=True)
class Shown:
    """The options that a prompt shows, and what stands before them."""

    question: str
    choices: tuple[str, ...]
    options: tuple[str, ...]


def find_shown(prompt: str | None) -> Shown | None:
    """Return the last options of a prompt that are lettered from A on; None when it shows none.

    Those before them belong to worked examples.
    """
    text = (prompt or "")[-_SEARCHED:]
    found: list[re.Match[str]] = []
    for run in _iterate_runs(list(_OPTION.finditer(text))):
        found = run
    if not found:
        return None
    ends = [one.start() for one in found[1:]]
    last = text.find("\n", found[-1].end())
    ends.append(len(text) if last < 0 else last)
    options = tuple(text[one.end() : end].strip() for one, end in zip(found, ends, strict=True))
    before = (prompt or "")[: len(prompt or "") - len(text) + found[0].start()]
    return Shown(before.strip(), LABELS[: len(found)], options)


def _iterate_runs(matches: Sequence[re.Match[str]]) -> Iterator[list[re.Match[str]]]:
    """Yield stretches of matches whose labels are A, B and so on."""
    run: list[re.Match[str]] = []
    for match in matches:
        if match["label"] == LABELS[len(run)]:
            run.append(match)
            continue
        if len(run) >= _FEWEST:
            yield run
        run = [match] if match["label"] == LABELS[0] else []
    if len(run) >= _FEWEST:
        yield run


def read_messages(prompt: object) -> list[dict[str, object]] | None:
    """Return a prompt as messages: a text, or messages with `content` or, in OpenCompass, `prompt`."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": mend_text(prompt)}]
    listed = prompt if isinstance(prompt, list) else []
    found: list[dict[str, object]] = [
        {
            "role": _name_role(get(one, "role")),
            "content": join_text(get(one, "content") or get(one, "prompt")),
        }
        for one in listed
        if isinstance(one, dict)
    ]
    return found or None


def _name_role(role: object) -> str:
    return _ROLES.get(str(role), str(role))


def join_text(content: object) -> str | None:
    """Return the text of a message: a text, or its parts that are texts, joined by newlines."""
    if isinstance(content, str):
        return mend_text(content)
    parts = content if isinstance(content, list) else []
    texts = [part if isinstance(part, str) else get(part, "text") for part in parts]
    found = [mend_text(text) for text in texts if isinstance(text, str)]
    return "\n".join(found) if found else None


def find_question(messages: Sequence[dict[str, object]] | None) -> str | None:
    """Return what the user says last."""
    for message in reversed(messages or ()):
        if message["role"] == "user" and isinstance(message["content"], str):
            return message["content"]
    return None
