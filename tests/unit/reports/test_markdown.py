"""Laws of what others read of a run: Markdown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import answerkey as ak
from answerkey.errors import SpecError
from answerkey.reports.markdown import (
    escape_markdown,
    write_markdown,
    write_summary_fault,
)
from answerkey.runs import Run, describe_gates
from answerkey.types import Gate, GateCheck, GateStatus

NEED = {"type": "threshold", "metric": "Accuracy", "operator": ">=", "threshold": 0.8}
IN_MARKDOWN = "| [x](javascript:alert(1)) <script> `*_# www.a.b\n# y"


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
        found = {"gates": describe_gates(gates)} if gates else {}
        return replace(run, manifest={**run.manifest, **times, **found})

    return make


def test_nothing_from_data_is_markdown() -> None:
    """No link, no element, no row, no heading and no address is made of a name or a text."""
    truth = {"ground_truth_choice": "{{ sample.answer }}", "choices": ["A", "B"]}
    scorer = {"type": "string_equals_mcqa", **truth}
    task = {
        "key": "k",
        "display_name": IN_MARKDOWN,
        "description": "",
        "definition": {"scorers": [scorer]},
    }
    rows = [{"answer": "A", "category": IN_MARKDOWN}, {"answer": "B", "category": "x"}]
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


def test_a_command_that_ends_with_an_error_says_so() -> None:
    """The page says why, and what to do."""
    assert write_summary_fault(
        SpecError("E113", "names the metric `x`", hint="did you mean `y`?")
    ) == (
        "## answerkey: ❌ the run did not come to its end\n"
        "\n"
        "error E113: names the metric \\`x\\`\n"
        "\n"
        "What to do: did you mean \\`y\\`?\n"
        "\n"
    )
