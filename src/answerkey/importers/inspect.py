"""Inspect's logs: `.eval` archives and `.json` files, also of runs that were interrupted.

An archive holds `header.json`, or only `_journal/start.json` while its run is not over, and a
member for each sample and epoch. A member that is there twice was written anew: the last one
counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from answerkey.errors import DataError, Place, listing
from answerkey.importers import prompts
from answerkey.importers import questions as ask
from answerkey.importers.json_values import DamagedError, Json
from answerkey.importers.logs import (
    Log,
    LogPreview,
    LogReader,
    Record,
    Verdict,
    iterate_files,
)
from answerkey.models.responses import read_message
from answerkey.types import Completion, CompletionStatus

_HEADER, _START = "header.json", "_journal/start.json"
#: A sample, or the first part of one that is kept in several.
_SAMPLE = re.compile(r"samples/(.+_epoch_\d+|[^/]+(/sample)?)\.json")
_ATTACHMENT = "attachment://"
#: What Inspect's own scores mean as numbers.
_VALUES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


class InspectReader(LogReader):
    """Reads a log of Inspect, or all that are in a folder: each is a task."""

    kind = "inspect"
    title = "Inspect log"
    head_keys = (
        {"version", "eval", "task_id", "eval_id"},
        {"version", "eval", "task_id", "run_id"},
    )
    #: The score that is looked at; None where the log does not name its scores.
    _score: str | None = None

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether this is an `.eval` archive, or JSON that begins like a log."""
        if preview.path.is_file():
            is_known = _HEADER in preview.names
        else:
            is_known = any(name.endswith(".eval") for name in preview.names)
        return is_known or _START in preview.names or super().recognises(preview)

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each sample and epoch."""
        log.description.last_wins = True
        for path in self._list_logs(log.path):
            yield from self._read_log(log, path)

    def _list_logs(self, path: Path) -> list[Path]:
        if not path.is_dir():
            return [path]
        files = sorted(file for file in path.rglob("*") if file.suffix in {".eval", ".json"})
        return [file for file in files if self.recognises(LogPreview(file))]

    def _read_log(self, log: Log, path: Path) -> Iterator[Record]:
        """Yield the records of one log: an archive with a header, or a JSON file."""
        files = {file.name: file for file in iterate_files(path)}
        header = files.get(_HEADER) or files.get(_START)
        described = header or files.get(path.name)
        head = Json({}) if described is None else log.read_whole(described)
        name = head.text("eval", "task_display_name") or head.text("eval", "task") or "inspect"
        if not log.begin_task(name):
            return
        self._read_head(log, head)
        #: The questions that have an id, each with its number.
        numbers: dict[str, dict[str | None, int]] = {}
        before = log.seen

        def read(sample: Json) -> Record:
            return self._read_sample(log, sample, numbers)

        if described is not None and header is None:
            yield from log.convert(described, log.elements(head.get("samples")), read)
        for file in iterate_files(path):
            if _SAMPLE.fullmatch(file.name):
                log.seen += 1
                with log.guard(file):
                    yield read(file.read_json(most_lines=1))
        self._compare(log, path, head, log.seen - before)

    def _compare(self, log: Log, path: Path, head: Json, seen: int) -> None:
        """Compare how many samples were met with what the header states."""
        if not seen and head.value is not None:
            what = "it may have been written without them (`log_samples=False`)"
            raise DataError("E210", f"the log has no samples: {what}", where=Place(file=str(path)))
        status = head.text("status")
        if status != "success":
            state = f"the status `{status}`" if status else "no end: its run was interrupted"
            log.notice(f"the log has {state}")
            return
        # More than stated were written anew.
        total = head.count("results", "total_samples")
        if total is not None and seen < total:
            log.compare_count(seen, total, "its header")

    def _read_head(self, log: Log, head: Json) -> None:
        """Read what a log says of itself, and which score is looked at."""
        description = log.description
        evaluation = head.at("eval")
        description.model = evaluation.text("model")
        description.expected = evaluation.count("dataset", "samples")
        ids = evaluation.get("dataset", "sample_ids")
        if isinstance(ids, list):
            description.expected = len(ids)
        self._score = description.score = _choose_score(log, head)
        for score in head.list("results", "scores"):
            if score.text("name") == description.score and not description.reported:
                for name, metric in score.object("metrics").items():
                    value = Json(metric).number("value")
                    if value is not None:
                        description.reported[str(name)] = value

    def _read_sample(
        self, log: Log, sample: Json, numbers: dict[str, dict[str | None, int]]
    ) -> Record:
        identity = sample.require("sample", "id")
        attachments = sample.object("attachments")
        cells = dict(sample.object())
        for name in ("input", "messages", "output"):
            cells[name] = _attach(sample.get(name), attachments)
        sample = Json(cells)
        prompt = prompts.find_question(prompts.read_messages(sample.get("input")))
        question = _read_question(sample, prompt)
        # A question with the id of another one gets a number of its own.
        questions = numbers.setdefault(identity, {})
        number = questions.setdefault(prompt, len(questions) + 1)
        return Record(
            sample_id=identity if number == 1 else f"{identity}#{number}",
            question=question,
            completion=_read_completion(sample),
            verdict=self._read_verdict(log, sample, question.choices),
            trial=sample.count("epoch") or 0,
        )

    def _read_verdict(self, log: Log, sample: Json, choices: ask.Texts | None) -> Verdict:
        scores = sample.object("scores")
        # A scorer may give several values, each of which is a score.
        values: dict[str, object] = {}
        for score in map(Json, scores.values()):
            for key, value in score.object("value").items():
                values[str(key)] = {**score.object(), "value": value}
        listed = {**scores, **values}
        name = self._score if self._score in listed else None
        if listed and name is None and log.options.score is None:
            name = log.description.score = next(iter(values), next(iter(scores)))
        score = Json(listed.get(name) if name else None)
        answer = score.text("answer")
        label = ask.find_label(answer, choices, None)
        return Verdict(_read_value(score.get("value")), label or answer)


def _choose_score(log: Log, head: Json) -> str | None:
    """Return the score that is looked at: the caller's, or the first; E206 where it is missing."""
    listed = head.list("results", "scores")
    if not isinstance(head.get("results", "scores"), list):
        listed = head.list("eval", "scorers")
    texts = [score.text("name") for score in listed]
    names = [name for name in texts if name]
    score = log.options.score
    if score and names and score not in names:
        hint = f"scores: {listing(dict.fromkeys(names))}"
        raise log.make_error("E206", f"the log has no score `{score}`", hint)
    return score or next(iter(names), None)


