"""The number of a task that a reader wants first: with its interval, against chance and a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from answerkey.metrics.classification import correct_for_chance
from answerkey.reports.listing import find_main_metric
from answerkey.reports.scorer_names import label_metric
from answerkey.reports.summary import find_cause
from answerkey.run_audit.readings import is_accuracy
from answerkey.runs import TaskRun
from answerkey.text import format_chance, format_count, format_number, format_value, is_share
from answerkey.types import MetricValue

NO_METRIC = "This task has no metric."


def describe_headline(
    task: TaskRun, chance: float | None, baseline: Mapping[str, Any] | None, *, is_complete: bool
) -> dict[str, Any]:
    """Return the main metric, and a sentence that says all of it; no value unless the run is complete.

    `chance` is what guessing would get; it is told where the metric is a share of right answers.
    """
    metric = find_main_metric(task)
    if metric is None:
        return _describe_nothing("no metric", 0, NO_METRIC)
    name = label_metric(task, metric)
    if not is_complete:
        return _describe_nothing(name, metric.n, _say_incomplete(task)) | {"is_share": is_share(metric)}
    chance = chance if is_accuracy(task, metric) else None
    return {
        "name": name,
        "value": metric.value,
        "interval": None if metric.interval is None else list(metric.interval),
        "n": metric.n,
        "is_share": is_share(metric),
        "chance": chance,
        "above_chance": _correct(metric.value, chance),
        "baseline": None if baseline is None else dict(baseline),
        "sentence": " ".join([_say_value(name, metric, chance), *_say_baseline(baseline, metric)]),
    }


def _describe_nothing(name: str, n: int, sentence: str) -> dict[str, Any]:
    blank = dict.fromkeys(("value", "interval", "chance", "above_chance", "baseline"))
    return {"name": name, "n": n, "is_share": False, **blank, "sentence": sentence}


def _say_incomplete(task: TaskRun) -> str:
    return (
        f"INCOMPLETE: {find_cause(task)}, so no accuracy is shown: a share of the rest says nothing about the"
        " whole."
    )


def _correct(value: float | None, chance: float | None) -> float | None:
    return None if value is None or chance is None else correct_for_chance(value, chance)


def _say_value(name: str, metric: MetricValue, chance: float | None) -> str:
    if metric.value is None:
        return f"{name} has no value: {metric.note or 'nothing to compute it from'}."
    unit = "sample" if metric.details.get("counts") not in {"trials", "orders"} else "completion"
    parts = [f"{name} is {format_value(metric)}", _say_interval(metric)]
    parts.append(f"on {format_count(metric.n, unit)}{_say_chance(metric, chance)}.")
    return " ".join(part for part in parts if part)


def _say_interval(metric: MetricValue) -> str:
    if metric.interval is None:
        return ""
    column = metric.details.get("cluster_by")
    ends = _write_ends(metric.interval, as_share=is_share(metric))
    return f"(95 % interval {ends}{f', clustered by {column}' if column else ''})"


def _write_ends(ends: tuple[float, float] | list[float], *, as_share: bool) -> str:
    low, high = (f"{100 * one:.2f}" if as_share else format_number(one) for one in ends)
    return f"{low} to {high}"


def _say_chance(metric: MetricValue, chance: float | None) -> str:
    if chance is None or metric.value is None:
        return ""
    level = f"chance level of {100 * chance:.2f} %"
    if metric.interval is None:
        return f"; the {level} is what guessing would get"
    low, high = metric.interval
    points = f"{100 * abs(metric.value - chance):.2f} points"
    if low > chance:
        return f", {points} above the {level}"
    return f", {points} below the {level}" if high < chance else f", not told apart from the {level}"


def _say_baseline(baseline: Mapping[str, Any] | None, metric: MetricValue) -> list[str]:
    if baseline is None:
        return []
    as_share, found = is_share(metric), float(baseline["difference"])
    amount = f"{100 * found:+.2f} points" if as_share else f"{'+' if found > 0 else ''}{format_number(found)}"
    interval = baseline["interval"]
    facts = [f"95 % interval {_write_ends(interval, as_share=as_share)}"] if interval else []
    facts += [f"p {format_chance(baseline['p'])}"] if baseline["p"] is not None else []
    how_sure = f" ({', '.join(facts)})" if facts else ""
    return [f"Against {baseline['label']}: {amount}{how_sure}."]
