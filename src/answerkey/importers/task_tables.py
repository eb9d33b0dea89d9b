"""Writes the records of a task as two JSON Lines tables: questions and completions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from answerkey.datasets.content import describe_long, find_cell_limit
from answerkey.datasets.options import LABELS
from answerkey.errors import listing
from answerkey.importers.json_values import DamagedError, Row
from answerkey.importers.logs import Log, LogDescription, Record
from answerkey.importers.questions import Question
from answerkey.models.responses import fail, replace_lone_surrogates, to_json_values
from answerkey.types import Completion

DATASET, COMPLETIONS = "dataset.jsonl", "completions.jsonl"
NOT_IN_LOG = "the log has no completion of this sample"
_SHOWN = 5
#: The maximum number of distinct truths that are counted; with more, truths are not labels.
_TRUTHS = 64
#: The minimum number of choices if a log lists none.
_FEWEST_GUESSED = 4
_ENCODER = json.JSONEncoder(
    ensure_ascii=False,
    allow_nan=False,
    default=str,
)
_QUESTION_FIELDS = ("question", "options", "choices", "category", "passage")
_COMPLETION_FIELDS = (
    "imported_score",
    "imported_answer",
    "finish_reason",
    "prompt_tokens",
    "completion_tokens",
    "latency",
    "error",
    "prompt",
    "reasoning",
    "logprobs",
)


@dataclass
class ImportedTask:
    """A task of an imported log: its key, its description, and counts.

    `samples` were asked `num_trials` times each. `statuses` counts completions by status, `judged`
    those with a verdict of the tool; `right` is the sum of these verdicts.
    """

    key: str
    description: LogDescription
    samples: int = 0
    num_trials: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    judged: int = 0
    right: float = 0.0
    has_questions: bool = False
    scorers: list[Row] = field(default_factory=list, repr=False)

    @property
    def imported_mean(self) -> float | None:
        """The mean of the tool's verdicts."""
        return self.right / self.judged if self.judged else None

    def describe(self) -> Row:
        """Return the task as plain values."""
        description = self.description
        return {
            "task": description.task,
            "model": description.model,
            "samples": self.samples,
            "num_trials": self.num_trials,
            "completions": self.statuses,
            "verdicts": {
                "score": description.score,
                "judged": self.judged,
                "mean": self.imported_mean,
            },
        }


