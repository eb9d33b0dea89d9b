"""Runs for others to read: Markdown, for the page of a CI job or to keep, and JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from answerkey import text
from answerkey.errors import AnswerkeyError
from answerkey.gates.rules import WORDS, count_gates, judge_run, read_definition
from answerkey.reports.terminal import SIMULATED, format_counts
from answerkey.reports.view import GateView, MetricView, RunView, TaskView, view_run
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
_ENTITIES = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
    }
)


def escape_markdown(text: str, limit: int = MAX_TEXT) -> str:
    """Return text on one line that Markdown shows as it is, cut when it is very long."""
    shown = make_visible(text)
    if len(text) > limit:
        shown = shorten(text, limit)
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
    texts.append(f"{'; '.join(format_counts(task.counts, 'sample'))}.")
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


# ── JUnit

#: What a gate that does not pass is called by JUnit.
TAGS = {
    GateStatus.FAIL: "failure",
    GateStatus.NOT_DECIDED: "error",
    GateStatus.SKIPPED: "skipped",
}
COUNTED = {
    "failure": "failures",
    "error": "errors",
    "skipped": "skipped",
}
# XML has no way to write these two, nor control characters, which `make_visible` writes out.
_NO_CHARACTERS = re.compile("[\ufffe\uffff]")


def write_junit(runs: Sequence[Run]) -> str:
    """Return runs as JUnit XML: a suite per run, a test case per gate and one for completeness."""
    return _finish([_build_suite(view_run(run)) for run in runs])


def _build_suite(view: RunView) -> Element:
    key = view.run.key
    models = dict.fromkeys(task.answerer for task in view.tasks)
    label = view.title
    if models:
        label += f" ({', '.join(models)})"
    seconds = view.seconds or 0.0
    suite = Element("testsuite", name=clean_xml(label), time=f"{seconds:g}")
    if view.started_at:
        suite.set("timestamp", clean_xml(view.started_at))
    case = _add_case(suite, key, "the run is complete")
    if not view.is_complete:
        causes = [f"task `{task.key}`: {task.cause}" for task in view.tasks]
        reason = view.stopped or "; ".join(causes)
        _add_problem(case, "error", f"the run is {view.status}", [reason])
    for gate in view.gates:
        _add_gate(suite, key, gate)
    return suite


def _add_gate(suite: Element, key: str, view: GateView) -> None:
    gate = view.gate
    case = _add_case(suite, f"{key}.{gate.policy}", gate.display_name or gate.rule)
    if gate.status is GateStatus.PASS:
        return
    need = read_definition(gate.definition).need
    lines = [f"rule {gate.policy}/{gate.rule}: {need}", *view.sentences]
    if view.advice:
        lines.append(f"what to do: {view.advice}")
    message = f"{WORDS[gate.status]}: {view.sentences[0]}"
    _add_problem(case, TAGS[gate.status], message, lines)


def write_junit_fault(error: AnswerkeyError) -> str:
    """Return the JUnit document of a command that ended with an error."""
    suite = Element("testsuite", name="answerkey", time="0")
    case = _add_case(suite, "answerkey", "the run comes to its end")
    lines = text.write_problem(error).split("\n")
    _add_problem(case, "error", f"{error.code}: {error.message}", lines)
    return _finish([suite])


def clean_xml(text: str) -> str:
    """Return text that XML can hold: what it cannot is written out."""
    return _NO_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", make_visible(text))


def _add_case(suite: Element, classname: str, name: str) -> Element:
    names = {"classname": clean_xml(classname), "name": clean_xml(name)}
    return SubElement(suite, "testcase", names, time="0")


def _add_problem(
    case: Element,
    tag: str,
    message: str,
    lines: Iterable[str],
) -> None:
    problem = SubElement(case, tag, message=clean_xml(message))
    problem.text = "\n".join(map(clean_xml, lines))


def _finish(suites: Sequence[Element]) -> str:
    root = Element("testsuites", name="answerkey")
    root.extend(suites)
    for element in (*suites, root):
        cases = element.findall(".//testcase")
        element.set("tests", str(len(cases)))
        for tag, name in COUNTED.items():
            problems = element.findall(f".//testcase/{tag}")
            element.set(name, str(len(problems)))
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'
