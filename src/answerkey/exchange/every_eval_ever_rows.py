"""A run as rows of every_eval_ever: one for each sample and trial that has a verdict."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from answerkey.exchange.columns import find_roles
from answerkey.exchange.every_eval_ever import CATEGORY, LABELS_KEY, STATUS, TRIAL
from answerkey.exchange.fields import get_text, read_number
from answerkey.models.responses import to_json_values
from answerkey.runs import Run, find_answerer
from answerkey.types import Completion, Score, Scores, ScoreStatus
from answerkey.verbs import Excerpt, Reopened

SCHEMA_VERSION = "0.3.0"
RIGHT = "is_correct"
#: Rows that become Python values together.
_TOGETHER = 1_024


def write_every_eval_ever(run: Run, opened: Reopened, out: TextIO) -> int:
    """Write the rows of one task of a run and return how many; some are in memory at a time.

    The schema knows no row without a score, so that what could not be scored is left out.
    """
    count = 0
    for row in _iterate_rows(run, opened):
        out.write(f"{to_json(row)}\n")
        count += 1
    return count


def iterate_parts(opened: Reopened) -> Iterator[Excerpt]:
    """Yield all rows, few samples at a time: they become Python values, which are larger than columns."""
    size = opened.task.num_trials
    step = max(1, _TOGETHER // size) * size
    for part in opened.iterate():
        for offset in range(0, len(part.samples), step):
            yield Excerpt(
                part.samples.slice(offset, step),
                part.completions.slice(offset, step),
                part.scores.slice(offset, step),
            )


def to_json(value: object) -> str:
    """Return JSON that any reader accepts: a number that JSON lacks is null, a date its text."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    except ValueError:
        return json.dumps(to_json_values(value), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True)
class _Head:
    """What all rows begin with, and where their question and category stand."""

    fields: Mapping[str, object]
    question: str | None
    category: str | None


def _iterate_rows(run: Run, opened: Reopened) -> Iterator[dict[str, object]]:
    head = _describe_run(run, opened)
    key = opened.task.main_step.key
    encoded = (opened.task_run.manifest.get("encoded") or {}).get(key, ())
    for part in iterate_parts(opened):
        scores = Scores(part.scores[key].struct.unnest(), frozenset(encoded))
        known = _Known.read(opened, part)
        rows = zip(scores.rows(), part.completions.rows(), part.samples.rows(), strict=True)
        ids, trials = part.scores["sample_id"].to_list(), part.scores["trial"].to_list()
        for at, (verdict, reply, sample) in enumerate(rows):
            score = _find_score(verdict)
            if score is not None:
                asked = known.describe(at, dict(sample), reply, head)
                yield _build(head, ids[at], trials[at], asked, reply, verdict, score)


def _describe_run(run: Run, opened: Reopened) -> _Head:
    entry = opened.task_run.manifest
    model = find_answerer(entry) or {}
    name = run.path.name if run.path is not None else run.key
    roles = find_roles(opened.dataset.columns, {}).columns
    fields = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{name}/{entry['key']}",
        "model_id": model.get("name") or "unknown",
        "evaluation_name": entry["display_name"] or entry["key"],
        "evaluation_result_id": f"{name}/{entry['key']}/{opened.task.main_step.key}",
    }
    return _Head(fields, roles.get("question"), entry["dataset"].get("category") or roles.get("category"))


@dataclass(frozen=True)
class _Known:
    """Choices, options and truths of some rows, as the scorer knows them."""

    choices: Sequence[Sequence[str] | None]
    options: Sequence[Sequence[str] | None]
    truths: Sequence[str | None]

    @classmethod
    def read(cls, opened: Reopened, part: Excerpt) -> _Known:
        """Return what is known of the rows of a part."""
        found = opened.task.know(part.samples)
        nothing = [None] * len(part.samples)
        if found is None:
            return cls(nothing, nothing, nothing)
        return cls(found.choices or nothing, found.options or nothing, found.truths or nothing)

    def describe(
        self, at: int, sample: Mapping[str, object], reply: Completion, head: _Head
    ) -> dict[str, object]:
        """Return what was asked: `input`, and what of `metadata` belongs to it."""
        prompt = "\n\n".join(str(one.get("content") or "") for one in reply.prompt or ())
        raw = get_text(dict(sample), head.question or "") or prompt
        choices, options, truth = self.choices[at], self.options[at], self.truths[at]
        shown = [str(one) for one in (options or choices or ())] or None
        labels = [str(one) for one in choices or ()]
        category = get_text(dict(sample), head.category or "")
        metadata = {} if not labels else {LABELS_KEY: json.dumps(labels, ensure_ascii=False)}
        metadata |= {} if category is None else {CATEGORY: category}
        asked = {
            "raw": raw,
            "formatted": prompt or None,
            "reference": [] if truth is None else [str(truth)],
            "choices": shown,
        }
        return {"input": asked, "metadata": metadata}


def _build(
    head: _Head,
    sample_id: str,
    trial: int,
    asked: Mapping[str, object],
    reply: Completion,
    verdict: Score,
    score: float,
) -> dict[str, object]:
    shown, metadata = asked["input"], asked["metadata"]
    told = {} if not isinstance(metadata, dict) else metadata
    hashed = json.dumps(shown, sort_keys=True, ensure_ascii=True).encode()
    return {
        **head.fields,
        "sample_id": sample_id,
        "sample_hash": hashlib.sha256(hashed).hexdigest(),
        "interaction_type": "single_turn",
        "input": shown,
        "output": {
            "raw": [] if reply.text is None else [reply.text],
            "reasoning_trace": None if reply.reasoning is None else [reply.reasoning],
        },
        "messages": None,
        "answer_attribution": _attribute(verdict),
        "evaluation": {"score": score, "is_correct": score == 1},
        "token_usage": _count_tokens(reply),
        "performance": None if reply.latency is None else {"latency_ms": reply.latency * 1000},
        "error": None,
        "metadata": {**told, TRIAL: str(trial), STATUS: reply.status.value},
    }


def _attribute(verdict: Score) -> list[dict[str, object]]:
    """Return how the answer was found in the reply; nothing where none was."""
    read = verdict.metadata.get("predicted_choice", verdict.metadata.get("answer_pred"))
    if read is None:
        return []
    return [
        {
            "turn_idx": 0,
            "source": "output.raw",
            "extracted_value": str(read),
            "extraction_method": str(verdict.metadata.get("extraction_rule") or "exact_match"),
            "is_terminal": True,
        }
    ]


def _find_score(verdict: Score) -> float | None:
    """Return the score: whether it is correct, or the scorer's first number; None where there is none."""
    if verdict.status is not ScoreStatus.SCORED:
        return None
    numbers = {
        name: number for name, value in verdict.values.items() if (number := read_number(value)) is not None
    }
    return numbers.get(RIGHT, next(iter(numbers.values()), None))


def _count_tokens(reply: Completion) -> dict[str, int] | None:
    if reply.prompt_tokens is None or reply.completion_tokens is None:
        return None
    total = reply.prompt_tokens + reply.completion_tokens
    return {
        "input_tokens": reply.prompt_tokens,
        "output_tokens": reply.completion_tokens,
        "total_tokens": total,
    }
