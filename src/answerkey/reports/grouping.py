"""Metrics by group: a table for the main metric, and the averages of all of them."""

from __future__ import annotations

from collections.abc import Sequence

from answerkey.reports.scorer_names import label_metric
from answerkey.runs import TaskRun
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    Table,
    format_figure,
    format_interval,
    is_share,
    lay_out,
    line,
    make_visible,
    wrap,
)
from answerkey.types import Groups, GroupValue, MetricValue

SHOWN_GROUPS = 60
SHOWN_NOTES = 3


def list_group_columns(task: TaskRun) -> list[str]:
    """Return the columns by which metrics of a task are grouped."""
    columns = [groups.column for value in task.metrics.values() for groups in value.groups]
    return list(dict.fromkeys(columns))


def draw_groups(task: TaskRun, width: int, digits: int | None = None) -> list[Line]:
    """Return for each column the first metric by group, then micro and macro averages of all metrics."""
    lines: list[Line] = []
    for column in list_group_columns(task):
        found = [
            (value, groups)
            for value in task.metrics.values()
            for groups in value.groups
            if groups.column == column
        ]
        lines += _draw_first(task, *found[0], width, digits=digits)
        lines += _draw_averages(task, found, width, digits)
    return lines


def _draw_first(
    task: TaskRun, value: MetricValue, groups: Groups, width: int, *, digits: int | None
) -> list[Line]:
    largest = sorted(groups.values, key=lambda one: -one.n)[:SHOWN_GROUPS]
    shown = [one for one in groups.values if one in largest]
    if not shown:
        return [BLANK, line(f"  By {make_visible(groups.column)}: {groups.macro.note}")]
    rows = [_draw_group(one, is_share(value), digits) for one in shown]
    name = make_visible(label_metric(task, value))
    header = (f"By {make_visible(groups.column)}", name, "95 % interval", "n")
    lines = [BLANK, *lay_out(Table(header, rows, "<>>>", flexible=0), width)]
    left = len(groups.values) - len(shown)
    lines += [line(f"  and {left} smaller ones; `--json` has them all")] if left else []
    return lines + _say_missing(shown, width)


def _draw_group(one: GroupValue, as_share: bool, digits: int | None) -> list[Cell]:  # noqa: FBT001 - of a number
    return [
        make_visible(str(one.group)),
        format_figure(one.value, as_share=as_share, digits=digits),
        format_interval(one.interval, as_share=as_share, digits=digits),
        str(one.n),
    ]


def _say_missing(shown: Sequence[GroupValue], width: int) -> list[Line]:
    """Return why groups have no value or no interval, the first of which each holds for."""
    groups: dict[str, list[str]] = {}
    for one in shown:
        note = one.note if one.value is None else f"no interval: {one.interval_note}"
        if one.interval is None and note:
            groups.setdefault(note, []).append(str(one.group))
    lines = [
        f"{', '.join(names[:SHOWN_NOTES])}{' …' if len(names) > SHOWN_NOTES else ''}: {note}"
        for note, names in groups.items()
    ]
    return [line(Span(f"  {part}", "dim")) for one in lines for part in wrap(make_visible(one), width - 2)]


def _draw_averages(
    task: TaskRun, found: Sequence[tuple[MetricValue, Groups]], width: int, digits: int | None
) -> list[Line]:
    """Return the value over all samples beside the plain mean over the groups, metric by metric."""
    rows: list[Sequence[Cell]] = []
    for value, groups in found:
        as_share, macro = is_share(value), groups.macro
        rows.append(
            (
                make_visible(label_metric(task, value)),
                format_figure(value.value, as_share=as_share, digits=digits),
                format_figure(macro.value, as_share=as_share, digits=digits),
                format_interval(macro.interval, as_share=as_share, digits=digits),
                str(macro.n),
            )
        )
    title = f"Averages by {make_visible(found[0][1].column)}"
    header = (title, "micro", "macro", "95 % of macro", "groups")
    lines = [BLANK, *lay_out(Table(header, rows, "<>>>>", flexible=0), width)]
    notes = {
        f"no interval of the macro average: {groups.macro.interval_note}"
        for _, groups in found
        if groups.macro.value is not None and groups.macro.interval_note
    }
    parts = [part for note in sorted(notes) for part in wrap(make_visible(note), width - 2)]
    return [*lines, *(line(Span(f"  {part}", "dim")) for part in parts)]
