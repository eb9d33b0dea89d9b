"""Whether a model is right as often as it is sure: the reliability curve, from log-probabilities.

A task that measures calibration has the curve. Of others it is made here, where completions came with
log-probabilities and a scorer knows the choices: by the likeliest choice, as `choice_probabilities` does.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from answerkey.metrics import Calibration, wilson
from answerkey.metrics.base import ValueCounts
from answerkey.reports.breakdown import find_main_scorer
from answerkey.runs import Table, TaskRun
from answerkey.scorers import judge_probabilities
from answerkey.types import MetricValue, ScoreStatus

#: So many completions are read together, and at most so many in all, from all over the run.
BLOCK, MOST = 1_024, 20_480
FIELDS = ("choices", "ground_truth_choice")
#: A mean times its count is a whole number but for so much.
ROUNDING = 1e-6

Plot = dict[str, Any]


def describe_reliability(task: TaskRun) -> Plot | None:
    """Return confidence and accuracy by bin, and the expected calibration error; None without any."""
    found = next((one for one in task.metrics.values() if _is_curve(one)), None)
    found = found or _measure(task)
    # Trials, and orders, of one sample are no independent draws.
    is_one_each = not (task.tally.get("trials") or task.tally.get("orders"))
    return None if found is None else _describe(found, has_interval=is_one_each)


def tell_selection(task: TaskRun) -> str | None:
    """Return what to say of a curve that is not of all completions; None where there is no need."""
    count = len(task.stored_completions)
    is_measured = any(map(_is_curve, task.metrics.values()))
    if is_measured or count <= MOST or not has_logprobs(task.stored_completions):
        return None
    some = f"{MOST:,} of {count:,} completions"
    return f"the reliability curve of `{task.key}` is of {some}, from all over the run"


def _is_curve(value: MetricValue) -> bool:
    return value.type == Calibration.type and value.value is not None and "bins" in value.details


def _describe(value: MetricValue, *, has_interval: bool) -> Plot:
    bins: Sequence[Mapping[str, Any]] = value.details["bins"]  # type: ignore[assignment]  # as the metric wrote it
    rows = [
        {
            "low": one["from"],
            "high": one["to"],
            "confidence": one["confidence"],
            "accuracy": one["accuracy"],
            "interval": _find_interval(one) if has_interval else None,
            "n": one["n"],
        }
        for one in bins
    ]
    return {"bins": rows, "ece": value.value, "ece_bins": len(rows)}


def _find_interval(one: Mapping[str, Any]) -> list[float] | None:
    """Return the Wilson interval of a bin's accuracy; None where answers may be right in part."""
    right = one["n"] * (one["accuracy"] or 0.0)
    is_count = one["n"] > 0 and abs(right - round(right)) < ROUNDING
    return list(wilson(round(right), one["n"])) if is_count else None


def _measure(task: TaskRun) -> MetricValue | None:
    """Return the calibration of a task that does not measure it; None where nothing is known."""
    key = find_main_scorer(task)
    if key is None or not has_logprobs(task.stored_completions):
        return None
    pairs = Counter(pair for offset in _choose_blocks(task) for pair in _read_pairs(task, key, offset))
    if not pairs:
        return None
    metric = Calibration(bins=(10,))
    part = metric.collect(ValueCounts(list(pairs.items()), Counter(), list(metric.fields())))
    return metric.finish(part)[0]


def has_logprobs(kept: Table) -> bool:
    """Return whether completions came with log-probabilities, as the first and the middle ones tell."""
    blocks = (kept.read(offset, BLOCK, ["logprobs"]) for offset in {0, len(kept) // 2} if len(kept))
    return any(one["logprobs"].count() for one in blocks if "logprobs" in one.columns)


def _choose_blocks(task: TaskRun) -> list[int]:
    """Return where to read: everywhere, or at equal distances all over the run."""
    offsets = range(0, len(task.stored_completions), BLOCK)
    most = MOST // BLOCK
    if len(offsets) <= most:
        return list(offsets)
    return [offsets[place * len(offsets) // most] for place in range(most)]


def _read_pairs(task: TaskRun, key: str, offset: int) -> Iterator[tuple[float, float]]:
    """Yield confidence and correctness of the likeliest choice, of completions that count."""
    logprobs = task.stored_completions.read(offset, BLOCK, ["logprobs"])["logprobs"]
    verdicts = task.stored_scores.read(offset, BLOCK, [key])[key].struct.unnest()
    names = verdicts["metadata"].struct.fields
    if any(name not in names for name in FIELDS):
        return
    columns = [verdicts["metadata"].struct.field(name).to_list() for name in FIELDS]
    heads = verdicts.select("status", "excluded_by").iter_rows()
    rows = zip(logprobs, heads, *columns, strict=True)
    for told, (status, excluded), choices, truth in rows:
        if told is None or status != ScoreStatus.SCORED.value or excluded is not None or not choices:
            continue
        values = judge_probabilities(json.loads(told), choices, truth).values
        if values.get("confidence") is not None:
            yield float(str(values["confidence"])), float(str(values["is_correct"]))
