"""Inspect's logs: `.eval` archives and `.json` files, also of runs that were interrupted.

An archive holds `header.json`, or only `_journal/start.json` while its run is not over, and a member for each
sample and epoch. A member that is there twice was written anew: the last one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from answerkey.errors import DataError, Place, listing
from answerkey.exchange.archives import DamagedError
from answerkey.exchange.fields import get, get_count, get_number, get_text, read_number
from answerkey.exchange.json_streams import JsonStream, parse_json
from answerkey.exchange.labels import find_label, label_options, read_texts
from answerkey.exchange.lines import Asked, Line, Theirs
from answerkey.exchange.logs import Glimpse, Log, Row, require_object
from answerkey.exchange.pieces import Piece
from answerkey.models.responses import mend_text, read_message, to_json_values
from answerkey.types import Completion, CompletionStatus

HEADER, START = "header.json", "_journal/start.json"
#: A sample, or the first part of one that is kept in several.
SAMPLE = re.compile(r"samples/[^/]+(/sample)?\.json")
ATTACHMENT = "attachment://"
#: What Inspect's own scores mean as numbers.
VALUES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_HEAD_KEYS = ("eval", "status", "results", "stats")
#: How Inspect names the ends of a completion, where others have other words.
_ENDS = {"max_tokens": "length", "model_length": "length"}


class InspectReader:
    """Reads one log of Inspect; of a folder, the only one in it."""

    kind: ClassVar[str] = "inspect"
    title: ClassVar[str] = "Inspect log"

    @classmethod
    def recognises(cls, glimpse: Glimpse) -> bool:
        """Return whether this is an `.eval` archive, or JSON that begins like a log."""
        if any(name.endswith(".eval") for name in glimpse.names) and not glimpse.path.is_file():
            return True
        if START in glimpse.names or (HEADER in glimpse.names and glimpse.path.is_file()):
            return True
        return glimpse.head.startswith("{") and glimpse.mentions("version", "eval", "task_id", "eval_id")

    def read(self, log: Log) -> Iterator[Line]:
        """Yield a line for each sample and epoch."""
        log.told.last_wins = True
        if log.path.is_dir():
            log.path = _find_only(log)
        members = {piece.name: piece for piece in log.pieces() if piece.name in {HEADER, START}}
        if members:
            yield from self._read_archive(log, members)
        else:
            yield from self._read_json(log)

    def _read_archive(self, log: Log, members: Mapping[str, Piece]) -> Iterator[Line]:
        head: Row = {}
        piece = members.get(HEADER) or members[START]
        with log.guard(piece):
            head = require_object(parse_json(piece.read_text()))
        sample = _Samples(log, _tell(log, head))
        for one in log.pieces():
            if not SAMPLE.fullmatch(one.name):
                continue
            log.seen += 1
            with log.guard(one):
                yield sample.read(require_object(parse_json(one.read_text())))
        if not log.seen:
            raise _refuse_empty(log)

    def _read_json(self, log: Log) -> Iterator[Line]:
        piece = next(log.pieces(), None)
        if piece is None:  # an archive without members
            raise _refuse_empty(log)
        sample: _Samples | None = None
        with log.guard(piece), piece.open_text() as text:
            stream = JsonStream(text)
            for _, value in stream.elements("samples", kept=_HEAD_KEYS):
                sample = sample or _Samples(log, _tell(log, stream.rest))
                log.seen += 1
                line = log.take(sample.read, value if isinstance(value, dict) else {}, piece, stream.line)
                if line is not None:
                    yield line
            _tell(log, stream.rest)
        if not log.seen and not log.spoiled:
            raise _refuse_empty(log)


def _find_only(log: Log) -> Path:
    found = sorted(log.path.glob("*.eval")) or sorted(log.path.rglob("*.eval"))
    if len(found) == 1:
        return found[0]
    message = f"the folder `{log.path}` holds {len(found)} logs: {listing(one.name for one in found)}"
    raise DataError("E201", message, where=Place(file=str(log.path)), hint="name one of them")


def _refuse_empty(log: Log) -> DataError:
    message = "the log has no samples: it may have been written without them (`log_samples=False`)"
    return DataError("E210", message, where=Place(file=str(log.path)))


def _tell(log: Log, head: Mapping[str, object]) -> str | None:
    """Take in what a log says of itself and return the name of the score that is looked at."""
    told, evaluation = log.told, get(head, "eval")
    told.task = get_text(evaluation, "task_display_name") or get_text(evaluation, "task")
    told.model = get_text(evaluation, "model")
    status = get_text(head, "status")
    samples, epochs = get_count(evaluation, "dataset", "samples"), get(evaluation, "dataset", "sample_ids")
    told.expected = len(epochs) if isinstance(epochs, list) else samples
    if status != "success":
        said = f"has the status `{status}`" if status else "has no end: its run was interrupted"
        if not any(said in one.message for one in log.notices):
            log.notice(f"the log {said}")
    names = _list_scores(head)
    told.score = log.wishes.score or (names[0] if names else None)
    if log.wishes.score and names and log.wishes.score not in names:
        message = f"the log has no score `{log.wishes.score}`"
        raise DataError("E206", message, where=Place(file=str(log.path)), hint=f"scores: {listing(names)}")
    told.reported = _find_reported(head, told.score)
    return told.score


def _list_scores(head: Mapping[str, object]) -> list[str]:
    listed = get(head, "results", "scores")
    if not isinstance(listed, list):
        listed = get(head, "eval", "scorers")
    names = [get_text(one, "name") for one in listed] if isinstance(listed, list) else []
    return list(dict.fromkeys(name for name in names if name))


def _find_reported(head: Mapping[str, object], score: str | None) -> dict[str, float]:
    listed = get(head, "results", "scores")
    for one in listed if isinstance(listed, list) else ():
        metrics = get(one, "metrics")
        if get_text(one, "name") == score and isinstance(metrics, dict):
            found = {str(name): get_number(value, "value") for name, value in metrics.items()}
            return {name: value for name, value in found.items() if value is not None}
    return {}


class _Samples:
    """Turns the samples of a log into lines; `score` is None where the log does not name its scores."""

    def __init__(self, log: Log, score: str | None) -> None:
        self._log = log
        self._score = score

    def read(self, sample: Row) -> Line:
        """Return the line of a sample; DamagedError for one without an id."""
        identity, epoch = get_text(sample, "id"), get_count(sample, "epoch")
        if not identity:
            raise DamagedError("the sample has no `id`")
        attached = get(sample, "attachments")
        attached = attached if isinstance(attached, dict) else {}
        options = read_texts(get(sample, "choices"))
        choices = None if options is None else label_options(len(options))
        asked = Asked(
            question=_read_input(sample.get("input"), attached),
            choices=choices,
            options=options,
            truth=_read_truth(sample.get("target"), choices, options),
            category=_find_category(sample.get("metadata")),
            original=_keep_rest(sample),
        )
        said = _read_completion(sample, attached)
        return Line(identity, asked, said, self._read_score(sample, choices), trial=epoch or 0)

    def _read_score(self, sample: Row, choices: Sequence[str] | None) -> Theirs:
        scores = get(sample, "scores")
        if not isinstance(scores, dict) or not scores:
            return Theirs()
        name = self._score if self._score in scores else None
        if name is None and self._log.wishes.score is None:
            name = self._log.told.score = str(next(iter(scores)))
        found = scores.get(name) if name else None
        answer = get_text(found, "answer")
        return Theirs(_read_value(get(found, "value")), find_label(answer, choices, None) or answer)


def _read_value(value: object) -> float | None:
    """Return a score as a number, as Inspect itself reads it; None for lists and mappings."""
    if isinstance(value, str):
        known = VALUES.get(value, VALUES.get(value.lower()))
        return read_number(value) if known is None else known
    return read_number(value)


def _attach(text: str, attached: Mapping[str, object]) -> str:
    """Return a text, or the attachment that it stands for."""
    if not text.startswith(ATTACHMENT):
        return text
    found = attached.get(text.removeprefix(ATTACHMENT))
    if not isinstance(found, str):
        raise DamagedError(f"the attachment `{text[:60]}` is not in the log")
    return found


def _read_input(given: object, attached: Mapping[str, object]) -> str | None:
    """Return the question: the text, or what the user says last."""
    if isinstance(given, str):
        return mend_text(_attach(given, attached))
    for message in reversed(given if isinstance(given, list) else []):
        if get(message, "role") == "user":
            return _join_parts(get(message, "content"), attached)
    return None


def _join_parts(content: object, attached: Mapping[str, object]) -> str | None:
    if isinstance(content, str):
        return _attach(content, attached)
    texts = [get(part, "text") for part in content] if isinstance(content, list) else []
    found = [_attach(text, attached) for text in texts if isinstance(text, str)]
    return "\n".join(found) if found else None


def _read_truth(target: object, choices: Sequence[str] | None, options: Sequence[str] | None) -> str | None:
    wanted = target if isinstance(target, list) else [target]
    labels = [find_label(one, choices, options) or get_text({"": one}, "") for one in wanted]
    return ",".join(label for label in labels if label) or None


def _find_category(metadata: object) -> str | None:
    names = ("category", "subject", "topic", "domain", "subset")
    return next((text for name in names if (text := get_text(metadata, name)) is not None), None)


def _keep_rest(sample: Row) -> Mapping[str, object]:
    """Return the sample's own metadata, and its target where it is no single label."""
    metadata = get(sample, "metadata")
    rest = dict(metadata) if isinstance(metadata, dict) else {}
    target = sample.get("target")
    return {**rest, "target": target} if isinstance(target, list) and len(target) > 1 else rest


