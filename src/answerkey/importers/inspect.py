"""Inspect's logs: `.eval` archives and `.json` files, also of runs that were interrupted.

An archive holds `header.json`, or only `_journal/start.json` while its run is not over, and a member for each
sample and epoch. A member that is there twice was written anew: the last one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from answerkey.datasets import questions as ask
from answerkey.errors import DataError, Place, listing
from answerkey.importers import prompts
from answerkey.importers.logs import (
    DamagedError,
    Json,
    KnownReader,
    Log,
    LogPreview,
    LookupTable,
    Record,
    Row,
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
    head_keys = ({"version", "eval", "task_id", "eval_id"}, {"version", "eval", "task_id", "run_id"})
    #: The score that is looked at; None where the log does not name its scores.
    _score: str | None = None
    #: How many samples, each epoch counted, a log states that came to its end.
    _total: int | None = None

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether this is an `.eval` archive, or JSON that begins like a log."""
        if any(name.endswith(".eval") for name in preview.names) and not preview.path.is_file():
            return True
        is_archive = _START in preview.names or (_HEADER in preview.names and preview.path.is_file())
        return is_archive or super().recognises(preview)

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each sample and epoch."""
        log.description.last_wins = True
        paths = [log.path]
        if log.path.is_dir():
            files = sorted(one for one in log.path.rglob("*") if one.suffix in {".eval", ".json"})
            paths = [one for one in files if self.recognises(LogPreview(one))]
        for path in paths:
            with LookupTable() as known:
                yield from self._read_log(log, path, known)

    def _read_log(self, log: Log, path: Path, known: LookupTable) -> Iterator[Record]:
        """Yield the records of one log; `known` are the ids of its samples."""
        headers = {file.name: file for file in iterate_files(path) if file.name in {_HEADER, _START}}
        header, first = headers.get(_HEADER) or headers.get(_START), next(iterate_files(path), None)
        before = log.seen
        if header is not None:
            head = Json({})
            with log.guard(header):
                head = header.read_json()
            if not self._begin(log, head):
                return
            for file in iterate_files(path):
                if _SAMPLE.fullmatch(file.name):
                    log.seen += 1
                    with log.guard(file):
                        yield self._read_sample(log, file.read_json(), known)
        elif first is not None:
            beside: Row = {}
            is_wanted = False

            def read(row: Json) -> list[Record]:
                nonlocal is_wanted
                if log.seen == before + 1:  # what is known by then says which score is looked at
                    is_wanted = self._begin(log, Json(beside))
                return [self._read_sample(log, row, known)] if is_wanted else []

            rows = log.elements(first, "samples", head=beside, kept=_HEAD)
            yield from log.convert(first, rows, read)
            if is_wanted:
                self._read_head(log, Json(beside))
            elif log.seen > before:
                return
        if log.seen == before and not (log.broken and header is None):
            what = "it may have been written without them (`log_samples=False`)"
            raise DataError("E210", f"the log has no samples: {what}", where=Place(file=str(path)))
        if self._total is not None and log.seen - before < self._total:  # more of them were written anew
            log.compare_count(log.seen - before, self._total, "its header")

    def _begin(self, log: Log, head: Json) -> bool:
        """Go over to the task of a log; return whether it is wanted."""
        name = head.text("eval", "task_display_name") or head.text("eval", "task") or "inspect"
        if not log.begin_task(name):
            return False
        self._read_head(log, head)
        return True

    def _read_head(self, log: Log, head: Json) -> None:
        """Take in what a log says of itself, and which score is looked at."""
        told, evaluation, wanted = log.description, head.at("eval"), log.options.score
        log.compare_version(head.text("version"), _TESTED)
        told.model = evaluation.text("model")
        ids = evaluation.get("dataset", "sample_ids")
        told.expected = len(ids) if isinstance(ids, list) else evaluation.count("dataset", "samples")
        status = head.text("status")
        self._total = head.count("results", "total_samples") if status == "success" else None
        if status != "success":
            said = f"has the status `{status}`" if status else "has no end: its run was interrupted"
            if not any(said in one.message for one in log.notices):
                log.notice(f"the log {said}")
        scores = head.list("results", "scores")
        listed = scores if isinstance(head.get("results", "scores"), list) else evaluation.list("scorers")
        names = list(dict.fromkeys(name for one in listed if (name := one.text("name"))))
        self._score = told.score = wanted or (names[0] if names else None)
        if wanted and names and wanted not in names:
            raise log.make_error("E206", f"the log has no score `{wanted}`", f"scores: {listing(names)}")
        metrics = next((one.object("metrics") for one in scores if one.text("name") == told.score), {})
        numbers = {str(name): Json(value).number("value") for name, value in metrics.items()}
        told.reported = {name: value for name, value in numbers.items() if value is not None}

    def _read_sample(self, log: Log, sample: Json, known: LookupTable) -> Record:
        identity = sample.text("id")
        if not identity:
            raise DamagedError("the sample has no `id`")
        attached = sample.object("attachments")
        told = {name: _attach(sample.get(name), attached) for name in ("input", "messages", "output")}
        sample = Json({**sample.object(), **told})
        target, metadata = sample.get("target"), sample.object("metadata")
        asked = prompts.find_question(prompts.read_messages(sample.get("input")))
        cells = {"question": asked, "choices": sample.get("choices")}
        question = ask.read_asked(cells, asked, target=target)
        question = replace(
            question,
            category=Json(metadata).any_text("category", "subject", "topic", "domain", "subset"),
            original={**metadata, "target": target}
            if isinstance(target, list) and len(target) > 1
            else metadata,
        )
        verdict = self._read_verdict(log, sample, question.choices)
        name = _name_sample(log, identity, asked, known)
        return Record(name, question, _read_completion(sample), verdict, sample.count("epoch") or 0)

    def _read_verdict(self, log: Log, sample: Json, choices: ask.Texts | None) -> Verdict:
        scores = sample.object("scores")
        # A scorer may give several values, each of which is a score.
        inner = {
            str(key): {**Json(score).object(), "value": value}
            for score in scores.values()
            for key, value in Json(score).object("value").items()
        }
        listed = {**scores, **inner}
        name = self._score if self._score in listed else None
        if listed and name is None and log.options.score is None:
            name = log.description.score = next(iter(inner), next(iter(scores)))
        found = Json(listed.get(name) if name else None)
        value, answer = found.get("value"), found.text("answer")
        meant = _VALUES.get(value, _VALUES.get(value.lower())) if isinstance(value, str) else None
        number = Json(value).number() if meant is None else meant
        return Verdict(number, ask.find_label(answer, choices, None) or answer)


def _name_sample(log: Log, identity: str, asked: str | None, known: LookupTable) -> str:
    """Return the id of a sample; a question with the id of another gets a number of its own."""
    content = blake2b((asked or "").encode(errors="replace"), digest_size=8).hexdigest()
    numbers: dict[str, int] = known.get(identity) or {}
    if content not in numbers:
        numbers[content] = len(numbers) + 1
        known.put(identity, numbers)
        if len(numbers) == _SECOND:
            log.notice(f"several questions have the id `{identity}`: they are told apart by `#2`, `#3`, …")
    return identity if numbers[content] == 1 else f"{identity}#{numbers[content]}"


def _attach(value: object, attached: Mapping[str, object]) -> object:
    """Return a value in which texts that stand for an attachment are put back."""
    if isinstance(value, dict):
        return {key: _attach(one, attached) for key, one in value.items()}
    if isinstance(value, list):
        return [_attach(one, attached) for one in value]
    if not isinstance(value, str) or not value.startswith(_ATTACHMENT):
        return value
    found = attached.get(value.removeprefix(_ATTACHMENT))
    if not isinstance(found, str):
        raise DamagedError(f"the attachment `{value[:60]}` is not in the log")
    return found


def _read_completion(sample: Json) -> Completion:
    """Return what the model said in its first choice, with the prompt before it."""
    error = sample.text("error", "message") or sample.text("error")
    messages, output = sample.list("messages"), sample.at("output")
    replies = (at for at, one in enumerate(messages) if one.get("role") == "assistant")
    before = [one.value for one in messages[: max(replies, default=len(messages))]]
    prompt = prompts.read_messages(before)
    choice = next(iter(output.list("choices")), Json(None))
    text, content = output.get("completion"), choice.get("message", "content")
    if not isinstance(text, str) or (not text and content):
        text = prompts.join_parts(content)
    is_blank = not (text or "").strip()
    parts = content if isinstance(content, list) else []
    is_refusal = any(Json(part).get("refusal") is True for part in parts)
    is_refusal = is_refusal or choice.get("stop_details", "type") == "refusal"
    is_refusal = is_refusal or (is_blank and choice.text("stop_reason") == "content_filter")
    if error is not None and (is_blank or is_refusal):
        return prompts.fail(error, prompt)
    if is_refusal or text is None:
        said = Completion(None, CompletionStatus.REFUSED if is_refusal else CompletionStatus.NO_TEXT)
        return prompts.add_usage(said, output, prompt=prompt)
    reasoning = prompts.join_parts(parts, "reasoning", kind="reasoning")
    return prompts.add_usage(read_message(text), output, prompt=prompt, reasoning=reasoning)
