"""Evidence logs: what the hosted platform exports, and what earlier releases of answerkey wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from answerkey.errors import AnswerkeyError
from answerkey.importers import prompts
from answerkey.importers import questions as ask
from answerkey.importers.json_stream import DamagedError, Json, Row
from answerkey.importers.logs import KnownReader, Log, Record, Verdict
from answerkey.models.responses import read_message
from answerkey.spec import task_from_source
from answerkey.types import Completion

DATASET_KEY = "imported"
_HEAD = (
    "format_version",
    "status",
    "specification",
    "evidence/metrics",
    "evidence/failures",
    "errors",
)
_VERSION = "v1"
_RIGHT = "is_correct"
#: The replies are there, so nothing is asked any more; orders of options are rows by now.
_LEFT_OUT = frozenset({"solver", "choice_order", "dataset"})
#: `$NAME` as a whole value, and `<< config.x >>` anywhere.
_LOOKED_UP = re.compile(r"\A\$\S*\Z|<<\s*(config|secrets)\s*\.")


class EvidenceReader(KnownReader):
    """Reads an evidence log; the task that it states is the task of the project.

    `definition` is that of the stated task, None when it states none that can be used.
    """

    kind = "evidence"
    title = "evidence log"
    head_keys = ({"format_version", "evidence"},)

    def __init__(self) -> None:
        self.definition: dict[str, object] | None = None
        self.task_key = ""
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
            total = Json(head).count("evidence/failures", "num_total")
            log.compare_count(log.seen - before, total, "`failures.num_total`")

    def _read_head(self, log: Log, head: Json) -> None:
        """Read what the log says of itself, wherever in the file that stands."""
        version = head.text("format_version")
        if version not in {_VERSION, None}:
            log.notice(f"the log has the version `{version}`; `{_VERSION}` is known")
        specification = head.at("specification")
        task = specification.at("task")
        model = specification.at("model")
        description = log.description
        description.task = task.text("display_name") or specification.text("display_name")
        description.model = model.any_text("name", "key") or model.text()
        description.score = self._score
        description.reported = {}
        for metrics in head.list("evidence/metrics"):
            if metrics.text("scorer_key") == self._scorer:
                description.reported |= metrics.numbers("values")
        if head.text("status") == "failure":
            log.notice("the log has the status `failure`")
        self.task_key = str(task.get("key") or "")
        owner = task if task.value else specification
        self.definition = _find_definition(log, owner.object("definition"))

    def _read_sample(self, sample: Json) -> list[Record]:
        trials = sample.list("trials")
        if not trials:
            texts = (error.text("message") for error in sample.list("errors"))
            reason = next(filter(None, texts), "no reason is given")
            raise DamagedError(f"the sample has no trials: {reason}")
        return [self._read_trial(sample, trial, place) for place, trial in enumerate(trials)]

    def _read_trial(self, sample: Json, trial: Json, place: int) -> Record:
        name = sample.text("sample_id") or trial.text("sample_id")
        if name is None:
            raise DamagedError("the sample has no `sample_id`")
        score = self._choose_score(trial.list("scores"))
        index = trial.count("index")
        return Record(
            sample_id=name,
            question=_read_question(trial.object("sample", "data"), score.at("metadata")),
            completion=_read_reply(trial),
            verdict=self._read_verdict(score),
            trial=place if index is None else index,
        )

    def _choose_score(self, scores: list[Json]) -> Json:
        """Return the score of the scorer that is looked at; the first one decides which."""
        if self._scorer is None:
            judging = [score for score in scores if score.text("scorer_purpose") != "qa"]
            self._scorer = judging[0].text("scorer_key") if judging else None
        for score in scores:
            if score.text("scorer_key") == self._scorer:
                return score
        return Json(None)

    def _read_verdict(self, score: Json) -> Verdict:
        values = score.object("values")
        if not values:
            return Verdict()
        name = str(_RIGHT if _RIGHT in values else next(iter(values)))
        if self._scorer is not None:
            self._score = f"{self._scorer}.{name}"
        answer = score.at("metadata").any_text("predicted_choice", "answer_pred")
        return Verdict(score.number("values", name), answer)


def _find_definition(log: Log, definition: Row) -> dict[str, object] | None:
    """Return what is needed of the task that a log states; None when it cannot be used."""
    if not definition.get("scorers"):
        return None
    try:
        checked = _check_definition(definition)
    except (AnswerkeyError, DamagedError) as error:
        message = f"the task that the log states cannot be used: {error}"
        log.notice(message, "one that fits is written")
        return None
    if "choice_order" not in definition:
        return checked
    # The rows show other orders than their truths are written for; the scorer noted the right ones.
    message = "options were shown in several orders: each order is a sample of its own here"
    log.notice(message, "the task is one that fits, not that of the log")
    return None


def _check_definition(definition: Mapping[str, object]) -> dict[str, object]:
    """Return what of a stated task is needed to score: scorers, trials, actions, and how metrics
    group.

    AnswerkeyError or DamagedError for one that is no task, or has more in it than a task: a
    reference, or a value of the environment.
    """
    try:
        _refuse_references(definition)
    except RecursionError:
        raise DamagedError("it is nested too deeply") from None
    trimmed = {name: value for name, value in definition.items() if name not in _LEFT_OUT}
    trimmed["dataset"] = {"key": DATASET_KEY}
    source = {"key": "stated", "display_name": "", "description": "", "definition": trimmed}
    task_from_source(source)
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


def _read_question(row: Row, metadata: Json) -> ask.Question:
    """Return what a row asks; `metadata` is what the scorer noted of its choices and its truth."""
    question = ask.read_question(ask.find_columns(tuple(row)), row)
    noted = ask.read_texts(metadata.get("choices"))
    choices = (ask.take_labels(noted) if noted else None) or question.choices
    options = question.options
    if not options or len(options) != len(choices or ()):
        options = None
    truth = metadata.any_text("ground_truth_choice", "answer_gt")
    truth = truth or ask.find_label(question.truth, choices, options) or question.truth
    return replace(question, choices=choices, options=options, truth=truth, original=row)


def _read_reply(trial: Json) -> Completion:
    """Return what was said; ERROR where nothing was, and an error of the solver says why."""
    output = trial.at("solver", "output")
    if output.value is None:
        for error in trial.list("errors"):
            if error.text("stage") == "solver":
                return prompts.fail(error.text("message") or "the call failed")
    value = output.value
    if isinstance(value, str) and value.startswith('{"'):  # an output may be the JSON text of one
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    choice = output.first("output", "choices")
    if choice.value is None:
        choice = output.first("choices")
    reasoning = choice.at("message").any_text("reasoning", "reasoning_content")
    return replace(read_message(value), reply=None, reasoning=prompts.mend(reasoning))
