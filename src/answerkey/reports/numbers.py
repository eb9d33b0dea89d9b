"""The numbers of a task: metrics with their intervals, what they leave out, why an interval is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from answerkey.reports.repeats import say_per_trial
from answerkey.reports.scorer_names import find_display_names, label_metric
from answerkey.robustness.choice_order import draw_choice_order, is_about_order
from answerkey.runs import TaskRun
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    Table,
    format_error,
    format_interval,
    format_value,
    is_share,
    lay_out,
    line,
    make_visible,
    wrap,
)
from answerkey.types import MetricValue

SHOWN_NAMES = 4


def draw_numbers(
    task: TaskRun, width: int, *, digits: int | None = None, with_errors: bool = False
) -> list[Line]:
    """Return the metrics of a task: those that count for the score, then the quality checks."""
    shown = [value for value in task.metrics.values() if not is_about_order(value)]
    scored = [value for value in shown if value.purpose == "score"]
    checks = [value for value in shown if value.purpose != "score"]

    def draw(values: Sequence[MetricValue]) -> list[Line]:
        return _draw_metrics(task, values, width, digits=digits, with_errors=with_errors)

    lines = draw(scored) if scored else [line("  This task has no metric.")]
    if checks:
        lines += [BLANK, line("  Quality checks (purpose qa), not part of the score"), *draw(checks)]
    return lines + draw_choice_order(task, width, digits)


def _draw_metrics(
    task: TaskRun, values: Sequence[MetricValue], width: int, *, digits: int | None, with_errors: bool
) -> list[Line]:
    # A single scorer is worth a mention only by the name that the user gave it.
    names = {value.scorer: value.scorer for value in values}
    names = names if len(names) > 1 else dict.fromkeys(names, "")
    names |= find_display_names(task)
    values = [replace(value, name=label_metric(task, value)) for value in values]
    has_errors = with_errors or digits is not None or any(one.details.get("cluster_by") for one in values)
    rows = [_draw_metric(value, names[value.scorer], digits, has_errors=has_errors) for value in values]
    header = ("", "value", "95 % interval", "std. error", "n", "scorer")
    table = Table(header, rows, "<>>>><", flexible=0)
    notes = [*_say_left_out(values), *_say_clusters(values), *_say_no_interval(values)]
    notes += say_per_trial(values)
    drawn = [part for note in notes for part in wrap(make_visible(note), width - 2)]
    return [*lay_out(table, width), *(line(Span(f"  {part}", "dim")) for part in drawn)]


def _draw_metric(value: MetricValue, scorer: str, digits: int | None, *, has_errors: bool) -> list[Cell]:
    as_share = is_share(value)
    error = format_error(value.std_error, as_share=as_share, digits=digits)
    return [
        Span(make_visible(value.name), "strong"),
        Span(format_value(value, digits), "strong" if value.value is not None else "dim"),
        format_interval(value.interval, as_share=as_share, digits=digits),
        error if has_errors else "",
        str(value.n),
        Span(make_visible(scorer), "dim"),
    ]


def _say_left_out(values: Sequence[MetricValue]) -> list[str]:
    """Return what the metrics leave out, said once where it is the same, and why one has no value."""
    found = _say_together(values, _list_left_out)
    lines = [f"left out{names}: {text}" for text, names in found]
    return lines + [f"{value.name}: {value.note}" for value in values if value.note]


def _list_left_out(value: MetricValue) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in value.n_excluded.items() if count)


def _say_clusters(values: Sequence[MetricValue]) -> list[str]:
    """Return the lines about metrics whose intervals allow for clusters."""
    return [f"{text}{names}" for text, names in _say_together(values, _describe_clusters)]


def _describe_clusters(value: MetricValue) -> str:
    column, count = value.details.get("cluster_by"), value.details.get("clusters")
    if column is None or value.value is None:
        return ""
    is_corrected = value.details.get("clusters_corrected")
    correction = "corrected by C/(C-1)" if is_corrected else "without the correction C/(C-1)"
    return f"standard error clustered by {column}: {count} clusters, {correction}"


def _say_no_interval(values: Sequence[MetricValue]) -> list[str]:
    """Return why metrics have a value and no interval, said once where it is the same."""
    found = _say_together(values, lambda value: value.interval_note or "" if value.value is not None else "")
    return [f"no interval{names}: {text}" for text, names in found]


def _say_together(values: Sequence[MetricValue], say: Callable[[MetricValue], str]) -> list[tuple[str, str]]:
    """Return what is to be said of some of the metrics, each text once, and of which: ` of a, b`."""
    groups: dict[str, list[str]] = {}
    for value in values:
        groups.setdefault(say(value), []).append(value.name)
    groups.pop("", None)
    return [
        (text, f" of {_list_names(names)}" if len(names) < len(values) else "")
        for text, names in groups.items()
    ]


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(names[:SHOWN_NAMES]) + more
