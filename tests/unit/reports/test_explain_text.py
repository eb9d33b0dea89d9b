from __future__ import annotations

from answerkey.reports.explain import Explained, Verdict
from answerkey.reports.explain_text import draw_explained
from answerkey.text import plain_text
from answerkey.types import Completion

SCORED = {
    "status": "SCORED",
    "reason": None,
    "values": {"is_correct": 1.0},
    "metadata": {"answer_pred": " C"},
}
FAILED = {"status": "FAILED", "reason": "SNIPPET_FAILED", "values": {"x": None}, "metadata": {"note": "why"}}


def draw(row: dict[str, object], completion: Completion | None = None, *verdicts: Verdict) -> str:
    """Return a sample's way as text."""
    return plain_text(draw_explained(Explained("run", "task", "7", "d.csv:8", row, completion, verdicts), 60))


def test_text_is_shown_as_it_is_and_other_values_as_json() -> None:
    """A list is JSON; a text with blanks at its ends, or none, stands in quotes."""
    shown = draw({"a": "plain", "b": [1, "x"], "c": " C", "d": "", "e": None, "f": "null"})
    assert '  a  plain\n  b  [1, "x"]\n  c  " C"\n  d  ""\n  e  null\n  f  "null"\n' in shown


def test_lines_of_a_cell_stay_lines() -> None:
    """A text of several lines keeps them below each other, control characters written out."""
    assert "  q  one\n     two\\x1b[0m\n" in draw({"q": "one\ntwo\x1b[0m"})


def test_prompt_and_completion_are_shown_in_full() -> None:
    """Each message with its role, each line behind a bar, so that blanks at the beginning show."""
    said = Completion(" B.\nBecause", prompt=[{"role": "user", "content": "What?\n\nAnswer:"}])
    assert "Prompt\n  user\n  | What?\n  |\n  | Answer:\n\nCompletion  OK\n  |  B.\n  | Because\n" in draw(
        {}, said
    )


def test_an_empty_completion_is_said() -> None:
    """Nothing to see is told in words."""
    assert "Completion  OK\n  empty text\n" in draw({}, Completion(""))


def test_a_verdict_has_values_metadata_and_why() -> None:
    """The sentence that explains it comes last; an action that keeps it out is named."""
    verdict = Verdict(
        "mcqa", {"display_name": "Letters"}, {**SCORED, "excluded_by": "drop"}, "VALID: because"
    )
    assert draw({}, None, verdict).endswith(
        'Score by Letters  SCORED, correct\n  is_correct   1.0\n  answer_pred  " C"\n'
        "  kept out of the metrics by action `drop`\n  why  VALID: because\n"
    )


def test_a_failed_score_shows_its_reason_and_what_is_known() -> None:
    """Values that were never computed are not listed."""
    shown = draw({}, None, Verdict("py", {"purpose": "qa"}, FAILED))
    assert shown.endswith(
        "Score by py (qa: not part of the score)  FAILED\n  reason  SNIPPET_FAILED\n  note    why\n"
    )
