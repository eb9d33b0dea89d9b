"""A comparison of runs as plain values: what `compare --json` prints."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from answerkey.metrics.paired import Difference
from answerkey.text import clean_numbers
from answerkey.verbs.comparisons import ALPHA, Comparison, PairComparison, TaskComparison


def describe_comparison(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison with every pair, every flipped sample and every category."""
    described: dict[str, Any] = clean_numbers(
        {
            "comparison": {
                "baseline": comparison.baseline,
                "alpha": ALPHA,
                "comparisons": len(comparison.pairs),
                "tasks": [describe_task_comparison(task) for task in comparison.tasks],
            },
            "notices": [str(notice) for notice in comparison.notices],
        }
    )
    return described


def describe_task_comparison(task: TaskComparison) -> dict[str, Any]:
    """Return one task's comparison with every pair."""
    return {
        "key": task.key,
        "samples": task.samples,
        "category": task.category,
        "cluster_by": task.cluster_by,
        "cluster_correction": task.is_corrected if task.cluster_by else None,
        "runs": [asdict(run) for run in task.runs],
        "pairs": [_describe_pair(pair) for pair in task.pairs],
    }


def _describe_pair(pair: PairComparison) -> dict[str, Any]:
    return {
        "first": pair.first,
        "second": pair.second,
        **describe_difference(pair.difference),
        "p_adjusted": pair.p_adjusted,
        "is_significant": pair.is_significant(),
        "left_out": dict(pair.left_out),
        "first_only": list(pair.first_only),
        "second_only": list(pair.second_only),
        "categories": [
            {"category": one.category, **describe_difference(one.difference)} for one in pair.categories
        ],
    }


def describe_difference(found: Difference) -> dict[str, Any]:
    """Return a difference with its interval and its tests."""
    evidence = found.evidence
    described: dict[str, Any] = {
        "n": found.n,
        "first_value": found.first,
        "second_value": found.second,
        "difference": found.value,
        "std_error": evidence.std_error,
        "interval": None if evidence.interval is None else list(evidence.interval),
        "interval_method": evidence.interval_method,
        "flips": None if found.flips is None else asdict(found.flips),
        "p": evidence.p,
        "p_method": evidence.p_method,
        "p_exact": found.p_exact,
        "p_mid": found.p_mid,
    }
    described |= {"interval_note": evidence.interval_note} if evidence.interval_note else {}
    return described | ({} if evidence.clusters is None else {"clusters": evidence.clusters})
