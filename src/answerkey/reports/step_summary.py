"""Runs as Markdown for the summary page of a CI job: the gates, the numbers, what stands behind them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from answerkey.errors import AnswerkeyError
from answerkey.gates.text import WORDS, advise_gate, count_gates, explain_gate, judge_run, name_gate
from answerkey.reports.listing import name_model
from answerkey.reports.scorer_names import label_metric
from answerkey.reports.summary import find_cause
from answerkey.runs import Run, TaskRun
from answerkey.text import format_interval, format_value, is_share, make_visible, shorten
from answerkey.types import GateStatus

MARKS = {
    GateStatus.PASS: "✅",
    GateStatus.FAIL: "❌",
    GateStatus.NOT_DECIDED: "⚠️",
    GateStatus.SKIPPED: "⏭️",
}
#: Such a page may hold one megabyte; rows beyond these are counted.
SHOWN_GATES, SHOWN_METRICS, LONGEST = 200, 100, 300
# What Markdown's marks, tables, links, mentions, formulas, emoji and bare addresses are made of.
_SPECIAL = re.compile(r"[\\`*_\[\]#|~@$]|:(?=\S)|(?<=www)\.", re.IGNORECASE)
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def write_step_summary(runs: Sequence[Run]) -> str:
    """Return the Markdown of runs, each with a heading of its own."""
    return "".join(f"{line}\n" for run in runs for line in _list_lines(run))


def write_summary_fault(error: AnswerkeyError) -> str:
    """Return the Markdown of a command that ended with an error."""
    what = f"error {error.code}: {escape_markdown(error.message)}"
    lines = ["## answerkey: ❌ the run did not come to its end", "", what]
    lines += ["", f"What to do: {escape_markdown(error.hint)}"] if error.hint else []
    return "\n".join([*lines, "", ""])


def escape_markdown(text: str, longest: int = LONGEST) -> str:
    """Return text on one line that Markdown shows as it is, cut when it is very long."""
    shown = shorten(text, longest) if len(text) > longest else make_visible(text)
    plain = "".join(_ENTITIES.get(character, character) for character in shown)
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", plain)


def _list_lines(run: Run) -> Iterator[str]:
    yield f"## {escape_markdown(str(run.manifest.get('display_name') or run.key))}: {say_verdict(run)}"
    yield ""
    if run.path is not None:
        yield f"Run {escape_markdown(str(run.path))}, {run.status}."
        yield ""
    yield from list_gates(run)
    for task in run.tasks.values():
        yield from _list_task(run, task)


def say_verdict(run: Run) -> str:
    """Return what the gates of a run come to, or its status where there are none."""
    verdict = judge_run(run)
    return f"{MARKS[verdict]} {WORDS[verdict]}" if verdict else run.status


def list_gates(run: Run) -> Iterator[str]:
    """Yield the table of gates; nothing for a run without any."""
    gates = run.gates
    if not gates:
        return
    yield f"{count_gates(gates)}."
    yield ""
    yield "| | gate | measured |"
    yield "|---|---|---|"
    for gate in gates[:SHOWN_GATES]:
        texts = explain_gate(gate, with_tasks=len(run.tasks) > 1)
        advice = advise_gate(gate, run)
        cells = [*map(escape_markdown, texts), *([f"*{escape_markdown(advice)}*"] if advice else [])]
        name = escape_markdown(name_gate(gate, run))
        yield f"| {MARKS[gate.status]} {WORDS[gate.status]} | {name} | {'<br>'.join(cells)} |"
    if len(gates) > SHOWN_GATES:
        yield f"| | and {len(gates) - SHOWN_GATES} more | |"
    yield ""


def _list_task(run: Run, task: TaskRun) -> Iterator[str]:
    name = str(task.manifest.get("display_name") or task.key)
    yield f"### {escape_markdown(name if name == task.key else f'{task.key}: {name}')}"
    yield ""
    yield f"Completions of {escape_markdown(name_model(task))}."
    yield ""
    if run.status != "complete":
        yield f"INCOMPLETE: {escape_markdown(find_cause(task))}, so that no number is shown."
        yield ""
        return
    yield from list_metrics(task)
    yield say_counts(task.counts)
    yield ""


def list_metrics(task: TaskRun) -> Iterator[str]:
    """Yield the table of metrics."""
    yield "| metric | value | 95 % interval | n |"
    yield "|---|---:|---:|---:|"
    values = list(task.metrics.values())
    for value in values[:SHOWN_METRICS]:
        interval = format_interval(value.interval, as_share=is_share(value))
        name = escape_markdown(label_metric(task, value))
        yield f"| {name} | {format_value(value)} | {interval} | {value.n} |"
    if len(values) > SHOWN_METRICS:
        yield f"| and {len(values) - SHOWN_METRICS} more | | | |"
    yield ""


def say_counts(counts: Mapping[str, int]) -> str:
    """Return the counts as sums: every sample is somewhere."""
    return (
        f"{counts['samples']} samples = {counts['scored']} scored + {counts['failed']} failed"
        f" + {counts['errors']} errors; scored = {counts['valid']} valid + {counts['invalid']} invalid"
        f" (refused {counts['refused']})."
    )
