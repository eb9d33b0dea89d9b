"""How far a run is that another process works on, as the list of runs shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from answerkey.runs.watching import RunWatch


def describe_progress(watch: RunWatch, manifest: Mapping[str, Any]) -> dict[str, int | None]:
    """Return what is done, of how much, the calls that were made, and the tokens that they took."""
    seen = watch.look()
    total = _count_questions(manifest)
    return {
        "done": seen.done,
        "total": None if total is None else max(total, seen.done),
        "calls": seen.calls,
        "failed": seen.failed,
        "tokens": seen.prompt_tokens + seen.completion_tokens,
    }


def _count_questions(manifest: Mapping[str, Any]) -> int | None:
    """Return how often a model is asked in all; None where that depends on rows that are not read yet."""
    total = 0
    for entry in manifest.get("tasks") or ():
        if entry.get("choice_order"):
            return None
        trials = (entry.get("trials") or {}).get("num_trials", 1)
        times = (entry.get("repeatability") or {}).get("num_runs", 1)
        total += int(entry["dataset"]["samples"]) * int(trials) * int(times)
    return total
