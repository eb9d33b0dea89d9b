from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import answerkey as ak
from answerkey.run_audit.text import draw_both_rules, draw_imported_verdicts
from answerkey.runs import TaskRun
from answerkey.text import plain_text

EXAMPLE = {
    "sample_id": "s1",
    "completion": "The answer\nis B",
    "predicted_choice": None,
    "their_answer": "B",
}
FOUND: dict[str, Any] = {
    "compared": 10,
    "both_right": 5,
    "both_wrong": 1,
    "only_theirs": {
        "count": 3,
        "reasons": {
            "READ_ALIKE": {"count": 1, "example": EXAMPLE},
            "NOT_A_CHOICE": {"count": 2, "example": EXAMPLE},
        },
    },
    "only_ours": {
        "count": 1,
        "reasons": {
            "THEY_READ_NOTHING": {"count": 1, "example": {**EXAMPLE, "their_answer": None}}
        },
    },
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
                  ours right  ours wrong
  imported right           5           3
  imported wrong           1           1
  the same in 60.00 % of 10 completions; right by the imported verdicts 80.00 %, by ours 60.00 %
  not compared: not judged by them 2
  They say right, we say wrong  count  example  they read  completion
  NOT_A_CHOICE                      2  s1       B          "The answer\\nis B"
  READ_ALIKE                        1  s1       B          "The answer\\nis B"
  READ_ALIKE: both read the same answer; the truths differ
  We say right, they say wrong  count  example  completion
  THEY_READ_NOTHING                 1  s1       "The answer\\nis B"
  THEY_READ_NOTHING: they read no answer
"""


def give(**totals: object) -> TaskRun:
    """Return the task of a small run with more in its tally."""
    run = ak.score(TASK, [{"answer": "A"}], ["A"])
    task = run.tasks["small"]
    return replace(task, totals={**task.totals, "readings": {}, **totals})


def test_their_verdicts_and_ours_are_a_small_table_with_reasons() -> None:
    """The likeliest reason first, and which rules would give their verdict."""
    readers = {"n": 4, "readers": {"leading_label": 1, "Inspect": 3, "HELM": 0}}
    task = give(theirs=FOUND, readings={"theirs": readers})
    assert plain_text(draw_imported_verdicts(task, 100)) == DRAWN


def test_what_is_drawn_is_what_there_is() -> None:
    """Nothing where nobody else has judged.

    No share in a run that is not complete; nothing is made up.
    """
    assert draw_imported_verdicts(give(), 100) == []
    drawn = plain_text(draw_imported_verdicts(give(theirs=FOUND), 100, with_shares=False))
    assert "%" not in drawn
    assert "imported right           5           3" in drawn


def test_what_they_left_open_is_told_where_there_is_nothing_to_compare() -> None:
    """No share of nothing is printed."""
    none = {"count": 0, "reasons": {}}
    empty = {
        "compared": 0,
        "both_right": 0,
        "both_wrong": 0,
        "only_theirs": none,
        "only_ours": none,
    }
    task = give(theirs={**empty, "not_compared": {"NOT_JUDGED": 3}})
    drawn = plain_text(draw_imported_verdicts(task, 100))
    assert drawn == "\n  Imported verdicts and ours\n  not compared: not judged by them 3\n"


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
    pair = "accuracy by first_character 100.00 %, the same by stated_answer"
    drawn = f"on 1,000 samples drawn at random, {pair}"
    assert plain_text(draw_both_rules(whole, 100)) == f"  {drawn}\n"
    assert draw_both_rules(give(), 100) == []
