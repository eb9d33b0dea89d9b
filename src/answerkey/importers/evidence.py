"""Evidence logs: what the hosted platform exports, and what earlier releases of answerkey wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

from answerkey.errors import AnswerkeyError
from answerkey.importers.logs import (
    DamagedError,
    Log,
    LogPreview,
    Record,
    Row,
    Verdict,
    get,
    get_count,
    get_list,
    get_number,
    get_object,
    get_text,
)
from answerkey.importers.questions import QuestionColumns, fail, find_label, read_texts, take_labels
from answerkey.models.responses import mend_text, read_message
from answerkey.spec import task_from_source
from answerkey.types import Completion

DATASET_KEY = "imported"
_HEAD = ("format_version", "status", "specification", "evidence/metrics", "errors")
_VERSION = "v1"
_RIGHT = "is_correct"
#: What is asked and how is over: the replies are there. Orders of options are rows by now.
_LEFT_OUT = frozenset({"solver", "choice_order", "dataset"})
_KEPT = ("description", "long_description", "tags", "tasks")
#: `$NAME` as a whole value, and `<< config.x >>` anywhere.
_LOOKED_UP = re.compile(r"\A\$\S*\Z|<<\s*(config|secrets)\s*\.")


class EvidenceReader:
    """Reads an evidence log; the task that it states is the task of the project.

    `definition` is that of the stated task, None when it states none that can be used; `task_fields` is what
    else it says of itself.
    """

    kind: ClassVar[str] = "evidence"
    title: ClassVar[str] = "evidence log"

    def __init__(self) -> None:
        self.definition: dict[str, object] | None = None
        self.task_key = ""
        self.task_fields: dict[str, object] = {}
        self._scorer: str | None = None
        self._score: str | None = None
        self._columns = QuestionColumns()

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether it begins like an evidence log."""
        return preview.head.startswith("{") and preview.mentions("format_version", "evidence")

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each sample and trial."""
        for file in log.files():
            if file.name.endswith((".json", ".gz", ".zst")) or log.path.is_file():
                self._scorer = self._score = log.options.score
                head: Row = {}
                rows = log.read_sections(file, head, "evidence", "samples", kept=_HEAD)
                yield from log.convert(rows, self._read_sample, file)
                self._read_head(log, head)

    def _read_head(self, log: Log, head: Row) -> None:
        """Take in what the log says of itself, wherever in the file that stands."""
        specification, version = head.get("specification"), get_text(head, "format_version")
        if version not in {_VERSION, None}:
            log.notice(f"the log has the version `{version}`; `{_VERSION}` is known")
        task, model = get_object(specification, "task"), get(specification, "model")
        told = log.description
        told.task = get_text(task, "display_name") or get_text(specification, "display_name")
        told.model = get_text(model, "name") or get_text(model, "key") or get_text(model)
        told.score = self._score
        told.reported = {}
        for one in get_list(head, "evidence/metrics"):
            if get_text(one, "scorer_key") == self._scorer:
                numbers = {str(name): get_number(value) for name, value in get_object(one, "values").items()}
                told.reported |= {name: number for name, number in numbers.items() if number is not None}
        if get_text(head, "status") == "failure":
            log.notice("the log has the status `failure`")
        self.task_key = str(task.get("key") or "")
        kept = ((name, task.get(name)) for name in _KEPT)
        self.task_fields = {name: value for name, value in kept if value is not None and _is_plain(value)}
        definition = get_object(get(specification, "task") or specification, "definition")
        self.definition = None
        if definition.get("scorers"):
            try:
                self.definition = _check_definition(definition)
            except (AnswerkeyError, DamagedError) as error:
                log.notice(
                    f"the task that the log states cannot be used: {error}", "one that fits is written"
                )
        if self.definition is not None and "choice_order" in definition:
            # The rows show other orders than their truths are written for; the scorer noted the right ones.
            self.definition = None
            message = "options were shown in several orders: each order is a sample of its own here"
            log.notice(message, "the task is one that fits, not that of the log")

    def _read_sample(self, sample: Row) -> list[Record]:
        trials = get_list(sample, "trials")
        if not trials:
            errors = (get_text(one, "message") for one in get_list(sample, "errors"))
            reason = next((text for text in errors if text), "no reason is given")
            raise DamagedError(f"the sample has no trials: {reason}")
        return [self._read_trial(sample, trial, at) for at, trial in enumerate(trials)]

    def _read_trial(self, sample: Row, trial: object, at: int) -> Record:
        name = get_text(sample, "sample_id") or get_text(trial, "sample_id")
        if name is None:
            raise DamagedError("the sample has no `sample_id`")
        scores = get_list(trial, "scores")
        if self._scorer is None:
            first = next((one for one in scores if get_text(one, "scorer_purpose") != "qa"), None)
            self._scorer = get_text(first, "scorer_key")
        score = next((one for one in scores if get_text(one, "scorer_key") == self._scorer), None)
        row, noted = get_object(trial, "sample", "data"), get(score, "metadata")
        question = self._columns.read(row)
        stated = read_texts(get(noted, "choices"))
        choices = (take_labels(stated) if stated else None) or question.choices
        options = question.options
        options = options if options and len(options) == len(choices or ()) else None
        truth = get_text(noted, "ground_truth_choice") or get_text(noted, "answer_gt")
        truth = truth or find_label(question.truth, choices, options) or question.truth
        index = get_count(trial, "index")
        return Record(
            name,
            replace(question, choices=choices, options=options, truth=truth, original=row),
            _read_reply(trial),
            self._read_verdict(score),
            at if index is None else index,
        )

    def _read_verdict(self, score: object) -> Verdict:
        values, noted = get_object(score, "values"), get(score, "metadata")
        if not values:
            return Verdict()
        name = str(_RIGHT if _RIGHT in values else next(iter(values)))
        if self._scorer is not None:
            self._score = f"{self._scorer}.{name}"
        answer = get_text(noted, "predicted_choice") or get_text(noted, "answer_pred")
        return Verdict(get_number(values, name), answer)


def _check_definition(definition: Mapping[str, object]) -> dict[str, object]:
    """Return what of a stated task is needed to score: scorers, trials, actions, and how metrics group.

    AnswerkeyError or DamagedError for one that is no task, or has more in it than a task: a reference, or a
    value of the environment.
    """
    try:
        _refuse_references(definition)
    except RecursionError:
        raise DamagedError("it is nested too deeply") from None
    kept = {name: value for name, value in definition.items() if name not in _LEFT_OUT}
    trimmed = {**kept, "dataset": {"key": DATASET_KEY}}
    task_from_source({"key": "stated", "display_name": "", "description": "", "definition": trimmed})
    return trimmed


def _refuse_references(value: object) -> None:
    """Raise DamagedError for what a task file would look up elsewhere."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if str(key).startswith("$"):
                raise DamagedError(f"it has a reference `{key}`")
            _refuse_references(inner)
    elif isinstance(value, list):
        for inner in value:
            _refuse_references(inner)
    elif isinstance(value, str) and _LOOKED_UP.search(value):
        raise DamagedError(f"it has a value that is looked up elsewhere: `{value[:60]}`")


def _is_plain(value: object) -> bool:
    """Return whether a part of a task is text, or a list of texts, that says nothing but itself."""
    texts = value if isinstance(value, list) else [value]
    return all(isinstance(one, str) and not _LOOKED_UP.search(one) for one in texts)


def _read_reply(trial: object) -> Completion:
    """Return what was said; ERROR where nothing was, and an error of the solver says why."""
    output = get(trial, "solver", "output")
    failed = [one for one in get_list(trial, "errors") if get_text(one, "stage") == "solver"]
    if output is None and failed:
        return fail(get_text(failed[0], "message") or "the call failed")
    choices = get(output, "output", "choices") or get(output, "choices")
    message = get(choices[0], "message") if isinstance(choices, list) and choices else None
    reasoning = get_text(message, "reasoning") or get_text(message, "reasoning_content")
    if isinstance(output, str) and output.startswith('{"'):  # an output may be the JSON text of one
        with suppress(ValueError, RecursionError):
            output = json.loads(output)
    said = read_message(output)
    return replace(said, reply=None, reasoning=None if reasoning is None else mend_text(reasoning))
