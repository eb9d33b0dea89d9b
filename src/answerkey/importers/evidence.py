"""Evidence logs: what the hosted platform exports, and what earlier releases of answerkey wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from answerkey.datasets import questions as ask
from answerkey.errors import AnswerkeyError
from answerkey.importers import prompts
from answerkey.importers.logs import DamagedError, Json, KnownReader, Log, Record, Row, Verdict
from answerkey.models.responses import mend_text, read_message
from answerkey.spec import task_from_source
from answerkey.types import Completion

DATASET_KEY = "imported"
_HEAD = ("format_version", "status", "specification", "evidence/metrics", "evidence/failures", "errors")
_VERSION = "v1"
_RIGHT = "is_correct"
#: What is asked and how is over: the replies are there. Orders of options are rows by now.
_LEFT_OUT = frozenset({"solver", "choice_order", "dataset"})
_KEPT = ("description", "long_description", "tags", "tasks")
#: `$NAME` as a whole value, and `<< config.x >>` anywhere.
_LOOKED_UP = re.compile(r"\A\$\S*\Z|<<\s*(config|secrets)\s*\.")


class EvidenceReader(KnownReader):
    """Reads an evidence log; the task that it states is the task of the project.

    `definition` is that of the stated task, None when it states none that can be used; `task_fields` is what
    else it says of itself.
    """

    kind = "evidence"
    title = "evidence log"
    head_keys = ({"format_version", "evidence"},)

    def __init__(self) -> None:
        self.definition: dict[str, object] | None = None
        self.task_key = ""
        self.task_fields: dict[str, object] = {}
        self._scorer: str | None = None
        self._score: str | None = None

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each sample and trial."""
        for file in log.files(".json", ".gz", ".zst"):
            self._scorer = self._score = log.options.score
            head: Row = {}
            before = log.seen
            rows = log.elements(file, "evidence", "samples", head=head, kept=_HEAD)
            yield from log.convert(file, rows, self._read_sample)
            self._read_head(log, Json(head))
            stated = Json(head).count("evidence/failures", "num_total")
            log.compare_count(log.seen - before, stated, "`failures.num_total`")

    def _read_head(self, log: Log, head: Json) -> None:
        """Take in what the log says of itself, wherever in the file that stands."""
        specification, version = head.at("specification"), head.text("format_version")
        if version not in {_VERSION, None}:
            log.notice(f"the log has the version `{version}`; `{_VERSION}` is known")
        task, model = specification.at("task"), specification.at("model")
        told = log.description
        told.task = task.text("display_name") or specification.text("display_name")
        told.model = model.any_text("name", "key") or model.text()
        told.score = self._score
        told.reported = {}
        for one in head.list("evidence/metrics"):
            if one.text("scorer_key") == self._scorer:
                numbers = {str(name): Json(value).number() for name, value in one.object("values").items()}
                told.reported |= {name: number for name, number in numbers.items() if number is not None}
        if head.text("status") == "failure":
            log.notice("the log has the status `failure`")
        self.task_key = str(task.get("key") or "")
        self.task_fields = {}
        for name in _KEPT:  # text, or a list of texts, that says nothing but itself
            value = task.get(name)
            texts = value if isinstance(value, list) else [value]
            if all(isinstance(one, str) and not _LOOKED_UP.search(one) for one in texts):
                self.task_fields[name] = value
        definition = (task if task.value else specification).object("definition")
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

    def _read_sample(self, sample: Json) -> list[Record]:
        trials = sample.list("trials")
        if not trials:
            errors = (one.text("message") for one in sample.list("errors"))
            reason = next((text for text in errors if text), "no reason is given")
            raise DamagedError(f"the sample has no trials: {reason}")
        return [self._read_trial(sample, trial, at) for at, trial in enumerate(trials)]

    def _read_trial(self, sample: Json, trial: Json, at: int) -> Record:
        name = sample.text("sample_id") or trial.text("sample_id")
        if name is None:
            raise DamagedError("the sample has no `sample_id`")
        scores = trial.list("scores")
        if self._scorer is None:
            first = (one.text("scorer_key") for one in scores if one.text("scorer_purpose") != "qa")
            self._scorer = next(first, None)
        found = (one for one in scores if one.text("scorer_key") == self._scorer)
        score = next(found, Json(None))
        row, noted = trial.object("sample", "data"), score.at("metadata")
        question = ask.find_columns(tuple(row)).read_question(row)
        stated = ask.read_texts(noted.get("choices"))
        choices = (ask.take_labels(stated) if stated else None) or question.choices
        options = question.options
        options = options if options and len(options) == len(choices or ()) else None
        truth = noted.any_text("ground_truth_choice", "answer_gt")
        truth = truth or ask.find_label(question.truth, choices, options) or question.truth
        index = trial.count("index")
        return Record(
            name,
            replace(question, choices=choices, options=options, truth=truth, original=row),
            _read_reply(trial),
            self._read_verdict(score),
            at if index is None else index,
        )

    def _read_verdict(self, score: Json) -> Verdict:
        values = score.object("values")
        if not values:
            return Verdict()
        name = str(_RIGHT if _RIGHT in values else next(iter(values)))
        if self._scorer is not None:
            self._score = f"{self._scorer}.{name}"
        answer = score.at("metadata").any_text("predicted_choice", "answer_pred")
        return Verdict(score.number("values", name), answer)


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


def _read_reply(trial: Json) -> Completion:
    """Return what was said; ERROR where nothing was, and an error of the solver says why."""
    output = trial.at("solver", "output")
    failed = [one for one in trial.list("errors") if one.text("stage") == "solver"]
    if output.value is None and failed:
        return prompts.fail(failed[0].text("message") or "the call failed")
    choices = output.list("output", "choices") or output.list("choices")
    message = choices[0].at("message") if choices else Json(None)
    reasoning = message.any_text("reasoning", "reasoning_content")
    value = output.value
    if isinstance(value, str) and value.startswith('{"'):  # an output may be the JSON text of one
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    reasoning = None if reasoning is None else mend_text(reasoning)
    return replace(read_message(value), reply=None, reasoning=reasoning)
