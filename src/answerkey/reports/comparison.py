"""Several runs of the same tasks side by side."""

from __future__ import annotations

from collections.abc import Sequence

from answerkey.reports.listing import find_main_metric, name_model
from answerkey.reports.repeats import list_trial_counts
from answerkey.reports.scorer_names import label_metric
from answerkey.runs import Run, TaskRun
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    Table,
    format_interval,
    format_percent,
    format_value,
    is_share,
    lay_out,
    line,
    make_visible,
)


def draw_comparison(runs: Sequence[Run], width: int) -> list[Line]:
    """Return one table per task with a row for each run; an incomplete run shows no number."""
    lines: list[Line] = [line(Span("Comparison", "title"))]
    for key in dict.fromkeys(key for run in runs for key in run.tasks):
        task = next(run.tasks[key] for run in runs if key in run.tasks)
        metric = find_main_metric(task)
        name = make_visible(label_metric(task, metric)) if metric else "no metric"
        lines += [BLANK, line("  ", Span(make_visible(key), "strong"), f": {name}")]
        rows = [_draw_run(run, run.tasks[key]) for run in runs if key in run.tasks]
        header = ("model", "value", "95 % interval", "n", "invalid", "failed", "errors")
        lines += lay_out(Table(header, rows, "<>>>>>>", flexible=0), width)
    return [*lines, BLANK, line(Span("  Where intervals overlap, the order may be chance.", "dim"))]


def _draw_run(run: Run, task: TaskRun) -> list[Cell]:
    metric, counts = find_main_metric(task), task.counts
    shown = metric if run.status == "complete" else None
    scored = list_trial_counts(task) or counts
    invalid = scored.get("invalid", 0) / scored["scored"] if scored["scored"] else 0.0
    return [
        make_visible(name_model(task)),
        Span(format_value(shown) if shown else run.status, "strong" if shown else "warn"),
        format_interval(shown.interval, as_share=is_share(shown)) if shown else "",
        str(metric.n if metric else 0),
        format_percent(invalid),
        str(counts["failed"]),
        str(counts["errors"]),
    ]
