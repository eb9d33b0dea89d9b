"""Nothing gets past the viewer's guard, and no name breaks what others read of gates."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import fromstring

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.errors import ServeError
from answerkey.reports.markdown import escape_markdown, write_junit, write_markdown
from answerkey.runs import Run, describe_gates, start_run
from answerkey.types import Gate, GateCheck, GateStatus
from answerkey.viewer.catalog import Catalog
from answerkey.viewer.guard import Guard, PageRequest, RequestTarget
from answerkey.viewer.server import read_api

TOKEN = "a-token-of-the-tests"  # noqa: S105 - of the tests
GUARD = Guard(TOKEN, 8765)
#: A folder without any run.
CATALOG = Catalog(Path(__file__).parent)
HOST, GIVEN = ("Host", "127.0.0.1:8765"), ("X-Answerkey-Token", TOKEN)
SIGNS = r"/ // .. . %2e %2f %5c \ %00 %252e ; ~ : * & = ? #"
MARKS = SIGNS.split()
WORDS = ["C:", "etc", "passwd", "api", "runs", "tasks", "0", "r1", "rows", "token"]
PIECES = st.sampled_from([*MARKS, *WORDS, " ", "\n", "\x00", "\u2025", "\uff0e"])
TARGETS = st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=12).map("".join), PIECES)
METHODS = st.one_of(st.sampled_from(["GET", "PUT", "POST", "OPTIONS", "HEAD"]), st.text(max_size=8))


def admit(request: PageRequest) -> RequestTarget | None:
    """Return what is let in; None for a refusal, which is the only other thing that may happen."""
    try:
        return GUARD.admit(request)
    except ServeError:
        return None


@given(method=METHODS, target=TARGETS)
def test_what_is_let_in_is_plain(method: str, target: str) -> None:
    """Parts of letters, digits, `-` and `_`; then either a list of runs, here none, or a
    refusal.
    """
    result = admit(PageRequest(method, target, [HOST, GIVEN, ("Content-Length", "0")]))
    if result is None:
        return
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", part, re.ASCII) for part in result.parts)
    assert target.partition("?")[0] == "/" + "/".join(result.parts)
    try:
        answer = read_api(CATALOG, result)
    except ServeError as error:
        assert error.status in {400, 404}  # noqa: PT017 - either outcome is lawful
    else:
        assert isinstance(answer, dict)
        assert (result.parts, answer["runs"]) == (("api", "runs"), [])


@given(
    host=st.one_of(st.text(max_size=30), st.lists(PIECES, max_size=4).map("".join)), target=TARGETS
)
def test_no_other_host_is_let_in(host: str, target: str) -> None:
    """But for the two names there are, in any case, with the port."""
    if host.strip().lower() not in {"127.0.0.1:8765", "localhost:8765"}:
        assert admit(PageRequest("GET", target, [("Host", host), GIVEN])) is None


@given(token=st.text(max_size=30), target=TARGETS)
def test_no_other_token_is_let_in(token: str, target: str) -> None:
    """Whatever is asked for."""
    if token.strip() != TOKEN:
        assert admit(PageRequest("GET", target, [HOST, ("X-Answerkey-Token", token)])) is None


@given(
    headers=st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=6),
    method=METHODS,
)
def test_no_headers_are_a_bug(headers: list[tuple[str, str]], method: str) -> None:
    """Each request is let in or refused, never more."""
    with pytest.raises(ServeError):
        GUARD.admit(PageRequest(method, "/api/runs", headers))


# Names in the texts of gates.

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
