"""Runs for others to read: Markdown, for the page of a CI job or to keep."""

from __future__ import annotations

import re
from collections.abc import Sequence

from answerkey.errors import AnswerkeyError
from answerkey.gates.rules import WORDS, count_gates, judge_run
from answerkey.reports.terminal import SIMULATED, say_counts
from answerkey.reports.view import GateView, MetricView, TaskView, view_run
from answerkey.runs import Run
from answerkey.text import format_figure, format_interval, make_visible, shorten
from answerkey.types import GateStatus

MARKS = {
    GateStatus.PASS: "✅",
    GateStatus.FAIL: "❌",
    GateStatus.NOT_DECIDED: "⚠️",
    GateStatus.SKIPPED: "⏭️",
}
#: The page of a CI job may hold one megabyte; rows beyond these are counted.
MAX_GATES, MAX_METRICS = 200, 100
MAX_TEXT, MAX_SENTENCE = 300, 2_000
# What Markdown's marks, tables, links, mentions, formulas, emoji and bare addresses are made of.
_SPECIAL = re.compile(r"[\\`*_\[\]#|~@$]|:(?=\S)|(?<=www)\.", re.IGNORECASE)
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def escape_markdown(text: str, limit: int = MAX_TEXT) -> str:
    """Return text on one line that Markdown shows as it is, cut when it is very long."""
    shown = shorten(text, limit) if len(text) > limit else make_visible(text)
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", shown.translate(_ENTITIES))


def write_markdown(runs: Sequence[Run]) -> str:
    """Return runs as Markdown: the gates, the numbers, the counts.

    Nothing in it comes unescaped from data.
    """
    lines: list[str] = []
    for view in map(view_run, runs):
        verdict = judge_run(view.run)
        status = f"{MARKS[verdict]} {WORDS[verdict]}" if verdict else view.status
        lines += [f"## {escape_markdown(view.title)}: {status}", ""]
        if view.path is not None:
            lines += [f"Run {escape_markdown(view.path)}, {view.status}.", ""]
        if view.is_simulated:
            lines += [f"{SIMULATED}.", ""]
        lines += _list_gates(view.gates)
        for task in view.tasks:
            lines += _list_task(task, is_complete=view.is_complete)
    return "".join(f"{line}\n" for line in lines)


def _list_task(task: TaskView, *, is_complete: bool) -> list[str]:
    name = task.key
    if task.display_name not in {"", task.key}:
        name += f": {task.display_name}"
    texts = [f"Completions of {task.answerer}."]
    if task.reused:
        texts.append(f"{task.reused}.")
    if not is_complete:
        texts.append(task.incomplete)
    texts.append(f"{'; '.join(say_counts(task.counts, 'sample'))}.")
    about = escape_markdown(" ".join(texts), MAX_SENTENCE)
    lines = [f"### {escape_markdown(name)}", "", about, ""]
    if is_complete:
        lines += _list_metrics(task.metrics)
    return lines


def write_summary_fault(error: AnswerkeyError) -> str:
    """Return the Markdown of a command that ended with an error."""
    problem = f"error {error.code}: {escape_markdown(error.message)}"
    lines = ["## answerkey: ❌ the run did not come to its end", "", problem]
    if error.hint:
        lines += ["", f"What to do: {escape_markdown(error.hint)}"]
    return "\n".join([*lines, "", ""])


def _list_gates(gates: Sequence[GateView]) -> list[str]:
    if not gates:
        return []
    counts = count_gates([view.gate for view in gates])
    lines = [f"{counts}.", "", "| | gate | measured |", "|---|---|---|"]
    for view in gates[:MAX_GATES]:
        cells = list(map(escape_markdown, view.sentences))
        if view.advice:
            cells.append(f"*{escape_markdown(view.advice)}*")
        status = f"{MARKS[view.gate.status]} {WORDS[view.gate.status]}"
        lines.append(f"| {status} | {escape_markdown(view.name)} | {'<br>'.join(cells)} |")
    if len(gates) > MAX_GATES:
        lines.append(f"| | and {len(gates) - MAX_GATES} more | |")
    return [*lines, ""]


def _list_metrics(views: Sequence[MetricView]) -> list[str]:
    lines = ["| metric | value | 95 % interval | n |", "|---|---:|---:|---:|"]
    for view in views[:MAX_METRICS]:
        metric = view.metric
        label = escape_markdown(view.label)
        number = format_figure(metric.value, as_share=view.is_share)
        interval = format_interval(metric.interval, as_share=view.is_share)
        lines.append(f"| {label} | {number} | {escape_markdown(interval)} | {metric.n} |")
    if len(views) > MAX_METRICS:
        lines.append(f"| and {len(views) - MAX_METRICS} more | | | |")
    return [*lines, ""]
