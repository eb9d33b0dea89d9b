"""Inspect's logs: `.eval` archives and `.json` files, including those of interrupted runs.

An archive contains `header.json`, or only `_journal/start.json` while its run is not finished, and
a member for each sample and epoch. Of repeated members, the last one counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from answerkey.datasets.content import refuse_file
from answerkey.errors import listing
from answerkey.importers.json_values import DamagedError, Json, Row, parse_bytes
from answerkey.importers.logs import Log, LogPreview, LogReader, Record, Records, iterate_files
from answerkey.importers.prompts import (
    CATEGORIES,
    Messages,
    add_usage,
    find_question,
    read_messages,
)
from answerkey.importers.questions import Question, read_logged_question
from answerkey.models.responses import fail, read_message
from answerkey.types import Completion, CompletionStatus

_HEADER, _START = "header.json", "_journal/start.json"
#: A sample, or the first part of one that is split into several members.
_SAMPLE = re.compile(r"samples/(.+_epoch_\d+|[^/]+(/sample)?)\.json")
_ATTACHMENT = "attachment://"
#: Numbers for questions, by the id of their sample.
Numbers = dict[str, dict[str | None, int]]


class InspectReader(LogReader):
    """Reads a log of Inspect, or all logs in a folder; each log is a task."""

    kind = "inspect"
    title = "Inspect log"
    head_keys = (
        {"version", "eval", "task_id", "eval_id"},
        {"version", "eval", "task_id", "run_id"},
    )

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether the log is an `.eval` archive, or JSON that begins like a log."""
        names = preview.names
        if _START in names:
            return True
        if preview.path.is_file():
            is_archive = _HEADER in names
        else:
            is_archive = any(name.endswith(".eval") for name in names)
        return is_archive or super().recognises(preview)

    def read(self, log: Log) -> Records:
        """Yield a record for each sample and epoch."""
        log.description.last_wins = True
        paths = [log.path]
        if log.path.is_dir():
            paths = []
            for file in sorted(log.path.rglob("*")):
                if file.suffix in {".eval", ".json"} and self.recognises(LogPreview(file)):
                    paths.append(file)
        for path in paths:
            yield from _read_log(log, path)


def _read_log(log: Log, path: Path) -> Records:
    """Yield the records of one log: an archive with a header, or a JSON file."""
    files = {file.name: file for file in iterate_files(path)}
    header = files.get(_HEADER) or files.get(_START)
    described = header or files.get(path.name)
    head = Json({})
    if described is not None:
        head = log.read_whole(described)
    evaluation = head.at("eval")
    name = evaluation.any_text("task_display_name", "task")
    if not log.begin_task(name or "inspect"):
        return
    score = _read_head(log, head)
    #: Numbers the questions that share an id.
    numbers: Numbers = {}
    read = partial(
        _read_sample,
        log,
        score,
        numbers,
    )
    if described is not None and header is None:
        samples = log.elements(head.get("samples"))
        yield from log.convert(described, samples, read)
    for file in iterate_files(path):
        if _SAMPLE.fullmatch(file.name):
            log.seen += 1
            with log.guard(file):
                raw = file.read_whole(most_lines=1)
                sample = Json(parse_bytes(raw))
                yield from read(sample)
    _compare(log, path, head)


def _compare(log: Log, path: Path, head: Json) -> None:
    """Compare the number of samples with the header."""
    if not log.present and head.value is not None:
        message = (
            "the log has no samples: it may have been written without them (`log_samples=False`)"
        )
        raise refuse_file("E210", message, str(path))
    status = head.text("status")
    total = head.count("results", "total_samples")
    if status != "success":
        state = f"the status `{status}`" if status else "no end, because its run was interrupted"
        log.notice(f"the log has {state}")
    # If there are more, some were written twice.
    elif total is not None and log.present < total:
        log.compare_count(log.present, total, "its header")


def _read_head(log: Log, head: Json) -> str | None:
    """Read the description of a log; return the name of its score, None if it names none."""
    description = log.description
    evaluation = head.at("eval")
    description.model = evaluation.text("model")
    description.expected = evaluation.count("dataset", "samples")
    ids = evaluation.get("dataset", "sample_ids")
    if isinstance(ids, list):
        description.expected = len(ids)
    description.score = _choose_score(log, head)
    return description.score


