"""A finished run in memory, with everything in it that a summary can show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from answerkey.runs import Run, start_run
from answerkey.types import MetricValue

COUNTS = {"samples": 10, "scored": 9, "valid": 6, "invalid": 3, "refused": 1, "failed": 1, "errors": 0}


def build_scores() -> pl.DataFrame:
    """Return a table of scores with one FAILED sample."""
    statuses = ["SCORED"] * 9 + ["FAILED"]
    verdicts = [
        {
            "status": status,
            "reason": None if status == "SCORED" else "BAD_TRUTH",
            "values": {"is_correct": 1.0 if status == "SCORED" else None},
            "metadata": {"completion_validity": "VALID" if status == "SCORED" else None},
            "excluded_by": None,
        }
        for status in statuses
    ]
    ids = [f"{number:06d}" for number in range(1, 11)]
    return pl.DataFrame({"sample_id": ids, "trial": [0] * 10, "string_equals_mcqa": verdicts})


def build_tally() -> dict[str, Any]:
    """Return counts that add up."""
    return {
        "counts": dict(COUNTS),
        "completion_statuses": {"OK": 9, "REFUSED": 1},
        "invalid": {
            "REFUSED": {"count": 1, "example": {"sample_id": "000002", "completion": None}},
            "NOT_A_CHOICE": {
                "count": 2,
                "example": {"sample_id": "000003", "completion": "\x1b[31mThe\nanswer is \u202eB"},
            },
        },
        "failed": {"BAD_TRUTH": {"count": 1, "example": {"sample_id": "000010", "completion": None}}},
        "errors": {},
        "excluded": {"drop-odd": 1},
        "letters": {"A": {"A": 3, "B": 1, "INVALID": 1}, "B": {"B": 1, "INVALID": 2}},
        "category_column": "category",
        "categories": {
            "history": {"n": 5, "correct": 3, "partial": 0},
            "law": {"n": 3, "correct": 1, "partial": 0},
        },
    }


def build_manifest() -> dict[str, Any]:
    """Return a manifest as `run.json` holds it."""
    entry = {
        "key": "mcqa",
        "display_name": "Multiple choice",
        "task": {
            "key": "mcqa",
            "display_name": "Multiple choice",
            "fingerprint": "f" * 64,
            "file": "task.yaml",
        },
        "dataset": {
            "key": "questions",
            "display_name": "Questions",
            "file": "questions.jsonl",
            "fingerprint": "d" * 64,
            "rows_read": 10,
            "rows_filtered": 0,
            "samples": 10,
            "category": "category",
        },
        "model": {"name": "builtin/simulated?accuracy=0.8", "simulated": True},
        "completions": {"source": "builtin", "file": None, "sha256": None, "column": None},
        "config": {"answer_column": "answer"},
        "scorers": [
            {"key": "string_equals_mcqa", "type": "string_equals_mcqa", "purpose": "score", "validity": True}
        ],
    }
    return {
        "answerkey_version": "0.1.0",
        "key": "demo",
        "display_name": "Demo",
        "notices": ["warning: `choices_field` is an old name\n  = help: write `choices`"],
        "tasks": [entry],
    }


def build_metrics() -> list[MetricValue]:
    """Return an accuracy, a quality check, and a metric without a value."""
    common: dict[str, Any] = {"scorer": "string_equals_mcqa", "metric": "mean"}
    left_out = {"FAILED": 1, "drop-odd": 1}
    accuracy = MetricValue(
        "MCQA Accuracy", 0.5, 8, left_out, (0.2152, 0.7848), "wilson", type="mean", **common
    )
    nothing = MetricValue("is_correct_std_dev", None, 1, note="needs two samples", type="std_dev", **common)
    check = MetricValue("length", 12.5, 9, type="mean", purpose="qa", scorer="python", metric="mean")
    return [accuracy, nothing, check]


@pytest.fixture
def make_run() -> Callable[..., Run]:
    """Return a maker of runs: status, changes to the task's entry, changes to the tally, other metrics."""

    def make(
        status: str = "complete",
        entry: Mapping[str, Any] | None = None,
        totals: Mapping[str, Any] | None = None,
        metrics: Sequence[MetricValue] | None = None,
    ) -> Run:
        manifest = build_manifest()
        manifest["tasks"][0] |= entry or {}
        writing = start_run(None, manifest, {"mcqa": {}})
        writing.task("mcqa").write_part("scores", 0, build_scores())
        values = build_metrics() if metrics is None else metrics
        writing.task("mcqa").write_metrics(values, {**build_tally(), **(totals or {})})
        return writing.finish(status, {})

    return make