def _read_value(value: object) -> float | None:
    """Return what the value of a score means as a number."""
    number = None
    if isinstance(value, str):
        number = _VALUES.get(value, _VALUES.get(value.lower()))
    return Json(value).number() if number is None else number


def _read_question(sample: Json, prompt: str | None) -> ask.Question:
    """Return what a sample asks; `prompt` is what the user says last."""
    cells = {"question": prompt, "choices": sample.get("choices")}
    target = sample.get("target")
    original = sample.object("metadata")
    category = Json(original).any_text(*prompts.CATEGORIES)
    if isinstance(target, list) and len(target) > 1:
        original = {**original, "target": target}
    question = ask.read_asked(cells, prompt, target=target)
    return replace(question, category=category, original=original)


def _attach(value: object, attachments: Mapping[str, object]) -> object:
    """Return a value in which texts that stand for an attachment are put back."""
    if isinstance(value, dict):
        return {key: _attach(inner, attachments) for key, inner in value.items()}
    if isinstance(value, list):
        return [_attach(inner, attachments) for inner in value]
    if not isinstance(value, str) or not value.startswith(_ATTACHMENT):
        return value
    text = attachments.get(value.removeprefix(_ATTACHMENT))
    if not isinstance(text, str):
        raise DamagedError(f"the attachment `{value[:60]}` is not in the log")
    return text


def _read_completion(sample: Json) -> Completion:
    """Return what the model said in its first choice, with the prompt before it."""
    output = sample.at("output")
    choice = output.first("choices")
    content = choice.get("message", "content")
    prompt = _read_prompt(sample.list("messages"))
    text = output.get("completion")
    if not isinstance(text, str) or (not text and content):
        text = prompts.join_parts(content)
    is_blank = not (text or "").strip()
    is_refusal = _is_refusal(choice, is_blank=is_blank)
    error = sample.text("error", "message") or sample.text("error")
    if error is not None and (is_blank or is_refusal):
        return prompts.fail(error, prompt)
    if is_refusal:
        completion = Completion(None, CompletionStatus.REFUSED)
        return prompts.add_usage(completion, output, prompt=prompt)
    if text is None:
        completion = Completion(None, CompletionStatus.NO_TEXT)
        return prompts.add_usage(completion, output, prompt=prompt)
    reasoning = None
    if isinstance(content, list):
        reasoning = prompts.join_parts(content, "reasoning", kind="reasoning")
    return prompts.add_usage(read_message(text), output, prompt=prompt, reasoning=reasoning)


def _read_prompt(messages: list[Json]) -> prompts.Messages | None:
    """Return what stands before the last reply."""
    end = len(messages)
    for place, message in enumerate(messages):
        if message.get("role") == "assistant":
            end = place
    return prompts.read_messages([message.value for message in messages[:end]])


def _is_refusal(choice: Json, *, is_blank: bool) -> bool:
    """Return whether the model refused to answer."""
    for part in choice.list("message", "content"):
        if part.get("refusal") is True:
            return True
    if choice.get("stop_details", "type") == "refusal":
        return True
    return is_blank and choice.text("stop_reason") == "content_filter"
