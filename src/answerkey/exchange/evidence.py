"""Evidence logs: what the hosted platform exports, and what earlier releases of answerkey wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from answerkey.errors import AnswerkeyError
from answerkey.exchange.archives import DamagedError
from answerkey.exchange.columns import Roles, find_roles
from answerkey.exchange.evidence_task import find_definition, restore_task
from answerkey.exchange.fields import get, get_count, get_number, get_text, read_number
from answerkey.exchange.json_streams import JsonStream
from answerkey.exchange.labels import find_label, read_texts, take_labels
from answerkey.exchange.lines import Asked, Line, Theirs
from answerkey.exchange.logs import Glimpse, Log, Row
from answerkey.exchange.pieces import Piece
from answerkey.models.responses import mend_text, read_message
from answerkey.types import Completion, CompletionStatus

_HEAD = ("format_version", "status", "specification", "evidence/metrics", "errors")
_ROLES = ("question", "options", "choices", "answer", "index", "category")
_VERSION = "v1"
RIGHT = "is_correct"


class EvidenceReader:
    """Reads an evidence log; the task that it states is the task of the project."""

    kind: ClassVar[str] = "evidence"
    title: ClassVar[str] = "evidence log"

    def __init__(self) -> None:
        self._definition: Mapping[str, object] | None = None
        self._task: Mapping[str, object] = {}

    @classmethod
    def recognises(cls, glimpse: Glimpse) -> bool:
        """Return whether it begins like an evidence log."""
        return glimpse.head.startswith("{") and glimpse.mentions("format_version", "evidence")

    def read(self, log: Log) -> Iterator[Line]:
        """Yield a line for each sample and trial."""
        for piece in log.pieces():
            if piece.name.endswith((".json", ".gz", ".zst")) or log.path.is_file():
                yield from self._read_file(log, piece)

    def _read_file(self, log: Log, piece: Piece) -> Iterator[Line]:
        samples = _Samples(log)
        head: Mapping[str, object] = {}
        with log.guard(piece), piece.open_text() as text:
            stream = JsonStream(text)
            head = stream.rest
            for _, value in stream.elements("evidence", "samples", kept=_HEAD):
                log.seen += 1
                row = value if isinstance(value, dict) else {}
                lines = log.take(samples.read, row, piece, stream.line)
                yield from lines or ()
        self._tell(log, head, samples)

    def _tell(self, log: Log, head: Mapping[str, object], samples: _Samples) -> None:
        """Take in what the log says of itself, wherever in the file that stands."""
        specification = head.get("specification")
        version = get_text(head, "format_version")
        if version not in {_VERSION, None}:
            log.notice(f"the log has the version `{version}`; `{_VERSION}` is known")
        named = get(specification, "task")
        log.told.task = get_text(named, "display_name") or get_text(specification, "display_name")
        model = get(specification, "model")
        log.told.model = get_text(model, "name") or get_text(model, "key") or get_text(model)
        log.told.score = samples.score
        log.told.reported = _list_reported(head.get("evidence/metrics"), samples.scorer)
        if get_text(head, "status") == "failure":
            log.notice("the log has the status `failure`")
        self._task = named if isinstance(named, dict) else {}
        try:
            self._definition = find_definition(specification)
        except (AnswerkeyError, DamagedError) as error:
            log.notice(f"the task that the log states cannot be used: {error}", "one that fits is written")
        if self._definition is not None and "choice_order" in self._definition:
            # The rows show other orders than their truths are written for; the scorer noted the right ones.
            self._definition = None
            message = "options were shown in several orders: each order is a sample of its own here"
            log.notice(message, "the task is one that fits, not that of the log")

    def restore(self, folder: Path, log: Log) -> None:
        """Give the project the task and the rows of the log, in place of those that fit any log."""
        if self._definition is not None:
            restore_task(folder, self._task, self._definition, name=log.told.task or "imported")


def _list_reported(metrics: object, scorer: str | None) -> dict[str, float]:
    """Return the numbers that the log states for the scorer that is looked at."""
    found: dict[str, float] = {}
    for one in metrics if isinstance(metrics, list) else ():
        values = get(one, "values")
        if get_text(one, "scorer_key") == scorer and isinstance(values, dict):
            numbers = {str(name): read_number(value) for name, value in values.items()}
            found |= {name: number for name, number in numbers.items() if number is not None}
    return found


class _Samples:
    """Turns samples into lines; `scorer` and `score` are those whose verdict is looked at."""

    def __init__(self, log: Log) -> None:
        self.scorer = log.wishes.score
        self.score: str | None = log.wishes.score
        self._roles: tuple[frozenset[str], Roles] | None = None

    def read(self, sample: Row) -> list[Line]:
        """Return the lines of a sample; DamagedError for one that cannot be used."""
        trials = get(sample, "trials")
        if not isinstance(trials, list) or not trials:
            raise DamagedError(f"the sample has no trials: {_say_errors(sample) or 'no reason is given'}")
        return [self._read_trial(sample, trial, at) for at, trial in enumerate(trials)]

    def _read_trial(self, sample: Row, trial: object, at: int) -> Line:
        name = get_text(sample, "sample_id") or get_text(trial, "sample_id")
        if name is None:
            raise DamagedError("the sample has no `sample_id`")
        found = get(trial, "sample", "data")
        row = found if isinstance(found, dict) else {}
        verdict = self._find_score(trial)
        asked = self._describe(row, get(verdict, "metadata"))
        index = get_count(trial, "index")
        return Line(name, asked, _read_reply(trial), self._judge(verdict), at if index is None else index)

    def _find_score(self, trial: object) -> object:
        """Return the score that is looked at: of the scorer that is wanted, or of the first that scores."""
        scores = get(trial, "scores")
        listed = scores if isinstance(scores, list) else []
        if self.scorer is None:
            first = next((one for one in listed if get_text(one, "scorer_purpose") != "qa"), None)
            self.scorer = get_text(first, "scorer_key")
        return next((one for one in listed if get_text(one, "scorer_key") == self.scorer), None)

    def _describe(self, row: Row, metadata: object) -> Asked:
        asked = self._find_roles(row).read_asked(row)
        stated = read_texts(get(metadata, "choices"))
        labels = take_labels(stated) if stated else None
        choices = labels or asked.choices
        options = asked.options if asked.options and len(asked.options) == len(choices or ()) else None
        truth = get_text(metadata, "ground_truth_choice") or get_text(metadata, "answer_gt")
        told = truth or find_label(asked.truth, choices, options) or asked.truth
        return replace(asked, choices=choices, options=options, truth=told, original=row)

    def _find_roles(self, row: Row) -> Roles:
        """Return which column is what; most samples have the same columns."""
        names = frozenset(row)
        if self._roles is None or self._roles[0] != names:
            found = find_roles(list(row), {})
            columns = {role: name for role, name in found.columns.items() if role in _ROLES}
            self._roles = (names, replace(found, columns=columns))
        return self._roles[1]

    def _judge(self, verdict: object) -> Theirs:
        values = get(verdict, "values")
        if not isinstance(values, dict) or not values:
            return Theirs()
        name = RIGHT if RIGHT in values else next(iter(values))
        if self.scorer is not None:
            self.score = f"{self.scorer}.{name}"
        metadata = get(verdict, "metadata")
        answer = get_text(metadata, "predicted_choice") or get_text(metadata, "answer_pred")
        return Theirs(get_number(values, str(name)), answer)


def _say_errors(holder: object) -> str | None:
    """Return the first error of a sample or a trial."""
    errors = get(holder, "errors")
    return next(
        (text for one in errors if (text := get_text(one, "message")))
        if isinstance(errors, list)
        else iter(()),
        None,
    )


def _read_reply(trial: object) -> Completion:
    """Return what was said; ERROR where nothing was, and an error of the solver says why."""
    output = get(trial, "solver", "output")
    errors = get(trial, "errors")
    failed = [one for one in errors if get_text(one, "stage") == "solver"] if isinstance(errors, list) else []
    if output is None and failed:
        reason = get_text(failed[0], "message") or "the call failed"
        return Completion(None, CompletionStatus.ERROR, error=mend_text(reason)[:500])
    said = read_message(_unpack(output))
    thoughts = _find_thoughts(output)
    return replace(said, reply=None, reasoning=thoughts)


def _unpack(output: object) -> object:
    """Return an output that may be the JSON text of one."""
    if isinstance(output, str) and output.startswith('{"'):
        try:
            return json.loads(output)
        except (ValueError, RecursionError):
            return output
    return output


def _find_thoughts(output: object) -> str | None:
    choices = get(output, "output", "choices") or get(output, "choices")
    message = get(choices[0], "message") if isinstance(choices, list) and choices else None
    found = get_text(message, "reasoning") or get_text(message, "reasoning_content")
    return None if found is None else mend_text(found)
