from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import answerkey as ak
from answerkey.run_audit.text import draw_both_rules, draw_imported_verdicts
from answerkey.runs import TaskRun
from answerkey.text import plain_text

FOUND: dict[str, Any] = {
    "compared": 10,
    "both_right": 5,
    "both_wrong": 1,
    "only_theirs": 3,
    "only_ours": 1,
    "not_compared": {"NOT_JUDGED": 2},
}
TASK: dict[str, Any] = {
    "key": "small",
    "display_name": "Small",
    "description": "One question.",
    "definition": {
        "scorers": [
            {
                "type": "string_equals_mcqa",
                "ground_truth_choice": "{{ sample.answer }}",
                "choices": ["A", "B"],
            }
        ]
    },
}
DRAWN = """
  Imported verdicts and ours
  the same in 60.00 % of 10 completions; right by the imported verdicts 80.00 %, by ours 60.00 %
  not compared: NOT_JUDGED 2
  They say right, we say wrong: 3 completions
  We say right, they say wrong: 1 completion
"""


def give(**totals: object) -> TaskRun:
    """Return the task of a small run with more in its tally."""
    run = ak.score(TASK, [{"answer": "A"}], ["A"])
    task = run.tasks["small"]
    return replace(task, totals={**task.totals, "readings": {}, **totals})


def test_their_verdicts_and_ours_are_compared() -> None:
    """No share in a run that is not complete, nothing without them."""
    assert plain_text(draw_imported_verdicts(give(theirs=FOUND), 100)) == DRAWN
    assert "%" not in plain_text(draw_imported_verdicts(give(theirs=FOUND), 100, with_shares=False))
    assert draw_imported_verdicts(give(), 100) == []


REPLIES = ["A", "The answer is A.", "B", "Who knows?"]


@pytest.mark.parametrize(
    ("extraction", "line"),
    [
        (None, "accuracy by first_character 25.00 %, by stated_answer 50.00 %"),
        ("stated_answer", "accuracy by stated_answer 50.00 %, by first_character 25.00 %"),
        (
            {"pattern": "^([AB])"},
            "accuracy by pattern 25.00 %, by first_character 25.00 %, by stated_answer 50.00 %",
        ),
    ],
)
def test_every_summary_has_the_number_by_both_rules(extraction: object, line: str) -> None:
    """The run's own first; what neither rule is comes beside both."""
    scorer = TASK["definition"]["scorers"][0] | (
        {} if extraction is None else {"extraction": extraction}
    )
    run = ak.score(TASK | {"definition": {"scorers": [scorer]}}, [{"answer": "A"}] * 4, REPLIES)
    assert plain_text(draw_both_rules(run.tasks["small"], 100)) == f"  {line}\n"
    assert f"\n  {line}\n" in str(run)


def test_a_number_of_some_samples_says_so() -> None:
    """All rules are compared on the same samples.

    Without a choice that is read there is no line.
    """
    whole = ak.score(TASK, [{"answer": "A"}] * 1_001, ["A"] * 1_001).tasks["small"]
    pair = "accuracy by first_character 100.00 %, by stated_answer 100.00 %"
    drawn = f"on 1,000 samples drawn at random, {pair}"
    assert plain_text(draw_both_rules(whole, 100)) == f"  {drawn}\n"
    assert draw_both_rules(give(), 100) == []