def _choose_score(log: Log, head: Json) -> str | None:
    """Return the score to use: the caller's, or the first; raise E206 if it is missing."""
    listed = head.list("results", "scores")
    if not isinstance(head.get("results", "scores"), list):
        listed = head.list("eval", "scorers")
    names: dict[str, None] = {}
    for scorer in listed:
        name = scorer.text("name")
        if name:
            names[name] = None
    score = log.options.score
    if score and names and score not in names:
        hint = f"scores: {listing(names)}"
        raise log.make_error("E206", f"the log has no score `{score}`", hint)
    return score or next(iter(names), None)


def _read_sample(
    log: Log,
    score_name: str | None,
    numbers: Numbers,
    sample: Json,
) -> list[Record]:
    """Return the record of a sample in one epoch.

    If several questions have the same id, the later ones get a number.
    """
    identity = sample.require("sample", "id")
    attachments = sample.object("attachments")
    cells = dict(sample.object())
    for name in ("input", "messages", "output"):
        cells[name] = _attach(sample.get(name), attachments)
    sample = Json(cells)
    messages = read_messages(sample.get("input"))
    prompt = find_question(messages)
    questions = numbers.setdefault(identity, {})
    number = questions.setdefault(prompt, len(questions) + 1)
    score = _find_score(log, score_name, sample.object("scores"))
    reply = _read_completion(sample)
    completion = reply.with_fields(
        trial=sample.count("epoch") or 0,
        imported_score=score.at("value").verdict(),
        imported_answer=score.text("answer"),
    )
    if number > 1:
        identity = f"{identity}#{number}"
    question = _read_question(sample, prompt)
    return [Record(identity, question, completion)]


def _find_score(
    log: Log,
    name: str | None,
    scores: Row,
) -> Json:
    """Return the score with this name; the first one if the log names none."""
    # A scorer may return several values, each of which is a score.
    values: Row = {}
    for score in map(Json, scores.values()):
        for key, value in score.object("value").items():
            values[str(key)] = {**score.object(), "value": value}
    listed = scores | values
    if listed and name not in listed and log.options.score is None:
        name = next(iter(values or scores))
        log.description.score = name
    return Json(listed).at(name or "")


def _read_question(sample: Json, prompt: str | None) -> Question:
    """Return the question of a sample; `prompt` is the last text of the user."""
    cells = {
        "question": prompt,
        "choices": sample.get("choices"),
    }
    target = sample.get("target")
    question = read_logged_question(cells, prompt, target=target)
    metadata = sample.at("metadata")
    question.category = metadata.any_text(*CATEGORIES)
    question.original = metadata.object()
    if isinstance(target, list) and len(target) > 1:
        question.original = {**metadata.object(), "target": target}
    return question


def _attach(value: object, attachments: Mapping[str, object]) -> object:
    """Return a value in which references to attachments are replaced by their texts."""
    if isinstance(value, dict):
        return {key: _attach(inner, attachments) for key, inner in value.items()}
    if isinstance(value, list):
        return [_attach(inner, attachments) for inner in value]
    if not isinstance(value, str) or not value.startswith(_ATTACHMENT):
        return value
    name = value.removeprefix(_ATTACHMENT)
    text = attachments.get(name)
    if not isinstance(text, str):
        raise DamagedError(f"the attachment `{value[:60]}` is not in the log")
    return text


def _read_completion(sample: Json) -> Completion:
    """Return the first choice of the model, with its prompt."""
    output = sample.at("output")
    choice = output.element(0, "choices")
    content = choice.get("message", "content")
    reply = read_message({"content": content})
    text = output.get("completion")
    if isinstance(text, str) and (text or not content):
        reply = reply.with_fields(text=text, status=CompletionStatus.OK)
    is_blank = not (reply.text or "").strip()
    is_refusal = _is_refusal(choice, is_blank=is_blank)
    error = sample.text("error", "message") or sample.text("error")
    if error is not None and (is_blank or is_refusal):
        reply = fail(error)
    else:
        reply = add_usage(reply, output)
        if is_refusal:
            reply = reply.with_fields(text=None, status=CompletionStatus.REFUSED)
    prompt = _read_prompt(sample.list("messages"))
    return reply.with_fields(prompt=prompt)


def _read_prompt(messages: list[Json]) -> Messages | None:
    """Return the messages before the last reply."""
    end = len(messages)
    for place, message in enumerate(messages):
        if message.get("role") == "assistant":
            end = place
    before = [message.value for message in messages[:end]]
    return read_messages(before)


def _is_refusal(choice: Json, *, is_blank: bool) -> bool:
    """Return whether the model refused to answer."""
    for part in choice.list("message", "content"):
        if part.get("refusal") is True:
            return True
    if choice.get("stop_details", "type") == "refusal":
        return True
    return is_blank and choice.text("stop_reason") == "content_filter"
