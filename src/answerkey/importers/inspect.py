"""Inspect's logs: `.eval` archives and `.json` files, also of runs that were interrupted.

An archive holds `header.json`, or only `_journal/start.json` while its run is not over, and a member for each
sample and epoch. A member that is there twice was written anew: the last one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from answerkey.errors import DataError, listing
from answerkey.importers.logs import (
    DamagedError,
    JsonStream,
    Log,
    LogFile,
    LogPreview,
    Question,
    Record,
    Row,
    Verdict,
    get,
    get_count,
    get_list,
    get_number,
    get_object,
    get_text,
    require_object,
)
from answerkey.importers.questions import (
    FINISH_REASONS,
    Messages,
    fail,
    find_label,
    find_truth,
    label_options,
    read_texts,
)
from answerkey.models.responses import mend_text, read_message, to_json_values
from answerkey.types import Completion, CompletionStatus

_HEADER, _START = "header.json", "_journal/start.json"
#: A sample, or the first part of one that is kept in several.
_SAMPLE = re.compile(r"samples/[^/]+(/sample)?\.json")
_ATTACHMENT = "attachment://"
#: What Inspect's own scores mean as numbers.
_VALUES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_HEAD = ("eval", "status", "results", "stats")
_CATEGORIES = ("category", "subject", "topic", "domain", "subset")


class InspectReader:
    """Reads one log of Inspect; of a folder, the only one in it."""

    kind: ClassVar[str] = "inspect"
    title: ClassVar[str] = "Inspect log"
    #: The score that is looked at; None where the log does not name its scores.
    _score: str | None = None

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether this is an `.eval` archive, or JSON that begins like a log."""
        if any(name.endswith(".eval") for name in preview.names) and not preview.path.is_file():
            return True
        if _START in preview.names or (_HEADER in preview.names and preview.path.is_file()):
            return True
        return preview.head.startswith("{") and preview.mentions("version", "eval", "task_id", "eval_id")

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each sample and epoch."""
        log.description.last_wins = True
        if log.path.is_dir():
            found = sorted(log.path.glob("*.eval")) or sorted(log.path.rglob("*.eval"))
            if len(found) != 1:
                names = listing(one.name for one in found)
                message = f"the folder `{log.path}` holds {len(found)} logs: {names}"
                raise log.make_error("E201", message, "name one of them")
            log.path = found[0]
        heads = {file.name: file for file in log.files() if file.name in {_HEADER, _START}}
        if heads:
            yield from self._read_archive(log, heads.get(_HEADER) or heads[_START])
        else:
            yield from self._read_json(log)

    def _read_archive(self, log: Log, header: LogFile) -> Iterator[Record]:
        head: Row = {}
        with log.guard(header):
            head = require_object(header.read_json())
        self._score = _read_head(log, head)
        for file in log.files():
            if _SAMPLE.fullmatch(file.name):
                log.seen += 1
                with log.guard(file):
                    yield self._read_sample(log, require_object(file.read_json()))
        if not log.seen:
            raise _refuse_empty(log)

    def _read_json(self, log: Log) -> Iterator[Record]:
        file = next(log.files(), None)
        if file is None:  # an archive without members
            raise _refuse_empty(log)
        with log.guard(file), file.open_text() as text:
            stream = JsonStream(text)
            for _, value in stream.elements("samples", kept=_HEAD):
                if not log.seen:
                    self._score = _read_head(log, stream.rest)
                log.seen += 1
                rows = [(stream.line, value if isinstance(value, dict) else {})]
                yield from log.convert(rows, lambda row: [self._read_sample(log, row)], file)
            _read_head(log, stream.rest)
        if not log.seen and not log.broken:
            raise _refuse_empty(log)

    def _read_sample(self, log: Log, sample: Row) -> Record:
        identity, epoch = get_text(sample, "id"), get_count(sample, "epoch")
        if not identity:
            raise DamagedError("the sample has no `id`")
        attached, metadata = get_object(sample, "attachments"), get_object(sample, "metadata")
        options = read_texts(get(sample, "choices"))
        choices = None if options is None else label_options(len(options))
        target = sample.get("target")
        is_several = isinstance(target, list) and len(target) > 1
        question = Question(
            question=_read_input(sample.get("input"), attached),
            choices=choices,
            options=options,
            truth=find_truth(target, choices, options),
            category=next(
                (text for name in _CATEGORIES if (text := get_text(metadata, name)) is not None), None
            ),
            original={**metadata, "target": target} if is_several else metadata,
        )
        completion = _read_completion(sample, attached)
        return Record(identity, question, completion, self._read_verdict(log, sample, choices), epoch or 0)

    def _read_verdict(self, log: Log, sample: Row, choices: Sequence[str] | None) -> Verdict:
        scores = get_object(sample, "scores")
        if not scores:
            return Verdict()
        name = self._score if self._score in scores else None
        if name is None and log.options.score is None:
            name = log.description.score = str(next(iter(scores)))
        found = scores.get(name) if name else None
        value, answer = get(found, "value"), get_text(found, "answer")
        known = _VALUES.get(value, _VALUES.get(value.lower())) if isinstance(value, str) else None
        number = get_number(value) if known is None else known
        return Verdict(number, find_label(answer, choices, None) or answer)


def _refuse_empty(log: Log) -> DataError:
    return log.make_error(
        "E210", "the log has no samples: it may have been written without them (`log_samples=False`)"
    )


def _read_head(log: Log, head: Mapping[str, object]) -> str | None:
    """Take in what a log says of itself; return the name of the score that is looked at."""
    told, evaluation, wanted = log.description, get(head, "eval"), log.options.score
    told.task = get_text(evaluation, "task_display_name") or get_text(evaluation, "task")
    told.model = get_text(evaluation, "model")
    ids = get(evaluation, "dataset", "sample_ids")
    told.expected = len(ids) if isinstance(ids, list) else get_count(evaluation, "dataset", "samples")
    status = get_text(head, "status")
    if status != "success":
        said = f"has the status `{status}`" if status else "has no end: its run was interrupted"
        if not any(said in one.message for one in log.notices):
            log.notice(f"the log {said}")
    scores = get_list(head, "results", "scores")
    listed = scores if isinstance(get(head, "results", "scores"), list) else get_list(evaluation, "scorers")
    names = list(dict.fromkeys(name for one in listed if (name := get_text(one, "name"))))
    told.score = wanted or (names[0] if names else None)
    if wanted and names and wanted not in names:
        raise log.make_error("E206", f"the log has no score `{wanted}`", f"scores: {listing(names)}")
    told.reported = {}
    for one in scores:
        metrics = get(one, "metrics")
        if get_text(one, "name") == told.score and isinstance(metrics, dict):
            numbers = {str(name): get_number(value, "value") for name, value in metrics.items()}
            told.reported = {name: value for name, value in numbers.items() if value is not None}
            break
    return told.score


def _attach(text: str, attached: Mapping[str, object]) -> str:
    """Return a text, or the attachment that it stands for."""
    if not text.startswith(_ATTACHMENT):
        return text
    found = attached.get(text.removeprefix(_ATTACHMENT))
    if not isinstance(found, str):
        raise DamagedError(f"the attachment `{text[:60]}` is not in the log")
    return found


def _join_parts(content: object, attached: Mapping[str, object], name: str = "text") -> str | None:
    """Return the text of a message; of several parts, those that have a text under the name."""
    if isinstance(content, str):
        return _attach(content, attached)
    texts = [get(part, name) for part in content] if isinstance(content, list) else []
    found = [_attach(text, attached) for text in texts if isinstance(text, str)]
    return "\n".join(found) if found else None


def _read_input(given: object, attached: Mapping[str, object]) -> str | None:
    """Return the question: the text, or what the user says last."""
    if isinstance(given, str):
        return mend_text(_attach(given, attached))
    for message in reversed(given if isinstance(given, list) else []):
        if get(message, "role") == "user":
            return _join_parts(get(message, "content"), attached)
    return None


def _read_completion(sample: Row, attached: Mapping[str, object]) -> Completion:
    """Return what the model said: the first choice, with attachments put back and the prompt before it."""
    error = get_text(sample, "error", "message") or get_text(sample, "error")
    output, messages = get(sample, "output"), get_list(sample, "messages")
    said = _read_output(output, attached)
    replies = (at for at, one in enumerate(messages) if get(one, "role") == "assistant")
    prompt: Messages = [
        {"role": str(get(one, "role")), "content": _join_parts(get(one, "content"), attached)}
        for one in messages[: max(replies, default=len(messages))]
    ]
    if error is not None and not (said.text or "").strip():
        return fail(error, prompt or None)
    return replace(
        said,
        prompt=prompt or None,
        prompt_tokens=get_count(output, "usage", "input_tokens"),
        completion_tokens=get_count(output, "usage", "output_tokens"),
        latency=get_number(output, "time"),
    )


def _read_output(output: object, attached: Mapping[str, object]) -> Completion:
    choice = next(iter(get_list(output, "choices")), None)
    text, content, end = (
        get(output, "completion"),
        get(choice, "message", "content"),
        get_text(choice, "stop_reason"),
    )
    end = FINISH_REASONS.get(end, end) if end else None
    if not isinstance(text, str) or (not text and content):
        text = _join_parts(content, attached)
    parts = content if isinstance(content, list) else []
    is_refusal = any(get(part, "refusal") is True for part in parts)
    is_refusal = is_refusal or get(choice, "stop_details", "type") == "refusal"
    if is_refusal or (end == "content_filter" and not (text or "").strip()):
        return Completion(None, CompletionStatus.REFUSED, finish_reason=end)
    if text is None:
        return Completion(None, CompletionStatus.NO_TEXT, finish_reason=end)
    logprobs = get(choice, "logprobs")
    reasoning = _join_parts(
        [part for part in parts if get(part, "type") == "reasoning"], attached, "reasoning"
    )
    return replace(
        read_message(_attach(text, attached)),
        finish_reason=end,
        reasoning=None if reasoning is None else mend_text(reasoning),
        logprobs=to_json_values(logprobs) if isinstance(logprobs, dict) else None,
    )
