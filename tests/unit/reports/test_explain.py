"""Laws of one sample's way as lines."""

from __future__ import annotations

from typing import Any

import pytest

from answerkey.reports.explain import draw_explained
from answerkey.text import plain_text

SCORED: dict[str, Any] = {
    "status": "SCORED",
    "reason": None,
    "excluded_by": "drop",
    "why": "VALID: because",
}
SCORED |= {"values": {"is_correct": 1.0}, "metadata": {"pred": " C"}}
FAILED: dict[str, Any] = {"status": "FAILED", "reason": "RAISED", "why": None}
FAILED |= {"values": {"x": None}, "metadata": {"note": "why"}}
ROW = {"a": "plain", "b": [1, "x"], "c": " C", "d": "", "e": None, "f": "null"}
PROMPT = [{"role": "user", "content": "What?\n\nAnswer:"}]
SAID = {"completion_status": "OK", "completion": " B.\nBecause", "prompt": PROMPT}
EXCHANGE = "Prompt\n  user\n  | What?\n  |\n  | Answer:\n\nCompletion  OK\n  |  B.\n  | Because\n"
LETTERS = {"scores": {"mcqa": SCORED}, "scorers": {"mcqa": {"display_name": "Letters"}}}
FAILURE = "Score by py (qa: not part of the score)  FAILED\n  reason  RAISED\n  note    why\n"
BLANKS = "Completion  OK\n  | (5,000,000 blank lines)\n  | B\n"
AS_JSON = '  a  plain\n  b  [1, "x"]\n  c  " C"\n  d  ""\n  e  null\n  f  "null"\n'
ABOUT: dict[str, Any] = {
    "run": "r",
    "task": "t",
    "sample_id": "7",
    "where": "d.csv:8",
    "scores": {},
    "scorers": {},
}
ABOUT |= dict.fromkeys(("missing", "sample", "prompt", "completion", "completion_status"))


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        # A list is JSON; a text with blanks at its ends, or none, stands in quotes.
        ({"sample": ROW}, AS_JSON),
        # A text of several lines keeps them below each other, control characters written out.
        ({"sample": {"q": "one\ntwo\x1b[0m"}}, "  q  one\n     two\\x1b[0m\n"),
        # Each message with its role, each line behind a bar, so that blanks at the beginning show.
        (SAID, EXCHANGE),
        # Blank lines are counted where they are many: five million would take minutes.
        ({**SAID, "completion": "\n" * 20 + "B"}, "Completion  OK\n" + "  |\n" * 20 + "  | B\n"),
        ({**SAID, "completion": "\n \n" * 2_500_000 + "B"}, BLANKS),
        ({**SAID, "completion": ""}, "Completion  OK\n  empty text\n"),
        ({**SAID, "completion": None}, "Completion  OK\n  no text\n"),
        # The sentence that explains a verdict comes last; an action that keeps it out is named.
        (LETTERS, 'Score by Letters  SCORED, correct\n  is_correct   1.0\n  pred         " C"\n'),
        (LETTERS, "  excluded by  action `drop`\n  why          VALID: because\n"),
        # Values that were never computed are not listed.
        ({"scores": {"py": FAILED}, "scorers": {"py": {"purpose": "qa"}}}, FAILURE),
    ],
)
def test_a_sample_is_shown_in_full(changes: dict[str, Any], shown: str) -> None:
    """From its row to its scores, nothing cut."""
    assert shown in plain_text(draw_explained({**ABOUT, **changes}, 60))
