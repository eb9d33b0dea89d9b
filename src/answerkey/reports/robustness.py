"""What the order of the options does to a task's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from answerkey.robustness.choice_order import ChoiceOrderMetric, PrideMetric
from answerkey.runs import TaskRun
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    Table,
    format_count,
    format_interval,
    format_number,
    format_percent,
    format_value,
    is_share,
    lay_out,
    line,
    make_visible,
    wrap,
)
from answerkey.types import MetricValue

#: What the values are called in a summary, in this order; by the ending of their names.
TITLES = {
    "mean": "mean over orders",
    "all_right": "right in all orders (circular)",
    "any_right": "right in any order",
    "consistency": "same option in all orders",
    "modal_share": "share of the most frequent option",
}
PRIDE_TITLES = {
    "pride_accuracy_before": "accuracy before",
    "pride_accuracy": "accuracy after",
    "pride_difference": "after - before (points)",
    "pride_rstd_before": "RStd before (points)",
    "pride_rstd": "RStd after (points)",
}
RECALL, SPREAD = "order_recall_", "order_rstd"
WHY_LEFT = {
    "REFERS_TO_OTHERS": "an option speaks of the others (such as *none of the above*)",
    "REFERS_TO_LABELS": "an option names the letters of others",
    "UNSUITABLE": "their options cannot be moved",
}


def is_about_order(value: MetricValue) -> bool:
    """Return whether a metric value is drawn here."""
    return value.type in {ChoiceOrderMetric.type, PrideMetric.type}


def say_order(task: TaskRun) -> str | None:
    """Return in which orders samples were shown; None where all stood as in the file."""
    setting, orders = task.manifest.get("choice_order"), task.tally.get("orders")
    if not setting or not orders:
        return None
    samples, rows = task.counts["samples"], orders["counts"]["samples"]
    seed = f" (seed {setting['seed']})" if setting["orders"] == "shuffled" else ""
    extra = f", {orders['extra']} more for the prior" if orders.get("extra") else ""
    return f"{setting['orders']}{seed}: {format_count(samples, 'sample')}, {format_count(rows, 'row')}{extra}"


def draw_choice_order(task: TaskRun, width: int, digits: int | None = None) -> list[Line]:
    """Return the numbers about the order of the options; nothing for a task that has none."""
    values = [value for value in task.metrics.values() if value.type == ChoiceOrderMetric.type]
    if not values:
        return draw_pride(task, width, digits)
    told = {value.name: value for value in values}
    rows = [_draw_value(title, told[name], digits) for name, title in _list_titles(told)]
    header = ("Order of the options", "value", "95 % interval", "n")
    lines = [BLANK, *lay_out(Table(header, rows, "<>>>"), width)]
    lines += _draw_places(values, width, digits)
    notes = _say_left(task.tally.get("orders") or {})
    lines += [line(Span(f"  {part}", "dim")) for note in notes for part in wrap(note, width - 2)]
    return lines + draw_pride(task, width, digits)


def draw_pride(task: TaskRun, width: int, digits: int | None = None) -> list[Line]:
    """Return what is left when the liking for places is taken out; nothing where that was not done."""
    values = [value for value in task.metrics.values() if value.type == PrideMetric.type]
    if not values:
        return []
    told = {next(name for name in PRIDE_TITLES if value.name.endswith(name)): value for value in values}
    rows = [_draw_pride_value(name, told[name], digits) for name in PRIDE_TITLES if name in told]
    header = ("Prior for places taken out (PriDe)", "value", "95 % interval", "n")
    drawn = [part for note in _say_priors(told) for part in wrap(make_visible(note), width - 2)]
    table = lay_out(Table(header, rows, "<>>>"), width)
    return [BLANK, *table, *(line(Span(f"  {one}", "dim")) for one in drawn)]


def _draw_pride_value(name: str, value: MetricValue, digits: int | None) -> list[Cell]:
    title, cells = PRIDE_TITLES[name], _draw_value(PRIDE_TITLES[name], value, digits)
    if name != "pride_difference" or value.value is None or digits is not None:
        return cells
    ends = "" if value.interval is None else f"[{', '.join(f'{100 * end:.2f}' for end in value.interval)}]"
    return [Span(title, "strong"), Span(f"{100 * value.value:+.2f}", "strong"), ends, str(value.n)]


def _say_priors(told: Mapping[str, MetricValue]) -> list[str]:
    details: Mapping[str, Any] = told["pride_accuracy"].details
    notes = [_say_prior(one) for one in details["priors"]] or ["no sample could be used to estimate it"]
    drawn = f"a share of {details['share']}, seed {details['seed']}"
    return [*notes, f"samples drawn to estimate it ({drawn}) do not count here"]


def _say_prior(one: Mapping[str, Any]) -> str:
    shares = ", ".join(f"{label} {format_percent(share)}" for label, share in one["prior"].items())
    return f"prior of {format_count(one['samples'], 'sample')}: {shares}"


def _list_titles(told: Mapping[str, MetricValue]) -> list[tuple[str, str]]:
    ended = {name.rpartition("order_")[2]: name for name in told}
    return [(ended[ending], title) for ending, title in TITLES.items() if ending in ended]


def _draw_value(title: str, value: MetricValue, digits: int | None) -> list[Cell]:
    return [
        Span(title, "strong"),
        Span(format_value(value, digits), "strong" if value.value is not None else "dim"),
        format_interval(value.interval, as_share=is_share(value), digits=digits),
        str(value.n),
    ]


def _draw_places(values: Sequence[MetricValue], width: int, digits: int | None) -> list[Line]:
    """Return the recall by the place of the right option, and how far the recalls lie apart."""
    spread = next((value for value in values if SPREAD in value.name), None)
    if spread is None or spread.value is None:
        return []
    true: Any = spread.details.get("true") or {}
    predicted: Any = spread.details.get("predicted") or {}
    rows: list[Sequence[Cell]] = []
    for value in values:
        if RECALL not in value.name:
            continue
        label = value.name.partition(RECALL)[2]
        interval = format_interval(value.interval, as_share=True, digits=digits)
        counts = (str(true.get(label, 0)), str(predicted.get(label, 0)))
        rows.append((make_visible(label), format_value(value, digits), interval, *counts))
    header = ("Right option at", "recall", "95 % interval", "rows", "predicted")
    text = f"RStd of the recalls: {format_number(spread.value)} points"
    return [BLANK, *lay_out(Table(header, rows, "<>>>>"), width), line(f"  {text}")]


def _say_left(orders: Mapping[str, Any]) -> list[str]:
    return [
        f"{format_count(count, 'sample')} left in place: {WHY_LEFT.get(reason, reason)}"
        for reason, count in (orders.get("left_in_place") or {}).items()
    ]
