"""Prompts and replies as tools log them: options in a prompt, messages, failed calls, ranked
choices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from answerkey.importers.json_values import DamagedError, Json, parse_json
from answerkey.importers.logs import Record, Verdict
from answerkey.importers.questions import Question, find_shown
from answerkey.models.responses import mend_text, to_json_values
from answerkey.types import Completion, CompletionStatus

Messages = list[dict[str, object]]
#: Keys under which metadata names the category of a question, the usual first.
CATEGORIES = ("category", "subject", "topic", "domain", "subset")

# ── prompts

#: How tools call those who speak, where they do not say `user`.
_SPEAKERS = {
    "HUMAN": "user",
    "BOT": "assistant",
    "SYSTEM": "system",
    "human": "user",
    "bot": "assistant",
}

#: What harnesses write before a question and after it; evalscope in English and in Chinese.
_AROUND = re.compile(
    r"\A(?:(?:Answer the following multiple[ -]choice "
    r"question|\u56de\u7b54\u4e0b\u9762)[^\n]*\n\s*)?"
    r"(?:Question:|\u95ee\u9898\uff1a)?"
    r"|\n[ \t]*(?:Options|Choices|\u9009\u9879)[:\uff1a]?\Z",
    re.IGNORECASE,
)


def read_messages(prompt: object) -> Messages | None:
    """Return a prompt as messages: a text, or messages with `content` or, in OpenCompass,
    `prompt`.
    """
    if isinstance(prompt, str):
        return [{"role": "user", "content": mend_text(prompt)}]
    messages: Messages = []
    for message in prompt if isinstance(prompt, list) else ():
        if isinstance(message, dict):
            role = str(message.get("role"))
            content = join_parts(message.get("content") or message.get("prompt"))
            messages.append({"role": _SPEAKERS.get(role, role), "content": content})
    return messages or None


def parse_chat(text: str | None) -> Messages | None:
    """Return a prompt as messages; a chat is logged as their JSON text."""
    if text is not None and text.lstrip().startswith("["):
        with suppress(DamagedError):
            messages = parse_json(text)
            if isinstance(messages, list) and all(map(_is_message, messages)):
                return read_messages(messages)
    return read_messages(text)


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and "role" in value


def join_parts(content: object, name: str = "text", *, kind: str | None = None) -> str | None:
    """Return the text of a message: a text, or that of its parts (of a kind) under a name, by
    newlines.
    """
    if isinstance(content, str):
        return mend_text(content)
    texts = []
    for part in content if isinstance(content, list) else ():
        if kind is not None and Json(part).get("type") != kind:
            continue
        text = part if isinstance(part, str) else Json(part).get(name)
        if isinstance(text, str):
            texts.append(mend_text(text))
    return "\n".join(texts) if texts else None


def find_question(messages: Sequence[Mapping[str, object]] | None) -> str | None:
    """Return what the user says last."""
    for message in reversed(messages or ()):
        if message["role"] == "user" and isinstance(message["content"], str):
            return message["content"]
    return None


def split_prompt(prompt: str | None) -> Question:
    """Return the question and the options that a prompt shows.

    Without options all of it is the question.
    """
    shown = find_shown(prompt)
    if shown.options is None:
        return shown
    question = _AROUND.sub("", shown.question or "").strip()
    return replace(shown, question=question or shown.question)


# ── replies

#: How tools name the ends of a completion, where others have other words.
FINISH_REASONS = {"max_tokens": "length", "model_length": "length"}
_LONGEST_ERROR = 500


def fail(error: str, prompt: Messages | None = None) -> Completion:
    """Return the completion of a call that failed."""
    return Completion(None, CompletionStatus.ERROR, prompt, error=mend_text(error)[:_LONGEST_ERROR])


def mend(text: str | None) -> str | None:
    """Return a text that any file can hold, if there is one."""
    return None if text is None else mend_text(text)


def rank_choices(
    choices: Sequence[str],
    texts: Sequence[str],
    logprobs: Sequence[float],
    prompt: Messages | None,
    by: Sequence[float] | None = None,
) -> Completion:
    """Return the label of the likeliest choice as a completion, with the log-probability of each
    text.

    Of equally likely ones it is the first, as other harnesses do; `by` are numbers to compare
    instead.
    """
    shares = by or logprobs
    label = choices[max(range(len(shares)), key=shares.__getitem__)]
    ranking = []
    for text, logprob in zip(texts, logprobs, strict=False):
        size = len(text.encode(errors="replace"))
        ranking.append({"continuation": text, "logprob": logprob, "bytes": size})
    return Completion(label, prompt=prompt, logprobs={"ranking": ranking})


def add_usage(completion: Completion, output: Json, **fields: Any) -> Completion:  # noqa: ANN401 - fields of a completion
    """Return a completion with what Inspect and evalscope tell of its first choice, and of the
    call.
    """
    choice = output.first("choices")
    reason = choice.text("stop_reason")
    logprobs = choice.get("logprobs")
    return replace(
        completion,
        finish_reason=FINISH_REASONS.get(reason, reason) if reason else None,
        prompt_tokens=output.count("usage", "input_tokens"),
        completion_tokens=output.count("usage", "output_tokens"),
        latency=output.number("time"),
        logprobs=to_json_values(logprobs) if isinstance(logprobs, dict) else None,
        **fields,
    )


def list_trials(
    name: str, question: Question, replies: Sequence[Completion], verdict: Verdict, first: int = 0
) -> list[Record]:
    """Return a record for each reply to a question.

    Their verdict on all is shown with the first.
    """
    records = []
    for trial, reply in enumerate(replies, first):
        records.append(Record(name, question, reply, verdict, trial))
        verdict = Verdict()
    return records