def _read_completion(sample: Row, attached: Mapping[str, object]) -> Completion:
    error = get_text(sample, "error", "message") or get_text(sample, "error")
    output = get(sample, "output")
    said = _read_output(output, attached)
    prompt = _read_prompt(get(sample, "messages"), attached)
    if error is not None and not (said.text or "").strip():
        return Completion(None, CompletionStatus.ERROR, prompt, error=mend_text(error)[:500])
    usage = get(output, "usage")
    return replace(
        said,
        prompt=prompt,
        prompt_tokens=get_count(usage, "input_tokens"),
        completion_tokens=get_count(usage, "output_tokens"),
        latency=get_number(output, "time"),
    )


def _read_output(output: object, attached: Mapping[str, object]) -> Completion:
    """Return what the model said: the first choice, with attachments put back."""
    listed = get(output, "choices")
    choice = listed[0] if isinstance(listed, list) and listed else None
    message, text = get(choice, "message"), get(output, "completion")
    end = get_text(choice, "stop_reason")
    end = _ENDS.get(end, end) if end else None
    content = get(message, "content")
    if not isinstance(text, str) or (not text and content):
        text = _join_parts(content, attached)
    if _is_refusal(choice) or (end == "content_filter" and not (text or "").strip()):
        return Completion(None, CompletionStatus.REFUSED, finish_reason=end)
    if text is None:
        return Completion(None, CompletionStatus.NO_TEXT, finish_reason=end)
    said = read_message(_attach(text, attached))
    logprobs = get(choice, "logprobs")
    told = to_json_values(logprobs) if isinstance(logprobs, dict) else None
    return replace(said, finish_reason=end, reasoning=_find_reasoning(content, attached), logprobs=told)


def _is_refusal(choice: object) -> bool:
    """Return whether the provider marked the reply as a refusal: in its end, or in a part of its text."""
    parts = get(choice, "message", "content")
    is_marked = any(get(part, "refusal") is True for part in parts) if isinstance(parts, list) else False
    return is_marked or get(choice, "stop_details", "type") == "refusal"


def _find_reasoning(content: object, attached: Mapping[str, object]) -> str | None:
    parts = content if isinstance(content, list) else []
    found = [get(part, "reasoning") for part in parts if get(part, "type") == "reasoning"]
    texts = [mend_text(_attach(one, attached)) for one in found if isinstance(one, str)]
    return "\n".join(texts) if texts else None


def _read_prompt(messages: object, attached: Mapping[str, object]) -> list[dict[str, object]] | None:
    """Return the messages before the last reply, their texts alone."""
    listed = messages if isinstance(messages, list) else []
    last = max((at for at, one in enumerate(listed) if get(one, "role") == "assistant"), default=len(listed))
    found: list[dict[str, object]] = [
        {"role": str(get(one, "role")), "content": _join_parts(get(one, "content"), attached)}
        for one in listed[:last]
    ]
    return found or None
