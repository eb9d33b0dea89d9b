"""Inspect's logs: `.eval` archives and `.json` files, also of runs that were interrupted.

An archive holds `header.json`, or only `_journal/start.json` while its run is not over, and a
member for each sample and epoch. A member that is there twice was written anew: the last one
counts.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from answerkey.errors import DataError, Place, listing
from answerkey.importers import prompts
from answerkey.importers import questions as ask
from answerkey.importers.json_stream import DamagedError, Json, Row
from answerkey.importers.logs import (
    KnownReader,
    Log,
    LogFile,
    LogPreview,
    LookupTable,
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
_HEAD = ("version", "eval", "status", "results", "stats")
_SECOND = 2
_TESTED = "2"


class InspectReader(KnownReader):
    """Reads a log of Inspect, or all that are in a folder: each is a task."""

    kind = "inspect"
    title = "Inspect log"
    head_keys = (
        {"version", "eval", "task_id", "eval_id"},
        {"version", "eval", "task_id", "run_id"},
    )
    #: The score that is looked at; None where the log does not name its scores.
    _score: str | None = None
    #: How many samples, each epoch counted, a log states that came to its end.
    _total: int | None = None

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
            with LookupTable() as ids:
                yield from self._read_log(log, path, ids)

    def _list_logs(self, path: Path) -> list[Path]:
        if not path.is_dir():
            return [path]
        files = sorted(file for file in path.rglob("*") if file.suffix in {".eval", ".json"})
        return [file for file in files if self.recognises(LogPreview(file))]

    def _read_log(self, log: Log, path: Path, ids: LookupTable) -> Iterator[Record]:
        """Yield the records of one log; `ids` are those of its samples."""
        headers = {}
        for file in iterate_files(path):
            if file.name in {_HEADER, _START}:
                headers[file.name] = file
        header = headers.get(_HEADER) or headers.get(_START)
        first = next(iterate_files(path), None)
        before = log.seen
        if header is not None:
            is_wanted = yield from self._read_archive(log, path, header, ids)
        elif first is not None:
            is_wanted = yield from self._read_file(log, first, ids)
        else:
            is_wanted = True
        if not is_wanted:
            return
        seen = log.seen - before
        if not seen and not (log.broken and header is None):
            what = "it may have been written without them (`log_samples=False`)"
            raise DataError("E210", f"the log has no samples: {what}", where=Place(file=str(path)))
        # More than stated were written anew.
        if self._total is not None and seen < self._total:
            log.compare_count(seen, self._total, "its header")

    def _read_archive(
        self, log: Log, path: Path, header: LogFile, ids: LookupTable
    ) -> Generator[Record, None, bool]:
        """Yield the records of an archive; return whether the caller wants its task."""
        head = Json({})
        with log.guard(header):
            head = header.read_json()
        if not self._begin(log, head):
            return False
        for file in iterate_files(path):
            if _SAMPLE.fullmatch(file.name):
                log.seen += 1
                with log.guard(file):
                    yield self._read_sample(log, file.read_json(), ids)
        return True

    def _read_file(
        self, log: Log, file: LogFile, ids: LookupTable
    ) -> Generator[Record, None, bool]:
        """Yield the records of a JSON file; return whether the caller wants its task."""
        head: Row = {}
        before = log.seen
        is_wanted = False

        def read(row: Json) -> list[Record]:
            nonlocal is_wanted
            # What is known by the first sample says which score is looked at.
            if log.seen == before + 1:
                is_wanted = self._begin(log, Json(head))
            return [self._read_sample(log, row, ids)] if is_wanted else []

        rows = log.elements(file, "samples", head=head, kept=_HEAD)
        yield from log.convert(file, rows, read)
        if is_wanted:
            self._read_head(log, Json(head))
        return is_wanted or log.seen == before

    def _begin(self, log: Log, head: Json) -> bool:
        """Begin the task of a log; return whether the caller wants it."""
        name = head.text("eval", "task_display_name") or head.text("eval", "task") or "inspect"
        if not log.begin_task(name):
            return False
        self._read_head(log, head)
        return True

    def _read_head(self, log: Log, head: Json) -> None:
        """Read what a log says of itself, and which score is looked at."""
        description = log.description
        evaluation = head.at("eval")
        log.compare_version(head.text("version"), _TESTED)
        description.model = evaluation.text("model")
        description.expected = evaluation.count("dataset", "samples")
        ids = evaluation.get("dataset", "sample_ids")
        if isinstance(ids, list):
            description.expected = len(ids)
        self._read_status(log, head)
        scores = head.list("results", "scores")
        self._score = description.score = _choose_score(log, head)
        description.reported = {}
        for score in scores:
            if score.text("name") == description.score:
                description.reported = _read_metrics(score)
                break

    def _read_status(self, log: Log, head: Json) -> None:
        status = head.text("status")
        if status == "success":
            self._total = head.count("results", "total_samples")
            return
        self._total = None
        state = f"has the status `{status}`" if status else "has no end: its run was interrupted"
        if not any(state in notice.message for notice in log.notices):
            log.notice(f"the log {state}")

    def _read_sample(self, log: Log, sample: Json, ids: LookupTable) -> Record:
        identity = sample.text("id")
        if not identity:
            raise DamagedError("the sample has no `id`")
        attachments = sample.object("attachments")
        cells = dict(sample.object())
        for name in ("input", "messages", "output"):
            cells[name] = _attach(sample.get(name), attachments)
        sample = Json(cells)
        prompt = prompts.find_question(prompts.read_messages(sample.get("input")))
        question = _read_question(sample, prompt)
        return Record(
            sample_id=_name_sample(log, identity, prompt, ids),
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


def _read_metrics(score: Json) -> dict[str, float]:
    """Return the numbers that Inspect reports for a score."""
    metrics = {}
    for name, metric in score.object("metrics").items():
        value = Json(metric).number("value")
        if value is not None:
            metrics[str(name)] = value
    return metrics


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


def _name_sample(log: Log, identity: str, prompt: str | None, ids: LookupTable) -> str:
    """Return the id of a sample; a question with the id of another gets a number of its own."""
    content = blake2b((prompt or "").encode(errors="replace"), digest_size=8).hexdigest()
    numbers: dict[str, int] = ids.get(identity) or {}
    if content not in numbers:
        numbers[content] = len(numbers) + 1
        ids.put(identity, numbers)
        if len(numbers) == _SECOND:
            log.notice(
                f"several questions have the id `{identity}`: they are told apart by `#2`, `#3`, …"
            )
    return identity if numbers[content] == 1 else f"{identity}#{numbers[content]}"


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
