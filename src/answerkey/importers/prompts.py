"""Prompts and replies in logs: messages, calls with their usage, ranked choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from answerkey.importers.json_values import DamagedError, Json, parse_json
from answerkey.importers.logs import Record
from answerkey.importers.questions import Question
from answerkey.models.responses import FINISH_REASONS, read_usage
from answerkey.types import Completion

Messages = list[dict[str, object]]
#: The metadata fields that may name the category of a question, the most usual first.
CATEGORIES = ("category", "subject", "topic", "domain", "subset")

# ── prompts

#: Names of roles in logs, by those of OpenAI.
_SPEAKERS = {
    "human": "user",
    "bot": "assistant",
    "system": "system",
}


def read_messages(prompt: object) -> Messages | None:
    """Return a prompt as messages: a text, the JSON text of messages, or a list of messages.

    The text of a message is its `content`; in OpenCompass, its `prompt`.
    """
    if isinstance(prompt, str):
        chat = _parse_chat(prompt)
        if not chat:
            return [{"role": "user", "content": prompt}]
        prompt = chat
    messages: Messages = []
    for message in prompt if isinstance(prompt, list) else ():
        if isinstance(message, dict):
            role = str(message.get("role"))
            content = message.get("content") or message.get("prompt")
            messages.append(
                {
                    "role": _SPEAKERS.get(role.lower(), role),
                    "content": join_parts(content),
                }
            )
    return messages or None


def _parse_chat(text: str) -> list[object]:
    """Return the messages in a JSON text; none for any other text."""
    if text.lstrip().startswith("["):
        with suppress(DamagedError):
            messages = parse_json(text)
            if isinstance(messages, list) and all(map(_is_message, messages)):
                return messages
    return []


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and "role" in value


def join_parts(content: object) -> str | None:
    """Return the text of a message's content, with parts joined by newlines."""
    if isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, list) else ():
        text = part
        if not isinstance(part, str):
            text = Json(part).get("text")
        if isinstance(text, str):
            texts.append(text)
    return "\n".join(texts) if texts else None


def find_question(messages: Sequence[Mapping[str, object]] | None) -> str | None:
    """Return the last text of the user."""
    for message in reversed(messages or ()):
        content = message["content"]
        if message["role"] == "user" and isinstance(content, str):
            return content
    return None


# ── replies


def rank_choices(
    choices: Sequence[str],
    texts: Sequence[str],
    logprobs: Sequence[float],
    prompt: Messages | None,
    by: Sequence[float] | None = None,
) -> Completion:
    """Return the label of the likeliest choice as a completion, with all log-probabilities.

    Of equally likely choices it is the first, as in other harnesses. If given, the numbers in `by`
    are compared instead of the log-probabilities.
    """
    shares = by or logprobs
    likeliest = shares.index(max(shares))
    ranking = []
    for text, logprob in zip(texts, logprobs, strict=False):
        size = len(text.encode(errors="replace"))
        entry = {
            "continuation": text,
            "logprob": logprob,
            "bytes": size,
        }
        ranking.append(entry)
    return Completion(
        choices[likeliest],
        prompt=prompt,
        logprobs={"ranking": ranking},
    )


def add_usage(completion: Completion, output: Json) -> Completion:
    """Return a completion with what Inspect and evalscope log about its choice and its call."""
    choice = output.element(0, "choices")
    reason = choice.text("stop_reason") or ""
    logprobs = choice.get("logprobs")
    return completion.with_fields(
        **read_usage(output.get("usage")),
        finish_reason=FINISH_REASONS.get(reason, reason) or None,
        latency=output.number("time"),
        logprobs=logprobs if isinstance(logprobs, dict) else None,
    )


def list_trials(
    sample_id: str,
    question: Question,
    replies: Sequence[Completion],
    first: int = 0,
    **verdict: object,
) -> list[Record]:
    """Return a record for each reply to a question.

    The tool's verdict on all replies (fields of a completion) is put into the first record.
    """
    records = []
    for trial, reply in enumerate(replies, first):
        completion = reply.with_fields(trial=trial, **verdict)
        records.append(Record(sample_id, question, completion))
        verdict = {}
    return records
