"""What was asked several times: trials of each sample, repetitions of the whole task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from answerkey.robustness.choice_order import say_order
from answerkey.runs import TaskRun
from answerkey.text import (
    BLANK,
    FRACTION_TYPES,
    Cell,
    Line,
    Span,
    Table,
    format_count,
    format_number,
    format_percent,
    is_share,
    lay_out,
    line,
    make_visible,
)
from answerkey.types import MetricValue

SHOWN_RUNS, SHOWN_NAMES = 10, 3


def list_repeats(task: TaskRun) -> list[tuple[Cell, Cell]]:
    """Return the facts about trials and repetitions; nothing where everything was asked once."""
    facts: list[tuple[Cell, Cell]] = []
    trials, repeated = task.manifest.get("trials"), task.manifest.get("repeatability")
    if order := say_order(task):
        facts.append(("choice order", order))
    if trials:
        facts.append(("trials", make_visible(_say_trials(trials))))
    if repeated:
        facts.append(("repeated", f"{repeated['num_runs']} runs; what follows is the first of them"))
    return facts


def _say_trials(trials: Mapping[str, Any]) -> str:
    meant: dict[str, str] = {}
    for one in trials["score_aggregators"]:
        aggregator = one["aggregator"]
        label = aggregator["function"].replace("k", str(aggregator["k"]), 1 if aggregator["k"] else 0)
        meant.setdefault(one["score_name"], label)
    stands = "; ".join(f"{name} is its {label}" for name, label in meant.items())
    return f"{trials['num_trials']} of each sample; {stands or 'values are their mean'}"


def count_scored(task: TaskRun) -> int:
    """Return how many completions are scored: samples, or trials where there are several of each."""
    counts = list_trial_counts(task)
    return int((counts or task.counts)["scored"])


def list_trial_counts(task: TaskRun) -> Mapping[str, int] | None:
    """Return the counts of trials, or of all orders and trials; None where each sample was asked once."""
    rows: Mapping[str, Any] | None = task.tally.get("orders") or task.tally.get("trials")
    return rows["counts"] if rows else None


def say_per_trial(values: Sequence[MetricValue]) -> list[str]:
    """Return the line about metrics that count trials, not samples; nothing where there are none."""
    found = [value for value in values if value.details.get("counts") in {"trials", "orders"}]
    if not found:
        return []
    names = ", ".join(value.name for value in found[:SHOWN_NAMES])
    more = f" and {len(found) - SHOWN_NAMES} more" if len(found) > SHOWN_NAMES else ""
    if found[0].details["counts"] == "orders":
        return [f"counted per order of the options: {names}{more}"]
    return [f"counted per trial, {found[0].details['num_trials']} of each sample: {names}{more}"]


def draw_repeatability(task: TaskRun, width: int) -> list[Line]:
    """Return how far the metrics, and the scores of single samples, are the same in every run."""
    found = task.repeatability
    if found is None:
        return []
    rows = [_draw_metric(one, task.metrics.get(one["name"])) for one in found["metrics"]]
    heading = f"Over {found['num_runs']} runs"
    header = (heading, "mean", "std. dev.", "values")
    lines = [BLANK, *lay_out(Table(header, rows, "<>><", flexible=3), width)]
    for key, one in found["agreement"].items():
        if one["samples"]:
            lines.append(line(f"  {_say_agreement(key, one)}"))
    return lines


def _draw_metric(one: Mapping[str, Any], first: MetricValue | None) -> list[Cell]:
    as_share = is_share(first) if first else one["type"] in FRACTION_TYPES
    return [
        Span(make_visible(one["name"]), "strong"),
        Span(_write(one["mean"], as_share=as_share), "strong"),
        _write(one["std_dev"], as_share=as_share),
        _list_values(one["values"], as_share=as_share),
    ]


def _write(value: float | None, *, as_share: bool) -> str:
    if value is None:
        return "no value"
    return format_percent(value) if as_share else format_number(value)


def _list_values(values: Sequence[float | None], *, as_share: bool) -> str:
    shown = [_write(value, as_share=as_share) for value in values[:SHOWN_RUNS]]
    return ", ".join(shown) + (", …" if len(values) > SHOWN_RUNS else "")


def _say_agreement(key: str, one: Mapping[str, Any]) -> str:
    samples = format_count(one["samples"], "sample")
    share = format_percent(one["mean_share"])
    return (
        f"{make_visible(key)}: the most frequent score of a sample has {share} of its runs on average;"
        f" it has all of them in {one['unanimous']} of {samples}"
    )