class TaskTables:
    """Writes the records of a task as they arrive, and counts them.

    The first question of a sample counts, and the last completion of a trial. `counts` has the
    numbers of `questions` and `completions`, and of those with `choices`, `options` or a `ranking`.
    """

    def __init__(self, folder: Path, task: ImportedTask) -> None:
        self.folder = folder
        self.task = task
        self.counts: Counter[str] = Counter()
        self._samples: dict[str, None] = {}
        self._trials: list[int] = []
        self._missing = 0
        self._truths: set[str | None] = set()
        #: The line number of each completion, by sample and trial.
        self._lines: dict[tuple[str, int], int] = {}
        self._repeated: list[str] = []

    def write(
        self,
        log: Log,
        records: Iterable[Record],
    ) -> None:
        """Write both tables; raise DataError if the records do not fit together."""
        self.folder.mkdir(parents=True)
        longest = find_cell_limit()
        with (
            (self.folder / DATASET).open("wb") as questions,
            (self.folder / COMPLETIONS).open("wb") as completions,
        ):
            for record in records:
                try:
                    question, completion = self._encode(record, longest)
                except DamagedError as error:
                    where = replace(log.where, sample=record.sample_id)
                    log.add_damage(str(error), where)
                else:
                    questions.write(question)
                    completions.write(completion)
        self._require_unique(log)
        self._number_trials()
        self._add_missing()

    def _encode(
        self,
        record: Record,
        longest: int,
    ) -> tuple[bytes, bytes]:
        """Return the lines of a record: of its question, if it is new, and of its completion.

        Raises DamagedError for a line that is too long for a table.
        """
        sample_id = record.sample_id
        question = record.question
        completion = record.completion
        question_line = b""
        completion_line = b""
        if completion is not None:
            answer = completion.imported_answer
            if question is not None and answer is not None:
                label = question.find_label(answer) or answer
                completion = completion.with_fields(imported_answer=label)
            row = _list_completion(completion)
            completion_line = _encode_row(sample_id, row)
        if sample_id in self._samples:
            question = None
        if question is not None:
            row = _list_question(question)
            question_line = _encode_row(sample_id, row)
        if max(len(question_line), len(completion_line)) > longest:
            raise DamagedError(describe_long(f"the row of sample `{sample_id}`", longest))
        if completion is not None:
            self._count_completion(sample_id, completion)
        if question is not None:
            self._count_question(sample_id, question)
        return question_line, completion_line

    def _count_question(self, sample_id: str, question: Question) -> None:
        self._samples[sample_id] = None
        self.counts["questions"] += 1
        self.counts["choices"] += bool(question.choices)
        self.counts["options"] += bool(question.options)
        if len(self._truths) < _TRUTHS:
            self._truths.add(question.truth)

    def _count_completion(self, sample_id: str, completion: Completion) -> None:
        key = (sample_id, completion.trial)
        if key in self._lines:
            self._repeated.append(sample_id)
        self._lines[key] = self.counts["completions"]
        self.counts["completions"] += 1
        self.task.statuses[completion.status.value] += 1
        if completion.imported_score is not None:
            self.task.judged += 1
            self.task.right += completion.imported_score
        logprobs = completion.logprobs
        if isinstance(logprobs, dict) and "ranking" in logprobs:
            self.counts["ranking"] += 1

    def _require_unique(self, log: Log) -> None:
        """Raise E208 for duplicate completions of a sample, E209 for completions without a
        question.
        """
        if self._repeated and not self.task.description.last_wins:
            message = f"duplicate sample ids: {listing(self._repeated, limit=_SHOWN)}"
            raise log.make_error("E208", message, "import the files of one run at a time")
        if not self.counts["questions"]:
            (self.folder / DATASET).unlink()
            self._samples = dict.fromkeys(sample_id for sample_id, _ in self._lines)
        unknown = []
        for sample_id, _ in self._lines:
            if sample_id not in self._samples:
                unknown.append(sample_id)
        if unknown:
            ids = listing(unknown, limit=_SHOWN)
            message = f"completions without a question: {len(unknown)} ({ids})"
            hint = "the ids of the log and of the dataset must be the same"
            raise log.make_error("E209", message, hint)

    def _number_trials(self) -> None:
        """Renumber the trials from 0, and drop completions that were written again later."""
        trials = sorted({trial for _, trial in self._lines})
        self._trials = trials
        is_numbered = trials == list(range(len(trials)))
        if is_numbered and not self._repeated:
            return
        path = self.folder / COMPLETIONS
        draft = path.with_suffix(".draft")
        kept = set(self._lines.values())
        with path.open("rb") as source, draft.open("wb") as target:
            for number, line in enumerate(source):
                if number in kept:
                    row = json.loads(line)
                    row["trial"] = trials.index(row["trial"])
                    sample_id = row.pop("sample_id")
                    target.write(_encode_row(sample_id, row))
        draft.replace(path)

    def _add_missing(self) -> None:
        """Add an ERROR for each trial of a sample that has no record."""
        missing = fail(NOT_IN_LOG)
        with (self.folder / COMPLETIONS).open("ab") as completions:
            for sample_id in self._samples:
                for number, trial in enumerate(self._trials):
                    if (sample_id, trial) not in self._lines:
                        row = _list_completion(missing.with_fields(trial=number))
                        completions.write(_encode_row(sample_id, row))
                        self._missing += 1

    def finish(self, log: Log) -> None:
        """Complete the task's counts and scorers, and add notices about the records as a whole."""
        task = self.task
        task.samples = len(self._samples)
        task.num_trials = len(self._trials)
        statuses = sorted(task.statuses.items())
        task.statuses = Counter(dict(statuses))
        task.has_questions = bool(self.counts["questions"])
        inferred = self._infer_choices()
        task.scorers = self._choose_scorers(inferred)
        start = f"task `{task.description.task}`: " if len(log.tasks) > 1 else ""
        if self._missing:
            hint = "they become completions with the status ERROR, so a run of them is incomplete"
            log.notice(f"{start}{self._missing} completions are not in the log", hint)
        expected = task.description.expected
        if expected is not None and expected > task.samples:
            log.notice(f"{start}the log has {task.samples} of {expected} samples")
        if task.has_questions and not self.counts["choices"]:
            consequence = "replies are compared as texts"
            if inferred:
                consequence = f"by the truths, they are assumed to be {listing(inferred)}"
            log.notice(f"{start}the log lists no choices: {consequence}")

    def _infer_choices(self) -> list[str] | None:
        """Return the choices if the log lists none but its truths are letters: A to the last, or to
        D.
        """
        letters = LABELS[:26]
        truths = self._truths
        if self.counts["choices"] or not truths or not truths.issubset(letters):
            return None
        last = max(filter(None, truths))
        count = letters.index(last) + 1
        return list(letters[: max(_FEWEST_GUESSED, count)])

    def _choose_scorers(self, inferred: list[str] | None) -> list[Row]:
        """Return scorers for the replies, as in a task file.

        Without labels, a reply is right if it equals the truth exactly.
        """
        if not self.counts["choices"] and inferred is None:
            return [{"type": "string_equals", "ground_truth": "{{ sample.answer }}"}]
        rule: Row = {
            "ground_truth_choice": "{{ sample.answer }}",
            "choices": inferred or "{{ sample.choices }}",
            "extraction": "stated_answer",
        }
        by_text = {"type": "string_equals_mcqa", **rule}
        if self.counts["options"]:
            by_text["options"] = "{{ sample.options }}"
        if self.counts["ranking"] != self.counts["completions"]:
            return [by_text]
        return [by_text, {"type": "choice_probabilities", **rule}]


def _list_question(question: Question) -> Row:
    row = _list_fields(question, _QUESTION_FIELDS)
    if question.original:
        row["original"] = question.original
    row["answer"] = question.truth
    return row


def _list_completion(completion: Completion) -> Row:
    row: Row = {
        "trial": completion.trial,
        "completion": completion.text,
        "completion_status": completion.status.value,
    }
    return row | _list_fields(completion, _COMPLETION_FIELDS)


def _list_fields(value: object, names: Sequence[str]) -> Row:
    """Return the fields that are not null."""
    fields = {}
    for name in names:
        content = getattr(value, name)
        if content is not None:
            fields[name] = content
    return fields


def _encode_row(sample_id: str, fields: Row) -> bytes:
    """Return a row as a line; raise DamagedError if it is nested too deeply."""
    row = {"sample_id": sample_id, **fields}
    try:
        text = _ENCODER.encode(row)
    except RecursionError:
        raise DamagedError("it is nested too deeply") from None
    except ValueError:  # numbers that JSON does not have
        text = _ENCODER.encode(to_json_values(row))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # lone surrogates, which no file can hold
        return replace_lone_surrogates(text).encode() + b"\n"
