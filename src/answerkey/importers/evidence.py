"""Evidence logs: what the hosted platform exports, and what earlier releases of answerkey wrote."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial

from answerkey.datasets.options import take_labels
from answerkey.datasets.questions import find_columns
from answerkey.importers.json_values import DamagedError, Json, Row
from answerkey.importers.logs import Log, LogReader, Record, Records
from answerkey.importers.questions import Question, read_question, read_texts
from answerkey.models.responses import fail, read_message
from answerkey.types import Completion

_VERSION = "v1"
_RIGHT = "is_correct"


class EvidenceReader(LogReader):
    """Reads an evidence log: one scorer with purpose `score`, and its verdicts."""

    kind = "evidence"
    title = "evidence log"
    head_keys = ({"format_version", "evidence"},)
    _scorer: str | None = None

    def read(self, log: Log) -> Records:
        """Yield a record for each sample and trial."""
        for file in log.files(".json", ".gz", ".zst"):
            document = log.read_whole(file)
            evidence = document.at("evidence")
            self._scorer = log.options.score
            self._describe(log, document)
            before = log.seen
            samples = evidence.get("samples")
            yield from log.convert(
                file,
                log.elements(samples),
                partial(self._read_sample, log),
            )
            present = log.seen - before
            total = evidence.count("failures", "num_total")
            log.compare_count(present, total, "`failures.num_total`")

    def _describe(self, log: Log, document: Json) -> None:
        """Read the description of the log."""
        version = document.text("format_version")
        if version not in {_VERSION, None}:
            log.notice(f"the log has the version `{version}`; `{_VERSION}` is known")
        if document.text("status") == "failure":
            log.notice("the log has the status `failure`")
        description = log.description
        specification = document.at("specification")
        title = specification.text("task", "display_name")
        description.task = title or specification.text("display_name")
        model = specification.at("model")
        description.model = model.any_text("name", "key") or model.text()

    def _read_sample(
        self,
        log: Log,
        sample: Json,
    ) -> list[Record]:
        trials = sample.list("trials")
        if not trials:
            reason = "no reason is given"
            for error in reversed(sample.list("errors")):
                reason = error.text("message") or reason
            raise DamagedError(f"the sample has no trials: {reason}")
        records = []
        for place, trial in enumerate(trials):
            name = sample.text("sample_id") or trial.text("sample_id")
            if name is None:
                raise DamagedError("the sample has no `sample_id`")
            score = self._choose_score(trial.list("scores"))
            metadata = score.at("metadata")
            values = score.object("values")
            value_name = _RIGHT if _RIGHT in values else next(iter(values), "")
            if value_name:
                log.description.score = f"{self._scorer}.{value_name}"
            index = trial.count("index")
            reply = _read_reply(trial)
            completion = reply.with_fields(
                trial=place if index is None else index,
                imported_score=score.number("values", value_name),
                imported_answer=metadata.any_text("predicted_choice", "answer_pred"),
            )
            row = trial.object("sample", "data")
            question = _read_question(row, metadata)
            records.append(Record(name, question, completion))
        return records

    def _choose_score(self, scores: list[Json]) -> Json:
        """Return the score of the chosen scorer; the first trial decides which one that is."""
        for score in scores:
            if self._scorer is None and score.text("scorer_purpose") != "qa":
                self._scorer = score.text("scorer_key")
            if score.text("scorer_key") == self._scorer:
                return score
        return Json(None)


def _read_question(row: Row, metadata: Json) -> Question:
    """Return the question in a row; `metadata` is the scorer's record of choices and truth."""
    columns = find_columns(tuple(row))
    question = read_question(columns, row)
    texts = read_texts(metadata.get("choices")) or ()
    choices = take_labels(texts) or question.choices
    question.choices = choices
    if len(question.options or ()) != len(choices or ()):
        question.options = None
    truth = metadata.any_text("ground_truth_choice", "answer_gt")
    label = question.find_label(question.truth)
    question.truth = truth or label or question.truth
    question.original = row
    return question


def _read_reply(trial: Json) -> Completion:
    """Return the reply; ERROR if there is none, with the solver's error as the reason."""
    output = trial.get("solver", "output")
    if output is None:
        for error in trial.list("errors"):
            if error.text("stage") == "solver":
                reason = error.text("message") or "the call failed"
                return fail(reason)
    if isinstance(output, str) and output.startswith('{"'):  # an output may be JSON text
        with suppress(ValueError, RecursionError):
            output = json.loads(output)
    return read_message(output)
