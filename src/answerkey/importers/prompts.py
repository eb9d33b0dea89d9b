"""Prompts and replies as tools log them: options in a prompt, messages, failed calls, ranked choices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from answerkey.datasets.questions import Question, find_shown
from answerkey.importers.logs import DamagedError, Json, Record, Verdict, parse_json
from answerkey.models.responses import mend_text, to_json_values
from answerkey.types import Completion, CompletionStatus

Messages = list[dict[str, object]]

# ── prompts ─────────────────────────────────────────────────────────────────────────────────────────────────

#: How tools call those who speak, where they do not say `user`.
_SPEAKERS = {"HUMAN": "user", "BOT": "assistant", "SYSTEM": "system", "human": "user", "bot": "assistant"}

#: What harnesses write before a question and after it; evalscope in English and in Chinese.
_AROUND = re.compile(
    r"\A(?:(?:Answer the following multiple[ -]choice question|\u56de\u7b54\u4e0b\u9762)[^\n]*\n\s*)?"
    r"(?:Question:|\u95ee\u9898\uff1a)?"
    r"|\n[ \t]*(?:Options|Choices|\u9009\u9879)[:\uff1a]?\Z",
    re.IGNORECASE,
)


def read_messages(prompt: object) -> Messages | None:
    """Return a prompt as messages: a text, or messages with `content` or, in OpenCompass, `prompt`."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": mend_text(prompt)}]
    found: Messages = []
    for one in prompt if isinstance(prompt, list) else ():
        if isinstance(one, dict):
            role = str(one.get("role"))
            content = join_parts(one.get("content") or one.get("prompt"))
            found.append({"role": _SPEAKERS.get(role, role), "content": content})
    return found or None


def parse_chat(text: str | None) -> Messages | None:
    """Return a prompt as messages; a chat is logged as their JSON text."""
    if text is not None and text.lstrip().startswith("["):
        with suppress(DamagedError):
            found = parse_json(text)
            if isinstance(found, list) and all(isinstance(one, dict) and "role" in one for one in found):
                return read_messages(found)
    return read_messages(text)


def join_parts(content: object, name: str = "text", *, kind: str | None = None) -> str | None:
    """Return the text of a message: a text, or that of its parts (of a kind) under a name, by newlines."""
    if isinstance(content, str):
        return mend_text(content)
    parts = content if isinstance(content, list) else []
    parts = [part for part in parts if kind is None or Json(part).get("type") == kind]
    texts = [part if isinstance(part, str) else Json(part).get(name) for part in parts]
    found = [mend_text(text) for text in texts if isinstance(text, str)]
    return "\n".join(found) if found else None


def find_question(messages: Sequence[Mapping[str, object]] | None) -> str | None:
    """Return what the user says last."""
    for message in reversed(messages or ()):
        if message["role"] == "user" and isinstance(message["content"], str):
            return message["content"]
    return None


def split_prompt(prompt: str | None) -> Question:
    """Return the question and the options that a prompt shows; without options all of it is the question."""
    shown = find_shown(prompt)
    if shown.options is None:
        return shown
    return replace(shown, question=_AROUND.sub("", shown.question or "").strip() or shown.question)


# ── replies ─────────────────────────────────────────────────────────────────────────────────────────────────

#: How tools name the ends of a completion, where others have other words.
FINISH_REASONS = {"max_tokens": "length", "model_length": "length"}
_LONGEST_ERROR = 500


def fail(error: str, prompt: Messages | None = None) -> Completion:
    """Return the completion of a call that failed."""
    return Completion(None, CompletionStatus.ERROR, prompt, error=mend_text(error)[:_LONGEST_ERROR])


def rank_choices(
    choices: Sequence[str],
    texts: Sequence[str],
    logprobs: Sequence[float],
    prompt: Messages | None,
    by: Sequence[float] | None = None,
) -> Completion:
    """Return the label of the likeliest choice as a completion, with the log-probability of each text.

    Of equally likely ones it is the first, as other harnesses do; `by` are numbers to compare instead.
    """
    shares = by or logprobs
    label = choices[max(range(len(shares)), key=shares.__getitem__)]
    ranking = [
        {"continuation": text, "logprob": logprob, "bytes": len(text.encode(errors="replace"))}
        for text, logprob in zip(texts, logprobs, strict=False)
    ]
    return Completion(label, prompt=prompt, logprobs={"ranking": ranking})


def add_usage(said: Completion, output: Json, **more: Any) -> Completion:  # noqa: ANN401 - other fields
    """Return a completion with what Inspect and evalscope tell of its first choice, and of the call."""
    choice = next(iter(output.list("choices")), Json(None))
    end, logprobs = choice.text("stop_reason"), choice.get("logprobs")
    return replace(
        said,
        finish_reason=FINISH_REASONS.get(end, end) if end else None,
        prompt_tokens=output.count("usage", "input_tokens"),
        completion_tokens=output.count("usage", "output_tokens"),
        latency=output.number("time"),
        logprobs=to_json_values(logprobs) if isinstance(logprobs, dict) else None,
        **more,
    )


def list_trials(
    name: str, question: Question, replies: Sequence[Completion], verdict: Verdict, first: int = 0
) -> list[Record]:
    """Return a record for each reply to a question; their verdict on all is shown with the first."""
    return [
        Record(name, question, one, Verdict() if place else verdict, first + place)
        for place, one in enumerate(replies)
    ]
