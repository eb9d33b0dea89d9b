"""Laws of the JUnit document: any XML reader reads it, and it counts as CI servers do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from xml.etree.ElementTree import Element, fromstring

import pytest

from answerkey.errors import Place, RunError
from answerkey.reports.junit import write_junit, write_junit_fault
from answerkey.runs import Run, describe_gates
from answerkey.types import Gate, GateCheck, GateStatus

NEED = {"type": "threshold", "metric": "Accuracy", "operator": ">=", "threshold": 0.8}
HOSTILE = 'a]]>&<b attr="x">\'\x00\x1b[31m\ud800\ufffe\n\t\u202eé'


def read(text: str) -> Element:
    """Return the document as an XML reader sees it."""
    return fromstring(text.encode("utf-8"))  # noqa: S314 - our own document


def make_gate(status: GateStatus, name: str = "High", **fields: str) -> Gate:
    """Return a gate with one check, or with a note."""
    check = GateCheck("mcqa", name, status, 0.75, 0.75, n=100, is_share=True)
    checks = () if "note" in fields else (check,)
    return Gate("release", "high", status, NEED, name, checks=checks, note=fields.get("note"))


@pytest.fixture
def gated(make_run: Callable[..., Run]) -> Callable[..., Run]:
    """Return a maker of runs with gates."""

    def make(*gates: Gate, status: str = "complete") -> Run:
        run = make_run(status)
        times = {"started_at": "2026-01-02T03:04:05Z", "ended_at": "2026-01-02T03:05:35Z"}
        return replace(run, manifest={**run.manifest, **times, "gates": describe_gates(gates)})

    return make


def test_each_gate_is_a_test_case(gated: Callable[..., Run]) -> None:
    """FAIL is a failure, NOT DECIDED an error, SKIPPED skipped; that the run is complete is a case, too."""
    run = gated(
        make_gate(GateStatus.PASS),
        make_gate(GateStatus.FAIL),
        make_gate(GateStatus.NOT_DECIDED, note="no baseline"),
        make_gate(GateStatus.SKIPPED, note="for others"),
    )
    root = read(write_junit([run]))
    counts = {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "5", "failures": "1", "errors": "1", "skipped": "1"}
    (suite,) = root
    assert {name: suite.get(name) for name in counts} == counts
    assert (suite.get("name"), suite.get("time"), suite.get("timestamp")) == (
        "Demo (builtin/simulated?accuracy=0.8 SIMULATED)",
        "90",
        "2026-01-02T03:04:05Z",
    )
    cases = list(suite.iter("testcase"))
    assert [(case.get("classname"), case.get("name"), [one.tag for one in case]) for case in cases] == [
        ("demo", "the run is complete", []),
        ("demo.release", "High", []),
        ("demo.release", "High", ["failure"]),
        ("demo.release", "High", ["error"]),
        ("demo.release", "High", ["skipped"]),
    ]
    failure = cases[2][0]
    assert failure.get("message") == "FAIL: High is 75.00 % (n 100); needed: at least 80.00 %"
    assert failure.text == (
        "rule release/high: Accuracy >= 0.8\n"
        "High is 75.00 % (n 100); needed: at least 80.00 %\n"
        "what to do: `answerkey show RUN` says what stands behind the value"
    )


def test_a_run_without_policies_still_has_a_case(gated: Callable[..., Run]) -> None:
    """Servers take an empty document for a mistake; an incomplete run is an error."""
    root = read(write_junit([gated()]))
    assert (root.get("tests"), root.get("errors")) == ("1", "0")
    root = read(write_junit([gated(status="incomplete")]))
    assert (root.get("tests"), root.get("errors")) == ("1", "1")
    error = next(root.iter("error"))
    assert error.get("message") == "the run is incomplete"


def test_several_runs_are_several_suites(gated: Callable[..., Run]) -> None:
    """The document counts them all."""
    root = read(write_junit([gated(make_gate(GateStatus.FAIL)), gated(make_gate(GateStatus.PASS))]))
    assert [suite.get("failures") for suite in root] == ["1", "0"]
    assert (root.get("tests"), root.get("failures")) == ("4", "1")


def test_names_cannot_break_the_document(gated: Callable[..., Run]) -> None:
    """Marks of XML are escaped; what XML cannot hold is written out."""
    root = read(write_junit([gated(make_gate(GateStatus.FAIL, HOSTILE))]))
    case = list(root.iter("testcase"))[1]
    shown = 'a]]>&<b attr="x">\'\\x00\\x1b[31m\\ud800\\ufffe\\n\\t\\u202eé'
    assert case.get("name") == shown
    assert shown in str(case[0].text)


def test_a_command_that_ends_with_an_error_is_an_error() -> None:
    """A report that is missing looks like a test that was not run; this one says why."""
    fault = RunError("E502", "cannot write <x>", where=Place(file="runs"), hint="make room")
    root = read(write_junit_fault(fault))
    assert (root.get("tests"), root.get("errors")) == ("1", "1")
    error = next(root.iter("error"))
    assert error.get("message") == "E502: cannot write <x>"
    assert error.text == "error[E502]: cannot write <x>\n  --> runs\n  = help: make room"
