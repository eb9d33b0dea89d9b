"""The gates of runs as JUnit XML, which CI servers read: one suite per run, one test case per gate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from answerkey.errors import AnswerkeyError
from answerkey.gates.rules import read_definition
from answerkey.gates.text import WORDS, advise_gate, explain_gate
from answerkey.reports.listing import name_model
from answerkey.reports.summary import find_cause
from answerkey.runs import Run
from answerkey.text import make_visible
from answerkey.types import Gate, GateStatus

#: Tag, message and lines of text below a test case that does not pass.
Trouble = tuple[str, str, Sequence[str]]
#: What a gate that does not pass is in JUnit's words.
TAGS = {GateStatus.FAIL: "failure", GateStatus.NOT_DECIDED: "error", GateStatus.SKIPPED: "skipped"}
COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}
# XML has no way to write these two, nor control characters, which `make_visible` writes out.
_NO_CHARACTERS = re.compile("[\ufffe\uffff]")


def write_junit(runs: Sequence[Run]) -> str:
    """Return the JUnit document of runs; each suite also says whether its run is complete."""
    return _finish([_describe_run(run) for run in runs])


def write_junit_fault(error: AnswerkeyError) -> str:
    """Return the JUnit document of a command that ended with an error."""
    suite = Element("testsuite", name="answerkey", time="0")
    _add_case(
        suite,
        "answerkey",
        "the run comes to its end",
        ("error", f"{error.code}: {error.message}", str(error).split("\n")),
    )
    return _finish([suite])


def _describe_run(run: Run) -> Element:
    name = str(run.manifest.get("display_name") or run.key)
    models = dict.fromkeys(name_model(task) for task in run.tasks.values())
    label = f"{name} ({', '.join(models)})" if models else name
    suite = Element("testsuite", name=_clean(label), time=f"{_measure_seconds(run):g}")
    if run.manifest.get("started_at"):
        suite.set("timestamp", _clean(str(run.manifest["started_at"])))
    properties = SubElement(suite, "properties")
    for key, value in _list_properties(run).items():
        SubElement(properties, "property", name=key, value=_clean(value))
    is_complete = run.status == "complete"
    trouble = None if is_complete else ("error", f"the run is {run.status}", [_say_stopped(run)])
    _add_case(suite, run.key, "the run is complete", trouble)
    for gate in run.gates:
        _add_case(suite, f"{run.key}.{gate.policy}", gate.display_name or gate.rule, _find_trouble(gate, run))
    return suite


def _list_properties(run: Run) -> dict[str, str]:
    shown = {"run": None if run.path is None else str(run.path), "key": run.key, "status": run.status}
    shown["answerkey_version"] = run.manifest.get("answerkey_version")
    return {name: str(value) for name, value in shown.items() if value is not None}


def _measure_seconds(run: Run) -> float:
    try:
        began, ended = (
            datetime.fromisoformat(str(run.manifest[name])) for name in ("started_at", "ended_at")
        )
    except (KeyError, ValueError):
        return 0.0
    return max(0.0, (ended - began).total_seconds())


def _say_stopped(run: Run) -> str:
    causes = [f"task `{task.key}`: {find_cause(task)}" for task in run.tasks.values()]
    return str((run.manifest.get("stopped") or {}).get("message") or "; ".join(causes))


def _find_trouble(gate: Gate, run: Run) -> Trouble | None:
    """Return what a gate that does not pass has to say."""
    if gate.status is GateStatus.PASS:
        return None
    sentences = explain_gate(gate, with_tasks=len(run.tasks) > 1)
    advice = advise_gate(gate, run)
    lines = [f"rule {gate.policy}/{gate.rule}: {read_definition(gate.definition).need}", *sentences]
    lines += [f"what to do: {advice}"] if advice else []
    return TAGS[gate.status], f"{WORDS[gate.status]}: {sentences[0]}", lines


def _add_case(suite: Element, classname: str, name: str, trouble: Trouble | None) -> None:
    case = SubElement(suite, "testcase", classname=_clean(classname), name=_clean(name), time="0")
    if trouble is not None:
        tag, message, lines = trouble
        child = SubElement(case, tag, message=_clean(message))
        child.text = "\n".join(map(_clean, lines))


def _clean(text: str) -> str:
    """Return a text that XML can hold: what it cannot is written out; the rest the writer escapes."""
    return _NO_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", make_visible(text))


def _finish(suites: Sequence[Element]) -> str:
    root = Element("testsuites", name="answerkey")
    for suite in suites:
        _count(suite, [suite])
        root.append(suite)
    _count(root, suites)
    indent(root)
    body = tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _count(element: Element, suites: Sequence[Element]) -> None:
    cases = [case for suite in suites for case in suite.iter("testcase")]
    element.set("tests", str(len(cases)))
    for tag, name in COUNTED.items():
        element.set(name, str(sum(case.find(tag) is not None for case in cases)))
