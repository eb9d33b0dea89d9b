"""Rows as other tools want them: the question, the reply, and the verdict of each scorer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from answerkey.evaluate.reopen import Reopened
from answerkey.exporters.rows import find_encoded
from answerkey.runs import Run, find_answerer
from answerkey.types import Completion, MetricValue, Score, Scores, ScoreStatus

#: Rows that become Python values together: those are larger than columns.
CHUNK_ROWS = 1_024
#: Columns of a dataset that hold the question, the likeliest first.
QUESTIONS = ("question", "question_stem", "query", "problem", "prompt", "input", "text")


@dataclass(frozen=True, slots=True)
class Record:
    """One row: what was asked and answered, and the verdict of each scorer."""

    sample_id: str
    trial: int
    reply: Completion
    sample: Mapping[str, Any]
    choices: Sequence[object]
    options: Sequence[object]
    truth: object
    verdicts: Mapping[str, Score]

    def find_text(self, columns: Sequence[str]) -> str | None:
        """Return the text of the first of these columns that the sample has, whatever the case."""
        names = {name.lower().strip(): name for name in reversed(list(self.sample))}
        for column in columns:
            if column in names:
                cell = self.sample[names[column]]
                is_number = isinstance(cell, int | float) and not isinstance(cell, bool)
                return str(cell) if isinstance(cell, str) or is_number else None
        return None

    @property
    def shown_options(self) -> list[str] | None:
        """The texts of the options, or their labels."""
        return [str(option) for option in self.options or self.choices] or None

    @property
    def references(self) -> list[str]:
        """The truth."""
        return [] if self.truth is None else [str(self.truth)]


def iterate_records(opened: Reopened) -> Iterator[Record]:
    """Yield the rows as Python values; some are in memory at a time."""
    encoded, size = find_encoded(opened.task_run), opened.task.num_trials
    step = max(1, CHUNK_ROWS // size) * size
    for excerpt in opened.iterate():
        for offset in range(0, len(excerpt.samples), step):
            part = excerpt.slice(offset, step)
            facts, keys = opened.task.sample_facts(part.samples), part.scores.columns[2:]
            columns = []
            for key in keys:
                scores = Scores(part.scores[key].struct.unnest(), frozenset(encoded.get(key, ())))
                columns.append(scores.rows())
            verdicts = zip(*columns, strict=True)
            rows = zip(part.completions.rows(), part.samples.rows(), verdicts, strict=True)
            for number, (reply, sample, scores_of_row) in enumerate(rows):
                yield Record(
                    sample_id=part.scores["sample_id"][number],
                    trial=part.scores["trial"][number],
                    reply=reply,
                    sample=sample,
                    choices=(facts and facts.choices and facts.choices[number]) or (),
                    options=(facts and facts.options and facts.options[number]) or (),
                    truth=facts and facts.truths and facts.truths[number],
                    verdicts=dict(zip(keys, scores_of_row, strict=True)),
                )


def find_score(verdict: Score) -> float | None:
    """Return whether the verdict is correct, or the scorer's first number; None without any."""
    if verdict.status is not ScoreStatus.SCORED:
        return None
    numbers = {}
    for name, value in verdict.values.items():
        try:
            number = float(value) if isinstance(value, str | int | float) else math.nan
        except (ValueError, OverflowError):
            continue
        if math.isfinite(number):
            numbers[name] = number
    return numbers.get("is_correct", next(iter(numbers.values()), None))


def count_tokens(reply: Completion) -> dict[str, int] | None:
    """Return the tokens of a reply; None if they are not known."""
    if reply.prompt_tokens is None or reply.completion_tokens is None:
        return None
    counts = {
        "input_tokens": reply.prompt_tokens,
        "output_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
        "reasoning_tokens": reply.reasoning_tokens,
        "input_tokens_cache_read": reply.cached_tokens,
        "input_tokens_cache_write": reply.cache_write_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}


def list_metrics(opened: Reopened) -> list[MetricValue]:
    """Return the main scorer's numbers in which more is better."""
    key = opened.task.main_step.key
    metrics = []
    for metric in opened.task_run.metrics.values():
        if metric.scorer == key and metric.value is not None and metric.type != "frequency":
            metrics.append(metric)
    return metrics


def name_evaluation(run: Run, opened: Reopened) -> str:
    """Return what other tools call the task of this run."""
    return f"{run.path.name if run.path is not None else run.key}/{opened.task_run.key}"


def name_model(opened: Reopened) -> str:
    """Return the name of the model that answered."""
    return str((find_answerer(opened.task_run.manifest) or {}).get("name") or "unknown")
