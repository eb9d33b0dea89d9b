from __future__ import annotations

import pytest
from tests.samples import read_cases

from answerkey.reader import REASONS
from answerkey.scorers import explain_verdict, judge
from answerkey.types import Completion, CompletionStatus

CASES = read_cases(__file__)

CHOICES = ["A", "B", "C", "D"]


@pytest.mark.parametrize(("extraction", "text", "sentence"), CASES["passages"])
def test_verdicts_are_told_with_their_passage(
    extraction: str | dict[str, str], text: str, sentence: str
) -> None:
    """The sentence says which part of the rule decided, and where in the text."""
    score = judge(text, CHOICES, "B", extraction, ["Sydney", "Canberra", "Melbourne", "Perth"])
    assert explain_verdict(text, CHOICES, score) == sentence


def test_long_passages_are_cut() -> None:
    """The sentence stays short whatever the passage is."""
    text = "answer is " + "x" * 500
    sentence = explain_verdict(
        text, CHOICES, judge(text, CHOICES, "B", {"pattern": "answer is (x+)"})
    )
    assert len(sentence) < 300
    assert "…" in sentence


CHOICES = ["A", "B", "C", "D"]


@pytest.mark.parametrize(
    ("completion", "sentence"),
    [
        *CASES["first_characters"],
        (
            Completion(None, CompletionStatus.REFUSED),
            "INVALID: the provider marked the reply as a refusal, which answers nothing",
        ),
        (
            Completion(None, CompletionStatus.ERROR),
            "ERROR: the call failed, so there is nothing to judge",
        ),
    ],
)
def test_each_verdict_has_one_sentence(completion: str | Completion | None, sentence: str) -> None:
    """The sentence names the character that was read, and the choices where they matter."""
    assert explain_verdict(completion, CHOICES, judge(completion, CHOICES, "B")) == sentence


def test_literal_rule_is_explained_by_its_own_character() -> None:
    """The literal rule looks at white space too, and the sentence says so."""
    score = judge(" B", CHOICES, "B", extraction="first_character_literal")
    assert "the first character, ' '," in explain_verdict(" B", CHOICES, score)


def test_failed_rows_are_the_datasets_fault() -> None:
    """A FAILED row is explained by what is wrong with the row."""
    sentence = explain_verdict("A", CHOICES, judge("A", CHOICES, "E"))
    no_choice = "the ground truth of this row is not one single character out of its choices"
    assert sentence == f"FAILED: {no_choice}"


def test_reasons_stand_in_the_order_in_which_they_are_tried() -> None:
    """The table of reasons is the table of the rule."""
    assert list(REASONS) == [
        "REFUSED",
        "NO_TEXT",
        "EMPTY",
        "TRUNCATED_THINKING",
        "NOT_A_CHOICE",
        "SEVERAL_CHOICES",
        "PART_OF_A_WORD",
        "RUNS_INTO_TEXT",
        "ECHOES_CHOICES",
    ]
