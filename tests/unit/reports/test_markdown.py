"""Laws of the summary as Markdown."""

from __future__ import annotations

from collections.abc import Callable

import answerkey as ak
from answerkey.reports.markdown import write_markdown
from answerkey.runs import Run

HOSTILE = "| [x](javascript:alert(1)) <script> `*_# www.a.b\n# y"


def test_the_page_has_number_tables_and_counts(make_run: Callable[..., Run]) -> None:
    """The number in a sentence, the metrics, what is INVALID, categories and letters as tables."""
    assert write_markdown(make_run()) == (
        "# Demo: complete\n"
        "\n"
        "- SIMULATED: answers made from the key, by no language model\n"
        "- \\`choices\\_field\\` is an old name; write \\`choices\\`\n"
        "\n"
        "## mcqa: Multiple choice\n"
        "\n"
        "**MCQA Accuracy is 50.00 % (95 % interval 21.52 to 78.48) on 8 samples.**\n"
        "\n"
        "Completions of builtin/simulated?accuracy=0.8 SIMULATED on Questions."
        " 10 samples = 9 scored + 1 failed + 0 errors; scored = 6 valid + 3 invalid (refused 1).\n"
        "\n"
        "| metric | value | 95 % interval | n |\n"
        "|---|---:|---:|---:|\n"
        "| MCQA Accuracy | 50.00 % | [21.52, 78.48] | 8 |\n"
        "| is\\_correct\\_std\\_dev | no value |  | 1 |\n"
        "| length | 12.5 |  | 9 |\n"
        "\n"
        "### INVALID by reason\n"
        "\n"
        "| reason | completions |\n"
        "|---|---:|\n"
        "| NOT\\_A\\_CHOICE | 2 |\n"
        "| REFUSED | 1 |\n"
        "\n"
        "### By category\n"
        "\n"
        "| category | value | 95 % interval | n |\n"
        "|---|---:|---:|---:|\n"
        "| history | 60.00 % | \\[23.07, 88.24\\] | 5 |\n"
        "| law | 33.33 % | \\[6.15, 79.23\\] | 3 |\n"
        "\n"
        "### Letters\n"
        "\n"
        "| true \\\\ predicted | A | B | INVALID |\n"
        "|---|---:|---:|---:|\n"
        "| A | 3 | 1 | 1 |\n"
        "| B | 0 | 1 | 2 |\n"
        "\n"
    )


def test_nothing_from_data_is_markdown() -> None:
    """No link, no element, no row, no heading and no address is made of a name or a text."""
    scorer = {
        "type": "string_equals_mcqa",
        "ground_truth_choice": "{{ sample.answer }}",
        "choices": ["A", "B"],
    }
    task = {"key": "k", "display_name": HOSTILE, "description": "", "definition": {"scorers": [scorer]}}
    rows = [{"answer": "A", "category": HOSTILE}, {"answer": "B", "category": "x"}]
    page = write_markdown(ak.score(task, rows, ["A", HOSTILE]))
    assert "<script>" not in page
    assert "](" not in page.replace("\\](", "")
    assert "www.a" not in page
    assert "\n# y" not in page
    assert page.count("\n## ") == 1


def test_an_incomplete_run_has_no_number(make_run: Callable[..., Run]) -> None:
    """Counts and reasons, no share."""
    page = write_markdown(make_run("incomplete"))
    assert "INCOMPLETE" in page
    assert "50.00 %" not in page
    assert "| NOT\\_A\\_CHOICE | 2 |" in page
