"""Runs for others to read: Markdown to keep, Markdown for the summary page of a CI job, JUnit
XML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from answerkey import text
from answerkey.errors import AnswerkeyError
from answerkey.gates.rules import WORDS, count_gates, judge_run, read_definition, tell_gates
from answerkey.reports.terminal import SIMULATED
from answerkey.reports.view import find_cause, measure_seconds, view_run
from answerkey.runs import Run, list_forced, name_answerer
from answerkey.text import format_figure, format_interval, format_percent, make_visible, shorten
from answerkey.types import GateStatus

MARKS = {
    GateStatus.PASS: "✅",
    GateStatus.FAIL: "❌",
    GateStatus.NOT_DECIDED: "⚠️",
    GateStatus.SKIPPED: "⏭️",
}
#: Such a page may hold one megabyte; rows beyond these are counted.
SHOWN_GATES, SHOWN_METRICS, SHOWN_CATEGORIES, SHOWN_LETTERS, LONGEST, SENTENCE = (
    200,
    100,
    60,
    12,
    300,
    2_000,
)
# What Markdown's marks, tables, links, mentions, formulas, emoji and bare addresses are made of.
_SPECIAL = re.compile(r"[\\`*_\[\]#|~@$]|:(?=\S)|(?<=www)\.", re.IGNORECASE)
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}

Values = Mapping[str, Any]


def escape_markdown(text: str, longest: int = LONGEST) -> str:
    """Return text on one line that Markdown shows as it is, cut when it is very long."""
    shown = shorten(text, longest) if len(text) > longest else make_visible(text)
    plain = "".join(_ENTITIES.get(character, character) for character in shown)
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", plain)


def write_step_summary(runs: Sequence[Run]) -> str:
    """Return runs as Markdown for the page of a CI job: the gates, the numbers, what stands behind
    them.
    """
    lines: list[str] = []
    for run in runs:
        view = view_run(run)
        lines += [f"## {escape_markdown(view['title'])}: {_say_verdict(run)}", ""]
        lines += (
            [f"Run {escape_markdown(str(run.path))}, {run.status}.", ""]
            if run.path is not None
            else []
        )
        lines += _list_gates(run)
        for task in view["tasks"]:
            about = f"{escape_markdown(task['answerer'])}{_say_forced(list_forced(task))}"
            lines += [
                f"### {escape_markdown(_name_task(task))}",
                "",
                f"Completions of {about}.",
                "",
            ]
            if run.status == "complete":
                lines += [*_list_metrics(task["metrics"], "label"), _say_counts(task["counts"]), ""]
            else:
                lines += [
                    f"INCOMPLETE: {escape_markdown(task['cause'])}, so that no number is shown.",
                    "",
                ]
    return "".join(f"{line}\n" for line in lines)


def write_summary_fault(error: AnswerkeyError) -> str:
    """Return the Markdown of a command that ended with an error."""
    what = f"error {error.code}: {escape_markdown(error.message)}"
    lines = ["## answerkey: ❌ the run did not come to its end", "", what]
    lines += ["", f"What to do: {escape_markdown(error.hint)}"] if error.hint else []
    return "\n".join([*lines, "", ""])


def _name_task(task: Values) -> str:
    name = str(task["display_name"] or task["key"])
    return name if name == task["key"] else f"{task['key']}: {name}"


def _say_verdict(run: Run) -> str:
    """Return what the gates of a run come to, or its status where there are none."""
    verdict = judge_run(run)
    return f"{MARKS[verdict]} {WORDS[verdict]}" if verdict else run.status


def _list_gates(run: Run) -> Iterator[str]:
    gates = tell_gates(run)
    if not gates:
        return
    yield from (f"{count_gates(run.gates)}.", "", "| | gate | measured |", "|---|---|---|")
    for gate, name, sentences, advice in gates[:SHOWN_GATES]:
        cells = [
            *map(escape_markdown, sentences),
            *([f"*{escape_markdown(advice)}*"] if advice else []),
        ]
        status = f"{MARKS[gate.status]} {WORDS[gate.status]}"
        yield f"| {status} | {escape_markdown(name)} | {'<br>'.join(cells)} |"
    if len(gates) > SHOWN_GATES:
        yield f"| | and {len(gates) - SHOWN_GATES} more | |"
    yield ""


def _list_metrics(values: Sequence[Values], name: str) -> Iterator[str]:
    rows = [
        (escape_markdown(one[name]), *_write(one, as_share=one["is_share"]), str(one["n"]))
        for one in values
    ]
    yield from _list_rows(("metric", "value", "95 % interval", "n"), rows[:SHOWN_METRICS], "<>>>")
    if len(rows) > SHOWN_METRICS:
        yield f"| and {len(rows) - SHOWN_METRICS} more | | | |"
    yield ""


def _write(one: Values, *, as_share: bool) -> tuple[str, str]:
    return format_figure(one["value"], as_share=as_share), format_interval(
        one["interval"], as_share=as_share
    )


def _list_rows(header: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> Iterator[str]:
    yield f"| {' | '.join(map(escape_markdown, header))} |"
    yield f"|{'|'.join('---:' if side == '>' else '---' for side in align)}|"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _say_counts(counts: Mapping[str, int]) -> str:
    """Return the counts as sums: every sample is somewhere."""
    return (
        f"{counts['samples']} samples = {counts['scored']} scored + {counts['failed']} failed"
        f" + {counts['errors']} errors; scored = {counts['valid']} valid + "
        f"{counts['invalid']} invalid"
        f" (refused {counts['refused']})."
    )


# ------------------------------------------------------------------------------------- a page to
# keep


def write_markdown(run: Run) -> str:
    """Return a run as a page that people keep; nothing in it comes unescaped from data."""
    from answerkey.reports.overview import (
        describe_overview,
    )  # it audits, which no other form here needs

    told, title = (
        describe_overview(run, is_brief=True),
        str(run.manifest.get("display_name") or run.key),
    )
    lines = [f"# {escape_markdown(title)}: {_say_verdict(run)}", ""]
    if run.path is not None:
        lines += [
            f"Run {escape_markdown(run.path.name)}, {run.status}, begun {told['started_at']}.",
            "",
        ]
    lines += [*_list_points([SIMULATED] * told["simulated"] + told["notices"]), *_list_gates(run)]
    for task in told["tasks"]:
        lines += [
            f"## {escape_markdown(_name_task(task))}",
            "",
            f"**{_say(task['headline']['sentence'])}**",
        ]
        about = (
            f"Completions of {_say(task['model'])} on "
            f"{_say(task['dataset'])}{_say_forced(task['forced'])}."
        )
        lines += ["", f"{about} {_say_counts(task['counts'])}", ""]
        lines += _list_metrics(task["metrics"], "name") if run.status == "complete" else ()
        lines += ["### What stands out", ""] if task["findings"] else []
        for number, one in enumerate(task["findings"], 1):
            lines.append(f"{number}. {_say(one['sentence'])} *Next: {_say(one['step'])}*")
        lines += [*([""] if task["findings"] else []), *_list_plots(task)]
    return "\n".join([*lines, ""])


def _say(text: str) -> str:
    return escape_markdown(text, SENTENCE)


def _say_forced(forced: Mapping[str, str]) -> str:
    return "".join(f"; {name}: {_say(what)}" for name, what in forced.items())


def _list_points(texts: Sequence[str]) -> Iterator[str]:
    yield from (f"- {_say(text)}" for text in texts)
    if texts:
        yield ""


def _list_plots(values: Values) -> Iterator[str]:
    plots, as_share = values["plots"], values["headline"]["is_share"]
    invalid = [(one["reason"], str(one["count"])) for one in plots["invalid"] or ()]
    yield from _list_table("INVALID by reason", ("reason", "completions"), invalid, "<>")
    rules = [
        (
            one["label"],
            *_write(one, as_share=True),
            format_percent(one["invalid_share"]),
            str(one["read"]),
            str(one["n"]),
        )
        for one in plots["rules"] or ()
    ]
    header = ("rule", "accuracy", "95 % interval", "INVALID", "read", "n")
    yield from _list_table("Read by", header, rules, "<>>>>>")
    told = [values["audited"][name] for name in ("sentence", "unfit")] if rules else []
    yield from _list_points([text for text in told if text])
    if plots["categories"]:
        column, found = plots["categories"]["column"], plots["categories"]["rows"]
        largest = sorted(found, key=lambda one: -one["n"])[:SHOWN_CATEGORIES]
        rows = [
            (one["label"], *_write(one, as_share=as_share), str(one["n"]))
            for one in found
            if one in largest
        ]
        yield from _list_table(
            f"By {column}", (column, "value", "95 % interval", "n"), rows, "<>>>"
        )
    letters = plots["letters"]
    if letters and len(letters["predicted"]) <= SHOWN_LETTERS + 1:
        counted = zip(letters["true"], letters["counts"], strict=True)
        rows = [(letter, *map(str, counts)) for letter, counts in counted]
        header = ("true \\ predicted", *letters["predicted"])
        yield from _list_table("Letters", header, rows, "<" + ">" * len(letters["predicted"]))


def _list_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], align: str
) -> Iterator[str]:
    if rows:
        escaped = [list(map(escape_markdown, row)) for row in rows]
        yield from (f"### {escape_markdown(title)}", "", *_list_rows(header, escaped, align), "")


# JUnit

#: Tag, message and lines of text below a test case that does not pass.
Problem = tuple[str, str, Sequence[str]]
#: What a gate that does not pass is in JUnit's words.
TAGS = {GateStatus.FAIL: "failure", GateStatus.NOT_DECIDED: "error", GateStatus.SKIPPED: "skipped"}
COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}
# XML has no way to write these two, nor control characters, which `make_visible` writes out.
_NO_CHARACTERS = re.compile("[\ufffe\uffff]")


def write_junit(runs: Sequence[Run]) -> str:
    """Return runs as JUnit XML: a suite per run, a test case per gate, and one for being
    complete.
    """
    suites = []
    for run in runs:
        name, manifest = str(run.manifest.get("display_name") or run.key), run.manifest
        models = dict.fromkeys(name_answerer(task.manifest) for task in run.tasks.values())
        label = f"{name} ({', '.join(models)})" if models else name
        suite = Element("testsuite", name=clean_xml(label), time=f"{measure_seconds(run) or 0.0:g}")
        if manifest.get("started_at"):
            suite.set("timestamp", clean_xml(str(manifest["started_at"])))
        properties = SubElement(suite, "properties")
        shown = {"run": run.path, "key": run.key, "status": run.status}
        shown["answerkey_version"] = manifest.get("answerkey_version")
        for key, value in shown.items():
            if value is not None:
                SubElement(properties, "property", name=key, value=clean_xml(str(value)))
        problem: Problem | None = None
        if run.status != "complete":
            causes = "; ".join(
                f"task `{task.key}`: {find_cause(task)}" for task in run.tasks.values()
            )
            why = str((manifest.get("stopped") or {}).get("message") or causes)
            problem = ("error", f"the run is {run.status}", [why])
        _add_case(suite, run.key, "the run is complete", problem)
        for gate, _, sentences, advice in tell_gates(run):
            problem = None
            if gate.status is not GateStatus.PASS:
                need = read_definition(gate.definition).need
                lines = [f"rule {gate.policy}/{gate.rule}: {need}", *sentences]
                lines += [f"what to do: {advice}"] if advice else []
                problem = (TAGS[gate.status], f"{WORDS[gate.status]}: {sentences[0]}", lines)
            _add_case(suite, f"{run.key}.{gate.policy}", gate.display_name or gate.rule, problem)
        suites.append(suite)
    return _finish(suites)


def write_junit_fault(error: AnswerkeyError) -> str:
    """Return the JUnit document of a command that ended with an error."""
    suite = Element("testsuite", name="answerkey", time="0")
    problem = ("error", f"{error.code}: {error.message}", text.write_problem(error).split("\n"))
    _add_case(suite, "answerkey", "the run comes to its end", problem)
    return _finish([suite])


def clean_xml(text: str) -> str:
    """Return a text that XML can hold: what it cannot is written out.

    The rest the writer escapes.
    """
    return _NO_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", make_visible(text))


def _add_case(suite: Element, classname: str, name: str, problem: Problem | None) -> None:
    case = SubElement(
        suite, "testcase", classname=clean_xml(classname), name=clean_xml(name), time="0"
    )
    if problem is not None:
        tag, message, lines = problem
        SubElement(case, tag, message=clean_xml(message)).text = "\n".join(map(clean_xml, lines))


def _finish(suites: Sequence[Element]) -> str:
    root = Element("testsuites", name="answerkey")
    root.extend(suites)
    for element in (*suites, root):
        cases = list(element.iter("testcase"))
        element.set("tests", str(len(cases)))
        for tag, name in COUNTED.items():
            element.set(name, str(sum(case.find(tag) is not None for case in cases)))
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'
