from __future__ import annotations

from collections.abc import Callable

from answerkey.reports.comparison import draw_comparison
from answerkey.runs import Run
from answerkey.text import plain_text


def test_runs_stand_side_by_side(make_run: Callable[..., Run]) -> None:
    """One row per run; an incomplete one shows no number."""
    longest = make_run(entry={"model": {"name": "builtin/longest", "simulated": False}})
    text = plain_text(draw_comparison([longest, make_run("incomplete")], 100))
    assert "  mcqa: MCQA Accuracy\n" in text
    assert "  builtin/longest                              50.00 %  [21.52, 78.48]  8" in text
    assert "  builtin/simulated?accuracy=0.8 SIMULATED  incomplete                  8" in text
