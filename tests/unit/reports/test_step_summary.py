"""Laws of the Markdown for a job's summary page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from answerkey.errors import SpecError
from answerkey.reports.step_summary import escape_markdown, write_step_summary, write_summary_fault
from answerkey.runs import Run, describe_gates
from answerkey.types import Gate, GateCheck, GateStatus

NEED = {"type": "threshold", "metric": "Accuracy", "operator": ">=", "threshold": 0.8}


def make_gate(status: GateStatus, name: str = "High") -> Gate:
    """Return a gate with one check."""
    check = GateCheck("mcqa", "Accuracy", status, 0.75, 0.75, n=100, is_share=True)
    return Gate("release", "high", status, NEED, name, checks=(check,))


def with_gates(run: Run, *gates: Gate) -> Run:
    """Return a run that has these gates."""
    return replace(run, manifest={**run.manifest, "gates": describe_gates(gates)})


def test_the_page_has_gates_then_numbers(make_run: Callable[..., Run]) -> None:
    """The verdict in the heading, a table of gates, a table of metrics for each task, the counts."""
    run = with_gates(make_run(), make_gate(GateStatus.PASS), make_gate(GateStatus.FAIL, "Sure | true"))
    assert write_step_summary([run]) == (
        "## Demo: ❌ FAIL\n"
        "\n"
        "1 of 2 passed, 1 failed.\n"
        "\n"
        "| | gate | measured |\n"
        "|---|---|---|\n"
        "| ✅ PASS | High (high) | Accuracy is 75.00 % (n 100), at least 80.00 % |\n"
        "| ❌ FAIL | Sure \\| true (high) | Accuracy is 75.00 % (n 100); needed: at least 80.00 %<br>"
        "*\\`answerkey show RUN\\` says what stands behind the value* |\n"
        "\n"
        "### mcqa: Multiple choice\n"
        "\n"
        "Completions of builtin/simulated?accuracy=0.8 SIMULATED.\n"
        "\n"
        "| metric | value | 95 % interval | n |\n"
        "|---|---:|---:|---:|\n"
        "| MCQA Accuracy | 50.00 % | [21.52, 78.48] | 8 |\n"
        "| is\\_correct\\_std\\_dev | no value |  | 1 |\n"
        "| length | 12.5 |  | 9 |\n"
        "\n"
        "10 samples = 9 scored + 1 failed + 0 errors; scored = 6 valid + 3 invalid (refused 1).\n"
        "\n"
    )


def test_an_incomplete_run_shows_no_number(make_run: Callable[..., Run]) -> None:
    """A share of the rest says nothing about the whole."""
    page = write_step_summary([make_run("incomplete")])
    assert page.startswith("## Demo: incomplete\n")
    assert "INCOMPLETE: the rest of the run is not complete, so that no number is shown." in page
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
    ],
)
def test_text_is_shown_as_it_is(text: str, shown: str) -> None:
    """Nothing in a name is Markdown, HTML, a mention or a formula, and no name ends a row."""
    assert escape_markdown(text) == shown


def test_a_very_long_name_is_cut() -> None:
    """The page of a job has a limit."""
    assert len(escape_markdown("x" * 5000)) == 300
    assert escape_markdown("x" * 5000).endswith("…")


def test_many_gates_are_counted(make_run: Callable[..., Run]) -> None:
    """Rows beyond the two hundredth are only counted."""
    page = write_step_summary([with_gates(make_run(), *[make_gate(GateStatus.PASS)] * 203)])
    assert page.count("| ✅ PASS |") == 200
    assert "| | and 3 more | |\n" in page


def test_an_error_has_a_page_of_its_own() -> None:
    """What kept the run from its end, and what to do."""
    error = SpecError("E113", "names the metric `x`", hint="did you mean `y`?")
    assert write_summary_fault(error) == (
        "## answerkey: ❌ the run did not come to its end\n"
        "\n"
        "error E113: names the metric \\`x\\`\n"
        "\n"
        "What to do: did you mean \\`y\\`?\n"
        "\n"
    )
