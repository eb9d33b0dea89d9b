"""What the wording of the prompt does to a task's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from answerkey.reports.comparison_json import describe_task_comparison
from answerkey.reports.comparison_text import draw_pairs
from answerkey.runs import Run
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    Table,
    format_count,
    format_figure,
    lay_out,
    line,
    make_visible,
    wrap,
)
from answerkey.verbs.comparisons import Comparison
from answerkey.verbs.variants import VariedMetric, VariedTask, compare_variants


def draw_variants(run: Run, width: int, digits: int | None = None) -> list[Line]:
    """Return the variants of each task beside each other; nothing for a run without any."""
    return [part for one in compare_variants(run) for part in _draw(one, width, digits)]


def _draw(task: VariedTask, width: int, digits: int | None) -> list[Line]:
    title = f"  {format_count(len(task.tasks), 'variant')} of the prompt"
    lines = [BLANK, line(Span(make_visible(task.key), "title"), title), BLANK]
    header = ("", "min", "median", "max", "spread", *map(make_visible, task.tasks))
    rows = [_draw_metric(one, digits) for one in task.metrics]
    lines += lay_out(Table(header, rows, "<" + ">" * (len(header) - 1), flexible=0), width)
    if task.comparison is None:
        text = f"pairs are not compared: {task.note}"
        return lines + [line(Span(f"  {part}", "dim")) for part in wrap(make_visible(text), width - 2)]
    return [*lines, BLANK, *draw_pairs(Comparison((task.comparison,)), width, digits=digits, flips=0)]


def _draw_metric(one: VariedMetric, digits: int | None) -> Sequence[Cell]:
    def write(value: float | None) -> str:
        return "" if value is None else format_figure(value, as_share=one.is_share, digits=digits)

    ends = (one.minimum, one.median, one.maximum, one.spread)
    return (Span(make_visible(one.name), "strong"), *map(write, ends), *map(write, one.values.values()))


def describe_variants(run: Run) -> list[dict[str, Any]]:
    """Return the variants as plain values, for `--json`."""
    return [_describe(one) for one in compare_variants(run)]


def _describe(task: VariedTask) -> dict[str, Any]:
    compared = None if task.comparison is None else describe_task_comparison(task.comparison)
    described = {
        "task": task.key,
        "variants": [{"key": key, "task": name} for key, name in task.tasks.items()],
        "metrics": [_describe_metric(one) for one in task.metrics],
        "comparison": compared,
    }
    return described | ({"note": task.note} if task.note else {})


def _describe_metric(one: VariedMetric) -> dict[str, Any]:
    return {
        "name": one.name,
        "values": dict(one.values),
        "min": one.minimum,
        "median": one.median,
        "max": one.maximum,
        "spread": one.spread,
        "std_dev": one.std_dev,
    }
