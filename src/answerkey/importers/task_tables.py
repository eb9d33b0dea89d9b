"""The records of a task as two tables in files of JSON Lines: what was asked, and what was said."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from answerkey.datasets.content import describe_long, find_cell_limit
from answerkey.errors import Place, listing
from answerkey.importers.json_values import DamagedError
from answerkey.importers.logs import Log, LogDescription, Record, Verdict
from answerkey.importers.questions import LABELS, Question
from answerkey.models.responses import mend_text, to_json_values
from answerkey.types import Completion, CompletionStatus

DATASET, COMPLETIONS = "dataset.jsonl", "completions.jsonl"
NOT_IN_LOG = "the log has no completion of this sample"
_SHOWN = 5
#: So many different truths are told apart; a dataset with more has no labels for truths.
_TRUTHS = 64
#: Fewer choices than these are not taken for granted where a log does not list any.
_FEWEST_GUESSED = 4
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=str)


@dataclass
class TaskTables:
    """Writes the records of a task as they come, and counts what they hold.

    The first question of a sample counts, and the last completion of a trial. `counts` has the
    number of `questions` and `completions`, and of those with `choices`, `options`, a verdict
    (`judged`) or a `ranking`. `right` is the sum of the tool's verdicts. `foreign_truths` counts
    questions whose truth is none of their choices; `foreign_truth` describes the first.
    """

    folder: Path
    description: LogDescription
    counts: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    right: float = 0.0
    foreign_truths: int = 0
    foreign_truth: str = ""
    samples: dict[str, None] = field(default_factory=dict)
    trials: list[int] = field(default_factory=list)
    missing: int = 0
    _truths: set[str | None] = field(default_factory=set)
    #: The line of each completion, by sample and trial.
    _lines: dict[tuple[str, int], int] = field(default_factory=dict)
    _repeated: list[str] = field(default_factory=list)

    def write(self, log: Log, records: Iterable[Record]) -> None:
        """Write both tables; DataError when records do not fit together."""
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
                    where = Place(file=str(log.path), sample=record.sample_id)
                    log.mark_broken(str(error), where)
                else:
                    questions.write(question)
                    completions.write(completion)
        self._require_unique(log)
        self._number_trials()
        self._add_missing()

    def _encode(self, record: Record, longest: int) -> tuple[bytes, bytes]:
        """Return the lines of a record: of its question, if it is new, and of its completion.

        DamagedError for a line that no table would take.
        """
        sample_id, question, completion = record.sample_id, record.question, record.completion
        if sample_id in self.samples:
            question = None
        question_line = completion_line = b""
        if question is not None:
            question_line = _encode_row(sample_id, _list_question(question))
        if completion is not None:
            fields = _list_completion(completion, record.verdict)
            completion_line = _encode_row(sample_id, {"trial": record.trial, **fields})
        if max(len(question_line), len(completion_line)) > longest:
            raise DamagedError(describe_long(f"the row of sample `{sample_id}`", longest))
        if completion is not None:
            self._count_completion(record, completion)
        if question is not None:
            self._count_question(sample_id, question)
        return question_line, completion_line

    def _count_question(self, sample_id: str, question: Question) -> None:
        self.samples[sample_id] = None
        self.counts["questions"] += 1
        self.counts["choices"] += bool(question.choices)
        self.counts["options"] += bool(question.options)
        if len(self._truths) < _TRUTHS:
            self._truths.add(question.truth)
        if question.choices and question.truth not in question.choices:
            self.foreign_truths += 1
            choices = list(question.choices)
            truth = f"ground truth {question.truth!r} is not among the choices {choices}"
            self.foreign_truth = self.foreign_truth or f"sample `{sample_id}`: {truth}"

    def _count_completion(self, record: Record, completion: Completion) -> None:
        key = (record.sample_id, record.trial)
        if key in self._lines:
            self._repeated.append(record.sample_id)
        self._lines[key] = self.counts["completions"]
        self.counts["completions"] += 1
        self.statuses[completion.status.value] += 1
        if record.verdict.value is not None:
            self.counts["judged"] += 1
            self.right += record.verdict.value
        if isinstance(completion.logprobs, Mapping) and "ranking" in completion.logprobs:
            self.counts["ranking"] += 1

    def _require_unique(self, log: Log) -> None:
        """Raise E208 for a completion that is there twice, E209 for one without a question."""
        if self._repeated and not self.description.last_wins:
            message = f"samples are there twice: {_list_ids(self._repeated)}"
            raise log.make_error("E208", message, "import the files of one run at a time")
        if not self.counts["questions"]:
            (self.folder / DATASET).unlink()
            self.samples = dict.fromkeys(sample_id for sample_id, _ in self._lines)
        unknown = [sample_id for sample_id, _ in self._lines if sample_id not in self.samples]
        if unknown:
            message = f"completions without a question: {len(unknown)} ({_list_ids(unknown)})"
            hint = "the ids of the log and of the dataset must be the same"
            raise log.make_error("E209", message, hint)

    def _number_trials(self) -> None:
        """Give the trials numbers from 0 on, and drop completions that were written anew."""
        self.trials = sorted({trial for _, trial in self._lines})
        if not self._repeated and self.trials == list(range(len(self.trials))):
            return
        path = self.folder / COMPLETIONS
        draft = path.with_suffix(".draft")
        kept = set(self._lines.values())
        with path.open("rb") as source, draft.open("wb") as target:
            for number, line in enumerate(source):
                if number in kept:
                    row = json.loads(line)
                    row["trial"] = self.trials.index(row["trial"])
                    target.write(_encode_row(row.pop("sample_id"), row))
        draft.replace(path)

    def _add_missing(self) -> None:
        """Add an ERROR for each trial of a sample that is in no record."""
        error = {"completion_status": CompletionStatus.ERROR.value, "error": NOT_IN_LOG}
        with (self.folder / COMPLETIONS).open("ab") as completions:
            for sample_id in self.samples:
                for number, trial in enumerate(self.trials):
                    if (sample_id, trial) not in self._lines:
                        row = {"trial": number, "completion": None, **error}
                        completions.write(_encode_row(sample_id, row))
                        self.missing += 1

    def guess_choices(self) -> list[str] | None:
        """Return the choices of a log without any, if its truths are letters: from A to the last,
        or D.
        """
        letters = LABELS[:26]
        if self.counts["choices"] or not self._truths or not self._truths <= set(letters):
            return None
        last = max(map(letters.index, filter(None, self._truths)))
        return list(letters[: max(_FEWEST_GUESSED, last + 1)])

    def choose_scorers(self) -> list[dict[str, object]]:
        """Return scorers that fit the replies, as a task file has them.

        Without labels a reply is right when it equals the truth, letter by letter.
        """
        guessed = self.guess_choices()
        if not self.counts["choices"] and guessed is None:
            return [{"type": "string_equals", "ground_truth": "{{ sample.answer }}"}]
        rule = {
            "ground_truth_choice": "{{ sample.answer }}",
            "choices": guessed or "{{ sample.choices }}",
            "extraction": "stated_answer",
        }
        options = {"options": "{{ sample.options }}"} if self.counts["options"] else {}
        scorers: list[dict[str, object]] = [{"type": "string_equals_mcqa", **rule, **options}]
        if self.counts["ranking"] == self.counts["completions"]:
            scorers.append({"type": "choice_probabilities", **rule})
        return scorers


def _list_ids(ids: list[str]) -> str:
    """Return the first ids, for a message."""
    dots = " ..." if len(ids) > _SHOWN else ""
    return listing(ids[:_SHOWN]) + dots


def _list_question(question: Question) -> dict[str, Any]:
    fields = {
        "question": question.question,
        "options": question.options,
        "choices": question.choices,
        "category": question.category,
        "passage": question.passage,
        "original": question.original or None,
    }
    return {**_drop_empty(fields), "answer": question.truth}


def _list_completion(completion: Completion, verdict: Verdict) -> dict[str, Any]:
    fields = {
        "their_score": verdict.value,
        "their_answer": verdict.answer,
        "finish_reason": completion.finish_reason,
        "prompt_tokens": completion.prompt_tokens,
        "completion_tokens": completion.completion_tokens,
        "latency": completion.latency,
        "error": completion.error,
        "prompt": completion.prompt,
        "reasoning": completion.reasoning,
        "logprobs": completion.logprobs,
    }
    reply = {"completion": completion.text, "completion_status": completion.status.value}
    return {**reply, **_drop_empty(fields)}


def _drop_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _encode_row(sample_id: str, fields: Mapping[str, Any]) -> bytes:
    """Return a row as a line; DamagedError for one that is nested too deeply."""
    row = {"sample_id": sample_id, **fields}
    try:
        text = _ENCODER.encode(row)
    except RecursionError:
        raise DamagedError("it is nested too deeply") from None
    except ValueError:  # a number that JSON does not have
        text = _ENCODER.encode(to_json_values(row))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # half surrogate pairs, which no file can hold
        return mend_text(text).encode() + b"\n"
