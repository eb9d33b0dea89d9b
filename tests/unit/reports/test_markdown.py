"""Laws of what others read of a run: Markdown, JUnit XML, and what Python shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from xml.etree.ElementTree import Element, fromstring

import pytest
from tests.projects import SCORER, make_task

import answerkey as ak
from answerkey.errors import Place, RunError
from answerkey.reports.markdown import (
    escape_markdown,
    write_junit,
    write_junit_fault,
    write_markdown,
    write_summary_fault,
)
from answerkey.runs import Run, describe_gates
from answerkey.types import Gate, GateCheck, GateStatus

NEED = {"type": "threshold", "metric": "Accuracy", "operator": ">=", "threshold": 0.8}
IN_MARKDOWN = "| [x](javascript:alert(1)) <script> `*_# www.a.b\n# y"
IN_XML = 'a]]>&<b attr="x">\'\x00\x1b[31m\ud800\ufffe\n\t\u202eé'


def make_gate(status: GateStatus, name: str = "High", note: str | None = None) -> Gate:
    """Return a gate with one check, or with a note."""
    check = GateCheck("mcqa", "Accuracy", status, 0.75, 0.75, n=100, is_share=True)
    return Gate("release", "high", status, NEED, name, checks=() if note else (check,), note=note)


@pytest.fixture
def gated(make_run: Callable[..., Run]) -> Callable[..., Run]:
    """Return a maker of runs with gates."""

    def make(*gates: Gate, status: str = "complete") -> Run:
        run = make_run(status)
        times = {"started_at": "2026-01-02T03:04:05Z", "ended_at": "2026-01-02T03:05:35Z"}
        gate_fields = {"gates": describe_gates(gates)} if gates else {}
        return replace(run, manifest={**run.manifest, **times, **gate_fields})

    return make


def test_nothing_from_data_is_markdown() -> None:
    """No link, no element, no row, no heading and no address is made of a name or a text."""
    rows = [{"answer": "A", "category": IN_MARKDOWN}, {"answer": "B", "category": "x"}]
    task = make_task() | {"display_name": IN_MARKDOWN}
    page = write_markdown([ak.score(task, rows, ["A", IN_MARKDOWN])])
    assert not [part for part in ("<script>", "www.a", "\n# y") if part in page]
    assert "](" not in page.replace("\\](", "")
    assert page.count("\n### ") == 1


def test_an_incomplete_run_shows_no_number(make_run: Callable[..., Run]) -> None:
    """A share of the rest says nothing about the whole; counts and reasons are there."""
    page = write_markdown([make_run("incomplete")])
    assert page.startswith("## Demo: incomplete\n")
    assert "INCOMPLETE: the rest of the run is not complete, so no accuracy is shown" in page
    assert " %" not in page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", r"a\|b"),
        ("*bold* _low_ `code` ~no~", r"\*bold\* \_low\_ \`code\` \~no\~"),
        ("<script>&amp;", "&lt;script&gt;&amp;amp;"),
        ("[x](http://y.z) ![i](j)", r"\[x\](http\://y.z) !\[i\](j)"),
        ("@team #12 $x$ :smile:", r"\@team \#12 \$x\$ \:smile:"),
        ("one\ntwo\x1b[0m", r"one\\ntwo\\x1b\[0m"),
        ("back\\slash", r"back\\slash"),
        ("plain words: 50.00 % (n 3)", "plain words: 50.00 % (n 3)"),
        ("x" * 5000, "x" * 299 + "…"),  # the page of a job has a limit
    ],
)
def test_text_is_shown_as_it_is(text: str, shown: str) -> None:
    """Nothing in a name is Markdown, HTML, a mention or a formula, and no name ends a row."""
    assert escape_markdown(text) == shown


def test_many_gates_are_counted(gated: Callable[..., Run]) -> None:
    """Rows beyond the two hundredth are only counted."""
    page = write_markdown([gated(*[make_gate(GateStatus.PASS)] * 203)])
    assert page.count("| ✅ PASS |") == 200
    assert "| | and 3 more | |\n" in page


# JUnit


def read(text: str) -> Element:
    """Return the document as an XML reader sees it."""
    return fromstring(text.encode("utf-8"))  # noqa: S314 - our own document


def test_each_gate_is_a_test_case(gated: Callable[..., Run]) -> None:
    """FAIL is a failure, NOT DECIDED an error, SKIPPED skipped.

    That the run is complete is a case, too.
    """
    notes = {GateStatus.NOT_DECIDED: "no baseline", GateStatus.SKIPPED: "for others"}
    statuses = (GateStatus.PASS, GateStatus.FAIL, *notes)
    root = read(write_junit([gated(*[make_gate(name, note=notes.get(name)) for name in statuses])]))
    (suite,) = root
    counts = {"tests": "5", "failures": "1", "errors": "1", "skipped": "1"}
    about = {"name": "Demo (builtin/simulated?accuracy=0.8 SIMULATED)", "time": "90"}
    assert root.attrib.items() >= counts.items()
    assert suite.attrib == {**about, **counts, "timestamp": "2026-01-02T03:04:05Z"}
    complete, *gates = suite.iter("testcase")
    fields = {"classname": "demo", "name": "the run is complete", "time": "0"}
    assert (complete.attrib, len(complete)) == (fields, 0)
    assert [[part.tag for part in gate] for gate in gates] == [
        *([], ["failure"], ["error"], ["skipped"])
    ]
    for gate in gates:
        assert gate.attrib == {"classname": "demo.release", "name": "High", "time": "0"}
    measured = "Accuracy is 75.00 % (n 100); needed: at least 80.00 %"
    advice = "what to do: `answerkey show RUN` shows what the value is based on"
    failure = gates[1][0]
    assert failure.get("message") == f"FAIL: {measured}"
    assert failure.text == f"rule release/high: Accuracy >= 0.8\n{measured}\n{advice}"


def test_a_run_without_policies_still_has_a_case(gated: Callable[..., Run]) -> None:
    """Servers take an empty document for a mistake.

    An incomplete run is an error; several are counted.
    """
    roots = [read(write_junit([gated(status=status)])) for status in ("complete", "incomplete")]
    assert [(root.get("tests"), root.get("errors")) for root in roots] == [("1", "0"), ("1", "1")]
    assert next(roots[1].iter("error")).get("message") == "the run is incomplete"
    root = read(write_junit([gated(make_gate(GateStatus.FAIL)), gated(make_gate(GateStatus.PASS))]))
    assert [suite.get("failures") for suite in root] == ["1", "0"]
    assert (root.get("tests"), root.get("failures")) == ("4", "1")


def test_names_cannot_break_the_document(gated: Callable[..., Run]) -> None:
    """Marks of XML are escaped; what XML cannot hold is written out."""
    gate = make_gate(GateStatus.FAIL, IN_XML)
    checks = (replace(gate.checks[0], name=IN_XML),)
    case = list(read(write_junit([gated(replace(gate, checks=checks))])).iter("testcase"))[1]
    shown = 'a]]>&<b attr="x">\'\\x00\\x1b[31m\\ud800\\ufffe\\n\\t\\u202eé'
    assert case.get("name") == shown
    assert shown in str(case[0].text)


def test_a_command_that_ends_with_an_error_says_so() -> None:
    """A report that is missing looks like a test that was not run.

    These say why, and what to do.
    """
    fault = RunError("E502", "cannot write <x>", where=Place(file="runs"), hint="make `room`")
    root = read(write_junit_fault(fault))
    assert (root.get("tests"), root.get("errors")) == ("1", "1")
    error = next(root.iter("error"))
    assert error.get("message") == "E502: cannot write <x>"
    assert error.text == "error[E502]: cannot write <x>\n  --> runs\n  = help: make `room`"
    assert write_summary_fault(fault).split("\n\n") == [
        "## answerkey: ❌ the run did not come to its end",
        "error E502: cannot write &lt;x&gt;",
        "What to do: make \\`room\\`",
        "",
    ]


# Runs, comparisons and audits where Python shows them.

HOSTILE = "<img src=x onerror=alert(1)>\"'&\u202e\x1b[31m"
ROWS = [{"answer": "A", "category": HOSTILE}, {"answer": "B", "category": "art"}, {"answer": "B"}]


def score(*completions: str) -> Run:
    """Return a run in memory whose texts would all like to be markup."""
    task = make_task({**SCORER, "display_name": HOSTILE})
    return ak.score({**task, "display_name": HOSTILE, "description": HOSTILE}, ROWS, completions)


def test_a_notebook_shows_the_text() -> None:
    """What `print` shows, in one `<pre>`; nothing from data is markup, and no hidden character is
    left.
    """
    run = score("A", "The answer is B", HOSTILE)
    comparison = ak.compare(run, score("A", "B", "B"))
    for shown, text in ((run, "33.33 %"), (comparison, "-66.67"), (ak.audit(run), "stated_answer")):
        assert text in str(shown)
        html = shown._repr_html_()
        body = html.removeprefix("<pre>").removesuffix("</pre>")
        assert len(body) == len(html) - len("<pre></pre>")
        assert text in body
        assert not {"<", ">", "\x1b", "\u202e"} & set(body)
