"""Names of any kind cannot break what others read of gates."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree.ElementTree import fromstring

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from answerkey.reports.markdown import escape_markdown, write_junit, write_markdown
from answerkey.runs import Run, describe_gates, start_run
from answerkey.types import Gate, GateCheck, GateStatus

TEXTS = st.text(st.characters(), max_size=40)
NEED = {"type": "threshold", "metric": "m", "operator": ">=", "threshold": 0.8}


def make_run(name: str, note: str | None) -> Run:
    """Return a run with one gate, all of whose names are `name`."""
    writing = start_run(None, {"key": name, "display_name": name, "tasks": [], "notices": []}, {})
    writing.task("t").write_part("scores", 0, pl.DataFrame())
    check = GateCheck(name, name, GateStatus.FAIL, 0.5, 0.5, note=note)
    gate = Gate(name, name, GateStatus.FAIL, {**NEED, "metric": name}, name, checks=(check,))
    run = writing.finish("complete", {})
    return replace(run, manifest={**run.manifest, "gates": describe_gates([gate])})


@given(TEXTS, st.none() | TEXTS)
def test_junit_is_xml_whatever_the_names_are(name: str, note: str | None) -> None:
    """Any reader takes the document, and finds the two cases."""
    root = fromstring(write_junit([make_run(name, note)]).encode("utf-8"))  # noqa: S314 - our own document
    assert root.get("failures") == "1"
    assert len(list(root.iter("testcase"))) == 2


@given(TEXTS)
def test_a_name_is_one_cell_of_a_table(name: str) -> None:
    """No line end and no bare bar, mark or tag comes through."""
    shown = escape_markdown(name)
    assert "\n" not in shown
    assert not re.search(r"(?<!\\)(\\\\)*[|`*_\[\]<>]", shown)


@given(TEXTS)
def test_the_page_has_the_rows_that_it_should_have(name: str) -> None:
    """Heading, head and ruler of the table, and one row of three cells."""
    page = write_markdown([make_run(name, None)])
    rows = [line for line in page.split("\n") if line.startswith("|")]
    assert len(rows) == 3
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", rows[2])) == 4
