"""The audit of a run as plain values: what `audit --json` prints."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from answerkey.text import clean_numbers, describe_metric
from answerkey.verbs.audits import Audit, CleanRows, ReaderCounts, TaskAudit


def describe_audit(audit: Audit) -> dict[str, Any]:
    """Return the audit with every reader, every reason and every finding."""
    described: dict[str, Any] = clean_numbers(
        {
            "audit": {
                "run": audit.path,
                "status": audit.status,
                "tasks": [_describe_task(task) for task in audit.tasks],
            },
            "notices": [str(notice) for notice in audit.notices],
        }
    )
    return described


def _describe_task(task: TaskAudit) -> dict[str, Any]:
    described: dict[str, Any] = {
        "key": task.key,
        "scorer": task.scorer,
        "extraction": task.rule,
        "n": task.n,
        "left_out": dict(task.left_out),
        "num_trials": task.num_trials,
        "samples": task.samples,
        "findings": [asdict(one) for one in task.findings],
    }
    described |= {} if task.drawn_from is None else {"drawn_from": task.drawn_from}
    if task.own is None:
        return described
    return described | {
        "accuracy": task.own.accuracy,
        "chance": task.chance,
        "accuracy_above_chance": task.corrected,
        "kappa": task.kappa,
        "recall_by_letter": dict(task.recalls),
        "rstd_points": task.spread,
        "choice_counts": {str(size): count for size, count in task.choice_counts.items()},
        "readers": [_describe_reader(one) for one in task.readers],
        "flips": {"count": task.flips, "examples": list(task.flipped)},
        "invalid": [asdict(one) for one in task.reasons],
        "letters": {letter: dict(row) for letter, row in task.letters.items()},
        "clean": None if task.clean is None else _describe_clean(task.clean),
    }


def _describe_reader(one: ReaderCounts) -> dict[str, Any]:
    return asdict(one) | {
        "accuracy": one.accuracy,
        "read": one.read,
        "invalid_share": one.invalid_share,
        "interval": None if one.interval is None else list(one.interval),
    }


def _describe_clean(clean: CleanRows) -> dict[str, Any]:
    return {
        "column": clean.column,
        "values": list(clean.values),
        "labels": dict(clean.labels),
        "n": clean.n,
        "readers": [_describe_reader(one) for one in clean.readers],
        "metrics": [describe_metric(value) for value in clean.metrics.values()],
    }
