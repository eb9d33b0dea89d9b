from __future__ import annotations

from collections.abc import Callable

from answerkey.reports.notebook import to_html, to_text
from answerkey.runs import Run


def test_a_notebook_shows_the_summary(make_run: Callable[..., Run]) -> None:
    """The text is the summary, and opens below the HTML; nothing from data is markup."""
    categories = {"<script>alert(1)</script>": {"n": 1, "correct": 1, "partial": 0}}
    run = make_run(tally={"categories": categories})
    assert "MCQA Accuracy        50.00 %" in to_text(run)
    assert "<script>" not in to_html(run)
    assert to_html(run).startswith("<div ")
    assert "MCQA Accuracy        50.00 %" in to_html(run)
