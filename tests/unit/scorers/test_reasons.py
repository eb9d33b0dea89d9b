from __future__ import annotations

import pytest

from answerkey.scorers import REASONS, explain_verdict, judge
from answerkey.types import Completion, CompletionStatus

CHOICES = ["A", "B", "C", "D"]


def test_reasons_stand_in_the_order_in_which_they_are_tried() -> None:
    """The table of reasons is the table of the rule."""
    assert list(REASONS) == [
        "REFUSED",
        "NO_TEXT",
        "EMPTY",
        "NOT_A_CHOICE",
        "SEVERAL_CHOICES",
        "PART_OF_A_WORD",
        "RUNS_INTO_TEXT",
        "ECHOES_CHOICES",
    ]


@pytest.mark.parametrize(
    ("completion", "sentence"),
    [
        ("B.", "VALID: the completion begins with 'B', which is the ground truth 'B'"),
        (" A", "VALID: the completion begins with 'A', which is not the ground truth 'B'"),
        (None, "INVALID: there is a reply, but no text in it"),
        (" ", "INVALID: the text is empty or only white space"),
        ("\nE", "INVALID: the first character, 'E', is not one of the choices ['A', 'B', 'C', 'D']"),
        (
            "A or B",
            "INVALID: the completion begins with 'A' joined to another of the choices ['A', 'B', 'C', 'D']",
        ),
        ("Answer: B", "INVALID: 'A' is only the beginning of a longer word or number"),
        ("A good choice", "INVALID: 'A' runs into the words after it: nothing sets it off"),
        (
            "A. x\nB. y\nC. z",
            (
                "INVALID: the completion begins with 'A' and then lists the other choices alike: "
                "it repeats the options"
            ),
        ),
        (
            Completion(None, CompletionStatus.REFUSED),
            "INVALID: the provider marked the reply as a refusal, which answers nothing",
        ),
        (Completion(None, CompletionStatus.ERROR), "ERROR: the call failed, so there is nothing to judge"),
    ],
)
def test_every_verdict_is_explained_in_one_sentence(
    completion: str | Completion | None, sentence: str
) -> None:
    """The sentence names the character that was read, and the choices where they matter."""
    assert explain_verdict(completion, CHOICES, judge(completion, CHOICES, "B")) == sentence


def test_literal_rule_is_explained_by_its_own_character() -> None:
    """The literal rule looks at white space too, and the sentence says so."""
    score = judge(" B", CHOICES, "B", extraction="first_character_literal")
    assert "the first character, ' '," in explain_verdict(" B", CHOICES, score)


def test_failed_rows_are_the_datasets_fault() -> None:
    """A FAILED row is explained by what is wrong with the row."""
    sentence = explain_verdict("A", CHOICES, judge("A", CHOICES, "E"))
    assert sentence == "FAILED: the ground truth of this row is not one single character out of its choices"
