"""every_eval_ever: the rows of single samples, JSON Lines, as the shared schema has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import ClassVar

from answerkey.exchange.archives import DamagedError
from answerkey.exchange.fields import get, get_count, get_number, get_text
from answerkey.exchange.labels import LABELS, find_label, label_options, read_texts, take_labels
from answerkey.exchange.lines import Asked, Line, Theirs
from answerkey.exchange.logs import Glimpse, Log, Row
from answerkey.exchange.prompts import find_shown, read_messages
from answerkey.models.responses import mend_text, read_message
from answerkey.types import Completion, CompletionStatus

#: Where our own rows say which trial they are of, and what became of the call.
TRIAL, STATUS, CATEGORY, LABELS_KEY = "trial", "completion_status", "category", "choice_labels"
_CATEGORIES = (CATEGORY, "subject", "topic", "domain", "subset")
_LINES = (".jsonl", ".ndjson", ".gz", ".zst")


class EveryEvalEverReader:
    """Reads rows of single samples; the files of numbers beside them are passed over."""

    kind: ClassVar[str] = "every_eval_ever"
    title: ClassVar[str] = "every_eval_ever rows"

    @classmethod
    def recognises(cls, glimpse: Glimpse) -> bool:
        """Return whether the first line has what every row must have, or its files the usual names."""
        if glimpse.mentions("schema_version", "evaluation_id") and any(
            name.endswith("_samples.jsonl") for name in glimpse.names
        ):
            return True
        return {"schema_version", "evaluation_id", "sample_id", "answer_attribution"} <= set(glimpse.first)

    def read(self, log: Log) -> Iterator[Line]:
        """Yield a line for each reply."""
        log.told.score = "evaluation.is_correct"
        for piece in log.pieces():
            if log.path.is_dir() and not PurePosixPath(piece.name).name.endswith(_LINES):
                continue
            for number, row in log.read_lines(piece):
                log.told.task = log.told.task or get_text(row, "evaluation_name")
                log.told.model = log.told.model or get_text(row, "model_id")
                lines = log.take(_read_row, row, piece, number)
                yield from lines or ()


def _read_row(row: Row) -> list[Line]:
    name = get_text(row, "sample_id")
    if name is None:
        raise DamagedError("the row has no `sample_id`")
    choices, options = _find_choices(row)
    asked = Asked(
        question=get_text(row, "input", "raw") or get_text(row, "input", "formatted"),
        choices=choices,
        options=options,
        truth=_find_truth(row, choices, options),
        category=next((one for key in _CATEGORIES if (one := get_text(row, "metadata", key))), None),
        original=_keep_rest(row),
    )
    theirs = _judge(row, choices, options)
    stated = get_text(row, "metadata", TRIAL)
    first = int(stated) if stated and stated.isascii() and stated.isdigit() and len(stated) < 10 else 0  # noqa: PLR2004 - digits
    replies = _list_replies(row)
    return [
        Line(name, asked, one, Theirs() if place else theirs, first + place)
        for place, one in enumerate(replies)
    ]


def _find_choices(row: Row) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Return labels and options; choices that are labels leave the options to the prompt."""
    texts = read_texts(get(row, "input", "choices"))
    if texts is None:
        shown = find_shown(get_text(row, "input", "raw"))
        return (shown.choices, shown.options) if shown else (None, None)
    stated = read_texts(get_text(row, "metadata", LABELS_KEY))
    if stated is not None and len(stated) == len(texts):
        labels = take_labels(stated)
        return (labels, None) if stated == texts else (labels, texts)
    own = take_labels(texts)
    if own is not None and own == LABELS[: len(own)]:
        return own, None
    return label_options(len(texts)), texts


def _find_truth(row: Row, choices: tuple[str, ...] | None, options: tuple[str, ...] | None) -> str | None:
    found = get(row, "input", "reference")
    wanted = found if isinstance(found, list) else [found]
    texts = [find_label(one, choices, options) or get_text({"": one}, "") for one in wanted]
    return ",".join(text for text in texts if text) or None


def _keep_rest(row: Row) -> Row:
    metadata = get(row, "metadata")
    rest = metadata if isinstance(metadata, dict) else {}
    return {name: value for name, value in rest.items() if name not in {TRIAL, STATUS, LABELS_KEY}}


def _judge(row: Row, choices: tuple[str, ...] | None, options: tuple[str, ...] | None) -> Theirs:
    correct = get(row, "evaluation", "is_correct")
    value = float(correct) if isinstance(correct, bool) else get_number(row, "evaluation", "score")
    listed = get(row, "answer_attribution")
    last = (
        next((one for one in reversed(listed) if isinstance(one, dict)), None)
        if isinstance(listed, list)
        else None
    )
    read = get_text(last, "extracted_value")
    return Theirs(value, None if not read else find_label(read, choices, options) or read)


def _list_replies(row: Row) -> list[Completion]:
    """Return what was said; of an exchange in several turns, what was said last."""
    error, stated = get_text(row, "error"), get_text(row, "metadata", STATUS)
    messages, raw = get(row, "messages"), get(row, "output", "raw")
    texts: list[object] = raw if isinstance(raw, list) else [raw] if isinstance(raw, str) else []
    if not texts and isinstance(messages, list):
        texts = [{"messages": messages}]
    if not texts:
        status = CompletionStatus(stated) if stated in set(CompletionStatus) else CompletionStatus.NO_TEXT
        if error and not stated:
            status = CompletionStatus.ERROR
        status = CompletionStatus.NO_TEXT if status is CompletionStatus.OK else status
        reason = mend_text(error)[:500] if error and status is CompletionStatus.ERROR else None
        return [Completion(None, status, error=reason)]
    thoughts = read_texts(get(row, "output", "reasoning_trace")) or ()
    prompt = read_messages(get_text(row, "input", "formatted"))
    usage, latency = get(row, "token_usage"), get_number(row, "performance", "latency_ms")
    return [
        replace(
            said,
            reply=None,
            prompt=said.prompt or prompt,
            prompt_tokens=get_count(usage, "input_tokens"),
            completion_tokens=get_count(usage, "output_tokens"),
            latency=None if latency is None else latency / 1000,
            reasoning=thoughts[place] if place < len(thoughts) else None,
        )
        for place, said in enumerate(map(read_message, texts))
    ]
