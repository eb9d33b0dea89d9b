"""A finished run in memory, with everything in it that a summary can show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from answerkey.runs import Run, start_run
from answerkey.types import MetricValue

COUNTED = ("samples", "scored", "valid", "invalid", "refused", "declined", "failed", "errors")
COUNTS = dict(zip(COUNTED, (10, 9, 6, 3, 1, 0, 1, 0), strict=True))
HOSTILE = {"sample_id": "000003", "completion": "\x1b[31mThe\nanswer is \u202eB"}
REFUSED = {"count": 1, "example": {"sample_id": "000002", "completion": None}}
BAD_TRUTH = {"count": 1, "example": {"sample_id": "000010", "completion": None}}
HISTORY, LAW = {"n": 5, "correct": 3, "partial": 0}, {"n": 3, "correct": 1, "partial": 0}
TOTALS: dict[str, Any] = {
    "counts": COUNTS,
    "completion_statuses": {"OK": 9, "REFUSED": 1},
    "invalid": {"REFUSED": REFUSED, "NOT_A_CHOICE": {"count": 2, "example": HOSTILE}},
    "failed": {"BAD_TRUTH": BAD_TRUTH},
    "errors": {},
    "failures": {},
    "unscored": 0,
    "cut_off": 0,
    "readings": {},
    "choice_counts": {},
    "excluded": {"drop-odd": 1},
    "letters": {"A": {"A": 3, "B": 1, "INVALID": 1}, "B": {"B": 1, "INVALID": 2}},
    "category_column": "category",
    "categories": {"history": HISTORY, "law": LAW},
}
NAMES = {"key": "mcqa", "display_name": "Multiple choice"}
QUESTIONS = {"key": "questions", "display_name": "Questions", "file": "questions.jsonl"}
MCQA = {"key": "string_equals_mcqa", "type": "string_equals_mcqa", "purpose": "score"}
ENTRY: dict[str, Any] = {
    **NAMES,
    "task": {**NAMES, "fingerprint": "f" * 64, "file": "task.yaml"},
    "dataset": {**QUESTIONS, "fingerprint": "d" * 64, "rows_read": 10, "samples": 10},
    "model": {"name": "builtin/simulated?accuracy=0.8", "simulated": True},
    "completions": {"source": "builtin", "file": None, "sha256": None, "column": None},
    "config": {"answer_column": "answer"},
    "scorers": [MCQA | {"validity": True}],
}
MEAN: dict[str, Any] = {"scorer": "string_equals_mcqa", "metric": "mean"}
LEFT_OUT = {"FAILED": 1, "drop-odd": 1}
#: An accuracy, a metric without a value, and a quality check.
METRICS = [
    MetricValue("MCQA Accuracy", 0.5, 8, LEFT_OUT, (0.2152, 0.7848), "wilson", type="mean", **MEAN),
    MetricValue("is_correct_std_dev", None, 1, note="needs two samples", type="std_dev", **MEAN),
    MetricValue("length", 12.5, 9, type="mean", purpose="qa", scorer="python", metric="mean"),
]
SCORED: dict[str, Any] = {"status": "SCORED", "reason": None, "values": {"is_correct": 1.0}}
SCORED |= {"metadata": {"completion_validity": "VALID"}, "excluded_by": None}
FAILED: dict[str, Any] = {"status": "FAILED", "reason": "BAD_TRUTH", "values": {"is_correct": None}}
FAILED |= {"metadata": {"completion_validity": None}, "excluded_by": None}
VERDICTS = [*[SCORED] * 9, FAILED]


@pytest.fixture
def make_run() -> Callable[..., Run]:
    """Return a maker of runs: status, changes to the task's entry, changes to its totals, other
    metrics.
    """

    def make(
        status: str = "complete",
        entry: Mapping[str, Any] | None = None,
        totals: Mapping[str, Any] | None = None,
        metrics: Sequence[MetricValue] = METRICS,
    ) -> Run:
        manifest = {"answerkey_version": "0.1.0", "key": "demo", "display_name": "Demo"}
        notices = ["warning: `choices_field` is an old name\n  = help: write `choices`"]
        tasks = [{**ENTRY, **(entry or {})}]
        writing = start_run(None, {**manifest, "notices": notices, "tasks": tasks}, {"mcqa": {}})
        ids = [f"{number:06d}" for number in range(1, 11)]
        scores = pl.DataFrame({"sample_id": ids, "trial": [0] * 10, "string_equals_mcqa": VERDICTS})
        writing.task("mcqa").write_part("scores", 0, scores)
        writing.task("mcqa").write_metrics(metrics, {**TOTALS, **(totals or {})})
        return writing.finish(status, {})

    return make
